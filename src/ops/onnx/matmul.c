/* Products of matrices, and what is computed of one. */
#include "onnx.h"

CFX_FAMILY(LINEAR);

ONNX_OP(MatMul) {
    cfx_tensor *x = cfx_matmul(onnx_wide(T(0)), onnx_wide(T(1)));
    OUT(0) = onnx_to(x, (cfx_dtype)T(0)->dtype);
}

/* Whether t is added to each row: it has one number for each column. */
static bool is_bias(const cfx_tensor *t, int64_t columns) {
    return !t || (t->numel == columns &&
                  (t->ndim == 1 || (t->ndim == 2 && onnx_size(t, 0) == 1)));
}

/* alpha A B + beta C: a linear layer where it is one. */
static void gemm(cfx_op_call *c, double alpha, double beta, bool trans_a, bool trans_b) {
    cfx_tensor *a = T(0), *b = T(1), *add = T(2);
    if (a->ndim != 2 || b->ndim != 2) {
        op_fail(c, "Gemm: A and B are matrices, not tensors of %d and %d dimensions", a->ndim,
                b->ndim);
        return;
    }
    bool linear = !trans_a && trans_b && alpha == 1 && (beta == 1 || !add) &&
                  is_bias(add, onnx_size(b, 0)) && cfx__dtype_is_float((cfx_dtype)a->dtype);
    if (linear) {
        OUT(0) = cfx_linear(a, b, add && add->ndim == 2 ? cfx_tensor_value(cfx_squeeze(add, 0))
                                                        : cfx_tensor_value(add));
        return;
    }
    a = trans_a ? cfx_t(onnx_wide(a)) : onnx_wide(a);
    b = trans_b ? cfx_t(onnx_wide(b)) : onnx_wide(b);
    cfx_tensor *x;
    if (!add || beta == 0)
        x = alpha == 1 ? cfx_mm(a, b) : cfx_mul(cfx_mm(a, b), alpha);
    else if (cfx__dtype_is_float((cfx_dtype)a->dtype))
        x = cfx_addmm(add, a, b, CFX_KW(beta, beta), CFX_KW(alpha, alpha));
    else
        x = cfx_add(cfx_mul(cfx_mm(a, b), (int64_t)alpha), cfx_mul(onnx_wide(add), (int64_t)beta));
    OUT(0) = onnx_to(x, (cfx_dtype)T(0)->dtype);
}

ONNX_OP(Gemm) { gemm(c, arg_float(c, 3), arg_float(c, 4), arg_bool(c, 5), arg_bool(c, 6)); }
ONNX_OP(Gemm_v1) { gemm(c, arg_float(c, 3), arg_float(c, 4), arg_bool(c, 6), arg_bool(c, 7)); }

ONNX_OP(Einsum) { OUT(0) = cfx_einsum(c->args[1], c->args[0]); }
ONNX_OP(Det) { OUT(0) = cfx_det(T(0)); }

CFX_OP(onnx_MatMul) = {"onnx::MatMul(Tensor A, Tensor B) -> Tensor", ONNX(MatMul, 1)};
CFX_OP(onnx_Gemm) = {
    "onnx::Gemm(Tensor A, Tensor B, Tensor? C=None, *, float alpha=1., float beta=1., int "
    "transA=0, int transB=0) -> Tensor",
    ONNX(Gemm, 7)};
CFX_OP(onnx_Gemm_v1) = {
    "onnx::Gemm.v1(Tensor A, Tensor B, Tensor C, *, float alpha=1., float beta=1., int "
    "broadcast=0, int transA=0, int transB=0) -> Tensor",
    ONNX(Gemm_v1, 1)};
CFX_OP(onnx_Einsum) = {
    "onnx::Einsum(Tensor[] Inputs, *, str equation) -> Tensor",
    ONNX(Einsum, 12)};
CFX_OP(onnx_Det) = {"onnx::Det(Tensor X) -> Tensor", ONNX(Det, 11)};
