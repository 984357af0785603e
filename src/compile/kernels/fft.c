/* fft: discrete Fourier transforms of rows of complex numbers, of any length.
 *
 * Lengths that are powers of two go by halves; others become a convolution with a chirp
 * (Bluestein), whose length is the next power of two at least twice as long. Complex numbers are
 * pairs of doubles. */

/* In place, n a power of two; sign -1: forward. Not scaled. */
static void NAME_fft_halves(double *x, ptrdiff_t n, int sign) {
    const double pi = 3.141592653589793238462643;
    for (ptrdiff_t i = 1, j = 0; i < n; i++) { /* the order of reversed bits */
        ptrdiff_t bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        for (int q = 0; i < j && q < 2; q++) {
            const double kept = x[2 * i + q];
            x[2 * i + q] = x[2 * j + q];
            x[2 * j + q] = kept;
        }
    }
    for (ptrdiff_t size = 2; size <= n; size *= 2)
        for (ptrdiff_t k = 0; k < size / 2; k++) {
            const double angle = sign * 2 * pi * (double)k / (double)size;
            const double c = cos(angle), s = sin(angle);
            for (ptrdiff_t i = k; i < n; i += size) {
                double *a = x + 2 * i, *b = x + 2 * (i + size / 2);
                const double re = b[0] * c - b[1] * s, im = b[0] * s + b[1] * c;
                b[0] = a[0] - re;
                b[1] = a[1] - im;
                a[0] += re;
                a[1] += im;
            }
        }
}

/* x [n] in place, of any n; sign -1: forward, 1: backward; not scaled. The scratch
 * holds what is convolved, m numbers twice, and the chirp, n numbers. */
static void NAME_fft(double *x, ptrdiff_t n, int sign, double *scratch) {
    const double pi = 3.141592653589793238462643;
    ptrdiff_t m = 1;
    if (n < 2)
        return;
    if ((n & (n - 1)) == 0) {
        NAME_fft_halves(x, n, sign);
        return;
    }
    while (m < 2 * n - 1)
        m *= 2;
    double *a = scratch, *b = a + 2 * m, *w = b + 2 * m;
    memset(a, 0, (size_t)(4 * m) * sizeof *a);
    for (ptrdiff_t i = 0; i < n; i++) {
        const uint64_t square = (uint64_t)i * (uint64_t)i % (2 * (uint64_t)n); /* exactly */
        const double angle = sign * pi * (double)square / (double)n;
        w[2 * i] = cos(angle);
        w[2 * i + 1] = sin(angle);
        a[2 * i] = x[2 * i] * w[2 * i] - x[2 * i + 1] * w[2 * i + 1];
        a[2 * i + 1] = x[2 * i] * w[2 * i + 1] + x[2 * i + 1] * w[2 * i];
        const ptrdiff_t mirrored = i ? m - i : 0;
        b[2 * i] = b[2 * mirrored] = w[2 * i];
        b[2 * i + 1] = b[2 * mirrored + 1] = -w[2 * i + 1];
    }
    NAME_fft_halves(a, m, -1);
    NAME_fft_halves(b, m, -1);
    for (ptrdiff_t i = 0; i < m; i++) {
        const double re = a[2 * i] * b[2 * i] - a[2 * i + 1] * b[2 * i + 1];
        a[2 * i + 1] = a[2 * i] * b[2 * i + 1] + a[2 * i + 1] * b[2 * i];
        a[2 * i] = re;
    }
    NAME_fft_halves(a, m, 1);
    for (ptrdiff_t i = 0; i < n; i++) {
        const double re = a[2 * i] / (double)m, im = a[2 * i + 1] / (double)m;
        x[2 * i] = re * w[2 * i] - im * w[2 * i + 1];
        x[2 * i + 1] = re * w[2 * i + 1] + im * w[2 * i];
    }
}
