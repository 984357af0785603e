/* What formulas of gradients (the `grad` column) share: reading a call in the backward pass, and
 * steps that many of them take.
 *
 * A formula calls operators only, so that it is traced and differentiated like any other code. What
 * its operator does not save is there as a fake tensor: read its shape and dtype, but never hand it
 * to an operator. */
#ifndef CFX__BACK_H
#define CFX__BACK_H

#include <cfx/ops.h>

#include "ops.h"

/* ---- reading --------------------------------------------------------------------------------- */

static inline cfx_tensor *back_arg(const cfx_back *b, int i) { /* NULL for None */
    return b->args[i].tag == CFX_TAG_TENSOR ? cfx_as_tensor(b->args[i]) : NULL;
}
static inline int64_t back_int(const cfx_back *b, int i) { return cfx_integer(b->args[i]); }
static inline double back_float(const cfx_back *b, int i) { return cfx_number(b->args[i]); }
static inline bool back_bool(const cfx_back *b, int i) { return cfx_integer(b->args[i]) != 0; }
/* A dim argument, wrapped against ndim. The call was good, so it is in range. */
static inline int back_dim(const cfx_back *b, int i, int ndim) {
    return cfx__shape_wrap_dim(b->at, back_int(b, i), ndim);
}

/* Whether gradients of these gradients may be asked for: the calls of the formula are recorded. */
static inline bool back_recorded(void) { return cfx_get_grad_mode() == CFX_GRAD_ON; }

/* ---- giving ---------------------------------------------------------------------------------- */

/* Sets the gradient of argument i; NULL is none. */
static inline void back_give(cfx_back *b, int i, cfx_tensor *grad) {
    b->gin[i] = cfx_tensor_value(grad);
}
/* Sets it where argument i is broadcast in the call: the gradient is summed to its shape. */
void back_give_sum(cfx_back *b, int i, cfx_tensor *grad);

/* Sets it, where it is needed, to number k of `grads`: what an operator of several results gave. */
static inline void back_give_at(cfx_back *b, int i, cfx_value grads, int k) {
    if (b->needs[i])
        b->gin[i] = cfx_at(grads, k);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The tensor that a call gave; the bad one after a failure. */
static inline cfx_tensor *tensor_of(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : &cfx__tensor_bad;
}
/* The sizes of t, which may be fake, as a value. */
static inline cfx_value sizes_of(const cfx_tensor *t) { return cfx_ints_value(t->ndim, t->shape); }
/* Zeros of the shape and dtype of t, which may be fake. */
cfx_tensor *zeros_as(const cfx_tensor *t);
/* The gradient of result i, zeros where none came. */
cfx_tensor *back_gout(const cfx_back *b, int i);
/* t summed over the dims that were broadcast from `shape`: shaped `shape` again. */
cfx_tensor *sum_to(cfx_tensor *t, int ndim, const int64_t *shape);
/* t in the dtype d; t itself where it is that already. A complex gradient of a real argument keeps
 * its real part. */
cfx_tensor *cast_to(cfx_tensor *t, cfx_dtype d);
/* The conjugate of a complex tensor, any other as it is; of any value; transposed. */
static inline cfx_tensor *conj_of(cfx_tensor *t) {
    return t && cfx__dtype_is_complex(t->dtype) ? cfx_conj(t) : t;
}
static inline cfx_value conj_value(cfx_value v) {
    if (v.tag == CFX_TAG_COMPLEX)
        return cfx_complex_value(cfx_as_complex(v)->re, -cfx_as_complex(v)->im);
    return v.tag == CFX_TAG_TENSOR ? cfx_tensor_value(conj_of(cfx_as_tensor(v))) : v;
}
static inline cfx_tensor *adjoint_of(cfx_tensor *t) {
    return conj_of(cfx_transpose(t, -2, -1));
}
/* The real part of a complex tensor, any other as it is. */
static inline cfx_tensor *real_of(cfx_tensor *t) {
    return cfx__dtype_is_complex(t->dtype) ? cfx_real(t) : t;
}
/* The sum of both; either may be NULL. */
static inline cfx_tensor *plus(cfx_tensor *a, cfx_tensor *b) {
    return a && b ? cfx_add(a, b) : a ? a : b;
}
/* The gradient of x where values were chosen along dim, at the places `index`: zero elsewhere. For
 * reductions without keepdim that dim is put back. */
cfx_tensor *place_along(cfx_tensor *grad, const cfx_tensor *x, int dim, cfx_tensor *index,
                        bool keepdim);
/* The gradient of x whose elements that equal `value` (or are NaN as it is) share one. */
cfx_tensor *share_equals(cfx_tensor *grad, cfx_tensor *x, cfx_tensor *value);
/* What backward operators are made of: the gradients that the formula of `of` gives for a call with
 * these arguments and results. `wanted` has a bit for each argument that needs one; gin gets one
 * value for each argument. */
void back_apply(cfx_op_call *c, cfx_op *of, cfx_value *args, int nout, cfx_tensor *const *out,
                cfx_tensor *const *gout, uint32_t wanted, cfx_value *gin);
/* t scaled by a number; t itself where that is 1. */
cfx_tensor *scaled(cfx_tensor *t, cfx_value by);

#endif
