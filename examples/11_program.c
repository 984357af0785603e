/* A program that torch.export saved: opened, called, looked into, and given what it does not take.
 * The weights are views into the mapped file. */
#include <cfx.h>

/* The largest value that flows through each activation. */
static cfx_value watch(cfx_interp *it, cfx_node *n) {
    cfx_value v = cfx_interp_run_node(it, n); /* super */
    if (cfx_node_is(n, "gelu"))
        printf("%s reaches %.3f\n", n->name, cfx_tensor_get(cfx_max(v), 0));
    return v;
}

int main(void) {
    cfx_program *p = cfx_open("examples/data/distilbert/model.pt2");
    cfx_dict *in = cfx_safetensors_read("examples/data/distilbert/inputs.safetensors");
    cfx_dict *want = cfx_safetensors_read("examples/data/distilbert/outputs.safetensors");
    cfx_value ids = cfx_dict_get(in, "in0"), mask = cfx_dict_get(in, "in1");

    /* as in Python: model(input_ids=ids, attention_mask=mask) */
    cfx_value out = cfx_program_run(p, CFX_KW(input_ids, ids), CFX_KW(attention_mask, mask));
    cfx_value expected = cfx_dict_get(want, "out0");
    printf("as PyTorch computed it: %s\n",
           cfx_repr(cfx_allclose(cfx_at(out, 0), expected, 1e-4, 1e-5)));

    /* the same graph under an interpreter of one's own */
    cfx_interp it = {.module = p->module, .run_node = watch};
    cfx_value inputs = cfx_program_inputs(p, ids, mask);
    cfx_run_from(CFX_HERE, &it,
                 (cfx_args){(int)cfx_as_list(inputs)->len, cfx_as_list(inputs)->items, NULL});

    /* as a module, with parameters under their own names */
    cfx_module *m = cfx_program_module(p);
    cfx_value weight = cfx_module_attr(m, "model.transformer.layer.0.ffn.lin1.weight");
    printf("lin1.weight: %s\n", cfx_repr(cfx_py("builtins.getattr", weight, "shape")));

    cfx_program_run(p, ids, cfx_ones(1, 9, CFX_KW(dtype, cfx_i64)));
    printf("%s\n%s\n", cfx_error_last()->message, cfx_error_last()->notes);
    cfx_error_clear();
    return cfx_finish(stderr);
}
