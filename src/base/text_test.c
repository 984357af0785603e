/* Keys of texts: nobody can write many names that lie in one place of a table. */
#include "base.h"

#include <float.h>

#include "test.h"

/* Names that are alike but for a number in their middle. */
TEST(all_of_a_text_is_in_its_key) {
    enum { NAMES = 2000, SIDE = 600 };
    char name[2 * SIDE + 9];
    bool *seen = cfx__alloc0(1 << 16);
    int places = 0;
    memset(name, 'a', sizeof name);
    for (int i = 0; i < NAMES; i++) {
        char number[12];
        snprintf(number, sizeof number, "%08d", i);
        memcpy(name + SIDE, number, 8);
        uint32_t place = cfx__text_key(name, 2 * SIDE + 8) & 0xffff;
        places += !seen[place];
        seen[place] = true;
    }
    CHECK(places > NAMES * 9 / 10);
    CHECK(cfx__text_key("abc", 3) == cfx__text_key("abcd", 3));
    cfx__free(seen);
}

TEST(text_floats_have_a_shortest_number) {
    CHECK(cfx__number_shortest(0.1f) == 0.1);
    CHECK(cfx__number_shortest(-2.5f) == -2.5);
    CHECK(cfx__number_shortest(1.0f / 3) == 0.33333334);
    CHECK(cfx__number_shortest(FLT_MAX) == (double)FLT_MAX); /* 3.4028235e38 is no float's */
    CHECK(cfx__number_shortest(-FLT_MAX) == -(double)FLT_MAX);
}
