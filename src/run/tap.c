/* Taps and profiles: what flows through chosen nodes, and how long each takes. */
#define _GNU_SOURCE /* qsort_r */
#include <cfx/ops.h>

#include "run.h"
#include "select.h"


/* ---- taps ------------------------------------------------------------------------------------ */

typedef struct {
    const char *selector;
    cfx_dict *values;
    const cfx_graph *graph;
    const cfx_node *last_write; /* of the graph */
} tap;

static bool may_write(const cfx_node *n) {
    if (n->op == CFX_PLACEHOLDER || n->op == CFX_OUTPUT || n->op == CFX_GET_ATTR)
        return false;
    bool overload = n->op == CFX_CALL_FUNCTION && n->target.op && !n->target.fn;
    return overload ? cfx__op_info_of(n->target.op)->writes : cfx_node_is_impure(n);
}

/* The last node that may write to what another gave; NULL: none does. */
static const cfx_node *last_write(const cfx_graph *g) {
    const cfx_node *n = cfx_graph_last(g);
    while (n && !may_write(n))
        n = cfx_node_before(n);
    return n;
}

/* The value with copies of its tensors; scope. */
static cfx_value as_it_is_now(cfx_value v) {
    cfx_value leaves = cfx_list_value(0, NULL), copies = cfx_list_value(0, NULL);
    cfx_value spec = cfx_tree_flatten(v, cfx_as_list(leaves));
    for (int64_t i = 0; i < cfx_as_list(leaves)->len; i++) {
        cfx_value leaf = cfx_as_list(leaves)->items[i];
        if (leaf.tag == CFX_TAG_TENSOR && cfx_as_tensor(leaf)->data)
            leaf = cfx_tensor_value(cfx_clone(leaf)); /* gradients flow through it */
        cfx_list_append(cfx_as_list(copies), leaf);
    }
    return cfx_tree_unflatten(spec, cfx_as_list(copies));
}

static bool is_tapped(cfx_watcher *w, const cfx_node *n) {
    return cfx__run_picks(((tap *)w->user)->selector, cfx_run_path(), n);
}

static cfx_value take_value(cfx_watcher *w, cfx_node *n, cfx_value v) {
    tap *t = w->user;
    const char *path = cfx_run_path();
    const cfx_node *write = n->graph == t->graph ? t->last_write : last_write(n->graph);
    if (write && cfx_node_precedes(n, write))
        v = as_it_is_now(v);
    cfx_dict_set(t->values,
                 *path ? cfx__text_format("%s%s", path, n->name) : n->name, v);
    return cfx_none();
}

bool cfx_node_selected(const cfx_node *n, const char *selector) {
    return n && n->graph && selector && cfx__run_picks(selector, cfx_run_path(), n);
}

cfx_dict *cfx_tap_from(cfx_site at, cfx_module *gm, const char *selector, cfx_args a) {
    cfx_dict *values = cfx_dict_new();
    if (!gm || !gm->graph) {
        cfx_fail(CFX_TYPE_ERROR, at, "only a GraphModule can be tapped");
        return values;
    }
    if (!selector || !cfx__run_picks_any(selector, gm)) {
        cfx_fail(CFX_KEY_ERROR, at, "no node of %s matches '%s'%s", gm->type,
                 selector ? selector : "", selector ? cfx__run_meant(gm->graph, selector) : "");
        return values;
    }
    tap t = {selector, values, gm->graph, last_write(gm->graph)};
    cfx_watcher w = {.wants = is_tapped, .see = take_value, .user = &t, .inside = true};
    cfx_site outer = cfx__site_enter(at);
    CFX_SCOPE cfx__run_module(at, gm, a, &w);
    cfx__site_leave(outer);
    return values;
}

/* ---- profiles -------------------------------------------------------------------------------- */

typedef struct {
    double *ns; /* by slot */
} profile;

static double now(void) { return (double)cfx__clock_ns(); }

static cfx_value time_node(cfx_interp *it, cfx_node *n) {
    profile *p = it->user;
    double start = now();
    cfx_value v = cfx_interp_run_node(it, n);
    p->ns[it->own_->now] += now() - start;
    return v;
}

static int by_time(const void *a, const void *b, void *ns) {
    double x = ((double *)ns)[*(const int *)a], y = ((double *)ns)[*(const int *)b];
    return x < y ? 1 : x > y ? -1 : *(const int *)a - *(const int *)b;
}

void cfx_print_profile_from(cfx_site at, cfx_module *gm, int times, FILE *out, cfx_args a) {
    cfx__steps *steps = gm && gm->graph ? cfx__steps_of(gm->graph) : NULL;
    if (!steps) {
        cfx_fail(CFX_TYPE_ERROR, at, "only a GraphModule can be profiled node by node");
        return;
    }
    int n = steps->nsteps;
    profile p = {cfx__alloc0((size_t)n * sizeof *p.ns)};
    int *order = cfx__alloc((size_t)n * sizeof *order);
    cfx_interp it = {.module = gm, .run_node = time_node, .user = &p};
    double start = now();
    for (int i = 0; i < times && cfx_ok(); i++)
        CFX_SCOPE cfx_run_from(at, &it, a);
    double total = now() - start;
    for (int i = 0; i < n; i++)
        order[i] = i;
    qsort_r(order, (size_t)n, sizeof *order, by_time, p.ns);
    if (cfx_ok()) {
        fprintf(out, "%-14s %-32s %16s %10s\n", "Op type", "Op", "Average (us)", "Share");
        for (int i = 0; i < n; i++) {
            const cfx_node *node = steps->steps[order[i]].node;
            fprintf(out, "%-14s %-32s %16.3f %9.2f%%\n", cfx_opcode_name(node->op), node->name,
                    p.ns[order[i]] / times / 1e3, 100 * p.ns[order[i]] / total);
        }
    }
    cfx__free(order);
    cfx__free(p.ns);
    cfx_drop(steps);
}
