/* Other weights and adapters: names, shapes, dtypes, what is missing; numbers against the sums that
 * they stand for. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cfx/ops.h>

#include "files.h"
#include "test.h"

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "fc2", cfx_relu(cfx_call(self, "fc1", x)));
}

static cfx_module *mlp(uint64_t seed) {
    cfx_manual_seed(seed);
    cfx_module *m = cfx_module_new("MLP", forward, "x");
    cfx_nn_add(m, "fc1", cfx_nn_linear(4, 6));
    cfx_nn_add(m, "fc2", cfx_nn_linear(6, 2));
    return m;
}

static cfx_program *exported(uint64_t seed) {
    return cfx_export(mlp(seed), cfx_tuple(cfx_ones(cfx_list(1, 4))), CFX_NONE, CFX_NONE);
}

static bool same(const cfx_program *a, const cfx_program *b) {
    bool all = a->state->len == b->state->len;
    for (int64_t i = 0; all && i < a->state->len; i++) {
        cfx_value other = cfx_dict_get(b->state, cfx_text(a->state->entries[i].key));
        all = cfx_tensor_get(cfx_all(cfx_eq(a->state->entries[i].value, other)), 0) != 0;
    }
    return all;
}

/* The state of a program with another beginning of each name, as a dtype. */
static cfx_dict *renamed(const cfx_program *p, const char *prefix, cfx_dtype dtype) {
    cfx_dict *d = cfx_dict_new();
    for (int64_t i = 0; i < p->state->len; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefix, cfx_text(p->state->entries[i].key));
        cfx_dict_set(d, name, cfx_tensor_value(cfx_to(p->state->entries[i].value,
                                                      cfx_dtype_value(dtype))));
    }
    return d;
}

static int64_t count(const cfx_dict *report, const char *key) {
    cfx_value v = cfx_dict_get(report, key);
    return v.tag == CFX_TAG_LIST ? cfx_len(v) : 0;
}

TEST(weights_by_name) {
    const char *path = test_path("w.safetensors");
    static const char *const prefixes[] = {"", "module.", "state_dict.model."};
    for (int i = 0; i < 3; i++) {
        cfx_program *p = exported(1), *q = exported(2);
        cfx_dict *report = cfx_dict_new(), *file = renamed(q, prefixes[i], CFX_F32);
        cfx_dict_set(file, "extra", cfx_tensor_value(cfx_ones(cfx_list(3))));
        CHECK(cfx_safetensors_write(path, file, NULL));
        CHECK(!same(p, q));
        CHECK(cfx_program_load_weights(p, path, false, report));
        CHECK_OK();
        CHECK(same(p, q));
        CHECK_INT(count(report, "loaded"), 4);
        CHECK_INT(count(report, "unused"), 1);
        CHECK_INT(count(report, "missing"), 0);
    }
    unlink(path);
}

TEST(weights_converted_and_missing) {
    const char *path = test_path("w.safetensors");
    cfx_program *p = exported(1), *q = exported(2), *old = exported(1);
    cfx_dict *report = cfx_dict_new(), *file = renamed(q, "", CFX_BF16);
    CHECK(cfx_safetensors_write(path, file, NULL));
    CHECK(cfx_program_load_weights(p, path, false, report));
    CHECK_INT(count(report, "converted"), 4);
    CHECK_INT(cfx_tensor_dtype(cfx_as_tensor(cfx_dict_get(p->state, "fc1.bias"))), CFX_F32);

    file = cfx_dict_new();
    cfx_dict_set(file, "fc1.weight", cfx_dict_get(q->state, "fc1.weight"));
    CHECK(cfx_safetensors_write(path, file, NULL));
    p = exported(1);
    CHECK(!cfx_program_load_weights(p, path, false, NULL));
    CHECK_ERROR("lacks 3 of the program's 4 weights: fc1.bias, fc2.weight, fc2.bias");
    CHECK(same(p, old));
    CHECK(cfx_program_load_weights(p, path, true, NULL));
    CHECK(!same(p, old));

    cfx_dict_set(file, "fc1.weight", cfx_tensor_value(cfx_ones(cfx_list(6, 5))));
    CHECK(cfx_safetensors_write(path, file, NULL));
    CHECK(!cfx_program_load_weights(exported(1), path, true, NULL));
    CHECK_ERROR("fc1.weight is [6, 5] there, [6, 4] in the program");
    cfx_dict_set(file, "fc1.weight", cfx_tensor_value(cfx_to(cfx_ones(cfx_list(6, 4)), CFX_I64)));
    CHECK(cfx_safetensors_write(path, file, NULL));
    CHECK(!cfx_program_load_weights(exported(1), path, true, NULL));
    CHECK_ERROR("fc1.weight is int64 there, float32 in the program");
    file = cfx_dict_new();
    cfx_dict_set(file, "other", cfx_tensor_value(cfx_ones(cfx_list(2))));
    CHECK(cfx_safetensors_write(path, file, NULL));
    CHECK(!cfx_program_load_weights(exported(1), path, true, NULL));
    CHECK_ERROR("has none of the program's weights: it has other, the program fc1.weight");
    unlink(path);
}

/* ---- adapters -------------------------------------------------------------------------------- */

static void write_adapter(const char *path, cfx_tensor *a, cfx_tensor *b) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "base_model.model.fc1.lora_A.weight", cfx_tensor_value(a));
    cfx_dict_set(d, "base_model.model.fc1.lora_B.weight", cfx_tensor_value(b));
    CHECK(cfx_safetensors_write(path, d, NULL));
}

static double distance(cfx_value a, cfx_value b) {
    return cfx_tensor_get(cfx_max(cfx_abs(cfx_sub(a, b))), 0);
}

TEST(lora_merged) {
    const char *path = test_path("adapter_model.safetensors");
    cfx_program *p = exported(1), *old = exported(1);
    cfx_tensor *a = cfx_randn(2, 4), *b = cfx_randn(6, 2);
    cfx_dict *report = cfx_dict_new();
    write_adapter(path, a, b);
    CHECK(!cfx_program_merge_lora(p, path, NAN, NULL));
    CHECK_ERROR("nothing tells the scale");
    CHECK(same(p, old));
    CHECK(cfx_program_merge_lora(p, path, 16, report));
    CHECK_INT(count(report, "merged"), 1);
    cfx_value want = cfx_tensor_value(cfx_add(cfx_dict_get(old->state, "fc1.weight"),
                                              cfx_mul(cfx_matmul(b, a), 8.0)));
    CHECK_NEAR(distance(cfx_dict_get(p->state, "fc1.weight"), want), 0, 1e-5);
    CHECK_NEAR(distance(cfx_dict_get(p->state, "fc2.weight"),
                        cfx_dict_get(old->state, "fc2.weight")), 0, 0);
    write_adapter(path, cfx_randn(2, 5), b);
    CHECK(!cfx_program_merge_lora(p, path, 16, NULL));
    CHECK_ERROR("the matrices for fc1.weight, [2, 5] and [6, 2], do not make its [6, 4]");
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "base_model.model.nope.lora_A.weight", cfx_tensor_value(a));
    cfx_dict_set(d, "base_model.model.nope.lora_B.weight", cfx_tensor_value(b));
    CHECK(cfx_safetensors_write(path, d, NULL));
    CHECK(!cfx_program_merge_lora(p, path, 16, NULL));
    CHECK_ERROR("no tensor in it matches a weight of the program");
    unlink(path);
}

TEST(lora_config) {
    const char *path = test_path("adapter_model.safetensors");
    const char *config = test_path("adapter_config.json");
    static const struct {
        const char *text;
        double scale;
    } cases[] = {{"{\"r\": 4, \"lora_alpha\": 8}", 2},
                 {"{\"lora_alpha\": 8, \"use_rslora\": true}", 4},
                 {"{\"lora_alpha\": 8, \"alpha_pattern\": {\"fc1\": 12}}", 3}};
    cfx_tensor *a = cfx_randn(4, 4), *b = cfx_randn(6, 4);
    write_adapter(path, a, b);
    for (int i = 0; i < 3; i++) {
        FILE *f = fopen(config, "w");
        fputs(cases[i].text, f);
        fclose(f);
        cfx_program *p = exported(1), *old = exported(1);
        CHECK(cfx_program_merge_lora(p, path, NAN, NULL));
        cfx_value want = cfx_tensor_value(cfx_add(
            cfx_dict_get(old->state, "fc1.weight"), cfx_mul(cfx_matmul(b, a), cases[i].scale)));
        CHECK_NEAR(distance(cfx_dict_get(p->state, "fc1.weight"), want), 0, 1e-4);
    }
    unlink(config);
    unlink(path);
}
