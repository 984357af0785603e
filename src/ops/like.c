/* Results of copies and constructors: memory formats, options, numbers that must fit. */
#include "../value/later.h"
#include "views.h"

bool format_strides(cfx_op_call *c, cfx_memory_format f, int n, const int64_t *shape,
                    int64_t *stride) {
    int rank = f == CFX_CHANNELS_LAST ? 4 : f == CFX_CHANNELS_LAST_3D ? 5 : n;
    if (n != rank) {
        op_fail(c, "required rank %d tensor to use channels_last%s format", rank,
                rank == 5 ? "_3d" : "");
        return false;
    }
    if (cfx__shape_numel(c->at, n, shape) < 0)
        return false;
    cfx__strides_of_format(f, n, shape, stride);
    return true;
}

bool like_strides(cfx_op_call *c, cfx_memory_format f, const cfx_tensor *t, int64_t *stride) {
    if (f != CFX_PRESERVE)
        return format_strides(c, f, t->ndim, t->shape, stride);
    if (cfx__tensor_is_contiguous(t) || cfx__tensor_is_dense(t))
        memcpy(stride, t->stride, (size_t)t->ndim * sizeof *stride);
    else
        cfx__strides_pointwise(1, &t, t->ndim, t->shape, stride);
    return true;
}

cfx_tensor *out_like(cfx_op_call *c, int i, cfx_dtype dtype, const cfx_tensor *t) {
    int64_t stride[CFX_MAX_DIMS];
    like_strides(c, CFX_PRESERVE, t, stride);
    return out_strided(c, i, dtype, t->ndim, t->shape, stride);
}

cfx_tensor *out_empty_like(cfx_op_call *c, cfx_dtype dtype, cfx_memory_format f,
                           const cfx_tensor *t) {
    int64_t stride[CFX_MAX_DIMS];
    if (!like_strides(c, f, t, stride))
        return c->out[0] = &cfx__tensor_bad;
    return out_strided(c, 0, dtype, t->ndim, t->shape, stride);
}

/* Lets what the call makes lie on a device. */
static void go_to(cfx_op_call *c, cfx_device d) {
    if (d.type == CFX_CUDA && !cfx__later_rooms.cards())
        op_fail_as(ASSERTION, c, "Torch not compiled with CUDA enabled");
    else
        cfx__ctx()->card = cfx__device_card(d);
    c->fake |= d.type == CFX_META;
}

bool options_fit(cfx_op_call *c, int layout, int device, int pin_memory) {
    if (layout >= 0 && c->args[layout].tag == CFX_TAG_LAYOUT &&
        cfx_integer(c->args[layout]) != CFX_STRIDED)
        op_fail_as(NOT_IMPLEMENTED, c, "only strided tensors can be made here");
    else if (pin_memory >= 0 && !arg_is_none(c, pin_memory) && arg_bool(c, pin_memory))
        op_fail(c, "Cannot access accelerator device when none is available.");
    else if (device >= 0 && c->args[device].tag == CFX_TAG_DEVICE)
        go_to(c, cfx_as_device(c->args[device]));
    return !op_failed();
}

/* The range of integer dtypes and what C++ calls each type. */
static const struct {
    int64_t min, max;
    const char *name;
} limits[CFX_DTYPE_END] = {
    [CFX_U8] = {0, UINT8_MAX, "uint8_t"},
    [CFX_I8] = {INT8_MIN, INT8_MAX, "int8_t"},
    [CFX_I16] = {INT16_MIN, INT16_MAX, "int16_t"},
    [CFX_I32] = {INT32_MIN, INT32_MAX, "int"},
    [CFX_I64] = {INT64_MIN, INT64_MAX, "int64_t"},
    [CFX_F16] = {0, 0, "at::Half"},
    [CFX_BF16] = {0, 0, "at::BFloat16"},
    [CFX_F32] = {0, 0, "float"},
    [CFX_F64] = {0, 0, "double"},
    [CFX_C64] = {0, 0, "c10::complex<float>"},
    [CFX_C128] = {0, 0, "c10::complex<double>"},
    [CFX_BOOL] = {0, 1, "bool"},
    [CFX_U16] = {0, UINT16_MAX, "uint16_t"},
    [CFX_U32] = {0, UINT32_MAX, "uint32_t"},
    [CFX_U64] = {0, INT64_MAX, "uint64_t"}, /* the largest integer that a value holds */
    [CFX_C32] = {0, 0, "c10::complex<c10::Half>"},
    [CFX_F8E4M3FN] = {0, 0, "c10::Float8_e4m3fn"},
    [CFX_F8E5M2] = {0, 0, "c10::Float8_e5m2"},
    [CFX_F8E4M3FNUZ] = {0, 0, "c10::Float8_e4m3fnuz"},
    [CFX_F8E5M2FNUZ] = {0, 0, "c10::Float8_e5m2fnuz"},
    [CFX_F8E8M0FNU] = {0, 0, "c10::Float8_e8m0fnu"},
};

static bool float_fits(double f, cfx_dtype d) {
    static const double max[CFX_DTYPE_END] = {[CFX_F16] = 65504,
                                                [CFX_BF16] = 0x1.fep127,
                                                [CFX_F32] = 0x1.fffffep127,
                                                [CFX_C64] = 0x1.fffffep127,
                                                [CFX_C32] = 65504,
                                                [CFX_F8E4M3FN] = 448,
                                                [CFX_F8E5M2] = 57344,
                                                [CFX_F8E4M3FNUZ] = 240,
                                                [CFX_F8E5M2FNUZ] = 57344,
                                                [CFX_F8E8M0FNU] = 0x1p127};
    if (max[d] == 0 || f != f || f - f != 0)
        return true;
    return f >= -max[d] && f <= max[d];
}

bool number_fits(cfx_op_call *c, cfx_value v, cfx_dtype d) {
    bool fits = true;
    double f = cfx_number(v);
    if (d == CFX_BOOL) {
        fits = true;
    } else if (v.tag == CFX_TAG_COMPLEX && cfx_as_complex(v)->im != 0 &&
               !cfx__dtype_is_complex(d)) {
        fits = false;
    } else if (!cfx__dtype_is_integral(d)) {
        fits =
            float_fits(f, d) && (v.tag != CFX_TAG_COMPLEX || float_fits(cfx_as_complex(v)->im, d));
    } else if (v.tag == CFX_TAG_FLOAT || v.tag == CFX_TAG_COMPLEX) {
        fits = d == CFX_I64 ? cfx__int64_fits(f)
                            : f >= (double)limits[d].min && f <= (double)limits[d].max;
    } else {
        /* negative numbers wrap around in unsigned types */
        int64_t i = cfx_integer(v), least = limits[d].min ? limits[d].min : -limits[d].max;
        fits = i >= least && i <= limits[d].max;
    }
    if (!fits)
        op_fail(c, "value cannot be converted to type %s without overflow", limits[d].name);
    return fits;
}

int64_t number_in(cfx_value v, cfx_dtype d) {
    const int64_t i = cfx_integer(v);
    return d == CFX_U8 ? (uint8_t)i : d == CFX_U16 ? (uint16_t)i : d == CFX_U32 ? (uint32_t)i : i;
}

bool is_writable(cfx_op_call *c, const cfx_tensor *t) {
    if (cfx__tensor_overlaps_itself(t))
        op_fail(c,
                "unsupported operation: more than one element of the written-to tensor refers to a "
                "single memory location. Please clone() the tensor before performing the "
                "operation.");
    return !op_failed();
}

void copy_gaps(cfx_tensor *copy, const cfx_tensor *self) {
    int64_t reach = 1, one = 1;
    if (likely(cfx__tensor_is_dense(self)) || !self->numel || !self->data || !copy->data ||
        memcmp(copy->stride, self->stride, (size_t)self->ndim * sizeof *self->stride))
        return;
    for (int i = 0; i < self->ndim; i++)
        reach += (self->shape[i] - 1) * self->stride[i];
    cfx__tensor_copy(cfx__tensor_alias(copy, 1, &reach, &one, copy->offset),
                     cfx__tensor_alias(self, 1, &reach, &one, self->offset));
}
