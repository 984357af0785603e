/* The passes of lowering: in an order in which each finds what it reads, and shown one by one. */
#include "plan.h"
#include "plan_test.h"

enum { MOST = 40 };

static cfx_program *small(void) {
    static const char *const names[] = {"w"};
    cfx_tensor *t[] = {cfx_randn(8, 8)};
    return program_of(HEAD "p_w, x):\n"
                           "        a = " ATEN "linear.default(x, p_w)\n"
                           "        b = " ATEN "transpose.int(a, 0, 1)\n"
                           "        c = " ATEN "exp.default(b)\n"
                           "        return (c,)\n",
                      tensors_of(COUNT(names), names, t));
}

/* Words of a text that end before `end`; scope. */
static int words(const char *text, const char *end, const char **out) {
    int n = 0;
    while (text < end && n < MOST) {
        const size_t len = strcspn(text, " ,;\n");
        if (len)
            out[n++] = cfx__text_format("%.*s", (int)len, text);
        text += len ? len : 1;
    }
    return n;
}

/* The names of all passes, as the error of an unknown one says them. */
static int passes_of(cfx_program *p, cfx_value x, const char **names) {
    CHECK(cfx_program_plan_after(p, "", x) == NULL);
    const char *said = cfx_error_last() ? strstr(cfx_error_last()->message, "passes are ") : NULL;
    CHECK(said != NULL);
    const int n = said ? words(said + 11, said + strlen(said), names) : 0;
    cfx_error_clear();
    return n;
}

static bool is_among(const char *word, const char *const *in, int n) {
    bool found = false;
    for (int i = 0; i < n && !found; i++) /* a pass that reads kernels reads some of their fields */
        found = !strncmp(in[i], word, strlen(word)) &&
                (!in[i][strlen(word)] || in[i][strlen(word)] == '.');
    return found;
}

TEST(passes_read_what_others_filled) {
    cfx_program *p = small();
    cfx_value x = cfx_tensor_value(cfx_randn(4, 8));
    const char *names[MOST], *filled[10 * MOST] = {"steps", "inputs"};
    int n = passes_of(p, x, names), nfilled = 2;
    CHECK(n > 10);
    for (int i = 0; i < n; i++) {
        const char *text = cfx_program_plan_after(p, names[i], x);
        const char *reads = text ? strstr(text, "\nreads ") : NULL;
        const char *fills = reads ? strstr(reads, "; fills ") : NULL;
        const char *list[MOST];
        CHECK(fills != NULL);
        const int nreads = fills ? words(reads + 7, fills, list) : 0;
        for (int k = 0; k < nreads; k++)
            if (!is_among(list[k], filled, nfilled))
                test_fail(CFX_HERE, "%s reads %s, which nothing before it fills", names[i],
                          list[k]);
        if (fills)
            nfilled += words(fills + 8, strchr(fills, '\n'), filled + nfilled);
    }
    CHECK_OK();
}

TEST(a_plan_is_shown_after_each_pass) {
    cfx_program *p = small();
    cfx_value x = cfx_tensor_value(cfx_randn(4, 8));
    const char *fake = cfx_program_plan_after(p, "fake", x);
    CHECK(strstr(fake, " placeholder -> f32[8, 8]; constant\n") != NULL);
    CHECK(strstr(fake, " aten.transpose.int -> f32[8, 4]; varies\n") != NULL);
    const char *steps = cfx_program_plan_after(p, "steps", x);
    CHECK(strstr(steps, " aten.linear.default                f32[4, 8]\n"
                        "    = linear(x: f32[4, 8], f32[8, 8])\n") != NULL);
    CHECK(strstr(steps, " aten.exp.default -> f32[8, 4]; varies; inside another kernel; in loop "
                        "0\n") != NULL);
    const char *views = cfx_program_plan_after(p, "views", x);
    CHECK(strstr(views, "f32[8, 4], a view of a from 0, strides [1, 8]\n") != NULL);
    CHECK_OK();
    cfx_program_plan_after(p, "vews", x);
    CHECK_ERROR("there is no pass 'vews'; passes are update, memory, variation, ");
}
