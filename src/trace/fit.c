/* Finds the expression of a number that depends on sizes: a known one, or one found by search.
 * It must reproduce the value of every world, and there must be more worlds than free
 * coefficients. */
#include "relations.h"

static bool is_same(const cfx__exprs *x, const cfx__seen *a, const cfx__seen *b) {
    return !memcmp(a->at, b->at, (size_t)x->worlds->n * sizeof *a->at);
}

static bool is_constant(const cfx__exprs *x, const cfx__seen *s) {
    for (int k = 1; k < x->worlds->n; k++)
        if (s->at[k] != s->at[0])
            return false;
    return true;
}

/* Whether the program checks that the symbol is equal to something. */
static bool is_checked_equal(const cfx__worlds *w, const cfx__symbol *s) {
    for (size_t i = 0; i < w->checks.len; i++) {
        const cfx__relation *r = &w->checks.data[i];
        if (r->op == CFX__EQ && (cfx__relation_names(r->a, s->name) ||
                                 cfx__relation_names(r->b, s->name)))
            return true;
    }
    return false;
}

/* Whether the program asserts that the symbol is another one. */
static bool is_another(const cfx__worlds *w, const cfx__symbol *s) {
    for (size_t i = 0; i < w->totals.len; i++) {
        const struct cfx__total *t = &w->totals.data[i];
        const cfx_sym *sum = cfx_as_sym(t->sum);
        bool one = !t->at_most && sum->op == CFX__SYM_NAME;
        if (one && (!strcmp(sum->name, s->name) || cfx__relation_names(t->total, s->name)))
            return true;
    }
    return false;
}

void cfx__exprs_begin(cfx__exprs *x, const cfx__worlds *w) {
    x->worlds = w;
    for (size_t i = 0; i < w->symbols.len; i++) {
        const cfx__symbol *s = &w->symbols.data[i];
        if (s->apart)
            continue;
        size_t before = x->known.len;
        cfx__exprs_note(x, cfx__sym_name(s->name, s->hint > 0, s->hint));
        if (x->known.len == before && w->n > 1 && !is_constant(x, &s->size) &&
            !is_checked_equal(w, s) && !is_another(w, s))
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                     "the size %s cannot be told from another in the ranges they have", s->name);
        if (*s->name == 'u' && s->least < s->most && w->n > 1 && is_constant(x, &s->size))
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                     "the number %s, which is data, is %lld in all that was tried", s->name,
                     (long long)s->size.at[0]);
    }
}

void cfx__exprs_free(cfx__exprs *x) {
    for (size_t i = 0; i < x->known.len; i++)
        cfx_value_drop(x->known.data[i].expr);
    VEC_FREE(x->known);
}

static bool value_of(const cfx__exprs *x, cfx_value v, cfx__seen *out) {
    for (int k = 0; k < x->worlds->n; k++)
        if (!cfx__worlds_eval(x->worlds, k, v, &out->at[k]))
            return false;
    return true;
}

bool cfx__exprs_proves(const cfx__exprs *x, cfx_value v, const cfx__seen *seen) {
    cfx__seen own;
    return value_of(x, v, &own) && is_same(x, &own, seen);
}

void cfx__exprs_note(cfx__exprs *x, cfx_value v) {
    struct cfx__expr e = {.expr = v};
    if (v.tag != CFX_TAG_SYM || !value_of(x, v, &e.seen) ||
        !cfx_is_none(cfx__exprs_known(x, &e.seen)))
        return;
    cfx_value_keep(v);
    VEC_PUSH(x->known, e);
}

cfx_value cfx__exprs_known(const cfx__exprs *x, const cfx__seen *seen) {
    if (is_constant(x, seen))
        return cfx_int(seen->at[0]);
    for (size_t i = 0; i < x->known.len; i++)
        if (is_same(x, &x->known.data[i].seen, seen))
            return x->known.data[i].expr;
    return cfx_none();
}

/* ---- finding --------------------------------------------------------------------------------- */

/* Whether there are enough different values of an expression to tell a line through them. */
static bool tells(const cfx__exprs *x, const struct cfx__expr *e) {
    enum { ENOUGH = 4 };
    int different = 0;
    for (int k = 0; k < x->worlds->n && different < ENOUGH; k++) {
        bool again = false;
        for (int i = 0; i < k; i++)
            again |= e->seen.at[i] == e->seen.at[k];
        different += !again;
    }
    const cfx__symbol *s = cfx_as_sym(e->expr)->op == CFX__SYM_NAME
                               ? cfx__worlds_find(x->worlds, cfx_as_sym(e->expr)->name)
                               : NULL;
    return different >= ENOUGH || (s && (uint64_t)s->most - (uint64_t)s->least < ENOUGH);
}

/* scale * e + past */
static bool find_line(const cfx__exprs *x, const struct cfx__expr *e, const cfx__seen *seen,
                      int64_t *scale, int64_t *past) {
    int n = x->worlds->n, other = 1;
    const int64_t *a = e->seen.at, *v = seen->at;
    while (other < n && a[other] == a[0])
        other++;
    int64_t rise, run, part;
    if (other == n || __builtin_sub_overflow(v[other], v[0], &rise) ||
        __builtin_sub_overflow(a[other], a[0], &run) || rise == INT64_MIN || rise % run)
        return false;
    *scale = rise / run;
    if (__builtin_mul_overflow(*scale, a[0], &part) || __builtin_sub_overflow(v[0], part, past))
        return false;
    for (int k = 0; k < n; k++)
        if (__builtin_mul_overflow(*scale, a[k], &part) ||
            __builtin_add_overflow(part, *past, &part) || part != v[k])
            return false;
    return *scale != 0;
}

static cfx_value try_line(const cfx__exprs *x, const struct cfx__expr *e, const cfx__seen *seen) {
    int64_t scale, past;
    if (!find_line(x, e, seen, &scale, &past) || !tells(x, e))
        return cfx_none();
    cfx_value scaled = cfx__sym_binary(CFX__SYM_MUL, cfx_int(scale), e->expr);
    return cfx__sym_binary(CFX__SYM_ADD, scaled, cfx_int(past));
}

/* A product with e as a factor. */
static cfx_value try_product(const cfx__exprs *x, const struct cfx__expr *e, const cfx__seen *seen,
                             int depth) {
    enum { DEEPEST = 4 };
    cfx__seen rest = {0};
    for (int k = 0; k < x->worlds->n; k++) {
        if (e->seen.at[k] < 1 || seen->at[k] % e->seen.at[k])
            return cfx_none();
        rest.at[k] = seen->at[k] / e->seen.at[k];
    }
    cfx_value times = cfx__exprs_known(x, &rest);
    for (size_t i = 0; i < x->known.len && cfx_is_none(times) && depth < DEEPEST; i++)
        if (cfx_as_sym(x->known.data[i].expr)->op == CFX__SYM_NAME)
            times = try_product(x, &x->known.data[i], &rest, depth + 1);
    return cfx_is_none(times) ? times : cfx__sym_binary(CFX__SYM_MUL, e->expr, times);
}

static cfx_value try_sum(const cfx__exprs *x, const struct cfx__expr *e, const cfx__seen *seen) {
    cfx__seen rest = {0};
    for (int k = 0; k < x->worlds->n; k++)
        if (__builtin_sub_overflow(seen->at[k], e->seen.at[k], &rest.at[k]))
            return cfx_none();
    cfx_value more = cfx__exprs_known(x, &rest);
    for (size_t i = 0; i < x->known.len && cfx_is_none(more); i++)
        if (cfx_as_sym(x->known.data[i].expr)->op == CFX__SYM_NAME)
            more = try_line(x, &x->known.data[i], &rest);
    return cfx_is_none(more) ? more : cfx__sym_binary(CFX__SYM_ADD, e->expr, more);
}

/* (e + past) // by */
static cfx_value try_part(const cfx__exprs *x, const struct cfx__expr *e, const cfx__seen *seen) {
    enum { LARGEST = 64 };
    const int64_t limit = INT64_MAX / 256;
    if (!tells(x, e))
        return cfx_none();
    for (int64_t by = 2; by <= LARGEST; by++) {
        int64_t low = INT64_MIN, high = INT64_MAX;
        for (int k = 0; k < x->worlds->n; k++) {
            int64_t v = seen->at[k], a = e->seen.at[k];
            if (v > limit || v < -limit || a > limit || a < -limit)
                return cfx_none();
            int64_t least = by * v - a;
            low = least > low ? least : low;
            high = least + by - 1 < high ? least + by - 1 : high;
        }
        bool plain = low <= 0 && high >= 0;
        if (low > high || (low < high && !plain))
            continue;
        cfx_value sum = cfx__sym_binary(CFX__SYM_ADD, e->expr, cfx_int(plain ? 0 : low));
        return cfx__sym_binary(CFX__SYM_FLOORDIV, sum, cfx_int(by));
    }
    return cfx_none();
}

static cfx_value try_bound(const cfx__exprs *x, const struct cfx__expr *e, const cfx__seen *seen) {
    int64_t low = seen->at[0], high = low;
    for (int k = 1; k < x->worlds->n; k++) {
        low = seen->at[k] < low ? seen->at[k] : low;
        high = seen->at[k] > high ? seen->at[k] : high;
    }
    cfx_value least = cfx__sym_binary(CFX__SYM_MIN, e->expr, cfx_int(high));
    cfx_value most = cfx__sym_binary(CFX__SYM_MAX, e->expr, cfx_int(low));
    return cfx__exprs_proves(x, least, seen)  ? least
           : cfx__exprs_proves(x, most, seen) ? most
                                              : cfx_none();
}

/* The smaller or the larger of two sizes. */
static cfx_value try_either(const cfx__exprs *x, const struct cfx__expr *e, const cfx__seen *seen) {
    for (size_t i = 0; i < x->known.len; i++)
        for (int larger = 0; larger < 2; larger++) {
            cfx_value v = cfx__sym_binary(larger ? CFX__SYM_MAX : CFX__SYM_MIN, e->expr,
                                          x->known.data[i].expr);
            if (cfx__exprs_proves(x, v, seen))
                return v;
        }
    return cfx_none();
}

static int64_t remainder_of(int64_t a, int64_t by) { return (a % by + by) % by; }

/* (e + past) % by; or (by - e % by) % by, what is missing to a multiple. */
static cfx_value try_remainder(const cfx__exprs *x, const struct cfx__expr *e,
                               const cfx__seen *seen) {
    enum { LARGEST = 256 };
    const int64_t limit = INT64_MAX / 2, *a = e->seen.at, *v = seen->at;
    int n = x->worlds->n;
    for (int k = 0; k < n; k++)
        if (v[k] < 0 || v[k] >= LARGEST || a[k] > limit || a[k] < -limit)
            return cfx_none();
    if (!tells(x, e))
        return cfx_none();
    for (int64_t by = 2; by <= LARGEST; by++) {
        int64_t past = remainder_of(v[0] - a[0], by);
        bool fits = true, missing = true;
        for (int k = 0; k < n && (fits || missing); k++) {
            fits = fits && remainder_of(a[k] + past, by) == v[k];
            missing = missing && remainder_of(-a[k], by) == v[k];
        }
        if (fits)
            return cfx__sym_binary(CFX__SYM_MOD,
                                   cfx__sym_binary(CFX__SYM_ADD, e->expr, cfx_int(past)),
                                   cfx_int(by));
        if (!missing)
            continue;
        cfx_value part = cfx__sym_binary(CFX__SYM_MOD, e->expr, cfx_int(by));
        part = cfx__sym_binary(CFX__SYM_MUL, cfx_int(-1), part);
        return cfx__sym_binary(CFX__SYM_MOD, cfx__sym_binary(CFX__SYM_ADD, cfx_int(by), part),
                               cfx_int(by));
    }
    return cfx_none();
}

/* a * e + b * f + c, from three worlds. */
static bool find_plane(const int64_t *e, const int64_t *f, const int64_t *v, int i, int k,
                       int64_t out[3]) {
    __int128 x1 = (__int128)e[i] - e[0], y1 = (__int128)f[i] - f[0], z1 = (__int128)v[i] - v[0];
    __int128 x2 = (__int128)e[k] - e[0], y2 = (__int128)f[k] - f[0], z2 = (__int128)v[k] - v[0];
    const __int128 far = (__int128)1 << 40;
    if (x1 > far || y1 > far || z1 > far || x2 > far || y2 > far || z2 > far)
        return false;
    __int128 whole = x1 * y2 - x2 * y1, a = z1 * y2 - z2 * y1, b = x1 * z2 - x2 * z1;
    if (!whole || a % whole || b % whole)
        return false;
    out[0] = (int64_t)(a / whole);
    out[1] = (int64_t)(b / whole);
    out[2] = (int64_t)(v[0] - (__int128)out[0] * e[0] - (__int128)out[1] * f[0]);
    return out[0] && out[1];
}

static cfx_value scaled(int64_t by, cfx_value v) {
    return cfx__sym_binary(CFX__SYM_MUL, cfx_int(by), v);
}

static cfx_value try_plane_with(const cfx__exprs *x, const struct cfx__expr *e,
                                const struct cfx__expr *f, const cfx__seen *seen) {
    for (int k = 2; k < x->worlds->n; k++) {
        int64_t by[3];
        if (!find_plane(e->seen.at, f->seen.at, seen->at, 1, k, by))
            continue;
        cfx_value v =
            cfx__sym_binary(CFX__SYM_ADD, scaled(by[0], e->expr), scaled(by[1], f->expr));
        v = cfx__sym_binary(CFX__SYM_ADD, v, cfx_int(by[2]));
        return cfx__exprs_proves(x, v, seen) ? v : cfx_none();
    }
    return cfx_none();
}

/* With another size. */
static cfx_value try_plane(const cfx__exprs *x, const struct cfx__expr *e, const cfx__seen *seen) {
    cfx_value found = cfx_none();
    if (!tells(x, e))
        return found;
    for (size_t i = 0; i < x->known.len && cfx_is_none(found); i++)
        if (&x->known.data[i] != e)
            found = try_plane_with(x, e, &x->known.data[i], seen);
    return found;
}

/* With a product of two sizes, one of which may be e itself. */
static cfx_value try_surface(const cfx__exprs *x, const struct cfx__expr *e,
                             const cfx__seen *seen) {
    enum { FIRST = 12 };
    cfx_value found = cfx_none();
    if (!tells(x, e))
        return found;
    for (size_t i = 0; i < x->known.len && i < FIRST; i++)
        for (size_t j = i; j < x->known.len && j < FIRST && cfx_is_none(found); j++) {
            struct cfx__expr both = {.expr = cfx__sym_binary(CFX__SYM_MUL, x->known.data[i].expr,
                                                             x->known.data[j].expr)};
            if (value_of(x, both.expr, &both.seen))
                found = try_plane_with(x, e, &both, seen);
            if (cfx_is_none(found) && &x->known.data[i] == e && value_of(x, both.expr, &both.seen))
                found = try_line(x, &both, seen);
        }
    return found;
}

/* A third size added to two. */
static cfx_value try_space(const cfx__exprs *x, const struct cfx__expr *e, const cfx__seen *seen) {
    cfx__seen rest = {0};
    for (int k = 0; k < x->worlds->n; k++)
        if (__builtin_sub_overflow(seen->at[k], e->seen.at[k], &rest.at[k]))
            return cfx_none();
    for (size_t i = 0; i < x->known.len; i++) {
        cfx_value more = try_plane(x, &x->known.data[i], &rest);
        if (!cfx_is_none(more))
            return cfx__sym_binary(CFX__SYM_ADD, e->expr, more);
    }
    return cfx_none();
}

/* The product or sum of a piece and a quotient or remainder of another size. */
static cfx_value try_two_pieces(const cfx__exprs *x, const struct cfx__expr *piece,
                                const cfx__seen *seen) {
    cfx__seen times = {0}, rest = {0};
    bool divides = true, fits = true;
    for (int k = 0; k < x->worlds->n; k++) {
        divides = divides && piece->seen.at[k] > 0 && seen->at[k] % piece->seen.at[k] == 0;
        times.at[k] = divides ? seen->at[k] / piece->seen.at[k] : 0;
        fits &= !__builtin_sub_overflow(seen->at[k], piece->seen.at[k], &rest.at[k]);
    }
    for (size_t i = 0; i < x->known.len; i++) {
        const struct cfx__expr *f = &x->known.data[i];
        if (cfx_as_sym(f->expr)->op != CFX__SYM_NAME)
            continue;
        cfx_value v = divides ? try_part(x, f, &times) : cfx_none();
        if (!cfx_is_none(v))
            return cfx__sym_binary(CFX__SYM_MUL, piece->expr, v);
        v = fits ? try_remainder(x, f, &rest) : cfx_none();
        if (cfx_is_none(v) && fits)
            v = try_part(x, f, &rest);
        if (!cfx_is_none(v))
            return cfx__sym_binary(CFX__SYM_ADD, piece->expr, v);
    }
    return cfx_none();
}

/* A quotient or remainder of e, multiplied with a number, or with or added to something known. */
static cfx_value try_with_piece(const cfx__exprs *x, const struct cfx__expr *e, cfx__sym_op op,
                                int64_t past, int64_t by, const cfx__seen *seen) {
    struct cfx__expr piece = {
        .expr = cfx__sym_binary(op, cfx__sym_binary(CFX__SYM_ADD, e->expr, cfx_int(past)),
                                cfx_int(by))};
    if (!value_of(x, piece.expr, &piece.seen) || is_constant(x, &piece.seen) ||
        piece.expr.tag != CFX_TAG_SYM)
        return cfx_none();
    cfx_value v = try_line(x, &piece, seen);
    if (cfx_is_none(v))
        v = try_product(x, &piece, seen, 0);
    if (cfx_is_none(v))
        v = try_sum(x, &piece, seen);
    return cfx_is_none(v) && !past ? try_two_pieces(x, &piece, seen) : v;
}

static cfx_value try_pieces(const cfx__exprs *x, const struct cfx__expr *e, const cfx__seen *seen) {
    enum { LARGEST = 32, FIRST = 24 };
    if (e - x->known.data >= FIRST)
        return cfx_none();
    for (int64_t by = 2; by <= LARGEST; by++)
        for (int64_t past = 0; past < by; past++)
            for (int mod = 0; mod < 2; mod++) {
                size_t mark = cfx_scope_open();
                cfx_value v = try_with_piece(x, e, mod ? CFX__SYM_MOD : CFX__SYM_FLOORDIV, past,
                                             by, seen);
                bool found = !cfx_is_none(v) && cfx__exprs_proves(x, v, seen);
                v = cfx_scope_return_value(mark, found ? v : cfx_none());
                if (found)
                    return v;
            }
    return cfx_none();
}

typedef cfx_value try_fn(const cfx__exprs *x, const struct cfx__expr *e, const cfx__seen *seen);

static cfx_value try_whole(const cfx__exprs *x, const struct cfx__expr *e, const cfx__seen *seen) {
    return try_product(x, e, seen, 0);
}

/* What the first of them find is beyond doubt in a few worlds, what the others do in more. */
enum { SURE = 3 };

cfx_value cfx__exprs_fit(cfx__exprs *x, const cfx__seen *seen) {
    static try_fn *const tries[] = {try_whole, try_line,      try_sum,    try_part,
                                    try_bound, try_remainder, try_plane,  try_either,
                                    try_space, try_surface,   try_pieces};
    cfx_value found = cfx__exprs_known(x, seen);
    for (int t = 0; t < COUNT(tries); t++)
        for (size_t i = 0; i < x->known.len && cfx_is_none(found); i++) {
            cfx_value v = tries[t](x, &x->known.data[i], seen);
            if (!cfx_is_none(v) && cfx__exprs_proves(x, v, seen)) {
                found = v;
                x->guessed |= t >= SURE;
            }
        }
    return found;
}
