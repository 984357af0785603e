/* Points of ranges at which a text that was made at some of them is looked at: all of them, or,
 * where there are too many, those at which a number of the text may change. That is where sizes
 * meet numbers of the program or each other (what is cut off at 30 changes at 30), or at any bound
 * of the generator's own, which has sizes from both ends of a range on its two sides, or with what
 * a size leaves when it is divided by a width of vectors or panels, which a row of consecutive
 * sizes shows. Then come as many points as may be, all over the ranges. Start at cfx__c_sweep_next.
 */
#include "../value/walk.h"
#include "compile.h"

static int64_t count_of(const cfx__c_size *s) {
    const int64_t low = cfx__c_least(s);
    return s->high >= low ? s->high - low + 1 : 1;
}

static int64_t within(const cfx__c_size *s, uint64_t number) {
    return cfx__c_least(s) + (int64_t)(number % (uint64_t)count_of(s));
}

/* A number drawn by two others. */
static uint64_t drawn(uint64_t n, uint64_t k) {
    uint64_t h = 0x9e3779b97f4a7c15u * (n + 1) + 0x94d049bb133111ebu * k;
    h = (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9u;
    return h ^ (h >> 32);
}

/* Sizes that do not vary are what they are, others are drawn. */
static void draw(const cfx__c *c, uint64_t n, int64_t *at) {
    for (int i = 0; i < c->nsizes; i++)
        at[i] = i < c->nvary ? within(&c->sizes[i], drawn(n, (uint64_t)i)) : c->sizes[i].low;
}

/* ---- what sizes may meet --------------------------------------------------------------------- */

enum { NUMBERS = 64, EXPRESSIONS = 12 };

typedef struct {
    cfx__c *c;
    int n, nexpressions;
    int64_t numbers[NUMBERS];
    cfx_value expressions[EXPRESSIONS]; /* sizes that nodes have */
    VEC(int64_t) points;
} meeting;

static void add_number(meeting *m, int64_t v) {
    v = v < 0 ? -v : v;
    bool known = v < 2 || v > INT32_MAX || m->n == NUMBERS;
    for (int i = 0; i < m->n && !known; i++)
        known = m->numbers[i] == v;
    if (!known)
        m->numbers[m->n++] = v;
}

static void add_numbers_of(meeting *m, const cfx_sym *s) {
    if (s->op == CFX__SYM_INT)
        add_number(m, s->hint);
    if (s->a)
        add_numbers_of(m, s->a);
    if (s->b)
        add_numbers_of(m, s->b);
}

/* A size of a result, or what a node is given: a number, or an expression and numbers in it. */
static bool add_leaf(cfx_value v, void *user) {
    meeting *m = user;
    if (v.tag == CFX_TAG_INT)
        add_number(m, cfx_integer(v));
    if (v.tag != CFX_TAG_SYM)
        return true;
    add_numbers_of(m, cfx_as_sym(v));
    bool known = m->nexpressions == EXPRESSIONS;
    for (int i = 0; i < m->nexpressions && !known; i++)
        known = cfx__sym_equal(cfx_as_sym(m->expressions[i]), cfx_as_sym(v));
    if (!known)
        m->expressions[m->nexpressions++] = v;
    return true;
}

static void add_result(meeting *m, const cfx_result *r) {
    for (int i = 0; r->kind == CFX_RESULT_TENSOR && i < r->ndim; i++)
        add_leaf(cfx_result_size(r, i), m);
    for (int64_t i = 0; r->kind == CFX_RESULT_SEVERAL && i < cfx_result_count(r); i++) {
        const cfx_result item = cfx_result_item(r, i);
        add_result(m, &item);
    }
    add_leaf(r->value, m);
}

/* Numbers that nodes are given come first, then those of their results. */
static void find_numbers(meeting *m) {
    for (int i = 0; i < m->c->nvary; i++)
        add_leaf(cfx__sym_name(m->c->sizes[i].symbol, false, 0), m);
    cfx_each_node(m->c->program->module->graph, n) {
        cfx__value_each(n->args, add_leaf, m);
        cfx__value_each(n->kwargs, add_leaf, m);
    }
    cfx_each_node(m->c->program->module->graph, n) {
        const cfx_result r = cfx_node_result(n);
        add_result(m, &r);
    }
}

/* ---- where they meet ------------------------------------------------------------------------- */

static void add_point(meeting *m, const int64_t *at) {
    for (int i = 0; i < CFX__C_SIZES; i++)
        VEC_PUSH(m->points, i < m->c->nsizes ? at[i] : 0);
}

/* The points on both sides of where an expression, taken to grow with size i, gets to `number`. */
static void meet(meeting *m, cfx_value expression, int i, int64_t number) {
    const cfx__c_size *s = &m->c->sizes[i];
    int64_t at[CFX__C_SIZES], low = cfx__c_least(s), high = s->high, is;
    draw(m->c, m->points.len, at);
    while (low < high) {
        at[i] = low + (high - low) / 2;
        if (!cfx__c_size_at(m->c, at, expression, &is))
            return;
        if (is < number)
            low = at[i] + 1;
        else
            high = at[i];
    }
    at[i] = low;
    if (!cfx__c_size_at(m->c, at, expression, &is) || is < number)
        return;
    for (int64_t there = low - 1; there <= low + 1; there++) {
        at[i] = there;
        if (there >= cfx__c_least(s) && there <= s->high)
            add_point(m, at);
    }
}

enum { ROW = 32, END = 8 }; /* consecutive sizes from the least one on, and up to the largest */

/* Sizes from both ends of each range, others drawn. */
static void add_ends(meeting *m) {
    int64_t at[CFX__C_SIZES];
    for (int i = 0; i < m->c->nvary; i++)
        for (int64_t k = 0; k < ROW + END; k++) {
            const cfx__c_size *s = &m->c->sizes[i];
            const int64_t is = k < ROW ? cfx__c_least(s) + k : s->high - (k - ROW);
            draw(m->c, m->points.len, at);
            at[i] = is;
            if (is >= cfx__c_least(s) && is <= s->high)
                add_point(m, at);
        }
}

static void find_points(meeting *m, int64_t most) {
    int64_t at[CFX__C_SIZES];
    for (int i = 0; i < m->c->nvary; i++) /* sizes that are the same */
        for (int k = 0; k < i; k++) {
            const cfx__c_size *a = &m->c->sizes[i], *b = &m->c->sizes[k];
            cfx__c_size both = {.low = cfx__c_least(a) > cfx__c_least(b) ? a->low : b->low,
                                .high = a->high < b->high ? a->high : b->high};
            draw(m->c, m->points.len, at);
            at[i] = at[k] = within(&both, drawn(m->points.len, 0));
            if (both.low <= both.high)
                add_point(m, at);
        }
    for (int e = 0; e < m->nexpressions; e++)
        for (int k = 0; k < m->n; k++)
            for (int i = 0; i < m->c->nvary; i++)
                if ((int64_t)m->points.len < most * CFX__C_SIZES)
                    meet(m, m->expressions[e], i, m->numbers[k]);
}

/* ---- points ---------------------------------------------------------------------------------- */

cfx__c_sweep cfx__c_sweep_of(cfx__c *c, int64_t work, int64_t fewest) {
    cfx__c_sweep s = {.c = c, .all = 1};
    int64_t nodes = 1;
    cfx_each_node(c->program->module->graph, n) nodes += n->op == CFX_CALL_FUNCTION;
    s.most = work / nodes > fewest ? work / nodes : fewest;
    for (int i = 0; i < c->nvary && s.all <= s.most; i++)
        s.all =
            s.all > INT64_MAX / count_of(&c->sizes[i]) ? INT64_MAX : s.all * count_of(&c->sizes[i]);
    if (s.all <= s.most)
        return s;
    meeting m = {.c = c};
    add_ends(&m);
    const int64_t ends = (int64_t)m.points.len / CFX__C_SIZES;
    find_numbers(&m);
    find_points(&m, ends + s.most / 2);
    s.most += ends;
    int64_t *near = cfx__arena_alloc(&c->memory, (m.points.len + 1) * sizeof *near);
    if (m.points.len)
        memcpy(near, m.points.data, m.points.len * sizeof *near);
    s.near = near;
    s.nnear = (int)(m.points.len / CFX__C_SIZES);
    VEC_FREE(m.points);
    return s;
}

/* Of too many: in turn each size goes through its range, others being drawn. */
bool cfx__c_sweep_next(cfx__c_sweep *s, int64_t *at) {
    const cfx__c *c = s->c;
    int64_t rest = s->next++;
    if (rest < s->nnear) {
        memcpy(at, &s->near[rest * CFX__C_SIZES], CFX__C_SIZES * sizeof *at);
        return true;
    }
    if (rest >= (s->all < s->most ? s->all : s->most))
        return false;
    draw(c, (uint64_t)rest, at);
    if (s->all <= s->most) {
        for (int i = 0; i < c->nvary; i++) {
            at[i] = cfx__c_least(&c->sizes[i]) + rest % count_of(&c->sizes[i]);
            rest /= count_of(&c->sizes[i]);
        }
        return true;
    }
    const int i = (int)(rest % c->nvary);
    const int64_t n = count_of(&c->sizes[i]), turn = (rest - s->nnear) / c->nvary;
    const double turns = (double)((s->most - s->nnear) / c->nvary + 1);
    at[i] = cfx__c_least(&c->sizes[i]) +
            ((double)n <= turns ? turn % n : (int64_t)((double)n / turns * (double)turn));
    return true;
}
