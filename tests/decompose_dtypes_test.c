/* Every operator with a default decomposition, on tensors of every dtype: where it runs, what it is
 * decomposed to runs as well, and gives the same in the same dtype. */
#include "test.h"

#include "../fuzz/use.h"
#include "../src/dispatch/dispatch.h"

#include <string.h>

/* A program of one call: x wherever a tensor is asked for. */
static cfx_program *one_call(cfx_op *op, cfx_dtype dtype, int ndim) {
    const int64_t shape[] = {2, 2};
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node_set_meta(x, "val", cfx_tensor_value(cfx_tensor_fake(dtype, ndim, shape, NULL)));
    cfx_value args = cfx_tuple_value(0, NULL);
    for (int i = 0; i < s->nargs; i++)
        cfx_list_append(cfx_as_list(args), fuzz_fitting(&s->args[i], cfx_node_value(x)));
    cfx_target target = {.op = op, .name = cfx_op_name(op)};
    cfx_node *call = cfx_graph_create(g, CFX_CALL_FUNCTION, target, args, CFX_NONE, NULL, NULL);
    cfx_graph_output(g, cfx_tuple(call));
    cfx_program *p = cfx_program_new(cfx_graph_module(NULL, g, "OneCall"));
    cfx_program_add_input(p, (cfx_input_spec){.kind = CFX_IN_USER, .name = x->name});
    cfx_program_add_output(p, (cfx_output_spec){.kind = CFX_OUT_USER, .name = call->name});
    return p;
}

/* Whether what it gives follows from its arguments, and its shape from theirs. */
static bool gives_the_same(cfx_op *op) {
    return !(op->effects & (CFX_RANDOM | CFX_DATA_SHAPE)) && !strstr(cfx_op_name(op), "empty");
}

/* 1 where there was something to compare; wrong: what differs, if anything; scope. */
static int compare(cfx_op *op, cfx_dtype dtype, int ndim, const char **wrong) {
    cfx_program *p = one_call(op, dtype, ndim);
    if (!fuzz_fine())
        return 0;
    cfx_value in = fuzz_inputs(p);
    outcome whole = use_run(p, &cfx_interpreter, in);
    if (!whole.ran || !gives_the_same(op))
        return 0;
    cfx_program *parts = cfx_decompose(p, CFX_NONE);
    outcome then = use_outcome(CFX_NONE);
    if (strstr(then.why, "depends on data")) /* as of a mask among the indices */
        return 0;
    if (then.ran)
        then = use_run(parts, &cfx_interpreter, in);
    if (!then.ran || !use_same(&whole, &then, 2e-2))
        *wrong = cfx__text_format("%s of %s: %s, not %s", cfx_op_name(op), cfx_dtype_name(dtype),
                                  then.ran ? cfx_str(then.leaves) : then.why,
                                  cfx_str(whole.leaves));
    return 1;
}

TEST(decompositions_run_for_every_dtype_that_the_operator_takes) {
    int compared = 0;
    for (int i = 0; i < cfx_op_count(); i++)
        for (int d = 0; cfx_op_at(i)->core && d < CFX_DTYPE_COUNT; d++)
            for (int ndim = 1; ndim <= 2; ndim++) {
                size_t mark = cfx_scope_open();
                const char *wrong = "";
                compared += compare(cfx_op_at(i), (cfx_dtype)d, ndim, &wrong);
                CHECK_STR(wrong, "");
                cfx_scope_close(mark);
            }
    CHECK(compared > 1000);
}

TEST(celu_refuses_an_alpha_whose_inverse_is_no_float) {
    cfx_celu(cfx_ones(cfx_list(2)), 1e-45);
    CHECK_ERROR("value cannot be converted to type float without overflow");
    cfx_error_clear();
}

TEST(everything_is_dropped_of_whatever_can_be_multiplied) {
    static const char *const dtypes[] = {"f8e8m0fnu", "f8e5m2", "f32", "i64", "b8", "u16", "c64"};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        cfx_program *p = cfx_program_parse(
            cfx__text_format("class GraphModule(torch.nn.Module):\n"
                             "    def forward(self, x: \"%s[2]\"):\n"
                             "        y = torch.ops.aten.dropout.default(x, 1.0, True)\n"
                             "        return (y,)\n", dtypes[i]), "dropped");
        cfx_value in = fuzz_inputs(p);
        outcome whole = use_run(p, &cfx_interpreter, in);
        outcome parts = use_run(cfx_decompose(p, CFX_NONE), &cfx_interpreter, in);
        CHECK(whole.ran && parts.ran && use_same(&whole, &parts, 0));
    }
}

TEST(no_vectors_of_float8_are_multiplied) {
    cfx_tensor *x = cfx_to(cfx_ones(cfx_list(3)), CFX_F8E5M2);
    cfx_matmul(x, x);
    CHECK_ERROR("\"dot\" not implemented for 'Float8_e5m2'");
    cfx_error_clear();
}

/* 1+0j is read as 1 where kernels take real numbers alone, and is no complex number then. */
TEST(real_numbers_written_as_complex_ones_stay_real) {
    static const char *const calls[] = {"hardshrink.default(x, (1+0j))",
                                        "softshrink.default(x, (1+0j))",
                                        "softplus.default(x, (2+0j), (1+0j))",
                                        "threshold.default(x, (1+0j), (2+0j))"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        cfx_program *p = cfx_program_parse(
            cfx__text_format("class GraphModule(torch.nn.Module):\n"
                             "    def forward(self, x: \"f32[3]\"):\n"
                             "        y = torch.ops.aten.%s\n"
                             "        return (y,)\n",
                             calls[i]),
            "complex");
        cfx_value in = fuzz_inputs(p);
        cfx_program *parts = cfx_decompose(p, CFX_NONE);
        CHECK_OK();
        outcome whole = use_run(p, &cfx_interpreter, in);
        outcome then = use_run(parts, &cfx_interpreter, in);
        CHECK(whole.ran && then.ran && use_same(&whole, &then, 1e-6));
    }
}

TEST(renorm_takes_real_numbers) {
    cfx_tensor *x = cfx_ones(cfx_list(2, 2));
    cfx_renorm(x, 2, 0, cfx_complex_value(1, 0));
    CHECK_ERROR("renorm: maxnorm must be real-valued");
    cfx_renorm(x, cfx_complex_value(2, 0), 0, 1);
    CHECK_ERROR("renorm: p must be real-valued");
}
