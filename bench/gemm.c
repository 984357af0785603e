/* Matrix products against OpenBLAS and oneDNN called directly, the better of the two. */
#include "bench.h"

#include <cblas.h>
#include <math.h>
#include <oneapi/dnnl/dnnl.h>

typedef struct {
    cfx_tensor *a, *b, *bias;
    float *c;
    int m, n, k, batch;
} product;

static float *data(const cfx_tensor *t) { return cfx_tensor_data(t); }

static void ours_mm(void *p) {
    product *x = p;
    CFX_SCOPE cfx_mm(x->a, x->b);
}

static void ours_bmm(void *p) {
    product *x = p;
    CFX_SCOPE cfx_bmm(x->a, x->b);
}

/* linear multiplies by the transpose of its weight. */
static void ours_linear(void *p) {
    product *x = p;
    CFX_SCOPE cfx_linear(x->a, x->b, x->bias);
}

static void blas_mm(void *p) {
    product *x = p;
    for (int i = 0; i < x->batch; i++)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, x->m, x->n, x->k, 1,
                    data(x->a) + (size_t)i * x->m * x->k, x->k,
                    data(x->b) + (size_t)i * x->k * x->n, x->n, 0,
                    x->c + (size_t)i * x->m * x->n, x->n);
}

static void dnnl_mm(void *p) {
    product *x = p;
    for (int i = 0; i < x->batch; i++)
        dnnl_sgemm('N', 'N', x->m, x->n, x->k, 1, data(x->a) + (size_t)i * x->m * x->k, x->k,
                   data(x->b) + (size_t)i * x->k * x->n, x->n, 0,
                   x->c + (size_t)i * x->m * x->n, x->n);
}

static void blas_linear(void *p) {
    product *x = p;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, x->m, x->n, x->k, 1, data(x->a), x->k,
                data(x->b), x->k, 0, x->c, x->n);
}

static void dnnl_linear(void *p) {
    product *x = p;
    dnnl_sgemm('N', 'T', x->m, x->n, x->k, 1, data(x->a), x->k, data(x->b), x->k, 0, x->c, x->n);
}

static void row(const char *what, void (*ours)(void *), void (*blas)(void *), void (*dnnl)(void *),
                product *x) {
    double us, one, again, two;
    bench_pair(ours, x, blas, x, &us, &one);
    bench_pair(ours, x, dnnl, x, &again, &two);
    bench_row(what, fmin(us, again), one < two ? "OpenBLAS" : "oneDNN", fmin(one, two));
}

BENCH(gemm) {
    static const int sizes[][3] = {{64, 64, 64}, {256, 256, 256}, {1024, 1024, 1024},
                                   {128, 768, 768}, {32, 4096, 1024}};
    openblas_set_num_threads(cfx_get_num_threads());
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        CFX_SCOPE {
            product x = {.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2], .batch = 1};
            char what[64];
            x.a = cfx_randn(x.m, x.k);
            x.b = cfx_randn(x.k, x.n);
            x.c = data(cfx_randn(x.m, x.n));
            snprintf(what, sizeof what, "mm %d x %d x %d", x.m, x.k, x.n);
            row(what, ours_mm, blas_mm, dnnl_mm, &x);
            x.b = cfx_randn(x.n, x.k);
            x.bias = cfx_randn(x.n);
            snprintf(what, sizeof what, "linear %d x %d to %d", x.m, x.k, x.n);
            row(what, ours_linear, blas_linear, dnnl_linear, &x);
        }
    product x = {.m = 128, .n = 128, .k = 64, .batch = 24};
    x.a = cfx_randn(x.batch, x.m, x.k);
    x.b = cfx_randn(x.batch, x.k, x.n);
    x.c = data(cfx_randn(x.batch, x.m, x.n));
    row("bmm 24 of 128 x 64 x 128", ours_bmm, blas_mm, dnnl_mm, &x);
}
