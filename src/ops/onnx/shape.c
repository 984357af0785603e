/* Shapes: those that are asked for and those that are given. */
#include "onnx.h"

CFX_FAMILY(VIEW);

/* ---- shapes as tensors ----------------------------------------------------------------------- */

/* Sizes as a tensor of int64: numbers that are known, and nodes where a program is recorded, since
 * sizes may vary. */
static cfx_tensor *sizes_tensor(cfx_op_call *c, int n, const int64_t *sizes) {
    cfx_value i64 = cfx_dtype_value(CFX_I64), parts = cfx_list_value(0, NULL);
    int64_t count = n;
    cfx_tensor *known = cfx_tensor_new(CFX_I64, 1, &count, sizes);
    if (!c->fake)
        return known;
    for (int i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(parts), cfx_tensor_value(cfx_full(cfx_list(1), sizes[i],
                                                                     CFX_KW(dtype, i64))));
    cfx_tensor *t = n ? cfx_cat(parts) : cfx_zeros(cfx_list(0), CFX_KW(dtype, i64));
    if (cfx_ok())
        cfx__tensor_know(t, known);
    return t;
}

static int64_t clamped(int64_t v, int64_t other, int64_t n) {
    v = v == INT64_MIN ? other : v < 0 ? v + n : v;
    return v < 0 ? 0 : v > n ? n : v;
}

ONNX_OP(Shape) {
    cfx_tensor *x = T(0);
    int64_t start = clamped(arg_int(c, 1), 0, x->ndim);
    int64_t end = clamped(arg_is_none(c, 2) ? INT64_MIN : arg_int(c, 2), x->ndim, x->ndim);
    OUT(0) = sizes_tensor(c, end > start ? (int)(end - start) : 0, x->shape + start);
}

ONNX_OP(Size) {
    cfx_tensor *all = sizes_tensor(c, T(0)->ndim, T(0)->shape);
    int64_t n = T(0)->numel;
    OUT(0) = c->fake ? cfx_prod(all) : cfx_tensor_new(CFX_I64, 0, NULL, &n);
    if (c->fake && cfx_ok())
        cfx__tensor_know(OUT(0), cfx_tensor_new(CFX_I64, 0, NULL, &n));
}

CFX_OP(onnx_Shape) = {
    "onnx::Shape(Tensor data, *, int start=0, int? end=None) -> Tensor",
    ONNX(Shape, 1)};
CFX_OP(onnx_Size) = {"onnx::Size(Tensor data) -> Tensor", ONNX(Size, 1)};

/* ---- another shape --------------------------------------------------------------------------- */

/* 0 keeps a size, unless zeros are sizes themselves. */
static void reshape(cfx_op_call *c, const int64_t *asked, int n, bool zeros) {
    cfx_tensor *x = T(0);
    int64_t shape[CFX_MAX_DIMS];
    for (int i = 0; i < n; i++) {
        shape[i] = asked[i];
        if (asked[i] == 0 && !zeros && i >= x->ndim) {
            op_fail(c, "Reshape: size %d is to stay as it is, and there are only %d dimensions", i,
                    x->ndim);
            return;
        }
        if (asked[i] == 0 && !zeros)
            shape[i] = x->shape[i];
    }
    OUT(0) = cfx_reshape(x, cfx_ints_value(n, shape));
}

ONNX_OP(Reshape) {
    int64_t shape[CFX_MAX_DIMS];
    int n;
    if (onnx_ints(c, 1, shape, &n))
        reshape(c, shape, n, arg_bool(c, 2));
}

ONNX_OP(Reshape_v1) {
    int64_t shape[CFX_MAX_DIMS];
    reshape(c, shape, arg_ints(c, 1, shape), false);
}

ONNX_OP(Flatten) {
    cfx_tensor *x = T(0);
    int64_t axis = arg_int(c, 1), rows = 1;
    if (axis < -x->ndim || axis > x->ndim) {
        op_fail(c, "Flatten: there is no axis %lld in a tensor of %d dimensions", (long long)axis,
                x->ndim);
        return;
    }
    axis = axis < 0 ? axis + x->ndim : axis;
    if (axis == 1 && x->ndim > 1) {
        OUT(0) = cfx_flatten(x, 1);
        return;
    }
    for (int i = 0; i < axis; i++)
        rows *= x->shape[i];
    int64_t columns = 1;
    for (int i = (int)axis; i < x->ndim; i++)
        columns *= x->shape[i];
    OUT(0) = cfx_reshape(x, cfx_list(rows, columns));
}

/* Dimensions of size 1 go, those of the axes alone where they are given. */
ONNX_OP(Squeeze) {
    cfx_tensor *x = T(0);
    int64_t axes[CFX_MAX_DIMS];
    if (arg_is_none(c, 1)) {
        OUT(0) = cfx_squeeze(x);
        return;
    }
    int n = onnx_axes(c, 1, x->ndim, axes);
    for (int i = 0; i < n; i++)
        if (x->shape[axes[i]] != 1) {
            op_fail(c, "Squeeze: size %lld of dimension %lld is not 1",
                    (long long)x->shape[axes[i]], (long long)axes[i]);
            return;
        }
    if (n >= 0)
        OUT(0) = n == 1 ? cfx_squeeze(x, axes[0]) : cfx_squeeze(x, cfx_ints_value(n, axes));
}

ONNX_OP(Unsqueeze) {
    cfx_tensor *x = T(0);
    int64_t axes[CFX_MAX_DIMS];
    int n = 0;
    if (T(1) ? !onnx_ints(c, 1, axes, &n) : (n = arg_ints(c, 1, axes)) < 0)
        return;
    int rank = x->ndim + n;
    if (rank > CFX_MAX_DIMS) {
        op_fail(c, "Unsqueeze: a tensor has at most %d dimensions", CFX_MAX_DIMS);
        return;
    }
    bool is_new[CFX_MAX_DIMS] = {0};
    for (int i = 0; i < n; i++) {
        int axis = onnx_axis(c, axes[i], rank);
        if (axis < 0)
            return;
        if (is_new[axis]) {
            op_fail(c, "Unsqueeze: axis %d is given twice", axis);
            return;
        }
        is_new[axis] = true;
    }
    for (int i = 0; i < rank; i++)
        x = is_new[i] ? cfx_unsqueeze(x, i) : x;
    OUT(0) = x;
}

ONNX_OP(Transpose) {
    cfx_tensor *x = T(0);
    int64_t perm[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, perm);
    for (int i = 0; arg_is_none(c, 1) && i < x->ndim; i++)
        perm[n++] = x->ndim - 1 - i;
    OUT(0) = cfx_permute(x, cfx_ints_value(n, perm));
}

/* Both shapes are broadcast to each other. */
ONNX_OP(Expand) {
    cfx_tensor *x = T(0);
    int64_t asked[CFX_MAX_DIMS], shape[CFX_MAX_DIMS];
    int n;
    if (!onnx_ints(c, 1, asked, &n))
        return;
    int rank = n > x->ndim ? n : x->ndim;
    for (int i = 0; i < rank; i++) {
        int own = i - (rank - x->ndim), other = i - (rank - n);
        int64_t a = own < 0 ? 1 : x->shape[own], b = other < 0 ? 1 : asked[other];
        if (a != b && a != 1 && b != 1) {
            op_fail(c, "Expand: %s and %s do not broadcast", cfx__shape_text(x->ndim, x->shape),
                    cfx__shape_text(n, asked));
            return;
        }
        shape[i] = a == 1 ? b : a;
    }
    OUT(0) = cfx_expand(x, cfx_ints_value(rank, shape));
}

ONNX_OP(Tile) {
    int64_t repeats[CFX_MAX_DIMS];
    int n;
    if (!onnx_ints(c, 1, repeats, &n))
        return;
    if (n != T(0)->ndim) {
        op_fail(c, "Tile: there are %d repeats for %d dimensions", n, T(0)->ndim);
        return;
    }
    OUT(0) = cfx_repeat(T(0), cfx_ints_value(n, repeats));
}

/* Of sequences and optional values too. */
ONNX_OP(Identity) { c->result = c->args[0]; }

CFX_OP(onnx_Reshape) = {
    "onnx::Reshape(Tensor data, Tensor shape, *, int allowzero=0) -> Tensor",
    ONNX(Reshape, 5)};
CFX_OP(onnx_Reshape_v1) = {
    "onnx::Reshape.v1(Tensor data, *, int[] shape) -> Tensor",
    ONNX(Reshape_v1, 1)};
CFX_OP(onnx_Flatten) = {"onnx::Flatten(Tensor input, *, int axis=1) -> Tensor", ONNX(Flatten, 1)};
CFX_OP(onnx_Squeeze) = {
    "onnx::Squeeze(Tensor data, Tensor? axes=None) -> Tensor",
    ONNX(Squeeze, 13)};
CFX_OP(onnx_Squeeze_v1) = {
    "onnx::Squeeze.v1(Tensor data, *, int[]? axes=None) -> Tensor",
    ONNX(Squeeze, 1)};
CFX_OP(onnx_Unsqueeze) = {
    "onnx::Unsqueeze(Tensor data, Tensor axes) -> Tensor",
    ONNX(Unsqueeze, 13)};
CFX_OP(onnx_Unsqueeze_v1) = {
    "onnx::Unsqueeze.v1(Tensor data, *, int[] axes) -> Tensor",
    ONNX(Unsqueeze, 1)};
CFX_OP(onnx_Transpose) = {
    "onnx::Transpose(Tensor data, *, int[]? perm=None) -> Tensor",
    ONNX(Transpose, 1)};
CFX_OP(onnx_Expand) = {"onnx::Expand(Tensor input, Tensor shape) -> Tensor", ONNX(Expand, 8)};
CFX_OP(onnx_Tile) = {"onnx::Tile(Tensor input, Tensor repeats) -> Tensor", ONNX(Tile, 6)};
CFX_OP(onnx_Identity) = {"onnx::Identity(t input) -> t", ONNX(Identity, 1)};

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Channels and points change places in blocks: DCR has the block before the channel. */
static cfx_tensor *to_space(cfx_tensor *x, int64_t b, bool block_first) {
    int64_t n = onnx_size(x, 0), ch = onnx_size(x, 1) / (b * b);
    int64_t h = onnx_size(x, 2), w = onnx_size(x, 3);
    x = block_first ? cfx_reshape(x, cfx_list(n, b, b, ch, h, w))
                    : cfx_reshape(x, cfx_list(n, ch, b, b, h, w));
    x = block_first ? cfx_permute(x, cfx_list(0, 3, 4, 1, 5, 2))
                    : cfx_permute(x, cfx_list(0, 1, 4, 2, 5, 3));
    return cfx_reshape(x, cfx_list(n, ch, h * b, w * b));
}

static cfx_tensor *to_depth(cfx_tensor *x, int64_t b, bool block_first) {
    int64_t n = onnx_size(x, 0), ch = onnx_size(x, 1);
    int64_t h = onnx_size(x, 2) / b, w = onnx_size(x, 3) / b;
    x = cfx_reshape(x, cfx_list(n, ch, h, b, w, b));
    x = block_first ? cfx_permute(x, cfx_list(0, 3, 5, 1, 2, 4))
                    : cfx_permute(x, cfx_list(0, 1, 3, 5, 2, 4));
    return cfx_reshape(x, cfx_list(n, ch * b * b, h, w));
}

/* Whether the mode is DCR; *fine is false, with an error, where there is none such or sizes do not
 * fit. */
static bool block_mode(cfx_op_call *c, bool depth, bool *fine) {
    cfx_tensor *x = T(0);
    int64_t b = arg_int(c, 1);
    const char *mode = arg_text(c, 2);
    bool first = mode && !strcmp(mode, "DCR");
    bool fits = x->ndim == 4 && b > 0 && b < INT32_MAX &&
                (depth ? onnx_size(x, 2) % b == 0 && onnx_size(x, 3) % b == 0
                       : onnx_size(x, 1) % (b * b) == 0);
    *fine = fits && (first || (mode && !strcmp(mode, "CRD")));
    if (!fits)
        op_fail(c, "%s: blocks of %lld do not fit a tensor of shape %s", op_title(c), (long long)b,
                cfx__shape_text(x->ndim, x->shape));
    else if (!*fine)
        op_fail(c, "%s: the mode is DCR or CRD, not '%s'", op_title(c), mode);
    return first;
}

ONNX_OP(DepthToSpace) {
    bool fine, first = block_mode(c, false, &fine);
    if (fine && !first)
        OUT(0) = cfx_pixel_shuffle(T(0), arg_int(c, 1));
    else if (fine)
        OUT(0) = to_space(T(0), arg_int(c, 1), first);
}

ONNX_OP(SpaceToDepth) {
    bool fine, first = block_mode(c, true, &fine);
    if (fine)
        OUT(0) = to_depth(T(0), arg_int(c, 1), first);
}

CFX_OP(onnx_DepthToSpace) = {
    "onnx::DepthToSpace(Tensor input, *, int blocksize, str mode=\"DCR\") -> Tensor",
    ONNX(DepthToSpace, 1)};
CFX_OP(onnx_SpaceToDepth) = {
    "onnx::SpaceToDepth(Tensor input, *, int blocksize, str mode=\"DCR\") -> Tensor",
    ONNX(SpaceToDepth, 1)};
