/* Transforms against their definition, for lengths of all kinds; inverses; windows. */
#include <cfx/ops.h>

#include "numbers.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>

/* `lines` x n complex numbers. */
static cfx_tensor *signal(cfx_dtype dtype, int64_t lines, int64_t n) {
    test_seed(7);
    int64_t count = lines * n * 2;
    double *v = calloc((size_t)count + 1, sizeof *v);
    float *f = calloc((size_t)count + 1, sizeof *f);
    for (int64_t i = 0; i < count; i++)
        f[i] = (float)(v[i] = test_draw_real());
    cfx_tensor *t = cfx_tensor_new(dtype, 2, (int64_t[]){lines, n},
                                   dtype == CFX_C64 ? (void *)f : (void *)v);
    free(v);
    free(f);
    return t;
}

/* Element i of a complex tensor in order of its memory. */
static double complex element(const cfx_tensor *t, int64_t i) {
    if (cfx_tensor_dtype(t) == CFX_C64) {
        const float *f = cfx_tensor_data(t);
        return f[2 * i] + f[2 * i + 1] * I;
    }
    const double *v = cfx_tensor_data(t);
    return v[2 * i] + v[2 * i + 1] * I;
}

/* The largest difference between y and the transform of x by its definition, along the last dim. */
static double error_of(const cfx_tensor *x, const cfx_tensor *y, int64_t lines, int64_t n) {
    double worst = 0;
    for (int64_t l = 0; l < lines; l++)
        for (int64_t k = 0; k < n; k++) {
            double complex sum = 0;
            for (int64_t j = 0; j < n; j++)
                sum += element(x, l * n + j) *
                       cexp(-2 * 3.14159265358979323846 * I * (double)(j * k % n) / (double)n);
            worst = fmax(worst, cabs(sum - element(y, l * n + k)));
        }
    return worst;
}

TEST(fft_of_every_length) {
    int64_t lengths[] = {64, 97, 100, 105, 121, 128, 169, 187, 210, 211, 243, 256, 2 * 113};
    for (int64_t i = 1; i < 40 + 13; i++) {
        int64_t n = i < 40 ? i : lengths[i - 40];
        CFX_SCOPE {
            cfx_tensor *x = signal(CFX_C128, 3, n), *y = cfx_fft_fft(x), *back = cfx_fft_ifft(y);
            CHECK_NEAR(error_of(x, y, 3, n), 0, 1e-11);
            for (int64_t k = 0; k < 3 * n; k += n / 2 + 1)
                CHECK_NEAR(cabs(element(back, k) - element(x, k)), 0, 1e-13);
            cfx_tensor *f = signal(CFX_C64, 2, n);
            CHECK_NEAR(error_of(f, cfx_fft_fft(f), 2, n), 0, 2e-5 * sqrt((double)n));
            CHECK_OK();
        }
    }
}

TEST(fft_of_many_lines) { /* more than are taken at once, and a remainder */
    cfx_tensor *x = signal(CFX_C128, 37, 30);
    CHECK_NEAR(error_of(x, cfx_fft_fft(x), 37, 30), 0, 1e-11);
    CHECK_OK();
}

TEST(fft_along_another_dim) {
    cfx_tensor *x = signal(CFX_C128, 6, 5);
    cfx_tensor *y = cfx_contiguous(cfx_transpose(cfx_fft_fft(x, NULL, 0), 0, 1));
    CHECK_NEAR(error_of(cfx_contiguous(cfx_transpose(x, 0, 1)), y, 5, 6), 0, 1e-12);
    cfx_tensor *both = cfx_fft_fftn(x), *two = cfx_fft_fft(cfx_fft_fft(x, NULL, 0), NULL, 1);
    for (int64_t i = 0; i < 30; i++)
        CHECK_NEAR(cabs(element(both, i) - element(cfx_contiguous(two), i)), 0, 1e-12);
    CHECK_OK();
}

TEST(fft_of_real_numbers) {
    double v[] = {1, 2, 0, -1, 3, 5, 2};
    for (int64_t n = 2; n <= 7; n++) {
        cfx_tensor *x = cfx_tensor_new(CFX_F64, 1, &n, v);
        cfx_tensor *half = cfx_fft_rfft(x), *full = cfx_fft_fft(x), *h = cfx_fft_ihfft(x);
        CHECK_INT(cfx_tensor_numel(half), n / 2 + 1);
        CHECK_INT(cfx_tensor_dtype(full), CFX_C128);
        for (int64_t k = 0; k < n; k++) {
            double complex other = k <= n / 2 ? element(half, k) : conj(element(half, n - k));
            CHECK_NEAR(cabs(element(full, k) - other), 0, 1e-13);
            if (k <= n / 2)
                CHECK_NEAR(cabs(element(h, k) - conj(element(half, k)) / (double)n), 0, 1e-13);
        }
        cfx_tensor *back = cfx_fft_irfft(half, n);
        for (int64_t k = 0; k < n; k++)
            CHECK_NEAR(cfx_tensor_get(back, k), v[k], 1e-13);
        CHECK_NEAR(cfx_tensor_get(cfx_fft_hfft(h, n), 1), v[1], 1e-13);
    }
    CHECK_OK();
}

TEST(fft_norms_and_sizes) {
    cfx_tensor *x = signal(CFX_C128, 1, 8);
    double complex a = element(cfx_fft_fft(x), 3);
    CHECK_NEAR(cabs(element(cfx_fft_fft(x, NULL, -1, "ortho"), 3) - a / sqrt(8)), 0, 1e-13);
    CHECK_NEAR(cabs(element(cfx_fft_fft(x, NULL, -1, "forward"), 3) - a / 8), 0, 1e-13);
    CHECK_INT(cfx_dim(cfx_fft_fft(x, 12), 1), 12);
    CHECK_INT(cfx_dim(cfx_fft_fft(x, 5), 1), 5);
    int64_t k[] = {1, 2, 3, 4};
    cfx_tensor *ints = cfx_tensor_new(CFX_I64, 1, (int64_t[]){4}, k);
    CHECK_INT(cfx_tensor_dtype(cfx_fft_fft(ints)), CFX_C64);
    CHECK_NEAR(creal(element(cfx_fft_fft(ints), 0)), 10, 1e-6);
    cfx_tensor *s = cfx_fft_fftshift(ints);
    CHECK_INT(cfx_tensor_get(s, 0), 3);
    CHECK_INT(cfx_tensor_get(cfx_fft_ifftshift(s), 0), 1);
    CHECK_NEAR(cfx_tensor_get(cfx_fft_fftfreq(5), 3), -0.4, 1e-7);
    CHECK_NEAR(cfx_tensor_get(cfx_fft_rfftfreq(5, 0.5), 2), 0.8, 1e-7);
    CHECK_OK();
}

TEST(fft_errors) {
    cfx_tensor *x = signal(CFX_C64, 2, 3);
    cfx_fft_fft(x, 0);
    CHECK_ERROR("Invalid number of data points (0) specified");
    cfx_fft_fft(x, NULL, 5);
    CHECK_ERROR("Dimension out of range (expected to be in range of [-2, 1], but got 5)");
    cfx_fft_fft(x, NULL, 0, "unit");
    CHECK_ERROR("Invalid normalization mode: \"unit\"");
    cfx_fft_rfft(x);
    CHECK_ERROR("rfft expects a real input tensor, but got ComplexFloat");
    cfx_fft_fftn(x, NULL, cfx_list(0, 0));
    CHECK_ERROR("FFT dims must be unique");
    cfx_fft_fftn(x, cfx_list(1, 2), cfx_list(0));
    CHECK_ERROR("When given, dim and shape arguments must have the same length");
    cfx_fft_fft(cfx_tensor_new(CFX_F16, 1, (int64_t[]){2}, NULL));
    CHECK_ERROR("Unsupported dtype Half");
    cfx_fft_fft(cfx_tensor_new(CFX_F32, 0, NULL, NULL));
    CHECK_ERROR("Dimension specified as -1 but tensor has no dimensions");
    cfx_tensor *none = cfx_tensor_new(CFX_C64, 2, (int64_t[]){0, 4}, NULL);
    CHECK_INT(cfx_tensor_numel(cfx_fft_fft(none)), 0);
    CHECK_OK();
}

TEST(fft_windows) {
    CHECK_NEAR(cfx_tensor_get(cfx_hann_window(5), 1), 0.3454915, 1e-6);
    CHECK_NEAR(cfx_tensor_get(cfx_hann_window(5, cfx_bool(false)), 2), 1, 1e-7);
    CHECK_NEAR(cfx_tensor_get(cfx_hamming_window(5), 0), 0.08, 1e-6);
    CHECK_NEAR(cfx_tensor_get(cfx_blackman_window(5), 2), 0.8492299, 1e-6);
    CHECK_NEAR(cfx_tensor_get(cfx_bartlett_window(5), 3), 0.8, 1e-6);
    CHECK_NEAR(cfx_tensor_get(cfx_kaiser_window(5), 1), 0.1017197, 1e-6);
    CHECK_NEAR(cfx_tensor_get(cfx_hann_window(1), 0), 1, 0);
    CHECK_INT(cfx_tensor_numel(cfx_kaiser_window(0)), 0);
    CHECK_OK();
    cfx_hann_window(-1);
    CHECK_ERROR("hann_window requires non-negative window_length, got window_length=-1");
    cfx_hann_window(4, CFX_KW(dtype, cfx_i64));
    CHECK_ERROR("hann_window expects floating point dtypes");
}

/* A signal comes back from its frames, whatever the window that covers it. */
TEST(stft_and_back) {
    test_seed(3);
    float v[200];
    for (int i = 0; i < 200; i++)
        v[i] = (float)test_draw_real();
    cfx_tensor *x = cfx_tensor_new(CFX_F32, 2, (int64_t[]){2, 100}, v);
    cfx_tensor *window = cfx_hann_window(16), *s;
    s = cfx_stft(x, 16, 4, 16, window, CFX_KW(return_complex, cfx_bool(true)));
    CHECK_INT(cfx_dim(s, 1), 9);
    CHECK_INT(cfx_dim(s, 2), 26);
    CHECK_INT(cfx_tensor_stride(s)[1], 1);
    cfx_tensor *back = cfx_istft(s, 16, 4, 16, window);
    CHECK_INT(cfx_dim(back, 1), 100);
    for (int i = 0; i < 200; i += 7)
        CHECK_NEAR(cfx_tensor_get(back, i), v[i], 1e-5);
    CHECK_INT(cfx_dim(cfx_istft(s, 16, 4, 16, window, CFX_KW(length, 95)), 1), 95);
    s = cfx_stft(cfx_select(x, 0, 0), 16, 5, 10, cfx_hann_window(10), cfx_bool(false),
                 CFX_KW(onesided, cfx_bool(false)), CFX_KW(return_complex, cfx_bool(true)));
    CHECK_INT(cfx_tensor_ndim(s), 2);
    CHECK_INT(cfx_dim(s, 0), 16);
    CHECK_OK();
    cfx_stft(x, 0, CFX_KW(return_complex, cfx_bool(true)));
    CHECK_ERROR("expected 0 < n_fft < 100, but got n_fft=0");
    cfx_stft(x, 16);
    CHECK_ERROR("stft requires the return_complex parameter be given for real inputs");
    cfx_istft(x, 16);
    CHECK_ERROR("istft requires a complex-valued input tensor");
}

TEST(unfold_backward_adds_windows) {
    float v[] = {1, 1, 1, 1, 1, 1};
    cfx_tensor *g = cfx_tensor_new(CFX_F32, 2, (int64_t[]){2, 3}, v);
    cfx_tensor *r = cfx_unfold_backward(g, cfx_list(5), 0, 3, 2);
    CHECK_NEAR(cfx_tensor_get(r, 2), 2, 0);
    CHECK_NEAR(cfx_tensor_get(r, 4), 1, 0);
    CHECK_OK();
    cfx_unfold_backward(g, cfx_list(9), 0, 3, 2);
    CHECK_ERROR("unfold_backward");
}
