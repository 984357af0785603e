/* Recurrent layers over packed sequences, and torch.nn.utils.rnn. */
#include "test.h"

/* What a layer gives for packed sequences is what it gives for each of them alone. */
static void check_packed(cfx_module *m, bool sorted, bool first) {
    int64_t lengths[] = {4, 2, 3};
    if (sorted)
        lengths[1] = 3, lengths[2] = 2;
    cfx_tensor *x = cfx_randn(cfx_list(3, 4, 5));
    cfx_value packed =
        cfx_py("torch.nn.utils.rnn.pack_padded_sequence", first ? x : cfx_transpose(x, 0, 1),
               cfx_ints_value(3, lengths), CFX_KW(batch_first, cfx_bool(first)),
               CFX_KW(enforce_sorted, cfx_bool(sorted)));
    cfx_value r = cfx_forward_value(m, packed);
    cfx_value padded = cfx_py("torch.nn.utils.rnn.pad_packed_sequence", cfx_at(r, 0),
                              CFX_KW(batch_first, cfx_bool(true)));
    CHECK_STR(cfx_repr(cfx_at(padded, 1)), sorted ? "tensor([4, 3, 2])" : "tensor([4, 2, 3])");
    cfx_value state = cfx_at(r, 1);
    cfx_tensor *h = cfx_as_tensor(state.tag == CFX_TAG_TUPLE ? cfx_at(state, 0) : state);
    for (int64_t i = 0; i < 3 && cfx_ok(); i++) {
        cfx_tensor *alone = cfx_narrow(cfx_select(x, 0, i), 0, 0, lengths[i]);
        cfx_value one = cfx_forward_value(m, cfx_unsqueeze(alone, first ? 0 : 1));
        cfx_tensor *y = cfx_squeeze(cfx_tensor_at(one, 0), first ? 0 : 1);
        cfx_tensor *got = cfx_select(cfx_tensor_at(padded, 0), 0, i);
        CHECK(cfx_as_bool(cfx_allclose(cfx_narrow(got, 0, 0, lengths[i]), y, 1e-5, 1e-6)));
        cfx_value last = cfx_at(one, 1);
        cfx_tensor *lh = cfx_as_tensor(last.tag == CFX_TAG_TUPLE ? cfx_at(last, 0) : last);
        CHECK(cfx_as_bool(cfx_allclose(cfx_select(h, 1, i), cfx_squeeze(lh, 1), 1e-5, 1e-6)));
    }
    CHECK_OK();
}

TEST(recurrent_layers_take_packed_sequences) {
    check_packed(cfx_nn_lstm(5, 3), true, false);
    check_packed(cfx_nn_lstm(5, 3, .bidirectional = true, .num_layers = 2), false, false);
    check_packed(cfx_nn_lstm(5, 4, .proj_size = 2, .batch_first = true), false, true);
    check_packed(cfx_nn_gru(5, 3, .bidirectional = true, .batch_first = true), false, true);
    check_packed(cfx_nn_rnn(5, 3, .nonlinearity = "relu", .no_bias = true), false, false);
}

TEST(sequences_are_packed_as_in_pytorch) {
    cfx_tensor *a = cfx_tensor_from_value(cfx_list(1, 2, 3)),
               *b = cfx_tensor_from_value(cfx_list(4));
    CHECK_STR(cfx_repr(cfx_py("torch.nn.utils.rnn.pack_sequence", cfx_list(a, b))),
              "(tensor([1, 4, 2, 3]), tensor([2, 1, 1]), None, None)");
    CHECK_STR(cfx_repr(cfx_py("torch.nn.utils.rnn.pack_sequence", cfx_list(b, a),
                              CFX_KW(enforce_sorted, cfx_bool(false)))),
              "(tensor([1, 4, 2, 3]), tensor([2, 1, 1]), tensor([1, 0]), tensor([1, 0]))");
    CHECK_STR(cfx_repr(cfx_py("torch.nn.utils.rnn.pad_sequence", cfx_list(b, a),
                              CFX_KW(batch_first, cfx_bool(true)), CFX_KW(padding_value, 9.0),
                              CFX_KW(padding_side, "left"))),
              "tensor([[9, 9, 4],\n        [1, 2, 3]])");
    cfx_py("torch.nn.utils.rnn.pack_padded_sequence", cfx_ones(cfx_list(3, 2)), cfx_list(1, 3));
    CHECK_ERROR(
        "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True.");
    cfx_py("torch.nn.utils.rnn.pack_padded_sequence", cfx_ones(cfx_list(3, 2)), cfx_list(1));
    CHECK_ERROR("Expected `len(lengths)` to be equal to batch_size, but got 1 (batch_size=2)");
    cfx_value packed = cfx_py("torch.nn.utils.rnn.pack_sequence", cfx_list(a, b));
    cfx_py("torch.nn.utils.rnn.pad_packed_sequence", packed, CFX_KW(total_length, 2));
    CHECK_ERROR("Expected total_length to be at least the length of the longest sequence in input, "
                "but got total_length=2 and max sequence length being 3");
}
