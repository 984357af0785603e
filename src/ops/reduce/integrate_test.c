/* The trapezoidal rule and covariances. */
#include <cfx/ops.h>

#include "test.h"

static cfx_tensor *grid(void) {
    return cfx_reshape(cfx_arange(6.0), cfx_list(2, 3));
}

TEST(trapezoids) {
    CHECK_STR(cfx_str(cfx_trapezoid(grid())), "tensor([2., 8.])");
    CHECK_STR(cfx_str(cfx_trapezoid(grid(), CFX_KW(dx, 2), CFX_KW(dim, 0))),
              "tensor([3., 5., 7.])");
    cfx_tensor *x = cfx_tensor_from_value(cfx_list(0.0, 1.0, 4.0));
    CHECK_STR(cfx_str(cfx_trapezoid(grid(), x)), "tensor([ 5., 17.])");
    CHECK_STR(cfx_str(cfx_trapz(grid(), x)), "tensor([ 5., 17.])");
    CHECK_STR(cfx_str(cfx_cumulative_trapezoid(grid(), x)),
              "tensor([[ 0.5000,  5.0000],\n        [ 3.5000, 17.0000]])");
    CHECK_OK();
    cfx_trapezoid(grid(), cfx_tensor_from_value(cfx_list(1.0)));
    CHECK_ERROR("trapezoid: There must be one `x` value for each sample point");
}

TEST(covariances) {
    cfx_tensor *x = cfx_tensor_from_value(
        cfx_list(cfx_list(0.0, 1.0, 2.0), cfx_list(2.0, 1.0, 0.0)));
    CHECK_STR(cfx_str(cfx_cov(x)), "tensor([[ 1., -1.],\n        [-1.,  1.]])");
    CHECK_STR(cfx_str(cfx_corrcoef(x)), "tensor([[ 1., -1.],\n        [-1.,  1.]])");
    CHECK_STR(cfx_str(cfx_cov(cfx_tensor_from_value(cfx_list(1, 2, 4)))), "tensor(2.3333)");
    cfx_tensor *times = cfx_tensor_from_value(cfx_list(1, 2, 1));
    cfx_tensor *twice = cfx_tensor_from_value(cfx_list(0.0, 1.0, 1.0, 2.0));
    CHECK_STR(cfx_str(cfx_cov(cfx_select(x, 0, 0), CFX_KW(fweights, times))),
              cfx_str(cfx_cov(twice)));
    CHECK_OK();
    cfx_cov(cfx_zeros(cfx_list(2, 2, 2)));
    CHECK_ERROR("cov(): expected input to have two or fewer dimensions but got an input with 3 "
                "dimensions");
    cfx_tensor *v = cfx_select(x, 0, 0);
    cfx_cov(v, CFX_KW(fweights, cfx_ones(cfx_list(3))));
    CHECK_ERROR(
        "cov(): expected fweights to have integral dtype but got fweights with Float dtype");
    cfx_cov(v, CFX_KW(aweights, times));
    CHECK_ERROR("cov(): expected aweights to have floating point dtype but got aweights with Long "
                "dtype");
    cfx_cov(v, CFX_KW(fweights, cfx_neg(times)));
    CHECK_ERROR("cov(): fweights cannot be negative");
    cfx_cov(v, CFX_KW(aweights, cfx_full(cfx_list(3), -1.0)));
    CHECK_ERROR("cov(): aweights cannot be negative");
}

TEST(gradient_of_no_dims) {
    cfx_gradient(cfx_ones(cfx_list_value(0, NULL)), CFX_KW(dim, cfx_int(0)));
    CHECK_ERROR("torch.gradient expected each dimension size to be at least edge_order+1");
}
