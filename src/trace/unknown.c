/* Data-dependent sizes and numbers during an export: each is a symbol, u0, u1, ..., and a plain
 * number in each world; floats are zuf0, zuf1, ... */
#include <cfx/ops.h>

#include "export.h"
#include "relations.h"

/* The numbers in world k of all symbols but the last, mixed. */
static uint64_t others(const cfx__worlds *w, int k) {
    uint64_t all = 0;
    for (size_t i = 0; i + 1 < w->symbols.len; i++)
        all = all * 6364136223846793005u + (uint64_t)w->symbols.data[i].size.at[k];
    return all;
}

/* The symbol called so, as `like` says where it is new: to fit what is implied, those that were
 * recorded with may become others. */
static const cfx__symbol *symbol(cfx__export *e, const char *name, cfx__symbol like) {
    cfx__worlds *w = &e->dims->worlds;
    cfx__symbol *s = cfx__worlds_find(w, name);
    if (!s) {
        cfx__worlds_add(w, name, like.least, like.most, like.hint);
        s = cfx__worlds_find(w, name);
        s->any = like.any;
        s->joined = like.joined;
        s->apart = like.apart;
        cfx__implied_assume(w, s->name);
        const uint64_t before = others(w, e->k);
        cfx__worlds_choose(w, e->k, 0);
        e->unlucky |= w->implied.len && others(w, e->k) != before;
    }
    return s;
}

/* The next symbol for what only running can tell. */
static const cfx__symbol *next_symbol(cfx__export *e, cfx__symbol like) {
    return symbol(e, cfx__text_format("u%d", e->data_sizes++), like);
}

/* ---- what was read already ------------------------------------------------------------------- */

static cfx__read *find_read(cfx__export *e, const cfx_tensor *t, bool count) {
    const cfx__record_shadow *s = t ? cfx__record_shadow_of(t) : NULL;
    for (size_t i = 0; s && s->node && i < e->read.len; i++) {
        cfx__read *r = &e->read.data[i];
        if (r->graph == e->recorder.graph && r->node == s->node && r->count == count &&
            r->version == t->storage->version)
            return r;
    }
    return NULL;
}

static void note_read(cfx__export *e, const cfx_tensor *t, cfx__read read) {
    const cfx__record_shadow *s = t ? cfx__record_shadow_of(t) : NULL;
    if (!s || !s->node || !t->storage)
        return;
    read.graph = e->recorder.graph;
    read.node = s->node;
    read.version = t->storage->version;
    VEC_PUSH(e->read, read);
}

static bool is_mask(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->dtype == CFX_BOOL;
}

bool cfx__unknown_counts(const cfx_op *op) {
    return op == &cfx_op_nonzero || op == &cfx_op_nonzero_numpy || op == &cfx_op_where;
}

void cfx__unknown_count(cfx__recorder *r, cfx_op *op, const cfx_value *args) {
    const bool index = op == &cfx_op_index_Tensor && args[1].tag == CFX_TAG_LIST;
    if (!r->marks)
        return;
    cfx__export *e = (cfx__export *)r;
    const bool counts = cfx__unknown_counts(op) && args[0].tag == CFX_TAG_TENSOR;
    e->counted = counts ? cfx_as_tensor(args[0]) : NULL;
    for (int64_t i = 0, n = 0; index && i < cfx_as_list(args[1])->len; i++)
        if (is_mask(cfx_as_list(args[1])->items[i]))
            e->counted = n++ ? NULL : cfx_as_tensor(cfx_as_list(args[1])->items[i]);
}

/* ---- sizes and numbers ----------------------------------------------------------------------- */

/* A size that depends on data may be anything: as large as a count of elements can be, or larger
 * where numbers in a tensor say how large. */
int64_t cfx__unknown_size(cfx__recorder *r) {
    cfx__export *e = (cfx__export *)r;
    const cfx__read *read = find_read(e, e->counted, true);
    const cfx__symbol *s = read ? cfx__worlds_find(&e->dims->worlds, read->symbol) : NULL;
    if (s)
        return s->size.at[e->k];
    bool said = cfx__ctx()->op && strstr(cfx__ctx()->op, "repeat_interleave");
    s = next_symbol(e, (cfx__symbol){.most = said ? INT64_MAX : INT64_MAX - 1});
    note_read(e, e->counted, (cfx__read){.count = true, .symbol = s->name});
    return s->size.at[e->k];
}

/* A slice that is cut by data is as long as that says, up to the whole (checks.c). */
int64_t cfx__unknown_part(cfx__recorder *r, int64_t n) {
    cfx__export *e = (cfx__export *)r;
    if (!e->cut)
        return n;
    const cfx__symbol *s = next_symbol(e, (cfx__symbol){.most = INT64_MAX - 1});
    int64_t length = s->size.at[e->k];
    cfx__check_assume(r, (cfx_site){0}, (cfx__relation){CFX__LE, cfx__sym_name(s->name, false, 0),
                                                        cfx_int(e->whole)});
    e->cut = false;
    return length;
}

/* The symbols since the last call are of sizes that n gives; those of numbers say so themselves. */
void cfx__unknown_sized(cfx__recorder *r, cfx_node *n) {
    cfx__export *e = (cfx__export *)r;
    cfx_value names = cfx_list_value(0, NULL);
    for (; e->sized < e->data_sizes; e->sized++)
        cfx_list_append(cfx_as_list(names),
                        cfx_string_value(cfx__text_format("u%d", e->sized)));
    if (cfx_as_list(names)->len)
        cfx_node_set_meta(n, "data", names);
}

/* The symbol that size number dim of an input is; NULL: it is none, or n is no input. */
static const char *input_symbol(const cfx_node *n, int64_t dim) {
    const bool input = n && n->op == CFX_PLACEHOLDER;
    cfx_value val = input ? cfx_node_get_meta(n, "val") : cfx_none();
    cfx_value sizes =
        val.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(val), "shape") : cfx_none();
    cfx_value size = sizes.tag == CFX_TAG_TUPLE && dim < cfx_len(sizes) ? cfx_at(sizes, (int)dim)
                                                                        : cfx_none();
    const bool symbol = size.tag == CFX_TAG_SYM && cfx_as_sym(size)->op == CFX__SYM_NAME;
    return symbol ? cfx_as_sym(size)->name : NULL;
}

const char *cfx__unknown_name(const cfx__recorder *r, const cfx_tensor *t, int64_t dim) {
    const cfx__export *e = (const cfx__export *)r;
    const cfx__record_shadow *made = r->marks ? cfx__record_shadow_of(t) : NULL;
    const char *input = made ? input_symbol(made->node, dim < 0 ? dim + t->ndim : dim) : NULL;
    if (input)
        return input;
    cfx_value names = made && made->node ? cfx_node_get_meta(made->node, "data") : cfx_none();
    for (int64_t i = 0; names.tag == CFX_TAG_LIST && i < cfx_as_list(names)->len; i++) {
        const cfx__symbol *s =
            cfx__worlds_find(&e->dims->worlds, cfx_text(cfx_as_list(names)->items[i]));
        int64_t first = 0;
        while (s && first < t->ndim && t->shape[first] != s->size.at[e->k])
            first++;
        if (s && first == (dim < 0 ? dim + t->ndim : dim))
            return s->name;
    }
    return NULL;
}

static cfx_value marked(cfx__recorder *r, const cfx__symbol *s, cfx_value v, cfx_node *n) {
    ((cfx__export *)r)->sized = ((cfx__export *)r)->data_sizes;
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

bool cfx__unknown_item(cfx__recorder *r, cfx_site at, cfx_op *op, const cfx_value *args,
                       cfx_value *result) {
    enum { LIKE = 2 }; /* a size, perhaps */
    const cfx_tensor *t = op == &cfx_op_item || op == &cfx_op__local_scalar_dense
                              ? cfx_as_tensor(args[0])
                              : NULL;
    bool known = t && t->data && !(r->holds && r->holds(r, t));
    const cfx__read *read = t && r->marks ? find_read((cfx__export *)r, t, false) : NULL;
    if (read) {
        *result = read->value;
        return true;
    }
    if (!t || known || t->numel != 1 || cfx__dtype_is_complex(t->dtype) || !r->unknown)
        return false;
    cfx_value like = t->dtype == CFX_BOOL            ? cfx_bool(true)
                     : cfx__dtype_is_float(t->dtype) ? cfx_float(LIKE)
                                                     : cfx_int(LIKE);
    cfx_node *n = cfx__record_node(r, at, (cfx_target){.op = op, .name = cfx_op_name(op)},
                                   cfx_tuple(cfx__record_arg(r, at, args[0])), cfx_none(), "item");
    *result = n->graph ? r->unknown(r, like, n) : cfx_bad();
    if (n->graph)
        cfx_node_set_meta(n, "val", cfx__value_plain(*result));
    if (n->graph && r->marks)
        note_read((cfx__export *)r, t, (cfx__read){.value = *result});
    return true;
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
