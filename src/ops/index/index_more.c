/* Indexing made of other operators: under a mask over the positions (what it hides is not looked
 * at, so indices there may be anything), along a dimension with broadcasting, where not zero. */
#include <cfx/ops.h>

#include "../sizes.h"

CFX_FAMILY(INDEX);

/* Indices clamped into self; elements that the mask hides may have any. The bad value when one is
 * no index. */
static cfx_value clamped(cfx_op_call *c, const cfx_tensor *self, int arg) {
    cfx_value list = cfx_list_value(0, NULL);
    if (arg_count(c, arg) > self->ndim) {
        op_fail_as(INDEX, c, "too many indices for tensor of dimension %d (got %lld)", self->ndim,
                   (long long)arg_count(c, arg));
        return cfx_bad();
    }
    for (int64_t k = 0; k < arg_count(c, arg); k++) {
        cfx_tensor *t = arg_item(c, arg, k);
        if (t && t->dtype != CFX_I64 && t->dtype != CFX_I32) {
            op_fail(c, "tensors used as indices must be long or int tensors");
            return cfx_bad();
        }
        int64_t n = self->shape[k];
        cfx_list_append(cfx_as_list(list), t ? CFX_V(cfx_clamp(t, -n, n - 1)) : CFX_NONE);
    }
    return list;
}

static void decompose_masked_index(cfx_op_call *c) {
    cfx_tensor *self = arg_tensor(c, 0), *mask = arg_tensor(c, 1);
    cfx_value at = clamped(c, self, 2);
    if (op_failed())
        return;
    if (self->numel == 0) {
        c->out[0] = cfx_full(size_list(mask), c->args[3],
                             CFX_KW(dtype, cfx_dtype_value(self->dtype)));
        return;
    }
    c->out[0] = cfx_masked_fill(cfx_index(self, at), cfx_logical_not(mask), c->args[3]);
}

static void decompose_masked_put(cfx_op_call *c) {
    cfx_tensor *self = arg_tensor(c, 0), *mask = arg_tensor(c, 1), *values = arg_tensor(c, 3);
    cfx_value at = clamped(c, self, 2);
    if (op_failed())
        return;
    if (self->numel == 0)
        c->out[0] = cfx_clone(self);
    else
        c->out[0] = cfx_aten__unsafe_index_put(
            self, at, cfx_masked_fill(values, cfx_logical_not(mask), 0), cfx_bool(true));
}

CFX_OP(_unsafe_masked_index) = {"aten::_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] "
                                "indices, Scalar fill) -> Tensor",
                                NULL, .decompose = decompose_masked_index};
CFX_OP(_unsafe_masked_index_put_accumulate) = {
    "aten::_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor "
    "values) -> Tensor",
    NULL, .decompose = decompose_masked_put};

/* ---- take_along_dim ------------------------------------------------------------------------- */

static void decompose_take_along_dim(cfx_op_call *c) {
    cfx_tensor *self = arg_tensor(c, 0), *indices = arg_tensor(c, 1);
    if (arg_is_none(c, 2)) {
        c->out[0] =
            cfx_gather(cfx_reshape(self, cfx_list(-1)), 0, cfx_reshape(indices, cfx_list(-1)));
        return;
    }
    if (self->ndim != indices->ndim) {
        op_fail(
            c,
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            "but got %d dimensions for input, and %d dimensions for indices",
            self->ndim, indices->ndim);
        return;
    }
    if (indices->dtype != CFX_I64 && indices->dtype != CFX_I32) {
        op_fail(c, "torch.take_along_dim(): dtype of indices should be Long but got %s",
                cfx__dtype_title(indices->dtype));
        return;
    }
    int dim = arg_dim(c, 2, self->ndim), n = self->ndim, m = n;
    if (dim < 0)
        return;
    int64_t from[CFX_MAX_DIMS], at[CFX_MAX_DIMS];
    memcpy(from, self->shape, (size_t)n * sizeof *from);
    memcpy(at, indices->shape, (size_t)n * sizeof *at);
    if (n) {
        from[dim] = indices->shape[dim];
        at[dim] = self->shape[dim];
    }
    if (!cfx__shape_broadcast(c->at, &n, from, indices->ndim, indices->shape) ||
        !cfx__shape_broadcast(c->at, &m, at, self->ndim, self->shape))
        return;
    indices = cfx_expand(indices, cfx_ints_value(n, from));
    cfx_tensor *wide = cfx_expand(self, cfx_ints_value(m, at));
    if (n && self->shape[dim]) /* indices may count from the end */
        indices = cfx_remainder(indices, self->shape[dim]);
    c->out[0] = cfx_gather(wide, dim, indices);
}

CFX_OP(take_along_dim) = {
    "aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
    "torch.take_along_dim Tensor.take_along_dim", .decompose = decompose_take_along_dim,
    .effects = CFX_COMPOSITE | CFX_MOVES, .out = "out"};

/* ---- where not zero ----------------------------------------------------------------------------
 */

static void decompose_argwhere(cfx_op_call *c) { c->out[0] = cfx_nonzero(c->args[0]); }

/* One vector of indices for each dimension; a number counts as a vector. */
static void decompose_nonzero_numpy(cfx_op_call *c) {
    cfx_tensor *self = arg_tensor(c, 0);
    c->result = cfx_unbind(cfx_nonzero(self->ndim ? self : cfx_unsqueeze(self, 0)), 1);
}

static void decompose_where(cfx_op_call *c) { c->result = cfx_nonzero_numpy(c->args[0]); }

CFX_OP(argwhere) = {"aten::argwhere(Tensor self) -> Tensor", "torch.argwhere Tensor.argwhere",
                    .decompose = decompose_argwhere, .effects = CFX_COMPOSITE};
CFX_OP(nonzero_numpy) = {"aten::nonzero_numpy(Tensor self) -> Tensor[]", NULL,
                         .decompose = decompose_nonzero_numpy, .effects = CFX_COMPOSITE};
CFX_OP(where) = {"aten::where(Tensor condition) -> Tensor[]", NULL, .decompose = decompose_where,
                 .effects = CFX_COMPOSITE};
