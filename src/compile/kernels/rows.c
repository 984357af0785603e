/* rows: sums, products and largest elements of rows of floats. Sums are kept in several
 * parts, by lane, which vectors hold. */

enum { NAME_PARTS = 16 };

/* The largest element; -INFINITY of none, and NaN is passed over. */
static float NAME_row_max(const float *x, ptrdiff_t n) {
    float most[NAME_PARTS], all = -INFINITY;
    ptrdiff_t i = 0;
    for (int q = 0; q < NAME_PARTS; q++)
        most[q] = -INFINITY;
    for (; i + NAME_PARTS <= n; i += NAME_PARTS)
        for (int q = 0; q < NAME_PARTS; q++)
            most[q] = x[i + q] > most[q] ? x[i + q] : most[q];
    for (; i < n; i++)
        all = x[i] > all ? x[i] : all;
    for (int q = 0; q < NAME_PARTS; q++)
        all = most[q] > all ? most[q] : all;
    return all;
}

static float NAME_row_sum(const float *x, ptrdiff_t n) {
    float sum[NAME_PARTS] = {0}, rest = 0;
    ptrdiff_t i = 0;
    for (; i + NAME_PARTS <= n; i += NAME_PARTS)
        for (int q = 0; q < NAME_PARTS; q++)
            sum[q] += x[i + q];
    for (; i < n; i++)
        rest += x[i];
    for (int step = NAME_PARTS / 2; step; step /= 2)
        for (int q = 0; q < step; q++)
            sum[q] += sum[q + step];
    return rest + sum[0];
}

/* The product of two rows. */
static float NAME_row_dot(const float *x, const float *y, ptrdiff_t n) {
    float sum[2 * NAME_PARTS] = {0}, rest = 0;
    ptrdiff_t i = 0;
    for (; i + 2 * NAME_PARTS <= n; i += 2 * NAME_PARTS)
        for (int q = 0; q < 2 * NAME_PARTS; q++)
            sum[q] += x[i + q] * y[i + q];
    for (; i < n; i++)
        rest += x[i] * y[i];
    for (int step = NAME_PARTS; step; step /= 2)
        for (int q = 0; q < step; q++)
            sum[q] += sum[q + step];
    return rest + sum[0];
}

/* e^(x - most) in place; their sum. */
static float NAME_row_exp(float *x, ptrdiff_t n, float most) {
    for (ptrdiff_t i = 0; i < n; i++)
        x[i] = NAME_exp(x[i] - most);
    return NAME_row_sum(x, n);
}
