/* What rows of com.microsoft share: the operators that ONNX Runtime adds to ONNX's, in its
 * quantized and optimized models. They are of the namespace onnx_microsoft. */
#ifndef CFX__OPS_ONNX_MICROSOFT_H
#define CFX__OPS_ONNX_MICROSOFT_H

#include "onnx.h"

/* The result of a call; bad where that failed. */
static inline cfx_tensor *onnx_tensor_of(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : &cfx__tensor_bad;
}

#endif
