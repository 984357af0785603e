/* What a model is made of, and what it calls: its graph, and a log of both levels of dispatch while
 * it runs. ("Inspecting and Visualizing Torch FX Graph".) */
#include <cfx.h>

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    x = cfx_call(self, "relu", cfx_call(self, "fc1", x));
    return cfx_call(self, "fc2", x);
}

int main(void) {
    cfx_module *mlp = cfx_module_new("MLP", forward, "x");
    cfx_nn_add(mlp, "fc1", cfx_nn_linear(16, 32));
    cfx_nn_add(mlp, "fc2", cfx_nn_linear(32, 16));
    cfx_nn_add(mlp, "relu", cfx_nn_relu());

    cfx_module *traced = cfx_symbolic_trace(mlp);
    printf("Torch FX Symbolic Traced Graph:\n");
    cfx_print_graph(traced, stdout);

    cfx_tensor *x = cfx_randn(2, 16);
    cfx_grad_mode before = cfx_set_grad_mode(CFX_INFERENCE);
    cfx_mode calls = cfx_function_log(stdout), ops = cfx_dispatch_log(stdout);
    printf("TorchFunctionMode logging:\n");
    cfx_function_mode_push(&calls);
    cfx_forward(traced, x);
    cfx_function_mode_pop();
    printf("TorchDispatchMode logging:\n");
    cfx_dispatch_mode_push(&ops);
    cfx_forward(traced, x);
    cfx_dispatch_mode_pop();
    cfx_set_grad_mode(before);
    return cfx_finish(stderr);
}
