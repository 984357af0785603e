/* What calls ask of sizes that only data tells. add(x[u0], y[3]) works where u0 is 3 alone: PyTorch
 * exports it and asserts that when the program runs, as if forward had said torch._check. There are
 * no symbolic shape rules here to say so (worlds.h); so where a call is refused in some world,
 * forward is recorded with other such sizes, and what tells those at which it gets further from the
 * others is assumed from then on. Start at cfx__implied_find. */
#include "../base/held.h"
#include "export.h"
#include "relations.h"

/* Sizes that are tried one by one from 0 on; those of a search for all symbols together. */
enum { DENSE = 20, MOST_SAMPLES = 96, MOST_TRIALS = 600 };

typedef struct {
    cfx__request *r;
    int64_t *base; /* what symbols are where a call is refused, */
    size_t n_base;
    int64_t reached;                       /* behind so many nodes */
    int64_t numbers[CFX__REFUSED_NUMBERS]; /* among its arguments */
    int n_numbers;
    int trials;
} search;

/* How a call went with one size. */
typedef struct {
    int64_t size;
    bool goes;
} sample;

typedef struct {
    sample at[MOST_SAMPLES]; /* in order */
    int n;
} samples;

/* ---- what is refused ------------------------------------------------------------------------- */

static void note(cfx__recorder *r, cfx_value v) {
    const bool tensor = v.tag == CFX_TAG_TENSOR;
    const bool several = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    const int64_t n = tensor ? cfx_as_tensor(v)->ndim : several ? cfx_as_list(v)->len : 1;
    for (int64_t i = 0; i < n && r->n_refused < CFX__REFUSED_NUMBERS; i++)
        if (tensor)
            r->refused[r->n_refused++] = cfx_as_tensor(v)->shape[i];
        else if (several)
            note(r, cfx_as_list(v)->items[i]);
        else if (v.tag == CFX_TAG_INT)
            r->refused[r->n_refused++] = cfx_integer(cfx__value_plain(v));
}

void cfx__implied_note(cfx__recorder *r, cfx_value result, cfx_args a) {
    const bool first = cfx_is_bad(result) && r->marks && !r->n_refused;
    for (int i = 0; first && i < a.n; i++)
        note(r, a.v[i]);
}

/* ---- trials ---------------------------------------------------------------------------------- */

static cfx__worlds *worlds(const search *s) { return &s->r->dims.worlds; }

/* What symbol number i is in a trial. */
typedef struct {
    size_t i;
    int64_t size;
} where;

static const where nowhere = {SIZE_MAX, 0};

/* How many nodes forward gets to with these sizes, all others being as they were; INT64_MAX: it
 * ends. -1: no trial is left, or an error says no such thing. */
static int64_t reach(search *s, where one, where other) {
    cfx__worlds *w = worlds(s);
    cfx__export *e = &s->r->other[CFX__TRIAL - 1];
    if (s->trials++ >= MOST_TRIALS || !cfx_ok())
        return -1;
    for (size_t n = 0; n < s->n_base && n < w->symbols.len; n++)
        w->symbols.data[n].size.at[CFX__TRIAL] = n == one.i     ? one.size
                                                 : n == other.i ? other.size
                                                                : s->base[n];
    const size_t mark = cfx_scope_open();
    const bool fine = cfx__export_record(e, s->r, CFX__TRIAL);
    const int64_t reached = fine ? INT64_MAX : e->recorder.graph->len;
    const bool answered = cfx__error_forgive();
    cfx__export_end(e);
    *e = (cfx__export){0};
    cfx_scope_close(mark);
    return answered ? reached : -1;
}

/* Whether it gets further. */
static bool goes_at(search *s, where one, where other) { return reach(s, one, other) > s->reached; }

/* ---- samples --------------------------------------------------------------------------------- */

static void add_size(samples *all, const cfx__symbol *s, int64_t size) {
    int i = 0;
    if (all->n == MOST_SAMPLES ||
        size < (s->any         ? s->least
                : s->least < 0 ? 0
                               : s->least) ||
        size > cfx__symbol_largest(s))
        return;
    while (i < all->n && all->at[i].size < size)
        i++;
    if (i < all->n && all->at[i].size == size)
        return;
    memmove(&all->at[i + 1], &all->at[i], (size_t)(all->n++ - i) * sizeof *all->at);
    all->at[i] = (sample){.size = size};
}

static int64_t sized(int64_t n, int64_t times, int64_t more) {
    int64_t out;
    return __builtin_mul_overflow(n, times, &out) || __builtin_add_overflow(out, more, &out) ? -1
                                                                                             : out;
}

/* Small sizes, numbers among the arguments of the call and what is next to them, the sizes that
 * other symbols have, and large ones. */
static void choose_sizes(const search *s, const cfx__symbol *symbol, samples *all) {
    static const int64_t large[] = {97, 509, 1021};
    for (int64_t n = symbol->any ? -DENSE : 0; n < DENSE; n++)
        add_size(all, symbol, n);
    for (size_t i = 0; i < COUNT(large); i++)
        add_size(all, symbol, large[i]);
    for (size_t i = 0; i < s->n_base; i++)
        add_size(all, symbol, s->base[i]);
    for (int i = 0; i < s->n_numbers; i++)
        for (int64_t more = -1; more <= 1; more++) {
            add_size(all, symbol, sized(s->numbers[i], 1, more));
            if (symbol->any)
                add_size(all, symbol, sized(s->numbers[i], -1, more));
        }
    for (int i = 0; i < s->n_numbers; i++)
        add_size(all, symbol, sized(s->numbers[i], 2, 0));
}

/* The border between a size that goes and one that does not: the last one that goes. */
static int64_t last_that_goes(search *s, size_t i, int64_t goes, int64_t not ) {
    while (goes - not > 1 || not -goes > 1) {
        const int64_t middle = goes + (not -goes) / 2;
        if (goes_at(s, (where){i, middle}, nowhere))
            goes = middle;
        else
            not = middle;
    }
    return goes;
}

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

/* ---- what tells them apart ------------------------------------------------------------------- */

static void imply(search *s, cfx_value a, cfx__rel op, cfx_value b) {
    cfx__relation r = {op, cfx_value_keep(a), cfx_value_keep(b)};
    VEC_PUSH(worlds(s)->implied, r);
}

static cfx_value name_of(const search *s, size_t i) {
    return cfx__sym_name(worlds(s)->symbols.data[i].name, false, 0);
}

static cfx_value plus(cfx_value a, cfx_value b) { return cfx__sym_binary(CFX__SYM_ADD, a, b); }

/* A border of the sizes of symbol i at which a call goes. */
typedef struct {
    size_t i;
    int64_t at; /* goes, */
    int past;   /* what is so far from it does not; 0: neither does what is below nor above it */
} border;

/* Whether symbol i may be that, and no 1, which broadcasts. */
static bool may_be(const search *s, size_t i, int64_t size) {
    return size != 1 && (size >= 0 || worlds(s)->symbols.data[i].any);
}

/* Whether it is `by` further where symbol j is `other`. */
static bool is_border(search *s, const border *b, int64_t by, size_t j, int64_t other) {
    const int64_t at = b->at + by;
    if ((at < 0 && !may_be(s, b->i, at)) || !goes_at(s, (where){b->i, at}, (where){j, other}))
        return false;
    for (int past = -1; past <= 1; past += 2)
        if ((b->past == past || (!b->past && may_be(s, b->i, at + past))) &&
            goes_at(s, (where){b->i, at + past}, (where){j, other}))
            return false;
    return true;
}

/* Another size next to its own that symbol j may have, at which no call before is refused; its own:
 * there is none. */
static int64_t another(search *s, size_t j) {
    static const int64_t steps[] = {1, 2, -1, -2};
    const cfx__symbol *symbol = &worlds(s)->symbols.data[j];
    const int64_t now = s->base[j];
    for (size_t i = 0; i < COUNT(steps) && !symbol->apart; i++) {
        const int64_t next = now + steps[i];
        if (next > 1 && next >= symbol->least && next <= cfx__symbol_largest(symbol) &&
            reach(s, (where){j, next}, nowhere) >= s->reached)
            return next;
    }
    return now;
}

/* What lies at the border, and no further: a number, or one that goes with another symbol. False
 * where it goes with others in no such way. */
static bool imply_border(search *s, border b, cfx__rel op) {
    cfx_value left = name_of(s, b.i), right = cfx_int(b.at);
    bool number = true;
    for (size_t j = 0; j < s->n_base; j++) {
        const int64_t now = s->base[j], next = j == b.i ? now : another(s, j);
        if (next == now || is_border(s, &b, 0, j, next))
            continue;
        const bool along = is_border(s, &b, next - now, j, next);
        if (!number || (!along && !is_border(s, &b, now - next, j, next)))
            return false;
        number = false;
        left = along ? left : plus(left, name_of(s, j));
        right = along ? plus(name_of(s, j), cfx_int(b.at - now)) : cfx_int(b.at + now);
    }
    imply(s, left, op, right);
    return true;
}

/* The sizes that go are one stretch. A single one has been tried beside its neighbours, but 1. */
static bool imply_stretch(search *s, size_t i, const samples *all, int first, int last) {
    const bool above = first > 0, below = last < all->n - 1;
    int64_t least = all->at[first].size, most = all->at[last].size;
    if (below && first == last)
        return imply_border(s, (border){i, least, 0}, CFX__EQ);
    if (above)
        least = last_that_goes(s, i, least, all->at[first - 1].size);
    if (below)
        most = last_that_goes(s, i, most, all->at[last + 1].size);
    return (!above || imply_border(s, (border){i, least, -1}, CFX__GE)) &&
           (!below || imply_border(s, (border){i, most, 1}, CFX__LE));
}

/* Whether the sizes from number `first` on that go are those with one remainder by `by`. */
static bool have_remainder(const samples *all, int first, int64_t by) {
    for (int k = first; k < all->n; k++)
        if (all->at[k].goes != (all->at[k].size % by == all->at[first].size % by))
            return false;
    return by > 1;
}

/* Whether symbol i may have those sizes alone, where symbol j is `other`. */
static bool is_remainder(search *s, size_t i, int64_t by, int64_t rest, size_t j, int64_t other) {
    const int64_t at = 2 * by + (rest % by + by) % by;
    return goes_at(s, (where){i, at}, (where){j, other}) &&
           !goes_at(s, (where){i, at + 1}, (where){j, other}) &&
           !goes_at(s, (where){i, at - 1}, (where){j, other});
}

/* They, or their sum with other symbols, are multiples of a number, or of the size of one. */
static bool imply_multiples(search *s, size_t i, const samples *all, int first, int64_t by) {
    const int64_t rest = all->at[first].size % by;
    cfx_value left = name_of(s, i), of = cfx_int(by);
    int64_t sum = rest;
    for (size_t j = 0; j < s->n_base; j++) {
        const int64_t now = s->base[j], next = j == i ? now : another(s, j);
        if (next == now || is_remainder(s, i, by, rest, j, next))
            continue;
        if (is_remainder(s, i, by, rest + now - next, j, next)) {
            left = plus(left, name_of(s, j));
            sum += now;
        } else if (of.tag == CFX_TAG_INT && now == by && !rest &&
                   is_remainder(s, i, next, 0, j, next)) {
            of = name_of(s, j);
        } else {
            return false;
        }
    }
    if (sum % by)
        return false;
    imply(s, cfx__sym_binary(CFX__SYM_MOD, left, of), CFX__EQ, cfx_int(0));
    if (first > 0 && all->at[first - 1].size % by == rest && left.tag == CFX_TAG_SYM &&
        cfx_as_sym(left)->op == CFX__SYM_NAME)
        imply(s, left, CFX__GE, cfx_int(all->at[first].size));
    return true;
}

/* What the samples of symbol i have in common at which the call goes; false where nothing tells
 * them from the others. */
static bool imply_common(search *s, size_t i, const samples *all) {
    int first = -1, last = -1, count = 0;
    int64_t by = 0;
    for (int k = 0; k < all->n; k++) {
        const sample *one = &all->at[k];
        first = first < 0 && one->goes ? k : first;
        last = one->goes ? k : last;
        count += one->goes;
        by = one->goes ? gcd(one->size - all->at[first].size, by) : by;
    }
    if (!count || count == all->n)
        return false;
    if (count == last - first + 1)
        return imply_stretch(s, i, all, first, last);
    return have_remainder(all, first, by) && imply_multiples(s, i, all, first, by);
}

/* All but the sizes at which something has the size 1, which broadcasts: as in PyTorch, what data
 * tells is taken for another size, unless it can be nothing else. That is 1 itself, or the smaller
 * of two sizes alone. */
static samples without_ones(const samples *all) {
    samples out = {.n = 0};
    int count = 0, first = 0;
    for (int k = 0; k < all->n; k++)
        if (all->at[k].size != 1)
            out.at[out.n++] = all->at[k];
    for (int k = out.n; k-- > 0;) {
        count += out.at[k].goes;
        first = out.at[k].goes ? k : first;
    }
    if (count == 2)
        out.at[first].goes = false;
    return out;
}

static bool explain(search *s, size_t i) {
    samples all = {.n = 0};
    choose_sizes(s, &worlds(s)->symbols.data[i], &all);
    for (int k = 0; k < all.n; k++)
        all.at[k].goes = goes_at(s, (where){i, all.at[k].size}, nowhere);
    const samples most = without_ones(&all);
    return cfx_ok() && (imply_common(s, i, &most) || imply_common(s, i, &all)) && cfx_ok();
}

static bool is_searched(const cfx__symbol *s) { return *s->name == 'u' && !s->apart && !s->joined; }

static bool find(search *s) {
    s->reached = reach(s, nowhere, nowhere);
    if (s->reached < 0 || s->reached == INT64_MAX)
        return false;
    for (size_t i = s->n_base; i-- > 0 && cfx_ok();)
        if (is_searched(&worlds(s)->symbols.data[i])) {
            bool found = false;
            CFX_SCOPE
                found = explain(s, i);
            if (found)
                return true;
        }
    return false;
}

/* The sizes that data tells are small: among large ones there may be none of which one alone makes
 * the call go. */
static void make_small(search *s) {
    enum { SMALL = 2 };
    for (size_t i = 0; i < s->n_base; i++)
        if (is_searched(&worlds(s)->symbols.data[i]) && worlds(s)->symbols.data[i].least <= SMALL)
            s->base[i] = SMALL;
}

bool cfx__implied_find(cfx__request *r, const cfx__export *e) {
    const cfx__worlds *w = &r->dims.worlds;
    search s = {.r = r, .n_base = w->symbols.len, .n_numbers = e->recorder.n_refused};
    cfx__error_held held;
    memcpy(s.numbers, e->recorder.refused, sizeof s.numbers);
    if (cfx_error_last()->kind == CFX_LIMIT_ERROR || w->implied.len >= MOST_SAMPLES)
        return false;
    cfx__error_hold(&held);
    s.base = cfx__alloc0((s.n_base + 1) * sizeof *s.base);
    for (size_t i = 0; i < s.n_base; i++)
        s.base[i] = w->symbols.data[i].size.at[e->k];
    bool found = find(&s);
    if (!found) {
        make_small(&s);
        found = find(&s);
    }
    cfx__free(s.base);
    if (cfx_ok())
        cfx__error_put_back(&held);
    return found;
}

void cfx__implied_assume(cfx__worlds *w, const char *symbol) {
    int64_t value;
    for (size_t i = 0; i < w->implied.len; i++) {
        const cfx__relation *r = &w->implied.data[i];
        if ((cfx__relation_names(r->a, symbol) || cfx__relation_names(r->b, symbol)) &&
            cfx__worlds_eval(w, 0, r->a, &value) && cfx__worlds_eval(w, 0, r->b, &value))
            cfx__relation_assume(w, r);
    }
}
