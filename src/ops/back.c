/* Steps that formulas of gradients share: undoing a broadcast, zeros where no gradient came. */
#include "back.h"

cfx_tensor *zeros_as(const cfx_tensor *t) {
    return cfx_zeros(sizes_of(t), CFX_KW(dtype, cfx_dtype_value((cfx_dtype)t->dtype)));
}

cfx_tensor *back_gout(const cfx_back *b, int i) {
    return b->gout[i] ? b->gout[i] : zeros_as(b->out[i]);
}

cfx_tensor *sum_to(cfx_tensor *t, int ndim, const int64_t *shape) {
    if (cfx__obj_is_bad(t))
        return t;
    int64_t dims[CFX_MAX_DIMS], n = 0;
    const int lead = t->ndim - ndim;
    for (int i = 0; i < t->ndim; i++)
        if (i < lead || (shape[i - lead] == 1 && t->shape[i] != 1))
            dims[n++] = i;
    if (!n)
        return t;
    t = cfx_sum(t, cfx_ints_value(n, dims), cfx_bool(true));
    return lead ? cfx_view(t, cfx_ints_value(ndim, shape)) : t;
}

cfx_tensor *cast_to(cfx_tensor *t, cfx_dtype d) {
    if (cfx__obj_is_bad(t) || t->dtype == d)
        return t;
    if (cfx__dtype_is_complex((cfx_dtype)t->dtype) && !cfx__dtype_is_complex(d))
        t = cfx_real(t);
    return t->dtype == d ? t : cfx_to(t, cfx_dtype_value(d));
}

void back_give_sum(cfx_back *b, int i, cfx_tensor *grad) {
    const cfx_tensor *x = back_arg(b, i);
    if (!x || !b->needs[i])
        return;
    back_give(b, i, cast_to(sum_to(grad, x->ndim, x->shape), (cfx_dtype)x->dtype));
}

/* Whether t, where there is one, has the shape of what the operator gives. */
static bool in_shape_of(cfx_op_call *c, const cfx_tensor *t, const cfx_tensor *given) {
    if (!t || (t->ndim == given->ndim &&
               !memcmp(t->shape, given->shape, (size_t)t->ndim * sizeof *t->shape)))
        return true;
    op_fail(c, "%s: expected a tensor of shape %s but got %s", op_title(c),
            cfx__shape_text(given->ndim, given->shape), cfx__shape_text(t->ndim, t->shape));
    return false;
}

/* Whether the operator could have been called so, and could have given these results: formulas rely
 * on what its shape rule has looked at. */
static bool could_be_called(cfx_op_call *c, cfx_op *of, const cfx_value *args, int nout,
                            cfx_tensor *const *out, cfx_tensor *const *gout) {
    cfx_value fakes[CFX_MAX_ARGS];
    for (int i = 0; i < cfx__op_info_of(of)->schema->nargs; i++) {
        const cfx_tensor *t = args[i].tag == CFX_TAG_TENSOR ? cfx_as_tensor(args[i]) : NULL;
        fakes[i] = t ? cfx_tensor_value(cfx__tensor_faked(t)) : args[i];
    }
    cfx_value made = op_failed() ? cfx_bad() : cfx__op_run(c->at, of, fakes);
    for (int i = 0; i < nout && !op_failed(); i++) {
        const cfx_tensor *t = nout == 1 ? cfx_as_tensor(made) : cfx_tensor_at(made, i);
        if (!in_shape_of(c, out[i], t) || !in_shape_of(c, gout[i], t))
            return false;
    }
    return !op_failed();
}

void back_apply(cfx_op_call *c, cfx_op *of, cfx_value *args, int nout, cfx_tensor *const *out,
                cfx_tensor *const *gout, uint32_t wanted, cfx_value *gin) {
    bool needs[CFX_MAX_ARGS];
    int nargs = cfx__op_info_of(of)->schema->nargs;
    for (int i = 0; i < nargs; i++) {
        needs[i] = wanted >> i & 1;
        gin[i] = cfx_none();
    }
    if (!could_be_called(c, of, args, nout, out, gout))
        return;
    cfx_back b = {of, c->at, nargs, args, nout, out, gout, needs, gin};
    of->grad(&b);
}

cfx_tensor *scaled(cfx_tensor *t, cfx_value by) {
    bool one = by.tag != CFX_TAG_COMPLEX && cfx_is_number(by) && cfx_number(by) == 1;
    return one ? t : cfx_mul(t, by);
}

cfx_tensor *place_along(cfx_tensor *grad, const cfx_tensor *x, int dim, cfx_tensor *index,
                        bool keepdim) {
    if (!x->ndim)
        return grad;
    if (!keepdim) {
        grad = cfx_unsqueeze(grad, dim);
        index = cfx_unsqueeze(index, dim);
    }
    return cfx_scatter(zeros_as(x), dim, index, grad);
}

cfx_tensor *share_equals(cfx_tensor *grad, cfx_tensor *x, cfx_tensor *value) {
    cfx_tensor *both_nan = cfx_logical_and(cfx_isnan(x), cfx_isnan(value));
    cfx_tensor *equal = cfx_logical_or(cfx_eq(x, value), both_nan);
    return cfx_mul(equal, cfx_div(grad, cfx_sum(equal)));
}
