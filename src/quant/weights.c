/* Weights: stored as integers with their scales, and dequantized before the layer. */
#include <cfx/ops.h>

#include "quant.h"

static cfx__quant_grid weight_grid(const cfx_quantize_options *o) {
    const int64_t half = o->bits == 4 ? 8 : 128;
    return (cfx__quant_grid){CFX_I8, -half, half - 1, true};
}

/* ---- rounding -------------------------------------------------------------------------------- */

/* A weight in integers, with its scales. */
typedef struct stored {
    cfx_tensor *integers;    /* int8, as the weight lies; groups: results first */
    cfx_tensor *scales;      /* per channel, or [results, groups]; NULL: `scale` */
    double scale;
    int64_t group;           /* inputs that share a scale; 0: no groups */
} stored;

/* Scales for the largest magnitudes of rows. */
static cfx_tensor *scales_of(const cfx__quant_grid *g, cfx_tensor *far) {
    cfx_tensor *out = cfx_clone(far);
    float *s = cfx_ok() ? (float *)out->data : NULL;
    for (int64_t i = 0; s && i < out->numel; i++)
        s[i] = (float)cfx__quant_choose(g, -s[i], s[i]).scale;
    return out;
}

static cfx_tensor *integers_of(const cfx__quant_grid *g, cfx_tensor *scaled) {
    return cfx_to(cfx_clamp(cfx_round(scaled), g->low, g->high), cfx_i8);
}

/* Each channel has a scale: as rows first, so that it is one maximum of a matrix. */
static stored by_channel(const cfx__quant_layer *l, const cfx__quant_grid *g) {
    cfx_tensor *rows = cfx_movedim(l->tensor, l->axis, 0);
    cfx_tensor *flat = cfx_reshape(rows, cfx_list(l->tensor->shape[l->axis], -1));
    cfx_tensor *scales = scales_of(g, cfx_amax(cfx_abs(flat), cfx_list(1)));
    cfx_value shape = cfx_list_value(0, NULL);
    for (int i = 0; i < l->tensor->ndim; i++)
        cfx_list_append(cfx_as_list(shape), cfx_int(i == l->axis ? -1 : 1));
    cfx_tensor *wide = cfx_reciprocal(cfx_reshape(scales, shape));
    return (stored){.integers = integers_of(g, cfx_mul(l->tensor, wide)), .scales = scales};
}

static stored by_tensor(const cfx__quant_layer *l, const cfx__quant_grid *g) {
    cfx_tensor *far = cfx_amax(cfx_abs(l->tensor), cfx_list_value(0, NULL));
    double most = cfx_ok() ? cfx_number(cfx__tensor_get(far, 0)) : 0;
    double scale = cfx__quant_choose(g, -most, most).scale;
    return (stored){.integers = integers_of(g, cfx_mul(l->tensor, 1 / scale)), .scale = scale};
}

/* Groups of inputs of each result have a scale: results first, whatever way the weight lies. */
static stored by_group(const cfx__quant_layer *l, const cfx__quant_grid *g, int64_t group) {
    cfx_tensor *w = l->axis ? cfx_contiguous(cfx_t(l->tensor)) : l->tensor;
    const int64_t rows = w->shape[0], inputs = w->shape[1];
    cfx_tensor *flat = cfx_reshape(w, cfx_list(-1, group));
    cfx_tensor *scales = scales_of(g, cfx_amax(cfx_abs(flat), cfx_list(1), true));
    cfx_tensor *q = integers_of(g, cfx_mul(flat, cfx_reciprocal(scales)));
    return (stored){.integers = cfx_reshape(q, cfx_list(rows, inputs)),
                    .scales = cfx_reshape(scales, cfx_list(rows, inputs / group)),
                    .group = group};
}

/* How many inputs share a scale: as asked for, or all where that does not divide them. */
static int64_t group_of(const cfx__quant_layer *l, const cfx_quantize_options *o) {
    const int64_t inputs = l->tensor->shape[1 - l->axis], group = o->group ? o->group : 32;
    return o->per == CFX_QUANTIZE_GROUP && l->linear && inputs % group == 0 && group > 1 ? group
                                                                                         : 0;
}

static stored round_weight(const cfx__quant_layer *l, const cfx_quantize_options *o) {
    const cfx__quant_grid g = weight_grid(o);
    const int64_t group = group_of(l, o);
    return group                           ? by_group(l, &g, group)
           : o->per == CFX_QUANTIZE_TENSOR ? by_tensor(l, &g)
                                           : by_channel(l, &g);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* A buffer for a tensor, called as PyTorch calls what it freezes: "_frozen_param0", "_scale_0". */
static cfx_node *buffer(cfx_program *p, const char *name, int number, cfx_tensor *t) {
    return cfx_program_add_tensor(p, CFX_IN_BUFFER, cfx__text_format("%s%d", name, number), t);
}

static cfx_node *dequantized(cfx_program *p, const cfx__quant_layer *l, const stored *s, int number,
                             const cfx_quantize_options *o) {
    const cfx__quant_grid g = weight_grid(o);
    cfx_node *q = buffer(p, "_frozen_param", number, s->integers);
    if (!s->scales)
        return cfx__call_new(l->reader, l->node,
                             "quantized_decomposed.dequantize_per_tensor.default",
                             cfx_tuple(q, s->scale, 0, g.low, g.high, cfx_i8), cfx_none());
    cfx_node *scales = buffer(p, "_scale_", number, s->scales);
    if (s->group) {
        cfx_value args = cfx_tuple(q, scales, CFX_NONE, g.low, g.high, cfx_i8, s->group, cfx_f32);
        cfx_node *rows = cfx__call_new(
            l->reader, l->node, "quantized_decomposed.dequantize_per_channel_group.default", args,
            cfx_none());
        return l->axis ? cfx__call_new(l->reader, l->node, "aten.t.default", cfx_tuple(rows),
                                       cfx_none())
                       : rows;
    }
    cfx_tensor *zeros = cfx_zeros(cfx_list(s->scales->numel), CFX_KW(dtype, cfx_i64));
    cfx_node *points = buffer(p, "_zero_point_", number, zeros);
    return cfx__call_new(l->reader, l->node,
                         "quantized_decomposed.dequantize_per_channel.default",
                         cfx_tuple(q, scales, points, l->axis, g.low, g.high, cfx_i8), cfx_none());
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
    if (s.group) {
        cfx_tensor *flat = cfx_mul(cfx_reshape(q, cfx_list(-1, s.group)),
                                   cfx_reshape(s.scales, cfx_list(-1, 1)));
        cfx_tensor *w = cfx_reshape(flat, cfx_ints_value(2, s.integers->shape));
        return l->axis ? cfx_t(w) : w;
    }
    cfx_value shape = cfx_list_value(0, NULL);
    for (int i = 0; i < l->tensor->ndim; i++)
        cfx_list_append(cfx_as_list(shape), cfx_int(i == l->axis ? -1 : 1));
    return cfx_mul(q, cfx_reshape(s.scales, shape));
}
