/* Sixteen models against what torch.ao.quantization made of them (tests/data/quant): fused,
 * prepared, reference and quantized texts, observers, outputs. */
#include "fx.h"
#include "test.h"

#include <cfx/emit.h>
#include <cfx/layers.h>
#include <math.h>
#include <stdlib.h>

/* ---- models ---------------------------------------------------------------------------------- */

static cfx_module *sequential(cfx_module *const *parts, int n) {
    cfx_module *m = cfx_nn_sequential();
    for (int i = 0; i < n; i++)
        cfx_nn_add(m, cfx__text_format("%d", i), parts[i]);
    return m;
}
#define SEQUENTIAL(...)                                                                            \
    sequential((cfx_module *[]){__VA_ARGS__}, COUNT(((cfx_module *[]){__VA_ARGS__})))

static cfx_module *mlp(void) {
    return SEQUENTIAL(cfx_nn_linear(16, 32), cfx_nn_relu(), cfx_nn_linear(32, 8));
}
static cfx_module *conv_relu(void) { return SEQUENTIAL(cfx_nn_conv2d(3, 8, 3), cfx_nn_relu()); }
static cfx_module *conv_bn_relu(void) {
    return SEQUENTIAL(cfx_nn_conv2d(3, 8, 3), cfx_nn_batch_norm2d(8), cfx_nn_relu(),
                      cfx_nn_conv2d(8, 4, 1), cfx_nn_batch_norm2d(4));
}
static cfx_module *conv1d(void) {
    return SEQUENTIAL(cfx_nn_conv1d(4, 8, 3), cfx_nn_relu(), cfx_nn_flatten(),
                      cfx_nn_linear(64, 4));
}
static cfx_module *conv3d(void) { return SEQUENTIAL(cfx_nn_conv3d(2, 4, 3), cfx_nn_relu()); }
static cfx_module *deconv(void) {
    return SEQUENTIAL(cfx_nn_conv_transpose2d(4, 6, 3, .stride = 2), cfx_nn_sigmoid());
}

static cfx_tensor *forward_block(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *y = cfx_call(self, "relu", cfx_call(self, "b1", cfx_call(self, "c1", x)));
    y = cfx_call(self, "b2", cfx_call(self, "c2", y));
    return cfx_call(self, "relu", cfx_as_tensor(cfx_py("operator.add", y, x)));
}

static cfx_module *block(void) {
    cfx_module *m = cfx_module_new("Block", forward_block, "x");
    cfx_nn_add(m, "c1", cfx_nn_conv2d(8, 8, 3, .padding = 1, .no_bias = true));
    cfx_nn_add(m, "b1", cfx_nn_batch_norm2d(8));
    cfx_nn_add(m, "c2", cfx_nn_conv2d(8, 8, 3, .padding = 1, .no_bias = true));
    cfx_nn_add(m, "b2", cfx_nn_batch_norm2d(8));
    cfx_nn_add(m, "relu", cfx_nn_relu());
    return m;
}

static cfx_tensor *forward_inverted(cfx_module *self, cfx_tensor *x) {
    return cfx_as_tensor(cfx_py("operator.add", x, cfx_call(self, "body", x)));
}

static cfx_module *inverted(void) {
    cfx_module *m = cfx_module_new("Inverted", forward_inverted, "x");
    cfx_nn_add(m, "body",
               SEQUENTIAL(cfx_nn_conv2d(8, 32, 1, .no_bias = true), cfx_nn_batch_norm2d(32),
                          cfx_nn_relu6(),
                          cfx_nn_conv2d(32, 32, 3, .padding = 1, .groups = 32, .no_bias = true),
                          cfx_nn_batch_norm2d(32), cfx_nn_relu6(),
                          cfx_nn_conv2d(32, 8, 1, .no_bias = true), cfx_nn_batch_norm2d(8)));
    return m;
}

static cfx_tensor *forward_feed(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *y = cfx_call(self, "act", cfx_call(self, "a", cfx_call(self, "norm", x)));
    return cfx_as_tensor(cfx_py("operator.add", x, cfx_call(self, "b", y)));
}

static cfx_module *feed(void) {
    cfx_module *m = cfx_module_new("Feed", forward_feed, "x");
    cfx_nn_add(m, "norm", cfx_nn_layer_norm(16));
    cfx_nn_add(m, "a", cfx_nn_linear(16, 32));
    cfx_nn_add(m, "b", cfx_nn_linear(32, 16));
    cfx_nn_add(m, "act", cfx_nn_gelu());
    return m;
}

static cfx_value forward_mixed(cfx_module *self, cfx_args a) {
    cfx_tensor *y = cfx_relu(cfx_call(self, "c", a.v[0]));
    cfx_value z = cfx_py("torch.cat", cfx_list(y, cfx_py("operator.mul", y, 2)), 1);
    z = cfx_py("torch.nn.functional.max_pool2d", z, 2, CFX_KW(stride, CFX_NONE), CFX_KW(padding, 0),
               CFX_KW(dilation, 1), CFX_KW(ceil_mode, cfx_bool(false)),
               CFX_KW(return_indices, cfx_bool(false)));
    z = cfx_py("torch.nn.functional.adaptive_avg_pool2d", z, 1);
    z = cfx_method(cfx_as_tensor(z), "flatten", 1);
    cfx_value l = cfx_tensor_value(cfx_call(self, "l", cfx_as_tensor(z)));
    return cfx_tuple(cfx_py("torch.nn.functional.hardswish", l, CFX_KW(inplace, cfx_bool(false))),
                     cfx_py("torch.sigmoid", z));
}

static cfx_module *mixed(void) {
    cfx_module *m = cfx_module_new_n("Mixed", forward_mixed, "x");
    cfx_nn_add(m, "c", cfx_nn_conv2d(3, 4, 3));
    cfx_nn_add(m, "l", cfx_nn_linear(8, 5));
    return m;
}

static cfx_tensor *forward_emb(cfx_module *self, cfx_tensor *i) {
    return cfx_call(self, "l", cfx_call(self, "e", i));
}

static cfx_module *emb(void) {
    cfx_module *m = cfx_module_new("Emb", forward_emb, "i");
    cfx_nn_add(m, "e", cfx_nn_embedding_bag(20, 8, .mode = "sum"));
    cfx_nn_add(m, "l", cfx_nn_linear(8, 4));
    return m;
}

/* ---- comparison ------------------------------------------------------------------------------ */

static char all[1 << 16];

static void read_texts(const char *name) {
    FILE *f = fopen(cfx__text_format(CFX_TEST_DATA "/quant/%s.txt", name), "rb");
    size_t n = f ? fread(all, 1, sizeof all - 1, f) : 0;
    all[n] = 0;
    if (f)
        fclose(f);
}

/* A section of the file, or NULL. */
static const char *section(const char *name) {
    const char *head = cfx__text_format("=== %s\n", name), *at = strstr(all, head);
    if (!at)
        return NULL;
    at += strlen(head);
    const char *end = strstr(at, "\n=== ");
    return cfx__text_format("%.*s", (int)(end - at), at);
}

/* Equal, but for numbers of many digits: what a product gave is equal to six of them. */
static bool same_text(const char *a, const char *b) {
    while (*a && *b) {
        if (!strncmp(a, "scale=0.", 8) && !strncmp(b, "scale=0.", 8)) {
            char *end_a, *end_b;
            double x = strtod(a + 6, &end_a), y = strtod(b + 6, &end_b);
            if (fabs(x - y) > 1e-6 * y)
                return false;
            a = end_a;
            b = end_b;
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return *a == *b;
}

static void check_text(const char *model, const char *what, const char *got) {
    const char *want = section(what);
    if (want && !same_text(got, want))
        test_fail(CFX_HERE, "%s %s:\n%s\n--- not\n%s", model, what, got, want);
}

static void check_forms(const char *model, const char *what, cfx_module *gm) {
    check_text(model, cfx__text_format("%s_code", what), cfx_module_code(gm));
    check_text(model, cfx__text_format("%s_modules", what), cfx_module_str(gm));
}

static void check_observers(const char *model, cfx_module *prepared) {
    const char *line = section("observers");
    for (; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : "") {
        char name[64], type[64];
        double scale;
        int zero;
        if (sscanf(line, "%63s %63s %lf %d", name, type, &scale, &zero) != 4)
            continue;
        cfx_module *m = cfx_module_find(prepared, name);
        cfx_value got = m ? cfx_observer_qparams(m) : cfx_bad();
        if (cfx_is_bad(got) || strcmp(m->type, type) ||
            fabs(cfx_tensor_get(cfx_tensor_at(got, 0), 0) - scale) > 1e-6 * scale ||
            cfx_tensor_get(cfx_tensor_at(got, 1), 0) != zero)
            test_fail(CFX_HERE, "%s %s: scale %s, not %s", model, name,
                      cfx_is_bad(got) ? "?" : cfx_repr(cfx_tensor_get(cfx_tensor_at(got, 0), 0)),
                      cfx_repr(scale));
    }
}

/* Outputs within a step of the last scale, and nearly all of them exact. */
static void check_output(const char *model, const char *what, cfx_module *gm, cfx_dict *data,
                         double step) {
    cfx_value out = cfx_forward_value(gm, cfx_dict_get(data, "batches/batch0_in0"));
    for (int i = 0; i < 2; i++) {
        cfx_value want = cfx_dict_get(data, cfx__text_format("results/%s_out%d", what, i));
        if (want.tag != CFX_TAG_TENSOR || cfx_is_bad(out))
            continue;
        cfx_tensor *w = cfx_as_tensor(want);
        cfx_tensor *g = out.tag == CFX_TAG_TENSOR ? cfx_as_tensor(out) : cfx_tensor_at(out, i);
        int64_t n = cfx_tensor_numel(w), off = 0;
        double most = 0;
        for (int64_t k = 0; k < n && k < cfx_tensor_numel(g); k++) {
            double d = fabs(cfx_tensor_get(g, k) - cfx_tensor_get(w, k));
            off += d > 1e-5;
            most = d > most ? d : most;
        }
        if (n != cfx_tensor_numel(g) || most > step * 1.001 || off * 50 > n)
            test_fail(CFX_HERE, "%s %s output %d: %lld of %lld differ, by %g at most", model, what,
                      i, (long long)off, (long long)n, most);
    }
    if (!CHECK_OK())
        test_fail(CFX_HERE, "%s %s", model, what);
}

static void check_model(const char *name, cfx_module *m, cfx_qconfig_mapping *how) {
    cfx_dict *data =
        cfx_safetensors_read(cfx__text_format(CFX_TEST_DATA "/quant/%s.safetensors", name));
    cfx_dict *state = cfx_dict_new();
    for (int64_t i = 0; i < data->len; i++) {
        const char *key = cfx_text(data->entries[i].key);
        if (!strncmp(key, "weights/", 8))
            cfx_dict_set(state, key + 8, data->entries[i].value);
    }
    cfx_module_load_state_dict(m, state, true);
    cfx_module_train(m, false);
    read_texts(name);
    if (section("fused_code"))
        check_text(name, "fused_code", cfx_module_code(cfx_fuse_fx(m)));
    cfx_module *prepared = cfx_prepare_fx(m, how);
    if (!CHECK_OK() || !CHECK(prepared != NULL))
        return;
    check_forms(name, "prepared", prepared);
    for (int i = 0; i < 4; i++)
        cfx_forward_value(prepared, cfx_dict_get(data, cfx__text_format("batches/batch%d_in0", i)));
    check_observers(name, prepared);
    cfx_module *reference = cfx_convert_to_reference_fx(prepared),
               *quantized = cfx_convert_fx(prepared);
    if (!CHECK_OK() || !CHECK(reference && quantized))
        return;
    check_forms(name, "reference", reference);
    check_forms(name, "quantized", quantized);
    check_output(name, "reference", reference, data, 0.06);
    check_output(name, "quantized", quantized, data, 0.06);
}

#define MODEL(name, make, how)                                                                     \
    TEST(quantized_##name) { check_model(#name, make, how); }

static cfx_qconfig_mapping *dynamic(void) {
    cfx_qconfig q;
    cfx_qconfig_find("dynamic", &q);
    cfx_qconfig_mapping *m = cfx_qconfig_mapping_new();
    cfx_qconfig_mapping_global(m, &q);
    return m;
}

static cfx_qconfig_mapping *embedding(void) {
    cfx_qconfig q;
    cfx_qconfig_find("float_qparams_weight_only", &q);
    cfx_qconfig_mapping *m = cfx_qconfig_mapping_new();
    cfx_qconfig_mapping_type(m, "torch.nn.EmbeddingBag", &q);
    return m;
}

MODEL(mlp, mlp(), cfx_qconfig_mapping_default("x86"))
MODEL(mlp_qnnpack, mlp(), cfx_qconfig_mapping_default("qnnpack"))
MODEL(conv_relu, conv_relu(), cfx_qconfig_mapping_default("x86"))
MODEL(conv_bn_relu, conv_bn_relu(), cfx_qconfig_mapping_default("x86"))
MODEL(block, block(), cfx_qconfig_mapping_default("x86"))
MODEL(block_qnnpack, block(), cfx_qconfig_mapping_default("qnnpack"))
MODEL(inverted, inverted(), cfx_qconfig_mapping_default("x86"))
MODEL(feed, feed(), cfx_qconfig_mapping_default("x86"))
MODEL(mixed, mixed(), cfx_qconfig_mapping_default("x86"))
MODEL(conv1d, conv1d(), cfx_qconfig_mapping_default("x86"))
MODEL(conv3d, conv3d(), cfx_qconfig_mapping_default("x86"))
MODEL(deconv, deconv(), cfx_qconfig_mapping_default("qnnpack"))
MODEL(dynamic_mlp, mlp(), dynamic())
MODEL(dynamic_feed, feed(), dynamic())
MODEL(weight_only_embedding, emb(), embedding())
