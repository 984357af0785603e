/* Conditions on the sizes of inputs, as torch.export notes them with a program: Python's arithmetic
 * and comparisons over L['x'].size()[0]. A guard is read and computed in one walk; where it is to
 * be shown, the same walk writes it as Python's ast.unparse does. Start at cfx__guard_holds. */
#include "guard.h"

#include <math.h>

/* How tightly an expression holds together, loosest first, in the numbers of Python's ast: between
 * comparisons and sums are operators that guards have not. */
enum { OR = 1, AND, NOT, COMPARE, SUM = 9, TERM, SIGN, POWER, ATOM = 14 };
enum { MAX_NESTING = 200 };

typedef struct scan {
    const char *at;
    cfx__guard_lookup *lookup; /* NULL: it is not computed */
    void *user;
    bool shown; /* texts are made */
    int depth;
    bool failed;
} scan;

/* A part of a guard: what it is, and how it is written. */
typedef struct part {
    bool real;
    int64_t whole;
    double number; /* where it is real */
    int level;
    const char *text; /* NULL: it is not shown */
} part;

static part any(scan *s);

static part fail(scan *s) {
    s->failed = true;
    return (part){.level = ATOM, .text = s->shown ? "" : NULL};
}

static void blanks(scan *s) {
    while (*s->at == ' ')
        s->at++;
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Steps over a sign or a whole word. */
static bool take(scan *s, const char *text) {
    blanks(s);
    size_t n = strlen(text);
    if (strncmp(s->at, text, n) || (is_word(text[n - 1]) && is_word(s->at[n])))
        return false;
    s->at += n;
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

static const char *wrapped(part p, int least) {
    return p.level < least ? cfx__text_format("(%s)", p.text) : p.text;
}

/* a and b with what is between them, in parentheses where they hold together less than said. */
static const char *joined(const scan *s, part a, int left, const char *between, part b, int right) {
    if (!s->shown)
        return NULL;
    return cfx__text_format("%s%s%s", wrapped(a, left), between, wrapped(b, right));
}

/* ---- computing ------------------------------------------------------------------------------- */

static double as_real(part p) { return p.real ? p.number : (double)p.whole; }

static bool is_true(part p) { return p.real ? p.number != 0 : p.whole != 0; }

static part arithmetic(scan *s, part a, const char *sign, part b, int level) {
    static const struct {
        const char *sign;
        cfx__sym_op op;
    } whole[] = {{" + ", CFX__SYM_ADD},
                 {" * ", CFX__SYM_MUL},
                 {" // ", CFX__SYM_FLOORDIV},
                 {" % ", CFX__SYM_MOD},
                 {" ** ", CFX__SYM_POW}};
    bool power = level == POWER;
    part out = {.level = level,
                .text = joined(s, a, level + power, sign, b, level + !power)};
    if (!s->lookup || s->failed)
        return out;
    bool minus = !strcmp(sign, " - ");
    if (minus && !b.real)
        s->failed |= __builtin_sub_overflow(0, b.whole, &b.whole);
    b.number = minus ? -b.number : b.number;
    out.real = a.real || b.real || !strcmp(sign, " / ");
    if (out.real) {
        double x = as_real(a), y = as_real(b);
        out.number = !strcmp(sign, " / ")    ? x / y
                     : !strcmp(sign, " * ")  ? x * y
                     : !strcmp(sign, " ** ") ? pow(x, y)
                     : level == SUM          ? x + y
                                             : NAN;
        s->failed |= isnan(out.number);
        return out;
    }
    for (int i = 0; i < COUNT(whole); i++)
        if (!strcmp(whole[i].sign, minus ? " + " : sign))
            s->failed |= !cfx__sym_apply(whole[i].op, a.whole, b.whole, &out.whole);
    return out;
}

static bool compares(part a, const char *sign, part b) {
    int order;
    if (a.real || b.real)
        order = (as_real(a) > as_real(b)) - (as_real(a) < as_real(b));
    else
        order = (a.whole > b.whole) - (a.whole < b.whole);
    return *sign == '=' ? order == 0
           : *sign == '!' ? order != 0
           : *sign == '<' ? order < 0 || (sign[1] == '=' && order == 0)
                          : order > 0 || (sign[1] == '=' && order == 0);
}

/* ---- reading --------------------------------------------------------------------------------- */

static part number(scan *s) {
    part p = {.level = ATOM};
    const char *start = s->at;
    for (; *s->at >= '0' && *s->at <= '9'; s->at++)
        s->failed |= __builtin_mul_overflow(p.whole, 10, &p.whole) ||
                     __builtin_add_overflow(p.whole, *s->at - '0', &p.whole);
    if (*s->at == '.' || *s->at == 'e') {
        char *end;
        p.real = true;
        p.number = cfx__number_read(start, &end);
        s->failed |= end == start;
        s->at = end;
    }
    if (s->shown)
        p.text = cfx__string_new(start, (size_t)(s->at - start))->text;
    return p;
}

/* min(a, b, ...), max, abs, int, float. */
static part call(scan *s, const char *function) {
    part first = any(s), out = first;
    const char *text = first.text;
    int n = 1;
    for (; !s->failed && take(s, ","); n++) {
        part next = any(s);
        bool less = compares(next, "<", out), more = compares(next, ">", out);
        out = (*function == 'm' && function[1] == 'i') ? (less ? next : out) : more ? next : out;
        text = s->shown ? cfx__text_format("%s, %s", text, next.text) : NULL;
    }
    bool many = !strcmp(function, "min") || !strcmp(function, "max");
    if (!take(s, ")") || (!many && n != 1))
        return fail(s);
    if (!strcmp(function, "abs") && (out.real ? out.number : (double)out.whole) < 0) {
        out.number = -out.number;
        s->failed |= __builtin_sub_overflow(0, out.whole, &out.whole);
    } else if (!strcmp(function, "float") && !out.real) {
        out.number = (double)out.whole, out.real = true;
    } else if (!strcmp(function, "int") && out.real) {
        s->failed |= !(fabs(out.number) < 9e15);
        out.whole = s->failed ? 0 : (int64_t)out.number;
        out.real = false;
    }
    out.level = ATOM;
    out.text = s->shown ? cfx__text_format("%s(%s)", function, text) : NULL;
    return out;
}

/* L['batch'][0].size()[1]: the end of it; NULL where it is none. */
static const char *source_end(const char *at) {
    static const char *const properties[] = {".size()", ".stride()", ".storage_offset()"};
    const char *p = at + 1;
    while (*p == '[' || *p == '.') {
        bool property = false;
        for (int i = 0; i < COUNT(properties) && !property; i++)
            if ((property = !strncmp(p, properties[i], strlen(properties[i]))))
                p += strlen(properties[i]);
        if (property)
            continue;
        if (*p == '.') {
            while (is_word(*++p))
                ;
            continue;
        }
        char quote = p[1] == '\'' || p[1] == '"' ? p[1] : 0;
        p = quote ? strchr(p + 2, quote) : p;
        p = p ? strchr(p, ']') : NULL;
        if (!p)
            return NULL;
        p++;
    }
    return p == at + 1 ? NULL : p;
}

static part source(scan *s) {
    part p = {.level = ATOM};
    const char *start = s->at, *end = source_end(start);
    if (!end)
        return fail(s);
    s->at = end;
    if (s->lookup)
        s->failed |= !s->lookup(start, (size_t)(end - start), s->user, &p.whole);
    if (s->shown) { /* L['z']['k'] is z['k'] to the caller */
        const char *key = start + 3, *close = start[1] == '[' ? strchr(key, start[2]) : NULL;
        bool named = close && close[1] == ']' && close < end;
        p.text = named ? cfx__text_format("%.*s%.*s", (int)(close - key), key,
                                          (int)(end - close - 2), close + 2)
                       : cfx__string_new(start, (size_t)(end - start))->text;
    }
    return p;
}

static part atom(scan *s) {
    static const char *const functions[] = {"min", "max", "abs", "int", "float"};
    blanks(s);
    if (++s->depth > MAX_NESTING)
        return fail(s);
    part p = {0};
    bool found = false;
    if (take(s, "(")) {
        p = any(s);
        found = true;
        if (!take(s, ")"))
            p = fail(s);
    } else if (*s->at >= '0' && *s->at <= '9') {
        p = number(s);
        found = true;
    } else if (*s->at == 'L' && !is_word(s->at[1])) {
        p = source(s);
        found = true;
    }
    for (int truth = 0; truth < 2 && !found; truth++)
        if ((found = take(s, truth ? "True" : "False")))
            p = (part){.whole = truth, .level = ATOM, .text = truth ? "True" : "False"};
    for (int i = 0; i < COUNT(functions) && !found; i++)
        if ((found = take(s, functions[i])))
            p = take(s, "(") ? call(s, functions[i]) : fail(s);
    s->depth--;
    return found ? p : fail(s);
}

static part signed_part(scan *s) {
    if (!take(s, "-")) {
        part a = atom(s);
        return take(s, "**") ? arithmetic(s, a, " ** ", signed_part(s), POWER) : a;
    }
    if (++s->depth > MAX_NESTING)
        return fail(s);
    part p = signed_part(s);
    s->depth--;
    s->failed |= __builtin_sub_overflow(0, p.whole, &p.whole);
    p.number = -p.number;
    p.text = s->shown ? cfx__text_format("-%s", wrapped(p, SIGN)) : NULL;
    p.level = SIGN;
    return p;
}

static part term(scan *s) {
    part p = signed_part(s);
    while (!s->failed) {
        const char *sign = take(s, "//") ? " // " : take(s, "*") ? " * " : take(s, "%") ? " % "
                           : take(s, "/") ? " / " : NULL;
        if (!sign)
            break;
        p = arithmetic(s, p, sign, signed_part(s), TERM);
    }
    return p;
}

static part sum(scan *s) {
    part p = term(s);
    while (!s->failed) {
        const char *sign = take(s, "+") ? " + " : take(s, "-") ? " - " : NULL;
        if (!sign)
            break;
        p = arithmetic(s, p, sign, term(s), SUM);
    }
    return p;
}

/* 2 <= x <= 9 is what it is in Python. */
static part comparison(scan *s) {
    static const char *const signs[] = {"==", "!=", "<=", ">=", "<", ">"};
    part left = sum(s), out = left;
    for (bool first = true; !s->failed; first = false) {
        const char *sign = NULL;
        for (int i = 0; i < COUNT(signs) && !sign; i++)
            sign = take(s, signs[i]) ? signs[i] : NULL;
        if (!sign)
            break;
        part right = sum(s);
        bool holds = compares(left, sign, right) && (first || is_true(out));
        const char *between = cfx__text_format(" %s ", sign);
        out = (part){.whole = holds, .level = COMPARE,
                     .text = joined(s, out, COMPARE + first, between, right, COMPARE + 1)};
        left = right;
    }
    return out;
}

static part negation(scan *s) {
    if (!take(s, "not"))
        return comparison(s);
    if (++s->depth > MAX_NESTING)
        return fail(s);
    part p = negation(s);
    s->depth--;
    return (part){.whole = !is_true(p), .level = NOT,
                  .text = s->shown ? cfx__text_format("not %s", wrapped(p, NOT)) : NULL};
}

/* What follows on a part that may have decided already: then it is not computed. */
static part after(scan *s, bool decided, part (*read)(scan *s)) {
    cfx__guard_lookup *lookup = s->lookup;
    s->lookup = decided ? NULL : lookup;
    part p = read(s);
    s->lookup = lookup;
    return p;
}

/* Each of several has to hold together more than the one before, as Python writes them. */
static part conjunction(scan *s) {
    part p = negation(s);
    for (int n = 1; !s->failed && take(s, "and"); n++) {
        part next = after(s, !is_true(p), negation);
        p = (part){.whole = is_true(p) && is_true(next), .level = AND,
                   .text = joined(s, p, AND + (n == 1), " and ", next, AND + n + 1)};
    }
    return p;
}

static part any(scan *s) {
    if (++s->depth > MAX_NESTING)
        return fail(s);
    part p = conjunction(s);
    for (int n = 1; !s->failed && take(s, "or"); n++) {
        part next = after(s, is_true(p), conjunction);
        p = (part){.whole = is_true(p) || is_true(next), .level = OR,
                   .text = joined(s, p, OR + (n == 1), " or ", next, OR + n + 1)};
    }
    s->depth--;
    return p;
}

cfx__truth cfx__guard_holds(const char *text, cfx__guard_lookup *lookup, void *user) {
    scan s = {.at = text, .lookup = lookup, .user = user};
    part p = any(&s);
    blanks(&s);
    return s.failed || *s.at ? CFX__UNKNOWN : is_true(p) ? CFX__TRUE : CFX__FALSE;
}

const char *cfx__guard_shown(const char *text) {
    scan s = {.at = text, .shown = true};
    part p = any(&s);
    blanks(&s);
    return s.failed || *s.at ? text : p.text;
}
