/* Gradients of views and of what lays numbers out anew: the gradient is laid back. */
#include "../words.h"

/* What was copied goes to the source; what was there before is gone. */
void grad_copy_(cfx_back *b) { GIVE(1, G); }

/* ---- as_strided ------------------------------------------------------------------------------ */

static int64_t reach_of(int ndim, const int64_t *shape, const int64_t *stride) {
    int64_t last = 0;
    for (int i = 0; i < ndim; i++) {
        if (!shape[i])
            return 0;
        last += (shape[i] - 1) * stride[i];
    }
    return last + 1;
}

static cfx_value stride_of(const cfx_tensor *t) { return cfx_ints_value(t->ndim, t->stride); }

/* Whether two indices may lead to one place: no stride steps over all that smaller ones reach. */
static bool looks_twice(const cfx_tensor *t) {
    int order[CFX_MAX_DIMS], n = 0;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] == 1)
            continue;
        int at = n++;
        for (; at && t->stride[order[at - 1]] > t->stride[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    int64_t reach = 0;
    for (int i = 0; t->numel && i < n; i++) {
        if (t->stride[order[i]] <= reach)
            return true;
        reach += t->stride[order[i]] * (t->shape[order[i]] - 1);
    }
    return false;
}

/* The places in a line of n that a tensor of this outline looks at, as one row. */
static cfx_tensor *places(const cfx_tensor *t, int64_t n, int64_t offset) {
    cfx_tensor *line = cfx_arange(n);
    return cfx_reshape(cfx_as_strided(line, sizes_of(t), stride_of(t), offset), -1);
}

/* Argument and result are two ways to look at one storage. The gradient is added up in a line that
 * stands for it; places that the argument itself looks at several times share their part. */
void grad_as_strided(cfx_back *b) {
    if (!b->needs[0])
        return;
    cfx_tensor *in = X(0), *out = Y(0);
    int64_t stride[CFX_MAX_DIMS]; /* as it looked; a copy lies differently */
    for (int i = 0; i < out->ndim; i++)
        stride[i] = cfx_integer(cfx_as_list(A(2))->items[i]);
    out = cfx_tensor_fake((cfx_dtype)out->dtype, out->ndim, out->shape, stride);
    int64_t to = cfx_is_none(A(3)) ? in->offset : cfx_integer(A(3));
    int64_t start = in->offset < to ? in->offset : to;
    int64_t end_in = in->offset - start + reach_of(in->ndim, in->shape, in->stride);
    int64_t end_out = to - start + reach_of(out->ndim, out->shape, out->stride);
    int64_t n = end_in > end_out ? end_in : end_out;
    cfx_tensor *line = cfx_new_zeros(G, cfx_ints_value(1, &n));
    if (looks_twice(out))
        line = cfx_index_add(line, 0, places(out, n, to - start), cfx_reshape(G, -1));
    else
        line = cfx_as_strided_scatter(line, G, sizes_of(out), stride_of(out), to - start);
    if (looks_twice(in)) {
        cfx_tensor *at = places(in, n, in->offset - start);
        cfx_tensor *times = cfx_index_add(cfx_zeros_like(cfx_detach(line)), 0, at,
                                          cfx_new_ones(G, cfx_ints_value(1, &in->numel)));
        line = cfx_div(line, times);
    }
    GIVE(0, cfx_as_strided(line, sizes_of(in), stride_of(in), in->offset - start));
}

/* ---- the same numbers in another shape ------------------------------------------------------- */

BACK(reshape, cfx_reshape(G, sizes_of(X(0))))
BACK(transpose, cfx_transpose(G, A(1), A(2)))
BACK(t, cfx_t(G))

static cfx_tensor *back_permute(cfx_back *b) {
    int64_t back[CFX_MAX_DIMS];
    int n = X(0)->ndim;
    for (int i = 0; i < n; i++) {
        int64_t from = cfx_integer(cfx_as_list(A(1))->items[i]);
        back[from < 0 ? from + n : from] = i;
    }
    return cfx_permute(G, cfx_ints_value(n, back));
}
BACK(permute, back_permute(b))

/* ---- a part ---------------------------------------------------------------------------------- */

/* Zeros shaped as the argument, with the gradient in the part that the call had taken. Recorded, it
 * is one functional call; otherwise it is written in place, which needs no second copy. */
#define PUT_BACK(part, scattered)                                                                  \
    cfx_tensor *zeros = zeros_as(X(0));                                                            \
    if (back_recorded() || G->dtype != X(0)->dtype)                                                \
        return scattered;                                                                          \
    cfx_copy_(part, G);                                                                            \
    return zeros

static cfx_tensor *back_slice(cfx_back *b) {
    PUT_BACK(cfx_slice(zeros, A(1), A(2), A(3), A(4)),
             cfx_slice_scatter(zeros, G, A(1), A(2), A(3), A(4)));
}
BACK(slice, back_slice(b))

static cfx_tensor *back_select(cfx_back *b) {
    PUT_BACK(cfx_select(zeros, A(1), A(2)), cfx_select_scatter(zeros, G, A(1), A(2)));
}
BACK(select, back_select(b))

static cfx_tensor *back_diagonal(cfx_back *b) {
    PUT_BACK(cfx_diagonal(zeros, A(1), A(2), A(3)),
             cfx_diagonal_scatter(zeros, G, A(1), A(2), A(3)));
}
BACK(diagonal, back_diagonal(b))

static cfx_tensor *back_narrow(cfx_back *b) {
    cfx_value end = cfx_int(back_int(b, 2) + back_int(b, 3));
    if (back_int(b, 2) < 0 && cfx_integer(end) == 0)
        end = cfx_none();
    PUT_BACK(cfx_slice(zeros, A(1), A(2), end), cfx_slice_scatter(zeros, G, A(1), A(2), end));
}
BACK(narrow, back_narrow(b))

BACK(unfold, X(0)->ndim ? cfx_unfold_backward(G, sizes_of(X(0)), A(1), A(2), A(3))
                        : cfx_reshape(G, sizes_of(X(0))))

/* ---- several parts --------------------------------------------------------------------------- */

static cfx_value all_gradients(cfx_back *b) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; i < b->nout; i++)
        cfx_list_append(cfx_as_list(list), CFX_V(back_gout(b, i)));
    return list;
}

void grad_split(cfx_back *b) { GIVE(0, cfx_cat(all_gradients(b), A(2))); }
void grad_unbind(cfx_back *b) { GIVE(0, cfx_stack(all_gradients(b), A(1))); }

/* ---- a part replaced ------------------------------------------------------------------------- */

void grad_slice_scatter(cfx_back *b) {
    GIVE(0, cfx_slice_scatter(G, zeros_as(X(1)), A(2), A(3), A(4), A(5)));
    GIVE(1, cfx_slice(G, A(2), A(3), A(4), A(5)));
}

void grad_select_scatter(cfx_back *b) {
    GIVE(0, cfx_select_scatter(G, zeros_as(X(1)), A(2), A(3)));
    GIVE(1, cfx_select(G, A(2), A(3)));
}

void grad_diagonal_scatter(cfx_back *b) {
    GIVE(0, cfx_diagonal_scatter(G, zeros_as(X(1)), A(2), A(3), A(4)));
    GIVE(1, cfx_diagonal(G, A(2), A(3), A(4)));
}

void grad_as_strided_scatter(cfx_back *b) {
    cfx_tensor *g = cfx_contiguous(G);
    GIVE(0, cfx_as_strided_scatter(g, zeros_as(X(1)), A(2), A(3), A(4)));
    GIVE(1, cfx_as_strided(g, A(2), A(3), A(4)));
}

/* ---- other numbers in the same place --------------------------------------------------------- */

void grad_fill(cfx_back *b) {
    GIVE(0, cfx_zeros_like(G));
    GIVE(1, cfx_sum(G));
}
