#include "test.h"

/* Doubles what it is given, and counts. */
typedef struct doubler {
    int calls, freed;
} doubler;

static cfx_value doubled(void *data, cfx_args a) {
    ((doubler *)data)->calls++;
    return cfx_tensor_value(cfx_mul(a.v[0], 2));
}
static void doubler_free(void *data) { ((doubler *)data)->freed++; }
static const cfx_object_type doubler_type = {
    .name = "doubler", .call = doubled, .free = doubler_free};

TEST(objects_are_hooks_and_freed_with_them) {
    doubler d = {0}, on_leaf = {0};
    CFX_SCOPE {
        cfx_tensor *x = cfx_requires_grad(cfx_ones(2), true), *y = cfx_mul(x, 3);
        CHECK(cfx_tensor_hook_object(y, cfx_object_value(&doubler_type, &d), false) > 0);
        int64_t id = cfx_tensor_hook_object(x, cfx_object_value(&doubler_type, &on_leaf), true);
        cfx_backward(cfx_sum(y), .retain_graph = true);
        CHECK_STR(cfx_str(cfx_tensor_grad(x)), "tensor([6., 6.])");
        CHECK(d.calls == 1 && on_leaf.calls == 1);
        CHECK(!cfx_tensor_hook_object(x, cfx_int(1), false));
        CHECK_ERROR("expected an object of the caller's, got int");
        cfx_tensor_unhook(x, id);
    }
    CHECK(d.freed == 1 && on_leaf.freed == 1);
}
