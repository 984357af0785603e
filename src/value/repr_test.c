#include "test.h"

#include "value.h"

static const char *float_text(double f) { return cfx_value_repr(cfx_float(f)); }

TEST(repr_float_is_pythons) {
    CHECK_STR(float_text(1.0), "1.0");
    CHECK_STR(float_text(-0.0), "-0.0");
    CHECK_STR(float_text(0.0), "0.0");
    CHECK_STR(float_text(1e-5), "1e-05");
    CHECK_STR(float_text(0.0001), "0.0001");
    CHECK_STR(float_text(1e16), "1e+16");
    CHECK_STR(float_text(1e15), "1000000000000000.0");
    CHECK_STR(float_text(9007199254740993.0), "9007199254740992.0");
    CHECK_STR(float_text(0.1), "0.1");
    CHECK_STR(float_text(1.0 / 3), "0.3333333333333333");
    CHECK_STR(float_text(0.1 + 0.2), "0.30000000000000004");
    CHECK_STR(float_text(1.5e300), "1.5e+300");
    CHECK_STR(float_text(5e-324), "5e-324");
    CHECK_STR(float_text(1.7976931348623157e308), "1.7976931348623157e+308");
    CHECK_STR(float_text(123456.789), "123456.789");
    CHECK_STR(float_text(__builtin_inf()), "inf");
    CHECK_STR(float_text(-__builtin_inf()), "-inf");
    CHECK_STR(float_text(__builtin_nan("")), "nan");
}

TEST(repr_string_is_pythons) {
    CHECK_STR(cfx_repr("abc"), "'abc'");
    CHECK_STR(cfx_repr("it's"), "\"it's\"");
    CHECK_STR(cfx_repr("it's \"it\""), "'it\\'s \"it\"'");
    CHECK_STR(cfx_repr("a\n\t\\\x01\x7f"), "'a\\n\\t\\\\\\x01\\x7f'");
    CHECK_STR(cfx_repr("\xc3\xa9\xe2\x82\xac"), "'\xc3\xa9\xe2\x82\xac'");
    CHECK_STR(cfx_repr("\xc2\xa0\xe2\x80\x8b"), "'\\xa0\\u200b'");
    CHECK_STR(cfx_repr("\xff"), "'\\xff'");
    CHECK_STR(cfx_value_repr(cfx_string_value_n("a\0b", 3)), "'a\\x00b'");
    CHECK_STR(cfx_str("it's"), "it's");
}

TEST(repr_complex_is_pythons) {
    CHECK_STR(cfx_repr(cfx_complex_value(1, 2)), "(1+2j)");
    CHECK_STR(cfx_repr(cfx_complex_value(0, 1)), "1j");
    CHECK_STR(cfx_repr(cfx_complex_value(-0.0, -1.5)), "(-0-1.5j)");
    CHECK_STR(cfx_repr(cfx_complex_value(1e-5, 1e16)), "(1e-05+1e+16j)");
}

TEST(repr_of_plain_values) {
    CHECK_STR(cfx_repr(CFX_NONE), "None");
    CHECK_STR(cfx_repr((bool)true), "True");
    CHECK_STR(cfx_repr(-7), "-7");
    CHECK_STR(cfx_repr(cfx_f32), "torch.float32");
    CHECK_STR(cfx_repr(cfx_b8), "torch.bool");
    CHECK_STR(cfx_repr(cfx_layout_value(CFX_STRIDED)), "torch.strided");
    CHECK_STR(cfx_repr(cfx_channels_last), "torch.channels_last");
    CHECK_STR(cfx_repr(cfx_ellipsis()), "Ellipsis");
    cfx_device cpu = {CFX_CPU, -1}, gpu = {CFX_CUDA, 1};
    CHECK_STR(cfx_repr(cfx_device_value(cpu)), "device(type='cpu')");
    CHECK_STR(cfx_str(cfx_device_value(cpu)), "cpu");
    CHECK_STR(cfx_repr(cfx_device_value(gpu)), "device(type='cuda', index=1)");
    CHECK_STR(cfx_str(cfx_device_value(gpu)), "cuda:1");
    CHECK_STR(cfx_repr(cfx_slice_value(CFX_NONE, cfx_int(2), CFX_NONE)), "slice(None, 2, None)");
}

TEST(repr_of_containers) {
    CHECK_STR(cfx_repr(cfx_list(1, 2.0, "x")), "[1, 2.0, 'x']");
    CHECK_STR(cfx_repr(cfx_tuple(1)), "(1,)");
    CHECK_STR(cfx_repr(cfx_tuple(1, cfx_list(2))), "(1, [2])");
    CHECK_STR(cfx_repr(cfx_tuple_value(0, NULL)), "()");
    cfx_dict *d = cfx_dict_new();
    CHECK_STR(cfx_repr(d), "{}");
    cfx_dict_set(d, "a", cfx_int(1));
    cfx_dict_put(d, cfx_int(2), CFX_NONE);
    CHECK_STR(cfx_repr(d), "{'a': 1, 2: None}");
    CHECK_STR(cfx_str(cfx_list("a")), "['a']");
}

static void print_name(cfx__text *out, cfx_value v) {
    cfx__text_puts(out, v.tag == CFX_TAG_NODE ? "relu" : "?");
}

TEST(repr_hands_other_rooms_their_values) {
    int node;
    cfx_value v = cfx_list_value(1, (cfx_value[]){cfx_node_value((cfx_node *)(void *)&node)});
    cfx__text out = {0};
    cfx__repr_with(&out, v, print_name);
    CHECK_STR(out.data, "[relu]");
    out.len = 0;
    cfx__repr_with(&out, v, NULL);
    CHECK_STR(out.data, "[<node>]");
    cfx__text_release(&out);
}

TEST(repr_type_names) {
    CHECK_STR(cfx_value_type_name(CFX_NONE), "NoneType");
    CHECK_STR(cfx_value_type_name(cfx_int(1)), "int");
    CHECK_STR(cfx_value_type_name(cfx_list(1, 2)), "List[int]");
    CHECK_STR(cfx_value_type_name(cfx_list(1, "a")), "List[Any]");
    CHECK_STR(cfx_value_type_name(cfx_tuple(1, 2.0)), "Tuple[int, float]");
    CHECK_STR(cfx_value_type_name(cfx_device_value((cfx_device){CFX_CPU, -1})), "Device");
    CHECK_STR(cfx_value_type_name(cfx_f32), "dtype");
    CHECK_STR(cfx__value_python_type(cfx_f32), "torch.dtype");
    CHECK_STR(cfx__value_python_type(cfx_list(1)), "list");
}

TEST(repr_dtypes) {
    static const struct {
        const char *text;
        cfx_dtype dtype;
    } rows[] = {{"float32", CFX_F32}, {"torch.float32", CFX_F32}, {"f32", CFX_F32},
                {"F32", CFX_F32},     {"BF16", CFX_BF16},         {"BOOL", CFX_BOOL},
                {"float", CFX_F32},   {"double", CFX_F64},        {"torch.half", CFX_F16},
                {"long", CFX_I64},    {"int", CFX_I32},           {"short", CFX_I16},
                {"U8", CFX_U8},       {"complex64", CFX_C64}};
    for (int i = 0; i < COUNT(rows); i++) {
        cfx_dtype d = CFX_DTYPE_END;
        CHECK(cfx_dtype_parse(rows[i].text, &d));
        CHECK_INT(d, rows[i].dtype);
    }
    cfx_dtype d;
    CHECK(!cfx_dtype_parse("float31", &d));
    CHECK(!cfx_dtype_parse("", &d));
    CHECK(!cfx_dtype_parse(NULL, &d));
    CHECK_STR(cfx_dtype_name(CFX_BF16), "bfloat16");
    CHECK_STR(cfx_dtype_brief(CFX_I64), "i64");
    CHECK_INT(cfx_dtype_size(CFX_C128), 16);
    CHECK_INT(cfx_dtype_size(CFX_DTYPE_END), 0);
}

TEST(repr_devices_are_read) {
    cfx_device d;
    CHECK(cfx__device_parse("cuda:3", &d));
    CHECK_INT(d.type, CFX_CUDA);
    CHECK_INT(d.index, 3);
    CHECK(cfx__device_parse("meta", &d));
    CHECK_INT(d.index, -1);
    CHECK(!cfx__device_parse("cuda:", &d));
    CHECK(!cfx__device_parse("cuda:x", &d));
    CHECK(!cfx__device_parse("cpux", &d));
    CHECK(!cfx__device_parse("cuda:99999999999999999999", &d));
}
