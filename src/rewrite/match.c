/* Pattern search: goals, each a pair of a pattern value and a graph value, are satisfied one by
 * one, from users to inputs. Where a commutative operator, or a pattern with several results,
 * leaves a choice, the search tries one and backtracks if it fails. Start at cfx__match_at. */
#include "match.h"

#include <math.h>

enum { BUDGET = 20000 }; /* goals that one search may try */
enum { NO_GOAL = -1, NO_WAY = -2, ALL_MET = -3 };

void cfx__matcher_open(cfx__matcher *m, const cfx__pattern *p, cfx_graph *g) {
    *m = (cfx__matcher){.pattern = p, .graph = g, .whole = true};
    m->table = cfx__alloc((size_t)p->len * sizeof *m->table);
    for (int i = 0; i < p->len; i++)
        m->table[i] = cfx_bad();
}

void cfx__matcher_close(cfx__matcher *m) {
    cfx__free(m->table);
    VEC_FREE(m->trail);
    VEC_FREE(m->goals);
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool is_real(cfx_value v) { return v.tag == CFX_TAG_INT || v.tag == CFX_TAG_FLOAT; }

bool cfx__near(cfx_value x, cfx_value y) {
    if (x.tag == CFX_TAG_COMPLEX || y.tag == CFX_TAG_COMPLEX)
        return cfx_equal_values(x, y);
    double a = cfx_number(x), b = cfx_number(y), apart = fabs(a - b);
    return a == b || (a != a && b != b) ||
           (isfinite(apart) && apart <= 1e-6 * fmax(fabs(a), fabs(b)));
}

/* Same type and same value, as torch.fx has it. */
static bool same_literal(const cfx__matcher *m, cfx_value a, cfx_value b) {
    if (m->pattern->loose && is_real(a) && is_real(b))
        return cfx__near(a, b);
    return a.tag == b.tag &&
           (cfx_equal_values(a, b) || (a.tag == CFX_TAG_FLOAT && cfx_number(a) != cfx_number(a) &&
                                       cfx_number(b) != cfx_number(b)));
}

static int push(cfx__matcher *m, cfx_value pattern, cfx_value value, int next) {
    cfx__match_goal g = {pattern, value, next};
    VEC_PUSH(m->goals, g);
    return (int)m->goals.len - 1;
}

/* Goals for the parts of two containers, before `next`; NO_WAY where they have different ones. */
static int push_parts(cfx__matcher *m, cfx_value p, cfx_value v, int next) {
    if (p.tag == CFX_TAG_SLICE) {
        next = push(m, cfx_as_slice(p)->step, cfx_as_slice(v)->step, next);
        next = push(m, cfx_as_slice(p)->stop, cfx_as_slice(v)->stop, next);
        return push(m, cfx_as_slice(p)->start, cfx_as_slice(v)->start, next);
    }
    if (p.tag == CFX_TAG_DICT) {
        if (cfx_as_dict(p)->len != cfx_as_dict(v)->len)
            return NO_WAY;
        for (int64_t i = cfx_as_dict(p)->len - 1; i >= 0; i--) {
            if (!cfx_equal_values(cfx_as_dict(p)->entries[i].key, cfx_as_dict(v)->entries[i].key))
                return NO_WAY;
            next =
                push(m, cfx_as_dict(p)->entries[i].value, cfx_as_dict(v)->entries[i].value, next);
        }
        return next;
    }
    if (cfx_as_list(p)->len != cfx_as_list(v)->len)
        return NO_WAY;
    for (int64_t i = cfx_as_list(p)->len - 1; i >= 0; i--)
        next = push(m, cfx_as_list(p)->items[i], cfx_as_list(v)->items[i], next);
    return next;
}

/* A value of the pattern that is no node. */
static int meet_plain(cfx__matcher *m, cfx__match_goal g) {
    bool list = g.pattern.tag == CFX_TAG_LIST || g.pattern.tag == CFX_TAG_TUPLE;
    bool same = g.pattern.tag == g.value.tag ||
                (list && (g.value.tag == CFX_TAG_LIST || g.value.tag == CFX_TAG_TUPLE));
    if (same && (list || g.pattern.tag == CFX_TAG_DICT || g.pattern.tag == CFX_TAG_SLICE))
        return push_parts(m, g.pattern, g.value, g.next);
    return same_literal(m, g.pattern, g.value) || m->ignore_literals ? g.next : NO_WAY;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static const cfx__pattern_node *pattern_node(const cfx__matcher *m, const cfx_node *n) {
    return &m->pattern->nodes[cfx__node_of(n)->id];
}

/* Whether another node of the pattern stands for v already. */
static bool is_used(const cfx__matcher *m, cfx_value v) {
    for (size_t i = 0; i < m->trail.len; i++) {
        cfx_value have = *cfx__match_slot(m->table, m->trail.data[i]);
        if (have.tag == CFX_TAG_NODE && cfx_as_node(have) == cfx_as_node(v))
            return true;
    }
    return false;
}

static bool is_taken(const cfx__matcher *m, const cfx_node *n) {
    uint32_t id = cfx__node_of(n)->id;
    return m->taken && id < m->ntaken && m->taken[id];
}

static void stand_for(cfx__matcher *m, const cfx_node *pattern, cfx_value v) {
    *cfx__match_slot(m->table, pattern) = v;
    VEC_PUSH(m->trail, pattern);
}

static void undo(cfx__matcher *m, size_t mark) {
    while (m->trail.len > mark)
        *cfx__match_slot(m->table, m->trail.data[--m->trail.len]) = cfx_bad();
}

/* Goals for the arguments as they are written. */
static int push_written(cfx__matcher *m, const cfx_node *p, const cfx_node *n, int next) {
    next = push_parts(m, p->kwargs, n->kwargs, next);
    return next == NO_WAY ? next : push_parts(m, p->args, n->args, next);
}

/* Goals for the arguments by name; an argument that one side does not know has its default on the
 * other. With `turned`, the first two change places. */
static int push_bound(cfx__matcher *m, const cfx__pattern_node *p, const cfx__call *c, bool turned,
                      int next) {
    for (int i = 0; i < p->schema->nargs; i++) {
        if (!cfx__arg_counts(p->schema, i) || cfx__arg_like(c->schema, p->schema, i) >= 0)
            continue;
        const cfx__schema_arg *arg = &p->schema->args[i];
        if (!arg->has_default || !cfx_equal_values(p->args[i], arg->fallback))
            return NO_WAY;
    }
    for (int i = c->schema->nargs - 1; i >= 0; i--) {
        if (!cfx__arg_counts(c->schema, i))
            continue;
        int k = cfx__arg_like(p->schema, c->schema, i);
        const cfx__schema_arg *arg = &c->schema->args[i];
        if (k < 0 && !arg->has_default)
            return NO_WAY;
        next = push(m, k < 0 ? arg->fallback : p->args[k], c->args[turned && i < 2 ? 1 - i : i],
                    next);
    }
    return next;
}

/* Whether node n may be what p stands for, its arguments aside. */
static bool fits(const cfx__matcher *m, const cfx__pattern_node *p, cfx_node *n, cfx__call *c,
                 bool *bound) {
    *bound = false;
    if (n->graph != m->graph || is_taken(m, n) || is_used(m, cfx_node_value(n)))
        return false;
    if (p->node->op == CFX_GET_ATTR)
        return n->op == CFX_GET_ATTR; /* any tensor that the module holds */
    if (!p->schema)
        return n->op == p->node->op && cfx__target_key(n->op, n->target) == p->key &&
               !strcmp(n->target.name, p->node->target.name);
    if (n->op != CFX_CALL_FUNCTION && n->op != CFX_CALL_METHOD)
        return false;
    *bound = cfx__call_of(n, c);
    if (!*bound || c->key != p->key)
        return false;
    bool other = p->named && c->op != p->op && !cfx__op_info_of(c->op)->python;
    return !other;
}

/* ---- a whole match --------------------------------------------------------------------------- */

static bool is_inside(const cfx__matcher *m, const cfx_node *n) {
    for (int i = 0; i < m->pattern->ncalls; i++)
        if (cfx_as_node(*cfx__match_slot(m->table, m->pattern->calls[i])) == n)
            return true;
    return false;
}

/* Values that are not the pattern's results are used inside it alone. */
static bool is_contained(const cfx__matcher *m) {
    for (int i = 0; i < m->pattern->ncalls; i++) {
        const cfx_node *p = m->pattern->calls[i];
        if (pattern_node(m, p)->returned || p->op == CFX_GET_ATTR)
            continue;
        cfx_each_user(cfx_as_node(*cfx__match_slot(m->table, p)), u) if (!is_inside(m, u->user))
            return false;
    }
    return true;
}

/* Whether a way leads out of the match and back in, so that it cannot be one node: only where it
 * has several results, and only through nodes before its last one. */
static bool has_cycle(cfx__matcher *m) {
    const cfx_node *last = NULL;
    if (m->pattern->nreturned < 2)
        return false;
    for (int i = 0; i < m->pattern->ncalls; i++) {
        const cfx_node *n = cfx_as_node(*cfx__match_slot(m->table, m->pattern->calls[i]));
        last = !last || cfx_node_precedes(last, n) ? n : last;
    }
    VEC(const cfx_node *) open = {0};
    size_t mark = cfx_scope_open();
    cfx_dict *seen = cfx_dict_new();
    bool found = false;
    for (int i = 0; i < m->pattern->nreturned; i++) {
        cfx_value v = *cfx__match_slot(m->table, m->pattern->returned[i]);
        if (v.tag == CFX_TAG_NODE && is_inside(m, cfx_as_node(v)))
            cfx_each_user(cfx_as_node(v), u) if (!is_inside(m, u->user)) VEC_PUSH(open, u->user);
    }
    while (open.len && !found) {
        const cfx_node *n = open.data[--open.len];
        cfx_value key = cfx_node_value((cfx_node *)n);
        if (cfx_node_precedes(last, n) || cfx_dict_find(seen, key))
            continue;
        cfx_dict_put(seen, key, cfx_none());
        cfx_each_user(n, u) {
            found |= is_inside(m, u->user);
            VEC_PUSH(open, u->user);
        }
    }
    cfx_scope_close(mark);
    VEC_FREE(open);
    return found;
}

/* ---- search ---------------------------------------------------------------------------------- */

static bool solve(cfx__matcher *m, int goal);

static bool try_anchor(cfx__matcher *m, cfx_node *n) {
    size_t mark = m->trail.len;
    int before = m->anchor;
    cfx_value p = cfx_node_value((cfx_node *)m->pattern->anchors[m->anchor].node);
    m->anchor++;
    if (solve(m, push(m, p, cfx_node_value(n), NO_GOAL)))
        return true;
    undo(m, mark);
    m->anchor = before;
    return false;
}

static int by_order(const void *a, const void *b) {
    const cfx_node *x = *(cfx_node *const *)a, *y = *(cfx_node *const *)b;
    return x == y ? 0 : cfx_node_precedes(x, y) ? -1 : 1;
}

typedef VEC(cfx_node *) node_list;

/* Adds what is reached from n by going to users, step by step. */
static void follow(const cfx__matcher *m, const cfx__pattern_anchor *a, int step, cfx_node *n,
                   node_list *out) {
    if (step + 1 == a->nsteps) {
        VEC_PUSH(*out, n);
        return;
    }
    uint64_t key = pattern_node(m, a->steps[step + 1])->key;
    cfx_each_user(n, u) if (cfx__target_key(u->user->op, u->user->target) == key)
        follow(m, a, step + 1, u->user, out);
}

/* Nodes where the next anchor may be, in the order of the graph. */
static void candidates(const cfx__matcher *m, node_list *out) {
    const cfx__pattern_anchor *a = &m->pattern->anchors[m->anchor];
    cfx_value from = a->nsteps ? *cfx__match_slot(m->table, a->steps[0]) : cfx_none();
    if (from.tag == CFX_TAG_NODE)
        follow(m, a, 0, cfx_as_node(from), out);
    else
        cfx_each_node(m->graph, n) VEC_PUSH(*out, n);
    if (out->len > 1)
        qsort(out->data, out->len, sizeof *out->data, by_order);
}

/* Whether a result of the pattern stands for a result of the graph. One value alone may stand in a
 * tuple, as in exported programs. */
static bool same_result(const cfx__matcher *m, cfx_value p, cfx_value v) {
    bool list = p.tag == CFX_TAG_LIST || p.tag == CFX_TAG_TUPLE;
    bool other = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    if (list != other && cfx_as_list(list ? p : v)->len == 1)
        return list ? same_result(m, cfx_as_list(p)->items[0], v)
                    : same_result(m, p, cfx_as_list(v)->items[0]);
    if (p.tag == CFX_TAG_NODE)
        return cfx_equal_values(*cfx__match_slot(m->table, cfx_as_node(p)), v);
    if (!list || !other)
        return !list && !other && cfx_equal_values(p, v);
    bool same = cfx_as_list(p)->len == cfx_as_list(v)->len;
    for (int64_t i = 0; same && i < cfx_as_list(p)->len; i++)
        same = same_result(m, cfx_as_list(p)->items[i], cfx_as_list(v)->items[i]);
    return same;
}

static bool is_all(const cfx__matcher *m) {
    const cfx_node *p = cfx_graph_output_node(m->pattern->graph);
    const cfx_node *n = cfx_graph_output_node(m->graph);
    return p && n && same_result(m, cfx_at(p->args, 0), cfx_at(n->args, 0));
}

/* All goals of the anchors so far are met. */
static bool go_on(cfx__matcher *m) {
    if (m->anchor == m->pattern->nanchors)
        return (!m->whole || (is_contained(m) && !has_cycle(m))) && (!m->output || is_all(m));
    node_list list = {0};
    candidates(m, &list);
    bool found = false;
    for (size_t i = 0; i < list.len && !found && m->budget > 0; i++)
        found = (!i || list.data[i] != list.data[i - 1]) && try_anchor(m, list.data[i]);
    VEC_FREE(list);
    return found;
}

/* The goals after node n was taken for p: those for its arguments and then `next`. Where they may
 * be in either order, one is tried at once. */
static int meet_call(cfx__matcher *m, const cfx__pattern_node *p, cfx_node *n, int next) {
    cfx__call c;
    bool bound;
    if (!fits(m, p, n, &c, &bound))
        return NO_WAY;
    stand_for(m, p->node, cfx_node_value(n));
    if (!bound)
        return p->node->op == CFX_GET_ATTR ? next : push_written(m, p->node, n, next);
    if (p->commutes) {
        size_t mark = m->trail.len;
        int straight = push_bound(m, p, &c, false, next);
        if (straight != NO_WAY && solve(m, straight))
            return ALL_MET;
        undo(m, mark);
    }
    return push_bound(m, p, &c, p->commutes, next);
}

/* A node of the pattern beside a value. */
static int meet_node(cfx__matcher *m, cfx__match_goal g) {
    const cfx__pattern_node *p = pattern_node(m, cfx_as_node(g.pattern));
    cfx_value have = *cfx__match_slot(m->table, p->node);
    if (have.tag != CFX_TAG_BAD)
        return have.tag == g.value.tag && cfx_equal_values(have, g.value) ? g.next : NO_WAY;
    if (!p->wild)
        return g.value.tag == CFX_TAG_NODE ? meet_call(m, p, cfx_as_node(g.value), g.next) : NO_WAY;
    if (!m->pattern->loose && g.value.tag == CFX_TAG_NODE && is_used(m, g.value))
        return NO_WAY;
    if (m->inputs &&
        (g.value.tag != CFX_TAG_NODE || cfx_as_node(g.value)->op != CFX_PLACEHOLDER))
        return NO_WAY;
    stand_for(m, p->node, g.value);
    return g.next;
}

static bool solve(cfx__matcher *m, int goal) {
    while (goal != NO_GOAL && goal != NO_WAY && goal != ALL_MET) {
        if (--m->budget <= 0)
            return false;
        cfx__match_goal g = m->goals.data[goal];
        goal = g.pattern.tag == CFX_TAG_NODE ? meet_node(m, g) : meet_plain(m, g);
    }
    return goal == ALL_MET || (goal == NO_GOAL && go_on(m));
}

bool cfx__match_at(cfx__matcher *m, cfx_node *n) {
    undo(m, 0);
    m->goals.len = 0;
    m->anchor = 0;
    m->budget = BUDGET;
    return try_anchor(m, n);
}
