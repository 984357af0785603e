/* What the machine has for halves, their panels and their tiles. Start at bf16_tile_run. */
#include "bf16.h"
#include "transpose.h"
#include "widths.h"

#include "../ops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define DOTS __attribute__((target("avx512bf16,avx512bw,avx512vl,avx512dq")))
#define TILES __attribute__((target("amx-tile,amx-bf16")))
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { DOTS_HEIGHT = 14, TILE_ROWS = 16 };

/* ---- what there is --------------------------------------------------------------------------- */

#if defined(__x86_64__)

bool bf16_has(bf16_way way) {
    if (way == BF16_NONE)
        return true;
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           (way == BF16_DOTS || cfx__machine_has_tiles());
}

#else

bool bf16_has(bf16_way way) { return way == BF16_NONE; }

#endif

/* With few rows it is the weights' way from memory that takes the time, and most of a tile would
 * hold nothing. */
bf16_way bf16_best(int64_t m) {
    enum { FEW = 4 };
    if (bf16_has(BF16_TILES) && m > FEW)
        return BF16_TILES;
    return bf16_has(BF16_DOTS) ? BF16_DOTS : BF16_NONE;
}

int bf16_height(bf16_way way) { return way == BF16_TILES ? BF16_TALLEST : DOTS_HEIGHT; }

/* ---- panels ---------------------------------------------------------------------------------- */

#if defined(__x86_64__)

DOTS static void round_vectors(const float *from, int64_t n, uint16_t *to) {
    for (int64_t i = 0; i < n; i += 32) {
        const int64_t left = n - i;
        const __mmask16 low = left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1);
        const __mmask16 high = left >= 32   ? 0xffff
                               : left <= 16 ? 0
                                            : (__mmask16)((1u << (left - 16)) - 1);
        const __m512 a = _mm512_maskz_loadu_ps(low, from + i);
        const __m512 b = _mm512_maskz_loadu_ps(high, from + i + 16);
        _mm512_storeu_si512(to + i, (__m512i)_mm512_cvtne2ps_pbh(b, a));
    }
}

/* Two rows of a panel, number by number side by side. */
DOTS static void pair_rows(const float *first, const float *second, uint16_t *to) {
    const __m512i turns =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    for (int i = 0; i < BF16_WIDTH; i += 16) {
        const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(second + i),
                                                          _mm512_loadu_ps(first + i));
        _mm512_storeu_si512(to + 2 * i, _mm512_permutexvar_epi16(turns, both));
    }
}

#else

static void pair_rows(const float *first, const float *second, uint16_t *to) {
    for (int i = 0; i < BF16_WIDTH; i++) {
        to[2 * i] = cfx__bf16_store(first[i]);
        to[2 * i + 1] = cfx__bf16_store(second[i]);
    }
}

static void round_vectors(const float *from, int64_t n, uint16_t *to) {
    for (int64_t i = 0; i < n; i++)
        to[i] = cfx__bf16_store(from[i]);
    memset(to + n, 0, (size_t)(bf16_depth(n) - n) * sizeof *to);
}

#endif

void bf16_round(const float *from, int64_t n, int64_t depth, uint16_t *to) {
    round_vectors(from, n, to);
    const int64_t done = bf16_depth(n);
    memset(to + done, 0, (size_t)(depth - done) * sizeof *to);
}

size_t bf16_panels_size(int64_t k, int64_t n) {
    return (size_t)((n + BF16_WIDTH - 1) / BF16_WIDTH * BF16_WIDTH * bf16_depth(k)) * 2;
}

/* Columns that lie end to end: pairs are words, which change places. */
static void pack_columns(const tile_matrix *m, int64_t first, int64_t cols, uint16_t *to) {
    enum { RUN = 256 };
    uint16_t room[BF16_WIDTH][RUN];
    for (int64_t i = 0; i < m->k; i += RUN) {
        const int64_t n = m->k - i < RUN ? m->k - i : RUN;
        for (int64_t j = 0; j < cols; j++)
            bf16_round(m->w + i + (first + j) * m->col, n, bf16_depth(n), room[j]);
        memset(room[cols], 0, (size_t)(BF16_WIDTH - cols) * sizeof *room);
        transpose_f32(BF16_WIDTH, bf16_depth(n) / 2, (const float *)room, RUN / 2,
                      (float *)(to + i * BF16_WIDTH), BF16_WIDTH);
    }
}

/* Any other: two rows at a time, brought together where they do not lie so. */
static void pack_rows(const tile_matrix *m, int64_t first, int64_t cols, uint16_t *to) {
    float room[2][BF16_WIDTH] = {{0}};
    const bool lies = m->col == 1 && cols == BF16_WIDTH;
    for (int64_t i = 0; i < bf16_depth(m->k); i += 2, to += 2 * BF16_WIDTH) {
        const float *rows[2] = {room[0], room[1]};
        for (int r = 0; r < 2; r++) {
            const float *row = m->w + first * m->col;
            if (i + r >= m->k || (m->at && m->at[i + r] < 0)) {
                memset(room[r], 0, sizeof room[r]);
                continue;
            }
            row += m->at ? m->at[i + r] : (i + r) * m->row;
            if (lies)
                rows[r] = row;
            for (int64_t j = 0; !lies && j < cols; j++)
                room[r][j] = row[j * m->col];
        }
        pair_rows(rows[0], rows[1], to);
    }
}

/* One panel alone. */
static void make_panel(const tile_matrix *m, int64_t panel, void *panels) {
    const int64_t first = panel * BF16_WIDTH;
    const int64_t cols = m->n - first < BF16_WIDTH ? m->n - first : BF16_WIDTH;
    uint16_t *to = (uint16_t *)panels + first * bf16_depth(m->k);
    if (m->row == 1 && !m->at)
        pack_columns(m, first, cols, to);
    else
        pack_rows(m, first, cols, to);
}

typedef struct {
    const tile_matrix *m;
    void *to;
} packing;

static void pack_range(void *arg, int64_t begin, int64_t end) {
    const packing *p = arg;
    for (int64_t i = begin; i < end; i++)
        make_panel(p->m, i, p->to);
}

void bf16_panels_make(const tile_matrix *m, void *to) {
    packing p = {m, to};
    cfx__parallel((m->n + BF16_WIDTH - 1) / BF16_WIDTH, 1 + 65536 / (m->k * BF16_WIDTH + 1),
                  pack_range, &p);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

#if defined(__x86_64__)

static inline int64_t tap_count(const bf16_tile *t) { return t->taps ? t->taps : 1; }
static inline int64_t tap_at(const bf16_tile *t, int64_t tap) { return t->taps ? t->at[tap] : 0; }

/* All sums in registers. Rows are reached from every third one, as in tile.inc. */
INLINE DOTS void dots(const bf16_tile *t, const int rows) {
    __m512 sum[DOTS_HEIGHT][2];
    const uint16_t *base[(DOTS_HEIGHT + 2) / 3];
    const char *panel = t->panel;
    for (int i = 0; i < rows; i += 3)
        base[i / 3] = t->a + i * t->row;
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < 2; j++)
            sum[i][j] = t->add ? _mm512_load_ps(t->c + i * BF16_WIDTH + 16 * j)
                               : _mm512_setzero_ps();
    for (int64_t tap = 0; tap < tap_count(t); tap++) {
        const int64_t from = tap_at(t, tap);
        for (int64_t p = from; p < from + t->depth; p += 2, panel += 128) {
            const __m512bh left = (__m512bh)_mm512_load_si512(panel);
            const __m512bh right = (__m512bh)_mm512_load_si512(panel + 64);
            UNROLL for (int i = 0; i < rows; i++) {
                int32_t pair;
                memcpy(&pair, base[i / 3] + i % 3 * t->row + p, sizeof pair);
                const __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
                sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, left);
                sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, right);
            }
        }
    }
    UNROLL for (int i = 0; i < rows; i++) {
        _mm512_store_ps(t->c + i * BF16_WIDTH, sum[i][0]);
        _mm512_store_ps(t->c + i * BF16_WIDTH + 16, sum[i][1]);
    }
}

#define ROWS(n) DOTS static void dots_##n(const bf16_tile *t) { dots(t, n); }
ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7)
ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12) ROWS(13) ROWS(14)
#undef ROWS

static void (*const dots_by_rows[DOTS_HEIGHT])(const bf16_tile *t) = {
    dots_1, dots_2, dots_3,  dots_4,  dots_5,  dots_6,  dots_7,
    dots_8, dots_9, dots_10, dots_11, dots_12, dots_13, dots_14};

/* Eight tiles of 16 rows of 64 bytes. */
static const cfx__tile_config all_tiles = {.palette = 1,
                                           .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                           .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

#define AHEAD(t, at)                                                                               \
    for (int q = 0; q < (t)->lines; q++, (at) += TILE_LINE)                                        \
    _mm_prefetch(at, _MM_HINT_T1)

/* Two tiles of rows by two of columns: 0 to 3 are sums, 4 and 5 rows, 6 and 7 columns. */
TILES static void tiles_two(const bf16_tile *t) {
    const int64_t a_bytes = t->row * 2, next = BF16_STEP / 2 * 2 * BF16_WIDTH * 2;
    const char *panel = t->panel, *ahead = t->ahead;
    if (t->add) {
        _tile_loadd(0, t->c, 128);
        _tile_loadd(1, t->c + 16, 128);
        _tile_loadd(2, t->c + TILE_ROWS * BF16_WIDTH, 128);
        _tile_loadd(3, t->c + TILE_ROWS * BF16_WIDTH + 16, 128);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t tap = 0; tap < tap_count(t); tap++) {
        const char *a = (const char *)(t->a + tap_at(t, tap)), *b = a + TILE_ROWS * a_bytes;
        for (int64_t p = 0; p < t->depth; p += BF16_STEP, a += 64, b += 64, panel += next) {
            _tile_loadd(6, panel, 128);
            _tile_loadd(4, a, a_bytes);
            _tile_loadd(7, panel + 64, 128);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(5, b, a_bytes);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
            AHEAD(t, ahead);
        }
    }
    _tile_stored(0, t->c, 128);
    _tile_stored(1, t->c + 16, 128);
    _tile_stored(2, t->c + TILE_ROWS * BF16_WIDTH, 128);
    _tile_stored(3, t->c + TILE_ROWS * BF16_WIDTH + 16, 128);
}

TILES static void tiles_one(const bf16_tile *t) {
    const int64_t a_bytes = t->row * 2, next = BF16_STEP / 2 * 2 * BF16_WIDTH * 2;
    const char *panel = t->panel, *ahead = t->ahead;
    if (t->add) {
        _tile_loadd(0, t->c, 128);
        _tile_loadd(1, t->c + 16, 128);
    } else {
        _tile_zero(0);
        _tile_zero(1);
    }
    for (int64_t tap = 0; tap < tap_count(t); tap++) {
        const char *a = (const char *)(t->a + tap_at(t, tap));
        for (int64_t p = 0; p < t->depth; p += BF16_STEP, a += 64, panel += next) {
            _tile_loadd(4, a, a_bytes);
            _tile_loadd(6, panel, 128);
            _tile_loadd(7, panel + 64, 128);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            AHEAD(t, ahead);
        }
    }
    _tile_stored(0, t->c, 128);
    _tile_stored(1, t->c + 16, 128);
}

TILES static void tiles_begin(void) { _tile_loadconfig(&all_tiles); }
TILES static void tiles_end(void) { _tile_release(); }

void bf16_begin(bf16_way way) {
    if (way == BF16_TILES)
        tiles_begin();
}

void bf16_end(bf16_way way) {
    if (way == BF16_TILES)
        tiles_end();
}

void bf16_tile_run(bf16_way way, const bf16_tile *t, int rows) {
    if (way == BF16_DOTS)
        dots_by_rows[rows - 1](t);
    else if (rows > TILE_ROWS)
        tiles_two(t);
    else
        tiles_one(t);
}

/* The smaller and the larger of two take the second where one is no number, as it should be. */
DOTS void bf16_store(const float *sums, const bf16_result *r) {
    const tile_epilogue *e = r->epilogue;
    const __m512 low = _mm512_set1_ps(e->low), high = _mm512_set1_ps(e->high);
    for (int j = 0; j < r->cols; j += 16) {
        const __mmask16 mask = r->cols - j >= 16 ? 0xffff
                                                 : (__mmask16)((1u << (r->cols - j)) - 1);
        const __m512 bias = r->bias ? _mm512_loadu_ps(r->bias + j) : _mm512_setzero_ps();
        for (int i = 0; i < r->rows; i++) {
            float *c = r->c + i * r->c_row + j;
            __m512 x = _mm512_add_ps(_mm512_load_ps(sums + i * BF16_WIDTH + j), bias);
            if (e->add)
                x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, c));
            if (e->bounded)
                x = _mm512_min_ps(high, _mm512_max_ps(low, x));
            _mm512_mask_storeu_ps(c, mask, x);
        }
    }
}

#else

void bf16_begin(bf16_way way) { (void)way; }
void bf16_end(bf16_way way) { (void)way; }
void bf16_tile_run(bf16_way way, const bf16_tile *t, int rows) { (void)way, (void)t, (void)rows; }
void bf16_store(const float *sums, const bf16_result *r) { (void)sums, (void)r; }

#endif
