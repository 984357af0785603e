/* Convolutions in bf16, by each kind of instructions that the machine has, against single
 * precision: whole numbers that halves hold, so that both are exact. */
#include <cfx/ops.h>

#include <math.h>

#include "conv_tile_test.h"

static bool drawn(conv *v) {
    *v = (conv){.dims = 2, .batch = conv_draw(1, 3), .groups = 1, .in = {1}, .out = {1},
                .kernel = {1}, .stride = {1}, .dilation = {1}};
    v->ic = conv_draw(0, 1) ? conv_draw(1, 20) : 32 * conv_draw(1, 5);
    v->oc = conv_draw(16, 80);
    for (int i = 1; i < 3; i++) {
        v->in[i] = conv_draw(1, 40), v->kernel[i] = conv_draw(1, 5), v->stride[i] = conv_draw(1, 3);
        v->pad[i] = conv_draw(0, 3), v->dilation[i] = conv_draw(1, 2);
        const int64_t room = v->in[i] + 2 * v->pad[i] - v->dilation[i] * (v->kernel[i] - 1) - 1;
        v->out[i] = room < 0 ? 0 : room / v->stride[i] + 1;
    }
    return v->out[1] && v->out[2];
}

/* The largest difference of both, at any element. */
static double difference(const conv *v, bf16_way way, bool last, int threads) {
    const int64_t n = v->batch * v->out[1] * v->out[2] * v->oc, row = v->oc + threads;
    float *src = conv_numbers(v->batch * v->in[1] * v->in[2] * v->ic);
    float *w = conv_numbers(v->ic * v->oc * v->kernel[1] * v->kernel[2]);
    float *bias = conv_numbers(v->oc + 64), *want = conv_numbers(n / v->oc * row);
    float *got = cfx__alloc((size_t)(n / v->oc * row + TILE_WIDEST) * sizeof *got);
    memcpy(got, want, (size_t)(n / v->oc * row) * sizeof *got);
    void *panels = cfx__alloc_aligned(conv_tile_size(v, CFX_PRECISION_F32));
    void *pairs = cfx__alloc_aligned(conv_bf16_size(v));
    conv_tile_pack(v, w, CFX_PRECISION_F32, panels);
    conv_bf16_pack(v, w, pairs);
    conv_tiles t = {.v = *v, .src_last = last, .weights = panels, .bias = bias, .dst_row = row,
                    .epilogue = {.add = true, .bounded = true, .low = -2000, .high = 2500}};
    cfx_set_num_threads(threads);
    conv_tile_run(&t, src, want);
    t.way = way;
    t.weights = pairs;
    conv_bf16_run(&t, src, got);
    double most = 0;
    for (int64_t i = 0; i < n / v->oc * row; i++)
        most = fmax(most, fabs((double)want[i] - (double)got[i]));
    cfx__free(src), cfx__free(w), cfx__free(bias), cfx__free(want), cfx__free(got);
    cfx__free(panels), cfx__free(pairs);
    return most;
}

TEST(a_convolution_in_bf16_is_exact_where_halves_are) {
    int seen = 0;
    test_seed(11);
    for (bf16_way way = BF16_DOTS; bf16_has(way) && way < BF16_WAYS; way++)
        for (int i = 0; i < 120; i++) {
            conv v;
            if (!drawn(&v))
                continue;
            CHECK_NEAR(difference(&v, way, i % 4 != 0, i % 3 + 1), 0, 0);
            seen++;
        }
    CHECK(!bf16_has(BF16_DOTS) || seen > 60);
    CHECK_OK();
}

/* What is not a number reaches the points that see it, and no other. */
TEST(a_convolution_in_bf16_keeps_what_is_not_a_number_where_it_is_seen) {
    enum { SIDE = 9 };
    const int64_t channels[] = {3, 20, 32};
    for (bf16_way way = BF16_DOTS; bf16_has(way) && way < BF16_WAYS; way++)
        for (int c = 0; c < COUNT(channels); c++) {
            const conv v = {.dims = 2, .batch = 1, .groups = 1, .ic = channels[c], .oc = 16,
                            .in = {1, SIDE, SIDE}, .out = {1, SIDE, SIDE}, .kernel = {1, 3, 3},
                            .stride = {1, 1, 1}, .pad = {0, 1, 1}, .dilation = {1, 1, 1}};
            float *src = conv_numbers(SIDE * SIDE * v.ic), *w = conv_numbers(v.ic * v.oc * 9);
            float *dst = conv_numbers(SIDE * SIDE * v.oc);
            void *pairs = cfx__alloc_aligned(conv_bf16_size(&v));
            conv_bf16_pack(&v, w, pairs);
            src[(SIDE + 8) * v.ic] = NAN; /* line 1, at its end */
            const conv_tiles t = {.v = v, .src_last = true, .way = way, .weights = pairs};
            conv_bf16_run(&t, src, dst);
            for (int i = 0; i < SIDE * SIDE * v.oc; i++) {
                const int64_t at = i / v.oc, y = at / SIDE, x = at % SIDE;
                CHECK_INT(isnan(dst[i]) != 0, y <= 2 && x >= 7);
            }
            cfx__free(src), cfx__free(w), cfx__free(dst), cfx__free(pairs);
        }
}

TEST(convolutions_of_groups_or_few_results_are_not_computed_in_bf16) {
    conv v = {.dims = 2, .batch = 1, .groups = 1, .ic = 32, .oc = 32, .in = {1, 9, 9},
              .out = {1, 9, 9}, .kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}};
    CHECK_INT(conv_bf16_way(&v), bf16_best(81));
    v.groups = 2;
    CHECK_INT(conv_bf16_way(&v), BF16_NONE);
    v.groups = 1, v.oc = 8;
    CHECK_INT(conv_bf16_way(&v), BF16_NONE);
}
