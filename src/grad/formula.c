/* One node going back: what it remembers becomes the arguments of a formula, and what the formula
 * gives is brought to the shape and dtype of the argument it belongs to. Start at
 * cfx__grad_node_run.
 */
#include "grad.h"

#include <cfx/ops.h>

/* ---- what was saved -------------------------------------------------------------------------- */

/* ", which is output 0 of AddBackward0,": where a saved tensor comes from, as it stands now. */
static const char *origin(const cfx__grad_node *n, const cfx__grad_kept *k) {
    int i = (int)(k - n->kept) - n->nin;
    const cfx__grad_node *from = i >= 0 ? n : k->to;
    if (!from || from->kind == CFX__NODE_LEAF)
        return "";
    cfx_op *writer = i < 0 ? k->tensor->storage->writer : NULL;
    return cfx__text_format(", which is output %d of %s,",
                            i >= 0   ? i
                            : writer ? 0
                                     : k->output,
                            writer ? cfx__grad_node_op_name(writer) : cfx__grad_node_name(from));
}

static bool check_version(const cfx__grad_node *n, const cfx__grad_kept *k) {
    const cfx_tensor *t = k->tensor;
    if (k->unchecked || !t->storage || t->storage->version == k->version)
        return true;
    cfx_fail(CFX_RUNTIME_ERROR, cfx__dispatcher()->at,
             "one of the variables needed for gradient computation has been modified by an inplace "
             "operation: [torch.%sTensor %s]%s is at version %u; expected version %u instead. "
             "Hint: enable anomaly detection to find the operation that failed to compute its "
             "gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).",
             cfx__dtype_title((cfx_dtype)t->dtype), cfx__shape_text(t->ndim, t->shape),
             origin(n, k), t->storage->version, k->version);
    return false;
}

/* A tensor of the node as the formula sees it; scope. `blank` is any fake tensor. */
static cfx_tensor *unpack(cfx__grad_node *n, cfx__grad_kept *k, const cfx_tensor *blank) {
    if (k->none)
        return NULL;
    if (!k->tensor) {
        cfx_tensor *t =
            cfx__tensor_alias(blank, k->ndim, k->dims, k->dims + k->ndim, k->offset);
        t->dtype = k->dtype;
        cfx__tensor_place(t, k->device);
        return t;
    }
    if (!check_version(n, k))
        return NULL;
    int i = (int)(k - n->kept) - n->nin;
    if (cfx_get_grad_mode() == CFX_GRAD_ON && i < 0 && k->to && !k->tensor->tape)
        cfx__tape_set(k->tensor, k->to, k->output); /* an argument, with its history again */
    if (i < 0 || cfx_get_grad_mode() != CFX_GRAD_ON)
        return k->tensor;
    const cfx_tensor *t = k->tensor; /* a result with its own: an alias, or it would be a cycle */
    cfx_tensor *alias = cfx__tensor_alias(t, t->ndim, t->shape, t->stride, t->offset);
    alias->dtype = t->dtype;
    if (cfx__dtype_is_floating((cfx_dtype)t->dtype) || cfx__dtype_is_complex((cfx_dtype)t->dtype))
        cfx__tape_set(alias, n, i);
    return alias;
}

/* ---- what comes out -------------------------------------------------------------------------- */

static bool expands(const cfx_tensor *g, const cfx__grad_kept *k) {
    if (k->ndim > g->ndim)
        return false;
    for (int i = 0; i < k->ndim; i++) {
        int64_t want = k->dims[i], have = g->shape[g->ndim - k->ndim + i];
        if (want != have && want != 1)
            return false;
    }
    return true;
}

/* Sums over what broadcasting had repeated. */
static cfx_tensor *sum_to(cfx_tensor *g, const cfx__grad_kept *k) {
    int64_t dims[CFX_MAX_DIMS];
    int n = 0, extra = g->ndim - k->ndim;
    for (int i = 0; i < g->ndim; i++)
        if (i < extra || (k->dims[i - extra] == 1 && g->shape[i] != 1))
            dims[n++] = i;
    if (n)
        g = cfx_sum(g, cfx_ints_value(n, dims), true);
    return extra > 0 ? cfx_view(g, cfx_ints_value(k->ndim, k->dims)) : g;
}

/* The gradient of argument i in its shape and dtype, on its device; NULL when it failed. */
static cfx_tensor *settle(const cfx__grad_node *n, int i, cfx_tensor *g, bool fake) {
    const cfx__grad_kept *k = &n->kept[i];
    if (!fake && (g->head.flags & CFX__FAKE)) {
        cfx_fail(CFX_RUNTIME_ERROR, n->at,
                 "the gradient of %s reads numbers that it has not saved: argument %d",
                 n->op ? cfx_op_name(n->op) : cfx__grad_node_name(n), i);
        return NULL;
    }
    bool same = g->ndim == k->ndim;
    for (int d = 0; same && d < g->ndim; d++)
        same = g->shape[d] == k->dims[d];
    if (!same && !expands(g, k)) {
        cfx_fail(CFX_RUNTIME_ERROR, cfx__dispatcher()->at,
                 "Function %s returned an invalid gradient at index %d - got %s but expected "
                 "shape compatible with %s",
                 cfx__grad_node_name(n), i, cfx__shape_text(g->ndim, g->shape),
                 cfx__shape_text(k->ndim, k->dims));
        return NULL;
    }
    if (!same)
        g = sum_to(g, k);
    if (cfx__dtype_is_complex((cfx_dtype)g->dtype) && !cfx__dtype_is_complex((cfx_dtype)k->dtype))
        g = cfx_real(g);
    if (g->dtype != k->dtype)
        g = cfx_to(g, cfx_dtype_value((cfx_dtype)k->dtype));
    if (unlikely(cfx__device_card(g->device) != cfx__device_card(k->device)))
        g = cfx_to(g, cfx_device_value(k->device));
    return cfx__obj_is_bad(g) ? NULL : g;
}

/* ---- a recorded call ------------------------------------------------------------------------- */

static bool fail_released(void) {
    cfx_fail(CFX_RUNTIME_ERROR, cfx__dispatcher()->at,
             "Trying to backward through the graph a second time (or directly access saved tensors "
             "after they have already been freed). Saved intermediate values of the graph are "
             "freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you "
             "need to backward through the graph a second time or if you need to access saved "
             "tensors after calling backward.");
    return false;
}

/* The arguments of the call again; false when one of them was changed. */
static bool unpack_args(cfx__grad_node *n, const cfx_tensor *blank, cfx_value *args, bool *needs) {
    for (int i = 0; i < n->nargs; i++) {
        args[i] = n->args[i];
        args[i].spare = 0;
        needs[i] = false;
        if (!n->args[i].spare)
            continue;
        cfx__grad_kept *first = &n->kept[n->args[i].spare - 1];
        if (args[i].tag == CFX_TAG_TENSOR) {
            args[i] = cfx_tensor_value(unpack(n, first, blank));
            needs[i] = first->to != NULL;
            continue;
        }
        int64_t len = cfx_integer(args[i]);
        args[i] = cfx_list_value(0, NULL);
        for (int64_t k = 0; k < len; k++) {
            cfx_list_append(cfx_as_list(args[i]), cfx_tensor_value(unpack(n, &first[k], blank)));
            needs[i] |= first[k].to != NULL;
        }
    }
    return cfx_ok();
}

/* Hands the gradients that a formula gave to the tensors they belong to. */
static bool take_gradients(cfx__grad_node *n, const cfx_value *given, bool fake, cfx_tensor **gin) {
    for (int i = 0; i < n->nargs && cfx_ok(); i++) {
        if (!n->args[i].spare)
            continue;
        int first = (int)n->args[i].spare - 1;
        bool single = n->args[i].tag == CFX_TAG_TENSOR;
        int64_t len = single ? 1 : cfx_integer(n->args[i]);
        cfx_value g = given[i];
        for (int64_t k = 0; k < len && cfx_ok(); k++) {
            cfx_value item = single ? g
                             : g.tag == CFX_TAG_LIST || g.tag == CFX_TAG_TUPLE
                                 ? (k < cfx_as_list(g)->len ? cfx_as_list(g)->items[k] : cfx_none())
                                 : cfx_none();
            if (item.tag == CFX_TAG_TENSOR && n->kept[first + k].to)
                gin[first + k] = settle(n, first + (int)k, cfx_as_tensor(item), fake);
        }
    }
    return cfx_ok();
}

static bool run_op(cfx__grad_node *n, cfx_tensor *const *gout, cfx_tensor **gin) {
    if (n->released)
        return fail_released();
    if (!n->op->grad)
        return true; /* what it wrote depends on nothing */
    cfx_value args[CFX_MAX_ARGS], given[CFX_MAX_ARGS] = {{0}};
    bool needs[CFX_MAX_ARGS], fake = cfx__dispatcher()->fake;
    cfx_tensor *blank = cfx_tensor_fake(CFX_F32, 0, NULL, NULL);
    if (!unpack_args(n, blank, args, needs))
        return false;
    cfx_tensor **out = cfx__alloc0((size_t)n->nout * sizeof *out + 1);
    for (int i = 0; i < n->nout; i++) {
        out[i] = unpack(n, &n->kept[n->nin + i], blank);
        fake |= gout[i] && (gout[i]->head.flags & CFX__FAKE);
    }
    if (cfx_ok()) {
        cfx_back b = {.op = n->op, .at = cfx__dispatcher()->at, .nargs = n->nargs, .args = args,
                      .nout = n->nout, .out = out, .gout = gout, .needs = needs, .gin = given};
        n->op->grad(&b);
    }
    cfx__free(out);
    return cfx_ok() && take_gradients(n, given, fake, gin);
}

/* ---- a function of the caller's -------------------------------------------------------------- */

static bool run_function(cfx__grad_node *n, cfx_tensor *const *gout, cfx_tensor **gin) {
    if (n->released)
        return fail_released();
    cfx_value lists[3];
    for (int i = 0; i < COUNT(lists); i++)
        lists[i] = cfx_list_value(0, NULL);
    bool fake = cfx__dispatcher()->fake;
    for (int i = 0; i < n->nin + n->nout && cfx_ok(); i++) {
        cfx_tensor *t = n->kept[i].tensor ? unpack(n, &n->kept[i], NULL) : NULL;
        cfx_list_append(cfx_as_list(lists[i >= n->nin]), cfx_tensor_value(t));
    }
    for (int i = 0; i < n->nout; i++) {
        cfx_list_append(cfx_as_list(lists[2]), cfx_tensor_value(gout[i]));
        fake |= gout[i] && (gout[i]->head.flags & CFX__FAKE);
    }
    if (!cfx_ok())
        return false;
    cfx_args args = {.n = COUNT(lists), .v = lists};
    cfx_value given[3] = {0};
    given[2] = cfx_object_call_from(cfx__dispatcher()->at, n->args[0], args);
    return cfx_ok() && take_gradients(n, given, fake, gin);
}

/* ---- a write to a view ----------------------------------------------------------------------- */

/* The gradient of the base comes in. The part that was written goes back through the call that
 * wrote it, the rest goes on as it is. */
static bool run_slices(cfx__grad_node *n, cfx_tensor *const *gout, cfx_tensor **gin) {
    const cfx__grad_kept *base = &n->kept[n->nin], *view = &n->inner->kept[n->inner->nin];
    cfx_value shape = cfx_ints_value(base->ndim, base->dims),
              stride = cfx_ints_value(base->ndim, base->dims + base->ndim),
              part = cfx_ints_value(view->ndim, view->dims),
              part_stride = cfx_ints_value(view->ndim, view->dims + view->ndim);
    cfx_tensor *g = cfx_empty_strided(shape, stride, CFX_KW(dtype, cfx_dtype_value(base->dtype)));
    g = cfx_copy_(g, gout[0]);
    cfx_tensor *slice = cfx_as_strided(g, part, part_stride, view->offset - base->offset);
    slice = cfx_clone(slice);
    if (!cfx_ok() || !cfx__grad_node_run(n->inner, (cfx_tensor *const[]){slice}, gin))
        return false;
    cfx_tensor *self = gin[0] ? gin[0] : cfx_zeros_like(slice);
    gin[0] = cfx_as_strided_scatter(g, self, part, part_stride, view->offset - base->offset);
    return cfx_ok();
}

/* A formula of ours, on the device that the gradients come from. */
static bool run_there(cfx__grad_node *n, cfx_tensor *const *gout, cfx_tensor **gin) {
    const int outer = cfx__ctx()->card;
    for (int i = 0; i < n->nout; i++)
        if (gout[i])
            cfx__ctx()->card = cfx__device_card(gout[i]->device);
    const bool fine = (n->kind == CFX__NODE_OP ? run_op : run_slices)(n, gout, gin);
    cfx__ctx()->card = outer;
    return fine;
}

bool cfx__grad_node_run(cfx__grad_node *n, cfx_tensor *const *gout, cfx_tensor **gin) {
    switch (n->kind) {
    case CFX__NODE_OP:
    case CFX__NODE_SLICES: return run_there(n, gout, gin);
    case CFX__NODE_FUNCTION: return run_function(n, gout, gin);
    case CFX__NODE_LEAF: return true;
    case CFX__NODE_MISSING:
        cfx_fail(CFX_RUNTIME_ERROR, cfx__dispatcher()->at,
                 "derivative for %s::%s is not implemented", cfx__op_info_of(n->op)->schema->ns,
                 cfx__op_info_of(n->op)->schema->name);
        return false;
    }
    return false;
}
