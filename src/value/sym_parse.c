/* Symbolic integers from text: what cfx__sym_print writes, read back. */
#include "value.h"

enum { MAX_NESTING = 200 };

typedef struct scan {
    const char *at, *end;
    int depth;
    bool failed;
} scan;

static cfx_value sum(scan *s);

static void blanks(scan *s) {
    while (s->at < s->end && *s->at == ' ')
        s->at++;
}

static bool take(scan *s, const char *text) {
    const char *before = s->at;
    blanks(s);
    size_t n = strlen(text);
    if ((size_t)(s->end - s->at) >= n && !memcmp(s->at, text, n)) {
        s->at += n;
        return true;
    }
    s->at = before;
    return false;
}

static cfx_value fail(scan *s) {
    s->failed = true;
    return cfx_int(0);
}

/* Division by what turns out to be zero is no expression. */
static cfx_value binary(scan *s, cfx__sym_op op, cfx_value a, cfx_value b) {
    bool divides = op == CFX__SYM_FLOORDIV || op == CFX__SYM_MOD;
    if (s->failed || (divides && b.tag == CFX_TAG_INT && !b.i_) ||
        (op == CFX__SYM_POW && (b.tag != CFX_TAG_INT || b.i_ < 0 || b.i_ > 64)))
        return fail(s);
    cfx_value v = cfx__sym_binary(op, a, b);
    return cfx_is_bad(v) ? fail(s) : v;
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Mod(a, b), Min(a, b, ...): the arguments of a function, folded from the left. */
static cfx_value call(scan *s, cfx__sym_op op, bool many) {
    cfx_value v = sum(s);
    int n = 1;
    while (!s->failed && take(s, ",")) {
        v = binary(s, op, v, sum(s));
        n++;
    }
    return take(s, ")") && (many ? n >= 2 : n == 2) ? v : fail(s);
}

static cfx_value name(scan *s) {
    static const struct {
        const char *name;
        cfx__sym_op op;
        bool many;
    } functions[] = {{"Mod(", CFX__SYM_MOD, false},
                     {"PythonMod(", CFX__SYM_MOD, false},
                     {"FloorDiv(", CFX__SYM_FLOORDIV, false},
                     {"Min(", CFX__SYM_MIN, true},
                     {"Max(", CFX__SYM_MAX, true}};
    for (int i = 0; i < COUNT(functions); i++)
        if (take(s, functions[i].name))
            return call(s, functions[i].op, functions[i].many);
    const char *start = s->at;
    while (s->at < s->end && is_word(*s->at))
        s->at++;
    if (s->at == start)
        return fail(s);
    return cfx__sym_name(cfx__string_new(start, (size_t)(s->at - start))->text, false, 0);
}

static cfx_value number(scan *s) {
    int64_t v = 0;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *s->at - '0', &v))
            return fail(s);
    return cfx_int(v);
}

static cfx_value factor(scan *s) {
    blanks(s);
    cfx_value v;
    if (s->at == s->end || ++s->depth > MAX_NESTING) {
        v = fail(s);
    } else if (take(s, "(")) {
        v = sum(s);
        if (!take(s, ")"))
            v = fail(s);
    } else if (*s->at >= '0' && *s->at <= '9') {
        v = number(s);
    } else {
        v = name(s);
    }
    if (!s->failed && take(s, "**"))
        v = binary(s, CFX__SYM_POW, v, factor(s));
    s->depth--;
    return v;
}

/* Factors are multiplied before the number in front of them is: as in sympy 2*(a + 1) is a sum
 * then, and 2*(a + 1)*(b + 1) a product of three. */
static cfx_value term(scan *s) {
    cfx_value number = cfx_int(take(s, "-") ? -1 : 1), v = factor(s);
    while (!s->failed) {
        bool multiplies = take(s, "*");
        if (multiplies && v.tag == CFX_TAG_INT) {
            number = binary(s, CFX__SYM_MUL, number, v);
            v = factor(s);
            continue;
        }
        cfx__sym_op op = multiplies        ? CFX__SYM_MUL
                         : take(s, "//")   ? CFX__SYM_FLOORDIV
                         : take(s, "%")    ? CFX__SYM_MOD
                                           : CFX__SYM_INT;
        if (op == CFX__SYM_INT)
            break;
        if (!multiplies) {
            v = binary(s, CFX__SYM_MUL, number, v);
            number = cfx_int(1);
        }
        v = binary(s, op, v, factor(s));
    }
    return binary(s, CFX__SYM_MUL, number, v);
}

static cfx_value sum(scan *s) {
    cfx_value v = term(s);
    while (!s->failed) {
        if (take(s, "+"))
            v = binary(s, CFX__SYM_ADD, v, term(s));
        else if (take(s, "-"))
            v = binary(s, CFX__SYM_ADD, v, binary(s, CFX__SYM_MUL, cfx_int(-1), term(s)));
        else
            break;
    }
    return v;
}

bool cfx__sym_parse(const char *text, const char *end, const char **rest, cfx_value *out) {
    scan s = {text, end, 0, false};
    size_t mark = cfx_scope_open();
    *out = cfx_scope_return_value(mark, sum(&s));
    *rest = s.at;
    return !s.failed;
}

cfx_value cfx_symbol_value(const char *text) {
    const char *rest = text;
    cfx_value v = cfx_bad();
    if (text && cfx__sym_parse(text, text + strlen(text), &rest, &v) && !*rest)
        return v;
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "'%s' is not an expression of sizes",
             text ? text : "None");
    return cfx_bad();
}
