/* Attention, against cfx's own operator. */
#include "kernels.h"
#include "numbers.h"
#include "player.h"

#include <cfx/ops.h>

#include <math.h>

enum { NO_MASK, SEEN, ADDED };

typedef struct shape {
    int64_t batch, heads, groups, rows, keys, head, value;
    int mask;
    bool causal, packed; /* q, k, v are parts of rows that lie together */
} shape;

static cfx_tensor *exact(cfx_tensor *t) { return cfx_to(t, cfx_dtype_value(CFX_F64)); }

/* [b, h, l, d], or the same as it lies in [b, l, h, d]. */
static cfx_tensor *drawn(cfx_dtype dtype, int64_t b, int64_t h, int64_t l, int64_t d, bool packed) {
    if (packed)
        return cfx_transpose(test_noise(dtype, 4, (int64_t[]){b, l, h, d}), 1, 2);
    return test_noise(dtype, 4, (int64_t[]){b, h, l, d});
}

/* Scores without what they may not see; the first row sees nothing. */
static cfx_tensor *mask_of(const shape *s, cfx_tensor **as_added) {
    cfx_tensor *noise = test_noise(CFX_F32, 4, (int64_t[]){s->batch, 1, s->rows, s->keys});
    cfx_tensor *seen = cfx_gt(noise, -0.5);
    if (s->mask == ADDED) {
        float *x = cfx_tensor_data(noise);
        for (int64_t i = 0; i < s->keys; i++)
            x[i] = -INFINITY;
        *as_added = noise;
        return noise;
    }
    memset(cfx_tensor_data(seen), 0, (size_t)s->keys);
    *as_added = cfx_where(seen, 0.0, -INFINITY);
    return seen;
}

static cfx_tensor *wanted(const shape *s, cfx_tensor *q, cfx_tensor *k, cfx_tensor *v,
                          cfx_tensor *added, double scale) {
    const int64_t each = s->heads / s->groups;
    k = cfx_repeat_interleave(exact(k), each, 1), v = cfx_repeat_interleave(exact(v), each, 1);
    cfx_tensor *score = cfx_mul(cfx_matmul(exact(q), cfx_transpose(k, 2, 3)), scale);
    if (added)
        score = cfx_add(score, exact(added));
    if (s->causal)
        score = cfx_masked_fill(score, cfx_logical_not(cfx_tril(cfx_ones_like(score))), -INFINITY);
    cfx_tensor *weight = cfx_softmax(score, -1);
    return cfx_matmul(cfx_masked_fill(weight, cfx_isnan(weight), 0.0), v);
}

/* of: the dtype of k and v. */
static bool attends_to(const shape *s, cfx_dtype dtype, cfx_dtype of,
                       cfx__cuda_precision precision) {
    bool held;
    CFX_SCOPE {
        cfx_tensor *q = drawn(dtype, s->batch, s->heads, s->rows, s->head, s->packed);
        cfx_tensor *k = drawn(of, s->batch, s->groups, s->keys, s->head, s->packed);
        cfx_tensor *v = drawn(of, s->batch, s->groups, s->keys, s->value, s->packed);
        cfx_tensor *out = drawn(dtype, s->batch, s->heads, s->rows, s->value, s->packed);
        cfx_tensor *added = NULL, *mask = s->mask ? mask_of(s, &added) : NULL;
        const double scale = 1 / sqrt((double)s->head);
        cfx__cuda_attention_call call = {
            player_array(0, q), player_array(1, k), player_array(2, v), PLAYER_NONE,
            player_array(4, out), PLAYER_NONE, scale, s->causal, 0, precision};
        int64_t stride[4];
        if (mask) {
            call.mask = player_array(3, mask);
            memcpy(stride, call.mask.stride, sizeof stride);
            stride[1] = 0;
            call.mask.stride = stride;
        }
        cfx__cuda_work work = {0};
        void *to = player_copy(out);
        memset(to, 0xff, 16);
        const double tol = dtype == CFX_BF16                ? 2e-2
                           : dtype == CFX_F16               ? 3e-3
                           : precision == CFX__CUDA_TF32 ? 4e-3
                           : precision == CFX__CUDA_F16  ? 4e-3
                                                            : 4e-6;
        held = CHECK(cfx__cuda_attention(&call, &work)) &&
               PLAY(&work, player_copy(q), player_copy(k), player_copy(v),
                    player_copy(mask ? mask : q), to) &&
               CHECK_OK() &&
               PLAYED(to, out, cfx_to(wanted(s, q, k, v, added, scale), cfx_dtype_value(dtype)),
                      tol);
    }
    return held;
}

static bool attends(const shape *s, cfx_dtype dtype, cfx__cuda_precision precision) {
    return attends_to(s, dtype, dtype, precision);
}

static const shape shapes[] = {
    {1, 1, 1, 1, 1, 16, 16, NO_MASK, false, false},
    {2, 3, 3, 20, 37, 64, 64, NO_MASK, false, true},
    {1, 4, 2, 9, 50, 32, 32, NO_MASK, true, false},
    {2, 2, 2, 18, 40, 24, 24, SEEN, false, false},
    {1, 2, 1, 33, 33, 40, 40, ADDED, true, true},
    {1, 2, 2, 5, 7, 10, 6, ADDED, false, false},   /* rows that are not whole 16 bytes */
    {1, 6, 2, 1, 700, 64, 64, NO_MASK, false, false}, /* a step with a cache: shared keys */
    {1, 1, 1, 3, 260, 128, 96, SEEN, false, false},
};

static void attends_all(cfx_dtype dtype, int n) {
    if (!player_runs())
        return;
    for (int i = 0; i < n; i++)
        if (!attends(&shapes[i], dtype, CFX__CUDA_EXACT)) {
            test_fail(CFX_HERE, "shape %d", i);
            return;
        }
}

TEST(cuda_attention_f32) { attends_all(CFX_F32, COUNT(shapes)); }
TEST(cuda_attention_bf16) { attends_all(CFX_BF16, COUNT(shapes)); }
TEST(cuda_attention_f16) {
    attends_all(CFX_F16, 2);
    if (player_runs())
        CHECK(attends(&shapes[1], CFX_F32, CFX__CUDA_TF32) &&
              attends(&shapes[1], CFX_F32, CFX__CUDA_F16));
}

/* Many rows: a block has 64 of them, or up to 128 where fewer warps have none then; rows of results
 * that are whole pairs of elements, and such that are not. */
TEST(cuda_attention_many_rows) {
    static const shape of[] = {{12, 12, 12, 70, 70, 16, 16, NO_MASK, true, false},
                               {22, 12, 12, 70, 150, 16, 16, NO_MASK, false, true},
                               {12, 12, 12, 65, 17, 24, 9, SEEN, false, false}};
    for (int i = 0; i < COUNT(of) && player_runs(); i++)
        CHECK(attends(&of[i], CFX_BF16, CFX__CUDA_EXACT));
}

/* A few rows, which go by the keys without the tensor cores: a block for all keys, several that see
 * each other's memory, or, where keys are many, more that do not. */
TEST(cuda_attention_few_rows) {
    static const shape of[] = {{1, 9, 3, 1, 40, 64, 64, SEEN, false, false},
                               {2, 4, 4, 1, 2100, 16, 16, ADDED, false, false},
                               {1, 4, 2, 4, 33, 80, 80, NO_MASK, true, true},
                               {1, 1, 1, 2, 70, 256, 256, ADDED, false, false},
                               {1, 3, 1, 1, 256, 64, 64, SEEN, false, false},
                               {1, 1, 1, 1, 4700, 64, 64, NO_MASK, false, false}};
    static const cfx_dtype dtypes[] = {CFX_F32, CFX_BF16, CFX_F16};
    if (!player_runs())
        return;
    for (int i = 0; i < COUNT(of); i++) {
        CHECK(attends(&of[i], CFX_F32, CFX__CUDA_EXACT));
        CHECK(attends(&of[i], dtypes[i % 3], CFX__CUDA_EXACT));
    }
    CHECK(attends(&of[0], CFX_F32, CFX__CUDA_TF32));
    CHECK(attends_to(&of[0], CFX_BF16, CFX_F32, CFX__CUDA_EXACT)); /* a cache of floats */
}

/* Blocks of a step with a cache, and how many of them are a cluster. */
static void shares_keys(int64_t keys, unsigned blocks, unsigned cluster) {
    CFX_SCOPE {
        cfx_tensor *q = cfx_zeros(1, 9, 1, 64), *k = cfx_zeros(1, 3, keys, 64);
        const cfx__cuda_attention_call call = {
            .q = player_array(0, q), .k = player_array(1, k), .v = player_array(1, k),
            .mask = PLAYER_NONE, .out = player_array(2, q), .lse = PLAYER_NONE, .scale = 0.125};
        cfx__cuda_work work = {0};
        CHECK(cfx__cuda_attention(&call, &work));
        CHECK_INT(work.launch[0].grid[2], blocks);
        CHECK_INT(work.launch[0].cluster, cluster);
    }
}

TEST(cuda_attention_shares_keys) {
    shares_keys(8, 1, 0);
    shares_keys(16, 2, 2);
    shares_keys(256, 8, 8);
    shares_keys(4700, 9, 0);
}
