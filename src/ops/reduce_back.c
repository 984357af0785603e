/* Gradients of reductions: what was one number for many goes to each of them. */
#include "words.h"

/* g in the shape it has with the reduced dimensions kept as ones. `dims` are those given. */
static cfx_tensor *with_dims(cfx_tensor *g, const cfx_tensor *in, cfx_value dims, bool kept) {
    if (kept || in->ndim == 0)
        return g;
    int64_t shape[CFX_MAX_DIMS];
    bool all = cfx_is_none(dims) || (dims.tag == CFX_TAG_LIST && dims.list->len == 0);
    for (int i = 0; i < in->ndim; i++)
        shape[i] = all ? 1 : in->shape[i];
    bool one = dims.tag == CFX_TAG_INT;
    int64_t n = all ? 0 : one ? 1 : dims.list->len;
    for (int64_t i = 0; i < n; i++) {
        int64_t d = cfx_integer(one ? dims : dims.list->items[i]);
        shape[d < 0 ? d + in->ndim : d] = 1;
    }
    return cfx_view(g, cfx_ints_value(in->ndim, shape));
}

static cfx_tensor *expanded(cfx_tensor *g, const cfx_tensor *in) {
    return cfx_expand(g, sizes_of(in));
}

BACK(sum, expanded(G, X(0)))
BACK(sum_dim, expanded(with_dims(G, X(0), A(1), cfx_integer(A(2))), X(0)))
