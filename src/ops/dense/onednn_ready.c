/* Kernels made ready by oneDNN. Reference implementations, which cost a thousandfold, are refused
 * by their names: the caller has other ways. */
#include <cfx/ops.h>

#include "onednn_ready.h"

typedef struct {
    cfx__ready pub;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_desc_t src, weights, bias, dst, scratchpad;
    cfx_tensor *weights_of, *bias_of; /* counted; the weights where they stay as they are */
    cfx__packed *packed;              /* else: in the primitive's own layout; counted */
    int threads;
} kernel;

static void kernel_free(void *obj) {
    kernel *k = obj;
    if (k->primitive)
        dnnl_primitive_destroy(k->primitive);
    if (k->stream)
        dnnl_stream_destroy(k->stream);
    if (k->engine)
        dnnl_engine_destroy(k->engine);
    cfx_drop(k->weights_of);
    cfx_drop(k->bias_of);
    cfx_drop(k->packed);
}

static const cfx__obj_type kernel_type = {.name = "ready kernel", .free = kernel_free};

/* ---- epilogues ------------------------------------------------------------------------------- */

/* oneDNN's name for an operator on its second and third argument. */
static bool eltwise_of(cfx_op *op, const cfx_value *args, dnnl_alg_kind_t *kind, float *alpha,
                       float *beta) {
    const struct {
        cfx_op *op;
        dnnl_alg_kind_t kind;
        float alpha, beta;
    } plain[] = {
        {&cfx_op_relu, dnnl_eltwise_relu, 0, 0},       {&cfx_op_relu6, dnnl_eltwise_clip, 0, 6},
        {&cfx_op_silu, dnnl_eltwise_swish, 1, 0},      {&cfx_op_tanh, dnnl_eltwise_tanh, 0, 0},
        {&cfx_op_sigmoid, dnnl_eltwise_logistic, 0, 0},
        {&cfx_op_hardswish, dnnl_eltwise_hardswish, 0, 0},
    };
    for (int i = 0; i < COUNT(plain); i++)
        if (plain[i].op == op) {
            *kind = plain[i].kind, *alpha = plain[i].alpha, *beta = plain[i].beta;
            return true;
        }
    if (op == &cfx_op_gelu) {
        bool exact = !strcmp(cfx_text(args[1]) ? cfx_text(args[1]) : "", "none");
        *kind = exact ? dnnl_eltwise_gelu_erf : dnnl_eltwise_gelu_tanh;
        return true;
    }
    if (op == &cfx_op_hardtanh && cfx_is_number(args[1]) && cfx_is_number(args[2])) {
        *kind = dnnl_eltwise_clip;
        *alpha = (float)cfx_number(args[1]), *beta = (float)cfx_number(args[2]);
        return *alpha <= *beta;
    }
    if (op == &cfx_op_leaky_relu && cfx_is_number(args[1])) {
        *kind = dnnl_eltwise_relu;
        *alpha = (float)cfx_number(args[1]);
        return true;
    }
    return false;
}

bool cfx__ready_takes(cfx_op *op, const cfx_value *args) {
    dnnl_alg_kind_t kind;
    float alpha = 0, beta = 0;
    return eltwise_of(op, args, &kind, &alpha, &beta);
}

/* oneDNN takes maxima in the order that gives the bound for NaN, and bounds what it raises to a
 * power; the others are products with the operand. */
bool cfx__ready_hides_nan(cfx_op *op) {
    return op == &cfx_op_relu || op == &cfx_op_relu6 || op == &cfx_op_hardtanh ||
           op == &cfx_op_leaky_relu || op == &cfx_op_sigmoid || op == &cfx_op_tanh;
}

static bool append(dnnl_post_ops_t to, const cfx__post *p) {
    dnnl_alg_kind_t kind;
    float alpha = 0, beta = 0;
    if (!p->op)
        return dnnl_post_ops_append_sum(to, 1) == dnnl_success;
    return eltwise_of(p->op, p->args, &kind, &alpha, &beta) &&
           dnnl_post_ops_append_eltwise(to, 1, kind, alpha, beta) == dnnl_success;
}

/* The attributes of a primitive: its epilogue, and scratch memory that the caller brings. */
static dnnl_primitive_attr_t attributes(const cfx__epilogue *e) {
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t posts = NULL;
    if (dnnl_primitive_attr_create(&attr) != dnnl_success)
        return NULL;
    bool ok = dnnl_post_ops_create(&posts) == dnnl_success;
    for (int i = 0; i < e->n && ok; i++)
        ok = append(posts, &e->post[i]);
    ok = ok && dnnl_primitive_attr_set_post_ops(attr, posts) == dnnl_success &&
         dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) == dnnl_success;
    if (posts)
        dnnl_post_ops_destroy(posts);
    if (ok)
        return attr;
    dnnl_primitive_attr_destroy(attr);
    return NULL;
}

/* ---- running --------------------------------------------------------------------------------- */

static bool run(const cfx__ready *r, const void *x, void *out, void *scratch) {
    kernel *k = (kernel *)r;
    const struct {
        int arg;
        const dnnl_memory_desc_t *md;
        void *data;
    } operands[] = {
        {DNNL_ARG_SRC, &k->src, (void *)x},
        {DNNL_ARG_WEIGHTS, &k->weights, k->packed ? k->packed->data : k->weights_of->data},
        {DNNL_ARG_DST, &k->dst, out},
        {DNNL_ARG_SCRATCHPAD, &k->scratchpad, scratch},
        {DNNL_ARG_BIAS, &k->bias, k->bias_of ? k->bias_of->data : NULL},
    };
    dnnl_exec_arg_t args[COUNT(operands)] = {{0}};
    int n = k->bias_of ? COUNT(operands) : COUNT(operands) - 1, made = 0;
    for (; made < n; made++) {
        args[made].arg = operands[made].arg;
        if (dnnl_memory_create(&args[made].memory, operands[made].md, k->engine,
                               operands[made].data) != dnnl_success)
            break;
    }
    int before = onednn_begin(k->threads);
    bool ok = made == n && !dnnl_primitive_execute(k->primitive, k->stream, n, args);
    onednn_end(before);
    for (int i = 0; i < made; i++)
        dnnl_memory_destroy(args[i].memory);
    return ok;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Brings the weights to the primitive's layout; that form is kept with them, for other plans. */
static bool pack(kernel *k, const onednn_wish *w) {
    if (dnnl_memory_desc_equal(&w->plain, &k->weights)) {
        k->weights_of = cfx_keep((cfx_tensor *)w->weights);
        return true;
    }
    onednn_port port = {0};
    if (onednn_port_make(&port, &w->plain, &k->weights, true, false))
        k->packed = onednn_port_pack(&port, w->weights);
    onednn_port_free(&port);
    return k->packed != NULL;
}

static bool make(kernel *k, const onednn_wish *w, const cfx__epilogue *e) {
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_attr_t attr = attributes(e);
    if (!attr || dnnl_engine_create(&k->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&k->stream, k->engine, dnnl_stream_default_flags) != dnnl_success ||
        dnnl_primitive_desc_create(&pd, w->desc, attr, k->engine, NULL) != dnnl_success)
        pd = NULL;
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    if (!pd)
        return false;
    const char *name = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    bool ok = !strstr(name, "ref") && !dnnl_primitive_create(&k->primitive, pd);
    if (ok) {
        k->src = *dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0);
        k->weights = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
        k->dst = *dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
        k->scratchpad = *dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
        if (w->bias)
            k->bias = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 1);
        k->pub.scratch = (int64_t)dnnl_memory_desc_get_size(&k->scratchpad);
        k->pub.name = name;
        k->pub.run = run;
        k->bias_of = cfx_keep((cfx_tensor *)w->bias);
        ok = pack(k, w);
    }
    dnnl_primitive_desc_destroy(pd);
    return ok;
}

cfx__ready *onednn_ready(const onednn_wish *w, const cfx__epilogue *e) {
    enum { LITTLE = 1 << 18 };
    kernel *k = cfx__obj_make(&kernel_type, sizeof *k);
    k->threads = w->work < LITTLE ? 1 : cfx_get_num_threads();
    int before = onednn_begin(k->threads);
    bool ok = make(k, w, e);
    onednn_end(before);
    if (ok)
        return &k->pub;
    cfx_drop(k);
    return NULL;
}
