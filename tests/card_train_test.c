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

/* Steps of a rule over parameters with gradients that are given, on the host and on the card. */
static void step_both(const char *algorithm, cfx_dtype dtype, cfx_optim_options o, cfx_site at) {
    cfx_tensor *p[2], *q[2];
    for (int i = 0; i < 2; i++) {
        p[i] = cfx_to(i ? cfx_randn(700) : cfx_randn(5, 3), cfx_dtype_value(dtype));
        q[i] = cfx_to(p[i], "cuda");
    }
    cfx_optim *here = cfx_optim_new_from(at, algorithm, cfx_list(p[0], p[1]), o);
    cfx_optim *on = cfx_optim_new_from(at, algorithm, cfx_list(q[0], q[1]), o);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < 2; i++) {
            cfx_tensor *g = cfx_to(cfx_randn_like(p[i]), cfx_dtype_value(dtype));
            cfx_tensor_set_grad(p[i], g);
            cfx_tensor_set_grad(q[i], cfx_to(g, "cuda"));
        }
        cfx_optim_step(here);
        const long kernels = card.kernels;
        cfx_optim_step(on);
        test_check(card.kernels == kernels + 2, at, "a launch for each parameter");
    }
    CHECK_OK();
    for (int i = 0; i < 2; i++)
        test_check(card_apart(cfx_tensor_value(p[i]), cfx_tensor_value(q[i])) <
                       (cfx_dtype_size(dtype) == 2 ? 1e-2 : 1e-6),
                   at, "parameters");
    const cfx_dict *state = cfx_as_dict(cfx_dict_get(cfx_optim_state_dict(on), "state"));
    for (int64_t i = 0; i < state->len; i++) {
        const cfx_dict *of = cfx_as_dict(state->entries[i].value);
        for (int64_t j = 0; j < of->len; j++)
            if (cfx_tensor_ndim(cfx_as_tensor(of->entries[j].value)))
                test_check(cfx_tensor_device(cfx_as_tensor(of->entries[j].value)).type == CFX_CUDA,
                           at, "state is on the card");
    }
    cfx_optim *again = cfx_optim_new_from(at, algorithm, cfx_list(q[0], q[1]), o);
    CHECK(cfx_optim_load_state_dict(again, cfx_optim_state_dict(on)));
    cfx_optim_step(again);
    cfx_optim_step(here);
    CHECK_OK();
    for (int i = 0; i < 2; i++)
        test_check(card_apart(cfx_tensor_value(p[i]), cfx_tensor_value(q[i])) <
                       (cfx_dtype_size(dtype) == 2 ? 1e-2 : 1e-6),
                   at, "parameters after the state was loaded");
}

TEST(optimisers_step_on_a_card) {
    if (!card_begin())
        return;
    cfx_manual_seed(6);
    static const char *const all[] = {"SGD",     "Adam",     "AdamW", "RMSprop",
                                      "Adagrad", "Adadelta", "Adamax"};
    for (int i = 0; i < (int)(sizeof all / sizeof *all); i++)
        CFX_SCOPE step_both(all[i], i % 2 ? CFX_F64 : CFX_F32,
                            (cfx_optim_options){.lr = 0.05, .weight_decay = 0.01}, CFX_HERE);
    const cfx_optim_options nesterov = {.lr = 0.1, .momentum = 0.9, .nesterov = true};
    const cfx_optim_options centered = {.lr = 0.1, .momentum = 0.5, .centered = true,
                                        .maximize = true};
    CFX_SCOPE step_both("SGD", CFX_F32, nesterov, CFX_HERE);
    CFX_SCOPE step_both("RMSprop", CFX_F32, centered, CFX_HERE);
    CFX_SCOPE step_both("AdamW", CFX_F64, (cfx_optim_options){.amsgrad = true}, CFX_HERE);
    CFX_SCOPE step_both("AdamW", CFX_BF16, (cfx_optim_options){.lr = 0.1}, CFX_HERE);
    CFX_SCOPE step_both("Adam", CFX_F16, (cfx_optim_options){.lr = 0.1}, CFX_HERE);
    card_end();
}

/* Batch norm in training is computed on the card, with the running statistics that it updates. */
TEST(running_statistics_are_updated_on_a_card) {
    if (!card_begin())
        return;
    cfx_manual_seed(8);
    cfx_tensor *x = cfx_randn(6, 3, 5, 4), *w = cfx_randn(3), *b = cfx_randn(3);
    for (int k = 0; k < 2; k++) {
        const cfx_dtype d = k ? CFX_F64 : CFX_F32;
        cfx_value y[2], mean[2], var[2];
        for (int there = 0; there < 2; there++) {
            const char *on = there ? "cuda" : "cpu";
            cfx_tensor *at = cfx_to(cfx_to(x, cfx_dtype_value(d)), on);
            cfx_tensor *m = cfx_to(cfx_zeros(3, CFX_KW(dtype, cfx_dtype_value(d))), on);
            cfx_tensor *v = cfx_to(cfx_ones(3, CFX_KW(dtype, cfx_dtype_value(d))), on);
            cfx_value weight = CFX_V(cfx_to(cfx_to(w, cfx_dtype_value(d)), on));
            cfx_value bias = CFX_V(cfx_to(cfx_to(b, cfx_dtype_value(d)), on));
            const long kernels = card.kernels;
            for (int i = 0; i < 2; i++)
                y[there] = CFX_V(cfx_batch_norm(at, weight, bias, m, v, true, 0.1, 1e-5, false));
            test_check(!there || card.kernels > kernels, CFX_HERE, "it is computed on the card");
            mean[there] = cfx_tensor_value(m), var[there] = cfx_tensor_value(v);
        }
        CHECK_OK();
        CHECK(card_apart(y[0], y[1]) < 1e-5);
        CHECK(card_apart(mean[0], mean[1]) < 1e-6);
        CHECK(card_apart(var[0], var[1]) < 1e-6);
        CHECK(cfx_tensor_device(cfx_as_tensor(var[1])).type == CFX_CUDA);
    }
    card_end();
}
