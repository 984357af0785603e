/* A pass of one's own: x * sigmoid(x) becomes silu(x). It is a struct and a function, and runs
 * beside those that are there; see docs/ADD_A_PASS.md. */
#include <cfx.h>
#include <string.h>

static bool calls(const cfx_node *n, const char *op) {
    return n->op == CFX_CALL_FUNCTION && n->target.op && !strcmp(cfx_op_name(n->target.op), op);
}

/* The other factor where n is x * sigmoid(x), in either order; NULL where it is not. */
static cfx_node *silu_of(const cfx_node *n) {
    for (int i = 0; calls(n, "aten.mul.Tensor") && i < 2; i++) {
        cfx_value x = cfx_at(n->args, i), s = cfx_at(n->args, 1 - i);
        if (s.tag == CFX_TAG_NODE && calls(cfx_as_node(s), "aten.sigmoid.default") &&
            cfx_equal_values(cfx_at(cfx_as_node(s)->args, 0), x))
            return cfx_as_node(x);
    }
    return NULL;
}

static int run(cfx_program *p, const cfx_dict *options) {
    int changes = 0;
    cfx_graph *g = p->module->graph;
    (void)options;
    cfx_each_node(g, n) {
        cfx_node *x = silu_of(n), *made = NULL;
        if (!x)
            continue;
        CFX_INSERT_BEFORE(g, n)
            made = cfx_graph_call_function(g, "aten.silu.default", cfx_tuple(x), CFX_NONE);
        cfx_node_replace(n, made);
        changes += cfx_graph_erase(n);
    }
    return changes; /* what is new is inferred, the signature follows */
}

static const cfx_pass silu_from_parts = {
    .name = "silu_from_parts",
    .summary = "makes silu(x) of x * sigmoid(x)",
    .promise = CFX_PASS_ROUNDED,
    .run = run,
};

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    x = cfx_call(self, "fc", x);
    return cfx_mul(cfx_sigmoid(x), x);
}

static void report(const cfx_pass_report *r, void *user) {
    (void)user;
    printf("%s: %d changes, %d nodes\n", r->pass->name, r->changes, (int)r->nodes_after);
}

int main(void) {
    cfx_module *m = cfx_module_new("Gate", forward, "x");
    cfx_nn_add(m, "fc", cfx_nn_linear(4, 2));
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_randn(3, 4)), CFX_NONE, CFX_NONE);
    cfx_pass_step steps[] = {{&silu_from_parts, NULL}, {cfx_pass_find("dead_code"), NULL}};
    cfx_pass_manager manager = {.steps = steps, .nsteps = 2, .check = true, .report = report};
    cfx_pass_result r = cfx_passes_run(&manager, p);
    if (r.program)
        cfx_print_code(r.program->module, stdout);
    return cfx_finish(stderr);
}
