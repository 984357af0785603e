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
