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

/* What pickle.dumps wrote of NumPy's arrays, one twice and one by columns, and of what checkpoints
 * have beside tensors. */
static const char arrays[] =
    "\x80\x02}q\x00(X\x01\x00\x00\x00""aq\x01""cnumpy.core.multiarray\n_reconstruct"
    "\nq\x02""cnumpy\nndarray\nq\x03K\x00\x85q\x04""c_codecs\nencode\nq\x05X\x01"
    "\x00\x00\x00""bq\x06X\x06\x00\x00\x00latin1q\x07\x86q\x08Rq\x09\x87q\nRq\x0b(K"
    "\x01K\x02K\x02\x86q\x0c""cnumpy\ndtype\nq\x0dX\x02\x00\x00\x00i2q\x0e\x89\x88"
    "\x87q\x0fRq\x10(K\x03X\x01\x00\x00\x00<q\x11NNNJ\xff\xff\xff\xffJ\xff\xff\xff"
    "\xffK\x00tq\x12""b\x89h\x05X\n\x00\x00\x00\x01\x00\x02\x00\x03\x00\xc3\xbc\xc3"
    "\xbfq\x13h\x07\x86q\x14Rq\x15tq\x16""bX\x01\x00\x00\x00""bq\x17h\x0bu.";
static const char scalars[] =
    "\x80\x04\x95\xda\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01""a\x94\x8c\x15numpy"
    ".core.multiarray\x94\x8c\x0c_reconstruct\x94\x93\x94\x8c\x05numpy\x94\x8c\x07n"
    "darray\x94\x93\x94K\x00\x85\x94""C\x01""b\x94\x87\x94R\x94(K\x01K\x02K\x02\x86"
    "\x94h\x05\x8c\x05""dtype\x94\x93\x94\x8c\x02i2\x94\x89\x88\x87\x94R\x94(K\x03"
    "\x8c\x01<\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94""b\x88""C\x08\x01"
    "\x00\x03\x00\x02\x00\xfc\xff\x94t\x94""b\x8c\x01""f\x94h\x02\x8c\x06scalar\x94"
    "\x93\x94h\x0e\x8c\x02""f4\x94\x89\x88\x87\x94R\x94(K\x03h\x12NNNJ\xff\xff\xff"
    "\xffJ\xff\xff\xff\xffK\x00t\x94""bC\x04\x00\x00\xc0\?\x94\x86\x94R\x94u.";
static const char big_endian[] =
    "\x80\x02}q\x00X\x01\x00\x00\x00""aq\x01""cnumpy.core.multiarray\n_reconstruct"
    "\nq\x02""cnumpy\nndarray\nq\x03K\x00\x85q\x04""c_codecs\nencode\nq\x05X\x01"
    "\x00\x00\x00""bq\x06X\x06\x00\x00\x00latin1q\x07\x86q\x08Rq\x09\x87q\nRq\x0b(K"
    "\x01K\x02K\x02\x86q\x0c""cnumpy\ndtype\nq\x0dX\x02\x00\x00\x00i2q\x0e\x89\x88"
    "\x87q\x0fRq\x10(K\x03X\x01\x00\x00\x00>q\x11NNNJ\xff\xff\xff\xffJ\xff\xff\xff"
    "\xffK\x00tq\x12""b\x89h\x05X\n\x00\x00\x00\x00\x01\x00\x02\x00\x03\xc3\xbf\xc3"
    "\xbcq\x13h\x07\x86q\x14Rq\x15tq\x16""bs.";
static const char beside[] =
    "\x80\x02]q\x00(c__builtin__\nset\nq\x01]q\x02(K\x01K\x02""e\x85q\x03Rq\x04""ca"
    "rgparse\nNamespace\nq\x05)\x81q\x06}q\x07X\x02\x00\x00\x00lrq\x08K\x01sbcdatet"
    "ime\ndate\nq\x09""c_codecs\nencode\nq\nX\x05\x00\x00\x00\x07\xc3\xa4\x01\x01q"
    "\x0bX\x06\x00\x00\x00latin1q\x0c\x86q\x0dRq\x0e\x85q\x0fRq\x10""ccollections\n"
    "defaultdict\nq\x11""c__builtin__\nlist\nq\x12\x85q\x13Rq\x14X\x01\x00\x00\x00k"
    "q\x15]q\x16K\x01""asccollections\nCounter\nq\x17}q\x18X\x01\x00\x00\x00""aq"
    "\x19K\x01s\x85q\x1aRq\x1bK\x07""e.";
static const char empty[] =
    "\x80\x02]q\x00""cnumpy.core.multiarray\n_reconstruct\nq\x01""cnumpy\nndarray\n"
    "q\x02K\x00\x85q\x03""c_codecs\nencode\nq\x04X\x01\x00\x00\x00""bq\x05X\x06\x00"
    "\x00\x00latin1q\x06\x86q\x07Rq\x08\x87q\x09Rq\n(K\x01K\x00K\x02\x86q\x0b""cnum"
    "py\ndtype\nq\x0cX\x02\x00\x00\x00""f4q\x0d\x89\x88\x87q\x0eRq\x0f(K\x03X\x01"
    "\x00\x00\x00<q\x10NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x11""b\x89""c__"
    "builtin__\nbytes\nq\x12)Rq\x13tq\x14""ba.";

TEST(pickles_of_numpys_arrays_are_read) {
    CHECK_STR(cfx_repr(LOAD(arrays)),
              "{'a': tensor([[ 1,  2],\n        [ 3, -4]], dtype=torch.int16), "
              "'b': tensor([[ 1,  2],\n        [ 3, -4]], dtype=torch.int16)}");
    CHECK_STR(cfx_repr(LOAD(scalars)),
              "{'a': tensor([[ 1,  2],\n        [ 3, -4]], dtype=torch.int16), "
              "'f': tensor(1.5000)}");
    CHECK_STR(cfx_repr(LOAD(empty)), "[tensor([], size=(0, 2))]");
    CHECK_OK();
    CHECK(cfx_is_bad(LOAD(big_endian)));
    CHECK_ERROR("x.pt cannot be read: an array of NumPy's in its pickle is not in little-endian");
}

TEST(pickles_may_have_what_holds_no_tensors) {
    CHECK_STR(cfx_repr(LOAD(beside)), "[None, None, None, {'k': [1]}, {}, 7]");
    CHECK_STR(cfx_repr(LOAD("\x80\2cargparse\nNamespace\n)R.")), "None");
    CHECK_OK();
    CHECK(cfx_is_bad(LOAD("\x80\2cbuiltins\ngetattr\n.")));
    CHECK_ERROR("builtins.getattr");
    CHECK(cfx_is_bad(LOAD("\x80\2ctorch._tensor\n_rebuild_from_type_v2\ncos\nsystem\n.")));
    CHECK_ERROR("os.system");
}
