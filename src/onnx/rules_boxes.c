/* Rules for boxes in images, which torchvision's operators find and cut out. */
#include "export.h"

/* What it is computed in: there is nothing for bfloat16 before version 22 of the operator set, nor
 * for integers. */
static cfx_dtype computed(const cfx__onnx_export *x) {
    const cfx_dtype d = cfx__export_given(x, 0).dtype;
    return d == CFX_F64 || d == CFX_F16 ? d : CFX_F32;
}

/* Dimension `axis` of v from one place up to another. */
static cfx_value part(cfx__onnx_export *x, cfx_value v, int64_t axis, int64_t from, int64_t to) {
    cfx_value first = cfx__export_one(x, from), last = cfx__export_one(x, to);
    return PUT(Slice, v, first, last, cfx__export_one(x, axis));
}

/* input, rois [boxes, 5] of which the first says which image, spatial_scale, pooled_height,
 * pooled_width, sampling_ratio, aligned */
RULE(roi_align) {
    const cfx_dtype d = computed(x);
    const int64_t samples = cfx_integer(cfx__export_arg(x, 5));
    cfx_value rois = cfx__export_as(x, 1, d);
    cfx_value which = PUT(Gather, rois, cfx__export_number(x, cfx_int(0), CFX_I64),
                          CFX_KW(axis, 1));
    cfx_value y = PUT(RoiAlign, cfx__export_as(x, 0, d), part(x, rois, 1, 1, 5),
                      cfx__export_cast(x, which, d, CFX_I64),
                      CFX_KW(output_height, cfx__export_arg(x, 3)),
                      CFX_KW(output_width, cfx__export_arg(x, 4)),
                      CFX_KW(spatial_scale, cfx__export_arg(x, 2)),
                      CFX_KW(sampling_ratio, samples < 0 ? 0 : samples),
                      CFX_KW(coordinate_transformation_mode,
                             cfx__export_flag(x, 6) ? "half_pixel" : "output_half_pixel"));
    (void)op;
    return cfx__export_cast(x, y, d, cfx__export_given(x, 0).dtype);
}

/* Its second result, where the largest numbers were, has no form in ONNX. */
RULE(roi_pool) {
    const cfx_dtype d = computed(x);
    cfx_value y = PUT(MaxRoiPool, cfx__export_as(x, 0, d), cfx__export_as(x, 1, d),
                      CFX_KW(pooled_shape, cfx_list(cfx__export_arg(x, 3), cfx__export_arg(x, 4))),
                      CFX_KW(spatial_scale, cfx__export_arg(x, 2)));
    (void)op;
    y = cfx__export_cast(x, y, d, cfx__export_given(x, 0).dtype);
    return cfx_is_bad(y) ? y : cfx_tuple(y, cfx_none());
}

/* dets [boxes, 4], scores, iou_threshold: the places of the boxes that stay, the best first. ONNX
 * has images and classes besides, of which there is one here. */
RULE(nms) {
    const int64_t first[] = {0, 1};
    cfx_value boxes = PUT(Unsqueeze, cfx__export_as(x, 0, CFX_F32), cfx__export_one(x, 0));
    cfx_value scores = PUT(Unsqueeze, cfx__export_as(x, 1, CFX_F32),
                           cfx__export_i64(x, COUNT(first), first));
    cfx_value found = PUT(NonMaxSuppression, boxes, scores,
                          cfx__export_number(x, cfx_int(INT64_MAX), CFX_I64),
                          cfx__export_number(x, cfx__export_arg(x, 2), CFX_F32));
    (void)op;
    return PUT(Squeeze, part(x, found, 1, 2, 3), cfx__export_one(x, 1));
}

static const cfx__onnx_rule rows[] = {
    {"torchvision.roi_align.default", roi_align, NULL},
    {"torchvision.roi_pool.default", roi_pool, NULL},
    {"torchvision.nms.default", nms, NULL},
};

const cfx__onnx_rules cfx__onnx_rules_boxes = CFX__ONNX_RULES(rows);
