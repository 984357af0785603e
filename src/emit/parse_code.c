/* The code form: gm.code and print_readable, statement by statement. Lossless for graphs whose
 * placeholders come first. A statement computes one node. */
#define _GNU_SOURCE /* memmem */
#include "emit.h"

typedef struct param {
    const char *target; /* with its stars */
    size_t len;
    const char *name;   /* of the node, where the body gives it another */
    size_t name_len;
    const char *type, *shape; /* or NULL; shape is of the scope */
    bool has_default;
    cfx_value fallback;
} param;

/* One function being read. */
typedef struct function {
    cfx__parser *p;
    VEC(param) params;
    const char *returns; /* the type of the result, or NULL */
    cfx__map wrapped;    /* names of wrap lines */
    cfx_value trace;     /* the source line that comments gave last; one count is ours */
} function;

static bool same(const char *a, size_t n, const char *b) {
    return strlen(b) == n && !memcmp(a, b, n);
}

/* ---- blanks and comments -------------------------------------------------------------------- */

static size_t rest_of_line(const cfx__parser *p) {
    const char *end = memchr(p->at, '\n', (size_t)(p->end - p->at));
    return (size_t)((end ? end : p->end) - p->at);
}

static void set_trace(function *f, const char *text) {
    cfx_value_drop(f->trace);
    f->trace = text ? cfx_value_keep(cfx_string_value(text)) : cfx_none();
}

/* # File: model.py:12 in forward, code: return x; anything else says that the source is unknown. */
static void read_comment(function *f) {
    cfx__parser *p = f->p;
    static const char head[] = "# File: ", code[] = ", code: ", in[] = " in ";
    const char *at = p->at, *end = at + rest_of_line(p);
    set_trace(f, NULL);
    p->at = end;
    if ((size_t)(end - at) < strlen(head) || memcmp(at, head, strlen(head)))
        return;
    at += strlen(head);
    const char *c = memmem(at, (size_t)(end - at), code, strlen(code));
    for (const char *q = c; c && q > at; q--) { /* the last ":NUMBER in NAME" before the code */
        const char *digits = q;
        if ((size_t)(c - q) < strlen(in) || memcmp(q, in, strlen(in)))
            continue;
        while (digits > at && digits[-1] >= '0' && digits[-1] <= '9')
            digits--;
        if (digits == q || digits == at || digits[-1] != ':')
            continue;
        const char *name = q + strlen(in), *text = c + strlen(code);
        CFX_SCOPE
            set_trace(f, cfx__text_format("  File \"%.*s\", line %.*s, in %.*s\n    %.*s",
                                          (int)(digits - 1 - at), at, (int)(q - digits), digits,
                                          (int)(c - name), name, (int)(end - text), text));
        return;
    }
}

/* Goes to the next line that holds something, at its first character. False at the end. */
static bool next_line(function *f) {
    cfx__parser *p = f->p;
    while (p->at < p->end) {
        if (*p->at == '\n' || *p->at == ' ' || *p->at == '\t' || *p->at == '\r')
            p->at++;
        else if (*p->at == '#')
            read_comment(f);
        else
            return true;
    }
    return false;
}

static int indent(const cfx__parser *p) {
    const char *start = p->at;
    while (start > p->start && start[-1] != '\n')
        start--;
    return (int)(p->at - start);
}

/* Blanks, line ends and comments inside brackets. */
static void skip_lines(cfx__parser *p) {
    for (cfx__parser_skip(p); p->at < p->end && (*p->at == '\n' || *p->at == '#');
         cfx__parser_skip(p))
        p->at += *p->at == '#' ? rest_of_line(p) : 1;
}

/* Whether a word comes next, whole. */
static bool take_word(cfx__parser *p, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) ||
        (p->at + n < p->end && cfx__emit_is_word(p->at[n])))
        return false;
    p->at += n;
    return true;
}

/* ---- annotations ---------------------------------------------------------------------------- */

/* A type, up to what ends it outside of its brackets; lives as long as the parser. */
static void take_type(cfx__parser *p, const char **type) {
    cfx__parser_skip(p);
    const char *start = p->at;
    int depth = 0;
    for (; p->at < p->end && *p->at != '\n'; p->at++) {
        if (strchr("[(", *p->at))
            depth++;
        else if (strchr("])", *p->at) && depth-- == 0)
            break;
        else if (!depth && strchr("=,#:;", *p->at))
            break;
    }
    const char *end = p->at;
    while (end > start && end[-1] == ' ')
        end--;
    if (end == start || !cfx__parse_is_type(start, end))
        cfx__parse_fail(p, start, "expected a type");
    cfx__text t = {0};
    cfx__parse_type(&t, start, (size_t)(end - start));
    *type = cfx__arena_copy(&p->arena, t.data, t.len);
    cfx__text_release(&t);
}

/* What follows a colon: text in quotes tells the shape (scope), other text is a type. */
static void take_annotation(cfx__parser *p, const char **type, const char **shape) {
    *type = *shape = NULL;
    cfx__parser_skip(p);
    if (!cfx__parser_take(p, ":"))
        return;
    cfx__parser_skip(p);
    if (p->at < p->end && (*p->at == '"' || *p->at == '\''))
        *shape = cfx_text(cfx__parser_take_string(p));
    else
        take_type(p, type);
}

static void set_shape(cfx__parser *p, cfx_node *n, const char *shape, const char *at) {
    if (shape && !cfx__parse_shape(n, shape) && cfx_ok())
        cfx__parse_fail(p, at, "\"%s\" is not a shape such as \"f32[8, 4]\" or \"Sym(s0)\"", shape);
}

/* ---- statements ----------------------------------------------------------------------------- */

/* The end of the line, with a semicolon before it or not. */
static void end_line(cfx__parser *p) {
    cfx__parser_skip(p);
    if (cfx__parser_take(p, ";"))
        cfx__parser_skip(p);
    if (!p->failed && !cfx__parser_is_line_end(p) && *p->at != '#')
        cfx__parse_fail(p, p->at, "expected the end of the statement");
}

/* ";  x = y = None": what is let go follows from the graph, so it is only stepped over. */
static void end_statement(cfx__parser *p) {
    const char *name;
    cfx__parser_skip(p);
    if (cfx__parser_take(p, ";")) {
        cfx__parser_skip(p);
        if (cfx__parser_is_line_end(p) || *p->at == '#') /* the semicolon alone */
            return;
        do {
            cfx__parser_skip(p);
            if (take_word(p, "None"))
                break;
            if (!cfx__parser_take_name(p, &name))
                cfx__parse_fail(p, p->at, "expected a name");
            cfx__parser_skip(p);
        } while (cfx__parser_want(p, "="));
    }
    end_line(p);
}

static void add_statement(function *f, const cfx__parser_statement *m, const char *name, size_t len,
                          const char *type, const char *shape) {
    cfx__parser *p = f->p;
    if (p->failed)
        return;
    if (m->alias) {
        cfx__parser_bind_node(p, name, len, cfx_as_node(m->args));
        return;
    }
    cfx__parser_node_text t = {m->op, m->target, m->target_len, name, len, type};
    cfx_node *n = cfx__parser_add_node(p, t, m->args, m->kwargs);
    if (!n)
        return;
    if (!cfx_is_none(f->trace))
        cfx_node_set_meta(n, "stack_trace", f->trace);
    set_shape(p, n, shape, name);
    if (f->wrapped.len && m->op == CFX_CALL_FUNCTION) {
        cfx__text global = {0};
        if (cfx__emit_function(&global, &n->target) && cfx__map_get(&f->wrapped, global.data))
            cfx_node_set_meta(n, "is_wrapped", cfx_bool(true));
        cfx__text_release(&global);
    }
}

/* name = right side */
static void parse_assignment(function *f, const char *name, size_t len,
                             const cfx__parser_statement *inplace) {
    cfx__parser *p = f->p;
    const char *type, *shape;
    take_annotation(p, &type, &shape);
    cfx__parser_skip(p);
    cfx__parser_want(p, "=");
    cfx__parser_statement m = {.op = CFX_OUTPUT};
    if (inplace) {
        cfx__parser_take_operand(p); /* the first argument once more */
        m = *inplace;
    } else if (!p->failed) {
        m = cfx__parser_take_right_side(p);
    }
    end_statement(p);
    add_statement(f, &m, name, len, type, shape);
}

/* x += 1;  iadd = x   and   x[0] = 1;  setitem = x */
static void parse_inplace(function *f) {
    cfx__parser *p = f->p;
    cfx_value args[3] = {cfx__parser_take_operand(p), cfx_none(), cfx_none()};
    cfx__parser_skip(p);
    const cfx__emit_operator *o =
        p->at < p->end ? cfx__emit_operator_starting(p->at, CFX__INPLACE_OPERATOR) : NULL;
    if (o) {
        p->at += strlen(o->sign);
        args[1] = cfx__parser_take_value(p);
    } else {
        cfx__parser_want(p, "[");
        args[1] = cfx__parser_take_subscript(p);
        cfx__parser_skip(p);
        cfx__parser_want(p, "=");
        args[2] = cfx__parser_take_value(p);
        o = cfx__emit_operator_named("setitem");
    }
    cfx__parser_skip(p);
    cfx__parser_want(p, ";");
    cfx__parser_skip(p);
    const char *name;
    size_t len = cfx__parser_take_name(p, &name);
    if (!len)
        cfx__parse_fail(p, p->at, "expected the name of the result");
    cfx__parser_statement m = cfx__parser_make_operator(o, cfx__emit_operator_arity(o), args);
    if (!p->failed)
        parse_assignment(f, name, len, &m);
}

static void parse_return(function *f) {
    cfx__parser *p = f->p;
    cfx__parser_skip(p);
    bool tree = p->g->tree && cfx__parser_take(p, "pytree.tree_unflatten(");
    cfx_value v = cfx__parser_is_line_end(p) ? cfx_none() : cfx__parser_take_value(p);
    if (tree && cfx__parser_want(p, ", self._out_spec)"))
        cfx_graph_set_tree(p->g, p->g->tree->names, p->g->tree->in_spec, cfx_ellipsis());
    end_line(p);
    if (p->failed)
        return;
    cfx_node *n = cfx_graph_output(p->g, v);
    if (f->returns)
        cfx_node_set_type(n, f->returns);
}

static void parse_statement(function *f) {
    cfx__parser *p = f->p;
    if (cfx_graph_output_node(p->g))
        cfx__parse_fail(p, p->at, "nothing may follow the return");
    if (take_word(p, "return")) {
        parse_return(f);
        return;
    }
    if (take_word(p, "pass")) {
        end_statement(p);
        return;
    }
    const char *start = p->at, *name;
    size_t len = cfx__parser_take_name(p, &name);
    cfx__parser_skip(p);
    char c = p->at < p->end ? *p->at : 0;
    if (len && (c == ':' || (c == '=' && !(p->at + 1 < p->end && p->at[1] == '=')))) {
        parse_assignment(f, name, len, NULL);
    } else {
        p->at = start;
        parse_inplace(f);
    }
}

/* ---- functions ------------------------------------------------------------------------------ */

static void take_param(function *f) {
    cfx__parser *p = f->p;
    param m = {.target = p->at};
    for (int stars = 0; stars < 2 && cfx__parser_take(p, "*"); stars++)
        ;
    const char *name;
    if (!cfx__parser_take_name(p, &name))
        cfx__parse_fail(p, p->at, "expected the name of a parameter");
    m.len = (size_t)(p->at - m.target);
    take_annotation(p, &m.type, &m.shape);
    cfx__parser_skip(p);
    m.has_default = cfx__parser_take(p, "=");
    if (m.has_default)
        m.fallback = cfx__parser_take_value(p);
    if (!p->failed && !(same(m.target, m.len, "self") && !f->params.len))
        VEC_PUSH(f->params, m);
}

/* def forward(self, x : int = 1) -> int: */
static void parse_head(function *f) {
    cfx__parser *p = f->p;
    const char *name;
    bool comma = true;
    cfx__parser_skip(p);
    if (!cfx__parser_take_name(p, &name))
        cfx__parse_fail(p, p->at, "expected the name of the function");
    cfx__parser_want(p, "(");
    for (skip_lines(p); !p->failed && !cfx__parser_take(p, ")"); skip_lines(p)) {
        if (!comma)
            cfx__parse_fail(p, p->at, "expected ',' or ')'");
        take_param(f);
        skip_lines(p);
        comma = cfx__parser_take(p, ",");
    }
    cfx__parser_skip(p);
    if (cfx__parser_take(p, "->"))
        take_type(p, &f->returns);
    cfx__parser_skip(p);
    cfx__parser_want(p, ":");
    if (!p->failed && !cfx__parser_is_line_end(p) && *p->at != '#')
        cfx__parse_fail(p, p->at, "expected the end of the line");
}

static size_t stars(const param *m) { return strspn(m->target, "*"); }

/* The parameter called so, looked for from number `from` on, all around; NULL when none is. */
static param *find_param(function *f, size_t from, const char *name, size_t len) {
    for (size_t i = 0; i < f->params.len; i++) {
        param *m = &f->params.data[(from + i) % f->params.len];
        if (m->len - stars(m) == len && !memcmp(m->target + stars(m), name, len))
            return m;
    }
    return NULL;
}

/* Whether the line of code that comes next, or the one after it, holds `text`. */
static bool soon(const cfx__parser *p, const char *text) {
    const char *at = p->at;
    for (int line = 0; line < 2 && at < p->end; line++) {
        while (at < p->end && (*at == '\n' || *at == ' '))
            at++;
        const char *end = memchr(at, '\n', (size_t)(p->end - at));
        end = end ? end : p->end;
        const char *found = memmem(at, (size_t)(end - at), text, strlen(text));
        if (found && !memchr(at, '\'', (size_t)(found - at)) &&
            !memchr(at, '(', (size_t)(found - at))) /* inside a string or a call it says nothing */
            return true;
        at = end;
    }
    return false;
}

/* "x : int; y: "f32[2]"; ", a line before the next: what the leaves are. */
static void take_leaf_types(function *f) {
    cfx__parser *p = f->p;
    for (const char *start = p->at; !p->failed; start = p->at) {
        param m = {0};
        m.len = cfx__parser_take_name(p, &m.target);
        if (m.len)
            take_annotation(p, &m.type, &m.shape);
        if (!m.len || !cfx__parser_take(p, ";")) {
            p->at = start;
            break;
        }
        VEC_PUSH(f->params, m);
        cfx__parser_skip(p);
    }
}

/* "self, x, d_1, d_2, = fx_pytree.tree_flatten_spec(": the leaves, which become the parameters. */
static void take_leaves(function *f, const char *call) {
    cfx__parser *p = f->p;
    size_t typed = f->params.len, n = 0;
    for (; !p->failed && !cfx__parser_take(p, call); cfx__parser_skip(p)) {
        param m = {0};
        m.len = cfx__parser_take_name(p, &m.target);
        cfx__parser_skip(p);
        cfx__parser_want(p, ",");
        for (size_t i = 0; i < typed; i++)
            if (f->params.data[i].len == m.len &&
                !memcmp(f->params.data[i].target, m.target, m.len))
                m.type = f->params.data[i].type, m.shape = f->params.data[i].shape;
        if (!same(m.target, m.len, "self"))
            VEC_PUSH(f->params, m);
    }
    for (size_t i = typed; i < f->params.len; i++)
        f->params.data[n++] = f->params.data[i];
    f->params.len = n;
}

/* What is known of an argument: an ellipsis where a leaf is called like it, so that it is not
 * nested. */
static cfx_value shape_of(function *f, const char *name, size_t len) {
    bool leaf = f->params.len && find_param(f, 0, name, len);
    return leaf ? cfx_ellipsis() : cfx_none();
}

/* "[self, x, d], self._in_spec)" or "([x], {'k':k}), self._in_spec)": a spec of as many shapes, of
 * which only the plain ones are known. */
static cfx_value take_spec(function *f) {
    cfx__parser *p = f->p;
    cfx_value first = cfx_tuple_value(0, NULL);
    cfx_dict *rest = cfx_dict_new();
    const char *name;
    bool by_name = cfx__parser_take(p, "(");
    cfx__parser_want(p, "[");
    for (size_t n; (n = cfx__parser_take_name(p, &name)); cfx__parser_take(p, ", "))
        if (!same(name, n, "self"))
            cfx_list_append(cfx_as_list(first), shape_of(f, name, n));
    cfx__parser_want(p, by_name ? "], {" : "]");
    while (by_name && !p->failed && !cfx__parser_take(p, "})")) {
        cfx_value key = cfx__parser_take_string(p);
        cfx__parser_want(p, ":");
        size_t n = cfx__parser_take_name(p, &name);
        cfx_dict_put(rest, key, shape_of(f, name, n));
        cfx__parser_take(p, ", ");
    }
    cfx__parser_want(p, ", self._in_spec)");
    return by_name ? cfx_tuple(first, cfx_dict_value(rest)) : first;
}

/* Lines at the start of the body that take nested arguments apart: the graph has a tree. How it is
 * nested the text does not say. */
static void read_tree(function *f) {
    static const char call[] = "= fx_pytree.tree_flatten_spec(";
    cfx__parser *p = f->p;
    if (p->failed || !soon(p, call))
        return;
    cfx_value names = cfx_list_value(0, NULL);
    function head = {.p = p, .params = f->params};
    memset(&f->params, 0, sizeof f->params);
    for (size_t i = 0; i < head.params.len; i++)
        cfx_list_append(cfx_as_list(names),
                        cfx_string_value_n(head.params.data[i].target, head.params.data[i].len));
    next_line(f);
    take_leaf_types(f);
    next_line(f);
    take_leaves(f, call);
    for (size_t i = 0; i < f->params.len && head.params.len; i++) {
        param *leaf = &f->params.data[i], *like = find_param(&head, i, leaf->target, leaf->len);
        leaf->has_default = like && like->has_default;
        leaf->fallback = leaf->has_default ? like->fallback : cfx_none();
    }
    VEC_FREE(head.params);
    cfx_value spec = take_spec(f);
    if (!p->failed)
        cfx_graph_set_tree(p->g, names, spec, cfx_none());
}

/* The lines of a boxed head: `x = next(args_iter)` for each parameter. */
static void read_boxed(function *f) {
    cfx__parser *p = f->p;
    if (p->failed || f->params.len != 1 || !soon(p, "args_iter = iter(args_list)"))
        return;
    next_line(f);
    cfx__parser_want(p, "args_iter = iter(args_list)");
    f->params.len = 0;
    while (next_line(f) && !cfx__parser_take(p, "args_list.clear()") && !p->failed) {
        param m = {0};
        m.len = cfx__parser_take_name(p, &m.target);
        cfx__parser_want(p, " = next(args_iter)");
        VEC_PUSH(f->params, m);
    }
    if (f->params.len)
        cfx_graph_set_codegen(p->g, &cfx_codegen_boxed);
    else
        cfx__parse_fail(p, p->at, "expected a parameter, x = next(args_iter)");
}

/* Lines `sum_1 = sum` at the start of the body say what the nodes of parameters are called. They
 * come in the order of the parameters, so the search is short. */
static void read_aliases(function *f) {
    cfx__parser *p = f->p;
    for (size_t next = 0;;) {
        const char *start = p->at, *name, *raw;
        if (!next_line(f))
            break;
        size_t len = cfx__parser_take_name(p, &name);
        size_t raw_len = len && cfx__parser_take(p, " = ") ? cfx__parser_take_name(p, &raw) : 0;
        param *m = raw_len && cfx__parser_is_line_end(p) ? find_param(f, next, raw, raw_len) : NULL;
        if (!m) {
            p->at = start;
            break;
        }
        m->name = name, m->name_len = len;
        next = (size_t)(m - f->params.data) + 1;
    }
    set_trace(f, NULL);
}

static void add_params(function *f) {
    cfx__parser *p = f->p;
    for (size_t i = 0; i < f->params.len && !p->failed; i++) {
        const param *m = &f->params.data[i];
        const char *name = m->name ? m->name : m->target + stars(m);
        size_t len = m->name ? m->name_len : m->len - stars(m);
        if (cfx__parser_find_node(p, name, len)) {
            cfx__parse_fail(p, m->target, "duplicate argument '%.*s'", (int)len, name);
            return;
        }
        cfx_value args = m->has_default ? cfx_tuple_value(1, &m->fallback) : cfx_none();
        cfx__parser_node_text t = {CFX_PLACEHOLDER, m->target, m->len, name, len, m->type};
        cfx_node *n = cfx__parser_add_node(p, t, args, cfx_none());
        if (n)
            set_shape(p, n, m->shape, m->target);
    }
}

static void parse_wrap(function *f) {
    cfx__parser *p = f->p;
    cfx__parser_want(p, "torch.fx._symbolic_trace.wrap(\"");
    const char *name;
    size_t len = cfx__parser_take_name(p, &name);
    cfx__parser_want(p, "\")");
    if (len && !p->failed) {
        char *key = cfx__arena_copy(&p->arena, name, len);
        cfx__map_set(&f->wrapped, key, key);
    }
}

/* class Name(torch.nn.Module): The name is what a child is called, perhaps a string. */
static const char *parse_class(cfx__parser *p) {
    cfx__parser_skip(p);
    const char *name = p->at;
    size_t len = 0;
    if (p->at < p->end && *p->at == '"') {
        cfx_value v = cfx__parser_take_string(p);
        name = cfx_text(v) ? cfx_text(v) : "";
        len = strlen(name);
    } else {
        while (p->at < p->end && *p->at != '(' && *p->at != '\n')
            p->at++, len++;
    }
    if (!len)
        cfx__parse_fail(p, p->at, "expected the name of the class");
    cfx__parser_want(p, "(torch.nn.Module):");
    return cfx__arena_copy(&p->arena, name, len);
}

/* Reads one class, or a text without any, up to the next class. */
static void parse_module(function *f) {
    cfx__parser *p = f->p;
    cfx__parser_module m = {NULL, NULL, 0};
    if (next_line(f)) {
        m.indent = indent(p);
        m.name = take_word(p, "class") ? parse_class(p) : NULL;
    }
    p->g = m.g = cfx_graph_new();
    cfx__map_release(&p->nodes);
    cfx__map_release(&p->targets);
    VEC_PUSH(p->modules, m);
    bool head = false;
    while (!p->failed && cfx_ok() && next_line(f)) {
        if (head && ((p->end - p->at > 6 && !memcmp(p->at, "class ", 6)) ||
                     cfx__parser_at_program_part(p)))
            return;
        size_t mark = cfx_scope_open();
        if (head) {
            parse_statement(f);
        } else if (take_word(p, "def")) {
            head = true;
            parse_head(f);
            read_tree(f);
            read_boxed(f);
            read_aliases(f);
            add_params(f);
        } else {
            parse_wrap(f);
        }
        cfx_scope_close(mark);
    }
    if (!head)
        cfx__parse_fail(p, p->at, "expected 'def forward(...)'");
}

void cfx__parse_code_form(cfx__parser *p) {
    do {
        function f = {.p = p};
        parse_module(&f);
        cfx_value_drop(f.trace);
        VEC_FREE(f.params);
        cfx__map_release(&f.wrapped);
    } while (!p->failed && p->at < p->end && !cfx__parser_at_program_part(p));
}
