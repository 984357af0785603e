/* Expressions of sizes, as files write them. */
#include "srepr.h"
#include "test.h"

#define S77 "Symbol('s77', positive=True, integer=True)"
#define U0 "Symbol('u0', integer=True)"

static const char *read(const char *text) { return cfx_str(cfx__srepr_read(text, NULL)); }

TEST(srepr_is_read) {
    CHECK_STR(read(S77), "s77");
    CHECK_STR(read("Integer(-3)"), "-3");
    CHECK_STR(read("Add(" S77 ", Integer(1))"), "s77 + 1");
    CHECK_STR(read("Mul(Integer(2), Pow(" S77 ", Integer(2)))"), "2*s77**2");
    CHECK_STR(read("Mul(Integer(2), Add(" S77 ", Integer(-2)), Add(" U0 ", Integer(-2)))"),
              "2*(s77 - 2)*(u0 - 2)");
    CHECK_STR(read("FloorDiv(" S77 ", Integer(2))"), "(s77//2)");
    CHECK_STR(read("IntTrueDiv(" S77 ", Integer(3))"), "IntTrueDiv(s77, 3)");
    CHECK_STR(read("ModularIndexing(" S77 ", Integer(2), Integer(3))"), "Mod((s77//2), 3)");
    CHECK_STR(read("Max(Integer(1), " U0 ")"), "Max(1, u0)");
    CHECK_STR(read("Max(Integer(1), " S77 ")"), "s77");
    CHECK_STR(read("Max(Integer(0), Add(Integer(1), Mul(Integer(-1), " S77 ")))"), "0");
    CHECK_STR(read("Max(Integer(0), Add(Integer(64), Mul(Integer(-1), " S77 ")))"),
              "Max(0, 64 - s77)");
    CHECK_STR(read("Min(Integer(2), Add(Integer(1), Mul(Integer(3), " S77 ")))"), "2");
    CHECK_STR(read("Min(Integer(5), " S77 ")"), "Min(5, s77)");
    CHECK_STR(read("LessThan(" U0 ", Integer(8))"), "u0 <= 8");
    CHECK_STR(read("StrictGreaterThan(FloorDiv(" S77 ", Integer(2)), Integer(-1))"),
              "((s77//2)) > -1");
    CHECK_STR(read("GreaterThan(Integer(4), Mod(" S77 ", Integer(2)))"), "4 >= (Mod(s77, 2))");
    CHECK_STR(read("Equality(Mod(" S77 ", Integer(2)), Integer(0))"), "Eq(Mod(s77, 2), 0)");
    CHECK_STR(read("Equality(" U0 ", Integer(8))"), "Eq(u0, 8)");
    CHECK_STR(read("2*s0 + 1"), "2*s0 + 1");
    CHECK_STR(read("ToFloat(" S77 ")"), "ToFloat(s77)");
    CHECK_STR(read("FloorDiv(" S77 ", Integer(0))"), "FloorDiv(s77, 0)");
    CHECK_STR(read("Pow(" S77 ", Integer(-1))"), "s77**(-1)");
    CHECK_OK();
}

TEST(srepr_takes_hints) {
    cfx__srepr_hints h = {0};
    cfx__srepr_hints_note(&h, S77, 5);
    cfx__srepr_hints_note(&h, "Add(" U0 ", Integer(1))", 7);
    cfx_value v = cfx__srepr_read("Mul(Integer(3), " S77 ")", &h);
    CHECK(v.tag == CFX_TAG_SYM && cfx_as_sym(v)->has_hint);
    CHECK_INT(cfx_as_sym(v)->hint, 15);
    v = cfx__srepr_read(U0, &h);
    CHECK(v.tag == CFX_TAG_SYM && !cfx_as_sym(v)->has_hint);
    cfx__srepr_hints_release(&h);
}

TEST(srepr_is_written) {
    static const char *const same[] = {
        S77, U0, "Integer(7)", "Add(" S77 ", Integer(1))", "FloorDiv(" S77 ", Integer(2))",
        "Mul(Integer(2), " S77 ")", "LessThan(" U0 ", Integer(8))",
        "Max(Integer(1), " U0 ")"};
    for (int i = 0; i < COUNT(same); i++) {
        cfx__text out = {0};
        cfx__srepr_write(&out, cfx__srepr_read(same[i], NULL));
        CHECK_STR(out.data, same[i]);
        cfx__text_release(&out);
    }
    CHECK_INT(cfx_result_of(cfx__srepr_read(same[6], NULL)).kind, CFX_RESULT_BOOL);
    CHECK_INT(cfx_result_of(cfx__srepr_read(same[3], NULL)).kind, CFX_RESULT_INT);
}

TEST(srepr_has_limits) {
    cfx__text deep = {0};
    for (int i = 0; i < 5000; i++)
        cfx__text_puts(&deep, "Add(");
    CHECK_INT(cfx__srepr_read(deep.data, NULL).tag, CFX_TAG_STR);
    deep.len = 0;
    cfx__text_puts(&deep, "Add(");
    for (int i = 0; i < 100000; i++)
        cfx__text_printf(&deep, "Symbol('s%d'), ", i);
    CHECK_INT(cfx__srepr_read(deep.data, NULL).tag, CFX_TAG_STR);
    cfx__text_release(&deep);
    CHECK_INT(cfx__srepr_read("torch.ops.aten.relu", NULL).tag, CFX_TAG_STR);
    CHECK_INT(cfx__srepr_read("Symbol('a b')", NULL).tag, CFX_TAG_STR);
    static const char *const bad[] = {"", "(", "Add(", "Symbol('s", "Integer()", "Pow(2", "-", "'"};
    for (int i = 0; i < COUNT(bad); i++)
        read(bad[i]);
    CHECK_OK();
}
