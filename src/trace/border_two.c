/* Conditions on two sizes: a bound of their product or of a sum of multiples of them, a remainder
 * of one by the other, or that they are on no line. Start at cfx__search_two. */
#include "border.h"
#include "relations.h"

/* Numbers of two sizes by which they may be told apart. */
typedef enum { DIFFERENCE, PRODUCT, QUOTIENT, TURNED, FEATURES } feature;

static int64_t value_of(feature f, int64_t x, int64_t y) {
    int64_t product;
    if (__builtin_mul_overflow(x, y, &product))
        product = INT64_MAX;
    return f == DIFFERENCE ? x - y : f == PRODUCT ? product : f == QUOTIENT ? x % y : y % x;
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

/* Factors of sizes up to this one are looked for. Two lines of such factors are one apart where a
 * size is its square. */
enum { STEEPEST = 32 };

static void find_edges(plane *p) {
    static const int lines[] = {2, 3, 5, 7, 11, 13, 16, 31, 127, STEEPEST * STEEPEST + 1, 4093};
    for (int k = 0; k < COUNT(lines); k++)
        find_edge(p, lines[k]);
    find_edge(p, p->s->hints[p->j]);
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
    return f == TURNED ? cfx__sym_binary(CFX__SYM_MOD, y, x) : cfx__sym_binary(CFX__SYM_MOD, x, y);
}

static cfx__finding condition(cfx_value a, cfx__rel rel, cfx_value b) {
    return (cfx__finding){
        .kind = CFX__FOUND_CONDITION, .i = SIZE_MAX, .rel = rel, .a = a, .b = b};
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* A number of two sizes, x * y (a is 0) or a*x + b*y, that is no more than its border, or no less,
 * where forward goes. */
typedef struct {
    int64_t a, b, border;
    bool most; /* the border is the largest such number */
} bound;

static int64_t number_of(const bound *n, int64_t x, int64_t y) {
    return n->a ? n->a * x + n->b * y : value_of(PRODUCT, x, y);
}

/* How far a number is on the wrong side; up to 0: it is on the right one. */
static int64_t excess_of(const bound *n, int64_t x, int64_t y) {
    const int64_t v = number_of(n, x, y);
    return n->most ? v - n->border : n->border - v;
}

static void set_border(const plane *p, bound *n) {
    n->border = n->most ? INT64_MIN : INT64_MAX;
    for (size_t k = 0; k < p->seen.len; k++) {
        const int64_t v = number_of(n, p->seen.data[k].x, p->seen.data[k].y);
        if (p->seen.data[k].goes && (n->most ? v > n->border : v < n->border))
            n->border = v;
    }
}

/* Whether it differs wherever the number is on the wrong side, and nowhere else. */
static bool is_whole(const plane *p, const bound *n) {
    for (size_t k = 0; k < p->seen.len; k++)
        if (!p->seen.data[k].goes && excess_of(n, p->seen.data[k].x, p->seen.data[k].y) <= 0)
            return false;
    return true;
}

/* The first size, where with `y` the number is v; 0: there is none. */
static int64_t size_for(const bound *n, int64_t v, int64_t y) {
    const int64_t rest = n->a ? v - n->b * y : v, by = n->a ? n->a : y;
    return rest > by && rest % by == 0 ? rest / by : 0;
}

/* Numbers next to the border may not have been tried: there are sizes for them. */
static void settle(plane *p, bound *n) {
    enum { NEXT = 2 * STEEPEST, TRIES = 4, SIZES = 1 << 12 };
    for (int64_t d = 1; d <= NEXT; d++) {
        const int64_t v = n->most ? n->border + d : n->border - d;
        int tries = 0;
        bool goes = false, differs = false;
        for (int64_t y = 2; y < SIZES && tries < TRIES && !goes; y++) {
            const int64_t x = size_for(n, v, y);
            cfx__search_verdict is = x ? try_pair(p, x, y) : CFX__CANNOT_BE;
            tries += x > 0;
            goes = is == CFX__GOES;
            differs |= is == CFX__DIFFERS;
        }
        if (goes) {
            n->border = v;
            d = 0;
        } else if (differs) {
            return;
        }
    }
}

static cfx_value times(const cfx__search *s, size_t i, int64_t factor) {
    return cfx__sym_binary(CFX__SYM_MUL, cfx_int(factor), cfx__search_name(s, i));
}

/* Where b is negative, a*x is told beside the other, and the size that stands alone, if one does,
 * comes first: y > 2*x. */
static cfx__finding told(const plane *p, const bound *n) {
    const cfx_value y = cfx__search_name(p->s, p->j);
    const cfx__rel rel = n->most ? CFX__LE : CFX__GE;
    if (!n->a)
        return condition(cfx__sym_binary(CFX__SYM_MUL, cfx__search_name(p->s, p->i), y), rel,
                         cfx_int(n->border));
    const cfx_value ax = times(p->s, p->i, n->a), by = times(p->s, p->j, n->b < 0 ? -n->b : n->b);
    if (n->b > 0)
        return condition(cfx__sym_binary(CFX__SYM_ADD, ax, by), rel, cfx_int(n->border));
    const bool turned = n->a > 1 && n->b == -1, strict = n->border == (n->most ? -1 : 1);
    const bool less = n->most != turned;
    const int64_t past = strict ? 0 : turned ? -n->border : n->border;
    return condition(turned ? by : ax,
                     strict ? less ? CFX__LT : CFX__GT : less ? CFX__LE : CFX__GE,
                     cfx__sym_binary(CFX__SYM_ADD, turned ? ax : by, cfx_int(past)));
}

static bool find_bound_of(plane *p, bound n, cfx__finding *out) {
    for (int most = 1; most >= 0; most--) {
        n.most = most;
        set_border(p, &n);
        if (!is_whole(p, &n))
            continue;
        settle(p, &n);
        *out = told(p, &n);
        return true;
    }
    return false;
}

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

/* A bound of x * y or a*x + b*y, the smallest factors first. Edges far from the origin tell each
 * pair of factors from all others. */
static bool find_bound(plane *p, cfx__finding *out) {
    if (find_bound_of(p, (bound){0}, out))
        return true;
    for (int64_t sum = 2; sum <= 2 * STEEPEST; sum++)
        for (int64_t a = sum > STEEPEST ? sum - STEEPEST : 1; a < sum && a <= STEEPEST; a++)
            for (int sign = -1; sign <= 1 && common_divisor(a, sum - a) == 1; sign += 2)
                if (find_bound_of(p, (bound){.a = a, .b = sign * (sum - a)}, out))
                    return true;
    return false;
}

/* ---- lines ----------------------------------------------------------------------------------- */

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
        *out = condition(
            cfx__search_name(p->s, is), CFX__NE,
            cfx__sym_binary(CFX__SYM_ADD, times(p->s, of, all[k].k), cfx_int(all[k].past)));
        return true;
    }
    return false;
}

static bool find_feature(plane *p, cfx__finding *out) {
    for (feature f = QUOTIENT; f < FEATURES; f++) /* n % m == 0, or never */
        for (int goes = 0; goes < 2; goes++)
            if (is_zero_alone(p, f, goes)) {
                *out = condition(expression(p, f), goes ? CFX__EQ : CFX__NE, cfx_int(0));
                return true;
            }
    if (is_zero_alone(p, DIFFERENCE, false)) {
        *out = condition(cfx__search_name(p->s, p->i), CFX__NE, cfx__search_name(p->s, p->j));
        return true;
    }
    return find_bound(p, out);
}

cfx__finding cfx__search_two(const cfx__search *s, size_t i, size_t j) {
    enum { SAMPLES = 80 };
    plane p = {.s = s, .i = i, .j = j};
    cfx__finding found = {.kind = CFX__FOUND_NOTHING, .i = i};
    try_pair(&p, s->hints[i], s->hints[j]);
    try_pair(&p, s->bad[i], s->bad[j]);
    for (int k = 0; k < SAMPLES; k++) {
        int64_t x = cfx__probe_any(s->p, i), y = cfx__probe_any(s->p, j);
        try_pair(&p, x, k % 8 == 0 ? x : k % 8 == 1 ? x + 1 : k % 8 == 2 ? 2 * x : y);
    }
    find_edges(&p);
    if (!find_feature(&p, &found))
        find_line(&p, &found);
    VEC_FREE(p.seen);
    return found;
}
