/* Packed sequences: sequences of several lengths, longest first, whose steps lie one after another.
 * Step t holds the batch_sizes[t] sequences that have one. Packing, unpacking, and recurrent layers
 * over what is packed. */
#include <cfx/ops.h>

#include "../back.h"
#include "rnn.h"

CFX_FAMILY(RECURRENT);

/* The sizes of the steps, whole numbers of a 1-d tensor that has data; NULL with an error. */
static const int64_t *batch_sizes(const cfx_op_call *c, const cfx_tensor *t, int64_t most) {
    if (t->ndim != 1 || t->dtype != CFX_I64 || !t->numel) {
        op_fail(c, "batch_sizes should be a 1D tensor of int64 with at least one element, got %s",
                cfx__shape_text(t->ndim, t->shape));
        return NULL;
    }
    if (!t->data) {
        cfx__op_needs_data(c);
        return NULL;
    }
    const int64_t *sizes = (const int64_t *)cfx__tensor_contiguous(t)->data;
    int64_t rows = 0;
    for (int64_t i = 0; sizes && i < t->numel; i++) {
        if (sizes[i] <= 0 || (i && sizes[i] > sizes[i - 1]) || sizes[i] > most - rows) {
            op_fail(c,
                    "batch_sizes must be positive, never increase, and add up to the %lld rows "
                    "of the packed data",
                    (long long)most);
            return NULL;
        }
        rows += sizes[i];
    }
    if (sizes && rows != most) {
        op_fail(c, "batch_sizes add up to %lld, the packed data has %lld rows", (long long)rows,
                (long long)most);
        return NULL;
    }
    return sizes;
}

/* ---- packing --------------------------------------------------------------------------------- */

static bool lengths_fit(cfx_op_call *c, const cfx_tensor *x, const cfx_tensor *lengths) {
    const bool first = arg_bool(c, 2);
    if (lengths->ndim != 1 || lengths->dtype != CFX_I64)
        op_fail(c, "'lengths' argument should be a 1D CPU int64 tensor, but got %dD cpu %s tensor",
                lengths->ndim, cfx__dtype_title(lengths->dtype));
    else if (x->ndim < 2 || !x->numel)
        op_fail(c, "Cannot pack empty tensors.");
    else if (lengths->numel != x->shape[first ? 0 : 1])
        op_fail(c,
                "Expected `len(lengths)` to be equal to batch_size, but got %lld (batch_size=%lld)",
                (long long)lengths->numel, (long long)x->shape[first ? 0 : 1]);
    if (op_failed())
        return false;
    const int64_t *n = (const int64_t *)lengths->data, steps = x->shape[first ? 1 : 0];
    for (int64_t i = 0; i < lengths->numel && !op_failed(); i++)
        if (n[i] <= 0)
            op_fail(c, "Length of all samples has to be greater than 0, but found an element in "
                       "'lengths' that is <= 0");
        else if (i && n[i] > n[i - 1])
            op_fail(c,
                    "`lengths` array must be sorted in decreasing order when `enforce_sorted` is "
                    "True. You can pass `enforce_sorted=False` to pack_padded_sequence and/or "
                    "pack_sequence to sidestep this requirement if you do not need ONNX "
                    "exportability.");
        else if (n[i] > steps)
            op_fail(c,
                    "Expected every length to be at most the %lld steps of the input, but got "
                    "%lld",
                    (long long)steps, (long long)n[i]);
    return !op_failed();
}

/* Rows [0, size) of step t of a padded tensor [steps, batch, ...]. */
static cfx_tensor *step_of(const cfx_tensor *x, int64_t t, int64_t size) {
    int64_t shape[CFX_MAX_DIMS];
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    shape[1] = size;
    return cfx__tensor_alias(x, x->ndim - 1, shape + 1, x->stride + 1,
                             x->offset + t * x->stride[0]);
}

static void kernel_pack(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *lengths = cfx__tensor_contiguous(arg_tensor(c, 1));
    c->out[0] = c->out[1] = &cfx__tensor_bad;
    if (!lengths_fit(c, x, lengths))
        return;
    if (arg_bool(c, 2))
        x = cfx_transpose(x, 0, 1);
    const int64_t *n = (const int64_t *)lengths->data, steps = n[0];
    int64_t shape[CFX_MAX_DIMS], rows = 0, left = lengths->numel;
    cfx_tensor *sizes = out_new(c, 1, CFX_I64, 1, &steps);
    if (op_failed())
        return;
    for (int64_t t = 0; t < steps; t++) {
        while (n[left - 1] <= t)
            left--;
        ((int64_t *)sizes->data)[t] = left;
        rows += left;
    }
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    shape[1] = rows;
    cfx_tensor *out = out_new(c, 0, x->dtype, x->ndim - 1, shape + 1);
    for (int64_t t = 0, at = 0; t < steps && !op_failed(); t++) {
        const int64_t size = ((const int64_t *)sizes->data)[t];
        shape[1] = size;
        cfx_tensor *to = cfx__tensor_alias(out, out->ndim, shape + 1, out->stride,
                                           out->offset + at * out->stride[0]);
        cfx__tensor_copy(to, step_of(x, t, size));
        at += size;
    }
}

static void grad_pack(cfx_back *b) {
    back_give(b, 0,
              cfx_aten__pack_padded_sequence_backward(b->gout[0], sizes_of(back_arg(b, 0)),
                                                      b->out[1], b->args[2]));
}

/* What pads: each step of the packed rows, in a tensor [steps, batch, ...] of one number. */
static cfx_tensor *padded(const cfx_op_call *c, cfx_tensor *data, const cfx_tensor *sizes,
                          int64_t steps, int64_t batch, cfx_value number) {
    const int64_t *size = batch_sizes(c, sizes, data->ndim ? data->shape[0] : 0);
    if (!size)
        return &cfx__tensor_bad;
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t t = 0, at = 0; t < steps && !op_failed(); t++) {
        const int64_t n = t < sizes->numel ? size[t] : 0;
        cfx_tensor *step = cfx_narrow(data, 0, at, n);
        cfx_value pads = cfx_list_value(0, NULL);
        for (int d = 0; d < 2 * data->ndim - 1; d++)
            cfx_list_append(cfx_as_list(pads), cfx_int(0));
        cfx_list_append(cfx_as_list(pads), cfx_int(batch - n));
        if (n < batch)
            step = cfx_constant_pad_nd(step, pads, number);
        cfx_list_append(cfx_as_list(list), cfx_tensor_value(step));
        at += n;
    }
    return cfx_stack(list, 0);
}

static void decompose_pack_backward(cfx_op_call *c) {
    int64_t size[CFX_MAX_DIMS];
    cfx_tensor *grad = arg_tensor(c, 0);
    const bool first = arg_bool(c, 3);
    if (arg_ints(c, 1, size) != grad->ndim + 1) {
        op_fail(c, "_pack_padded_sequence_backward: input_size does not fit the gradient");
        return;
    }
    cfx_tensor *out =
        padded(c, grad, arg_tensor(c, 2), size[first ? 1 : 0], size[first ? 0 : 1], cfx_int(0));
    c->out[0] = first ? cfx_transpose(out, 0, 1) : out;
}

static void decompose_unpack(cfx_op_call *c) {
    cfx_tensor *data = arg_tensor(c, 0), *sizes = arg_tensor(c, 1);
    const int64_t *size = batch_sizes(c, sizes, data->ndim ? data->shape[0] : 0);
    int64_t steps = sizes->numel, total = arg_int(c, 4);
    if (!size)
        return;
    if (total > 0 && total < steps) {
        op_fail_as(VALUE, c,
                   "Expected total_length to be at least the length of the longest sequence in "
                   "input, but got total_length=%lld and max sequence length being %lld",
                   (long long)total, (long long)steps);
        return;
    }
    const int64_t batch = size[0];
    cfx_tensor *lengths = cfx__tensor_empty(c->at, CFX_I64, false, 1, &batch, NULL);
    if (op_failed())
        return;
    for (int64_t t = 0; t < steps; t++)
        for (int64_t i = 0; i < size[t]; i++)
            ((int64_t *)lengths->data)[i] = t + 1;
    cfx_tensor *out = padded(c, data, sizes, total > 0 ? total : steps, batch, c->args[3]);
    c->out[0] = arg_bool(c, 2) ? cfx_transpose(out, 0, 1) : out;
    c->out[1] = lengths;
}

CFX_OP(_pack_padded_sequence) = {
    "aten::_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, "
    "Tensor)",
    "torch._pack_padded_sequence",
    .kernel = kernel_pack,
    .dtypes = CFX_IN_ANY,
    .effects = CFX_DATA_SHAPE,
    GRAD(pack, RESULT(1)), .out = "out"};
CFX_OP(_pack_padded_sequence_backward) = {
    "aten::_pack_padded_sequence_backward(Tensor grad, SymInt[] input_size, Tensor batch_sizes, "
    "bool batch_first) -> Tensor",
    "torch._pack_padded_sequence_backward", .decompose = decompose_pack_backward,
    .effects = CFX_COMPOSITE};
CFX_OP(_pad_packed_sequence) = {
    "aten::_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar "
    "padding_value, int total_length) -> (Tensor, Tensor)",
    "torch._pad_packed_sequence", .decompose = decompose_unpack, .effects = CFX_COMPOSITE};

/* ---- sequences of several lengths, padded ---------------------------------------------------- */

static void decompose_pad_sequence(cfx_op_call *c) {
    const bool first = arg_bool(c, 1), left = !strcmp(arg_text(c, 3), "left");
    const int64_t n = arg_count(c, 0);
    int64_t most = 0;
    if (!n)
        op_fail(c, "received an empty list of sequences");
    else if (!left && strcmp(arg_text(c, 3), "right"))
        op_fail(c, "Expected padding_side to be one of left or right, but got %s.", arg_text(c, 3));
    const cfx_tensor *one = n ? arg_item(c, 0, 0) : NULL;
    for (int64_t i = 0; i < n && !op_failed(); i++) {
        const cfx_tensor *t = arg_item(c, 0, i);
        bool same = t->ndim == one->ndim && t->ndim > 0;
        for (int d = 1; same && d < t->ndim; d++)
            same = t->shape[d] == one->shape[d];
        if (!same)
            op_fail(c, "The sizes of the sequences must be the same in all dims but the first");
        else if (t->shape[0] > most)
            most = t->shape[0];
    }
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < n && !op_failed(); i++) {
        cfx_tensor *t = arg_item(c, 0, i);
        cfx_value pads = cfx_list_value(0, NULL);
        for (int d = 0; d < 2 * t->ndim - 2; d++)
            cfx_list_append(cfx_as_list(pads), cfx_int(0));
        const int64_t more = most - t->shape[0];
        cfx_list_append(cfx_as_list(pads), cfx_int(left ? more : 0));
        cfx_list_append(cfx_as_list(pads), cfx_int(left ? 0 : more));
        cfx_list_append(cfx_as_list(list), CFX_V(cfx_constant_pad_nd(t, pads, c->args[2])));
    }
    c->out[0] = cfx_stack(list, first ? 0 : 1);
}

CFX_OP(pad_sequence) = {
    "aten::pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0., str "
    "padding_side=\"right\") -> Tensor",
    "torch.nn.utils.rnn.pad_sequence", .decompose = decompose_pad_sequence,
    .effects = CFX_COMPOSITE};

/* ---- recurrent layers over packed sequences -------------------------------------------------- */

static void shape_packed(cfx_op_call *c) {
    rnn r;
    if (!rnn_read(c, &r))
        return;
    const int64_t n = r.layers * r.directions;
    out_new(c, 0, r.x->dtype, 2, (int64_t[]){r.x->shape[0], r.directions * r.out});
    out_new(c, 1, r.x->dtype, 3, (int64_t[]){n, r.batch, r.out});
    if (r.cx)
        out_new(c, 2, r.x->dtype, 3, (int64_t[]){n, r.batch, r.size});
}

/* Sequences that are new or over leave the state between steps: `ended` has the last states of
 * those that are over, the shortest first. */
static cfx_tensor *resized(cfx_tensor *state, int64_t size, cfx_tensor *start, cfx_value ended) {
    const int64_t before = state->shape[0];
    if (size < before)
        cfx_list_append(cfx_as_list(ended), CFX_V(cfx_narrow(state, 0, size, before - size)));
    if (size > before)
        return cfx_cat(cfx_list(state, cfx_narrow(start, 0, before, size - before)), 0);
    return size < before ? cfx_narrow(state, 0, 0, size) : state;
}

static cfx_tensor *turned(cfx_value list, int dim) {
    cfx_list *l = cfx_as_list(list);
    for (int64_t i = 0, j = l->len - 1; i < j; i++, j--) {
        cfx_value held = l->items[i];
        l->items[i] = l->items[j];
        l->items[j] = held;
    }
    return cfx_cat(list, dim);
}

static cfx_tensor *packed_layer(const cfx_op_call *c, const rnn *r, const rnn_weights *w,
                                cfx_tensor *x, bool reverse, cfx_tensor **h, cfx_tensor **cell) {
    const int64_t *sizes = batch_sizes(c, arg_tensor(c, 1), x->shape[0]);
    if (!sizes || sizes[0] != r->batch) {
        if (sizes)
            op_fail(c, "Expected hidden size (%lld, %lld, %lld), got %s",
                    (long long)(r->layers * r->directions), (long long)sizes[0], (long long)r->out,
                    cfx__shape_text(r->hx->ndim, r->hx->shape));
        return &cfx__tensor_bad;
    }
    const bool lstm = r->kind == RNN_LSTM;
    cfx_tensor *gates = cfx_linear(x, w->w_ih, w->b_ih), *h0 = *h, *c0 = *cell;
    cfx_value outs = cfx_list_value(0, NULL), hs = cfx_list_value(0, NULL),
              cs = cfx_list_value(0, NULL);
    const int64_t begin = reverse ? sizes[r->steps - 1] : sizes[0];
    cfx_tensor *state = cfx_narrow(h0, 0, 0, begin);
    cfx_tensor *other = lstm ? cfx_narrow(c0, 0, 0, begin) : NULL;
    int64_t at = reverse ? x->shape[0] : 0;
    for (int64_t i = 0; i < r->steps && !op_failed(); i++) {
        const int64_t size = sizes[reverse ? r->steps - 1 - i : i];
        at -= reverse ? size : 0;
        state = resized(state, size, h0, hs);
        other = lstm ? resized(other, size, c0, cs) : NULL;
        state = rnn_next(r->kind, w, cfx_narrow(gates, 0, at, size), state, &other);
        cfx_list_append(cfx_as_list(outs), CFX_V(state));
        at += reverse ? 0 : size;
    }
    if (op_failed())
        return &cfx__tensor_bad;
    cfx_list_append(cfx_as_list(hs), CFX_V(state));
    *h = turned(hs, 0);
    if (lstm) {
        cfx_list_append(cfx_as_list(cs), CFX_V(other));
        *cell = turned(cs, 0);
    }
    return reverse ? turned(outs, 0) : cfx_cat(outs, 0);
}

static void decompose_packed(cfx_op_call *c) {
    rnn r;
    if (rnn_read(c, &r))
        rnn_compose(c, &r, packed_layer);
}

#define PACKED(kind, gates)                                                                        \
    .shape = shape_packed, .kernel = kernel_rnn_composed, .decompose = decompose_packed,           \
    .row = &(const rnn_row){kind, gates, true}, .effects = CFX_COMPOSITE | CFX_RANDOM

CFX_OP(lstm_data) = {
    "aten::lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool "
    "has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, "
    "Tensor, Tensor)",
    NULL, PACKED(RNN_LSTM, 4)};
CFX_OP(gru_data) = {
    "aten::gru.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, "
    "int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)",
    NULL, PACKED(RNN_GRU, 3)};
CFX_OP(rnn_tanh_data) = {
    "aten::rnn_tanh.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool "
    "has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, "
    "Tensor)",
    NULL, PACKED(RNN_TANH, 1)};
CFX_OP(rnn_relu_data) = {
    "aten::rnn_relu.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool "
    "has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, "
    "Tensor)",
    NULL, PACKED(RNN_RELU, 1)};
