/* Control flow written as If, Loop and Scan, and read back. */
#include "onnx_test.h"

#include <cfx/nn.h>
#include <cfx/trace.h>

/* Exports a module, and compares what the .onnx of it gives with what the module gives. */
static void check_flow(const char *name, cfx_module *m, cfx_value in, cfx_value varies) {
    cfx_program *p = cfx_export(m, in, CFX_NONE, varies);
    cfx_args a = {(int)cfx_len(in), cfx_as_list(in)->items, NULL};
    cfx_value want = cfx_program_run_from((cfx_site){0}, p, a);
    if (want.tag == CFX_TAG_TENSOR)
        want = cfx_tuple(want);
    if (cfx_ok())
        keep_case(name, p, in, want);
    cfx_value got = cfx_save(p, test_path("m.onnx"))
                        ? cfx_program_run_from((cfx_site){0}, cfx_open(test_path("m.onnx")), a)
                        : cfx_bad();
    for (int64_t i = 0; cfx_ok() && i < cfx_len(want); i++) {
        cfx_value g = got.tag == CFX_TAG_TENSOR ? got : cfx_at(got, i), w = cfx_at(want, i);
        if (!cfx_is_true(cfx_allclose(g, w, CFX_KW(rtol, 1e-4), CFX_KW(atol, 1e-5))))
            test_fail(CFX_HERE, "%s: %s, not %s", name, cfx_repr(g), cfx_repr(w));
    }
    if (!cfx_ok())
        test_fail(CFX_HERE, "%s: %s", name, cfx_error_last()->message);
    cfx_error_clear();
    test_unlink("m.onnx");
    test_folder_done();
}

static cfx_value through_layer(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_relu(cfx_call(self, "l", a.v[0])));
}

static cfx_value halved(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_mul(a.v[0], 0.5));
}

static cfx_value choose(cfx_module *self, cfx_args a) {
    return cfx_cond(self, cfx_gt(cfx_sum(a.v[0]), 0), through_layer, halved, a.v[0]);
}

/* A branch uses a layer of the forward around it. */
TEST(onnx_if_with_layers) {
    cfx_module *m = cfx_module_new("Choose", choose, "x");
    cfx_nn_add(m, "l", cfx_nn_linear(4, 4));
    check_flow("if_true", m, cfx_tuple(cfx_ones(cfx_list(2, 4))), CFX_NONE);
    check_flow("if_false", m, cfx_tuple(cfx_full(cfx_list(2, 4), -1.0)), CFX_NONE);
}

static cfx_value step(cfx_module *self, cfx_args a) {
    cfx_value y = cfx_cond(self, cfx_gt(cfx_sum(a.v[1]), 0), through_layer, halved, a.v[1]);
    cfx_tensor *h = cfx_tanh(cfx_add(y, a.v[0]));
    return cfx_tuple(h, cfx_mul(h, 2));
}

static cfx_value scan_rows(cfx_module *self, cfx_args a) {
    return cfx_scan(self, step, a.v[1], a.v[0], .reverse = true);
}

/* A branch inside of a scan, each with a layer of the whole. */
TEST(onnx_scan_with_branches) {
    cfx_module *m = cfx_module_new("Scan", scan_rows, "xs, h");
    cfx_nn_add(m, "l", cfx_nn_linear(4, 4));
    check_flow("scan", m, cfx_tuple(cfx_randn(5, 4), cfx_randn(4)), CFX_NONE);
}

static cfx_value of_row(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_add(cfx_call(self, "l", a.v[0]), a.v[1]));
}

static cfx_value map_rows(cfx_module *self, cfx_args a) {
    return cfx_map(self, of_row, a.v[0], a.v[1]);
}

TEST(onnx_map_over_rows) {
    cfx_module *m = cfx_module_new("Map", map_rows, "xs, y");
    cfx_nn_add(m, "l", cfx_nn_linear(4, 4));
    check_flow("map", m, cfx_tuple(cfx_randn(5, 4), cfx_randn(4)), CFX_NONE);
}

static cfx_value goes_on(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_py("operator.lt", cfx_sum(a.v[1]), 100);
}

static cfx_value grow(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tuple(cfx_add(a.v[0], 1), cfx_add(cfx_mul(a.v[1], 2), 1));
}

static cfx_value loop(cfx_module *self, cfx_args a) {
    return cfx_while_loop(self, goes_on, grow, a.v[0], a.v[1]);
}

/* A loop that data ends, which may go round never. */
TEST(onnx_loop_that_data_ends) {
    cfx_module *m = cfx_module_new("Loop", loop, "i, x");
    cfx_value none = cfx_tensor_value(cfx_zeros(cfx_list_value(0, NULL), CFX_KW(dtype, cfx_i64)));
    check_flow("loop", m, cfx_tuple(none, cfx_ones(cfx_list(3))), CFX_NONE);
    check_flow("loop_never", m, cfx_tuple(none, cfx_full(cfx_list(3), 50.0)), CFX_NONE);
}
