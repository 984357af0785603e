/* Products of matrices: which kernel, which threads. Start at gemm_run. */
#include "gemm_own.h"
#include "pieces.h"

#include <complex.h>

typedef float _Complex c64;
typedef double _Complex c128;

enum {
    GEMM_SMALL = 1 << 12, /* multiplications below which packing costs more than it gives */
    GEMM_GRAIN = 1 << 16  /* multiplications worth a thread */
};

/* ---- plain loops ----------------------------------------------------------------------------- */

#define PLAIN_MUL(x, y) ((x) * (y))
#define PLAIN_CONJ(x) (x)
/* Without the care for infinities that C asks of a complex product, as BLAS multiplies. */
#define COMPLEX_MUL(T, R)                                                                          \
    static inline T T##_mul(T x, T y) {                                                            \
        R a = creal(x), b = cimag(x), c = creal(y), d = cimag(y);                                  \
        T z;                                                                                       \
        __real__ z = a * c - b * d;                                                                \
        __imag__ z = a * d + b * c;                                                                \
        return z;                                                                                  \
    }
COMPLEX_MUL(c64, float)
COMPLEX_MUL(c128, double)

#define T float
#define FN(x) x##_f32
#define MUL PLAIN_MUL
#define SCALED PLAIN_MUL
#define CONJ PLAIN_CONJ
#include "gemm_small.inc"
#define T double
#define FN(x) x##_f64
#define MUL PLAIN_MUL
#define SCALED PLAIN_MUL
#define CONJ PLAIN_CONJ
#include "gemm_small.inc"
#define T uint64_t /* wraps round, as PyTorch's integers do */
#define FN(x) x##_i64
#define MUL PLAIN_MUL
#define SCALED PLAIN_MUL
#define CONJ PLAIN_CONJ
#include "gemm_small.inc"
#define T c64
#define FN(x) x##_c64
#define MUL c64_mul
#define SCALED scaled_c64
#define CONJ conjf
#include "gemm_small.inc"
#define T c128
#define FN(x) x##_c128
#define MUL c128_mul
#define SCALED scaled_c128
#define CONJ conj
#include "gemm_small.inc"

/* ---- one matrix ------------------------------------------------------------------------------ */

/* What a worker needs to know; it must not touch the context. */
typedef struct {
    const gemm *g;
    double alpha_re, alpha_im, beta_re, beta_im;
    int64_t alpha_i, beta_i;
    int64_t pieces, piece; /* each matrix is cut in so many pieces of so many rows (or columns) */
    bool by_column;
} work;

static c64 alpha_c64(const work *w) {
    return __builtin_complex((float)w->alpha_re, (float)w->alpha_im);
}
static c64 beta_c64(const work *w) {
    return __builtin_complex((float)w->beta_re, (float)w->beta_im);
}
static c128 alpha_c128(const work *w) { return __builtin_complex(w->alpha_re, w->alpha_im); }
static c128 beta_c128(const work *w) { return __builtin_complex(w->beta_re, w->beta_im); }

static int64_t offset_of(const matrices *m, int64_t b) { return m->at ? m->at[b] : b * m->batch; }

static void small(const work *w, int64_t m, int64_t n, const void *a, const void *b, void *c) {
    const gemm *g = w->g;
    const int64_t ldc = g->c.row;
#define SMALL(ty, id, alpha, beta)                                                                 \
    small_##id(m, n, g->k, (const ty *)a, &g->a, (const ty *)b, &g->b, (ty)(alpha), (ty)(beta),    \
               (ty *)c, ldc)
    switch (g->dtype) {
    case CFX_F32:
        SMALL(float, f32, w->alpha_re, w->beta_re);
        break;
    case CFX_F64:
        SMALL(double, f64, w->alpha_re, w->beta_re);
        break;
    case CFX_C64:
        SMALL(c64, c64, alpha_c64(w), beta_c64(w));
        break;
    case CFX_C128:
        SMALL(c128, c128, alpha_c128(w), beta_c128(w));
        break;
    default:
        SMALL(uint64_t, i64, w->alpha_i, w->beta_i);
    }
#undef SMALL
}

/* Scratch memory of the kernels of gemm_own.h. */
static size_t room_for(cfx_dtype dtype, int64_t m, int64_t n, int64_t k) {
    return dtype == CFX_F32    ? gemm_room_f32(m, n, k)
           : dtype == CFX_C64  ? gemm_room_c64(m, n, k)
           : dtype == CFX_C128 ? gemm_room_c128(m, n, k)
                               : gemm_room_wide(m, n, k);
}

/* Whether a product is done by plain loops. */
static bool is_small(int64_t m, int64_t n, int64_t k) {
    return m <= GEMM_SMALL && n <= GEMM_SMALL && k <= GEMM_SMALL && m * n * k <= GEMM_SMALL;
}

/* m by n of one matrix of the batch, from the first element of each operand. */
static void multiply(const work *w, int64_t m, int64_t n, const void *a, const void *b, void *c,
                     void *room) {
    const gemm *g = w->g;
    if (is_small(m, n, g->k)) {
        small(w, m, n, a, b, c);
        return;
    }
    const int64_t k = g->k, ldc = g->c.row;
    switch (g->dtype) {
    case CFX_F32:
        if (!gemm_onednn(m, n, k, a, &g->a, b, &g->b, (float)w->alpha_re, (float)w->beta_re, c,
                         ldc))
            gemm_f32(m, n, k, a, &g->a, b, &g->b, (float)w->alpha_re, (float)w->beta_re, c, ldc,
                     room);
        break;
    case CFX_F64:
        gemm_f64(m, n, k, a, &g->a, b, &g->b, w->alpha_re, w->beta_re, c, ldc, room);
        break;
    case CFX_C64:
        gemm_c64(m, n, k, a, &g->a, b, &g->b, alpha_c64(w), beta_c64(w), c, ldc, room);
        break;
    case CFX_C128:
        gemm_c128(m, n, k, a, &g->a, b, &g->b, alpha_c128(w), beta_c128(w), c, ldc, room);
        break;
    default:
        gemm_i64(m, n, k, a, &g->a, b, &g->b, (uint64_t)w->alpha_i, (uint64_t)w->beta_i, c, ldc,
                 room);
    }
}

static void run_piece(const void *job, int64_t i, void *room) {
    const work *w = job;
    const gemm *g = w->g;
    const int64_t size = cfx_dtype_size(g->dtype);
    int64_t batch = i / w->pieces, from = i % w->pieces * w->piece;
    int64_t m = g->m, n = g->n;
    const char *a = g->a.data + offset_of(&g->a, batch) * size;
    const char *b = g->b.data + offset_of(&g->b, batch) * size;
    char *c = g->c.data + offset_of(&g->c, batch) * size;
    if (w->by_column) {
        n = n - from < w->piece ? n - from : w->piece;
        b += from * g->b.col * size;
        c += from * size;
    } else {
        m = m - from < w->piece ? m - from : w->piece;
        a += from * g->a.row * size;
        c += from * g->c.row * size;
    }
    multiply(w, m, n, a, b, c, room);
}

static void run_pieces(void *arg, int64_t begin, int64_t end) {
    const work *w = arg;
    const gemm *g = w->g;
    const int64_t m = w->by_column ? g->m : w->piece, n = w->by_column ? w->piece : g->n;
    const size_t size = is_small(m, n, g->k) ? 0 : room_for(g->dtype, m, n, g->k);
    pieces_run(run_piece, w, begin, end, size);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* A row times a matrix is as fast as the matrix is read. */
static void run_row(void *arg, int64_t begin, int64_t end) {
    const work *w = arg;
    const gemm *g = w->g;
#define ROW(ty, id, alpha, beta)                                                                   \
    row_##id(begin, end, g->k, (const ty *)g->a.data, g->a.col, (const ty *)g->b.data, &g->b,      \
             (ty)(alpha), (ty)(beta), (ty *)g->c.data)
    switch (g->dtype) {
    case CFX_F32:
        ROW(float, f32, w->alpha_re, w->beta_re);
        break;
    case CFX_F64:
        ROW(double, f64, w->alpha_re, w->beta_re);
        break;
    case CFX_C64:
        ROW(c64, c64, alpha_c64(w), beta_c64(w));
        break;
    case CFX_C128:
        ROW(c128, c128, alpha_c128(w), beta_c128(w));
        break;
    default:
        ROW(uint64_t, i64, w->alpha_i, w->beta_i);
    }
#undef ROW
}

static void scale_all(const work *w) {
    const gemm *g = w->g;
    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t i = 0; i < g->m; i++) {
            char *c = g->c.data + (offset_of(&g->c, b) + i * g->c.row) * cfx_dtype_size(g->dtype);
            switch (g->dtype) {
            case CFX_F32:
                scale_f32(g->n, (float)w->beta_re, (float *)c);
                break;
            case CFX_F64:
                scale_f64(g->n, w->beta_re, (double *)c);
                break;
            case CFX_C64:
                scale_c64(g->n, beta_c64(w), (c64 *)c);
                break;
            case CFX_C128:
                scale_c128(g->n, beta_c128(w), (c128 *)c);
                break;
            default:
                scale_i64(g->n, (uint64_t)w->beta_i, (uint64_t *)c);
            }
        }
}

/* How the work is cut: by matrices where there are enough of them, else each by rows or columns. */
static void cut(work *w, int threads) {
    const gemm *g = w->g;
    int64_t parts = (threads + g->batch - 1) / g->batch;
    w->by_column = g->n > g->m;
    int64_t length = w->by_column ? g->n : g->m, step = w->by_column ? 32 : 12;
    w->piece = (length + parts - 1) / parts;
    w->piece = (w->piece + step - 1) / step * step;
    w->pieces = (length + w->piece - 1) / w->piece;
}

bool gemm_run(gemm *g) {
    if (!g->batch || !g->m || !g->n)
        return true;
    work w = {.g = g, .alpha_re = cfx_number(g->alpha), .beta_re = cfx_number(g->beta)};
    if (!cfx__dtype_is_float(g->dtype)) {
        w.alpha_i = cfx_integer(g->alpha);
        w.beta_i = cfx_integer(g->beta);
        w.alpha_im = g->alpha.tag == CFX_TAG_COMPLEX ? cfx_as_complex(g->alpha)->im : 0;
        w.beta_im = g->beta.tag == CFX_TAG_COMPLEX ? cfx_as_complex(g->beta)->im : 0;
    }
    if (!g->k) {
        scale_all(&w);
        return true;
    }
    if (g->batch == 1 && is_small(g->m, g->n, g->k)) {
        small(&w, g->m, g->n, g->a.data, g->b.data, g->c.data);
        return true;
    }
    if (g->batch == 1 && g->m == 1) {
        cfx__parallel(g->n, 1 + GEMM_GRAIN / g->k, run_row, &w);
        return true;
    }
    const double products = (double)g->m * (double)g->n * (double)g->k;
    const int threads = cfx_get_num_threads();
    w.pieces = 1;
    w.piece = g->m;
    if (products * (double)g->batch > GEMM_GRAIN)
        cut(&w, threads);
    double each = products / (double)w.pieces;
    cfx__parallel(g->batch * w.pieces, each > GEMM_GRAIN ? 1 : (int64_t)(GEMM_GRAIN / each) + 1,
                  run_pieces, &w);
    return !op_failed();
}

matrices matrices_of(const cfx_tensor *t) {
    int n = t->ndim;
    return (matrices){t->data, n > 2 ? t->stride[n - 3] : 0, n > 1 ? t->stride[n - 2] : 0,
                      n > 0 ? t->stride[n - 1] : 0, NULL};
}

/* ---- composites ------------------------------------------------------------------------------ */

void out_as_composed(cfx_op_call *c) {
    cfx_value args[CFX_MAX_ARGS];
    for (int i = 0; i < c->nargs; i++) {
        const cfx_tensor *t = arg_tensor(c, i);
        args[i] = t ? cfx_tensor_value(cfx__tensor_faked(t)) : c->args[i];
    }
    cfx_value made = op_failed() ? cfx_bad() : cfx__op_decompose(c->at, c->op, args);
    for (int i = 0; i < c->nout && !op_failed(); i++) {
        const cfx_tensor *t = c->nout == 1 ? cfx_as_tensor(made) : cfx_tensor_at(made, i);
        out_strided(c, i, t->dtype, t->ndim, t->shape, t->stride);
    }
}

/* ---- dot ------------------------------------------------------------------------------------- */

void gemm_dot(cfx_dtype dtype, int64_t n, const void *x, int64_t sx, const void *y, int64_t sy,
              bool conjugate, void *out) {
    switch (dtype) {
    case CFX_F32:
        *(float *)out = dot_f32(n, x, sx, y, sy, false);
        break;
    case CFX_F64:
        *(double *)out = dot_f64(n, x, sx, y, sy, false);
        break;
    case CFX_C64:
        *(c64 *)out = dot_c64(n, x, sx, y, sy, conjugate);
        break;
    case CFX_C128:
        *(c128 *)out = dot_c128(n, x, sx, y, sy, conjugate);
        break;
    default:
        *(uint64_t *)out = dot_i64(n, x, sx, y, sy, false);
    }
}

const char *gemm_cpp_name(cfx_dtype d) {
    return d == CFX_I16 ? "short" : d == CFX_I64 ? "long" : cfx__dtype_cpp_name(d);
}
