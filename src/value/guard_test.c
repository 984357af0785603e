/* Guards are computed as Python does, and shown as PyTorch shows them. */
#include "guard.h"
#include "test.h"

static bool sizes(const char *source, size_t len, void *user, int64_t *out) {
    *out = !strncmp(source, "L['x'].size()[0]", len) ? ((int64_t *)user)[0]
                                                     : ((int64_t *)user)[1];
    return strncmp(source, "L['gone']", 9) != 0;
}

/* Whether a guard holds at x.size()[0] = n, and 8 for every other size. */
static cfx__truth holds(const char *text, int64_t n) {
    return cfx__guard_holds(text, sizes, (int64_t[]){n, 8});
}

TEST(guard_compares) {
    const char *same = "L['x'].size()[0] == L['y'].size()[1]";
    CHECK_INT(holds(same, 8), CFX__TRUE);
    CHECK_INT(holds(same, 7), CFX__FALSE);
    CHECK_INT(holds("L['x'].size()[0] != 64", 64), CFX__FALSE);
    CHECK_INT(holds("2 <= L['x'].size()[0] <= 9", 9), CFX__TRUE);
    CHECK_INT(holds("2 <= L['x'].size()[0] <= 9", 10), CFX__FALSE);
    CHECK_INT(holds("2 <= L['x'].size()[0] and L['x'].size()[0] <= 9", 1), CFX__FALSE);
    CHECK_INT(holds("not L['x'].size()[0] > 3", 3), CFX__TRUE);
}

TEST(guard_arithmetic_is_pythons) {
    CHECK_INT(holds("(((-2) + L['x'].size()[0]) % 2) == 0", 6), CFX__TRUE);
    CHECK_INT(holds("(((-2) + L['x'].size()[0]) % 2) == 0", 1), CFX__FALSE); /* -1 % 2 is 1 */
    CHECK_INT(holds("((-7) // L['x'].size()[0]) == -4", 2), CFX__TRUE);
    CHECK_INT(holds("min(16*L['x'].size()[0], 8*L['y'].size()[0]) == (8*L['y'].size()[0])", 4),
              CFX__TRUE);
    CHECK_INT(holds("(-1)*L['x'].size()[0] <= -7", 6), CFX__FALSE);
    CHECK_INT(holds("L['x'].size()[0] / 2 > 2.25", 5), CFX__TRUE);
    CHECK_INT(holds("int(L['x'].size()[0] / 2) == 2", 5), CFX__TRUE);
    CHECK_INT(holds("2**L['x'].size()[0] == 32", 5), CFX__TRUE);
}

/* Of what is decided already nothing is computed. */
TEST(guard_or_stops) {
    const char *text = "L['x'].size()[0] == 0 or (8 % L['x'].size()[0]) == 0";
    CHECK_INT(holds(text, 0), CFX__TRUE);
    CHECK_INT(holds(text, 3), CFX__FALSE);
    CHECK_INT(holds("L['x'].size()[0] != 0 and (8 % L['x'].size()[0]) == 0", 0), CFX__FALSE);
}

TEST(guard_that_has_no_answer) {
    static const char *const texts[] = {"8 % L['x'].size()[0] == 0", "L['gone'].size()[0] == 1",
                                        "L['x'].size()[0] ==", "f(L['x'].size()[0]) == 1", "",
                                        "9223372036854775807 + L['x'].size()[0] > 0", "(1 == 1"};
    for (int i = 0; i < COUNT(texts); i++)
        CHECK_INT(holds(texts[i], i ? 1 : 0), CFX__UNKNOWN);
    cfx__text deep = {0};
    for (int i = 0; i < 100000; i++)
        cfx__text_putc(&deep, i % 2 ? '(' : '-');
    CHECK_INT(holds(deep.data, 1), CFX__UNKNOWN);
    cfx__text_release(&deep);
    CHECK_OK();
}

TEST(guard_is_shown_as_python_unparses_it) {
    CHECK_STR(cfx__guard_shown("(L['x'].size()[0] % 16) == 0"), "x.size()[0] % 16 == 0");
    CHECK_STR(cfx__guard_shown("(8*L['ids'].size()[1]) != 56"), "8 * ids.size()[1] != 56");
    CHECK_STR(cfx__guard_shown("(2 + (L['z']['k'].size()[1] // 3))*((-1) + min(7, "
                               "L['x'][0].size()[0])) <= -4"),
              "(2 + z['k'].size()[1] // 3) * (-1 + min(7, x[0].size()[0])) <= -4");
    CHECK_STR(cfx__guard_shown("(1 == 2) or ((3 == 4) and (not (5 == 6)))"),
              "1 == 2 or (3 == 4 and (not 5 == 6))");
    CHECK_STR(cfx__guard_shown("1 == 2 or 2 == 3 or 3 == 4 or 4 == 5"),
              "1 == 2 or 2 == 3 or 3 == 4 or (4 == 5)");
    CHECK_STR(cfx__guard_shown("(1 == 2 and 2 == 3) or (3 == 4 and 4 == 5)"),
              "1 == 2 and 2 == 3 or (3 == 4 and 4 == 5)");
    CHECK_STR(cfx__guard_shown("3 - (2 - 1)"), "3 - (2 - 1)");
    CHECK_STR(cfx__guard_shown("(-3)**(-2)"), "(-3) ** (-2)");
    CHECK_STR(cfx__guard_shown("what is this"), "what is this");
}

TEST(guard_is_written_as_pytorch_writes_it) {
    cfx_value x = cfx__sym_name("L['x'].size()[0]", false, 0), one = cfx_int(-1);
    cfx_value y = cfx__sym_name("L['y'].size()[1]", false, 0), two = cfx_int(2);
    cfx_value less = cfx__sym_binary(CFX__SYM_ADD, x, one);
    cfx_value product = cfx__sym_binary(CFX__SYM_MUL, x, y);
    CHECK_STR(cfx__guard_text(x, CFX__NE, cfx_int(7)), "L['x'].size()[0] != 7");
    CHECK_STR(cfx__guard_text(cfx__sym_binary(CFX__SYM_MOD, less, two), CFX__EQ, cfx_int(0)),
              "(((-1) + L['x'].size()[0]) % 2) == 0");
    CHECK_STR(cfx__guard_text(product, CFX__LT, cfx_int(200)),
              "L['x'].size()[0]*L['y'].size()[1] < 200");
    CHECK_STR(cfx__guard_text(cfx__sym_binary(CFX__SYM_MUL, product, cfx_int(8)), CFX__EQ,
                              cfx__sym_binary(CFX__SYM_FLOORDIV, y, two)),
              "(8*L['x'].size()[0]*L['y'].size()[1]) == (L['y'].size()[1] // 2)");
    CHECK_STR(cfx__guard_text(cfx__sym_binary(CFX__SYM_MUL, x, one), CFX__LE, cfx_int(-7)),
              "(-1)*L['x'].size()[0] <= -7");
    CHECK_STR(cfx__guard_text(cfx__sym_binary(CFX__SYM_MIN, y, two), CFX__GE, x),
              "min(2, L['y'].size()[1]) >= L['x'].size()[0]");
}
