/* Default decompositions of losses. */
#include "core.h"

#include <cfx/ops.h>

#include "../sizes.h"

#define T arg_tensor(c, 0)

/* Argument i says how a loss is reduced. */
static void reduced(cfx_op_call *c, cfx_tensor *loss, int i) {
    int64_t how = arg_int(c, i);
    loss = how == 1 ? DO(mean, loss) : how == 2 ? DO(sum, loss) : loss;
    c->out[0] = core_to(c, loss, arg_result_type(c, 2));
}

/* What is predicted less what it should be, both in the dtype of both: a bool is none to subtract.
 */
static cfx_tensor *apart(cfx_op_call *c, bool wide) {
    cfx_dtype both = arg_result_type(c, 2), d = wide ? core_wide_dtype(both) : both;
    cfx_tensor *x = core_to(c, T, d), *y = core_to(c, arg_tensor(c, 1), d);
    return DO(sub_Tensor, x, y);
}

CORE(mse_loss) { reduced(c, DO(pow_Tensor_Scalar, apart(c, true), 2), 2); }

CORE(huber_loss) {
    double delta = arg_float(c, 3);
    cfx_tensor *z = DO(abs, apart(c, false));
    cfx_tensor *near_it = DO(lt_Scalar, z, delta);
    cfx_tensor *square = DO(mul_Tensor, DO(mul_Tensor, z, 0.5), z);
    cfx_tensor *line = DO(mul_Tensor, DO(sub_Tensor, z, 0.5 * delta), delta);
    reduced(c, DO(where_self, near_it, square, line), 2);
}

CORE(smooth_l1_loss) {
    double beta = arg_float(c, 3);
    cfx_tensor *z = DO(abs, apart(c, true));
    if (beta == 0) {
        reduced(c, z, 2);
        return;
    }
    cfx_tensor *near_it = DO(lt_Scalar, z, beta);
    cfx_tensor *square =
        DO(div_Tensor, DO(mul_Tensor, DO(pow_Tensor_Scalar, z, 2), 0.5), beta);
    reduced(c, DO(where_self, near_it, square, DO(sub_Tensor, z, 0.5 * beta)), 2);
}

CORE(binary_cross_entropy) {
    cfx_tensor *x = core_wide(c, 0), *y = core_wide(c, 1), *w = core_wide(c, 2);
    cfx_value floor = cfx_list_value(0, NULL);
    cfx_tensor *less = DO(sub_Tensor, y, 1), *log_rest = DO(log1p, DO(neg, x));
    cfx_tensor *a = DO(mul_Tensor, less, DO(maximum, log_rest, DO(new_full, x, floor, -100)));
    cfx_tensor *b = DO(maximum, DO(log, x), DO(new_full, x, floor, -100));
    cfx_tensor *loss = DO(sub_Tensor, a, DO(mul_Tensor, y, b));
    reduced(c, w ? DO(mul_Tensor, loss, w) : loss, 3);
}

/* self, target, weight, pos_weight, reduction */
CORE(binary_cross_entropy_with_logits) {
    cfx_tensor *x = T, *y = arg_tensor(c, 1), *w = arg_tensor(c, 2), *more = arg_tensor(c, 3);
    cfx_tensor *share = NULL;
    if (more)
        share = DO(add_Tensor, DO(mul_Tensor, DO(sub_Tensor, more, 1), y), 1);
    cfx_tensor *rest = DO(mul_Tensor, DO(rsub_Scalar, y, 1), x);
    cfx_tensor *log = cfx_tensor_at(DO_ALL(log_sigmoid_forward, x), 0);
    cfx_tensor *loss = DO(sub_Tensor, rest, more ? DO(mul_Tensor, share, log) : log);
    reduced(c, w ? DO(mul_Tensor, loss, w) : loss, 4);
}

/* self, target, weight, reduction, ignore_index: what each target picks, 0 where it is ignored. */
CORE(nll_loss_forward) {
    cfx_tensor *x = T, *y = arg_tensor(c, 1), *w = arg_tensor(c, 2);
    int dim = x->ndim < 2 ? 0 : 1;
    int64_t how = arg_int(c, 3), shape[CFX_MAX_DIMS];
    cfx_value ignored = c->args[4];
    if (w && x->ndim > 1) {
        for (int i = 0; i < x->ndim; i++)
            shape[i] = i == dim ? w->shape[0] : 1;
        w = DO(view, w, cfx_ints_value(x->ndim, shape));
    }
    if (w)
        x = DO(mul_Tensor, x, w);
    cfx_tensor *safe = DO(where_ScalarOther, DO(ne_Scalar, y, ignored), y, 0);
    safe = DO(unsqueeze, safe, dim);
    cfx_tensor *loss = DO(neg, DO(squeeze_dim, DO(gather, x, dim, safe), dim));
    loss = DO(where_ScalarOther, DO(ne_Scalar, y, ignored), loss, 0);
    if (how == 0 && x->ndim > 1) {
        c->out[0] = loss;
        c->out[1] = DO(new_full, x, cfx_list_value(0, NULL), 0.0);
        return;
    }
    if (w) {
        cfx_tensor *all = DO(expand, w, size_list(x));
        all = DO(squeeze_dim, DO(gather, all, dim, safe), dim);
        c->out[1] = DO(sum, DO(where_ScalarOther, DO(ne_Scalar, y, ignored), all, 0));
    } else {
        c->out[1] = DO(_to_copy, DO(sum, DO(ne_Scalar, y, ignored)),
                       CFX_KW(dtype, cfx_dtype_value((cfx_dtype)x->dtype)),
                       CFX_KW(device, cfx_device_value(x->device)));
    }
    if (how != 0)
        loss = DO(sum, loss);
    c->out[0] = how == 1 ? DO(div_Tensor, loss, c->out[1]) : loss;
}

CORE(soft_margin_loss) {
    cfx_tensor *x = core_wide(c, 0), *y = core_wide(c, 1);
    reduced(c, DO(log1p, DO(exp, DO(mul_Tensor, DO(neg, x), y))), 2);
}

/* 0, 1, … n - 1 on the device of t. */
static cfx_tensor *counted(cfx_op_call *c, cfx_value n, const cfx_tensor *t) {
    return DO(arange, n, CFX_KW(device, cfx_device_value(t->device)), CFX_KW(pin_memory, false));
}

/* self, target, p, margin, weight, reduction */
CORE(multi_margin_loss) {
    cfx_tensor *x = DO(atleast_2d, T), *y = DO(atleast_1d, arg_tensor(c, 1));
    cfx_tensor *w = arg_tensor(c, 4);
    int64_t how = arg_int(c, 5);
    y = DO(unsqueeze, y, 1);
    cfx_tensor *z = DO(rsub_Scalar, DO(gather, x, 1, y), c->args[3]);
    z = DO(clamp_min, DO(add_Tensor, z, x), 0);
    if (cfx_number(c->args[2]) != 1)
        z = DO(mul_Tensor, z, z);
    if (w)
        z = DO(mul_Tensor, z, DO(index_Tensor, DO(atleast_1d, w), cfx_list(y)));
    if (op_failed())
        return;
    z = DO(where_ScalarOther, DO(ne_Tensor, counted(c, size_of(x, 1), x), y), z, 0);
    c->out[0] = how == 1   ? DO(mean, z)
                : how == 2 ? DO(div_Scalar, DO(sum, z), size_of(x, 1))
                           : DO(mean_dim, z, cfx_list(1));
}

/* self, target, reduction: labels count up to the first -1. */
CORE(multilabel_margin_loss_forward) {
    cfx_tensor *t = T, *x = DO(atleast_2d, t), *y = DO(atleast_2d, arg_tensor(c, 1));
    int64_t how = arg_int(c, 2), last = -1;
    if (op_failed())
        return;
    cfx_value n = size_of(x, 1);
    cfx_tensor *index = counted(c, n, y);
    cfx_tensor *end = DO(where_ScalarOther, DO(eq_Scalar, y, -1), index, n);
    end = DO(amin, end, cfx_list(last), true);
    cfx_tensor *label = DO(lt_Tensor, index, end);
    cfx_tensor *at = DO(gather, x, -1, DO(where_ScalarOther, label, y, 0));
    cfx_tensor *named = DO(unsqueeze, DO(where_ScalarOther, label, y, -1), -1);
    cfx_tensor *is = DO(any_dim, DO(eq_Tensor, index, named), 1);
    cfx_tensor *z = DO(rsub_Scalar, DO(unsqueeze, DO(t, at), -1), 1.0);
    z = DO(div_Tensor, DO(clamp_min, DO(add_Tensor, z, x), 0), n);
    z = DO(where_ScalarSelf, is, 0, z);
    z = DO(where_ScalarOther, DO(unsqueeze, DO(t, label), -1), z, 0);
    z = how == 2 ? DO(sum, z) : DO(sum_dim_IntList, z, cfx_list(0, last));
    c->out[0] = how == 1 ? DO(mean, z) : z;
    c->out[1] = DO(reshape, core_to(c, is, t->dtype), size_list(arg_tensor(c, 1)));
}
