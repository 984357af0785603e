/* torch.nn.utils.rnn: packed sequences and back. A packed sequence is the tuple (data, batch_sizes,
 * sorted_indices, unsorted_indices); the last two are None where the sequences came sorted. */
#include <cfx/ops.h>

#include "functional.h"

CFX_FAMILY(RECURRENT);

/* The places of a permutation, turned around. */
static cfx_tensor *inverse_of(cfx_tensor *order) {
    return cfx_scatter(cfx_empty_like(order), 0, order, cfx_arange(order->numel));
}

static void functional_pack_padded_sequence(cfx_op_call *c) {
    cfx_value lengths = c->args[1];
    cfx_tensor *x = arg_tensor(c, 0), *order = NULL, *n;
    const bool first = arg_bool(c, 2);
    n = lengths.tag == CFX_TAG_TENSOR ? cfx_as_tensor(lengths) : cfx_tensor_from_value(lengths);
    if (!arg_bool(c, 3)) {
        cfx_value sorted = cfx_sort(n, CFX_KW(descending, true));
        n = cfx_tensor_at(sorted, 0);
        order = cfx_tensor_at(sorted, 1);
        x = cfx_index_select(x, first ? 0 : 1, order);
    }
    cfx_value packed = cfx_aten__pack_padded_sequence(x, n, cfx_bool(first));
    if (!op_failed())
        c->result = cfx_tuple(cfx_at(packed, 0), cfx_at(packed, 1), order,
                              order ? inverse_of(order) : NULL);
}

static void functional_pack_sequence(cfx_op_call *c) {
    cfx_value lengths = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < arg_count(c, 0); i++) {
        const cfx_tensor *t = arg_item(c, 0, i);
        if (!t->ndim) {
            op_fail_as(INDEX, c, "Dimension specified as 0 but tensor has no dimensions");
            return;
        }
        cfx_list_append(cfx_as_list(lengths), cfx_int(t->shape[0]));
    }
    cfx_tensor *padded = cfx_pad_sequence(c->args[0]);
    if (!op_failed())
        c->result = cfx_py("torch.nn.utils.rnn.pack_padded_sequence", padded, lengths,
                           CFX_KW(enforce_sorted, c->args[1]));
}

static void functional_pad_packed_sequence(cfx_op_call *c) {
    if (arg_count(c, 0) != 4 || !arg_item(c, 0, 0) || !arg_item(c, 0, 1)) {
        op_fail_as(TYPE, c, "pad_packed_sequence: sequence is %s, not a packed sequence",
                   cfx_value_type_name(c->args[0]));
        return;
    }
    const bool first = arg_bool(c, 1);
    cfx_value total = arg_is_none(c, 3) ? cfx_int(-1) : c->args[3];
    cfx_value padded = cfx_aten__pad_packed_sequence(arg_item(c, 0, 0), arg_item(c, 0, 1),
                                                     cfx_bool(first), c->args[2], total);
    cfx_tensor *order = arg_item(c, 0, 3);
    if (op_failed())
        return;
    c->out[0] = cfx_tensor_at(padded, 0);
    c->out[1] = cfx_tensor_at(padded, 1);
    if (order) {
        c->out[0] = cfx_index_select(c->out[0], first ? 0 : 1, order);
        c->out[1] = cfx_index_select(c->out[1], 0, order);
    }
}

static void functional_unpad_sequence(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *lengths = arg_tensor(c, 1);
    cfx_value list = cfx_list_value(0, NULL);
    if (!lengths->data && lengths->numel) {
        cfx__fail_unknown(c->at,
                          "unpad_sequence: the lengths are data, which a fake tensor has not");
        return;
    }
    if (!arg_bool(c, 2))
        x = cfx_transpose(x, 0, 1);
    for (int64_t i = 0; i < lengths->numel && !op_failed(); i++) {
        int64_t n = cfx_integer(cfx__tensor_get(lengths, i));
        cfx_list_append(cfx_as_list(list), CFX_V(cfx_narrow(cfx_select(x, 0, i), 0, 0, n)));
    }
    c->result = list;
}

CFX_OP(python_pack_padded_sequence) = {
    "python::pack_padded_sequence(Tensor input, t lengths, bool batch_first=False, bool "
    "enforce_sorted=True) -> t",
    "torch.nn.utils.rnn.pack_padded_sequence", FUNCTIONAL(pack_padded_sequence)};
CFX_OP(python_pack_sequence) = {
    "python::pack_sequence(Tensor[] sequences, bool enforce_sorted=True) -> t",
    "torch.nn.utils.rnn.pack_sequence", FUNCTIONAL(pack_sequence)};
CFX_OP(python_pad_packed_sequence) = {
    "python::pad_packed_sequence(t sequence, bool batch_first=False, float padding_value=0., int? "
    "total_length=None) -> (Tensor, Tensor)",
    "torch.nn.utils.rnn.pad_packed_sequence", FUNCTIONAL(pad_packed_sequence)};
CFX_OP(python_unpad_sequence) = {
    "python::unpad_sequence(Tensor padded_sequences, Tensor lengths, bool batch_first=False) -> t",
    "torch.nn.utils.rnn.unpad_sequence", FUNCTIONAL(unpad_sequence)};
