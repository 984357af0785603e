/* How tensors lie in memory, as the kernels ask it. */
#include "test.h"

#include "tensor.h"

TEST(size_rows_of_images) {
    cfx_tensor *whole = cfx_zeros(2, 5, 6, 8);
    cfx_tensor *last = cfx_permute(whole, 0, 3, 1, 2); /* 8 channels, last */
    CHECK_INT(cfx__tensor_channels_row(last), 8);
    CHECK_INT(cfx__tensor_channels_row(cfx_narrow(last, 1, 2, 3)), 8); /* some of its channels */
    CHECK_INT(cfx__tensor_channels_row(whole), 0);
    CHECK_INT(cfx__tensor_channels_row(cfx_narrow(last, 3, 0, 4)), 0); /* lines with a gap */
    CHECK_INT(cfx__tensor_channels_row(cfx_zeros(2, 7, 1, 1)), 7);
    CHECK_INT(cfx__tensor_channels_row(cfx_zeros(2, 7, 3)), 0);
}

TEST(sizes_fit_in_a_count_beside_a_zero_too) {
    const int64_t half = INT64_C(1) << 62;
    CHECK_INT(cfx_zeros(0, half)->numel, 0);
    cfx_zeros(0, half, half);
    CHECK_ERROR("Storage size calculation overflowed with sizes="
                "[0, 4611686018427387904, 4611686018427387904]");
}
