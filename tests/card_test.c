/* Programs on a card that is played: rendered kernels, the executor, graphs, faults. Where
 * CFX_PROGRAMS names folders of programs, those too. */
#include <cfx.h>
#include <cfx/cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../src/cuda/plan.h"

#include "card.h"
#include "folders.h"
#include "test.h"

TEST(programs_on_a_card_agree_with_the_interpreter) {
    if (!card_begin())
        return;
    verdicts v = {0};
    folder_check(cfx_cuda_executor(0), CFX_TEST_DATA "/zoo", &v);
    folder_check(cfx_cuda_executor(0), "examples/data", &v);
    CHECK_INT(v.others, 0);
    CHECK_INT(v.agree, 9);
    CHECK(card.kernels > 30);
    for (const char *at = NULL, *folder; (folder = folder_given(&at)) != NULL;)
        folder_check(cfx_cuda_executor(0), folder, &v);
    printf("%d agree, %ld kernels\n", v.agree, card.kernels);
    card_end();
}

static cfx_program *opened(const char *name) {
    return cfx_open(cfx__text_format("%s/zoo/%s/model.pt2", CFX_TEST_DATA, name));
}

static cfx_tensor *input_of(const char *name, double shift) {
    const cfx_dict *f =
        cfx_safetensors_read(cfx__text_format("%s/zoo/%s/inputs.safetensors", CFX_TEST_DATA, name));
    cfx_tensor *t = cfx_clone(cfx_as_tensor(cfx_dict_get(f, "in0")));
    return cfx_add(t, shift);
}

TEST(runs_on_a_card_are_replayed_as_graphs_with_new_inputs) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_program *p = opened("seed_mlp");
    for (int i = 0; i < 4; i++) {
        cfx_tensor *x = input_of("seed_mlp", 0.25 * i);
        cfx_value v[] = {cfx_tensor_value(x)};
        cfx_value want =
            cfx_program_run_with(CFX_HERE, p, &cfx_interpreter, NULL, (cfx_args){1, v, NULL});
        cfx_value have =
            cfx_program_run_with(CFX_HERE, p, cfx_cuda_executor(0), NULL, (cfx_args){1, v, NULL});
        CHECK_OK();
        CHECK(card_apart(want, have) < 1e-5);
        CHECK_INT(cfx_tensor_device(cfx_as_tensor(have)).type, CFX_CUDA);
    }
    CHECK_INT(card.graphs, 3);
    card_end();
}

TEST(programs_and_tensors_go_to_a_card_and_back) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_program *p = opened("seed_mlp");
    cfx_tensor *x = input_of("seed_mlp", 0);
    cfx_value want = cfx_program_run(p, x);
    cfx_tensor *there = cfx_to(x, "cuda");
    CHECK_OK();
    CHECK_INT(cfx_tensor_device(there).type, CFX_CUDA);
    CHECK_INT(cfx_tensor_device(cfx_to(there, "cpu")).type, CFX_CPU);
    CHECK(card_apart(cfx_tensor_value(there), cfx_tensor_value(x)) == 0);
    CHECK(strstr(cfx_tensor_str(there), "device='cuda:0'") != NULL);
    CHECK(cfx_program_to(p, "cuda"));
    const long before = card.kernels;
    cfx_value have = cfx_program_run(p, there);
    CHECK_OK();
    CHECK(card.kernels > before);
    CHECK(card_apart(want, have) < 1e-5);
    CHECK(cfx_program_to(p, "cpu"));
    CHECK(!cfx_program_to(p, "cuda:9"));
    CHECK_ERROR("cards here are 0 to 0");
    card_end();
}

TEST(a_card_that_cannot_is_an_error_and_the_cpu_goes_on) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_program *p = opened("seed_mlp");
    cfx_tensor *x = input_of("seed_mlp", 0);
    cfx_value v[] = {cfx_tensor_value(x)};
    const cfx_args args = {1, v, NULL};
    const cfx_executor *on = cfx_cuda_executor(0);
    card.most = 1000; /* bytes */
    cfx_program_run_with(CFX_HERE, p, on, NULL, args);
    CHECK_ERROR("out of memory");
    cfx_error_clear();
    card.most = 0;
    const size_t limit = cfx_set_memory_limit(3000);
    cfx_program_run_with(CFX_HERE, p, on, NULL, args);
    CHECK_ERROR("memory limit");
    cfx_error_clear();
    cfx_set_memory_limit(limit);
    cfx_program_run_with(CFX_HERE, p, on, NULL, args);
    CHECK_OK();
    card.fail_kernel = 719;
    cfx_program_run_with(CFX_HERE, p, on, NULL, args);
    CHECK_ERROR("launch failure");
    cfx_error_clear();
    card.fail_kernel = 0;
    cfx_program_run_with(CFX_HERE, p, on, NULL, args);
    CHECK_ERROR("was lost to an error before");
    cfx_error_clear();
    cfx_program_run(p, x);
    CHECK_OK();
    card_end();
}

TEST(a_machine_without_a_card_says_so) {
    if (!card_begin())
        return;
    card.count = 0;
    CHECK_INT(cfx_cuda_count(), 0);
    CHECK(cfx_cuda_executor(0) == NULL);
    CHECK_ERROR("no card");
    cfx_error_clear();
    card_end();
    CHECK(cfx_cuda_count() >= 0); /* whatever is really there */
}

/* Every call of the driver fails once: that is an error in words, or nothing that is missed, and
 * the next run is right. */
TEST(whatever_a_driver_refuses_is_an_error_in_words) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_program *p = opened("seed_mlp");
    cfx_tensor *x = input_of("seed_mlp", 0);
    cfx_value v[] = {cfx_tensor_value(x)};
    const cfx_args args = {1, v, NULL};
    const cfx_executor *on = cfx_cuda_executor(0);
    const cfx_value want = cfx_program_run_with(CFX_HERE, p, &cfx_interpreter, NULL, args);
    int failed = 0, n = 0;
    for (bool more = true; more && n < 1000;) {
        cfx_program *fresh = opened("seed_mlp"); /* which has no plan yet */
        card.fail_after = ++n;
        for (int run = 0; run < 3 && card.fail_after; run++)
            cfx_program_run_with(CFX_HERE, fresh, on, NULL, args);
        more = !card.fail_after;
        card.fail_after = 0;
        if (!cfx_ok()) {
            failed++;
            CHECK(strstr(cfx_error_last()->message, "cuda:0") != NULL);
            cfx_error_clear();
        }
        const cfx_value have = cfx_program_run_with(CFX_HERE, fresh, on, NULL, args);
        CHECK_OK();
        CHECK(card_apart(want, have) < 1e-5);
    }
    CHECK(failed > 8 && n < 1000);
    card_end();
}

typedef struct {
    pthread_t thread;
    cfx_program *program;
    double shift, worst;
    bool fine;
} sharer;

static void *share(void *arg) {
    sharer *s = arg;
    cfx_set_grad_mode(CFX_INFERENCE);
    CFX_SCOPE {
        cfx_value v[] = {cfx_tensor_value(input_of("seed_mlp", s->shift))};
        const cfx_args args = {1, v, NULL};
        const cfx_value want =
            cfx_program_run_with(CFX_HERE, s->program, &cfx_interpreter, NULL, args);
        for (int i = 0; i < 8; i++) {
            const cfx_value have =
                cfx_program_run_with(CFX_HERE, s->program, cfx_cuda_executor(0), NULL, args);
            const double far = cfx_ok() ? card_apart(want, have) : 1;
            s->worst = far > s->worst ? far : s->worst;
        }
        s->fine = cfx_ok();
    }
    cfx_finish(stderr);
    return NULL;
}

TEST(threads_share_a_card_and_a_program) {
    if (!card_begin())
        return;
    sharer all[3];
    cfx_program *p = opened("seed_mlp");
    for (int i = 0; i < COUNT(all); i++) {
        all[i] = (sharer){.program = p, .shift = i};
        pthread_create(&all[i].thread, NULL, share, &all[i]);
    }
    for (int i = 0; i < COUNT(all); i++) {
        pthread_join(all[i].thread, NULL);
        CHECK(all[i].fine && all[i].worst < 1e-5);
    }
    card_end();
}

TEST(drivers_that_are_old_or_do_not_start_are_told) {
    if (!card_begin())
        return;
    card.version = 11080;
    CHECK(cfx_cuda_executor(0) == NULL);
    CHECK_ERROR("the driver is of CUDA 11.8; cfx needs that of 12.0 or newer");
    cfx_error_clear();
    card.version = 13000, card.init = 999;
    CHECK(cfx_cuda_executor(0) == NULL);
    CHECK_ERROR("CUDA cannot be used here");
    cfx_error_clear();
    card.init = 0;
    CHECK(cfx_cuda_executor(0) != NULL);
    CHECK_OK();
    card_end();
}

/* What a kernel written by hand needs and a small card has not is done another way. */
TEST(cards_with_less_of_everything_give_the_same) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    card.processors = 2, card.shared = 48 << 10;
    verdicts v = {0};
    folder_check(cfx_cuda_executor(0), "examples/data", &v);
    CHECK_INT(v.others, 0);
    CHECK(v.agree > 0);
    card_end();
}

TEST(products_on_a_card_multiply_what_was_asked_for) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_module *gm = cfx_module_parse("class GraphModule(torch.nn.Module):\n"
                                      "    def forward(self, x, y):\n"
                                      "        p = torch.ops.aten.linear.default(x, y)\n"
                                      "        return p\n",
                                      "test");
    static const struct {
        cfx_precision precision;
        double least, most; /* how far results are from those of float32 */
    } of[] = {{CFX_PRECISION_F32, 0, 1e-4},
              {CFX_PRECISION_TF32, 1e-5, 0.02},
              {CFX_PRECISION_F16, 1e-5, 0.02},
              {CFX_PRECISION_BF16, 1e-3, 0.2}};
    cfx_tensor *x = cfx_randn(24, 64), *y = cfx_randn(40, 64);
    cfx_value in[] = {cfx_tensor_value(x), cfx_tensor_value(y)};
    const cfx_value want = cfx_tensor_value(cfx_linear(x, y));
    const cfx_value bf16 = cfx_dtype_value(CFX_BF16), f32 = cfx_dtype_value(CFX_F32);
    const cfx_value rounded = cfx_tensor_value(
        cfx_to(cfx_to(cfx_linear(cfx_to(cfx_to(x, bf16), f32), cfx_to(cfx_to(y, bf16), f32)), bf16),
               f32));
    for (int i = 0; i < COUNT(of); i++) {
        cfx_set_precision(of[i].precision);
        cfx_execution e = {.at = CFX_HERE, .module = gm, .inputs = {2, in, NULL}};
        const cfx_value have = cfx_executor_run(cfx_cuda_executor(0), &e);
        CHECK_OK();
        CHECK(card_apart(want, have) >= of[i].least && card_apart(want, have) < of[i].most);
        if (of[i].precision == CFX_PRECISION_BF16) /* what lies between two of bfloat16 */
            CHECK(card_apart(rounded, have) < 0.13);
    }
    cfx_set_precision(CFX_PRECISION_F32);
    card_end();
}

/* How many refs of a plan lie in bfloat16; -1: there is no plan. */
static int halved(cfx_execution *e) {
    cfx__cuda_plan *p = cfx_cuda_executor(0)->prepare(e);
    int n = p ? 0 : -1;
    for (int k = 0; p && k < p->plan->n; k++)
        for (int i = 0; i < p->refs[k].n; i++)
            n += p->refs[k].refs[i].dtype == CFX_BF16;
    cfx_drop(p);
    return n;
}

TEST(programs_on_a_card_keep_activations_in_bfloat16_where_asked_for) {
    if (!card_begin())
        return;
    cfx_set_precision(CFX_PRECISION_BF16);
    verdicts v = {0};
    folder_check(cfx_cuda_executor(0), CFX_TEST_DATA "/zoo", &v);
    folder_check(cfx_cuda_executor(0), "examples/data", &v);
    CHECK_INT(v.others, 0);
    CHECK_INT(v.agree, 9);
    for (const char *at = NULL, *folder; (folder = folder_given(&at)) != NULL;)
        folder_check(cfx_cuda_executor(0), folder, &v);
    printf("%d agree, %ld kernels\n", v.agree, card.kernels);
    cfx_set_precision(CFX_PRECISION_F32);
    card_end();
}

/* What is computed of positions stays float32, and so does what the host has to read. */
TEST(positions_and_masks_on_a_card_stay_float32) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    static const struct {
        const char *lines;
        int halved;
    } of[] = {
        {"p = torch.ops.aten.linear.default(x, w)\n        a = torch.ops.aten.relu.default(p)", 2},
        {"p = torch.ops.aten.to.dtype(i, torch.float32)\n"
         "        q = torch.ops.aten.mul.Tensor(p, 0.37)\n"
         "        a = torch.ops.aten.cos.default(q)", 0},
        {"p = torch.ops.aten.linear.default(x, w)\n"
         "        q = torch.ops.aten.cumsum.default(p, 1)\n"
         "        a = torch.ops.aten.linear.default(q, w)", 1},
    };
    cfx_value in[] = {cfx_tensor_value(cfx_randn(24, 24)), cfx_tensor_value(cfx_randn(24, 24)),
                      cfx_tensor_value(cfx_arange(1000))};
    cfx_set_precision(CFX_PRECISION_BF16);
    for (int c = 0; c < COUNT(of); c++) CFX_SCOPE {
        cfx_module *gm = cfx_module_parse(
            cfx__text_format("class GraphModule(torch.nn.Module):\n"
                             "    def forward(self, x, w, i):\n"
                             "        %s\n"
                             "        return a\n",
                             of[c].lines),
            "test");
        cfx_execution e = {.at = CFX_HERE, .module = gm, .graph = gm->graph,
                           .inputs = {COUNT(in), in, NULL}};
        CHECK_INT(halved(&e), of[c].halved);
        const cfx_value have = cfx_executor_run(cfx_cuda_executor(0), &e);
        cfx_set_precision(CFX_PRECISION_F32);
        const cfx_value want = cfx_executor_run(&cfx_interpreter, &e);
        cfx_set_precision(CFX_PRECISION_BF16);
        const double most = cfx_number(cfx_item(cfx_amax(cfx_abs(want))));
        CHECK_OK();
        CHECK(card_apart(want, have) < (of[c].halved ? 0.02 : 1e-5) * most);
    }
    cfx_set_precision(CFX_PRECISION_F32);
    card_end();
}

/* By the card's own kernels, with indices that meet and that count from the end. */
TEST(elements_are_read_and_written_by_index_on_a_card) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    static const char *const calls[] = {
        "gather.default(x, 1, i)",
        "index_select.default(x, 0, k)",
        "scatter.src(x, 1, i, y)",
        "scatter_add.default(x, 1, i, y)",
        "index_copy.default(x, 1, k, y)",
        "index_add.default(x, 0, l, y)",
        "index_put.default(x, [None, k], y)",
        "index_put.default(x, [l, k], z, True)",
        "index.Tensor(x, [None, i])",
        "index.Tensor(x, [l, k])",
        "embedding.default(x, i)",
        "upsample_nearest2d.default(w, [6, 5])",
        "upsample_bilinear2d.default(w, [6, 5], False)",
    };
    cfx_value in[] = {cfx_tensor_value(cfx_randn(5, 5)),
                      cfx_tensor_value(cfx_randn(5, 3)),
                      cfx_tensor_value(cfx_randn(3)),
                      cfx_tensor_value(cfx_randn(1, 2, 3, 4)),
                      cfx_tensor_value(cfx_tensor_from_value(cfx_list(
                          cfx_list(0, 3, 0), cfx_list(1, 1, 4), cfx_list(2, 0, 2),
                          cfx_list(4, 4, 4), cfx_list(3, 2, 1)))),
                      cfx_tensor_value(cfx_tensor_from_value(cfx_list(4, 0, 2))),
                      cfx_tensor_value(cfx_tensor_from_value(cfx_list(1, 1, 3)))};
    for (int c = 0; c < COUNT(calls); c++) CFX_SCOPE {
        const bool rows = !strncmp(calls[c], "index_add", 9);
        cfx_value own[COUNT(in)];
        memcpy(own, in, sizeof in);
        if (rows)
            own[1] = cfx_tensor_value(cfx_transpose(cfx_as_tensor(in[1]), 0, 1));
        cfx_module *gm = cfx_module_parse(
            cfx__text_format("class GraphModule(torch.nn.Module):\n"
                             "    def forward(self, x, y, z, w, i, k, l):\n"
                             "        a = torch.ops.aten.%s\n"
                             "        return a\n",
                             calls[c]),
            "test");
        cfx_execution e = {.at = CFX_HERE, .module = gm, .graph = gm->graph,
                           .inputs = {COUNT(own), own, NULL}};
        const cfx_value want = cfx_executor_run(&cfx_interpreter, &e);
        const cfx_value have = cfx_executor_run(cfx_cuda_executor(0), &e);
        if (!CHECK_OK() || !CHECK(card_apart(want, have) < 1e-5))
            test_fail(CFX_HERE, "%s", calls[c]);
        cfx__cuda_plan *p = cfx_cuda_executor(0)->prepare(&e);
        for (size_t s = 0; p && s < p->steps.len; s++)
            if (p->steps.data[s].kind == CFX__CUDA_HOST)
                test_fail(CFX_HERE, "%s runs on the host", calls[c]);
        cfx_drop(p);
    }
    card_end();
}

TEST(an_index_out_of_range_is_found_on_a_card) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_module *gm = cfx_module_parse("class GraphModule(torch.nn.Module):\n"
                                      "    def forward(self, x, at):\n"
                                      "        a = torch.ops.aten.index_select.default(x, 0, at)\n"
                                      "        return a\n",
                                      "test");
    cfx_tensor *x = cfx_randn(4, 3);
    cfx_value good[] = {cfx_tensor_value(x),
                        cfx_tensor_value(cfx_tensor_from_value(cfx_list(0, 3)))};
    cfx_value bad[] = {cfx_tensor_value(x),
                       cfx_tensor_value(cfx_tensor_from_value(cfx_list(0, 4)))};
    cfx_execution e = {.at = CFX_HERE, .module = gm, .inputs = {2, good, NULL}};
    cfx_value have = cfx_executor_run(cfx_cuda_executor(0), &e);
    CHECK_OK();
    CHECK(card.kernels > 0);
    CHECK(card_apart(have, cfx_tensor_value(cfx_index_select(x, 0, cfx_as_tensor(good[1])))) == 0);
    e.inputs.v = bad;
    cfx_executor_run(cfx_cuda_executor(0), &e);
    CHECK_ERROR("out of range");
    card_end();
}

/* Values of nodes by name, and whether one takes the place of a node's. */
typedef struct {
    cfx_dict *seen;
    const char *replaced;
} looker;

static cfx_value look(cfx_watcher *w, cfx_node *n, cfx_value v) {
    looker *l = w->user;
    if (v.tag == CFX_TAG_TENSOR)
        cfx_dict_set(l->seen, n->name, cfx_tensor_value(cfx_clone(v)));
    return l->replaced && !strcmp(n->name, l->replaced) ? cfx_tensor_value(cfx_zeros_like(v))
                                                        : cfx_none();
}

static cfx_value watched(const cfx_executor *x, cfx_program *p, cfx_tensor *in, looker *l) {
    cfx_watcher w = {.see = look, .user = l};
    cfx_value v[] = {cfx_tensor_value(in)};
    l->seen = cfx_dict_new();
    return cfx_program_run_with(CFX_HERE, p, x, &w, (cfx_args){1, v, NULL});
}

TEST(who_looks_on_sees_what_a_card_computes_and_may_change_it) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_program *p = opened("seed_mlp");
    cfx_tensor *x = input_of("seed_mlp", 0);
    looker a = {0}, b = {0};
    cfx_value want = watched(&cfx_interpreter, p, x, &a);
    cfx_value have = watched(cfx_cuda_executor(0), p, x, &b);
    CHECK_OK();
    CHECK(card.kernels > 0);
    CHECK(card_apart(want, have) < 1e-5);
    CHECK_INT(a.seen->len, b.seen->len);
    int same = 0;
    for (int64_t i = 0; i < a.seen->len; i++) {
        const cfx_value v = cfx_dict_get(b.seen, cfx_text(a.seen->entries[i].key));
        same += v.tag == CFX_TAG_TENSOR && card_apart(v, a.seen->entries[i].value) < 1e-5;
    }
    CHECK_INT(same, a.seen->len);
    a.replaced = b.replaced = "relu";
    want = watched(&cfx_interpreter, p, x, &a);
    have = watched(cfx_cuda_executor(0), p, x, &b);
    CHECK_OK();
    CHECK(card_apart(want, have) < 1e-5);
    card_end();
}

TEST(programs_that_name_a_card_run_without_one) {
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_module *gm =
        cfx_module_parse("class GraphModule(torch.nn.Module):\n"
                         "    def forward(self, x):\n"
                         "        a = torch.ops.aten.arange.default(4, dtype = torch.float32, "
                         "device = device(type='cuda', index=0), pin_memory = False)\n"
                         "        b = torch.ops.aten.add.Tensor(x, a)\n"
                         "        return b\n",
                         "test");
    CHECK_OK();
    cfx_value x[] = {cfx_tensor_value(cfx_zeros(4))};
    cfx_execution e = {.at = CFX_HERE, .module = gm, .inputs = {1, x, NULL}};
    cfx_value have = cfx_executor_run(&cfx_interpreter, &e);
    CHECK_OK();
    CHECK(card_apart(have, cfx_tensor_value(cfx_arange(4))) == 0);
    have = cfx_executor_run(&cfx_planner, &e);
    CHECK_OK();
    CHECK(card_apart(have, cfx_tensor_value(cfx_arange(4))) == 0);
}

TEST(calls_under_other_names_run_on_a_card) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_module *gm = cfx_module_parse("class GraphModule(torch.nn.Module):\n"
                                      "    def forward(self, x, y, m, n):\n"
                                      "        t = torch.ops.aten.transpose.int(y, -1, -2)\n"
                                      "        p = torch.ops.aten.matmul.default(x, t)\n"
                                      "        s = torch.ops.aten.stack.default([x, y], 1)\n"
                                      "        both = torch.ops.aten.__and__.Tensor(m, n)\n"
                                      "        a = torch.ops.aten.type_as.default(both, x)\n"
                                      "        least = torch.ops.aten.min.other(x, y)\n"
                                      "        v = torch.ops.aten.topk.default(p, 2)\n"
                                      "        top = v[0]\n"
                                      "        at = v[1]\n"
                                      "        r = torch.ops.aten.cumsum.default(x, -1)\n"
                                      "        return (p, s, a, least, top, at, r)\n",
                                      "test");
    CHECK_OK();
    cfx_value in[] = {cfx_tensor_value(cfx_randn(2, 3, 5, 8)),
                      cfx_tensor_value(cfx_randn(2, 3, 5, 8)),
                      cfx_tensor_value(cfx_gt(cfx_randn(4, 4), 0.0)),
                      cfx_tensor_value(cfx_gt(cfx_randn(4, 4), 0.0))};
    cfx_execution e = {.at = CFX_HERE, .module = gm, .inputs = {4, in, NULL}};
    cfx_value want = cfx_executor_run(&cfx_interpreter, &e);
    cfx_value have = cfx_executor_run(cfx_cuda_executor(0), &e);
    CHECK_OK();
    CHECK(card.kernels >= 4);
    for (int i = 0; i < 7 && cfx_ok(); i++)
        CHECK(card_apart(cfx_at(want, i), cfx_at(have, i)) < 1e-5);
    card_end();
}

TEST(everything_on_a_card_begins_where_its_elements_may) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_module *gm = cfx_module_parse("class GraphModule(torch.nn.Module):\n"
                                      "    def forward(self, m, x):\n"
                                      "        w = torch.ops.aten.where.self(m, x, x)\n"
                                      "        v = torch.ops.aten.topk.default(w, 2)\n"
                                      "        top = v[0]\n"
                                      "        at = v[1]\n"
                                      "        return (top, at)\n",
                                      "test");
    cfx_value in[] = {cfx_tensor_value(cfx_gt(cfx_randn(3, 1), 0.0)), /* three bytes */
                      cfx_tensor_value(cfx_randn(3, 5))};
    cfx_execution e = {.at = CFX_HERE, .module = gm, .graph = gm->graph, .inputs = {2, in, NULL}};
    const cfx_executor *x = cfx_cuda_executor(0);
    cfx__cuda_plan *p = x->prepare(&e);
    CHECK_OK();
    int seen = 0;
    for (int k = 0; p && k < p->plan->n; k++)
        for (int i = 0; i < p->refs[k].n; i++, seen++)
            CHECK_INT(cfx__cuda_where(p, &p->refs[k].refs[i]) %
                          (uint64_t)cfx_dtype_size(p->refs[k].refs[i].dtype),
                      0);
    CHECK(seen >= 4);
    x->free(p);
    card_end();
}
