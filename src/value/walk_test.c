/* Tests of the walk through what values are made of. */
#include "walk.h"

#include "test.h"

static bool add(cfx_value v, void *sum) {
    *(int64_t *)sum += v.tag == CFX_TAG_INT ? cfx_integer(v) : 0;
    return v.tag != CFX_TAG_STR;
}

static cfx_value doubled(cfx_value v, void *none) {
    (void)none;
    return v.tag == CFX_TAG_INT ? cfx_int(2 * cfx_integer(v)) : v;
}

static cfx_value unchanged(cfx_value v, void *none) {
    (void)none;
    return v;
}

static cfx_value bad_two(cfx_value v, void *none) {
    (void)none;
    return v.tag == CFX_TAG_INT && cfx_integer(v) == 2 ? cfx_bad() : v;
}

/* One of each container: [1, (2, slice(4, 8, 16)), {'a': 32}]. */
static cfx_value nested(void) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "a", cfx_int(32));
    return cfx_list(1, cfx_tuple(2, cfx_slice_value(cfx_int(4), cfx_int(8), cfx_int(16))),
                    cfx_dict_value(d));
}

TEST(walks_see_every_leaf_in_order) {
    int64_t sum = 0;
    CHECK(cfx__value_each(nested(), add, &sum));
    CHECK_INT(sum, 63);
    sum = 0;
    CHECK(!cfx__value_each(cfx_list(1, "stop", 2), add, &sum));
    CHECK_INT(sum, 1);
    sum = 0;
    CHECK(cfx__value_each(cfx_int(7), add, &sum) && sum == 7);
    CHECK(cfx__value_each(cfx_keyword_value("k", cfx_int(8)), add, &sum) && sum == 15);
}

TEST(maps_replace_leaves_wherever_they_are) {
    cfx_value v = nested();
    CHECK_STR(cfx_repr(cfx__value_map(v, doubled, NULL)),
              "[2, (4, slice(8, 16, 32)), {'a': 64}]");
    CHECK_STR(cfx_repr(v), "[1, (2, slice(4, 8, 16)), {'a': 32}]");
    cfx_value same = cfx__value_map(v, unchanged, NULL);
    CHECK(cfx_as_list(same) == cfx_as_list(v));
    CHECK(cfx_is_bad(cfx__value_map(v, bad_two, NULL)));
    CHECK_OK();
}
