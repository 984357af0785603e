/* Cores: quotas of cgroups, and which core a helper gets. */
#define _GNU_SOURCE /* cpu_set_t */
#include "test.h"

#include "cores.h"

TEST(a_quota_is_worth_threads) {
    CHECK_INT(cfx__cores_of_quota("max 100000\n"), 0);
    CHECK_INT(cfx__cores_of_quota("200000 100000\n"), 2);
    CHECK_INT(cfx__cores_of_quota("150000 100000\n"), 2);
    CHECK_INT(cfx__cores_of_quota("1000 100000\n"), 1);
    CHECK_INT(cfx__cores_of_quota("-1 100000\n"), 0);
    CHECK_INT(cfx__cores_of_quota(""), 0);
    CHECK_INT(cfx__cores_of_quota("100000"), 0);
}

TEST(the_cores_allowed_are_those_of_the_mask) {
    const cfx__cores c = cfx__cores_allowed();
    CHECK(c.n >= 1 && c.n <= CPU_COUNT(&c.set));
    CHECK(CPU_ISSET(cfx__core_now(), &c.set));
    CHECK(cfx__cores_worth() >= 1);
}

/* Cores that this machine need not have: then each is hardware of its own. */
TEST(a_free_core_is_another_than_the_callers) {
    cfx__cores c = {.n = 3};
    cpu_set_t taken;
    CPU_ZERO(&c.set);
    CPU_ZERO(&taken);
    CPU_SET(1000, &c.set);
    CPU_SET(1004, &c.set);
    CPU_SET(1010, &c.set);
    CHECK_INT(cfx__core_free(&c, &taken, 1000), 1004);
    CHECK_INT(cfx__core_free(&c, &taken, 1010), 1000);
    CPU_SET(1000, &taken);
    CHECK_INT(cfx__core_free(&c, &taken, 1010), 1004);
    CPU_SET(1004, &taken);
    CHECK_INT(cfx__core_free(&c, &taken, 1010), -1);
    CHECK_INT(cfx__core_free(&c, &taken, -1), 1010); /* where the caller is, is not known */
    CPU_ZERO(&c.set); /* the system does not tell */
    CHECK_INT(cfx__core_free(&c, &taken, 3), -1);
}

static int pairs_apart(int core) { return core % 8; }
static int pairs_beside(int core) { return core & ~1; }

/* A process has whole cores of the processor, whichever numbers their threads have. */
TEST(processes_share_cores_by_hardware) {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int i = 0; i < 16; i++)
        CPU_SET(i, &all);
    for (int mine = 0; mine < 4; mine++) {
        const cpu_set_t apart = cfx__cores_share(&all, pairs_apart, mine, 4);
        const cpu_set_t beside = cfx__cores_share(&all, pairs_beside, mine, 4);
        CHECK_INT(CPU_COUNT(&apart), 4);
        CHECK_INT(CPU_COUNT(&beside), 4);
        for (int k = 0; k < 2; k++) {
            CHECK(CPU_ISSET(2 * mine + k, &apart) && CPU_ISSET(2 * mine + k + 8, &apart));
            CHECK(CPU_ISSET(4 * mine + k, &beside) && CPU_ISSET(4 * mine + k + 2, &beside));
        }
    }
    CPU_CLR(0, &all); /* seven and eight of fifteen; core 8 has its hardware alone */
    const cpu_set_t first = cfx__cores_share(&all, pairs_apart, 0, 2);
    const cpu_set_t second = cfx__cores_share(&all, pairs_apart, 1, 2);
    CHECK_INT(CPU_COUNT(&first), 7);
    CHECK_INT(CPU_COUNT(&second), 8);
    CHECK(CPU_ISSET(8, &first) && CPU_ISSET(1, &first) && CPU_ISSET(9, &first));
}
