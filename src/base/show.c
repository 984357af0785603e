/* Escapes text from files for output: control characters become escapes, and a text stays on its
 * line, so nothing in a file can control the terminal or imitate a line of cfx. */
#include "base.h"

#include <stdlib.h>

size_t cfx__utf8_show(const char *text, size_t left, char shown[CFX__SHOWN]) {
    uint32_t c = 0;
    size_t n = cfx__utf8_get(text, left, &c);
    if (!n)
        snprintf(shown, CFX__SHOWN, "\\x%02x", (unsigned char)*text);
    else if (cfx__utf8_printable(c) || c == '\n' || c == '\t')
        snprintf(shown, CFX__SHOWN, "%.*s", (int)n, text);
    else
        snprintf(shown, CFX__SHOWN, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    return n ? n : 1;
}

void cfx__text_show(cfx__text *t, size_t from) {
    size_t at = from, len = t->len;
    while (at < len && ((t->data[at] >= ' ' && t->data[at] < 0x7f) || t->data[at] == '\n'))
        at++;
    if (at == len)
        return;
    cfx__text shown = {0};
    char one[CFX__SHOWN];
    for (at = from; at < len;) {
        at += cfx__utf8_show(t->data + at, len - at, one);
        cfx__text_puts(&shown, one);
    }
    t->len = from;
    cfx__text_add(t, shown.data, shown.len);
    cfx__text_release(&shown);
}

void cfx__text_line(cfx__text *t, const char *text, size_t len) {
    char one[CFX__SHOWN];
    for (size_t at = 0; at < len;) {
        size_t plain = at;
        while (plain < len && text[plain] >= ' ' && text[plain] < 0x7f)
            plain++;
        cfx__text_add(t, text + at, plain - at);
        at = plain;
        if (at == len)
            break;
        char c = text[at];
        if (c == '\n' || c == '\t') {
            cfx__text_add(t, c == '\n' ? "\\n" : "\\t", 2);
            at++;
        } else {
            at += cfx__utf8_show(text + at, len - at, one);
            cfx__text_puts(t, one);
        }
    }
}

/* ---- formats --------------------------------------------------------------------------------- */

/* One conversion of a format, "%-28s" or "%.3g"; where a star stood, its number. */
typedef struct conversion {
    char text[48];
    int width, precision; /* precision -1: none */
    bool left;
    char kind;
} conversion;

/* A number of a conversion, or the argument that a star stands for. */
static const char *read_number(const char *at, int *number, va_list *ap) {
    if (*at == '*') {
        *number = va_arg(*ap, int);
        return at + 1;
    }
    for (*number = 0; *at >= '0' && *at <= '9' && *number < 1 << 24; at++)
        *number = *number * 10 + (*at - '0');
    return at;
}

/* Puts what the next argument is of, in the type that a length ("ll", "z") and a kind ask for. */
static void put_number(cfx__text *t, const conversion *c, const char *length, va_list *ap) {
    if (strchr("fFeEgGaA", c->kind) && *length == 'L')
        cfx__text_printf(t, c->text, va_arg(*ap, long double));
    else if (strchr("fFeEgGaA", c->kind))
        cfx__text_printf(t, c->text, va_arg(*ap, double));
    else if (c->kind == 'p')
        cfx__text_printf(t, c->text, va_arg(*ap, void *));
    else if (!strncmp(length, "ll", 2))
        cfx__text_printf(t, c->text, va_arg(*ap, long long));
    else if (*length == 'l' || *length == 'z' || *length == 'j' || *length == 't')
        cfx__text_printf(t, c->text, va_arg(*ap, long)); /* of one size where this is built */
    else
        cfx__text_printf(t, c->text, va_arg(*ap, int));
}

static void put_string(cfx__text *t, const conversion *c, const char *text) {
    text = text ? text : "(null)";
    const char *end = c->precision >= 0 ? memchr(text, 0, (size_t)c->precision) : NULL;
    size_t len = c->precision < 0 ? strlen(text)
                 : end            ? (size_t)(end - text)
                                  : (size_t)c->precision;
    cfx__text shown = {0};
    cfx__text_line(&shown, text, len);
    int blanks = c->width > 0 && shown.len < (size_t)c->width ? c->width - (int)shown.len : 0;
    cfx__text_printf(t, "%*s", c->left ? 0 : blanks, "");
    cfx__text_add(t, shown.data, shown.len);
    cfx__text_printf(t, "%*s", c->left ? blanks : 0, "");
    cfx__text_release(&shown);
}

/* Puts one conversion, which begins behind its percent sign. Returns where it ends. */
static const char *put_conversion(cfx__text *t, const char *at, va_list *ap) {
    conversion c = {.precision = -1};
    int flags = (int)strspn(at, "-+ #0");
    const char *length = read_number(at + flags, &c.width, ap);
    c.left = memchr(at, '-', (size_t)flags) || c.width < 0;
    c.width = abs(c.width);
    if (*length == '.')
        length = read_number(length + 1, &c.precision, ap);
    const char *kind = length + strspn(length, "hlzjtL");
    c.kind = *kind;
    if (c.kind == 's') {
        put_string(t, &c, va_arg(*ap, const char *));
    } else if (c.kind == '%') {
        cfx__text_putc(t, '%');
    } else if (c.kind) {
        int n = snprintf(c.text, sizeof c.text, "%%%.*s%s", flags, at, c.left ? "-" : "");
        n += c.width ? snprintf(c.text + n, sizeof c.text - (size_t)n, "%d", c.width) : 0;
        n += c.precision >= 0 ? snprintf(c.text + n, sizeof c.text - (size_t)n, ".%d", c.precision)
                              : 0;
        snprintf(c.text + n, sizeof c.text - (size_t)n, "%.*s", (int)(kind + 1 - length), length);
        put_number(t, &c, length, ap);
    }
    return kind + (c.kind != 0);
}

void cfx__text_vshow(cfx__text *t, const char *fmt, va_list ap) {
    size_t from = t->len;
    if (!strcmp(fmt, "%s")) { /* it was put together before, its lines are meant */
        cfx__text_vprintf(t, fmt, ap);
        cfx__text_show(t, from);
        return;
    }
    va_list args; /* a list that is passed on by its address is a copy of the caller's */
    va_copy(args, ap);
    for (const char *percent; *fmt;) {
        percent = strchr(fmt, '%');
        cfx__text_add(t, fmt, percent ? (size_t)(percent - fmt) : strlen(fmt));
        fmt = percent ? put_conversion(t, percent + 1, &args) : "";
    }
    va_end(args);
}

void cfx__text_showf(cfx__text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    cfx__text_vshow(t, fmt, ap);
    va_end(ap);
}
