/* Parts of a text that are left out of its tree and read item by item. */
#include "json.h"
#include "test.h"

static const char text[] =
    "{\"v\": 1, \"m\": {\"x\": \"}]\\\"\", \"g\": {\"in\": [1], \"nodes\": [ {\"a\": [1, 2]}, "
    "\"]\" , 7,null], \"t\": {\"k\": {\"n\": [\"}\"]}, \"l\": 3}}}, \"end\": true}";
static const char *const path[] = {"m", "g"};
static const char *const names[] = {"nodes", "t"};

static void find(const char *in, cfx__json_part *parts) {
    cfx__json_find_parts(in, strlen(in), path, 2, names, 2, parts);
}

TEST(parts_of_a_text_are_found_and_left_out) {
    cfx__json_part part[2];
    cfx__json_tree tree = {0};
    cfx__text out = {0};
    find(text, part);
    CHECK_STR(cfx__string_new(part[0].text, part[0].len)->text,
              "[ {\"a\": [1, 2]}, \"]\" , 7,null]");
    CHECK_STR(cfx__string_new(part[1].text, part[1].len)->text,
              "{\"k\": {\"n\": [\"}\"]}, \"l\": 3}");
    CHECK(cfx__json_read_but(&tree, text, strlen(text), 2, part, "t"));
    cfx__json_write(&out, tree.items.data);
    CHECK_STR(out.data, "{\"v\":1,\"m\":{\"x\":\"}]\\\"\",\"g\":{\"in\":[1],\"nodes\":[],"
                        "\"t\":{}}},\"end\":true}");
    cfx__text_release(&out);
    cfx__json_release(&tree);
}

/* Bytes are passed in blocks: what ends a string or a value is seen wherever it lies in one. */
TEST(parts_are_found_at_any_distance_from_what_is_around_them) {
    for (int pad = 0; pad < 140; pad++) {
        char blanks[148], in[1200];
        memset(blanks, pad % 3 ? 'x' : ' ', sizeof blanks);
        cfx__json_part part[2];
        snprintf(in, sizeof in,
                 "{\"s\": \"%.*s\\\"%.*s]}\\\\\", \"m\": {\"y\": [1234567%.*d, {}, \"[\"], \"g\": "
                 "{\"nodes\": [\"%.*s\\\"]\", {\"a%.*s\": 12.5%.*d}], \"t\": {}}}}",
                 pad, blanks, pad / 2, blanks, pad, 7, pad, blanks, pad, blanks, pad, 3);
        find(in, part);
        CHECK(part[0].text && part[1].text);
        CHECK(part[0].text == strstr(in, "\"nodes\"") + 9);
        CHECK(part[0].text + part[0].len == strstr(in, ", \"t\""));
        CHECK_STR(cfx__string_new(part[1].text, part[1].len)->text, "{}");
    }
}

static bool collect(const cfx__json *key, const cfx__json *item, void *user) {
    cfx__text_printf(user, "%s=", key ? key->text : "");
    cfx__json_write(user, item);
    cfx__text_putc(user, ' ');
    return true;
}

static bool collect_pair(const char *key, size_t klen, const char *value, size_t vlen,
                         void *user) {
    cfx__text_printf(user, "%.*s=%.*s ", (int)klen, key, (int)vlen, value);
    return true;
}

TEST(items_of_a_part_come_one_by_one) {
    cfx__json_part part[2];
    cfx__text out = {0};
    find(text, part);
    CHECK(cfx__json_stream(text, part[0], "t", collect, &out));
    CHECK(cfx__json_stream(text, part[1], "t", collect, &out));
    CHECK_STR(out.data, "={\"a\":[1,2]} =\"]\" =7 =null k={\"n\":[\"}\"]} l=3 ");
    out.len = 0;
    CHECK(cfx__json_walk(part[1], collect_pair, &out));
    CHECK_STR(out.data, "k={\"n\": [\"}\"]} l=3 ");
    cfx__text_release(&out);
}

static bool weigh(const cfx__json *key, const cfx__json *item, void *user) {
    size_t *most = user, now = cfx_memory_held();
    (void)key;
    *most = now > *most ? now : *most;
    return item->kind == CFX__JSON_OBJECT;
}

TEST(many_items_need_the_memory_of_one) {
    enum { ITEMS = 30000 };
    cfx__text many = {0};
    cfx__text_putc(&many, '[');
    for (int i = 0; i < ITEMS; i++)
        cfx__text_printf(&many, "%s{\"name\": \"the text of item %d\"}", i ? "," : "", i);
    cfx__text_putc(&many, ']');
    size_t before = cfx_memory_held(), most = 0;
    CHECK(cfx__json_stream(many.data, (cfx__json_part){many.data, many.len}, "t", weigh, &most));
    CHECK(most - before < 100000);
    cfx__text_release(&many);
}

TEST(texts_that_are_no_json_have_no_parts_or_an_error) {
    static const char *const odd[] = {"", "{", "{\"m\"", "{\"m\": {\"g\": ", "{\"m\": [1]}",
                                      "{\"m\": {\"g\": {\"nodes\": [1, 2", "[1, 2]",
                                      "{\"m\": {\"g\": {\"nodes\": 7, \"t\": \"x\"}}}",
                                      "{\"m\" 1}"};
    for (int i = 0; i < COUNT(odd); i++) {
        cfx__json_part part[2];
        find(odd[i], part);
        CHECK(!part[0].text && !part[1].text);
    }
    cfx__text out = {0};
    const char *bad = "[1,\n {\"a\": tru}]";
    CHECK(!cfx__json_stream(bad, (cfx__json_part){bad, strlen(bad)}, "bad.json", collect, &out));
    CHECK_ERROR("bad.json: line 2, column ");
    bad = "{\"a\\n\": 1}"; /* no plain key: a parser is asked */
    CHECK(!cfx__json_walk((cfx__json_part){bad, strlen(bad)}, collect_pair, &out));
    bad = "{\"a\": 1 \"b\": 2}";
    CHECK(!cfx__json_walk((cfx__json_part){bad, strlen(bad)}, collect_pair, &out));
    CHECK_OK();
    cfx__text_release(&out);
}
