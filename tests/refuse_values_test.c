/* Operators that refuse numbers which tensors hold: what running refuses, every other way to run
 * the program refuses with the same sentence. */
#include "test.h"

#include "../fuzz/use.h"
#include "../src/value/value.h"

#include <string.h>

typedef struct row {
    const char *inputs; /* of forward */
    const char *values; /* one for each */
    const char *call;   /* of aten */
    const char *why;    /* a part of the sentence */
    const char *core;   /* of the sentence of what it is decomposed to, where that is another */
    bool several;       /* it gives several results */
} row;

/* What a call is decomposed to does not look at these numbers, in PyTorch as here. */
#define UNSEEN ""

#define MATRIX "x: \"f32[2, 2]\""
#define VECTOR "x: \"f32[3]\""
#define PLANE "x: \"f32[1, 1, 2, 2]\""
#define IDS ", i: \"i64[2]\""
#define SINGULAR "[[1., 2.], [2., 4.]]"
#define NOT_3 "index 3 is out of bounds for dimension 0 with size 3"

#define OUTSIDE "index 2 is out of bounds for dimension 0 with size 2"
#define NOT_2 "index 2 is out of bounds for dimension 1 with size 2"
#define SQUARE "[[1., 2.], [3., 4.]]"

#define ROW(i, v, c, w, ...) {.inputs = i, .values = v, .call = c, .why = w, __VA_ARGS__}

static const row rows[] = {
    /* what is written to */
    ROW("x: \"i64[2]\"", "[1, 2]", "add_.Tensor(x, 1.5)",
        "result type Float can't be cast to the desired output type Long"),
    ROW("x: \"u8[2]\", y: \"f32[2]\"", "[1, 2], [1., 2.]", "mul.out(y, y, out=x)",
        "result type Float can't be cast to the desired output type Byte"),
    ROW("x: \"f32[2]\", y: \"f32[2, 2]\"", "[1., 2.], " SQUARE, "add_.Tensor(x, y)",
        "output with shape [2] doesn't match the broadcast shape [2, 2]"),
    ROW("x: \"i64[2, 2]\", y: \"f32[2, 2]\"", "[[1, 2], [3, 4]], " SQUARE, "mm.out(y, y, out=x)",
        "Expected out tensor to have dtype float, but got long int instead"),
    /* places */
    ROW(MATRIX IDS, SQUARE ", [0, 2]", "embedding.default(x, i)", "index out of range in self"),
    ROW(MATRIX IDS, SQUARE ", [0, -1]", "embedding.default(x, i)", "index out of range in self"),
    ROW(MATRIX IDS, SQUARE ", [0, 2]", "index_select.default(x, 0, i)",
        "index out of range in self"),
    ROW(MATRIX IDS, SQUARE ", [0, 2]", "index.Tensor(x, [i])", OUTSIDE),
    ROW(MATRIX IDS, SQUARE ", [0, 4]", "take.default(x, i)",
        "out of range: tried to access index 4 on a tensor of 4 elements.",
        .core = "index 4 is out of bounds for dimension 0 with size 4"),
    ROW(MATRIX IDS, SQUARE ", [0, 2]", "index_fill.int_Scalar(x, 0, i, 1)", OUTSIDE),
    ROW(MATRIX IDS, SQUARE ", [0, 2]", "index_add.default(x, 0, i, x)",
        "index out of range in self", .core = OUTSIDE),
    ROW(MATRIX IDS, SQUARE ", [0, 2]", "index_copy.default(x, 0, i, x)", "index_copy_(): " OUTSIDE,
        .core = OUTSIDE),
    ROW(MATRIX IDS, SQUARE ", [0, 2]", "index_reduce.default(x, 0, i, x, 'prod')",
        "index out of range in self"),
    ROW(MATRIX IDS, SQUARE ", [0, 2]", "index_put.default(x, [i], x)", OUTSIDE),
    ROW("x: \"f32[2]\"" IDS, "[1., 2.], [0, 3]", "put.default(x, i, x)",
        "out of range: tried to access index 3 on a tensor of 2 elements."),
    ROW(MATRIX IDS, SQUARE ", [0, 2]", "embedding_bag.default(x, i, i)",
        "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be 2",
        .several = true),
    ROW(VECTOR IDS, "[1., 2., 3.], [0, 3]", "gather.default(x, 0, i)", NOT_3),
    ROW(VECTOR IDS, "[1., 2., 3.], [0, 3]", "scatter.src(x, 0, i, x)", NOT_3),
    ROW(VECTOR IDS, "[1., 2., 3.], [0, 3]", "scatter.value(x, 0, i, 1)", NOT_3),
    ROW(VECTOR IDS, "[1., 2., 3.], [0, 3]", "scatter_add.default(x, 0, i, x)", NOT_3),
    ROW(VECTOR IDS, "[1., 2., 3.], [0, 3]", "scatter_reduce.two(x, 0, i, x, 'sum')", NOT_3),
    ROW(VECTOR ", i: \"i64[3]\"", "[1., 2., 3.], [0, 1, 3]", "searchsorted.Tensor(x, x, sorter=i)",
        "torch.searchsorted(): sorter index out of range"),
    ROW(PLANE ", i: \"i64[1, 1, 2, 2]\"", "[[" SQUARE "]], [[[[0, 1], [2, 99]]]]",
        "max_unpool2d.default(x, i, [4, 4])",
        "Found an invalid max index: 99 (output volumes are of size 4x4",
        .core = "index 99 is out of bounds for dimension 0 with size 16"),
    ROW(PLANE ", i: \"i64[1, 1, 2, 2]\"", "[[" SQUARE "]], [[[[0, 1], [2, 99]]]]",
        "max_pool2d_with_indices_backward.default(x, x, [1, 1], [1, 1], [0, 0], [1, 1], False, i)",
        "found an index that lies outside its input plane"),
    ROW(VECTOR ", m: \"b8[3]\", s: \"f32[1]\"", "[1., 2., 3.], [True, True, False], [1.]",
        "masked_scatter.default(x, m, s)", "Number of elements of source < number of ones in mask"),
    ROW(VECTOR IDS, "[1., 2., 3.], [2, -2]", "segment_reduce.default(x, 'sum', lengths=i)",
        "lengths contains negative value!"),
    /* classes */
    ROW(MATRIX IDS, SQUARE ", [0, 2]", "nll_loss.default(x, i)", "Target 2 is out of bounds.",
        .core = NOT_2),
    ROW(MATRIX IDS, SQUARE ", [0, -3]", "nll_loss.default(x, i)", "Target -3 is out of bounds.",
        .core = "index -3 is out of bounds for dimension 1 with size 2"),
    ROW(MATRIX IDS, SQUARE ", [0, 2]", "nll_loss_nd.default(x, i)", "Target 2 is out of bounds.",
        .core = NOT_2),
    ROW(MATRIX IDS, SQUARE ", [0, 2]", "cross_entropy_loss.default(x, i)",
        "Target 2 is out of bounds.", .core = NOT_2),
    ROW(MATRIX IDS ", w: \"f32[]\"", SQUARE ", [0, 7], 1.",
        "nll_loss_backward.default(w, x, i, None, 1, -100, w)", "Target 7 is out of bounds."),
    ROW("x: \"f32[1, 2, 1, 2]\", i: \"i64[1, 1, 2]\"", "[[[[1., 2.]], [[3., 4.]]]], [[[0, 2]]]",
        "nll_loss2d.default(x, i)", "Target 2 is out of bounds.", .core = NOT_2),
    ROW(MATRIX IDS, SQUARE ", [0, 2]", "multi_margin_loss.default(x, i)", "target out of range",
        .core = NOT_2),
    ROW(MATRIX ", i: \"i64[2, 2]\"", SQUARE ", [[0, 2], [0, 1]]",
        "multilabel_margin_loss.default(x, i)", "target is out of range", .core = NOT_2),
    ROW("i: \"i64[2]\"", "[0, 5]", "one_hot.default(i, 3)",
        "Class values must be smaller than num_classes.", .core = UNSEEN),
    ROW("i: \"i64[2]\"", "[0, -1]", "one_hot.default(i, 3)", "Class values must be non-negative.",
        .core = UNSEEN),
    ROW(VECTOR, "[-1., 0., 2.]", "binary_cross_entropy.default(x, x)",
        "all elements of input should be between 0 and 1", .core = UNSEEN),
    /* chances */
    ROW(VECTOR, "[0., 0., 0.]", "multinomial.default(x, 1)",
        "invalid multinomial distribution (sum of probabilities <= 0)"),
    ROW(VECTOR, "[-1., 0., 1.]", "multinomial.default(x, 1)",
        "probability tensor contains either `inf`, `nan` or element < 0"),
    ROW(VECTOR, "[-1., 0., 2.]", "bernoulli.default(x)", "Expected p_in >= 0 && p_in <= 1"),
    ROW(VECTOR, "[-1., 0., 2.]", "normal.Tensor_Tensor(x, x)",
        "normal expects all elements of std >= 0.0"),
    ROW(VECTOR, "[1., nan, 2.]", "normal.float_Tensor(0.0, x)",
        "normal expects all elements of std >= 0.0"),
    /* arithmetic */
    ROW("i: \"i64[2]\"", "[1, 0]", "div.Tensor_mode(i, i, rounding_mode='floor')",
        "ZeroDivisionError"),
    ROW("i: \"i64[2]\"", "[1, 0]", "div.Tensor_mode(i, i, rounding_mode='trunc')",
        "ZeroDivisionError"),
    ROW("i: \"i64[2]\"", "[1, 0]", "floor_divide.default(i, i)", "ZeroDivisionError"),
    ROW("i: \"i64[2]\"", "[1, 0]", "remainder.Tensor(i, i)", "ZeroDivisionError"),
    ROW("i: \"i64[2]\"", "[1, 0]", "remainder.Scalar_Tensor(5, i)", "ZeroDivisionError"),
    ROW("i: \"i64[2]\"", "[1, 0]", "fmod.Tensor(i, i)", "ZeroDivisionError"),
    ROW(VECTOR ", q: \"f32[2]\"", "[1., 2., 3.], [0.5, 1.5]", "quantile.default(x, q)",
        "quantile() q values must be in the range [0, 1]"),
    ROW(VECTOR ", q: \"f32[2]\"", "[1., 2., 3.], [0.5, -0.5]", "nanquantile.default(x, q)",
        "nanquantile() q values must be in the range [0, 1]"),
    ROW(VECTOR, "[nan, 1., 2.]", "histc.default(x, 4)",
        "torch.histc: dimension 0's range [nan, nan] is not finite"),
    ROW(MATRIX ", s: \"f32[2]\", z: \"i32[2]\"", SQUARE ", [1., 1.], [0, 999]",
        "fake_quantize_per_channel_affine.default(x, s, z, 0, 0, 255)",
        "`zero_point` must be between `quant_min` and `quant_max`."),
    ROW("m: \"b8[]\"", "False", "_assert_async.msg(m, 'not so')", "not so"),
    /* matrices */
    ROW(MATRIX, SINGULAR, "linalg_inv.default(x)", "matrix is singular.", .core = UNSEEN),
    ROW(MATRIX, SINGULAR, "inverse.default(x)", "matrix is singular.", .core = UNSEEN),
    ROW(MATRIX, SINGULAR, "linalg_tensorinv.default(x, 1)", "matrix is singular.", .core = UNSEEN),
    ROW(MATRIX, SINGULAR, "linalg_solve.default(x, x)", "matrix is singular.", .core = UNSEEN),
    ROW(MATRIX, SINGULAR, "linalg_lu_factor.default(x)", "U[2,2] is zero", .core = UNSEEN,
        .several = true),
    ROW(MATRIX, SINGULAR, "linalg_ldl_factor.default(x)", "Unknown error code", .core = UNSEEN,
        .several = true),
    ROW(MATRIX, "[[1., 2.], [2., 1.]]", "linalg_cholesky.default(x)", "not positive-definite",
        .core = UNSEEN),
    ROW(MATRIX, "[[1., 2.], [2., 1.]]", "cholesky.default(x)", "not positive-definite"),
    ROW("x: \"i32[]\"", "1", "_linalg_check_errors.default(x, 'mean', is_matrix=True)",
        "mean: Unknown error code: 1.", .core = UNSEEN),
    ROW(MATRIX, SINGULAR, "linalg_inv_ex.default(x, check_errors=True)", "matrix is singular.",
        .several = true),
    ROW(MATRIX, SINGULAR, "linalg_lu_factor_ex.default(x, check_errors=True)", "U[2,2] is zero",
        .several = true),
};

/* The values of a row, each in the dtype that its input is noted with. */
static cfx_value inputs_of(cfx_program *p, const char *values) {
    const char *text = cfx__text_format("[%s]", values);
    cfx_value given = cfx_none(), list = cfx_list_value(0, NULL);
    CHECK(cfx__value_literal(&text, &given));
    int64_t at = 0;
    cfx_each_node(p->module->graph, n) {
        if (n->op != CFX_PLACEHOLDER)
            continue;
        cfx_value dtype = cfx_dtype_value(cfx_node_result(n).dtype);
        cfx_tensor *t = cfx_tensor_from_value(cfx_at(given, at++));
        cfx_list_append(cfx_as_list(list), cfx_tensor_value(cfx_to(t, dtype)));
    }
    return list;
}

static cfx_program *program_of(const row *r) {
    return cfx_program_parse(cfx__text_format("class GraphModule(torch.nn.Module):\n"
                                              "    def forward(self, %s):\n"
                                              "        y = torch.ops.aten.%s\n%s"
                                              "        return (%s,)\n",
                                              r->inputs, r->call,
                                              r->several ? "        z = y[0]\n" : "",
                                              r->several ? "z" : "y"),
                             "values");
}

/* A program that has just been made, by some change, refuses as it says. */
static void check(const row *r, cfx_program *p, const cfx_executor *x, cfx_value in,
                  const char *why, const char *how) {
    outcome o = cfx_ok() ? use_run(p, x, in) : use_outcome(CFX_NONE);
    if (o.ran ? *why : !*why || !strstr(o.why, why))
        test_fail(CFX_HERE, "%s: %s: %s, not %s", r->call, how, o.ran ? "runs" : o.why, why);
}

TEST(what_running_refuses_by_its_numbers_is_refused_in_every_way) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *r = &rows[i];
        cfx_program *p = program_of(r);
        cfx_value in = inputs_of(p, r->values);
        CHECK_OK();
        check(r, p, &cfx_interpreter, in, r->why, "interpreted");
        check(r, p, &cfx_planner, in, r->why, "planned");
        check(r, cfx_optimize(p), &cfx_interpreter, in, r->why, "optimised");
        check(r, cfx_program_functionalize(p), &cfx_interpreter, in, r->why, "functional");
        check(r, cfx_decompose(p, CFX_NONE), &cfx_interpreter, in, r->core ? r->core : r->why,
              "decomposed");
    }
}
