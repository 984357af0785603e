/* What is written reads back; what is not a .npy file is refused with its name. */
#include "tensor.h"
#include "files.h"

#include <stdlib.h>
#include <unistd.h>

static void clean(const char *name) {
    test_unlink(name);
    test_folder_done();
}

static void put(const char *name, const void *bytes, size_t n) {
    FILE *f = fopen(test_path(name), "wb");
    CHECK(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

/* A file of one version from a header and data. */
static void put_npy(const char *name, int version, const char *header, const void *data, size_t n) {
    cfx__text t = {0};
    size_t len = strlen(header);
    cfx__text_add(&t, "\x93NUMPY", 6);
    char front[6] = {(char)version, 0, (char)len, (char)(len >> 8), 0, 0};
    cfx__text_add(&t, front, version == 1 ? 4 : 6);
    cfx__text_puts(&t, header);
    cfx__text_add(&t, data, n);
    put(name, t.data, t.len);
    cfx__text_release(&t);
}

TEST(npy_reads_what_it_wrote) {
    for (int d = 0; d < CFX_DTYPE_COUNT; d++) {
        if (d == CFX_BF16 || d == CFX_C32 || cfx__dtype_is_float8((cfx_dtype)d))
            continue;
        for (int ndim = 0; ndim < 4; ndim++) {
            cfx_tensor *t = cfx_tensor_new((cfx_dtype)d, ndim, (int64_t[]){2, 3, 4}, NULL);
            for (int64_t i = 0; i < t->numel; i++)
                cfx__tensor_set(t, i, cfx_int(d == CFX_BOOL ? i % 2 : i * 3));
            CHECK(cfx_npy_write(test_path("a.npy"), t));
            cfx_tensor *back = cfx_npy_read(test_path("a.npy"));
            CHECK_STR(cfx_tensor_str(back), cfx_tensor_str(t));
        }
    }
    CHECK_OK();
    clean("a.npy");
}

TEST(npy_writes_numpys_own_bytes) {
    cfx_tensor *t = cfx_tensor_new(CFX_F32, 2, (int64_t[]){1, 2}, (float[]){1, 2});
    CHECK(cfx_npy_write(test_path("a.npy"), t));
    cfx__file_mapping *m = cfx__file_map(test_path("a.npy"));
    CHECK_INT(m->size, 128 + 8);
    CHECK(!memcmp(m->data, "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, "
                           "'shape': (1, 2), }    ", 10 + 58 + 4));
    CHECK(m->data[127] == '\n');
    cfx_drop(m);
    clean("a.npy");
}

TEST(npy_writes_views_in_order) {
    cfx_tensor *t = cfx_tensor_new(CFX_I32, 1, (int64_t[]){6}, (int32_t[]){0, 1, 2, 3, 4, 5});
    t = cfx_tensor_view(t, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, 0);
    CHECK(cfx_npy_write(test_path("a.npy"), t));
    CHECK_STR(cfx_tensor_str(cfx_npy_read(test_path("a.npy"))),
              "tensor([[0, 3],\n"
              "        [1, 4],\n"
              "        [2, 5]], dtype=torch.int32)");
    clean("a.npy");
}

TEST(npy_reads_all_versions_and_orders) {
    float data[] = {1, 2, 3, 4, 5, 6};
    for (int version = 1; version <= 3; version++) {
        put_npy("a.npy", version, "{'descr':'<f4','shape':(2,3),'fortran_order':True}\n", data, 24);
        cfx_tensor *t = cfx_npy_read(test_path("a.npy"));
        CHECK_STR(cfx_tensor_str(t), "tensor([[1., 3., 5.],\n"
                                     "        [2., 4., 6.]])");
        CHECK_INT(cfx_tensor_stride(t)[0], 1);
    }
    put_npy("a.npy", 1, "{\"shape\": (3L,), 'fortran_order': False, 'descr': '|b1'}", "\0\2\1", 3);
    CHECK_STR(cfx_tensor_str(cfx_npy_read(test_path("a.npy"))), "tensor([False,  True,  True])");
    put_npy("a.npy", 1, "{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }",
            "\0\0\1\2\xff\xff\xff\xfe", 8);
    CHECK_STR(cfx_tensor_str(cfx_npy_read(test_path("a.npy"))),
              "tensor([258,  -2], dtype=torch.int32)");
    put_npy("a.npy", 1, "{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }",
            "\x3f\x80\0\0\x40\0\0\0", 8);
    CHECK_STR(cfx_tensor_str(cfx_npy_read(test_path("a.npy"))), "tensor([1.+2.j])");
    put_npy("a.npy", 1, "{'descr': '<i8', 'fortran_order': False, 'shape': (0, 5), }", "", 0);
    CHECK_STR(cfx_tensor_str(cfx_npy_read(test_path("a.npy"))),
              "tensor([], size=(0, 5), dtype=torch.int64)");
    CHECK_OK();
    clean("a.npy");
}

TEST(npy_refuses_what_it_cannot_read) {
    static const struct {
        const char *header, *why;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9,), }", "data is cut off"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "no dtype for '|O'"},
        {"{'descr': '<u3', 'fortran_order': False, 'shape': (1,), }", "no dtype for '<u3'"},
        {"{'descr': '', 'fortran_order': False, 'shape': (1,), }", "no dtype for ''"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "structured"},
        {"{'descr': '<f4', 'fortran_order': None, 'shape': (1,), }", "neither True nor False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "no tuple of sizes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296), }", "absurd"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "absurd"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 1, }", "lacks a '('"},
        {"{'descr': '<f4', 'descr': '<f4', 'shape': (1,), }", "'descr' twice"},
        {"{'descr': '<f4', 'shape': (1,), }", "lacks one of"},
        {"{'other': '<f4', 'shape': (1,), }", "the key 'other'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1", "lacks a ','"},
        {"{'descr': '<f4", "lacks a '''"},
        {"", "lacks a '{'"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        put_npy("bad.npy", 1, cases[i].header, "\0\0\0\0", 4);
        CHECK(cfx__obj_is_bad(cfx_npy_read(test_path("bad.npy"))));
        CHECK(strstr(cfx_error_last()->message, "bad.npy'") != NULL);
        CHECK_INT(cfx_error_last()->kind, CFX_FILE_ERROR);
        CHECK_ERROR(cases[i].why);
    }
    put("bad.npy", "\x93NUMPY\x01\x00\xff\xff{", 11);
    cfx_npy_read(test_path("bad.npy"));
    CHECK_ERROR("header is cut off");
    put("bad.npy", "\x93NUMPY\x02\x00\xff\xff", 10);
    cfx_npy_read(test_path("bad.npy"));
    CHECK_ERROR("header is cut off");
    put("bad.npy", "\x93NUMPY\x09\x00\x01\x00{", 11);
    cfx_npy_read(test_path("bad.npy"));
    CHECK_ERROR("version is 9.0");
    put("bad.npy", "", 0);
    cfx_npy_read(test_path("bad.npy"));
    CHECK_ERROR("too short");
    clean("bad.npy");
}

TEST(npy_says_why_a_file_cannot_be_opened) {
    cfx_npy_read("/nowhere/a.npy");
    CHECK_ERROR("cannot read '/nowhere/a.npy': No such file or directory");
    cfx_tensor *t = cfx_tensor_new(CFX_F32, 0, NULL, (float[]){1});
    CHECK(!cfx_npy_write("/nowhere/a.npy", t));
    CHECK_ERROR("cannot write '/nowhere/a.npy': No such file or directory");
    CHECK(!cfx_npy_write("a.npy", cfx_tensor_new(CFX_BF16, 0, NULL, (uint16_t[]){0})));
    CHECK_ERROR("numpy has no bfloat16");
    CHECK(!cfx_npy_write("a.npy", cfx_tensor_fake(CFX_F32, 0, NULL, NULL)));
    CHECK_ERROR("without data");
    CHECK(cfx_npy_write("/dev/null", t)); /* written in place: a device is not replaced */
    CHECK_OK();
    CHECK(!cfx_npy_write("/dev/full", t));
    CHECK_ERROR("No space left on device");
}
