/* Non-maximum suppression: boxes that overlap a better one too much are left out. */
#include <cfx/ops.h>

#include "../ops.h"

CFX_FAMILY(INDEX);

static bool boxes_fit(cfx_op_call *c, const cfx_tensor *boxes, const cfx_tensor *scores) {
    if (boxes->ndim != 2)
        op_fail(c, "boxes should be a 2d tensor, got %dD", boxes->ndim);
    else if (boxes->shape[1] != 4)
        op_fail(c, "boxes should have 4 elements in dimension 1, got %lld",
                (long long)boxes->shape[1]);
    else if (scores->ndim != 1)
        op_fail(c, "scores should be a 1d tensor, got %dD", scores->ndim);
    else if (boxes->shape[0] != scores->shape[0])
        op_fail(c,
                "boxes and scores should have same number of elements in dimension 0, got %lld "
                "and %lld",
                (long long)boxes->shape[0], (long long)scores->shape[0]);
    else if (boxes->dtype != scores->dtype)
        op_fail(c, "dets should have the same type as scores");
    return !op_failed();
}

/* Keeps from `order`, best first; the number of those kept. Boxes are x1, y1, x2, y2. */
#define SUPPRESS(name, T)                                                                          \
    static int64_t name(const T *box, const int64_t *order, int64_t n, double limit,               \
                        uint8_t *gone, int64_t *kept) {                                            \
        int64_t count = 0;                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                          \
            if (gone[order[i]])                                                                    \
                continue;                                                                          \
            const T *a = box + 4 * order[i], area = (a[2] - a[0]) * (a[3] - a[1]);                 \
            kept[count++] = order[i];                                                              \
            for (int64_t k = i + 1; k < n; k++) {                                                  \
                const T *b = box + 4 * order[k];                                                   \
                T w = (a[2] < b[2] ? a[2] : b[2]) - (a[0] > b[0] ? a[0] : b[0]);                   \
                T h = (a[3] < b[3] ? a[3] : b[3]) - (a[1] > b[1] ? a[1] : b[1]);                   \
                T both = (w > 0 ? w : 0) * (h > 0 ? h : 0);                                        \
                if (both / (area + (b[2] - b[0]) * (b[3] - b[1]) - both) > (T)limit)               \
                    gone[order[k]] = 1;                                                            \
            }                                                                                      \
        }                                                                                          \
        return count;                                                                              \
    }
SUPPRESS(suppress_f32, float)
SUPPRESS(suppress_f64, double)

static void kernel_nms(cfx_op_call *c) {
    const cfx_tensor *boxes = arg_tensor(c, 0), *scores = arg_tensor(c, 1);
    if (!boxes_fit(c, boxes, scores))
        return;
    int64_t n = scores->numel;
    cfx_dtype d = boxes->dtype == CFX_F64 ? CFX_F64 : CFX_F32;
    boxes = cfx__tensor_contiguous_as(boxes, d);
    cfx_value sorted = cfx_sort(arg_tensor(c, 1), CFX_KW(stable, true), CFX_KW(descending, true));
    const cfx_tensor *order = cfx_tensor_at(sorted, 1);
    uint8_t *gone = scratch(c, CFX_U8, n);
    int64_t *kept = scratch(c, CFX_I64, n);
    if (op_failed())
        return;
    memset(gone, 0, (size_t)n);
    const int64_t *by = (const int64_t *)order->data;
    double limit = arg_float(c, 2);
    int64_t count = d == CFX_F64
                        ? suppress_f64((const double *)boxes->data, by, n, limit, gone, kept)
                        : suppress_f32((const float *)boxes->data, by, n, limit, gone, kept);
    cfx_tensor *out = out_new(c, 0, CFX_I64, 1, &count);
    if (!op_failed())
        memcpy(out->data, kept, (size_t)count * sizeof *kept);
}

CFX_OP(torchvision_nms) = {
    "torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", NULL,
    .kernel = kernel_nms, .effects = CFX_DATA_SHAPE};
