/* Weights: stored as integers with their scales, and dequantized before the layer. */
#include <cfx/ops.h>

#include "quant.h"

#include <math.h>

/* ---- rounding -------------------------------------------------------------------------------- */

/* A weight in integers, with its scales. */
typedef struct stored {
    cfx_tensor *integers;    /* int8 */
    bool first;              /* they are [results, inputs]; else they lie as the weight does */
    cfx_tensor *scales;      /* per channel, or [results, groups]; NULL: `scale` */
    double scale;
    int64_t group;           /* inputs that share a scale; 0: no groups */
} stored;

/* Scales for the largest magnitudes of rows. */
static cfx_tensor *scales_of(const cfx_observer *how, cfx_tensor *far) {
    cfx_tensor *out = cfx_clone(far);
    const float *most = cfx_ok() ? (const float *)far->data : NULL;
    for (int64_t i = 0; most && i < out->numel; i++) {
        double zero;
        cfx__observer_params(how, 1, (float[]){-most[i]}, &most[i], (float *)out->data + i, &zero);
    }
    return out;
}

/* Rows of a matrix, and where their scales and integers go. */
typedef struct {
    const float *rows;
    int64_t length;
    float *scales;
    int8_t *integers;
} search;

/* What is no number goes where it does no harm. */
static float rounded4(float x) {
    x = rintf(x);
    return x > -8 ? (x < 7 ? x : 7) : -8;
}

/* With numbers rounded by 1 / inverse, the scale that leaves the least error; how much of the
 * squares it explains. */
CFX__SIMD static float explained(const float *x, int64_t n, float inverse, float *scale) {
    float with = 0, own = 0;
#pragma omp simd reduction(+ : with, own)
    for (int64_t i = 0; i < n; i++) {
        const float q = rounded4(x[i] * inverse);
        with += q * x[i];
        own += q * q;
    }
    *scale = own > 0 ? with / own : 0;
    return with * *scale;
}

/* The largest magnitude becomes -8, which there is no 8 for, or a little more or less: the scale is
 * negative where that is positive. Of those the one with the least error is taken. */
static void find_scales(void *arg, int64_t begin, int64_t end) {
    const search *s = arg;
    for (int64_t r = begin; r < end; r++) {
        const float *x = s->rows + r * s->length;
        float far = 0, best = 0, inverse = 0, scale;
        for (int64_t i = 0; i < s->length; i++)
            far = fabsf(x[i]) > fabsf(far) ? x[i] : far;
        s->scales[r] = 1;
        for (float reach = -9.6f; far != 0 && reach < -6.4f; reach += 0.2f) {
            const float now = explained(x, s->length, reach / far, &scale);
            if (now > best)
                best = now, inverse = reach / far, s->scales[r] = scale;
        }
        for (int64_t i = 0; i < s->length; i++)
            s->integers[r * s->length + i] = (int8_t)rounded4(x[i] * inverse);
    }
}

/* 4 bits are few: their scales are searched for. Rows of a matrix each have one. */
static stored by_search(cfx_tensor *rows) {
    rows = cfx_contiguous(rows);
    stored out = {.integers = cfx_empty_like(rows, CFX_KW(dtype, cfx_i8)),
                  .scales = cfx_empty(cfx_list(cfx_dim(rows, 0)))};
    if (!cfx_ok())
        return out;
    search s = {(const float *)rows->data, rows->shape[1], (float *)out.scales->data,
                (int8_t *)out.integers->data};
    cfx__parallel(rows->shape[0], 1 + 4096 / rows->shape[1], find_scales, &s);
    return out;
}

static cfx_tensor *integers_of(const cfx_observer *how, cfx_tensor *scaled) {
    return cfx_to(cfx_clamp(cfx_round(scaled), how->quant_min, how->quant_max), cfx_i8);
}

cfx_tensor *cfx__quant_weight(const cfx__quant_layer *l) { return cfx_to(l->tensor, cfx_f32); }

/* Each channel has a scale: as rows first, so that it is one maximum of a matrix. */
static stored by_channel(const cfx__quant_layer *l, const cfx_observer *how) {
    cfx_tensor *w = cfx__quant_weight(l), *rows = cfx_movedim(w, l->axis, 0);
    cfx_tensor *flat = cfx_reshape(rows, cfx_list(l->tensor->shape[l->axis], -1));
    cfx_tensor *scales = scales_of(how, cfx_amax(cfx_abs(flat), cfx_list(1)));
    cfx_value shape = cfx_list_value(0, NULL);
    for (int i = 0; i < l->tensor->ndim; i++)
        cfx_list_append(cfx_as_list(shape), cfx_int(i == l->axis ? -1 : 1));
    cfx_tensor *wide = cfx_reciprocal(cfx_reshape(scales, shape));
    return (stored){.integers = integers_of(how, cfx_mul(w, wide)), .scales = scales};
}

static stored by_tensor(const cfx__quant_layer *l, const cfx_observer *how) {
    cfx_tensor *w = cfx__quant_weight(l), *far = cfx_amax(cfx_abs(w), cfx_list_value(0, NULL));
    cfx_tensor *scales = scales_of(how, far);
    double scale = cfx_ok() ? cfx_number(cfx__tensor_get(scales, 0)) : 1;
    return (stored){.integers = integers_of(how, cfx_mul(w, 1 / scale)), .scale = scale};
}

/* Groups of inputs of each result have a scale: results first, whatever way the weight lies. */
static stored by_group(const cfx__quant_layer *l, const cfx_observer *how, int64_t group) {
    cfx_tensor *w = cfx__quant_weight(l);
    w = l->axis ? cfx_contiguous(cfx_t(w)) : w;
    const int64_t rows = w->shape[0], inputs = w->shape[1];
    cfx_tensor *flat = cfx_reshape(w, cfx_list(-1, group ? group : inputs));
    stored s = {.scales = NULL};
    if (how->quant_max == 7) {
        s = by_search(flat);
    } else {
        s.scales = scales_of(how, cfx_amax(cfx_abs(flat), cfx_list(1), true));
        s.integers = integers_of(how, cfx_mul(flat, cfx_reciprocal(s.scales)));
    }
    s.integers = cfx_reshape(s.integers, cfx_list(rows, inputs));
    if (group)
        s.scales = cfx_reshape(s.scales, cfx_list(rows, inputs / group));
    s.group = group;
    s.first = true;
    return s;
}

/* How many inputs share a scale: as asked for, or all where that does not divide them. */
static int64_t group_of(const cfx__quant_layer *l, const cfx_quantize_options *o) {
    const int64_t inputs = l->tensor->shape[1 - l->axis], group = o->group ? o->group : 32;
    return o->per == CFX_QUANTIZE_GROUP && l->linear && inputs % group == 0 && group > 1 ? group
                                                                                         : 0;
}

static stored round_weight(const cfx__quant_layer *l, const cfx_quantize_options *o) {
    const cfx_observer how = cfx__quant_of_weights(l, o);
    const int64_t group = group_of(l, o);
    if (o->per == CFX_QUANTIZE_TENSOR)
        return by_tensor(l, &how);
    const bool searched = how.quant_max == 7 && l->linear;
    return group || searched ? by_group(l, &how, group) : by_channel(l, &how);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* A buffer for a tensor, called as PyTorch calls what it freezes: "_frozen_param0", "_scale_0". */
static cfx_node *buffer(cfx_program *p, const char *name, int number, cfx_tensor *t) {
    return cfx_program_add_tensor(p, CFX_IN_BUFFER, cfx__text_format("%s%d", name, number), t);
}

static cfx_node *call(const cfx__quant_layer *l, const char *op, cfx_value args) {
    return cfx__call_new(l->reader, l->node, op, args, cfx_none());
}

static cfx_node *call_giving(const cfx__quant_layer *l, const char *op, cfx_value args) {
    return cfx__call_new(l->reader, l->node, op, args, cfx__quant_gives(l->tensor->dtype));
}

/* Numbers of 4 bits are stored two to a byte, the first in the low bits, each 8 more than it is;
 * nodes of ATen take them apart again. */
static cfx_node *integers(cfx_program *p, const cfx__quant_layer *l, const stored *s, int number,
                          const cfx_observer *how) {
    const int64_t inputs = s->integers->shape[s->integers->ndim - 1];
    if (how->quant_max != 7 || !s->first || inputs % 2)
        return buffer(p, "_frozen_param", number, s->integers);
    cfx_tensor *more = cfx_to(cfx_add(s->integers, 8), cfx_u8);
    cfx_tensor *low = cfx_slice(more, 1, 0, inputs, 2), *high = cfx_slice(more, 1, 1, inputs, 2);
    cfx_node *bytes =
        buffer(p, "_frozen_param", number, cfx_bitwise_or(low, cfx_bitwise_left_shift(high, 4)));
    cfx_node *first = call(l, "aten.bitwise_and.Scalar", cfx_tuple(bytes, 15));
    cfx_node *second = call(l, "aten.bitwise_right_shift.Tensor_Scalar", cfx_tuple(bytes, 4));
    cfx_node *pairs = call(l, "aten.stack.default", cfx_tuple(cfx_list(first, second), -1));
    cfx_value shape = cfx_list(s->integers->shape[0], inputs);
    cfx_node *all = call(l, "aten.view.default", cfx_tuple(pairs, shape));
    all = call(l, "aten.to.dtype", cfx_tuple(all, cfx_i8));
    return call(l, "aten.sub.Tensor", cfx_tuple(all, 8));
}

static cfx_node *dequantized(cfx_program *p, const cfx__quant_layer *l, const stored *s, int number,
                             const cfx_quantize_options *o) {
    const cfx_observer how = cfx__quant_of_weights(l, o);
    const int64_t low = how.quant_min, high = how.quant_max;
    cfx_node *q = integers(p, l, s, number, &how), *w;
    if (!s->scales)
        return call_giving(l, "quantized_decomposed.dequantize_per_tensor.default",
                           cfx_tuple(q, s->scale, 0, low, high, cfx_i8));
    cfx_node *scales = buffer(p, "_scale_", number, s->scales);
    if (s->group) {
        w = call(l, "quantized_decomposed.dequantize_per_channel_group.default",
                 cfx_tuple(q, scales, CFX_NONE, low, high, cfx_i8, s->group,
                           cfx_dtype_value(l->tensor->dtype)));
    } else {
        cfx_tensor *zeros = cfx_zeros(cfx_list(s->scales->numel), CFX_KW(dtype, cfx_i64));
        w = call_giving(l, "quantized_decomposed.dequantize_per_channel.default",
                        cfx_tuple(q, scales, buffer(p, "_zero_point_", number, zeros),
                                  s->first ? 0 : l->axis, low, high, cfx_i8));
    }
    return s->first && l->axis ? call(l, "aten.t.default", cfx_tuple(w)) : w;
}

/* The dequantized form of a weight that another layer stored already: tied weights stay tied. */
static cfx_node *same_weight(const cfx__quant_layer *l, cfx_node *made) {
    cfx_node *copy = NULL;
    CFX_INSERT_BEFORE(l->reader->graph, l->reader)
        copy = cfx_graph_copy_node(l->reader->graph, made, NULL, NULL);
    return copy;
}

bool cfx__quant_store(cfx_program *p, const cfx__quant_layers *layers, size_t i, cfx_node **made,
                      const cfx_quantize_options *o) {
    const cfx__quant_layer *l = &layers->data[i];
    size_t mark = cfx_scope_open();
    size_t first = 0;
    int number = 0;
    for (size_t k = 0; k < i; k++)
        number += made[k] != NULL;
    while (first < i && (!made[first] || layers->data[first].tensor != l->tensor ||
                         layers->data[first].axis != l->axis))
        first++;
    if (first < i) {
        made[i] = same_weight(l, made[first]);
    } else {
        stored s = round_weight(l, o);
        made[i] = cfx_ok() ? dequantized(p, l, &s, number, o) : NULL;
    }
    if (cfx_ok())
        cfx_node_replace_input(l->reader, l->weight, made[i]);
    cfx_scope_close(mark);
    return cfx_ok();
}

cfx_tensor *cfx__quant_rounded(const cfx__quant_layer *l, const cfx_quantize_options *o) {
    stored s = round_weight(l, o);
    cfx_tensor *q = cfx_to(s.integers, cfx_f32);
    if (!s.scales)
        return cfx_mul(q, s.scale);
    if (s.first) {
        cfx_tensor *flat = cfx_mul(cfx_reshape(q, cfx_list(s.scales->numel, -1)),
                                   cfx_reshape(s.scales, cfx_list(-1, 1)));
        cfx_tensor *w = cfx_reshape(flat, cfx_ints_value(2, s.integers->shape));
        return l->axis ? cfx_t(w) : w;
    }
    cfx_value shape = cfx_list_value(0, NULL);
    for (int i = 0; i < l->tensor->ndim; i++)
        cfx_list_append(cfx_as_list(shape), cfx_int(i == l->axis ? -1 : 1));
    return cfx_mul(q, cfx_reshape(s.scales, shape));
}
