/* Inlining: replaces a module call by the nodes of the module's graph. Start at inline_call. */
#include "split.h"

typedef struct inlining {
    cfx_node *call;
    cfx_module *child;
    const char *prefix; /* of what the child names: "submod_0." */
    int first;          /* argument of the call that is the child's first */
    cfx_dict *values;   /* node of the child to value of the graph */
} inlining;

static cfx_value mapped(cfx_node *n, void *data) {
    const inlining *in = data;
    const cfx_value *v = cfx_dict_find(in->values, cfx_node_value(n));
    return v ? cfx__graph_freeze(*v) : cfx_bad();
}

/* The value that the call gives for a placeholder. */
static bool argument(const inlining *in, const cfx_node *n, int number, cfx_value *out) {
    const cfx_value *named =
        cfx_dict_find(cfx_as_dict(in->call->kwargs), cfx_string_value(n->target.name));
    const cfx_list *args = cfx_as_list(in->call->args);
    if (number < args->len && n->target.name[0] != '*')
        *out = args->items[number];
    else if (named)
        *out = *named;
    else if (cfx_as_list(n->args)->len)
        *out = cfx_as_list(n->args)->items[0];
    else
        return false;
    return true;
}

static cfx_value copy_node(inlining *in, const cfx_node *n) {
    cfx_value args = cfx__value_scope_own(cfx__node_map(n->args, mapped, in));
    cfx_value kwargs = cfx__value_scope_own(cfx__node_map(n->kwargs, mapped, in));
    cfx_target t = n->target;
    if (n->op == CFX_CALL_MODULE || n->op == CFX_GET_ATTR)
        t.name = cfx__text_format("%s%s", in->prefix, t.name);
    cfx_node *made = cfx_graph_create(in->call->graph, n->op, t, args, kwargs, n->name, n->type);
    for (int64_t i = 0; n->meta && i < n->meta->len; i++)
        cfx_node_set_meta(made, cfx_text(n->meta->entries[i].key), n->meta->entries[i].value);
    return made == cfx__node_bad ? cfx_bad() : cfx_node_value(made);
}

/* Copies the child's nodes before the call; its result. */
static cfx_value copy_nodes(inlining *in) {
    int number = in->first;
    cfx_each_node(in->child->graph, n) {
        cfx_value v = cfx_none();
        if (n->op == CFX_OUTPUT)
            return cfx__value_scope_own(cfx__node_map(cfx_at(n->args, 0), mapped, in));
        if (n->op == CFX_PLACEHOLDER && !argument(in, n, number++, &v)) {
            cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "%s is called without its input %s",
                     in->call->target.name, n->name);
            return cfx_bad();
        }
        if (n->op != CFX_PLACEHOLDER)
            v = copy_node(in, n);
        if (cfx_is_bad(v))
            return v;
        cfx_dict_put(in->values, cfx_node_value(n), v);
    }
    return cfx_none();
}

typedef struct swapping {
    const cfx_node *call;
    cfx_value with;
} swapping;

static cfx_value swapped(cfx_node *n, void *data) {
    const swapping *s = data;
    return n == s->call ? cfx__graph_freeze(s->with) : cfx_node_value(n);
}

/* Users of the call use its result; those that take one of several results are that result. */
static void put_result(cfx_node *call, cfx_value v) {
    bool several = v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST;
    cfx_value users = cfx_node_users(call);
    for (int64_t i = 0; i < cfx_as_list(users)->len; i++) {
        cfx_node *u = cfx_as_node(cfx_as_list(users)->items[i]);
        cfx_value item = cfx_none();
        if (several && cfx_node_takes_result(u))
            item = cfx_at(v, cfx_integer(cfx_as_list(u->args)->items[1]));
        if (item.tag == CFX_TAG_NODE) {
            cfx_node_replace(u, cfx_as_node(item));
            cfx_graph_erase(u);
        } else {
            swapping s = {call, v};
            cfx__node_map_args(u, swapped, &s);
        }
    }
    cfx_graph_erase(call);
}

static bool inline_call(cfx_node *call, cfx_module *child, const char *prefix) {
    size_t mark = cfx_scope_open();
    inlining in = {call, child, prefix, call->op == CFX_CALL_MODULE ? 0 : 2, cfx_dict_new()};
    cfx_value v = cfx_bad();
    if (child->graph->tree)
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, (cfx_site){0},
                 "%s takes nested arguments and cannot be inlined", call->target.name);
    else
        CFX_INSERT_BEFORE(call->graph, call) v = copy_nodes(&in);
    if (cfx_ok())
        put_result(call, v);
    cfx_scope_close(mark);
    return cfx_ok();
}

/* The path of the module that a node calls, itself or by invoke_subgraph; NULL where it calls none.
 */
static const char *path_called(const cfx_node *n) {
    if (n->op == CFX_CALL_MODULE)
        return n->target.name;
    const cfx_node *get = cfx__higher_is(n, "invoke_subgraph") ? cfx_node_input(n, 0) : NULL;
    return get && get->op == CFX_GET_ATTR ? get->target.name : NULL;
}

/* The GraphModule that a node calls, or NULL. */
static cfx_module *called(const cfx_module *gm, const cfx_node *n) {
    const char *path = path_called(n);
    cfx_module *m = path ? cfx_module_find(gm, path) : NULL;
    return m && m->graph ? m : NULL;
}

/* Whether a node names a module or something below it. */
static bool is_named(const cfx_graph *g, const char *path) {
    size_t len = strlen(path);
    cfx_each_node(g, n) {
        bool names = n->op == CFX_CALL_MODULE || n->op == CFX_GET_ATTR;
        if (names && !strncmp(n->target.name, path, len) &&
            (!n->target.name[len] || n->target.name[len] == '.'))
            return true;
    }
    return false;
}

int cfx_module_inline(cfx_module *gm, const char *child) {
    int done = 0;
    cfx_dict *inlined = cfx_dict_new();
    if (!gm || !gm->graph || !cfx_ok()) {
        if (cfx_ok())
            cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "only a GraphModule has calls to inline");
        return -1;
    }
    for (int before = -1; before != done && cfx_ok();) { /* what is inlined may call in turn */
        before = done;
        cfx_each_node(gm->graph, n) {
            cfx_module *m = called(gm, n);
            if (!m || (child && strcmp(path_called(n), child)))
                continue;
            size_t mark = cfx_scope_open();
            cfx_node *get = n->op == CFX_CALL_MODULE ? NULL : cfx_node_input(n, 0);
            cfx_dict_put(inlined, cfx_string_value(path_called(n)), cfx_none());
            done += inline_call(n, m, cfx__text_format("%s.", path_called(n)));
            if (get && !get->num_users)
                cfx_graph_erase(get);
            cfx_scope_close(mark);
            if (!cfx_ok())
                return -1;
        }
    }
    for (int64_t i = 0; i < inlined->len; i++)
        if (!is_named(gm->graph, cfx_text(inlined->entries[i].key)))
            cfx_graph_module_remove(gm, cfx_text(inlined->entries[i].key));
    return done;
}

int cfx__inline_all(cfx_module *gm, const char *prefix) {
    int done = 0;
    cfx_each_node(gm->graph, n) {
        cfx_module *m = called(gm, n);
        if (!m || strncmp(path_called(n), prefix, strlen(prefix)))
            continue;
        size_t mark = cfx_scope_open();
        const char *path = cfx__text_format("%s", path_called(n));
        cfx_each_node(m->graph, in) if (in->op == CFX_CALL_MODULE || in->op == CFX_GET_ATTR)
            cfx__module_adopt(gm, in->target.name, m, in->target.name);
        done += inline_call(n, m, "");
        cfx_module_remove(gm, path);
        cfx_scope_close(mark);
    }
    return done;
}
