#include "dict.h"
#include "test.h"

#include "value.h"

TEST(value_lists_keep_what_is_put_in) {
    size_t mark = cfx_scope_open();
    cfx_value list = cfx_list_value(0, NULL);
    cfx_value_keep(list);
    CFX_SCOPE {
        cfx_list_append(cfx_as_list(list), cfx_string_value("alive"));
        cfx_list_append(cfx_as_list(list), cfx_tuple(1, "two"));
    }
    CHECK_STR(cfx_repr(list), "['alive', (1, 'two')]");
    cfx_scope_close(mark);
    CHECK_INT(cfx_as_list(list)->head.refs, 1);
    CHECK_STR(cfx_text(cfx_at(list, 0)), "alive");
    cfx_value_drop(list);
}

TEST(value_scope_returns_one) {
    size_t mark = cfx_scope_open();
    cfx_value v = cfx_list("a", "b");
    cfx_string_value("dies");
    v = cfx_scope_return_value(mark, v);
    CHECK_INT(cfx_scope_open(), mark + 1);
    CHECK_STR(cfx_repr(v), "['a', 'b']");
    cfx_scope_close(mark);
    CHECK_INT(cfx_integer(cfx_scope_return_value(mark, cfx_int(4))), 4);
}

TEST(value_indexing) {
    cfx_value v = cfx_tuple(1, 2, 3);
    CHECK_INT(cfx_integer(cfx_at(v, 0)), 1);
    CHECK_INT(cfx_integer(cfx_at(v, -1)), 3);
    CHECK(cfx_is_bad(cfx_at(v, 3)));
    CHECK_STR(cfx_error_last()->message, "tuple index out of range");
    cfx_error_clear();
    CHECK(cfx_is_bad(cfx_at(cfx_int(1), 0)));
    CHECK_STR(cfx_error_last()->message, "'int' object is not subscriptable");
    cfx_error_clear();
    CHECK(cfx_is_bad(cfx_at(cfx_bad(), 0)));
    CHECK(cfx_ok());
}

TEST(value_dict_keeps_order) {
    cfx_dict *d = cfx_dict_new();
    for (int i = 0; i < 100; i++)
        cfx_dict_put(d, cfx_int(i * 7), cfx_int(i));
    CHECK_INT(d->len, 100);
    for (int i = 0; i < 100; i++) {
        CHECK_INT(cfx_integer(d->entries[i].key), i * 7);
        CHECK_INT(cfx_integer(*cfx_dict_find(d, cfx_int(i * 7))), i);
    }
    CHECK(cfx_dict_remove(d, cfx_int(7)));
    CHECK(!cfx_dict_remove(d, cfx_int(7)));
    CHECK(!cfx_dict_find(d, cfx_int(7)));
    CHECK_INT(cfx_integer(*cfx_dict_find(d, cfx_int(14))), 2);
    CHECK_INT(cfx_integer(d->entries[1].key), 14);
}

TEST(value_dict_finds_what_came_after_a_removal) {
    cfx_dict *d = cfx_dict_new();
    for (int i = 0; i < 20; i++)
        cfx_dict_put(d, cfx_int(i), cfx_int(i));
    for (int i = 3; i < 20; i++)
        cfx_dict_remove(d, cfx_int(i));
    cfx_dict_set(d, "new", cfx_int(7)); /* few again, with the index of many */
    cfx_dict_set(d, "new", cfx_int(8));
    CHECK_INT(cfx_integer(cfx_dict_get(d, "new")), 8);
    CHECK_INT(d->len, 4);
}

/* Whether a dict has these keys in this order, each with its value, and finds them. */
static bool has_keys(const cfx_dict *d, const int *keys, int n) {
    bool same = d->len == n;
    for (int i = 0; i < n && same; i++) {
        const cfx_value *found = cfx_dict_find(d, cfx_int(keys[i]));
        same = cfx_integer(d->entries[i].key) == keys[i] && found == &d->entries[i].value &&
               cfx_integer(*found) == 2 * keys[i];
    }
    return same;
}

TEST(value_dict_is_the_same_wherever_entries_are_removed) {
    enum { MOST = 300, STEPS = 3000 };
    for (int where = 0; where < 4; where++) { /* in front, behind, in the middle, anywhere */
        cfx_dict *d = cfx_dict_new();
        int keys[MOST], n = 0, next = 0;
        uint32_t random = 1;
        for (int step = 0; step < STEPS; step++) {
            random = random * 1664525u + 1013904223u;
            if (n < MOST && (!n || random >> 30 < (step < STEPS / 2 ? 3u : 1u))) {
                keys[n++] = next++ * 7;
                cfx_dict_put(d, cfx_int(keys[n - 1]), cfx_int(2 * keys[n - 1]));
                continue;
            }
            const int at[] = {0, n - 1, n / 2, (int)(random >> 8) % n}, i = at[where];
            CHECK(cfx_dict_remove(d, cfx_int(keys[i])));
            CHECK(!cfx_dict_find(d, cfx_int(keys[i])));
            CHECK(!cfx_dict_remove(d, cfx_int(keys[i])));
            memmove(keys + i, keys + i + 1, (size_t)(--n - i) * sizeof *keys);
            if (step % 10 == 0)
                CHECK(has_keys(d, keys, n));
        }
        CHECK(has_keys(d, keys, n));
        cfx_dict *odd = cfx_dict_new();
        int left = 0;
        for (int i = 0; i < n; i++)
            if (keys[i] % 2) {
                cfx_dict_put(odd, cfx_int(keys[i]), cfx_none());
                keys[left++] = keys[i];
            }
        CHECK_INT(cfx__dict_keep_only(d, odd), n - left);
        CHECK(has_keys(d, keys, left));
    }
}

TEST(value_dict_by_name) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "a", cfx_string_value("one"));
    cfx_dict_set(d, "b", cfx_int(2));
    cfx_dict_set(d, "a", cfx_string_value("three"));
    CHECK_INT(d->len, 2);
    CHECK_STR(cfx_text(cfx_dict_get(d, "a")), "three");
    CHECK(cfx_is_none(cfx_dict_get(d, "c")));
    CHECK(cfx_is_none(cfx_dict_get(NULL, "c")));
    cfx_dict_set(NULL, "a", cfx_int(1));
    CHECK_STR(cfx_error_last()->message, "the dict to put 'a' into is NULL");
    cfx_error_clear();
}

TEST(value_equality_is_pythons) {
    CHECK(cfx_equal_values(cfx_int(1), cfx_float(1.0)));
    CHECK(cfx_equal_values(cfx_bool(true), cfx_int(1)));
    CHECK(cfx_equal_values(cfx_complex_value(1, 0), cfx_int(1)));
    CHECK(!cfx_equal_values(cfx_complex_value(1, 1), cfx_int(1)));
    CHECK(!cfx_equal_values(cfx_int(1), cfx_string_value("1")));
    CHECK(cfx_equal_values(cfx_list(1, "a"), cfx_list(1.0, "a")));
    CHECK(!cfx_equal_values(cfx_list(1), cfx_tuple(1)));
    CHECK(!cfx_equal_values(cfx_list(1), cfx_list(1, 2)));
    CHECK(cfx_equal_values(cfx_slice_value(CFX_NONE, cfx_int(1), CFX_NONE),
                           cfx_slice_value(CFX_NONE, cfx_int(1), CFX_NONE)));
    cfx_dict *a = cfx_dict_new(), *b = cfx_dict_new();
    cfx_dict_set(a, "x", cfx_int(1));
    cfx_dict_set(a, "y", cfx_int(2));
    cfx_dict_set(b, "y", cfx_int(2));
    CHECK(!cfx_equal_values(cfx_dict_value(a), cfx_dict_value(b)));
    cfx_dict_set(b, "x", cfx_int(1));
    CHECK(cfx_equal_values(cfx_dict_value(a), cfx_dict_value(b)));
}

TEST(value_equal_ones_hash_alike) {
    CHECK_INT(cfx__value_hash(cfx_int(1)), cfx__value_hash(cfx_float(1)));
    CHECK_INT(cfx__value_hash(cfx_int(1)), cfx__value_hash(cfx_bool(true)));
    CHECK_INT(cfx__value_hash(cfx_int(1)), cfx__value_hash(cfx_complex_value(1, 0)));
    CHECK_INT(cfx__value_hash(cfx_tuple(1, "a")), cfx__value_hash(cfx_tuple(1.0, "a")));
    CHECK(cfx__value_hash(cfx_float(1.5)) != cfx__value_hash(cfx_int(1)));
}

TEST(value_numbers) {
    CHECK_INT(cfx_integer(cfx_float(2.9)), 2);
    CHECK_INT(cfx_integer(cfx_float(1e30)), INT64_MAX);
    CHECK_INT(cfx_integer(cfx_float(-9.25e18)), INT64_MIN);
    CHECK_NEAR(cfx_number(cfx_bool(true)), 1, 0);
    CHECK_NEAR(cfx_number(cfx_complex_value(2, 3)), 2, 0);
    CHECK(cfx_is_number(cfx_float(1)));
    CHECK(!cfx_is_number(cfx_string_value("1")));
}

TEST(value_from_c_expressions) {
    CHECK_STR(cfx_repr(cfx_list(1, 2.5, "s", cfx_f32, NULL)), "[1, 2.5, 's', torch.float32, None]");
    cfx_value kw = CFX_KW(alpha, 2);
    CHECK_STR(cfx_as_keyword(kw)->name->text, "alpha");
    CHECK_INT(cfx_integer(cfx_as_keyword(kw)->value), 2);
    CHECK_STR(cfx_repr(cfx_ints_value(2, (int64_t[]){3, 4})), "[3, 4]");
    CHECK(cfx_is_none(cfx_string_value(NULL)));
}

TEST(reads_of_what_a_value_is_not_are_errors_and_safe) {
    CHECK_INT(cfx_tensor_ndim(cfx_as_tensor(cfx_int(3))), 0);
    CHECK_ERROR("expected a tensor, got int");
    CHECK_INT(cfx_as_list(cfx_string_value("x"))->len, 0);
    CHECK_ERROR("expected a list or tuple, got str");
    CHECK_INT(cfx_as_dict(cfx_none())->len, 0);
    CHECK_ERROR("expected a dict, got NoneType");
    CHECK_STR(cfx_value_repr(cfx_node_value(cfx_as_node(cfx_float(1)))), "<bad>");
    CHECK_ERROR("expected a node, got float");
    cfx_list_append(cfx_as_list(cfx_int(1)), cfx_int(2));
    CHECK_ERROR("expected a list or tuple, got int");
    CHECK_INT(cfx_integer(cfx_list(1)), 0);
    CHECK_ERROR("expected a number, not List[int]");
    CHECK(cfx_failed(cfx_as_module(cfx_bad()))); /* a bad value says nothing more */
    CHECK_OK();
}

TEST(dicts_of_keys_and_values_in_turn) {
    CHECK_STR(cfx_repr(cfx_dict_of("x", cfx_dict_of(0, "batch"), "y", 2)),
              "{'x': {0: 'batch'}, 'y': 2}");
    CHECK_STR(cfx_repr(cfx_dict_of()), "{}");
    CHECK_OK();
    CHECK(cfx_is_bad(cfx_dict_of("x")));
    CHECK_ERROR("a dict needs keys and values in turn, and key 'x' has no value");
}
