/* Names: torch.fx's namespace, rule for rule, with a constant cost for each name.
 *
 * Invariant: a name that was given out is never given out again. `skip` of the name base_n is a
 * number such that base_n .. base_skip are all taken; so the search for a free number jumps over
 * runs that are known to be taken. */
#include "graph.h"

#include <ctype.h>

/* Python's keywords and built-in names, and what generated code imports. Sorted by bytes. */
static const char *const reserved[] = {
    "ArithmeticError", "AssertionError", "AttributeError", "BaseException", "BaseExceptionGroup",
    "BlockingIOError", "BrokenPipeError", "BufferError", "BytesWarning", "ChildProcessError",
    "ConnectionAbortedError", "ConnectionError", "ConnectionRefusedError", "ConnectionResetError",
    "DeprecationWarning", "EOFError", "Ellipsis", "EncodingWarning", "EnvironmentError",
    "Exception", "ExceptionGroup", "False", "FileExistsError", "FileNotFoundError",
    "FloatingPointError", "FutureWarning", "GeneratorExit", "IOError", "ImportError",
    "ImportWarning", "IndentationError", "IndexError", "InterruptedError", "IsADirectoryError",
    "KeyError", "KeyboardInterrupt", "LookupError", "MemoryError", "ModuleNotFoundError",
    "NameError", "None", "NoneType", "NotADirectoryError", "NotImplemented", "NotImplementedError",
    "OSError", "OverflowError", "PendingDeprecationWarning", "PermissionError",
    "ProcessLookupError", "PythonFinalizationError", "RecursionError", "ReferenceError",
    "ResourceWarning", "RuntimeError", "RuntimeWarning", "StopAsyncIteration", "StopIteration",
    "SyntaxError", "SyntaxWarning", "SystemError", "SystemExit", "TabError", "TimeoutError", "True",
    "TypeError", "UnboundLocalError", "UnicodeDecodeError", "UnicodeEncodeError", "UnicodeError",
    "UnicodeTranslateError", "UnicodeWarning", "UserWarning", "ValueError", "Warning",
    "ZeroDivisionError", "__build_class__", "__debug__", "__doc__", "__import__", "__loader__",
    "__name__", "__package__", "__spec__", "abs", "aiter", "all", "and", "anext", "any", "as",
    "ascii", "assert", "async", "await", "bin", "bool", "break", "breakpoint", "bytearray", "bytes",
    "callable", "chr", "class", "classmethod", "compile", "complex", "continue", "copyright",
    "credits", "def", "del", "delattr", "device", "dict", "dir", "divmod", "elif", "else",
    "enumerate", "eval", "except", "exec", "exit", "filter", "finally", "float", "for", "format",
    "from", "frozenset", "fx_pytree", "getattr", "global", "globals", "hasattr", "hash", "help",
    "hex", "id", "if", "import", "in", "inf", "input", "int", "is", "isinstance", "issubclass",
    "iter", "lambda", "len", "license", "list", "locals", "map", "max", "memoryview", "min", "nan",
    "next", "nonlocal", "not", "object", "oct", "open", "or", "ord", "pass", "pow", "print",
    "property", "pytree", "quit", "raise", "range", "repr", "return", "reversed", "round", "set",
    "setattr", "slice", "sorted", "staticmethod", "str", "sum", "super", "torch", "try", "tuple",
    "type", "vars", "while", "with", "yield", "zip",};

static int by_text(const void *key, const void *item) {
    return strcmp(key, *(const char *const *)item);
}

bool cfx__name_reserved(const char *text) {
    return bsearch(text, reserved, (size_t)COUNT(reserved), sizeof *reserved, by_text) != NULL;
}

/* ---- the table ------------------------------------------------------------------------------ */

static struct cfx__name_slot *slot_of(const cfx__namespace *ns, const char *text, size_t len,
                                      uint32_t hash) {
    size_t mask = ns->cap - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct cfx__name_slot *s = &ns->slots[i];
        if (!s->name ||
            (s->hash == hash && s->name->len == len && !memcmp(s->name->text, text, len)))
            return s;
    }
}

static void resize(cfx__namespace *ns, size_t cap) {
    struct cfx__name_slot *old = ns->slots;
    size_t n = ns->cap;
    ns->cap = cap;
    ns->slots = cfx__alloc0(cap * sizeof *ns->slots);
    for (size_t i = 0; i < n; i++)
        if (old[i].name) {
            size_t at = old[i].hash & (cap - 1);
            while (ns->slots[at].name)
                at = (at + 1) & (cap - 1);
            ns->slots[at] = old[i];
        }
    cfx__free(old);
}

void cfx__namespace_reserve(cfx__namespace *ns, size_t n) {
    size_t cap = ns->cap ? ns->cap : 64;
    while (n * 4 > cap * 3)
        cap *= 2;
    if (cap > ns->cap)
        resize(ns, cap);
}

static cfx__name *name_at(cfx__namespace *ns, const char *text, size_t len, uint32_t hash) {
    if (unlikely((ns->len + 1) * 4 > ns->cap * 3))
        cfx__namespace_reserve(ns, ns->len + 1);
    struct cfx__name_slot *slot = slot_of(ns, text, len, hash);
    if (!slot->name) {
        cfx__name *r = cfx__arena_alloc(&ns->arena, sizeof *r + len + 1);
        memcpy(r->text, text, len);
        r->len = (uint32_t)len;
        r->hash = hash;
        bool numbered = len && isdigit((unsigned char)text[len - 1]);
        r->reserved = !numbered && cfx__name_reserved(r->text);
        *slot = (struct cfx__name_slot){r, hash};
        ns->len++;
    }
    return slot->name;
}

/* The name that text[0..len) is, made when missing. */
static cfx__name *intern(cfx__namespace *ns, const char *text, size_t len) {
    return name_at(ns, text, len, cfx__text_key(text, len));
}

cfx__name *cfx__name_copy(cfx__namespace *ns, const cfx__name *name) {
    const cfx__name *base = name->base;
    cfx__name *r = name_at(ns, name->text, name->len, name->hash);
    r->base = base == name ? r : name_at(ns, base->text, base->len, base->hash);
    r->number = name->number;
    r->base->count = name->number;
    r->used = true;
    return r;
}

cfx__name *cfx__name_find(const cfx__namespace *ns, const char *text) {
    size_t len = strlen(text);
    return ns->cap ? slot_of(ns, text, len, cfx__text_key(text, len))->name : NULL;
}

void cfx__namespace_forget(cfx__namespace *ns) {
    for (size_t i = 0; i < ns->cap; i++) {
        cfx__name *r = ns->slots[i].name;
        if (r)
            r->used = false, r->node = NULL, r->count = r->skip = 0;
    }
}

void cfx__namespace_release(cfx__namespace *ns) {
    cfx__free(ns->slots);
    cfx__arena_release(&ns->arena);
    *ns = (cfx__namespace){0};
}

/* ---- the rules ------------------------------------------------------------------------------ */

static bool is_legal(char c) { return isalnum((unsigned char)c) || c == '_'; }

bool cfx__name_is_identifier(const char *text, size_t len) {
    if (!len || isdigit((unsigned char)*text))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_legal(text[i]))
            return false;
    return true;
}

bool cfx__name_is_dotted(const char *text) {
    size_t len = strcspn(text, ".");
    while (cfx__name_is_identifier(text, len) && text[len]) {
        text += len + 1;
        len = strcspn(text, ".");
    }
    return cfx__name_is_identifier(text, len);
}

/* The candidate as an identifier: runs of what is illegal become one underscore. */
static void put_identifier(cfx__text *out, const char *candidate) {
    if (!*candidate)
        candidate = "_unnamed";
    if (isdigit((unsigned char)*candidate))
        cfx__text_putc(out, '_');
    for (const char *p = candidate; *p; p++) {
        if (is_legal(*p))
            cfx__text_putc(out, *p);
        else if (p == candidate || is_legal(p[-1]))
            cfx__text_putc(out, '_');
    }
}

/* "add_12" is base "add" and number 12. Returns the length of the base; *number is -1 where there
 * is none. */
static size_t split_number(const char *text, size_t len, int32_t *number) {
    size_t digits = len;
    while (digits > 0 && isdigit((unsigned char)text[digits - 1]))
        digits--;
    *number = -1;
    if (digits == len || digits < 2 || text[digits - 1] != '_' || len - digits > 9)
        return len;
    *number = 0;
    for (size_t i = digits; i < len; i++)
        *number = *number * 10 + (text[i] - '0');
    return digits - 1;
}

/* A number after a base: the shortest way to write it, since every node does. */
static size_t put_number(char *at, int32_t number) {
    char digits[16];
    size_t n = 0;
    do
        digits[n++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    for (size_t i = 0; i < n; i++)
        at[i] = digits[n - 1 - i];
    return n;
}

/* The first free name base_n with n > number; *number becomes n. */
static cfx__name *free_name(cfx__namespace *ns, const char *base, size_t len, int32_t *number) {
    char small[256], *text = len + 32 <= sizeof small ? small : cfx__alloc(len + 32);
    memcpy(text, base, len);
    text[len] = '_';
    int32_t n = *number + 1;
    cfx__name *first = NULL, *r;
    size_t total;
    for (;;) {
        total = len + 1 + put_number(text + len + 1, n);
        r = intern(ns, text, total);
        if (!r->used)
            break;
        if (!first)
            first = r;
        n = (r->skip > n ? r->skip : n) + 1;
    }
    if (first)
        first->skip = n;
    if (text != small)
        cfx__free(text);
    *number = n;
    return r;
}

/* Gives out a name for a candidate that is an identifier and has the record c. */
static cfx__name *give(cfx__namespace *ns, cfx__name *c, bool reserved_too) {
    int32_t number;
    size_t len = split_number(c->text, c->len, &number);
    cfx__name *base = number < 0 ? c : intern(ns, c->text, len), *r = c;
    if (number < 0 || c->used) {
        number = c->count;
        if (c->used || (c->reserved && !reserved_too))
            r = free_name(ns, base->text, base->len, &number);
    }
    r->used = true;
    r->base = base;
    r->number = base->count = number;
    return r;
}

cfx__name *cfx__name_candidate(cfx__namespace *ns, const char *candidate) {
    size_t len = strlen(candidate);
    if (cfx__name_is_identifier(candidate, len))
        return intern(ns, candidate, len);
    cfx__text clean = {0};
    put_identifier(&clean, candidate);
    cfx__name *r = intern(ns, clean.data, clean.len);
    cfx__text_release(&clean);
    return r;
}

cfx__name *cfx__name_give(cfx__namespace *ns, cfx__name *candidate) {
    return give(ns, candidate, false);
}

const char *cfx__name_create(cfx__namespace *ns, const char *candidate, bool reserved_too) {
    return give(ns, cfx__name_candidate(ns, candidate), reserved_too)->text;
}

cfx__name *cfx__name_take(cfx__namespace *ns, const char *text) {
    size_t len = strlen(text);
    if (!cfx__name_is_identifier(text, len))
        return NULL;
    cfx__name *c = intern(ns, text, len);
    return c->used ? c : give(ns, c, true);
}

/* ---- from targets --------------------------------------------------------------------------- */

void cfx__name_snake_case(cfx__text *out, const char *text) {
    for (const char *p = text; *p; p++) {
        if (p > text && *p >= 'A' && *p <= 'Z' && p[-1] >= 'a' && p[-1] <= 'z')
            cfx__text_putc(out, '_');
        cfx__text_putc(out, (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p));
    }
}
