/* Floats that become integers, at the ends of what fits. */
#include "base.h"
#include "test.h"

#include <math.h>

TEST(floats_are_cut_towards_zero_where_they_fit) {
    static const struct {
        double f;
        int64_t i;
    } good[] = {{0, 0},
                {-0.0, 0},
                {0.999, 0},
                {-0.999, 0},
                {-7.5, -7},
                {0x1p53, 9007199254740992},
                {0x1.fffffffffffffp62, INT64_MAX - 1023},
                {-0x1.fffffffffffffp62, -INT64_MAX + 1023},
                {-0x1p63, INT64_MIN}};
    for (int k = 0; k < COUNT(good); k++) {
        CHECK(cfx__int64_fits(good[k].f));
        CHECK_INT(cfx__int64_of(good[k].f), good[k].i);
    }
}

TEST(floats_that_do_not_fit_are_the_smallest_integer) {
    const double bad[] = {0x1p63,   -0x1.0000000000001p63, 0x1p64, 1.7e308, -1.7e308,
                          INFINITY, -INFINITY,             NAN,    -NAN};
    for (int k = 0; k < COUNT(bad); k++) {
        CHECK(!cfx__int64_fits(bad[k]));
        CHECK_INT(cfx__int64_of(bad[k]), INT64_MIN);
    }
}
