/* Indexing operators: numbers, shapes, strides, shared memory and messages. */
#include "numbers.h"

#include <cfx/ops.h>

static cfx_tensor *iota(int ndim, const int64_t *shape) {
    int64_t n = 1;
    float data[256];
    for (int i = 0; i < ndim; i++)
        n *= shape[i];
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)i;
    return cfx_tensor_new(CFX_F32, ndim, shape, data);
}
#define IOTA(...)                                                                                  \
    iota((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
#define INTS(...) cfx_tensor_from_value(cfx_list(__VA_ARGS__))
#define ROW(...) cfx_list(__VA_ARGS__)

TEST(index_by_tensors) {
    cfx_tensor *x = IOTA(2, 3, 4), *i = INTS(1, 0), *j = INTS(2, -1);
    CHECK_STR(SHAPE(cfx_index(x, cfx_list(i))), "[2, 3, 4]");
    CHECK_STR(cfx_tensor_str(cfx_index(x, cfx_list(i, j))),
              "tensor([[20., 21., 22., 23.],\n        [ 8.,  9., 10., 11.]])");
    CHECK_STR(cfx_tensor_str(cfx_index(x, cfx_list(CFX_NONE, CFX_NONE, j))),
              "tensor([[[ 2.,  3.],\n         [ 6.,  7.],\n         [10., 11.]],\n\n"
              "        [[14., 15.],\n         [18., 19.],\n         [22., 23.]]])");
    /* indices that are no neighbours come first */
    cfx_tensor *y = cfx_index(x, cfx_list(i, CFX_NONE, j));
    CHECK_STR(cfx_tensor_str(y), "tensor([[14., 18., 22.],\n        [ 3.,  7., 11.]])");
    cfx_tensor *grid = cfx_tensor_from_value(cfx_list(ROW(0), ROW(1)));
    CHECK_STR(SHAPE(cfx_index(x, cfx_list(grid, j))), "[2, 2, 4]");
    CHECK_STR(STRIDE(cfx_index(x, cfx_list(CFX_NONE, i))), "[8, 4, 1]");
    CHECK_OK();
}

TEST(index_by_masks) {
    cfx_tensor *x = IOTA(2, 2);
    cfx_tensor *mask = cfx_tensor_from_value(
        cfx_list(ROW(cfx_bool(1), cfx_bool(0)), ROW(cfx_bool(0), cfx_bool(1))));
    cfx_tensor *row = cfx_tensor_from_value(cfx_list(cfx_bool(0), cfx_bool(1)));
    CHECK_STR(cfx_tensor_str(cfx_index(x, cfx_list(mask))), "tensor([0., 3.])");
    CHECK_STR(cfx_tensor_str(cfx_index(x, cfx_list(row))), "tensor([[2., 3.]])");
    CHECK_STR(cfx_tensor_str(cfx_index(x, cfx_list(CFX_NONE, row))),
              "tensor([[1.],\n        [3.]])");
    cfx_tensor *fake = cfx_tensor_fake(CFX_F32, 2, (int64_t[]){2, 2}, NULL);
    cfx_tensor *fake_mask = cfx_tensor_fake(CFX_BOOL, 2, (int64_t[]){2, 2}, NULL);
    cfx_index(fake, cfx_list(fake_mask));
    CHECK_ERROR("depends on data");
    cfx_index(x, cfx_list(cfx_tensor_from_value(cfx_list(cfx_bool(1), cfx_bool(0), cfx_bool(1)))));
    CHECK_ERROR(
        "The shape of the mask [3] at index 0 does not match the shape of the indexed tensor "
        "[2, 2] at index 0");
}

TEST(index_mistakes) {
    cfx_tensor *x = IOTA(5, 2);
    cfx_index(x, cfx_list(INTS(0, 10)));
    CHECK_ERROR("index 10 is out of bounds for dimension 0 with size 5");
    cfx_index(x, cfx_list(INTS(0, 1), INTS(0, 1, 1)));
    CHECK_ERROR(
        "shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]");
    cfx_index(x, cfx_list(INTS(0), INTS(0), INTS(0)));
    CHECK_ERROR("too many indices for tensor of dimension 2 (got 3)");
    cfx_index(x, cfx_list(IOTA(2)));
    CHECK_ERROR("tensors used as indices must be long, int, byte or bool tensors");
    cfx_index(IOTA(0, 2), cfx_list(INTS(0)));
    CHECK_ERROR("index is out of bounds for dimension with size 0");
    cfx_index_select(x, 0, INTS(7));
    CHECK_ERROR("index out of range in self");
    cfx_gather(x, 0, IOTA(2, 2));
    CHECK_ERROR("gather(): Expected dtype int32/int64 for index");
    cfx_take(x, INTS(99));
    CHECK_ERROR("out of range: tried to access index 99 on a tensor of 10 elements.");
}

/* What does not fit is told by the shapes already. */
TEST(index_put_of_fake_tensors) {
    cfx_tensor *x = cfx_zeros(4, 3), *i = INTS(0, 2);
    bool before = cfx_set_fake_mode(true);
    cfx_index_put(x, cfx_list(i), cfx_zeros(2, 3));
    CHECK_OK();
    cfx_index_put(x, cfx_list(i), cfx_zeros(5, 3));
    CHECK_ERROR("shape mismatch: value tensor of shape [5, 3] cannot be broadcast to indexing "
                "result of shape [2, 3]");
    cfx_set_fake_mode(before);
}

TEST(index_put_writes) {
    cfx_tensor *x = IOTA(3, 2), *i = INTS(0, 0, 2),
               *ones = cfx_tensor_from_value(cfx_list(1.0, 1.0));
    CHECK_STR(cfx_tensor_str(cfx_index_put(x, cfx_list(i), ones, cfx_bool(1))),
              "tensor([[2., 3.],\n        [2., 3.],\n        [5., 6.]])");
    CHECK_STR(cfx_tensor_str(x), "tensor([[0., 1.],\n        [2., 3.],\n        [4., 5.]])");
    /* in place through a view: only its elements change, the storage is shared */
    cfx_tensor *column = cfx_tensor_view(x, 1, (int64_t[]){3}, (int64_t[]){2}, 1);
    cfx_tensor *same =
        cfx_index_put_(column, cfx_list(INTS(-1)), cfx_tensor_from_value(cfx_float(9)));
    CHECK(cfx_tensor_shares(same, x));
    CHECK_STR(cfx_tensor_str(x), "tensor([[0., 1.],\n        [2., 3.],\n        [4., 9.]])");
    /* a bad index leaves all as it was */
    cfx_index_put_(x, cfx_list(INTS(0, 3)), ones);
    CHECK_ERROR("index 3 is out of bounds for dimension 0 with size 3");
    CHECK_NEAR(cfx_tensor_get(x, 0), 0, 0);
    cfx_index_put(x, cfx_list(i), INTS(1, 1));
    CHECK_ERROR("Index put requires the source and destination dtypes match, got Float for the "
                "destination and Long for the source.");
    cfx_index_put(x, cfx_list(i), IOTA(4));
    CHECK_ERROR(
        "shape mismatch: value tensor of shape [4] cannot be broadcast to indexing result of "
        "shape [3, 2]");
    /* halves accumulate in float */
    cfx_tensor *h = cfx_tensor_new(CFX_BF16, 1, (int64_t[]){1}, (uint16_t[]){0x3f80});
    cfx_tensor *v = cfx_tensor_new(CFX_BF16, 1, (int64_t[]){2}, (uint16_t[]){0x3b80, 0x3b80});
    cfx_tensor *sum = cfx_index_put(h, cfx_list(INTS(0, 0)), v, cfx_bool(1));
    CHECK_NEAR(cfx_tensor_get(sum, 0), 1.0078125, 0);
}

TEST(index_along_a_dimension) {
    cfx_tensor *x = IOTA(3, 2), *i = INTS(2, 0);
    CHECK_STR(cfx_tensor_str(cfx_index_select(x, 0, i)), "tensor([[4., 5.],\n        [0., 1.]])");
    CHECK_STR(cfx_tensor_str(cfx_index_add(x, 0, i, IOTA(2, 2), CFX_KW(alpha, 10))),
              "tensor([[20., 31.],\n        [ 2.,  3.],\n        [ 4., 15.]])");
    CHECK_STR(cfx_tensor_str(cfx_index_copy(x, 0, i, IOTA(2, 2))),
              "tensor([[2., 3.],\n        [2., 3.],\n        [0., 1.]])");
    CHECK_STR(cfx_tensor_str(cfx_index_fill(x, 1, INTS(-1), 7)),
              "tensor([[0., 7.],\n        [2., 7.],\n        [4., 7.]])");
    CHECK_STR(cfx_tensor_str(cfx_index_reduce(x, 0, INTS(1, 1), IOTA(2, 2), "amax")),
              "tensor([[0., 1.],\n        [2., 3.],\n        [4., 5.]])");
    CHECK_STR(cfx_tensor_str(cfx_take(x, INTS(5, -6))), "tensor([5., 0.])");
    cfx_tensor *zero = cfx_tensor_from_value(cfx_float(3));
    CHECK_STR(cfx_tensor_str(cfx_index_select(zero, 0, INTS(0))), "tensor(3.)");
    CHECK_OK();
    cfx_index_select(x, 2, i);
    CHECK_ERROR("Dimension out of range (expected to be in range of [-2, 1], but got 2)");
}

/* PyTorch does not look at indices where there is nothing to write, unless they are selected. */
TEST(index_along_empty_slices) {
    cfx_tensor *x = cfx_zeros(3, 0);
    CHECK_STR(cfx_tensor_str(cfx_index_fill(x, 0, INTS(7), 1.0)), "tensor([], size=(3, 0))");
    CHECK_STR(cfx_tensor_str(cfx_index_copy(x, 0, INTS(-4), cfx_zeros(1, 0))),
              "tensor([], size=(3, 0))");
    CHECK_STR(cfx_tensor_str(cfx_index(x, cfx_list(INTS(7)))), "tensor([], size=(1, 0))");
    CHECK_STR(cfx_tensor_str(cfx_index_put_(x, cfx_list(INTS(7)), cfx_zeros(1, 0))),
              "tensor([], size=(3, 0))");
    CHECK_OK();
    cfx_index_fill(cfx_zeros(0, 2), 0, INTS(0), 1.0);
    CHECK_ERROR("index 0 is out of bounds for dimension 0 with size 0");
    cfx_index_select(x, 0, INTS(7));
    CHECK_ERROR("index out of range in self");
}

/* Without dimensions there is one element, which all indices mean; sources lie as they do. */
TEST(index_along_no_dimension) {
    cfx_tensor *x = cfx_scalar_tensor(2.0), *i = INTS(0, 0, 0);
    CHECK_STR(cfx_tensor_str(cfx_index_fill(x, 0, i, 9.0)), "tensor(9.)");
    CHECK_STR(cfx_tensor_str(cfx_index_add(x, 0, i, cfx_expand(cfx_ones(1), cfx_list(3)))),
              "tensor(5.)");
    cfx_tensor *apart = cfx_as_strided(IOTA(7), cfx_list(3), cfx_list(3));
    CHECK_STR(cfx_tensor_str(cfx_index_copy(x, 0, i, apart)), "tensor(6.)");
    CHECK_STR(cfx_tensor_str(cfx_index_reduce(x, 0, i, apart, "amax",
                                              CFX_KW(include_self, cfx_bool(0)))),
              "tensor(6.)");
    CHECK_STR(cfx_tensor_str(cfx_index_select(x, 0, INTS(0))), "tensor(2.)");
    CHECK_OK();
}

TEST(gather_and_scatter) {
    cfx_tensor *x = IOTA(2, 3);
    cfx_tensor *i = cfx_tensor_from_value(cfx_list(ROW(2, 0), ROW(1, 1)));
    CHECK_STR(cfx_tensor_str(cfx_gather(x, 1, i)), "tensor([[2., 0.],\n        [4., 4.]])");
    CHECK_STR(cfx_tensor_str(cfx_scatter(x, 1, i, 9)),
              "tensor([[9., 1., 9.],\n        [3., 9., 5.]])");
    CHECK_STR(cfx_tensor_str(cfx_scatter_add(x, 1, i, IOTA(2, 2))),
              "tensor([[1., 1., 2.],\n        [3., 9., 5.]])");
    CHECK_STR(cfx_tensor_str(cfx_scatter_reduce(x, 1, i, IOTA(2, 2), "mean",
                                                CFX_KW(include_self, cfx_bool(0)))),
              "tensor([[1.0000, 1.0000, 0.0000],\n        [3.0000, 2.5000, 5.0000]])");
    cfx_scatter(x, 1, i, IOTA(1, 2));
    CHECK_ERROR(
        "Expected index [2, 2] to be no larger than self [2, 3] apart from dimension 1 and to "
        "be no larger size than src [1, 2]");
    cfx_scatter_add(x, 1, cfx_tensor_from_value(cfx_list(ROW(3))), x);
    CHECK_ERROR("index 3 is out of bounds for dimension 1 with size 3");
    cfx_scatter_(x, 1, i, x);
    CHECK_ERROR("refer to a single memory location");
}

/* What is written lies between the numbers of the index: it counts as it was. */
TEST(indices_may_lie_in_what_is_written) {
    cfx_tensor *ones = cfx_full(cfx_list(8), 1, CFX_KW(dtype, cfx_i64));
    cfx_tensor *x = cfx_clone(ones), *far = cfx_full(cfx_list(4), 1 << 30, CFX_KW(dtype, cfx_i64));
    cfx_scatter_(cfx_as_strided(x, cfx_list(4), cfx_list(2), 0), 0, cfx_slice(x, 0, 0, 4), far);
    CHECK_STR(cfx_tensor_str(x), "tensor([         1,          1, 1073741824,          1,          "
                                 "1,          1,\n                 1,          1])");
    x = cfx_clone(ones);
    cfx_index_copy_(cfx_as_strided(x, cfx_list(4), cfx_list(2), 0), 0, cfx_slice(x, 0, 0, 4), far);
    CHECK_INT(cfx_tensor_get(x, 2), 1 << 30);
    CHECK_INT(cfx_tensor_get(cfx_sum(x), 0), 7 + (1 << 30));
    x = cfx_clone(ones);
    cfx_index_put_(x, cfx_list(x), cfx_full(cfx_list(8), 5, CFX_KW(dtype, cfx_i64)));
    CHECK_STR(cfx_tensor_str(x), "tensor([1, 5, 1, 1, 1, 1, 1, 1])");
    CHECK_OK();
}

TEST(masks_and_nonzero) {
    cfx_tensor *x = IOTA(2, 2), *m = cfx_tensor_from_value(cfx_list(cfx_bool(1), cfx_bool(0)));
    CHECK_STR(cfx_tensor_str(cfx_masked_fill(x, m, -1)),
              "tensor([[-1.,  1.],\n        [-1.,  3.]])");
    CHECK_STR(cfx_tensor_str(cfx_masked_select(x, m)), "tensor([0., 2.])");
    CHECK_STR(cfx_tensor_str(cfx_masked_scatter(x, m, IOTA(9))),
              "tensor([[0., 1.],\n        [1., 3.]])");
    CHECK_STR(cfx_tensor_str(cfx_nonzero(x)), "tensor([[0, 1],\n        [1, 0],\n        [1, 1]])");
    CHECK_STR(STRIDE(cfx_nonzero(x)), "[1, 3]");
    CHECK_STR(cfx_tensor_str(cfx_nonzero_static(x, CFX_KW(size, 2))),
              "tensor([[0, 1],\n        [1, 0]])");
    CHECK_OK();
    cfx_masked_fill(x, INTS(1, 0), 0);
    CHECK_ERROR("masked_fill_ only supports boolean masks, but got mask with dtype long int");
    cfx_masked_fill_(IOTA(2),
                     cfx_tensor_from_value(
                         cfx_list(ROW(cfx_bool(1), cfx_bool(1)), ROW(cfx_bool(1), cfx_bool(1)))),
                     0);
    CHECK_ERROR("doesn't match the broadcast shape [2, 2]");
    cfx_masked_scatter(x, m, IOTA(1));
    CHECK_ERROR("Number of elements of source < number of ones in mask");
}

TEST(embedding_gradients_look_at_shapes_first) {
    cfx_tensor *none = cfx_ones(cfx_list_value(0, NULL)), *at = INTS(0, 1);
    cfx_aten__embedding_bag_dense_backward(none, at, at, at, at, 3, false, 2, cfx_none());
    CHECK_ERROR("_embedding_bag_dense_backward: the gradient has a row for each bag, got []");
    /* a product of sizes that wraps to the number of elements there are */
    cfx_tensor *grad = cfx_tensor_fake(CFX_F32, 2, (int64_t[]){2, INT64_C(1) << 31}, NULL);
    cfx_tensor *many = cfx_tensor_fake(CFX_I64, 1, (int64_t[]){2 + (INT64_C(1) << 33)}, NULL);
    cfx_embedding_dense_backward(grad, many, 2, -1, false);
    CHECK_ERROR("embedding_dense_backward: grad of shape [2, 2147483648] does not fit indices of "
                "shape [8589934594]");
}

TEST(gradients_of_scatter_count_no_dims_as_one) {
    cfx_tensor *none = cfx_zeros(cfx_list_value(0, NULL)), *zero = cfx_to(none, cfx_i64);
    cfx_tensor *src = cfx_requires_grad(cfx_ones(2), true);
    cfx_backward(cfx_scatter_add(none, 0, zero, src));
    CHECK_STR(cfx_tensor_str(cfx_tensor_grad(src)), "tensor([1., 0.])");
    cfx_tensor *lone = cfx_requires_grad(cfx_ones(cfx_list_value(0, NULL)), true);
    cfx_backward(cfx_sum(cfx_scatter_add(cfx_zeros(2), 0, INTS(1), lone)));
    CHECK_STR(cfx_tensor_str(cfx_tensor_grad(lone)), "tensor(1.)");
}
