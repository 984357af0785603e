/* layer_norm and rms_norm: each row by its own moments. */
#include "../../tensor/stream.h"
#include "../back.h"
#include "../vecmath.h"
#include "norm.h"

#include <float.h>
#include <math.h>

CFX_FAMILY(NORM);

typedef struct {
    int64_t m, n; /* rows, elements of one */
    const void *x, *w, *b, *g;
    void *y, *mean, *rstd, *dw, *db;
    double eps;
    bool rms, stream; /* stream: results go past the caches */
} norm_rows;

#define T float
#define FN(x) x##_f32
#define SQRT sqrtf
#include "norm_layer.inc"
#define T double
#define FN(x) x##_f64
#define SQRT sqrt
#include "norm_layer.inc"

/* ---- checks --------------------------------------------------------------------------------- */

/* Rows and their length; false, with PyTorch's message, when the arguments do not fit. */
static bool split(cfx_op_call *c, const cfx_tensor *x, int shape_arg, const cfx_tensor *weight,
                  const cfx_tensor *bias, int64_t *m, int64_t *n) {
    int64_t shape[CFX_MAX_DIMS];
    int k = arg_ints(c, shape_arg, shape);
    if (op_failed())
        return false;
    if (k == 0) {
        op_fail(c,
                "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least "
                "one element, but got normalized_shape = []");
        return false;
    }
    const cfx_tensor *param[2] = {weight, bias};
    for (int i = 0; i < 2; i++)
        if (param[i] &&
            (param[i]->ndim != k || memcmp(param[i]->shape, shape, (size_t)k * sizeof *shape))) {
            op_fail(
                c,
                "Expected %s to be of same shape as normalized_shape, but got %s of shape %s and "
                "normalized_shape = %s",
                i ? "bias" : "weight", i ? "bias" : "weight",
                cfx__shape_text(param[i]->ndim, param[i]->shape), cfx__shape_text(k, shape));
            return false;
        }
    if (x->ndim < k || memcmp(x->shape + x->ndim - k, shape, (size_t)k * sizeof *shape)) {
        const char *text = cfx__shape_text(k, shape);
        op_fail(c,
                "Given normalized_shape=%s, expected input with shape [*, %.*s], but got input of "
                "size%s",
                text, (int)strlen(text) - 2, text + 1, cfx__shape_text(x->ndim, x->shape));
        return false;
    }
    *m = *n = 1;
    for (int d = 0; d < x->ndim && x->numel; d++)
        *(d < x->ndim - k ? m : n) *= x->shape[d];
    if (!x->numel)
        *m = 0;
    return true;
}

static bool computable(cfx_op_call *c, const char *name, const cfx_tensor *x,
                       const cfx_tensor *weight, const cfx_tensor *bias) {
    if (!cfx__dtype_is_float(x->dtype)) {
        op_fail_as(NOT_IMPLEMENTED, c, "\"%s\" not implemented for '%s'", name,
                   cfx__dtype_title(x->dtype));
        return false;
    }
    return norm_param_fits(c, x, weight) && norm_param_fits(c, x, bias);
}

/* Result i: one number for each row, in the shape of x with ones at the end. */
static void out_stat(cfx_op_call *c, int i, const cfx_tensor *x, int inner,
                     const cfx_tensor *param) {
    int64_t shape[CFX_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++)
        shape[d] = d < x->ndim - inner ? x->shape[d] : 1;
    out_new(c, i, norm_stat_dtype(x, param), x->ndim, shape);
}

static void run(norm_rows *r, cfx_dtype d) {
    r->stream = cfx__streams_rows(r->m, r->n * cfx_dtype_size(d));
    cfx__parallel(r->m, cfx__grain((double)r->n * 2), d == CFX_F32 ? rows_f32 : rows_f64, r);
}

/* Notes the rows; w and b say only whether there are such. */
static void note_rows(cfx_op_call *c, cfx_tensor *w, cfx_tensor *b, double eps, bool rms) {
    cfx_tensor *x = arg_tensor(c, 0);
    norm_rows r = {.w = w, .b = b, .eps = eps, .rms = rms};
    const cfx_dtype d = x->dtype == CFX_F64 ? CFX_F64 : CFX_F32;
    if (c->nout > 1)
        return;
    loop_note(c->note, CFX__LOOP_ROW, d == CFX_F32 ? row_f32 : row_f64, d, 3, &r, sizeof r);
    cfx_tensor *const operands[] = {x, w, b};
    for (int i = 0; i < COUNT(operands); i++)
        if (operands[i])
            loop_operand(c->note, operands[i], d);
    c->note->says.row = rms ? CFX__ROW_RMS_NORM : CFX__ROW_LAYER_NORM;
    c->note->says.affine = (w ? CFX__ROW_WEIGHT : 0) | (b ? CFX__ROW_BIAS : 0);
    c->note->says.f[0] = eps;
    c->note->row = (int)arg_count(c, 1);
}

static const void *data_of(const cfx_tensor *t) { return t ? t->data : NULL; }

/* A tensor of ones or zeros keeps nothing: statistics of rows without elements. */
static void empty_stats(cfx_op_call *c) {
    for (int i = 1; i < c->nout; i++)
        if (c->out[i] && c->out[i]->numel)
            cfx__tensor_fill(c->out[i], cfx_float(i == 1 ? 0 : NAN));
}

/* ---- layer_norm ----------------------------------------------------------------------------- */

static void shape_layer_norm(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 2), *b = arg_tensor(c, 3);
    int64_t m, n;
    c->out[0] = c->out[1] = c->out[2] = &cfx__tensor_bad;
    if (!split(c, x, 1, w, b, &m, &n) || !computable(c, "LayerNormKernelImpl", x, w, b))
        return;
    out_new(c, 0, x->dtype, x->ndim, x->shape);
    for (int i = 1; i < c->nout; i++)
        out_stat(c, i, x, (int)arg_count(c, 1), w ? w : b);
}

static void kernel_layer_norm(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 2), *b = arg_tensor(c, 3);
    if (c->note) {
        note_rows(c, w, b, arg_float(c, 4), false);
        return;
    }
    norm_rows r = {.x = x->data,
                   .w = data_of(w),
                   .b = data_of(b),
                   .y = c->out[0]->data,
                   .eps = arg_float(c, 4)};
    if (!split(c, x, 1, w, b, &r.m, &r.n))
        return;
    if (c->nout > 1) {
        r.mean = c->out[1]->data;
        r.rstd = c->out[2]->data;
    }
    if (x->numel)
        run(&r, x->dtype);
    else
        empty_stats(c);
}

CFX_OP(native_layer_norm) = {"aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, "
                             "Tensor? weight, Tensor? bias, "
                             "float eps) -> (Tensor, Tensor, Tensor)",
                             "torch.native_layer_norm",
                             .shape = shape_layer_norm,
                             .kernel = kernel_layer_norm,
                             .dtypes = CFX_IN_FLOAT,
                             .effects = CFX_CONTIGUOUS_ARGS,
                             GRAD(layer_norm, READ(0) | READ(2) | READ(3) | RESULT(1) | RESULT(2)),
                             .autocast = CFX_CAST_F32_ON_GPU, .out = "out"};

static void decompose_layer_norm(cfx_op_call *c) {
    cfx_value r = cfx_native_layer_norm(c->args[0], c->args[1], c->args[2], c->args[3], c->args[4]);
    if (!op_failed())
        c->out[0] = cfx_tensor_at(r, 0);
}

CFX_OP(layer_norm) = {
    "aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? "
    "bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor",
    "torch.layer_norm",
    .shape = shape_layer_norm,
    .kernel = kernel_layer_norm,
    .decompose = decompose_layer_norm,
    .dtypes = CFX_IN_FLOAT,
    .effects = CFX_COMPOSITE | CFX_CONTIGUOUS_ARGS | CFX_LOOPS, .autocast = CFX_CAST_F32_ON_GPU};

/* ---- backward ------------------------------------------------------------------------------- */

static bool fits_back(cfx_op_call *c, const cfx_tensor *g, const cfx_tensor *x,
                      const cfx_tensor *mean, const cfx_tensor *rstd, int64_t m) {
    if (!cfx__tensor_same_shape(g, x)) {
        op_fail(c, "Expected grad_out to have the shape of input, %s, but got %s",
                cfx__shape_text(x->ndim, x->shape), cfx__shape_text(g->ndim, g->shape));
        return false;
    }
    if ((mean && mean->numel != m) || rstd->numel != m || !cfx__dtype_is_float(rstd->dtype) ||
        (mean && !cfx__dtype_is_float(mean->dtype))) {
        op_fail(c, "Expected one mean and one rstd for each of %lld rows", (long long)m);
        return false;
    }
    return computable(c, "LayerNormBackwardKernelImpl", x, g->dtype == x->dtype ? NULL : g, NULL);
}

static void shape_layer_norm_back(cfx_op_call *c) {
    const cfx_tensor *g = arg_tensor(c, 0), *x = arg_tensor(c, 1), *w = arg_tensor(c, 5);
    int64_t m, n, shape[CFX_MAX_DIMS];
    c->out[0] = &cfx__tensor_bad;
    if (!split(c, x, 2, w, arg_tensor(c, 6), &m, &n) ||
        (x->numel && !fits_back(c, g, x, arg_tensor(c, 3), arg_tensor(c, 4), m)) ||
        !computable(c, "LayerNormBackwardKernelImpl", x, w, NULL))
        return;
    int k = arg_ints(c, 2, shape);
    c->out[0] = NULL;
    if (mask_at(c, 7, 0))
        out_new(c, 0, x->dtype, x->ndim, x->shape);
    for (int i = 1; i < 3; i++)
        if (mask_at(c, 7, i))
            out_new(c, i, w ? w->dtype : x->dtype, k, shape);
}

/* Arguments that the lifting left in another float type are brought to that of x. */
static const cfx_tensor *as(const cfx_tensor *t, const cfx_tensor *x) {
    return t ? cfx__tensor_contiguous_as(t, x->dtype) : NULL;
}

static void run_back(cfx_op_call *c, norm_rows *r, cfx_dtype d) {
    bool single = d == CFX_F32;
    if (c->out[0])
        cfx__parallel(r->m, cfx__grain((double)r->n * 3), single ? back_rows_f32 : back_rows_f64,
                      r);
    if (r->dw || r->db)
        cfx__parallel(r->n, cfx__grain((double)r->m * 3),
                      single ? back_columns_f32 : back_columns_f64, r);
}

static void kernel_layer_norm_back(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 1), *w = as(arg_tensor(c, 5), x);
    const cfx_tensor *g = as(arg_tensor(c, 0), x);
    norm_rows r = {.x = x->data, .w = data_of(w), .g = g->data};
    if (!split(c, x, 2, NULL, NULL, &r.m, &r.n))
        return;
    if (!x->numel) {
        for (int i = 1; i < 3; i++)
            if (c->out[i])
                cfx__tensor_fill(c->out[i], cfx_int(0));
        return;
    }
    r.mean = (void *)data_of(as(arg_tensor(c, 3), x));
    r.rstd = (void *)data_of(as(arg_tensor(c, 4), x));
    r.y = c->out[0] ? c->out[0]->data : NULL;
    r.dw = c->out[1] ? c->out[1]->data : NULL;
    r.db = c->out[2] ? c->out[2]->data : NULL;
    if (!op_failed())
        run_back(c, &r, x->dtype);
}

CFX_OP(native_layer_norm_backward) = {
    "aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, "
    "Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, "
    "Tensor, "
    "Tensor)",
    NULL,
    .shape = shape_layer_norm_back,
    .kernel = kernel_layer_norm_back,
    .dtypes = CFX_IN_FLOAT,
    .effects = CFX_CONTIGUOUS_ARGS, .out = "out"};

/* ---- rms_norm ------------------------------------------------------------------------------- */

static void shape_rms_norm(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 2);
    int64_t m, n;
    c->out[0] = c->out[1] = &cfx__tensor_bad;
    if (!split(c, x, 1, w, NULL, &m, &n))
        return;
    if (!cfx__dtype_is_float(x->dtype) && !cfx__dtype_is_complex(x->dtype)) {
        op_fail_as(NOT_IMPLEMENTED, c, "\"rms_norm\" not implemented for '%s'",
                   cfx__dtype_title(x->dtype));
        return;
    }
    out_format(c, 0, x->dtype, x->ndim, x->shape, x);
    if (c->nout > 1) {
        out_stat(c, 1, x, (int)arg_count(c, 1), NULL);
        if (!op_failed() && cfx__dtype_is_half(x->dtype))
            out_new(c, 1, CFX_F32, x->ndim, c->out[1]->shape);
    }
}

/* What eps is when it is not given: the least step from 1 in the dtype of the input. */
static double rms_eps(const cfx_op_call *c) {
    if (!arg_is_none(c, 3))
        return arg_float(c, 3);
    switch (arg_tensor(c, 0)->dtype) {
    case CFX_F64:
    case CFX_C128:
        return DBL_EPSILON;
    case CFX_F16:
        return 0x1p-10;
    case CFX_BF16:
        return 0x1p-7;
    default:
        return FLT_EPSILON;
    }
}

static void decompose_fused_rms_norm(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 2);
    int64_t m, n, dims[CFX_MAX_DIMS];
    if (!split(c, x, 1, w, NULL, &m, &n))
        return;
    int k = (int)arg_count(c, 1);
    for (int i = 0; i < k; i++)
        dims[i] = x->ndim - 1 - i;
    cfx_dtype d = cfx__dtype_is_half(x->dtype) ? CFX_F32 : x->dtype;
    cfx_value eps = cfx_float(rms_eps(c));
    cfx_tensor *up = d == x->dtype ? x : cfx_to(x, cfx_dtype_value(d));
    cfx_tensor *mean = cfx_mean(cfx_pow(up, 2), cfx_ints_value(k, dims), cfx_bool(true));
    cfx_tensor *scale = cfx_rsqrt(cfx_op_do(&cfx_op_add_Scalar, mean, eps));
    cfx_tensor *y = cfx_mul(up, scale);
    if (w)
        y = cfx_mul(y, w);
    if (!op_failed() && y->dtype != x->dtype)
        y = cfx_to(y, cfx_dtype_value(x->dtype));
    c->out[0] = y;
    c->out[1] = scale;
}

/* Complex numbers by their parts. */
static void complex_rms_norm(cfx_op_call *c) {
    cfx_op_call parts = *c;
    decompose_fused_rms_norm(&parts);
    for (int i = 0; i < c->nout && !op_failed(); i++)
        cfx__tensor_copy(c->out[i], parts.out[i]);
}

/* Halves are dealt with here, not lifted before: eps depends on them. */
static void kernel_rms_norm(cfx_op_call *c) {
    if (cfx__dtype_is_complex(arg_tensor(c, 0)->dtype)) {
        complex_rms_norm(c);
        return;
    }
    if (c->note) {
        note_rows(c, arg_tensor(c, 2), NULL, rms_eps(c), true);
        return;
    }
    cfx_dtype d = arg_tensor(c, 0)->dtype == CFX_F64 ? CFX_F64 : CFX_F32;
    const cfx_tensor *x = cfx__tensor_contiguous_as(arg_tensor(c, 0), d),
                     *w = as(arg_tensor(c, 2), x);
    cfx_tensor *y = dense_out_as(c, 0, d);
    if (op_failed())
        return;
    norm_rows r = {.x = x->data, .w = data_of(w), .y = y->data, .rms = true, .eps = rms_eps(c)};
    if (!split(c, x, 1, NULL, NULL, &r.m, &r.n))
        return;
    r.rstd = c->nout > 1 ? c->out[1]->data : NULL;
    if (x->numel)
        run(&r, d);
    else if (c->nout > 1 && c->out[1]->numel)
        cfx__tensor_fill(c->out[1], cfx_float(NAN));
    dense_done(c, 0, y);
}

static void decompose_rms_norm(cfx_op_call *c) {
    cfx_value r = cfx_aten__fused_rms_norm(c->args[0], c->args[1], c->args[2], c->args[3]);
    if (!op_failed())
        c->out[0] = cfx_tensor_at(r, 0);
}

CFX_OP(_fused_rms_norm) = {
    "aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> "
    "(Tensor, Tensor)",
    NULL,
    .shape = shape_rms_norm,
    .kernel = kernel_rms_norm,
    .decompose = decompose_fused_rms_norm,
    .effects = CFX_COMPOSITE};
CFX_OP(rms_norm) = {
    "aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) "
    "-> Tensor",
    "torch.rms_norm",
    .shape = shape_rms_norm,
    .kernel = kernel_rms_norm,
    .decompose = decompose_rms_norm,
    .effects = CFX_COMPOSITE | CFX_LOOPS};

static void shape_rms_norm_back(cfx_op_call *c) {
    const cfx_tensor *g = arg_tensor(c, 0), *x = arg_tensor(c, 1), *w = arg_tensor(c, 4);
    int64_t m, n;
    c->out[0] = &cfx__tensor_bad;
    if (!split(c, x, 2, w, NULL, &m, &n) ||
        (x->numel && !fits_back(c, g, x, NULL, arg_tensor(c, 3), m)) ||
        !computable(c, "RMSNormBackwardKernelImpl", x, w, NULL))
        return;
    c->out[0] = NULL;
    if (mask_at(c, 5, 0))
        out_new(c, 0, x->dtype, x->ndim, x->shape);
    if (mask_at(c, 5, 1) && w)
        out_new(c, 1, w->dtype, w->ndim, w->shape);
}

static void kernel_rms_norm_back(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 1), *w = as(arg_tensor(c, 4), x);
    norm_rows r = {
        .x = x->data, .w = data_of(w), .g = data_of(as(arg_tensor(c, 0), x)), .rms = true};
    r.rstd = (void *)data_of(as(arg_tensor(c, 3), x));
    if (!split(c, x, 2, NULL, NULL, &r.m, &r.n))
        return;
    r.y = c->out[0] ? c->out[0]->data : NULL;
    r.dw = c->out[1] ? c->out[1]->data : NULL;
    if (x->numel)
        run_back(c, &r, x->dtype);
    else if (c->out[1])
        cfx__tensor_fill(c->out[1], cfx_int(0));
}

CFX_OP(_fused_rms_norm_backward) = {
    "aten::_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor "
    "rstd, Tensor? weight, bool[2] output_mask) -> (Tensor, Tensor)",
    NULL,
    .shape = shape_rms_norm_back,
    .kernel = kernel_rms_norm_back,
    .dtypes = CFX_IN_FLOAT,
    .effects = CFX_CONTIGUOUS_ARGS};
