/* Modules fused, trained and converted one at a time. */
#include "fx.h"
#include "numbers.h"

#include <cfx/layers.h>

static double most(cfx_tensor *a, cfx_tensor *b) {
    return cfx_tensor_get(cfx_max(cfx_abs(cfx_sub(a, b))), 0);
}

TEST(quant_modules_are_fused_one_after_the_other) {
    cfx_manual_seed(0);
    cfx_module *conv = cfx_nn_conv2d(2, 3, 3), *norm = cfx_nn_batch_norm2d(3);
    cfx_module *relu = cfx_nn_relu(), *linear = cfx_nn_linear(4, 2);
    cfx_module *three[] = {conv, norm, relu}, *two[] = {linear, relu}, *wrong[] = {relu, linear};
    cfx_fill_(cfx_as_tensor(cfx_module_attr(norm, "running_mean")), 0.5);
    CHECK_STR(cfx_fuse_modules(3, three, true)->type, "ConvBnReLU2d");
    cfx_tensor *x = cfx_randn(1, 2, 5, 5);
    for (int i = 0; i < 3; i++)
        cfx_module_train(three[i], false);
    cfx_module *fused = cfx_fuse_modules(3, three, false);
    CHECK_STR(fused->type, "ConvReLU2d");
    cfx_tensor *y = cfx_forward(relu, cfx_forward(norm, cfx_forward(conv, x)));
    CHECK(most(y, cfx_forward(fused, x)) < 1e-5);
    CHECK_STR(cfx_fuse_modules(2, two, false)->type, "LinearReLU");
    CHECK(!cfx_fuse_modules(2, wrong, false));
    CHECK(!cfx_fuse_modules(1, two, false));
    CHECK(!cfx_fuse_modules(0, NULL, false));
    CHECK_OK();
}

TEST(quant_modules_are_trained_and_converted_alone) {
    cfx_manual_seed(0);
    cfx_qconfig q, qat, dynamic;
    cfx_qconfig_find("x86", &q);
    cfx_qconfig_find("x86 qat", &qat);
    cfx_qconfig_find("dynamic", &dynamic);
    cfx_module *linear = cfx_nn_linear(4, 2);
    cfx_tensor *x = cfx_randn(3, 4), *want = cfx_forward(linear, x);
    cfx_module *trained = cfx_train_module(linear, &qat);
    CHECK_STR(cfx_module_find(trained, "weight_fake_quant")->type, "FusedMovingAvgObsFakeQuantize");
    CHECK(most(want, cfx_forward(trained, x)) < 0.05);
    CHECK(!cfx_train_module(cfx_nn_relu(), &qat));
    cfx_module *all[] = {linear, trained};
    for (int i = 0; i < 2; i++) {
        cfx_module *int8 = cfx_convert_module(all[i], &q, NULL, 0.02, 64);
        CHECK_STR(int8->type, "QuantizedLinear");
        cfx_tensor *in = cfx_quantize_per_tensor(x, 0.03, 64, cfx_dtype_value(CFX_QU8));
        cfx_tensor *y = cfx_forward(int8, in);
        CHECK(most(want, cfx_dequantize(y)) < 0.1);
    }
    CHECK_STR(cfx_convert_module(linear, &dynamic, NULL, 1, 0)->type, "DynamicQuantizedLinear");
    CHECK_STR(cfx_convert_module(cfx_nn_layer_norm(4), &q, NULL, 1, 0)->type,
              "QuantizedLayerNorm");
    CHECK(!cfx_convert_module(cfx_nn_relu(), &q, NULL, 1, 0));
    CHECK_OK();
}
