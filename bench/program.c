/* Running programs: what a node costs beside its operator. */
#include "bench.h"

enum { NODES = 1000, PARAMETERS = 200 };

typedef struct {
    cfx_program *p;
    cfx_tensor *x;
} data;

static void run_program(void *arg) {
    data *d = arg;
    CFX_SCOPE
    cfx_program_run(d->p, d->x);
}

static void call_operators(void *arg) {
    data *d = arg;
    cfx_tensor *x = d->x;
    for (int i = 0; i < NODES; i++)
        CFX_SCOPE
    cfx_op_do(&cfx_op_relu, x);
}

/* A chain of relus over PARAMETERS inputs that nothing uses, as large models have them. */
static cfx_program *chain(int parameters, const char *target) {
    cfx_graph *g = cfx_graph_new();
    char name[32];
    for (int i = 0; i < parameters; i++) {
        snprintf(name, sizeof name, "p_%d", i);
        cfx_graph_placeholder(g, name, NULL, false, CFX_NONE);
    }
    cfx_node *n = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    for (int i = 0; i < NODES; i++)
        n = cfx_graph_call_function(g, target, cfx_tuple(n), CFX_NONE);
    cfx_graph_output(g, cfx_tuple(n));
    cfx_program *p = cfx_program_new(cfx_graph_module(NULL, g, NULL));
    for (int i = 0; i < parameters; i++) {
        snprintf(name, sizeof name, "w.%d", i);
        cfx_dict_set(p->state, name, cfx_tensor_value(cfx_tensor_from_value(cfx_list(1.0))));
        cfx_program_add_input(p, (cfx_input_spec){.kind = CFX_IN_PARAMETER,
                                                  .name = cfx_graph_first(g)->name,
                                                  .target = name});
    }
    cfx_program_add_input(p, (cfx_input_spec){.kind = CFX_IN_USER, .name = "x"});
    cfx_program_add_output(p, (cfx_output_spec){.kind = CFX_OUT_USER, .name = n->name});
    return p;
}

BENCH(program_overhead) {
    data d = {.x = cfx_tensor_from_value(cfx_list(1.0, 2.0, 3.0, 4.0))};
    d.p = chain(0, "torch.ops.aten.relu.default");
    double ours, calls;
    bench_pair(run_program, &d, call_operators, &d, &ours, &calls);
    bench_row("a node of a program, relu of 4", ours / NODES, "the operator alone", calls / NODES);
    d.p = chain(NODES, "torch.ops.aten.relu.default");
    double more = bench_time(run_program, &d);
    bench_row("a parameter of a program", (more - ours) / NODES, "the operator alone",
              calls / NODES);
}
