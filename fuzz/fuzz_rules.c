/* Rule files: what parses is applied to a program. */
#include "fuzz.h"

#include <string.h>

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
    for (int i = 0; rules && i < 3; i++) {
        cfx_program *p = cfx_open(programs[i]);
        cfx_program *better = cfx_rewrite(p, rules, NULL);
        if (fuzz_fine())
            cfx_program_str(better);
        fuzz_fine();
    }
    return fuzz_end();
}
