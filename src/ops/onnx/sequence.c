/* Sequences, which are lists here, and optional values, which are None where there is none. */
#include "onnx.h"

CFX_FAMILY(OTHER);

ONNX_OP(SequenceConstruct) { c->result = c->args[0]; }
ONNX_OP(SequenceEmpty) { c->result = cfx_list_value(0, NULL); }

/* A place in a sequence of n that a tensor names, behind its last item too where `behind`, or -1,
 * with an error. */
static int64_t place(cfx_op_call *c, int i, int64_t other, int64_t n, bool behind) {
    int64_t at;
    if (!onnx_int(c, i, other, &at))
        return -1;
    if (at < -n || at >= n + behind) {
        op_fail(c, "%s: there is no place %lld in a sequence of %lld", op_title(c), (long long)at,
                (long long)n);
        return -1;
    }
    return at < 0 ? at + n : at;
}

ONNX_OP(SequenceAt) {
    int64_t at = place(c, 1, 0, arg_count(c, 0), false);
    if (at >= 0)
        OUT(0) = arg_item(c, 0, at);
}

ONNX_OP(SequenceErase) {
    int64_t n = arg_count(c, 0), at = place(c, 1, n - 1, n, false);
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < n && at >= 0; i++)
        if (i != at)
            cfx_list_append(cfx_as_list(out), cfx_at(c->args[0], i));
    c->result = out;
}

ONNX_OP(SequenceInsert) { /* input_sequence, tensor, position */
    int64_t n = arg_count(c, 0), at = place(c, 2, n, n, true);
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i <= n && at >= 0; i++) {
        if (i == at)
            cfx_list_append(cfx_as_list(out), c->args[1]);
        if (i < n)
            cfx_list_append(cfx_as_list(out), cfx_at(c->args[0], i));
    }
    c->result = out;
}

/* A number that is known, also of fake tensors. */
static cfx_tensor *number(cfx_op_call *c, int64_t n) {
    cfx_tensor *known = cfx_tensor_new(CFX_I64, 0, NULL, &n);
    if (!c->fake)
        return known;
    cfx_tensor *t = cfx_full(cfx_list_value(0, NULL), n,
                             CFX_KW(dtype, cfx_dtype_value(CFX_I64)));
    if (cfx_ok())
        cfx__tensor_know(t, known);
    return t;
}

ONNX_OP(SequenceLength) { OUT(0) = number(c, arg_count(c, 0)); }

ONNX_OP(ConcatFromSequence) { /* input_sequence, axis, new_axis */
    OUT(0) = arg_bool(c, 2) ? cfx_stack(c->args[0], arg_int(c, 1))
                            : cfx_cat(c->args[0], arg_int(c, 1));
}

/* Parts of one size (the last may be smaller), of given sizes, or single ones, without their
 * dimension where it is not kept. */
ONNX_OP(SplitToSequence) { /* input, split, axis, keepdims */
    cfx_tensor *x = T(0);
    int axis = onnx_axis(c, arg_int(c, 2), x->ndim);
    if (axis < 0)
        return;
    if (arg_is_none(c, 1)) {
        c->result = arg_bool(c, 3) ? cfx_split(x, 1, axis) : cfx_unbind(x, axis);
        return;
    }
    const cfx_tensor *split = onnx_numbers(c, 1);
    cfx_value sizes = cfx_list_value(0, NULL);
    for (int64_t i = 0; split && i < split->numel; i++)
        cfx_list_append(cfx_as_list(sizes), cfx__tensor_get(split, i));
    if (split)
        c->result = split->ndim ? cfx_split_with_sizes(x, sizes, axis)
                                : cfx_split(x, cfx_at(sizes, 0), axis);
}

CFX_OP(onnx_SequenceConstruct) = {
    "onnx::SequenceConstruct(Tensor[] inputs) -> Tensor[]",
    ONNX(SequenceConstruct, 11)};
CFX_OP(onnx_SequenceEmpty) = {
    "onnx::SequenceEmpty(*, str? dtype=None) -> Tensor[]",
    ONNX(SequenceEmpty, 11)};
CFX_OP(onnx_SequenceAt) = {
    "onnx::SequenceAt(Tensor[] input_sequence, Tensor position) -> Tensor",
    ONNX(SequenceAt, 11)};
CFX_OP(onnx_SequenceErase) = {
    "onnx::SequenceErase(Tensor[] input_sequence, Tensor? position=None) -> Tensor[]",
    ONNX(SequenceErase, 11)};
CFX_OP(onnx_SequenceInsert) = {
    "onnx::SequenceInsert(Tensor[] input_sequence, Tensor tensor, Tensor? position=None) -> "
    "Tensor[]",
    ONNX(SequenceInsert, 11)};
CFX_OP(onnx_SequenceLength) = {
    "onnx::SequenceLength(Tensor[] input_sequence) -> Tensor",
    ONNX(SequenceLength, 11)};
CFX_OP(onnx_ConcatFromSequence) = {
    "onnx::ConcatFromSequence(Tensor[] input_sequence, *, int axis, int new_axis=0) -> Tensor",
    ONNX(ConcatFromSequence, 11)};
CFX_OP(onnx_SplitToSequence) = {
    "onnx::SplitToSequence(Tensor input, Tensor? split=None, *, int axis=0, int keepdims=1) -> "
    "Tensor[]",
    ONNX(SplitToSequence, 11)};

/* ---- optional values ------------------------------------------------------------------------- */

ONNX_OP(Optional) { c->result = c->args[0]; }

ONNX_OP(OptionalGetElement) {
    c->result = c->args[0];
    if (arg_is_none(c, 0))
        op_fail(c, "OptionalGetElement: there is none");
}

ONNX_OP(OptionalHasElement) {
    bool has = !arg_is_none(c, 0);
    cfx_tensor *known = cfx_tensor_new(CFX_BOOL, 0, NULL, &has);
    OUT(0) = known;
    if (!c->fake)
        return;
    OUT(0) = cfx_full(cfx_list_value(0, NULL), has, CFX_KW(dtype, cfx_dtype_value(CFX_BOOL)));
    if (cfx_ok())
        cfx__tensor_know(OUT(0), known);
}

CFX_OP(onnx_Optional) = {"onnx::Optional(t? input=None) -> t", ONNX(Optional, 15)};
CFX_OP(onnx_OptionalGetElement) = {
    "onnx::OptionalGetElement(t? input) -> t",
    ONNX(OptionalGetElement, 15)};
CFX_OP(onnx_OptionalHasElement) = {
    "onnx::OptionalHasElement(t? input=None) -> Tensor",
    ONNX(OptionalHasElement, 15)};
