/* eigen: eigenvalues and eigenvectors of a symmetric matrix in double precision, by reflections to
 * a tridiagonal one and implicit QL or QR steps on that. Order, direction and signs are LAPACK's.
 */

/* The n numbers of x become a reflector I - scale x x' that leaves the first one of them alone, as
 * `to`; x[0] is 1 then. The scale; 0: nothing is behind the first. */
static double NAME_reflector(double *x, ptrdiff_t n, double *to) {
    double square = 0;
    for (ptrdiff_t i = 1; i < n; i++)
        square += x[i] * x[i];
    *to = x[0];
    x[0] = 1;
    if (square == 0)
        return 0;
    const double length = sqrt(*to * *to + square), end = *to < 0 ? length : -length;
    const double scale = (end - *to) / end, by = 1 / (*to - end);
    for (ptrdiff_t i = 1; i < n; i++)
        x[i] *= by;
    *to = end;
    return scale;
}

/* The reflector on both sides of a symmetric matrix, whose rows are `row` apart; w: room for n. */
static void NAME_reflect_both(double *a, ptrdiff_t row, const double *v, double scale, double *w,
                              ptrdiff_t n) {
    double dot = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        double sum = 0;
        for (ptrdiff_t j = 0; j < n; j++)
            sum += a[i * row + j] * v[j];
        w[i] = scale * sum;
        dot += w[i] * v[i];
    }
    for (ptrdiff_t i = 0; i < n; i++)
        w[i] -= scale * dot / 2 * v[i];
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++)
            a[i * row + j] -= v[i] * w[j] + w[i] * v[j];
}

/* The symmetric a (n x n) becomes Q, and d and e the diagonals of a tridiagonal T with Q T Q' = a,
 * from its first row on, or from its last one as LAPACK goes over an upper triangle. w: room for
 * n * n + n numbers. */
static void NAME_tridiagonal(double *a, ptrdiff_t n, int upper, double *d, double *e, double *w) {
    double *held = w + n; /* reflector k in row k, its scale in w[k] */
    for (ptrdiff_t at = 0; at + 1 < n; at++) {
        const ptrdiff_t k = upper ? n - 2 - at : at, rest = upper ? k + 1 : n - 1 - k;
        const ptrdiff_t from = upper ? 0 : k + 1, row = upper ? k + 1 : k;
        double *v = held + k * n;
        for (ptrdiff_t i = 0; i < rest; i++) /* what stays comes first */
            v[i] = a[(upper ? k - i : from + i) * n + row];
        w[k] = NAME_reflector(v, rest, &e[k]);
        for (ptrdiff_t i = 0; upper && i < rest / 2; i++) {
            const double x = v[i];
            v[i] = v[rest - 1 - i];
            v[rest - 1 - i] = x;
        }
        if (w[k] != 0)
            NAME_reflect_both(a + from * n + from, n, v, w[k], d, rest);
    }
    for (ptrdiff_t i = 0; i < n; i++)
        d[i] = a[i * n + i];
    for (ptrdiff_t i = 0; i < n * n; i++)
        a[i] = i % (n + 1) == 0;
    for (ptrdiff_t at = 0; at + 1 < n; at++) { /* the last reflector first */
        const ptrdiff_t k = upper ? at : n - 2 - at, rest = upper ? k + 1 : n - 1 - k;
        const ptrdiff_t from = upper ? 0 : k + 1;
        const double *v = held + k * n;
        for (ptrdiff_t j = 0; j < n; j++) {
            double sum = 0;
            for (ptrdiff_t i = 0; i < rest; i++)
                sum += v[i] * a[(from + i) * n + j];
            for (ptrdiff_t i = 0; i < rest; i++)
                a[(from + i) * n + j] -= w[k] * sum * v[i];
        }
    }
}

/* Columns j and j + 1 of q (n x n), turned by an angle of this cosine and sine. */
NAME_INLINE void NAME_turn(double *q, ptrdiff_t n, ptrdiff_t j, double c, double s) {
    for (ptrdiff_t i = 0; i < n; i++) {
        double *x = q + i * n + j;
        const double held = x[1];
        x[1] = c * held - s * x[0];
        x[0] = s * held + c * x[0];
    }
}

/* The angle that turns (f, g) to (r, 0). */
NAME_INLINE double NAME_angle(double f, double g, double *c, double *s) {
    const double length = sqrt(f * f + g * g), r = f < 0 ? -length : length;
    *c = g == 0 ? 1 : f == 0 ? 0 : fabs(f) / length;
    *s = g == 0 ? 0 : f == 0 ? (g < 0 ? -1 : 1) : g / r;
    return g == 0 ? f : f == 0 ? fabs(g) : r;
}

/* Both eigenvalues of [a b; b c], the one that is larger in size first, which the eigenvector
 * (cosine, sine) belongs to. */
static void NAME_eigen_two(double a, double b, double c, double *first, double *second,
                           double *cosine, double *sine) {
    const double sum = a + c, apart = a - c, root = sqrt(apart * apart + 4 * b * b);
    const double most = fabs(a) > fabs(c) ? a : c, least = fabs(a) > fabs(c) ? c : a;
    const double side = sum < 0 ? -1 : 1, turn = apart >= 0 ? 1 : -1;
    *first = sum == 0 ? root / 2 : (sum + side * root) / 2;
    *second = sum == 0 ? -root / 2 : most / *first * least - b / *first * b;
    const double cs = apart + turn * root;
    if (fabs(cs) > 2 * fabs(b)) {
        const double ct = -2 * b / cs;
        *sine = 1 / sqrt(1 + ct * ct);
        *cosine = ct * *sine;
    } else {
        const double tn = b == 0 ? 0 : -cs / (2 * b);
        *cosine = 1 / sqrt(1 + tn * tn);
        *sine = tn * *cosine;
    }
    if (side == turn) {
        const double held = *cosine;
        *cosine = -*sine;
        *sine = held;
    }
}

/* One implicit step on rows l to m of T, towards m (step 1: QL) or from there (step -1: QR). q:
 * NULL where nobody asks for vectors. */
static void NAME_eigen_step(double *d, double *e, ptrdiff_t l, ptrdiff_t m, ptrdiff_t step,
                            double *q, ptrdiff_t n) {
    const ptrdiff_t low = step < 0 ? -1 : 0; /* e[i + low] is between row i and the one behind */
    double p = d[l], g = (d[l + step] - p) / (2 * e[l + low]), r = sqrt(g * g + 1);
    g = d[m] - p + e[l + low] / (g + (g < 0 ? -r : r));
    double s = 1, c = 1;
    p = 0;
    for (ptrdiff_t i = m - step;; i -= step) {
        const double f = s * e[i + low], b = c * e[i + low];
        r = NAME_angle(g, f, &c, &s);
        if (i != m - step)
            e[i + step + low] = r;
        g = d[i + step] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + step] = g + p;
        g = c * r - b;
        if (q)
            NAME_turn(q, n, i + low, c, step > 0 ? -s : s);
        if (i == l)
            break;
    }
    d[l] -= p;
    e[l + low] = g;
}

/* Whether what is between rows i and i + 1 of T is nothing beside them, or beside 1. */
NAME_INLINE int NAME_eigen_apart(const double *d, const double *e, double eps, ptrdiff_t i) {
    return e[i] * e[i] <= eps * eps * fabs(d[i]) * fabs(d[i + 1]) + 1e-280;
}

/* d becomes the eigenvalues of T, whose numbers are about 1 at most, in the order in which they are
 * found, and q the eigenvectors of q T q'. 0, or 1 where some are not found in as many steps as
 * there may be. */
static int NAME_eigen_tridiagonal(double *d, double *e, ptrdiff_t n, double eps, double *q) {
    ptrdiff_t steps = 30 * n;
    for (ptrdiff_t first = 0, end; first < n; first = end + 1) {
        for (end = first; end + 1 < n && !NAME_eigen_apart(d, e, eps, end); end++) {
        }
        if (end + 1 < n)
            e[end] = 0;
        /* from the end whose number is smaller */
        const ptrdiff_t step = fabs(d[end]) < fabs(d[first]) ? -1 : 1;
        const ptrdiff_t last = step > 0 ? end : first, low = step < 0 ? -1 : 0;
        ptrdiff_t l = step > 0 ? first : end;
        while (step > 0 ? l <= last : l >= last) {
            ptrdiff_t m = l;
            while (m != last && !NAME_eigen_apart(d, e, eps, m + low))
                m += step;
            if (m != last)
                e[m + low] = 0;
            if (m == l) {
                l += step;
            } else if (m == l + step) {
                const ptrdiff_t top = step > 0 ? l : m;
                double one, two, c, s;
                NAME_eigen_two(d[top], e[top], d[top + 1], &one, &two, &c, &s);
                if (q)
                    NAME_turn(q, n, top, c, s);
                d[top] = one;
                d[top + 1] = two;
                e[top] = 0;
                l += 2 * step;
            } else if (steps-- > 0) {
                NAME_eigen_step(d, e, l, m, step, q, n);
            } else {
                return 1;
            }
        }
    }
    return 0;
}

/* The symmetric a (n x n): d becomes its eigenvalues, the smallest first, and, where `vectors`, a
 * its eigenvectors in columns. eps: half of the last digit of 1 in the dtype of the numbers, which
 * tells when steps end, as in LAPACK. w: room for n * n + 2 n numbers. 0, or 1 where some are not
 * found. */
static int NAME_eigen(double *a, ptrdiff_t n, int upper, int vectors, double eps, double *d,
                      double *w) {
    double *e = w + n * n + n, most = 0;
    int power = 0;
    for (ptrdiff_t i = 0; i < n * n; i++) {
        if (!isfinite(a[i]))
            return 1;
        most = fabs(a[i]) > most ? fabs(a[i]) : most;
    }
    (void)frexp(most, &power); /* numbers of about 1, whose squares are numbers too */
    for (ptrdiff_t i = 0; i < n * n; i++)
        a[i] = ldexp(a[i], -power);
    NAME_tridiagonal(a, n, upper, d, e, w);
    if (NAME_eigen_tridiagonal(d, e, n, eps, vectors ? a : NULL))
        return 1;
    for (ptrdiff_t i = 0; i < n; i++) {
        ptrdiff_t least = i;
        for (ptrdiff_t j = i + 1; j < n; j++)
            least = d[j] < d[least] ? j : least;
        const double held = d[least];
        d[least] = d[i];
        d[i] = ldexp(held, power);
        for (ptrdiff_t k = 0; k < n && least != i; k++) {
            const double x = a[k * n + i];
            a[k * n + i] = a[k * n + least];
            a[k * n + least] = x;
        }
    }
    return 0;
}
