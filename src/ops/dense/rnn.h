/* rnn: recurrent layers. The arguments of all four operators are alike: input, hx, params,
 * has_biases, num_layers, dropout, train, bidirectional, batch_first. */
#ifndef CFX__RNN_H
#define CFX__RNN_H

#include "../ops.h"

typedef enum { RNN_LSTM, RNN_GRU, RNN_TANH, RNN_RELU } rnn_kind;

typedef struct {
    rnn_kind kind;
    int gates;
} rnn_row;

/* A call, checked. */
typedef struct {
    rnn_kind kind;
    int64_t gates, layers, directions, steps, batch, in, size,
        out; /* out: size of the state seen */
    bool biases, projected, batch_first;
    int per; /* parameters of one layer and direction */
    const cfx_tensor *x;
    cfx_tensor *hx, *cx;
} rnn;

/* Reads and checks the arguments. False with an error. */
bool rnn_read(cfx_op_call *c, rnn *r);
static inline cfx_tensor *rnn_param(const cfx_op_call *c, const rnn *r, int64_t layer, int which) {
    return arg_item(c, 2, layer * r->per + which);
}
/* The operator by way of others. */
void decompose_rnn(cfx_op_call *c);

#endif
