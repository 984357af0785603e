/* quant: what the files of this folder share. */
#ifndef CFX__OPS_QUANT_H
#define CFX__OPS_QUANT_H

#include <cfx/ops.h>

#include "../ops.h"

/* Floats quantized by the range that they have; half of the integers where `reduce`. */
cfx_tensor *quant_dynamic(cfx_op_call *c, cfx_tensor *x, cfx_dtype dtype, bool reduce);

/* The columns of quantize_per_tensor as a layer. */
cfx_takes_fn takes_rounded;
cfx_make_fn make_rounded;

/* A copy with data of its own, or a fake one; scope. */
static inline cfx_tensor *tensor_copy(const cfx_tensor *t) {
    return cfx_clone((cfx_tensor *)t);
}

#endif
