#include "test.h"

TEST(data_is_set_as_a_whole) {
    cfx_tensor *x = cfx_requires_grad(cfx_ones(2), true);
    cfx_tensor *y = cfx_zeros(3, 1, CFX_KW(dtype, cfx_f64));
    cfx_backward(cfx_sum(x));
    cfx_tensor_set_data(x, y);
    CHECK_INT(cfx_tensor_ndim(x), 2);
    CHECK(cfx_tensor_dtype(x) == CFX_F64 && cfx_tensor_shares(x, y));
    CHECK(cfx_tensor_requires_grad(x) && cfx_tensor_grad(x) && cfx_tensor_is_leaf(x));
    cfx_tensor_set_data(x, cfx_arange(3));
    CHECK_ERROR("data set to a tensor that requires gradients must be floating point");
    cfx_tensor_set_data(x, cfx_tensor_fake(CFX_F32, 1, (int64_t[]){4}, NULL));
    CHECK(cfx_tensor_is_fake(x) && cfx_tensor_numel(x) == 4);
    cfx_tensor_set_data(NULL, y);
    CHECK_ERROR("the tensor is NULL");
}

TEST(fake_tensors_have_no_data) {
    cfx_tensor *fake = cfx_tensor_fake(CFX_F32, 1, (int64_t[]){4}, NULL);
    CHECK(cfx_tensor_data(fake) == NULL);
    CHECK_ERROR("cannot access the data of a fake tensor: it has a shape and a dtype, but no "
                "numbers");
    CHECK(cfx_tensor_data(cfx_tensor_fake(CFX_F32, 1, (int64_t[]){0}, NULL)) == NULL);
    CHECK_OK();
}
