#include "files.h"

#include "../tensor/tensor.h"

TEST(a_checkpoint_holds_dicts_lists_numbers_and_tensors) {
    const char *path = test_path("checkpoint");
    cfx_module *m = cfx_nn_sequential(cfx_nn_linear(2, 3));
    cfx_optim *opt = cfx_adam(m, .lr = 0.125);
    cfx_backward(cfx_sum(cfx_forward(m, cfx_ones(1, 2))));
    cfx_optim_step(opt);
    cfx_dict *all = cfx_dict_new();
    cfx_dict_set(all, "model", cfx_dict_value(cfx_module_state_dict(m)));
    cfx_dict_set(all, "optim", cfx_dict_value(cfx_optim_state_dict(opt)));
    cfx_dict_set(all, "epoch", cfx_int(7));
    cfx_dict_set(all, "note",
                 cfx_tuple("it's {fine}", 0.1, cfx_bool(true), CFX_NONE, cfx_arange(3)));
    CHECK(cfx_checkpoint_write(path, cfx_dict_value(all)));
    cfx_value back = cfx_checkpoint_read(path);
    CHECK_OK();
    CHECK_INT(cfx_integer(cfx_dict_get(cfx_as_dict(back), "epoch")), 7);
    CHECK_STR(cfx_repr(cfx_dict_get(cfx_as_dict(back), "note")),
              "(\"it's {fine}\", 0.1, True, None, tensor([0, 1, 2]))");
    CHECK_INT(cfx_as_dict(cfx_dict_get(cfx_as_dict(back), "model"))->len, 2);
    cfx_module *n = cfx_nn_sequential(cfx_nn_linear(2, 3));
    CHECK(
        cfx_module_load_state_dict(n, cfx_as_dict(cfx_dict_get(cfx_as_dict(back), "model")), true));
    cfx_optim *other = cfx_adam(n);
    CHECK(cfx_optim_load_state_dict(other, cfx_as_dict(cfx_dict_get(cfx_as_dict(back), "optim"))));
    CHECK_NEAR(cfx_optim_lr(other), 0.125, 0);
    CHECK(cfx_safetensors_write(path, cfx_module_state_dict(m), NULL));
    CHECK(cfx_is_bad(cfx_checkpoint_read(path)));
    CHECK_ERROR("is no checkpoint that cfx wrote");
    CHECK_INT(test_folder_clear(), 1);
}
