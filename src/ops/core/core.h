/* The default decompositions: what PyTorch's run_decompositions() makes of operators that dispatch
 * modes see whole. CORE(name) {...} is what a row's core column names, core_name: PyTorch's own
 * sequence of calls, so that the nodes come out the same; it need not be how the operator is
 * computed here. Composite operators have theirs in the decompose column. A result of another dtype
 * than the operator gives, as of one that computes halves in float32, is converted at the end. */
#ifndef CFX__CORE_H
#define CFX__CORE_H

#include "../ops.h"

/* Calls one overload: DO(add_Tensor, x, 1). */
#define DO(name, ...) core_do(c, &cfx_op_##name, CFX_ARGS(__VA_ARGS__))
cfx_tensor *core_do(cfx_op_call *c, cfx_op *op, cfx_args a);
/* The same for operators that give several results. */
#define DO_ALL(name, ...) cfx_op_do_from(c->at, &cfx_op_##name, CFX_ARGS(__VA_ARGS__))

/* x.to(dtype): x itself where it has it already. */
cfx_tensor *core_to(cfx_op_call *c, cfx_tensor *x, cfx_dtype dtype);
/* Argument i as operators that round less compute with it: halves in float32, complex32 in
 * complex64. */
cfx_tensor *core_wide(cfx_op_call *c, int i);
cfx_dtype core_wide_dtype(cfx_dtype d);
/* Whether an argument is this real number: a complex one has no imaginary part then. */
bool core_number_is(cfx_value v, double real);
/* Number i where kernels take real ones alone: 1+0j, which they read as 1, would make others
 * complex. */
cfx_value core_real_number(const cfx_op_call *c, int i);
/* A number as a tensor of dtype d has it, where it leaves its range: infinite, 0, wrapped, or
 * without the fraction where d is whole. What is only rounded stays as it is written. */
cfx_value core_fitting(cfx_value number, cfx_dtype d);
/* x where the condition does not hold, else the number, fitted to the dtype of both. */
cfx_tensor *core_chosen(cfx_op_call *c, cfx_tensor *condition, cfx_value number, cfx_tensor *x);
#define CORE(name) void core_##name(cfx_op_call *c)

#endif
