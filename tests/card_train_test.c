/* Training on a card that is played: gradients and steps are those of the host. */
#include <cfx.h>
#include <cfx/cuda.h>
#include <string.h>

#include "card.h"
#include "test.h"

/* Three steps of a model on the host and of its copy on the card: losses, gradients and parameters
 * agree. */
static void train(cfx_module *m, cfx_tensor *x, cfx_tensor *target, const char *algorithm,
                  cfx_site at) {
    cfx_module *there = cfx_module_copy(m);
    cfx_module_to_device(there, "cuda");
    cfx_tensor *cx = cfx_to(x, "cuda"), *ct = cfx_to(target, "cuda");
    cfx_optim *here = cfx_optim_new(algorithm, m, .lr = 0.05);
    cfx_optim *on = cfx_optim_new(algorithm, there, .lr = 0.05);
    const long kernels = card.kernels;
    for (int step = 0; step < 3; step++) {
        cfx_optim_zero_grad(here);
        cfx_optim_zero_grad(on);
        cfx_tensor *want = cfx_mse_loss(cfx_forward(m, x), target);
        cfx_tensor *have = cfx_mse_loss(cfx_forward(there, cx), ct);
        test_check(cfx_tensor_device(have).type == CFX_CUDA, at, "the loss is on the card");
        test_check(card_apart(cfx_tensor_value(want), cfx_tensor_value(have)) < 1e-5, at, "losses");
        cfx_backward(want);
        cfx_backward(have);
        const cfx_dict *a = cfx_module_named_parameters(m), *b = cfx_module_named_parameters(there);
        for (int64_t i = 0; i < a->len; i++) {
            const cfx_tensor *p = cfx_as_tensor(a->entries[i].value);
            const cfx_tensor *q = cfx_as_tensor(b->entries[i].value);
            test_check(cfx_tensor_grad(q) && cfx_tensor_device(cfx_tensor_grad(q)).type == CFX_CUDA,
                       at, "gradients are on the card");
            test_check(card_apart(cfx_tensor_value(cfx_tensor_grad(p)),
                                  cfx_tensor_value(cfx_tensor_grad(q))) < 1e-4,
                       at, "gradients");
            test_check(card_apart(a->entries[i].value, b->entries[i].value) < 1e-4, at,
                       "parameters");
        }
        cfx_optim_step(here);
        cfx_optim_step(on);
        CHECK_OK();
    }
    CHECK(card.kernels > kernels + 10);
}

TEST(models_train_on_a_card_as_on_the_host) {
    if (!card_begin())
        return;
    cfx_manual_seed(5);
    train(cfx_nn_sequential(cfx_nn_linear(6, 10), cfx_nn_gelu(), cfx_nn_linear(10, 3)),
          cfx_randn(4, 6), cfx_randn(4, 3), "AdamW", CFX_HERE);
    train(cfx_nn_sequential(cfx_nn_conv2d(2, 3, 3, .padding = 1), cfx_nn_batch_norm2d(3),
                            cfx_nn_relu(), cfx_nn_max_pool2d(2), cfx_nn_flatten(),
                            cfx_nn_linear(12, 2)),
          cfx_randn(3, 2, 4, 4), cfx_randn(3, 2), "SGD", CFX_HERE);
    train(cfx_nn_transformer_encoder_layer(8, 2, .dim_feedforward = 12, .dropout = CFX_ZERO,
                                           .batch_first = true),
          cfx_randn(2, 5, 8), cfx_randn(2, 5, 8), "SGD", CFX_HERE);
    card_end();
}
