/* Recurrent layers written out in other operators, as PyTorch decomposes them, and single cells. */
#include <cfx/ops.h>

#include "rnn.h"

CFX_FAMILY(RECURRENT);

/* ---- steps ----------------------------------------------------------------------------------- */

static cfx_tensor *item(cfx_value list, int64_t i) {
    return op_failed() ? &cfx__tensor_bad : cfx_tensor_at(list, i);
}

static rnn_weights weights_of(const cfx_op_call *c, const rnn *r, int64_t i) {
    rnn_weights w = {rnn_param(c, r, i, 0), rnn_param(c, r, i, 1), NULL, NULL, NULL};
    if (r->biases)
        w.b_ih = rnn_param(c, r, i, 2), w.b_hh = rnn_param(c, r, i, 3);
    if (r->projected)
        w.w_hr = rnn_param(c, r, i, r->per - 1);
    return w;
}

/* Here and below calls stand one by one: graphs show them in this order. */
cfx_tensor *rnn_next(rnn_kind kind, const rnn_weights *w, cfx_tensor *x, cfx_tensor *h,
                     cfx_tensor **cell) {
    const int last = h->ndim - 1;
    if (kind == RNN_GRU) {
        cfx_value from_x = cfx_chunk(x, 3, 1);
        cfx_value from_h = cfx_chunk(cfx_linear(h, w->w_hh, w->b_hh), 3, last);
        cfx_tensor *reset = cfx_sigmoid(cfx_add(item(from_h, 0), item(from_x, 0)));
        cfx_tensor *keep = cfx_sigmoid(cfx_add(item(from_h, 1), item(from_x, 1)));
        cfx_tensor *fresh = cfx_tanh(cfx_add(item(from_x, 2), cfx_mul(item(from_h, 2), reset)));
        return cfx_add(cfx_mul(cfx_sub(h, fresh), keep), fresh);
    }
    cfx_tensor *sum = cfx_add(cfx_linear(h, w->w_hh, w->b_hh), x);
    if (kind != RNN_LSTM)
        return kind == RNN_TANH ? cfx_tanh(sum) : cfx_relu(sum);
    cfx_value gates = cfx_chunk(sum, 4, last);
    cfx_tensor *in = cfx_sigmoid(item(gates, 0));
    cfx_tensor *forget = cfx_sigmoid(item(gates, 1));
    cfx_tensor *fresh = cfx_tanh(item(gates, 2));
    cfx_tensor *out = cfx_sigmoid(item(gates, 3));
    cfx_tensor *kept = cfx_mul(forget, *cell);
    *cell = cfx_add(kept, cfx_mul(in, fresh));
    cfx_tensor *y = cfx_mul(out, cfx_tanh(*cell));
    return w->w_hr ? cfx_linear(y, w->w_hr, cfx_none()) : y;
}

/* One layer in one direction; *h and *cell become the last states. PyTorch's own decomposition of
 * lstm squeezes the wrong dim of them, which gives states of a wrong shape; this one does not. */
static cfx_tensor *layer(const cfx_op_call *c, const rnn *r, const rnn_weights *w, cfx_tensor *x,
                         bool reverse, cfx_tensor **h, cfx_tensor **cell) {
    (void)c;
    const bool lstm = r->kind == RNN_LSTM;
    cfx_tensor *state = lstm ? cfx_unsqueeze(*h, 0) : NULL;
    cfx_tensor *other = lstm ? cfx_unsqueeze(*cell, 0) : NULL;
    cfx_tensor *gates = cfx_linear(x, w->w_ih, w->b_ih);
    if (reverse)
        gates = cfx_flip(gates, cfx_list(0));
    if (!lstm)
        state = cfx_unsqueeze(*h, 0);
    cfx_value each = cfx_unbind(gates, 0), outs = cfx_list_value(0, NULL);
    for (int64_t t = 0; t < r->steps && !op_failed(); t++) {
        state = rnn_next(r->kind, w, item(each, t), state, &other);
        cfx_list_append(cfx_as_list(outs), CFX_V(state));
    }
    if (op_failed())
        return &cfx__tensor_bad;
    for (int64_t i = 0, j = r->steps - 1; reverse && i < j; i++, j--) {
        cfx_value swap = cfx_as_list(outs)->items[i];
        cfx_as_list(outs)->items[i] = cfx_as_list(outs)->items[j];
        cfx_as_list(outs)->items[j] = swap;
    }
    cfx_tensor *y = cfx_cat(outs, 0);
    *h = cfx_squeeze(state, 0);
    if (lstm)
        *cell = cfx_squeeze(other, 0);
    return y;
}

void rnn_compose(cfx_op_call *c, const rnn *r, rnn_layer_fn *one) {
    const bool lstm = r->kind == RNN_LSTM;
    cfx_value hs = cfx_unbind(r->hx, 0);
    cfx_value cs = lstm ? cfx_unbind(r->cx, 0) : cfx_none();
    cfx_tensor *x = (cfx_tensor *)r->x;
    if (r->batch_first)
        x = cfx_transpose(x, 0, 1);
    cfx_value last_h = cfx_list_value(0, NULL), last_c = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < r->layers && !op_failed(); i++) {
        cfx_tensor *y[2] = {NULL, NULL};
        for (int64_t k = 0; k < r->directions && !op_failed(); k++) {
            const int64_t at = i * r->directions + k;
            const rnn_weights w = weights_of(c, r, at);
            cfx_tensor *h = item(hs, at), *cell = lstm ? item(cs, at) : NULL;
            y[k] = one(c, r, &w, x, k == 1, &h, &cell);
            cfx_list_append(cfx_as_list(last_h), CFX_V(h));
            if (lstm)
                cfx_list_append(cfx_as_list(last_c), CFX_V(cell));
        }
        if (op_failed())
            return;
        x = r->directions == 2 ? cfx_cat(cfx_list(y[0], y[1]), x->ndim - 1) : y[0];
        if (r->dropout > 0 && i < r->layers - 1)
            x = cfx_dropout(x, r->dropout, cfx_bool(true));
    }
    c->out[0] = r->batch_first ? cfx_transpose(x, 0, 1) : x;
    c->out[1] = cfx_stack(last_h, 0);
    if (lstm)
        c->out[2] = cfx_stack(last_c, 0);
}

void decompose_rnn(cfx_op_call *c) {
    rnn r;
    if (rnn_read(c, &r))
        rnn_compose(c, &r, layer);
}

void kernel_rnn_composed(cfx_op_call *c) {
    cfx_value made = cfx__op_decompose(c->at, c->op, c->args);
    for (int i = 0; i < c->nout && !op_failed(); i++)
        cfx__tensor_copy(c->out[i], cfx_tensor_at(made, i));
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* input, hx, w_ih, w_hh, b_ih, b_hh with one state or two. */
static bool cell_fits(cfx_op_call *c, const cfx_tensor *h, int64_t gates, int number) {
    const cfx_tensor *x = arg_tensor(c, 0), *w_ih = arg_tensor(c, 2), *w_hh = arg_tensor(c, 3);
    if (x->ndim < 1 || x->ndim > 2 || h->ndim != x->ndim || w_ih->ndim != 2 || w_hh->ndim != 2) {
        op_fail(c, "Expected input and hidden states of 1 or 2 dimensions and weights of 2");
        return false;
    }
    const int64_t in = x->shape[x->ndim - 1], size = h->shape[h->ndim - 1];
    if (in != w_ih->shape[1])
        op_fail(c, "input has inconsistent input_size: got %lld expected %lld", (long long)in,
                (long long)w_ih->shape[1]);
    else if (x->ndim == 2 && x->shape[0] != h->shape[0])
        op_fail(c, "Input batch size %lld doesn't match hidden%d batch size %lld",
                (long long)x->shape[0], number, (long long)h->shape[0]);
    else if (size != w_hh->shape[1])
        op_fail(c, "hidden%d has inconsistent hidden_size: got %lld, expected %lld", number,
                (long long)size, (long long)w_hh->shape[1]);
    else if (w_hh->shape[0] != gates * size || w_ih->shape[0] != gates * size)
        op_fail(c, "weights of a cell of size %lld must have %lld rows", (long long)size,
                (long long)(gates * size));
    return !op_failed();
}

static void decompose_lstm_cell(cfx_op_call *c) {
    if (arg_count(c, 1) != 2) {
        op_fail(c, "lstm_cell expects two hidden states");
        return;
    }
    cfx_tensor *h = arg_item(c, 1, 0), *cell = arg_item(c, 1, 1);
    if (!cell_fits(c, h, 4, 0) || !cell_fits(c, cell, 4, 1))
        return;
    const int dim = h->ndim - 1;
    cfx_tensor *gates = cfx_add(cfx_linear(h, c->args[3], c->args[5]),
                                cfx_linear(c->args[0], c->args[2], c->args[4]));
    cfx_value part = cfx_chunk(gates, 4, dim);
    cfx_tensor *in = cfx_sigmoid(item(part, 0)), *forget = cfx_sigmoid(item(part, 1));
    cfx_tensor *fresh = cfx_tanh(item(part, 2)), *out = cfx_sigmoid(item(part, 3));
    cfx_tensor *next = cfx_add(cfx_mul(forget, cell), cfx_mul(in, fresh));
    c->out[0] = cfx_mul(out, cfx_tanh(next));
    c->out[1] = next;
}

static void decompose_gru_cell(cfx_op_call *c) {
    cfx_tensor *h = arg_tensor(c, 1);
    if (!cell_fits(c, h, 3, 0))
        return;
    const int dim = h->ndim - 1;
    cfx_value from_x = cfx_chunk(cfx_linear(c->args[0], c->args[2], c->args[4]), 3, dim);
    cfx_value from_h = cfx_chunk(cfx_linear(h, c->args[3], c->args[5]), 3, dim);
    cfx_tensor *reset = cfx_sigmoid(cfx_add(item(from_h, 0), item(from_x, 0)));
    cfx_tensor *keep = cfx_sigmoid(cfx_add(item(from_h, 1), item(from_x, 1)));
    cfx_tensor *fresh = cfx_tanh(cfx_add(item(from_x, 2), cfx_mul(item(from_h, 2), reset)));
    c->out[0] = cfx_add(cfx_mul(cfx_sub(h, fresh), keep), fresh);
}

static void decompose_plain_cell(cfx_op_call *c) {
    cfx_tensor *h = arg_tensor(c, 1);
    if (!cell_fits(c, h, 1, 0))
        return;
    cfx_tensor *sum = cfx_add(cfx_linear(h, c->args[3], c->args[5]),
                              cfx_linear(c->args[0], c->args[2], c->args[4]));
    const rnn_row *row = c->op->row;
    c->out[0] = row->kind == RNN_TANH ? cfx_tanh(sum) : cfx_relu(sum);
}

CFX_OP(lstm_cell) = {"aten::lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? "
                     "b_ih=None, Tensor? "
                     "b_hh=None) -> (Tensor, Tensor)",
                     "torch.lstm_cell", .decompose = decompose_lstm_cell, .effects = CFX_COMPOSITE};
CFX_OP(gru_cell) = {
    "aten::gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? "
    "b_hh=None) -> Tensor",
    "torch.gru_cell", .decompose = decompose_gru_cell, .effects = CFX_COMPOSITE};
CFX_OP(rnn_tanh_cell) = {
    "aten::rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
    "Tensor? b_hh=None) -> Tensor",
    "torch.rnn_tanh_cell", .decompose = decompose_plain_cell,
    .row = &(const rnn_row){RNN_TANH, 1, false}, .effects = CFX_COMPOSITE};
CFX_OP(rnn_relu_cell) = {
    "aten::rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
    "Tensor? b_hh=None) -> Tensor",
    "torch.rnn_relu_cell", .decompose = decompose_plain_cell,
    .row = &(const rnn_row){RNN_RELU, 1, false}, .effects = CFX_COMPOSITE};
