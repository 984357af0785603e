/* What forward asks of sizes by comparisons that are noted, cfx_py("operator.lt", n, 4096): the
 * program knows both sides as expressions, so that what holds of them is exact, at all sizes. As in
 * PyTorch a comparison on one size is solved for it: bounds, a remainder, a constant. Start at
 * cfx__compared_find. */
#include "probe.h"
#include "relations.h"

typedef struct {
    const cfx__probe *p;
    const cfx__relation *c;
    int64_t *sizes;
    bool *of; /* by symbol: the condition is of it */
    size_t n, count;
    bool data; /* it is of a number that is data too */
    int64_t far; /* sizes without a bound are tried up to this one */
} comparing;

/* Beyond it nothing is compared with a size. */
enum { FAR_BITS = 40 };

static void collect(comparing *q, const struct cfx_sym *e) {
    if (!e)
        return;
    if (e->op == CFX__SYM_NAME) {
        bool found = false;
        for (size_t i = 0; i < q->n; i++)
            if (!strcmp(q->p->dims->worlds.symbols.data[i].name, e->name)) {
                found = true;
                q->count += !q->of[i];
                q->of[i] = true;
            }
        q->data |= !found;
    }
    collect(q, e->a);
    collect(q, e->b);
}

/* The largest number that a remainder is taken by; 0: there is no remainder, INT64_MAX: by a size.
 */
static int64_t modulus_in(const struct cfx_sym *e) {
    if (!e || !e->a)
        return 0;
    int64_t own = e->op != CFX__SYM_MOD ? 0 : e->b->op == CFX__SYM_INT ? e->b->hint : INT64_MAX;
    int64_t a = modulus_in(e->a), b = modulus_in(e->b);
    a = a > b ? a : b;
    return a > own ? a : own;
}

static int64_t modulus_of(const cfx__relation *c) {
    int64_t a = c->a.tag == CFX_TAG_SYM ? modulus_in(cfx_as_sym(c->a)) : 0;
    int64_t b = c->b.tag == CFX_TAG_SYM ? modulus_in(cfx_as_sym(c->b)) : 0;
    return a > b ? a : b;
}

static int64_t least_of(const comparing *q, size_t i) {
    const cfx__symbol *s = &q->p->dims->worlds.symbols.data[i];
    return !s->any ? cfx__symbol_smallest(s) : s->least > -q->far ? s->least : -q->far;
}

static int64_t most_of(const comparing *q, size_t i) {
    int64_t most = q->p->dims->worlds.symbols.data[i].most;
    return most < q->far ? most : q->far;
}

/* Whether it holds at the sizes at hand. */
static bool holds(const comparing *q) {
    cfx__worlds *w = &q->p->dims->worlds;
    for (size_t i = 0; i < q->n; i++)
        w->symbols.data[i].size.at[CFX__TRIAL] = q->sizes[i];
    int64_t a, b; /* which sizes may be too large for */
    return !cfx__worlds_eval(w, CFX__TRIAL, q->c->a, &a) ||
           !cfx__worlds_eval(w, CFX__TRIAL, q->c->b, &b) ||
           cfx__relation_holds(w, CFX__TRIAL, q->c);
}

static bool holds_at(const comparing *q, size_t i, int64_t size) {
    cfx__probe_hints(q->p, q->sizes);
    q->sizes[i] = size;
    return holds(q);
}

/* Whether it holds at each end of all ranges, in every combination: all that grow or fall with a
 * size hold between then. */
static bool holds_at_ends(const comparing *q) {
    enum { MOST = 8 };
    if (q->count > MOST)
        return false;
    for (unsigned ends = 0; ends < 1u << q->count; ends++) {
        unsigned bit = 0;
        cfx__probe_hints(q->p, q->sizes);
        for (size_t i = 0; i < q->n; i++)
            if (q->of[i])
                q->sizes[i] = ends >> bit++ & 1 ? most_of(q, i) : least_of(q, i);
        if (!holds(q))
            return false;
    }
    return true;
}

/* The last size at which it holds between one at which it does and one at which it does not. */
static int64_t last(const comparing *q, size_t i, int64_t good, int64_t bad) {
    while (bad - good > 1 || good - bad > 1) {
        int64_t middle = good + (bad - good) / 2;
        if (holds_at(q, i, middle))
            good = middle;
        else
            bad = middle;
    }
    return good;
}

static cfx__finding as_it_is(const comparing *q, size_t i) {
    return (cfx__finding){
        .kind = CFX__FOUND_CONDITION, .i = i, .a = q->c->a, .b = q->c->b, .rel = q->c->op};
}

/* n % 8 == 0, or anything with a remainder. */
static cfx__finding remainder_of(const comparing *q, size_t i) {
    cfx__finding f = as_it_is(q, i);
    const struct cfx_sym *e = q->c->a.tag == CFX_TAG_SYM ? cfx_as_sym(q->c->a) : NULL;
    if (e && e->op == CFX__SYM_MOD && e->a->op == CFX__SYM_NAME && e->b->op == CFX__SYM_INT &&
        q->c->b.tag == CFX_TAG_INT)
        f.by = e->b->hint;
    return f;
}

static bool find_one(const comparing *q, size_t i, cfx__finding *out) {
    const cfx__symbol *s = &q->p->dims->worlds.symbols.data[i];
    int64_t hint = s->size.at[0], least = least_of(q, i), most = most_of(q, i);
    int64_t modulus = modulus_of(q->c);
    if (modulus) {
        enum { REMAINDERS = 1 << 16 };
        bool always = true;
        for (int64_t k = 1; k <= modulus && k <= REMAINDERS && always; k++)
            always = (hint + k > most || holds_at(q, i, hint + k)) &&
                     (hint - k < least || holds_at(q, i, hint - k));
        *out = remainder_of(q, i);
        return !always;
    }
    if (q->c->op == CFX__NE) {
        comparing less = *q;
        cfx__relation c = {CFX__LT, q->c->a, q->c->b};
        less.c = &c;
        bool below = holds_at(&less, i, least), above = holds_at(&less, i, most);
        *out = as_it_is(q, i);
        return below != above || !holds_at(q, i, least) || !holds_at(q, i, most);
    }
    bool low = holds_at(q, i, least), high = holds_at(q, i, most);
    if (low && high)
        return false;
    *out = (cfx__finding){.kind = CFX__FOUND_BOUNDS,
                          .i = i,
                          .least = low || hint <= least ? s->least : last(q, i, hint, least),
                          .most = high || hint >= most ? s->most : last(q, i, hint, most)};
    if (out->least == out->most)
        out->kind = CFX__FOUND_CONSTANT;
    return true;
}

static bool is_asked(const cfx__worlds *w, const cfx__relation *c) {
    for (size_t i = 0; i < w->conditions.len; i++)
        if (w->conditions.data[i].op == c->op && cfx_equal_values(w->conditions.data[i].a, c->a) &&
            cfx_equal_values(w->conditions.data[i].b, c->b))
            return true;
    return false;
}

/* A condition on several sizes; two that are equal are one. */
static bool find_several(const comparing *q, cfx__finding *out) {
    bool rest = modulus_of(q->c) > 0;
    size_t last_of = 0;
    for (size_t i = 0; i < q->n; i++)
        last_of = q->of[i] ? i : last_of;
    *out = as_it_is(q, SIZE_MAX);
    if (q->c->op == CFX__EQ && !rest)
        *out = (cfx__finding){.kind = CFX__FOUND_CONSTANT, .i = last_of};
    return rest || q->c->op == CFX__NE || !holds_at_ends(q);
}

bool cfx__compared_find(const cfx__probe *p, const cfx__relation *c, cfx__finding *out) {
    size_t n = cfx__probe_count(p), first = 0;
    comparing q = {.p = p,
                   .c = c,
                   .n = n,
                   .far = (int64_t)1 << FAR_BITS,
                   .sizes = cfx__alloc0((n + 1) * sizeof *q.sizes),
                   .of = cfx__alloc0(n + 1)};
    collect(&q, c->a.tag == CFX_TAG_SYM ? cfx_as_sym(c->a) : NULL);
    collect(&q, c->b.tag == CFX_TAG_SYM ? cfx_as_sym(c->b) : NULL);
    while (first < n && !q.of[first])
        first++;
    bool found = q.count && !q.data && !is_asked(&p->dims->worlds, c) &&
                 (q.count == 1 ? find_one(&q, first, out) : find_several(&q, out));
    cfx__free(q.sizes);
    cfx__free(q.of);
    return found;
}

/* ---- several sizes --------------------------------------------------------------------------- */

/* Sums of symbols and numbers, and multiples of them. */
static bool is_sum(const struct cfx_sym *e) {
    if (e->op == CFX__SYM_INT || e->op == CFX__SYM_NAME)
        return true;
    bool times = e->op == CFX__SYM_MUL &&
                 (e->a->op == CFX__SYM_INT || e->b->op == CFX__SYM_INT);
    return (times || e->op == CFX__SYM_ADD) && is_sum(e->a) && is_sum(e->b);
}

/* Whether it holds where symbol i has this size, the others being at some ends of their ranges. */
static bool may_hold(const comparing *q, size_t i, int64_t size) {
    for (unsigned ends = 0; ends < 1u << q->count; ends++) {
        unsigned bit = 0;
        cfx__probe_hints(q->p, q->sizes);
        for (size_t k = 0; k < q->n; k++)
            if (q->of[k])
                q->sizes[k] = ends >> bit++ & 1 ? most_of(q, k) : least_of(q, k);
        q->sizes[i] = size;
        if (holds(q))
            return true;
    }
    return false;
}

static int64_t last_that_may(const comparing *q, size_t i, int64_t good, int64_t bad) {
    while (bad - good > 1 || good - bad > 1) {
        int64_t middle = good + (bad - good) / 2;
        if (may_hold(q, i, middle))
            good = middle;
        else
            bad = middle;
    }
    return good;
}

static int64_t last_above(const comparing *q, size_t i, const cfx__symbol *s) {
    const int64_t high = most_of(q, i), hint = s->size.at[0];
    return hint >= high || may_hold(q, i, high) ? s->most : last_that_may(q, i, hint, high);
}

bool cfx__compared_range(const cfx__probe *p, const cfx__relation *c, size_t i, int64_t *least,
                         int64_t *most) {
    enum { MOST = 4 };
    size_t n = cfx__probe_count(p);
    comparing q = {.p = p,
                   .c = c,
                   .n = n,
                   .far = (int64_t)1 << FAR_BITS,
                   .sizes = cfx__alloc0((n + 1) * sizeof *q.sizes),
                   .of = cfx__alloc0(n + 1)};
    bool sums = c->op != CFX__EQ && c->op != CFX__NE;
    const cfx_value sides[] = {c->a, c->b};
    for (int k = 0; k < 2; k++)
        if (sides[k].tag == CFX_TAG_SYM) {
            collect(&q, cfx_as_sym(sides[k]));
            sums &= is_sum(cfx_as_sym(sides[k]));
        }
    bool fine = sums && i < n && q.of[i] && q.count > 1 && q.count <= MOST && !q.data;
    if (fine) {
        const cfx__symbol *s = &p->dims->worlds.symbols.data[i];
        const int64_t hint = s->size.at[0], low = least_of(&q, i);
        *least = hint <= low || may_hold(&q, i, low) ? s->least : last_that_may(&q, i, hint, low);
        *most = last_above(&q, i, s);
        q.far *= 2;
        if (*most != last_above(&q, i, s)) /* it follows another that has no end */
            *most = s->most;
    }
    cfx__free(q.sizes);
    cfx__free(q.of);
    return fine;
}
