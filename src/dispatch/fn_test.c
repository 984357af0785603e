#include "test.h"

#include <string.h>

TEST(targets_are_found_and_called) {
    cfx_target t = cfx_target_find("torch.split");
    CHECK_STR(t.name, "torch.functional.split");
    CHECK(t.fn && t.op == t.fn->ops[0]);
    CHECK_STR(cfx_target_find("Tensor.add_").name, "Tensor.add_");
    CHECK_STR(cfx_target_find("aten.add.Tensor").name, "aten.add.Tensor");
    CHECK_STR(cfx_target_find("torch.ops.aten.add.Tensor").name, "aten.add.Tensor");
    CHECK(!cfx_target_find("Tensor.nothing").name && !cfx_target_find("Tensor.nothing_").name);
    CHECK(!cfx_target_find("Tensor.topk_").name && !cfx_target_find(NULL).name);
    CHECK_OK();
    cfx_tensor *x = cfx_ones(2);
    CHECK_STR(cfx_str(cfx_target_call(cfx_target_find("torch.add"), x, 1)), "tensor([2., 2.])");
    CHECK(cfx_as_tensor(cfx_target_call(cfx_target_find("Tensor.mul_"), x, 3)) == x);
    CHECK_STR(cfx_str(x), "tensor([3., 3.])");
    CHECK_STR(cfx_str(cfx_target_call(cfx_target_find("aten.neg.default"), x)),
              "tensor([-3., -3.])");
    CHECK(cfx_is_bad(cfx_target_call(cfx_target_find("torch.nothing"), x)));
    CHECK_ERROR("the operator is NULL");
}

TEST(spellings_are_listed_in_order) {
    int n = 0;
    const char *s, *before = NULL;
    bool has_relu = false, ordered = true;
    for (; (s = cfx_spelling_at(n)); before = s, n++) {
        has_relu |= !strcmp(s, "torch.relu");
        ordered &= !before || strcmp(before, s) < 0;
    }
    CHECK(n > 1400 && has_relu && ordered);
    CHECK(!cfx_spelling_at(-1) && !cfx_spelling_at(n));
}
