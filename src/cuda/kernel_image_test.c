/* Windows of images, against cfx's own operators. */
#include "kernels.h"
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
