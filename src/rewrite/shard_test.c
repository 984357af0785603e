/* Tensor parallel: all ranks, simulated, give what the whole gives but for rounding, and each has
 * its part of the weights. */
#include "numbers.h"

#include <math.h>
#include <string.h>

#include "../tensor/tensor.h"

#define BERT CFX_TEST_DATA "/../../examples/data/distilbert"

enum { MOST_RANKS = 4 };

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

/* Heads that do not go into so many ranks stay whole, and that is told. */
TEST(shard_heads_that_do_not_divide) {
    cfx_program *p = cfx_open(BERT "/model.pt2");
    cfx_dict *report = check_ranks(p, 3, bert_inputs());
    cfx_value whole = cfx_dict_get(report, "whole");
    CHECK(cfx_as_dict(whole)->len > 0);
    CHECK(strstr(cfx_text(cfx_dict_get(cfx_as_dict(whole), "linear")), "do not go into 3 ranks"));
    CHECK_OK();
}

TEST(shard_refuses) {
    cfx_tensor_parallel(cfx_open(BERT "/model.pt2"), 2, 2, NULL);
    CHECK_ERROR("there is no rank 2 of 2");
}
