/* Elements whose places are told by others, against cfx's own operators. */
#include "kernels.h"
#include "numbers.h"
#include "player.h"

#include <cfx/ops.h>

static cfx_tensor *told(cfx_dtype dtype, int ndim, const int64_t *shape, int64_t most, bool wrap) {
    cfx_tensor *t = cfx_zeros_like(test_numbers(dtype, ndim, shape));
    for (int64_t i = 0; i < cfx_tensor_numel(t); i++) {
        const int64_t v = test_draw((int)most) - (wrap && i % 3 == 0 ? most : 0);
        if (dtype == CFX_I64)
            ((int64_t *)cfx_tensor_data(t))[i] = v;
        else
            ((int *)cfx_tensor_data(t))[i] = (int)v;
    }
    return t;
}

/* Rows of a table, as embedding and index_select have them. */
static bool picks(cfx_dtype dtype, cfx_dtype index, int64_t rows, int64_t wide, int64_t n) {
    bool held;
    CFX_SCOPE {
        cfx_tensor *x = test_numbers(dtype, 2, (int64_t[]){rows, wide});
        cfx_tensor *i = told(index, 1, &n, rows, false);
        cfx_tensor *want = cfx_index_select(x, 0, cfx_to(i, cfx_dtype_value(CFX_I64)));
        cfx_tensor *y = cfx_zeros_like(want);
        cfx__cuda_index_call call = {.x = player_array(0, x), .y = player_array(1, y), .ndim = 2,
                                     .size = {n, wide}, .x_stride = {0, 1}, .y_stride = {wide, 1},
                                     .n = 1, .way = CFX__CUDA_TAKE};
        call.index[0] = (cfx__cuda_index){player_array(2, i), {1, 0}, rows, wide};
        cfx__cuda_work work = {0};
        void *to = player_copy(y);
        held = CHECK_OK() && CHECK(cfx__cuda_index_elements(&call, &work)) &&
               PLAY(&work, player_copy(x), to, player_copy(i)) && PLAYED(to, y, want, 0);
    }
    return held;
}

TEST(cuda_index_rows) {
    if (!player_runs())
        return;
    CHECK(picks(CFX_F32, CFX_I64, 50, 24, 7) && picks(CFX_BF16, CFX_I64, 9, 7, 40) &&
          picks(CFX_I64, CFX_I32, 5, 3, 300) && picks(CFX_U8, CFX_I64, 4, 16, 2) &&
          picks(CFX_F32, CFX_I64, 3, 4, 0));
}

/* gather, scatter and scatter_add along the middle dimension; indexes meet. */
static bool gathers(cfx__cuda_index_way way, cfx_dtype dtype) {
    bool held;
    CFX_SCOPE {
        cfx_tensor *x = test_numbers(dtype, 3, (int64_t[]){3, 5, 4});
        cfx_tensor *y = test_numbers(dtype, 3, (int64_t[]){3, 9, 4});
        cfx_tensor *i = told(CFX_I64, 3, (int64_t[]){3, 9, 4}, 5, false);
        cfx_tensor *want = way == CFX__CUDA_TAKE  ? cfx_gather(x, 1, i)
                           : way == CFX__CUDA_PUT ? cfx_scatter(x, 1, i, y)
                                                  : cfx_scatter_add(x, 1, i, y);
        cfx__cuda_index_call call = {.x = player_array(0, x), .y = player_array(1, y), .ndim = 3,
                                     .size = {3, 9, 4}, .x_stride = {20, 0, 1},
                                     .y_stride = {36, 4, 1}, .n = 1, .way = way};
        call.index[0] = (cfx__cuda_index){player_array(2, i), {36, 4, 1}, 5, 4};
        cfx__cuda_work work = {0};
        void *from = player_copy(x), *to = player_copy(y);
        held = CHECK_OK() && CHECK(cfx__cuda_index_elements(&call, &work)) &&
               PLAY(&work, from, to, player_copy(i)) &&
               (way == CFX__CUDA_TAKE ? PLAYED(to, y, want, 0) : PLAYED(from, x, want, 0));
    }
    return held;
}

TEST(cuda_index_along) {
    if (!player_runs())
        return;
    CHECK(gathers(CFX__CUDA_TAKE, CFX_F32) && gathers(CFX__CUDA_PUT, CFX_F32) &&
          gathers(CFX__CUDA_ADD, CFX_F32) && gathers(CFX__CUDA_ADD, CFX_BF16) &&
          gathers(CFX__CUDA_ADD, CFX_I64) && gathers(CFX__CUDA_PUT, CFX_F16));
}

/* x[i, :, j] with indexes that count from the end; and one that is out of range. */
TEST(cuda_index_several) {
    if (!player_runs())
        return;
    cfx_tensor *x = test_numbers(CFX_F32, 3, (int64_t[]){6, 3, 8});
    cfx_tensor *i = told(CFX_I64, 1, (int64_t[]){5}, 6, true);
    cfx_tensor *j = told(CFX_I64, 1, (int64_t[]){5}, 8, true);
    cfx_tensor *want = cfx_index(x, cfx_list(i, cfx_none(), j)); /* [5, 3] */
    cfx_tensor *y = cfx_zeros_like(want);
    cfx__cuda_index_call call = {.x = player_array(0, x), .y = player_array(1, y), .ndim = 2,
                                 .size = {5, 3}, .x_stride = {0, 8}, .y_stride = {3, 1}, .n = 2,
                                 .wrap = true, .way = CFX__CUDA_TAKE};
    call.index[0] = (cfx__cuda_index){player_array(2, i), {1, 0}, 6, 24};
    call.index[1] = (cfx__cuda_index){player_array(3, j), {1, 0}, 8, 1};
    cfx__cuda_work work = {0};
    void *to = player_copy(y), *from = player_copy(i);
    CHECK_OK();
    if (!CHECK(cfx__cuda_index_elements(&call, &work)) ||
        !PLAY(&work, player_copy(x), to, from, player_copy(j)))
        return;
    PLAYED(to, y, want, 0);
    int flag = 0;
    ((int64_t *)from)[2] = -7;
    CHECK(player_run(&work, (void *[]){player_copy(x), to, from, player_copy(j)}, &flag, CFX_HERE));
    CHECK_INT(flag, 1);
}
