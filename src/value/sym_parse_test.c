#include "test.h"

#include "value.h"

static const char *back(const char *text) {
    cfx_value v;
    const char *rest;
    bool read = cfx__sym_parse(text, text + strlen(text), &rest, &v);
    return cfx__text_format("%s%s%s", read ? cfx_value_repr(v) : "no", *rest ? " | " : "", rest);
}

TEST(sym_parse_reads_what_is_printed) {
    static const char *const texts[] = {
        "s77", "12", "s77 + 1", "s77 - 1", "1 - s77", "-s77", "2*s77 + 2", "s27*(s77 + 1)",
        "s77**2", "(s77//2)", "((s77 + 1)//2)", "Mod(s77, 8)", "Max(1, s77)", "Min(s27, s77, u0)",
        "s27*((s77//2))", "2*(s0 + 2)*(s53 + 2)", "-(s0 + 2)*(s53 + 2)"};
    for (int i = 0; i < COUNT(texts); i++)
        CHECK_STR(back(texts[i]), texts[i]);
    CHECK_STR(back("s0//2, 4]"), "(s0//2) | , 4]");
    CHECK_STR(back("FloorDiv(s0, 2)"), "(s0//2)");
    CHECK_STR(back("2 * ( 3 + 4 )"), "14");
    CHECK_OK();
}

TEST(sym_parse_refuses) {
    static const char *const texts[] = {"", "+", "s0 +", "(s0", "Mod(s0)", "s0//0", "Mod(s0, 0)",
                                        "s0**s1", "s0**-1", "s0**1000000", "99999999999999999999"};
    cfx_value v;
    const char *rest;
    for (int i = 0; i < COUNT(texts); i++)
        CHECK(!cfx__sym_parse(texts[i], texts[i] + strlen(texts[i]), &rest, &v));
    char deep[5000];
    memset(deep, '(', sizeof deep);
    CHECK(!cfx__sym_parse(deep, deep + sizeof deep, &rest, &v));
    CHECK_OK();
    const char *past = "9223372036854775807*s0*2";
    CHECK(!cfx__sym_parse(past, past + strlen(past), &rest, &v));
    CHECK_ERROR("a number in an expression of sizes does not fit 64 bits");
}
