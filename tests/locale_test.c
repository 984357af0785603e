/* A program that has chosen a locale with a decimal comma, or one in which i and I are no pair:
 * what is printed and read stays as it is. Nothing is seen where no such locale is installed. */
#include <cfx/ops.h>

#include <locale.h>
#include <string.h>

#include "test.h"

static bool chosen(const char *language) {
    static const char *const codes[] = {"UTF-8", "utf8", "ISO-8859-1", "ISO-8859-9"};
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.%s", language, codes[i]);
        if (setlocale(LC_ALL, name))
            return true;
    }
    return false;
}

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return cfx_add(cfx_mul(x, 1.5), 0.25, CFX_KW(alpha, 2.5));
}

static void check_all(void) {
    CHECK_STR(cfx_str(cfx_tensor_from_value(cfx_list(1.5, 2.25e-7))),
              "tensor([1.5000e+00, 2.2500e-07])");
    CHECK_STR(cfx_repr(cfx_float(0.1)), "0.1");
    cfx_module *gm = cfx_symbolic_trace(cfx_module_new("M", forward, "x"));
    const char *code = cfx_module_code(gm);
    CHECK(strstr(code, "torch.mul(x, 1.5)") && strstr(code, "0.25, alpha = 2.5"));
    cfx_module *read = cfx_module_parse(code, NULL);
    CHECK_STR(cfx_module_code(read), code);
    CHECK_NEAR(cfx_tensor_get(cfx_forward(read, cfx_ones(1)), 0), 2.125, 0);
    CHECK_NEAR(cfx_tensor_get(cfx_celu(cfx_ones(1)), 0), 1, 0); /* a default of 1.0 is read */
    cfx_linspace(0.5, 1.5, -1);
    CHECK_ERROR("number of steps must be non-negative");
    cfx_tensor *x = cfx_requires_grad(cfx_ones(1), true);
    CHECK_STR(cfx_tensor_grad_fn(cfx_i0(x)), "I0Backward0");
    CHECK_OK();
}

TEST(texts_are_the_same_with_a_decimal_comma) {
    if (chosen("de_DE"))
        CHECK_STR(localeconv()->decimal_point, ",");
    check_all();
}

TEST(texts_are_the_same_where_i_has_another_capital) {
    chosen("tr_TR");
    check_all();
}
