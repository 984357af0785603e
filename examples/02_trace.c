/* A model written in C, traced to a graph, shown as a table and as the Python it stands for.
 * (The program of "Mastering PyTorch FX Graph", section 3.) */
#include <cfx.h>

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    return cfx_relu(cfx_call(self, "linear", x));
}

int main(void) {
    cfx_module *model = cfx_module_new("SimpleModel", forward, "x");
    cfx_nn_add(model, "linear", cfx_nn_linear(5, 5));

    cfx_module *traced = cfx_symbolic_trace(model);
    cfx_print_tabular(traced, stdout);
    cfx_print_code(traced, stdout);
    return cfx_finish(stderr);
}
