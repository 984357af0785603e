/* Random numbers on a card: PyTorch's CUDA generator, Philox 4x32-10, and which of its numbers each
 * element gets.
 *
 * Invariant: after cfx_manual_seed(s) every filler gives a tensor on a card the numbers which
 * PyTorch gives it there. Its kernels run some threads, each with a stream of its own; a call of
 * the generator gives a thread four words, which go to elements that are as far apart as there are
 * threads. So how many threads a card runs at once is part of what comes out, as is by how much the
 * common offset grows with each tensor. Numbers are computed by the host: logarithms and sines are
 * its own, where PyTorch's are the card's fast ones. */
#include "random.h"

#include <float.h>
#include <math.h>

#include "../value/later.h"

enum { BLOCK = 256, ROUNDS = 10 };

typedef struct {
    uint32_t w[4];
} words;

static words philox(uint64_t seed, uint64_t thread, uint64_t call) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    words c = {{(uint32_t)call, (uint32_t)(call >> 32), (uint32_t)thread,
                (uint32_t)(thread >> 32)}};
    for (int i = 0; i < ROUNDS; i++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        const uint64_t a = (uint64_t)c.w[0] * 0xD2511F53u, b = (uint64_t)c.w[2] * 0xCD9E8D57u;
        c = (words){{(uint32_t)(b >> 32) ^ c.w[1] ^ k0, (uint32_t)b,
                     (uint32_t)(a >> 32) ^ c.w[3] ^ k1, (uint32_t)a}};
    }
    return c;
}

/* ---- who gets what --------------------------------------------------------------------------- */

/* Blocks of threads that a kernel over n elements has. */
static int64_t blocks_for(const cfx_tensor *t, int64_t n) {
    const int64_t most = cfx__later_rooms.card_threads(cfx__device_card(t->device) - 1) / BLOCK;
    const int64_t want = (n + BLOCK - 1) / BLOCK;
    return most > 0 && most < want ? most : want;
}

/* The place that a tensor of n elements has in the stream; the next one begins behind it. */
static void begin(cfx__philox *s, cfx__generator *g, const cfx_tensor *t, int per_call) {
    const int64_t n = t->numel, threads = blocks_for(t, n) * BLOCK;
    *s = (cfx__philox){.threads = threads, .per_call = per_call};
    const int64_t calls = (n - 1) / (threads * per_call) + 1;
    s->seed = cfx__generator_card(g, t->device, 4 * (uint64_t)calls, &s->call);
}

/* The words that element i is made of, and which of what they give it is. */
static words words_for(const cfx__philox *s, int64_t i, int *which) {
    const int64_t round = s->threads * s->per_call, rest = i % round;
    *which = (int)(rest / s->threads);
    return philox(s->seed, (uint64_t)(rest % s->threads), s->call + (uint64_t)(i / round));
}

/* ---- numbers of words ------------------------------------------------------------------------ */

/* (0, 1], of which 1 is as likely as any other. */
static float unit(uint32_t x) { return (float)x * 0x1p-32f + 0x1p-33f; }

static double unit_double(uint32_t low, uint32_t high) {
    return (double)(low ^ (uint64_t)high << 21) * 0x1p-53 + 0x1p-54;
}

static float gauss(const words *w, int which) {
    const int pair = which & 2;
    const float turn = 0x1.921fb6p-30f; /* 2 pi / 2^32 */
    const float angle = fmaf((float)w->w[pair + 1], turn, turn / 2);
    const float radius = sqrtf(-2 * logf(unit(w->w[pair])));
    return radius * (which & 1 ? cosf(angle) : sinf(angle));
}

static double gauss_double(const words *w, int which) {
    const double turns = (double)(w->w[2] ^ (uint64_t)w->w[3] << 21) * 0x1p-52 + 0x1p-53;
    const double radius = sqrt(-2 * log(unit_double(w->w[0], w->w[1])));
    return radius * (which ? cos(M_PI * turns) : sin(M_PI * turns));
}

/* One draw of the type that a distribution is computed in. */
static double draw_unit(cfx__philox *s, cfx_dtype d) {
    int which;
    const words w = words_for(s, s->next++, &which);
    return d == CFX_F64 ? unit_double(w.w[2 * which], w.w[2 * which + 1]) : unit(w.w[which]);
}

static double draw_gauss(cfx__philox *s, cfx_dtype d) {
    int which;
    const words w = words_for(s, s->next++, &which);
    return d == CFX_F64 ? gauss_double(&w, which) : gauss(&w, which);
}

static uint64_t draw_word(cfx__philox *s) {
    int which;
    const words w = words_for(s, s->next++, &which);
    return s->per_call == 4 ? w.w[which] : (uint64_t)w.w[2 * which] << 32 | w.w[2 * which + 1];
}

/* ---- distributions --------------------------------------------------------------------------- */

/* a + u b, where u has 1 and not 0: what would be the end is the start. */
static double uniform(const cfx__random_draw *d, double u) {
    const double v = d->dtype == CFX_F64 ? fma(u, d->b, d->a)
                                         : fmaf((float)u, (float)d->b, (float)d->a);
    return cfx__random_rounded(d->dtype, v) == d->end ? d->a : v;
}

static double around(const cfx__random_draw *d, double x) {
    return d->dtype == CFX_F64 ? fma(x, d->b, d->a)
                               : fmaf((float)x, (float)d->b, (float)d->a);
}

static double exponential(const cfx__random_draw *d, double u) {
    const double near = (d->dtype == CFX_F64 ? DBL_EPSILON : FLT_EPSILON) / 2;
    const double log_u = u >= 1 - near ? -near : log(u);
    return d->dtype == CFX_F64 ? -1 / d->a * log_u : (float)(-1 / (float)d->a) * (float)log_u;
}

static double cauchy(const cfx__random_draw *d, double u) {
    const double least = d->dtype == CFX_F64 ? DBL_EPSILON : FLT_EPSILON;
    u = u > 1 - least ? 1 - least : u < least ? least : u;
    return d->a + d->b * tan(M_PI * (u - 0.5));
}

static double drawn(cfx__philox *s, const cfx__random_draw *d) {
    switch (d->kind) {
    case CFX__RANDOM_UNIFORM: return uniform(d, draw_unit(s, d->dtype));
    case CFX__RANDOM_NORMAL: return around(d, draw_gauss(s, d->dtype));
    case CFX__RANDOM_LOG_NORMAL: return exp(around(d, draw_gauss(s, d->dtype)));
    case CFX__RANDOM_EXPONENTIAL: return exponential(d, draw_unit(s, d->dtype));
    case CFX__RANDOM_GEOMETRIC: return ceil(log(draw_unit(s, d->dtype)) / log1p(-d->a));
    case CFX__RANDOM_CAUCHY: return cauchy(d, draw_unit(s, d->dtype));
    default: return draw_unit(s, d->dtype) < d->a; /* a coin */
    }
}

static void draw_reals(cfx__generator *g, const cfx__random_draw *d, void *out, int64_t n) {
    (void)g;
    for (int64_t i = 0; i < n; i++)
        ((double *)out)[i] = drawn(d->card, d);
}

/* Each element has a thread for itself and three neighbours. */
static void draw_each(cfx__generator *g, const cfx__random_draw *d, void *out, int64_t n) {
    (void)g;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = d->card->next++;
        const words w = philox(d->card->seed, (uint64_t)(at / 4), d->card->call);
        if (!cfx__random_require(d->each[i] >= 0 && d->each[i] <= 1,
                                 "Expected p_in >= 0 && p_in <= 1 to be true, but got false."))
            return;
        ((double *)out)[i] = unit(w.w[at % 4]) <= d->each[i];
    }
}

static void draw_range(cfx__generator *g, const cfx__random_draw *d, void *out, int64_t n) {
    (void)g;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t w = draw_word(d->card);
        ((int64_t *)out)[i] = (int64_t)((uint64_t)d->base + (d->range ? w % d->range : w));
    }
}

/* Whether an element takes two words: the remainder of one would favour small numbers where the
 * range is wide. */
static bool is_wide(const cfx__random_draw *d) {
    return d->kind == CFX__RANDOM_RANGE ? !d->range || d->range >= 1ull << 28
           : d->kind == CFX__RANDOM_ANY ? d->dtype == CFX_F64 || d->dtype == CFX_I64
                                        : d->dtype == CFX_F64;
}

void cfx__philox_begin(cfx__philox *s, cfx__generator *g, const cfx_tensor *t,
                       cfx__random_draw *d) {
    d->card = s;
    if (d->kind == CFX__RANDOM_COIN_EACH) {
        *s = (cfx__philox){0};
        s->seed = cfx__generator_card(g, t->device, 12, &s->call);
        d->fn = draw_each;
        return;
    }
    begin(s, g, t, is_wide(d) ? 2 : 4);
    d->fn = d->kind >= CFX__RANDOM_RANGE ? draw_range : draw_reals;
}

/* ---- dropout --------------------------------------------------------------------------------- */

/* How many neighbours a thread reads at once: as many as are 16 bytes and lie aligned, without a
 * rest. */
static int width_for(const cfx_tensor *x) {
    const int64_t size = cfx_dtype_size((cfx_dtype)x->dtype);
    int width = cfx__tensor_is_dense(x) ? (int)(16 / size) : 1;
    while (width > 1 && (x->numel % width || (uintptr_t)x->data % (uint64_t)(size * width)))
        width /= 2;
    return width;
}

void cfx__random_dropout(cfx__generator *g, cfx_tensor *kept, const cfx_tensor *x, double p) {
    if (!(kept->head.flags & CFX__ON_CARD) || !x->numel) {
        cfx__random_bernoulli(g, kept, p);
        return;
    }
    cfx__philox s;
    begin(&s, g, x, 4);
    const int width = width_for(x);
    bool *to = (bool *)kept->data; /* new, and contiguous */
    for (int64_t i = 0; i < x->numel; i++) {
        int which = (int)(i % width);
        const int64_t chunk = i / width, calls = width > 4 ? width / 4 : 1;
        const words w = width == 1
                            ? words_for(&s, i, &which)
                            : philox(s.seed, (uint64_t)(chunk % s.threads),
                                     s.call + (uint64_t)(chunk / s.threads * calls + which / 4));
        to[i] = unit(w.w[which % 4]) < (float)p;
    }
}
