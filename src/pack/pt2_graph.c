/* Graphs of model.json: inputs become placeholders, nodes calls, and results by name nodes again,
 * as PyTorch's own reader makes them. A file has no getitem nodes: an operator with several results
 * names each of them, and the nodes that take them apart are made here, in the same order and under
 * the same names. Results that nothing uses ("sort_unused_1") get none.
 *
 * Names are looked up in one table a graph. A node may use only what was made before it, so a cycle
 * is just a name that is not there yet. */
#include "../tensor/packed.h"
#include "pt2_names.h"

enum { MAX_GRAPHS = 40 }; /* of graphs in graphs */

typedef struct builder {
    cfx__pt2_reader *r;
    cfx_module *module;
    cfx_graph *g;
    cfx__pt2_names names;
    const cfx__pt2_parts *parts; /* NULL: all of the graph is in the tree */
    int64_t read;                /* nodes so far */
    const cfx__json *metadata; /* of the node being read */
    int depth;
} builder;

static bool is_text(const cfx__json *j) { return cfx__json_is(j, CFX__JSON_TEXT); }

/* ---- names ----------------------------------------------------------------------------------- */

/* The node that makes a value; NULL, with an error. */
static cfx_node *node_named(builder *b, const cfx__json *name) {
    if (!is_text(name)) {
        cfx__pt2_bad(b->r, "the name of a value is no string");
        return NULL;
    }
    cfx__pt2_name *x = cfx__map_get(&b->names.all, name->text);
    if (x && x->node)
        return x->node;
    cfx__pt2_bad(b->r, "it uses '%.200s', which nothing before it makes", name->text);
    return NULL;
}

/* Node n makes the value called so: it takes just that name and its description. */
static bool bind(builder *b, cfx_node *n, const cfx__json *name, cfx_value *val) {
    if (!is_text(name))
        return cfx__pt2_bad(b->r, "the name of a result is no string");
    cfx__pt2_name *x = cfx__map_get(&b->names.all, name->text);
    if (!x)
        return cfx__pt2_bad(b->r, "the value '%.200s' is described nowhere", name->text);
    if (x->node)
        return cfx__pt2_bad(b->r, "the value '%.200s' is made twice", name->text);
    if (strcmp(n->name, name->text) && !cfx_node_set_name(n, name->text))
        return false;
    x->node = n;
    *val = cfx__pt2_name_val(&b->names, x);
    if (!cfx_is_bad(*val) && !cfx_is_none(*val))
        cfx_node_set_meta(n, "val", *val);
    return !cfx_is_bad(*val);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static cfx_value argument(builder *b, const cfx__json *j);

static cfx_value name_value(builder *b, const cfx__json *name) {
    cfx_node *n = node_named(b, name);
    return n ? cfx_node_value(n) : cfx_bad();
}

static cfx_value tensor_arg(builder *b, const cfx__json *v) {
    return name_value(b, cfx__json_get(v, "name"));
}

/* {"as_name": "sym_size_int"} or {"as_int": 3}. */
static cfx_value sym_arg(builder *b, const cfx__json *v) {
    const cfx__json *name = cfx__json_get(v, "as_name");
    return name ? name_value(b, name) : cfx__pt2_sym(b->r, v);
}

/* {"as_tensor": {"name": ...}} or {"as_none": true}. */
static cfx_value optional_arg(builder *b, const cfx__json *v) {
    const cfx__json *tensor = cfx__json_get(v, "as_tensor");
    if (tensor)
        return tensor_arg(b, tensor);
    if (cfx__json_get(v, "as_none"))
        return cfx_none();
    cfx__pt2_bad(b->r, "an optional tensor is neither a tensor nor None");
    return cfx_bad();
}

static cfx_value object_arg(builder *b, const cfx__json *v) {
    const cfx__json *name = cfx__json_get(v, "name");
    cfx__pt2_name *x = is_text(name) ? cfx__map_get(&b->names.all, name->text) : NULL;
    if (x && x->node)
        return cfx_node_value(x->node);
    return is_text(name) ? cfx_string_value(name->text) : name_value(b, name);
}

/* An operator as an argument; one that the registry lacks goes by its name. */
static cfx_value operator_arg(builder *b, const cfx__json *v) {
    if (!is_text(v)) {
        cfx__pt2_bad(b->r, "the name of an operator is no string");
        return cfx_bad();
    }
    cfx_op *op = strncmp(v->text, "torch.ops.", 10) ? NULL : cfx_op_find(v->text + 10);
    return op ? cfx_op_value(op) : cfx_string_value(v->text);
}

/* A graph inside the graph becomes a child of the module and a get_attr node. */
static cfx_value graph_arg(builder *b, const cfx__json *v) {
    const cfx__json *name = cfx__pt2_want(b->r, v, "name", CFX__JSON_TEXT);
    const cfx__json *graph = name ? cfx__pt2_want(b->r, v, "graph", CFX__JSON_OBJECT) : NULL;
    const char *node = b->r->node;
    cfx_module *child = graph ? cfx__pt2_graph(b->r, graph, NULL, b->depth + 1) : NULL;
    b->r->node = node;
    if (!child)
        return cfx_bad();
    if (!cfx_module_has(b->module, name->text))
        cfx_nn_add(b->module, name->text, child);
    cfx_target target = {.name = name->text};
    cfx_node *n = cfx_graph_create(b->g, CFX_GET_ATTR, target, cfx_none(), cfx_none(), name->text,
                                   NULL);
    if (!n->graph || !cfx_module_find(b->module, name->text))
        return cfx_bad();
    cfx__pt2_node_meta(b->r, n, b->metadata); /* a graph has none of its own */
    return cfx_node_value(n);
}

static cfx_value named_args(builder *b, const cfx__json *v) {
    cfx_dict *d = cfx_dict_new();
    if (v->kind != CFX__JSON_OBJECT) {
        cfx__pt2_bad(b->r, "arguments by name are no object");
        return cfx_bad();
    }
    cfx__json_pairs(v, k, item) {
        cfx_value made = argument(b, item);
        if (cfx_is_bad(made))
            return made;
        cfx_dict_set(d, k->text, made);
    }
    return cfx_dict_value(d);
}

typedef cfx_value arg_fn(builder *b, const cfx__json *v);

static const struct {
    const char *tag;
    arg_fn *read;
    int lists; /* around the items */
} tags[] = {
    {"as_tensor", tensor_arg, 0},       {"as_tensors", tensor_arg, 1},
    {"as_sym_int", sym_arg, 0},         {"as_sym_ints", sym_arg, 1},
    {"as_sym_bool", sym_arg, 0},        {"as_sym_bools", sym_arg, 1},
    {"as_sym_float", sym_arg, 0},       {"as_sym_floats", sym_arg, 1},
    {"as_optional_tensor", optional_arg, 0}, {"as_optional_tensors", optional_arg, 1},
    {"as_nested_tensors", tensor_arg, 2}, {"as_graph", graph_arg, 0},
    {"as_custom_obj", object_arg, 0},   {"as_operator", operator_arg, 0},
    {"as_string_to_argument", named_args, 0},
};

static cfx_value read_list(builder *b, const cfx__json *v, arg_fn *read, int lists) {
    if (!lists)
        return read(b, v);
    if (v->kind != CFX__JSON_ARRAY) {
        cfx__pt2_bad(b->r, "a list of arguments is none");
        return cfx_bad();
    }
    cfx_value list = cfx_list_value(0, NULL);
    cfx__json_each(v, item) {
        cfx_value made = read_list(b, item, read, lists - 1);
        if (cfx_is_bad(made))
            return made;
        cfx_list_append(cfx_as_list(list), made);
    }
    return list;
}

/* An argument of a call: a value of the scope; bad, with an error. */
static cfx_value argument(builder *b, const cfx__json *j) {
    const cfx__json *v;
    const char *tag = cfx__pt2_union(b->r, j, &v);
    cfx_value made;
    if (!tag)
        return cfx_bad();
    if (cfx__pt2_constant(b->r, tag, v, &made))
        return made;
    for (int i = 0; i < COUNT(tags); i++)
        if (!strcmp(tags[i].tag, tag))
            return read_list(b, v, tags[i].read, tags[i].lists);
    cfx__pt2_bad(b->r, "arguments of the kind \"%.60s\" are not known", tag);
    return cfx_bad();
}

/* Files before 2.6 do not say how an argument was given: by position where the schema has no
 * default for it. */
static bool by_position(cfx_target t, const char *name) {
    if (!*name || !t.op || strncmp(t.name, "aten.", 5))
        return true;
    cfx__op_info *info = cfx__op_info_of(t.op);
    for (int i = 0; info && i < info->schema->nargs; i++) {
        const cfx__schema_arg *a = &info->schema->args[i];
        if (a->name && !strcmp(a->name, name))
            return (!a->has_default && !a->keyword_only) || !strcmp(name, "from");
    }
    return true;
}

static bool call_args(builder *b, const cfx__json *inputs, cfx_target t, cfx_value *args,
                      cfx_dict *kwargs) {
    *args = cfx_tuple_value(0, NULL);
    cfx__json_each(inputs, input) {
        const cfx__json *name = cfx__pt2_want(b->r, input, "name", CFX__JSON_TEXT);
        const cfx__json *kind = cfx__json_get(input, "kind");
        cfx_value v = name ? argument(b, cfx__json_get(input, "arg")) : cfx_bad();
        if (cfx_is_bad(v))
            return false;
        bool told = cfx__json_is(kind, CFX__JSON_INT) && (kind->i == 1 || kind->i == 2);
        if (!*name->text || (told ? kind->i == 1 : by_position(t, name->text)))
            cfx_list_append(cfx_as_list(*args), v);
        else
            cfx_dict_set(kwargs, name->text, v);
    }
    return true;
}

/* An operator that the registry lacks: nothing but the file knows what its arguments are called. */
static void keep_names(cfx_node *n, const cfx__json *inputs) {
    cfx_value names = cfx_tuple_value(0, NULL);
    bool any = false;
    cfx__json_each(inputs, input) {
        const cfx__json *name = cfx__json_get(input, "name");
        any |= name->len > 0;
        cfx_list_append(cfx_as_list(names), cfx_string_value(name->text));
    }
    if (any)
        cfx_node_set_meta(n, "arg_names", names);
}

/* ---- results --------------------------------------------------------------------------------- */

/* "sort_unused_1": the name of a result that nothing reads. */
static bool is_unused(const char *name) {
    const char *at = strstr(name, "_unused_");
    return at && at[8] && !at[8 + strspn(at + 8, "0123456789_")];
}

/* The name in {"name": ...}, {"as_tensor": {"name": ...}} or {"as_sym_int": {"as_name": ...}};
 * NULL where there is none. */
static const cfx__json *result_name(const cfx__json *j) {
    const cfx__json *name = cfx__json_get(j, "name");
    if (name || !cfx__json_is(j, CFX__JSON_OBJECT) || j->len != 1)
        return name;
    name = cfx__json_get(j + 2, "name");
    return name ? name : cfx__json_get(j + 2, "as_name");
}

static cfx_node *getitem(builder *b, cfx_node *from, int64_t i, const char *name) {
    cfx_value args = cfx_tuple(from, i);
    cfx_target t = cfx_graph_target(b->g, "operator.getitem");
    cfx_node *n = cfx_graph_create(b->g, CFX_CALL_FUNCTION, t, args, cfx_none(), name, NULL);
    cfx__pt2_node_meta(b->r, n, b->metadata);
    return n;
}

static bool take_apart(builder *b, cfx_node *from, const cfx__json *list, cfx_value *vals);

/* Result i of a call that has several. */
static bool result(builder *b, cfx_node *from, int64_t i, const cfx__json *j, cfx_value *val) {
    const cfx__json *name = result_name(j), *list = cfx__json_is(j, CFX__JSON_OBJECT) ? j + 2 : j;
    *val = cfx_none();
    if (is_text(name) && is_unused(name->text)) {
        cfx__pt2_name *x = cfx__map_get(&b->names.all, name->text);
        *val = x ? cfx__pt2_name_val(&b->names, x) : cfx_none();
        return !cfx_is_bad(*val);
    }
    if (name)
        return bind(b, getitem(b, from, i, is_text(name) ? name->text : NULL), name, val);
    if (cfx__json_get(j, "as_none")) {
        getitem(b, from, i, "as_none");
        return true;
    }
    if (!cfx__json_is(j, CFX__JSON_OBJECT) || j->len != 1 || list->kind != CFX__JSON_ARRAY)
        return cfx__pt2_bad(b->r, "result %lld is of a kind that is not known", (long long)i);
    cfx_node *n = getitem(b, from, i, NULL);
    bool ok = take_apart(b, n, list, val);
    if (ok)
        cfx_node_set_meta(n, "val", *val);
    return ok;
}

static bool take_apart(builder *b, cfx_node *from, const cfx__json *list, cfx_value *vals) {
    int64_t i = 0;
    *vals = cfx_tuple_value(0, NULL);
    cfx__json_each(list, item) {
        cfx_value val;
        if (!result(b, from, i++, item, &val))
            return false;
        cfx_list_append(cfx_as_list(*vals), val);
    }
    return true;
}

/* Whether the only result of a higher-order operator is a tuple of one. */
static bool is_tuple_of_one(const cfx__json *node, const cfx__json *outputs, const char *target) {
    const cfx__json *single = cfx__json_get(node, "is_hop_single_tensor_return");
    return cfx__higher_order(target) && cfx__json_is(single, CFX__JSON_BOOL) && !single->b &&
           !(outputs->len == 1 && cfx__json_get(outputs + 1, "as_none"));
}

static bool results(builder *b, cfx_node *n, const cfx__json *node, const cfx__json *outputs,
                    const char *target) {
    const cfx__json *only = outputs + 1, *list = NULL;
    cfx_value val;
    if (!outputs->len)
        return true;
    if (outputs->len > 1 || is_tuple_of_one(node, outputs, target))
        list = outputs;
    else if (result_name(only))
        return bind(b, n, result_name(only), &val);
    else if (cfx__json_is(only, CFX__JSON_OBJECT) && only->len == 1)
        list = only[2].kind == CFX__JSON_ARRAY ? only + 2 : NULL;
    else
        return cfx__pt2_bad(b->r, "its result is no object with one key");
    if (!list) { /* None, or a number that is always the same */
        if (cfx__json_get(only, "as_none") && !cfx__json_get(node, "name")) {
            cfx__text name = {0};
            cfx__text_printf(&name, "%s_unused", n->name);
            cfx_node_rename(n, name.data);
            cfx__text_release(&name);
        }
        return true;
    }
    if (!take_apart(b, n, list, &val))
        return false;
    cfx_node_set_meta(n, "val", val);
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* What the node is called: its own name, or that of its only result. NULL: after its target. */
static const char *node_name(const cfx__json *node, const cfx__json *outputs, const char *target) {
    const cfx__json *name = cfx__json_get(node, "name");
    if (is_text(name) && name->len)
        return name->text;
    bool one = outputs->len == 1 && !is_tuple_of_one(node, outputs, target);
    name = one ? result_name(outputs + 1) : NULL;
    return is_text(name) ? name->text : NULL;
}

static bool read_node(builder *b, const cfx__json *node) {
    const cfx__json *target = cfx__pt2_want(b->r, node, "target", CFX__JSON_TEXT);
    const cfx__json *inputs = target ? cfx__pt2_want(b->r, node, "inputs", CFX__JSON_ARRAY) : NULL;
    const cfx__json *outputs =
        inputs ? cfx__pt2_want(b->r, node, "outputs", CFX__JSON_ARRAY) : NULL;
    if (!outputs)
        return false;
    if (!target->len || strlen(target->text) != target->len)
        return cfx__pt2_bad(b->r, "its target is empty or has a zero byte in it");
    const char *text = target->text, *name = node_name(node, outputs, text);
    b->r->node = name ? name : text;
    if (!strchr(text, '.') || !cfx__name_is_dotted(text))
        return cfx__pt2_bad(b->r, "its target %s is no name of a function in a module",
                            cfx_value_repr(cfx_string_value(text)));
    b->metadata = cfx__json_get(node, "metadata");
    cfx_target t = cfx_graph_target(b->g, text + !strncmp(text, "_operator.", 10));
    cfx_value args;
    cfx_dict *kwargs = cfx_dict_new();
    if (!call_args(b, inputs, t, &args, kwargs))
        return false;
    cfx_node *n = cfx_graph_create(b->g, CFX_CALL_FUNCTION, t, args, cfx_dict_value(kwargs), name,
                                   NULL);
    if (!n->graph)
        return false;
    cfx__pt2_node_meta(b->r, n, b->metadata);
    if (!t.op)
        keep_names(n, inputs);
    bool ok = results(b, n, node, outputs, text);
    b->r->node = NULL;
    return ok;
}

/* A placeholder. Plain numbers and the like have their name in the signature only. */
static bool read_input(builder *b, const cfx__json *input, const cfx__json *spec, int64_t i) {
    const cfx__json *v, *name = result_name(input);
    const char *tag = cfx__pt2_union(b->r, input, &v);
    cfx_value val;
    if (!tag)
        return false;
    if (name) {
        if (!is_text(name))
            return cfx__pt2_bad(b->r, "the name of input %lld is no string", (long long)i);
        cfx_node *n = cfx_graph_placeholder(b->g, name->text, NULL, false, cfx_none());
        return n->graph && bind(b, n, name, &val);
    }
    if (!cfx__pt2_constant(b->r, tag, v, &val))
        return cfx__pt2_bad(b->r, "input %lld is of the kind \"%.60s\", which is not known",
                            (long long)i, tag);
    if (cfx_is_bad(val))
        return false;
    name = cfx__json_get(cfx__json_get(spec, "constant_input"), "name");
    const char *text =
        is_text(name) && name->len ? name->text : cfx__text_format("arg%lld", (long long)i);
    cfx_node *n = cfx_graph_placeholder(b->g, text, NULL, false, cfx_none());
    if (!n->graph)
        return false;
    if (!cfx_is_none(val))
        cfx_node_set_meta(n, "val", val);
    return true;
}

static bool read_output(builder *b, const cfx__json *graph, const cfx__json *outputs) {
    const cfx__json *single = cfx__json_get(graph, "is_single_tensor_return");
    cfx_value made = cfx_tuple_value(0, NULL);
    b->r->node = "output";
    cfx__json_each(outputs, output) {
        cfx_value v = argument(b, output);
        if (cfx_is_bad(v))
            return false;
        cfx_list_append(cfx_as_list(made), v);
    }
    if (cfx__json_is(single, CFX__JSON_BOOL) && single->b && outputs->len == 1)
        made = cfx_as_list(made)->items[0];
    b->r->node = NULL;
    return cfx_graph_output(b->g, made)->graph != NULL;
}

static bool read_next_node(const cfx__json *key, const cfx__json *node, void *user) {
    enum { OFTEN = 1 << 14 };
    builder *b = user;
    (void)key;
    size_t mark = cfx_scope_open();
    bool ok = read_node(b, node);
    cfx_scope_close(mark);
    if (b->parts && ++b->read % OFTEN == 0)
        cfx__file_unload(&b->parts->file); /* the text so far is not looked at again */
    return ok;
}

static bool note_node_hints(const cfx__json *key, const cfx__json *node, void *user) {
    (void)key;
    cfx__pt2_note_hints(((builder *)user)->r, node);
    return true;
}

static bool read_nodes(builder *b, const cfx__json *nodes) {
    if (b->parts && b->parts->nodes.text) {
        const cfx__pt2_parts *p = b->parts;
        const bool hints = cfx__pt2_has_hints(p->nodes.text, p->nodes.len);
        cfx__file_unload(&p->file);
        return (!hints || cfx__json_stream(p->text, p->nodes, p->what, note_node_hints, b)) &&
               cfx__json_stream(p->text, p->nodes, p->what, read_next_node, b);
    }
    cfx__json_each(nodes, node)
        if (!read_next_node(NULL, node, b))
            return false;
    return true;
}

static bool read_graph(builder *b, const cfx__json *graph, const cfx__json *specs) {
    const cfx__json *inputs = cfx__pt2_want(b->r, graph, "inputs", CFX__JSON_ARRAY);
    const cfx__json *nodes = inputs ? cfx__pt2_want(b->r, graph, "nodes", CFX__JSON_ARRAY) : NULL;
    const cfx__json *outputs =
        nodes ? cfx__pt2_want(b->r, graph, "outputs", CFX__JSON_ARRAY) : NULL;
    if (!outputs || !cfx__pt2_names_read(&b->names, graph))
        return false;
    const cfx__json *spec = specs && specs->len ? specs + 1 : NULL;
    const cfx__json *end = specs ? cfx__json_next(specs) : NULL;
    int64_t i = 0;
    bool ok = true;
    cfx__json_each(inputs, input) {
        size_t mark = cfx_scope_open();
        ok = ok && read_input(b, input, spec, i++);
        cfx_scope_close(mark);
        spec = spec && cfx__json_next(spec) < end ? cfx__json_next(spec) : NULL;
    }
    ok = ok && read_nodes(b, nodes);
    cfx__graph_settle(b->g);
    return ok && read_output(b, graph, outputs);
}

cfx_module *cfx__pt2_graph(cfx__pt2_reader *r, const cfx__json *graph, const cfx__json *specs,
                           int depth) {
    if (depth > MAX_GRAPHS) {
        cfx__pt2_bad(r, "graphs are nested too deeply");
        return NULL;
    }
    size_t mark = cfx_scope_open();
    builder b = {.r = r, .g = cfx_graph_new(), .depth = depth, .parts = depth ? NULL : r->parts};
    b.names = (cfx__pt2_names){.r = r, .parts = b.parts};
    b.module = cfx_graph_module(NULL, b.g, "GraphModule");
    bool ok = read_graph(&b, graph, specs);
    cfx__pt2_names_release(&b.names);
    return cfx_scope_return(mark, ok ? b.module : NULL);
}
