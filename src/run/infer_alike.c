/* Calls that are alike: the same operator, the same plain arguments, and inputs of which the same
 * is noted. Their shape rule runs once. A program of a million nodes has some hundreds of them.
 *
 * Start at cfx__infer_alike. A table remembers the last two calls at each pair of places; what is
 * noted of inputs is compared by identity, which nodes of one graph share where it is equal
 * (src/graph/meta.c). */
#include "../value/dict.h"
#include "infer.h"

typedef cfx__inference inference;

enum { PLACES = 1 << 10, MOST_INPUTS = 8 };

struct cfx__alike {
    struct {
        uint64_t hash;
        cfx_node *node; /* NULL: the place is free */
    } at[PLACES];
    uint64_t version; /* of the graph: arguments may differ after a change */
    const cfx_graph *graph;
};

/* Whether the result of a call depends on nothing but its arguments, without what they hold. */
static bool is_plain(const inference *f, const cfx_node *n) {
    const cfx_op *op = n->op == CFX_CALL_FUNCTION ? n->target.op : NULL;
    if (!op || n->target.fn || n->target.object || f->region ||
        op->effects & (CFX_FOREIGN | CFX_SIDE | CFX_DATA_SHAPE) || cfx_node_higher_order(n))
        return false;
    const cfx__op_info *info = cfx__op_info_of(n->target.op);
    for (int i = 0; info && i < info->schema->nargs; i++)
        if (info->schema->args[i].writes)
            return false;
    int inputs = 0;
    cfx_each_input(n, u) inputs++;
    return info && inputs <= MOST_INPUTS;
}

/* ---- results -------------------------------------------------------------------------------- */

bool cfx__infer_is_view(const cfx_node *n) {
    if (cfx_node_is_getitem(n) && n->inputs)
        n = cfx_node_input(n, 0);
    cfx_op *op = n->op == CFX_CALL_FUNCTION ? n->target.op : NULL;
    return op && (op->view || cfx__op_shares(op, 0));
}

bool cfx__infer_same(const cfx_result *a, const cfx_result *b) {
    if (a->kind != b->kind)
        return a->kind == CFX_RESULT_UNKNOWN || b->kind == CFX_RESULT_UNKNOWN;
    bool same = cfx_result_count(a) == cfx_result_count(b);
    if (a->kind == CFX_RESULT_TENSOR) {
        same = a->dtype == b->dtype && a->ndim == b->ndim;
        for (int i = 0; same && i < a->ndim; i++)
            same = a->shape[i] == b->shape[i];
    } else if (a->value.tag == CFX_TAG_INT && b->value.tag == CFX_TAG_INT) {
        same = cfx_integer(a->value) == cfx_integer(b->value);
    }
    for (int64_t i = 0; same && a->kind == CFX_RESULT_SEVERAL && i < cfx_result_count(a); i++) {
        cfx_result x = cfx_result_item(a, i), y = cfx_result_item(b, i);
        same = cfx__infer_same(&x, &y);
    }
    return same;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* What is noted of an input, as `reader` sees it; None where the node itself has to be the same. */
static cfx_value noted(const inference *f, cfx_node **n, const cfx_node *reader) {
    *n = cfx__infer_latest(f, *n, reader);
    cfx_value v = (*n)->op == CFX_GET_ATTR ? cfx_none() : cfx_node_get_meta(*n, "val");
    return v.tag == CFX_TAG_STR ? cfx_none() : v;
}

static uint64_t hash_in(const inference *f, cfx_value v, const cfx_node *reader) {
    uint64_t h = v.tag;
    switch (v.tag) {
    case CFX_TAG_NODE: {
        cfx_node *n = cfx_as_node(v);
        cfx_value val = noted(f, &n, reader);
        return cfx__hash_mix(h, cfx_is_none(val) ? cfx__node_of(n)->id : cfx__value_bits(val));
    }
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE:
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            h = cfx__hash_mix(h, hash_in(f, cfx_as_list(v)->items[i], reader));
        return h;
    case CFX_TAG_DICT:
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++)
            h = cfx__hash_mix(h, hash_in(f, cfx_as_dict(v)->entries[i].value, reader));
        return h;
    default: return cfx__value_hash(v);
    }
}

typedef struct pair {
    const inference *f;
    const cfx_node *a, *b; /* the calls */
} pair;

static bool same_nodes(const pair *p, cfx_node *x, cfx_node *y) {
    cfx_value v = noted(p->f, &x, p->a), w = noted(p->f, &y, p->b);
    return x == y || (!cfx_is_none(v) && cfx__value_is(v, w) &&
                      cfx__infer_is_view(x) == cfx__infer_is_view(y));
}

static bool same_in(const pair *p, cfx_value x, cfx_value y) {
    if (x.tag != y.tag)
        return false;
    if (x.tag == CFX_TAG_NODE)
        return same_nodes(p, cfx_as_node(x), cfx_as_node(y));
    if (x.tag == CFX_TAG_LIST || x.tag == CFX_TAG_TUPLE) {
        const cfx_list *a = cfx_as_list(x), *b = cfx_as_list(y);
        bool same = a->len == b->len;
        for (int64_t i = 0; same && i < a->len; i++)
            same = same_in(p, a->items[i], b->items[i]);
        return same;
    }
    if (x.tag == CFX_TAG_DICT) {
        const cfx_dict *a = cfx_as_dict(x), *b = cfx_as_dict(y);
        bool same = a->len == b->len;
        for (int64_t i = 0; same && i < a->len; i++)
            same = cfx_equal_values(a->entries[i].key, b->entries[i].key) &&
                   same_in(p, a->entries[i].value, b->entries[i].value);
        return same;
    }
    return cfx_equal_values(x, y);
}

static bool are_alike(const inference *f, cfx_node *a, cfx_node *b) {
    pair p = {f, a, b};
    return a->target.op == b->target.op && same_in(&p, a->args, b->args) &&
           same_in(&p, a->kwargs, b->kwargs);
}

/* ---- the table ------------------------------------------------------------------------------- */

cfx_node *cfx__infer_alike(inference *f, cfx_node *n) {
    f->place = NULL;
    if (!is_plain(f, n))
        return NULL;
    if (!f->alike)
        f->alike = cfx__alloc0(sizeof *f->alike);
    struct cfx__alike *t = f->alike;
    if (t->graph != n->graph || t->version != n->graph->version) {
        memset(t->at, 0, sizeof t->at);
        t->graph = n->graph;
        t->version = n->graph->version;
    }
    uint64_t h = cfx__hash_mix((uint64_t)(uintptr_t)n->target.op, hash_in(f, n->args, n));
    h = cfx__hash_mix(h, hash_in(f, n->kwargs, n));
    const int i = (int)((h ^ h >> 32) % PLACES), other = i ^ 1;
    for (int k = 0; k < 2; k++) {
        cfx_node *seen = t->at[i ^ k].node;
        if (seen && t->at[i ^ k].hash == h && are_alike(f, seen, n))
            return seen;
    }
    if (t->at[i].node) /* two kinds of calls that take turns do not drive each other out */
        t->at[other] = t->at[i];
    t->at[i].node = NULL;
    t->at[i].hash = h;
    f->place = &t->at[i].node;
    return NULL;
}

void cfx__infer_learned(inference *f, cfx_node *n) {
    if (f->place)
        *f->place = n;
    f->place = NULL;
}

bool cfx__infer_is_known(inference *f, cfx_node *n) {
    const cfx_node *alike = cfx__infer_alike(f, n);
    cfx_result a = cfx_node_result(n), b = cfx_node_result(alike ? alike : n);
    return alike && cfx_result_equal(&a, &b);
}
