/* Pooling of regions of an image: by interpolation (roi_align) or over whole places (roi_pool), and
 * both with a channel of its own for each bin (ps_*). */
#include "../dense.h"

#include <math.h>

CFX_FAMILY(POOL);

typedef struct {
    const char *x, *boxes;
    char *out;
    int32_t *from; /* the place of the largest, or the channel of each bin; may be NULL */
    int64_t batch, channels, height, width;
    int64_t outs, rows, columns; /* channels and bins of the result */
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
             .outs = out->shape[1],
             .rows = out->shape[2],
             .columns = out->shape[3],
             .scale = arg_float(c, 2),
             .samples = c->nargs > 5 ? arg_int(c, 5) : 0,
             .aligned = row->by_position || (c->nargs > 6 && arg_bool(c, 6)),
             .by_position = row->by_position};
    bool wide = x->dtype == CFX_F64;
    cfx__parallel(boxes->shape[0], grain_of((double)(r.outs * r.rows * r.columns) * 8),
                  row->whole ? wide ? pool_f64 : pool_f32
                  : wide     ? align_f64
                             : align_f32,
                  &r);
}

#define ROI(position, whole_)                                                                      \
    .shape = shape_roi, .kernel = kernel_roi, .row = &(const roi_row){position, whole_},           \
    .dtypes = CFX_IN_FLOAT | CFX_IN(I32), .effects = CFX_CONTIGUOUS_ARGS

CFX_OP(torchvision_roi_align) = {
    "torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
    NULL, ROI(false, false)};
CFX_OP(torchvision_roi_pool) = {
    "torchvision::roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width) -> (Tensor, Tensor)",
    NULL, ROI(false, true)};
CFX_OP(torchvision_ps_roi_align) = {
    "torchvision::ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt "
    "pooled_height, SymInt pooled_width, int sampling_ratio) -> (Tensor, Tensor)",
    NULL, ROI(true, false)};
CFX_OP(torchvision_ps_roi_pool) = {
    "torchvision::ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt "
    "pooled_height, SymInt pooled_width) -> (Tensor, Tensor)",
    NULL, ROI(true, true)};
