/* Files of tensors are known by what is in them. arrays.npz is what numpy.savez_compressed wrote of
 * arange(6).reshape(2, 3) in several dtypes and orders. */
#include <cfx/pack.h>

#include "files.h"
#include "../tensor/tensor.h"
#include "test.h"

static const char *text_of(const cfx_dict *all, const char *name) {
    return cfx_str(all ? cfx_dict_get(all, name) : cfx_none());
}

TEST(tensors_of_numpys_archives_are_read) {
    cfx_dict *all = cfx_tensors_read(CFX_TEST_DATA "/arrays.npz");
    CHECK_OK();
    CHECK_INT(all ? all->len : 0, 7);
    CHECK_STR(text_of(all, "f"), "tensor([[0., 1., 2.],\n        [3., 4., 5.]])");
    CHECK_STR(text_of(all, "big"),
              "tensor([[0, 1, 2],\n        [3, 4, 5]], dtype=torch.int32)");
    CHECK_STR(text_of(all, "half"),
              "tensor([[0., 1., 2.],\n        [3., 4., 5.]], dtype=torch.float16)");
    CHECK_STR(text_of(all, "c"),
              "tensor([[0.+1.j, 1.+1.j, 2.+1.j],\n        [3.+1.j, 4.+1.j, 5.+1.j]])");
    CHECK_STR(text_of(all, "flag"),
              "tensor([[False, False, False],\n        [ True,  True,  True]])");
    CHECK_STR(text_of(all, "u"), "tensor(7, dtype=torch.uint16)");
    CHECK_STR(text_of(all, "empty"), "tensor([], size=(0, 3), dtype=torch.float64)");
    CHECK(cfx_tensors_are_in(CFX_TEST_DATA "/arrays.npz"));
}

TEST(tensors_of_torch_save_are_called_by_their_paths) {
    const char *path = test_path("a.pt");
    cfx_value inner = cfx_dict_of("w", cfx_ones(2), "b", cfx_list(cfx_ones(1), 3, "word"));
    CHECK(cfx_torch_save(path, cfx_dict_of("model", inner, "epoch", 7)));
    cfx_dict *all = cfx_tensors_read(path);
    CHECK_STR(cfx_repr(all ? cfx_dict_value(all) : cfx_none()),
              "{'model.w': tensor([1., 1.]), 'model.b.0': tensor([1.]), 'model.b.1': tensor(3), "
              "'epoch': tensor(7)}");
    CHECK(cfx_torch_save(path, cfx_tensor_value(cfx_ones(2))));
    all = cfx_tensors_read(path);
    CHECK_STR(cfx_repr(all ? cfx_dict_value(all) : cfx_none()), "{'0': tensor([1., 1.])}");
    CHECK(cfx_torch_save(path, cfx_dict_of("a.b", cfx_ones(1), "a", cfx_dict_of("b", 2))));
    CHECK(!cfx_tensors_read(path));
    CHECK_ERROR("has two tensors called 'a.b'");
    test_unlink("a.pt");
    test_folder_done();
}

/* A file that is empty, or a pickle of something else, is told from one that is damaged. */
TEST(tensors_are_not_in_empty_files) {
    static const struct {
        const char *name, *text, *why;
    } cases[] = {{"a.pt", "", "a.pt' cannot be read: it is an empty file"},
                 {"a.pt", "\x80\4N.", "it is not a file of torch.save but a pickle that torch.save "
                                      "did not write"},
                 {"a.bin", "", "a.bin' is no file of tensors (.safetensors, .npy, .npz, .pt or "
                               ".pb) but an empty file"}};
    for (int i = 0; i < COUNT(cases); i++) {
        FILE *f = fopen(test_path(cases[i].name), "wb");
        fputs(cases[i].text, f);
        fclose(f);
        CHECK(!cfx_tensors_read(test_path(cases[i].name)));
        CHECK_ERROR(cases[i].why);
        test_unlink(cases[i].name);
    }
    test_folder_done();
}

TEST(tensors_of_onnx_are_read) {
    static const char path[] = CFX_TEST_DATA "/onnx/conv/test_data_set_0/input_0.pb";
    cfx_dict *all = cfx_tensors_read(path);
    CHECK_OK();
    CHECK_INT(all ? all->len : 0, 1);
    CHECK(all && cfx_as_tensor(cfx_dict_get(all, "0"))->ndim == 4);
    CHECK(cfx_tensors_are_in(path));
    FILE *f = fopen(test_path("bad.pb"), "wb");
    fputs("no tensor", f);
    fclose(f);
    CHECK(!cfx_tensors_read(test_path("bad.pb")));
    CHECK_ERROR("bad.pb");
    test_unlink("bad.pb");
    test_folder_done();
}

TEST(tensors_are_known_whatever_the_file_is_called) {
    const char *path = test_path("a.bin");
    CHECK(cfx_npy_write(path, cfx_ones(3)));
    CHECK_STR(text_of(cfx_tensors_read(path), "0"), "tensor([1., 1., 1.])");
    CHECK(cfx_safetensors_write(path, cfx_as_dict(cfx_dict_of("x", cfx_ones(2))), NULL));
    CHECK_STR(text_of(cfx_tensors_read(path), "x"), "tensor([1., 1.])");
    CHECK(cfx_tensors_are_in(path));
    test_unlink("a.bin");
    test_folder_done();
    CHECK(!cfx_tensors_are_in(CFX_TEST_DATA "/zoo/seed_mlp/model.pt2"));
    CHECK(!cfx_tensors_are_in(CFX_TEST_DATA "/nothing.npy"));
    CHECK_OK();
}

static void put(const char *name, const char *bytes, size_t n) {
    FILE *f = fopen(test_path(name), "wb");
    CHECK(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

TEST(tensors_in_files_that_hold_none_are_refused) {
    CHECK(!cfx_tensors_read(CFX_TEST_DATA "/zoo/seed_mlp/model.pt2"));
    CHECK_ERROR("model.pt2' is no file of tensors (.safetensors, .npy, .npz, .pt or .pb) but a zip "
                "archive");
    put("a.npz", "PK\3\4 cut off ......................", 32);
    CHECK(!cfx_tensors_read(test_path("a.npz")));
    CHECK_ERROR("a.npz' cannot be read");
    put("a.npz", "words", 5);
    CHECK(!cfx_tensors_read(test_path("a.npz")));
    CHECK_ERROR("a.npz' cannot be read");
    put("a.csv", "1,2,3", 5);
    CHECK(!cfx_tensors_read(test_path("a.csv")));
    CHECK_ERROR("a.csv' is no file of tensors (.safetensors, .npy, .npz, .pt or .pb)");
    CHECK(!cfx_tensors_read("/nowhere/a.npz"));
    CHECK_ERROR("cannot read '/nowhere/a.npz': No such file or directory");
    test_unlink("a.npz");
    test_unlink("a.csv");
    test_folder_done();
}
