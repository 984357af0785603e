#include "test.h"

#include "value.h"

static cfx_value sample(void) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "x", cfx_int(1));
    cfx_dict_set(d, "pair", cfx_tuple(2, cfx_list(3, 4)));
    return cfx_tuple(d, CFX_NONE);
}

TEST(pytree_round_trip) {
    cfx_value leaves = cfx_list_value(0, NULL);
    cfx_value spec = cfx_tree_flatten(sample(), cfx_as_list(leaves));
    CHECK_STR(cfx_repr(leaves), "[1, 2, 3, 4, None]");
    cfx_value back = cfx_tree_unflatten(spec, cfx_as_list(leaves));
    CHECK(cfx_equal_values(back, sample()));
    CHECK_STR(cfx_repr(back), "({'x': 1, 'pair': (2, [3, 4])}, None)");
}

TEST(pytree_spec_text_is_pytorchs) {
    cfx_value leaves = cfx_list_value(0, NULL);
    CHECK_STR(cfx_tree_spec_text(cfx_tree_flatten(cfx_int(1), cfx_as_list(leaves))), "*");
    CHECK_STR(
        cfx_tree_spec_text(cfx_tree_flatten(cfx_tuple(1, cfx_list(2, 3)), cfx_as_list(leaves))),
        "TreeSpec(tuple, None, [*,\n  TreeSpec(list, None, [*,\n    *])])");
    CHECK_STR(cfx_tree_spec_text(cfx_tree_flatten(sample(), cfx_as_list(leaves))),
              "TreeSpec(tuple, None, [TreeSpec(dict, ['x', 'pair'], [*,\n"
              "    TreeSpec(tuple, None, [*,\n"
              "      TreeSpec(list, None, [*,\n"
              "        *])])]),\n"
              "  *])");
    CHECK_STR(cfx_tree_spec_text(cfx_list_value(0, NULL)), "TreeSpec(list, None, [])");
}

TEST(pytree_wrong_number_of_leaves) {
    cfx_value leaves = cfx_list_value(0, NULL);
    cfx_value spec = cfx_tree_flatten(cfx_tuple(1, 2), cfx_as_list(leaves));
    cfx_list_append(cfx_as_list(leaves), cfx_int(3));
    CHECK(cfx_is_bad(cfx_tree_unflatten(spec, cfx_as_list(leaves))));
    CHECK_STR(cfx_error_last()->message,
              "treespec.unflatten(leaves): `leaves` has length 3 but the spec refers to a pytree "
              "that holds 2 items (TreeSpec(tuple, None, [*,\n  *])).");
    cfx_error_clear();
    CHECK(cfx_is_bad(cfx_tree_flatten(cfx_bad(), cfx_as_list(leaves))));
}
