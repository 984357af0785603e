/* Tensors put together: cat and stack with their spellings, grids, blocks. */
#include "../back.h"
#include "../views.h"

CFX_FAMILY(VIEW);

/* ---- cat ------------------------------------------------------------------------------------- */

/* 1-d empty tensors are left out whatever the others look like: so it was once, so it stays. */
static bool is_skipped(const cfx_tensor *t) { return t->ndim == 1 && t->numel == 0; }

static bool cat_shape(cfx_op_call *c, int64_t n, int *dim, int64_t *shape,
                      const cfx_tensor **first) {
    *first = NULL;
    for (int64_t i = 0; i < n; i++) {
        const cfx_tensor *t = arg_item(c, 0, i);
        if (t->ndim == 0) {
            op_fail(c, "zero-dimensional tensor (at position %lld) cannot be concatenated",
                    (long long)i);
            return false;
        }
        if (!*first && !is_skipped(t))
            *first = t;
    }
    const cfx_tensor *like = *first ? *first : arg_item(c, 0, 0);
    *dim = *first ? cfx__shape_wrap_dim(c->at, arg_int(c, 1), like->ndim) : 0;
    if (*dim < 0)
        return false;
    memcpy(shape, like->shape, (size_t)like->ndim * sizeof *shape);
    shape[*dim] = 0;
    for (int64_t i = 0; i < n; i++) {
        const cfx_tensor *t = arg_item(c, 0, i);
        if (is_skipped(t))
            continue;
        if (t->ndim != like->ndim) {
            op_fail(c, "Tensors must have same number of dimensions: got %d and %d", like->ndim,
                    t->ndim);
            return false;
        }
        for (int d = 0; d < t->ndim; d++)
            if (d != *dim && t->shape[d] != like->shape[d]) {
                op_fail(c,
                        "Sizes of tensors must match except in dimension %d. Expected size %lld "
                        "but got size %lld for tensor number %lld in the list.",
                        *dim, (long long)like->shape[d], (long long)t->shape[d], (long long)i);
                return false;
            }
        if (__builtin_add_overflow(shape[*dim], t->shape[*dim], &shape[*dim])) {
            op_fail_large(c, "Storage size calculation overflowed with sizes=%s",
                          cfx__shape_text(like->ndim, shape));
            return false;
        }
    }
    *first = like;
    return true;
}

/* channels_last only where all are. */
static cfx_memory_format cat_format(cfx_op_call *c, int64_t n) {
    cfx_memory_format f = cfx__tensor_suggest_format(arg_item(c, 0, 0));
    for (int64_t i = 1; i < n && f != CFX_CONTIGUOUS; i++)
        if (cfx__tensor_suggest_format(arg_item(c, 0, i)) != f)
            f = CFX_CONTIGUOUS;
    return f;
}

static void shape_cat(cfx_op_call *c) {
    int64_t n = arg_count(c, 0), shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    const cfx_tensor *like;
    int dim;
    if (n == 0) {
        op_fail_as(VALUE, c, "torch.cat(): expected a non-empty list of Tensors");
        return;
    }
    if (!cat_shape(c, n, &dim, shape, &like))
        return;
    cfx__promotion p = CFX__PROMOTION_START;
    for (int64_t i = 0; i < n; i++)
        cfx__promotion_tensor(&p, arg_item(c, 0, i));
    if (format_strides(c, cat_format(c, n), like->ndim, shape, stride))
        out_strided(c, 0, cfx__promotion_dtype(&p), like->ndim, shape, stride);
}

/* Rows of bytes: what lies inside `dim` of one operand goes to every `pitch` bytes of the result.
 */
typedef struct {
    char *out;
    const char *in;
    size_t row, pitch;
} cat_rows;

static void copy_rows(void *arg, int64_t begin, int64_t end) {
    const cat_rows *r = arg;
    for (int64_t i = begin; i < end; i++)
        memcpy(r->out + (size_t)i * r->pitch, r->in + (size_t)i * r->row, r->row);
}

static void kernel_cat(cfx_op_call *c) {
    cfx_tensor *out = c->out[0];
    if (!out->numel)
        return;
    int dim = cfx__shape_wrap_dim(c->at, arg_int(c, 1), out->ndim),
        size = cfx_dtype_size(out->dtype);
    bool plain = cfx__tensor_is_contiguous(out);
    int64_t at = 0, outer = 1;
    for (int d = 0; d < dim; d++)
        outer *= out->shape[d];
    for (int64_t i = 0; i < arg_count(c, 0); i++) {
        const cfx_tensor *t = arg_item(c, 0, i);
        if (t->numel == 0)
            continue;
        if (plain && t->dtype == out->dtype && cfx__tensor_is_contiguous(t)) {
            size_t inner = (size_t)(out->numel / outer / out->shape[dim] * size);
            cat_rows r = {out->data + (size_t)at * inner, t->data, (size_t)t->shape[dim] * inner,
                          (size_t)out->shape[dim] * inner};
            cfx__parallel(outer, 1 + (int64_t)(131072 / r.row), copy_rows, &r);
        } else {
            cfx__tensor_copy(sliced(out, dim, at, t->shape[dim], 1), t);
        }
        at += t->shape[dim];
    }
}

static void decompose_cat(cfx_op_call *c) { c->out[0] = cfx_cat(c->args[0], c->args[1]); }

/* A piece for each tensor; vectors of no element, which cat passes over, get none. */
static void grad_cat(cfx_back *b) {
    const cfx_list *list = cfx_as_list(b->args[0]);
    const int dim = back_dim(b, 1, b->out[0]->ndim);
    cfx_value grads = cfx_list_value(0, NULL);
    int64_t at = 0;
    for (int64_t i = 0; i < list->len; i++) {
        const cfx_tensor *t = cfx_as_tensor(list->items[i]);
        if (t->ndim == 1 && !t->numel) {
            cfx_list_append(cfx_as_list(grads), cfx_tensor_value(zeros_as(t)));
            continue;
        }
        cfx_tensor *piece = cfx_slice(b->gout[0], dim, at, at + t->shape[dim]);
        cfx_list_append(cfx_as_list(grads), cfx_tensor_value(cast_to(piece, t->dtype)));
        at += t->shape[dim];
    }
    b->gin[0] = grads;
}

CFX_OP(cat) = {"aten::cat(Tensor[] tensors, int dim=0) -> Tensor", "torch.cat", .shape = shape_cat,
               .kernel = kernel_cat,
               .dtypes = CFX_IN_ANY, GRAD(cat, 0), .autocast = CFX_CAST_WIDEST,
               .effects = CFX_OUT_CASTS, .out = "out"};
CFX_OP(concat) = {"aten::concat(Tensor[] tensors, int dim=0) -> Tensor", "torch.concat",
                  .decompose = decompose_cat, .effects = CFX_COMPOSITE | CFX_OUT_CASTS,
                  .out = "out"};
CFX_OP(concatenate) = {"aten::concatenate(Tensor[] tensors, int dim=0) -> Tensor",
                       "torch.concatenate", .decompose = decompose_cat,
                       .effects = CFX_COMPOSITE | CFX_OUT_CASTS,
                       .out = "out"};

/* ---- stack ----------------------------------------------------------------------------------- */

/* cat, then the new dimension split off by a view; behind the last one there is nothing to split,
 * so there every operand gets its own. */
static void decompose_stack(cfx_op_call *c) {
    int64_t n = arg_count(c, 0), shape[CFX_MAX_DIMS];
    if (n == 0) {
        op_fail(c, "stack expects a non-empty TensorList");
        return;
    }
    const cfx_tensor *first = arg_item(c, 0, 0);
    int dim = arg_dim(c, 1, first->ndim + 1), k = 0;
    if (dim < 0)
        return;
    if (first->ndim == CFX_MAX_DIMS) {
        op_fail(c, "tensor has too many (>%d) dims", CFX_MAX_DIMS);
        return;
    }
    for (int64_t i = 1; i < n; i++) {
        const cfx_tensor *t = arg_item(c, 0, i);
        if (!cfx__tensor_same_shape(t, first)) {
            op_fail(c,
                    "stack expects each tensor to be equal size, but got %s at entry 0 and %s at "
                    "entry %lld",
                    cfx__shape_text(first->ndim, first->shape), cfx__shape_text(t->ndim, t->shape),
                    (long long)i);
            return;
        }
    }
    if (dim < first->ndim && !(first->ndim == 1 && !first->numel)) {
        for (int d = 0; d < first->ndim; d++) {
            if (d == dim)
                shape[k++] = n;
            shape[k++] = first->shape[d];
        }
        c->out[0] = cfx_view(cfx_cat(c->args[0], dim), cfx_ints_value(k, shape));
        return;
    }
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(list), cfx_tensor_value(cfx_unsqueeze(arg_item(c, 0, i), dim)));
    c->out[0] = cfx_cat(list, dim);
}

CFX_OP(stack) = {"aten::stack(Tensor[] tensors, int dim=0) -> Tensor", "torch.stack",
                 .decompose = decompose_stack, .core = core_stack, .autocast = CFX_CAST_WIDEST,
                 .effects = CFX_OUT_CASTS, .out = "out"};

/* ---- stacks by axis -------------------------------------------------------------------------- */

/* The operands, made to have at least so many dimensions. */
static cfx_value at_least(cfx_op_call *c, int n) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < arg_count(c, 0); i++) {
        cfx_tensor *t = arg_item(c, 0, i);
        t = n == 1 ? cfx_atleast_1d(t) : n == 2 ? cfx_atleast_2d(t) : cfx_atleast_3d(t);
        cfx_list_append(cfx_as_list(list), cfx_tensor_value(t));
    }
    return list;
}

static bool some_tensors(cfx_op_call *c, const char *name) {
    if (arg_count(c, 0))
        return true;
    op_fail(c, "%s expects a non-empty TensorList", name);
    return false;
}

static void decompose_hstack(cfx_op_call *c) {
    if (!some_tensors(c, "hstack"))
        return;
    cfx_value list = at_least(c, 1);
    if (!op_failed())
        c->out[0] = cfx_cat(list, cfx_as_tensor(cfx_as_list(list)->items[0])->ndim == 1 ? 0 : 1);
}

static void decompose_vstack(cfx_op_call *c) {
    if (some_tensors(c, "vstack"))
        c->out[0] = cfx_cat(at_least(c, 2), 0);
}

static void decompose_dstack(cfx_op_call *c) {
    if (some_tensors(c, "dstack"))
        c->out[0] = cfx_cat(at_least(c, 3), 2);
}

static void decompose_column_stack(cfx_op_call *c) {
    if (!some_tensors(c, "column_stack"))
        return;
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < arg_count(c, 0); i++) {
        cfx_tensor *t = arg_item(c, 0, i);
        if (t->ndim <= 1)
            t = cfx_reshape(t, cfx_list(t->numel, 1));
        cfx_list_append(cfx_as_list(list), cfx_tensor_value(t));
    }
    c->out[0] = cfx_hstack(list);
}

CFX_OP(hstack) = {"aten::hstack(Tensor[] tensors) -> Tensor", "torch.hstack",
                  .decompose = decompose_hstack, .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(vstack) = {"aten::vstack(Tensor[] tensors) -> Tensor", "torch.vstack",
                  .decompose = decompose_vstack, .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(row_stack) = {"aten::row_stack(Tensor[] tensors) -> Tensor", "torch.row_stack",
                     .decompose = decompose_vstack, .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(dstack) = {"aten::dstack(Tensor[] tensors) -> Tensor", "torch.dstack",
                  .decompose = decompose_dstack, .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(column_stack) = {"aten::column_stack(Tensor[] tensors) -> Tensor", "torch.column_stack",
                        .decompose = decompose_column_stack, .effects = CFX_COMPOSITE,
                        .out = "out"};

/* ---- chunks and blocks ----------------------------------------------------------------------- */

/* Each operand is padded with zeros along dim to a whole number of equal chunks; what lies inside
 * becomes one row a chunk, and the rows of all operands are joined. */
static void shape_chunk_cat(cfx_op_call *c) {
    int64_t n = arg_count(c, 0), chunks = arg_int(c, 2), width = 0, shape[CFX_MAX_DIMS];
    if (!n || chunks < 1) {
        op_fail(c, n ? "_chunk_cat expects positive num_chunks"
                     : "_chunk_cat expects a non-empty input tensor list");
        return;
    }
    const cfx_tensor *first = arg_item(c, 0, 0);
    int dim = arg_dim(c, 1, first->ndim);
    if (dim < 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        const cfx_tensor *t = arg_item(c, 0, i);
        if (t->dtype != first->dtype)
            op_fail(c, "_chunk_cat expects all input tensors with the same dtype");
        else if (t->numel == 0)
            op_fail(c, "_chunk_cat expects non-empty tensor");
        else if (dim >= t->ndim)
            op_fail(c, "_chunk_cat expects dim < ndim for all input tensors");
        for (int d = 0; d < dim && !op_failed(); d++)
            if (t->shape[d] != first->shape[d])
                op_fail(c, "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all input "
                           "tensors");
        if (op_failed())
            return;
        int64_t inner = 1;
        for (int d = dim + 1; d < t->ndim; d++)
            inner *= t->shape[d];
        width += (t->shape[dim] / chunks + (t->shape[dim] % chunks != 0)) * inner;
    }
    memcpy(shape, first->shape, (size_t)dim * sizeof *shape);
    shape[dim] = chunks;
    shape[dim + 1] = width;
    out_new(c, 0, first->dtype, dim + 2, shape);
}

static void kernel_chunk_cat(cfx_op_call *c) {
    cfx_tensor *out = c->out[0];
    int dim = out->ndim - 2, size = cfx_dtype_size(out->dtype);
    int64_t chunks = out->shape[dim], outer = 1;
    size_t pitch = (size_t)(out->shape[dim + 1] * size), at = 0;
    for (int d = 0; d < dim; d++)
        outer *= out->shape[d];
    memset(out->data, 0, (size_t)(out->numel * size));
    for (int64_t i = 0; i < arg_count(c, 0); i++) {
        const cfx_tensor *t = arg_item(c, 0, i);
        size_t inner = (size_t)(t->numel / outer / t->shape[dim] * size);
        int64_t piece = t->shape[dim] / chunks + (t->shape[dim] % chunks != 0);
        for (int64_t o = 0; o < outer; o++)
            for (int64_t k = 0; k * piece < t->shape[dim]; k++) {
                int64_t left = t->shape[dim] - k * piece, rows = left < piece ? left : piece;
                memcpy(out->data + (size_t)(o * chunks + k) * pitch + at,
                       t->data + (size_t)(o * t->shape[dim] + k * piece) * inner,
                       (size_t)rows * inner);
            }
        at += (size_t)piece * inner;
    }
}

static void shape_block_diag(cfx_op_call *c) {
    int64_t n = arg_count(c, 0), shape[2] = {0, 0};
    cfx__promotion p = CFX__PROMOTION_START;
    for (int64_t i = 0; i < n; i++) {
        const cfx_tensor *t = arg_item(c, 0, i);
        if (t->ndim > 2) {
            op_fail(c,
                    "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input %lld "
                    "has %d dimensions",
                    (long long)i, t->ndim);
            return;
        }
        /* a list of tensors promotes one by one: 0-dim ones count in full */
        p.dim = (int8_t)(p.dim < 0 ? t->dtype : cfx__dtype_promote((cfx_dtype)p.dim, t->dtype));
        bool fits =
            !__builtin_add_overflow(shape[0], t->ndim == 2 ? t->shape[0] : 1, &shape[0]) &&
            !__builtin_add_overflow(shape[1], t->ndim ? t->shape[t->ndim - 1] : 1, &shape[1]);
        if (!fits) {
            op_fail_large(c, "Storage size calculation overflowed");
            return;
        }
    }
    if (n)
        out_new(c, 0, (cfx_dtype)p.dim, 2, shape);
    else
        out_new(c, 0, CFX_F32, 2, (int64_t[]){1, 0});
}

static void kernel_block_diag(cfx_op_call *c) {
    cfx_tensor *out = c->out[0];
    int64_t row = 0, col = 0;
    cfx__tensor_fill(out, cfx_int(0));
    for (int64_t i = 0; i < arg_count(c, 0); i++) {
        const cfx_tensor *t = arg_item(c, 0, i);
        int64_t h = t->ndim == 2 ? t->shape[0] : 1, w = t->ndim ? t->shape[t->ndim - 1] : 1;
        if (h && w)
            cfx__tensor_copy(sliced(sliced(out, 0, row, h, 1), 1, col, w, 1), t);
        row += h;
        col += w;
    }
}

CFX_OP(_chunk_cat) = {"aten::_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor",
                      "torch._chunk_cat", .shape = shape_chunk_cat, .kernel = kernel_chunk_cat,
                      .dtypes = CFX_IN_ANY, .effects = CFX_CONTIGUOUS_ARGS | CFX_OUT_CASTS,
                      .out = "out"};
static void grad_block_diag(cfx_back *b) {
    const cfx_list *list = cfx_as_list(b->args[0]);
    cfx_value grads = cfx_list_value(0, NULL);
    int64_t row = 0, column = 0;
    for (int64_t i = 0; i < list->len; i++) {
        const cfx_tensor *t = cfx_as_tensor(list->items[i]);
        const int64_t rows = t->ndim == 2 ? t->shape[0] : 1;
        const int64_t columns = t->ndim ? t->shape[t->ndim - 1] : 1;
        cfx_tensor *piece = cfx_slice(cfx_slice(b->gout[0], 0, row, row + rows), 1, column,
                                      column + columns);
        piece = cast_to(cfx_reshape(piece, sizes_of(t)), t->dtype);
        cfx_list_append(cfx_as_list(grads), cfx_tensor_value(piece));
        row += rows, column += columns;
    }
    b->gin[0] = grads;
}

CFX_OP(block_diag) = {"aten::block_diag(Tensor[] tensors) -> Tensor",
                      "torch.functional.block_diag torch.block_diag",
                      .shape = shape_block_diag, .kernel = kernel_block_diag, .dtypes = CFX_IN_ANY,
                      GRAD(block_diag, 0), .core = core_block_diag, .out = "out"};

/* ---- grids ----------------------------------------------------------------------------------- */

static void decompose_broadcast_tensors(cfx_op_call *c) {
    int64_t n = arg_count(c, 0), shape[CFX_MAX_DIMS];
    int ndim = 0;
    for (int64_t i = 0; i < n; i++) {
        const cfx_tensor *t = arg_item(c, 0, i);
        if (!cfx__shape_broadcast(c->at, &ndim, shape, t->ndim, t->shape))
            return;
    }
    c->result = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < n && !op_failed(); i++) {
        cfx_tensor *t = arg_item(c, 0, i);
        bool same = t->ndim == ndim && !memcmp(t->shape, shape, (size_t)ndim * sizeof *shape);
        t = same ? t : cfx_expand(t, cfx_ints_value(ndim, shape));
        cfx_list_append(cfx_as_list(c->result), cfx_tensor_value(t));
    }
}

/* Every operand seen along a dimension of its own; xy swaps the first two. */
static void grid(cfx_op_call *c, bool swap) {
    int64_t n = arg_count(c, 0), shape[CFX_MAX_DIMS], view[CFX_MAX_DIMS];
    if (!n) {
        op_fail(c, "meshgrid expects a non-empty TensorList");
        return;
    }
    if (n > CFX_MAX_DIMS) {
        op_fail(c, "tensor has too many (>%d) dims", CFX_MAX_DIMS);
        return;
    }
    swap = swap && n >= 2;
    for (int64_t i = 0; i < n; i++) {
        const cfx_tensor *t = arg_item(c, 0, i);
        if (t->ndim > 1)
            op_fail(
                c,
                "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: %dD tensor",
                t->ndim);
        else if (t->dtype != arg_item(c, 0, 0)->dtype)
            op_fail(c, "torch.meshgrid expects all tensors to have the same dtype");
        shape[swap && i < 2 ? 1 - i : i] = t->numel;
        view[i] = 1;
    }
    if (op_failed())
        return;
    c->result = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < n && !op_failed(); i++) {
        int64_t at = swap && i < 2 ? 1 - i : i;
        view[at] = -1;
        cfx_tensor *t = arg_item(c, 0, i);
        if (t->numel == 0)
            view[at] = 0;
        t = cfx_expand(cfx_view(t, cfx_ints_value(n, view)), cfx_ints_value(n, shape));
        cfx_list_append(cfx_as_list(c->result), cfx_tensor_value(t));
        view[at] = 1;
    }
}

static void decompose_meshgrid(cfx_op_call *c) { grid(c, false); }

static void decompose_meshgrid_indexing(cfx_op_call *c) {
    const char *how = arg_text(c, 1);
    if (strcmp(how, "ij") && strcmp(how, "xy"))
        op_fail(c, "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: %s",
                how);
    else
        grid(c, how[0] == 'x');
}

static void decompose_cartesian_prod(cfx_op_call *c) {
    int64_t n = arg_count(c, 0);
    for (int64_t i = 0; i < n; i++)
        if (arg_item(c, 0, i)->ndim != 1) {
            op_fail(c, "Expect a 1D vector, but got shape %s",
                    cfx__shape_text(arg_item(c, 0, i)->ndim, arg_item(c, 0, i)->shape));
            return;
        }
    if (n == 1) {
        c->out[0] = arg_item(c, 0, 0);
        return;
    }
    cfx_value grids = cfx_meshgrid(c->args[0]), list = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < n && !op_failed(); i++)
        cfx_list_append(cfx_as_list(list), cfx_tensor_value(cfx_flatten(cfx_tensor_at(grids, i))));
    if (!op_failed())
        c->out[0] = cfx_stack(list, 1);
}

CFX_OP(broadcast_tensors) = {"aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]",
                             "torch.functional.broadcast_tensors torch.broadcast_tensors",
                             .decompose = decompose_broadcast_tensors,
                             .effects = CFX_COMPOSITE | CFX_SHARES};
CFX_OP(meshgrid) = {"aten::meshgrid(Tensor[] tensors) -> Tensor[]", "torch.meshgrid",
                    .decompose = decompose_meshgrid, .effects = CFX_COMPOSITE | CFX_SHARES};
CFX_OP(meshgrid_indexing) = {
    "aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]", NULL,
    .decompose = decompose_meshgrid_indexing, .effects = CFX_COMPOSITE | CFX_SHARES};
CFX_OP(cartesian_prod) = {"aten::cartesian_prod(Tensor[] tensors) -> Tensor",
                          "torch.functional.cartesian_prod torch.cartesian_prod",
                          .decompose = decompose_cartesian_prod,
                          .effects = CFX_COMPOSITE | CFX_SHARES};
