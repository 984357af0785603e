/* Decomposes calls of complex numbers into calls of their parts, and Fourier transforms of real
 * numbers into those of complex ones. */
#include <cfx/ops.h>

#include "parts.h"

static bool is_complex(const cfx_tensor *t) { return t && cfx__dtype_is_complex(t->dtype); }

static cfx_tensor *joined(cfx_tensor *re, cfx_tensor *im) {
    return cfx_view_as_complex(cfx_stack(cfx_list(re, im), -1));
}

static cfx_value with(const cfx_op_call *c, cfx_tensor *a, cfx_tensor *b) {
    return cfx_op_do_from(c->at, c->op, CFX_ARGS(a, b));
}

/* mm(self, mat2), bmm(self, mat2) */
void cfx__c_complex_product(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (!is_complex(a) || !is_complex(b))
        return;
    cfx_tensor *x = cfx_real(a), *y = cfx_imag(a), *u = cfx_real(b), *v = cfx_imag(b);
    cfx_tensor *re = cfx_sub(with(c, x, u), with(c, y, v));
    c->out[0] = joined(re, cfx_add(with(c, x, v), with(c, y, u)));
}

/* addmm(self, mat1, mat2, *, beta, alpha), baddbmm */
void cfx__c_complex_addmm(cfx_op_call *c) {
    if (!is_complex(arg_tensor(c, 1)))
        return;
    cfx_tensor *product = cfx_matmul(arg_tensor(c, 1), arg_tensor(c, 2));
    c->out[0] = cfx_add(cfx_mul(arg_tensor(c, 0), c->args[3]), cfx_mul(product, c->args[4]));
}

/* linear(input, weight, bias) */
void cfx__c_complex_linear(cfx_op_call *c) {
    cfx_tensor *bias = arg_tensor(c, 2);
    if (!is_complex(arg_tensor(c, 0)))
        return;
    cfx_tensor *product = cfx_matmul(arg_tensor(c, 0), cfx_t(arg_tensor(c, 1)));
    c->out[0] = bias ? cfx_add(product, bias) : product;
}

/* complex(real, imag), polar(abs, angle) */
void cfx__c_of_parts(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    const bool polar = c->op == &cfx_op_polar;
    const cfx_value both = polar ? cfx_tuple(cfx_mul(a, cfx_cos(b)), cfx_mul(a, cfx_sin(b)))
                                 : cfx_broadcast_tensors(a, b);
    c->out[0] = joined(cfx_as_tensor(cfx_at(both, 0)), cfx_as_tensor(cfx_at(both, 1)));
}

/* What moves or adds numbers, f(x, ...), does the same to the parts of complex ones. */
void cfx__c_by_parts(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *part[2];
    cfx_value args[CFX_MAX_ARGS];
    if (!is_complex(x))
        return;
    memcpy(args, c->args, (size_t)c->nargs * sizeof *args);
    for (int i = 0; i < 2; i++) {
        args[0] = cfx_tensor_value(i ? cfx_imag(x) : cfx_real(x));
        const cfx_value v = cfx_op_do_from(c->at, c->op, (cfx_args){c->nargs, args, NULL});
        part[i] = cfx_as_tensor(v);
    }
    c->out[0] = joined(part[0], part[1]);
}

/* angle(self) */
void cfx__c_angle(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    if (is_complex(x)) {
        c->out[0] = cfx_atan2(cfx_imag(x), cfx_real(x));
        return;
    }
    cfx_tensor *turned = cfx_mul(cfx_lt(x, 0), 3.14159265358979323846);
    c->out[0] = cfx__dtype_is_float((cfx_dtype)x->dtype)
                    ? cfx_where(cfx_isnan(x), x, cfx_to(turned, cfx_dtype_value(x->dtype)))
                    : turned;
}

/* ---- Fourier transforms ---------------------------------------------------------------------- */

/* The last dim that a transform names. */
static int last_dim(const cfx_op_call *c, int ndim) {
    const int64_t dim = cfx_integer(cfx_at(c->args[1], arg_count(c, 1) - 1));
    return (int)(dim < 0 ? dim + ndim : dim);
}

static cfx_value complex_of(const cfx_tensor *x) {
    return cfx_dtype_value(x->dtype == CFX_F64 ? CFX_C128 : CFX_C64);
}

/* _fft_r2c(self, dim, normalization, onesided): without what mirrors the rest of the last dim */
void cfx__c_fft_r2c(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    const int dim = last_dim(c, x->ndim);
    cfx_tensor *z = cfx_aten__fft_c2c(cfx_to(x, complex_of(x)), c->args[1],
                                      c->args[2], cfx_bool(true));
    const int64_t half = x->shape[dim] / 2 + 1;
    c->out[0] = arg_bool(c, 3) ? cfx_contiguous(cfx_narrow(z, dim, 0, half)) : z;
}

/* _fft_c2r(self, dim, normalization, last_dim_size): the last dim becomes whole. */
void cfx__c_fft_c2r(cfx_op_call *c) {
    cfx_tensor *z = arg_tensor(c, 0);
    const int64_t n = arg_int(c, 3), half = n / 2 + 1;
    const cfx_value norm = c->args[2], back = cfx_bool(false);
    const int dim = last_dim(c, z->ndim);
    cfx_value others = cfx_list_value(0, NULL);
    for (int i = 0; i + 1 < arg_count(c, 1); i++)
        cfx_list_append(cfx_as_list(others), cfx_at(c->args[1], i));
    if (cfx_as_list(others)->len)
        z = cfx_aten__fft_c2c(z, others, norm, back);
    z = cfx_narrow(z, dim, 0, half);
    cfx_tensor *rest = cfx_flip(cfx_narrow(z, dim, 1, n - half), cfx_list(dim));
    z = cfx_cat(cfx_list(z, cfx_conj_physical(rest)), dim);
    c->out[0] = cfx_contiguous(cfx_real(cfx_aten__fft_c2c(z, cfx_list(dim), norm, back)));
}
