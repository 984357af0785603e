/* How many helpers a region is worth. */
#include "worth.h"

#include "test.h"

static cfx__worth *fresh(void) {
    static cfx__worth w;
    memset(&w, 0, sizeof w);
    w.giving = CFX__GIVING_NS;
    return &w;
}

TEST(regions_are_given_to_as_many_helpers_as_they_are_worth) {
    cfx__worth *w = fresh();
    CHECK_INT(cfx__worth_helpers(w, 7, 7), 7); /* nobody has seen it */
    cfx__worth_note(w, 7, 400);
    CHECK_INT(cfx__worth_helpers(w, 7, 7), 0);
    cfx__worth_note(w, 8, 5000);
    CHECK_INT(cfx__worth_helpers(w, 8, 7), 3);
    cfx__worth_note(w, 9, 1000000);
    CHECK_INT(cfx__worth_helpers(w, 9, 7), 7);
    CHECK_INT(cfx__worth_helpers(w, 7 + CFX__WORTH_KNOWN, 7), 7); /* another in its place */
}

TEST(what_giving_work_takes_is_measured) {
    cfx__worth *w = fresh();
    cfx__worth_note(w, 1, 100000);
    const int before = cfx__worth_helpers(w, 1, 63);
    for (int i = 0; i < 100; i++)
        cfx__worth_note_giving(w, 4, 40000); /* a slow way between cores */
    CHECK(cfx__worth_helpers(w, 1, 63) < before / 2);
    cfx__worth_note(w, 1, 200000); /* it was interrupted: one time does not count for much */
    cfx__worth_note(w, 1, 90000);
    CHECK(cfx__worth_helpers(w, 1, 63) < before / 2);
}
