/* The kernel of attention. Start at flash_run. */
#include "../dense.h"
#include "attention.h"
#include "widths.h"
#include "../vecmath.h"

#if defined(__x86_64__)
#include "../vec16.h"
#endif

enum {
    ROWS = 32,       /* of q in a block, at most */
    KEYS = 256,      /* of k and v in a block */
    FEW = 4,         /* rows for which keys and values are read as they lie */
    SMALL = 1 << 15, /* multiplications of a head below which they are as well */
    PAD = 16
};

typedef struct {
    const flash *f;
    bf16_way way; /* BF16_NONE: in float32 */
    bool packs;   /* keys and values go to panels */
    char *panels; /* head by head: keys, then values */
    int64_t k_bytes, v_bytes;
    int64_t blocks, rows; /* of q: how many there are, and the rows of one */
    int64_t width;        /* of a row of sums, in whole panels */
} job;

/* What a thread works in. */
typedef struct {
    float *s; /* [ROWS][KEYS]: scores, then weights */
    float *o; /* [ROWS][width]: sums of values */
    float *q; /* [ROWS][size + PAD]: scaled */
    uint16_t *q_halves, *s_halves;
    float most[ROWS], sum[ROWS];
} desk;

static int64_t panel_width(const job *j) { return j->way ? BF16_WIDTH : tile_width(); }
static int64_t height(const job *j) { return j->way ? bf16_height(j->way) : tile_height(); }

/* ---- products -------------------------------------------------------------------------------- */

/* Rows times one panel. */
typedef struct {
    const void *a;       /* floats, or halves */
    int64_t row, length; /* from one to the next, and how much of it is multiplied */
    const char *panel;
    float *c;
    int64_t c_row;
    bool add;
} strip;

static void multiply(const job *j, const strip *x, int64_t rows) {
    static const int64_t none[1];
    _Alignas(64) float sums[BF16_TALLEST * BF16_WIDTH];
    const tile_epilogue e = {.add = x->add};
    for (int64_t r = 0; r < rows; r += height(j)) {
        const int n = (int)(rows - r < height(j) ? rows - r : height(j));
        float *c = x->c + r * x->c_row;
        if (j->way) {
            bf16_tile_run(j->way,
                          &(bf16_tile){.a = (const uint16_t *)x->a + r * x->row,
                                       .row = x->row,
                                       .depth = bf16_depth(x->length),
                                       .panel = x->panel,
                                       .c = sums},
                          n);
            bf16_store(sums, &(bf16_result){n, BF16_WIDTH, NULL, &e, c, x->c_row});
        } else {
            tile_run(&(tile){.a = (const float *)x->a + r * x->row,
                             .row = x->row,
                             .taps = 1,
                             .length = x->length,
                             .at = none,
                             .panel = x->panel,
                             .c = c,
                             .c_row = x->c_row,
                             .cols = tile_width(),
                             .add = x->add},
                     n);
        }
    }
}

/* s = q k' for keys [at, at + keys) of a head's panels. */
static void scores(const job *j, const desk *d, const char *panels, int64_t rows, int64_t at,
                   int64_t keys) {
    const int64_t width = panel_width(j), size = j->f->size;
    const int64_t bytes = j->way ? width * bf16_depth(size) * 2 : width * size * 4;
    strip x = {.a = j->way ? (const void *)d->q_halves : d->q,
               .row = j->way ? bf16_row(size) : size + PAD,
               .length = size,
               .c_row = KEYS};
    for (int64_t i = 0; i < keys; i += width) {
        x.panel = panels + (at + i) / width * bytes;
        x.c = d->s + i;
        multiply(j, &x, rows);
    }
}

/* o += s v */
static void values(const job *j, const desk *d, const char *panels, int64_t rows, int64_t at,
                   int64_t keys) {
    const int64_t width = panel_width(j), each = j->way ? 2 : 4;
    const int64_t depth = j->way ? bf16_depth(j->f->keys) : j->f->keys;
    strip x = {.a = j->way ? (const void *)d->s_halves : d->s,
               .row = j->way ? bf16_row(KEYS) : KEYS,
               .length = keys,
               .c_row = j->width,
               .add = true};
    for (int64_t r = 0; j->way && r < rows; r++)
        bf16_round(d->s + r * KEYS, keys, bf16_depth(keys), d->s_halves + r * x.row);
    for (int64_t i = 0; i < j->f->size; i += width) {
        x.panel = panels + j->k_bytes + (i * depth + at * width) * each;
        x.c = d->o + i;
        multiply(j, &x, rows);
    }
}

static void pack_heads(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const flash *f = j->f;
    const int64_t heads = f->heads / f->shared;
    for (int64_t i = begin; i < end; i++) {
        const int64_t batch = i / heads, head = i % heads;
        char *to = j->panels + i * (j->k_bytes + j->v_bytes);
        const tile_matrix k = {.k = f->size, .n = f->keys, .row = 1, .col = f->ks[2],
                               .w = f->k + batch * f->ks[0] + head * f->ks[1]};
        const tile_matrix v = {.k = f->keys, .n = f->size, .row = f->vs[2], .col = 1,
                               .w = f->v + batch * f->vs[0] + head * f->vs[1]};
        if (j->way) {
            bf16_panels_make(&k, to);
            bf16_panels_make(&v, to + j->k_bytes);
        } else {
            tile_panels_make(&k, to);
            tile_panels_make(&v, to + j->k_bytes);
        }
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Adds the mask to the scores of one row. */
CFX__SIMD_WIDE static void mask_row(const flash *f, const char *mask, float *s, int64_t keys) {
    const int64_t step = f->ms[3];
    if (f->mask_bool) {
        const uint8_t *m = (const uint8_t *)mask;
        for (int64_t j = 0; j < keys; j++)
            s[j] = m[j * step] ? s[j] : -INFINITY;
    } else {
        const float *m = (const float *)mask;
        for (int64_t j = 0; j < keys; j++)
            s[j] += m[j * step];
    }
}

CFX__SIMD_WIDE static float largest(const float *s, int64_t n, float most) {
#pragma omp simd reduction(max : most)
    for (int64_t j = 0; j < n; j++)
        most = s[j] > most ? s[j] : most;
    return most;
}

/* s = exp(s - most); returns the sum. */
CFX__SIMD_WIDE static float exponentials(float *s, int64_t n, float most) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        s[j] = vexp(s[j] - most);
        sum += s[j];
    }
    return sum;
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512dq"))) static float exponentials_16(float *s, int64_t n,
                                                                         float most) {
    __m512 sum = _mm512_setzero_ps();
    for (int64_t j = 0; j < n; j += 16) {
        const __mmask16 k = n - j < 16 ? (__mmask16)((1 << (n - j)) - 1) : 0xffff;
        const __m512 y = exp16(_mm512_sub_ps(_mm512_maskz_loadu_ps(k, s + j), all(most)));
        _mm512_mask_storeu_ps(s + j, k, y);
        sum = _mm512_mask_add_ps(sum, k, sum, y);
    }
    return _mm512_reduce_add_ps(sum);
}
#else
static float exponentials_16(float *s, int64_t n, float most) { return exponentials(s, n, most); }
#endif

CFX__SIMD_WIDE static void scaled(const float *from, int64_t n, float by, float *to) {
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i] * by;
}

/* What weighs nothing: 0, or NaN where it is not for a mask but for want of numbers. */
static float unseen(float *s, int64_t keys) {
    float sum = 0;
    for (int64_t j = 0; j < keys; j++)
        sum += s[j] = s[j] == -INFINITY ? 0 : NAN;
    return sum;
}

/* Turns the scores of a row into weights; what was summed before is scaled to the new largest. */
static void soften(float *s, int64_t keys, int64_t size, float *most, float *sum, float *o) {
    float m = largest(s, keys, *most);
    if (m == -INFINITY) { /* nothing is to be seen so far */
        *sum += unseen(s, keys);
        return;
    }
    float before = expf(*most - m);
    *sum = *sum * before + (vector_bytes() == 64 ? exponentials_16 : exponentials)(s, keys, m);
    *most = m;
    if (before != 1)
        scaled(o, size, before, o);
}

/* Masks and softens rows [first, first + rows) of a head, whose keys from `at` on are in s. */
static void weigh(const job *j, desk *d, int64_t batch, int64_t head, int64_t first, int64_t rows,
                  int64_t at, int64_t keys) {
    const flash *f = j->f;
    const int64_t width = f->mask_bool ? 1 : (int64_t)sizeof(float);
    for (int64_t i = 0; i < rows; i++) {
        float *row = d->s + i * KEYS;
        if (f->mask)
            mask_row(f,
                     f->mask + (batch * f->ms[0] + head * f->ms[1] + (first + i) * f->ms[2] +
                                at * f->ms[3]) *
                                   width,
                     row, keys);
        if (f->causal)
            for (int64_t q = first + i + 1 > at ? first + i + 1 - at : 0; q < keys; q++)
                row[q] = -INFINITY;
        soften(row, keys, f->size, &d->most[i], &d->sum[i], d->o + i * j->width);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Rows of q on the desk, with nothing summed. */
static void lay_out(const job *j, desk *d, const float *q, int64_t rows) {
    const flash *f = j->f;
    memset(d->o, 0, (size_t)(rows * j->width) * sizeof *d->o);
    for (int64_t i = 0; i < rows; i++) {
        float *to = d->q + i * (f->size + PAD);
        d->most[i] = -INFINITY, d->sum[i] = 0;
        scaled(q + i * f->qs[2], f->size, f->scale, to);
        if (j->way)
            bf16_round(to, f->size, bf16_depth(f->size), d->q_halves + i * bf16_row(f->size));
    }
}

static void finish(const job *j, const desk *d, int64_t batch, int64_t head, int64_t first,
                   int64_t rows) {
    const flash *f = j->f;
    for (int64_t i = 0; i < rows; i++) {
        float *to = f->out + batch * f->os[0] + head * f->os[1] + (first + i) * f->os[2];
        scaled(d->o + i * j->width, f->size, d->sum[i] == 0 ? 1 : 1 / d->sum[i], to);
        if (f->lse)
            f->lse[batch * f->ls[0] + head * f->ls[1] + (first + i) * f->ls[2]] =
                d->most[i] + logf(d->sum[i]);
    }
}

/* Rows [first, first + rows) of one head. */
static void head_block(const job *j, desk *d, int64_t batch, int64_t head, int64_t first,
                       int64_t rows) {
    const flash *f = j->f;
    const int64_t kv = head / f->shared, end = f->causal && first + rows < f->keys ? first + rows
                                                                                   : f->keys;
    const int64_t panel = batch * (f->heads / f->shared) + kv;
    const char *panels = j->packs ? j->panels + panel * (j->k_bytes + j->v_bytes) : NULL;
    lay_out(j, d, f->q + batch * f->qs[0] + head * f->qs[1] + first * f->qs[2], rows);
    for (int64_t at = 0; at < end; at += KEYS) {
        const int64_t keys = end - at < KEYS ? end - at : KEYS;
        const few k = {f->k + batch * f->ks[0] + kv * f->ks[1] + at * f->ks[2], f->ks[2], f->size,
                       keys};
        const few v = {f->v + batch * f->vs[0] + kv * f->vs[1] + at * f->vs[2], f->vs[2], f->size,
                       keys};
        if (j->packs)
            scores(j, d, panels, rows, at, keys);
        else
            few_scores(&k, &(few_rows){rows, f->size + PAD, KEYS}, d->q, d->s);
        weigh(j, d, batch, head, first, rows, at, keys);
        if (j->packs)
            values(j, d, panels, rows, at, keys);
        else
            few_values(&v, &(few_rows){rows, j->width, KEYS}, d->s, d->o);
    }
    finish(j, d, batch, head, first, rows);
}

static void run_blocks(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const flash *f = j->f;
    const int64_t floats = ROWS * (KEYS + j->width + f->size + PAD);
    const int64_t halves = j->way ? ROWS * (bf16_row(f->size) + bf16_row(KEYS)) : 0;
    const size_t size = (size_t)floats * sizeof(float) + (size_t)halves * sizeof(uint16_t);
    float *room = cfx__block_alloc(size);
    if (!room) {
        cfx__error_memory(size, false);
        return;
    }
    desk d = {.s = room, .o = room + ROWS * KEYS};
    d.q = d.o + ROWS * j->width;
    d.q_halves = (uint16_t *)(room + floats);
    d.s_halves = d.q_halves + ROWS * bf16_row(f->size);
    bf16_begin(j->way);
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i % j->blocks * j->rows, head = i / j->blocks;
        head_block(j, &d, head / f->heads, head % f->heads, first,
                   f->rows - first < j->rows ? f->rows - first : j->rows);
    }
    bf16_end(j->way);
    cfx__block_free(room, size);
}

bf16_way flash_way(const flash *f, cfx_precision precision) {
    return precision == CFX_PRECISION_BF16 ? bf16_best(f->rows) : BF16_NONE;
}

/* Whether heads that share keys and values, of one row each, are better rows of one head, which
 * reads them once: as long as there is one for each thread. */
static bool folds(const flash *f) {
    return f->shared > 1 && f->rows == 1 && !f->causal &&
           f->batch * f->heads / f->shared >= cfx_get_num_threads();
}

static flash folded(const flash *f) {
    flash to = *f;
    to.heads = f->heads / f->shared;
    to.rows = f->shared;
    to.shared = 1;
    to.qs[1] *= f->shared, to.qs[2] = f->qs[1];
    to.ms[1] *= f->shared, to.ms[2] = f->ms[1];
    to.os[1] *= f->shared, to.os[2] = f->os[1];
    to.ls[1] *= f->shared, to.ls[2] = f->ls[1];
    return to;
}

void flash_run(const flash *given, bf16_way way) {
    const flash one = folds(given) ? folded(given) : *given, *f = &one;
    job j = {.f = f, .way = way};
    const double each = (double)f->keys * (double)f->size * 2;
    j.packs = given->rows >= FEW && (double)f->rows * each >= SMALL;
    if (!j.packs)
        j.way = BF16_NONE;
    const int64_t unit = ROWS / height(&j) * height(&j), heads = f->batch * f->heads / f->shared;
    j.blocks = (f->rows + unit - 1) / unit;
    j.rows = j.way == BF16_TILES ? unit : (f->rows + j.blocks - 1) / j.blocks;
    j.width = (f->size + TILE_WIDEST - 1) / TILE_WIDEST * TILE_WIDEST;
    j.k_bytes = (int64_t)(j.way ? bf16_panels_size(f->size, f->keys)
                                : tile_panels_size(f->size, f->keys, CFX_PRECISION_F32));
    j.v_bytes = (int64_t)(j.way ? bf16_panels_size(f->keys, f->size)
                                : tile_panels_size(f->keys, f->size, CFX_PRECISION_F32));
    const size_t bytes = (size_t)j.k_bytes + (size_t)j.v_bytes; /* of views, perhaps, of little */
    const size_t size = j.packs ? (size_t)heads * bytes : 0;
    if (size) {
        j.panels = cfx__block_alloc(size);
        if (!j.panels) {
            cfx__error_memory(size, false);
            return;
        }
        cfx__parallel(heads, cfx__grain(each), pack_heads, &j);
    }
    cfx__parallel(f->batch * f->heads * j.blocks, cfx__grain(each * (double)j.rows), run_blocks,
                  &j);
    if (size)
        cfx__block_free(j.panels, size);
}
