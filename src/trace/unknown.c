/* Sizes and numbers that only running can tell, while a module is exported: each is a symbol of its
 * own, u0, u1, ..., and a plain number in each world. */
#include "export.h"

/* The next symbol for what only running can tell, as `like` says where it is new. */
static int64_t next_symbol(cfx__export *e, cfx__symbol like) {
    cfx__worlds *w = &e->dims->worlds;
    const char *name = cfx__text_format("u%d", e->data_sizes++);
    cfx__symbol *s = cfx__worlds_find(w, name);
    if (!s) {
        cfx__worlds_add(w, name, like.least, like.most, like.hint);
        s = cfx__worlds_find(w, name);
        s->any = like.any;
        s->joined = like.joined;
        cfx__worlds_choose(w, e->k, 0);
    }
    return s->size.at[e->k];
}

/* A size that depends on data may be anything: as large as a count of elements can be, or larger
 * where numbers in a tensor say how large. */
int64_t cfx__unknown_size(cfx__recorder *r) {
    bool said = cfx__ctx()->op && strstr(cfx__ctx()->op, "repeat_interleave");
    return next_symbol((cfx__export *)r,
                       (cfx__symbol){.most = said ? INT64_MAX : INT64_MAX - 1});
}

int64_t cfx__unknown_carried(cfx__recorder *r, int64_t first) {
    return next_symbol((cfx__export *)r, (cfx__symbol){.least = INT64_MIN + 1, .most = INT64_MAX,
                                                       .hint = first, .any = true});
}

/* What is the same in both branches, in all worlds, is no symbol. */
int64_t cfx__unknown_either(cfx__recorder *r, int64_t a, int64_t b) {
    cfx__export *e = (cfx__export *)r;
    cfx__joints *all = e->joints;
    size_t i = (size_t)e->joined++;
    while (all->apart.len <= i)
        VEC_PUSH(all->apart, false);
    if (a != b && !all->apart.data[i]) {
        all->apart.data[i] = true;
        all->late |= e->k > 0;
    }
    return all->apart.data[i]
               ? next_symbol(e, (cfx__symbol){.most = INT64_MAX, .joined = true})
               : a;
}
