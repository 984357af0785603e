/* transpose: matrices of floats turned over, as packing and changes of layout want them. */
#ifndef CFX__TRANSPOSE_H
#define CFX__TRANSPOSE_H

#include "../ops.h"

/* out[j, i] = in[i, j] for floats; distances between rows in elements. On the threads allowed. */
void transpose_f32(int64_t rows, int64_t cols, const float *in, int64_t in_row, float *out,
                   int64_t out_row);

#endif
