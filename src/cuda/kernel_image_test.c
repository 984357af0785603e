/* Windows of images and images at other sizes, against cfx's own operators. */
#include "kernels_more.h"
#include "numbers.h"
#include "player.h"

#include <cfx/ops.h>

#include <math.h>

static cfx_tensor *laid(cfx_tensor *t, bool last) {
    return last ? cfx_contiguous(t, CFX_KW(memory_format, cfx_channels_last)) : cfx_contiguous(t);
}

/* One pooling; max gives where its elements stand too. */
static bool pools(cfx__cuda_pool_call call, cfx_tensor *x, cfx_value want, bool last) {
    cfx_tensor *first = call.max ? cfx_tensor_at(want, 0) : cfx_as_tensor(want);
    cfx_tensor *out = laid(cfx_zeros_like(first), last), *where = NULL;
    call.x = player_array(0, x), call.out = player_array(1, out), call.indices = PLAYER_NONE;
    if (call.max) {
        where = laid(cfx_zeros_like(cfx_tensor_at(want, 1)), last);
        call.indices = player_array(2, where);
    }
    cfx__cuda_work work = {0};
    void *to = player_copy(out), *stand = where ? player_copy(where) : NULL;
    return CHECK_OK() && CHECK(cfx__cuda_pool(&call, &work)) &&
           PLAY(&work, player_copy(x), to, stand) && PLAYED(to, out, first, 1e-6) &&
           (!where || PLAYED(stand, where, cfx_tensor_at(want, 1), 0));
}

TEST(cuda_pool) {
    if (!player_runs())
        return;
    for (int last = 0; last < 2; last++)
        CFX_SCOPE {
            cfx_tensor *x = test_noise(CFX_F32, 4, (int64_t[]){2, 5, 9, 8});
            ((float *)cfx_tensor_data(x))[40] = NAN;
            x = laid(x, last);
            cfx__cuda_pool_call c = {.max = true, .kernel = {3, 2}, .stride = {2, 1},
                                     .padding = {1, 1}, .dilation = {2, 1}};
            CHECK(pools(c, x, cfx_max_pool2d_with_indices(x, cfx_list(3, 2), cfx_list(2, 1), 1,
                                                          cfx_list(2, 1)), last));
            c = (cfx__cuda_pool_call){.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1},
                                      .dilation = {1, 1}, .count_padding = true};
            CHECK(pools(c, x, cfx_tensor_value(cfx_avg_pool2d(x, 3, 2, 1, true)), last));
            c.count_padding = false; /* windows may hang over the end */
            CHECK(pools(c, x, cfx_tensor_value(cfx_avg_pool2d(x, 3, 2, 1, true, false)), last));
            c = (cfx__cuda_pool_call){.adaptive = true};
            CHECK(pools(c, x, cfx_tensor_value(cfx_adaptive_avg_pool2d(x, cfx_list(4, 3))), last));
            cfx_tensor *large = laid(test_noise(CFX_F32, 4, (int64_t[]){2, 37, 20, 31}), last);
            CHECK(pools(c, large, cfx_tensor_value(cfx_adaptive_avg_pool2d(large, 1)), last));
            cfx_tensor *part = cfx_slice(large, 3, 1, 30, 1); /* rows with gaps */
            CHECK(pools(c, part, cfx_tensor_value(cfx_adaptive_avg_pool2d(part, 1)), last));
            c.max = true;
            CHECK(pools(c, x, cfx_adaptive_max_pool2d(x, cfx_list(4, 3)), last));
        }
}

static bool scales(cfx_tensor *x, cfx_tensor *want, bool linear, bool corners, bool exact,
                   bool last) {
    cfx_tensor *out = laid(cfx_zeros_like(want), last);
    const cfx__cuda_upsample_call c = {player_array(0, x), player_array(1, out), linear, corners,
                                       exact, {0, 0}};
    cfx__cuda_work work = {0};
    void *to = player_copy(out);
    return CHECK_OK() && CHECK(cfx__cuda_upsample(&c, &work)) && PLAY(&work, player_copy(x), to) &&
           PLAYED(to, out, want, 2e-6);
}

TEST(cuda_upsample) {
    if (!player_runs())
        return;
    for (int last = 0; last < 2; last++)
        CFX_SCOPE {
            cfx_tensor *x = laid(test_noise(CFX_F32, 4, (int64_t[]){2, 3, 5, 4}), last);
            cfx_value to = cfx_list(11, 7), less = cfx_list(3, 2);
            CHECK(scales(x, cfx_upsample_nearest2d(x, to), false, false, false, last) &&
                  scales(x, cfx_upsample_nearest2d(x, less), false, false, false, last) &&
                  scales(x, cfx_aten__upsample_nearest_exact2d(x, to), false, false, true, last) &&
                  scales(x, cfx_upsample_bilinear2d(x, to, false), true, false, false, last) &&
                  scales(x, cfx_upsample_bilinear2d(x, less, true), true, true, false, last));
        }
}
