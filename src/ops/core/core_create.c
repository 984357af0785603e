/* Default decompositions of operators that make tensors. */
#include "core.h"

#include <cfx/ops.h>

#include "../sizes.h"

/* Arguments of constructors that PyTorch's Python code fills in where they are left out. */
static cfx_value layout_or_strided(cfx_value v) {
    return cfx_is_none(v) ? cfx_layout_value(CFX_STRIDED) : v;
}
static cfx_value false_or(cfx_value v) { return cfx_is_none(v) ? cfx_bool(false) : v; }

static cfx_value number_of(cfx_dtype d, int n) {
    return d == CFX_BOOL ? cfx_bool(n) : cfx_int(n);
}

static cfx_dtype given_dtype(cfx_value v) {
    return v.tag == CFX_TAG_DTYPE ? cfx_as_dtype(v) : CFX_F32;
}

/* full(size, value, dtype, layout, device, pin_memory) */
static cfx_tensor *full(cfx_op_call *c, cfx_value size, cfx_value value, cfx_value dtype,
                        cfx_value layout, cfx_value device, cfx_value pin) {
    return DO(full, size, value, CFX_KW(dtype, dtype), CFX_KW(layout, layout),
              CFX_KW(device, device), CFX_KW(pin_memory, pin));
}

static void filled(cfx_op_call *c,
                   int n) { /* zeros, ones: size, dtype, layout, device, pin_memory */
    cfx_dtype d = given_dtype(c->args[1]);
    c->out[0] = full(c, c->args[0], number_of(d, n), cfx_dtype_value(d),
                     layout_or_strided(c->args[2]), c->args[3], false_or(c->args[4]));
}
CORE(zeros) { filled(c, 0); }
CORE(ones) { filled(c, 1); }

/* self, dtype, layout, device, pin_memory, memory_format */
static void filled_like(cfx_op_call *c, int n) {
    cfx_tensor *t = arg_tensor(c, 0);
    cfx_value format = c->args[5];
    if (cfx_is_none(format))
        format = cfx_memory_format_value(CFX_PRESERVE);
    c->out[0] = DO(full_like, t, number_of(arg_dtype(c, 1, t->dtype), n), CFX_KW(dtype, c->args[1]),
                   CFX_KW(layout, c->args[2]), CFX_KW(device, c->args[3]),
                   CFX_KW(pin_memory, false_or(c->args[4])), CFX_KW(memory_format, format));
}
CORE(zeros_like) { filled_like(c, 0); }
CORE(ones_like) { filled_like(c, 1); }

/* Arguments from `at` on: dtype, layout, device, pin_memory, with self's in place of None. */
static void new_filled(cfx_op_call *c, cfx_value value, int at) {
    cfx_tensor *t = arg_tensor(c, 0);
    cfx_dtype d = arg_dtype(c, at, t->dtype);
    cfx_value device = cfx_is_none(c->args[at + 2]) ? cfx_device_value(t->device) : c->args[at + 2];
    c->out[0] = full(c, c->args[1], value, cfx_dtype_value(d), layout_or_strided(c->args[at + 1]),
                     device, false_or(c->args[at + 3]));
}
CORE(new_zeros) { new_filled(c, number_of(arg_dtype(c, 2, arg_tensor(c, 0)->dtype), 0), 2); }
CORE(new_ones) { new_filled(c, number_of(arg_dtype(c, 2, arg_tensor(c, 0)->dtype), 1), 2); }
CORE(new_full) { new_filled(c, c->args[2], 3); }

CORE(new_empty) {
    cfx_tensor *t = arg_tensor(c, 0);
    cfx_value device = cfx_is_none(c->args[4]) ? cfx_device_value(t->device) : c->args[4];
    c->out[0] = DO(empty_memory_format, c->args[1],
                   CFX_KW(dtype, cfx_dtype_value(arg_dtype(c, 2, t->dtype))),
                   CFX_KW(layout, layout_or_strided(c->args[3])), CFX_KW(device, device),
                   CFX_KW(pin_memory, false_or(c->args[5])));
}

/* Dimensions from the outermost in memory to the innermost. */
static void physical_order(const cfx_tensor *t, int64_t *dims) {
    for (int i = 0; i < t->ndim; i++)
        dims[i] = i;
    for (int i = 1; i < t->ndim; i++)
        for (int k = i; k > 0; k--) {
            const int64_t a = dims[k - 1], b = dims[k];
            if (t->stride[a] >= t->stride[b] || t->shape[a] == 1 || t->shape[b] == 1)
                break;
            dims[k - 1] = b, dims[k] = a;
        }
}

CORE(empty_like) {
    cfx_tensor *t = arg_tensor(c, 0);
    cfx_value dtype = cfx_dtype_value(arg_dtype(c, 1, t->dtype));
    cfx_value layout = layout_or_strided(c->args[2]);
    cfx_value device = cfx_is_none(c->args[3]) ? cfx_device_value(t->device) : c->args[3];
    cfx_value shape = size_list(t);
    if (c->args[5].tag == CFX_TAG_MEMORY_FORMAT && cfx_integer(c->args[5]) != CFX_PRESERVE) {
        c->out[0] = DO(empty_memory_format, shape, CFX_KW(dtype, dtype), CFX_KW(layout, layout),
                       CFX_KW(device, device), CFX_KW(pin_memory, false_or(c->args[4])),
                       CFX_KW(memory_format, c->args[5]));
        return;
    }
    int64_t order[CFX_MAX_DIMS];
    physical_order(t, order);
    c->out[0] = DO(empty_permuted, shape, cfx_ints_value(t->ndim, order), CFX_KW(dtype, dtype),
                   CFX_KW(layout, layout), CFX_KW(device, device),
                   CFX_KW(pin_memory, false_or(c->args[4])));
}

/* ---- ranges ---------------------------------------------------------------------------------- */

/* arange(start, end, dtype, layout, device, pin_memory), the last four arguments from `at` on. */
static void ranged(cfx_op_call *c, cfx_value start, cfx_value end, int at) {
    c->out[0] = DO(arange_start_step, start, end, 1, CFX_KW(dtype, c->args[at]),
                   CFX_KW(layout, layout_or_strided(c->args[at + 1])),
                   CFX_KW(device, c->args[at + 2]), CFX_KW(pin_memory, false_or(c->args[at + 3])));
}
CORE(arange) { ranged(c, cfx_int(0), c->args[0], 1); }
CORE(arange_start) { ranged(c, c->args[0], c->args[1], 2); }

/* The smallest type that counts to n. */
static cfx_dtype counter(int64_t n) {
    return n <= UINT8_MAX ? CFX_U8 : n <= INT16_MAX ? CFX_I16 : n <= INT32_MAX ? CFX_I32 : CFX_I64;
}

/* n, m, then dtype, layout, device and pin_memory from `at` on. */
static void eye(cfx_op_call *c, cfx_value n, cfx_value m, int at) {
    int64_t most = cfx_integer(n) > cfx_integer(m) ? cfx_integer(n) : cfx_integer(m);
    bool any = size_varies(cfx_integer(n)) || size_varies(cfx_integer(m));
    cfx_value count = cfx_dtype_value(any ? CFX_I64 : counter(most)), device = c->args[at + 2];
    cfx_tensor *rows = DO(arange, n, CFX_KW(dtype, count), CFX_KW(device, device));
    cfx_tensor *cols = DO(arange, m, CFX_KW(dtype, count), CFX_KW(device, device));
    cfx_tensor *same = DO(eq_Tensor, DO(unsqueeze, rows, -1), cols);
    c->out[0] = core_to(c, same, given_dtype(c->args[at]));
}
CORE(eye) { eye(c, c->args[0], c->args[0], 1); }
CORE(eye_m) { eye(c, c->args[0], c->args[1], 2); }

static double imaginary(cfx_value v) {
    return v.tag == CFX_TAG_COMPLEX ? cfx_as_complex(v)->im : 0;
}

/* start, end, steps, dtype, layout, device, pin_memory */
CORE(linspace) {
    cfx_value start = c->args[0], end = c->args[1];
    int64_t steps = arg_int(c, 2);
    bool turns = start.tag == CFX_TAG_COMPLEX || end.tag == CFX_TAG_COMPLEX;
    cfx_dtype d = turns && arg_is_none(c, 3) ? CFX_C64 : given_dtype(c->args[3]);
    cfx_dtype wide = cfx__dtype_is_float(d) || turns ? d : CFX_I64;
    cfx_value layout = layout_or_strided(c->args[4]), pin = false_or(c->args[6]);
    if (steps < 2) {
        c->out[0] = full(c, cfx_list(steps), steps ? start : cfx_int(0), cfx_dtype_value(d), layout,
                         c->args[5], pin);
        return;
    }
    wide = cfx__dtype_is_half(wide) ? CFX_F32 : wide;
    double n = (double)(steps - 1), real = (cfx_number(end) - cfx_number(start)) / n;
    cfx_value step = turns ? cfx_complex_value(real, (imaginary(end) - imaginary(start)) / n)
                           : cfx_float(real);
    cfx_tensor *rg = DO(arange_start, 0, steps, CFX_KW(layout, layout), CFX_KW(device, c->args[5]),
                        CFX_KW(pin_memory, pin));
    cfx_tensor *first = DO(lt_Scalar, rg, (double)steps / 2);
    cfx_tensor *up = DO(add_Tensor, DO(mul_Tensor, core_to(c, rg, wide), step), start);
    cfx_tensor *rest = DO(rsub_Scalar, rg, steps - 1);
    cfx_tensor *down = DO(rsub_Scalar, DO(mul_Tensor, core_to(c, rest, wide), step), end);
    c->out[0] = core_to(c, DO(where_self, first, up, down), d);
}

/* start, end, steps, base, dtype, layout, device, pin_memory */
CORE(logspace) {
    bool turns = c->args[0].tag == CFX_TAG_COMPLEX || c->args[1].tag == CFX_TAG_COMPLEX;
    cfx_dtype d = turns ? CFX_C64 : given_dtype(c->args[4]);
    const bool whole = cfx__dtype_is_int(d);
    cfx_value start = whole ? cfx_int(cfx__int64_of(cfx_number(c->args[0]))) : c->args[0];
    cfx_value end = whole ? cfx_int(cfx__int64_of(cfx_number(c->args[1]))) : c->args[1];
    cfx_tensor *t = DO(linspace, start, end, c->args[2],
                       CFX_KW(dtype, turns ? cfx_none() : cfx_f64), CFX_KW(layout, c->args[5]),
                       CFX_KW(device, c->args[6]), CFX_KW(pin_memory, c->args[7]));
    cfx_value base = arg_float(c, 3) == 10 ? cfx_int(10) : c->args[3]; /* Python's own default */
    c->out[0] = core_to(c, DO(pow_Scalar, base, t), d);
}

/* ---- filling --------------------------------------------------------------------------------- */

CORE(fill_Scalar) {
    c->out[0] = DO(full_like, arg_tensor(c, 0), c->args[1], CFX_KW(pin_memory, false));
}
CORE(fill_Tensor) { c->out[0] = DO(copy, arg_tensor(c, 0), arg_tensor(c, 1)); }
CORE(zero) {
    c->out[0] = DO(full_like, arg_tensor(c, 0), 0, CFX_KW(pin_memory, false),
                   CFX_KW(memory_format, cfx_memory_format_value(CFX_PRESERVE)));
}
CORE(lift_fresh_copy) { c->out[0] = DO(clone, arg_tensor(c, 0)); }
