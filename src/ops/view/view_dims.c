/* Views by dimension: dimensions dropped, added, reordered, or read along diagonals and windows. */
#include <cfx/ops.h>

#include "../views.h"

CFX_FAMILY(VIEW);

/* ---- squeeze and unsqueeze ------------------------------------------------------------------- */

/* t without those dimensions of `mask` that have size 1. */
static void squeeze_mask(cfx_op_call *c, const cfx_tensor *t, uint64_t mask) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < t->ndim; d++) {
        if ((mask >> d & 1) && t->shape[d] == 1)
            continue;
        shape[n] = t->shape[d];
        stride[n++] = t->stride[d];
    }
    out_view(c, 0, t, n, shape, stride, t->offset);
}

static void view_squeeze(cfx_op_call *c) { squeeze_mask(c, arg_tensor(c, 0), UINT64_MAX); }

static void view_squeeze_dim(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int d = arg_dim(c, 1, t->ndim);
    if (d >= 0)
        squeeze_mask(c, t, (uint64_t)1 << d);
}

static void view_squeeze_dims(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    uint64_t mask = 0;
    if (!arg_count(c, 1) || arg_dims_mask(c, 1, t->ndim, &mask))
        squeeze_mask(c, t, mask);
}

static void view_unsqueeze(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int at = arg_dim(c, 1, t->ndim + 1);
    if (at < 0)
        return;
    if (t->ndim == CFX_MAX_DIMS) {
        op_fail(c, "tensor has too many (>%d) dims", CFX_MAX_DIMS);
        return;
    }
    for (int d = 0; d <= t->ndim; d++) {
        int from = d < at ? d : d - 1;
        shape[d] = d == at ? 1 : t->shape[from];
        stride[d] = d != at ? t->stride[from] : d < t->ndim ? t->shape[d] * t->stride[d] : 1;
    }
    out_view(c, 0, t, t->ndim + 1, shape, stride, t->offset);
}

CFX_OP(squeeze) = {"aten::squeeze(Tensor(a) self) -> Tensor(a)", "torch.squeeze Tensor.squeeze",
                   .view = view_squeeze, GRAD(reshape, 0), .core = core_squeeze,
                   .effects = RESHAPED, .inplace = "default"};
CFX_OP(squeeze_dim) = {"aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", NULL,
                       .view = view_squeeze_dim, GRAD(reshape, 0), .core = core_squeeze_dim,
                       .effects = RESHAPED, .inplace = "dim"};
CFX_OP(squeeze_dims) = {"aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", NULL,
                        .view = view_squeeze_dims, GRAD(reshape, 0), .effects = RESHAPED,
                        .inplace = "dims"};
CFX_OP(unsqueeze) = {"aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
                     "torch.unsqueeze Tensor.unsqueeze", .view = view_unsqueeze, GRAD(reshape, 0),
                     .effects = RESHAPED, .inplace = "default"};

/* ---- reordering ------------------------------------------------------------------------------ */

static void view_order(cfx_op_call *c, const cfx_tensor *t, const int *order) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    for (int d = 0; d < t->ndim; d++) {
        shape[d] = t->shape[order[d]];
        stride[d] = t->stride[order[d]];
    }
    out_view(c, 0, t, t->ndim, shape, stride, t->offset);
}

static void view_swapped(cfx_op_call *c, const cfx_tensor *t, int a, int b) {
    int order[CFX_MAX_DIMS];
    for (int d = 0; d < t->ndim; d++)
        order[d] = d == a ? b : d == b ? a : d;
    view_order(c, t, order);
}

static void view_transpose(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int a = arg_dim(c, 1, t->ndim), b = a < 0 ? -1 : arg_dim(c, 2, t->ndim);
    if (b >= 0)
        view_swapped(c, t, a, b);
}

static void decompose_transpose(cfx_op_call *c) {
    c->out[0] = cfx_transpose(arg_tensor(c, 0), c->args[1], c->args[2]);
}

/* Its functional form has an overload name that it has not: it is not derived. */
static void kernel_transpose_(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    view_transpose(c);
    if (!op_failed())
        cfx__tensor_become(t, c->out[0]);
    c->out[0] = t;
}

static void view_t(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    if (t->ndim > 2)
        op_fail(c, "t() expects a tensor with <= 2 dimensions, but self is %dD", t->ndim);
    else
        view_swapped(c, t, 0, t->ndim == 2);
}

static void view_permute(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t dims[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, dims), order[CFX_MAX_DIMS];
    uint64_t seen = 0;
    if (op_failed())
        return;
    if (n != t->ndim) {
        op_fail(
            c,
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            "length of the desired ordering of dimensions i.e. input.dim() = %d is not equal to "
            "len(dims) = %d",
            t->ndim, n);
        return;
    }
    for (int i = 0; i < n; i++) {
        int d = cfx__shape_wrap_dim(c->at, dims[i], n);
        if (d < 0)
            return;
        if (seen >> d & 1) {
            op_fail(c, "permute(): duplicate dims are not allowed.");
            return;
        }
        seen |= (uint64_t)1 << d;
        order[i] = d;
    }
    view_order(c, t, order);
}

static void view_reversed(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int order[CFX_MAX_DIMS];
    for (int d = 0; d < t->ndim; d++)
        order[d] = t->ndim - 1 - d;
    view_order(c, t, order);
}

static void decompose_reversed(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    int64_t dims[CFX_MAX_DIMS];
    for (int d = 0; d < t->ndim; d++)
        dims[d] = t->ndim - 1 - d;
    c->out[0] = cfx_permute(t, cfx_ints_value(t->ndim, dims));
}

CFX_OP(transpose_int) = {"aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
                         "torch.transpose Tensor.transpose", .view = view_transpose,
                         GRAD(transpose, 0), .inplace = "default", .core = core_transpose_int,
                         .effects = STRIDED};
CFX_OP(transpose_) = {"aten::transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)",
                      "Tensor.transpose_", .kernel = kernel_transpose_,
                      .dtypes = CFX_IN_ANY, GRAD(transpose, 0)};
CFX_OP(swapaxes) = {"aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)",
                    "torch.swapaxes Tensor.swapaxes", .view = view_transpose,
                    .decompose = decompose_transpose, .effects = CFX_COMPOSITE | STRIDED,
                    .inplace = "default"};
CFX_OP(swapdims) = {"aten::swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
                    "torch.swapdims Tensor.swapdims", .view = view_transpose,
                    .decompose = decompose_transpose, .effects = CFX_COMPOSITE | STRIDED,
                    .inplace = "default"};
CFX_OP(t) = {"aten::t(Tensor(a) self) -> Tensor(a)", "torch.t Tensor.t", .view = view_t,
             GRAD(t, 0), .core = core_t, .effects = STRIDED, .inplace = "default"};
CFX_OP(permute) = {"aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)",
                   "torch.permute Tensor.permute", .view = view_permute, GRAD(permute, 0),
                   .effects = STRIDED};
CFX_OP(numpy_T) = {"aten::numpy_T(Tensor(a) self) -> Tensor(a)", "Tensor.T", .view = view_reversed,
                   .decompose = decompose_reversed, .effects = CFX_COMPOSITE | STRIDED};

/* ---- matrices -------------------------------------------------------------------------------- */

/* Swaps the last two dimensions; `conjugate` where the elements are complex. */
static void swap_matrix(cfx_op_call *c, const char *name, bool conjugate) {
    cfx_tensor *t = arg_tensor(c, 0);
    if (t->ndim == 1) {
        op_fail(c,
                "tensor.%s is only supported on matrices or batches of matrices. Got 1-D tensor.",
                name);
        return;
    }
    c->out[0] = t->ndim ? cfx_transpose(t, -2, -1) : t;
    if (conjugate && cfx__dtype_is_complex(t->dtype)) {
        cfx_value v = cfx_py("torch.conj", c->out[0]);
        c->out[0] = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : &cfx__tensor_bad;
    }
}

static void decompose_mT(cfx_op_call *c) { swap_matrix(c, "mT", false); }
static void decompose_mH(cfx_op_call *c) { swap_matrix(c, "mH", true); }
static void decompose_adjoint(cfx_op_call *c) { swap_matrix(c, "adjoint()", true); }

static void decompose_matrix_H(cfx_op_call *c) {
    int n = arg_tensor(c, 0)->ndim;
    if (n != 0 && n != 2)
        op_fail(c, "tensor.H is only supported on matrices (2-D tensors). Got %d-D tensor.%s", n,
                n > 2 ? " For batches of matrices, consider using tensor.mH" : "");
    else
        swap_matrix(c, "H", true);
}

CFX_OP(mT) = {"aten::mT(Tensor(a) self) -> Tensor(a)", "Tensor.mT", .decompose = decompose_mT,
              .effects = CFX_COMPOSITE | STRIDED};
CFX_OP(mH) = {"aten::mH(Tensor(a) self) -> Tensor(a)", "Tensor.mH", .decompose = decompose_mH,
              .effects = CFX_COMPOSITE};
CFX_OP(matrix_H) = {"aten::matrix_H(Tensor(a) self) -> Tensor(a)", "Tensor.H",
                    .decompose = decompose_matrix_H, .effects = CFX_COMPOSITE};
CFX_OP(adjoint) = {"aten::adjoint(Tensor(a) self) -> Tensor(a)", "torch.adjoint Tensor.adjoint",
                   .decompose = decompose_adjoint, .effects = CFX_COMPOSITE};

/* ---- movedim --------------------------------------------------------------------------------- */

/* The dims of a list argument, wrapped; a single int counts as one. -1 when one is out of range or
 * appears twice. */
static int moved_dims(cfx_op_call *c, int arg, const char *name, int ndim, int *out) {
    int64_t dims[CFX_MAX_DIMS];
    int n = arg_ints(c, arg, dims);
    uint64_t seen = 0;
    if (op_failed())
        return -1;
    for (int i = 0; i < n; i++) {
        out[i] = cfx__shape_wrap_dim(c->at, dims[i], ndim);
        if (out[i] < 0)
            return -1;
        if (seen >> out[i] & 1) {
            op_fail(c, "movedim: repeated dim in `%s` (%s)", name, cfx__shape_text(n, dims));
            return -1;
        }
        seen |= (uint64_t)1 << out[i];
    }
    return n;
}

/* order[to] = from for all dimensions; those not named fill the gaps in their order. */
static bool moved_order(cfx_op_call *c, int *order) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int from[CFX_MAX_DIMS], to[CFX_MAX_DIMS];
    bool used[CFX_MAX_DIMS] = {0};
    int64_t given[2] = {c->args[1].tag == CFX_TAG_LIST ? arg_count(c, 1) : 1,
                        c->args[2].tag == CFX_TAG_LIST ? arg_count(c, 2) : 1};
    if (given[0] != given[1]) {
        op_fail(c,
                "movedim: Invalid source or destination dims: source (%s dims) should contain the "
                "same number of dims as destination (%s dims)",
                cfx_value_str(c->args[1]), cfx_value_str(c->args[2]));
        return false;
    }
    int n = moved_dims(c, 1, "source", t->ndim, from);
    if (n < 0 || moved_dims(c, 2, "destination", t->ndim, to) < 0)
        return false;
    for (int d = 0; d < t->ndim; d++)
        order[d] = -1;
    for (int i = 0; i < n; i++) {
        order[to[i]] = from[i];
        used[from[i]] = true;
    }
    for (int d = 0, next = 0; d < t->ndim; d++) {
        if (order[d] >= 0)
            continue;
        while (used[next])
            next++;
        order[d] = next++;
    }
    return true;
}

static void view_movedim(cfx_op_call *c) {
    int order[CFX_MAX_DIMS];
    if (moved_order(c, order))
        view_order(c, arg_tensor(c, 0), order);
}

static void decompose_movedim(cfx_op_call *c) {
    int order[CFX_MAX_DIMS];
    int64_t dims[CFX_MAX_DIMS];
    int n = arg_tensor(c, 0)->ndim;
    if (!moved_order(c, order))
        return;
    for (int d = 0; d < n; d++)
        dims[d] = order[d];
    c->out[0] = cfx_permute(arg_tensor(c, 0), cfx_ints_value(n, dims));
}

#define MOVEDIM                                                                                    \
    .view = view_movedim, .decompose = decompose_movedim, .effects = CFX_COMPOSITE | STRIDED

CFX_OP(movedim_int) = {
    "aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
    "torch.movedim Tensor.movedim", MOVEDIM};
CFX_OP(movedim_intlist) = {
    "aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)", NULL,
    MOVEDIM};
CFX_OP(moveaxis_int) = {
    "aten::moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
    "torch.moveaxis Tensor.moveaxis", MOVEDIM};
CFX_OP(moveaxis_intlist) = {
    "aten::moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)", NULL,
    MOVEDIM};

/* ---- diagonals and windows ------------------------------------------------------------------- */

static void view_diagonal(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS], k = arg_int(c, 1);
    int a = arg_dim(c, 2, t->ndim), b = a < 0 ? -1 : arg_dim(c, 3, t->ndim), n = 0;
    if (b < 0)
        return;
    if (a == b) {
        op_fail(c, "diagonal dimensions cannot be identical %lld, %lld", (long long)arg_int(c, 2),
                (long long)arg_int(c, 3));
        return;
    }
    int64_t rows = t->shape[a], cols = t->shape[b], offset = t->offset;
    bool reaches = k >= 0 ? k < cols : k > -rows;
    if (reaches && k >= 0)
        cols -= k;
    else if (reaches)
        rows += k;
    int64_t length = reaches ? (rows < cols ? rows : cols) : 0;
    if (length > 0)
        offset += k >= 0 ? k * t->stride[b] : -k * t->stride[a];
    for (int d = 0; d < t->ndim; d++) {
        if (d == a || d == b)
            continue;
        shape[n] = t->shape[d];
        stride[n++] = t->stride[d];
    }
    shape[n] = length;
    stride[n++] = t->stride[a] + t->stride[b];
    out_view(c, 0, t, n, shape, stride, offset);
}

static void view_unfold(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS], size = arg_int(c, 2), step = arg_int(c, 3);
    int d = arg_dim(c, 1, t->ndim), n = t->ndim;
    if (d < 0)
        return;
    int64_t room = n ? t->shape[d] : 1;
    if (n == CFX_MAX_DIMS)
        op_fail(c, "tensor has too many (>%d) dims", CFX_MAX_DIMS);
    else if (size < 0)
        op_fail(c, "size is %lld but must be >= 0", (long long)size);
    else if (size > room)
        op_fail(c, "maximum size for tensor at dimension %d is %lld but size is %lld", d,
                (long long)room, (long long)size);
    else if (step <= 0)
        op_fail(c, "step is %lld but must be > 0", (long long)step);
    if (op_failed())
        return;
    for (int i = 0; i < n; i++) {
        shape[i] = t->shape[i];
        stride[i] = t->stride[i];
    }
    shape[n] = size;
    stride[n] = n ? t->stride[d] : 1;
    if (n) {
        int64_t wide;
        shape[d] = (room - size) / step + 1;
        /* a step past the end is taken once: its stride need not be a number there is */
        bool fits = !__builtin_mul_overflow(step, t->stride[d], &wide);
        stride[d] = fits ? wide : t->stride[d];
    }
    out_view(c, 0, t, n + 1, shape, stride, t->offset);
}

CFX_OP(diagonal) = {
    "aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
    "torch.diagonal Tensor.diagonal torch.linalg.diagonal", .view = view_diagonal,
    GRAD(diagonal, 0), .effects = CFX_MOVES};
CFX_OP(unfold) = {"aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
                  "Tensor.unfold", .view = view_unfold, GRAD(unfold, 0), .effects = CFX_MOVES};

/* ---- at least so many dimensions ------------------------------------------------------------- */

static cfx_tensor *atleast(cfx_tensor *t, int n) {
    if (t->ndim >= n)
        return t;
    if (t->ndim == 0)
        return cfx_reshape(t, n == 1 ? cfx_list(1) : n == 2 ? cfx_list(1, 1) : cfx_list(1, 1, 1));
    if (t->ndim == 1)
        t = cfx_unsqueeze(t, 0);
    return n == 3 ? cfx_unsqueeze(t, -1) : t;
}

static void decompose_atleast(cfx_op_call *c) {
    int n = *(const int *)c->op->row;
    if (c->nout) {
        c->out[0] = atleast(arg_tensor(c, 0), n);
        return;
    }
    c->result = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < arg_count(c, 0); i++)
        cfx_list_append(cfx_as_list(c->result), cfx_tensor_value(atleast(arg_item(c, 0, i), n)));
}

static const int at_least[] = {0, 1, 2, 3};
#define ATLEAST(n)                                                                                 \
    .decompose = decompose_atleast, .row = &at_least[n], .effects = CFX_COMPOSITE | CFX_SHARES

CFX_OP(atleast_1d) = {"aten::atleast_1d(Tensor self) -> Tensor",
                      "torch.functional.atleast_1d torch.atleast_1d", ATLEAST(1)};
CFX_OP(atleast_1d_Sequence) = {"aten::atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]", NULL,
                               ATLEAST(1)};
CFX_OP(atleast_2d) = {"aten::atleast_2d(Tensor self) -> Tensor",
                      "torch.functional.atleast_2d torch.atleast_2d", ATLEAST(2)};
CFX_OP(atleast_2d_Sequence) = {"aten::atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]", NULL,
                               ATLEAST(2)};
CFX_OP(atleast_3d) = {"aten::atleast_3d(Tensor self) -> Tensor",
                      "torch.functional.atleast_3d torch.atleast_3d", ATLEAST(3)};
CFX_OP(atleast_3d_Sequence) = {"aten::atleast_3d.Sequence(Tensor[] tensors) -> Tensor[]", NULL,
                               ATLEAST(3)};
