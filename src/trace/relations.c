/* Relations between numbers that are not known before a run; see relations.h. */
#include "relations.h"

static const struct {
    const char *function, *sign, *turned; /* the same with its sides changed */
    cfx__rel not;
} forms[] = {[CFX__LT] = {"operator.lt", "<", ">", CFX__GE},
             [CFX__LE] = {"operator.le", "<=", ">=", CFX__GT},
             [CFX__GT] = {"operator.gt", ">", "<", CFX__LE},
             [CFX__GE] = {"operator.ge", ">=", "<=", CFX__LT},
             [CFX__EQ] = {"operator.eq", "==", "==", CFX__NE},
             [CFX__NE] = {"operator.ne", "!=", "!=", CFX__EQ}};

const char *cfx__relation_function(cfx__rel op) { return forms[op].function; }

bool cfx__relation_named(const char *function, cfx__rel *op) {
    for (int i = 0; function && i < COUNT(forms); i++)
        if (!strcmp(forms[i].function, function)) {
            *op = (cfx__rel)i;
            return true;
        }
    return false;
}

cfx__relation cfx__relation_not(cfx__relation r) {
    r.op = forms[r.op].not;
    return r;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Numbers are on the right. */
static bool is_turned(const cfx__relation *r) {
    return r->a.tag != CFX_TAG_SYM && r->a.tag != CFX_TAG_STR;
}

const char *cfx__relation_python(const cfx__relation *r) {
    bool turned = is_turned(r);
    return cfx__text_format("%s %s %s", cfx_value_str(turned ? r->b : r->a),
                            turned ? forms[r->op].turned : forms[r->op].sign,
                            cfx_value_str(turned ? r->a : r->b));
}

bool cfx__relation_wraps(cfx_value side) {
    return side.tag == CFX_TAG_SYM && (cfx_as_sym(side)->op == CFX__SYM_FLOORDIV ||
                                       cfx_as_sym(side)->op == CFX__SYM_MOD);
}

static const char *side_text(cfx_value v) {
    return cfx__text_format(cfx__relation_wraps(v) ? "(%s)" : "%s", cfx_value_str(v));
}

const char *cfx__relation_text(const cfx__relation *r) {
    bool turned = is_turned(r);
    cfx_value left = turned ? r->b : r->a, right = turned ? r->a : r->b;
    if (r->op == CFX__EQ || r->op == CFX__NE)
        return cfx__text_format("%s(%s, %s)", r->op == CFX__EQ ? "Eq" : "Ne", cfx_value_str(left),
                                cfx_value_str(right));
    return cfx__text_format("%s %s %s", side_text(left),
                            turned ? forms[r->op].turned : forms[r->op].sign, side_text(right));
}

/* ---- in one world ---------------------------------------------------------------------------- */

static bool compare(cfx__rel op, __int128 a, __int128 b) {
    switch (op) {
    case CFX__LT: return a < b;
    case CFX__LE: return a <= b;
    case CFX__GT: return a > b;
    case CFX__GE: return a >= b;
    case CFX__EQ: return a == b;
    case CFX__NE: return a != b;
    }
    return false;
}

bool cfx__relation_holds(const cfx__worlds *w, int k, const cfx__relation *r) {
    int64_t a, b;
    return cfx__worlds_eval(w, k, r->a, &a) && cfx__worlds_eval(w, k, r->b, &b) &&
           compare(r->op, a, b);
}

static bool names(const cfx_sym *e, const char *symbol) {
    if (e->op == CFX__SYM_INT)
        return false;
    return e->op == CFX__SYM_NAME ? !strcmp(e->name, symbol)
                                  : names(e->a, symbol) || names(e->b, symbol);
}

bool cfx__relation_names(cfx_value expr, const char *symbol) {
    return expr.tag == CFX_TAG_SYM && names(cfx_as_sym(expr), symbol);
}

static bool gap(const cfx__worlds *w, int k, const cfx__relation *r, __int128 *out) {
    int64_t a, b;
    if (!cfx__worlds_eval(w, k, r->a, &a) || !cfx__worlds_eval(w, k, r->b, &b))
        return false;
    *out = (__int128)a - b;
    return true;
}

/* By how much s must change so that `by` times it makes up for the gap. */
static __int128 change(cfx__rel op, __int128 d, __int128 by, uint64_t salt) {
    __int128 exact = -d / by, away = (by > 0) == (d > 0) ? -1 : 1;
    switch (op) {
    case CFX__EQ: return exact;
    case CFX__NE: return salt % 2 ? 1 : -1;
    default: return exact + away * (__int128)(1 + salt % 3);
    }
}

void cfx__relation_mend(cfx__worlds *w, int k, const cfx__relation *r, uint64_t salt) {
    for (size_t i = 0; i < w->symbols.len; i++) {
        cfx__symbol *s = &w->symbols.data[(i + salt) % w->symbols.len];
        __int128 now, next;
        bool has = cfx__relation_names(r->a, s->name) || cfx__relation_names(r->b, s->name);
        if (*s->name != 'u' || s->least == s->most || !has || !gap(w, k, r, &now))
            continue;
        int64_t was = s->size.at[k];
        s->size.at[k] = was < s->most ? was + 1 : was - 1;
        bool moves = gap(w, k, r, &next) && next != now;
        __int128 by = (next - now) * (s->size.at[k] - was);
        s->size.at[k] = was;
        if (!moves)
            continue;
        __int128 to = was + change(r->op, now, by, salt / 7);
        to = to < s->least ? s->least : to > s->most ? s->most : to;
        if (to == was)
            continue;
        s->size.at[k] = (int64_t)to;
        return;
    }
}

/* ---- ranges ---------------------------------------------------------------------------------- */

typedef struct {
    __int128 low, high;
} range;

static const __int128 far = (__int128)1 << 100;
static const range any = {-((__int128)1 << 100), (__int128)1 << 100};

static __int128 held(__int128 n) { return n < -far ? -far : n > far ? far : n; }

static __int128 times(__int128 a, __int128 b) {
    __int128 all;
    if (!a || !b)
        return 0;
    if (__builtin_mul_overflow(a, b, &all))
        return (a < 0) == (b < 0) ? far : -far;
    return held(all);
}

static __int128 floor_by(__int128 a, __int128 b) {
    if (a <= -far || a >= far)
        return a;
    return a / b - (a % b < 0);
}

static range product(range a, range b) {
    __int128 all[] = {times(a.low, b.low), times(a.low, b.high), times(a.high, b.low),
                      times(a.high, b.high)};
    range out = {all[0], all[0]};
    for (int i = 1; i < 4; i++) {
        out.low = all[i] < out.low ? all[i] : out.low;
        out.high = all[i] > out.high ? all[i] : out.high;
    }
    return out;
}

static range range_of(const cfx__worlds *w, const cfx_sym *e) {
    if (e->op == CFX__SYM_INT)
        return (range){e->hint, e->hint};
    if (e->op == CFX__SYM_NAME) {
        const cfx__symbol *s = cfx__worlds_find(w, e->name);
        if (!s)
            return any;
        return (range){s->least == INT64_MIN + 1 ? -far : s->least,
                       s->most >= INT64_MAX - 1 ? far : s->most};
    }
    range a = range_of(w, e->a), b = range_of(w, e->b);
    switch (e->op) {
    case CFX__SYM_ADD: return (range){held(a.low + b.low), held(a.high + b.high)};
    case CFX__SYM_MUL: return product(a, b);
    case CFX__SYM_MIN:
        return (range){a.low < b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
    case CFX__SYM_MAX:
        return (range){a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
    case CFX__SYM_FLOORDIV:
        return b.low == b.high && b.low > 0
                   ? (range){floor_by(a.low, b.low), floor_by(a.high, b.low)}
                   : any;
    case CFX__SYM_MOD: return b.low > 0 && b.high < far ? (range){0, b.high - 1} : any;
    default: return any;
    }
}

static range range_in(const cfx__worlds *w, cfx_value v) {
    return v.tag == CFX_TAG_SYM   ? range_of(w, cfx_as_sym(v))
           : v.tag == CFX_TAG_INT ? (range){cfx_integer(v), cfx_integer(v)}
                                  : any;
}

bool cfx__relation_only(const cfx__worlds *w, cfx_value expr, int64_t *out) {
    range r = range_in(w, expr);
    *out = (int64_t)r.low;
    return r.low == r.high && r.low > -far && r.high < far;
}

bool cfx__relation_bounds(const cfx__worlds *w, cfx_value expr, bool below) {
    enum { LEAST = 2 }; /* of all sizes that vary */
    range r = range_in(w, expr);
    return below ? r.low > LEAST : r.high < far;
}

int64_t cfx__relation_most(const cfx__worlds *w, cfx_value expr) {
    range r = range_in(w, expr);
    return r.high < INT64_MAX ? (int64_t)r.high : INT64_MAX;
}

const char *cfx__relation_range(const cfx__worlds *w, cfx_value expr, cfx_value min,
                                cfx_value max) {
    range r = range_in(w, expr);
    if (min.tag == CFX_TAG_INT && cfx_integer(min) > r.low)
        r.low = cfx_integer(min);
    if (max.tag == CFX_TAG_INT && cfx_integer(max) < r.high)
        r.high = cfx_integer(max);
    return cfx__text_format("[%lld:%lld]", (long long)r.low, (long long)r.high);
}

cfx_value cfx__relation_through(const cfx__worlds *w, int i, int64_t a, int k, int64_t b,
                                cfx_value beside) {
    cfx_value line = cfx_none();
    if (a == b)
        return cfx_int(a);
    for (size_t n = 0; n < w->symbols.len; n++) {
        const cfx__symbol *s = &w->symbols.data[n];
        int64_t x = s->size.at[i], y = s->size.at[k];
        if (s->apart || x == y || (b - a) % (y - x) || cfx__relation_names(beside, s->name))
            continue;
        int64_t by = (b - a) / (y - x), past = a - by * x;
        cfx_value name = cfx__sym_name(s->name, false, 0);
        if (by == 1 && !past)
            return name;
        if (cfx_is_none(line))
            line = cfx__sym_binary(CFX__SYM_ADD, cfx__sym_binary(CFX__SYM_MUL, cfx_int(by), name),
                                   cfx_int(past));
    }
    return line;
}

/* Both sides as one: a - b. None where that is no expression. */
static cfx_value difference(const cfx__relation *r) {
    bool whole = (r->a.tag == CFX_TAG_SYM || r->a.tag == CFX_TAG_INT) &&
                 (r->b.tag == CFX_TAG_SYM || r->b.tag == CFX_TAG_INT);
    if (!whole)
        return cfx_none();
    return cfx__sym_binary(CFX__SYM_ADD, r->a, cfx__sym_binary(CFX__SYM_MUL, cfx_int(-1), r->b));
}

static int known_by_range(const cfx__worlds *w, const cfx__relation *r) {
    range d = range_in(w, difference(r));
    bool zero = d.low == 0 && d.high == 0, never = d.low > 0 || d.high < 0;
    if (r->op == CFX__EQ || r->op == CFX__NE)
        return zero ? r->op == CFX__EQ : never ? r->op == CFX__NE : -1;
    bool low = compare(r->op, d.low, 0), high = compare(r->op, d.high, 0);
    return low && high ? 1 : low || high ? -1 : 0;
}

/* The one symbol of an expression; NULL where there are none, or several. */
static const char *only_symbol(const cfx_sym *e, bool *several) {
    if (e->op == CFX__SYM_INT)
        return NULL;
    if (e->op == CFX__SYM_NAME)
        return e->name;
    const char *a = only_symbol(e->a, several), *b = only_symbol(e->b, several);
    *several |= a && b && strcmp(a, b);
    return a ? a : b;
}

static bool at_point(const struct cfx_sym *name, void *user, int64_t *out) {
    (void)name;
    *out = *(const int64_t *)user;
    return true;
}

/* Whether the expression is scale * symbol + past. */
static bool is_line(const cfx_sym *e, int64_t *scale, int64_t *past) {
    int64_t points[] = {0, 1, 2, 1009, -7}, seen[COUNT(points)];
    for (int i = 0; i < COUNT(points); i++)
        if (!cfx__sym_eval(e, at_point, &points[i], &seen[i]))
            return false;
    *past = seen[0];
    *scale = seen[1] - seen[0];
    for (int i = 2; i < COUNT(points); i++)
        if ((__int128)*scale * points[i] + *past != seen[i])
            return false;
    return *scale != 0;
}

/* What has no whole solution is never equal: 2*u0 and 3. */
static int known_by_parts(const cfx__relation *r) {
    cfx_value d = difference(r);
    bool several = false;
    int64_t scale, past;
    if ((r->op != CFX__EQ && r->op != CFX__NE) || d.tag != CFX_TAG_SYM)
        return -1;
    if (!only_symbol(cfx_as_sym(d), &several) || several ||
        !is_line(cfx_as_sym(d), &scale, &past) || past % scale == 0)
        return -1;
    return r->op == CFX__NE;
}

int cfx__relation_known(const cfx__worlds *w, const cfx__relation *r) {
    cfx__relation opposite = cfx__relation_not(*r);
    if (cfx_is_none(difference(r)))
        return -1;
    int known = known_by_range(w, r);
    known = known < 0 ? known_by_parts(r) : known;
    for (size_t i = 0; known < 0 && i < w->checks.len; i++) {
        const char *assumed = cfx__relation_text(&w->checks.data[i]);
        known = !strcmp(assumed, cfx__relation_text(r))           ? 1
                : !strcmp(assumed, cfx__relation_text(&opposite)) ? 0
                                                                  : -1;
    }
    return known;
}

/* ---- what follows ---------------------------------------------------------------------------- */

static void bound(cfx__symbol *s, __int128 least, __int128 most) {
    if (least > s->least)
        s->least = least > INT64_MAX ? INT64_MAX : (int64_t)least;
    if (most < s->most)
        s->most = most < INT64_MIN + 1 ? INT64_MIN + 1 : (int64_t)most;
}

/* scale * s + past ? 0 as bounds of s; false where it is none. */
static bool narrow(cfx__symbol *s, cfx__rel op, __int128 scale, __int128 past) {
    if (scale < 0) {
        static const cfx__rel turned[] = {[CFX__LT] = CFX__GT, [CFX__LE] = CFX__GE,
                                          [CFX__GT] = CFX__LT, [CFX__GE] = CFX__LE,
                                          [CFX__EQ] = CFX__EQ, [CFX__NE] = CFX__NE};
        op = turned[op], scale = -scale, past = -past;
    }
    __int128 down = floor_by(-past, scale), up = -floor_by(past, scale); /* of -past / scale */
    switch (op) {
    case CFX__LT: bound(s, s->least, up - 1); return true;
    case CFX__LE: bound(s, s->least, down); return true;
    case CFX__GT: bound(s, down + 1, s->most); return true;
    case CFX__GE: bound(s, up, s->most); return true;
    case CFX__EQ: bound(s, up, down); return true;
    case CFX__NE: return false;
    }
    return false;
}

void cfx__relation_narrow(cfx__worlds *w, const cfx__relation *r) {
    const cfx_sym *e = r->a.tag == CFX_TAG_SYM ? cfx_as_sym(r->a) : NULL;
    cfx__symbol *s = e && e->op == CFX__SYM_NAME ? cfx__worlds_find(w, e->name) : NULL;
    range other = range_in(w, r->b);
    bool follows = r->b.tag != CFX_TAG_INT;
    bool less = r->op == CFX__LT || r->op == CFX__LE || r->op == CFX__EQ;
    bool more = r->op == CFX__GT || r->op == CFX__GE || r->op == CFX__EQ;
    if (!s)
        return;
    const int64_t least = s->least, most = s->most;
    if (less)
        bound(s, s->least, other.high - (r->op == CFX__LT));
    if (more)
        bound(s, other.low + (r->op == CFX__GT), s->most);
    s->most_follows = s->most < most ? follows : s->most_follows;
    s->least_follows = s->least > least ? follows : s->least_follows;
}

void cfx__relation_assume(cfx__worlds *w, const cfx__relation *r) {
    cfx_value d = difference(r);
    int64_t scale, past;
    bool several = false;
    if (d.tag != CFX_TAG_SYM || cfx__relation_known(w, r) == 1)
        return;
    const char *name = only_symbol(cfx_as_sym(d), &several);
    cfx__symbol *s = name && !several ? cfx__worlds_find(w, name) : NULL;
    if (s && is_line(cfx_as_sym(d), &scale, &past) && narrow(s, r->op, scale, past))
        return;
    cfx__relation kept = {r->op, cfx_value_keep(r->a), cfx_value_keep(r->b)};
    VEC_PUSH(w->checks, kept);
}
