/* Random numbers that are counted or chosen: integers, coins, permutations, categories; and the
 * distributions that are one function of one uniform number. */
#include "random.h"

#include <math.h>

/* ---- one function of one number -------------------------------------------------------------- */

static void draw_exponential(cfx__generator *g, const cfx__random_draw *d, void *out, int64_t n) {
    double *p = out;
    for (int64_t i = 0; i < n; i++)
        p[i] = -1 / d->a * log1p(-cfx__random_double(g));
}

static void draw_geometric(cfx__generator *g, const cfx__random_draw *d, void *out, int64_t n) {
    double *p = out;
    for (int64_t i = 0; i < n; i++)
        p[i] = ceil(log(cfx__random_double(g)) / log1p(-d->a));
}

static void draw_cauchy(cfx__generator *g, const cfx__random_draw *d, void *out, int64_t n) {
    double *p = out;
    for (int64_t i = 0; i < n; i++)
        p[i] = fma(d->b, tan(M_PI * (cfx__random_double(g) - 0.5)), d->a);
}

void cfx__random_exponential(cfx__generator *g, cfx_tensor *t, double lambda) {
    if (cfx__random_require(
            cfx__dtype_is_float(t->dtype),
            "Exponential distribution is a continuous probability distribution. dtype "
            "must be a floating point but you specified %s",
            cfx_dtype_name(t->dtype)) &&
        cfx__random_require(lambda > 0, "exponential_ expects lambda > 0.0, but found lambda=%g",
                            lambda))
        cfx__random_fill(g, t,
                         (cfx__random_draw){CFX__RANDOM_EXPONENTIAL, .fn = draw_exponential,
                                            .as = CFX_F64, .a = lambda});
}

void cfx__random_geometric(cfx__generator *g, cfx_tensor *t, double p) {
    if (cfx__random_require(p > 0 && p < 1, "geometric_ expects p to be in (0, 1), but got p=%g",
                            p))
        cfx__random_fill(g, t,
                         (cfx__random_draw){CFX__RANDOM_GEOMETRIC, .fn = draw_geometric,
                                            .as = CFX_F64, .a = p});
}

void cfx__random_cauchy(cfx__generator *g, cfx_tensor *t, double median, double sigma) {
    if (cfx__random_require(
            cfx__dtype_is_float(t->dtype),
            "Cauchy distribution is a continuous probability distribution. dtype must be "
            "a floating point but you specified %s",
            cfx_dtype_name(t->dtype)) &&
        cfx__random_require(sigma > 0, "cauchy_ expects sigma > 0.0, but found sigma=%g", sigma))
        cfx__random_fill(
            g, t,
            (cfx__random_draw){
                CFX__RANDOM_CAUCHY, .fn = draw_cauchy, .as = CFX_F64, .a = median, .b = sigma});
}

/* ---- coins ----------------------------------------------------------------------------------- */

static void draw_bernoulli(cfx__generator *g, const cfx__random_draw *d, void *out, int64_t n) {
    double *p = out;
    for (int64_t i = 0; i < n; i++)
        p[i] = cfx__random_double(g) < d->a;
}

/* One probability each: as float unless it is given as double. */
static void draw_each(cfx__generator *g, const cfx__random_draw *d, void *out, int64_t n) {
    double *p = out;
    for (int64_t i = 0; i < n; i++) {
        bool held = d->each[i] >= 0 && d->each[i] <= 1;
        cfx__random_require(held,
                            "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could "
                            "this error message be improved?  If so, please report an enhancement "
                            "request to PyTorch.)");
        p[i] = d->p->dtype == CFX_F64 ? cfx__random_double(g) < d->each[i]
                                      : cfx__random_float(g) < (float)d->each[i];
    }
}

void cfx__random_bernoulli(cfx__generator *g, cfx_tensor *t, double p) {
    if (cfx__random_require(p >= 0 && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=%g",
                            p))
        cfx__random_fill(
            g, t,
            (cfx__random_draw){CFX__RANDOM_COIN, .fn = draw_bernoulli, .as = CFX_F64, .a = p});
}

void cfx__random_bernoulli_each(cfx__generator *g, cfx_tensor *t, const cfx_tensor *p) {
    cfx__random_fill(
        g, t, (cfx__random_draw){CFX__RANDOM_COIN_EACH, .fn = draw_each, .as = CFX_F64, .p = p});
}

/* ---- integers -------------------------------------------------------------------------------- */

/* The remainder of 32 bits would favour small numbers where the range is wide. */
static void draw_range(cfx__generator *g, const cfx__random_draw *d, void *out, int64_t n) {
    int64_t *p = out;
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = d->range && d->range < 1ull << 28 ? cfx__random32(g) : cfx__random64(g);
        p[i] = (int64_t)(d->range ? x % d->range + (uint64_t)d->base : x);
    }
}

/* random_() without bounds: up to the largest number of the type; for floats up to the last whole
 * number that all smaller ones have as neighbours. */
static void draw_any(cfx__generator *g, const cfx__random_draw *d, void *out, int64_t n) {
    int64_t *p = out;
    bool wide = d->dtype == CFX_F64 || d->dtype == CFX_I64;
    for (int64_t i = 0; i < n; i++)
        p[i] = (int64_t)((wide ? cfx__random64(g) : cfx__random32(g)) % d->range);
}

static int64_t largest_whole(cfx_dtype d) {
    switch (d) {
    case CFX_BOOL: return 1;
    case CFX_U8: return UINT8_MAX;
    case CFX_I8: return INT8_MAX;
    case CFX_I16: return INT16_MAX;
    case CFX_I32: return INT32_MAX;
    case CFX_U16: return UINT16_MAX;
    case CFX_U32: return UINT32_MAX;
    case CFX_F16: return 1 << 11;
    case CFX_BF16: return 1 << 8;
    case CFX_F32: return 1 << 24;
    case CFX_F64: return (int64_t)1 << 53;
    default: return INT64_MAX;
    }
}

static const char *c_name(cfx_dtype d) {
    static const char *const names[CFX_DTYPE_END] = {
        [CFX_U8] = "unsigned char", [CFX_I8] = "signed char", [CFX_I16] = "short",
        [CFX_I32] = "int",          [CFX_I64] = "long",       [CFX_BOOL] = "bool",
    };
    return names[d] ? names[d] : cfx_dtype_name(d);
}

static bool in_bounds(cfx_dtype d, int64_t n, const char *what) {
    int64_t high = largest_whole(d), low = d == CFX_BOOL || d == CFX_U8 ? 0 : -high - 1;
    return cfx__dtype_is_float(d) ||
           cfx__random_require(n >= low && n <= high, "%s is out of bounds for %s", what,
                               c_name(d));
}

void cfx__random_from_to(cfx__generator *g, cfx_tensor *t, int64_t from, int64_t to) {
    if (!cfx__random_require(
            from < to, "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld",
            (long long)from, (long long)to) ||
        !in_bounds(t->dtype, from, "from") || !in_bounds(t->dtype, to - 1, "to - 1"))
        return;
    uint64_t range = (uint64_t)to - (uint64_t)from;
    cfx__random_fill(
        g, t,
        (cfx__random_draw){
            CFX__RANDOM_RANGE, .fn = draw_range, .as = CFX_I64, .base = from, .range = range});
}

void cfx__random_from(cfx__generator *g, cfx_tensor *t, int64_t from) {
    int64_t last = largest_whole(t->dtype);
    if (!in_bounds(t->dtype, from, "from") ||
        !cfx__random_require(
            from <= last,
            "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' "
            "casted to dtype, but got from=%lld > to_inc=%lld",
            (long long)from, (long long)last))
        return;
    uint64_t range = (uint64_t)last - (uint64_t)from + 1; /* 0: all of int64 */
    cfx__random_fill(
        g, t,
        (cfx__random_draw){
            CFX__RANDOM_RANGE, .fn = draw_range, .as = CFX_I64, .base = from, .range = range});
}

void cfx__random_integers(cfx__generator *g, cfx_tensor *t) {
    uint64_t range = (uint64_t)largest_whole(t->dtype) + 1;
    cfx__random_fill(
        g, t, (cfx__random_draw){CFX__RANDOM_ANY, .fn = draw_any, .as = CFX_I64, .range = range});
}

/* ---- permutations ---------------------------------------------------------------------------- */

void cfx__random_permutation(cfx__generator *g, cfx_tensor *t) {
    size_t mark = cfx_scope_open();
    bool direct = t->dtype == CFX_I64 && cfx__tensor_is_contiguous(t);
    cfx_tensor *w =
        direct ? t : cfx__tensor_empty((cfx_site){0}, CFX_I64, false, 1, &t->numel, NULL);
    int64_t *p = (int64_t *)w->data, n = cfx__obj_is_bad(w) ? 0 : t->numel;
    for (int64_t i = 0; i < n; i++)
        p[i] = i;
    bool huge = n >= UINT32_MAX / 20; /* from here on 32 bits would not be even enough */
    for (int64_t i = 0; !huge && i < n - 1; i++) {
        int64_t other = i + (int64_t)(cfx__random32(g) % (uint64_t)(n - i)), held = p[i];
        p[i] = p[other];
        p[other] = held;
    }
    for (int64_t i = 0; huge && i < n; i++) {
        int64_t other = (int64_t)(cfx__random64(g) % (uint64_t)(i + 1));
        p[i] = p[other];
        p[other] = i;
    }
    if (!direct && !cfx__obj_is_bad(w))
        cfx__tensor_copy(t, w);
    cfx_scope_close(mark);
}

/* ---- categories ------------------------------------------------------------------------------ */

typedef struct categories {
    const double *p; /* rows of probabilities */
    int64_t rows, n; /* and their length */
    cfx_dtype dtype; /* of the probabilities as given */
    int64_t *out, samples;
} categories;

static bool sample_replacing(cfx__generator *g, const categories *c) {
    cfx_dtype d = c->dtype == CFX_F64 ? CFX_F64 : CFX_F32;
    double *sums = cfx__alloc_try((size_t)(c->n + 1) * sizeof *sums);
    bool ok = sums != NULL;
    for (int64_t row = 0; row < c->rows && ok; row++) {
        double sum = 0;
        for (int64_t i = 0; i < c->n && ok; i++) {
            double x = c->p[row * c->n + i];
            ok = cfx__random_require(x >= 0,
                                     "invalid multinomial distribution (encountering probability "
                                     "entry < 0)") &&
                 cfx__random_require(isfinite(x), "invalid multinomial distribution (encountering "
                                                  "probability entry = infinity or NaN)");
            sums[i] = sum = cfx__random_rounded(d, sum + x);
        }
        ok = ok &&
             cfx__random_require(sum > 0, "invalid multinomial distribution (sum of probabilities "
                                          "<= 0)");
        for (int64_t i = 0; i < c->n && ok; i++)
            sums[i] = cfx__random_rounded(d, sums[i] / sum);
        for (int64_t k = 0; k < c->samples && ok; k++) {
            double x = cfx__random_double(g);
            int64_t low = 0, high = c->n - 1; /* the last sum counts as 1 */
            while (low < high) {
                int64_t mid = low + (high - low) / 2;
                if (sums[mid] < x)
                    low = mid + 1;
                else
                    high = mid;
            }
            c->out[row * c->samples + k] = low;
        }
    }
    cfx__free(sums);
    return ok;
}

static bool proper_rows(const categories *c) {
    for (int64_t row = 0; row < c->rows; row++) {
        double sum = 0;
        for (int64_t i = 0; i < c->n; i++) {
            double x = c->p[row * c->n + i];
            if (!cfx__random_require(x >= 0 && x < INFINITY,
                                     "probability tensor contains either `inf`, "
                                     "`nan` or element < 0"))
                return false;
            sum += x;
        }
        if (!cfx__random_require(sum != 0,
                                 "invalid multinomial distribution (sum of probabilities <= 0)"))
            return false;
    }
    return true;
}

typedef struct scored {
    double score;
    int64_t i;
} scored;

static int by_score(const void *a, const void *b) {
    const scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return (x->i > y->i) - (x->i < y->i);
}

/* The largest of p / q, where q is exponential: a race that each wins with its probability. */
static void sample_race(const categories *c, const double *q) {
    scored *s = cfx__alloc_try((size_t)(c->n + 1) * sizeof *s);
    for (int64_t row = 0; s && row < c->rows; row++) {
        for (int64_t i = 0; i < c->n; i++)
            s[i] = (scored){cfx__random_rounded(c->dtype, c->p[row * c->n + i] / q[row * c->n + i]),
                            i};
        qsort(s, (size_t)c->n, sizeof *s, by_score);
        for (int64_t k = 0; k < c->samples; k++)
            c->out[row * c->samples + k] = s[k].i;
    }
    cfx__free(s);
}

void cfx__random_multinomial(cfx__generator *g, cfx_tensor *t, const cfx_tensor *p, bool replace) {
    if (!cfx__random_require(p->ndim == 1 || p->ndim == 2, "prob_dist must be 1 or 2 dim") ||
        !cfx__random_require(cfx__dtype_is_float(p->dtype),
                             "multinomial only supports floating-point dtypes for input, got: %s",
                             cfx_dtype_name(p->dtype)) ||
        t->numel == 0)
        return;
    size_t mark = cfx_scope_open();
    int64_t n = p->shape[p->ndim - 1], samples = t->shape[t->ndim - 1];
    const cfx_tensor *wide = cfx__tensor_contiguous_as(p, CFX_F64);
    cfx_tensor *out = cfx__tensor_empty((cfx_site){0}, CFX_I64, false, t->ndim, t->shape, NULL);
    categories c = {(const double *)wide->data, t->numel / samples, n, p->dtype,
                    (int64_t *)out->data, samples};
    bool ok =
        !cfx__obj_is_bad(wide) && !cfx__obj_is_bad(out) &&
        cfx__random_require(replace || samples <= n, "cannot sample n_sample > prob_dist.size(-1) "
                                                     "samples without replacement");
    if (ok && replace) {
        ok = cfx__random_require(n > 0,
                                 "invalid multinomial distribution (sum of probabilities <= 0)") &&
             sample_replacing(g, &c);
    } else if (ok && proper_rows(&c)) {
        const int64_t *stride = cfx__tensor_is_dense(p) ? p->stride : NULL;
        cfx_tensor *q =
            cfx__tensor_empty((cfx_site){0}, p->dtype, false, p->ndim, p->shape, stride);
        if (!cfx__obj_is_bad(q)) {
            cfx__random_exponential(g, q, 1);
            const cfx_tensor *wide_q = cfx__tensor_contiguous_as(q, CFX_F64);
            if (!cfx__obj_is_bad(wide_q))
                sample_race(&c, (const double *)wide_q->data);
        }
    }
    if (ok && cfx_ok())
        cfx__tensor_copy(t, out);
    cfx_scope_close(mark);
}
