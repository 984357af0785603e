/* Convolutions against oneDNN called directly, its operands in the layouts that it chose, made
 * beforehand. Ours take and give tensors in order. */
#include "bench.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

typedef struct {
    int64_t n, ic, oc, size, kernel, stride, groups, dilation;
    cfx_tensor *x, *w, *b;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t src, weights, bias, dst;
} conv_case;

static int64_t padding(const conv_case *v) { return v->dilation * (v->kernel / 2); }

static void ours(void *arg) {
    conv_case *v = arg;
    CFX_SCOPE
    {
        int64_t stride[] = {v->stride, v->stride}, pad[] = {padding(v), padding(v)};
        int64_t dilation[] = {v->dilation, v->dilation};
        cfx_conv2d(v->x, v->w, v->b, cfx_ints_value(2, stride), cfx_ints_value(2, pad),
                   cfx_ints_value(2, dilation), v->groups);
    }
}

static void peer(void *arg) {
    conv_case *v = arg;
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, v->src},
                              {DNNL_ARG_WEIGHTS, v->weights},
                              {DNNL_ARG_BIAS, v->bias},
                              {DNNL_ARG_DST, v->dst}};
    dnnl_primitive_execute(v->primitive, v->stream, 4, args);
    dnnl_stream_wait(v->stream);
}

static dnnl_memory_t room(conv_case *v, dnnl_primitive_desc_t pd, dnnl_query_t what) {
    const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, what, 0);
    dnnl_memory_t m;
    void *data;
    dnnl_memory_create(&m, md, v->engine, DNNL_MEMORY_ALLOCATE);
    dnnl_memory_get_data_handle(m, &data);
    memset(data, 0, dnnl_memory_desc_get_size(md));
    return m;
}

static void make_peer(conv_case *v) {
    const int64_t out =
        (v->size + 2 * padding(v) - v->dilation * (v->kernel - 1) - 1) / v->stride + 1;
    dnnl_memory_desc_t src, weights, bias, dst;
    dnnl_dims_t s = {v->n, v->ic, v->size, v->size}, d = {v->n, v->oc, out, out}, b = {v->oc};
    dnnl_dims_t w = {v->oc, v->ic, v->kernel, v->kernel};
    dnnl_dims_t g = {v->groups, v->oc / v->groups, v->ic / v->groups, v->kernel, v->kernel};
    dnnl_dims_t stride = {v->stride, v->stride}, pad = {padding(v), padding(v)};
    dnnl_dims_t dilate = {v->dilation - 1, v->dilation - 1};
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t pd;
    dnnl_engine_create(&v->engine, dnnl_cpu, 0);
    dnnl_stream_create(&v->stream, v->engine, dnnl_stream_default_flags);
    dnnl_memory_desc_init_by_tag(&src, 4, s, dnnl_f32, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&dst, 4, d, dnnl_f32, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&bias, 1, b, dnnl_f32, dnnl_a);
    dnnl_memory_desc_init_by_tag(&weights, v->groups > 1 ? 5 : 4, v->groups > 1 ? g : w, dnnl_f32,
                                 dnnl_format_tag_any);
    dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_inference,
                                               dnnl_convolution_direct, &src, &weights, &bias, &dst,
                                               stride, dilate, pad, pad);
    dnnl_primitive_desc_create(&pd, &desc, NULL, v->engine, NULL);
    dnnl_primitive_create(&v->primitive, pd);
    v->src = room(v, pd, dnnl_query_src_md);
    v->weights = room(v, pd, dnnl_query_weights_md);
    v->dst = room(v, pd, dnnl_query_dst_md);
    dnnl_memory_create(&v->bias, &bias, v->engine, DNNL_MEMORY_ALLOCATE);
    dnnl_primitive_desc_destroy(pd);
}

static cfx_tensor *zeros(int ndim, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++)
        n *= shape[i];
    float *values = calloc((size_t)n, sizeof *values);
    cfx_tensor *t = cfx_tensor_new(CFX_F32, ndim, shape, values);
    free(values);
    return t;
}

static void run(const int64_t *c) {
    CFX_SCOPE
    {
        conv_case v = {c[0], c[1], c[2], c[3], c[4], c[5], c[6], 1, .x = NULL};
        int64_t x[] = {v.n, v.ic, v.size, v.size};
        int64_t w[] = {v.oc, v.ic / v.groups, v.kernel, v.kernel};
        double a, b;
        char label[96];
        v.x = zeros(4, x);
        v.w = zeros(4, w);
        v.b = zeros(1, &v.oc);
#ifdef _OPENMP
        omp_set_num_threads(cfx_get_num_threads());
#endif
        make_peer(&v);
        bench_pair(ours, &v, peer, &v, &a, &b);
        snprintf(label, sizeof label, "conv %lldx%lld->%lld %lldx%lld k%lld s%lld g%lld",
                 (long long)v.n, (long long)v.ic, (long long)v.oc, (long long)v.size,
                 (long long)v.size, (long long)v.kernel, (long long)v.stride, (long long)v.groups);
        bench_row(label, a, "oneDNN, its own layouts", b);
        dnnl_primitive_destroy(v.primitive);
        dnnl_memory_destroy(v.src);
        dnnl_memory_destroy(v.weights);
        dnnl_memory_destroy(v.bias);
        dnnl_memory_destroy(v.dst);
        dnnl_stream_destroy(v.stream);
        dnnl_engine_destroy(v.engine);
    }
}

/* n, input channels, output channels, size, kernel, stride, groups */
BENCH(conv_resnet) {
    static const int64_t cases[][7] = {
        {1, 3, 64, 224, 7, 2, 1},   {1, 64, 64, 56, 3, 1, 1},    {1, 64, 128, 56, 3, 2, 1},
        {1, 128, 128, 28, 3, 1, 1}, {1, 256, 256, 14, 3, 1, 1},  {1, 512, 512, 7, 3, 1, 1},
        {1, 64, 64, 56, 1, 1, 1},   {1, 64, 256, 56, 1, 1, 1},   {1, 256, 64, 56, 1, 1, 1},
        {1, 512, 128, 28, 1, 1, 1}, {1, 1024, 256, 14, 1, 1, 1}, {1, 2048, 512, 7, 1, 1, 1},
        {1, 256, 512, 56, 1, 2, 1}, {8, 64, 64, 56, 3, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run(cases[i]);
}

BENCH(conv_depthwise) {
    static const int64_t cases[][7] = {
        {1, 32, 32, 112, 3, 1, 32},   {1, 96, 96, 112, 3, 2, 96},  {1, 144, 144, 56, 3, 1, 144},
        {1, 384, 384, 14, 3, 1, 384}, {1, 960, 960, 7, 3, 1, 960}, {1, 96, 96, 56, 7, 1, 96},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run(cases[i]);
}
