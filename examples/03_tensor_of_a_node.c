/* Three ways to reach the tensor of a node: all of them by a tap, all of them by an interpreter of
 * one's own, and one by name. (The programs of "How do I access the tensor associated with a Torch
 * FX graph node?"; the first and the third fail in Python by their own mistakes.) */
#include <cfx.h>

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "relu", cfx_call(self, "linear", x));
}

static void show(const char *name, cfx_value v) {
    const cfx_tensor *t = cfx_as_tensor(v);
    printf("Node: %s, Output shape: torch.Size([%lld, %lld]), Type: <class 'torch.Tensor'>\n", name,
           (long long)cfx_dim(t, 0), (long long)cfx_dim(t, 1));
}

/* run_node is called for each node; "super" is a plain function. */
static cfx_value record(cfx_interp *it, cfx_node *n) {
    cfx_value v = cfx_interp_run_node(it, n);
    cfx_dict_set(it->user, n->name, v);
    return v;
}

static void show_all(const cfx_dict *values) {
    for (int64_t i = 0; i < values->len; i++)
        show(cfx_text(values->entries[i].key), values->entries[i].value);
}

int main(void) {
    cfx_module *model = cfx_module_new("MyModel", forward, "x");
    cfx_nn_add(model, "linear", cfx_nn_linear(10, 5));
    cfx_nn_add(model, "relu", cfx_nn_relu());
    cfx_module *traced = cfx_symbolic_trace(model);
    cfx_tensor *x = cfx_randn(1, 10);

    printf("-- every node, tapped\n");
    show_all(cfx_tap(traced, "*", x));

    printf("-- every node, by an interpreter\n");
    cfx_interp recorder = {.module = traced, .run_node = record, .user = cfx_dict_new()};
    cfx_run(&recorder, x);
    show_all(recorder.user);

    printf("-- one node\n");
    show("relu", cfx_dict_get(cfx_tap(traced, "relu", x), "relu"));
    return cfx_finish(stderr);
}
