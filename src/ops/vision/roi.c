/* Pooling of regions of an image: by interpolation (roi_align) or over whole places (roi_pool), and
 * both with a channel of its own for each bin (ps_*). */
#include "../back.h"
#include "../dense.h"

#include <math.h>

CFX_FAMILY(POOL);

/* A call. In the backward pass x is the gradient of the result, and out that of the image. */
typedef struct {
    const char *x, *boxes;
    char *out;
    int32_t *from; /* the place of the largest, or the channel of each bin; may be NULL */
    int64_t batch, channels, height, width;
    int64_t regions, outs, rows, columns; /* of the result: channels and bins */
    double scale;
    int64_t samples; /* in each direction of a bin; 0: as many as fit */
    bool aligned, by_position;
} roi;

static int64_t roi_grid(const roi *r, double length) {
    enum { MOST = 4096 };
    double n = r->samples > 0 ? (double)r->samples : ceil(length);
    return n > 0 ? n < MOST ? (int64_t)n : MOST : 0;
}

static int64_t roi_batch(const roi *r, double i) {
    return i >= 0 && i < (double)r->batch ? (int64_t)i : 0;
}

/* The channel of the image that bin (i, k) of channel c of the result comes from. */
static int64_t roi_channel(const roi *r, int64_t c, int64_t i, int64_t k) {
    return r->by_position ? (c * r->rows + i) * r->columns + k : c;
}

static int64_t roi_clip(int64_t i, int64_t size) { return i < 0 ? 0 : i > size ? size : i; }

static int64_t roi_round(double v) {
    return v > -1e9 && v < 1e9 ? (int64_t)round(v) : v >= 1e9 ? 1000000000 : -1000000000;
}

#define T float
#define NAME(name) name##_f32
#include "roi.inc"
#undef T
#undef NAME
#define T double
#define NAME(name) name##_f64
#include "roi.inc"
#undef T
#undef NAME

/* input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned */
typedef struct {
    bool by_position; /* a channel for each bin */
    bool whole;       /* whole places, no interpolation */
} roi_row;

static void shape_roi(cfx_op_call *c) {
    const roi_row *row = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0), *boxes = arg_tensor(c, 1);
    int64_t rows = arg_int(c, 3), columns = arg_int(c, 4);
    if (x->ndim != 4) {
        op_fail(c, "input must be a 4D tensor, got %dD", x->ndim);
    } else if (boxes->ndim != 2 || boxes->shape[1] != 5) {
        op_fail(c, "rois must have shape as Tensor[K, 5]");
    } else if (x->dtype != boxes->dtype) {
        op_fail(c, "input and rois should have the same type");
    } else if (rows <= 0 || columns <= 0 || rows > INT32_MAX || columns > INT32_MAX) {
        op_fail(c, "pooled_height and pooled_width must be positive, got %lld and %lld",
                (long long)rows, (long long)columns);
    } else if (row->by_position && x->shape[1] % (rows * columns)) {
        op_fail(c, "input channels must be a multiple of pooling height * pooling width");
    } else {
        int64_t outs = row->by_position ? x->shape[1] / (rows * columns) : x->shape[1];
        int64_t shape[] = {boxes->shape[0], outs, rows, columns};
        out_new(c, 0, x->dtype, 4, shape);
        if (c->nout > 1)
            out_new(c, 1, CFX_I32, 4, shape);
    }
}

/* Every region must name an image of the batch. */
static bool in_batch(cfx_op_call *c, const cfx_tensor *boxes, int64_t batch) {
    for (int64_t i = 0; i < boxes->shape[0]; i++) {
        double b = boxes->dtype == CFX_F64 ? ((const double *)boxes->data)[5 * i]
                                           : (double)((const float *)boxes->data)[5 * i];
        if (!(b >= 0 && b < (double)batch)) {
            op_fail(c, "region %lld is of image %g, but the batch has %lld", (long long)i, b,
                    (long long)batch);
            return false;
        }
    }
    return true;
}

static void kernel_roi(cfx_op_call *c) {
    const roi_row *row = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0), *boxes = arg_tensor(c, 1);
    cfx_tensor *out = c->out[0];
    if (!in_batch(c, boxes, x->shape[0]))
        return;
    roi r = {.x = x->data,
             .boxes = boxes->data,
             .out = out->data,
             .from = c->nout > 1 ? (int32_t *)c->out[1]->data : NULL,
             .batch = x->shape[0],
             .channels = x->shape[1],
             .height = x->shape[2],
             .width = x->shape[3],
             .regions = boxes->shape[0],
             .outs = out->shape[1],
             .rows = out->shape[2],
             .columns = out->shape[3],
             .scale = arg_float(c, 2),
             .samples = c->nargs > 5 ? arg_int(c, 5) : 0,
             .aligned = row->by_position || (c->nargs > 6 && arg_bool(c, 6)),
             .by_position = row->by_position};
    bool wide = x->dtype == CFX_F64;
    cfx__parallel(boxes->shape[0], cfx__grain((double)(r.outs * r.rows * r.columns) * 8),
                  row->whole ? wide ? pool_f64 : pool_f32
                  : wide     ? align_f64
                             : align_f32,
                  &r);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* grad, rois, [argmax or channel mapping], spatial_scale, pooled_height, pooled_width, then the
 * sizes of the image, with sampling_ratio before them or behind, and aligned. */
typedef struct {
    roi_row roi;
    int from, scale, sizes, samples, aligned; /* the places of arguments; 0: there is none */
} roi_back_row;

static void shape_roi_back(cfx_op_call *c) {
    const roi_back_row *row = c->op->row;
    const cfx_tensor *grad = arg_tensor(c, 0), *boxes = arg_tensor(c, 1);
    int64_t size[4], rows = arg_int(c, row->scale + 1), columns = arg_int(c, row->scale + 2);
    for (int i = 0; i < 4; i++)
        size[i] = arg_int(c, row->sizes + i);
    const cfx_tensor *from = row->from ? arg_tensor(c, row->from) : NULL;
    bool fits = grad->ndim == 4 && boxes->ndim == 2 && boxes->shape[1] == 5 &&
                grad->dtype == boxes->dtype && grad->shape[0] == boxes->shape[0] && rows > 0 &&
                grad->shape[2] == rows && grad->shape[3] == columns && columns > 0 &&
                cfx__shape_numel(c->at, 4, size) >= 0 &&
                size[1] == grad->shape[1] * (row->roi.by_position ? rows * columns : 1) &&
                (!from || (from->dtype == CFX_I32 && cfx__tensor_same_shape(from, grad)));
    if (fits)
        out_new(c, 0, grad->dtype, 4, size);
    else if (!op_failed())
        op_fail(c, "%s: the gradient %s does not fit the regions and sizes", op_title(c),
                cfx__shape_text(grad->ndim, grad->shape));
}

static void kernel_roi_back(cfx_op_call *c) {
    const roi_back_row *row = c->op->row;
    const cfx_tensor *grad = arg_tensor(c, 0), *boxes = arg_tensor(c, 1);
    cfx_tensor *out = c->out[0];
    cfx__tensor_fill(out, cfx_int(0));
    if (!in_batch(c, boxes, out->shape[0]))
        return;
    roi r = {.x = grad->data,
             .boxes = boxes->data,
             .out = out->data,
             .from = row->from ? (int32_t *)arg_tensor(c, row->from)->data : NULL,
             .batch = out->shape[0],
             .channels = out->shape[1],
             .height = out->shape[2],
             .width = out->shape[3],
             .regions = boxes->shape[0],
             .outs = grad->shape[1],
             .rows = grad->shape[2],
             .columns = grad->shape[3],
             .scale = arg_float(c, row->scale),
             .samples = row->samples ? arg_int(c, row->samples) : 0,
             .aligned = row->roi.by_position || (row->aligned && arg_bool(c, row->aligned)),
             .by_position = row->roi.by_position};
    bool wide = grad->dtype == CFX_F64;
    cfx__parallel(r.outs, 1,
                  row->roi.whole ? wide ? pool_back_f64 : pool_back_f32
                  : wide         ? align_back_f64
                                 : align_back_f32,
                  &r);
}

/* The operator that belongs to the call, with its arguments in that one's order. */
static void give_roi(cfx_back *b, cfx_op *op) {
    const roi_back_row *row = op->row;
    const cfx_tensor *x = back_arg(b, 0);
    cfx_value args[11] = {cfx_tensor_value(b->gout[0]), b->args[1]};
    if (!b->gout[0])
        return;
    if (row->from)
        args[row->from] = cfx_tensor_value(b->out[1]);
    for (int i = 0; i < 3; i++)
        args[row->scale + i] = b->args[2 + i];
    for (int i = 0; i < 4; i++)
        args[row->sizes + i] = cfx_int(x->shape[i]);
    if (row->samples)
        args[row->samples] = b->args[5];
    if (row->aligned)
        args[row->aligned] = b->args[6];
    b->gin[0] = cfx__op_call_bound(b->at, op, args);
}

#define ROI_BACK(...)                                                                              \
    .shape = shape_roi_back, .kernel = kernel_roi_back, .dtypes = CFX_IN_FLOAT | CFX_IN(I32),      \
    .effects = CFX_CONTIGUOUS_ARGS, .row = &(const roi_back_row) { __VA_ARGS__ }

CFX_OP(torchvision__roi_align_backward) = {
    "torchvision::_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt "
    "pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt "
    "width, int sampling_ratio, bool aligned) -> Tensor",
    NULL, ROI_BACK({false, false}, .scale = 2, .sizes = 5, .samples = 9, .aligned = 10)};
CFX_OP(torchvision__roi_pool_backward) = {
    "torchvision::_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, "
    "SymInt pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, "
    "SymInt width) -> Tensor",
    NULL, ROI_BACK({false, true}, .from = 2, .scale = 3, .sizes = 6)};
CFX_OP(torchvision__ps_roi_align_backward) = {
    "torchvision::_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float "
    "spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, SymInt "
    "batch_size, SymInt channels, SymInt height, SymInt width) -> Tensor",
    NULL, ROI_BACK({true, false}, .from = 2, .scale = 3, .samples = 6, .sizes = 7)};
CFX_OP(torchvision__ps_roi_pool_backward) = {
    "torchvision::_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float "
    "spatial_scale, SymInt pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, "
    "SymInt height, SymInt width) -> Tensor",
    NULL, ROI_BACK({true, true}, .from = 2, .scale = 3, .sizes = 6)};

static void grad_roi_align(cfx_back *b) { give_roi(b, &cfx_op_torchvision__roi_align_backward); }
static void grad_roi_pool(cfx_back *b) { give_roi(b, &cfx_op_torchvision__roi_pool_backward); }
static void grad_ps_align(cfx_back *b) { give_roi(b, &cfx_op_torchvision__ps_roi_align_backward); }
static void grad_ps_pool(cfx_back *b) { give_roi(b, &cfx_op_torchvision__ps_roi_pool_backward); }

/* ---- rows ------------------------------------------------------------------------------------ */

#define ROI(position, whole_)                                                                      \
    .shape = shape_roi, .kernel = kernel_roi, .row = &(const roi_row){position, whole_},           \
    .dtypes = CFX_IN_FLOAT | CFX_IN(I32), .effects = CFX_CONTIGUOUS_ARGS

CFX_OP(torchvision_roi_align) = {
    "torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
    NULL, ROI(false, false), GRAD(roi_align, READ(1))};
CFX_OP(torchvision_roi_pool) = {
    "torchvision::roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width) -> (Tensor, Tensor)",
    NULL, ROI(false, true), GRAD(roi_pool, READ(1) | RESULT(1))};
CFX_OP(torchvision_ps_roi_align) = {
    "torchvision::ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt "
    "pooled_height, SymInt pooled_width, int sampling_ratio) -> (Tensor, Tensor)",
    NULL, ROI(true, false), GRAD(ps_align, READ(1) | RESULT(1))};
CFX_OP(torchvision_ps_roi_pool) = {
    "torchvision::ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt "
    "pooled_height, SymInt pooled_width) -> (Tensor, Tensor)",
    NULL, ROI(true, true), GRAD(ps_pool, READ(1) | RESULT(1))};
