/* Windows of signals, and the frequencies that belong to the places of a transform. */
#include <math.h>

#include "../special.h"

CFX_FAMILY(CREATE);

/* How a window depends on its place; a, b are the arguments of the call. */
typedef struct {
    const char *name;
    double (*at)(double i, double n, double a, double b, bool single);
    double a, b; /* what stands for arguments that the overload has not */
} window;

/* Rounded to float32 where the result is: the steps are PyTorch's. */
static double rounded(double x, bool single) { return single ? (double)(float)x : x; }
static double cosine(double x, bool single) { return single ? (double)cosf((float)x) : cos(x); }

static double hamming_at(double i, double n, double a, double b, bool single) {
    double x = rounded(i * rounded(6.28318530717958647693 / (n - 1), single), single);
    return rounded(rounded(cosine(x, single) * rounded(-b, single), single) + rounded(a, single),
                   single);
}

static double blackman_at(double i, double n, double a, double b, bool single) {
    (void)a, (void)b;
    double x = rounded(i * rounded(3.14159265358979323846 / (n - 1), single), single);
    double fast = rounded(cosine(rounded(4 * x, single), single) * rounded(0.08, single), single);
    double slow = rounded(cosine(rounded(2 * x, single), single) * 0.5, single);
    return rounded(rounded(fast - slow, single) + rounded(0.42, single), single);
}

static double bartlett_at(double i, double n, double a, double b, bool single) {
    (void)a, (void)b;
    double x = rounded(i * rounded(2 / (n - 1), single), single);
    return i <= floor((n - 1) / 2) ? x : rounded(2 - x, single);
}

static double kaiser_at(double i, double n, double a, double b, bool single) {
    (void)b;
    double middle = rounded((n - 1) / 2, single), x = rounded((i - middle) / middle, single);
    double y = fmax(0, rounded(1 - x * x, single));
    return special_i0(a * sqrt(y)) / special_i0(a);
}

static const window hann = {"hann", hamming_at, 0.5, 0.5};
static const window hamming = {"hamming", hamming_at, 0.54, 0.46};
static const window blackman = {"blackman", blackman_at, 0, 0};
static const window bartlett = {"bartlett", bartlett_at, 0, 0};
static const window kaiser = {"kaiser", kaiser_at, 12, 0};

/* The number of the first argument that says what kind of tensor to make: the dtype. */
static int dtype_at(const cfx_op_call *c) { return c->nargs - 4; }

static void shape_window(cfx_op_call *c) {
    const window *w = c->op->row;
    int64_t n = arg_int(c, 0);
    cfx_dtype d = arg_dtype(c, dtype_at(c), CFX_F32);
    if (!cfx__dtype_is_float(d))
        op_fail(c,
                "%s_window expects floating point dtypes, got: TensorOptions(dtype=%s, device=cpu, "
                "layout=Strided (default), requires_grad=false (default), pinned_memory=false "
                "(default), memory_format=(nullopt))",
                w->name, cfx__dtype_cpp_name(d));
    else if (n < 0)
        op_fail(c, "%s_window requires non-negative window_length, got window_length=%lld",
                w->name, (long long)n);
    else
        out_new(c, 0, d, 1, &n);
}

static void kernel_window(cfx_op_call *c) {
    const window *w = c->op->row;
    cfx_tensor *out = c->out[0];
    int given = dtype_at(c);
    int64_t n = out->numel;
    bool periodic = given > 1 ? arg_bool(c, 1) : true, wide = out->dtype == CFX_F64;
    double a = given > 2 ? arg_float(c, 2) : w->a, b = given > 3 ? arg_float(c, 3) : w->b;
    for (int64_t i = 0; i < n; i++) {
        double v = n == 1 ? 1 : w->at((double)i, (double)n + periodic, a, b, !wide);
        if (wide)
            ((double *)out->data)[i] = v;
        else
            ((float *)out->data)[i] = (float)v;
    }
}

#define WINDOW(kind)                                                                               \
    .shape = shape_window, .kernel = kernel_window, .row = &kind, .dtypes = CFX_IN_FLOAT

CFX_OP(hann_window) = {
    "aten::hann_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device?"
    " device=None, bool? pin_memory=None) -> Tensor",
    "torch.hann_window", WINDOW(hann), .out = "out"};
CFX_OP(hann_window_periodic) = {
    "aten::hann_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, WINDOW(hann), .out = "periodic_out"};
CFX_OP(hamming_window) = {
    "aten::hamming_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    "torch.hamming_window", WINDOW(hamming), .out = "out"};
CFX_OP(hamming_window_periodic) = {
    "aten::hamming_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, WINDOW(hamming), .out = "periodic_out"};
CFX_OP(hamming_window_periodic_alpha) = {
    "aten::hamming_window.periodic_alpha(int window_length, bool periodic, float alpha, *, "
    "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
    "Tensor",
    NULL, WINDOW(hamming), .out = "periodic_alpha_out"};
CFX_OP(hamming_window_periodic_alpha_beta) = {
    "aten::hamming_window.periodic_alpha_beta(int window_length, bool periodic, float alpha, "
    "float beta, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
    "pin_memory=None) -> Tensor",
    NULL, WINDOW(hamming), .out = "periodic_alpha_beta_out"};
CFX_OP(blackman_window) = {
    "aten::blackman_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    "torch.blackman_window", WINDOW(blackman), .out = "out"};
CFX_OP(blackman_window_periodic) = {
    "aten::blackman_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, WINDOW(blackman), .out = "periodic_out"};
CFX_OP(bartlett_window) = {
    "aten::bartlett_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    "torch.bartlett_window", WINDOW(bartlett), .out = "out"};
CFX_OP(bartlett_window_periodic) = {
    "aten::bartlett_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, WINDOW(bartlett), .out = "periodic_out"};
CFX_OP(kaiser_window) = {
    "aten::kaiser_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    "torch.kaiser_window", WINDOW(kaiser), .out = "out"};
CFX_OP(kaiser_window_periodic) = {
    "aten::kaiser_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, WINDOW(kaiser), .out = "periodic_out"};
CFX_OP(kaiser_window_beta) = {
    "aten::kaiser_window.beta(int window_length, bool periodic, float beta, *, ScalarType? "
    "dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, WINDOW(kaiser), .out = "beta_out"};

/* ---- frequencies ----------------------------------------------------------------------------- */

static void shape_freq(cfx_op_call *c) {
    bool half = c->op->row != NULL;
    int64_t n = arg_int(c, 0), size = half ? n / 2 + 1 : n;
    cfx_dtype d = arg_dtype(c, 2, CFX_F32);
    const char *name = half ? "rfftfreq" : "fftfreq";
    if (!cfx__dtype_is_float(d) && !cfx__dtype_is_complex(d))
        op_fail(c, "%s requires a floating point or complex dtype", name);
    else if (n < 0)
        op_fail(c, "%s: the number of points must not be negative, but is %lld", name,
                (long long)n);
    else
        out_new(c, 0, d, 1, &size);
}

static void kernel_freq(cfx_op_call *c) {
    cfx_tensor *out = c->out[0];
    int64_t n = arg_int(c, 0);
    double step = 1.0 / ((double)n * arg_float(c, 1));
    for (int64_t i = 0; i < out->numel; i++) {
        double k = (double)(!c->op->row && i >= (n + 1) / 2 ? i - n : i);
        switch (out->dtype) {
        case CFX_F64: ((double *)out->data)[i] = k * step; break;
        case CFX_F32: ((float *)out->data)[i] = (float)k * (float)step; break;
        default: cfx__tensor_set(out, i, cfx_float(k * step));
        }
    }
}

static const bool is_half = true; /* what .row points to where only one half is wanted */

CFX_OP(fft_fftfreq) = {
    "aten::fft_fftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device?"
    " device=None, bool? pin_memory=None) -> Tensor",
    "torch._C._fft.fft_fftfreq torch.fft.fftfreq", .shape = shape_freq, .kernel = kernel_freq,
    .out = "out"};
CFX_OP(fft_rfftfreq) = {
    "aten::fft_rfftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    "torch._C._fft.fft_rfftfreq torch.fft.rfftfreq", .shape = shape_freq, .kernel = kernel_freq,
    .row = &is_half, .out = "out"};
