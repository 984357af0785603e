/* Kernels for each kind of machine, panels, and epilogues. Start at tile_run. */
#include "tile.h"
#include "transpose.h"
#include "widths.h"

#include <cfx/ops.h>

#include "../ops.h"
#include "../vecmath.h"

#if defined(__x86_64__)
#include "../vec16.h"
#endif

#define UNROLL _Pragma("GCC unroll 16")
#define HELD(x) ((x) < 0 ? 0 : (x) > 6 ? 6 : (x))

enum { HALF = 3 }; /* kernels of half a panel, beside those by cfx_precision */

typedef float four __attribute__((vector_size(16)));

static inline four f16_one_by_one(const void *at) {
    const uint16_t *h = at;
    return (four){cfx__f16_load(h[0]), cfx__f16_load(h[1]), cfx__f16_load(h[2]),
                  cfx__f16_load(h[3])};
}

/* A vector of the float16 numbers at p. */
#define F16_w16(p) f16_one_by_one(p)
#define F16_w32(p) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#define F16_w64(p) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))

/* Rows of a tile, whose sums are two vectors each, in registers. */
#define HEIGHT_OF(bytes) ((bytes) == 64 ? 14 : (bytes) == 32 ? 6 : 4)

#if defined(__x86_64__)
/* 1 / (1 + e^-x) = 1 / (1 + 2^n 2^r): n whole, a polynomial in r, and an estimate of the quotient
 * that is made better once. Below -87, 0: it would be subnormal. */
__attribute__((target("avx512f"))) INLINE __m512 logistic(__m512 x) {
    const __m512 by = _mm512_set1_ps(-0x1.715476p+0f), one = _mm512_set1_ps(1);
    const __m512 at = _mm512_min_ps(_mm512_set1_ps(88), x); /* the second where it is no number */
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(at, by),
                                          _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512 r = _mm512_fmsub_ps(at, by, n);
    __m512 p = _mm512_set1_ps(0x1.5c08e6p-10f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.3d0c52p-7f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.c6b6e4p-5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.ebf918p-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.62e428p-1f));
    p = _mm512_fmadd_ps(p, r, one);
    const __m512 d = _mm512_add_ps(one, _mm512_scalef_ps(p, n)), guess = _mm512_rcp14_ps(d);
    const __mmask16 large = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87), _CMP_NLT_UQ);
    return _mm512_maskz_fmadd_ps(large, guess, _mm512_fnmadd_ps(d, guess, one), guess);
}
#endif

#define BODY "tile.inc"
#include "widths.inc"

int vector_bytes(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return 64;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) /* and so F16C */
        return 32;
#endif
    return 16;
}

int tile_width(void) { return vector_bytes() / 2; }
int tile_height(void) { return HEIGHT_OF(vector_bytes()); }

static void run_kernel(const tile *t, int rows, int kind) {
    BY_WIDTH(vector_bytes(), kernels, [kind][rows - 1])(t);
}

/* A panel of which only some columns are wanted is computed beside the result; where the left
 * vector has all of them, that alone is. */
void tile_run(const tile *t, int rows) {
    const int width = tile_width();
    const bool half = t->cols <= width / 2 && t->kept == CFX_PRECISION_F32;
    const int kind = half ? HALF : (int)t->kept;
    if (t->cols == (half ? width / 2 : width)) {
        run_kernel(t, rows, kind);
        return;
    }
    float room[TILE_TALLEST * TILE_WIDEST];
    tile beside = *t;
    beside.c = room;
    beside.c_row = width;
    if (t->add)
        memset(room, 0, sizeof room);
    for (int i = 0; t->add && i < rows; i++)
        memcpy(room + i * width, t->c + i * t->c_row, (size_t)t->cols * sizeof *room);
    run_kernel(&beside, rows, kind);
    for (int i = 0; i < rows; i++)
        memcpy(t->c + i * t->c_row, room + i * width, (size_t)t->cols * sizeof *room);
}

/* ---- panels ---------------------------------------------------------------------------------- */

typedef struct {
    const tile_matrix *m;
    char *to;
} packing;

size_t tile_panels_size(int64_t k, int64_t n, cfx_precision kept) {
    const int64_t width = tile_width();
    return (size_t)((n + width - 1) / width * width * k) * (tile_bytes(kept));
}

/* Rows [i, i + rows) of a panel. */
static void pack_rows(const tile_matrix *m, int64_t i, int64_t rows, int64_t first, int64_t cols,
                      float *to) {
    const int64_t width = tile_width();
    const float *from[TILE_TALLEST + 2];
    for (int64_t r = 0; r < rows; r++)
        from[r] = m->w + (m->at ? m->at[i + r] : (i + r) * m->row) + first * m->col;
    if (cols < width)
        memset(to, 0, (size_t)(rows * width) * sizeof *to);
    if (m->col == 1)
        for (int64_t r = 0; r < rows; r++)
            memcpy(to + r * width, from[r], (size_t)cols * sizeof *to);
    else
        for (int64_t j = 0; j < cols; j++)
            for (int64_t r = 0; r < rows; r++)
                to[r * width + j] = from[r][j * m->col];
}

/* Some rows of the panel at a time, so that columns of the matrix are read in runs. */
static void pack_panel(const packing *p, int64_t panel) {
    enum { RUN = TILE_TALLEST + 2 };
    const tile_matrix *m = p->m;
    const int64_t width = tile_width(), first = panel * width;
    const int64_t cols = m->n - first < width ? m->n - first : width;
    if (m->row == 1 && !m->at && m->kept == CFX_PRECISION_F32) { /* columns lie end to end */
        float *to = (float *)p->to + panel * m->k * width;
        if (cols < width)
            memset(to, 0, (size_t)(m->k * width) * sizeof *to);
        transpose_f32(cols, m->k, m->w + first * m->col, m->col, to, width);
        return;
    }
    float room[RUN * TILE_WIDEST];
    for (int64_t i = 0; i < m->k; i += RUN) {
        const int64_t rows = m->k - i < RUN ? m->k - i : RUN, at = (panel * m->k + i) * width;
        const bool halves = m->kept != CFX_PRECISION_F32;
        pack_rows(m, i, rows, first, cols, halves ? room : (float *)p->to + at);
        for (int64_t j = 0; halves && j < rows * width; j++)
            ((uint16_t *)p->to)[at + j] = m->kept == CFX_PRECISION_BF16 ? cfx__bf16_store(room[j])
                                                                        : cfx__f16_store(room[j]);
    }
}

static void pack_range(void *arg, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
        pack_panel(arg, i);
}

void tile_panels_make(const tile_matrix *m, void *to) {
    packing p = {m, to};
    const int64_t width = tile_width(), panels = (m->n + width - 1) / width;
    cfx__parallel(panels, 1 + 65536 / (m->k * width + 1), pack_range, &p);
}

/* ---- epilogues ------------------------------------------------------------------------------- */

/* Sets the bounds to those that are given; false where they are no numbers. */
static bool read_bounds(const cfx_value *args, cfx__post_row *p) {
    for (int i = 1; i < 3; i++)
        if (cfx_is_number(args[i]))
            *(i > 1 ? &p->high : &p->low) = (float)cfx_number(args[i]);
        else if (!cfx_is_none(args[i]))
            return false;
    return p->low <= p->high;
}

cfx__post_row cfx__post_of(const cfx_op *op, const cfx_value *args) {
    static const cfx__post_row none;
    cfx__post_row p = {op->effects >> CFX__POST_SHIFT, -INFINITY, INFINITY};
    const char *text = p.kind == CFX__POST_GELU ? cfx_text(args[1]) : NULL;
    switch (p.kind) {
    case CFX__POST_BOUNDS: return read_bounds(args, &p) ? p : none;
    case CFX__POST_RELU: return (cfx__post_row){CFX__POST_BOUNDS, 0, INFINITY};
    case CFX__POST_RELU6: return (cfx__post_row){CFX__POST_BOUNDS, 0, 6};
    case CFX__POST_GELU:
        p.kind = text && !strcmp(text, "tanh") ? CFX__POST_GELU_TANH : CFX__POST_GELU;
        return p;
    case CFX__POST_LEAKY:
        p.low = cfx_is_number(args[1]) ? (float)cfx_number(args[1]) : 0;
        return cfx_is_number(args[1]) ? p : none;
    default: return p;
    }
}

static tile_post_fn *function_of(cfx__post_kind kind) {
    return BY_WIDTH(vector_bytes(), posts, [kind]);
}

bool cfx__ready_posts(cfx_op *op, const cfx_value *args) {
    return cfx__post_of(op, args).kind != CFX__POST_NONE;
}

bool tile_epilogue_of(const cfx__epilogue *e, tile_epilogue *to) {
    *to = (tile_epilogue){0};
    for (int i = 0; i < e->n; i++) {
        if (!e->post[i].op) {
            if (i)
                return false;
            to->add = true;
            continue;
        }
        const cfx__post_row p = cfx__post_of(e->post[i].op, e->post[i].args);
        if (p.kind == CFX__POST_NONE)
            return false;
        if (p.kind == CFX__POST_BOUNDS && !to->bounded && !to->n) {
            to->bounded = true;
            to->low = p.low, to->high = p.high;
            continue;
        }
        to->post[to->n].run = function_of(p.kind);
        to->post[to->n].low = p.low;
        to->post[to->n++].high = p.high;
    }
    return true;
}

void tile_finish(const tile_epilogue *e, float *c, int64_t row, int64_t rows, int64_t cols) {
    const bool whole = row == cols; /* one row after another */
    const tile_rows r = {c, row, whole ? 1 : rows, whole ? rows * cols : cols};
    for (int q = 0; q < e->n; q++)
        e->post[q].run(&r, e->post[q].low, e->post[q].high);
}
