/* Convolution after Winograd, against the same in tiles. */
#include <cfx/ops.h>

#include <math.h>

#include "conv_tile_test.h"

static conv shape_of(int64_t batch, int64_t ic, int64_t oc, int64_t h, int64_t w, int64_t pad) {
    return (conv){.dims = 2,
                  .batch = batch,
                  .groups = 1,
                  .ic = ic,
                  .oc = oc,
                  .in = {1, h, w},
                  .out = {1, h + 2 * pad - 2, w + 2 * pad - 2},
                  .kernel = {1, 3, 3},
                  .stride = {1, 1, 1},
                  .pad = {0, pad, pad},
                  .dilation = {1, 1, 1}};
}

/* Runs it with patches of this size (0: in tiles) into `to`, rows of dst_row elements. */
static void run(conv_tiles t, int patch, const float *src, const float *w, float *to) {
    const size_t size = patch ? conv_winograd_weights(&t.v, patch)
                              : conv_tile_size(&t.v, CFX_PRECISION_F32);
    void *packed = cfx__alloc_aligned(size);
    t.patch = patch;
    t.weights = packed;
    if (patch) {
        conv_winograd_pack(&t.v, w, patch, packed);
        conv_winograd_run(&t, src, to);
    } else {
        conv_tile_pack(&t.v, w, CFX_PRECISION_F32, packed);
        conv_tile_run(&t, src, to);
    }
    cfx__free(packed);
}

/* The largest difference of both, as a part of the largest number. */
static double error_of(const conv *v, int64_t row, const cfx__epilogue *e, bool bias, int patch) {
    const int64_t n = v->batch * v->out[1] * v->out[2] * row;
    float *src = conv_numbers(v->batch * v->in[1] * v->in[2] * v->ic),
          *w = conv_numbers(v->oc * v->ic * 9);
    float *b = conv_numbers(v->oc), *want = conv_numbers(n),
          *got = cfx__alloc((size_t)n * sizeof *got);
    conv_tiles t = {.v = *v, .src_last = true, .bias = bias ? b : NULL, .dst_row = row};
    memcpy(got, want, (size_t)n * sizeof *got);
    CHECK(tile_epilogue_of(e, &t.epilogue));
    run(t, 0, src, w, want);
    run(t, patch, src, w, got);
    double most = 0, scale = 1;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)got[i] - want[i]));
        scale = fmax(scale, fabs(want[i]));
    }
    cfx__free(src), cfx__free(w), cfx__free(b), cfx__free(want), cfx__free(got);
    return most / scale;
}

/* Patches of 4 are exact on small integers; those of 6 are as good as their points. */
TEST(winograd_gives_what_tiles_give_at_any_shape) {
    cfx_value args[] = {cfx_none(), cfx_float(-900), cfx_float(800)};
    const cfx__post posts[] = {{NULL, NULL}, {&cfx_op_hardtanh, args}, {&cfx_op_silu, args}};
    test_seed(1);
    for (int i = 0; i < 40; i++) {
        const int64_t pad = conv_draw(0, 2), least = pad ? 1 : 3, width = tile_width();
        conv v = shape_of(conv_draw(1, 2), conv_draw(width, 2 * width + 3),
                          conv_draw(width, 2 * width + 5), conv_draw(least, 19),
                          conv_draw(least, 17), pad);
        if (v.out[1] < 1 || v.out[2] < 1)
            continue;
        cfx__epilogue e = {0};
        for (int q = 0; q < COUNT(posts); q++)
            if (conv_draw(0, 1))
                e.post[e.n++] = posts[q];
        const bool integers = !e.n || e.post[e.n - 1].op != &cfx_op_silu;
        const int64_t row = v.oc + conv_draw(0, 1) * 7;
        cfx_set_num_threads(i % 2 ? 3 : 1);
        CHECK_NEAR(error_of(&v, row, &e, conv_draw(0, 1), 4), 0, integers ? 0 : 1e-6);
        CHECK_NEAR(error_of(&v, row, &e, conv_draw(0, 1), 6), 0, 1e-5);
    }
    cfx_set_num_threads(0);
}

/* More tiles than one round takes, and the same bits on any number of threads. */
TEST(winograd_is_the_same_on_any_number_of_threads) {
    const conv v = shape_of(2, 64, 33, 57, 55, 1);
    const int64_t n = v.batch * v.out[1] * v.out[2] * v.oc;
    float *src = conv_numbers(v.batch * v.in[1] * v.in[2] * v.ic),
          *w = conv_numbers(v.oc * v.ic * 9);
    float *first = conv_numbers(n), *y = conv_numbers(n);
    const conv_tiles t = {.v = v, .src_last = true};
    cfx_set_num_threads(1);
    run(t, 6, src, w, first);
    for (int threads = 2; threads <= 8; threads *= 2) {
        cfx_set_num_threads(threads);
        run(t, 6, src, w, y);
        CHECK(!memcmp(first, y, (size_t)n * sizeof *y));
    }
    cfx_set_num_threads(0);
    cfx__free(src), cfx__free(w), cfx__free(first), cfx__free(y);
}

TEST(winograd_is_for_three_by_three_points_one_by_one) {
    conv v = shape_of(1, 64, 64, 56, 56, 1);
    CHECK_INT(conv_winograd_patch(&v), 6);
    v = shape_of(1, 256, 256, 14, 14, 1);
    CHECK_INT(conv_winograd_patch(&v), 4);
    v = shape_of(1, 256, 256, 3, 3, 0);
    CHECK_INT(conv_winograd_patch(&v), 0);
    v = shape_of(1, 3, 64, 56, 56, 1);
    CHECK_INT(conv_winograd_patch(&v), 0);
    for (int i = 0; i < 4; i++) {
        v = shape_of(1, 64, 64, 56, 56, 1);
        *(i == 0 ? &v.stride[2] : i == 1 ? &v.dilation[1] : i == 2 ? &v.groups : &v.kernel[1]) = 2;
        CHECK_INT(conv_winograd_patch(&v), 0);
    }
}

/* An infinite input reaches the results it has a part in, as infinity or as NaN, and no result of
 * another tile. */
TEST(winograd_keeps_what_is_not_finite_in_its_tile) {
    const conv v = shape_of(1, 32, 32, 24, 24, 1);
    float *src = conv_numbers(24 * 24 * 32), *w = conv_numbers(32 * 32 * 9),
          *y = conv_numbers(24 * 24 * 32);
    src[(9 * 24 + 9) * 32 + 5] = INFINITY;
    run((conv_tiles){.v = v, .src_last = true}, 6, src, w, y);
    for (int64_t i = 0; i < 24 * 24 * 32; i++) {
        const int64_t py = i / 32 / 24, px = i / 32 % 24;
        const bool near = py >= 8 && py <= 10 && px >= 8 && px <= 10;
        const bool far = py < 8 || py > 11 || px < 8 || px > 11;
        CHECK(!near || w[i % 32 * 32 * 9 + 5 * 9] == 0 || !isfinite(y[i]));
        CHECK(!far || isfinite(y[i]));
    }
    cfx__free(src), cfx__free(w), cfx__free(y);
}

/* Weights are packed once for the batches of a program that says that it has several. */
TEST(the_patches_of_a_convolution_of_many_batches_are_those_of_one_image) {
    static const int64_t layers[][2] = {{64, 56}, {128, 28}, {256, 14}, {512, 7}};
    for (int i = 0; i < (int)(sizeof layers / sizeof *layers); i++)
        for (int64_t batch = 2; batch < 9; batch++) {
            const int64_t c = layers[i][0], size = layers[i][1];
            const conv one = shape_of(1, c, c, size, size, 1);
            conv many = shape_of(batch, c, c, size, size, 1);
            many.batches = true;
            CHECK_INT(conv_winograd_patch(&many), conv_winograd_patch(&one));
        }
    conv most = shape_of(8, 512, 512, 7, 7, 1);
    CHECK_INT(conv_winograd_patch(&most), 6); /* the only batch there is */
    most = shape_of(256, 512, 512, 4, 4, 1);
    most.batches = true;
    CHECK_INT(conv_winograd_patch(&most), 6); /* far cheaper */
}
