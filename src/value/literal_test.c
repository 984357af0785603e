#include "test.h"

#include "value.h"

static const char *again(const char *text) {
    cfx_value v;
    const char *at = text;
    return cfx__value_literal(&at, &v) && !*at ? cfx_value_repr(v) : "no literal";
}

TEST(literals_read_back_as_they_were_written) {
    static const char *const texts[] = {
        "None", "True", "False", "Ellipsis", "0", "-1", "9223372036854775807",
        "-9223372036854775808", "1.0", "-0.0", "1e-05", "1e+16", "inf", "-inf", "nan", "1j",
        "(1+2j)", "(-0-1.5j)", "(nan+infj)", "''", "'a b'", "\"it's\"", "'\\n\\t\\\\\\x00'",
        "'\xc3\xa9'", "()", "(1,)", "(1, 2)", "[]", "[1, [2.5, 'x']]", "{}",
        "{'a': 1, 2: (3,)}", "slice(None, 2, None)", "torch.float32", "torch.bool",
        "torch.strided", "torch.channels_last", "device(type='cpu')",
        "device(type='cuda', index=1)"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        CHECK_STR(again(texts[i]), texts[i]);
}

TEST(literals_in_other_spellings) {
    CHECK_STR(again(" ( 1 ) "), "no literal"); /* what follows is left to the caller */
    CHECK_STR(again("( 1 )"), "1");
    CHECK_STR(again("..."), "Ellipsis");
    CHECK_STR(again("float('-inf')"), "-inf");
    CHECK_STR(again("torch.device('cuda:1')"), "device(type='cuda', index=1)");
    CHECK_STR(again("complex(-0.0, 2.0)"), "(-0+2j)");
    CHECK_STR(again("'\\u00e9'"), "'\xc3\xa9'");
    CHECK_STR(again("slice(3)"), "slice(None, 3, None)");
}

TEST(what_is_no_literal_is_refused) {
    static const char *const texts[] = {"", "x", "Nonesuch", "1x", "(1", "[1 2]", "{1}", "'a",
                                        "torch.nothing", "device('nowhere')", ".", "-", "1+2",
                                        "9223372036854775808", "'\\q'", "slice()", "float('x')"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        CHECK_STR(again(texts[i]), "no literal");
    char deep[1001];
    for (int i = 0; i < 1000; i++)
        deep[i] = '[';
    deep[1000] = 0;
    CHECK_STR(again(deep), "no literal");
}
