/* Group normalisation: channels of a group share their moments. */
#include "../back.h"
#include "../sizes.h"
#include "norm.h"

#include <math.h>

CFX_FAMILY(NORM);

typedef struct {
    int64_t n, c, hw, groups;
    const void *x, *g, *w, *b;
    void *y, *mean, *rstd;
    double *sum_g, *sum_gx; /* of each plane */
    double eps;
} group;

#define GROUPS(S, T, SQRT)                                                                         \
    CFX__SIMD static void planes_##S(const group *j, const T *x, T *y, int64_t first, T mean,      \
                                     T rstd) {                                                     \
        const T *w = j->w, *b = j->b;                                                              \
        for (int64_t k = 0; k < j->c / j->groups; k++) {                                           \
            T a = w ? rstd * w[first + k] : rstd, s = (b ? b[first + k] : 0) - mean * a;           \
            _Pragma("omp simd") for (int64_t i = 0; i < j->hw; i++) y[k * j->hw + i] =             \
                x[k * j->hw + i] * a + s;                                                          \
        }                                                                                          \
    }                                                                                              \
    static void groups_##S(void *arg, int64_t begin, int64_t end) {                                \
        const group *j = arg;                                                                      \
        int64_t d = j->c / j->groups, size = d * j->hw;                                            \
        for (int64_t r = begin; r < end; r++) {                                                    \
            const T *x = (const T *)j->x + r * size;                                               \
            moments m = moments_##S(x, size);                                                      \
            T mean = (T)m.mean, var = (T)(m.m2 / m.n);                                             \
            T rstd = 1 / SQRT((var < 0 ? 0 : var) + (T)j->eps);                                    \
            planes_##S(j, x, (T *)j->y + r * size, r % j->groups * d, mean, rstd);                 \
            ((T *)j->mean)[r] = mean;                                                              \
            ((T *)j->rstd)[r] = rstd;                                                              \
        }                                                                                          \
    }                                                                                              \
    static void back_sums_##S(void *arg, int64_t begin, int64_t end) {                             \
        const group *j = arg;                                                                      \
        for (int64_t p = begin; p < end; p++) {                                                    \
            row_sums s =                                                                           \
                sums_##S((const T *)j->g + p * j->hw, (const T *)j->x + p * j->hw, NULL, j->hw);   \
            j->sum_g[p] = s.g;                                                                     \
            j->sum_gx[p] = s.gx;                                                                   \
        }                                                                                          \
    }                                                                                              \
    CFX__SIMD static void back_groups_##S(void *arg, int64_t begin, int64_t end) {                 \
        const group *j = arg;                                                                      \
        int64_t d = j->c / j->groups;                                                              \
        double n = (double)d * (double)j->hw;                                                      \
        const T *w = j->w;                                                                         \
        for (int64_t r = begin; r < end; r++) {                                                    \
            double mean = (double)((const T *)j->mean)[r], rstd = (double)((const T *)j->rstd)[r]; \
            double g = 0, gx = 0;                                                                  \
            int64_t first = r % j->groups * d;                                                     \
            for (int64_t k = 0; k < d; k++) {                                                      \
                double s = w ? (double)w[first + k] : 1;                                           \
                g += s * j->sum_g[r * d + k];                                                      \
                gx += s * j->sum_gx[r * d + k];                                                    \
            }                                                                                      \
            T scale = (T)((gx - g * mean) * rstd * rstd / n), shift = (T)(g / n);                  \
            for (int64_t k = 0; k < d; k++) {                                                      \
                int64_t at = (r * d + k) * j->hw;                                                  \
                const T *gr = (const T *)j->g + at, *x = (const T *)j->x + at;                     \
                T *y = (T *)j->y + at, s = w ? w[first + k] : 1, m = (T)mean, a = (T)rstd;         \
                _Pragma("omp simd") for (int64_t i = 0; i < j->hw; i++) y[i] =                     \
                    a * (gr[i] * s - shift - (x[i] - m) * scale);                                  \
            }                                                                                      \
        }                                                                                          \
    }
GROUPS(f32, float, sqrtf)
GROUPS(f64, double, sqrt)

/* ---- checks --------------------------------------------------------------------------------- */

static bool group_fits(cfx_op_call *c, const cfx_tensor *x, const cfx_tensor *w,
                       const cfx_tensor *b, int64_t channels, int64_t groups) {
    if (groups <= 0) {
        op_fail(c, "Expected num groups to be greater than 0, got %lld", (long long)groups);
        return false;
    }
    if (channels % groups) {
        op_fail(
            c,
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            "shape %s and num_groups=%lld",
            cfx__shape_text(x->ndim, x->shape), (long long)groups);
        return false;
    }
    const cfx_tensor *param[2] = {w, b};
    for (int i = 0; i < 2; i++)
        if (param[i] && (param[i]->ndim != 1 || param[i]->numel != channels)) {
            op_fail(
                c,
                "Expected %s to be a vector of size equal to the number of channels in input, but "
                "got %s of shape %s and input of shape %s",
                i ? "bias" : "weight", i ? "bias" : "weight",
                cfx__shape_text(param[i]->ndim, param[i]->shape),
                cfx__shape_text(x->ndim, x->shape));
            return false;
        }
    if (!cfx__dtype_is_float(x->dtype)) {
        op_fail_as(NOT_IMPLEMENTED, c, "\"GroupNormKernelImpl\" not implemented for '%s'",
                   cfx__dtype_title(x->dtype));
        return false;
    }
    return norm_param_fits(c, x, w) && norm_param_fits(c, x, b);
}

/* N, C, HxW and group, which stand in this order from argument `at` on. */
static bool read_sizes(cfx_op_call *c, const cfx_tensor *x, int at, group *j) {
    *j = (group){arg_int(c, at), arg_int(c, at + 1), arg_int(c, at + 2), arg_int(c, at + 3),
                 .eps = 0};
    int64_t n;
    if (j->n < 0 || j->c < 0 || j->hw < 0 || __builtin_mul_overflow(j->n, j->c, &n) ||
        __builtin_mul_overflow(n, j->hw, &n) || n != x->numel) {
        op_fail(c, "Expected X.numel() == N * C * HxW to be true, but got false.  (Could this "
                   "error message be improved?  If so, please report an enhancement request to "
                   "PyTorch.)");
        return false;
    }
    return true;
}

/* ---- forward -------------------------------------------------------------------------------- */

static void shape_group_norm(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    group j;
    c->out[0] = c->out[1] = c->out[2] = &cfx__tensor_bad;
    if (!read_sizes(c, x, 3, &j) || !group_fits(c, x, w, b, j.c, j.groups))
        return;
    cfx_dtype d = norm_stat_dtype(x, w ? w : b);
    out_format(c, 0, x->dtype, x->ndim, x->shape, x);
    for (int i = 1; i < 3; i++)
        out_new(c, i, d, 2, (int64_t[]){j.n, j.groups});
}

static void kernel_group_norm(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    group j;
    cfx_tensor *y = dense_out(c, 0);
    if (!read_sizes(c, x, 3, &j) || op_failed())
        return;
    if (!x->numel) {
        cfx__tensor_fill(c->out[1], cfx_int(0));
        cfx__tensor_fill(c->out[2], cfx_float(NAN));
        return;
    }
    j.eps = arg_float(c, 7);
    j.x = x->data;
    j.y = y->data;
    j.w = w ? w->data : NULL;
    j.b = b ? b->data : NULL;
    j.mean = c->out[1]->data;
    j.rstd = c->out[2]->data;
    cfx__parallel(j.n * j.groups, cfx__grain((double)(j.c / j.groups) * (double)j.hw * 2),
                  x->dtype == CFX_F32 ? groups_f32 : groups_f64, &j);
    dense_done(c, 0, y);
}

CFX_OP(native_group_norm) = {"aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, "
                             "SymInt N, SymInt C, SymInt "
                             "HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
                             "torch.native_group_norm",
                             .shape = shape_group_norm,
                             .kernel = kernel_group_norm,
                             .dtypes = CFX_IN_FLOAT,
                             .effects = CFX_CONTIGUOUS_ARGS,
                             GRAD(group_norm, READ(0) | READ(1) | RESULT(1) | RESULT(2)),
                             .out = "out"};

static void decompose_group_norm(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    if (x->ndim < 2) {
        op_fail(c, "Expected at least 2 dimensions for input tensor but received %d", x->ndim);
        return;
    }
    if (!group_fits(c, x, arg_tensor(c, 2), arg_tensor(c, 3), x->shape[1], arg_int(c, 1)))
        return;
    cfx_value n = size_of(x, 0), channels = size_of(x, 1), hw = cfx_int(1);
    for (int d = 2; d < x->ndim; d++)
        hw = size_times(hw, size_of(x, d));
    if (cfx_integer(hw) == INT64_MAX) {
        op_fail_large(c, "integer out of range");
        return;
    }
    cfx_tensor *seen = cfx__tensor_suggest_format(x) == CFX_CONTIGUOUS ? cfx_contiguous(x) : x;
    cfx_value r = cfx_native_group_norm(seen, c->args[2], c->args[3], n, channels, hw, c->args[1],
                                        c->args[4]);
    if (!op_failed())
        c->out[0] = cfx_tensor_at(r, 0);
}

CFX_OP(group_norm) = {
    "aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float "
    "eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor",
    "torch.group_norm", .decompose = decompose_group_norm,
    .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32_ON_GPU};

/* ---- backward ------------------------------------------------------------------------------- */

static void shape_group_back(cfx_op_call *c) {
    const cfx_tensor *g = arg_tensor(c, 0), *x = arg_tensor(c, 1), *mean = arg_tensor(c, 2);
    const cfx_tensor *rstd = arg_tensor(c, 3), *w = arg_tensor(c, 4);
    group j;
    c->out[0] = &cfx__tensor_bad;
    if (!read_sizes(c, x, 5, &j) || !group_fits(c, x, w, NULL, j.c, j.groups))
        return;
    if (!cfx__tensor_same_shape(g, x) || g->dtype != x->dtype || mean->numel != rstd->numel ||
        !cfx__dtype_is_float(mean->dtype) || mean->dtype != rstd->dtype ||
        mean->numel != j.n * j.groups) {
        op_fail(c,
                "native_group_norm_backward: grad_out of shape %s, or mean or rstd, does not fit "
                "input of shape %s",
                cfx__shape_text(g->ndim, g->shape), cfx__shape_text(x->ndim, x->shape));
        return;
    }
    c->out[0] = NULL;
    if (mask_at(c, 9, 0))
        out_format(c, 0, x->dtype, x->ndim, x->shape, x);
    for (int i = 1; i < 3; i++)
        if (mask_at(c, 9, i))
            out_new(c, i, w ? w->dtype : x->dtype, 1, &j.c);
}

static void kernel_group_back(cfx_op_call *c) {
    const cfx_tensor *g = arg_tensor(c, 0), *x = arg_tensor(c, 1);
    const cfx_tensor *mean = cfx__tensor_contiguous_as(arg_tensor(c, 2), x->dtype);
    const cfx_tensor *rstd = cfx__tensor_contiguous_as(arg_tensor(c, 3), x->dtype);
    const cfx_tensor *w = arg_tensor(c, 4);
    group j;
    if (!read_sizes(c, x, 5, &j) || op_failed())
        return;
    w = w ? cfx__tensor_contiguous_as(w, x->dtype) : NULL;
    bool single = x->dtype == CFX_F32;
    j.x = x->data;
    j.g = g->data;
    j.w = w ? w->data : NULL;
    j.mean = mean->data;
    j.rstd = rstd->data;
    j.sum_g = scratch(c, CFX_F64, j.n * j.c);
    j.sum_gx = scratch(c, CFX_F64, j.n * j.c);
    double *dw = scratch(c, CFX_F64, j.c), *db = scratch(c, CFX_F64, j.c);
    if (op_failed())
        return;
    cfx__parallel(j.n * j.c, cfx__grain((double)j.hw * 2), single ? back_sums_f32 : back_sums_f64,
                  &j);
    if (c->out[0] && x->numel) {
        cfx_tensor *y = dense_out(c, 0);
        if (op_failed())
            return;
        j.y = y->data;
        cfx__parallel(j.n * j.groups, cfx__grain((double)(j.c / j.groups) * (double)j.hw * 2),
                      single ? back_groups_f32 : back_groups_f64, &j);
        dense_done(c, 0, y);
    }
    int64_t d = j.c / j.groups;
    memset(dw, 0, (size_t)j.c * sizeof *dw);
    memset(db, 0, (size_t)j.c * sizeof *db);
    for (int64_t p = 0; p < j.n * j.c; p++) {
        int64_t k = p % j.c, r = p / j.c * j.groups + k / d;
        double m = single ? (double)((float *)j.mean)[r] : ((double *)j.mean)[r];
        double s = single ? (double)((float *)j.rstd)[r] : ((double *)j.rstd)[r];
        dw[k] += (j.sum_gx[p] - j.sum_g[p] * m) * s;
        db[k] += j.sum_g[p];
    }
    for (int i = 1; i < 3; i++)
        if (c->out[i])
            cfx__convert_out(c->out[i]->data, cfx_dtype_size(c->out[i]->dtype), c->out[i]->dtype,
                             i == 1 ? dw : db, CFX_F64, j.c);
}

CFX_OP(native_group_norm_backward) = {
    "aten::native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, "
    "Tensor? weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, "
    "Tensor, Tensor)",
    NULL,
    .shape = shape_group_back,
    .kernel = kernel_group_back,
    .dtypes = CFX_IN_FLOAT,
    .effects = CFX_CONTIGUOUS_ARGS, .out = "out"};
