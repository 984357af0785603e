/* Gradients of whole programs: those of the mean square of every floating-point result, beside what
 * PyTorch had computed (data/zoo/NAME/grads.safetensors). */
#include <cfx.h>

#include <math.h>
#include <string.h>

#include "test.h"

static char path[512];

static const char *path_of(const char *name, const char *file) {
    snprintf(path, sizeof path, "%s/zoo/%s/%s", CFX_TEST_DATA, name, file);
    return path;
}

static bool is_float(cfx_value v) {
    if (v.tag != CFX_TAG_TENSOR)
        return false;
    cfx_dtype d = cfx_tensor_dtype(cfx_as_tensor(v));
    return d == CFX_F32 || d == CFX_F64 || d == CFX_F16 || d == CFX_BF16;
}

/* The placeholders' values: parameters and inputs ask for gradients, and are listed by the names
 * that the file of gradients has for them. */
static cfx_value inputs_of(cfx_program *p, const cfx_dict *given, cfx_dict *leaves) {
    cfx_value all = cfx_list_value(0, NULL);
    int users = 0;
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_input_spec *s = &p->inputs[i];
        char name[256];
        cfx_value v = s->value;
        if (s->kind != CFX_IN_USER)
            v = CFX_V(cfx_program_tensor(p, s));
        else if (!s->constant) {
            snprintf(name, sizeof name, "in%d", users++);
            v = cfx_dict_get(given, name);
        }
        bool asks = is_float(v) && (s->kind == CFX_IN_PARAMETER || s->kind == CFX_IN_USER);
        if (asks) {
            char key[300];
            snprintf(key, sizeof key, "grad_%s", s->kind == CFX_IN_USER ? name : s->target);
            cfx_dict_set(leaves, key, CFX_V(cfx_requires_grad(cfx_as_tensor(v), true)));
        }
        cfx_list_append(cfx_as_list(all), v);
    }
    return all;
}

static cfx_tensor *loss_of(const cfx_program *p, cfx_value results) {
    cfx_value flat = cfx_list_value(0, NULL);
    cfx_tensor *loss = NULL;
    cfx_tree_flatten(results, cfx_as_list(flat));
    for (int64_t i = 0; i < cfx_as_list(flat)->len; i++) {
        if (i < p->noutputs && p->outputs[i].kind != CFX_OUT_USER)
            continue;
        cfx_value v = cfx_as_list(flat)->items[i];
        cfx_tensor *one = is_float(v) ? cfx_mean(cfx_mul(v, v)) : NULL;
        loss = !one ? loss : loss ? cfx_add(loss, one) : one;
    }
    return loss;
}

/* A gradient that did not come counts as zeros. */
static void check_close(const cfx_tensor *have, const cfx_tensor *want) {
    double largest = 1e-6, off = 0;
    for (int64_t i = 0; i < cfx_tensor_numel(want); i++) {
        double w = cfx_tensor_get(want, i), h = have ? cfx_tensor_get(have, i) : 0;
        largest = fmax(largest, fabs(w));
        off = fmax(off, fabs(w - h));
    }
    CHECK(off <= 1e-4 * largest);
}

static void check_program(const char *name) {
    cfx_dict *want = cfx_safetensors_read(path_of(name, "grads.safetensors"));
    cfx_dict *given = cfx_safetensors_read(path_of(name, "inputs.safetensors"));
    cfx_program *p = cfx_open(path_of(name, "model.pt2"));
    CHECK_OK();
    cfx_dict *leaves = cfx_dict_new();
    cfx_value in = inputs_of(p, given, leaves);
    cfx_interp it = {.module = p->module};
    cfx_args args = {(int)cfx_as_list(in)->len, cfx_as_list(in)->items, NULL};
    cfx_tensor *loss = loss_of(p, cfx_run_from(CFX_HERE, &it, args));
    CHECK(cfx_backward(loss));
    CHECK_OK();
    check_close(loss, cfx_as_tensor(cfx_dict_get(want, "loss")));
    for (int64_t i = 0; i < want->len; i++) {
        const char *key = cfx_text(want->entries[i].key);
        if (!strncmp(key, "grad_", 5))
            check_close(cfx_tensor_grad(cfx_as_tensor(cfx_dict_get(leaves, key))),
                        cfx_as_tensor(want->entries[i].value));
    }
}

TEST(grad_zoo_cond) { check_program("cond"); }
TEST(grad_zoo_index) { check_program("index_zoo"); }
TEST(grad_zoo_buffer) { check_program("mutating_buffer"); }
TEST(grad_zoo_pytree) { check_program("pytree_io"); }
TEST(grad_zoo_mlp) { check_program("seed_mlp"); }
TEST(grad_zoo_loop) { check_program("while_loop"); }
