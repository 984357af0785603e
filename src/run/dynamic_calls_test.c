/* Programs whose sizes vary, of one expression each: convolutions, pools, views, parts, layers,
 * sizes as values. */
#include "dynamic_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run.h"

#define NONE CFX_NONE
#define VEC2(...) cfx_as_tensor(cfx_op_do(&cfx_op_upsample_nearest2d_vec, __VA_ARGS__))

#define FORWARDS(F)                                                                                \
    F(conv2d_batch, CALL("c", x))                                                                  \
    F(conv2d_k3s1p1d1, CALL("c", x))                                                               \
    F(conv2d_k3s2p1d1, CALL("c", x))                                                               \
    F(conv2d_k7s2p3d1, CALL("c", x))                                                               \
    F(conv2d_k5s3p0d1, CALL("c", x))                                                               \
    F(conv2d_k3s1p2d2, CALL("c", x))                                                               \
    F(conv2d_k4s4p0d1, CALL("c", x))                                                               \
    F(conv2d_k1s2p0d1, CALL("c", x))                                                               \
    F(conv2d_k3s2p0d2, CALL("c", x))                                                               \
    F(conv2d_two, CALL("d", cfx_relu(CALL("c", x))))                                               \
    F(conv1d_k3s1p1d1, CALL("c", x))                                                               \
    F(conv1d_k5s2p2d1, CALL("c", x))                                                               \
    F(conv1d_k3s1p0d4, CALL("c", x))                                                               \
    F(conv1d_k8s4p2d1, CALL("c", x))                                                               \
    F(conv1d_causal, CALL("c", cfx_pad(x, L(4, 0))))                                               \
    F(convt2d_k2s2p0o0, CALL("c", x))                                                              \
    F(convt2d_k3s2p1o1, CALL("c", x))                                                              \
    F(convt2d_k4s2p1o0, CALL("c", x))                                                              \
    F(convt2d_k3s1p0o0, CALL("c", x))                                                              \
    F(convt1d, CALL("c", x))                                                                       \
    F(autoencoder, cfx_sigmoid(CALL("d", cfx_relu(CALL("e", x)))))                                 \
    F(conv_bn_relu, cfx_relu(CALL("b", CALL("c", x))))                                             \
    F(patch_embed, cfx_transpose(cfx_flatten(CALL("c", x), 2), 1, 2))                              \
    F(pool_adaptive_1, cfx_adaptive_avg_pool2d(x, L(1, 1)))                                        \
    F(pool_mean23, cfx_mean(x, L(2, 3)))                                                           \
    F(pool_mean_keep, cfx_mean(x, L(2, 3), true))                                                  \
    F(pool_avg2d_3s1p1, cfx_avg_pool2d(x, L(3, 3), L(1, 1), L(1, 1)))                              \
    F(pixel_shuffle, cfx_pixel_shuffle(x, 2))                                                      \
    F(unfold_dim, cfx_unfold(x, 1, 4, 2))                                                          \
    F(pad_const, cfx_pad(x, L(2, 1, 3, 0), "constant", 1.0))                                       \
    F(view_flatten1, cfx_flatten(x, 1))                                                            \
    F(view_flatten0, cfx_flatten(x))                                                               \
    F(view_flatten_hw, cfx_flatten(x, 2))                                                          \
    F(view_flatten01, cfx_flatten(x, 0, 1))                                                        \
    F(view_view_m1, cfx_view(x, L(N(x, 0), -1)))                                                   \
    F(view_view_heads, cfx_transpose(cfx_view(x, L(N(x, 0), N(x, 1), 2, 4)), 1, 2))                \
    F(view_reshape_m1, cfx_reshape(x, L(-1, 6)))                                                   \
    F(view_reshape_bt, cfx_reshape(x, L(N(x, 0) * N(x, 1), 6)))                                    \
    F(view_reshape_half, cfx_reshape(x, L(N(x, 0) / 2, 2, 6)))                                     \
    F(view_permute, cfx_permute(x, L(2, 0, 1)))                                                    \
    F(view_expand_as, cfx_mul(cfx_expand_as(cfx_slice(cfx_slice(x, 0, 0, END), 1, 0, 1), x), 2))   \
    F(view_repeat, cfx_repeat(x, L(2, 3)))                                                         \
    F(view_repeat_t, cfx_repeat(x, L(1, 2, 1)))                                                    \
    F(view_unflatten, cfx_unflatten(x, 1, L(2, 4)))                                                \
    F(view_flip, cfx_flip(x, L(0)))                                                                \
    F(view_roll, cfx_roll(x, L(1), L(0)))                                                          \
    F(view_tril, cfx_tril(x))                                                                      \
    F(view_diag, cfx_diagonal(x))                                                                  \
    F(view_ravel_mm, cfx_matmul(cfx_reshape(x, L(-1, 4)), P("w")))                                 \
    F(view_stack, cfx_stack(L(x, cfx_add(x, 1)), 1))                                               \
    F(view_unsqueeze, cfx_sub(cfx_unsqueeze(x, 1), cfx_unsqueeze(x, 0)))                           \
    F(part_cat0, cfx_cat(L(x, x)))                                                                 \
    F(part_cat_xy, cfx_cat(L(x, y)))                                                               \
    F(part_cat_const, cfx_cat(L(x, P("e"))))                                                       \
    F(part_cat_dim1, cfx_cat(L(x, y), 1))                                                          \
    F(part_slice_both, cfx_mul(cfx_slice(x, 0, 1, -1), 2))                                         \
    F(part_slice_step, cfx_slice(x, 0, 0, END, 2))                                                 \
    F(part_slice_step1, cfx_slice(x, 0, 1, END, 2))                                                \
    F(part_slice_last2, cfx_slice(x, 0, -2, END))                                                  \
    F(part_slice_first2, cfx_slice(x, 0, 0, 2))                                                    \
    F(part_slice_pos, cfx_add(x, cfx_slice(P("pos"), 0, CFX_NONE, N(x, 1))))                       \
    F(part_slice_pos_off, cfx_add(x, cfx_slice(P("pos"), 0, 2, N(x, 1) + 2)))                      \
    F(part_gather, cfx_gather(x, 1, cfx_unsqueeze(cfx_slice(y, 0, 0, END), 1)))                    \
    F(part_narrow, cfx_narrow(x, 0, 1, N(x, 0) - 2))                                               \
    F(attn_sdpa, cfx_scaled_dot_product_attention(x, x, x))                                        \
    F(attn_cross, cfx_scaled_dot_product_attention(x, y, y))                                       \
    F(layer_norm, CALL("n", x))                                                                    \
    F(group_norm, CALL("n", x))                                                                    \
    F(softmax_t, cfx_softmax(x, 1))                                                                \
    F(logsumexp, cfx_logsumexp(x, L(1)))                                                           \
    F(cumsum, cfx_cumsum(x, 1))                                                                    \
    F(mlp, CALL("b", cfx_gelu(CALL("a", x))))                                                      \
    F(mlp3d, CALL("b", cfx_gelu(CALL("a", x))))                                                    \
    F(matmul_bt, cfx_matmul(x, y))                                                                 \
    F(matmul_2d, cfx_matmul(x, cfx_t(y)))                                                          \
    F(argmax, cfx_argmax(x, 1))                                                                    \
    F(outer, cfx_outer(x, y))                                                                      \
    F(where, cfx_where(cfx_gt(x, 0), x, y))                                                        \
    F(val_mul, cfx_mul(x, N(x, 0)))                                                                \
    F(val_pow, cfx_mul(x, N(x, 0) * N(x, 0)))                                                      \
    F(val_mean_manual, cfx_div(cfx_sum(x, L(0)), N(x, 0)))                                         \
    F(val_full, cfx_add(cfx_full(L(N(x, 0), 2), 3.0), x))                                          \
    F(val_zeros, cfx_zeros(N(x, 0), N(x, 1), 2))                                                   \
    F(val_arange, cfx_mul(cfx_arange(N(x, 0)), 2))                                                 \
    F(val_new_zeros, cfx_new_zeros(x, L(N(x, 0) + 1, 3)))                                          \
    F(val_mean_all, cfx_mean(x))                                                                   \
    F(loop_cat, cfx_cat(L(cfx_cat(L(cfx_cat(L(x, x)), x)), x)))                                    \
    F(sym_eq, cfx_add(x, y))                                                                       \
    F(sym_eq_mm, cfx_matmul(x, y))                                                                 \
    F(sym_plus1, cfx_add(cfx_slice(x, 0, 1, END), y))                                              \
    F(sym_times3, cfx_mul(cfx_sum(cfx_view(x, L(-1, 3)), L(1)), y))                                \
    F(sym_auto, cfx_relu(CALL("l", x)))                                                            \
    F(sym_auto_eq, cfx_add(x, y))                                                                  \
    F(sym_auto_static, cfx_add(x, P("w")))                                                         \
    F(sym_auto_cond, N(x, 0) > 3 ? cfx_mul(x, 2) : x)                                              \
    F(sym_dynamic, cfx_sum(x, L(1)))                                                               \
    F(sym_minmax, cfx_mul(x, 2))                                                                   \
    F(sym_max, cfx_mul(x, 2))                                                                      \
    F(sym_min, cfx_mul(x, 2))                                                                      \
    F(sym_16_512, CALL("l", x))                                                                    \
    F(sym_1_2, cfx_add(x, 1))                                                                      \
    F(data_nonzero, cfx_nonzero(x))                                                                \
    F(data_masked_select, cfx_sum(cfx_masked_select(x, cfx_gt(x, 0))))                             \
    F(data_repeat_static, cfx_repeat_interleave(x, 2, 0))                                          \
    F(inplace, cfx_relu_(cfx_mul_(cfx_add(x, 1), 2)))                                              \
    F(adaptive_batch, CALL("l", cfx_flatten(cfx_adaptive_avg_pool2d(x, L(2, 2)), 1)))              \
    F(attn_enc_layer, CALL("a", x))                                                                \
    F(batch_norm1d, CALL("n", x))                                                                  \
    F(batch_norm_train, cfx_batch_norm(x, NONE, NONE, NONE, NONE, true, 0.1, 1e-5, false))         \
    F(conv1d_glu, cfx_glu(CALL("c", x), 1))                                                        \
    F(conv2d_224, CALL("c", x))                                                                    \
    F(conv2d_groups, CALL("d", CALL("c", x)))                                                      \
    F(conv2d_same, CALL("c", x))                                                                   \
    F(conv3d, CALL("c", x))                                                                        \
    F(cross_entropy, cfx_cross_entropy_loss(x, y))                                                 \
    F(data_mask, cfx_index(x, L(cfx_gt(x, 0))))                                                    \
    F(data_nonzero_flat, cfx_add(cfx_squeeze(cfx_nonzero(cfx_gt(x, 0)), 1), 1))                    \
    F(data_repeat_interleave, cfx_repeat_interleave(x, y, 0))                                      \
    F(data_repeat_static1, cfx_repeat_interleave(x, 3, 1))                                         \
    F(dropout_eval, cfx_add(CALL("d", x), 1))                                                      \
    F(einsum, cfx_einsum("btc,bsc->bts", L(x, y)))                                                 \
    F(einsum2, cfx_einsum("bthd,hde->bte", L(x, P("w"))))                                          \
    F(f_rms_norm, cfx_rms_norm(x, L(8)))                                                           \
    F(instance_norm, CALL("n", x))                                                                 \
    F(one_hot, cfx_mul(cfx_to(cfx_one_hot(x, 5), cfx_f32), 2))                                     \
    F(pad_circular, cfx_pad(x, L(1, 2), "circular"))                                               \
    F(pad_reflect, cfx_pad(x, L(2, 1), "reflect"))                                                 \
    F(pad_replicate, cfx_pad(x, L(1, 1, 1, 1), "replicate"))                                       \
    F(pad_to_even, cfx_pad(x, L(0, N(x, 1) % 2)))                                                  \
    F(part_index_arange, cfx_index(x, L(cfx_arange(N(x, 0)), y)))                                  \
    F(part_select_last, cfx_select(ALL(x), 1, -1))                                                 \
    F(part_select_mid, cfx_select(x, 0, N(x, 0) / 2))                                              \
    F(part_slice_step3, cfx_slice(ALL(x), 1, 0, END, 3))                                           \
    F(pool_adaptive_flat, cfx_flatten(cfx_adaptive_avg_pool2d(x, L(1, 1)), 1))                     \
    F(pool_max2d_k5, cfx_max_pool2d(x, L(5, 5), L(1, 1), L(2, 2)))                                 \
    F(rms_norm, cfx_mul(x, cfx_rsqrt(cfx_add(cfx_mean(cfx_pow(x, 2), L(-1), true), 1e-6))))        \
    F(sym_auto_even, cfx_view(x, L(2, -1)))                                                        \
    F(sym_auto_pool, cfx_max_pool2d(CALL("c", x), L(2, 2)))                                        \
    F(sym_ge_ok, N(x, 0) >= 2 ? cfx_mul(x, 2) : x)                                                 \
    F(to_dtype, cfx_mul(cfx_to(x, cfx_f64), 2))                                                    \
    F(topk_t, AT(cfx_topk(x, 3, 1), 0))                                                            \
    F(type_as, cfx_add(cfx_type_as(y, x), x))                                                      \
    F(unfold_im2col, cfx_im2col(x, L(3, 3), L(1, 1), L(1, 1), L(1, 1)))                            \
    F(upsample_batch, cfx_upsample_bilinear2d(x, NONE, false, L(2.0, 2.0)))                        \
    F(upsample_bilinear, cfx_upsample_bilinear2d(x, NONE, false, L(2.0, 2.0)))                     \
    F(upsample_like, VEC2(x, L(N(y, 2), N(y, 3)), NONE))                         \
    F(upsample_nearest, cfx_upsample_nearest2d(x, NONE, L(2.0, 2.0)))                              \
    F(val_add, cfx_add(cfx_add(x, N(x, 0)), 1))                                                    \
    F(val_arange_dtype, cfx_mul(cfx_unsqueeze(ALL(cfx_arange(N(x, 0), CFX_KW(dtype, cfx_f32))),    \
       1), x))                                                                                     \
    F(val_div, cfx_mul(x, (double)N(x, 0) / 3))                                                    \
    F(val_eye, cfx_matmul(cfx_eye(N(x, 0)), x))                                                    \
    F(val_mod, cfx_mul(x, N(x, 0) % 4))                                                            \
    F(val_neg, cfx_mul(x, -N(x, 0)))                                                               \
    F(val_norm, cfx_div(x, cfx_linalg_vector_norm(x, 2, L(1), true)))                              \
    F(val_ones_like, cfx_add(cfx_ones_like(x), x))                                                 \
    F(val_scale, cfx_div(cfx_mul(x, N(x, 0)), sqrt((double)N(x, 1))))                              \
    F(view_expand, cfx_add(cfx_expand(cfx_unsqueeze(x, 0), L(3, -1, -1)), 1))                      \
    F(view_movedim, cfx_movedim(x, 0, -1))                                                         \
    F(view_permute_flat, cfx_reshape(cfx_permute(x, L(1, 0, 2)), L(N(x, 1), -1)))                  \
    F(view_reshape_pairs, cfx_sum(cfx_reshape(x, L(-1, 2, 6)), L(1)))                              \
    F(view_squeeze, cfx_mul(cfx_squeeze(cfx_unsqueeze(x, 1), 1), 2))                               \
    F(view_stack_flat, cfx_flatten(cfx_stack(L(x, cfx_neg(x)), -1), 1))                            \
    F(view_tile, cfx_tile(x, L(2)))                                                                \
    F(view_transpose_cont, cfx_view(cfx_contiguous(cfx_transpose(x, 0, 1)), L(-1)))                \
    F(view_unflatten0, cfx_unflatten(x, 0, L(2, -1)))                                              \
    F(view_view_as, cfx_add(cfx_view_as(x, y), y))

#define DEFINE(name, result)                                                                       \
    static cfx_value name##_forward(cfx_module *self, cfx_args a) {                                \
        cfx_tensor *x = cfx_as_tensor(a.v[0]), *y = a.n > 1 ? cfx_as_tensor(a.v[1]) : NULL;        \
        (void)self, (void)x, (void)y;                                                              \
        return cfx_tensor_value(result);                                                           \
    }
FORWARDS(DEFINE)

static void convs(cfx_module *m, const char *name) {
    int k, s, p, d;
    if (sscanf(name, "conv2d_k%ds%dp%dd%d", &k, &s, &p, &d) == 4)
        cfx_nn_add(m, "c", cfx_nn_conv2d(3, 4, k, .stride = s, .padding = p, .dilation = d));
    else if (sscanf(name, "conv1d_k%ds%dp%dd%d", &k, &s, &p, &d) == 4)
        cfx_nn_add(m, "c", cfx_nn_conv1d(2, 3, k, .stride = s, .padding = p, .dilation = d));
    else if (sscanf(name, "convt2d_k%ds%dp%do%d", &k, &s, &p, &d) == 4)
        cfx_nn_add(
            m, "c",
            cfx_nn_conv_transpose2d(3, 2, k, .stride = s, .padding = p, .output_padding = d));
}

static bool is(const char *name, const char *other) { return !strcmp(name, other); }

/* The parameters that a program's module has. */
static void furnish(cfx_module *m, const char *n) {
    convs(m, n);
    if (is(n, "adaptive_batch"))
        cfx_nn_add(m, "l", cfx_nn_linear(12, 5));
    if (is(n, "attn_enc_layer"))
        cfx_nn_add(m, "a", cfx_nn_transformer_encoder_layer(8, 2, .dim_feedforward = 16,
                                                            .batch_first = true));
    if (is(n, "batch_norm1d"))
        cfx_nn_add(m, "n", cfx_nn_batch_norm1d(8));
    if (is(n, "instance_norm"))
        cfx_nn_add(m, "n", cfx_nn_instance_norm2d(3));
    if (is(n, "conv1d_glu"))
        cfx_nn_add(m, "c", cfx_nn_conv1d(2, 8, 3, .padding = 1));
    if (is(n, "conv2d_224"))
        cfx_nn_add(m, "c", cfx_nn_conv2d(3, 4, 7, .stride = 2, .padding = 3));
    if (is(n, "conv2d_groups")) {
        cfx_nn_add(m, "c", cfx_nn_conv2d(4, 4, 3, .groups = 4, .padding = 1));
        cfx_nn_add(m, "d", cfx_nn_conv2d(4, 8, 1));
    }
    if (is(n, "conv2d_same"))
        cfx_nn_add(m, "c", cfx_nn_conv2d(3, 4, 3, .padding = CFX_SAME));
    if (is(n, "conv3d"))
        cfx_nn_add(m, "c", cfx_nn_conv3d(2, 3, 3, .strides = {1, 2, 2}, .padding = 1));
    if (is(n, "dropout_eval"))
        cfx_nn_add(m, "d", cfx_nn_dropout(.p = 0.5));
    if (is(n, "einsum2"))
        cfx_nn_parameter(m, "w", cfx_randn(2, 4, 3));
    if (is(n, "sym_auto_pool"))
        cfx_nn_add(m, "c", cfx_nn_conv2d(3, 2, 3));
    if (is(n, "conv2d_batch"))
        cfx_nn_add(m, "c", cfx_nn_conv2d(3, 8, 7, .stride = 2, .padding = 3));
    if (is(n, "conv2d_two")) {
        cfx_nn_add(m, "c", cfx_nn_conv2d(1, 2, 3, .stride = 2, .padding = 1));
        cfx_nn_add(m, "d", cfx_nn_conv2d(2, 3, 3, .stride = 2, .padding = 1));
    }
    if (is(n, "conv1d_causal"))
        cfx_nn_add(m, "c", cfx_nn_conv1d(2, 3, 5));
    if (is(n, "convt1d"))
        cfx_nn_add(m, "c", cfx_nn_conv_transpose1d(3, 2, 4, .stride = 3, .padding = 1));
    if (is(n, "autoencoder")) {
        cfx_nn_add(m, "e", cfx_nn_conv2d(1, 4, 4, .stride = 2, .padding = 1));
        cfx_nn_add(m, "d", cfx_nn_conv_transpose2d(4, 1, 4, .stride = 2, .padding = 1));
    }
    if (is(n, "conv_bn_relu")) {
        cfx_nn_add(m, "c", cfx_nn_conv2d(3, 4, 3, .padding = 1, .no_bias = true));
        cfx_nn_add(m, "b", cfx_nn_batch_norm2d(4));
    }
    if (is(n, "patch_embed"))
        cfx_nn_add(m, "c", cfx_nn_conv2d(3, 8, 16, .stride = 16));
    if (is(n, "layer_norm"))
        cfx_nn_add(m, "n", cfx_nn_layer_norm(8));
    if (is(n, "group_norm"))
        cfx_nn_add(m, "n", cfx_nn_group_norm(2, 8));
    if (is(n, "mlp") || is(n, "mlp3d")) {
        cfx_nn_add(m, "a", cfx_nn_linear(6, 8));
        cfx_nn_add(m, "b", cfx_nn_linear(8, 3));
    }
    if (is(n, "sym_auto") || is(n, "sym_16_512"))
        cfx_nn_add(m, "l", cfx_nn_linear(4, is(n, "sym_auto") ? 4 : 16));
    if (is(n, "sym_auto_static"))
        cfx_nn_parameter(m, "w", cfx_randn(6));
    if (!strncmp(n, "view_", 5)) {
        cfx_nn_parameter(m, "q", cfx_randn(1, 2, 4));
        cfx_nn_parameter(m, "w", cfx_randn(4, 5));
    }
    if (!strncmp(n, "part_", 5)) {
        cfx_nn_parameter(m, "e", cfx_randn(2, 3));
        cfx_nn_parameter(m, "pos", cfx_randn(64, 4));
    }
}

const dynamic_program cfx__dynamic_calls[] = {
#define ROW(name, result) {#name, name##_forward, furnish},
    FORWARDS(ROW){NULL, NULL, NULL}};
