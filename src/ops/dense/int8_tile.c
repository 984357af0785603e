/* Tiles of integer products: by the machine's dot products of bytes where it has them, else by
 * products of 16 bits. */
#include "int8.h"

#include "../ops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { GROUP = 4 };

/* Whether the machine adds four products of bytes at once without saturating on the way. */
static bool has_dots(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

int int8_columns(void) { return has_dots() ? INT8_COLUMNS : 16; }

/* ---- weights --------------------------------------------------------------------------------- */

/* A panel: [depth / GROUP][columns][GROUP], bytes with dot products, else 16 bits. */
static void pack_panel(int8_weights *to, int64_t panel, const int8_t *w, int64_t row, int64_t col) {
    const int64_t columns = int8_columns(), first = panel * columns;
    const bool bytes = has_dots();
    int8_t *b = (int8_t *)to->panels + panel * columns * to->depth;
    int16_t *s = (int16_t *)to->panels + panel * columns * to->depth;
    for (int64_t i = 0; i < to->depth; i++)
        for (int64_t j = 0; j < columns; j++) {
            const bool inside = i < to->k && first + j < to->n;
            const int8_t q = inside ? w[i * row + (first + j) * col] : 0;
            const int64_t at = (i / GROUP * columns + j) * GROUP + i % GROUP;
            if (bytes)
                b[at] = q;
            else
                s[at] = q;
            if (inside)
                to->sums[first + j] += q;
        }
}

bool int8_pack(int8_weights *to, int64_t k, int64_t n, const int8_t *w, int64_t row, int64_t col) {
    const int64_t columns = int8_columns(), panels = (n + columns - 1) / columns;
    *to = (int8_weights){.k = k, .n = n, .depth = (k + GROUP - 1) / GROUP * GROUP};
    const size_t size = (size_t)(panels * columns * to->depth) * (has_dots() ? 1 : 2);
    to->panels = cfx__alloc_try(size);
    to->sums = to->panels ? cfx__alloc0((size_t)(panels * columns) * sizeof *to->sums) : NULL;
    for (int64_t p = 0; to->sums && p < panels; p++)
        pack_panel(to, p, w, row, col);
    return to->sums != NULL;
}

void int8_weights_free(int8_weights *w) {
    cfx__free(w->panels);
    cfx__free(w->sums);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* Any machine: four products of a group, summed as the compiler likes. */
CFX__SIMD static void tile_plain(const int16_t *b, int64_t groups, int rows, const uint8_t *a,
                                 int64_t stride, int32_t *c) {
    enum { COLUMNS = 16 };
    for (int r = 0; r < rows; r++) {
        int32_t sum[COLUMNS] = {0};
        for (int64_t g = 0; g < groups; g++) {
            const uint8_t *x = a + r * stride + g * GROUP;
            const int16_t *w = b + g * COLUMNS * GROUP;
            for (int j = 0; j < COLUMNS; j++)
                sum[j] += x[0] * w[j * GROUP] + x[1] * w[j * GROUP + 1] + x[2] * w[j * GROUP + 2] +
                          x[3] * w[j * GROUP + 3];
        }
        memcpy(c + r * COLUMNS, sum, sizeof sum);
    }
}

#if defined(__x86_64__)

/* A tile of `rows` rows by four vectors, all in registers. */
#define DOTS __attribute__((target("avx512vnni,avx512bw,avx512vl")))

static inline __attribute__((always_inline)) DOTS void dots(int rows, const int8_t *b,
                                                            int64_t groups, const uint8_t *a,
                                                            int64_t stride, int32_t *c) {
    enum { VECTORS = INT8_COLUMNS / 16 };
    __m512i sum[INT8_ROWS][VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            sum[r][v] = _mm512_setzero_si512();
    for (int64_t g = 0; g < groups; g++) {
        __m512i w[VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            w[v] = _mm512_loadu_si512(b + (g * VECTORS + v) * 64);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, a + r * stride + g * GROUP, sizeof four);
            const __m512i x = _mm512_set1_epi32(four);
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++)
                sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], x, w[v]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            _mm512_storeu_si512(c + (r * VECTORS + v) * 16, sum[r][v]);
}

typedef void dots_fn(const int8_t *b, int64_t groups, const uint8_t *a, int64_t stride, int32_t *c);

#define DOTS_OF(n)                                                                                 \
    DOTS static void dots_##n(const int8_t *b, int64_t groups, const uint8_t *a, int64_t stride,   \
                              int32_t *c) {                                                        \
        dots(n, b, groups, a, stride, c);                                                          \
    }
DOTS_OF(1)
DOTS_OF(2)
DOTS_OF(3)
DOTS_OF(4)
DOTS_OF(5)
DOTS_OF(6)

static dots_fn *const dots_by_rows[INT8_ROWS] = {dots_1, dots_2, dots_3, dots_4, dots_5, dots_6};

#endif

void int8_tile(const int8_weights *w, int64_t panel, int rows, const uint8_t *a, int64_t stride,
               int32_t *c) {
    const int64_t at = panel * int8_columns() * w->depth;
#if defined(__x86_64__)
    if (has_dots()) {
        dots_by_rows[rows - 1]((const int8_t *)w->panels + at, w->depth / GROUP, a, stride, c);
        return;
    }
#endif
    tile_plain((const int16_t *)w->panels + at, w->depth / GROUP, rows, a, stride, c);
}
