/* Core ATen: what programs become, and that they still compute the same. */
#include "decompose_test.h"

/* Of what nobody says what it is there is no fake tensor, and None is another program. */
TEST(inputs_have_to_be_described) {
    cfx_program *p = cfx_program_parse(
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, x: \"f32[3, 4]\", w: \"f32[4, 4]\", b):\n"
        "        linear: \"f32[3, 4]\" = torch.ops.aten.linear.default(x, w, b)\n"
        "        return (linear,)\n",
        "linear");
    CHECK_OK();
    cfx_decompose(p, CFX_NONE);
    CHECK_ERROR("nothing is known of what input b is: its dtype and its shape");
}

TEST(decompose_linear_and_names) {
    const char *code = core_code(
        HEAD "    def forward(self, p_w: \"f32[3, 4]\", p_b: \"f32[3]\", x: \"f32[2, 4]\"):\n"
             "        linear: \"f32[2, 3]\" = torch.ops.aten.linear.default(x, p_w, p_b)\n"
             "        silu: \"f32[2, 3]\" = torch.ops.aten.silu.default(linear)\n"
             "        return (silu,)\n");
    CHECK_STR(code,
              "\n\n\ndef forward(self, p_w, p_b, x):\n"
              "    permute = torch.ops.aten.permute.default(p_w, [1, 0]);  p_w = None\n"
              "    addmm = torch.ops.aten.addmm.default(p_b, x, permute);  "
              "p_b = x = permute = None\n"
              "    sigmoid = torch.ops.aten.sigmoid.default(addmm)\n"
              "    mul = torch.ops.aten.mul.Tensor(addmm, sigmoid);  addmm = sigmoid = None\n"
              "    return (mul,)\n    ");
}

TEST(decompose_keeps_the_order_of_planes_of_one_element) {
    const char *code = core_code(
        HEAD "    def forward(self, x: \"f32[2, 1, 1, 4]\", y: \"f32[2, 4, 1, 1]\"):\n"
             "        view: \"f32[2, 4, 1, 1]\" = torch.ops.aten.as_strided.default(x, "
             "[2, 4, 1, 1], [4, 1, 4, 4])\n"
             "        add: \"f32[2, 4, 1, 1]\" = torch.ops.aten.add.Tensor(view, y)\n"
             "        pool: \"f32[2, 4, 1, 1]\" = torch.ops.aten.adaptive_avg_pool2d.default(add, "
             "[1, 1])\n"
             "        return (pool,)\n");
    HAS(code, "mean = torch.ops.aten.mean.dim(add, [-1, -2], True)");
    HAS(code, "torch.ops.aten.as_strided.default(mean, [2, 4, 1, 1], [4, 1, 4, 4])");
}

TEST(decompose_writes_become_values) {
    const char *code = core_code(
        HEAD "    def forward(self, b_n: \"f32[4]\", x: \"f32[2, 4]\"):\n"
             "        add_: \"f32[4]\" = torch.ops.aten.add_.Tensor(b_n, 1)\n"
             "        clone: \"f32[2, 4]\" = torch.ops.aten.clone.default(x)\n"
             "        slice_1: \"f32[2, 2]\" = torch.ops.aten.slice.Tensor(clone, 1, 1, 3)\n"
             "        mul_: \"f32[2, 2]\" = torch.ops.aten.mul_.Tensor(slice_1, 2)\n"
             "        add: \"f32[2, 4]\" = torch.ops.aten.add.Tensor(clone, add_)\n"
             "        return (add,)\n");
    HAS(code, "mul = torch.ops.aten.mul.Tensor(slice_1, 2)");
    HAS(code, "slice_scatter = torch.ops.aten.slice_scatter.default(clone, mul, 1, 1, 3)");
    HAS(code, "add_1 = torch.ops.aten.add.Tensor(slice_scatter, add)");
    HAS(code, "return (add, add_1)");
}

TEST(decompose_names_what_was_written) {
    cfx_program *d = cfx_decompose(
        program_of(HEAD "    def forward(self, b_n: \"f32[4]\", x: \"f32[4]\"):\n"
                        "        add_: \"f32[4]\" = torch.ops.aten.add_.Tensor(b_n, x)\n"
                        "        relu_: \"f32[4]\" = torch.ops.aten.relu_.default(x)\n"
                        "        return (relu_,)\n"),
        CFX_NONE);
    CHECK_OK();
    CHECK_INT(d->noutputs, 3);
    CHECK_INT(d->outputs[0].kind, CFX_OUT_BUFFER_MUTATION);
    CHECK_STR(d->outputs[0].target, "n");
    CHECK_INT(d->outputs[1].kind, CFX_OUT_INPUT_MUTATION);
    CHECK_STR(d->outputs[1].target, "x");
    CHECK_INT(d->outputs[2].kind, CFX_OUT_USER);
    CHECK_STR(d->outputs[2].name, "relu");
}

TEST(decompose_constants_that_are_written_to_are_buffers_beside_the_state) {
    cfx_program *p = program_of(
        "def forward(self, c_count: \"f32[3]\", x: \"f32[3]\"):\n"
        "    add_ = torch.ops.aten.add_.Tensor(c_count, 1)\n"
        "    mul = torch.ops.aten.mul.Tensor(x, add_)\n"
        "    return (mul,)\n");
    p->inputs[0].kind = CFX_IN_CONSTANT;
    p->inputs[0].target = "count";
    cfx_dict_set(p->constants, "count", cfx_tensor_value(cfx_ones(cfx_list(3))));
    cfx_program *d = cfx_decompose(p, CFX_NONE);
    if (!CHECK(d != NULL))
        return;
    CHECK_INT(d->inputs[0].kind, CFX_IN_BUFFER);
    CHECK(!d->inputs[0].persistent);
    CHECK(cfx_program_tensor(d, &d->inputs[0]) != NULL);
    CHECK_INT(d->outputs[0].kind, CFX_OUT_BUFFER_MUTATION);
    CHECK_OK();
}

TEST(decompose_keeps_what_is_asked_for) {
    const char *source =
        HEAD "    def forward(self, p_w: \"f32[3, 4]\", x: \"f32[2, 4]\"):\n"
             "        linear: \"f32[2, 3]\" = torch.ops.aten.linear.default(x, p_w)\n"
             "        gelu: \"f32[2, 3]\" = torch.ops.aten.gelu.default(linear)\n"
             "        return (gelu,)\n";
    cfx_program *d = cfx_decompose(program_of(source), cfx_list("linear"));
    CHECK_OK();
    HAS(cfx_module_code(d->module), "linear = torch.ops.aten.linear.default(x, p_w)");
    d = cfx_decompose(program_of(source), CFX_NONE);
    CHECK(!strstr(cfx_module_code(d->module), "linear"));
}

TEST(decompose_twice_changes_nothing) {
    cfx_program *d = cfx_decompose(
        program_of(
            HEAD
            "    def forward(self, x: \"f32[2, 3, 8]\", y: \"f32[2, 8, 5]\"):\n"
            "        matmul: \"f32[2, 3, 5]\" = torch.ops.aten.matmul.default(x, y)\n"
            "        softmax: \"f32[2, 3, 5]\" = torch.ops.aten.softmax.int(matmul, -1)\n"
            "        std: \"f32[2, 3]\" = torch.ops.aten.std.dim(softmax, [-1])\n"
            "        tril: \"f32[2, 3]\" = torch.ops.aten.tril.default(std)\n"
            "        return (tril,)\n"),
        CFX_NONE);
    CHECK_OK();
    cfx_program *again = cfx_decompose(d, CFX_NONE);
    CHECK_OK();
    CHECK_STR(cfx_module_code(again->module), cfx_module_code(d->module));
}

/* Each operator of the table computes what its decomposition does. */
static void same_numbers(const char *call, const char *shape, cfx_tensor *x) {
    char code[1000];
    const char *before = strchr(call, ';'); /* "first; call": m is what the first gives */
    snprintf(code, sizeof code,
             HEAD "    def forward(self, x: \"f32%s\"):\n"
                  "        m = torch.ops.aten.%.*s\n"
                  "        y = torch.ops.aten.%s\n        return (y,)\n",
             shape, before ? (int)(before - call) : 100, before ? call : "neg.default(x)",
             before ? before + 2 : call);
    cfx_program *p = program_of(code), *d = cfx_decompose(p, CFX_NONE);
    CHECK_OK();
    cfx_tensor *a = cfx_tensor_at(cfx_forward_value(p->module, x), 0);
    cfx_tensor *b = cfx_tensor_at(cfx_forward_value(d->module, x), 0);
    CHECK_OK();
    CHECK_INT(cfx_tensor_numel(a), cfx_tensor_numel(b));
    for (int64_t i = 0; i < cfx_tensor_numel(a); i++)
        CHECK_NEAR(cfx_tensor_get(a, i), cfx_tensor_get(b, i), 1e-5);
}

TEST(decompose_computes_the_same) {
    static const char *const calls[] = {
        "silu.default(x)",
        "hardswish.default(x)",
        "hardsigmoid.default(x)",
        "softplus.default(x, 2, 3)",
        "mish.default(x)",
        "celu.default(x, 2.0)",
        "glu.default(x, -1)",
        "hardshrink.default(x)",
        "softshrink.default(x)",
        "threshold.default(x, 0.1, 5)",
        "log_sigmoid.default(x)",
        "addcmul.default(x, x, x, value = 0.5)",
        "addcdiv.default(x, x, x, value = 2)",
        "rsub.Scalar(x, 2.0)",
        "floor_divide.default(x, 0.3)",
        "clamp_min.default(x, 0)",
        "clamp_max.default(x, 0)",
        "frac.default(x)",
        "deg2rad.default(x)",
        "rad2deg.default(x)",
        "sgn.default(x)",
        "lerp.Scalar(x, x, 0.7)",
        "sinc.default(x)",
        "logaddexp.default(x, x)",
        "logaddexp2.default(x, x)",
        "xlogy.Scalar_Other(x, 2.0)",
        "special_log_ndtr.default(x)",
        "nan_to_num.default(x)",
        "gt.Scalar(x, 0); masked_fill.Scalar(x, m, 3)",
        "logsumexp.default(x, [1])",
        "nansum.default(x, [0])",
        "std.correction(x, [1], correction = 0)",
        "var.dim(x, [0])",
        "norm.ScalarOpt_dim(x, 3, [1])",
        "mse_loss.default(x, x)",
        "smooth_l1_loss.default(x, x)",
        "huber_loss.default(x, x)",
        "soft_margin_loss.default(x, x)",
        "transpose.int(x, 0, 1)",
        "roll.default(x, [1, 2], [0, 1])",
        "roll.default(x, [3])",
        "rot90.default(x)",
        "tril.default(x, 1)",
        "triu.default(x, -1)",
        "stack.default([x, x], 1)",
        "stack.default([x, x], -1)",
        "arange.default(2); index_fill.int_Scalar(x, 1, m, 7)",
        "arange.default(4); index_add.default(x, 0, m, x, alpha = 2)",
        "select.int(x, 0, 1); select_scatter.default(x, m, 0, 2)",
        "reflection_pad1d.default(x, [2, 3])",
        "replication_pad1d.default(x, [1, 2])",
        "linspace.default(0, 1, 5)",
        "eye.m(3, 4)",
        "zeros_like.default(x)",
        "sigmoid.default(x); logit.default(m)",
        "sigmoid.default(x); logit.default(m, 0.3)",
        "trace.default(x)",
        "slice.Tensor(x, 1, 0, 3); linalg_cross.default(m, m)",
        "block_diag.default([x, x])",
        "block_diag.default([]); add.Tensor(x, 1)",
        "count_nonzero.default(x, 1)",
        "all.default(x)",
        "binary_cross_entropy_with_logits.default(x, x)",
        "view.default(x, [1, 1, 4, 6]); im2col.default(m, [2, 2], [1, 1], [1, 0], [1, 2])",
        "view.default(x, [1, 4, 6]); col2im.default(m, [3, 4], [2, 2], [1, 1], [0, 0], [1, 1])",
        "view.default(x, [1, 1, 4, 6]); _pad_circular.default(m, [2, 1, 1, 0])",
        "view.default(x, [4, 2, 3]); affine_grid_generator.default(m, [4, 1, 3, 5], False)",
        "arange.default(4); cross_entropy_loss.default(x, m, None, 1, 2, 0.1)",
        "arange.default(4); cross_entropy_loss.default(x, m, None, 0)",
        "diff.default(x)",
        "quantile.scalar(x, 0.3, 1)",
        "nanquantile.scalar(x, 0.5)",
        "feature_dropout.default(x, 1.0, True)",
        "gt.Scalar(x, 0); mse_loss.default(x, m)",
        "gt.Scalar(x, 0); smooth_l1_loss.default(x, m)",
        "gt.Scalar(x, 0); huber_loss.default(m, x)",
        "_histogramdd_bin_edges.default(x, [2, 2, 2, 2, 2, 2]); stack.default(m)",
        "cumsum.default(x, 1)",
        "arange.default(4); multi_margin_loss.default(x, m, 2, 0.5, None, 2)",
        "arange.default(4); multi_margin_loss.default(x, m)",
        "full.default([4, 6], -1); multilabel_margin_loss.default(x, m)",
        "argsort.default(x); multilabel_margin_loss.default(x, m, 0)",
        "round.default(x); isin.Tensor_Scalar(m, 1, invert = True)",
        "round.default(x); isin.Tensor_Tensor(m, x)",
        "arange.default(3); isin.Tensor_Tensor(m, x, invert = True)",
        "zeros.default([3], dtype = torch.int8); isin.Scalar_Tensor(256, m)",
        "zeros.default([3], dtype = torch.float64); isin.Scalar_Tensor(1e-300, m)",
        "full.default([3], 16777216); isin.Scalar_Tensor(16777217, m)",
        "exp.default(x); mvlgamma.default(m, 1)",
        "full.default([3], 4, dtype = torch.uint8); mvlgamma.default(m, 3)",
        "full.default([3], 4, dtype = torch.float16); mvlgamma.default(m, 3)",
        "to.dtype(x, torch.complex32); dropout.default(m, 1.0, True)",
        "renorm.default(x, 2, 0, 1.0)",
        "unfold.default(x, 1, 3, 2); unfold_backward.default(m, [4, 6], 1, 3, 2)",
        "neg.default(x); cosine_similarity.default(x, m)",
        "exp.default(x); pairwise_distance.default(x, m)",
        "exp.default(x); triplet_margin_loss.default(x, m, x)",
        "sign.default(x); hinge_embedding_loss.default(x, m)",
        "sign.default(x); margin_ranking_loss.default(x, x, m, 0.5)",
        "argsort.default(x); take_along_dim.default(x, m, 1)",
        "view.default(x, [1, 4, 6]); pad.default(m, [1, 2], 'reflect', 0.0)"};
    cfx_manual_seed(1);
    cfx_tensor *x = cfx_randn(4, 6);
    for (int i = 0; i < (int)(sizeof calls / sizeof *calls); i++)
        CFX_SCOPE { same_numbers(calls[i], "[4, 6]", x); }
}

TEST(decompose_images_compute_the_same) {
    static const struct {
        const char *call;
        int dims;
    } calls[] = {{"pad.default(x, [1, 2], 'circular')", 3},
                 {"pad.default(x, [1, 2, 0, 1], 'circular')", 4},
                 {"pad.default(x, [2, 1, 1, 0], 'reflect')", 4},
                 {"pad.default(x, [2, 1, 1, 0], 'replicate')", 4},
                 {"im2col.default(x, [2, 3], [1, 1], [1, 0], [2, 1])", 4},
                 {"pixel_shuffle.default(x, 2)", 4},
                 {"pixel_unshuffle.default(x, 2)", 4},
                 {"channel_shuffle.default(x, 2)", 4},
                 {"upsample_nearest1d.vec(x, [9], None)", 3},
                 {"_upsample_nearest_exact1d.vec(x, [5], None)", 3},
                 {"upsample_nearest2d.default(x, [9, 5])", 4},
                 {"_upsample_nearest_exact2d.vec(x, None, [1.5, 2.0])", 4},
                 {"upsample_nearest3d.vec(x, [5, 9, 5], None)", 5},
                 {"upsample_linear1d.vec(x, [9], True, None)", 3},
                 {"upsample_linear1d.vec(x, [9], False, None)", 3},
                 {"upsample_trilinear3d.vec(x, [5, 3, 8], False, None)", 5},
                 {"upsample_bicubic2d.vec(x, [9, 5], False, None)", 4},
                 {"upsample_bicubic2d.vec(x, [9, 5], True, None)", 4},
                 {"_upsample_bilinear2d_aa.vec(x, [3, 2], False, None)", 4},
                 {"adaptive_avg_pool2d.default(x, [1, 1])", 4},
                 {"instance_norm.default(x, None, None, None, None, True, 0.1, 1e-05, False)", 4},
                 {"group_norm.default(x, 2)", 4}};
    const char *shapes[] = {[3] = "[2, 4, 6]", [4] = "[2, 4, 6, 6]", [5] = "[2, 4, 3, 6, 6]"};
    cfx_tensor *x[] = {[3] = cfx_randn(2, 4, 6),
                       [4] = cfx_randn(2, 4, 6, 6),
                       [5] = cfx_randn(2, 4, 3, 6, 6)};
    for (int i = 0; i < (int)(sizeof calls / sizeof *calls); i++)
        CFX_SCOPE { same_numbers(calls[i].call, shapes[calls[i].dims], x[calls[i].dims]); }
}

TEST(decompose_sub_graphs) {
    const char *code = core_code(
        HEAD "    def forward(self, p: \"b8[]\", x: \"f32[2]\"):\n"
             "        true_graph_0 = self.true_graph_0\n"
             "        false_graph_0 = self.false_graph_0\n"
             "        cond = torch.ops.higher_order.cond(p, true_graph_0, false_graph_0, [x])\n"
             "        getitem: \"f32[2]\" = cond[0]\n"
             "        return (getitem,)\n"
             "\n"
             "    class true_graph_0(torch.nn.Module):\n"
             "        def forward(self, x: \"f32[2]\"):\n"
             "            silu: \"f32[2]\" = torch.ops.aten.silu.default(x)\n"
             "            return (silu,)\n"
             "\n"
             "    class false_graph_0(torch.nn.Module):\n"
             "        def forward(self, x: \"f32[2]\"):\n"
             "            return (x,)\n");
    HAS(code, "cond = torch.ops.higher_order.cond(p, true_graph_0, false_graph_0, (x,))");
    HAS(code, "getitem = cond[0]");
}

TEST(decompose_sizes_that_are_symbols) {
    const char *code = core_code(
        HEAD "    def forward(self, p_w: \"f32[3, 4]\", p_b: \"f32[3]\", x: \"f32[s0, s1, 4]\"):\n"
             "        linear = torch.ops.aten.linear.default(x, p_w, p_b)\n"
             "        return (linear,)\n");
    HAS(code, "    sym_size_int_4 = torch.ops.aten.sym_size.int(x, 0)\n"
              "    sym_size_int_5 = torch.ops.aten.sym_size.int(x, 1)\n");
    HAS(code, " = sym_size_int_4 * sym_size_int_5\n");
    HAS(code, "view_1 = torch.ops.aten.view.default(addmm, [sym_size_int_4, sym_size_int_5, 3])");
}

TEST(decompose_mistakes) {
    CHECK(cfx_failed(cfx_decompose(NULL, CFX_NONE)));
    CHECK_ERROR("the program is NULL");
    cfx_program *p = program_of(HEAD "    def forward(self, x: \"f32[2, 3]\", y: \"f32[2, 3]\"):\n"
                                     "        mm = torch.ops.aten.mm.default(x, y)\n"
                                     "        return (mm,)\n");
    CHECK(cfx_failed(cfx_decompose(p, CFX_NONE)));
    CHECK_ERROR("mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)");
}

/* Statements over x and its clone c, divided by bars. */
static const char *const writes[] = {
        "s = aten.select.int(c, 0, 1)|"
         "a = aten.add_.Tensor(s, 5)|"
         "y = aten.mul.Tensor(c, 2)|",
        "v = aten.view.default(c, [24])|"
         "s = aten.slice.Tensor(v, 0, 3, 20, 2)|"
         "a = aten.mul_.Tensor(s, 3)|"
         "t = aten.transpose.int(c, 0, 1)|"
         "b = aten.relu_.default(t)|"
         "y = aten.add.Tensor(c, 0)|",
        "u = aten.unbind.int(c, 1)|"
         "g = u[2]|"
         "a = aten.zero_.default(g)|"
         "h = u[3]|"
         "b = aten.fill_.Scalar(h, 7)|"
         "y = aten.add.Tensor(c, 0)|",
        "u = aten.split.Tensor(c, 4, 1)|"
         "g = u[1]|"
         "a = aten.exp_.default(g)|"
         "y = aten.add.Tensor(c, 0)|",
        "d = aten.diagonal.default(c)|"
         "a = aten.add_.Tensor(d, 100)|"
         "q = aten.unsqueeze.default(c, 0)|"
         "m = aten.mul_.Tensor(q, 2)|"
         "p = aten.permute.default(q, [2, 0, 1])|"
         "z = aten.sub_.Tensor(p, 1)|"
         "y = aten.add.Tensor(c, 0)|",
        "e = aten.unsqueeze.default(c, 1)|"
         "q = aten.squeeze.dim(e, 1)|"
         "a = aten.tanh_.default(q)|"
         "s = aten.as_strided.default(c, [3, 2], [6, 1], 2)|"
         "b = aten.neg_.default(s)|"
         "y = aten.add.Tensor(c, 0)|",
        "i = aten.arange.default(2)|"
         "v = aten.slice.Tensor(x, 0, 2, 4)|"
         "a = aten.index_put_.default(c, [i], v)|"
         "m = aten.gt.Scalar(x, 0)|"
         "k = aten.masked_fill_.Scalar(c, m, -1)|"
         "t = aten.t_.default(c)|"
         "y = aten.add.Tensor(t, 0)|",
        "f = aten.flatten.using_ints(c)|"
         "a = aten.clamp_.default(f, 0, 1)|"
         "n = aten.narrow.default(c, 1, 1, 2)|"
         "o = aten.narrow.default(x, 1, 3, 2)|"
         "k = aten.copy_.default(n, o)|"
         "y = aten.add.Tensor(f, 0)|",
        "f = aten.chunk.default(c, 2, 0)|"
         "g = f[0]|"
         "h = f[1]|"
         "a = aten.add_.Tensor(g, h)|"
         "b = aten.mul_.Tensor(h, g)|"
         "y = aten.add.Tensor(c, 0)|",
        "i = aten.gt.Scalar(x, 0)|"
         "j = aten.to.dtype(i, torch.int64)|"
         "a = aten.add_.Tensor(j, 2)|"
         "b = aten.mul_.Tensor(j, i)|"
         "y = aten.add.Tensor(j, c)|",
        "a = aten.fill_diagonal_.default(c, 9)|"
         "t = aten.transpose_.default(c, 0, 1)|"
         "b = aten.fill_diagonal_.default(c, 4, True)|"
         "y = aten.add.Tensor(c, 0)|",
        "i = aten.arange.default(3)|"
         "o = aten.add.Tensor(i, 7)|"
         "k = aten.__rshift__.Tensor_out(i, i, out = o)|"
         "y = aten.sub.Tensor(i, o)|",
        "t = aten.t.default(c)|"
         "a = aten.tril_.default(t)|"
         "e = aten.exp.default(c)|"
         "v = aten.view.dtype(e, torch.float64)|"
         "y = aten.view.dtype(v, torch.float32)|",
        "o = aten.t.default(x)|"
         "q = aten.matmul.default(c, o)|"
         "t = aten.t_.default(q)|"
         "s = aten.as_strided.default(t, [3, 2], [4, 1], 2)|"
         "b = aten.neg_.default(s)|"
         "y = aten.add.Tensor(q, 0)|",
        "a = aten.normal_.default(c, 3.0, 0.0)|"
         "b = aten.bernoulli_.float(c, 1.0)|"
         "y = aten.add.Tensor(c, a)|"};

TEST(decompose_writes_compute_the_same) {
    cfx_manual_seed(2);
    for (int i = 0; i < (int)(sizeof writes / sizeof *writes); i++)
        CFX_SCOPE {
            char code[2000];
            int n = snprintf(code, sizeof code,
                             HEAD "    def forward(self, x: \"f32[4, 6]\"):\n"
                                  "        c = torch.ops.aten.clone.default(x)\n        ");
            for (const char *p = writes[i]; *p; p++) {
                const char *more = *p == '|'                 ? "\n        "
                                   : !strncmp(p, "aten.", 5) ? "torch.ops."
                                                             : "";
                n += snprintf(code + n, sizeof code - (size_t)n, "%s", more);
                if (*p != '|')
                    n += snprintf(code + n, sizeof code - (size_t)n, "%c", *p);
            }
            snprintf(code + n, sizeof code - (size_t)n, "return (y,)\n");
            cfx_program *p = program_of(code), *d = cfx_decompose(p, CFX_NONE);
            CHECK_OK();
            cfx_tensor *x = cfx_randn(4, 6);
            cfx_tensor *a = cfx_tensor_at(cfx_forward_value(p->module, x), 0);
            cfx_tensor *b = cfx_tensor_at(cfx_forward_value(d->module, x), 0);
            CHECK_OK();
            for (int64_t k = 0; k < cfx_tensor_numel(a); k++)
                CHECK_NEAR(cfx_tensor_get(a, k), cfx_tensor_get(b, k), 1e-6);
        }
}

/* A write to what the program is not given would be lost. */
TEST(decompose_refuses_writes_that_no_result_holds) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[2]\"):\n"
             "        g0 = self.g0\n"
             "        hop = torch.ops.higher_order.invoke_subgraph(g0, 'g0', x)\n"
             "        y: \"f32[2]\" = hop[0]\n"
             "        z: \"f32[2]\" = torch.ops.aten.add.Tensor(x, y)\n"
             "        return (z,)\n"
             "\n"
             "    class g0(torch.nn.Module):\n"
             "        def forward(self, a: \"f32[2]\"):\n"
             "            b: \"f32[2]\" = torch.ops.aten.select.int(a, 0, 0)\n"
             "            c: \"f32[2]\" = torch.ops.aten.neg_.default(b)\n"
             "            return (c,)\n");
    CHECK_OK();
    cfx_decompose(p, CFX_NONE);
    CHECK_ERROR("a sub-graph writes to a, which it is given, and there is no form of it without "
                    "writes");
    cfx_program_functionalize(p);
    CHECK_ERROR("a sub-graph writes to a");
    cfx_graph *g = cfx_graph_new();
    cfx_node *w = cfx_graph_get_attr(g, "w");
    cfx_node *y = cfx_graph_call(g, "torch.ops.aten.neg_.default", w);
    cfx_graph_output(g, cfx_tuple(y));
    cfx_module *root = cfx_module_new("M", NULL, "");
    cfx_module_set_attr(root, "w", cfx_tensor_value(cfx_ones(2)));
    cfx_decompose(cfx_program_new(cfx_graph_module(root, g, "M")), CFX_NONE);
    CHECK_ERROR("w is written to and is no input, and there is no form of that without writes");
    cfx_module *body = cfx_graph_module(root, g, "M"), *outer = cfx_module_new("M", NULL, "");
    cfx_module_set_attr(outer, "g0", cfx_module_value(body));
    g = cfx_graph_new();
    y = cfx_graph_call(g, "torch.ops.higher_order.invoke_subgraph", cfx_graph_get_attr(g, "g0"),
                       "g0");
    cfx_graph_output(g, cfx_tuple(y));
    cfx_decompose(cfx_program_new(cfx_graph_module(outer, g, "M")), CFX_NONE);
    CHECK_ERROR("a sub-graph writes to its attribute w, and there is no form of it without writes");
}

TEST(decompose_refuses_to_turn_inputs_in_place) {
    cfx_decompose(program_of(HEAD "    def forward(self, x: \"f32[2, 3]\"):\n"
                                  "        y: \"f32[3, 2]\" = torch.ops.aten.t_.default(x)\n"
                                  "        return (y,)\n"), CFX_NONE);
    CHECK_ERROR("aten.t_.default makes a view of what the program is given, and no operator does "
                "the same without");
    const char *code = core_code(
        HEAD "    def forward(self, x: \"f32[2, 3]\"):\n"
             "        c: \"f32[2, 3]\" = torch.ops.aten.clone.default(x)\n"
             "        y: \"f32[3, 2]\" = torch.ops.aten.t_.default(c)\n"
             "        return (y,)\n");
    HAS(code, "torch.ops.aten.permute.default(clone, [1, 0])");
}

/* Of what the program holds the strides are known. */
TEST(decompose_refuses_views_of_held_tensors_as_running_does) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *w = cfx_graph_get_attr(g, "w");
    cfx_node *y = cfx_graph_call(g, "torch.ops.aten.view.default", w, cfx_list(-1));
    cfx_graph_output(g, cfx_tuple(y));
    cfx_module *root = cfx_module_new("M", NULL, "");
    cfx_module_set_attr(root, "w", cfx_tensor_value(cfx_t(cfx_ones(2, 3))));
    cfx_program *p = cfx_program_new(cfx_graph_module(root, g, "M"));
    cfx_program_run(p);
    CHECK_ERROR("view size is not compatible with input tensor's size and stride");
    cfx_decompose(p, CFX_NONE);
    CHECK_ERROR("view size is not compatible with input tensor's size and stride");
}

TEST(decompose_training) {
    const char *code = core_code(TRAINING);
    HAS(code, "torch.ops.aten._native_batch_norm_legit_functional.default(x, p_w, p_b, b_m, b_v, "
              "True, 0.1, 1e-05)");
    HAS(code, "native_dropout = torch.ops.aten.native_dropout.default(getitem, 0.5, True)");
    HAS(code, "return (getitem_3, getitem_4, add, getitem_5)");
}

TEST(decompose_regions_are_written_out) {
    const char *code = core_code(
        HEAD "    def forward(self, x: \"f32[2]\"):\n"
             "        submod_0 = self.submod_0\n"
             "        wrap = torch.ops.higher_order.wrap_with_set_grad_enabled(False, submod_0, "
             "x)\n"
             "        getitem: \"f32[2]\" = wrap[0]\n"
             "        return (getitem,)\n"
             "\n"
             "    class submod_0(torch.nn.Module):\n"
             "        def forward(self, x: \"f32[2]\"):\n"
             "            silu: \"f32[2]\" = torch.ops.aten.silu.default(x)\n"
             "            return (silu,)\n");
    HAS(code, "mul = torch.ops.aten.mul.Tensor(x, sigmoid)");
    HAS(code, "return (mul,)");
}

/* PyTorch converts the last argument first. */
TEST(decompose_autocast_converts_what_calls_are_given) {
    const char *code = core_code(
        HEAD "    def forward(self, p_w: \"f32[3, 4]\", p_b: \"f32[3]\", x: \"f32[2, 4]\"):\n"
             "        submod_0 = self.submod_0\n"
             "        wrap = torch.ops.higher_order.wrap_with_autocast('cpu', torch.bfloat16, "
             "True, False, submod_0, x, p_w, p_b)\n"
             "        getitem: \"bf16[2, 3]\" = wrap[0]\n"
             "        relu: \"bf16[2, 3]\" = torch.ops.aten.relu.default(getitem)\n"
             "        return (relu,)\n"
             "\n"
             "    class submod_0(torch.nn.Module):\n"
             "        def forward(self, x: \"f32[2, 4]\", w: \"f32[3, 4]\", b: "
             "\"f32[3]\"):\n"
             "            linear: \"bf16[2, 3]\" = torch.ops.aten.linear.default(x, w, b)\n"
             "            return (linear,)\n");
    HAS(code, "    _to_copy = torch.ops.aten._to_copy.default(p_b, dtype = torch.bfloat16);  p_b = "
              "None\n"
              "    _to_copy_1 = torch.ops.aten._to_copy.default(p_w, dtype = torch.bfloat16);  p_w "
              "= None\n"
              "    _to_copy_2 = torch.ops.aten._to_copy.default(x, dtype = torch.bfloat16);  x = "
              "None\n"
              "    permute = torch.ops.aten.permute.default(_to_copy_1, [1, 0])");
    HAS(code, "relu = torch.ops.aten.relu.default(addmm)");
}

/* Arithmetic on sizes that gives a number is that number for an operator; what sympy does not see
 * through, (s + 2) % s, is not. */
TEST(decompose_arithmetic_that_gives_a_number) {
    const char *code = core_code(
        HEAD "    def forward(self, x: \"f32[s77, 4, s27, 8]\"):\n"
             "        sym_size_int: \"Sym(s77)\" = torch.ops.aten.sym_size.int(x, 0)\n"
             "        sym_size_int_1: \"Sym(s27)\" = torch.ops.aten.sym_size.int(x, 2)\n"
             "        transpose: \"f32[s77, s27, 4, 8]\" = torch.ops.aten.transpose.int(x, 1, 2)\n"
             "        reshape: \"f32[s77, s27, 32]\" = torch.ops.aten.reshape.default(transpose, "
             "[sym_size_int, sym_size_int_1, -1])\n"
             "        return (reshape,)\n");
    HAS(code, "view = torch.ops.aten.view.default(clone, [sym_size_int_2, sym_size_int_3, 32])");
    code = core_code(HEAD "    def forward(self, x: \"f32[4, s27]\"):\n"
                          "        roll: \"f32[4, s27]\" = torch.ops.aten.roll.default(x, [-2], "
                          "[1])\n"
                          "        return (roll,)\n");
    HAS(code, "    sub = sym_size_int_1 - -2\n"
              "    mod = sub % sym_size_int_1;  sub = None\n");
    HAS(code, "    add = torch.ops.aten.add.Tensor(arange, mod)");
}

/* What stands for a quantized tensor has its scale. */
TEST(quantized_tensors_are_decomposed) {
    cfx_program *p = cfx_program_parse(
        "def forward(self, x: \"i8[2, 3]\"):\n"
        "    y = torch.ops.aten._make_per_tensor_quantized_tensor.default(x, 0.5, 1)\n"
        "    z = torch.ops.aten.dequantize.self(y)\n"
        "    return (z,)\n", "m.fx");
    CHECK(cfx_program_check(p));
    cfx_tensor *x = cfx_full(cfx_list(2, 3), 5, CFX_KW(dtype, cfx_dtype_value(CFX_I8)));
    cfx_value z = cfx_at(cfx_program_run(cfx_decompose(p, CFX_NONE), x), 0);
    CHECK_OK();
    CHECK_STR(cfx_str(z), "tensor([[2., 2., 2.],\n        [2., 2., 2.]])");
}
