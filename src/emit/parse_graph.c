/* The graph form: what print(graph) shows, line by line.
 *
 * It is not lossless. Strings stand in it without quotes, devices look like strings, the type of
 * the result is missing. So a bare word is what it can be read as: None, True, a number,
 * torch.float32, a slice, cpu, an operator's name; and otherwise the string that goes up to the
 * next ", " or the bracket that closes the list around it. */
#include "emit.h"

#include <limits.h>

static cfx_value take_item(cfx__parser *p);

static bool same(const char *a, size_t n, const char *b) {
    return strlen(b) == n && !memcmp(a, b, n);
}

/* ---- bare words ----------------------------------------------------------------------------- */

/* Where a bare word ends: at ", ", at a bracket that it does not open itself, at the line's end. A
 * colon ends the key of a dict. */
static const char *bare_end(const cfx__parser *p, char stop) {
    int depth = 0;
    const char *c = p->at;
    for (; c < p->end && *c != '\n'; c++) {
        if (!depth && *c == ',' && (c + 1 == p->end || c[1] == ' ' || c[1] == ')'))
            break;
        if (!depth && stop && *c == stop && c + 1 < p->end && c[1] == ' ')
            break;
        if (strchr("([{", *c))
            depth++;
        else if (strchr(")]}", *c) && depth-- == 0)
            break;
    }
    return c;
}

/* A number that fills the word. */
static bool whole_number(cfx__parser *p, const char *end, cfx_value *v) {
    if (!cfx__parser_is_number_next(p))
        return false;
    const char *c = p->at + (*p->at == '-');
    for (; c < end; c++)
        if (!cfx__emit_is_word(*c) && *c != '.' && *c != '+' && *c != '-')
            return false;
    cfx__parser word = *p;
    word.end = end;
    word.quiet = true;
    *v = cfx__parser_take_number(&word);
    return !word.failed && word.at == end;
}

static bool whole_device(const char *text, size_t len, cfx_value *v) {
    char buffer[16];
    cfx_device d;
    if (len >= sizeof buffer)
        return false;
    memcpy(buffer, text, len);
    buffer[len] = 0;
    if (!cfx__device_parse(buffer, &d))
        return false;
    *v = cfx_device_value(d);
    return true;
}

/* aten.add.Tensor: the name of an operator that there is. */
static bool whole_operator(const char *text, size_t len, cfx_value *v) {
    int dots = 0;
    for (size_t i = 0; i < len; i++)
        if (text[i] == '.')
            dots++;
        else if (!cfx__emit_is_word(text[i]))
            return false;
    cfx_op *op = dots == 2 ? cfx_op_find(cfx__string_new(text, len)->text) : NULL;
    if (op)
        *v = cfx_op_value(op);
    return op != NULL;
}

static cfx_value read_bare(cfx__parser *p, const char *end) {
    const char *text = p->at;
    size_t len = (size_t)(end - text);
    cfx_value v = cfx_none();
    if (len > 6 && !memcmp(text, "slice(", 6))
        return cfx__parser_take_value(p);
    bool found = whole_number(p, end, &v) || cfx__parser_torch_constant(text, len, &v) ||
                 whole_device(text, len, &v) || whole_operator(text, len, &v);
    p->at = end;
    if (found || same(text, len, "None"))
        return v;
    if (same(text, len, "True") || same(text, len, "False"))
        return cfx_bool(*text == 'T');
    if (same(text, len, "Ellipsis"))
        return cfx_ellipsis();
    return cfx_string_value_n(text, len);
}

/* ---- values --------------------------------------------------------------------------------- */

static cfx_value take_node(cfx__parser *p) {
    const char *start = p->at++, *name;
    size_t len = cfx__parser_take_name(p, &name);
    cfx_node *n = len ? cfx__parser_find_node(p, name, len) : NULL;
    if (!n)
        cfx__parse_fail(p, start, "there is no node %%%.*s before this line", (int)len, name);
    return cfx_node_value(n);
}

/* A one-tuple ends in a comma. Between two commas stands an empty string. */
static cfx_value take_items(cfx__parser *p, const char *close, cfx_tag tag) {
    size_t from = p->stack.len;
    p->at++;
    if (++p->depth > CFX__MAX_NESTING)
        cfx__parse_fail(p, p->at, "lists are nested too deep");
    bool more = p->at == p->end || *p->at != *close;
    while (more && !p->failed) {
        cfx_value v = take_item(p);
        VEC_PUSH(p->stack, v);
        more = cfx__parser_take(p, ", ");
    }
    cfx__parser_take(p, ",");
    cfx__parser_want(p, close);
    p->depth--;
    return cfx__parser_pop_values(p, from, tag);
}

/* {key: value}: the keys of keywords are names, those of other dicts may be numbers. */
static cfx_value take_mapping(cfx__parser *p, bool keywords) {
    cfx_dict *d = cfx_dict_new();
    bool comma = true;
    p->at++;
    if (++p->depth > CFX__MAX_NESTING)
        cfx__parse_fail(p, p->at, "lists are nested too deep");
    while (!p->failed && !cfx__parser_take(p, "}")) {
        if (!comma)
            cfx__parse_fail(p, p->at, "expected ',' or '}'");
        const char *end = bare_end(p, ':');
        if (end == p->end || *end != ':')
            cfx__parse_fail(p, p->at, "expected a key and ': '");
        cfx_value key = keywords ? cfx_string_value_n(p->at, (size_t)(end - p->at))
                                 : read_bare(p, end);
        p->at = end;
        cfx__parser_want(p, ": ");
        cfx_value v = take_item(p);
        if (!p->failed)
            cfx_dict_put(d, key, v);
        comma = cfx__parser_take(p, ", ");
    }
    p->depth--;
    return cfx_dict_value(d);
}

/* One value of a list. */
static cfx_value take_item(cfx__parser *p) {
    if (p->failed)
        return cfx_bad();
    char c = p->at < p->end ? *p->at : 0;
    if (c == '%')
        return take_node(p);
    if (c == '[')
        return take_items(p, "]", CFX_TAG_LIST);
    if (c == '{')
        return take_mapping(p, false);
    if (c == '(') {
        cfx_value v = cfx__parser_take_complex(p);
        return cfx_is_bad(v) ? take_items(p, ")", CFX_TAG_TUPLE) : v;
    }
    return read_bare(p, bare_end(p, 0));
}

/* str() of a value on its own: a default, a result. Inside brackets it is repr(), as in code. */
static cfx_value take_str(cfx__parser *p, const char *end) {
    const char *text = p->at;
    if (text < end && strchr("([{", *text)) {
        const char *whole = p->end;
        p->end = end;
        cfx_value v = cfx__parser_take_value(p);
        p->end = whole;
        if (!p->failed && p->at != end)
            cfx__parse_fail(p, p->at, "expected the end of the value");
        return v;
    }
    cfx_node *n = cfx__parser_find_node(p, text, (size_t)(end - text));
    if (n) {
        p->at = end;
        return cfx_node_value(n);
    }
    return read_bare(p, end);
}

/* ---- lines ---------------------------------------------------------------------------------- */

static const char *line_end(const cfx__parser *p) {
    const char *end = memchr(p->at, '\n', (size_t)(p->end - p->at));
    if (!end)
        end = p->end;
    while (end > p->at && (end[-1] == ' ' || end[-1] == '\r' || end[-1] == '\t'))
        end--;
    return end;
}

/* The type between " : " and "[num_users=", or NULL; scope. */
static const char *take_annotation(cfx__parser *p) {
    static const char users[] = "[num_users=";
    const char *start = p->at, *end = line_end(p), *c = start;
    size_t n = strlen(users);
    while (c + n < end && memcmp(c, users, n))
        c++;
    if (c + n >= end) {
        cfx__parse_fail(p, start, "expected '[num_users=N]'");
        return NULL;
    }
    p->at = c + n;
    while (p->at < end && *p->at >= '0' && *p->at <= '9')
        p->at++;
    cfx__parser_want(p, "] = ");
    while (c > start && c[-1] == ' ')
        c--;
    if (!p->failed && !cfx__parse_is_type(start, c))
        cfx__parse_fail(p, start, "expected a type");
    return c > start ? cfx__string_new(start, (size_t)(c - start))->text : NULL;
}

static bool take_opcode(cfx__parser *p, cfx_opcode *op) {
    for (int i = CFX_PLACEHOLDER; i < CFX_OUTPUT; i++)
        if (cfx__parser_take(p, cfx_opcode_name((cfx_opcode)i))) {
            *op = (cfx_opcode)i;
            return true;
        }
    cfx__parse_fail(p, p->at, "expected one of placeholder, get_attr, call_function, call_method "
                              "and call_module");
    return false;
}

/* Whether a target can be called so: inputs are names with stars before them or not; the others are
 * names with dots between, of which operators have torch.ops.aten.add.Tensor at most. */
static bool is_target(cfx_opcode op, const char *text, const char *end) {
    static const char ops[] = "torch.ops.";
    bool is_op = op == CFX_CALL_FUNCTION && end - text > (ptrdiff_t)strlen(ops) &&
                 !memcmp(text, ops, strlen(ops));
    int most = op == CFX_PLACEHOLDER ? 0 : is_op ? 4 : INT_MAX;
    bool word = false, paths = op == CFX_GET_ATTR || op == CFX_CALL_MODULE; /* of layers.0 */
    for (int stars = 0; op == CFX_PLACEHOLDER && text < end && *text == '*' && stars < 2; stars++)
        text++;
    for (; text < end; text++) {
        bool digit = *text >= '0' && *text <= '9' && !word && !paths;
        if (*text == '.' ? !word || most-- == 0 : !cfx__emit_is_word(*text) || digit)
            return false;
        word = *text != '.';
    }
    return word;
}

/* The text of [target=...]. */
static size_t take_target(cfx__parser *p, cfx_opcode op, const char **text) {
    cfx__parser_want(p, "[target=");
    *text = p->at;
    const char *end = bare_end(p, 0);
    size_t len = (size_t)(end - p->at);
    if (!p->failed && !is_target(op, p->at, end))
        cfx__parse_fail(p, p->at, "expected a name");
    if (!p->failed)
        p->at = end;
    cfx__parser_want(p, "]");
    return len;
}

static void take_arguments(cfx__parser *p, cfx_opcode op, cfx_value *args, cfx_value *kwargs) {
    if (op == CFX_PLACEHOLDER) {
        if (cfx__parser_take(p, "(default=")) {
            const char *end = line_end(p);
            if (end == p->at || end[-1] != ')') {
                cfx__parse_fail(p, end, "expected ')'");
                return;
            }
            cfx_value v = take_str(p, end - 1);
            *args = cfx_tuple_value(1, &v);
            cfx__parser_want(p, ")");
        }
    } else if (op != CFX_GET_ATTR) {
        cfx__parser_want(p, "(args = ");
        if (!p->failed && (p->at == p->end || *p->at != '('))
            cfx__parse_fail(p, p->at, "expected '('");
        if (!p->failed)
            *args = take_items(p, ")", CFX_TAG_TUPLE);
        cfx__parser_want(p, ", kwargs = ");
        if (!p->failed && (p->at == p->end || *p->at != '{'))
            cfx__parse_fail(p, p->at, "expected '{'");
        if (!p->failed)
            *kwargs = take_mapping(p, true);
        cfx__parser_want(p, ")");
    }
}

/* Exported programs have nodes called `input`, which no new node would be. Functions of math are
 * always wrapped, as the tracer makes them. */
static void finish_node(cfx__parser *p, cfx_node *n, const char *name, size_t len) {
    if (!n)
        return;
    if (!same(name, len, n->name) && !cfx_node_set_name(n, cfx__string_new(name, len)->text))
        p->failed = true;
    if (n->op == CFX_CALL_FUNCTION && !strncmp(n->target.name, "math.", 5))
        cfx_node_set_meta(n, "is_wrapped", cfx_bool(true));
}

/* %name : type [num_users=1] = opcode[target=...](args = (...), kwargs = {...}) */
static void parse_node(cfx__parser *p) {
    const char *start = p->at++, *name, *target;
    size_t len = cfx__parser_take_name(p, &name);
    if (!len)
        cfx__parse_fail(p, p->at, "expected the name of a node");
    else if (cfx__parser_find_node(p, name, len))
        cfx__parse_fail(p, start, "there is a node %%%.*s already", (int)len, name);
    cfx__parser_want(p, " : ");
    const char *type = take_annotation(p);
    cfx_opcode op;
    if (p->failed || !take_opcode(p, &op))
        return;
    size_t target_len = take_target(p, op, &target);
    cfx_value args = cfx_none(), kwargs = cfx_none();
    take_arguments(p, op, &args, &kwargs);
    if (!p->failed && !cfx__parser_is_line_end(p))
        cfx__parse_fail(p, p->at, "expected the end of the line");
    cfx__parser_node_text t = {op, target, target_len, name, len, type};
    if (!p->failed)
        finish_node(p, cfx__parser_add_node(p, t, args, kwargs), name, len);
}

static void parse_return(cfx__parser *p) {
    cfx_value result = take_str(p, line_end(p));
    if (!p->failed)
        cfx_graph_output(p->g, result);
}

void cfx__parse_graph_form(cfx__parser *p) {
    const char *end = line_end(p);
    if (end - p->at < 2 || memcmp(end - 2, "):", 2))
        cfx__parse_fail(p, p->at, "expected 'graph():'");
    p->at = end;
    while (!p->failed && cfx_ok()) {
        while (p->at < p->end && (cfx__parser_skip(p), p->at < p->end) && *p->at == '\n')
            p->at++;
        if (p->at == p->end)
            break;
        size_t mark = cfx_scope_open();
        if (cfx_graph_output_node(p->g))
            cfx__parse_fail(p, p->at, "nothing may follow the return");
        else if (*p->at == '%')
            parse_node(p);
        else if (*p->at == '#')
            p->at = line_end(p);
        else if (cfx__parser_take(p, "return "))
            parse_return(p);
        else
            cfx__parse_fail(p, p->at, "expected a node ('%%name : ...') or 'return'");
        cfx_scope_close(mark);
    }
}
