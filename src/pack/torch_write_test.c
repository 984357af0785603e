/* Files of torch.save, written and read back; state dicts into modules and programs. */
#include "files.h"

#include <stdio.h>
#include <string.h>

TEST(values_and_tensors_come_back_from_a_torch_file) {
    cfx_dict *d = cfx_dict_new();
    cfx_tensor *x = cfx_tensor_from_value(cfx_list(cfx_list(1.0, 2.0), cfx_list(3.0, 4.0)));
    cfx_dict_set(d, "x", cfx_tensor_value(x));
    cfx_dict_set(d, "same", cfx_tensor_value(x));
    cfx_dict_set(d, "turned", cfx_tensor_value(cfx_t(x)));
    cfx_dict_set(d, "n", cfx_list(1, -2, (int64_t)1 << 40, 0.5, true, NULL, "word"));
    cfx_dict_put(d, cfx_string_value_n("a\0b", 3), cfx_string_value_n("\0c", 2));
    cfx_dict_set(d, "pair", cfx_tuple(cfx_bf16, cfx_tensor_value(cfx_zeros(cfx_list(0, 2)))));
    CHECK(cfx_torch_save(test_path("saved.pt"), cfx_dict_value(d)));
    cfx_value back = cfx_torch_load(test_path("saved.pt"));
    CHECK_STR(cfx_repr(back), cfx_repr(d));
    CHECK_OK();
    CHECK_INT(test_folder_clear(), 1);
}

TEST(what_torch_save_has_no_form_for_is_refused) {
    CHECK(!cfx_torch_save(test_path("saved.pt"), cfx_list(cfx_ellipsis())));
    CHECK_ERROR("ellipsis cannot be saved with torch.save");
    test_folder_done();
    cfx_torch_load("no_such_file.pt");
    CHECK_ERROR("cannot read 'no_such_file.pt': No such file or directory");
}

TEST(a_state_dict_goes_from_a_module_through_a_file_to_another) {
    cfx_module *a = cfx_nn_linear(3, 2), *b = cfx_nn_linear(3, 2);
    CHECK(cfx_torch_save(test_path("saved.pt"), cfx_dict_value(cfx_module_state_dict(a))));
    cfx_value state = cfx_torch_load(test_path("saved.pt"));
    CHECK(cfx_module_load_state_dict(b, cfx_as_dict(state), true));
    cfx_tensor *x = cfx_ones(cfx_list(1, 3));
    CHECK_STR(cfx_str(cfx_forward(b, x)), cfx_str(cfx_forward(a, x)));
    cfx_program *p = cfx_export(cfx_nn_linear(3, 2), cfx_tuple(x), CFX_NONE, CFX_NONE);
    CHECK(cfx_program_load_state_dict(p, cfx_as_dict(state), true));
    CHECK_STR(cfx_str(cfx_program_run(p, x)), cfx_str(cfx_detach(cfx_forward(a, x))));
    cfx_dict *wrong = cfx_dict_new();
    cfx_dict_set(wrong, "weight", cfx_tensor_value(cfx_zeros(cfx_list(2, 2))));
    cfx_dict_set(wrong, "other", cfx_tensor_value(x));
    CHECK(!cfx_program_load_state_dict(p, wrong, true));
    CHECK_ERROR("the state dict does not fit the program: wrong 'weight' (float32 [2, 2] where the "
                "program has float32 [2, 3]); missing 'bias'; unknown 'other'");
    CHECK_INT(test_folder_clear(), 1);
}

TEST(every_dtype_goes_through_a_torch_file) {
    cfx_dict *d = cfx_dict_new();
    for (int i = 0; i < CFX_DTYPE_COUNT; i++)
        cfx_dict_set(d, cfx_dtype_name((cfx_dtype)i),
                     cfx_tensor_value(cfx_to(cfx_arange(3), cfx_dtype_value((cfx_dtype)i))));
    CHECK(cfx_torch_save(test_path("saved.pt"), cfx_dict_value(d)));
    CHECK_STR(cfx_repr(cfx_torch_load(test_path("saved.pt"))), cfx_repr(d));
    CHECK_INT(test_folder_clear(), 1);
}

/* tests/data/dtypes.pt: PyTorch saved [[1, 2, 3], [4, 5, 6]] in each dtype for storage. */
TEST(dtypes_for_storage_are_read_from_a_file_of_pytorch) {
    cfx_value all = cfx_torch_load(CFX_TEST_DATA "/dtypes.pt");
    cfx_dict *d = cfx_as_dict(all);
    CHECK_INT(d->len, 9);
    for (int64_t i = 0; i < d->len; i++) {
        const char *name = cfx_text(d->entries[i].key);
        cfx_tensor *t = cfx_as_tensor(d->entries[i].value);
        CHECK_STR(cfx_dtype_name(cfx_tensor_dtype(t)), name);
        CHECK_STR(cfx_str(cfx_to(t, cfx_i64)),
                  !strcmp(name, "float8_e8m0fnu") ? "tensor([[1, 2, 4],\n        [4, 4, 8]])"
                                                  : "tensor([[1, 2, 3],\n        [4, 5, 6]])");
    }
}
