/* What default decompositions share. */
#include "core.h"

#include <cfx/ops.h>

#include <math.h>

cfx_tensor *core_do(cfx_op_call *c, cfx_op *op, cfx_args a) {
    cfx_value v = cfx_op_do_from(c->at, op, a);
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : &cfx__tensor_bad;
}

cfx_tensor *core_to(cfx_op_call *c, cfx_tensor *x, cfx_dtype dtype) {
    if (cfx__obj_is_bad(x) || x->dtype == dtype)
        return x;
    return DO(_to_copy, x, CFX_KW(dtype, cfx_dtype_value(dtype)));
}

cfx_dtype core_wide_dtype(cfx_dtype d) {
    return cfx__dtype_is_half(d) ? CFX_F32 : d == CFX_C32 ? CFX_C64 : d;
}

cfx_tensor *core_wide(cfx_op_call *c, int i) {
    cfx_tensor *x = arg_tensor(c, i);
    return x ? core_to(c, x, core_wide_dtype(x->dtype)) : NULL;
}

bool core_number_is(cfx_value v, double real) {
    return cfx_number(v) == real && (v.tag != CFX_TAG_COMPLEX || cfx_as_complex(v)->im == 0);
}

cfx_value core_real_number(const cfx_op_call *c, int i) {
    return c->args[i].tag == CFX_TAG_COMPLEX ? cfx_float(arg_float(c, i)) : c->args[i];
}

static cfx_value wrapped(int64_t i, cfx_dtype d) {
    char room[8];
    cfx__convert(room, 0, d, (const char *)&i, 0, CFX_I64, 1);
    cfx__convert((char *)&i, 0, CFX_I64, room, 0, d, 1);
    return cfx_int(i);
}

cfx_value core_fitting(cfx_value number, cfx_dtype d) {
    char room[16];
    double f = cfx_number(number);
    if (cfx__dtype_is_int(d) && (number.tag == CFX_TAG_INT || number.tag == CFX_TAG_FLOAT))
        return wrapped(cfx_integer(number), d);
    if (number.tag != CFX_TAG_FLOAT || !cfx__dtype_is_float(d))
        return number;
    cfx__convert_out(room, 0, d, &f, CFX_F64, 1);
    cfx__convert_in(&f, CFX_F64, room, 0, d, 1);
    return f == 0 || isinf(f) ? cfx_float(f) : number;
}

cfx_tensor *core_chosen(cfx_op_call *c, cfx_tensor *condition, cfx_value number, cfx_tensor *x) {
    cfx__promotion p = CFX__PROMOTION_START;
    cfx__promotion_value(&p, number);
    cfx__promotion_tensor(&p, x);
    return DO(where_ScalarSelf, condition, core_fitting(number, cfx__promotion_dtype(&p)), x);
}
