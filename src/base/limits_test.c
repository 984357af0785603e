#include "test.h"

#include "base.h"

static bool ask(void *user) { return ++*(int *)user >= 2; }

static bool complain(void *user) {
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%s", (const char *)user);
    return true;
}

TEST(what_runs_long_is_interrupted) {
    int asked = 0;
    cfx_set_interrupt(ask, &asked);
    cfx_tensor *x = cfx_ones(8);
    for (int64_t i = 0; cfx_ok() && i < 100000000; i++)
        CFX_SCOPE cfx_relu(x);
    CHECK_INT(asked, 2);
    CHECK_ERROR("interrupted");
    cfx_set_interrupt(complain, (void *)"no more");
    for (int64_t i = 0; cfx_ok() && i < 100000000; i++)
        CFX_SCOPE cfx_relu(x);
    CHECK_ERROR("no more");
    cfx_set_interrupt(NULL, NULL);
    CHECK_INT(cfx__ctx()->due, 0);
}

TEST(a_time_limit_holds_beside_an_interrupt) {
    int asked = -1000000;
    cfx_set_interrupt(ask, &asked);
    cfx_set_time_limit(1000);
    cfx_tensor *x = cfx_ones(8);
    for (int64_t i = 0; asked == -1000000 && i < 100000000; i++)
        CFX_SCOPE cfx_relu(x);
    CHECK(asked == -999999 && cfx_ok());
    cfx_set_time_limit(0.01);
    for (int64_t i = 0; cfx_ok() && i < 100000000; i++)
        CFX_SCOPE cfx_relu(x);
    CHECK_ERROR("the time limit of 0.01 seconds is used up");
    cfx_set_time_limit(0);
    CHECK(cfx__ctx()->due > 0);
}
