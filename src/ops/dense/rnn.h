/* rnn: recurrent layers. The arguments of all four operators are alike: input, hx, params,
 * has_biases, num_layers, dropout, train, bidirectional, batch_first. Those of packed sequences
 * have batch_sizes behind the input, and no batch_first. */
#ifndef CFX__RNN_H
#define CFX__RNN_H

#include "../ops.h"

typedef enum { RNN_LSTM, RNN_GRU, RNN_TANH, RNN_RELU } rnn_kind;

typedef struct {
    rnn_kind kind;
    int gates;
    bool packed;
} rnn_row;

/* A call, checked. */
typedef struct {
    rnn_kind kind;
    int64_t gates, layers, directions, steps, batch, in, size,
        out; /* out: size of the state seen */
    bool biases, projected, batch_first;
    int packed;     /* 1 for packed sequences, 0 otherwise: by so much arguments are shifted */
    int per;        /* parameters of one layer and direction */
    double dropout; /* between layers; 0 where there is none */
    const cfx_tensor *x;
    cfx_tensor *hx, *cx;
} rnn;

/* Reads and checks the arguments. False with an error. */
bool rnn_read(cfx_op_call *c, rnn *r);
static inline cfx_tensor *rnn_param(const cfx_op_call *c, const rnn *r, int64_t layer, int which) {
    return arg_item(c, 2 + r->packed, layer * r->per + which);
}

typedef struct {
    cfx_tensor *w_ih, *w_hh, *b_ih, *b_hh, *w_hr;
} rnn_weights;

/* The state after one step, in operators: from x, what the input gives to the gates, and the state
 * h before. *cell is lstm's second state. */
cfx_tensor *rnn_next(rnn_kind kind, const rnn_weights *w, cfx_tensor *x, cfx_tensor *h,
                     cfx_tensor **cell);
/* One layer in one direction, in operators: what it gives for the input x. *h and *cell become the
 * last states. */
typedef cfx_tensor *rnn_layer_fn(const cfx_op_call *c, const rnn *r, const rnn_weights *w,
                                 cfx_tensor *x, bool reverse, cfx_tensor **h, cfx_tensor **cell);
/* All layers. */
void rnn_compose(cfx_op_call *c, const rnn *r, rnn_layer_fn *layer);
/* The operator by way of others, and a kernel that is no more than that. */
void decompose_rnn(cfx_op_call *c);
void kernel_rnn_composed(cfx_op_call *c);

#endif
