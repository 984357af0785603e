/* Higher-order operators in plans: a call with sub-graphs runs as in the interpreter, in graph
 * order. This is allowed if the sub-graphs have no side effects and draw no random numbers. */
#include "plan.h"

static bool is_pure(const cfx_module *m, const cfx_graph *g, int depth);

/* Whether what a node names is a pure sub-graph: tensors of sub-graphs are not watched. */
static bool is_pure_attr(const cfx_module *m, const cfx_node *n, int depth) {
    cfx_value v = cfx__module_read((cfx_site){0}, (cfx_module *)m, n->target.name);
    if (!cfx_ok()) {
        cfx__error_forgive();
        return false;
    }
    const cfx_module *sub = v.tag == CFX_TAG_MODULE ? cfx_as_module(v) : NULL;
    return sub && sub->graph && is_pure(sub, sub->graph, depth + 1);
}

static bool is_pure(const cfx_module *m, const cfx_graph *g, int depth) {
    enum { DEEPEST = 32 };
    cfx_each_node(g, n) {
        if (n->op == CFX_CALL_MODULE || n->op == CFX_CALL_METHOD || cfx__node_logs(n) ||
            depth > DEEPEST)
            return false;
        if (n->op == CFX_GET_ATTR && !is_pure_attr(m, n, depth))
            return false;
        if (n->op == CFX_CALL_FUNCTION && n->target.op &&
            (cfx__op_info_of(n->target.op)->writes || n->target.op->effects & CFX_RANDOM))
            return false;
    }
    return true;
}

static bool is_module(cfx_module *m, const cfx_node *n) {
    cfx_value v = cfx__module_read((cfx_site){0}, m, n->target.name);
    return v.tag == CFX_TAG_MODULE;
}

bool cfx__plan_is_higher(const cfx__lowering *l, const cfx__run_step *s) {
    if (s->node->op != CFX_CALL_FUNCTION || s->op || s->item || s->node->target.op ||
        s->node->target.fn || s->node->target.object || !cfx__higher_find(s->node->target.name))
        return false;
    const cfx__run_step *steps = l->plan->steps->steps;
    for (int64_t i = 0; i < cfx_as_list(s->args)->len; i++) {
        cfx_value v = cfx_as_list(s->args)->items[i];
        const cfx_node *n = v.tag == CFX_TAG_NODE ? steps[v.spare].node : NULL;
        const bool attr = n && n->op == CFX_GET_ATTR;
        if (attr && is_module(l->e->module, n) && !is_pure_attr(l->e->module, n, 0))
            return false;
    }
    return true;
}
