/* Views by position: slices, rows, and tensors split along a dimension. */
#include <cfx/ops.h>

#include "../sizes.h"
#include "../views.h"

CFX_FAMILY(VIEW);

cfx_tensor *sliced(const cfx_tensor *t, int dim, int64_t start, int64_t length, int64_t step) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS], wide;
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    memcpy(stride, t->stride, (size_t)t->ndim * sizeof *stride);
    shape[dim] = length;
    /* a step past the end is never taken: its stride need not be a number there is */
    if (!__builtin_mul_overflow(stride[dim], step, &wide))
        stride[dim] = wide;
    return cfx__tensor_alias(t, t->ndim, shape, stride, t->offset + start * t->stride[dim]);
}

/* ---- one slice, one row ---------------------------------------------------------------------- */

static void view_slice(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    if (t->ndim == 0) {
        op_fail_as(INDEX, c, "slice() cannot be applied to a 0-dim tensor.");
        return;
    }
    int d = arg_dim(c, 1, t->ndim);
    if (d < 0)
        return;
    int64_t size = t->shape[d], start = arg_is_none(c, 2) ? 0 : arg_int(c, 2);
    int64_t end = arg_is_none(c, 3) ? INT64_MAX : arg_int(c, 3), step = arg_int(c, 4);
    if (step <= 0) {
        op_fail(c, "slice step must be positive");
        return;
    }
    start += start < 0 ? size : 0;
    end += end < 0 ? size : 0;
    start = start < 0 ? 0 : start > size ? size : start;
    end = end < start ? start : end > size ? size : end;
    int64_t span = end - start, length = span / step + (span % step != 0);
    int64_t (*ask)(int64_t) = t->data ? NULL : cfx__dispatcher()->part_size;
    c->out[0] = sliced(t, d, start, ask ? ask(length) : length, step);
}

static void view_select(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS], at = arg_int(c, 2);
    int n = 0;
    if (t->ndim == 0) {
        op_fail_as(INDEX, c, "select() cannot be applied to a 0-dim tensor.");
        return;
    }
    int dim = arg_dim(c, 1, t->ndim);
    if (dim < 0)
        return;
    int64_t size = t->shape[dim];
    if (at < -size || at >= size) {
        op_fail_as(INDEX, c,
                   "select(): index %lld out of range for tensor of size %s at dimension %d",
                   (long long)at, cfx__shape_text(t->ndim, t->shape), dim);
        return;
    }
    at += at < 0 ? size : 0;
    for (int d = 0; d < t->ndim; d++) {
        if (d == dim)
            continue;
        shape[n] = t->shape[d];
        stride[n++] = t->stride[d];
    }
    out_view(c, 0, t, n, shape, stride, t->offset + at * t->stride[dim]);
}

/* Dim and first position of narrow(dim, start, length); false with PyTorch's message. */
static bool narrow_place(cfx_op_call *c, int *dim, int64_t *start) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t length = arg_int(c, 3);
    if (t->ndim == 0) {
        op_fail(c, "narrow() cannot be applied to a 0-dim tensor.");
        return false;
    }
    if (length < 0) {
        op_fail(c, "narrow(): length must be non-negative.");
        return false;
    }
    *dim = arg_dim(c, 1, t->ndim);
    if (*dim < 0)
        return false;
    int64_t size = t->shape[*dim];
    if (*start < -size || *start > size) {
        op_fail_as(INDEX, c,
                   "start out of range (expected to be in range of [%lld, %lld], but got %lld)",
                   (long long)-size, (long long)size, (long long)*start);
        return false;
    }
    *start += *start < 0 ? size : 0;
    if (*start > size - length) {
        op_fail(c, "start (%lld) + length (%lld) exceeds dimension size (%lld).", (long long)*start,
                (long long)length, (long long)size);
        return false;
    }
    return true;
}

static void view_narrow(cfx_op_call *c) {
    int64_t start = arg_int(c, 2);
    int dim;
    if (narrow_place(c, &dim, &start))
        c->out[0] = sliced(arg_tensor(c, 0), dim, start, arg_int(c, 3), 1);
}

static void decompose_narrow(cfx_op_call *c) {
    int64_t start = arg_int(c, 2);
    int dim;
    if (narrow_place(c, &dim, &start))
        c->out[0] = cfx_slice(arg_tensor(c, 0), c->args[1], start, size_plus(start, c->args[3]),
                              1);
}

static void decompose_narrow_tensor(cfx_op_call *c) {
    cfx_tensor *start = arg_tensor(c, 2);
    if (start->ndim || start->dtype == CFX_BOOL || !cfx__dtype_is_int(start->dtype))
        op_fail(c, "start must be an 0-dim integral Tensor.");
    else
        c->out[0] = cfx_narrow(arg_tensor(c, 0), c->args[1], cfx_item(start), c->args[3]);
}

CFX_OP(slice_Tensor) = {"aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? "
                        "end=None, SymInt step=1) -> Tensor(a)",
                        NULL, .view = view_slice, GRAD(slice, 0), .effects = STRIDED};
CFX_OP(select_int) = {"aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)",
                      "torch.select Tensor.select", .view = view_select, GRAD(select, 0),
                      .effects = CFX_MOVES};
CFX_OP(narrow) = {"aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)",
                  "torch.narrow Tensor.narrow", .view = view_narrow, .decompose = decompose_narrow,
                  .effects = CFX_COMPOSITE | STRIDED};
CFX_OP(narrow_Tensor) = {
    "aten::narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)", NULL,
    .decompose = decompose_narrow_tensor, .effects = CFX_COMPOSITE | STRIDED};

/* ---- split ----------------------------------------------------------------------------------- */

/* More pieces than anybody holds: an error rather than a list that fills the memory. */
enum { MOST_PIECES = 1 << 22 };

static bool too_many(cfx_op_call *c, int64_t n) {
    if (n > MOST_PIECES)
        op_fail_as(MEMORY, c, "a list of %lld tensors does not fit", (long long)n);
    return n > MOST_PIECES;
}

static void add_piece(cfx_op_call *c, const cfx_tensor *t, int dim, int64_t start, int64_t length) {
    size_t mark = cfx_scope_open();
    cfx_list_append(cfx_as_list(c->result), cfx_tensor_value(sliced(t, dim, start, length, 1)));
    cfx_scope_close(mark);
}

static int split_dim(cfx_op_call *c, int arg, const char *name) {
    const cfx_tensor *t = arg_tensor(c, 0);
    if (t->ndim)
        return arg_dim(c, arg, t->ndim);
    op_fail(c, "%s expects at least a 1-dimensional tensor", name);
    return -1;
}

static void view_split(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t piece = arg_int(c, 1);
    int d = split_dim(c, 2, "split");
    if (d < 0)
        return;
    int64_t size = t->shape[d];
    if (piece < 0) {
        op_fail(c, "split expects split_size be non-negative, but got split_size=%lld",
                (long long)piece);
        return;
    }
    if (piece == 0 && size) {
        op_fail(c,
                "split_size can only be 0 if dimension size is 0, but got dimension size of %lld",
                (long long)size);
        return;
    }
    if (too_many(c, piece ? size / piece : 1))
        return;
    c->result = cfx_list_value(0, NULL);
    int64_t at = 0;
    do {
        add_piece(c, t, d, at, size - at < piece ? size - at : piece);
        at += size - at < piece ? size - at : piece;
    } while (at < size && !op_failed());
}

/* Views of the given lengths along a dimension. */
static void view_sizes(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int d = split_dim(c, 2, "split_with_sizes");
    if (d < 0)
        return;
    int64_t sum = 0;
    for (int64_t i = 0; i < arg_count(c, 1); i++) {
        int64_t length = cfx_integer(cfx_as_list(c->args[1])->items[i]);
        if (length < 0) {
            op_fail(c,
                    "split_with_sizes expects split_sizes have only non-negative entries, but got "
                    "split_sizes=%s",
                    cfx_value_str(c->args[1]));
            return;
        }
        if (__builtin_add_overflow(sum, length, &sum))
            sum = -1;
        if (sum < 0)
            break;
    }
    if (sum != t->shape[d]) {
        op_fail(
            c,
            "split_with_sizes expects split_sizes to sum exactly to %lld (input tensor's size at "
            "dimension %lld), but got split_sizes=%s",
            (long long)t->shape[d], (long long)arg_int(c, 2), cfx_value_str(c->args[1]));
        return;
    }
    c->result = cfx_list_value(0, NULL);
    int64_t at = 0;
    for (int64_t i = 0; i < arg_count(c, 1) && !op_failed(); i++) {
        int64_t length = cfx_integer(cfx_as_list(c->args[1])->items[i]);
        add_piece(c, t, d, at, length);
        at += length;
    }
}

static void decompose_split_sizes(cfx_op_call *c) {
    c->result = cfx_split_with_sizes(arg_tensor(c, 0), c->args[1], c->args[2]);
}

CFX_OP(split_Tensor) = {
    "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
    "torch.split Tensor.split", .view = view_split, GRAD(split, 0), .core = core_split_Tensor};
CFX_OP(split_sizes) = {
    "aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]", NULL,
    .view = view_sizes, .decompose = decompose_split_sizes, .effects = CFX_COMPOSITE};
CFX_OP(split_with_sizes) = {
    "aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
    "torch.split_with_sizes Tensor.split_with_sizes", .view = view_sizes, GRAD(split, 0)};
CFX_OP(unsafe_split_Tensor) = {
    "aten::unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
    "torch.unsafe_split Tensor.unsafe_split", .view = view_split, GRAD(split, 0),
    .core = core_unsafe_split_Tensor, .effects = CFX_SHARES, .out = "Tensor_out"};
CFX_OP(unsafe_split_with_sizes) = {
    "aten::unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
    "torch.unsafe_split_with_sizes Tensor.unsafe_split_with_sizes", .view = view_sizes,
    GRAD(split, 0), .core = core_unsafe_split_with_sizes, .effects = CFX_SHARES, .out = "out"};

/* ---- chunk ----------------------------------------------------------------------------------- */

/* The size of each piece of chunk(chunks, dim). With none to share out, *zeros is a list of as many
 * zeros, since split could not tell how many pieces are wanted. None with an error. */
static cfx_value chunk_size(cfx_op_call *c, cfx_value *zeros) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t chunks = arg_int(c, 1);
    *zeros = CFX_NONE;
    if (t->ndim && chunks <= 0) {
        op_fail(c, "chunk expects `chunks` to be greater than 0, got: %lld", (long long)chunks);
        return cfx_none();
    }
    int d = split_dim(c, 2, "chunk");
    if (d < 0)
        return cfx_none();
    int64_t size = t->shape[d];
    if (size && chunks > INT64_MAX - size)
        return cfx_int(1);
    if (size)
        return size_over(size_minus(size_plus(size, chunks), 1), chunks);
    if (too_many(c, chunks))
        return cfx_none();
    *zeros = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < chunks && !op_failed(); i++)
        cfx_list_append(cfx_as_list(*zeros), cfx_int(0));
    return cfx_int(0);
}

static void decompose_chunk(cfx_op_call *c) {
    cfx_value zeros;
    cfx_tensor *t = arg_tensor(c, 0);
    cfx_value size = chunk_size(c, &zeros);
    if (cfx_is_none(size))
        return;
    c->result = cfx_is_none(zeros) ? cfx_split(t, size, c->args[2])
                                   : cfx_split_with_sizes(t, zeros, c->args[2]);
}

static void decompose_unsafe_chunk(cfx_op_call *c) {
    cfx_value zeros;
    cfx_tensor *t = arg_tensor(c, 0);
    cfx_value size = chunk_size(c, &zeros);
    if (cfx_is_none(size))
        return;
    c->result = cfx_is_none(zeros) ? cfx_unsafe_split(t, size, c->args[2])
                                   : cfx_unsafe_split_with_sizes(t, zeros, c->args[2]);
}

CFX_OP(chunk) = {"aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]",
                 "torch.chunk Tensor.chunk", .decompose = decompose_chunk,
                 .effects = CFX_COMPOSITE};
CFX_OP(unsafe_chunk) = {"aten::unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
                        "torch.unsafe_chunk Tensor.unsafe_chunk",
                        .decompose = decompose_unsafe_chunk,
                        .effects = CFX_COMPOSITE | CFX_SHARES};

/* ---- tensor_split ---------------------------------------------------------------------------- */

static int tensor_split_dim(cfx_op_call *c, cfx_value dim) {
    const cfx_tensor *t = arg_tensor(c, 0);
    if (t->ndim)
        return cfx__shape_wrap_dim(c->at, cfx_integer(dim), t->ndim);
    op_fail(c,
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
    return -1;
}

static void split_sections(cfx_op_call *c, int64_t sections, cfx_value dim) {
    cfx_tensor *t = arg_tensor(c, 0);
    int d = tensor_split_dim(c, dim);
    if (d < 0)
        return;
    if (sections <= 0) {
        op_fail(c, "number of sections must be larger than 0, got %lld", (long long)sections);
        return;
    }
    if (too_many(c, sections))
        return;
    int64_t small = t->shape[d] / sections, larger = t->shape[d] % sections, at = 0;
    c->result = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < sections && !op_failed(); i++) {
        int64_t length = small + (i < larger);
        cfx_list_append(cfx_as_list(c->result), cfx_tensor_value(cfx_slice(t, d, at, at + length)));
        at += length;
    }
}

static void split_indices(cfx_op_call *c, cfx_value indices, cfx_value dim) {
    cfx_tensor *t = arg_tensor(c, 0);
    int d = tensor_split_dim(c, dim);
    if (d < 0)
        return;
    int64_t at = 0;
    c->result = cfx_list_value(0, NULL);
    for (int64_t i = 0; i <= cfx_as_list(indices)->len && !op_failed(); i++) {
        int64_t end = i < cfx_as_list(indices)->len ? cfx_integer(cfx_as_list(indices)->items[i])
                                                    : t->shape[d];
        cfx_list_append(cfx_as_list(c->result), cfx_tensor_value(cfx_slice(t, d, at, end)));
        at = end;
    }
}

static void decompose_sections(cfx_op_call *c) { split_sections(c, arg_int(c, 1), c->args[2]); }
static void decompose_indices(cfx_op_call *c) { split_indices(c, c->args[1], c->args[2]); }

static void decompose_tensor_indices(cfx_op_call *c) {
    cfx_tensor *at = arg_tensor(c, 1);
    if (at->ndim > 1)
        op_fail(c,
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                "one-dimensional tensor, but got a tensor with %d dims",
                at->ndim);
    else if (at->dtype != CFX_I64)
        op_fail(
            c, "tensor_split expected tensor_indices_or_sections to have dtype of long, but got %s",
            cfx__dtype_title(at->dtype));
    else if (!at->data)
        cfx__fail_unknown(c->at, "tensor_split: the places to split at depend on data, which a "
                                 "fake tensor has not");
    if (op_failed())
        return;
    if (at->ndim == 0) {
        split_sections(c, cfx_integer(cfx__tensor_get(at, 0)), c->args[2]);
        return;
    }
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < at->numel && !op_failed(); i++)
        cfx_list_append(cfx_as_list(list), cfx__tensor_get(at, i));
    split_indices(c, list, c->args[2]);
}

CFX_OP(tensor_split_sections) = {
    "aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]",
    "torch.tensor_split Tensor.tensor_split", .decompose = decompose_sections,
    .effects = CFX_COMPOSITE};
CFX_OP(tensor_split_indices) = {
    "aten::tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]",
    NULL, .decompose = decompose_indices, .effects = CFX_COMPOSITE};
CFX_OP(tensor_split_tensor_indices_or_sections) = {
    "aten::tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor "
    "tensor_indices_or_sections, int dim=0) -> Tensor(a)[]",
    NULL, .decompose = decompose_tensor_indices, .effects = CFX_COMPOSITE};

/* hsplit, vsplit and dsplit: tensor_split along a dimension of their own. */
typedef struct {
    char letter;
    int least; /* dimensions a tensor must have */
    int dim;
} axis_row;

static void decompose_axis_split(cfx_op_call *c) {
    const axis_row *r = c->op->row;
    const cfx_tensor *t = arg_tensor(c, 0);
    int dim = r->letter == 'h' && t->ndim == 1 ? 0 : r->dim;
    if (t->ndim < r->least) {
        op_fail(c,
                "torch.%csplit requires a tensor with at least %d dimension, but got a tensor with "
                "%d dimensions!",
                r->letter, r->least, t->ndim);
        return;
    }
    if (c->args[1].tag == CFX_TAG_LIST) {
        split_indices(c, c->args[1], cfx_int(dim));
        return;
    }
    int64_t n = arg_int(c, 1);
    if (n == 0 || t->shape[dim] % n)
        op_fail(
            c,
            "torch.%csplit attempted to split along dimension %d, but the size of the dimension "
            "%lld is not divisible by the split_size %lld!",
            r->letter, dim, (long long)t->shape[dim], (long long)n);
    else
        split_sections(c, n, cfx_int(dim));
}

static const axis_row row_h = {'h', 1, 1}, row_v = {'v', 2, 0}, row_d = {'d', 3, 2};
#define AXIS_SPLIT(id) .decompose = decompose_axis_split, .row = &row_##id, .effects = CFX_COMPOSITE

CFX_OP(hsplit_int) = {"aten::hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]",
                      "torch.hsplit Tensor.hsplit", AXIS_SPLIT(h)};
CFX_OP(hsplit_array) = {"aten::hsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]",
                        NULL, AXIS_SPLIT(h)};
CFX_OP(vsplit_int) = {"aten::vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]",
                      "torch.vsplit Tensor.vsplit", AXIS_SPLIT(v)};
CFX_OP(vsplit_array) = {"aten::vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]",
                        NULL, AXIS_SPLIT(v)};
CFX_OP(dsplit_int) = {"aten::dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]",
                      "torch.dsplit Tensor.dsplit", AXIS_SPLIT(d)};
CFX_OP(dsplit_array) = {"aten::dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]",
                        NULL, AXIS_SPLIT(d)};

/* ---- unbind ---------------------------------------------------------------------------------- */

static void view_unbind(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int dim = arg_dim(c, 1, t->ndim), n = 0;
    if (dim < 0)
        return;
    if (!t->ndim) {
        op_fail_as(INDEX, c, "Dimension specified as %lld but tensor has no dimensions",
                   (long long)arg_int(c, 1));
        return;
    }
    if (too_many(c, t->shape[dim]))
        return;
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    for (int d = 0; d < t->ndim; d++) {
        if (d == dim)
            continue;
        shape[n] = t->shape[d];
        stride[n++] = t->stride[d];
    }
    c->result = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < t->shape[dim] && !op_failed(); i++) {
        size_t mark = cfx_scope_open();
        cfx_tensor *row = cfx__tensor_alias(t, n, shape, stride, t->offset + i * t->stride[dim]);
        cfx_list_append(cfx_as_list(c->result), cfx_tensor_value(row));
        cfx_scope_close(mark);
    }
}

CFX_OP(unbind_int) = {"aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
                      "torch.unbind Tensor.unbind", .view = view_unbind, GRAD(unbind, 0),
                      .core = core_unbind_int};
