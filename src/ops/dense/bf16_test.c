/* Products of halves, by each kind of instructions that the machine has, against sums by hand. */
#include "test.h"

#include <cfx/ops.h>

#include <math.h>

#include "bf16.h"

/* Numbers that halves hold and float32 sums exactly, so that any order of adding gives the same. */
static float *numbers(int64_t n, int salt) {
    float *x = cfx__alloc((size_t)(n + 64) * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((i * 7 + salt * 5 + i / 11) % 13 - 6);
    return x;
}

typedef struct {
    int64_t m, n, k, a_row;
    bool columns; /* those of W lie end to end */
    bool add;
} shape;

/* The largest difference of C = bounded(A W + bias + before) to the same by hand. */
static double product_error(const shape *s, bf16_way way) {
    const int64_t m = s->m, n = s->n, k = s->k, row = s->columns ? 1 : n, col = s->columns ? k : 1;
    float *a = numbers(m * s->a_row, 1), *w = numbers(k * n, 2), *bias = numbers(n + 32, 3);
    float *before = numbers(m * n, 4), *c = numbers(m * n, 4);
    void *panels = cfx__alloc_aligned(bf16_panels_size(k, n));
    bf16_panels_make(&(tile_matrix){.k = k, .n = n, .w = w, .row = row, .col = col}, panels);
    const tile_epilogue e = {.add = s->add, .bounded = true, .low = -40, .high = 50};
    bf16_product(&(product){.m = m, .n = n, .k = k, .a = a, .a_row = s->a_row, .line = m,
                            .panels = panels, .bias = bias, .c = c, .c_row = n, .epilogue = &e},
                 way);
    double most = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = bias[j] + (s->add ? before[i * n + j] : 0);
            for (int64_t q = 0; q < k; q++)
                sum += (double)a[i * s->a_row + q] * w[q * row + j * col];
            sum = sum < -40 ? -40 : sum > 50 ? 50 : sum;
            most = fmax(most, fabs(sum - c[i * n + j]));
        }
    cfx__free(a), cfx__free(w), cfx__free(bias), cfx__free(before), cfx__free(c);
    cfx__free(panels);
    return most;
}

TEST(a_product_of_halves_is_exact_at_every_size) {
    const shape shapes[] = {
        {1, 1, 1, 1, true, false},        {1, 33, 70, 70, false, true},
        {2, 32, 5, 9, true, true},        {3, 31, 64, 64, false, false},
        {13, 17, 3, 3, true, false},      {14, 64, 100, 101, false, true},
        {29, 65, 33, 33, true, true},     {100, 40, 17, 20, false, false},
        {9, 70, 2100, 2100, true, false}, {20, 33, 1024, 1024, false, true},
        {197, 96, 300, 300, true, true},  {33, 130, 257, 257, true, false},
        /* in two and three parts of their rows, and in two blocks of rows */
        {500, 40, 1100, 1100, true, true}, {70, 35, 15010, 15010, true, false},
        {530, 20, 1100, 1100, false, true},
    };
    for (bf16_way way = BF16_DOTS; bf16_has(way) && way < BF16_WAYS; way++)
        for (int threads = 1; threads <= 3; threads += 2)
            for (int i = 0; i < COUNT(shapes); i++) {
                cfx_set_num_threads(threads);
                CHECK_NEAR(product_error(&shapes[i], way), 0, 0);
            }
}

/* Rounding as everywhere else: to the nearest, of two to the even one. */
TEST(halves_are_rounded_alike) {
    float x[70];
    uint16_t half[96];
    if (!bf16_has(BF16_DOTS))
        return;
    for (int i = 0; i < COUNT(x); i++)
        x[i] = (float)(sin(i) * pow(10, i % 30 - 15));
    x[3] = 1 + 1.0f / 256, x[4] = 1 + 3.0f / 256, x[5] = INFINITY, x[6] = -0.0f, x[7] = 3.4e38f;
    bf16_round(x, COUNT(x), COUNT(half), half);
    for (int i = 0; i < COUNT(half); i++)
        CHECK_INT(half[i], i < COUNT(x) ? cfx__bf16_store(x[i]) : 0);
    x[0] = NAN;
    bf16_round(x, 1, 32, half);
    CHECK((half[0] & 0x7f80) == 0x7f80 && (half[0] & 0x7f));
}

/* What is not a number stays none, and stays in its row. */
TEST(a_product_of_halves_keeps_what_is_not_a_number) {
    enum { M = 20, N = 40, K = 50 };
    for (bf16_way way = BF16_DOTS; bf16_has(way) && way < BF16_WAYS; way++) {
        float *a = numbers(M * K, 1), *w = numbers(K * N, 2), c[M * N];
        a[7 * K + 5] = NAN;
        void *panels = cfx__alloc_aligned(bf16_panels_size(K, N));
        const tile_epilogue e = {.bounded = true, .low = 0, .high = INFINITY};
        bf16_panels_make(&(tile_matrix){.k = K, .n = N, .w = w, .row = N, .col = 1}, panels);
        bf16_product(&(product){.m = M, .n = N, .k = K, .a = a, .a_row = K, .line = M,
                                .panels = panels, .c = c, .c_row = N, .epilogue = &e},
                     way);
        for (int i = 0; i < M * N; i++)
            CHECK_INT(isnan(c[i]), i / N == 7);
        cfx__free(a), cfx__free(w), cfx__free(panels);
    }
}
