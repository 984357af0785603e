/* Rows of A in int8 by panels of narrow weights. A block's products are summed as whole numbers, so
 * that all machines have the same sums; times the scales they are added in float32, block after
 * block. Start at narrow_dots. */
#include "int8.h"
#include "narrow.h"
#include "widths.h"
#include "../ops.h"

#include <math.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define UNROLL _Pragma("GCC unroll 16")

/* How this machine multiplies bytes. */
typedef enum { PLAIN, PAIRS, DOTS } way; /* any; AVX2; AVX-512 VNNI */

static way way_here(void) {
    return vector_bytes() == 64 && int8_has_dots() ? DOTS : vector_bytes() >= 32 ? PAIRS : PLAIN;
}

int narrow_dot_rows(void) {
    const way w = way_here();
    return w == DOTS ? NARROW_DOT_ROWS : w == PAIRS ? 2 : 1;
}

/* ---- rounding -------------------------------------------------------------------------------- */

/* What weights have more than they are where they are multiplied as unsigned numbers. */
static int offset_here(int bits) {
    const way w = way_here();
    return w == DOTS ? 1 << (bits - 1) : w == PAIRS && bits == 4 ? 8 : 0;
}

/* The largest magnitude of a block as the bits of a float, which are in the order of the floats and
 * let NaN win. */
INLINE float farthest(const float *x) {
    uint32_t bits[NARROW_BLOCK], most = 0;
    memcpy(bits, x, sizeof bits);
    for (int i = 0; i < NARROW_BLOCK; i++) {
        const uint32_t b = bits[i] & 0x7fffffffu;
        most = b > most ? b : most;
    }
    float far;
    memcpy(&far, &most, sizeof far);
    return far;
}

/* The numbers, and their sum. */
INLINE int32_t round_block(const float *x, float inverse, int8_t *restrict to) {
    int32_t sum = 0, q[NARROW_BLOCK];
    for (int i = 0; i < NARROW_BLOCK; i++) {
        float v = rintf(x[i] * inverse);
        v = v > -127 ? v : -127;
        q[i] = (int32_t)(v < 127 ? v : 127);
        sum += q[i];
    }
    for (int i = 0; i < NARROW_BLOCK; i++)
        to[i] = (int8_t)q[i];
    return sum;
}

/* As a word of eight numbers of 4 bits has them: 0 2 4 6, 1 3 5 7. */
INLINE void halve(int8_t *q) {
    uint64_t words[NARROW_BLOCK / 8];
    memcpy(words, q, sizeof words);
    for (int i = 0; i < NARROW_BLOCK / 8; i++) {
        uint64_t low = words[i] & 0x00ff00ff00ff00ffu, high = words[i] >> 8 & 0x00ff00ff00ff00ffu;
        low = (low | low >> 8) & 0x0000ffff0000ffffu;
        high = (high | high >> 8) & 0x0000ffff0000ffffu;
        words[i] = ((low | low >> 16) & 0xffffffffu) | (high | high >> 16) << 32;
    }
    memcpy(q, words, sizeof words);
}

/* A row of blocks; `at`: where they begin among the blocks of all rows. */
CFX__SIMD static void round_row(const float *x, int64_t at, int bits, int offset,
                                const narrow_rounded *to) {
    for (int64_t end = at + to->k / NARROW_BLOCK; at < end; at++, x += NARROW_BLOCK) {
        int8_t *q = to->numbers + at * NARROW_BLOCK;
        const float far = farthest(x), scale = (far < 1e-5f ? 1e-5f : far) / 127;
        to->scales[at] = far == INFINITY ? NAN : scale; /* 0 by infinity is among the products */
        to->starts[at] = -offset * round_block(x, 1 / scale, q);
        if (bits == 4)
            halve(q);
    }
}

void narrow_round(const float *a, int64_t row, int64_t first, int64_t n, int bits,
                  const narrow_rounded *to) {
    const int offset = offset_here(bits);
    for (int64_t r = 0; r < n; r++)
        round_row(a + r * row, (first + r) * (to->k / NARROW_BLOCK), bits, offset, to);
}

/* ---- unpacking ------------------------------------------------------------------------------- */

/* Two words of bytes for each word of eight numbers of 4 bits, as unsigned numbers. */
CFX__SIMD static void unpack_words(const uint32_t *from, int64_t n, int64_t width,
                                   uint32_t *restrict to) {
    for (int64_t i = 0; i < n; i++, from += width, to += 2 * width)
        for (int64_t j = 0; j < width; j++) {
            const uint32_t v = from[j] ^ 0x88888888u;
            to[j] = v & 0x0f0f0f0fu;
            to[width + j] = v >> 4 & 0x0f0f0f0fu;
        }
}

CFX__SIMD static void flip_words(const uint32_t *from, int64_t n, uint32_t flip,
                                 uint32_t *restrict to) {
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i] ^ flip;
}

void narrow_unpack_bytes(const narrow_panels *p, int64_t panel, int8_t *to) {
    const uint32_t *from = (const uint32_t *)narrow_panel_at(p, panel);
    const int64_t width = tile_width();
    if (p->bits == 4)
        unpack_words(from, p->k / 8, width, (uint32_t *)to);
    else
        flip_words(from, p->k / 4 * width, offset_here(8) ? 0x80808080u : 0, (uint32_t *)to);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* What a panel is: words of 4 or of 8 bits, or bytes of either. */
typedef enum { WORDS_4, WORDS_8, BYTES_4, BYTES_8, KINDS } kind;

typedef struct {
    const narrow_panels *p;
    const char *numbers;
    const float *scales; /* of the weights: [k / group][tile_width()] */
    const narrow_rounded *x;
    int64_t first;
    float *c;
} tile_work;

typedef void tile_fn(const tile_work *t);

/* Any machine: a row at a time. */
CFX__SIMD static void sum_words(const uint32_t *words, int64_t width, int bits, const int8_t *q,
                                int32_t *restrict sum) {
    for (int i = 0; i < NARROW_BLOCK; i++) {
        const int each = 32 / bits, at = i % each;
        const int a = q[bits == 4 ? i / 8 * 8 + at % 2 * 4 + at / 2 : i];
        const uint32_t *w = words + i / each * width;
        for (int64_t j = 0; j < width; j++)
            sum[j] += ((int32_t)(w[j] << (32 - bits * (at + 1))) >> (32 - bits)) * a;
    }
}

static void plain(const tile_work *t) {
    const narrow_panels *p = t->p;
    const int64_t width = tile_width(), blocks = p->k / NARROW_BLOCK;
    const int64_t size = NARROW_BLOCK * p->bits / 32 * width;
    float part[TILE_WIDEST] = {0};
    memset(t->c, 0, (size_t)width * sizeof *t->c);
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t at = t->first * blocks + b, end = (b + 1) * NARROW_BLOCK;
        int32_t sum[TILE_WIDEST] = {0};
        sum_words((const uint32_t *)t->numbers + b * size, width, p->bits,
                  t->x->numbers + at * NARROW_BLOCK, sum);
        const float *scales = t->scales + b * NARROW_BLOCK / p->group * width;
        for (int64_t j = 0; j < width; j++) {
            part[j] = fmaf((float)sum[j], t->x->scales[at], part[j]);
            if (end % p->group == 0) {
                t->c[j] = fmaf(part[j], scales[j], t->c[j]);
                part[j] = 0;
            }
        }
    }
}

#if defined(__x86_64__)

#define TARGET __attribute__((target("avx512vnni,avx512bw,avx512vl,avx512dq,fma")))

/* Half of each byte, 8 more than the number that it is. */
TARGET INLINE __m512i half(__m512i v) {
    return _mm512_ternarylogic_epi32(v, _mm512_set1_epi8((char)0x88), _mm512_set1_epi8(0x0f), 0x28);
}

TARGET INLINE __m512i four_bytes(const int8_t *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}

/* Eight numbers of each column, those of the left 16 and of the right ones in turn. */
TARGET INLINE void eight_dots(const kind k, const char *at, __m512i *w) {
    if (k == WORDS_4) {
        const __m512i left = _mm512_loadu_si512(at), right = _mm512_loadu_si512(at + 64);
        w[0] = half(left), w[1] = half(right);
        w[2] = half(_mm512_srli_epi32(left, 4)), w[3] = half(_mm512_srli_epi32(right, 4));
        return;
    }
    for (int i = 0; i < 4; i++) {
        w[i] = _mm512_loadu_si512(at + 64 * i);
        if (k == WORDS_8)
            w[i] = _mm512_xor_si512(w[i], _mm512_set1_epi8((char)0x80));
    }
}

TARGET INLINE void dots(const tile_work *t, const kind k, const int rows) {
    const narrow_panels *p = t->p;
    const int64_t blocks = p->k / NARROW_BLOCK, size = k == WORDS_4 ? 128 : 256;
    const int64_t groups = p->k / p->group, each = p->group / NARROW_BLOCK;
    const char *at = t->numbers;
    const int8_t *q = t->x->numbers + t->first * p->k;
    const float *by = t->x->scales + t->first * blocks, *scales = t->scales;
    const int32_t *starts = t->x->starts + t->first * blocks;
    __m512 total[NARROW_DOT_ROWS][2], part[NARROW_DOT_ROWS][2];
    UNROLL for (int r = 0; r < rows; r++)
        total[r][0] = total[r][1] = _mm512_setzero_ps();
    for (int64_t g = 0; g < groups; g++, scales += 32) {
        UNROLL for (int r = 0; r < rows; r++)
            part[r][0] = part[r][1] = _mm512_setzero_ps();
        for (int64_t b = g * each; b < (g + 1) * each; b++) {
            __m512i sum[NARROW_DOT_ROWS][2], w[4];
            UNROLL for (int r = 0; r < rows; r++)
                sum[r][0] = sum[r][1] = _mm512_set1_epi32(starts[r * blocks + b]);
            UNROLL for (int i = 0; i < NARROW_BLOCK; i += 8, at += size) {
                eight_dots(k, at, w);
                UNROLL for (int r = 0; r < rows; r++) {
                    const int8_t *a = q + r * p->k + b * NARROW_BLOCK + i;
                    const __m512i low = four_bytes(a), high = four_bytes(a + 4);
                    sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], w[0], low);
                    sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], w[1], low);
                    sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], w[2], high);
                    sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], w[3], high);
                }
            }
            UNROLL for (int r = 0; r < rows; r++) {
                const __m512 x = _mm512_set1_ps(by[r * blocks + b]);
                part[r][0] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][0]), x, part[r][0]);
                part[r][1] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][1]), x, part[r][1]);
            }
        }
        const __m512 left = _mm512_loadu_ps(scales), right = _mm512_loadu_ps(scales + 16);
        UNROLL for (int r = 0; r < rows; r++) {
            total[r][0] = _mm512_fmadd_ps(part[r][0], left, total[r][0]);
            total[r][1] = _mm512_fmadd_ps(part[r][1], right, total[r][1]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        _mm512_storeu_ps(t->c + r * 32, total[r][0]);
        _mm512_storeu_ps(t->c + r * 32 + 16, total[r][1]);
    }
}

#define ROWS(n)                                                                                    \
    TARGET static void dots_w4_##n(const tile_work *t) { dots(t, WORDS_4, n); }                    \
    TARGET static void dots_w8_##n(const tile_work *t) { dots(t, WORDS_8, n); }                    \
    TARGET static void dots_b_##n(const tile_work *t) { dots(t, BYTES_8, n); }
ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#undef ROWS
#undef TARGET

#define EACH(name) {name##1, name##2, name##3, name##4, name##5, name##6}
static tile_fn *const by_dots[KINDS][NARROW_DOT_ROWS] = {EACH(dots_w4_), EACH(dots_w8_),
                                                         EACH(dots_b_), EACH(dots_b_)};
#undef EACH

#define TARGET __attribute__((target("avx2,fma")))

/* Adds products of four bytes of eight columns. Of 4 bits: unsigned weights, in sums of 16 bits
 * that hold a block's. Of 8: magnitudes of the weights by inputs with their signs, which do not
 * saturate, in sums of 32 bits. */
TARGET INLINE __m256i add_four(const bool small, __m256i sum, __m256i w, __m256i a) {
    if (small)
        return _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, a));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* Eight numbers of each of 16 columns, as eight_dots has them, of a panel of so many. */
TARGET INLINE void eight_pairs(const kind k, const char *at, int64_t width, __m256i *w) {
    const __m256i low = _mm256_set1_epi8(0x0f);
    for (int i = 0; i < (k == WORDS_4 ? 2 : 4); i++)
        w[i] = _mm256_loadu_si256((const __m256i *)(at + i / 2 * 4 * width + i % 2 * 32));
    for (int i = 0; k == WORDS_4 && i < 2; i++) {
        const __m256i v = _mm256_xor_si256(w[i], _mm256_set1_epi8((char)0x88));
        w[i] = _mm256_and_si256(v, low);
        w[i + 2] = _mm256_and_si256(_mm256_srli_epi32(v, 4), low);
    }
}

TARGET INLINE __m256i four_of(const int8_t *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm256_set1_epi32(four);
}

/* Columns [col, col + 16) of a panel. */
TARGET INLINE void pairs_at(const tile_work *t, int64_t col, const kind k, const int rows) {
    const narrow_panels *p = t->p;
    const bool small = k == WORDS_4 || k == BYTES_4;
    const int64_t blocks = p->k / NARROW_BLOCK, width = tile_width();
    const int64_t groups = p->k / p->group, each = p->group / NARROW_BLOCK;
    const int64_t size = (k == WORDS_4 ? 4 : 8) * width;
    const char *at = t->numbers + 4 * col;
    const int8_t *q = t->x->numbers + t->first * p->k;
    const float *by = t->x->scales + t->first * blocks, *scales = t->scales + col;
    const int32_t *starts = t->x->starts + t->first * blocks;
    __m256 total[2][2], part[2][2];
    UNROLL for (int r = 0; r < rows; r++)
        total[r][0] = total[r][1] = _mm256_setzero_ps();
    for (int64_t g = 0; g < groups; g++, scales += width) {
        UNROLL for (int r = 0; r < rows; r++)
            part[r][0] = part[r][1] = _mm256_setzero_ps();
        for (int64_t b = g * each; b < (g + 1) * each; b++) {
            __m256i sum[2][2], w[4];
            UNROLL for (int r = 0; r < rows; r++)
                sum[r][0] = sum[r][1] = _mm256_setzero_si256();
            UNROLL for (int i = 0; i < NARROW_BLOCK; i += 8, at += size) {
                eight_pairs(k, at, width, w);
                UNROLL for (int r = 0; r < rows; r++)
                    UNROLL for (int h = 0; h < 4; h++)
                        sum[r][h % 2] = add_four(small, sum[r][h % 2], w[h],
                                                 four_of(q + r * p->k + b * NARROW_BLOCK + i +
                                                         h / 2 * 4));
            }
            UNROLL for (int r = 0; r < rows; r++)
                UNROLL for (int j = 0; j < 2; j++) {
                    __m256i all = sum[r][j];
                    if (small)
                        all = _mm256_add_epi32(_mm256_madd_epi16(all, _mm256_set1_epi16(1)),
                                               _mm256_set1_epi32(starts[r * blocks + b]));
                    part[r][j] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(all),
                                                 _mm256_set1_ps(by[r * blocks + b]), part[r][j]);
                }
        }
        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int j = 0; j < 2; j++)
                total[r][j] = _mm256_fmadd_ps(part[r][j], _mm256_loadu_ps(scales + 8 * j),
                                              total[r][j]);
    }
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int j = 0; j < 2; j++)
            _mm256_storeu_ps(t->c + r * width + col + 8 * j, total[r][j]);
}

TARGET INLINE void pairs(const tile_work *t, const kind k, const int rows) {
    for (int64_t col = 0; col < tile_width(); col += 16)
        pairs_at(t, col, k, rows);
}

#define ROWS(n)                                                                                    \
    TARGET static void pairs_w4_##n(const tile_work *t) { pairs(t, WORDS_4, n); }                  \
    TARGET static void pairs_b4_##n(const tile_work *t) { pairs(t, BYTES_4, n); }                  \
    TARGET static void pairs_8_##n(const tile_work *t) { pairs(t, BYTES_8, n); }
ROWS(1) ROWS(2)
#undef ROWS
#undef TARGET

static tile_fn *const by_pairs[KINDS][2] = {{pairs_w4_1, pairs_w4_2},
                                            {pairs_8_1, pairs_8_2},
                                            {pairs_b4_1, pairs_b4_2},
                                            {pairs_8_1, pairs_8_2}};
#endif

void narrow_dots(const narrow_panels *p, int64_t panel, const int8_t *bytes,
                 const narrow_rounded *x, int64_t first, int rows, float *c) {
    const int64_t width = tile_width(), groups = p->k / p->group;
    const way here = way_here();
    tile_work t = {.p = p,
                   .numbers = bytes ? (const char *)bytes : narrow_panel_at(p, panel),
                   .scales = p->scales + panel * groups * width,
                   .x = x,
                   .first = first,
                   .c = c};
#if defined(__x86_64__)
    const kind k = (kind)((bytes ? BYTES_4 : WORDS_4) + (p->bits == 8));
    if (here != PLAIN) {
        (here == DOTS ? by_dots[k][rows - 1] : by_pairs[k][rows - 1])(&t);
        return;
    }
#endif
    t.numbers = narrow_panel_at(p, panel);
    for (int r = 0; r < rows; r++, t.first++, t.c += width)
        plain(&t);
}
