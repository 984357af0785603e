/* "-" where a file stands: stdin or stdout. Files are mapped, and written whole or not at all, so
 * what comes is put into a file first, and what goes is written to one and copied at the end. */
#define _GNU_SOURCE
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/base.h"

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
    bool read;           /* stdin was taken already */
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
    cli_say("cfx: %s: %s\n", what, strerror(errno));
    return NULL;
}

/* A path to what stdin holds; the file has no name any more. NULL, with words. */
static char *taken(void) {
    if (streams.read) {
        cli_say("cfx: stdin can be read once only\n");
        return NULL;
    }
    streams.read = true;
    char *path = NULL, *name = NULL;
    if (asprintf(&name, "%s/cfx-XXXXXX", temporary()) < 0)
        return failed("stdin");
    const int fd = mkstemp(name);
    if (fd >= 0)
        unlink(name);
    free(name);
    if (fd < 0 || !copy(STDIN_FILENO, fd) || asprintf(&path, "/dev/fd/%d", fd) < 0)
        return failed("cannot keep what comes from stdin");
    return path;
}

/* A path that is copied to stdout at the end. NULL, with words. */
static char *given(const char *suffix) {
    if (streams.path) {
        cli_say("cfx: one file only can go to stdout\n");
        return NULL;
    }
    if (asprintf(&streams.folder, "%s/cfx-XXXXXX", temporary()) < 0 ||
        !mkdtemp(streams.folder) || asprintf(&streams.path, "%s/out%s", streams.folder, suffix) < 0)
        return failed("cannot keep what goes to stdout");
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

bool cli_streams_begin(int argc, char **argv) {
    for (int i = 2; i < argc; i++) {
        const char *equals = strrchr(argv[i], '='); /* "--save=-" and "NAME=-" */
        const size_t len = equals ? (size_t)(equals - argv[i]) : strlen(argv[i - 1]);
        const char *option = equals ? argv[i] : argv[i - 1];
        if (strcmp(equals ? equals + 1 : argv[i], "-"))
            continue;
        const char *suffix = suffix_of(argv[1], option, len);
        char *path = suffix ? given(suffix) : taken();
        if (!path)
            return false;
        if (!equals) {
            argv[i] = path;
            continue;
        }
        const bool made = asprintf(&argv[i], "%.*s=%s", (int)len, option, path) >= 0;
        if (!suffix)
            free(path);
        if (!made)
            return false;
    }
    return true;
}

int cli_streams_end(int code) {
    if (!streams.path)
        return code;
    const int fd = open(streams.path, O_RDONLY);
    errno = 0;
    const bool sent = fd < 0 || copy(fd, STDOUT_FILENO);
    if (!sent && errno != EPIPE)
        failed("cannot write the output");
    if (fd >= 0)
        close(fd);
    unlink(streams.path);
    rmdir(streams.folder);
    return sent ? code : CLI_TROUBLE;
}
