/* Nodes with sub-graphs: If, Loop, Scan and SequenceMap as higher-order operators. Values of the
 * graph around that a sub-graph uses become operands of the call. Start at cfx__onnx_control. */
#include "onnx.h"

#include "../run/run.h"

static const cfx__onnx_attr *attr(const cfx__onnx_node *n, const char *name) {
    for (size_t i = 0; i < n->nattrs; i++)
        if (!strcmp(n->attrs[i].name, name))
            return &n->attrs[i];
    return NULL;
}

/* The graph of an attribute; NULL, with an error, where there is none. */
static const cfx__onnx_graph *graph_of(cfx__onnx_scope *s, const cfx__onnx_node *n,
                                       const char *name) {
    const cfx__onnx_attr *a = attr(n, name);
    if (!a || a->type != CFX__ONNX_GRAPH || !a->g) {
        cfx__onnx_bad(s->r, "it has no graph '%s'", name);
        return NULL;
    }
    return a->g;
}

/* ---- sub-graphs ------------------------------------------------------------------------------ */

/* A sub-graph that is being made. */
typedef struct {
    cfx__onnx_scope scope;
    const cfx__onnx_graph *from;
} branch;

/* Operands that other sub-graphs of the node have already come first. */
static bool open_branch(branch *b, cfx__onnx_scope *s, const cfx__onnx_graph *g,
                        const cfx_list *operands) {
    b->from = g;
    b->scope = (cfx__onnx_scope){.r = s->r,
                                 .program = s->program,
                                 .module = cfx__module_new_raw("GraphModule", NULL),
                                 .graph = cfx_graph_new(),
                                 .opsets = s->opsets,
                                 .nopsets = s->nopsets,
                                 .outer = s,
                                 .depth = s->depth,
                                 .captured = cfx_as_list(cfx_list_value(0, NULL))};
    bool fine = true;
    for (size_t i = 0; i < g->ninputs && fine; i++) {
        cfx_node *n = cfx_graph_placeholder(b->scope.graph, cfx__onnx_identifier(g->inputs[i].name),
                                            NULL, false, cfx_none());
        fine = n->graph && cfx__onnx_define(&b->scope, g->inputs[i].name, n);
        b->scope.last = n;
    }
    for (int64_t i = 0; operands && i < operands->len; i++)
        cfx__onnx_capture(&b->scope, cfx_as_node(operands->items[i]));
    return fine && cfx_ok();
}

static bool fill_branch(branch *b) {
    cfx_value results = cfx_tuple_value(0, NULL);
    if (!cfx__onnx_tensors(&b->scope, b->from) ||
        !cfx__onnx_nodes(&b->scope, b->from->nodes, b->from->nnodes))
        return false;
    for (size_t i = 0; i < b->from->noutputs; i++) {
        cfx_node *n = cfx__onnx_value(&b->scope, b->from->outputs[i].name);
        if (!n)
            return false;
        cfx_list_append(cfx_as_list(results), cfx_node_value(n));
    }
    return cfx_graph_output(b->scope.graph, results)->graph != NULL;
}

/* Puts the sub-graph under the module of the graph around it; the node that reads it. NULL, with an
 * error. */
static cfx_node *close_branch(branch *b, cfx__onnx_scope *s, const char *kind) {
    int k = 0;
    const char *name;
    do
        name = cfx__text_format("%s_%d", kind, k++);
    while (cfx_module_has(s->module, name));
    cfx_module *gm = cfx_graph_module(b->scope.module, b->scope.graph, "GraphModule");
    if (!gm->graph)
        return NULL;
    cfx_module_set_attr(s->module, name, cfx_module_value(gm));
    cfx_node *n = cfx_graph_get_attr(s->graph, name);
    return n->graph ? n : NULL;
}

static cfx_node *call(cfx__onnx_scope *s, const char *op, cfx_value args) {
    return cfx_graph_create(s->graph, CFX_CALL_FUNCTION,
                            cfx_graph_target(s->graph,
                                             cfx__text_format("torch.ops.higher_order.%s", op)),
                            args, cfx_none(), op, NULL);
}

/* Nodes of values that a node takes, from number `from` up to `to`; None where one is left out.
 * Bad, with an error. */
static cfx_value inputs(cfx__onnx_scope *s, const cfx__onnx_node *n, size_t from, size_t to) {
    cfx_value list = cfx_list_value(0, NULL);
    for (size_t i = from; i < to && i < n->ninputs; i++) {
        cfx_node *v = *n->inputs[i] ? cfx__onnx_value(s, n->inputs[i]) : NULL;
        if (*n->inputs[i] && !v)
            return cfx_bad();
        cfx_list_append(cfx_as_list(list), v ? cfx_node_value(v) : cfx_none());
    }
    return list;
}

static cfx_value as_tuple(const cfx_list *l) { return cfx_tuple_value(l->len, l->items); }

/* ---- If -------------------------------------------------------------------------------------- */

static bool make_if(cfx__onnx_scope *s, const cfx__onnx_node *n) {
    const cfx__onnx_graph *yes = graph_of(s, n, "then_branch");
    const cfx__onnx_graph *no = yes ? graph_of(s, n, "else_branch") : NULL;
    cfx_value pred = inputs(s, n, 0, 1);
    branch b[2] = {0};
    bool fine = no && !cfx_is_bad(pred) && open_branch(&b[0], s, yes, NULL) &&
                fill_branch(&b[0]) && open_branch(&b[1], s, no, b[0].scope.captured) &&
                fill_branch(&b[1]);
    if (fine && cfx_as_list(pred)->len != 1)
        fine = cfx__onnx_bad(s->r, "it has no condition");
    cfx_list *operands = b[1].scope.captured;
    for (int64_t i = 0; fine && i < operands->len; i++)
        cfx__onnx_capture(&b[0].scope, cfx_as_node(operands->items[i]));
    cfx_node *t = fine ? close_branch(&b[0], s, "true_graph") : NULL;
    cfx_node *f = t ? close_branch(&b[1], s, "false_graph") : NULL;
    cfx_node *made = f ? call(s, "cond", cfx_tuple(cfx_at(pred, 0), t, f, as_tuple(operands)))
                       : NULL;
    for (int i = 0; i < 2; i++)
        cfx__onnx_scope_close(&b[i].scope);
    return made && made->graph && cfx__onnx_name_results(s, n, made, true);
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* A body alone, its captured values beside what it is called with. */
static cfx_node *make_body(cfx__onnx_scope *s, const cfx__onnx_node *n, const char *kind,
                           branch *b) {
    const cfx__onnx_graph *g = graph_of(s, n, "body");
    bool fine = g && open_branch(b, s, g, NULL) && fill_branch(b);
    cfx_node *made = fine ? close_branch(b, s, kind) : NULL;
    cfx__onnx_scope_close(&b->scope);
    return made;
}

static bool make_loop(cfx__onnx_scope *s, const cfx__onnx_node *n) {
    branch b = {0};
    cfx_value given = inputs(s, n, 0, n->ninputs);
    cfx_node *body = cfx_is_bad(given) ? NULL : make_body(s, n, "loop_body", &b);
    if (!body)
        return false;
    if (n->ninputs < 2 || b.from->ninputs != n->ninputs)
        return cfx__onnx_bad(s->r, "its body takes %zu values, and is given %zu", b.from->ninputs,
                             n->ninputs);
    cfx_list *all = cfx_as_list(given);
    cfx_node *made = call(s, "onnx_loop",
                          cfx_tuple(body, all->items[0], all->items[1],
                                    cfx_tuple_value(all->len - 2, all->items + 2),
                                    as_tuple(b.scope.captured)));
    return made->graph && cfx__onnx_name_results(s, n, made, true);
}

static bool make_sequence_map(cfx__onnx_scope *s, const cfx__onnx_node *n) {
    branch b = {0};
    cfx_value given = inputs(s, n, 0, n->ninputs);
    cfx_node *body = cfx_is_bad(given) ? NULL : make_body(s, n, "map_body", &b);
    cfx_node *made = body ? call(s, "onnx_sequence_map",
                                 cfx_tuple(body, as_tuple(cfx_as_list(given)),
                                           as_tuple(b.scope.captured)))
                          : NULL;
    return made && made->graph && cfx__onnx_name_results(s, n, made, true);
}

/* ---- Scan ------------------------------------------------------------------------------------ */

/* Number i of a list of integers; 0 where there is none. */
static int64_t number(const cfx__onnx_node *n, const char *name, size_t i) {
    const cfx__onnx_attr *a = attr(n, name);
    return a && a->type == CFX__ONNX_INTS && i < a->n ? a->ints[i] : 0;
}

static cfx_value aten(cfx__onnx_scope *s, const char *op, cfx_value args) {
    cfx_node *n = cfx_graph_call_function(s->graph, op, args, cfx_none());
    return n->graph ? cfx_node_value(n) : cfx_bad();
}

/* x along its first dimension, the other way round where it is to be read backwards. */
static cfx_value along(cfx__onnx_scope *s, cfx_value x, int64_t axis, bool back) {
    if (axis)
        x = aten(s, "torch.ops.aten.movedim.int", cfx_tuple(x, axis, 0));
    return back ? aten(s, "torch.ops.aten.flip.default", cfx_tuple(x, cfx_list(0))) : x;
}

static cfx_value put_back(cfx__onnx_scope *s, cfx_value x, int64_t axis, bool back) {
    if (back)
        x = aten(s, "torch.ops.aten.flip.default", cfx_tuple(x, cfx_list(0)));
    return axis ? aten(s, "torch.ops.aten.movedim.int", cfx_tuple(x, 0, axis)) : x;
}

static bool name_scanned(cfx__onnx_scope *s, const cfx__onnx_node *n, cfx_node *made,
                         size_t states) {
    for (size_t i = 0; i < n->noutputs; i++) {
        if (!*n->outputs[i])
            continue;
        size_t row = i < states ? 0 : i - states;
        cfx_value v = aten(s, "operator.getitem", cfx_tuple(made, (int64_t)i));
        if (i >= states && !cfx_is_bad(v))
            v = put_back(s, v, number(n, "scan_output_axes", row),
                         number(n, "scan_output_directions", row) == 1);
        if (cfx_is_bad(v) || !cfx__onnx_define(s, n->outputs[i], cfx_as_node(v)))
            return false;
    }
    return true;
}

static bool make_scan(cfx__onnx_scope *s, const cfx__onnx_node *n) {
    branch b = {0};
    const cfx__onnx_attr *scanned = attr(n, "num_scan_inputs");
    cfx_value given = inputs(s, n, 0, n->ninputs), rows = cfx_list_value(0, NULL);
    cfx_node *body = cfx_is_bad(given) ? NULL : make_body(s, n, "scan_combine_graph", &b);
    if (!body)
        return false;
    size_t all = (size_t)cfx_as_list(given)->len;
    if (!scanned || scanned->i < 1 || (uint64_t)scanned->i > all || b.from->ninputs != all)
        return cfx__onnx_bad(s->r, "its body takes %zu values, and is given %zu", b.from->ninputs,
                             all);
    size_t states = all - (size_t)scanned->i;
    for (size_t i = states; i < all; i++)
        cfx_list_append(cfx_as_list(rows),
                        along(s, cfx_at(given, (int64_t)i),
                              number(n, "scan_input_axes", i - states),
                              number(n, "scan_input_directions", i - states) == 1));
    cfx_node *made = cfx_ok() ? call(s, "scan",
                                     cfx_tuple(body,
                                               cfx_list_value((int64_t)states,
                                                              cfx_as_list(given)->items),
                                               rows, as_tuple(b.scope.captured)))
                              : NULL;
    return made && made->graph && name_scanned(s, n, made, states);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Before version 9 a scan went over each sequence of a batch, of a length of its own. */
static bool is_old_scan(const cfx__onnx_scope *s, const cfx__onnx_node *n) {
    int64_t version = 1;
    for (size_t i = 0; i < s->nopsets; i++)
        if (!*s->opsets[i].domain)
            version = s->opsets[i].version;
    return !strcmp(n->op, "Scan") && version < 9;
}

bool cfx__onnx_control(cfx__onnx_scope *s, const cfx__onnx_node *n, bool *made) {
    static const struct {
        const char *op;
        bool (*make)(cfx__onnx_scope *s, const cfx__onnx_node *n);
    } kinds[] = {{"If", make_if}, {"Loop", make_loop}, {"Scan", make_scan},
                 {"SequenceMap", make_sequence_map}};
    *made = false;
    for (int i = 0; i < COUNT(kinds) && !*n->domain; i++) {
        if (strcmp(kinds[i].op, n->op))
            continue;
        *made = true;
        if (is_old_scan(s, n))
            return cfx__onnx_lacks(s->r, "scans of operator sets before version 9 are not known");
        return kinds[i].make(s, n);
    }
    return true;
}
