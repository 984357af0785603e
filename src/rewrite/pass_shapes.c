/* propagate_shapes: infers the result of every node again from the inputs. */
#include "pass.h"

static int forget(cfx_program *p, cfx_module *m, const cfx_dict *options) {
    (void)p, (void)options;
    cfx_each_node(m->graph, n) cfx__node_of(n)->stale = true;
    return 0;
}

static int run(cfx_program *p, const cfx_dict *options) {
    VEC(cfx_value) before = {0};
    int changes = 0;
    cfx_each_node(p->module->graph, n)
        VEC_PUSH(before, cfx_value_keep(cfx_node_get_meta(n, "val")));
    cfx__pass_graphs(p, options, forget);
    bool fine = cfx_program_infer(p);
    size_t i = 0;
    cfx_each_node(p->module->graph, n) {
        cfx_result was = cfx_result_of(before.data[i]), is = cfx_node_result(n);
        changes += !cfx_result_equal(&was, &is);
        cfx_value_drop(before.data[i++]);
    }
    VEC_FREE(before);
    return fine ? changes : -1;
}

const cfx_pass cfx__pass_shapes = {
    .name = "propagate_shapes",
    .summary = "finds out anew what every node computes: shape, strides, dtype",
    .promise = CFX_PASS_EXACT,
    .run = run,
};
