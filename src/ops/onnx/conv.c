/* Convolutions. */
#include "onnx.h"

CFX_FAMILY(CONV);

/* ---- forward --------------------------------------------------------------------------------- */

/* The sizes of a kernel, a weight's behind the first two; NULL, with an error, where it does not
 * fit x. */
static const int64_t *kernel_of(cfx_op_call *c, const cfx_tensor *x, const cfx_tensor *w) {
    if (x->ndim == w->ndim && w->ndim > 2)
        return w->shape + 2;
    op_fail(c, "%s: the weight has %d dimensions, the input %d", op_title(c), w->ndim, x->ndim);
    return NULL;
}

static cfx_tensor *convolved(const onnx_window *v, cfx_tensor *x, cfx_tensor *w, cfx_tensor *bias,
                             int64_t groups) {
    x = onnx_window_pad(v, x, cfx_int(0));
    cfx_value stride = cfx_ints_value(v->n, v->stride), pad = onnx_window_padding(v);
    cfx_value dilation = cfx_ints_value(v->n, v->dilation);
    return v->n == 1   ? cfx_conv1d(x, w, bias, stride, pad, dilation, groups)
           : v->n == 2 ? cfx_conv2d(x, w, bias, stride, pad, dilation, groups)
                       : cfx_conv3d(x, w, bias, stride, pad, dilation, groups);
}

ONNX_OP(Conv) { /* X, W, B, auto_pad, dilations, group, kernel_shape, pads, strides */
    static const onnx_window_args at = {3, 4, 6, 7, 8};
    const int64_t *kernel = kernel_of(c, T(0), T(1));
    onnx_window w;
    if (kernel && onnx_window_read(c, T(0), kernel, at, &w))
        OUT(0) = convolved(&w, T(0), T(1), T(2), arg_int(c, 5));
}

CFX_OP(onnx_Conv) = {
    "onnx::Conv(Tensor X, Tensor W, Tensor? B=None, *, str auto_pad=\"NOTSET\", int[]? "
    "dilations=None, int group=1, int[]? kernel_shape=None, int[]? pads=None, int[]? "
    "strides=None) -> Tensor",
    ONNX(Conv, 1)};

/* A zero point is one number, or one for each result channel. */
static cfx_tensor *centred(cfx_tensor *x, cfx_tensor *zero_point) {
    x = onnx_to(x, CFX_F64);
    if (!zero_point)
        return x;
    cfx_tensor *zero = onnx_to(zero_point, CFX_F64);
    for (int i = 1; zero->ndim && i < x->ndim; i++)
        zero = cfx_unsqueeze(zero, -1);
    return cfx_sub(x, zero);
}

/* Sums of integers, exact in double. */
ONNX_OP(ConvInteger) { /* x, w, x_zero_point, w_zero_point, auto_pad, ... */
    static const onnx_window_args at = {4, 5, 7, 8, 9};
    const int64_t *kernel = kernel_of(c, T(0), T(1));
    onnx_window w;
    if (kernel && onnx_window_read(c, T(0), kernel, at, &w))
        OUT(0) = onnx_to(convolved(&w, centred(T(0), T(2)), centred(T(1), T(3)), NULL,
                                   arg_int(c, 6)),
                         CFX_I32);
}

CFX_OP(onnx_ConvInteger) = {
    "onnx::ConvInteger(Tensor x, Tensor w, Tensor? x_zero_point=None, Tensor? w_zero_point=None, "
    "*, str auto_pad=\"NOTSET\", int[]? dilations=None, int group=1, int[]? kernel_shape=None, "
    "int[]? pads=None, int[]? strides=None) -> Tensor",
    ONNX(ConvInteger, 10)};

/* A step of a convolution over time, which sees what came before. */
ONNX_OP(CausalConvWithState) { /* input, weight, bias, past_state, activation */
    cfx_tensor *x = T(0), *w = T(1);
    if (x->ndim != 3 || w->ndim != 3 || onnx_size(w, 2) < 1) {
        op_fail(c, "CausalConvWithState: input and weight have three dimensions");
        return;
    }
    int64_t before = onnx_size(w, 2) - 1;
    cfx_tensor *all = T(3) ? cfx_cat(cfx_list(T(3), x), -1)
                           : cfx_constant_pad_nd(x, cfx_list(before, 0));
    cfx_tensor *y = cfx_conv1d(all, w, T(2), 1, 0, 1, onnx_size(x, 1));
    const char *activation = arg_text(c, 4);
    bool silu = !strcmp(activation, "silu") || !strcmp(activation, "swish");
    if (!silu && strcmp(activation, "none")) {
        op_fail(c, "CausalConvWithState: the activation is none, silu or swish, not '%s'",
                activation);
        return;
    }
    OUT(0) = silu ? cfx_silu(y) : y;
    OUT(1) = cfx_slice(all, -1, onnx_size(all, 2) - before, INT64_MAX);
}

CFX_OP(onnx_CausalConvWithState) = {
    "onnx::CausalConvWithState(Tensor input, Tensor weight, Tensor? bias=None, Tensor? "
    "past_state=None, *, str activation=\"none\") -> (Tensor output, Tensor present_state)",
    ONNX(CausalConvWithState, 27)};

/* ---- backward -------------------------------------------------------------------------------- */

/* The padding that gives results of the size asked for, or of size * stride. What is missing then
 * is missing behind. */
static void pad_to(const cfx_tensor *x, onnx_window *w, const int64_t *more, const int64_t *asked,
                   bool more_behind) {
    for (int i = 0; i < w->n; i++) {
        int64_t whole = (onnx_size(x, 2 + i) - 1) * w->stride[i] + more[i] +
                        (w->kernel[i] - 1) * w->dilation[i] + 1;
        int64_t all = whole - (asked ? asked[i] : onnx_size(x, 2 + i) * w->stride[i]);
        w->before[i] = all < 0 ? 0 : more_behind ? all / 2 : all - all / 2;
        w->after[i] = all - w->before[i];
    }
}

/* X, W, B, auto_pad, dilations, group, kernel_shape, output_padding, output_shape, pads, strides */
static bool read_transposed(cfx_op_call *c, onnx_window *w, int64_t *more) {
    static const onnx_window_args at = {-1, 4, 6, 9, 10};
    const int64_t *kernel = kernel_of(c, T(0), T(1));
    int64_t asked[CFX_MAX_DIMS];
    const char *how = arg_text(c, 3);
    bool same = !strcmp(how, "SAME_UPPER") || !strcmp(how, "SAME_LOWER");
    if (!kernel || !onnx_window_read(c, T(0), kernel, at, w))
        return false;
    for (int i = 0; i < w->n; i++)
        more[i] = 0;
    int nmore = arg_ints(c, 7, more), nasked = arg_ints(c, 8, asked);
    int skip = nasked == w->n + 2 ? 2 : 0; /* some have batch and channels as well */
    if ((nmore && nmore != w->n) || (nasked && nasked != w->n + skip)) {
        op_fail(c, "ConvTranspose: output_padding and output_shape have a number for each "
                "dimension");
        return false;
    }
    if (nasked || same)
        pad_to(T(0), w, more, nasked ? asked + skip : NULL, !strcmp(how, "SAME_UPPER"));
    return true;
}

static cfx_tensor *transposed(const onnx_window *w, cfx_op_call *c, cfx_value pad, cfx_value more) {
    cfx_value stride = cfx_ints_value(w->n, w->stride);
    cfx_value dilation = cfx_ints_value(w->n, w->dilation);
    int64_t groups = arg_int(c, 5);
    return w->n == 1
               ? cfx_conv_transpose1d(T(0), T(1), T(2), stride, pad, more, groups, dilation)
           : w->n == 2
               ? cfx_conv_transpose2d(T(0), T(1), T(2), stride, pad, more, groups, dilation)
               : cfx_conv_transpose3d(T(0), T(1), T(2), stride, pad, more, groups, dilation);
}

/* Uneven padding is cut off what is computed without; what is missing behind it has nothing but the
 * bias in it. */
ONNX_OP(ConvTranspose) {
    onnx_window w;
    int64_t more[CFX_MAX_DIMS], none[CFX_MAX_DIMS] = {0};
    if (!read_transposed(c, &w, more))
        return;
    bool plain = onnx_window_even(&w);
    for (int i = 0; i < w.n; i++)
        plain &= more[i] < w.stride[i] || more[i] < w.dilation[i];
    if (plain) {
        OUT(0) = transposed(&w, c, cfx_ints_value(w.n, w.before), cfx_ints_value(w.n, more));
        return;
    }
    cfx_tensor *bias = T(2), *y;
    cfx_value given = c->args[2];
    c->args[2] = cfx_none();
    y = transposed(&w, c, cfx_ints_value(w.n, none), cfx_ints_value(w.n, none));
    c->args[2] = given;
    cfx_value pads = cfx_list_value(0, NULL);
    for (int i = w.n - 1; i >= 0; i--) {
        cfx_list_append(cfx_as_list(pads), cfx_int(-w.before[i]));
        cfx_list_append(cfx_as_list(pads), cfx_int(more[i] - w.after[i]));
    }
    y = cfx_constant_pad_nd(y, pads);
    for (int i = 0; bias && i < w.n; i++)
        bias = cfx_unsqueeze(bias, -1);
    OUT(0) = bias ? cfx_add(y, bias) : y;
}

CFX_OP(onnx_ConvTranspose) = {
    "onnx::ConvTranspose(Tensor X, Tensor W, Tensor? B=None, *, str auto_pad=\"NOTSET\", int[]? "
    "dilations=None, int group=1, int[]? kernel_shape=None, int[]? output_padding=None, int[]? "
    "output_shape=None, int[]? pads=None, int[]? strides=None) -> Tensor",
    ONNX(ConvTranspose, 1)};

/* ---- deformed -------------------------------------------------------------------------------- */

/* X, W, offset, B, mask, dilations, group, kernel_shape, offset_group, pads, strides */
ONNX_OP(DeformConv) {
    static const onnx_window_args at = {-1, 5, 7, 9, 10};
    cfx_tensor *x = T(0), *weight = T(1), *bias = T(3), *mask = T(4);
    const int64_t *kernel = kernel_of(c, x, weight);
    onnx_window w;
    if (!kernel || !onnx_window_read(c, x, kernel, at, &w))
        return;
    if (w.n != 2) {
        op_fail(c, "DeformConv: images have two dimensions here, not %d", w.n);
        return;
    }
    cfx_value d = cfx_dtype_value((cfx_dtype)x->dtype);
    if (!mask)
        mask = cfx_zeros(cfx_list(onnx_size(x, 0), 0, 0, 0), CFX_KW(dtype, d));
    if (!bias)
        bias = cfx_zeros(cfx_list(onnx_size(weight, 0)), CFX_KW(dtype, d));
    x = onnx_window_pad(&w, x, cfx_int(0));
    bool even = onnx_window_even(&w);
    OUT(0) = cfx_torchvision_deform_conv2d(
        x, weight, T(2), mask, bias, w.stride[0], w.stride[1], even ? w.before[0] : 0,
        even ? w.before[1] : 0, w.dilation[0], w.dilation[1], arg_int(c, 6), arg_int(c, 8),
        T(4) != NULL);
}

CFX_OP(onnx_DeformConv) = {
    "onnx::DeformConv(Tensor X, Tensor W, Tensor offset, Tensor? B=None, Tensor? mask=None, *, "
    "int[]? dilations=None, int group=1, int[]? kernel_shape=None, int offset_group=1, int[]? "
    "pads=None, int[]? strides=None) -> Tensor",
    ONNX(DeformConv, 19)};
