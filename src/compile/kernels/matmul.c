/* matmul: products of two matrices that are both known only when the program runs. */

/* Panels of a k by n matrix whose element (i, j) is b[i * row + j * col], each times `by`. */
static void NAME_panels(const float *b, ptrdiff_t row, ptrdiff_t col, ptrdiff_t k, ptrdiff_t n,
                        float by, float *to) {
    for (ptrdiff_t first = 0; first < n; first += NAME_PANEL, to += k * NAME_PANEL) {
        const ptrdiff_t cols = n - first < NAME_PANEL ? n - first : NAME_PANEL;
        const float *from = b + first * col;
        if (cols < NAME_PANEL)
            memset(to, 0, (size_t)(k * NAME_PANEL) * sizeof *to);
        if (col == 1 && cols == NAME_PANEL)
            for (ptrdiff_t i = 0; i < k; i++)
                for (ptrdiff_t j = 0; j < NAME_PANEL; j++)
                    to[i * NAME_PANEL + j] = from[i * row + j] * by;
        else if (row == 1 && cols == NAME_PANEL)
            for (ptrdiff_t i = 0; i < k; i++)
                for (ptrdiff_t j = 0; j < NAME_PANEL; j++)
                    to[i * NAME_PANEL + j] = from[i + j * col] * by;
        else
            for (ptrdiff_t i = 0; i < k; i++)
                for (ptrdiff_t j = 0; j < cols; j++)
                    to[i * NAME_PANEL + j] = from[i * row + j * col] * by;
    }
}

/* c = by a b with an epilogue. Element (i, p) of a is a[i * a_row + p * a_col], (p, j) of b
 * b[p * b_row + j * b_col]; rows of c lie c_row apart. The scratch holds b in panels,
 * and a where elements of its rows lie apart. */
static void NAME_matmul(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, float by, const float *a,
                        ptrdiff_t a_row, ptrdiff_t a_col, const float *b, ptrdiff_t b_row,
                        ptrdiff_t b_col, float *c, ptrdiff_t c_row, const NAME_epilogue *e,
                        float *scratch) {
    enum { FEW = 4 }; /* rows for which b is read as it lies */
    float *copy = scratch + (n + NAME_PANEL - 1) / NAME_PANEL * NAME_PANEL * k;
    if (a_col != 1 && k > 1) {
        for (ptrdiff_t i = 0; i < m; i++)
            for (ptrdiff_t p = 0; p < k; p++)
                copy[i * k + p] = a[i * a_row + p * a_col];
        a = copy;
        a_row = k;
    }
    if (m > FEW || (b_row != 1 && b_col != 1)) {
        NAME_panels(b, b_row, b_col, k, n, by, scratch);
        NAME_product(m, n, k, a, a_row, scratch, c, c_row, e);
        return;
    }
    for (ptrdiff_t i = 0; i < m; i++, a += a_row, c += c_row) {
        float *restrict sums = scratch;
        memset(sums, 0, (size_t)n * sizeof *sums);
        for (ptrdiff_t p = 0; p < k && b_col == 1; p++) {
            const float x = a[p] * by, *from = b + p * b_row;
            for (ptrdiff_t j = 0; j < n; j++)
                sums[j] += x * from[j];
        }
        for (ptrdiff_t j = 0; j < n && b_col != 1; j++)
            sums[j] = by * NAME_row_dot(a, b + j * b_col, k);
        NAME_finish_row(e, sums, n, i, c);
    }
}
