/* The numbers of small tensors, briefly. */
#ifndef CFX__FEW_H
#define CFX__FEW_H

#include "tensor.h"

/* Writes the numbers of a tensor that has at most 8, in no more than one dimension: "[0, 8]",
 * "0.5". False, with nothing written, of any other. */
bool cfx__tensor_put_few(cfx__text *out, const cfx_tensor *t);

#endif
