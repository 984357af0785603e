/* Functions with weights, and modules that are called twice: what they are lowered to. */
#include "fx.h"
#include "test.h"

#include <cfx/emit.h>
#include <cfx/layers.h>
#include <math.h>

static cfx_module *converted(cfx_module *m, cfx_qconfig_mapping *how, cfx_tensor *x) {
    cfx_module_train(m, false);
    cfx_module *p = cfx_prepare_fx(m, how);
    if (!CHECK_OK() || !CHECK(p != NULL))
        return NULL;
    cfx_forward_value(p, x);
    cfx_module *int8 = cfx_convert_fx(p);
    CHECK_OK();
    return int8;
}

static cfx_qconfig_mapping *all_of(const char *name) {
    cfx_qconfig q;
    cfx_qconfig_find(name, &q);
    cfx_qconfig_mapping *m = cfx_qconfig_mapping_new();
    cfx_qconfig_mapping_global(m, &q);
    return m;
}

/* How far b is from a, as a part of it. */
static double distance(cfx_tensor *a, cfx_tensor *b) {
    return cfx_tensor_get(cfx_norm(cfx_sub(a, b)), 0) / cfx_tensor_get(cfx_norm(a), 0);
}

static cfx_tensor *forward_linear(cfx_module *self, cfx_tensor *x) {
    return cfx_linear(x, cfx_attr(self, "w"), cfx_attr(self, "b"));
}

static cfx_module *functional(cfx_forward_1 *forward, cfx_tensor *w, cfx_tensor *b) {
    cfx_module *m = cfx_module_new("M", forward, "x");
    cfx_nn_parameter(m, "w", w);
    cfx_nn_parameter(m, "b", b);
    return m;
}

TEST(quantized_functions_have_packed_weights) {
    cfx_manual_seed(0);
    cfx_module *m = functional(forward_linear, cfx_randn(8, 4), cfx_randn(8));
    cfx_tensor *x = cfx_randn(16, 4);
    cfx_module *int8 = converted(m, cfx_qconfig_mapping_default("x86"), x);
    CHECK(strstr(cfx_module_code(int8),
                 "    _packed_weight_0 = self._packed_weight_0\n"
                 "    _scale_1 = self._scale_1\n"
                 "    _zero_point_1 = self._zero_point_1\n"
                 "    linear = torch.ops.quantized.linear(quantize_per_tensor, _packed_weight_0, "
                 "_scale_1, _zero_point_1);") != NULL);
    CHECK(distance(cfx_forward(m, x), cfx_forward(int8, x)) < 0.05);
    int8 = converted(m, all_of("dynamic"), x);
    CHECK(strstr(cfx_module_code(int8),
                 "    linear = torch.ops.quantized.linear_dynamic(x, _packed_weight_0, True);") !=
          NULL);
    CHECK(distance(cfx_forward(m, x), cfx_forward(int8, x)) < 0.05);
    CHECK_OK();
}

static cfx_tensor *forward_twice(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *y = cfx_call(self, "a", x);
    return cfx_cat(cfx_list(y, cfx_call(self, "a", y)), 1);
}

TEST(quantized_module_that_is_called_twice) {
    cfx_manual_seed(0);
    cfx_module *m = cfx_module_new("M", forward_twice, "x");
    cfx_nn_add(m, "a", cfx_nn_linear(4, 4));
    cfx_tensor *x = cfx_randn(16, 4);
    cfx_module *int8 = converted(m, cfx_qconfig_mapping_default("x86"), x);
    CHECK_STR(cfx_module_find(int8, "a")->type, "QuantizedLinear");
    CHECK(distance(cfx_forward(m, x), cfx_forward(int8, x)) < 0.05);
    CHECK_OK();
}
