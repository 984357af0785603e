/* What the normalisations share: mean and variance of a row in one pass over memory. */
#ifndef CFX__NORM_H
#define CFX__NORM_H

#include "../dense.h"

/* Number, mean and sum of squared distances from it: parts are joined without losing digits. */
typedef struct {
    double n, mean, m2;
} moments;

static inline void moments_join(moments *a, moments b) {
    if (a->n == 0 || b.n == 0) {
        *a = a->n == 0 ? b : *a;
        return;
    }
    double n = a->n + b.n, d = b.mean - a->mean;
    const bool finite = d - d == 0; /* else the mean is what their sum is: inf stays inf */
    a->mean = finite ? a->mean + d * (b.n / n) : a->mean + b.mean;
    a->m2 = finite ? a->m2 + b.m2 + d * d * (a->n / n) * b.n : d - d;
    a->n = n;
}

moments moments_f32(const float *x, int64_t n);
moments moments_f64(const double *x, int64_t n);
/* The sum of squares of a row. */
double squares_f32(const float *x, int64_t n);
double squares_f64(const double *x, int64_t n);
/* The sums of g and of g * x over a row; with w, of g * w. */
typedef struct {
    double g, gx;
} row_sums;
row_sums sums_f32(const float *g, const float *x, const float *w, int64_t n);
row_sums sums_f64(const double *g, const double *x, const double *w, int64_t n);

/* The dtype of saved statistics: float32 where parameters are, and the input is a half. */
static inline cfx_dtype norm_stat_dtype(const cfx_tensor *x, const cfx_tensor *param) {
    return cfx__dtype_is_half(x->dtype) && param && param->dtype == CFX_F32 ? CFX_F32 : x->dtype;
}

/* Whether a parameter may go with the input; false, with PyTorch's message. */
static inline bool norm_param_fits(cfx_op_call *c, const cfx_tensor *x, const cfx_tensor *param) {
    bool ok = !param || param->dtype == x->dtype ||
              (cfx__dtype_is_half(x->dtype) && param->dtype == CFX_F32);
    if (!ok)
        op_fail(c, "expected scalar type %s but found %s", cfx__dtype_title(x->dtype),
                cfx__dtype_title(param->dtype));
    return ok;
}

/* Which results output_mask asks for. */
static inline bool mask_at(const cfx_op_call *c, int arg, int i) {
    return i < arg_count(c, arg) && cfx_integer(cfx_as_list(c->args[arg])->items[i]) != 0;
}

/* Gradients: norm_back.c. */
cfx_grad_fn grad_layer_norm, grad_group_norm, grad_batch_norm, grad_batch_norm_no_stats,
    grad_batch_norm_no_training;

#endif
