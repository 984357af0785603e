/* Patterns, replacements and conditions as text: an expression becomes a graph. The syntax is
 * Python's, as generated code has it, but calls may stand in calls. Start at cfx__pattern_parse. */
#include "match.h"

#include <ctype.h>

enum { MAX_DEPTH = 200 }; /* of brackets in brackets */

typedef struct reader {
    cfx__rule_text *t;
    cfx__rule_part part;
    const cfx_graph *pattern;
    cfx_graph *g;
    int depth;
    bool failed;
} reader;

static cfx_value read_expr(reader *r, int level);

/* ---- errors ---------------------------------------------------------------------------------- */

void cfx__rule_fail(const cfx__rule_text *t, const char *fmt, ...) {
    if (!cfx_ok())
        return;
    size_t mark = cfx_scope_open();
    int line = 1;
    for (const char *c = t->start; c < t->at; c++)
        line += *c == '\n';
    const char *rule = t->rule ? cfx__text_format("rule %s: ", t->rule) : "";
    const char *before =
        t->file   ? cfx__text_format("%s:%d: %s", t->file, line, rule)
        : t->rule ? rule
                  : cfx__text_format("pattern '%.*s': ", (int)(t->end - t->start), t->start);
    va_list ap;
    va_start(ap, fmt);
    cfx__fail_list(CFX_VALUE_ERROR, (cfx_site){0}, before, fmt, ap);
    va_end(ap);
    cfx_scope_close(mark);
}

static cfx_value fail(reader *r, const char *text) {
    if (!r->failed)
        cfx__rule_fail(r->t, "%s", text);
    r->failed = true;
    return cfx_bad();
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static void skip(reader *r) {
    while (r->t->at < r->t->end) {
        char c = *r->t->at;
        if (c == '#')
            while (r->t->at < r->t->end && *r->t->at != '\n')
                r->t->at++;
        else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
            r->t->at++;
        else
            break;
    }
}

static bool is_next(const reader *r, const char *text) {
    size_t n = strlen(text);
    return (size_t)(r->t->end - r->t->at) >= n && !memcmp(r->t->at, text, n) &&
           !(is_word(text[0]) && r->t->at + n < r->t->end && is_word(r->t->at[n]));
}

static bool take(reader *r, const char *text) {
    const char *start = r->t->at;
    skip(r);
    bool found = !r->failed && is_next(r, text);
    r->t->at = found ? r->t->at + strlen(text) : start;
    return found;
}

static bool want(reader *r, const char *text) {
    if (take(r, text))
        return true;
    skip(r);
    size_t mark = cfx_scope_open();
    fail(r, cfx__text_format("expected '%s' before '%.12s'", text,
                        r->t->at < r->t->end ? r->t->at : "the end"));
    cfx_scope_close(mark);
    return false;
}

/* A name at the reader; NULL where there is none. With dots: torch.relu. Scope. */
static const char *take_name(reader *r, bool dots) {
    skip(r);
    const char *start = r->t->at, *c = start;
    if (c == r->t->end || !is_word(*c) || isdigit((unsigned char)*c))
        return NULL;
    while (c < r->t->end && (is_word(*c) || (dots && *c == '.' && c + 1 < r->t->end &&
                                             is_word(c[1]) && !isdigit((unsigned char)c[1]))))
        c++;
    r->t->at = c;
    return cfx__string_new(start, (size_t)(c - start))->text;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

cfx_node *cfx__pattern_named(const cfx_graph *g, const char *name) {
    cfx_each_node(g, n) {
        bool named = n->op == CFX_PLACEHOLDER ? !strcmp(n->target.name, name)
                                              : !strcmp(n->name, name) &&
                                                    !cfx_is_none(cfx_node_get_meta(n, "named"));
        if (named)
            return n;
    }
    return NULL;
}

static cfx_value made(reader *r, cfx_node *n) {
    r->failed |= !cfx_ok();
    return r->failed ? cfx_bad() : cfx_node_value(n);
}

/* What a name stands for. `_` is another value each time. */
static cfx_value name_value(reader *r, const char *name) {
    cfx_dtype dtype;
    bool any = !strcmp(name, "_");
    cfx_node *known = any ? NULL : cfx__pattern_named(r->g, name);
    if (known)
        return cfx_node_value(known);
    if (r->part != CFX__RULE_PATTERN && !cfx__pattern_named(r->pattern, name)) {
        if (r->part == CFX__RULE_CONDITION && cfx_dtype_parse(name, &dtype))
            return cfx_dtype_value(dtype);
        return fail(r, cfx__text_format("'%s' is not bound by the pattern", name));
    }
    if (any && r->part != CFX__RULE_PATTERN)
        return fail(r, "'_' matches anything and has no value: use a name");
    return made(r, cfx_graph_placeholder(r->g, name, NULL, false, cfx_none()));
}

/* Numbers are computed now, the rest is a node. */
static cfx_value operation(reader *r, const char *target, int n, const cfx_value *v) {
    bool numbers = true;
    for (int i = 0; i < n; i++) {
        if (cfx_is_bad(v[i]))
            return cfx_bad();
        numbers &= cfx_is_number(v[i]);
    }
    bool condition = r->part == CFX__RULE_CONDITION && cfx__condition_arity(target) >= 0;
    if (numbers && !condition && cfx_fn_find(target)) {
        cfx_value result = cfx_py_from((cfx_site){0}, target, (cfx_args){n, v, NULL});
        r->failed |= !cfx_ok();
        return result;
    }
    cfx_value args = cfx_tuple_value(n, v);
    if (!condition)
        return made(r, cfx_graph_call_function(r->g, target, args, cfx_none()));
    cfx_target t = {.name = target};
    return made(r, cfx_graph_create(r->g, CFX_CALL_FUNCTION, t, args, cfx_none(), NULL, NULL));
}

static cfx_value unknown(reader *r, const char *name) {
    const char *near = cfx__nearest_operator(name);
    const char *text = cfx__text_format("no operator is called '%s'", name);
    return fail(r, near ? cfx__text_format("%s; did you mean '%s'?", text, near) : text);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* name=value; false, and nothing taken, where what comes next is no keyword. */
static bool take_keyword(reader *r, cfx_dict *kw) {
    const char *start = r->t->at, *name = take_name(r, false);
    if (!name || !take(r, "=") || is_next(r, "=")) {
        r->t->at = start;
        return false;
    }
    cfx_value key = cfx_string_value(name), v = read_expr(r, 0);
    if (cfx_dict_find(kw, key))
        fail(r, cfx__text_format("the keyword '%s' is given twice", name));
    if (!r->failed)
        cfx_dict_put(kw, key, v);
    return true;
}

/* The values up to the closing bracket, appended to `out`; whether a comma came last. */
static bool take_values(reader *r, const char *close, cfx_value out, cfx_dict *kw) {
    bool comma = true;
    while (!r->failed && !take(r, close)) {
        if (!comma)
            want(r, close);
        if (!kw || !take_keyword(r, kw)) {
            if (kw && kw->len)
                fail(r, "a positional argument follows keywords");
            cfx_value v = read_expr(r, 0);
            if (!r->failed)
                cfx_list_append(cfx_as_list(out), v);
        }
        comma = take(r, ",");
    }
    return comma;
}

/* Whether a call can be made of the arguments: its operator has an overload for them. */
static cfx_value checked(reader *r, cfx_node *n, const char *name) {
    cfx__call c;
    if (!r->failed && cfx_ok() && !cfx__call_of(n, &c)) {
        cfx_args a = {(int)cfx_as_list(n->args)->len, cfx_as_list(n->args)->items,
                      cfx_as_dict(n->kwargs)->len ? cfx_as_dict(n->kwargs) : NULL};
        cfx_target t = n->target;
        cfx_value bound[CFX_MAX_ARGS];
        if (t.op && !t.fn) {
            cfx__bind(cfx__op_info_of(t.op)->schema, (cfx_site){0}, a, CFX__BIND_NUMBERS, bound);
        } else {
            const char *schema = cfx__schema_print(cfx__op_info_of(t.fn->ops[0])->schema);
            return fail(r, cfx__text_format("%s() takes no such arguments: %s", name, schema));
        }
    }
    return made(r, n);
}

/* F.relu is torch.nn.functional.relu. */
static const char *full_name(const char *name) {
    if (!strncmp(name, "F.", 2))
        return cfx__text_format("torch.nn.functional.%s", name + 2);
    return strncmp(name, "nn.functional.", 14) ? name : cfx__text_format("torch.%s", name);
}

static bool is_operator(const reader *r, const char *name) {
    cfx_target t = cfx_graph_target(r->g, full_name(name));
    return t.fn || t.op;
}

/* name(...), or self.name(...): the bracket is next. */
static cfx_value read_call(reader *r, const char *name, const cfx_value *self) {
    cfx_value args = cfx_tuple_value(self ? 1 : 0, self);
    cfx_dict *kw = cfx_dict_new();
    int arity = r->part == CFX__RULE_CONDITION && !self ? cfx__condition_arity(name) : -1;
    want(r, "(");
    take_values(r, ")", args, kw);
    if (r->failed)
        return cfx_bad();
    cfx_value kwargs = kw->len ? cfx_dict_value(kw) : cfx_none();
    if (arity >= 0) {
        if (cfx_as_list(args)->len != arity || kw->len)
            return fail(r, cfx__text_format("%s() takes %d value(s)", name, arity));
        return operation(r, name, arity, cfx_as_list(args)->items);
    }
    if (r->part == CFX__RULE_CONDITION)
        return fail(r, cfx__text_format("there is no condition '%s'", name));
    if (self) {
        cfx_node *n = cfx_graph_call_method(r->g, name, args, kwargs);
        return n->target.fn ? checked(r, n, name) : unknown(r, name);
    }
    if (!is_operator(r, name))
        return unknown(r, name);
    return checked(r, cfx_graph_call_function(r->g, full_name(name), args, kwargs), name);
}

/* ---- values ---------------------------------------------------------------------------------- */

static cfx_value read_literal(reader *r) {
    cfx_value v;
    const char *at = r->t->at;
    if (!cfx__value_literal(&at, &v) || at > r->t->end)
        return cfx_bad();
    r->t->at = at;
    return v;
}

/* (a), (a, b), [a, b]. */
static cfx_value read_bracket(reader *r) {
    bool list = take(r, "[");
    if (!list)
        want(r, "(");
    cfx_value out = list ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    bool comma = take_values(r, list ? "]" : ")", out, NULL);
    if (r->failed)
        return cfx_bad();
    return !list && cfx_as_list(out)->len == 1 && !comma ? cfx_as_list(out)->items[0] : out;
}

/* A word: a literal, a call, a name, or x.relu() with the rest left to read_postfix. */
static cfx_value read_word(reader *r) {
    static const char *const values[] = {"slice", "device", "complex", "torch.device"};
    const char *start = r->t->at, *name = take_name(r, true);
    const char *after = r->t->at;
    bool call = take(r, "(");
    r->t->at = after;
    for (int i = 0; i < COUNT(values); i++)
        call &= strcmp(name, values[i]) != 0;
    bool one = !strchr(name, '.');
    if (call && (one || is_operator(r, name)))
        return read_call(r, name, NULL);
    r->t->at = start;
    cfx_value v = read_literal(r);
    if (!cfx_is_bad(v))
        return v;
    r->t->at = start;
    if (call && (!strncmp(name, "torch.", 6) || !strncmp(name, "aten.", 5)))
        return unknown(r, name);
    name = take_name(r, false);
    if (take(r, ":=")) {
        if (r->part != CFX__RULE_PATTERN || cfx__pattern_named(r->g, name))
            return fail(r, cfx__text_format("'%s' has a meaning already", name));
        v = read_expr(r, 0);
        if (!r->failed && v.tag != CFX_TAG_NODE)
            return fail(r, cfx__text_format("'%s' names a value that is not a call", name));
        if (!r->failed) {
            cfx_node_set_name(cfx_as_node(v), name);
            cfx_node_set_meta(cfx_as_node(v), "named", cfx_bool(true));
        }
        return r->failed || !cfx_ok() ? (r->failed = true, cfx_bad()) : v;
    }
    return name_value(r, name);
}

static cfx_value read_atom(reader *r) {
    skip(r);
    char c = r->t->at < r->t->end ? *r->t->at : 0;
    if (c == '(' || c == '[')
        return read_bracket(r);
    if (is_word(c) && !isdigit((unsigned char)c))
        return read_word(r);
    cfx_value v = c ? read_literal(r) : cfx_bad();
    return cfx_is_bad(v) ? fail(r, "expected a value") : v;
}

/* a, or a:b:c inside square brackets. */
static cfx_value read_index(reader *r) {
    cfx_value part[3] = {cfx_none(), cfx_none(), cfx_none()};
    int n = 0;
    skip(r);
    if (!is_next(r, ":"))
        part[0] = read_expr(r, 0);
    while (n < 2 && take(r, ":")) {
        skip(r);
        if (!is_next(r, ":") && !is_next(r, "]") && !is_next(r, ","))
            part[n + 1] = read_expr(r, 0);
        n++;
    }
    return n && !r->failed ? cfx_slice_value(part[0], part[1], part[2]) : part[0];
}

static cfx_value read_subscript(reader *r, cfx_value of) {
    cfx_value items = cfx_tuple_value(0, NULL);
    bool comma = false;
    do {
        cfx_value v = read_index(r);
        if (r->failed)
            return cfx_bad();
        cfx_list_append(cfx_as_list(items), v);
        comma |= cfx_as_list(items)->len > 1;
    } while (take(r, ","));
    want(r, "]");
    cfx_value args[] = {of, comma ? items : cfx_as_list(items)->items[0]};
    return r->failed ? cfx_bad() : operation(r, "operator.getitem", 2, args);
}

static cfx_value read_postfix(reader *r) {
    cfx_value v = read_atom(r);
    while (!r->failed) {
        if (take(r, "[")) {
            v = read_subscript(r, v);
        } else if (take(r, ".")) {
            const char *name = take_name(r, false);
            if (!name)
                return fail(r, "expected a name after '.'");
            skip(r);
            cfx_value args[] = {v, cfx_string_value(name)};
            bool call = is_next(r, "(");
            v = call ? read_call(r, name, &v) : operation(r, "builtins.getattr", 2, args);
        } else {
            return v;
        }
    }
    return cfx_bad();
}

/* ---- operators ------------------------------------------------------------------------------- */

/* From loose to tight; a level's signs are tried in order. */
static const struct {
    const char *sign, *target;
    int level;
} binary[] = {
    {"or", "or", 0},           {"and", "and", 1},         {"in", "in", 3},
    {"==", "operator.eq", 3},  {"!=", "operator.ne", 3},  {"<=", "operator.le", 3},
    {">=", "operator.ge", 3},  {"<<", "operator.lshift", 7}, {">>", "operator.rshift", 7},
    {"<", "operator.lt", 3},   {">", "operator.gt", 3},   {"|", "operator.or_", 4},
    {"^", "operator.xor", 5},  {"&", "operator.and_", 6}, {"+", "operator.add", 8},
    {"-", "operator.sub", 8},  {"**", "operator.pow", 11}, {"*", "operator.mul", 9},
    {"//", "operator.floordiv", 9}, {"/", "operator.truediv", 9}, {"%", "operator.mod", 9},
    {"@", "operator.matmul", 9}};

enum { NOT = 2, UNARY = 10, POWER = 11 };

/* The operator of a level or tighter that comes next, or -1. Words are for conditions. */
static int next_operator(reader *r, int level) {
    skip(r);
    if (r->failed || is_next(r, "->") || is_next(r, "where"))
        return -1;
    for (int i = 0; i < COUNT(binary); i++)
        if (is_next(r, binary[i].sign)) {
            bool word = is_word(binary[i].sign[0]);
            return (word && r->part != CFX__RULE_CONDITION) || binary[i].level < level ? -1 : i;
        }
    return -1;
}

static cfx_value read_unary(reader *r) {
    static const char *const signs[][2] = {
        {"-", "operator.neg"}, {"+", "operator.pos"}, {"~", "operator.invert"}};
    if (r->part == CFX__RULE_CONDITION && take(r, "not")) {
        cfx_value v = read_expr(r, NOT);
        return r->failed ? v : operation(r, "not", 1, &v);
    }
    for (int i = 0; i < COUNT(signs); i++)
        if (take(r, signs[i][0])) {
            cfx_value v = read_expr(r, UNARY);
            if (v.tag == CFX_TAG_INT && i == 0)
                return cfx_int((int64_t)(0 - (uint64_t)cfx_integer(v)));
            if (v.tag == CFX_TAG_FLOAT && i == 0)
                return cfx_float(-cfx_number(v));
            return r->failed ? v : operation(r, signs[i][1], 1, &v);
        }
    return read_postfix(r);
}

static cfx_value read_expr(reader *r, int level) {
    if (++r->depth > MAX_DEPTH)
        fail(r, "brackets are nested too deep");
    cfx_value v = r->failed ? cfx_bad() : read_unary(r);
    for (int i; !r->failed && (i = next_operator(r, level)) >= 0;) {
        r->t->at += strlen(binary[i].sign);
        bool right = binary[i].level == POWER; /* 2 ** -x, x ** y ** z */
        cfx_value args[] = {v, read_expr(r, right ? UNARY : binary[i].level + 1)};
        v = r->failed ? cfx_bad() : operation(r, binary[i].target, 2, args);
    }
    r->depth--;
    return r->failed ? cfx_bad() : v;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool is_call(cfx_value v) { return v.tag == CFX_TAG_NODE; }

/* Results are nodes, and those of a pattern compute something. */
static bool results_fit(reader *r, cfx_value v) {
    bool several = v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST;
    bool any = false, all = several ? cfx_as_list(v)->len > 0 : is_call(v);
    for (int64_t i = 0; several && i < cfx_as_list(v)->len; i++)
        all &= is_call(cfx_as_list(v)->items[i]);
    cfx_each_node(r->g, n) any |= n->op != CFX_PLACEHOLDER;
    if (r->part == CFX__RULE_PATTERN && (!all || !any))
        fail(r, "a pattern is a call, or several in brackets");
    else if (r->part == CFX__RULE_RESULT && !all)
        fail(r, "what a pattern is replaced by is a value or a call, not a number");
    return !r->failed;
}

cfx_graph *cfx__pattern_parse(cfx__rule_text *t, cfx__rule_part part, const cfx_graph *pattern) {
    size_t mark = cfx_scope_open();
    reader r = {.t = t, .part = part, .pattern = pattern, .g = cfx_graph_new()};
    cfx_value v = read_expr(&r, 0);
    skip(&r);
    bool end = t->at == t->end || is_next(&r, "->") || is_next(&r, "where");
    if (!r.failed && !end)
        fail(&r, cfx__text_format("'%.12s' is one too many", t->at));
    if (!r.failed && cfx_ok() && results_fit(&r, v))
        cfx_graph_output(r.g, v);
    return cfx_scope_return(mark, r.failed || !cfx_ok() ? NULL : r.g);
}
