/* The functional twins of views. A `_copy` computes the view and copies it; a `_scatter` copies the
 * whole and writes to the view. Each names its view operator in `.row`; there is one column for
 * all. */
#include "../views.h"

#include <cfx/ops.h>

CFX_FAMILY(VIEW);

/* The view of `from`: the view operator run on it with the arguments after the first `skip`. */
static cfx_op_call view_of(cfx_op_call *c, cfx_tensor *from, int skip, cfx_value *args) {
    cfx_op_call v = *c;
    v.op = (cfx_op *)c->op->row;
    v.nargs = c->nargs - skip + 1;
    v.args = args;
    args[0] = cfx_tensor_value(from);
    for (int i = skip; i < c->nargs; i++)
        args[i - skip + 1] = c->args[i];
    v.op->view(&v);
    return v;
}

static cfx_tensor *copied(cfx_op_call *c, const cfx_tensor *t) {
    cfx_tensor *copy = cfx__tensor_empty(c->at, t->dtype, c->fake, t->ndim, t->shape, NULL);
    if (copy->data && t->data)
        cfx__tensor_copy(copy, t);
    return copy;
}

static void kernel_view_copy(cfx_op_call *c) {
    cfx_value args[CFX_MAX_ARGS];
    cfx_op_call v = view_of(c, arg_tensor(c, 0), 1, args);
    if (op_failed())
        return;
    if (c->nout) {
        c->out[0] = copied(c, v.out[0]);
        return;
    }
    c->result = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v.result)->len && !op_failed(); i++) {
        size_t mark = cfx_scope_open();
        cfx_list_append(
            cfx_as_list(c->result),
            cfx_tensor_value(copied(c, cfx_as_tensor(cfx_as_list(v.result)->items[i]))));
        cfx_scope_close(mark);
    }
}

#define COPY_OF(id) .kernel = kernel_view_copy, .dtypes = CFX_IN_ANY, .row = &cfx_op_##id

CFX_OP(alias_copy) = {"aten::alias_copy(Tensor self) -> Tensor", "torch.alias_copy",
                      COPY_OF(alias), GRAD(same, 0), .core = core_alias_copy, .effects = RESHAPED,
                      .out = "out"};
CFX_OP(detach_copy) = {"aten::detach_copy(Tensor self) -> Tensor", "torch.detach_copy",
                       COPY_OF(detach), NO_GRAD, .effects = RESHAPED, .out = "out"};
CFX_OP(_reshape_alias_copy) = {
    "aten::_reshape_alias_copy(Tensor self, SymInt[] size, SymInt[] stride) -> Tensor",
    "torch._reshape_alias_copy", COPY_OF(_reshape_alias), GRAD(reshape, 0), .out = "out"};
/* What is no view is copied to one first. */
static void kernel_reshape_copy(cfx_op_call *c) {
    cfx_tensor *t = cfx_reshape(c->args[0], c->args[1]);
    if (!op_failed())
        c->out[0] = copied(c, t);
}

CFX_OP(view_copy) = {"aten::view_copy(Tensor self, SymInt[] size) -> Tensor", "torch.view_copy",
                     .kernel = kernel_reshape_copy, .dtypes = CFX_IN_ANY, GRAD(reshape, 0),
                     .effects = RESHAPED, .out = "out"};
CFX_OP(_reshape_copy) = {"aten::_reshape_copy(Tensor self, SymInt[] size) -> Tensor", NULL,
                         .kernel = kernel_reshape_copy, .dtypes = CFX_IN_ANY, GRAD(reshape, 0),
                         .effects = RESHAPED};
CFX_OP(view_copy_dtype) = {"aten::view_copy.dtype(Tensor self, ScalarType dtype) -> Tensor", NULL,
                           COPY_OF(view_dtype), .effects = CFX_LAYOUT, .out = "dtype_out"};
CFX_OP(as_strided_copy) = {"aten::as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, "
                           "SymInt? storage_offset=None) -> Tensor",
                           "torch.as_strided_copy", COPY_OF(as_strided), GRAD(as_strided, 0),
                           .effects = CFX_STORAGE, .out = "out"};
/* A copy has strides of its own: sizes and strides like the argument's do not say that it is the
 * argument, so that copies which move elements are not CFX_ALIKE. */
CFX_OP(expand_copy) = {
    "aten::expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
    "torch.expand_copy", COPY_OF(expand), GRAD(same, 0), .core = core_expand_copy,
    .effects = CFX_MOVES, .out = "out"};
CFX_OP(permute_copy) = {"aten::permute_copy(Tensor self, int[] dims) -> Tensor",
                        "torch.permute_copy", COPY_OF(permute), GRAD(permute, 0),
                        .effects = CFX_MOVES, .out = "out"};
CFX_OP(transpose_copy_int) = {"aten::transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor",
                              "torch.transpose_copy", COPY_OF(transpose_int), GRAD(transpose, 0),
                              .core = core_transpose_copy_int, .effects = CFX_MOVES,
                              .out = "int_out"};
CFX_OP(t_copy) = {"aten::t_copy(Tensor self) -> Tensor", "torch.t_copy", COPY_OF(t), GRAD(t, 0),
                  .core = core_t_copy, .effects = CFX_MOVES, .out = "out"};
CFX_OP(squeeze_copy) = {"aten::squeeze_copy(Tensor self) -> Tensor", "torch.squeeze_copy",
                        COPY_OF(squeeze), GRAD(reshape, 0), .core = core_squeeze_copy,
                        .effects = RESHAPED, .out = "out"};
CFX_OP(squeeze_copy_dim) = {"aten::squeeze_copy.dim(Tensor self, int dim) -> Tensor", NULL,
                            COPY_OF(squeeze_dim), GRAD(reshape, 0), .core = core_squeeze_copy_dim,
                            .effects = RESHAPED, .out = "dim_out"};
CFX_OP(squeeze_copy_dims) = {"aten::squeeze_copy.dims(Tensor self, int[] dim) -> Tensor", NULL,
                             COPY_OF(squeeze_dims), GRAD(reshape, 0),
                             .core = core_squeeze_copy_dims, .effects = RESHAPED,
                             .out = "dims_out"};
CFX_OP(unsqueeze_copy) = {"aten::unsqueeze_copy(Tensor self, int dim) -> Tensor",
                          "torch.unsqueeze_copy", COPY_OF(unsqueeze), GRAD(reshape, 0),
                          .core = core_unsqueeze_copy, .effects = RESHAPED, .out = "out"};
CFX_OP(slice_copy_Tensor) = {"aten::slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, "
                             "SymInt? end=None, SymInt step=1) -> Tensor",
                             "torch.slice_copy", COPY_OF(slice_Tensor), GRAD(slice, 0),
                             .effects = CFX_MOVES, .out = "Tensor_out"};
CFX_OP(select_copy_int) = {"aten::select_copy.int(Tensor self, int dim, SymInt index) -> Tensor",
                           "torch.select_copy", COPY_OF(select_int), GRAD(select, 0),
                           .effects = CFX_MOVES, .out = "int_out"};
CFX_OP(narrow_copy) = {
    "aten::narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor",
    "torch.narrow_copy Tensor.narrow_copy", COPY_OF(narrow), GRAD(narrow, 0), .effects = CFX_MOVES,
    .out = "out"};
CFX_OP(diagonal_copy) = {
    "aten::diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    "torch.diagonal_copy", COPY_OF(diagonal), GRAD(diagonal, 0), .core = core_diagonal_copy,
    .effects = CFX_MOVES, .out = "out"};
CFX_OP(unfold_copy) = {
    "aten::unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor",
    "torch.unfold_copy", COPY_OF(unfold), GRAD(unfold, 0), .core = core_unfold_copy,
    .effects = CFX_MOVES, .out = "out"};
CFX_OP(unbind_copy_int) = {"aten::unbind_copy.int(Tensor self, int dim=0) -> Tensor[]",
                           "torch.unbind_copy", COPY_OF(unbind_int), GRAD(unbind, 0),
                           .out = "int_out"};
CFX_OP(split_copy_Tensor) = {
    "aten::split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
    "torch.split_copy", COPY_OF(split_Tensor), GRAD(split, 0), .out = "Tensor_out"};
CFX_OP(split_with_sizes_copy) = {
    "aten::split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
    "torch.split_with_sizes_copy", COPY_OF(split_with_sizes), GRAD(split, 0), .out = "out"};
CFX_OP(view_as_real_copy) = {"aten::view_as_real_copy(Tensor self) -> Tensor",
                             "torch.view_as_real_copy", COPY_OF(view_as_real),
                             GRAD(view_as_real, 0), .out = "out"};
CFX_OP(view_as_complex_copy) = {"aten::view_as_complex_copy(Tensor self) -> Tensor",
                                "torch.view_as_complex_copy", COPY_OF(view_as_complex),
                                GRAD(view_as_complex, 0), .out = "out"};

/* ---- scatter --------------------------------------------------------------------------------- */

/* The copy that is written to: strides as self has them, unless elements share memory there. With
 * `whole` all of the storage comes along, for views that are given by strides and offset. */
static cfx_tensor *scatter_base(cfx_op_call *c, const cfx_tensor *self, bool whole) {
    if (cfx__tensor_overlaps_itself(self))
        return out_empty_like(c, self->dtype, CFX_PRESERVE, self);
    if (!whole)
        return out_strided(c, 0, self->dtype, self->ndim, self->shape, self->stride);
    const bool unknown = self->storage->size == SIZE_MAX; /* of a fake view: see infer.c */
    int64_t n = unknown ? 0 : (int64_t)self->storage->size / cfx_dtype_size(self->dtype), one = 1;
    cfx_tensor *all = cfx__tensor_empty(c->at, self->dtype, c->fake, 1, &n, NULL);
    if (cfx__obj_is_bad(all))
        return all;
    all->storage->size = unknown ? SIZE_MAX : all->storage->size;
    if (all->data && self->data)
        cfx__tensor_copy(all, cfx__tensor_alias(self, 1, &n, &one, 0));
    return out_view(c, 0, all, self->ndim, self->shape, self->stride, self->offset);
}

/* Writes the second argument to a view of a copy of the first. */
static void scatter_to(cfx_op_call *c, bool whole) {
    const cfx_tensor *self = arg_tensor(c, 0), *src = arg_tensor(c, 1);
    cfx_tensor *out = scatter_base(c, self, whole);
    cfx_value args[CFX_MAX_ARGS];
    if (op_failed())
        return;
    cfx_op_call v = view_of(c, out, 2, args);
    if (op_failed())
        return;
    if (!cfx__tensor_same_shape(v.out[0], src)) {
        op_fail(c,
                "expected src to have a size equal to the slice of self. src size = %s, slice size "
                "= %s",
                cfx__shape_text(src->ndim, src->shape),
                cfx__shape_text(v.out[0]->ndim, v.out[0]->shape));
        return;
    }
    if (!out->data || !self->data || !src->data)
        return;
    copy_gaps(out, self);
    cfx__tensor_copy(out, self);
    cfx__tensor_copy(v.out[0], src);
}

static void kernel_view_scatter(cfx_op_call *c) { scatter_to(c, false); }
static void kernel_as_strided_scatter(cfx_op_call *c) { scatter_to(c, true); }

#define SCATTER_TO(id) .kernel = kernel_view_scatter, .dtypes = CFX_IN_ANY, .row = &cfx_op_##id

CFX_OP(slice_scatter) = {
    "aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, "
    "SymInt? end=None, SymInt step=1) -> Tensor",
    "torch.slice_scatter Tensor.slice_scatter", SCATTER_TO(slice_Tensor), GRAD(slice_scatter, 0),
    .out = "out"};
CFX_OP(select_scatter) = {
    "aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
    "torch.select_scatter Tensor.select_scatter", SCATTER_TO(select_int), GRAD(select_scatter, 0),
    .core = core_select_scatter, .out = "out"};
CFX_OP(diagonal_scatter) = {"aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int "
                            "dim1=0, int dim2=1) -> Tensor",
                            "torch.diagonal_scatter Tensor.diagonal_scatter", SCATTER_TO(diagonal),
                            GRAD(diagonal_scatter, 0), .out = "out"};
CFX_OP(as_strided_scatter) = {"aten::as_strided_scatter(Tensor self, Tensor src, SymInt[] size, "
                              "SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
                              "torch.as_strided_scatter Tensor.as_strided_scatter",
                              .kernel = kernel_as_strided_scatter,
                              .dtypes = CFX_IN_ANY, .row = &cfx_op_as_strided,
                              GRAD(as_strided_scatter, 0), .effects = CFX_STORAGE, .out = "out"};

/* ---- with their storages --------------------------------------------------------------------- */

cfx_tensor *cfx__copied_as_it_lies(cfx_tensor *t) {
    const int64_t size = cfx_dtype_size((cfx_dtype)t->dtype);
    const int64_t n = t->storage ? (int64_t)t->storage->size / size : 0;
    if (n <= t->numel)
        return cfx_clone(t);
    cfx_tensor *line = cfx_clone(cfx_as_strided(t, cfx_list(n), cfx_list(1), 0));
    return cfx_as_strided(line, cfx_ints_value(t->ndim, t->shape),
                          cfx_ints_value(t->ndim, t->stride), t->offset);
}
