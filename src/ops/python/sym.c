/* Questions about a tensor, numbers taken out of it, and assertions. */
#include <cfx/ops.h>

#include "../views.h"

CFX_FAMILY(VIEW);

/* ---- sizes ----------------------------------------------------------------------------------- */

static void kernel_size(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    c->result = cfx_ints_value(t->ndim, t->shape);
}

static void kernel_stride(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    c->result = cfx_ints_value(t->ndim, t->stride);
}

/* The dim argument of a tensor that has dimensions; -1 with an error. */
static int dim_of(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    if (t->ndim)
        return arg_dim(c, 1, t->ndim);
    op_fail_as(INDEX, c, "Dimension specified as %lld but tensor has no dimensions",
               (long long)arg_int(c, 1));
    return -1;
}

static void kernel_size_dim(cfx_op_call *c) {
    int d = dim_of(c);
    if (d >= 0)
        c->result = cfx_int(arg_tensor(c, 0)->shape[d]);
}

static void kernel_stride_dim(cfx_op_call *c) {
    int d = dim_of(c);
    if (d >= 0)
        c->result = cfx_int(arg_tensor(c, 0)->stride[d]);
}

static void kernel_numel(cfx_op_call *c) { c->result = cfx_int(arg_tensor(c, 0)->numel); }
static void kernel_offset(cfx_op_call *c) { c->result = cfx_int(arg_tensor(c, 0)->offset); }
static void kernel_dim(cfx_op_call *c) { c->result = cfx_int(arg_tensor(c, 0)->ndim); }

static void kernel_is_contiguous(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    cfx_memory_format f = c->nargs > 1 ? arg_format(c, 1, CFX_CONTIGUOUS) : CFX_CONTIGUOUS;
    c->result = cfx_bool(f == CFX_CHANNELS_LAST      ? cfx__tensor_is_channels_last(t)
                         : f == CFX_CHANNELS_LAST_3D ? cfx__tensor_is_channels_last_3d(t)
                                                     : cfx__tensor_is_contiguous(t));
}

static void kernel_is_same_size(cfx_op_call *c) {
    c->result = cfx_bool(cfx__tensor_same_shape(arg_tensor(c, 0), arg_tensor(c, 1)));
}

static void kernel_is_floating_point(cfx_op_call *c) {
    c->result = cfx_bool(cfx__dtype_is_floating(arg_tensor(c, 0)->dtype));
}

static void kernel_is_complex(cfx_op_call *c) {
    c->result = cfx_bool(cfx__dtype_is_complex(arg_tensor(c, 0)->dtype));
}

static void kernel_is_signed(cfx_op_call *c) {
    cfx_dtype d = arg_tensor(c, 0)->dtype;
    c->result = cfx_bool(d != CFX_U8 && d != CFX_BOOL);
}

/* result_type of two operands, tensors or numbers. */
static void kernel_result_type(cfx_op_call *c) {
    cfx__promotion p = CFX__PROMOTION_START;
    cfx__promotion_value(&p, c->args[0]);
    cfx__promotion_value(&p, c->args[1]);
    c->result = cfx_dtype_value(cfx__promotion_dtype(&p));
}

static void kernel_promote_types(cfx_op_call *c) {
    c->result =
        cfx_dtype_value(cfx__dtype_promote(arg_dtype(c, 0, CFX_F32), arg_dtype(c, 1, CFX_F32)));
}

static void kernel_can_cast(cfx_op_call *c) {
    c->result = cfx_bool(cfx__dtype_can_cast(arg_dtype(c, 0, CFX_F32), arg_dtype(c, 1, CFX_F32)));
}

CFX_OP(size) = {"aten::size(Tensor self) -> int[]", "Tensor.size", .kernel = kernel_size};
CFX_OP(size_int) = {"aten::size.int(Tensor self, int dim) -> int", NULL, .kernel = kernel_size_dim};
CFX_OP(stride) = {"aten::stride(Tensor self) -> int[]", "Tensor.stride", .kernel = kernel_stride};
CFX_OP(stride_int) = {"aten::stride.int(Tensor self, int dim) -> int", NULL,
                      .kernel = kernel_stride_dim};
CFX_OP(numel) = {"aten::numel(Tensor self) -> int", "torch.numel Tensor.numel Tensor.nelement",
                 .kernel = kernel_numel};
CFX_OP(dim) = {"aten::dim(Tensor self) -> int", "Tensor.dim Tensor.ndimension Tensor.ndim",
               .kernel = kernel_dim};
CFX_OP(storage_offset) = {"aten::storage_offset(Tensor self) -> int", "Tensor.storage_offset",
                          .kernel = kernel_offset};
CFX_FAMILY(COMPARE);
CFX_OP(is_contiguous) = {"aten::is_contiguous(Tensor self) -> bool", "Tensor.is_contiguous",
                         .kernel = kernel_is_contiguous, .effects = CFX_LAYOUT};
CFX_OP(is_contiguous_memory_format) = {
    "aten::is_contiguous.memory_format(Tensor self, MemoryFormat memory_format) -> bool", NULL,
    .kernel = kernel_is_contiguous, .effects = CFX_LAYOUT};
CFX_OP(is_same_size) = {"aten::is_same_size(Tensor self, Tensor other) -> bool",
                        "torch.is_same_size Tensor.is_same_size", .kernel = kernel_is_same_size};
CFX_OP(is_floating_point) = {"aten::is_floating_point(Tensor self) -> bool",
                             "torch.is_floating_point Tensor.is_floating_point",
                             .kernel = kernel_is_floating_point};
CFX_OP(is_complex) = {"aten::is_complex(Tensor self) -> bool", "torch.is_complex Tensor.is_complex",
                      .kernel = kernel_is_complex};
CFX_OP(is_signed) = {"aten::is_signed(Tensor self) -> bool", "torch.is_signed Tensor.is_signed",
                     .kernel = kernel_is_signed};

CFX_FAMILY(VIEW);
CFX_OP(result_type_Tensor) = {"aten::result_type.Tensor(Tensor tensor, Tensor other) -> ScalarType",
                              "torch.result_type", .kernel = kernel_result_type};
CFX_OP(result_type_Scalar) = {"aten::result_type.Scalar(Tensor tensor, Scalar other) -> ScalarType",
                              NULL, .kernel = kernel_result_type};
CFX_OP(result_type_Scalar_Tensor) = {
    "aten::result_type.Scalar_Tensor(Scalar scalar, Tensor tensor) -> ScalarType", NULL,
    .kernel = kernel_result_type};
CFX_OP(result_type_Scalar_Scalar) = {
    "aten::result_type.Scalar_Scalar(Scalar scalar1, Scalar scalar2) -> ScalarType", NULL,
    .kernel = kernel_result_type};
CFX_OP(promote_types) = {"aten::promote_types(ScalarType type1, ScalarType type2) -> ScalarType",
                         "torch.promote_types", .kernel = kernel_promote_types};
CFX_OP(can_cast) = {"aten::can_cast(ScalarType from_, ScalarType to) -> bool", "torch.can_cast",
                    .kernel = kernel_can_cast};

CFX_FAMILY(VIEW);
CFX_OP(sym_size) = {"aten::sym_size(Tensor self) -> SymInt[]", NULL, .kernel = kernel_size};
CFX_OP(sym_size_int) = {"aten::sym_size.int(Tensor self, int dim) -> SymInt", NULL,
                        .kernel = kernel_size_dim};
CFX_OP(sym_stride) = {"aten::sym_stride(Tensor self) -> SymInt[]", NULL, .kernel = kernel_stride};
CFX_OP(sym_stride_int) = {"aten::sym_stride.int(Tensor self, int dim) -> SymInt", NULL,
                          .kernel = kernel_stride_dim};
CFX_OP(sym_numel) = {"aten::sym_numel(Tensor self) -> SymInt", NULL, .kernel = kernel_numel};
CFX_OP(sym_storage_offset) = {"aten::sym_storage_offset(Tensor self) -> SymInt", NULL,
                              .kernel = kernel_offset};
CFX_OP(sym_is_contiguous) = {
    "aten::sym_is_contiguous(Tensor self, MemoryFormat memory_format=0) -> SymBool", NULL,
    .kernel = kernel_is_contiguous};

/* ---- numbers --------------------------------------------------------------------------------- */

/* Whether t holds one number that can be read; else the reason is recorded. */
static bool one_number(cfx_op_call *c, const cfx_tensor *t) {
    if (t->numel != 1)
        op_fail(c, "a Tensor with %lld elements cannot be converted to Scalar",
                (long long)t->numel);
    else if (!t->data)
        cfx__fail_unknown(c->at, "%s: the number is data, which a fake tensor has not",
                          cfx_op_name(c->op));
    return !op_failed();
}

static void kernel_item(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    if (!one_number(c, t))
        return;
    c->result = cfx__tensor_get(t, 0);
    if (t->dtype == CFX_U64 && cfx_integer(c->result) < 0)
        op_fail_as(VALUE, c, "the number %llu of a uint64 tensor is too large for an integer",
                   (unsigned long long)cfx_integer(c->result));
}

static void decompose_item(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    if (t->numel != 1)
        op_fail(c, "a Tensor with %lld elements cannot be converted to Scalar",
                (long long)t->numel);
    else
        c->result = cfx_aten__local_scalar_dense(arg_tensor(c, 0));
}

/* The truth of a tensor of one element; false, with an error, where it has none. */
static bool is_true(cfx_op_call *c, const cfx_tensor *t) {
    if (t->numel != 1)
        op_fail(c, t->numel ? "Boolean value of Tensor with more than one value is ambiguous"
                            : "Boolean value of Tensor with no values is ambiguous");
    else if (one_number(c, t)) {
        cfx_value v = cfx__tensor_get(t, 0);
        return cfx_number(v) != 0 || (v.tag == CFX_TAG_COMPLEX && cfx_as_complex(v)->im != 0);
    }
    return false;
}

static void kernel_is_nonzero(cfx_op_call *c) {
    c->result = cfx_bool(is_true(c, arg_tensor(c, 0)));
}

CFX_OP(_local_scalar_dense) = {"aten::_local_scalar_dense(Tensor self) -> Scalar", NULL,
                               .kernel = kernel_item};
CFX_OP(item) = {"aten::item(Tensor self) -> Scalar", "Tensor.item", .kernel = kernel_item,
                .decompose = decompose_item, .effects = CFX_COMPOSITE};
CFX_OP(is_nonzero) = {"aten::is_nonzero(Tensor self) -> bool", "torch.is_nonzero Tensor.is_nonzero",
                      .kernel = kernel_is_nonzero};

/* ---- assertions ------------------------------------------------------------------------------ */

static void check_async(cfx_op_call *c, const char *text) {
    const cfx_tensor *t = arg_tensor(c, 0);
    if (t->data && !is_true(c, t))
        op_fail(c, "%s", text && *text ? text : "Assertion is failed");
}

static void kernel_assert_async(cfx_op_call *c) {
    check_async(c, c->nargs > 1 ? arg_text(c, 1) : NULL);
    if (c->nout)
        c->out[0] = arg_tensor(c, 2);
}

static void kernel_assert_scalar(cfx_op_call *c) {
    if (cfx_is_number(c->args[0]) && cfx_number(c->args[0]) == 0)
        op_fail(c, "%s", arg_text(c, 1));
    if (c->nout)
        c->out[0] = arg_tensor(c, 2);
}

/* Compares a list of sizes or strides with what was expected. */
static void match_ints(cfx_op_call *c, int arg, const char *what, int n, const int64_t *got) {
    if (arg_is_none(c, arg))
        return;
    bool same = arg_count(c, arg) == n;
    for (int i = 0; same && i < n; i++)
        same = cfx_integer(cfx_as_list(c->args[arg])->items[i]) == got[i];
    if (!same)
        op_fail(c, "Tensor %s mismatch! Expected: %s, Got: %s", what, cfx_value_str(c->args[arg]),
                cfx__shape_text(n, got));
}

static void kernel_assert_metadata(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    cfx_value device = c->args[4], layout = c->args[5];
    match_ints(c, 1, "sizes", t->ndim, t->shape);
    match_ints(c, 2, "strides", t->ndim, t->stride);
    if (arg_dtype(c, 3, t->dtype) != t->dtype)
        op_fail(c, "Tensor dtype mismatch! Expected: %s, Got: %s",
                cfx__dtype_title(cfx_as_dtype(c->args[3])), cfx__dtype_cpp_name(t->dtype));
    /* a program runs on the CPU and on a card, wherever it was exported: asserts hold on both */
    if (device.tag == CFX_TAG_DEVICE && cfx_as_device(device).type != t->device.type &&
        (cfx_as_device(device).type == CFX_META || t->device.type == CFX_META))
        op_fail(c, "Tensor device mismatch! Expected: %s, Got: %s", cfx_value_str(device),
                cfx_value_str(cfx_device_value(t->device)));
    if (layout.tag == CFX_TAG_LAYOUT && cfx_integer(layout) != t->layout)
        op_fail(c, "Tensor layout mismatch! Expected: %s, Got: %s", cfx_value_str(layout),
                cfx_value_str(cfx_layout_value(t->layout)));
}

/* The number lies between two bounds, of which either may be None. */
static void check_range(cfx_op_call *c, int64_t least) {
    int64_t n = arg_int(c, 0), min = arg_is_none(c, 1) ? least : arg_int(c, 1);
    int64_t max = arg_is_none(c, 2) ? INT64_MAX : arg_int(c, 2);
    if (max < min)
        op_fail(c, "Max must be greater than or equal to min. Got min=%lld max=%lld",
                (long long)min, (long long)max);
    else if (n < min || n > max)
        op_fail(c, "Invalid value range for %lld between [%lld, %lld].", (long long)n,
                (long long)min, (long long)max);
    if (c->nout)
        c->out[0] = arg_tensor(c, 3);
}

static void kernel_constrain(cfx_op_call *c) { check_range(c, INT64_MIN); }

static void kernel_constrain_size(cfx_op_call *c) {
    if (!arg_is_none(c, 2) && arg_int(c, 2) <= 2)
        op_fail(c, "Max value to constrain_range_for_size must be greater than 2. got: %lld",
                (long long)arg_int(c, 2));
    else
        check_range(c, 0);
}

CFX_FAMILY(CHECK);
CFX_OP(_assert_async) = {"aten::_assert_async(Tensor self) -> ()", "torch._assert_async",
                         .kernel = kernel_assert_async, .effects = CFX_SIDE};
CFX_OP(_assert_async_msg) = {"aten::_assert_async.msg(Tensor self, str assert_msg) -> ()", NULL,
                             .kernel = kernel_assert_async, .effects = CFX_SIDE};
CFX_OP(_functional_assert_async_msg) = {
    "aten::_functional_assert_async.msg(Tensor self, str assert_msg, Tensor dep_token) -> Tensor",
    NULL, .kernel = kernel_assert_async, .effects = CFX_SIDE | CFX_SHARES};
CFX_OP(_assert_scalar) = {"aten::_assert_scalar(Scalar self, str assert_msg) -> ()", NULL,
                          .kernel = kernel_assert_scalar, .effects = CFX_SIDE};
CFX_OP(_functional_assert_scalar) = {
    "aten::_functional_assert_scalar(Scalar self, str assert_msg, Tensor dep_token) -> Tensor",
    NULL, .kernel = kernel_assert_scalar, .effects = CFX_SIDE | CFX_SHARES};
CFX_OP(_assert_tensor_metadata) = {"aten::_assert_tensor_metadata(Tensor a, SymInt[]? size=None, "
                                   "SymInt[]? stride=None, ScalarType? "
                                   "dtype=None, *, Device? device=None, Layout? layout=None) -> ()",
                                   "torch._assert_tensor_metadata",
                                   .kernel = kernel_assert_metadata, .effects = CFX_SIDE};
CFX_OP(sym_constrain_range) = {
    "aten::sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()",
    "torch.sym_constrain_range", .kernel = kernel_constrain, .effects = CFX_SIDE};
CFX_OP(sym_constrain_range_for_size) = {
    "aten::sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()",
    "torch.sym_constrain_range_for_size", .kernel = kernel_constrain_size, .effects = CFX_SIDE};
CFX_OP(_functional_sym_constrain_range) = {
    "aten::_functional_sym_constrain_range(Scalar size, int? min, int? max, Tensor dep_token) -> "
    "Tensor",
    NULL, .kernel = kernel_constrain, .effects = CFX_SIDE | CFX_SHARES};
CFX_OP(_functional_sym_constrain_range_for_size) = {
    "aten::_functional_sym_constrain_range_for_size(Scalar size, int? min, int? max, Tensor "
    "dep_token) -> Tensor",
    NULL, .kernel = kernel_constrain_size, .effects = CFX_SIDE | CFX_SHARES};
