/* Expressions of sizes become nodes: what gives each, and in which order it is computed where
 * nothing does. */
#include "merge.h"

struct cfx__place *cfx__place_find(const cfx__merging *g, cfx_value expr) {
    for (size_t i = 0; i < g->places.len; i++)
        if (cfx_equal_values(g->places.data[i].expr, expr))
            return &g->places.data[i];
    return NULL;
}

void cfx__place_add(cfx__merging *g, cfx_value expr, cfx_node *node, cfx_node *tensor, int dim) {
    struct cfx__place *known = cfx__place_find(g, expr);
    if (known) {
        known->node = known->node ? known->node : node;
        return;
    }
    struct cfx__place p = {cfx_value_keep(expr), node, tensor, dim};
    VEC_PUSH(g->places, p);
    cfx__exprs_note(g->exprs, expr);
}

/* A node before the insert point, with the source line of the node that is being merged. */
cfx_node *cfx__reify_node(cfx__merging *g, const char *target, cfx_value args, cfx_value val) {
    static const char *const origin[] = {"stack_trace", "source", "nn_module_stack"};
    cfx_graph *graph = g->m->graph[0];
    cfx_node *n = cfx_graph_create(graph, CFX_CALL_FUNCTION, cfx_graph_target(graph, target), args,
                                   cfx_none(), NULL, NULL);
    if (!n->graph)
        return n;
    for (int i = 0; g->at[0] && i < COUNT(origin); i++) {
        cfx_value v = cfx_node_get_meta(g->at[0], origin[i]);
        if (!cfx_is_none(v))
            cfx_node_set_meta(n, origin[i], v);
    }
    cfx_node_set_meta(n, "val", val);
    VEC_PUSH(g->made, n);
    return n;
}

static cfx_node *read_size(cfx__merging *g, struct cfx__place *p) {
    cfx_value expr = p->expr;
    cfx_node *n = cfx__reify_node(g, "aten.sym_size.int", cfx_tuple(p->tensor, p->dim), expr);
    cfx__place_find(g, expr)->node = n;
    return n;
}

/* Whether all symbols in an expression are nodes. */
static bool is_free(cfx__merging *g, const struct cfx_sym *e) {
    if (!e || e->op == CFX__SYM_INT)
        return true;
    if (e->op == CFX__SYM_NAME) {
        struct cfx__place *p =
            cfx__place_find(g, cfx__value_of_sym(e));
        return p && p->node;
    }
    return is_free(g, e->a) && is_free(g, e->b);
}

static cfx_value sym_value(cfx_sym *s) {
    return s->op == CFX__SYM_INT ? cfx_int(s->hint) : cfx__value_of_sym(s);
}

/* The terms of a sum, or factors of a product: numbers first, as sympy keeps them. Where the
 * program wrote the expression they are last, and others in the order in which they were first
 * seen. */
static void gather(cfx_list *out, cfx_sym *e, cfx__sym_op op) {
    if (e->op == op) {
        gather(out, e->a, op);
        gather(out, e->b, op);
    } else {
        cfx_list_append(out, sym_value(e));
    }
}

/* When an expression was first seen; numbers are last. */
static size_t rank_of(const cfx__merging *g, cfx_value v) {
    size_t i = 0;
    while (i < g->places.len && !cfx_equal_values(g->places.data[i].expr, v))
        i++;
    return v.tag == CFX_TAG_INT ? SIZE_MAX : i;
}

static cfx_value in_order(const cfx__merging *g, cfx_sym *e, bool written) {
    cfx_value all = cfx_list_value(0, NULL), out = cfx_list_value(0, NULL);
    gather(cfx_as_list(all), e, e->op);
    for (int64_t i = 0; i < cfx_as_list(all)->len; i++) {
        cfx_value v = cfx_as_list(all)->items[i];
        int64_t at = cfx_as_list(out)->len;
        if (written)
            while (at > 0 && rank_of(g, cfx_as_list(out)->items[at - 1]) > rank_of(g, v))
                at--;
        else if (v.tag == CFX_TAG_INT)
            at = 0;
        cfx_list_append(cfx_as_list(out), v);
        memmove(cfx_as_list(out)->items + at + 1, cfx_as_list(out)->items + at,
                (size_t)(cfx_as_list(out)->len - 1 - at) * sizeof v);
        cfx_as_list(out)->items[at] = v;
    }
    return out;
}

static const char *function_of(cfx__sym_op op) {
    static const char *const names[] = {
        [CFX__SYM_ADD] = "operator.add",           [CFX__SYM_MUL] = "operator.mul",
        [CFX__SYM_FLOORDIV] = "operator.floordiv", [CFX__SYM_MOD] = "operator.mod",
        [CFX__SYM_POW] = "operator.pow",           [CFX__SYM_MIN] = "torch.sym_min",
        [CFX__SYM_MAX] = "torch.sym_max"};
    return names[op];
}

/* What an argument that is a number or a node stands for. */
cfx_value cfx__reify_meaning(cfx_value v) {
    return v.tag == CFX_TAG_NODE ? cfx_node_get_meta(cfx_as_node(v), "val") : v;
}

cfx_value cfx__reify_apply(cfx__merging *g, cfx__sym_op op, cfx_value a, cfx_value b) {
    if (a.tag == CFX_TAG_INT && b.tag == CFX_TAG_INT)
        return cfx__sym_binary(op, a, b);
    cfx_value val = cfx__sym_binary(op, cfx__reify_meaning(a), cfx__reify_meaning(b));
    struct cfx__place *known = val.tag == CFX_TAG_SYM ? cfx__place_find(g, val) : NULL;
    if (known && known->node)
        return cfx_node_value(known->node);
    bool minus = op == CFX__SYM_ADD && b.tag == CFX_TAG_INT && cfx_integer(b) < 0 &&
                 cfx_integer(b) != INT64_MIN;
    cfx_node *n =
        minus ? cfx__reify_node(g, "operator.sub", cfx_tuple(a, cfx_int(-cfx_integer(b))), val)
              : cfx__reify_node(g, function_of(op), cfx_tuple(a, b), val);
    return cfx_node_value(n);
}

static cfx_value compute(cfx__merging *g, cfx_sym *e, bool written) {
    bool chain = e->op == CFX__SYM_ADD || e->op == CFX__SYM_MUL || e->op == CFX__SYM_MIN ||
                 e->op == CFX__SYM_MAX;
    if (!chain) {
        cfx_value a = cfx__reify(g, sym_value(e->a), written);
        cfx_value b = cfx_is_bad(a) ? a : cfx__reify(g, sym_value(e->b), written);
        return cfx_is_bad(b) ? b : cfx__reify_apply(g, e->op, a, b);
    }
    cfx_value parts = in_order(g, e, written), all = cfx_none();
    for (int64_t i = 0; i < cfx_as_list(parts)->len; i++) {
        cfx_value one = cfx__reify(g, cfx_as_list(parts)->items[i], written);
        if (cfx_is_bad(one))
            return one;
        all = i ? cfx__reify_apply(g, e->op, all, one) : one;
    }
    return all;
}

/* A symbol that is known only as a multiple of itself, size // by, or by the graph around. */
static cfx_value from_multiple(cfx__merging *g, cfx_value name) {
    for (size_t i = 0; i < g->places.len; i++) {
        struct cfx__place *p = &g->places.data[i];
        const cfx_sym *e = cfx_as_sym(p->expr);
        if (e->op != CFX__SYM_MUL || e->a->op != CFX__SYM_INT || e->a->hint < 1 ||
            !cfx__sym_equal(e->b, cfx_as_sym(name)))
            continue;
        int64_t by = e->a->hint;
        cfx_node *whole = p->node ? p->node : read_size(g, p);
        return cfx_node_value(cfx__reify_node(g, "operator.floordiv", cfx_tuple(whole, by), name));
    }
    if (g->m->outer)
        return cfx__merge_lift(g, name);
    cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "no node of the graph gives the size %s",
             cfx_as_sym(name)->name);
    return cfx_bad();
}

/* A node for an expression, made where there is none: of symbols where these are at hand, else by
 * asking a tensor. `written` where it stands for arithmetic of the program's. */
cfx_value cfx__reify(cfx__merging *g, cfx_value expr, bool written) {
    if (expr.tag != CFX_TAG_SYM)
        return expr;
    struct cfx__place *p = cfx__place_find(g, expr);
    if (p && p->node)
        return cfx_node_value(p->node);
    bool name = cfx_as_sym(expr)->op == CFX__SYM_NAME;
    if (p && p->tensor && (name || !is_free(g, cfx_as_sym(expr))))
        return cfx_node_value(read_size(g, p));
    cfx_value v = name ? from_multiple(g, expr) : compute(g, cfx_as_sym(expr), written);
    if (v.tag == CFX_TAG_NODE)
        cfx__place_add(g, expr, cfx_as_node(v), NULL, 0);
    return v;
}
