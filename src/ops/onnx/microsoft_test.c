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
    CHECK_ERROR("QLinearConcat: 2 inputs are no parts with a scale and a zero point each");
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
