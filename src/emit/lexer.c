/* The pieces of a text: names, numbers, strings; and where in it something is wrong. */
#include "emit.h"

#include <errno.h>

/* ---- errors --------------------------------------------------------------------------------- */

enum { SHOWN_BEFORE = 60, SHOWN_AFTER = 40 }; /* of a long line, around the place */

/* The start of a UTF-8 character at or before p. */
static const char *character_start(const char *line, const char *p) {
    while (p > line && ((unsigned char)*p & 0xc0) == 0x80)
        p--;
    return p;
}

void cfx__parse_fail(cfx__parser *p, const char *at, const char *fmt, ...) {
    if (p->failed)
        return;
    p->failed = true;
    if (p->quiet)
        return;
    int line = 1;
    const char *start = p->start;
    for (const char *c = p->start; c < at; c++)
        if (*c == '\n')
            line++, start = c + 1;
    const char *end = memchr(at, '\n', (size_t)(p->end - at));
    if (!end)
        end = p->end;
    int column = 1;
    for (const char *c = start; c < at; c++)
        column += ((unsigned char)*c & 0xc0) != 0x80;
    bool cut_before = at - start > SHOWN_BEFORE + 10, cut_after = end - at > SHOWN_AFTER + 10;
    const char *from = cut_before ? character_start(start, at - SHOWN_BEFORE) : start;
    const char *to = cut_after ? character_start(at, at + SHOWN_AFTER) : end;
    int caret = cut_before ? 4 : 1;
    for (const char *c = from; c < at; c++)
        caret += ((unsigned char)*c & 0xc0) != 0x80;
    size_t mark = cfx_scope_open();
    cfx__text message = {0};
    va_list ap;
    va_start(ap, fmt);
    cfx__text_vprintf(&message, fmt, ap);
    va_end(ap);
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%s:%d:%d: %s\n    %s%.*s%s\n    %*s", p->what, line,
             column, message.data, cut_before ? "..." : "", (int)(to - from), from,
             cut_after ? "..." : "", caret, "^");
    cfx__text_release(&message);
    cfx_scope_close(mark);
}

/* ---- steps ---------------------------------------------------------------------------------- */

void cfx__parser_skip(cfx__parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\r'))
        p->at++;
}

bool cfx__parser_take(cfx__parser *p, const char *text) {
    size_t n = strlen(text);
    if (p->failed || (size_t)(p->end - p->at) < n || memcmp(p->at, text, n))
        return false;
    p->at += n;
    return true;
}

bool cfx__parser_want(cfx__parser *p, const char *text) {
    if (cfx__parser_take(p, text))
        return true;
    cfx__parse_fail(p, p->at, "expected '%s'", text);
    return false;
}

size_t cfx__parser_take_name(cfx__parser *p, const char **name) {
    *name = p->at;
    if (p->failed || p->at == p->end || (*p->at >= '0' && *p->at <= '9'))
        return 0;
    while (p->at < p->end && cfx__emit_is_word(*p->at))
        p->at++;
    return (size_t)(p->at - *name);
}

bool cfx__parser_is_line_end(cfx__parser *p) {
    cfx__parser_skip(p);
    return p->at == p->end || *p->at == '\n';
}

/* ---- strings -------------------------------------------------------------------------------- */

/* The digits of \x41, \u0041 and \U00000041. */
static bool take_hex(cfx__parser *p, int digits, uint32_t *code) {
    *code = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        char c = p->at < p->end ? *p->at : 0;
        int v = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (v < 0 || *code > 0x10ffff) {
            cfx__parse_fail(p, p->at, "expected a hexadecimal digit");
            return false;
        }
        *code = *code * 16 + (uint32_t)v;
    }
    return true;
}

static void take_escape(cfx__parser *p, cfx__text *t) {
    static const char from[] = "ntr\\'\"abfv0", to[] = "\n\t\r\\'\"\a\b\f\v";
    char c = p->at < p->end ? *p->at : 0;
    const char *simple = c ? strchr(from, c) : NULL;
    uint32_t code;
    if (simple) {
        p->at++;
        cfx__text_putc(t, to[simple - from]);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        p->at++;
        if (take_hex(p, c == 'x' ? 2 : c == 'u' ? 4 : 8, &code))
            cfx__utf8_put(t, code);
    } else {
        cfx__parse_fail(p, p->at - 1, "no such escape");
    }
}

cfx_value cfx__parser_take_string(cfx__parser *p) {
    const char *start = p->at;
    char quote = *p->at++;
    const char *plain = p->at;
    while (p->at < p->end && *p->at != quote && *p->at != '\\' && *p->at != '\n')
        p->at++;
    cfx__text t = {0};
    cfx__text_add(&t, plain, (size_t)(p->at - plain));
    while (!p->failed && p->at < p->end && *p->at != quote && *p->at != '\n') {
        char c = *p->at++;
        if (c == '\\')
            take_escape(p, &t);
        else
            cfx__text_putc(&t, c);
    }
    if (!p->failed && (p->at == p->end || *p->at != quote))
        cfx__parse_fail(p, start, "this string has no end");
    if (!p->failed)
        p->at++;
    cfx_value v = p->failed ? cfx_bad() : cfx_string_value_n(t.data, t.len);
    cfx__text_release(&t);
    return v;
}

/* ---- numbers -------------------------------------------------------------------------------- */

static bool digit(const cfx__parser *p, const char *at) {
    return at < p->end && *at >= '0' && *at <= '9';
}

/* inf and nan, with j behind them or not. Their length, or 0. */
static size_t word_number(const cfx__parser *p, const char *at) {
    if (p->end - at < 3 || (memcmp(at, "inf", 3) && memcmp(at, "nan", 3)))
        return 0;
    size_t n = p->end - at > 3 && at[3] == 'j' ? 4 : 3;
    return at + n < p->end && cfx__emit_is_word(at[n]) ? 0 : n;
}

bool cfx__parser_is_number_next(const cfx__parser *p) {
    const char *at = p->at;
    if (at < p->end && *at == '-')
        at++;
    return digit(p, at) || word_number(p, at);
}

/* The end of a number that has no sign. A point counts only before a digit: 1.relu() is a call. */
static const char *number_end(const cfx__parser *p, const char *at, bool *real) {
    while (digit(p, at))
        at++;
    if (at + 1 < p->end && *at == '.' && digit(p, at + 1)) {
        *real = true;
        for (at++; digit(p, at);)
            at++;
    }
    if (at < p->end && (*at == 'e' || *at == 'E')) {
        const char *e = at + 1;
        if (e < p->end && (*e == '+' || *e == '-'))
            e++;
        if (digit(p, e)) {
            *real = true;
            for (at = e; digit(p, at);)
                at++;
        }
    }
    return at;
}

static cfx_value take_plain_number(cfx__parser *p) {
    const char *start = p->at, *at = start + (*start == '-');
    size_t word = word_number(p, at);
    bool real = false;
    const char *end = word ? at + 3 : number_end(p, at, &real);
    bool imaginary =
        end < p->end && *end == 'j' && !(end + 1 < p->end && cfx__emit_is_word(end[1]));
    p->at = end + imaginary;
    double f;
    char buffer[64];
    if (word) {
        f = *at == 'i' ? __builtin_inf() : __builtin_nan("");
        f = *start == '-' ? -f : f;
    } else if (!real && !imaginary) {
        int64_t i = 0;
        bool minus = *start == '-', over = false;
        for (; at < end; at++) {
            over |= __builtin_mul_overflow(i, 10, &i);
            over |= __builtin_add_overflow(i, minus ? -(*at - '0') : *at - '0', &i);
        }
        if (over)
            cfx__parse_fail(p, start, "this integer does not fit in 64 bits");
        return cfx_int(i);
    } else if ((size_t)(end - start) >= sizeof buffer) {
        cfx__parse_fail(p, start, "this number is too long");
        return cfx_bad();
    } else {
        memcpy(buffer, start, (size_t)(end - start));
        buffer[end - start] = 0;
        f = cfx__number_read(buffer, NULL);
    }
    return imaginary ? cfx_complex_value(0, f) : cfx_float(f);
}

cfx_value cfx__parser_take_number(cfx__parser *p) {
    const char *start = p->at;
    cfx_value v = take_plain_number(p);
    if (p->failed || p->at == p->end || !cfx__emit_is_word(*p->at))
        return v;
    cfx__parse_fail(p, start, "this is no number");
    return cfx_bad();
}

/* ---- names ---------------------------------------------------------------------------------- */

cfx_node *cfx__parser_find_node(const cfx__parser *p, const char *name, size_t len) {
    return cfx__map_getn(&p->nodes, name, len);
}

void cfx__parser_bind_node(cfx__parser *p, const char *name, size_t len, cfx_node *n) {
    bool same = strlen(n->name) == len && !memcmp(n->name, name, len);
    cfx__map_set(&p->nodes, same ? n->name : cfx__arena_copy(&p->arena, name, len), n);
}

cfx_target cfx__parser_target(cfx__parser *p, const char *text, size_t len) {
    cfx_target *known = cfx__map_getn(&p->targets, text, len);
    if (!known) {
        const char *key = cfx__arena_copy(&p->arena, text, len);
        known = cfx__arena_alloc(&p->arena, sizeof *known);
        *known = cfx_graph_target(p->g, key);
        cfx__map_set(&p->targets, key, known);
    }
    return *known;
}
