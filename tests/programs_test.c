/* Random programs agree with themselves, however they are run. */
#include "programs.h"

#include "test.h"

/* What a search found once (fuzz/fuzz_program.c), and was mended. */
TEST(random_programs_that_once_differed_agree) {
    static const uint64_t seeds[] = {1000857, 1001084, 1004699, 1005953, 1007013, 1011365,
                                     1011853, 1016368, 1021396, 1035961, 1038713, 1046060,
                                     30616185, 30617961, 31602388, 60038699,
                                     100000069, 100000170, 100000386, 100000444, 100001104,
                                     100002494, 100144243, 102002104,
                                     111001438, 103007165, 200000925, 200005249,
                                     200005784, 200025677, 200032412, 200002381,
                                     200000253, 500001741, 200018155, 700001081, 710003393,
                                     750000264, 760001919, 820377465, 1000003633, 1076000003,
                                     81594292, 83189084984, 83189086854, 85161129833,
                                     85161135357, 85165293916, 85169445449,
                                     200000002442, 200000002804, 200000503644, 300000001557,
                                     300000011924, 400000001207};
    program_counts c = {0};
    for (int i = 0; i < (int)(sizeof seeds / sizeof *seeds); i++) {
        program_finding f = programs_check(seeds[i], &c);
        if (f.any)
            test_fail(CFX_HERE, "seed %llu: %s", (unsigned long long)seeds[i], f.text);
    }
    CHECK_INT(c.drawn, (int)(sizeof seeds / sizeof *seeds));
}

TEST(random_programs_compute_the_same_in_every_way) {
    program_counts c = {0};
    for (uint64_t seed = 1; seed <= 400; seed++) {
        program_finding f = programs_check(seed, &c);
        if (f.any)
            test_fail(CFX_HERE, "seed %d: %s", (int)seed, f.text);
    }
    CHECK(c.ran > 300 && c.exported > 300);
}

TEST(wide_random_programs_compute_the_same_in_every_way) {
    program_counts c = {0};
    for (uint64_t seed = PROGRAMS_WIDE; seed < PROGRAMS_WIDE + 400; seed++) {
        program_finding f = programs_check(seed, &c);
        if (f.any)
            test_fail(CFX_HERE, "seed %d: %s", (int)seed, f.text);
    }
    CHECK(c.ran > 300 && c.exported > 300 && c.resized > 50);
}

TEST(deep_random_programs_compute_the_same_in_every_way) {
    program_counts c = {0};
    for (uint64_t seed = PROGRAMS_DEEP; seed < PROGRAMS_DEEP + 300; seed++) {
        program_finding f = programs_check(seed, &c);
        if (f.any)
            test_fail(CFX_HERE, "seed %d: %s", (int)seed, f.text);
    }
    CHECK(c.ran > 200 && c.exported > 200);
}

TEST(fitted_random_programs_compute_the_same_in_every_way) {
    program_counts c = {0};
    for (uint64_t seed = PROGRAMS_FITTED; seed < PROGRAMS_FITTED + 300; seed++) {
        program_finding f = programs_check(seed, &c);
        if (f.any)
            test_fail(CFX_HERE, "seed %llu: %s", (unsigned long long)seed, f.text);
    }
    CHECK(c.ran > 200 && c.exported > 200);
}

TEST(varied_random_programs_compute_the_same_in_every_way) {
    program_counts c = {0};
    for (uint64_t seed = PROGRAMS_VARIED; seed < PROGRAMS_VARIED + 200; seed++) {
        program_finding f = programs_check(seed, &c);
        if (f.any)
            test_fail(CFX_HERE, "seed %llu: %s", (unsigned long long)seed, f.text);
    }
    CHECK(c.ran > 150 && c.exported > 150 && c.resized > 50);
}

TEST(large_random_programs_compute_the_same_in_a_few_ways) {
    program_counts c = {.few = true};
    for (uint64_t seed = PROGRAMS_LARGE; seed < PROGRAMS_LARGE + 80; seed++) {
        program_finding f = programs_check(seed, &c);
        if (f.any)
            test_fail(CFX_HERE, "seed %llu: %s", (unsigned long long)seed, f.text);
    }
    CHECK(c.ran > 50 && c.exported > 50);
}

/* As C, built by the machine's compiler: some, since each costs a tenth of a second. */
TEST(random_programs_compute_the_same_as_c) {
    program_counts c = {.compiler = "cc -O1"};
    for (uint64_t seed = PROGRAMS_WIDE; seed < PROGRAMS_WIDE + 12; seed++) {
        program_finding f = programs_check(seed, &c);
        if (f.any)
            test_fail(CFX_HERE, "seed %d: %s", (int)seed, f.text);
    }
    static const uint64_t once[] = {300000731, 300000810, 310000003, 1500000028, 1500000102,
                                     1700000118};
    for (int i = 0; i < (int)(sizeof once / sizeof *once); i++) {
        program_finding f = programs_check(once[i], &c);
        if (f.any)
            test_fail(CFX_HERE, "seed %d: %s", (int)once[i], f.text);
    }
    CHECK(c.built > 6);
}
