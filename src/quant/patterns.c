/* What PyTorch's native backend quantizes: one table of classes, functions and methods. */
#include "fx.h"

#define M(name) CFX_CALL_MODULE, name
#define F(name) CFX_CALL_FUNCTION, "torch.nn.functional." name
#define T(name) CFX_CALL_FUNCTION, name
#define X(name) CFX_CALL_METHOD, name

#define PRODUCT(can) can, CFX__OBSERVES_BOTH, 0, 0, 0
#define PRODUCTS (CFX__Q_WEIGHTED | CFX__Q_DYNAMIC | CFX__Q_HALF)
#define LINEAR PRODUCT(PRODUCTS)
#define CONV PRODUCT(CFX__Q_WEIGHTED)
#define BEFORE_RELU(can) can, CFX__OBSERVES_BOTH, CFX__RELU_MODULE | CFX__RELU_FUNCTIONAL, 0, 0
#define FUNCTIONAL(can) can, CFX__OBSERVES_BOTH, CFX__RELU_MODULE | CFX__RELU_FUNCTIONAL, 1, 2, NULL
#define BINARY                                                                                     \
    CFX__Q_PLAIN, CFX__OBSERVES_TENSORS,                                                           \
        CFX__RELU_MODULE | CFX__RELU_FUNCTIONAL | CFX__RELU_TORCH, 0, 0, NULL
#define OWN CFX__Q_PLAIN, CFX__OBSERVES_BOTH, 0, 0, 0, NULL
#define SHARED CFX__Q_PLAIN, CFX__OBSERVES_SHARED, 0, 0, 0, NULL
#define NORM(w) CFX__Q_NORM, CFX__OBSERVES_BOTH, 0, w, (w) ? (w) + 1 : 0, NULL
#define AFFINE(w) CFX__Q_PLAIN, CFX__OBSERVES_BOTH, 0, w, (w) + 1, NULL
#define UNIT CFX__Q_UNIT, CFX__OBSERVES_BOTH, 0, 0, 0, NULL
#define SIGNED CFX__Q_SIGNED, CFX__OBSERVES_BOTH, 0, 0, 0, NULL
#define RECURRENT PRODUCT(CFX__Q_DYNAMIC | CFX__Q_HALF)
#define EMBEDDING PRODUCT(CFX__Q_EMBED)

static const cfx__quant_row rows[] = {
    {M("Linear"), BEFORE_RELU(PRODUCTS), "Linear"},
    {M("LinearReLU"), LINEAR, "Linear"},
    {F("linear"), FUNCTIONAL(PRODUCTS)},
    {M("Conv1d"), BEFORE_RELU(CFX__Q_WEIGHTED), "Conv1d"},
    {M("Conv2d"), BEFORE_RELU(CFX__Q_WEIGHTED), "Conv2d"},
    {M("Conv3d"), BEFORE_RELU(CFX__Q_WEIGHTED), "Conv3d"},
    {M("ConvReLU1d"), CONV, "Conv1d"},
    {M("ConvReLU2d"), CONV, "Conv2d"},
    {M("ConvReLU3d"), CONV, "Conv3d"},
    {M("LinearBn1d"), LINEAR, "Linear"},
    {M("ConvBn1d"), CONV, "Conv1d"},
    {M("ConvBn2d"), CONV, "Conv2d"},
    {M("ConvBn3d"), CONV, "Conv3d"},
    {M("ConvBnReLU1d"), CONV, "Conv1d"},
    {M("ConvBnReLU2d"), CONV, "Conv2d"},
    {M("ConvBnReLU3d"), CONV, "Conv3d"},
    {M("ConvTranspose1d"), CONV, "ConvTranspose1d"},
    {M("ConvTranspose2d"), CONV, "ConvTranspose2d"},
    {M("ConvTranspose3d"), CONV, "ConvTranspose3d"},
    {F("conv1d"), FUNCTIONAL(CFX__Q_WEIGHTED)},
    {F("conv2d"), FUNCTIONAL(CFX__Q_WEIGHTED)},
    {F("conv3d"), FUNCTIONAL(CFX__Q_WEIGHTED)},
    {F("conv_transpose1d"), FUNCTIONAL(CFX__Q_WEIGHTED)},
    {F("conv_transpose2d"), FUNCTIONAL(CFX__Q_WEIGHTED)},
    {F("conv_transpose3d"), FUNCTIONAL(CFX__Q_WEIGHTED)},

    {T("operator.add"), BINARY},
    {T("torch.add"), BINARY},
    {T("operator.mul"), BINARY},
    {T("torch.mul"), BINARY},
    {T("torch.matmul"), OWN},
    {T("torch.cat"), SHARED},

    {M("ELU"), OWN},
    {M("LeakyReLU"), OWN},
    {M("Hardswish"), OWN},
    {M("InstanceNorm1d"), OWN},
    {M("InstanceNorm2d"), OWN},
    {M("InstanceNorm3d"), OWN},
    {M("Dropout"), OWN},
    {M("PReLU"), OWN},
    {F("elu"), OWN},
    {F("hardswish"), OWN},
    {F("leaky_relu"), OWN},
    {F("dropout"), OWN},
    {F("group_norm"), AFFINE(2)},
    {F("instance_norm"), AFFINE(3)},
    {M("BatchNorm2d"), BEFORE_RELU(CFX__Q_PLAIN), NULL},
    {M("BatchNorm3d"), BEFORE_RELU(CFX__Q_PLAIN), NULL},
    {M("BNReLU2d"), OWN},
    {M("BNReLU3d"), OWN},
    {M("LayerNorm"), NORM(0)},
    {F("layer_norm"), NORM(2)},

    {M("Hardsigmoid"), UNIT},
    {F("hardsigmoid"), UNIT},
    {X("hardsigmoid"), UNIT},
    {X("hardsigmoid_"), UNIT},
    {M("Sigmoid"), UNIT},
    {T("torch.sigmoid"), UNIT},
    {X("sigmoid"), UNIT},
    {X("sigmoid_"), UNIT},
    {M("Softmax"), UNIT},
    {M("Tanh"), SIGNED},
    {T("torch.tanh"), SIGNED},
    {X("tanh"), SIGNED},
    {X("tanh_"), SIGNED},

    {M("GRUCell"), RECURRENT, "GRUCell"},
    {M("LSTMCell"), RECURRENT, "LSTMCell"},
    {M("RNNCell"), RECURRENT, "RNNCell"},
    {M("LSTM"), RECURRENT, "LSTM"},
    {M("GRU"), RECURRENT, "GRU"},
    {M("Embedding"), EMBEDDING, "Embedding"},
    {M("EmbeddingBag"), EMBEDDING, "EmbeddingBag"},

    {M("AdaptiveAvgPool1d"), SHARED},
    {M("AdaptiveAvgPool2d"), SHARED},
    {M("AdaptiveAvgPool3d"), SHARED},
    {M("AvgPool1d"), SHARED},
    {M("AvgPool2d"), SHARED},
    {M("AvgPool3d"), SHARED},
    {M("Hardtanh"), SHARED},
    {M("Identity"), SHARED},
    {M("MaxPool1d"), SHARED},
    {M("MaxPool2d"), SHARED},
    {M("MaxPool3d"), SHARED},
    {M("PixelShuffle"), SHARED},
    {M("PixelUnshuffle"), SHARED},
    {M("ReLU"), SHARED},
    {M("ReLU6"), SHARED},
    {T("torch.adaptive_avg_pool1d"), SHARED},
    {F("adaptive_avg_pool2d"), SHARED},
    {F("adaptive_avg_pool3d"), SHARED},
    {F("hardtanh"), SHARED},
    {F("hardtanh_"), SHARED},
    {F("interpolate"), SHARED},
    {F("max_pool1d"), SHARED},
    {F("max_pool2d"), SHARED},
    {F("max_pool3d"), SHARED},
    {F("pixel_shuffle"), SHARED},
    {F("pixel_unshuffle"), SHARED},
    {F("relu"), SHARED},
    {F("relu6"), SHARED},
    {T("torch.avg_pool1d"), SHARED},
    {T("torch._C._nn.avg_pool2d"), SHARED},
    {T("torch._C._nn.avg_pool3d"), SHARED},
    {T("torch.clamp"), SHARED},
    {T("torch.flatten"), SHARED},
    {T("torch.mean"), SHARED},
    {T("torch.narrow"), SHARED},
    {T("torch.repeat_interleave"), SHARED},
    {T("torch.transpose"), SHARED},
    {T("torch.squeeze"), SHARED},
    {T("torch.stack"), SHARED},
    {T("torch.unsqueeze"), SHARED},
    {T("operator.floordiv"), SHARED},
    {X("contiguous"), SHARED},
    {X("clamp"), SHARED},
    {X("detach"), SHARED},
    {X("detach_"), SHARED},
    {X("mean"), SHARED},
    {X("permute"), SHARED},
    {X("repeat"), SHARED},
    {X("repeat_interleave"), SHARED},
    {X("reshape"), SHARED},
    {X("resize_"), SHARED},
    {X("relu"), SHARED},
    {X("relu_"), SHARED},
    {X("squeeze"), SHARED},
    {X("squeeze_"), SHARED},
    {X("transpose"), SHARED},
    {X("unsqueeze"), SHARED},
    {X("unsqueeze_"), SHARED},
    {X("view"), SHARED},
};

/* Functions of torch.nn.functional that are functions of torch's own: how nodes name them. */
static const struct {
    const char *other, *name;
} spellings[] = {
    {"torch._C._nn.linear", "torch.nn.functional.linear"},
    {"torch.conv1d", "torch.nn.functional.conv1d"},
    {"torch.conv2d", "torch.nn.functional.conv2d"},
    {"torch.conv3d", "torch.nn.functional.conv3d"},
    {"torch.conv_transpose1d", "torch.nn.functional.conv_transpose1d"},
    {"torch.conv_transpose2d", "torch.nn.functional.conv_transpose2d"},
    {"torch.conv_transpose3d", "torch.nn.functional.conv_transpose3d"},
    {"torch.pixel_shuffle", "torch.nn.functional.pixel_shuffle"},
    {"torch.pixel_unshuffle", "torch.nn.functional.pixel_unshuffle"},
};

const char *cfx__quant_spelling(const char *name) {
    for (int i = 0; i < COUNT(spellings); i++)
        if (!strcmp(spellings[i].other, name))
            return spellings[i].name;
    return name;
}

const char *cfx__quant_class(const cfx_module *gm, const cfx_node *n) {
    if (n->op != CFX_CALL_MODULE)
        return "";
    const cfx_module *m = cfx_module_find(gm, n->target.name);
    return m && m->path && !strncmp(m->path, "torch.", 6) ? m->type : "";
}

const cfx__quant_row *cfx__quant_row_of(const cfx_module *gm, const cfx_node *n) {
    if (n->op != CFX_CALL_MODULE && n->op != CFX_CALL_FUNCTION && n->op != CFX_CALL_METHOD)
        return NULL;
    const char *name = n->op == CFX_CALL_MODULE     ? cfx__quant_class(gm, n)
                       : n->op == CFX_CALL_FUNCTION ? cfx__quant_spelling(n->target.name)
                                                    : n->target.name;
    for (int i = 0; i < COUNT(rows); i++)
        if (rows[i].op == n->op && !strcmp(rows[i].name, name))
            return &rows[i];
    return NULL;
}

int cfx__quant_relu(const cfx_module *gm, const cfx_node *n) {
    if (!strcmp(cfx__quant_class(gm, n), "ReLU"))
        return CFX__RELU_MODULE;
    if (n->op != CFX_CALL_FUNCTION)
        return 0;
    return !strcmp(n->target.name, "torch.nn.functional.relu") ? CFX__RELU_FUNCTIONAL
           : !strcmp(n->target.name, "torch.relu")             ? CFX__RELU_TORCH
                                                               : 0;
}

cfx_node *cfx__quant_arg(const cfx_node *n, int64_t i) {
    if (i >= cfx__quant_count(n))
        return NULL;
    cfx_value v = cfx_as_list(n->args)->items[i];
    return v.tag == CFX_TAG_NODE ? cfx_as_node(v) : NULL;
}

const char *cfx__quant_scope(const cfx_node *n) {
    if (n->op == CFX_CALL_MODULE)
        return n->target.name;
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    if (stack.tag != CFX_TAG_DICT || !cfx_as_dict(stack)->len)
        return "";
    cfx_value last = cfx_as_dict(stack)->entries[cfx_as_dict(stack)->len - 1].value;
    const char *path = cfx_text(cfx_at(last, 0));
    return path ? path : "";
}

void cfx__quant_swap(cfx_module *gm, const char *path, cfx_module *m) {
    const char *dot = strrchr(path, '.');
    cfx_module *parent =
        dot ? cfx_module_find(gm, cfx__text_format("%.*s", (int)(dot - path), path)) : gm;
    cfx_nn_add(parent, dot ? dot + 1 : path, m);
}

const char *cfx__quant_new_name(const cfx_module *gm, const char *prefix) {
    char *flat = cfx__text_copy(prefix, strlen(prefix));
    for (char *p = flat; *p; p++)
        if (*p == '.')
            *p = '_';
    const char *name;
    int i = 0;
    do
        name = cfx__text_format("%s%d", flat, i++);
    while (cfx_module_has(gm, name));
    cfx__free(flat);
    return name;
}

void cfx__quant_note(cfx_node *n, const cfx_qconfig *q, bool observed) {
    char digits[2 * sizeof *q + 1] = "";
    for (size_t i = 0; q && i < sizeof *q; i++)
        snprintf(digits + 2 * i, 3, "%02x", ((const uint8_t *)q)[i]);
    if (q)
        cfx_node_set_meta(n, "qconfig", cfx_string_value(digits));
    cfx_node_set_meta(n, "observed", cfx_bool(observed));
}

static bool is_observer(const cfx_observer *o) {
    return o->kind <= CFX_REUSE_INPUT_OBSERVER && o->dtype < CFX_DTYPE_END &&
           o->qscheme <= CFX_PER_CHANNEL_AFFINE_FLOAT_QPARAMS &&
           o->fake <= CFX_LEARNABLE_FAKE_QUANTIZE;
}

bool cfx__quant_noted(const cfx_node *n, cfx_qconfig *q) {
    cfx_value v = cfx_node_get_meta(n, "qconfig");
    const char *digits = cfx_text(v);
    if (!digits || strlen(digits) != 2 * sizeof *q)
        return false;
    for (size_t i = 0; i < sizeof *q; i++) {
        char pair[3] = {digits[2 * i], digits[2 * i + 1], 0};
        ((uint8_t *)q)[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return is_observer(&q->activation) && is_observer(&q->weight);
}

bool cfx__quant_is_observed(const cfx_node *n) {
    return cfx_integer(cfx_node_get_meta(n, "observed")) != 0;
}
