/* Kernels whose threads have several elements each, on a card that is played: small programs are
 * large enough for a card of one multiprocessor. */
#include <cfx.h>
#include <cfx/cuda.h>

#include "../src/plan/plan.h"
#include "../src/plan/plan_test.h"

#include "card.h"
#include "test.h"

/* The farthest that a program's numbers on the card are from the interpreter's, beside the largest
 * of those. */
static double apart_on(cfx_program *p, cfx_tensor *x, cfx_precision precision) {
    cfx_value in[] = {cfx_tensor_value(x)};
    const cfx_args args = {1, in, NULL};
    const cfx_value want = cfx_program_run_with(CFX_HERE, p, &cfx_interpreter, NULL, args);
    cfx_set_precision(precision);
    const cfx_value have = cfx_program_run_with(CFX_HERE, p, cfx_cuda_executor(0), NULL, args);
    cfx_set_precision(CFX_PRECISION_F32);
    CHECK_OK();
    const double most = cfx_number(cfx_item(cfx_amax(cfx_abs(cfx_at(want, 0)))));
    return card_apart(cfx_at(want, 0), cfx_at(have, 0)) / most;
}

/* A layer of a transformer: rows of a norm, what follows a product, copies of what was turned, sums
 * with what lies in another order; of widths that are whole pieces, half ones, and none. */
TEST(threads_of_a_card_have_several_elements) {
    if (!card_begin())
        return;
    static const char *const names[] = {"n", "w", "v"};
    static const struct { int rows, wide; } sizes[] = {{64, 64}, {96, 36}, {90, 33}, {6, 1024}};
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_manual_seed(11);
    card.processors = 1;
    for (int i = 0; i < COUNT(sizes); i++) CFX_SCOPE {
        const int n = sizes[i].wide;
        cfx_tensor *t[] = {cfx_randn(n), cfx_mul(cfx_randn(8, n), 0.1),
                           cfx_mul(cfx_randn(n, 8), 0.1)};
        cfx_program *p = program_of(cfx__text_format(
            HEAD "p_n, p_w, p_v, x):\n"
            CALL("a", "layer_norm.default", "x, [%d], p_n, p_n")
            CALL("b", "linear.default", "a, p_w")
            CALL("c", "gelu.default", "b")
            CALL("d", "linear.default", "c, p_v")
            CALL("e", "transpose.int", "d, 0, 1")
            CALL("f", "contiguous.default", "e")
            CALL("g", "transpose.int", "x, 0, 1")
            CALL("h", "add.Tensor", "f, g")
            CALL("s", "softmax.int", "h, -1")
            CALL("r", "mul.Tensor", "s, h")
            "        return (r,)\n", n), tensors_of(COUNT(names), names, t));
        cfx_tensor *x = cfx_randn(2, sizes[i].rows, n);
        CHECK(apart_on(p, x, CFX_PRECISION_F32) < 1e-5);
        CHECK(apart_on(p, x, CFX_PRECISION_BF16) < 0.03);
    }
    card_end();
}

/* Elements of one byte, of two and of eight in one loop; a row's mean, and one of columns. */
TEST(several_elements_of_all_sizes_are_one_thread_s) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_manual_seed(12);
    card.processors = 1;
    cfx_program *p = program_of(HEAD "x):\n"
        CALL("a", "gt.Scalar", "x, 0")
        CALL("b", "_to_copy.default", "x, dtype = torch.float16")
        CALL("c", "_to_copy.default", "x, dtype = torch.int64")
        CALL("d", "where.self", "a, b, c")
        CALL("e", "mean.dim", "d, [-1], True")
        CALL("f", "mean.dim", "d, [0], True")
        CALL("g", "sub.Tensor", "d, e")
        CALL("h", "add.Tensor", "g, f")
        "        return (h,)\n", tensors_of(0, NULL, NULL));
    CHECK(apart_on(p, cfx_mul(cfx_randn(64, 96), 3.0),
                   CFX_PRECISION_F32) < 2e-3);
    card_end();
}
