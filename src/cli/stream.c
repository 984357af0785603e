/* "-" where a file stands: stdin or stdout; "-.onnx" is stdout and tells what is written,
 * "-:f32[3]" stdin and what it holds. Files are mapped, and written whole or not at all, so what
 * comes is put into a file first, and what goes is written to one and copied at the end. */
#define _GNU_SOURCE
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tensor/tensor.h"

/* Options that name a file to write, and what such a file is called. */
static const struct {
    const char *option, *suffix;
} outputs[] = {{"-o", ".pt2"},
               {"--save", ".safetensors"},
               {"--save-taps", ".safetensors"},
               {"--profile", ".json"},
               {"--memory", ".svg"}};

static struct {
    char *folder, *path; /* of the file that goes to stdout; NULL: none does */
    char *taken;         /* the path of what came from stdin; NULL: it was not read */
} streams;

static bool copy(int from, int to) {
    char block[1 << 16];
    for (;;) {
        ssize_t n = read(from, block, sizeof block);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0;
        for (ssize_t at = 0; at < n;) {
            ssize_t done = write(to, block + at, (size_t)(n - at));
            if (done < 0 && errno != EINTR)
                return false;
            at += done > 0 ? done : 0;
        }
    }
}

static const char *temporary(void) {
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

static char *failed(const char *what) {
    cli_wrong("%s: %s", what, strerror(errno));
    return NULL;
}

/* A path to what stdin holds; the file has no name any more. NULL, with words. */
static char *taken(void) {
    if (streams.taken) {
        cli_wrong("stdin can be read once only");
        return NULL;
    }
    char *name = NULL;
    if (asprintf(&name, "%s/cfx-XXXXXX", temporary()) < 0)
        return failed("stdin");
    const int fd = mkstemp(name);
    if (fd >= 0)
        unlink(name);
    free(name);
    if (fd < 0 || !copy(STDIN_FILENO, fd) || asprintf(&streams.taken, "/dev/fd/%d", fd) < 0)
        return failed("cannot keep what comes from stdin");
    return streams.taken;
}

/* Whether a command writes one file alone; else words. */
static bool is_one(const char *command, const char *suffix) {
    const char *why = NULL;
    if (!strcmp(command, "compile"))
        why = "C is two files, .c and .h; 'cfx show MODEL --as c' prints it";
    else if (!strcmp(command, "split"))
        why = "stages are a folder of files";
    else if (!strcmp(suffix, ".fx"))
        why = "a .fx has its tensors in a file beside it";
    if (why)
        cli_wrong("it cannot go to stdout: %s", why);
    return !why;
}

/* A path that is copied to stdout at the end, where words do not go then. NULL, with words. */
static char *given(const char *command, const char *suffix) {
    if (!is_one(command, suffix))
        return NULL;
    if (streams.path) {
        cli_wrong("one file only can go to stdout");
        return NULL;
    }
    if (asprintf(&streams.folder, "%s/cfx-XXXXXX", temporary()) < 0 ||
        !mkdtemp(streams.folder) || asprintf(&streams.path, "%s/out%s", streams.folder, suffix) < 0)
        return failed("cannot keep what goes to stdout");
    cli_output_aside();
    return streams.path;
}

/* What the value of an option goes to; NULL: it is read. */
static const char *suffix_of(const char *command, const char *option, size_t len) {
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        if (strlen(outputs[i].option) == len && !strncmp(outputs[i].option, option, len))
            return !strcmp(command, "draw") && !strcmp(outputs[i].option, "-o") ? ".svg"
                                                                                : outputs[i].suffix;
    return NULL;
}

/* What stands behind "-" in the name of a stream; NULL: it names none. */
static const char *behind(const char *name, bool written) {
    const char *rest = name[0] == '-' ? name + 1 : NULL;
    return rest && (!*rest || *rest == (written ? '.' : ':')) ? rest : NULL;
}

bool cli_streams_begin(int argc, char **argv) {
    for (int i = 2; i < argc; i++) {
        const char *equals = strrchr(argv[i], '='); /* "--save=-" and "NAME=-" */
        const size_t len = equals ? (size_t)(equals - argv[i]) : strlen(argv[i - 1]);
        const char *option = equals ? argv[i] : argv[i - 1];
        const char *suffix = suffix_of(argv[1], option, len);
        const char *rest = behind(equals ? equals + 1 : argv[i], suffix != NULL);
        if (!rest)
            continue;
        const char *path = suffix ? given(argv[1], *rest ? rest : suffix) : taken();
        if (!path)
            return false;
        if (asprintf(&argv[i], "%.*s%s%s%s", equals ? (int)len : 0, option, equals ? "=" : "", path,
                     suffix ? "" : rest) < 0)
            return false;
    }
    return true;
}

/* Adds a text with every `path` in it as `name`. */
static void put_renamed(cfx__text *out, const char *text, const char *path, const char *name) {
    for (const char *at; path && (at = strstr(text, path)); text = at + strlen(path)) {
        cfx__text_printf(out, "%.*s", (int)(at - text), text);
        cfx__text_puts(out, name);
    }
    cfx__text_puts(out, text);
}

const char *cli_streams_named(const char *text) {
    if (!streams.taken && !streams.path)
        return text;
    cfx__text first = {0}, second = {0};
    put_renamed(&first, text, streams.taken, "stdin");
    put_renamed(&second, first.data ? first.data : "", streams.path, "stdout");
    cfx__text_release(&first);
    return cfx__text_take(&second);
}

int cli_streams_end(int code) {
    if (!streams.path)
        return code;
    size_t size = 0; /* what could not be written is not there, and was told */
    const int fd = access(streams.path, F_OK) ? -1 : cfx__file_open(streams.path, &size);
    errno = 0;
    const bool sent = fd < 0 || copy(fd, STDOUT_FILENO);
    if (!sent && errno == EPIPE)
        cli_output_close();
    else if (!sent)
        failed("cannot write the output");
    if (fd >= 0)
        close(fd);
    unlink(streams.path);
    rmdir(streams.folder);
    return sent ? code : CLI_TROUBLE;
}
