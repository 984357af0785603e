/* Default decompositions of what layers call: dropout, normalisation, attention. */
#include "core.h"

#include <cfx/ops.h>

CORE(dropout) { /* input, p, train */
    cfx_tensor *t = arg_tensor(c, 0);
    bool drawn = cfx__dtype_is_floating(t->dtype) || cfx__dtype_is_complex(t->dtype);
    if (!arg_bool(c, 2) || arg_float(c, 1) == 0)
        c->out[0] = DO(clone, t);
    else if (!drawn && arg_float(c, 1) == 1) /* which needs no numbers */
        c->out[0] = DO(mul_Tensor, t, DO(zeros_like, t));
    else
        c->out[0] = cfx_tensor_at(DO_ALL(native_dropout, c->args[0], c->args[1], true), 0);
}

/* The parts of a complex number are the last dimension of another view. */
static void part(cfx_op_call *c, int which) {
    cfx_tensor *t = arg_tensor(c, 0);
    c->out[0] = t;
    if (cfx__dtype_is_complex(t->dtype))
        c->out[0] = DO(select_int, DO(view_as_real, t), t->ndim, which);
}
CORE(real) { part(c, 0); }
CORE(imag) { part(c, 1); }
CORE(positive) { c->out[0] = arg_tensor(c, 0); }

CORE(conj) { /* of a real number: itself */
    cfx_tensor *t = arg_tensor(c, 0);
    c->out[0] = cfx__dtype_is_complex(t->dtype) ? DO(_conj, t) : t;
}

/* v, g, dim: v divided by its length over all dims but one; the length of bfloat16 is float32. */
CORE(_weight_norm_interface) {
    cfx_tensor *v = arg_tensor(c, 0), *g = arg_tensor(c, 1);
    int dim = arg_dim(c, 2, v->ndim);
    int64_t dims[CFX_MAX_DIMS], n = 0;
    for (int i = 0; i < v->ndim; i++)
        if (i != dim)
            dims[n++] = i;
    cfx_value dtype = g->dtype == CFX_BF16 ? cfx_dtype_value(CFX_F32) : cfx_none();
    cfx_tensor *length = n ? DO(linalg_vector_norm, v, 2, cfx_ints_value(n, dims), true,
                                CFX_KW(dtype, dtype))
                           : DO(abs, v); /* no dims would be all */
    c->out[0] = DO(mul_Tensor, v, DO(div_Tensor, g, core_to(c, length, g->dtype)));
    c->out[1] = length;
}
