/* What the command prints. What files say goes to terminals, which obey some characters, and to
 * scripts, which take lines apart. Here, so that no subcommand has to think of it: such characters
 * are written as escapes, and a text that is a part of a line stays on its line. */
#define _GNU_SOURCE /* fopencookie */
#include "../base/base.h"
#include "cli.h"

#include <errno.h>
#include <unistd.h>

/* Bytes that came and were not written yet: of a character whose others are to come. */
static struct {
    char bytes[4];
    size_t n;
} begun;

static int written_to = STDOUT_FILENO;
static bool closed; /* the pipe that stdout is has no reader any more */

typedef struct {
    char bytes[4096];
    size_t n;
    bool lost;
} block;

static void write_block(block *b) {
    for (size_t at = 0; at < b->n && !b->lost;) {
        ssize_t done = write(written_to, b->bytes + at, b->n - at);
        at += done > 0 ? (size_t)done : 0;
        b->lost = done == 0 || (done < 0 && errno != EINTR);
        closed |= b->lost && errno == EPIPE;
    }
    b->n = 0;
}

/* Whether more bytes belong to the character that begins so. */
static bool is_part(void) {
    unsigned char first = (unsigned char)begun.bytes[0];
    size_t n = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    return begun.n < n;
}

static void put_begun(block *b, bool last) {
    while (begun.n && (last || !is_part())) {
        if (b->n + CFX__SHOWN > sizeof b->bytes)
            write_block(b);
        size_t n = cfx__utf8_show(begun.bytes, begun.n, b->bytes + b->n);
        b->n += strlen(b->bytes + b->n);
        begun.n -= n;
        memmove(begun.bytes, begun.bytes + n, begun.n);
    }
}

/* How many characters of ASCII there are in a row that any terminal may have. */
static size_t plain(const char *text, size_t n) {
    size_t i = 0;
    while (i < n && ((text[i] >= ' ' && text[i] < 0x7f) || text[i] == '\n'))
        i++;
    return i;
}

static ssize_t put(void *unused, const char *text, size_t n) {
    (void)unused;
    block b = {.n = 0};
    for (size_t i = 0; i < n && !b.lost;) {
        if (b.n == sizeof b.bytes)
            write_block(&b);
        size_t room = sizeof b.bytes - b.n, left = n - i < room ? n - i : room;
        size_t row = begun.n ? 0 : plain(text + i, left);
        memcpy(b.bytes + b.n, text + i, row);
        b.n += row;
        i += row;
        if (row)
            continue;
        begun.bytes[begun.n++] = text[i++];
        put_begun(&b, false);
    }
    write_block(&b);
    return b.lost ? 0 : (ssize_t)n;
}

static int end(void *unused) {
    (void)unused;
    block b = {.n = 0};
    put_begun(&b, true);
    write_block(&b);
    return b.lost ? EOF : 0;
}

void cli_output_begin(void) {
    FILE *out = fopencookie(NULL, "w", (cookie_io_functions_t){.write = put, .close = end});
    if (!out)
        return;
    setvbuf(out, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    stdout = out;
}

bool cli_output_closed(void) { return closed; }
void cli_output_close(void) { closed = true; }

void cli_output_aside(void) { written_to = STDERR_FILENO; }

/* ---- lines ----------------------------------------------------------------------------------- */

static void put_list(FILE *out, const char *fmt, va_list ap) {
    cfx__text t = {0};
    cfx__text_vshow(&t, fmt, ap);
    CFX_SCOPE fputs(cli_streams_named(t.data ? t.data : ""), out);
    cfx__text_release(&t);
}

void cli_print(const char *fmt, ...) {
    va_list ap;
    if (cli_answers())
        return;
    va_start(ap, fmt);
    put_list(stdout, fmt, ap);
    va_end(ap);
}

void cli_lines(const char *text) {
    if (cli_answers())
        return;
    fputs(text, stdout);
    fputc('\n', stdout);
}

void cli_say(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    put_list(stderr, fmt, ap);
    va_end(ap);
}

/* ---- terminals ------------------------------------------------------------------------------- */

/* Goes past the stream, which would write it as the escape that it is. */
void cli_dim(bool on) {
    if (!isatty(STDOUT_FILENO) || getenv("NO_COLOR"))
        return;
    fflush(stdout);
    (void)!write(STDOUT_FILENO, on ? "\033[2m" : "\033[0m", 4);
}

void cli_progress(const char *what, int64_t done, int64_t all) {
    enum { BAR = 24 };
    int full = all > 0 ? (int)(BAR * done / all) : 0;
    if (!isatty(STDERR_FILENO))
        return;
    fputs("\r\033[K", stderr);
    cli_say("[%.*s%.*s] %lld of %lld: %.40s", full, "########################", BAR - full,
            "                        ", (long long)done, (long long)all, what);
}

void cli_progress_end(void) {
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Results that did not get to where they should go are no results, whatever the subcommand says. */
int cli_output_end(int code) {
    errno = 0;
    bool lost = ferror(stdout) != 0;
    lost |= fclose(stdout) != 0;
    if (!lost)
        return code;
    if (!closed) /* nobody reads on: no more was wanted */
        fprintf(stderr, "cfx: cannot write the output: %s\n",
                errno ? strerror(errno) : "the output is full or closed");
    return CLI_TROUBLE;
}
