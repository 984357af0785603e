/* Lowering: dequantize, a reference module or function, quantize become one quantized module or
 * operator, where PyTorch's native backend has one. One function below for each of its steps. */
#include "fx.h"

/* ---- looking at nodes ------------------------------------------------------------------------ */

static bool calls(const cfx_node *n, cfx_opcode op, const char *name) {
    return n && n->op == op &&
           !strcmp(op == CFX_CALL_FUNCTION ? cfx__quant_spelling(n->target.name) : n->target.name,
                   name);
}

static bool is_dequantize(const cfx_node *n) { return calls(n, CFX_CALL_METHOD, "dequantize"); }

static bool is_quantize(const cfx_node *n) {
    return calls(n, CFX_CALL_FUNCTION, "torch.quantize_per_tensor");
}

static bool is_left_out(const cfx_node *n) {
    cfx_qconfig q;
    return cfx_node_get_meta(n, "observed").tag == CFX_TAG_BOOL && !cfx__quant_noted(n, &q);
}

static const char *type_of(cfx_module *gm, const cfx_node *n) {
    cfx_module *m = n->op == CFX_CALL_MODULE ? cfx_module_find(gm, n->target.name) : NULL;
    return m ? m->type : "";
}

static bool erase_if_unused(cfx_node *n) { return n && !n->num_users && cfx_graph_erase(n); }

/* dequantize - op (- relu) - quantize, seen from the quantize node. */
typedef struct island {
    cfx_node *quantize, *relu, *op;
    cfx_node *scale, *zero;
} island;

/* Whether such an island ends at n. The first `operands` arguments of the operator are dequantized,
 * as far as they are nodes, and one at least is. */
static bool find_island(cfx_module *gm, cfx_node *n, int operands, island *at) {
    if (!is_quantize(n))
        return false;
    *at = (island){.quantize = n,
                   .op = cfx__quant_arg(n, 0),
                   .scale = cfx__quant_arg(n, 1),
                   .zero = cfx__quant_arg(n, 2)};
    if (!at->op || !at->scale || !at->zero)
        return false;
    if (cfx__quant_relu(gm, at->op)) {
        at->relu = at->op;
        at->op = cfx__quant_arg(at->relu, 0);
    }
    if (!at->op || is_left_out(at->op))
        return false;
    int found = 0;
    for (int i = 0; i < operands && i < cfx__quant_count(at->op); i++) {
        cfx_node *arg = cfx__quant_arg(at->op, i);
        if (arg && !is_dequantize(arg))
            return false;
        found += arg != NULL;
    }
    return found > 0;
}

static double scale_of(const cfx_module *gm, const cfx_node *n) {
    return cfx_number(cfx_module_attr(gm, n->target.name));
}

static int64_t zero_of(const cfx_module *gm, const cfx_node *n) {
    return cfx_integer(cfx_module_attr(gm, n->target.name));
}

/* The operator of the island takes what was dequantized, and stands for the quantized result. */
static void close_island(const island *at, cfx_node *with) {
    cfx_node_replace(at->quantize, with);
    cfx_graph_erase(at->quantize);
}

static void skip_dequantize(cfx_node *n, cfx_node *dequantize) {
    cfx_node_replace_input(n, dequantize, cfx__quant_arg(dequantize, 0));
}

/* The modules as they are before a step, so that one that is called twice is lowered twice. */
static cfx_module *module_of(cfx_dict *modules, cfx_module *gm, const cfx_node *n) {
    cfx_value v = cfx_dict_get(modules, n->target.name);
    return cfx_is_none(v) ? cfx_module_find(gm, n->target.name) : cfx_as_module(v);
}

/* ---- modules --------------------------------------------------------------------------------- */

/* A relu that is no part of the module is left out, as PyTorch leaves it out: the range of what it
 * gave begins at zero. */
static void lower_static_modules(cfx_site at, cfx_module *gm) {
    cfx_dict *modules = cfx_module_named_modules(gm);
    cfx_each_node(gm->graph, n) {
        island in;
        if (!find_island(gm, n, 1, &in) || in.op->op != CFX_CALL_MODULE)
            continue;
        cfx_module *m = cfx__quant_native(at, module_of(modules, gm, in.op), CFX__NATIVE_STATIC,
                                          scale_of(gm, in.scale), zero_of(gm, in.zero));
        if (!m)
            continue;
        cfx__quant_swap(gm, in.op->target.name, m);
        skip_dequantize(in.op, cfx__quant_arg(in.op, 0));
        close_island(&in, in.op);
        erase_if_unused(in.scale);
        erase_if_unused(in.zero);
    }
}

static void lower_dynamic_modules(cfx_site at, cfx_module *gm) {
    cfx_dict *modules = cfx_module_named_modules(gm);
    cfx_each_node(gm->graph, n) {
        cfx_node *dq = n->op == CFX_CALL_MODULE ? cfx__quant_arg(n, 0) : NULL;
        cfx_node *q = is_dequantize(dq) ? cfx__quant_arg(dq, 0) : NULL;
        if (!calls(q, CFX_CALL_FUNCTION, "torch.quantize_per_tensor_dynamic"))
            continue;
        cfx_module *m = cfx__quant_native(at, module_of(modules, gm, n), CFX__NATIVE_DYNAMIC, 1, 0);
        if (!m)
            continue;
        cfx__quant_swap(gm, n->target.name, m);
        cfx_node_replace_input(n, dq, cfx__quant_arg(q, 0));
    }
}

static void lower_weight_only_modules(cfx_site at, cfx_module *gm) {
    cfx_each_node(gm->graph, n) {
        cfx_module *m = n->op == CFX_CALL_MODULE ? cfx_module_find(gm, n->target.name) : NULL;
        m = m ? cfx__quant_native(at, m, CFX__NATIVE_WEIGHT, 1, 0) : NULL;
        if (m)
            cfx__quant_swap(gm, n->target.name, m);
    }
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Functions with weights, and the operators that they become; the last for a relu behind. */
static const struct function {
    const char *name, *quantized, *with_relu, *pack;
} functions[] = {
#define PRODUCT(f, relu)                                                                           \
    {                                                                                              \
        "torch.nn.functional." f, "torch.ops.quantized." f, relu,                                  \
            "torch.ops.quantized." f "_prepack"                                                    \
    }
    PRODUCT("linear", "torch.ops.quantized.linear_relu"),
    PRODUCT("conv1d", "torch.ops.quantized.conv1d_relu"),
    PRODUCT("conv2d", "torch.ops.quantized.conv2d_relu"),
    PRODUCT("conv3d", "torch.ops.quantized.conv3d_relu"),
    PRODUCT("conv_transpose1d", NULL),
    PRODUCT("conv_transpose2d", NULL),
    PRODUCT("conv_transpose3d", NULL),
#undef PRODUCT
};

static const struct function *function_of(const cfx_node *n) {
    for (int i = 0; i < COUNT(functions); i++)
        if (calls(n, CFX_CALL_FUNCTION, functions[i].name))
            return &functions[i];
    return NULL;
}

/* What a node computes of the parameters of gm alone; scope. */
static cfx_value constant_of(cfx_module *gm, cfx_node *n) {
    if (n->op == CFX_GET_ATTR)
        return cfx_module_attr(gm, n->target.name);
    cfx_value args = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx__quant_count(n); i++) {
        cfx_value v = cfx_as_list(n->args)->items[i];
        cfx_list_append(cfx_as_list(args),
                        v.tag == CFX_TAG_NODE ? constant_of(gm, cfx_as_node(v)) : v);
    }
    cfx_list *list = cfx_as_list(args);
    if (n->op == CFX_CALL_METHOD)
        return cfx_method_from(CFX_HERE, n->target.name,
                               (cfx_args){(int)list->len, list->items, NULL});
    return cfx_py_from(CFX_HERE, n->target.name, (cfx_args){(int)list->len, list->items, NULL});
}

/* Arguments of F.conv2d as those of conv2d_prepack: every one there, tuples of the space. */
static void pack_arguments(const cfx_node *n, int dims, bool transposed, cfx_value *out) {
    static const char *const names[] = {"bias", "stride", "padding", "dilation", "groups"};
    static const char *const transposed_names[] = {"bias",           "stride", "padding",
                                                   "output_padding", "groups", "dilation"};
    int count = transposed ? 6 : 5;
    cfx_value v[6];
    for (int i = 0; i < count; i++) {
        const char *name = transposed ? transposed_names[i] : names[i];
        v[i] = i + 2 < cfx__quant_count(n) ? cfx_at(n->args, i + 2)
                                           : cfx_dict_get(cfx_as_dict(n->kwargs), name);
        bool one = !strcmp(name, "stride") || !strcmp(name, "dilation") || !strcmp(name, "groups");
        if (i && cfx_is_none(v[i]))
            v[i] = cfx_int(one);
        if (i && strcmp(name, "groups") && v[i].tag == CFX_TAG_INT) {
            cfx_value list = cfx_list_value(0, NULL);
            for (int d = 0; d < dims; d++)
                cfx_list_append(cfx_as_list(list), v[i]);
            v[i] = list;
        }
    }
    if (transposed) { /* groups and dilation change places */
        cfx_value groups = v[4];
        v[4] = v[5];
        v[5] = groups;
    }
    memcpy(out, v, (size_t)count * sizeof *v);
}

/* The packed weight of a function call as an attribute of gm; its name, or NULL. */
static const char *pack(cfx_module *gm, cfx_node *n, const struct function *f) {
    cfx_node *dq = cfx__quant_arg(n, 1), *w = is_dequantize(dq) ? cfx__quant_arg(dq, 0) : NULL;
    bool channels = calls(w, CFX_CALL_FUNCTION, "torch.quantize_per_channel");
    bool half = calls(w, CFX_CALL_METHOD, "to");
    if (!w || (!is_quantize(w) && !channels && !half))
        return NULL;
    bool transposed = strstr(f->name, "transpose") != NULL;
    int dims = strstr(f->name, "conv") ? f->name[strlen(f->name) - 2] - '0' : 0;
    cfx_value args[8];
    args[0] = constant_of(gm, w);
    if (dims)
        pack_arguments(n, dims, transposed, args + 1);
    else
        args[1] = cfx__quant_count(n) > 2 ? cfx_at(n->args, 2)
                                          : cfx_dict_get(cfx_as_dict(n->kwargs), "bias");
    if (args[1].tag == CFX_TAG_NODE)
        args[1] = constant_of(gm, cfx_as_node(args[1]));
    cfx_value packed = cfx_py_from(CFX_HERE, half ? cfx__text_format("%s_fp16", f->pack) : f->pack,
                                   (cfx_args){!dims        ? 2
                                              : transposed ? 7
                                                           : 6,
                                              args, NULL});
    if (cfx_is_bad(packed))
        return NULL;
    const char *name =
        cfx__quant_new_name(gm, cfx__text_format("%s_packed_weight_", cfx__quant_scope(n)));
    cfx_module_set_attr(gm, name, packed);
    return name;
}

static void lower_functions(cfx_module *gm) {
    cfx_graph *g = gm->graph;
    cfx_each_node(g, n) {
        island in;
        if (!find_island(gm, n, 2, &in))
            continue;
        const struct function *f = function_of(in.op);
        const char *packed = f ? pack(gm, in.op, f) : NULL;
        if (!packed)
            continue;
        cfx_node *weight = NULL;
        CFX_INSERT_BEFORE(g, in.scale)
        weight = cfx_graph_get_attr(g, packed);
        bool fused = in.relu && f->with_relu;
        cfx_node *x = cfx__quant_arg(cfx__quant_arg(in.op, 0), 0);
        cfx_node_set_target(in.op, cfx_graph_target(g, fused ? f->with_relu : f->quantized));
        cfx_node_set_args(in.op, cfx_tuple(cfx_node_value(x), cfx_node_value(weight),
                                           cfx_node_value(in.scale), cfx_node_value(in.zero)));
        cfx_node_set_kwargs(in.op, cfx_dict_value(cfx_dict_new()));
        close_island(&in, in.op);
        cfx_node_move_after(in.op, in.zero);
        if (fused)
            cfx_graph_erase(in.relu);
    }
}

/* The relu that takes what n gives, where nothing else does; PyTorch looks for no torch.relu. */
static cfx_node *relu_behind(cfx_module *gm, const cfx_node *n) {
    cfx_node *user = n->num_users == 1 ? n->users->user : NULL;
    int relu = user ? cfx__quant_relu(gm, user) : 0;
    return relu && relu != CFX__RELU_TORCH ? user : NULL;
}

static void lower_dynamic_functions(cfx_module *gm) {
    cfx_graph *g = gm->graph;
    cfx_each_node(g, op) {
        const struct function *f = function_of(op);
        cfx_node *dq = f && f == functions ? cfx__quant_arg(op, 0) : NULL;
        cfx_node *q = is_dequantize(dq) ? cfx__quant_arg(dq, 0) : NULL;
        if (!calls(q, CFX_CALL_FUNCTION, "torch.quantize_per_tensor_dynamic") || is_left_out(op))
            continue;
        const char *packed = pack(gm, op, f);
        if (!packed)
            continue;
        cfx_node *weight = NULL, *relu = relu_behind(gm, op);
        CFX_INSERT_BEFORE(g, op)
        weight = cfx_graph_get_attr(g, packed);
        bool half = cfx_equal_values(cfx_at(q->args, 1), cfx_f16);
        const char *name = cfx__text_format("torch.ops.quantized.linear%s_dynamic%s",
                                            relu ? "_relu" : "", half ? "_fp16" : "");
        cfx_node_set_target(op, cfx_graph_target(g, name));
        cfx_value x = cfx_at(q->args, 0), w = cfx_node_value(weight);
        cfx_node_set_args(op, half ? cfx_tuple(x, w) : cfx_tuple(x, w, cfx_at(q->args, 2)));
        cfx_node_set_kwargs(op, cfx_dict_value(cfx_dict_new()));
        if (relu) {
            cfx_node_replace(relu, op);
            cfx_graph_erase(relu);
        }
    }
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

static const struct {
    const char *name, *quantized, *with_relu;
} binaries[] = {
    {"operator.add", "torch.ops.quantized.add", "torch.ops.quantized.add_relu"},
    {"torch.add", "torch.ops.quantized.add", "torch.ops.quantized.add_relu"},
    {"operator.mul", "torch.ops.quantized.mul", "torch.ops.quantized.mul_relu"},
    {"torch.mul", "torch.ops.quantized.mul", "torch.ops.quantized.mul_relu"},
    {"torch.matmul", "torch.ops.quantized.matmul", NULL},
};

static void lower_binary(cfx_module *gm, const island *in, const char *name) {
    cfx_value args = cfx_list_value(0, NULL);
    int tensors = 0;
    for (int64_t i = 0; i < cfx__quant_count(in->op); i++) {
        cfx_node *dq = cfx__quant_arg(in->op, i);
        tensors += dq != NULL;
        cfx_list_append(cfx_as_list(args), dq ? cfx_at(dq->args, 0) : cfx_at(in->op->args, i));
    }
    if (tensors == 2) {
        cfx_list_append(cfx_as_list(args), cfx_node_value(in->scale));
        cfx_list_append(cfx_as_list(args), cfx_node_value(in->zero));
    }
    cfx_node *made = NULL;
    CFX_INSERT_AFTER(gm->graph, in->quantize)
    made = cfx_graph_call_function(
        gm->graph, name, cfx_tuple_value(cfx_as_list(args)->len, cfx_as_list(args)->items),
        CFX_NONE);
    close_island(in, made);
    if (in->relu)
        cfx_graph_erase(in->relu);
    cfx_graph_erase(in->op);
}

static void lower_binaries(cfx_module *gm) {
    cfx_each_node(gm->graph, n) {
        island in;
        if (!find_island(gm, n, 2, &in))
            continue;
        for (int i = 0; i < COUNT(binaries); i++)
            if (calls(in.op, CFX_CALL_FUNCTION, binaries[i].name) &&
                (!in.relu || binaries[i].with_relu)) {
                lower_binary(gm, &in, in.relu ? binaries[i].with_relu : binaries[i].quantized);
                break;
            }
    }
}

/* ---- everything else that knows quantized tensors -------------------------------------------- */

/* Functions that become an operator with a scale: its name, and keywords that it lacks. */
static const struct {
    const char *name, *quantized, *without[4];
} scaled[] = {
    {"torch.nn.functional.elu", "torch.ops.quantized.elu", {"inplace"}},
    {"torch.nn.functional.hardswish", "torch.ops.quantized.hardswish", {"inplace"}},
    {"torch.nn.functional.instance_norm",
     "torch.ops.quantized.instance_norm",
     {"running_mean", "running_var", "use_input_stats", "momentum"}},
    {"torch.nn.functional.layer_norm", "torch.ops.quantized.layer_norm", {NULL}},
    {"torch.nn.functional.leaky_relu", "torch.ops.quantized.leaky_relu", {NULL}},
    {"torch.nn.functional.dropout", "torch.ops.quantized.dropout", {NULL}},
};

/* Functions, methods and classes that take quantized tensors as they are. */
static const char *const plain_functions[] = {"torch.nn.functional.hardsigmoid",
                                              "torch.nn.functional.sigmoid",
                                              "torch.sigmoid",
                                              "torch.tanh",
                                              "torch.adaptive_avg_pool1d",
                                              "torch.nn.functional.adaptive_avg_pool2d",
                                              "torch.nn.functional.adaptive_avg_pool3d",
                                              "torch.nn.functional.hardtanh",
                                              "torch.nn.functional.hardtanh_",
                                              "torch.nn.functional.interpolate",
                                              "torch.nn.functional.max_pool1d",
                                              "torch.nn.functional.max_pool2d",
                                              "torch.nn.functional.max_pool3d",
                                              "torch.nn.functional.relu",
                                              "torch.nn.functional.relu6",
                                              "torch.avg_pool1d",
                                              "torch._C._nn.avg_pool2d",
                                              "torch._C._nn.avg_pool3d",
                                              "torch.clamp",
                                              "torch.flatten",
                                              "torch.mean",
                                              "operator.floordiv",
                                              "torch.channel_shuffle",
                                              "torch.narrow",
                                              "torch.transpose",
                                              "torch.repeat_interleave",
                                              "torch.squeeze",
                                              "torch.stack",
                                              "torch.unsqueeze",
                                              "torch.nn.functional.pixel_shuffle",
                                              "torch.nn.functional.pixel_unshuffle",
                                              "torch.cat"};
static const char *const plain_methods[] = {
    "hardsigmoid", "hardsigmoid_", "sigmoid",    "sigmoid_",
    "tanh",        "tanh_",        "clamp",      "mean",
    "relu",        "relu_",        "contiguous", "detach",
    "detach_",     "permute",      "repeat",     "repeat_interleave",
    "reshape",     "resize_",      "shape",      "size",
    "squeeze",     "squeeze_",     "transpose",  "unsqueeze",
    "unsqueeze_",  "view"};
static const char *const plain_classes[] = {"Hardsigmoid",
                                            "Sigmoid",
                                            "Tanh",
                                            "AdaptiveAvgPool1d",
                                            "AdaptiveAvgPool2d",
                                            "AdaptiveAvgPool3d",
                                            "AvgPool1d",
                                            "AvgPool2d",
                                            "AvgPool3d",
                                            "Hardtanh",
                                            "MaxPool1d",
                                            "MaxPool2d",
                                            "MaxPool3d",
                                            "ReLU",
                                            "ReLU6",
                                            "ChannelShuffle",
                                            "Identity",
                                            "PixelShuffle",
                                            "PixelUnshuffle"};

static bool is_in(const char *const *names, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (names[i] && !strcmp(names[i], name))
            return true;
    return false;
}

/* The nodes that op takes first, where all of them are dequantize; else an empty list. */
static cfx_value dequantized(const cfx_node *op) {
    cfx_value first = cfx__quant_count(op) ? cfx_at(op->args, 0) : cfx_none();
    bool several = first.tag == CFX_TAG_LIST || first.tag == CFX_TAG_TUPLE;
    if (!several && first.tag != CFX_TAG_NODE)
        return cfx_list();
    cfx_value all = several ? cfx_list_value(cfx_as_list(first)->len, cfx_as_list(first)->items)
                            : cfx_list(first); /* a copy: op is about to change */
    for (int64_t i = 0; i < cfx_as_list(all)->len; i++) {
        cfx_value v = cfx_as_list(all)->items[i];
        if (v.tag != CFX_TAG_NODE || !is_dequantize(cfx_as_node(v)))
            return cfx_list();
    }
    return all;
}

/* The operator with a scale, made behind its zero point. */
static void scale_function(cfx_module *gm, const island *in, int row) {
    cfx_dict *kwargs = cfx_dict_new(), *old = cfx_as_dict(in->op->kwargs);
    for (int64_t i = 0; i < old->len; i++)
        if (!is_in(scaled[row].without, COUNT(scaled[row].without), cfx_text(old->entries[i].key)))
            cfx_dict_put(kwargs, old->entries[i].key, old->entries[i].value);
    cfx_dict_set(kwargs, "output_scale", cfx_node_value(in->scale));
    cfx_dict_set(kwargs, "output_zero_point", cfx_node_value(in->zero));
    cfx_node *made = NULL;
    CFX_INSERT_AFTER(gm->graph, in->zero)
    made = cfx_graph_call_function(gm->graph, scaled[row].quantized, in->op->args,
                                   cfx_dict_value(kwargs));
    cfx_node_replace(in->op, made);
    cfx_graph_erase(in->op);
}

static void lower_rest(cfx_site at, cfx_module *gm) {
    cfx_dict *modules = cfx_module_named_modules(gm);
    cfx_each_node(gm->graph, n) {
        if (!is_quantize(n))
            continue;
        island in = {n, NULL, cfx__quant_arg(n, 0), cfx__quant_arg(n, 1), cfx__quant_arg(n, 2)};
        if (!in.op || !in.scale || !in.zero)
            continue;
        int row = -1;
        for (int i = 0; i < COUNT(scaled); i++)
            row = calls(in.op, CFX_CALL_FUNCTION, scaled[i].name) ? i : row;
        bool plain =
            (in.op->op == CFX_CALL_FUNCTION && is_in(plain_functions, COUNT(plain_functions),
                                                     cfx__quant_spelling(in.op->target.name))) ||
            (in.op->op == CFX_CALL_METHOD &&
             is_in(plain_methods, COUNT(plain_methods), in.op->target.name)) ||
            is_in(plain_classes, COUNT(plain_classes), type_of(gm, in.op));
        cfx_value inputs = dequantized(in.op);
        cfx_module *m = NULL;
        if (!cfx_as_list(inputs)->len)
            continue;
        if (in.op->op == CFX_CALL_MODULE)
            m = cfx__quant_native(at, module_of(modules, gm, in.op), CFX__NATIVE_SPECIAL,
                                  scale_of(gm, in.scale), zero_of(gm, in.zero));
        if (row < 0 && !plain && !m)
            continue;
        if (m)
            cfx__quant_swap(gm, in.op->target.name, m);
        for (int64_t i = 0; i < cfx_as_list(inputs)->len; i++)
            skip_dequantize(in.op, cfx_as_node(cfx_as_list(inputs)->items[i]));
        close_island(&in, in.op);
        if (row >= 0) {
            scale_function(gm, &in, row);
        } else {
            erase_if_unused(in.scale);
            erase_if_unused(in.zero);
        }
    }
}

/* The shape of what is dequantized is that of the quantized tensor. */
static void lower_shapes(cfx_module *gm) {
    cfx_each_node(gm->graph, n) {
        bool shape = (n->op == CFX_CALL_METHOD && !strcmp(n->target.name, "size")) ||
                     (calls(n, CFX_CALL_FUNCTION, "getattr") && cfx__quant_count(n) == 2);
        cfx_node *dq = shape ? cfx__quant_arg(n, 0) : NULL;
        if (is_dequantize(dq))
            skip_dequantize(n, dq);
    }
}

cfx_module *cfx__quant_lower(cfx_site at, cfx_module *gm) {
    lower_static_modules(at, gm);
    lower_dynamic_modules(at, gm);
    lower_weight_only_modules(at, gm);
    lower_functions(gm);
    lower_dynamic_functions(gm);
    lower_binaries(gm);
    lower_shapes(gm);
    lower_rest(at, gm);
    cfx_graph_eliminate_dead_code(gm->graph);
    return cfx_ok() ? cfx_graph_module(gm, cfx_graph_copy(gm->graph), NULL) : &cfx__module_bad;
}
