/* Signals: windows, Fourier transforms, mel filters, and columns of images put together. */
#include "onnx.h"

#include <math.h>

CFX_FAMILY(CREATE);

/* ---- windows --------------------------------------------------------------------------------- */

/* size, output_datatype, periodic */
static bool window_args(cfx_op_call *c, int64_t *n, cfx_dtype *d) {
    const cfx__onnx_type *t = onnx_type_named(c, arg_text(c, 1));
    *d = t ? t->dtype : CFX_F32;
    return t && onnx_int(c, 0, 0, n);
}

/* Integers are the floats, cut. */
static void give_window(cfx_op_call *c, cfx_tensor *w, cfx_dtype d) { OUT(0) = onnx_to(w, d); }

static cfx_value computed_in(cfx_dtype d) {
    return cfx_dtype_value(cfx__dtype_is_float(d) ? d : CFX_F32);
}

ONNX_OP(HannWindow) {
    int64_t n;
    cfx_dtype d;
    if (window_args(c, &n, &d))
        give_window(c, cfx_hann_window(n, arg_bool(c, 2), CFX_KW(dtype, computed_in(d))), d);
}
ONNX_OP(HammingWindow) {
    int64_t n;
    cfx_dtype d;
    double a = 25.0 / 46;
    if (window_args(c, &n, &d))
        give_window(c, cfx_hamming_window(n, arg_bool(c, 2), a, 1 - a,
                                          CFX_KW(dtype, computed_in(d))), d);
}
ONNX_OP(BlackmanWindow) {
    int64_t n;
    cfx_dtype d;
    if (window_args(c, &n, &d))
        give_window(c, cfx_blackman_window(n, arg_bool(c, 2), CFX_KW(dtype, computed_in(d))), d);
}

CFX_OP(onnx_HannWindow) = {
    "onnx::HannWindow(Tensor size, *, str output_datatype=\"float\", int periodic=1) -> Tensor",
    ONNX(HannWindow, 17)};
CFX_OP(onnx_HammingWindow) = {
    "onnx::HammingWindow(Tensor size, *, str output_datatype=\"float\", int periodic=1) -> Tensor",
    ONNX(HammingWindow, 17)};
CFX_OP(onnx_BlackmanWindow) = {
    "onnx::BlackmanWindow(Tensor size, *, str output_datatype=\"float\", int periodic=1) -> Tensor",
    ONNX(BlackmanWindow, 17)};

/* A filter for each mel band: it rises to the band's centre and falls behind it. */
ONNX_OP(MelWeightMatrix) { /* bins, dft_length, sample_rate, lower, upper, output_datatype */
    int64_t bins, length, rate;
    double lower, upper;
    const cfx__onnx_type *type = onnx_type_named(c, arg_text(c, 5));
    if (!type || !onnx_int(c, 0, 0, &bins) || !onnx_int(c, 1, 0, &length) ||
        !onnx_int(c, 2, 1, &rate) || !onnx_float(c, 3, 0, &lower) || !onnx_float(c, 4, 0, &upper))
        return;
    double low = 2595 * log10(1 + lower / 700), high = 2595 * log10(1 + upper / 700);
    double step = (high - low) / (double)(bins + 2);
    cfx_value f64 = cfx_dtype_value(CFX_F64);
    cfx_tensor *mel = cfx_add(cfx_mul(cfx_arange(bins + 2, CFX_KW(dtype, f64)), step), low);
    cfx_tensor *hertz = cfx_mul(cfx_sub(cfx_pow(10, cfx_div(mel, 2595)), 1), 700);
    cfx_tensor *at = cfx_floor(cfx_div(cfx_mul(hertz, length + 1), rate));
    cfx_tensor *a = cfx_slice(at, 0, 0, bins), *b = cfx_slice(at, 0, 1, bins + 1);
    cfx_tensor *d = cfx_slice(at, 0, 2, bins + 2);
    cfx_tensor *j = cfx_unsqueeze(cfx_arange(length / 2 + 1, CFX_KW(dtype, f64)), 1);
    cfx_tensor *rise = cfx_sub(b, a), *fall = cfx_sub(d, b);
    cfx_tensor *up = cfx_where(cfx_logical_and(cfx_ge(j, a), cfx_le(j, b)),
                               cfx_div(cfx_sub(j, a), cfx_where(cfx_eq(rise, 0), 1, rise)), 0);
    up = cfx_where(cfx_logical_and(cfx_eq(rise, 0), cfx_eq(j, b)), 1, up);
    cfx_tensor *down = cfx_div(cfx_sub(d, j), cfx_where(cfx_eq(fall, 0), 1, fall));
    cfx_tensor *falls = cfx_logical_and(cfx_ge(j, b), cfx_lt(j, d));
    OUT(0) = onnx_to(cfx_where(falls, down, up), type->dtype);
}

CFX_OP(onnx_MelWeightMatrix) = {
    "onnx::MelWeightMatrix(Tensor num_mel_bins, Tensor dft_length, Tensor sample_rate, Tensor "
    "lower_edge_hertz, Tensor upper_edge_hertz, *, str output_datatype=\"float\") -> Tensor",
    ONNX(MelWeightMatrix, 17)};

/* ---- transforms ------------------------------------------------------------------------------ */

CFX_FAMILY(MATH);

/* The last dimension has the number alone, or its real and imaginary part. */
static cfx_tensor *signal_of(cfx_tensor *x, bool *real) {
    *real = x->shape[x->ndim - 1] == 1;
    return *real ? cfx_squeeze(x, -1) : cfx_view_as_complex(cfx_contiguous(x));
}

static bool is_signal(cfx_op_call *c, const cfx_tensor *x) {
    bool fine = x->ndim >= 2 && (x->shape[x->ndim - 1] == 1 || x->shape[x->ndim - 1] == 2);
    if (!fine)
        op_fail(c, "%s: the last dimension of a signal has 1 or 2 numbers, and it has another",
                op_title(c));
    return fine;
}

static void transform(cfx_op_call *c, int64_t axis, bool inverse, bool onesided) {
    cfx_tensor *x = T(0);
    int64_t n;
    bool real;
    if (!is_signal(c, x) || (axis = onnx_axis(c, axis, x->ndim)) < 0)
        return;
    if (axis == x->ndim - 1) {
        op_fail(c, "DFT: the axis is that of the real and the imaginary part");
        return;
    }
    if (!onnx_int(c, 1, 0, &n))
        return;
    cfx_value length = arg_is_none(c, 1) ? cfx_none() : cfx_int(n);
    cfx_tensor *s = signal_of(x, &real);
    if (inverse && onesided) {
        OUT(0) = cfx_unsqueeze(cfx_fft_irfft(s, length, axis), -1);
        return;
    }
    s = inverse             ? cfx_fft_ifft(s, length, axis)
        : onesided && real  ? cfx_fft_rfft(s, length, axis)
                            : cfx_fft_fft(s, length, axis);
    if (onesided && !real)
        s = cfx_slice(s, axis, 0, (arg_is_none(c, 1) ? x->shape[axis] : n) / 2 + 1);
    OUT(0) = cfx_view_as_real(s);
}

ONNX_OP(DFT) { /* input, dft_length, axis, inverse, onesided */
    int64_t axis;
    if (onnx_int(c, 2, -2, &axis))
        transform(c, axis, arg_bool(c, 3), arg_bool(c, 4));
}
ONNX_OP(DFT_v17) { /* input, dft_length, axis, inverse, onesided */
    transform(c, arg_int(c, 2), arg_bool(c, 3), arg_bool(c, 4));
}

/* PyTorch's exporter writes real signals without a last dimension, and ONNX Runtime reads them. */
ONNX_OP(STFT) { /* signal, frame_step, window, frame_length, onesided */
    cfx_tensor *x = T(0)->ndim == 2 ? cfx_unsqueeze(T(0), -1) : T(0);
    int64_t step, length;
    bool real;
    if (!is_signal(c, x) || !onnx_int(c, 1, 1, &step) ||
        !onnx_int(c, 3, T(2) ? T(2)->numel : onnx_size(x, 1), &length))
        return;
    cfx_tensor *frames = cfx_unfold(signal_of(x, &real), 1, length, step);
    if (T(2))
        frames = cfx_mul(frames, T(2));
    bool half = arg_bool(c, 4);
    frames = half && real ? cfx_fft_rfft(frames) : cfx_fft_fft(frames);
    if (half && !real)
        frames = cfx_slice(frames, -1, 0, length / 2 + 1);
    OUT(0) = cfx_view_as_real(frames);
}

CFX_OP(onnx_DFT) = {
    "onnx::DFT(Tensor input, Tensor? dft_length=None, Tensor? axis=None, *, int inverse=0, int "
    "onesided=0) -> Tensor",
    ONNX(DFT, 20)};
CFX_OP(onnx_DFT_v17) = {
    "onnx::DFT.v17(Tensor input, Tensor? dft_length=None, *, int axis=1, int inverse=0, int "
    "onesided=0) -> Tensor",
    ONNX(DFT_v17, 17)};
CFX_OP(onnx_STFT) = {
    "onnx::STFT(Tensor signal, Tensor frame_step, Tensor? window=None, Tensor? frame_length=None, "
    "*, int onesided=1) -> Tensor",
    ONNX(STFT, 17)};

/* ---- columns --------------------------------------------------------------------------------- */

CFX_FAMILY(VIEW);

/* Columns are what a convolution backwards makes an image of whose kernels have one number each. */
ONNX_OP(Col2Im) { /* input, image_shape, block_shape, dilations, pads, strides */
    cfx_tensor *x = T(0);
    int64_t image[CFX_MAX_DIMS], block[CFX_MAX_DIMS], dilation[CFX_MAX_DIMS];
    int64_t stride[CFX_MAX_DIMS], pads[2 * CFX_MAX_DIMS], each = 1;
    int n, nblock, nd = arg_ints(c, 3, dilation), ns = arg_ints(c, 5, stride);
    if (!onnx_ints(c, 1, image, &n) || !onnx_ints(c, 2, block, &nblock))
        return;
    int np = arg_count(c, 4) <= CFX_MAX_DIMS ? arg_ints(c, 4, pads) : -1;
    bool fits = n >= 1 && n <= 3 && nblock == n && (!nd || nd == n) && (!ns || ns == n) &&
                (!np || np == 2 * n) && x->ndim == 3;
    for (int i = 0; fits && i < n; i++) {
        dilation[i] = nd ? dilation[i] : 1;
        stride[i] = ns ? stride[i] : 1;
        pads[i] = np ? pads[i] : 0;
        pads[n + i] = np ? pads[n + i] : 0;
        each *= block[i];
        fits = block[i] > 0 && stride[i] > 0 && each < INT32_MAX;
    }
    if (!fits || onnx_size(x, 1) % each) {
        op_fail(c, "Col2Im: blocks do not fit a tensor of shape %s",
                cfx__shape_text(x->ndim, x->shape));
        return;
    }
    int64_t channels = onnx_size(x, 1) / each;
    cfx_value shape = cfx_list(-1, each), kernel = cfx_list(each, 1);
    cfx_value crop = cfx_list_value(0, NULL);
    cfx_value whole = cfx_list(onnx_size(x, 0), channels);
    for (int i = 0; i < n; i++) {
        int64_t seen = image[i] + pads[i] + pads[n + i] - (block[i] - 1) * dilation[i] - 1;
        cfx_list_append(cfx_as_list(shape), cfx_int(seen / stride[i] + 1));
        cfx_list_append(cfx_as_list(kernel), cfx_int(block[i]));
        cfx_list_append(cfx_as_list(whole), cfx_int(image[i]));
        int64_t last = n - 1 - i, steps = image[last] + pads[last] + pads[n + last] -
                                          (block[last] - 1) * dilation[last] - 1;
        cfx_list_append(cfx_as_list(crop), cfx_int(-pads[last]));
        cfx_list_append(cfx_as_list(crop),
                        cfx_int(steps % stride[last] - pads[n + last]));
    }
    cfx_value d = cfx_dtype_value((cfx_dtype)x->dtype), s = cfx_ints_value(n, stride);
    cfx_tensor *one = cfx_reshape(cfx_eye(each, CFX_KW(dtype, d)), kernel);
    x = cfx_reshape(x, shape);
    cfx_value step = cfx_ints_value(n, dilation);
    x = n == 1   ? cfx_conv_transpose1d(x, one, NULL, s, 0, 0, 1, step)
        : n == 2 ? cfx_conv_transpose2d(x, one, NULL, s, 0, 0, 1, step)
                 : cfx_conv_transpose3d(x, one, NULL, s, 0, 0, 1, step);
    OUT(0) = cfx_reshape(cfx_constant_pad_nd(x, crop), whole);
}

CFX_OP(onnx_Col2Im) = {
    "onnx::Col2Im(Tensor input, Tensor image_shape, Tensor block_shape, *, int[]? dilations=None, "
    "int[]? pads=None, int[]? strides=None) -> Tensor",
    ONNX(Col2Im, 18)};
