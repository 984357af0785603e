/* remove_asserts and check_nan: what a program checks while it runs, taken out and put in. */
#include "pass.h"

/* ---- remove ---------------------------------------------------------------------------------- */

static bool is_assert(const cfx_node *n) {
    static const char *const names[] = {"_assert_tensor_metadata", "_assert_scalar",
                                        "_assert_async", "_functional_assert_async",
                                        "_functional_assert_scalar", "sym_constrain_range",
                                        "sym_constrain_range_for_size"};
    for (int i = 0; i < COUNT(names); i++)
        if (cfx__call_is(n, names[i]))
            return true;
    return false;
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

static bool is_checked(const cfx_node *n, const char *selector) {
    cfx_result r = cfx_node_result(n);
    return n->op == CFX_CALL_FUNCTION && r.kind == CFX_RESULT_TENSOR &&
           (cfx__dtype_is_float(r.dtype) || cfx__dtype_is_complex(r.dtype)) &&
           cfx__run_selects(selector, n);
}

/* assert not any(isnan(n)), right behind it. */
static void check(cfx_node *n) {
    cfx_node *at = cfx_node_after(n);
    cfx_node *each = cfx__call_new(at, n, "aten.isnan.default", cfx_tuple(n), cfx_none());
    cfx_node *any = cfx__call_new(at, n, "aten.any.default", cfx_tuple(each), cfx_none());
    cfx_node *none = cfx__call_new(at, n, "aten.logical_not.default", cfx_tuple(any), cfx_none());
    cfx__call_new(at, n, "aten._assert_async.msg",
                  cfx_tuple(none, cfx__text_format("node %s gives NaN", n->name)), cfx_none());
}

static int run_check(cfx_program *p, const cfx_dict *options) {
    const char *selector = cfx__pass_text(options, "nodes");
    VEC(cfx_node *) chosen = {0};
    cfx_each_node(p->module->graph, n) if (is_checked(n, selector)) VEC_PUSH(chosen, n);
    int changes = (int)chosen.len;
    if (!changes)
        cfx_fail(CFX_KEY_ERROR, (cfx_site){0}, "no node that gives floats fits '%s'", selector);
    for (size_t i = 0; i < chosen.len; i++)
        CFX_SCOPE check(chosen.data[i]);
    VEC_FREE(chosen);
    return changes;
}

const cfx_pass cfx__pass_check_nan = {
    .name = "check_nan",
    .summary = "asserts behind chosen nodes (nodes=SELECTOR) that there is no NaN",
    .options = "nodes=*",
    .promise = CFX_PASS_EXACT,
    .run = run_check,
};
