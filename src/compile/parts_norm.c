/* Decompositions of norms whose statistics are results too. Halves are computed in floats, and each
 * result gets the dtype that it is wanted in at the end, as in the kernels (src/ops/nn). */
#include <math.h>

#include <cfx/ops.h>

#include "../ops/nn/norm.h"
#include "compile.h"
#include "parts.h"

static cfx_tensor *wide(cfx_tensor *x) {
    return x && cfx__dtype_is_half((cfx_dtype)x->dtype) ? cfx_to(x, cfx_dtype_value(CFX_F32)) : x;
}

static cfx_tensor *as(cfx_tensor *x, int dtype) {
    return x->dtype == dtype ? x : cfx_to(x, cfx_dtype_value((cfx_dtype)dtype));
}

/* out of unit * w + b, and statistics, which `param` tells the dtype of. */
static void give(cfx_op_call *c, cfx_tensor *unit, cfx_tensor *w, cfx_tensor *b,
                 const cfx_tensor *param) {
    const cfx_tensor *x = arg_tensor(c, 0);
    cfx_tensor *out = w ? cfx_mul(unit, w) : unit;
    c->out[0] = as(b ? cfx_add(out, b) : out, x->dtype);
    for (int i = 1; i < 3; i++)
        c->out[i] = as(c->out[i], norm_stat_dtype(x, param));
}

/* A weight of channels along dim 1 of x. */
static cfx_tensor *by_channel(const cfx_tensor *x, cfx_tensor *w) {
    cfx_value row = cfx_list_value(0, NULL);
    for (int i = 1; i < x->ndim; i++)
        cfx_list_append(cfx_as_list(row), i == 1 ? cfx_int(-1) : cfx_int(1));
    return w ? cfx_reshape(wide(w), row) : NULL;
}

/* A batch by its own mean and variance, which are results too; those that are kept, brought nearer
 * to them: (input, weight, bias, [running_mean, running_var,] training, momentum, eps); or by those
 * that are kept alone, where `training` is not an argument. */
void cfx__c_batch_norm(cfx_op_call *c) {
    const bool kept = c->op == &cfx_op__native_batch_norm_legit_functional;
    const bool given = c->op == &cfx_op__native_batch_norm_legit_no_training;
    const int at = kept ? 5 : given ? 4 : 3; /* the argument before momentum */
    cfx_tensor *x = wide(arg_tensor(c, 0)), *w = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    const double momentum = arg_float(c, at + 1);
    const int64_t channels = x->ndim > 1 ? x->shape[1] : 1, n = channels ? x->numel / channels : 0;
    const bool trains = !given && (!kept || arg_bool(c, at));
    const cfx_value dims = cfx__c_dims_but(x, 1);
    cfx_tensor *mean = trains ? cfx_mean(x, dims) : wide(arg_tensor(c, 3));
    cfx_tensor *var = trains ? cfx_var(x, dims, CFX_KW(correction, 0)) : wide(arg_tensor(c, 4));
    cfx_tensor *by = cfx_rsqrt(cfx_add(var, c->args[at + 2]));
    c->out[1] = trains ? mean : cfx_zeros(cfx_list(0));
    c->out[2] = trains ? by : cfx_zeros(cfx_list(0));
    give(c, cfx_mul(cfx_sub(x, by_channel(x, mean)), by_channel(x, by)), by_channel(x, w),
         by_channel(x, b),
         w               ? w
         : b             ? b
         : kept || given ? arg_tensor(c, 3)
                         : NULL);
    const double spread = n > 1 ? (double)n / (double)(n - 1) : INFINITY;
    for (int i = 0; i < 2 && kept; i++) {
        cfx_tensor *now = i ? cfx_mul(var, spread) : mean, *old = arg_tensor(c, 3 + i);
        c->out[3 + i] =
            trains
                ? as(cfx_add(cfx_mul(now, momentum), cfx_mul(wide(old), 1 - momentum)), old->dtype)
                : cfx_clone(old);
    }
}

/* x by its own mean and variance over dims, which have ones there; those are results too. */
static cfx_tensor *by_own(cfx_op_call *c, cfx_tensor *x, cfx_value dims, cfx_value eps) {
    const cfx_value keep = cfx_bool(true);
    c->out[1] = cfx_mean(x, dims, keep);
    cfx_tensor *var = cfx_var(x, dims, CFX_KW(correction, 0), CFX_KW(keepdim, keep));
    c->out[2] = cfx_rsqrt(cfx_add(var, eps));
    return cfx_mul(cfx_sub(x, c->out[1]), c->out[2]);
}

/* native_layer_norm(input, normalized_shape, weight, bias, eps) */
void cfx__c_layer_norm(cfx_op_call *c) {
    cfx_tensor *x = wide(arg_tensor(c, 0)), *w = arg_tensor(c, 2), *b = arg_tensor(c, 3);
    cfx_value dims = cfx_list_value(0, NULL);
    for (int i = x->ndim - (int)arg_count(c, 1); i < x->ndim; i++)
        cfx_list_append(cfx_as_list(dims), cfx_int(i));
    give(c, by_own(c, x, dims, c->args[4]), wide(w), wide(b), w ? w : b);
}

/* native_group_norm(input, weight, bias, N, C, HxW, group, eps) */
void cfx__c_group_norm(cfx_op_call *c) {
    cfx_tensor *x = wide(arg_tensor(c, 0)), *w = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    cfx_tensor *groups = cfx_reshape(x, cfx_list(c->args[3], c->args[6], -1));
    cfx_tensor *unit = cfx_reshape_as(by_own(c, groups, cfx_list(2), c->args[7]), x);
    for (int i = 1; i < 3; i++)
        c->out[i] = cfx_squeeze(c->out[i], 2);
    give(c, unit, by_channel(x, w), by_channel(x, b), w ? w : b);
}
