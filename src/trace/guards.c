/* What becomes of what a program asks of its sizes (a constant, bounds, two that are equal or
 * related, a remainder): it is told in PyTorch's words. Sizes of Dim.AUTO give way instead, and
 * conditions on several sizes become guards of the program. Start at cfx__guards_grant. */
#include "probe.h"
#include "relations.h"

typedef struct cfx__dim_name name_t;
typedef cfx__probe asking;

/* Whether it goes at this size of symbol i, the others being as in the example. */
static bool goes(asking *a, size_t i, int64_t size, size_t j, int64_t other) {
    int64_t *sizes = cfx__alloc0((cfx__probe_count(a) + 1) * sizeof *sizes);
    cfx__probe_hints(a, sizes);
    sizes[i] = size;
    if (j < SIZE_MAX)
        sizes[j] = other;
    bool fine = cfx__probe_at(a, sizes);
    cfx__free(sizes);
    return fine;
}

static bool goes_at(asking *a, size_t i, int64_t size) { return goes(a, i, size, SIZE_MAX, 0); }

static name_t *name_of(const asking *a, size_t i) {
    const char *symbol = a->dims->worlds.symbols.data[i].name;
    name_t *found = NULL; /* what the caller calls it, if at all */
    for (size_t k = 0; k < a->dims->names.len; k++)
        if (!strcmp(a->dims->names.data[k].symbol, symbol) && (!found || found->automatic))
            found = &a->dims->names.data[k];
    return found;
}

static const char *source_of(const name_t *n) { return n->source ? n->source : n->name; }

/* ---- sentences ------------------------------------------------------------------------------- */

static char *copied(const char *text) { return text ? cfx__text_copy(text, strlen(text)) : NULL; }

/* It gives way all the same, so that all that does not hold is told at once. */
static void violated(const asking *a, const char *name, const char *sentence, const char *fix) {
    struct cfx__violation one = {copied(name), copied(sentence), copied(fix)};
    VEC_PUSH(a->dims->broken, one);
}

/* " 2 <= B <= 64", " B <= 64" or nothing. */
static const char *range_text(const name_t *n) {
    const char *least =
        n->bounded[0] && n->least > 2 ? cfx__text_format("%lld <= ", (long long)n->least) : "";
    const char *most = n->bounded[1] ? cfx__text_format(" <= %lld", (long long)n->most) : "";
    return *least || *most ? cfx__text_format(" %s%s%s", least, n->name, most) : "";
}

static const char *not_all(const name_t *n, const char *guard) {
    return cfx__text_format("Not all values of %s = %s in the specified range%s satisfy the "
                            "generated guard %s",
                            n->name, source_of(n), range_text(n), guard);
}

/* What is left of the range of a name. */
static const char *range_sentence(const cfx__dims *d, const name_t *n, const char **fix) {
    const cfx__symbol *s = cfx__worlds_find(&d->worlds, n->symbol);
    const int64_t least = s ? s->least : n->hint, most = s ? s->most : n->hint;
    const char *top =
        most == INT64_MAX ? "IntInfinity()" : cfx__text_format("%lld", (long long)most);
    const char *min = least > 2 ? cfx__text_format(", min=%lld", (long long)least) : "";
    const char *max = most < INT64_MAX ? cfx__text_format(", max=%lld", (long long)most) : "";
    *fix = cfx__text_format("%s = Dim('%s'%s%s)", n->name, n->name, min, max);
    const char *source = source_of(n);
    return not_all(n, cfx__text_format("%lld <= %s and %s <= %s",
                                       (long long)(least < 2 ? 2 : least), source, source, top));
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "m, n": each once, in order. */
static const char *names_of(const cfx__dims *d) {
    const char **all = cfx__alloc0((d->broken.len + 1) * sizeof *all);
    cfx__text out = {0};
    for (size_t i = 0; i < d->broken.len; i++)
        all[i] = d->broken.data[i].name;
    qsort(all, d->broken.len, sizeof *all, by_text);
    for (size_t i = 0; i < d->broken.len; i++)
        if (!i || strcmp(all[i], all[i - 1]))
            cfx__text_printf(&out, "%s%s", out.len ? ", " : "", all[i]);
    cfx__free(all);
    return cfx__text_take(&out);
}

bool cfx__guards_hold(const cfx__dims *d) {
    if (!d->broken.len)
        return true;
    size_t mark = cfx_scope_open();
    cfx__text sentences = {0}, fixes = {0};
    for (size_t i = 0; i < d->broken.len; i++) {
        const struct cfx__violation *one = &d->broken.data[i];
        const char *sentence = one->sentence, *fix = one->fix;
        for (size_t k = 0; k < d->names.len && !sentence; k++)
            if (!strcmp(d->names.data[k].name, one->name))
                sentence = range_sentence(d, &d->names.data[k], &fix);
        cfx__text_printf(&sentences, "\n  - %s", sentence);
        if (fix && *fix)
            cfx__text_printf(&fixes, "\n  %s", fix);
    }
    const char *advice = cfx__text_take(&fixes);
    cfx__fail_lines(CFX_VALUE_ERROR, (cfx_site){0}, "Constraints violated (%s)!%s%s%s", names_of(d),
                    cfx__text_take(&sentences), *advice ? "\nSuggested fixes:" : "", advice);
    cfx_scope_close(mark);
    return false;
}

/* ---- what is found --------------------------------------------------------------------------- */

/* An expression with another one for a symbol. */
static cfx_value substituted(const struct cfx_sym *e, const char *symbol, cfx_value with) {
    if (e->op == CFX__SYM_INT)
        return cfx_int(e->hint);
    if (e->op == CFX__SYM_NAME)
        return strcmp(e->name, symbol) ? cfx__sym_name(e->name, e->has_hint, e->hint) : with;
    cfx_value a = substituted(e->a, symbol, with);
    return cfx__sym_binary(e->op, a, substituted(e->b, symbol, with));
}

static void substitute(cfx_value *e, const char *symbol, cfx_value with) {
    if (e->tag != CFX_TAG_SYM)
        return;
    cfx_value now = cfx_value_keep(substituted(cfx_as_sym(*e), symbol, with));
    cfx_value_drop(*e);
    *e = now;
}

static void replace_symbol(cfx__dims *d, size_t i, cfx_value with) {
    const char *symbol = d->worlds.symbols.data[i].name;
    for (size_t k = 0; k < d->dims.len; k++)
        substitute(&d->dims.data[k].expr, symbol, with);
    for (size_t k = 0; k < d->worlds.conditions.len; k++) {
        substitute(&d->worlds.conditions.data[k].a, symbol, with);
        substitute(&d->worlds.conditions.data[k].b, symbol, with);
    }
    cfx__free(d->worlds.symbols.data[i].name);
    memmove(&d->worlds.symbols.data[i], &d->worlds.symbols.data[i + 1],
            (d->worlds.symbols.len - i - 1) * sizeof *d->worlds.symbols.data);
    d->worlds.symbols.len--;
    cfx__worlds_forget_extra(&d->worlds, true);
}

const char *cfx__dims_constant(const char *name, int64_t value) {
    return cfx__text_format(
        "You marked %s as dynamic but your code specialized it to be a constant (%lld). If you're "
        "using mark_dynamic, either remove it or use maybe_mark_dynamic. If you're using "
        "Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO.",
        name, (long long)value);
}

/* What is made of a name is constant with it: "n, n + 1". */
static bool constant(const asking *a, size_t i) {
    const name_t *n = name_of(a, i);
    const int64_t hint = n->hint;
    if (n->automatic && !n->varying) {
        replace_symbol(a->dims, i, cfx_int(hint));
        return true;
    }
    cfx__dims_forget_range(a->dims, n->name);
    cfx__text names = {0}, lines = {0};
    cfx__text_puts(&names, n->name);
    cfx__text_puts(&lines, cfx__dims_constant(n->name, n->hint));
    for (size_t k = 0; k < a->dims->dims.len; k++) {
        const struct cfx__dim *at = &a->dims->dims.data[k];
        const struct cfx_sym *e = cfx_as_sym(at->given);
        if (e->op == CFX__SYM_NAME || !cfx__relation_names(at->given, n->name))
            continue;
        cfx__text_printf(&names, ", %s", cfx_value_str(at->given));
        cfx__text_printf(&lines, "\n  - %s",
                         cfx__dims_constant(cfx_value_str(at->given), at->hint));
    }
    violated(a, cfx__text_take(&names), cfx__text_take(&lines),
             n->automatic ? "" : cfx__text_format("%s = %lld", n->name, (long long)hint));
    replace_symbol(a->dims, i, cfx_int(hint));
    return true;
}

/* Two symbols are one: the name that comes first stays, with what the caller says of either. */
static bool unite(const asking *a, size_t i, size_t j) {
    cfx__worlds *w = &a->dims->worlds;
    const name_t *x = name_of(a, i), *y = name_of(a, j);
    size_t stays = strcmp(w->symbols.data[i].name, w->symbols.data[j].name) < 0 ? i : j;
    cfx__symbol *s = &w->symbols.data[stays], *goes = &w->symbols.data[stays == i ? j : i];
    const name_t *named = x->automatic ? y : x, *later = i > j ? x : y;
    int64_t least = s->least > goes->least ? s->least : goes->least;
    s->least = least == 2 && !named->automatic && named == later ? named->least : least;
    s->most = s->most < goes->most ? s->most : goes->most;
    for (size_t k = 0; k < a->dims->names.len; k++) {
        name_t *n = &a->dims->names.data[k];
        if (strcmp(n->symbol, goes->name))
            continue;
        cfx__free(n->symbol);
        n->symbol = cfx__text_copy(s->name, strlen(s->name));
    }
    replace_symbol(a->dims, stays == i ? j : i, cfx__sym_name(s->name, true, s->hint));
    return true;
}

/* Another range of a symbol; false where it has it already. */
static bool narrow(const asking *a, size_t i, int64_t least, int64_t most) {
    cfx__symbol *s = &a->dims->worlds.symbols.data[i];
    name_t *n = name_of(a, i);
    if (least <= s->least && most >= s->most)
        return false;
    s->least = least > s->least ? least : s->least;
    s->most = most < s->most ? most : s->most;
    if (!n->automatic && !n->narrowed)
        violated(a, n->name, NULL, NULL);
    n->narrowed = true;
    return true;
}

/* i becomes a line of j, whose range follows from both. */
static bool derive(const asking *a, size_t i, size_t j, int64_t scale, int64_t past) {
    const cfx__symbol *x = &a->dims->worlds.symbols.data[i], *y = &a->dims->worlds.symbols.data[j];
    narrow(a, j, x->least > 2 ? (x->least - past + scale - 1) / scale : y->least,
           x->most < INT64_MAX ? (x->most - past) / scale : y->most);
    cfx_value line = cfx__sym_binary(CFX__SYM_MUL, cfx_int(scale),
                                     cfx__sym_name(y->name, true, y->hint));
    replace_symbol(a->dims, i, cfx__sym_binary(CFX__SYM_ADD, line, cfx_int(past)));
    return true;
}

/* i is j, or a line of it: the larger one of the smaller. */
static bool related(const asking *a, size_t i, size_t j, int64_t scale, int64_t past) {
    const name_t *x = name_of(a, i), *y = name_of(a, j);
    bool equal = scale == 1 && past == 0;
    if (scale == 1 && past < 0)
        return related(a, j, i, 1, -past);
    if (equal && (x->automatic || y->automatic))
        return unite(a, i, j);
    if (!equal && y->automatic)
        return derive(a, i, j, scale, past);
    if (equal) {
        violated(a, y->name,
                 cfx__text_format("The values of %s = %s and %s = %s must always be equal.",
                                  y->name, source_of(y), x->name, source_of(x)),
                 cfx__text_format("%s = %s", y->name, x->name));
        return unite(a, i, j);
    }
    cfx_value line =
        cfx__sym_binary(CFX__SYM_MUL, cfx_int(scale), cfx__sym_name(y->name, false, 0));
    const char *text = cfx_value_str(cfx__sym_binary(CFX__SYM_ADD, line, cfx_int(past)));
    violated(
        a, x->name,
        cfx__text_format("The values of %s = %s must always be related to the values of %s = %s "
                         "by %s = %s.",
                         x->name, source_of(x), y->name, source_of(y), x->name, text),
        cfx__text_format("%s = %s", x->name, text));
    return derive(a, i, j, scale, past);
}

/* i is made of several others. */
static bool made_of(const asking *a, size_t i, cfx_value of) {
    const name_t *n = name_of(a, i);
    if (!n->automatic)
        violated(a, n->name,
                 cfx__text_format("Not all values of %s = %s in the specified range%s are valid "
                                  "because %s was inferred to be equal to %s.",
                                  n->name, source_of(n), range_text(n), n->name,
                                  cfx__dims_sourced(a->dims, of)),
                 "");
    replace_symbol(a->dims, i, of);
    return true;
}

static bool bounds(const asking *a, size_t i, int64_t least, int64_t most) {
    narrow(a, i, least, most);
    return true;
}

/* "_B = Dim('_B', min=1, max=oo)\n  B = 8*_B - 5", what PyTorch suggests for a remainder of 3. */
static const char *root_text(const asking *a, size_t i, int64_t by, int64_t rest) {
    const cfx__symbol *s = &a->dims->worlds.symbols.data[i];
    const name_t *n = name_of(a, i);
    const int64_t past = rest ? by - rest : 0, low = s->least < 2 ? 2 : s->least;
    const int64_t least = (low + past + by - 1) / by;
    const char *min = least == 2 ? "" : cfx__text_format(" min=%lld,", (long long)least);
    const char *most = s->most == INT64_MAX
                           ? "oo"
                           : cfx__text_format("%lld", (long long)((s->most + past) / by));
    const char *less = past ? cfx__text_format(" - %lld", (long long)past) : "";
    return cfx__text_format("_%s = Dim('_%s',%s max=%s)\n  %s = %lld*_%s%s", n->name, n->name, min,
                            most, n->name, (long long)by, n->name, less);
}

static bool nothing(const char *why) {
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "the program is not the same at all sizes and numbers that may vary: %s", why);
    return false;
}

/* What is asked already does not explain why sizes differ at which it holds. */
static bool condition(const asking *a, const cfx__finding *f, const char *why) {
    cfx__worlds *w = &a->dims->worlds;
    for (size_t i = 0; i < w->conditions.len; i++) {
        const cfx__relation *r = &w->conditions.data[i];
        if (r->op == f->rel && cfx_equal_values(r->a, f->a) && cfx_equal_values(r->b, f->b))
            return nothing(why);
    }
    const name_t *n = f->i == SIZE_MAX ? NULL : name_of(a, f->i);
    const cfx__relation asked = {f->rel, f->a, f->b};
    if (n && !n->automatic) /* PyTorch tells of conditions on one size alone */
        violated(a, n->name, not_all(n, cfx__text_format("%s.", cfx__dims_guard(a->dims, &asked))),
                 f->by && f->rel == CFX__EQ ? root_text(a, f->i, f->by, cfx_integer(f->b)) : "");
    for (size_t i = 0; !n && i < w->symbols.len; i++) {
        int64_t least, most;
        if (name_of(a, i) && cfx__compared_range(a, &asked, i, &least, &most))
            narrow(a, i, least, most);
    }
    cfx__worlds_require(w, asked);
    if (n && f->by && f->rel == CFX__EQ)
        w->symbols.data[f->i].by = f->by;
    return true;
}

/* Whether it goes with the sizes that move all larger by as much. */
static bool go_together(asking *a, const bool *moves, int64_t by) {
    size_t n = cfx__probe_count(a);
    int64_t *sizes = cfx__alloc0((n + 1) * sizeof *sizes);
    cfx__probe_hints(a, sizes);
    for (size_t k = 0; k < n; k++)
        sizes[k] += moves[k] ? by : 0;
    bool fine = cfx__probe_at(a, sizes);
    cfx__free(sizes);
    return fine;
}

static const char *dimension(const name_t *n) {
    const char *source = source_of(n), *last = strrchr(source, '[');
    return last ? last : source;
}

/* Of the sizes that move with size i, one that it does not go without; SIZE_MAX where it goes
 * alone, or not at all. */
static size_t needed(asking *a, size_t i, bool *moves) {
    size_t found = SIZE_MAX;
    if (!go_together(a, moves, 3) || !go_together(a, moves, 5))
        return SIZE_MAX;
    for (size_t k = 0; k < cfx__probe_count(a); k++) {
        if (k == i || !moves[k])
            continue;
        moves[k] = false;
        if (go_together(a, moves, 3))
            continue;
        moves[k] = true;
        found = found == SIZE_MAX ? k : found;
    }
    return found;
}

/* One of several sizes that can only move with size i, all together: x + y + z. They are looked for
 * among those that are as large and of the same dimension, then as large, then of the dimension,
 * then among all that do not move alone. SIZE_MAX where there is none. */
static size_t companion(asking *a, size_t i) {
    const cfx__symbol *s = a->dims->worlds.symbols.data;
    size_t n = cfx__probe_count(a), found = SIZE_MAX;
    bool *pinned = cfx__alloc0((2 * n + 1) * sizeof *pinned), *moves = pinned + n;
    for (size_t k = 0; k < n; k++)
        pinned[k] = k == i || (name_of(a, k) && !goes_at(a, k, s[k].hint + 3));
    for (int way = 0; way < 4 && found == SIZE_MAX; way++) {
        for (size_t k = 0; k < n; k++)
            moves[k] = pinned[k] && (way > 1 || s[k].hint == s[i].hint) &&
                       (way % 2 || !strcmp(dimension(name_of(a, k)), dimension(name_of(a, i))));
        found = needed(a, i, moves);
    }
    cfx__free(pinned);
    return found;
}

/* ---- a size that is made of others ----------------------------------------------------------- */

/* Whether symbol x grows by `scale` where y grows by 1. */
static bool is_line(asking *a, size_t x, size_t y, int64_t scale) {
    const cfx__symbol *s = a->dims->worlds.symbols.data;
    return goes(a, x, s[x].hint + 3 * scale, y, s[y].hint + 3) &&
           goes(a, x, s[x].hint + 5 * scale, y, s[y].hint + 5);
}

/* Of two symbols the one that PyTorch says by the other: the larger, else the later name. */
static bool is_larger(const asking *a, size_t x, size_t y) {
    const cfx__symbol *s = a->dims->worlds.symbols.data;
    return s[x].hint != s[y].hint ? s[x].hint > s[y].hint : strcmp(s[x].name, s[y].name) > 0;
}

/* Whether the others leave symbol x one size: x[::2] + y has two for each y, x % y == 0 many. */
static bool follows(asking *a, size_t x) {
    const int64_t hint = a->dims->worlds.symbols.data[x].hint;
    return !goes_at(a, x, hint - 1) && !goes_at(a, x, hint + 1) && !goes_at(a, x, 2 * hint);
}

/* Whether symbol y is a quotient of x, which has `by` sizes for each of y: x[::2] + y. *least is
 * the smallest of those in the example. */
static bool is_quotient(asking *a, size_t x, size_t y, int64_t by, int64_t *least) {
    const cfx__symbol *s = a->dims->worlds.symbols.data;
    int64_t low = s[x].hint, high = low;
    while (high - low < by && goes_at(a, x, low - 1))
        low--;
    while (high - low < by && goes_at(a, x, high + 1))
        high++;
    *least = low;
    return high - low == by - 1 && goes(a, x, low + 3 * by, y, s[y].hint + 3) &&
           goes(a, x, high + 3 * by, y, s[y].hint + 3);
}

/* How much symbol x grows where y grows by 1: 2 in 2*y + 3. 0: it is no line of y. */
static int64_t slope_of(asking *a, size_t x, size_t y) {
    enum { STEEPEST = 8 };
    const cfx__symbol *s = a->dims->worlds.symbols.data;
    int64_t ratio = s[y].hint > 1 && s[x].hint % s[y].hint == 0 ? s[x].hint / s[y].hint : 0;
    if (ratio > 1 && is_line(a, x, y, ratio))
        return ratio;
    for (int64_t scale = 2; scale <= STEEPEST; scale++)
        if (scale != ratio && is_line(a, x, y, scale))
            return scale;
    return 0;
}

/* The power of symbol y that x grows with: 1 where both grow in proportion, 2 in y.view(x, x). 0:
 * x does not grow so. */
static int power_of(asking *a, size_t x, size_t y) {
    const cfx__symbol *s = a->dims->worlds.symbols.data;
    for (int power = 1; power <= 2; power++) {
        bool grows = true;
        for (int64_t k = 2; k <= 3 && grows; k++)
            grows = goes(a, x, (power == 1 ? k : k * k) * s[x].hint, y, k * s[y].hint);
        if (grows)
            return power;
    }
    return 0;
}

/* Whether it goes where symbol x is `scale` times the product of these powers of the others, which
 * are larger than in the example, each by another number. */
static bool is_product(asking *a, size_t x, const int *powers, int64_t scale, int64_t by) {
    size_t n = cfx__probe_count(a);
    int64_t *sizes = cfx__alloc0((n + 1) * sizeof *sizes), product = scale;
    cfx__probe_hints(a, sizes);
    for (size_t k = 0; k < n; k++) {
        sizes[k] += powers[k] ? by++ : 0;
        for (int times = 0; times < powers[k]; times++)
            product *= sizes[k];
    }
    sizes[x] = product;
    bool fine = cfx__probe_at(a, sizes);
    cfx__free(sizes);
    return fine;
}

static cfx_value product_text(const asking *a, const int *powers, int64_t scale) {
    const cfx__symbol *s = a->dims->worlds.symbols.data;
    cfx_value of = cfx_int(scale);
    for (size_t k = 0; k < cfx__probe_count(a); k++)
        for (int times = 0; times < powers[k]; times++)
            of = cfx__sym_binary(CFX__SYM_MUL, of, cfx__sym_name(s[k].name, true, s[k].hint));
    return of;
}

/* Symbol i, or a larger one that grows with it, is a product of others: x of x.view(n, 2 * m). True
 * where it is; *fine is false then where that was refused, with an error. */
static bool product_of_others(asking *a, size_t i, bool *fine) {
    size_t n = cfx__probe_count(a), x = i;
    const cfx__symbol *s = a->dims->worlds.symbols.data;
    int *powers = cfx__alloc0((n + 1) * sizeof *powers), sum = 0;
    int64_t product = 1;
    for (size_t k = 0; k < n; k++)
        if (k != i && name_of(a, k) && is_larger(a, k, x) && power_of(a, k, i))
            x = k;
    for (size_t k = 0; k < n && follows(a, x); k++) {
        if (k == x || !name_of(a, k) || s[k].hint < 2 || !is_larger(a, x, k))
            continue;
        powers[k] = power_of(a, x, k);
        for (int times = 0; times < powers[k] && product <= s[x].hint; times++, sum++)
            product *= s[k].hint;
    }
    int64_t scale = s[x].hint / product;
    bool found = sum > 1 && scale * product == s[x].hint && !powers[i] == (x == i) &&
                 is_product(a, x, powers, scale, 1) && is_product(a, x, powers, scale, 3);
    if (found)
        *fine = made_of(a, x, product_text(a, powers, scale));
    cfx__free(powers);
    return found;
}

static bool relation_or_constant(asking *a, size_t i, const char *why) {
    const cfx__symbol *s = a->dims->worlds.symbols.data;
    size_t n = a->dims->worlds.symbols.len;
    bool fine = false;
    for (size_t j = 0; j < n; j++)
        if (j != i && name_of(a, j) && is_line(a, i, j, 1))
            return related(a, i, j, 1, s[i].hint - s[j].hint);
    if (product_of_others(a, i, &fine))
        return fine;
    for (size_t j = 0; j < n; j++) {
        if (j == i || !name_of(a, j))
            continue;
        size_t x = is_larger(a, i, j) ? i : j, y = x == i ? j : i;
        int64_t scale = slope_of(a, x, y), least = 0;
        if (scale && follows(a, x))
            return related(a, x, y, scale, s[x].hint - scale * s[y].hint);
        if (scale && is_quotient(a, x, y, scale, &least)) {
            cfx_value of = cfx__sym_binary(CFX__SYM_ADD, cfx__sym_name(s[x].name, true, s[x].hint),
                                           cfx_int(scale * s[y].hint - least));
            return made_of(a, y, cfx__sym_binary(CFX__SYM_FLOORDIV, of, cfx_int(scale)));
        }
    }
    size_t j = n > 2 ? companion(a, i) : SIZE_MAX;
    if (j < SIZE_MAX)
        return related(a, i, j, 1, s[i].hint - s[j].hint);
    cfx__finding f = cfx__probe_pinned(a, i);
    return f.kind == CFX__FOUND_CONSTANT ? constant(a, i) : condition(a, &f, why);
}

/* Another size of Dim.AUTO that is as large, where both may be `past` larger together though the
 * one alone may not: they are one, as in y.reshape(x.shape[0], -1), which divides y at a few sizes
 * of x alone. SIZE_MAX: there is none. */
static size_t equal_to(asking *a, size_t i, int64_t past) {
    const cfx__symbol *s = a->dims->worlds.symbols.data;
    const int64_t hint = s[i].hint;
    for (size_t j = 0; j < cfx__probe_count(a) && name_of(a, i)->automatic; j++)
        if (j != i && s[j].hint == hint && name_of(a, j) && name_of(a, j)->automatic &&
            goes(a, i, hint + past, j, hint + past) &&
            goes(a, i, hint + past + 3, j, hint + past + 3))
            return j;
    return SIZE_MAX;
}

/* Bounds or a remainder of one size may only be what another one leaves it. */
static bool bounds_or_equal(asking *a, const cfx__finding *f, const char *why) {
    const bool one = f->i < SIZE_MAX, rest = f->by && f->rel == CFX__EQ,
               to = f->kind == CFX__FOUND_BOUNDS;
    const int64_t hint = one ? a->dims->worlds.symbols.data[f->i].hint : 0;
    const int64_t past = to && f->most < INT64_MAX ? f->most - hint + 1 : rest ? f->by + 1 : 0;
    const size_t j = one && past ? equal_to(a, f->i, past) : SIZE_MAX;
    return j < SIZE_MAX ? related(a, f->i, j, 1, 0)
           : to         ? bounds(a, f->i, f->least, f->most)
                        : condition(a, f, why);
}

/* No expression says that a size is a power of two: Dim.AUTO is a constant then. */
static bool power_of_two(asking *a, const cfx__finding *f) {
    const name_t *n = name_of(a, f->i);
    const char *source = source_of(n);
    if (!n->automatic)
        violated(a, n->name,
                 not_all(n, cfx__text_format("(%s & (%s - 1)) %s 0.", source, source,
                                             f->rel == CFX__EQ ? "==" : "!=")),
                 "");
    if (n->automatic)
        return constant(a, f->i);
    replace_symbol(a->dims, f->i, cfx_int(n->hint));
    return true;
}

bool cfx__guards_settle(cfx__probe *p, bool *again, int64_t *step) {
    int64_t *sizes = cfx__alloc0((cfx__probe_count(p) + 1) * sizeof *sizes);
    bool fine = true;
    *step = 1;
    for (size_t i = 0; i < cfx__probe_count(p) && fine && !*again; i++) {
        const cfx__symbol *s = &p->dims->worlds.symbols.data[i];
        int64_t hint = s->size.at[0];
        bool below = hint > cfx__symbol_smallest(s), above = hint < s->most;
        if ((!below && !above) || (below && goes_at(p, i, hint - 1)) ||
            (above && goes_at(p, i, hint + 1)))
            continue;
        cfx__probe_hints(p, sizes);
        sizes[i] += above ? 1 : -1;
        cfx__finding f = cfx__probe_explain_one(p, i, sizes[i]);
        if (f.by)
            *step = f.by;
        else
            fine = *again = cfx__guards_grant(p, &f, "");
    }
    cfx__free(sizes);
    return fine;
}

bool cfx__guards_grant(cfx__probe *p, const cfx__finding *f, const char *why) {
    switch (f->kind) {
    case CFX__FOUND_CONSTANT: return relation_or_constant(p, f->i, why);
    case CFX__FOUND_BOUNDS:
    case CFX__FOUND_CONDITION: return bounds_or_equal(p, f, why);
    case CFX__FOUND_POWER: return power_of_two(p, f);
    case CFX__FOUND_NOTHING: break;
    }
    return nothing(why);
}
