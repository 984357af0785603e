/* Batch and instance normalisation: each channel by its own moments, or by those that were kept
 * from training. Start at normalize.
 *
 * Running statistics are written in place by the operators whose schema says so, and by
 * native_batch_norm, whose schema does not but which does. */
#include "../back.h"
#include "../sizes.h"
#include "norm.h"

#include <float.h>
#include <math.h>

CFX_FAMILY(NORM);

typedef struct {
    int64_t outer, channels, inner;
    const void *x, *g;
    void *y;
    double *mean, *m2;    /* of each channel; m2 holds 1/sqrt(var + eps) when going back */
    double *alpha, *beta; /* y = x * alpha + beta */
    double *sum_g, *sum_gx;
    const void *alpha_t, *beta_t; /* the same in the type of x */
    bool train;
} batch;

#define T float
#define FN(x) x##_f32
#include "norm_batch.inc"
#define T double
#define FN(x) x##_f64
#include "norm_batch.inc"

/* The arguments of a call, wherever its schema has them; -1 where it has none. */
typedef struct {
    int mean, var, training, momentum, eps;
    bool functional; /* gives the new running statistics as results */
} batch_row;

static const batch_row native = {3, 4, 5, 6, 7, false}, no_stats = {-1, -1, 3, 4, 5, false};
static const batch_row no_training = {3, 4, -1, 5, 6, false};
static const batch_row functional = {3, 4, 5, 6, 7, true};

static cfx_tensor *stat(const cfx_op_call *c, int arg) {
    return arg < 0 ? NULL : arg_tensor(c, arg);
}
static bool training(const cfx_op_call *c, const batch_row *r) {
    return r->training >= 0 && arg_bool(c, r->training);
}

/* ---- checks --------------------------------------------------------------------------------- */

static bool has_elements(cfx_op_call *c, const char *name, const cfx_tensor *t, int64_t n) {
    if (!t || t->numel == n)
        return true;
    op_fail(c, "%s should contain %lld elements not %lld", name, (long long)n, (long long)t->numel);
    return false;
}

static bool batch_fits(cfx_op_call *c, const cfx_tensor *x, const cfx_tensor *w,
                       const cfx_tensor *b, const cfx_tensor *mean, const cfx_tensor *var,
                       bool train) {
    int64_t n = x->ndim > 1 ? x->shape[1] : 0;
    if (x->ndim < 2) {
        op_fail(c, "Expected at least 2 dimensions for the input of batch_norm, but got %s",
                cfx__shape_text(x->ndim, x->shape));
        return false;
    }
    if (!train && (!mean || !var)) {
        op_fail(c, "%s must be defined in evaluation mode", mean ? "running_var" : "running_mean");
        return false;
    }
    if (!cfx__dtype_is_float(x->dtype)) {
        op_fail_as(NOT_IMPLEMENTED, c, "\"batch_norm\" not implemented for '%s'",
                   cfx__dtype_title(x->dtype));
        return false;
    }
    return has_elements(c, "running_mean", mean, n) && has_elements(c, "running_var", var, n) &&
           has_elements(c, "weight", w, n) && has_elements(c, "bias", b, n) &&
           norm_param_fits(c, x, w) && norm_param_fits(c, x, b) && norm_param_fits(c, x, mean) &&
           norm_param_fits(c, x, var);
}

static void shape_batch_norm(cfx_op_call *c) {
    const batch_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    const cfx_tensor *mean = stat(c, r->mean), *var = stat(c, r->var);
    bool train = training(c, r);
    for (int i = 0; i < c->nout; i++)
        c->out[i] = &cfx__tensor_bad;
    if (!batch_fits(c, x, w, b, mean, var, train))
        return;
    cfx_dtype d = norm_stat_dtype(x, w ? w : b ? b : mean);
    int64_t n = train ? x->shape[1] : 0;
    out_broadcast(c, 0, x->dtype, 1, &x);
    if (c->nout > 1) {
        out_new(c, 1, d, 1, &n);
        out_new(c, 2, d, 1, &n);
    }
    if (r->functional) {
        out_like(c, 3, mean->dtype, mean);
        out_like(c, 4, var->dtype, var);
    }
}

/* ---- the work ------------------------------------------------------------------------------- */

/* x in the type computed in, its channels in planes or side by side. */
static const cfx_tensor *lay_out(const cfx_tensor *x, cfx_dtype d, batch *b) {
    bool rows = cfx__tensor_is_channels_last(x) || cfx__tensor_is_channels_last_3d(x);
    rows = rows && !cfx__tensor_is_contiguous(x);
    x = rows ? cfx__tensor_to_dtype(x, d) : cfx__tensor_contiguous_as(x, d);
    b->channels = x->shape[1];
    int64_t spread = x->numel ? x->numel / x->shape[0] / x->shape[1] : 1;
    b->outer = x->numel ? x->shape[0] : 0;
    b->inner = spread;
    if (rows || spread == 1) {
        b->outer *= spread;
        b->inner = 1;
    }
    b->x = x->data;
    return x;
}

/* n numbers of t, or n times `other`, as doubles. */
static double *numbers(cfx_op_call *c, const cfx_tensor *t, int64_t n, double other) {
    double *v = scratch(c, CFX_F64, n);
    if (!v)
        return NULL;
    if (t) {
        t = cfx__tensor_contiguous(t);
        if (t->data)
            cfx__convert_in(v, CFX_F64, t->data, cfx_dtype_size(t->dtype), t->dtype, n);
    } else {
        for (int64_t i = 0; i < n; i++)
            v[i] = other;
    }
    return v;
}

/* Writes them back to t, whatever its strides. */
static void keep_numbers(cfx_op_call *c, cfx_tensor *t, const double *v) {
    if (cfx__tensor_is_contiguous(t)) {
        cfx__convert_out(t->data, cfx_dtype_size(t->dtype), t->dtype, v, CFX_F64, t->numel);
    } else {
        cfx_tensor *plain = cfx__tensor_empty(c->at, CFX_F64, false, t->ndim, t->shape, NULL);
        if (op_failed())
            return;
        memcpy(plain->data, v, (size_t)t->numel * sizeof *v);
        cfx__tensor_copy(t, plain);
    }
    t->storage->version++;
}

/* The new running statistics: a share of the batch's, the rest of the old. */
static void update_running(cfx_op_call *c, const batch *b, cfx_tensor *mean, cfx_tensor *var,
                           cfx_tensor *mean_out, cfx_tensor *var_out, double momentum) {
    double count = (double)b->outer * (double)b->inner;
    double *m = numbers(c, mean, b->channels, 0), *v = numbers(c, var, b->channels, 0);
    if (op_failed())
        return;
    for (int64_t i = 0; i < b->channels; i++) {
        m[i] = momentum * b->mean[i] + (1 - momentum) * m[i];
        v[i] = momentum * (b->m2[i] / (count - 1)) + (1 - momentum) * v[i];
    }
    if (mean_out)
        keep_numbers(c, mean_out, m);
    if (var_out)
        keep_numbers(c, var_out, v);
}

static void scale_all(cfx_op_call *c, batch *b, cfx_dtype d, cfx_tensor *y) {
    b->y = y->data;
    double rows = (double)b->channels;
    if (b->inner == 1) {
        void *a = scratch(c, d, b->channels), *s = scratch(c, d, b->channels);
        if (!a || !s)
            return;
        cfx__convert_out(a, cfx_dtype_size(d), d, b->alpha, CFX_F64, b->channels);
        cfx__convert_out(s, cfx_dtype_size(d), d, b->beta, CFX_F64, b->channels);
        b->alpha_t = a;
        b->beta_t = s;
        cfx__parallel(b->outer, cfx__grain(rows), d == CFX_F32 ? scale_rows_f32 : scale_rows_f64,
                      b);
    } else {
        cfx__parallel(b->outer * b->channels, cfx__grain((double)b->inner),
                      d == CFX_F32 ? scale_planes_f32 : scale_planes_f64, b);
    }
}

/* Room for the result in the type and the order of the input. */
static cfx_tensor *result_like(cfx_op_call *c, const cfx_tensor *x) {
    cfx_tensor *y = c->out[0];
    bool same = y->dtype == x->dtype;
    for (int d = 0; d < y->ndim; d++)
        same &= y->shape[d] < 2 || y->stride[d] == x->stride[d];
    return same ? y : cfx__tensor_empty(c->at, x->dtype, false, x->ndim, x->shape, x->stride);
}

static void normalize(cfx_op_call *c) {
    const batch_row *r = c->op->row;
    const cfx_tensor *w = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    cfx_tensor *mean = stat(c, r->mean), *var = stat(c, r->var);
    double eps = arg_float(c, r->eps);
    bool train = training(c, r);
    cfx_dtype d = arg_tensor(c, 0)->dtype == CFX_F64 ? CFX_F64 : CFX_F32;
    batch job = {.train = train};
    const cfx_tensor *x = lay_out(arg_tensor(c, 0), d, &job);
    int64_t n = job.channels;
    if (op_failed())
        return;
    job.mean = numbers(c, train ? NULL : mean, n, NAN);
    job.m2 = numbers(c, train ? NULL : var, n, NAN);
    job.alpha = numbers(c, w, n, 1);
    job.beta = numbers(c, b, n, 0);
    cfx_tensor *y = result_like(c, x);
    if (op_failed())
        return;
    double count = (double)job.outer * (double)job.inner;
    if (train && count > 0)
        cfx__parallel(n, cfx__grain(count),
                      job.inner == 1 ? (d == CFX_F32 ? stat_rows_f32 : stat_rows_f64)
                                     : (d == CFX_F32 ? stat_planes_f32 : stat_planes_f64),
                      &job);
    double *invstd = numbers(c, NULL, n, 0);
    if (!invstd)
        return;
    for (int64_t i = 0; i < n; i++) {
        if (train && d == CFX_F32 && job.m2[i] > (double)FLT_MAX) /* a float in PyTorch */
            job.m2[i] = (double)INFINITY;
        invstd[i] = 1 / sqrt((train ? job.m2[i] / count : job.m2[i]) + eps);
        job.alpha[i] *= invstd[i];
        job.beta[i] -= job.mean[i] * job.alpha[i];
    }
    scale_all(c, &job, d, y);
    if (y != c->out[0] && !op_failed())
        cfx__tensor_copy(c->out[0], y);
    if (c->nout > 1 && train) {
        keep_numbers(c, c->out[1], job.mean);
        keep_numbers(c, c->out[2], invstd);
    }
    if (r->functional && !train) {
        cfx__tensor_copy(c->out[3], mean);
        cfx__tensor_copy(c->out[4], var);
    } else if (train && (mean || var)) {
        update_running(c, &job, mean, var, r->functional ? c->out[3] : mean,
                       r->functional ? c->out[4] : var, arg_float(c, r->momentum));
    }
}

/* ---- the operators -------------------------------------------------------------------------- */

static void take_three(cfx_op_call *c, cfx_value r) {
    for (int i = 0; i < c->nout && !op_failed(); i++)
        c->out[i] = cfx_tensor_at(r, i);
}

static void decompose_native(cfx_op_call *c) {
    cfx_value *a = c->args;
    const bool mean = !cfx_is_none(a[3]), var = !cfx_is_none(a[4]);
    if (!mean && !var)
        take_three(c, cfx_op_do(&cfx_op__native_batch_norm_legit_no_stats, a[0], a[1], a[2], a[5],
                                a[6], a[7]));
    else if (arg_bool(c, 5)) /* one alone is updated alone: nobody looks at the other */
        take_three(c, cfx_op_do(&cfx_op__native_batch_norm_legit, a[0], a[1], a[2],
                                mean ? a[3] : CFX_V(cfx_zeros_like(a[4])),
                                var ? a[4] : CFX_V(cfx_zeros_like(a[3])), a[5], a[6], a[7]));
    else
        take_three(c, cfx_op_do(&cfx_op__native_batch_norm_legit_no_training, a[0], a[1], a[2],
                                a[3], a[4], a[6], a[7]));
}

CFX_OP(native_batch_norm) = {
    "aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
    "Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    "torch.native_batch_norm",
    .shape = shape_batch_norm,
    .kernel = normalize,
    .decompose = decompose_native,
    .row = &native,
    GRAD(batch_norm, READ(0) | READ(1) | READ(3) | READ(4) | RESULT(1) | RESULT(2)),
    ASIDE(RESULT(1) | RESULT(2)), .core = decompose_native, .core_early = true,
    .out = "out out save_mean save_invstd", .updates = "training"};
CFX_OP(_native_batch_norm_legit) = {
    "aten::_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) "
    "running_mean, Tensor(b!) running_var, bool training, float momentum, float eps) -> (Tensor, "
    "Tensor, Tensor)",
    NULL, .shape = shape_batch_norm, .kernel = normalize, .row = &native,
    .out = "aten::_native_batch_norm_legit.out(Tensor input, Tensor? weight, Tensor? bias, "
    "Tensor(a!) running_mean, Tensor(b!) running_var, bool training, float momentum, float eps, *, "
    "Tensor(d!) out, Tensor(e!) save_mean, Tensor(f!) save_invstd) -> (Tensor(d!), Tensor(e!), "
    "Tensor(f!))", ASIDE(RESULT(1) | RESULT(2)),
    GRAD(batch_norm, READ(0) | READ(1) | READ(3) | READ(4) | RESULT(1) | RESULT(2))};
CFX_OP(_native_batch_norm_legit_no_stats) = {
    "aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool "
    "training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    NULL, .shape = shape_batch_norm, .kernel = normalize, .row = &no_stats,
    .out = "no_stats_out out save_mean save_invstd", ASIDE(RESULT(1) | RESULT(2)),
    GRAD(batch_norm_no_stats, READ(0) | READ(1) | RESULT(1) | RESULT(2))};
CFX_OP(_native_batch_norm_legit_no_training) = {
    "aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor "
    "running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    NULL, .shape = shape_batch_norm, .kernel = normalize, .row = &no_training,
    ASIDE(RESULT(1) | RESULT(2)),
    GRAD(batch_norm_no_training, READ(0) | READ(1) | READ(3) | READ(4) | RESULT(1) | RESULT(2)),
    .out = "out"};
CFX_OP(_native_batch_norm_legit_functional) = {
    "aten::_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor "
    "running_mean, Tensor running_var, bool training, float momentum, float eps) -> (Tensor, "
    "Tensor, "
    "Tensor, Tensor running_mean_out, Tensor running_var_out)",
    NULL, .shape = shape_batch_norm, .kernel = normalize, .row = &functional,
    ASIDE(RESULT(1) | RESULT(2) | RESULT(3) | RESULT(4)),
    GRAD(batch_norm, READ(0) | READ(1) | READ(3) | READ(4) | RESULT(1) | RESULT(2))};

static void decompose_batch_norm(cfx_op_call *c) {
    cfx_value *a = c->args;
    if (c->fake) /* what PyTorch sets aside for other backends; unused, it takes a name */
        cfx_empty(cfx_list(0), CFX_KW(dtype, cfx_dtype_value(CFX_U8)));
    cfx_value r = cfx_native_batch_norm(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
    if (!op_failed())
        c->out[0] = cfx_tensor_at(r, 0);
}

CFX_OP(batch_norm) = {
    "aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
    "running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor",
    "torch.batch_norm",
    .shape = shape_batch_norm,
    .kernel = normalize,
    .decompose = decompose_batch_norm,
    .row = &native,
    .updates = "training",
    .effects = CFX_COMPOSITE};

/* Each sample's channels become channels of one sample. */
static void decompose_instance_norm(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *mean = arg_tensor(c, 3), *var = arg_tensor(c, 4);
    bool own = arg_bool(c, 5);
    if (!own && (!mean || !var)) {
        op_fail(
            c, "Expected running_mean and running_var to be defined when use_input_stats is false");
        return;
    }
    if (x->ndim < 2) {
        op_fail(c, "Expected at least 2 dimensions for the input of instance_norm, but got %s",
                cfx__shape_text(x->ndim, x->shape));
        return;
    }
    cfx_value b = size_of(x, 0), n = size_of(x, 1), all = size_times(b, n);
    cfx_value shape = cfx_list(1, all);
    for (int i = 2; i < x->ndim; i++)
        cfx_list_append(cfx_as_list(shape), size_of(x, i));
    if (cfx_integer(all) == INT64_MAX) {
        op_fail_large(c, "integer out of range");
        return;
    }
    cfx_value p[4];
    for (int i = 0; i < 4; i++) {
        cfx_tensor *t = arg_tensor(c, i + 1);
        p[i] = t ? CFX_V(cfx_repeat(t, cfx_list(b))) : CFX_NONE;
    }
    cfx_tensor *seen = cfx_view(cfx_contiguous(x), shape);
    cfx_tensor *y = cfx_batch_norm(seen, p[0], p[1], p[2], p[3], c->args[5], c->args[6], c->args[7],
                                   c->args[8]);
    cfx_tensor *kept[2] = {mean, var};
    for (int i = 0; i < 2 && own && !op_failed(); i++)
        if (kept[i])
            cfx_copy_(kept[i],
                      cfx_mean(cfx_view(p[2 + i], cfx_list(b, n)), cfx_list(0), cfx_bool(false)));
    c->out[0] = cfx_view(y, size_list(x));
}

CFX_OP(instance_norm) = {
    "aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
    "running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor",
    "torch.instance_norm", .decompose = decompose_instance_norm, .updates = "use_input_stats",
    .effects = CFX_COMPOSITE};

/* ---- backward ------------------------------------------------------------------------------- */

static void shape_batch_back(cfx_op_call *c) {
    const cfx_tensor *g = arg_tensor(c, 0), *x = arg_tensor(c, 1), *w = arg_tensor(c, 2);
    bool train = arg_bool(c, 7);
    const cfx_tensor *mean = arg_tensor(c, train ? 5 : 3), *var = arg_tensor(c, train ? 6 : 4);
    c->out[0] = &cfx__tensor_bad;
    if (!batch_fits(c, x, w, NULL, mean, var, train))
        return;
    if (!cfx__tensor_same_shape(g, x) || !mean || !var || g->dtype != x->dtype) {
        op_fail(
            c,
            "native_batch_norm_backward: grad_out of shape %s does not fit input of shape %s, or "
            "its statistics are not given",
            cfx__shape_text(g->ndim, g->shape), cfx__shape_text(x->ndim, x->shape));
        return;
    }
    cfx_dtype d = norm_stat_dtype(x, w);
    c->out[0] = NULL;
    if (mask_at(c, 9, 0))
        out_format(c, 0, x->dtype, x->ndim, x->shape, x);
    for (int i = 1; i < 3; i++)
        if (mask_at(c, 9, i))
            out_new(c, i, w ? w->dtype : d, 1, &x->shape[1]);
}

static void kernel_batch_back(cfx_op_call *c) {
    bool train = arg_bool(c, 7);
    cfx_dtype d = arg_tensor(c, 1)->dtype == CFX_F64 ? CFX_F64 : CFX_F32;
    const cfx_tensor *x = cfx__tensor_contiguous_as(arg_tensor(c, 1), d);
    const cfx_tensor *g = cfx__tensor_contiguous_as(arg_tensor(c, 0), d);
    int64_t n = x->shape[1];
    batch b = {.outer = x->numel ? x->shape[0] : 0,
               .channels = n,
               .x = x->data,
               .g = g->data,
               .inner = x->numel ? x->numel / x->shape[0] / n : 1,
               .train = train};
    b.mean = numbers(c, arg_tensor(c, train ? 5 : 3), n, 0);
    b.m2 = numbers(c, arg_tensor(c, train ? 6 : 4), n, 0);
    b.alpha = numbers(c, arg_tensor(c, 2), n, 1);
    b.sum_g = numbers(c, NULL, n, 0);
    b.sum_gx = numbers(c, NULL, n, 0);
    if (op_failed())
        return;
    bool single = d == CFX_F32;
    cfx__parallel(n, cfx__grain((double)b.outer * (double)b.inner * 2),
                  single ? back_sums_f32 : back_sums_f64, &b);
    for (int64_t i = 0; i < n; i++) {
        if (!train)
            b.m2[i] = 1 / sqrt(b.m2[i] + arg_float(c, 8));
        b.alpha[i] *= b.m2[i];
    }
    if (c->out[0]) {
        cfx_tensor *y = dense_out_as(c, 0, d);
        if (op_failed())
            return;
        b.y = y->data;
        cfx__parallel(b.outer * n, cfx__grain((double)b.inner * 2),
                      single ? back_planes_f32 : back_planes_f64, &b);
        dense_done(c, 0, y);
    }
    for (int64_t i = 0; i < n; i++)
        b.sum_gx[i] *= b.m2[i];
    if (c->out[1])
        keep_numbers(c, c->out[1], b.sum_gx);
    if (c->out[2])
        keep_numbers(c, c->out[2], b.sum_g);
}

CFX_OP(native_batch_norm_backward) = {
    "aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? "
    "running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float "
    "eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    NULL, .shape = shape_batch_back, .kernel = kernel_batch_back, .out = "out"};
