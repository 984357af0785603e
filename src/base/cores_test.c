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
