/* Tensors of known numbers for tests, and checks of many numbers at once. */
#ifndef CFX_TEST_NUMBERS_H
#define CFX_TEST_NUMBERS_H

#include "draw.h"
#include "test.h"

/* sin(0), sin(1), ... in float32: WAVES(2, 3) has that shape. */
cfx_tensor *test_waves(int ndim, const int64_t *shape);
#define WAVES(...)                                                                                 \
    test_waves((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
/* Whole numbers from -8 to 8 in no order, which every dtype holds exactly. */
cfx_tensor *test_numbers(cfx_dtype dtype, int ndim, const int64_t *shape);

/* Reals that were drawn, or pairs of them, in one of the dtypes that have them. */
cfx_tensor *test_noise(cfx_dtype dtype, int ndim, const int64_t *shape);

/* "[6, 3, 1]" */
#define SHAPE(t) cfx_repr(cfx_ints_value(cfx_tensor_ndim(t), cfx_tensor_shape(t)))
#define STRIDE(t) cfx_repr(cfx_ints_value(cfx_tensor_ndim(t), cfx_tensor_stride(t)))
#define CHECK_SHAPE(t, text) CHECK_STR(SHAPE(t), text)
#define CHECK_STRIDE(t, text) CHECK_STR(STRIDE(t), text)

/* Holds when the first elements are near these. */
#define CHECK_NUMBERS(t, ...)                                                                      \
    test_check_numbers(t, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)),                 \
                       (double[]){__VA_ARGS__}, CFX_HERE)
bool test_check_numbers(const cfx_tensor *t, int n, const double *want, cfx_site at);

#endif
