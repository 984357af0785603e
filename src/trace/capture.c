/* Control flow that becomes a node: each body becomes a graph of its own, which the node names, and
 * what it uses of the graph around it an operand. While symbolic tracing a tracer inside the tracer
 * makes the graph, while exporting a branch of the recorder. Start at cfx__capture_call. */
#include "control.h"
#include "record.h"

/* A body on its way into a graph. */
typedef struct {
    cfx__branch branch;
    cfx_list *given; /* what it gave, leaf by leaf; scope */
} made;

static cfx_list *no_items(void) { return cfx_as_list(cfx_list_value(0, NULL)); }

static bool has(const cfx_list *list, cfx_value v) {
    for (int64_t i = 0; i < list->len; i++)
        if (cfx_equal_values(list->items[i], v))
            return true;
    return false;
}

bool cfx__capture_wanted(cfx_args a) {
    if (cfx__recorder_now() && !cfx__recorder_now()->functional)
        return true;
    cfx_list *leaves = no_items();
    cfx_tree_flatten(cfx_tuple_value(a.n, a.v), leaves);
    for (int64_t i = 0; cfx__tracer_now() && i < leaves->len; i++)
        if (cfx__traced_node(leaves->items[i]))
            return true;
    return false;
}

/* ---- one way for tracing and recording ------------------------------------------------------- */

static cfx_value as_argument(cfx_site at, cfx_value v) {
    cfx__tracer *t = cfx__tracer_now();
    return t ? cfx__tracer_arg(t, at, v) : cfx__record_arg(cfx__recorder_now(), at, v);
}

static cfx_graph *graph_now(void) {
    return cfx__tracer_now() ? cfx__tracer_now()->graph : cfx__recorder_now()->graph;
}

/* The node of a graph around a branch in the graph that is being made now. */
static cfx_node *node_here(cfx_node *n) {
    cfx__branch *b = cfx__tracer_now() ? cfx__tracer_now()->branch : cfx__recorder_now()->branch;
    return b ? cfx__branch_lift(b, n) : n;
}

static cfx_node *get_attr(cfx_site at, const char *path) {
    cfx__tracer *t = cfx__tracer_now();
    if (t)
        return cfx__tracer_node(t, at, CFX_GET_ATTR, (cfx_target){.name = path}, (cfx_args){0});
    cfx__recorder *r = cfx__recorder_now();
    cfx_node *n = cfx_graph_get_attr(r->graph, path);
    if (n->graph && r->note)
        r->note(r, at, n);
    return n;
}

/* ---- what bodies are given ------------------------------------------------------------------- */

/* A fake tensor as the body sees an operand: whole, or a row of it, packed. Scope. */
static cfx_tensor *sample(const cfx_tensor *t, bool row) {
    return row ? cfx_tensor_fake((cfx_dtype)t->dtype, t->ndim - 1, t->shape + 1, NULL)
               : cfx__tensor_faked(t);
}

/* A value of the branch: what its next placeholder gives. */
static cfx_value input(cfx__branch *b, cfx_value v, bool row) {
    cfx__recorder *r = cfx__recorder_now();
    cfx_node *n = cfx__branch_input(b);
    if (cfx__tracer_now())
        return cfx_tensor_value(cfx__traced_tensor(n));
    if (v.tag != CFX_TAG_TENSOR) {
        cfx_node_set_meta(n, "val", cfx__value_plain(v));
        return v;
    }
    cfx_tensor *like = sample(cfx_as_tensor(v), row);
    if (cfx__obj_is_bad(like))
        return cfx_bad();
    cfx_node_set_meta(n, "val", cfx_tensor_value(like));
    return cfx_tensor_value(cfx__recorded_tensor(r, n, like));
}

static bool is_operand(const cfx__capture *c, cfx_value v) {
    return c->plain_too || v.tag == CFX_TAG_TENSOR;
}

static cfx_list *inputs(const cfx__capture *c, cfx__branch *b) {
    cfx_list *all = no_items();
    for (int p = 0; p < c->nparts; p++)
        for (int k = 0; k < (c->part[p].times ? c->part[p].times : 1); k++)
            for (int64_t i = 0; i < cfx_len(c->part[p].values); i++) {
                const cfx__capture_part *part = &c->part[p];
                cfx_value v = cfx_at(cfx_is_none(part->seen) ? part->values : part->seen, i);
                if (is_operand(c, v))
                    v = input(b, v, part->rows);
                cfx_list_append(all, v);
            }
    return all;
}

/* ---- what bodies must not do ----------------------------------------------------------------- */

/* Whether a result may lie where the argument does: a copy to another dtype does not. */
static bool same_dtype(const cfx_node *a, const cfx_node *b) {
    cfx_value v = cfx_node_get_meta(a, "val"), w = cfx_node_get_meta(b, "val");
    return v.tag != CFX_TAG_TENSOR || w.tag != CFX_TAG_TENSOR ||
           cfx_as_tensor(v)->dtype == cfx_as_tensor(w)->dtype;
}

const cfx_node *cfx__capture_origin(const cfx_node *n) {
    for (;;) {
        const cfx_list *args = cfx_as_list(n->args);
        const cfx_op *op = n->op == CFX_CALL_FUNCTION ? n->target.op : NULL;
        const cfx__schema *s = op ? cfx__op_info_of((cfx_op *)op)->schema : NULL;
        bool shares = cfx_node_takes_result(n) ||
                      (s && s->nargs && s->nrets && s->args[0].alias && s->rets[0].alias);
        if (!shares || !args->len || args->items[0].tag != CFX_TAG_NODE ||
            !same_dtype(n, cfx_as_node(args->items[0])))
            return n;
        n = cfx_as_node(args->items[0]);
    }
}

static bool refuse(const cfx__capture *c, const char *what, const cfx_node *n, const char *hint) {
    cfx_fail(CFX_RUNTIME_ERROR, c->at,
             "Encountered %s during higher order op tracing: %s in a body of %s; %s", what,
             n->name, c->op, hint);
    return false;
}

/* Inputs are not written to, and results share memory with no input and with each other, as
 * torch.export wants it. */
static bool check_body(const cfx__capture *c, cfx_graph *g) {
    cfx_value results = cfx_at(cfx_graph_output_node(g)->args, 0);
    cfx_list *seen = no_items();
    cfx_each_node(g, n) {
        cfx_op *op = n->op == CFX_CALL_FUNCTION ? n->target.op : NULL;
        if (op && cfx__op_info_of(op)->writes && cfx__capture_origin(n)->op == CFX_PLACEHOLDER)
            return refuse(c, "input mutation", n, "write to a clone of it");
    }
    bool several = results.tag == CFX_TAG_TUPLE || results.tag == CFX_TAG_LIST;
    for (int64_t i = 0; several && i < cfx_len(results); i++) {
        cfx_value v = cfx_at(results, i);
        if (v.tag != CFX_TAG_NODE)
            continue;
        cfx_value from = cfx_node_value((cfx_node *)(uintptr_t)cfx__capture_origin(cfx_as_node(v)));
        if (cfx_as_node(from)->op == CFX_PLACEHOLDER || has(seen, from))
            return refuse(c, "aliasing", cfx_as_node(v), "return a clone of it");
        cfx_list_append(seen, from);
    }
    return true;
}

/* ---- a body becomes a graph ------------------------------------------------------------------ */

/* The comparison of numbers that gave a truth. Bad, with an error: C compared them itself. */
static cfx_value comparison(const cfx__capture *c, cfx_value truth) {
    cfx__recorder *r = cfx__recorder_now();
    if (cfx__value_mark(truth))
        return cfx__record_arg(r, c->at, truth);
    cfx_fail(CFX_RUNTIME_ERROR, c->at,
             "the condition of a while_loop is %s and does not depend on its carries: compare "
             "carried numbers by cfx_py(\"operator.lt\", i, n)",
             cfx_value_repr(truth));
    return cfx_bad();
}

static void give(const cfx__capture *c, made *m, bool bare) {
    cfx_value all = c->list ? cfx_list_value(m->given->len, m->given->items)
                            : cfx_tuple_value(m->given->len, m->given->items);
    cfx_value one = bare && m->given->len == 1 ? m->given->items[0] : all;
    cfx_value out = !cfx__tracer_now() && one.tag == CFX_TAG_BOOL
                        ? comparison(c, one)
                        : as_argument(c->at, one);
    if (!cfx_is_bad(out))
        cfx_graph_output(m->branch.graph, out);
}

static void run_body(const cfx__capture *c, int k, made *m) {
    cfx_list *in = inputs(c, &m->branch);
    cfx_value v = cfx_ok() ? c->body[k]->call(c->body[k], c->at,
                                              (cfx_args){(int)in->len, in->items, NULL})
                           : cfx_bad();
    if (!cfx_is_bad(v)) {
        m->given = cfx_as_list(v);
        give(c, m, c->bare && !k);
    }
}

static bool make(const cfx__capture *c, int k, made *m) {
    cfx__tracer *outer = cfx__tracer_now();
    *m = (made){.given = no_items()};
    if (outer) {
        m->branch = cfx__branch_new(outer->graph, outer->branch);
        cfx__tracer t = {.config = outer->config, .graph = m->branch.graph, .root = outer->root,
                         .leaves_only = outer->leaves_only, .branch = &m->branch};
        cfx__tracer_begin(&t);
        run_body(c, k, m);
        cfx__tracer_end(&t);
    } else {
        cfx__recorder *r = cfx__recorder_now();
        cfx__modes before = cfx__modes_now();
        cfx__record_branch_begin(r, &m->branch);
        run_body(c, k, m);
        cfx__record_branch_end(r);
        cfx__modes_restore(before);
        return cfx_ok() && check_body(c, m->branch.graph);
    }
    return cfx_ok();
}

/* ---- what bodies capture --------------------------------------------------------------------- */

/* What of a module comes in the order of its place, before everything else. */
static bool comes_before(cfx_value a, cfx_value b) {
    cfx__recorder *r = cfx__recorder_now();
    const char *p = r && r->place ? r->place(r, cfx_as_node(a)) : NULL;
    const char *q = p ? r->place(r, cfx_as_node(b)) : NULL;
    return p && (!q || strcmp(p, q) < 0);
}

static void insert_sorted(cfx_list *list, int64_t from, cfx_value v) {
    int64_t at = list->len;
    while (at > from && comes_before(v, list->items[at - 1]))
        at--;
    cfx_list_append(list, v);
    for (int64_t i = list->len - 1; i > at; i--) {
        cfx_value t = list->items[i];
        list->items[i] = list->items[i - 1];
        list->items[i - 1] = t;
    }
}

/* What two bodies capture: first what both do, then the first's own, then the second's. */
static cfx_list *captured(const made *m, int nbodies) {
    if (nbodies == 1)
        return m[0].branch.captured;
    const cfx_list *a = m[0].branch.captured, *b = m[1].branch.captured;
    cfx_list *all = no_items();
    for (int64_t i = 0; i < a->len; i++)
        if (has(b, a->items[i]))
            insert_sorted(all, 0, a->items[i]);
    int64_t from = all->len;
    for (int64_t i = 0; i < a->len; i++)
        if (!has(b, a->items[i]))
            insert_sorted(all, from, a->items[i]);
    from = all->len;
    for (int64_t i = 0; i < b->len; i++)
        if (!has(a, b->items[i]))
            insert_sorted(all, from, b->items[i]);
    return all;
}

/* ---- the node -------------------------------------------------------------------------------- */

/* Graphs of one call have one number: the first that is free for the first of them. */
static int free_number(const char *name) {
    const cfx__tracer *t = cfx__tracer_now();
    for (int i = 0;; i++) {
        const char *path = cfx__text_format("%s_%d", name, i);
        if (!cfx__graph_subgraph(graph_now(), path) && !(t && cfx_module_has(t->root, path)))
            return i;
    }
}

static cfx_value part_argument(const cfx__capture *c, int p, const cfx_list *more) {
    cfx_list *all = no_items();
    for (int64_t i = 0; i < cfx_len(c->part[p].values); i++) {
        cfx_value v = cfx_at(c->part[p].values, i);
        if (is_operand(c, v))
            cfx_list_append(all, as_argument(c->at, v));
    }
    for (int64_t i = 0; p == c->nparts - 1 && i < more->len; i++)
        cfx_list_append(all, cfx_node_value(node_here(cfx_as_node(more->items[i]))));
    return c->part[p].tuple ? cfx_tuple_value(all->len, all->items)
                            : cfx_list_value(all->len, all->items);
}

/* The values that the node gives, one for each leaf. */
static cfx_value results(const cfx__capture *c, cfx_node *n, const made *m) {
    const made *last = &m[c->nbodies - 1];
    cfx__tracer *t = cfx__tracer_now();
    if (!n->graph)
        return cfx_bad();
    if (!t) {
        cfx_value like = c->results(c, m[0].given, last->given);
        return cfx_is_bad(like) ? like
                                : cfx__record_results(cfx__recorder_now(), c->at, n, like);
    }
    cfx_value out = cfx_tuple_value(0, NULL);
    cfx_target item = cfx_graph_target(t->graph, "operator.getitem");
    for (int64_t i = 0; i < last->given->len; i++)
        cfx_list_append(cfx_as_list(out),
                        cfx_tensor_value(cfx__traced_tensor(cfx__tracer_node(
                            t, c->at, CFX_CALL_FUNCTION, item, CFX_ARGS(n, i)))));
    return out;
}

static cfx_node *call_node(const cfx__capture *c, const made *m, const cfx_list *more) {
    cfx_list *args = no_items();
    if (!cfx_is_bad(c->pred))
        cfx_list_append(args, as_argument(c->at, c->pred));
    int number = free_number(c->name[0]);
    for (int k = 0; k < c->nbodies; k++) {
        const char *path = cfx__text_format("%s_%d", c->name[k], number);
        cfx__graph_add_subgraph(graph_now(), path, m[k].branch.graph);
        cfx_list_append(args, cfx_node_value(get_attr(c->at, path)));
    }
    for (int p = 0; p < c->nparts; p++)
        cfx_list_append(args, part_argument(c, p, more));
    cfx_target target =
        cfx_graph_target(graph_now(), cfx__text_format("torch.ops.higher_order.%s", c->op));
    cfx__tracer *t = cfx__tracer_now();
    return t ? cfx__tracer_node(t, c->at, CFX_CALL_FUNCTION, target,
                                (cfx_args){(int)args->len, args->items, NULL})
             : cfx__record_node(cfx__recorder_now(), c->at, target,
                                cfx_tuple_value(args->len, args->items), cfx_none(), c->op);
}

cfx_value cfx__capture_call(cfx__capture *c) {
    made m[2];
    for (int k = 0; k < c->nbodies; k++)
        if (!make(c, k, &m[k]))
            return cfx_bad();
    const cfx_list *more = captured(m, c->nbodies);
    for (int k = 0; k < c->nbodies; k++)
        cfx__branch_order(&m[k].branch, more);
    return results(c, call_node(c, m, more), m);
}
