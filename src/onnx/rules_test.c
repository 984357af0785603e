/* Every rule: a program of one operator is written as .onnx, read back, and gives the same. */
#include "onnx_test.h"

#include <cfx/emit.h>
#include <cfx/pack.h>
#include <cfx/rewrite.h>

typedef struct {
    const char *name, *inputs, *body; /* "@" is "torch.ops.aten."; the result is y */
} rule_case;

#define X "x: \"f32[2, 3, 4]\""
#define XY X ", z: \"f32[2, 3, 4]\""
#define IJ "x: \"i64[2, 3, 4]\", z: \"i64[2, 3, 4]\""
#define B "x: \"b8[2, 3, 4]\", z: \"b8[2, 3, 4]\""
#define IMAGE "x: \"f32[2, 4, 9, 8]\""
#define S "x: \"f32[s0, 3, 4]\""
#define OWN "t = @add.Tensor(x, 1)\n        "
#define SIZE "n: \"Sym(s0)\" = @sym_size.int(x, 0)\n        "

static const rule_case math_cases[] = {
    {"relu", X, "y = @relu.default(x)"},
    {"sigmoid_of_integers", "x: \"i64[2, 3]\"", "y = @sigmoid.default(x)"},
    {"tanh", X, "y = @tanh.default(x)"},
    {"exp", X, "y = @exp.default(x)"},
    {"exp_bf16", "x: \"bf16[2, 3]\"", "y = @exp.default(x)"},
    {"sin_bf16", "x: \"bf16[2, 3]\"", "y = @sin.default(x)"},
    {"sin_f16", "x: \"f16[2, 3]\"", "y = @sin.default(x)"},
    {"log", X, "a = @abs.default(x)\n        y = @log.default(a)"},
    {"sqrt_f64", "x: \"f64[2, 3]\"", "a = @abs.default(x)\n        y = @sqrt.default(a)"},
    {"neg", "x: \"i32[2, 3]\"", "y = @neg.default(x)"},
    {"sign", X, "y = @sign.default(x)"},
    {"trigonometry", X, "a = @cos.default(x)\n        b = @tan.default(a)\n        "
                        "c = @atan.default(b)\n        y = @asin.default(a)\n        "
                        "y = @add.Tensor(y, c)"},
    {"hyperbolic", X, "a = @sinh.default(x)\n        b = @cosh.default(x)\n        "
                      "c = @asinh.default(a)\n        d = @acosh.default(b)\n        "
                      "e = @tanh.default(x)\n        f = @atanh.default(e)\n        "
                      "g = @add.Tensor(c, d)\n        y = @add.Tensor(f, g)"},
    {"erf", X, "y = @erf.default(x)"},
    {"reciprocal", X, "y = @reciprocal.default(x)"},
    {"copysign", XY, "y = @copysign.Tensor(x, z)"},
    {"copysign_of_zeros", XY, "a = @mul.Scalar(z, 0.0)\n        y = @copysign.Tensor(x, a)"},
    {"fmax_of_nans", XY, "a = @log.default(x)\n        y = @fmax.default(a, z)"},
    {"fmin_of_integers", IJ, "y = @fmin.default(x, z)"},
    {"round_behind_the_point", X, "y = @round.decimals(x, decimals = 2)"},
    {"round_before_the_point", X, "a = @mul.Scalar(x, 100.0)\n        "
                                  "y = @round.decimals(a, decimals = -1)"},
    {"addmv", "x: \"f32[2]\", a: \"f32[2, 3]\", b: \"f32[3]\"",
     "y = @addmv.default(x, a, b, beta = 2, alpha = 3)"},
    {"permute_copy", X, "y = @permute_copy.default(x, [2, 0, 1])"},
    {"hardswish", X, "y = @hardswish.default(x)"},
    {"mish", X, "y = @mish.default(x)"},
    {"selu", X, "y = @selu.default(x)"},
    {"floor", X, "y = @floor.default(x)"},
    {"floor_of_integers", "x: \"i64[2, 3]\"", "y = @floor.default(x)"},
    {"ceil", X, "y = @ceil.default(x)"},
    {"round", X, "y = @round.default(x)"},
    {"trunc", X, "y = @trunc.default(x)"},
    {"to_copy", X, "y = @_to_copy.default(x, dtype = torch.int64)"},
    {"to_copy_half", X, "y = @_to_copy.default(x, dtype = torch.float16)"},
    {"copy", XY, "a = @select.int(z, 0, 0)\n        y = @copy.default(x, a)"},
    {"rsqrt", X, "a = @abs.default(x)\n        y = @rsqrt.default(a)"},
    {"log1p", X, "a = @abs.default(x)\n        y = @log1p.default(a)"},
    {"log1p_of_small", X, "a = @mul.Scalar(x, 1e-9)\n        b = @log1p.default(a)\n        "
                          "y = @mul.Scalar(b, 1000000000.0)"},
    {"log1p_of_infinities", X, "a = @abs.default(x)\n        b = @div.Scalar(a, 0.0)\n        "
                               "c = @mul.Scalar(x, 0.0)\n        d = @sub.Scalar(c, 1.0)\n        "
                               "y = @cat.default([b, d, x])\n        y = @log1p.default(y)"},
    {"log1p_bf16", "x: \"bf16[2, 3]\"", "a = @abs.default(x)\n        y = @log1p.default(a)"},
    {"expm1", X, "y = @expm1.default(x)"},
    {"expm1_of_small", X, "a = @mul.Scalar(x, 1e-9)\n        b = @expm1.default(a)\n        "
                          "y = @mul.Scalar(b, 1000000000.0)"},
    {"expm1_of_infinities", X, "a = @div.Scalar(x, 0.0)\n        y = @expm1.default(a)"},
    {"expm1_f16", "x: \"f16[2, 3]\"", "y = @expm1.default(x)"},
    {"log2", X, "a = @abs.default(x)\n        y = @log2.default(a)"},
    {"log10", X, "a = @abs.default(x)\n        y = @log10.default(a)"},
    {"exp2", X, "y = @exp2.default(x)"},
    {"silu", X, "y = @silu.default(x)"},
    {"gelu", X, "y = @gelu.default(x)"},
    {"gelu_tanh", X, "y = @gelu.default(x, approximate = 'tanh')"},
    {"leaky_relu", X, "y = @leaky_relu.default(x, 0.2)"},
    {"elu", X, "y = @elu.default(x, 0.7)"},
    {"elu_scaled", X, "y = @elu.default(x, 0.7, 1.5, 0.5)"},
    {"elu_turned", X, "y = @elu.default(x, 0.7, 1.5, -0.5)"},
    {"celu_turned", X, "y = @celu.default(x, -0.7)"},
    {"hardsigmoid", X, "y = @hardsigmoid.default(x)"},
    {"softplus", X, "y = @softplus.default(x, 2.0, 3.0)"},
    {"add_alpha", XY, "y = @add.Tensor(x, z, alpha = 3)"},
    {"add_bool", B, "y = @add.Tensor(x, z)"},
    {"add_mixed", "x: \"f32[2, 3]\", z: \"i64[3]\"", "y = @add.Tensor(x, z)"},
    {"sub_number", "x: \"i64[2, 3]\"", "y = @sub.Tensor(x, 1.5)"},
    {"div_integers", IJ, "y = @div.Tensor(x, z)"},
    {"div_floor", XY, "y = @div.Tensor_mode(x, z, rounding_mode = 'floor')"},
    {"div_floor_integers", IJ, "y = @div.Tensor_mode(x, z, rounding_mode = 'floor')"},
    {"div_trunc", XY, "y = @div.Tensor_mode(x, z, rounding_mode = 'trunc')"},
    {"div_trunc_integers", IJ, "y = @div.Tensor_mode(x, z, rounding_mode = 'trunc')"},
    {"floor_divide", IJ, "y = @floor_divide.default(x, z)"},
    {"rsub", X, "y = @rsub.Scalar(x, 2.0, 0.5)"},
    {"remainder", XY, "y = @remainder.Tensor(x, z)"},
    {"remainder_small", X, "y = @remainder.Scalar(x, 0.001)"},
    {"div_floor_small", X, "y = @div.Tensor_mode(x, 0.1, rounding_mode = 'floor')"},
    {"div_floor_by_infinity", X, "a = @div.Scalar(x, -0.0)\n        "
                                 "y = @div.Tensor_mode(x, a, rounding_mode = 'floor')"},
    {"remainder_integers", IJ, "y = @remainder.Tensor(x, z)"},
    {"fmod", XY, "y = @fmod.Tensor(x, z)"},
    {"pow_square", X, "y = @pow.Tensor_Scalar(x, 2)"},
    {"pow_cube", X, "y = @pow.Tensor_Scalar(x, 3)"},
    {"pow_of_number", X, "y = @pow.Scalar(2.0, x)"},
    {"pow_integers", "x: \"i64[2, 3]\"", "y = @pow.Tensor_Scalar(x, 3)"},
    {"pow_of_zero", "x: \"i64[2, 3]\"",
     "a = @mul.Scalar(x, 0)\n        b = @pow.Tensor_Tensor(x, a)\n        "
     "c = @rsub.Scalar(b, 0)\n        y = @pow.Scalar(0, c)"},
    {"maximum", XY, "y = @maximum.default(x, z)"},
    {"minimum_integers", IJ, "y = @minimum.default(x, z)"},
    {"clamp", X, "y = @clamp.default(x, -0.5, 1.0)"},
    {"clamp_promoted", "x: \"i64[2, 3]\"", "y = @clamp.default(x, None, 1.5)"},
    {"clamp_tensors", XY, "y = @clamp.Tensor(x, z)"},
    {"hardtanh", X, "y = @hardtanh.default(x, -0.5, 0.5)"},
    {"atan2", XY, "y = @atan2.default(x, z)"},
    {"atan2_of_zeros", XY, "a = @mul.Scalar(x, 0.0)\n        b = @mul.Scalar(z, 0.0)\n        "
                           "c = @atan2.default(a, b)\n        d = @atan2.default(a, z)\n        "
                           "e = @atan2.default(x, b)\n        f = @add.Tensor(c, d)\n        "
                           "y = @add.Tensor(e, f, alpha = 9)"},
    {"atan2_of_infinities", XY,
     "a = @div.Scalar(x, 0.0)\n        b = @div.Scalar(z, 0.0)\n        "
     "c = @atan2.default(a, b)\n        d = @atan2.default(a, z)\n        "
     "e = @atan2.default(x, b)\n        f = @add.Tensor(c, d)\n        "
     "y = @add.Tensor(e, f, alpha = 9)"},
    {"atan2_of_nan", XY, "a = @log.default(x)\n        b = @mul.Scalar(z, 0.0)\n        "
                         "y = @atan2.default(a, b)"},
    {"numbers_nearly_alike", X,
     "a = @mul.Tensor(x, 0.12345678)\n        b = @mul.Tensor(x, 0.12345111)\n        "
     "c = @sub.Tensor(a, b)\n        y = @mul.Tensor(c, 1000000.0)"},
    {"addcmul", XY, "y = @addcmul.default(x, z, x, value = 0.5)"},
    {"frac", X, "y = @frac.default(x)"},
    {"celu", X, "y = @celu.default(x, 0.7)"},
    {"glu", X, "y = @glu.default(x, -1)"},
    {"logit", X, "a = @sigmoid.default(x)\n        y = @logit.default(a, 1e-06)"},
    {"logaddexp", XY, "y = @logaddexp.default(x, z)"},
    {"log_sigmoid", X, "y = @log_sigmoid.default(x)"},
    {"softshrink", X, "y = @softshrink.default(x, 0.3)"},
    {"threshold", X, "y = @threshold.default(x, 0.1, 20)"},
    {"nan_to_num", X, "a = @log.default(x)\n        y = @nan_to_num.default(a)"},
    {"prelu", IMAGE ", w: \"f32[4]\"", "y = @prelu.default(x, w)"},
    {"signbit", X, "y = @signbit.default(x)"},
    {"sinc", X, "y = @sinc.default(x)"},
    {"shift_left", "x: \"i64[2, 3]\"", "y = @bitwise_left_shift.Tensor_Scalar(x, 3)"},
    {"shift_out_left", IJ, "a = @mul.Tensor(z, 31)\n        y = @bitwise_left_shift.Tensor(x, a)"},
    {"shift_out_right", IJ, "a = @mul.Tensor(z, 31)\n        "
                            "y = @bitwise_right_shift.Tensor(x, a)"},
    {"shift_by_less", "x: \"i32[2, 3]\"", "y = @bitwise_right_shift.Tensor_Scalar(x, -1)"},
    {"shift_by_more", "x: \"i64[2, 3]\"", "y = @bitwise_left_shift.Tensor_Scalar(x, 63)"},
    {"shift_right", "x: \"i64[2, 3]\"", "y = @bitwise_right_shift.Tensor_Scalar(x, 1)"},
    {"fill", X, "y = @fill.Scalar(x, 3)"},
    {"lerp", XY, "y = @lerp.Scalar(x, z, 0.25)"},
};

static const rule_case logic_cases[] = {
    {"gt", XY, "y = @gt.Tensor(x, z)"},
    {"le_number", "x: \"i64[2, 3]\"", "y = @le.Scalar(x, 0.5)"},
    {"lt_bool", B, "y = @lt.Tensor(x, z)"},
    {"eq", IJ, "y = @eq.Tensor(x, z)"},
    {"ne", "x: \"f32[2, 3]\", z: \"i64[3]\"", "y = @ne.Tensor(x, z)"},
    {"eq_of_truths_and_a_number", "x: \"i64[2, 3]\"",
     "a = @gt.Scalar(x, 0)\n        b = @sum.default(x)\n        c = @mul.Scalar(b, 2)\n        "
     "y = @eq.Tensor(a, c)"},
    {"gt_of_a_wide_number", "x: \"f32[2, 3]\", z: \"f64[]\"",
     "a = @to.dtype(z, torch.float32)\n        b = @mul.Scalar(x, 0.0)\n        "
     "c = @add.Tensor(b, a)\n        y = @ne.Tensor(z, c)"},
    {"logical_and", "x: \"f32[2, 3]\", z: \"b8[3]\"", "y = @logical_and.default(x, z)"},
    {"logical_not", "x: \"i64[2, 3]\"", "y = @logical_not.default(x)"},
    {"logical_xor", B, "y = @logical_xor.default(x, z)"},
    {"bitwise_and", IJ, "y = @bitwise_and.Tensor(x, z)"},
    {"bitwise_or_bool", B, "y = @bitwise_or.Tensor(x, z)"},
    {"bitwise_not", "x: \"i64[2, 3]\"", "y = @bitwise_not.default(x)"},
    {"bitwise_not_bool", "x: \"b8[2, 3]\"", "y = @bitwise_not.default(x)"},
    {"isnan", X, "a = @log.default(x)\n        y = @isnan.default(a)"},
    {"isinf", X, "a = @mul.Tensor(x, 1e38)\n        b = @mul.Tensor(a, 1e38)\n        "
                 "y = @isinf.default(b)"},
    {"where", XY, "a = @gt.Tensor(x, z)\n        y = @where.self(a, x, z)"},
    {"masked_fill", XY, "a = @gt.Tensor(x, z)\n        y = @masked_fill.Scalar(x, a, 7)"},
};

static const rule_case shape_cases[] = {
    {"view", X, "y = @view.default(x, [6, 4])"},
    {"view_dynamic", S, SIZE "y = @view.default(x, [n, 12])"},
    {"view_empty", "x: \"f32[0, 3]\"", "y = @view.default(x, [3, 0])"},
    {"permute", X, "y = @permute.default(x, [2, 0, -2])"},
    {"transpose", X, "y = @transpose.int(x, 0, -1)"},
    {"unsqueeze", X, "y = @unsqueeze.default(x, -2)"},
    {"squeeze", "x: \"f32[2, 1, 3, 1]\"", "y = @squeeze.dims(x, [1, 2])"},
    {"expand", "x: \"f32[3, 1]\"", "y = @expand.default(x, [2, -1, 4])"},
    {"slice", X, "y = @slice.Tensor(x, 2, -3, 9223372036854775807, 2)"},
    {"slice_dynamic", S, SIZE "m: \"Sym(s0 - 1)\" = n - 1\n        y = @slice.Tensor(x, 0, 0, m)"},
    {"select", X, "y = @select.int(x, 1, -1)"},
    {"cat_mixed", "x: \"f32[2, 3]\", z: \"i64[1, 3]\"", "y = @cat.default([x, z])"},
    {"split", X, "a = @split_with_sizes.default(x, [1, 3], -1)\n        b = a[0]\n        "
                 "c = a[1]\n        y = @mul.Tensor(b, c)"},
    {"chunk", X, "a = @split.Tensor(x, 2, 2)\n        b = a[0]\n        c = a[1]\n        "
                 "y = @sub.Tensor(b, c)"},
    {"unbind", X, "a = @unbind.int(x, 1)\n        b = a[0]\n        c = a[2]\n        "
                  "y = @sub.Tensor(b, c)"},
    {"stack", XY, "y = @stack.default([x, z], 1)"},
    {"repeat", X, "y = @repeat.default(x, [2, 1, 3, 1])"},
    {"flip", X, "y = @flip.default(x, [0, -1])"},
    {"roll", X, "y = @roll.default(x, [1], [2])"},
    {"pad", X, "y = @constant_pad_nd.default(x, [1, 2, 0, -1], 3.0)"},
    {"pad_reflect", IMAGE, "y = @reflection_pad2d.default(x, [1, 2, 2, 1])"},
    {"pad_replicate", IMAGE, "y = @replication_pad2d.default(x, [1, 2, 2, 1])"},
    {"as_strided", X, "y = @as_strided.default(x, [3, 2], [2, 5], 1)"},
    {"diagonal", X, "y = @diagonal.default(x, 0, 1, 2)"},
    {"diagonal_of_none", "x: \"f32[0, 3, 4]\"", "y = @diagonal.default(x, 0, 1, 2)"},
    {"diagonal_of_no_rows", "x: \"f32[2, 3, 0]\"", "y = @diagonal.default(x, 0, 1, 2)"},
    {"unfold", X, "y = @unfold.default(x, 2, 2, 1)"},
    {"slice_scatter", X ", z: \"f32[2, 1, 4]\"", "y = @slice_scatter.default(x, z, 1, 1, 2)"},
    {"slice_scatter_step", X ", z: \"f32[2, 2, 4]\"",
     "y = @slice_scatter.default(x, z, 1, 0, 3, 2)"},
    {"select_scatter", X ", z: \"f32[2, 4]\"", "y = @select_scatter.default(x, z, 1, -1)"},
    {"contiguous_before_a_write", X,
     OWN "v = @slice.Tensor(t, 2, 0, 4, 2)\n        c = @contiguous.default(v)\n"
         "        w = @sub_.Tensor(v, c)\n        y = @add.Tensor(c, w)"},
    {"reshape_before_a_write", X,
     OWN "v = @transpose.int(t, 0, 2)\n        c = @reshape.default(v, [-1])\n"
         "        w = @sub_.Tensor(v, 1)\n        y = @add.Tensor(c, c)"},
    {"reshape_that_is_a_view", X,
     OWN "c = @reshape.default(t, [-1])\n        w = @sub_.Tensor(t, 1)\n"
         "        y = @add.Tensor(c, c)"},
    {"contiguous_that_is_a_view", X,
     OWN "c = @contiguous.default(t)\n        w = @sub_.Tensor(t, 1)\n"
         "        y = @add.Tensor(c, w)"},
    {"slice_scatter_dynamic", S ", z: \"f32[s0 - 1, 3, 4]\"",
     SIZE "m: \"Sym(s0 - 1)\" = n - 1\n        y = @slice_scatter.default(x, z, 0, 0, m)"},
    {"select_scatter_dynamic", S ", z: \"f32[3, 4]\"",
     SIZE "m: \"Sym(s0 - 1)\" = n - 1\n        y = @select_scatter.default(x, z, 0, m)"},
    {"tril", X, "y = @tril.default(x, -1)"},
    {"pixel_shuffle", IMAGE, "y = @pixel_shuffle.default(x, 2)"},
};

static const rule_case index_cases[] = {
    {"embedding", "x: \"f32[5, 3]\", z: \"i64[2, 4]\"",
     "a = @abs.default(z)\n        y = @embedding.default(x, a)"},
    {"embedding_bag", "x: \"f32[5, 3]\", z: \"i64[6]\"",
     "a = @abs.default(z)\n        o = @arange.start_step(0, 6, 2)\n        "
     "b = @embedding_bag.default(x, a, o, False, 1)\n        y = b[0]"},
    {"index_select", X ", z: \"i64[5]\"",
     "a = @remainder.Scalar(z, 3)\n        y = @index_select.default(x, 1, a)"},
    {"gather_from_a_number", "x: \"f32[]\", z: \"i64[3]\"",
     "a = @remainder.Scalar(z, 1)\n        y = @gather.default(x, 0, a)"},
    {"gather_one", "x: \"f32[3]\", z: \"i64[]\"",
     "a = @remainder.Scalar(z, 3)\n        y = @gather.default(x, 0, a)"},
    {"gather", X ", z: \"i64[2, 1, 4]\"",
     "a = @remainder.Scalar(z, 3)\n        y = @gather.default(x, 1, a)"},
    {"index", X ", z: \"i64[5]\"",
     "a = @remainder.Scalar(z, 2)\n        y = @index.Tensor(x, [a])"},
    {"index_middle", X ", z: \"i64[2, 5]\"",
     "a = @remainder.Scalar(z, 3)\n        y = @index.Tensor(x, [None, a, a])"},
    {"index_apart", X ", z: \"i64[5]\"",
     "a = @remainder.Scalar(z, 2)\n        y = @index.Tensor(x, [a, None, a])"},
    {"index_mask", X, "a = @gt.Scalar(x, 0)\n        "
                      "y: \"f32[u0]\" = @index.Tensor(x, [a])"},
    {"index_put", X ", z: \"i64[2]\", w: \"f32[4]\"",
     "a = @remainder.Scalar(z, 2)\n        y = @index_put.default(x, [a], w)"},
    {"index_put_bytes", X ", w: \"f32[4]\"",
     "a = @full.default([2], 1, dtype = torch.uint8)\n        y = @index_put.default(x, [a], w)"},
    {"index_put_single_mask", X ", w: \"f32[4]\"",
     "a = @full.default([], 1, dtype = torch.bool)\n        y = @index_put.default(x, [a, a], w)"},
    {"index_put_middle", X ", z: \"i64[2]\", w: \"f32[2, 2, 4]\"",
     "a = @arange.default(2)\n        y = @index_put.default(x, [None, a], w)"},
    {"index_put_apart", X ", w: \"f32[2, 3]\"",
     "a = @arange.default(2)\n        y = @index_put.default(x, [a, None, a], w)"},
    {"index_put_adds", X ", z: \"i64[5]\", w: \"f32[]\"",
     "a = @remainder.Scalar(z, 2)\n        y = @index_put.default(x, [a], w, True)"},
    {"index_put_mask", X, "a = @gt.Scalar(x, 0)\n        b = @full.default([], 3.0)\n        "
                          "y = @index_put.default(x, [a], b)"},
    {"scatter_src", X ", z: \"i64[1, 2, 4]\", w: \"f32[2, 3, 4]\"",
     "a = @mul.Scalar(z, 0)\n        y = @scatter.src(x, 1, a, w)"},
    {"scatter_value", X ", z: \"i64[1, 2, 4]\"",
     "a = @remainder.Scalar(z, 3)\n        y = @scatter.value(x, 1, a, 2.5)"},
    {"scatter_multiply", X ", z: \"i64[1, 2, 4]\", w: \"f32[2, 3, 4]\"",
     "a = @remainder.Scalar(z, 3)\n        y = @scatter.reduce(x, 1, a, w, reduce = 'multiply')"},
    {"scatter_add", X ", z: \"i64[1, 2, 4]\", w: \"f32[2, 3, 4]\"",
     "a = @remainder.Scalar(z, 3)\n        y = @scatter_add.default(x, 1, a, w)"},
    {"scatter_reduce", X ", z: \"i64[1, 2, 4]\", w: \"f32[2, 3, 4]\"",
     "a = @remainder.Scalar(z, 3)\n        y = @scatter_reduce.two(x, 1, a, w, 'amax', "
     "include_self = False)"},
    {"scatter_nothing", X ", z: \"i64[0]\", w: \"f32[2]\"", "y = @scatter.src(x, 1, z, w)"},
    {"scatter_adds_nothing", X ", z: \"i64[2, 0, 3]\", w: \"f32[]\"",
     "y = @scatter_add.default(x, 0, z, w)"},
    {"topk", X, "a = @topk.default(x, 2, 1)\n        y = a[0]"},
    {"topk_least", X, "a = @topk.default(x, 2, -1, False)\n        y = a[1]"},
    {"sort", X, "a = @sort.default(x, 1, True)\n        y = a[0]"},
    {"argsort", X, "y = @argsort.default(x, 1)"},
    {"index_add", X ", z: \"i64[5]\", w: \"f32[2, 5, 4]\"",
     "a = @remainder.Scalar(z, 3)\n        y = @index_add.default(x, 1, a, w)"},
    {"index_copy", X ", w: \"f32[2, 2, 4]\"",
     "a = @arange.default(2)\n        y = @index_copy.default(x, 1, a, w)"},
    {"index_fill", X ", z: \"i64[2]\"",
     "a = @remainder.Scalar(z, 3)\n        y = @index_fill.int_Scalar(x, 1, a, 7.0)"},
    {"masked_scatter_expanded", X ", z: \"f32[4]\"",
     "a = @gt.Scalar(x, 0)\n        y = @masked_scatter.default(z, a, x)"},
    {"masked_scatter", XY, "a = @gt.Scalar(x, 0)\n        y = @masked_scatter.default(x, a, z)"},
    {"bucketize", X ", z: \"f32[5]\"",
     "a = @sort.default(z)\n        b = a[0]\n        y = @bucketize.Tensor(x, b)"},
    {"one_hot", "x: \"i64[2, 3]\"", "a = @abs.default(x)\n        y = @one_hot.default(a, 5)"},
    {"repeat_interleave", X, "y = @repeat_interleave.self_int(x, 2, 1)"},
    {"nonzero", X, "a = @gt.Scalar(x, 0)\n        "
                   "y: \"i64[u0, 3]\" = @nonzero.default(a)"},
};

static const rule_case reduce_cases[] = {
    {"sum", X, "y = @sum.dim_IntList(x, [0, -1])"},
    {"sum_all_of_bool", "x: \"b8[2, 3]\"", "y = @sum.default(x)"},
    {"mean", X, "y = @mean.dim(x, [1], True)"},
    {"prod", X, "y = @prod.dim_int(x, 1)"},
    {"amax", X, "y = @amax.default(x, [0, 2])"},
    {"min_all", "x: \"i64[2, 3]\"", "y = @min.default(x)"},
    {"any", B, "y = @any.dim(x, 1)"},
    {"any_over_no_dimension", X, "y = @any.dims(x, [], True)"},
    {"any_over_all_dimensions", X, "y = @any.dims(x, None, True)"},
    {"conj_of_floats", X, "y = @_conj.default(x)"},
    {"var_of_none", "x: \"f32[2, 0]\"", "y = @var.correction(x, [1], correction = 1)"},
    {"any_of_none", "x: \"f32[2, 0, 3]\"", "y = @any.dim(x, 1)"},
    {"all_of_none", "x: \"b8[0]\"", "y = @all.default(x)"},
    {"all", "x: \"f32[2, 3]\"", "y = @all.default(x)"},
    {"argmax", X, "y = @argmax.default(x, 1, True)"},
    {"argmax_all", X, "y = @argmax.default(x)"},
    {"max_dim", X, "a = @max.dim(x, -1)\n        b = a[0]\n        c = a[1]\n        "
                   "y = @add.Tensor(b, c)"},
    {"norm", X, "y = @linalg_vector_norm.default(x, 2, [1], True)"},
    {"norm_largest", X, "y = @linalg_vector_norm.default(x, inf, [1, 2])"},
    {"var", X, "y = @var.correction(x, [1], correction = 0)"},
    {"std_dynamic", S, "y = @var.correction(x, [0, 2], correction = 1)"},
    {"std", X, "y = @std.correction(x, [1], correction = 1)"},
    {"var_mean", X, "a = @var_mean.correction(x, [1])\n        b = a[0]\n        "
                    "c = a[1]\n        y = @add.Tensor(b, c)"},
    {"cdist", "x: \"f32[2, 3, 4]\", z: \"f32[2, 5, 4]\"", "y = @cdist.default(x, z, 2.0)"},
    {"cumsum", X, "y = @cumsum.default(x, -1)"},
    {"histc", X, "y = @histc.default(x, 5, -1, 1)"},
    {"logsumexp", X, "y = @logsumexp.default(x, [1])"},
    {"count_nonzero", X, "y = @count_nonzero.default(x)"},
};

static const rule_case create_cases[] = {
    {"full", S, SIZE "a = @full.default([n, 2], 1.5)\n        y = @mul.Tensor(a, 2)"},
    {"full_like", S, "y = @full_like.default(x, 3, dtype = torch.int64)"},
    {"arange", S, SIZE "y = @arange.start_step(1, n, 1)"},
    {"arange_fractions", X, "y = @arange.start_step(0.5, 3.7, 1.9, dtype = torch.uint8)"},
    {"arange_floats", X, "a = @arange.start_step(0.5, 2.5, 0.5)\n        y = @add.Tensor(x, a)"},
    {"eye", X, "a = @eye.default(4)\n        y = @matmul.default(x, a)"},
    {"linspace", X, "a = @linspace.default(0, 1, 4)\n        y = @mul.Tensor(x, a)"},
    {"scalar_tensor", X, "a = @scalar_tensor.default(2.5)\n        y = @mul.Tensor(x, a)"},
};

static const rule_case nn_cases[] = {
    {"mm", "x: \"f32[2, 3]\", z: \"f32[3, 4]\"", "y = @mm.default(x, z)"},
    {"mm_integers", "x: \"i64[2, 3]\", z: \"i64[3, 4]\"", "y = @mm.default(x, z)"},
    {"addmm", "x: \"f32[2, 3]\", z: \"f32[3, 4]\", b: \"f32[4]\"",
     "y = @addmm.default(b, x, z, beta = 0.5, alpha = 2)"},
    {"baddbmm", X ", z: \"f32[2, 4, 5]\", b: \"f32[2, 3, 5]\"",
     "y = @baddbmm.default(b, x, z, beta = 0.5, alpha = 2)"},
    {"linear", X ", z: \"f32[5, 4]\", b: \"f32[5]\"", "y = @linear.default(x, z, b)"},
    {"linear_matrix", "x: \"f32[3, 4]\", z: \"f32[5, 4]\"", "y = @linear.default(x, z)"},
    {"layer_norm", X ", z: \"f32[3, 4]\"", "y = @layer_norm.default(x, [3, 4], z)"},
    {"rms_norm", X ", z: \"f32[4]\"", "y = @rms_norm.default(x, [4], z, 1e-06)"},
    {"group_norm_of_no_images", "x: \"f32[0, 3, 5, 1]\", z: \"f32[3]\"",
     "y = @group_norm.default(x, 1, z, z)"},
    {"group_norm_of_nothing", "x: \"f32[2, 3, 0, 1]\", z: \"f32[3]\"",
     "y = @group_norm.default(x, 1, z, z)"},
    {"group_norm", IMAGE ", z: \"f32[4]\"", "y = @group_norm.default(x, 2, z)"},
    {"batch_norm", IMAGE ", z: \"f32[4]\"",
     "a = @abs.default(z)\n        "
     "y = @batch_norm.default(x, z, z, z, a, False, 0.1, 1e-05, True)"},
    {"instance_norm", IMAGE,
     "y = @instance_norm.default(x, None, None, None, None, True, 0.1, 1e-05, True)"},
    {"softmax", X, "y = @softmax.int(x, 1)"},
    {"softmax_half", X, "y = @softmax.int(x, -1, torch.float64)"},
    {"log_softmax", X, "y = @log_softmax.int(x, 0)"},
    {"attention", "x: \"f32[2, 4, 3, 8]\", z: \"f32[2, 2, 5, 8]\"",
     "y = @scaled_dot_product_attention.default(x, z, z, enable_gqa = True)"},
    {"attention_causal", "x: \"f32[2, 4, 3, 8]\"",
     "y = @scaled_dot_product_attention.default(x, x, x, is_causal = True, scale = 0.5)"},
    {"attention_masked", "x: \"f32[2, 4, 3, 8]\", m: \"b8[3, 3]\"",
     "y = @scaled_dot_product_attention.default(x, x, x, m)"},
    {"cosine_similarity", XY, "y = @cosine_similarity.default(x, z, 2)"},
    {"einsum", XY, "y = @einsum.default('bij,bkj->bik', [x, z])"},
};

static const rule_case window_cases[] = {
    {"conv2d", IMAGE ", w: \"f32[6, 2, 3, 3]\", b: \"f32[6]\"",
     "y = @conv2d.default(x, w, b, [2, 1], [1, 0], [1, 2], 2)"},
    {"conv1d_unbatched", "x: \"f32[4, 9]\", w: \"f32[6, 4, 3]\"", "y = @conv1d.default(x, w)"},
    {"conv_transpose", IMAGE ", w: \"f32[4, 3, 3, 3]\"",
     "y = @conv_transpose2d.input(x, w, None, [2, 2], [1, 1], [1, 0])"},
    {"conv_bf16", "x: \"bf16[2, 4, 9]\", w: \"bf16[6, 4, 3]\"", "y = @conv1d.default(x, w)"},
    {"max_pool2d", IMAGE, "y = @max_pool2d.default(x, [3, 2], [2, 2], [1, 1], [1, 1], True)"},
    {"max_pool1d", "x: \"f32[2, 4, 9]\"", "y = @max_pool1d.default(x, [3])"},
    {"avg_pool2d", IMAGE, "y = @avg_pool2d.default(x, [3, 2], [2, 2], [1, 1], False, False)"},
    {"avg_pool2d_ceil", IMAGE, "y = @avg_pool2d.default(x, [2, 3], [2, 2], [0, 1], True)"},
    {"adaptive_one", IMAGE, "y = @adaptive_avg_pool2d.default(x, [1, 1])"},
    {"adaptive_even", IMAGE, "y = @adaptive_avg_pool2d.default(x, [3, 4])"},
    {"adaptive_uneven", IMAGE, "y = @adaptive_avg_pool2d.default(x, [4, 3])"},
    {"adaptive_of_infinities", IMAGE,
     "a = @div.Scalar(x, 0.0)\n        y = @adaptive_avg_pool2d.default(a, [4, 3])"},
    {"adaptive_max", IMAGE, "a = @adaptive_max_pool2d.default(x, [3, 4])\n        y = a[0]"},
    {"nearest", IMAGE, "y = @upsample_nearest2d.vec(x, None, [2.0, 1.5])"},
    {"nearest_size", IMAGE, "y = @upsample_nearest2d.vec(x, [5, 20], None)"},
    {"bilinear", IMAGE, "y = @upsample_bilinear2d.vec(x, [5, 20], False, None)"},
    {"bilinear_to_one", IMAGE, "y = @upsample_bilinear2d.vec(x, [1, 3], False, None)"},
    {"bilinear_corners", IMAGE, "y = @upsample_bilinear2d.vec(x, [5, 20], True, None)"},
    {"bilinear_corners_by_scales", IMAGE,
     "y = @upsample_bilinear2d.vec(x, None, True, [1.7, 0.6])"},
    {"bilinear_corners_at_any_size", "x: \"f32[s0, 4, 9, 8]\"",
     "y = @upsample_bilinear2d.vec(x, None, True, [1.7, 0.6])"},
    {"linear_corners_to_sizes", X, "y = @upsample_linear1d.default(x, [6], True, 1.7)"},
    {"nearest_exact", IMAGE, "y = @_upsample_nearest_exact2d.vec(x, [5, 20], None)"},
    {"grid_sample", IMAGE ", z: \"f32[2, 5, 6, 2]\"",
     "y = @grid_sampler_2d.default(x, z, 0, 1, False)"},
    {"im2col", IMAGE, "y = @im2col.default(x, [3, 2], [1, 1], [1, 0], [2, 2])"},
    {"col2im", "x: \"f32[2, 12, 8]\"",
     "y = @col2im.default(x, [5, 3], [2, 2], [1, 1], [0, 0], [1, 1])"},
    {"bicubic", IMAGE, "y = @upsample_bicubic2d.vec(x, [18, 16], False, None)"},
    {"bilinear_to_sizes", IMAGE, "y = @upsample_bilinear2d.default(x, [5, 20], False)"},
    {"bilinear_by_scales", IMAGE, "y = @upsample_bilinear2d.default(x, [13, 20], False, 1.5, 2.5)"},
    {"bicubic_to_sizes", IMAGE, "y = @upsample_bicubic2d.default(x, [18, 16], True)"},
    {"max_pool_indices", IMAGE,
     "a = @max_pool2d_with_indices.default(x, [3, 2], [2, 2], [1, 0])\n        b = a[0]\n        "
     "c = a[1]\n        y = @add.Tensor(b, c)"},
    {"max_pool_indices_of_one", "x: \"f32[4, 9, 8]\"",
     "a = @max_pool2d_with_indices.default(x, [3, 3], [2, 2], [1, 1], 1, True)\n        "
     "y = a[1]"},
    {"max_pool_indices_of_halves", "x: \"bf16[2, 4, 9, 8]\"",
     "a = @max_pool2d_with_indices.default(x, [3, 2], [2, 2], [1, 0])\n        y = a[1]"},
    {"bicubic_to_one", IMAGE, "y = @upsample_bicubic2d.vec(x, [3, 1], False, None)"},
};

static const rule_case size_cases[] = {
    {"sizes_of_sizes", S, SIZE "a: \"Sym(2*s0)\" = n * 2\n        "
                               "b: \"Sym(2*s0//3)\" = a // 3\n        "
                               "c: \"Sym(Max(2*s0//3, 1))\" = torch.sym_max(b, 1)\n        "
                               "y = @full.default([c, 2], 1.0)"},
    {"size_as_number", S, SIZE "y = @mul.Tensor(x, n)"},
    {"size_as_float", S, SIZE "a = torch.sym_float(n)\n        b = a / 2.0\n        "
                              "y = @mul.Tensor(x, b)"},
    {"numel", S, "n: \"Sym(12*s0)\" = @sym_numel.default(x)\n        y = @view.default(x, [n])"},
};

static const rule_case complex_cases[] = {
    {"rfft", X, "a = @fft_rfft.default(x, None, -1, 'ortho')\n        "
                "y = @view_as_real.default(a)"},
    {"fft2", X, "a = @fft_fft2.default(x)\n        y = @real.default(a)"},
    {"irfft", X, "a = @fft_rfft2.default(x)\n        b = @mul.Tensor(a, a)\n        "
                 "y = @fft_irfft2.default(b, [3, 4])"},
    {"fft_dynamic", S, "a = @fft_fft.default(x, None, 0)\n        y = @real.default(a)"},
    {"irfft_odd", "x: \"f32[2, 5]\"",
     "a = @fft_rfft.default(x)\n        y = @fft_irfft.default(a, 5)"},
    {"rotary", "x: \"f32[2, 3, 4]\", z: \"f32[3, 2]\"",
     "a = @view.default(x, [2, 3, 2, 2])\n        b = @view_as_complex.default(a)\n        "
     "o = @ones_like.default(z)\n        c = @polar.default(o, z)\n        "
     "d = @mul.Tensor(b, c)\n        e = @view_as_real.default(d)\n        "
     "y = @view.default(e, [2, 3, 4])"},
    {"complex_views", XY,
     "a = @complex.default(x, z)\n        b = @permute.default(a, [2, 0, 1])\n        "
     "c = @slice.Tensor(b, 0, 1, 3)\n        d = @reshape.default(c, [2, 6])\n        "
     "e = @unsqueeze.default(d, 1)\n        f = @expand.default(e, [2, 3, 6])\n        "
     "g = @cat.default([f, f], -1)\n        h = @select.int(g, -1, 5)\n        "
     "y = @view_as_real.default(h)"},
    {"complex_abs", XY, "a = @complex.default(x, z)\n        y = @abs.default(a)"},
};

/* ---- one case -------------------------------------------------------------------------------- */

static cfx_program *program_for(const rule_case *c) {
    cfx__text t = {0};
    cfx__text_puts(&t, "class GraphModule(torch.nn.Module):\n    def forward(self, ");
    cfx__text_printf(&t, "%s):\n        ", c->inputs);
    for (const char *s = c->body; *s; s++)
        if (*s == '@')
            cfx__text_puts(&t, "torch.ops.aten.");
        else
            cfx__text_putc(&t, *s);
    cfx__text_puts(&t, "\n        return (y,)\n");
    cfx_module *gm = cfx_module_parse(t.data, c->name);
    cfx__text_release(&t);
    cfx_program *p = cfx_program_new(gm);
    if (!cfx_ok())
        return p;
    cfx_each_node(gm->graph, n) {
        if (n->op == CFX_PLACEHOLDER)
            cfx_program_add_input(p, (cfx_input_spec){.kind = CFX_IN_USER, .name = n->name});
        if (n->op == CFX_OUTPUT)
            cfx_program_add_output(
                p, (cfx_output_spec){.name = cfx_as_node(cfx_at(cfx_at(n->args, 0), 0))->name});
    }
    return p;
}

/* Numbers for an input: of both signs, none 0, all unlike each other within a dozen. */
static cfx_tensor *sample(const cfx_result *r, int k) {
    int64_t sizes[CFX_MAX_DIMS], numel = 1;
    for (int i = 0; i < r->ndim; i++) {
        cfx_value size = cfx_result_size(r, i);
        sizes[i] = size.tag == CFX_TAG_INT                 ? cfx_integer(size)
                   : strcmp(cfx_value_str(size), "s0 - 1") ? 5
                                                           : 4;
        numel *= sizes[i];
    }
    cfx_tensor *t = cfx_tensor_new(CFX_F32, r->ndim, sizes, NULL);
    for (int64_t i = 0; i < numel && cfx_ok(); i++) {
        int64_t n = (i * 7 + k * 5) % 13 - 6;
        ((float *)t->data)[i] = r->dtype == CFX_BOOL ? (float)(n % 2)
                                : cfx__dtype_is_floating(r->dtype)
                                    ? (float)n * 0.31f + 0.1f + (float)i * 0.003f
                                    : (float)(n % 5 ? n % 5 : 1);
    }
    return cfx_to(t, cfx_dtype_value(r->dtype));
}

static cfx_value samples(const cfx_program *p) {
    cfx_value in = cfx_list_value(0, NULL);
    for (int i = 0; i < p->ninputs; i++) {
        cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, p->inputs[i].name));
        cfx_list_append(cfx_as_list(in), cfx_tensor_value(sample(&r, i)));
    }
    return in;
}

static cfx_tensor *run(cfx_program *p, cfx_value in) {
    cfx_value got = cfx_program_run_from(
        (cfx_site){0}, p, (cfx_args){(int)cfx_len(in), cfx_as_list(in)->items, NULL});
    return cfx_as_tensor(got.tag == CFX_TAG_TENSOR ? got : cfx_at(got, 0));
}

static void check_case(const rule_case *c) {
    size_t mark = cfx_scope_open();
    cfx_program *p = program_for(c);
    cfx_value in = cfx_ok() && cfx_program_infer(p) ? samples(p) : cfx_bad();
    cfx_tensor *want = cfx_ok() ? run(p, in) : NULL;
    if (cfx_ok())
        keep_case(c->name, p, in, cfx_list(want));
    if (cfx_ok() && cfx_save(p, test_path("rule.onnx"))) {
        cfx_tensor *got = run(cfx_open(test_path("rule.onnx")), in);
        if (cfx_ok() && (got->dtype != want->dtype || got->ndim != want->ndim ||
                         memcmp(got->shape, want->shape, (size_t)got->ndim * sizeof *got->shape)))
            test_fail(CFX_HERE, "%s: %s, not %s", c->name, cfx_repr(got), cfx_repr(want));
        else if (cfx_ok() && !cfx_is_true(cfx_allclose(got, want, CFX_KW(rtol, 1e-4),
                                                       CFX_KW(atol, 1e-5),
                                                       CFX_KW(equal_nan, true))))
            test_fail(CFX_HERE, "%s: other numbers: %s, not %s", c->name, cfx_repr(got),
                      cfx_repr(want));
    }
    if (!cfx_ok())
        test_fail(CFX_HERE, "%s: %s", c->name, cfx_error_last()->message);
    cfx_error_clear();
    cfx_scope_close(mark);
}

#define CHECK_CASES(cases)                                                                         \
    for (int i = 0; i < COUNT(cases); i++)                                                         \
        check_case(&cases[i]);                                                                     \
    test_unlink("rule.onnx");                                                                      \
    test_folder_done()

TEST(onnx_rules_of_arithmetic) { CHECK_CASES(math_cases); }
TEST(onnx_rules_of_truths) { CHECK_CASES(logic_cases); }
TEST(onnx_rules_of_shapes) { CHECK_CASES(shape_cases); }
TEST(onnx_rules_of_indices) { CHECK_CASES(index_cases); }
TEST(onnx_rules_of_reductions) { CHECK_CASES(reduce_cases); }
TEST(onnx_rules_of_new_tensors) { CHECK_CASES(create_cases); }
TEST(onnx_rules_of_layers) { CHECK_CASES(nn_cases); }
TEST(onnx_rules_of_windows) { CHECK_CASES(window_cases); }
TEST(onnx_rules_of_sizes) { CHECK_CASES(size_cases); }
TEST(onnx_rules_of_complex_numbers) { CHECK_CASES(complex_cases); }
