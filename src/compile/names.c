/* Names, numbers and comments of generated C. What comes out of a file becomes letters, digits and
 * underscores in names, and printable text on one line in comments. */
#include <ctype.h>
#include <math.h>

#include "compile.h"
#include "kernels.h"

/* Words of C and of C++, which a header is for too; words of the headers that are included, and
 * of the text itself. */
static const char *const reserved[] = {
    /* C */
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
    "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict",
    "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union",
    "unsigned", "void", "volatile", "while", "asm", "bool", "true", "false", "complex", "imaginary",
    "alignas", "alignof", "noreturn", "thread_local", "static_assert", "typeof", "typeof_unqual",
    "constexpr", "nullptr",
    /* C++ */
    "and", "and_eq", "bitand", "bitor", "catch", "char8_t", "char16_t", "char32_t", "class",
    "compl", "concept", "consteval", "constinit", "const_cast", "co_await", "co_return", "co_yield",
    "decltype", "delete", "dynamic_cast", "explicit", "export", "friend", "mutable", "namespace",
    "new", "noexcept", "not", "not_eq", "operator", "or", "or_eq", "private", "protected", "public",
    "reinterpret_cast", "requires", "static_cast", "template", "this", "throw", "try", "typeid",
    "typename", "using", "virtual", "wchar_t", "xor", "xor_eq",
    /* headers, and macros of compilers */
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "pow", "sin", "cos",
    "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "erf", "erfc", "floor", "ceil", "trunc", "round", "rint", "nearbyint", "lrint", "fabs", "fmod",
    "remainder", "hypot", "copysign", "fmin", "fmax", "fma", "ldexp", "frexp", "modf", "logb",
    "scalbn", "tgamma", "lgamma", "abs", "div", "index", "rindex", "signgam", "gamma", "j0", "j1",
    "jn", "y0", "y1", "yn", "nan", "isnan", "isinf", "isfinite", "memcpy", "memset", "memmove",
    "strlen", "main", "linux", "unix", "i386", "stdin", "stdout", "stderr", "errno", "assert",
    "offsetof", "NULL", "EOF", "INFINITY", "NAN", "signbit", "conj", "creal", "cimag", "cabs",
    "carg", "cexp", "clog", "csqrt", "cpow", "csin", "ccos", "ctan", "casin", "cacos", "catan",
    "csinh", "ccosh", "ctanh", "casinh", "cacosh", "catanh", "cproj", "I", "size_t",
    "ptrdiff_t", "intptr_t", "uintptr_t", "max_align_t", "int64_t", "int32_t", "int16_t", "int8_t",
    "uint8_t", "uint16_t", "uint32_t", "uint64_t",
    /* the text */
    "i", "j", "k", "l", "m", "n", "c", "w", "a", "scratch", "arena", "union_"};

/* Names that the text makes of a word and a number: sizes that vary ("s27"), values of loops ("v3",
 * "v3_a", "sum1", "row2", "y2"), what is read by an index ("index0", "a0"), rounds. */
static bool is_numbered(const char *name) {
    static const char *const words[] = {"s",     "v",   "sum", "most", "least", "product", "count",
                                        "any",   "all", "row", "y",    "a",     "index",   "round"};
    for (int i = 0; i < COUNT(words); i++) {
        const size_t n = strlen(words[i]);
        if (strncmp(name, words[i], n) != 0 || !isdigit((unsigned char)name[n]))
            continue;
        const char *rest = name + n + strspn(name + n, "0123456789");
        if (!*rest || (rest[0] == '_' && rest[1] && !rest[2]))
            return true;
    }
    return false;
}

/* Names without a small letter are those of macros, of the headers or of the text. */
static bool is_macro(const char *name) {
    size_t n = 0;
    while (name[n] && !(name[n] >= 'a' && name[n] <= 'z'))
        n++;
    return n > 3 && !name[n];
}

static bool is_reserved(const char *name) {
    if (is_numbered(name) || is_macro(name))
        return true;
    for (int i = 0; i < COUNT(reserved); i++) {
        const size_t n = strlen(reserved[i]);
        if (!strncmp(reserved[i], name, n) &&
            (!name[n] || ((name[n] == 'f' || name[n] == 'l') && !name[n + 1])))
            return true;
    }
    return false;
}

/* An identifier of so many characters at most. */
static const char *identifier(const char *name, size_t longest) {
    cfx__text out = {0};
    if (!isalpha((unsigned char)name[0]) || !strncmp(name, "cfx_", 4))
        cfx__text_putc(&out, 'n'); /* digits begin none, and those with _ are not to be had */
    for (; *name && out.len < longest; name++) {
        const bool plain = isalnum((unsigned char)*name) && (unsigned char)*name < 0x80;
        if (plain || !out.len || out.data[out.len - 1] != '_') /* two in a row are C++'s */
            cfx__text_putc(&out, plain ? *name : '_');
    }
    size_t n = out.len;
    while (n > 1 && out.data[n - 1] == '_')
        n--;
    const char *own = cfx__text_format("%.*s", (int)n, out.data);
    cfx__text_release(&out);
    return is_reserved(own) ? cfx__text_format("%s_", own) : own;
}

enum { LONGEST = 63 }; /* so many characters count in C */

const char *cfx__c_identifier(const char *name) { return identifier(name, LONGEST); }

static bool is_among(const char *const *words, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(words[i], name))
            return true;
    return false;
}

/* What files have anyway behind their prefix: file.c, main.c, library.c and kernels. */
static bool is_fixed(const char *rest) {
    static const char *const words[] = {"run",   "test",  "results", "weights", "weights_load",
                                        "state", "call",  "sizes",   "read",    "state_init",
                                        "names", "least", "most",    "uses",    "count",
                                        "told",  "room",  "follow",  "elements"};
    return is_among(words, COUNT(words), rest) || !strncmp(rest, "sample_", 7) ||
           !strncmp(rest, "expected_", 9) || !strncmp(rest, "library_", 8) ||
           cfx__kernels_has(rest);
}

/* The name, or with a number behind it, that is not taken in a space by another, which is the same
 * in large letters where those are `folded`. */
static const char *free_name(cfx__map *taken, const char *space, const char *name, bool folded) {
    const char *own = name, *key;
    for (int i = 2;; i++) {
        key = cfx__text_format("%s.%s", space, folded ? cfx__c_upper(own) : own);
        if (!cfx__map_get(taken, key))
            break;
        own = cfx__text_format("%s_v%d", name, i);
    }
    cfx__map_set(taken, key, (void *)key);
    return own;
}

const char *cfx__c_unique(cfx__map *taken, const char *space, const char *name) {
    return free_name(taken, space, cfx__c_identifier(name), false);
}

const char *cfx__c_symbol(cfx__c *c, const char *stem) {
    const size_t before = strlen(c->name) + 1, room = before + LONGEST / 2;
    const size_t longest = room > LONGEST ? room : LONGEST; /* something of the stem stays */
    const char *own = identifier(cfx__text_format("%s_%s", c->name, stem), longest);
    if (strlen(own) > before && is_fixed(own + before))
        own = cfx__text_format("%s_module_%s", c->name, own + before);
    return free_name(&c->names, "file", own, false);
}

const char *cfx__c_port_name(cfx__c *c, const char *name) {
    /* what functions that have ports as variables call something else (file.c, main.c) */
    static const char *const words[] = {
        "call",   "bad",    "state",  "sizes",  "file",    "weights", "path",  "code",   "argc",
        "argv",   "worst",  "off",    "room",   "want",    "have",    "apart", "most",   "largest",
        "printf", "exit",   "fopen",  "fread",  "fwrite",  "fclose",  "fgetc", "malloc", "calloc",
        "free",   "getenv", "strtol", "strcmp", "fprintf", "isfinite"};
    const size_t n = strlen(c->name);
    const char *first = cfx__c_identifier(name);
    if (is_among(words, COUNT(words), first) || (!strncmp(first, c->name, n) && first[n] == '_'))
        first = cfx__text_format("port_%s", first);
    return free_name(&c->names, "ports", first, true); /* macros have them in large letters */
}

const char *cfx__c_comment(const char *text) {
    enum { MOST = 400 };
    cfx__text t = {0};
    for (; *text && t.len < MOST; text++) {
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
    const bool far = fabs(f) < 1 || fabs(f) >= 1e9; /* "1e+12", but "210" and not "2.1e+02" */
    for (int places = 1; places <= 17; places++) { /* the shortest that gives the number again */
        snprintf(digits, sizeof digits, "%.*g", places, f);
        if ((narrow ? strtof(digits, NULL) == (float)f : strtod(digits, NULL) == f) &&
            (far || !strchr(digits, 'e')))
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

const char *cfx__c_listed(const char *number) {
    return strncmp(number, "(-", 2) ? number
                                    : cfx__text_format("%.*s", (int)strlen(number) - 2, number + 1);
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
