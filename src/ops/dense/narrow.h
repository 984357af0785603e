/* narrow: products of float32 by weights of 8 or of 4 bits, which are unpacked in registers.
 *
 * Weights lie in panels of tile_width() columns, so that a kernel reads a panel from end to end:
 * four rows at a time (of 4 bits: eight) a word of 32 bits for each column with its numbers, the
 * first in the lowest bits. Every `group` rows of a column share a scale. A few rows of A are
 * multiplied as weights are unpacked; for more, a panel is unpacked to float32 in the cache and the
 * kernels of tile.h multiply it.
 *
 * Where the program rounds A to int8 in blocks, sums of a block are whole numbers: the machine's
 * dot products of bytes make them (narrow_dots), and for many rows a panel is unpacked to bytes. */
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

/* Where a panel's numbers begin. */
const char *narrow_panel_at(const narrow_panels *p, int64_t panel);
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

/* ---- inputs in int8 -------------------------------------------------------------------------- */

enum { NARROW_BLOCK = 32, NARROW_DOT_ROWS = 6 }; /* numbers of a block; rows of a tile, at most */

/* Rows of A in int8. Of weights of 4 bits, eight numbers lie as a word has them in the low and in
 * the high half of its bytes: 0 2 4 6, 1 3 5 7. */
typedef struct {
    int64_t k;
    int8_t *numbers; /* [rows][k] */
    float *scales;   /* [rows][k / NARROW_BLOCK] */
    int32_t *starts; /* the same: what sums of a block begin with, since weights are multiplied as
                        unsigned numbers */
} narrow_rounded;

/* Rounds n rows, `row` elements apart, to rows [first, first + n) as choose_qparams_per_token and
 * quantize_per_token do. */
void narrow_round(const float *a, int64_t row, int64_t first, int64_t n, int bits,
                  const narrow_rounded *to);
/* Rows of a tile on this machine. */
int narrow_dot_rows(void);
/* A panel as bytes, k * tile_width() of them. */
void narrow_unpack_bytes(const narrow_panels *p, int64_t panel, int8_t *to);
/* c [rows][tile_width()] = rows [first, first + rows) of A times a panel, narrow_dot_rows() at
 * most; `bytes`: the panel unpacked, NULL where it is not. */
void narrow_dots(const narrow_panels *p, int64_t panel, const int8_t *bytes,
                 const narrow_rounded *x, int64_t first, int rows, float *c);

/* ---- layers ---------------------------------------------------------------------------------- */

/* Products whose epilogue has a narrow weight in place of l->w. */
bool narrow_gemm_takes(const product_layer *l, const cfx__epilogue *e);
cfx__ready *narrow_gemm_ready(const product_layer *l, const cfx__epilogue *e);

#endif
