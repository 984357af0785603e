/* Products and convolutions by our own kernels, against sums in double precision. */
#include "test.h"

#include <cfx/ops.h>

#include <math.h>

#include "conv_tile.h"

/* Numbers that float32 sums exactly, so that any order of adding gives the same. */
static float *numbers(int64_t n, int salt) {
    float *x = cfx__alloc((size_t)(n + 64) * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((i * 7 + salt * 5 + i / 11) % 13 - 6);
    return x;
}

/* The largest difference of C = bounded(A W + bias + before) by tiles to the same by hand. */
static double product_error(int64_t m, int64_t n, int64_t k, int64_t a_row, cfx_precision kept,
                            bool add) {
    float *a = numbers(m * a_row, 1), *w = numbers(k * n, 2), *bias = numbers(n, 3);
    float *before = numbers(m * n, 4), *c = numbers(m * n, 4);
    const int64_t columns = (n + tile_width() - 1) / tile_width() * tile_width();
    float *padded = cfx__alloc0((size_t)columns * sizeof *padded);
    void *panels = cfx__alloc_aligned(tile_panels_size(k, n, kept));
    memcpy(padded, bias, (size_t)n * sizeof *bias);
    tile_panels_make(&(tile_matrix){k, n, w, n, 1, NULL, kept}, panels);
    tile_epilogue e = {.add = add, .bounded = true, .low = -40, .high = 50};
    product p = {.m = m, .n = n, .k = k, .a = a, .a_row = a_row, .line = m, .panels = panels,
                 .kept = kept, .bias = padded, .c = c, .c_row = n, .epilogue = &e};
    product_run(&p);
    double most = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = bias[j] + (add ? before[i * n + j] : 0);
            for (int64_t q = 0; q < k; q++)
                sum += (double)a[i * a_row + q] * w[q * n + j];
            sum = sum < -40 ? -40 : sum > 50 ? 50 : sum;
            most = fmax(most, fabs(sum - c[i * n + j]));
        }
    cfx__free(a), cfx__free(w), cfx__free(bias), cfx__free(before), cfx__free(c);
    cfx__free(padded), cfx__free(panels);
    return most;
}

TEST(a_product_in_tiles_is_exact_at_every_size) {
    const int64_t sizes[][4] = {{1, 1, 1, 1},      {1, 33, 70, 70},   {2, 32, 5, 9},
                                {3, 31, 64, 64},   {13, 17, 3, 3},    {14, 64, 100, 101},
                                {29, 65, 33, 33},  {100, 40, 17, 20}, {9, 70, 2100, 2100},
                                {20, 33, 1024, 1024}, {30, 48, 21, 21}, {5, 16, 40, 40}};
    for (int threads = 1; threads <= 3; threads += 2) {
        cfx_set_num_threads(threads);
        for (int i = 0; i < COUNT(sizes); i++)
            for (int how = 0; how < 6; how++)
                CHECK_NEAR(product_error(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3],
                                         (cfx_precision)(how / 2), how % 2), 0, 0);
    }
}

/* Equal columns have equal sums, also those behind the last whole panel. */
TEST(a_product_in_tiles_adds_every_column_in_one_order) {
    enum { N = 1000, K = 70 };
    float *w = numbers(N * K, 1), *a = numbers(3 * K, 2), *c = numbers(3 * N, 3);
    void *panels = cfx__alloc_aligned(tile_panels_size(K, N, CFX_PRECISION_F32));
    for (int i = 0; i < N * K; i++)
        w[i] = 1.0f / (float)(i / N + 3);
    for (int i = 0; i < 3 * K; i++)
        a[i] = 1.0f / (float)(i + 7);
    tile_panels_make(&(tile_matrix){K, N, w, N, 1, NULL, CFX_PRECISION_F32}, panels);
    for (int m = 1; m <= 3; m++) {
        tile_epilogue e = {0};
        product p = {.m = m, .n = N, .k = K, .a = a, .a_row = K, .line = m, .panels = panels,
                     .kept = CFX_PRECISION_F32, .c = c, .c_row = N, .epilogue = &e};
        product_run(&p);
        int other = 0;
        for (int i = 0; i < m * N; i++)
            other += c[i] != c[i / N * N];
        CHECK_INT(other, 0);
    }
    cfx__free(w), cfx__free(a), cfx__free(c), cfx__free(panels);
}

/* The same bits on any number of threads. */
TEST(a_product_is_the_same_on_any_number_of_threads) {
    cfx_tensor *x = cfx_randn(37, 130), *w = cfx_randn(200, 130), *b = cfx_randn(200), *first;
    cfx_set_num_threads(1);
    first = cfx_linear(x, w, b);
    for (int threads = 2; threads <= 8; threads *= 2) {
        cfx_set_num_threads(threads);
        CHECK(cfx_is_true(cfx_tensor_value(cfx_all(cfx_eq(first, cfx_linear(x, w, b))))));
    }
}

/* ---- convolution ----------------------------------------------------------------------------- */

typedef struct {
    int64_t batch, ic, oc, h, w, kh, kw, stride, pad, dilation, groups;
} shape;

static double at(const float *x, int64_t n, int64_t c, int64_t h, int64_t w, const int64_t *i) {
    (void)n;
    bool inside = i[2] >= 0 && i[2] < h && i[3] >= 0 && i[3] < w;
    return inside ? x[((i[0] * c + i[1]) * h + i[2]) * w + i[3]] : 0;
}

/* The largest difference of cfx_conv2d, in order and channels last, to sums by hand. */
static double conv_error(const shape *s, bool last) {
    const int64_t ig = s->ic / s->groups, og = s->oc / s->groups;
    cfx_tensor *x = cfx_sub(cfx_randint(0, 9, cfx_list(s->batch, s->ic, s->h, s->w)), 4.0);
    cfx_tensor *w = cfx_sub(cfx_randint(0, 9, cfx_list(s->oc, ig, s->kh, s->kw)), 4.0);
    cfx_tensor *b = cfx_sub(cfx_randint(0, 9, cfx_list(s->oc)), 4.0);
    cfx_value format = cfx_memory_format_value(CFX_CHANNELS_LAST);
    cfx_tensor *given = last ? cfx_contiguous(x, CFX_KW(memory_format, format)) : x;
    cfx_tensor *y = cfx_contiguous(cfx_conv2d(given, w, b, s->stride, s->pad, s->dilation,
                                              s->groups));
    if (!cfx_ok())
        return INFINITY;
    const float *xs = (const float *)x->data, *ws = (const float *)w->data;
    double most = 0;
    for (int64_t i = 0; i < y->numel; i++) {
        const int64_t ox = i % y->shape[3], oy = i / y->shape[3] % y->shape[2];
        const int64_t o = i / y->shape[3] / y->shape[2] % s->oc;
        double sum = ((const float *)b->data)[o];
        for (int64_t q = 0; q < ig * s->kh * s->kw; q++) {
            const int64_t kx = q % s->kw, ky = q / s->kw % s->kh, c = q / s->kw / s->kh;
            const int64_t from[] = {i / y->shape[3] / y->shape[2] / s->oc, o / og * ig + c,
                                    oy * s->stride - s->pad + ky * s->dilation,
                                    ox * s->stride - s->pad + kx * s->dilation};
            sum += at(xs, s->batch, s->ic, s->h, s->w, from) *
                   ws[((o * ig + c) * s->kh + ky) * s->kw + kx];
        }
        most = fmax(most, fabs(sum - ((const float *)y->data)[i]));
    }
    return most;
}

TEST(a_convolution_is_exact_at_every_geometry) {
    const shape shapes[] = {
        {1, 3, 16, 15, 17, 3, 3, 2, 1, 1, 1},   {2, 8, 33, 9, 20, 3, 3, 1, 1, 1, 1},
        {1, 16, 40, 14, 14, 1, 1, 1, 0, 1, 1},  {2, 16, 40, 13, 15, 1, 1, 2, 0, 1, 1},
        {1, 4, 8, 20, 31, 7, 7, 2, 3, 1, 1},    {1, 5, 7, 12, 12, 3, 2, 1, 2, 2, 1},
        {2, 32, 32, 10, 11, 3, 3, 1, 1, 1, 2},  {1, 24, 48, 8, 8, 1, 1, 1, 0, 1, 3},
        {1, 40, 40, 14, 13, 3, 3, 1, 1, 1, 40}, {2, 33, 33, 9, 30, 5, 5, 2, 2, 1, 33},
        {1, 20, 20, 7, 7, 3, 3, 1, 2, 2, 20},   {1, 6, 6, 5, 5, 3, 3, 3, 1, 1, 6},
        {1, 8, 8, 1, 1, 3, 3, 1, 1, 1, 1},      {1, 4, 4, 6, 6, 3, 3, 4, 3, 1, 1},
        {3, 64, 65, 7, 7, 3, 3, 1, 1, 1, 1},    {1, 8, 16, 3, 3, 1, 1, 1, 1, 1, 1},
    };
    cfx_manual_seed(3);
    for (int threads = 1; threads <= 3; threads += 2)
        for (int i = 0; i < COUNT(shapes); i++) {
            cfx_set_num_threads(threads);
            CHECK_NEAR(conv_error(&shapes[i], false), 0, 0);
            CHECK_NEAR(conv_error(&shapes[i], true), 0, 0);
        }
}

/* What is not a number stays none, also behind an activation in the same kernel. */
TEST(an_epilogue_keeps_what_is_not_a_number) {
    tile_epilogue e;
    cfx__epilogue posts = {.n = 3};
    const cfx_op *ops[] = {&cfx_op_relu,  &cfx_op_relu6, &cfx_op_silu,      &cfx_op_sigmoid,
                           &cfx_op_tanh,  &cfx_op_gelu,  &cfx_op_hardswish, &cfx_op_hardtanh};
    cfx_value args[] = {cfx_none(), cfx_float(-1), cfx_float(1)};
    for (int i = 0; i < COUNT(ops); i++) {
        for (int q = 0; q < posts.n; q++)
            posts.post[q] = (cfx__post){(cfx_op *)ops[q ? i : 0], args};
        CHECK(tile_epilogue_of(&posts, &e) && e.bounded && e.n == 2);
        float x[40];
        for (int q = 0; q < COUNT(x); q++)
            x[q] = NAN;
        tile_finish(&e, x, 20, 2, 20);
        for (int q = 0; q < COUNT(x); q++)
            CHECK(isnan(x[q]));
    }
}

/* Against double precision; the error is largest where sigmoid is 1e-37. */
TEST(activations_of_an_epilogue_are_exact_to_some_units) {
    cfx_op *const ops[] = {&cfx_op_silu, &cfx_op_sigmoid};
    cfx_value args[] = {cfx_none()};
    for (int i = 0; i < COUNT(ops); i++) {
        cfx__epilogue posts = {.n = 1, .post = {{ops[i], args}}};
        tile_epilogue e;
        CHECK(tile_epilogue_of(&posts, &e));
        double most = 0;
        for (int from = -8600; from < 9000; from += 60) {
            float x[3 * 25], y[3 * 25];
            for (int q = 0; q < COUNT(x); q++)
                x[q] = y[q] = 0.01f * (float)(from + q);
            tile_finish(&e, y, 25, 3, 20);
            for (int q = 0; q < COUNT(x); q++) {
                const double sigmoid = 1 / (1 + exp(-(double)x[q]));
                const double want = q % 25 >= 20 ? x[q] : i ? sigmoid : x[q] * sigmoid;
                most = fmax(most, fabs(y[q] - want) / fmax(fabs(want), 1e-37));
            }
        }
        CHECK_NEAR(most, 0, 2e-6);
        float ends[] = {INFINITY, -INFINITY, -1000, 1000};
        tile_finish(&e, ends, 4, 1, 4);
        CHECK_NEAR(ends[0], i ? 1 : INFINITY, 0);
        CHECK(i ? ends[1] == 0 : isnan(ends[1]));
        CHECK_NEAR(ends[2], 0, 1e-36);
        CHECK_NEAR(ends[3], i ? 1 : 1000, 0);
    }
}

/* Weights that halves hold exactly give the same; others what their rounding gives. */
TEST(weights_are_kept_in_what_was_asked_for) {
    float w[6] = {1, -2, 0.5f, 1.0009765625f, 3, 1 + 1.0f / 64}, x[2] = {1, 1}, y[3];
    const double want[3][3] = {{2.0009765625, 1, 1.515625}, {2, 1, 1.515625},
                               {2.0009765625, 1, 1.515625}};
    for (int kept = 0; kept < 3; kept++) {
        const tile_matrix m = {2, 3, w, 3, 1, NULL, (cfx_precision)kept};
        const tile_epilogue none = {0};
        void *panels = cfx__alloc_aligned(tile_panels_size(2, 3, m.kept));
        tile_panels_make(&m, panels);
        product_run(&(product){.m = 1, .n = 3, .k = 2, .a = x, .a_row = 2, .line = 1,
                               .panels = panels, .kept = m.kept, .c = y, .c_row = 3,
                               .epilogue = &none});
        for (int i = 0; i < 3; i++)
            CHECK_NEAR(y[i], want[kept][i], 0);
        cfx__free(panels);
    }
    CHECK_INT(cfx_set_precision(CFX_PRECISION_BF16), CFX_PRECISION_F32);
    CHECK_INT(cfx_set_precision((cfx_precision)9), CFX_PRECISION_BF16);
    CHECK_INT(cfx_get_precision(), CFX_PRECISION_F32);
}
