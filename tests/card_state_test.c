/* Programs that write to memory that stays, on a card that is played: caches, counters,
 * sessions. */
#include <cfx.h>
#include <cfx/cuda.h>
#include <cfx/session.h>

#include "../src/plan/plan.h"
#include "../src/plan/plan_test.h"

#include "card.h"
#include "test.h"

/* A step of a decoder: keys are written at a place that is counted on, then looked at. */
static const char step[] = "class GraphModule(torch.nn.Module):\n"
                           "    def forward(self, cache, at, x):\n"
                           "        k = torch.ops.aten.mul.Tensor(x, 0.5)\n"
                           "        now = torch.ops.aten.index_copy_.default(cache, 1, at, k)\n"
                           "        up = torch.ops.aten.add_.Tensor(at, 1)\n"
                           "        part = torch.ops.aten.slice.Tensor(now, 1, 0, 1)\n"
                           "        set = torch.ops.aten.copy_.default(part, x)\n"
                           "        t = torch.ops.aten.transpose.int(now, 1, 2)\n"
                           "        p = torch.ops.aten.matmul.default(x, t)\n"
                           "        return p\n";

/* Runs of the step, each behind the other; `card` says where the cache lies. */
static void check_steps(bool card_cache) {
    cfx_module *gm = cfx_module_parse(step, "test");
    cfx_value mine[] = {cfx_tensor_value(cfx_zeros(2, 8, 4)),
                        cfx_tensor_value(cfx_tensor_from_value(cfx_list(2))), cfx_none()};
    cfx_value there[] = {cfx_tensor_value(cfx_clone(mine[0])),
                         cfx_tensor_value(cfx_clone(mine[1])), cfx_none()};
    for (int i = 0; i < 2 && card_cache; i++)
        there[i] = cfx_tensor_value(cfx_to(there[i], "cuda"));
    for (int i = 0; i < 4 && cfx_ok(); i++) {
        mine[2] = there[2] = cfx_tensor_value(cfx_randn(2, 1, 4));
        cfx_execution a = {.at = CFX_HERE, .module = gm, .graph = gm->graph,
                           .inputs = {3, mine, NULL}};
        cfx_execution b = a;
        b.inputs.v = there;
        if (i == 2 && !card_cache) { /* the caller writes between two runs */
            cfx_fill_(cfx_as_tensor(mine[0]), 2);
            cfx_fill_(cfx_as_tensor(there[0]), 2);
        }
        const cfx_value want = cfx_executor_run(&cfx_interpreter, &a);
        const long before = card.kernels + card.graphs;
        const cfx_value have = cfx_executor_run(cfx_cuda_executor(0), &b);
        CHECK_OK();
        CHECK(card.kernels + card.graphs > before);
        CHECK(card_apart(want, have) < 1e-5);
        CHECK(card_apart(mine[0], there[0]) < 1e-6 && card_apart(mine[1], there[1]) == 0);
    }
}

TEST(caches_are_written_where_they_stand_on_a_card) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    check_steps(false);
    check_steps(true);
    card_end();
}

/* A cache under two names, and a counter. */
static cfx_program *counting(void) {
    static const char *const names[] = {"w", "cache", "at", "same"};
    cfx_manual_seed(3);
    cfx_tensor *cache = cfx_zeros(40, 4);
    cfx_tensor *t[] = {cfx_randn(4, 4), cache, cfx_zeros(cfx_list(1), CFX_KW(dtype, cfx_i64)),
                       cfx_view(cache, cfx_list(40, 4))};
    return program_of(HEAD "p_w, p_cache, p_at, p_same, x):\n"
        CALL("y", "linear.default", "x, p_w")
        CALL("wrote", "index_copy_.default", "p_cache, 0, p_at, y")
        "        here = torch.ops.aten.to.device(p_at, device(type='cpu'), torch.int64)\n"
        CALL("next", "add_.Tensor", "here, 1")
        CALL("z", "linear.default", "p_same, p_w")
        CALL("r", "relu.default", "z")
        "        return (r,)\n", tensors_of(COUNT(names), names, t));
}

TEST(sessions_and_programs_on_a_card_keep_what_they_write_there) {
    if (!card_begin())
        return;
    enum { USERS = 2, STEPS = 4 };
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_program *shared = counting(), *alone[USERS + 1];
    cfx_session *users[USERS];
    for (int u = 0; u <= USERS; u++)
        alone[u] = counting();
    CHECK(cfx_program_to(shared, "cuda"));
    cfx_tensor *cache = cfx_program_tensor(shared, &shared->inputs[1]);
    CHECK_INT(cache->storage->device.type, CFX_CUDA);
    CHECK(cfx_program_tensor(shared, &shared->inputs[3])->data == cache->data);
    CHECK_INT(cfx_program_tensor(shared, &shared->inputs[0])->storage->device.type, CFX_CPU);
    for (int u = 0; u < USERS; u++)
        users[u] = cfx_session_new();
    for (int i = 0; i < STEPS; i++)
        for (int u = 0; u <= USERS; u++) {
            cfx_manual_seed((uint64_t)(100 * u + i));
            cfx_tensor *x = cfx_randn(1, 4);
            cfx_value in[] = {cfx_tensor_value(x)};
            const long before = card.kernels + card.graphs;
            const cfx_value have =
                u < USERS ? cfx_session_run(users[u], shared, x) : cfx_program_run(shared, x);
            CHECK(card.kernels + card.graphs > before);
            const cfx_value want = cfx_program_run_with(CFX_HERE, alone[u], &cfx_interpreter, NULL,
                                                        (cfx_args){1, in, NULL});
            CHECK_OK();
            CHECK(card_apart(cfx_at(have, 0), cfx_at(want, 0)) < 1e-5);
        }
    cfx_tensor *own = cfx_session_tensor(users[0], cache);
    CHECK(own != cache && own->storage->device.type == CFX_CUDA);
    CHECK(cfx_program_to(shared, "cpu"));
    cfx_tensor *back = cfx_program_tensor(shared, &shared->inputs[1]);
    CHECK_INT(back->storage->device.type, CFX_CPU);
    CHECK(card_apart(cfx_tensor_value(back), cfx_tensor_value(cfx_program_tensor(
                                            alone[USERS], &alone[USERS]->inputs[1]))) < 1e-5);
    card_end();
}

/* A cache that the signature says a result becomes; more results may be the same value. */
static cfx_program *becoming(bool twice) {
    static const char *const names[] = {"cache"};
    cfx_tensor *t[] = {cfx_zeros(40, 4)};
    cfx_program *p = program_of(
        twice ? HEAD "p_cache, at, x):\n"
            CALL("now", "index_copy.default", "p_cache, 0, at, x")
            CALL("y", "relu.default", "now") "        return (now, y, now)\n"
              : HEAD "p_cache, at, x):\n"
            CALL("now", "index_copy.default", "p_cache, 0, at, x")
            CALL("y", "relu.default", "now") "        return (now, y)\n",
        tensors_of(COUNT(names), names, t));
    p->outputs[0].kind = CFX_OUT_PARAMETER_MUTATION;
    p->outputs[0].target = "cache";
    return p;
}

TEST(what_a_buffer_becomes_is_written_to_it_on_a_card) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    for (int twice = 0; twice < 2; twice++) {
        cfx_program *there = becoming(twice), *here = becoming(twice);
        CHECK(cfx_program_to(there, "cuda"));
        long copies = 0;
        for (int64_t i = 0; i < 4; i++) CFX_SCOPE {
            cfx_tensor *x = cfx_randn(1, 4), *at = cfx_full(cfx_list(1), i);
            cfx_value in[] = {cfx_tensor_value(at), cfx_tensor_value(x)};
            const long kernels = card.kernels + card.graphs, before = card.copies;
            const cfx_value have = cfx_program_run(there, at, x);
            CHECK(card.kernels + card.graphs > kernels);
            copies = card.copies - before;
            const cfx_value want = cfx_program_run_with(CFX_HERE, here, &cfx_interpreter, NULL,
                                                        (cfx_args){2, in, NULL});
            CHECK_OK();
            CHECK(card_apart(cfx_at(have, 0), cfx_at(want, 0)) < 1e-6);
            CHECK(card_apart(cfx_tensor_value(cfx_program_tensor(there, &there->inputs[0])),
                        cfx_tensor_value(cfx_program_tensor(here, &here->inputs[0]))) == 0);
        }
        CHECK(twice || copies == 4); /* two inputs, a result, whether an index is out of range */
    }
    card_end();
}
