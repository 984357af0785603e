/* The table of default decompositions, and what its rows share. */
#include "core.h"

#include <cfx/ops.h>

const core_row *cfx__ops_core_row(const cfx_op *op) {
    static const core_row *const tables[] = {core_create, core_pointwise, core_views, core_reduce,
                                             core_index,  core_resample,  core_layers};
    for (int i = 0; i < COUNT(tables); i++)
        for (const core_row *r = tables[i]; r->op; r++)
            if (r->op == op)
                return r;
    return NULL;
}

cfx_tensor *core_do(cfx_op_call *c, cfx_op *op, cfx_args a) {
    cfx_value v = cfx_op_do_from(c->at, op, a);
    return v.tag == CFX_TAG_TENSOR ? v.tensor : &cfx__tensor_bad;
}

cfx_tensor *core_to(cfx_op_call *c, cfx_tensor *x, cfx_dtype dtype) {
    if (cfx__obj_is_bad(x) || x->dtype == dtype)
        return x;
    return DO(_to_copy, x, CFX_KW(dtype, cfx_dtype_value(dtype)));
}

cfx_tensor *core_wide(cfx_op_call *c, int i) {
    cfx_tensor *x = arg_tensor(c, i);
    return x && cfx__dtype_is_half(x->dtype) ? core_to(c, x, CFX_F32) : x;
}
