/* Arithmetic of two tensors. */
#include "loops.h"

FIELD2(add, 1, x + p0 * y, (int64_t)((uint64_t)x + (uint64_t)p0 * (uint64_t)y))
FIELD2(sub, 1, x - p0 * y, (int64_t)((uint64_t)x - (uint64_t)p0 * (uint64_t)y))
FIELD2(mul, 1, x *y, (int64_t)((uint64_t)x * (uint64_t)y))

CFX_OP(add_Tensor) = {"aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                      "torch.add Tensor.add operator.add", POINTWISE(add) | CFX_NUMBERS};
CFX_OP(sub_Tensor) = {"aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                      "torch.sub Tensor.sub operator.sub", POINTWISE(sub) | CFX_NUMBERS};
CFX_OP(mul_Tensor) = {"aten::mul.Tensor(Tensor self, Tensor other) -> Tensor",
                      "torch.mul Tensor.mul operator.mul", POINTWISE(mul) | CFX_NUMBERS};

NUMBER1(relu, 1, x > 0 ? x : x != x ? x : 0, x > 0 ? x : 0)
FLOAT1(exp, 10, exp(x))

CFX_OP(relu) = {"aten::relu(Tensor self) -> Tensor", "torch.relu Tensor.relu torch.nn.functional.relu",
                POINTWISE(relu)};
CFX_OP(exp) = {"aten::exp(Tensor self) -> Tensor", "torch.exp Tensor.exp", POINTWISE(exp)};
