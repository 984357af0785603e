/* .safetensors files: written, mapped, and refused when they lie. */
#include "../tensor/tensor.h"
#include "files.h"

#include <stdlib.h>
#include <unistd.h>

static void clean(const char *name) {
    test_unlink(name);
    test_folder_done();
}

static void put(const char *header, size_t bytes_of_data) {
    uint64_t len = strlen(header);
    FILE *f = fopen(test_path("a.safetensors"), "wb");
    CHECK(f && fwrite(&len, 1, 8, f) == 8 && fwrite(header, 1, len, f) == len);
    for (size_t i = 0; i < bytes_of_data; i++)
        fputc((int)i, f);
    CHECK(fclose(f) == 0);
}

static cfx_tensor *get(const cfx_dict *d, const char *name) {
    cfx_value v = cfx_dict_get(d, name);
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
}

TEST(safetensors_read_what_was_written) {
    cfx_dict *d = cfx_dict_new(), *meta = cfx_dict_new();
    int n = 0;
    for (int k = 0; k < CFX_DTYPE_COUNT; k++) {
        if (k == CFX_C128 || k == CFX_C32)
            continue;
        cfx_tensor *t = cfx_tensor_new((cfx_dtype)k, 2, (int64_t[]){3, 1}, NULL);
        for (int i = 0; i < 3; i++)
            cfx__tensor_set(t, i, cfx_int(k == CFX_BOOL ? i & 1 : 5 * i + k));
        cfx_dict_set(d, cfx__text_format("t.\"%d\"", n++), cfx_tensor_value(t));
    }
    cfx_dict_set(d, "none", cfx_tensor_value(cfx_tensor_new(CFX_F32, 2, (int64_t[]){0, 2}, NULL)));
    cfx_dict_set(d, "one", cfx_tensor_value(cfx_tensor_new(CFX_F64, 0, NULL, (double[]){0.5})));
    cfx_dict_set(meta, "format", cfx_string_value("pt"));
    CHECK(cfx_safetensors_write(test_path("a.safetensors"), d, meta));
    cfx_dict *back = cfx_safetensors_read(test_path("a.safetensors"));
    if (!CHECK(back && back->len == d->len))
        return;
    for (int64_t i = 0; i < d->len; i++) {
        CHECK_STR(cfx_text(back->entries[i].key), cfx_text(d->entries[i].key));
        CHECK_STR(cfx_tensor_str(cfx_as_tensor(back->entries[i].value)),
                  cfx_tensor_str(cfx_as_tensor(d->entries[i].value)));
        CHECK_INT((uintptr_t)cfx_tensor_data(cfx_as_tensor(back->entries[i].value)) %
                      (uintptr_t)cfx_dtype_size(cfx_as_tensor(back->entries[i].value)->dtype), 0);
    }
    CHECK_OK();
    clean("a.safetensors");
}

TEST(safetensors_lay_out_is_plain) {
    cfx_dict *d = cfx_dict_new();
    cfx_tensor *t = cfx_tensor_new(CFX_F32, 1, (int64_t[]){4}, (float[]){1, 2, 3, 4});
    t = cfx_tensor_view(t, 2, (int64_t[]){2, 2}, (int64_t[]){1, 2}, 0);
    cfx_dict_set(d, "b", cfx_tensor_value(cfx_tensor_new(CFX_U8, 1, (int64_t[]){1}, "x")));
    cfx_dict_set(d, "a", cfx_tensor_value(t));
    CHECK(cfx_safetensors_write(test_path("a.safetensors"), d, NULL));
    cfx__file_mapping *m = cfx__file_map(test_path("a.safetensors"));
    static const char want[] = "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[16,17]},"
                               "\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}";
    CHECK_INT(m->data[0] % 8, 0);
    CHECK_INT(m->size, 8 + m->data[0] + 17);
    CHECK(!memcmp(m->data + 8, want, sizeof want - 1));
    CHECK(!memcmp(m->data + 8 + m->data[0], (float[]){1, 3, 2, 4}, 16));
    cfx_drop(m);
    clean("a.safetensors");
}

TEST(mapped_tensors_outlive_their_dict) {
    put("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]}}", 6);
    cfx_tensor *kept = NULL;
    CFX_SCOPE {
        cfx_dict *d = cfx_safetensors_read(test_path("a.safetensors"));
        kept = cfx_keep(get(d, "b"));
    }
    CHECK_STR(cfx_tensor_str(kept), "tensor([4, 5], dtype=torch.uint8)");
    cfx__tensor_set(kept, 0, cfx_int(9)); /* private: the file does not change */
    cfx_drop(kept);
    cfx_dict *again = cfx_safetensors_read(test_path("a.safetensors"));
    CHECK_STR(cfx_tensor_str(get(again, "b")), "tensor([4, 5], dtype=torch.uint8)");
    clean("a.safetensors");
}

TEST(unaligned_data_is_copied) {
    put("{\"a\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]},"
        "\"b\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[5,9]},"
        "\"c\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[9,11]},"
        "\"__metadata__\":{}}", 11);
    cfx_dict *d = cfx_safetensors_read(test_path("a.safetensors"));
    CHECK_INT(cfx_integer(cfx__tensor_get(get(d, "a"), 0)), 0x03020100);
    CHECK_INT(cfx_integer(cfx__tensor_get(get(d, "b"), 0)), 0x08070605);
    CHECK_INT(get(d, "c")->data[1], 1); /* bytes beyond 0 and 1 become bools */
    CHECK_INT(d->len, 3);
    clean("a.safetensors");
}

TEST(lying_safetensors_are_refused) {
#define ENTRY(dtype, shape, offsets)                                                               \
    "{\"w\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    static const struct {
        const char *header, *why;
    } cases[] = {
        {"[1]", "no JSON object"},
        {"{\"w\":1}", "the entry of tensor 'w'"},
        {"{\"w\":", "the header of"},
        {ENTRY("\"F4\"", "[1]", "[0,1]"), "tensor 'w' has the dtype F4"},
        {ENTRY("3", "[1]", "[0,1]"), "tensor 'w' has the dtype"},
        {ENTRY("\"F32\"", "[1]", "[0,5]"), "has 5 bytes"},
        {ENTRY("\"F32\"", "[-1]", "[0,4]"), "no number >= 0"},
        {ENTRY("\"F32\"", "[1.5]", "[0,4]"), "no number >= 0"},
        {ENTRY("\"F32\"", "1", "[0,4]"), "no shape"},
        {ENTRY("\"F32\"", "[1]", "[0]"), "no pair of data_offsets"},
        {ENTRY("\"F32\"", "[1]", "[0,4.0]"), "no pair of data_offsets"},
        {ENTRY("\"F32\"", "[1]", "[4,0]"), "outside"},
        {ENTRY("\"F32\"", "[1]", "[-4,0]"), "outside"},
        {ENTRY("\"F32\"", "[99]", "[0,396]"), "outside of the 16 bytes"},
        {ENTRY("\"F64\"", "[4611686018427387904,4]", "[0,8]"), "has 8 bytes"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]}}", "'a' and 'b' overlap"},
        {"{\"a\\u0000b\":{}}", "zero byte"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        put(cases[i].header, 16);
        CHECK(cfx_safetensors_read(test_path("a.safetensors")) == NULL);
        CHECK(strstr(cfx_error_last()->message, "a.safetensors'") != NULL);
        CHECK_INT(cfx_error_last()->kind, CFX_FILE_ERROR);
        CHECK_ERROR(cases[i].why);
    }
    FILE *f = fopen(test_path("a.safetensors"), "wb");
    fwrite("\xff\xff\xff\0\0\0\0\0{}", 1, 10, f);
    fclose(f);
    CHECK(cfx_safetensors_read(test_path("a.safetensors")) == NULL);
    CHECK_ERROR("header is cut off");
    f = fopen(test_path("a.safetensors"), "wb");
    fwrite("\xff\xff\xff\xff\xff\xff\xff\xff", 1, 8, f);
    fclose(f);
    CHECK(cfx_safetensors_read(test_path("a.safetensors")) == NULL);
    CHECK_ERROR("larger than");
    clean("a.safetensors");
}

TEST(safetensors_write_says_what_it_cannot) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "c", cfx_tensor_value(cfx_tensor_new(CFX_C128, 0, NULL, (double[]){0, 0})));
    CHECK(!cfx_safetensors_write("a.safetensors", d, NULL));
    CHECK_ERROR("cannot write 'c' to 'a.safetensors': the format lacks its dtype");
    cfx_dict_set(d, "c", cfx_int(1));
    CHECK(!cfx_safetensors_write("a.safetensors", d, NULL));
    CHECK_ERROR("it is no tensor");
    CHECK(!cfx_safetensors_write("/nowhere/a", cfx_dict_new(), NULL));
    CHECK_ERROR("cannot write '/nowhere/a': No such file or directory");
    CHECK(cfx_safetensors_read("/nowhere/a") == NULL);
    CHECK_ERROR("cannot read '/nowhere/a'");
}
