/* Gradients against differences. Each call is made in float64 with numbers of its own; what its
 * gradient says along a random direction must be what two calls nearby say. `twice` does the same
 * with the gradient itself: gradients of gradients. */
#include <cfx.h>
#include <math.h>
#include <string.h>

#include "test.h"

#include "../value/value.h"

#define R(...) cfx_randn(cfx_list(__VA_ARGS__), CFX_KW(dtype, cfx_f64))
#define Z(...) cfx_randn(cfx_list(__VA_ARGS__), CFX_KW(dtype, cfx_c128)) /* complex */
#define INTS(...) cfx_to(cfx_tensor_from_value(cfx_list(__VA_ARGS__)), cfx_i64)
#define L(...) cfx_list(__VA_ARGS__)
#define YES cfx_bool(true)
#define NO cfx_bool(false)
#define NONE cfx_none()

typedef struct {
    cfx_op *op;
    int result;            /* which result counts */
    int n;                 /* arguments, and */
    cfx_value args[24];
    cfx_value along;       /* where the tensors among them go that have gradients, and the next */
    cfx_tensor *cotangent; /* of the result */
    cfx_value second;      /* what the gradients are weighed with, for those of gradients */
} probe;

static bool differentiable(cfx_value v) {
    if (v.tag != CFX_TAG_TENSOR)
        return false;
    cfx_dtype d = cfx_tensor_dtype(cfx_as_tensor(v));
    return d == CFX_F64 || d == CFX_C128;
}

static cfx_tensor *noise(const cfx_tensor *t) {
    return cfx_randn(cfx_ints_value(cfx_tensor_ndim(t), cfx_tensor_shape(t)),
                     CFX_KW(dtype, cfx_dtype_value(cfx_tensor_dtype(t))));
}

static cfx_tensor *inner(cfx_tensor *a, cfx_tensor *b) {
    cfx_tensor *product = cfx_mul(cfx_conj(a), b);
    return cfx_sum(cfx_tensor_dtype(product) == CFX_C128 ? cfx_real(product) : product);
}

/* The argument with its tensors moved by `step` along the directions; `next` counts leaves. */
static cfx_value moved(const probe *p, cfx_value v, double step, int64_t *next, cfx_list *leaves) {
    if (v.tag == CFX_TAG_KEYWORD)
        return cfx_keyword_value(cfx_text(cfx__value_of_string(cfx_as_keyword(v)->name)),
                                 moved(p, cfx_as_keyword(v)->value, step, next, leaves));
    if (v.tag == CFX_TAG_LIST) {
        cfx_value list = cfx_list_value(0, NULL);
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            cfx_list_append(cfx_as_list(list),
                            moved(p, cfx_as_list(v)->items[i], step, next, leaves));
        return list;
    }
    if (!differentiable(v))
        return v;
    cfx_tensor *t = cfx_clone(cfx_as_tensor(v));
    if (step != 0)
        t = cfx_add(t, cfx_mul(cfx_tensor_at(p->along, *next), step));
    ++*next;
    t = cfx_requires_grad(cfx_detach(t), true);
    cfx_list_append(leaves, cfx_tensor_value(t));
    return cfx_tensor_value(t);
}

/* The call at `step`: its result, and the leaves it was made from. */
static cfx_tensor *call_at(const probe *p, double step, cfx_value *leaves) {
    cfx_value args[24];
    int64_t next = 0;
    *leaves = cfx_list_value(0, NULL);
    for (int i = 0; i < p->n; i++)
        args[i] = moved(p, p->args[i], step, &next, cfx_as_list(*leaves));
    cfx_manual_seed(5);
    cfx_value y = cfx_op_do_from(CFX_HERE, p->op, (cfx_args){p->n, args, NULL});
    return y.tag == CFX_TAG_TENSOR ? cfx_as_tensor(y) : cfx_tensor_at(y, p->result);
}

static double value_at(const probe *p, double step) {
    cfx_value leaves;
    cfx_tensor *y = call_at(p, step, &leaves);
    return cfx_tensor_get(inner(p->cotangent, y), 0);
}

/* The gradients at `step`, weighed and summed. The cotangent moves too, and is the last leaf. */
static cfx_tensor *weighed_at(const probe *p, double step, bool recorded, cfx_value *leaves) {
    cfx_tensor *y = call_at(p, step, leaves), *sum = NULL;
    int64_t n = cfx_as_list(*leaves)->len, next = n;
    cfx_value inputs = cfx_list_value(n, cfx_as_list(*leaves)->items);
    cfx_value g = moved(p, cfx_tensor_value(p->cotangent), step, &next, cfx_as_list(*leaves));
    cfx_value grads = cfx_grad(y, inputs, .grad_outputs = g, .create_graph = recorded,
                               .allow_unused = true);
    for (int64_t i = 0; cfx_ok() && i < n; i++) {
        if (cfx_is_none(cfx_at(grads, i)))
            continue;
        cfx_tensor *part = inner(cfx_tensor_at(p->second, i), cfx_tensor_at(grads, i));
        sum = sum ? cfx_add(sum, part) : part;
    }
    return sum;
}

static double slope_of(const probe *p, cfx_value grads) {
    double sum = 0;
    for (int64_t i = 0; cfx_ok() && i < cfx_as_list(grads)->len; i++)
        if (!cfx_is_none(cfx_at(grads, i)))
            sum += cfx_tensor_get(inner(cfx_tensor_at(p->along, i), cfx_tensor_at(grads, i)), 0);
    return sum;
}

static void near(cfx_site at, const char *name, double got, double want) {
    if (!(fabs(got - want) <= 1e-5 * (1 + fabs(want) + fabs(got))))
        test_fail(at, "%s: the gradient says %.9g, differences %.9g", name, got, want);
}

static void check_at(cfx_site at, const char *name, int result, bool second, cfx_args a) {
    const double h = 1e-5;
    cfx_value leaves;
    probe p = {.op = cfx_op_find(name), .result = result, .n = a.n};
    if (!p.op) {
        test_fail(at, "%s: there is no such operator", name);
        return;
    }
    p.along = cfx_list_value(0, NULL), p.second = cfx_list_value(0, NULL);
    memcpy(p.args, a.v, (size_t)a.n * sizeof *a.v);
    cfx_tensor *y = call_at(&p, 0, &leaves);
    for (int64_t i = 0; i < cfx_as_list(leaves)->len; i++) {
        cfx_list_append(cfx_as_list(p.along), cfx_tensor_value(noise(cfx_tensor_at(leaves, i))));
        cfx_list_append(cfx_as_list(p.second), cfx_tensor_value(noise(cfx_tensor_at(leaves, i))));
    }
    p.cotangent = noise(y);
    cfx_list_append(cfx_as_list(p.along), cfx_tensor_value(noise(y)));
    cfx_value grads = cfx_grad(y, leaves, .grad_outputs = cfx_tensor_value(p.cotangent),
                               .allow_unused = true);
    double got = slope_of(&p, grads);
    if (cfx_ok())
        near(at, name, got, (value_at(&p, h) - value_at(&p, -h)) / (2 * h));
    if (second && cfx_ok()) {
        cfx_tensor *sum = weighed_at(&p, 0, true, &leaves);
        grads = cfx_grad(sum, leaves, .allow_unused = true);
        got = slope_of(&p, grads);
        double up = cfx_tensor_get(weighed_at(&p, h, false, &leaves), 0);
        double down = cfx_tensor_get(weighed_at(&p, -h, false, &leaves), 0);
        if (cfx_ok())
            near(at, name, got, (up - down) / (2 * h));
    }
    if (!test_check_ok(at))
        test_fail(at, "%s failed", name), cfx_error_clear();
}

#define once(name, ...) check_at(CFX_HERE, name, 0, false, CFX_ARGS(__VA_ARGS__))
#define once_of(result, name, ...) check_at(CFX_HERE, name, result, false, CFX_ARGS(__VA_ARGS__))
#define twice(name, ...) check_at(CFX_HERE, name, 0, true, CFX_ARGS(__VA_ARGS__))

TEST(back_products) {
    twice("mm", R(3, 4), R(4, 2));
    twice("mm", Z(3, 4), Z(4, 2));
    twice("mm", R(3, 4), cfx_t(R(2, 4)));
    twice("addmm", R(2), R(3, 4), R(4, 2), CFX_KW(beta, 0.5), CFX_KW(alpha, 2));
    twice("bmm", R(2, 3, 4), R(2, 4, 2));
    twice("baddbmm", R(3, 1), R(2, 3, 4), R(2, 4, 2), CFX_KW(alpha, 2));
    twice("addbmm", R(3, 2), R(2, 3, 4), R(2, 4, 2));
    twice("mv", R(3, 4), R(4));
    twice("addmv", R(3), R(3, 4), R(4), CFX_KW(alpha, 3));
    twice("dot", R(4), R(4));
    twice("vdot", Z(4), Z(4));
    twice("addr", R(3, 4), R(3), R(4), CFX_KW(beta, 2));
    twice("matmul", R(2, 3, 4), R(4));
    twice("linear", R(2, 3, 4), R(5, 4), R(5));
    twice("bilinear", R(2, 3), R(2, 4), R(5, 3, 4), R(5));
    twice("einsum", "ij,jk->ik", L(R(3, 4), R(4, 2)));
}

TEST(back_convolutions) {
    twice("convolution", R(2, 3, 5, 5), R(4, 3, 3, 3), R(4), L(1, 1), L(1, 1), L(1, 1), NO, L(0, 0),
          1);
    twice("convolution", R(2, 4, 6), R(4, 2, 3), NONE, L(2), L(1), L(1), NO, L(0), 2);
    twice("convolution", R(2, 4, 4), R(4, 2, 3), R(2), L(2), L(1), L(1), YES, L(1), 1);
    twice("convolution", R(1, 2, 3, 3, 3), R(2, 2, 2, 2, 2), R(2), L(1, 1, 1), L(0, 0, 0),
         L(1, 1, 1), NO, L(0, 0, 0), 1);
    twice("conv2d", R(1, 3, 5, 5), R(3, 1, 3, 3), NONE, L(1, 1), L(1, 1), L(1, 1), 3);
}

TEST(back_pooling) {
    twice("max_pool2d_with_indices", R(1, 2, 5, 5), L(2, 2), L(2, 2), L(1, 1));
    twice("max_pool3d_with_indices", R(1, 1, 4, 4, 4), L(2, 2, 2));
    twice("avg_pool2d", R(1, 2, 5, 5), L(2, 2), L(2, 2), L(1, 1));
    twice("_adaptive_avg_pool2d", R(1, 2, 5, 5), L(3, 2));
    twice("adaptive_max_pool2d", R(1, 2, 5, 5), L(3, 2));
    twice("fractional_max_pool2d", R(1, 2, 6, 6), L(2, 2), L(3, 3),
          cfx_rand(L(1, 2, 2), CFX_KW(dtype, cfx_f64)));
    twice("max_pool1d", R(1, 2, 6), L(2));
    twice("adaptive_avg_pool1d", R(1, 2, 6), L(4));
}

TEST(back_normalisation) {
    twice("native_layer_norm", R(3, 4, 2), L(4, 2), R(4, 2), R(4, 2), 1e-5);
    twice("native_layer_norm", R(3, 4), L(4), NONE, NONE, 1e-5);
    twice("native_group_norm", R(2, 6, 3), R(6), R(6), 2, 6, 3, 3, 1e-5);
    once_of(1, "native_group_norm", R(2, 6, 3), R(6), R(6), 2, 6, 3, 3, 1e-5);
    once_of(2, "native_group_norm", R(2, 6, 3), R(6), R(6), 2, 6, 3, 3, 1e-5);
    twice("_native_batch_norm_legit.no_stats", R(3, 4, 2), R(4), R(4), YES, 0.1, 1e-5);
    twice("native_batch_norm", R(3, 4, 2), R(4), R(4), NONE, NONE, YES, 0.1, 1e-5);
    twice("_weight_norm_interface", R(3, 4, 2), R(3, 1, 1), 0);
    twice("rms_norm", R(3, 4), L(4), R(4), 1e-5);
    twice("instance_norm", R(2, 4, 3), R(4), R(4), NONE, NONE, YES, 0.1, 1e-5, NO);
}

TEST(back_embeddings) {
    cfx_tensor *offsets = INTS(0, 2, 2, 5), *index = INTS(1, 0, 3, 3, 5, 2, 1);
    twice("embedding", R(6, 4), index);
    for (int mode = 0; mode < 3; mode++) {
        once("_embedding_bag", R(6, 4), index, offsets, NO, mode);
        once("_embedding_bag", R(6, 4), index, INTS(0, 2, 2, 5, 7), NO, mode, NO, NONE, YES);
    }
    once("_embedding_bag", R(6, 4), index, offsets, NO, 0, NO, R(7));
}

TEST(back_indexing) {
    cfx_tensor *rows = INTS(2, 0, 2);
    cfx_value spread = cfx_tensor_value(cfx_reshape(INTS(0, 1, 1, 3, 2, 0), L(2, 3)));
    twice("index.Tensor", R(4, 5), L(rows));
    twice("index.Tensor", R(4, 5), L(NONE, rows));
    twice("index_put", R(4, 5), L(INTS(0, 3)), R(5));
    twice("index_put", R(4, 5), L(rows), R(3, 5), YES);
    twice("index_select", R(4, 5), 1, rows);
    twice("index_add", R(4, 5), 0, rows, R(3, 5), CFX_KW(alpha, 2));
    twice("index_copy", R(4, 5), 0, INTS(3, 1), R(2, 5));
    twice("index_fill.int_Tensor", R(4, 5), 0, rows, cfx_sum(R(1)));
    twice("take", R(4, 5), rows);
    twice("put", R(4, 5), INTS(7, 3), R(2));
    twice("gather", R(3, 4), 1, spread);
    twice("scatter.src", R(3, 4), 0, cfx_reshape(INTS(0, 2, 1), L(1, 3)), R(2, 4));
    twice("scatter_add", R(3, 4), 1, spread, R(3, 5));
    for (int i = 0; i < 2; i++) {
        cfx_value self = cfx_bool(i);
        twice("scatter_reduce.two", R(3, 4), 1, spread, R(3, 5), "sum",
              CFX_KW(include_self, self));
        twice("scatter_reduce.two", R(3, 4), 1, spread, R(3, 5), "prod",
              CFX_KW(include_self, self));
        twice("scatter_reduce.two", R(3, 4), 1, spread, R(3, 5), "mean",
              CFX_KW(include_self, self));
        twice("scatter_reduce.two", R(3, 4), 1, spread, R(3, 5), "amax",
              CFX_KW(include_self, self));
        twice("index_reduce", R(3, 4), 0, rows, R(3, 4), "prod", CFX_KW(include_self, self));
        twice("index_reduce", R(3, 4), 0, rows, R(3, 4), "amin", CFX_KW(include_self, self));
    }
    twice("masked_scatter", R(3, 4), cfx_gt(R(3, 4), 0), R(12));
    twice("masked_select", R(3, 4), cfx_gt(R(4), 0));
}

TEST(back_orders) {
    twice("sort", R(3, 4), 0, YES);
    twice("topk", R(3, 5), 2);
    twice("kthvalue", R(3, 5), 2, 1, NO);
    twice("median.dim", R(3, 5), 0);
    twice("median", R(5));
    twice("cummax", R(3, 5), 1);
    once("segment_reduce", R(6, 2), "sum", CFX_KW(lengths, INTS(2, 0, 4)));
    once("segment_reduce", R(6, 2), "mean", CFX_KW(lengths, INTS(2, 1, 3)));
    once("segment_reduce", R(6, 2), "max", CFX_KW(lengths, INTS(2, 1, 3)));
    once("segment_reduce", R(6, 2), "prod", CFX_KW(offsets, INTS(1, 3, 5)), CFX_KW(unsafe, YES));
}

TEST(back_losses) {
    cfx_tensor *p = cfx_sigmoid(R(3, 4)), *q = cfx_sigmoid(R(3, 4));
    for (int how = 0; how < 3; how++) {
        twice("mse_loss", R(3, 4), R(3, 4), how);
        twice("smooth_l1_loss", R(3, 4), R(3, 4), how, 0.5);
        twice("huber_loss", R(3, 4), R(4), how, 0.5);
        twice("binary_cross_entropy", p, q, NONE, how);
        twice("binary_cross_entropy_with_logits", R(3, 4), q, NONE, NONE, how);
        twice("kl_div", R(3, 4), q, how);
        twice("nll_loss_forward", R(3, 4), INTS(1, 0, 3), NONE, how, -100);
        once("multi_margin_loss", R(3, 4), INTS(1, 0, 3), 1, 1, NONE, how);
    }
    twice("soft_margin_loss", R(3, 4), cfx_sign(cfx_to(R(3, 4), cfx_f32)));
    twice("cross_entropy_loss", R(3, 4), INTS(1, 0, 3));
}

TEST(back_shapes) {
    twice("cat", L(R(2, 3), R(1, 3)), 0);
    twice("stack", L(R(2, 3), R(2, 3)), 1);
    twice("block_diag", L(R(2, 3), R(2), cfx_sum(R(1))));
    twice("repeat", R(2, 3), L(2, 1, 3));
    twice("flip", R(2, 3), L(0, 1));
    twice("tril", R(3, 3), -1);
    twice("diag_embed", R(2, 3), 1);
    twice("constant_pad_nd", R(2, 3), L(1, -1, 2, 0), 3.5);
    twice("reflection_pad2d", R(1, 2, 4, 4), L(1, 2, 2, 1));
    twice("replication_pad1d", R(1, 2, 4), L(1, 2));
    twice("pixel_shuffle", R(1, 8, 2, 3), 2);
    twice("pixel_unshuffle", R(1, 2, 4, 6), 2);
    twice("channel_shuffle", R(1, 6, 2, 2), 3);
    twice("im2col", R(1, 2, 4, 4), L(2, 2), L(1, 1), L(1, 1), L(1, 1));
    twice("col2im", R(1, 8, 9), L(4, 4), L(2, 2), L(1, 1), L(0, 0), L(1, 1));
    twice("native_dropout", R(10), 0.3, YES);
    twice("rrelu_with_noise_functional", R(10), cfx_zeros(L(10), CFX_KW(dtype, cfx_f64)), 0.1, 0.3,
         YES);
}

TEST(back_resampling) {
    twice("upsample_nearest2d", R(1, 2, 3, 4), L(6, 5));
    twice("upsample_nearest1d.vec", R(1, 2, 3), NONE, L(2.5));
    twice("_upsample_nearest_exact3d", R(1, 1, 2, 3, 2), L(4, 4, 3));
    twice("upsample_linear1d", R(1, 2, 3), L(7), NO);
    twice("upsample_bilinear2d.vec", R(1, 2, 3, 4), NONE, NO, L(2.0, 1.7));
    twice("upsample_trilinear3d", R(1, 1, 2, 3, 2), L(4, 4, 3), YES);
    twice("upsample_bicubic2d", R(1, 2, 3, 4), L(5, 7), YES);
    twice("_upsample_bilinear2d_aa", R(1, 2, 6, 5), L(3, 7), NO);
    for (int padding = 0; padding < 3; padding++) {
        once("grid_sampler_2d", R(1, 2, 4, 5), R(1, 3, 3, 2), 0, padding, NO);
        once("grid_sampler_2d", R(1, 2, 4, 5), R(1, 3, 3, 2), 2, padding, YES);
        once("grid_sampler_3d", R(1, 2, 4, 5, 3), R(1, 2, 2, 2, 3), 0, padding, YES);
    }
    twice("affine_grid_generator", R(2, 2, 3), L(2, 1, 3, 4), NO);
    twice("affine_grid_generator", R(2, 3, 4), L(2, 1, 3, 4, 2), YES);
}

TEST(back_attention) {
    cfx_value q = CFX_V(R(2, 4, 3, 5)), k = CFX_V(R(2, 4, 6, 5)), v = CFX_V(R(2, 4, 6, 5));
    const char *flash = "_scaled_dot_product_flash_attention_for_cpu";
    twice(flash, q, k, v, 0.0, NO);
    twice(flash, q, k, v, 0.0, YES);
    twice(flash, q, R(2, 2, 6, 5), R(2, 2, 6, 5), 0.0, NO, CFX_KW(scale, 0.3));
    twice(flash, q, k, v, 0.0, NO, CFX_KW(attn_mask, R(2, 1, 3, 6)));
    twice("scaled_dot_product_attention", q, k, v);
}

TEST(back_grouped_products) {
    cfx_value ends = CFX_V(cfx_to(cfx_tensor_from_value(L(2, 2, 5)), cfx_i32));
    twice("_grouped_mm", R(5, 4), R(3, 4, 2), ends);
    twice("_grouped_mm", R(3, 4, 2), R(2, 5), ends);
    twice("_grouped_mm", R(4, 5), R(5, 2), ends);
    twice("_grouped_mm", R(3, 4, 2), R(3, 2, 5));
}

TEST(back_recurrent) {
    cfx_value w = L(R(12, 4), R(12, 3), R(12), R(12)), g = L(R(9, 4), R(9, 3), R(9), R(9));
    cfx_value r = L(R(3, 4), R(3, 3), R(3), R(3));
    twice("lstm.input", R(5, 2, 4), L(R(1, 2, 3), R(1, 2, 3)), w, YES, 1, 0.0, YES, NO, NO);
    twice("gru.input", R(5, 2, 4), R(1, 2, 3), g, YES, 1, 0.0, YES, NO, NO);
    twice("rnn_tanh.input", R(5, 2, 4), R(1, 2, 3), r, YES, 1, 0.0, YES, NO, NO);
    twice("lstm_cell", R(2, 4), L(R(2, 3), R(2, 3)), R(12, 4), R(12, 3), R(12), R(12));
}

TEST(back_distances) {
    once("_cdist_forward", R(3, 4), R(5, 4), 2.0, NONE);
    once("_cdist_forward", R(2, 3, 4), R(1, 5, 4), 1.5, NONE);
    once("_cdist_forward", R(3, 4), R(5, 4), (double)INFINITY, NONE);
    once("_pdist_forward", R(4, 3), 3.0);
}

TEST(back_transforms) {
    for (int norm = 0; norm < 3; norm++) {
        twice("_fft_c2c", Z(3, 4, 5), L(1, 2), norm, YES);
        twice("_fft_r2c", R(3, 4, 5), L(1, 2), norm, YES);
        twice("_fft_r2c", R(3, 5, 4), L(1), norm, NO);
        twice("_fft_c2r", Z(3, 3, 5), L(2), norm, 8);
    }
    twice("stft", R(32), 8, 4, NONE, NONE, NO, NONE, YES);
}

TEST(back_complex_numbers) {
    twice("complex", R(2, 3), R(3));
    twice("polar", R(3), R(3));
    twice("real", Z(3));
    twice("imag", Z(3));
    twice("view_as_real", Z(3));
    twice("view_as_complex", R(3, 2));
    twice("angle", Z(4));
    twice("_conj_physical", Z(3));
    twice("conj", Z(3));
}

TEST(back_linear_algebra) {
    cfx_tensor *pivots = cfx_to(INTS(1, 3, 3), cfx_i32);
    twice("linalg_inv_ex", R(3, 3));
    twice("linalg_inv_ex", Z(3, 3));
    twice("_linalg_det", R(2, 3, 3));
    twice("_linalg_solve_ex", R(3, 3), R(3, 2));
    twice("_linalg_solve_ex", R(3, 3), R(3));
    twice("_linalg_solve_ex", Z(3, 3), Z(2, 3), CFX_KW(left, NO));
    check_at(CFX_HERE, "_linalg_slogdet", 1, true, CFX_ARGS(R(3, 3)));
    check_at(CFX_HERE, "linalg_lu", 1, true, CFX_ARGS(R(3, 5)));
    check_at(CFX_HERE, "linalg_lu", 2, true, CFX_ARGS(R(5, 3)));
    twice("linalg_lu_factor_ex", R(4, 4));
    twice("linalg_lu_solve", R(3, 3), pivots, R(3, 2));
    twice("linalg_lu_solve", R(3, 3), pivots, R(2, 3), CFX_KW(left, NO), CFX_KW(adjoint, YES));
    twice("linalg_solve_triangular", R(3, 3), R(3, 2), CFX_KW(upper, YES));
    twice("triangular_solve", R(3, 2), R(3, 3), NO, YES);
    twice("linalg_pinv.atol_rtol_tensor", R(3, 4));
    twice("linalg_pinv.atol_rtol_tensor", R(4, 3));
    twice("linalg_lstsq", R(5, 3), R(5, 2));
    twice("linalg_cross", R(2, 3), R(1, 3));
    twice("linalg_matrix_exp", R(3, 3));
}

TEST(back_factors_and_spectra) {
    for (int i = 0; i < 2; i++) {
        check_at(CFX_HERE, "linalg_qr", i, true, CFX_ARGS(R(4, 3)));
        check_at(CFX_HERE, "linalg_qr", i, true, CFX_ARGS(R(3, 4)));
        once_of(i, "linalg_qr", Z(3, 3));
    }
    for (int i = 0; i < 3; i++) {
        check_at(CFX_HERE, "_linalg_svd", i, true, CFX_ARGS(R(3, 4)));
        check_at(CFX_HERE, "_linalg_svd", i, true, CFX_ARGS(R(4, 3)));
    }
    once_of(1, "_linalg_svd", R(3, 4), NO, NO);
    twice("_linalg_eigvals", R(4, 4));
    twice("linalg_eig", R(4, 4));
    twice("linalg_householder_product", R(5, 3), R(2));
    twice("ormqr", R(5, 3), R(3), R(5, 2), YES, YES);
    twice("ormqr", R(5, 3), R(3), R(2, 5), NO, NO);
}

TEST(back_packed_sequences) {
    cfx_tensor *sizes = INTS(3, 2, 2, 1), *lengths = INTS(4, 3, 1);
    twice("_pack_padded_sequence", R(4, 3, 2), lengths, NO);
    twice("_pack_padded_sequence", R(3, 4, 2), lengths, YES);
    twice("_pad_packed_sequence", R(8, 2), sizes, NO, 0.5, 5);
    twice("rnn_tanh.data", R(8, 2), sizes, R(1, 3, 2), L(R(2, 2), R(2, 2), R(2), R(2)), YES, 1, 0.0,
          NO, NO);
    twice("gru.data", R(8, 2), sizes, R(2, 3, 2),
         L(R(6, 2), R(6, 2), R(6), R(6), R(6, 2), R(6, 2), R(6), R(6)), YES, 1, 0.0, NO, YES);
    twice("lstm.data", R(8, 2), sizes, L(R(1, 3, 1), R(1, 3, 2)), L(R(8, 2), R(8, 1), R(1, 2)), NO,
         1, 0.0, NO, NO);
    once_of(2, "lstm.data", R(8, 2), sizes, L(R(2, 3, 2), R(2, 3, 2)),
            L(R(8, 2), R(8, 2), R(8, 2), R(8, 2)), NO, 1, 0.0, NO, YES);
}

TEST(back_deformable_convolution) {
    once("torchvision::deform_conv2d", R(2, 4, 5, 6), R(6, 2, 3, 2), R(2, 24, 3, 5),
         R(2, 12, 3, 5), R(6), 1, 1, 0, 0, 1, 1, 2, 2, YES);
    once("torchvision::deform_conv2d", R(1, 2, 5, 5), R(3, 2, 3, 3), R(1, 18, 3, 3),
         cfx_zeros(L(1, 0, 3, 3), CFX_KW(dtype, cfx_f64)), R(3), 2, 2, 1, 1, 1, 1, 1, 1, NO);
}

/* ---- backward operators that programs name --------------------------------------------------- */

/* Their arguments are anybody's: what the formula relies on is looked at first. */
TEST(backward_operators_take_what_the_operator_could_have_given) {
    cfx_tensor *m = cfx_ones(2, 3), *none = cfx_ones(cfx_list_value(0, NULL));
    cfx_cumprod_backward(m, m, 4, m);
    CHECK_ERROR("Dimension out of range (expected to be in range of [-2, 1], but got 4)");
    cfx_cumprod_backward(m, m, 1, cfx_ones(2));
    CHECK_ERROR("cumprod_backward: expected a tensor of shape [2, 3] but got [2]");
    cfx_cumprod_backward(none, m, 1, m);
    CHECK_ERROR("cumprod_backward: expected a tensor of shape [2, 3] but got []");
    cfx_tensor *by = cfx_to(cfx_ones(3), cfx_dtype_value(CFX_I64)), *x = cfx_ones(3);
    cfx_value named[] = {CFX_V(x), CFX_V(none), CFX_V(x), cfx_string_value("sum"), CFX_V(by),
                         cfx_none(), cfx_int(0), cfx_none()};
    cfx_op *op = &cfx_op__segment_reduce_backward;
    cfx_op_do_from(CFX_HERE, op, (cfx_args){COUNT(named), named, NULL});
    CHECK_ERROR("_segment_reduce_backward: expected a tensor of shape [3] but got []");
    named[1] = CFX_V(x), named[6] = cfx_int(2);
    cfx_op_do_from(CFX_HERE, op, (cfx_args){COUNT(named), named, NULL});
    CHECK_ERROR("Dimension out of range (expected to be in range of [-1, 0], but got 2)");
    named[6] = cfx_int(0);
    CHECK_STR(cfx_str(cfx_op_do_from(CFX_HERE, op, (cfx_args){COUNT(named), named, NULL})),
              "tensor([1., 1., 1.])");
}
