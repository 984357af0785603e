/* Files of torch.save from before PyTorch 1.6. before_1_6.pt is a state_dict that PyTorch wrote
 * with _use_new_zipfile_serialization=False. */
#include "pickle.h"

#include <cfx/pack.h>

#include "../tensor/tensor.h"
#include "test.h"

static const char path[] = CFX_TEST_DATA "/before_1_6.pt";

TEST(torch_files_before_1_6_are_read) {
    cfx_value v = cfx_torch_load(path);
    CHECK_OK();
    CHECK_INT(cfx_as_dict(v)->len, 9);
    CHECK_STR(cfx_str(cfx_dict_get(cfx_as_dict(v), "bn.num_batches_tracked")), "tensor(0)");
    CHECK_STR(cfx_str(cfx_dict_get(cfx_as_dict(v), "bn.running_var")), "tensor([1., 1., 1., 1.])");
    const cfx_tensor *w = cfx_as_tensor(cfx_dict_get(cfx_as_dict(v), "conv.weight"));
    CHECK_STR(cfx__shape_text(w->ndim, w->shape), "[4, 3, 3, 3]");
    CHECK(cfx_tensors_are_in(path));
    CHECK_INT(cfx_tensors_read(path)->len, 9);
    CHECK_OK();
}

/* Whether the first n bytes are read; they are copied, so that a read past their end is seen. */
static bool is_read(const char *data, size_t n) {
    bool fine = false;
    CFX_SCOPE {
        cfx_tensor *copy = cfx_tensor_new(CFX_U8, 1, (int64_t[]){(int64_t)n}, data);
        cfx_value v = cfx__pickle_load("x.pt", (cfx__pack_bytes){copy->data, n, copy->storage});
        fine = !cfx_is_bad(v);
        CHECK_INT(fine, cfx_ok());
        cfx_error_clear();
    }
    return fine;
}

TEST(torch_files_before_1_6_that_are_damaged_are_refused) {
    cfx__file_mapping *m = cfx__file_map(path);
    for (size_t n = 1; n < m->size; n++)
        CHECK(!is_read(m->data, n));
    CHECK(is_read(m->data, m->size));
    char *changed = cfx_tensor_new(CFX_U8, 1, (int64_t[]){(int64_t)m->size}, m->data)->data;
    for (size_t i = 0; i < m->size; i++) { /* refused or read: what holds is that nothing breaks */
        changed[i] ^= (char)(1 << i % 8);
        is_read(changed, m->size);
        changed[i] = m->data[i];
    }
    cfx_drop(m);
}
