/* Calls: a module with its hooks around it, in a scope of its own, and the layer that tracing puts
 * over calls and reads. Start at cfx__module_call. */
#include "nn.h"

/* ---- the layer ------------------------------------------------------------------------------ */

static void *state_make(void) { return cfx__alloc0(sizeof(cfx__nn_state)); }

static void state_free(void *p) {
    cfx__hook_list_free(&((cfx__nn_state *)p)->hooks);
    cfx__free(p);
}

cfx__nn_state *cfx__nn_state_get(void) {
    return cfx__ctx_slot(CFX__SLOT_NN, state_make, state_free);
}

static cfx__nn_state *state(void) { return cfx__nn_state_get(); }

void cfx__nn_push(cfx__nn_layer *layer) {
    cfx__nn_state *s = state();
    layer->below = s->layer;
    s->layer = layer;
}

void cfx__nn_pop(cfx__nn_layer *layer) { state()->layer = layer->below; }

/* ---- call ----------------------------------------------------------------------------------- */

/* The tensor that a forward with tensors for arguments gets. */
static bool tensor_arg(cfx_site at, const cfx_module *m, int i, cfx_value v, cfx_tensor **out) {
    if (v.tag == CFX_TAG_TENSOR)
        *out = cfx_as_tensor(v);
    else if (v.tag == CFX_TAG_NONE)
        *out = NULL;
    else {
        cfx_fail(CFX_TYPE_ERROR, at, "%s.forward(): argument '%s' must be Tensor, not %s", m->type,
                 m->own_->signature->params[i].name, cfx_value_type_name(v));
        return false;
    }
    return true;
}

/* The forward function alone, on values bound to the signature already. */
static cfx_value run_forward(cfx_site at, cfx_module *m, const cfx_value *v) {
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
static cfx_value bind_and_run(cfx_site at, cfx_module *m, cfx_args a) {
    struct cfx__module *own = m->own_;
    if (own->raw)
        return own->forward.args(m, a);
    if (!own->forward.args) {
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, at,
                 "Module [%s] is missing the required \"forward\" function", m->type);
        return cfx_bad();
    }
    const cfx__signature *s = own->signature;
    cfx_value small[8], *bound = small;
    if (s->n > COUNT(small))
        bound = cfx__alloc((size_t)s->n * sizeof *bound);
    char fn[128];
    snprintf(fn, sizeof fn, "%s.forward", m->type);
    cfx_value v =
        cfx__signature_bind(s, at, fn, true, a, bound) ? run_forward(at, m, bound) : cfx_bad();
    if (bound != small)
        cfx__free(bound);
    return v;
}

static bool has_hooks(const cfx_module *m) {
    return m->own_->hooks.len > 0 || state()->hooks.len > 0;
}

cfx_value cfx__module_call(cfx_site at, cfx_module *m, cfx_args a) {
    size_t mark = cfx_scope_open();
    cfx_keep(m); /* a hook may take it out of its parent */
    cfx_value v = unlikely(has_hooks(m)) ? cfx__module_call_hooked(at, m, a, bind_and_run)
                                         : bind_and_run(at, m, a);
    v = cfx_scope_return_value(mark, v);
    cfx_drop(m);
    return v;
}

/* The arguments are one value for each parameter. */
static cfx_value run_bound(cfx_site at, cfx_module *m, cfx_args a) {
    int n = m->own_->signature->n;
    if (a.n == n)
        return run_forward(at, m, a.v);
    cfx_fail(CFX_TYPE_ERROR, at, "a pre-hook of %s gave %d arguments for %d parameters", m->type,
             a.n, n);
    return cfx_bad();
}

cfx_value cfx__module_call_bound(cfx_site at, cfx_module *m, const cfx_value *bound) {
    cfx_args a = {m->own_->signature->n, bound, NULL};
    return has_hooks(m) ? cfx__module_call_hooked(at, m, a, run_bound) : run_forward(at, m, bound);
}

static cfx_value call_by(cfx_site at, cfx_module *m, cfx__nn_way way, cfx_args args) {
    if (!m) {
        cfx_fail(CFX_TYPE_ERROR, at, "'NoneType' object is not callable");
        return cfx_bad();
    }
    if (cfx__obj_is_bad(m) || cfx__dispatch_args_bad(at, args))
        return cfx_bad();
    size_t mark = cfx_scope_open();
    args = cfx__dispatch_args_split(args);
    cfx__nn_state *s = state();
    cfx_site outer = cfx__site_enter(at);
    cfx_value v = unlikely(s->layer != NULL) ? s->layer->call(s->layer, at, m, way, args)
                                             : cfx__module_call(at, m, args);
    cfx__site_leave(outer);
    return cfx_scope_return_value(mark, v);
}

cfx_value cfx_forward_value_from(cfx_site at, cfx_module *m, cfx_args args) {
    return call_by(at, m, (cfx__nn_way){0}, args);
}

cfx_value cfx_call_value_from(cfx_site at, cfx_module *self, const char *child, cfx_args args) {
    if (cfx__obj_is_bad(self))
        return cfx_bad();
    cfx_module *m = cfx_module_find(self, child);
    if (!m) {
        cfx_fail(CFX_ATTRIBUTE_ERROR, at, "'%s' object has no attribute '%s'",
                 self ? self->type : "NoneType", child);
        return cfx_bad();
    }
    return call_by(at, m, (cfx__nn_way){self, child}, args);
}

static cfx_tensor *as_tensor(cfx_site at, const cfx_module *m, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        return cfx_as_tensor(v);
    if (v.tag == CFX_TAG_NONE)
        return NULL;
    if (v.tag != CFX_TAG_BAD)
        cfx_fail(CFX_TYPE_ERROR, at, "%s returned %s here, not one tensor",
                 m ? m->type : "the module", cfx_value_type_name(v));
    return &cfx__tensor_bad;
}

cfx_tensor *cfx_call_from(cfx_site at, cfx_module *self, const char *child, cfx_args args) {
    return as_tensor(at, cfx_module_find(self, child), cfx_call_value_from(at, self, child, args));
}

cfx_tensor *cfx_forward_from(cfx_site at, cfx_module *m, cfx_args args) {
    return as_tensor(at, m, cfx_forward_value_from(at, m, args));
}

/* ---- attributes ----------------------------------------------------------------------------- */

cfx_value cfx__module_read(cfx_site at, cfx_module *m, const char *path) {
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
        m = cfx_as_module(v);
    }
}

cfx_value cfx_attr_value_from(cfx_site at, cfx_module *self, const char *name) {
    if (!self || !name) {
        cfx_fail(CFX_ATTRIBUTE_ERROR, at, "'NoneType' object has no attribute '%s'",
                 name ? name : "");
        return cfx_bad();
    }
    cfx__nn_layer *layer = state()->layer;
    return unlikely(layer != NULL) ? layer->attr(layer, at, self, name)
                                   : cfx__module_read(at, self, name);
}

cfx_tensor *cfx_attr_from(cfx_site at, cfx_module *self, const char *name) {
    cfx_value v = cfx_attr_value_from(at, self, name);
    if (v.tag == CFX_TAG_TENSOR)
        return cfx_as_tensor(v);
    if (v.tag == CFX_TAG_NONE)
        return NULL;
    if (v.tag != CFX_TAG_BAD)
        cfx_fail(CFX_TYPE_ERROR, at, "'%s' of %s is %s, not a tensor", name, self->type,
                 cfx_value_type_name(v));
    return &cfx__tensor_bad;
}
