/* Tests: TEST(name) { ... } anywhere in a *_test.c file, and it runs. It is registered nowhere.
 *
 * Each test has a process of its own, so a crash, a hang or a leak is one failed test. A failed
 * check is printed and the test goes on; every check is also an expression: whether it held. */
#ifndef CFX_TEST_H
#define CFX_TEST_H

#include <cfx.h>

typedef struct test {
    const char *name, *file;
    void (*run)(void);
    struct test *next;
} test;

void test_register(test *t);

#define TEST(name)                                                                                 \
    static void test_##name(void);                                                                 \
    __attribute__((constructor)) static void register_##name(void) {                               \
        static test t = {#name, __FILE__, test_##name, NULL};                                      \
        test_register(&t);                                                                         \
    }                                                                                              \
    static void test_##name(void)

/* Holds when the expression is true. */
#define CHECK(expr) test_check((expr), CFX_HERE, #expr)
/* Hold when both are equal. */
#define CHECK_INT(got, want) test_check_int((long long)(got), (long long)(want), CFX_HERE, #got)
#define CHECK_STR(got, want) test_check_str(got, want, CFX_HERE, #got)
/* Holds when |got - want| <= tol; nan is near nan. */
#define CHECK_NEAR(got, want, tol) test_check_near(got, want, tol, CFX_HERE, #got)
/* Holds when no error is recorded. */
#define CHECK_OK() test_check_ok(CFX_HERE)
/* Holds when an error is recorded whose message contains the text. Clears it. */
#define CHECK_ERROR(text) test_check_error(text, CFX_HERE)

bool test_check(bool held, cfx_site at, const char *expr);
bool test_check_int(long long got, long long want, cfx_site at, const char *expr);
bool test_check_str(const char *got, const char *want, cfx_site at, const char *expr);
bool test_check_near(double got, double want, double tol, cfx_site at, const char *expr);
bool test_check_ok(cfx_site at);
bool test_check_error(const char *text, cfx_site at);
/* Counts a failure with a message of the caller's, for checks of its own. */
void test_fail(cfx_site at, const char *fmt, ...) CFX_PRINTF(2, 3);

#endif
