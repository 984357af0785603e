/* What gives back its argument, or a view of it, is that argument's memory in every form of a
 * program: a write to it is seen. */
#include "pass_test.h"

static const char *result_of(cfx_program *p) {
    cfx_tensor *x = cfx_reshape(cfx_arange(6.0), cfx_list(1, 2, 3));
    return cfx_str(cfx_program_run(p, x));
}

/* c = x.clone(); y = call; y.add_(1): what c is then. */
static cfx_program *writing_to(const char *call) {
    return program_of(cfx__text_format(HEAD "    def forward(self, x: \"f32[1, 2, 3]\"):\n"
                                            "        c = torch.ops.aten.clone.default(x)\n"
                                            "        y = torch.ops.aten.%s\n"
                                            "        add_ = torch.ops.aten.add_.Tensor(y, 1)\n"
                                            "        return (c,)\n",
                                       call));
}

#define WRITTEN "(tensor([[[1., 2., 3.],\n         [4., 5., 6.]]]),)"

TEST(a_write_to_what_is_the_argument_is_a_write_to_it) {
    static const char *const calls[] = {
        "atleast_1d.default(c)", "atleast_2d.default(c)", "atleast_3d.default(c)",
        "reshape.default(c, [1, 2, 3])", "reshape.default(c, [6])", "contiguous.default(c)",
        "to.dtype(c, torch.float32)", "to.other(c, x)", "to.device(c, 'cpu', torch.float32)",
        "to.dtype_layout(c, dtype = torch.float32)", "type_as.default(c, x)", "cpu.default(c)",
        "flatten.using_ints(c)", "flatten.using_ints(c, 0, 1)", "flatten.using_ints(c, 0, 0)",
        "unflatten.int(c, 2, [3])", "expand_as.default(c, x)", "expand.default(c, [1, 2, 3])",
        "view_as.default(c, x)", "reshape_as.default(c, x)", "ravel.default(c)",
        "movedim.int(c, 0, 1)", "movedim.int(c, 0, 0)", "moveaxis.int(c, 0, 2)",
        "squeeze.default(c)", "squeeze.dim(c, 1)", "squeeze.dims(c, [1, 2])",
        "broadcast_to.default(c, [1, 2, 3])", "sum_to_size.default(c, [1, 2, 3])",
        "resolve_conj.default(c)", "resolve_neg.default(c)", "conj.default(c)", "_conj.default(c)",
        "real.default(c)", "positive.default(c)", "alias.default(c)", "detach.default(c)",
        "lift_fresh.default(c)", "feature_dropout.default(c, 0.5, False)",
        "alpha_dropout.default(c, 0.5, False)", "feature_alpha_dropout.default(c, 0.5, False)",
        "einsum.default('abc->cba', [c])", "einsum.default('abc->abc', [c])",
        "swapaxes.default(c, 0, 1)", "swapdims.default(c, 0, 0)", "transpose.int(c, 0, 0)",
        "permute.default(c, [0, 1, 2])", "numpy_T.default(c)", "mT.default(c)",
        "adjoint.default(c)", "narrow.default(c, 2, 0, 3)", "slice.Tensor(c)",
        "_cast_Float.default(c)", "unsqueeze.default(c, 0)", "view.default(c, [3, 2])",
        "as_strided.default(c, [6], [1])"};
    for (int i = 0; i < COUNT(calls); i++) {
        cfx_program *p = writing_to(calls[i]);
        CHECK_STR(result_of(p), WRITTEN);
        CHECK_STR(result_of(cfx_decompose(p, CFX_NONE)), WRITTEN);
        CHECK_STR(result_of(cfx_program_functionalize(p)), WRITTEN);
        CHECK_STR(result_of(cfx_optimize(p)), WRITTEN);
        CHECK_OK();
    }
}

/* In eval mode it is its argument; PyTorch decomposes it to a copy. */
TEST(a_write_to_a_dropout_that_does_nothing_is_a_write_to_its_argument) {
    cfx_program *p = writing_to("dropout.default(c, 0.5, False)");
    CHECK_STR(result_of(p), WRITTEN);
    CHECK_STR(result_of(cfx_program_functionalize(p)), WRITTEN);
    CHECK_STR(result_of(cfx_optimize(p)), WRITTEN);
}

/* What PyTorch takes for a copy when it functionalizes, though it is none when it runs. */
TEST(a_write_to_an_argument_that_is_given_back_unmarked_is_not_optimized_away) {
    static const char *const calls[] = {"conj_physical.default(c)", "lift.default(c)",
                                        "dequantize.self(c)", "_unsafe_view.default(c, [6])"};
    for (int i = 0; i < COUNT(calls); i++) {
        cfx_program *p = writing_to(calls[i]);
        CHECK_STR(result_of(p), WRITTEN);
        CHECK_STR(result_of(cfx_optimize(p)), WRITTEN);
    }
}

/* What its schema marks as a view is no operator of a functional program, written to or not. */
TEST(functional_programs_have_no_composites_that_are_marked_as_views) {
    cfx_program *p = program_of(HEAD "    def forward(self, x: \"f32[1, 1, 3]\"):\n"
                                     "        a = torch.ops.aten.reshape.default(x, [3])\n"
                                     "        b = torch.ops.aten.to.dtype(x, torch.float64)\n"
                                     "        c = torch.ops.aten.narrow.default(x, 2, 0, 1)\n"
                                     "        d = torch.ops.aten.matmul.default(c, c)\n"
                                     "        return (a, b, c, d)\n");
    const char *code = cfx_module_code(cfx_program_functionalize(p)->module);
    HAS(code, "torch.ops.aten.view.default(x, [3])");
    HAS(code, "torch.ops.aten._to_copy.default(x, dtype = torch.float64)");
    HAS(code, "torch.ops.aten.slice.Tensor(x, 2, 0, 1)");
    HAS(code, "torch.ops.aten.matmul.default(");
}

TEST(functional_views_that_nothing_writes_to_stay_whole) {
    cfx_program *p = program_of(HEAD "    def forward(self, x: \"f32[1, 2, 3]\"):\n"
                                     "        a = torch.ops.aten.relu.default(x)\n"
                                     "        y = torch.ops.aten.atleast_1d.default(a)\n"
                                     "        b = torch.ops.aten.exp.default(x)\n"
                                     "        z = torch.ops.aten.atleast_1d.default(b)\n"
                                     "        add_ = torch.ops.aten.add_.Tensor(z, 1)\n"
                                     "        return (y, b)\n");
    const char *code = cfx_module_code(cfx_program_functionalize(p)->module);
    HAS(code, "atleast_1d = torch.ops.aten.atleast_1d.default(relu)");
    HAS_NOT(code, "atleast_1d.default(exp)");
}
