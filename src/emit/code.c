/* Generated code: gm.code, and with shapes and comments the body of print_readable.
 *
 * One walk from the end finds where each value is used last, one from the start writes. The text is
 * made of pieces that are known at different times: wrap lines and parameters are collected while
 * the body is written and put before it at the end. */
#include "emit.h"

typedef struct code {
    const cfx_graph *g;
    const cfx_readable_options *readable; /* NULL: plain gm.code */
    int indent;          /* of the body */
    cfx__emit_writer w;       /* into body */
    cfx__emit_body body;
    cfx__text wraps, returns, last_summary;
    cfx__text params;    /* one after the other, each ended by a zero byte */
    cfx__emit_names names;
    cfx__map wrapped;    /* names that have their wrap line; they live with `names` */
    VEC(const cfx_node *) dead; /* values by their last user, last node first */
    VEC(int) counts;            /* how many of them belong to each node */
} code;

/* ---- last uses ------------------------------------------------------------------------------ */

/* From the end: whoever uses a value first, going this way, is its last user. */
static void find_last_uses(code *c) {
    bool *seen = cfx__alloc0(c->g->made.len + 1);
    for (const cfx_node *n = cfx_graph_last(c->g); n; n = cfx_node_before(n)) {
        size_t before = c->dead.len;
        cfx_each_input(n, u) {
            bool *is_seen = &seen[cfx__node_of(u->node)->id];
            if (u->node->graph == c->g && !*is_seen) {
                *is_seen = true;
                VEC_PUSH(c->dead, u->node);
            }
        }
        VEC_PUSH(c->counts, (int)(c->dead.len - before));
    }
    cfx__free(seen);
}

/* Ends the line of n: values that nobody uses after it are let go. */
static void end_line(code *c, const cfx_node *n, int count, size_t dead) {
    if (n->op != CFX_OUTPUT && (count || !n->num_users)) {
        cfx__text_add(&c->body.text, ";  ", 3);
        cfx__emit_paint(&c->w, CFX__DIM);
        for (int i = 0; i < count; i++) {
            cfx__emit_node(&c->w, c->dead.data[dead + (size_t)i]);
            cfx__text_add(&c->body.text, " = ", 3);
        }
        if (!n->num_users) {
            cfx__emit_node(&c->w, n);
            cfx__text_add(&c->body.text, " = ", 3);
        }
        cfx__text_puts(&c->body.text, "None");
        cfx__emit_unpaint(&c->w);
    }
    cfx__text_putc(&c->body.text, '\n');
}

/* ---- statements ----------------------------------------------------------------------------- */

static void put_indent(cfx__text *t, int n) {
    static const char blanks[] = "                                ";
    for (; n > 0; n -= 32)
        cfx__text_add(t, blanks, n < 32 ? (size_t)n : 32);
}

static void put_type(code *c, cfx__emit_writer *w, const cfx_node *n) {
    if (c->readable && cfx__emit_shape(w, n, c->readable))
        return;
    if (n->type) {
        cfx__text_puts(w->out, " : ");
        cfx__emit_type(w->out, n->type);
    }
}

static void put_assign(code *c, const cfx_node *n) {
    cfx__emit_node(&c->w, n);
    put_type(c, &c->w, n);
    cfx__text_add(&c->body.text, " = ", 3);
}

static void add_wrap(code *c, const char *name) {
    if (cfx__map_get(&c->wrapped, name))
        return;
    cfx__map_set(&c->wrapped, name, (void *)name);
    if (c->wraps.len)
        cfx__text_putc(&c->wraps, '\n');
    if (c->wraps.len)
        put_indent(&c->wraps, c->indent - 4);
    cfx__text_showf(&c->wraps, "torch.fx._symbolic_trace.wrap(\"%s\")", name);
}

/* What the function of a call is called here; scope. Globals have their names before the node that
 * calls them has its own. */
static const char *function_name(code *c, const cfx_node *n) {
    cfx__text wanted = {0};
    bool global = cfx__emit_function(&wanted, &n->target);
    const char *name = cfx__text_take(&wanted);
    if (!global)
        return name;
    name = cfx__emit_global_name(&c->names, name, n->target.name, n->target.object);
    cfx_value wrapped = n->meta ? cfx_node_get_meta(n, "is_wrapped") : cfx_none();
    if (wrapped.tag == CFX_TAG_BOOL && cfx_integer(wrapped))
        add_wrap(c, name);
    return name;
}

static void put_operator(code *c, const cfx_node *n, const cfx__emit_operator *o) {
    const cfx_value *a = cfx_as_list(n->args)->items;
    bool inplace = o->kind == CFX__INPLACE_OPERATOR || o->kind == CFX__SET_ITEM;
    if (!inplace)
        put_assign(c, n);
    if (o->kind == CFX__UNARY) {
        cfx__text_puts(&c->body.text, o->sign);
        cfx__emit_operand(&c->w, a[0]);
        return;
    }
    cfx__emit_operand(&c->w, a[0]);
    if (o->kind == CFX__ITEM || o->kind == CFX__SET_ITEM) {
        cfx__text_putc(&c->body.text, '[');
        cfx__emit_value(&c->w, a[1]);
        cfx__text_putc(&c->body.text, ']');
    } else {
        cfx__text_putc(&c->body.text, ' ');
        cfx__text_puts(&c->body.text, o->sign);
        cfx__text_putc(&c->body.text, ' ');
        cfx__emit_operand(&c->w, a[1]);
    }
    if (o->kind == CFX__SET_ITEM) {
        cfx__text_add(&c->body.text, " = ", 3);
        cfx__emit_value(&c->w, a[2]);
    }
    if (inplace) {
        cfx__text_add(&c->body.text, ";  ", 3);
        put_assign(c, n);
        cfx__emit_operand(&c->w, a[0]);
    }
}

/* x.shape for getattr(x, 'shape'), where that can be written so. */
static bool put_getattr(code *c, const cfx_node *n) {
    const cfx_list *args = cfx_as_list(n->args);
    if (args->len != 2 || args->items[1].tag != CFX_TAG_STR ||
        strcmp(n->target.name, "builtins.getattr"))
        return false;
    const cfx_string *attr = cfx_as_string(args->items[1]);
    if (!cfx__name_is_identifier(attr->text, attr->len))
        return false;
    put_assign(c, n);
    cfx__emit_path(&c->w, NULL, args->items[0], attr->text);
    return true;
}

static void put_call_function(code *c, const cfx_node *n) {
    bool positional = n->kwargs.tag != CFX_TAG_DICT || !cfx_as_dict(n->kwargs)->len;
    const char *name = n->target.name;
    if (positional && !strncmp(name, "operator.", 9)) {
        const cfx__emit_operator *o = cfx__emit_operator_named(name + 9);
        if (o && cfx__emit_operator_arity(o) == cfx_as_list(n->args)->len) {
            put_operator(c, n, o);
            return;
        }
    }
    if (positional && !strncmp(name, "builtins.", 9) && put_getattr(c, n))
        return;
    size_t mark = cfx_scope_open();
    const char *function = function_name(c, n);
    put_assign(c, n);
    cfx__text_puts(&c->body.text, function);
    cfx__text_putc(&c->body.text, '(');
    cfx__emit_args(&c->w, n, 0);
    cfx__text_putc(&c->body.text, ')');
    cfx_scope_close(mark);
}

static void put_call(code *c, const cfx_node *n) {
    const cfx_list *args = cfx_as_list(n->args);
    bool method = n->op == CFX_CALL_METHOD;
    put_assign(c, n);
    if (method)
        cfx__emit_path(&c->w, args->len ? NULL : "", args->len ? args->items[0] : cfx_none(),
                       n->target.name);
    else
        cfx__emit_path(&c->w, "self", cfx_none(), n->target.name);
    cfx__text_putc(&c->body.text, '(');
    cfx__emit_args(&c->w, n, method);
    cfx__text_putc(&c->body.text, ')');
}

/* A parameter of forward. A line of its own is needed only where the node is not called like it. */
static void put_placeholder(code *c, const cfx_node *n) {
    cfx__emit_writer w = c->w;
    w.out = &c->params;
    const cfx_list *args = cfx_as_list(n->args);
    cfx__text_puts_line(&c->params, n->target.name);
    put_type(c, &w, n);
    if (args->len) {
        cfx__text_add(&c->params, " = ", 3);
        cfx__emit_value(&w, args->items[0]);
    }
    cfx_value desc = c->readable && c->readable->expanded_def ? cfx_node_get_meta(n, "desc")
                                                              : cfx_none();
    if (!cfx_is_none(desc))
        cfx__text_showf(&c->params, "  # %s", cfx_value_str(desc));
    cfx__text_putc(&c->params, 0);
    const char *raw = n->target.name + strspn(n->target.name, "*");
    size_t start = c->body.text.len;
    put_indent(&c->body.text, c->indent);
    size_t name = c->body.text.len;
    cfx__emit_node(&c->w, n);
    if (!strcmp(c->body.text.data + name, raw)) {
        c->body.text.len = start;
        return;
    }
    cfx__text_puts(&c->body.text, " = ");
    cfx__text_puts(&c->body.text, raw);
    cfx__text_putc(&c->body.text, '\n');
}

/* One value a line with what it is, where expanded_def is asked for and the node tells. */
static void put_expanded(code *c, cfx_value result, cfx_value desc) {
    bool tuple = result.tag == CFX_TAG_TUPLE;
    cfx__text_puts(&c->body.text, tuple ? "(\n" : "[\n");
    for (int64_t i = 0; i < cfx_as_list(result)->len && i < cfx_as_list(desc)->len; i++) {
        put_indent(&c->body.text, c->indent + 4);
        if (cfx_as_list(result)->items[i].tag == CFX_TAG_NODE)
            cfx__emit_node(&c->w, cfx_as_node(cfx_as_list(result)->items[i]));
        else
            cfx__text_puts(&c->body.text, cfx_value_str(cfx_as_list(result)->items[i]));
        cfx__text_showf(&c->body.text, ",  # %s\n", cfx_value_str(cfx_as_list(desc)->items[i]));
    }
    put_indent(&c->body.text, c->indent);
    cfx__text_putc(&c->body.text, tuple ? ')' : ']');
}

static bool is_sequence(cfx_value v) { return v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST; }

static void put_output(code *c, const cfx_node *n) {
    if (n->type) {
        cfx__text_puts(&c->returns, " -> ");
        cfx__emit_type(&c->returns, n->type);
    }
    cfx_value result = cfx_as_list(n->args)->len ? cfx_as_list(n->args)->items[0] : cfx_none();
    cfx_value desc = c->readable && c->readable->expanded_def ? cfx_node_get_meta(n, "desc")
                                                              : cfx_none();
    cfx__emit_writer plain = c->w;
    plain.colored = false;
    const cfx_codegen *own = c->g->codegen;
    if (own && own->result) {
        cfx__text text = {0};
        plain.out = &text;
        cfx__emit_value(&plain, result);
        const char *line = own->result(own, text.data);
        cfx__text_puts(&c->body.text, line ? line : "");
        cfx__text_release(&text);
        return;
    }
    cfx__text_puts(&c->body.text, "return ");
    bool tree = c->g->tree && !cfx_is_none(c->g->tree->out_spec);
    cfx__text_puts(&c->body.text, tree ? "pytree.tree_unflatten(" : "");
    if (!tree && is_sequence(result) && is_sequence(desc))
        put_expanded(c, result, desc);
    else
        cfx__emit_value(&plain, result);
    cfx__text_puts(&c->body.text, tree ? ", self._out_spec)" : "");
}

static void put_statement(code *c, const cfx_node *n) {
    put_indent(&c->body.text, c->indent);
    switch (n->op) {
    case CFX_CALL_FUNCTION: put_call_function(c, n); break;
    case CFX_CALL_METHOD:
    case CFX_CALL_MODULE: put_call(c, n); break;
    case CFX_GET_ATTR:
        put_assign(c, n);
        cfx__emit_path(&c->w, "self", cfx_none(), n->target.name);
        break;
    case CFX_OUTPUT: put_output(c, n); break;
    case CFX_PLACEHOLDER: break;
    }
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void put_body(code *c) {
    size_t dead = c->dead.len, k = c->counts.len;
    int64_t number = 0;
    cfx_each_node(c->g, n) {
        int count = c->counts.data[--k];
        VEC_PUSH(c->body.marks, ((struct cfx__emit_mark){c->body.text.len, number++}));
        dead -= (size_t)count;
        c->names.clash |= cfx__node_of(n)->name->reserved;
        if (n->op == CFX_PLACEHOLDER) {
            put_placeholder(c, n);
            continue;
        }
        if (c->readable && n->op != CFX_OUTPUT)
            cfx__emit_summary(&c->w, n, c->readable, c->indent, &c->last_summary);
        put_statement(c, n);
        end_line(c, n, count, dead);
    }
    if (!cfx_graph_len(c->g)) {
        put_indent(&c->body.text, c->indent);
        cfx__text_puts(&c->body.text, "pass\n");
    }
}

static void put_param(code *c, cfx__text *out, const char *param, bool first) {
    if (!c->readable || !c->readable->expanded_def) {
        cfx__text_puts(out, first ? "" : ", ");
        cfx__text_puts(out, param);
        return;
    }
    put_indent(out, c->indent);
    size_t n = strcspn(param, "#");
    const char *comment = param[n] ? param + n + 1 : NULL;
    while (comment && n && param[n - 1] == ' ')
        n--;
    cfx__text_add(out, param, n);
    cfx__text_putc(out, ',');
    if (comment)
        cfx__text_printf(out, "  # %s", comment + strspn(comment, " "));
    cfx__text_putc(out, '\n');
}

/* The first n arguments of a tree. */
static void put_names(cfx__text *out, const cfx_list *names, int64_t n) {
    for (int64_t i = 0; i < n && i < names->len; i++) {
        cfx__text_puts(out, i ? ", " : "");
        cfx__text_puts_line(out, cfx_text(names->items[i]));
    }
}

/* Where arguments are nested: the line that takes them apart into the placeholders. Those that are
 * annotated are so on a line before it, for Python has no annotations in an assignment to many. */
static void put_flatten(code *c, cfx__text *out) {
    const cfx__graph_tree *t = c->g->tree;
    const cfx_value *spec = cfx_as_list(t->in_spec)->items;
    bool by_name = cfx__graph_tree_is_call(t);
    const char *p = c->params.len ? c->params.data : "", *end = p + c->params.len;
    cfx__text typed = {0}, plain = {0};
    if (by_name && !c->params.len) /* there is nothing to take apart */
        return;
    cfx__text_puts(&plain, by_name ? "" : "self, ");
    for (; p && p < end; p += strlen(p) + 1) {
        size_t n = strcspn(p, ":#="), all = strcspn(p, "=");
        if (p[n] == ':')
            cfx__text_printf(&typed, "%.*s; ", (int)all, p);
        while (n && p[n - 1] == ' ' && p[n] != ':')
            n--;
        cfx__text_printf(&plain, "%.*s, ", (int)n, p);
    }
    if (typed.len) {
        put_indent(out, c->indent);
        cfx__text_add(out, typed.data, typed.len);
        cfx__text_puts(out, "\n\n");
    }
    put_indent(out, c->indent);
    cfx__text_add(out, plain.data, plain.len);
    cfx__text_printf(out, "= fx_pytree.tree_flatten_spec(%s", by_name ? "([" : "[self, ");
    int64_t first = by_name ? cfx_as_list(spec[0])->len : cfx_as_list(t->names)->len;
    put_names(out, cfx_as_list(t->names), first);
    cfx__text_puts(out, by_name ? "], {" : "]");
    for (int64_t i = 0; by_name && i < cfx_as_dict(spec[1])->len; i++)
        cfx__text_printf(out, "%s%s:%s", i ? ", " : "",
                         cfx_value_repr(cfx_as_dict(spec[1])->entries[i].key),
                         cfx_text(cfx_at(t->names, first + i)));
    cfx__text_puts(out, by_name ? "}), self._in_spec)\n" : ", self._in_spec)\n");
    cfx__text_release(&typed);
    cfx__text_release(&plain);
}

/* The arguments of a tree; those that are one placeholder have its default. */
static void put_tree_params(code *c, cfx__text *out) {
    cfx__signature *s = cfx__graph_signature(c->g);
    cfx__text param = {0};
    cfx__emit_writer w = {&param, false, NULL};
    for (int i = 0; i < s->n; i++) {
        param.len = 0;
        cfx__text_puts_line(&param, s->params[i].name);
        if (s->params[i].has_default) {
            cfx__text_puts(&param, " = ");
            cfx__emit_value(&w, s->params[i].fallback);
        }
        put_param(c, out, param.data, false);
    }
    cfx__text_release(&param);
    cfx__signature_free(s);
}

/* The parameter's name of "x : int = 1". */
static int name_length(const char *param) {
    size_t n = strcspn(param, ":=#");
    while (n && param[n - 1] == ' ')
        n--;
    return (int)n;
}

/* One list in the place of all parameters. */
static void put_boxed_head(code *c, cfx__text *out) {
    const char *p = c->params.len ? c->params.data : "", *end = p + c->params.len;
    cfx__text_printf(out, "def forward(self, args_list)%.*s:\n", (int)c->returns.len,
                     c->returns.data ? c->returns.data : "");
    if (!c->params.len)
        return;
    put_indent(out, c->indent);
    cfx__text_puts(out, "args_iter = iter(args_list)\n");
    for (; p < end; p += strlen(p) + 1) {
        put_indent(out, c->indent);
        cfx__text_printf(out, "%.*s = next(args_iter)\n", name_length(p), p);
    }
    put_indent(out, c->indent);
    cfx__text_puts(out, "args_list.clear()\n");
}

/* The head that the user's function writes. */
static void put_own_head(code *c, cfx__text *out) {
    cfx_value params = cfx_list_value(0, NULL);
    const char *p = c->params.len ? c->params.data : "", *end = p + c->params.len;
    for (; p && p < end; p += strlen(p) + 1)
        cfx_list_append(cfx_as_list(params), cfx_string_value(p));
    const char *head = c->g->codegen->head(c->g->codegen, params,
                                              c->returns.data ? c->returns.data : "");
    cfx__text_puts(out, head ? head : "");
    cfx__text_putc(out, '\n');
}

static void put_head(code *c, cfx__text *out) {
    const cfx_codegen *own = c->g->codegen;
    put_indent(out, c->indent - 4);
    if (own && (own->head || own->boxed)) {
        own->head ? put_own_head(c, out) : put_boxed_head(c, out);
        return;
    }
    bool expanded = c->readable && c->readable->expanded_def;
    const cfx__graph_tree *tree = c->g->tree;
    const char *p = c->params.len ? c->params.data : "", *end = p + c->params.len;
    cfx__text_puts(out, expanded ? "def forward(\n" : "def forward(");
    bool has_self = c->params.len && !strcmp(p, "self");
    if (!has_self)
        put_param(c, out, "self", true);
    if (tree)
        put_tree_params(c, out);
    for (bool first = has_self; !tree && p && p < end; p += strlen(p) + 1, first = false)
        put_param(c, out, p, first);
    if (expanded)
        put_indent(out, c->indent - 4);
    cfx__text_putc(out, ')');
    cfx__text_add(out, c->returns.data, c->returns.len);
    cfx__text_puts(out, ":\n");
    if (tree)
        put_flatten(c, out);
}

static void start_over(code *c) {
    c->body.marks.len = 0;
    c->body.text.len = c->wraps.len = c->returns.len = c->params.len = c->last_summary.len = 0;
    cfx__map_release(&c->wrapped);
    cfx__emit_names_release(&c->names);
}

static void release(code *c) {
    start_over(c);
    cfx__text_release(&c->body.text);
    cfx__text_release(&c->wraps);
    cfx__text_release(&c->returns);
    cfx__text_release(&c->params);
    cfx__text_release(&c->last_summary);
    VEC_FREE(c->body.marks);
    VEC_FREE(c->dead);
    VEC_FREE(c->counts);
}

/* How many lines a text has, beside what follows its last newline. */
static int count_lines(const char *text, size_t len) {
    int n = 0;
    for (const char *p = text; len && (p = memchr(p, '\n', (size_t)(text + len - p))); p++)
        n++;
    return n;
}

void cfx__emit_code(cfx__text *out, const cfx_graph *g, const cfx_readable_options *readable,
                    int indent, cfx_python_code *told) {
    size_t mark = cfx_scope_open();
    code c = {.g = g, .readable = readable, .indent = indent, .body = {.indent = indent}};
    c.names.g = g;
    c.w = (cfx__emit_writer){&c.body.text, readable && readable->colored, &c.names};
    find_last_uses(&c);
    put_body(&c);
    if (c.names.clash) {
        start_over(&c);
        c.names.anew = true;
        put_body(&c);
    }
    if (readable) {
        if (c.wraps.len) {
            put_indent(out, indent - 4);
            cfx__text_add(out, c.wraps.data, c.wraps.len);
            cfx__text_puts(out, "\n\n");
        }
    } else {
        cfx__text_putc(out, '\n');
        cfx__text_add(out, c.wraps.data, c.wraps.len);
        cfx__text_puts(out, "\n\n");
    }
    cfx__emit_transform(&c.body, g->codegen);
    size_t before = out->len;
    put_head(&c, out);
    if (told) {
        told->start = count_lines(out->data, before) + 1;
        told->lines = cfx_keep(cfx__emit_line_map(
            &c.body, count_lines(out->data + before, out->len - before)));
        told->globals = cfx_keep(cfx__emit_globals(&c.names));
    }
    const char *body = c.body.text.data ? c.body.text.data : "";
    size_t blank = strspn(body, "\n");
    cfx__text_add(out, body + blank, c.body.text.len - blank);
    if (!readable)
        put_indent(out, indent);
    release(&c);
    cfx_scope_close(mark);
}

cfx_python_code cfx_graph_python_code(const cfx_graph *g) {
    cfx_python_code told = {.src = ""};
    cfx__text out = {0};
    if (!cfx_failed(g)) {
        cfx__emit_code(&out, g, NULL, 4, &told);
        cfx__scope_own(told.lines);
        cfx__scope_own(told.globals);
        told.src = cfx__text_take(&out);
    } else {
        told.lines = cfx_dict_new();
        told.globals = cfx_dict_new();
    }
    return told;
}
