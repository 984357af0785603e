/* A pass written as mathematics: a node as an operand appends to its graph. x * sigmoid(x) becomes
 * silu(x), in a traced module and in an exported program. */
#include <cfx.h>

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    x = cfx_call(self, "fc", x);
    return cfx_mul(x, cfx_sigmoid(x));
}

/* How many were found. */
static int silu_from_parts(cfx_graph *g) {
    int changes = 0;
    cfx_each_node(g, n) {
        cfx_node *x = cfx_node_input(n, 0), *s = cfx_node_input(n, 1);
        if (!cfx_node_is(n, "mul") || !cfx_node_is(s, "sigmoid") || cfx_node_input(s, 0) != x)
            continue;
        cfx_node_replace(n, cfx_silu(x));
        changes++;
    }
    cfx_graph_eliminate_dead_code(g);
    return changes;
}

int main(void) {
    cfx_module *m = cfx_module_new("Net", forward, "x");
    cfx_nn_add(m, "fc", cfx_nn_linear(4, 4));
    cfx_tensor *x = cfx_randn(2, 4), *want = cfx_forward(m, x);

    cfx_module *gm = cfx_symbolic_trace(m);
    cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE);
    printf("%d in the module, %d in the program\n", silu_from_parts(gm->graph),
           silu_from_parts(p->module->graph));
    cfx_print_code(gm, stdout);
    printf("%s\n", cfx_graph_str(p->module->graph));

    cfx_tensor *by_program = cfx_as_tensor(cfx_program_run(p, x));
    printf("same numbers: %s, %s\n", cfx_str(cfx_allclose(cfx_forward(gm, x), want)),
           cfx_str(cfx_allclose(by_program, want)));
    return cfx_finish(stderr);
}
