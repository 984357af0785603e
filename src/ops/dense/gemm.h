/* gemm: products of matrices.
 *
 * Single precision goes over weights in panels where a factor stays (tile.h); where not, over
 * panels that are packed on the way or, where the product is large, to oneDNN. Double precision and
 * integers have tiles of their own (gemm.inc); complex products are four real ones. Products too
 * small to be worth packing are plain loops. The work is cut here, for the pool. */
#ifndef CFX__GEMM_H
#define CFX__GEMM_H

#include "../ops.h"
#include "../ready.h"

/* Dtypes that products are computed in. */
#define GEMM_DTYPES (CFX_IN_NUMBER | CFX_IN(C64) | CFX_IN(C128))

/* Matrices of one batch: element (b, i, j) is data[b * batch + i * row + j * col]; where batches do
 * not lie evenly, data[at[b] + i * row + j * col]. */
typedef struct {
    char *data;
    int64_t batch, row, col;
    const int64_t *at; /* NULL: evenly */
} matrices;

/* C = beta C + alpha A B for each of `batch`; A is m by k, B is k by n. With beta 0 what C held is
 * not looked at. C's columns are adjacent (col is 1). */
typedef struct {
    cfx_dtype dtype; /* one of GEMM_DTYPES */
    int64_t batch, m, n, k;
    cfx_value alpha, beta;
    matrices a, b, c;
} gemm;

/* Does it. False, with an error, when there is no memory for it. */
bool gemm_run(gemm *g);

/* The same over weights that are kept in panels (tile.h): float32, one matrix, alpha 1, C
 * overwritten, B in the memory of `weights`; bias (n) is added. False when nothing was done. */
bool gemm_packed(const gemm *g, const cfx_tensor *weights, const cfx_tensor *bias);

/* out [m, n] = x [m, k] w [k, n] + b [n] as a layer: x may be fake, weights and bias are real (bias
 * NULL: none). Whether there is a kernel for it, and that kernel; the caller owns a count. */
typedef struct product_layer {
    const cfx_tensor *x, *w, *bias, *out;
    bool w_transposed; /* w is [n, k] */
} product_layer;
bool gemm_takes(const product_layer *l, const cfx__epilogue *e);
cfx__ready *gemm_ready(const product_layer *l, const cfx__epilogue *e);

/* out [m, n] = x w' + b for m rows of x, `row` elements apart, w [n, k] and b [n] or NULL; all of
 * one dtype of GEMM_DTYPES, out contiguous. Weights met again are kept in panels, for a single row
 * where the caller says that they are. */
void linear_run(int64_t m, void *x, int64_t row, const cfx_tensor *w, const cfx_tensor *b,
                cfx_tensor *out, bool again);

/* The last two dims of t as rows and columns, the one before as batch (fewer dims: as if 1). */
matrices matrices_of(const cfx_tensor *t);
static inline matrices transposed(matrices m) {
    return (matrices){m.data, m.batch, m.col, m.row, m.at};
}

/* Results shaped as the operator's decomposition shapes them: it runs on fake arguments. For the
 * rarer forms of composite operators; errors are then those of its parts. */
void out_as_composed(cfx_op_call *c);

/* Sums of products of n pairs; strides in elements. The dtypes are those of gemm. */
void gemm_dot(cfx_dtype dtype, int64_t n, const void *x, int64_t sx, const void *y, int64_t sy,
              bool conjugate, void *out);

/* How PyTorch's messages about products and convolutions call a dtype: "long" is short there. */
const char *gemm_cpp_name(cfx_dtype d);

#endif
