/* Short-time Fourier transforms: frames of a signal under a window, and the signal from frames. */
#include "../back.h"
#include "../loops.h"

static bool is_complex(const cfx_tensor *t) { return t && cfx__dtype_is_complex(t->dtype); }

/* An optional int of the call. */
static int64_t int_or(const cfx_op_call *c, int i, int64_t other) {
    return arg_is_none(c, i) ? other : arg_int(c, i);
}

/* "torch.FloatTensor{[3]}" or "None": how the messages show a window. */
static const char *window_text(const cfx_tensor *w) {
    return w ? cfx__text_format("torch.%sTensor{%s}", cfx__dtype_title(w->dtype),
                                cfx__shape_text(w->ndim, w->shape))
             : "None";
}

static const char *flag_text(const cfx_op_call *c, int i) {
    return arg_is_none(c, i) ? "None" : arg_bool(c, i) ? "1" : "0";
}

/* ---- stft ------------------------------------------------------------------------------------ */

/* What both overloads of stft say; numbers of arguments differ. */
typedef struct {
    cfx_tensor *input, *window;
    int64_t n, hop, length;
    int normalized, onesided, return_complex;
} frames;

static void fail_stft(cfx_op_call *c, const frames *f, const cfx_tensor *input, const char *what) {
    op_fail(c,
            "stft(torch.%sTensor%s, n_fft=%lld, hop_length=%lld, win_length=%lld, window=%s, "
            "normalized=%s, onesided=%s, return_complex=%s) : expected %s",
            cfx__dtype_title(input->dtype), cfx__shape_text(input->ndim, input->shape),
            (long long)f->n, (long long)f->hop, (long long)f->length, window_text(f->window),
            flag_text(c, f->normalized), flag_text(c, f->onesided), flag_text(c, f->return_complex),
            what);
}

/* t with half a frame more on both sides. */
static cfx_tensor *centered(cfx_tensor *t, int64_t n, const char *mode) {
    int64_t shape[3] = {1, t->shape[0], t->shape[1]};
    cfx_tensor *wide = cfx_view(t, cfx_ints_value(3, shape));
    cfx_tensor *padded = cfx_pad(wide, cfx_list(n / 2, n / 2), mode);
    return op_failed() ? padded : cfx_view(padded, cfx_list(t->shape[0], padded->shape[2]));
}

/* The window in the middle of n points; without one, ones like `like`. */
static cfx_tensor *window_of(const frames *f, cfx_tensor *like) {
    if (f->length == f->n)
        return f->window;
    cfx_tensor *w = f->window;
    if (!w)
        w = cfx_ones(cfx_list(f->length), CFX_KW(dtype, cfx_dtype_value(like->dtype)));
    int64_t left = (f->n - f->length) / 2;
    return cfx_constant_pad_nd(w, cfx_list(left, f->n - f->length - left));
}

static bool check_frames(cfx_op_call *c, const frames *f, const cfx_tensor *t) {
    int64_t have = t->shape[1];
    if (f->n <= 0 || f->n > have)
        fail_stft(c, f, t,
                  cfx__text_format("0 < n_fft < %lld, but got n_fft=%lld", (long long)have,
                                   (long long)f->n));
    else if (f->hop <= 0)
        fail_stft(c, f, t,
                  cfx__text_format("hop_length > 0, but got hop_length=%lld", (long long)f->hop));
    else if (f->length <= 0 || f->length > f->n)
        fail_stft(c, f, t,
                  cfx__text_format("0 < win_length <= n_fft, but got win_length=%lld",
                                   (long long)f->length));
    else if (f->window && (f->window->ndim != 1 || f->window->shape[0] != f->length))
        fail_stft(c, f, t,
                  cfx__text_format(
                      "a 1D window tensor of size equal to win_length=%lld, but got window "
                      "with size %s",
                      (long long)f->length, cfx__shape_text(f->window->ndim, f->window->shape)));
    return !op_failed();
}

static void stft(cfx_op_call *c, const frames *f, bool center, const char *mode) {
    cfx_tensor *t = f->input;
    bool to_complex = arg_is_none(c, f->return_complex) ? is_complex(t) || is_complex(f->window)
                                                        : arg_bool(c, f->return_complex);
    if (arg_is_none(c, f->return_complex) && !to_complex) {
        op_fail(c, "stft requires the return_complex parameter be given for real inputs, and will "
                   "further require that return_complex=True in a future PyTorch release.");
        return;
    }
    if (!cfx__dtype_is_float(t->dtype) && !is_complex(t)) {
        fail_stft(c, f, t, "a tensor of floating point or complex values");
        return;
    }
    if (t->ndim != 1 && t->ndim != 2) {
        fail_stft(c, f, t, "a 1D or 2D tensor");
        return;
    }
    bool single = t->ndim == 1;
    if (single)
        t = cfx_unsqueeze(t, 0);
    if (center)
        t = centered(t, f->n, mode);
    if (op_failed() || !check_frames(c, f, t))
        return;
    t = cfx_unfold(t, -1, f->n, f->hop);
    cfx_tensor *window = window_of(f, f->input);
    if (window)
        t = cfx_mul(t, window);
    if (op_failed())
        return;
    int64_t norm = arg_bool(c, f->normalized);
    bool onesided = arg_is_none(c, f->onesided) ? !is_complex(t) : arg_bool(c, f->onesided);
    if (is_complex(t) && onesided) {
        op_fail(c, "Cannot have onesided output if window or input is complex");
        return;
    }
    cfx_tensor *out = is_complex(t) ? cfx_aten__fft_c2c(t, cfx_list(2), norm, cfx_bool(true))
                                    : cfx_aten__fft_r2c(t, cfx_list(2), norm, cfx_bool(onesided));
    out = cfx_transpose(out, 1, 2);
    if (single)
        out = cfx_squeeze(out, 0);
    c->out[0] = to_complex ? out : cfx_view_as_real(out);
}

static frames frames_of(cfx_op_call *c, int normalized) {
    frames f = {.input = arg_tensor(c, 0), .n = arg_int(c, 1), .window = arg_tensor(c, 4),
                .normalized = normalized, .onesided = normalized + 1,
                .return_complex = normalized + 2};
    f.hop = int_or(c, 2, f.n >> 2);
    f.length = int_or(c, 3, f.n);
    return f;
}

static void decompose_stft(cfx_op_call *c) {
    frames f = frames_of(c, 5);
    stft(c, &f, false, NULL);
}

static void decompose_stft_center(cfx_op_call *c) {
    frames f = frames_of(c, 7);
    stft(c, &f, arg_bool(c, 5), arg_text(c, 6));
}

CFX_OP(stft_center) = {
    "aten::stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, "
    "Tensor? window=None, bool center=True, str pad_mode=\"reflect\", bool normalized=False, "
    "bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
    "torch.stft Tensor.stft", .decompose = decompose_stft_center,
    .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32};
CFX_OP(stft) = {
    "aten::stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? "
    "window=None, bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? "
    "align_to_window=None) -> Tensor",
    NULL, .decompose = decompose_stft, .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32};

/* ---- frames added up ------------------------------------------------------------------------- */

static void shape_unfold_backward(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t shape[CFX_MAX_DIMS], size = arg_int(c, 3), step = arg_int(c, 4);
    int n = arg_ints(c, 1, shape);
    if (op_failed() || cfx__shape_numel(c->at, n, shape) < 0)
        return;
    int dim = cfx__shape_wrap_dim(c->at, arg_int(c, 2), n);
    if (dim < 0)
        return;
    int64_t have = n ? shape[dim] : 1;
    bool fits = t->ndim == n + 1 && step > 0 && size >= 0 && size <= have && t->shape[n] == size &&
                (!n || t->shape[dim] == (have - size) / step + 1);
    for (int d = 0; fits && d < n; d++)
        fits = d == dim || t->shape[d] == shape[d] || t->shape[d] == 1; /* or broadcast */
    if (!fits)
        op_fail(c, "unfold_backward: a gradient of shape %s is none of windows of %lld every %lld",
                cfx__shape_text(t->ndim, t->shape), (long long)size, (long long)step);
    else
        out_new(c, 0, t->dtype, n, shape);
}

LOOP2(add_up_f32, float, float, f, x + y)
LOOP2(add_up_f64, double, double, f, x + y)
LOOP2(add_up_i64, uint64_t, uint64_t, i, x + y)
LOOP2(add_up_c64, c64_t, c64_t, f, x + y)
LOOP2(add_up_c128, c128_t, c128_t, f, x + y)

static void kernel_unfold_backward(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    cfx_tensor *out = c->out[0];
    int n = out->ndim, dim = arg_dim(c, 2, n);
    int64_t shape[CFX_MAX_DIMS], to[CFX_MAX_DIMS], from[CFX_MAX_DIMS], step = arg_int(c, 4);
    cfx_dtype as = (cfx_dtype)out->dtype;
    cfx__iter_loop *loop = as == CFX_F32   ? add_up_f32
                           : as == CFX_F64 ? add_up_f64
                           : as == CFX_I64 ? add_up_i64
                           : as == CFX_C64 ? add_up_c64
                                           : add_up_c128;
    pointwise_params none = {.dtype = as};
    cfx__tensor_fill(out, cfx_int(0));
    if (!n) { /* of one number there is one window, or an empty one */
        if (t->numel)
            cfx__tensor_copy(out, cfx__tensor_alias(t, 0, NULL, NULL, t->offset));
        return;
    }
    /* One window at a time: within it no place is met twice. */
    for (int d = 0; d < n; d++) {
        shape[d] = d == dim ? t->shape[n] : out->shape[d];
        to[d] = out->stride[d];
        from[d] = d == dim ? t->stride[n] : t->shape[d] == 1 ? 0 : t->stride[d];
    }
    for (int64_t w = 0; w < t->shape[dim] && t->numel; w++)
        CFX_SCOPE {
            int64_t at = out->offset + w * step * to[dim];
            cfx_tensor *dst = cfx__tensor_alias(out, n, shape, to, at);
            cfx_tensor *src = cfx__tensor_alias(t, n, shape, from, t->offset + w * t->stride[dim]);
            cfx__iter_operand o[] = {{dst, as}, {dst, as}, {src, as}};
            cfx__iter_pointwise(loop, 1, 2, o, &none, 1);
        }
}

static void grad_unfold_backward(cfx_back *b) {
    back_give(b, 0, cfx_unfold(b->gout[0], b->args[2], b->args[3], b->args[4]));
}

CFX_OP(unfold_backward) = {
    "aten::unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> "
    "Tensor",
    NULL, .shape = shape_unfold_backward, .kernel = kernel_unfold_backward,
    .dtypes = CFX_IN_NUMBER | CFX_IN(C64) | CFX_IN(C128), GRAD(unfold_backward, 0),
    .core = core_unfold_backward, .out = "out"};

/* ---- istft ----------------------------------------------------------------------------------- */

static void fail_istft(cfx_op_call *c, const frames *f, const char *what) {
    const cfx_tensor *t = f->input;
    op_fail(c,
            "istft(CPU%sType%s, n_fft=%lld, hop_length=%lld, win_length=%lld, window=%s, "
            "center=%s, normalized=%s, onesided=%s, length=%s, return_complex=%s) %s",
            cfx__dtype_title(t->dtype), cfx__shape_text(t->ndim, t->shape), (long long)f->n,
            (long long)f->hop, (long long)f->length, window_text(f->window), flag_text(c, 5),
            flag_text(c, 6), flag_text(c, 7),
            arg_is_none(c, 8) ? "None" : cfx__text_format("%lld", (long long)arg_int(c, 8)),
            flag_text(c, 9), what);
}

static bool check_istft(cfx_op_call *c, const frames *f, bool *onesided) {
    const cfx_tensor *t = f->input;
    if (!is_complex(t)) {
        op_fail(c, "istft requires a complex-valued input tensor matching the output from stft "
                   "with return_complex=True.");
        return false;
    }
    if (t->ndim != 2 && t->ndim != 3) {
        fail_istft(c, f,
                   cfx__text_format(": expected a tensor with 3 or 4 dimensions, but got %d",
                                    t->ndim + 1));
        return false;
    }
    int64_t have = t->shape[t->ndim - 2];
    *onesided = arg_is_none(c, 7) ? have != f->n : arg_bool(c, 7);
    if (!t->numel)
        fail_istft(c, f, ": input tensor cannot be empty.");
    else if (have != (*onesided ? f->n / 2 + 1 : f->n))
        fail_istft(
            c, f,
            cfx__text_format(": expected the frequency dimension (3rd to the last) of the input "
                             "tensor to match n_fft%s, but got %lld",
                             *onesided ? " / 2 + 1 when onesided=True" : " when onesided=False",
                             (long long)have));
    else if (f->length <= 0 || f->length > f->n)
        fail_istft(c, f, ": expected 0 < win_length <= n_fft");
    else if (f->hop <= 0 || f->hop > f->length)
        fail_istft(c, f, ": expected 0 < hop_length <= win_length");
    else if (f->window && (f->window->ndim != 1 || f->window->shape[0] != f->length))
        fail_istft(c, f,
                   ": Invalid window shape. window has to be 1D and length of `win_length`");
    return !op_failed();
}

/* Frames (channel or 1, count, n) added where they lie in the signal of each channel. */
static cfx_tensor *overlapped(cfx_tensor *t, int64_t channels, int64_t points, const frames *f) {
    return op_failed() ? t : cfx_unfold_backward(t, cfx_list(channels, points), 1, f->n, f->hop);
}

static void decompose_istft(cfx_op_call *c) {
    frames f = frames_of(c, 6);
    bool onesided, to_complex = arg_bool(c, 9), center = arg_bool(c, 5);
    cfx_tensor *t = f.input;
    if (!check_istft(c, &f, &onesided))
        return;
    cfx_dtype real = cfx__dtype_real(t->dtype);
    int64_t count = t->shape[t->ndim - 1], points = f.n + f.hop * (count - 1);
    cfx_tensor *like = cfx__tensor_empty(c->at, real, true, 0, NULL, NULL);
    cfx_tensor *window = window_of(&f, like);
    if (!window)
        window = cfx_ones(cfx_list(f.n), CFX_KW(dtype, cfx_dtype_value(real)));
    if (t->ndim == 2)
        t = cfx_unsqueeze(t, 0);
    t = cfx_transpose(t, 1, 2);
    int64_t norm = arg_bool(c, 6) ? 1 : 2;
    if (to_complex && onesided) {
        op_fail(c, "Cannot have onesided output if window or input is complex");
        return;
    }
    if (!to_complex && is_complex(f.window)) {
        op_fail(c, "Complex windows are incompatible with return_complex=False");
        return;
    }
    if (to_complex)
        t = cfx_aten__fft_c2c(t, cfx_list(2), norm, cfx_bool(false));
    else
        t = cfx_aten__fft_c2r(onesided ? t : cfx_slice(t, -1, 0, f.n / 2 + 1), cfx_list(2), norm,
                              f.n);
    int64_t channels = cfx_failed(t) ? 0 : t->shape[0];
    cfx_tensor *y = cfx_mul(t, cfx_view(window, cfx_list(1, 1, f.n)));
    y = overlapped(y, channels, points, &f);
    cfx_tensor *squares = cfx_expand(cfx_pow(window, 2), cfx_list(1, count, f.n));
    cfx_tensor *envelope = overlapped(squares, channels, points, &f);
    int64_t start = center ? f.n / 2 : 0;
    int64_t end = !arg_is_none(c, 8) ? start + arg_int(c, 8) : center ? -(f.n / 2) : points;
    y = cfx_slice(y, 1, start, end);
    envelope = cfx_slice(envelope, 1, start, end);
    if (op_failed())
        return;
    if (!c->fake && envelope->numel && cfx__tensor_number(cfx_min(cfx_abs(envelope)), 0) < 1e-11) {
        fail_istft(c, &f, "window overlap add min: 1");
        return;
    }
    y = cfx_div(y, envelope);
    if (f.input->ndim == 2)
        y = cfx_squeeze(y, 0);
    if (end > points)
        y = cfx_constant_pad_nd(y, cfx_list(0, end - points));
    c->out[0] = y;
}

CFX_OP(istft) = {
    "aten::istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? "
    "window=None, bool center=True, bool normalized=False, bool? onesided=None, int? length=None, "
    "bool return_complex=False) -> Tensor",
    "torch.istft Tensor.istft", .decompose = decompose_istft, .effects = CFX_COMPOSITE};
