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
    const int64_t half = INT64_C(1) << 55;
    CHECK_INT(cfx_zeros(0, half)->numel, 0);
    cfx_zeros(0, half, half);
    CHECK_ERROR("Storage size calculation overflowed with sizes="
                "[0, 36028797018963968, 36028797018963968]");
}

TEST(a_view_stands_for_no_more_elements_than_can_be_counted) {
    const int64_t most = CFX__MOST_ELEMENTS;
    cfx_tensor *one = cfx_zeros(1), *many = cfx_expand(one, cfx_list(most));
    CHECK_INT(many->numel, most);
    cfx_expand(one, cfx_list(2, most));
    CHECK_ERROR("Storage size calculation overflowed with sizes=[2, 72057594037927936]");
    cfx_unfold(many, 0, most / 2, 1); /* windows stand for more than what they move over */
    CHECK_ERROR("Storage size calculation overflowed with sizes="
                "[36028797018963969, 36028797018963968]");
    cfx_kthvalue(many, 3); /* has room for each element */
    CHECK(!cfx_ok());
    cfx_error_clear();
    CHECK(cfx_failed(cfx_tensor_fake(CFX_U8, 1, (int64_t[]){2}, (int64_t[]){most})));
    CHECK_ERROR("Storage size calculation overflowed with sizes=[2]");
}
