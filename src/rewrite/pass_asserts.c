/* remove_asserts, check_nan and check_range: what a program checks while it runs, taken out and put
 * in. */
#include "pass.h"

/* ---- remove ---------------------------------------------------------------------------------- */

static bool is_assert(const cfx_node *n) {
    cfx_op *op = cfx__call_op(n);
    const cfx__op_info *info = op && op->effects & CFX_SIDE ? cfx__op_info_of(op) : NULL;
    return info && info->family == CFX__OP_CHECK && !strcmp(info->schema->ns, "aten");
}

static int remove_asserts(cfx_program *p, cfx_module *m, const cfx_dict *options) {
    (void)p, (void)options;
    int changes = 0;
    for (cfx_node *n = cfx_graph_last(m->graph); n; n = cfx_node_before(n))
        if (is_assert(n) && !n->num_users)
            changes += cfx_graph_erase(n);
    return changes + (changes ? cfx__graph_sweep(m->graph, cfx_node_is_impure) : 0);
}

static int run_remove(cfx_program *p, const cfx_dict *options) {
    return cfx__pass_graphs(p, options, remove_asserts);
}

const cfx_pass cfx__pass_remove_asserts = {
    .name = "remove_asserts",
    .summary = "removes what checks sizes, dtypes and values while the program runs",
    .promise = CFX_PASS_EXACT,
    .run = run_remove,
};

/* ---- insert ---------------------------------------------------------------------------------- */

static cfx_node *call(cfx_node *at, cfx_node *like, const char *op, cfx_value args) {
    return cfx__call_new(at, like, op, args, cfx_none());
}

/* assert not any(isnan(n)), right behind it. */
static void check_nan(cfx_node *n) {
    cfx_node *at = cfx_node_after(n);
    cfx_node *each = call(at, n, "aten.isnan.default", cfx_tuple(n));
    cfx_node *any = call(at, n, "aten.any.default", cfx_tuple(each));
    cfx_node *none = call(at, n, "aten.logical_not.default", cfx_tuple(any));
    call(at, n, "aten._assert_async.msg",
         cfx_tuple(none, cfx__text_format("node %s gives NaN", n->name)));
}

static int run_nan(cfx_program *p, const cfx_dict *options) {
    const cfx_list *chosen = cfx_as_list(cfx__pass_nodes(p, options, true));
    for (int64_t i = 0; i < chosen->len && cfx_ok(); i++)
        CFX_SCOPE check_nan(cfx_as_node(chosen->items[i]));
    return (int)chosen->len;
}

const cfx_pass cfx__pass_check_nan = {
    .name = "check_nan",
    .summary = "asserts behind chosen nodes (nodes=SELECTOR) that there is no NaN",
    .options = "nodes=*",
    .promise = CFX_PASS_EXACT,
    .run = run_nan,
};

/* assert all(least <= n <= most), which NaN is not. */
static void check_range(cfx_node *n, double least, double most) {
    cfx_node *at = cfx_node_after(n);
    cfx_node *above = call(at, n, "aten.ge.Scalar", cfx_tuple(n, least));
    cfx_node *below = call(at, n, "aten.le.Scalar", cfx_tuple(n, most));
    cfx_node *both = call(at, n, "aten.logical_and.default", cfx_tuple(above, below));
    cfx_node *all = call(at, n, "aten.all.default", cfx_tuple(both));
    const char *text =
        cfx__text_format("node %s gives what is not between %g and %g", n->name, least, most);
    call(at, n, "aten._assert_async.msg", cfx_tuple(all, text));
}

static int run_range(cfx_program *p, const cfx_dict *options) {
    double least = cfx__pass_float(options, "least"), most = cfx__pass_float(options, "most");
    const cfx_list *chosen = cfx_as_list(cfx__pass_nodes(p, options, false));
    int changes = 0;
    for (int64_t i = 0; i < chosen->len && cfx_ok(); i++) {
        cfx_node *n = cfx_as_node(chosen->items[i]);
        if (cfx__dtype_is_complex(cfx_node_result(n).dtype))
            continue; /* which have no order */
        CFX_SCOPE check_range(n, least, most);
        changes++;
    }
    return changes;
}

const cfx_pass cfx__pass_check_range = {
    .name = "check_range",
    .summary = "asserts behind chosen nodes (nodes=SELECTOR) that all they give is between two "
               "numbers",
    .options = "nodes=* least=-1e30 most=1e30",
    .promise = CFX_PASS_EXACT,
    .run = run_range,
};
