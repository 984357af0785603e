/* rows: sums, largest elements and normalisations of rows of floats. Sums are kept in several
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

/* The sum of (x - about)^2. */
static float NAME_row_squares(const float *x, ptrdiff_t n, float about) {
    float sum[NAME_PARTS] = {0}, rest = 0;
    ptrdiff_t i = 0;
    for (; i + NAME_PARTS <= n; i += NAME_PARTS)
        for (int q = 0; q < NAME_PARTS; q++)
            sum[q] += (x[i + q] - about) * (x[i + q] - about);
    for (; i < n; i++)
        rest += (x[i] - about) * (x[i] - about);
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

/* y may be x, here and below. */
static void NAME_softmax(const float *x, ptrdiff_t n, float *y) {
    const float most = NAME_row_max(x, n);
    if (y != x)
        memmove(y, x, (size_t)n * sizeof *y);
    const float by = 1.f / NAME_row_exp(y, n, most);
    for (ptrdiff_t i = 0; i < n; i++)
        y[i] *= by;
}

/* A row of -INFINITY gives zeros. */
static void NAME_safe_softmax(const float *x, ptrdiff_t n, float *y) {
    int seen = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        seen |= !(x[i] == -INFINITY);
    if (seen)
        NAME_softmax(x, n, y);
    else
        memset(y, 0, (size_t)n * sizeof *y);
}

static void NAME_log_softmax(const float *x, ptrdiff_t n, float *y) {
    const float most = NAME_row_max(x, n);
    float sum = 0, part[NAME_PARTS];
    for (ptrdiff_t i = 0; i < n; i += NAME_PARTS) {
        const ptrdiff_t m = n - i < NAME_PARTS ? n - i : NAME_PARTS;
        for (ptrdiff_t q = 0; q < m; q++)
            part[q] = NAME_exp(x[i + q] - most);
        sum += NAME_row_sum(part, m);
    }
    const float less = logf(sum);
    for (ptrdiff_t i = 0; i < n; i++)
        y[i] = (x[i] - most) - less;
}

/* (x - mean) / sqrt(variance + eps) * weight + bias, where there are such. */
static void NAME_layer_norm(const float *x, ptrdiff_t n, float eps, const float *weight,
                            const float *bias, float *y) {
    const float mean = NAME_row_sum(x, n) / (float)n;
    const float by = 1.f / sqrtf(NAME_row_squares(x, n, mean) / (float)n + eps);
    if (weight && bias)
        for (ptrdiff_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * by * weight[i] + bias[i];
    else
        for (ptrdiff_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * by * (weight ? weight[i] : 1.f) + (bias ? bias[i] : 0.f);
}

/* x / sqrt(mean of the squares + eps) * weight, where there is one. */
static void NAME_rms_norm(const float *x, ptrdiff_t n, float eps, const float *weight, float *y) {
    const float by = 1.f / sqrtf(NAME_row_squares(x, n, 0) / (float)n + eps);
    for (ptrdiff_t i = 0; i < n; i++)
        y[i] = x[i] * by * (weight ? weight[i] : 1.f);
}
