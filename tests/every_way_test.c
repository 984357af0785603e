/* Small programs that were once another thing when decomposed, planned or optimised: they give the
 * same in every way, results and what is left in inputs. Random ones: programs_test.c. */
#include "test.h"

#include "../fuzz/use.h"
#include "../src/value/value.h"

#include <string.h>

/* Inputs as a signature has them, statements divided by bars ("aten." is torch.ops.aten), and what
 * is returned. */
typedef struct {
    const char *inputs, *calls, *results;
} small;

static cfx_program *program_of(const small *s) {
    const char *body = "";
    for (const char *at = s->calls, *end; *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, "|");
        const char *text = cfx__text_format("%.*s", (int)(end - at), at);
        const char *op = strstr(text, "aten.");
        body = cfx__text_format("%s        %.*s%s%s\n", body, (int)(op ? op - text : 0), text,
                                op ? "torch.ops." : "", op ? op : text);
    }
    return cfx_program_parse(cfx__text_format("class GraphModule(torch.nn.Module):\n"
                                              "    def forward(self, %s):\n"
                                              "%s        return (%s,)\n",
                                              s->inputs, body, s->results),
                             "small");
}

static void compare(const small *s, cfx_program *p, cfx_value in, const outcome *first,
                    const char *way) {
    if (!cfx_ok()) {
        test_fail(CFX_HERE, "%s: %s, of %s", way, cfx_error_last()->message, s->calls);
        cfx_error_clear();
        return;
    }
    outcome by = use_run(p, &cfx_interpreter, in), planned = use_run(p, &cfx_planner, in);
    if (strcmp(by.why, first->why) || !use_same(&by, first, 1e-6))
        test_fail(CFX_HERE, "%s: %s %s, not %s %s, of %s", way, by.why, cfx_str(by.leaves),
                  first->why, cfx_str(first->leaves), s->calls);
    if (strcmp(planned.why, first->why) || !use_same(&planned, first, 1e-6))
        test_fail(CFX_HERE, "%s, planned: %s %s, not %s %s, of %s", way, planned.why,
                  cfx_str(planned.leaves), first->why, cfx_str(first->leaves), s->calls);
}

static void in_every_way(const small *s) {
    cfx_program *p = program_of(s);
    CHECK_OK();
    cfx_value in = fuzz_inputs(p);
    outcome first = use_run(p, &cfx_interpreter, in);
    compare(s, p, in, &first, "as it is");
    compare(s, cfx_decompose(p, CFX_NONE), in, &first, "decomposed");
    compare(s, cfx_optimize(p), in, &first, "optimised");
    cfx_value copies = use_copies(in);
    cfx_value args = cfx_tuple_value(cfx_as_list(copies)->len, cfx_as_list(copies)->items);
    compare(s, cfx_export(p->module, args, CFX_NONE, CFX_NONE), in, &first, "exported again");
}

#define ALL(table)                                                                                 \
    for (size_t i_ = 0; i_ < sizeof table / sizeof *table; i_++)                                   \
    in_every_way(&table[i_])

TEST(writes_to_views_of_other_dtypes_are_put_back) {
    static const small all[] = {
        {"x: \"i64[3, 0]\"",
         "v = aten.view.dtype(x, torch.float16)|f = aten.fill_.Scalar(v, 0.125)", "f, x"},
        {"x: \"f32[3, 3]\"",
         "v = aten.view.dtype(x, torch.float16)|f = aten.fill_diagonal_.default(v, 1.0)", "f, x"},
    };
    ALL(all);
}

TEST(reshape_copies_what_is_no_view) {
    static const small all[] = {
        {"x: \"f32[3, 4]\"",
         "a = aten.as_strided.default(x, [2, 1, 4], [2, 2, 3], 0)|"
         "r = aten.reshape.default(a, [1, 8])",
         "r"},
    };
    ALL(all);
}

TEST(strides_reach_all_of_the_storage_of_a_view) {
    static const small all[] = {
        {"x: \"f32[3]\"",
         "u = aten.unbind.int(x)|g = u[1]|t = aten.to.dtype(g, torch.float32)|"
         "a = aten.as_strided.default(t, [1, 1, 2], [1, 4, 1])",
         "a"},
    };
    ALL(all);
}

/* A place in memory keeps what was written to it last, whichever view shows it. */
TEST(writes_go_through_views_that_overlap_themselves) {
    static const small all[] = {
        {"x: \"b8[]\"", "e = aten.expand.default(x, [1])|n = aten.logical_not_.default(e)", "n, x"},
        {"x: \"i32[4]\"", "e = aten.expand.default(x, [1, -1])|n = aten.neg_.default(e)", "n, x"},
        {"x: \"f32[1]\"", "e = aten.expand.default(x, [0])|a = aten.add_.Scalar(e, 1)", "a, x"},
        {"x: \"f32[4]\"",
         "e = aten.expand.default(x, [3, 4])|s = aten.select.int(e, 0, 1)|n = aten.neg_.default(s)",
         "n, e, x"},
        {"x: \"f32[5]\"",
         "a = aten.as_strided.default(x, [4], [0], 2)|u = aten.unbind.int(a)|g = u[1]|"
         "m = aten.mul_.Scalar(g, 0.125)",
         "m, a, x"},
        {"x: \"f32[5]\"",
         "a = aten.as_strided.default(x, [3, 1, 2], [1, 1, 0], 1)|"
         "d = aten.diagonal.default(a, 0, -1)|r = aten.relu_.default(d)",
         "r, x"},
    };
    ALL(all);
    cfx_program *p = program_of(&(small){
        "x: \"f32[5]\", i: \"i64[1]\"",
        "a = aten.as_strided.default(x, [2, 2], [2, 2])|"
        "f = aten.index_fill_.int_Scalar(a, 0, i, -1)",
        "f"});
    cfx_decompose(p, CFX_NONE);
    CHECK(strstr(cfx_error_last()->message, "a tensor being mutated that has internal overlap"));
    cfx_error_clear();
}

/* What is written may come in another order of memory than what was there. */
TEST(views_of_what_was_written_see_the_memory_of_what_was_there) {
    static const small all[] = {
        {"x: \"f32[3, 4]\", y: \"f32[4, 3]\"",
         "t = aten.transpose.int(y, 0, 1)|l = aten.lerp_.Scalar(x, t, 3)|"
         "a = aten.as_strided.default(x, [2, 3], [1, 4], 1)",
         "a, x"},
        {"x: \"i64[2, 5]\"",
         "t = aten.t.default(x)|c = aten.cumsum_.default(t, 0)|"
         "r = aten.reshape.default(x, [1, -1])",
         "r, c"},
        {"x: \"i32[4, 2]\"",
         "f = aten.flatten.using_ints(x, 0, 1)|p = aten.permute.default(x, [1, 0])|"
         "c = aten.cumsum_.default(p, 0)",
         "f, c"},
        {"x: \"f32[1, 5]\"",
         "v = aten.view.dtype(x, torch.int16)|t = aten.transpose.int(v, 0, 1)|"
         "l = aten.tril_.default(t)",
         "l, x"},
    };
    ALL(all);
}

TEST(lift_gives_what_it_is_given) {
    static const small all[] = {
        {"x: \"f32[3]\"", "l = aten.lift.default(x)|a = aten.add_.Scalar(l, 1)", "a, x"},
    };
    ALL(all);
}

TEST(batch_norm_updates_one_statistic_alone) {
    static const small all[] = {
        {"x: \"f32[4, 3]\", m: \"f32[3]\"",
         "y = aten.batch_norm.default(x, None, None, m, None, True, 0.25, 1e-05, False)", "y, m"},
        {"x: \"f32[4, 3]\", v: \"f32[3]\"",
         "y = aten.batch_norm.default(x, None, None, None, v, True, 0.25, 1e-05, False)", "y, v"},
    };
    ALL(all);
}

TEST(nothing_has_a_logarithm_of_its_sum) {
    static const small all[] = {
        {"x: \"f32[0, 3]\"", "y = aten.logsumexp.default(x, [])", "y"},
        {"x: \"f32[2, 0]\"", "y = aten.logsumexp.default(x, [1], True)", "y"},
    };
    ALL(all);
}

TEST(negative_numbers_wrap_around_among_bytes) {
    static const small all[] = {
        {"x: \"u8[4]\"", "y = aten.threshold.default(x, -2, -3)", "y"},
        {"x: \"u8[4]\"", "y = aten.clamp.default(x, -2)", "y"},
    };
    ALL(all);
    cfx_tensor *x = cfx_ones(cfx_list(2), CFX_KW(dtype, cfx_u8));
    CHECK_STR(cfx_str(cfx_threshold(x, -2, -3)), "tensor([253, 253], dtype=torch.uint8)");
    CHECK_STR(cfx_str(cfx_clamp(x, -2)), "tensor([254, 254], dtype=torch.uint8)");
    cfx_clamp(x, -300);
    CHECK_ERROR("value cannot be converted to type uint8_t without overflow");
    cfx_clamp(cfx_ones(cfx_list(2), CFX_KW(dtype, cfx_f16)), 1e10);
    CHECK_ERROR("value cannot be converted to type at::Half without overflow");
}

/* What changes the shape of a tensor in place is seen by all that reads it later. */
TEST(shapes_changed_in_place_are_seen_by_later_readers) {
    static const small all[] = {
        {"x: \"f32[2, 3]\"",
         "r = aten.neg.default(x)|t = aten.transpose_.default(r, 0, 1)|"
         "y = aten.select.int(r, 0, 2)", "y"},
        {"x: \"f32[2, 3]\"",
         "r = aten.neg.default(x)|a = aten.sqrt.default(r)|t = aten.unsqueeze_.default(r, 0)|"
         "b = aten.sqrt.default(r)", "a, b"},
        {"x: \"f32[1, 3]\"",
         "r = aten.neg.default(x)|t = aten.squeeze_.default(r)|b = aten.unsqueeze.default(r, 1)",
         "b"},
        {"x: \"f32[2, 3]\"",
         "r = aten.neg.default(x)|s = aten.slice.Tensor(r, 0, 1)|t = aten.t_.default(s)|"
         "b = aten.mm.default(r, s)", "b, s"},
        {"x: \"f32[2, 3]\"",
         "r = aten.neg.default(x)|s = aten.swapdims_.default(r, 0, 1)|"
         "t = aten.mul_.Scalar(s, 2)|v = aten.select.int(r, 0, 1)|w = aten.fill_.Scalar(v, 7)|"
         "u = aten.swapaxes_.default(r, 0, 1)|y = aten.exp_.default(r)", "r"},
    };
    ALL(all);
}

/* A plan may keep images with channels last: who sees strides gets those of the interpreter, also
 * of dimensions of size 1, which say how the next convolution lies. */
TEST(strides_that_are_seen_are_those_of_the_interpreter) {
    static const small all[] = {
        {"x: \"f32[2, 3, 4, 4]\", w: \"f32[5, 3, 3, 3]\"",
         "c = aten.conv2d.default(x, w)|y = aten.view.dtype(c, torch.uint8)", "y"},
        {"x: \"f32[2, 1, 3, 3]\", v: \"f32[2, 3]\", w: \"f32[8, 1, 3, 3]\"",
         "l = aten.linear.default(x, v)|c = aten.conv2d.default(l, w, None, [1, 1], [1, 1])|"
         "y = aten.as_strided.default(c, [3], [2], 22)|z = aten.neg.default(y)", "z"},
    };
    ALL(all);
    cfx_program *p = cfx_program_parse(
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, x: \"f32[2, 3, 4, 4]\", w: \"f32[5, 3, 3, 3]\"):\n"
        "        c = torch.ops.aten.conv2d.default(x, w)\n"
        "        y = torch.ops.aten.dropout.default(c, 0.5, True)\n"
        "        return (y,)\n", "drops");
    cfx_value in = cfx_tuple(cfx_randn(cfx_list(2, 3, 4, 4)), cfx_randn(cfx_list(5, 3, 3, 3)));
    cfx_manual_seed(7);
    outcome by = use_run(p, &cfx_interpreter, in);
    cfx_manual_seed(7);
    outcome planned = use_run(p, &cfx_planner, in);
    CHECK(use_same(&by, &planned, 1e-5));
}

/* Layers without inputs have nothing for a norm before them to be folded into. */
TEST(norms_without_channels_are_optimised) {
    static const small all[] = {
        {"x: \"f32[2, 0]\", m: \"f32[0]\", v: \"f32[0]\", w: \"f32[3, 0]\"",
         "n = aten.batch_norm.default(x, None, None, m, v, False, 0.1, 1e-05, False)|"
         "y = aten.linear.default(n, w)", "y"},
    };
    ALL(all);
}

/* Numbers are drawn for tensors with numbers alone, whatever the probabilities are. */
TEST(nothing_is_drawn_by_what_has_no_numbers) {
    cfx_tensor *x = cfx_full(cfx_list(3), 5.0);
    cfx_tensor *p = cfx_tensor_fake(CFX_F32, 1, (int64_t[]){3}, NULL);
    cfx_bernoulli_(x, p);
    CHECK(cfx_ok());
    CHECK_STR(cfx_str(x), "tensor([5., 5., 5.])");
}

/* A bias is added in place: it has no say in the shape or the dtype. */
TEST(linear_takes_the_shape_and_the_dtype_of_the_product) {
    static const small all[] = {
        {"x: \"f32[2, 4, 3]\", w: \"f32[5, 4]\", b: \"f64[5]\"",
         "t = aten.transpose.int(x, 1, 2)|y = aten.linear.default(t, w, b)", "y"},
        {"x: \"f32[4]\", w: \"f32[5, 4]\", b: \"f32[]\"", "y = aten.linear.default(x, w, b)",
         "y"},
    };
    ALL(all);
    cfx_tensor *x = cfx_tensor_fake(CFX_F32, 1, (int64_t[]){4}, NULL);
    cfx_tensor *b = cfx_tensor_fake(CFX_F32, 2, (int64_t[]){2, 1}, NULL);
    cfx_linear(x, x, b);
    CHECK_ERROR("output with shape [] doesn't match the broadcast shape [2, 1]");
}

/* Decompositions give what the operator gives where PyTorch's own would not, or refuse it. */
TEST(decompositions_keep_dtypes_and_memory_order) {
    static const small all[] = {
        {"x: \"b8[3]\", i: \"i64[2]\", y: \"b8[2]\"",
         "i2 = aten.mul.Scalar(i, 0)|a = aten.index_add.default(x, 0, i2, y, alpha = 2)", "a"},
        {"x: \"f32[3]\", i: \"i64[2]\", v: \"i8[]\"",
         "i2 = aten.mul.Scalar(i, 0)|f = aten.index_fill.int_Tensor(x, 0, i2, v)", "f"},
        {"x: \"f32[5]\", y: \"f64[]\"", "s = aten.select_scatter.default(x, y, 0, 4)", "s"},
        {"x: \"f32[3]\", y: \"u8[]\", z: \"f32[3]\"",
         "a = aten.addcmul.default(x, y, z, value = -1)|"
         "d = aten.addcdiv.default(x, y, z, value = -2)",
         "a, d"},
        {"x: \"f32[2, 3]\"",
         "t = aten.transpose_copy.int(x, 0, 1)|s = aten.as_strided.default(t, [2, 2], [3, 1])",
         "s"},
        {"x: \"f32[0, 2]\"",
         "e = aten.expand_copy.default(x, [2, 0, 2])|s = aten.add_.Scalar(e, 1)", "s"},
        {"x: \"i8[0, 5]\"", "i = aten.isin.Tensor_Tensor(x, x, assume_unique = True)", "i"},
        {"", "s = aten.logspace.default(-2, 2.5, 5, 2.5, dtype = torch.int64)", "s"},
        {"x: \"f32[2, 2]\"",
         "d = aten.div.Scalar(x, 0)|c = aten.complex.default(x, d)|n = aten.nan_to_num.default(c)|"
         "r = aten.view_as_real.default(n)",
         "r"},
        {"x: \"f32[1, 1, 2]\"", "u = aten._upsample_nearest_exact1d.default(x, [3], 1.0)", "u"},
        {"x: \"f32[1, 1, 2]\"", "u = aten._upsample_nearest_exact1d.default(x, [3], -2.5)", "u"},
        {"x: \"i64[2]\"",
         "b = aten.mul.Scalar(x, 100000)|s = aten.softmax.int(b, 0, torch.float16)", "s"},
    };
    ALL(all);
}

/* What is read by strides lies as it does in the program, although values that writes become are in
 * another order: PyTorch's own decomposition reads other elements here. */
TEST(strides_read_what_lies_as_in_the_program) {
    static const small all[] = {
        {"x: \"f32[2, 3, 4]\"",
         "y = aten.transpose_copy.int(x, 1, 2)|c = aten.contiguous.default(y)|"
         "t = aten.transpose.int(c, 1, 2)|s = aten.cumsum_.default(t, -1)|"
         "m = aten.mul.Tensor(s, s)|a = aten.as_strided.default(m, [4, 3], [4, 2], 3)", "a, m"},
        {"x: \"f32[2, 3, 4]\"",
         "c = aten.clone.default(x)|t = aten.transpose.int(c, 1, 2)|"
         "s = aten.cumsum_.default(t, -1)|m = aten.neg.default(s)|v = aten.select.int(m, 0, 1)|"
         "f = aten.fill_.Scalar(v, 7)|"
         "a = aten.as_strided_copy.default(m, [5], [3], 2)|"
         "b = aten.as_strided_scatter.default(m, a, [5], [3], 1)", "a, b, m"},
    };
    ALL(all);
}

TEST(losses_take_the_dtypes_that_pytorch_takes) {
    cfx_tensor *x = cfx_ones(cfx_list(2)), *b = cfx_gt(x, 0);
    cfx_soft_margin_loss(b, x);
    CHECK_ERROR("Negation, the `-` operator, on a bool tensor is not supported. If you are trying "
                "to invert a mask, use the `~` or `logical_not()` operator instead.");
    cfx_soft_margin_loss(x, cfx_ones(cfx_list(3, 2)));
    CHECK_ERROR("output with shape [2] doesn't match the broadcast shape [3, 2]");
    CHECK_STR(cfx_str(cfx_soft_margin_loss(x, cfx_ones(cfx_list(2), CFX_KW(dtype, cfx_f64)))),
              "tensor(0.3133)");
    cfx_binary_cross_entropy(x, b);
    CHECK_ERROR("Found dtype Bool but expected Float");
    cfx_binary_cross_entropy(b, b);
    CHECK_ERROR("\"binary_cross_entropy\" not implemented for 'Bool'");
}

/* PyTorch gives some tensors on as they are: what changes the shape of one changes the other's. */
TEST(what_is_given_on_is_the_same_tensor) {
    cfx_tensor *x = cfx_ones(cfx_list(2, 3));
    cfx_op *longer = cfx_op_find("aten::unsqueeze_");
    cfx_op_do(longer, cfx_real(x), 0);
    cfx_op_do(longer, cfx_positive(x), 0);
    cfx_op_do(longer, cfx_resolve_conj(x), 0);
    CHECK(cfx_tensor_ndim(x) == 5);
}

TEST(deviations_of_the_least_numbers_are_numbers) {
    cfx_tensor *one = cfx_eye(6), *two = cfx_add(cfx_select(one, 0, 2), cfx_select(one, 0, 4));
    CHECK(cfx_is_true(cfx_ge(cfx_std(cfx_mul(two, 1.4013e-45), cfx_list(0)), 0)));
}
