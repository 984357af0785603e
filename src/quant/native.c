/* Quantized modules, as those of torch.ao.nn.quantized: made of reference modules, called with
 * quantized tensors. One row of the table is one class. */
#include "fx.h"

static cfx_value attr(const cfx_module *m, const char *name) { return cfx_module_attr(m, name); }

/* ---- products -------------------------------------------------------------------------------- */

/* The packed weight of a reference module: (weight, bias, and what a convolution has). */
static cfx_value pack(const cfx_module *m) {
    cfx_value bias = attr(m, "bias"), w = attr(m, "weight_quantized");
    if (!cfx_module_has(m, "stride"))
        return cfx_tuple(w, bias);
    cfx_value extra = attr(m, "output_padding");
    return cfx_tuple(w, bias, attr(m, "stride"), attr(m, "padding"),
                     cfx_is_none(extra) ? cfx_list(0) : extra, attr(m, "dilation"),
                     attr(m, "groups"));
}

/* Half of the range of integers, as kernels for x86 want it. */
cfx_value cfx__quant_dynamic_call(const char *op, cfx_tensor *x, cfx_value packed) {
    if (strstr(op, "_fp16"))
        return cfx_py_from(CFX_HERE, op, CFX_ARGS(x, packed));
    return cfx_py_from(CFX_HERE, op, CFX_ARGS(x, packed, true));
}

static cfx_value forward_product(cfx_module *self, cfx_args a) {
    cfx_value packed = attr(self, "_packed_params"), x = a.v[0];
    const char *op = cfx_text(attr(self, "_op"));
    if (strstr(op, "dynamic"))
        return cfx__quant_dynamic_call(op, cfx_as_tensor(x), packed);
    return cfx_py_from(CFX_HERE, op,
                       CFX_ARGS(x, packed, attr(self, "scale"), attr(self, "zero_point")));
}

static const char *qscheme_of(const cfx_module *m) {
    const cfx_tensor *w = cfx_as_tensor(cfx_at(attr(m, "_packed_params"), 0));
    return cfx__quantizer_scheme(w->quantizer);
}

static const char *show_linear(const cfx_module *m) {
    return cfx__text_format(
        "in_features=%s, out_features=%s, scale=%s, zero_point=%s, qscheme=torch.%s",
        cfx_str(attr(m, "in_features")), cfx_str(attr(m, "out_features")),
        cfx_str(attr(m, "scale")), cfx_str(attr(m, "zero_point")), qscheme_of(m));
}

static const char *show_dynamic(const cfx_module *m) {
    const cfx_tensor *w = cfx_as_tensor(cfx_at(attr(m, "_packed_params"), 0));
    const char *scheme = "";
    if (w->quantizer)
        scheme = cfx__text_format(", qscheme=torch.%s", qscheme_of(m));
    return cfx__text_format("in_features=%s, out_features=%s, dtype=torch.%s%s",
                            cfx_str(attr(m, "in_features")), cfx_str(attr(m, "out_features")),
                            cfx_dtype_name(cfx_tensor_dtype(w)), scheme);
}

/* ", padding=(1, 1)" unless all numbers are `plain`. */
static void put_tuple(cfx__text *out, const cfx_module *m, const char *name, int64_t plain) {
    cfx_value v = attr(m, name);
    bool said = v.tag == CFX_TAG_STR;
    for (int64_t i = 0; v.tag == CFX_TAG_TUPLE && i < cfx_as_list(v)->len; i++)
        said |= cfx_integer(cfx_as_list(v)->items[i]) != plain;
    if (said)
        cfx__text_printf(out, ", %s=%s", name, cfx_str(v));
}

static const char *show_conv(const cfx_module *m) {
    cfx__text s = {0};
    cfx__text_printf(&s, "%s, %s, kernel_size=%s, stride=%s, scale=%s, zero_point=%s",
                     cfx_str(attr(m, "in_channels")), cfx_str(attr(m, "out_channels")),
                     cfx_str(attr(m, "kernel_size")), cfx_str(attr(m, "stride")),
                     cfx_str(attr(m, "scale")), cfx_str(attr(m, "zero_point")));
    put_tuple(&s, m, "padding", 0);
    put_tuple(&s, m, "dilation", 1);
    put_tuple(&s, m, "output_padding", 0);
    if (cfx_integer(attr(m, "groups")) != 1)
        cfx__text_printf(&s, ", groups=%s", cfx_str(attr(m, "groups")));
    if (cfx_is_none(cfx_at(attr(m, "_packed_params"), 1)))
        cfx__text_puts(&s, ", bias=False");
    return cfx__text_take(&s);
}

/* ---- embeddings ------------------------------------------------------------------------------ */

static const char *show_embedding(const cfx_module *m) {
    return cfx__text_format("num_embeddings=%s, embedding_dim=%s, dtype=torch.%s, "
                            "qscheme=torch.per_channel_affine_float_qparams",
                            cfx_str(attr(m, "num_embeddings")), cfx_str(attr(m, "embedding_dim")),
                            cfx_integer(attr(m, "_bits")) == 4 ? "quint4x2" : "quint8");
}

/* ---- layers with a scale for their result ---------------------------------------------------- */

static cfx_value with_scale(cfx_module *m, const char *op, cfx_args a) {
    cfx_value v[12];
    for (int i = 0; i < a.n; i++)
        v[i] = a.v[i];
    v[a.n] = attr(m, "scale");
    v[a.n + 1] = attr(m, "zero_point");
    return cfx_py_from(CFX_HERE, op, (cfx_args){a.n + 2, v, NULL});
}

static cfx_value forward_batch_norm(cfx_module *m, cfx_args a) {
    return with_scale(m, cfx_text(attr(m, "_op")),
                      CFX_ARGS(a.v[0], attr(m, "weight"), attr(m, "bias"), attr(m, "running_mean"),
                               attr(m, "running_var"), attr(m, "eps")));
}

static cfx_value forward_layer_norm(cfx_module *m, cfx_args a) {
    return with_scale(m, "torch.ops.quantized.layer_norm",
                      CFX_ARGS(a.v[0], attr(m, "normalized_shape"), attr(m, "weight"),
                               attr(m, "bias"), attr(m, "eps")));
}

static cfx_value forward_instance_norm(cfx_module *m, cfx_args a) {
    return with_scale(m, "torch.ops.quantized.instance_norm",
                      CFX_ARGS(a.v[0], attr(m, "weight"), attr(m, "bias"), attr(m, "eps")));
}

static cfx_value forward_hardswish(cfx_module *m, cfx_args a) {
    return with_scale(m, "torch.ops.quantized.hardswish", CFX_ARGS(a.v[0]));
}

static cfx_value forward_elu(cfx_module *m, cfx_args a) {
    return cfx_py_from(CFX_HERE, "torch.ops.quantized.elu",
                       CFX_ARGS(a.v[0], attr(m, "scale"), attr(m, "zero_point"), attr(m, "alpha")));
}

static cfx_value forward_leaky_relu(cfx_module *m, cfx_args a) {
    return with_scale(m, "torch.ops.quantized.leaky_relu",
                      CFX_ARGS(a.v[0], attr(m, "negative_slope"), false));
}

static cfx_value forward_prelu(cfx_module *m, cfx_args a) {
    return with_scale(m, "torch.ops.quantized.prelu", CFX_ARGS(a.v[0], attr(m, "weight")));
}

static cfx_value forward_softmax(cfx_module *m, cfx_args a) {
    return with_scale(m, "torch.ops.quantized.softmax", CFX_ARGS(a.v[0], attr(m, "dim")));
}

static cfx_value forward_same(cfx_module *m, cfx_args a) {
    (void)m;
    return a.v[0];
}

/* ---- the table ------------------------------------------------------------------------------- */

static const char *show_nothing(const cfx_module *m) {
    (void)m;
    return "";
}

typedef const char *show_fn(const cfx_module *m);

#define OP(name) "torch.ops.quantized." name

/* A class, by what it is made of: a reference module, or one in a pair with a relu. */
static const struct native {
    cfx__quant_native_kind kind;
    const char *of, *pair; /* of torch.nn; in the pair of that class */
    const char *type, *op;
    cfx_forward_fn *forward;
    show_fn *show;
} natives[] = {
#define STATIC(of, op, show)                                                                       \
    { CFX__NATIVE_STATIC, of, NULL, "Quantized" of, OP(op), forward_product, show }
#define RELU(of, pair, op, show)                                                                   \
    { CFX__NATIVE_STATIC, of, pair, "Quantized" pair, OP(op), forward_product, show }
    STATIC("Linear", "linear", show_linear),
    STATIC("Conv1d", "conv1d", show_conv),
    STATIC("Conv2d", "conv2d", show_conv),
    STATIC("Conv3d", "conv3d", show_conv),
    RELU("Linear", "LinearReLU", "linear_relu", show_linear),
    RELU("Conv1d", "ConvReLU1d", "conv1d_relu", show_conv),
    RELU("Conv2d", "ConvReLU2d", "conv2d_relu", show_conv),
    RELU("Conv3d", "ConvReLU3d", "conv3d_relu", show_conv),
#undef STATIC
#undef RELU
    {CFX__NATIVE_DYNAMIC, "Linear", NULL, "DynamicQuantizedLinear", OP("linear_dynamic"),
     forward_product, show_dynamic},
    {CFX__NATIVE_DYNAMIC, "Linear", "LinearReLU", "DynamicQuantizedLinearReLU",
     OP("linear_relu_dynamic"), forward_product, show_dynamic},
#define RECURRENT(of, forward)                                                                     \
    { CFX__NATIVE_DYNAMIC, of, NULL, "DynamicQuantized" of, OP("linear_dynamic"), forward, NULL }
    RECURRENT("LSTM", cfx__quant_forward_recurrent),
    RECURRENT("GRU", cfx__quant_forward_recurrent),
    RECURRENT("LSTMCell", cfx__quant_forward_cell),
    RECURRENT("GRUCell", cfx__quant_forward_cell),
    RECURRENT("RNNCell", cfx__quant_forward_cell),
#undef RECURRENT
    {CFX__NATIVE_WEIGHT, "Embedding", NULL, "QuantizedEmbedding", NULL,
     cfx__quant_forward_embedding, show_embedding},
    {CFX__NATIVE_WEIGHT, "EmbeddingBag", NULL, "QuantizedEmbeddingBag", NULL,
     cfx__quant_forward_bag, show_embedding},
#define SPECIAL(of, op, forward, show)                                                             \
    { CFX__NATIVE_SPECIAL, of, NULL, "Quantized" of, op, forward, show }
    SPECIAL("ConvTranspose1d", OP("conv_transpose1d"), forward_product, show_conv),
    SPECIAL("ConvTranspose2d", OP("conv_transpose2d"), forward_product, show_conv),
    SPECIAL("ConvTranspose3d", OP("conv_transpose3d"), forward_product, show_conv),
    SPECIAL("BatchNorm2d", OP("batch_norm2d"), forward_batch_norm, NULL),
    SPECIAL("BatchNorm3d", OP("batch_norm3d"), forward_batch_norm, NULL),
    SPECIAL("LayerNorm", NULL, forward_layer_norm, NULL),
    SPECIAL("InstanceNorm1d", NULL, forward_instance_norm, NULL),
    SPECIAL("InstanceNorm2d", NULL, forward_instance_norm, NULL),
    SPECIAL("InstanceNorm3d", NULL, forward_instance_norm, NULL),
    SPECIAL("Hardswish", NULL, forward_hardswish, NULL),
    SPECIAL("ELU", NULL, forward_elu, NULL),
    SPECIAL("LeakyReLU", NULL, forward_leaky_relu, NULL),
    SPECIAL("PReLU", NULL, forward_prelu, show_nothing),
    SPECIAL("Softmax", NULL, forward_softmax, NULL),
    SPECIAL("Dropout", NULL, forward_same, NULL),
#undef SPECIAL
    {CFX__NATIVE_SPECIAL, "BatchNorm2d", "BNReLU2d", "QuantizedBNReLU2d", OP("batch_norm2d_relu"),
     forward_batch_norm, NULL},
    {CFX__NATIVE_SPECIAL, "BatchNorm3d", "BNReLU3d", "QuantizedBNReLU3d", OP("batch_norm3d_relu"),
     forward_batch_norm, NULL},
};

/* "Conv2d": the class of torch.nn that a module, be it a reference one, is made of. */
static const char *class_of(const cfx_module *m) {
    const char *dot = m->path ? strrchr(m->path, '.') : NULL;
    return dot ? dot + 1 : m->type;
}

static bool is_reference(const cfx_module *m) {
    return m->path && !strncmp(m->path, "torch.ao.nn.quantized.reference.", 32);
}

static const struct native *find(cfx_module *m, cfx__quant_native_kind kind) {
    cfx_module *inner = cfx__quant_inner(m);
    bool special = kind == CFX__NATIVE_SPECIAL, torch = m->path && !strncmp(m->path, "torch.", 6);
    for (int i = 0; i < COUNT(natives); i++) {
        const struct native *row = &natives[i];
        bool pair = row->pair ? inner != m && !strcmp(m->type, row->pair) : inner == m;
        if (row->kind == kind && pair && torch && !strcmp(class_of(inner), row->of) &&
            (is_reference(inner) || (special && strncmp(row->of, "Conv", 4))))
            return row;
    }
    return NULL;
}

/* A product keeps its packed weight alone. */
static void take_weight(cfx_module *to, const cfx_module *from) {
    static const char *const gone[] = {"weight", "bias", "weight_scale", "weight_zero_point",
                                       "weight_quantized", "weight_quant_max"};
    cfx_value packed = pack(from);
    for (int i = 0; i < COUNT(gone); i++)
        cfx_module_remove(to, gone[i]);
    cfx_module_set_attr(to, "_packed_params", packed);
}

/* Whether the first weight of a reference module is of float16. */
static bool is_half(const cfx_module *m) {
    for (int64_t i = 0; i < m->parameters->len; i++) {
        const char *name = cfx_text(m->parameters->entries[i].key);
        cfx_value q = attr(m, cfx__text_format("%s_quantized", name));
        if (q.tag == CFX_TAG_TENSOR)
            return cfx_tensor_dtype(cfx_as_tensor(q)) == CFX_F16;
    }
    return false;
}

cfx_module *cfx__quant_native(cfx_site at, cfx_module *m, cfx__quant_native_kind kind, double scale,
                              int64_t zero_point) {
    (void)at;
    const struct native *row = find(m, kind);
    if (!row)
        return NULL;
    cfx_module *inner = cfx__quant_inner(m), *out = cfx_module_copy(inner);
    if (cfx_failed(out))
        return NULL;
    out->type = cfx__module_text(out, row->type);
    out->path = cfx__module_text(out, cfx__text_format("torch.ao.nn.quantized.%s", row->type));
    if (row->show)
        out->extra_repr = row->show;
    if (row->forward) {
        out->own_->arity = 0;
        out->own_->forward.args = row->forward;
    }
    if (row->forward == forward_product)
        take_weight(out, inner);
    else if (row->kind == CFX__NATIVE_DYNAMIC)
        cfx__quant_pack_recurrent(out, inner);
    else if (row->kind == CFX__NATIVE_WEIGHT)
        cfx__quant_pack_embedding(out, inner,
                                  cfx_integer(attr(inner, "weight_quant_max")) == 15 ? 4 : 8);
    if (row->op)
        cfx_module_set_attr(out, "_op",
                            cfx_string_value(is_half(inner) ? cfx__text_format("%s_fp16", row->op)
                                                            : row->op));
    if (row->forward == forward_instance_norm) { /* what PyTorch makes of it */
        cfx_module_set_attr(out, "momentum", attr(inner, "affine"));
        cfx_module_set_attr(out, "affine", cfx_bool(false));
    }
    cfx_module_set_attr(out, "scale", cfx_float(scale));
    cfx_module_set_attr(out, "zero_point", cfx_int(zero_point));
    return out;
}
