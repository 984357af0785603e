/* Plans, and passes of transforms over the lines of a tensor. */
#include "fft.h"

#include <math.h>

#define TWO_PI 6.28318530717958647693

enum { FINE = 256 }; /* neighbours in a table that are made from one coarse turn */

/* ---- one type at a time ---------------------------------------------------------------------- */

#define T float
#define FN(name) name##_f32
#include "fft.inc"
#undef T
#undef FN
#define T double
#define FN(name) name##_f64
#include "fft.inc"
#undef T
#undef FN

/* ---- plans ----------------------------------------------------------------------------------- */

/* Splits n into factors of 4 and small primes; false when something larger is left. */
static bool split_up(int64_t n, fft_plan *plan) {
    plan->nfactors = 0;
    static const int order[] = {4, 2, 3, 5, 7, 11, 13};
    for (int i = 0; i < COUNT(order); i++)
        for (; n % order[i] == 0; n /= order[i])
            plan->factors[plan->nfactors++] = order[i];
    return n == 1;
}

/* The least length above 2 n - 2 that has no prime factors but 2, 3 and 5. */
static int64_t convolution_length(int64_t n) {
    for (int64_t m = 2 * n - 1;; m++) {
        int64_t left = m;
        while (left % 2 == 0)
            left /= 2;
        while (left % 3 == 0)
            left /= 3;
        while (left % 5 == 0)
            left /= 5;
        if (left == 1)
            return m;
    }
}

/* A plan whose tables live in the current scope. False, with an error, when memory runs out. */
static bool make_plan(cfx_op_call *c, fft_plan *plan, int64_t n, cfx_dtype real) {
    *plan = (fft_plan){.n = n, .split = n, .as = real};
    if (n > INT64_MAX / 64) {
        op_fail(c, "a Fourier transform of %lld points is too long", (long long)n);
        return false;
    }
    if (!split_up(n, plan)) { /* in double: the chirp doubles the work and the rounding */
        plan->split = convolution_length(n);
        plan->as = CFX_F64;
        split_up(plan->split, plan);
    }
    return plan->as == CFX_F32 ? tables_f32(c, plan) : tables_f64(c, plan);
}

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct {
    const fft_plan *plan;
    fft_kind kind;
    bool forward, real_in;
    double scale;
    const char *in;
    char *out;
    int64_t in_n, out_n, in_step, out_step; /* along the line */
    int64_t lanes;                          /* lines at once */
    int nother;                             /* the other dimensions */
    int64_t size[CFX_MAX_DIMS], in_stride[CFX_MAX_DIMS], out_stride[CFX_MAX_DIMS];
} fft_lines;

/* Where line i starts, in elements. */
static int64_t line_at(const fft_lines *p, int64_t i, const int64_t *stride) {
    int64_t at = 0;
    for (int d = p->nother - 1; d >= 0; d--) {
        at += i % p->size[d] * stride[d];
        i /= p->size[d];
    }
    return at;
}

#define T float
#define D float
#define FN(name) name##_f32
#define LN(name) name##_f32
#include "fft_lines.inc"
#undef T
#undef D
#undef FN
#undef LN
#define T double
#define D float
#define FN(name) name##_f64
#define LN(name) name##_f32_f64
#include "fft_lines.inc"
#undef D
#undef LN
#define D double
#define LN(name) name##_f64
#include "fft_lines.inc"
#undef T
#undef D
#undef FN
#undef LN

bool fft_pass(cfx_op_call *c, fft_kind kind, const cfx_tensor *in, cfx_tensor *out, int dim,
              int64_t n, bool forward, double scale) {
    fft_plan plan;
    cfx_dtype real = cfx__dtype_real(out->dtype);
    if (out->numel == 0)
        return true;
    if (n == 0) {
        cfx__tensor_fill(out, cfx_int(0));
        return true;
    }
    if (!make_plan(c, &plan, n, real))
        return false;
    fft_lines p = {.plan = &plan, .kind = kind, .forward = forward, .scale = scale, .in = in->data,
                   .real_in = kind == FFT_R2C, .out = out->data, .in_n = in->shape[dim],
                   .out_n = out->shape[dim] < n ? out->shape[dim] : n, .in_step = in->stride[dim],
                   .out_step = out->stride[dim]};
    int64_t lines = 1;
    for (int d = 0; d < out->ndim; d++)
        if (d != dim) {
            p.size[p.nother] = out->shape[d];
            p.in_stride[p.nother] = in->stride[d];
            p.out_stride[p.nother++] = out->stride[d];
            lines *= out->shape[d];
        }
    int64_t room = 65536 / plan.split; /* what stays in the nearer caches */
    p.lanes = room < 1 ? 1 : room > 16 ? 16 : room;
    p.lanes = lines < p.lanes ? lines : p.lanes;
    int64_t grain = 16384 / plan.split;
    cfx__parallel(lines, grain < p.lanes ? p.lanes : grain,
                  real == CFX_F64         ? lines_f64
                  : plan.as == CFX_F64    ? lines_f32_f64
                                          : lines_f32,
                  &p);
    return !op_failed();
}
