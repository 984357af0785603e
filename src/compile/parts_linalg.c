/* Decompositions of factorisations and solvers into those that have a form in C (call_linalg.c). */
#include <cfx/ops.h>

#include "compile.h"
#include "parts.h"

/* linalg_lu(A, pivot): P, L, U */
void cfx__c_lu(cfx_op_call *c) {
    const cfx_value made = cfx_linalg_lu_factor_ex(c->args[0]);
    const cfx_value all = cfx_lu_unpack(cfx_at(made, 0), cfx_at(made, 1));
    for (int i = 0; i < 3; i++)
        c->out[i] = cfx_tensor_at(all, i);
}

/* x broadcast over the batch of what its matrices are solved with. */
static cfx_tensor *over_batch_of(cfx_tensor *x, const cfx_tensor *other) {
    cfx_value shape = cfx_list_value(0, NULL);
    for (int i = 0; i < other->ndim; i++)
        cfx_list_append(
            cfx_as_list(shape),
            cfx_int(i < other->ndim - 2 ? other->shape[i] : x->shape[x->ndim - other->ndim + i]));
    return cfx_expand(x, shape);
}

/* triangular_solve(self, A, upper, transpose, unitriangular): the solution, and A */
void cfx__c_triangular_solve(cfx_op_call *c) {
    const bool upper = arg_bool(c, 2), transposed = arg_bool(c, 3);
    cfx_tensor *a = arg_tensor(c, 1);
    c->out[0] = cfx_linalg_solve_triangular(transposed ? cfx_mT(a) : a, c->args[0],
                                            CFX_KW(upper, cfx_bool(upper != transposed)),
                                            CFX_KW(unitriangular, c->args[4]));
    c->out[1] = cfx_clone(over_batch_of(a, c->out[0]));
}

/* cholesky_inverse(self, upper): the solution of all columns of the identity */
void cfx__c_cholesky_inverse(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    cfx_tensor *ones =
        cfx_eye(x->shape[x->ndim - 1], CFX_KW(dtype, cfx_dtype_value((cfx_dtype)x->dtype)));
    c->out[0] = cfx_cholesky_solve(over_batch_of(ones, x), x, c->args[1]);
}
