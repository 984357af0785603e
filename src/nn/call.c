/* Calls: a module with its hooks around it, in a scope of its own, and the layer that tracing puts
 * over calls and reads. Start at cfx__module_call. */
#include "nn.h"

/* ---- the layer ------------------------------------------------------------------------------ */

typedef struct nn_state {
    cfx__nn_layer *layer;
    cfx_where at; /* of the innermost call of a module */
} nn_state;

static void *state_make(void) { return cfx__alloc0(sizeof(nn_state)); }

static nn_state *state(void) { return cfx__ctx_slot(CFX__SLOT_NN, state_make, free); }

cfx_where cfx__nn_at(void) { return state()->at; }

void cfx__nn_push(cfx__nn_layer *layer) {
    nn_state *s = state();
    layer->below = s->layer;
    s->layer = layer;
}

void cfx__nn_pop(cfx__nn_layer *layer) { state()->layer = layer->below; }

/* ---- hooks ---------------------------------------------------------------------------------- */

static const cfx__type handle_type = {.name = "hook"};

static cfx_hook_handle *hook_add(cfx_module *m, const char *path, cfx_hook_fn *fn, void *user,
                                 bool before) {
    cfx_module *on = cfx_module_find(m, path);
    if (!on || !fn) {
        cfx_fail(CFX_ATTRIBUTE_ERROR, (cfx_where){0}, "%s has no module '%s' to hook",
                 m ? m->type : "None", path ? path : "");
        return NULL;
    }
    cfx_hook_handle *h = cfx__obj_new(&handle_type, sizeof *h);
    h->module = on;
    h->fn = fn;
    h->user = user;
    h->before = before;
    VEC_PUSH(on->own_->hooks, cfx_keep(h));
    return h;
}

cfx_hook_handle *cfx_hook(cfx_module *m, const char *path, cfx_hook_fn *fn, void *user) {
    return hook_add(m, path, fn, user, false);
}

cfx_hook_handle *cfx_pre_hook(cfx_module *m, const char *path, cfx_hook_fn *fn, void *user) {
    return hook_add(m, path, fn, user, true);
}

void cfx_unhook(cfx_hook_handle *h) {
    if (!h || !h->module)
        return;
    struct cfx__module *own = h->module->own_;
    h->module = NULL;
    size_t i = 0;
    while (own->hooks.data[i] != h)
        i++;
    own->hooks.len--;
    memmove(own->hooks.data + i, own->hooks.data + i + 1,
            (own->hooks.len - i) * sizeof *own->hooks.data);
    cfx_drop(h);
}

int cfx_hook_count(const cfx_module *m) { return m ? (int)m->own_->hooks.len : 0; }

/* The hooks there are now, kept by the scope: a hook may add and remove hooks. */
static cfx_hook_handle **hooks_now(const cfx_module *m, size_t *n) {
    *n = m->own_->hooks.len;
    cfx_hook_handle **list = cfx__alloc(*n * sizeof *list);
    for (size_t i = 0; i < *n; i++)
        list[i] = cfx__scope_own(cfx_keep(m->own_->hooks.data[i]));
    return list;
}

static cfx_args run_before(cfx_module *m, cfx_args a) {
    size_t n;
    cfx_hook_handle **list = hooks_now(m, &n);
    for (size_t i = 0; i < n && cfx_ok(); i++) {
        if (!list[i]->before || !list[i]->module)
            continue;
        cfx_event e = {m, a, cfx_none(), list[i]->user};
        cfx_value v = list[i]->fn(&e);
        if (v.tag != CFX_TAG_TUPLE && v.tag != CFX_TAG_NONE)
            v = cfx_tuple_value(1, &v);
        if (v.tag == CFX_TAG_TUPLE)
            a = (cfx_args){(int)v.list->len, v.list->items, a.kw};
    }
    free(list);
    return a;
}

static cfx_value run_after(cfx_module *m, cfx_args a, cfx_value out) {
    size_t n;
    cfx_hook_handle **list = hooks_now(m, &n);
    for (size_t i = 0; i < n && cfx_ok(); i++) {
        if (list[i]->before || !list[i]->module)
            continue;
        cfx_event e = {m, a, out, list[i]->user};
        cfx_value v = list[i]->fn(&e);
        if (!cfx_is_none(v))
            out = v;
    }
    free(list);
    return out;
}

/* ---- call ----------------------------------------------------------------------------------- */

/* The tensor that a forward with tensors for arguments gets. */
static bool tensor_arg(cfx_where at, const cfx_module *m, int i, cfx_value v, cfx_tensor **out) {
    if (v.tag == CFX_TAG_TENSOR)
        *out = v.tensor;
    else if (v.tag == CFX_TAG_NONE)
        *out = NULL;
    else {
        cfx_fail(CFX_TYPE_ERROR, at, "%s.forward(): argument '%s' must be Tensor, not %s", m->type,
                 m->own_->signature->params[i].name, cfx_value_type_name(v));
        return false;
    }
    return true;
}

cfx_value cfx__module_forward(cfx_where at, cfx_module *m, const cfx_value *v) {
    struct cfx__module *own = m->own_;
    cfx_tensor *t[3];
    for (int i = 0; i < own->arity; i++)
        if (!tensor_arg(at, m, i, v[i], &t[i]))
            return cfx_bad();
    switch (own->arity) {
    case 1: return cfx_tensor_value(own->forward.one(m, t[0]));
    case 2: return cfx_tensor_value(own->forward.two(m, t[0], t[1]));
    case 3: return cfx_tensor_value(own->forward.three(m, t[0], t[1], t[2]));
    default: return own->forward.args(m, (cfx_args){own->signature->n, v, NULL});
    }
}

/* Binds the arguments and runs forward. */
static cfx_value bind_and_run(cfx_where at, cfx_module *m, cfx_args a) {
    struct cfx__module *own = m->own_;
    if (own->raw)
        return own->forward.args(m, a);
    if (!own->forward.args) {
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, at,
                 "Module [%s] is missing the required \"forward\" function", m->type);
        return cfx_bad();
    }
    const cfx__signature *s = own->signature;
    if (!s) {
        cfx_fail(CFX_VALUE_ERROR, at, "the signature of %s, \"%s\", could not be read", m->type,
                 m->signature);
        return cfx_bad();
    }
    cfx_value small[8], *bound = small;
    if (s->n > COUNT(small))
        bound = cfx__alloc((size_t)s->n * sizeof *bound);
    char fn[128];
    snprintf(fn, sizeof fn, "%s.forward", m->type);
    cfx_value v = cfx__signature_bind(s, at, fn, true, a, bound) ? cfx__module_forward(at, m, bound)
                                                                 : cfx_bad();
    if (bound != small)
        free(bound);
    return v;
}

cfx_value cfx__module_call(cfx_where at, cfx_module *m, cfx_args a) {
    size_t mark = cfx_scope_open();
    cfx_keep(m); /* a hook may take it out of its parent */
    bool hooked = m->own_->hooks.len > 0;
    if (unlikely(hooked))
        a = run_before(m, a);
    cfx_value v = hooked && !cfx_ok() ? cfx_bad() : bind_and_run(at, m, a);
    if (unlikely(hooked) && !cfx_is_bad(v))
        v = run_after(m, a, v);
    v = cfx_scope_return_value(mark, v);
    cfx_drop(m);
    return v;
}

cfx_value cfx__module_call_bound(cfx_where at, cfx_module *m, const cfx_value *bound) {
    if (!m->own_->hooks.len)
        return cfx__module_forward(at, m, bound);
    int n = m->own_->signature->n;
    cfx_args a = run_before(m, (cfx_args){n, bound, NULL});
    if (a.n != n)
        cfx_fail(CFX_TYPE_ERROR, at, "a pre-hook of %s gave %d arguments for %d parameters",
                 m->type, a.n, n);
    cfx_value v = cfx_ok() ? cfx__module_forward(at, m, a.v) : cfx_bad();
    return cfx_is_bad(v) ? v : run_after(m, a, v);
}

cfx_value cfx_forward_at(cfx_where at, cfx_module *m, cfx_args args) {
    if (!m) {
        cfx_fail(CFX_TYPE_ERROR, at, "'NoneType' object is not callable");
        return cfx_bad();
    }
    if (cfx__args_bad(args))
        return cfx_bad();
    size_t mark = cfx_scope_open();
    args = cfx__args_split(args);
    nn_state *s = state();
    cfx_where outer = s->at;
    s->at = at.file ? at : outer;
    cfx_value v = unlikely(s->layer != NULL) ? s->layer->call(s->layer, at, m, args)
                                             : cfx__module_call(at, m, args);
    s->at = outer;
    return cfx_scope_return_value(mark, v);
}

cfx_value cfx_call_at(cfx_where at, cfx_module *self, const char *child, cfx_args args) {
    cfx_module *m = cfx_module_find(self, child);
    if (!m) {
        cfx_fail(CFX_ATTRIBUTE_ERROR, at, "'%s' object has no attribute '%s'",
                 self ? self->type : "NoneType", child);
        return cfx_bad();
    }
    return cfx_forward_at(at, m, args);
}

static cfx_tensor *as_tensor(cfx_where at, const cfx_module *m, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        return v.tensor;
    if (v.tag == CFX_TAG_NONE)
        return NULL;
    if (v.tag != CFX_TAG_BAD)
        cfx_fail(CFX_TYPE_ERROR, at, "%s returned %s here, not one tensor",
                 m ? m->type : "the module", cfx_value_type_name(v));
    return &cfx__bad_tensor;
}

cfx_tensor *cfx_call_tensor_at(cfx_where at, cfx_module *self, const char *child, cfx_args args) {
    return as_tensor(at, cfx_module_find(self, child), cfx_call_at(at, self, child, args));
}

cfx_tensor *cfx_forward_tensor_at(cfx_where at, cfx_module *m, cfx_args args) {
    return as_tensor(at, m, cfx_forward_at(at, m, args));
}

/* ---- attributes ----------------------------------------------------------------------------- */

cfx_value cfx__module_read(cfx_where at, cfx_module *m, const char *path) {
    for (const char *end;; path = end + 1) {
        end = strchr(path, '.');
        size_t n = end ? (size_t)(end - path) : strlen(path);
        cfx_value v;
        if (!cfx__module_get(m, path, n, &v) || (end && v.tag != CFX_TAG_MODULE)) {
            cfx_fail(CFX_ATTRIBUTE_ERROR, at, "'%s' object has no attribute '%.*s'", m->type,
                     (int)n, path);
            return cfx_bad();
        }
        if (!end)
            return v;
        m = v.module;
    }
}

cfx_value cfx_attr_value_at(cfx_where at, cfx_module *self, const char *name) {
    if (!self || !name) {
        cfx_fail(CFX_ATTRIBUTE_ERROR, at, "'NoneType' object has no attribute '%s'",
                 name ? name : "");
        return cfx_bad();
    }
    cfx__nn_layer *layer = state()->layer;
    return unlikely(layer != NULL) ? layer->attr(layer, at, self, name)
                                   : cfx__module_read(at, self, name);
}

cfx_tensor *cfx_attr_at(cfx_where at, cfx_module *self, const char *name) {
    cfx_value v = cfx_attr_value_at(at, self, name);
    if (v.tag == CFX_TAG_TENSOR)
        return v.tensor;
    if (v.tag == CFX_TAG_NONE)
        return NULL;
    if (v.tag != CFX_TAG_BAD)
        cfx_fail(CFX_TYPE_ERROR, at, "'%s' of %s is %s, not a tensor", name, self->type,
                 cfx_value_type_name(v));
    return &cfx__bad_tensor;
}
