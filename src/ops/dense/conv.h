/* conv: convolutions of 1, 2 and 3 dimensions.
 *
 * Everything is told of the direct convolution src -> dst: a transposed one computes src from dst,
 * with the weights as they are, and so does the gradient of the input. Arrays of sizes have three
 * entries; with fewer dimensions the leading ones are 1 (and padding 0). */
#ifndef CFX__CONV_H
#define CFX__CONV_H

#include "../ready.h"
#include "gemm.h"

typedef struct {
    int64_t dims; /* 1, 2, 3 */
    int64_t batch, groups;
    int64_t ic, oc; /* channels of src and dst, of all groups together */
    int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
    int64_t batches; /* of layers: 1 where there will be others of the same weights */
} conv;

/* What to compute; the other two operands are given. */
typedef enum { CONV_DST, CONV_SRC, CONV_WEIGHTS } conv_what;

/* The operands, dtype float32, float64, int64 or complex: src and dst contiguous or both in
 * channels last order, weights contiguous; bias (dst only) contiguous or NULL. */
typedef struct {
    conv_what what;
    cfx_tensor *src, *weights, *bias, *dst;
} conv_operands;

/* Computes; an error where memory cannot be had. */
void conv_run(cfx_op_call *c, const conv *v, const conv_operands *o);
/* The parts: by oneDNN (float32; false when it cannot), by products of matrices (any dtype,
 * contiguous operands), channel by channel (float32, contiguous, one channel a group; dst only). */
#ifdef CFX_DNN
bool conv_onednn(cfx_op_call *c, const conv *v, const conv_operands *o);
#else
static inline bool conv_onednn(cfx_op_call *c, const conv *v, const conv_operands *o) {
    return (void)c, (void)v, (void)o, false;
}
#endif
void conv_gemm(cfx_op_call *c, const conv *v, const conv_operands *o);
bool conv_depthwise(cfx_op_call *c, const conv *v, const conv_operands *o);
/* By kernels of our own (float32, dst only; false when there is none for it). */
bool conv_tiled(cfx_op_call *c, const conv *v, const conv_operands *o);
/* Whether a kernel of our own computes a layer: float32 operands, dst channels last, weights and
 * bias real; and that kernel, made ready. */
bool conv_takes(const conv *v, const conv_operands *o, const cfx__epilogue *e);
struct cfx__ready *conv_ready(const conv *v, const conv_operands *o, const cfx__epilogue *e);
/* By single points, one product an image (float32, contiguous; false when it is not such). */
bool conv_points(cfx_op_call *c, const conv *v, const conv_operands *o);

/* The geometry of a call of convolution with these arguments, checked as PyTorch checks. False with
 * its message. On success `shape` is the result's. */
typedef struct {
    const cfx_tensor *input, *weight, *bias;
    int stride, padding, dilation, transposed, output_padding, groups; /* numbers of arguments */
} conv_args;
bool conv_geometry(cfx_op_call *c, const conv_args *a, conv *v, int64_t *shape);
/* Strides of the result of a convolution of these: channels last where either is. */
cfx_memory_format conv_format(const cfx_tensor *input, const cfx_tensor *weight);

/* Floating-point operations where weights (sizes out, in, kernel...) are laid on `places` (sizes
 * batch, channels, places...) for each of `batch`. */
int64_t conv_flops(const int64_t *weight, const int64_t *places, int ndim, int64_t batch);
/* The flops column of convolution and of its older form, whose arguments begin the same. */
cfx_flops_fn flops_convolution;

#endif
