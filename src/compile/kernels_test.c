/* Pieces of kernels in a generated text. */
#include "test.h"

#include "kernels.h"

TEST(kernels_bring_what_they_need) {
    cfx__kernels k = {{0}};
    cfx__text t = {0};
    CHECK(!cfx__kernels_use(&k, "no_such"));
    cfx__kernels_use_in(&k, "m_", "void f(void) { m_product(1, am_bound, m_own); }");
    cfx__kernels_write(&k, "m_", false, &t);
    const char *text = cfx__text_take(&t);
    CHECK(strstr(text, "static void m_product("));
    CHECK(strstr(text, "enum { m_LANES") && strstr(text, "#define m_VECTOR 64"));
    CHECK(strstr(text, "enum { m_LANES") < strstr(text, "static void m_product("));
    CHECK(!strstr(text, "NAME_") && !strstr(text, "#pragma omp") && !strstr(text, "embedded"));
    const char *once = strstr(text, "static void m_tile_sums(");
    CHECK(once && !strstr(once + 1, "static void m_tile_sums("));
}

/* Who reads the text has nothing of what made it. */
TEST(kernels_say_nothing_of_their_generator) {
    cfx__kernels k;
    cfx__text t = {0};
    memset(&k, 0xff, sizeof k);
    cfx__kernels_write(&k, "m_", false, &t);
    const char *text = cfx__text_take(&t);
    CHECK(strstr(text, "m_conv_winograd("));
    CHECK(!strstr(text, "cfx_") && !strstr(text, "src/"));
}

TEST(kernels_mark_loops_for_threads) {
    cfx__kernels k = {{0}};
    cfx__text t = {0};
    CHECK(cfx__kernels_use(&k, "product"));
    cfx__kernels_write(&k, "", true, &t);
    CHECK(strstr(cfx__text_take(&t), "#pragma omp parallel for schedule(dynamic)\n        for ("));
}

/* Lines that go on inside of parentheses begin behind them, whatever the prefix. */
TEST(kernels_are_aligned_with_any_prefix) {
    static const char *const prefixes[] = {"m_", "a_prefix_that_is_long_"};
    for (int i = 0; i < COUNT(prefixes); i++) {
        cfx__kernels k = {{0}};
        cfx__text t = {0};
        CHECK(cfx__kernels_use(&k, "product"));
        cfx__kernels_write(&k, prefixes[i], false, &t);
        const char *text = cfx__text_take(&t);
        const char *head =
            strstr(text, cfx__text_format("static void %stile_finish(", prefixes[i]));
        const char *next = head ? strchr(head, '\n') : NULL;
        CHECK(next && strspn(next + 1, " ") == (size_t)(strchr(head, '(') - head) + 1);
        for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
            const size_t n = strcspn(line, "\n");
            CHECK(!n || line[n - 1] != '\\' || n == 100); /* lines of macros */
        }
    }
}
