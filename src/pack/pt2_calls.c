/* module_call_graph of model.json: how the program and the modules that it was exported from were
 * called, with the trees of their arguments and results. */
#include <cfx/tree.h>

#include "pt2.h"

/* ---- reading trees --------------------------------------------------------------------------- */

static cfx_value tree(const cfx__json *j, int depth);

/* The keys of a dict, in JSON inside a JSON string; None where there are none. */
static cfx_value tree_keys(const cfx__json *context) {
    cfx_value v = cfx__json_is(context, CFX__JSON_TEXT)
                      ? cfx__json_parse(context->text, context->len, NULL)
                      : cfx_none();
    if (v.tag == CFX_TAG_DICT) /* of a defaultdict */
        v = cfx_dict_get(cfx_as_dict(v), "dict_context");
    return v.tag == CFX_TAG_LIST ? v : cfx_none();
}

static bool hashable(cfx_value v) {
    return v.tag == CFX_TAG_STR || v.tag == CFX_TAG_INT || v.tag == CFX_TAG_BOOL ||
           v.tag == CFX_TAG_FLOAT || v.tag == CFX_TAG_NONE;
}

static cfx_value dict_tree(const cfx__json *children, cfx_value keys, int depth) {
    if (cfx_is_none(keys) || cfx_as_list(keys)->len != children->len)
        return cfx_bad();
    cfx_dict *d = cfx_dict_new();
    int64_t i = 0;
    cfx__json_each(children, child) {
        cfx_value key = cfx_as_list(keys)->items[i++], v = tree(child, depth + 1);
        if (cfx_is_bad(v) || !hashable(key) || cfx_dict_find(d, key))
            return cfx_bad();
        cfx_dict_put(d, key, v);
    }
    return cfx_dict_value(d);
}

/* A leaf has no type. Tuples of all kinds are tuples; the classes of users that are not registered
 * here are tuples of what is in them: enough to flatten and to run. */
static cfx_value tree(const cfx__json *j, int depth) {
    const cfx__json *type = cfx__json_get(j, "type"), *context = cfx__json_get(j, "context");
    const cfx__json *children = cfx__json_get(j, "children_spec");
    if (!type || depth > CFX__JSON_DEPTH)
        return cfx_bad();
    if (type->kind == CFX__JSON_NULL)
        return cfx_ellipsis();
    if (type->kind != CFX__JSON_TEXT || !cfx__json_is(children, CFX__JSON_ARRAY))
        return cfx_bad();
    const char *name = type->text;
    if (!strcmp(name, "builtins.dict") || !strcmp(name, "collections.OrderedDict") ||
        !strcmp(name, "collections.defaultdict"))
        return dict_tree(children, tree_keys(context), depth);
    bool list = !strcmp(name, "builtins.list") || !strcmp(name, "collections.deque");
    bool named = !strcmp(name, "collections.namedtuple") && cfx__json_is(context, CFX__JSON_TEXT);
    const cfx_tree_type *own = cfx__tree_type_named(named ? context->text : name);
    cfx_value items = list ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    cfx__json_each(children, child) {
        cfx_value made = tree(child, depth + 1);
        if (cfx_is_bad(made))
            return made;
        cfx_list_append(cfx_as_list(items), made);
    }
    return own ? cfx_tree_value(own, cfx_as_list(items)->len, cfx_as_list(items)->items) : items;
}

/* A tree of (args, kwargs) or results from its JSON text, as cfx_tree_flatten gives it; scope. None
 * where it cannot be read. */
static cfx_value tree_of(const char *text, size_t len) {
    size_t mark = cfx_scope_open();
    cfx__json_tree json = {0};
    cfx_value v = cfx_none();
    if (cfx__json_read(&json, text, len, NULL)) {
        const cfx__json *root = json.items.data;
        bool versioned = root->kind == CFX__JSON_ARRAY && root->len == 2 &&
                         root[1].kind == CFX__JSON_INT && root[1].i == 1;
        v = versioned ? tree(root + 2, 0) : cfx_none();
    }
    cfx__json_release(&json);
    return cfx_scope_return_value(mark, cfx_is_bad(v) ? cfx_none() : v);
}

/* ---- reading calls --------------------------------------------------------------------------- */

static const char *text_of(const cfx__json *j) {
    return cfx__json_is(j, CFX__JSON_TEXT) ? j->text : NULL;
}

static cfx_value tree_in(const cfx__json *signature, const char *key, const char **text) {
    const cfx__json *j = cfx__json_get(signature, key);
    *text = text_of(j);
    return *text ? tree_of(j->text, j->len) : cfx_none();
}

/* A leaf of what a module took or gave: a node, or a plain value. */
static bool read_leaf(cfx__pt2_reader *r, const cfx_program *p, const cfx__json *j,
                      cfx_value *leaf) {
    const cfx__json *v = NULL;
    const char *tag = cfx__pt2_union(r, j, &v);
    if (!tag)
        return false;
    if (cfx__pt2_constant(r, tag, v, leaf))
        return !cfx_is_bad(*leaf);
    const char *name = text_of(cfx__json_get(v, "name"));
    name = name ? name : text_of(cfx__json_get(v, "as_name"));
    cfx_node *n = name ? cfx_graph_find(p->module->graph, name) : NULL;
    *leaf = n ? cfx_node_value(n) : cfx_bad();
    return true;
}

/* None where one of them is not in the graph: such a call is not known. False with an error. */
static bool read_leaves(cfx__pt2_reader *r, const cfx_program *p, const cfx__json *list,
                        cfx_value *leaves) {
    bool known = cfx__json_is(list, CFX__JSON_ARRAY);
    *leaves = cfx_tuple_value(0, NULL);
    if (known)
        cfx__json_each(list, item) {
            cfx_value leaf = cfx_none();
            if (!read_leaf(r, p, item, &leaf))
                return false;
            known = known && !cfx_is_bad(leaf);
            cfx_list_append(cfx_as_list(*leaves), cfx_is_bad(leaf) ? cfx_none() : leaf);
        }
    if (!known)
        *leaves = cfx_none();
    return true;
}

static bool fits(cfx_value leaves, cfx_value spec) {
    return leaves.tag == CFX_TAG_TUPLE && !cfx_is_none(spec) &&
           cfx__tree_leaves(spec) == cfx_as_list(leaves)->len;
}

static cfx_value names_in(const cfx__json *signature) {
    const cfx__json *names = cfx__json_get(signature, "forward_arg_names");
    if (!cfx__json_is(names, CFX__JSON_ARRAY))
        return cfx_none();
    cfx_value out = cfx_list_value(0, NULL);
    cfx__json_each(names, name) {
        if (!text_of(name) || !cfx__name_is_identifier(name->text, name->len))
            return cfx_none();
        cfx_list_append(cfx_as_list(out), cfx_string_value_n(name->text, name->len));
    }
    return out;
}

static bool read_call(cfx__pt2_reader *r, cfx_program *p, const cfx__json *j) {
    const cfx__json *signature = cfx__json_get(j, "signature");
    cfx_module_call c = {.path = text_of(cfx__json_get(j, "fqn")), .names = names_in(signature)};
    if (!c.path)
        return true;
    cfx_value in = tree_in(signature, "in_spec", &c.in_text_);
    cfx_value out = tree_in(signature, "out_spec", &c.out_text_);
    if (!p->ncalls) {
        p->in_spec = cfx_value_keep(in);
        p->out_spec = cfx_value_keep(out);
    } else if (cfx__json_is(signature, CFX__JSON_OBJECT)) {
        c.in_spec = in, c.out_spec = out;
        if (!read_leaves(r, p, cfx__json_get(signature, "inputs"), &c.inputs) ||
            !read_leaves(r, p, cfx__json_get(signature, "outputs"), &c.outputs))
            return false;
        c.preserved = fits(c.inputs, in) && fits(c.outputs, out);
    }
    cfx_program_add_call(p, c);
    return true;
}

bool cfx__pt2_read_calls(cfx__pt2_reader *r, cfx_program *p, const cfx__json *calls,
                         const cfx__json *call_spec) {
    size_t mark = cfx_scope_open();
    bool fine = true;
    if (call_spec) {
        const char *text;
        p->in_spec = cfx_value_keep(tree_in(call_spec, "in_spec", &text));
        p->out_spec = cfx_value_keep(tree_in(call_spec, "out_spec", &text));
    } else if (cfx__json_is(calls, CFX__JSON_ARRAY)) {
        cfx__json_each(calls, call) fine = fine && read_call(r, p, call);
    }
    cfx_scope_close(mark);
    return fine;
}

/* ---- writing trees --------------------------------------------------------------------------- */

static void put_tree(cfx__text *t, cfx_value spec);

static void put_children(cfx__text *t, const char *type, int64_t n, const cfx_value *items,
                         size_t stride, const cfx__text *context) {
    cfx__text_printf(t, "{\"type\": \"%s\", \"context\": ", type);
    if (context)
        cfx__json_string(t, context->data, context->len);
    else
        cfx__text_puts(t, "\"null\"");
    cfx__text_puts(t, ", \"children_spec\": [");
    for (int64_t i = 0; i < n; i++) {
        if (i)
            cfx__text_puts(t, ", ");
        put_tree(t, *(const cfx_value *)((const char *)items + (size_t)i * stride));
    }
    cfx__text_puts(t, "]}");
}

static void put_tree(cfx__text *t, cfx_value spec) {
    const cfx_tree_type *own = cfx_tree_type_of(spec);
    if (spec.tag == CFX_TAG_TUPLE || spec.tag == CFX_TAG_LIST) {
        const char *path = own && own->fields         ? "collections.namedtuple"
                           : own                      ? own->path
                           : spec.tag == CFX_TAG_LIST ? "builtins.list"
                                                      : "builtins.tuple";
        cfx__text context = {0};
        cfx__text_puts(&context, own && own->fields ? own->path : "null");
        put_children(t, path, cfx_as_list(spec)->len, cfx_as_list(spec)->items, sizeof(cfx_value),
                     &context);
        cfx__text_release(&context);
    } else if (spec.tag == CFX_TAG_DICT) {
        cfx__text keys = {0};
        cfx_value list = cfx_list_value(0, NULL);
        for (int64_t i = 0; i < cfx_as_dict(spec)->len; i++)
            cfx_list_append(cfx_as_list(list), cfx_as_dict(spec)->entries[i].key);
        cfx__json_value(&keys, list);
        put_children(t, "builtins.dict", cfx_as_dict(spec)->len,
                     cfx_as_dict(spec)->len ? &cfx_as_dict(spec)->entries[0].value : NULL,
                     sizeof(struct cfx_entry), &keys);
        cfx__text_release(&keys);
    } else {
        cfx__text_puts(t, "{\"type\": null, \"context\": null, \"children_spec\": []}");
    }
}

static void put_spec(cfx__text *t, cfx_value spec) {
    cfx__text json = {0};
    cfx__text_puts(&json, "[1, ");
    put_tree(&json, spec);
    cfx__text_putc(&json, ']');
    cfx__json_string(t, json.data, json.len);
    cfx__text_release(&json);
}

/* ---- writing calls --------------------------------------------------------------------------- */

/* The tree of a program that has none: all inputs by position, all results in a tuple. */
static cfx_value flat_inputs(const cfx_program *p) {
    cfx_value args = cfx_tuple_value(0, NULL);
    for (int i = 0; i < p->ninputs; i++)
        if (p->inputs[i].kind == CFX_IN_USER)
            cfx_list_append(cfx_as_list(args), cfx_ellipsis());
    return cfx_tuple(args, cfx_dict_value(cfx_dict_new()));
}

static cfx_value flat_outputs(const cfx_program *p) {
    cfx_value made = cfx_tuple_value(0, NULL);
    for (int i = 0; i < p->noutputs; i++)
        if (p->outputs[i].kind == CFX_OUT_USER || p->outputs[i].kind == CFX_OUT_LOSS)
            cfx_list_append(cfx_as_list(made), cfx_ellipsis());
    return made;
}

/* A tree as the file said it, as long as that holds. */
static void put_kept_spec(cfx__text *t, const char *text, cfx_value spec) {
    if (text)
        cfx__json_string(t, text, strlen(text));
    else
        put_spec(t, spec);
}

static void put_leaves(cfx__text *t, const cfx_program *p, const cfx__map *twins, const char *key,
                       cfx_value leaves) {
    cfx__text_printf(t, "\"%s\": [", key);
    for (int64_t i = 0; leaves.tag == CFX_TAG_TUPLE && i < cfx_as_list(leaves)->len; i++) {
        cfx__json_comma(t);
        cfx__pt2_write_reference(t, p, twins, cfx_as_list(leaves)->items[i]);
    }
    cfx__text_puts(t, "], ");
}

static void put_signature(cfx__text *t, const cfx_program *p, const cfx__map *twins,
                          const cfx_module_call *c) {
    cfx__text_putc(t, '{');
    put_leaves(t, p, twins, "inputs", c->inputs);
    put_leaves(t, p, twins, "outputs", c->outputs);
    cfx__text_puts(t, "\"in_spec\": ");
    put_kept_spec(t, c->in_text_, c->in_spec);
    cfx__text_puts(t, ", \"out_spec\": ");
    put_kept_spec(t, c->out_text_, c->out_spec);
    cfx__text_puts(t, ", \"forward_arg_names\": ");
    if (!cfx__json_value(t, c->names))
        cfx__text_puts(t, "null");
    cfx__text_putc(t, '}');
}

/* The program's own entry, with the trees that go with the inputs and results there are now. */
static cfx_module_call own_call(const cfx_program *p) {
    cfx_module_call c = p->ncalls ? p->calls[0] : (cfx_module_call){.path = ""};
    cfx_value in = flat_inputs(p), out = flat_outputs(p);
    bool fits_in = cfx__tree_leaves(p->in_spec) == cfx__tree_leaves(in);
    bool fits_out = cfx__tree_leaves(p->out_spec) == cfx__tree_leaves(out);
    bool as_is = (cfx_is_none(p->in_spec) || fits_in) && (cfx_is_none(p->out_spec) || fits_out);
    if (!as_is)
        c.in_text_ = c.out_text_ = NULL, c.names = cfx_none();
    c.in_spec = as_is && !cfx_is_none(p->in_spec) ? p->in_spec : in;
    c.out_spec = as_is && !cfx_is_none(p->out_spec) ? p->out_spec : out;
    return c;
}

void cfx__pt2_put_calls(cfx__text *t, const cfx_program *p) {
    size_t mark = cfx_scope_open();
    cfx__map twins = {0};
    cfx__pt2_find_twins(p->module->graph, &twins);
    cfx_module_call own = own_call(p);
    cfx__text_puts(t, "[{\"fqn\": \"\", \"signature\": ");
    put_signature(t, p, &twins, &own);
    cfx__text_putc(t, '}');
    for (int i = 1; i < p->ncalls; i++) {
        const cfx_module_call *c = &p->calls[i];
        cfx__text_puts(t, ", {\"fqn\": ");
        cfx__json_string(t, c->path, strlen(c->path));
        cfx__text_puts(t, ", \"signature\": ");
        if (cfx__module_call_known(c))
            put_signature(t, p, &twins, c);
        else
            cfx__text_puts(t, "null");
        cfx__text_putc(t, '}');
    }
    cfx__text_putc(t, ']');
    cfx__map_release(&twins);
    cfx_scope_close(mark);
}
