/* Which sizes may vary: the caller's names become symbols, numbered as PyTorch does. */
#include "dims.h"

typedef struct cfx__dim dim_t;
typedef struct cfx__dim_name name_t;

void cfx__dims_free(cfx__dims *d) {
    for (size_t i = 0; i < d->dims.len; i++) {
        cfx__free(d->dims.data[i].source);
        cfx_value_drop(d->dims.data[i].given);
        cfx_value_drop(d->dims.data[i].expr);
    }
    for (size_t i = 0; i < d->names.len; i++) {
        cfx__free(d->names.data[i].name);
        cfx__free(d->names.data[i].symbol);
        cfx__free(d->names.data[i].source);
    }
    for (size_t i = 0; i < d->broken.len; i++) {
        cfx__free(d->broken.data[i].name);
        cfx__free(d->broken.data[i].sentence);
        cfx__free(d->broken.data[i].fix);
    }
    VEC_FREE(d->broken);
    VEC_FREE(d->dims);
    VEC_FREE(d->names);
    cfx__worlds_free(&d->worlds);
}

void cfx__dims_forget_range(cfx__dims *d, const char *name) {
    for (size_t i = d->broken.len; i-- > 0;) {
        struct cfx__violation *one = &d->broken.data[i];
        if (one->sentence || strcmp(one->name, name))
            continue;
        cfx__free(one->name);
        memmove(one, one + 1, (--d->broken.len - i) * sizeof *one);
    }
}

static name_t *find_name(const cfx__dims *d, const char *name) {
    for (size_t i = 0; i < d->names.len; i++)
        if (!strcmp(d->names.data[i].name, name))
            return &d->names.data[i];
    return NULL;
}

static name_t *add_name(cfx__dims *d, const char *name) {
    if (!find_name(d, name)) {
        name_t n = {.name = cfx__text_copy(name, strlen(name)), .most = INT64_MAX};
        VEC_PUSH(d->names, n);
    }
    return find_name(d, name);
}

static bool is_varying(const char *text) { return !strcmp(text, "Dim.DYNAMIC"); }

static bool is_automatic(const char *text) {
    return !strcmp(text, "Dim.AUTO") || is_varying(text);
}

/* ---- what the caller says -------------------------------------------------------------------- */

static void bad_dim(cfx_value given) {
    cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
             "a size that may vary is given as a name, (name, least, most), an expression of a "
             "name such as \"2*n\", \"Dim.AUTO\" or \"Dim.DYNAMIC\", not %s",
             given.tag == CFX_TAG_STR ? cfx_value_repr(given) : cfx_value_type_name(given));
}

/* "Dim('n', min=2, max=8)". */
static const char *dim_text(const char *name, int64_t least, int64_t most) {
    const char *min = least == 2 ? "" : cfx__text_format(", min=%lld", (long long)least),
               *max = most == INT64_MAX ? "" : cfx__text_format(", max=%lld", (long long)most);
    return cfx__text_format("Dim('%s'%s%s)", name, min, max);
}

static int64_t bound_at(cfx_value given, int64_t i, int64_t other) {
    cfx_value v = i < cfx_as_list(given)->len ? cfx_as_list(given)->items[i] : cfx_none();
    return v.tag == CFX_TAG_INT ? cfx_integer(v) : other;
}

/* The bounds that come with a name: the same ones each time that some do. */
static void note_bounds(name_t *n, cfx_value given) {
    int64_t least = bound_at(given, 1, 0), most = bound_at(given, 2, INT64_MAX);
    bool said = n->bounded[0] || n->bounded[1];
    if (said && (least != n->least || most != n->most)) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "Found different definitions %s and %s for the same symbolic dimension %s!",
                 dim_text(n->name, n->least, n->most), dim_text(n->name, least, most), n->name);
        return;
    }
    n->bounded[0] = bound_at(given, 1, -1) >= 0;
    n->bounded[1] = most < INT64_MAX;
    n->least = least;
    n->most = most;
}

/* A size that is a number is just that. */
static void check_static(const char *source, int64_t size, int64_t given) {
    if (size != given)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "Static shape constraint of %lld does not match input size of %lld, for %s",
                 (long long)given, (long long)size, source);
}

/* A size of 0 or 1 does not vary, whatever is said of it. */
static void fail_hint(const char *source, int dim, int64_t size, cfx_value given) {
    cfx_value least = given.tag == CFX_TAG_TUPLE ? cfx_at(given, 1) : cfx_none();
    cfx_value most = given.tag == CFX_TAG_TUPLE ? cfx_at(given, 2) : cfx_none();
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "Found the following conflicts between user-specified ranges and inferred ranges from "
             "model tracing:\n- Received user-specified dim hint Dim.DYNAMIC(min=%s, max=%s), but "
             "export 0/1 specialized due to hint of %lld for dimension inputs%s.shape[%d].",
             cfx_value_str(least), cfx_value_str(most), (long long)size, source + 1, dim);
}

static void fail_constant(const char *name, int64_t size) {
    cfx__fail_lines(CFX_VALUE_ERROR, (cfx_site){0},
                    "Constraints violated (%s)!\n  - %s\nSuggested fixes:\n  %s = %lld", name,
                    cfx__dims_constant(name, size), name, (long long)size);
}

static void note_names(cfx__dims *d, const struct cfx_sym *e) {
    if (!e)
        return;
    if (e->op == CFX__SYM_NAME)
        add_name(d, e->name);
    note_names(d, e->a);
    note_names(d, e->b);
}

/* The name that an expression is of; NULL where there are several. */
static const char *only_name(const struct cfx_sym *e) {
    if (e->op == CFX__SYM_NAME || e->op == CFX__SYM_INT)
        return e->op == CFX__SYM_NAME ? e->name : NULL;
    const char *a = only_name(e->a), *b = only_name(e->b);
    return !a ? b : !b || !strcmp(a, b) ? a : NULL;
}

static const char *full_source(const char *source, int dim) {
    return dim == CFX__NO_DIM ? source : cfx__text_format("%s.size()[%d]", source, dim);
}

void cfx__dims_note(cfx__dims *d, const char *source, int dim, int64_t size, cfx_value given) {
    cfx_value text = given.tag == CFX_TAG_TUPLE ? cfx_at(given, 0) : given, expr;
    const char *name = cfx_text(text), *rest, *full = full_source(source, dim);
    if (given.tag == CFX_TAG_INT)
        check_static(full, size, cfx_integer(given));
    if (given.tag == CFX_TAG_INT || (name && !strcmp(name, "Dim.STATIC")))
        return;
    if (!cfx_ok() || !name) {
        bad_dim(given);
        return;
    }
    if (is_automatic(name)) {
        if (size < 2 && dim != CFX__NO_DIM) { /* 0 and 1 are sizes of their own kind */
            if (is_varying(name))
                fail_hint(source, dim, size, given);
            return;
        }
        name_t *n = add_name(d, full);
        n->automatic = true;
        n->varying = is_varying(name);
        n->least = dim == CFX__NO_DIM ? INT64_MIN + 1 : 2;
        expr = cfx__sym_name(full, false, 0);
    } else if (!cfx__sym_parse(name, name + strlen(name), &rest, &expr) || *rest ||
               expr.tag != CFX_TAG_SYM) {
        bad_dim(text);
        return;
    } else if (size < 2) {
        fail_constant(cfx_value_str(expr), size);
        return;
    }
    note_names(d, cfx_as_sym(expr));
    const char *only = only_name(cfx_as_sym(expr));
    name_t *n = only ? find_name(d, only) : NULL;
    if (n && given.tag == CFX_TAG_TUPLE)
        note_bounds(n, given);
    if (n && cfx_as_sym(expr)->op == CFX__SYM_NAME && !n->source) {
        n->source = cfx__text_copy(full, strlen(full));
        n->hint = size;
    }
    dim_t one = {cfx__text_copy(full, strlen(full)), cfx_value_keep(expr), size, cfx_none()};
    VEC_PUSH(d->dims, one);
}

/* ---- symbols --------------------------------------------------------------------------------- */

static bool is_symbol(const cfx__dims *d, const char *symbol) {
    for (size_t i = 0; i < d->names.len; i++)
        if (d->names.data[i].symbol && !strcmp(d->names.data[i].symbol, symbol))
            return true;
    return false;
}

static const char *number_of(const cfx__dims *d, const char *source) {
    int number = cfx__symbol_number(source);
    const char *symbol;
    do
        symbol = cfx__text_format("s%d", number++);
    while (is_symbol(d, symbol));
    return symbol;
}

/* Of several sizes that are one, the symbol that comes first by name; of none, one that is called
 * after the name itself. */
static void settle_symbol(const cfx__dims *d, name_t *n) {
    const char *best = NULL;
    for (size_t i = 0; i < d->dims.len; i++) {
        const struct cfx_sym *e = cfx_as_sym(d->dims.data[i].given);
        if (e->op != CFX__SYM_NAME || strcmp(e->name, n->name))
            continue;
        const char *symbol = number_of(d, d->dims.data[i].source);
        if (!best || strcmp(symbol, best) < 0)
            best = symbol;
    }
    best = best ? best : number_of(d, n->name);
    n->symbol = cfx__text_copy(best, strlen(best));
}

typedef struct {
    const cfx__dims *dims;
    int64_t all; /* what every name is, where it is not its hint */
    bool hints;
} guess;

static bool size_of(const struct cfx_sym *name, void *user, int64_t *out) {
    const guess *g = user;
    const name_t *n = find_name(g->dims, name->name);
    *out = g->hints && n ? n->hint : g->all;
    return true;
}

static bool has_name(const struct cfx_sym *e, const char *name) {
    return e && (e->op == CFX__SYM_NAME ? !strcmp(e->name, name)
                                        : has_name(e->a, name) || has_name(e->b, name));
}

/* A name that no size is alone: from the first size that is a line of it. */
static void settle_hint(const cfx__dims *d, name_t *n) {
    for (size_t i = 0; i < d->dims.len && !n->source && !n->hint; i++) {
        const dim_t *at = &d->dims.data[i];
        int64_t zero, one;
        if (has_name(cfx_as_sym(at->given), n->name) &&
            cfx__sym_eval(cfx_as_sym(at->given), size_of, &(guess){d, 0, false}, &zero) &&
            cfx__sym_eval(cfx_as_sym(at->given), size_of, &(guess){d, 1, false}, &one) &&
            one > zero)
            n->hint = (at->hint - zero) / (one - zero);
    }
}

/* The expression with symbols for names. */
static cfx_value renamed(const cfx__dims *d, struct cfx_sym *e) {
    if (e->op == CFX__SYM_INT)
        return cfx_int(e->hint);
    if (e->op == CFX__SYM_NAME) {
        const name_t *n = find_name(d, e->name);
        return cfx__sym_name(n->symbol, true, n->hint);
    }
    cfx_value a = renamed(d, e->a);
    return cfx__sym_binary(e->op, a, renamed(d, e->b));
}

static bool check_name(const name_t *n) {
    int64_t least = n->least < 2 && !n->automatic ? 2 : n->least;
    if (n->hint < n->least || n->hint > n->most) {
        const char *most =
            n->most == INT64_MAX ? "int_oo" : cfx__text_format("%lld", (long long)n->most);
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%lld not in range [%lld, %s]", (long long)n->hint,
                 (long long)least, most);
    }
    return cfx_ok();
}

/* A name that no size is alone: the first size that is made of it says what it is. */
static bool check_form(const cfx__dims *d, const name_t *n) {
    for (size_t i = 0; i < d->dims.len && !n->source; i++) {
        const dim_t *at = &d->dims.data[i];
        const char *number = strrchr(at->source, '['), *only = only_name(cfx_as_sym(at->given));
        int64_t size;
        if (!only || strcmp(only, n->name))
            continue;
        if (cfx__sym_eval(cfx_as_sym(at->given), size_of, &(guess){d, 0, true}, &size) &&
            size == at->hint)
            return true;
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "Expected shape%s = %lld of input Tensor to be of the form %s, where %s is an "
                 "integer",
                 number, (long long)at->hint, cfx_value_str(at->given), n->name);
        return false;
    }
    return true;
}

static void does_not_fit(const cfx__dims *d, const dim_t *at) {
    const struct cfx_sym *e = cfx_as_sym(at->given);
    const char *only = only_name(e);
    const name_t *n = only ? find_name(d, only) : NULL;
    if (n && e->op == CFX__SYM_NAME)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%s = %lld is not equal to %s = %lld", at->source,
                 (long long)at->hint, n->source, (long long)n->hint);
    else
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "Expected input %s to be equal to %s, where %s = %lld, but got %lld", at->source,
                 cfx_value_str(at->given), n ? n->name : "it", (long long)(n ? n->hint : at->hint),
                 (long long)at->hint);
}

bool cfx__dims_settle(cfx__dims *d) {
    for (size_t i = 0; i < d->names.len && cfx_ok(); i++) {
        name_t *n = &d->names.data[i];
        settle_symbol(d, n);
        settle_hint(d, n);
        if (check_form(d, n) && check_name(n)) {
            cfx__worlds_add(&d->worlds, n->symbol, n->least, n->most, n->hint);
            cfx__worlds_find(&d->worlds, n->symbol)->any = n->least == INT64_MIN + 1;
        }
    }
    for (size_t i = 0; i < d->dims.len && cfx_ok(); i++) {
        dim_t *at = &d->dims.data[i];
        int64_t size;
        bool fits = cfx__sym_eval(cfx_as_sym(at->given), size_of, &(guess){d, 0, true}, &size) &&
                    size == at->hint;
        if (fits)
            at->expr = cfx_value_keep(renamed(d, cfx_as_sym(at->given)));
        else
            does_not_fit(d, at);
    }
    return cfx_ok();
}

cfx_value cfx__dims_find(const cfx__dims *d, const char *source, int dim) {
    const char *full = full_source(source, dim);
    for (size_t i = 0; i < d->dims.len; i++)
        if (!strcmp(d->dims.data[i].source, full))
            return d->dims.data[i].expr;
    return cfx_none();
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static cfx_value limit(int64_t n) {
    return n == INT64_MAX || n == INT64_MIN + 1 ? cfx_none() : cfx_int(n);
}

static bool bound_of(const struct cfx_sym *name, void *user, int64_t *out) {
    const guess *g = user;
    const cfx__symbol *s = cfx__worlds_find(&g->dims->worlds, name->name);
    *out = g->hints ? s->most : s->least;
    return *out != INT64_MAX;
}

/* Those of data; those of the sizes, in their order; then those of symbols that no size is, last
 * first. */
cfx_dict *cfx__dims_ranges(const cfx__dims *d) {
    cfx_dict *ranges = cfx_dict_new();
    for (size_t i = 0; i < d->worlds.symbols.len; i++) {
        const cfx__symbol *s = &d->worlds.symbols.data[i];
        if (*s->name == 'u' || *s->name == 'z')
            cfx_dict_set(ranges, s->name,
                         cfx_tuple(limit(s->least), limit(cfx__symbol_largest(s))));
    }
    for (size_t i = 0; i < d->dims.len; i++) {
        cfx_value e = d->dims.data[i].expr;
        int64_t least = 0, most = INT64_MAX;
        if (e.tag != CFX_TAG_SYM)
            continue;
        cfx__sym_eval(cfx_as_sym(e), bound_of, &(guess){d, 0, false}, &least);
        if (!cfx__sym_eval(cfx_as_sym(e), bound_of, &(guess){d, 0, true}, &most))
            most = INT64_MAX;
        cfx_dict_set(ranges, cfx_value_str(e), cfx_tuple(limit(least), limit(most)));
    }
    for (size_t i = d->worlds.symbols.len; i-- > 0;) {
        const cfx__symbol *s = &d->worlds.symbols.data[i];
        if (!cfx_dict_find(ranges, cfx_string_value(s->name)))
            cfx_dict_set(ranges, s->name, cfx_tuple(s->least < 2 ? 2 : s->least, limit(s->most)));
    }
    return ranges;
}

/* ---- guards ---------------------------------------------------------------------------------- */

/* The symbol by the first size that is a line of it, (L['x'].size()[0] + -1) // 2 where that is
 * 2*s + 1; None where there is none. */
static cfx_value by_line(const cfx__dims *d, const char *symbol) {
    for (size_t i = 0; i < d->dims.len; i++) {
        const cfx_value e = d->dims.data[i].expr;
        const char *only = e.tag == CFX_TAG_SYM ? only_name(cfx_as_sym(e)) : NULL;
        int64_t at[3];
        bool line = only && !strcmp(only, symbol);
        for (int k = 0; k < COUNT(at) && line; k++)
            line = cfx__sym_eval(cfx_as_sym(e), size_of, &(guess){d, k, false}, &at[k]);
        if (!line || at[1] <= at[0] || at[2] - at[1] != at[1] - at[0])
            continue;
        cfx_value past = cfx__sym_binary(
            CFX__SYM_ADD, cfx__sym_name(d->dims.data[i].source, false, 0), cfx_int(-at[0]));
        return cfx__sym_binary(CFX__SYM_FLOORDIV, past, cfx_int(at[1] - at[0]));
    }
    return cfx_none();
}

/* The first size that is a symbol, else one that is made of it, or the name itself. */
static cfx_value source_of(const cfx__dims *d, const char *symbol) {
    for (size_t i = 0; i < d->dims.len; i++) {
        cfx_value e = d->dims.data[i].expr;
        if (e.tag == CFX_TAG_SYM && cfx_as_sym(e)->op == CFX__SYM_NAME &&
            !strcmp(cfx_as_sym(e)->name, symbol))
            return cfx__sym_name(d->dims.data[i].source, false, 0);
    }
    cfx_value line = by_line(d, symbol);
    return cfx_is_none(line) ? cfx__sym_name(symbol, false, 0) : line;
}

static cfx_value sourced(const cfx__dims *d, const struct cfx_sym *e) {
    if (e->op == CFX__SYM_INT)
        return cfx_int(e->hint);
    if (e->op == CFX__SYM_NAME)
        return source_of(d, e->name);
    cfx_value a = sourced(d, e->a);
    return cfx__sym_binary(e->op, a, sourced(d, e->b));
}

static cfx_value source_value(const cfx__dims *d, cfx_value v) {
    return v.tag == CFX_TAG_SYM ? sourced(d, cfx_as_sym(v)) : v;
}

const char *cfx__dims_sourced(const cfx__dims *d, cfx_value v) {
    return cfx_value_str(source_value(d, v));
}

const char *cfx__dims_guard(const cfx__dims *d, const cfx__relation *c) {
    cfx_value a = source_value(d, c->a), b = source_value(d, c->b);
    return cfx__guard_text(a, c->op, b);
}

cfx_value cfx__dims_guards(const cfx__dims *d) {
    cfx_value all = cfx_list_value(0, NULL);
    for (size_t i = 0; i < d->worlds.conditions.len; i++)
        cfx_list_append(cfx_as_list(all),
                        cfx_string_value(cfx__dims_guard(d, &d->worlds.conditions.data[i])));
    return all;
}
