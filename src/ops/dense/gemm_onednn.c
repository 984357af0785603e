/* Products by oneDNN's matmul primitive: with weights in the layout that it likes, and of many
 * small matrices at once. Which products go this way is told by their sizes alone, so that the same
 * call gives the same bits the first time and the thousandth. */
#include "gemm.h"
#include "onednn_ready.h"

/* Everything that a primitive depends on. */
typedef struct {
    char family[8];
    int64_t batch, m, n, k;
    int64_t a[3], b[3]; /* strides */
    int64_t bias, packed, threads;
} product_key;

typedef struct {
    dnnl_primitive_t primitive;
    dnnl_memory_t src, bias, dst;
    onednn_port weights;
    bool failed; /* oneDNN refused: not to be asked again */
} product_plan;

static void plan_free(void *arg) {
    product_plan *p = arg;
    if (p->primitive)
        dnnl_primitive_destroy(p->primitive);
    if (p->src)
        dnnl_memory_destroy(p->src);
    if (p->bias)
        dnnl_memory_destroy(p->bias);
    if (p->dst)
        dnnl_memory_destroy(p->dst);
    onednn_port_free(&p->weights);
    cfx__free(p);
}

/* Batch, rows and columns with their strides; without the batch where there is one matrix. */
static bool describe(dnnl_memory_desc_t *to, bool batched, const int64_t *size,
                     const int64_t *stride) {
    dnnl_dims_t sizes = {0}, strides = {0};
    const int skip = batched ? 0 : 1;
    for (int i = skip; i < 3; i++)
        sizes[i - skip] = size[i], strides[i - skip] = stride[i];
    return dnnl_memory_desc_init_by_strides(to, 3 - skip, sizes, dnnl_f32, strides) == dnnl_success;
}

static bool plan_make(product_plan *p, const product_key *k) {
    dnnl_engine_t engine = onednn_engine();
    dnnl_memory_desc_t src, plain, any, bias, dst;
    const bool many = k->batch > 1;
    const int64_t a[] = {k->batch, k->m, k->k}, b[] = {k->batch, k->k, k->n}, row[] = {1, 1, k->n};
    const int64_t c[] = {k->batch, k->m, k->n}, c_stride[] = {k->m * k->n, k->n, 1};
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;
    if (!engine || !describe(&src, many, a, k->a) || !describe(&plain, many, b, k->b) ||
        !describe(&bias, many, row, c_stride) || !describe(&dst, many, c, c_stride) ||
        dnnl_memory_desc_init_by_tag(&any, plain.ndims, plain.dims, dnnl_f32,
                                     dnnl_format_tag_any) ||
        dnnl_matmul_desc_init(&desc, &src, k->packed ? &any : &plain, k->bias ? &bias : NULL,
                              &dst) ||
        dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL))
        return false;
    bool ok =
        onednn_port_make(&p->weights, &plain,
                         dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0), true, false) &&
        !dnnl_memory_create(&p->src, &src, engine, DNNL_MEMORY_NONE) &&
        !dnnl_memory_create(&p->dst, &dst, engine, DNNL_MEMORY_NONE) &&
        (!k->bias || !dnnl_memory_create(&p->bias, &bias, engine, DNNL_MEMORY_NONE)) &&
        !dnnl_primitive_create(&p->primitive, pd);
    dnnl_primitive_desc_destroy(pd);
    return ok;
}

static product_plan *plan_for(const product_key *k) {
    product_plan *p = onednn_find(k, sizeof *k);
    if (p)
        return p;
    p = cfx__alloc0(sizeof *p);
    p->failed = !plan_make(p, k);
    onednn_keep(k, sizeof *k, p, plan_free);
    return p;
}

bool gemm_onednn(cfx_op_call *c, const gemm *g, const cfx_tensor *weights, const void *bias) {
    enum { LEAST = 1 << 16 }; /* multiplications that are worth making a primitive for */
    if ((double)g->batch * (double)g->m * (double)g->n * (double)g->k < LEAST)
        return false;
    product_key k = {.family = "product",
                     .batch = g->batch,
                     .m = g->m,
                     .n = g->n,
                     .k = g->k,
                     .a = {g->a.batch, g->a.row, g->a.col},
                     .b = {g->b.batch, g->b.row, g->b.col},
                     .bias = bias != NULL,
                     .packed = weights != NULL,
                     .threads = cfx_get_num_threads()};
    int before = onednn_begin(cfx_get_num_threads());
    product_plan *p = plan_for(&k);
    cfx__packed *held = NULL;
    void *b = NULL;
    if (!p->failed)
        b = weights ? onednn_port_weights(c, &p->weights, weights, &held) : g->b.data;
    bool ok = b != NULL;
    if (ok) {
        dnnl_memory_set_data_handle(p->src, g->a.data);
        dnnl_memory_set_data_handle(p->weights.wanted_mem, b);
        dnnl_memory_set_data_handle(p->dst, g->c.data);
        dnnl_exec_arg_t args[4] = {{DNNL_ARG_SRC, p->src},
                                   {DNNL_ARG_WEIGHTS, p->weights.wanted_mem},
                                   {DNNL_ARG_DST, p->dst}};
        if (bias) {
            dnnl_memory_set_data_handle(p->bias, (void *)bias);
            args[3] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, p->bias};
        }
        ok = !dnnl_primitive_execute(p->primitive, onednn_stream(), bias ? 4 : 3, args);
    }
    cfx_drop(held);
    onednn_end(before);
    return ok;
}

/* ---- ready kernels --------------------------------------------------------------------------- */

cfx__ready *gemm_ready(const cfx_tensor *x, const cfx_tensor *w, bool w_transposed,
                       const cfx_tensor *bias, const cfx_tensor *out, const cfx__epilogue *e) {
    if (x->dtype != CFX_F32 || w->dtype != CFX_F32 || w->ndim != 2 || !w->data || !x->ndim ||
        !out->numel || !x->numel || !cfx__tensor_is_contiguous(out) ||
        (bias && (bias->dtype != CFX_F32 || bias->ndim != 1 || !bias->data ||
                  !cfx__tensor_is_contiguous(bias))) ||
        !(cfx__tensor_is_contiguous(x) || (x->ndim == 2 && x->stride[1] == 1)))
        return NULL;
    matrices wm = w_transposed ? transposed(matrices_of(w)) : matrices_of(w);
    const int64_t k = x->shape[x->ndim - 1], m = x->numel / k, n = w->shape[w_transposed ? 0 : 1];
    const int64_t row = x->ndim == 2 && m > 1 ? x->stride[0] : k;
    const int64_t a[] = {1, m, k}, b[] = {1, k, n}, one[] = {1, 1, n}, c[] = {1, m, n};
    const int64_t as[] = {0, row, 1}, bs[] = {0, wm.row, wm.col}, cs[] = {0, n, 1};
    dnnl_memory_desc_t src, any, line, dst;
    dnnl_matmul_desc_t desc;
    onednn_wish wish = {.desc = &desc, .weights = w, .bias = bias, .work = m * n * k};
    if (n == 1 || (bias && bias->shape[0] != n) || !describe(&src, false, a, as) ||
        !describe(&wish.plain, false, b, bs) || !describe(&line, false, one, cs) ||
        !describe(&dst, false, c, cs) ||
        dnnl_memory_desc_init_by_tag(&any, 2, wish.plain.dims, dnnl_f32, dnnl_format_tag_any) ||
        dnnl_matmul_desc_init(&desc, &src, &any, bias ? &line : NULL, &dst))
        return NULL;
    return onednn_ready(&wish, e);
}
