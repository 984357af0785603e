/* What tells sizes at which a program is not what forward does from those at which it is. One size
 * alone: forward goes on a stretch of sizes, on those with one remainder, on powers of two, or on
 * all but one. Conditions on two sizes are searched for in border_two.c, on several in
 * border_product.c. Borders are found by bisection. Start at cfx__probe_explain. */
#include "border.h"
#include "relations.h"

cfx__search_verdict cfx__search_at(const cfx__search *s, const int64_t *sizes) {
    if (!cfx__probe_may(s->p, sizes))
        return CFX__CANNOT_BE;
    return cfx__probe_at(s->p, sizes) ? CFX__GOES : CFX__DIFFERS;
}

/* The example but for the size of symbol i. */
static cfx__search_verdict alone(const cfx__search *s, size_t i, int64_t size) {
    memcpy(s->sizes, s->hints, s->n * sizeof *s->sizes);
    s->sizes[i] = size;
    return cfx__search_at(s, s->sizes);
}

cfx_value cfx__search_name(const cfx__search *s, size_t i) {
    return cfx__sym_name(s->p->dims->worlds.symbols.data[i].name, true, s->hints[i]);
}

/* ---- one size -------------------------------------------------------------------------------- */

typedef struct {
    const cfx__search *s;
    size_t i;
    int64_t hint;
    VEC(struct sample {
        int64_t size;
        bool goes;
    })
    seen; /* in no order */
} line;

static bool try_size(line *l, int64_t size, bool *goes) {
    for (size_t k = 0; k < l->seen.len; k++)
        if (l->seen.data[k].size == size) {
            *goes = l->seen.data[k].goes;
            return true;
        }
    cfx__search_verdict v = alone(l->s, l->i, size);
    *goes = v == CFX__GOES;
    if (v != CFX__CANNOT_BE) {
        struct sample one = {size, *goes};
        VEC_PUSH(l->seen, one);
    }
    return v != CFX__CANNOT_BE;
}

static bool goes_at(line *l, int64_t size) {
    bool goes = false;
    return try_size(l, size, &goes) && goes;
}

static bool differs_at(line *l, int64_t size) {
    bool goes = true;
    return try_size(l, size, &goes) && !goes;
}

/* Whether all sizes seen, those within `window` of the example, go where their remainder is the
 * one, or is not it. */
static bool fits_remainder(const line *l, int64_t by, int64_t rest, bool equal, int64_t window) {
    for (size_t k = 0; k < l->seen.len; k++) {
        int64_t size = l->seen.data[k].size;
        if (size - l->hint <= window && l->hint - size <= window &&
            l->seen.data[k].goes != ((size % by == rest) == equal))
            return false;
    }
    return true;
}

static bool is_power(int64_t n) { return n > 0 && !(n & (n - 1)); }

static bool fits_powers(const line *l, bool equal) {
    for (size_t k = 0; k < l->seen.len; k++)
        if (l->seen.data[k].goes != (is_power(l->seen.data[k].size) == equal))
            return false;
    return true;
}

static cfx__finding remainder_of(const line *l, int64_t by, int64_t rest, cfx__rel rel) {
    return (cfx__finding){.kind = CFX__FOUND_CONDITION,
                          .i = l->i,
                          .by = by,
                          .rel = rel,
                          .a = cfx__sym_binary(CFX__SYM_MOD, cfx__search_name(l->s, l->i),
                                               cfx_int(by)),
                          .b = cfx_int(rest)};
}

/* Next to the example nothing goes. */
static cfx__finding lonely(line *l) {
    for (int64_t by = 2; by <= CFX__WINDOW; by++)
        if (goes_at(l, l->hint + by) && goes_at(l, l->hint + 2 * by) &&
            !differs_at(l, l->hint - by) && fits_remainder(l, by, l->hint % by, true, CFX__WINDOW))
            return remainder_of(l, by, l->hint % by, CFX__EQ);
    if (is_power(l->hint) && (goes_at(l, 2 * l->hint) || goes_at(l, l->hint / 2)) &&
        !goes_at(l, 3 * l->hint) && fits_powers(l, true))
        return (cfx__finding){.kind = CFX__FOUND_POWER, .i = l->i, .rel = CFX__EQ};
    return (cfx__finding){.kind = CFX__FOUND_CONSTANT, .i = l->i};
}

/* The size next to the example at which it differs, on one side; the example: there is none. */
static int64_t nearest(const line *l, int side) {
    int64_t best = l->hint;
    for (size_t k = 0; k < l->seen.len; k++) {
        int64_t size = l->seen.data[k].size;
        bool there = side > 0 ? size > l->hint : size < l->hint;
        if (!l->seen.data[k].goes && there &&
            (best == l->hint || (side > 0 ? size < best : size > best)))
            best = size;
    }
    return best;
}

/* Makes *size the nearest one strictly between two others that may be: what is asked already may
 * leave few. False where none near it may be. */
static bool possible_between(line *l, int64_t a, int64_t b, int64_t *size) {
    const int64_t least = a < b ? a : b, most = a < b ? b : a;
    bool goes;
    for (int64_t d = 0; d <= 2 * CFX__WINDOW; d++)
        for (int side = -1; side <= 1; side += 2) {
            const int64_t at = *size + side * d;
            if (at > least && at < most && try_size(l, at, &goes)) {
                *size = at;
                return true;
            }
        }
    return false;
}

/* The last size that goes on the way from the example to one that does not. */
static int64_t edge(line *l, int64_t bad) {
    int64_t good = l->hint;
    for (size_t k = 0; k < l->seen.len; k++) {
        int64_t size = l->seen.data[k].size;
        if (l->seen.data[k].goes &&
            (bad > good ? size > good && size < bad : size < good && size > bad))
            good = size;
    }
    while (bad - good > 1 || good - bad > 1) {
        int64_t middle = good + (bad - good) / 2;
        if (!possible_between(l, good, bad, &middle)) {
            const bool all = bad - good <= 2 * CFX__WINDOW && good - bad <= 2 * CFX__WINDOW;
            return !all ? good : bad > good ? bad - 1 : bad + 1;
        }
        if (differs_at(l, middle))
            bad = middle;
        else
            good = middle;
    }
    return good;
}

/* It differs at every size of one remainder, of multiples of a number beyond the window too. */
static bool all_but_remainder(line *l, int64_t bad, cfx__finding *out) {
    for (int64_t by = 2; by <= 2 * CFX__WINDOW; by++)
        if (differs_at(l, bad + by) && fits_remainder(l, by, bad % by, false, INT64_MAX / 4)) {
            *out = remainder_of(l, by, bad % by, CFX__NE);
            return true;
        }
    for (int64_t by = 2 * CFX__WINDOW; by <= bad; by *= 2)
        if (bad % by == 0 && differs_at(l, bad + by) && differs_at(l, bad + 2 * by) &&
            fits_remainder(l, by, 0, false, INT64_MAX / 4)) {
            *out = remainder_of(l, by, 0, CFX__NE);
            return true;
        }
    return false;
}

/* Behind a border it differs at every size of one remainder: the last size before the first of
 * them, as a bound. False where they are not so many. */
static bool remainder_behind(line *l, int64_t bad, int64_t *border) {
    const int64_t away = bad > l->hint ? 1 : -1;
    int64_t by = 2;
    while (by <= CFX__WINDOW && !differs_at(l, bad + away * by))
        by++;
    if (by > CFX__WINDOW || !differs_at(l, bad + 2 * away * by) ||
        !differs_at(l, bad + 3 * away * by))
        return false;
    int64_t good = (bad - l->hint) / (away * by) + 1, first = 0; /* steps back from bad */
    while (good - first > 1) {
        const int64_t middle = first + (good - first) / 2;
        if (differs_at(l, bad - away * middle * by))
            first = middle;
        else
            good = middle;
    }
    *border = bad - away * (first * by + 1);
    return true;
}

static cfx__finding all_but_one(const line *l, int64_t bad) {
    return (cfx__finding){.kind = CFX__FOUND_CONDITION,
                          .i = l->i,
                          .rel = CFX__NE,
                          .a = cfx__search_name(l->s, l->i),
                          .b = cfx_int(bad)};
}

static cfx__finding bounds_of(const line *l, int64_t least, int64_t most) {
    return (cfx__finding){.kind = CFX__FOUND_BOUNDS, .i = l->i, .least = least, .most = most};
}

/* It goes next to the example, on one side at least. */
static cfx__finding stretch(line *l) {
    const cfx__symbol *s = &l->s->p->dims->worlds.symbols.data[l->i];
    int64_t above = nearest(l, 1), below = nearest(l, -1);
    int64_t bad =
        below == l->hint || (above != l->hint && above - l->hint < l->hint - below) ? above : below;
    cfx__finding found = {.kind = CFX__FOUND_POWER, .i = l->i, .rel = CFX__NE};
    int64_t border;
    if (goes_at(l, bad - 1) && goes_at(l, bad + 1)) {
        if (all_but_remainder(l, bad, &found))
            return found;
        if (is_power(bad) && (differs_at(l, 2 * bad) || differs_at(l, bad / 2)) &&
            fits_powers(l, false))
            return found;
        if (!remainder_behind(l, bad, &border))
            return all_but_one(l, bad);
        found = bounds_of(l, s->least, s->most);
        *(bad > l->hint ? &found.most : &found.least) = border;
        return found;
    }
    return bounds_of(l, below == l->hint ? s->least : edge(l, below),
                     above == l->hint ? s->most : edge(l, above));
}

/* Whether nothing goes next to the example, of the sizes that may be: a remainder may be asked
 * already. */
static bool is_lone(line *l) {
    for (int64_t d = 1; d <= CFX__WINDOW; d++) {
        bool before = false, after = false;
        const bool below = try_size(l, l->hint - d, &before);
        if (try_size(l, l->hint + d, &after) || below)
            return !before && !after;
    }
    return false;
}

static cfx__finding explain_one(const cfx__search *s, size_t i, int64_t bad) {
    line l = {.s = s, .i = i, .hint = s->hints[i]};
    struct sample example = {l.hint, true}, first = {bad, false};
    bool goes;
    cfx__sizes all = {0};
    VEC_PUSH(l.seen, example);
    VEC_PUSH(l.seen, first);
    const bool lone = is_lone(&l);
    if (!lone)
        cfx__probe_sizes(s->p, i, &all);
    for (int64_t d = 2; lone && d <= 8; d++) /* enough to tell remainders apart */
        try_size(&l, l.hint + d, &goes);
    for (size_t k = 0; k < all.len; k++)
        try_size(&l, all.data[k], &goes);
    cfx__finding found = lone ? lonely(&l) : stretch(&l);
    VEC_FREE(l.seen);
    VEC_FREE(all);
    return found;
}

/* ---- which sizes ----------------------------------------------------------------------------- */

static bool holds(const cfx__search *s, const cfx__finding *f) {
    cfx__worlds *w = &s->p->dims->worlds;
    int64_t size = w->symbols.data[f->i].size.at[CFX__TRIAL];
    switch (f->kind) {
    case CFX__FOUND_CONSTANT:
        return size == s->hints[f->i];
    case CFX__FOUND_BOUNDS:
        return size >= f->least && size <= f->most;
    case CFX__FOUND_POWER:
        return is_power(size) == (f->rel == CFX__EQ);
    default:
        return cfx__relation_holds(w, CFX__TRIAL, &(cfx__relation){f->rel, f->a, f->b});
    }
}

/* A symbol that what was found of symbol f->i alone depends on: where that one has another size,
 * forward goes though it should not. SIZE_MAX: there is none. */
static size_t other_of(const cfx__search *s, const cfx__finding *f) {
    enum { SAMPLES = 48 };
    const cfx__symbol *own = &s->p->dims->worlds.symbols.data[f->i];
    int64_t beyond = f->kind != CFX__FOUND_BOUNDS ? s->bad[f->i]
                     : f->most < own->most        ? f->most + 1
                                                  : f->least - 1;
    for (int k = 0; k < SAMPLES && cfx_ok(); k++) {
        for (size_t i = 0; i < s->n; i++)
            s->where[i] = cfx__probe_any(s->p, i);
        s->where[f->i] = k % 2 ? beyond : s->where[f->i];
        if (!cfx__probe_may(s->p, s->where) || holds(s, f) || !cfx__probe_at(s->p, s->where))
            continue;
        for (size_t j = 0; j < s->n; j++) {
            if (j == f->i || s->where[j] == s->hints[j])
                continue;
            s->where[j] = s->hints[j]; /* it stays so where it is not that one */
            if (cfx__search_at(s, s->where) == CFX__DIFFERS)
                return j;
        }
    }
    return SIZE_MAX;
}

/* The condition on symbol f->i and another one, where what was found of it alone depends on that.
 */
static void explain_other(const cfx__search *s, cfx__finding *f) {
    size_t i = f->i, j = s->n > 1 ? other_of(s, f) : SIZE_MAX;
    if (j == SIZE_MAX)
        return;
    cfx__finding both = cfx__search_two(s, i < j ? i : j, i < j ? j : i);
    if (both.kind != CFX__FOUND_NOTHING)
        *f = both;
}

static void begin(cfx__search *s, cfx__probe *p) {
    s->p = p;
    s->n = cfx__probe_count(p);
    s->hints = cfx__alloc0((4 * s->n + 1) * sizeof *s->hints);
    s->sizes = s->hints + s->n;
    s->bad = s->sizes + s->n;
    s->where = s->bad + s->n;
    cfx__probe_hints(p, s->hints);
    cfx__probe_hints(p, s->bad);
}

cfx__finding cfx__probe_pinned(cfx__probe *p, size_t i) {
    cfx__search s;
    begin(&s, p);
    cfx__finding found = {.kind = CFX__FOUND_CONSTANT, .i = i};
    s.bad[i]++;
    explain_other(&s, &found);
    cfx__free(s.hints);
    return found;
}

cfx__finding cfx__probe_explain_one(cfx__probe *p, size_t i, int64_t size) {
    cfx__search s;
    begin(&s, p);
    cfx__finding found = explain_one(&s, i, size);
    cfx__free(s.hints);
    return found;
}

cfx__finding cfx__probe_explain(cfx__probe *p, const int64_t *sizes) {
    size_t others = 0, first = SIZE_MAX, second = SIZE_MAX;
    cfx__finding found = {.kind = CFX__FOUND_NOTHING};
    cfx__search s;
    begin(&s, p);
    memcpy(s.bad, sizes, s.n * sizeof *s.bad);
    for (size_t i = 0; i < s.n; i++) { /* sizes that are no matter are those of the example */
        int64_t size = s.bad[i];
        s.bad[i] = s.hints[i];
        if (size != s.hints[i] && cfx__search_at(&s, s.bad) != CFX__DIFFERS)
            s.bad[i] = size;
    }
    for (size_t i = 0; i < s.n; i++)
        if (s.bad[i] != s.hints[i]) {
            others += first != SIZE_MAX;
            second = first != SIZE_MAX ? i : second;
            first = first == SIZE_MAX ? i : first;
        }
    if (first != SIZE_MAX && !others) {
        found = explain_one(&s, first, s.bad[first]);
        if (found.kind != CFX__FOUND_CONSTANT) /* of which more is asked: see guards.c */
            explain_other(&s, &found);
    } else if (others == 1) {
        found = cfx__search_two(&s, first, second);
    }
    if (others && found.kind == CFX__FOUND_NOTHING)
        found = cfx__search_product(&s);
    cfx__free(s.hints);
    return found;
}
