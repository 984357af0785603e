/* Steps of optimisers over lists of parameters in one call, and the scaling of their gradients
 * under mixed precision. Every list is written in place; halves are computed in float32. */
#include <math.h>

#include <cfx/ops.h>

#include "../ops.h"

CFX_FAMILY(MATH);

/* ---- what all steps share -------------------------------------------------------------------- */

static cfx_tensor *wide(cfx_tensor *t) {
    return cfx__dtype_is_half(t->dtype) ? cfx_to(t, cfx_f32) : t;
}

static cfx_tensor *list_at(cfx_op_call *c, int i, int64_t k) { return wide(arg_item(c, i, k)); }

/* The number of a tensor that has one: itself where there is data, else a tensor of it, so that
 * what a program is decomposed to reads it when it runs. */
static cfx_value number_in(cfx_op_call *c, cfx_tensor *t) {
    if (t->numel != 1)
        op_fail(c, "a Tensor with %lld elements cannot be converted to Scalar",
                (long long)t->numel);
    if (op_failed() || t->data)
        return cfx_float(t->numel == 1 ? cfx__tensor_number(t, 0) : 0);
    return cfx_tensor_value(cfx_to(cfx_reshape(t, cfx_list_value(0, NULL)), cfx_f64));
}

static bool is_known(cfx_value number) { return number.tag != CFX_TAG_TENSOR; }

static cfx_value times(cfx_value a, double b) {
    return is_known(a) ? cfx_float(cfx_number(a) * b) : cfx_tensor_value(cfx_mul(a, b));
}

static cfx_value over(cfx_value a, cfx_value b) {
    return is_known(a) && is_known(b) ? cfx_float(cfx_number(a) / cfx_number(b))
                                      : cfx_tensor_value(cfx_true_divide(a, b));
}

/* 1 - beta^step */
static cfx_value bias_of(double beta, cfx_value step) {
    return is_known(step) ? cfx_float(1 - pow(beta, cfx_number(step)))
                          : cfx_tensor_value(cfx_rsub(cfx_pow(beta, step), 1));
}

static cfx_value root(cfx_value a) {
    return is_known(a) ? cfx_float(sqrt(cfx_number(a))) : cfx_tensor_value(cfx_sqrt(a));
}

/* x - y * by */
static cfx_tensor *minus(cfx_tensor *x, cfx_tensor *y, cfx_value by) {
    return is_known(by) ? cfx_sub(x, y, CFX_KW(alpha, by)) : cfx_sub(x, cfx_mul(y, by));
}

/* x - y * by / z */
static cfx_tensor *minus_ratio(cfx_tensor *x, cfx_tensor *y, cfx_value by, cfx_tensor *z) {
    return is_known(by) ? cfx_addcdiv(x, y, z, CFX_KW(value, -cfx_number(by)))
                        : cfx_sub(x, cfx_div(cfx_mul(y, by), z));
}

/* Whether the gradients hold an infinity, or NaN: nothing is done then. The last argument says so;
 * true, false or a tensor. */
static cfx_value is_off(cfx_op_call *c) {
    cfx_tensor *found = arg_tensor(c, c->nargs - 1);
    cfx_value n = found ? number_in(c, found) : cfx_float(0);
    return is_known(n) ? cfx_bool(cfx_number(n) == 1) : cfx_tensor_value(cfx_eq(n, 1));
}

static void put(cfx_op_call *c, int i, int64_t k, cfx_tensor *t) {
    cfx_tensor *to = arg_item(c, i, k);
    cfx_value off = is_off(c);
    cfx_copy_(to, is_known(off) ? t : cfx_where(off, wide(to), t));
}

/* Whether a step is made. The lists that are written to must be as long as the parameters, or empty
 * where `may`. */
static bool may_step(cfx_op_call *c, int last, int may) {
    for (int i = 1; i <= last; i++)
        if (arg_count(c, i) != arg_count(c, 0) && !(i == may && !arg_count(c, i))) {
            op_fail(c, "%s: list %d has %lld tensors, but there are %lld parameters", op_title(c),
                    i, (long long)arg_count(c, i), (long long)arg_count(c, 0));
            return false;
        }
    cfx_value off = is_off(c);
    return !op_failed() && !(is_known(off) && cfx_integer(off));
}

typedef struct {
    int scale, maximize;
    double decay; /* added to the gradient; 0: none */
} gradient_of;

/* Gradient k as the step takes it. Where it was scaled, it is written back without the scale. */
static cfx_tensor *gradient(cfx_op_call *c, int64_t k, gradient_of how) {
    cfx_tensor *g = list_at(c, 1, k);
    if (arg_tensor(c, how.scale)) {
        g = cfx_div(g, c->args[how.scale]);
        put(c, 1, k, g);
    }
    if (arg_bool(c, how.maximize))
        g = cfx_neg(g);
    return how.decay != 0 ? cfx_add(g, list_at(c, 0, k), CFX_KW(alpha, how.decay)) : g;
}

static cfx_value rate(cfx_op_call *c, int i) {
    return arg_tensor(c, i) ? number_in(c, arg_tensor(c, i)) : c->args[i];
}

/* ---- Adam, AdamW ----------------------------------------------------------------------------- */

enum { ADAM_STEPS = 5, ADAM_LR, ADAM_BETA1, ADAM_BETA2, ADAM_DECAY, ADAM_EPS, ADAM_MAXIMA,
       ADAM_MAXIMIZE, ADAM_SCALE };

static void adam_one(cfx_op_call *c, int64_t k, bool apart) {
    double b1 = arg_float(c, ADAM_BETA1), b2 = arg_float(c, ADAM_BETA2);
    double decay = arg_float(c, ADAM_DECAY);
    cfx_value lr = rate(c, ADAM_LR), step = number_in(c, arg_item(c, ADAM_STEPS, k));
    if (op_failed())
        return;
    cfx_tensor *p = list_at(c, 0, k);
    cfx_tensor *g = gradient(c, k, (gradient_of){ADAM_SCALE, ADAM_MAXIMIZE, apart ? 0 : decay});
    if (apart && decay != 0)
        p = minus(p, p, times(lr, decay));
    cfx_tensor *mean = cfx_lerp(list_at(c, 2, k), g, 1 - b1);
    cfx_tensor *square = cfx_add(cfx_mul(list_at(c, 3, k), b2), cfx_mul(g, g),
                                 CFX_KW(alpha, 1 - b2));
    cfx_tensor *most = square;
    put(c, 2, k, mean);
    put(c, 3, k, square);
    if (arg_bool(c, ADAM_MAXIMA)) {
        most = cfx_maximum(list_at(c, 4, k), square);
        put(c, 4, k, most);
    }
    cfx_tensor *by = cfx_add(cfx_div(cfx_sqrt(most), root(bias_of(b2, step))),
                             arg_float(c, ADAM_EPS));
    put(c, 0, k, minus_ratio(p, mean, over(lr, bias_of(b1, step)), by));
}

static void adam(cfx_op_call *c, bool apart) {
    bool maxima = arg_bool(c, ADAM_MAXIMA);
    if (!may_step(c, ADAM_STEPS, maxima ? -1 : 4))
        return;
    for (int64_t k = 0; k < arg_count(c, 0) && !op_failed(); k++)
        adam_one(c, k, apart);
}

static void decompose_adam(cfx_op_call *c) { adam(c, false); }
static void decompose_adamw(cfx_op_call *c) { adam(c, true); }

/* ---- SGD ------------------------------------------------------------------------------------- */

enum { SGD_DECAY = 3, SGD_MOMENTUM, SGD_LR, SGD_DAMPENING, SGD_NESTEROV, SGD_MAXIMIZE, SGD_FIRST,
       SGD_SCALE };

static void decompose_sgd(cfx_op_call *c) {
    double momentum = arg_float(c, SGD_MOMENTUM);
    cfx_value lr = rate(c, SGD_LR);
    if (!may_step(c, 2, momentum == 0 ? 2 : -1))
        return;
    for (int64_t k = 0; k < arg_count(c, 0) && !op_failed(); k++) {
        cfx_tensor *g = gradient(
            c, k, (gradient_of){SGD_SCALE, SGD_MAXIMIZE, arg_float(c, SGD_DECAY)});
        if (momentum != 0) {
            cfx_tensor *v = g;
            if (!arg_bool(c, SGD_FIRST))
                v = cfx_add(cfx_mul(list_at(c, 2, k), momentum), g,
                            CFX_KW(alpha, 1 - arg_float(c, SGD_DAMPENING)));
            put(c, 2, k, v);
            g = arg_bool(c, SGD_NESTEROV) ? cfx_add(g, v, CFX_KW(alpha, momentum)) : v;
        }
        put(c, 0, k, minus(list_at(c, 0, k), g, lr));
    }
}

/* ---- Adagrad --------------------------------------------------------------------------------- */

enum { GRAD_STEPS = 3, GRAD_LR, GRAD_LR_DECAY, GRAD_DECAY, GRAD_EPS, GRAD_MAXIMIZE, GRAD_SCALE };

/* 1 + (step - 1) * decay */
static cfx_value slowness(cfx_value step, double decay) {
    return is_known(step) ? cfx_float(1 + (cfx_number(step) - 1) * decay)
                          : cfx_tensor_value(cfx_add(cfx_mul(cfx_sub(step, 1), decay), 1));
}

static void decompose_adagrad(cfx_op_call *c) {
    if (!may_step(c, GRAD_STEPS, -1))
        return;
    for (int64_t k = 0; k < arg_count(c, 0) && !op_failed(); k++) {
        cfx_value step = number_in(c, arg_item(c, GRAD_STEPS, k)), lr = rate(c, GRAD_LR);
        if (op_failed())
            return;
        cfx_tensor *g = gradient(
            c, k, (gradient_of){GRAD_SCALE, GRAD_MAXIMIZE, arg_float(c, GRAD_DECAY)});
        cfx_tensor *sum = cfx_addcmul(list_at(c, 2, k), g, g);
        cfx_tensor *by = cfx_add(cfx_sqrt(sum), arg_float(c, GRAD_EPS));
        put(c, 2, k, sum);
        lr = over(lr, slowness(step, arg_float(c, GRAD_LR_DECAY)));
        put(c, 0, k, minus_ratio(list_at(c, 0, k), g, lr, by));
    }
}

CFX_OP(_fused_adam_) = {
    "aten::_fused_adam_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, "
    "Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, "
    "float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, "
    "Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    "torch._fused_adam_", .decompose = decompose_adam};
CFX_OP(_fused_adam__tensor_lr) = {
    "aten::_fused_adam_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, "
    "Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, Tensor lr, "
    "float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, "
    "Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    NULL, .decompose = decompose_adam};
CFX_OP(_fused_adamw_) = {
    "aten::_fused_adamw_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, "
    "Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, "
    "float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, "
    "Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    "torch._fused_adamw_", .decompose = decompose_adamw};
CFX_OP(_fused_adamw__tensor_lr) = {
    "aten::_fused_adamw_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, "
    "Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, Tensor lr, "
    "float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, "
    "Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    NULL, .decompose = decompose_adamw};
CFX_OP(_fused_sgd_) = {
    "aten::_fused_sgd_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, "
    "*, float weight_decay, float momentum, float lr, float dampening, bool nesterov, bool "
    "maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    "torch._fused_sgd_", .decompose = decompose_sgd};
CFX_OP(_fused_sgd__tensor_lr) = {
    "aten::_fused_sgd_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] "
    "momentum_buffer_list, *, float weight_decay, float momentum, Tensor lr, float dampening, "
    "bool nesterov, bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? "
    "found_inf=None) -> ()",
    NULL, .decompose = decompose_sgd};
CFX_OP(_fused_adagrad_) = {
    "aten::_fused_adagrad_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] state_sums, "
    "Tensor(d!)[] state_steps, *, float lr, float lr_decay, float weight_decay, float eps, bool "
    "maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    "torch._fused_adagrad_", .decompose = decompose_adagrad};
CFX_OP(_fused_adagrad__tensor_lr) = {
    "aten::_fused_adagrad_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] "
    "state_sums, Tensor[] state_steps, *, Tensor lr, float lr_decay, float weight_decay, float "
    "eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    NULL, .decompose = decompose_adagrad};

/* ---- mixed precision ------------------------------------------------------------------------- */

/* The scale shrinks where an infinity was found, and grows after so many steps without. */
static void kernel_amp_update_scale_(cfx_op_call *c) {
    cfx_tensor *scale = arg_tensor(c, 0), *tracker = arg_tensor(c, 1);
    const cfx_tensor *found = arg_tensor(c, 2);
    c->out[0] = scale;
    if (scale->numel != 1 || tracker->numel != 1 || found->numel != 1 || scale->dtype != CFX_F32 ||
        tracker->dtype != CFX_I32 || found->dtype != CFX_F32) {
        op_fail(c, "_amp_update_scale_: scale and found_inf have to be one float32 each, "
                   "growth_tracker one int32");
        return;
    }
    if (c->fake)
        return;
    float *s = (float *)scale->data;
    int32_t *n = (int32_t *)tracker->data;
    if (*(const float *)found->data != 0) {
        *s = (float)(*s * arg_float(c, 4));
        *n = 0;
    } else if (++*n >= arg_int(c, 5)) {
        float larger = (float)(*s * arg_float(c, 3));
        *s = isfinite(larger) ? larger : *s;
        *n = 0;
    }
}

static void decompose_amp_unscale_(cfx_op_call *c) {
    cfx_tensor *found = arg_tensor(c, 1);
    for (int64_t k = 0; k < arg_count(c, 0) && !op_failed(); k++) {
        cfx_tensor *g = arg_item(c, 0, k);
        cfx_tensor *bad = cfx_logical_not(cfx_all(cfx_isfinite(g)));
        cfx_value shape = cfx_ints_value(found->ndim, found->shape);
        cfx_copy_(found, cfx_maximum(found, cfx_reshape(cfx_to(bad, cfx_f32), shape)));
        cfx_copy_(g, cfx_mul(g, cfx_reshape(c->args[2], cfx_list_value(0, NULL))));
    }
}

CFX_OP(_amp_update_scale_) = {
    "aten::_amp_update_scale_(Tensor(a!) self, Tensor(b!) growth_tracker, Tensor found_inf, float "
    "scale_growth_factor, float scale_backoff_factor, int growth_interval) -> Tensor(a!)",
    "torch._amp_update_scale_", .kernel = kernel_amp_update_scale_};
CFX_OP(_amp_foreach_non_finite_check_and_unscale_) = {
    "aten::_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] self, Tensor(b!) found_inf, "
    "Tensor inv_scale) -> ()",
    "torch._amp_foreach_non_finite_check_and_unscale_", .decompose = decompose_amp_unscale_};
