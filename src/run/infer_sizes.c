/* The sizes at which shape rules run where those of inputs are symbols. Start at cfx__infer_begin.
 */
#include "infer.h"

typedef cfx__inference inference;

/* The sizes of the example, each with another in its place where guards let it. */
static void vary(inference *f) {
    static const int steps[] = {1, 2, 3, 4, 8, 12, 16, 32, 64, 256, -1, -2, -4};
    for (size_t i = 0; i < f->worlds.symbols.len; i++)
        f->worlds.symbols.data[i].size.at[f->k] = f->worlds.symbols.data[i].size.at[0];
    for (size_t i = 0; i < f->worlds.symbols.len; i++) {
        cfx__symbol *s = &f->worlds.symbols.data[i];
        bool fits = false;
        for (int j = 0; j < COUNT(steps) && !fits; j++) {
            int64_t size, step = steps[(j + f->k) % COUNT(steps)];
            fits = !__builtin_add_overflow(s->size.at[0], step, &size) && size >= s->least &&
                   size <= s->most && size > 1;
            s->size.at[f->k] = fits ? size : s->size.at[0];
            fits = fits && cfx__worlds_allow(&f->worlds, f->k);
        }
        if (!fits)
            s->size.at[f->k] = s->size.at[0];
    }
}

/* Sizes of the other worlds are not smaller than those of the example. */
static void choose_sizes(inference *f) {
    enum { ATTEMPTS = 4 };
    for (f->k = 0; f->k < f->worlds.n; f->k++) {
        int attempt = f->k > 0;
        if (f->few && !(f->few >> f->k & 1))
            continue;
        do
            cfx__worlds_choose(&f->worlds, f->k, attempt);
        while (f->k && !cfx__worlds_allow(&f->worlds, f->k) && attempt++ < ATTEMPTS);
        if (attempt > ATTEMPTS)
            vary(f);
    }
    f->k = 0;
}

void cfx__infer_begin(inference *f) {
    if (f->begun)
        return;
    cfx__worlds_of(&f->worlds, f->program);
    f->worlds.n = f->worlds.symbols.len ? CFX__MANY_WORLDS : 1;
    choose_sizes(f);
    f->begun = true;
}

void cfx__infer_end(inference *f) {
    cfx__exprs_free(&f->exprs);
    cfx__worlds_free(&f->worlds);
    cfx_drop(f->regions);
    cfx__free(f->in_place);
    cfx__free(f->alike);
}

bool cfx__infer_coarser(inference *f) {
    if (!cfx__worlds_coarser(&f->worlds))
        return false;
    cfx__exprs_free(&f->exprs);
    f->exprs = (cfx__exprs){0};
    choose_sizes(f);
    return true;
}

void cfx__infer_finest(inference *f) {
    bool coarse = f->worlds.obeys;
    for (size_t i = 0; i < f->worlds.symbols.len; i++) {
        coarse |= f->worlds.symbols.data[i].by != 0;
        f->worlds.symbols.data[i].by = 0;
    }
    f->worlds.obeys = false;
    if (!coarse)
        return;
    cfx__exprs_free(&f->exprs);
    f->exprs = (cfx__exprs){0};
    choose_sizes(f);
}

void cfx__infer_widen(inference *f) {
    if (!f->few || f->worlds.n == 1)
        return;
    f->few = 0;
    choose_sizes(f);
}

cfx__exprs *cfx__infer_exprs(inference *f) {
    if (!f->exprs.worlds)
        cfx__exprs_begin(&f->exprs, &f->worlds);
    return &f->exprs;
}
