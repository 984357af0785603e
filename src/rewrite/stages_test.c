/* Stages: run one after the other they give what the whole gives, bit for bit. */
#include "files.h"
#include "numbers.h"

#include <string.h>

#include "../tensor/tensor.h"

#define ZOO CFX_TEST_DATA "/zoo/"
#define BERT CFX_TEST_DATA "/../../examples/data/distilbert"

static cfx_program *opened(const char *folder) {
    return cfx_open(cfx__text_format("%s/model.pt2", folder));
}

/* The inputs of a program out of the file beside it, in flattened order. */
static cfx_value inputs_in(const cfx_program *p, const char *folder) {
    cfx_dict *file = cfx_safetensors_read(cfx__text_format("%s/inputs.safetensors", folder));
    cfx_value all = cfx_list_value(0, NULL);
    for (int i = 0, k = 0; i < p->ninputs; i++)
        if (p->inputs[i].kind == CFX_IN_USER) {
            cfx_value v = cfx_dict_get(file, cfx__text_format("in%d", k++));
            cfx_list_append(cfx_as_list(all), v.tag == CFX_TAG_TENSOR
                                                  ? cfx_tensor_value(cfx_clone(v))
                                                  : p->inputs[i].value);
        }
    return all;
}

static cfx_value leaves_of(cfx_program *p, cfx_value inputs) {
    cfx_args a = {(int)cfx_as_list(inputs)->len, cfx_as_list(inputs)->items, NULL};
    cfx_value leaves = cfx_list_value(0, NULL);
    cfx_tree_flatten(cfx_program_run_with((cfx_site){0}, p, &cfx_interpreter, NULL, a),
                     cfx_as_list(leaves));
    return leaves;
}

static cfx_value run_stages(const cfx_stages *s, cfx_value inputs) {
    cfx_manual_seed(0);
    for (int i = 0; i < s->n && cfx_ok(); i++) {
        inputs = leaves_of(s->stages[i].program, inputs);
        if (i + 1 < s->n)
            CHECK_INT(cfx_as_list(inputs)->len, s->stages[i].ncrossings);
    }
    return inputs;
}

static void check_same(cfx_value got, cfx_value want) {
    CHECK_INT(cfx_as_list(got)->len, cfx_as_list(want)->len);
    for (int64_t i = 0; i < cfx_as_list(want)->len && i < cfx_as_list(got)->len; i++) {
        cfx_value a = cfx_as_list(got)->items[i], b = cfx_as_list(want)->items[i];
        if (a.tag == CFX_TAG_TENSOR && b.tag == CFX_TAG_TENSOR) {
            CHECK_INT(cfx_as_tensor(a)->dtype, cfx_as_tensor(b)->dtype);
            CHECK(cfx_integer(cfx_equal(a, b)));
        } else {
            CHECK(cfx_equal_values(a, b));
        }
    }
}

/* Every tensor of the whole is in a stage, and what is written to in one alone. */
static void check_tensors(const cfx_stages *s, const cfx_program *p) {
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_input_spec *in = &p->inputs[i];
        const cfx_node *n = cfx_graph_find(p->module->graph, in->name);
        int holders = 0, written = 0;
        for (int k = 0; k < s->n; k++)
            for (int m = 0; m < s->stages[k].program->ninputs; m++)
                if (in->kind != CFX_IN_USER &&
                    !strcmp(s->stages[k].program->inputs[m].name, in->name)) {
                    holders++;
                    written += s->stages[k].written > 0;
                    CHECK(cfx_program_tensor(s->stages[k].program, in) ==
                          cfx_program_tensor(p, in));
                }
        if (in->kind != CFX_IN_USER && n->num_users)
            CHECK(holders >= 1);
        if (in->kind == CFX_IN_BUFFER && written)
            CHECK_INT(holders, 1);
    }
}

static void check_program(const char *folder, int from, int to) {
    for (int n = from; n <= to; n++)
        CFX_SCOPE {
            cfx_program *whole = opened(folder), *p = opened(folder);
            cfx_stages *s = cfx_program_stages(p, (cfx_stage_options){.n = n});
            CHECK_OK();
            CHECK_INT(s->n, n);
            check_tensors(s, p);
            cfx_value got = run_stages(s, inputs_in(p, folder));
            cfx_manual_seed(0);
            check_same(got, leaves_of(whole, inputs_in(whole, folder)));
            CHECK_OK();
        }
}

TEST(stages_of_bert) { check_program(BERT, 1, 8); }
TEST(stages_of_dynamic) { check_program(ZOO "dyn_conv", 2, 3); }
TEST(stages_of_indexing) { check_program(ZOO "index_zoo", 2, 6); }
TEST(stages_of_cond) { check_program(ZOO "cond", 2, 3); }
TEST(stages_of_tree) { check_program(ZOO "pytree_io", 2, 2); }
TEST(stages_of_mutating) { check_program(ZOO "mutating_buffer", 2, 2); }

TEST(stages_in_core_aten) {
    cfx_program *p = cfx_decompose(opened(BERT), cfx_none());
    cfx_stages *s = cfx_program_stages(p, (cfx_stage_options){.n = 5});
    check_same(run_stages(s, inputs_in(p, BERT)), leaves_of(p, inputs_in(p, BERT)));
    CHECK_OK();
}

/* What they are saved as is what they are. */
TEST(stages_in_files) {
    cfx_program *p = opened(BERT);
    cfx_stages *s = cfx_program_stages(p, (cfx_stage_options){.n = 3});
    cfx_value inputs = inputs_in(p, BERT);
    for (int i = 0; i < s->n; i++) {
        const char *path = test_path(cfx__text_format("stage%d.pt2", i));
        CHECK(cfx_save(s->stages[i].program, path));
        inputs = leaves_of(cfx_open(path), inputs);
        test_unlink(cfx__text_format("stage%d.pt2", i));
    }
    check_same(inputs, leaves_of(p, inputs_in(p, BERT)));
    CHECK_OK();
}

static cfx_program *parsed(const char *body) {
    cfx_program *p = cfx_program_parse(body, "program");
    CHECK_OK();
    return p;
}

static const char chain[] =
    "class GraphModule(torch.nn.Module):\n"
    "    def forward(self, x: \"f32[4, 4]\", y: \"f32[4]\"):\n"
    "        a: \"f32[4, 4]\" = torch.ops.aten.mm.default(x, x)\n"
    "        s: \"f32[4]\" = torch.ops.aten.sum.dim_IntList(a, [1])\n"
    "        e: \"f32[4]\" = torch.ops.aten.exp.default(s)\n"
    "        m: \"f32[4, 4]\" = torch.ops.aten.mul.Tensor(e, x)\n"
    "        r: \"f32[4, 4]\" = torch.ops.aten.add.Tensor(m, y)\n"
    "        return (r, e)\n";

/* Cuts are where little crosses, and inputs are handed on. */
TEST(stages_cross_little) {
    cfx_program *p = parsed(chain);
    cfx_dict *seconds = cfx_dict_new();
    for (int i = 0; i < 5; i++)
        cfx_dict_set(seconds, (const char *[]){"a", "s", "e", "m", "r"}[i], cfx_float(1));
    cfx_stages *s = cfx_program_stages(p, (cfx_stage_options){.n = 2, .seconds = seconds});
    CHECK_OK();
    CHECK_INT(s->stages[0].ncrossings, 3);
    CHECK_STR(s->stages[0].crossings[0].name, "x");
    CHECK_STR(s->stages[0].crossings[1].name, "y");
    CHECK_STR(s->stages[0].crossings[2].name, s->stages[0].nodes == 2 ? "s" : "e");
    CHECK_INT(s->stages[0].bytes, 64 + 16 + 16);
    CHECK_NEAR(s->stages[0].seconds + s->stages[1].seconds, 5, 1e-9);
    CHECK_INT(s->stages[0].flops, 128);
    cfx_value inputs = cfx_list_value(0, NULL);
    cfx_list_append(cfx_as_list(inputs), cfx_tensor_value(cfx_full(cfx_list(4, 4), 0.25)));
    cfx_list_append(cfx_as_list(inputs), cfx_tensor_value(cfx_arange(4.0)));
    check_same(run_stages(s, inputs), leaves_of(p, inputs));
}

static const char written[] =
    "class GraphModule(torch.nn.Module):\n"
    "    def forward(self, b_n: \"f32[4]\", x: \"f32[4]\"):\n"
    "        a: \"f32[4]\" = torch.ops.aten.add.Tensor(b_n, x)\n"
    "        c: \"f32[4]\" = torch.ops.aten.exp.default(a)\n"
    "        d: \"f32[4]\" = torch.ops.aten.mul.Tensor(c, b_n)\n"
    "        n: \"f32[4]\" = torch.ops.aten.add_.Tensor(b_n, x)\n"
    "        e: \"f32[4]\" = torch.ops.aten.neg.default(d)\n"
    "        return (e,)\n";

/* A buffer is read and written by one stage alone: two are all there can be. */
TEST(stages_keep_written_memory) {
    cfx_program *p = parsed(written);
    CHECK_INT(cfx_program_stages(p, (cfx_stage_options){.n = 2})->stages[0].nodes, 4);
    CHECK_OK();
    cfx_program_stages(p, (cfx_stage_options){.n = 3});
    CHECK_ERROR("the program can be cut into 2 stages at most, not 3: a stage has all of what "
                "touches b_n, which is written to");
}

TEST(stages_refuse) {
    cfx_program *p = parsed(chain);
    cfx_program_stages(p, (cfx_stage_options){.n = 6});
    CHECK_ERROR("6 stages are more than the program has calls: 5");
    cfx_program_stages(p, (cfx_stage_options){.n = 0});
    CHECK_ERROR("0 stages: there has to be one at least");
    cfx_program_stages(opened(BERT), (cfx_stage_options){.n = 2, .memory = 1000});
    CHECK_ERROR("no 2 stages of the program are within 1000 bytes of tensors each");
    p = parsed("class GraphModule(torch.nn.Module):\n"
               "    def forward(self, x: \"f32[4, 2]\"):\n"
               "        a: \"f32[4, 2]\" = torch.ops.aten.exp.default(x)\n"
               "        t: \"f32[2, 4]\" = torch.ops.aten.transpose_.default(a, 0, 1)\n"
               "        r: \"f32[2, 4]\" = torch.ops.aten.relu.default(a)\n"
               "        return (r,)\n");
    cfx_program_stages(p, (cfx_stage_options){.n = 2});
    CHECK_ERROR("t gives a another shape in place, which no other stage can know");
}

/* With a limit of memory no stage has more, though the time is less even then. */
TEST(stages_within_memory) {
    cfx_program *p = opened(BERT);
    cfx_stages *s = cfx_program_stages(p, (cfx_stage_options){.n = 4});
    int64_t all = 0, most = 0;
    for (int i = 0; i < s->n; i++) {
        all += s->stages[i].weights;
        most = s->stages[i].weights > most ? s->stages[i].weights : most;
    }
    int64_t limit = most - 1 > all / 3 ? most - 1 : all / 3;
    s = cfx_program_stages(p, (cfx_stage_options){.n = 4, .memory = limit});
    CHECK_OK();
    for (int i = 0; i < s->n; i++)
        CHECK(s->stages[i].weights <= limit);
}
