/* Calls on nodes while nothing is traced: they append to the graph of the nodes. Start at
 * cfx__trace_append. */
#include "trace.h"
#include "../value/walk.h"

/* ---- where a call goes ----------------------------------------------------------------------- */

/* The last node of those that a value holds or stands for, or `last`. */
static bool note_later(cfx_value v, void *last) {
    cfx_node *n = cfx__traced_node(v), **known = last;
    if (n && (!*known || cfx__node_of(*known)->order < cfx__node_of(n)->order))
        *known = n;
    return true;
}

static cfx_node *last_operand(cfx_value v, cfx_node *last) {
    cfx__value_each(v, note_later, &last);
    return last;
}

/* Sets the insert point for a call on such operands, and gives that which there was: the one that
 * is set, else the end, or, in a graph that has its output already, right behind the operands, so
 * that all that uses them comes later. */
static cfx_insert place(cfx_graph *g, cfx_args a) {
    cfx_insert held = {g->insert};
    if (g->insert || !cfx_graph_output_node(g))
        return held;
    cfx_node *last = NULL;
    for (int i = 0; i < a.n; i++)
        last = last_operand(a.v[i], last);
    if (a.kw)
        last = last_operand(cfx_dict_value(a.kw), last);
    while (last && last->next && last->next->op == CFX_PLACEHOLDER)
        last = last->next;
    g->insert = last ? last->next : NULL;
    return held;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Whether the graph is made of ATen overloads, as programs are: one in it tells. */
static bool speaks_aten(const cfx_graph *g) {
    for (const cfx__target_row *r = g->rows[CFX_CALL_FUNCTION]; r; r = r->next)
        if (r->target.op && !r->target.fn)
            return true;
    return false;
}

/* What stands for a node while an overload is chosen: a number for a number, else a tensor. */
static cfx_value stand_in(cfx_node *n, void *user) {
    (void)user;
    cfx_result r = cfx_node_result(n);
    return r.kind == CFX_RESULT_INT     ? cfx_int(0)
           : r.kind == CFX_RESULT_FLOAT ? cfx_float(0)
           : r.kind == CFX_RESULT_BOOL  ? cfx_bool(false)
                                        : cfx_value_keep(cfx_tensor_value(cfx__traced_tensor(n)));
}

static cfx_value stand_ins(cfx_value v) {
    cfx_value frozen = cfx__graph_freeze(v);
    cfx_value out = cfx_is_bad(frozen) ? frozen : cfx__node_map(frozen, stand_in, NULL);
    cfx_value_drop(frozen);
    return cfx__value_scope_own(out);
}

/* The overload in place of a function, in a graph of overloads. False with an error. */
static bool choose_overload(cfx__tracer *t, cfx_site at, cfx_target *target, cfx_args a) {
    if (!target->fn || !speaks_aten(t->graph))
        return true;
    if (!strncmp(target->name, "torch.functional.", 17)) { /* the operator called so */
        const cfx_fn *fn = cfx_fn_find(target->name + 17);
        *target = (cfx_target){.fn = fn, .op = fn->ops[0], .name = target->name};
    }
    if (cfx__op_info_of(target->op)->python)
        return true;
    cfx_value args = stand_ins(cfx_tuple_value(a.n, a.v)), bound[CFX_MAX_ARGS];
    cfx_value kw = a.kw ? stand_ins(cfx_dict_value(a.kw)) : cfx_none();
    if (cfx_is_bad(args) || cfx_is_bad(kw))
        return false;
    cfx_args as_bound = {a.n, cfx_as_list(args)->items, a.kw ? cfx_as_dict(kw) : NULL};
    cfx_op *op = cfx__dispatch_resolve(at, *target, as_bound, bound);
    if (op)
        *target = (cfx_target){.op = op, .name = cfx_op_name(op)};
    return op != NULL;
}

bool cfx__trace_append(cfx_site at, const cfx_target *target, cfx_args a, cfx_value *result) {
    cfx_node *n = cfx__trace_any(a);
    if (!n)
        return false;
    *result = cfx_bad();
    if (!cfx__node_given(n))
        return true;
    cfx__tracer t = {.graph = n->graph, .root = (cfx_module *)n->graph->owner};
    cfx_target chosen = *target;
    if (n->erased)
        cfx_fail(CFX_RUNTIME_ERROR, at, "Node %s was erased: it can be no operand", n->name);
    else if (choose_overload(&t, at, &chosen, a)) {
        cfx_insert held = place(n->graph, a);
        *result = cfx__tracer_call(&t, at, chosen, a);
        cfx_graph_set_insert(n->graph, held);
    }
    cfx__tracer_forget(&t);
    return true;
}
