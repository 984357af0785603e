/* group_layers, group_pointwise and group_rotary: nodes that a backend would run as one kernel
 * become graphs of their own; inline takes such graphs apart again. */
#include <cfx/split.h>

#include "group.h"

static bool is_pointwise(const cfx__groups *g, const cfx_node *n) {
    cfx_op *op = cfx__call_op(n);
    return op && (op->effects & CFX_POINTWISE) && cfx__groups_may_take(g, n);
}

/* Whether two nodes give as much, element by element. */
static bool same_shape(const cfx_node *a, const cfx_node *b) {
    cfx_result x = cfx_node_result(a), y = cfx_node_result(b);
    bool same = x.kind == CFX_RESULT_TENSOR && y.kind == CFX_RESULT_TENSOR && x.ndim == y.ndim;
    size_t mark = cfx_scope_open();
    for (int i = 0; same && i < x.ndim; i++)
        same = cfx_equal_values(cfx_result_size(&x, i), cfx_result_size(&y, i));
    cfx_scope_close(mark);
    return same;
}

/* Makes groups of the nodes of the program's graph. */
typedef void grouping_fn(cfx__groups *g);

static int group_all(cfx_program *p, grouping_fn *fn) {
    cfx__groups g;
    cfx__groups_open(&g, p->module);
    fn(&g);
    cfx__groups_close(&g);
    return g.made;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static bool is_layer(const cfx__groups *g, const cfx_node *n) {
    const cfx_op *op = cfx__call_op(n);
    const bool layer = op && op->layer.weight;
    return (layer || cfx__call_is(n, "bmm") || cfx__call_is(n, "baddbmm")) &&
           cfx__groups_may_take(g, n);
}

/* A layer, and what follows element by element: a bias, an activation, a residual. */
static void group_layers(cfx__groups *g) {
    cfx_each_node(g->module->graph, n) {
        if (!is_layer(g, n) || !cfx_ok())
            continue;
        cfx_node *last = n;
        cfx__groups_take(g, n);
        while (last->num_users == 1 && is_pointwise(g, last->users->user) &&
               same_shape(last, last->users->user)) {
            last = last->users->user;
            cfx__groups_take(g, last);
        }
        if (g->nodes.len > 1)
            cfx__groups_make(g, "layer");
        else
            cfx__groups_leave(g);
    }
}

static int run_layers(cfx_program *p, const cfx_dict *options) {
    (void)options;
    return group_all(p, group_layers);
}

const cfx_pass cfx__pass_group_layers = {
    .name = "group_layers",
    .summary = "makes a graph of each convolution or product with the bias, activation and "
               "residual that follow, called by invoke_subgraph",
    .after = "functionalize remove_noops fold_batch_norm recognize common_subexpressions",
    .promise = CFX_PASS_EXACT,
    .run = run_layers,
};

/* ---- pointwise ------------------------------------------------------------------------------- */

/* Whether all that use n are in the group. */
static bool is_inner(const cfx_node *n, const cfx_dict *group) {
    cfx_each_user(n, u) if (!cfx_dict_find(group, cfx_node_value(u->user))) return false;
    return true;
}

/* From the last node upwards, whatever is used in the group alone. */
static void group_pointwise(cfx__groups *g) {
    for (cfx_node *n = cfx_graph_last(g->module->graph); n && cfx_ok(); n = cfx_node_before(n)) {
        if (!is_pointwise(g, n))
            continue;
        size_t mark = cfx_scope_open();
        cfx_dict *group = cfx_dict_new();
        cfx__groups_take(g, n);
        cfx_dict_put(group, cfx_node_value(n), cfx_none());
        for (size_t i = 0; i < g->nodes.len; i++)
            cfx_each_input(g->nodes.data[i], u)
                if (is_pointwise(g, u->node) && same_shape(u->node, n) &&
                    is_inner(u->node, group)) {
                    cfx__groups_take(g, u->node);
                    cfx_dict_put(group, cfx_node_value(u->node), cfx_none());
                }
        if (g->nodes.len > 1)
            cfx__groups_make(g, "pointwise");
        else
            cfx__groups_leave(g);
        cfx_scope_close(mark);
    }
}

static int run_pointwise(cfx_program *p, const cfx_dict *options) {
    (void)options;
    return group_all(p, group_pointwise);
}

const cfx_pass cfx__pass_group_pointwise = {
    .name = "group_pointwise",
    .summary = "makes a graph of each run of operators that go element by element, called by "
               "invoke_subgraph",
    .after = "functionalize remove_noops simplify recognize common_subexpressions "
             "group_layers",
    .promise = CFX_PASS_EXACT,
    .run = run_pointwise,
};

/* ---- rotary embedding ------------------------------------------------------------------------ */

/* How halves, or pairs, of the last dimension are turned by an angle of which c and s are cosine
 * and sine. */
static const char *const rotary[] = {
    "x * c + cat([neg(aten.slice(x, d, h, e)), aten.slice(x, d, 0, h)], -1) * s",
    "x * c + cat([neg((p := split(x, h, -1))[1]), p[0]], -1) * s",
    "x * c + cat([neg((p := chunk(x, 2, -1))[1]), p[0]], -1) * s",
    "x * c + flatten(stack([neg(aten.slice(x, d, 1, e, 2)), aten.slice(x, d, 0, e, 2)], -1), -2) "
    "* s",
    "x * c + view(stack([neg(aten.slice(x, d, 1, e, 2)), aten.slice(x, d, 0, e, 2)], -1), v) * s",
    "cat([(p := chunk(x, 2, -1))[0] * c - p[1] * s, p[1] * c + p[0] * s], -1)",
    "cat([aten.slice(x, d, 0, h) * c - aten.slice(x, d, h, e) * s, aten.slice(x, d, h, e) * c + "
    "aten.slice(x, d, 0, h) * s], -1)",
    "flatten(view_as_real(view_as_complex(x) * c), v)",
};

/* Takes the calls that the pattern's stand for; false where one may not be taken. */
static bool take_found(cfx__groups *g, const cfx_matches *m, const cfx_found *f) {
    cfx_each_node(m->pattern, n) {
        const cfx_value *v = n->op == CFX_CALL_FUNCTION || n->op == CFX_CALL_METHOD
                                 ? cfx_dict_find(f->nodes, cfx_node_value(n))
                                 : NULL;
        if (!v || v->tag != CFX_TAG_NODE)
            continue;
        cfx_node *call = cfx_as_node(*v);
        bool several = cfx_node_result(call).kind == CFX_RESULT_SEVERAL;
        if (!cfx_node_is_getitem(call) && !several && !cfx__groups_may_take(g, call))
            return false;
        cfx__groups_take(g, call);
    }
    return true;
}

static void group_rotary(cfx__groups *g) {
    for (int i = 0; i < COUNT(rotary) && cfx_ok(); i++) {
        cfx_matches *m = cfx_find_pattern(g->module, rotary[i]);
        for (int k = 0; m && k < m->len && cfx_ok(); k++) {
            if (take_found(g, m, &m->items[k]))
                cfx__groups_make(g, "rotary_embedding");
            else
                cfx__groups_leave(g);
        }
    }
}

static int run_rotary(cfx_program *p, const cfx_dict *options) {
    (void)options;
    return group_all(p, group_rotary);
}

const cfx_pass cfx__pass_group_rotary = {
    .name = "group_rotary",
    .summary = "finds rotary position embeddings and makes a graph of each, called by "
               "invoke_subgraph",
    .after = "remove_noops common_subexpressions",
    .promise = CFX_PASS_EXACT,
    .run = run_rotary,
};

/* ---- and back -------------------------------------------------------------------------------- */

static int run_inline(cfx_program *p, const cfx_dict *options) {
    (void)options;
    int changes = cfx_module_inline(p->module, NULL);
    if (changes > 0)
        cfx_graph_module_prune(p->module);
    return changes;
}

const cfx_pass cfx__pass_inline = {
    .name = "inline",
    .summary = "puts graphs that are called by invoke_subgraph in the place of the calls",
    .promise = CFX_PASS_EXACT,
    .run = run_inline,
};
