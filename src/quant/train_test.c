/* Training with fake quantization, mappings, and what preparing refuses. */
#include "fx.h"
#include "numbers.h"

#include <cfx/emit.h>
#include <cfx/layers.h>
#include <cfx/optim.h>
#include <math.h>

static cfx_module *network(void) {
    return cfx_nn_sequential(cfx_nn_conv2d(3, 4, 3), cfx_nn_batch_norm2d(4), cfx_nn_relu(),
                             cfx_nn_conv2d(4, 4, 1), cfx_nn_batch_norm2d(4), cfx_nn_flatten(),
                             cfx_nn_linear(64, 8), cfx_nn_relu(), cfx_nn_linear(8, 2));
}

static double distance(cfx_tensor *a, cfx_tensor *b) {
    return cfx_tensor_get(cfx_norm(cfx_sub(a, b)), 0) / cfx_tensor_get(cfx_norm(a), 0);
}

/* Mean squares to ones, before and after some steps. */
static void train(cfx_module *m, cfx_tensor *x, double *first, double *last) {
    cfx_optim *o = cfx_sgd(m, .lr = 0.05);
    cfx_tensor *want = cfx_ones(cfx_dim(x, 0), 2);
    for (int i = 0; i < 30; i++)
        CFX_SCOPE {
            cfx_optim_zero_grad(o);
            cfx_tensor *loss = cfx_mse_loss(cfx_forward(m, x), want);
            cfx_backward(loss);
            cfx_optim_step(o);
            *last = cfx_tensor_get(loss, 0);
            *first = i ? *first : *last;
        }
}

TEST(quantization_aware_training_learns_and_converts) {
    cfx_manual_seed(1);
    cfx_tensor *x = cfx_randn(8, 3, 6, 6);
    cfx_module *m = cfx_prepare_fx(network(), cfx_qconfig_mapping_default("x86 qat"));
    if (!CHECK_OK() || !CHECK(m != NULL))
        return;
    CHECK_STR(cfx_module_find(m, "0")->type, "ConvBnReLU2d");
    CHECK_STR(cfx_module_find(m, "3")->type, "ConvBn2d");
    CHECK_STR(cfx_module_find(m, "6")->type, "LinearReLU");
    CHECK_STR(cfx_module_find(m, "0.bn")->type, "BatchNorm2d");
    CHECK_STR(cfx_module_find(m, "0.weight_fake_quant")->type, "FusedMovingAvgObsFakeQuantize");
    CHECK_STR(cfx_module_find(m, "activation_post_process_0")->type,
              "FusedMovingAvgObsFakeQuantize");
    double first = 0, last = 0;
    train(m, x, &first, &last);
    CHECK(last < 0.5 * first);
    cfx_module_train(m, false);
    cfx_fake_quantize_set(m, false, true);
    cfx_tensor *y = cfx_forward(m, x);
    cfx_module *reference = cfx_convert_to_reference_fx(m), *int8 = cfx_convert_fx(m);
    if (!CHECK_OK() || !CHECK(reference && int8))
        return;
    CHECK_STR(cfx_module_find(int8, "0")->type, "QuantizedConvReLU2d");
    CHECK_STR(cfx_module_find(int8, "3")->type, "QuantizedConv2d");
    CHECK_STR(cfx_module_find(int8, "6")->type, "QuantizedLinearReLU");
    CHECK(distance(y, cfx_forward(reference, x)) < 0.05);
    CHECK(distance(y, cfx_forward(int8, x)) < 0.05);
    CHECK_OK();
}

/* Three steps with PyTorch's texts, losses, weights and scales. */
TEST(quantization_aware_training_is_as_there) {
    cfx_manual_seed(0);
    cfx_module *m = cfx_nn_sequential(cfx_nn_linear(4, 8), cfx_nn_relu(), cfx_nn_linear(8, 2));
    cfx_tensor *x[] = {cfx_randn(3, 4), cfx_randn(3, 4)};
    m = cfx_prepare_fx(m, cfx_qconfig_mapping_default("x86 qat"));
    if (!CHECK_OK() || !CHECK(m != NULL))
        return;
    CHECK_STR(cfx_module_str(cfx_module_find(m, "0")),
              "LinearReLU(\n"
              "  in_features=4, out_features=8, bias=True\n"
              "  (weight_fake_quant): FusedMovingAvgObsFakeQuantize(\n"
              "    fake_quant_enabled=tensor([1]), observer_enabled=tensor([1]), "
              "scale=tensor([1.]), zero_point=tensor([0], dtype=torch.int32), dtype=torch.qint8, "
              "quant_min=-128, quant_max=127, qscheme=torch.per_channel_symmetric, "
              "reduce_range=False\n"
              "    (activation_post_process): MovingAveragePerChannelMinMaxObserver("
              "min_val=tensor([]), max_val=tensor([]))\n"
              "  )\n"
              ")");
    cfx_optim *o = cfx_sgd(m, .lr = 0.1);
    const double losses[] = {0.03546566516160965, 0.03728080168366432, 0.02357730083167553};
    for (int i = 0; i < 3; i++) {
        cfx_optim_zero_grad(o);
        cfx_tensor *loss = cfx_mean(cfx_pow(cfx_forward(m, x[i % 2]), 2));
        cfx_backward(loss);
        cfx_optim_step(o);
        CHECK_NEAR(cfx_tensor_get(loss, 0), losses[i], 1e-7);
    }
    CHECK_NUMBERS(cfx_attr(m, "0.weight"), -0.00397659186, 0.266563594, -0.411108047);
    CHECK_NUMBERS(cfx_attr(m, "2.bias"), 0.0739592761, -0.225330681);
    CHECK_NUMBERS(cfx_attr(m, "0.weight_fake_quant.scale"), 0.00321497279, 0.00312159606);
    CHECK_NUMBERS(cfx_attr(m, "activation_post_process_2.scale"), 0.00417572539);
    CHECK_NUMBERS(cfx_attr(m, "activation_post_process_2.zero_point"), 82);
    cfx_module_train(m, false);
    CHECK_NUMBERS(cfx_forward(m, x[0]), -0.158412442, -0.0541937277, 0.191762432, 0.075037472,
                  0.00833749678, -0.233449906);
    cfx_module *int8 = cfx_convert_fx(m);
    CHECK_STR(cfx_module_str(cfx_module_find(int8, "2")),
              "QuantizedLinear(in_features=8, out_features=2, scale=0.00416874885559082, "
              "zero_point=81, qscheme=torch.per_channel_affine)");
    CHECK_NUMBERS(cfx_forward(int8, x[0]), -0.158412457, -0.058362484, 0.204268694, 0.0708687305,
                  0.00416874886, -0.225112438);
    CHECK_OK();
}

/* A layer that is normalised is rounded as it will be once fused. */
TEST(quantization_aware_training_with_batch_norm_is_as_there) {
    cfx_manual_seed(0);
    cfx_module *m = cfx_nn_sequential(cfx_nn_conv2d(3, 4, 3), cfx_nn_batch_norm2d(4), cfx_nn_relu(),
                                      cfx_nn_conv2d(4, 2, 1), cfx_nn_batch_norm2d(2));
    cfx_tensor *x[] = {cfx_randn(2, 3, 6, 6), cfx_randn(2, 3, 6, 6)};
    m = cfx_prepare_fx(m, cfx_qconfig_mapping_default("x86 qat"));
    if (!CHECK_OK() || !CHECK(m != NULL))
        return;
    cfx_optim *o = cfx_sgd(m, .lr = 0.1);
    const double losses[] = {1.0002765655517578, 0.7169635891914368, 0.7113949656486511};
    for (int i = 0; i < 3; i++) {
        cfx_optim_zero_grad(o);
        cfx_tensor *loss = cfx_mean(cfx_pow(cfx_forward(m, x[i % 2]), 2));
        cfx_backward(loss);
        cfx_optim_step(o);
        CHECK_NEAR(cfx_tensor_get(loss, 0), losses[i], 2e-6);
    }
    CHECK_NUMBERS(cfx_attr(m, "0.bn.running_var"), 0.807781279, 0.823470891, 0.815890193);
    CHECK_NUMBERS(cfx_attr(m, "0.weight_fake_quant.scale"), 0.00143779209, 0.00150796841);
    cfx_module_train(m, false);
    cfx_forward(m, x[0]);
    CHECK_STR(cfx_module_find(cfx_convert_fx(m), "0")->type, "QuantizedConvReLU2d");
    CHECK_OK();
}

TEST(scales_are_learned) {
    cfx_manual_seed(2);
    cfx_qconfig q;
    CHECK(cfx_qconfig_find("learnable", &q));
    cfx_qconfig_mapping *how = cfx_qconfig_mapping_new();
    cfx_qconfig_mapping_global(how, &q);
    cfx_module *m = cfx_prepare_fx(cfx_nn_sequential(cfx_nn_linear(4, 2)), how);
    if (!CHECK_OK() || !CHECK(m != NULL))
        return;
    cfx_tensor *x = cfx_randn(8, 4);
    cfx_forward(m, x); /* scales by what is seen */
    cfx_fake_quantize_set(m, false, true);
    const char *path = "0.weight_fake_quant.scale";
    double before = cfx_tensor_get(cfx_as_tensor(cfx_module_attr(m, path)), 0), first, last;
    train(m, x, &first, &last);
    CHECK(last < first);
    CHECK(cfx_tensor_get(cfx_as_tensor(cfx_module_attr(m, path)), 0) != before);
    CHECK_OK();
}

/* What PyTorch's _LearnableFakeQuantize gives: text, losses, and what its scales learn. */
TEST(learned_scales_are_as_there) {
    cfx_manual_seed(0);
    cfx_module *m = cfx_nn_sequential(cfx_nn_linear(4, 8), cfx_nn_relu(), cfx_nn_linear(8, 2));
    cfx_tensor *x[] = {cfx_randn(3, 4), cfx_randn(3, 4)};
    cfx_qconfig q;
    cfx_qconfig_find("learnable", &q);
    cfx_qconfig_mapping *how = cfx_qconfig_mapping_new();
    cfx_qconfig_mapping_global(how, &q);
    m = cfx_prepare_fx(m, how);
    if (!CHECK_OK() || !CHECK(m != NULL))
        return;
    CHECK_STR(cfx_module_str(cfx_module_find(m, "2")),
              "Linear(\n"
              "  in_features=8, out_features=2, bias=True\n"
              "  (weight_fake_quant): _LearnableFakeQuantize(\n"
              "    (activation_post_process): MovingAverageMinMaxObserver(min_val=inf, "
              "max_val=-inf)\n"
              "  )\n"
              ")");
    cfx_forward(m, x[0]);
    cfx_fake_quantize_set(m, false, true);
    cfx_optim *o = cfx_sgd(m, .lr = 0.1);
    const double losses[] = {0.035813700407743454, 0.035519469529390335, 2.4994761815833044e-10};
    for (int i = 0; i < 3; i++) {
        cfx_optim_zero_grad(o);
        cfx_tensor *loss = cfx_mean(cfx_pow(cfx_forward(m, x[i % 2]), 2));
        cfx_backward(loss);
        if (!i)
            CHECK_NUMBERS(cfx_tensor_grad(cfx_attr(m, "2.weight_fake_quant.scale")), 0.141837731);
        cfx_optim_step(o);
        CHECK_NEAR(cfx_tensor_get(loss, 0), losses[i], 1e-5); /* the order of sums shows in it */
    }
    CHECK_NUMBERS(cfx_attr(m, "0.weight_fake_quant.scale"), 0.00842554402);
    CHECK_NUMBERS(cfx_attr(m, "activation_post_process_0.scale"), 0.0132376458);
    CHECK_NUMBERS(cfx_attr(m, "activation_post_process_0.zero_point"), 126);
    CHECK_OK();
}

static cfx_tensor *forward_rows(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "l", cfx_call(self, "e", x));
}

/* Rows of embeddings have zero points between integers. */
TEST(embeddings_train_as_there) {
    cfx_manual_seed(0);
    cfx_module *m = cfx_module_new("M", forward_rows, "x");
    cfx_nn_add(m, "e", cfx_nn_embedding(6, 4));
    cfx_nn_add(m, "l", cfx_nn_linear(4, 2));
    cfx_tensor *x[2];
    for (int i = 0; i < 2; i++)
        x[i] = cfx_randint(0, 6, cfx_tuple(3, 4));
    cfx_qconfig q;
    cfx_qconfig_find("embedding qat", &q);
    cfx_qconfig_mapping *how = cfx_qconfig_mapping_new();
    cfx_qconfig_mapping_type(how, "torch.nn.Embedding", &q);
    m = cfx_prepare_fx(m, how);
    if (!CHECK_OK() || !CHECK(m != NULL))
        return;
    cfx_optim *o = cfx_sgd(m, .lr = 0.1);
    const double losses[] = {0.6011334657669067, 0.14807061851024628, 0.1494360715150833};
    for (int i = 0; i < 3; i++) {
        cfx_optim_zero_grad(o);
        cfx_tensor *loss = cfx_mean(cfx_pow(cfx_forward(m, x[i % 2]), 2));
        cfx_backward(loss);
        cfx_optim_step(o);
        CHECK_NEAR(cfx_tensor_get(loss, 0), losses[i], 1e-6);
    }
    cfx_module_train(m, false);
    cfx_forward(m, x[0]);
    CHECK_NUMBERS(cfx_forward(cfx_convert_fx(m), x[0]), -0.142569333, -0.0391620323, 0.280468643,
                  -0.260821521, 0.280468643, -0.260821521);
    CHECK_OK();
}

/* The code of the prepared module, observers as "@". */
static const char *prepared(cfx_qconfig_mapping *how) {
    cfx_module *m =
        cfx_nn_sequential(cfx_nn_linear(4, 4), cfx_nn_linear(4, 4), cfx_nn_conv1d(1, 1, 1));
    cfx_module_train(m, false);
    cfx_module *gm = cfx_prepare_fx(m, how);
    cfx__text s = {0};
    if (gm)
        cfx_each_node(gm->graph, n) {
            bool observer = n->op == CFX_CALL_MODULE &&
                            cfx_module_is_observer(cfx_module_find(gm, n->target.name));
            if (n->op == CFX_CALL_MODULE)
                cfx__text_puts(&s, observer ? "@" : n->target.name);
        }
    return cfx__text_take(&s);
}

TEST(mappings_go_by_name_expression_type_and_for_all) {
    cfx_qconfig q;
    cfx_qconfig_find("default", &q);
    cfx_qconfig_mapping *m = cfx_qconfig_mapping_new();
    CHECK_STR(prepared(m), "012");
    cfx_qconfig_mapping_global(m, &q);
    CHECK_STR(prepared(m), "@0@1@2@");
    cfx_qconfig_mapping_type(m, "torch.nn.Linear", NULL);
    CHECK_STR(prepared(m), "01@2@");
    cfx_qconfig_mapping_regex(m, "[01]", &q);
    CHECK_STR(prepared(m), "@0@1@2@");
    cfx_qconfig_mapping_name(m, "0", NULL);
    CHECK_STR(prepared(m), "0@1@2@");
    cfx_qconfig_mapping_regex(m, "(", &q);
    CHECK_ERROR("the regular expression '(' cannot be read");
    cfx_qconfig_find("int8", &q);
    CHECK_ERROR("there is no qconfig called 'int8': x86, fbgemm, onednn, qnnpack");
    CHECK(!cfx_qconfig_mapping_default("tpu"));
    CHECK_ERROR("backend: tpu not supported");
}

TEST(preparing_refuses) {
    cfx_prepare_fx(network(), cfx_qconfig_mapping_default("x86"));
    CHECK_ERROR("prepare_fx only work for models in eval mode");
    cfx_module *m = network();
    cfx_module_train(m, false);
    cfx_convert_fx(cfx_symbolic_trace(m));
    CHECK_ERROR("incoming model must be produced by prepare_fx");
    cfx_prepare_fx(m, cfx_qconfig_mapping_default("x86 qat"));
    CHECK_ERROR("only works for models in train mode");
}

TEST(converting_leaves_what_was_prepared) {
    cfx_module *m = cfx_nn_sequential(cfx_nn_linear(4, 4));
    cfx_module_train(m, false);
    cfx_module *p = cfx_prepare_fx(m, cfx_qconfig_mapping_default("x86"));
    cfx_forward(p, cfx_randn(2, 4));
    const char *before = cfx_module_str(p);
    cfx_convert_fx(p);
    cfx_convert_to_reference_fx(p);
    CHECK_STR(cfx_module_str(p), before);
    CHECK_OK();
}
