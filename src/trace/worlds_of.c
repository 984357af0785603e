/* Chooses the worlds of an existing program from its symbols, their ranges, and its assertions
 * on data-dependent symbols. Start at cfx__worlds_of. */
#include <cfx/ops.h>

#include "../value/walk.h"
#include "relations.h"

/* A bound of a range; what `open` says where the range has none there, `other` without a range. */
static int64_t bound(cfx_value range, int i, int64_t open, int64_t other) {
    if (range.tag != CFX_TAG_TUPLE || cfx_as_list(range)->len != 2)
        return other;
    cfx_value given = cfx_as_list(range)->items[i];
    return given.tag == CFX_TAG_INT ? cfx_integer(given) : open;
}

typedef struct {
    cfx__worlds *worlds;
    const cfx_dict *ranges;
    bool sizes; /* these are of tensors */
} collecting;

static void collect_expr(collecting *c, const struct cfx_sym *e) {
    if (!e)
        return;
    if (e->op == CFX__SYM_NAME) {
        cfx_value range = c->ranges ? cfx_dict_get(c->ranges, e->name) : cfx_none();
        int64_t smallest = *e->name == 'u' ? 0 : 2; /* what depends on data may be none at all */
        const size_t before = c->worlds->symbols.len;
        cfx__worlds_add(c->worlds, e->name, bound(range, 0, INT64_MIN + 1, smallest),
                        bound(range, 1, INT64_MAX, INT64_MAX), e->has_hint ? e->hint : 0);
        cfx__symbol *s = cfx__worlds_find(c->worlds, e->name);
        s->any |= before < c->worlds->symbols.len && *e->name == 'u' && s->least < 0;
        s->any &= !c->sizes; /* none broadcasts */
    }
    collect_expr(c, e->a);
    collect_expr(c, e->b);
}

static bool collect_leaf(cfx_value v, void *c) {
    if (v.tag == CFX_TAG_SYM)
        collect_expr(c, cfx_as_sym(v));
    return true;
}

static void collect(collecting *c, cfx_value v) { cfx__value_each(v, collect_leaf, c); }

static bool is_sum_of_data(const struct cfx_sym *e) {
    return e->op == CFX__SYM_ADD ? is_sum_of_data(e->a) && is_sum_of_data(e->b)
                                 : e->op == CFX__SYM_NAME && *e->name == 'u';
}

/* What a comparison of expressions is between; the first has data. */
static bool compares(const cfx_node *n, const char *function, cfx_value side[2]) {
    if (n->op != CFX_CALL_FUNCTION || strcmp(n->target.name, function) ||
        cfx_as_list(n->args)->len != 2)
        return false;
    for (int i = 0; i < 2; i++) {
        cfx_value v = cfx_as_list(n->args)->items[i];
        side[i] = v.tag == CFX_TAG_NODE ? cfx_node_get_meta(cfx_as_node(v), "val") : v;
    }
    return side[0].tag == CFX_TAG_SYM && cfx__sym_has_data(cfx_as_sym(side[0])) &&
           (side[1].tag == CFX_TAG_INT || side[1].tag == CFX_TAG_SYM);
}

/* Whether it is between what parts add up to and something else. */
static bool compares_sum(const cfx_node *n, const char *function, cfx_value side[2]) {
    return compares(n, function, side) && is_sum_of_data(cfx_as_sym(side[0]));
}

static bool is_asserted(const cfx_node *n) {
    cfx_each_user(n, u) if (u->user->target.op == &cfx_op__assert_scalar) return true;
    return false;
}

/* How many go to each expert depends on data, how many there are in all does not; and what depends
 * on data may be no more than another size. */
static void collect_total(cfx__worlds *w, const cfx_node *n) {
    cfx_value side[2];
    const bool asserted = is_asserted(n), total = asserted && compares_sum(n, "operator.eq", side);
    bool most = asserted && !total && compares_sum(n, "operator.le", side);
    struct cfx__total t = {.at_most = most};
    if (!total && !most)
        return;
    cfx__worlds_claimed(w, n, side);
    t.sum = cfx_value_keep(side[0]);
    t.total = cfx_value_keep(side[1]);
    VEC_PUSH(w->totals, t);
}

static void collect_module(const char *path, cfx_module *m, void *user) {
    (void)path;
    if (m->graph)
        cfx_each_node(m->graph, n) {
            collecting *c = user;
            cfx_value val = cfx_node_get_meta(n, "val");
            c->sizes = val.tag != CFX_TAG_SYM;
            collect(c, val);
            c->sizes = false;
            collect(user, n->args);
            collect(user, n->kwargs);
        }
}

static void total_module(const char *path, cfx_module *m, void *user) {
    (void)path;
    if (m->graph)
        cfx_each_node(m->graph, n) collect_total(user, n);
}

static void note_relation(cfx__worlds *w, cfx__relation r) {
    cfx_value_keep(r.a);
    cfx_value_keep(r.b);
    VEC_PUSH(w->asserted, r);
}

/* What depends on data is in the range that the program asserts of it; what is asserted of it and a
 * size holds at all sizes that are chosen. */
static void refine(cfx__worlds *w, const cfx_node *n) {
    cfx_value side[2];
    cfx__relation r;
    if (!is_asserted(n) || !cfx__relation_named(n->target.name, &r.op) ||
        !compares(n, n->target.name, side))
        return;
    r.a = side[0], r.b = side[1];
    cfx__relation_narrow(w, &r);
    const bool sum = is_sum_of_data(cfx_as_sym(r.a));
    const bool total = sum && (r.op == CFX__EQ || r.op == CFX__LE); /* collected */
    if (!total && (!sum || r.b.tag == CFX_TAG_SYM))
        note_relation(w, r);
}

static void refine_module(const char *path, cfx_module *m, void *user) {
    (void)path;
    if (m->graph)
        cfx_each_node(m->graph, n) refine(user, n);
}

void cfx__worlds_of(cfx__worlds *w, const cfx_program *p) {
    collecting c = {w, p->ranges, false};
    cfx_value guards = cfx_dict_get(p->extra, "guards");
    if (guards.tag == CFX_TAG_LIST) {
        w->guards = cfx_as_list(guards);
        w->inputs = p->module->graph;
    }
    cfx_module_walk(p->module, collect_module, &c);
    cfx__worlds_find_replaced(w, p->module->graph);
    cfx_module_walk(p->module, total_module, w);
    cfx_module_walk(p->module, refine_module, w);
}
