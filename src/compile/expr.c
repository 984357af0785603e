/* Parses the C expressions of loop steps (src/ops/loop.h) and writes them again with operands
 * substituted, conversions made explicit and macros expanded, so that they mean the same in
 * plain C11 and compile without warnings. Start at cfx__c_expr. */
#include <ctype.h>
#include <math.h>

#include "compile.h"
#include "expr_parts.h"
#include "expr_words.h"
#include "kernels.h"

enum { LOCALS = 16 };

typedef struct {
    const char *name;
    part value;
} local;

typedef struct {
    cfx__c *c; /* NULL: only whether it can be read */
    const char *stem, *at;
    bool wrong;
    int n;
    const part *in;
    const double *f;
    const int64_t *i;
    type t; /* what T is */
    int nlocals;
    local locals[LOCALS];
    int *made; /* names that were made */
    int depth;
} reader;

static const struct {
    const char *text;
    int level;
} operators[] = {{"||", 0}, {"&&", 1}, {"==", 5}, {"!=", 5}, {"<=", 6}, {">=", 6},
                 {"<<", 7}, {">>", 7}, {"|", 2},  {"^", 3},  {"&", 4},  {"<", 6},
                 {">", 6},  {"+", 8},  {"-", 8},  {"*", 9},  {"/", 9},  {"%", 9}};

/* ---- reading --------------------------------------------------------------------------------- */

static part choice(reader *r);

static part wrong(reader *r) {
    r->wrong = true;
    return literal_of(INT, 0, 0);
}

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

static size_t word_at(const char *at) {
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_')
        n++;
    return n;
}

static bool is_word(const char *at, size_t n, const char *name) {
    return strlen(name) == n && !strncmp(at, name, n);
}

/* The type that a word names; -1: none. bool is an int that is 0 or 1: see cast. */
static int type_at(const reader *r, size_t n) {
    static const struct {
        const char *name;
        type to;
    } types[] = {{"float", F32}, {"double", F64},  {"int64_t", I64}, {"uint64_t", U64},
                 {"int", INT},   {"int32_t", INT}, {"uint8_t", INT}, {"bool", INT}};
    if (is_word(r->at, n, "T"))
        return (int)r->t;
    for (int i = 0; i < COUNT(types); i++)
        if (is_word(r->at, n, types[i].name))
            return (int)types[i].to;
    return -1;
}

/* A name for a part that is used more than once. */
static part named(reader *r, part p) {
    if (p.literal || p.level >= ATOM || !r->c)
        return p;
    const char *name = cfx__text_format("%s_%c", r->stem, 'a' + (*r->made)++ % 26);
    cfx__c_line(r->c, "const %s %s = %s;", type_names[p.type], name, shown(p));
    return (part){.type = p.type, .level = ATOM, .text = name};
}

/* A comparison of two numbers, or what follows from one of them already; false: nothing does. */
static bool is_decided(const char *op, int level, part a, part b, part *as) {
    if (level <= 1 && (a.literal || b.literal)) {
        const part known = a.literal ? a : b, other = a.literal ? b : a;
        if (truth(known) == (level == 0))
            *as = literal_of(INT, level == 0, level == 0);
        else if (other.level == 5 || other.level == 6) /* 0 or 1 already */
            *as = other;
        else
            return false;
        return true;
    }
    if (level == 5 && !a.literal && !b.literal && !is_float(common(a.type, b.type)) &&
        !strcmp(shown(a), shown(b))) { /* no integer is another than itself */
        *as = literal_of(INT, op[0] == '=', op[0] == '=');
        return true;
    }
    if ((level != 5 && level != 6) || !a.literal || !b.literal)
        return false;
    const double x = is_float(a.type) ? a.f : (double)a.i;
    const double y = is_float(b.type) ? b.f : (double)b.i;
    const bool same = is_float(common(a.type, b.type)) ? x == y : a.i == b.i;
    const bool less = is_float(common(a.type, b.type)) ? x < y : a.i < b.i;
    const bool more = is_float(common(a.type, b.type)) ? x > y : a.i > b.i;
    const bool yes = op[0] == '=' ? same
                     : op[0] == '!' ? !same
                     : op[0] == '<' ? less || (op[1] && same)
                                    : more || (op[1] && same);
    *as = literal_of(INT, yes, yes);
    return true;
}

static part binary_of(reader *r, const char *op, int level, part a, part b) {
    part decided;
    const type t = common(a.type, b.type);
    const bool logic = level <= 1, compares = level == 5 || level == 6;
    if (is_float(t) && (strchr("%|&^", op[0]) || level == 7) && !logic)
        return wrong(r);
    if (is_decided(op, level, a, b, &decided))
        return decided;
    if (a.literal && b.literal && is_float(t) && level >= 8) { /* numbers are folded */
        const double x = is_float(a.type) ? a.f : (double)a.i;
        const double y = is_float(b.type) ? b.f : (double)b.i;
        const double v = *op == '+' ? x + y : *op == '-' ? x - y : *op == '*' ? x * y : x / y;
        return literal_of(t, t == F32 ? (double)(float)v : v, 0);
    }
    const type as = level == 7 ? a.type : t;
    if (!logic) { /* C multiplies a complex number by a real one as it is */
        a = converted(a, is_complex(a.type) ? as : part_type(as));
        b = converted(b, level == 7 ? INT : is_complex(b.type) ? as : part_type(as));
    }
    if (is_one(b) && (*op == '*' || *op == '/') && !compares && !logic)
        return a;
    if (is_one(a) && *op == '*')
        return b;
    const char *y = b.level == level ? cfx__text_format("(%s)", shown(b)) : operand(b, level);
    const char *x = a.level == level && level >= 8 ? shown(a) : operand(a, level);
    return (part){.type = compares || logic ? INT : as,
                  .level = level,
                  .text = cfx__text_format("%s %s %s", x, op, y)};
}

static part choose(part on, part a, part b) {
    const type t = common(a.type, b.type);
    if (on.literal)
        return converted(truth(on) ? a : b, t);
    a = converted(a, t), b = converted(b, t);
    const char *yes = a.level == CHOICE ? cfx__text_format("(%s)", shown(a)) : shown(a);
    return (part){.type = t,
                  .level = CHOICE,
                  .text = cfx__text_format("%s ? %s : %s",
                                           on.level == CHOICE ? operand(on, 0) : shown(on), yes,
                                           shown(b))};
}

/* WRAP(x, +, y): integers that wrap around. */
static part wrap(reader *r) {
    char op[2] = "";
    part a = choice(r);
    want(r, ",");
    skip(r);
    op[0] = *r->at ? *r->at++ : 0;
    want(r, ",");
    part b = choice(r);
    want(r, ")");
    if (r->wrong || !op[0] || !strchr("+-*", op[0]))
        return wrong(r);
    if (op[0] == '*' ? is_one(b) : is_zero(b))
        return converted(a, I64);
    if (op[0] == '*' ? is_one(a) : op[0] == '+' && is_zero(a))
        return converted(b, I64);
    return converted(binary_of(r, op, op[0] == '*' ? 9 : 8, converted(a, U64), converted(b, U64)),
                     I64);
}

static part call_macro(reader *r, int m) {
    part args[4];
    int n = 0;
    for (; macros[m].params[n] && !r->wrong; n++) {
        if (n)
            want(r, ",");
        args[n] = named(r, choice(r));
    }
    want(r, ")");
    if (r->wrong || r->nlocals + n > LOCALS || ++r->depth > 8)
        return wrong(r);
    static const char *const names[] = {"u", "v", "w"};
    const char *after = r->at;
    const int before = r->nlocals;
    for (int i = 0; i < n; i++)
        r->locals[r->nlocals++] = (local){names[i], args[i]};
    r->at = macros[m].body;
    part p = choice(r);
    r->wrong |= *r->at != 0;
    r->at = after;
    r->nlocals = before;
    r->depth--;
    return p;
}

/* A function that is written out with the text (src/ops/pointwise/written): of doubles, or where
 * all that it is given are integers, of those. */
static part call_written(reader *r, const char *name) {
    part args[CFX__LOOP_OPERANDS];
    int n = 0;
    bool whole = true;
    do {
        args[n] = choice(r);
        whole &= !is_float(args[n].type);
    } while (!r->wrong && ++n < CFX__LOOP_OPERANDS && take(r, ","));
    want(r, ")");
    if (r->wrong || !cfx__kernels_has(name))
        return wrong(r);
    cfx__text t = {0};
    cfx__text_printf(&t, "%s(", r->c ? cfx__c_kernel(r->c, name) : name);
    for (int i = 0; i < n; i++)
        cfx__text_printf(&t, "%s%s", i ? ", " : "", shown(converted(args[i], whole ? I64 : F64)));
    cfx__text_putc(&t, ')');
    return (part){.type = whole ? I64 : F64, .level = ATOM, .text = cfx__text_take(&t)};
}

/* The arguments of a function, which all become complex; the type of the widest. */
static type complex_args(reader *r, int n, part *args) {
    type t = C64;
    for (int i = 0; i < n; i++) {
        if (i)
            want(r, ",");
        args[i] = choice(r);
        t = common(t, args[i].type);
    }
    want(r, ")");
    for (int i = 0; i < n && !r->wrong; i++)
        args[i] = converted(args[i], t);
    return t;
}

/* CMUL(x, y): a product without the search for infinities that C prescribes. */
static part product(reader *r) {
    part args[2];
    const type t = complex_args(r, 2, args);
    if (r->wrong || !is_complex(args[0].type) || !is_complex(args[1].type))
        return r->wrong ? wrong(r) : binary_of(r, "*", 9, args[0], args[1]);
    const char *name = t == C64 ? "cmulf" : "cmul";
    return (part){.type = t,
                  .level = ATOM,
                  .text = cfx__text_format("%s(%s, %s)", r->c ? cfx__c_kernel(r->c, name) : name,
                                           shown(args[0]), shown(args[1]))};
}

static part call_complex(reader *r, int f) {
    part args[2];
    const type t = complex_args(r, complex_functions[f].n, args);
    if (r->wrong)
        return wrong(r);
    return (part){.type = complex_functions[f].real ? part_type(t) : t,
                  .level = ATOM,
                  .text = cfx__text_format(complex_functions[f].n == 1 ? "%s%s(%s)"
                                                                       : "%s%s(%s, %s)",
                                           complex_functions[f].name, t == C64 ? "f" : "",
                                           shown(args[0]),
                                           complex_functions[f].n == 1 ? "" : shown(args[1]))};
}

static part call(reader *r, const char *name, size_t n) {
    if (is_word(name, n, "WRAP"))
        return wrap(r);
    if (is_word(name, n, "CMUL"))
        return product(r);
    for (int f = 0; f < COUNT(complex_functions); f++)
        if (is_word(name, n, complex_functions[f].name))
            return call_complex(r, f);
    if (n > sizeof written - 1 && !strncmp(name, written, sizeof written - 1))
        return call_written(r, cfx__text_format("%.*s", (int)(n - sizeof written + 1),
                                                name + sizeof written - 1));
    for (int m = 0; m < COUNT(macros); m++)
        if (is_word(name, n, macros[m].name))
            return call_macro(r, m);
    for (int f = 0; f < COUNT(functions); f++)
        if (is_word(name, n, functions[f].name)) {
            part a = choice(r), b = {0};
            if (functions[f].n == 2) {
                want(r, ",");
                b = choice(r);
            }
            want(r, ")");
            const type t = a.type == F32 && (functions[f].n == 1 || b.type == F32 ||
                                             (b.literal && b.type == INT))
                               ? F32
                               : F64;
            const char *as = cfx__text_format("%s%s", functions[f].as, t == F32 ? "f" : "");
            for (int i = 0; t == F32 && r->c && i < COUNT(own_functions); i++)
                if (!strcmp(own_functions[i], functions[f].as))
                    as = cfx__c_kernel(r->c, functions[f].as);
            const char *x = shown(converted(a, t));
            return (part){.type = t,
                          .level = ATOM,
                          .text = functions[f].n == 1 ? cfx__text_format("%s(%s)", as, x)
                                                      : cfx__text_format("%s(%s, %s)", as, x,
                                                                         shown(converted(b, t)))};
        }
    return wrong(r);
}

static part name(reader *r) {
    const char *at = r->at;
    const size_t n = word_at(at);
    r->at += n;
    for (int i = r->nlocals - 1; i >= 0; i--)
        if (is_word(at, n, r->locals[i].name))
            return r->locals[i].value;
    if (n == 1 && *at >= 'x' && *at <= 'z' && *at - 'x' < r->n)
        return r->in[*at - 'x'];
    if (n == 2 && *at == 'p' && at[1] >= '0' && at[1] < '0' + CFX__LOOP_NUMBERS) {
        const int k = at[1] - '0';
        const type t = part_type(r->t); /* complex ones are real (cfx__loop_says) */
        return literal_of(t, t == F32 ? (double)(float)r->f[k] : r->f[k], r->i[k]);
    }
    for (int i = 0; i < COUNT(constants); i++)
        if (is_word(at, n, constants[i].name))
            return literal_of(F64, constants[i].value, 0);
    if (is_word(at, n, "INFINITY") || is_word(at, n, "NAN"))
        return literal_of(F32, *at == 'N' ? (double)NAN : (double)INFINITY, 0);
    return take(r, "(") ? call(r, at, n) : wrong(r);
}

static part number(reader *r) {
    char *end_int, *end_float;
    const int64_t i = strtoll(r->at, &end_int, 0);
    const double f = strtod(r->at, &end_float);
    const bool whole = end_int >= end_float;
    bool narrow = false, wide = whole && (i > INT32_MAX || i < INT32_MIN);
    r->at = whole ? end_int : end_float;
    for (; *r->at && strchr("fFlLuU", *r->at); r->at++) {
        narrow |= tolower(*r->at) == 'f';
        wide |= tolower(*r->at) == 'l';
    }
    return whole ? literal_of(wide ? I64 : INT, (double)i, i)
                 : literal_of(narrow ? F32 : F64, f, 0);
}

/* ({ T a = ...; ...; value; }): names for values, the last is the block's. */
static part block(reader *r) {
    part p = literal_of(INT, 0, 0);
    const int before = r->nlocals;
    while (!r->wrong && !take(r, "}")) {
        take(r, "const ");
        skip(r);
        const size_t n = word_at(r->at);
        const int to = type_at(r, n);
        if (to < 0) {
            p = choice(r);
            want(r, ";");
            continue;
        }
        r->at += n;
        do {
            skip(r);
            const char *at = r->at;
            const size_t len = word_at(at);
            r->at += len;
            want(r, "=");
            if (r->wrong || !len || r->nlocals == LOCALS)
                return wrong(r);
            const part value = named(r, converted(choice(r), (type)to));
            r->locals[r->nlocals++] = (local){cfx__text_format("%.*s", (int)len, at), value};
        } while (!r->wrong && take(r, ","));
        want(r, ";");
    }
    r->nlocals = before;
    return p;
}

static part unary(reader *r) {
    skip(r);
    const char ch = *r->at;
    if (++r->depth > 64)
        return wrong(r);
    part p;
    if (ch == '-' || ch == '!' || ch == '~') {
        r->at++;
        p = unary(r);
        if (ch == '-' && p.literal)
            p.f = -p.f, p.i = -p.i;
        else if (ch == '~' && is_complex(p.type)) /* an extension of compilers for this */
            p = (part){.type = p.type,
                       .level = ATOM,
                       .text = cfx__text_format("conj%s(%s)", p.type == C64 ? "f" : "", shown(p))};
        else if (ch == '~' && is_float(p.type))
            p = wrong(r);
        else
            p = (part){.type = ch == '!' ? INT : p.type,
                       .level = UNARY,
                       .text = cfx__text_format(p.level >= ATOM ? "%c%s" : "%c(%s)", ch, shown(p))};
    } else if (isdigit((unsigned char)ch) || ch == '.') {
        p = number(r);
    } else if (ch != '(') {
        p = isalpha((unsigned char)ch) || ch == '_' ? name(r) : wrong(r);
    } else {
        r->at++;
        skip(r);
        const size_t n = word_at(r->at);
        const int to = type_at(r, n);
        if (to >= 0) {
            const bool truth_value = is_word(r->at, n, "bool");
            const bool byte = is_word(r->at, n, "uint8_t");
            r->at += n;
            want(r, ")");
            p = unary(r);
            if (truth_value)
                p = binary_of(r, "!=", 5, p, literal_of(INT, 0, 0));
            else if (byte && !r->wrong)
                p = (part){.type = INT,
                           .level = UNARY,
                           .text = cfx__text_format("(uint8_t)(%s)", shown(p))};
            else
                p = converted(p, (type)to);
        } else {
            p = take(r, "{") ? block(r) : choice(r);
            want(r, ")");
        }
    }
    r->depth--;
    return p;
}

static part binary(reader *r, int level) {
    part a = level == LEVELS ? unary(r) : binary(r, level + 1);
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
            part b = binary(r, level + 1);
            if (!r->wrong)
                a = binary_of(r, operators[i].text, level, a, b);
            found = true;
        }
    }
    return a;
}

static part choice(reader *r) {
    part on = r->wrong ? wrong(r) : binary(r, 0);
    if (r->wrong || !take(r, "?"))
        return on;
    part a = choice(r);
    want(r, ":");
    part b = choice(r);
    return r->wrong ? on : choose(on, a, b);
}

/* ---- the ways in ----------------------------------------------------------------------------- */

static type type_of(cfx_dtype d) {
    return d == CFX_C64                ? C64
           : d == CFX_C128             ? C128
           : d == CFX_F64              ? F64
           : cfx__dtype_is_float(d)    ? F32
           : d == CFX_I64              ? I64
                                       : INT;
}

bool cfx__c_expr_known(const char *expr, bool card) {
    static const double f[CFX__LOOP_NUMBERS];
    static const int64_t i[CFX__LOOP_NUMBERS];
    static const type types[] = {F32, I64, C64}; /* it is for one of these */
    bool known = false;
    const bool tried = expr && !(card && strstr(expr, written));
    for (int pass = 0; tried && pass < COUNT(types) - card && !known; pass++) {
        size_t mark = cfx_scope_open();
        const type t = types[pass];
        const part in[] = {
            {t, ATOM, false, 0, 0, "x"}, {t, ATOM, false, 0, 0, "y"}, {t, ATOM, false, 0, 0, "z"}};
        int made = 0;
        reader r = {
            .stem = "v", .at = expr, .n = 3, .in = in, .f = f, .i = i, .t = t, .made = &made};
        choice(&r);
        skip(&r);
        known = !r.wrong && !*r.at;
        cfx_scope_close(mark);
    }
    return known;
}

/* An operand: a number where its text is one, with or without a sign. */
static part part_of(const cfx__c_term *t) {
    const type as = type_of(t->dtype);
    const char *digits = t->text + (t->text[0] == '(' && t->text[1] == '-' ? 2 : 0);
    const double sign = digits > t->text ? -1 : 1;
    if (!isdigit((unsigned char)*digits))
        return (part){as, ATOM, false, 0, 0, t->text};
    return literal_of(part_type(as), is_float(as) ? sign * strtod(digits, NULL) : 0,
                      is_float(as) ? 0 : (int64_t)sign * strtoll(digits, NULL, 10));
}

const char *cfx__c_expr(cfx__c *c, const char *stem, const char *expr, int n, const cfx__c_term *in,
                        const double *f, const int64_t *i, cfx_dtype gives) {
    part parts[CFX__LOOP_OPERANDS];
    for (int k = 0; k < n; k++)
        parts[k] = part_of(&in[k]);
    /* T is the type of the operands; where the first is a condition, of the others */
    const cfx_dtype as = n > 1 && in[0].dtype == CFX_BOOL ? in[1].dtype : in[0].dtype;
    int made = 0;
    reader r = {.c = c,
                .stem = stem,
                .at = expr,
                .n = n,
                .in = parts,
                .f = f,
                .i = i,
                .t = n ? type_of(as) : type_of(gives),
                .made = &made};
    part p = choice(&r);
    const type to = type_of(gives);
    if (r.wrong)
        return NULL;
    for (int k = 0; k < n && p.literal; k++) /* whatever the operands are */
        if (isalpha((unsigned char)in[k].text[0]))
            cfx__c_line(c, "(void)%s;", in[k].text);
    for (int k = 0; k < n && p.text; k++)
        if (in[k].dtype == gives && !strcmp(p.text, in[k].text))
            return p.text; /* the operand itself */
    if (to == INT) /* bool, and integers that loops do not compute in */
        return p.literal ? shown(p)
                         : cfx__text_format("(%s)(%s)", cfx__c_value_type(gives), shown(p));
    return shown(converted(p, to));
}
