/* Merges the recordings of all worlds into one program: graph 0, with nodes for numbers that
 * differ and expressions in the metadata. Start at cfx__worlds_merge. The order follows PyTorch:
 * symbols are read first, right after the inputs; other expressions are computed once, where
 * they are first needed. */
#include "symints.h"

static bool is_list(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

/* ---- the same but for numbers ---------------------------------------------------------------- */

static bool is_real(cfx_value v) { return v.tag == CFX_TAG_INT || v.tag == CFX_TAG_FLOAT; }

bool cfx__merge_is_scalar(cfx_value val) {
    return is_real(val) || val.tag == CFX_TAG_SYM || val.tag == CFX_TAG_BOOL ||
           val.tag == CFX_TAG_STR;
}

static bool same_value(cfx_value a, cfx_value b) {
    if (is_real(a))
        return a.tag == b.tag;
    if (a.tag != b.tag)
        return false;
    if (is_list(a)) {
        bool same = cfx_as_list(a)->len == cfx_as_list(b)->len;
        for (int64_t i = 0; same && i < cfx_as_list(a)->len; i++)
            same = same_value(cfx_as_list(a)->items[i], cfx_as_list(b)->items[i]);
        return same;
    }
    if (a.tag == CFX_TAG_DICT) {
        bool same = cfx_as_dict(a)->len == cfx_as_dict(b)->len;
        for (int64_t i = 0; same && i < cfx_as_dict(a)->len; i++)
            same = same_value(cfx_as_dict(a)->entries[i].value, cfx_as_dict(b)->entries[i].value);
        return same;
    }
    return a.tag == CFX_TAG_NODE ? !strcmp(cfx_as_node(a)->name, cfx_as_node(b)->name)
                                 : cfx_equal_values(a, b);
}

/* Whether the sub-graphs that recordings left with their graphs are the same as well. */
static bool same_subgraphs(const cfx_graph *a, const cfx_graph *b, const cfx_node **where) {
    for (size_t i = 0; i < a->subgraphs.len; i++) {
        const cfx_graph *other = cfx__graph_subgraph(b, a->subgraphs.data[i].name);
        if (!other || !cfx__worlds_same(a->subgraphs.data[i].graph, other, where))
            return false;
    }
    return true;
}

/* Whether dimensions that are arguments are the same: they can be no sizes. */
static bool same_dims(const cfx_node *n, const cfx_node *m) {
    const cfx__schema *s = n->op == CFX_CALL_FUNCTION && n->target.op && !n->target.fn
                               ? cfx__op_info_of(n->target.op)->schema
                               : NULL;
    for (int i = 0; s && i < s->npositional && i < cfx_as_list(n->args)->len; i++)
        if (s->args[i].type == CFX__T_INT && !strncmp(s->args[i].name, "dim", 3) &&
            !cfx_equal_values(cfx_as_list(n->args)->items[i], cfx_as_list(m->args)->items[i]))
            return false;
    return true;
}

bool cfx__worlds_same(const cfx_graph *a, const cfx_graph *b, const cfx_node **where) {
    const cfx_node *m = cfx_graph_first(b);
    cfx_each_node((cfx_graph *)(uintptr_t)a, n) {
        *where = n;
        if (!m || n->op != m->op || strcmp(n->target.name, m->target.name) ||
            !same_value(n->args, m->args) || !same_value(n->kwargs, m->kwargs) ||
            !same_dims(n, m))
            return false;
        m = cfx_node_after(m);
    }
    *where = NULL;
    return !m && same_subgraphs(a, b, where);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* What a tensor argument of the node is in world k; NULL for others. */
static const cfx_tensor *tensor_in(const cfx__merging *g, cfx_value v, int k) {
    if (v.tag != CFX_TAG_NODE)
        return NULL;
    cfx_value val = cfx__worlds_tensor(g->m->worlds, k, cfx_node_get_meta(cfx_as_node(v), "val"));
    return val.tag == CFX_TAG_TENSOR ? cfx_as_tensor(val) : NULL;
}

/* A number that is the product of neighbouring dimensions of the first argument is computed in
 * their order; None where it is none. */
static cfx_value neighbours(cfx__merging *g, const cfx__seen *seen) {
    int n = g->m->worlds->n;
    const cfx_tensor *t[CFX__WORLDS];
    if (!is_list(g->at[0]->args) || !cfx_as_list(g->at[0]->args)->len)
        return cfx_none();
    for (int k = 0; k < n; k++)
        if (!(t[k] = tensor_in(g, cfx_as_list(g->at[0]->args)->items[0], k)))
            return cfx_none();
    for (int from = 0; from < t[0]->ndim; from++)
        for (int to = from + 2; to <= t[0]->ndim; to++) {
            bool fits = true;
            for (int k = 0; k < n && fits; k++) {
                int64_t all = 1;
                for (int i = from; i < to; i++)
                    fits &= !__builtin_mul_overflow(all, t[k]->shape[i], &all);
                fits &= all == seen->at[k];
            }
            if (!fits)
                continue;
            cfx_value all = cfx_none(), sizes[CFX_MAX_DIMS];
            for (int i = from; i < to; i++) {
                cfx__seen one;
                for (int k = 0; k < n; k++)
                    one.at[k] = t[k]->shape[i];
                cfx_value v = cfx__exprs_known(g->exprs, &one);
                sizes[i] = cfx_is_none(v) ? v : cfx__reify(g, v, true);
                if (cfx_is_none(v) || cfx_is_bad(sizes[i]))
                    return sizes[i];
            }
            for (int i = from; i < to; i++) {
                cfx_value v = sizes[i];
                bool first = i == from || (all.tag == CFX_TAG_INT && cfx_integer(all) == 1);
                all = first ? v
                      : v.tag == CFX_TAG_INT && cfx_integer(v) == 1
                          ? all
                          : cfx__reify_apply(g, CFX__SYM_MUL, all, v);
            }
            if (all.tag == CFX_TAG_NODE)
                cfx__place_add(g, cfx__reify_meaning(all), cfx_as_node(all), NULL, 0);
            return all;
        }
    return cfx_none();
}

static cfx_value merge_int(cfx__merging *g, const cfx_value *v) {
    cfx__seen seen = {0};
    for (int k = 0; k < g->m->worlds->n; k++)
        seen.at[k] = cfx_integer(v[k]);
    if (g->symints) {
        cfx_value size = cfx__symint_arg(g, v);
        cfx_value expr = cfx_is_none(size) ? cfx__merge_expression(g, &seen, "an argument") : size;
        return cfx_is_none(size) && !cfx_is_bad(expr) ? cfx__reify(g, expr, true) : expr;
    }
    cfx_node *form = cfx__merge_own_form(g, &seen);
    if (form)
        return cfx_node_value(form);
    cfx_value expr = cfx__exprs_known(g->exprs, &seen);
    struct cfx__place *known = expr.tag == CFX_TAG_SYM ? cfx__place_find(g, expr) : NULL;
    if (expr.tag == CFX_TAG_INT)
        return cfx__merge_settled_or(g, expr);
    if (!known || !known->node) {
        cfx_value side = neighbours(g, &seen);
        if (!cfx_is_none(side))
            return side;
    }
    expr = cfx__merge_expression(g, &seen, "an argument");
    return cfx_is_bad(expr) ? expr : cfx__reify(g, expr, true);
}

/* All numbers are but NaN, which is the same everywhere nevertheless. */
static bool is_equal_to_itself(cfx_value v) { return cfx_equal_values(v, v); }

/* A world in which v is another number than in the first; 0: none. */
static int find_other(const cfx__merging *g, const cfx_value *v) {
    for (int k = 1; k < g->m->worlds->n; k++)
        if (!cfx_equal_values(v[k], v[0]) && (is_equal_to_itself(v[k]) || is_equal_to_itself(v[0])))
            return k;
    return 0;
}

static cfx_value merge_real(cfx__merging *g, const cfx_value *v) {
    const int other = find_other(g, v);
    if (!other)
        return cfx__merge_settled_or(g, v[0]);
    cfx_value real = cfx__merge_real(g, v);
    if (cfx_is_none(real)) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "an argument of %s varies with the sizes of the inputs in a way that no "
                 "expression was found for: it is %s, and %s at other sizes",
                 g->at[0]->name, cfx_value_repr(v[0]), cfx_value_repr(v[other]));
        return cfx_bad();
    }
    return real;
}

/* A value of the node in all worlds as one. */
static cfx_value merge_value(cfx__merging *g, const cfx_value *v) {
    cfx_value part[CFX__WORLDS];
    int n = g->m->worlds->n;
    if (v[0].tag == CFX_TAG_INT)
        return merge_int(g, v);
    if (v[0].tag == CFX_TAG_FLOAT)
        return merge_real(g, v);
    if (is_list(v[0])) {
        cfx_value out =
            v[0].tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
        for (int64_t i = 0; i < cfx_as_list(v[0])->len && cfx_ok(); i++) {
            for (int k = 0; k < n; k++)
                part[k] = cfx_as_list(v[k])->items[i];
            cfx_list_append(cfx_as_list(out), merge_value(g, part));
        }
        return out;
    }
    if (v[0].tag == CFX_TAG_DICT) {
        cfx_dict *out = cfx_dict_new();
        for (int64_t i = 0; i < cfx_as_dict(v[0])->len && cfx_ok(); i++) {
            for (int k = 0; k < n; k++)
                part[k] = cfx_as_dict(v[k])->entries[i].value;
            cfx_dict_put(out, cfx_as_dict(v[0])->entries[i].key, merge_value(g, part));
        }
        return cfx_dict_value(out);
    }
    return v[0].tag == CFX_TAG_NODE && g->symints ? cfx__symint_node_arg(g, cfx_as_node(v[0]))
                                                  : v[0];
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool merge_subgraph(cfx__merging *g) {
    cfx__merge sub = {.worlds = g->m->worlds, .eager = g->m->eager, .exprs = g->exprs,
                      .asked = g->m->asked, .outer = g};
    for (int k = 0; k < g->m->worlds->n; k++)
        if (!(sub.graph[k] = cfx__branch_graph(g->m->graph[k], g->m->root[k],
                                               g->at[k]->target.name, &sub.root[k])))
            return cfx_ok();
    return cfx__worlds_merge(&sub);
}

static bool merge_args(cfx__merging *g) {
    cfx_value args[CFX__WORLDS], kwargs[CFX__WORLDS];
    for (int k = 0; k < g->m->worlds->n; k++) {
        args[k] = g->at[k]->args;
        kwargs[k] = g->at[k]->kwargs;
    }
    cfx_value a = cfx_tuple_value(0, NULL), item[CFX__WORLDS];
    bool once = true;
    for (int64_t i = 0; i < cfx_as_list(args[0])->len && cfx_ok(); i++) {
        for (int k = 0; k < g->m->worlds->n; k++)
            item[k] = cfx_as_list(args[k])->items[i];
        g->sized = once && cfx__merge_takes_size(g->at[0], i);
        bool before = g->sized;
        cfx_list_append(cfx_as_list(a), merge_value(g, item));
        once &= g->sized == before;
    }
    g->sized = false;
    cfx_value kw = merge_value(g, kwargs);
    if (!cfx_ok())
        return false;
    cfx_node_set_args(g->at[0], a);
    cfx_node_set_kwargs(g->at[0], kw);
    return cfx_ok();
}

static void note_real(cfx__merging *g, cfx_node *n, const cfx_value *val) {
    cfx_value text = cfx__merge_real_text(n);
    if (!cfx_is_none(text))
        cfx_node_set_meta(n, "val", text);
    cfx__merge_note_real(g, val, n);
}

static void drop_claimed(cfx__merging *g, cfx_node *n) {
    cfx_value asked = cfx__merge_claimed(g, n);
    if (asked.tag != CFX_TAG_NODE)
        return;
    VEC_PUSH(g->claimed, cfx_as_node(asked));
    VEC_PUSH(g->made, n);
}

static bool merge_node(cfx__merging *g) {
    cfx_node *n = g->at[0];
    cfx_value val[CFX__WORLDS];
    cfx_graph_insert_before(n->graph, n);
    if (n->op == CFX_GET_ATTR)
        return merge_subgraph(g);
    if (!merge_args(g))
        return false;
    cfx__merge_give_lifted(g, n);
    if (!g->symints)
        drop_claimed(g, n);
    for (int k = 0; k < g->m->worlds->n; k++)
        val[k] = cfx_node_get_meta(g->at[k], "val");
    if (cfx_is_none(val[0]))
        return true;
    cfx__merge_note_slice(g, n);
    cfx_value all = cfx__merge_val(g, val, 0), symbol = cfx_node_get_meta(n, "data");
    if (!cfx_ok())
        return false;
    if (symbol.tag == CFX_TAG_STR && val[0].tag != CFX_TAG_INT) /* a float, or a truth */
        all = val[0].tag == CFX_TAG_FLOAT
                  ? symbol
                  : cfx_string_value(cfx__text_format("Eq(%s, 1)", cfx_text(symbol)));
    else if (symbol.tag == CFX_TAG_STR && all.tag == CFX_TAG_SYM) /* which may be equal to others */
        all = cfx__sym_name(cfx_text(symbol), false, 0);
    cfx__merge_ranges(g, n, all);
    cfx_node_set_meta(n, "val", all);
    cfx_graph_insert_after(n->graph, n);
    if (symbol.tag == CFX_TAG_STR) {
        cfx__merge_assert_fixed(g, n, cfx_text(symbol));
        cfx_node_remove_meta(n, "data"); /* which frees the text */
    }
    bool same = is_real(val[0]) && !find_other(g, val);
    if (g->symints) {
        if (val[0].tag == CFX_TAG_FLOAT && !same)
            note_real(g, n, val);
        cfx__symint_made(g, n, all);
        return cfx_ok();
    }
    if (val[0].tag == CFX_TAG_FLOAT && same)
        cfx__merge_settle(g, n);
    else if (val[0].tag == CFX_TAG_FLOAT)
        note_real(g, n, val);
    else if (all.tag == CFX_TAG_INT || all.tag == CFX_TAG_SYM)
        cfx__merge_note_number(g, n, all);
    else
        cfx__merge_note(g, n, all);
    cfx__merge_note_view(g, n, all);
    if (symbol.tag == CFX_TAG_LIST) {
        cfx__merge_note_hidden(g, n, all, cfx_as_list(symbol));
        cfx_node_remove_meta(n, "data");
    }
    if (val[0].tag == CFX_TAG_BOOL && !find_other(g, val))
        cfx__merge_note_truth(g, n, cfx_is_true(val[0]));
    if (cfx__merge_is_scalar(val[0])) /* of which those stay that someone uses */
        VEC_PUSH(g->made, n);
    if (same && !(g->settled.len && g->settled.data[g->settled.len - 1] == n))
        cfx_list_append(g->plain, cfx_string_value(n->name));
    return cfx_ok();
}

/* What the inputs of a sub-graph are in all worlds. */
static bool describe_inputs(cfx__merging *g) {
    cfx_node *at[CFX__WORLDS];
    cfx_value val[CFX__WORLDS];
    int n = g->m->worlds->n;
    for (int k = 0; k < n; k++)
        at[k] = cfx_graph_first(g->m->graph[k]);
    while (at[0] && at[0]->op == CFX_PLACEHOLDER && cfx_ok()) {
        for (int k = 0; k < n; k++) {
            g->at[k] = at[k];
            val[k] = cfx_node_get_meta(at[k], "val");
            at[k] = cfx_node_after(at[k]);
        }
        cfx_value all = cfx__merge_val(g, val, 0);
        if (!cfx_is_bad(all))
            cfx_node_set_meta(g->at[0], "val", all);
    }
    return cfx_ok();
}

/* Symbols are read after the last placeholder. */
static bool merge_placeholders(cfx__merging *g) {
    cfx_graph *graph = g->m->graph[0];
    cfx_node *first = NULL;
    if (g->m->exprs && !describe_inputs(g))
        return false;
    cfx_each_node(graph, n) first = !first && n->op != CFX_PLACEHOLDER ? n : first;
    g->first = first;
    if (first)
        cfx_graph_insert_before(graph, first);
    if (!g->symints)
        cfx__merge_note_inputs(g);
    cfx_each_node(graph, n) if (g->symints && n->op == CFX_PLACEHOLDER)
        cfx__symint_made(g, n, cfx_node_get_meta(n, "val"));
    if (g->symints)
        cfx__symint_guard_inputs(g);
    return cfx_ok();
}

static bool merge_graphs(cfx__merging *g) {
    int n = g->m->worlds->n;
    VEC(cfx_node *) nodes[CFX__WORLDS] = {0};
    for (int k = 0; k < n; k++)
        cfx_each_node(g->m->graph[k], at) if (at->op != CFX_PLACEHOLDER) VEC_PUSH(nodes[k], at);
    bool fine = merge_placeholders(g);
    for (size_t i = 0; fine && cfx_ok() && i < nodes[0].len; i++) {
        size_t mark = cfx_scope_open();
        for (int k = 0; k < n; k++)
            g->at[k] = nodes[k].data[i];
        merge_node(g);
        if (g->symints)
            cfx__symint_wrapped(g);
        cfx_scope_close(mark);
    }
    for (int k = 0; k < n; k++)
        VEC_FREE(nodes[k]);
    if (cfx_ok() && !g->symints)
        cfx__merge_drop_unused(g);
    return cfx_ok();
}

static void forget_places(cfx__merging *g) {
    for (size_t i = 0; i < g->places.len; i++)
        cfx_value_drop(g->places.data[i].expr);
    g->places.len = 0;
}

/* The recordings of a program that is decomposed. */
static bool trace_again(cfx__merging *g) {
    cfx__symints s = {.log = g->m->log[0]};
    g->symints = &s;
    bool fine = merge_graphs(g);
    g->symints = NULL;
    cfx__symints_free(&s);
    forget_places(g);
    g->made.len = 0;
    if (fine)
        cfx__symints_name(g);
    if (fine)
        cfx__graph_sweep(g->m->graph[0], g->m->stays);
    return fine && cfx__symints_cons(g);
}

bool cfx__worlds_merge(cfx__merge *m) {
    if (m->worlds->n < 2)
        return cfx_ok();
    cfx__exprs own = {0};
    cfx__merging g = {.m = m, .exprs = m->exprs ? m->exprs : &own};
    size_t mark = cfx_scope_open();
    g.claims = cfx_as_list(cfx_list_value(0, NULL));
    g.plain = cfx_as_list(cfx_list_value(0, NULL));
    if (!m->exprs)
        cfx__exprs_begin(&own, m->worlds);
    cfx_insert before = cfx_graph_insert_before(m->graph[0], NULL);
    if (m->log[0])
        trace_again(&g);
    else
        merge_graphs(&g);
    cfx_graph_set_insert(m->graph[0], before);
    forget_places(&g);
    VEC_FREE(g.places);
    VEC_FREE(g.reals);
    for (size_t i = 0; i < g.lifts.len; i++)
        cfx_value_drop(g.lifts.data[i].size);
    VEC_FREE(g.lifts);
    VEC_FREE(g.made);
    VEC_FREE(g.asserts);
    VEC_FREE(g.claimed);
    VEC_FREE(g.twins);
    VEC_FREE(g.forms);
    VEC_FREE(g.settled);
    cfx__merge_end_truths(&g);
    m->guessed = g.exprs->guessed;
    cfx__exprs_free(&own);
    cfx_scope_close(mark);
    return cfx_ok();
}
