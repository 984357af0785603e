/* Joins, grids and rearrangements. */
#include <cfx/ops.h>

#include "numbers.h"

static cfx_tensor *numbers(int64_t n) { return cfx_arange(n, CFX_KW(dtype, cfx_f32)); }

TEST(cat_joins_and_promotes) {
    cfx_tensor *x = cfx_view(numbers(4), cfx_list(2, 2)),
               *y = cfx_ones(cfx_list(2, 1), CFX_KW(dtype, cfx_i64));
    CHECK_STR(cfx_str(cfx_cat(cfx_list(x, y), 1)), "tensor([[0., 1., 1.],\n        [2., 3., 1.]])");
    CHECK_STR(cfx_str(cfx_cat(cfx_list(cfx_t(x), x))),
              "tensor([[0., 2.],\n        [1., 3.],\n        [0., 1.],\n        [2., 3.]])");
    CHECK_SHAPE(cfx_cat(cfx_list(numbers(0), x), -1), "[2, 2]");
    CHECK_SHAPE(cfx_cat(cfx_list(numbers(0), numbers(0)), 1), "[0]");
    CHECK_OK();
}

TEST(cat_keeps_channels_last_where_all_have_it) {
    cfx_tensor *x =
        cfx_contiguous(cfx_ones(cfx_list(1, 2, 3, 3)), CFX_KW(memory_format, cfx_channels_last));
    CHECK_STRIDE(cfx_cat(cfx_list(x, x), 1), "[36, 1, 12, 4]");
    CHECK_STRIDE(cfx_cat(cfx_list(x, cfx_contiguous(x)), 1), "[36, 9, 3, 1]");
}

TEST(cat_refuses_what_does_not_fit) {
    cfx_tensor *x = cfx_zeros(cfx_list(2, 3));
    cfx_cat(cfx_list_value(0, NULL));
    CHECK_ERROR("torch.cat(): expected a non-empty list of Tensors");
    cfx_cat(cfx_list(cfx_scalar_tensor(1)));
    CHECK_ERROR("zero-dimensional tensor (at position 0) cannot be concatenated");
    cfx_cat(cfx_list(x, cfx_zeros(cfx_list(3))));
    CHECK_ERROR("Tensors must have same number of dimensions: got 2 and 1");
    cfx_cat(cfx_list(x, cfx_zeros(cfx_list(2, 4))));
    CHECK_ERROR("Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 "
                "for tensor number 1 in the list.");
    cfx_stack(cfx_list(x, cfx_zeros(cfx_list(3))));
    CHECK_ERROR("stack expects each tensor to be equal size, but got [2, 3] at entry 0 and [3] at "
                "entry 1");
}

TEST(stacks_by_axis) {
    cfx_tensor *a = numbers(2), *b = cfx_add(a, 2);
    CHECK_STR(cfx_str(cfx_stack(cfx_list(a, b), 1)), "tensor([[0., 2.],\n        [1., 3.]])");
    CHECK_STR(cfx_str(cfx_stack(cfx_list(a, b), 0)), "tensor([[0., 1.],\n        [2., 3.]])");
    CHECK_SHAPE(cfx_hstack(cfx_list(a, b)), "[4]");
    CHECK_SHAPE(cfx_vstack(cfx_list(a, b)), "[2, 2]");
    CHECK_SHAPE(cfx_dstack(cfx_list(a, b)), "[1, 2, 2]");
    CHECK_SHAPE(cfx_column_stack(cfx_list(a, b)), "[2, 2]");
    CHECK_SHAPE(cfx_stack(cfx_list(cfx_scalar_tensor(1), cfx_scalar_tensor(2))), "[2]");
    CHECK_SHAPE(cfx_block_diag(cfx_list(a, cfx_zeros(cfx_list(2, 1)), cfx_scalar_tensor(1))),
                "[4, 4]");
    CHECK_OK();
}

TEST(grids) {
    cfx_value g = cfx_meshgrid(cfx_list(numbers(2), numbers(3)));
    CHECK_SHAPE(cfx_tensor_at(g, 1), "[2, 3]");
    g = cfx_meshgrid(cfx_list(numbers(2), numbers(3)), CFX_KW(indexing, "xy"));
    CHECK_SHAPE(cfx_tensor_at(g, 0), "[3, 2]");
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(g, 0), 1), 1, 0);
    CHECK_STR(cfx_str(cfx_cartesian_prod(cfx_list(numbers(2), numbers(2)))),
              "tensor([[0., 0.],\n        [0., 1.],\n        [1., 0.],\n        [1., 1.]])");
    CHECK_STR(cfx_str(cfx_combinations(numbers(3))),
              "tensor([[0., 1.],\n        [0., 2.],\n        [1., 2.]])");
    CHECK_SHAPE(cfx_combinations(numbers(3), 2, cfx_bool(true)), "[6, 2]");
    CHECK_SHAPE(cfx_combinations(numbers(2), 3), "[0, 3]");
    CHECK_OK();
}

TEST(elements_repeat_and_move) {
    cfx_tensor *x = numbers(4), *m = cfx_view(x, cfx_list(2, 2));
    CHECK_STR(cfx_str(cfx_repeat(numbers(2), cfx_list(2, 2))),
              "tensor([[0., 1., 0., 1.],\n        [0., 1., 0., 1.]])");
    CHECK_SHAPE(cfx_tile(m, cfx_list(2)), "[2, 4]");
    CHECK_SHAPE(cfx_repeat(m, cfx_list(0, 2)), "[0, 4]");
    CHECK_STR(cfx_str(cfx_repeat_interleave(cfx_tensor(cfx_list(2, 0, 1)))), "tensor([0, 0, 2])");
    CHECK_STR(cfx_str(cfx_repeat_interleave(numbers(2), 2)), "tensor([0., 0., 1., 1.])");
    CHECK_STR(cfx_str(cfx_repeat_interleave(m, cfx_tensor(cfx_list(1, 2)), 0)),
              "tensor([[0., 1.],\n        [2., 3.],\n        [2., 3.]])");
    CHECK_STR(cfx_str(cfx_roll(x, cfx_list(-1), cfx_list(0))), "tensor([1., 2., 3., 0.])");
    CHECK_STR(cfx_str(cfx_roll(m, cfx_list(1))), "tensor([[3., 0.],\n        [1., 2.]])");
    CHECK_STR(cfx_str(cfx_flip(m, cfx_list(0, 1))), "tensor([[3., 2.],\n        [1., 0.]])");
    CHECK_STR(cfx_str(cfx_rot90(m)), "tensor([[1., 3.],\n        [0., 2.]])");
    CHECK_STR(cfx_str(cfx_tril(m)), "tensor([[0., 0.],\n        [2., 3.]])");
    CHECK_STR(cfx_str(cfx_triu(m, 1)), "tensor([[0., 1.],\n        [0., 0.]])");
    CHECK_STR(cfx_str(cfx_triu(m, INT64_MIN)), cfx_str(m));
    CHECK_STR(cfx_str(cfx_diag(numbers(2), -1)),
              "tensor([[0., 0., 0.],\n        [0., 0., 0.],\n        [0., 1., 0.]])");
    CHECK_OK();
    cfx_repeat(m, cfx_list(2));
    CHECK_ERROR("Number of dimensions of repeat dims can not be smaller than number of dimensions "
                "of tensor");
    cfx_repeat(m, cfx_list(-1, 1));
    CHECK_ERROR("Trying to create tensor with negative dimension -2: [-2, 2]");
    cfx_repeat(m, cfx_list(INT64_MAX, 2));
    CHECK_ERROR("overflowed");
}
