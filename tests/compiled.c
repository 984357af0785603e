/* Random programs as C: each is compiled to a shared object, built by the machine's compiler and
 * run in this process. Start at compiled_check. */
#include "compiled.h"

#include <cfx/compile.h>

#include "cli/library.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A path of this process's own; scope. */
static const char *own_path(const char *suffix) {
    const char *folder = getenv("TMPDIR");
    return cfx__text_format("%s/cfx_compiled_%d%s", folder ? folder : "/tmp", (int)getpid(),
                            suffix);
}

/* The caller's inputs by the names that a compiled program has for them. */
static cfx_dict *named(cfx_value inputs) {
    cfx_dict *given = cfx_dict_new();
    for (int64_t i = 0; i < cfx_as_list(inputs)->len; i++)
        cfx_dict_set(given, cfx__text_format("in%d", (int)i), cfx_as_list(inputs)->items[i]);
    return given;
}

/* Whether the text was built as it stands; a compiler that has something to say is a finding. */
static bool is_built(subject *s, const char *way) {
    const char *source = own_path(".c"), *words = own_path(".txt");
    const char *command = cfx__text_format("%s -shared -fPIC -o %s %s -lm 2> %s",
                                           s->counts->compiler, own_path(".so"), source, words);
    const bool fine = system(command) == 0;
    if (!fine) {
        char text[2000] = "";
        FILE *f = fopen(words, "r");
        const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
        text[n] = 0;
        if (f)
            fclose(f);
        agree_found(s, "%s is not built: %s", way, text);
    }
    return fine;
}

/* Results alone: what a compiled program writes to is its own. */
static void compare(subject *s, cfx_value results, const char *way) {
    outcome o = eager_outcome(results, cfx_list_value(0, NULL), cfx_dict_new());
    const int64_t own = s->first.ran ? s->first.leaves->len - s->drawn->state->len -
                                           cfx_as_list(s->drawn->inputs)->len
                                     : 0;
    if (!o.ran && (strstr(o.why, "out of its range") || strstr(o.why, "that it is not for")))
        return; /* other sizes than it was made for */
    if (o.ran && o.leaves->len < own) {
        agree_found(s, "%s has %d results, not %d", way, (int)o.leaves->len, (int)own);
        return;
    }
    cfx_list *leaves = cfx_as_list(cfx_list_value(o.ran ? own : 0, o.leaves->items));
    for (int64_t i = own; s->first.ran && i < s->first.leaves->len; i++)
        cfx_list_append(leaves, s->first.leaves->items[i]);
    o.leaves = leaves;
    agree_on(s, &o, way);
}

void compiled_check(subject *s, cfx_program *p, const char *way) {
    static const char *const suffixes[] = {".c", ".h", ".so", ".txt"};
    const cfx_compile_options how = {.name = "drawn", .weights = CFX_WEIGHTS_INLINE,
                                     .library = true};
    if (cfx_compile_c(p, &how, own_path(".c"))) {
        s->counts->built++;
        if (is_built(s, way))
            compare(s, cli_library_run(own_path(".so"), named(s->drawn->inputs)), way);
        s->last = s->found.any ? p : s->last;
    }
    cfx_error_clear(); /* it has no form in C */
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        unlink(own_path(suffixes[i]));
}
