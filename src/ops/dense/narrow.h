/* narrow: products of float32 by weights of 8 or of 4 bits, which are unpacked in registers.
 *
 * Weights lie in panels of tile_width() columns, so that a kernel reads a panel from end to end. Of
 * 8 bits: row after row, a byte for each column. Of 4: eight rows at a time, a word of 32 bits for
 * each column with its eight numbers, the first in the lowest bits. Every `group` rows of a column
 * share a scale. A few rows of A are multiplied as weights are unpacked; for more, a panel is
 * unpacked to float32 in the cache and the kernels of tile.h multiply it. */
#ifndef CFX__NARROW_H
#define CFX__NARROW_H

#include "gemm.h"
#include "tile.h"

enum { NARROW_ROWS = 8 }; /* of A that are few, at most */

/* Panels of a k by n matrix. */
typedef struct narrow_panels {
    int bits;
    int64_t k, n, group;
    const void *numbers;
    const float *scales; /* [panels][k / group][tile_width()] */
} narrow_panels;

/* Whether there are kernels for such weights. */
bool narrow_takes(const cfx__narrow *w);
/* The panels of a weight, kept with the storage of its integers; `form` is counted and has their
 * data. False, with an error, when there is no memory. */
bool narrow_pack(const cfx__narrow *w, narrow_panels *to, cfx__packed **form);
/* c [rows][tile_width()] = `rows` rows of A, `row` elements apart, times a panel; NARROW_ROWS at
 * most. */
void narrow_tile(const narrow_panels *p, int64_t panel, int rows, const float *a, int64_t row,
                 float *c);
/* Rows [at, at + length) of a panel as float32: to[length][tile_width()]. `at` begins a group, or
 * a word of numbers. */
void narrow_unpack(const narrow_panels *p, int64_t panel, int64_t at, int64_t length, float *to);
/* Column j of the matrix as float32. */
void narrow_column(const narrow_panels *p, int64_t j, float *to);

/* Products whose epilogue has a narrow weight in place of l->w. */
bool narrow_gemm_takes(const product_layer *l, const cfx__epilogue *e);
cfx__ready *narrow_gemm_ready(const product_layer *l, const cfx__epilogue *e);

#endif
