/* Texts are what PyTorch prints for the same tensors. */
#include "tensor.h"
#include "test.h"

#include <math.h>

#define T(dtype, ctype, ...)                                                                       \
    make(dtype, (ctype[]){__VA_ARGS__}, sizeof((ctype[]){__VA_ARGS__}) / sizeof(ctype))

static cfx_tensor *make(cfx_dtype dtype, const void *data, int64_t n) {
    return cfx_tensor_new(dtype, 1, &n, data);
}

static cfx_tensor *count(cfx_dtype dtype, int ndim, const int64_t *shape) {
    cfx_tensor *t = cfx_tensor_new(dtype, ndim, shape, NULL);
    for (int64_t i = 0; i < t->numel; i++)
        cfx__tensor_set(t, i, cfx_int(i));
    return t;
}

#define COUNT_TO(dtype, ...)                                                                       \
    count(dtype, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

TEST(whole_numbers_share_a_width) {
    CHECK_STR(cfx_tensor_str(COUNT_TO(CFX_I64, 3, 4)), "tensor([[ 0,  1,  2,  3],\n"
                                                       "        [ 4,  5,  6,  7],\n"
                                                       "        [ 8,  9, 10, 11]])");
    CHECK_STR(cfx_tensor_str(COUNT_TO(CFX_I64, 2, 3, 4)), "tensor([[[ 0,  1,  2,  3],\n"
                                                          "         [ 4,  5,  6,  7],\n"
                                                          "         [ 8,  9, 10, 11]],\n"
                                                          "\n"
                                                          "        [[12, 13, 14, 15],\n"
                                                          "         [16, 17, 18, 19],\n"
                                                          "         [20, 21, 22, 23]]])");
    CHECK_STR(cfx_tensor_str(T(CFX_I64, int64_t, INT64_MIN, INT64_MAX)),
              "tensor([-9223372036854775808,  9223372036854775807])");
    CHECK_STR(cfx_tensor_str(T(CFX_BOOL, char, 1, 0)), "tensor([ True, False])");
}

TEST(floats_choose_their_form) {
    CHECK_STR(cfx_tensor_str(T(CFX_F32, float, 1.5f, -2, 0.25f)),
              "tensor([ 1.5000, -2.0000,  0.2500])");
    CHECK_STR(cfx_tensor_str(T(CFX_F32, float, 1, 2, -0.f)), "tensor([1., 2., -0.])");
    CHECK_STR(cfx_tensor_str(T(CFX_F32, float, 1e-5f, 1)), "tensor([1.0000e-05, 1.0000e+00])");
    CHECK_STR(cfx_tensor_str(T(CFX_F32, float, 1e9f, 2)), "tensor([1.0000e+09, 2.0000e+00])");
    CHECK_STR(cfx_tensor_str(T(CFX_F32, float, 1000, 1)), "tensor([1000.,    1.])");
    CHECK_STR(cfx_tensor_str(T(CFX_F32, float, 1001, 1)), "tensor([1.0010e+03, 1.0000e+00])");
    CHECK_STR(cfx_tensor_str(T(CFX_F32, float, NAN, INFINITY, -1.5f)),
              "tensor([    nan,     inf, -1.5000])");
    CHECK_STR(cfx_tensor_str(T(CFX_F32, float, -NAN)), "tensor([nan])");
}

TEST(complex_numbers_have_two_forms) {
    CHECK_STR(cfx_tensor_str(make(CFX_C64, (float[]){1, 2, -0.5f, -1}, 2)),
              "tensor([ 1.0000+2.j, -0.5000-1.j])");
    CHECK_STR(cfx_tensor_str(cfx_tensor_new(CFX_C64, 0, NULL, (float[]){1, -2})),
              "tensor(1.-2.j)");
}

TEST(the_dtype_is_said_where_it_is_not_plain) {
    int64_t none = 0;
    CHECK_STR(cfx_tensor_str(T(CFX_F64, double, 0, 0)), "tensor([0., 0.], dtype=torch.float64)");
    CHECK_STR(cfx_tensor_str(cfx_tensor_new(CFX_F16, 0, NULL, (uint16_t[]){0x4280})),
              "tensor(3.2500, dtype=torch.float16)");
    CHECK_STR(cfx_tensor_str(cfx_tensor_new(CFX_BF16, 0, NULL, (uint16_t[]){0x3dcd})),
              "tensor(0.1001, dtype=torch.bfloat16)");
    CHECK_STR(cfx_tensor_str(cfx_tensor_new(CFX_I64, 0, NULL, (int64_t[]){7})), "tensor(7)");
    CHECK_STR(cfx_tensor_str(cfx_tensor_new(CFX_F32, 2, (int64_t[]){0, 3}, NULL)),
              "tensor([], size=(0, 3))");
    CHECK_STR(cfx_tensor_str(cfx_tensor_new(CFX_I64, 1, &none, NULL)),
              "tensor([], dtype=torch.int64)");
}

TEST(lines_break_at_80_columns) {
    cfx_tensor *t = COUNT_TO(CFX_I32, 20);
    for (int i = 0; i < 20; i++)
        cfx__tensor_set(t, i, cfx_int(1000 * i));
    CHECK_STR(cfx_tensor_str(t),
              "tensor([    0,  1000,  2000,  3000,  4000,  5000,  6000,  7000,  8000,  9000,\n"
              "        10000, 11000, 12000, 13000, 14000, 15000, 16000, 17000, 18000, 19000],\n"
              "       dtype=torch.int32)");
    t = COUNT_TO(CFX_F64, 17);
    for (int i = 0; i < 17; i++)
        cfx__tensor_set(t, i, cfx_float(i / 16.));
    CHECK_STR(cfx_tensor_str(t),
              "tensor([0.0000, 0.0625, 0.1250, 0.1875, 0.2500, 0.3125, 0.3750, 0.4375, 0.5000,\n"
              "        0.5625, 0.6250, 0.6875, 0.7500, 0.8125, 0.8750, 0.9375, 1.0000],\n"
              "       dtype=torch.float64)");
}

TEST(large_tensors_show_their_edges) {
    CHECK_STR(cfx_tensor_str(COUNT_TO(CFX_I64, 1001)),
              "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
    CHECK_STR(cfx_tensor_str(COUNT_TO(CFX_F32, 30, 40)),
              "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 3.7000e+01, 3.8000e+01,\n"
              "         3.9000e+01],\n"
              "        [4.0000e+01, 4.1000e+01, 4.2000e+01,  ..., 7.7000e+01, 7.8000e+01,\n"
              "         7.9000e+01],\n"
              "        [8.0000e+01, 8.1000e+01, 8.2000e+01,  ..., 1.1700e+02, 1.1800e+02,\n"
              "         1.1900e+02],\n"
              "        ...,\n"
              "        [1.0800e+03, 1.0810e+03, 1.0820e+03,  ..., 1.1170e+03, 1.1180e+03,\n"
              "         1.1190e+03],\n"
              "        [1.1200e+03, 1.1210e+03, 1.1220e+03,  ..., 1.1570e+03, 1.1580e+03,\n"
              "         1.1590e+03],\n"
              "        [1.1600e+03, 1.1610e+03, 1.1620e+03,  ..., 1.1970e+03, 1.1980e+03,\n"
              "         1.1990e+03]])");
}

TEST(options_change_the_text) {
    cfx_tensor *t = T(CFX_F32, float, 1.234f, -2.5f, 3.75f, 4, 5);
    CHECK_STR(cfx_tensor_str_with(t, (cfx_print_options){.precision = 2, .linewidth = 30}),
              "tensor([ 1.23, -2.50,  3.75,\n"
              "         4.00,  5.00])");
    CHECK_STR(cfx_tensor_str_with(t, (cfx_print_options){.precision = 1, .sci_mode = 1}),
              "tensor([1.2e+00, -2.5e+00, 3.8e+00, 4.0e+00, 5.0e+00])");
    CHECK_STR(cfx_tensor_str_with(T(CFX_F32, float, 1e5f, 1), (cfx_print_options){.sci_mode = -1}),
              "tensor([   100000.,         1.])");
    CHECK_STR(cfx_tensor_str_with(COUNT_TO(CFX_I64, 9),
                                  (cfx_print_options){.threshold = 5, .edge_items = 1}),
              "tensor([0,  ..., 8])");
}

TEST(views_print_what_they_show) {
    cfx_tensor *t = COUNT_TO(CFX_I64, 2, 3);
    CHECK_STR(cfx_tensor_str(cfx_tensor_view(t, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, 0)),
              "tensor([[0, 3],\n"
              "        [1, 4],\n"
              "        [2, 5]])");
}

TEST(tensors_without_data_show_their_size) {
    int64_t shape[] = {2, 3};
    CHECK_STR(cfx_tensor_str(cfx_tensor_fake(CFX_F32, 2, shape, NULL)),
              "FakeTensor(..., size=(2, 3))");
    CHECK_STR(cfx_tensor_str(cfx_tensor_fake(CFX_I64, 1, shape, NULL)),
              "FakeTensor(..., size=(2,), dtype=torch.int64)");
    cfx_tensor *meta = cfx_tensor_fake(CFX_F32, 0, NULL, NULL);
    meta->device.type = CFX_META;
    CHECK_STR(cfx_tensor_str(meta), "tensor(..., device='meta', size=())");
}

TEST(leaves_say_that_they_require_grad) {
    cfx_tensor *t = T(CFX_F32, float, 1, 2);
    t->head.flags |= CFX__GRAD;
    CHECK_STR(cfx_tensor_str(t), "tensor([1., 2.], requires_grad=True)");
}
