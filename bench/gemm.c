/* Products of matrices against OpenBLAS and oneDNN called directly, whichever is faster. oneDNN is
 * given every chance: weights of `linear` in the layout it likes, made beforehand. */
#include "bench.h"

#include <cblas.h>
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

typedef struct {
    int64_t batch, m, n, k;
    bool linear; /* b is [n, k] */
    cfx_tensor *a, *b;
    float *from_a, *from_b, *c; /* the peers' */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t src, weights, dst;
} gemm_case;

static void ours(void *arg) {
    gemm_case *g = arg;
    CFX_SCOPE
    {
        if (g->linear)
            cfx_linear(g->a, g->b);
        else if (g->batch > 1)
            cfx_bmm(g->a, g->b);
        else
            cfx_mm(g->a, g->b);
    }
}

static void by_blas(void *arg) {
    gemm_case *g = arg;
    for (int64_t i = 0; i < g->batch; i++)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, g->linear ? CblasTrans : CblasNoTrans, (int)g->m,
                    (int)g->n, (int)g->k, 1, g->from_a + i * g->m * g->k, (int)g->k,
                    g->from_b + i * g->k * g->n, (int)(g->linear ? g->k : g->n), 0,
                    g->c + i * g->m * g->n, (int)g->n);
}

static void by_sgemm(void *arg) {
    gemm_case *g = arg;
    for (int64_t i = 0; i < g->batch; i++)
        dnnl_sgemm('N', g->linear ? 'T' : 'N', g->m, g->n, g->k, 1, g->from_a + i * g->m * g->k,
                   g->k, g->from_b + i * g->k * g->n, g->linear ? g->k : g->n, 0,
                   g->c + i * g->m * g->n, g->n);
}

static void by_primitive(void *arg) {
    gemm_case *g = arg;
    dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, g->src}, {DNNL_ARG_WEIGHTS, g->weights}, {DNNL_ARG_DST, g->dst}};
    dnnl_primitive_execute(g->primitive, g->stream, 3, args);
    dnnl_stream_wait(g->stream);
}

static void make_primitive(gemm_case *g) {
    dnnl_memory_desc_t src, plain, any, dst;
    dnnl_dims_t a = {g->batch, g->m, g->k}, b = {g->batch, g->k, g->n}, c = {g->batch, g->m, g->n};
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd, move;
    dnnl_engine_create(&g->engine, dnnl_cpu, 0);
    dnnl_stream_create(&g->stream, g->engine, dnnl_stream_default_flags);
    dnnl_memory_desc_init_by_tag(&src, 3, a, dnnl_f32, dnnl_abc);
    dnnl_memory_desc_init_by_tag(&plain, 3, b, dnnl_f32, g->linear ? dnnl_acb : dnnl_abc);
    dnnl_memory_desc_init_by_tag(&any, 3, b, dnnl_f32, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&dst, 3, c, dnnl_f32, dnnl_abc);
    dnnl_matmul_desc_init(&desc, &src, g->linear ? &any : &plain, NULL, &dst);
    dnnl_primitive_desc_create(&pd, &desc, NULL, g->engine, NULL);
    dnnl_primitive_create(&g->primitive, pd);
    const dnnl_memory_desc_t *want = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    dnnl_memory_create(&g->src, &src, g->engine, g->from_a);
    dnnl_memory_create(&g->dst, &dst, g->engine, g->c);
    dnnl_memory_create(&g->weights, want, g->engine, DNNL_MEMORY_ALLOCATE);
    dnnl_memory_t from;
    dnnl_primitive_t mover;
    dnnl_memory_create(&from, &plain, g->engine, g->from_b);
    dnnl_reorder_primitive_desc_create(&move, &plain, g->engine, want, g->engine, NULL);
    dnnl_primitive_create(&mover, move);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, g->weights}};
    dnnl_primitive_execute(mover, g->stream, 2, args);
    dnnl_stream_wait(g->stream);
    dnnl_primitive_destroy(mover);
    dnnl_primitive_desc_destroy(move);
    dnnl_primitive_desc_destroy(pd);
    dnnl_memory_destroy(from);
}

/* A tensor, and its numbers for the peers. */
static cfx_tensor *filled(int ndim, const int64_t *shape, float **values) {
    size_t n = 1;
    for (int i = 0; i < ndim; i++)
        n *= (size_t)shape[i];
    *values = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
    for (size_t i = 0; i < n; i++)
        (*values)[i] = (float)(i * 7919 % 1000) / 1000 - 0.5f;
    return cfx_tensor_new(CFX_F32, ndim, shape, *values);
}

static void run(const char *what, gemm_case *g) {
    static const struct {
        const char *name;
        void (*fn)(void *);
    } peers[] = {
        {"OpenBLAS", by_blas}, {"oneDNN sgemm", by_sgemm}, {"oneDNN matmul", by_primitive}};
    double own = INFINITY, best = INFINITY;
    int threads = cfx_get_num_threads();
    const char *name = "";
    char label[96];
#ifdef _OPENMP
    omp_set_num_threads(threads);
#endif
    make_primitive(g);
    for (int i = 0; i < 3; i++) {
        double a, b;
        openblas_set_num_threads(threads);
        bench_pair(ours, g, peers[i].fn, g, &a, &b);
        own = fmin(own, a);
        if (b < best)
            best = b, name = peers[i].name;
    }
    snprintf(label, sizeof label, "%s %lldx%lldx%lldx%lld", what, (long long)g->batch,
             (long long)g->m, (long long)g->n, (long long)g->k);
    bench_row(label, own, name, best);
    dnnl_primitive_destroy(g->primitive);
    dnnl_memory_destroy(g->src);
    dnnl_memory_destroy(g->weights);
    dnnl_memory_destroy(g->dst);
    dnnl_stream_destroy(g->stream);
    dnnl_engine_destroy(g->engine);
    free(g->from_a);
    free(g->from_b);
    free(g->c);
}

/* The product of two tensors: [batch, m, k] by [batch, k, n], or by weights [n, k]. */
static void product(const char *what, bool linear, const int64_t *s) {
    CFX_SCOPE
    {
        gemm_case g = {.batch = s[0], .m = s[1], .n = s[2], .k = s[3], .linear = linear};
        int64_t a[] = {g.batch, g.m, g.k}, b[] = {g.batch, g.k, g.n}, w[] = {g.n, g.k};
        int skip = g.batch == 1;
        g.a = filled(3 - skip, a + skip, &g.from_a);
        g.b = linear ? filled(2, w, &g.from_b) : filled(3 - skip, b + skip, &g.from_b);
        g.c = aligned_alloc(64, ((size_t)(g.batch * g.m * g.n) * sizeof(float) + 63) / 64 * 64);
        run(what, &g);
    }
}

BENCH(gemm_mm) {
    static const int64_t sizes[][4] = {
        {1, 4, 8, 2},       {1, 16, 16, 16},     {1, 64, 64, 64},       {1, 128, 128, 128},
        {1, 256, 256, 256}, {1, 512, 512, 512},  {1, 1024, 1024, 1024}, {1, 2048, 2048, 2048},
        {1, 64, 3136, 64},  {1, 256, 3136, 64},  {1, 256, 196, 1024},   {1, 1, 1024, 1024},
        {1, 197, 768, 768}, {1, 1024, 64, 1024},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        product("mm", false, sizes[i]);
}

BENCH(gemm_bmm) {
    static const int64_t sizes[][4] = {
        {12, 128, 128, 64}, {12, 128, 64, 128}, {12, 197, 197, 64},
        {64, 16, 16, 16},   {3, 512, 512, 512}, {96, 32, 32, 64},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        product("bmm", false, sizes[i]);
}

BENCH(gemm_linear) {
    static const int64_t sizes[][4] = {
        {1, 1, 768, 768},    {1, 1, 3072, 768},   {1, 1, 1000, 2048},   {1, 8, 768, 768},
        {1, 32, 1024, 1024}, {1, 128, 768, 768},  {1, 128, 3072, 768},  {1, 128, 768, 3072},
        {1, 197, 768, 768},  {1, 197, 3072, 768}, {1, 128, 50257, 768},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        product("linear", true, sizes[i]);
}
