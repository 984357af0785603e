/* Embeddings: rows of a table by number. */
#include <cfx/ops.h>

#include "layer.h"

/* The row that stands for padding, counted from the start; -1 where there is none, -2 after an
 * error. */
static int64_t padding_row(const cfx__layer_options *o, int64_t rows) {
    cfx_value v = cfx__layer_option(o, "padding_idx");
    if (cfx_is_none(v))
        return -1;
    int64_t i = cfx_integer(v);
    if (i >= rows || i < -rows) {
        cfx__layer_fail(o, ASSERTION, "Padding_idx must be within num_embeddings");
        return -2;
    }
    return i < 0 ? i + rows : i;
}

static void make_embedding(cfx_module *m, const cfx__layer_options *o) {
    int64_t rows = cfx__layer_option_int(o, "num_embeddings"),
            n = cfx__layer_option_int(o, "embedding_dim");
    int64_t padding = padding_row(o, rows);
    if (padding < -1)
        return;
    cfx_module_set_attr(m, "padding_idx", padding < 0 ? cfx_none() : cfx_int(padding));
    cfx_tensor *weight = cfx_normal_(cfx_empty(cfx_list(rows, n)));
    if (padding >= 0)
        cfx_fill_(cfx_select(weight, 0, padding), 0);
    cfx_nn_parameter(m, "weight", weight);
}

const cfx__layer cfx__layers_sparse[] = {
    {"sparse.Embedding",
     "num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, "
     "scale_grad_by_freq=False, sparse=False",
     "{num_embeddings}, {embedding_dim}[padding_idx][max_norm][norm_type][scale_grad_by_freq]"
     "[sparse]",
     "torch.nn.functional.embedding(input, weight, padding_idx, max_norm, norm_type, "
     "scale_grad_by_freq, sparse)",
     .make = make_embedding},
    {"sparse.EmbeddingBag",
     "num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, "
     "mode='mean', sparse=False, include_last_offset=False, padding_idx=None",
     "{num_embeddings}, {embedding_dim}[max_norm][norm_type][scale_grad_by_freq], mode={mode!r}"
     "[padding_idx]",
     "torch.nn.functional.embedding_bag(input, weight, offsets, max_norm, norm_type, "
     "scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx)",
     "input, offsets=None, per_sample_weights=None", .make = make_embedding},
    {0},
};
