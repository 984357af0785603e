/* The dtypes for storage: float8, unsigned integers, complex32. What is expected is what PyTorch
 * 2.11 gives. */
#include "test.h"

#include "tensor.h"

#include <math.h>

static cfx_tensor *wide(cfx_tensor *t) { return cfx_to(t, cfx_f32); }

/* The numbers, blank-separated; scope. */
static const char *numbers(const cfx_tensor *t) {
    cfx__text out = {0};
    for (int64_t i = 0; i < cfx_tensor_numel(t); i++)
        cfx__text_printf(&out, i ? " %.17g" : "%.17g", cfx_tensor_get(t, i));
    return cfx__text_take(&out);
}

static cfx_tensor *from_bits(int first, int n, cfx_dtype d) {
    cfx_tensor *bits = cfx_to(cfx_arange(first, first + n), cfx_u8);
    return cfx_view(bits, cfx_dtype_value(d));
}

TEST(float8_numbers_are_those_of_their_formats) {
    CHECK_STR(cfx_str(wide(from_bits(0, 4, CFX_F8E4M3FN))),
              "tensor([0.0000, 0.0020, 0.0039, 0.0059])");
    CHECK_STR(cfx_str(wide(from_bits(0x7c, 4, CFX_F8E4M3FN))), "tensor([384., 416., 448.,  nan])");
    CHECK_STR(cfx_str(wide(from_bits(0x7a, 6, CFX_F8E5M2))),
              "tensor([49152., 57344.,    inf,    nan,    nan,    nan])");
    CHECK_STR(cfx_str(wide(from_bits(0x7e, 4, CFX_F8E4M3FNUZ))),
              "tensor([ 2.2400e+02,  2.4000e+02,         nan, -9.7656e-04])");
    CHECK_STR(cfx_str(wide(from_bits(0x7f, 3, CFX_F8E5M2FNUZ))),
              "tensor([ 5.7344e+04,         nan, -7.6294e-06])");
    CHECK_STR(cfx_str(wide(from_bits(0x7d, 4, CFX_F8E8M0FNU))),
              "tensor([0.2500, 0.5000, 1.0000, 2.0000])");
}

/* Every number of a format comes back from float32, and what lies half way between two goes to the
 * even one. */
static void round_trip(cfx_dtype d) {
    cfx_tensor *all = from_bits(0, 256, d), *floats = wide(all);
    cfx_tensor *back = cfx_to(floats, cfx_dtype_value(d));
    const uint8_t *a = cfx_tensor_data(all), *b = cfx_tensor_data(back);
    const float *f = cfx_tensor_data(floats);
    for (int i = 0; i < 256; i++)
        if (isnan(f[i]))
            CHECK(isnan(cfx_tensor_get(back, i)));
        else
            CHECK_INT(b[i], a[i]);
    for (int i = 0; i < 127; i++) {
        if (!isfinite(f[i]) || !isfinite(f[i + 1]))
            continue;
        double middle = (double)f[i] + ((double)f[i + 1] - (double)f[i]) / 2;
        cfx_tensor *half = cfx_to(cfx_tensor_from_value(cfx_float(middle)), cfx_dtype_value(d));
        CHECK_INT(*(const uint8_t *)cfx_tensor_data(half), i & 1 ? i + 1 : i);
    }
}

TEST(float8_rounds_to_the_nearest_ties_to_even) {
    round_trip(CFX_F8E4M3FN);
    round_trip(CFX_F8E5M2);
    round_trip(CFX_F8E4M3FNUZ);
    round_trip(CFX_F8E5M2FNUZ);
}

static const char *as(cfx_value list, cfx_value dtype) {
    cfx_tensor *x = cfx_to(cfx_tensor_from_value(list), dtype);
    return numbers(x);
}

TEST(what_is_too_large_for_float8_is_infinite_or_nan) {
    cfx_value x = cfx_list(448.0, 464.0, 464.5, -1e9, INFINITY, 57344.0, 61440.0, 1e-9);
    CHECK_STR(as(x, cfx_f8e4m3fn), "448 448 nan nan nan nan nan 0");
    CHECK_STR(as(x, cfx_f8e5m2), "448 448 448 -inf inf 57344 inf 0");
    CHECK_STR(as(x, cfx_f8e5m2fnuz), "448 448 448 nan nan 57344 nan 0");
    CHECK_STR(as(cfx_list(240.0, 247.0, 248.0, -0.0), cfx_f8e4m3fnuz), "240 240 nan 0");
    CHECK_STR(as(cfx_list(1.4, 1.5, 3.0, -4.0, 0.0), cfx_f8e8m0fnu),
              "1 2 4 4 5.8774717541114375e-39");
}

TEST(unsigned_integers_wrap_and_keep_their_upper_half) {
    cfx_tensor *x = cfx_tensor_from_value(cfx_list(-1, 65536, 70000, (int64_t)1 << 40));
    CHECK_STR(cfx_str(cfx_to(x, cfx_u16)),
              "tensor([65535,     0,  4464,     0], dtype=torch.uint16)");
    CHECK_STR(cfx_str(cfx_to(x, cfx_u32)),
              "tensor([4294967295,      65536,      70000,          0], dtype=torch.uint32)");
    cfx_tensor *most = cfx_to(x, cfx_u64);
    CHECK_STR(cfx_str(most),
              "tensor([18446744073709551615,                65536,                70000,\n"
              "               1099511627776], dtype=torch.uint64)");
    CHECK_STR(numbers(cfx_to(most, cfx_f32)), "1.8446744073709552e+19 65536 70000 1099511627776");
    CHECK_STR(cfx_str(cfx_to(cfx_tensor_from_value(cfx_list(1.5e19, 3.9)), cfx_u64)),
              "tensor([15000000520515485696,                    3], dtype=torch.uint64)");
    CHECK(cfx_tensor_get(most, 0) == 0x1p64);
}

TEST(tensors_of_dtypes_for_storage_print_as_in_pytorch) {
    cfx_tensor *x = cfx_tensor_from_value(cfx_list(cfx_list(0.5, 1.0), cfx_list(-2.0, 448.0)));
    CHECK_STR(cfx_str(cfx_to(x, cfx_f8e4m3fn)),
              "tensor([[  0.5000,   1.0000],\n"
              "        [ -2.0000, 448.0000]], dtype=torch.float8_e4m3fn)");
    CHECK_STR(cfx_str(cfx_to(x, cfx_c32)),
              "tensor([[  0.5000+0.j,   1.0000+0.j],\n"
              "        [ -2.0000+0.j, 448.0000+0.j]], dtype=torch.complex32)");
    CHECK_STR(cfx_dtype_brief(CFX_F8E5M2FNUZ), "f8e5m2fnuz");
    cfx_dtype d;
    CHECK(cfx_dtype_parse("torch.float8_e8m0fnu", &d) && d == CFX_F8E8M0FNU);
}

TEST(dtypes_for_storage_are_moved_and_little_else) {
    cfx_tensor *x = cfx_to(cfx_reshape(cfx_arange(6.0), cfx_list(2, 3)), cfx_f8e4m3fn);
    CHECK_STR(cfx_str(cfx_select(cfx_cat(cfx_list(x, x), 1), 0, 1)),
              "tensor([3., 4., 5., 3., 4., 5.], dtype=torch.float8_e4m3fn)");
    CHECK_STR(cfx_str(cfx_t(cfx_clone(x))),
              "tensor([[0., 3.],\n        [1., 4.],\n        [2., 5.]], "
              "dtype=torch.float8_e4m3fn)");
    CHECK_STR(cfx_str(cfx_mul(cfx_to(x, cfx_bf16), 0.5)),
              "tensor([[0.0000, 0.5000, 1.0000],\n        [1.5000, 2.0000, 2.5000]], "
              "dtype=torch.bfloat16)");
    CHECK_STR(cfx_str(cfx_copy_(cfx_zeros(cfx_list(2, 3)), x)),
              "tensor([[0., 1., 2.],\n        [3., 4., 5.]])");
    cfx_add(x, cfx_ones(3));
    CHECK_ERROR("Promotion for Float8 Types is not supported, attempted to promote Float8_e4m3fn "
                "and Float");
    cfx_add(cfx_to(x, cfx_u16), cfx_ones(3, CFX_KW(dtype, cfx_i64)));
    CHECK_ERROR("Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
                "UInt16 and Long");
}

TEST(floats_are_what_the_default_says) {
    CHECK(cfx_set_default_dtype(CFX_F64) == CFX_F32);
    CHECK(cfx_tensor_dtype(cfx_ones(2)) == CFX_F64);
    CHECK(cfx_tensor_dtype(cfx_tensor_from_value(cfx_list(1.5))) == CFX_F64);
    CHECK(cfx_tensor_dtype(cfx_add(cfx_arange(3), 0.5)) == CFX_F64);
    CHECK(cfx_tensor_dtype(cfx_div(cfx_arange(3), 2)) == CFX_F64);
    CHECK(cfx_tensor_dtype(cfx_sin(cfx_arange(3))) == CFX_F64);
    CHECK(cfx_tensor_dtype(cfx_tensor_from_value(cfx_list_value(0, NULL))) == CFX_F64);
    cfx_set_default_dtype(CFX_I64);
    CHECK_ERROR("only floating-point types are supported as the default type");
    CHECK(cfx_set_default_dtype(CFX_F32) == CFX_F64);
    CHECK(cfx_tensor_dtype(cfx_ones(2)) == CFX_F32);
}
