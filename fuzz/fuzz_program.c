/* Random programs that are well typed, run in every way: tests/programs.h. The input is the seed of
 * one, so listing (-each A B) is the way to search. With CFX_PROGRAMS_CC="cc -O1" programs are
 * compiled to C instead, built by that command and run. */
#include "fuzz.h"
#include "programs.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static program_counts counts;
    uint64_t seed = 0;
    counts.compiler = getenv("CFX_PROGRAMS_CC");
    memcpy(&seed, data, size < sizeof seed ? size : sizeof seed);
    program_finding f = programs_check(seed, &counts);
    if (f.any)
        fuzz_wrong("seed %llu: %s", (unsigned long long)seed, f.text);
    return fuzz_end();
}

size_t fuzz_listed(uint64_t i, uint8_t to[FUZZ_LISTED]) {
    memcpy(to, &i, sizeof i);
    return sizeof i;
}
