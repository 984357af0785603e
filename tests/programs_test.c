/* Random programs agree with themselves, however they are run. */
#include "programs.h"

#include "test.h"

TEST(random_programs_compute_the_same_in_every_way) {
    program_counts c = {0};
    for (uint64_t seed = 1; seed <= 400; seed++) {
        program_finding f = programs_check(seed, &c);
        if (f.any)
            test_fail(CFX_HERE, "seed %d: %s", (int)seed, f.text);
    }
    CHECK(c.ran > 300 && c.exported > 300);
}
