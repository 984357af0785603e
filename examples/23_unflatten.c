/* From a program back to modules: who ran what, and another module in the place of one of them. */
#include <cfx.h>

static cfx_tensor *block(cfx_module *self, cfx_tensor *x) {
    return cfx_relu(cfx_call(self, "fc", x));
}

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    x = cfx_call(self, "block", cfx_call(self, "block", x)); /* twice the same */
    return cfx_call(self, "head", x);
}

static cfx_tensor *doubled(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return cfx_add(x, x);
}

int main(void) {
    cfx_manual_seed(0);
    cfx_module *m = cfx_module_new("Net", forward, "x"), *b = cfx_module_new("Block", block, "x");
    cfx_nn_add(b, "fc", cfx_nn_linear(2, 2));
    cfx_nn_add(m, "block", b);
    cfx_nn_add(m, "head", cfx_nn_linear(2, 1));
    cfx_tensor *x = cfx_ones(1, 2);

    /* A program is one flat graph; its nodes know which modules they come from. */
    cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE,
                                .preserve_module_call_signature = cfx_list("head"));
    cfx_node *second = cfx_graph_find(p->module->graph, "linear_1");
    printf("%s\n\n", cfx_repr(cfx_node_get_meta(second, "nn_module_stack")));

    /* So the modules can be put together again. Both calls of block do the same: they are one. */
    cfx_module *u = cfx_program_unflatten(p);
    printf("%s\n", cfx_module_str(u));
    printf("%s\n", cfx_module_code(cfx_module_find(u, "block")));
    printf("%s\n\n", cfx_str(cfx_forward(u, x)));

    /* What head takes and gives is as it was: something else can do its work. */
    cfx_nn_add(u, "head", cfx_module_new("Doubled", doubled, "x"));
    printf("%s\n", cfx_str(cfx_forward(u, x)));
    return cfx_finish(stderr);
}
