/* Where each size is first read from a tensor, and the assertions on data-dependent sizes. */
#include <cfx/ops.h>

#include "merge.h"
#include "relations.h"

static bool is_list(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

cfx_value cfx__merge_sizes(cfx_value val) {
    return val.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(val), "shape") : cfx_none();
}

/* Of several sizes of inputs that are one, that is read which the symbol is called after. */
static bool is_read_elsewhere(cfx_value name, const cfx_node *n, int dim) {
    if (cfx__symbol_is_of(cfx_as_sym(name)->name, n, dim))
        return false;
    cfx_each_node(n->graph, other) {
        cfx_value shape = other->op == CFX_PLACEHOLDER
                              ? cfx__merge_sizes(cfx_node_get_meta(other, "val"))
                              : cfx_none();
        for (int i = 0; is_list(shape) && i < cfx_as_list(shape)->len; i++)
            if (cfx_equal_values(cfx_as_list(shape)->items[i], name) &&
                cfx__symbol_is_of(cfx_as_sym(name)->name, other, i))
                return true;
    }
    return false;
}

static const char *told_of(const char *claim, const cfx_node *asks) {
    return cfx__text_format("Runtime assertion failed for expression %s on node '%s'", claim,
                            asks->name);
}

/* A node that compares, and an assertion of it. */
static void assert_that(cfx__merging *g, const char *function, cfx_value args, const char *claim) {
    cfx_node *asks = cfx__reify_node(g, function, args, cfx_string_value(claim));
    cfx_graph *graph = g->m->graph[0];
    cfx_node *n = cfx_graph_create(graph, CFX_CALL_FUNCTION,
                                   cfx_graph_target(graph, "aten._assert_scalar.default"),
                                   cfx_tuple(asks, told_of(claim, asks)), cfx_none(), NULL, NULL);
    cfx_list_append(g->claims, cfx_string_value(claim));
    VEC_PUSH(g->asserts, n);
}

/* The relation, of a and b here; what is not equal is asked for as PyTorch does. */
static void assert_relation(cfx__merging *g, const cfx__relation *r, cfx_value a, cfx_value b) {
    const char *claim = cfx__relation_text(r);
    cfx__relation opposite = cfx__relation_not(*r);
    if (r->op != CFX__NE) {
        assert_that(g, cfx__relation_function(r->op), cfx_tuple(a, b), claim);
        return;
    }
    cfx_node *equal = cfx__reify_node(g, "operator.eq", cfx_tuple(a, b),
                                      cfx_string_value(cfx__relation_text(&opposite)));
    assert_that(g, "torch.sym_not", cfx_tuple(equal), claim);
}

static void assert_bound(cfx__merging *g, cfx_value name, cfx_value size, bool below,
                         int64_t bound) {
    const char *claim = cfx__text_format("%s %s %lld", cfx_as_sym(name)->name,
                                         below ? ">=" : "<=", (long long)bound);
    assert_that(g, below ? "operator.ge" : "operator.le", cfx_tuple(size, bound), claim);
}

/* Whether all symbols of a sum are nodes; *has where `name` is one of them. */
static bool is_given(const cfx__merging *g, const cfx_sym *sum, cfx_value name, bool *has) {
    if (sum->op == CFX__SYM_ADD) {
        bool left = is_given(g, sum->a, name, has), right = is_given(g, sum->b, name, has);
        return left && right;
    }
    const struct cfx__place *p = cfx__place_find(g, cfx__value_of_sym(sum));
    *has |= cfx__sym_equal(sum, cfx_as_sym(name));
    return p && p->node;
}

/* The node that adds up a sum of symbols, made anew. */
static cfx_node *add_up(cfx__merging *g, const cfx_sym *sum) {
    cfx_value all = cfx__value_of_sym(sum);
    if (sum->op == CFX__SYM_NAME)
        return cfx__place_find(g, all)->node;
    cfx_node *a = add_up(g, sum->a), *b = add_up(g, sum->b);
    return cfx__reify_node(g, "operator.add", cfx_tuple(a, b), all);
}

/* Whether an expression is one of symbols that nodes give; *has where `name` is one of them. */
static bool is_made(const cfx__merging *g, const cfx_sym *e, cfx_value name, bool *has) {
    if (e->op == CFX__SYM_INT)
        return true;
    if (e->op != CFX__SYM_NAME) {
        bool left = is_made(g, e->a, name, has), right = is_made(g, e->b, name, has);
        return left && right;
    }
    *has |= cfx__sym_equal(e, cfx_as_sym(name));
    if (*e->name != 'u') /* a size of an input */
        return true;
    return cfx__place_find(g, cfx__value_of_sym(e)) != NULL;
}

static bool is_made_in(const cfx__merging *g, cfx_value v, cfx_value name, bool *has) {
    return v.tag != CFX_TAG_SYM || is_made(g, cfx_as_sym(v), name, has);
}

static bool is_asserted(const cfx__merging *g, const char *claim) {
    for (int64_t i = 0; i < g->claims->len; i++)
        if (!strcmp(cfx_text(g->claims->items[i]), claim))
            return true;
    return false;
}

/* Where the last of several sizes that depend on data appears, what they add up to is asserted.
 * What they are no more than the program asserts itself, unless a symbol was replaced. */
static void assert_totals(cfx__merging *g, cfx_value name) {
    for (size_t i = 0; i < g->m->worlds->totals.len; i++) {
        const struct cfx__total *t = &g->m->worlds->totals.data[i];
        bool has = false;
        const cfx__relation r = {t->at_most ? CFX__LE : CFX__EQ, t->sum, t->total};
        bool itself = t->at_most && !g->m->worlds->replaced.len;
        if (itself || is_asserted(g, cfx__relation_text(&r)) ||
            !is_given(g, cfx_as_sym(t->sum), name, &has) ||
            !is_made_in(g, t->total, name, &has) || !has)
            continue;
        const struct cfx__place *there = cfx__place_find(g, t->sum);
        cfx_node *sum = there && there->node ? there->node : add_up(g, cfx_as_sym(t->sum));
        cfx__place_add(g, t->sum, sum, NULL, 0);
        cfx_value total = cfx__reify(g, t->total, false);
        assert_relation(g, &r, cfx_node_value(sum), total);
    }
}

/* Where the last of several numbers that depend on data appears, what forward checks of them is
 * asserted. */
static void assert_checks(cfx__merging *g, cfx_value name) {
    for (size_t i = 0; i < g->m->worlds->checks.len && cfx_ok(); i++) {
        const cfx__relation *r = &g->m->worlds->checks.data[i];
        bool has = false, made = is_made_in(g, r->a, name, &has) && is_made_in(g, r->b, name, &has);
        if (!made || !has)
            continue;
        cfx_value a = cfx__reify(g, r->a, false), b = cfx__reify(g, r->b, false);
        if (!cfx_is_bad(a) && !cfx_is_bad(b))
            assert_relation(g, r, a, b);
    }
}

/* Where a number that depends on data first appears, its range is asserted, but for what follows
 * from a comparison that the program asserts itself. */
static void assert_range(cfx__merging *g, cfx_value name) {
    cfx_value size = cfx__reify(g, name, false);
    const cfx__symbol *s = cfx__worlds_find(g->m->worlds, cfx_as_sym(name)->name);
    if (size.tag != CFX_TAG_NODE || !s)
        return;
    if (s->least > INT64_MIN + 1 && !s->least_follows)
        assert_bound(g, name, size, true, s->least);
    const int64_t most = cfx__symbol_largest(s);
    if (most < INT64_MAX - 1 && (!s->most_follows || most < s->most))
        assert_bound(g, name, size, false, most);
    assert_totals(g, name);
    assert_checks(g, name);
}

void cfx__merge_assert_fixed(cfx__merging *g, cfx_node *n, const char *symbol) {
    const cfx__symbol *s = cfx__worlds_find(g->m->worlds, symbol);
    cfx_value name = cfx__sym_name(symbol, false, 0), size = cfx_node_value(n);
    if (!s || s->least != s->most || s->apart)
        return;
    assert_bound(g, name, size, true, s->least);
    assert_bound(g, name, size, false, s->most);
    const cfx__relation eq = {CFX__EQ, name, cfx_int(s->least)};
    assert_relation(g, &eq, size, cfx_int(s->least));
}

static void take_name(cfx_node *n, cfx_node *from) {
    const char *name = cfx__text_format("%s", from->name);
    cfx_node_rename(from, "dropped");
    cfx_node_set_name(n, name);
}

/* What the program asserts itself is asserted here already, under the names that it has there. */
cfx_value cfx__merge_claimed(cfx__merging *g, cfx_node *n) {
    cfx_value cond = n->target.op == &cfx_op__assert_scalar ? cfx_at(n->args, 0) : cfx_none();
    cfx_value claim = cond.tag == CFX_TAG_NODE ? cfx__reify_meaning(cond) : cfx_none();
    for (int64_t i = 0; claim.tag == CFX_TAG_STR && i < g->claims->len; i++)
        if (cfx_equal_values(g->claims->items[i], claim)) {
            cfx_node *mine = g->asserts.data[i], *asks = cfx_as_node(cfx_at(mine->args, 0));
            if (g->m->eager)
                take_name(mine, n);
            cfx_node_set_arg(mine, 1, cfx_string_value(told_of(cfx_as_text(claim), asks)));
            return cond;
        }
    if (claim.tag == CFX_TAG_STR && g->m->eager) { /* made anew as well */
        cfx_node *asks = cfx_as_node(cond);
        const char *dot = strrchr(asks->target.name, '.');
        cfx_node_rename(asks, dot ? dot + 1 : asks->target.name);
        cfx_node_set_arg(n, 1, cfx_string_value(told_of(cfx_as_text(claim), asks)));
    }
    return cfx_none();
}

static bool is_data_symbol(cfx_value v) {
    return v.tag == CFX_TAG_SYM && cfx_as_sym(v)->op == CFX__SYM_NAME &&
           *cfx_as_sym(v)->name == 'u';
}

bool cfx__merge_is_fresh(const cfx__merging *g, cfx_value v) {
    return is_data_symbol(v) && !cfx__place_find(g, v);
}

/* Sizes of a tensor that may be asked for; those that PyTorch reads at once are read. */
static void note_tensor(cfx__merging *g, cfx_node *n, cfx_value val) {
    cfx_value shape = cfx__merge_sizes(val);
    for (int i = 0; is_list(shape) && i < cfx_as_list(shape)->len; i++) {
        cfx_value expr = cfx_as_list(shape)->items[i];
        const char *replaced = cfx__worlds_replaced(g->m->worlds, n, i);
        if (replaced) {
            cfx__place_add(g, cfx__sym_name(replaced, false, 0), NULL, n, i);
            cfx__reify(g, cfx__sym_name(replaced, false, 0), false);
        }
        struct cfx__place *known = expr.tag == CFX_TAG_SYM ? cfx__place_find(g, expr) : NULL;
        if (known && cfx__place_is_spent(g, known)) {
            known->node = NULL, known->tensor = n, known->dim = i;
            known->before = cfx_node_after(n);
        }
        if (expr.tag != CFX_TAG_SYM || known)
            continue;
        bool first = n->op == CFX_PLACEHOLDER && cfx_as_sym(expr)->op == CFX__SYM_NAME;
        if (first && is_read_elsewhere(expr, n, i))
            continue;
        cfx__place_add(g, expr, NULL, n, i);
        if (is_data_symbol(expr))
            assert_range(g, expr);
        else if (first)
            cfx__reify(g, expr, false);
        else if (g->m->eager)
            cfx__place_find(g, expr)->before =
                n->op == CFX_PLACEHOLDER ? g->first : cfx_node_after(n);
    }
}

static void note_number(cfx__merging *g, cfx_node *n, cfx_value val) {
    bool fresh = cfx__merge_is_fresh(g, val);
    cfx__place_add(g, val, n, NULL, 0);
    if (fresh)
        assert_range(g, val);
}

/* Takes result i of n for a number that it is, or for its size number dim, where that is new. */
static void take_fresh(cfx__merging *g, cfx_node *n, int64_t i, cfx_value v, int dim,
                       cfx_list *fresh) {
    if (!cfx__merge_is_fresh(g, v))
        return;
    cfx_node *item = cfx__reify_node(g, "operator.getitem", cfx_tuple(n, i),
                                     dim < 0 ? v : cfx_none());
    cfx__place_add(g, v, dim < 0 ? item : NULL, dim < 0 ? NULL : item, dim);
    cfx__reify(g, v, false);
    cfx_list_append(fresh, v);
}

/* Of several results those are taken here that depend on data, or have sizes which do; then what
 * is asserted of them. */
static void note_results(cfx__merging *g, cfx_node *n, cfx_value list) {
    cfx_list *fresh = cfx_as_list(cfx_list_value(0, NULL));
    for (int64_t i = 0; i < cfx_as_list(list)->len; i++) {
        cfx_value val = cfx_as_list(list)->items[i], shape = cfx__merge_sizes(val);
        take_fresh(g, n, i, val, -1, fresh);
        for (int d = 0; is_list(shape) && d < cfx_as_list(shape)->len; d++)
            take_fresh(g, n, i, cfx_as_list(shape)->items[d], d, fresh);
    }
    for (int64_t i = 0; i < fresh->len; i++)
        assert_range(g, fresh->items[i]);
}

void cfx__merge_note(cfx__merging *g, cfx_node *n, cfx_value val) {
    if (val.tag == CFX_TAG_SYM)
        note_number(g, n, val);
    else if (is_list(val))
        note_results(g, n, val);
    else
        note_tensor(g, n, val);
}

/* Asserts what is known of a symbol whose size another expression stands for: a number, or a symbol
 * that it is equal to. Which of several sizes it is of is not known any more: all are as large. */
static void assert_hidden(cfx__merging *g, cfx_node *n, cfx_value val, cfx_value name) {
    const cfx__symbol *s = cfx__worlds_find(g->m->worlds, cfx_as_sym(name)->name);
    cfx_result r = cfx_result_of(val);
    for (int64_t i = 0; is_list(val) && i < cfx_as_list(val)->len; i++)
        assert_hidden(g, cfx__reify_node(g, "operator.getitem", cfx_tuple(n, i), cfx_none()),
                      cfx_as_list(val)->items[i], name);
    for (int i = 0; r.kind == CFX_RESULT_TENSOR && i < r.ndim; i++) {
        if (!cfx__exprs_proves(g->exprs, cfx_result_size(&r, i), &s->size))
            continue;
        bool one = s->least == s->most;
        cfx_node *size = cfx__reify_node(g, "aten.sym_size.int", cfx_tuple(n, i),
                                         one ? cfx_int(s->least) : name);
        if (one) {
            cfx__merge_assert_fixed(g, size, s->name);
        } else if (!cfx__place_find(g, name)) {
            cfx__place_add(g, name, size, NULL, 0);
            assert_range(g, name);
        }
    }
}

void cfx__merge_note_hidden(cfx__merging *g, cfx_node *n, cfx_value val, const cfx_list *symbols) {
    for (int64_t i = 0; i < symbols->len; i++) {
        cfx_value name = cfx__sym_name(cfx_text(symbols->items[i]), false, 0);
        if (!cfx__place_find(g, name) && cfx__worlds_find(g->m->worlds, cfx_as_sym(name)->name))
            assert_hidden(g, n, val, name);
    }
}

void cfx__merge_note_inputs(cfx__merging *g) {
    for (int numbers = 1; numbers >= 0; numbers--)
        cfx_each_node(g->m->graph[0], n) {
            cfx_value val = cfx_node_get_meta(n, "val");
            if (n->op == CFX_PLACEHOLDER && (val.tag == CFX_TAG_SYM) == numbers)
                cfx__merge_note(g, n, val);
        }
}
