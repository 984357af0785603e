/* Bounds of the dynamic sizes of a foreign program. An ONNX file names dynamic sizes without
 * ranges, but a table of 512 positions or a window bounds them. Where the program fails at a
 * size, that size is outside of its range. Start at cfx__foreign_bound_sizes. */
#include "decompose.h"

typedef cfx__decomposing decomposing;

static bool works(decomposing *d, int k) {
    size_t mark = cfx_scope_open();
    bool fine = cfx__recording_make(d, k);
    cfx__recording_forget(&d->world[k]);
    if (!fine)
        cfx__error_forgive();
    cfx_scope_close(mark);
    return fine;
}

/* Whether it works where symbol s has this size, and all others that of world 0. */
static bool works_at(decomposing *d, cfx__symbol *s, int64_t size) {
    for (size_t i = 0; i < d->worlds.symbols.len; i++)
        d->worlds.symbols.data[i].size.at[CFX__TRIAL] = d->worlds.symbols.data[i].size.at[0];
    s->size.at[CFX__TRIAL] = size;
    return works(d, CFX__TRIAL);
}

/* The size nearest to `bad` at which it works, by steps from `good`, at which it does. */
static int64_t border(decomposing *d, cfx__symbol *s, int64_t good, int64_t bad, int64_t step) {
    int64_t last = (bad > good ? bad - good : good - bad) / step, most = last + 1, n = 0;
    while (most - n > 1 && cfx_ok()) {
        int64_t at = n + (most - n) / 2;
        if (works_at(d, s, bad > good ? good + at * step : good - at * step))
            n = at;
        else
            most = at;
    }
    return bad > good ? good + n * step : good - n * step;
}

enum { LARGEST = 1 << 20 };

static void bound(decomposing *d, cfx__symbol *s) {
    const int64_t size = s->size.at[0], smallest = cfx__symbol_smallest(s);
    if (s->most == INT64_MAX && size < LARGEST && !works_at(d, s, LARGEST) && cfx_ok()) {
        int64_t rough = border(d, s, size, LARGEST, size); /* multiples, which may alone fit */
        int64_t most = border(d, s, rough, rough + size, 1);
        s->most = most > size ? most : s->most;
    }
    if (s->least < smallest && size > smallest && !works_at(d, s, smallest) && cfx_ok()) {
        int64_t least = border(d, s, size, smallest, 1);
        s->least = least < size ? least : s->least;
    }
}

/* An example at which it works: the one that the reader made up, or a smaller one. Sizes stay
 * different from each other. */
static bool find_example(decomposing *d) {
    enum { ATTEMPTS = 6 };
    for (int i = 0; i < ATTEMPTS && cfx_ok(); i++) {
        for (size_t k = 0; i && k < d->worlds.symbols.len; k++) {
            cfx__symbol *s = &d->worlds.symbols.data[k];
            if (cfx__symbol_is_size(s))
                s->hint = s->hint / 2 > 2 + (int64_t)k ? s->hint / 2 : 2 + (int64_t)k;
        }
        cfx__worlds_choose(&d->worlds, 0, 0);
        if (works(d, 0))
            return true;
    }
    return false;
}

void cfx__foreign_bound_sizes(decomposing *d) {
    if (!find_example(d))
        return;
    for (size_t i = 0; i < d->worlds.symbols.len && cfx_ok(); i++)
        if (cfx__symbol_is_size(&d->worlds.symbols.data[i]))
            bound(d, &d->worlds.symbols.data[i]);
}
