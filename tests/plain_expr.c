/* The C expressions that steps of loops say, read and evaluated. */
#include "plain.h"

#include <ctype.h>
#include <math.h>

enum { NODES = 256, LOCALS = 8, NAME = 16 };

typedef enum { NUMBER, OPERAND, PARAM, LOCAL, SET, UNARY, BINARY, CHOOSE, CAST, CALL } kind;
typedef enum { TO_T, TO_FLOAT, TO_INT, TO_BOOL } cast;

typedef struct {
    kind kind;
    int what;     /* which operand, number or local; the operator; the cast; the function */
    int a, b, c;  /* nodes; -1: none */
    plain_number number;
} node;

struct plain_expr {
    node nodes[NODES];
    int n, root;
    int nlocals;
    char locals[LOCALS][NAME];
};

/* ---- functions ------------------------------------------------------------------------------- */

static double cubic(double x) { return M_SQRT2 * M_2_SQRTPI * 0.5 * (x + 0.044715 * x * x * x); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double logit(double x) { return log(x / (1 - x)); }
static double is_infinite(double x) { return fabs(x) == INFINITY; }
static double above(double x, double low) { return x < low || low != low ? low : x; }
static double below(double x, double high) { return x > high || high != high ? high : x; }
static double held_log(double x) { return x < -100 ? -100 : x; }
static double is_nan(double x) { return x != x; }

static const struct {
    const char *name;
    double (*one)(double);
    double (*two)(double, double);
} functions[] = {
    {"vexp", exp, NULL},     {"exp", exp, NULL},       {"vlog", log, NULL},
    {"log", log, NULL},      {"vsigmoid", sigmoid, NULL}, {"sqrt", sqrt, NULL},
    {"fabs", fabs, NULL},    {"verf", erf, NULL},      {"erfc", erfc, NULL},
    {"tanh", tanh, NULL},    {"sin", sin, NULL},       {"cos", cos, NULL},
    {"tan", tan, NULL},      {"asin", asin, NULL},     {"acos", acos, NULL},
    {"atan", atan, NULL},    {"sinh", sinh, NULL},     {"cosh", cosh, NULL},
    {"asinh", asinh, NULL},  {"acosh", acosh, NULL},   {"atanh", atanh, NULL},
    {"exp2", exp2, NULL},    {"expm1", expm1, NULL},   {"log1p", log1p, NULL},
    {"log2", log2, NULL},    {"log10", log10, NULL},   {"floor", floor, NULL},
    {"ceil", ceil, NULL},    {"trunc", trunc, NULL},   {"rint", rint, NULL},
    {"nearbyint", nearbyint, NULL}, {"isnan", is_nan, NULL}, {"INFINITE", is_infinite, NULL},
    {"CUBIC", cubic, NULL},  {"LOGIT", logit, NULL},   {"HELD_LOG", held_log, NULL},
    {"pow", NULL, pow},      {"atan2", NULL, atan2},   {"fmod", NULL, fmod},
    {"hypot", NULL, hypot},  {"copysign", NULL, copysign}, {"ABOVE", NULL, above},
    {"BELOW", NULL, below}};

static const struct {
    const char *name;
    double value;
} constants[] = {{"M_PI", M_PI},           {"M_PI_2", M_PI_2},       {"M_SQRT2", M_SQRT2},
                 {"M_SQRT1_2", M_SQRT1_2}, {"M_2_SQRTPI", M_2_SQRTPI}, {"M_LN2", M_LN2},
                 {"M_LN10", M_LN10},       {"INFINITY", INFINITY},   {"NAN", NAN}};

static const struct {
    const char *name;
    cast to;
} types[] = {{"T", TO_T},          {"float", TO_FLOAT},    {"double", TO_FLOAT},
             {"int64_t", TO_INT},  {"uint64_t", TO_INT},   {"int", TO_INT},
             {"int32_t", TO_INT},  {"uint32_t", TO_INT},   {"uint8_t", TO_INT},
             {"bool", TO_BOOL}};

/* Binary operators, by how they bind; the last of a level tells it from the next. */
static const struct {
    const char *text;
    int level;
} operators[] = {{"||", 0}, {"&&", 1}, {"|", 2},  {"^", 3},  {"&", 4},  {"==", 5}, {"!=", 5},
                 {"<=", 6}, {">=", 6}, {"<<", 7}, {">>", 7}, {"<", 6},  {">", 6},  {"+", 8},
                 {"-", 8},  {"*", 9},  {"/", 9},  {"%", 9}};

enum { LEVELS = 10 };

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
    plain_expr *e;
    const char *at;
    bool wrong;
} reader;

static int ternary(reader *r);

static void skip(reader *r) {
    while (isspace((unsigned char)*r->at))
        r->at++;
}

static bool take(reader *r, const char *text) {
    skip(r);
    const size_t n = strlen(text);
    if (strncmp(r->at, text, n) != 0)
        return false;
    r->at += n;
    return true;
}

static void want(reader *r, const char *text) { r->wrong |= !take(r, text); }

static int add(reader *r, node n) {
    if (r->e->n == NODES) {
        r->wrong = true;
        return 0;
    }
    r->e->nodes[r->e->n] = n;
    return r->e->n++;
}

static size_t word_at(const char *at) {
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_')
        n++;
    return n;
}

static bool is_word(const char *at, size_t n, const char *name) {
    return strlen(name) == n && !strncmp(at, name, n);
}

/* The type that a word names; -1: none. */
static int type_at(const char *at) {
    for (int i = 0; i < COUNT(types); i++)
        if (is_word(at, word_at(at), types[i].name))
            return (int)types[i].to;
    return -1;
}

static int binary_number(const char *text) {
    for (int i = 0; i < COUNT(operators); i++)
        if (!strcmp(operators[i].text, text))
            return i;
    return -1;
}

/* WRAP(x, +, y): integers that wrap around, as these do anyway. */
static int wrap(reader *r) {
    char op[2] = "";
    const int a = ternary(r);
    want(r, ",");
    skip(r);
    op[0] = *r->at++;
    want(r, ",");
    const int b = ternary(r);
    want(r, ")");
    r->wrong |= binary_number(op) < 0;
    return add(r, (node){.kind = BINARY, .what = binary_number(op), .a = a, .b = b});
}

/* HOLD(x, low, high) is BELOW of ABOVE for numbers that are none of them NaN. */
static int hold(reader *r) {
    const int x = ternary(r);
    want(r, ",");
    const int low = ternary(r);
    want(r, ",");
    const int high = ternary(r);
    want(r, ")");
    const int less = add(r, (node){.kind = BINARY, .what = binary_number("<"), .a = x, .b = low});
    const int more = add(r, (node){.kind = BINARY, .what = binary_number(">"), .a = x, .b = high});
    const int top = add(r, (node){.kind = CHOOSE, .a = more, .b = high, .c = x});
    return add(r, (node){.kind = CHOOSE, .a = less, .b = low, .c = top});
}

static int call(reader *r, const char *name, size_t n) {
    if (is_word(name, n, "WRAP"))
        return wrap(r);
    if (is_word(name, n, "HOLD"))
        return hold(r);
    for (int i = 0; i < COUNT(functions); i++)
        if (is_word(name, n, functions[i].name)) {
            const int a = ternary(r);
            if (functions[i].two)
                want(r, ",");
            const int b = functions[i].two ? ternary(r) : -1;
            want(r, ")");
            return add(r, (node){.kind = CALL, .what = i, .a = a, .b = b});
        }
    r->wrong = true;
    return 0;
}

static int name(reader *r) {
    const char *at = r->at;
    const size_t n = word_at(at);
    r->at += n;
    if (n == 1 && *at >= 'x' && *at <= 'z')
        return add(r, (node){.kind = OPERAND, .what = *at - 'x'});
    if (n == 2 && *at == 'p' && at[1] >= '0' && at[1] < '0' + CFX__LOOP_NUMBERS)
        return add(r, (node){.kind = PARAM, .what = at[1] - '0'});
    for (int i = 0; i < r->e->nlocals; i++)
        if (is_word(at, n, r->e->locals[i]))
            return add(r, (node){.kind = LOCAL, .what = i});
    for (int i = 0; i < COUNT(constants); i++)
        if (is_word(at, n, constants[i].name))
            return add(r, (node){.kind = NUMBER, .number = plain_float(constants[i].value)});
    if (take(r, "("))
        return call(r, at, n);
    r->wrong = true;
    return 0;
}

static int literal(reader *r) {
    char *end_int, *end_float;
    const int64_t i = strtoll(r->at, &end_int, 0);
    const double f = strtod(r->at, &end_float);
    const bool is_int = end_int >= end_float;
    r->at = is_int ? end_int : end_float;
    while (*r->at && strchr("fFlLuU", *r->at))
        r->at++;
    return add(r, (node){.kind = NUMBER, .number = is_int ? plain_int(i) : plain_float(f)});
}

/* ({ T a = ...; ...; value; }): a chain of SET nodes, the value last. */
static int block(reader *r) {
    int first = -1, last = -1, value = 0;
    while (!r->wrong && !take(r, "}")) {
        take(r, "const ");
        skip(r);
        const int type = type_at(r->at);
        if (type >= 0) {
            r->at += word_at(r->at);
            skip(r);
            const size_t n = word_at(r->at);
            r->wrong |= !n || n >= NAME || r->e->nlocals == LOCALS;
            if (r->wrong)
                break;
            memcpy(r->e->locals[r->e->nlocals], r->at, n);
            r->at += n;
            want(r, "=");
            const int of = ternary(r);
            const int to = add(r, (node){.kind = CAST, .what = type, .a = of});
            value = add(r, (node){.kind = SET, .what = r->e->nlocals++, .a = to, .b = -1});
        } else {
            value = ternary(r);
        }
        want(r, ";");
        if (last >= 0)
            r->e->nodes[last].b = value;
        first = first < 0 ? value : first;
        last = r->e->nodes[value].kind == SET ? value : last;
    }
    return first < 0 ? value : first;
}

static int unary(reader *r) {
    skip(r);
    const char c = *r->at;
    if (c == '-' || c == '!' || c == '~') {
        r->at++;
        return add(r, (node){.kind = UNARY, .what = c, .a = unary(r)});
    }
    if (isdigit((unsigned char)c) || c == '.')
        return literal(r);
    if (c != '(') {
        if (isalpha((unsigned char)c) || c == '_')
            return name(r);
        r->wrong = true;
        return 0;
    }
    r->at++;
    skip(r);
    const int type = type_at(r->at);
    if (type >= 0) {
        r->at += word_at(r->at);
        want(r, ")");
        return add(r, (node){.kind = CAST, .what = type, .a = unary(r)});
    }
    const int inner = take(r, "{") ? block(r) : ternary(r);
    want(r, ")");
    return inner;
}

static int binary(reader *r, int level) {
    int a = level == LEVELS ? unary(r) : binary(r, level + 1);
    for (bool found = level < LEVELS; found && !r->wrong;) {
        found = false;
        for (int i = 0; i < COUNT(operators) && !found; i++) {
            skip(r);
            const size_t n = strlen(operators[i].text);
            if (strncmp(r->at, operators[i].text, n) != 0)
                continue;
            if (operators[i].level != level)
                break; /* another, longer or looser one */
            r->at += n;
            const int b = binary(r, level + 1);
            a = add(r, (node){.kind = BINARY, .what = i, .a = a, .b = b});
            found = true;
        }
    }
    return a;
}

static int ternary(reader *r) {
    const int a = r->wrong ? 0 : binary(r, 0);
    if (r->wrong || !take(r, "?"))
        return a;
    const int b = ternary(r);
    want(r, ":");
    const int c = ternary(r);
    return add(r, (node){.kind = CHOOSE, .a = a, .b = b, .c = c});
}

plain_expr *plain_parse(const char *text) {
    plain_expr *e = calloc(1, sizeof *e);
    reader r = {e, text, e == NULL};
    if (!r.wrong)
        e->root = ternary(&r);
    skip(&r);
    if (!r.wrong && !*r.at)
        return e;
    free(e);
    return NULL;
}

void plain_expr_free(plain_expr *e) { free(e); }

/* ---- evaluating ------------------------------------------------------------------------------ */

typedef struct {
    const plain_expr *e;
    const plain_number *operands, *numbers;
    bool integer;
    plain_number locals[LOCALS];
} frame;

static bool is_true(plain_number n) { return n.is_int ? n.i != 0 : n.f != 0; }

static plain_number on_ints(const char *op, int64_t a, int64_t b) {
    const uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (op[0]) {
    case '+': return plain_int((int64_t)(x + y));
    case '-': return plain_int((int64_t)(x - y));
    case '*': return plain_int((int64_t)(x * y));
    case '/': return plain_int(b ? b == -1 ? (int64_t)-x : a / b : 0);
    case '%': return plain_int(b && b != -1 ? a % b : 0);
    case '|': return plain_int(a | b);
    case '&': return plain_int(a & b);
    case '^': return plain_int(a ^ b);
    case '=': return plain_int(a == b);
    case '!': return plain_int(a != b);
    case '<': return plain_int(op[1] == '<' ? (int64_t)(x << (y & 63)) : op[1] ? a <= b : a < b);
    default: return plain_int(op[1] == '>' ? a >> (y & 63) : op[1] ? a >= b : a > b);
    }
}

static plain_number on_floats(const char *op, double a, double b) {
    switch (op[0]) {
    case '+': return plain_float(a + b);
    case '-': return plain_float(a - b);
    case '*': return plain_float(a * b);
    case '/': return plain_float(a / b);
    case '=': return plain_int(a == b);
    case '!': return plain_int(a != b);
    case '<': return plain_int(op[1] ? a <= b : a < b);
    default: return plain_int(op[1] ? a >= b : a > b);
    }
}

static plain_number casted(plain_number n, int to, bool integer) {
    if (to == TO_BOOL)
        return plain_int(is_true(n));
    if (to == TO_INT || (to == TO_T && integer))
        return n.is_int ? n : plain_int(n.f >= -0x1p63 && n.f < 0x1p63 ? (int64_t)n.f : INT64_MIN);
    return plain_float(n.f);
}

static plain_number eval(frame *f, int at) {
    const node *n = &f->e->nodes[at];
    plain_number a, b;
    switch (n->kind) {
    case NUMBER: return n->number;
    case OPERAND: return f->operands[n->what];
    case PARAM: return f->numbers[n->what];
    case LOCAL: return f->locals[n->what];
    case SET:
        f->locals[n->what] = eval(f, n->a);
        return n->b < 0 ? f->locals[n->what] : eval(f, n->b);
    case CHOOSE: return eval(f, is_true(eval(f, n->a)) ? n->b : n->c);
    case CAST: return casted(eval(f, n->a), n->what, f->integer);
    case UNARY:
        a = eval(f, n->a);
        if (n->what == '!')
            return plain_int(!is_true(a));
        if (n->what == '~')
            return plain_int(~a.i);
        return a.is_int ? plain_int((int64_t)(0 - (uint64_t)a.i)) : plain_float(-a.f);
    case CALL:
        a = eval(f, n->a);
        return plain_float(functions[n->what].two ? functions[n->what].two(a.f, eval(f, n->b).f)
                                                  : functions[n->what].one(a.f));
    default: break;
    }
    const char *op = operators[n->what].text;
    a = eval(f, n->a);
    if (!strcmp(op, "&&") || !strcmp(op, "||"))
        return plain_int(is_true(a) == (op[0] == '|') ? op[0] == '|' : is_true(eval(f, n->b)));
    b = eval(f, n->b);
    return a.is_int && b.is_int ? on_ints(op, a.i, b.i) : on_floats(op, a.f, b.f);
}

plain_number plain_eval(const plain_expr *e, const plain_number *operands,
                        const plain_number *numbers, bool integer) {
    frame f = {.e = e, .operands = operands, .numbers = numbers, .integer = integer};
    return eval(&f, e->root);
}
