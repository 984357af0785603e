/* Layers on a card that is played whose operands lie otherwise than their kernels read them: in
 * bfloat16, or in another order. */
#include <cfx.h>
#include <cfx/cuda.h>

#include "../src/cuda/plan.h"
#include "../src/plan/plan.h"
#include "../src/plan/plan_test.h"

#include "card.h"
#include "test.h"

/* A convolution whose kernel adds nothing: the addition is a kernel over what both left. */
TEST(additions_behind_kernels_of_a_card_read_bfloat16) {
    if (!card_begin())
        return;
    static const char *const names[] = {"w", "d"};
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_manual_seed(7);
    cfx_tensor *t[] = {cfx_randn(8, 8, 1, 1), cfx_randn(8, 1, 3, 3)};
    cfx_program *p = program_of(HEAD "p_w, p_d, x):\n"
        CALL("y", "conv2d.default", "x, p_w")
        CALL("z", "conv2d.default", "y, p_d, None, [1, 1], [1, 1], [1, 1], 8")
        CALL("s", "add.Tensor", "z, y")
        CALL("r", "relu.default", "s")
        "        return (r,)\n", tensors_of(COUNT(names), names, t));
    cfx_value in[] = {cfx_tensor_value(cfx_randn(1, 8, 6, 5))};
    const cfx_args args = {1, in, NULL};
    const cfx_value want = cfx_program_run_with(CFX_HERE, p, &cfx_interpreter, NULL, args);
    cfx_set_precision(CFX_PRECISION_BF16);
    const cfx_value have = cfx_program_run_with(CFX_HERE, p, cfx_cuda_executor(0), NULL, args);
    cfx_set_precision(CFX_PRECISION_F32);
    CHECK_OK();
    const double most = cfx_number(cfx_item(cfx_amax(cfx_abs(cfx_at(want, 0)))));
    CHECK(card_apart(cfx_at(want, 0), cfx_at(have, 0)) < 0.02 * most);
    CHECK(card_apart(cfx_at(want, 0), cfx_at(have, 0)) > 0);
    card_end();
}

/* Copies move 8 bytes at a time where both sides lie so: from elements on that begin or end within
 * such, they do not. */
TEST(copies_on_a_card_move_every_element) {
    if (!card_begin())
        return;
    static const char *const names[] = {"w"};
    static const struct { int from, to; } parts[] = {{0, 12}, {1, 9}, {2, 6}, {4, 12}, {4, 7}};
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_manual_seed(9);
    cfx_tensor *t[] = {cfx_randn(12, 4)}, *x = cfx_randn(3, 5, 4);
    for (int i = 0; i < 2 * COUNT(parts); i++) CFX_SCOPE {
        cfx_program *p = program_of(cfx__text_format(
            HEAD "p_w, x):\n"
            CALL("y", "linear.default", "x, p_w")
            CALL("z", "slice.Tensor", "y, 2, %d, %d")
            CALL("t", "transpose.int", "z, 0, 1")
            CALL("s", "contiguous.default", "t")
            "        return (s,)\n", parts[i / 2].from, parts[i / 2].to),
            tensors_of(COUNT(names), names, t));
        cfx_value in[] = {cfx_tensor_value(x)};
        const cfx_args args = {1, in, NULL};
        const cfx_value want = cfx_program_run_with(CFX_HERE, p, &cfx_interpreter, NULL, args);
        cfx_set_precision(i % 2 ? CFX_PRECISION_BF16 : CFX_PRECISION_F32);
        const cfx_value have = cfx_program_run_with(CFX_HERE, p, cfx_cuda_executor(0), NULL, args);
        cfx_set_precision(CFX_PRECISION_F32);
        CHECK_OK();
        CHECK(card_apart(cfx_at(want, 0), cfx_at(have, 0)) < (i % 2 ? 0.04 : 1e-5));
    }
    card_end();
}

/* Rows of a batch that was turned, and a sum with what was turned as well. */
TEST(products_on_a_card_read_rows_that_are_not_evenly_apart) {
    if (!card_begin())
        return;
    static const char *const names[] = {"w"};
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_manual_seed(8);
    cfx_tensor *t[] = {cfx_randn(12, 12)};
    cfx_program *p = program_of(HEAD "p_w, x):\n"
        CALL("y", "transpose.int", "x, 0, 1")
        CALL("z", "linear.default", "y, p_w")
        CALL("s", "add.Tensor", "z, y")
        "        return (s,)\n", tensors_of(COUNT(names), names, t));
    cfx_value in[] = {cfx_tensor_value(cfx_randn(5, 6, 12))};
    const cfx_args args = {1, in, NULL};
    const cfx_value want = cfx_program_run_with(CFX_HERE, p, &cfx_interpreter, NULL, args);
    const cfx_value have = cfx_program_run_with(CFX_HERE, p, cfx_cuda_executor(0), NULL, args);
    CHECK_OK();
    CHECK(card_apart(cfx_at(want, 0), cfx_at(have, 0)) < 1e-5);
    bool found = false;
    for (const cfx__prepared *q = p->module->graph->prepared; q; q = q->next) {
        const cfx__cuda_plan *c = !strncmp(q->by->name, "cuda", 4) ? q->form : NULL;
        for (size_t i = 0; c && i < c->steps.len; i++)
            found |= c->steps.data[i].function && !strcmp(c->steps.data[i].function, "product");
    }
    CHECK(found);
    card_end();
}

/* A cache stays float32 where activations are bfloat16: what is put there and what attention reads
 * of it is converted on the way. */
static void check_cache(int64_t tokens) {
    static const char *const names[] = {"w", "cache"};
    cfx_manual_seed(9);
    cfx_tensor *t[] = {cfx_randn(96, 96), cfx_randn(1, 60, 96)};
    const char *text = HEAD "p_w, p_cache, at, x):\n"
        CALL("y", "linear.default", "x, p_w")
        CALL("wrote", "index_copy_.default", "p_cache, 1, at, y")
        CALL("q", "unsqueeze.default", "y, 1")
        CALL("k", "unsqueeze.default", "wrote, 1")
        CALL("z", "scaled_dot_product_attention.default", "q, k, k")
        CALL("r", "relu.default", "z")
        "        return (r,)\n";
    cfx_program *here = program_of(text, tensors_of(COUNT(names), names, t));
    cfx_tensor *own[] = {t[0], cfx_clone(t[1])};
    cfx_program *there = program_of(text, tensors_of(COUNT(names), names, own));
    CHECK(cfx_program_to(there, "cuda"));
    for (int i = 0; i < 3; i++) CFX_SCOPE {
        cfx_value in[] = {cfx_tensor_value(cfx_arange(i, i + tokens)),
                          cfx_tensor_value(cfx_mul(cfx_randn(1, tokens, 96), 0.05))};
        const cfx_args args = {2, in, NULL};
        const cfx_value want = cfx_program_run_with(CFX_HERE, here, &cfx_interpreter, NULL, args);
        cfx_set_precision(CFX_PRECISION_BF16);
        const cfx_value have = cfx_program_run_with(CFX_HERE, there, NULL, NULL, args);
        cfx_set_precision(CFX_PRECISION_F32);
        CHECK_OK();
        CHECK(card_apart(cfx_at(want, 0), cfx_at(have, 0)) < 0.05);
        const cfx_value mine = cfx_tensor_value(cfx_program_tensor(here, &here->inputs[1]));
        const cfx_value its = cfx_tensor_value(cfx_program_tensor(there, &there->inputs[1]));
        CHECK(card_apart(mine, its) > 0 && card_apart(mine, its) < 0.02);
    }
}

TEST(caches_of_floats_on_a_card_are_used_by_what_is_bfloat16) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    check_cache(1);
    check_cache(50);
    card_end();
}
