/* Drawing what models are made of beside the usual: windows, other convolutions and norms, masks,
 * calls that write to a tensor which they are given. See drawing.h. */
#include "drawing.h"

#include <cfx/ops.h>

#include <string.h>

static cfx_dtype layer_dtype(void) {
    return chance(4) ? chance(2) ? CFX_BF16 : CFX_F16 : CFX_F32;
}

/* Finite numbers, so that it does not count whether padding is multiplied. */
static cfx_value finite_weight(drawing *d, cfx_dtype dtype, int ndim, const int64_t *shape) {
    return node(draw_weight(d, cfx_nan_to_num(draw_tensor(dtype, ndim, shape), 1, 2, -1),
                            chance(2)));
}

/* An operand of so many dimensions, or new numbers; of float32 where wanted. */
static operand picture(drawing *d, int ndim, cfx_dtype dtype) {
    operand x = *draw_operand(d, NULL, (int)dtype);
    const int64_t shape[] = {1 + test_draw(2), 2 + 2 * (int64_t)test_draw(2), 3 + test_draw(5),
                             3 + test_draw(5), 3 + test_draw(3)};
    return x.fake->ndim == ndim && x.fake->dtype == dtype
               ? x
               : *draw_new_weight(d, dtype, ndim, shape);
}

/* A call by name; whether it was taken. */
static bool call_named(drawing *d, const char *name, int n, const cfx_value *args) {
    cfx_op *op = cfx_op_find(name);
    return op && draw_call(d, op, n, args);
}
#define NAMED(d, name, ...)                                                                        \
    call_named(d, name, (int)(sizeof((cfx_value[]){__VA_ARGS__}) / sizeof(cfx_value)),             \
               (cfx_value[]){__VA_ARGS__})

bool draw_pool(drawing *d) {
    const cfx_dtype dtype = layer_dtype();
    operand x = picture(d, chance(3) ? 3 : 4, dtype);
    const int k = 1 + (int)test_draw(3), step = 1 + (int)test_draw(2), pad = (int)test_draw(2);
    const cfx_value size = cfx_list(1 + (int)test_draw(5), 1 + (int)test_draw(5));
    const bool rows = x.fake->ndim == 3;
    switch (test_draw(rows ? 3 : 6)) {
    case 0:
        return NAMED(d, rows ? "aten::max_pool1d" : "aten::max_pool2d", node(&x), cfx_list(k),
                     cfx_list(step), cfx_list(k > 1 ? pad : 0), cfx_list(1), cfx_bool(chance(3)));
    case 1:
        return NAMED(d, rows ? "aten::avg_pool1d" : "aten::avg_pool2d", node(&x), cfx_list(k),
                     cfx_list(step), cfx_list(k > 1 ? pad : 0), cfx_bool(chance(3)),
                     cfx_bool(chance(2)));
    case 2:
        return rows ? NAMED(d, "aten::adaptive_avg_pool1d", node(&x), cfx_list(2))
                    : NAMED(d, "aten::adaptive_avg_pool2d", node(&x), size);
    case 3: return NAMED(d, "aten::upsample_nearest2d", node(&x), size);
    case 4:
        return NAMED(d, "aten::upsample_bilinear2d", node(&x), size, cfx_bool(chance(2)));
    default:
        return NAMED(d, "aten::max_pool2d_with_indices", node(&x), cfx_list(k), cfx_list(step),
                     cfx_list(k > 1 ? pad : 0));
    }
}

bool draw_other_conv(drawing *d) {
    const cfx_dtype dtype = layer_dtype();
    const int ndim = 3 + (int)test_draw(3);
    operand x = picture(d, ndim, dtype);
    const bool turned = chance(3);
    const int64_t in = x.fake->shape[1], groups = in % 2 == 0 && chance(2) ? 2 : 1;
    const int64_t out = 2 * (1 + (int64_t)test_draw(3)), k = 1 + test_draw(3);
    int64_t shape[] = {turned ? in : out, (turned ? out : in) / groups, k, k, k};
    char name[64];
    cfx_value weight = finite_weight(d, dtype, ndim, shape);
    cfx_value bias = chance(2) ? cfx_none() : node(draw_new_weight(d, dtype, 1, &out));
    cfx_value step = cfx_list(1 + (int)test_draw(2)), pad = cfx_list((int)test_draw(2));
    if (!turned) {
        snprintf(name, sizeof name, "aten::conv%dd", ndim - 2);
        return NAMED(d, name, node(&x), weight, bias, step, pad, cfx_list(1 + (int)test_draw(2)),
                     cfx_int(groups));
    }
    snprintf(name, sizeof name, "aten::conv_transpose%dd%s", ndim - 2,
             ndim == 3 ? "" : ".input");
    return NAMED(d, name, node(&x), weight, bias, step, pad, cfx_list(0), cfx_int(groups),
                 cfx_list(1));
}

/* Of several numbers each: what is left of one beside its own mean is rounding alone. */
bool draw_other_norm(drawing *d) {
    operand x = picture(d, 3 + (int)test_draw(2), CFX_F32);
    const int64_t c = x.fake->shape[1];
    if (x.fake->numel < 2 * x.fake->shape[0] * c)
        return false;
    cfx_value w = chance(2) ? cfx_none() : node(draw_new_weight(d, CFX_F32, 1, &c));
    cfx_value b = chance(2) ? cfx_none() : node(draw_new_weight(d, CFX_F32, 1, &c));
    if (chance(2))
        return NAMED(d, "aten::group_norm", node(&x), cfx_int(c % 2 ? 1 : 2), w, b,
                     cfx_float(1e-5), cfx_bool(false));
    const bool by_input = chance(2);
    cfx_value mean = cfx_none(), var = cfx_none();
    if (!by_input || chance(2)) {
        cfx_tensor *spread = cfx_add(cfx_abs(draw_tensor(CFX_F32, 1, &c)), 0.5);
        mean = node(draw_weight(d, draw_tensor(CFX_F32, 1, &c), true));
        var = node(draw_weight(d, spread, true));
    }
    return NAMED(d, "aten::instance_norm", node(&x), w, b, mean, var, cfx_bool(by_input),
                 cfx_float(0.1), cfx_float(1e-5), cfx_bool(false));
}

/* Fewer heads of keys than of queries, other lengths, masks of truths and of numbers. */
bool draw_masked_attention(drawing *d) {
    const cfx_dtype dtype = layer_dtype();
    const int64_t heads = chance(2) ? 4 : 2, rows = 1 + test_draw(5), keys = 1 + test_draw(6);
    const bool shared = chance(3);
    const int64_t q_shape[] = {1 + test_draw(2), heads, rows, 4};
    const int64_t k_shape[] = {q_shape[0], shared ? 2 : heads, keys, 4};
    const int64_t m_shape[] = {q_shape[0], 1, rows, keys};
    cfx_value q = node(draw_new_weight(d, dtype, 4, q_shape));
    cfx_value k = node(draw_new_weight(d, dtype, 4, k_shape));
    cfx_value v = node(draw_new_weight(d, dtype, 4, k_shape));
    const cfx_dtype of = chance(2) ? CFX_BOOL : dtype;
    cfx_value mask = chance(3) ? cfx_none() : node(draw_new_weight(d, of, 4, m_shape));
    return CALL(d, &cfx_op_scaled_dot_product_attention, q, k, v, mask, cfx_float(0),
                cfx_bool(cfx_is_none(mask) && chance(2)), cfx_none(), cfx_bool(shared));
}

/* An operand like a tensor in shape and dtype, or a new buffer. */
static operand place_for(drawing *d, const cfx_tensor *t) {
    operand x = *draw_operand(d, t, (int)t->dtype);
    return x.fake->dtype == t->dtype && cfx__tensor_same_shape(x.fake, t)
               ? x
               : *draw_weight(d, draw_tensor((cfx_dtype)t->dtype, t->ndim, t->shape), true);
}

bool draw_written_to(drawing *d, cfx_op *op) {
    static const char *const in_place[] = {
        "cumprod_", "triu_", "scatter_.value", "scatter_reduce_.two", "index_reduce_", "addmm_",
        "addmv_", "addr_", "baddbmm_", "renorm_", "put_", "celu_", "threshold_", "logical_and_",
        "bitwise_or_.Scalar", "floor_divide_.Scalar", "addcdiv_", "copysign_.Tensor", "swapdims_",
        "hypot_", "lerp_.Tensor", "round_", "eq_.Scalar", "pow_.Scalar", "remainder_.Tensor",
        "addcmul_", "atan2_", "nan_to_num_", "clamp_.Tensor", "masked_fill_.Tensor",
        "index_fill_.int_Tensor", "random_", "normal_", "bernoulli_.Tensor", "exponential_"};
    cfx_value args[CFX_MAX_ARGS];
    char name[64];
    if (chance(2)) {
        snprintf(name, sizeof name, "aten::%s",
                 in_place[test_draw(sizeof in_place / sizeof *in_place)]);
        cfx_op *writes = cfx_op_find(name);
        return writes && draw_op(d, writes);
    }
    const int n = op ? cfx__op_info_of(op)->schema->nargs : 0;
    cfx_op *other = op ? cfx__op_out(op) : NULL;
    cfx_error_clear();
    if (!other || !draw_arguments(d, op, args))
        return false;
    cfx_value v = draw_tried(d, op, n, args);
    if (v.tag != CFX_TAG_TENSOR || n == CFX_MAX_ARGS || draw_is_too_large(d, v))
        return false;
    operand to = place_for(d, cfx_as_tensor(v));
    args[n] = node(&to);
    d->p.sized = true;
    return draw_call(d, other, n + 1, args);
}
