/* Pickles of torch.save: what is read, and what is refused. */
#include "pickle.h"
#include "test.h"

static cfx_value load(const char *pickle, size_t len) {
    return cfx__pickle_read("x.pt", pickle, len, NULL, NULL);
}

#define LOAD(text) load(text, sizeof(text) - 1)

TEST(pickles_of_plain_values_are_read) {
    CHECK_STR(cfx_repr(LOAD("\x80\2(K\1M\1\2J\xff\xff\xff\xffNt.")), "(1, 513, -1, None)");
    CHECK_STR(cfx_repr(LOAD("\x80\2]q\0(K\1\x88\x89G?\xf8\0\0\0\0\0\0e.")),
              "[1, True, False, 1.5]");
    CHECK_STR(cfx_repr(LOAD("\x80\2}q\0(X\1\0\0\0aK\1X\1\0\0\0bK\2u.")), "{'a': 1, 'b': 2}");
    CHECK_STR(cfx_repr(LOAD("\x80\2\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f.")),
              "9223372036854775807");
    CHECK_STR(cfx_repr(LOAD("\x80\2\x8a\1\x80\x8a\2\xff\0\x86.")), "(-128, 255)");
    CHECK_STR(cfx_repr(LOAD("\x80\4\x95\0\0\0\0\0\0\0\0\x8c\2hi\x94h\0\x86.")), "('hi', 'hi')");
    CHECK_STR(cfx_repr(LOAD("\x80\2ccollections\nOrderedDict\n)Rq\0X\1\0\0\0aK\1s.")),
              "{'a': 1}");
    CHECK_STR(cfx_repr(LOAD("\x80\2ctorch\nfloat32\nctorch\ndevice\nX\3\0\0\0cpu\x85R\x86.")),
              "(torch.float32, device(type='cpu'))");
    CHECK_STR(cfx_repr(LOAD("\x80\2ctorch\nSize\nK\2K\3\x86\x85R.")), "(2, 3)");
    CHECK_STR(cfx_repr(LOAD("(I01\nI42\nl.")), "[True, 42]");
    CHECK_OK();
}

TEST(pickles_execute_nothing) {
    CHECK(cfx_is_bad(LOAD("\x80\2cos\nsystem\nX\2\0\0\0ls\x85R.")));
    CHECK_ERROR("os.system");
    CHECK(cfx_is_bad(LOAD("\x80\4\x8c\2os\x8c\6system\x93.")));
    CHECK_ERROR("os.system");
    CHECK(cfx_is_bad(LOAD("\x80\2cbuiltins\neval\n.")));
    CHECK_ERROR("builtins.eval");
}

TEST(pickles_that_are_damaged_are_refused) {
    static const struct {
        const char *text;
        size_t len;
        const char *why;
    } cases[] = {
#define CASE(text, why) {text, sizeof(text) - 1, why}
        CASE("", "cut off"),
        CASE("\x80\2", "cut off"),
        CASE("\x80\2X\xff\xff\xff\xff", "cut off"),
        CASE("\x80\2.", "more from the stack"),
        CASE("\x80\2t.", "lacks a mark"),
        CASE("\x80\2h\7.", "was not made"),
        CASE("\x80\2K\1K\2a.", "no list"),
        CASE("\x80\2(K\1K\2u.", "sets items"),
        CASE("\x80\2}(]K\2u.", "a key of a dict"),
        CASE("\x80\2K\1)R.", "no function"),
        CASE("\x80\2\x8f.", "0x8f"),
        CASE("\x80\2K\1r\xff\xff\xff\xff.", "absurd"),
        CASE("\x80\2]q\0h\0a.", "holds itself"),
        CASE("\x80\2]q\0h\0\x85q\1""0h\0h\1a.", "holds itself"),
        CASE("\x80\2\x8a\x09\1\1\1\1\1\1\1\1\1.", "64 bits"),
        CASE("L9223372036854775808L\n.", "64 bits"),
        CASE("\x80\2ctorch\nSize\nK\2)\x86\x85R.", "arguments that do not fit"),
        CASE("\x80\2ctorch._utils\n_rebuild_tensor_v2\n)R.", "no storage"),
#undef CASE
    };
    for (int i = 0; i < COUNT(cases); i++) {
        CHECK(cfx_is_bad(load(cases[i].text, cases[i].len)));
        CHECK_ERROR(cases[i].why);
    }
}

TEST(pickles_have_a_depth) {
    char deep[2 * CFX__PICKLE_DEPTH + 1];
    memset(deep, 0x85, sizeof deep);
    deep[0] = 'N';
    deep[CFX__PICKLE_DEPTH] = '.';
    CHECK(!cfx_is_bad(load(deep, CFX__PICKLE_DEPTH + 1)));
    deep[CFX__PICKLE_DEPTH] = (char)0x85;
    deep[2 * CFX__PICKLE_DEPTH] = '.';
    CHECK(cfx_is_bad(load(deep, sizeof deep)));
    CHECK_ERROR("nested too deeply");
}
