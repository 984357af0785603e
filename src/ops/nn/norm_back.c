/* Gradients of normalisations, and gradients of those: y = (x - mean) rstd w + b over some dims.
 *
 * The backward operators are one pass over memory, but they are not differentiated. Where
 * gradients are recorded in turn the same is composed of small operators, from the input alone. */
#include "norm.h"

#include "../back.h"

/* What a recorded gradient is made of. Statistics keep the dims they are over as 1. */
typedef struct {
    cfx_tensor *rstd, *unit; /* unit: x with mean 0 and deviation 1 */
} normalized;

static normalized normalize(cfx_tensor *x, cfx_value dims, double eps) {
    cfx_tensor *apart = cfx_sub(x, cfx_mean(x, dims, cfx_bool(true)));
    cfx_tensor *var = cfx_mean(cfx_mul(apart, apart), dims, cfx_bool(true));
    cfx_tensor *rstd = cfx_rsqrt(cfx_add(var, eps));
    return (normalized){rstd, cfx_mul(apart, rstd)};
}

/* The gradient of x, where g is that of `unit`. */
static cfx_tensor *input_grad(normalized n, cfx_tensor *g, cfx_value dims) {
    cfx_tensor *along = cfx_mean(cfx_mul(g, n.unit), dims, cfx_bool(true));
    g = cfx_sub(g, cfx_mean(g, dims, cfx_bool(true)));
    return cfx_mul(n.rstd, cfx_sub(g, cfx_mul(n.unit, along)));
}

/* Halves compute in float32. */
static cfx_tensor *lifted(cfx_tensor *t) {
    return t && cfx__dtype_is_half((cfx_dtype)t->dtype) ? cast_to(t, CFX_F32) : t;
}

static void give(cfx_back *b, int i, cfx_tensor *grad) {
    if (b->needs[i])
        back_give(b, i, cast_to(grad, (cfx_dtype)back_arg(b, i)->dtype));
}

static cfx_value wanted(const cfx_back *b, int x, int w, int bias) {
    return cfx_list(cfx_bool(b->needs[x]), cfx_bool(b->needs[w]), cfx_bool(b->needs[bias]));
}

/* ---- layer_norm ------------------------------------------------------------------------------ */

static void back_layer_norm_recorded(cfx_back *b) {
    cfx_tensor *g = lifted(b->gout[0]), *x = lifted(back_arg(b, 0)), *w = lifted(back_arg(b, 2));
    const int inner = (int)cfx_as_list(b->args[1])->len, outer = x->ndim - inner;
    int64_t dims[CFX_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++)
        dims[i] = i;
    cfx_value over = cfx_ints_value(inner, dims + outer);
    normalized n = normalize(x, over, back_float(b, 4));
    if (b->needs[0])
        give(b, 0, input_grad(n, w ? cfx_mul(g, w) : g, over));
    cfx_tensor *each = cfx_mul(g, n.unit);
    give(b, 2, sum_to(each, inner, x->shape + outer));
    give(b, 3, sum_to(g, inner, x->shape + outer));
}

void grad_layer_norm(cfx_back *b) {
    if (!b->gout[0])
        return;
    if (back_recorded()) {
        back_layer_norm_recorded(b);
        return;
    }
    cfx_value grads = cfx_native_layer_norm_backward(b->gout[0], b->args[0], b->args[1], b->out[1],
                                                     b->out[2], b->args[2], b->args[3],
                                                     wanted(b, 0, 2, 3));
    back_give_at(b, 0, grads, 0);
    back_give_at(b, 2, grads, 1);
    back_give_at(b, 3, grads, 2);
}

/* ---- group_norm ------------------------------------------------------------------------------ */

/* What the gradients of a group's mean and rstd add to that of the input [N, groups, -1]. */
static cfx_tensor *statistics_grad(const cfx_back *b, cfx_tensor *unit, cfx_tensor *rstd) {
    const int64_t count = unit->numel / (rstd->numel ? rstd->numel : 1);
    cfx_tensor *sum = NULL;
    if (b->gout[1])
        sum = cfx_div(cfx_unsqueeze(lifted(b->gout[1]), 2), count);
    if (b->gout[2]) {
        cfx_tensor *slope = cfx_mul(cfx_unsqueeze(lifted(b->gout[2]), 2), cfx_mul(rstd, rstd));
        sum = plus(sum, cfx_mul(unit, cfx_div(slope, -count)));
    }
    return sum;
}

static void back_group_norm_recorded(cfx_back *b) {
    cfx_tensor *g = lifted(b->gout[0]), *x = lifted(back_arg(b, 0)), *w = lifted(back_arg(b, 1));
    const int64_t N = back_int(b, 3), C = back_int(b, 4), plane = back_int(b, 5);
    const int64_t groups = back_int(b, 6);
    cfx_value by_group = cfx_list(N, groups, C / groups * plane);
    cfx_value by_channel = cfx_list(N, C, plane);
    cfx_value last = cfx_list(2);
    normalized n = normalize(cfx_reshape(x, by_group), last, back_float(b, 7));
    cfx_tensor *dx = NULL;
    if (g) {
        g = cfx_reshape(g, by_channel);
        cfx_tensor *scaled_g = w ? cfx_mul(g, cfx_view(w, cfx_list(1, C, 1))) : g;
        cfx_tensor *each = cfx_mul(g, cfx_reshape(n.unit, by_channel));
        dx = input_grad(n, cfx_reshape(scaled_g, by_group), last);
        give(b, 1, cfx_sum(each, cfx_list(0, 2)));
        give(b, 2, cfx_sum(g, cfx_list(0, 2)));
    }
    dx = plus(dx, statistics_grad(b, n.unit, n.rstd));
    give(b, 0, cfx_reshape(cfx_expand(dx, by_group), sizes_of(x)));
}

void grad_group_norm(cfx_back *b) {
    if (back_recorded() || b->gout[1] || b->gout[2]) {
        back_group_norm_recorded(b);
        return;
    }
    cfx_value grads = cfx_native_group_norm_backward(b->gout[0], b->args[0], b->out[1], b->out[2],
                                                     b->args[1], b->args[3], b->args[4],
                                                     b->args[5], b->args[6], wanted(b, 0, 1, 2));
    for (int i = 0; i < 3; i++)
        back_give_at(b, i, grads, i);
}

/* ---- batch_norm ------------------------------------------------------------------------------ */

static void back_batch_norm_recorded(cfx_back *b, cfx_value mean, cfx_value var, bool training,
                                     double eps) {
    cfx_tensor *g = lifted(b->gout[0]), *x = lifted(back_arg(b, 0)), *w = lifted(back_arg(b, 1));
    int64_t dims[CFX_MAX_DIMS], shape[CFX_MAX_DIMS], n = 0;
    for (int i = 0; i < x->ndim; i++) {
        shape[i] = i == 1 ? x->shape[1] : 1;
        if (i != 1)
            dims[n++] = i;
    }
    cfx_value over = cfx_ints_value(n, dims), channels = cfx_ints_value(x->ndim, shape);
    cfx_tensor *scaled_g = w ? cfx_mul(g, cfx_view(w, channels)) : g, *dx;
    normalized s;
    if (training) {
        s = normalize(x, over, eps);
        dx = input_grad(s, scaled_g, over);
    } else {
        s.rstd = cfx_view(cfx_rsqrt(cfx_add(lifted(cfx_as_tensor(var)), eps)), channels);
        s.unit = cfx_mul(cfx_sub(x, cfx_view(lifted(cfx_as_tensor(mean)), channels)), s.rstd);
        dx = cfx_mul(scaled_g, s.rstd);
    }
    give(b, 0, dx);
    give(b, 1, cfx_sum(cfx_mul(g, s.unit), over));
    give(b, 2, cfx_sum(g, over));
}

/* The statistics of the batch are results 1 and 2; without training the running ones count. */
static void back_batch_norm(cfx_back *b, cfx_value mean, cfx_value var, bool training,
                            cfx_value eps) {
    if (!b->gout[0])
        return;
    if (back_recorded()) {
        back_batch_norm_recorded(b, mean, var, training, cfx_number(eps));
        return;
    }
    cfx_value grads = cfx_native_batch_norm_backward(b->gout[0], b->args[0], b->args[1], mean, var,
                                                     b->out[1], b->out[2], cfx_bool(training), eps,
                                                     wanted(b, 0, 1, 2));
    for (int i = 0; i < 3; i++)
        back_give_at(b, i, grads, i);
}

void grad_batch_norm(cfx_back *b) {
    back_batch_norm(b, b->args[3], b->args[4], back_bool(b, 5), b->args[7]);
}

void grad_batch_norm_no_stats(cfx_back *b) {
    back_batch_norm(b, CFX_NONE, CFX_NONE, back_bool(b, 3), b->args[5]);
}

void grad_batch_norm_no_training(cfx_back *b) {
    back_batch_norm(b, b->args[3], b->args[4], false, b->args[6]);
}
