/* Bits of integers; bools are single bits. */
#include "../loops.h"

CFX_FAMILY(COMPARE);

#define BITS(k, id, expr)                                                                          \
    INTS_SAY(k, id, #expr, expr)                                                                   \
    BOOLS_SAY(k, id, #expr, expr)                                                                  \
    ROW(id, RULE_SAME, 1, k, #id "_cpu", HAS_INTS(id), HAS_BOOLS(id))
BITS(2, bitwise_and, x &y)
BITS(2, bitwise_or, x | y)
BITS(2, bitwise_xor, x ^ y)

INTS(1, bitwise_not, ~x)
BOOLS(1, bitwise_not, !x)
ROW(bitwise_not, RULE_SAME, 1, 1, "bitwise_not_cpu", HAS_INTS(bitwise_not), HAS_BOOLS(bitwise_not))

/* A shift by less than nothing or by more than there are bits moves all of them out. */
#define OUT(y) ((uint64_t)(y) > 63)
INTS(2, lshift, OUT(y) ? 0 : (int64_t)((uint64_t)x << y))
INTS(2, rshift, x >> (OUT(y) ? 63 : y))
ROW(lshift, RULE_SAME, 1, 2, "lshift_cpu", HAS_INTS(lshift), .no_bool = true)
ROW(rshift, RULE_SAME, 1, 2, "rshift_cpu", HAS_INTS(rshift), .no_bool = true)

CFX_OP(bitwise_and_Tensor) = {"aten::bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor",
                              "torch.bitwise_and Tensor.bitwise_and operator.and_",
                              POINTWISE_IN(bitwise_and, shape_pointwise, CFX_IN_UINT) |
                                  CFX_COMMUTES, .inplace = "Tensor", .out = "Tensor_out"};
CFX_OP(bitwise_and_Scalar) = {"aten::bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                              POINTWISE_IN(bitwise_and, shape_pointwise, CFX_IN_UINT) |
                                  CFX_COMMUTES, .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(bitwise_and_Scalar_Tensor) = {
    "aten::bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", NULL,
    POINTWISE_IN(bitwise_and, shape_pointwise, CFX_IN_UINT) | CFX_COMMUTES,
    .out = "Scalar_Tensor_out"};
CFX_OP(__and___Tensor) = {"aten::__and__.Tensor(Tensor self, Tensor other) -> Tensor",
                          "Tensor.__and__", ALIAS(bitwise_and_Tensor)};
CFX_OP(__and___Scalar) = {"aten::__and__.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                          ALIAS(bitwise_and_Scalar)};
CFX_OP(bitwise_or_Tensor) = {"aten::bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor",
                             "torch.bitwise_or Tensor.bitwise_or operator.or_",
                             POINTWISE_IN(bitwise_or, shape_pointwise, CFX_IN_UINT) | CFX_COMMUTES,
                             .inplace = "Tensor", .out = "Tensor_out"};
CFX_OP(bitwise_or_Scalar) = {"aten::bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                             POINTWISE_IN(bitwise_or, shape_pointwise, CFX_IN_UINT) | CFX_COMMUTES,
                             .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(bitwise_or_Scalar_Tensor) = {
    "aten::bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", NULL,
    POINTWISE_IN(bitwise_or, shape_pointwise, CFX_IN_UINT) | CFX_COMMUTES,
    .out = "Scalar_Tensor_out"};
CFX_OP(__or___Tensor) = {"aten::__or__.Tensor(Tensor self, Tensor other) -> Tensor",
                         "Tensor.__or__", ALIAS(bitwise_or_Tensor)};
CFX_OP(__or___Scalar) = {"aten::__or__.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                         ALIAS(bitwise_or_Scalar)};
CFX_OP(bitwise_xor_Tensor) = {"aten::bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor",
                              "torch.bitwise_xor Tensor.bitwise_xor operator.xor",
                              POINTWISE_IN(bitwise_xor, shape_pointwise, CFX_IN_UINT) |
                                  CFX_COMMUTES, .inplace = "Tensor", .out = "Tensor_out"};
CFX_OP(bitwise_xor_Scalar) = {"aten::bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                              POINTWISE_IN(bitwise_xor, shape_pointwise, CFX_IN_UINT) |
                                  CFX_COMMUTES, .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(bitwise_xor_Scalar_Tensor) = {
    "aten::bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", NULL,
    POINTWISE_IN(bitwise_xor, shape_pointwise, CFX_IN_UINT) | CFX_COMMUTES,
    .out = "Scalar_Tensor_out"};
CFX_OP(__xor___Tensor) = {"aten::__xor__.Tensor(Tensor self, Tensor other) -> Tensor",
                          "Tensor.__xor__", ALIAS(bitwise_xor_Tensor)};
CFX_OP(__xor___Scalar) = {"aten::__xor__.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                          ALIAS(bitwise_xor_Scalar)};
CFX_OP(bitwise_left_shift_Tensor) = {
    "aten::bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor",
    "torch.bitwise_left_shift Tensor.bitwise_left_shift operator.lshift", POINTWISE(lshift),
    .inplace = "Tensor", .out = "Tensor_out"};
CFX_OP(bitwise_left_shift_Tensor_Scalar) = {
    "aten::bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor", NULL,
    POINTWISE(lshift), .inplace = "Tensor_Scalar", .out = "Tensor_Scalar_out"};
CFX_OP(bitwise_left_shift_Scalar_Tensor) = {
    "aten::bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", NULL,
    POINTWISE(lshift), .out = "Scalar_Tensor_out"};
CFX_OP(__lshift___Tensor) = {"aten::__lshift__.Tensor(Tensor self, Tensor other) -> Tensor",
                             "Tensor.__lshift__", POINTWISE(lshift), .out = "Tensor_out"};
CFX_OP(__lshift___Scalar) = {"aten::__lshift__.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                             POINTWISE(lshift), .out = "Scalar_out"};
CFX_OP(bitwise_right_shift_Tensor) = {
    "aten::bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor",
    "torch.bitwise_right_shift Tensor.bitwise_right_shift operator.rshift", POINTWISE(rshift),
    .inplace = "Tensor", .out = "Tensor_out"};
CFX_OP(bitwise_right_shift_Tensor_Scalar) = {
    "aten::bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor", NULL,
    POINTWISE(rshift), .inplace = "Tensor_Scalar", .out = "Tensor_Scalar_out"};
CFX_OP(bitwise_right_shift_Scalar_Tensor) = {
    "aten::bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", NULL,
    POINTWISE(rshift), .out = "Scalar_Tensor_out"};
CFX_OP(__rshift___Tensor) = {"aten::__rshift__.Tensor(Tensor self, Tensor other) -> Tensor",
                             "Tensor.__rshift__", POINTWISE(rshift), .out = "Tensor_out"};
CFX_OP(__rshift___Scalar) = {"aten::__rshift__.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                             POINTWISE(rshift), .out = "Scalar_out"};
/* x &= y and the like: the in-place form of the row's operator. */
static void decompose_written(cfx_op_call *c) {
    cfx_op *form = cfx__op_inplace((cfx_op *)c->op->row);
    if (form)
        c->out[0] = cfx_as_tensor(cfx_op_do(form, c->args[0], c->args[1]));
}

#define WRITTEN(of) .decompose = decompose_written, .row = &cfx_op_##of, .effects = CFX_COMPOSITE

CFX_OP(__iand___Tensor) = {
    "aten::__iand__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", NULL,
    WRITTEN(bitwise_and_Tensor)};
CFX_OP(__iand___Scalar) = {
    "aten::__iand__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", NULL,
    WRITTEN(bitwise_and_Scalar)};
CFX_OP(__ior___Tensor) = {
    "aten::__ior__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", NULL,
    WRITTEN(bitwise_or_Tensor)};
CFX_OP(__ior___Scalar) = {
    "aten::__ior__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", NULL,
    WRITTEN(bitwise_or_Scalar)};
CFX_OP(__ixor___Tensor) = {
    "aten::__ixor__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", NULL,
    WRITTEN(bitwise_xor_Tensor)};
CFX_OP(__ixor___Scalar) = {
    "aten::__ixor__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", NULL,
    WRITTEN(bitwise_xor_Scalar)};
CFX_OP(__ilshift___Tensor) = {
    "aten::__ilshift__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", NULL,
    WRITTEN(__lshift___Tensor)};
CFX_OP(__ilshift___Scalar) = {
    "aten::__ilshift__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", NULL,
    WRITTEN(__lshift___Scalar)};
CFX_OP(__irshift___Tensor) = {
    "aten::__irshift__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", NULL,
    WRITTEN(__rshift___Tensor)};
CFX_OP(__irshift___Scalar) = {
    "aten::__irshift__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", NULL,
    WRITTEN(__rshift___Scalar)};
CFX_OP(bitwise_not) = {"aten::bitwise_not(Tensor self) -> Tensor",
                       "torch.bitwise_not Tensor.bitwise_not operator.invert",
                       POINTWISE(bitwise_not), .inplace = "default", .out = "out"};
