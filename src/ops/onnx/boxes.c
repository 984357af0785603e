/* NonMaxSuppression: of boxes that overlap, the best of each class. On numbers each class of each
 * image is a call of torchvision's nms. Where there are none, in a program that is converted, one
 * loop goes over all classes at once: the loop and what follows it are ATen, and there is one size
 * that depends on data. Start at the row. */
#include <cfx/ops.h>

#include "../../value/later.h"
#include "onnx.h"

CFX_FAMILY(INDEX);

/* Boxes as (y1, x1, y2, x2), the first corner being the smaller. */
static cfx_tensor *corners(cfx_tensor *boxes, bool centers) {
    cfx_value part = cfx_split(boxes, 2, -1);
    if (cfx_is_bad(part))
        return &cfx__tensor_bad;
    cfx_tensor *a = cfx_tensor_at(part, 0), *b = cfx_tensor_at(part, 1);
    cfx_tensor *half = cfx_div(b, 2);
    cfx_tensor *low = centers ? cfx_sub(a, half) : cfx_minimum(a, b);
    cfx_tensor *high = centers ? cfx_add(a, half) : cfx_maximum(a, b);
    return cfx_cat(cfx_list(low, high), -1);
}

/* ---- class by class -------------------------------------------------------------------------- */

/* What is left of one class of one image: rows of (image, class, box). */
static cfx_tensor *selected(cfx_tensor *boxes, cfx_tensor *scores, int64_t image, int64_t class_,
                            int64_t most, double overlap, const double *least) {
    cfx_tensor *at =
        least ? cfx_reshape(cfx_nonzero(cfx_gt(scores, *least)), cfx_list(-1))
              : cfx_arange(onnx_size(scores, 0), CFX_KW(dtype, cfx_dtype_value(CFX_I64)));
    cfx_tensor *kept = cfx_torchvision_nms(cfx_index_select(boxes, 0, at),
                                           cfx_index_select(scores, 0, at), overlap);
    at = cfx_unsqueeze(cfx_index_select(at, 0, cfx_slice(kept, 0, 0, most)), 1);
    return cfx_cat(cfx_list(cfx_full_like(at, image), cfx_full_like(at, class_), at), 1);
}

static cfx_tensor *class_by_class(cfx_op_call *c, int64_t most, double overlap,
                                  const double *least) {
    cfx_tensor *boxes = T(0), *scores = T(1);
    cfx_value all = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < onnx_size(scores, 0) && cfx_ok(); i++) {
        cfx_tensor *own = corners(cfx_select(boxes, 0, i), arg_int(c, 5) == 1);
        for (int64_t k = 0; k < onnx_size(scores, 1) && cfx_ok(); k++)
            cfx_list_append(cfx_as_list(all), cfx_tensor_value(selected(
                                                  own, cfx_select(cfx_select(scores, 0, i), 0, k),
                                                  i, k, most, overlap, least)));
    }
    cfx_value i64 = cfx_dtype_value(CFX_I64);
    return cfx_as_list(all)->len ? cfx_cat(all) : cfx_zeros(cfx_list(0, 3), CFX_KW(dtype, i64));
}

/* ---- all classes at once --------------------------------------------------------------------- */

/* What the loop is given: the number of the round, the boxes that are left, [images, classes,
 * boxes], and those found so far, [images, classes, most], -1 where there is none; then, which do
 * not change, the first and the last corners and the areas, [images, 1, boxes], the ranks of boxes
 * from the best, which has the largest, down to 1, the numbers of boxes and of rounds, the least
 * overlap that is too much, and how many are to be found at most. */
enum { ROUND, LEFT, FOUND, Y1, X1, Y2, X2, AREA, RANK, BOX, TURN, OVERLAP, MOST, ALL };

static cfx_value more_to_find(cfx_args a) {
    return cfx_tuple(cfx_logical_and(cfx_any(a.v[LEFT]), cfx_lt(a.v[ROUND], a.v[MOST])));
}

/* How much each box has in common with the best of its class along one axis. */
static cfx_tensor *shared(cfx_value low, cfx_value high, cfx_tensor *best, cfx_tensor *like) {
    cfx_tensor *l = cfx_expand_as(low, like), *h = cfx_expand_as(high, like);
    return cfx_clamp(
        cfx_sub(cfx_minimum(h, cfx_gather(h, -1, best)), cfx_maximum(l, cfx_gather(l, -1, best))),
        CFX_KW(min, 0));
}

/* In each class the best box that is left is found, and what overlaps it too much is left no
 * longer. */
static cfx_value find_next(cfx_args a) {
    const cfx_value i64 = cfx_dtype_value(CFX_I64);
    cfx_tensor *left = cfx_as_tensor(a.v[LEFT]);
    cfx_tensor *rank = cfx_where(left, cfx_expand_as(a.v[RANK], left),
                                 cfx_zeros(cfx_list_value(0, NULL), CFX_KW(dtype, i64)));
    cfx_value top = cfx_max_dim(rank, -1, true);
    if (cfx_is_bad(top))
        return top;
    cfx_tensor *hit = cfx_gt(cfx_at(top, 0), 0), *best = cfx_tensor_at(top, 1);
    cfx_tensor *both =
        cfx_mul(shared(a.v[Y1], a.v[Y2], best, left), shared(a.v[X1], a.v[X2], best, left));
    cfx_tensor *area = cfx_expand_as(a.v[AREA], left);
    cfx_tensor *whole = cfx_sub(cfx_add(area, cfx_gather(area, -1, best)), both);
    cfx_tensor *gone =
        cfx_logical_or(cfx_gt(cfx_div(both, whole), a.v[OVERLAP]), cfx_eq(a.v[BOX], best));
    cfx_tensor *now = cfx_logical_and(cfx_eq(a.v[TURN], a.v[ROUND]), hit);
    return cfx_tuple(cfx_add(a.v[ROUND], 1), cfx_logical_and(left, cfx_logical_not(gone)),
                     cfx_where(now, best, a.v[FOUND]));
}

/* A number of an input, or what stands for one that is left out, without dimensions. */
static cfx_tensor *number(cfx_op_call *c, int i, cfx_value other, cfx_dtype d) {
    cfx_value none = cfx_list_value(0, NULL);
    return arg_is_none(c, i) ? cfx_full(none, other, CFX_KW(dtype, cfx_dtype_value(d)))
                             : onnx_to(cfx_reshape(T(i), none), d);
}

/* From 1, the worst, up to how many there are, as nms sorts them. */
static cfx_tensor *ranks(cfx_tensor *scores) {
    cfx_value sorted = cfx_sort(scores, CFX_KW(stable, true), CFX_KW(descending, true));
    if (cfx_is_bad(sorted))
        return &cfx__tensor_bad;
    return cfx_rsub(cfx_argsort(cfx_tensor_at(sorted, 1)), onnx_size(scores, 2));
}

/* The loop's arguments; false, with an error. */
static bool begin(cfx_op_call *c, cfx_tensor *boxes, cfx_value *given) {
    enum { MOST_PLACES = 4096 }; /* else as many as there are boxes */
    cfx_tensor *scores = T(1), *most = number(c, 2, cfx_int(0), CFX_I64);
    const cfx_tensor *known = arg_is_none(c, 2) ? NULL : cfx__tensor_known(T(2));
    const cfx_value i64 = cfx_dtype_value(CFX_I64), none = cfx_list_value(0, NULL);
    int64_t n = onnx_size(scores, 2), places = n, said = 0;
    if ((known || arg_is_none(c, 2)) && !onnx_count(c, 2, 0, &said))
        return false;
    if ((known || arg_is_none(c, 2)) && said <= MOST_PLACES)
        places = said > 1 ? said : 1; /* an empty one cannot be indexed */
    cfx_value found = cfx_list(onnx_size(scores, 0), onnx_size(scores, 1), places);
    cfx_value corner = cfx_split(cfx_unsqueeze(boxes, 1), 1, -1);
    for (int i = 0; i < 4 && !cfx_is_bad(corner); i++)
        given[Y1 + i] = cfx_tensor_value(cfx_squeeze(cfx_at(corner, i), -1));
    if (!cfx_ok())
        return false;
    const cfx_dtype d = (cfx_dtype)boxes->dtype, of = (cfx_dtype)scores->dtype;
    given[ROUND] = cfx_tensor_value(cfx_full(none, 0, CFX_KW(dtype, i64)));
    given[LEFT] = cfx_tensor_value(
        arg_is_none(c, 4) ? cfx_ones_like(scores, CFX_KW(dtype, cfx_dtype_value(CFX_BOOL)))
                          : cfx_gt(scores, number(c, 4, cfx_none(), of)));
    given[FOUND] = cfx_tensor_value(cfx_full(found, -1, CFX_KW(dtype, i64)));
    given[AREA] =
        cfx_tensor_value(cfx_mul(cfx_sub(given[Y2], given[Y1]), cfx_sub(given[X2], given[X1])));
    given[RANK] = cfx_tensor_value(ranks(scores));
    given[BOX] = cfx_tensor_value(cfx_arange(n, CFX_KW(dtype, i64)));
    given[TURN] = cfx_tensor_value(cfx_arange(places, CFX_KW(dtype, i64)));
    given[OVERLAP] = cfx_tensor_value(number(c, 3, cfx_int(0), d));
    given[MOST] = cfx_tensor_value(most);
    return cfx_ok();
}

static cfx_tensor *all_at_once(cfx_op_call *c) {
    const cfx_dtype d = T(0)->dtype == CFX_F64 ? CFX_F64 : CFX_F32;
    cfx_value given[ALL];
    cfx_tensor *boxes = onnx_to(corners(T(0), arg_int(c, 5) == 1), d);
    if (!cfx_ok() || !begin(c, boxes, given))
        return &cfx__tensor_bad;
    cfx_value v =
        cfx__later_rooms.while_loop(c->at, more_to_find, find_next, cfx_tuple_value(Y1, given),
                                    cfx_tuple_value(ALL - Y1, given + Y1));
    if (cfx_is_bad(v))
        return &cfx__tensor_bad;
    cfx_tensor *found = cfx_tensor_at(v, FOUND), *rows = cfx_nonzero(cfx_ge(found, 0));
    cfx_value at = cfx_split(rows, 1, 1), places = cfx_list_value(0, NULL);
    for (int i = 0; i < 3 && !cfx_is_bad(at); i++)
        cfx_list_append(cfx_as_list(places), cfx_tensor_value(cfx_squeeze(cfx_at(at, i), 1)));
    if (!cfx_ok())
        return &cfx__tensor_bad;
    cfx_tensor *box = cfx_index(found, places);
    return cfx_cat(cfx_list(cfx_at(at, 0), cfx_at(at, 1), cfx_unsqueeze(box, 1)), 1);
}

/* ---- the row --------------------------------------------------------------------------------- */

ONNX_OP(NonMaxSuppression) { /* boxes, scores, most, iou_threshold, score_threshold, center */
    cfx_tensor *boxes = T(0), *scores = T(1);
    int64_t most;
    double overlap, least;
    if (boxes->ndim != 3 || onnx_size(boxes, 2) != 4 || scores->ndim != 3) {
        op_fail(c, "NonMaxSuppression: boxes are [images, boxes, 4], scores [images, classes, "
                   "boxes]");
        return;
    }
    if (cfx_tensor_is_fake(boxes)) {
        OUT(0) = all_at_once(c);
        return;
    }
    if (onnx_count(c, 2, 0, &most) && onnx_float(c, 3, 0, &overlap) && onnx_float(c, 4, 0, &least))
        OUT(0) = class_by_class(c, most, overlap, arg_is_none(c, 4) ? NULL : &least);
}

CFX_OP(onnx_NonMaxSuppression) = {
    "onnx::NonMaxSuppression(Tensor boxes, Tensor scores, Tensor? "
    "max_output_boxes_per_class=None, Tensor? iou_threshold=None, Tensor? score_threshold=None, "
    "*, int center_point_box=0) -> Tensor",
    ONNX(NonMaxSuppression, 10)};
