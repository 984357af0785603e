#include "test.h"

#include "value.h"

/* A counter of the test's: freed once, equal by its number, called to be added to. One that the
 * test drops no earlier than its context lives in static memory: its frame is gone by then. */
typedef struct counter {
    int number, freed;
} counter;

static const char *counter_text(void *data, bool repr) {
    return cfx_str(repr ? cfx_string_value("counter") : cfx_int(((counter *)data)->number));
}
static bool counter_equal(void *a, void *b) {
    return ((counter *)a)->number == ((counter *)b)->number;
}
static uint64_t counter_hash(void *data) { return (uint64_t)((counter *)data)->number; }
static cfx_value counter_call(void *data, cfx_args a) {
    return cfx_int(((counter *)data)->number + cfx_integer(a.v[0]));
}
static void counter_free(void *data) { ((counter *)data)->freed++; }
static const char *counter_name(void *data) {
    return ((counter *)data)->number > 9 ? "LargeCounter" : "Counter";
}

static const cfx_object_type counter_type = {.name = "Counter",
                                             .type_name = counter_name,
                                             .text = counter_text,
                                             .equal = counter_equal,
                                             .hash = counter_hash,
                                             .call = counter_call,
                                             .free = counter_free};
static const cfx_object_type plain_type = {.name = "Plain"};

TEST(an_object_is_freed_with_its_last_count) {
    counter c = {.number = 3};
    cfx_dict *d = NULL;
    CFX_SCOPE {
        cfx_value v = cfx_object_value(&counter_type, &c);
        CFX_SCOPE {
            d = cfx_keep(cfx_dict_new());
            cfx_dict_set(d, "list", cfx_list(v, v));
        }
        CHECK(cfx_object_data(v, &counter_type) == &c);
        CHECK(!cfx_object_data(v, &plain_type) && !cfx_object_data(cfx_int(1), &counter_type));
    }
    CHECK_INT(c.freed, 0);
    cfx_drop(d);
    CHECK_INT(c.freed, 1);
}

TEST(objects_print_compare_and_hash_by_their_type) {
    static counter a = {.number = 3}, b = {.number = 3}, large = {.number = 10};
    cfx_value va = cfx_object_value(&counter_type, &a), vb = cfx_object_value(&counter_type, &b);
    cfx_value vl = cfx_object_value(&counter_type, &large);
    CHECK_STR(cfx_repr(cfx_list(va, 1)), "[counter, 1]");
    CHECK_STR(cfx_str(va), "3");
    CHECK(cfx_equal_values(va, vb) && !cfx_equal_values(va, vl));
    cfx_dict *d = cfx_dict_new();
    cfx_dict_put(d, va, cfx_int(7));
    CHECK_INT(cfx_integer(*cfx_dict_find(d, vb)), 7);
    CHECK(!cfx_dict_find(d, vl));
    CHECK_STR(cfx_value_type_name(va), "Counter");
    CHECK_STR(cfx_value_type_name(vl), "LargeCounter");

    cfx_value p = cfx_object_value(&plain_type, &a), q = cfx_object_value(&plain_type, &b);
    CHECK_STR(cfx_repr(p), "<Plain object>");
    CHECK(cfx_equal_values(p, cfx_object_value(&plain_type, &a)));
    CHECK(!cfx_equal_values(p, q) && !cfx_equal_values(p, va));
    cfx_dict_put(d, p, cfx_int(8));
    CHECK(cfx_dict_find(d, cfx_object_value(&plain_type, &a)) && !cfx_dict_find(d, q));
}

static cfx_value twice(cfx_args a) { return cfx_int(2 * cfx_integer(a.v[0])); }

TEST(objects_are_called_where_they_can_be) {
    static counter c = {.number = 3};
    CHECK_INT(cfx_integer(cfx_object_call(cfx_object_value(&counter_type, &c), 4)), 7);
    cfx_value f = cfx_function_value(twice);
    CHECK_INT(cfx_integer(cfx_object_call(f, 4)), 8);
    CHECK(cfx_equal_values(f, cfx_function_value(twice)));
    CHECK(cfx_is_bad(cfx_object_call(cfx_object_value(&plain_type, &c), 4)));
    CHECK_ERROR("'Plain' object is not callable");
    CHECK(cfx_is_bad(cfx_object_call(cfx_int(1), 4)));
    CHECK_ERROR("'int' object is not callable");
    CHECK(cfx_is_bad(cfx_function_value(NULL)));
    CHECK_ERROR("the function is NULL");
    CHECK(cfx_is_bad(cfx_object_value(NULL, &c)));
    CHECK_ERROR("an object has a type");
    CHECK(!cfx_as_object(cfx_int(1)));
    CHECK_ERROR("expected an object of the caller's, got int");
}

TEST(texts_have_a_length_and_symbols_are_read) {
    CHECK_INT(cfx_text_length(cfx_string_value_n("a\0b", 3)), 3);
    CHECK_INT(cfx_text_length(cfx_int(1)), 0);
    CHECK_STR(cfx_repr(cfx_symbol_value("2*s0 + 1")), "2*s0 + 1");
    CHECK_INT(cfx_integer(cfx_symbol_value("12")), 12);
    CHECK(cfx_is_bad(cfx_symbol_value("s0 +")));
    CHECK_ERROR("'s0 +' is not an expression of sizes");
    CHECK(cfx_is_bad(cfx_symbol_value(NULL)));
    CHECK_ERROR("is not an expression of sizes");
}
