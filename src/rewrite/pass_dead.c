/* dead_code: removes unused nodes without side effects. */
#include "pass.h"

static int sweep(cfx_program *p, cfx_module *m, const cfx_dict *options) {
    (void)p, (void)options;
    return cfx__graph_sweep(m->graph, cfx_node_is_impure);
}

static int run(cfx_program *p, const cfx_dict *options) {
    return cfx__pass_graphs(p, options, sweep);
}

const cfx_pass cfx__pass_dead_code = {
    .name = "dead_code",
    .summary = "removes what no one uses and that neither writes, draws numbers nor checks",
    .promise = CFX_PASS_EXACT,
    .run = run,
};
