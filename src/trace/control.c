/* Control flow that can be traced: cond, while_loop and map. Outside tracing they simply run. While
 * tracing, each branch is traced into a graph of its own and the whole becomes one node that names
 * these graphs; what a branch uses of the graph around it becomes an operand. Start at
 * cfx_cond_from.
 */
#include "trace.h"

static cfx_value call(cfx_module *self, cfx_forward_fn *fn, int64_t n, const cfx_value *v) {
    return fn(self, (cfx_args){(int)n, v, NULL});
}

/* ---- sub-graphs ------------------------------------------------------------------------------ */

/* A branch on its way into a graph. */
typedef struct branch {
    cfx_module *self;
    cfx_forward_fn *fn;
    cfx__tracer tracer;
    cfx_value spec; /* the shape of its result */
    int nresults;
} branch;

/* What the operands are for a node around the branches. */
typedef struct operands {
    cfx_list *leaves; /* each a node, or a plain value */
    cfx_value spec;
    bool numbered;    /* placeholders are called arg0_1, arg1_1, not as outside */
    bool plain_too;   /* plain values are operands as well, not part of the branches */
} operands;

static bool is_operand(const operands *o, int64_t i) {
    return o->plain_too || o->leaves->items[i].tag == CFX_TAG_NODE;
}

/* The operands as values of the branch: a placeholder for each. */
static cfx_value inputs_of(branch *b, const operands *o) {
    cfx_value leaves = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < o->leaves->len; i++) {
        cfx_value v = o->leaves->items[i];
        if (is_operand(o, i)) {
            const char *name = v.tag == CFX_TAG_NODE && !o->numbered
                                   ? cfx_as_node(v)->name
                                   : cfx__text_format("arg%lld_1", (long long)i);
            cfx__tracer_input(&b->tracer, name);
            v = cfx_tensor_value(cfx__traced_tensor(b->tracer.last_input));
        }
        cfx_list_append(cfx_as_list(leaves), v);
    }
    return cfx_tree_unflatten(o->spec, cfx_as_list(leaves));
}

/* Traces a branch. `before` are nodes around it that another branch of the same node uses: they
 * come first. False, with an error, where it cannot be traced. */
static bool trace_branch(branch *b, cfx_site at, const operands *o, const cfx_list *before,
                         bool one_value) {
    cfx__tracer *outer = cfx__tracer_now(), *t = &b->tracer;
    *t = (cfx__tracer){.config = outer->config, .graph = cfx_graph_new(), .root = outer->root,
                       .leaves_only = outer->leaves_only, .lifted = cfx_dict_new(),
                       .captured = cfx_as_list(cfx_list_value(0, NULL))};
    cfx__tracer_begin(t);
    cfx_value in = inputs_of(b, o);
    for (int64_t i = 0; before && i < before->len; i++)
        cfx__tracer_lift(t, cfx_as_node(before->items[i]));
    cfx_value result =
        cfx_ok() ? call(b->self, b->fn, cfx_as_list(in)->len, cfx_as_list(in)->items) : cfx_bad();
    cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
    if (cfx_ok() && !cfx_is_bad(result)) {
        b->spec = cfx_tree_flatten(result, leaves);
        cfx_value out = one_value && leaves->len == 1
                            ? leaves->items[0]
                            : cfx_tuple_value(leaves->len, leaves->items);
        out = cfx__tracer_arg(t, at, out);
        if (!cfx_is_bad(out))
            cfx_graph_output(t->graph, out);
    }
    b->nresults = (int)leaves->len;
    cfx__tracer_end(t);
    return cfx_ok();
}

/* Gives a branch that was traced first the placeholders that a later one needed. */
static void level(branch *first, const branch *later) {
    cfx__tracer *t = &first->tracer;
    for (int64_t i = t->captured->len; i < later->tracer.captured->len; i++)
        cfx__tracer_lift(t, cfx_as_node(later->tracer.captured->items[i]));
}

/* A get_attr node for the graph of a branch, which the graph around it keeps. */
static cfx_value name_branch(cfx__tracer *t, cfx_site at, const char *name, const branch *b) {
    const char *path = NULL;
    for (int i = 0; !path; i++) {
        const char *free_name = cfx__text_format("%s_%d", name, i);
        if (!cfx_module_has(t->root, free_name) && !cfx__graph_subgraph(t->graph, free_name))
            path = free_name;
    }
    cfx__graph_add_subgraph(t->graph, path, b->tracer.graph);
    return cfx_node_value(cfx__tracer_node(t, at, CFX_GET_ATTR, (cfx_target){.name = path},
                                           (cfx_args){0}));
}

/* ---- the node -------------------------------------------------------------------------------- */

/* Operands as the graph around the branches has them; false, with an error, where they cannot be
 * its arguments. */
static bool read_operands(cfx__tracer *t, cfx_site at, cfx_args a, operands *o) {
    cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
    o->spec = cfx_tree_flatten(cfx_tuple_value(a.n, a.v), leaves);
    o->leaves = cfx_as_list(cfx_list_value(0, NULL));
    for (int64_t i = 0; i < leaves->len; i++) {
        cfx_value v = cfx__tracer_arg(t, at, leaves->items[i]);
        if (cfx_is_bad(v))
            return false;
        cfx_list_append(o->leaves, v);
    }
    return true;
}

static cfx_value operand_list(const operands *o, int64_t from, int64_t to) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = from; i < to; i++)
        if (is_operand(o, i))
            cfx_list_append(cfx_as_list(list), o->leaves->items[i]);
    return list;
}

/* Adds what the branches use of the graph around them. */
static void add_captured(cfx__tracer *t, cfx_value list, const branch *b) {
    for (int64_t i = 0; i < b->tracer.captured->len; i++)
        cfx_list_append(cfx_as_list(list), cfx_node_value(cfx__tracer_lift(
                                               t, cfx_as_node(b->tracer.captured->items[i]))));
}

/* The node, and the result that the caller sees: an item for each leaf of what a branch returns. */
static cfx_value call_node(cfx__tracer *t, cfx_site at, const char *name, cfx_args a, int n,
                           cfx_value spec) {
    cfx_target target = cfx_graph_target(t->graph, name);
    cfx_node *node = cfx__tracer_node(t, at, CFX_CALL_FUNCTION, target, a);
    if (!node->graph)
        return cfx_bad();
    cfx_target item = cfx_graph_target(t->graph, "operator.getitem");
    cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
    for (int i = 0; i < n; i++)
        cfx_list_append(leaves, cfx_tensor_value(cfx__traced_tensor(cfx__tracer_node(
                                    t, at, CFX_CALL_FUNCTION, item, CFX_ARGS(node, i)))));
    return cfx_tree_unflatten(spec, leaves);
}

static bool any_traced(cfx_args a) {
    cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
    cfx_tree_flatten(cfx_tuple_value(a.n, a.v), leaves);
    for (int64_t i = 0; i < leaves->len; i++)
        if (cfx__traced_node(leaves->items[i]))
            return true;
    return false;
}

static bool has_bad(cfx_args a) {
    for (int i = 0; i < a.n; i++)
        if (cfx_is_bad(a.v[i]))
            return true;
    return false;
}

/* ---- cond ------------------------------------------------------------------------------------ */

static cfx_value trace_cond(cfx__tracer *t, cfx_site at, cfx_module *self, cfx_value pred,
                            cfx_forward_fn *yes, cfx_forward_fn *no, cfx_args a) {
    operands o = {0};
    branch b[2] = {{.self = self, .fn = yes}, {.self = self, .fn = no}};
    if (!read_operands(t, at, a, &o) || !trace_branch(&b[0], at, &o, NULL, false) ||
        !trace_branch(&b[1], at, &o, b[0].tracer.captured, false))
        return cfx_bad();
    level(&b[0], &b[1]);
    if (!cfx_equal_values(b[0].spec, b[1].spec)) {
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "Unmatched output spec from torch.cond branches: true branch tree_spec %s vs "
                 "false branch tree_spec %s.",
                 cfx_tree_spec_text(b[0].spec), cfx_tree_spec_text(b[1].spec));
        return cfx_bad();
    }
    cfx_value list = operand_list(&o, 0, o.leaves->len);
    add_captured(t, list, &b[1]);
    cfx_value true_graph = name_branch(t, at, "true_graph", &b[0]);
    cfx_value false_graph = name_branch(t, at, "false_graph", &b[1]);
    return call_node(t, at, "torch.ops.higher_order.cond",
                     CFX_ARGS(pred, true_graph, false_graph, list), b[0].nresults, b[0].spec);
}

cfx_value cfx_cond_from(cfx_site at, cfx_module *self, cfx_value pred, cfx_forward_fn *yes,
                        cfx_forward_fn *no, cfx_args a) {
    if (cfx_is_bad(pred) || has_bad(a) || !yes || !no)
        return cfx_bad();
    if (pred.tag != CFX_TAG_TENSOR && pred.tag != CFX_TAG_BOOL && pred.tag != CFX_TAG_INT) {
        cfx_fail(CFX_RUNTIME_ERROR, at, "Expected pred to be bool or single-element tensor, but "
                 "got %s.", cfx_value_repr(pred));
        return cfx_bad();
    }
    size_t mark = cfx_scope_open();
    cfx__tracer *t = cfx__tracer_now();
    cfx_value v;
    if (t && cfx__traced_node(pred)) {
        v = trace_cond(t, at, self, pred, yes, no, a);
    } else {
        bool taken = cfx_is_true_from(at, pred);
        v = cfx_ok() ? call(self, taken ? yes : no, a.n, a.v) : cfx_bad();
    }
    return cfx_scope_return_value(mark, v);
}

/* ---- while_loop ------------------------------------------------------------------------------ */

/* What a body returned, as a tuple of as many values as it was given. */
static cfx_value carried(cfx_site at, cfx_value v, int n) {
    if (cfx_is_bad(v))
        return v;
    if (v.tag != CFX_TAG_TUPLE && v.tag != CFX_TAG_LIST)
        v = cfx_tuple_value(1, &v);
    if (cfx_as_list(v)->len != n) {
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "body_fn should return as many values as it carries: expected %d, got %lld", n,
                 (long long)cfx_as_list(v)->len);
        return cfx_bad();
    }
    return cfx_tuple_value(cfx_as_list(v)->len, cfx_as_list(v)->items);
}

static cfx_value trace_loop(cfx__tracer *t, cfx_site at, cfx_module *self, cfx_forward_fn *test,
                            cfx_forward_fn *body, cfx_args a) {
    operands o = {.numbered = true, .plain_too = true};
    branch b[2] = {{.self = self, .fn = test}, {.self = self, .fn = body}};
    if (!read_operands(t, at, a, &o) || !trace_branch(&b[0], at, &o, NULL, true) ||
        !trace_branch(&b[1], at, &o, b[0].tracer.captured, false))
        return cfx_bad();
    level(&b[0], &b[1]);
    cfx_value spec =
        b[1].spec.tag == CFX_TAG_TUPLE ? b[1].spec
        : b[1].spec.tag == CFX_TAG_LIST
            ? cfx_tuple_value(cfx_as_list(b[1].spec)->len, cfx_as_list(b[1].spec)->items)
            : cfx_tuple_value(1, &b[1].spec);
    if (!cfx_equal_values(spec, o.spec)) {
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "Expected carried_inputs and body_output to have same tree structure but found: "
                 "carried_inputs tree_spec %s vs body_output tree_spec %s.",
                 cfx_tree_spec_text(o.spec), cfx_tree_spec_text(spec));
        return cfx_bad();
    }
    cfx_value more = cfx_list_value(0, NULL);
    add_captured(t, more, &b[1]);
    cfx_value test_graph = name_branch(t, at, "while_loop_cond_graph", &b[0]);
    cfx_value body_graph = name_branch(t, at, "while_loop_body_graph", &b[1]);
    return call_node(
        t, at, "torch.ops.higher_order.while_loop",
        CFX_ARGS(test_graph, body_graph, operand_list(&o, 0, o.leaves->len), more),
        b[1].nresults, o.spec);
}

static cfx_value run_loop(cfx_site at, cfx_module *self, cfx_forward_fn *test, cfx_forward_fn *body,
                          cfx_args a) {
    cfx_value now = cfx_value_keep(cfx_tuple_value(a.n, a.v));
    bool more = true;
    while (more && cfx_ok()) {
        size_t mark = cfx_scope_open();
        cfx_value held = call(self, test, cfx_as_list(now)->len, cfx_as_list(now)->items);
        more = !cfx_is_bad(held) && cfx_is_true_from(at, held);
        if (more && cfx_ok()) {
            cfx_value next =
                carried(at, call(self, body, cfx_as_list(now)->len, cfx_as_list(now)->items), a.n);
            if (!cfx_is_bad(next)) {
                cfx_value_keep(next);
                cfx_value_drop(now);
                now = next;
            }
        }
        cfx_scope_close(mark);
    }
    cfx__scope_own(cfx__value_object(now));
    return cfx_ok() ? now : cfx_bad();
}

cfx_value cfx_while_loop_from(cfx_site at, cfx_module *self, cfx_forward_fn *test,
                              cfx_forward_fn *body, cfx_args a) {
    if (has_bad(a) || !test || !body)
        return cfx_bad();
    size_t mark = cfx_scope_open();
    cfx__tracer *t = cfx__tracer_now();
    cfx_value v = t && any_traced(a) ? trace_loop(t, at, self, test, body, a)
                                     : run_loop(at, self, test, body, a);
    return cfx_scope_return_value(mark, v);
}

/* ---- map ------------------------------------------------------------------------------------- */

static cfx_value trace_map(cfx__tracer *t, cfx_site at, cfx_module *self, cfx_forward_fn *fn,
                           cfx_args a) {
    operands o = {.numbered = true};
    branch b = {.self = self, .fn = fn};
    if (!read_operands(t, at, a, &o) || !trace_branch(&b, at, &o, NULL, false))
        return cfx_bad();
    cfx_list *mapped = cfx_as_list(cfx_list_value(0, NULL));
    cfx_tree_flatten(a.v[0], mapped);
    cfx_value rest = operand_list(&o, mapped->len, o.leaves->len);
    add_captured(t, rest, &b);
    cfx_value body = name_branch(t, at, "body_graph", &b);
    return call_node(t, at, "torch.ops.higher_order.map_impl",
                     CFX_ARGS(body, operand_list(&o, 0, mapped->len), rest), b.nresults, b.spec);
}

/* How often a map runs: the first size of what is mapped over, which all tensors there share; -1,
 * with an error, where there is none. */
static int64_t map_length(cfx_site at, const cfx_list *xs) {
    int64_t n = -1;
    for (int64_t i = 0; i < xs->len; i++) {
        cfx_value v = xs->items[i];
        if (v.tag != CFX_TAG_TENSOR) {
            cfx_fail(CFX_RUNTIME_ERROR, at,
                     "Mapped xs can only consist of tensors. Got xs %s.", cfx_value_repr(v));
            return -1;
        }
        if (!cfx_as_tensor(v)->ndim || !cfx_as_tensor(v)->shape[0]) {
            cfx_fail(CFX_RUNTIME_ERROR, at,
                     "Leading dimensions of mapped xs cannot be 0, nor can xs be scalars.");
            return -1;
        }
        if (n >= 0 && cfx_as_tensor(v)->shape[0] != n) {
            cfx_fail(CFX_RUNTIME_ERROR, at, "Leading dimensions of mapped xs must be consistent. "
                     "Got %lld and %lld.", (long long)n, (long long)cfx_as_tensor(v)->shape[0]);
            return -1;
        }
        n = cfx_as_tensor(v)->shape[0];
    }
    return n;
}

/* Row i of everything that is mapped over. */
static cfx_value row_of(cfx_value spec, const cfx_list *xs, int64_t i) {
    cfx_list *rows = cfx_as_list(cfx_list_value(0, NULL));
    for (int64_t k = 0; k < xs->len; k++)
        cfx_list_append(rows,
                        cfx_py_from((cfx_site){0}, "torch.select", CFX_ARGS(xs->items[k], 0, i)));
    return cfx_tree_unflatten(spec, rows);
}

static cfx_value run_map(cfx_site at, cfx_module *self, cfx_forward_fn *fn, cfx_args a) {
    cfx_list *xs = cfx_as_list(cfx_list_value(0, NULL)),
             *columns = cfx_as_list(cfx_list_value(0, NULL));
    cfx_value spec = cfx_tree_flatten(a.v[0], xs), shape = cfx_none();
    int64_t n = map_length(at, xs);
    cfx_value args = cfx_tuple_value(a.n, a.v);
    for (int64_t i = 0; i < n && cfx_ok(); i++) {
        cfx_value row = row_of(spec, xs, i);
        cfx_value_drop(cfx_as_list(args)->items[0]);
        cfx_as_list(args)->items[0] = cfx_value_keep(row);
        cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
        cfx_value result = call(self, fn, cfx_as_list(args)->len, cfx_as_list(args)->items);
        if (cfx_is_bad(result))
            return result;
        shape = cfx_tree_flatten(result, leaves);
        for (int64_t k = 0; k < leaves->len; k++) {
            if (!i)
                cfx_list_append(columns, cfx_list_value(0, NULL));
            if (k < columns->len)
                cfx_list_append(cfx_as_list(columns->items[k]), leaves->items[k]);
        }
    }
    cfx_list *stacked = cfx_as_list(cfx_list_value(0, NULL));
    for (int64_t k = 0; k < columns->len && cfx_ok(); k++)
        cfx_list_append(stacked, cfx_py_from(at, "torch.stack", CFX_ARGS(columns->items[k])));
    return cfx_ok() ? cfx_tree_unflatten(shape, stacked) : cfx_bad();
}

cfx_value cfx_map_from(cfx_site at, cfx_module *self, cfx_forward_fn *fn, cfx_args a) {
    if (has_bad(a) || !fn || !a.n)
        return cfx_bad();
    size_t mark = cfx_scope_open();
    cfx__tracer *t = cfx__tracer_now();
    cfx_value v = t && any_traced(a) ? trace_map(t, at, self, fn, a) : run_map(at, self, fn, a);
    return cfx_scope_return_value(mark, v);
}
