/* Embeddings with small rows, as QuantizedEmbedding and QuantizedEmbeddingBag of
 * torch.ao.nn.quantized: a row is 8 or 4 bits for each number, a scale and a shift. Rows are floats
 * only when they are asked for. */
#include "fx.h"

/* The parts of a packed table. */
enum { BYTES, SCALE, SHIFT };

/* Two numbers a byte, the first in the low half. */
static cfx_tensor *pair_up(cfx_tensor *q) {
    if (cfx_dim(q, 1) % 2)
        q = cfx_constant_pad_nd(q, cfx_list(0, 1), 0);
    cfx_tensor *pairs = cfx_reshape(q, cfx_list(cfx_dim(q, 0), -1, 2));
    cfx_tensor *high = cfx_mul(cfx_select(pairs, 2, 1), 16);
    return cfx_to(cfx_add(cfx_select(pairs, 2, 0), high), cfx_u8);
}

static cfx_tensor *take_apart(cfx_tensor *bytes, int64_t width) {
    cfx_tensor *low = cfx_remainder(bytes, 16), *high = cfx_floor_divide(bytes, 16);
    cfx_tensor *both = cfx_flatten(cfx_stack(cfx_list(low, high), -1), 1);
    return cfx_narrow(both, 1, 0, width);
}

void cfx__quant_pack_embedding(cfx_module *to, const cfx_module *from, int bits) {
    static const char *const gone[] = {"weight", "weight_scale", "weight_zero_point",
                                       "weight_quantized", "weight_quant_max"};
    const cfx_tensor *w = cfx_as_tensor(cfx_module_attr(from, "weight_quantized"));
    cfx_tensor *scale = cfx_to(w->quantizer->scales, cfx_f32);
    cfx_tensor *shift = cfx_neg(cfx_mul(cfx_to(w->quantizer->zero_points, cfx_f32), scale));
    cfx_tensor *ints = cfx__quantized_ints(w);
    if (bits == 4) {
        ints = pair_up(cfx_to(ints, cfx_i32));
        scale = cfx_to(scale, cfx_f16);
        shift = cfx_to(shift, cfx_f16);
    }
    for (int i = 0; i < COUNT(gone); i++)
        cfx_module_remove(to, gone[i]);
    cfx_module_set_attr(to, "_packed_params", cfx_tuple(ints, scale, shift));
    cfx_module_set_attr(to, "_bits", cfx_int(bits));
}

/* Rows of the table, one for each of n indices. */
static cfx_tensor *rows_of(const cfx_module *m, cfx_tensor *indices) {
    cfx_value packed = cfx_module_attr(m, "_packed_params");
    int64_t width = cfx_integer(cfx_module_attr(m, "embedding_dim"));
    cfx_tensor *q = cfx_index_select(cfx_tensor_at(packed, BYTES), 0, indices);
    if (cfx_integer(cfx_module_attr(m, "_bits")) == 4)
        q = take_apart(q, width);
    cfx_tensor *scale = cfx_index_select(cfx_tensor_at(packed, SCALE), 0, indices);
    cfx_tensor *shift = cfx_index_select(cfx_tensor_at(packed, SHIFT), 0, indices);
    scale = cfx_unsqueeze(cfx_to(scale, cfx_f32), 1);
    shift = cfx_unsqueeze(cfx_to(shift, cfx_f32), 1);
    return cfx_add(cfx_mul(cfx_to(q, cfx_f32), scale), shift);
}

cfx_value cfx__quant_forward_embedding(cfx_module *self, cfx_args a) {
    cfx_tensor *indices = cfx_as_tensor(a.v[0]);
    cfx_tensor *rows = rows_of(self, cfx_flatten(indices));
    cfx_value shape = cfx_ints_value(cfx_tensor_ndim(indices), cfx_tensor_shape(indices));
    cfx_list_append(cfx_as_list(shape), cfx_int(-1));
    return cfx_tensor_value(cfx_reshape(rows, shape));
}

/* indices, offsets, per_sample_weights: sums of rows. */
cfx_value cfx__quant_forward_bag(cfx_module *self, cfx_args a) {
    cfx_tensor *indices = cfx_as_tensor(a.v[0]), *flat = cfx_flatten(indices);
    cfx_tensor *rows = rows_of(self, flat);
    cfx_tensor *all = cfx_arange(cfx_tensor_numel(flat));
    all = cfx_reshape(all, cfx_ints_value(cfx_tensor_ndim(indices), cfx_tensor_shape(indices)));
    return cfx_py("torch.nn.functional.embedding_bag", all, rows, a.n > 1 ? a.v[1] : cfx_none(),
                  CFX_KW(mode, "sum"), CFX_KW(per_sample_weights, a.n > 2 ? a.v[2] : cfx_none()),
                  CFX_KW(include_last_offset, cfx_module_attr(self, "include_last_offset")));
}
