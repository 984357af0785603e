/* Values in a text, as code and repr() write them. */
#include "../value/tree_type.h"

#include "emit.h"

/* ---- lists ---------------------------------------------------------------------------------- */

cfx_value cfx__parser_pop_values(cfx__parser *p, size_t from, cfx_tag tag) {
    const cfx_value *items = p->stack.len > from ? &p->stack.data[from] : NULL;
    int64_t n = (int64_t)(p->stack.len - from);
    p->stack.len = from;
    return tag == CFX_TAG_LIST ? cfx_list_value(n, items) : cfx_tuple_value(n, items);
}

/* name = value; false, and nothing taken, when what comes next is no keyword. */
static bool take_keyword(cfx__parser *p, cfx_dict *kw) {
    const char *start = p->at, *name;
    size_t len = cfx__parser_take_name(p, &name);
    cfx__parser_skip(p);
    if (!len || p->at == p->end || *p->at != '=') {
        p->at = start;
        return false;
    }
    p->at++;
    cfx_value key = cfx_string_value_n(name, len), v = cfx__parser_take_value(p);
    if (cfx_dict_find(kw, key))
        cfx__parse_fail(p, start, "the keyword '%.*s' is given twice", (int)len, name);
    if (!p->failed)
        cfx_dict_put(kw, key, v);
    return true;
}

int64_t cfx__parser_take_values(cfx__parser *p, const char *close, cfx_dict *kw) {
    const char *start = p->at;
    size_t before = p->stack.len;
    p->comma = true;
    if (++p->depth > CFX__MAX_NESTING)
        cfx__parse_fail(p, start, "lists are nested too deep");
    for (cfx__parser_skip(p); !p->failed && !cfx__parser_take(p, close); cfx__parser_skip(p)) {
        if (!p->comma)
            cfx__parse_fail(p, p->at, "expected ',' or '%s'", close);
        bool keywords = kw && kw->len;
        if (!kw || !take_keyword(p, kw)) {
            if (keywords)
                cfx__parse_fail(p, p->at, "a positional argument follows keywords");
            cfx_value v = cfx__parser_take_value(p);
            VEC_PUSH(p->stack, v);
        }
        cfx__parser_skip(p);
        p->comma = cfx__parser_take(p, ",");
    }
    p->depth--;
    return (int64_t)(p->stack.len - before);
}

/* (a, b), (a,), () and, as Python has it, (a) for a itself. */
static cfx_value take_tuple(cfx__parser *p, const char *close) {
    size_t from = p->stack.len;
    int64_t n = cfx__parser_take_values(p, close, NULL);
    if (n == 1 && !p->comma)
        return p->stack.data[--p->stack.len];
    return cfx__parser_pop_values(p, from, CFX_TAG_TUPLE);
}

cfx_value cfx__parser_take_subscript(cfx__parser *p) {
    cfx__parser_skip(p);
    if (p->at < p->end && *p->at == ']')
        cfx__parse_fail(p, p->at, "expected a value");
    return take_tuple(p, "]");
}

static cfx_value take_list(cfx__parser *p) {
    size_t from = p->stack.len;
    cfx__parser_take_values(p, "]", NULL);
    return cfx__parser_pop_values(p, from, CFX_TAG_LIST);
}

static cfx_value take_dict(cfx__parser *p) {
    cfx_dict *d = cfx_dict_new();
    bool comma = true;
    if (++p->depth > CFX__MAX_NESTING)
        cfx__parse_fail(p, p->at, "lists are nested too deep");
    for (cfx__parser_skip(p); !p->failed && !cfx__parser_take(p, "}"); cfx__parser_skip(p)) {
        if (!comma)
            cfx__parse_fail(p, p->at, "expected ',' or '}'");
        const char *start = p->at;
        cfx_value key = cfx__parser_take_value(p);
        if (key.tag == CFX_TAG_LIST || key.tag == CFX_TAG_DICT || key.tag == CFX_TAG_SLICE)
            cfx__parse_fail(p, start, "unhashable type: '%s'", cfx__value_python_type(key));
        cfx__parser_skip(p);
        cfx__parser_want(p, ":");
        cfx_value v = cfx__parser_take_value(p);
        if (!p->failed)
            cfx_dict_put(d, key, v);
        cfx__parser_skip(p);
        comma = cfx__parser_take(p, ",");
    }
    p->depth--;
    return cfx_dict_value(d);
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* Tries both parts on a copy of the parser that does not complain. */
cfx_value cfx__parser_take_complex(cfx__parser *p) {
    cfx__parser q = *p;
    q.quiet = true;
    q.at++;
    if (!cfx__parser_is_number_next(&q))
        return cfx_bad();
    const char *at = q.at + (*q.at == '-');
    while (at < p->end && (cfx__emit_is_word(*at) || *at == '.' ||
                           ((*at == '+' || *at == '-') && (at[-1] == 'e' || at[-1] == 'E'))))
        at++;
    if (at == p->end || (*at != '+' && *at != '-'))
        return cfx_bad();
    q.end = at;
    cfx_value re = cfx__parser_take_number(&q);
    q.end = p->end;
    q.at = at + (*at == '+');
    cfx_value im =
        !q.failed && cfx__parser_is_number_next(&q) ? cfx__parser_take_number(&q) : cfx_bad();
    if (im.tag != CFX_TAG_COMPLEX || !cfx__parser_take(&q, ")"))
        return cfx_bad();
    bool minus = p->at[1] == '-'; /* -0 is no integer here */
    p->at = q.at;
    double real = cfx_number(re);
    return cfx_complex_value(minus ? __builtin_copysign(real, -1) : real, cfx_as_complex(im)->im);
}

/* ---- names ---------------------------------------------------------------------------------- */

static bool same(const char *a, size_t n, const char *b) {
    return strlen(b) == n && !memcmp(a, b, n);
}

bool cfx__parser_torch_constant(const char *name, size_t len, cfx_value *out) {
    const struct {
        const char *name;
        cfx_value value;
    } others[] = {{"strided", cfx_layout_value(CFX_STRIDED)},
                  {"sparse_coo", cfx_layout_value(CFX_SPARSE_COO)},
                  {"contiguous_format", cfx_memory_format_value(CFX_CONTIGUOUS)},
                  {"preserve_format", cfx_memory_format_value(CFX_PRESERVE)},
                  {"channels_last", cfx_memory_format_value(CFX_CHANNELS_LAST)},
                  {"channels_last_3d", cfx_memory_format_value(CFX_CHANNELS_LAST_3D)}};
    if (len < 7 || memcmp(name, "torch.", 6))
        return false;
    name += 6, len -= 6;
    for (int i = 0; i < COUNT(others); i++)
        if (same(name, len, others[i].name)) {
            *out = others[i].value;
            return true;
        }
    char buffer[32];
    cfx_dtype d;
    if (len >= sizeof buffer)
        return false;
    memcpy(buffer, name, len);
    buffer[len] = 0;
    if (!cfx_dtype_parse(buffer, &d) || !strcmp(buffer, cfx_dtype_brief(d)))
        return false;
    *out = cfx_dtype_value(d);
    return true;
}

/* Dots and names: torch.float32 has two atoms, torch.ops.aten.add.Tensor five. */
const char *cfx__parser_torch_value_end(const cfx__parser *p) {
    static const char ops[] = "torch.ops.";
    bool op = (size_t)(p->end - p->at) > strlen(ops) && !memcmp(p->at, ops, strlen(ops));
    const char *at = p->at;
    cfx_value v;
    for (int atoms = 0;; at++) {
        const char *atom = at;
        while (at < p->end && cfx__emit_is_word(*at))
            at++;
        if (at == atom || ++atoms == (op ? 5 : 2))
            break;
        if (at == p->end || *at != '.')
            return NULL;
    }
    return op || cfx__parser_torch_constant(p->at, (size_t)(at - p->at), &v) ? at : NULL;
}

/* torch.float32, torch.ops.aten.add.Tensor; and the tensors that code cannot hold. */
static cfx_value take_torch(cfx__parser *p) {
    const char *start = p->at, *end = cfx__parser_torch_value_end(p);
    size_t len = (size_t)((end ? end : start) - start);
    cfx_value v = cfx_bad();
    cfx_op *op = NULL;
    if (end && !cfx__parser_torch_constant(start, len, &v)) {
        op = cfx_op_find(cfx__string_new(start + 10, len - 10)->text);
        v = op ? cfx_op_value(op) : cfx_bad();
    }
    p->at += len;
    if (!cfx_is_bad(v))
        return v;
    while (start + len < p->end && (cfx__emit_is_word(start[len]) || start[len] == '.'))
        len++;
    if (end)
        cfx__parse_fail(p, start, "no operator is called '%.*s'", (int)len, start);
    else if (same(start, len, "torch.Tensor"))
        cfx__parse_fail(p, start, "the numbers of a tensor are not in the text: make it an "
                                  "attribute and read it with get_attr");
    else
        cfx__parse_fail(p, start, "'%.*s' is not a value", (int)len, start);
    return cfx_bad();
}

static cfx_value take_slice(cfx__parser *p, const char *start) {
    size_t from = p->stack.len;
    int64_t n = cfx__parser_take_values(p, ")", NULL);
    cfx_value part[3] = {cfx_none(), cfx_none(), cfx_none()};
    if (n < 1 || n > 3)
        cfx__parse_fail(p, start, "slice() takes 1 to 3 values");
    for (int i = 0; !p->failed && i < n; i++)
        part[n == 1 ? 1 : i] = p->stack.data[from + (size_t)i];
    p->stack.len = from;
    return cfx_slice_value(part[0], part[1], part[2]);
}

static cfx_value take_device(cfx__parser *p, const char *start) {
    cfx_dict *kw = cfx_dict_new();
    size_t from = p->stack.len;
    int64_t n = cfx__parser_take_values(p, ")", kw);
    const char *type = n == 1 ? cfx_text(p->stack.data[from]) : cfx_text(cfx_dict_get(kw, "type"));
    cfx_value index = cfx_dict_get(kw, "index");
    p->stack.len = from;
    cfx_device d = {0};
    if (!p->failed && (n > 1 || !type || !cfx__device_parse(type, &d)))
        cfx__parse_fail(p, start, "no such device");
    if (index.tag == CFX_TAG_INT)
        d.index = (int16_t)cfx_integer(index);
    return cfx_device_value(d);
}

static cfx_value take_complex_call(cfx__parser *p, const char *start) {
    size_t from = p->stack.len;
    int64_t n = cfx__parser_take_values(p, ")", NULL);
    cfx_value re = n == 2 ? p->stack.data[from] : cfx_none();
    cfx_value im = n == 2 ? p->stack.data[from + 1] : cfx_none();
    p->stack.len = from;
    if (!cfx_is_number(re) || !cfx_is_number(im))
        cfx__parse_fail(p, start, "complex() takes two numbers");
    return cfx_complex_value(cfx_number(re), cfx_number(im));
}

/* mine_Point(x, y) and, as repr() has it, with names: a value of a type of the caller's. */
static cfx_value take_typed(cfx__parser *p, const cfx_tree_type *type, const char *start) {
    size_t from = p->stack.len;
    cfx_dict *kw = cfx_dict_new();
    cfx__parser_take_values(p, ")", kw);
    for (int i = 0; kw->len && type->fields && type->fields[i]; i++)
        if (i >= (int)(p->stack.len - from)) {
            cfx_value v = cfx_dict_get(kw, type->fields[i]);
            VEC_PUSH(p->stack, v);
        }
    cfx_value parts = cfx__parser_pop_values(p, from, CFX_TAG_TUPLE);
    if (p->failed)
        return cfx_bad();
    cfx_value v = cfx_tree_value(type, cfx_as_list(parts)->len, cfx_as_list(parts)->items);
    if (cfx_is_bad(v) && cfx__error_forgive())
        cfx__parse_fail(p, start, "%s has other fields", type->name);
    return v;
}

bool cfx__parser_is_symbol(const char *name, size_t len) {
    size_t letters = 0;
    while (letters < len && name[letters] >= 'a' && name[letters] <= 'z')
        letters++;
    if (!letters || letters > 2 || letters == len || !strchr("suz", name[0]))
        return false;
    for (size_t i = letters; i < len; i++)
        if (name[i] < '0' || name[i] > '9')
            return false;
    return true;
}

static cfx_value take_symbolic(cfx__parser *p, const char *start) {
    cfx_value v;
    const char *rest;
    if (cfx__sym_parse(start, p->end, &rest, &v)) {
        p->at = rest;
        return v;
    }
    cfx__parse_fail(p, start, "this is not an expression of sizes");
    return cfx_bad();
}

static cfx_value take_word(cfx__parser *p) {
    static const char *const symbolic[] = {"Mod", "PythonMod", "FloorDiv", "Min", "Max"};
    const char *start = p->at, *name;
    size_t len = cfx__parser_take_name(p, &name);
    cfx_node *n = cfx__parser_find_node(p, name, len);
    if (n)
        return cfx_node_value(n);
    bool call = p->at < p->end && *p->at == '(';
    if (same(name, len, "None"))
        return cfx_none();
    if (same(name, len, "True") || same(name, len, "False"))
        return cfx_bool(*name == 'T');
    if (same(name, len, "Ellipsis"))
        return cfx_ellipsis();
    if (same(name, len, "torch")) {
        p->at = start;
        return take_torch(p);
    }
    if (call && same(name, len, "slice"))
        return p->at++, take_slice(p, start);
    if (call && same(name, len, "device"))
        return p->at++, take_device(p, start);
    if (call && same(name, len, "complex"))
        return p->at++, take_complex_call(p, start);
    const cfx_tree_type *type = call ? cfx__tree_type_spelled(name, len) : NULL;
    if (type)
        return p->at++, take_typed(p, type, start);
    for (int i = 0; call && i < COUNT(symbolic); i++)
        if (same(name, len, symbolic[i]))
            return take_symbolic(p, start);
    if (cfx__parser_is_symbol(name, len))
        return cfx__sym_name(cfx__string_new(name, len)->text, false, 0);
    if (call)
        cfx__parse_fail(p, start,
                        "a call cannot be an argument here: give its result a name first");
    else
        cfx__parse_fail(p, start, "name '%.*s' is not defined", (int)len, name);
    return cfx_bad();
}

cfx_value cfx__parser_take_operand(cfx__parser *p) {
    if (p->failed)
        return cfx_bad();
    cfx__parser_skip(p);
    char c = p->at < p->end ? *p->at : 0;
    if (c == '(') {
        cfx_value v = cfx__parser_take_complex(p);
        if (!cfx_is_bad(v))
            return v;
        p->at++;
        return take_tuple(p, ")");
    }
    if (c == '[')
        return p->at++, take_list(p);
    if (c == '{')
        return p->at++, take_dict(p);
    if (c == '\'' || c == '"')
        return cfx__parser_take_string(p);
    if (cfx__parser_is_number_next(p))
        return cfx__parser_take_number(p);
    if (cfx__parser_take(p, "..."))
        return cfx_ellipsis();
    if (cfx__emit_is_word(c))
        return take_word(p);
    cfx__parse_fail(p, p->at, "expected a value");
    return cfx_bad();
}

cfx_value cfx__parser_take_value(cfx__parser *p) {
    cfx__parser_skip(p);
    const char *start = p->at;
    cfx_value v = cfx__parser_take_operand(p);
    if (p->failed || (v.tag != CFX_TAG_INT && v.tag != CFX_TAG_SYM))
        return v;
    cfx__parser_skip(p);
    if (p->at < p->end && strchr("+-*/%", *p->at)) /* more of a symbolic size: 2*s77 + 1 */
        return take_symbolic(p, start);
    return v;
}
