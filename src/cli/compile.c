/* cfx compile: a program as C. */
#include "look.h"

#include <cfx/compile.h>

static const char help[] =
    "usage: cfx compile MODEL -o OUT.c [--name NAME] [--weights inline|file] [--inputs F]\n"
    "                   [--test] [--main] [--threads]\n"
    "\n"
    "Writes a program as C11 that computes it with no runtime, no heap and no library but libm:\n"
    "OUT.c, and OUT.h for its callers. What it is given is an arena of a size that the header\n"
    "tells; nothing else is kept or changed, so that many threads may call it.\n"
    "  --name NAME      what every symbol begins with; the name of OUT otherwise\n"
    "  --weights inline weights are arrays of OUT.c; the default up to 1 MB\n"
    "  --weights file   they lie in OUT.bin, to be read, mapped or flashed; the default for more\n"
    "  --inputs F       inputs whose sizes the code is for, instead of the program's samples\n"
    "  --test           adds NAME_test: runs the sample inputs and compares the results\n"
    "  --main           adds main: takes one raw file for each input, in order, and writes the\n"
    "                   raw results, in order, to stdout\n"
    "  --threads        loops are split by OpenMP (compile with -fopenmp)\n"
    "\n"
    "A program with nodes that have no form in C is refused, each with the reason, before\n"
    "anything is written.\n"
    "\n"
    "Exit: 0 done, 2 trouble.\n";

/* "model" of "build/model.c"; scope. */
static const char *stem_of(const char *path) {
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    const char *dot = strrchr(base, '.');
    return cfx__text_format("%.*s", (int)(dot ? dot - base : (ptrdiff_t)strlen(base)), base);
}

static bool read_weights(const char *word, cfx_compile_weights *to) {
    if (!word)
        return true;
    *to = !strcmp(word, "inline") ? CFX_WEIGHTS_INLINE : CFX_WEIGHTS_FILE;
    return *to == CFX_WEIGHTS_INLINE || !strcmp(word, "file");
}

static int run(int argc, char **argv) {
    const char *model = NULL, *out = NULL, *weights = NULL, *inputs = NULL;
    cfx_compile_options o = {.inputs = cfx_none()};
    cli_words w = {argc, argv, .command = &cli_compile};
    while (cli_more(&w))
        if (!cli_value(&w, "-o", &out) && !cli_value(&w, "--name", &o.name) &&
            !cli_value(&w, "--weights", &weights) && !cli_tensors(&w, "--inputs", &inputs) &&
            !cli_flag(&w, "--test", &o.test) && !cli_flag(&w, "--main", &o.main) &&
            !cli_flag(&w, "--threads", &o.threads))
            cli_rest(&w, &model);
    if (w.wrong)
        return CLI_TROUBLE;
    if (!model || !out)
        return cli_usage(&cli_compile, model ? "-o which file?" : "which MODEL?");
    if (!read_weights(weights, &o.weights))
        return cli_usage(&cli_compile, "--weights is inline or file, not '%s'", weights);
    if (!o.name)
        o.name = stem_of(out);
    cfx_program *p = cfx_open(model);
    cfx_value flat = cfx_list_value(0, NULL);
    if (cfx_ok() && cli_choose_inputs(p, inputs, cfx_as_list(flat)))
        o.inputs = flat;
    return cfx_ok() && cfx_compile_c(p, &o, out) ? CLI_DONE : cli_trouble();
}

const cli_command cli_compile = {"compile", run, "write a program as C, which needs nothing else",
                                 help};
