/* kernels: hand-written CUDA C texts, and the launches that perform a piece of work with them.
 *
 * The texts are src/cuda/kernels/NAME.cu; a launch is compiled from its defines, base.cu and its
 * text. Each function below describes the launches for operands of given sizes; arrays are
 * numbers of the caller's operands. It returns false, with nothing added to the work, if the
 * kernel does not support them. Every result has the same bits in every run. Nothing here
 * depends on a card: tests run the texts on the host (tests/play.h). */
#ifndef CFX__CUDA_KERNELS_H
#define CFX__CUDA_KERNELS_H

#include "launch.h"

/* The text of kernels/NAME.cu without its head comment; NULL where there is none. */
const char *cfx__cuda_text(const char *name);

/* What float32 numbers are multiplied as: as they are (on tensor cores each is a sum of two of
 * tf32), or rounded to the nearest of these; sums are float32. Other dtypes are multiplied as they
 * are. */
typedef enum cfx__cuda_precision {
    CFX__CUDA_EXACT,
    CFX__CUDA_TF32,
    CFX__CUDA_F16
} cfx__cuda_precision;

/* What follows a product: a bias for each column, an array of the result's shape, statements over a
 * `float v` ("v = v > 0 ? v : 0;"). An operand below 0 and NULL: none. */
typedef struct cfx__cuda_after {
    cfx__cuda_array bias, add;
    const char *post;
} cfx__cuda_after;

/* out [z, m, n] = x [z, m, k] times w [z, n, k], whose rows lie without gaps; of one dtype:
 * float32, bfloat16 or float16. Arrays of two dimensions have z = 1; w may have one where x has
 * more. */
bool cfx__cuda_product(const cfx__cuda_array *x, const cfx__cuda_array *w,
                       const cfx__cuda_after *after, const cfx__cuda_array *out,
                       cfx__cuda_precision precision, cfx__cuda_work *work);

/* A weight [n, k] whose rows lie one after the other: elements (bits 0), or integers of 8 bits
 * (int8) or 4 (uint8 [n, k / 2], two in a byte, the first in the low bits, each 8 more than it is)
 * with a float32 scale for each `group` of a row; group 0: one for all. */
typedef struct cfx__cuda_weight {
    cfx__cuda_array w, scales;
    int bits;
    int64_t group;
} cfx__cuda_weight;
/* Products of the same x: what one is of. constant: nobody writes to the weight. */
typedef struct cfx__cuda_skinny_part {
    cfx__cuda_weight w;
    cfx__cuda_after after;
    cfx__cuda_array out;
    bool constant;
} cfx__cuda_skinny_part;
enum { CFX__CUDA_SKINNY_PARTS = 4, CFX__CUDA_BEFORE = 6 };
/* How every block makes x for itself: a function, which is given arrays, and is called for numbers
 * below `count` by all threads, or by the one thread that a number is for (apart). */
typedef struct cfx__cuda_before {
    const char *text, *function;
    int n, out; /* arrays; which of them is x */
    cfx__cuda_array arrays[CFX__CUDA_BEFORE + 1];
    int64_t constant[CFX__CUDA_BEFORE + 1]; /* bytes of those that nobody writes; else 0 */
    int64_t count, bytes;                   /* of x */
    bool apart;
} cfx__cuda_before;
/* The same product for up to 16 rows of x [m, k], bound by reading the weight once: for 8 rows at a
 * time, with up to 4 weights of one kind in one launch. Where x is float32 the weights may be
 * bfloat16 or float16 too. before: NULL, or what makes x, for up to 8 rows. */
bool cfx__cuda_skinny(const cfx__cuda_array *x, const cfx__cuda_before *before, int nparts,
                      const cfx__cuda_skinny_part *parts, cfx__cuda_precision precision,
                      cfx__cuda_work *work);

/* A convolution in two dimensions: x [batch, c, h, w] and out lie in channels-last by their
 * strides, w [o, c / groups, h, w] too. */
typedef struct cfx__cuda_window {
    int64_t stride[2], padding[2], dilation[2], groups;
} cfx__cuda_window;
bool cfx__cuda_conv(const cfx__cuda_array *x, const cfx__cuda_array *w,
                    const cfx__cuda_window *window, const cfx__cuda_after *after,
                    const cfx__cuda_array *out, cfx__cuda_precision precision,
                    cfx__cuda_work *work);

/* The same where each channel has a window of its own (groups == c; o is a multiple of c), for
 * arrays that lie in any way; without `add`. */
bool cfx__cuda_depthwise(const cfx__cuda_array *x, const cfx__cuda_array *w,
                         const cfx__cuda_window *window, const cfx__cuda_after *after,
                         const cfx__cuda_array *out, cfx__cuda_work *work);

/* softmax(q k' scale + mask) v: q [b, h, l, d], k [b, g, s, d], v [b, g, s, e], where g divides h;
 * rows of d and e elements lie without gaps. mask: bytes that say what is seen (bool), or numbers
 * that are added; broadcast to [b, h, l, s] by strides of 0. causal: row i sees keys up to i +
 * offset. lse: float32 [b, h, l], the logarithms of the sums. mask and lse: an operand below 0 is
 * none. */
typedef struct cfx__cuda_attention_call {
    cfx__cuda_array q, k, v, mask, out, lse;
    double scale;
    bool causal;
    int64_t offset;
    cfx__cuda_precision precision;
} cfx__cuda_attention_call;
bool cfx__cuda_attention(const cfx__cuda_attention_call *call, cfx__cuda_work *work);

/* One layer of a recurrent network in one direction: 4 gates are an LSTM, 3 a GRU, 1 tanh (or
 * relu). x [steps, batch, size] and out [steps, batch, hidden] lie by their strides, with elements
 * of a row beside each other; wih [gates * hidden, size], whh [gates * hidden, hidden], biases
 * [gates * hidden] or none; h, c [batch, hidden]: the states before, none: zeros; hn, cn: those
 * after. All of one dtype. The launches are two: what x gives, and all steps in one, where each
 * block keeps its rows of whh and waits for the others' part of a state. */
typedef struct cfx__cuda_recurrent_call {
    cfx__cuda_array x, wih, whh, bih, bhh, h, c, out, hn, cn;
    int gates;
    bool relu, reverse;
    cfx__cuda_precision precision;
} cfx__cuda_recurrent_call;
bool cfx__cuda_recurrent(const cfx__cuda_recurrent_call *call, cfx__cuda_work *work);

/* ---- moving, ordering, windows ---------------------------------------------------------- */

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

#endif
