/* Rule files: what parses is applied to a program. And patterns: the first line is looked for in
 * it, and the second put in the place of what is found. */
#include "fuzz.h"

#include <string.h>

/* A program that holds together still does when it was rewritten. */
static void whole(cfx_program *p, cfx_program *better) {
    bool was = fuzz_fine() && cfx_program_check(p);
    fuzz_fine();
    if (was && !cfx_failed(better) && !cfx_program_check(better) && !fuzz_limited())
        fuzz_wrong("rewritten, the program does not hold together: %s, of\n%s",
                   cfx_error_last()->message, cfx_graph_str(better->module->graph));
    fuzz_fine();
}

static void replace(cfx_program *p, char *text) {
    char *line = strchr(text, '\n');
    if (!line)
        return;
    *line = 0;
    cfx_module *m = cfx_program_module(p);
    cfx_find_pattern(m, (const char *)text);
    fuzz_fine();
    cfx_replace_pattern(m, (const char *)text, (const char *)line + 1);
    if (fuzz_fine())
        cfx_graph_lint(m->graph, m);
    if (!fuzz_fine())
        cfx_module_code(m);
    fuzz_fine();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const programs[] = {"tests/data/zoo/seed_mlp/model.pt2",
                                           "tests/data/zoo/dyn_conv/model.pt2",
                                           "tests/data/zoo/index_zoo/model.pt2"};
    static char text[1 << 14];
    fuzz_begin();
    size = size < sizeof text - 1 ? size : sizeof text - 1;
    memcpy(text, data, size);
    text[size] = 0;
    cfx_rules *rules = cfx_rules_parse(text, "fuzz.rules");
    bool fine = fuzz_fine();
    if (cfx_failed(rules) && fine)
        fuzz_wrong("neither rules nor an error");
    for (int i = 0; !cfx_failed(rules) && i < 3; i++) {
        cfx_program *p = cfx_open(fuzz_file(programs[i]));
        cfx_program *better = cfx_rewrite(p, rules, NULL);
        bool made = fuzz_fine();
        if (made)
            whole(p, better);
        if (made)
            cfx_program_str(better);
        fuzz_fine();
    }
    replace(cfx_open(fuzz_file(programs[size % 3])), text);
    return fuzz_end();
}
