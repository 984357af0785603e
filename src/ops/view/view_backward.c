/* The backward operators of views by position: zeros, with the gradient where the view was. */
#include <cfx/ops.h>

#include "../ops.h"

CFX_FAMILY(VIEW);

/* The zeros that argument 1, the sizes of what the view was taken of, asks for. */
static cfx_tensor *zeros_of_sizes(cfx_op_call *c) { return cfx_new_zeros(c->args[0], c->args[1]); }

static void decompose_select_backward(cfx_op_call *c) {
    c->out[0] = cfx_select_scatter(zeros_of_sizes(c), c->args[0], c->args[2], c->args[3]);
}

static void decompose_slice_backward(cfx_op_call *c) {
    c->out[0] = cfx_slice_scatter(zeros_of_sizes(c), c->args[0], c->args[2], c->args[3], c->args[4],
                                  c->args[5]);
}

static void decompose_diagonal_backward(cfx_op_call *c) {
    c->out[0] = cfx_diagonal_scatter(zeros_of_sizes(c), c->args[0], c->args[2], c->args[3],
                                     c->args[4]);
}

static void decompose_trace_backward(cfx_op_call *c) {
    int64_t sizes[CFX_MAX_DIMS];
    if (arg_ints(c, 1, sizes) != 2) {
        op_fail(c, "expected matrix input");
        return;
    }
    int64_t n = sizes[0] < sizes[1] ? sizes[0] : sizes[1];
    cfx_tensor *line = cfx_expand(c->args[0], cfx_ints_value(1, &n));
    c->out[0] = cfx_diagonal_scatter(zeros_of_sizes(c), line);
}

/* The out= forms of these keep the usual name. */
CFX_OP(select_backward) = {
    "aten::select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> "
    "Tensor",
    NULL, .decompose = decompose_select_backward, .core = decompose_select_backward,
    .out = "out"};
CFX_OP(slice_backward) = {
    "aten::slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt "
    "end, SymInt step) -> Tensor",
    NULL, .decompose = decompose_slice_backward, .core = decompose_slice_backward,
    .out = "out"};
CFX_OP(diagonal_backward) = {
    "aten::diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int "
    "dim2) -> Tensor",
    NULL, .decompose = decompose_diagonal_backward, .core = decompose_diagonal_backward,
    .out = "out"};
CFX_OP(trace_backward) = {"aten::trace_backward(Tensor grad, SymInt[] sizes) -> Tensor", NULL,
                          .decompose = decompose_trace_backward, .effects = CFX_COMPOSITE};
