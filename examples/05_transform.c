/* A transformer: the graph is rebuilt through handlers, one of which says sigmoid where the model
 * says relu. ("Mastering PyTorch FX Graph", section 6; in Python that program fails.) */
#include <cfx.h>

static cfx_value f(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_py("operator.add", cfx_relu(a.v[0]), 1);
}

static cfx_value relu_to_sigmoid(cfx_interp *it, cfx_target t, cfx_args a) {
    if (cfx_target_is(t, "relu")) /* however it is spelled; relu_ is another */
        t = cfx_target_named("torch.sigmoid");
    return cfx_interp_call_function(it, t, a); /* super */
}

int main(void) {
    cfx_module *gm = cfx_symbolic_trace(cfx_module_new("f", f, "x"));
    cfx_interp swapper = {.module = gm, .call_function = relu_to_sigmoid};
    cfx_module *changed = cfx_transform(&swapper);
    cfx_print_code(gm, stdout);
    cfx_print_code(changed, stdout);

    cfx_tensor *x = cfx_tensor_from_value(cfx_list(-1.0, 0.0, 1.0));
    printf("relu + 1:    %s\n", cfx_str(cfx_forward(gm, x)));
    printf("sigmoid + 1: %s\n", cfx_str(cfx_forward(changed, x)));
    return cfx_finish(stderr);
}
