/* What forward assigns to attributes while it is exported. To a buffer it is a write, which the
 * program does too when all else is done; the model has what it had before. A result that is what
 * a buffer was is copied first. A tensor assigned to another attribute would be lost, and is
 * refused in PyTorch's words. */
#include <cfx/ops.h>

#include "export.h"

static cfx_dict *copied(const cfx_dict *d) {
    cfx_dict *copy = cfx_dict_new();
    for (int64_t i = 0; i < d->len; i++)
        cfx_dict_put(copy, d->entries[i].key, d->entries[i].value);
    return copy;
}

static void note(const char *path, cfx_module *m, void *user) {
    cfx__before *b = user;
    struct cfx__held one = {cfx_keep(m), cfx__text_copy(path, strlen(path)),
                            cfx_keep(copied(m->buffers)),
                            {cfx_keep(copied(m->parameters)), cfx_keep(copied(m->attrs))}};
    VEC_PUSH(*b, one);
}

void cfx__assigned_begin(cfx__before *b, cfx_module *root) {
    size_t mark = cfx_scope_open();
    cfx_module_walk(root, note, b);
    cfx_scope_close(mark);
}

static bool is_other(const cfx_value *was, cfx_value now) {
    return now.tag == CFX_TAG_TENSOR &&
           (!was || was->tag != CFX_TAG_TENSOR || cfx_as_tensor(*was) != cfx_as_tensor(now));
}

static void name_others(const struct cfx__held *h, const cfx_dict *was, const cfx_dict *all,
                        cfx_list *names) {
    for (int64_t i = 0; i < all->len; i++) {
        const struct cfx_entry *now = &all->entries[i];
        const char *dot = *h->path ? "." : "", *name = cfx_text(now->key);
        if (is_other(cfx_dict_find(was, now->key), now->value))
            cfx_list_append(names,
                            cfx_string_value(cfx__text_format("self%s%s.%s", dot, h->path, name)));
    }
}

/* Pairs (buffer, what was assigned to it); and the names of other attributes. */
static cfx_list *changes(const cfx__before *b, cfx_list *names) {
    cfx_list *pairs = cfx_as_list(cfx_list_value(0, NULL));
    for (size_t i = 0; i < b->len; i++) {
        const struct cfx__held *h = &b->data[i];
        for (int64_t k = 0; k < h->buffers->len; k++) {
            const struct cfx_entry *was = &h->buffers->entries[k];
            const cfx_value *now = cfx_dict_find(h->module->buffers, was->key);
            if (now && was->value.tag == CFX_TAG_TENSOR && is_other(&was->value, *now))
                cfx_list_append(pairs, cfx_tuple(was->value, *now));
        }
        name_others(h, h->others[0], h->module->parameters, names);
        name_others(h, h->others[1], h->module->attrs, names);
    }
    return pairs;
}

static void restore_others(const cfx_dict *before, cfx_dict *all) {
    const cfx_dict *now = copied(all);
    for (int64_t i = 0; i < now->len; i++) {
        const cfx_value key = now->entries[i].key, *was = cfx_dict_find(before, key);
        if (!is_other(was, now->entries[i].value))
            continue;
        if (was)
            cfx_dict_put(all, key, *was);
        else
            cfx_dict_remove(all, key);
    }
}

/* The model has its tensors again. */
static void restore(const cfx__before *b) {
    for (size_t i = 0; i < b->len; i++) {
        const struct cfx__held *h = &b->data[i];
        for (int64_t k = 0; k < h->buffers->len; k++)
            if (cfx_dict_find(h->module->buffers, h->buffers->entries[k].key))
                cfx_dict_put(h->module->buffers, h->buffers->entries[k].key,
                             h->buffers->entries[k].value);
        restore_others(h->others[0], h->module->parameters);
        restore_others(h->others[1], h->module->attrs);
    }
}

/* The placeholder that a value is, or is a view of; NULL: none. */
static const cfx_node *viewed(cfx__export *e, cfx_value v) {
    cfx_value arg = v.tag == CFX_TAG_TENSOR ? cfx__record_arg(&e->recorder, (cfx_site){0}, v)
                                            : cfx_none();
    const cfx_node *n = arg.tag == CFX_TAG_NODE ? cfx_as_node(arg) : NULL;
    while (n && n->op == CFX_CALL_FUNCTION && n->target.op && cfx__op_shares(n->target.op, 0))
        n = cfx_node_input(n, 0);
    return n && n->op == CFX_PLACEHOLDER ? n : NULL;
}

/* v, or a copy of it where it is a buffer that is written to, or a view of one. */
static cfx_value apart(cfx__export *e, cfx_value v, const cfx_list *written) {
    const cfx_node *of = written->len ? viewed(e, v) : NULL;
    for (int64_t i = 0; of && i < written->len; i++)
        if (viewed(e, written->items[i]) == of)
            return cfx_tensor_value(cfx_clone(v));
    return v;
}

static void tell(const cfx_list *names) {
    cfx__text all = {0};
    for (int64_t i = 0; i < names->len; i++)
        cfx__text_printf(&all, "%s%s", i ? ", " : "", cfx_text(names->items[i]));
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "The tensor attribute%s %s assigned during export. Such attributes must be registered "
             "as buffers using the `register_buffer` API "
             "(https://pytorch.org/docs/stable/generated/torch.nn.Module.html"
             "#torch.nn.Module.register_buffer).",
             names->len > 1 ? "s" : "",
             cfx__text_format("%s %s", cfx__text_take(&all), names->len > 1 ? "were" : "was"));
}

void cfx__assigned_end(cfx__export *e, cfx__before *b, cfx_list *results) {
    size_t mark = cfx_scope_open();
    cfx_list *names = cfx_as_list(cfx_list_value(0, NULL)), *pairs = changes(b, names);
    cfx_list *written = cfx_as_list(cfx_list_value(0, NULL));
    cfx_list *values = cfx_as_list(cfx_list_value(0, NULL));
    restore(b);
    if (cfx_ok() && names->len)
        tell(names);
    for (int64_t i = 0; i < pairs->len && cfx_ok(); i++)
        cfx_list_append(written, cfx__export_known(e, cfx_at(pairs->items[i], 0)));
    for (int64_t i = 0; i < results->len && cfx_ok(); i++) {
        cfx_value own = cfx_value_keep(apart(e, results->items[i], written));
        cfx_value_drop(results->items[i]);
        results->items[i] = own;
    }
    for (int64_t i = 0; i < pairs->len && cfx_ok(); i++) /* two may change places */
        cfx_list_append(values, apart(e, cfx_at(pairs->items[i], 1), written));
    for (int64_t i = 0; i < pairs->len && cfx_ok(); i++)
        cfx_copy_(written->items[i], values->items[i]);
    for (size_t i = 0; i < b->len; i++) {
        cfx_drop(b->data[i].module), cfx_drop(b->data[i].buffers);
        cfx_drop(b->data[i].others[0]), cfx_drop(b->data[i].others[1]);
        cfx__free(b->data[i].path);
    }
    VEC_FREE(*b);
    cfx_scope_close(mark);
}
