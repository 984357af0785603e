/* Copies and conversions: clone, to, copy_, fill_, and storage given to a tensor. */
#include <cfx/ops.h>

#include "../views.h"

CFX_FAMILY(VIEW);

/* ---- copies ---------------------------------------------------------------------------------- */

/* A copy of self in a dtype and a memory format. */
static void kernel_copy_first(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    if (!c->note) {
        cfx__tensor_copy(c->out[0], t);
        return;
    }
    loop_note(c->note, CFX__LOOP_COPY, NULL, c->out[0]->dtype, 1, NULL, 0);
    loop_operand(c->note, t, t->dtype);
}

static void shape_clone(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    cfx_memory_format f = c->nargs > 1 ? arg_format(c, 1, CFX_PRESERVE) : CFX_PRESERVE;
    out_empty_like(c, t->dtype, f, t);
}

static void shape_to_copy(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    if (options_fit(c, 2, 3, 4))
        out_empty_like(c, arg_dtype(c, 1, t->dtype), arg_format(c, 6, CFX_PRESERVE), t);
}

static bool is_in_format(const cfx_tensor *t, cfx_memory_format f) {
    return f == CFX_CHANNELS_LAST      ? cfx__tensor_is_channels_last(t)
           : f == CFX_CHANNELS_LAST_3D ? cfx__tensor_is_channels_last_3d(t)
                                       : cfx__tensor_is_contiguous(t);
}

static void decompose_contiguous(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    cfx_memory_format f = arg_format(c, 1, CFX_CONTIGUOUS);
    if (f == CFX_PRESERVE)
        op_fail(c, "preserve memory format is unsupported by the contiguous operator");
    else if (is_in_format(t, f))
        c->out[0] = t;
    else
        c->out[0] = call_bound(c, &cfx_op_clone,
                               (cfx_value[]){cfx_tensor_value(t), cfx_memory_format_value(f)});
}

CFX_OP(clone) = {"aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
                 "torch.clone Tensor.clone", .shape = shape_clone, .kernel = kernel_copy_first,
                 .dtypes = CFX_IN_ANY, .effects = CFX_LOOPS | RESHAPED, GRAD(same, 0),
                 .out = "out"};
CFX_OP(lift_fresh_copy) = {"aten::lift_fresh_copy(Tensor self) -> Tensor", NULL,
                           .shape = shape_clone, .kernel = kernel_copy_first,
                           .dtypes = CFX_IN_ANY, GRAD(same, 0),
                           .core = core_lift_fresh_copy, .effects = RESHAPED, .out = "out"};
CFX_OP(_to_copy) = {
    "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
    "device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? "
    "memory_format=None) -> Tensor",
    "torch._to_copy", .shape = shape_to_copy, .kernel = kernel_copy_first,
    .dtypes = CFX_IN_ANY, .effects = CFX_LOOPS | CFX_ALIKE, GRAD(same, 0), .out = "out"};
CFX_OP(contiguous) = {
    "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)",
    "Tensor.contiguous", .decompose = decompose_contiguous, .effects = CFX_COMPOSITE | RESHAPED};

/* ---- to -------------------------------------------------------------------------------------- */

static bool is_on(const cfx_tensor *t, cfx_device d) {
    return d.type == t->device.type && cfx__device_card(d) == cfx__device_card(t->device);
}

/* self itself where nothing is asked for that it is not already; else a copy. */
static void convert_to(cfx_op_call *c, cfx_value dtype, cfx_value layout, cfx_value device,
                       bool copy, cfx_value format) {
    cfx_tensor *t = arg_tensor(c, 0);
    cfx_memory_format f = format.tag == CFX_TAG_NONE ? CFX_PRESERVE : cfx_as_memory_format(format);
    bool same_dtype = dtype.tag == CFX_TAG_NONE || cfx_integer(dtype) == t->dtype;
    bool same_device = device.tag == CFX_TAG_NONE || is_on(t, cfx_as_device(device));
    if (same_dtype && same_device && !copy &&
        (f == CFX_PRESERVE || cfx__tensor_suggest_format(t) == f))
        c->out[0] = t;
    else
        c->out[0] = call_bound(c, &cfx_op__to_copy,
                               (cfx_value[]){cfx_tensor_value(t), dtype, layout, device, CFX_NONE,
                                             cfx_bool(false), format});
}

static void decompose_to_dtype(cfx_op_call *c) {
    convert_to(c, c->args[1], CFX_NONE, CFX_NONE, arg_bool(c, 3), c->args[4]);
}

static void decompose_to_device(cfx_op_call *c) {
    convert_to(c, c->args[2], CFX_NONE, c->args[1], arg_bool(c, 4), c->args[5]);
}

static void decompose_to_other(cfx_op_call *c) {
    const cfx_tensor *other = arg_tensor(c, 1);
    convert_to(c, cfx_dtype_value(other->dtype), cfx_layout_value(CFX_STRIDED),
               cfx_device_value(other->device), arg_bool(c, 3), c->args[4]);
}

static void decompose_to_layout(cfx_op_call *c) {
    if (options_fit(c, 2, -1, 4))
        convert_to(c, c->args[1], c->args[2], c->args[3], arg_bool(c, 6), c->args[7]);
}

/* A dtype that is given as its number; false, with an error, where it is the number of none. */
static bool numbered_dtype(cfx_op_call *c, int i, cfx_value *out) {
    int64_t n = arg_is_none(c, i) ? -1 : arg_int(c, i);
    bool known = n >= 0 && n < CFX_DTYPE_COUNT;
    *out = known ? cfx_dtype_value((cfx_dtype)n) : cfx_none();
    if (!known && !arg_is_none(c, i))
        op_fail(c, "%lld is the number of no dtype", (long long)n);
    return cfx_ok();
}

static void decompose_to_prim_device(cfx_op_call *c) {
    cfx_value dtype;
    if (numbered_dtype(c, 2, &dtype))
        convert_to(c, dtype, CFX_NONE, c->args[1], arg_bool(c, 4), CFX_NONE);
}

static void decompose_to_prim_dtype(cfx_op_call *c) {
    cfx_value dtype;
    if (numbered_dtype(c, 1, &dtype))
        convert_to(c, dtype, CFX_NONE, CFX_NONE, arg_bool(c, 3), CFX_NONE);
}

static void decompose_type_as(cfx_op_call *c) {
    const cfx_tensor *other = arg_tensor(c, 1);
    convert_to(c, cfx_dtype_value(other->dtype), cfx_layout_value(CFX_STRIDED),
               cfx_device_value(other->device), false, CFX_NONE);
}

CFX_OP(to_dtype) = {
    "aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool "
    "copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
    "Tensor.to", .decompose = decompose_to_dtype, .effects = CFX_COMPOSITE | CFX_ALIKE};
CFX_OP(to_device) = {"aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool "
                     "non_blocking=False, bool "
                     "copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
                     NULL, .decompose = decompose_to_device, .effects = CFX_COMPOSITE | CFX_ALIKE};
CFX_OP(to_other) = {"aten::to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool "
                    "copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
                    NULL, .decompose = decompose_to_other, .effects = CFX_COMPOSITE | CFX_ALIKE};
CFX_OP(to_dtype_layout) = {
    "aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
    "device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? "
    "memory_format=None) -> Tensor(a)",
    NULL, .decompose = decompose_to_layout, .effects = CFX_COMPOSITE | CFX_ALIKE};
CFX_OP(to_prim_Device) = {
    "aten::to.prim_Device(Tensor(a) self, Device? device, int? dtype=None, bool "
    "non_blocking=False, bool copy=False) -> Tensor(b|a)",
    NULL, .decompose = decompose_to_prim_device, .effects = CFX_COMPOSITE | CFX_ALIKE};
CFX_OP(to_prim_dtype) = {"aten::to.prim_dtype(Tensor(a) self, int? dtype=None, bool "
                         "non_blocking=False, bool copy=False) -> Tensor(b|a)",
                         NULL, .decompose = decompose_to_prim_dtype,
                         .effects = CFX_COMPOSITE | CFX_ALIKE};
CFX_OP(type_as) = {"aten::type_as(Tensor self, Tensor other) -> Tensor", "Tensor.type_as",
                   .decompose = decompose_type_as,
                   .effects = CFX_COMPOSITE | CFX_SHARES | CFX_ALIKE};

/* ---- methods named after a dtype ------------------------------------------------------------- */

static const cfx_dtype dtypes[] = {
#define DTYPE_ROW(id, name, brief, size) [CFX_##id] = CFX_##id,
    CFX_DTYPES(DTYPE_ROW)
#undef DTYPE_ROW
};

static void decompose_cast(cfx_op_call *c) {
    c->out[0] = cfx_to(arg_tensor(c, 0), cfx_dtype_value(*(const cfx_dtype *)c->op->row));
}

static void decompose_cpu(cfx_op_call *c) {
    cfx_device cpu = {CFX_CPU, -1};
    convert_to(c, CFX_NONE, CFX_NONE, cfx_device_value(cpu), false, CFX_NONE);
}

#define CAST(d)                                                                                    \
    .decompose = decompose_cast, .row = &dtypes[CFX_##d], .effects = CFX_COMPOSITE | CFX_SHARES

CFX_OP(_cast_Byte) = {"aten::_cast_Byte(Tensor self, bool non_blocking=False) -> Tensor",
                      "Tensor.byte", CAST(U8)};
CFX_OP(_cast_Char) = {"aten::_cast_Char(Tensor self, bool non_blocking=False) -> Tensor",
                      "Tensor.char", CAST(I8)};
CFX_OP(_cast_Short) = {"aten::_cast_Short(Tensor self, bool non_blocking=False) -> Tensor",
                       "Tensor.short", CAST(I16)};
CFX_OP(_cast_Int) = {"aten::_cast_Int(Tensor self, bool non_blocking=False) -> Tensor",
                     "Tensor.int", CAST(I32)};
CFX_OP(_cast_Long) = {"aten::_cast_Long(Tensor self, bool non_blocking=False) -> Tensor",
                      "Tensor.long", CAST(I64)};
CFX_OP(_cast_Half) = {"aten::_cast_Half(Tensor self, bool non_blocking=False) -> Tensor",
                      "Tensor.half", CAST(F16), GRAD(same, 0)};
CFX_OP(_cast_Float) = {"aten::_cast_Float(Tensor self, bool non_blocking=False) -> Tensor",
                       "Tensor.float", CAST(F32), GRAD(same, 0)};
CFX_OP(_cast_Double) = {"aten::_cast_Double(Tensor self, bool non_blocking=False) -> Tensor",
                        "Tensor.double", CAST(F64), GRAD(same, 0)};
CFX_OP(cfx_bool) = {"cfx::bool(Tensor self) -> Tensor", "Tensor.bool", CAST(BOOL)};
CFX_OP(cfx_bfloat16) = {"cfx::bfloat16(Tensor self) -> Tensor", "Tensor.bfloat16", CAST(BF16)};
CFX_OP(cfx_cfloat) = {"cfx::cfloat(Tensor self) -> Tensor", "Tensor.cfloat", CAST(C64)};
CFX_OP(cfx_cdouble) = {"cfx::cdouble(Tensor self) -> Tensor", "Tensor.cdouble", CAST(C128)};
CFX_OP(cpu) = {"aten::cpu(Tensor(a) self) -> Tensor(b|a)", "Tensor.cpu", .decompose = decompose_cpu,
               .effects = CFX_COMPOSITE};

/* ---- copy ------------------------------------------------------------------------------------ */

/* Whether src can be written to self: it broadcasts to its shape. */
static bool copy_fits(cfx_op_call *c, const cfx_tensor *self, const cfx_tensor *src) {
    int64_t shape[CFX_MAX_DIMS];
    int n = self->ndim;
    memcpy(shape, self->shape, (size_t)n * sizeof *shape);
    if (!cfx__shape_broadcast(c->at, &n, shape, src->ndim, src->shape))
        return false;
    if (n == self->ndim && !memcmp(shape, self->shape, (size_t)n * sizeof *shape))
        return true;
    op_fail(c, "output with shape %s doesn't match the broadcast shape %s",
            cfx__shape_text(self->ndim, self->shape), cfx__shape_text(n, shape));
    return false;
}

static void shape_copy(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0);
    if (!copy_fits(c, self, arg_tensor(c, 1)))
        return;
    if (cfx__tensor_overlaps_itself(self))
        out_empty_like(c, self->dtype, CFX_PRESERVE, self);
    else
        out_strided(c, 0, self->dtype, self->ndim, self->shape, self->stride);
}

static void kernel_copy(cfx_op_call *c) {
    copy_gaps(c->out[0], arg_tensor(c, 0));
    cfx__tensor_copy(c->out[0], arg_tensor(c, 1));
}

static void kernel_copy_(cfx_op_call *c) {
    cfx_tensor *self = arg_tensor(c, 0), *src = arg_tensor(c, 1);
    c->out[0] = self;
    if (self == src || !copy_fits(c, self, src))
        return;
    if (!is_writable(c, self))
        return;
    if (cfx__tensor_overlap_of(self, src) == CFX__PARTLY)
        op_fail(c, "unsupported operation: some elements of the input tensor and the written-to "
                   "tensor refer to a single memory location. Please clone() the tensor before "
                   "performing the operation.");
    else if (!c->fake)
        cfx__tensor_copy(self, src);
}

CFX_OP(copy) = {"aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", NULL,
                .shape = shape_copy, .kernel = kernel_copy, .dtypes = CFX_IN_ANY, GRAD(copy_, 0),
                .effects = CFX_ANY_DEVICE, .inplace = "default", .out = "out"};
CFX_OP(copy_) = {"aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
                 "Tensor.copy_", .kernel = kernel_copy_, .dtypes = CFX_IN_ANY,
                 .effects = CFX_ANY_DEVICE, GRAD(copy_, 0)};

/* ---- fill ------------------------------------------------------------------------------------ */

static void shape_fill(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    if (number_fits(c, c->args[1], t->dtype))
        out_empty_like(c, t->dtype, CFX_PRESERVE, t);
}

static void kernel_fill(cfx_op_call *c) { cfx__tensor_fill(c->out[0], c->args[1]); }

static void shape_fill_tensor(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0), *value = arg_tensor(c, 1);
    if (value->ndim)
        op_fail(c,
                "fill_ only supports 0-dimension value tensor but got tensor with %d dimensions.",
                value->ndim);
    else
        out_empty_like(c, t->dtype, CFX_PRESERVE, t);
}

static void shape_zero(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    out_empty_like(c, t->dtype, CFX_PRESERVE, t);
}

static void kernel_zero(cfx_op_call *c) { cfx__tensor_fill(c->out[0], cfx_int(0)); }

CFX_OP(fill_Scalar) = {"aten::fill.Scalar(Tensor self, Scalar value) -> Tensor",
                       "torch.fill Tensor.fill", .shape = shape_fill, .kernel = kernel_fill,
                       .dtypes = CFX_IN_ANY,
                       .effects = CFX_POINTWISE, GRAD(fill, 0), .core = core_fill_Scalar,
                       .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(fill_Tensor) = {"aten::fill.Tensor(Tensor self, Tensor value) -> Tensor", NULL,
                       .shape = shape_fill_tensor, .kernel = kernel_copy,
                       .dtypes = CFX_IN_ANY, .effects = CFX_POINTWISE,
                       GRAD(fill, 0), .core = core_fill_Tensor, .inplace = "Tensor",
                       .out = "Tensor_out"};
CFX_OP(zero) = {"aten::zero(Tensor self) -> Tensor", "Tensor.zero", .shape = shape_zero,
                .kernel = kernel_zero,
                .dtypes = CFX_IN_ANY, .effects = CFX_POINTWISE, GRAD(zero, 0), .core = core_zero,
                .inplace = "default", .out = "out"};

/* ---- storage --------------------------------------------------------------------------------- */

/* self gets another size. Elements that fit stay where they are in memory; a tensor that grows out
 * of its storage gets one of its own, and other views keep the old one. */
static void resize_to(cfx_op_call *c, cfx_tensor *self, int n, const int64_t *shape,
                      cfx_value format) {
    int64_t stride[CFX_MAX_DIMS];
    bool given = format.tag == CFX_TAG_MEMORY_FORMAT;
    cfx_memory_format f = given ? cfx_as_memory_format(format) : CFX_CONTIGUOUS;
    c->out[0] = self;
    bool same = self->ndim == n && !memcmp(shape, self->shape, (size_t)n * sizeof *shape);
    if (same && !given)
        return;
    if (f == CFX_PRESERVE) {
        op_fail(c, "Unsupported memory format Preserve");
        return;
    }
    if (!format_strides(c, f, n, shape, stride))
        return;
    int64_t numel = cfx__shape_numel(c->at, n, shape), end, bytes;
    int size = cfx_dtype_size(self->dtype);
    if (__builtin_add_overflow(numel, self->offset, &end) ||
        __builtin_mul_overflow(end, size, &bytes)) {
        op_fail_large(c, "Storage size calculation overflowed with sizes=%s",
                      cfx__shape_text(n, shape));
        return;
    }
    cfx_tensor *base = self;
    if (numel && (uint64_t)bytes > self->storage->size) {
        base = cfx__tensor_empty(c->at, self->dtype, !self->data, 1, &end, NULL);
        if (cfx__obj_is_bad(base))
            return;
        if (base->data && self->storage->size)
            memcpy(base->data, self->storage->data, self->storage->size);
    }
    cfx__tensor_become(self, cfx__tensor_alias(base, n, shape, stride, self->offset));
}

static void kernel_resize_(cfx_op_call *c) {
    int64_t shape[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, shape);
    c->out[0] = arg_tensor(c, 0);
    if (!op_failed())
        resize_to(c, arg_tensor(c, 0), n, shape, c->args[2]);
}

static void kernel_resize_as_(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 1);
    cfx_value f = c->args[2];
    if (f.tag == CFX_TAG_MEMORY_FORMAT && cfx_integer(f) == CFX_PRESERVE)
        f = cfx_memory_format_value(cfx__tensor_suggest_format(t));
    resize_to(c, arg_tensor(c, 0), t->ndim, t->shape, f);
}

static void kernel_set_(cfx_op_call *c) {
    cfx_tensor *self = arg_tensor(c, 0);
    int64_t none = 0;
    cfx_tensor *from = c->nargs > 1
                           ? arg_tensor(c, 1)
                           : cfx__tensor_empty(c->at, self->dtype, !self->data, 1, &none, NULL);
    c->out[0] = self;
    if (from->dtype != self->dtype)
        op_fail(c, "Could not set tensor of type %s to a tensor of type %s",
                cfx__dtype_title(from->dtype), cfx__dtype_title(self->dtype));
    else if (!cfx__obj_is_bad(from) && from != self)
        cfx__tensor_become(self, from);
}

CFX_OP(resize_) = {"aten::resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? "
                   "memory_format=None) -> Tensor(a!)",
                   "Tensor.resize_", .kernel = kernel_resize_, .dtypes = CFX_IN_ANY};
CFX_OP(resize_as_) = {"aten::resize_as_(Tensor(a!) self, Tensor the_template, *, MemoryFormat? "
                      "memory_format=None) -> Tensor(a!)",
                      "torch.resize_as_ Tensor.resize_as_", .kernel = kernel_resize_as_,
                      .dtypes = CFX_IN_ANY};
CFX_OP(set_) = {"aten::set_(Tensor(a!) self) -> Tensor(a!)", "Tensor.set_", .kernel = kernel_set_,
                .dtypes = CFX_IN_ANY};
CFX_OP(set__source_Tensor) = {"aten::set_.source_Tensor(Tensor(a!) self, Tensor source) -> "
                              "Tensor(a!)",
                              NULL, .kernel = kernel_set_, .dtypes = CFX_IN_ANY,
                              .effects = CFX_SHARES};
