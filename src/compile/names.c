/* Names, numbers and comments of generated C. What comes out of a file becomes letters, digits and
 * underscores in names, and printable text on one line in comments. */
#include <ctype.h>
#include <math.h>

#include "compile.h"

/* Words that mean something in C, in the headers that are included, or in the text itself. */
static const char *const reserved[] = {"auto",      "break",     "case",     "char",
                                       "const",     "continue",  "default",  "do",
                                       "double",    "else",      "enum",     "extern",
                                       "float",     "for",       "goto",     "if",
                                       "inline",    "int",       "long",     "register",
                                       "restrict",  "return",    "short",    "signed",
                                       "sizeof",    "static",    "struct",   "switch",
                                       "typedef",   "union",     "unsigned", "void",
                                       "volatile",  "while",     "asm",      "bool",
                                       "true",      "false",     "complex",  "imaginary",
                                       "alignas",   "alignof",   "noreturn", "thread_local",
                                       "typeof",    "constexpr", "nullptr",  "class",
                                       "new",       "delete",    "template", "this",
                                       "namespace", "private",   "public",   "operator",
                                       "using",     "exp",       "exp2",     "expm1",
                                       "log",       "log2",      "log10",    "log1p",
                                       "sqrt",      "cbrt",      "pow",      "sin",
                                       "cos",       "tan",       "asin",     "acos",
                                       "atan",      "atan2",     "sinh",     "cosh",
                                       "tanh",      "asinh",     "acosh",    "atanh",
                                       "erf",       "erfc",      "floor",    "ceil",
                                       "trunc",     "round",     "rint",     "nearbyint",
                                       "lrint",     "fabs",      "fmod",     "remainder",
                                       "hypot",     "copysign",  "fmin",     "fmax",
                                       "fma",       "ldexp",     "frexp",    "modf",
                                       "logb",      "scalbn",    "tgamma",   "lgamma",
                                       "abs",       "div",       "index",    "rindex",
                                       "signgam",   "gamma",     "j0",       "j1",
                                       "jn",        "y0",        "y1",       "yn",
                                       "nan",       "isnan",     "isinf",    "memcpy",
                                       "memset",    "memmove",   "strlen",   "main",
                                       "i",         "j",         "k",        "l",
                                       "m",         "n",         "c",        "w",
                                       "a",         "scratch",   "arena",    "linux",
                                       "unix",      "stdin",     "stdout",   "stderr",
                                       "errno",     "NULL",      "EOF",      "INFINITY",
                                       "NAN",       "signbit",   "union_",   "conj",
                                       "creal",     "cimag",     "cabs",     "carg",
                                       "I",         "size_t",    "int64_t",  "int32_t",
                                       "int16_t",   "int8_t",    "uint8_t",  "uint16_t",
                                       "uint32_t",  "uint64_t"};

/* Names of sizes that vary are like that: "s27". */
static bool is_size(const char *name) {
    size_t n = name[0] == 's' ? 1 : 0;
    while (n && isdigit((unsigned char)name[n]))
        n++;
    return n > 1 && !name[n];
}

static bool is_reserved(const char *name) {
    if (is_size(name))
        return true;
    for (int i = 0; i < COUNT(reserved); i++) {
        const size_t n = strlen(reserved[i]);
        if (!strncmp(reserved[i], name, n) &&
            (!name[n] || ((name[n] == 'f' || name[n] == 'l') && !name[n + 1])))
            return true;
    }
    return false;
}

const char *cfx__c_identifier(const char *name) {
    enum { LONGEST = 48 };
    char out[LONGEST + 4];
    size_t n = 0;
    if (!isalpha((unsigned char)name[0]) || !strncmp(name, "cfx_", 4))
        out[n++] = 'n'; /* digits begin no name, and those with _ are the implementation's */
    for (; *name && n < LONGEST; name++) {
        const bool plain = isalnum((unsigned char)*name) && (unsigned char)*name < 0x80;
        if (plain || !n || out[n - 1] != '_') /* two in a row are C++'s */
            out[n++] = plain ? *name : '_';
    }
    while (n > 1 && out[n - 1] == '_')
        n--;
    out[n] = 0;
    if (is_reserved(out))
        memcpy(out + n, "_", 2);
    return cfx__text_format("%s", out);
}

const char *cfx__c_unique(cfx__map *taken, const char *space, const char *name) {
    const char *own = cfx__c_identifier(name), *key = cfx__text_format("%s.%s", space, own);
    for (int i = 2; cfx__map_get(taken, key); i++) {
        own = cfx__text_format("%s_v%d", cfx__c_identifier(name), i);
        key = cfx__text_format("%s.%s", space, own);
    }
    cfx__map_set(taken, key, (void *)key);
    return own;
}

const char *cfx__c_comment(const char *text) {
    enum { LONGEST = 400 };
    cfx__text t = {0};
    for (; *text && t.len < LONGEST; text++) {
        const unsigned char ch = (unsigned char)*text;
        const char last = t.len ? t.data[t.len - 1] : ' ';
        const bool pair = (last == '*' && ch == '/') || (last == '/' && ch == '*') ||
                          (last == '?' && ch == '?'); /* an end, a start, a trigraph */
        if (pair)
            cfx__text_putc(&t, ' ');
        cfx__text_putc(&t, ch < 0x20 || ch > 0x7e ? '.' : ch == '\\' ? '/' : (char)ch);
        if (ch == '\\' && last == '*') /* which would end it now */
            t.data[t.len - 1] = '.';
    }
    return cfx__text_take(&t);
}

/* ---- types and numbers ----------------------------------------------------------------------- */

const char *cfx__c_type(cfx_dtype d) {
    static const char *const types[CFX_DTYPE_END] = {
        [CFX_U8] = "uint8_t",    [CFX_I8] = "int8_t",          [CFX_I16] = "int16_t",
        [CFX_I32] = "int32_t",   [CFX_I64] = "int64_t",        [CFX_F16] = "uint16_t",
        [CFX_F32] = "float",     [CFX_F64] = "double",         [CFX_BOOL] = "uint8_t",
        [CFX_BF16] = "uint16_t", [CFX_C64] = "float _Complex", [CFX_C128] = "double _Complex"};
    return d < CFX_DTYPE_END ? types[d] : NULL;
}

const char *cfx__c_value_type(cfx_dtype d) {
    return cfx__dtype_is_half(d) ? "float" : cfx__c_type(d);
}

cfx_dtype cfx__c_part(cfx_dtype d) { return d == CFX_C64 ? CFX_F32 : d == CFX_C128 ? CFX_F64 : d; }

static const char *float_text(double f, bool narrow) {
    if (isnan(f))
        return narrow ? "NAN" : "(double)NAN";
    if (isinf(f))
        return cfx__text_format("%s%sINFINITY%s", f < 0 ? "(-" : "", narrow ? "" : "(double)",
                                f < 0 ? ")" : "");
    char digits[64];
    for (int places = 1; places <= 17; places++) { /* the shortest that gives the number again */
        snprintf(digits, sizeof digits, "%.*g", places, f);
        if (narrow ? strtof(digits, NULL) == (float)f : strtod(digits, NULL) == f)
            break;
    }
    const bool whole = !strpbrk(digits, ".e");
    return cfx__text_format(signbit(f) ? "(%s%s%s)" : "%s%s%s", digits, whole ? ".0" : "",
                            narrow ? "f" : "");
}

const char *cfx__c_number(cfx_dtype d, double f, int64_t i) {
    if (cfx__dtype_is_float(d))
        return float_text(f, d != CFX_F64);
    if (i == INT64_MIN)
        return "INT64_MIN";
    if (i > INT32_MAX || i < -(int64_t)INT32_MAX)
        return cfx__text_format(i < 0 ? "(-INT64_C(%lld))" : "INT64_C(%lld)",
                                (long long)(i < 0 ? -i : i));
    return cfx__text_format(i < 0 ? "(%lld)" : "%lld", (long long)i);
}

const char *cfx__c_element(const cfx_tensor *t, int64_t i) {
    const cfx_dtype d = (cfx_dtype)t->dtype;
    const char *from = t->data + i * cfx_dtype_size(d);
    double f = 0;
    int64_t whole = 0;
    if (cfx__dtype_is_float(d))
        cfx__convert((char *)&f, 8, CFX_F64, from, 0, d, 1);
    else
        cfx__convert((char *)&whole, 8, CFX_I64, from, 0, d, 1);
    return cfx__c_number(d, f, whole);
}
