/* Looking inside a network while it runs: statistics of every activation, gradients on their way
 * back, and hooks on the nodes of a traced graph. */
#include <cfx.h>

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    x = cfx_call(self, "relu", cfx_call(self, "linear1", x));
    return cfx_sigmoid(cfx_call(self, "linear2", x));
}

static cfx_value gradients(cfx_event *e) {
    printf("%s: gradient in %s, gradient out %s\n", e->module->name,
           cfx_repr(cfx_py("builtins.getattr", cfx_at(e->grad_in, 0), "shape")),
           cfx_repr(cfx_py("builtins.getattr", cfx_at(e->grad_out, 0), "shape")));
    return CFX_NONE;
}

static cfx_value at_node(cfx_event *e) {
    printf("node %s gives %s\n", e->node->name,
           cfx_repr(cfx_py("builtins.getattr", e->out, "shape")));
    return CFX_NONE;
}

static cfx_value halve(cfx_event *e) { return cfx_tensor_value(cfx_mul(e->out, 0.5)); }

int main(void) {
    cfx_manual_seed(0);
    cfx_module *net = cfx_module_new("Net", forward, "x");
    cfx_nn_add(net, "linear1", cfx_nn_linear(10, 16));
    cfx_nn_add(net, "relu", cfx_nn_relu());
    cfx_nn_add(net, "linear2", cfx_nn_linear(16, 4));

    cfx_watch *watch = cfx_watch_new(net, "*");
    cfx_forward(net, cfx_randn(64, 10));
    cfx_watch_print(watch, stdout);
    cfx_watch_stop(watch);

    cfx_backward_hook(net, "linear1", gradients, NULL);
    cfx_backward_hook(net, "linear2", gradients, NULL);
    cfx_tensor *x = cfx_requires_grad(cfx_ones(2, 10), true);
    cfx_backward(cfx_sum(cfx_forward(net, x)));

    cfx_module *gm = cfx_symbolic_trace(net);
    cfx_node_hook(gm, "*", at_node, NULL);
    cfx_hook_handle *half = cfx_node_hook(gm, "op:sigmoid", halve, NULL);
    cfx_set_grad_mode(CFX_NO_GRAD);
    double halved = cfx_tensor_get(cfx_forward(gm, x), 0);
    cfx_hook_remove(half);
    printf("halved: %.4f of %.4f\n", halved, cfx_tensor_get(cfx_forward(net, x), 0));
    return cfx_finish(stderr);
}
