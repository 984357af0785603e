/* What tells sizes at which a program is not what forward does from those at which it is. One size
 * alone: forward goes on a stretch of sizes, on those with one remainder, on powers of two, or on
 * all but one. Where that depends on another size: on those whose difference, product, sum or
 * quotient is bounded; of several: on those whose product has one remainder. Borders are found by
 * bisection. Start at cfx__probe_explain. */
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

/* ---- several sizes --------------------------------------------------------------------------- */

/* Numbers of two sizes by which they may be told apart. */
typedef enum { DIFFERENCE, PRODUCT, SUM, QUOTIENT, TURNED, FEATURES } feature;

static int64_t value_of(feature f, int64_t x, int64_t y) {
    int64_t product;
    if (__builtin_mul_overflow(x, y, &product))
        product = INT64_MAX;
    return f == DIFFERENCE ? x - y
           : f == PRODUCT  ? product
           : f == SUM      ? x + y
           : f == QUOTIENT ? x % y
                           : y % x;
}

typedef struct {
    const cfx__search *s;
    size_t i, j;
    VEC(struct pair {
        int64_t x;
        int64_t y;
        bool goes;
    })
    seen;
} plane;

static cfx__search_verdict try_pair(plane *p, int64_t x, int64_t y) {
    memcpy(p->s->sizes, p->s->hints, p->s->n * sizeof *p->s->sizes);
    p->s->sizes[p->i] = x;
    p->s->sizes[p->j] = y;
    cfx__search_verdict v = cfx__search_at(p->s, p->s->sizes);
    struct pair one = {x, y, v == CFX__GOES};
    if (v != CFX__CANNOT_BE)
        VEC_PUSH(p->seen, one);
    return v;
}

/* Bounds of a number over the sizes that go, and over those that do not. */
typedef struct {
    int64_t least, most;
} extent;

static extent extent_of(const plane *p, feature f, bool goes) {
    extent e = {INT64_MAX, INT64_MIN};
    for (size_t k = 0; k < p->seen.len; k++) {
        if (p->seen.data[k].goes != goes)
            continue;
        int64_t v = value_of(f, p->seen.data[k].x, p->seen.data[k].y);
        e.least = v < e.least ? v : e.least;
        e.most = v > e.most ? v : e.most;
    }
    return e;
}

static bool is_bounded(const plane *p, feature f) {
    extent good = extent_of(p, f, true), bad = extent_of(p, f, false);
    return good.most < bad.least || bad.most < good.least;
}

/* Walks along the first size to where it begins to differ, the second one being y. */
static void find_edge(plane *p, int64_t y) {
    enum { FARTHEST = 1 << 20 };
    int64_t good = -1, bad = -1;
    for (size_t k = 0; k < p->seen.len; k++)
        if (p->seen.data[k].y == y && p->seen.data[k].goes)
            good = p->seen.data[k].x;
        else if (p->seen.data[k].y == y)
            bad = p->seen.data[k].x;
    for (int64_t x = 2; x <= FARTHEST && (good < 0 || bad < 0); x *= 2) {
        cfx__search_verdict v = try_pair(p, x, y);
        good = v == CFX__GOES ? x : good;
        bad = v == CFX__DIFFERS ? x : bad;
    }
    while (good >= 0 && bad >= 0 && (bad - good > 1 || good - bad > 1)) {
        int64_t middle = good + (bad - good) / 2;
        cfx__search_verdict v = try_pair(p, middle, y);
        if (v == CFX__CANNOT_BE)
            return;
        good = v == CFX__GOES ? middle : good;
        bad = v == CFX__DIFFERS ? middle : bad;
    }
}

static bool is_zero_alone(const plane *p, feature f, bool goes) {
    bool zero = false;
    for (size_t k = 0; k < p->seen.len; k++) {
        bool none = value_of(f, p->seen.data[k].x, p->seen.data[k].y) == 0;
        zero |= none;
        if (p->seen.data[k].goes != (none == goes))
            return false;
    }
    return zero;
}

static cfx_value expression(const plane *p, feature f) {
    cfx_value x = cfx__search_name(p->s, p->i), y = cfx__search_name(p->s, p->j);
    static const cfx__sym_op ops[] = {CFX__SYM_ADD, CFX__SYM_MUL, CFX__SYM_ADD, CFX__SYM_MOD,
                                      CFX__SYM_MOD};
    return f == TURNED ? cfx__sym_binary(ops[f], y, x) : cfx__sym_binary(ops[f], x, y);
}

static cfx__finding bounded_by(const plane *p, feature f) {
    extent good = extent_of(p, f, true), bad = extent_of(p, f, false);
    bool above = good.most < bad.least;
    int64_t border = above ? good.most : good.least;
    cfx__finding found = {
        .kind = CFX__FOUND_CONDITION, .i = SIZE_MAX, .rel = above ? CFX__LE : CFX__GE};
    if (f != DIFFERENCE) {
        found.a = expression(p, f);
        found.b = cfx_int(border);
        return found;
    }
    if (border == (above ? -1 : 1)) { /* x <= y - 1 */
        found.rel = above ? CFX__LT : CFX__GT;
        border = 0;
    }
    found.a = cfx__search_name(p->s, p->i);
    found.b = cfx__sym_binary(CFX__SYM_ADD, cfx__search_name(p->s, p->j), cfx_int(border));
    return found;
}

/* A line of sizes, y = k*x + past, or x of y where it is turned. */
typedef struct {
    int64_t k, past;
    bool turned;
} ray;

static bool is_on(const ray *r, int64_t x, int64_t y) {
    return r->turned ? x == r->k * y + r->past : y == r->k * x + r->past;
}

/* Whether it differs on a line through the sizes to be explained, and nowhere else. */
static bool differs_on(plane *p, const ray *r) {
    static const int along[] = {2, 3, 5, 9, 14, 23, 40, 77, 150};
    int on = 0;
    for (int k = 0; k < COUNT(along); k++) {
        const int64_t other = r->k * along[k] + r->past;
        on += (r->turned ? try_pair(p, other, along[k]) : try_pair(p, along[k], other)) ==
              CFX__DIFFERS;
    }
    for (size_t k = 0; k < p->seen.len; k++)
        if (p->seen.data[k].goes == is_on(r, p->seen.data[k].x, p->seen.data[k].y))
            return false;
    return on > 2;
}

static bool find_line(plane *p, cfx__finding *out) {
    const int64_t x = p->s->bad[p->i], y = p->s->bad[p->j];
    const ray all[] = {{1, y - x, false}, {y / x, y % x, false}, {x / y, x % y, true},
                       {-1, x + y, false}};
    for (int k = 0; k < COUNT(all); k++) {
        if (!all[k].k || !differs_on(p, &all[k]))
            continue;
        const size_t of = all[k].turned ? p->j : p->i, is = all[k].turned ? p->i : p->j;
        cfx_value times = cfx__sym_binary(CFX__SYM_MUL, cfx_int(all[k].k),
                                          cfx__search_name(p->s, of));
        *out = (cfx__finding){.kind = CFX__FOUND_CONDITION,
                              .i = SIZE_MAX,
                              .rel = CFX__NE,
                              .a = cfx__search_name(p->s, is),
                              .b = cfx__sym_binary(CFX__SYM_ADD, times, cfx_int(all[k].past))};
        return true;
    }
    return false;
}

static bool find_feature(plane *p, cfx__finding *out) {
    for (feature f = QUOTIENT; f < FEATURES; f++) /* n % m == 0, or never */
        for (int goes = 0; goes < 2; goes++)
            if (is_zero_alone(p, f, goes)) {
                *out = (cfx__finding){.kind = CFX__FOUND_CONDITION,
                                      .i = SIZE_MAX,
                                      .rel = goes ? CFX__EQ : CFX__NE,
                                      .a = expression(p, f),
                                      .b = cfx_int(0)};
                return true;
            }
    if (is_zero_alone(p, DIFFERENCE, false)) {
        *out = (cfx__finding){.kind = CFX__FOUND_CONDITION,
                              .i = SIZE_MAX,
                              .rel = CFX__NE,
                              .a = cfx__search_name(p->s, p->i),
                              .b = cfx__search_name(p->s, p->j)};
        return true;
    }
    for (feature f = DIFFERENCE; f <= SUM; f++)
        if (is_bounded(p, f)) {
            *out = bounded_by(p, f);
            return true;
        }
    return false;
}

static cfx__finding explain_two(const cfx__search *s, size_t i, size_t j) {
    enum { SAMPLES = 80 };
    static const int lines[] = {2, 3, 5, 7, 11, 13, 16, 31};
    plane p = {.s = s, .i = i, .j = j};
    cfx__finding found = {.kind = CFX__FOUND_NOTHING, .i = i};
    try_pair(&p, s->hints[i], s->hints[j]);
    try_pair(&p, s->bad[i], s->bad[j]);
    for (int k = 0; k < SAMPLES; k++) {
        int64_t x = cfx__probe_any(s->p, i), y = cfx__probe_any(s->p, j);
        try_pair(&p, x, k % 8 == 0 ? x : k % 8 == 1 ? x + 1 : k % 8 == 2 ? 2 * x : y);
    }
    for (int k = 0; k < COUNT(lines); k++)
        find_edge(&p, lines[k]);
    find_edge(&p, s->hints[j]);
    if (!find_feature(&p, &found))
        find_line(&p, &found);
    VEC_FREE(p.seen);
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
    cfx__finding both = explain_two(s, i < j ? i : j, i < j ? j : i);
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
        found = explain_two(&s, first, second);
    }
    if (others && found.kind == CFX__FOUND_NOTHING)
        found = cfx__search_product(&s);
    cfx__free(s.hints);
    return found;
}
