/* int8: products of unsigned bytes by signed ones, summed in 32 bits.
 *
 * x = (q - zero) scale for the input, w = q scale for each column of the weights; the sums are
 * exact on every machine, so that results differ from float32's by its rounding alone. */
#ifndef CFX__INT8_H
#define CFX__INT8_H

#include "conv.h"

enum { INT8_ROWS = 6, INT8_COLUMNS = 64 }; /* of a tile, at most */

/* Weights in panels of int8_columns() columns: groups of 4 numbers of one column lie together. */
typedef struct {
    int64_t k, n;     /* as asked for */
    int64_t depth;    /* k rounded up to whole groups: what rows of A have */
    void *panels;
    int32_t *sums;    /* of each column */
} int8_weights;

/* Columns of a panel on this machine. */
int int8_columns(void);
/* Packs w, whose element (i, j) is w[i * row + j * col]; false, with an error, without memory. */
bool int8_pack(int8_weights *to, int64_t k, int64_t n, const int8_t *w, int64_t row, int64_t col);
void int8_weights_free(int8_weights *w);
/* Sums of `rows` rows of A, `stride` bytes apart and `depth` long, by a panel: to c[rows][columns].
 */
void int8_tile(const int8_weights *w, int64_t panel, int rows, const uint8_t *a, int64_t stride,
               int32_t *c);

/* Layers made ready, for epilogues that have `integers`: the input channels last or rows of a
 * matrix, weights and bias real. NULL where there is no kernel for it. */
cfx__ready *int8_conv_ready(const conv *v, const conv_operands *o, const cfx__epilogue *e);
cfx__ready *int8_gemm_ready(const cfx_tensor *x, const cfx_tensor *w, bool w_transposed,
                            const cfx_tensor *bias, const cfx_tensor *out, const cfx__epilogue *e);

#endif
