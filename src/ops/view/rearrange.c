/* Elements in another order or number: repeat, roll, flip, triangles, diagonals. */
#include "../back.h"
#include "../sizes.h"
#include "../views.h"

CFX_FAMILY(VIEW);

/* ---- repeat ---------------------------------------------------------------------------------- */

static void shape_repeat(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t repeats[CFX_MAX_DIMS], shape[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, repeats), lead = n - t->ndim;
    if (op_failed())
        return;
    if (lead < 0) {
        op_fail(c, "Number of dimensions of repeat dims can not be smaller than number of "
                   "dimensions of tensor");
        return;
    }
    for (int d = 0; d < n; d++)
        if (__builtin_mul_overflow(repeats[d], d < lead ? 1 : t->shape[d - lead], &shape[d])) {
            op_fail_large(c, "Storage size calculation overflowed with sizes=%s",
                          cfx__shape_text(n, repeats));
            return;
        }
    out_new(c, 0, t->dtype, n, shape);
}

/* Seen with twice the dimensions, the result is the operand expanded. */
static void kernel_repeat(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    cfx_tensor *out = c->out[0];
    int64_t shape[CFX_MAX_DIMS], to[CFX_MAX_DIMS], from[CFX_MAX_DIMS];
    int n = 0, lead = out->ndim - t->ndim;
    for (int d = 0; d < out->ndim; d++) {
        int64_t size = d < lead ? 1 : t->shape[d - lead], times = size ? out->shape[d] / size : 0;
        if (times != 1 && n < CFX_MAX_DIMS) {
            shape[n] = times;
            to[n] = (int64_t)((uint64_t)size * (uint64_t)out->stride[d]);
            from[n++] = 0;
        }
        if (size != 1 && n < CFX_MAX_DIMS) {
            shape[n] = size;
            to[n] = out->stride[d];
            from[n++] = t->stride[d - lead];
        }
    }
    if (out->numel)
        cfx__tensor_copy(cfx__tensor_alias(out, n, shape, to, 0),
                         cfx__tensor_alias(t, n, shape, from, t->offset));
}

static void decompose_tile(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t dims[CFX_MAX_DIMS], repeats[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, dims), lead = t->ndim > n ? t->ndim - n : 0;
    if (op_failed())
        return;
    for (int d = 0; d < lead; d++)
        repeats[d] = 1;
    memcpy(repeats + lead, dims, (size_t)n * sizeof *dims);
    c->out[0] = cfx_repeat(arg_tensor(c, 0), cfx_ints_value(n + lead, repeats));
}

/* The copies of each element are summed: each dim is seen as repeats times size. */
static void grad_repeat(cfx_back *b) {
    const cfx_tensor *x = back_arg(b, 0);
    const cfx_list *repeats = cfx_as_list(b->args[1]);
    int64_t shape[CFX_MAX_DIMS], copies[CFX_MAX_DIMS], n = 0, ncopies = 0;
    const int64_t lead = repeats->len - x->ndim;
    if (!b->out[0]->numel) {
        back_give(b, 0, zeros_as(x));
        return;
    }
    for (int64_t i = 0; i < repeats->len; i++) {
        const int64_t times = cfx_integer(repeats->items[i]);
        if (times != 1 || i < lead) {
            copies[ncopies++] = n;
            shape[n++] = times;
        }
        if (i >= lead)
            shape[n++] = x->shape[i - lead];
    }
    cfx_tensor *g = cfx_reshape(b->gout[0], cfx_ints_value(n, shape));
    back_give(b, 0, ncopies ? cfx_sum(g, cfx_ints_value(ncopies, copies)) : g);
}

CFX_OP(repeat) = {"aten::repeat(Tensor self, SymInt[] repeats) -> Tensor", "Tensor.repeat",
                  .shape = shape_repeat, .kernel = kernel_repeat,
                  .dtypes = CFX_IN_ANY, GRAD(repeat, 0), .effects = CFX_MOVES, .out = "out"};
CFX_OP(tile) = {"aten::tile(Tensor self, SymInt[] dims) -> Tensor", "torch.tile Tensor.tile",
                .decompose = decompose_tile, .effects = CFX_COMPOSITE | CFX_MOVES};

/* ---- repeat_interleave ----------------------------------------------------------------------- */

/* Index i, repeats[i] times. The length is known without data only where output_size is given. */
static void kernel_repeat_interleave(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t n = 0;
    if (t->ndim == 0)
        op_fail(c, "repeat_interleave only accept 1D vector as repeat");
    else if (t->dtype != CFX_I64 && t->dtype != CFX_I32)
        op_fail(c, "repeats has to be Long or Int tensor");
    else if (t->ndim != 1 && t->numel)
        op_fail(c, "repeat_interleave only accept 1D vector as repeat");
    if (op_failed() || (!t->data && arg_is_none(c, 1) && !op_data_size(c, &n)))
        return;
    const int64_t *times = (const int64_t *)cfx__tensor_contiguous_as(t, CFX_I64)->data;
    for (int64_t i = 0; times && i < t->numel; i++) {
        if (times[i] < 0 || __builtin_add_overflow(n, times[i], &n)) {
            op_fail(c, "repeats can not be negative");
            return;
        }
    }
    if (!arg_is_none(c, 1)) {
        int64_t given = arg_int(c, 1);
        if (times && given != n) {
            op_fail(c, "allocated size does not match required size");
            return;
        }
        n = given;
    }
    cfx_tensor *out = out_new(c, 0, t->dtype, 1, &n);
    if (!out->data || !times)
        return;
    int64_t at = 0;
    for (int64_t i = 0; i < t->numel; i++)
        for (int64_t k = 0; k < times[i]; k++, at++) {
            if (t->dtype == CFX_I64)
                ((int64_t *)out->data)[at] = i;
            else
                ((int32_t *)out->data)[at] = (int32_t)i;
        }
}

/* The operand and the dimension that repeat_interleave works along; -1 with an error. */
static int interleaved(cfx_op_call *c, cfx_tensor **t) {
    *t = arg_tensor(c, 0);
    if (arg_is_none(c, 2)) {
        *t = cfx_flatten(*t);
        return op_failed() ? -1 : 0;
    }
    int d = arg_dim(c, 2, (*t)->ndim);
    if (d >= 0 && (*t)->ndim == 0)
        *t = cfx_flatten(*t);
    return op_failed() ? -1 : d;
}

static void decompose_interleave_tensor(cfx_op_call *c) {
    cfx_tensor *t, *repeats = arg_tensor(c, 1);
    int d = interleaved(c, &t);
    if (d < 0)
        return;
    if (repeats->ndim == 0 || (repeats->ndim == 1 && repeats->numel == 1))
        repeats = cfx_expand(cfx_reshape(repeats, cfx_list(1)), cfx_list(t->shape[d]));
    else if (repeats->ndim != 1)
        op_fail(c, "repeats must be 0-dim or 1-dim tensor");
    else if (repeats->shape[0] != t->shape[d])
        op_fail(
            c,
            "repeats must have the same size as input along dim, but got repeats.size(0) = %lld "
            "and input.size(%d) = %lld",
            (long long)repeats->shape[0], d, (long long)t->shape[d]);
    if (op_failed())
        return;
    cfx_tensor *index = cfx_repeat_interleave(repeats, CFX_KW(output_size, c->args[3]));
    c->out[0] = cfx_index_select(t, d, index);
}

static void decompose_interleave_int(cfx_op_call *c) {
    cfx_tensor *t;
    int64_t repeats = arg_int(c, 1), shape[CFX_MAX_DIMS];
    int d = interleaved(c, &t);
    if (d < 0)
        return;
    if (repeats < 0) {
        op_fail(c, "Repeats must be non-negative");
        return;
    }
    cfx_tensor *wide = cfx_unsqueeze(t, d + 1);
    if (op_failed())
        return;
    memcpy(shape, wide->shape, (size_t)wide->ndim * sizeof *shape);
    shape[d + 1] = repeats;
    wide = cfx_expand(wide, cfx_ints_value(wide->ndim, shape));
    c->out[0] =
        cfx_flatten(cfx_clone(wide, CFX_KW(memory_format, cfx_contiguous_format)), d, d + 1);
}

CFX_OP(repeat_interleave_Tensor) = {
    "aten::repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor",
    "torch.repeat_interleave Tensor.repeat_interleave", .kernel = kernel_repeat_interleave,
    .out = "Tensor_out"};
CFX_OP(repeat_interleave_self_Tensor) = {
    "aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? "
    "output_size=None) -> Tensor",
    NULL, .decompose = decompose_interleave_tensor, .effects = CFX_COMPOSITE | CFX_MOVES};
CFX_OP(repeat_interleave_self_int) = {
    "aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? "
    "output_size=None) -> Tensor",
    NULL, .decompose = decompose_interleave_int, .effects = CFX_COMPOSITE | CFX_MOVES};

/* ---- roll ------------------------------------------------------------------------------------ */

/* One dimension rolled: the two parts that change places, joined the other way round. */
static cfx_tensor *rolled(cfx_op_call *c, cfx_tensor *t, int64_t shift, int64_t dim) {
    int d = cfx__shape_wrap_dim(c->at, dim, t->ndim);
    if (d < 0)
        return &cfx__tensor_bad;
    if (t->numel == 0)
        return cfx_clone(t);
    if (t->ndim == 0) {
        op_fail_as(INDEX, c, "Dimension specified as %lld but tensor has no dimensions",
                   (long long)dim);
        return &cfx__tensor_bad;
    }
    int64_t size = t->shape[d], start = -(shift % size);
    start += start < 0 ? size : 0;
    return cfx_cat(cfx_list(cfx_slice(t, d, start, size), cfx_slice(t, d, 0, start)), d);
}

static void decompose_roll(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    int64_t n = arg_count(c, 1), m = arg_count(c, 2);
    if (!n) {
        op_fail(c, "`shifts` required");
        return;
    }
    if (!m && n == 1) {
        cfx_tensor *flat = cfx_view(cfx_contiguous(t), cfx_list(t->numel));
        flat =
            op_failed() ? flat : rolled(c, flat, cfx_integer(cfx_as_list(c->args[1])->items[0]), 0);
        c->out[0] = cfx_view(flat, size_list(t));
        return;
    }
    if (n != m) {
        op_fail(c, "shifts and dimensions must align. shifts: %lld, dims:%lld", (long long)n,
                (long long)m);
        return;
    }
    for (int64_t i = 0; i < n && !op_failed(); i++)
        t = rolled(c, t, cfx_integer(cfx_as_list(c->args[1])->items[i]),
                   cfx_integer(cfx_as_list(c->args[2])->items[i]));
    c->out[0] = t;
}

CFX_OP(roll) = {"aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor",
                "torch.roll Tensor.roll", .decompose = decompose_roll, .core = core_roll,
                .effects = CFX_MOVES, .out = "out"};

/* ---- flip ------------------------------------------------------------------------------------ */

static void shape_flip(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    uint64_t mask;
    if (!arg_count(c, 1) || arg_dims_mask(c, 1, t->ndim, &mask))
        out_empty_like(c, t->dtype, CFX_PRESERVE, t);
}

/* The operand is read through strides that run backwards. */
static void kernel_flip(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t stride[CFX_MAX_DIMS], offset = t->offset;
    uint64_t mask = 0;
    if (!t->numel || (arg_count(c, 1) && !arg_dims_mask(c, 1, t->ndim, &mask)))
        return;
    for (int d = 0; d < t->ndim; d++) {
        bool back = mask >> d & 1;
        stride[d] = back ? -t->stride[d] : t->stride[d];
        offset += back ? (t->shape[d] - 1) * t->stride[d] : 0;
    }
    cfx__tensor_copy(c->out[0], cfx__tensor_alias(t, t->ndim, t->shape, stride, offset));
}

static void decompose_fliplr(cfx_op_call *c) {
    if (arg_tensor(c, 0)->ndim < 2)
        op_fail(c, "Input must be >= 2-d.");
    else
        c->out[0] = cfx_flip(arg_tensor(c, 0), cfx_list(1));
}

static void decompose_flipud(cfx_op_call *c) {
    if (arg_tensor(c, 0)->ndim < 1)
        op_fail(c, "Input must be >= 1-d.");
    else
        c->out[0] = cfx_flip(arg_tensor(c, 0), cfx_list(0));
}

static void decompose_rot90(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    int64_t dims[CFX_MAX_DIMS], k = arg_int(c, 1) % 4;
    int n = arg_ints(c, 2, dims);
    k += k < 0 ? 4 : 0;
    if (n != 2) {
        op_fail(c, "expected total rotation dims == 2, but got dims = %d", n);
        return;
    }
    if (t->ndim < 2) {
        op_fail(c, "expected total dims >= 2, but got total dims = %d", t->ndim);
        return;
    }
    int a = cfx__shape_wrap_dim(c->at, dims[0], t->ndim);
    int b = a < 0 ? -1 : cfx__shape_wrap_dim(c->at, dims[1], t->ndim);
    if (b < 0)
        return;
    if (a == b)
        op_fail(c, "expected rotation dims to be different, but got dim0 = %lld and dim1 = %lld",
                (long long)dims[0], (long long)dims[1]);
    else if (k == 0)
        c->out[0] = cfx_clone(t, CFX_KW(memory_format, cfx_contiguous_format));
    else if (k == 2)
        c->out[0] = cfx_flip(t, cfx_list(a, b));
    else
        c->out[0] = cfx_transpose_(cfx_flip(t, cfx_list(k == 1 ? b : a)), a, b);
}

static void grad_flip(cfx_back *b) { back_give(b, 0, cfx_flip(b->gout[0], b->args[1])); }

CFX_OP(flip) = {"aten::flip(Tensor self, int[] dims) -> Tensor", "torch.flip Tensor.flip",
                .shape = shape_flip, .kernel = kernel_flip, .dtypes = CFX_IN_ANY, GRAD(flip, 0),
                .effects = CFX_MOVES, .out = "out"};
CFX_OP(fliplr) = {"aten::fliplr(Tensor self) -> Tensor", "torch.fliplr Tensor.fliplr",
                  .decompose = decompose_fliplr, .effects = CFX_COMPOSITE | CFX_MOVES};
CFX_OP(flipud) = {"aten::flipud(Tensor self) -> Tensor", "torch.flipud Tensor.flipud",
                  .decompose = decompose_flipud, .effects = CFX_COMPOSITE | CFX_MOVES};
CFX_OP(rot90) = {"aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor",
                 "torch.rot90 Tensor.rot90", .decompose = decompose_rot90, .core = core_rot90,
                 .effects = CFX_MOVES, .out = "out"};

/* ---- triangles ------------------------------------------------------------------------------- */

static void shape_triangle(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    if (t->ndim < 2)
        op_fail(c, "%s: input tensor must have at least 2 dimensions",
                c->op == &cfx_op_triu ? "triu" : "tril");
    else
        out_new(c, 0, t->dtype, t->ndim, t->shape);
}

typedef struct {
    char *out;
    const char *in;
    int64_t rows, cols, k;
    size_t size;
    bool upper;
} triangle;

/* Rows of all matrices, one after the other: a part is copied, the rest is zero. */
static void copy_triangles(void *arg, int64_t begin, int64_t end) {
    const triangle *m = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t edge = i % m->rows + m->k + !m->upper;
        edge = edge < 0 ? 0 : edge > m->cols ? m->cols : edge;
        size_t at = (size_t)(i * m->cols) * m->size, cut = (size_t)edge * m->size;
        size_t width = (size_t)m->cols * m->size;
        if (m->upper) {
            memset(m->out + at, 0, cut);
            memcpy(m->out + at + cut, m->in + at + cut, width - cut);
        } else {
            memcpy(m->out + at, m->in + at, cut);
            memset(m->out + at + cut, 0, width - cut);
        }
    }
}

static void kernel_triangle(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t rows = t->shape[t->ndim - 2], cols = t->shape[t->ndim - 1], k = arg_int(c, 1);
    if (!t->numel)
        return;
    k = k > cols ? cols : k < -rows - 1 ? -rows - 1 : k;
    triangle m = {c->out[0]->data,      t->data, rows, cols, k, (size_t)cfx_dtype_size(t->dtype),
                  c->op == &cfx_op_triu};
    cfx__parallel(t->numel / cols, cfx__grain((double)cols), copy_triangles, &m);
}

static void grad_triangle(cfx_back *b) {
    back_give(b, 0, tensor_of(cfx_op_do(b->op, b->gout[0], b->args[1])));
}

CFX_OP(tril) = {"aten::tril(Tensor self, SymInt diagonal=0) -> Tensor",
                "torch.tril Tensor.tril",
                .shape = shape_triangle,
                .kernel = kernel_triangle,
                .dtypes = CFX_IN_AS_IS | CFX_IN(C32),
                .effects = CFX_CONTIGUOUS_ARGS,
                GRAD(triangle, 0),
                .core = core_tril, .inplace = "default", .out = "out"};
CFX_OP(triu) = {"aten::triu(Tensor self, SymInt diagonal=0) -> Tensor",
                "torch.triu Tensor.triu",
                .shape = shape_triangle,
                .kernel = kernel_triangle,
                .dtypes = CFX_IN_AS_IS | CFX_IN(C32),
                .effects = CFX_CONTIGUOUS_ARGS,
                GRAD(triangle, 0),
                .core = core_triu, .inplace = "default", .out = "out"};

/* ---- diagonals ------------------------------------------------------------------------------- */

/* Places of the two new dimensions of diag_embed; false with an error. */
static bool embed_dims(cfx_op_call *c, int *a, int *b) {
    const cfx_tensor *t = arg_tensor(c, 0);
    *a = arg_dim(c, 2, t->ndim + 1);
    *b = *a < 0 ? -1 : arg_dim(c, 3, t->ndim + 1);
    if (*b < 0)
        return false;
    if (*a == *b)
        op_fail(c, "diagonal dimensions cannot be identical %lld, %lld", (long long)arg_int(c, 2),
                (long long)arg_int(c, 3));
    return *a != *b;
}

static void shape_diag_embed(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t shape[CFX_MAX_DIMS], k = arg_int(c, 1), size;
    int a, b, from = 0;
    if (t->ndim == 0) {
        op_fail_as(INDEX, c, "Dimension specified as -1 but tensor has no dimensions");
        return;
    }
    if (!embed_dims(c, &a, &b))
        return;
    if (k == INT64_MIN || t->ndim == CFX_MAX_DIMS ||
        __builtin_add_overflow(t->shape[t->ndim - 1], k < 0 ? -k : k, &size)) {
        op_fail_large(c, "Storage size calculation overflowed");
        return;
    }
    for (int d = 0; d <= t->ndim; d++)
        shape[d] = d == a || d == b ? size : t->shape[from++];
    out_new(c, 0, t->dtype, t->ndim + 1, shape);
}

static void kernel_diag_embed(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    cfx_tensor *out = c->out[0];
    int64_t stride[CFX_MAX_DIMS], k = arg_int(c, 1);
    int a, b, n = 0;
    if (!embed_dims(c, &a, &b))
        return;
    cfx__tensor_fill(out, cfx_int(0));
    if (!t->numel)
        return;
    for (int d = 0; d < out->ndim; d++)
        if (d != a && d != b)
            stride[n++] = out->stride[d];
    stride[n] = out->stride[a] + out->stride[b];
    int64_t offset = k >= 0 ? k * out->stride[b] : -k * out->stride[a];
    cfx__tensor_copy(cfx__tensor_alias(out, t->ndim, t->shape, stride, offset), t);
}

static void decompose_diag(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    if (t->ndim == 1)
        c->out[0] = cfx_diag_embed(t, c->args[1]);
    else if (t->ndim == 2)
        c->out[0] = cfx_diagonal_copy(t, c->args[1]);
    else
        op_fail(c, "diag(): Supports 1D or 2D tensors. Got %dD", t->ndim);
}

static void decompose_diagflat(cfx_op_call *c) {
    c->out[0] = cfx_diag(cfx_view(cfx_contiguous(arg_tensor(c, 0)), cfx_list(-1)), c->args[1]);
}

static void grad_diag_embed(cfx_back *b) {
    back_give(b, 0, cfx_diagonal(b->gout[0], b->args[1], b->args[2], b->args[3]));
}

CFX_OP(diag_embed) = {
    "aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    "torch.diag_embed Tensor.diag_embed", .shape = shape_diag_embed, .kernel = kernel_diag_embed,
    .dtypes = CFX_IN_ANY, GRAD(diag_embed, 0), .core = core_diag_embed, .out = "out"};
CFX_OP(diag) = {"aten::diag(Tensor self, int diagonal=0) -> Tensor", "torch.diag Tensor.diag",
                .decompose = decompose_diag, .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(diagflat) = {"aten::diagflat(Tensor self, int offset=0) -> Tensor",
                    "torch.diagflat Tensor.diagflat", .decompose = decompose_diagflat,
                    .effects = CFX_COMPOSITE};
