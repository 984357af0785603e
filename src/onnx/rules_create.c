/* Rules for tensors that are made of numbers. */
#include "export.h"

#include <math.h>

/* A number in sizes that may vary. */
static cfx_value filled(cfx__onnx_export *x, cfx_value number, cfx_value shape) {
    return PUT(Expand, cfx__export_scalar(x, number, cfx__export_result(x).dtype), shape);
}

RULE(full) {
    (void)op;
    return filled(x, cfx__export_arg(x, 1), cfx__export_sizes(x, cfx__export_arg(x, 0)));
}

RULE(full_like) {
    cfx_result r = cfx__export_given(x, 0);
    (void)op;
    return filled(x, cfx__export_arg(x, 1), cfx__export_shape(x, cfx__export_in(x, 0), &r));
}

/* What nobody has written to may be zeros. */
RULE(empty) {
    (void)op;
    return filled(x, cfx_int(0), cfx__export_sizes(x, cfx__export_arg(x, 0)));
}

RULE(scalar_tensor) {
    (void)op;
    cfx_value v = cfx__export_scalar(x, cfx__export_arg(x, 0), cfx__export_result(x).dtype);
    return cfx_is_bad(v) ? v : PUT(Identity, v);
}

/* Where a range of integers ends: numbers are cut to integers, but how many there are is told by
 * fractions as well, unless the result is i64, which is all integers. */
static cfx_value range_end(cfx__onnx_export *x, cfx_dtype d) {
    cfx_value start = cfx__export_arg(x, 0), end = cfx__export_arg(x, 1),
              step = cfx__export_arg(x, 2);
    if (cfx__dtype_is_floating(d) || d == CFX_I64 || !cfx_is_number(start) || !cfx_is_number(end) ||
        !cfx_is_number(step))
        return end;
    const double n = ceil((cfx_number(end) - cfx_number(start)) / cfx_number(step));
    return cfx_int(cfx__int64_of(cfx_number(start)) +
                   cfx__int64_of(n) * cfx__int64_of(cfx_number(step)));
}

/* Computed in the dtype of the result, or of integers in i64 where ONNX has no range for it. */
RULE(arange) {
    cfx_dtype d = cfx__export_result(x).dtype;
    cfx_dtype in = d == CFX_F32 || d == CFX_F64 || d == CFX_I32 || d == CFX_I64 || d == CFX_I16
                       ? d
                   : cfx__dtype_is_floating(d) ? CFX_F32
                                               : CFX_I64;
    cfx_value v = PUT(Range, cfx__export_scalar(x, cfx__export_arg(x, 0), in),
                      cfx__export_scalar(x, range_end(x, d), in),
                      cfx__export_scalar(x, cfx__export_arg(x, 2), in));
    (void)op;
    return cfx__export_cast(x, v, in, d);
}

static const cfx__onnx_rule rows[] = {
    {"aten.full.default", full, NULL},
    {"aten.full_like.default", full_like, NULL},
    {"aten.empty.memory_format", empty, NULL},
    {"aten.empty_permuted.default", empty, NULL},
    {"aten.scalar_tensor.default", scalar_tensor, NULL},
    {"aten.arange.start_step", arange, NULL},
};

const cfx__onnx_rules cfx__onnx_rules_create = CFX__ONNX_RULES(rows);
