/* What decompositions make of numbers: those that tensors hold are read when the program runs, and
 * those that are written in a call are what its kernel makes of them. */
#include "test.h"

#include "../fuzz/use.h"
#include "../src/value/value.h"

#include <string.h>

/* x, and one number. */
static cfx_program *program_of(const char *dtype, const char *call, const char *result) {
    return cfx_program_parse(
        cfx__text_format("class GraphModule(torch.nn.Module):\n"
                         "    def forward(self, x: \"%s[3]\", n: \"f32[]\"):\n"
                         "        y = torch.ops.aten.%s\n"
                         "        return (%s,)\n",
                         dtype, call, result),
        "values");
}

static void compare(cfx_program *p, cfx_value in) {
    cfx_program *parts = cfx_decompose(p, CFX_NONE);
    CHECK_OK();
    outcome whole = use_run(p, &cfx_interpreter, in);
    outcome then = use_run(parts, &cfx_interpreter, in);
    CHECK_STR(whole.why, "");
    CHECK_STR(then.why, "");
    if (!use_same(&whole, &then, 1e-6))
        test_fail(CFX_HERE, "%s, not %s, of %s", cfx_str(then.leaves), cfx_str(whole.leaves),
                  cfx_module_code(p->module));
}

/* Steps, rates, and whether an infinity was found, are data. */
TEST(steps_of_optimisers_read_numbers_when_they_run) {
    static const char *const calls[] = {
        "_fused_adam_.default([x], [x], [x], [x], [], [n], lr=0.1, beta1=0.9, beta2=0.5, "
        "weight_decay=0.1, eps=0.1, amsgrad=False, maximize=False)",
        "_fused_adamw_.tensor_lr([x], [x], [x], [x], [x], [n], lr=n, beta1=0.9, beta2=0.5, "
        "weight_decay=0.1, eps=0.1, amsgrad=True, maximize=True)",
        "_fused_sgd_.tensor_lr([x], [x], [x], weight_decay=0.1, momentum=0.5, lr=n, "
        "dampening=0.1, nesterov=True, maximize=False, is_first_step=False, grad_scale=n)",
        "_fused_adagrad_.tensor_lr([x], [x], [x], [n], lr=n, lr_decay=0.1, weight_decay=0.1, "
        "eps=0.1, maximize=False, grad_scale=n, found_inf=n)"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int n = 1; n <= 3; n++) {
            cfx_tensor *x = cfx_tensor_from_value(cfx_list(1.0, 2.0, -3.0));
            compare(program_of("f32", calls[i], "x"), cfx_list(x, cfx_full(cfx_list(), (double)n)));
        }
}

TEST(steps_of_optimisers_take_one_number) {
    cfx_tensor *x = cfx_ones(cfx_list(2));
    cfx_py("torch._fused_adagrad_", cfx_list(x), cfx_list(x), cfx_list(x), cfx_list(x),
           CFX_KW(lr, 0.1), CFX_KW(lr_decay, 0.1), CFX_KW(weight_decay, 0.1), CFX_KW(eps, 0.1),
           CFX_KW(maximize, false));
    CHECK_ERROR("a Tensor with 2 elements cannot be converted to Scalar");
}

TEST(numbers_decompose_as_kernels_round_them) {
    static const struct {
        const char *dtype, *call;
    } calls[] = {{"f32", "nan_to_num.default(x, 1e+300, -1e+300, 1e+300)"},
                 {"f16", "nan_to_num.default(x, 100000.0, 100000.0)"},
                 {"f32", "isin.Scalar_Tensor(-1e+300, x)"},
                 {"f16", "isin.Scalar_Tensor(1e-45, x)"},
                 {"f32", "special_xlog1py.other_scalar(x, 1e+300)"},
                 {"f16", "xlogy.Scalar_Self(1e+30, x)"},
                 {"i64", "addcmul.default(x, x, x, value = 1.75)"}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        cfx_program *p = program_of(calls[i].dtype, calls[i].call, "y");
        compare(p, fuzz_inputs(p));
    }
    cfx_logit(cfx_ones(cfx_list(2)), -1e300);
    CHECK_ERROR("value cannot be converted to type float without overflow");
}
