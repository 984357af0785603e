/* Lines that are scanned, sorted and searched, against cfx's own operators. */
#include "kernels.h"
#include "numbers.h"
#include "player.h"

#include <cfx/ops.h>

#include <math.h>

static bool scans(cfx_dtype dtype, const int64_t *shape, int dim, bool product) {
    bool held;
    CFX_SCOPE {
        const bool whole = dtype == CFX_I64;
        cfx_tensor *x = whole ? test_numbers(dtype, 3, shape) : test_noise(dtype, 3, shape);
        cfx_tensor *out = cfx_zeros_like(x);
        cfx_tensor *exact = whole ? x : cfx_to(x, cfx_dtype_value(CFX_F64));
        const cfx__cuda_array ax = player_array(0, x), ao = player_array(1, out);
        cfx__cuda_work work = {0};
        void *to = player_copy(out);
        held = CHECK(cfx__cuda_scan(&ax, &ao, dim, product, &work)) &&
               PLAY(&work, player_copy(x), to) &&
               PLAYED(to, out, product ? cfx_cumprod(exact, dim) : cfx_cumsum(exact, dim),
                      whole ? 0 : dtype == CFX_BF16 ? 2e-2 : 1e-5);
    }
    return held;
}

TEST(cuda_scan) {
    if (!player_runs())
        return;
    CHECK(scans(CFX_F32, (int64_t[]){2, 1, 2500}, 2, false) &&
          scans(CFX_F32, (int64_t[]){2, 9, 700}, 1, false) &&
          scans(CFX_F64, (int64_t[]){3, 4, 1}, 2, true) &&
          scans(CFX_I64, (int64_t[]){1, 30, 5}, 1, false) &&
          scans(CFX_BF16, (int64_t[]){4, 20, 1}, 1, true));
}

/* Lines with equal elements, both zeros, infinities and NaN among them. */
static cfx_tensor *mixed(cfx_dtype dtype, int64_t a, int64_t b, int64_t c) {
    cfx_tensor *x = test_numbers(dtype, 3, (int64_t[]){a, b, c});
    float *v = cfx_tensor_data(x);
    for (int64_t i = 0; dtype == CFX_F32 && i < a * b * c; i++)
        v[i] = i % 11 == 3   ? NAN
               : i % 13 == 5 ? -0.0f
               : i % 17 == 1 ? INFINITY
               : i % 19 == 1 ? -INFINITY
                             : v[i];
    return x;
}

static bool sorts(cfx_dtype dtype, int64_t a, int64_t b, int64_t c, int dim, bool down,
                  int64_t keep) {
    bool held;
    CFX_SCOPE {
        cfx_tensor *x = mixed(dtype, a, b, c);
        cfx_value want = cfx_sort(x, CFX_KW(stable, true), CFX_KW(dim, dim),
                                  CFX_KW(descending, down));
        cfx_tensor *first = cfx_narrow(cfx_tensor_at(want, 0), dim, 0, keep);
        cfx_tensor *second = cfx_narrow(cfx_tensor_at(want, 1), dim, 0, keep);
        cfx_tensor *values = cfx_contiguous(cfx_zeros_like(cfx_contiguous(first)));
        cfx_tensor *indices = cfx_contiguous(cfx_zeros_like(cfx_contiguous(second)));
        const cfx__cuda_array ax = player_array(0, x), av = player_array(1, values);
        const cfx__cuda_array ai = player_array(2, indices);
        cfx__cuda_work work = {0};
        void *v = player_copy(values), *i = player_copy(indices);
        held = CHECK_OK() && CHECK(cfx__cuda_sort(&ax, &av, &ai, dim, down, &work)) &&
               PLAY(&work, player_copy(x), v, i) && PLAYED(i, indices, second, 0) &&
               PLAYED(v, values, first, 0);
    }
    return held;
}

TEST(cuda_sort) {
    if (!player_runs())
        return;
    CHECK(sorts(CFX_F32, 2, 1, 100, 2, false, 100) && sorts(CFX_F32, 2, 60, 2, 1, true, 7) &&
          sorts(CFX_I64, 1, 1, 4500, 2, false, 4500) && sorts(CFX_F32, 1, 2, 2049, 2, true, 5) &&
          sorts(CFX_BF16, 1, 3, 40, 2, false, 1) && sorts(CFX_F64, 1, 1, 30, 2, true, 30));
}

TEST(cuda_extreme) {
    if (!player_runs())
        return;
    for (int least = 0; least < 2; least++)
        for (int dim = 0; dim < 3; dim++)
            CFX_SCOPE {
                cfx_tensor *x = mixed(CFX_F32, 3, 2, 300 * (1 + least));
                cfx_tensor *want = least ? cfx_argmin(x, dim) : cfx_argmax(x, dim);
                cfx_tensor *out = cfx_zeros_like(want);
                const cfx__cuda_array ax = player_array(0, x), none = PLAYER_NONE;
                const cfx__cuda_array ao = player_array(1, out);
                cfx__cuda_work work = {0};
                void *to = player_copy(out);
                CHECK_OK();
                if (CHECK(cfx__cuda_extreme(&ax, &none, &ao, dim, least, &work)) &&
                    PLAY(&work, player_copy(x), to))
                    PLAYED(to, out, want, 0);
            }
}
