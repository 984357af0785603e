/* int8: layers in integers: bytes times signed bytes, summed exactly in 32 bits.
 *
 * Weights are panels of 16 columns: a row of A is some runs of bytes, each filled up to whole
 * groups of 4, and the 4 numbers of a group in one column lie together. Where the machine adds four
 * products of bytes at once, a vector does so for 16 columns. */

enum { NAME_INT8_GROUP = 4, NAME_INT8_ROWS = 12, NAME_INT8_COLS = 32, NAME_INT8_NEAR = 1 << 18 };

/* What becomes of the sums of a column: v = sum * scale + bias, then what is added (bytes of
 * elsewhere, `added` each), bounds. The result is v itself, or rounded to bytes; with a `post` that
 * is done to v first, and v * steps + zero is rounded. */
typedef struct {
    const int32_t *start; /* what sums begin with: the input's zero is taken away from them */
    const float *scale, *bias;
    int rounds;           /* the result is bytes; else floats */
    const uint8_t *add;   /* NULL: nothing; may be the result itself */
    ptrdiff_t add_row;
    float added, low, high;
    void (*post)(float *x, ptrdiff_t n); /* NULL: none */
    float steps, zero;
} NAME_int8_finish;

/* The sums of up to NAME_INT8_ROWS rows, `row` bytes apart, by two panels or by one: a row is
 * `runs` runs of `groups` groups, which begin at `at`. */
typedef struct {
    const uint8_t *a;
    ptrdiff_t row, runs, groups;
    const ptrdiff_t *at;
    const int8_t *left, *right;
} NAME_int8_tile;

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>
NAME_INLINE void NAME_int8_dots(const NAME_int8_tile *t, const int rows, const int vecs,
                                int32_t *to) {
    __m512i sum[NAME_INT8_ROWS][2];
    const __m512i *left = (const __m512i *)(const void *)t->left;
    const __m512i *right = (const __m512i *)(const void *)t->right;
    NAME_UNROLL
    for (int i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = _mm512_setzero_si512();
    for (ptrdiff_t run = 0; run < t->runs; run++) {
        const uint8_t *a = t->a + t->at[run];
        for (ptrdiff_t g = 0; g < t->groups; g++, a += NAME_INT8_GROUP, left++, right++) {
            const __m512i l = _mm512_loadu_si512(left);
            const __m512i r = vecs == 2 ? _mm512_loadu_si512(right) : l;
            NAME_UNROLL
            for (int i = 0; i < rows; i++) {
                int32_t four;
                memcpy(&four, a + i * t->row, sizeof four);
                const __m512i x = _mm512_set1_epi32(four);
                sum[i][0] = _mm512_dpbusd_epi32(sum[i][0], x, l);
                if (vecs == 2)
                    sum[i][1] = _mm512_dpbusd_epi32(sum[i][1], x, r);
            }
        }
    }
    NAME_UNROLL
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vecs; j++)
            _mm512_storeu_si512(to + i * NAME_INT8_COLS + j * NAME_PANEL, sum[i][j]);
}
#endif

static void NAME_int8_sums(const NAME_int8_tile *t, int rows, int half, int32_t *to) {
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#define NAME_INT8_CASE(n)                                                                          \
    case n:                                                                                        \
        if (half)                                                                                  \
            NAME_int8_dots(t, n, 1, to);                                                           \
        else                                                                                       \
            NAME_int8_dots(t, n, 2, to);                                                           \
        break;
    switch (rows) {
        NAME_INT8_CASE(1)
        NAME_INT8_CASE(2)
        NAME_INT8_CASE(3)
        NAME_INT8_CASE(4)
        NAME_INT8_CASE(5)
        NAME_INT8_CASE(6)
        NAME_INT8_CASE(7)
        NAME_INT8_CASE(8)
        NAME_INT8_CASE(9)
        NAME_INT8_CASE(10)
        NAME_INT8_CASE(11)
        NAME_INT8_CASE(12)
    }
#else
    for (int i = 0; i < rows; i++, to += NAME_INT8_COLS)
        for (int panel = 0; panel < (half ? 1 : 2); panel++) {
            const int8_t *w = panel ? t->right : t->left;
            int32_t sum[NAME_PANEL] = {0};
            for (ptrdiff_t run = 0; run < t->runs; run++) {
                const uint8_t *a = t->a + i * t->row + t->at[run];
                for (ptrdiff_t g = 0; g < t->groups; g++, a += NAME_INT8_GROUP)
                    for (int j = 0; j < NAME_PANEL; j++, w += NAME_INT8_GROUP)
                        sum[j] += a[0] * w[0] + a[1] * w[1] + a[2] * w[2] + a[3] * w[3];
            }
            memcpy(to + panel * NAME_PANEL, sum, sizeof sum);
        }
#endif
}

NAME_INLINE void NAME_int8_end_of(const NAME_int8_finish *f, const int32_t *sum, const int n,
                                  ptrdiff_t row, ptrdiff_t col, void *c) {
    const int32_t *start = f->start + col;
    const float *scale = f->scale + col, *bias = f->bias + col;
    const uint8_t *add = f->add ? f->add + row * f->add_row + col : NULL;
    const float added = f->added, least = f->low, most = f->high;
    float v[NAME_INT8_COLS];
    for (int j = 0; j < n; j++)
        v[j] = (float)(sum[j] + start[j]) * scale[j] + bias[j];
    for (int j = 0; add && j < n; j++)
        v[j] += (float)add[j] * added;
    for (int j = 0; j < n; j++) {
        const float low = v[j] < least ? least : v[j];
        v[j] = low > most ? most : low;
    }
    if (f->post) {
        f->post(v, n);
        for (int j = 0; f->rounds && j < n; j++) {
            const float x = rintf(v[j] * f->steps) + f->zero, low = x > 0 ? x : 0;
            v[j] = low < 255 ? low : 255;
        }
    }
    if (!f->rounds) {
        memcpy(c, v, (size_t)n * sizeof *v);
        return;
    }
    uint8_t bytes[NAME_INT8_COLS]; /* beside what c may overlap with */
    for (int j = 0; j < n; j++) /* NaN, which none should be, is 0 */
        bytes[j] = (uint8_t)(int32_t)rintf(v[j] > 0 ? v[j] : 0);
    memcpy(c, bytes, (size_t)n);
}

/* The results of n columns of a row from their sums; n is NAME_INT8_COLS at most. */
static void NAME_int8_end(const NAME_int8_finish *f, const int32_t *sum, int n, ptrdiff_t row,
                          ptrdiff_t col, void *c) {
    if (n == NAME_INT8_COLS)
        NAME_int8_end_of(f, sum, NAME_INT8_COLS, row, col, c);
    else
        NAME_int8_end_of(f, sum, n, row, col, c);
}

/* One line of a group's channels with its border of zeros of the input: [width][ic]. */
static void NAME_int8_line(const NAME_conv_shape *s, const uint8_t *x, int zero, ptrdiff_t y,
                           uint8_t *to) {
    const ptrdiff_t ic = s->ic / s->groups, width = NAME_conv_width(s), pad = s->pad[2];
    const ptrdiff_t inside = width - pad < s->in[2] ? width - pad : s->in[2];
    if (y < 0 || y >= s->in[1] || inside <= 0) {
        memset(to, zero, (size_t)(width * ic));
        return;
    }
    memset(to, zero, (size_t)(pad * ic));
    memset(to + (pad + inside) * ic, zero, (size_t)((width - pad - inside) * ic));
    to += pad * ic;
    x += y * s->x_stride[3];
    if (s->x_stride[4] == ic)
        memcpy(to, x, (size_t)(inside * ic));
    else
        for (ptrdiff_t i = 0; i < inside; i++)
            memcpy(to + i * ic, x + i * s->x_stride[4], (size_t)ic);
}

/* Points [begin, begin + rows) of a line of the result at columns [col, ...) of a group. */
static void NAME_int8_points(const NAME_conv_shape *s, const NAME_int8_tile *t, int rows,
                             ptrdiff_t row, ptrdiff_t group, ptrdiff_t col, void *y,
                             const NAME_int8_finish *f) {
    int32_t sums[NAME_INT8_ROWS * NAME_INT8_COLS];
    const ptrdiff_t oc = s->oc / s->groups, first = group * oc + col;
    const int cols = oc - col < NAME_INT8_COLS ? (int)(oc - col) : NAME_INT8_COLS;
    NAME_int8_sums(t, rows, cols <= NAME_PANEL, sums);
    for (int i = 0; i < rows; i++) {
        const ptrdiff_t at = (row + i) * s->y_row + first;
        NAME_int8_end(f, sums + i * NAME_INT8_COLS, cols, row + i, first,
                      f->rounds ? (void *)((uint8_t *)y + at) : (void *)((float *)y + at));
    }
}

/* A convolution in one or two dimensions of bytes that lie channels last (x_stride[1] is 1), or a
 * product, whose rows are the points of a line. `zero` stands for what is outside. Weights
 * are panels of [taps * ic][oc] for each group, four numbers of a column side by side. The scratch
 * holds where runs of taps begin, and lines of x with their borders. */
static void NAME_int8_conv(const NAME_conv_shape *s, const uint8_t *x, int zero,
                           const int8_t *panels, void *y, const NAME_int8_finish *f,
                           uint8_t *scratch) {
    const ptrdiff_t ic = s->ic / s->groups, oc = s->oc / s->groups, *k = s->kernel;
    const ptrdiff_t steps = s->dilation[2] == 1 ? 1 : k[2], length = steps == 1 ? k[2] * ic : ic;
    const int whole = NAME_conv_whole(s) && length % NAME_INT8_GROUP == 0;
    const ptrdiff_t wide = NAME_conv_width(s) * ic, line = whole ? s->x_stride[3] : wide;
    const ptrdiff_t fit = NAME_INT8_NEAR / (wide * s->stride[1] + 1);
    const ptrdiff_t most = fit < 1 ? 1 : fit < s->out[1] ? fit : s->out[1];
    const ptrdiff_t strips = (oc + NAME_INT8_COLS - 1) / NAME_INT8_COLS;
    const ptrdiff_t tiles = (s->out[2] + NAME_INT8_ROWS - 1) / NAME_INT8_ROWS;
    ptrdiff_t *at = (ptrdiff_t *)(void *)scratch;
    uint8_t *lines = scratch + k[1] * k[2] * (ptrdiff_t)sizeof *at;
    const NAME_int8_tile tile = {.row = s->stride[2] * ic, .runs = k[1] * steps, .at = at,
                                 .groups = (length + NAME_INT8_GROUP - 1) / NAME_INT8_GROUP};
    const ptrdiff_t panel = tile.runs * tile.groups * NAME_INT8_GROUP * NAME_PANEL;
    for (ptrdiff_t i = 0; i < tile.runs; i++)
        at[i] = i / steps * s->dilation[1] * line + i % steps * s->dilation[2] * ic;
    for (ptrdiff_t i = 0; i < s->batch * s->groups; i++) {
        const ptrdiff_t image = i / s->groups, group = i % s->groups;
        const uint8_t *from = x + image * s->x_stride[0] + group * ic;
        const int8_t *w = panels + group * ((oc + NAME_PANEL - 1) / NAME_PANEL) * panel;
        for (ptrdiff_t top = 0, n; top < s->out[1]; top += n) {
            const ptrdiff_t first = top * s->stride[1] - s->pad[1];
            n = s->out[1] - top < most ? s->out[1] - top : most;
            const ptrdiff_t under = whole ? 0 : NAME_conv_lines(s, n);
            for (ptrdiff_t q = 0; q < under; q++)
                NAME_int8_line(s, from, zero, first + q, lines + q * wide);
            if (!whole) /* read behind the last run */
                memset(lines + under * wide, 0, NAME_INT8_GROUP);
            NAME_PARALLEL
            for (ptrdiff_t q = 0; q < strips * n; q++) {
                NAME_int8_tile t = tile;
                t.left = w + q / n * NAME_INT8_COLS / NAME_PANEL * panel;
                t.right = t.left + panel;
                for (ptrdiff_t p = 0; p < tiles; p++) {
                    const ptrdiff_t begin = s->out[2] * p / tiles;
                    t.a = (whole ? from + first * line : lines) + q % n * s->stride[1] * line +
                          begin * t.row;
                    NAME_int8_points(s, &t, (int)(s->out[2] * (p + 1) / tiles - begin),
                                     (image * s->out[1] + top + q % n) * s->out[2] + begin, group,
                                     q / n * NAME_INT8_COLS, y, f);
                }
            }
        }
    }
}

/* A convolution channel by channel, in one or two dimensions; weights are [taps][channels]. */
static void NAME_int8_depthwise(const NAME_conv_shape *s, const uint8_t *x, int zero,
                                const int8_t *w, void *y, const NAME_int8_finish *f) {
    NAME_PARALLEL
    for (ptrdiff_t row = 0; row < s->batch * s->out[1] * s->out[2]; row++) {
        const ptrdiff_t image = row / s->out[2] / s->out[1];
        const ptrdiff_t oy = row / s->out[2] % s->out[1] * s->stride[1] - s->pad[1];
        const ptrdiff_t ox = row % s->out[2] * s->stride[2] - s->pad[2];
        for (ptrdiff_t c = 0; c < s->oc; c += NAME_INT8_COLS) {
            const int n = s->oc - c < NAME_INT8_COLS ? (int)(s->oc - c) : NAME_INT8_COLS;
            int32_t sum[NAME_INT8_COLS] = {0};
            for (ptrdiff_t tap = 0; tap < s->kernel[1] * s->kernel[2]; tap++) {
                const ptrdiff_t sy = oy + tap / s->kernel[2] * s->dilation[1];
                const ptrdiff_t sx = ox + tap % s->kernel[2] * s->dilation[2];
                const int8_t *by = w + tap * s->oc + c;
                const int inside = sy >= 0 && sy < s->in[1] && sx >= 0 && sx < s->in[2];
                const uint8_t *at = x + (inside ? image * s->x_stride[0] + sy * s->x_stride[3] +
                                                      sx * s->x_stride[4] + c
                                                : 0);
                for (int j = 0; j < n; j++)
                    sum[j] += (inside ? at[j] : zero) * by[j];
            }
            const ptrdiff_t at = row * s->y_row + c;
            NAME_int8_end(f, sum, n, row, c,
                          f->rounds ? (void *)((uint8_t *)y + at) : (void *)((float *)y + at));
        }
    }
}

/* Rounds rows of n floats by the range that all have together, as choose_qparams does, to rows
 * without gaps; gives the scale, NaN where a number is none, and the zero. */
static float NAME_int8_round(const float *x, ptrdiff_t rows, ptrdiff_t n, ptrdiff_t x_row,
                             uint8_t *to, int *zero) {
    float low = 0, high = 0, odd = 0;
    for (ptrdiff_t i = 0; i < rows; i++)
        for (ptrdiff_t j = 0; j < n; j++) {
            const float v = x[i * x_row + j];
            low = v < low ? v : low;
            high = v > high ? v : high;
            odd += v * 0;
        }
    float scale = (high - low) / 255 + odd;
    *zero = 0;
    if (!(scale < INFINITY)) {
        memset(to, 0, (size_t)(rows * n));
        return NAN;
    }
    scale = scale > 0x1p-23f ? scale : 0x1p-23f;
    const float at = -rintf(low / scale), shift = at < 0 ? 0 : at > 255 ? 255 : at;
    const float inverse = (float)(1 / (double)scale);
    *zero = (int)shift;
    for (ptrdiff_t i = 0; i < rows; i++)
        for (ptrdiff_t j = 0; j < n; j++) {
            const float v = rintf(x[i * x_row + j] * inverse) + shift, least = v > 0 ? v : 0;
            to[i * n + j] = (uint8_t)(int)(least < 255 ? least : 255);
        }
    return scale;
}

/* A product whose input is rounded by its own range when it comes: y [m, n] of floats. `f` has the
 * scales of the weights alone, `sums` those of their columns. */
static void NAME_int8_dynamic(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, const float *x,
                              ptrdiff_t x_row, const int8_t *panels, const int32_t *sums, float *y,
                              ptrdiff_t y_row, const NAME_int8_finish *f, uint8_t *scratch) {
    float *scale = (float *)(void *)scratch;
    int32_t *start = (int32_t *)(void *)(scale + n);
    uint8_t *bytes = scratch + (2 * n + n % 2 * 2) * (ptrdiff_t)sizeof *scale;
    const ptrdiff_t whole = (m * k + 15) / 16 * 16;
    int zero;
    const float by = NAME_int8_round(x, m, k, x_row, bytes, &zero);
    const NAME_conv_shape s = {.batch = 1, .groups = 1, .ic = k, .oc = n, .in = {1, 1, m},
                               .out = {1, 1, m}, .kernel = {1, 1, 1}, .stride = {1, 1, 1},
                               .dilation = {1, 1, 1}, .x_stride = {m * k, 1, m * k, m * k, k},
                               .y_row = y_row};
    NAME_int8_finish now = *f;
    for (ptrdiff_t j = 0; j < n; j++) {
        scale[j] = f->scale[j] * by;
        start[j] = -zero * sums[j];
    }
    now.scale = scale;
    now.start = start;
    NAME_int8_conv(&s, bytes, zero, panels, y, &now, bytes + whole);
}
