/* Drawing what models are made of: layers with weights of their own, caches. See drawing.h. */
#include "drawing.h"

#include <cfx/ops.h>

bool draw_strided(drawing *d) {
    operand *x = draw_operand(d, NULL, CFX_DTYPE_COUNT);
    int64_t left = x->fake->numel;
    if (left < 1)
        return false;
    cfx_value sizes = cfx_list_value(0, NULL), strides = cfx_list_value(0, NULL);
    int64_t offset = test_draw((uint32_t)left), most = left - 1 - offset;
    for (uint32_t i = 1 + test_draw(3); i > 0; i--) {
        const int64_t size = 1 + test_draw(4), stride = test_draw(5);
        const bool fits = (size - 1) * stride <= most;
        cfx_list_append(cfx_as_list(sizes), cfx_int(fits ? size : 1));
        cfx_list_append(cfx_as_list(strides), cfx_int(stride));
        most -= fits ? (size - 1) * stride : 0;
    }
    return CALL(d, &cfx_op_as_strided, node(x), sizes, strides,
                chance(3) ? cfx_none() : cfx_int(offset));
}

bool draw_linear(drawing *d) {
    operand *x = draw_operand(d, NULL, CFX_F32);
    if (!x->fake->ndim)
        return false;
    const cfx_dtype dtype = (cfx_dtype)x->fake->dtype;
    const int64_t in = x->fake->shape[x->fake->ndim - 1], out = 1 + test_draw(9);
    cfx_value first = node(x), weight = node(draw_new_weight(d, dtype, 2, (int64_t[]){out, in}));
    cfx_value bias = chance(3) ? cfx_none() : node(draw_new_weight(d, dtype, 1, &out));
    return CALL(d, &cfx_op_linear, first, weight, bias);
}

/* Finite numbers: where padding meets an infinite weight, PyTorch's kernels differ in whether there
 * is 0 * inf. */
static cfx_value conv_weight(drawing *d, cfx_dtype dtype, const int64_t *shape) {
    cfx_tensor *t = draw_tensor(dtype, 4, shape);
    const bool buffer = chance(2) || !cfx__dtype_is_float(dtype);
    return node(draw_weight(d, cfx_nan_to_num(t, 1, 2, -1), buffer));
}

bool draw_conv(drawing *d) {
    operand x = *draw_operand(d, NULL, CFX_F32);
    if (x.fake->ndim != 4) {
        int64_t shape[] = {1 + test_draw(2), 1 + test_draw(4), 3 + test_draw(6), 3 + test_draw(6)};
        x = *draw_new_weight(d, CFX_F32, 4, shape);
    }
    const cfx_dtype dtype = (cfx_dtype)x.fake->dtype;
    const int64_t in = x.fake->shape[1], out = 1 + test_draw(8), k = chance(3) ? 3 : 1;
    const bool single = chance(4);
    const int64_t all = single ? in : out;
    cfx_value weight = conv_weight(d, dtype, (int64_t[]){all, single ? 1 : in, k, k});
    cfx_value bias = chance(2) ? cfx_none() : node(draw_new_weight(d, dtype, 1, &all));
    return CALL(d, &cfx_op_conv2d, node(&x), weight, bias, cfx_list(1 + (int)test_draw(2)),
                cfx_list((int)test_draw(2)), cfx_list(1), cfx_int(single ? in : 1));
}

/* Normalisation by channel, in training mode too: then its statistics are written. */
bool draw_batch_norm(drawing *d) {
    operand *x = draw_operand(d, NULL, CFX_F32);
    if (x->fake->ndim < 2)
        return false;
    const int64_t c = x->fake->shape[1];
    cfx_value first = node(x), mean = node(draw_weight(d, draw_tensor(CFX_F32, 1, &c), true));
    cfx_tensor *spread = cfx_add(cfx_abs(draw_tensor(CFX_F32, 1, &c)), 0.5);
    cfx_value var = node(draw_weight(d, spread, true));
    cfx_value w = chance(3) ? cfx_none() : node(draw_new_weight(d, CFX_F32, 1, &c));
    cfx_value b = chance(3) ? cfx_none() : node(draw_new_weight(d, CFX_F32, 1, &c));
    return CALL(d, &cfx_op_batch_norm, first, w, b, mean, var, cfx_bool(chance(2)), cfx_float(0.1),
                cfx_float(1e-5), cfx_bool(false));
}

bool draw_layer_norm(drawing *d) {
    operand *x = draw_operand(d, NULL, CFX_F32);
    if (!x->fake->ndim)
        return false;
    const int64_t n = x->fake->shape[x->fake->ndim - 1];
    cfx_value first = node(x);
    const cfx_dtype dtype = (cfx_dtype)x->fake->dtype;
    cfx_value w = chance(3) ? cfx_none() : node(draw_new_weight(d, dtype, 1, &n));
    return CALL(d, &cfx_op_layer_norm, first, cfx_list(n), w, cfx_none(), cfx_float(1e-5),
                cfx_bool(false));
}

bool draw_attention(drawing *d) {
    const int64_t shape[] = {1, 1 + test_draw(3), 2 + test_draw(4), 4};
    cfx_value q = node(draw_new_weight(d, CFX_F32, 4, shape));
    cfx_value k = node(draw_new_weight(d, CFX_F32, 4, shape));
    cfx_value v = node(draw_operand(d, d->values[d->n - 1].fake, CFX_F32));
    return CALL(d, &cfx_op_scaled_dot_product_attention, q, k, v, cfx_none(), cfx_float(0),
                cfx_bool(chance(2)), cfx_none(), cfx_bool(false));
}

bool draw_embedding(drawing *d) {
    cfx_value rows = node(draw_operand(d, NULL, CFX_I64));
    const cfx_dtype dtype = chance(3) ? CFX_BF16 : CFX_F32;
    cfx_value table = node(draw_new_weight(d, dtype, 2, (int64_t[]){5, 4}));
    return CALL(d, &cfx_op_embedding, table, rows);
}

/* Read before or after. */
bool draw_cache(drawing *d) {
    const int64_t shape[] = {1 + test_draw(2), 6, 3}, one = 1;
    operand *cache = draw_weight(d, draw_tensor(CFX_F32, 3, shape), true);
    operand *place = draw_weight(d, draw_tensor(CFX_I64, 1, &one), true);
    cfx_value c = node(cache), at = node(place);
    cfx_value row = node(draw_new_weight(d, CFX_F32, 3, (int64_t[]){shape[0], 1, 3}));
    if (chance(2))
        CALL(d, &cfx_op_slice_Tensor, c, cfx_int(1), cfx_int(0), cfx_int(2 + (int)test_draw(4)));
    if (chance(2) && CALL(d, &cfx_op_neg, row))
        row = node(&d->values[d->n - 1]);
    bool done = CALL(d, cfx__op_inplace(&cfx_op_index_copy), c, cfx_int(1), at, row);
    if (chance(2))
        CALL(d, &cfx_op_mul_Tensor, c, cfx_node_value(draw_operand(d, cache->fake, CFX_F32)->node));
    return CALL(d, draw_written(&cfx_op_add_Tensor), at, cfx_int(1)) && done;
}


static cfx_value gates(drawing *d, int64_t rows, int64_t columns) {
    const int64_t shape[] = {rows, columns};
    return node(draw_new_weight(d, CFX_F32, columns ? 2 : 1, shape));
}

/* One layer of an LSTM or a GRU over the rows of something, or of new numbers. */
bool draw_recurrent(drawing *d) {
    operand x = *draw_operand(d, NULL, CFX_F32);
    if (x.fake->ndim != 3 || x.fake->dtype != CFX_F32 || !x.fake->numel || d->n > DRAWN_VALUES - 16)
        x = *draw_new_weight(d, CFX_F32, 3, (int64_t[]){1 + test_draw(4), 1 + test_draw(2), 3});
    if (x.fake->ndim != 3) /* where there is no room for a new one */
        return false;
    const bool lstm = chance(2), first = chance(2);
    const int64_t in = x.fake->shape[2], out = 1 + test_draw(9), all = out * (lstm ? 4 : 3);
    const int64_t state[] = {1, x.fake->shape[first ? 0 : 1], out};
    cfx_value h = node(draw_new_weight(d, CFX_F32, 3, state));
    cfx_value c = node(draw_new_weight(d, CFX_F32, 3, state));
    cfx_value params = cfx_list(gates(d, all, in), gates(d, all, out), gates(d, all, 0),
                                gates(d, all, 0));
    return lstm ? CALL(d, &cfx_op_lstm_input, node(&x), cfx_list(h, c), params, cfx_bool(true),
                       cfx_int(1), cfx_float(0), cfx_bool(false), cfx_bool(false), cfx_bool(first))
                : CALL(d, &cfx_op_gru_input, node(&x), h, params, cfx_bool(true), cfx_int(1),
                       cfx_float(0), cfx_bool(false), cfx_bool(false), cfx_bool(first));
}

/* Fakes have no data to count, so that what becomes of the rows is said here. */
bool draw_counted(drawing *d) {
    operand x = *draw_operand(d, NULL, CFX_DTYPE_COUNT);
    if (d->depth || !x.fake->ndim || d->n > DRAWN_VALUES - 16)
        return false;
    cfx_graph *g = d->p.graph;
    if (chance(2)) {
        cfx_node *where = cfx_graph_call(g, "torch.ops.aten.nonzero.default", node(&x));
        cfx_node *all = cfx_graph_call(g, "torch.ops.aten.sum.dim_IntList", where, cfx_list(0));
        const int64_t dims = x.fake->ndim;
        draw_value(d, all, cfx_tensor_value(cfx_tensor_fake(CFX_I64, 1, &dims, NULL)));
        return cfx_ok();
    }
    operand mask = *draw_operand(d, x.fake, CFX_BOOL);
    if (mask.fake->dtype != CFX_BOOL || !cfx__tensor_same_shape(mask.fake, x.fake))
        return false;
    cfx_node *some = cfx_graph_call(g, "torch.ops.aten.masked_select.default", node(&x),
                                    node(&mask));
    cfx_node *all = cfx_graph_call(g, "torch.ops.aten.sum.default", some);
    const bool whole = !cfx__dtype_is_float(x.fake->dtype) && !cfx__dtype_is_complex(x.fake->dtype);
    const cfx_dtype dtype = whole ? CFX_I64 : (cfx_dtype)x.fake->dtype;
    draw_value(d, all, cfx_tensor_value(cfx_tensor_fake(dtype, 0, NULL, NULL)));
    return cfx_ok();
}
