/* linalg: factorisations of one matrix, and solutions by them, in double precision; rows lie one
 * after the other. Pivots and what is told of failures are LAPACK's. */

NAME_INLINE void NAME_rows_swap(double *a, double *b, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) {
        const double held = a[i];
        a[i] = b[i];
        b[i] = held;
    }
}

/* a (m x n) becomes L and U of it with rows changed; pivots count from 1. The number of the first
 * pivot that is 0, 0: none. */
static int32_t NAME_lu(double *a, ptrdiff_t m, ptrdiff_t n, int32_t *pivots) {
    int32_t info = 0;
    for (ptrdiff_t j = 0; j < m && j < n; j++) {
        ptrdiff_t best = j;
        for (ptrdiff_t i = j + 1; i < m; i++)
            best = fabs(a[i * n + j]) > fabs(a[best * n + j]) ? i : best;
        pivots[j] = (int32_t)best + 1;
        if (a[best * n + j] == 0) {
            info = info ? info : (int32_t)j + 1;
            continue;
        }
        if (best != j)
            NAME_rows_swap(a + best * n, a + j * n, n);
        for (ptrdiff_t i = j + 1; i < m; i++) {
            const double by = a[i * n + j] /= a[j * n + j];
            for (ptrdiff_t k = j + 1; k < n; k++)
                a[i * n + k] -= by * a[j * n + k];
        }
    }
    return info;
}

/* b (n x m) becomes x of a x = b, a being triangular: its upper part, or its lower one, with ones
 * in the diagonal where `ones`; transposed: of the other part, read by columns. */
static void NAME_triangular(const double *a, ptrdiff_t n, int upper, int ones, int transposed,
                            double *b, ptrdiff_t m) {
    const ptrdiff_t down = transposed ? 1 : n, across = transposed ? n : 1;
    for (ptrdiff_t at = 0; at < n; at++) {
        const ptrdiff_t i = upper ? n - 1 - at : at;
        const ptrdiff_t from = upper ? i + 1 : 0, to = upper ? n : i;
        for (ptrdiff_t k = from; k < to; k++)
            for (ptrdiff_t j = 0; j < m; j++)
                b[i * m + j] -= a[i * down + k * across] * b[k * m + j];
        for (ptrdiff_t j = 0; j < m && !ones; j++)
            b[i * m + j] /= a[i * down + i * across];
    }
}

/* b (n x m) becomes x of a x = b, or of a' x = b, of what lu made of a. */
static void NAME_lu_solve(const double *lu, const int32_t *pivots, ptrdiff_t n, int transposed,
                          double *b, ptrdiff_t m) {
    for (ptrdiff_t i = 0; i < n && !transposed; i++)
        if (pivots[i] != i + 1)
            NAME_rows_swap(b + i * m, b + (pivots[i] - 1) * m, m);
    NAME_triangular(lu, n, 0, !transposed, transposed, b, m);
    NAME_triangular(lu, n, 1, transposed, transposed, b, m);
    for (ptrdiff_t i = n; i-- > 0 && transposed;)
        if (pivots[i] != i + 1)
            NAME_rows_swap(b + i * m, b + (pivots[i] - 1) * m, m);
}

/* to[i] becomes the row that lies at i once `count` pivots have exchanged n rows in turn. */
static void NAME_lu_order(const int32_t *pivots, ptrdiff_t count, int32_t *to, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++)
        to[i] = (int32_t)i;
    for (ptrdiff_t i = 0; i < count; i++) {
        const int32_t held = to[i];
        to[i] = to[pivots[i] - 1];
        to[pivots[i] - 1] = held;
    }
}

/* The lower part of a becomes L of L L' = a, zeros above; the number of the first row at which a is
 * not positive, 0: none. */
static int32_t NAME_cholesky(double *a, ptrdiff_t n) {
    int32_t info = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++) {
            double sum = j > i ? 0 : a[i * n + j];
            for (ptrdiff_t k = 0; k < j && j <= i; k++)
                sum -= a[i * n + k] * a[j * n + k];
            if (i == j && !(sum > 0))
                info = info ? info : (int32_t)i + 1;
            a[i * n + j] = j > i ? 0 : j < i ? sum / a[j * n + j] : sqrt(sum);
        }
    return info;
}

/* a (m x n) becomes R, zeros below, and q the first columns of Q (m x columns), by Householder's
 * reflections. `v` is room for m numbers in each of the smaller of m and n columns. */
static void NAME_qr(double *a, ptrdiff_t m, ptrdiff_t n, double *q, ptrdiff_t columns, double *v) {
    const ptrdiff_t count = m < n ? m : n;
    for (ptrdiff_t k = 0; k < count; k++) {
        double square = 0, *h = v + k * m;
        for (ptrdiff_t i = 0; i < m; i++) {
            h[i] = i < k ? 0 : a[i * n + k];
            square += i > k ? h[i] * h[i] : 0;
        }
        if (square == 0) { /* nothing is below: LAPACK leaves such a column as it is */
            h[k] = 0;
            continue;
        }
        const double length = sqrt(square + h[k] * h[k]), to = h[k] < 0 ? length : -length;
        h[k] -= to;
        const double scale = sqrt(2 / (square + h[k] * h[k])); /* h' h = 2 */
        for (ptrdiff_t i = k; i < m; i++)
            h[i] *= scale;
        for (ptrdiff_t j = k; j < n; j++) {
            double sum = 0;
            for (ptrdiff_t i = k; i < m; i++)
                sum += h[i] * a[i * n + j];
            for (ptrdiff_t i = k; i < m; i++)
                a[i * n + j] -= sum * h[i];
        }
        for (ptrdiff_t i = k + 1; i < m; i++)
            a[i * n + k] = 0;
    }
    for (ptrdiff_t i = 0; i < m; i++)
        for (ptrdiff_t j = 0; j < columns; j++)
            q[i * columns + j] = i == j;
    for (ptrdiff_t k = count; k-- > 0;)
        for (ptrdiff_t j = 0; j < columns; j++) {
            double sum = 0;
            for (ptrdiff_t i = k; i < m; i++)
                sum += v[k * m + i] * q[i * columns + j];
            for (ptrdiff_t i = k; i < m; i++)
                q[i * columns + j] -= sum * v[k * m + i];
        }
}
