/* Hooks: what goes into a module and comes out of it, without changing the model. ("How do I access
 * input and output tensors in a PyTorch network?") */
#include <cfx.h>

static cfx_tensor *one_layer(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "linear", x);
}

static cfx_value two_in_two_out(cfx_module *self, cfx_args a) {
    return cfx_tuple(cfx_call(self, "linear1", a.v[0]), cfx_call(self, "linear2", a.v[1]));
}

static cfx_tensor *with_relu(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "linear2", cfx_call(self, "relu", cfx_call(self, "linear1", x)));
}

/* "torch.Size([1, 10])" */
static void print_shape(const char *before, cfx_value v) {
    const cfx_tensor *t = cfx_as_tensor(v);
    cfx_value sizes = cfx_ints_value(cfx_tensor_ndim(t), cfx_tensor_shape(t));
    printf("%storch.Size(%s)\n", before, cfx_repr(sizes));
}

static cfx_value shapes(cfx_event *e) {
    print_shape("Input tensor shape: ", e->args.v[0]);
    print_shape("Output tensor shape: ", e->out);
    return CFX_NONE; /* leave the output as it is */
}

static cfx_value all_shapes(cfx_event *e) {
    printf("Input tensor shapes:\n");
    for (int i = 0; i < e->args.n; i++)
        print_shape("", e->args.v[i]);
    printf("Output tensor shapes:\n");
    cfx_value rows = cfx_items(e->out); /* one tensor, so its rows, as in Python */
    for (int64_t i = 0; i < cfx_len(rows); i++)
        print_shape("", cfx_at(rows, i));
    return CFX_NONE;
}

static cfx_value zeros(cfx_event *e) {
    double share = 1 - cfx_tensor_get(cfx_mean(cfx_to(cfx_gt(e->out, 0), cfx_f32)), 0);
    printf("Percentage of zero activations: %.1f\n", share);
    return CFX_NONE;
}

int main(void) {
    cfx_module *model = cfx_module_new("MyLinear", one_layer, "x");
    cfx_nn_add(model, "linear", cfx_nn_linear(10, 5));
    cfx_hook_handle *hook = cfx_hook(model, "linear", shapes, NULL);
    cfx_forward(model, cfx_randn(1, 10));
    cfx_hook_remove(hook);
    cfx_forward(model, cfx_randn(1, 10)); /* says nothing any more */

    cfx_module *net = cfx_module_new("MyNetwork", two_in_two_out, "x1, x2");
    cfx_nn_add(net, "linear1", cfx_nn_linear(10, 5));
    cfx_nn_add(net, "linear2", cfx_nn_linear(5, 2));
    cfx_hook(net, "linear2", all_shapes, NULL);
    cfx_forward_value(net, cfx_randn(1, 10), cfx_randn(1, 5));

    cfx_manual_seed(0);
    cfx_module *deep = cfx_module_new("MyNetwork", with_relu, "x");
    cfx_nn_add(deep, "linear1", cfx_nn_linear(10, 5));
    cfx_nn_add(deep, "relu", cfx_nn_relu());
    cfx_nn_add(deep, "linear2", cfx_nn_linear(5, 2));
    cfx_hook(deep, "relu", zeros, NULL);
    cfx_forward(deep, cfx_randn(1, 10));
    return cfx_finish(stderr);
}
