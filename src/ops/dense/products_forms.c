/* Products and sums with what follows them in one call, and the product of int8 matrices. */
#include <cfx/ops.h>

#include "../ops.h"

CFX_FAMILY(LINEAR);

static void decompose_int_mm(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (a->ndim != 2 || b->ndim != 2)
        op_fail(c, "Expected %s to be of dimension 2 but got %d", a->ndim != 2 ? "self" : "mat2",
                a->ndim != 2 ? a->ndim : b->ndim);
    else if (a->shape[1] != b->shape[0])
        op_fail(c, "self.size(1) needs to match mat2.size(0) but got %lld and %lld",
                (long long)a->shape[1], (long long)b->shape[0]);
    else if (a->dtype != CFX_I8 && a->dtype != CFX_U8)
        op_fail(c, "Expected self dtype to be of type int8 or uint8 but got %s",
                cfx__dtype_title(a->dtype));
    else if (b->dtype != CFX_I8)
        op_fail(c, "Expected mat2 dtype to be of type int8 but got %s", cfx__dtype_title(b->dtype));
    else
        c->out[0] = cfx_mm(cfx_to(c->args[0], cfx_i32), cfx_to(c->args[1], cfx_i32));
}

static void decompose_addmm_activation(cfx_op_call *c) {
    cfx_value *a = c->args;
    cfx_tensor *y = cfx_addmm(a[0], a[1], a[2], CFX_KW(beta, a[3]), CFX_KW(alpha, a[4]));
    c->out[0] = arg_bool(c, 5) ? cfx_gelu(y) : cfx_relu(y);
}

static void decompose_add_relu(cfx_op_call *c) {
    c->out[0] = cfx_relu(cfx_add(c->args[0], c->args[1], CFX_KW(alpha, c->args[2])));
}

CFX_OP(_int_mm) = {"aten::_int_mm(Tensor self, Tensor mat2) -> Tensor", "torch._int_mm",
                   .decompose = decompose_int_mm, .out = "out"};
CFX_OP(_addmm_activation) = {
    "aten::_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar "
    "alpha=1, bool use_gelu=False) -> Tensor",
    "torch._addmm_activation", .decompose = decompose_addmm_activation, .autocast = CFX_CAST_LOW,
    .out = "out"};
CFX_OP(_add_relu_Tensor) = {
    "aten::_add_relu.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "torch._add_relu", .decompose = decompose_add_relu, .out = "out", .inplace = "Tensor"};
CFX_OP(_add_relu_Scalar) = {
    "aten::_add_relu.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", NULL,
    .decompose = decompose_add_relu, .inplace = "Scalar", .out = "Scalar_out"};
