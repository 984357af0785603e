/* reinplace and functionalize: writes results over values that are no longer needed, and removes
 * all in-place writes. */
#include "pass.h"

/* How torch.export.load checks a program: "TRAINING" allows writes, "ATEN" does not. */
static void set_verifier(cfx_program *p, const char *name) {
    cfx_value one = cfx_string_value(name);
    if (cfx_dict_find(p->extra, cfx_string_value("verifiers")))
        cfx_dict_set(p->extra, "verifiers", cfx_list_value(1, &one));
}

/* ---- writes ---------------------------------------------------------------------------------- */

/* The in-place form of what n calls; NULL where there is none. */
static cfx_op *written_form(const cfx_node *n) {
    cfx_op *op = cfx__call_op(n);
    return op && op->effects & CFX_POINTWISE && op->inplace ? cfx__op_inplace(op) : NULL;
}

/* Whether what x computed may be overwritten by n: memory of its own that n alone reads, as large
 * and of the dtype that n gives. */
static bool is_spare(const cfx__alias *a, const cfx_node *x, const cfx_node *n) {
    cfx_result from = cfx_node_result(x), to = cfx_node_result(n);
    return x->op == CFX_CALL_FUNCTION && x->num_users == 1 && !cfx__alias_shared(a, x) &&
           !cfx__alias_written(a, x) && from.kind == CFX_RESULT_TENSOR &&
           cfx_result_equal(&from, &to);
}

static int reinplace(cfx_program *p, cfx_module *m, const cfx_dict *options) {
    (void)p, (void)options;
    int changes = 0;
    cfx__alias a;
    cfx__alias_open(&a, m->graph);
    cfx_each_node(m->graph, n) {
        const cfx_node *x = cfx__call_op(n) ? cfx__call_node(n, "self") : NULL;
        cfx_op *op = x && is_spare(&a, x, n) ? written_form(n) : NULL;
        if (!op)
            continue;
        cfx_value val = cfx_node_get_meta(n, "val"); /* it computes what it did */
        cfx_node_set_target(n, (cfx_target){.op = op, .name = cfx_op_name(op)});
        cfx_node_set_meta(n, "val", val);
        changes++;
    }
    cfx__alias_close(&a);
    return changes;
}

static int run_reinplace(cfx_program *p, const cfx_dict *options) {
    int changes = cfx__pass_graphs(p, options, reinplace);
    if (changes)
        set_verifier(p, "TRAINING");
    return changes;
}

const cfx_pass cfx__pass_reinplace = {
    .name = "reinplace",
    .summary = "writes results over arguments that nothing else needs: relu becomes relu_",
    .after = "simplify recognize common_subexpressions group_layers group_pointwise",
    .promise = CFX_PASS_EXACT,
    .run = run_reinplace,
};

/* ---- none ------------------------------------------------------------------------------------ */

static int count_writes(cfx_program *p, cfx_module *m, const cfx_dict *options) {
    (void)p, (void)options;
    int writes = 0;
    cfx_each_node(m->graph, n) {
        cfx_op *op = cfx__call_op(n);
        writes += op && cfx__op_info_of(op)->writes;
    }
    return writes;
}

static int run_functionalize(cfx_program *p, const cfx_dict *options) {
    int writes = cfx__pass_graphs(p, options, count_writes);
    if (writes <= 0)
        return writes;
    cfx_program *q = cfx_program_functionalize(p);
    if (cfx_failed(q))
        return -1;
    cfx__program_swap(p, q);
    return writes;
}

const cfx_pass cfx__pass_functionalize = {
    .name = "functionalize",
    .summary = "computes what was written in place as values; what was written to inputs and "
               "buffers becomes results",
    .promise = CFX_PASS_EXACT,
    .run = run_functionalize,
};
