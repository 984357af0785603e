/* Recording: the layer of the dispatcher that calls with gradients go through. Start at
 * cfx__grad_call. */
#include "grad.h"

/* Calls what is below this layer; nothing in there is recorded. */
static cfx_value below(cfx_site at, cfx_op *op, cfx_value *args) {
    cfx__dispatch *d = cfx__dispatcher();
    d->below_autograd++;
    cfx_value v = cfx__op_call_below(at, op, args);
    d->below_autograd--;
    return v;
}

static bool can_differ(const cfx_tensor *t) {
    return cfx__dtype_is_floating((cfx_dtype)t->dtype) ||
           cfx__dtype_is_complex((cfx_dtype)t->dtype);
}

static bool among(const cfx_tensor *t, int n, const cfx_value *args) {
    for (int i = 0; i < n; i++)
        if (args[i].tag == CFX_TAG_TENSOR && cfx_as_tensor(args[i]) == t)
            return true;
    return false;
}

/* Hangs a node on the results of a call. */
static cfx_value record(cfx_site at, cfx_op *op, const cfx_value *args, cfx_value v) {
    int nargs = cfx__op_info_of(op)->schema->nargs;
    cfx_tensor *few[CFX_MAX_OUTS], **out = few;
    int64_t nout = 1;
    if (v.tag == CFX_TAG_TENSOR) {
        out[0] = cfx_as_tensor(v);
    } else if (v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST) {
        nout = cfx_as_list(v)->len;
        if (nout > CFX_MAX_OUTS)
            out = cfx__alloc((size_t)nout * sizeof *out);
        for (int64_t i = 0; i < nout; i++)
            out[i] = cfx_as_list(v)->items[i].tag == CFX_TAG_TENSOR
                         ? cfx_as_tensor(cfx_as_list(v)->items[i])
                         : NULL;
    } else {
        return v;
    }
    cfx__grad_node *n = NULL;
    for (int64_t i = 0; i < nout; i++) {
        if (!out[i] || !can_differ(out[i]) || among(out[i], nargs, args) ||
            (i < CFX_MAX_OUTS && op->aside & CFX_SAVE_OUT(i)))
            continue;
        if (!n) {
            n = cfx__grad_node_new(at, op, args, (int)nout, out, NULL);
            n->kind = op->grad ? CFX__NODE_OP : CFX__NODE_MISSING;
        }
        cfx__tape_set(out[i], n, (int)i);
    }
    cfx_drop(n);
    if (out != few)
        cfx__free(out);
    return v;
}

/* ---- in place -------------------------------------------------------------------------------- */

/* Whether a recorded call may write to self; else PyTorch's words for why not. */
static bool may_write(cfx_site at, cfx_tensor *self) {
    const cfx_tensor *base = self->base;
    const cfx__tape *tape = self->tape;
    if (base && (self->head.flags & CFX__NO_GRAD_VIEW))
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "A view was created in no_grad mode and is being modified inplace with grad mode "
                 "enabled. Given that this use case is ambiguous and error-prone, it is forbidden. "
                 "You can clarify your code by moving both the view and the inplace either both "
                 "inside the no_grad block (if you don't want the inplace to be tracked) or both "
                 "outside (if you want the inplace to be tracked).");
    else if (base && (self->head.flags & CFX__MULTI_VIEW))
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "Output %d of %s is a view and is being modified inplace. This view is the output "
                 "of a function that returns multiple views. Such functions do not allow the "
                 "output views to be modified inplace. You should replace the inplace operation "
                 "by an out-of-place one.",
                 tape ? tape->output : 0,
                 tape && tape->node ? cfx__grad_node_name(tape->node) : "a function");
    else if (!base && (self->head.flags & CFX__GRAD) && cfx_tensor_is_leaf(self))
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "a leaf Variable that requires grad is being used in an in-place operation.");
    else if (base && (base->head.flags & CFX__GRAD) && cfx_tensor_is_leaf(base))
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "a view of a leaf Variable that requires grad is being used in an in-place "
                 "operation.");
    else
        return true;
    return false;
}

/* self before it is written to. */
static cfx_tensor *copy_before(cfx_tensor *self) {
    cfx__dispatch *d = cfx__dispatcher();
    d->below_autograd++;
    cfx_value args[] = {cfx_tensor_value(self), cfx_none()};
    cfx_value v = cfx__op_run(d->at, cfx_op_find("aten::clone"), args);
    d->below_autograd--;
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
}

/* A call that writes to its first argument. f is whose gradient it has. */
static cfx_value record_inplace(cfx_site at, cfx_op *op, cfx_op *f, cfx_value *args) {
    cfx_tensor *self = cfx_as_tensor(args[0]);
    if (!may_write(at, self))
        return cfx_bad();
    if (f != op && !f->grad && f->decompose) { /* through its parts, then copied */
        cfx_value pair[] = {args[0], cfx__op_call_bound(at, f, args), cfx_bool(false)};
        return cfx_is_bad(pair[1]) ? pair[1]
                                   : cfx__op_call_bound(at, cfx_op_find("aten::copy_"), pair);
    }
    size_t mark = cfx_scope_open();
    int nargs = cfx__op_info_of(op)->schema->nargs;
    cfx_value own[CFX_MAX_ARGS];
    memcpy(own, args, (size_t)nargs * sizeof *own);
    cfx__grad_written w = {.self = self, .version = self->storage ? self->storage->version : 0};
    if (cfx__tensor_needs_grad(self))
        w.to = cfx_keep(cfx__grad_edge_of(at, self, &w.output));
    if (f->saves & CFX_SAVE_ARG(0))
        w.before = copy_before(self);
    if (f->view || f == op)
        w.outline = cfx__tensor_alias(self, self->ndim, self->shape, self->stride, self->offset);
    cfx_value v = below(at, op, args);
    if (cfx_ok() && can_differ(self)) {
        cfx__grad_node *n = cfx__grad_node_new(at, f, own, 1, &self, &w);
        if (!f->grad && !(f->effects & CFX_RANDOM))
            n->kind = CFX__NODE_MISSING;
        if (self->base) {
            cfx__grad_node *outer = cfx__grad_node_slices(at, self->base, n);
            cfx__tape_set(self->base, outer, 0);
            cfx_drop(outer);
        } else {
            cfx__tape_set(self, n, 0);
        }
        cfx_drop(n);
        if (self->storage)
            self->storage->writer = f;
    }
    cfx_drop(w.to);
    return cfx_scope_return_value(mark, v);
}

/* ---- functions of the caller's --------------------------------------------------------------- */

static bool all_tensors(cfx_value v) {
    bool fine = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    for (int64_t i = 0; fine && i < cfx_as_list(v)->len; i++)
        fine = cfx_as_list(v)->items[i].tag == CFX_TAG_TENSOR ||
               cfx_as_list(v)->items[i].tag == CFX_TAG_NONE;
    return fine;
}

static bool holds(cfx_value list, const cfx_tensor *t) {
    return among(t, (int)cfx_as_list(list)->len, cfx_as_list(list)->items);
}

bool cfx_grad_function_from(cfx_site at, cfx_grad_function_options o) {
    if (!cfx_ok())
        return false;
    if (cfx_is_none(o.saved))
        o.saved = cfx_list_value(0, NULL);
    if (o.object.tag != CFX_TAG_OBJECT || !all_tensors(o.inputs) || !all_tensors(o.outputs) ||
        !all_tensors(o.saved)) {
        cfx_fail(CFX_TYPE_ERROR, at,
                 "%s: a function on the tape needs a callable object, and lists of tensors for "
                 "inputs, outputs and saved tensors", o.name ? o.name : "a function");
        return false;
    }
    const cfx_list *outs = cfx_as_list(o.outputs);
    for (int64_t i = 0; i < outs->len; i++) {
        cfx_tensor *t = outs->items[i].tag == CFX_TAG_TENSOR ? cfx_as_tensor(outs->items[i]) : NULL;
        if (!t || !holds(o.inputs, t))
            continue;
        if (!may_write(at, t))
            return false;
        if (t->base) {
            cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, at,
                     "%s writes to a view of another tensor, which a user-defined function "
                     "cannot; write to a tensor that is not a view, or return a new one", o.name);
            return false;
        }
    }
    cfx__grad_node *n = cfx__grad_node_function(at, &o);
    for (int64_t i = 0; i < outs->len; i++)
        if (outs->items[i].tag == CFX_TAG_TENSOR && can_differ(cfx_as_tensor(outs->items[i])))
            cfx__tape_set(cfx_as_tensor(outs->items[i]), n, (int)i);
    cfx_drop(n);
    return cfx_ok();
}

/* ---- the layer ------------------------------------------------------------------------------- */

static bool writes_first(const cfx__op_info *info, const cfx_value *args) {
    const cfx__schema *s = info->schema;
    return s->nargs && s->args[0].writes && s->nrets == 1 && s->rets[0].writes &&
           args[0].tag == CFX_TAG_TENSOR;
}

cfx_value cfx__grad_call(cfx_site at, cfx_op *op, cfx_value *args) {
    cfx__op_info *info = cfx__op_info_of(op);
    if (info->form == CFX__OUT) {
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "%s(): functions with out=... arguments don't support automatic differentiation, "
                 "but one of the arguments requires grad.",
                 info->schema->name);
        return cfx_bad();
    }
    if (info->form == CFX__INPLACE && !info->nout) {
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, at,
                 "%s: in-place operators on lists of tensors have no gradient; use the form that "
                 "returns a list", info->name);
        return cfx_bad();
    }
    if (info->form == CFX__INPLACE)
        return record_inplace(at, op, info->functional, args);
    if (info->writes && writes_first(info, args))
        return record_inplace(at, op, op, args);
    if (!op->grad && op->decompose)
        return cfx__op_refuses(at, op, args, NULL) ? cfx_bad() : cfx__op_decompose(at, op, args);
    if (op->grad == cfx__op_grad_none || info->python)
        return cfx__op_call_below(at, op, args);
    int nargs = info->schema->nargs;
    cfx_value own[CFX_MAX_ARGS];
    memcpy(own, args, (size_t)nargs * sizeof *own);
    cfx_value v = below(at, op, args);
    return cfx_is_bad(v) ? v : record(at, op, own, v);
}
