/* At which sizes forward is tried; see probe.h. Start at cfx__probe_look. */
#include "probe.h"

#include <time.h>

/* Nanoseconds that this thread has run: what else the machine does is no matter. */
static int64_t busy_ns(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t))
        return cfx__clock_ns();
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

size_t cfx__probe_count(const cfx__probe *p) {
    size_t n = 0;
    while (n < p->dims->worlds.symbols.len && cfx__symbol_is_size(&p->dims->worlds.symbols.data[n]))
        n++;
    return n;
}

static cfx__symbol *symbol(const cfx__probe *p, size_t i) {
    return &p->dims->worlds.symbols.data[i];
}

void cfx__probe_hints(const cfx__probe *p, int64_t *sizes) {
    for (size_t i = 0; i < cfx__probe_count(p); i++)
        sizes[i] = symbol(p, i)->size.at[0];
}

/* Sizes without bound are tried up to this one; beyond it errors mean nothing. */
enum { LARGEST = 1 << 20 };
/* Several sizes that are not those of the example multiply to no more than this power of two, or to
 * little more than those do: else there may be no such tensors. */
enum { ELEMENTS = 30, MORE = 16 };
enum { AROUND = 64, RANDOM = 32, DENSE = 256, ALL = 1024, JOINT = 96 };
/* Beyond the dense ones, each stretch as long as this part of its sizes has one: n / 10 == 33. */
enum { PARTS = 40, FINE = 1 << 14 };
enum { FIRST = 8, CORNERS = 4, MARGIN = 50, AT_LEAST = 16 };

/* ---- one trial ------------------------------------------------------------------------------- */

static void set(const cfx__probe *p, const int64_t *sizes, int data) {
    size_t n = cfx__probe_count(p);
    for (size_t i = 0; i < p->dims->worlds.symbols.len; i++) {
        cfx__symbol *s = symbol(p, i);
        s->size.at[CFX__TRIAL] = i < n ? sizes[i] : s->size.at[data];
    }
    cfx__worlds_mend(&p->dims->worlds, CFX__TRIAL);
}

static bool are_too_many(const cfx__probe *p, const int64_t *sizes) {
    double elements = 1, example = 1;
    int others = 0;
    for (size_t i = 0; i < cfx__probe_count(p); i++) {
        int64_t hint = symbol(p, i)->size.at[0];
        others += sizes[i] != hint;
        elements *= sizes[i] > 1 ? (double)sizes[i] : 1;
        example *= hint > 1 ? (double)hint : 1;
    }
    return others > 1 && elements > (double)(1 << ELEMENTS) && elements > MORE * example;
}

bool cfx__probe_may(const cfx__probe *p, const int64_t *sizes) {
    if (are_too_many(p, sizes))
        return false;
    for (size_t i = 0; i < cfx__probe_count(p); i++)
        if (sizes[i] != symbol(p, i)->size.at[0] &&
            (sizes[i] < cfx__symbol_smallest(symbol(p, i)) || sizes[i] > symbol(p, i)->most))
            return false;
    set(p, sizes, 0);
    return cfx__worlds_hold(&p->dims->worlds, CFX__TRIAL);
}

/* What data decides may be too large or small for these sizes: it is tried as in other worlds. */
bool cfx__probe_at(cfx__probe *p, const int64_t *sizes) {
    enum { DATA = 4 };
    bool data = cfx__probe_count(p) < p->dims->worlds.symbols.len, goes = false;
    bool large = false; /* an error means nothing then */
    int64_t start = busy_ns();
    for (size_t i = 0; i < cfx__probe_count(p); i++)
        large |= sizes[i] > LARGEST + 1;
    for (int k = 0; k < (data ? DATA : 1) && k < p->dims->worlds.n && !goes; k++) {
        set(p, sizes, k);
        cfx__trial_end end = p->trial(p->user);
        goes = end == CFX__TRIAL_SAME || (end == CFX__TRIAL_ERROR && large);
    }
    int64_t took = busy_ns() - start;
    p->tried++;
    for (size_t i = 0; i < cfx__probe_count(p); i++)
        if (p->longest && took > p->longest && sizes[i] > symbol(p, i)->size.at[0] &&
            sizes[i] < p->largest)
            p->largest = sizes[i];
    return goes;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static uint64_t next_random(cfx__probe *p) {
    uint64_t x = p->random += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int64_t largest(const cfx__probe *p, const cfx__symbol *s) {
    int64_t far = s->most == INT64_MAX ? LARGEST + 1 : s->most;
    return far < p->largest ? far : p->largest;
}

int64_t cfx__probe_near(cfx__probe *p, size_t i, bool near) {
    const cfx__symbol *s = symbol(p, i);
    int64_t least = cfx__symbol_smallest(s), most = largest(p, s), close = 2 * s->size.at[0] + 8;
    uint64_t chosen = next_random(p);
    if (near && close < most && close > least)
        most = close;
    if (most <= least)
        return s->size.at[0];
    uint64_t span = (uint64_t)(most - least), bits = 64 - (uint64_t)__builtin_clzll(span);
    if (!near && (uint64_t)1 << (chosen >> 8) % bits < span)
        span = (uint64_t)1 << (chosen >> 8) % bits;
    return least + (int64_t)((chosen >> 16) % (span + 1));
}

int64_t cfx__probe_any(cfx__probe *p, size_t i) {
    return cfx__probe_near(p, i, next_random(p) & 1);
}

static void add(cfx__probe *p, size_t i, cfx__sizes *out, int64_t size) {
    const cfx__symbol *s = symbol(p, i);
    if (size < cfx__symbol_smallest(s) || size > s->most || size == s->size.at[0] ||
        (s->most == INT64_MAX && size > LARGEST + 1))
        return;
    for (size_t k = 0; k < out->len; k++)
        if (out->data[k] == size)
            return;
    VEC_PUSH(*out, size);
}

static void add_around(cfx__probe *p, size_t i, cfx__sizes *out, int64_t size, int64_t far) {
    for (int64_t d = 0; d <= far; d++) {
        add(p, i, out, size + d);
        add(p, i, out, size - d);
    }
}

void cfx__probe_sizes(cfx__probe *p, size_t i, cfx__sizes *out) {
    static const int primes[] = {97,   127,  251,   509,   1009,  1021,   2039,  4093,
                                 8191, 9973, 16381, 32749, 65521, 131071, 524287};
    /* which have many divisors: a remainder may be asked of sizes beyond a border only */
    static const int composites[] = {120,  180,  240,  360,   720,   840,   1260,
                                     1680, 2520, 5040, 27720, 55440, 720720};
    const cfx__symbol *s = symbol(p, i);
    int64_t hint = s->size.at[0];
    add(p, i, out, cfx__symbol_smallest(s));
    add(p, i, out, s->most);
    add_around(p, i, out, hint, 2);
    add(p, i, out, cfx__symbol_smallest(s) + 1);
    add(p, i, out, s->most - 1);
    for (int64_t power = 4; power <= LARGEST; power *= 2)
        add_around(p, i, out, power, 1);
    for (int64_t power = 10; power <= LARGEST; power *= 10)
        for (int64_t k = 1; k <= 5; k += 1 + (k > 2))
            add_around(p, i, out, k * power, 1);
    for (int64_t size = 3 * 64; size <= LARGEST; size *= 2)
        add_around(p, i, out, size, 1);
    add_around(p, i, out, hint, AROUND); /* which has multiples of all numbers up to it */
    for (int k = 0; k < COUNT(primes); k++)
        add(p, i, out, primes[k]);
    for (int k = 0; k < COUNT(composites); k++)
        add_around(p, i, out, composites[k], 1);
    for (int k = 3; k <= 12; k++)
        add(p, i, out, k * hint);
    for (int k = 0; k < RANDOM; k++)
        add(p, i, out, cfx__probe_any(p, i));
    for (int64_t size = 2; size <= (s->most <= ALL ? s->most : DENSE); size++)
        add(p, i, out, size);
    for (int64_t size = DENSE; size <= FINE; size += size / PARTS)
        add(p, i, out, size);
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool is_enough(const cfx__probe *p) { return p->tried >= p->enough && busy_ns() > p->until; }

static bool differs(cfx__probe *p, const int64_t *sizes) {
    for (size_t i = 0; i < cfx__probe_count(p); i++)
        if (sizes[i] > p->largest && sizes[i] != symbol(p, i)->size.at[0])
            return false;
    return cfx__probe_may(p, sizes) && !cfx__probe_at(p, sizes);
}

/* How sizes are drawn together: not much larger than in the example, since tensors of many large
 * ones would be too large; of one order of magnitude, as where their sum has a bound; or any. */
typedef enum { NEAR, ALIKE, ANY, JOINTS } joint;

/* A random size for symbol i that is no larger than `most`. */
static int64_t below(cfx__probe *p, size_t i, int64_t most) {
    const cfx__symbol *s = symbol(p, i);
    int64_t least = cfx__symbol_smallest(s), end = largest(p, s);
    end = end < most ? end : most;
    return end > least ? least + (int64_t)(next_random(p) % (uint64_t)(end - least + 1)) : least;
}

/* All sizes at once: by turns equal to another one, next to it, a multiple or a part of it, that of
 * the example, or a random one. */
static void join(cfx__probe *p, int64_t *sizes, joint way) {
    size_t n = cfx__probe_count(p);
    const int64_t most = (int64_t)4 << next_random(p) % 19;
    for (size_t i = 0; i < n; i++) {
        uint64_t how = i ? next_random(p) % 10 : 9;
        size_t other = i ? (size_t)(next_random(p) % i) : 0;
        const int64_t times = 2 + (int64_t)(next_random(p) % 31);
        sizes[i] = how == 0       ? sizes[other]
                   : how == 1     ? sizes[other] + 1
                   : how == 2     ? sizes[other] - 1
                   : how == 3     ? symbol(p, i)->size.at[0]
                   : how == 4     ? sizes[other] * times
                   : how == 5     ? sizes[other] / times
                   : way == ALIKE ? below(p, i, most)
                                  : cfx__probe_near(p, i, way == NEAR || next_random(p) & 1);
    }
}

/* Symbol i alone of all is not far larger than in the example: min(n, m) is then n. */
static void enlarge_others(const cfx__probe *p, int64_t *sizes, size_t i) {
    enum { FACTOR = 16, LEAST = 4099 };
    for (size_t k = 0; k < cfx__probe_count(p); k++) {
        const cfx__symbol *s = symbol(p, k);
        const int64_t large = FACTOR * s->size.at[0] + LEAST;
        if (k != i)
            sizes[k] = large < largest(p, s) ? large : largest(p, s);
    }
}

/* The smallest and the largest sizes of the ranges, by the bits of `ends`. */
static void corner(const cfx__probe *p, int64_t *sizes, size_t ends) {
    for (size_t i = 0; i < cfx__probe_count(p); i++) {
        const cfx__symbol *s = symbol(p, i);
        const bool high = ends >> i % 2 & 1;
        sizes[i] = !high ? cfx__symbol_smallest(s) : s->most < INT64_MAX ? s->most : sizes[i];
    }
}

/* Where conditions that are known allow few sizes together, the first draws may all be beyond. */
static void join_possible(cfx__probe *p, int64_t *sizes, joint way) {
    enum { DRAWS = 16 };
    for (int k = 0; k < DRAWS; k++) {
        join(p, sizes, way);
        if (cfx__probe_may(p, sizes))
            return;
    }
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* "2-71, 127-129". */
static const char *sizes_text(cfx__sizes *all) {
    cfx__text out = {0};
    if (all->len)
        qsort(all->data, all->len, sizeof *all->data, compare);
    for (size_t i = 0, last; i < all->len; i = last + 1) {
        for (last = i; last + 1 < all->len && all->data[last + 1] == all->data[last] + 1; last++) {
        }
        cfx__text_printf(&out, "%s%lld", i ? ", " : "", (long long)all->data[i]);
        if (last > i)
            cfx__text_printf(&out, "-%lld", (long long)all->data[last]);
    }
    return cfx__text_take(&out);
}

static void note(cfx__probe *p, cfx__sizes *tried) {
    size_t mark = cfx_scope_open();
    cfx_drop(p->noted);
    p->noted = cfx_keep(cfx_dict_new());
    for (size_t i = 0; i < cfx__probe_count(p); i++)
        cfx_dict_set(p->noted, symbol(p, i)->name, cfx_string_value(sizes_text(&tried[i])));
    cfx_scope_close(mark);
}

/* By turns the next size of each symbol alone, and some of all together: after the first ones,
 * since what one size alone shows is explained best. */
static bool look(cfx__probe *p, cfx__sizes *lists, cfx__sizes *tried, int64_t *sizes) {
    size_t n = cfx__probe_count(p), most = 0;
    for (size_t i = 0; i < n; i++)
        most = lists[i].len > most ? lists[i].len : most;
    for (size_t t = 0; (t < most || (n > 1 && t < FIRST + JOINT)) && cfx_ok(); t++) {
        for (size_t i = 0; i < n; i++) {
            cfx__probe_hints(p, sizes);
            if (t >= lists[i].len)
                continue;
            sizes[i] = lists[i].data[t];
            int before = p->tried;
            if (differs(p, sizes))
                return true;
            if (p->tried > before)
                VEC_PUSH(tried[i], sizes[i]);
            enlarge_others(p, sizes, i);
            if (n > 1 && t >= FIRST && differs(p, sizes))
                return true;
            if (is_enough(p))
                return false;
        }
        if (n < 2 || t < FIRST || t >= FIRST + JOINT)
            continue;
        cfx__probe_hints(p, sizes);
        corner(p, sizes, t);
        if (t < FIRST + CORNERS && differs(p, sizes))
            return true;
        for (joint way = NEAR; way < JOINTS; way++) {
            join_possible(p, sizes, way);
            if (differs(p, sizes))
                return true;
        }
    }
    return false;
}

bool cfx__probe_look(cfx__probe *p) {
    size_t n = cfx__probe_count(p);
    int64_t *sizes = cfx__alloc0((n + 1) * sizeof *sizes);
    cfx__sizes *lists = cfx__alloc0((2 * n + 1) * sizeof *lists), *tried = lists + n;
    for (size_t i = 0; i < n; i++)
        cfx__probe_sizes(p, i, &lists[i]);
    cfx__probe_hints(p, sizes);
    int64_t start = busy_ns();
    p->until = start + p->budget;
    p->enough = p->tried + AT_LEAST * (int)n;
    p->largest = INT64_MAX;
    p->longest = 0;
    set(p, sizes, 0);
    p->trial(p->user); /* to know how long one takes */
    p->longest = MARGIN * (busy_ns() - start) + 1000000;
    bool found = look(p, lists, tried, sizes);
    if (!found)
        note(p, tried);
    for (size_t i = 0; i < 2 * n; i++)
        VEC_FREE(lists[i]);
    cfx__free(lists);
    cfx__free(sizes);
    return found;
}
