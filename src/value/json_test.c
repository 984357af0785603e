/* JSON to values and back. */
#include "json.h"
#include "test.h"

#include <math.h>

static cfx_value parse(const char *text) {
    return cfx__json_parse(text, strlen(text), "x.json");
}

static const char *round_trip(const char *text) {
    cfx__text out = {0};
    CHECK(cfx__json_value(&out, parse(text)));
    return cfx__text_take(&out);
}

TEST(json_becomes_values) {
    cfx_value v = parse("{\"a\": [1, -2.5, true, null, \"x\"], \"b\": {}}");
    CHECK_INT(v.tag, CFX_TAG_DICT);
    cfx_value a = cfx_dict_get(cfx_as_dict(v), "a");
    CHECK_INT(cfx_as_list(a)->len, 5);
    CHECK_INT(cfx_integer(cfx_at(a, 0)), 1);
    CHECK_NEAR(cfx_number(cfx_at(a, 1)), -2.5, 0);
    CHECK(cfx_at(a, 2).tag == CFX_TAG_BOOL && cfx_integer(cfx_at(a, 2)));
    CHECK(cfx_is_none(cfx_at(a, 3)));
    CHECK_STR(cfx_text(cfx_at(a, 4)), "x");
    CHECK_INT(cfx_dict_get(cfx_as_dict(v), "b").tag, CFX_TAG_DICT);
    CHECK_INT(cfx_integer(parse(" 7 ")), 7);
    CHECK_STR(cfx_text(parse("\"\\u00e4\\n\"")), "\xc3\xa4\n");
    CHECK_OK();
}

TEST(json_keeps_integers_exact) {
    CHECK_INT(cfx_integer(parse("9223372036854775807")), INT64_MAX);
    CHECK_INT(cfx_integer(parse("-9223372036854775808")), INT64_MIN);
    CHECK_INT(cfx_integer(parse("9007199254740993")), 9007199254740993);
    CHECK_INT(parse("9223372036854775808").tag, CFX_TAG_FLOAT);
    CHECK_INT(parse("1.0").tag, CFX_TAG_FLOAT);
    CHECK_NEAR(cfx_number(parse("1e-3")), 1e-3, 0);
    CHECK_NEAR(
        cfx_number(parse("1234567890123456789012345678901234567890123456789012345678901234567890")),
        1234567890123456789012345678901234567890123456789012345678901234567890., 0);
}

TEST(json_leaves_one_object_to_the_scope) {
    size_t before = cfx__ctx()->scope.len;
    parse("[[1, 2, [\"a\", \"b\", {\"k\": \"v\"}]], \"c\"]");
    CHECK_INT(cfx__ctx()->scope.len, before + 1);
}

TEST(json_errors_have_a_place) {
    CHECK(cfx_is_bad(parse("{\"a\": 1,\n \"b\": ]}")));
    CHECK_ERROR("x.json: line 2, column ");
    static const char *const bad[] = {"",        "{",        "[1,]",      "{\"a\"}", "[1] 2", "tru",
                                      "\"\xff\"", "01",       "[1 2]",     "nan",     "'a'",   "-",
                                      "{\"a\":1", "\"a\n\"", "[\"a\":1]", "1.e",     "{1:2}", "]"};
    for (int i = 0; i < COUNT(bad); i++) {
        CHECK(cfx_is_bad(parse(bad[i])));
        CHECK_ERROR("x.json: line ");
    }
}

/* PyTorch wrote them so before 2.7, as Python does. */
TEST(json_has_bare_floats_that_are_no_numbers) {
    cfx_value v =
        parse("[-Infinity, {\"NaN \\\": NaN,\": NaN}, Infinity ,\"-Infinity\",-Infinity]");
    CHECK_STR(cfx_repr(v), "[-inf, {'NaN \": NaN,': nan}, inf, '-Infinity', -inf]");
    CHECK(isnan(cfx_number(parse("NaN"))));
    static const char *const bad[] = {"2NaN", "NaN2", "-NaN", "[NaN NaN]", "{NaN: 1}", "[Infinity"};
    for (int i = 0; i < COUNT(bad); i++) {
        CHECK(cfx_is_bad(parse(bad[i])));
        CHECK_ERROR("x.json: line 1, column ");
    }
}

TEST(json_has_no_key_twice) {
    CHECK(cfx_is_bad(parse("{\"a\": 1, \"a\": 2}")));
    CHECK_ERROR("x.json: line 1, column 17: the key \"a\" stands twice in an object");
    CHECK(cfx_is_bad(parse("[{\"b\": {\"a\": 1, \"c\": {\"a\": 0}, \"\\u0061\": 2}}]")));
    CHECK_ERROR("the key \"a\" stands twice in an object");
    cfx__text many = {0};
    for (int i = 0; i < 20000; i++)
        cfx__text_printf(&many, "%c\"%d\": {\"a\": 1, \"b\": 2}", i ? ',' : '{', i);
    cfx__text_puts(&many, "}");
    CHECK_INT(cfx_as_dict(parse(many.data))->len, 20000);
    many.len--;
    cfx__text_puts(&many, ", \"777\": 1}");
    CHECK(cfx_is_bad(parse(many.data)));
    CHECK_ERROR("the key \"777\" stands twice in an object");
    cfx__text_release(&many);
}

TEST(json_has_a_depth) {
    char deep[2 * CFX__JSON_DEPTH + 3] = {0};
    memset(deep, '[', CFX__JSON_DEPTH);
    memset(deep + CFX__JSON_DEPTH, ']', CFX__JSON_DEPTH);
    CHECK_INT(parse(deep).tag, CFX_TAG_LIST);
    CHECK_OK();
    memset(deep, '[', CFX__JSON_DEPTH + 1);
    CHECK(cfx_is_bad(parse(deep)));
    CHECK_ERROR("nested too deeply");
}

TEST(values_become_json) {
    static const char *const same[] = {"{\"a\":[1,-2.5,true,false,null],\"b\":{},\"c\":[]}",
                                       "\"a\\\"b\\\\c\\n\\t\\r\\b\\f\\u0001/\xc3\xa4\"", "1e-05",
                                       "-9223372036854775808"};
    for (int i = 0; i < COUNT(same); i++)
        CHECK_STR(round_trip(same[i]), same[i]);
    cfx__text out = {0};
    cfx__json_string(&out, "a\0b", 3);
    CHECK_STR(out.data, "\"a\\u0000b\"");
    CHECK(!cfx__json_value(&out, cfx_float(1. / 0.)));
    CHECK_ERROR("Out of range float values");
    cfx_dict *d = cfx_dict_new();
    cfx_dict_put(d, cfx_int(1), cfx_none());
    CHECK(!cfx__json_value(&out, cfx_dict_value(d)));
    CHECK_ERROR("must be str");
    CHECK(!cfx__json_value(&out, cfx_dtype_value(CFX_F32)));
    CHECK_ERROR("not JSON serializable");
    cfx__text_release(&out);
}
