/* merge_linears: linear layers of one input, as the projections of attention are, become one layer
 * whose result is taken apart: one product of matrices instead of three. */
#include <cfx/ops.h>

#include "pass.h"

typedef struct group {
    cfx_node *input;
    bool bias;
    cfx_dtype dtype;
    VEC(cfx_node *) layers;
} group;

typedef struct merging {
    cfx_program *program;
    cfx__alias alias;
    VEC(group) groups;
} merging;

static void add_layer(merging *m, cfx_node *n) {
    cfx_node *x = cfx__call_node(n, "input"), *b = cfx__call_node(n, "bias");
    cfx_tensor *w = cfx__program_constant(m->program, &m->alias, cfx__call_node(n, "weight"));
    if (!x || !w || w->ndim != 2 || cfx__alias_written(&m->alias, n) ||
        (b && !cfx__program_constant(m->program, &m->alias, b)))
        return;
    size_t i = 0;
    for (; i < m->groups.len; i++) {
        const group *g = &m->groups.data[i];
        if (g->input == x && g->bias == (b != NULL) && g->dtype == (cfx_dtype)w->dtype)
            break;
    }
    if (i == m->groups.len)
        VEC_PUSH(m->groups, ((group){.input = x, .bias = b, .dtype = (cfx_dtype)w->dtype}));
    VEC_PUSH(m->groups.data[i].layers, n);
}

/* The tensors that the layers have for an argument, one below the other, as one parameter. */
static cfx_node *joined(merging *m, const group *g, const char *name) {
    cfx_value all = cfx_list_value(0, NULL);
    for (size_t i = 0; i < g->layers.len; i++) {
        cfx_node *n = cfx__call_node(g->layers.data[i], name);
        cfx_list_append(cfx_as_list(all),
                        cfx_tensor_value(cfx__program_constant(m->program, &m->alias, n)));
    }
    cfx_node *first = cfx__call_node(g->layers.data[0], name);
    const char *target = cfx_program_input(m->program, first)->target;
    cfx_tensor *t = cfx_cat(all, 0);
    return cfx_ok() ? cfx_program_add_tensor(m->program, CFX_IN_PARAMETER,
                                             cfx__text_format("%s_merged", target), t)
                    : cfx__node_bad;
}

/* A part of a larger result is not in one piece: what wants to see it otherwise may have to copy.
 */
static void loosen_views(cfx_node *n) {
    cfx_op *reshape = cfx_op_find("aten.reshape.default");
    cfx_each_user(n, u)
        if (cfx__call_is(u->user, "view") && !strcmp(cfx_op_name(u->user->target.op),
                                                     "aten.view.default"))
            cfx_node_set_target(u->user,
                                (cfx_target){.op = reshape, .name = cfx_op_name(reshape)});
}

static int merge(merging *m, const group *g) {
    cfx_node *first = g->layers.data[0];
    cfx_value sizes = cfx_list_value(0, NULL);
    for (size_t i = 0; i < g->layers.len; i++) {
        cfx_node *w = cfx__call_node(g->layers.data[i], "weight");
        cfx_list_append(cfx_as_list(sizes), cfx_int(cfx_node_result(w).shape[0]));
        if (cfx_node_precedes(g->layers.data[i], first))
            first = g->layers.data[i];
    }
    cfx_node *w = joined(m, g, "weight"), *b = g->bias ? joined(m, g, "bias") : NULL;
    if (!cfx_ok())
        return 0;
    cfx_value args = b ? cfx_tuple(g->input, w, b) : cfx_tuple(g->input, w);
    cfx_node *all = cfx__call_new(first, first, "aten.linear.default", args, cfx_none());
    cfx_node *parts = cfx__call_new(first, first, "aten.split_with_sizes.default",
                                    cfx_tuple(all, sizes, -1), cfx_none());
    for (size_t i = 0; i < g->layers.len; i++) {
        cfx_node *n = g->layers.data[i], *part = NULL;
        CFX_INSERT_BEFORE(n->graph, first)
            part = cfx_graph_call_function(n->graph, "operator.getitem",
                                           cfx_tuple(parts, (int64_t)i), cfx_none());
        cfx_node_replace(n, part);
        loosen_views(part);
        if (n != first)
            cfx_graph_erase(n);
    }
    cfx_graph_erase(first);
    return (int)g->layers.len;
}

static int run(cfx_program *p, const cfx_dict *options) {
    (void)options;
    merging m = {.program = p};
    int changes = 0;
    cfx__alias_open(&m.alias, p->module->graph);
    cfx_each_node(p->module->graph, n) if (cfx__call_is(n, "linear")) add_layer(&m, n);
    for (size_t i = 0; i < m.groups.len; i++) {
        size_t mark = cfx_scope_open();
        if (m.groups.data[i].layers.len > 1 && cfx_ok())
            changes += merge(&m, &m.groups.data[i]);
        VEC_FREE(m.groups.data[i].layers);
        cfx_scope_close(mark);
    }
    VEC_FREE(m.groups);
    cfx__alias_close(&m.alias);
    return changes;
}

const cfx_pass cfx__pass_merge_linears = {
    .name = "merge_linears",
    .summary = "makes one layer of linear layers that have the same input, as q, k and v do",
    .after = "remove_noops common_subexpressions",
    .promise = CFX_PASS_ROUNDED,
    .run = run,
};
