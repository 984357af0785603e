/* Convolutions: each way of computing them against the plain definition; gradients; errors. */
#include "numbers.h"

#include <math.h>
#include <stdlib.h>

static bool close_to(cfx_tensor *a, cfx_tensor *b) {
    return cfx_integer(cfx_allclose(cfx_to(a, cfx_f64), cfx_to(b, cfx_f64), 1e-4, 1e-3));
}

typedef struct {
    int64_t n, ic, oc, groups, h, w, kh, kw, stride, pad, dilation;
} shape2d;

/* conv2d by its definition, in float64. */
static cfx_tensor *defined(const shape2d *s, cfx_tensor *x, cfx_tensor *w, cfx_tensor *b) {
    int64_t oh = (s->h + 2 * s->pad - s->dilation * (s->kh - 1) - 1) / s->stride + 1;
    int64_t ow = (s->w + 2 * s->pad - s->dilation * (s->kw - 1) - 1) / s->stride + 1;
    int64_t shape[] = {s->n, s->oc, oh, ow}, cg = s->ic / s->groups, og = s->oc / s->groups;
    double *y = malloc((size_t)(s->n * s->oc * oh * ow) * sizeof *y), *at = y;
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t o = 0; o < s->oc; o++)
            for (int64_t i = 0; i < oh; i++)
                for (int64_t j = 0; j < ow; j++) {
                    double sum = cfx_tensor_get(b, o);
                    for (int64_t k = 0; k < cg * s->kh * s->kw; k++) {
                        int64_t c = k / (s->kh * s->kw), p = k / s->kw % s->kh, q = k % s->kw;
                        int64_t r = i * s->stride - s->pad + p * s->dilation;
                        int64_t t = j * s->stride - s->pad + q * s->dilation;
                        int64_t from = ((n * s->ic + o / og * cg + c) * s->h + r) * s->w + t;
                        if (r >= 0 && r < s->h && t >= 0 && t < s->w)
                            sum += cfx_tensor_get(x, from) *
                                   cfx_tensor_get(w, o * cg * s->kh * s->kw + k);
                    }
                    *at++ = sum;
                }
    cfx_tensor *t = cfx_tensor_new(CFX_F64, 4, shape, y);
    free(y);
    return t;
}

static cfx_tensor *conv(const shape2d *s, cfx_tensor *x, cfx_tensor *w, cfx_tensor *b) {
    return cfx_conv2d(x, w, b, cfx_list(s->stride, s->stride), cfx_list(s->pad, s->pad),
                      cfx_list(s->dilation, s->dilation), s->groups);
}

TEST(conv2d_by_definition) {
    static const shape2d shapes[] = {
        {1, 3, 4, 1, 7, 6, 3, 3, 1, 1, 1}, /* oneDNN */
        {2, 16, 32, 1, 8, 8, 3, 3, 2, 1, 1},
        {3, 16, 16, 1, 50, 50, 1, 3, 2, 1, 1}, /* image by image */
        {1, 4, 6, 2, 9, 9, 3, 2, 1, 2, 2},     /* groups, dilation */
        {1, 5, 7, 1, 12, 12, 1, 1, 1, 0, 1},   /* by points */
        {2, 5, 7, 1, 25, 25, 1, 1, 2, 0, 1},   /* points, some left out */
        {1, 8, 8, 8, 9, 11, 3, 3, 1, 1, 1},    /* channel by channel */
        {1, 6, 12, 6, 9, 11, 3, 3, 2, 1, 1},
        {1, 6, 6, 6, 10, 8, 3, 3, 2, 0, 1},
        {1, 6, 6, 6, 10, 7, 5, 3, 3, 2, 2},
        {1, 4, 4, 4, 7, 7, 7, 7, 1, 3, 1},
        {1, 3, 3, 3, 5, 5, 2, 2, 4, 0, 1},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        CFX_SCOPE
    {
        const shape2d *s = &shapes[i];
        cfx_tensor *x = test_numbers(CFX_F64, 4, (int64_t[]){s->n, s->ic, s->h, s->w});
        cfx_tensor *w =
            test_numbers(CFX_F64, 4, (int64_t[]){s->oc, s->ic / s->groups, s->kh, s->kw});
        cfx_tensor *b = test_numbers(CFX_F64, 1, (int64_t[]){s->oc}), *want = defined(s, x, w, b);
        CHECK(close_to(conv(s, x, w, b), want));
        CHECK(close_to(conv(s, cfx_to(x, cfx_i64), cfx_to(w, cfx_i64), cfx_to(b, cfx_i64)), want));
        x = cfx_to(x, cfx_f32), w = cfx_to(w, cfx_f32), b = cfx_to(b, cfx_f32);
        for (int round = 0; round < 2; round++)
            CHECK(close_to(conv(s, x, w, b), want));
        cfx_tensor *last = cfx_contiguous(x, CFX_KW(memory_format, cfx_channels_last));
        cfx_tensor *y = conv(s, last, w, b);
        CHECK(close_to(y, want));
        CHECK_INT(cfx_tensor_stride(y)[1], 1);
    }
    CHECK_OK();
}

TEST(conv_weights_may_change) {
    cfx_tensor *x = test_numbers(CFX_F32, 4, (int64_t[]){1, 16, 8, 8});
    cfx_tensor *w = test_numbers(CFX_F32, 4, (int64_t[]){16, 16, 3, 3}), *y = cfx_conv2d(x, w);
    CHECK(close_to(y, cfx_conv2d(x, w)));
    cfx_mul_(cfx_select(w, 0, 3), 2); /* through a view */
    cfx_tensor *other = cfx_conv2d(x, w);
    CHECK(close_to(cfx_select(other, 1, 3), cfx_mul(cfx_select(y, 1, 3), 2)));
    CHECK(close_to(cfx_select(other, 1, 4), cfx_select(y, 1, 4)));
    CHECK_OK();
}

/* <conv(x), g> = <x, transposed conv(g)>: each is the other's gradient. */
TEST(conv_transpose_is_the_adjoint) {
    for (int i = 0; i < 6; i++)
        CFX_SCOPE
    {
        const int stride = i / 2 + 1, rest = (10 + 2 - 3) % stride;
        cfx_dtype d = i % 2 ? CFX_F64 : CFX_F32;
        cfx_tensor *x = test_numbers(d, 4, (int64_t[]){2, 4, 10, 10});
        cfx_tensor *w = test_numbers(d, 4, (int64_t[]){6, 2, 3, 3});
        cfx_value s = cfx_list(stride, stride), one = cfx_list(1, 1);
        cfx_tensor *y = cfx_conv2d(x, w, cfx_none(), s, one, one, 2), *g = cfx_sin(y);
        cfx_tensor *back =
            cfx_conv_transpose2d(g, w, cfx_none(), s, one, cfx_list(rest, rest), 2, one);
        CHECK_INT(cfx_dim(back, 2), 10);
        double left = cfx_tensor_get(cfx_sum(cfx_mul(y, g)), 0), near = 1e-4 * fabs(left) + 1e-2;
        CHECK_NEAR(cfx_tensor_get(cfx_sum(cfx_mul(x, back)), 0), left, near);
        cfx_value yes = cfx_bool(true);
        cfx_value grads =
            cfx_convolution_backward(g, x, w, cfx_list(6), s, one, one, cfx_bool(false),
                                     cfx_list(0, 0), 2, cfx_list(yes, yes, yes));
        CHECK(close_to(cfx_tensor_at(grads, 0), back));
        cfx_tensor *by_weights = cfx_sum(cfx_mul(cfx_tensor_at(grads, 1), w));
        CHECK_NEAR(cfx_tensor_get(by_weights, 0), left, near);
        CHECK(close_to(cfx_tensor_at(grads, 2), cfx_sum(g, cfx_list(0, 2, 3))));
    }
    CHECK_OK();
}

/* Parts of the batch are threads'; their sums are added in order. */
TEST(the_gradient_of_weights_is_shared_out_by_images) {
    for (int64_t groups = 1; groups <= 2; groups++) {
        cfx_manual_seed(5);
        cfx_tensor *x = cfx_randn(cfx_list(7, 16, 26, 26)), *g = cfx_randn(cfx_list(7, 64, 24, 24));
        cfx_tensor *w = cfx_randn(cfx_list(64, 16 / groups, 3, 3)), *found[3];
        const cfx_value one = cfx_list(1, 1), none = cfx_list(0, 0);
        for (int i = 0; i < 3; i++) {
            cfx_set_num_threads(i ? 3 : 1);
            found[i] = cfx_tensor_at(cfx_convolution_backward(g, x, w, cfx_none(), one, none, one,
                                                              cfx_bool(false), none, groups,
                                                              cfx_list(0, 1, 0)), 1);
        }
        CHECK(close_to(found[0], found[1]));
        CHECK(cfx_integer(cfx_equal(found[1], found[2])));
        /* of one weight, by its definition */
        double sum = 0;
        for (int n = 0; n < 7; n++)
            for (int p = 0; p < 24 * 24; p++)
                sum += cfx_tensor_get(g, (n * 64 + 5) * 576 + p) *
                       cfx_tensor_get(x, (n * 16 + 3) * 676 + (p / 24 + 2) * 26 + p % 24 + 1);
        CHECK_NEAR(cfx_tensor_get(found[1], (5 * 16 / groups + 3) * 9 + 7), sum, 1e-3);
    }
    CHECK_OK();
}

TEST(conv_unbatched_same_and_empty) {
    cfx_tensor *x = test_numbers(CFX_F32, 2, (int64_t[]){3, 9});
    cfx_tensor *w = test_numbers(CFX_F32, 3, (int64_t[]){4, 3, 4});
    cfx_tensor *y = cfx_conv1d(x, w, cfx_none(), cfx_list(1), "same");
    CHECK_INT(cfx_tensor_ndim(y), 2);
    CHECK_INT(cfx_dim(y, 1), 9);
    CHECK_INT(cfx_dim(cfx_conv1d(x, w, cfx_none(), cfx_list(1), "valid"), 1), 6);
    cfx_tensor *none = test_numbers(CFX_F32, 4, (int64_t[]){0, 3, 8, 8});
    cfx_tensor *w2 = test_numbers(CFX_F32, 4, (int64_t[]){4, 3, 3, 3}),
               *empty = cfx_conv2d(none, w2);
    CHECK_STR(cfx_repr(cfx_ints_value(4, cfx_tensor_shape(empty))), "[0, 4, 6, 6]");
    cfx_tensor *half = test_numbers(CFX_BF16, 4, (int64_t[]){1, 3, 5, 5});
    CHECK_INT(cfx_tensor_dtype(cfx_conv2d(half, cfx_to(w2, cfx_bf16))), CFX_BF16);
    CHECK_OK();
}

/* Steps over almost nothing but border: the bytes below a window are no number of 64 bits. */
/* A weight of single points, or of one channel a group, is contiguous and channels last at once:
 * its strides say which, and so which the result is, in halves as in floats. */
TEST(conv_of_halves_is_the_same_in_any_memory_format) {
    for (int k = 0; k < 2; k++) {
        int64_t groups = k ? 4 : 1, points = k ? 3 : 1;
        cfx_tensor *x = cfx_to(cfx_randn(2, 4, 5, 6), cfx_bf16);
        cfx_tensor *w = cfx_to(cfx_randn(8, 4 / groups, points, points), cfx_bf16);
        cfx_tensor *last = cfx_clone(w, CFX_KW(memory_format, cfx_channels_last));
        cfx_tensor *a = cfx_conv2d(x, w, NULL, 1, 1, 1, groups);
        cfx_tensor *b = cfx_conv2d(x, last, NULL, 1, 1, 1, groups);
        CHECK(cfx_as_bool(cfx_equal(a, b)));
    }
}

TEST(conv_windows_may_reach_far) {
    const int64_t far = (int64_t)1 << 31;
    cfx_tensor *x = cfx_ones(cfx_list(1, 32768, 1, 1)), *w = cfx_ones(cfx_list(1, 32768, 2, 2));
    cfx_tensor *y = cfx_convolution(x, w, CFX_NONE, cfx_list(far - 1, far - 1),
                                    cfx_list(32767, far), cfx_list(32767, far), cfx_bool(0),
                                    cfx_list(0, 0), 1);
    CHECK_STR(cfx_tensor_str(y), "tensor([[[[32768.,     0.]]]])");
    x = cfx_ones(cfx_list(1, 4, 1, 1)), w = cfx_ones(cfx_list(4, 1, 2, 2));
    y = cfx_convolution(x, w, CFX_NONE, cfx_list(far, far), cfx_list(far, far), cfx_list(far, far),
                        cfx_bool(0), cfx_list(0, 0), 4);
    CHECK_STR(cfx_tensor_str(cfx_sum(y)), "tensor(16.)");
    CHECK_OK();
}

TEST(conv_errors) {
    cfx_tensor *x = test_numbers(CFX_F32, 4, (int64_t[]){1, 3, 8, 8});
    cfx_tensor *good = test_numbers(CFX_F32, 4, (int64_t[]){4, 3, 3, 3});
    cfx_conv2d(x, test_numbers(CFX_F32, 4, (int64_t[]){4, 4, 3, 3}));
    CHECK_ERROR("Given groups=1, weight of size [4, 4, 3, 3], expected input[1, 3, 8, 8] to have 4 "
                "channels, but got 3 channels instead");
    cfx_conv2d(x, good, test_numbers(CFX_F32, 1, (int64_t[]){5}));
    CHECK_ERROR("Given weight of size [4, 3, 3, 3], expected bias to be 1-dimensional with 4 "
                "elements, but got bias of size [5] instead");
    cfx_conv2d(x, test_numbers(CFX_F32, 4, (int64_t[]){4, 3, 9, 9}));
    CHECK_ERROR("Calculated padded input size per channel: (8 x 8). Kernel size: (9 x 9). Kernel "
                "size can't be greater than actual input size");
    cfx_conv2d(x, good, cfx_none(), 0);
    CHECK_ERROR("non-positive stride is not supported");
    cfx_conv2d(x, good, cfx_none(), 1, -1);
    CHECK_ERROR("negative padding is not supported");
    cfx_conv2d(x, good, cfx_none(), 2, "same");
    CHECK_ERROR("padding='same' is not supported for strided convolutions");
    cfx_conv2d(x, good, cfx_none(), 1, "foo");
    CHECK_ERROR("Invalid padding string: 'foo'");
    cfx_conv2d(test_numbers(CFX_F32, 2, (int64_t[]){3, 8}), good);
    CHECK_ERROR("Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: "
                "[3, 8]");
    cfx_conv2d(x, cfx_to(good, cfx_f64));
    CHECK_ERROR("expected scalar type Float but found Double");
    cfx_conv2d(x, good, test_numbers(CFX_F64, 1, (int64_t[]){4}));
    CHECK_ERROR("Input type (float) and bias type (double) should be the same");
    cfx_conv_transpose2d(x, good);
    CHECK_ERROR("Given transposed=1, weight of size [4, 3, 3, 3], expected input[1, 3, 8, 8] to "
                "have 4 channels, but got 3 channels instead");
    cfx_conv2d(x, good, cfx_none(), 1, INT64_MAX / 2);
    CHECK_ERROR("out of range");
}

/* Images are shared by threads; what each gives is the same. */
TEST(transposed_convolutions_of_a_batch_are_the_same_on_any_number_of_threads) {
    cfx_tensor *x = cfx_randn(7, 16, 40, 40), *w = cfx_randn(16, 24, 3, 3), *one;
    cfx_set_num_threads(1);
    one = cfx_conv_transpose2d(x, w);
    for (int threads = 2; threads <= 5; threads += 3) {
        cfx_set_num_threads(threads);
        CHECK(cfx_is_true(cfx_tensor_value(cfx_all(cfx_eq(one, cfx_conv_transpose2d(x, w))))));
    }
    CHECK_OK();
}
