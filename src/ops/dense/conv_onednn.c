/* Convolution by oneDNN, in the layouts that it chooses. */
#include "conv.h"
#include "onednn.h"

#include <stdatomic.h>

/* Everything that a primitive depends on. No padding between fields: it is compared as bytes. */
typedef struct {
    char family[8];
    conv v;
    int64_t what, bias, last, threads;
} conv_key;

typedef struct {
    dnnl_primitive_t primitive;
    onednn_port src, weights, dst;
    dnnl_memory_t bias;
    bool failed; /* oneDNN refused: not to be asked again */
} conv_plan;

static void plan_free(void *arg) {
    conv_plan *p = arg;
    if (p->primitive)
        DNN(primitive_destroy)(p->primitive);
    if (p->bias)
        DNN(memory_destroy)(p->bias);
    onednn_port_free(&p->src);
    onednn_port_free(&p->weights);
    onednn_port_free(&p->dst);
    cfx__free(p);
}

/* A description of n, channels and the dims of space, in order or channels last; or any. */
static bool describe(dnnl_memory_desc_t *to, const conv *v, int64_t channels, const int64_t *size,
                     bool last, bool any) {
    static const dnnl_format_tag_t tag[2][3] = {{dnnl_ncw, dnnl_nchw, dnnl_ncdhw},
                                                {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc}};
    dnnl_dims_t dims = {v->batch, channels};
    for (int i = 0; i < v->dims; i++)
        dims[2 + i] = size[3 - v->dims + i];
    return DNN(memory_desc_init_by_tag)(to, v->dims + 2, dims, dnnl_f32,
                                        any ? dnnl_format_tag_any : tag[last][v->dims - 1]) ==
           dnnl_success;
}

static bool describe_weights(dnnl_memory_desc_t *to, const conv *v, bool any) {
    static const dnnl_format_tag_t tag[2][3] = {{dnnl_oiw, dnnl_oihw, dnnl_oidhw},
                                                {dnnl_goiw, dnnl_goihw, dnnl_goidhw}};
    const bool grouped = v->groups > 1;
    dnnl_dims_t dims;
    int n = 0;
    if (grouped)
        dims[n++] = v->groups;
    dims[n++] = v->oc / v->groups;
    dims[n++] = v->ic / v->groups;
    for (int i = 0; i < v->dims; i++)
        dims[n++] = v->kernel[3 - v->dims + i];
    return DNN(memory_desc_init_by_tag)(to, n, dims, dnnl_f32,
                                        any ? dnnl_format_tag_any : tag[grouped][v->dims - 1]) ==
           dnnl_success;
}

static bool describe_conv(dnnl_convolution_desc_t *to, const conv *v, conv_what what,
                          const dnnl_memory_desc_t *src, const dnnl_memory_desc_t *weights,
                          const dnnl_memory_desc_t *bias, const dnnl_memory_desc_t *dst) {
    dnnl_dims_t stride, dilate, left, right;
    for (int i = 0; i < v->dims; i++) {
        int at = 3 - v->dims + i;
        stride[i] = v->stride[at];
        dilate[i] = v->dilation[at] - 1;
        left[i] = v->pad[at];
        right[i] = (v->out[at] - 1) * v->stride[at] + v->dilation[at] * (v->kernel[at] - 1) + 1 -
                   v->in[at] - v->pad[at];
    }
    dnnl_status_t s;
    if (what == CONV_DST)
        s = DNN(dilated_convolution_forward_desc_init)(to, dnnl_forward_inference,
                                                       dnnl_convolution_direct, src, weights, bias,
                                                       dst, stride, dilate, left, right);
    else if (what == CONV_SRC)
        s = DNN(dilated_convolution_backward_data_desc_init)(
            to, dnnl_convolution_direct, src, weights, dst, stride, dilate, left, right);
    else
        s = DNN(dilated_convolution_backward_weights_desc_init)(
            to, dnnl_convolution_direct, src, weights, NULL, dst, stride, dilate, left, right);
    return s == dnnl_success;
}

/* The primitive and its operands. Backward passes are only offered together with a forward one that
 * they could follow. */
static bool make(conv_plan *p, const conv_key *k) {
    static const dnnl_query_t query[3][3] = {
        {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
        {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
        {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md},
    };
    const conv *v = &k->v;
    dnnl_engine_t engine = onednn_engine();
    dnnl_memory_desc_t plain[3], want[3], bias;
    dnnl_dims_t bias_dims = {v->oc};
    dnnl_convolution_desc_t desc, forward;
    dnnl_primitive_desc_t pd = NULL, hint = NULL;
    const bool last = k->last != 0;
    if (!engine || !describe(&plain[0], v, v->ic, v->in, last, false) ||
        !describe(&want[0], v, v->ic, v->in, last, !last) ||
        !describe_weights(&plain[1], v, false) || !describe_weights(&want[1], v, true) ||
        !describe(&plain[2], v, v->oc, v->out, last, false) ||
        !describe(&want[2], v, v->oc, v->out, last, !last) ||
        DNN(memory_desc_init_by_tag)(&bias, 1, bias_dims, dnnl_f32, dnnl_a) != dnnl_success ||
        !describe_conv(&desc, v, (conv_what)k->what, &want[0], &want[1], k->bias ? &bias : NULL,
                       &want[2]))
        return false;
    if (k->what != CONV_DST) {
        if (!describe_conv(&forward, v, CONV_DST, &want[0], &want[1], NULL, &want[2]) ||
            DNN(primitive_desc_create)(&hint, &forward, NULL, engine, NULL) != dnnl_success)
            return false;
    }
    bool ok = DNN(primitive_desc_create)(&pd, &desc, NULL, engine, hint) == dnnl_success;
    if (hint)
        DNN(primitive_desc_destroy)(hint);
    if (!ok)
        return false;
    const dnnl_memory_desc_t *md[3];
    for (int i = 0; i < 3; i++)
        md[i] = DNN(primitive_desc_query_md)(pd, query[k->what][i], 0);
    ok = onednn_port_make(&p->src, &plain[0], md[0], k->what != CONV_SRC, k->what == CONV_SRC) &&
         onednn_port_make(&p->weights, &plain[1], md[1], k->what != CONV_WEIGHTS,
                          k->what == CONV_WEIGHTS) &&
         onednn_port_make(&p->dst, &plain[2], md[2], k->what != CONV_DST, k->what == CONV_DST) &&
         (!k->bias ||
          DNN(memory_create)(&p->bias, &bias, engine, DNNL_MEMORY_NONE) == dnnl_success) &&
         DNN(primitive_create)(&p->primitive, pd) == dnnl_success;
    DNN(primitive_desc_destroy)(pd);
    return ok;
}

static conv_plan *plan_for(const conv_key *k) {
    conv_plan *p = onednn_find(k, sizeof *k);
    if (p)
        return p;
    p = cfx__alloc0(sizeof *p);
    p->failed = !make(p, k);
    onednn_keep(k, sizeof *k, p, plan_free);
    return p;
}

/* Brings the operands to their places, runs, and brings the result back. False without memory. */
static bool execute(cfx_op_call *c, conv_plan *p, const conv_operands *o) {
    cfx__packed *held = NULL;
    void *src, *weights, *dst;
    if (o->what == CONV_SRC)
        src = onednn_port_write(c, &p->src, o->src->data);
    else
        src = onednn_port_read(c, &p->src, o->src->data);
    if (o->what == CONV_WEIGHTS)
        weights = onednn_port_write(c, &p->weights, o->weights->data);
    else
        weights = onednn_port_weights(c, &p->weights, o->weights, &held);
    if (o->what == CONV_DST)
        dst = onednn_port_write(c, &p->dst, o->dst->data);
    else
        dst = onednn_port_read(c, &p->dst, o->dst->data);
    if (op_failed()) {
        cfx_drop(held);
        return false;
    }
    static const int arg[3][3] = {
        {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
        {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
        {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
    };
    DNN(memory_set_data_handle)(p->src.wanted_mem, src);
    DNN(memory_set_data_handle)(p->weights.wanted_mem, weights);
    DNN(memory_set_data_handle)(p->dst.wanted_mem, dst);
    dnnl_exec_arg_t args[4] = {{arg[o->what][0], p->src.wanted_mem},
                               {arg[o->what][1], p->weights.wanted_mem},
                               {arg[o->what][2], p->dst.wanted_mem}};
    int n = 3;
    if (p->bias) {
        DNN(memory_set_data_handle)(p->bias, o->bias->data);
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, p->bias};
    }
    bool ok = DNN(primitive_execute)(p->primitive, onednn_stream(), n, args) == dnnl_success;
    if (ok && o->what == CONV_DST)
        onednn_port_finish(&p->dst, dst, o->dst->data);
    else if (ok && o->what == CONV_SRC)
        onednn_port_finish(&p->src, src, o->src->data);
    else if (ok)
        onednn_port_finish(&p->weights, weights, o->weights->data);
    cfx_drop(held);
    return ok;
}

typedef struct {
    const conv *v;
    bool last;
    const float *bias;
    float *x;
} bias_work;

static void bias_range(void *arg, int64_t begin, int64_t end) {
    const bias_work *w = arg;
    const int64_t points = w->v->in[0] * w->v->in[1] * w->v->in[2], channels = w->v->ic;
    for (int64_t i = begin; i < end; i++) {
        float *x = w->x + i * (w->last ? channels : points);
        if (w->last)
            for (int64_t j = 0; j < channels; j++)
                x[j] += w->bias[j];
        else
            for (int64_t j = 0; j < points; j++)
                x[j] += w->bias[i % channels];
    }
}

/* Whether channels lie last in memory. */
static bool is_last(const conv_operands *o) {
    return !cfx__tensor_is_contiguous(o->dst) || !cfx__tensor_is_contiguous(o->src);
}

/* By one primitive. */
static bool at_once(cfx_op_call *c, const conv *v, const conv_operands *o) {
    const bool last = is_last(o);
    conv_key k = {.family = "conv",
                  .v = *v,
                  .what = o->what,
                  .bias = o->bias && o->what == CONV_DST,
                  .last = last,
                  .threads = cfx_get_num_threads()};
    onednn_before before;
    if (!onednn_begin(&before))
        return false;
    conv_plan *p = plan_for(&k);
    bool ok = !p->failed && execute(c, p, o);
    onednn_end(&before);
    if (ok && o->bias && o->what == CONV_SRC) {
        const int64_t points = v->in[0] * v->in[1] * v->in[2];
        bias_work w = {v, last, (const float *)o->bias->data, (float *)o->src->data};
        cfx__parallel(v->batch * (last ? points : v->ic),
                      cfx__grain((double)(last ? v->ic : points)), bias_range, &w);
    }
    return ok;
}

/* Images of a batch, for threads to share. */
typedef struct {
    cfx_op_call *c;
    const conv *v;
    const conv_operands *o;
    atomic_bool failed;
} image_work;

static void image_range(void *arg, int64_t begin, int64_t end) {
    image_work *w = arg;
    const conv *v = w->v;
    conv one = *v;
    cfx_tensor src = *w->o->src, dst = *w->o->dst;
    conv_operands p = *w->o;
    one.batch = 1;
    p.src = &src, p.dst = &dst;
    src.data += begin * v->ic * v->in[0] * v->in[1] * v->in[2] * (int64_t)sizeof(float);
    dst.data += begin * v->oc * v->out[0] * v->out[1] * v->out[2] * (int64_t)sizeof(float);
    for (int64_t i = begin; i < end && !w->failed; i++) {
        size_t mark = cfx_scope_open();
        if (!at_once(w->c, &one, &p))
            w->failed = true;
        cfx_scope_close(mark);
        src.data += v->ic * v->in[0] * v->in[1] * v->in[2] * (int64_t)sizeof(float);
        dst.data += v->oc * v->out[0] * v->out[1] * v->out[2] * (int64_t)sizeof(float);
    }
}

/* Image by image, so that what is turned into oneDNN's layout and back stays in the cache, and
 * threads have something to share. */
static bool each_image(cfx_op_call *c, const conv *v, const conv_operands *o) {
    image_work w = {.c = c, .v = v, .o = o};
    cfx__parallel(v->batch, 1, image_range, &w);
    return !w.failed;
}

/* The gradient of the weights is a sum over images: each of several parts of the batch has its own,
 * and they are added in the order of the parts. */
typedef struct {
    cfx_op_call *c;
    const conv *v;
    const conv_operands *o;
    int64_t parts, weights; /* elements of the weights */
    float *sums;            /* those of the parts behind the first */
    atomic_bool failed;
} part_work;

static void part_range(void *arg, int64_t begin, int64_t end) {
    part_work *w = arg;
    const conv *v = w->v;
    const int64_t src_image = v->ic * v->in[0] * v->in[1] * v->in[2];
    const int64_t dst_image = v->oc * v->out[0] * v->out[1] * v->out[2];
    for (int64_t i = begin; i < end && !w->failed; i++) {
        const int64_t first = v->batch * i / w->parts, last = v->batch * (i + 1) / w->parts;
        cfx_tensor src = *w->o->src, dst = *w->o->dst, weights = *w->o->weights;
        conv some = *v;
        some.batch = last - first;
        src.data += first * src_image * (int64_t)sizeof(float);
        dst.data += first * dst_image * (int64_t)sizeof(float);
        if (i)
            weights.data = (char *)(w->sums + (i - 1) * w->weights);
        size_t mark = cfx_scope_open();
        conv_operands p = {.what = CONV_WEIGHTS, .src = &src, .dst = &dst, .weights = &weights};
        if (!at_once(w->c, &some, &p))
            w->failed = true;
        cfx_scope_close(mark);
    }
}

static void add_range(void *arg, int64_t begin, int64_t end) {
    const part_work *w = arg;
    float *to = (float *)w->o->weights->data;
    for (int64_t part = 0; part + 1 < w->parts; part++) {
        const float *from = w->sums + part * w->weights;
        for (int64_t i = begin; i < end; i++)
            to[i] += from[i];
    }
}

static bool each_part(cfx_op_call *c, const conv *v, const conv_operands *o, int64_t parts) {
    part_work w = {.c = c, .v = v, .o = o, .parts = parts, .weights = o->weights->numel};
    const size_t size = (size_t)((parts - 1) * w.weights) * sizeof(float);
    w.sums = cfx__block_alloc(size);
    if (!w.sums) {
        cfx__error_memory(size, false);
        return false;
    }
    cfx__parallel(parts, 1, part_range, &w);
    if (!w.failed)
        cfx__parallel(w.weights, cfx__grain((double)parts), add_range, &w);
    cfx__block_free(w.sums, size);
    return !w.failed;
}

/* How many parts of the batch threads share for the gradient of the weights; 1: it is done at
 * once. */
static int64_t parts_of(const conv *v, const conv_operands *o) {
    enum { LEAST = 1 << 22 }; /* multiplications that are worth sums of their own */
    const int64_t threads = cfx_get_num_threads();
    double work = (double)o->weights->numel * (double)v->batch;
    for (int i = 0; i < 3; i++)
        work *= (double)v->out[i];
    const int64_t most = work / LEAST < (double)v->batch ? (int64_t)(work / LEAST) : v->batch;
    return o->what != CONV_WEIGHTS || most < 2 || threads < 2 ? 1 : most < threads ? most : threads;
}

bool conv_onednn(cfx_op_call *c, const conv *v, const conv_operands *o) {
    enum { LARGE = 1 << 16 };
    if (!library_onednn())
        return false;
    const int64_t parts = parts_of(v, o);
    if (parts > 1)
        return each_part(c, v, o, parts);
    if (v->batch > 1 && !is_last(o) && o->what != CONV_WEIGHTS &&
        v->ic * v->in[0] * v->in[1] * v->in[2] + v->oc * v->out[0] * v->out[1] * v->out[2] > LARGE)
        return each_image(c, v, o);
    return at_once(c, v, o);
}
