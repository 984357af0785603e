/* Recurrent layers: lstm, gru, and plain ones. What the input gives to the gates is one product for
 * all steps; what the state gives is one for each. */
#include <cfx/ops.h>

#include "rnn.h"
#include "gemm.h"
#include "../vecmath.h"

CFX_FAMILY(RECURRENT);

/* One step, as its loops see it. */
typedef struct {
    rnn_kind kind;
    bool f64;
    int64_t size, y_row;
    const void *x, *h;
    void *state, *cell, *y;
} rnn_step;

#define T float
#define FN(x) x##_f32
#include "rnn.inc"
#define T double
#define FN(x) x##_f64
#include "rnn.inc"

/* ---- arguments ------------------------------------------------------------------------------- */

static bool has_shape(cfx_op_call *c, const cfx_tensor *t, const char *what, int ndim,
                      const int64_t *shape) {
    bool same = t && t->ndim == ndim;
    for (int i = 0; same && i < ndim; i++)
        same = t->shape[i] == shape[i];
    if (!same)
        op_fail(c, "Expected %s size %s, got %s", what, cfx__shape_text(ndim, shape),
                t ? cfx__shape_text(t->ndim, t->shape) : "None");
    return same;
}

static bool has_dtype(cfx_op_call *c, const cfx_tensor *t, cfx_dtype d) {
    if (t->dtype == d)
        return true;
    op_fail(c, "expected scalar type %s but found %s", cfx__dtype_title(d),
            cfx__dtype_title(t->dtype));
    return false;
}

static bool params_fit(cfx_op_call *c, const rnn *r) {
    const int64_t wide = r->gates * r->size;
    for (int64_t i = 0; i < r->layers * r->directions; i++) {
        const int64_t in = i < r->directions ? r->in : r->out * r->directions;
        for (int k = 0; k < r->per; k++) {
            const cfx_tensor *t = rnn_param(c, r, i, k);
            const bool bias = r->biases && (k == 2 || k == 3), last = k == r->per - 1;
            if (bias ? !has_shape(c, t, "bias", 1, &wide)
                : r->projected && last
                    ? !has_shape(c, t, "weight_hr", 2, (int64_t[]){r->out, r->size})
                    : !has_shape(c, t, k ? "weight_hh" : "weight_ih", 2,
                                 (int64_t[]){wide, k ? r->out : in}))
                return false;
            if (!has_dtype(c, t, (cfx_dtype)r->x->dtype))
                return false;
        }
    }
    return true;
}

bool rnn_read(cfx_op_call *c, rnn *r) {
    const rnn_row *row = c->op->row;
    const int k = row->packed ? 1 : 0;
    *r = (rnn){.kind = row->kind,
               .gates = row->gates,
               .packed = k,
               .layers = arg_int(c, 4 + k),
               .dropout = arg_bool(c, 6 + k) ? arg_float(c, 5 + k) : 0,
               .directions = arg_bool(c, 7 + k) ? 2 : 1,
               .biases = arg_bool(c, 3 + k),
               .batch_first = !k && arg_bool(c, 8),
               .x = arg_tensor(c, 0)};
    if (row->kind == RNN_LSTM) {
        if (arg_count(c, 1 + k) != 2) {
            op_fail(c, "lstm expects two hidden states");
            return false;
        }
        r->hx = arg_item(c, 1 + k, 0);
        r->cx = arg_item(c, 1 + k, 1);
    } else {
        r->hx = arg_tensor(c, 1 + k);
    }
    if (r->x->ndim != 3 - k || !r->hx || r->hx->ndim != 3 ||
        (row->kind == RNN_LSTM && (!r->cx || r->cx->ndim != 3))) {
        op_fail(c, "input must have %d and hidden states 3 dimensions, got %d and %d", 3 - k,
                r->x->ndim, r->hx ? r->hx->ndim : 0);
        return false;
    }
    r->steps = k ? arg_tensor(c, 1)->numel : r->x->shape[r->batch_first ? 1 : 0];
    r->batch = k ? r->hx->shape[1] : r->x->shape[r->batch_first ? 0 : 1];
    r->in = r->x->shape[2 - k];
    r->out = r->hx->shape[2];
    r->size = r->cx ? r->cx->shape[2] : r->out;
    r->projected = r->size != r->out;
    r->per = (r->biases ? 4 : 2) + r->projected;
    if (r->layers < 1 || r->layers > 1 << 20 ||
        arg_count(c, 2 + k) != r->layers * r->directions * r->per) {
        op_fail(c, "got an incorrect number of RNN parameters");
        return false;
    }
    if (!r->steps) {
        op_fail(c, "Expected sequence length to be larger than 0 in RNN");
        return false;
    }
    if (!cfx__dtype_is_float(r->x->dtype)) {
        op_fail(c, "expected a floating point input, got %s", cfx__dtype_title(r->x->dtype));
        return false;
    }
    const int64_t n = r->layers * r->directions;
    return has_shape(c, r->hx, r->cx ? "hidden[0]" : "hidden", 3,
                     (int64_t[]){n, r->batch, r->out}) &&
           (!r->cx || has_shape(c, r->cx, "hidden[1]", 3, (int64_t[]){n, r->batch, r->size})) &&
           has_dtype(c, r->hx, (cfx_dtype)r->x->dtype) &&
           (!r->cx || has_dtype(c, r->cx, (cfx_dtype)r->x->dtype)) && params_fit(c, r);
}

static void shape_rnn(cfx_op_call *c) {
    rnn r;
    if (!rnn_read(c, &r))
        return;
    const int64_t wide = r.directions * r.out, n = r.layers * r.directions;
    const int64_t shape[] = {r.batch_first ? r.batch : r.steps, r.batch_first ? r.steps : r.batch,
                             wide};
    const int64_t stride[] = {r.batch_first ? wide : r.batch * wide,
                              r.batch_first ? r.batch * wide : wide, 1};
    if (cfx__shape_numel(c->at, 3, shape) < 0)
        return;
    out_strided(c, 0, r.x->dtype, 3, shape, stride);
    out_new(c, 1, r.x->dtype, 3, (int64_t[]){n, r.batch, r.out});
    if (r.cx)
        out_new(c, 2, r.x->dtype, 3, (int64_t[]){n, r.batch, r.size});
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static void step_range(void *arg, int64_t begin, int64_t end) {
    const rnn_step *s = arg;
    if (s->kind == RNN_LSTM)
        (s->f64 ? lstm_step_f64 : lstm_step_f32)(s, begin, end);
    else if (s->kind == RNN_GRU)
        (s->f64 ? gru_step_f64 : gru_step_f32)(s, begin, end);
    else
        (s->f64 ? plain_step_f64 : plain_step_f32)(s, begin, end);
}

/* to = from, n elements of a dtype. */
static void copy(void *to, const void *from, int64_t n, cfx_dtype d) {
    memcpy(to, from, (size_t)(n * cfx_dtype_size(d)));
}

/* One layer in one direction: x [steps, batch, in] to columns of y; states are updated in place. */
static void run_layer(cfx_op_call *c, const rnn *r, int64_t index, const cfx_tensor *x,
                      cfx_tensor *y, void *state, void *cell, cfx_tensor *gates,
                      cfx_tensor *step_gates) {
    const cfx_dtype d = (cfx_dtype)y->dtype;
    const int64_t size = cfx_dtype_size(d), wide = r->gates * r->size,
                  direction = index % r->directions;
    const cfx_tensor *w_ih = rnn_param(c, r, index, 0), *w_hh = rnn_param(c, r, index, 1);
    const cfx_tensor *b_ih = r->biases ? rnn_param(c, r, index, 2) : NULL;
    const cfx_tensor *b_hh = r->biases ? rnn_param(c, r, index, 3) : NULL;
    const int64_t in = x->shape[2];
    linear_run(r->steps * r->batch, x->data, in, w_ih, b_ih, gates, false);
    rnn_step s = {.kind = r->kind,
                  .f64 = d == CFX_F64,
                  .size = r->size,
                  .y_row = r->directions * r->size,
                  .h = step_gates->data,
                  .state = state,
                  .cell = cell};
    for (int64_t t = 0; t < r->steps && !op_failed(); t++) {
        const int64_t at = direction ? r->steps - 1 - t : t;
        linear_run(r->batch, state, r->size, w_hh, b_hh, step_gates, r->steps > 4);
        s.x = gates->data + at * r->batch * wide * size;
        s.y = y->data + (at * r->batch * r->directions + direction) * r->size * size;
        cfx__parallel(r->batch, 1 + 4096 / r->size, step_range, &s);
    }
}

static void kernel_rnn(cfx_op_call *c) {
    rnn r;
    if (!rnn_read(c, &r))
        return;
    if (r.projected || !r.batch || !r.size) {
        kernel_rnn_composed(c);
        return;
    }
    const cfx_dtype d = (cfx_dtype)c->out[0]->dtype;
    const int64_t wide = r.gates * r.size, rows = r.batch * r.size, size = cfx_dtype_size(d);
    cfx_tensor *x = cfx__tensor_contiguous(r.batch_first ? cfx_transpose(r.x, 0, 1) : r.x);
    cfx_tensor *gates =
        cfx__tensor_empty(c->at, d, false, 2, (int64_t[]){r.steps * r.batch, wide}, NULL);
    cfx_tensor *step = cfx__tensor_empty(c->at, d, false, 2, (int64_t[]){r.batch, wide}, NULL);
    const cfx_tensor *hx = cfx__tensor_contiguous(r.hx),
                     *cx = r.cx ? cfx__tensor_contiguous(r.cx) : NULL;
    if (op_failed())
        return;
    char *hy = c->out[1]->data, *cy = r.cx ? c->out[2]->data : NULL;
    copy(hy, hx->data, hx->numel, d);
    if (cy)
        copy(cy, cx->data, cx->numel, d);
    for (int64_t layer = 0; layer < r.layers; layer++) {
        cfx_tensor *y = cfx__tensor_empty(
            c->at, d, false, 3, (int64_t[]){r.steps, r.batch, r.directions * r.size}, NULL);
        for (int64_t k = 0; k < r.directions && !op_failed(); k++) {
            const int64_t i = layer * r.directions + k;
            run_layer(c, &r, i, x, y, hy + i * rows * size, cy ? cy + i * rows * size : NULL, gates,
                      step);
        }
        x = r.dropout > 0 && layer < r.layers - 1
                ? cfx__tensor_contiguous(cfx_dropout(y, r.dropout, cfx_bool(true)))
                : y;
        if (op_failed())
            return;
    }
    cfx__tensor_copy(c->out[0], r.batch_first ? cfx_transpose(x, 0, 1) : x);
}

#define RNN(kind, gates)                                                                           \
    .shape = shape_rnn, .kernel = kernel_rnn, .decompose = decompose_rnn,                          \
    .row = &(const rnn_row){kind, gates, false}, .dtypes = CFX_IN_FLOAT,                           \
    .effects = CFX_COMPOSITE | CFX_CONTIGUOUS_ARGS | CFX_RANDOM

CFX_OP(lstm_input) = {
    "aten::lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, "
    "float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)",
    "torch.lstm", RNN(RNN_LSTM, 4)};
CFX_OP(gru_input) = {
    "aten::gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, "
    "float "
    "dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
    "torch.gru", RNN(RNN_GRU, 3)};
CFX_OP(rnn_tanh_input) = {
    "aten::rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int "
    "num_layers, "
    "float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
    "torch.rnn_tanh", RNN(RNN_TANH, 1)};
CFX_OP(rnn_relu_input) = {
    "aten::rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int "
    "num_layers, "
    "float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
    "torch.rnn_relu", RNN(RNN_RELU, 1)};
