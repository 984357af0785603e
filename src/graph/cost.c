/* Costs of a program from what is noted of its nodes: FLOPs by the operators' own formulas on
 * tensors without numbers, memory by how long each result is needed. */
#include <cfx/cost.h>

#include "graph.h"

static void cost_free(void *p) { cfx__free(((cfx_cost *)p)->nodes); }

static const cfx__obj_type cost_type = {.name = "cost", .free = cost_free};
static const cfx_cost bad_cost = {.head = {.refs = 1, .flags = CFX__BAD, .type = &cost_type},
                            .peak_at = -1};

enum { DEEPEST = 64 }; /* graphs in graphs */

typedef struct counter {
    cfx_cost *cost;
    size_t room;
    const cfx_dict *sizes;
    cfx_program *program; /* NULL in sub-graphs */
    const cfx_module *owner;
    int *row;             /* by node id: its number in cost->nodes */
    int *base;            /* by node id: the node whose memory its result lies in */
    int first;            /* row of the graph's first node */
    int deep;
} counter;

/* ---- values ---------------------------------------------------------------------------------- */

/* The largest number where it would be beyond all. */
static int64_t apply(cfx__sym_op op, int64_t a, int64_t b) {
    int64_t out;
    return cfx__sym_apply(op, a, b, &out) ? out : INT64_MAX;
}

static bool size_of(const struct cfx_sym *name, void *user, int64_t *out) {
    const counter *c = user;
    cfx_value v = c->sizes ? cfx_dict_get(c->sizes, name->name) : cfx_none();
    if (v.tag != CFX_TAG_INT && !name->has_hint)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "nothing tells how large %s is: give it a size",
                 name->name);
    *out = v.tag == CFX_TAG_INT ? cfx_integer(v) : name->hint;
    return true;
}

static int64_t evaluate(const counter *c, const struct cfx_sym *e) {
    int64_t out;
    return cfx__sym_eval(e, size_of, (void *)c, &out) ? out : INT64_MAX;
}

static int64_t number(const counter *c, cfx_value v) {
    return v.tag == CFX_TAG_SYM   ? evaluate(c, cfx_as_sym(v))
           : v.tag == CFX_TAG_INT ? cfx_integer(v)
                                  : 0;
}

/* A result as a value without numbers, symbols replaced; scope. None where nothing is known. */
static cfx_value without_numbers(const counter *c, const cfx_result *r) {
    if (r->kind == CFX_RESULT_INT)
        return cfx_int(number(c, r->value));
    if (r->kind == CFX_RESULT_TENSOR) {
        int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
        for (int i = 0; i < r->ndim; i++) {
            shape[i] = number(c, cfx_result_size(r, i));
            stride[i] = number(c, cfx_result_stride(r, i));
        }
        return cfx_tensor_value(cfx_tensor_fake(r->dtype, r->ndim, shape, stride));
    }
    if (r->kind != CFX_RESULT_SEVERAL)
        return r->value;
    cfx_value all = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_result_count(r); i++) {
        cfx_result item = cfx_result_item(r, i);
        cfx_list_append(cfx_as_list(all), without_numbers(c, &item));
    }
    return all;
}

static cfx_value as_value(cfx_node *n, void *user) {
    const counter *c = user;
    const cfx_module *owner = c->owner ? c->owner : n->graph->owner;
    cfx_value given = cfx_module_attr(owner, n->op == CFX_GET_ATTR ? n->target.name : "");
    if (given.tag == CFX_TAG_TENSOR)
        return cfx_value_keep(given);
    cfx_result r = cfx_node_result(n);
    return cfx_value_keep(without_numbers(c, &r));
}

static int64_t bytes_of(const counter *c, const cfx_result *r) {
    int64_t n = 0;
    if (r->kind == CFX_RESULT_TENSOR) {
        n = cfx_dtype_size(r->dtype);
        for (int i = 0; i < r->ndim; i++)
            n = apply(CFX__SYM_MUL, n, number(c, cfx_result_size(r, i)));
    }
    for (int64_t i = 0; r->kind == CFX_RESULT_SEVERAL && i < cfx_result_count(r); i++) {
        cfx_result item = cfx_result_item(r, i);
        n = apply(CFX__SYM_ADD, n, bytes_of(c, &item));
    }
    return n;
}

int64_t cfx__result_bytes(const cfx_result *r, const cfx_dict *sizes) {
    counter c = {.sizes = sizes};
    return bytes_of(&c, r);
}

/* ---- FLOPs ----------------------------------------------------------------------------------- */

static int64_t flops_of(counter *c, const cfx_node *n, bool *unknown) {
    cfx_op *op = n->op == CFX_CALL_FUNCTION && !n->target.fn ? n->target.op : NULL;
    bool tensor = cfx_node_result(n).kind == CFX_RESULT_TENSOR;
    *unknown = n->op == CFX_CALL_MODULE || n->op == CFX_CALL_METHOD ||
               (n->op == CFX_CALL_FUNCTION && n->target.fn && tensor && !cfx_node_is_getitem(n));
    if (!op || !cfx_ok())
        return 0;
    cfx_value args = cfx__value_scope_own(cfx__node_map(n->args, as_value, c));
    cfx_value kwargs = cfx__value_scope_own(cfx__node_map(n->kwargs, as_value, c));
    if (!cfx_ok())
        return 0;
    cfx_args a = {(int)cfx_as_list(args)->len, cfx_as_list(args)->items, cfx_as_dict(kwargs)};
    int64_t flops = cfx_op_flops((cfx_site){0}, op, a);
    if (flops >= 0)
        return flops;
    cfx__error_forgive(); /* metadata that does not fit the operator: the call is not counted */
    *unknown = true;
    return 0;
}

int64_t cfx__node_flops(const cfx_node *n, const cfx_dict *sizes) {
    counter c = {.sizes = sizes};
    bool unknown;
    int64_t flops = 0;
    CFX_SCOPE flops = flops_of(&c, n, &unknown);
    return flops;
}

/* ---- memory ---------------------------------------------------------------------------------- */

const cfx_node *cfx__node_aliased(const cfx_node *n) {
    if (cfx_node_takes_result(n))
        return cfx_node_input(n, 0);
    cfx_op *op = n->op == CFX_CALL_FUNCTION && !n->target.fn ? n->target.op : NULL;
    const cfx__schema *s = op ? cfx__op_info_of(op)->schema : NULL;
    if (!s || s->nrets != 1 || !s->rets[0].alias)
        return NULL;
    for (int i = 0; i < s->nargs && i < cfx_as_list(n->args)->len; i++) {
        cfx_value v = cfx_as_list(n->args)->items[i];
        if (s->args[i].alias != s->rets[0].alias || v.tag != CFX_TAG_NODE)
            continue;
        cfx_result from = cfx_node_result(cfx_as_node(v)), to = cfx_node_result(n);
        bool copy = from.dtype != to.dtype ||
                    (!op->view && !s->args[i].writes && from.ndim == to.ndim &&
                     !cfx_result_equal(&from, &to)); /* contiguous() of what was not */
        return copy ? NULL : cfx_as_node(v);
    }
    return NULL;
}

static bool is_weight(const counter *c, const cfx_node *n, int placeholder) {
    return n->op == CFX_GET_ATTR ||
           (n->op == CFX_PLACEHOLDER && c->program && placeholder < c->program->ninputs &&
            c->program->inputs[placeholder].kind != CFX_IN_USER);
}

/* Gives each node of the graph its time of death, and from these what is alive when. Sizes may be
 * the largest number each, so sums are wider than they. */
static void find_live(counter *c, const cfx_graph *g) {
    cfx_node_cost *rows = c->cost->nodes;
    cfx_each_node(g, n) cfx_each_input(n, u) {
        cfx_node_cost *owner = &rows[c->row[c->base[cfx__node_of(u->node)->id]]];
        int at = c->row[cfx__node_of(n)->id];
        owner->freed = at > owner->freed ? at : owner->freed;
    }
    int end = c->cost->n;
    __int128 *change = cfx__alloc0((size_t)(end - c->first + 2) * sizeof *change);
    cfx_each_node(g, n) {
        const cfx_node_cost *r = &rows[c->row[cfx__node_of(n)->id]];
        change[r - rows - c->first] += r->bytes;
        change[r->freed - c->first + 1] -= r->bytes;
    }
    __int128 live = 0;
    for (int i = c->first; i < end; i++) {
        live += change[i - c->first];
        if (rows[i].node->graph == g)
            rows[i].live = apply(CFX__SYM_ADD, rows[i].live, /* what a sub-graph in it needs */
                                 live < INT64_MAX ? (int64_t)live : INT64_MAX);
    }
    cfx__free(change);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void count_graph(counter *c, const cfx_module *gm);

/* The sub-graphs of a higher-order call: what they cost is what it costs. */
static void count_inside(counter *c, int row, const cfx_node *n) {
    bool choice = cfx__higher_is(n, "cond");
    int64_t flops = 0, peak = 0;
    cfx_each_input(n, u) {
        cfx_module *m = u->node->op == CFX_GET_ATTR
                            ? cfx_module_find(c->owner, u->node->target.name)
                            : NULL;
        if (!m || !m->graph || c->deep >= DEEPEST)
            continue;
        int first = c->cost->n;
        counter inner = {.cost = c->cost, .room = c->room, .sizes = c->sizes, .deep = c->deep + 1};
        count_graph(&inner, m);
        c->room = inner.room;
        int64_t own = 0;
        for (int i = first; i < c->cost->n; i++) {
            const cfx_node_cost *r = &c->cost->nodes[i];
            if (r->node->graph != m->graph)
                continue;
            own = apply(CFX__SYM_ADD, own, r->flops);
            peak = r->live > peak ? r->live : peak;
        }
        flops = apply(choice ? CFX__SYM_MAX : CFX__SYM_ADD, flops, own);
    }
    c->cost->nodes[row].flops = flops;
    c->cost->nodes[row].live = peak;
}

static void count_node(counter *c, cfx_node *n, int *placeholders) {
    uint32_t id = cfx__node_of(n)->id;
    int row = c->cost->n++;
    if (c->room < (size_t)c->cost->n) {
        c->room = c->room ? 2 * c->room : 64;
        c->cost->nodes = cfx__realloc(c->cost->nodes, c->room * sizeof *c->cost->nodes);
    }
    cfx_node_cost r = {.node = n, .owner = c->owner, .freed = row};
    const cfx_node *from = cfx__node_aliased(n);
    bool own = !from && n->op != CFX_OUTPUT && !is_weight(c, n, *placeholders);
    *placeholders += n->op == CFX_PLACEHOLDER;
    c->row[id] = row;
    c->base[id] = from ? c->base[cfx__node_of(from)->id] : (int)id;
    CFX_SCOPE {
        cfx_result result = cfx_node_result(n);
        r.bytes = own && !(c->deep && n->op == CFX_PLACEHOLDER) ? bytes_of(c, &result) : 0;
        r.flops = flops_of(c, n, &r.unknown);
    }
    c->cost->nodes[row] = r;
    if (cfx_node_higher_order(n))
        count_inside(c, row, n);
}

static void count_graph(counter *c, const cfx_module *gm) {
    size_t made = gm->graph->made.len + 1;
    c->owner = gm;
    c->first = c->cost->n;
    c->row = cfx__alloc0(made * sizeof *c->row);
    c->base = cfx__alloc0(made * sizeof *c->base);
    int placeholders = 0;
    cfx_each_node(gm->graph, n) count_node(c, n, &placeholders);
    find_live(c, gm->graph);
    cfx__free(c->row);
    cfx__free(c->base);
}

cfx_cost *cfx_program_cost(cfx_program *p, const cfx_dict *sizes) {
    if (!cfx__program_given((cfx_site){0}, p) || !cfx_ok())
        return (cfx_cost *)&bad_cost;
    cfx_cost *cost = cfx__obj_new(&cost_type, sizeof *cost);
    counter c = {.cost = cost, .sizes = sizes, .program = p};
    cost->peak_at = -1;
    count_graph(&c, p->module);
    for (int i = 0; i < cost->n; i++) {
        const cfx_node_cost *r = &cost->nodes[i];
        cost->unknown += r->unknown;
        if (r->node->graph != p->module->graph)
            continue;
        cost->flops = apply(CFX__SYM_ADD, cost->flops, r->flops);
        cost->bytes = apply(CFX__SYM_ADD, cost->bytes, r->bytes);
        if (r->live > cost->peak) {
            cost->peak = r->live;
            cost->peak_at = i;
        }
    }
    return cfx_ok() ? cost : (cfx_cost *)&bad_cost;
}
