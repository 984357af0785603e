/* Patterns: relu becomes sigmoid wherever it stands, however it is spelled; and rules put back
 * together what was written out by hand. */
#include <cfx.h>

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    (void)self;
    cfx_tensor *y = cfx_relu(cfx_relu(x));
    cfx_tensor *inner = cfx_add(y, cfx_mul(cfx_pow(y, 3), 0.044715));
    inner = cfx_add(cfx_tanh(cfx_mul(inner, 0.7978845608)), 1);
    return cfx_mul(cfx_mul(y, 0.5), inner);
}

static const char rules[] =
    "gelu_tanh:  x * 0.5 * (1 + tanh((x + x**3 * 0.044715) * 0.7978845608))\n"
    "        -> gelu(x, approximate='tanh')\n"
    "    where dtype(x) in (f32, bf16)\n"
    "wide:  relu(x) -> clamp(x, min=0) where shape(x)[-1] > 100\n";

/* A pass by hand: of two in a row one is enough. */
static int merge_relus(cfx_graph *g) {
    int changes = 0;
    cfx_each_node(g, n) {
        cfx_node *x, *first;
        if (cfx_match(n, "relu(relu(x))", &x, &first)) {
            cfx_node_replace_input(n, first, x);
            changes++;
        }
    }
    return changes + cfx_graph_eliminate_dead_code(g);
}

int main(void) {
    cfx_module *m = cfx_module_new("Written", forward, "x");
    cfx_module *gm = cfx_symbolic_trace(m);
    cfx_matches *found = cfx_replace_pattern(gm, "relu(x)", "sigmoid(x)");
    for (int i = 0; found && i < found->len; i++)
        printf("%s became %s\n", found->items[i].anchor->name,
               cfx_repr(found->items[i].replacements));
    cfx_print_code(gm, stdout);

    cfx_manual_seed(0);
    cfx_tensor *x = cfx_randn(2, 4);
    cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE);
    int changes = 0;
    cfx_program *q = cfx_rewrite(p, cfx_rules_parse(rules, "gelu.rules"), &changes);
    printf("%d rule applied, %d nodes are %d\n", changes, (int)cfx_graph_len(p->module->graph),
           (int)cfx_graph_len(q->module->graph));
    cfx_print_code(q->module, stdout);
    cfx_tensor *difference = cfx_sub(cfx_program_run(p, x), cfx_program_run(q, x));
    printf("the numbers are the same: %s\n",
           cfx_tensor_get(cfx_max(cfx_abs(difference)), 0) < 1e-6 ? "yes" : "no");

    printf("%d changes by hand\n", merge_relus(q->module->graph));
    cfx_print_code(q->module, stdout);

    cfx_rules_parse("gelu: relu(x) -> gelo(x)", "bad.rules");
    printf("%s\n", cfx_error_last()->message);
    cfx_error_clear();
    return cfx_finish(stderr);
}
