/* Small models, one for each kind of pattern, against what torch.ao.quantization made of them
 * (tests/data/quant/patterns.txt): prepared and quantized texts, and the numbers that come out.
 * Weights and inputs are PyTorch's random numbers for seed 0. */
#include "fx.h"
#include "numbers.h"

#include <cfx/emit.h>
#include <cfx/layers.h>
#include <math.h>
#include <stdlib.h>

/* ---- models ---------------------------------------------------------------------------------- */

#define MAKE(type, ...) cfx_nn_make(type, __VA_ARGS__)
#define LINEAR(in, out) cfx_nn_linear(in, out)
#define CONV(in, out, size) cfx_nn_conv2d(in, out, size)
#define CALL(child, ...) cfx_call_value(self, child, __VA_ARGS__)
#define OWN(name) cfx_attr_value(self, name)
#define OFF cfx_bool(false)
#define ON cfx_bool(true)
#define FUNCTIONAL(name, ...) cfx_py("torch.nn.functional." name, __VA_ARGS__)
#define RELU(x) FUNCTIONAL("relu", x, CFX_KW(inplace, OFF))

static cfx_module *layers(int n, cfx_module *const *parts) {
    cfx_module *m = cfx_nn_sequential();
    for (int i = 0; i < n; i++)
        cfx_nn_add(m, cfx__text_format("%d", i), parts[i]);
    return m;
}
#define LAYERS(...) layers(COUNT(((cfx_module *[]){__VA_ARGS__})), (cfx_module *[]){__VA_ARGS__})

/* A model of modules, whose names are letters, or of parameters, and its forward. */
static cfx_module *model(cfx_forward_fn *forward, const char *inputs) {
    return cfx_module_new_n("M", forward, inputs);
}

static cfx_module *with_modules(cfx_forward_fn *forward, const char *names,
                                cfx_module *const *parts) {
    cfx_module *m = model(forward, "x");
    for (int i = 0; names[i]; i++)
        cfx_nn_add(m, (char[]){names[i], 0}, parts[i]);
    return m;
}
#define MODULES(forward, names, ...) with_modules(forward, names, (cfx_module *[]){__VA_ARGS__})

static cfx_module *with_parameters(cfx_forward_fn *forward, cfx_value w, int b) {
    cfx_module *m = model(forward, "x");
    cfx_nn_parameter(m, "w", cfx_randn(w));
    cfx_nn_parameter(m, "b", cfx_randn(b));
    return m;
}

#define FORWARD(name) static cfx_value name(cfx_module *self, cfx_args args)

FORWARD(methods) {
    cfx_value x = args.v[0], u = cfx_method(CALL("a", x), "sigmoid");
    return cfx_py("operator.mul", u, cfx_method(CALL("a", x), "tanh"));
}

FORWARD(hard) {
    cfx_value y = FUNCTIONAL("hardswish", CALL("a", args.v[0]), CFX_KW(inplace, OFF));
    y = FUNCTIONAL("relu6", y, CFX_KW(inplace, OFF));
    y = FUNCTIONAL("hardtanh", y, CFX_KW(min_val, -1.0), CFX_KW(max_val, 1.0),
                   CFX_KW(inplace, OFF));
    return FUNCTIONAL("hardsigmoid", y, CFX_KW(inplace, OFF));
}

FORWARD(cat_many) {
    cfx_value x = args.v[0], a = CALL("a", x), b = CALL("b", x), c = RELU(CALL("a", x));
    return cfx_py("torch.cat", cfx_tuple(a, x, b, c), CFX_KW(dim, 1));
}

FORWARD(cat_nested) {
    cfx_value x = args.v[0], a = CALL("a", x), b = CALL("b", x);
    a = cfx_py("torch.cat", cfx_list(a, b), 1);
    return cfx_py("torch.cat", cfx_list(a, CALL("b", x)), 1);
}

FORWARD(stacked) {
    cfx_value x = args.v[0], a = CALL("a", x), b = CALL("b", x);
    a = cfx_method(cfx_py("torch.stack", cfx_list(a, b)), "permute", 1, 0, 2);
    return cfx_method(a, "flatten", 1);
}

FORWARD(attention) {
    cfx_value x = args.v[0], q = CALL("q", x), k = cfx_method(CALL("k", x), "transpose", -2, -1);
    q = cfx_py("torch.softmax", cfx_py("torch.matmul", q, k), -1);
    return CALL("o", cfx_py("torch.matmul", q, CALL("v", x)));
}

FORWARD(relu_twice) { return CALL("r", CALL("a", CALL("r", CALL("a", args.v[0])))); }
FORWARD(norm_twice) { return CALL("b", CALL("c", CALL("b", CALL("c", args.v[0])))); }

FORWARD(branch) {
    cfx_value y = CALL("c", args.v[0]);
    return cfx_py("operator.add", CALL("r", y), y);
}

FORWARD(chunks) {
    cfx_value u = cfx_method(CALL("a", args.v[0]), "chunk", 2, 1);
    cfx_value b = CALL("b", cfx_py("operator.getitem", u, 0));
    return cfx_py("operator.add", b, cfx_py("operator.getitem", u, 1));
}

FORWARD(scalars) {
    cfx_value y = cfx_py("operator.mul", 2, CALL("a", args.v[0]));
    return cfx_py("operator.add", 1.0, y);
}

FORWARD(differences) {
    cfx_value y = cfx_py("operator.sub", CALL("a", args.v[0]), args.v[0]);
    return cfx_py("operator.sub", cfx_py("operator.truediv", y, 2.0), 1.0);
}

FORWARD(conv_function) {
    cfx_value ones = cfx_tuple(1, 1);
    return RELU(
        cfx_py("torch.conv2d", args.v[0], OWN("w"), OWN("b"), cfx_tuple(2, 2), ones, ones, 1));
}

FORWARD(linear_function) {
    return RELU(cfx_py("torch._C._nn.linear", args.v[0], OWN("w"), OWN("b")));
}

FORWARD(linear_chain) {
    cfx_value y = cfx_py("torch._C._nn.linear", args.v[0], OWN("w"));
    y = cfx_py("torch.relu", y);
    return cfx_py("torch._C._nn.linear", y, OWN("v"));
}

static cfx_module *with_two_weights(void) {
    cfx_module *m = model(linear_chain, "x");
    cfx_nn_parameter(m, "w", cfx_randn(4, 4));
    cfx_nn_parameter(m, "v", cfx_randn(4, 4));
    return m;
}

FORWARD(instance_function) {
    return FUNCTIONAL("instance_norm", args.v[0], CFX_KW(running_mean, CFX_NONE),
                      CFX_KW(running_var, CFX_NONE), CFX_KW(weight, OWN("w")),
                      CFX_KW(bias, OWN("b")), CFX_KW(use_input_stats, ON), CFX_KW(momentum, 0.1),
                      CFX_KW(eps, 1e-05));
}

FORWARD(only_call) { return CALL("l", args.v[0]); }

static cfx_module *calling(cfx_module *l) {
    cfx_module *m = model(only_call, "x");
    cfx_nn_add(m, "l", l);
    return m;
}

FORWARD(nested) {
    cfx_value y = cfx_py("torch.relu", CALL("sub", CALL("a", args.v[0])));
    return CALL("b", cfx_py("operator.add", y, args.v[0]));
}

static cfx_module *nest(void) {
    cfx_module *m = model(nested, "x");
    cfx_nn_add(m, "a", LINEAR(4, 4));
    cfx_nn_add(m, "sub", LAYERS(LINEAR(4, 4), cfx_nn_relu(), LINEAR(4, 4)));
    cfx_nn_add(m, "b", LINEAR(4, 4));
    return m;
}

/* ---- comparison ------------------------------------------------------------------------------ */

static char *all; /* the file */

/* A section of the file, or NULL; scope. */
static const char *section(const char *name, const char *key) {
    const char *head = cfx__text_format("\n=== %s %s\n", name, key), *at = strstr(all, head);
    if (!at)
        return NULL;
    at += strlen(head);
    const char *end = strstr(at, "\n=== ");
    return cfx__text_format("%.*s", end ? (int)(end - at) : (int)strlen(at), at);
}

/* Texts up to the digits of scales that a product may round otherwise. */
static const char *without_digits(const char *text) {
    cfx__text s = {0};
    for (const char *p = text; *p; p++) {
        if (!strncmp(p, "scale=0.", 8)) {
            char *end;
            cfx__text_printf(&s, "scale=%.5g", strtod(p + 6, &end));
            p = end - 1;
        } else {
            cfx__text_printf(&s, "%c", *p);
        }
    }
    return cfx__text_take(&s);
}

static void check_text(const char *name, const char *key, const char *got) {
    const char *want = section(name, key);
    if (!want || strcmp(without_digits(got), without_digits(want)) != 0)
        test_fail(CFX_HERE, "%s %s:\n%s\n--- not\n%s", name, key, got, want ? want : "there");
}

/* Numbers of a result one after the other; those of a tuple too. */
static int flatten(cfx_value v, double *out, int n) {
    if (v.tag == CFX_TAG_TENSOR)
        for (int64_t i = 0; i < cfx_tensor_numel(cfx_as_tensor(v)); i++)
            out[n++] = cfx_tensor_get(cfx_as_tensor(v), i);
    if (v.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            n = flatten(cfx_as_list(v)->items[i], out, n);
    return n;
}

/* All within a step of the last scale, and nearly all the same. */
static void check_numbers(const char *name, cfx_value got, double step) {
    static double have[4096];
    const char *want = section(name, "quantized_out");
    int n = flatten(got, have, 0), off = 0, k = 0;
    double most = 0;
    for (char *end; want && *want; want = end, k++) {
        double d = fabs(strtod(want, &end) - (k < n ? have[k] : INFINITY));
        off += d > 1e-5;
        most = d > most ? d : most;
    }
    if (k != n || most > 1.001 * step || off * 20 > n)
        test_fail(CFX_HERE, "%s: %d of %d numbers differ (%d there), by %g at most", name, off, n,
                  k, most);
}

static void draw_statistics(cfx_module *m, void *user) {
    (void)user;
    if (strncmp(m->type, "BatchNorm", 9) != 0)
        return;
    int64_t n = cfx_integer(cfx_module_attr(m, "num_features"));
    cfx_nn_buffer(m, "running_mean", cfx_randn(n), true);
    cfx_nn_buffer(m, "running_var", cfx_add(cfx_rand(n), 0.5), true);
}

static void read_file(void) {
    FILE *f = fopen(CFX_TEST_DATA "/quant/patterns.txt", "rb");
    all = calloc(1, 1 << 20);
    if (f && all)
        all[fread(all, 1, (1 << 20) - 1, f)] = 0;
    if (f)
        fclose(f);
}

/* Calibrated on two batches, and run on the first; no shape: indices. */
static void check(const char *name, cfx_module *m, cfx_value shape, cfx_qconfig_mapping *how,
                  double step) {
    cfx_module_train(m, false);
    cfx_module_apply(m, draw_statistics, NULL);
    cfx_tensor *x[2];
    for (int i = 0; i < 2; i++)
        x[i] = cfx_is_none(shape) ? cfx_randint(0, 6, cfx_tuple(3, 4)) : cfx_randn(shape);
    read_file();
    cfx_module *prepared = cfx_prepare_fx(m, how);
    if (!CHECK_OK() || !CHECK(prepared != NULL))
        return;
    check_text(name, "prepared_code", cfx_module_code(prepared));
    for (int i = 0; i < 2; i++)
        cfx_forward_value(prepared, x[i]);
    cfx_module *int8 = cfx_convert_fx(prepared);
    if (!CHECK_OK() || !CHECK(int8 != NULL))
        return;
    check_text(name, "quantized_code", cfx_module_code(int8));
    check_text(name, "quantized_modules", cfx_module_str(int8));
    check_numbers(name, cfx_forward_value(int8, x[0]), step);
    CHECK_OK();
    free(all);
}

/* ---- what is compared ------------------------------------------------------------------------ */

static cfx_qconfig_mapping *everywhere(const char *name) {
    cfx_qconfig q;
    cfx_qconfig_find(name, &q);
    cfx_qconfig_mapping *m = cfx_qconfig_mapping_new();
    cfx_qconfig_mapping_global(m, &q);
    return m;
}

static cfx_qconfig_mapping *embeddings(const char *name) {
    cfx_qconfig q;
    cfx_qconfig_find(name, &q);
    cfx_qconfig_mapping *m = cfx_qconfig_mapping_new();
    cfx_qconfig_mapping_type(m, "torch.nn.Embedding", &q);
    cfx_qconfig_mapping_type(m, "torch.nn.EmbeddingBag", &q);
    return m;
}

static cfx_qconfig_mapping *first_linear_of_sub_in_float(void) {
    cfx_qconfig_mapping *m = everywhere("default");
    cfx_qconfig_mapping_order(m, "sub", "torch.nn.Linear", 0, NULL);
    return m;
}

static cfx_qconfig_mapping *mixed(void) {
    cfx_qconfig q;
    cfx_qconfig_mapping *m = everywhere("default");
    cfx_qconfig_find("per_channel_dynamic", &q);
    cfx_qconfig_mapping_name(m, "a", &q);
    cfx_qconfig_mapping_name(m, "b", NULL);
    return m;
}

#define X86 cfx_qconfig_mapping_default("x86")
#define SHAPE_OF(...) cfx_tuple(__VA_ARGS__)
#define PATTERN(name, make, shape, how, step)                                                      \
    TEST(quantized_pattern_##name) {                                                               \
        cfx_manual_seed(0);                                                                        \
        cfx_module *m = make;                                                                      \
        check(#name, m, shape, how, step);                                                         \
    }
#define FOUR SHAPE_OF(2, 4)
#define PICTURE SHAPE_OF(1, 3, 4, 4)

PATTERN(conv1d_bn_relu,
        LAYERS(cfx_nn_conv1d(3, 4, 3), cfx_nn_batch_norm1d(4), cfx_nn_relu(),
               cfx_nn_conv1d(4, 2, 1), cfx_nn_batch_norm1d(2)),
        SHAPE_OF(2, 3, 8), X86, 0.05)
PATTERN(conv3d_bn,
        LAYERS(cfx_nn_conv3d(2, 3, 2), cfx_nn_batch_norm3d(3), cfx_nn_relu(),
               cfx_nn_conv3d(3, 2, 1), cfx_nn_batch_norm3d(2)),
        SHAPE_OF(1, 2, 4, 4, 4), X86, 0.05)
PATTERN(group_norm, LAYERS(CONV(3, 4, 3), MAKE("GroupNorm", 2, 4), cfx_nn_relu()),
        SHAPE_OF(1, 3, 6, 6), X86, 0.05)
PATTERN(instance_norms,
        LAYERS(cfx_nn_conv1d(3, 4, 3), MAKE("InstanceNorm1d", 4, CFX_KW(affine, ON)),
               cfx_nn_relu()),
        SHAPE_OF(2, 3, 6), X86, 0.05)
PATTERN(bn3d_relu, LAYERS(cfx_nn_batch_norm3d(2), cfx_nn_relu(), cfx_nn_max_pool3d(2)),
        SHAPE_OF(1, 2, 4, 4, 4), X86, 0.05)
PATTERN(acts_conv,
        LAYERS(CONV(3, 3, 1), MAKE("LeakyReLU", 0.2), CONV(3, 3, 1), MAKE("ELU", 0.5),
               CONV(3, 3, 1), cfx_nn_hardswish(), CONV(3, 3, 1), cfx_nn_relu6(), CONV(3, 3, 1),
               cfx_nn_sigmoid()),
        PICTURE, X86, 0.004)
PATTERN(pixel_shuffle, LAYERS(CONV(3, 4, 1), MAKE("PixelShuffle", 2), CONV(1, 2, 1)),
        SHAPE_OF(1, 3, 3, 3), X86, 0.05)
PATTERN(dropout_identity,
        LAYERS(LINEAR(4, 4), MAKE("Dropout", 0.3), cfx_nn_identity(), cfx_nn_relu(), LINEAR(4, 2)),
        FOUR, X86, 0.05)
PATTERN(methods, MODULES(methods, "a", LINEAR(4, 4)), FOUR, X86, 0.01)
PATTERN(hard_f, MODULES(hard, "a", LINEAR(4, 4)), FOUR, X86, 0.004)
PATTERN(cat_many, MODULES(cat_many, "ab", LINEAR(4, 4), LINEAR(4, 4)), FOUR, X86, 0.05)
PATTERN(cat_nested, MODULES(cat_nested, "ab", LINEAR(4, 4), LINEAR(4, 4)), FOUR, X86, 0.05)
PATTERN(stack, MODULES(stacked, "ab", LINEAR(4, 4), LINEAR(4, 4)), FOUR, X86, 0.05)
PATTERN(chunk, MODULES(chunks, "ab", LINEAR(4, 8), LINEAR(4, 4)), FOUR, X86, 0.05)
PATTERN(matmul_attention,
        MODULES(attention, "qkvo", LINEAR(4, 4), LINEAR(4, 4), LINEAR(4, 4), LINEAR(4, 4)),
        SHAPE_OF(2, 3, 4), X86, 0.05)
PATTERN(reused, MODULES(relu_twice, "ar", LINEAR(4, 4), cfx_nn_relu()), FOUR, X86, 0.05)
PATTERN(reused_bn, MODULES(norm_twice, "cb", CONV(3, 3, 1), cfx_nn_batch_norm2d(3)), PICTURE, X86,
        0.05)
PATTERN(branch, MODULES(branch, "cr", CONV(3, 3, 1), cfx_nn_relu()), PICTURE, X86, 0.05)
PATTERN(scalar_left, MODULES(scalars, "a", LINEAR(4, 4)), FOUR, X86, 0.05)
PATTERN(sub_div, MODULES(differences, "a", LINEAR(4, 4)), FOUR, X86, 0.05)
PATTERN(f_conv2d_lists, with_parameters(conv_function, cfx_tuple(4, 3, 3, 3), 4),
        SHAPE_OF(1, 3, 8, 8), X86, 0.2)
PATTERN(f_linear_relu_dyn, with_parameters(linear_function, cfx_tuple(4, 4), 4), FOUR,
        everywhere("dynamic"), 0.05)
PATTERN(f_linear_chain, with_two_weights(), FOUR, everywhere("per_channel_dynamic"), 0.05)
PATTERN(f_lin_f16_dyn, with_parameters(linear_function, cfx_tuple(4, 4), 4), FOUR,
        everywhere("float16_dynamic"), 1e-5)
PATTERN(f_instance_norm, with_parameters(instance_function, cfx_tuple(4), 4), SHAPE_OF(1, 4, 3, 3),
        X86, 0.05)
PATTERN(lin_f16_dyn, LAYERS(LINEAR(4, 8), cfx_nn_relu(), LINEAR(8, 2)), FOUR,
        everywhere("float16_dynamic"), 1e-5)
PATTERN(f16_static, LAYERS(LINEAR(4, 8), cfx_nn_relu(), LINEAR(8, 2), cfx_nn_sigmoid()), FOUR,
        everywhere("float16_static"), 1e-5)
PATTERN(lstm_f16, calling(cfx_nn_lstm(4, 3)), SHAPE_OF(5, 2, 4), everywhere("float16_dynamic"),
        1e-5)
PATTERN(lstm2, calling(cfx_nn_lstm(8, 16, .num_layers = 2)), SHAPE_OF(5, 2, 8),
        everywhere("dynamic"), 1e-5)
PATTERN(lstm_bi, calling(cfx_nn_lstm(4, 3, .bidirectional = true, .batch_first = true)),
        SHAPE_OF(2, 5, 4), everywhere("dynamic"), 1e-5)
PATTERN(gru2, calling(cfx_nn_gru(4, 6, .num_layers = 2, .bidirectional = true)), SHAPE_OF(5, 2, 4),
        everywhere("dynamic"), 1e-5)
PATTERN(emb8, LAYERS(cfx_nn_embedding(6, 4)), cfx_none(), embeddings("float_qparams_weight_only"),
        1e-5)
PATTERN(emb4, LAYERS(cfx_nn_embedding(6, 4)), cfx_none(),
        embeddings("float_qparams_weight_only_4bit"), 1e-5)
PATTERN(bag4, LAYERS(cfx_nn_embedding_bag(6, 4, .mode = "sum")), cfx_none(),
        embeddings("float_qparams_weight_only_4bit"), 1e-5)
PATTERN(map_order, nest(), FOUR, first_linear_of_sub_in_float(), 0.05)
PATTERN(map_mixed, nest(), FOUR, mixed(), 0.05)
