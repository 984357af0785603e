/* tile: rows of A times columns of packed weights, in registers.
 *
 * Weights are panels of 16 columns, [k][16] floats each, the last one filled with zeros. A tile is
 * up to NAME_ROWS rows times NAME_COLS columns; its sums are finished (bias, what is added, bounds)
 * while they are in the first cache. A row of A is `taps` runs of `length` elements, one at each of
 * `at`. */

/* Rows and columns of a tile, whose sums are two vectors a row. */
#if NAME_VECTOR == 64
enum { NAME_ROWS = 14, NAME_COLS = 32 };
#elif NAME_VECTOR == 32
enum { NAME_ROWS = 6, NAME_COLS = 16 };
#elif defined(__aarch64__)
enum { NAME_ROWS = 12, NAME_COLS = 8 };
#elif NAME_VECTOR == 16
enum { NAME_ROWS = 6, NAME_COLS = 8 };
#else
enum { NAME_ROWS = 4, NAME_COLS = 8 };
#endif

/* What is done to sums before they are stored: the bias of their column, what is added from
 * elsewhere (add_row elements from row to row), bounds; then `post` on each row of a tile. */
typedef struct {
    const float *bias; /* NULL: none */
    const float *add;  /* NULL: nothing; may be the result itself */
    ptrdiff_t add_row;
    float low, high;   /* -INFINITY, INFINITY: no bounds */
    void (*post)(float *x, ptrdiff_t n); /* NULL: none */
} NAME_epilogue;

typedef struct {
    const float *a;
    ptrdiff_t a_row; /* from one row to the next, in elements */
    ptrdiff_t taps, length;
    const ptrdiff_t *at;
    const float *left, *right; /* the columns of both vectors, in panels */
} NAME_tile;

#if NAME_VECTOR
/* Sums over one run of elements. */
NAME_INLINE void NAME_tile_run(const NAME_tile *t, const float *a, ptrdiff_t at, const int rows,
                               const int vecs, NAME_vec (*sum)[2]) {
    const float *base[(NAME_ROWS + 2) / 3]; /* every third row: the others are near to these */
    const float *left = t->left + at * NAME_PANEL, *right = t->right + at * NAME_PANEL;
    const ptrdiff_t step = t->a_row, n = t->length;
    for (int i = 0; i < rows; i += 3)
        base[i / 3] = a + i * step;
    for (ptrdiff_t p = 0; p < n; p++, left += NAME_PANEL, right += NAME_PANEL) {
        const NAME_vec l = *(const NAME_vec *)left;
        const NAME_vec r = vecs == 2 ? *(const NAME_vec *)right : l;
        NAME_UNROLL
        for (int i = 0; i < rows; i++) {
            const float x = base[i / 3][i % 3 * step + p];
            sum[i][0] += x * l;
            if (vecs == 2)
                sum[i][1] += x * r;
        }
    }
}

/* The same for a row or two: four sums each, since a sum waits for the one before. */
NAME_INLINE void NAME_tile_run_few(const NAME_tile *t, const float *a, ptrdiff_t at,
                                   const int rows, NAME_vec (*sum)[2]) {
    const float *left = t->left + at * NAME_PANEL, *right = t->right + at * NAME_PANEL;
    const ptrdiff_t n = t->length;
    ptrdiff_t p = 0;
    NAME_vec part[4][2][2];
    for (int q = 0; q < 4; q++)
        for (int i = 0; i < rows; i++)
            part[q][i][0] = part[q][i][1] = (NAME_vec){0};
    for (; p + 4 <= n; p += 4, left += 4 * NAME_PANEL, right += 4 * NAME_PANEL) {
        NAME_UNROLL
        for (int q = 0; q < 4; q++) {
            const NAME_vec l = *(const NAME_vec *)(left + q * NAME_PANEL);
            const NAME_vec r = *(const NAME_vec *)(right + q * NAME_PANEL);
            NAME_UNROLL
            for (int i = 0; i < rows; i++) {
                const float x = a[i * t->a_row + p + q];
                part[q][i][0] += x * l;
                part[q][i][1] += x * r;
            }
        }
    }
    for (; p < n; p++, left += NAME_PANEL, right += NAME_PANEL)
        for (int i = 0; i < rows; i++) {
            part[0][i][0] += a[i * t->a_row + p] * *(const NAME_vec *)left;
            part[0][i][1] += a[i * t->a_row + p] * *(const NAME_vec *)right;
        }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < 2; j++)
            sum[i][j] += (part[0][i][j] + part[1][i][j]) + (part[2][i][j] + part[3][i][j]);
}

NAME_INLINE void NAME_tile_rows(const NAME_tile *t, const int rows, const int vecs, float *to,
                                ptrdiff_t to_row) {
    NAME_vec sum[NAME_ROWS][2];
    NAME_UNROLL
    for (int i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = (NAME_vec){0};
    for (ptrdiff_t tap = 0; tap < t->taps; tap++)
        if (rows <= 2 && vecs == 2)
            NAME_tile_run_few(t, t->a + t->at[tap], tap * t->length, rows, sum);
        else
            NAME_tile_run(t, t->a + t->at[tap], tap * t->length, rows, vecs, sum);
    NAME_UNROLL
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vecs; j++)
            *(NAME_vec *)(to + i * to_row + j * NAME_LANES) = sum[i][j];
}
#endif

#if NAME_VECTOR
typedef int32_t NAME_bits __attribute__((vector_size(NAME_VECTOR), aligned(4), may_alias));
/* Within bounds; NaN stays NaN. */
NAME_INLINE NAME_vec NAME_bound(NAME_vec x, float low, float high) {
    const NAME_vec l = low - (NAME_vec){0}, h = high - (NAME_vec){0};
    const NAME_bits under = (NAME_bits)(x < l), over = (NAME_bits)(x > h);
    x = (NAME_vec)(((NAME_bits)l & under) | ((NAME_bits)x & ~under));
    return (NAME_vec)(((NAME_bits)h & over) | ((NAME_bits)x & ~over));
}
#endif

/* The sums of up to NAME_ROWS rows: of NAME_COLS columns, or of half as many, which come last and
 * are done some rows at a time: that is less code. */
static void NAME_tile_sums(const NAME_tile *t, int rows, int half, float *to, ptrdiff_t to_row) {
#if NAME_VECTOR
#define NAME_TILE_CASE(n) /* the compiler makes a kernel of each */                                \
    case n:                                                                                        \
        NAME_tile_rows(&now, n, 2, to, to_row);                                                    \
        break;
#define NAME_TILE_HALF(n)                                                                          \
    case n:                                                                                        \
        if (half)                                                                                  \
            NAME_tile_rows(&now, n, 1, to, to_row);                                                \
        else                                                                                       \
            NAME_tile_rows(&now, n, 2, to, to_row);                                                \
        break;
    NAME_tile now = *t;
    for (int n; rows > 0; rows -= n, to += n * to_row, now.a += n * now.a_row) {
        n = half && rows > 4 ? 4 : rows;
        switch (n) {
            NAME_TILE_HALF(1)
            NAME_TILE_HALF(2)
            NAME_TILE_HALF(3)
            NAME_TILE_HALF(4)
            NAME_TILE_CASE(5)
            NAME_TILE_CASE(6)
#if defined(__aarch64__) || NAME_VECTOR == 64
            NAME_TILE_CASE(7)
            NAME_TILE_CASE(8)
            NAME_TILE_CASE(9)
            NAME_TILE_CASE(10)
            NAME_TILE_CASE(11)
            NAME_TILE_CASE(12)
#endif
#if NAME_VECTOR == 64
            NAME_TILE_CASE(13)
            NAME_TILE_CASE(14)
#endif
        }
    }
#else
    float sum[NAME_ROWS][NAME_COLS] = {{0}};
    for (ptrdiff_t tap = 0; tap < t->taps; tap++) {
        const float *a = t->a + t->at[tap], *panel = t->left + tap * t->length * NAME_PANEL;
        for (ptrdiff_t p = 0; p < t->length; p++, panel += NAME_PANEL)
            for (int i = 0; i < rows; i++)
                for (int j = 0; j < NAME_COLS; j++)
                    sum[i][j] += a[i * t->a_row + p] * panel[j];
    }
    for (int i = 0; i < rows; i++)
        memcpy(to + i * to_row, sum[i], (half ? NAME_COLS / 2 : NAME_COLS) * sizeof(float));
#endif
}

/* Finishes sums that lie at `from`, NAME_COLS from row to row, and stores them to c: `rows` rows of
 * `cols` columns, the first at row `row` and column `col` of the result. */
static void NAME_tile_finish(const NAME_epilogue *e, const float *from, int rows, int cols,
                             ptrdiff_t row, ptrdiff_t col, float *c, ptrdiff_t c_row) {
    const float low = e->low, high = e->high;
    const float *bias = e->bias ? e->bias + col : NULL;
    const float *add = e->add ? e->add + row * e->add_row + col : NULL;
    for (int i = 0; i < rows; i++, from += NAME_COLS, c += c_row) {
        int j = 0;
#if NAME_VECTOR
        for (; j + NAME_LANES <= cols; j += NAME_LANES) {
            NAME_vec x = *(const NAME_vec *)(from + j);
            if (bias)
                x += *(const NAME_vec *)(bias + j);
            if (add)
                x += *(const NAME_vec *)(add + j);
            *(NAME_vec *)(c + j) = NAME_bound(x, low, high);
        }
#endif
        for (; j < cols; j++) {
            const float x = from[j] + (bias ? bias[j] : 0) + (add ? add[j] : 0);
            c[j] = x < low ? low : x > high ? high : x;
        }
        if (add)
            add += e->add_row;
        if (e->post)
            e->post(c, cols);
    }
}

/* Finishes a whole row of n sums. */
static void NAME_finish_row(const NAME_epilogue *e, const float *from, ptrdiff_t n, ptrdiff_t row,
                            float *c) {
    for (ptrdiff_t col = 0; col < n; col += NAME_COLS)
        NAME_tile_finish(e, from + col, 1, n - col < NAME_COLS ? (int)(n - col) : NAME_COLS, row,
                         col, c + col, 0);
}
