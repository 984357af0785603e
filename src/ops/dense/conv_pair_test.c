/* Two convolutions as one kernel, against one after the other. */
#include <cfx/ops.h>

#include <math.h>

#include "conv_tile_test.h"

static conv points_of(int64_t batch, int64_t ic, int64_t oc, int64_t h, int64_t w) {
    return (conv){.dims = 2, .batch = batch, .groups = 1, .ic = ic, .oc = oc,
                  .in = {1, h, w}, .out = {1, h, w}, .kernel = {1, 1, 1},
                  .stride = {1, 1, 1}, .dilation = {1, 1, 1}};
}

/* Channel by channel behind it; false where nothing is left of the image. */
static bool channels_of(const conv *a, conv *b) {
    *b = (conv){.dims = 2, .batch = a->batch, .groups = a->oc, .ic = a->oc, .oc = a->oc,
                .in = {1, a->out[1], a->out[2]}, .out = {1, 0, 0}, .kernel = {1, 0, 0},
                .stride = {1, 0, 0}, .dilation = {1, 0, 0}};
    for (int i = 1; i < 3; i++) {
        b->kernel[i] = conv_draw(1, 5), b->stride[i] = conv_draw(1, 2);
        b->pad[i] = conv_draw(0, 3), b->dilation[i] = conv_draw(1, 2);
        const int64_t room = b->in[i] + 2 * b->pad[i] - b->dilation[i] * (b->kernel[i] - 1) - 1;
        b->out[i] = room < 0 ? 0 : room / b->stride[i] + 1;
    }
    return b->out[1] && b->out[2];
}

TEST(a_pair_of_convolutions_gives_what_both_give) {
    int seen = 0;
    test_seed(7);
    for (int i = 0; i < 60; i++) {
        conv a = points_of(conv_draw(1, 2), conv_draw(1, 20), 4 * conv_draw(1, 20),
                           conv_draw(1, 60), conv_draw(1, 30)),
             b;
        if (!channels_of(&a, &b))
            continue;
        const int64_t between = a.batch * a.out[1] * a.out[2] * a.oc;
        const int64_t n = b.batch * b.out[1] * b.out[2] * b.oc;
        float *src = conv_numbers(a.batch * a.in[1] * a.in[2] * a.ic),
              *w = conv_numbers(a.ic * a.oc);
        float *by = conv_numbers(b.kernel[1] * b.kernel[2] * b.ic), *bias = conv_numbers(a.oc);
        float *half = conv_numbers(between), *want = conv_numbers(n), *got = conv_numbers(n);
        void *panels = cfx__alloc_aligned(conv_tile_size(&a, CFX_PRECISION_F32));
        conv_tile_pack(&a, w, CFX_PRECISION_F32, panels);
        const conv_tiles first = {.v = a, .src_last = true, .weights = panels, .bias = bias,
                                  .epilogue = {.bounded = true, .low = 0, .high = 6}};
        const conv_tiles second = {.v = b, .src_last = true, .weights = by, .bias = bias,
                                   .epilogue = {.bounded = true, .low = -9, .high = 90}};
        CHECK(conv_pair_takes(&first, &second));
        cfx_set_num_threads(i % 3 + 1);
        conv_tile_run(&first, src, half);
        conv_channels_run(&second, half, want);
        conv_pair_run(&first, &second, src, got);
        CHECK(!memcmp(want, got, (size_t)n * sizeof *got));
        seen++;
        cfx__free(src), cfx__free(w), cfx__free(by), cfx__free(bias), cfx__free(half);
        cfx__free(want), cfx__free(got), cfx__free(panels);
    }
    CHECK(seen > 40);
    cfx_set_num_threads(0);
}

TEST(a_pair_needs_single_points_and_channels_behind_them) {
    conv a = points_of(1, 8, 32, 9, 9), b;
    while (!channels_of(&a, &b))
        ;
    conv_tiles first = {.v = a, .src_last = true}, second = {.v = b, .src_last = true};
    CHECK(conv_pair_takes(&first, &second));
    CHECK(!conv_pair_takes(&second, &second));
    CHECK(!conv_pair_takes(&first, &first));
    first.epilogue.add = true;
    CHECK(!conv_pair_takes(&first, &second));
    first.epilogue.add = false;
    first.dst_row = 40;
    CHECK(!conv_pair_takes(&first, &second));
    first.dst_row = 0;
    first.v.stride[1] = 2;
    CHECK(!conv_pair_takes(&first, &second));
}
