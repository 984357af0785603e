/* Copies of nodes and graphs, equality, hashing, and the removal of dead code. */
#include "../base/given.h"
#include "graph.h"

/* ---- one node ------------------------------------------------------------------------------- */

typedef struct mapping {
    cfx_node_map_fn *map;
    void *user;
} mapping;

static cfx_value map_frozen(cfx_node *n, void *data) {
    const mapping *m = data;
    return cfx__graph_freeze(m->map(n, m->user));
}

/* What a copy takes from its original beside arguments and name. */
static void copy_rest(cfx_node *to, const cfx_node *from) {
    cfx__node_put_target(to, from->target);
    if (from->type)
        to->type = cfx__arena_copy(&to->graph->arena, from->type, strlen(from->type));
    to->meta = cfx_keep(from->meta);
}

/* Whether the inputs of a copy compute what those of its original do, numbers aside. */
static bool same_inputs(const cfx_node *copy, const cfx_node *n) {
    const cfx_use *a = copy->inputs, *b = n->inputs;
    for (; a && b; a = a->next_input, b = b->next_input) {
        cfx_result x = cfx_node_result(a->node), y = cfx_node_result(b->node);
        if (a->node != b->node && !cfx_result_equal(&x, &y))
            return false;
    }
    return !a && !b;
}

cfx_node *cfx_graph_copy_node(cfx_graph *g, cfx_node *n, cfx_node_map_fn *map, void *user) {
    if (!cfx__graph_given(g) || !cfx__node_given(n))
        return cfx__node_bad;
    cfx_value args = n->args, kwargs = n->kwargs;
    size_t mark = cfx_scope_open();
    if (map) {
        mapping m = {map, user};
        args = cfx__node_map(args, map_frozen, &m);
        kwargs = cfx_is_bad(args) ? cfx_none() : cfx__node_map(kwargs, map_frozen, &m);
        cfx__value_scope_own(args);
        cfx__value_scope_own(kwargs);
    }
    cfx_node *copy = cfx__node_bad;
    if (cfx_is_bad(args) || cfx_is_bad(kwargs)) {
        if (cfx_ok())
            cfx_fail(CFX_KEY_ERROR, (cfx_site){0}, "an argument of %s is mapped to a bad value",
                     n->name);
    } else {
        copy = cfx_graph_create(g, n->op, n->target, args, kwargs, n->name, n->type);
        if (copy != cfx__node_bad) {
            copy->meta = cfx_keep(n->meta);
            cfx__node_of(copy)->stale = cfx__node_of(n)->stale || !same_inputs(copy, n);
            cfx__node_of(copy)->refused = cfx__node_of(n)->refused;
            cfx__node_of(copy)->bare = cfx__node_of(n)->bare;
            cfx__node_of(copy)->line = cfx__node_of(n)->line;
        }
    }
    cfx_scope_close(mark);
    return copy;
}

/* ---- into another graph --------------------------------------------------------------------- */

static cfx_value from_dict(cfx_node *n, void *values) {
    const cfx_value *v = cfx_dict_find(values, cfx_node_value(n));
    return v ? *v : cfx_bad();
}

static bool has_value(const cfx_dict *values, cfx_node *n) {
    return cfx_dict_find(values, cfx_node_value(n)) != NULL;
}

/* Whether every argument will be there when its user is copied. */
static bool can_copy(cfx_graph *from, const cfx_dict *values) {
    cfx_each_node(from, n) {
        if (has_value(values, n))
            continue;
        cfx_each_input(n, u)
            if (!has_value(values, u->node) &&
                (u->node->graph != from || !cfx_node_precedes(u->node, n))) {
            cfx_fail(CFX_KEY_ERROR, (cfx_site){0},
                     "Argument '%s' of Node '%s' has no value in the graph it is copied to",
                     u->node->name, n->name);
            return false;
            }
        if (n->op == CFX_OUTPUT)
            break;
    }
    return true;
}

cfx_value cfx_graph_copy_into(cfx_graph *g, cfx_graph *from, cfx_dict *values) {
    if (!cfx__graph_given(g) || !cfx__graph_given(from))
        return cfx_bad();
    size_t mark = cfx_scope_open();
    if (!values)
        values = cfx_dict_new();
    cfx_value result = cfx_none();
    cfx_node *last = from->last; /* from may be g: what is added is not copied again */
    bool good = can_copy(from, values);
    for (cfx_node *n = from->first; good && n; n = n == last ? NULL : cfx_node_after(n)) {
        if (has_value(values, n))
            continue;
        if (n->op == CFX_OUTPUT) {
            mapping m = {from_dict, values};
            if (cfx_as_list(n->args)->len)
                result = cfx__node_map(cfx_as_list(n->args)->items[0], map_frozen, &m);
            cfx__value_scope_own(result);
            break;
        }
        cfx_node *copy = cfx_graph_copy_node(g, n, from_dict, values);
        good = copy != cfx__node_bad;
        if (good)
            cfx_dict_put(values, cfx_node_value(n), cfx_node_value(copy));
    }
    return cfx_scope_return_value(mark, good ? result : cfx_bad());
}

/* ---- the whole graph ------------------------------------------------------------------------ */

typedef struct cloning {
    const cfx_graph *from;
    cfx_node **copies; /* by id in `from` */
} cloning;

static cfx_value cloned(cfx_node *n, void *data) {
    const cloning *c = data;
    bool inside = n->graph == c->from && !n->erased;
    return cfx_node_value(inside ? c->copies[cfx__node_of(n)->id] : n);
}

cfx_graph *cfx_graph_copy(cfx_graph *from) {
    if (!cfx__graph_given(from))
        return &cfx__graph_bad;
    cfx_graph *g = cfx_graph_new();
    cloning c = {from, cfx__alloc0(from->made.len * sizeof *c.copies)};
    cfx__target_row **rows = cfx__alloc0(from->nrows * sizeof *rows);
    VEC_ROOM(g->made, (size_t)from->len);
    cfx__namespace_reserve(&g->names, (size_t)from->len);
    for (cfx_node *n = from->first; n; n = n->next) {
        const cfx__node *own = cfx__node_of(n);
        cfx__target_row **row = &rows[own->row->id];
        if (!*row)
            *row = cfx__graph_row(g, n->op, n->target);
        cfx_node *copy =
            &cfx__graph_append(g, n->op, *row, cfx__name_copy(&g->names, own->name))->pub;
        copy_rest(copy, n);
        c.copies[own->id] = copy;
    }
    for (cfx_node *n = from->first, *copy = g->first; n; n = n->next, copy = copy->next) {
        cfx__node_clone_args(copy, n, cloned, &c);
        cfx__node_of(copy)->stale = cfx__node_of(n)->stale;
        cfx__node_of(copy)->refused = cfx__node_of(n)->refused;
        cfx__node_of(copy)->bare = cfx__node_of(n)->bare;
        cfx__node_of(copy)->line = cfx__node_of(n)->line;
    }
    for (size_t i = 0; i < from->subgraphs.len; i++)
        CFX_SCOPE cfx__graph_add_subgraph(g, from->subgraphs.data[i].name,
                                          cfx_graph_copy(from->subgraphs.data[i].graph));
    g->codegen = from->codegen;
    if (from->tree)
        cfx_graph_set_tree(g, from->tree->names, from->tree->in_spec, from->tree->out_spec);
    cfx__free(rows);
    cfx__free(c.copies);
    return g;
}

/* ---- equality ------------------------------------------------------------------------------- */

/* Nodes stand for their places in the two graphs: place[id] is the number of the node in order. */
typedef struct comparison {
    const cfx_graph *a, *b;
    uint32_t *place_a, *place_b;
} comparison;

static uint32_t *places(const cfx_graph *g) {
    uint32_t *place = cfx__alloc(g->made.len * sizeof *place), k = 0;
    for (const cfx_node *n = g->first; n; n = n->next)
        place[cfx__node_of(n)->id] = k++;
    return place;
}

static bool same_values(const comparison *c, cfx_value a, cfx_value b);

static bool same_nodes(const comparison *c, const cfx_node *a, const cfx_node *b) {
    if (a->graph != c->a || b->graph != c->b || a->erased || b->erased)
        return a == b;
    return c->place_a[cfx__node_of(a)->id] == c->place_b[cfx__node_of(b)->id];
}

static bool same_dicts(const comparison *c, const cfx_dict *a, const cfx_dict *b) {
    bool same = a->len == b->len;
    for (int64_t i = 0; same && i < a->len; i++)
        same = same_values(c, a->entries[i].key, b->entries[i].key) &&
               same_values(c, a->entries[i].value, b->entries[i].value);
    return same;
}

static bool same_floats(double a, double b) {
    return !memcmp(&a, &b, sizeof a) || (a != a && b != b);
}

/* 1, 1.0 and True are three things here, as they are in code; nan is itself. */
static bool same_values(const comparison *c, cfx_value a, cfx_value b) {
    if (a.tag != b.tag)
        return false;
    bool same = true;
    switch (a.tag) {
    case CFX_TAG_NODE: return same_nodes(c, cfx_as_node(a), cfx_as_node(b));
    case CFX_TAG_FLOAT: return same_floats(cfx_number(a), cfx_number(b));
    case CFX_TAG_COMPLEX:
        return same_floats(cfx_as_complex(a)->re, cfx_as_complex(b)->re) &&
               same_floats(cfx_as_complex(a)->im, cfx_as_complex(b)->im);
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE:
        same = cfx_as_list(a)->len == cfx_as_list(b)->len;
        for (int64_t i = 0; same && i < cfx_as_list(a)->len; i++)
            same = same_values(c, cfx_as_list(a)->items[i], cfx_as_list(b)->items[i]);
        return same;
    case CFX_TAG_DICT: return same_dicts(c, cfx_as_dict(a), cfx_as_dict(b));
    case CFX_TAG_SLICE:
        return same_values(c, cfx_as_slice(a)->start, cfx_as_slice(b)->start) &&
               same_values(c, cfx_as_slice(a)->stop, cfx_as_slice(b)->stop) &&
               same_values(c, cfx_as_slice(a)->step, cfx_as_slice(b)->step);
    default: return cfx_equal_values(a, b);
    }
}

static bool same_text(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

/* Whether targets of one name are one object; one that was read from a text may be any. */
static bool same_callee(const cfx_node *a, const cfx_node *b) {
    const cfx_object *x = a->target.object, *y = b->target.object;
    return !x || !y || cfx__object_equal(x, y);
}

bool cfx_graph_equal(const cfx_graph *a, const cfx_graph *b) {
    if (a == b || !a || !b || a->len != b->len)
        return a == b;
    comparison c = {a, b, places(a), places(b)};
    bool same = true;
    for (const cfx_node *n = a->first, *m = b->first; same && n; n = n->next, m = m->next)
        same = n->op == m->op && same_text(n->target.name, m->target.name) && same_callee(n, m) &&
               same_text(n->type, m->type) && same_values(&c, n->args, m->args) &&
               same_values(&c, n->kwargs, m->kwargs);
    cfx__free(c.place_a);
    cfx__free(c.place_b);
    return same;
}

/* ---- hashing -------------------------------------------------------------------------------- */

static uint64_t hash_float(uint64_t h, double f) {
    return f != f ? h : cfx__hash_mix(h, cfx__text_hash(&f, sizeof f));
}

static uint64_t hash_value(const comparison *c, cfx_value v) {
    uint64_t h = cfx__hash_mix(17, v.tag);
    switch (v.tag) {
    case CFX_TAG_NODE:
        if (!c->a)
            return cfx__hash_mix(h, (uintptr_t)cfx_as_node(v));
        if (cfx_as_node(v)->erased || cfx_as_node(v)->graph != c->a)
            return h;
        return cfx__hash_mix(h, c->place_a[cfx__node_of(cfx_as_node(v))->id]);
    case CFX_TAG_FLOAT: return hash_float(h, cfx_number(v));
    case CFX_TAG_COMPLEX:
        return hash_float(hash_float(h, cfx_as_complex(v)->re), cfx_as_complex(v)->im);
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE:
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            h = cfx__hash_mix(h, hash_value(c, cfx_as_list(v)->items[i]));
        return h;
    case CFX_TAG_DICT:
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++) {
            h = cfx__hash_mix(h, hash_value(c, cfx_as_dict(v)->entries[i].key));
            h = cfx__hash_mix(h, hash_value(c, cfx_as_dict(v)->entries[i].value));
        }
        return h;
    case CFX_TAG_SLICE:
        h = cfx__hash_mix(h, hash_value(c, cfx_as_slice(v)->start));
        h = cfx__hash_mix(h, hash_value(c, cfx_as_slice(v)->stop));
        return cfx__hash_mix(h, hash_value(c, cfx_as_slice(v)->step));
    case CFX_TAG_TENSOR:
    case CFX_TAG_MODULE:
    case CFX_TAG_OBJECT:
    case CFX_TAG_OP: return h; /* addresses say nothing about another run */
    default:
        return cfx__hash_mix(h, cfx__value_hash(v));
    }
}

static uint64_t hash_text(uint64_t h, const char *text) {
    return text ? cfx__hash_mix(h, cfx__text_hash(text, strlen(text))) : cfx__hash_mix(h, 0);
}

uint64_t cfx_graph_hash(const cfx_graph *g) {
    uint64_t h = 1;
    if (!g)
        return h;
    comparison c = {.a = g, .place_a = places(g)};
    for (const cfx_node *n = g->first; n; n = n->next) {
        h = cfx__hash_mix(h, n->op);
        h = hash_text(hash_text(h, n->target.name), n->type);
        h = cfx__hash_mix(h, hash_value(&c, n->args));
        h = cfx__hash_mix(h, hash_value(&c, n->kwargs));
    }
    cfx__free(c.place_a);
    return h;
}

uint64_t cfx__node_hash(const cfx_node *n) {
    comparison c = {0};
    uint64_t h = cfx__hash_mix(cfx__hash_mix(1, n->op), (uintptr_t)cfx__node_of(n)->row);
    return cfx__hash_mix(cfx__hash_mix(h, hash_value(&c, n->args)), hash_value(&c, n->kwargs));
}

bool cfx__node_alike(const cfx_node *a, const cfx_node *b) {
    comparison c = {0};
    return cfx__node_of(a)->row == cfx__node_of(b)->row && same_callee(a, b) &&
           same_values(&c, a->args, b->args) && same_values(&c, a->kwargs, b->kwargs);
}

/* ---- dead code ------------------------------------------------------------------------------ */

static int sweep(cfx_graph *g, cfx_impure_fn *stays, void *user) {
    int erased = 0;
    for (cfx_node *n = g->last; n; n = cfx_node_before(n))
        if (!n->num_users && n->op != CFX_OUTPUT && !stays(n, user))
            erased += cfx_graph_erase(n);
    return erased;
}

typedef struct question {
    bool (*stays)(const cfx_node *n);
} question;

static bool ask(const cfx_node *n, void *user) { return ((const question *)user)->stays(n); }

int cfx__graph_sweep(cfx_graph *g, bool (*stays)(const cfx_node *n)) {
    question q = {stays};
    return sweep(g, ask, &q);
}

int cfx_graph_eliminate_dead_code_by(cfx_graph *g, cfx_impure_fn *is_impure, void *user) {
    if (!cfx__graph_lint(g, NULL, NULL) ||
        !cfx__given((cfx_site){0}, (const void *)is_impure, "function that tells what stays"))
        return 0;
    int erased = sweep(g, is_impure, user);
    if (!g->owner)
        return erased;
    cfx_each_node(g, n) { /* the branches of cond and the like */
        if (n->op != CFX_GET_ATTR)
            continue;
        cfx_value v = cfx_module_attr(g->owner, n->target.name);
        if (v.tag == CFX_TAG_MODULE && cfx_as_module(v)->graph)
            erased += cfx_graph_eliminate_dead_code_by(cfx_as_module(v)->graph, is_impure, user);
    }
    return erased;
}

int cfx_graph_eliminate_dead_code(cfx_graph *g) {
    question q = {cfx_node_is_impure};
    return cfx_graph_eliminate_dead_code_by(g, ask, &q);
}
