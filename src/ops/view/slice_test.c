/* Slices and parts. */
#include <cfx/ops.h>

#include "numbers.h"

static cfx_tensor *numbers(int64_t n) { return cfx_arange(n, CFX_KW(dtype, cfx_f32)); }
static cfx_tensor *matrix(int64_t rows, int64_t cols) {
    return cfx_view(numbers(rows * cols), cfx_list(rows, cols));
}

TEST(slice_clamps_its_ends) {
    cfx_tensor *x = numbers(6);
    CHECK_STR(cfx_str(cfx_slice(x, 0, 1, 5, 2)), "tensor([1., 3.])");
    CHECK_STR(cfx_str(cfx_slice(x, 0, -2)), "tensor([4., 5.])");
    CHECK_SHAPE(cfx_slice(x, 0, -100, INT64_MAX), "[6]");
    CHECK_SHAPE(cfx_slice(x, 0, 5, 2), "[0]");
    CHECK_SHAPE(cfx_slice(x, 0, 9, 12), "[0]");
    CHECK_SHAPE(cfx_slice(x, 0, 2, INT64_MAX, INT64_MAX), "[1]");
    CHECK_SHAPE(cfx_slice(x, 0, INT64_MIN, INT64_MIN), "[0]");
    cfx_slice(x, 0, 0, 2, 0);
    CHECK_ERROR("slice step must be positive");
    cfx_slice(cfx_scalar_tensor(1));
    CHECK_ERROR("slice() cannot be applied to a 0-dim tensor.");
}

TEST(select_takes_one_row) {
    cfx_tensor *x = matrix(2, 3);
    CHECK_STR(cfx_str(cfx_select(x, 1, -1)), "tensor([2., 5.])");
    cfx_select(x, 0, 5);
    CHECK_ERROR("select(): index 5 out of range for tensor of size [2, 3] at dimension 0");
    cfx_select(cfx_scalar_tensor(1), 0, 0);
    CHECK_ERROR("select() cannot be applied to a 0-dim tensor.");
}

TEST(narrow_checks_its_length) {
    cfx_tensor *x = matrix(3, 4);
    CHECK_SHAPE(cfx_narrow(x, 0, -2, 2), "[2, 4]");
    CHECK_SHAPE(cfx_narrow(x, 0, 3, 0), "[0, 4]");
    CHECK_SHAPE(cfx_narrow(x, 1, cfx_tensor(1), 2), "[3, 2]");
    cfx_narrow(x, 0, -1, 3);
    CHECK_ERROR("start (2) + length (3) exceeds dimension size (3).");
    cfx_narrow(x, 0, 0, -1);
    CHECK_ERROR("narrow(): length must be non-negative.");
    cfx_narrow(x, 0, 5, 1);
    CHECK_ERROR("start out of range (expected to be in range of [-3, 3], but got 5)");
}

static const char *sizes(cfx_value parts, int dim) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; !cfx_is_bad(parts) && i < cfx_as_list(parts)->len; i++)
        cfx_list_append(cfx_as_list(list), cfx_int(cfx_dim(cfx_tensor_at(parts, i), dim)));
    return cfx_str(list);
}

TEST(tensors_are_taken_apart) {
    cfx_tensor *x = matrix(7, 2);
    CHECK_STR(sizes(cfx_split(x, 3), 0), "[3, 3, 1]");
    CHECK_STR(sizes(cfx_split(x, 100), 0), "[7]");
    CHECK_STR(sizes(cfx_split(x, cfx_list(1, 6)), 0), "[1, 6]");
    CHECK_STR(sizes(cfx_chunk(x, 3), 0), "[3, 3, 1]");
    CHECK_STR(sizes(cfx_tensor_split(x, 3), 0), "[3, 2, 2]");
    CHECK_STR(sizes(cfx_tensor_split(x, cfx_list(2, 5)), 0), "[2, 3, 2]");
    CHECK_STR(sizes(cfx_tensor_split(x, cfx_tensor(cfx_list(2, 5))), 0), "[2, 3, 2]");
    CHECK_STR(sizes(cfx_chunk(cfx_zeros(cfx_list(0)), 3), 0), "[0, 0, 0]");
    CHECK_STR(sizes(cfx_hsplit(x, 2), 1), "[1, 1]");
    CHECK_STR(sizes(cfx_unbind(x, 1), 0), "[7, 7]");
    CHECK(cfx_tensor_shares(x, cfx_tensor_at(cfx_split(x, 3), 2)));
    CHECK_OK();
}

TEST(parts_that_do_not_add_up_are_refused) {
    cfx_tensor *x = matrix(3, 4);
    cfx_split(x, 0);
    CHECK_ERROR("split_size can only be 0 if dimension size is 0, but got dimension size of 3");
    cfx_split(x, -1);
    CHECK_ERROR("split expects split_size be non-negative, but got split_size=-1");
    cfx_split(x, cfx_list(1, 1), -1);
    CHECK_ERROR("split_with_sizes expects split_sizes to sum exactly to 4 (input tensor's size at "
                "dimension -1), but got split_sizes=[1, 1]");
    cfx_split(x, cfx_list(INT64_MAX, INT64_MAX, 5));
    CHECK_ERROR("split_with_sizes expects split_sizes to sum exactly to 3");
    cfx_split(cfx_scalar_tensor(1), 1);
    CHECK_ERROR("split expects at least a 1-dimensional tensor");
    cfx_chunk(x, 0);
    CHECK_ERROR("chunk expects `chunks` to be greater than 0, got: 0");
    cfx_chunk(cfx_zeros(cfx_list(0)), INT64_MAX);
    CHECK_ERROR("does not fit");
    cfx_hsplit(x, 3);
    CHECK_ERROR(
        "torch.hsplit attempted to split along dimension 1, but the size of the dimension 4 "
        "is not divisible by the split_size 3!");
    cfx_unbind(cfx_scalar_tensor(1));
    CHECK_ERROR("Dimension specified as 0 but tensor has no dimensions");
}
