/* narrow: products of floats by weights of 16, 8 or 4 bits.
 *
 * Weights are panels of 16 columns as those of floats: of bfloat16, of signed bytes, or two rows in
 * one, the first in the low bits, each 8 more than it is. Every `group` rows of a column share a
 * scale. Some rows of a panel at a time become floats, which stay in the first cache while they are
 * multiplied. */

typedef struct {
    int bits;            /* 16: bfloat16 without scales; 8; 4 */
    ptrdiff_t k, group;  /* rows of the matrix, and those that share a scale */
    const void *numbers;
    const float *scales; /* [panels][k / group][NAME_PANEL] */
} NAME_narrow;

enum { NAME_NARROW_DEPTH = 128, NAME_NARROW_COLS = 32, NAME_NARROW_ROWS = 28 };

/* Rows [at, at + n) of a panel as floats; `at` is even. */
static void NAME_narrow_unpack(const NAME_narrow *w, ptrdiff_t panel, ptrdiff_t at, ptrdiff_t n,
                               float *restrict to) {
    const ptrdiff_t first = (panel * w->k + at) * NAME_PANEL;
    if (w->bits == 16) {
        const uint16_t *from = (const uint16_t *)w->numbers + first;
        for (ptrdiff_t i = 0; i < n * NAME_PANEL; i++)
            to[i] = NAME_from_bf16(from[i]);
        return;
    }
    for (ptrdiff_t i = 0, end; i < n; i = end) {
        const ptrdiff_t group = (at + i) / w->group, left = (group + 1) * w->group - at;
        const float *scale = w->scales + (panel * (w->k / w->group) + group) * NAME_PANEL;
        end = left < n ? left : n;
        if (w->bits == 8) {
            const int8_t *from = (const int8_t *)w->numbers + first;
            for (ptrdiff_t r = i; r < end; r++)
                for (int j = 0; j < NAME_PANEL; j++)
                    to[r * NAME_PANEL + j] = (float)from[r * NAME_PANEL + j] * scale[j];
        } else {
            for (ptrdiff_t r = i; r < end; r++) {
                const uint8_t *from = (const uint8_t *)w->numbers + first / 2 + r / 2 * NAME_PANEL;
                const ptrdiff_t shift = r % 2 * 4;
                for (int j = 0; j < NAME_PANEL; j++)
                    to[r * NAME_PANEL + j] = (float)((from[j] >> shift & 15) - 8) * scale[j];
            }
        }
    }
}

/* Rows [top, top + rows) of the result at columns [col, col + cols). */
static void NAME_narrow_block(ptrdiff_t top, ptrdiff_t rows, ptrdiff_t col, ptrdiff_t cols,
                              const float *a, ptrdiff_t a_row, const NAME_narrow *w, float *c,
                              ptrdiff_t c_row, const NAME_epilogue *e) {
    float unpacked[NAME_NARROW_DEPTH * NAME_NARROW_COLS];
    float sums[NAME_NARROW_ROWS * NAME_NARROW_COLS];
    NAME_epilogue end = *e, more = {.add_row = NAME_NARROW_COLS, .low = -INFINITY,
                                    .high = INFINITY};
    memset(sums, 0, sizeof sums);
    more.add = sums;
    for (ptrdiff_t at = 0; at < w->k; at += NAME_NARROW_DEPTH) {
        const ptrdiff_t n = w->k - at < NAME_NARROW_DEPTH ? w->k - at : NAME_NARROW_DEPTH;
        for (ptrdiff_t j = 0; j < cols; j += NAME_PANEL)
            NAME_narrow_unpack(w, (col + j) / NAME_PANEL, at, n, unpacked + j * n);
        NAME_product(rows, cols, n, a + top * a_row + at, a_row, unpacked, sums, NAME_NARROW_COLS,
                     &more);
    }
    end.bias = e->bias ? e->bias + col : NULL;
    end.add = e->add ? e->add + col : NULL;
    for (ptrdiff_t i = 0; i < rows; i++)
        NAME_finish_row(&end, sums + i * NAME_NARROW_COLS, cols, top + i,
                        c + (top + i) * c_row + col);
}

static void NAME_narrow_product(ptrdiff_t m, ptrdiff_t n, const float *a, ptrdiff_t a_row,
                                const NAME_narrow *w, float *c, ptrdiff_t c_row,
                                const NAME_epilogue *e) {
    const ptrdiff_t strips = (n + NAME_NARROW_COLS - 1) / NAME_NARROW_COLS;
    const ptrdiff_t blocks = (m + NAME_NARROW_ROWS - 1) / NAME_NARROW_ROWS;
    NAME_PARALLEL
    for (ptrdiff_t i = 0; i < strips * blocks; i++) {
        const ptrdiff_t col = i / blocks * NAME_NARROW_COLS, top = i % blocks * NAME_NARROW_ROWS;
        NAME_narrow_block(top, m - top < NAME_NARROW_ROWS ? m - top : NAME_NARROW_ROWS, col,
                          n - col < NAME_NARROW_COLS ? n - col : NAME_NARROW_COLS, a, a_row, w, c,
                          c_row, e);
    }
}

/* Column j of the matrix, k floats: a row of a table. */
static void NAME_narrow_row(const NAME_narrow *w, ptrdiff_t j, float *to) {
    const ptrdiff_t panel = j / NAME_PANEL, col = j % NAME_PANEL;
    for (ptrdiff_t i = 0; i < w->k; i++) {
        const ptrdiff_t at = (panel * w->k + i) * NAME_PANEL + col;
        const ptrdiff_t pair = (panel * w->k / 2 + i / 2) * NAME_PANEL + col;
        const float scale = w->bits == 16 ? 1
                                          : w->scales[(panel * (w->k / w->group) + i / w->group) *
                                                          NAME_PANEL + col];
        const float number = w->bits == 16  ? NAME_from_bf16(((const uint16_t *)w->numbers)[at])
                             : w->bits == 8 ? (float)((const int8_t *)w->numbers)[at]
                                            : (float)((((const uint8_t *)w->numbers)[pair] >>
                                                       (i % 2 * 4) & 15) - 8);
        to[i] = number * scale;
    }
}
