/* Convolutions, plain and transposed, and the patches they work on (Unfold, Fold). */
#include "layer.h"

#include <math.h>

/* ---- make ------------------------------------------------------------------------------------ */

static bool one_of(const cfx__layer_options *o, const char *option, const char *const *words,
                   int n) {
    const char *have = cfx_text(cfx__layer_option(o, option));
    for (int i = 0; have && i < n; i++)
        if (!strcmp(have, words[i]))
            return true;
    return false;
}

static bool conv_fits(const cfx_module *m, const cfx__layer_options *o, bool transposed) {
    static const char *const modes[] = {"zeros", "reflect", "replicate", "circular"};
    static const char *const words[] = {"valid", "same"};
    int64_t groups = cfx__layer_option_int(o, "groups");
    cfx_value padding = cfx__layer_option(o, "padding"), stride = cfx_module_attr(m, "stride");
    if (groups <= 0)
        cfx__layer_fail(o, VALUE, "groups must be a positive integer");
    else if (cfx__layer_option_int(o, "in_channels") % groups)
        cfx__layer_fail(o, VALUE, "in_channels must be divisible by groups");
    else if (cfx__layer_option_int(o, "out_channels") % groups)
        cfx__layer_fail(o, VALUE, "out_channels must be divisible by groups");
    else if (padding.tag == CFX_TAG_STR && !one_of(o, "padding", words, COUNT(words)))
        cfx__layer_fail(o, VALUE, "Invalid padding string %s, should be one of ('same', 'valid')",
                        cfx_value_repr(padding));
    else if (padding.tag == CFX_TAG_STR && cfx__layer_attr_is((cfx_module *)m, "padding", "same"))
        for (int64_t i = 0; i < cfx_as_list(stride)->len; i++)
            if (cfx_integer(cfx_as_list(stride)->items[i]) != 1)
                cfx__layer_fail(o, VALUE,
                                "padding='same' is not supported for strided convolutions");
    if (!one_of(o, "padding_mode", modes, COUNT(modes)))
        cfx__layer_fail(o, VALUE,
                        "padding_mode must be one of ('circular', 'reflect', 'replicate', "
                        "'zeros'), but got padding_mode=%s",
                        cfx_value_repr(cfx__layer_option(o, "padding_mode")));
    else if (transposed && !one_of(o, "padding_mode", modes, 1))
        cfx__layer_fail(o, VALUE, "Only \"zeros\" padding mode is supported for %s", m->type);
    return cfx_ok();
}

static void make_any(cfx_module *m, const cfx__layer_options *o, bool transposed) {
    if (cfx__layer_option(o, "padding").tag == CFX_TAG_STR)
        cfx_module_set_attr(m, "padding", cfx__layer_option(o, "padding"));
    if (!conv_fits(m, o, transposed))
        return;
    int dims = o->row->dims;
    int64_t groups = cfx__layer_option_int(o, "groups"),
            out = cfx__layer_option_int(o, "out_channels");
    int64_t in = cfx__layer_option_int(o, "in_channels");
    int64_t shape[5] = {transposed ? in : out, (transposed ? out : in) / groups}, fan_in = shape[1];
    for (int i = 0; i < dims; i++) {
        shape[2 + i] = cfx_integer(cfx_as_list(cfx_module_attr(m, "kernel_size"))->items[i]);
        fan_in *= shape[2 + i];
    }
    cfx_nn_parameter(m, "weight", cfx__layer_init_kaiming(2 + dims, shape));
    double bound = fan_in > 0 ? 1 / sqrt((double)fan_in) : 0;
    cfx_nn_parameter(m, "bias",
                     cfx__layer_option_on(o, "bias") ? cfx__layer_init_uniform(1, &out, bound)
                                                     : NULL);
}

static void make_conv(cfx_module *m, const cfx__layer_options *o) { make_any(m, o, false); }
static void make_transposed(cfx_module *m, const cfx__layer_options *o) { make_any(m, o, true); }

/* ---- forward --------------------------------------------------------------------------------- */

static int64_t item(cfx_value tuple, int64_t i) {
    return cfx_integer(cfx_as_list(tuple)->items[i]);
}

/* What F.pad takes for the padding of a convolution: both sides of each dimension, last first. */
static cfx_value both_sides(cfx_module *self) {
    cfx_value padding = cfx_module_attr(self, "padding"), dilation, kernel, v[6];
    dilation = cfx_module_attr(self, "dilation");
    kernel = cfx_module_attr(self, "kernel_size");
    int64_t n = cfx_as_list(kernel)->len;
    for (int64_t i = 0; i < n; i++) {
        int64_t left, right, at = 2 * (n - 1 - i);
        if (padding.tag == CFX_TAG_STR) {
            int64_t total = item(dilation, i) * (item(kernel, i) - 1);
            bool same = cfx__layer_attr_is(self, "padding", "same");
            left = same ? total / 2 : 0;
            right = same ? total - left : 0;
        } else {
            left = right = item(padding, i);
        }
        v[at] = cfx_int(left);
        v[at + 1] = cfx_int(right);
    }
    return cfx_tuple_value(2 * n, v);
}

static cfx_value forward_conv(cfx_module *self, cfx_args a) {
    static const char *const names[] = {"torch.conv1d", "torch.conv2d", "torch.conv3d"};
    const char *name = names[self->own_->layer->dims - 1];
    cfx_value input = a.v[0], padding = cfx_module_attr(self, "padding");
    if (!cfx__layer_attr_is(self, "padding_mode", "zeros")) {
        input = cfx__layer_torch("torch.nn.functional.pad", input, both_sides(self),
                                 CFX_KW(mode, cfx_module_attr(self, "padding_mode")));
        padding = cfx_int(0);
    }
    return cfx__layer_torch(name, input, cfx__layer_attr(self, "weight"),
                            cfx__layer_attr(self, "bias"), cfx_module_attr(self, "stride"), padding,
                            cfx_module_attr(self, "dilation"), cfx_module_attr(self, "groups"));
}

/* The padding that makes the output as large as asked; PyTorch's words where it cannot be. */
static cfx_value padding_for(cfx_module *self, const cfx_tensor *input, cfx_value size) {
    cfx_value stride = cfx_module_attr(self, "stride"), kernel, dilation, padding, v[3];
    kernel = cfx_module_attr(self, "kernel_size");
    padding = cfx_module_attr(self, "padding");
    dilation = cfx_module_attr(self, "dilation");
    int n = self->own_->layer->dims, lead = input->ndim - n;
    bool list = size.tag == CFX_TAG_LIST || size.tag == CFX_TAG_TUPLE;
    int64_t skip = list && cfx_as_list(size)->len == n + lead ? lead : 0;
    if (!list || cfx_as_list(size)->len != n + skip) {
        cfx_fail(CFX_VALUE_ERROR, cfx__site(),
                 "%s: for %dD input, output_size must have %d or %d elements (got %lld)",
                 self->type, input->ndim, n, n + lead,
                 list ? (long long)cfx_as_list(size)->len : 1LL);
        return cfx_bad();
    }
    for (int i = 0; i < n; i++) {
        int64_t least = (input->shape[lead + i] - 1) * item(stride, i) - 2 * item(padding, i) +
                        item(dilation, i) * (item(kernel, i) - 1) + 1;
        int64_t extra = cfx_integer(cfx_as_list(size)->items[skip + i]) - least;
        if (extra < 0 || extra >= item(stride, i)) {
            cfx_fail(CFX_VALUE_ERROR, cfx__site(),
                     "requested an output size of %s, but valid sizes of dimension %d range from "
                     "%lld to %lld",
                     cfx_value_repr(size), i, (long long)least,
                     (long long)(least + item(stride, i) - 1));
            return cfx_bad();
        }
        v[i] = cfx_int(extra);
    }
    return cfx_tuple_value(n, v);
}

static cfx_value forward_transposed(cfx_module *self, cfx_args a) {
    static const char *const names[] = {"torch.conv_transpose1d", "torch.conv_transpose2d",
                                        "torch.conv_transpose3d"};
    cfx_value extra = cfx_module_attr(self, "output_padding");
    if (!cfx_is_none(a.v[1]) && a.v[0].tag == CFX_TAG_TENSOR)
        extra = padding_for(self, cfx_as_tensor(a.v[0]), a.v[1]);
    return cfx__layer_torch(names[self->own_->layer->dims - 1], a.v[0],
                            cfx__layer_attr(self, "weight"), cfx__layer_attr(self, "bias"),
                            cfx_module_attr(self, "stride"), cfx_module_attr(self, "padding"),
                            extra, cfx_module_attr(self, "groups"),
                            cfx_module_attr(self, "dilation"));
}

/* ---- the table ------------------------------------------------------------------------------- */

#define CONV_SHOWS(some)                                                                           \
    "{in_channels}, {out_channels}, kernel_size={kernel_size}, stride={stride}" some               \
    "[groups][bias][padding_mode]"

#define CONV(name, n)                                                                              \
    {                                                                                              \
        "conv." name,                                                                              \
            "in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, "  \
            "bias=True, padding_mode='zeros'",                                                     \
            CONV_SHOWS("[padding][dilation]"), .make = make_conv, .forward = forward_conv,         \
                                               .dims = n,                                          \
                                               .each = "kernel_size stride padding dilation"       \
    }

#define TRANSPOSED(name, n)                                                                        \
    {                                                                                              \
        "conv." name,                                                                              \
            "in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, "      \
            "groups=1, "                                                                           \
            "bias=True, dilation=1, padding_mode='zeros'",                                         \
            CONV_SHOWS("[padding][dilation][output_padding]"),                                     \
            .inputs = "input, output_size=None", .make = make_transposed,                          \
            .forward = forward_transposed, .dims = n,                                              \
            .each = "kernel_size stride padding dilation output_padding"                           \
    }

const cfx__layer cfx__layers_conv[] = {
    CONV("Conv1d", 1),
    CONV("Conv2d", 2),
    CONV("Conv3d", 3),
    TRANSPOSED("ConvTranspose1d", 1),
    TRANSPOSED("ConvTranspose2d", 2),
    TRANSPOSED("ConvTranspose3d", 3),
    {"fold.Unfold", "kernel_size, dilation=1, padding=0, stride=1",
     "kernel_size={kernel_size}, dilation={dilation}, padding={padding}, stride={stride}",
     "torch.nn.functional.unfold(input, kernel_size, dilation, padding, stride)", .dims = 2},
    {"fold.Fold", "output_size, kernel_size, dilation=1, padding=0, stride=1",
     "output_size={output_size}, kernel_size={kernel_size}, dilation={dilation}, "
     "padding={padding}, stride={stride}",
     "torch.nn.functional.fold(input, output_size, kernel_size, dilation, padding, stride)",
     .dims = 2},
    {0},
};
