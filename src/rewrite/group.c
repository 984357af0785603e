/* Groups: nodes become a graph of their own, called by torch.ops.higher_order.invoke_subgraph, as
 * PyTorch has it for regions that are compiled once and called often. Start at cfx__groups_make. */
#include "group.h"

void cfx__groups_open(cfx__groups *g, cfx_module *gm) {
    *g = (cfx__groups){.module = gm, .len = gm->graph->made.len};
    g->taken = cfx__alloc0(g->len + 1);
    g->like = cfx_keep(cfx_dict_new());
    cfx__alias_open(&g->alias, gm->graph);
}

void cfx__groups_close(cfx__groups *g) {
    cfx__alias_close(&g->alias);
    cfx__free(g->taken);
    cfx_drop(g->like);
    VEC_FREE(g->bodies);
    VEC_FREE(g->nodes);
}

/* ---- which nodes ----------------------------------------------------------------------------- */

static bool is_taken(const cfx__groups *g, const cfx_node *n) {
    uint32_t id = cfx__node_of(n)->id;
    return id >= g->len || g->taken[id];
}

bool cfx__groups_may_take(const cfx__groups *g, const cfx_node *n) {
    if (!cfx__call_op(n) || is_taken(g, n) || cfx_node_is_impure(n) ||
        cfx_node_result(n).kind != CFX_RESULT_TENSOR || cfx__alias_written(&g->alias, n))
        return false;
    cfx_each_input(n, u) if (cfx__alias_written(&g->alias, u->node)) return false;
    return true;
}

void cfx__groups_take(cfx__groups *g, cfx_node *n) {
    VEC_PUSH(g->nodes, n);
    g->taken[cfx__node_of(n)->id] = true;
}

void cfx__groups_leave(cfx__groups *g) {
    for (size_t i = 0; i < g->nodes.len; i++)
        g->taken[cfx__node_of(g->nodes.data[i])->id] = false;
    g->nodes.len = 0;
}

static int by_order(const void *a, const void *b) {
    const cfx_node *x = *(cfx_node *const *)a, *y = *(cfx_node *const *)b;
    return x == y ? 0 : cfx_node_precedes(x, y) ? -1 : 1;
}

/* ---- its graph ------------------------------------------------------------------------------- */

/* Node of the program to node of the group's graph, and what comes from outside, in order. */
typedef struct body {
    cfx_graph *graph;
    cfx_dict *nodes;
    cfx_list *operands;
} body;

static cfx_value inside(cfx_node *n, void *user) {
    body *b = user;
    const cfx_value *known = cfx_dict_find(b->nodes, cfx_node_value(n));
    if (known)
        return *known;
    cfx_node *made = cfx_graph_placeholder(
        b->graph, cfx__text_format("arg%lld_1", (long long)b->operands->len), NULL, false,
        cfx_none());
    cfx_node_set_meta(made, "val", cfx_node_get_meta(n, "val"));
    cfx_dict_put(b->nodes, cfx_node_value(n), cfx_node_value(made));
    cfx_list_append(b->operands, cfx_node_value(n));
    return cfx_node_value(made);
}

/* Placeholders come first: what a node has from outside is made one before any is copied. */
static void find_operands(body *b, const cfx__groups *g) {
    cfx_dict *own = cfx_dict_new();
    for (size_t i = 0; i < g->nodes.len; i++) {
        cfx_each_input(g->nodes.data[i], u)
            if (!cfx_dict_find(own, cfx_node_value(u->node)))
                inside(u->node, b);
        cfx_dict_put(own, cfx_node_value(g->nodes.data[i]), cfx_none());
    }
}

static cfx_module *make_body(body *b, const cfx__groups *g) {
    find_operands(b, g);
    cfx_node *made = NULL;
    for (size_t i = 0; i < g->nodes.len; i++) {
        cfx_node *n = g->nodes.data[i];
        made = cfx_graph_copy_node(b->graph, n, inside, b);
        cfx_dict_put(b->nodes, cfx_node_value(n), cfx_node_value(made));
    }
    cfx_graph_output(b->graph, cfx_tuple(made));
    return cfx_ok() ? cfx_graph_module(NULL, b->graph, NULL) : NULL;
}

/* Whether two graphs do the same to values of the same sizes and dtypes. */
static bool are_same(const cfx_graph *a, const cfx_graph *b) {
    if (!cfx_graph_equal(a, b))
        return false;
    cfx_node *m = cfx_graph_first(b);
    cfx_each_node(a, n) {
        cfx_result x = cfx_node_result(n), y = cfx_node_result(m);
        if (n->op != CFX_OUTPUT && !cfx_result_equal(&x, &y))
            return false;
        m = cfx_node_after(m);
    }
    return true;
}

/* Of targets and numbers: the same for graphs that are. */
static cfx_value hash_of(const cfx_graph *graph) {
    uint64_t h = 0;
    cfx_each_node(graph, n) {
        const cfx_list *args = cfx_as_list(n->args);
        double number = (double)args->len;
        if (n->op == CFX_CALL_FUNCTION)
            h += cfx__text_hash(n->target.name, strlen(n->target.name));
        for (int64_t i = 0; i <= args->len; i++) {
            h = cfx__hash_mix(h, cfx__text_hash(&number, sizeof number));
            cfx_value v = i < args->len ? args->items[i] : cfx_none();
            number = cfx_is_number(v) ? cfx_number(v) : 0;
        }
    }
    return cfx_int((int64_t)(h >> 1));
}

/* The path of the child that has this graph; NULL where none has. */
static const char *path_of(const cfx__groups *g, const cfx_graph *graph) {
    const cfx_value *like = cfx_dict_find(g->like, hash_of(graph));
    for (int64_t i = 0; like && i < cfx_as_list(*like)->len; i++) {
        const cfx__group_body *b = &g->bodies.data[cfx_integer(cfx_as_list(*like)->items[i])];
        if (are_same(b->graph, graph))
            return b->path;
    }
    return NULL;
}

static void note_body(cfx__groups *g, const cfx_graph *graph, const char *path) {
    const cfx_value *known = cfx_dict_find(g->like, hash_of(graph));
    cfx_value like = known ? *known : cfx_list_value(0, NULL);
    if (!known)
        cfx_dict_put(g->like, hash_of(graph), like);
    cfx_list_append(cfx_as_list(like), cfx_int((int64_t)g->bodies.len));
    VEC_PUSH(g->bodies, ((cfx__group_body){graph, path}));
}

/* Makes the graph a child of its own. */
static const char *add_child(cfx__groups *g, cfx_module *made, const char *name) {
    const char *path = NULL;
    while (!path || cfx_module_has(g->module, path))
        path = cfx__text_format("%s_%d", name, g->children++);
    cfx_graph_module_add(g->module, path, made);
    return path;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* get_attr, the call and its result, before the last node of the group. */
static cfx_node *make_call(cfx__groups *g, const body *b, const char *path) {
    cfx_node *last = g->nodes.data[g->nodes.len - 1], *item = NULL;
    cfx_graph *graph = last->graph;
    cfx_value val = cfx_node_get_meta(last, "val");
    CFX_INSERT_BEFORE(graph, last) {
        cfx_node *get = cfx_graph_get_attr(graph, path);
        if (!path_of(g, b->graph))
            note_body(g, b->graph, get->target.name);
        cfx_value args = cfx_tuple(get, path);
        for (int64_t i = 0; i < b->operands->len; i++)
            cfx_list_append(cfx_as_list(args), b->operands->items[i]);
        cfx_node *call = cfx_graph_call_function(graph, "torch.ops.higher_order.invoke_subgraph",
                                                 args, cfx_none());
        cfx_node_set_meta(call, "val", cfx_tuple(val));
        item = cfx_graph_call_function(graph, "operator.getitem", cfx_tuple(call, 0), cfx_none());
        cfx_node_set_meta(item, "val", val);
    }
    return item;
}

cfx_node *cfx__groups_make(cfx__groups *g, const char *name) {
    size_t mark = cfx_scope_open();
    qsort(g->nodes.data, g->nodes.len, sizeof *g->nodes.data, by_order);
    body b = {cfx_graph_new(), cfx_dict_new(), cfx_as_list(cfx_list_value(0, NULL))};
    cfx_module *made = make_body(&b, g);
    const char *path = made ? path_of(g, b.graph) : NULL;
    if (made && !path)
        path = add_child(g, made, name);
    cfx_node *item = made ? make_call(g, &b, path) : cfx__node_bad;
    if (cfx_ok()) {
        cfx_node_replace(g->nodes.data[g->nodes.len - 1], item);
        for (size_t i = g->nodes.len; i-- > 0;)
            cfx_graph_erase(g->nodes.data[i]);
        g->made++;
    }
    g->nodes.len = 0;
    cfx_scope_close(mark);
    return item;
}
