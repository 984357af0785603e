/* Training steps of whole models against PyTorch: resnet18 on 16 pictures, and a GPT of six layers
 * on 8 x 128 tokens. */
#include "bench.h"

enum { WIDTH = 384, HEADS = 6, LAYERS = 6, WORDS = 4096, TOKENS = 128, LINES = 8, PICTURES = 16 };

/* ---- resnet18 -------------------------------------------------------------------------------- */

static cfx_tensor *block_forward(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *y = cfx_relu(cfx_call(self, "bn1", cfx_call(self, "conv1", x)));
    y = cfx_call(self, "bn2", cfx_call(self, "conv2", y));
    return cfx_relu(cfx_add(y, cfx_call(self, "shortcut", x)));
}

static cfx_module *residual(int64_t from, int64_t to, int64_t stride) {
    cfx_module *m = cfx_module_new("BasicBlock", block_forward, "x");
    cfx_nn_add(m, "conv1",
               cfx_nn_conv2d(from, to, 3, .stride = stride, .padding = 1, .no_bias = true));
    cfx_nn_add(m, "bn1", cfx_nn_batch_norm2d(to));
    cfx_nn_add(m, "conv2", cfx_nn_conv2d(to, to, 3, .padding = 1, .no_bias = true));
    cfx_nn_add(m, "bn2", cfx_nn_batch_norm2d(to));
    cfx_nn_add(m, "shortcut",
               from == to ? cfx_nn_identity()
                          : cfx_nn_sequential(
                                cfx_nn_conv2d(from, to, 1, .stride = stride, .no_bias = true),
                                cfx_nn_batch_norm2d(to)));
    return m;
}

static cfx_module *resnet18(void) {
    return cfx_nn_sequential(
        cfx_nn_conv2d(3, 64, 7, .stride = 2, .padding = 3, .no_bias = true),
        cfx_nn_batch_norm2d(64), cfx_nn_relu(), cfx_nn_max_pool2d(3, .stride = 2, .padding = 1),
        residual(64, 64, 1), residual(64, 64, 1), residual(64, 128, 2), residual(128, 128, 1),
        residual(128, 256, 2), residual(256, 256, 1), residual(256, 512, 2), residual(512, 512, 1),
        cfx_nn_adaptive_avg_pool2d(1), cfx_nn_flatten(), cfx_nn_linear(512, 1000));
}

/* ---- a GPT ----------------------------------------------------------------------------------- */

static cfx_tensor *attention_forward(cfx_module *self, cfx_tensor *x) {
    cfx_value qkv = cfx_chunk(cfx_call(self, "qkv", x), 3, -1);
    cfx_tensor *heads[3];
    for (int i = 0; i < 3; i++)
        heads[i] = cfx_transpose(
            cfx_view(cfx_tensor_at(qkv, i), cfx_list(LINES, TOKENS, HEADS, WIDTH / HEADS)), 1, 2);
    cfx_tensor *y = cfx_scaled_dot_product_attention(heads[0], heads[1], heads[2],
                                                     CFX_KW(is_causal, true));
    y = cfx_reshape(cfx_transpose(y, 1, 2), cfx_list(LINES, TOKENS, WIDTH));
    return cfx_call(self, "out", y);
}

static cfx_tensor *layer_forward(cfx_module *self, cfx_tensor *x) {
    x = cfx_add(x, cfx_call(self, "attention", cfx_call(self, "before", x)));
    cfx_tensor *h = cfx_gelu(cfx_call(self, "up", cfx_call(self, "after", x)));
    return cfx_add(x, cfx_call(self, "down", h));
}

static cfx_module *layer(void) {
    cfx_module *a = cfx_module_new("Attention", attention_forward, "x");
    cfx_nn_add(a, "qkv", cfx_nn_linear(WIDTH, 3 * WIDTH));
    cfx_nn_add(a, "out", cfx_nn_linear(WIDTH, WIDTH));
    cfx_module *m = cfx_module_new("Layer", layer_forward, "x");
    cfx_nn_add(m, "attention", a);
    cfx_nn_add(m, "before", cfx_nn_layer_norm(WIDTH));
    cfx_nn_add(m, "after", cfx_nn_layer_norm(WIDTH));
    cfx_nn_add(m, "up", cfx_nn_linear(WIDTH, 4 * WIDTH));
    cfx_nn_add(m, "down", cfx_nn_linear(4 * WIDTH, WIDTH));
    return m;
}

static cfx_tensor *gpt_forward(cfx_module *self, cfx_tensor *tokens) {
    cfx_tensor *at = cfx_call(self, "places", cfx_arange(TOKENS));
    cfx_tensor *x = cfx_add(cfx_call(self, "words", tokens), at);
    x = cfx_call(self, "head", cfx_call(self, "norm", cfx_call(self, "layers", x)));
    return cfx_view(x, cfx_list(LINES * TOKENS, WORDS));
}

static cfx_module *gpt(void) {
    cfx_module *m = cfx_module_new("GPT", gpt_forward, "tokens");
    cfx_nn_add(m, "words", cfx_nn_embedding(WORDS, WIDTH));
    cfx_nn_add(m, "places", cfx_nn_embedding(TOKENS, WIDTH));
    cfx_nn_add(m, "layers",
               cfx_nn_sequential(layer(), layer(), layer(), layer(), layer(), layer()));
    cfx_nn_add(m, "norm", cfx_nn_layer_norm(WIDTH));
    cfx_nn_add(m, "head", cfx_nn_linear(WIDTH, WORDS, .no_bias = true));
    return m;
}

/* ---- rows ------------------------------------------------------------------------------------ */

BENCH(train_models) {
    cfx_module *cross = cfx_nn_cross_entropy_loss();
    bench_step("step of resnet18, 16 x 3 x 224 x 224", "train_resnet18", resnet18(),
               cfx_randn(PICTURES, 3, 224, 224), cross, cfx_randint(0, 1000, cfx_list(PICTURES)));
    bench_step("step of a GPT of 6 layers of 384, 8 x 128", "train_gpt", gpt(),
               cfx_randint(0, WORDS, cfx_list(LINES, TOKENS)), cross,
               cfx_randint(0, WORDS, cfx_list(LINES * TOKENS)));
}
