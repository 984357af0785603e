/* Dynamic sizes: the symbols in the shapes of a program's inputs, their ranges, and inputs of
 * given sizes. They become parameters of the generated code; merge.c makes its text for all of
 * them. */
#include <cfx/ops.h>
#include <cfx/pack.h>
#include <ctype.h>

#include "compile.h"

/* ---- symbols --------------------------------------------------------------------------------- */

static const cfx__c_size *find(const cfx__c *c, const char *symbol) {
    for (int i = 0; i < c->nsizes; i++)
        if (!strcmp(c->sizes[i].symbol, symbol))
            return &c->sizes[i];
    return NULL;
}

/* Names like "s27" stay, which nothing else in the text has; others become "size_...". */
static const char *name_of(cfx__c *c, const char *symbol) {
    size_t n = symbol[0] == 's' ? 1 : 0;
    while (n && isdigit((unsigned char)symbol[n]))
        n++;
    if (n > 1 && n < 12 && !symbol[n]) /* cfx__c_identifier gives nothing else that name */
        return cfx__text_format("%s", symbol);
    return cfx__c_port_name(c, cfx__text_format("size_%s", symbol));
}

static int64_t end_of(cfx_value range, int i, int64_t fallback) {
    const cfx_value v = range.tag == CFX_TAG_TUPLE ? cfx_at(range, i) : cfx_none();
    return v.tag == CFX_TAG_INT ? cfx_integer(v) : fallback;
}

enum { UNBOUNDED = -1 };

static void add_symbols(cfx__c *c, const cfx_program *p, const cfx_sym *s) {
    if (s->a)
        add_symbols(c, p, s->a);
    if (s->b)
        add_symbols(c, p, s->b);
    if (s->op != CFX__SYM_NAME || find(c, s->name) || c->nsizes == CFX__C_SIZES)
        return;
    const cfx_value range = cfx_dict_get(p->ranges, s->name);
    const int64_t low = end_of(range, 0, 0);
    c->sizes[c->nsizes++] = (cfx__c_size){.symbol = cfx__text_format("%s", s->name),
                                          .low = low > 0 ? low : 0,
                                          .high = end_of(range, 1, UNBOUNDED)};
}

static cfx_result noted(const cfx_program *p, const cfx_input_spec *s) {
    return cfx_node_result(cfx_graph_find(p->module->graph, s->name));
}

static bool is_given(const cfx_input_spec *s) { return s->kind == CFX_IN_USER && !s->constant; }

static void find_symbols(cfx__c *c, const cfx_program *p) {
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_result r = noted(p, &p->inputs[i]);
        for (int d = 0; is_given(&p->inputs[i]) && r.kind == CFX_RESULT_TENSOR && d < r.ndim; d++) {
            const cfx_value v = cfx_result_size(&r, d);
            if (v.tag == CFX_TAG_SYM)
                add_symbols(c, p, cfx_as_sym(v));
        }
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct {
    const cfx__c *c;
    const int64_t *at;
} point;

static bool look_up(const cfx_sym *s, void *user, int64_t *out) {
    const point *p = user;
    const cfx__c_size *size = find(p->c, s->name);
    if (size)
        *out = p->at[size - p->c->sizes];
    return size != NULL;
}

bool cfx__c_size_at(const cfx__c *c, const int64_t *at, cfx_value v, int64_t *out) {
    point p = {c, at};
    if (v.tag == CFX_TAG_INT)
        *out = cfx_integer(v);
    return v.tag == CFX_TAG_INT ||
           (v.tag == CFX_TAG_SYM && cfx__sym_eval(cfx_as_sym(v), look_up, &p, out));
}

static cfx_value input_at(const cfx__c *c, const cfx_program *p, const cfx_input_spec *s,
                          const int64_t *at, bool fake) {
    const cfx_result r = noted(p, s);
    int64_t shape[CFX_MAX_DIMS];
    if (s->constant)
        return s->value;
    bool fine = r.kind == CFX_RESULT_TENSOR;
    for (int i = 0; fine && i < r.ndim; i++)
        fine = cfx__c_size_at(c, at, cfx_result_size(&r, i), &shape[i]);
    if (!fine) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "input %s does not say what it is", s->name);
        return cfx_bad();
    }
    if (fake)
        return cfx_tensor_value(cfx_tensor_fake(r.dtype, r.ndim, shape, NULL));
    cfx_tensor *t = cfx__tensor_empty((cfx_site){0}, r.dtype, false, r.ndim, shape, NULL);
    if (!cfx__obj_is_bad(t))
        memset(t->data, 0, (size_t)(t->numel * cfx_dtype_size(r.dtype)));
    return cfx_tensor_value(t);
}

cfx_list *cfx__c_inputs_at(const cfx__c *c, const cfx_program *p, const int64_t *at, bool fake) {
    cfx_list *flat = cfx_as_list(cfx_list_value(0, NULL));
    for (int i = 0; i < p->ninputs; i++)
        if (p->inputs[i].kind == CFX_IN_USER)
            cfx_list_append(flat, input_at(c, p, &p->inputs[i], at, fake));
    return flat;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static bool has(const cfx_sym *s, const char *symbol) {
    return (s->op == CFX__SYM_NAME && !strcmp(s->name, symbol)) || (s->a && has(s->a, symbol)) ||
           (s->b && has(s->b, symbol));
}

/* The smallest value of a symbol, others as they are, for which an expression gives a number; -1:
 * none. */
static int64_t solve(const cfx__c *c, int k, int64_t *at, cfx_value v, int64_t want) {
    const int64_t before = at[k];
    for (int64_t is = 0, got; is <= want; is++) {
        at[k] = is;
        if (cfx__c_size_at(c, at, v, &got) && got == want)
            return is;
    }
    at[k] = before;
    return -1;
}

/* The sizes of the sample, dims that are one symbol first. */
static void find_samples(cfx__c *c, const cfx_program *p, const cfx_list *flat, int64_t *at) {
    for (int round = 0; round < 2; round++)
        for (int i = 0, k = 0; i < p->ninputs; i++) {
            if (p->inputs[i].kind != CFX_IN_USER)
                continue;
            const cfx_value in = k < flat->len ? flat->items[k++] : cfx_none();
            const cfx_result r = noted(p, &p->inputs[i]);
            const cfx_tensor *t = in.tag == CFX_TAG_TENSOR ? cfx_as_tensor(in) : NULL;
            for (int d = 0; t && is_given(&p->inputs[i]) && d < r.ndim && d < t->ndim; d++) {
                const cfx_value v = cfx_result_size(&r, d);
                const cfx_sym *s = v.tag == CFX_TAG_SYM ? cfx_as_sym(v) : NULL;
                for (int n = 0; s && n < c->nsizes; n++) {
                    const bool own = s->op == CFX__SYM_NAME && !strcmp(s->name, c->sizes[n].symbol);
                    if (own && !round)
                        at[n] = t->shape[d];
                    else if (round && at[n] < 0 && has(s, c->sizes[n].symbol))
                        solve(c, n, at, v, t->shape[d]);
                }
            }
        }
}

/* "s27=8" or "s27=2:64"; false, with an error. */
static bool take_range(cfx__c *c, const char *text, size_t len) {
    const char *eq = memchr(text, '=', len);
    const size_t n = eq ? (size_t)(eq - text) : 0;
    char *end = NULL;
    for (int i = 0; i < c->nsizes && n; i++) {
        cfx__c_size *s = &c->sizes[i];
        if (strlen(s->symbol) != n || memcmp(s->symbol, text, n) != 0)
            continue;
        const long long low = strtoll(eq + 1, &end, 10);
        const long long high = *end == ':' ? strtoll(end + 1, &end, 10) : low;
        if (end != text + len || low < 0 || high < low || high > INT32_MAX)
            break;
        if (low < s->low || (s->high != UNBOUNDED && high > s->high)) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "the program takes %s from %lld to %s",
                     s->symbol, (long long)s->low,
                     s->high == UNBOUNDED ? "any size"
                                          : cfx__text_format("%lld", (long long)s->high));
            return false;
        }
        s->low = low;
        s->high = high;
        return true;
    }
    cfx__text known = {0};
    for (int i = 0; i < c->nsizes; i++)
        cfx__text_printf(&known, "%s%s", i ? ", " : "", c->sizes[i].symbol);
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "'%.*s' does not set a dynamic size, such as s0=8 or s0=2:64; those of the program: "
             "%s",
             (int)len, text, known.len ? cfx__text_take(&known) : "none");
    return false;
}

static bool take_ranges(cfx__c *c, const char *text) {
    for (text = text ? text : ""; *text;) {
        const size_t n = strcspn(text, " ,");
        if (n && !take_range(c, text, n))
            return false;
        text += n + (text[n] != 0);
    }
    return true;
}

/* An end for sizes that have none: room enough for most, in an arena that can be had. */
static void bound(cfx__c_size *s) {
    if (s->high == UNBOUNDED || s->high > INT32_MAX) {
        s->high = s->sample * 4 > 64 ? s->sample * 4 : 64;
        s->chosen = true;
    }
    if (s->sample < s->low || s->sample > s->high)
        s->sample = s->low > 2 ? s->low : s->high < 2 ? s->high : 2;
}

/* Sizes that are one number are none that vary: they go to the end, past c->nsizes. */
static void leave_fixed(cfx__c *c) {
    int n = 0;
    for (int i = 0; i < c->nsizes; i++)
        n += c->sizes[i].low != c->sizes[i].high;
    for (int i = 0; i < c->nsizes; i++)
        for (int k = i; k > 0 && c->sizes[k - 1].low == c->sizes[k - 1].high &&
                        c->sizes[k].low != c->sizes[k].high;
             k--) {
            const cfx__c_size s = c->sizes[k];
            c->sizes[k] = c->sizes[k - 1];
            c->sizes[k - 1] = s;
        }
    c->nvary = n;
}

cfx_list *cfx__c_sizes_find(cfx__c *c, const cfx_program *p, const cfx_list *given) {
    int64_t at[CFX__C_SIZES], sample[CFX__C_SIZES];
    find_symbols(c, p);
    for (int i = 0; i < c->nsizes; i++)
        at[i] = -1;
    if (given)
        find_samples(c, p, given, at);
    for (int i = 0; i < c->nsizes; i++)
        c->sizes[i].sample = at[i];
    if (!take_ranges(c, c->o.sizes))
        return NULL;
    bool same = given != NULL;
    for (int i = 0; i < c->nsizes; i++) {
        cfx__c_size *s = &c->sizes[i];
        const int64_t was = s->sample;
        bound(s);
        s->sampled = was >= 0 && was == s->sample;
        same &= was == s->sample;
    }
    leave_fixed(c);
    for (int i = 0; i < c->nsizes; i++) {
        sample[i] = c->sizes[i].sample;
        if (i < c->nvary)
            c->sizes[i].name = name_of(c, c->sizes[i].symbol);
    }
    return same ? (cfx_list *)given : cfx__c_inputs_at(c, p, sample, false);
}

/* ---- points ---------------------------------------------------------------------------------- */

/* Sizes of 1 are left out: their dims have strides that no other has, and what is written for
 * others is right for them. */
int64_t cfx__c_least(const cfx__c_size *s) { return s->low > 2 || s->high < 2 ? s->low : 2; }

/* Number k of the sizes of a range at which something may begin or end: the first ones, those
 * around powers of two, the last ones. */
static int64_t edge(const cfx__c_size *s, int k) {
    enum { FIRST = 8 };
    const int64_t low = cfx__c_least(s), span = s->high - low;
    int around = 0; /* powers of two beyond the first */
    while (around < 30 && ((int64_t)16 << around) + 1 < s->high)
        around++;
    const int each = k % (FIRST + 3 * around + 2);
    int64_t at = low + each;
    if (each >= FIRST + 3 * around)
        at = s->high - (each - FIRST - 3 * around);
    else if (each >= FIRST)
        at = ((int64_t)16 << (each - FIRST) / 3) + (each - FIRST) % 3 - 1;
    return at < low || span < 0 ? low : at > s->high ? s->high : at;
}

bool cfx__c_point(const cfx__c *c, int n, int64_t *at) {
    int64_t all = 1, rest = n;
    for (int i = 0; i < c->nsizes; i++) {
        const int64_t count = c->sizes[i].high - cfx__c_least(&c->sizes[i]) + 1;
        all = all > CFX__C_TAKES || count > CFX__C_TAKES ? CFX__C_TAKES + 1 : all * count;
    }
    uint64_t h = 0x9e3779b97f4a7c15u * (uint64_t)(n + 1);
    for (int i = 0; i < c->nsizes; i++) {
        const cfx__c_size *s = &c->sizes[i];
        const int64_t low = cfx__c_least(s), count = s->high - low + 1;
        h = (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9u;
        if (all <= CFX__C_TAKES) { /* each of few */
            at[i] = s->high - rest % count;
            rest /= count;
        } else if (!n) {
            at[i] = s->high;
        } else if (n < 6 || n % 3 == 0) {
            const int64_t from = n % 3 == 2 && s->high - 40 > low ? s->high - 40 : low;
            at[i] = from + (int64_t)((h >> 20) % (uint64_t)(s->high - from + 1));
        } else {
            at[i] = edge(s, (n - n / 3) * (2 * i + 1) + i);
        }
    }
    return all > CFX__C_TAKES || n < all;
}
