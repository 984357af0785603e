/* Views: shapes, strides, shared memory and messages. */
#include <cfx/ops.h>

#include "numbers.h"

static cfx_tensor *numbers(int64_t n) { return cfx_arange(n, CFX_KW(dtype, cfx_f32)); }
static cfx_tensor *matrix(int64_t rows, int64_t cols) {
    return cfx_view(numbers(rows * cols), cfx_list(rows, cols));
}

TEST(view_infers_a_size_and_shares_memory) {
    cfx_tensor *x = numbers(6), *y = cfx_view(x, cfx_list(2, -1));
    CHECK_SHAPE(y, "[2, 3]");
    CHECK_STRIDE(y, "[3, 1]");
    CHECK(cfx_tensor_shares(x, y));
    cfx_fill_(cfx_select(y, 0, 1), 7);
    CHECK_STR(cfx_str(x), "tensor([0., 1., 2., 7., 7., 7.])");
    CHECK_SHAPE(cfx_view(numbers(1), cfx_list_value(0, NULL)), "[]");
    CHECK_OK();
}

TEST(view_says_what_is_wrong_in_pytorchs_words) {
    cfx_view(numbers(5), cfx_list(2, 3));
    CHECK_ERROR("shape '[2, 3]' is invalid for input of size 5");
    cfx_view(numbers(6), cfx_list(-1, -1));
    CHECK_ERROR("only one dimension can be inferred");
    cfx_view(numbers(6), cfx_list(-2, 3));
    CHECK_ERROR("invalid shape dimension -2");
    cfx_view(cfx_t(matrix(2, 3)), cfx_list(6));
    CHECK_ERROR("view size is not compatible with input tensor's size and stride (at least one "
                "dimension spans across two contiguous subspaces). Use .reshape(...) instead.");
    cfx_view(numbers(0), cfx_list(-1, 0));
    CHECK_ERROR("cannot reshape tensor of 0 elements into shape [-1, 0] because the unspecified "
                "dimension size -1 can be any value and is ambiguous");
    cfx_view(numbers(4), cfx_list(INT64_MAX, INT64_MAX, 4));
    CHECK_ERROR("is invalid for input of size 4");
}

TEST(reshape_copies_only_where_no_view_exists) {
    cfx_tensor *x = matrix(2, 3), *copy = cfx_reshape(cfx_t(x), cfx_list(6));
    CHECK(cfx_tensor_shares(x, cfx_reshape(x, cfx_list(3, 2))));
    CHECK(!cfx_tensor_shares(x, copy));
    CHECK_STR(cfx_str(copy), "tensor([0., 3., 1., 4., 2., 5.])");
    /* chunks of dimensions that lie behind each other may be cut anew */
    cfx_tensor *y = cfx_permute(cfx_view(numbers(24), cfx_list(2, 3, 4)), cfx_list(1, 0, 2));
    CHECK_STRIDE(cfx_view(y, cfx_list(3, 2, 2, 2)), "[4, 12, 2, 1]");
    CHECK_OK();
}

TEST(flatten_and_unflatten_undo_each_other) {
    cfx_tensor *x = cfx_view(numbers(24), cfx_list(2, 3, 4));
    CHECK_SHAPE(cfx_flatten(x, 1), "[2, 12]");
    CHECK_SHAPE(cfx_flatten(cfx_scalar_tensor(1)), "[1]");
    CHECK_SHAPE(cfx_unflatten(cfx_flatten(x, 1), 1, cfx_list(3, -1)), "[2, 3, 4]");
    cfx_flatten(x, 2, 1);
    CHECK_ERROR("flatten() has invalid args: start_dim cannot come after end_dim");
    cfx_unflatten(x, 1, cfx_list(2, 2));
    CHECK_ERROR("unflatten: Provided sizes [2, 2] don't multiply up to the size of dim 1 (3) in "
                "the input tensor");
}

TEST(view_as_another_dtype_sees_the_same_bytes) {
    cfx_tensor *x = matrix(2, 4), *wide = cfx_view(x, cfx_f64), *narrow = cfx_view(x, cfx_i16);
    CHECK_SHAPE(wide, "[2, 2]");
    CHECK_STRIDE(wide, "[2, 1]");
    CHECK_SHAPE(narrow, "[2, 8]");
    CHECK(cfx_tensor_shares(x, narrow));
    CHECK_STR(cfx_str(cfx_view(cfx_view(x, cfx_i32), cfx_f32)), cfx_str(x));
    CHECK_INT(cfx_tensor_offset(cfx_view(cfx_select(x, 0, 1), cfx_f64)), 2);
    cfx_view(cfx_view(x, cfx_list(1, 8)), cfx_c128);
    CHECK_OK();
    cfx_view(cfx_narrow(x, 1, 0, 3), cfx_f64);
    CHECK_ERROR("self.size(-1) must be divisible by 2 to view Float as Double (different element "
                "sizes), but got 3");
    cfx_view(cfx_scalar_tensor(1), cfx_f64);
    CHECK_ERROR("self.dim() cannot be 0 to view Float as Double (different element sizes)");
}

TEST(as_strided_stays_inside_its_storage) {
    cfx_tensor *x = numbers(12);
    CHECK_STR(cfx_str(cfx_as_strided(x, cfx_list(2, 2), cfx_list(1, 4), 3)),
              "tensor([[3., 7.],\n        [4., 8.]])");
    cfx_as_strided(x, cfx_list(2), cfx_list(20));
    CHECK_ERROR("setStorage: sizes [2], strides [20], storage offset 0, and itemsize 4 requiring a "
                "storage size of 84 are out of bounds for storage of size 48");
    cfx_as_strided(x, cfx_list(2), cfx_list(-1));
    CHECK_ERROR("as_strided: Negative strides are not supported at the moment, got strides: [-1]");
    cfx_as_strided(x, cfx_list(2), cfx_list(1), -1);
    CHECK_ERROR("Tensor: invalid storage offset -1");
    cfx_as_strided(x, cfx_list(2), cfx_list(1, 1));
    CHECK_ERROR("mismatch in length of strides and shape");
    cfx_as_strided(x, cfx_list(INT64_MAX, 3), cfx_list(INT64_MAX, 1));
    CHECK_ERROR("overflowed");
}

TEST(expand_repeats_without_memory) {
    cfx_tensor *x = cfx_view(numbers(3), cfx_list(3, 1)), *y = cfx_expand(x, cfx_list(2, -1, 4));
    CHECK_SHAPE(y, "[2, 3, 4]");
    CHECK_STRIDE(y, "[0, 1, 0]");
    CHECK_STRIDE(cfx_expand(cfx_scalar_tensor(1), cfx_list(1, 1)), "[0, 0]");
    cfx_expand(x, cfx_list(4, 4));
    CHECK_ERROR("The expanded size of the tensor (4) must match the existing size (3) at "
                "non-singleton dimension 0.  Target sizes: [4, 4].  Tensor sizes: [3, 1]");
    cfx_expand(x, cfx_list(3));
    CHECK_ERROR(
        "expand(torch.FloatTensor{[3, 1]}, size=[3]): the number of sizes provided (1) must "
        "be greater or equal to the number of dimensions in the tensor (2)");
    cfx_expand(x, cfx_list(-1, 3, 4));
    CHECK_ERROR("The expanded size of the tensor (-1) isn't allowed in a leading, non-existing "
                "dimension 0");
    cfx_add_(y, 1);
    CHECK_ERROR(
        "more than one element of the written-to tensor refers to a single memory location");
    cfx_add_(cfx_expand(cfx_zeros(cfx_list(1, 0)), cfx_list(5, 0)), 1); /* there is none */
    CHECK_OK();
}

TEST(dims_are_moved_by_strides_alone) {
    cfx_tensor *x = cfx_view(numbers(24), cfx_list(2, 3, 4));
    CHECK_STRIDE(cfx_transpose(x, 0, -1), "[1, 4, 12]");
    CHECK_STRIDE(cfx_permute(x, cfx_list(2, 0, 1)), "[1, 12, 4]");
    CHECK_STRIDE(cfx_movedim(x, 0, 2), "[4, 1, 12]");
    CHECK_STRIDE(cfx_movedim(x, cfx_list(0, 1), cfx_list(-1, 0)), "[4, 1, 12]");
    CHECK_STRIDE(cfx_numpy_T(x), "[1, 4, 12]");
    CHECK_STRIDE(cfx_mT(x), "[12, 1, 4]");
    CHECK_STRIDE(cfx_unsqueeze(x, 1), "[12, 12, 4, 1]");
    CHECK_STRIDE(cfx_unsqueeze(x, -1), "[12, 4, 1, 1]");
    cfx_transpose(x, 0, 3);
    CHECK_ERROR("Dimension out of range (expected to be in range of [-3, 2], but got 3)");
    cfx_permute(x, cfx_list(0, 0, 1));
    CHECK_ERROR("permute(): duplicate dims are not allowed.");
    cfx_t(x);
    CHECK_ERROR("t() expects a tensor with <= 2 dimensions, but self is 3D");
    cfx_movedim(x, cfx_list(0, 0), cfx_list(0, 1));
    CHECK_ERROR("movedim: repeated dim in `source` ([0, 0])");
}

TEST(squeeze_drops_only_ones) {
    cfx_tensor *x = cfx_view(numbers(6), cfx_list(1, 2, 1, 3));
    CHECK_SHAPE(cfx_squeeze(x), "[2, 3]");
    CHECK_SHAPE(cfx_squeeze(x, 1), "[1, 2, 1, 3]");
    CHECK_SHAPE(cfx_squeeze(x, cfx_list(0, -1)), "[2, 1, 3]");
    CHECK_SHAPE(cfx_squeeze(x, cfx_list_value(0, NULL)), "[1, 2, 1, 3]");
    CHECK_SHAPE(cfx_squeeze(cfx_scalar_tensor(1), 0), "[]");
}

TEST(views_in_place_change_the_tensor_itself) {
    cfx_tensor *x = matrix(1, 6);
    cfx_py("Tensor.squeeze_", x, 0);
    CHECK_SHAPE(x, "[6]");
    cfx_py("Tensor.unsqueeze_", x, 1);
    cfx_py("Tensor.transpose_", x, 0, 1);
    CHECK_SHAPE(x, "[1, 6]");
    cfx_py("Tensor.t_", x);
    CHECK_SHAPE(x, "[6, 1]");
    CHECK_OK();
}

TEST(diagonals_and_windows_are_views) {
    cfx_tensor *x = matrix(3, 4);
    CHECK_STR(cfx_str(cfx_diagonal(x, 1)), "tensor([ 1.,  6., 11.])");
    CHECK_STR(cfx_str(cfx_diagonal(x, -2)), "tensor([8.])");
    CHECK_SHAPE(cfx_diagonal(x, 9), "[0]");
    CHECK_SHAPE(cfx_diagonal(x, INT64_MIN), "[0]");
    cfx_diagonal(x, 0, 0, -2);
    CHECK_ERROR("diagonal dimensions cannot be identical 0, -2");
    cfx_tensor *w = cfx_unfold(numbers(7), 0, 3, 2);
    CHECK_SHAPE(w, "[3, 3]");
    CHECK_STRIDE(w, "[2, 1]");
    CHECK_SHAPE(cfx_unfold(cfx_scalar_tensor(1), 0, 1, 1), "[1]");
    cfx_unfold(x, 0, 5, 1);
    CHECK_ERROR("maximum size for tensor at dimension 0 is 3 but size is 5");
    cfx_unfold(x, 0, 2, 0);
    CHECK_ERROR("step is 0 but must be > 0");
}

TEST(fake_views_have_the_strides_of_real_ones) {
    cfx_tensor *f = cfx_tensor_fake(CFX_F32, 2, (int64_t[]){4, 6}, NULL);
    cfx_tensor *v = cfx_slice(cfx_t(f), 0, 1, 5, 2);
    CHECK(cfx_tensor_is_fake(v));
    CHECK_STRIDE(v, "[2, 6]");
    CHECK_INT(cfx_tensor_offset(v), 1);
    CHECK_STRIDE(cfx_reshape(cfx_t(f), cfx_list(24)), "[1]");
    CHECK_OK();
}

TEST(copies_and_scatters_follow_their_views) {
    cfx_tensor *x = matrix(3, 4), *copy = cfx_diagonal_copy(x);
    CHECK(!cfx_tensor_shares(x, copy));
    CHECK_STR(cfx_str(copy), cfx_str(cfx_diagonal(x)));
    CHECK_STRIDE(cfx_permute_copy(x, cfx_list(1, 0)), "[3, 1]");
    CHECK_INT(cfx_as_list(cfx_split_copy(x, 2))->len, 2);
    cfx_tensor *y = cfx_slice_scatter(x, cfx_zeros(cfx_list(3, 2)), 1, 1, 4, 2);
    CHECK_STR(cfx_str(y), "tensor([[ 0.,  0.,  2.,  0.],\n        [ 4.,  0.,  6.,  0.],\n"
                          "        [ 8.,  0., 10.,  0.]])");
    CHECK_NEAR(cfx_tensor_get(x, 1), 1, 0);
    CHECK_STRIDE(cfx_select_scatter(cfx_t(x), cfx_ones(cfx_list(3)), 0, 1), "[1, 4]");
    cfx_select_scatter(x, cfx_ones(cfx_list(3)), 0, 1);
    CHECK_ERROR(
        "expected src to have a size equal to the slice of self. src size = [3], slice size "
        "= [4]");
    cfx_tensor *row = cfx_select(x, 0, 1);
    CHECK_STR(
        cfx_str(cfx_as_strided_scatter(row, cfx_zeros(cfx_list(2)), cfx_list(2), cfx_list(2), 4)),
        "tensor([0., 5., 0., 7.])");
    CHECK_OK();
}
