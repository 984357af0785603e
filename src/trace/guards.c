/* What a program asks of sizes that were to vary: it is tried at sizes around those of the example,
 * and what is found (a constant, bounds, two that are equal or related, a remainder) is told in
 * PyTorch's words. Sizes of Dim.AUTO give way instead. Start at cfx__guards_settle. */
#include "dims.h"

typedef struct cfx__dim_name name_t;

typedef struct {
    cfx__dims *dims;
    cfx__trial *trial;
    void *user;
} asking;

/* Whether it goes at this size of symbol i, the others being as in the example. */
static bool goes(const asking *a, size_t i, int64_t size, size_t j, int64_t other) {
    cfx__symbol *s = a->dims->worlds.symbols.data;
    for (size_t k = 0; k < a->dims->worlds.symbols.len; k++)
        s[k].size.at[CFX__TRIAL] = k == i   ? size
                                   : k == j ? other
                                            : s[k].size.at[0]; /* as in the example */
    return a->trial(a->user);
}

static bool goes_at(const asking *a, size_t i, int64_t size) {
    return goes(a, i, size, SIZE_MAX, 0);
}

static const name_t *name_of(const asking *a, size_t i) {
    const char *symbol = a->dims->worlds.symbols.data[i].name;
    for (size_t k = 0; k < a->dims->names.len; k++)
        if (!strcmp(a->dims->names.data[k].symbol, symbol))
            return &a->dims->names.data[k];
    return NULL;
}

static const char *source_of(const name_t *n) { return n->source ? n->source : n->name; }

/* ---- sentences ------------------------------------------------------------------------------- */

static void violated(const name_t *n, const char *sentence, const char *fix) {
    cfx__fail_lines(CFX_VALUE_ERROR, (cfx_site){0}, "Constraints violated (%s)!\n  - %s%s%s",
                    n->name, sentence, *fix ? "\nSuggested fixes:\n  " : "", fix);
}

/* " 2 <= B <= 64", " B <= 64" or nothing. */
static const char *range_text(const name_t *n) {
    const char *least =
        n->bounded[0] && n->least > 2 ? cfx__text_format("%lld <= ", (long long)n->least) : "";
    const char *most = n->bounded[1] ? cfx__text_format(" <= %lld", (long long)n->most) : "";
    return *least || *most ? cfx__text_format(" %s%s%s", least, n->name, most) : "";
}

static void not_all(const name_t *n, const char *guard, const char *fix) {
    violated(n,
             cfx__text_format("Not all values of %s = %s in the specified range%s satisfy the "
                              "generated guard %s",
                              n->name, source_of(n), range_text(n), guard),
             fix);
}

/* ---- what is found --------------------------------------------------------------------------- */

static void replace_symbol(cfx__dims *d, size_t i, cfx_value with) {
    const char *symbol = d->worlds.symbols.data[i].name;
    for (size_t k = 0; k < d->dims.len; k++) {
        cfx_value *e = &d->dims.data[k].expr;
        if (e->tag == CFX_TAG_SYM && cfx_as_sym(*e)->op == CFX__SYM_NAME &&
            !strcmp(cfx_as_sym(*e)->name, symbol)) {
            cfx_value_keep(with);
            cfx_value_drop(*e);
            *e = with;
        }
    }
    cfx__free(d->worlds.symbols.data[i].name);
    memmove(&d->worlds.symbols.data[i], &d->worlds.symbols.data[i + 1],
            (d->worlds.symbols.len - i - 1) * sizeof *d->worlds.symbols.data);
    d->worlds.symbols.len--;
}

static bool constant(const asking *a, size_t i) {
    const name_t *n = name_of(a, i);
    if (n->automatic) {
        replace_symbol(a->dims, i, cfx_int(n->hint));
        return true;
    }
    violated(
        n,
        cfx__text_format("You marked %s as dynamic but your code specialized it to be a constant "
                         "(%lld). If you're using mark_dynamic, either remove it or use "
                         "maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with "
                         "either Dim.STATIC or Dim.AUTO.",
                         n->name, (long long)n->hint),
        cfx__text_format("%s = %lld", n->name, (long long)n->hint));
    return false;
}

/* i is j, or a line of it. */
static bool related(const asking *a, size_t i, size_t j, int64_t scale, int64_t past) {
    const cfx__symbol *s = a->dims->worlds.symbols.data;
    const name_t *x = name_of(a, i), *y = name_of(a, j);
    if (scale == 1 && past == 0 && x->automatic && y->automatic) {
        bool first = strcmp(s[i].name, s[j].name) < 0; /* this name stays */
        size_t stays = first ? i : j;
        replace_symbol(a->dims, first ? j : i, cfx__sym_name(s[stays].name, true, s[stays].hint));
        return true;
    }
    if (scale == 1 && past == 0) {
        violated(y,
                 cfx__text_format("The values of %s = %s and %s = %s must always be equal.",
                                  y->name, source_of(y), x->name, source_of(x)),
                 cfx__text_format("%s = %s", y->name, x->name));
        return false;
    }
    cfx_value line =
        cfx__sym_binary(CFX__SYM_MUL, cfx_int(scale), cfx__sym_name(y->name, false, 0));
    const char *text = cfx_value_str(cfx__sym_binary(CFX__SYM_ADD, line, cfx_int(past)));
    violated(
        x,
        cfx__text_format("The values of %s = %s must always be related to the values of %s = %s "
                         "by %s = %s.",
                         x->name, source_of(x), y->name, source_of(y), x->name, text),
        cfx__text_format("%s = %s", x->name, text));
    return false;
}

static bool relation_or_constant(const asking *a, size_t i) {
    const cfx__symbol *s = a->dims->worlds.symbols.data;
    for (size_t j = 0; j < a->dims->worlds.symbols.len; j++) {
        int64_t mine = s[i].hint, other = s[j].hint, past = mine - other;
        if (j == i || !name_of(a, j))
            continue;
        if (goes(a, i, mine + 3, j, other + 3) && goes(a, i, mine + 5, j, other + 5))
            return related(a, i, j, 1, past);
        int64_t scale = other > 1 && mine % other == 0 ? mine / other : 0;
        if (scale > 1 && goes(a, i, scale * (other + 3), j, other + 3))
            return related(a, i, j, scale, 0);
    }
    return constant(a, i);
}

/* The last size that goes between one that does and one that does not. */
static int64_t edge(const asking *a, size_t i, int64_t good, int64_t bad) {
    while (bad - good > 1 || good - bad > 1) {
        int64_t middle = good + (bad - good) / 2;
        if (goes_at(a, i, middle))
            good = middle;
        else
            bad = middle;
    }
    return good;
}

static bool bounds(const asking *a, size_t i, int64_t least, int64_t most) {
    cfx__symbol *s = &a->dims->worlds.symbols.data[i];
    const name_t *n = name_of(a, i);
    if (n->automatic) {
        s->least = least;
        s->most = most;
        return true;
    }
    const char *top =
        most == INT64_MAX ? "IntInfinity()" : cfx__text_format("%lld", (long long)most);
    bool low = least > (s->least < 2 ? 2 : s->least) || n->bounded[0];
    const char *min = low ? cfx__text_format(", min=%lld", (long long)least) : "";
    const char *max = most < INT64_MAX ? cfx__text_format(", max=%lld", (long long)most) : "";
    not_all(n,
            cfx__text_format("%lld <= %s and %s <= %s", (long long)least, source_of(n),
                             source_of(n), top),
            cfx__text_format("%s = Dim('%s'%s%s)", n->name, n->name, min, max));
    return false;
}

/* Sizes that go have one remainder. */
static bool remainder_of(const asking *a, size_t i, bool *changed) {
    enum { LARGEST = 16 };
    const name_t *n = name_of(a, i);
    for (int64_t by = 2; by <= LARGEST; by++)
        if (goes_at(a, i, n->hint + by) && goes_at(a, i, n->hint + 2 * by)) {
            *changed = n->automatic && !a->dims->worlds.symbols.data[i].by;
            if (*changed)
                a->dims->worlds.symbols.data[i].by = by;
            else
                not_all(n,
                        cfx__text_format("(%s %% %lld) == %lld.", source_of(n), (long long)by,
                                         (long long)(n->hint % by)),
                        "");
            return true;
        }
    return false;
}

enum { AROUND = 3, FAR = 1 << 16 };

/* What is asked of one size; false where nothing is, or it was not found. */
static bool settle_one(const asking *a, size_t i, bool *changed) {
    const cfx__symbol *s = &a->dims->worlds.symbols.data[i];
    int64_t low = s->least < 2 ? 2 : s->least, high = s->most < FAR ? s->most : FAR;
    int tried = 0, good = 0;
    low = low < s->hint ? low : s->hint;
    high = high > s->hint ? high : s->hint;
    for (int64_t d = -AROUND; d <= AROUND; d++)
        if (d && s->hint + d >= low && s->hint + d <= high) {
            tried++;
            good += goes_at(a, i, s->hint + d);
        }
    bool bottom = goes_at(a, i, low), top = goes_at(a, i, high);
    if ((!tried || good == tried) && bottom && top)
        return false;
    bool alone = !goes_at(a, i, s->hint + 1) && !goes_at(a, i, s->hint - 1);
    if (alone && remainder_of(a, i, changed))
        return true;
    if (alone || !good) { /* what goes far from the example broadcasts by chance */
        *changed = relation_or_constant(a, i);
        return true;
    }
    int64_t least = bottom ? s->least : edge(a, i, s->hint, low);
    int64_t most = top ? s->most : edge(a, i, s->hint, high);
    if (bottom && top)
        return false;
    *changed = bounds(a, i, least, most);
    return true;
}

bool cfx__guards_settle(cfx__dims *d, cfx__trial *trial, void *user, const char *why) {
    asking a = {d, trial, user};
    bool changed = false;
    for (size_t i = 0; i < d->worlds.symbols.len; i++)
        if (name_of(&a, i) && settle_one(&a, i, &changed)) /* which is no matter of data */
            return changed;
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "the program is not the same at all sizes and numbers that may vary: %s", why);
    return false;
}
