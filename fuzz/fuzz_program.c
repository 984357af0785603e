/* Random programs that are well typed, run in every way: tests/programs.h. The input is the seed of
 * one, so listing (-each A B) is the way to search, and -on goes on behind what is found. With
 * CFX_PROGRAMS_FEW=1 each is run in a few of the ways, which its seed chooses, for many programs;
 * with CFX_PROGRAMS_CC="cc -O1" programs are compiled to C instead, built by that command and run.
 * At the end it tells how often each way was gone. */
#include "fuzz.h"
#include "programs.h"

#include <stdlib.h>
#include <string.h>

static program_counts here, *counts = &here;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t seed = 0;
    counts->compiler = getenv("CFX_PROGRAMS_CC");
    counts->few = getenv("CFX_PROGRAMS_FEW") != NULL;
    memcpy(&seed, data, size < sizeof seed ? size : sizeof seed);
    program_finding f = programs_check(seed, counts);
    if (f.any)
        fuzz_wrong("seed %llu: %s", (unsigned long long)seed, f.text);
    return fuzz_end();
}

size_t fuzz_listed(uint64_t i, uint8_t to[FUZZ_LISTED]) {
    memcpy(to, &i, sizeof i);
    return sizeof i;
}

void fuzz_start(void) { counts = fuzz_shared(sizeof *counts); }

void fuzz_report(void) {
    printf("%ld programs, %ld ran, %ld refused, %ld exported, %ld comparisons\n", counts->drawn,
           counts->ran, counts->refused, counts->exported, counts->compared);
    for (int i = 0; i < counts->n_ways; i++)
        printf("%8ld programs %9ld comparisons  %s\n", counts->ways[i].programs,
               counts->ways[i].compared, counts->ways[i].name);
}
