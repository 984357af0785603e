/* Products of two matrices, attention and rows, against cfx's own operators. */
#include "kernel_test.h"
#include "numbers.h"

static const NAME_epilogue plain = {.low = -INFINITY, .high = INFINITY};

/* Whether n floats are those of a tensor. */
static bool near_to(const float *got, cfx_tensor *want, double tol) {
    want = cfx_contiguous(want);
    for (int64_t i = 0; i < cfx_tensor_numel(want); i++)
        if (!CHECK_NEAR(got[i], cfx_tensor_get(want, i), tol * (1 + fabs(got[i]))))
            return false;
    return CHECK_OK();
}

KERNEL_TEST(matmul) {
    const int64_t sizes[] = {1, 2, 4, 5, 16, 17, 40};
    uint32_t i = 0;
    for (int a = 0; a < COUNT(sizes); a++)
        for (int b = 0; b < COUNT(sizes); b++)
            for (int64_t k = 0; k < 40; k = 3 * k + 1, i++)
                CFX_SCOPE
    {
        const int64_t m = sizes[a], n = sizes[b];
        const bool at = i % 2, bt = i / 2 % 2, apart = i % 5 == 0; /* transposed; with gaps */
        cfx_tensor *x = test_numbers(CFX_F32, 2, at ? (int64_t[]){k, m} : (int64_t[]){m, k});
        cfx_tensor *y = test_numbers(CFX_F32, 3, bt ? (int64_t[]){n, k, 1 + apart}
                                                    : (int64_t[]){k, n, 1 + apart});
        y = cfx_select(y, 2, 0);
        x = at ? cfx_t(x) : x, y = bt ? cfx_t(y) : y;
        cfx_tensor *want = cfx_mul(cfx_matmul(x, y), 2);
        const int64_t *xs = cfx_tensor_stride(x), *ys = cfx_tensor_stride(y);
        float *scratch = cfx__alloc((size_t)cfx__pack_matmul_scratch(m, n, k, xs[1] != 1));
        float *c = cfx__alloc((size_t)(m * n) * sizeof *c);
        NAME_matmul(m, n, k, 2, cfx_tensor_data(x), xs[0], xs[1], cfx_tensor_data(y), ys[0], ys[1],
                    c, n, &plain, scratch);
        const bool same = near_to(c, want, 0);
        cfx__free(scratch), cfx__free(c);
        if (!same)
            return;
    }
}

/* Attention of drawn sizes; what: bits of causal, an added mask, a mask of bools, hidden rows. */
static bool attends(int64_t heads, int64_t shared, int64_t rows, int64_t keys, int64_t size,
                    unsigned what) {
    bool same = true;
    CFX_SCOPE {
        const int64_t batch = 2, kv = heads / shared;
        /* As linear layers leave them: [batch, row, head, element]. */
        cfx_tensor *q = test_noise(CFX_F32, 4, (int64_t[]){batch, rows, heads, size});
        cfx_tensor *k = test_noise(CFX_F32, 4, (int64_t[]){batch, keys, kv, size});
        cfx_tensor *v = test_noise(CFX_F32, 4, (int64_t[]){batch, kv, keys, size});
        cfx_value mask = cfx_none();
        NAME_attention_shape s = {.batch = batch, .heads = heads, .shared = shared, .rows = rows,
                                  .keys = keys, .size = size, .value = size,
                                  .q = {rows * heads * size, size, heads * size},
                                  .k = {keys * kv * size, size, kv * size},
                                  .v = {kv * keys * size, keys * size, size},
                                  .out = {rows * heads * size, size, heads * size},
                                  .causal = what & 1, .scale = 0.3f};
        cfx_tensor *drawn = test_noise(CFX_F32, 4, (int64_t[]){batch, 1, rows, keys});
        if (what & 4)
            drawn = cfx_gt(drawn, what & 8 ? 1e9 : 0);
        if (what & 6) {
            mask = cfx_tensor_value(drawn);
            s.mask[0] = rows * keys, s.mask[2] = keys, s.mask[3] = 1;
        }
        cfx_tensor *want = cfx_scaled_dot_product_attention(
            cfx_transpose(q, 1, 2), cfx_transpose(k, 1, 2), v, mask, 0.0, cfx_bool(what & 1),
            CFX_KW(scale, 0.3), CFX_KW(enable_gqa, cfx_bool(true)));
        float *scratch = cfx__alloc((size_t)cfx__pack_attention_scratch(rows, keys, size, size));
        float *out = cfx__alloc((size_t)(batch * rows * heads * size) * sizeof *out);
        NAME_attention(&s, cfx_tensor_data(q), cfx_tensor_data(k), cfx_tensor_data(v),
                       what & 2 ? cfx_tensor_data(drawn) : NULL,
                       what & 4 ? cfx_tensor_data(drawn) : NULL, out, NULL, scratch);
        same = near_to(out, cfx_transpose(want, 1, 2), 2e-6);
        cfx__free(scratch), cfx__free(out);
    }
    return same;
}

KERNEL_TEST(attention) {
    const int64_t rows[] = {1, 3, 5, 28, 61}, keys[] = {1, 7, 33, 64};
    const unsigned kinds[] = {0, 1, 2, 4, 12};
    for (int i = 0; i < COUNT(rows); i++)
        for (int j = 0; j < COUNT(keys); j++)
            for (int q = 0; q < COUNT(kinds); q++)
                if (!CHECK(attends(4, 1 + j % 2, rows[i], keys[j], 8 + 9 * (q % 2), kinds[q])))
                    return;
}

KERNEL_TEST(rows) {
    float y[100];
    for (int64_t n = 1; n < 100; n += n < 20 ? 1 : 13)
        CFX_SCOPE
    {
        cfx_tensor *x = cfx_mul(test_noise(CFX_F32, 1, &n), 5), *w = test_noise(CFX_F32, 1, &n);
        const float *from = cfx_tensor_data(x), *by = cfx_tensor_data(w);
        const float most = NAME_row_max(from, n);
        CHECK_NEAR(most, cfx_tensor_get(cfx_amax(x), 0), 0);
        CHECK_NEAR(NAME_row_sum(from, n), cfx_tensor_get(cfx_sum(x), 0), 1e-4);
        CHECK_NEAR(NAME_row_dot(from, by, n), cfx_tensor_get(cfx_sum(cfx_mul(x, w)), 0), 1e-4);
        memcpy(y, from, (size_t)n * sizeof *y);
        const float sum = NAME_row_exp(y, n, most);
        for (int64_t i = 0; i < n; i++)
            y[i] /= sum;
        CHECK(near_to(y, cfx_softmax(x, 0), 1e-6));
    }
}
