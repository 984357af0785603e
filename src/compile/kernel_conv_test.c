/* Convolutions over packed weights, against cfx's own operator. */
#include "kernel_test.h"
#include "numbers.h"

/* A convolution of one of `count` kinds: odd sizes, groups, strides, dilation, padding. */
typedef struct {
    cfx__pack_conv_shape s;
    bool last; /* x lies channels last */
} drawn;

static int64_t next(uint32_t *seed, int64_t from, int64_t to) {
    *seed = *seed * 1664525u + 1013904223u;
    return from + (int64_t)(*seed >> 8) % (to - from + 1);
}

static drawn draw(uint32_t seed, int64_t groups, int64_t ic, int64_t oc, int64_t most, int dims) {
    drawn d = {.last = next(&seed, 0, 2) > 0};
    cfx__pack_conv_shape *s = &d.s;
    *s = (cfx__pack_conv_shape){.batch = next(&seed, 1, 2), .groups = groups, .ic = ic * groups,
                                .oc = oc * groups, .y_row = oc * groups + next(&seed, 0, 1)};
    for (int i = 0; i < 3; i++) {
        const bool used = i >= 3 - dims;
        s->kernel[i] = used ? next(&seed, 1, 4) : 1;
        s->stride[i] = used ? next(&seed, 1, 3) : 1;
        s->dilation[i] = used ? next(&seed, 1, 2) : 1;
        s->pad[i] = used ? next(&seed, 0, 3) : 0;
        const int64_t reach = s->dilation[i] * (s->kernel[i] - 1) + 1 - 2 * s->pad[i];
        s->in[i] = used ? (reach > 1 ? reach : 1) + next(&seed, 0, most) : 1;
        s->out[i] = (s->in[i] - reach) / s->stride[i] + 1;
    }
    const int64_t points = s->in[0] * s->in[1] * s->in[2], c = s->ic;
    const int64_t by_channel[] = {c * points, points, s->in[1] * s->in[2], s->in[2], 1};
    const int64_t by_point[] = {c * points, 1, s->in[1] * s->in[2] * c, s->in[2] * c, c};
    memcpy(s->x_stride, d.last ? by_point : by_channel, sizeof s->x_stride);
    return d;
}

static NAME_conv_shape shape_of(const cfx__pack_conv_shape *s) {
    NAME_conv_shape to;
    _Static_assert(sizeof(ptrdiff_t) == sizeof(int64_t) && sizeof to == sizeof *s, "alike");
    memcpy(&to, s, sizeof to);
    return to;
}

typedef enum { TILES, DEPTHWISE, WINOGRAD } way;

/* The same result, channel by channel: stored where its channels lie apart, and nowhere else. */
static bool scatters(const cfx__pack_conv_shape *s, const float *x, const float *panels,
                     const NAME_epilogue *e, float *scratch, const cfx_tensor *want) {
    const int64_t points = s->out[0] * s->out[1] * s->out[2], channel = 2 * points + 1;
    const int64_t image = s->oc * channel + 3, all = s->batch * image;
    cfx__pack_conv_shape apart = *s;
    apart.y_row = 2;
    apart.y_channel = channel;
    apart.y_image = image;
    const NAME_conv_shape shape = shape_of(&apart);
    float *y = cfx__alloc0((size_t)all * sizeof *y), sum = 0, has = 0;
    NAME_conv(&shape, x, panels, y, e, scratch);
    bool same = true;
    for (int64_t i = 0; i < s->batch * points; i++)
        for (int64_t c = 0; c < s->oc; c++) {
            const float is = y[i / points * image + c * channel + i % points * 2];
            same &= is == (float)cfx_tensor_get(want, i * s->oc + c);
            sum += fabsf(is);
        }
    for (int64_t i = 0; i < all; i++)
        has += fabsf(y[i]);
    cfx__free(y);
    return same && fabsf(has - sum) <= 1e-3f * sum;
}

/* Whether a kernel gives what the operator gives, with bias, an addition and bounds. */
static bool agrees(const drawn *d, way kernel) {
    const cfx__pack_conv_shape *s = &d->s;
    const int64_t points = s->batch * s->out[0] * s->out[1] * s->out[2];
    bool same = true;
    CFX_SCOPE {
        cfx_tensor *x = test_numbers(CFX_F32, 5, (int64_t[]){s->batch, s->ic, s->in[0], s->in[1],
                                                             s->in[2]});
        cfx_tensor *w = test_numbers(CFX_F32, 5, (int64_t[]){s->oc, s->ic / s->groups,
                                                             s->kernel[0], s->kernel[1],
                                                             s->kernel[2]});
        cfx_tensor *b = test_numbers(CFX_F32, 1, &s->oc);
        cfx_tensor *want = cfx_conv3d(x, w, b, cfx_list(s->stride[0], s->stride[1], s->stride[2]),
                                      cfx_list(s->pad[0], s->pad[1], s->pad[2]),
                                      cfx_list(s->dilation[0], s->dilation[1], s->dilation[2]),
                                      s->groups);
        want = cfx_clamp(cfx_add(want, 1), -40, 50);
        want = cfx_contiguous(cfx_permute(want, cfx_list(0, 2, 3, 4, 1)));
        if (d->last)
            x = cfx_contiguous(cfx_permute(x, cfx_list(0, 2, 3, 4, 1)));
        const NAME_conv_shape shape = shape_of(s);
        const int size = s->ic < 60 ? 6 : 4; /* of a patch */
        float *panels = cfx__alloc((size_t)(kernel == WINOGRAD ? cfx__pack_winograd_floats(s, size)
                                                               : cfx__pack_conv_floats(s)) *
                                   sizeof *panels);
        float *scratch = cfx__alloc((size_t)(kernel == WINOGRAD
                                                 ? cfx__pack_winograd_scratch(s, size, false)
                                                 : cfx__pack_conv_scratch(s, false)));
        float *y = cfx__alloc((size_t)(points * s->y_row) * sizeof *y);
        for (int64_t i = 0; i < points * s->y_row; i++)
            y[i] = 1;
        const NAME_epilogue e = {.bias = cfx_tensor_data(b), .add = y, .add_row = s->y_row,
                                 .low = -40, .high = 50};
        const float *from = cfx_tensor_data(x), *weights = cfx_tensor_data(w);
        if (kernel == TILES) {
            cfx__pack_conv(s, weights, panels);
            NAME_conv(&shape, from, panels, y, &e, scratch);
            const NAME_epilogue more = {.bias = cfx_tensor_data(cfx_add(b, 1)), .low = -40,
                                        .high = 50};
            same = scatters(s, from, panels, &more, scratch, want);
        } else if (kernel == WINOGRAD) {
            cfx__pack_winograd(s, size, weights, panels);
            NAME_conv_winograd(&shape, size, from, panels, y, &e, scratch);
        } else {
            cfx__pack_depthwise(s, weights, panels);
            NAME_conv_depthwise(&shape, from, panels, y, &e);
        }
        /* Whole numbers are summed exactly, but not their transforms. */
        const double near = kernel == WINOGRAD ? 3e-7 * 9 * 64 * (double)s->ic : 0;
        for (int64_t i = 0; i < points && same; i++)
            for (int64_t c = 0; c < s->y_row && same; c++) {
                const double right = c < s->oc ? cfx_tensor_get(want, i * s->oc + c) : 1;
                same = fabs(right - y[i * s->y_row + c]) <= near;
            }
        cfx__free(panels), cfx__free(scratch), cfx__free(y);
    }
    if (!same)
        test_fail(CFX_HERE, "%lld groups of %lld -> %lld, kernel %lldx%lldx%lld",
                  (long long)s->groups, (long long)s->ic, (long long)s->oc,
                  (long long)s->kernel[0], (long long)s->kernel[1], (long long)s->kernel[2]);
    return CHECK_OK() && same;
}

KERNEL_TEST(conv) {
    const int64_t channels[] = {1, 3, 4, 8, 17, 33};
    uint32_t seed = 1;
    for (int i = 0; i < 60; i++) {
        const int64_t groups = next(&seed, 0, 2) ? 1 : next(&seed, 2, 3);
        const drawn d = draw(seed, groups, channels[next(&seed, 0, 5)], channels[next(&seed, 0, 5)],
                             i % 2 ? 30 : 9, 1 + i % 3);
        if (d.s.in[0] * d.s.in[1] * d.s.in[2] < 10000 && !agrees(&d, TILES))
            return;
    }
    CHECK(agrees(&(drawn){{1, 1, 40, 20, {1, 60, 60}, {1, 60, 60}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1},
                           {0, 1, 1}, {144000, 3600, 3600, 60, 1}, 20, 0, 0}, false}, TILES));
}

KERNEL_TEST(conv_depthwise) {
    uint32_t seed = 2;
    for (int i = 0; i < 60; i++) {
        drawn d = draw(seed, next(&seed, 1, 70), 1, 1, i % 2 ? 30 : 9, 1 + i % 2);
        const int64_t c = d.s.ic, by_point[] = {c * d.s.in[1] * d.s.in[2], 1, 0, d.s.in[2] * c, c};
        memcpy(d.s.x_stride, by_point, sizeof by_point);
        d.last = true;
        if (!agrees(&d, DEPTHWISE))
            return;
    }
}

KERNEL_TEST(conv_winograd) {
    uint32_t seed = 3;
    for (int i = 0; i < 16; i++) {
        const int64_t h = next(&seed, 1, 20), w = next(&seed, 1, 20), pad = next(&seed, 0, 2);
        const int64_t ic = next(&seed, 32, 70), oc = next(&seed, 32, 70);
        if (h + 2 * pad < 3 || w + 2 * pad < 3)
            continue;
        const drawn d = {{2, 1, ic, oc, {1, h, w}, {1, h + 2 * pad - 2, w + 2 * pad - 2}, {1, 3, 3},
                          {1, 1, 1}, {1, 1, 1}, {0, pad, pad}, {h * w * ic, 1, 0, w * ic, ic},
                          oc + i % 2, 0, 0}, true};
        if (!agrees(&d, WINOGRAD))
            return;
    }
}

/* The gradient of a convolution by its input is the transposed one, of any sizes. */
KERNEL_TEST(conv_transposed) {
    uint32_t seed = 4;
    for (int i = 0; i < 40; i++) {
        const int64_t groups = i % 3 ? 1 : 2;
        drawn d = draw(seed, groups, next(&seed, 1, 9), next(&seed, 1, 9), 7, 1 + i % 3);
        cfx__pack_conv_shape *s = &d.s;
        const int64_t points = s->in[0] * s->in[1] * s->in[2];
        const int64_t seen = s->out[0] * s->out[1] * s->out[2];
        const int64_t by_channel[] = {s->oc * seen, seen, s->out[1] * s->out[2], s->out[2], 1};
        memcpy(s->x_stride, by_channel, sizeof by_channel);
        s->y_row = s->ic;
        CFX_SCOPE {
            cfx_value extra = cfx_list(0, 0, 0), pads = cfx_list(0, 0, 0);
            int64_t more[3];
            for (int q = 0; q < 3; q++)
                more[q] = s->in[q] - ((s->out[q] - 1) * s->stride[q] - 2 * s->pad[q] +
                                      s->dilation[q] * (s->kernel[q] - 1) + 1);
            extra = cfx_list(more[0], more[1], more[2]);
            pads = cfx_list(s->pad[0], s->pad[1], s->pad[2]);
            cfx_tensor *x = test_numbers(CFX_F32, 5, (int64_t[]){s->batch, s->oc, s->out[0],
                                                                 s->out[1], s->out[2]});
            cfx_tensor *w = test_numbers(CFX_F32, 5, (int64_t[]){s->oc, s->ic / groups,
                                                                 s->kernel[0], s->kernel[1],
                                                                 s->kernel[2]});
            cfx_tensor *b = test_numbers(CFX_F32, 1, &s->ic);
            cfx_tensor *want = cfx_relu(cfx_conv_transpose3d(
                x, w, b, cfx_list(s->stride[0], s->stride[1], s->stride[2]), pads, extra, groups,
                cfx_list(s->dilation[0], s->dilation[1], s->dilation[2])));
            want = cfx_contiguous(cfx_permute(want, cfx_list(0, 2, 3, 4, 1)));
            const NAME_conv_shape shape = shape_of(s);
            float *panels = cfx__alloc((size_t)cfx__pack_transposed_floats(s) * sizeof *panels);
            float *scratch = cfx__alloc((size_t)cfx__pack_transposed_scratch(s));
            float *y = cfx__alloc((size_t)(s->batch * points * s->ic) * sizeof *y);
            cfx__pack_transposed(s, cfx_tensor_data(w), panels);
            const NAME_epilogue e = {.bias = cfx_tensor_data(b), .low = 0, .high = INFINITY};
            NAME_conv_transposed(&shape, cfx_tensor_data(x), panels, y, &e, scratch);
            bool same = CHECK_OK() && CHECK_INT(cfx_tensor_numel(want), s->batch * points * s->ic);
            for (int64_t q = 0; q < s->batch * points * s->ic && same; q++)
                same = CHECK_NEAR(y[q], cfx_tensor_get(want, q), 1e-3);
            cfx__free(panels), cfx__free(scratch), cfx__free(y);
        }
    }
}
