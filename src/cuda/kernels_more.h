/* kernels: what moves elements, orders them, and draws them. See kernels.h. */
#ifndef CFX__CUDA_KERNELS_MORE_H
#define CFX__CUDA_KERNELS_MORE_H

#include "kernels.h"

enum { CFX__CUDA_INDEXES = 3, CFX__CUDA_DIMS = 5 };

/* Elements whose places are told by others. `size` are the dimensions in which they are counted,
 * and all strides step through them, 0 where a dimension is not one of theirs. x is what has the
 * places: its element at x_stride and, for each index, told * step, where told is below `most`. y
 * has the others. gather along d: size of the index, x_stride 0 at d, one index with x's size and
 * stride at d. x[i, :, j]: two indexes. embedding: size [n, width]. */
typedef struct cfx__cuda_index {
    cfx__cuda_array array; /* int64 or int32; its strides are those below */
    int64_t stride[CFX__CUDA_DIMS], most, step;
} cfx__cuda_index;
typedef enum cfx__cuda_index_way {
    CFX__CUDA_TAKE, /* y = x at the places */
    CFX__CUDA_PUT,  /* x at the places = y; of those for one place the last counts */
    CFX__CUDA_ADD   /* x at the places += y, in order */
} cfx__cuda_index_way;
typedef struct cfx__cuda_index_call {
    cfx__cuda_array x, y; /* of one dtype; shapes are not read */
    int ndim;
    int64_t size[CFX__CUDA_DIMS], x_stride[CFX__CUDA_DIMS], y_stride[CFX__CUDA_DIMS];
    int n;
    cfx__cuda_index index[CFX__CUDA_INDEXES];
    bool wrap; /* an index below 0 counts from the end */
    cfx__cuda_index_way way;
} cfx__cuda_index_call;
bool cfx__cuda_index_elements(const cfx__cuda_index_call *call, cfx__cuda_work *work);

/* Windows of images x [b, c, h, w] to out, in any order of memory; float32, bfloat16, float16.
 * indices (max alone): int64, lies as out does; an operand below 0 is none. */
typedef struct cfx__cuda_pool_call {
    cfx__cuda_array x, out, indices;
    bool max, adaptive, count_padding;
    int64_t kernel[2], stride[2], padding[2], dilation[2], divisor;
} cfx__cuda_pool_call;
bool cfx__cuda_pool(const cfx__cuda_pool_call *call, cfx__cuda_work *work);

/* An image at another size: nearest, or between pixels. scale: of the input to the output, 0: as
 * the sizes say. */
typedef struct cfx__cuda_upsample_call {
    cfx__cuda_array x, out;
    bool linear, align_corners, exact; /* exact: nearest to a pixel's middle */
    double scale[2];
} cfx__cuda_upsample_call;
bool cfx__cuda_upsample(const cfx__cuda_upsample_call *call, cfx__cuda_work *work);

/* Sums or products of all elements up to each, along `dim`; x and out are of one shape and dtype:
 * floats, int64 or int32. */
bool cfx__cuda_scan(const cfx__cuda_array *x, const cfx__cuda_array *out, int dim, bool product,
                    cfx__cuda_work *work);

/* The elements along `dim` in order, stable, the first out->shape[dim] of them: values (x's dtype)
 * and where they were (int64); either may be left out by an operand below 0. Floats and integers.
 */
bool cfx__cuda_sort(const cfx__cuda_array *x, const cfx__cuda_array *values,
                    const cfx__cuda_array *indices, int dim, bool descending,
                    cfx__cuda_work *work);

/* Where along `dim` the largest (or least) element stands, and which it is; the results lie without
 * gaps and have no such dimension. Floats. */
bool cfx__cuda_extreme(const cfx__cuda_array *x, const cfx__cuda_array *values,
                       const cfx__cuda_array *indices, int dim, bool least, cfx__cuda_work *work);

/* Numbers as PyTorch's kernels for CUDA draw them on a card of `sms` multiprocessors, each with
 * 2048 threads: floats of an array without gaps. state: the seed and the offset of the generator,
 * two uint64 on the card; `further` is added to the offset. A multiple of 4 by which the offset
 * grows is the result; 0: not taken. */
typedef enum cfx__cuda_draw {
    CFX__CUDA_UNIFORM,  /* in [a, b) */
    CFX__CUDA_NORMAL,   /* mean a, deviation b */
    CFX__CUDA_BERNOULLI /* 1 with probability a */
} cfx__cuda_draw;
int64_t cfx__cuda_random(const cfx__cuda_array *out, cfx__cuda_draw draw, double a, double b,
                         int state, int64_t further, int sms, cfx__cuda_work *work);

#endif
