#include "test.h"

#include "value.h"

static cfx_value s77(void) { return cfx__sym_name("s77", true, 10); }
static cfx_value s27(void) { return cfx__sym_name("s27", true, 3); }
static cfx_value add(cfx_value a, cfx_value b) { return cfx__sym_binary(CFX__SYM_ADD, a, b); }
static cfx_value mul(cfx_value a, cfx_value b) { return cfx__sym_binary(CFX__SYM_MUL, a, b); }
static cfx_value over(cfx_value a, cfx_value b) { return cfx__sym_binary(CFX__SYM_FLOORDIV, a, b); }
static cfx_value mod(cfx_value a, cfx_value b) { return cfx__sym_binary(CFX__SYM_MOD, a, b); }
static cfx_value max(cfx_value a, cfx_value b) { return cfx__sym_binary(CFX__SYM_MAX, a, b); }
static cfx_value num(int64_t i) { return cfx_int(i); }

TEST(sym_prints_as_sympy) {
    CHECK_STR(cfx_repr(s77()), "s77");
    CHECK_STR(cfx_repr(add(num(1), s77())), "s77 + 1");
    CHECK_STR(cfx_repr(add(s77(), num(-1))), "s77 - 1");
    CHECK_STR(cfx_repr(add(num(1), mul(num(-1), s77()))), "1 - s77");
    CHECK_STR(cfx_repr(mul(s77(), num(2))), "2*s77");
    CHECK_STR(cfx_repr(mul(s77(), num(-1))), "-s77");
    CHECK_STR(cfx_repr(mul(s77(), s27())), "s27*s77");
    CHECK_STR(cfx_repr(mul(s77(), s77())), "s77**2");
    CHECK_STR(cfx_repr(mul(add(s77(), num(1)), s27())), "s27*(s77 + 1)");
    CHECK_STR(cfx_repr(mul(num(2), add(s77(), num(1)))), "2*s77 + 2");
    CHECK_STR(cfx_repr(add(s77(), mul(s77(), s27()))), "s27*s77 + s77");
    CHECK_STR(cfx_repr(add(mul(s77(), s77()), s27())), "s27 + s77**2");
    CHECK_STR(cfx_repr(over(s77(), num(2))), "(s77//2)");
    CHECK_STR(cfx_repr(add(over(add(s77(), num(-1)), num(2)), num(1))), "(((s77 - 1)//2)) + 1");
    CHECK_STR(cfx_repr(mul(num(4), over(s77(), num(2)))), "4*((s77//2))");
    CHECK_STR(cfx_repr(mod(s77(), num(2))), "Mod(s77, 2)");
    CHECK_STR(cfx_repr(max(s77(), num(1))), "Max(1, s77)");
    CHECK_STR(cfx_repr(cfx__sym_binary(CFX__SYM_MIN, s77(), s27())), "Min(s27, s77)");
}

TEST(sym_folds) {
    CHECK_STR(cfx_repr(add(num(2), num(3))), "5");
    CHECK_INT(mul(s77(), num(0)).tag, CFX_TAG_INT);
    CHECK_STR(cfx_repr(add(s77(), mul(num(-1), s77()))), "0");
    CHECK_STR(cfx_repr(add(add(s77(), num(2)), num(-2))), "s77");
    CHECK_STR(cfx_repr(add(s77(), s77())), "2*s77");
    CHECK_STR(cfx_repr(over(mul(s77(), num(4)), num(2))), "2*s77");
    CHECK_STR(cfx_repr(over(add(s77(), num(4)), num(2))), "((s77//2)) + 2");
    CHECK_STR(cfx_repr(over(mul(s77(), num(4)), num(6))), "((2*s77)//3)");
    CHECK_STR(cfx_repr(over(mul(s77(), s27()), s27())), "s77");
    CHECK_STR(cfx_repr(over(over(s77(), num(2)), num(3))), "(s77//6)");
    CHECK_STR(cfx_repr(over(add(over(s77(), num(5)), num(-4)), num(2))), "((s77//10)) - 2");
    CHECK_STR(cfx_repr(over(s77(), s77())), "1");
    CHECK_STR(cfx_repr(mul(add(mul(num(4), over(s77(), num(2))), s27()),
                           add(over(s77(), num(2)), s27()))),
              "(s27 + ((s77//2)))*(s27 + 4*((s77//2)))");
    CHECK_STR(cfx_repr(over(num(-7), num(2))), "-4");
    CHECK_STR(cfx_repr(mod(num(-7), num(2))), "1");
    CHECK_STR(cfx_repr(mod(mul(s77(), num(4)), num(2))), "0");
    CHECK_STR(cfx_repr(max(max(s77(), num(1)), max(num(3), s77()))), "Max(3, s77)");
    CHECK_STR(cfx_repr(max(s77(), s77())), "s77");
    CHECK_STR(cfx_repr(cfx__sym_binary(CFX__SYM_POW, mul(num(2), s77()), num(3))), "8*s77**3");
    CHECK_STR(cfx_repr(cfx__sym_binary(CFX__SYM_POW, s77(), num(0))), "1");
}

TEST(sym_numbers_that_do_not_fit_are_errors) {
    static const char what[] = "a number in an expression of sizes does not fit 64 bits";
    cfx_value large = mul(num(INT64_MAX), s77()), least = num(INT64_MIN);
    CHECK(cfx_is_bad(mul(num(2), num(INT64_MAX))));
    CHECK_ERROR(what);
    CHECK(cfx_is_bad(add(large, s77())));
    CHECK_ERROR(what);
    CHECK(cfx_is_bad(mul(large, large)));
    CHECK_ERROR(what);
    CHECK(cfx_is_bad(over(least, num(-1))));
    CHECK_ERROR(what);
    CHECK(cfx_is_bad(mod(least, num(-1))));
    CHECK_ERROR(what);
    CHECK(cfx_is_bad(over(mul(least, s77()), mul(least, s27()))));
    CHECK_ERROR(what);
    CHECK(cfx_is_bad(cfx__sym_binary(CFX__SYM_POW, num(10), num(20))));
    CHECK_ERROR(what);
    cfx_value high = cfx__sym_binary(CFX__SYM_POW, s77(), num(INT64_MAX));
    CHECK(cfx_is_bad(mul(high, s77())));
    CHECK_ERROR(what);
    CHECK_STR(cfx_repr(large), "9223372036854775807*s77");
}

/* As in PyTorch, which frees a quotient of factors that stand in all terms, not of powers. */
TEST(sym_quotients_keep_powers) {
    cfx_value square = mul(s27(), s27());
    CHECK_STR(cfx_repr(over(square, s27())), "((s27**2)//s27)");
    CHECK_STR(cfx_repr(over(add(square, s27()), s27())), "((s27**2 + s27)//s27)");
    CHECK_STR(cfx_repr(over(mul(num(2), mul(s27(), s77())), s27())), "2*s77");
    CHECK_STR(cfx_repr(over(mul(square, s77()), mul(s77(), num(3)))), "((s27**2)//3)");
    cfx_value terms = add(mul(num(4), mul(s27(), s77())), mul(num(2), s27()));
    CHECK_STR(cfx_repr(over(terms, mul(num(4), s27()))), "s77");
}

/* Python's remainder of what may be negative, when sizes are 2 and more, has a name of its own. */
TEST(sym_remainders_by_sign) {
    CHECK_STR(cfx_repr(mod(add(s77(), num(-2)), num(4))), "Mod(s77 - 2, 4)");
    CHECK_STR(cfx_repr(mod(add(s77(), num(-5)), num(4))), "PythonMod(s77 - 5, 4)");
    CHECK_STR(cfx_repr(mod(mul(num(-1), s77()), num(3))), "PythonMod(-s77, 3)");
    CHECK_STR(cfx_repr(mod(add(mul(s27(), s77()), num(-1)), num(7))), "Mod(s27*s77 - 1, 7)");
    CHECK_STR(cfx_repr(mod(add(over(s77(), num(2)), num(-1)), num(5))), "Mod(((s77//2)) - 1, 5)");
    CHECK_STR(cfx_repr(mod(max(add(s77(), num(-5)), num(0)), num(4))), "Mod(Max(0, s77 - 5), 4)");
    cfx_value rest = add(num(256), mul(num(-1), mod(s27(), num(256))));
    CHECK_STR(cfx_repr(mod(rest, num(256))), "Mod(256 - (Mod(s27, 256)), 256)");
}

TEST(sym_hints_follow) {
    cfx_value e = add(over(mul(s77(), s27()), num(4)), num(1)); /* 30 // 4 + 1 */
    CHECK(cfx_as_sym(e)->has_hint);
    CHECK_INT(cfx_as_sym(e)->hint, 8);
    CHECK_INT(cfx_integer(e), 8);
    cfx_value u = add(cfx__sym_name("u0", false, 0), s77());
    CHECK(!cfx_as_sym(u)->has_hint);
}

TEST(sym_equality_and_hash) {
    cfx_value a = add(mul(num(2), s77()), s27()), b = add(s27(), add(s77(), s77()));
    CHECK(cfx_equal_values(a, b));
    CHECK_INT(cfx__value_hash(a), cfx__value_hash(b));
    CHECK(!cfx_equal_values(a, s77()));
    CHECK(!cfx_equal_values(s27(), s77()));
}

TEST(sym_errors) {
    CHECK(cfx_is_bad(over(s77(), num(0))));
    CHECK_STR(cfx_error_last()->message, "division by zero");
    cfx_error_clear();
    CHECK(cfx_is_bad(add(s77(), cfx_string_value("x"))));
    CHECK(!cfx_ok());
    cfx_error_clear();
    CHECK(cfx_is_bad(add(s77(), cfx_bad())));
    CHECK(cfx_ok());
}
