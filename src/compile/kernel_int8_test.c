/* Layers in integers: sums exactly, results as the formula says. */
#include "kernel_test.h"
#include "numbers.h"

#include "../ops/dense/int8.h"

/* A convolution of bytes by hand: the sum of one result. */
static int64_t sum_at(const cfx__pack_conv_shape *s, const uint8_t *x, int zero, const int8_t *w,
                      int64_t image, int64_t oy, int64_t ox, int64_t j) {
    const int64_t ic = s->ic / s->groups, oc = s->oc / s->groups, g = j / oc;
    int64_t sum = 0;
    for (int64_t c = 0; c < ic; c++)
        for (int64_t ky = 0; ky < s->kernel[1]; ky++)
            for (int64_t kx = 0; kx < s->kernel[2]; kx++) {
                const int64_t y = oy * s->stride[1] - s->pad[1] + ky * s->dilation[1];
                const int64_t v = ox * s->stride[2] - s->pad[2] + kx * s->dilation[2];
                const bool in = y >= 0 && y < s->in[1] && v >= 0 && v < s->in[2];
                const int64_t at = ((image * s->in[1] + y) * s->in[2] + v) * s->ic + g * ic + c;
                sum += ((in ? x[at] : zero) - zero) *
                       w[((j * ic + c) * s->kernel[1] + ky) * s->kernel[2] + kx];
            }
    return sum;
}

/* Whether bytes and floats come out right; `add`: bytes are added. */
static bool agrees(const cfx__pack_conv_shape *s, bool rounds, bool add) {
    const int64_t points = s->batch * s->out[1] * s->out[2], n = s->oc;
    const int64_t given = s->batch * s->in[1] * s->in[2] * s->ic;
    const int64_t taps = s->kernel[1] * s->kernel[2], count = n * (s->ic / s->groups) * taps;
    const bool lone = s->groups == s->ic && s->ic == s->oc && s->groups > 1;
    uint8_t *x = cfx__alloc((size_t)given);
    uint8_t *scratch = cfx__alloc((size_t)cfx__pack_int8_scratch(s, false));
    int8_t *w = cfx__alloc((size_t)count), *panels = cfx__alloc((size_t)cfx__pack_int8_bytes(s));
    int32_t *sums = cfx__alloc((size_t)n * 4), *start = cfx__alloc((size_t)n * 4);
    float *scale = cfx__alloc((size_t)n * 4), *bias = cfx__alloc((size_t)n * 4);
    float *floats = cfx__alloc0((size_t)(points * n) * 4), *scales = cfx__alloc((size_t)n * 4);
    uint8_t *bytes = cfx__alloc((size_t)(points * n));
    for (int64_t i = 0; i < given; i++)
        x[i] = (uint8_t)(i * 89 % 251 + i % 5);
    for (int64_t i = 0; i < count; i++)
        w[i] = (int8_t)(i * 37 % 256 - 128);
    for (int64_t j = 0; j < n; j++)
        scales[j] = 0x1p-9f / (float)(1 + j % 3 * 3), bias[j] = (float)(j % 7);
    memset(bytes, 9, (size_t)(points * n));
    cfx_tensor *all = cfx_tensor_borrow(CFX_F32, 1, &n, scales, NULL, NULL);
    const cfx__integers q = {.x = {0.5f, 7}, .add = {0.25f, 3}, .scales = all, .rounds = rounds,
                             .out = {2, 100}};
    cfx__pack_int8_finish f = {.start = start, .scale = scale, .bias = cfx__alloc((size_t)n * 4)};
    if (lone)
        cfx__pack_int8_depthwise(s, w, panels, sums);
    else
        cfx__pack_int8(s, w, panels, sums);
    cfx__pack_int8_finish_of(&q, n, sums, bias, -100, 120, add, false, &f);
    const NAME_int8_finish end = {.start = start, .scale = scale, .bias = f.bias,
                                  .rounds = rounds, .add = add ? bytes : NULL, .add_row = n,
                                  .added = f.added, .low = f.low, .high = f.high};
    NAME_conv_shape shape;
    memcpy(&shape, s, sizeof shape);
    void *y = rounds ? (void *)bytes : (void *)floats;
    if (lone)
        NAME_int8_depthwise(&shape, x, 7, panels, y, &end);
    else
        NAME_int8_conv(&shape, x, 7, panels, y, &end, scratch);
    bool same = true;
    for (int64_t i = 0; i < points * n && same; i++) {
        const int64_t p = i / n, j = i % n;
        const int64_t sum = sum_at(s, x, 7, w, p / s->out[2] / s->out[1],
                                   p / s->out[2] % s->out[1], p % s->out[2], j);
        double v = (double)sum * 0.5 * scales[j] + bias[j] + (add ? (9 - 3) * 0.25 : 0);
        v = v < -100 ? -100 : v > 120 ? 120 : v;
        if (!rounds)
            same = CHECK_NEAR(floats[i], v, 1e-4);
        else /* at most a tie to the other side */
            same = CHECK(fabs(fmin(fmax(v / 2 + 100, 0), 255) - bytes[i]) <= 0.5001);
    }
    cfx__free(x), cfx__free(scratch), cfx__free(w), cfx__free(panels), cfx__free(sums);
    cfx__free(start), cfx__free(scale), cfx__free(bias), cfx__free(floats), cfx__free(bytes);
    cfx__free(f.bias), cfx__free(scales);
    return same;
}

KERNEL_TEST(int8_conv) {
    const int64_t sizes[][2] = {{1, 1}, {3, 17}, {4, 16}, {8, 33}, {17, 5}, {64, 40}};
    for (int i = 0; i < 48; i++)
        CFX_SCOPE
    {
        const int64_t k = 1 + i % 3, stride = 1 + i % 2, dilation = 1 + i / 3 % 2, pad = i / 2 % 3;
        const int64_t groups = i % 4 == 3 ? 2 : 1, ic = sizes[i % 6][0] * groups;
        const int64_t h = k * 2 + i % 5, w = k * 2 + i % 17, reach = dilation * (k - 1) + 1;
        const cfx__pack_conv_shape s = {
            .batch = 1 + i % 2, .groups = groups, .ic = ic, .oc = sizes[i % 6][1] * groups,
            .in = {1, h, w}, .kernel = {1, k, k}, .stride = {1, stride, stride},
            .out = {1, (h + 2 * pad - reach) / stride + 1, (w + 2 * pad - reach) / stride + 1},
            .dilation = {1, dilation, dilation}, .pad = {0, pad, pad},
            .x_stride = {h * w * ic, 1, 0, w * ic, ic}, .y_row = sizes[i % 6][1] * groups};
        cfx__pack_conv_shape lone = s;
        lone.groups = lone.ic = lone.oc = lone.y_row = 2 + i;
        const int64_t c = lone.ic, strides[] = {h * w * c, 1, 0, w * c, c};
        memcpy(lone.x_stride, strides, sizeof strides);
        if (!agrees(&s, i % 2, i % 2 && i % 3) || !agrees(&lone, i % 2, i % 2 && i % 3))
            return;
    }
}

KERNEL_TEST(int8_dynamic) {
    for (int64_t m = 1; m < 30; m += 13)
        for (int64_t k = 1; k < 40; k += 7)
            CFX_SCOPE
    {
        const int64_t n = 19;
        cfx_tensor *x = test_noise(CFX_F32, 2, (int64_t[]){m, k});
        const float *from = cfx_tensor_data(x);
        uint8_t bytes[1200], right[1200];
        float ranges[80], y[30 * 19], scales[19], bias[19];
        int8_t w[19 * 40], panels[32 * 64];
        int32_t sums[19];
        int zero;
        const float scale = NAME_int8_round(from, m, k, k, bytes, &zero);
        const cfx__rounding r = int8_round(from, m, k, k, right, ranges);
        CHECK(scale == r.scale && zero == r.zero && !memcmp(bytes, right, (size_t)(m * k)));
        for (int64_t i = 0; i < n * k; i++)
            w[i] = (int8_t)(i * 37 % 256 - 128);
        for (int64_t j = 0; j < n; j++)
            scales[j] = 0.01f * (float)(j + 1), bias[j] = (float)j;
        const cfx__pack_conv_shape s = {1, 1, k, n, {1, 1, m}, {1, 1, m}, {1, 1, 1}, {1, 1, 1},
                                        {1, 1, 1}, {0, 0, 0}, {m * k, 1, 0, 0, k}, n, 0, 0};
        cfx__pack_int8(&s, w, panels, sums);
        uint8_t *scratch = cfx__alloc((size_t)cfx__pack_int8_dynamic_scratch(m, n, k));
        NAME_int8_dynamic(m, n, k, from, k, panels, sums, y, n,
                          &(NAME_int8_finish){.scale = scales, .bias = bias, .low = -INFINITY,
                                              .high = INFINITY}, scratch);
        for (int64_t i = 0; i < m * n; i++) {
            double sum = 0;
            for (int64_t q = 0; q < k; q++)
                sum += (double)(right[i / n * k + q] - r.zero) * w[i % n * k + q];
            CHECK_NEAR(y[i], sum * scales[i % n] * r.scale + bias[i % n], 1e-3);
        }
        cfx__free(scratch);
    }
}
