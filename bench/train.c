/* Training steps (forward, backward, optimiser) against PyTorch 1.13: a perceptron, a small
 * convolutional network and a transformer layer, small (overhead rules) and large (kernels do). */
#include "bench.h"

typedef struct job {
    cfx_module *model, *criterion;
    cfx_optim *optim;
    cfx_tensor *x, *y;
} job;

static void train_step(void *p) {
    job *j = p;
    CFX_SCOPE {
        cfx_optim_zero_grad(j->optim);
        cfx_backward(cfx_forward(j->criterion, cfx_forward(j->model, j->x), j->y));
        cfx_optim_step(j->optim);
    }
}

void bench_step(const char *what, const char *key, cfx_module *model, cfx_tensor *x,
                cfx_module *criterion, cfx_tensor *y) {
    job j = {model, criterion, cfx_sgd(model, .lr = 1e-4, .momentum = 0.9), x, y};
    bench_row(what, bench_time(train_step, &j), "PyTorch 1.13", bench_torch(key));
}

static cfx_module *perceptron(int64_t width) {
    return cfx_nn_sequential(cfx_nn_linear(width, width), cfx_nn_relu(),
                             cfx_nn_linear(width, width), cfx_nn_relu(), cfx_nn_linear(width, 10));
}

static cfx_module *convolutions(int64_t channels) {
    return cfx_nn_sequential(cfx_nn_conv2d(3, channels, 3, .padding = 1),
                             cfx_nn_batch_norm2d(channels), cfx_nn_relu(), cfx_nn_max_pool2d(2),
                             cfx_nn_conv2d(channels, channels, 3, .padding = 1), cfx_nn_relu(),
                             cfx_nn_adaptive_avg_pool2d(1), cfx_nn_flatten(),
                             cfx_nn_linear(channels, 10));
}

BENCH(train_small) {
    cfx_module *cross = cfx_nn_cross_entropy_loss(), *square = cfx_nn_mse_loss();
    cfx_tensor *labels = cfx_randint(0, 10, cfx_list(4));
    bench_step("step of an MLP 16-16-16-10, batch 4", "train_mlp_small", perceptron(16),
               cfx_randn(4, 16), cross, labels);
    bench_step("step of a CNN of 4 channels, 4 x 3 x 8 x 8", "train_cnn_small", convolutions(4),
               cfx_randn(4, 3, 8, 8), cross, labels);
    cfx_tensor *x = cfx_randn(4, 2, 16);
    bench_step("step of a transformer layer of 16, 4 x 2", "train_transformer_small",
               cfx_nn_transformer_encoder_layer(16, 2, .dim_feedforward = 32, .dropout = CFX_ZERO),
               x, square, x);
}

BENCH(train_large) {
    cfx_module *cross = cfx_nn_cross_entropy_loss(), *square = cfx_nn_mse_loss();
    bench_step("step of an MLP 1024-1024-1024-10, batch 128", "train_mlp_large", perceptron(1024),
               cfx_randn(128, 1024), cross, cfx_randint(0, 10, cfx_list(128)));
    bench_step("step of a CNN of 32 channels, 32 x 3 x 32 x 32", "train_cnn_large",
               convolutions(32), cfx_randn(32, 3, 32, 32), cross, cfx_randint(0, 10, cfx_list(32)));
    cfx_tensor *x = cfx_randn(64, 8, 256);
    bench_step("step of a transformer layer of 256, 64 x 8", "train_transformer_large",
               cfx_nn_transformer_encoder_layer(256, 8, .dim_feedforward = 1024,
                                                .dropout = CFX_ZERO),
               x, square, x);
}
