/* Deep copies of modules: what Python's copy.deepcopy gives. What is one thing in the original, a
 * tensor or a child with two names, is one thing in the copy. Start at cfx_module_copy. */
#include <cfx/ops.h>

#include "nn.h"

/* What has been copied so far: the address of the original to its copy. */
typedef struct copying {
    cfx_dict *done;
} copying;

static cfx_value address(const void *p) { return cfx_int((int64_t)(intptr_t)p); }

static cfx_value copy_value(copying *c, cfx_value v);
static cfx_module *copy_module(copying *c, const cfx_module *m);

static cfx_value copy_tensor(copying *c, cfx_value v) {
    const cfx_value *done = cfx_dict_find(c->done, address(cfx_as_tensor(v)));
    if (done)
        return *done;
    cfx_grad_mode mode = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_tensor *t = cfx_clone(v);
    cfx_set_grad_mode(mode);
    if (!cfx__obj_is_bad(t) && cfx_tensor_requires_grad(cfx_as_tensor(v)))
        cfx_requires_grad(t, true);
    cfx_dict_put(c->done, address(cfx_as_tensor(v)), cfx_tensor_value(t));
    return cfx_tensor_value(t);
}

static cfx_value copy_dict(copying *c, cfx_value v) {
    cfx_dict *d = cfx_dict_new();
    for (int64_t i = 0; i < cfx_as_dict(v)->len; i++)
        cfx_dict_put(d, cfx_as_dict(v)->entries[i].key,
                     copy_value(c, cfx_as_dict(v)->entries[i].value));
    return cfx_dict_value(d);
}

static cfx_value copy_value(copying *c, cfx_value v) {
    switch (v.tag) {
    case CFX_TAG_TENSOR: return copy_tensor(c, v);
    case CFX_TAG_MODULE: return cfx_module_value(copy_module(c, cfx_as_module(v)));
    case CFX_TAG_DICT: return copy_dict(c, v);
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: {
        cfx_value out = cfx__value_like(v);
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            cfx_list_append(cfx_as_list(out), copy_value(c, cfx_as_list(v)->items[i]));
        return out;
    }
    default: return v;
    }
}

/* Copies the entries of a dict of the module into the same dict of its copy. */
static void copy_entries(copying *c, cfx_dict *to, const cfx_dict *from) {
    for (int64_t i = 0; from && i < from->len; i++)
        cfx_dict_put(to, from->entries[i].key, copy_value(c, from->entries[i].value));
}

/* A module of the same kind, with nothing in it. */
static cfx_module *empty_like(const cfx_module *m) {
    const struct cfx__module *own = m->own_;
    cfx_module *copy = own->raw ? cfx__module_new_raw(m->type, own->forward.args)
                                : cfx_module_new_n(m->type, NULL, m->signature);
    copy->own_->arity = own->arity;
    copy->own_->forward = own->forward;
    copy->own_->layer = own->layer;
    copy->path = cfx__module_text(copy, m->path);
    copy->training = m->training;
    copy->leaf = m->leaf;
    copy->impure = m->impure;
    copy->user = m->user;
    copy->own_->object = cfx_keep(own->object);
    copy->extra_repr = m->extra_repr;
    return copy;
}

static void copy_hooks(cfx_module *to, const cfx_module *from) {
    for (size_t i = 0; i < from->own_->hooks.len; i++)
        cfx__hook_copy(to, from->own_->hooks.data[i]);
}

static cfx_module *copy_module(copying *c, const cfx_module *m) {
    const cfx_value *done = cfx_dict_find(c->done, address(m));
    if (done)
        return cfx_as_module(*done);
    cfx_module *copy = empty_like(m);
    cfx_dict_put(c->done, address(m), cfx_module_value(copy));
    copy_entries(c, copy->parameters, m->parameters);
    copy_entries(c, copy->buffers, m->buffers);
    copy_entries(c, copy->attrs, m->attrs);
    if (m->own_->transient) {
        copy->own_->transient = cfx_keep(cfx_dict_new());
        copy_entries(c, copy->own_->transient, m->own_->transient);
    }
    const cfx_value *shared = cfx_dict_find(c->done, address(m->own_->children));
    if (shared)
        cfx__module_share_children(copy, cfx_as_module(*shared));
    for (int i = 0; i < cfx_module_count(m) && !shared; i++)
        cfx_nn_add(copy, cfx_module_child_name(m, i), copy_module(c, cfx_module_child(m, i)));
    cfx_dict_put(c->done, address(m->own_->children), cfx_module_value(copy));
    copy_hooks(copy, m);
    if (m->graph && m->own_->graph_owner)
        m->own_->graph_owner->copy(copy, m->graph);
    return copy;
}

cfx_module *cfx_module_copy(const cfx_module *m) {
    if (!cfx__module_given(m))
        return &cfx__module_bad;
    size_t mark = cfx_scope_open();
    copying c = {cfx_dict_new()};
    cfx_module *copy = copy_module(&c, m);
    return cfx_scope_return(mark, cfx_ok() ? copy : &cfx__module_bad);
}
