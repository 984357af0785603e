/* The sticky first error: one setter (cfx_fail), one clearer (cfx_error_clear). */
#include "given.h"
#include "held.h"

static const char *const kind_names[] = {
    [CFX_NO_ERROR] = "no error",
#define KIND_NAME(name, text) [CFX_##name##_ERROR] = text,
    CFX_ERRORS(KIND_NAME)
#undef KIND_NAME
};

bool cfx_ok(void) { return !cfx__ctx()->failed; }

const cfx_error *cfx_error_last(void) {
    cfx__context *c = cfx__ctx();
    return c->failed ? &c->error : NULL;
}

const char *cfx_error_kind_name(cfx_error_kind kind) {
    return (unsigned)kind < COUNT(kind_names) ? kind_names[kind] : "error";
}

/* How much of a line of a message is kept, in bytes, and how many lines. */
enum { LINE = 800, HEAD = 600, TAIL = 150, LINES = 100 };

/* n, or up to three less: where no letter is cut. */
static size_t whole_letters(const char *at, size_t n) {
    for (int k = 0; k < 3 && ((unsigned char)at[n] & 0xc0) == 0x80; k++)
        n--;
    return n;
}

/* Messages quote what files say, which may be long: lines from there on keep beginning and end. */
static void shorten(cfx__text *t, size_t from) {
    static const char gap[] = " ... ";
    if (t->len - from <= LINE)
        return;
    char *to = t->data + from, *at = to, *end = t->data + t->len;
    for (int lines = 0; at < end; lines++) {
        char *stop = lines < LINES ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        size_t n = (size_t)((stop ? stop + 1 : end) - at), head = n, tail = 0;
        if (n > LINE) {
            head = whole_letters(at, HEAD);
            tail = n - whole_letters(at, n - TAIL);
        }
        memmove(to, at, head);
        to += head;
        if (tail) {
            memcpy(to, gap, sizeof gap - 1);
            to += sizeof gap - 1;
            memmove(to, at + n - tail, tail);
            to += tail;
        }
        at += n;
    }
    *to = '\0';
    t->len = (size_t)(to - t->data);
}

void cfx__fail_list(cfx_error_kind kind, cfx_site at, const char *before, const char *fmt,
                    va_list ap) {
    cfx__context *c = cfx__ctx();
    if (c->failed)
        return;
    c->message.len = c->notes.len = 0;
    cfx__text_puts_line(&c->message, before);
    cfx__text_vshow(&c->message, fmt, ap); /* names in it may come from a file */
    shorten(&c->message, 0);
    if (c->failed) /* there is no memory for the message: that is the error */
        return;
    c->failed = true;
    c->cause = CFX__OF_ANYTHING;
    c->error = (cfx_error){.kind = kind, .message = c->message.data};
    c->error.at = at.file ? at : c->at;
    c->error.op = c->op;
    if (getenv("CFX_ABORT"))
        __builtin_trap(); /* for the debugger only: stop where the first error is recorded */
}

void cfx_fail(cfx_error_kind kind, cfx_site at, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    cfx__fail_list(kind, at, "", fmt, ap);
    va_end(ap);
}

void cfx__fail_lines(cfx_error_kind kind, cfx_site at, const char *fmt, ...) {
    cfx__text lines = {0};
    va_list ap;
    va_start(ap, fmt);
    cfx__text_vprintf(&lines, fmt, ap);
    va_end(ap);
    cfx_fail(kind, at, "%s", lines.data);
    cfx__text_release(&lines);
}

static void fail_of(cfx__error_cause cause, cfx_site at, const char *fmt, va_list ap) {
    cfx__context *c = cfx__ctx();
    if (c->failed)
        return;
    cfx__fail_list(CFX_RUNTIME_ERROR, at, "", fmt, ap);
    if (c->error.kind == CFX_RUNTIME_ERROR) /* else there was no memory for the message */
        c->cause = cause;
}

void cfx__fail_unknown(cfx_site at, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fail_of(CFX__OF_UNKNOWN, at, fmt, ap);
    va_end(ap);
}

void cfx__fail_large(cfx_site at, const char *fmt, ...) {
                     va_list ap;
    va_start(ap, fmt);
    fail_of(CFX__OF_LARGE, at, fmt, ap);
    va_end(ap);
}

static bool is_of(cfx__error_cause cause) {
    return cfx__ctx()->failed && cfx__ctx()->cause == cause;
}

bool cfx__error_unknown(void) { return is_of(CFX__OF_UNKNOWN); }
bool cfx__error_large(void) { return is_of(CFX__OF_LARGE); }

void cfx__error_memory(size_t size, bool limited) {
    cfx__context *c = cfx__ctx();
    if (c->failed)
        return;
    if (limited)
        snprintf(c->memory_message, sizeof c->memory_message,
                 "the memory limit of %zu bytes is reached: %zu bytes are held and %zu more were "
                 "asked for", c->memory_limit, cfx_memory_held(), size);
    else
        snprintf(c->memory_message, sizeof c->memory_message,
                 "out of memory: %zu bytes could not be allocated", size);
    c->message.len = c->notes.len = 0;
    c->failed = true;
    c->cause = CFX__OF_ANYTHING;
    c->error = (cfx_error){.kind = CFX_MEMORY_ERROR, .message = c->memory_message, .op = c->op};
}

void cfx_error_note(const char *fmt, ...) {
    cfx__context *c = cfx__ctx();
    if (!c->failed)
        return;
    va_list ap;
    va_start(ap, fmt);
    if (c->notes.len)
        cfx__text_putc(&c->notes, '\n');
    size_t from = c->notes.len;
    cfx__text_vshow(&c->notes, fmt, ap);
    shorten(&c->notes, from);
    va_end(ap);
    c->error.notes = c->notes.data;
}

bool cfx__given(cfx_site at, const void *p, const char *what) {
    if (!p)
        cfx_fail(CFX_TYPE_ERROR, at, "the %s is NULL", what);
    return p != NULL;
}

void cfx_error_clear(void) {
    cfx__context *c = cfx__ctx();
    c->failed = false;
    memset(&c->error, 0, sizeof c->error);
    c->message.len = c->notes.len = 0;
}

bool cfx__error_forgive(void) {
    const cfx__context *c = cfx__ctx();
    if (!c->failed)
        return true;
    if (c->error.kind == CFX_MEMORY_ERROR || c->error.kind == CFX_LIMIT_ERROR)
        return false;
    cfx_error_clear();
    return true;
}

void cfx__error_hold(cfx__error_held *held) {
    cfx__context *c = cfx__ctx();
    *held = (cfx__error_held){c->failed, c->cause, c->error, c->message, c->notes};
    c->failed = false;
    c->error = (cfx_error){0};
    c->message = c->notes = (cfx__text){0};
}

void cfx__error_put_back(cfx__error_held *held) {
    cfx__context *c = cfx__ctx();
    if (!held->failed && c->failed && c->error.kind == CFX_MEMORY_ERROR) {
        cfx__text_release(&held->message); /* what ran meanwhile ran out of memory */
        cfx__text_release(&held->notes);
        return;
    }
    cfx__text_release(&c->message);
    cfx__text_release(&c->notes);
    c->failed = held->failed;
    c->cause = held->cause;
    c->error = held->error;
    c->message = held->message;
    c->notes = held->notes;
}

bool cfx_report(FILE *out) {
    cfx__context *c = cfx__ctx();
    if (!c->failed)
        return true;
    if (c->error.at.file)
        fprintf(out, "%s:%d: ", c->error.at.file, c->error.at.line);
    fprintf(out, "%s: %s\n", cfx_error_kind_name(c->error.kind), c->error.message);
    if (c->error.notes)
        fprintf(out, "%s\n", c->error.notes);
    cfx_error_clear();
    return false;
}
