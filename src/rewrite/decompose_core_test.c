/* Core ATen, text by text: names, strides and sequences of calls as PyTorch has them. */
#include "decompose_test.h"

#include <math.h>

/* ---- names ----------------------------------------------------------------------------------- */

/* Sizes of a product are computed while it is taken apart. They do not vary, so that no name goes
 * to that arithmetic, though another size depends on data (whose memory takes the first one). */
TEST(decompose_plain_arithmetic_takes_no_names) {
    const char *code = core_code(
        HEAD "    def forward(self, x: \"f32[2, 3, 4, 4]\", m: \"b8[6]\"):\n"
             "        nonzero: \"i64[u0, 1]\" = torch.ops.aten.nonzero.default(m)\n"
             "        mul: \"f32[2, 3, 4, 4]\" = torch.ops.aten.mul.Tensor(x, x)\n"
             "        matmul: \"f32[2, 3, 4, 4]\" = torch.ops.aten.matmul.default(mul, mul)\n"
             "        mul_1: \"f32[2, 3, 4, 4]\" = torch.ops.aten.mul.Tensor(matmul, matmul)\n"
             "        return (mul_1, nonzero)\n");
    HAS(code, "    mul_1 = torch.ops.aten.mul.Tensor(view_2, view_2)");
    HAS(code, "    return (mul_1, nonzero)");
}

/* PyTorch computes how much memory each tensor takes, which takes names, and compares that where
 * one is written to. */
TEST(decompose_sizes_take_names) {
    const char *code = core_code(
        HEAD "    def forward(self, x: \"f32[s77, 4]\"):\n"
             "        add: \"f32[s77, 4]\" = torch.ops.aten.add.Tensor(x, 1)\n"
             "        mul: \"f32[s77, 4]\" = torch.ops.aten.mul.Tensor(add, 2)\n"
             "        add_1: \"f32[s77, 4]\" = torch.ops.aten.add_.Tensor(mul, 3)\n"
             "        ge: \"b8[s77, 4]\" = torch.ops.aten.ge.Scalar(add_1, 0)\n"
             "        le: \"b8[s77, 4]\" = torch.ops.aten.le.Scalar(add_1, 0)\n"
             "        return (ge, le)\n");
    HAS(code, "    add = torch.ops.aten.add.Tensor(x, 1)");
    HAS(code, "    mul_2 = torch.ops.aten.mul.Tensor(add, 2)");
    HAS(code, "    add_10 = torch.ops.aten.add.Tensor(mul_2, 3)");
    HAS(code, "    ge_1 = torch.ops.aten.ge.Scalar(add_10, 0)");
    HAS(code, "    le = torch.ops.aten.le.Scalar(add_10, 0)");
    code = core_code(HEAD "    def forward(self, x: \"f32[s77, 4]\"):\n"
                          "        sum_1: \"f32[]\" = torch.ops.aten.sum.default(x)\n"
                          "        add: \"f32[]\" = torch.ops.aten.add.Tensor(sum_1, 1)\n"
                          "        return (add,)\n");
    HAS(code, "    add = torch.ops.aten.add.Tensor(sum_1, 1)");
}

/* An upper bound of a size is compared with, which takes names too. */
TEST(decompose_bounds_take_names) {
    cfx_program *p =
        program_of(HEAD "    def forward(self, x: \"f32[s77, 4]\"):\n"
                        "        le: \"b8[s77, 4]\" = torch.ops.aten.le.Scalar(x, 0)\n"
                        "        return (le,)\n");
    cfx_dict_set(p->ranges, "s77", cfx_tuple(2, 64));
    cfx_program *d = cfx_decompose(p, CFX_NONE);
    HAS(cfx_module_code(d->module), "    le_1 = torch.ops.aten.le.Scalar(x, 0)");
    CHECK_OK();
}

/* What the program reads and asserts of data is read and asserted anew, under the next names. */
TEST(decompose_asserts_are_made_anew) {
    const char *code = core_code(
        HEAD "    def forward(self, m: \"b8[6]\"):\n"
             "        nonzero: \"i64[u0, 1]\" = torch.ops.aten.nonzero.default(m)\n"
             "        sym_size_int: \"Sym(u0)\" = torch.ops.aten.sym_size.int(nonzero, 0)\n"
             "        ge_3: \"Sym(u0 >= 0)\" = sym_size_int >= 0\n"
             "        _assert_scalar_default = torch.ops.aten._assert_scalar.default(ge_3, "
             "\"Runtime assertion failed for expression u0 >= 0 on node 'ge_3'\")\n"
             "        return (nonzero,)\n");
    HAS(code, "    sym_size_int_1 = torch.ops.aten.sym_size.int(nonzero, 0)\n"
              "    ge_1 = sym_size_int_1 >= 0");
    HAS(code, "_assert_scalar.default(ge_1, \"Runtime assertion failed for expression u0 >= 0 on "
              "node 'ge_1'\")");
}

/* Batch norm sets a tensor aside for other backends, which nobody uses. */
TEST(decompose_batch_norm_takes_a_name) {
    const char *code = core_code(
        HEAD "    def forward(self, m: \"f32[3]\", x: \"f32[2, 3, 4]\"):\n"
             "        n: \"f32[2, 3, 4]\" = torch.ops.aten.batch_norm.default(x, None, None, m, m, "
             "False, 0.1, 1e-05, True)\n"
             "        e: \"f32[]\" = torch.ops.aten.empty.memory_format([])\n"
             "        f: \"f32[]\" = torch.ops.aten.fill_.Scalar(e, 8)\n"
             "        return (n, f)\n");
    HAS(code, "    empty_1 = torch.ops.aten.empty.memory_format([]");
    HAS(code, "    full_like = torch.ops.aten.full_like.default(empty_1, 8");
    CHECK(!strstr(code, "    empty = "));
}

/* A buffer that a module has twice: the input is called after the path that the file has. */
TEST(decompose_inputs_are_called_after_paths) {
    cfx_program *p = program_of(HEAD "    def forward(self, b_layers_0_keys: \"f32[3]\", x: "
                                     "\"f32[3]\"):\n"
                                     "        add: \"f32[3]\" = torch.ops.aten.add.Tensor(x, "
                                     "b_layers_0_keys)\n"
                                     "        return (add,)\n");
    cfx_program *q = cfx_program_new(p->module);
    cfx_program_add_input(q, (cfx_input_spec){.kind = CFX_IN_BUFFER, .name = "b_layers_0_keys",
                                              .target = "Key.cache_0", .persistent = true});
    cfx_program_add_input(q, (cfx_input_spec){.kind = CFX_IN_USER, .name = "x"});
    cfx_program_add_output(q, (cfx_output_spec){.name = "add"});
    cfx_program *d = cfx_decompose(q, CFX_NONE);
    CHECK_OK();
    HAS(cfx_module_code(d->module), "def forward(self, b_key_cache_0, x):\n    add = ");
    CHECK_STR(d->inputs[0].name, "b_key_cache_0");
    CHECK_STR(d->inputs[0].target, "Key.cache_0");
}

/* ---- strides and sizes ----------------------------------------------------------------------- */

/* Strides of what batch norm gives are those of what it is given: no copy between. */
TEST(decompose_batch_norm_keeps_strides) {
    const char *code = core_code(
        HEAD "    def forward(self, p_w: \"f32[3, 4]\", p_b: \"f32[3]\", m: \"f32[4]\", x: "
             "\"f32[2, 5, 4]\"):\n"
             "        t: \"f32[2, 4, 5]\" = torch.ops.aten.transpose.int(x, 1, 2)\n"
             "        n: \"f32[2, 4, 5]\" = torch.ops.aten.batch_norm.default(t, None, None, m, m, "
             "False, 0.1, 1e-05, True)\n"
             "        u: \"f32[2, 5, 4]\" = torch.ops.aten.transpose.int(n, 1, 2)\n"
             "        l: \"f32[2, 5, 3]\" = torch.ops.aten.linear.default(u, p_w, p_b)\n"
             "        return (l,)\n");
    HAS(code, "    view = torch.ops.aten.view.default(permute_1, [10, 4])");
    HAS(code, "    addmm = torch.ops.aten.addmm.default(p_b, view, permute_2)");
}

TEST(decompose_means_of_volumes_keep_channels_last) {
    const char *code = core_code(
        HEAD "    def forward(self, x: \"f32[1, 4, 4, 4, 6]\"):\n"
             "        p: \"f32[1, 6, 4, 4, 4]\" = torch.ops.aten.permute.default(x, [0, 4, 1, 2, "
             "3])\n"
             "        m: \"f32[1, 6, 1, 1, 1]\" = torch.ops.aten.adaptive_avg_pool3d.default(p, "
             "[1, 1, 1])\n"
             "        return (m,)\n");
    HAS(code, "mean = torch.ops.aten.mean.dim(permute, [-1, -2, -3], True)");
    HAS(code, "torch.ops.aten.as_strided.default(mean, [1, 6, 1, 1, 1], [6, 1, 6, 6, 6])");
}

/* A program for even sizes alone, which only its own check says. */
TEST(decompose_sizes_that_are_even) {
    const char *code = core_code(
        HEAD "    def forward(self, p_w: \"f32[2, 3, 4, 4]\", p_u: \"f32[2, 3, 4, 4]\", x: "
             "\"f32[s77, 3, s53, s0]\"):\n"
             "        c: \"f32[s77, 2, s53//2, s0//2]\" = torch.ops.aten.conv2d.default(x, p_w, "
             "None, [2, 2], [1, 1])\n"
             "        u: \"f32[s77, 3, 2*(s53//2), 2*(s0//2)]\" = "
             "torch.ops.aten.conv_transpose2d.input(c, p_u, None, [2, 2], [1, 1])\n"
             "        add = torch.ops.aten.add.Tensor(u, x)\n" /* of sizes that are found out */
             "        return (add,)\n");
    HAS(code, "    convolution_1 = torch.ops.aten.convolution.default(convolution, p_u");
    HAS(code, "torch.ops.aten.add.Tensor(convolution_1, x)");
}

/* What a size was computed for inside of reshape is gone when linear computes it again. */
TEST(decompose_sizes_are_computed_where_they_are_used) {
    const char *code = core_code(
        HEAD "    def forward(self, p_w: \"f32[3, 16]\", p_b: \"f32[3]\", x: "
             "\"f32[s77, 2, 4, 8]\"):\n"
             "        n: \"Sym(s77)\" = torch.ops.aten.sym_size.int(x, 0)\n"
             "        t: \"f32[s77, 4, 2, 8]\" = torch.ops.aten.transpose.int(x, 1, 2)\n"
             "        r: \"f32[s77, 4, 16]\" = torch.ops.aten.reshape.default(t, [n, 4, -1])\n"
             "        l: \"f32[s77, 4, 3]\" = torch.ops.aten.linear.default(r, p_w, p_b)\n"
             "        return (l,)\n");
    const char *view = strstr(code, "    view = "), *mul = strstr(code, " = sym_size_int_2 * 4");
    CHECK(view && mul && view < mul);
}

/* How many truths hold is known where the program asserted it. */
TEST(decompose_masks_of_known_count) {
    const char *code = core_code(
        HEAD "    def forward(self, x: \"f32[8]\", y: \"f32[6]\"):\n"
             "        gt: \"b8[8]\" = torch.ops.aten.gt.Scalar(x, 0)\n"
             "        index: \"f32[6]\" = torch.ops.aten.index.Tensor(x, [gt])\n"
             "        add: \"f32[6]\" = torch.ops.aten.add.Tensor(index, y)\n"
             "        return (add,)\n");
    HAS(code, "    index = torch.ops.aten.index.Tensor(x, [gt]);  x = gt = None\n"
              "    add = torch.ops.aten.add.Tensor(index, y)");
}

/* ---- sequences of calls ---------------------------------------------------------------------- */

/* As PyTorch: what is pointwise at heart, and sums of it, in float32. */
TEST(decompose_halves_are_computed_wider) {
    const char *code = core_code(
        HEAD "    def forward(self, x: \"bf16[2, 3, 4]\", y: \"bf16[2, 4, 3]\"):\n"
             "        z: \"bf16[2, 3, 3]\" = torch.ops.aten.bmm.default(x, y)\n"
             "        b: \"bf16[2, 3, 3]\" = torch.ops.aten.baddbmm.default(z, x, y)\n"
             "        l: \"bf16[2, 3]\" = torch.ops.aten.logsumexp.default(b, [2])\n"
             "        return (l,)\n");
    HAS(code, "    bmm_1 = torch.ops.aten.bmm.default(_to_copy_1, _to_copy_2)");
    HAS(code, "    add = torch.ops.aten.add.Tensor(_to_copy, bmm_1)");
    HAS(code, "    _to_copy_3 = torch.ops.aten._to_copy.default(add, dtype = torch.bfloat16)");
    HAS(code, "    _to_copy_4 = torch.ops.aten._to_copy.default(_to_copy_3, dtype = "
              "torch.float32)");
    HAS(code, "    amax = torch.ops.aten.amax.default(_to_copy_4, [2], True)");
    HAS(code, "    _to_copy_5 = torch.ops.aten._to_copy.default(add_1, dtype = torch.bfloat16)");
}

TEST(decompose_weight_norm_of_halves_has_a_wide_length) {
    const char *code = core_code(
        HEAD "    def forward(self, v: \"bf16[3, 2, 5]\", g: \"bf16[1, 1, 5]\"):\n"
             "        w = torch.ops.aten._weight_norm_interface.default(v, g, 2)\n"
             "        getitem: \"bf16[3, 2, 5]\" = w[0]\n"
             "        return (getitem,)\n");
    HAS(code, "linalg_vector_norm.default(v, 2, [0, 1], True, dtype = torch.float32)");
    HAS(code, "_to_copy.default(linalg_vector_norm, dtype = torch.bfloat16)");
}

/* C++ adds numbers by another overload than Python does. */
TEST(decompose_distances) {
    const char *code = core_code(
        HEAD "    def forward(self, x: \"f32[3, 4]\", y: \"f32[3, 4]\"):\n"
             "        p: \"f32[3]\" = torch.ops.aten.pairwise_distance.default(x, y)\n"
             "        c: \"f32[3]\" = torch.ops.aten.cosine_similarity.default(x, y)\n"
             "        return (p, c)\n");
    HAS(code, "    add = torch.ops.aten.add.Scalar(sub, 1e-06);  sub = None\n"
              "    linalg_vector_norm = torch.ops.aten.linalg_vector_norm.default(add, 2.0, [1])");
    HAS(code, "    clamp = torch.ops.aten.clamp.Tensor(clone, scalar_tensor);  clone = None\n"
              "    clamp_1 = torch.ops.aten.clamp.Tensor(clone_1, scalar_tensor)");
    HAS(code, "    div = torch.ops.aten.div.Tensor(y, clamp_1);  y = clamp_1 = None\n"
              "    div_1 = torch.ops.aten.div.Tensor(x, clamp);  x = clamp = None\n"
              "    mul = torch.ops.aten.mul.Tensor(div_1, div)");
}

/* As the operator does that is run whole. */
TEST(decompose_deviations_refuse_a_complex_correction) {
    static const char *const names[] = {"std", "var", "std_mean", "var_mean"};
    for (int i = 0; i < 4; i++) {
        char code[400];
        snprintf(code, sizeof code,
                 HEAD "    def forward(self, x: \"f32[3]\"):\n"
                      "        a = torch.ops.aten.%s.correction(x, None, correction = 1j)\n"
                      "        b = %s\n"
                      "        return (b,)\n",
                 names[i], i < 2 ? "torch.ops.aten.neg.default(a)" : "a[0]");
        cfx_program *p = program_of(code);
        for (int whole = 1; whole >= 0; whole--) {
            cfx_program_run(whole ? p : cfx_decompose(p, CFX_NONE), cfx_ones(3));
            CHECK_ERROR("value cannot be converted to type double without overflow");
        }
    }
}

/* What says which elements are targets is as large as the target. */
TEST(decompose_margins_of_a_target_without_dimensions) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[1]\", t: \"i64[]\"):\n"
             "        y = torch.ops.aten.multilabel_margin_loss_forward.default(x, t, 1)\n"
             "        getitem: \"f32[]\" = y[1]\n"
             "        return (getitem,)\n");
    cfx_value t = cfx_tensor_value(cfx_zeros(cfx_list(), CFX_KW(dtype, cfx_i64)));
    for (int whole = 1; whole >= 0; whole--)
        CHECK_STR(cfx_str(cfx_program_run(whole ? p : cfx_decompose(p, CFX_NONE), cfx_ones(1), t)),
                  "(tensor(1.),)");
}

/* 1+2j is not 1, nor is 2j nothing. */
TEST(decompose_products_by_complex_numbers) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"c64[1, 1, 1]\", v: \"c64[1]\", i: \"i64[1]\"):\n"
             "        b = torch.ops.aten.baddbmm.default(x, x, x, beta = (1+2j), alpha = (1+1j))\n"
             "        a = torch.ops.aten.index_add.default(v, 0, i, v, alpha = (1+3j))\n"
             "        r = torch.ops.aten.addr.default(v, v, v, beta = 2j)\n"
             "        return (b, a, r)\n");
    cfx_tensor *v = cfx_full(cfx_list(1), cfx_complex_value(1, 1));
    cfx_tensor *x = cfx_view(v, cfx_list(1, 1, 1)), *i = cfx_zeros(1, CFX_KW(dtype, cfx_i64));
    for (int whole = 1; whole >= 0; whole--)
        CHECK_STR(cfx_str(cfx_program_run(whole ? p : cfx_decompose(p, CFX_NONE), x, v, i)),
                  "(tensor([[[-3.+5.j]]]), tensor([-1.+5.j]), tensor([[-2.+4.j]]))");
    CHECK_OK();
}

/* Factors of integers are whole; a complex number is finite where both of its parts are. */
TEST(decompose_factors_of_integers_and_complex_numbers_without_end) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"i64[1, 1, 1]\", z: \"c64[3]\"):\n"
             "        b = torch.ops.aten.baddbmm.default(x, x, x, beta = 1.9, alpha = 0.6)\n"
             "        f = torch.ops.aten.isfinite.default(z)\n"
             "        return (b, f)\n");
    cfx_tensor *x = cfx_full(cfx_list(1, 1, 1), 3);
    cfx_tensor *z = cfx_tensor_new(CFX_C64, 1, (int64_t[]){3},
                                   (float[]){1, INFINITY, NAN, 2, 3, 4});
    for (int whole = 1; whole >= 0; whole--)
        CHECK_STR(cfx_str(cfx_program_run(whole ? p : cfx_decompose(p, CFX_NONE), x, z)),
                  "(tensor([[[3]]]), tensor([False, False,  True]))");
    CHECK_OK();
}

/* ---- writes ---------------------------------------------------------------------------------- */

/* Functionalised, batch_norm still writes; what is put back into the same buffer comes after. */
TEST(decompose_puts_back_what_was_put_back) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, b_mean: \"f32[3]\", b_var: \"f32[3]\", x: \"f32[2, 3]\"):\n"
             "        y: \"f32[2, 3]\" = torch.ops.aten.batch_norm.default(x, None, None, b_mean, "
             "b_var, True, 0.1, 1e-05, False)\n"
             "        fill_: \"f32[3]\" = torch.ops.aten.fill_.Scalar(b_var, 0.5)\n"
             "        return (y, fill_)\n");
    cfx_program *d = cfx_decompose(cfx_program_functionalize(p), CFX_NONE);
    CHECK_OK();
    CHECK_INT(d->noutputs, 4);
    CHECK_STR(d->outputs[0].target, "mean");
    CHECK_STR(d->outputs[1].target, "var");
    CHECK_STR(d->outputs[1].name, "full_like");
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* A write to a tensor without elements changes nothing, but the call may refuse. */
TEST(decompose_keeps_writes_to_nothing_that_may_refuse) {
    cfx_program *p = cfx_decompose(
        program_of(HEAD "    def forward(self, x: \"f32[0]\", i: \"i64[1]\"):\n"
                        "        view: \"i64[0]\" = torch.ops.aten.view.dtype(x, torch.int64)\n"
                        "        add_: \"i64[0]\" = torch.ops.aten.scatter_add_.default(view, 0, "
                        "i, i)\n"
                        "        return (add_,)\n"),
        CFX_NONE);
    CHECK_OK();
    HAS(cfx_module_code(p->module), "torch.ops.aten.scatter_add.default(view, 0, i, i)");
    cfx_program_run(p, cfx_zeros(0), cfx_zeros(1, CFX_KW(dtype, cfx_i64)));
    CHECK_ERROR("index 0 is out of bounds for dimension 0 with size 0");
}
