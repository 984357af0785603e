/* Convolutions by cuDNN, channels last or first, with bias, addition and relu in the epilogue.
 * Start at cfx__cuda_try_convolution. */
#include <cfx/ops.h>

#include "../compile/layers.h"
#include "plan.h"

enum { /* as the library numbers them */
       DATA_32 = 0,
       DATA_64 = 1,
       DATA_16 = 2,
       DATA_BF16 = 9,
       FORMAT_FIRST = 0,
       FORMAT_LAST = 1,
       MATH_TENSOR = 1,  /* tf32 of float32 */
       MATH_CONVERT = 2, /* f16 of it */
       MATH_FMA = 3,
       CORRELATION = 1,
       ACT_RELU = 1,
       ACT_NONE = 5,
       NAN_STAYS = 1,
       ALGO_PRECOMPUTED = 1,
       ALGOS = 8
};

typedef struct {
    int algo, status;
    float time;
    size_t memory;
    int determinism, math, reserved[3];
} performance;

typedef struct {
    cfx__cuda_job job;
    const cfx__cuda_dnn *dnn;
    cfx__cuda_device *device;
    void *x, *w, *out, *bias, *conv, *act;
    int algo;
    size_t scratch;
    cfx__c_ref x_ref, w_ref, out_ref, bias_ref, add_ref;
    bool biased, adds, relu;
} convolution;

static void convolution_free(void *obj) {
    convolution *c = obj;
    const cfx__cuda_dnn *d = c->dnn;
    void *const tensors[] = {c->x, c->out, c->bias};
    for (int i = 0; i < COUNT(tensors); i++)
        if (tensors[i])
            d->tensor_destroy(tensors[i]);
    if (c->w)
        d->filter_destroy(c->w);
    if (c->conv)
        d->conv_destroy(c->conv);
    if (c->act)
        d->act_destroy(c->act);
}

static const cfx__obj_type convolution_type = {.name = "convolution on a card",
                                               .free = convolution_free};

static void *at(cfx__cuda_plan *p, const cfx__c_ref *r) {
    return (void *)(uintptr_t)cfx__cuda_where(p, r);
}

static bool convolution_run(const cfx__cuda_job *job, cfx__cuda_plan *p) {
    const convolution *c = (const convolution *)job;
    const cfx__cuda_dnn *d = c->dnn;
    void *scratch = (void *)(uintptr_t)(p->arena + (uint64_t)p->scratch_at);
    void *handle = c->device->dnn, *out = at(p, &c->out_ref);
    const float one = 1, none = 0;
    const double one64 = 1, none64 = 0;
    const bool wide = c->x_ref.dtype == CFX_F64;
    const void *yes = wide ? (const void *)&one64 : &one,
               *no = wide ? (const void *)&none64 : &none;
    int answer = d->set_stream(handle, c->device->stream);
    if (!answer && c->biased)
        answer = d->conv_bias_run(handle, yes, c->x, at(p, &c->x_ref), c->w, at(p, &c->w_ref),
                                  c->conv, c->algo, scratch, c->scratch, c->adds ? yes : no, c->out,
                                  c->adds ? at(p, &c->add_ref) : out, c->bias, at(p, &c->bias_ref),
                                  c->act, c->out, out);
    else if (!answer)
        answer = d->conv_run(handle, yes, c->x, at(p, &c->x_ref), c->w, at(p, &c->w_ref), c->conv,
                             c->algo, scratch, c->scratch, no, c->out, out);
    if (answer)
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "a convolution failed on cuda:%d: cuDNN says %d",
                 c->device->number, answer);
    return !answer;
}

/* ---- making ---------------------------------------------------------------------------------- */

static int type_of(cfx_dtype d) {
    return d == CFX_F32    ? DATA_32
           : d == CFX_F64  ? DATA_64
           : d == CFX_F16  ? DATA_16
           : d == CFX_BF16 ? DATA_BF16
                           : -1;
}

/* A tensor with dims of batch, channels and space, of which there are two at least. */
static void *tensor_of(const cfx__cuda_dnn *d, const cfx__c_ref *r, int nd) {
    int dims[8], strides[8], n = nd + 2;
    void *t = NULL;
    for (int i = 0; i < n; i++) {
        if (r->shape[i] > INT32_MAX || r->stride[i] > INT32_MAX)
            return NULL;
        dims[i] = (int)r->shape[i];
        strides[i] = (int)r->stride[i];
    }
    if (n == 3) /* an image of one row */
        dims[3] = dims[2], strides[3] = strides[2], dims[2] = 1, strides[2] = strides[3] * dims[3];
    n = n == 3 ? 4 : n;
    if (d->tensor_create(&t))
        return NULL;
    if (!d->tensor_set(t, type_of(r->dtype), n, dims, strides))
        return t;
    d->tensor_destroy(t);
    return NULL;
}

static bool is_channels_last(const cfx__c_ref *r) {
    int64_t want = 1;
    if (r->shape[1] != 1 && r->stride[1] != 1)
        return false;
    want = r->shape[1];
    for (int i = r->ndim - 1; i >= 2; i--) {
        if (r->shape[i] != 1 && r->stride[i] != want)
            return false;
        want *= r->shape[i];
    }
    return true;
}

static bool set_filter(convolution *c, const cfx_tensor *w, int nd, bool last) {
    int dims[8];
    int n = nd + 2;
    for (int i = 0; i < n; i++)
        dims[i] = (int)w->shape[i];
    if (n == 3)
        dims[3] = dims[2], dims[2] = 1, n = 4;
    return !c->dnn->filter_create(&c->w) &&
           !c->dnn->filter_set(c->w, type_of((cfx_dtype)w->dtype),
                               last ? FORMAT_LAST : FORMAT_FIRST, n, dims);
}

static bool set_window(convolution *c, const cfx__c_window *win, cfx_dtype type) {
    int pad[8] = {0}, step[8] = {1, 1}, far[8] = {1, 1};
    const int nd = win->nd, lead = nd == 1;
    for (int i = 0; i < nd; i++) {
        pad[lead + i] = (int)(win->lows ? win->low[i] : cfx__c_item(win->padding, i, 0));
        step[lead + i] = (int)cfx__c_item(win->stride, i, 1);
        far[lead + i] = (int)cfx__c_item(win->dilation, i, 1);
    }
    const cfx_precision p = type == CFX_F32 ? cfx_get_precision() : CFX_PRECISION_TF32;
    const int math = p == CFX_PRECISION_TF32  ? MATH_TENSOR
                     : p == CFX_PRECISION_F16 ? MATH_CONVERT
                                              : MATH_FMA;
    return !c->dnn->conv_create(&c->conv) &&
           !c->dnn->conv_set(c->conv, nd + lead, pad, step, far, CORRELATION,
                             type == CFX_F64 ? DATA_64 : DATA_32) &&
           !c->dnn->conv_groups(c->conv, (int)win->groups) && !c->dnn->conv_math(c->conv, math);
}

/* The first algorithm that gives the same bits in each run, as the library would choose. */
static bool choose(convolution *c) {
    performance all[ALGOS];
    int n = 0;
    void *handle = c->device->dnn;
    if (c->biased && !c->relu) /* what is added up without an activation has one */
        c->algo = ALGO_PRECOMPUTED;
    else {
        if (c->dnn->conv_choose(handle, c->x, c->w, c->conv, c->out, ALGOS, &n, all))
            return false;
        int i = 0;
        while (i < n && (all[i].status || all[i].determinism != 1))
            i++;
        if (i == n)
            return false;
        c->algo = all[i].algo;
    }
    return !c->dnn->conv_scratch(handle, c->x, c->w, c->conv, c->out, c->algo, &c->scratch);
}

/* ---- what steps say -------------------------------------------------------------------------- */

static bool takes(const cfx__c_work *k, const cfx__c_window *w) {
    const cfx__c_ref *x = k->x, *out = k->out;
    if (w->nd < 1 || w->nd > 3 || x->ndim != w->nd + 2 || w->transposed || !k->packs ||
        type_of(x->dtype) < 0 || x->dtype != out->dtype || k->packs->dtype != x->dtype ||
        !cfx__c_count(out) || !cfx__c_count(x))
        return false;
    for (int i = 0; i < w->nd && w->lows; i++) /* the same before and behind */
        if (cfx__c_item(w->dilation, i, 1) * (k->w->shape[2 + i] - 1) % 2)
            return false;
    return true;
}

bool cfx__cuda_try_convolution(cfx__cuda_making *m, int slot) {
    cfx__c_work k;
    const cfx_op *op = cfx__cuda_work_of(m, slot, &k);
    cfx__cuda_device *device = m->p->device;
    const cfx__cuda_dnn *dnn = op && k.packs && k.w->ndim > 2 ? cfx__cuda_dnn_open() : NULL;
    if (!dnn || op == &cfx_op_bmm || op == &cfx_op_baddbmm || op == &cfx_op_linear ||
        (!device->dnn && dnn->create(&device->dnn)))
        return false;
    const cfx__c_window win = cfx__c_window_of(&k, op);
    if (!takes(&k, &win))
        return false;
    const bool last = is_channels_last(k.x) && k.x->shape[1] > 1;
    if (last != (is_channels_last(k.out) && k.out->shape[1] > 1)) /* both in one order */
        return false;
    cfx_tensor *weight = k.packs; /* as it lies on the card */
    if (last && win.nd == 2)
        weight = cfx_contiguous(cfx_permute(weight, cfx_list(0, 2, 3, 1)));
    else if (last)
        return false;
    convolution *c = cfx__obj_make(&convolution_type, sizeof *c);
    c->job.name = "convolution (cuDNN)";
    c->job.uses = CFX__CUDA_USES_DNN;
    c->job.run = convolution_run;
    c->dnn = dnn;
    c->device = device;
    c->x_ref = *k.x, c->out_ref = *k.out;
    c->biased = k.bias != NULL;
    const cfx__c_ref *add = NULL;
    const int done = c->biased ? cfx__cuda_library_posts(&k, &add, &c->relu) : 0;
    c->adds = add != NULL;
    if (add)
        c->add_ref = *add;
    c->x = tensor_of(dnn, k.x, win.nd);
    c->out = tensor_of(dnn, k.out, win.nd);
    bool fine =
        c->x && c->out && set_filter(c, k.packs, win.nd, last) && set_window(c, &win, k.x->dtype);
    if (fine && c->biased) {
        int dims[8] = {1, (int)k.out->shape[1], 1, 1, 1}, strides[8] = {dims[1], 1, 1, 1, 1};
        c->bias_ref = *k.bias;
        fine =
            !dnn->tensor_create(&c->bias) &&
            !dnn->tensor_set(c->bias, type_of(k.bias->dtype), win.nd == 3 ? 5 : 4, dims, strides) &&
            !dnn->act_create(&c->act) &&
            !dnn->act_set(c->act, c->relu ? ACT_RELU : ACT_NONE, NAN_STAYS, 0);
    }
    fine = fine && choose(c);
    const cfx__c_ref *w = fine ? cfx__c_constant(&m->c, weight, "weight") : NULL;
    if (!w) {
        cfx_drop(c);
        return false;
    }
    c->w_ref = *w;
    c->job.scratch = (int64_t)c->scratch;
    c->job.reads[c->job.nreads++] = &c->x_ref;
    c->job.reads[c->job.nreads++] = &c->w_ref;
    if (c->biased)
        c->job.reads[c->job.nreads++] = &c->bias_ref;
    if (c->adds)
        c->job.reads[c->job.nreads++] = &c->add_ref;
    cfx__cuda_add_job(m, slot, &c->job);
    return cfx__cuda_posts(m, slot, &k, done);
}
