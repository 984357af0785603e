/* cfx_tensor_parallel: the program of one rank. The graph is visited in order: layers with a
 * replicated input are cut by output features; layers with a sharded input by input features,
 * followed by an all-reduce. If an operator has no rule for its sharded inputs, the layers that
 * produced them are marked as whole and the analysis starts again, until every operator has a
 * rule. Start at cfx_tensor_parallel; shard_rules.c has the rules. */
#include <cfx/ops.h>

#include "shard.h"

static uint32_t id_of(const cfx_node *n) { return cfx__node_of(n)->id; }

/* ---- pieces ---------------------------------------------------------------------------------- */

static const cfx__piece all_of_it = {.dim = -1};

const cfx__piece *cfx__shard_piece(const cfx__shard *s, const cfx_node *n) {
    uint32_t id = id_of(n);
    return id < s->pieces.len ? &s->pieces.data[id] : &all_of_it;
}

void cfx__shard_set(cfx__shard *s, const cfx_node *n, cfx__piece piece) {
    while (s->pieces.len <= id_of(n))
        VEC_PUSH(s->pieces, all_of_it);
    s->pieces.data[id_of(n)] = piece;
}

static const cfx_node *whole_of(const cfx__shard *s, const cfx_node *n) {
    return id_of(n) < s->of.len ? s->of.data[id_of(n)] : NULL;
}

static void set_whole(cfx__shard *s, const cfx_node *n, const cfx_node *of) {
    while (s->of.len <= id_of(n))
        VEC_PUSH(s->of, NULL);
    s->of.data[id_of(n)] = of;
}

void cfx__shard_same(cfx__shard *s, const cfx_node *n, const cfx_node *like) {
    set_whole(s, n, whole_of(s, like));
}

cfx_result cfx__shard_whole(const cfx__shard *s, const cfx_node *n) {
    const cfx_node *of = whole_of(s, n);
    return of ? cfx_node_result(of) : (cfx_result){0};
}

int64_t cfx__shard_size(const cfx__shard *s, const cfx_node *n, int dim) {
    cfx_result r = cfx__shard_whole(s, n);
    if (r.kind != CFX_RESULT_TENSOR || dim < -r.ndim || dim >= r.ndim)
        return -1;
    cfx_value size = cfx_result_size(&r, dim);
    if (size.tag == CFX_TAG_SYM)
        return cfx_as_sym(size)->has_hint ? cfx_as_sym(size)->hint : -1;
    return size.tag == CFX_TAG_INT ? cfx_integer(size) : -1;
}

static uint32_t find(const cfx__shard *s, uint32_t id) {
    while (s->joined[id] != id)
        id = s->joined[id] = s->joined[s->joined[id]];
    return id;
}

void cfx__shard_join(cfx__shard *s, uint32_t a, uint32_t b) { s->joined[find(s, a)] = find(s, b); }

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

int64_t cfx__shard_begin(const cfx__shard *s, const cfx__piece *p, int64_t size, int rank) {
    const int64_t units = p->units ? p->units : s->ranks, each = size / units;
    return each * (p->cover ? p->cover * rank / s->ranks / (p->cover / units)
                            : units * rank / s->ranks);
}

static int64_t shard_end(const cfx__shard *s, const cfx__piece *p, int64_t size, int rank) {
    if (!p->cover)
        return cfx__shard_begin(s, p, size, rank + 1);
    const int64_t shared = p->cover / p->units, last = p->cover * (rank + 1) / s->ranks;
    return size / p->units * ((last + shared - 1) / shared);
}

int64_t cfx__shard_part(const cfx__shard *s, const cfx__piece *p, int64_t size) {
    return shard_end(s, p, size, s->rank) - cfx__shard_begin(s, p, size, s->rank);
}

const char *cfx__shard_divides(const cfx__shard *s, int64_t size, int64_t least, int64_t *units) {
    *units = size % s->ranks ? size : 0;
    return size / s->ranks >= least ? NULL
                                    : cfx__text_format("its %lld results are too few for %d ranks",
                                                       (long long)size, s->ranks);
}

bool cfx__shard_ask_units(cfx__shard *s, const cfx__piece *p, int64_t units) {
    const uint32_t set = find(s, p->by);
    bool news = false;
    for (uint32_t i = 0; i < s->whole->module->graph->made.len; i++) {
        if (!s->cut[i] || find(s, i) != set)
            continue;
        int64_t *had = &s->layout[i].units, both = gcd(units, *had);
        if (both < s->ranks)
            return false;
        news |= both != *had;
        *had = both;
    }
    /* another value of the same layer may have asked in this round: the next piece is that */
    const int64_t next = s->layout[p->by].units;
    news |= next % s->ranks && next != p->units;
    s->again |= news;
    s->asked |= news;
    return news;
}

/* Whether a rank has less of `fine` units where the coarser ones cover them. */
static bool covers(const cfx__shard *s, const cfx__piece *coarse, int64_t fine) {
    if (!coarse->units || fine % coarse->units || coarse->cover || coarse->nsegments > 1)
        return false;
    const int64_t shared = fine / coarse->units;
    return (coarse->units + s->ranks - 1) / s->ranks * shared > (fine + s->ranks - 1) / s->ranks;
}

enum { NEVER = -1 }; /* what a layout covers */

static bool ask_cover(cfx__shard *s, const cfx__piece *coarse, int64_t cover) {
    const uint32_t set = find(s, coarse->by);
    const uint32_t n = (uint32_t)s->whole->module->graph->made.len;
    for (uint32_t i = 0; i < n && cover > 0; i++)
        if (s->cut[i] && find(s, i) == set && s->layout[i].cover)
            return false;
    for (uint32_t i = 0; i < n; i++)
        if (s->cut[i] && find(s, i) == set)
            s->layout[i].cover = cover;
    s->again = s->asked = true;
    return true;
}

bool cfx__shard_uncover(cfx__shard *s, const cfx__piece *p) {
    return ask_cover(s, p, NEVER) && false;
}

bool cfx__shard_agree(cfx__shard *s, const cfx__piece *a, const cfx__piece *b, int64_t size) {
    const bool first = a->units && (!b->units || a->units < b->units);
    const cfx__piece *coarse = first ? a : b, *fine = first ? b : a;
    const int64_t units = fine->units ? fine->units : size;
    if (!fine->cover && fine->nsegments <= 1 && covers(s, coarse, units) &&
        ask_cover(s, coarse, units))
        return true;
    return cfx__shard_ask_units(s, fine, coarse->units);
}

bool cfx__shard_ask(cfx__shard *s, const cfx__piece *p, int n, const int64_t *segments) {
    int layers = 0;
    bool fits = n <= CFX__SEGMENTS && !s->layout[p->by].nsegments, even = true;
    int64_t units = 0;
    for (int i = 0; fits && i < n; i++) {
        fits = segments[i] >= s->ranks;
        even = even && segments[i] % s->ranks == 0;
        units = gcd(segments[i], units);
    }
    fits = fits && (even || units >= s->ranks);
    for (uint32_t i = 0; fits && i < s->whole->module->graph->made.len; i++)
        layers += s->cut[i] && find(s, i) == find(s, p->by);
    if (!fits || layers != 1)
        return false;
    cfx__piece *l = &s->layout[p->by];
    l->nsegments = n;
    l->units = even ? l->units : gcd(units, l->units);
    memcpy(l->segments, segments, (size_t)n * sizeof *segments);
    s->again = s->asked = true;
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static cfx_node *call(cfx_node *at, const cfx_node *like, const char *op, cfx_value args) {
    return cfx__call_new(at, like, op, args, cfx_dict_value(cfx_dict_new()));
}

void cfx__shard_give(cfx_node *user, cfx_node *old, cfx_node *with) {
    if (old != with)
        cfx_node_replace_input(user, old, with);
}

/* A view that only moves dimensions is made of a piece of what it looks at, so that weights are cut
 * where they lie. */
int cfx__shard_dim_before(const cfx__shard *s, const cfx_node *n, int dim) {
    cfx_result r = cfx__shard_whole(s, n);
    if (cfx__call_is(n, "t") && r.ndim == 2)
        return 1 - dim;
    if (cfx__call_is(n, "transpose")) {
        int a = (int)cfx_integer(cfx__call_arg(n, "dim0"));
        int b = (int)cfx_integer(cfx__call_arg(n, "dim1"));
        a += a < 0 ? r.ndim : 0;
        b += b < 0 ? r.ndim : 0;
        return dim == a ? b : dim == b ? a : dim;
    }
    cfx_value dims = cfx__call_is(n, "permute") ? cfx__call_arg(n, "dims") : cfx_none();
    if (dims.tag != CFX_TAG_LIST && dims.tag != CFX_TAG_TUPLE)
        return -1;
    int64_t from = cfx_integer(cfx_as_list(dims)->items[dim]);
    return (int)(from < 0 ? from + r.ndim : from);
}

static cfx_node *cut_stretch(cfx__shard *s, cfx_node *at, cfx_node *n, const cfx__piece *as,
                             int64_t from, int64_t size) {
    int64_t start = from + cfx__shard_begin(s, as, size, s->rank);
    return call(at, n, "aten.slice.Tensor",
                cfx_tuple(n, cfx_int(as->dim), cfx_int(start),
                          cfx_int(start + cfx__shard_part(s, as, size))));
}

cfx_node *cfx__shard_cut(cfx__shard *s, cfx_node *at, cfx_node *n, const cfx__piece *as) {
    int before = n->num_users == 1 ? cfx__shard_dim_before(s, n, as->dim) : -1;
    cfx_node *made;
    if (before >= 0) {
        cfx__piece inner = *as;
        inner.dim = before;
        cfx_node *from = n->inputs->node;
        cfx__shard_give(n, from, cfx__shard_cut(s, n, from, &inner));
        made = n;
    } else if (as->nsegments > 1) {
        cfx_value parts = cfx_list_value(0, NULL);
        int64_t from = 0;
        for (int i = 0; i < as->nsegments; from += as->segments[i++])
            cfx_list_append(cfx_as_list(parts), cfx_node_value(cut_stretch(
                                                    s, at, n, as, from, as->segments[i])));
        made = call(at, n, "aten.cat.default", cfx_tuple(parts, cfx_int(as->dim)));
    } else {
        made = cut_stretch(s, at, n, as, 0, cfx__shard_size(s, n, as->dim));
    }
    cfx__shard_same(s, made, n);
    cfx__shard_set(s, made, *as);
    return made;
}

bool cfx__shard_exact(cfx__shard *s, cfx_node *n, cfx_node *x, int64_t heads) {
    cfx__piece p = *cfx__shard_piece(s, x);
    const int64_t size = cfx__shard_size(s, x, p.dim);
    cfx__piece own = p;
    own.units = p.cover % s->ranks ? p.cover : 0;
    own.cover = 0;
    if (heads != p.cover || heads % size)
        return false;
    cfx_node *all = x;
    if (heads != size)
        all = call(n, x, "aten.repeat_interleave.self_int",
                   cfx_tuple(x, cfx_int(heads / size), cfx_int(p.dim)));
    const int64_t from = cfx__shard_begin(s, &own, heads, s->rank) -
                         cfx__shard_begin(s, &p, heads, s->rank);
    cfx_node *made = call(n, x, "aten.slice.Tensor",
                          cfx_tuple(all, cfx_int(p.dim), cfx_int(from),
                                    cfx_int(from + cfx__shard_part(s, &own, heads))));
    cfx__shard_same(s, made, x);
    cfx__shard_set(s, made, own);
    cfx__shard_give(n, x, made);
    return true;
}

static cfx_node *waited(cfx_node *at, cfx_node *n, const char *op, cfx_value args) {
    cfx_node *sent = call(at, n, op, args);
    return call(at, n, "_c10d_functional.wait_tensor.default", cfx_tuple(sent));
}

/* What a rank has of all stretches, elements along the dimension. */
static int64_t total_of(const cfx__shard *s, const cfx__piece *p, const int64_t *sizes, int n,
                        int rank) {
    int64_t sum = 0;
    for (int k = 0; k < n; k++)
        sum += cfx__shard_begin(s, p, sizes[k], rank + 1) - cfx__shard_begin(s, p, sizes[k], rank);
    return sum;
}

/* Zeros behind a piece that is smaller than others: all that is gathered has one size. */
static cfx_node *padded(cfx_node *at, cfx_node *n, int dim, int ndim, int64_t missing) {
    cfx_value pad = cfx_list_value(0, NULL);
    for (int i = ndim - 1; i >= dim; i--) {
        cfx_list_append(cfx_as_list(pad), cfx_int(0));
        cfx_list_append(cfx_as_list(pad), cfx_int(i == dim ? missing : 0));
    }
    return missing ? call(at, n, "aten.constant_pad_nd.default", cfx_tuple(n, pad)) : n;
}

static cfx_node *item_of(cfx_node *at, cfx_node *several, int i) {
    cfx_node *item = NULL;
    CFX_INSERT_BEFORE(at->graph, at)
        item = cfx_graph_call_function(at->graph, "operator.getitem", cfx_tuple(several, i),
                                       cfx_none());
    return item;
}

/* All of a value that each rank has a piece of. */
static cfx_node *gather(cfx__shard *s, cfx_node *at, cfx_node *n) {
    const cfx__piece p = *cfx__shard_piece(s, n);
    const cfx_result whole = cfx__shard_whole(s, n);
    const int64_t size = cfx__shard_size(s, n, p.dim);
    const int64_t *sizes = p.nsegments > 1 ? p.segments : &size;
    const int stretches = p.nsegments > 1 ? p.nsegments : 1;
    int64_t own = total_of(s, &p, sizes, stretches, s->rank), most = own;
    for (int i = 0; p.units && i < s->ranks; i++) {
        const int64_t other = total_of(s, &p, sizes, stretches, i);
        most = other > most ? other : most;
    }
    cfx_node *sent = p.units ? padded(at, n, p.dim, whole.ndim, most - own) : n;
    cfx_node *all = waited(at, sent, "_c10d_functional.all_gather_into_tensor.default",
                           cfx_tuple(sent, cfx_int(s->ranks), "0"));
    if (p.dim > 0 || stretches > 1 || p.units) { /* ranks lie one behind the other in dimension 0 */
        cfx_node *parts = call(at, n, "aten.chunk.default", cfx_tuple(all, cfx_int(s->ranks)));
        cfx_value list = cfx_list_value(0, NULL);
        VEC(int64_t) from = {0}; /* by rank: where the next stretch begins in what it sent */
        VEC(cfx_node *) of = {0};
        for (int i = 0; i < s->ranks; i++) {
            VEC_PUSH(from, 0);
            VEC_PUSH(of, item_of(at, parts, i));
        }
        for (int k = 0; k < stretches; k++)
            for (int i = 0; i < s->ranks; i++) {
                const int64_t start = from.data[i];
                cfx_node *part = of.data[i];
                from.data[i] += total_of(s, &p, &sizes[k], 1, i);
                if (stretches > 1 || p.units)
                    part = call(at, n, "aten.slice.Tensor",
                                cfx_tuple(part, cfx_int(p.dim), cfx_int(start),
                                          cfx_int(from.data[i])));
                cfx_list_append(cfx_as_list(list), cfx_node_value(part));
            }
        VEC_FREE(from);
        VEC_FREE(of);
        all = call(at, n, "aten.cat.default", cfx_tuple(list, cfx_int(p.dim)));
    }
    cfx__shard_same(s, all, n);
    cfx__shard_set(s, all, all_of_it);
    return all;
}

typedef struct spared {
    const cfx_node *first, *last;
} spared;

static bool is_later(cfx_node *user, void *data) {
    const spared *s = data;
    return user != s->first && user != s->last;
}

void cfx__shard_reduce(cfx__shard *s, cfx_node *n, cfx_node *bias) {
    cfx_node *at = cfx_node_after(n);
    cfx_node *sent = call(at, n, "_c10d_functional.all_reduce.default", cfx_tuple(n, "sum", "0"));
    cfx_node *sum = call(at, n, "_c10d_functional.wait_tensor.default", cfx_tuple(sent));
    if (bias)
        sum = call(at, n, "aten.add.Tensor", cfx_tuple(sum, bias));
    spared spare = {sent, sum};
    cfx_node_replace_if(n, sum, is_later, &spare);
    cfx__shard_same(s, sum, n);
    cfx__shard_set(s, sum, all_of_it);
    cfx__shard_set(s, n, all_of_it);
}

/* The piece of n is made whole for one user; the layers that cut it stay whole next time. */
static cfx_node *refuse(cfx__shard *s, cfx_node *user, cfx_node *n) {
    VEC_PUSH(s->failed, cfx__shard_piece(s, n)->by);
    VEC_PUSH(s->reasons, cfx__text_format("%s (%s) takes no piece of it", user->name,
                                          user->target.name));
    return gather(s, user, n);
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* What takes no pieces gets all. */
static void make_whole(cfx__shard *s, cfx_node *n) {
    cfx_value inputs = cfx_node_inputs(n);
    for (int64_t i = 0; i < cfx_as_list(inputs)->len; i++) {
        cfx_node *x = cfx_as_node(cfx_as_list(inputs)->items[i]);
        if (cfx__shard_piece(s, x)->dim < 0)
            continue;
        if (cfx__shard_piece(s, x)->cover)
            cfx__shard_uncover(s, cfx__shard_piece(s, x));
        bool fine = n->op == CFX_OUTPUT || s->asked; /* the next round does better */
        cfx_node *all = fine ? gather(s, n, x) : refuse(s, n, x);
        cfx__shard_give(n, x, all);
    }
}

static bool has_pieces(const cfx__shard *s, const cfx_node *n) {
    cfx_each_input(n, u) if (cfx__shard_piece(s, u->node)->dim >= 0) return true;
    return false;
}

static void walk(cfx__shard *s) {
    cfx_graph *g = s->program->module->graph;
    cfx_each_node(g, n) set_whole(s, n, cfx_graph_find(s->whole->module->graph, n->name));
    for (cfx_node *n = cfx_graph_first(g), *next; n && cfx_ok(); n = next) {
        next = cfx_node_after(n);
        s->asked = false;
        bool known = !whole_of(s, n) || n->op == CFX_PLACEHOLDER || n->op == CFX_GET_ATTR;
        if (!known && n->op == CFX_CALL_FUNCTION)
            known = cfx__shard_rule(s, n);
        if (!known && has_pieces(s, n))
            make_whole(s, n);
    }
}

/* Layers whose pieces met something that takes none stay whole from now on. */
static void veto(cfx__shard *s) {
    for (size_t i = 0; i < s->failed.len; i++)
        for (uint32_t k = 0; k < s->whole->module->graph->made.len; k++)
            if (s->cut[k] && !s->whole_because[k] && find(s, k) == find(s, s->failed.data[i])) {
                s->whole_because[k] = s->reasons.data[i];
                s->again = true;
            }
    s->failed.len = s->reasons.len = 0;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Whether a slice has its bounds in numbers. */
static bool is_plain(const cfx_node *n) {
    cfx_value end = cfx__call_arg(n, "end");
    return cfx__call_arg(n, "start").tag == CFX_TAG_INT && end.tag == CFX_TAG_INT &&
           cfx_equal_values(cfx__call_arg(n, "step"), cfx_int(1)) &&
           cfx_integer(end) < INT32_MAX && cfx_integer(cfx__call_arg(n, "start")) >= 0;
}

/* What all users of a tensor take of it: one slice, or slices that are put together at once. NULL
 * where they take something else. */
static cfx_node *only_part(const cfx_node *n) {
    cfx_node *first = n->users ? n->users->user : NULL, *whole = NULL;
    bool same = true, joined = true;
    cfx_each_user(n, u) {
        if (!cfx__call_is(u->user, "slice") || u->user->inputs->node != n || !is_plain(u->user))
            return NULL;
        same &= cfx_equal_values(u->user->args, first->args);
        cfx_node *by = u->user->num_users == 1 ? u->user->users->user : NULL;
        whole = whole ? whole : by;
        joined &= by && by == whole && cfx__call_is(by, "cat");
    }
    joined = joined && whole && cfx_as_list(cfx__call_arg(whole, "tensors"))->len == n->num_users;
    return same && first ? first : joined ? whole : NULL;
}

static cfx_tensor *part_of(cfx_tensor *t, const cfx_node *slice) {
    int64_t from = cfx_integer(cfx__call_arg(slice, "start"));
    return cfx_narrow(t, cfx_integer(cfx__call_arg(slice, "dim")), from,
                      cfx_integer(cfx__call_arg(slice, "end")) - from);
}

/* The part itself, in memory of its own. */
static cfx_tensor *taken(cfx_tensor *t, const cfx_node *part) {
    if (!cfx__call_is(part, "cat"))
        return cfx_clone(part_of(t, part));
    const cfx_list *slices = cfx_as_list(cfx__call_arg(part, "tensors"));
    cfx_value all = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < slices->len; i++)
        cfx_list_append(cfx_as_list(all),
                        cfx_tensor_value(part_of(t, cfx_as_node(slices->items[i]))));
    return cfx_cat(all, cfx_integer(cfx__call_arg(part, "dim")));
}

/* Tensors of which a rank reads one part alone become that part. */
static void cut_weights(cfx__shard *s) {
    cfx_program *p = s->program;
    for (int i = 0; i < p->ninputs && cfx_ok(); i++)
        CFX_SCOPE {
            const cfx_input_spec *in = &p->inputs[i];
            cfx_node *n = cfx_graph_find(p->module->graph, in->name);
            cfx_tensor *t = cfx_program_tensor(p, in);
            cfx_node *part = n && t ? only_part(n) : NULL;
            cfx_tensor *own = part ? taken(t, part) : NULL;
            if (own && cfx_ok()) {
                cfx_dict_set(cfx__program_tensors(p, in), in->target, cfx_tensor_value(own));
                cfx_node_set_meta(n, "val", cfx__tensor_faked_in(cfx_tensor_value(own)));
                cfx_value users = cfx__call_is(part, "cat") ? cfx_tuple(part) : cfx_node_users(n);
                for (int64_t k = 0; k < cfx_as_list(users)->len; k++)
                    cfx_node_replace_with(cfx_as_node(cfx_as_list(users)->items[k]),
                                          cfx_node_value(n));
            }
        }
}

/* Buffers that pieces are written to have to be read in such pieces alone. */
static void check_written(cfx__shard *s) {
    for (size_t i = 0; i < s->written.len; i++)
        if (!only_part(s->written.data[i])) {
            VEC_PUSH(s->failed, s->written_by.data[i]);
            VEC_PUSH(s->reasons, cfx__text_format("%s is written to, and read as a whole too",
                                                  s->written.data[i]->name));
        }
    s->written.len = s->written_by.len = 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

static void open_round(cfx__shard *s) {
    s->again = false;
    s->pieces.len = s->of.len = 0;
    for (uint32_t i = 0; i < s->whole->module->graph->made.len; i++) {
        s->joined[i] = i;
        s->cut[i] = false;
    }
    s->program = cfx_program_copy(s->whole);
}

static bool finish(cfx__shard *s) {
    cut_weights(s);
    cfx_graph_eliminate_dead_code(s->program->module->graph);
    cfx_each_node(s->program->module->graph, n) cfx__node_of(n)->stale = n->op != CFX_PLACEHOLDER;
    return cfx_ok() && cfx_program_sync(s->program) && cfx_program_infer(s->program);
}

static void fill_report(const cfx__shard *s, cfx_dict *report) {
    cfx_value cut = cfx_list_value(0, NULL), whole = cfx_dict_value(cfx_dict_new());
    cfx_each_node(s->whole->module->graph, n) {
        if (s->cut[id_of(n)]) /* by its inputs, though an earlier round refused to by results */
            cfx_list_append(cfx_as_list(cut), cfx_string_value(n->name));
        else if (s->whole_because[id_of(n)])
            cfx_dict_set(cfx_as_dict(whole), n->name,
                         cfx_string_value(s->whole_because[id_of(n)]));
    }
    cfx_dict_set(report, "cut", cut);
    cfx_dict_set(report, "whole", whole);
}

cfx_program *cfx_tensor_parallel(const cfx_program *p, int rank, int ranks, cfx_dict *report) {
    if (!cfx_ok() || !cfx__program_whole((cfx_site){0}, p) || !cfx_program_infer(p))
        return &cfx__program_bad;
    if (ranks < 1 || rank < 0 || rank >= ranks) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "there is no rank %d of %d", rank, ranks);
        return &cfx__program_bad;
    }
    size_t mark = cfx_scope_open(), ids = p->module->graph->made.len + 1;
    cfx__shard s = {.whole = p, .rank = rank, .ranks = ranks};
    s.joined = cfx__alloc0(ids * sizeof *s.joined);
    s.cut = cfx__alloc0(ids * sizeof *s.cut);
    s.layout = cfx__alloc0(ids * sizeof *s.layout);
    s.whole_because = cfx__alloc0(ids * sizeof *s.whole_because);
    do {
        open_round(&s);
        walk(&s);
        check_written(&s);
        veto(&s);
    } while (s.again && cfx_ok());
    bool fine = cfx_ok() && finish(&s);
    if (fine && report)
        fill_report(&s, report);
    VEC_FREE(s.pieces);
    VEC_FREE(s.of);
    VEC_FREE(s.failed);
    VEC_FREE(s.reasons);
    VEC_FREE(s.written);
    VEC_FREE(s.written_by);
    cfx__free(s.joined);
    cfx__free(s.cut);
    cfx__free(s.layout);
    cfx__free(s.whole_because);
    return cfx_scope_return(mark, fine ? s.program : &cfx__program_bad);
}
