/* Rules for results whose sizes are told by data. */
#include "export.h"

/* ONNX's operator is of few dtypes: others are found among those. */
static cfx_dtype found_in(cfx_dtype d) {
    return d == CFX_F64 ? d : cfx__dtype_is_floating(d) || d == CFX_BOOL ? CFX_F32 : CFX_I64;
}

/* Result i where `flag` asks for it; no numbers otherwise. */
static cfx_value asked(cfx__onnx_export *x, int flag, cfx_value v, int i) {
    return cfx__export_flag(x, flag) ? cfx__export_item(x, v, i) : cfx__export_i64(x, 0, NULL);
}

/* The values that there are, sorted; the place of each element among them; how many are equal to
 * each. `flags` is the place of what asks for the second and third. */
static cfx_value unique(cfx__onnx_export *x, cfx_value axis, int flags) {
    enum { VALUES, INVERSE = 2, COUNTS }; /* ONNX's results; the second tells of first elements */
    const cfx_result r = cfx__export_given(x, 0);
    const cfx_dtype d = r.dtype, in = found_in(d);
    cfx_value self = cfx__export_as(x, 0, in);
    cfx_value v = PUT(Unique, self, CFX_KW(axis, axis), CFX_KW(sorted, 1));
    const cfx_value values = cfx__export_cast(x, cfx__export_item(x, v, VALUES), in, d);
    cfx_value inverse = cfx_none(), counts = cfx_none();
    if (cfx__export_is_read(x, 1)) {
        inverse = asked(x, flags, v, INVERSE);
        if (cfx_is_none(axis) && cfx__export_flag(x, flags) && r.ndim != 1)
            inverse = PUT(Reshape, inverse, cfx__export_shape(x, self, &r));
    }
    if (cfx__export_is_read(x, 2))
        counts = asked(x, flags + 1, v, COUNTS);
    return cfx_ok() ? cfx_tuple(values, inverse, counts) : cfx_bad();
}

RULE(unique_all) {
    (void)op;
    return unique(x, cfx_none(), 2);
}

RULE(unique_dim) {
    const int ndim = cfx__export_given(x, 0).ndim;
    (void)op;
    return unique(x, cfx_int(cfx__export_dim(cfx_integer(cfx__export_arg(x, 1)), ndim)), 3);
}

/* [2, 0, 3] gives [0, 0, 2, 2, 2]: at each place, how many of the repeats have ended before it. */
RULE(repeat_interleave) {
    const cfx_value n = cfx__export_as(x, 0, CFX_I64),
                    zero = cfx__export_number(x, cfx_int(0), CFX_I64);
    const cfx_value one = cfx__export_number(x, cfx_int(1), CFX_I64), first = cfx__export_one(x, 0);
    const cfx_value ends = PUT(CumSum, n, zero),
                    all = PUT(ReduceSum, n, first, CFX_KW(keepdims, 0));
    const cfx_value places = PUT(Unsqueeze, PUT(Range, zero, all, one), cfx__export_one(x, 1));
    const cfx_value ended =
        cfx__export_cast(x, PUT(GreaterOrEqual, places, ends), CFX_BOOL, CFX_I64);
    (void)op;
    return cfx__export_cast(x, PUT(ReduceSum, ended, cfx__export_one(x, 1), CFX_KW(keepdims, 0)),
                            CFX_I64, cfx__export_result(x).dtype);
}

static const cfx__onnx_rule rows[] = {
    {"aten._unique2.default", unique_all, NULL},
    {"aten.unique_dim.default", unique_dim, NULL},
    {"aten.repeat_interleave.Tensor", repeat_interleave, NULL},
};

const cfx__onnx_rules cfx__onnx_rules_data = CFX__ONNX_RULES(rows);
