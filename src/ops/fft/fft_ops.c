/* torch.fft: lengths, dims and norms are settled, then one or two of fft.c's transforms called. */
#include <cfx/ops.h>

#include "fft.h"

/* ---- what the functions share ---------------------------------------------------------------- */

/* The dtype that a transform takes its input in: the float of a number, complex where asked for. */
static cfx_tensor *promoted(cfx_op_call *c, cfx_tensor *t, bool complex_) {
    cfx_dtype d = (cfx_dtype)t->dtype;
    if (cfx__dtype_is_complex(d))
        return t;
    if (cfx__dtype_is_half(d)) {
        op_fail(c, "Unsupported dtype %s", cfx__dtype_title(d));
        return &cfx__tensor_bad;
    }
    if (!cfx__dtype_is_float(d))
        d = CFX_F32;
    if (complex_)
        d = d == CFX_F64 ? CFX_C128 : CFX_C64;
    return d == (cfx_dtype)t->dtype ? t : cfx_aten__to_copy(t, CFX_KW(dtype, cfx_dtype_value(d)));
}

/* "backward", "forward", "ortho" or None as the number that the transforms take. */
static int64_t norm_mode(cfx_op_call *c, int i, bool forward) {
    const char *norm = arg_is_none(c, i) ? "backward" : arg_text(c, i);
    if (!strcmp(norm, "ortho"))
        return 1;
    if (!strcmp(norm, "backward"))
        return forward ? 0 : 2;
    if (!strcmp(norm, "forward"))
        return forward ? 2 : 0;
    op_fail(c, "Invalid normalization mode: \"%s\"", norm);
    return 0;
}

static bool check_points(cfx_op_call *c, int64_t n) {
    if (n < 1)
        op_fail(c, "Invalid number of data points (%lld) specified", (long long)n);
    return n >= 1;
}

/* t cut or filled with zeros to size[i] along dims[i]. */
static cfx_tensor *resized(cfx_tensor *t, int n, const int64_t *dims, const int64_t *size) {
    int64_t pad[2 * CFX_MAX_DIMS] = {0};
    int ndim = t->ndim;
    bool pads = false;
    for (int i = 0; i < n && !op_failed(); i++) {
        int64_t have = t->shape[dims[i]];
        if (have > size[i])
            t = cfx_slice(t, dims[i], 0, size[i]);
        if (have < size[i]) {
            pad[2 * (ndim - 1 - dims[i]) + 1] = size[i] - have;
            pads = true;
        }
    }
    if (!pads || op_failed())
        return t;
    return cfx_constant_pad_nd(t, cfx_ints_value(2 * ndim, pad));
}

/* What a transform of several dims works on: from the arguments s and dim. */
typedef struct {
    int n;
    int64_t dims[CFX_MAX_DIMS], size[CFX_MAX_DIMS];
} extent;

static bool wrap_unique(cfx_op_call *c, int ndim, extent *e) {
    uint64_t seen = 0;
    for (int i = 0; i < e->n; i++) {
        if (!ndim) {
            op_fail_as(INDEX, c,
                       "Dimension specified as %lld but tensor has no dimensions",
                       (long long)e->dims[i]);
            return false;
        }
        int d = cfx__shape_wrap_dim(c->at, e->dims[i], ndim);
        if (d < 0)
            return false;
        if (seen >> d & 1) {
            op_fail(c, "FFT dims must be unique");
            return false;
        }
        seen |= (uint64_t)1 << d;
        e->dims[i] = d;
    }
    return true;
}

static bool extent_of(cfx_op_call *c, int s_at, int dim_at, extent *e) {
    const cfx_tensor *t = arg_tensor(c, 0);
    bool has_s = !arg_is_none(c, s_at), has_dim = !arg_is_none(c, dim_at);
    e->n = has_dim ? arg_ints(c, dim_at, e->dims) : has_s ? arg_ints(c, s_at, e->size) : t->ndim;
    if (op_failed() || (has_dim && !wrap_unique(c, t->ndim, e)))
        return false;
    if (has_s && arg_ints(c, s_at, e->size) != e->n) {
        op_fail(c, "When given, dim and shape arguments must have the same length");
        return false;
    }
    if (e->n > t->ndim) {
        op_fail(c, "Got shape with %d values but input tensor only has %d dimensions.", e->n,
                t->ndim);
        return false;
    }
    for (int i = 0; i < e->n; i++) {
        if (!has_dim)
            e->dims[i] = t->ndim - e->n + i;
        if (!has_s || e->size[i] == -1)
            e->size[i] = t->shape[e->dims[i]];
        if (!check_points(c, e->size[i]))
            return false;
    }
    return true;
}

/* The same for transforms to real numbers: what they take, and how many points come last. */
static bool extent_to_real(cfx_op_call *c, const char *name, extent *e, int64_t *last) {
    if (!extent_of(c, 1, 2, e))
        return false;
    if (!e->n) {
        op_fail(c, "%s must transform at least one axis", name);
        return false;
    }
    int64_t s[CFX_MAX_DIMS];
    bool given = !arg_is_none(c, 1) && arg_ints(c, 1, s) && s[e->n - 1] != -1;
    *last = given ? e->size[e->n - 1]
                  : 2 * (arg_tensor(c, 0)->shape[e->dims[e->n - 1]] - 1);
    if (!check_points(c, *last))
        return false;
    e->size[e->n - 1] = *last / 2 + 1;
    return true;
}

static cfx_value dims_value(const extent *e, int from, int to) {
    return cfx_ints_value(to - from, e->dims + from);
}

/* ---- one dim --------------------------------------------------------------------------------- */

/* One row of a function of one dim: which transform, which way, one side only. */
typedef struct {
    const char *name;
    fft_kind kind; /* C2C: the input may be real or complex */
    bool forward, onesided;
} one_dim;

/* dim and n of the call (arguments 2 and 1); n is the number of points that results. */
static bool line_of(cfx_op_call *c, const cfx_tensor *t, int64_t *dim, int64_t *n, bool to_real) {
    if (!t->ndim) {
        op_fail_as(INDEX, c, "Dimension specified as %lld but tensor has no dimensions",
                   (long long)arg_int(c, 2));
        return false;
    }
    *dim = arg_dim(c, 2, t->ndim);
    if (*dim < 0)
        return false;
    int64_t have = t->shape[*dim];
    *n = !arg_is_none(c, 1) ? arg_int(c, 1) : to_real ? 2 * (have - 1) : have;
    return check_points(c, *n);
}

static void decompose_one(cfx_op_call *c) {
    const one_dim *f = c->op->row;
    cfx_tensor *t = arg_tensor(c, 0);
    int64_t dim, n, mode;
    bool is_complex = cfx__dtype_is_complex(t->dtype), to_real = f->kind == FFT_C2R;
    if (f->kind == FFT_R2C && is_complex) {
        op_fail(c, "%s expects a real input tensor, but got %s", f->name,
                cfx__dtype_title(t->dtype));
        return;
    }
    t = promoted(c, t, to_real);
    if (op_failed() || !line_of(c, t, &dim, &n, to_real))
        return;
    int64_t size = to_real ? n / 2 + 1 : n;
    if (!arg_is_none(c, 1))
        t = resized(t, 1, &dim, &size);
    mode = norm_mode(c, 3, f->forward);
    if (op_failed())
        return;
    cfx_value dims = cfx_ints_value(1, &dim);
    if (to_real) {
        c->out[0] = cfx_aten__fft_c2r(f->forward ? cfx_conj(t) : t, dims, mode, n);
    } else if (is_complex) {
        c->out[0] = cfx_aten__fft_c2c(t, dims, mode, cfx_bool(f->forward));
    } else {
        cfx_tensor *r = cfx_aten__fft_r2c(t, dims, mode, cfx_bool(f->onesided));
        c->out[0] = f->forward ? r : cfx_conj(r);
    }
}

#define ONE_DIM(id, kind, forward, onesided)                                                       \
    static const one_dim row_##id = {#id, kind, forward, onesided};
ONE_DIM(fft, FFT_C2C, true, false)
ONE_DIM(ifft, FFT_C2C, false, false)
ONE_DIM(rfft, FFT_R2C, true, true)
ONE_DIM(irfft, FFT_C2R, false, false)
ONE_DIM(hfft, FFT_C2R, true, false)
ONE_DIM(ihfft, FFT_R2C, false, true)
#define FFT_ONE(id) .decompose = decompose_one, .row = &row_##id, .effects = CFX_COMPOSITE

CFX_OP(fft_fft) = {
    "aten::fft_fft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
    "torch._C._fft.fft_fft torch.fft.fft", FFT_ONE(fft), .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(fft_ifft) = {
    "aten::fft_ifft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
    "torch._C._fft.fft_ifft torch.fft.ifft", FFT_ONE(ifft), .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(fft_rfft) = {
    "aten::fft_rfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
    "torch._C._fft.fft_rfft torch.fft.rfft", FFT_ONE(rfft), .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(fft_irfft) = {
    "aten::fft_irfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
    "torch._C._fft.fft_irfft torch.fft.irfft", FFT_ONE(irfft), .autocast = CFX_CAST_F32,
    .out = "out"};
CFX_OP(fft_hfft) = {
    "aten::fft_hfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
    "torch._C._fft.fft_hfft torch.fft.hfft", FFT_ONE(hfft), .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(fft_ihfft) = {
    "aten::fft_ihfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
    "torch._C._fft.fft_ihfft torch.fft.ihfft", FFT_ONE(ihfft), .autocast = CFX_CAST_F32,
    .out = "out"};

/* ---- several dims ---------------------------------------------------------------------------- */

static void several(cfx_op_call *c, bool forward) {
    extent e;
    if (!extent_of(c, 1, 2, &e))
        return;
    cfx_tensor *t = resized(promoted(c, arg_tensor(c, 0), true), e.n, e.dims, e.size);
    int64_t mode = norm_mode(c, 3, forward);
    if (!op_failed())
        c->out[0] = cfx_aten__fft_c2c(t, dims_value(&e, 0, e.n), mode, cfx_bool(forward));
}

static void decompose_fftn(cfx_op_call *c) { several(c, true); }
static void decompose_ifftn(cfx_op_call *c) { several(c, false); }

/* The input of a transform of real numbers, resized; the bad tensor, with an error, where it is not
 * such. */
static cfx_tensor *real_input(cfx_op_call *c, const char *name, extent *e) {
    cfx_tensor *t = arg_tensor(c, 0);
    if (cfx__dtype_is_complex(t->dtype)) {
        op_fail(c, "%s expects a real-valued input tensor, but got %s", name,
                cfx__dtype_title(t->dtype));
        return &cfx__tensor_bad;
    }
    if (!extent_of(c, 1, 2, e))
        return &cfx__tensor_bad;
    if (!e->n) {
        op_fail(c, "%s must transform at least one axis", name);
        return &cfx__tensor_bad;
    }
    t = promoted(c, t, false);
    return op_failed() ? &cfx__tensor_bad : resized(t, e->n, e->dims, e->size);
}

static void decompose_rfftn(cfx_op_call *c) {
    extent e;
    cfx_tensor *t = real_input(c, "rfftn", &e);
    int64_t mode = op_failed() ? 0 : norm_mode(c, 3, true);
    if (!op_failed())
        c->out[0] = cfx_aten__fft_r2c(t, dims_value(&e, 0, e.n), mode, cfx_bool(true));
}

static void decompose_ihfftn(cfx_op_call *c) {
    extent e;
    cfx_tensor *t = real_input(c, "ihfftn", &e);
    int64_t mode = op_failed() ? 0 : norm_mode(c, 3, false);
    if (op_failed())
        return;
    t = cfx_conj(cfx_aten__fft_r2c(t, dims_value(&e, e.n - 1, e.n), mode, cfx_bool(true)));
    if (e.n > 1)
        t = cfx_aten__fft_c2c(t, dims_value(&e, 0, e.n - 1), mode, cfx_bool(false));
    c->out[0] = t;
}

static void decompose_irfftn(cfx_op_call *c) {
    extent e;
    int64_t last;
    if (!extent_to_real(c, "irfftn", &e, &last))
        return;
    cfx_tensor *t = resized(promoted(c, arg_tensor(c, 0), true), e.n, e.dims, e.size);
    int64_t mode = norm_mode(c, 3, false);
    if (!op_failed())
        c->out[0] = cfx_aten__fft_c2r(t, dims_value(&e, 0, e.n), mode, last);
}

static void decompose_hfftn(cfx_op_call *c) {
    extent e;
    int64_t last;
    if (!extent_to_real(c, "hfftn", &e, &last))
        return;
    cfx_tensor *t = resized(promoted(c, arg_tensor(c, 0), true), e.n, e.dims, e.size);
    int64_t mode = norm_mode(c, 3, true);
    if (op_failed())
        return;
    if (e.n > 1)
        t = cfx_aten__fft_c2c(t, dims_value(&e, 0, e.n - 1), mode, cfx_bool(true));
    c->out[0] = cfx_aten__fft_c2r(cfx_conj(t), dims_value(&e, e.n - 1, e.n), mode, last);
}

#define FFT_SEVERAL(id) .decompose = decompose_##id, .effects = CFX_COMPOSITE

CFX_OP(fft_fftn) = {
    "aten::fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
    "torch._C._fft.fft_fftn torch.fft.fftn", FFT_SEVERAL(fftn), .autocast = CFX_CAST_F32,
    .out = "out"};
CFX_OP(fft_ifftn) = {
    "aten::fft_ifftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
    "torch._C._fft.fft_ifftn torch.fft.ifftn", FFT_SEVERAL(ifftn), .autocast = CFX_CAST_F32,
    .out = "out"};
CFX_OP(fft_rfftn) = {
    "aten::fft_rfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
    "torch._C._fft.fft_rfftn torch.fft.rfftn", FFT_SEVERAL(rfftn), .autocast = CFX_CAST_F32,
    .out = "out"};
CFX_OP(fft_irfftn) = {
    "aten::fft_irfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
    "torch._C._fft.fft_irfftn torch.fft.irfftn", FFT_SEVERAL(irfftn), .autocast = CFX_CAST_F32,
    .out = "out"};
CFX_OP(fft_hfftn) = {
    "aten::fft_hfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
    "torch._C._fft.fft_hfftn torch.fft.hfftn", FFT_SEVERAL(hfftn), .out = "out"};
CFX_OP(fft_ihfftn) = {
    "aten::fft_ihfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
    "torch._C._fft.fft_ihfftn torch.fft.ihfftn", FFT_SEVERAL(ihfftn), .out = "out"};
CFX_OP(fft_fft2) = {
    "aten::fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> "
    "Tensor",
    "torch._C._fft.fft_fft2 torch.fft.fft2", FFT_SEVERAL(fftn), .autocast = CFX_CAST_F32,
    .out = "out"};
CFX_OP(fft_ifft2) = {
    "aten::fft_ifft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> "
    "Tensor",
    "torch._C._fft.fft_ifft2 torch.fft.ifft2", FFT_SEVERAL(ifftn), .autocast = CFX_CAST_F32,
    .out = "out"};
CFX_OP(fft_rfft2) = {
    "aten::fft_rfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> "
    "Tensor",
    "torch._C._fft.fft_rfft2 torch.fft.rfft2", FFT_SEVERAL(rfftn), .autocast = CFX_CAST_F32,
    .out = "out"};
CFX_OP(fft_irfft2) = {
    "aten::fft_irfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> "
    "Tensor",
    "torch._C._fft.fft_irfft2 torch.fft.irfft2", FFT_SEVERAL(irfftn), .autocast = CFX_CAST_F32,
    .out = "out"};
CFX_OP(fft_hfft2) = {
    "aten::fft_hfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> "
    "Tensor",
    "torch._C._fft.fft_hfft2 torch.fft.hfft2", FFT_SEVERAL(hfftn), .out = "out"};
CFX_OP(fft_ihfft2) = {
    "aten::fft_ihfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> "
    "Tensor",
    "torch._C._fft.fft_ihfft2 torch.fft.ihfft2", FFT_SEVERAL(ihfftn), .out = "out"};

/* ---- shifts ---------------------------------------------------------------------------------- */

static void shift(cfx_op_call *c, int64_t more) {
    cfx_tensor *t = arg_tensor(c, 0);
    int64_t dims[CFX_MAX_DIMS], by[CFX_MAX_DIMS];
    int n = arg_is_none(c, 1) ? t->ndim : arg_ints(c, 1, dims);
    for (int i = 0; i < n && !op_failed(); i++) {
        dims[i] = arg_is_none(c, 1) ? i : cfx__shape_wrap_dim(c->at, dims[i], t->ndim);
        by[i] = op_failed() || !t->ndim ? 0 : (t->shape[dims[i]] + more) / 2;
    }
    if (!op_failed())
        c->out[0] = cfx_roll(t, cfx_ints_value(n, by), cfx_ints_value(n, dims));
}

static void decompose_fftshift(cfx_op_call *c) { shift(c, 0); }
static void decompose_ifftshift(cfx_op_call *c) { shift(c, 1); }

CFX_OP(fft_fftshift) = {
    "aten::fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor",
    "torch._C._fft.fft_fftshift torch.fft.fftshift", FFT_SEVERAL(fftshift)};
CFX_OP(fft_ifftshift) = {
    "aten::fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor",
    "torch._C._fft.fft_ifftshift torch.fft.ifftshift", FFT_SEVERAL(ifftshift)};
