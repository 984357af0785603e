/* Operators as they were in older versions of the operator set: attributes that are inputs now, and
 * operands that were not broadcast by themselves. */
#include "onnx.h"

CFX_FAMILY(MATH);

/* ---- two operands before version 7 ----------------------------------------------------------- */

/* B lies at `axis` of A, and is broadcast behind it, where `broadcast` says so. */
static void call_aligned(cfx_op_call *c, cfx_op *now) {
    cfx_tensor *a = T(0), *b = T(1);
    if (arg_bool(c, 3) && !arg_is_none(c, 2)) {
        int axis = onnx_axis(c, arg_int(c, 2), a->ndim);
        if (axis < 0)
            return;
        for (int n = b->ndim; n < a->ndim - axis; n++)
            b = cfx_unsqueeze(b, -1);
    }
    cfx_value v = cfx_op_do_from(c->at, now, CFX_ARGS(a, b));
    if (!cfx_is_bad(v))
        OUT(0) = cfx_as_tensor(v);
}

#define ALIGNED(name)                                                                              \
    ONNX_OP(name##_v1) { call_aligned(c, &cfx_op_onnx_##name); }
ALIGNED(Add)
ALIGNED(Sub)
ALIGNED(Mul)
ALIGNED(Div)
ALIGNED(Pow)
ALIGNED(And)
ALIGNED(Or)
ALIGNED(Xor)
ALIGNED(Equal)
ALIGNED(Greater)
ALIGNED(Less)
#undef ALIGNED

CFX_OP(onnx_Add_v1) = {
    "onnx::Add.v1(Tensor A, Tensor B, *, int? axis=None, int broadcast=0) -> Tensor",
    ONNX(Add_v1, 1)};
CFX_OP(onnx_Sub_v1) = {
    "onnx::Sub.v1(Tensor A, Tensor B, *, int? axis=None, int broadcast=0) -> Tensor",
    ONNX(Sub_v1, 1)};
CFX_OP(onnx_Mul_v1) = {
    "onnx::Mul.v1(Tensor A, Tensor B, *, int? axis=None, int broadcast=0) -> Tensor",
    ONNX(Mul_v1, 1)};
CFX_OP(onnx_Div_v1) = {
    "onnx::Div.v1(Tensor A, Tensor B, *, int? axis=None, int broadcast=0) -> Tensor",
    ONNX(Div_v1, 1)};
CFX_OP(onnx_Pow_v1) = {
    "onnx::Pow.v1(Tensor A, Tensor B, *, int? axis=None, int broadcast=0) -> Tensor",
    ONNX(Pow_v1, 1)};
CFX_OP(onnx_And_v1) = {
    "onnx::And.v1(Tensor A, Tensor B, *, int? axis=None, int broadcast=0) -> Tensor",
    ONNX(And_v1, 1)};
CFX_OP(onnx_Or_v1) = {
    "onnx::Or.v1(Tensor A, Tensor B, *, int? axis=None, int broadcast=0) -> Tensor",
    ONNX(Or_v1, 1)};
CFX_OP(onnx_Xor_v1) = {
    "onnx::Xor.v1(Tensor A, Tensor B, *, int? axis=None, int broadcast=0) -> Tensor",
    ONNX(Xor_v1, 1)};
CFX_OP(onnx_Equal_v1) = {
    "onnx::Equal.v1(Tensor A, Tensor B, *, int? axis=None, int broadcast=0) -> Tensor",
    ONNX(Equal_v1, 1)};
CFX_OP(onnx_Greater_v1) = {
    "onnx::Greater.v1(Tensor A, Tensor B, *, int? axis=None, int broadcast=0) -> Tensor",
    ONNX(Greater_v1, 1)};
CFX_OP(onnx_Less_v1) = {
    "onnx::Less.v1(Tensor A, Tensor B, *, int? axis=None, int broadcast=0) -> Tensor",
    ONNX(Less_v1, 1)};

/* ---- numbers that were attributes ------------------------------------------------------------ */

ONNX_OP(Clip_v1) { /* input, max, min */
    cfx_value low = c->args[2], high = c->args[1];
    OUT(0) = cfx_is_none(low) && cfx_is_none(high) ? T(0) : cfx_clamp(T(0), low, high);
}

CFX_OP(onnx_Clip_v1) = {
    "onnx::Clip.v1(Tensor input, *, float? max=None, float? min=None) -> Tensor",
    ONNX(Clip_v1, 1)};

/* One slope for each channel, wherever that is. */
ONNX_OP(PRelu_v1) {
    cfx_tensor *slope = T(1);
    OUT(0) = cfx_prelu(T(0), slope->ndim == 1 ? slope : cfx_reshape(slope, cfx_list(-1)));
}

CFX_OP(onnx_PRelu_v1) = {"onnx::PRelu.v1(Tensor X, Tensor slope) -> Tensor", ONNX(PRelu_v1, 1)};

CFX_FAMILY(VIEW);

/* As many times along one axis. */
ONNX_OP(Tile_v1) { /* input, tiles, axis */
    int64_t tiles, axis, repeats[CFX_MAX_DIMS];
    if (!onnx_int(c, 1, 1, &tiles) || !onnx_int(c, 2, 0, &axis) ||
        (axis = onnx_axis(c, axis, T(0)->ndim)) < 0)
        return;
    for (int i = 0; i < T(0)->ndim; i++)
        repeats[i] = i == axis ? tiles : 1;
    OUT(0) = cfx_repeat(T(0), cfx_ints_value(T(0)->ndim, repeats));
}

CFX_OP(onnx_Tile_v1) = {
    "onnx::Tile.v1(Tensor input, Tensor tiles, Tensor axis) -> Tensor",
    ONNX(Tile_v1, 1)};
