/* Regions that are timed: torch.profiler.record_function, as graphs have it. What the first call
 * gives is given to the second, which logs how long it took in between. */

#include "../ops.h"

/* The handle is a tensor of bytes: when the region was entered, in nanoseconds, then its name. */
enum { NAME = sizeof(int64_t) };

static void shape_enter(cfx_op_call *c) {
    int64_t size = (int64_t)(NAME + strlen(arg_text(c, 0)) + 1);
    out_new(c, 0, CFX_U8, 1, &size);
}

static void kernel_enter(cfx_op_call *c) {
    cfx_tensor *t = c->out[0];
    memcpy(t->data + NAME, arg_text(c, 0), (size_t)t->numel - NAME);
    int64_t start = cfx__clock_ns();
    memcpy(t->data, &start, sizeof start);
}

static void kernel_exit(cfx_op_call *c) {
    int64_t end = cfx__clock_ns(), start;
    const cfx_tensor *t = arg_tensor(c, 0);
    if (c->fake)
        return;
    if (t->dtype != CFX_U8 || !cfx_tensor_is_contiguous(t) || t->numel <= NAME ||
        t->data[t->numel - 1]) {
        op_fail(c, "what is given to _record_function_exit is not a region that was entered");
        return;
    }
    memcpy(&start, t->data, sizeof start);
    cfx__log(cfx__text_format("%s: %.3f ms", t->data + NAME, (double)(end - start) / 1e6));
}

CFX_FAMILY(CHECK);
CFX_OP(_record_function_enter) = {
    "profiler::_record_function_enter(str name, str? args=None) -> Tensor", NULL,
    .shape = shape_enter, .kernel = kernel_enter, .effects = CFX_SIDE};
CFX_OP(_record_function_exit) = {"profiler::_record_function_exit(Tensor handle) -> ()", NULL,
                                 .kernel = kernel_exit, .effects = CFX_SIDE};
