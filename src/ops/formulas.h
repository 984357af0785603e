/* The gradient column: what a row says, and the formulas that rows of several files name. They are
 * written in the files *_back.c, by what they differentiate. */
#ifndef CFX__FORMULAS_H
#define CFX__FORMULAS_H

#include <cfx/op.h>

/* A row's gradient: grad_NAME, and whose numbers it reads, READ(0) | RESULT(0) or 0 for none. */
#define GRAD(name, reads) .grad = grad_##name, .saves = reads
#define READ(i) CFX_SAVE_ARG(i)
#define RESULT(i) CFX_SAVE_OUT(i)
/* Nothing flows back: what is made does not depend on the numbers of the arguments. */
#define NO_GRAD .grad = cfx__grad_none

/* arith_back.c */
cfx_grad_fn grad_add, grad_sub, grad_rsub, grad_mul, grad_div, grad_div_mode, grad_remainder,
    grad_fmod, grad_addcmul, grad_addcdiv, grad_neg, grad_same, grad_reciprocal,
    grad_abs, grad_zero;
/* view_back.c */
cfx_grad_fn grad_as_strided, grad_copy_;
/* reduce_back.c */
cfx_grad_fn grad_sum, grad_sum_dim;

#endif
