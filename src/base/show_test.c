/* What a terminal may see: texts stay on their lines, formats give what printf gives otherwise. */
#include "base.h"
#include "test.h"

static const char *shown(const char *fmt, ...) CFX_PRINTF(1, 2);
static const char *shown(const char *fmt, ...) {
    cfx__text t = {0};
    va_list ap;
    va_start(ap, fmt);
    cfx__text_vshow(&t, fmt, ap);
    va_end(ap);
    return cfx__text_take(&t);
}

TEST(a_text_stays_on_its_line) {
    cfx__text t = {0};
    const char text[] = "a\nb\tc\033[2J\xc3\xa9\xff\xe2\x80\xae.";
    cfx__text_line(&t, text, strlen(text));
    CHECK_STR(t.data, "a\\nb\\tc\\u001b[2J\xc3\xa9\\xff\\u202e.");
    cfx__text_release(&t);
    CHECK_STR(shown("'%s' of\n'%.3s'", "a\nb", "xy\nz"), "'a\\nb' of\n'xy\\n'");
    CHECK_STR(shown("%s", "two\nlines\033"), "two\nlines\\u001b");
    CHECK_STR(shown("[%-6s|%6s|%*s|%-*s]", "a\n", "b", 3, "c", 4, "d"),
              "[a\\n   |     b|  c|d   ]");
}

TEST(formats_give_what_printf_gives) {
    CHECK_STR(shown("100%% %d %5d %-5d| %05d %+d", 1, 2, 3, 4, 5), "100% 1     2 3    | 00004 +5");
    CHECK_STR(shown("%lld %zu %lu %hhd %c", -1LL, (size_t)2, 3ul, 4, 'x'), "-1 2 3 4 x");
    CHECK_STR(shown("%g %.3f %8.2e %10.4g %-9.3g|", 0.5, 1.0 / 3, 12345.0, 2.5, 7.0),
              "0.5 0.333 1.23e+04        2.5 7        |");
    CHECK_STR(shown("%.*f %*d %Lg %#x %.*s", 2, 1.5, 4, 7, (long double)2.25, 255u, 2, "abc"),
              "1.50    7 2.25 0xff ab");
    CHECK_STR(shown("%5.1f%% of %s", 12.34, "all"), " 12.3% of all");
    CHECK_STR(shown("%-*s|", -5, "ab"), "ab   |");
}

TEST(an_error_of_one_line_has_one) {
    cfx_fail(CFX_VALUE_ERROR, CFX_HERE, "no node is called '%s'", "a\nb");
    CHECK_ERROR("no node is called 'a\\nb'");
    cfx__fail_lines(CFX_VALUE_ERROR, CFX_HERE, "this is no graph:\n%s", "a\nb\033");
    CHECK_ERROR("this is no graph:\na\nb\\u001b");
}
