/* The text after it was made: what says nothing is gone, what means something stays. */
#include "compile.h"
#include "../../tests/test.h"

static const char *tidied(const char *text) {
    cfx__text t = {0};
    cfx__text_puts(&t, text);
    cfx__c_tidy(&t);
    return cfx__text_take(&t);
}

#define CHECK_TIDY(from, to) CHECK_STR(tidied(from), to)

TEST(c_terms_that_say_nothing_are_left_out) {
    CHECK_TIDY("p = k * 1 + t * 1 - 0;\n", "p = k + t;\n");
    CHECK_TIDY("x[i * 64 + j + 0 * 8] = a[0 * 4];\n", "x[i * 64 + j] = a[0];\n");
    CHECK_TIDY("x[0 * 4 + 0 * s1 + j] = (0 + k) / 1;\n", "x[j] = k;\n");
    CHECK_TIDY("float *x = (float *)(c->arena + 0);\n", "float *x = (float *)c->arena;\n");
    CHECK_TIDY("f(&e, (c->arena + 0));\n", "f(&e, c->arena);\n");
    CHECK_TIDY("float *x = (float *)(c->arena + 0) + 8;\n", "float *x = (float *)c->arena + 8;\n");
    /* numbers that begin so, factors that are no numbers, what binds more tightly, comments */
    static const char *const stay[] = {"y = x * 1.5f + 0.5f - 0x10;\n",
                                       "y = x * 16 + 01;\n",
                                       "y = a - 0 * f(x);\n",
                                       "y = a + 0 * b[i];\n",
                                       "y = a + 0 / b;\n",
                                       "y = x / 10;\n",
                                       "/* a * 1 + 0 */\n",
                                       "y = x; /* i * 1 + 0 */\n",
                                       "y = x / (c->arena + 10);\n"};
    for (int i = 0; i < COUNT(stay); i++)
        CHECK_TIDY(stay[i], stay[i]);
}

TEST(c_parentheses_around_all_or_around_a_name_are_left_out) {
    CHECK_TIDY("out[i] = (i);\n", "out[i] = i;\n");
    CHECK_TIDY("y = (-INFINITY);\n", "y = -INFINITY;\n");
    CHECK_TIDY("y = x[i] / ((float)(s27));\n", "y = x[i] / (float)s27;\n");
    static const char *const stay[] = {"y = (a) * (b);\n",
                                       "y = (double)(s0 - 1);\n",
                                       "y = f(x);\n",
                                       "y = (float)(x[i]);\n",
                                       "/* y = (x); */\n",
                                       "y = (x); /* (x) */\n",
                                       "for (i = (a); i < (b); i++)\n"};
    for (int i = 0; i < COUNT(stay); i++)
        CHECK_TIDY(stay[i], stay[i]);
}

TEST(c_loops_of_one_round_are_none) {
    CHECK_TIDY("    {\n"
               "        float *out = y;\n"
               "        for (int64_t i = 0; i < 1; i++) {\n"
               "            for (int64_t j = 0; j < 3; j++) {\n"
               "                out[i * 8 + j] = c->i + ii;\n"
               "            }\n"
               "        }\n"
               "    }\n",
               "    {\n"
               "        float *out = y;\n"
               "        for (int64_t j = 0; j < 3; j++)\n"
               "            out[j] = c->i + ii;\n"
               "    }\n");
    /* a name that the block around it has, what goes on with the loop, what follows it */
    static const char *const stay[] = {
        "{\n    float v = 0;\n    for (int64_t i = 0; i < 1; i++) {\n        float v = x[i];\n"
        "    }\n}\n",
        "{\n    for (int64_t i = 0; i < 1; i++) {\n        if (p)\n            continue;\n"
        "    }\n}\n",
        "{\n    for (int64_t i = 0; i < 1; i++)\n        f(i);\n    g();\n}\n",
        "{\n    for (int64_t i = 0; i < 10; i++)\n        f(i);\n}\n"};
    for (int i = 0; i < COUNT(stay); i++)
        CHECK_TIDY(stay[i], stay[i]);
}

TEST(c_blocks_within_a_block_are_one) {
    CHECK_TIDY("{\n    {\n        f();\n    }\n}\n", "{\n    f();\n}\n");
    CHECK_TIDY("{\n    int *to = x;\n    {\n        int v = *to;\n    }\n}\n",
               "{\n    int *to = x;\n    int v = *to;\n}\n");
    /* the step of a node stays a block, and so does one whose names would be there twice */
    static const char *const stay[] = {
        "{\n    /* add: a node */\n    {\n        f();\n    }\n}\n",
        "{\n    {\n        int *to = x;\n    }\n    {\n        int *to = y;\n    }\n}\n"};
    for (int i = 0; i < COUNT(stay); i++)
        CHECK_TIDY(stay[i], stay[i]);
}

/* What is used once stands where it is used, unless something is written in between, it would be
 * computed again or be of another type, or a product and a sum would become one. */
TEST(c_values_used_once_have_no_name) {
    CHECK_TIDY(
        "{\n    const float *x = c->x;\n    const float v0 = x[i];\n    y[i] = v0 * v0;\n}\n",
        "{\n    const float *x = c->x;\n    const float v0 = x[i];\n    y[i] = v0 * v0;\n}\n");
    CHECK_TIDY("{\n    const float *x = c->x;\n    const float v0 = x[i * 4];\n"
               "    const float v1 = v0 - m;\n    const float v2 = v1 * v1;\n"
               "    sum0 += (double)v2;\n}\n",
               "{\n    const float *x = c->x;\n    const float v1 = x[i * 4] - m;\n"
               "    sum0 += (double)(v1 * v1);\n}\n");
    CHECK_TIDY("{\n    const float v2 = v0 + v1;\n    y[i] = v2;\n}\n",
               "{\n    y[i] = v0 + v1;\n}\n");
    CHECK_TIDY("{\n    const float v2_a = v0 / v1;\n    const float v2_b = v2_a - 1.0f;\n"
               "    y[i] = v0;\n}\n",
               "{\n    y[i] = v0;\n}\n");
    static const char *const stay[] = {
        "{\n    const int8_t *x = c->x;\n    const float v0 = x[i];\n    y[i] = v0 + 1.0f;\n}\n",
        "{\n    float *x = c->x;\n    const float v0 = x[i];\n    x[i] = 0;\n    y[i] = v0;\n}\n",
        "{\n    const float v3 = sum1 / 4;\n    sum1 = 0;\n    y[i] = v3;\n}\n",
        "{\n    const float v2 = v0 * v1;\n    y[i] = v2 + v3;\n}\n",
        "{\n    float *x = c->x;\n    const float v0 = x[i];\n"
        "    for (int64_t j = 0; j < 3; j++)\n        y[j] = v0;\n}\n"};
    for (int i = 0; i < COUNT(stay); i++)
        CHECK_TIDY(stay[i], stay[i]);
}

TEST(c_loops_around_one_statement_have_no_braces) {
    CHECK_TIDY("for (int64_t i = 0; i < 2; i++) {\n    for (int64_t j = 0; j < 3; j++) {\n"
               "        to[i * 3 + j] = from[j];\n    }\n}\n",
               "for (int64_t i = 0; i < 2; i++)\n    for (int64_t j = 0; j < 3; j++)\n"
               "        to[i * 3 + j] = from[j];\n");
    static const char *const stay[] = {
        "for (int64_t i = 0; i < 2; i++) {\n    const float v0 = x[i];\n    y[i] = v0 + v0;\n}\n",
        "for (int64_t i = 0; i < 2; i++) {\n    float x = 0;\n}\n",
        "for (int64_t i = 0; i < 2; i++) {\n    if (x[i])\n        y = 1;\n}\n",
        "for (int64_t i = 0; i < 2; i++) {\n    /* none */\n    f();\n}\n",
        "for (int64_t i = 0; i < 2; i++) {\n    f();\n    g();\n}\n"};
    for (int i = 0; i < COUNT(stay); i++)
        CHECK_TIDY(stay[i], stay[i]);
}
