/* Pooling and padding: windows that slide, and what is put around the picture. */
#include "layer.h"

/* stride=None: as large as the window. */
static void stride_of_window(cfx_module *m, const cfx__layer_options *o) {
    bool tuples = o->row->each != NULL;
    cfx_value stride = cfx__layer_option(o, "stride");
    if (!cfx_is_none(stride))
        stride = tuples ? cfx__layer_option_tuple(o, "stride", o->row->dims) : stride;
    else
        stride = tuples ? cfx__layer_option_tuple(o, "kernel_size", o->row->dims)
                        : cfx__layer_option(o, "kernel_size");
    cfx_module_set_attr(m, "stride", stride);
}

static void make_zero(cfx_module *m, const cfx__layer_options *o) {
    (void)o;
    cfx_module_set_attr(m, "value", cfx_float(0));
}

/* None in output_size: as large as the input. */
static cfx_value forward_adaptive(cfx_module *self, cfx_args a) {
    cfx_value size = cfx_module_attr(self, "output_size"), v[3];
    int dims = self->own_->layer->dims;
    bool max = strstr(self->type, "Max") != NULL;
    const char *name =
        cfx__text_format("torch.nn.functional.adaptive_%s_pool%dd", max ? "max" : "avg", dims);
    if ((size.tag == CFX_TAG_TUPLE || size.tag == CFX_TAG_LIST) && cfx_as_list(size)->len == dims) {
        for (int i = 0; i < dims; i++) {
            v[i] = cfx_as_list(size)->items[i];
            if (cfx_is_none(v[i]))
                v[i] = cfx__layer_torch("Tensor.size", a.v[0], i - dims);
        }
        size = cfx_tuple_value(dims, v);
    }
    return max ? cfx__layer_torch(name, a.v[0], size, cfx_module_attr(self, "return_indices"))
               : cfx__layer_torch(name, a.v[0], size);
}

#define F "torch.nn.functional."

#define MAX_POOL(n, nd)                                                                            \
    {                                                                                              \
        "pooling.MaxPool" nd,                                                                      \
            "kernel_size, stride=None, padding=0, dilation=1, return_indices=False, "              \
            "ceil_mode=False",                                                                     \
            "kernel_size={kernel_size}, stride={stride}, padding={padding}, dilation={dilation}, " \
            "ceil_mode={ceil_mode}",                                                               \
            .call =                                                                                \
                F "max_pool" nd                                                                    \
                  "(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)",    \
            .make = stride_of_window, .dims = n                                                    \
    }

#define MAX_UNPOOL(n, nd)                                                                          \
    {                                                                                              \
        "pooling.MaxUnpool" nd, "kernel_size, stride=None, padding=0",                             \
            "kernel_size={kernel_size}, stride={stride}, padding={padding}",                       \
            .call =                                                                                \
                F "max_unpool" nd "(input, indices, kernel_size, stride, padding, output_size)",   \
            "input, indices, output_size=None", .make = stride_of_window, .dims = n,               \
            .each = "kernel_size padding"                                                          \
    }

#define AVG_POOL(n, nd)                                                                            \
    {                                                                                              \
        "pooling.AvgPool" nd,                                                                      \
            "kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, "       \
            "divisor_override=None",                                                               \
            "kernel_size={kernel_size}, stride={stride}, padding={padding}",                       \
            .call = F "avg_pool" nd "(input, kernel_size, stride, padding, ceil_mode, "            \
                                    "count_include_pad, divisor_override)",                        \
            .make = stride_of_window, .dims = n                                                    \
    }

#define LP_POOL(n, nd)                                                                             \
    {                                                                                              \
        "pooling.LPPool" nd, "norm_type, kernel_size, stride=None, ceil_mode=False",               \
            "norm_type={norm_type}, kernel_size={kernel_size}, stride={stride}, "                  \
            "ceil_mode={ceil_mode}",                                                               \
            .call = F "lp_pool" nd "(input, norm_type, kernel_size, stride, ceil_mode)", .dims = n \
    }

#define ADAPTIVE(n, kind, options)                                                                 \
    {                                                                                              \
        "pooling.Adaptive" kind, "output_size" options, "output_size={output_size}",               \
            .forward = forward_adaptive, .dims = n                                                 \
    }

#define PAD(name, mode, n)                                                                         \
    {                                                                                              \
        "padding." name, "padding", "{padding}", .call = F "pad(input, padding, '" mode "')",      \
                                                 .dims = n, .each = "padding"                      \
    }
#define ZERO_PAD(name, n)                                                                          \
    {                                                                                              \
        "padding." name, "padding", "{padding}",                                                   \
            .call = F "pad(input, padding, 'constant', value)", .make = make_zero, .dims = n,      \
            .each = "padding"                                                                      \
    }
#define CONSTANT_PAD(name, n)                                                                      \
    {                                                                                              \
        "padding." name, "padding, value", "padding={padding}, value={value}",                     \
            .call = F "pad(input, padding, 'constant', value)", .dims = n, .each = "padding"       \
    }

const cfx__layer cfx__layers_pool[] = {
    MAX_POOL(1, "1d"),
    MAX_POOL(2, "2d"),
    MAX_POOL(3, "3d"),
    MAX_UNPOOL(1, "1d"),
    MAX_UNPOOL(2, "2d"),
    MAX_UNPOOL(3, "3d"),
    {"pooling.AvgPool1d",
     "kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True",
     "kernel_size={kernel_size}, stride={stride}, padding={padding}",
     .call = F "avg_pool1d(input, kernel_size, stride, padding, ceil_mode, count_include_pad)",
     .make = stride_of_window, .dims = 1, .each = "kernel_size padding"},
    AVG_POOL(2, "2d"),
    AVG_POOL(3, "3d"),
    LP_POOL(1, "1d"),
    LP_POOL(2, "2d"),
    LP_POOL(3, "3d"),
    ADAPTIVE(1, "AvgPool1d", ""),
    ADAPTIVE(2, "AvgPool2d", ""),
    ADAPTIVE(3, "AvgPool3d", ""),
    ADAPTIVE(1, "MaxPool1d", ", return_indices=False"),
    ADAPTIVE(2, "MaxPool2d", ", return_indices=False"),
    ADAPTIVE(3, "MaxPool3d", ", return_indices=False"),
    ZERO_PAD("ZeroPad1d", 1),
    ZERO_PAD("ZeroPad2d", 2),
    ZERO_PAD("ZeroPad3d", 3),
    CONSTANT_PAD("ConstantPad1d", 1),
    CONSTANT_PAD("ConstantPad2d", 2),
    CONSTANT_PAD("ConstantPad3d", 3),
    PAD("ReflectionPad1d", "reflect", 1),
    PAD("ReflectionPad2d", "reflect", 2),
    PAD("ReflectionPad3d", "reflect", 3),
    PAD("ReplicationPad1d", "replicate", 1),
    PAD("ReplicationPad2d", "replicate", 2),
    PAD("ReplicationPad3d", "replicate", 3),
    PAD("CircularPad1d", "circular", 1),
    PAD("CircularPad2d", "circular", 2),
    PAD("CircularPad3d", "circular", 3),
    {0},
};
