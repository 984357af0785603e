/* Products of matrices: which library, which threads. Start at gemm_run. */
#include "gemm.h"
#include "onednn.h"
#include "widths.h"

#include <cblas.h>
#include <complex.h>

typedef float _Complex c64;
typedef double _Complex c128;

enum {
    GEMM_MR = 6,  /* rows of a tile of C */
    GEMM_MC = 96, /* rows of A kept in the second cache */
    GEMM_KC = 256,
    GEMM_NC = 512,
    GEMM_SMALL = 1 << 12, /* multiplications below which a library costs more than it gives */
    GEMM_GRAIN = 1 << 16 /* multiplications worth a thread */
};

/* ---- loops of our own ------------------------------------------------------------------------ */

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
#define CONJ PLAIN_CONJ
#include "gemm_small.inc"
#define T double
#define FN(x) x##_f64
#define MUL PLAIN_MUL
#define CONJ PLAIN_CONJ
#include "gemm_small.inc"
#define T uint64_t /* wraps round, as PyTorch's integers do */
#define FN(x) x##_i64
#define MUL PLAIN_MUL
#define CONJ PLAIN_CONJ
#include "gemm_small.inc"
#define T c64
#define FN(x) x##_c64
#define MUL c64_mul
#define CONJ conjf
#include "gemm_small.inc"
#define T c128
#define FN(x) x##_c128
#define MUL c128_mul
#define CONJ conj
#include "gemm_small.inc"

#define BODY "gemm_types.inc"
#include "widths.inc"

/* Whether OpenBLAS has kernels for this machine's vectors: on one it does not know it falls back to
 * those of twenty years ago. */
static bool blas_knows_machine(void) {
    static const char *const old[] = {"Prescott",  "Core2",     "Penryn",  "Dunnington", "Nehalem",
                                      "Athlon",    "Opteron",   "Generic", "Unknown",    "Katmai",
                                      "Northwood", "Barcelona", "Atom",    "Nano",       "generic"};
    const char *core = openblas_get_corename();
    for (int i = 0; i < COUNT(old); i++)
        if (!strncmp(core, old[i], strlen(old[i])))
            return vector_bytes() == 16;
    return true;
}

/* ---- one matrix ------------------------------------------------------------------------------ */

/* What a worker needs to know; it must not touch the context. */
typedef struct {
    const gemm *g;
    bool own_loops; /* f64: OpenBLAS does not know this machine */
    int width;
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
static bool is_transposed(const matrices *m) { return m->col != 1; }
static int64_t leading(const matrices *m) { return m->col == 1 ? m->row : m->col; }

static void own_blocks(const work *w, int64_t m, int64_t n, const void *a, const void *b, void *c) {
    const gemm *g = w->g;
    int64_t k = g->k < GEMM_KC ? g->k : GEMM_KC;
    int64_t rows = (m < GEMM_MC ? m : GEMM_MC) + GEMM_MR, cols = (n < GEMM_NC ? n : GEMM_NC) + 16;
    void *room = cfx__alloc_try((size_t)(k * (rows + cols)) * sizeof(double) + 64);
    if (!room)
        return;
    void *at = (void *)(((uintptr_t)room + 63) & ~(uintptr_t)63);
    const int64_t ldc = g->c.row;
    if (g->dtype == CFX_F64)
        BY_WIDTH(w->width, blocks_f64)
        (m, n, g->k, a, &g->a, b, &g->b, w->alpha_re, w->beta_re, c, ldc, at);
    else
        BY_WIDTH(w->width, blocks_i64)
        (m, n, g->k, a, &g->a, b, &g->b, (uint64_t)w->alpha_i, (uint64_t)w->beta_i, c, ldc, at);
    cfx__free(room);
}

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

/* m by n of one matrix of the batch, from the first element of each operand. */
static void multiply(const work *w, int64_t m, int64_t n, const void *a, const void *b, void *c) {
    const gemm *g = w->g;
    if (m <= GEMM_SMALL && n <= GEMM_SMALL && g->k <= GEMM_SMALL && m * n * g->k <= GEMM_SMALL) {
        small(w, m, n, a, b, c);
        return;
    }
    const bool ta = is_transposed(&g->a), tb = is_transposed(&g->b);
    const int64_t lda = leading(&g->a), ldb = leading(&g->b), ldc = g->c.row;
    const enum CBLAS_TRANSPOSE ca = ta ? CblasTrans : CblasNoTrans,
                               cb = tb ? CblasTrans : CblasNoTrans;
    switch (g->dtype) {
    case CFX_F32:
        dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, g->k, (float)w->alpha_re, a, lda, b, ldb,
                   (float)w->beta_re, c, ldc);
        break;
    case CFX_C64: {
        const c64 alpha = alpha_c64(w);
        const c64 beta = beta_c64(w);
        cblas_cgemm(CblasRowMajor, ca, cb, (blasint)m, (blasint)n, (blasint)g->k, &alpha, a,
                    (blasint)lda, b, (blasint)ldb, &beta, c, (blasint)ldc);
        break;
    }
    case CFX_C128: {
        const c128 alpha = alpha_c128(w), beta = beta_c128(w);
        cblas_zgemm(CblasRowMajor, ca, cb, (blasint)m, (blasint)n, (blasint)g->k, &alpha, a,
                    (blasint)lda, b, (blasint)ldb, &beta, c, (blasint)ldc);
        break;
    }
    case CFX_F64:
        if (!w->own_loops) {
            cblas_dgemm(CblasRowMajor, ca, cb, (blasint)m, (blasint)n, (blasint)g->k, w->alpha_re,
                        a, (blasint)lda, b, (blasint)ldb, w->beta_re, c, (blasint)ldc);
            break;
        }
        /* fall through */
    default:
        own_blocks(w, m, n, a, b, c);
    }
}

static void run_pieces(void *arg, int64_t begin, int64_t end) {
    const work *w = arg;
    const gemm *g = w->g;
    const int64_t size = cfx_dtype_size(g->dtype);
    for (int64_t i = begin; i < end; i++) {
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
        multiply(w, m, n, a, b, c);
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Whether BLAS can read matrices of `rows` by `cols` as they lie. Strides of dims of size 1 mean
 * nothing: they are set to what is expected. */
static bool readable(matrices *m, int64_t rows, int64_t cols) {
    if (rows == 1 && cols == 1)
        m->row = m->col = 1;
    else if (rows == 1)
        m->row = m->col == 1 ? cols : 1;
    else if (cols == 1)
        m->col = m->row == 1 ? rows : 1;
    return (m->col == 1 && m->row >= cols) || (m->row == 1 && m->col >= rows);
}

/* Copies the matrices to adjacent ones of the scope. Those that repeat (batch stride 0) are one. */
static bool gather(cfx_op_call *c, cfx_dtype dtype, int64_t batch, matrices *m, int64_t rows,
                   int64_t cols) {
    int64_t n = m->at || m->batch ? batch : 1, shape[] = {n, rows, cols};
    cfx_tensor *to = cfx__tensor_empty(c->at, dtype, false, 3, shape, NULL);
    if (cfx__obj_is_bad(to))
        return false;
    for (int64_t b = 0; b < n; b++) {
        int64_t stride[] = {rows * cols, cols, 1}, from_stride[] = {m->row, m->col};
        const int64_t size = cfx_dtype_size(dtype);
        cfx_tensor one = {.dtype = (uint8_t)dtype,
                          .ndim = 2,
                          .numel = rows * cols,
                          .shape = shape + 1,
                          .stride = stride + 1,
                          .data = to->data + b * rows * cols * size};
        cfx_tensor from = {.dtype = (uint8_t)dtype,
                           .ndim = 2,
                           .numel = rows * cols,
                           .shape = shape + 1,
                           .stride = from_stride,
                           .data = m->data + offset_of(m, b) * size};
        cfx__tensor_copy(&one, &from);
    }
    *m = (matrices){to->data, n == 1 ? 0 : rows * cols, cols, 1, NULL};
    return true;
}

/* Whether BLAS, which counts in int, can count what these matrices have. */
static bool countable(const gemm *g) {
    const int64_t counts[] = {g->m, g->n, g->k, leading(&g->a), leading(&g->b), g->c.row};
    int64_t most = 0;
    for (int i = 0; i < COUNT(counts); i++)
        most = counts[i] > most ? counts[i] : most;
    return most <= INT32_MAX;
}

/* A row times a matrix is as fast as the matrix is read: no library is needed. */
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

bool gemm_run(cfx_op_call *c, gemm *g) {
    if (!g->batch || !g->m || !g->n)
        return true;
    work w = {.g = g,
              .width = vector_bytes(),
              .own_loops = g->dtype == CFX_F64 && !blas_knows_machine(),
              .alpha_re = cfx_number(g->alpha),
              .beta_re = cfx_number(g->beta)};
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
    if (g->batch == 1 && g->m <= GEMM_SMALL && g->n <= GEMM_SMALL && g->k <= GEMM_SMALL &&
        g->m * g->n * g->k <= GEMM_SMALL) {
        small(&w, g->m, g->n, g->a.data, g->b.data, g->c.data);
        return true;
    }
    if (g->batch == 1 && g->m == 1) {
        cfx__parallel(g->n, 1 + GEMM_GRAIN / g->k, run_row, &w);
        return true;
    }
    if (g->m == 1) /* the stride of a single row is nobody's business, but libraries look at it */
        g->c.row = g->n;
    if (!readable(&g->a, g->m, g->k) && !gather(c, g->dtype, g->batch, &g->a, g->m, g->k))
        return false;
    if (!readable(&g->b, g->k, g->n) && !gather(c, g->dtype, g->batch, &g->b, g->k, g->n))
        return false;
    w.own_loops |= !countable(g);
    if (w.own_loops && cfx__dtype_is_complex(g->dtype)) {
        op_fail(c, "%s: complex matrices of more than %d rows or columns are too large",
                op_title(c), INT32_MAX);
        return false;
    }
    if (g->dtype != CFX_F32 && openblas_get_num_threads() != 1)
        openblas_set_num_threads(1);
    const double products = (double)g->m * (double)g->n * (double)g->k;
    const int threads = cfx_get_num_threads();
    w.pieces = 1;
    w.piece = g->m;
    if (products * (double)g->batch > GEMM_GRAIN)
        cut(&w, threads);
    double each = products / (double)w.pieces;
    int before = onednn_begin();
    cfx__parallel(g->batch * w.pieces, each > GEMM_GRAIN ? 1 : (int64_t)(GEMM_GRAIN / each) + 1,
                  run_pieces, &w);
    onednn_end(before);
    return true;
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
