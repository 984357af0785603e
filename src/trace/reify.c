/* Makes nodes of size expressions: finds the node that already gives an expression, or the order
 * in which to compute it. */
#include "symints.h"

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
    struct cfx__place p = {cfx_value_keep(expr), node, tensor, dim, NULL};
    VEC_PUSH(g->places, p);
    cfx__exprs_note(g->exprs, expr);
}

/* Whether n is there before what is computed now, or is arithmetic that can be. */
static bool is_at_hand(const cfx__merging *g, const cfx_node *n) {
    if (!g->pull || cfx_node_precedes(n, g->pull))
        return true;
    if (n->op != CFX_CALL_FUNCTION || (n->target.op && !n->target.fn))
        return false;
    for (int64_t i = 0; i < cfx_as_list(n->args)->len; i++) {
        cfx_value v = cfx_as_list(n->args)->items[i];
        if (v.tag == CFX_TAG_NODE && !is_at_hand(g, cfx_as_node(v)))
            return false;
    }
    return true;
}

/* A node that is at hand, where what is computed now can use it. */
static cfx_value pulled(cfx__merging *g, cfx_node *n) {
    if (!g->pull || cfx_node_precedes(n, g->pull))
        return cfx_node_value(n);
    for (int64_t i = 0; i < cfx_as_list(n->args)->len; i++)
        if (cfx_as_list(n->args)->items[i].tag == CFX_TAG_NODE)
            pulled(g, cfx_as_node(cfx_as_list(n->args)->items[i]));
    cfx_node_move_before(n, g->pull);
    return cfx_node_value(n);
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
        struct cfx__place *p = cfx__place_find(g, cfx__value_of_sym(e));
        return p && p->node && is_at_hand(g, p->node);
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

/* -1 * what */
static bool is_minus(const cfx_sym *e) {
    return e->op == CFX__SYM_MUL && e->a->op == CFX__SYM_INT && e->a->hint == -1;
}

/* When an expression, or a symbol in it, was first seen; numbers are last, but for what is taken
 * away. */
static size_t rank_of(const cfx__merging *g, cfx_value v) {
    size_t i = 0;
    if (v.tag == CFX_TAG_INT)
        return SIZE_MAX - 1;
    if (is_minus(cfx_as_sym(v)))
        return SIZE_MAX;
    while (i < g->places.len && !cfx_equal_values(g->places.data[i].expr, v))
        i++;
    const cfx_sym *e = cfx_as_sym(v);
    if (i < g->places.len || e->op == CFX__SYM_NAME)
        return i;
    size_t a = rank_of(g, sym_value(e->a)), b = e->b ? rank_of(g, sym_value(e->b)) : SIZE_MAX;
    return a < b ? a : b;
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

/* A new node of a op b. */
static cfx_value applied(cfx__merging *g, cfx__sym_op op, cfx_value a, cfx_value b) {
    if (a.tag == CFX_TAG_INT && b.tag == CFX_TAG_INT)
        return cfx__sym_binary(op, a, b);
    cfx_value val = cfx__sym_binary(op, cfx__reify_meaning(a), cfx__reify_meaning(b));
    bool minus = op == CFX__SYM_ADD && b.tag == CFX_TAG_INT && cfx_integer(b) < 0 &&
                 cfx_integer(b) != INT64_MIN;
    cfx_node *n =
        minus ? cfx__reify_node(g, "operator.sub", cfx_tuple(a, cfx_int(-cfx_integer(b))), val)
              : cfx__reify_node(g, function_of(op), cfx_tuple(a, b), val);
    return cfx_node_value(n);
}

cfx_value cfx__reify_apply(cfx__merging *g, cfx__sym_op op, cfx_value a, cfx_value b) {
    cfx_value val = cfx__sym_binary(op, cfx__reify_meaning(a), cfx__reify_meaning(b));
    struct cfx__place *known = val.tag == CFX_TAG_SYM ? cfx__place_find(g, val) : NULL;
    bool there = known && known->node && is_at_hand(g, known->node);
    return there ? pulled(g, known->node) : applied(g, op, a, b);
}

/* What is taken away, -1 * what: a node of that; NULL for other terms. */
static cfx_node *negated(cfx__sym_op op, cfx_value v) {
    cfx_node *n = op == CFX__SYM_ADD && v.tag == CFX_TAG_NODE ? cfx_as_node(v) : NULL;
    return n && !n->users && !strcmp(n->target.name, "operator.neg") ? n : NULL;
}

/* Terms or factors, ready as they are, from the first to the last. What PyTorch makes of an
 * expression is new but for the terms and the whole: there may be a node for the sum of some. */
static cfx_value folded(cfx__merging *g, cfx__sym_op op, const cfx_list *ready, bool written) {
    cfx_value all = ready->items[0];
    for (int64_t i = 1; i < ready->len; i++) {
        cfx_node *less = negated(op, ready->items[i]);
        cfx_value val =
            less ? cfx__sym_binary(op, cfx__reify_meaning(all), cfx__reify_meaning(ready->items[i]))
                 : cfx_none();
        all = val.tag == CFX_TAG_SYM
                  ? cfx_node_value(cfx__reify_node(
                        g, "operator.sub", cfx_tuple(all, cfx_as_list(less->args)->items[0]), val))
              : !written && i + 1 < ready->len ? applied(g, op, all, ready->items[i])
                                               : cfx__reify_apply(g, op, all, ready->items[i]);
    }
    return all;
}

static cfx_value compute(cfx__merging *g, cfx_sym *e, bool written) {
    bool chain = e->op == CFX__SYM_ADD || e->op == CFX__SYM_MUL || e->op == CFX__SYM_MIN ||
                 e->op == CFX__SYM_MAX;
    if (!chain) {
        cfx_value a = cfx__reify(g, sym_value(e->a), written);
        cfx_value b = cfx_is_bad(a) ? a : cfx__reify(g, sym_value(e->b), written);
        return cfx_is_bad(b) ? b : cfx__reify_apply(g, e->op, a, b);
    }
    if (written && is_minus(e)) {
        cfx_value one = cfx__reify(g, sym_value(e->b), written);
        return cfx_is_bad(one) ? one
                               : cfx_node_value(cfx__reify_node(g, "operator.neg", cfx_tuple(one),
                                                                cfx__value_of_sym(e)));
    }
    cfx_value parts = in_order(g, e, written), ready = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(parts)->len; i++) {
        cfx_value one = cfx__reify(g, cfx_as_list(parts)->items[i], written);
        if (cfx_is_bad(one))
            return one;
        cfx_list_append(cfx_as_list(ready), one);
    }
    return folded(g, e->op, cfx_as_list(ready), written);
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

/* A size that was noted where its tensor was made is computed there. */
static cfx_value reify_before(cfx__merging *g, struct cfx__place *p) {
    cfx_graph *graph = g->m->graph[0];
    cfx_node *pulled = g->pull;
    cfx_insert here = cfx_graph_insert_before(graph, p->before);
    g->pull = p->before;
    p->before = NULL;
    cfx_value v = cfx__reify(g, p->expr, false);
    g->pull = pulled;
    cfx_graph_set_insert(graph, here);
    return v;
}

static bool is_settled(const cfx__merging *g, const cfx_node *n) {
    for (size_t i = 0; i < g->settled.len; i++)
        if (g->settled.data[i] == n)
            return true;
    return false;
}

/* Whether n is recorded from a call that gave a tensor. */
static bool is_inner(const cfx_node *n) {
    cfx_each_node(n->graph,
                  other) if (cfx__node_of(other)->origin == cfx__node_of(n)->origin &&
                             !cfx__merge_is_scalar(cfx_node_get_meta(other, "val"))) return true;
    return false;
}

/* Whether nothing was made of n but numbers that do not vary, by arithmetic inside its call. */
static bool is_idle(const cfx__merging *g, const cfx_node *n) {
    cfx_each_user(n, u) {
        bool same = cfx__node_of(u->user)->origin == cfx__node_of(n)->origin &&
                    cfx__merge_is_scalar(cfx_node_get_meta(u->user, "val"));
        if (!is_settled(g, u->user) && !(same && is_idle(g, u->user)))
            return false;
    }
    return true;
}

bool cfx__place_is_spent(const cfx__merging *g, const struct cfx__place *p) {
    const cfx_node *n = p->node;
    uint32_t origin = n ? cfx__node_of(n)->origin : 0;
    return g->m->eager && origin && n->users && g->at[0] &&
           origin != cfx__node_of(g->at[0])->origin && is_idle(g, n) && is_inner(n);
}

/* A node for an expression, made where there is none: of symbols where these are at hand, else by
 * asking a tensor. `written` where it stands for arithmetic of the program's. */
cfx_value cfx__reify(cfx__merging *g, cfx_value expr, bool written) {
    if (expr.tag != CFX_TAG_SYM)
        return expr;
    cfx_value known = g->symints ? cfx__symint_known(g, expr) : cfx_none();
    if (!cfx_is_none(known))
        return known;
    struct cfx__place *p = cfx__place_find(g, expr);
    if (p && cfx__place_is_spent(g, p))
        p->node = NULL;
    if (p && p->node && is_at_hand(g, p->node))
        return pulled(g, p->node);
    if (p && p->before && written)
        return reify_before(g, p);
    bool name = cfx_as_sym(expr)->op == CFX__SYM_NAME;
    if (p && p->tensor && (name || !is_free(g, cfx_as_sym(expr))))
        return cfx_node_value(read_size(g, p));
    cfx_value v = name ? from_multiple(g, expr) : compute(g, cfx_as_sym(expr), written);
    if (v.tag == CFX_TAG_NODE)
        cfx__place_add(g, expr, cfx_as_node(v), NULL, 0);
    return v;
}
