/* A pass of one's own: a relu whose result goes only into max pooling moves behind it, where there
 * is less to do. It is a struct and a function, and runs beside those that are there; see
 * docs/ADD_A_PASS.md. cfx_node_is tells operators apart however they are spelled; relu_, which
 * writes to its input, is another one and stays where it is. */
#include <cfx.h>

/* The relu that n, a max pooling, alone reads; NULL where there is none. */
static cfx_node *relu_before(const cfx_node *n) {
    cfx_node *relu = cfx_node_is(n, "max_pool2d") ? cfx_node_input(n, 0) : NULL;
    return cfx_node_is(relu, "relu") && relu->num_users == 1 ? relu : NULL;
}

static int run(cfx_program *p, const cfx_dict *options) {
    int changes = 0;
    cfx_graph *g = p->module->graph;
    (void)options;
    cfx_each_node(g, n) {
        cfx_node *relu = relu_before(n);
        if (!relu)
            continue;
        cfx_node_replace_input(n, relu, cfx_node_input(relu, 0));
        cfx_node_replace(n, relu);
        cfx_node_move_after(relu, n);
        cfx_node_set_arg(relu, 0, cfx_node_value(n));
        changes++;
    }
    return changes; /* what has changed is inferred, the signature follows */
}

static const cfx_pass relu_last = {
    .name = "relu_last",
    .summary = "moves relu behind max pooling",
    .promise = CFX_PASS_EXACT,
    .run = run,
};

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    x = cfx_max_pool2d(cfx_relu(cfx_call(self, "conv1", x)), 2);
    return cfx_max_pool2d(cfx_relu_(cfx_call(self, "conv2", x)), 2);
}

static void report(const cfx_pass_report *r, void *user) {
    (void)user;
    printf("%s: %d changes, %d nodes\n", r->pass->name, r->changes, (int)r->nodes_after);
}

int main(void) {
    cfx_module *m = cfx_module_new("Net", forward, "x");
    cfx_nn_add(m, "conv1", cfx_nn_conv2d(1, 4, 3));
    cfx_nn_add(m, "conv2", cfx_nn_conv2d(4, 2, 3));
    cfx_tensor *x = cfx_randn(1, 1, 18, 18);
    cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE);
    cfx_pass_step steps[] = {{&relu_last, NULL}, {cfx_pass_find("dead_code"), NULL}};
    cfx_pass_manager manager = {.steps = steps, .nsteps = 2, .check = true, .report = report};
    cfx_pass_result r = cfx_passes_run(&manager, p);
    if (r.program) {
        cfx_print_code(r.program->module, stdout);
        cfx_tensor *y = cfx_as_tensor(cfx_program_run(r.program, x));
        printf("same numbers: %s\n", cfx_str(cfx_allclose(y, cfx_forward(m, x))));
    }
    return cfx_finish(stderr);
}
