/* Layers whose heart is a product: Linear and Bilinear; and Identity. */
#include "layer.h"

#include <math.h>

static void make_linear(cfx_module *m, const cfx__layer_options *o) {
    int64_t in = cfx__layer_option_int(o, "in_features"),
            out = cfx__layer_option_int(o, "out_features");
    cfx_nn_parameter(m, "weight", cfx__layer_init_kaiming(2, (int64_t[]){out, in}));
    double bound = in > 0 ? 1 / sqrt((double)in) : 0;
    cfx_nn_parameter(m, "bias",
                     cfx__layer_option_on(o, "bias") ? cfx__layer_init_uniform(1, &out, bound)
                                                     : NULL);
}

static void make_bilinear(cfx_module *m, const cfx__layer_options *o) {
    int64_t a = cfx__layer_option_int(o, "in1_features"),
            b = cfx__layer_option_int(o, "in2_features");
    int64_t out = cfx__layer_option_int(o, "out_features");
    if (a <= 0) {
        cfx__layer_fail(o, VALUE, "in1_features must be > 0, but got %lld", (long long)a);
        return;
    }
    double bound = 1 / sqrt((double)a);
    cfx_nn_parameter(m, "weight", cfx__layer_init_uniform(3, (int64_t[]){out, a, b}, bound));
    cfx_nn_parameter(m, "bias",
                     cfx__layer_option_on(o, "bias") ? cfx__layer_init_uniform(1, &out, bound)
                                                     : NULL);
}

static cfx_value forward_linear(cfx_module *self, cfx_args a) {
    return cfx__layer_torch("torch.nn.functional.linear", a.v[0], cfx__layer_attr(self, "weight"),
                            cfx__layer_attr(self, "bias"));
}

static cfx_value forward_identity(cfx_module *self, cfx_args a) {
    (void)self;
    return a.v[0];
}

#define LINEAR "in_features, out_features, bias=True"
#define LINEAR_SHOWS "in_features={in_features}, out_features={out_features}, bias={bias}"

const cfx__layer cfx__layers_linear[] = {
    {"linear.Identity", "", "", .forward = forward_identity},
    {"linear.Linear", LINEAR, LINEAR_SHOWS, .make = make_linear, .forward = forward_linear},
    {"linear.NonDynamicallyQuantizableLinear", LINEAR, LINEAR_SHOWS, .make = make_linear,
     .forward = forward_linear},
    {"linear.Bilinear", "in1_features, in2_features, out_features, bias=True",
     "in1_features={in1_features}, in2_features={in2_features}, out_features={out_features}, "
     "bias={bias}",
     "torch.nn.functional.bilinear(input1, input2, weight, bias)", "input1, input2",
     .make = make_bilinear},
    {0},
};
