/* Graphs against torch.fx (bench/fx_peer.py): nanoseconds for each node, at several sizes, so that
 * growth shows. The graph is the same on both sides: a chain with branches of three nodes, two of
 * which use what came before. */
#include "bench.h"

#include <math.h>
#include <string.h>

typedef struct {
    int n;             /* nodes */
    cfx_module *chain; /* a forward of n calls */
    cfx_module *gm;    /* the graph of n nodes */
    cfx_module *plain; /* one whose nodes cost nothing but being run */
    cfx_program *program; /* over the graph in ATen */
    cfx_tensor *x;
    bool turned;
} data;

/* ---- what is measured ------------------------------------------------------------------------ */

cfx_program *bench_chain(int n, cfx_tensor *x) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *last = cfx_graph_input(g, "x"), *before = last;
    cfx_node_set_meta(last, "val", cfx_tensor_value(x));
    for (int i = 0; i < n; i += 3)
        CFX_SCOPE {
            cfx_node *a = cfx_graph_call(g, "aten.relu.default", last);
            before = cfx_graph_call(g, "aten.add.Tensor", a, before);
            last = cfx_graph_call(g, "aten.neg.default", before);
        }
    cfx_graph_output(g, cfx_tuple(last));
    cfx_program *p = cfx_program_new(cfx_graph_module(NULL, g, NULL));
    cfx_program_infer(p);
    return p;
}

static cfx_graph *build_graph(int n) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *last = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE), *before = last;
    for (int i = 0; i < n; i += 3)
        CFX_SCOPE {
            cfx_node *a = cfx_graph_call_function(g, "torch.relu", cfx_tuple(last), CFX_NONE);
            cfx_node *b = cfx_graph_call_function(g, "torch.add", cfx_tuple(a, before), CFX_NONE);
            before = b;
            last = cfx_graph_call_method(g, "neg", cfx_tuple(b), CFX_NONE);
        }
    cfx_graph_output(g, cfx_node_value(last));
    return g;
}

static cfx_tensor *relus(cfx_module *self, cfx_tensor *x) {
    for (long i = 0, n = (long)(intptr_t)self->user; i < n; i++)
        x = cfx_relu(x);
    return x;
}

static cfx_value same(cfx_args a) { return a.v[0]; }

static cfx_module *costless(int n) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *last = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_target target = cfx_target_object("same", cfx_function_value(same));
    for (int i = 0; i < n; i++)
        CFX_SCOPE last = cfx_graph_create(g, CFX_CALL_FUNCTION, target, cfx_tuple(last), CFX_NONE,
                                          NULL, NULL);
    cfx_graph_output(g, cfx_node_value(last));
    return cfx_graph_module(NULL, g, NULL);
}

/* add(relu(x), y) becomes sub(relu(x), y), and back the next time. */
static cfx_graph *pair(const char *second) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node *y = cfx_graph_placeholder(g, "y", NULL, false, CFX_NONE);
    cfx_node *a = cfx_graph_call_function(g, "torch.relu", cfx_tuple(x), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(cfx_graph_call_function(g, second, cfx_tuple(a, y),
                                                               CFX_NONE)));
    return g;
}

static void replace_pairs(data *d) {
    const char *from = d->turned ? "torch.sub" : "torch.add";
    const char *to = d->turned ? "torch.add" : "torch.sub";
    d->turned = !d->turned;
    cfx_replace_pattern(d->gm, pair(from), pair(to));
}

#define CASE(id, call)                                                                             \
    static void run_##id(void *p) {                                                                \
        data *d = p;                                                                               \
        CFX_SCOPE (void)(call);                                                                    \
    }
CASE(trace, cfx_symbolic_trace(d->chain))
CASE(build, build_graph(d->n))
CASE(copy, cfx_graph_copy(d->gm->graph))
CASE(cse, cfx_pass_apply(cfx_pass_find("common_subexpressions"), d->program, NULL))
CASE(replace, (replace_pairs(d), 0))
CASE(print, cfx_graph_str(d->gm->graph))
CASE(code, cfx_graph_code(d->gm->graph))
CASE(lint, cfx_graph_lint(d->gm->graph, d->gm))
CASE(dce, cfx_graph_eliminate_dead_code(d->gm->graph))
CASE(interpret, cfx_forward(d->plain, d->x))

static const struct {
    const char *name, *what;
    void (*run)(void *);
    double aim; /* nanoseconds a node; 0: none */
    enum { NOTHING, GRAPH, COSTLESS, PROGRAM } needs;
} cases[] = {
    {"trace", "trace", run_trace, 700, NOTHING},
    {"build", "build", run_build, 200, NOTHING},
    {"copy", "deep copy", run_copy, 150, GRAPH},
    {"cse", "merge equal nodes", run_cse, 0, PROGRAM},
    {"replace_pattern", "replace a pattern", run_replace, 0, GRAPH},
    {"print", "print", run_print, 0, GRAPH},
    {"code", "code", run_code, 400, GRAPH},
    {"lint", "lint", run_lint, 0, GRAPH},
    {"dce", "dead code", run_dce, 0, GRAPH},
    {"interpret", "interpret what does nothing", run_interpret, 150, COSTLESS},
};

BENCH(graphs) {
    static const int sizes[] = {1000, 10000, 100000};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double least = 0, most = 0;
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            size_t mark = cfx_scope_open();
            data d = {.n = sizes[k], .x = cfx_ones(1)};
            d.chain = cfx_module_new("Chain", relus, "x");
            d.chain->user = (void *)(intptr_t)d.n;
            if (cases[i].needs == GRAPH)
                d.gm = cfx_graph_module(NULL, build_graph(d.n), NULL);
            if (cases[i].needs == COSTLESS)
                d.plain = costless(d.n);
            if (cases[i].needs == PROGRAM)
                d.program = bench_chain(d.n, cfx_ones(1));
            char what[96], key[64];
            snprintf(what, sizeof what, "%s, a node of %d", cases[i].what, d.n);
            snprintf(key, sizeof key, "fx_%s_%d", cases[i].name, d.n);
            double ns = bench_cpu_time(cases[i].run, &d) / d.n;
            least = k ? least : ns;
            most = ns;
            bench_row(what, ns, "torch.fx 1.13", bench_torch(key) / d.n);
            cfx_scope_close(mark);
        }
        printf("  %s: %.2f times as much a node at %d as at %d", cases[i].name, most / least,
               sizes[2], sizes[0]);
        if (cases[i].aim > 0)
            printf("; the aim is %.0f ns", cases[i].aim);
        printf("\n");
    }
}

/* ---- rules ----------------------------------------------------------------------------------- */

typedef struct {
    cfx_rules *rules;
    cfx_module *gm;
} rewriting;

/* Rules with some sixty roots; none of them fits, so that the graph stays as it is. */
static cfx_rules *many_rules(int n) {
    static const char *const names[] = {"relu", "sigmoid", "tanh", "neg",
                                        "exp",  "abs",     "sin",  "cos"};
    static char text[1 << 17];
    size_t len = 0;
    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "rule_%d: %s(%s(x * %d) + y) * z -> %s(x) + y * z\n", i,
                                names[i % 8], names[i / 8 % 8], i + 7, names[i / 64 % 8]);
    return cfx_rules_parse(text, "many.rules");
}

static cfx_module *mixed_graph(int n) {
    static const char *const ops[] = {"torch.relu", "torch.mul", "torch.sigmoid", "torch.add",
                                      "torch.mul", "torch.tanh"};
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE), *last = x;
    for (int i = 0; i < n; i++)
        CFX_SCOPE {
            bool two = !strcmp(ops[i % 6], "torch.mul") || !strcmp(ops[i % 6], "torch.add");
            cfx_value args = two ? cfx_tuple(last, x) : cfx_tuple(last);
            last = cfx_graph_call_function(g, ops[i % 6], args, CFX_NONE);
        }
    cfx_graph_output(g, cfx_node_value(last));
    return cfx_graph_module(NULL, g, NULL);
}

static void run_rules(void *p) {
    rewriting *r = p;
    CFX_SCOPE cfx_rules_apply(r->rules, r->gm);
}

BENCH(rules) {
    static const int counts[] = {1, 50, 500};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        CFX_SCOPE {
            rewriting r = {many_rules(counts[i]), mixed_graph(10000)};
            char what[64];
            snprintf(what, sizeof what, "%d rules over 10,000 nodes", counts[i]);
            bench_row(what, bench_cpu_time(run_rules, &r), "the aim", 1e8);
        }
}
