/* Tensors made of nothing but their options: empty, zeros, ones, full, and the same after a model.
 * One row says where the arguments are; one shape rule and one kernel read it. */
#include <cfx/ops.h>

#include "../views.h"

CFX_FAMILY(CREATE);

/* The model, sizes and strides of the new tensor; false with an error. */
static bool made_strides(cfx_op_call *c, const make_row *r, int *n, int64_t *shape,
                         int64_t *stride) {
    const cfx_tensor *like = r->like >= 0 ? arg_tensor(c, r->like) : NULL;
    cfx_memory_format other = r->size < 0 ? CFX_PRESERVE : CFX_CONTIGUOUS;
    cfx_memory_format f = r->format >= 0 ? arg_format(c, r->format, other) : CFX_CONTIGUOUS;
    if (r->size < 0) {
        *n = like->ndim;
        memcpy(shape, like->shape, (size_t)*n * sizeof *shape);
        return like_strides(c, f, like, stride);
    }
    *n = arg_ints(c, r->size, shape);
    return !op_failed() && format_strides(c, f, *n, shape, stride);
}

void shape_make(cfx_op_call *c) {
    const make_row *r = c->op->row;
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int n;
    if (!options_fit(c, r->options + 1, r->options + 2, r->options + 3) ||
        !made_strides(c, r, &n, shape, stride))
        return;
    cfx_dtype other = r->like >= 0   ? arg_tensor(c, r->like)->dtype
                      : r->fill >= 0 ? cfx__dtype_of_number(c->args[r->fill])
                                     : default_dtype();
    cfx_dtype dtype = arg_dtype(c, r->options, other);
    if (r->fill < 0 || number_fits(c, c->args[r->fill], dtype))
        out_strided(c, 0, dtype, n, shape, stride);
}

/* Memory that nobody has set yet is zero: results are the same from run to run, and a program sees
 * nothing of what was there before. */
static void kernel_unset(cfx_op_call *c) {
    if (c->out[0]->data)
        memset(c->out[0]->data, 0, c->out[0]->storage->size);
}

static void kernel_make(cfx_op_call *c) {
    const make_row *r = c->op->row;
    cfx_tensor *t = c->out[0];
    if (r->fill >= 0)
        cfx__tensor_fill(t, c->args[r->fill]);
    else if (r->fill != WITH_NOTHING)
        cfx__tensor_fill(t, cfx_int(r->fill == WITH_ONE));
    else
        kernel_unset(c);
}

#define MAKE(...)                                                                                  \
    .shape = shape_make, .kernel = kernel_make, .dtypes = CFX_IN_ANY,                              \
    .row = &(const make_row) { __VA_ARGS__ }

CFX_OP(empty_memory_format) = {
    "aten::empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    "torch.empty", MAKE(-1, 0, 1, 5, WITH_NOTHING), .out = "out"};
CFX_OP(zeros) = {"aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
                 "Device? device=None, bool? pin_memory=None) -> Tensor",
                 "torch.zeros", MAKE(-1, 0, 1, -1, WITH_ZERO), .core = core_zeros, .out = "out"};
CFX_OP(ones) = {"aten::ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
                "Device? device=None, bool? pin_memory=None) -> Tensor",
                "torch.ones", MAKE(-1, 0, 1, -1, WITH_ONE), .core = core_ones, .out = "out"};
CFX_OP(full) = {"aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? "
                "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
                "torch.full", MAKE(-1, 0, 2, -1, 1), .out = "out"};

CFX_OP(empty_like) = {
    "aten::empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
    "device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    "torch.empty_like", MAKE(0, -1, 1, 5, WITH_NOTHING), NO_GRAD, .core = core_empty_like,
    .out = "out"};
CFX_OP(zeros_like) = {
    "aten::zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
    "device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    "torch.zeros_like", MAKE(0, -1, 1, 5, WITH_ZERO), NO_GRAD, .core = core_zeros_like,
    .out = "out"};
CFX_OP(ones_like) = {
    "aten::ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
    "device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    "torch.ones_like", MAKE(0, -1, 1, 5, WITH_ONE), NO_GRAD, .core = core_ones_like, .out = "out"};
CFX_OP(full_like) = {
    "aten::full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? "
    "layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> "
    "Tensor",
    "torch.full_like", MAKE(0, -1, 2, 6, 1), NO_GRAD, .out = "out"};

CFX_OP(new_empty) = {
    "aten::new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    "Tensor.new_empty", MAKE(0, 1, 2, -1, WITH_NOTHING), NO_GRAD, .core = core_new_empty,
    .out = "out"};
CFX_OP(new_zeros) = {
    "aten::new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    "Tensor.new_zeros", MAKE(0, 1, 2, -1, WITH_ZERO), NO_GRAD, .core = core_new_zeros,
    .out = "out"};
CFX_OP(new_ones) = {
    "aten::new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    "Tensor.new_ones", MAKE(0, 1, 2, -1, WITH_ONE), NO_GRAD, .core = core_new_ones, .out = "out"};
CFX_OP(new_full) = {
    "aten::new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "Tensor.new_full", MAKE(0, 1, 3, -1, 2), NO_GRAD, .core = core_new_full, .out = "out"};

/* ---- strides given --------------------------------------------------------------------------- */

static void make_strided(cfx_op_call *c, cfx_dtype dtype, int size) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int n = arg_ints(c, size, shape), m = arg_ints(c, size + 1, stride);
    if (op_failed() || !options_fit(c, size + 3, size + 4, size + 5))
        return;
    if (n != m) {
        op_fail(c, "dimensionality of sizes (%d) must match dimensionality of strides (%d)", n, m);
        return;
    }
    for (int i = 0; i < n; i++)
        if (stride[i] < 0) {
            op_fail(c,
                    "empty_strided: Negative strides are not supported at the moment, got strides: "
                    "%s",
                    cfx__shape_text(n, stride));
            return;
        }
    out_strided(c, 0, arg_dtype(c, size + 2, dtype), n, shape, stride);
}

static void shape_empty_strided(cfx_op_call *c) { make_strided(c, default_dtype(), 0); }
static void shape_new_empty_strided(cfx_op_call *c) { make_strided(c, arg_tensor(c, 0)->dtype, 1); }

/* Contiguous in the order of dimensions given: strides grow from the last to the first. */
static void shape_empty_permuted(cfx_op_call *c) {
    int64_t shape[CFX_MAX_DIMS], order[CFX_MAX_DIMS], stride[CFX_MAX_DIMS], next = 1;
    int n = arg_ints(c, 0, shape), m = arg_ints(c, 1, order);
    uint64_t seen = 0;
    if (op_failed() || !options_fit(c, 3, 4, 5) || cfx__shape_numel(c->at, n, shape) < 0)
        return;
    if (n != m) {
        op_fail(c,
                "Number of dimensions in size does not match the length of the physical_layout; "
                "i.e. len(size) = %d is not equal to len(physical_layout) = %d",
                n, m);
        return;
    }
    for (int i = n - 1; i >= 0; i--) {
        int64_t d = order[i];
        if (d < 0 || d >= n) {
            op_fail(c,
                    "Dimension out of range (expected to be between 0 and %d, but got %lld at "
                    "index %d).  NB: negative dims not currently supported; file an issue if you "
                    "want it.",
                    n - 1, (long long)d, i);
            return;
        }
        if (seen >> d & 1) {
            op_fail(c, "Duplicate dim not allowed");
            return;
        }
        seen |= (uint64_t)1 << d;
        stride[d] = next;
        next = (int64_t)((uint64_t)next * (uint64_t)(shape[d] > 1 ? shape[d] : 1));
    }
    out_strided(c, 0, arg_dtype(c, 2, default_dtype()), n, shape, stride);
}

CFX_OP(empty_strided) = {
    "aten::empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? "
    "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "torch.empty_strided", .shape = shape_empty_strided, .kernel = kernel_unset,
    .dtypes = CFX_IN_ANY, .out = "out"};
CFX_OP(new_empty_strided) = {
    "aten::new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? "
    "dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "Tensor.new_empty_strided", .shape = shape_new_empty_strided, .kernel = kernel_unset,
    .dtypes = CFX_IN_ANY, NO_GRAD, .out = "out"};
CFX_OP(empty_permuted) = {
    "aten::empty_permuted(SymInt[] size, int[] physical_layout, *, ScalarType? dtype=None, Layout? "
    "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "torch.empty_permuted", .shape = shape_empty_permuted, .kernel = kernel_unset,
    .dtypes = CFX_IN_ANY, .out = "out"};

/* ---- from numbers ---------------------------------------------------------------------------- */

static void shape_scalar_tensor(cfx_op_call *c) {
    cfx_dtype d = arg_dtype(c, 1, default_dtype());
    if (options_fit(c, 2, 3, 4) && number_fits(c, c->args[0], d))
        out_new(c, 0, d, 0, NULL);
}

static void kernel_scalar_tensor(cfx_op_call *c) { cfx__tensor_fill(c->out[0], c->args[0]); }

/* torch.tensor: a number, nested lists of numbers, or a tensor to copy. */
static void kernel_tensor(cfx_op_call *c) {
    cfx_value v = c->args[0];
    if (!options_fit(c, -1, 2, -1))
        return;
    cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : cfx_tensor_from_value(v);
    if (cfx__obj_is_bad(t))
        return;
    cfx_tensor *out = out_new(c, 0, arg_dtype(c, 1, t->dtype), t->ndim, t->shape);
    if (out->data && t->data)
        cfx__tensor_copy(out, t);
}

static void decompose_as_tensor(cfx_op_call *c) {
    if (c->args[0].tag == CFX_TAG_TENSOR)
        c->out[0] =
            cfx_is_none(c->args[1]) ? arg_tensor(c, 0) : cfx_to(arg_tensor(c, 0), c->args[1]);
    else
        c->out[0] = cfx_tensor(c->args[0], CFX_KW(dtype, c->args[1]));
}

static void decompose_shape_as_tensor(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    c->out[0] = cfx_tensor(cfx_ints_value(t->ndim, t->shape), CFX_KW(dtype, cfx_i64));
}

CFX_OP(scalar_tensor) = {
    "aten::scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? "
    "device=None, bool? pin_memory=None) -> Tensor",
    "torch.scalar_tensor", .shape = shape_scalar_tensor, .kernel = kernel_scalar_tensor,
    .dtypes = CFX_IN_ANY, .out = "out"};
CFX_OP(tensor) = {"aten::tensor(t[] data, *, ScalarType? dtype=None, Device? device=None, bool "
                  "requires_grad=False) -> Tensor",
                  "torch.tensor", .kernel = kernel_tensor, .dtypes = CFX_IN_ANY};
CFX_OP(as_tensor_list) = {
    "aten::as_tensor.list(t[] data, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
    "torch.as_tensor", .decompose = decompose_as_tensor, .effects = CFX_COMPOSITE};
CFX_OP(_shape_as_tensor) = {"aten::_shape_as_tensor(Tensor self) -> Tensor",
                            "torch._shape_as_tensor", .decompose = decompose_shape_as_tensor,
                            .effects = CFX_COMPOSITE};
