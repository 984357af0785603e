/* product: C [m, n] = A [m, k] W, where W was packed when the file was generated. */

/* Rows that are multiplied at a time have as many elements, and stay in the second cache; so many
 * of each. */
enum { NAME_NEAR = 1 << 16, NAME_LONGEST = 1024 };

/* Rows [top, bottom) of the result at columns [col, col + NAME_COLS). */
static void NAME_product_block(ptrdiff_t top, ptrdiff_t bottom, ptrdiff_t n, ptrdiff_t k,
                               ptrdiff_t depth, const float *a, ptrdiff_t a_row,
                               const float *panels, ptrdiff_t col, float *c, ptrdiff_t c_row,
                               const NAME_epilogue *e) {
    static const ptrdiff_t none[1];
    float sums[NAME_ROWS * NAME_COLS];
    const int cols = n - col < NAME_COLS ? (int)(n - col) : NAME_COLS;
    const float *left = panels + col / NAME_PANEL * NAME_PANEL * depth + col % NAME_PANEL;
    const ptrdiff_t tiles = (bottom - top + NAME_ROWS - 1) / NAME_ROWS;
    NAME_tile t = {.a_row = a_row, .taps = 1, .length = k, .at = none, .left = left};
    t.right = left + (NAME_VECTOR == 64 ? NAME_PANEL * depth : NAME_COLS / 2);
    for (ptrdiff_t i = 0; i < tiles; i++) {
        const ptrdiff_t begin = top + (bottom - top) * i / tiles;
        const int rows = (int)(top + (bottom - top) * (i + 1) / tiles - begin);
        t.a = a + begin * a_row;
        NAME_tile_sums(&t, rows, cols <= NAME_COLS / 2, sums, NAME_COLS);
        NAME_tile_finish(e, sums, rows, cols, begin, col, c + begin * c_row + col, c_row);
    }
}

/* With the first k of the `depth` rows that the panels have; those are not many. */
static void NAME_product_short(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, ptrdiff_t depth,
                               const float *a, ptrdiff_t a_row, const float *panels, float *c,
                               ptrdiff_t c_row, const NAME_epilogue *e) {
    const ptrdiff_t fit = NAME_NEAR / (k + 1) / NAME_ROWS * NAME_ROWS;
    const ptrdiff_t most = fit < NAME_ROWS ? NAME_ROWS : fit;
    const ptrdiff_t strips = (n + NAME_COLS - 1) / NAME_COLS;
    for (ptrdiff_t top = 0; top < m; top += most) {
        const ptrdiff_t bottom = m - top < most ? m : top + most;
        NAME_PARALLEL
        for (ptrdiff_t strip = 0; strip < strips; strip++)
            NAME_product_block(top, bottom, n, k, depth, a, a_row, panels, strip * NAME_COLS, c,
                               c_row, e);
    }
}

/* The same of any k: long rows are multiplied in parts, which the result adds up. */
static void NAME_product_part(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, ptrdiff_t depth,
                              const float *a, ptrdiff_t a_row, const float *panels, float *c,
                              ptrdiff_t c_row, const NAME_epilogue *e) {
    const ptrdiff_t parts = m > NAME_ROWS ? (k + NAME_LONGEST - 1) / NAME_LONGEST : 1;
    const ptrdiff_t length = parts > 1 ? (k + parts - 1) / parts : k;
    NAME_epilogue part = {e->bias, e->add, e->add_row, -INFINITY, INFINITY, NULL};
    for (ptrdiff_t at = 0, last = 0; !last; at += length) {
        last = at + length >= k;
        if (at) {
            part.bias = NULL;
            part.add = c;
            part.add_row = c_row;
        }
        part.low = last ? e->low : -INFINITY;
        part.high = last ? e->high : INFINITY;
        part.post = last ? e->post : NULL;
        NAME_product_short(m, n, last ? k - at : length, depth, a + at, a_row,
                           panels + at * NAME_PANEL, c, c_row, &part);
    }
}

/* c = a times panels: m rows of n columns, sums over k elements. Rows of a are a_row apart, those
 * of c c_row; what e says is done to the sums before they are stored. */
static void NAME_product(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, const float *a, ptrdiff_t a_row,
                         const float *panels, float *c, ptrdiff_t c_row, const NAME_epilogue *e) {
    NAME_product_part(m, n, k, k, a, a_row, panels, c, c_row, e);
}
