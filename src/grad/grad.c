/* What a user asks of one tensor: whether it requires a gradient, its grad, its hooks. */
#include "grad.h"

static bool usable(const cfx_tensor *t) { return t && !cfx__obj_is_bad(t); }

static bool differentiable(const cfx_tensor *t) {
    return cfx__dtype_is_floating((cfx_dtype)t->dtype) ||
           cfx__dtype_is_complex((cfx_dtype)t->dtype);
}

bool cfx_tensor_requires_grad(const cfx_tensor *t) {
    return usable(t) && cfx__tensor_needs_grad(t);
}

bool cfx_tensor_is_leaf(const cfx_tensor *t) {
    if (!usable(t) || !cfx__tensor_needs_grad(t))
        return true;
    const cfx__tape *tape = t->tape;
    if (tape && tape->node && !tape->leaf)
        return false;
    return (t->head.flags & CFX__GRAD) || !t->base || cfx_tensor_is_leaf(t->base);
}

const char *cfx_tensor_grad_fn(const cfx_tensor *t) {
    if (cfx_tensor_is_leaf(t))
        return NULL;
    int output;
    const cfx__grad_node *n = cfx__grad_edge_of((cfx_site){0}, (cfx_tensor *)t, &output);
    return n ? cfx__grad_node_name(n) : NULL;
}

cfx_grad_node *cfx_tensor_grad_node(const cfx_tensor *t) {
    if (!cfx_tensor_requires_grad(t))
        return NULL;
    int output;
    cfx__grad_node *n = cfx__grad_edge_of((cfx_site){0}, (cfx_tensor *)t, &output);
    return n ? cfx__scope_own(cfx_keep(n)) : NULL;
}

const char *cfx_grad_node_name(const cfx_grad_node *n) { return cfx__grad_node_name(n); }

int cfx_grad_node_inputs(const cfx_grad_node *n) {
    return n->kind == CFX__NODE_LEAF ? 0 : n->nin;
}

cfx_grad_node *cfx_grad_node_next(const cfx_grad_node *n, int i, int *output) {
    cfx__grad_kept *k = i >= 0 && i < cfx_grad_node_inputs(n) ? &n->kept[i] : NULL;
    if (output)
        *output = k && k->to ? k->output : 0;
    return k ? k->to : NULL;
}

cfx_tensor *cfx_grad_node_leaf(const cfx_grad_node *n) {
    return n->kind == CFX__NODE_LEAF && n->leaf ? n->leaf->owner : NULL;
}

cfx_tensor *cfx_requires_grad_from(cfx_site at, cfx_tensor *t, bool on) {
    if (!usable(t))
        return t;
    if (!cfx_tensor_is_leaf(t)) {
        if (!on)
            cfx_fail(CFX_RUNTIME_ERROR, at,
                     "you can only change requires_grad flags of leaf variables. If you want to "
                     "use a computed variable in a subgraph that doesn't require differentiation "
                     "use var_no_grad = var.detach().");
        return t;
    }
    if (on && !differentiable(t)) {
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "only Tensors of floating point dtype can require gradients");
        return t;
    }
    if (!on) {
        t->head.flags &= ~(uint32_t)CFX__GRAD;
        return t;
    }
    int output;
    t->head.flags |= CFX__GRAD;
    cfx__grad_edge_of(at, t, &output); /* made now, so that threads that share t need not */
    return t;
}

/* ---- grad ------------------------------------------------------------------------------------ */

cfx_tensor *cfx_tensor_grad(const cfx_tensor *t) {
    return usable(t) && t->tape ? ((const cfx__tape *)t->tape)->grad : NULL;
}

void cfx_tensor_set_grad_from(cfx_site at, cfx_tensor *t, cfx_tensor *grad) {
    if (!usable(t) || cfx__obj_is_bad(grad) || (!grad && !t->tape))
        return;
    if (grad == t) {
        cfx_fail(CFX_RUNTIME_ERROR, at, "can't assign Variable as its own grad");
        return;
    }
    if (grad && (grad->dtype != t->dtype || !cfx__tensor_same_shape(grad, t))) {
        if (grad->dtype != t->dtype)
            cfx_fail(CFX_RUNTIME_ERROR, at,
                     "attempting to assign a gradient with dtype '%s' to a tensor with dtype '%s'. "
                     "Please ensure that the gradient and the tensor have the same dtype",
                     cfx_dtype_name((cfx_dtype)grad->dtype), cfx_dtype_name((cfx_dtype)t->dtype));
        else
            cfx_fail(CFX_RUNTIME_ERROR, at,
                     "attempting to assign a gradient of size '%s' to a tensor of size '%s'. "
                     "Please ensure that the gradient and the tensor are the same size",
                     cfx__shape_text(grad->ndim, grad->shape), cfx__shape_text(t->ndim, t->shape));
        return;
    }
    cfx__tape *tape = cfx__tape_of(t);
    cfx_keep(grad);
    cfx_drop(tape->grad);
    tape->grad = grad;
}

/* ---- hooks ----------------------------------------------------------------------------------- */

/* The node that sees the gradient of t, with PyTorch's words when there is none. */
static bool is_hook(cfx_site at, bool given) {
    if (!given)
        cfx_fail(CFX_TYPE_ERROR, at, "a hook is a function, not NULL");
    return given;
}

static cfx__grad_node *node_for_hook(cfx_site at, cfx_tensor *t, int *output) {
    if (!usable(t))
        return NULL;
    if (!cfx__tensor_needs_grad(t)) {
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "cannot register a hook on a tensor that doesn't require gradient");
        return NULL;
    }
    return cfx__grad_edge_of(at, t, output);
}

static int64_t add_hook(cfx__grad_node *n, cfx__grad_hook h) {
    h.id = ++cfx__grad_state_get()->hooks;
    VEC_PUSH(n->hooks, h);
    return h.id;
}

int64_t cfx_tensor_hook_from(cfx_site at, cfx_tensor *t, cfx_tensor_hook_fn *fn, void *user) {
    int output = 0;
    cfx__grad_node *n = is_hook(at, fn) ? node_for_hook(at, t, &output) : NULL;
    return n ? add_hook(n, (cfx__grad_hook){.output = output, .fn = fn, .user = user}) : 0;
}

int64_t cfx_leaf_hook_from(cfx_site at, cfx_tensor *t, cfx_leaf_hook_fn *fn, void *user) {
    int output = 0;
    cfx__grad_node *n = is_hook(at, fn) ? node_for_hook(at, t, &output) : NULL;
    if (n && n->kind != CFX__NODE_LEAF) {
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "post accumulate grad hooks cannot be registered on non-leaf tensors");
        return 0;
    }
    return n ? add_hook(n, (cfx__grad_hook){.leaf_fn = fn, .user = user}) : 0;
}

static cfx_tensor *call_object(cfx_tensor *grad, void *user) {
    cfx_value v = cfx_object_call_from((cfx_site){0}, cfx__value_of_object(user), CFX_ARGS(grad));
    return cfx_is_none(v) || cfx_is_bad(v) ? NULL : cfx_as_tensor(v);
}

static void call_leaf_object(cfx_tensor *leaf, void *user) {
    cfx_object_call_from((cfx_site){0}, cfx__value_of_object(user), CFX_ARGS(leaf));
}

int64_t cfx_tensor_hook_object_from(cfx_site at, cfx_tensor *t, cfx_value object, bool leaf) {
    cfx_object *o = cfx_as_object_from(at, object);
    if (!o)
        return 0;
    int64_t id = leaf ? cfx_leaf_hook_from(at, t, call_leaf_object, o)
                      : cfx_tensor_hook_from(at, t, call_object, o);
    cfx__tape *tape = id ? t->tape : NULL;
    cfx__grad_node *n = tape ? tape->node : NULL;
    for (size_t i = 0; n && i < n->hooks.len; i++)
        if (n->hooks.data[i].id == id)
            n->hooks.data[i].object = cfx_keep(o);
    return id;
}

void cfx_tensor_unhook(cfx_tensor *t, int64_t hook) {
    cfx__tape *tape = usable(t) ? t->tape : NULL;
    cfx__grad_node *n = tape ? tape->node : NULL;
    for (size_t i = 0; n && i < n->hooks.len; i++)
        if (n->hooks.data[i].id == hook) {
            cfx_object *object = n->hooks.data[i].object;
            n->hooks.len--;
            memmove(&n->hooks.data[i], &n->hooks.data[i + 1],
                    (n->hooks.len - i) * sizeof *n->hooks.data);
            cfx_drop(object);
            return;
        }
}

void cfx_retain_grad_from(cfx_site at, cfx_tensor *t) {
    if (!usable(t))
        return;
    if (!cfx__tensor_needs_grad(t)) {
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "can't retain_grad on Tensor that has requires_grad=False");
        return;
    }
    int output = 0;
    cfx__grad_node *n = cfx__grad_edge_of(at, t, &output);
    cfx__tape *tape = t->tape;
    if (!n || tape->leaf || tape->retains)
        return;
    tape->retains = true;
    add_hook(n, (cfx__grad_hook){.output = output, .retain = tape});
}
