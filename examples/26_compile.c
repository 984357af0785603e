/* A model becomes C: one file with no runtime, no heap and no library but libm. Shown is what it
 * has of the model itself, below the kernels that it needs. */
#include <cfx.h>
#include <string.h>

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    x = cfx_relu(cfx_call(self, "fc1", x));
    return cfx_call(self, "fc2", x);
}

int main(void) {
    cfx_module *mlp = cfx_module_new("MLP", forward, "x");
    cfx_nn_add(mlp, "fc1", cfx_nn_linear(4, 8));
    cfx_nn_add(mlp, "fc2", cfx_nn_linear(8, 2));
    cfx_program *p = cfx_export(mlp, cfx_tuple(cfx_randn(3, 4)), CFX_NONE, CFX_NONE);

    const char *source = cfx_compile_text(p, &(cfx_compile_options){.name = "mlp"});
    const char *own = source ? strstr(source, "static void mlp_fc1(") : NULL;
    printf("%s", own ? own : "");

    /* what has no form in C is told, node by node */
    cfx_program *random = cfx_program_parse("def forward(self, x: \"f32[3]\"):\n"
                                            "    noise = torch.ops.aten.rand_like.default(x)\n"
                                            "    return (noise,)\n",
                                            "noise.fx");
    if (!cfx_compile_c(random, NULL, "noise.c"))
        printf("\n%s\n", cfx_error_last()->message);
    cfx_error_clear();
    return cfx_finish(stderr);
}
