/* Reductions: combines the data of several ranks element by element in rank order, so the result
 * does not depend on who computes it or how the data arrived. */
#include "group.h"

enum { BLOCK = 1024 };

static const char *const names[] = {"sum", "avg", "product", "min", "max", "band", "bor", "bxor"};
_Static_assert(COUNT(names) == CFX__REDUCTIONS, "one name each");

cfx__reduction cfx__reduction_named(const char *name) {
    int i = 0;
    while (i < CFX__REDUCTIONS && strcmp(names[i], name))
        i++;
    return (cfx__reduction)i;
}

/* a = a op b over n numbers of a type; NaN is the smallest and the largest, as in PyTorch. */
#define FOLD(type, name)                                                                           \
    static void fold_##name(cfx__reduction op, type *restrict a, const type *restrict b, int n) {  \
        switch (op) {                                                                              \
        case CFX__PRODUCT:                                                                         \
            for (int i = 0; i < n; i++)                                                            \
                a[i] *= b[i];                                                                      \
            break;                                                                                 \
        case CFX__MIN:                                                                             \
            for (int i = 0; i < n; i++)                                                            \
                a[i] = a[i] != a[i] || a[i] < b[i] ? a[i] : b[i];                                  \
            break;                                                                                 \
        case CFX__MAX:                                                                             \
            for (int i = 0; i < n; i++)                                                            \
                a[i] = a[i] != a[i] || a[i] > b[i] ? a[i] : b[i];                                  \
            break;                                                                                 \
        default:                                                                                   \
            for (int i = 0; i < n; i++)                                                            \
                a[i] += b[i];                                                                      \
        }                                                                                          \
    }
FOLD(float, f32)
FOLD(double, f64)
FOLD(uint64_t, wrapping)

static void fold_i64(cfx__reduction op, int64_t *a, const int64_t *b, int n) {
    for (int i = 0; i < n; i++)
        switch (op) {
        case CFX__MIN: a[i] = a[i] < b[i] ? a[i] : b[i]; break;
        case CFX__MAX: a[i] = a[i] > b[i] ? a[i] : b[i]; break;
        case CFX__BAND: a[i] &= b[i]; break;
        case CFX__BOR: a[i] |= b[i]; break;
        case CFX__BXOR: a[i] ^= b[i]; break;
        default:
            fold_wrapping(op, (uint64_t *)a + i, (const uint64_t *)b + i, 1);
        }
}

typedef union {
    float f32[BLOCK];
    double f64[BLOCK];
    int64_t i64[BLOCK];
} block;

static void fold(cfx__reduction op, cfx_dtype as, block *a, const block *b, int n) {
    if (as == CFX_F32)
        fold_f32(op, a->f32, b->f32, n);
    else if (as == CFX_F64)
        fold_f64(op, a->f64, b->f64, n);
    else
        fold_i64(op, a->i64, b->i64, n);
}

static void divide(cfx_dtype as, block *a, int by, int n) {
    for (int i = 0; i < n; i++)
        if (as == CFX_F32)
            a->f32[i] /= (float)by;
        else if (as == CFX_F64)
            a->f64[i] /= by;
        else
            a->i64[i] /= by;
}

/* What a dtype is summed in. */
static cfx_dtype summed_in(cfx_dtype d) {
    return d == CFX_F64 ? CFX_F64 : cfx__dtype_is_floating(d) ? CFX_F32 : CFX_I64;
}

typedef struct {
    cfx__reduction op;
    cfx_dtype dtype, as;
    char *out;
    int nfrom;
    const void *const *from;
} folding;

static void fold_range(void *arg, int64_t begin, int64_t end) {
    const folding *f = arg;
    const int64_t size = cfx_dtype_size(f->dtype);
    block sum, more;
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int n = (int)(end - at < BLOCK ? end - at : BLOCK);
        cfx__convert_in(&sum, f->as, (const char *)f->from[0] + at * size, size, f->dtype, n);
        for (int r = 1; r < f->nfrom; r++) {
            cfx__convert_in(&more, f->as, (const char *)f->from[r] + at * size, size, f->dtype, n);
            fold(f->op, f->as, &sum, &more, n);
        }
        if (f->op == CFX__AVG)
            divide(f->as, &sum, f->nfrom, n);
        cfx__convert_out(f->out + at * size, size, f->dtype, &sum, f->as, n);
    }
}

bool cfx__reduce(cfx_site at, cfx__reduction op, cfx_dtype dtype, void *out, int nfrom,
                 const void *const *from, int64_t n) {
    const bool bits = op >= CFX__BAND, complex = cfx__dtype_is_complex(dtype);
    if ((bits && !cfx__dtype_is_integral(dtype) && dtype != CFX_BOOL) ||
        (complex && (op > CFX__AVG || dtype == CFX_C32))) {
        cfx_fail(CFX_TYPE_ERROR, at, "ranks have no '%s' of %s tensors", names[op],
                 cfx_dtype_name(dtype));
        return false;
    }
    if (complex) {
        dtype = dtype == CFX_C64 ? CFX_F32 : CFX_F64;
        n *= 2;
    }
    folding f = {op, dtype, summed_in(dtype), out, nfrom, from};
    /* what another rank wrote is far away: an element takes as long as some operations */
    cfx__parallel(n, cfx__grain(4 * nfrom), fold_range, &f);
    return true;
}
