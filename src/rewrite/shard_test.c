/* Tensor parallel: all ranks, simulated, give what the whole gives but for rounding, and each has
 * its part of the weights. */
#include "numbers.h"

#include <math.h>
#include <string.h>

#include "../tensor/tensor.h"

#define BERT CFX_TEST_DATA "/../../examples/data/distilbert"

enum { MOST_RANKS = 5 };

typedef struct ranks {
    int n;
    cfx_program *programs[MOST_RANKS];
    cfx_value inputs, results[MOST_RANKS];
} ranks;

static cfx_value run(cfx_program *p, cfx_value inputs) {
    cfx_args a = {(int)cfx_as_list(inputs)->len, cfx_as_list(inputs)->items, NULL};
    cfx_value leaves = cfx_list_value(0, NULL);
    cfx_tree_flatten(cfx_program_run_with((cfx_site){0}, p, &cfx_interpreter, NULL, a),
                     cfx_as_list(leaves));
    return leaves;
}

static bool run_rank(cfx_group *g, void *user) {
    ranks *r = user;
    int rank = cfx_group_rank(g);
    r->results[rank] = cfx_value_keep(run(r->programs[rank], r->inputs));
    return cfx_ok();
}

static void check_near(cfx_value got, cfx_value want) {
    CHECK_INT(cfx_as_list(got)->len, cfx_as_list(want)->len);
    for (int64_t i = 0; i < cfx_as_list(want)->len && i < cfx_as_list(got)->len; i++) {
        cfx_tensor *a = cfx_as_tensor(cfx_as_list(got)->items[i]);
        cfx_tensor *b = cfx_as_tensor(cfx_as_list(want)->items[i]);
        CHECK_INT(a->numel, b->numel);
        CHECK(cfx_integer(cfx_allclose(a, b, CFX_KW(rtol, 1e-4), CFX_KW(atol, 1e-5))));
    }
}

static int64_t bytes_of(const cfx_program *p) {
    int64_t bytes = 0;
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_tensor *t = cfx_program_tensor(p, &p->inputs[i]);
        bytes += t ? t->numel * (int64_t)cfx_dtype_size(t->dtype) : 0;
    }
    return bytes;
}

/* Cuts for n ranks, runs all of them, and compares; the report. */
static cfx_dict *check_ranks(cfx_program *p, int n, cfx_value inputs) {
    cfx_dict *report = cfx_dict_new();
    ranks r = {.n = n, .inputs = inputs};
    for (int i = 0; i < n; i++)
        r.programs[i] = cfx_tensor_parallel(p, i, n, report);
    CHECK_OK();
    if (!cfx_ok())
        return report;
    CHECK(cfx_group_simulate(n, run_rank, &r));
    CHECK_OK();
    cfx_value want = run(p, inputs);
    for (int i = 0; i < n && cfx_ok(); i++) {
        check_near(r.results[i], want);
        CHECK(bytes_of(r.programs[i]) < bytes_of(p));
        cfx_value_drop(r.results[i]);
    }
    return report;
}

static int count(const cfx_program *p, const char *op) {
    int n = 0;
    cfx_each_node(p->module->graph, c) n += cfx_node_is(c, op);
    return n;
}

static int64_t cut_of(cfx_dict *report) {
    return cfx_as_list(cfx_dict_get(report, "cut"))->len;
}

static cfx_value bert_inputs(void) {
    cfx_dict *file = cfx_safetensors_read(BERT "/inputs.safetensors");
    cfx_value all = cfx_list_value(0, NULL);
    cfx_list_append(cfx_as_list(all), cfx_dict_get(file, "in0"));
    cfx_list_append(cfx_as_list(all), cfx_dict_get(file, "in1"));
    return all;
}

/* In each of the two blocks the projections of attention and the first layer of the MLP are cut by
 * results, the last of either by inputs: two sums a block, and one of the embedding. */
TEST(shard_bert) {
    cfx_program *p = cfx_open(BERT "/model.pt2");
    cfx_dict *report = check_ranks(p, 2, bert_inputs());
    cfx_program *own = cfx_tensor_parallel(p, 0, 2, NULL);
    CHECK_INT(count(own, "_c10d_functional.all_reduce.default"), 5);
    CHECK_INT(count(own, "_c10d_functional.all_gather_into_tensor.default"), 0);
    CHECK_INT(cut_of(report), 13);
    check_ranks(p, 4, bert_inputs());
    CHECK_OK();
}

TEST(shard_bert_in_core_aten) {
    cfx_program *p = cfx_decompose(cfx_open(BERT "/model.pt2"), cfx_none());
    cfx_dict *report = check_ranks(p, 2, bert_inputs());
    CHECK_INT(cut_of(report), 13);
}

/* As files before PyTorch 2.7 have it: what has a default is given by name. */
TEST(shard_biases_by_name) {
    cfx_program *p = cfx_open(BERT "/model.pt2");
    int biases = 0;
    cfx_each_node(p->module->graph, n) if (cfx_node_is(n, "aten.linear.default")) {
        const cfx_list *args = cfx_as_list(n->args);
        if (args->len != 3)
            continue;
        cfx_value bias = args->items[2];
        cfx_node_set_args(n, cfx_tuple(args->items[0], args->items[1]));
        cfx_node_set_kwarg(n, "bias", bias);
        biases++;
    }
    CHECK(biases > 0);
    CHECK_INT(cut_of(check_ranks(p, 2, bert_inputs())), 13);
    CHECK_OK();
}

/* As ONNX's Gemm has it: factors that are said, ones or not. */
TEST(shard_products_with_factors) {
    static const double factors[] = {1, 0.5};
    for (int i = 0; i < COUNT(factors); i++) CFX_SCOPE {
        cfx_program *p = cfx_decompose(cfx_open(BERT "/model.pt2"), cfx_none());
        int products = 0;
        cfx_each_node(p->module->graph, n) if (cfx_node_is(n, "aten.addmm.default")) {
            products++;
            cfx_node_set_kwargs(n, cfx_dict_of("beta", factors[i], "alpha", factors[i]));
        }
        CHECK(products > 0);
        check_ranks(p, 2, bert_inputs());
    }
    CHECK_OK();
}

/* Four heads on three ranks: one has two of them. Sizes that do not divide are cut unevenly. */
TEST(shard_heads_that_do_not_divide) {
    cfx_program *p = cfx_open(BERT "/model.pt2");
    cfx_dict *report = check_ranks(p, 3, bert_inputs());
    CHECK_INT(cut_of(report), 13);
    cfx_program *first = cfx_tensor_parallel(p, 0, 3, NULL);
    cfx_program *last = cfx_tensor_parallel(p, 2, 3, NULL);
    CHECK(bytes_of(first) < bytes_of(last));
    CHECK_OK();
}

/* More ranks than heads: attention stays whole, and that is told. */
TEST(shard_fewer_heads_than_ranks) {
    cfx_program *p = cfx_open(BERT "/model.pt2");
    cfx_dict *report = check_ranks(p, 5, bert_inputs());
    cfx_value why = cfx_dict_get(cfx_as_dict(cfx_dict_get(report, "whole")), "linear");
    CHECK(why.tag == CFX_TAG_STR && strstr(cfx_text(why), "takes no piece of it"));
    CHECK_OK();
}

enum { SIZE = 4, WIDTH = 12, WORDS = 5 };

static cfx_tensor *by_heads(cfx_tensor *x) {
    return cfx_transpose(cfx_reshape(x, cfx_list(1, WORDS, -1, SIZE)), 1, 2);
}

/* Heads of keys, each as often as heads of queries share it: what Hugging Face calls repeat_kv. */
static cfx_tensor *repeated(cfx_tensor *x, int64_t heads) {
    const int64_t own = x->shape[1];
    cfx_tensor *each = cfx_expand(cfx_unsqueeze(x, 2), cfx_list(1, own, heads / own, WORDS, SIZE));
    return cfx_reshape(each, cfx_list(1, heads, WORDS, SIZE));
}

/* Keys by heads, before they are repeated, and what attention makes of all. */
static cfx_tensor *attend_to(cfx_module *self, cfx_tensor *ids, cfx_tensor **keys) {
    cfx_tensor *x = cfx_call(self, "table", cfx_reshape(ids, cfx_list(1, WORDS)));
    cfx_tensor *q = by_heads(cfx_call(self, "q", x)), *k = by_heads(cfx_call(self, "k", x));
    cfx_tensor *v = by_heads(cfx_call(self, "v", x));
    cfx_tensor *y = cfx_scaled_dot_product_attention(q, repeated(k, q->shape[1]),
                                                     repeated(v, q->shape[1]));
    y = cfx_reshape(cfx_transpose(y, 1, 2), cfx_list(1, WORDS, -1));
    *keys = k;
    return cfx_call(self, "head", cfx_add(x, cfx_call(self, "o", y)));
}

static cfx_tensor *attend(cfx_module *self, cfx_tensor *ids) {
    cfx_tensor *keys;
    return attend_to(self, ids, &keys);
}

/* Keys behind the result: along the dimension that is cut. */
static cfx_tensor *attend_and_give(cfx_module *self, cfx_tensor *ids) {
    cfx_tensor *keys, *y = attend_to(self, ids, &keys);
    return cfx_cat(cfx_list(cfx_reshape(y, cfx_list(-1)), cfx_reshape(keys, cfx_list(-1))), 0);
}

/* And their sum over heads. */
static cfx_tensor *attend_and_sum(cfx_module *self, cfx_tensor *ids) {
    cfx_tensor *keys, *y = attend_to(self, ids, &keys);
    return cfx_add(y, cfx_sum(cfx_sum(keys, 1), -1, true));
}

static cfx_tensor *attend_by_products(cfx_module *self, cfx_tensor *ids) {
    cfx_tensor *x = cfx_call(self, "table", cfx_reshape(ids, cfx_list(1, WORDS)));
    cfx_tensor *q = by_heads(cfx_call(self, "q", x)), *k = by_heads(cfx_call(self, "k", x));
    cfx_tensor *v = by_heads(cfx_call(self, "v", x));
    const int64_t shared = q->shape[1] / k->shape[1];
    k = cfx_repeat_interleave(k, shared, CFX_KW(dim, 1));
    v = cfx_repeat_interleave(v, shared, CFX_KW(dim, 1));
    cfx_tensor *scores = cfx_softmax(cfx_matmul(q, cfx_transpose(k, 2, 3)), -1);
    cfx_tensor *y = cfx_reshape(cfx_transpose(cfx_matmul(scores, v), 1, 2),
                                cfx_list(1, WORDS, -1));
    return cfx_call(self, "head", cfx_add(x, cfx_call(self, "o", y)));
}

/* Attention whose heads share those of keys, between an embedding and a head. */
static cfx_program *grouped(cfx_forward_1 *forward, int heads, int shared, int vocabulary,
                            cfx_tensor *ids) {
    cfx_manual_seed(3);
    cfx_module *m = cfx_module_new("Grouped", forward, "ids");
    cfx_nn_add(m, "table", cfx_nn_embedding(vocabulary, WIDTH));
    cfx_nn_add(m, "q", cfx_nn_linear(WIDTH, heads * SIZE));
    cfx_nn_add(m, "k", cfx_nn_linear(WIDTH, shared * SIZE));
    cfx_nn_add(m, "v", cfx_nn_linear(WIDTH, shared * SIZE));
    cfx_nn_add(m, "o", cfx_nn_linear(heads * SIZE, WIDTH));
    cfx_nn_add(m, "head", cfx_nn_linear(WIDTH, vocabulary));
    return cfx_export(m, cfx_tuple(ids), CFX_NONE, CFX_NONE);
}

static cfx_tensor *five_words(void) {
    return cfx_tensor_new(CFX_I64, 1, (int64_t[]){WORDS}, (int64_t[]){0, 39, 7, 20, 21});
}

/* Rows of a weight that a rank has. */
static int64_t rows_of(const cfx_program *p, const char *target) {
    for (int i = 0; i < p->ninputs; i++)
        if (p->inputs[i].target && !strcmp(p->inputs[i].target, target))
            return cfx_program_tensor(p, &p->inputs[i])->shape[0];
    return -1;
}

/* Heads of queries are cut as evenly as they go, and a rank has those of keys that they share;
 * embedding and head are cut by vocabulary, of which ranks have parts that are not equal. */
TEST(shard_grouped_queries) {
    static const int cases[][4] = {{4, 2, 40, 2},  {9, 3, 41, 2},  {6, 3, 50, 2},  {10, 5, 43, 4},
                                   {15, 5, 40, 2}, {12, 4, 40, 3}, {20, 5, 40, 4}, {7, 7, 40, 3}};
    for (int i = 0; i < COUNT(cases); i++) CFX_SCOPE {
        cfx_tensor *ids = five_words();
        cfx_program *p = grouped(attend, cases[i][0], cases[i][1], cases[i][2], ids);
        cfx_value inputs = cfx_list_value(1, (cfx_value[]){cfx_tensor_value(ids)});
        cfx_dict *report = check_ranks(p, cases[i][3], inputs);
        CHECK_INT(cut_of(report), 6);
        cfx_program *own = cfx_tensor_parallel(p, 0, cases[i][3], NULL);
        CHECK_INT(count(own, "_c10d_functional.all_reduce.default"), 2);
        CHECK_INT(count(own, "_c10d_functional.all_gather_into_tensor.default"), 1);
        for (int r = 0; r < cases[i][3]; r++) {
            cfx_program *of = cfx_tensor_parallel(p, r, cases[i][3], NULL);
            const int64_t from = cases[i][0] * r / cases[i][3];
            const int64_t to = cases[i][0] * (r + 1) / cases[i][3];
            CHECK_INT(rows_of(of, "q.weight"), (to - from) * SIZE);
        }
    }
    CHECK_OK();
}

/* Keys that are used for more than attention are no pieces of which ranks have some in common:
 * where all of them are needed their layer stays whole, and what is summed is summed once. */
TEST(shard_keys_that_are_given_back) {
    cfx_tensor *ids = five_words();
    cfx_value inputs = cfx_list_value(1, (cfx_value[]){cfx_tensor_value(ids)});
    static cfx_forward_1 *const forwards[] = {attend_and_give, attend_and_sum};
    static const int cut[] = {4, 6}; /* of which the first leaves keys and the head */
    for (int i = 0; i < COUNT(forwards); i++) CFX_SCOPE {
        cfx_program *p = grouped(forwards[i], 9, 3, 40, ids);
        cfx_dict *report = check_ranks(p, 2, inputs);
        CHECK_INT(cut_of(report), cut[i]);
    }
    CHECK_OK();
}

/* The same by products and softmax, where keys are repeated element by element. */
TEST(shard_grouped_queries_by_products) {
    cfx_tensor *ids = five_words();
    cfx_value inputs = cfx_list_value(1, (cfx_value[]){cfx_tensor_value(ids)});
    cfx_program *p = grouped(attend_by_products, 9, 3, 40, ids);
    CHECK_INT(cut_of(check_ranks(p, 2, inputs)), 6);
    cfx_program *first = cfx_tensor_parallel(p, 0, 2, NULL);
    CHECK_INT(rows_of(first, "q.weight"), 4 * SIZE);
    CHECK_INT(rows_of(first, "k.weight"), 2 * SIZE);
    CHECK_OK();
}

/* Scores that are masked by what is expanded to them, and an MLP with squares. */
static cfx_tensor *attend_masked(cfx_module *self, cfx_tensor *ids) {
    cfx_tensor *x = cfx_call(self, "table", cfx_reshape(ids, cfx_list(1, WORDS)));
    cfx_tensor *q = by_heads(cfx_call(self, "q", x)), *k = by_heads(cfx_call(self, "k", x));
    cfx_tensor *v = by_heads(cfx_call(self, "v", x));
    cfx_tensor *scores = cfx_matmul(q, cfx_transpose(k, 2, 3));
    cfx_tensor *mask = cfx_reshape(cfx_gt(ids, 20), cfx_list(1, 1, 1, WORDS));
    scores = cfx_softmax(cfx_masked_fill(scores, cfx_expand_as(mask, scores), -1e9), -1);
    cfx_tensor *y = cfx_reshape(cfx_transpose(cfx_matmul(scores, v), 1, 2),
                                cfx_list(1, WORDS, -1));
    y = cfx_call(self, "o", cfx_square(cfx_relu(y)));
    return cfx_call(self, "head", cfx_add(x, y));
}

TEST(shard_masks_and_squares) {
    cfx_tensor *ids = five_words();
    cfx_value inputs = cfx_list_value(1, (cfx_value[]){cfx_tensor_value(ids)});
    CHECK_INT(cut_of(check_ranks(grouped(attend_masked, 4, 4, 40, ids), 2, inputs)), 6);
    CHECK_OK();
}

static cfx_tensor *attend_with(cfx_module *self, cfx_tensor *x, cfx_value qkv) {
    cfx_tensor *y = cfx_scaled_dot_product_attention(cfx_tensor_at(qkv, 0), cfx_tensor_at(qkv, 1),
                                                     cfx_tensor_at(qkv, 2));
    return cfx_add(x, cfx_call(self, "o", cfx_reshape(cfx_transpose(y, 1, 2),
                                                      cfx_list(1, WORDS, -1))));
}

/* Queries, keys and values are one layer, whose results are apart as in GPT-2, */
static cfx_tensor *attend_fused(cfx_module *self, cfx_tensor *ids) {
    cfx_tensor *x = cfx_call(self, "table", cfx_reshape(ids, cfx_list(1, WORDS)));
    cfx_value all = cfx_chunk(cfx_call(self, "qkv", x), 3, -1);
    return attend_with(self, x, cfx_list(by_heads(cfx_tensor_at(all, 0)),
                                         by_heads(cfx_tensor_at(all, 1)),
                                         by_heads(cfx_tensor_at(all, 2))));
}

/* or by heads, as in BLOOM. */
static cfx_tensor *attend_by_head(cfx_module *self, cfx_tensor *ids) {
    cfx_tensor *x = cfx_call(self, "table", cfx_reshape(ids, cfx_list(1, WORDS)));
    cfx_tensor *all = cfx_reshape(cfx_call(self, "qkv", x), cfx_list(1, WORDS, -1, 3, SIZE));
    cfx_value qkv = cfx_list_value(0, NULL);
    for (int i = 0; i < 3; i++)
        cfx_list_append(cfx_as_list(qkv), cfx_tensor_value(cfx_transpose(cfx_select(all, 3, i),
                                                                         1, 2)));
    return attend_with(self, x, qkv);
}

/* Heads of a fused layer that do not divide by the ranks: all three views ask for whole heads. */
TEST(shard_fused_heads_that_do_not_divide) {
    static const int cases[][2] = {{6, 2}, {6, 4}, {12, 5}, {5, 3}};
    static cfx_forward_1 *const forwards[] = {attend_fused, attend_by_head};
    for (int i = 0; i < COUNT(cases) * COUNT(forwards); i++) CFX_SCOPE {
        const int heads = cases[i / 2][0] + i % 2 * 6, n = cases[i / 2][1];
        cfx_manual_seed(3);
        cfx_module *m = cfx_module_new("Fused", forwards[i % 2], "ids");
        cfx_nn_add(m, "table", cfx_nn_embedding(40, WIDTH));
        cfx_nn_add(m, "qkv", cfx_nn_linear(WIDTH, 3 * heads * SIZE));
        cfx_nn_add(m, "o", cfx_nn_linear(heads * SIZE, WIDTH));
        cfx_tensor *ids = five_words();
        cfx_program *p = cfx_export(m, cfx_tuple(ids), CFX_NONE, CFX_NONE);
        cfx_dict *report = check_ranks(p, n, cfx_list(ids));
        CHECK_INT(cut_of(report), 3);
    }
    CHECK_OK();
}

static cfx_tensor *words_and_more(cfx_module *self, cfx_tensor *ids) {
    cfx_tensor *x = cfx_call(self, "words", ids);
    cfx_tensor *kept = cfx_cumsum(cfx_mul(x, x), 1);
    return cfx_add(x, cfx_call(self, "out", kept));
}

/* What an embedding gives is whole, and meets a piece. */
TEST(shard_words_that_meet_pieces) {
    cfx_module *m = cfx_module_new("Words", words_and_more, "ids");
    cfx_nn_add(m, "words", cfx_nn_embedding(40, 16));
    cfx_nn_add(m, "out", cfx_nn_linear(16, 16));
    cfx_tensor *ids = five_words();
    cfx_program *p = cfx_export(m, cfx_tuple(ids), CFX_NONE, CFX_NONE);
    CHECK_INT(cut_of(check_ranks(p, 2, cfx_list(ids))), 2);
    CHECK_OK();
}

TEST(shard_refuses) {
    cfx_tensor_parallel(cfx_open(BERT "/model.pt2"), 2, 2, NULL);
    CHECK_ERROR("there is no rank 2 of 2");
}
