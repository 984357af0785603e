/* A pass over a graph: the fusion of "Mastering PyTorch FX Graph", section 5. Their pass drops the
 * ReLU, so the numbers change; the one beside it puts a module in its place that does both. */
#include <cfx.h>

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    return cfx_relu(cfx_call(self, "conv", x));
}

static cfx_module *new_model(void) {
    cfx_module *m = cfx_module_new("ConvReLUModel", forward, "x");
    cfx_manual_seed(0);
    cfx_nn_add(m, "conv", cfx_nn_conv2d(3, 16, 3));
    return m;
}

/* relu(module(...)), and nobody else looks at the module's result */
static cfx_node *fusable(cfx_node *relu) {
    if (!cfx_node_is(relu, "relu"))
        return NULL;
    cfx_node *conv = cfx_node_input(relu, 0);
    return conv && conv->op == CFX_CALL_MODULE && conv->num_users == 1 ? conv : NULL;
}

/* As the document has it: the ReLU is gone. */
static void drop_relu(cfx_module *gm) {
    cfx_each_node(gm->graph, n) {
        cfx_node *conv = fusable(n);
        if (!conv)
            continue;
        printf("Fusing %s and %s...\n", conv->name, n->name);
        cfx_node_replace(n, conv);
        cfx_graph_erase(n);
    }
}

static cfx_tensor *conv_relu(cfx_module *self, cfx_tensor *x) {
    return cfx_relu_(cfx_call(self, "conv", x));
}

/* The real one: the called module becomes one that also applies the ReLU, in place. */
static void fuse_conv_relu(cfx_module *gm) {
    cfx_each_node(gm->graph, n) {
        cfx_node *conv = fusable(n);
        if (!conv)
            continue;
        cfx_module *both = cfx_module_new("ConvReLU2d", conv_relu, "x");
        both->leaf = true;
        cfx_nn_add(both, "conv", cfx_module_find(gm, conv->target.name));
        cfx_nn_add(gm, conv->target.name, both);
        cfx_node_replace(n, conv);
        cfx_graph_erase(n);
    }
}

static double largest_difference(cfx_module *a, cfx_module *b) {
    cfx_tensor *x = cfx_randn(1, 3, 8, 8);
    cfx_tensor *d = cfx_amax(cfx_abs(cfx_sub(cfx_forward(a, x), cfx_forward(b, x))));
    return cfx_tensor_get(d, 0);
}

int main(void) {
    cfx_module *dropped = cfx_symbolic_trace(new_model());
    drop_relu(dropped);
    cfx_print_code(dropped, stdout);

    cfx_module *fused = cfx_symbolic_trace(new_model());
    fuse_conv_relu(fused);
    cfx_graph_lint(fused->graph, fused);
    printf("dropping the ReLU changes the result: %s\n",
           largest_difference(new_model(), dropped) > 0.1 ? "yes" : "no");
    printf("fusing it changes the result: %s\n",
           largest_difference(new_model(), fused) > 0 ? "yes" : "no");
    return cfx_finish(stderr);
}
