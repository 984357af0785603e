/* remove_noops: removes calls that return their first argument: dropout in evaluation mode,
 * casts to the same dtype, views of the same shape, unnecessary copies. */
#include <cfx/ops.h>

#include "pass.h"

/* Whether no side is padded: one may be as much longer as another is shorter. */
static bool pads_nothing(const cfx_node *n) {
    cfx_value pad = cfx__call_arg(n, "pad");
    bool none = pad.tag == CFX_TAG_LIST;
    for (int64_t i = 0; none && i < cfx_as_list(pad)->len; i++)
        none = cfx_equal_values(cfx_as_list(pad)->items[i], cfx_int(0));
    return none;
}

/* Whether n computes what `from` is, as far as that is told without numbers. */
static bool is_like(const cfx_node *n, const cfx_node *from) {
    cfx_result a = cfx_node_result(n), b = cfx_node_result(from);
    return a.kind == CFX_RESULT_TENSOR && cfx_result_equal(&a, &b);
}

/* A copy may go where it is not given away: a result of a program is no view of its inputs. */
static bool is_spare(const cfx__alias *a, const cfx_node *n) { return !cfx__alias_escapes(a, n); }

/* Whether a call makes a copy: its result is not marked as the argument's memory, or it is told
 * to. */
static bool copies(const cfx_node *n, cfx_op *op) {
    cfx_value copy = cfx__call_arg(n, "copy");
    return !cfx__op_info_of(op)->schema->rets[0].alias ||
           (cfx_is_number(copy) && cfx_integer(copy));
}

static bool is_noop(const cfx__alias *a, const cfx_node *n, const cfx_node *from) {
    cfx_op *op = cfx__call_op(n);
    const bool dropout = op && cfx__call_drops_nothing(n);
    if (!op || (!dropout && cfx_node_is_impure(n)))
        return false;
    /* A view is an object of its own: calls in place may give it another shape, and refuse to write
     * to what they read. */
    if (cfx__alias_written(a, n) || cfx__alias_written(a, from))
        return false;
    const bool alike =
        op->effects & CFX_ALIKE || (op == &cfx_op_constant_pad_nd && pads_nothing(n));
    return dropout || (alike && is_like(n, from) && (!copies(n, op) || is_spare(a, n)));
}

static int remove_noops(cfx_program *p, cfx_module *m, const cfx_dict *options) {
    (void)p, (void)options;
    cfx__alias a;
    cfx__forward f;
    cfx__alias_open(&a, m->graph);
    cfx__forward_open(&f, m->graph);
    cfx_each_node(m->graph, n) {
        cfx__forward_visit(&f, n);
        cfx_value first = cfx_as_list(n->args)->len ? cfx_as_list(n->args)->items[0] : cfx_none();
        if (first.tag != CFX_TAG_NODE || !is_noop(&a, n, cfx_as_node(first)))
            continue;
        cfx__forward_to(&f, n, cfx_as_node(first));
    }
    cfx__alias_close(&a);
    return cfx__forward_close(&f);
}

static int run(cfx_program *p, const cfx_dict *options) {
    return cfx__pass_graphs(p, options, remove_noops);
}

const cfx_pass cfx__pass_remove_noops = {
    .name = "remove_noops",
    .summary = "removes dropout that is switched off, and casts, views and copies that change "
               "nothing",
    .promise = CFX_PASS_EXACT,
    .run = run,
};
