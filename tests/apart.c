/* How far two values are apart, and how far rounding alone would bring them: see agree.h. What
 * rounding does is measured, element by element, by runs in which the last digits of each call's
 * result are changed. Start at apart_excess. */
#include "agree.h"

#include <cfx/ops.h>

#include <math.h>

/* SUMS: what long sums lose is no part of how interpreted runs are disturbed. */
enum { FIRST_TURNS = 8, ALL_TURNS = 64, TIMES = 4, SUMS = 10 };

double agree_allowed(cfx_dtype dtype) {
    switch (dtype) {
    case CFX_F64: return 1e-12;
    case CFX_F32: return 2e-6;
    case CFX_F16: return 1e-3;
    case CFX_BF16: return 8e-3;
    default: return 0;
    }
}

/* A few of the least numbers that a dtype has. */
static double least(cfx_dtype dtype) {
    switch (dtype) {
    case CFX_F64: return 2e-323;
    case CFX_F32: return 1e-44;
    case CFX_F16: return 3e-7;
    case CFX_BF16: return 4e-40;
    default: return 0;
    }
}

const char *apart_kind(cfx_value a, cfx_value b) {
    if (a.tag != b.tag)
        return "is something else";
    if (a.tag != CFX_TAG_TENSOR)
        return cfx_equal_values(a, b) ? "" : "is something else";
    const cfx_tensor *x = cfx_as_tensor(a), *y = cfx_as_tensor(b);
    return x->dtype != y->dtype            ? "has another dtype"
           : !cfx__tensor_same_shape(x, y) ? "has another shape"
                                           : "";
}

static bool is_complex(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR && cfx__dtype_is_complex((cfx_dtype)cfx_as_tensor(v)->dtype);
}

static cfx_value as_real(cfx_value v) {
    return is_complex(v) ? cfx_tensor_value(cfx_view_as_real(v)) : v;
}

bool apart_none(cfx_value a, cfx_value b) {
    return cfx_is_true(cfx_all(cfx_isclose(as_real(a), as_real(b), 0, 0, true)));
}

/* Complex numbers that are not finite have many forms, which products turn into each other: a
 * product by 1 makes inf + 0j inf + nanj. Decompositions multiply where an operator does not, in
 * PyTorch as here, so such a number is NaN in both its parts there. */
cfx_value apart_one_form(cfx_value v) {
    if (!is_complex(v))
        return v;
    return cfx_tensor_value(cfx_where(cfx_isfinite(v), v, cfx_complex_value(NAN, NAN)));
}

/* Infinite where one is finite and the other is not, and where integers differ. */
static double distance(const cfx_tensor *x, const cfx_tensor *y, int64_t i) {
    const double u = cfx_tensor_get(x, i), v = cfx_tensor_get(y, i);
    if (u == v || (u != u && v != v))
        return 0;
    if (!isfinite(u) || !isfinite(v) || !cfx__dtype_is_float((cfx_dtype)y->dtype))
        return INFINITY;
    return fabs(u - v);
}

static double largest(const cfx_tensor *t) {
    double most = 0;
    for (int64_t i = 0; i < t->numel; i++) {
        const double x = fabs(cfx_tensor_get(t, i));
        most = isfinite(x) && x > most ? x : most;
    }
    return most;
}

/* ---- what rounding does ---------------------------------------------------------------------- */

/* A distance of 0 for each element of a tensor; None of what is no tensor. */
static cfx_value no_spread(cfx_value of) {
    of = as_real(of);
    return of.tag != CFX_TAG_TENSOR
               ? cfx_none()
               : cfx_tensor_value(cfx_zeros(cfx_list(cfx_as_tensor(of)->numel),
                                            CFX_KW(dtype, cfx_dtype_value(CFX_F64))));
}

/* For each element the largest distance so far, with one more run's; infinite where that gave
 * something of another kind. */
static void widen(cfx_value most, cfx_value now, cfx_value first) {
    now = as_real(now), first = as_real(first);
    const bool known = !*apart_kind(now, first);
    for (int64_t i = 0; most.tag == CFX_TAG_TENSOR && i < cfx_as_tensor(most)->numel; i++) {
        const double d = known ? distance(cfx_as_tensor(now), cfx_as_tensor(first), i) : INFINITY;
        if (d > cfx_tensor_get(cfx_as_tensor(most), i))
            cfx__tensor_set(cfx_as_tensor(most), i, cfx_float(d));
    }
}

/* Mixed (splitmix64): of seeds at equal distances the k-th numbers are at equal distances too, so
 * that one element could get the same in every turn. */
static uint64_t noise_of(int turn) {
    uint64_t x = (uint64_t)(turn + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* After `turns` eager runs, for leaf i; one that gave nothing says nothing. */
static cfx_value spread_of(subject *s, int64_t i, bool each, int turns) {
    apart_spread *p = &s->spread[each];
    const int64_t n = s->first.leaves->len;
    if (!p->most)
        p->most = cfx_as_list(cfx_list_value(0, NULL));
    while (p->most->len < n)
        cfx_list_append(p->most, no_spread(s->first.leaves->items[p->most->len]));
    for (; p->turns < turns; p->turns++) {
        const outcome o = eager_run(s->drawn, noise_of(p->turns), each);
        for (int64_t k = 0; o.ran && k < n; k++)
            widen(p->most->items[k], o.leaves->items[k], s->first.leaves->items[k]);
    }
    return p->most->items[i];
}

bool apart_may_refuse(const subject *s) {
    for (int turn = 0; turn < FIRST_TURNS; turn++)
        if (!eager_run(s->drawn, noise_of(turn), false).ran)
            return true;
    return false;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* What element i of t is held against: itself, or the number that it is a part of. */
static double size_of(const cfx_tensor *t, int64_t i, bool pairs) {
    const double x = cfx_tensor_get(t, i);
    return pairs ? hypot(x, cfx_tensor_get(t, i ^ 1)) : fabs(x);
}

/* The largest distance of those that neither `part` of the number (`each`) or of the largest, nor
 * rounding, explains; 0: none. */
static double beyond(const cfx_tensor *got, const cfx_tensor *want, double part, bool each,
                     bool pairs, cfx_value spread) {
    const cfx_tensor *by = cfx_is_none(spread) ? NULL : cfx_as_tensor(spread);
    const double all = each ? 0 : largest(want), few = least((cfx_dtype)want->dtype);
    double most = 0;
    for (int64_t i = 0; i < want->numel; i++) {
        const double d = distance(got, want, i);
        if (d <= most || d <= few)
            continue;
        const double of = each ? size_of(want, i, pairs) : all;
        if (d > part * of && !(by && d <= TIMES * cfx_tensor_get(by, i)))
            most = d;
    }
    return most;
}

double apart_excess(subject *s, int64_t i, cfx_value got, cfx_value want, bool each) {
    if (want.tag != CFX_TAG_TENSOR)
        return 0;
    const bool pairs = is_complex(want);
    want = as_real(want), got = as_real(got);
    const cfx_tensor *x = cfx_as_tensor(got), *y = cfx_as_tensor(want);
    const double own = agree_allowed((cfx_dtype)y->dtype);
    const double part = s->coarse > own ? s->coarse : own;
    double d = beyond(x, y, part, each, pairs, cfx_none());
    for (int turns = FIRST_TURNS; d > 0 && turns <= ALL_TURNS; turns *= 2)
        d = beyond(x, y, part, each, pairs, spread_of(s, i, each, turns));
    return d;
}

double apart_excess_in(cfx_value got, cfx_value want, apart_again *again, void *of) {
    if (want.tag != CFX_TAG_TENSOR)
        return 0;
    want = as_real(want), got = as_real(got);
    const cfx_tensor *x = cfx_as_tensor(got), *y = cfx_as_tensor(want);
    const double part = SUMS * agree_allowed((cfx_dtype)y->dtype);
    cfx_value most = no_spread(want);
    double d = beyond(x, y, part, false, false, cfx_none());
    for (int turn = 0; d > 0 && turn < ALL_TURNS; turn++) {
        const cfx_value now = again(of, noise_of(turn));
        if (!cfx_is_none(now))
            widen(most, now, want);
        d = turn + 1 < FIRST_TURNS ? d : beyond(x, y, part, false, false, most);
    }
    return d;
}
