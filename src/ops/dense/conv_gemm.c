/* Convolution as products of matrices: for the dtypes that oneDNN does not know, and for
 * convolutions by one point, which are products as they stand. */
#include "conv.h"

#define T float
#define FN(x) x##_f32
#include "conv_gemm.inc"
#define T double
#define FN(x) x##_f64
#include "conv_gemm.inc"
#define T uint64_t /* wraps round */
#define FN(x) x##_i64
#include "conv_gemm.inc"
#define T float _Complex
#define FN(x) x##_c64
#include "conv_gemm.inc"
#define T double _Complex
#define FN(x) x##_c128
#include "conv_gemm.inc"

#define EACH(dtype, call)                                                                          \
    switch (dtype) {                                                                               \
    case CFX_F32:                                                                                  \
        call(float, f32);                                                                          \
        break;                                                                                     \
    case CFX_F64:                                                                                  \
        call(double, f64);                                                                         \
        break;                                                                                     \
    case CFX_C64:                                                                                  \
        call(float _Complex, c64);                                                                 \
        break;                                                                                     \
    case CFX_C128:                                                                                 \
        call(double _Complex, c128);                                                               \
        break;                                                                                     \
    default:                                                                                       \
        call(uint64_t, i64);                                                                       \
    }

typedef struct {
    const conv *v;
    cfx_dtype dtype;
    const void *from;
    void *to;
} patches;

static void columns_range(void *arg, int64_t begin, int64_t end) {
    const patches *p = arg;
#define COLUMNS(T, id) columns_##id(p->v, (const T *)p->from, (T *)p->to, begin, end)
    EACH(p->dtype, COLUMNS)
#undef COLUMNS
}

static void scatter_range(void *arg, int64_t begin, int64_t end) {
    const patches *p = arg;
#define SCATTER(T, id) scatter_##id(p->v, (const T *)p->from, (T *)p->to, begin, end)
    EACH(p->dtype, SCATTER)
#undef SCATTER
}

static void add_bias(cfx_dtype dtype, int64_t batch, int64_t channels, int64_t points,
                     const void *bias, void *x) {
#define BIAS(T, id) add_bias_##id(batch, channels, points, (const T *)bias, (T *)x)
    EACH(dtype, BIAS)
#undef BIAS
}

static int64_t volume(const int64_t *size) { return size[0] * size[1] * size[2]; }

/* Whether a patch is a point, and they come in order: the image is its own matrix of columns. */
static bool by_points(const conv *v) {
    for (int i = 0; i < 3; i++)
        if (v->kernel[i] != 1 || v->stride[i] != 1 || v->pad[i] || v->in[i] != v->out[i])
            return false;
    return true;
}

/* One image and one group: columns of the channels at src, weights and dst of the group. */
static bool one_group(const conv *v, const conv_operands *o, patches *p, char *src, char *weights,
                      char *dst, void *columns, bool first) {
    const int64_t points = volume(v->out), rows = v->ic / v->groups * volume(v->kernel);
    const bool direct = by_points(v);
    matrices w = {weights, 0, rows, 1, NULL}, d = {dst, 0, points, 1, NULL};
    matrices m = {direct ? src : columns, 0, points, 1, NULL};
    gemm g = {.dtype = p->dtype, .batch = 1, .alpha = cfx_int(1), .beta = cfx_int(0)};
    if (!direct && o->what != CONV_SRC) {
        p->from = src;
        p->to = columns;
        cfx__parallel(rows, cfx__grain((double)points), columns_range, p);
    }
    if (o->what == CONV_DST) {
        g.m = v->oc / v->groups, g.n = points, g.k = rows;
        g.a = w, g.b = m, g.c = d;
        return gemm_run(&g);
    }
    if (o->what == CONV_WEIGHTS) {
        g.m = v->oc / v->groups, g.n = rows, g.k = points;
        g.a = d, g.b = transposed(m), g.c = w;
        g.beta = cfx_int(first ? 0 : 1);
        return gemm_run(&g);
    }
    g.m = rows, g.n = points, g.k = v->oc / v->groups;
    g.a = transposed(w), g.b = d, g.c = m;
    if (!gemm_run(&g))
        return false;
    if (!direct) {
        p->from = columns;
        p->to = src;
        cfx__parallel(v->ic / v->groups, cfx__grain((double)(points * volume(v->kernel))),
                      scatter_range, p);
    }
    return true;
}

void conv_gemm(cfx_op_call *c, const conv *v, const conv_operands *o) {
    cfx_tensor *result = o->what == CONV_DST ? o->dst : o->what == CONV_SRC ? o->src : o->weights;
    const int64_t size = cfx_dtype_size(result->dtype), groups = v->groups;
    const int64_t ic = v->ic / groups, oc = v->oc / groups, taps = volume(v->kernel);
    const int64_t in = volume(v->in), out = volume(v->out);
    patches p = {.v = v, .dtype = (cfx_dtype)result->dtype};
    void *columns = NULL;
    if (!by_points(v)) {
        int64_t n;
        if (__builtin_mul_overflow(ic * taps, out, &n)) {
            op_fail_large(c, "convolution: too large");
            return;
        }
        columns = scratch(c, p.dtype, n);
        if (op_failed())
            return;
    }
    if (o->what != CONV_DST)
        memset(result->data, 0, (size_t)(result->numel * size));
    for (int64_t n = 0; n < v->batch; n++)
        for (int64_t g = 0; g < groups; g++)
            if (!one_group(v, o, &p, o->src->data + (n * groups + g) * ic * in * size,
                           o->weights->data + g * oc * ic * taps * size,
                           o->dst->data + (n * groups + g) * oc * out * size, columns, n == 0))
                return;
    if (o->bias)
        add_bias(p.dtype, v->batch, o->what == CONV_DST ? v->oc : v->ic,
                 o->what == CONV_DST ? out : in, o->bias->data, result->data);
}
