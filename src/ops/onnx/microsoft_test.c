/* Operators of com.microsoft on numbers that can be followed by hand. */
#include "microsoft.h"
#include "test.h"

#define OP(name, ...)                                                                              \
    cfx_str(cfx_op_do(cfx_op_find("onnx_microsoft." name ".default"), __VA_ARGS__))
#define T_(...) cfx_tensor_from_value(cfx_list(__VA_ARGS__))
#define L(...) cfx_list(__VA_ARGS__)
#define AS(t, d) cfx_to(t, cfx_dtype_value(d))

TEST(microsoft_quantized_operators_round_what_they_compute) {
    cfx_tensor *a = AS(T_(10, 20, 250), CFX_U8), *b = AS(T_(0, 4, 8), CFX_U8);
    cfx_tensor *half = T_(0.5), *one = T_(1.0), *zero = AS(T_(0), CFX_U8);
    cfx_tensor *ten = AS(T_(10), CFX_U8);
    CHECK_STR(OP("QLinearAdd", a, one, ten, b, half, zero, one, ten),
              "tensor([ 10,  22, 254], dtype=torch.uint8)");
    CHECK_STR(OP("QLinearMul", a, one, ten, b, half, zero, one, zero),
              "tensor([  0,  20, 255], dtype=torch.uint8)");
    CHECK_STR(OP("QLinearConcat", one, zero, L(a, one, zero, b, half, zero), CFX_KW(axis, 0)),
              "tensor([ 10,  20, 250,   0,   2,   4], dtype=torch.uint8)");
    CHECK_STR(OP("QGemm", AS(T_(L(1, 2)), CFX_U8), half, zero, AS(T_(L(3, 4)), CFX_I8), half,
                 AS(T_(0), CFX_I8), AS(T_(5), CFX_I32), one, zero, CFX_KW(transB, 1)),
              "tensor([[4]], dtype=torch.uint8)");
    CHECK_OK();
    OP("QLinearConcat", one, zero, L(a, one), CFX_KW(axis, 0));
    CHECK_ERROR("QLinearConcat: 2 inputs are not triples of tensor, scale and zero point");
}

/* Two numbers in a byte, the first in the low bits, 8 as zero. */
TEST(microsoft_weights_of_few_bits_are_unpacked) {
    cfx_tensor *w = AS(cfx_reshape(T_(0x98, 0xba), L(1, 1, 2)), CFX_U8);
    CHECK_STR(OP("MatMulNBits", cfx_eye(4), w, T_(0.5), CFX_KW(K, 4), CFX_KW(N, 1),
                 CFX_KW(bits, 4), CFX_KW(block_size, 4)),
              "tensor([[0.0000],\n        [0.5000],\n        [1.0000],\n        [1.5000]])");
    CHECK_OK();
    OP("MatMulNBits", cfx_eye(4), w, T_(0.5), CFX_KW(K, 4), CFX_KW(N, 1), CFX_KW(bits, 3),
       CFX_KW(block_size, 4));
    CHECK_ERROR("MatMulNBits: 1 by 4 numbers of 3 bits in blocks of 4");
}

TEST(microsoft_fused_operators_do_both) {
    cfx_tensor *x = T_(L(1.0, -2.0)), *w = T_(L(1.0, 1.0));
    CHECK_STR(OP("FusedGemm", x, w, NULL, CFX_KW(transB, 1), CFX_KW(activation, "LeakyRelu"),
                 CFX_KW(activation_alpha, 0.5)),
              "tensor([[-0.5000]])");
    CHECK_STR(OP("FusedMatMul", x, w, CFX_KW(alpha, 3.0), CFX_KW(transB, 1)), "tensor([[-3.]])");
    CHECK_OK();
    OP("FusedGemm", x, w, NULL, CFX_KW(transB, 1), CFX_KW(activation, "Mish"));
    CHECK_ERROR("FusedGemm: the activation 'Mish' is not known here");
}

/* A query that is like the second key and may not see it takes the value of the first. */
TEST(microsoft_attention_leaves_out_what_is_masked) {
    cfx_tensor *q = T_(L(L(0.0, 9.0))), *k = T_(L(L(1.0, 0.0), L(0.0, 9.0)));
    cfx_tensor *v = T_(L(L(1.0, 2.0), L(3.0, 4.0)));
    cfx_tensor *mask = AS(T_(L(1, 0)), CFX_I32), *lengths = AS(T_(1), CFX_I32);
    CHECK_STR(OP("MultiHeadAttention", q, k, v, NULL, mask, CFX_KW(num_heads, 1)),
              "tensor([[[1., 2.]]])");
    CHECK_STR(OP("MultiHeadAttention", q, k, v, NULL, lengths, CFX_KW(num_heads, 1)),
              "tensor([[[1., 2.]]])");
    CHECK_STR(OP("MultiHeadAttention", q, k, v, CFX_KW(num_heads, 1)), "tensor([[[3., 4.]]])");
    CHECK_OK();
}

/* The first of two queries sees the first key alone, also where the cache is asked for. */
TEST(microsoft_attention_with_a_cache_is_causal) {
    cfx_tensor *x = T_(L(L(1.0, 0.0), L(0.0, 9.0))), *v = T_(L(L(1.0, 2.0), L(3.0, 4.0)));
    cfx_tensor *none = cfx_zeros(L(1, 1, 0, 2)), *last = AS(T_(1), CFX_I32);
    cfx_value y = cfx_op_do(cfx_op_find("onnx_microsoft.GroupQueryAttention.default"), x, x, v,
                            none, none, last, AS(T_(2), CFX_I32), CFX_KW(num_heads, 1),
                            CFX_KW(kv_num_heads, 1));
    CHECK_OK();
    CHECK_STR(cfx_str(cfx_at(y, 0)), "tensor([[[1., 2.],\n         [3., 4.]]])");
    CHECK_STR(cfx_str(cfx_at(y, 2)), "tensor([[[[1., 2.],\n          [3., 4.]]]])");
    cfx_op_do(cfx_op_find("onnx_microsoft.GroupQueryAttention.default"), x, x, v, none, none,
              AS(T_(0), CFX_I32), AS(T_(2), CFX_I32), CFX_KW(num_heads, 1),
              CFX_KW(kv_num_heads, 1));
    CHECK_ERROR("seqlens_k does not say that all keys are in use");
}

/* The row has three keys, of which the first is padding in front: its end is 3, it begins at 1. */
TEST(microsoft_masks_by_ends_and_beginnings) {
    cfx_tensor *q = T_(L(L(9.0, 0.0))), *k = T_(L(L(9.0, 0.0), L(1.0, 0.0), L(0.0, 9.0)));
    cfx_tensor *v = T_(L(L(1.0, 2.0), L(3.0, 4.0), L(5.0, 6.0)));
    CHECK_STR(OP("MultiHeadAttention", q, k, v, NULL, AS(T_(3, 1), CFX_I32), CFX_KW(num_heads, 1),
                 CFX_KW(scale, 9.0)),
              "tensor([[[3., 4.]]])");
    CHECK_OK();
    OP("MultiHeadAttention", q, k, v, NULL, AS(T_(3, 1, 0, 0, 0), CFX_I32), CFX_KW(num_heads, 1));
    CHECK_ERROR("MultiHeadAttention: a mask of shape [5] is not known here");
}

TEST(microsoft_quantizers_of_other_widths) {
    cfx_tensor *half = T_(0.5), *zero = AS(T_(100), CFX_U16), *low = AS(T_(-30000), CFX_I16);
    CHECK_STR(OP("QuantizeLinear", T_(1.0, -3.0, 1e9), half, zero),
              "tensor([  102,    94, 65535], dtype=torch.uint16)");
    CHECK_STR(OP("DequantizeLinear", AS(T_(-30000, -29998), CFX_I16), half, low),
              "tensor([0., 1.])");
    CHECK_STR(OP("QLinearWhere", AS(T_(1, 0), CFX_BOOL), AS(T_(4, 4), CFX_U8), half,
                 AS(T_(0), CFX_U8), AS(T_(9, 9), CFX_U8), half, AS(T_(1), CFX_U8), half,
                 AS(T_(3), CFX_U8)),
              "tensor([ 7, 11], dtype=torch.uint8)");
    CHECK_STR(OP("QLinearReduceMean", AS(T_(L(1, 3), L(5, 7)), CFX_U8), half, AS(T_(1), CFX_U8),
                 T_(0.25), AS(T_(2), CFX_U8), CFX_KW(axes, L(1)), CFX_KW(keepdims, 0)),
              "tensor([ 4, 12], dtype=torch.uint8)");
    CHECK_OK();
}

/* Images whose channels come last: two channels, the larger of each is of another place. */
TEST(microsoft_images_with_channels_last) {
    cfx_tensor *x = AS(cfx_reshape(T_(1, 40, 2, 30, 3, 20, 4, 10), L(1, 2, 2, 2)), CFX_U8);
    CHECK_STR(OP("NhwcMaxPool", x, CFX_KW(kernel_shape, L(2, 2))),
              "tensor([[[[ 4, 40]]]], dtype=torch.uint8)");
    cfx_tensor *one = T_(1.0), *zero = AS(T_(0), CFX_U8), *w = AS(T_(1, 2), CFX_U8);
    CHECK_STR(OP("QLinearConv", x, one, zero, cfx_reshape(w, L(1, 2, 1, 1)), one, zero, one, zero,
                 CFX_KW(channels_last, 1)),
              "tensor([[[[81],\n          [62]],\n\n         [[43],\n          [24]]]], "
              "dtype=torch.uint8)");
    CHECK_OK();
}

/* Rows of two bytes, four numbers of 4 bits, in blocks of two. */
TEST(microsoft_rows_of_few_bits_are_gathered) {
    cfx_tensor *rows = AS(T_(L(0x98, 0xba), L(0x10, 0x32)), CFX_U8), *at = T_(1, 0);
    cfx_tensor *scale = T_(L(1.0, 10.0), L(1.0, 100.0));
    CHECK_STR(OP("GatherBlockQuantized", rows, at, scale, CFX_KW(block_size, 2)),
              "tensor([[  -8.,   -7., -600., -500.],\n        [   0.,    1.,   20.,   30.]])");
    CHECK_STR(OP("GatherBlockQuantized", rows, T_(1), scale, AS(T_(L(0, 0), L(0x20, 0)), CFX_U8),
                 CFX_KW(block_size, 2)),
              "tensor([[  0.,   1.,   0., 100.]])");
    CHECK_STR(OP("GatherBlockQuantized", AS(T_(L(-8, 7)), CFX_I8), T_(0), T_(L(0.5)),
                 CFX_KW(block_size, 16)),
              "tensor([[-4.0000,  3.5000]])");
    CHECK_OK();
    OP("GatherBlockQuantized", rows, at, scale, CFX_KW(block_size, 2), CFX_KW(gather_axis, 1));
    CHECK_ERROR("numbers of 4 bits in blocks of 2 along axis 1, taken along axis 1");
}

/* The same as Attention of the numbers that the integers stand for. */
TEST(microsoft_attention_of_integers) {
    cfx_tensor *x = AS(T_(L(L(3, 1))), CFX_U8);
    cfx_tensor *w = AS(T_(L(1, 0, 1, 0, 2, 0), L(0, 1, 0, 1, 0, 2)), CFX_I8);
    cfx_tensor *one = T_(1.0), *half = T_(0.5), *bias = cfx_zeros(L(6));
    CHECK_STR(OP("QAttention", x, w, bias, half, one, NULL, AS(T_(1), CFX_U8), NULL,
                 CFX_KW(num_heads, 1)),
              "tensor([[[2., 0.]]])");
    CHECK_OK();
}

TEST(microsoft_what_would_be_something_else_is_refused) {
    cfx_tensor *x = cfx_zeros(L(1, 1, 2)), *table = cfx_zeros(L(1, 1));
    OP("RotaryEmbedding", x, T_(0), table, table, CFX_KW(scale, 2.0));
    CHECK_ERROR("RotaryEmbedding: packed batches and scales are not known here");
    OP("MatMulNBits", cfx_eye(4), AS(cfx_zeros(L(1, 1, 2)), CFX_U8), T_(0.5), CFX_KW(K, 4),
       CFX_KW(N, 1), CFX_KW(bits, 4), CFX_KW(block_size, 4), CFX_KW(weight_prepacked, 1));
    CHECK_ERROR("MatMulNBits: weights packed for a machine are not known here");
}
