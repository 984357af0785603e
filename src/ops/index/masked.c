/* Masks: filling, choosing and scattering where a mask says so, and finding what is not zero. */
#include "index.h"
#include "walk.h"

CFX_FAMILY(INDEX);

static bool is_bool(cfx_op_call *c, const char *func, const cfx_tensor *mask) {
    if (mask->dtype == CFX_BOOL)
        return true;
    op_fail(c, "%s only supports boolean masks, but got mask with dtype %s", func,
            cfx__dtype_cpp_name(mask->dtype));
    return false;
}

/* The shape of self and mask together. */
static bool joint_shape(cfx_op_call *c, int *ndim, int64_t *shape) {
    const cfx_tensor *self = arg_tensor(c, 0), *mask = arg_tensor(c, 1);
    *ndim = 0;
    return cfx__shape_broadcast(c->at, ndim, shape, self->ndim, self->shape) &&
           cfx__shape_broadcast(c->at, ndim, shape, mask->ndim, mask->shape);
}

/* ---- masked_fill ---------------------------------------------------------------------------- */

static void shape_masked_fill(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *mask = arg_tensor(c, 1), *value = arg_tensor(c, 2);
    int64_t shape[CFX_MAX_DIMS];
    int ndim;
    bool complex_ = value ? cfx__dtype_is_complex(value->dtype) : c->args[2].tag == CFX_TAG_COMPLEX;
    c->out[0] = &cfx__tensor_bad;
    if (!joint_shape(c, &ndim, shape))
        return;
    if (value && value->ndim)
        op_fail(c,
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with %d "
                "dimension(s).",
                value->ndim);
    else if (is_bool(c, "masked_fill_", mask)) {
        if (complex_ && !cfx__dtype_is_complex(self->dtype))
            op_fail(c, "value cannot be converted to type %s without overflow",
                    cfx__dtype_cpp_name(self->dtype));
        else
            out_new(c, 0, self->dtype, ndim, shape);
    }
}

typedef struct {
    uint64_t half[2];
} wide;

#define CHOOSE(name, T)                                                                            \
    CFX__SIMD static void name(void *const *p, int64_t n, const void *value) {                     \
        T *out = p[0];                                                                             \
        const T *x = p[1], v = *(const T *)value;                                                  \
        const uint8_t *mask = p[2];                                                                \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] = mask[i] ? v : x[i];           \
    }
CHOOSE(choose_1, uint8_t)
CHOOSE(choose_2, uint16_t)
CHOOSE(choose_4, uint32_t)
CHOOSE(choose_8, uint64_t)
CHOOSE(choose_16, wide)

static void kernel_masked_fill(cfx_op_call *c) {
    cfx_tensor *out = c->out[0], *self = arg_tensor(c, 0), *mask = arg_tensor(c, 1);
    cfx_tensor *value = arg_tensor(c, 2);
    cfx_dtype d = out->dtype;
    if (value && !value->data)
        return; /* a note of what is not known yet cannot be made */
    value = value ? cfx__tensor_to_dtype(value, d) : cfx__tensor_scalar(c->args[2], d);
    if (op_failed())
        return;
    int size = cfx_dtype_size(d);
    cfx__iter_loop *loop = size == 1   ? choose_1
                           : size == 2 ? choose_2
                           : size == 4 ? choose_4
                           : size == 8 ? choose_8
                                       : choose_16;
    if (c->note) {
        loop_note(c->note, CFX__LOOP_EACH, loop, d, 1, value->data, (size_t)size);
        c->note->says.expr = "y ? p0 : x";
        c->note->says.f[0] = cfx_tensor_get(value, 0);
        c->note->says.i[0] = cfx_integer(cfx__tensor_get(value, 0));
        loop_operand(c->note, self, d);
        loop_operand(c->note, mask, CFX_BOOL);
        return;
    }
    cfx__iter_pointwise(loop, 1, 2, (cfx__iter_operand[]){{out, d}, {self, d}, {mask, CFX_BOOL}},
                        value->data, 1);
}

CFX_OP(masked_fill_Scalar) = {
    "aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
    "torch.masked_fill Tensor.masked_fill", .shape = shape_masked_fill,
    .kernel = kernel_masked_fill, .dtypes = CFX_IN_AS_IS | CFX_IN(C32),
    .effects = CFX_POINTWISE | CFX_LOOPS, GRAD(masked_fill, READ(1)), .core = core_masked_fill,
    .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(masked_fill_Tensor) = {
    "aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", NULL,
    .shape = shape_masked_fill, .kernel = kernel_masked_fill, .dtypes = CFX_IN_AS_IS | CFX_IN(C32),
    .effects = CFX_POINTWISE | CFX_LOOPS,
    GRAD(masked_fill, READ(1)), .core = core_masked_fill, .inplace = "Tensor", .out = "Tensor_out"};

/* ---- masked_scatter, masked_select ---------------------------------------------------------- */

static void shape_masked_scatter(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *mask = arg_tensor(c, 1), *source = arg_tensor(c, 2);
    int64_t shape[CFX_MAX_DIMS];
    int ndim;
    c->out[0] = &cfx__tensor_bad;
    if (!joint_shape(c, &ndim, shape))
        return;
    if (self->dtype != source->dtype)
        op_fail(c, "masked_scatter: expected self and source to have same dtypes but got %s and %s",
                cfx__dtype_title(self->dtype), cfx__dtype_title(source->dtype));
    else if (is_bool(c, "masked_scatter_", mask))
        out_new(c, 0, self->dtype, ndim, shape);
}

static void kernel_masked_scatter(cfx_op_call *c) {
    cfx_tensor *out = c->out[0], *self = arg_tensor(c, 0);
    const cfx_tensor *mask =
        cfx__tensor_contiguous(op_expand(arg_tensor(c, 1), out->ndim, out->shape));
    const cfx_tensor *source = cfx__tensor_contiguous(arg_tensor(c, 2));
    if (op_failed())
        return;
    if (op_count_nonzero(mask) > source->numel) {
        op_fail(c, "Number of elements of source < number of ones in mask");
        return;
    }
    cfx_tensor *to = cfx__tensor_is_contiguous(out)
                         ? out
                         : cfx__tensor_empty(c->at, out->dtype, false, out->ndim, out->shape, NULL);
    if (op_failed())
        return;
    if (to->data != self->data)
        cfx__tensor_copy(to, self);
    size_t size = (size_t)cfx_dtype_size(out->dtype);
    const uint8_t *m = (const uint8_t *)mask->data;
    const char *from = source->data;
    for (int64_t i = 0; i < out->numel; i++)
        if (m[i]) {
            memcpy(to->data + (size_t)i * size, from, size);
            from += size;
        }
    if (to != out)
        cfx__tensor_copy(out, to);
}

CFX_OP(masked_scatter) = {"aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
                          "torch.masked_scatter Tensor.masked_scatter",
                          .shape = shape_masked_scatter,
                          .kernel = kernel_masked_scatter,
                          .effects = CFX_UPDATE,
                          GRAD(masked_scatter, READ(1)), .inplace = "default", .out = "out"};

static void kernel_masked_select(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *mask = arg_tensor(c, 1);
    int64_t shape[CFX_MAX_DIMS];
    int ndim;
    c->out[0] = &cfx__tensor_bad;
    if (mask->dtype != CFX_BOOL) {
        op_fail(c, "masked_select: expected BoolTensor for mask");
        return;
    }
    if (!joint_shape(c, &ndim, shape) || cfx__shape_numel(c->at, ndim, shape) < 0)
        return;
    mask = cfx__tensor_contiguous(op_expand(mask, ndim, shape));
    self = cfx__tensor_contiguous(op_expand(self, ndim, shape));
    if (op_failed())
        return;
    int64_t count = op_count_nonzero(mask);
    cfx_tensor *out = out_new(c, 0, self->dtype, 1, &count);
    if (op_failed())
        return;
    size_t size = (size_t)cfx_dtype_size(self->dtype);
    const uint8_t *m = (const uint8_t *)mask->data;
    char *to = out->data;
    for (int64_t i = 0; i < self->numel; i++)
        if (m[i]) {
            memcpy(to, self->data + (size_t)i * size, size);
            to += size;
        }
}

static void shape_masked_select(cfx_op_call *c) {
    int64_t count;
    if (op_data_size(c, &count))
        out_new(c, 0, arg_tensor(c, 0)->dtype, 1, &count);
}

CFX_OP(masked_select) = {"aten::masked_select(Tensor self, Tensor mask) -> Tensor",
                         "torch.masked_select Tensor.masked_select",
                         .shape = shape_masked_select,
                         .kernel = kernel_masked_select,
                         .dtypes = CFX_IN_AS_IS | CFX_IN_FLOAT8 | CFX_IN(F8E8M0FNU) | CFX_IN(C32),
                         .effects = CFX_DATA_SHAPE,
                         GRAD(masked_select, READ(1)), .out = "out"};

/* ---- nonzero -------------------------------------------------------------------------------- */

static void kernel_nonzero(cfx_op_call *c) { c->out[0] = op_nonzero(c, arg_tensor(c, 0)); }

static void shape_nonzero(cfx_op_call *c) {
    int64_t shape[2] = {0, arg_tensor(c, 0)->ndim}, stride[2] = {1, 1};
    if (!op_data_size(c, &shape[0]))
        return;
    stride[1] = shape[0] > 1 ? shape[0] : 1;
    out_strided(c, 0, CFX_I64, 2, shape, stride);
}

CFX_OP(nonzero) = {"aten::nonzero(Tensor self) -> Tensor", "torch.nonzero Tensor.nonzero",
                   .shape = shape_nonzero, .kernel = kernel_nonzero, .effects = CFX_DATA_SHAPE,
                   .out = "out"};

static void shape_nonzero_static(cfx_op_call *c) {
    int64_t size = arg_int(c, 1);
    c->out[0] = &cfx__tensor_bad;
    if (size < 0)
        op_fail(c, "nonzero_static: 'size' must be an non-negative integer");
    else
        out_new(c, 0, CFX_I64, 2, (int64_t[]){size, arg_tensor(c, 0)->ndim});
}

static void kernel_nonzero_static(cfx_op_call *c) {
    cfx_tensor *out = c->out[0];
    const cfx_tensor *all = op_nonzero(c, arg_tensor(c, 0));
    if (op_failed())
        return;
    int64_t count = all->shape[0], fill = arg_int(c, 2), n = out->shape[1];
    int64_t *to = (int64_t *)out->data;
    const int64_t *from = (const int64_t *)all->data;
    for (int64_t i = 0; n && i < out->shape[0]; i++)
        for (int64_t d = 0; d < n; d++)
            to[i * n + d] = i < count ? from[d * count + i] : fill;
}

CFX_OP(nonzero_static) = {
    "aten::nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor",
    "torch.nonzero_static Tensor.nonzero_static", .shape = shape_nonzero_static,
    .kernel = kernel_nonzero_static, .out = "out"};
