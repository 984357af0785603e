/* Programs as text, with their tensors beside them. */
#include "pt2.h"
#include "files.h"

#include <cfx/ops.h>

#include <stdlib.h>
#include <unistd.h>

#define ZOO CFX_TEST_DATA "/zoo/"

static void clean(void) {
    test_unlink("m.fx");
    test_unlink("m.safetensors");
    test_unlink("m.pt2");
    test_folder_done();
}

static void put(const char *text) {
    FILE *f = fopen(test_path("m.fx"), "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

TEST(programs_become_text_and_come_back) {
    static const char *const names[] = {"bf16_linear",     "cond",      "dyn_conv", "index_zoo",
                                        "mutating_buffer", "pytree_io", "seed_mlp", "while_loop"};
    for (int i = 0; i < COUNT(names); i++)
        CFX_SCOPE {
            cfx_program *p = cfx_open(cfx__text_format(ZOO "%s/model.pt2", names[i]));
            CHECK(cfx_save(p, test_path("m.fx")));
            cfx_program *q = cfx_open(test_path("m.fx"));
            if (!CHECK_OK() || !CHECK(!cfx_failed(q)))
                continue;
            CHECK_STR(cfx_program_str(q), cfx_program_str(p));
            cfx_each_node(p->module->graph, n) {
                const cfx_node *same = cfx_graph_find(q->module->graph, n->name);
                cfx_value a = cfx_node_get_meta(n, "nn_module_stack");
                CHECK(same && cfx_equal_values(a, cfx_node_get_meta(same, "nn_module_stack")));
            }
            CHECK(cfx_equal_values(q->in_spec, p->in_spec));
            CHECK_INT(q->state->len, p->state->len);
            CHECK_INT(q->constants->len, p->constants->len);
            CHECK(cfx_save(q, test_path("m.pt2")));
            p = cfx_open(test_path("m.pt2"));
            CHECK_STR(cfx_graph_str(p->module->graph), cfx_graph_str(q->module->graph));
            CHECK_OK();
        }
    clean();
}

static cfx_tensor *read_flat(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *w = cfx_attr(self, "w");
    return cfx_add(x, cfx_as_strided(w, cfx_list(6), cfx_list(1)));
}

/* as_strided reads memory, whatever lies there: a weight that is transposed stays so. */
TEST(texts_keep_how_tensors_lie) {
    cfx_module *m = cfx_module_new("Flat", read_flat, "x");
    cfx_nn_buffer(m, "w", cfx_t(cfx_reshape(cfx_arange(6.0), cfx_list(2, 3))), true);
    cfx_tensor *x = cfx_zeros(6);
    cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE);
    const char *want = cfx_str(cfx_program_run(p, x));
    CHECK(strstr(want, "[0., 1., 2., 3., 4., 5.]") != NULL);
    CHECK(cfx_save(p, test_path("m.fx")));
    CHECK_STR(cfx_str(cfx_program_run(cfx_open(test_path("m.fx")), x)), want);
    CHECK_OK();
    clean();
}

/* What lies around a tensor is in no .safetensors file. */
TEST(texts_do_not_lose_memory_that_nodes_read) {
    cfx_module *gm =
        cfx_module_parse("def forward(self, b_w):\n"
                         "    y = torch.ops.aten.as_strided_copy.default(b_w, [2], [1], 0)\n"
                         "    return (y,)\n",
                         "test");
    cfx_program *p = cfx_program_new(gm);
    cfx_program_add_input(
        p,
        (cfx_input_spec){.kind = CFX_IN_BUFFER, .name = "b_w", .persistent = true, .target = "w"});
    cfx_tensor *all = cfx_tensor_from_value(cfx_list(1.0, 2.0, 3.0, 4.0));
    cfx_dict_set(p->state, "w", cfx_tensor_value(cfx_slice(all, 0, 2)));
    CHECK_STR(cfx_str(cfx_at(cfx_program_run(p), 0)), "tensor([1., 2.])");
    CHECK(!cfx_save(p, test_path("m.fx")));
    CHECK_ERROR("w lies in more memory than its own, which the format does not keep, and node y "
                "(aten.as_strided_copy.default) may read it by strides: save the program "
                "as .pt2");
    CHECK(cfx_save(p, test_path("m.pt2")));
    cfx_program *read = cfx_open(test_path("m.pt2"));
    CHECK_STR(cfx_str(cfx_at(cfx_program_run(read), 0)), "tensor([1., 2.])");
    clean();
}

TEST(texts_of_the_users_find_their_tensors) {
    put("def forward(self, b_scale, x):\n"
        "    w = self.fc.weight\n"
        "    linear = torch.ops.aten.linear.default(x, w)\n"
        "    mul = torch.ops.aten.mul.Tensor(linear, b_scale)\n"
        "    return (mul, linear)\n");
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "fc.weight",
                 cfx_tensor_value(cfx_tensor_new(CFX_F32, 2, (int64_t[]){1, 2}, (float[]){2, 3})));
    cfx_dict_set(d, "scale",
                 cfx_tensor_value(cfx_tensor_new(CFX_F32, 1, (int64_t[]){1}, (float[]){10})));
    CHECK(cfx_safetensors_write(test_path("m.safetensors"), d, NULL));
    cfx_program *p = cfx_open(test_path("m.fx"));
    if (CHECK_OK() && CHECK(!cfx_failed(p))) {
        CHECK_INT(p->ninputs, 3);
        CHECK_STR(p->inputs[0].target, "fc.weight");
        CHECK_INT(p->inputs[0].kind, CFX_IN_PARAMETER);
        CHECK_STR(p->inputs[1].target, "scale");
        CHECK_INT(p->inputs[1].kind, CFX_IN_BUFFER);
        CHECK_INT(p->inputs[2].kind, CFX_IN_USER);
        cfx_tensor *x = cfx_tensor_new(CFX_F32, 2, (int64_t[]){1, 2}, (float[]){1, 1});
        cfx_value y = cfx_program_run(p, x);
        CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(y, 0), 0), 50, 0);
        CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(y, 1), 0), 5, 0);
        CHECK_OK();
    }
    clean();
}

TEST(shapes_that_do_not_follow_from_those_of_inputs_are_not_written) {
    put("def forward(self, x: \"f32[4, 2]\"):\n"
        "    relu: \"f32[1, 2]\" = torch.ops.aten.relu.default(x)\n"
        "    sum_1: \"f32[2]\" = torch.ops.aten.sum.dim_IntList(relu, [0])\n"
        "    neg: \"i64[7]\" = torch.ops.aten.neg.default(relu)\n"
        "    return (sum_1, neg)\n");
    cfx_program *p = cfx_open(test_path("m.fx"));
    CHECK_OK();
    CHECK(!cfx_save(p, test_path("m.pt2")));
    CHECK_STR(cfx_error_last()->message, "node relu computes f32[4, 2], but f32[1, 2] is noted");
    CHECK_STR(cfx_error_last()->notes,
              cfx__text_format("in node relu, line 2\n"
                               "line 4: node neg computes f32[1, 2], but i64[7] is noted\n"
                               "cannot write '%s'",
                               test_path("m.pt2")));
    cfx_error_clear();
    CHECK(access(test_path("m.pt2"), F_OK) != 0);
    CHECK(cfx_program_settle(p) && cfx_program_check(p));
    static const char *const want[] = {"relu", "f32[4, 2]", "sum_1", "f32[2]", "neg", "f32[4, 2]"};
    for (int i = 0; i < COUNT(want); i += 2) {
        cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, want[i]));
        CHECK_STR(cfx_result_text(&r), want[i + 1]);
    }
    clean();
}

TEST(texts_that_are_wrong_are_refused) {
    CHECK(cfx_failed(cfx_open(test_path("m.fx"))));
    CHECK_ERROR("m.fx");
    put("def forward(self, x):\n    return y\n");
    CHECK(cfx_failed(cfx_open(test_path("m.fx"))));
    CHECK_ERROR("name 'y' is not defined");
    put("");
    CHECK(cfx_failed(cfx_open(test_path("m.fx"))));
    CHECK_ERROR("m.fx");
    put("def forward(self, x):\n    return (x,)\n");
    FILE *f = fopen(test_path("m.safetensors"), "w");
    CHECK(f && fputs("12345678{}", f) >= 0 && fclose(f) == 0);
    CHECK(cfx_failed(cfx_open(test_path("m.fx"))));
    CHECK_ERROR("m.safetensors");
    clean();
}
