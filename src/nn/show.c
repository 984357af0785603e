/* What a module shows of itself: its text as PyTorch prints it, and its state by name. */
#include "nn.h"

/* ---- text ----------------------------------------------------------------------------------- */

/* Adds text with every line but the first moved two blanks to the right. */
static void put_indented(cfx__text *out, const char *text, size_t len) {
    for (const char *end = text + len; text < end;) {
        const char *line = memchr(text, '\n', (size_t)(end - text));
        size_t n = line ? (size_t)(line - text) + 1 : (size_t)(end - text);
        cfx__text_add(out, text, n);
        if (line)
            cfx__text_puts(out, "  ");
        text += n;
    }
}

/* A list that shows equal neighbours once prints "(0-2): 3 x ..."; else one line each. */
static bool folds(const cfx_module *m) { return !strcmp(m->type, "ModuleList"); }

static void put_module(cfx__text *out, const cfx_module *m);

/* Children first..last, which all print as `text`. */
static void put_run(cfx__text *out, const cfx_module *m, int first, int last,
                    const cfx__text *text) {
    cfx__text_puts(out, "\n  (");
    if (folds(m) && first < last)
        cfx__text_printf(out, "%d-%d): %d x ", first, last, last - first + 1);
    else if (folds(m))
        cfx__text_printf(out, "%d): ", first);
    else
        cfx__text_printf(out, "%s): ", cfx_module_child_name(m, first));
    put_indented(out, text->data, text->len);
}

static void put_children(cfx__text *out, const cfx_module *m) {
    cfx__text run = {0}, next = {0};
    int first = 0, n = cfx_module_count(m);
    for (int i = 0; i < n; i++) {
        next.len = 0;
        put_module(&next, cfx_module_child(m, i));
        bool same =
            i > first && folds(m) && run.len == next.len && !memcmp(run.data, next.data, run.len);
        if (i > first && !same) {
            put_run(out, m, first, i - 1, &run);
            first = i;
        }
        if (!same) {
            cfx__text swap = run;
            run = next;
            next = swap;
        }
    }
    if (n)
        put_run(out, m, first, n - 1, &run);
    cfx__text_release(&run);
    cfx__text_release(&next);
}

static void put_module(cfx__text *out, const cfx_module *m) {
    size_t mark = cfx_scope_open();
    const char *extra = m->extra_repr ? m->extra_repr(m) : NULL;
    bool some = extra && *extra, one_line = some && !strchr(extra, '\n') && !cfx_module_count(m);
    cfx__text_printf(out, "%s(", m->type);
    if (one_line) {
        cfx__text_puts(out, extra);
    } else {
        if (some) {
            cfx__text_puts(out, "\n  ");
            put_indented(out, extra, strlen(extra));
        }
        put_children(out, m);
        if (some || cfx_module_count(m))
            cfx__text_putc(out, '\n');
    }
    cfx__text_putc(out, ')');
    cfx_scope_close(mark);
}

const char *cfx_module_str(const cfx_module *m) {
    cfx__text out = {0};
    if (m)
        put_module(&out, m);
    else
        cfx__text_puts(&out, "None");
    return cfx__text_take(&out);
}

/* ---- state ---------------------------------------------------------------------------------- */

typedef struct listing {
    cfx_dict *out;
    cfx_dict *seen; /* tensors listed already; NULL: every name is listed */
    cfx_named what;
    bool recurse;
    cfx__text path;
} listing;

static void list_tensors(listing *l, const cfx_dict *d, const cfx_dict *without) {
    size_t len = l->path.len;
    for (int64_t i = 0; i < d->len; i++) {
        cfx_value key = d->entries[i].key, v = d->entries[i].value;
        if (v.tag != CFX_TAG_TENSOR || (without && cfx_dict_find(without, key)))
            continue;
        if (l->seen) {
            if (cfx_dict_find(l->seen, v))
                continue;
            cfx_dict_put(l->seen, v, cfx_none());
        }
        cfx__text_puts(&l->path, cfx_text(key));
        cfx_dict_set(l->out, l->path.data, v);
        l->path.len = len;
    }
}

static void list_module(listing *l, const cfx_module *m) {
    if (l->what & CFX_NAMED_PARAMETERS)
        list_tensors(l, m->parameters, NULL);
    if (l->what & CFX_NAMED_BUFFERS)
        list_tensors(l, m->buffers, l->what == CFX_NAMED_STATE ? m->own_->transient : NULL);
    size_t len = l->path.len;
    for (int i = 0; l->recurse && i < cfx_module_count(m); i++) {
        cfx__text_printf(&l->path, "%s.", cfx_module_child_name(m, i));
        list_module(l, cfx_module_child(m, i));
        l->path.len = len;
    }
}

cfx_dict *cfx_module_named(const cfx_module *m, cfx_named what, const char *prefix, bool recurse) {
    cfx_dict *out = cfx_dict_new();
    size_t mark = cfx_scope_open();
    listing l = {.out = out, .seen = what == CFX_NAMED_STATE ? NULL : cfx_dict_new(), .what = what,
                 .recurse = recurse};
    cfx__text_puts(&l.path, prefix ? prefix : "");
    if (m)
        list_module(&l, m);
    else
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "the module is NULL");
    cfx__text_release(&l.path);
    cfx_scope_close(mark);
    return out;
}

cfx_dict *cfx_module_named_parameters(const cfx_module *m) {
    return cfx_module_named(m, CFX_NAMED_PARAMETERS, NULL, true);
}

cfx_dict *cfx_module_named_buffers(const cfx_module *m) {
    return cfx_module_named(m, CFX_NAMED_BUFFERS, NULL, true);
}

cfx_dict *cfx_module_state_dict(const cfx_module *m) {
    return cfx_module_named(m, CFX_NAMED_STATE, NULL, true);
}

/* ---- load ----------------------------------------------------------------------------------- */

/* The names of `have` that `other` lacks, as PyTorch lists them: "a", "b". */
static void put_missing(cfx__text *out, const char *what, const cfx_dict *have,
                        const cfx_dict *other) {
    bool any = false;
    for (int64_t i = 0; i < have->len; i++) {
        if (cfx_dict_find(other, have->entries[i].key))
            continue;
        if (any)
            cfx__text_puts(out, ", ");
        else
            cfx__text_printf(out, "\n\t%s key(s) in state_dict: ", what);
        cfx__text_printf(out, "\"%s\"", cfx_value_str(have->entries[i].key));
        any = true;
    }
    if (any)
        cfx__text_puts(out, ". ");
}

static void put_mismatches(cfx__text *out, const cfx_dict *own, const cfx_dict *state) {
    for (int64_t i = 0; i < own->len; i++) {
        const cfx_value *v = cfx_dict_find(state, own->entries[i].key);
        const char *name = cfx_text(own->entries[i].key);
        const cfx_tensor *mine = cfx_as_tensor(own->entries[i].value);
        if (v && v->tag != CFX_TAG_TENSOR)
            cfx__text_printf(out,
                             "\n\tWhile copying the parameter named \"%s\", expected torch.Tensor "
                             "or Tensor-like object from checkpoint but received %s",
                             name, cfx__value_python_type(*v));
        else if (v && !cfx__tensor_same_shape(mine, cfx_as_tensor(*v)))
            cfx__text_printf(out,
                             "\n\tsize mismatch for %s: copying a param with shape torch.Size(%s) "
                             "from checkpoint, the shape in current model is torch.Size(%s).",
                             name,
                             cfx__shape_text(cfx_as_tensor(*v)->ndim, cfx_as_tensor(*v)->shape),
                             cfx__shape_text(mine->ndim, mine->shape));
    }
}

static cfx_value keys_without(const cfx_dict *have, const cfx_dict *other) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; have && i < have->len; i++)
        if (!cfx_dict_find(other, have->entries[i].key))
            cfx_list_append(cfx_as_list(list), have->entries[i].key);
    return list;
}

cfx_value cfx_module_state_keys(const cfx_module *m, const cfx_dict *state) {
    cfx_dict *own = cfx_module_state_dict(m);
    return cfx_tuple(keys_without(own, state), keys_without(state, own));
}

bool cfx_module_load_state_dict_from(cfx_site at, cfx_module *m, const cfx_dict *state,
                                     bool strict) {
    if (!cfx__module_given(m) || !state) {
        cfx_fail(CFX_TYPE_ERROR, at, "the state dict is NULL");
        return false;
    }
    size_t mark = cfx_scope_open();
    cfx_dict *own = cfx_module_state_dict(m);
    cfx__text wrong = {0};
    if (strict) {
        put_missing(&wrong, "Missing", own, state);
        put_missing(&wrong, "Unexpected", state, own);
    }
    put_mismatches(&wrong, own, state);
    bool good = !wrong.len;
    if (!good)
        cfx__fail_lines(CFX_RUNTIME_ERROR, at, "Error(s) in loading state_dict for %s:%s", m->type,
                        wrong.data);
    cfx__text_release(&wrong);
    for (int64_t i = 0; good && i < own->len; i++) {
        const cfx_value *v = cfx_dict_find(state, own->entries[i].key);
        cfx_tensor *mine = cfx_as_tensor(own->entries[i].value);
        if (v && mine->data && cfx_as_tensor(*v)->data) {
            cfx__tensor_copy(mine, cfx_as_tensor(*v));
            mine->storage->version++;
        } else if (v && mine->numel)
            cfx_module_set_attr(m, cfx_text(own->entries[i].key), *v);
    }
    cfx_scope_close(mark);
    return good;
}
