/* merge_linears and merge_convolutions: layers of one input, as the projections of attention and
 * the branches of inception blocks are, become one layer whose result is taken apart: one product
 * of matrices instead of three. */
#include <cfx/ops.h>

#include "pass.h"

typedef struct merging {
    cfx_program *program;
    cfx__alias alias;
    VEC(cfx_node *) layers; /* that become one */
} merging;

/* ---- which ----------------------------------------------------------------------------------- */

static cfx_tensor *constant(const merging *m, const cfx_node *layer, const char *name) {
    return cfx__program_constant(m->program, &m->alias, cfx__call_node(layer, name));
}

/* Whether all that the layer has beside its input is known, and its results are results of the
 * whole input. */
static bool is_mergeable(const merging *m, const cfx_node *n) {
    const cfx_node *bias = cfx__call_node(n, "bias");
    cfx_tensor *w = constant(m, n, "weight");
    cfx_value groups = cfx__call_arg(n, "groups"), turned = cfx__call_arg(n, "transposed");
    return w && w->ndim >= 2 && (!bias || constant(m, n, "bias")) &&
           (cfx_is_none(groups) || cfx_equal_values(groups, cfx_int(1))) &&
           (cfx_is_none(turned) || cfx_equal_values(turned, cfx_bool(false))) &&
           cfx__call_node(n, "input") && !cfx__alias_written(&m->alias, n) &&
           !cfx__alias_written(&m->alias, cfx__call_node(n, "input"));
}

/* Whether two layers differ in nothing but their numbers and how many results they have. */
static bool are_alike(const merging *m, const cfx_node *a, const cfx_node *b) {
    if (a->target.op != b->target.op || !is_mergeable(m, a) || !is_mergeable(m, b))
        return false;
    const cfx_tensor *v = constant(m, a, "weight"), *w = constant(m, b, "weight");
    bool same = v->dtype == w->dtype && v->ndim == w->ndim &&
                !cfx__call_node(a, "bias") == !cfx__call_node(b, "bias");
    for (int i = 1; same && i < v->ndim; i++)
        same = v->shape[i] == w->shape[i];
    const cfx__schema *s = cfx__op_info_of(a->target.op)->schema;
    for (int i = 0; same && i < s->nargs; i++) {
        const char *name = s->args[i].name;
        if (strcmp(name, "weight") && strcmp(name, "bias"))
            same = cfx_equal_values(cfx__call_arg(a, name), cfx__call_arg(b, name));
    }
    return same;
}

/* Collects the layers that are like n; n has to be the first of them. */
static bool collect(merging *m, cfx_node *n) {
    m->layers.len = 0;
    if (!is_mergeable(m, n))
        return false;
    cfx_each_user(cfx__call_node(n, "input"), u)
        if (are_alike(m, n, u->user)) {
            if (cfx_node_precedes(u->user, n))
                return false;
            VEC_PUSH(m->layers, u->user);
        }
    return m->layers.len > 1;
}

/* ---- one layer of several -------------------------------------------------------------------- */

/* The tensors that the layers have for an argument, one below the other, as one parameter. */
static cfx_node *joined(merging *m, const char *name) {
    cfx_value all = cfx_list_value(0, NULL);
    for (size_t i = 0; i < m->layers.len; i++)
        cfx_list_append(cfx_as_list(all),
                        cfx_tensor_value(constant(m, m->layers.data[i], name)));
    const cfx_node *first = cfx__call_node(m->layers.data[0], name);
    const char *target = cfx_program_input(m->program, first)->target;
    cfx_tensor *t = cfx_cat(all, 0);
    return cfx_ok() ? cfx_program_add_tensor(m->program, CFX_IN_PARAMETER,
                                             cfx__text_format("%s_merged", target), t)
                    : cfx__node_bad;
}

static int merge(merging *m) {
    cfx_node *first = m->layers.data[0];
    int ndim = constant(m, first, "weight")->ndim;
    cfx_value sizes = cfx_list_value(0, NULL);
    for (size_t i = 0; i < m->layers.len; i++)
        cfx_list_append(cfx_as_list(sizes),
                        cfx_int(constant(m, m->layers.data[i], "weight")->shape[0]));
    cfx_node *w = joined(m, "weight");
    cfx_node *b = cfx__call_node(first, "bias") ? joined(m, "bias") : NULL;
    if (!cfx_ok())
        return 0;
    cfx_node *all = cfx__call_new(first, first, cfx_op_name(first->target.op), first->args,
                                  first->kwargs);
    cfx__call_set(all, "weight", cfx_node_value(w));
    if (b)
        cfx__call_set(all, "bias", cfx_node_value(b));
    cfx_node *parts = cfx__call_new(first, first, "aten.split_with_sizes.default",
                                    cfx_tuple(all, sizes, 1 - ndim), cfx_none());
    for (size_t i = 0; i < m->layers.len; i++) {
        cfx_node *n = m->layers.data[i], *part = NULL;
        CFX_INSERT_BEFORE(n->graph, first)
            part = cfx_graph_call_function(n->graph, "operator.getitem",
                                           cfx_tuple(parts, (int64_t)i), cfx_none());
        cfx_node_replace(n, part);
        cfx__loosen_views(part);
        if (i)
            cfx_graph_erase(n);
    }
    cfx_graph_erase(first);
    return (int)m->layers.len;
}

/* ---- the passes ------------------------------------------------------------------------------ */

static int merge_all(cfx_program *p, bool (*is_layer)(const cfx_node *n)) {
    merging m = {.program = p};
    int changes = 0;
    cfx__alias_open(&m.alias, p->module->graph);
    cfx_each_node(p->module->graph, n) {
        if (is_layer(n) && collect(&m, n) && cfx_ok())
            CFX_SCOPE changes += merge(&m);
    }
    VEC_FREE(m.layers);
    cfx__alias_close(&m.alias);
    return changes;
}

static bool is_linear(const cfx_node *n) { return cfx__call_is(n, "linear"); }

static int run_linears(cfx_program *p, const cfx_dict *options) {
    (void)options;
    return merge_all(p, is_linear);
}

static int run_convolutions(cfx_program *p, const cfx_dict *options) {
    (void)options;
    return merge_all(p, cfx__call_convolves);
}

const cfx_pass cfx__pass_merge_linears = {
    .name = "merge_linears",
    .summary = "makes one layer of linear layers that have the same input, as q, k and v do",
    .after = "remove_noops common_subexpressions",
    .promise = CFX_PASS_ROUNDED,
    .run = run_linears,
};

const cfx_pass cfx__pass_merge_convolutions = {
    .name = "merge_convolutions",
    .summary = "makes one convolution of those that have the same input, kernel size, stride and "
               "padding",
    .after = "remove_noops common_subexpressions fold_batch_norm",
    .promise = CFX_PASS_ROUNDED,
    .run = run_convolutions,
};
