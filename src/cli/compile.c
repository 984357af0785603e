/* cfx compile: a program as C. */
#include "library.h"
#include "look.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cfx/compile.h>

extern char **environ;

static const char help[] =
    "usage: cfx compile MODEL -o OUT.c [--name NAME] [--weights inline|file] [--size S=N]...\n"
    "                   [--inputs F] [--bf16] [--tap SELECTOR]... [--test] [--main]\n"
    "                   [--threads] [--library] [--every-size]\n\n"
    "Writes a program as C11 without runtime, heap or any library but libm: OUT.c, and OUT.h for\n"
    "its callers. The caller provides an arena, whose size is in the header; the code has no\n"
    "other state, so many threads may call it.\n"
    "  --name NAME      prefix of all symbols; by default the name of OUT\n"
    "  --weights inline weights are arrays in OUT.c; the default up to 1 MB\n"
    "  --weights file   weights are in OUT.bin, to be read, mapped or flashed; the default above\n"
    "  --size s0=8      fixes a dynamic size; s0=2:64 gives its range. Dynamic sizes are checked\n"
    "                   parameters of NAME_run; the arena is sized for the largest. An unbounded\n"
    "                   size ends at four times the sample's, at least 64\n"
    "  --every-size     verifies the source at every dynamic size, however long that takes; by\n"
    "                   default at some hundred (the header has the count)\n"
    "  --bf16           stores weights of products in bfloat16: half the bytes\n"
    "  --inputs F       the sample inputs, instead of those saved in the program\n"
    "  --test           adds NAME_test, which runs the sample inputs and compares the results\n"
    "  --main           adds main, which reads one raw file for each input, in order, and writes\n"
    "                   the raw results, in order, to stdout\n"
    "  --tap SELECTOR   adds the values of nodes to the results; selected as for cfx run --tap;\n"
    "                   may be given more than once\n"
    "  --threads        parallelises loops by OpenMP (compile with -fopenmp)\n"
    "  --library        also builds OUT.so with cc; 'cfx run OUT.so --inputs F' runs it\n\n"
    "If nodes have no form in C, each is listed with the reason, and nothing is written.\n\n"
    "Exit: 0 done, 2 error.\n";

/* "model" of "build/model.c"; scope. */
static const char *stem_of(const char *path) {
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    const char *dot = strrchr(base, '.');
    return cfx__text_format("%.*s", (int)(dot ? dot - base : (ptrdiff_t)strlen(base)), base);
}

static bool read_weights(const char *word, cfx_compile_weights *to) {
    static const char *const names[] = {"inline", "file"};
    const int i = word ? cli_one_of(&cli_compile, "--weights", word, names, COUNT(names)) : -1;
    if (i >= 0)
        *to = i ? CFX_WEIGHTS_FILE : CFX_WEIGHTS_INLINE;
    return !word || i >= 0;
}

bool cli_cc(const char *const *words, const char *to) {
    pid_t child;
    int status = 0;
    const int failed = posix_spawnp(&child, "cc", NULL, NULL, (char *const *)words, environ);
    if (failed) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "cc cannot be started: %s", strerror(failed));
        return false;
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "cc did not build '%s'", to);
        return false;
    }
    return true;
}

/* Builds the shared object beside a C file; false, with an error. */
static bool build(const char *source, bool threads) {
    const char *to = cfx__text_format("%.*s.so", (int)strlen(source) - 2, source);
    const char *from = source[0] == '-' ? cfx__text_format("./%s", source) : source;
    const char *words[] = {"cc",
                           "-O3",
                           "-march=native",
                           "-shared",
                           "-fPIC",
                           "-o",
                           to,
                           from,
                           "-lm",
                           threads ? "-fopenmp" : NULL,
                           NULL};
    return cli_cc(words, to);
}

/* Whether one of the files that may be written is one that is read; with an error. */
static bool writes_over(const char *read, const char *out, const cfx_compile_options *o) {
    const char *const suffixes[] = {".c", ".h", o->weights == CFX_WEIGHTS_INLINE ? NULL : ".bin",
                                    o->library ? ".so" : NULL};
    struct stat from, to;
    const size_t len = strlen(out);
    if (!read || len < 2 || stat(read, &from) != 0)
        return false;
    for (int i = 0; i < COUNT(suffixes); i++) {
        const char *path =
            suffixes[i] ? cfx__text_format("%.*s%s", (int)len - 2, out, suffixes[i]) : "";
        if (*path && !stat(path, &to) && from.st_dev == to.st_dev && from.st_ino == to.st_ino) {
            cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' is read, and would be written over",
                     path);
            return true;
        }
    }
    return false;
}

static int run(int argc, char **argv) {
    const char *model = NULL, *out = NULL, *weights = NULL, *inputs = NULL;
    cfx_compile_options o = {.inputs = cfx_none()};
    const char *size = NULL, *tap = NULL;
    cli_words w = {argc, argv, .command = &cli_compile};
    while (cli_more(&w))
        if (cli_value(&w, "--size", &size))
            o.sizes = o.sizes ? cfx__text_format("%s %s", o.sizes, size) : size;
        else if (cli_value(&w, "--tap", &tap))
            o.taps = o.taps ? cfx__text_format("%s\n%s", o.taps, tap) : tap;
        else if (!cli_value(&w, "-o", &out) && !cli_value(&w, "--name", &o.name) &&
                 !cli_value(&w, "--weights", &weights) && !cli_tensors(&w, "--inputs", &inputs) &&
                 !cli_flag(&w, "--library", &o.library) && !cli_flag(&w, "--bf16", &o.bf16) &&
                 !cli_flag(&w, "--test", &o.test) && !cli_flag(&w, "--main", &o.main) &&
                 !cli_flag(&w, "--threads", &o.threads) &&
                 !cli_flag(&w, "--every-size", &o.every_size))
            cli_rest(&w, &model);
    if (w.wrong)
        return CLI_TROUBLE;
    if (!model || !out)
        return cli_usage(&cli_compile, model ? "-o which file?" : "which MODEL?");
    if (!read_weights(weights, &o.weights))
        return CLI_TROUBLE;
    if (!o.name)
        o.name = stem_of(out);
    cfx_program *p = cfx_open(model);
    cfx_value flat = cfx_list_value(0, NULL);
    if (cfx_ok() && cli_choose_inputs(p, inputs, cfx_as_list(flat)))
        o.inputs = flat;
    const size_t len = strlen(out);
    if (o.library && len > 3 && !strcmp(out + len - 3, ".so"))
        out = cfx__text_format("%.*s.c", (int)len - 3, out);
    if (!cfx_ok() || writes_over(model, out, &o) || writes_over(inputs, out, &o) ||
        !cfx_compile_c(p, &o, out) || (o.library && !build(out, o.threads)))
        return cli_trouble();
    cli_wrote(out, p);
    return CLI_DONE;
}

const cli_command cli_compile = {"compile", run, "write a program as one C file",
                                 help};
