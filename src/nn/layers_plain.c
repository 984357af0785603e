/* Activations, layers that change shapes, and containers. */
#include "layer.h"

/* ---- make ------------------------------------------------------------------------------------ */

static void make_prelu(cfx_module *m, const cfx__layer_options *o) {
    int64_t n = cfx__layer_option_int(o, "num_parameters");
    cfx_nn_parameter(m, "weight", cfx__layer_init_full(1, &n, cfx__layer_option_float(o, "init")));
}

static void make_upsample(cfx_module *m, const cfx__layer_options *o) {
    bool nearest = strstr(m->type, "Nearest") != NULL, linear = strstr(m->type, "Bilinear") != NULL;
    if (nearest || linear) {
        cfx_module_set_attr(m, "mode", cfx_string_value(nearest ? "nearest" : "bilinear"));
        cfx_module_set_attr(m, "align_corners", linear ? cfx_bool(true) : cfx_none());
        cfx_module_set_attr(m, "recompute_scale_factor", cfx_none());
    }
    cfx_value scale = cfx__layer_option(o, "scale_factor");
    if (scale.tag == CFX_TAG_INT)
        cfx_module_set_attr(m, "scale_factor", cfx_float(cfx_number(scale)));
}

/* Softmax over the channels of a picture or of a batch of them. */
static cfx_value forward_softmax2d(cfx_module *self, cfx_args a) {
    const cfx_tensor *t = a.v[0].tag == CFX_TAG_TENSOR ? cfx_as_tensor(a.v[0]) : NULL;
    if (t && !(t->head.flags & CFX__TRACED) && t->ndim != 3 && t->ndim != 4) {
        cfx_fail(CFX_VALUE_ERROR, cfx__site(),
                 "%s: expected input to be 3D or 4D, got %dD instead", self->type, t->ndim);
        return cfx_bad();
    }
    return cfx__layer_torch("torch.nn.functional.softmax", a.v[0], -3);
}

/* A Hardtanh with these bounds, in PyTorch too. */
static cfx_value forward_relu6(cfx_module *self, cfx_args a) {
    return cfx__layer_torch("torch.nn.functional.hardtanh", a.v[0], 0.0, 6.0,
                            cfx__layer_attr(self, "inplace"));
}

/* ---- activations and shapes ------------------------------------------------------------------ */

#define F "torch.nn.functional."
#define INPLACE(name, fn, shows)                                                                   \
    { "activation." name, "inplace=False", shows, .call = F fn "(input, inplace)" }
#define SIMPLE(name, fn)                                                                           \
    { "activation." name, "", "", .call = fn "(input)" }
#define OVER_DIM(name, fn)                                                                         \
    { "activation." name, "dim=None", "dim={dim}", .call = F fn "(input, dim)" }
#define SHRINK(name, fn)                                                                           \
    { "activation." name, "lambd=0.5", "{lambd}", .call = F fn "(input, lambd)" }
#define UPSAMPLE(name, options)                                                                    \
    {                                                                                              \
        "upsampling." name, options, "[size!r][scale_factor!r], mode={mode!r}",                    \
            .call = F                                                                              \
            "interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor)", \
            .make = make_upsample                                                                  \
    }

const cfx__layer cfx__layers_plain[] = {
    INPLACE("ReLU", "relu", "[inplace]"),
    {"activation.ReLU6", "inplace=False", "[inplace]", .forward = forward_relu6},
    INPLACE("SiLU", "silu", "[inplace]"),
    INPLACE("Mish", "mish", "[inplace]"),
    INPLACE("SELU", "selu", "[inplace]"),
    INPLACE("Hardsigmoid", "hardsigmoid", ""),
    INPLACE("Hardswish", "hardswish", ""),
    {"activation.ELU", "alpha=1.0, inplace=False", "alpha={alpha}[inplace]",
     .call = F "elu(input, alpha, inplace)"},
    {"activation.CELU", "alpha=1.0, inplace=False", "alpha={alpha}[inplace]",
     .call = F "celu(input, alpha, inplace)"},
    {"activation.LeakyReLU", "negative_slope=0.01, inplace=False",
     "negative_slope={negative_slope}[inplace]",
     .call = F "leaky_relu(input, negative_slope, inplace)"},
    {"activation.RReLU", "lower=0.125, upper=0.3333333333333333, inplace=False",
     "lower={lower}, upper={upper}[inplace]",
     .call = F "rrelu(input, lower, upper, training, inplace)"},
    {"activation.Hardtanh", "min_val=-1.0, max_val=1.0, inplace=False",
     "min_val={min_val}, max_val={max_val}[inplace]",
     .call = F "hardtanh(input, min_val, max_val, inplace)"},
    {"activation.Threshold", "threshold, value, inplace=False",
     "threshold={threshold}, value={value}[inplace]",
     .call = F "threshold(input, threshold, value, inplace)"},
    {"activation.PReLU", "num_parameters=1, init=0.25", "num_parameters={num_parameters}",
     .call = F "prelu(input, weight)", .make = make_prelu},
    {"activation.GELU", "approximate='none'", "approximate={approximate!r}",
     .call = F "gelu(input, approximate=approximate)"},
    {"activation.GLU", "dim=-1", "dim={dim}", .call = F "glu(input, dim)"},
    {"activation.Softplus", "beta=1.0, threshold=20.0", "beta={beta}, threshold={threshold}",
     .call = F "softplus(input, beta, threshold)"},
    SHRINK("Hardshrink", "hardshrink"),
    SHRINK("Softshrink", "softshrink"),
    SIMPLE("Sigmoid", "torch.sigmoid"),
    SIMPLE("Tanh", "torch.tanh"),
    SIMPLE("LogSigmoid", F "logsigmoid"),
    SIMPLE("Softsign", F "softsign"),
    SIMPLE("Tanhshrink", F "tanhshrink"),
    OVER_DIM("Softmin", "softmin"),
    OVER_DIM("Softmax", "softmax"),
    OVER_DIM("LogSoftmax", "log_softmax"),
    {"activation.Softmax2d", "", "", .forward = forward_softmax2d},
    {"flatten.Flatten", "start_dim=1, end_dim=-1", "start_dim={start_dim}, end_dim={end_dim}",
     .call = "Tensor.flatten(input, start_dim, end_dim)"},
    {"flatten.Unflatten", "dim, unflattened_size", "dim={dim}, unflattened_size={unflattened_size}",
     .call = "Tensor.unflatten(input, dim, unflattened_size)"},
    UPSAMPLE("Upsample", "size=None, scale_factor=None, mode='nearest', align_corners=None, "
                         "recompute_scale_factor=None"),
    UPSAMPLE("UpsamplingNearest2d", "size=None, scale_factor=None"),
    UPSAMPLE("UpsamplingBilinear2d", "size=None, scale_factor=None"),
    {"pixelshuffle.PixelShuffle", "upscale_factor", "upscale_factor={upscale_factor}",
     .call = F "pixel_shuffle(input, upscale_factor)"},
    {"pixelshuffle.PixelUnshuffle", "downscale_factor", "downscale_factor={downscale_factor}",
     .call = F "pixel_unshuffle(input, downscale_factor)"},
    {"channelshuffle.ChannelShuffle", "groups", "groups={groups}",
     .call = F "channel_shuffle(input, groups)"},
    {0},
};
