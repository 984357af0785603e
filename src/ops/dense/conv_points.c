/* Convolution by single points: a product of matrices for each image, as the numbers lie. The bias
 * is added to a part of the result while it is in the cache. */
#include "conv.h"
#include "gemm_own.h"
#include "pieces.h"

typedef struct {
    const float *x, *w, *bias;
    float *y;
    int64_t groups, m, n, k; /* of one product: result channels, points, given channels */
    int64_t block, blocks;   /* points done at once */
    bool transposed;         /* the weights */
} points;

/* A part: an image, a group, a block of points. */
static void run_part(const void *job, int64_t part, void *room) {
    const points *p = job;
    const matrices weights = {.row = p->transposed ? 1 : p->k, .col = p->transposed ? p->m : 1};
    const matrices places = {.row = p->n, .col = 1};
    const int64_t at = part % p->blocks * p->block, image = part / p->blocks,
                  group = image % p->groups;
    const int64_t n = p->n - at < p->block ? p->n - at : p->block;
    const float *w = p->w + group * p->m * p->k, *x = p->x + image * p->k * p->n + at;
    float *y = p->y + image * p->m * p->n + at;
    if (!gemm_onednn(p->m, n, p->k, w, &weights, x, &places, 1, 0, y, p->n))
        gemm_f32(p->m, n, p->k, w, &weights, x, &places, 1, 0, y, p->n, room);
    for (int64_t c = 0; p->bias && c < p->m; c++) {
        const float b = p->bias[group * p->m + c];
        float *row = y + c * p->n;
        for (int64_t j = 0; j < n; j++)
            row[j] += b;
    }
}

static void points_range(void *arg, int64_t begin, int64_t end) {
    const points *p = arg;
    pieces_run(run_part, p, begin, end, gemm_room_f32(p->m, p->block, p->k));
}

/* The points of src that a convolution with strides sees. */
typedef struct {
    const conv *v;
    const float *from;
    float *to;
} sampling;

static void sample_range(void *arg, int64_t begin, int64_t end) {
    const sampling *s = arg;
    const conv *v = s->v;
    const int64_t *in = v->in, *out = v->out, *step = v->stride;
    float *to = s->to + begin * out[0] * out[1] * out[2];
    for (int64_t plane = begin; plane < end; plane++)
        for (int64_t i = 0; i < out[0]; i++)
            for (int64_t j = 0; j < out[1]; j++, to += out[2]) {
                const float *row =
                    s->from + ((plane * in[0] + i * step[0]) * in[1] + j * step[1]) * in[2];
                for (int64_t l = 0; l < out[2]; l++)
                    to[l] = row[l * step[2]];
            }
}

bool conv_points(cfx_op_call *c, const conv *v, const conv_operands *o) {
    enum { FEW = 128, PART = 1 << 18 };
    bool even = true;
    for (int i = 0; i < 3; i++) {
        if (v->kernel[i] != 1 || v->pad[i] != 0)
            return false;
        even &= v->stride[i] == 1 && v->in[i] == v->out[i];
    }
    const int64_t n = v->out[0] * v->out[1] * v->out[2];
    if (o->what == CONV_WEIGHTS || (o->what == CONV_SRC && !even) || n < FEW ||
        !cfx__tensor_is_contiguous(o->src) || !cfx__tensor_is_contiguous(o->dst))
        return false;
    const bool forward = o->what == CONV_DST;
    const float *src = (const float *)o->src->data;
    if (!even) {
        float *seen = scratch(c, CFX_F32, v->batch * v->ic * n);
        if (!seen)
            return false;
        sampling s = {v, src, seen};
        cfx__parallel(v->batch * v->ic, cfx__grain((double)n), sample_range, &s);
        src = seen;
    }
    points p = {.x = forward ? src : (const float *)o->dst->data,
                .y = (float *)(forward ? o->dst : o->src)->data,
                .w = (const float *)o->weights->data,
                .bias = o->bias ? (const float *)o->bias->data : NULL,
                .groups = v->groups,
                .m = (forward ? v->oc : v->ic) / v->groups,
                .k = (forward ? v->ic : v->oc) / v->groups,
                .n = n,
                .transposed = !forward};
    const int64_t images = v->batch * v->groups, threads = cfx_get_num_threads();
    p.block = PART / p.m < 256 ? 256 : PART / p.m;
    if (images < threads && p.block > (n * images + threads - 1) / threads)
        p.block = (n * images + threads - 1) / threads;
    p.block = (p.block + 15) / 16 * 16;
    p.blocks = (n + p.block - 1) / p.block;
    cfx__parallel(images * p.blocks, 1, points_range, &p);
    return true;
}
