/* A model written in C becomes a program as torch.export makes it: shown with its signature, run,
 * decomposed to Core ATen, and run on a batch of another size. */
#include <cfx.h>

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    x = cfx_relu(cfx_call(self, "fc1", x));
    return cfx_call(self, "fc2", x);
}

int main(void) {
    cfx_module *mlp = cfx_module_new("MLP", forward, "x");
    cfx_nn_add(mlp, "fc1", cfx_nn_linear(4, 8));
    cfx_nn_add(mlp, "fc2", cfx_nn_linear(8, 2));
    cfx_tensor *x = cfx_randn(3, 4);

    /* the first dimension of x may be anything from 2 on */
    cfx_dict *sizes = cfx_dict_new(), *dynamic = cfx_dict_new();
    cfx_dict_put(sizes, cfx_int(0), cfx_string_value("batch"));
    cfx_dict_set(dynamic, "x", cfx_dict_value(sizes));

    cfx_program *p = cfx_export(mlp, cfx_tuple(x), CFX_NONE, cfx_dict_value(dynamic));
    printf("%s\n", cfx_module_code(p->module));
    printf("%s\n\n", cfx_program_signature_str(p));

    cfx_program *core = cfx_decompose(p, CFX_NONE);
    printf("%s\n", cfx_module_code(core->module));

    cfx_tensor *want = cfx_forward(mlp, x), *got = cfx_as_tensor(cfx_program_run(core, x));
    printf("same numbers: %s\n", cfx_str(cfx_allclose(want, got)));
    cfx_tensor *seven = cfx_as_tensor(cfx_program_run(core, cfx_randn(7, 4)));
    printf("a batch of %s\n", cfx_str(cfx_size(seven, 0)));
    return cfx_finish(stderr);
}
