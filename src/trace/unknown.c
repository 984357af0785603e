/* Sizes and numbers that only running can tell, while a module is exported: each is a symbol of its
 * own, u0, u1, ..., and a plain number in each world; floats are zuf0, zuf1, ... */
#include "export.h"

/* The symbol called so, as `like` says where it is new. */
static const cfx__symbol *symbol(cfx__export *e, const char *name, cfx__symbol like) {
    cfx__worlds *w = &e->dims->worlds;
    cfx__symbol *s = cfx__worlds_find(w, name);
    if (!s) {
        cfx__worlds_add(w, name, like.least, like.most, like.hint);
        s = cfx__worlds_find(w, name);
        s->any = like.any;
        s->joined = like.joined;
        s->apart = like.apart;
        cfx__worlds_choose(w, e->k, 0);
    }
    return s;
}

/* The next symbol for what only running can tell. */
static const cfx__symbol *next_symbol(cfx__export *e, cfx__symbol like) {
    return symbol(e, cfx__text_format("u%d", e->data_sizes++), like);
}

/* A size that depends on data may be anything: as large as a count of elements can be, or larger
 * where numbers in a tensor say how large. */
int64_t cfx__unknown_size(cfx__recorder *r) {
    cfx__export *e = (cfx__export *)r;
    bool said = cfx__ctx()->op && strstr(cfx__ctx()->op, "repeat_interleave");
    const cfx__symbol *s =
        next_symbol(e, (cfx__symbol){.most = said ? INT64_MAX : INT64_MAX - 1});
    return s->size.at[e->k];
}

static cfx_value marked(cfx__recorder *r, const cfx__symbol *s, cfx_value v, cfx_node *n) {
    if (n && n->graph) /* which is told apart by it (merge.c) */
        cfx_node_set_meta(n, "data", cfx_string_value(s->name));
    return cfx__mark_put(r, (cfx__mark){.data = true, .value = v, .symbol = s->name, .node = n});
}

cfx_value cfx__unknown_number(cfx__recorder *r, cfx_value like, cfx_node *n) {
    static const double part = 0.37109375; /* of floats: no other number has it by chance */
    cfx__export *e = (cfx__export *)r;
    cfx__symbol any = {.least = INT64_MIN + 1, .most = INT64_MAX, .any = true};
    if (like.tag == CFX_TAG_FLOAT) {
        any.apart = true;
        const cfx__symbol *s = symbol(e, cfx__text_format("zuf%d", e->data_reals++), any);
        return marked(r, s, cfx_float((double)s->size.at[e->k] + part), n);
    }
    if (like.tag == CFX_TAG_BOOL) {
        const cfx__symbol *s = next_symbol(
            e, (cfx__symbol){.most = 1, .hint = 1, .any = true, .apart = true});
        return marked(r, s, cfx_bool(s->size.at[e->k] != 0), n);
    }
    any.hint = cfx_integer(cfx__value_plain(like));
    const cfx__symbol *s = next_symbol(e, any);
    return marked(r, s, cfx_int(s->size.at[e->k]), n);
}

/* What is the same in both branches, in all worlds, is no symbol. */
cfx_value cfx__unknown_either(cfx__recorder *r, int64_t a, int64_t b) {
    cfx__export *e = (cfx__export *)r;
    cfx__joints *all = e->joints;
    size_t i = (size_t)e->joined++;
    while (all->apart.len <= i)
        VEC_PUSH(all->apart, false);
    if (a != b && !all->apart.data[i]) {
        all->apart.data[i] = true;
        all->late |= e->k > 0;
    }
    if (!all->apart.data[i])
        return cfx_int(a);
    const cfx__symbol *s = next_symbol(e, (cfx__symbol){.most = INT64_MAX, .joined = true});
    return marked(r, s, cfx_int(s->size.at[e->k]), NULL);
}
