/* functional: what the rows of torch.nn.functional share. */
#ifndef CFX__FUNCTIONAL_H
#define CFX__FUNCTIONAL_H

#include "../ops.h"

#define FUNCTIONAL(id) .decompose = functional_##id, .effects = CFX_COMPOSITE
/* One that draws numbers, where it has an argument `training` only if that is true. */
#define DRAWING(id) .decompose = functional_##id, .effects = CFX_COMPOSITE | CFX_RANDOM

/* A function that only orders its arguments otherwise than the operator it ends in: they go by
 * their names (the first by its place), `reduction` from word to number, `inplace` to the in-place
 * form; what the function does not have keeps the operator's default. */
void functional_derived(cfx_op_call *c);
#define DERIVED(op)                                                                                \
    .decompose = functional_derived, .row = &cfx_op_##op, .effects = CFX_COMPOSITE

/* The number of a reduction: from argument i, a word, or from the older size_average and reduce,
 * where `reduce` is their place and not 0. -1, with PyTorch's message, where it is none. */
enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };
int64_t functional_reduction(cfx_op_call *c, int size_average, int reduce, int i);

#endif
