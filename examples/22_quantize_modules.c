/* Quantization of modules, as torch.ao.quantization does it on traced ones: observers are put in,
 * calibrated by running, and the result converted; or it is trained first, with numbers that are
 * rounded on the way. */
#include <cfx.h>

#include <math.h>

enum { BATCHES = 8 };

/* relu(linear(x)), the model that is traced everywhere */
static cfx_tensor *forward_simple(cfx_module *self, cfx_tensor *x) {
    return cfx_relu(cfx_call(self, "linear", x));
}

static cfx_module *simple(void) {
    cfx_module *m = cfx_module_new("SimpleModel", forward_simple, "x");
    cfx_nn_add(m, "linear", cfx_nn_linear(5, 5));
    return m;
}

/* A convolution, its normalisation and a relu, which become one; a residual; a classifier. */
static cfx_tensor *forward_net(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *y = cfx_call(self, "relu", cfx_call(self, "bn", cfx_call(self, "conv", x)));
    y = cfx_as_tensor(cfx_py("operator.add", y, x));
    return cfx_call(self, "fc", cfx_flatten(cfx_call(self, "pool", y), 1));
}

static cfx_module *net(void) {
    cfx_module *m = cfx_module_new("Net", forward_net, "x");
    cfx_nn_add(m, "conv", cfx_nn_conv2d(3, 3, 3, .padding = 1));
    cfx_nn_add(m, "bn", cfx_nn_batch_norm2d(3));
    cfx_nn_add(m, "relu", cfx_nn_relu());
    cfx_nn_add(m, "pool", cfx_nn_adaptive_avg_pool2d(2));
    cfx_nn_add(m, "fc", cfx_nn_linear(12, 4));
    return m;
}

static cfx_tensor *batch(int i, bool picture) {
    cfx_manual_seed(100 + (uint64_t)i);
    return picture ? cfx_randn(2, 3, 8, 8) : cfx_randn(4, 5);
}

/* 20 log10(|a| / |a - b|), in whole dB */
static int decibels(cfx_tensor *a, cfx_tensor *b) {
    double signal = cfx_tensor_get(cfx_norm(a), 0),
           noise = cfx_tensor_get(cfx_norm(cfx_sub(a, b)), 0);
    return (int)(20 * log10(signal / noise));
}

/* Observers in, calibrated, converted. */
static cfx_module *by_modules(cfx_module *m, const char *backend, bool picture) {
    cfx_module *prepared = cfx_prepare_fx(m, cfx_qconfig_mapping_default(backend));
    for (int i = 0; i < BATCHES; i++)
        cfx_forward(prepared, batch(i, picture));
    return cfx_convert_fx(prepared);
}

static void calibrated(void) {
    cfx_module *m = simple();
    cfx_module_train(m, false);
    printf("%s\n", cfx_module_code(by_modules(m, "x86", false)));

    m = net();
    cfx_module_train(m, false);
    cfx_module *int8 = by_modules(m, "x86", true);
    printf("%s\n", cfx_module_code(int8));
    for (int i = 0; i < cfx_module_count(int8); i++)
        printf("%s: %s\n", cfx_module_child_name(int8, i), cfx_module_child(int8, i)->type);
    cfx_tensor *x = batch(0, true);
    printf("more than 15 dB: %s\n\n",
           decibels(cfx_forward(m, x), cfx_forward(int8, x)) > 15 ? "yes" : "no");
}

/* What goes through is rounded while it is trained; gradients go straight through. */
static void trained(void) {
    cfx_module *m = cfx_prepare_fx(net(), cfx_qconfig_mapping_default("onednn qat"));
    cfx_optim *o = cfx_sgd(m, .lr = 0.05);
    double first = 0, last = 0;
    for (int i = 0; i < 20; i++)
        CFX_SCOPE {
            cfx_optim_zero_grad(o);
            cfx_tensor *loss =
                cfx_mse_loss(cfx_forward(m, batch(i % BATCHES, true)), cfx_ones(2, 4));
            cfx_backward(loss);
            cfx_optim_step(o);
            last = cfx_tensor_get(loss, 0);
            first = i ? first : last;
        }
    cfx_module_train(m, false);
    cfx_module *int8 = cfx_convert_fx(m);
    cfx_tensor *x = batch(0, true);
    printf("it learns: %s; int8 as trained, to 20 dB: %s\n\n", last < 0.5 * first ? "yes" : "no",
           decibels(cfx_forward(m, x), cfx_forward(int8, x)) > 20 ? "yes" : "no");
}

int main(void) {
    cfx_manual_seed(0);
    calibrated();
    trained();
    return cfx_finish(stderr);
}
