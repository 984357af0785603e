/* Quantization of programs: calibrate, round, compare; static, dynamic and weights alone. */
#include <cfx.h>
#include <string.h>

static cfx_tensor *mlp_forward(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "fc2", cfx_relu(cfx_call(self, "fc1", x)));
}

static cfx_module *mlp_new(void) {
    cfx_module *m = cfx_module_new("MLP", mlp_forward, "x");
    cfx_nn_add(m, "fc1", cfx_nn_linear(16, 32));
    cfx_nn_add(m, "fc2", cfx_nn_linear(32, 4));
    return m;
}

static cfx_tensor *conv_forward(cfx_module *self, cfx_tensor *x) {
    return cfx_relu(cfx_call(self, "bn", cfx_call(self, "conv", x)));
}

static cfx_module *conv_new(void) {
    cfx_module *m = cfx_module_new("ConvModel", conv_forward, "x");
    cfx_nn_add(m, "conv", cfx_nn_conv2d(3, 8, 3));
    cfx_nn_add(m, "bn", cfx_nn_batch_norm2d(8));
    cfx_module_train(m, false);
    return m;
}

/* What became of a program, and how far its results are from those of the float program. */
static void show(const char *title, cfx_quantized *q, cfx_value batches) {
    cfx_quantize_report *r = q ? cfx_quantize_compare(q, batches) : NULL;
    if (!r)
        return;
    printf("%s: %lld bytes of tensors before, %lld after; %s 30 dB\n", title,
           (long long)q->bytes_before, (long long)q->bytes_after, r->db > 30 ? "above" : "below");
    for (int i = 0; i < q->nlayers; i++)
        printf("    %-8s %s\n", q->layers[i].name,
               q->layers[i].left ? q->layers[i].left : "quantized");
}

int main(void) {
    cfx_manual_seed(0);
    cfx_value rows = cfx_list(cfx_tuple(cfx_randn(cfx_list(64, 16))));
    cfx_program *mlp = cfx_export(mlp_new(), cfx_at(rows, 0), cfx_none(), cfx_none());

    /* Ranges of values are seen while calibrating; batches are lists of inputs. */
    cfx_quantized *q = cfx_quantize(mlp, rows, (cfx_quantize_options){0});
    show("MLP, static", q, rows);

    /* The nodes that say what is rounded are those of PyTorch's PT2E: it loads the program. */
    cfx_each_node(q->program->module->graph, n)
        if (n->op == CFX_CALL_FUNCTION)
            printf("    %-25s %s\n", n->name, n->target.name);

    /* Weights alone need no batches; four bits and groups of inputs for language models. */
    show("MLP, dynamic",
         cfx_quantize(mlp, cfx_none(), (cfx_quantize_options){.scheme = CFX_QUANTIZE_DYNAMIC}),
         rows);
    show("MLP, weights of 4 bits",
         cfx_quantize(mlp, cfx_none(),
                      (cfx_quantize_options){.scheme = CFX_QUANTIZE_WEIGHT,
                                             .bits = 4,
                                             .per = CFX_QUANTIZE_GROUP,
                                             .group = 8}),
         rows);

    /* The batch norm becomes part of the convolution first. */
    cfx_value images = cfx_list(cfx_tuple(cfx_randn(cfx_list(2, 3, 12, 12))));
    cfx_program *conv = cfx_export(conv_new(), cfx_at(images, 0), cfx_none(), cfx_none());
    cfx_quantized *c = cfx_quantize(conv, images, (cfx_quantize_options){0});
    show("ConvModel, static", c, images);
    const char *plan = c ? cfx_program_plan(c->program, cfx_at(cfx_at(images, 0), 0)) : "";
    printf("    runs in %s\n", strstr(plan, "int8 convolution") ? "integers" : "float");

    /* What cannot be done is said, and nothing is changed. */
    cfx_value none = cfx_list_value(0, NULL);
    if (cfx_failed(cfx_quantize(mlp, none, (cfx_quantize_options){0})))
        cfx_report(stdout);
    return cfx_finish(stderr);
}
