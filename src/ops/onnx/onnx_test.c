/* Operators of ONNX, with numbers worked out by hand or from the specification's examples. */
#include "../../tensor/tensor.h"
#include "test.h"

#include <math.h>

#include <cfx/ops.h>

#define OP(name, ...) cfx_str(cfx_op_do(cfx_op_find("onnx::" name), __VA_ARGS__))
#define T(...) cfx_tensor_from_value(cfx_list(__VA_ARGS__))
#define L(...) cfx_list(__VA_ARGS__)

static cfx_tensor *up(cfx_value shape) { /* 0., 1., 2., ... in this shape */
    int64_t n = 1;
    for (int64_t i = 0; i < cfx_as_list(shape)->len; i++)
        n *= cfx_integer(cfx_at(shape, i));
    return cfx_reshape(cfx_arange(n, CFX_KW(dtype, cfx_f32)), shape);
}

static cfx_tensor *as(cfx_tensor *t, cfx_dtype d) { return cfx_to(t, cfx_dtype_value(d)); }
static cfx_tensor *scalar(double v) { return cfx__tensor_scalar(cfx_float(v), CFX_F32); }
static cfx_tensor *number(int64_t v) { return cfx__tensor_scalar(cfx_int(v), CFX_I64); }

TEST(onnx_arithmetic_of_integers) {
    CHECK_STR(OP("Div", T(-7, 7, 5), T(2, -2, 3)), "tensor([-3, -3,  1])");
    CHECK_STR(OP("Mod", T(-4, 7, 5), T(2, -3, 8)), "tensor([ 0, -2,  5])");
    CHECK_STR(OP("Mod", T(4.0, -4.0), T(-2.0, 2.0)), "tensor([-0., 0.])");
    CHECK_STR(OP("Mod", T(-4, 7, 5), T(3, -3, 8), CFX_KW(fmod, 1)), "tensor([-1,  1,  5])");
    CHECK_STR(OP("Pow", T(1, 2, 3), T(4.0, 5.0, 0.5)), "tensor([ 1, 32,  1])");
    CHECK_STR(OP("BitShift", as(T(16, 4, 1), CFX_U8), as(T(1, 2, 3), CFX_U8),
                 CFX_KW(direction, "RIGHT")),
              "tensor([8, 1, 0], dtype=torch.uint8)");
    cfx_tensor *large = as(T(INT64_MIN, 5), CFX_U64); /* 1 << 63, and 5 */
    CHECK_STR(OP("Max", L(large, as(T(7, 7), CFX_U64))),
              "tensor([9223372036854775808,                   7], dtype=torch.uint64)");
    CHECK_STR(OP("Greater", large, as(T(7, 7), CFX_U64)), "tensor([ True, False])");
    CHECK_STR(OP("BitShift", large, as(T(62, 1), CFX_U64), CFX_KW(direction, "RIGHT")),
              "tensor([2, 2], dtype=torch.uint64)");
    CHECK_STR(OP("Sub", as(T(3, 4), CFX_U16), as(T(1, 2), CFX_U16)),
              "tensor([2, 2], dtype=torch.uint16)");
    CHECK_OK();
}

TEST(onnx_casts) {
    CHECK_STR(OP("Cast", T(1.5, 500.0, -1e9), CFX_KW(to, "float8e4m3fn")),
              "tensor([   1.5000,  448.0000, -448.0000], dtype=torch.float8_e4m3fn)");
    CHECK_STR(OP("Cast", T(-9.0, 2.5, 3.5, 99.0), CFX_KW(to, "int4")),
              "tensor([7, 2, 3, 3], dtype=torch.int8)");
    CHECK_STR(OP("Cast", T(-1.0, 20.0), CFX_KW(to, "uint4")),
              "tensor([15,  4], dtype=torch.uint8)");
    CHECK_STR(OP("Cast", T(0.2, 0.25, 0.75, 1.75, 2.5, 3.5, -5.0, 99.0, NAN),
                 CFX_KW(to, "float4e2m1")),
              "tensor([ 0.,  0.,  1.,  2.,  2.,  4., -4.,  6., -0.],\n"
              "       dtype=torch.float8_e4m3fn)");
    CHECK_STR(OP("CastLike", T(-9.0), as(T(1), CFX_I8), CFX_KW(to, "int4")),
              "tensor([7], dtype=torch.int8)");
    CHECK_STR(OP("Cast", T(0.0, 1.1, 1.5, 3e38), CFX_KW(to, "float8e8m0")),
              OP("Cast", T(0.0, 2.0, 2.0, 3e38), CFX_KW(to, "float8e8m0"),
                 CFX_KW(round_mode, "down")));
    CHECK_STR(OP("Cast", T(1.0, 1.4, 1.6, 4.0), CFX_KW(to, "float8e8m0"),
                 CFX_KW(round_mode, "nearest")),
              OP("Cast", T(1.0, 1.0, 2.0, 4.0), CFX_KW(to, "float8e8m0")));
    CHECK_OK();
    OP("Cast", T(1.0), CFX_KW(to, "float8e8m0"), CFX_KW(round_mode, "away"));
    CHECK_ERROR("Cast: the round_mode 'away' is not known");
    OP("Cast", T(1.0), CFX_KW(to, "string"));
    CHECK_ERROR("Cast: there are no tensors of the type 'string' here");
}

TEST(onnx_operands_before_version_7) {
    cfx_tensor *a = up(L(2, 3));
    CHECK_STR(OP("Add.v1", a, T(10.0, 20.0), CFX_KW(axis, 0), CFX_KW(broadcast, 1)),
              "tensor([[10., 11., 12.],\n        [23., 24., 25.]])");
    CHECK_STR(OP("Add.v1", a, T(1.0, 2.0, 3.0), CFX_KW(broadcast, 1)),
              "tensor([[1., 3., 5.],\n        [4., 6., 8.]])");
    CHECK_OK();
}

TEST(onnx_shapes) {
    cfx_tensor *x = up(L(2, 3, 4));
    CHECK_STR(OP("Shape", x, CFX_KW(start, -2)), "tensor([3, 4])");
    CHECK_STR(OP("Shape", x, CFX_KW(end, 9)), "tensor([2, 3, 4])");
    CHECK_STR(OP("Size", x), "tensor(24)");
    CHECK_STR(OP("Shape", cfx_as_tensor(cfx_op_do(cfx_op_find("onnx::Reshape"), x, T(0, -1)))),
              "tensor([ 2, 12])");
    CHECK_STR(OP("Shape", cfx_as_tensor(cfx_op_do(cfx_op_find("onnx::Unsqueeze"), x, T(0, -1)))),
              "tensor([1, 2, 3, 4, 1])");
    CHECK_STR(OP("Shape", cfx_as_tensor(cfx_op_do(cfx_op_find("onnx::Flatten"), x,
                                                  CFX_KW(axis, 2)))),
              "tensor([6, 4])");
    CHECK_STR(OP("Expand", T(1, 2), T(2, 1)), "tensor([[1, 2],\n        [1, 2]])");
    OP("Expand", T(1, 2), T(3));
    CHECK_ERROR("Expand: [2] and [3] do not broadcast");
    OP("Squeeze", x, T(0));
    CHECK_ERROR("Squeeze: size 2 of dimension 0 is not 1");
    OP("Reshape", x, T(1.5));
    CHECK_ERROR("Reshape: 'shape' must be a list of at most 64 integers, not float32 of shape [1]");
}

TEST(onnx_slices_and_parts) {
    cfx_tensor *x = up(L(6));
    CHECK_STR(OP("Slice", x, T(-1), T(-100), T(0), T(-2)), "tensor([5., 3., 1.])");
    CHECK_STR(OP("Slice", x, T(1), T(1000)), "tensor([1., 2., 3., 4., 5.])");
    CHECK_STR(OP("Slice", x, T(20), T(2), T(0), T(-1)), "tensor([5., 4., 3.])");
    CHECK_STR(OP("Split", up(L(5)), NULL, CFX_KW(num_outputs, 2)),
              "[tensor([0., 1., 2.]), tensor([3., 4.])]");
    CHECK_STR(OP("Pad", T(1, 2, 3), T(2, 1), NULL, NULL, CFX_KW(mode, "reflect")),
              "tensor([3, 2, 1, 2, 3, 2])");
    CHECK_STR(OP("Pad", T(1, 2, 3), T(1, 2), NULL, NULL, CFX_KW(mode, "edge")),
              "tensor([1, 1, 2, 3, 3, 3])");
    CHECK_STR(OP("Pad", T(1, 2, 3), T(2, 1), NULL, NULL, CFX_KW(mode, "wrap")),
              "tensor([2, 3, 1, 2, 3, 1])");
    CHECK_STR(OP("Pad", up(L(1, 2, 2)), T(0, 1, 1, 0, 0, 0), NULL, NULL, CFX_KW(mode, "wrap")),
              "tensor([[[3., 2., 3.],\n         [1., 0., 1.],\n         [3., 2., 3.]]])");
    CHECK_STR(OP("Pad", T(1, 2, 3), T(-1, 1), number(9)), "tensor([2, 3, 9])");
    CHECK_STR(OP("CenterCropPad", T(1, 2, 3, 4, 5), T(3)), "tensor([2, 3, 4])");
    CHECK_STR(OP("ReverseSequence", up(L(3, 2)), T(3, 2)),
              "tensor([[4., 3.],\n        [2., 1.],\n        [0., 5.]])");
    CHECK_OK();
}

TEST(onnx_elements_by_place) {
    cfx_tensor *x = up(L(2, 3));
    CHECK_STR(OP("Gather", x, T(-1, 0), CFX_KW(axis, 1)), "tensor([[2., 0.],\n        [5., 3.]])");
    CHECK_STR(OP("Gather", x, number(-1)), "tensor([3., 4., 5.])");
    CHECK_STR(OP("GatherND", x, T(L(0, 1), L(1, -1))), "tensor([1., 5.])");
    CHECK_STR(OP("GatherND", x, T(L(1), L(0)), CFX_KW(batch_dims, 1)), "tensor([1., 3.])");
    CHECK_STR(OP("ScatterND", T(1, 2, 3, 4), T(L(1), L(1), L(3)), T(10, 10, 5),
                 CFX_KW(reduction, "mul")),
              "tensor([  1, 200,   3,  20])");
    CHECK_STR(OP("ScatterElements", T(1., 2., 3.), T(0, -1), T(9., 8.), CFX_KW(reduction, "max")),
              "tensor([9., 2., 8.])");
    CHECK_STR(OP("OneHot", T(1, -1, 7), number(3), T(5, 6)),
              "tensor([[5, 6, 5],\n        [5, 5, 6],\n        [5, 5, 5]])");
    CHECK_STR(OP("TopK", T(2, 9, 9, 1), T(2), CFX_KW(largest, 1)),
              "(tensor([9, 9]), tensor([1, 2]))");
    CHECK_STR(OP("Unique", T(5, 2, 5, 1), CFX_KW(sorted, 0)),
              "(tensor([5, 2, 1]), tensor([0, 1, 3]), tensor([0, 1, 0, 2]), tensor([2, 1, 1]))");
    CHECK_STR(OP("Compress", x, cfx_gt(T(1, 0, 1), 0), CFX_KW(axis, 1)),
              "tensor([[0., 2.],\n        [3., 5.]])");
    CHECK_STR(OP("ArgMax", T(3, 7, 7), CFX_KW(select_last_index, 1)), "tensor([2])");
    CHECK_STR(OP("CumSum", T(1, 2, 3), number(0), CFX_KW(exclusive, 1), CFX_KW(reverse, 1)),
              "tensor([5, 3, 0])");
    CHECK_OK();
}

TEST(onnx_unsigned_elements) {
    CHECK_STR(OP("GatherElements", as(T(7, 60000, 3), CFX_U16), T(2, -2)),
              "tensor([    3, 60000], dtype=torch.uint16)");
    CHECK_OK();
}

TEST(onnx_reductions) {
    cfx_tensor *x = up(L(2, 3));
    CHECK_STR(OP("ReduceSum", x, T(1), CFX_KW(keepdims, 0)), "tensor([ 3., 12.])");
    CHECK_STR(OP("ReduceSum", x, NULL, CFX_KW(keepdims, 0)), "tensor(15.)");
    CHECK_STR(OP("ReduceSum", T(1, 2), NULL, CFX_KW(noop_with_empty_axes, 1)), "tensor([1, 2])");
    CHECK_STR(OP("ReduceSumSquare", T(-3, 2), NULL, CFX_KW(noop_with_empty_axes, 1)),
              "tensor([9, 4])");
    CHECK_STR(OP("ReduceL2", T(-3, 2), NULL, CFX_KW(noop_with_empty_axes, 1)), "tensor([3, 2])");
    CHECK_STR(OP("ReduceLogSum", T(1., 1.), NULL, CFX_KW(noop_with_empty_axes, 1)),
              "tensor([0., 0.])");
    CHECK_STR(OP("ReduceMean.v1", as(x, CFX_I32), CFX_KW(axes, L(-1))),
              "tensor([[1],\n        [4]], dtype=torch.int32)");
    CHECK_STR(OP("ReduceProd", cfx_add(x, 1), T(0, 1), CFX_KW(keepdims, 0)), "tensor(720.)");
    CHECK_STR(OP("ReduceMax", cfx_zeros(2, 0), T(1)), "tensor([[-inf],\n        [-inf]])");
    CHECK_STR(OP("ReduceL2", T(3., 4.), T(0)), "tensor([5.])");
    OP("ReduceSum", x, T(1, -1));
    CHECK_ERROR("ReduceSum: axis 1 is given twice");
}

TEST(onnx_products) {
    cfx_tensor *a = up(L(2, 2)), *b = up(L(2, 2)), *one = cfx_ones(2, 2);
    CHECK_STR(OP("Gemm", a, b, T(1., 2.), CFX_KW(transB, 1)),
              "tensor([[ 2.,  5.],\n        [ 4., 15.]])");
    CHECK_STR(OP("Gemm", a, one, scalar(4), CFX_KW(alpha, 0.5), CFX_KW(beta, 2.0),
                 CFX_KW(transA, 1)),
              "tensor([[ 9.,  9.],\n        [10., 10.]])");
    CHECK_STR(OP("MatMulInteger", as(T(L(11, 7)), CFX_U8), as(T(L(1), L(4)), CFX_U8),
                 as(T(12), CFX_U8), as(T(0), CFX_U8)),
              "tensor([[-21]], dtype=torch.int32)");
    CHECK_STR(OP("Einsum", L(a, b), CFX_KW(equation, "ij,jk->ik")),
              "tensor([[ 2.,  3.],\n        [ 6., 11.]])");
    CHECK_OK();
}

TEST(onnx_windows) {
    cfx_tensor *x = up(L(1, 1, 4, 4)), *w = cfx_ones(1, 1, 3, 3);
    cfx_value same = cfx_op_do(cfx_op_find("onnx::Conv"), x, w, CFX_KW(auto_pad, "SAME_LOWER"),
                               CFX_KW(strides, L(2, 2)));
    CHECK_STR(cfx_str(same), "tensor([[[[10., 24.],\n          [51., 90.]]]])");
    CHECK_STR(OP("MaxPool.Indices", x, CFX_KW(kernel_shape, L(2, 2)), CFX_KW(strides, L(2, 2)),
                 CFX_KW(storage_order, 1)),
              "(tensor([[[[ 5.,  7.],\n          [13., 15.]]]]), tensor([[[[ 5, 13],\n"
              "          [ 7, 15]]]]))");
    /* what has nothing above -inf in it has a place all the same, not one of the padding */
    cfx_tensor *least = cfx_full(L(1, 1, 2, 2), -INFINITY);
    CHECK_STR(OP("MaxPool.Indices", least, CFX_KW(kernel_shape, L(2, 2)), CFX_KW(strides, L(2, 2)),
                 CFX_KW(pads, L(1, 1, 1, 1))),
              "(tensor([[[[-inf, -inf],\n          [-inf, -inf]]]]), tensor([[[[0, 1],\n"
              "          [2, 3]]]]))");
    CHECK_STR(OP("MaxPool.Indices", least, CFX_KW(kernel_shape, L(2, 2)),
                 CFX_KW(pads, L(1, 1, 0, 0))),
              "(tensor([[[[-inf, -inf],\n          [-inf, -inf]]]]), tensor([[[[0, 0],\n"
              "          [0, 0]]]]))");
    /* the second window has an element, one of padding and one behind that, which counts not */
    CHECK_STR(OP("AveragePool", up(L(1, 1, 4)), CFX_KW(kernel_shape, L(3)), CFX_KW(pads, L(0, 1)),
                 CFX_KW(strides, L(3)), CFX_KW(ceil_mode, 1), CFX_KW(count_include_pad, 1)),
              "tensor([[[1.0000, 1.5000]]])");
    CHECK_STR(OP("AveragePool", up(L(1, 1, 4)), CFX_KW(kernel_shape, L(3)), CFX_KW(pads, L(0, 2))),
              "tensor([[[1.0000, 2.0000, 2.5000, 3.0000]]])");
    CHECK_STR(OP("LpPool", up(L(1, 1, 4)), CFX_KW(kernel_shape, L(2)), CFX_KW(p, 1)),
              "tensor([[[1., 3., 5.]]])");
    CHECK_STR(OP("ConvTranspose", up(L(1, 1, 2)), cfx_ones(1, 1, 2), CFX_KW(strides, L(2)),
                 CFX_KW(output_shape, L(5))),
              "tensor([[[0., 0., 1., 1., 0.]]])");
    OP("Conv", x, w, CFX_KW(pads, L(1, 1)));
    CHECK_ERROR("Conv: pads has 2 numbers for 4 dimensions");
}

/* Frames of a real signal: each number a row of its own, or, as PyTorch writes them, without that
 * dimension. */
TEST(onnx_transforms_of_short_times) {
    cfx_tensor *x = up(L(1, 6)), *step = number(2), *window = cfx_ones(4);
    const char *want = "tensor([[[[ 6.,  0.],\n          [-2.,  2.],\n          [-2.,  0.]],\n\n"
                       "         [[14.,  0.],\n          [-2.,  2.],\n          [-2.,  0.]]]])";
    CHECK_STR(OP("STFT", cfx_unsqueeze(x, -1), step, window), want);
    CHECK_STR(OP("STFT", x, step, window), want);
    OP("STFT", up(L(1, 6, 3)), step, window);
    CHECK_ERROR("STFT: the last dimension of a signal has 1 or 2 numbers, and it has another");
}

TEST(onnx_resampling) {
    cfx_tensor *x = up(L(1, 1, 1, 4));
    cfx_tensor *twice = T(1., 1., 1., 2.), *half = T(1., 1., 1., 0.5);
    CHECK_STR(OP("Resize", x, NULL, twice, CFX_KW(coordinate_transformation_mode, "asymmetric"),
                 CFX_KW(nearest_mode, "floor")),
              "tensor([[[[0., 0., 1., 1., 2., 2., 3., 3.]]]])");
    CHECK_STR(OP("Resize", x, NULL, half, CFX_KW(mode, "linear")),
              "tensor([[[[0.5000, 2.5000]]]])");
    CHECK_STR(OP("Resize", x, NULL, NULL, T(1, 1, 1, 7), CFX_KW(mode, "linear"),
                 CFX_KW(coordinate_transformation_mode, "align_corners")),
              "tensor([[[[0.0000, 0.5000, 1.0000, 1.5000, 2.0000, 2.5000, 3.0000]]]])");
    CHECK_STR(OP("Resize", x, NULL, half, CFX_KW(mode, "linear"), CFX_KW(antialias, 1)),
              "tensor([[[[0.6250, 2.3750]]]])");
    CHECK_STR(OP("Resize", x, NULL, NULL, T(1, 1, 1, 3),
                 CFX_KW(coordinate_transformation_mode, "half_pixel_symmetric")),
              "tensor([[[[0., 1., 3.]]]])");
    CHECK_STR(OP("Upsample.v7", x, CFX_KW(scales, L(1., 1., 1., 2.)), CFX_KW(mode, "linear")),
              "tensor([[[[0.0000, 0.5000, 1.0000, 1.5000, 2.0000, 2.5000, 3.0000, 3.0000]]]])");
    /* 2 / 0.8 is 2.5 in float32: halfway; integers lose their fraction */
    CHECK_STR(OP("Resize", cfx_reshape(T(0, 1, 2, 3, 4, 5), L(1, 1, 6)), NULL, T(1., 1., 0.8),
                 CFX_KW(coordinate_transformation_mode, "asymmetric"),
                 CFX_KW(nearest_mode, "round_prefer_ceil")),
              "tensor([[[0, 1, 3, 4]]])");
    CHECK_STR(OP("Resize", as(cfx_reshape(T(0, 3), L(1, 1, 2)), CFX_U8), NULL, T(1., 1., 2.),
                 CFX_KW(mode, "linear")),
              "tensor([[[0, 0, 2, 3]]], dtype=torch.uint8)");
    OP("Resize", x, NULL, twice, CFX_KW(mode, "sinc"));
    CHECK_ERROR("Resize: there is no mode 'sinc'");
}

/* Gates in ONNX's order give what ATen gives with them in its own. */
TEST(onnx_recurrence) {
    cfx_manual_seed(1);
    cfx_tensor *x = cfx_randn(5, 2, 3), *w = cfx_randn(1, 16, 3), *r = cfx_randn(1, 16, 4);
    cfx_tensor *zero = cfx_zeros(1, 2, 4);
    cfx_value parts = cfx_split(w, 4, 1), back = cfx_split(r, 4, 1);
    cfx_tensor *wi = cfx_squeeze(cfx_cat(L(cfx_at(parts, 0), cfx_at(parts, 2), cfx_at(parts, 3),
                                           cfx_at(parts, 1)), 1), 0);
    cfx_tensor *wh = cfx_squeeze(cfx_cat(L(cfx_at(back, 0), cfx_at(back, 2), cfx_at(back, 3),
                                           cfx_at(back, 1)), 1), 0);
    cfx_value want = cfx_lstm(x, L(zero, zero), L(wi, wh), false, 1, 0., false, false, false);
    cfx_op *lstm = cfx_op_find("onnx::LSTM");
    cfx_value got = cfx_op_do(lstm, x, w, r);
    CHECK(cfx_is_true(cfx_allclose(cfx_squeeze(cfx_tensor_at(got, 0), 1), cfx_at(want, 0))));
    cfx_value steps = cfx_op_do(lstm, x, w, r, NULL, as(T(5, 5), CFX_I32), NULL, NULL,
                                cfx_zeros(1, 12)); /* peepholes of zero: written out */
    CHECK(cfx_is_true(cfx_allclose(cfx_at(got, 0), cfx_at(steps, 0), 1e-4, 1e-5)));
    cfx_value shorter = cfx_op_do(lstm, x, w, r, NULL, as(T(5, 3), CFX_I32));
    CHECK(cfx_is_true(cfx_allclose(
        cfx_select(cfx_at(shorter, 1), 1, 1),
        cfx_select(cfx_select(cfx_at(got, 0), 0, 2), 1, 1), 1e-4, 1e-5)));
    CHECK_STR(cfx_str(cfx_sum(cfx_abs(cfx_select(cfx_slice(cfx_at(shorter, 0), 0, 3), 2, 1)))),
              "tensor(0.)");
    CHECK_OK();
}

/* Activations that have a parameter take one of the list each, the others none. */
TEST(onnx_recurrence_parameters) {
    cfx_op *gru = cfx_op_find("onnx::GRU"), *lstm = cfx_op_find("onnx::LSTM");
    cfx_tensor *x = cfx_ones(1, 1, 1), *w = cfx_ones(1, 3, 1), *r = cfx_zeros(1, 3, 1);
    cfx_value got = cfx_op_do(gru, x, w, r, CFX_KW(activations, L("Relu", "Affine")),
                              CFX_KW(activation_alpha, L(3.)), CFX_KW(activation_beta, L(0.5)),
                              CFX_KW(hidden_size, 1));
    CHECK_STR(cfx_str(cfx_reshape(cfx_at(got, 0), L(1))), "tensor([0.])"); /* update gate is 1 */
    got = cfx_op_do(gru, x, cfx_mul(w, 0.5), r, CFX_KW(activations, L("Relu", "Affine")),
                    CFX_KW(activation_alpha, L(3.)), CFX_KW(activation_beta, L(0.5)),
                    CFX_KW(hidden_size, 1));
    CHECK_STR(cfx_str(cfx_reshape(cfx_at(got, 0), L(1))), "tensor([1.])"); /* .5 (3 * .5 + .5) */
    got = cfx_op_do(lstm, x, cfx_ones(1, 4, 1), cfx_zeros(1, 4, 1), NULL, NULL,
                    cfx_zeros(1, 1, 1), cfx_full(L(1, 1, 1), 4.), NULL,
                    CFX_KW(activations, L("Relu", "Relu", "Relu")), CFX_KW(clip, 0.5),
                    CFX_KW(hidden_size, 1)); /* gates are clipped to .5, the cell is not */
    CHECK_STR(cfx_str(cfx_reshape(cfx_at(got, 0), L(1))), "tensor([1.1250])");
    cfx_op_do(gru, x, w, r, CFX_KW(activations, L("Sigmoid", "Sine")), CFX_KW(hidden_size, 1));
    CHECK_ERROR("GRU: there is no activation 'Sine'");
}

TEST(onnx_quantized_numbers) {
    CHECK_STR(OP("QuantizeLinear", T(0., 2., 3., 1000., -254., -1000.), scalar(2),
                 as(number(128), CFX_U8)),
              "tensor([128, 129, 130, 255,   1,   0], dtype=torch.uint8)");
    CHECK_STR(OP("QuantizeLinear", T(-9., 3., 40.), scalar(1), CFX_KW(output_dtype, "int4")),
              "tensor([-8,  3,  7], dtype=torch.int8)");
    CHECK_STR(OP("DequantizeLinear", as(T(L(3, 89), L(34, 200)), CFX_U8), T(2., 4.),
                 as(T(84, 24), CFX_U8), CFX_KW(axis, 0)),
              "tensor([[-162.,   10.],\n        [  40.,  704.]])");
    CHECK_STR(OP("DequantizeLinear", as(T(L(1, 2, 3, 4)), CFX_I8), T(L(1., 10.)), NULL,
                 CFX_KW(block_size, 2)),
              "tensor([[ 1.,  2., 30., 40.]])");
    OP("DequantizeLinear", as(T(1, 2), CFX_U8), scalar(2), as(cfx_zeros(L(0, 2)), CFX_U8));
    CHECK_ERROR("0 zero points for 1 scales");
    OP("CastLike", T(1., 2.), as(T(1., 2.), CFX_C32));
    CHECK_ERROR("ONNX has no tensors of complex32");
    CHECK_STR(OP("DynamicQuantizeLinear", T(0., 2., -3., -2.5, 1.34, 0.5)),
              "(tensor([153, 255,   0,  26, 221, 179], dtype=torch.uint8), tensor(0.0196), "
              "tensor(153, dtype=torch.uint8))");
    CHECK_OK();
}

TEST(onnx_sequences) {
    cfx_value s = cfx_op_do(cfx_op_find("onnx::SequenceConstruct"), L(T(1), T(2), T(3)));
    CHECK_STR(OP("SequenceAt", s, number(-1)), "tensor([3])");
    CHECK_STR(OP("SequenceInsert", s, T(9), number(-2)),
              "[tensor([1]), tensor([9]), tensor([2]), tensor([3])]");
    CHECK_STR(OP("SequenceErase", s, number(0)), "[tensor([2]), tensor([3])]");
    CHECK_STR(OP("SequenceLength", s), "tensor(3)");
    CHECK_STR(OP("ConcatFromSequence", s, CFX_KW(axis, 0), CFX_KW(new_axis, 1)),
              "tensor([[1],\n        [2],\n        [3]])");
    OP("SequenceAt", s, number(3));
    CHECK_ERROR("SequenceAt: there is no place 3 in a sequence of 3");
}

/* Statistics of the batch, though its running ones are not asked for; and, in versions before 9, of
 * each place. */
TEST(onnx_batch_norm_by_its_own_statistics) {
    cfx_tensor *x = T(L(1.0), L(3.0)), *one = T(1.0), *zero = T(0.0), *nine = T(9.0);
    CHECK_STR(OP("BatchNormalization", x, one, zero, nine, nine, CFX_KW(training_mode, 1),
                 CFX_KW(epsilon, 0.0)),
              "tensor([[-1.],\n        [ 1.]])");
    CHECK_STR(OP("BatchNormalization.v1", cfx_reshape(T(1.0, 2.0), L(1, 1, 2)),
                 T(L(1.0, 10.0)), T(L(0.0, 5.0)), T(L(0.0, 1.0)), T(L(4.0, 1.0)),
                 CFX_KW(spatial, 0), CFX_KW(epsilon, 0.0)),
              "tensor([[[ 0.5000, 15.0000]]])");
    CHECK_OK();
}

TEST(onnx_words_and_numbers_that_are_not_there) {
    OP("LpNormalization", T(1.0), CFX_KW(p, 3));
    CHECK_ERROR("LpNormalization: p is 1 or 2, not 3");
    OP("TensorScatter", cfx_zeros(L(1, 2, 1)), cfx_zeros(L(1, 1, 1)), CFX_KW(mode, "round"));
    CHECK_ERROR("TensorScatter: the mode is linear or circular, not 'round'");
    OP("CausalConvWithState", cfx_zeros(L(1, 1, 2)), cfx_zeros(L(1, 1, 2)),
       CFX_KW(activation, "relu"));
    CHECK_ERROR("CausalConvWithState: the activation is none, silu or swish, not 'relu'");
    OP("Resize", cfx_zeros(L(2)), NULL, NULL, T(4), CFX_KW(keep_aspect_ratio_policy, "squeeze"));
    CHECK_ERROR("Resize: there is no keep_aspect_ratio_policy 'squeeze'");
}
