/* Random numbers: PyTorch's CPU generator and the streams derived from it.
 *
 * Invariant: after cfx_manual_seed(s) every filler gives the numbers that PyTorch gives after
 * torch.manual_seed(s). How many 32-bit draws an element takes is therefore part of each
 * distribution's meaning, as is the order in which elements are drawn. */
#include "random.h"

#include <float.h>
#include <math.h>

enum { STATE = 624, SHIFT = 397, CARDS = 8 };

struct cfx__generator {
    uint32_t state[STATE];
    int next;        /* index of the next word; STATE: the state is spent */
    bool has_gauss;  /* Box-Muller gives two numbers: the second one waits here */
    double gauss;
    uint64_t card_seed, card_offset[CARDS]; /* in words of each thread; see philox.c */
    uint64_t card_own[CARDS]; /* exclusive or of card_seed and the seed of each card */
};

/* Older states end here: those from before there were cards, and those of one seed for all. */
#define HOST_STATE offsetof(cfx__generator, card_seed)
#define ONE_SEED offsetof(cfx__generator, card_own)

/* ---- the engine: mt19937 --------------------------------------------------------------------- */

static void seed(cfx__generator *g, uint64_t s) {
    g->state[0] = (uint32_t)s;
    for (uint32_t i = 1; i < STATE; i++)
        g->state[i] = 1812433253u * (g->state[i - 1] ^ g->state[i - 1] >> 30) + i;
    g->next = STATE;
    g->has_gauss = false;
    g->card_seed = s;
    memset(g->card_offset, 0, sizeof g->card_offset);
    memset(g->card_own, 0, sizeof g->card_own);
}

uint64_t cfx__generator_card(cfx__generator *g, cfx_device d, uint64_t words, uint64_t *call) {
    const int card = (cfx__device_card(d) - 1) % CARDS;
    *call = g->card_offset[card] / 4;
    g->card_offset[card] += words;
    return g->card_seed ^ g->card_own[card];
}

static uint32_t twist(uint32_t u, uint32_t v) {
    return ((u & 0x80000000u) | (v & 0x7fffffffu)) >> 1 ^ (v & 1 ? 0x9908b0dfu : 0);
}

static void refill(cfx__generator *g) {
    uint32_t *s = g->state;
    for (int i = 0; i < STATE - SHIFT; i++)
        s[i] = s[i + SHIFT] ^ twist(s[i], s[i + 1]);
    for (int i = STATE - SHIFT; i < STATE - 1; i++)
        s[i] = s[i + SHIFT - STATE] ^ twist(s[i], s[i + 1]);
    s[STATE - 1] = s[SHIFT - 1] ^ twist(s[STATE - 1], s[0]);
    g->next = 0;
}

uint32_t cfx__random32(cfx__generator *g) {
    if (g->next == STATE)
        refill(g);
    uint32_t y = g->state[g->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

uint64_t cfx__random64(cfx__generator *g) {
    uint64_t high = cfx__random32(g);
    return high << 32 | cfx__random32(g);
}

static void *generator_make(void) {
    cfx__generator *g = cfx__alloc(sizeof *g);
    seed(g, 67280421310721u); /* PyTorch's seed where none is given */
    return g;
}

cfx__generator *cfx__generator_default(void) {
    return cfx__ctx_slot(CFX__SLOT_GENERATOR, generator_make, cfx__free);
}

cfx__generator *cfx__generator_saved(void) {
    cfx__generator *g = cfx__alloc(sizeof *g);
    *g = *cfx__generator_default();
    return g;
}

void cfx__generator_restore(cfx__generator *saved) {
    *cfx__generator_default() = *saved;
    cfx__free(saved);
}

void cfx_manual_seed(uint64_t s) { seed(cfx__generator_default(), s); }

/* Declared in cfx/optim.h: it is for those who resume. */
CFX_API cfx_tensor *cfx_get_rng_state(void);
CFX_API bool cfx_set_rng_state(const cfx_tensor *state);

cfx_tensor *cfx_get_rng_state(void) {
    return cfx_tensor_new(CFX_U8, 1, &(int64_t){sizeof(cfx__generator)}, cfx__generator_default());
}

bool cfx_set_rng_state(const cfx_tensor *state) {
    cfx__generator g = *cfx__generator_default();
    bool fits = state && !cfx__obj_is_bad(state) && state->dtype == CFX_U8 && state->data &&
                (state->numel == sizeof g || state->numel == ONE_SEED ||
                 state->numel == HOST_STATE) &&
                cfx_tensor_is_contiguous(state);
    if (fits) {
        memcpy(&g, state->data, (size_t)state->numel);
        if (state->numel == ONE_SEED)
            memset(g.card_own, 0, sizeof g.card_own);
    }
    if (!fits || g.next < 0 || g.next > STATE) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "this is not a state of the generator");
        return false;
    }
    *cfx__generator_default() = g;
    return true;
}

/* Declared in cfx/cuda.h. */
CFX_API void cfx_cuda_manual_seed(int n, uint64_t seed);
CFX_API cfx_tensor *cfx_cuda_get_rng_state(int n);
CFX_API bool cfx_cuda_set_rng_state(int n, const cfx_tensor *state);

/* What PyTorch's state of a card's generator holds. */
typedef struct {
    uint64_t seed, offset;
} card_state;

static bool is_card(int n) {
    if (n < 0 || n >= CARDS)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "there is no generator for cuda:%d", n);
    return n >= 0 && n < CARDS;
}

static void set_card(int n, card_state s) {
    cfx__generator *g = cfx__generator_default();
    g->card_own[n] = s.seed ^ g->card_seed;
    g->card_offset[n] = s.offset;
}

void cfx_cuda_manual_seed(int n, uint64_t s) {
    if (is_card(n))
        set_card(n, (card_state){s, 0});
}

cfx_tensor *cfx_cuda_get_rng_state(int n) {
    if (!is_card(n))
        return &cfx__tensor_bad;
    const cfx__generator *g = cfx__generator_default();
    const card_state s = {g->card_seed ^ g->card_own[n], g->card_offset[n]};
    return cfx_tensor_new(CFX_U8, 1, &(int64_t){sizeof s}, &s);
}

bool cfx_cuda_set_rng_state(int n, const cfx_tensor *state) {
    card_state s = {0};
    if (!is_card(n))
        return false;
    if (!state || cfx__obj_is_bad(state) || state->dtype != CFX_U8 || !state->data ||
        state->numel != sizeof s || !cfx_tensor_is_contiguous(state)) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "RNG state must be a torch.ByteTensor of 16 bytes");
        return false;
    }
    memcpy(&s, state->data, sizeof s);
    if (s.offset % 4) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "offset must be a multiple of 4");
        return false;
    }
    set_card(n, s);
    return true;
}

double cfx__random_double(cfx__generator *g) {
    return (double)(cfx__random64(g) & ((1ull << 53) - 1)) * 0x1p-53;
}

/* A standard draw: mean 0, deviation 1. */
static double gauss(cfx__generator *g) {
    if (g->has_gauss) {
        g->has_gauss = false;
        return g->gauss;
    }
    double u1 = cfx__random_double(g), u2 = cfx__random_double(g);
    double radius = sqrt(-2 * log1p(-u2)), theta = 2 * M_PI * u1;
    g->gauss = radius * sin(theta);
    g->has_gauss = true;
    return radius * cos(theta);
}

/* [0, 1) with as many bits as the type's significand; halves are computed in float. */
static float unit_float(cfx__generator *g, int bits) {
    return (float)(cfx__random32(g) & ((1u << bits) - 1)) * ldexpf(1, -bits);
}

float cfx__random_float(cfx__generator *g) { return unit_float(g, 24); }

static int significand_bits(cfx_dtype d) {
    return d == CFX_F64 ? 53 : d == CFX_F32 ? 24 : d == CFX_F16 ? 11 : 8;
}

/* ---- elements in order ----------------------------------------------------------------------- */

/* A walk over a tensor's rows in the order of memory: dimensions by falling stride, so that a dense
 * tensor of any layout is filled from its first byte to its last. */
static int memory_order(const cfx_tensor *t, int *order) {
    int n = 0;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] == 1)
            continue;
        int k = n++;
        for (; k && t->stride[order[k - 1]] < t->stride[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    return n;
}

void cfx__random_fill(cfx__generator *g, cfx_tensor *t, cfx__random_draw d) {
    enum { BLOCK = 256 };
    union { double f[BLOCK]; int64_t i[BLOCK]; } buf;
    double each[BLOCK];
    if (t->numel == 0) /* strides may be anything */
        return;
    int order[CFX_MAX_DIMS], n = memory_order(t, order);
    int64_t at[CFX_MAX_DIMS] = {0};
    int64_t size = cfx_dtype_size(t->dtype), p_size = d.p ? cfx_dtype_size(d.p->dtype) : 0;
    int64_t len = n ? t->shape[order[n - 1]] : 1;
    int64_t step = n ? t->stride[order[n - 1]] * size : 0;
    int64_t p_step = n && d.p ? d.p->stride[order[n - 1]] * p_size : 0;
    int64_t offset = 0, p_offset = 0; /* of the row, in bytes */
    d.dtype = t->dtype;
    d.each = each;
    cfx__philox card;
    if (unlikely(t->head.flags & CFX__ON_CARD))
        cfx__philox_begin(&card, g, t, &d);
    for (;;) {
        for (int64_t i = 0; i < len; i += BLOCK) {
            int64_t now = len - i < BLOCK ? len - i : BLOCK;
            if (d.p)
                cfx__convert_in(each, CFX_F64, d.p->data + p_offset + i * p_step, p_step,
                                d.p->dtype, now);
            d.fn(g, &d, &buf, now);
            cfx__convert_out(t->data + offset + i * step, step, t->dtype, &buf, d.as, now);
        }
        int k = n - 2;
        for (; k >= 0; k--) {
            int64_t go = ++at[k] < t->shape[order[k]] ? 1 : 1 - at[k];
            offset += go * t->stride[order[k]] * size;
            p_offset += d.p ? go * d.p->stride[order[k]] * p_size : 0;
            if (go == 1)
                break;
            at[k] = 0;
        }
        if (k < 0)
            return;
    }
}

bool cfx__random_require(bool held, const char *fmt, ...) {
    if (held)
        return true;
    va_list ap;
    va_start(ap, fmt);
    cfx__fail_list(CFX_RUNTIME_ERROR, (cfx_site){0}, "", fmt, ap);
    va_end(ap);
    return false;
}

/* Only these have real numbers; complex ones are filled through their parts by the caller. */
static bool floats_only(const cfx_tensor *t, const char *kernel) {
    if (!cfx__dtype_is_float(t->dtype))
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, (cfx_site){0}, "\"%s\" not implemented for '%s'",
                 kernel, cfx__dtype_title(t->dtype));
    return cfx__dtype_is_float(t->dtype);
}

/* ---- uniform --------------------------------------------------------------------------------- */

/* Products that are added to are not rounded first: PyTorch's kernels are built with fused
 * multiply-add, and a stream is only the same when it is so here. */
static void draw_uniform(cfx__generator *g, const cfx__random_draw *d, void *out, int64_t n) {
    double *p = out;
    if (d->dtype == CFX_F64) {
        for (int64_t i = 0; i < n; i++)
            p[i] = fma(cfx__random_double(g), d->b, d->a);
        return;
    }
    int bits = significand_bits(d->dtype);
    float from = (float)d->a, width = (float)d->b;
    for (int64_t i = 0; i < n; i++)
        p[i] = fmaf(unit_float(g, bits), width, from);
}

/* x as an element of the type. */
double cfx__random_rounded(cfx_dtype d, double x) {
    return d == CFX_F64   ? x
           : d == CFX_F32 ? (float)x
           : d == CFX_F16 ? cfx__f16_load(cfx__f16_store((float)x))
                          : cfx__bf16_load(cfx__bf16_store((float)x));
}

static double largest(cfx_dtype d) {
    return d == CFX_F64 ? DBL_MAX : d == CFX_F32 ? FLT_MAX : d == CFX_F16 ? 65504 : 0x1.fep127;
}

void cfx__random_uniform(cfx__generator *g, cfx_tensor *t, double from, double to) {
    cfx_dtype d = t->dtype;
    if (!floats_only(t, "check_uniform_bounds") ||
        !cfx__random_require(
            from <= to, "uniform_ expects to return a [from, to) range, but found from=%g > to=%g",
            from, to) ||
        !cfx__random_require(
            to - from <= largest(d),
            "uniform_ expects to-from <= std::numeric_limits<%s>::max(), but found to=%g and "
            "from=%g which result in to-from to exceed the limit",
            cfx_dtype_name(d), to, from))
        return;
    double low = cfx__random_rounded(d, from),
           width = cfx__random_rounded(d, cfx__random_rounded(d, to) - low);
    cfx__random_fill(g, t,
                     (cfx__random_draw){.fn = draw_uniform, .as = CFX_F64, .a = low, .b = width,
                                        .end = cfx__random_rounded(d, to)});
}

/* ---- normal: one by one ---------------------------------------------------------------------- */

static void draw_normal(cfx__generator *g, const cfx__random_draw *d, void *out, int64_t n) {
    double *p = out;
    for (int64_t i = 0; i < n; i++)
        p[i] = fma(gauss(g), d->b, d->a);
}

static void draw_log_normal(cfx__generator *g, const cfx__random_draw *d, void *out, int64_t n) {
    double *p = out;
    for (int64_t i = 0; i < n; i++)
        p[i] = exp(fma(gauss(g), d->b, d->a));
}

void cfx__random_log_normal(cfx__generator *g, cfx_tensor *t, double mean, double std) {
    if (floats_only(t, "log_normal_cpu") &&
        cfx__random_require(std > 0, "log_normal_ expects std > 0.0, but found std=%g", std))
        cfx__random_fill(
            g, t,
            (cfx__random_draw){
                CFX__RANDOM_LOG_NORMAL, .fn = draw_log_normal, .as = CFX_F64, .a = mean, .b = std});
}

/* ---- normal: sixteen at a time --------------------------------------------------------------- */

/* Contiguous tensors of 16 elements and more: all elements are first drawn as uniform numbers, then
 * each block of 16 is turned in place, its first half being u1, its second u2. The last 16 are
 * drawn anew where the size is no multiple of 16.
 *
 * For float32 the logarithm, sine and cosine are Cephes' polynomials (Moshier), evaluated with
 * fused multiply-add: other good approximations differ in the last bit. */

static inline __attribute__((always_inline)) float cephes_log(float x) {
    union { float f; uint32_t u; } v = {x};
    float e = (float)((int)(v.u >> 23) - 126);
    v.u = (v.u & ~0x7f800000u) | 0x3f000000u; /* the significand in [0.5, 1) */
    bool small = v.f < 0.707106781186547524f;
    float m = (v.f - 1) + (small ? v.f : 0), z = m * m;
    e -= small ? 1 : 0;
    float y = 7.0376836292e-2f;
    y = fmaf(y, m, -1.1514610310e-1f);
    y = fmaf(y, m, 1.1676998740e-1f);
    y = fmaf(y, m, -1.2420140846e-1f);
    y = fmaf(y, m, 1.4249322787e-1f);
    y = fmaf(y, m, -1.6668057665e-1f);
    y = fmaf(y, m, 2.0000714765e-1f);
    y = fmaf(y, m, -2.4999993993e-1f);
    y = fmaf(y, m, 3.3333331174e-1f);
    y = fmaf(y * m, z, e * -2.12194440e-4f);
    y = fmaf(-z, 0.5f, y);
    return fmaf(e, 0.693359375f, m + y);
}

/* For x in [0, 2 pi]. */
static inline __attribute__((always_inline)) void cephes_sincos(float x, float *sine,
                                                                float *cosine) {
    int octant = ((int)(x * 1.27323954473516f) + 1) & ~1;
    float k = (float)octant;
    x = fmaf(k, -0.78515625f, x);
    x = fmaf(k, -2.4187564849853515625e-4f, x);
    x = fmaf(k, -3.77489497744594108e-8f, x);
    float z = x * x, even = 2.443315711809948e-5f, odd = -1.9515295891e-4f;
    even = fmaf(even, z, -1.388731625493765e-3f);
    even = fmaf(even, z, 4.166664568298827e-2f);
    even = fmaf(even * z, z, -(z * 0.5f)) + 1;
    odd = fmaf(odd, z, 8.3321608736e-3f);
    odd = fmaf(odd, z, -1.6666654611e-1f);
    odd = fmaf(odd * z, x, x);
    bool turned = octant & 2;
    float s = turned ? even : odd, c = turned ? odd : even;
    *sine = octant & 4 ? -s : s;
    *cosine = (octant + 2) & 4 ? -c : c;
}

static inline __attribute__((always_inline)) void gauss_floats(float *p, int64_t blocks, float mean,
                                                               float std) {
    for (int64_t i = 0; i < blocks; i++, p += 16)
        for (int j = 0; j < 8; j++) {
            float radius = sqrtf(-2 * cephes_log(1 - p[j])), s, c;
            cephes_sincos((float)(2 * M_PI) * p[j + 8], &s, &c);
            p[j] = fmaf(radius * c, std, mean);
            p[j + 8] = fmaf(radius * s, std, mean);
        }
}

#ifdef __x86_64__
__attribute__((target("avx2,fma"))) static void gauss_fused(float *p, int64_t blocks, float mean,
                                                            float std) {
    gauss_floats(p, blocks, mean, std);
}
#endif

static void turn_floats(float *p, int64_t blocks, float mean, float std) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        gauss_fused(p, blocks, mean, std);
        return;
    }
#endif
    gauss_floats(p, blocks, mean, std);
}

static void turn_doubles(double *p, int64_t blocks, double mean, double std) {
    for (int64_t i = 0; i < blocks; i++, p += 16)
        for (int j = 0; j < 8; j++) {
            double radius = sqrt(-2 * log(1 - p[j])), theta = 2 * M_PI * p[j + 8];
            p[j] = fma(radius * cos(theta), std, mean);
            p[j + 8] = fma(radius * sin(theta), std, mean);
        }
}

/* Halves are rounded after every step. */
static void turn_halves(cfx_dtype d, float *p, int64_t blocks, float mean, float std) {
#define R(x) ((float)cfx__random_rounded(d, x))
    for (int64_t i = 0; i < blocks; i++, p += 16)
        for (int j = 0; j < 8; j++) {
            float radius = R(sqrtf(R(-2 * R(logf(R(1 - p[j])))))), theta = R(2 * M_PI * p[j + 8]);
            p[j] = R(R(R(radius * R(cosf(theta))) * std) + mean);
            p[j + 8] = R(R(R(radius * R(sinf(theta))) * std) + mean);
        }
#undef R
}

static void turn(const cfx_tensor *t, void *p, int64_t blocks, double mean, double std) {
    if (t->dtype == CFX_F32)
        turn_floats(p, blocks, (float)mean, (float)std);
    else if (t->dtype == CFX_F64)
        turn_doubles(p, blocks, mean, std);
    else
        turn_halves(t->dtype, p, blocks, (float)mean, (float)std);
}

/* Uniform numbers of the tensor's type from element `from` on; halves are held in floats. */
static void unit_numbers(cfx__generator *g, cfx_dtype dtype, void *data, int64_t from, int64_t n) {
    int bits = significand_bits(dtype);
    if (dtype == CFX_F64)
        for (int64_t i = 0; i < n; i++)
            ((double *)data)[from + i] = cfx__random_double(g);
    else
        for (int64_t i = 0; i < n; i++)
            ((float *)data)[from + i] = unit_float(g, bits);
}

static void fill_blocks(cfx__generator *g, cfx_tensor *t, double mean, double std) {
    bool half = cfx__dtype_is_half(t->dtype);
    size_t mark = cfx_scope_open();
    cfx_tensor *w =
        half ? cfx__tensor_empty((cfx_site){0}, CFX_F32, false, 1, &t->numel, NULL) : t;
    if (!cfx__obj_is_bad(w)) {
        int64_t n = t->numel, tail = n - 16;
        mean = cfx__random_rounded(t->dtype, mean), std = cfx__random_rounded(t->dtype, std);
        unit_numbers(g, t->dtype, w->data, 0, n);
        turn(t, w->data, n / 16, mean, std);
        if (n % 16) {
            unit_numbers(g, t->dtype, w->data, tail, 16);
            turn(t, w->data + tail * cfx_dtype_size(w->dtype), 1, mean, std);
        }
        if (half)
            cfx__convert_out(t->data, cfx_dtype_size(t->dtype), t->dtype, w->data, CFX_F32, n);
    }
    cfx_scope_close(mark);
}

void cfx__random_normal(cfx__generator *g, cfx_tensor *t, double mean, double std) {
    if (!floats_only(t, "normal_kernel_cpu") ||
        !cfx__random_require(std >= 0, "normal expects std >= 0.0, but found std %g", std))
        return;
    if (t->numel >= 16 && cfx__tensor_is_contiguous(t) && !(t->head.flags & CFX__ON_CARD))
        fill_blocks(g, t, mean, std);
    else
        cfx__random_fill(g, t,
                         (cfx__random_draw){CFX__RANDOM_NORMAL, .fn = draw_normal, .as = CFX_F64,
                                            .a = mean, .b = std});
}
