/* Quantized programs in the planned executor: layers run in integers and give what the interpreter
 * gives. */
#include <cfx/ops.h>

#include "quant.h"
#include "test.h"

#include <math.h>

static cfx_tensor *residual_forward(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *y = cfx_relu(cfx_call(self, "bn", cfx_call(self, "wide", x)));
    y = cfx_hardtanh(cfx_call(self, "lone", y), 0, 6);
    y = cfx_relu(cfx_add(cfx_call(self, "narrow", y), x));
    return cfx_call(self, "fc", cfx_flatten(cfx_max_pool2d(y, 2), 1));
}

/* A block with a depthwise convolution, an addition, a pool and a linear layer. */
static cfx_program *residual_program(int64_t channels) {
    cfx_manual_seed(3);
    cfx_module *m = cfx_module_new("Residual", residual_forward, "x");
    cfx_nn_add(m, "wide", cfx_nn_conv2d(channels, 3 * channels, 3, .padding = 1));
    cfx_nn_add(m, "bn", cfx_nn_batch_norm2d(3 * channels));
    cfx_nn_add(m, "lone", cfx_nn_conv2d(3 * channels, 3 * channels, 3, .padding = 1,
                                            .groups = 3 * channels, .stride = 1));
    cfx_nn_add(m, "narrow", cfx_nn_conv2d(3 * channels, channels, 1));
    cfx_nn_add(m, "fc", cfx_nn_linear(channels * 9, 7));
    cfx_module_train(m, false);
    cfx_value shape = cfx_list(2, channels, 7, 7);
    return cfx_export(m, cfx_tuple(cfx_randn(shape)), cfx_none(), cfx_none());
}

static cfx_tensor *planned(cfx_program *p, cfx_tensor *x) {
    const cfx_executor *was = cfx_set_executor(&cfx_planner);
    cfx_tensor *got = cfx_as_tensor(cfx_program_run(p, x));
    cfx_set_executor(was);
    return got;
}

/* The largest difference between the executors, as a share of the largest result. */
static double apart(cfx_program *p, cfx_tensor *x) {
    cfx_tensor *got = planned(p, x);
    const cfx_executor *was = cfx_set_executor(&cfx_interpreter);
    cfx_tensor *want = cfx_as_tensor(cfx_program_run(p, x));
    cfx_set_executor(was);
    return cfx_number(cfx_item(cfx_max(cfx_abs(cfx_sub(got, want))))) /
           cfx_number(cfx_item(cfx_max(cfx_abs(want))));
}

TEST(plan_runs_quantized_blocks_in_integers) {
    static const int64_t sizes[] = {3, 4, 16}; /* rows of A that end in a group, and do not */
    for (int i = 0; i < COUNT(sizes); i++) {
        cfx_program *p = residual_program(sizes[i]);
        cfx_tensor *x = cfx_randn(cfx_list(2, sizes[i], 7, 7));
        cfx_quantized *q = cfx_quantize(p, cfx_list(cfx_tuple(x)), (cfx_quantize_options){0});
        if (!CHECK(q != NULL))
            return;
        const char *plan = cfx_program_plan(q->program, x);
        CHECK(strstr(plan, "int8 convolution") && strstr(plan, "int8 depthwise") &&
              strstr(plan, " in integers + ") && strstr(plan, "int8 product"));
        CHECK(strstr(plan, "aten.flatten.using_ints") && strstr(plan, "u8[2, "));
        CHECK(strstr(plan, "rounding to channels last") && strstr(plan, "pool channels last") &&
              !strstr(plan, "loop of"));
        CHECK(apart(q->program, x) < 1e-2); /* a number between two steps may go either way */
    }
    CHECK_OK();
}

/* ---- bytes that two read ------------------------------------------------------------------- */

static cfx_tensor *rounded(cfx_tensor *x, double scale) {
    const cfx_value u8 = cfx_dtype_value(CFX_U8);
    cfx_tensor *q = cfx_quantized_decomposed_quantize_per_tensor(x, scale, 0, 0, 255, u8);
    return cfx_quantized_decomposed_dequantize_per_tensor(q, scale, 0, 0, 255, u8);
}

static cfx_tensor *rounded_conv(cfx_module *self, const char *weight, cfx_tensor *x) {
    const cfx_value i8 = cfx_dtype_value(CFX_I8);
    cfx_tensor *w = cfx_quantized_decomposed_dequantize_per_tensor(cfx_attr(self, weight), 0.01, 0,
                                                                   -128, 127, i8);
    return cfx_conv2d(x, w, CFX_NONE, 1, 1);
}

/* What ONNX Runtime's quantizer makes of a residual block: the sum is rounded, and goes to a
 * convolution as bytes and to the next sum as numbers. */
static cfx_tensor *shared_forward(cfx_module *self, cfx_tensor *x) {
    x = rounded(x, 0.02);
    cfx_tensor *y = rounded(cfx_add(rounded(rounded_conv(self, "first", x), 0.03), x), 0.04);
    return cfx_add(rounded(rounded_conv(self, "second", y), 0.05), y);
}

TEST(plan_keeps_bytes_that_a_layer_reads) {
    cfx_manual_seed(5);
    cfx_module *m = cfx_module_new("Shared", shared_forward, "x");
    cfx_tensor *weights = cfx_randint(-100, 100, cfx_list(2, 8, 8, 3, 3));
    cfx_nn_buffer(m, "first", cfx_to(cfx_select(weights, 0, 0), CFX_I8), true);
    cfx_nn_buffer(m, "second", cfx_to(cfx_select(weights, 0, 1), CFX_I8), true);
    cfx_tensor *x = cfx_rand(2, 8, 6, 6);
    cfx_program *p = cfx_export(m, cfx_tuple(x), cfx_none(), cfx_none());
    const char *plan = CHECK_OK() ? cfx_program_plan(p, x) : NULL;
    CHECK(plan && strstr(plan, "int8 convolution"));
    CHECK(cfx_ok() && apart(p, x) < 2e-2);
    CHECK_OK();
}

/* Pools of all kinds of windows pick the same bytes as numbers, of channels that fill vectors and
 * that do not. */
TEST(plan_pools_bytes) {
    static const int64_t cases[][5] = {/* channels, window, stride, padding, dilation */
                                       {3, 2, 2, 0, 1}, {70, 3, 2, 1, 1}, {64, 3, 1, 1, 2},
                                       {130, 5, 3, 2, 1}, {1, 3, 2, 1, 1}};
    for (int i = 0; i < COUNT(cases); i++) {
        const int64_t *c = cases[i];
        cfx_module *net = cfx_nn_sequential(
            cfx_nn_conv2d(5, c[0], 1),
            cfx_nn_max_pool2d(c[1], .stride = c[2], .padding = c[3], .dilation = c[4]),
            cfx_nn_conv2d(c[0], 4, 1));
        cfx_tensor *x = cfx_randn(cfx_list(2, 5, 11, 13));
        cfx_program *p = cfx_export(net, cfx_tuple(x), cfx_none(), cfx_none());
        cfx_quantized *q = cfx_quantize(p, cfx_list(cfx_tuple(x)), (cfx_quantize_options){0});
        if (!CHECK(q != NULL))
            return;
        CHECK(strstr(cfx_program_plan(q->program, x), "pool channels last                 u8["));
        CHECK(apart(q->program, x) < 1e-2);
    }
    CHECK_OK();
}

/* Groups of channels are computed one by one; what was rounded for them is not kept as numbers. */
TEST(plan_runs_groups_in_integers) {
    static const int64_t groups[] = {2, 3, 6};
    for (int i = 0; i < COUNT(groups); i++) {
        cfx_module *net = cfx_nn_sequential(
            cfx_nn_conv2d(24, 48, 3, .padding = 1, .stride = 2, .groups = groups[i]), cfx_nn_relu(),
            cfx_nn_conv2d(48, 12, 1, .groups = groups[i]));
        cfx_tensor *x = cfx_randn(cfx_list(2, 24, 9, 7));
        cfx_program *p = cfx_export(net, cfx_tuple(x), cfx_none(), cfx_none());
        cfx_quantized *q = cfx_quantize(p, cfx_list(cfx_tuple(x)), (cfx_quantize_options){0});
        if (!CHECK(q != NULL))
            return;
        const char *plan = cfx_program_plan(q->program, x);
        CHECK(strstr(plan, "int8 convolution") && strstr(plan, "int8 points"));
        CHECK(strstr(plan, " 0 constant;"));
        CHECK(apart(q->program, x) < 1e-2);
    }
    CHECK_OK();
}

/* Activations other than bounds are done to float32 before it is rounded, in the same kernel. */
TEST(plan_ends_integer_kernels_with_activations) {
    for (int i = 0; i < 4; i++) {
        cfx_module *act[2];
        for (int k = 0; k < 2; k++)
            act[k] = i == 0   ? cfx_nn_silu()
                     : i == 1 ? cfx_nn_hardswish()
                     : i == 2 ? cfx_nn_gelu()
                              : cfx_nn_tanh();
        cfx_module *net = cfx_nn_sequential(
            cfx_nn_conv2d(6, 70, 3, .stride = 2), act[0],
            cfx_nn_conv2d(70, 70, 5, .padding = 2, .groups = 70), act[1], cfx_nn_conv2d(70, 5, 1));
        cfx_tensor *x = cfx_randn(cfx_list(2, 6, 15, 13));
        cfx_program *p = cfx_export(net, cfx_tuple(x), cfx_none(), cfx_none());
        cfx_quantized *q = cfx_quantize(p, cfx_list(cfx_tuple(x)), (cfx_quantize_options){0});
        if (!CHECK(q != NULL))
            return;
        const char *plan = cfx_program_plan(q->program, x);
        CHECK(strstr(plan, " in integers then ") &&
              !strstr(plan, "loop of"));
        CHECK(apart(q->program, x) < 2e-2);
    }
    CHECK_OK();
}

/* Rows of more than two dimensions are rows, not images. */
TEST(plan_multiplies_rows_of_four_dimensions) {
    cfx_module *net = cfx_nn_sequential(cfx_nn_linear(8, 12), cfx_nn_relu(), cfx_nn_linear(12, 5));
    cfx_tensor *x = cfx_randn(cfx_list(2, 3, 4, 8));
    cfx_program *p = cfx_export(net, cfx_tuple(x), cfx_none(), cfx_none());
    cfx_quantized *q = cfx_quantize(p, cfx_list(cfx_tuple(x)), (cfx_quantize_options){0});
    if (!CHECK(q != NULL))
        return;
    CHECK(strstr(cfx_program_plan(q->program, x), "int8 product                       u8[2, 3, 4"));
    CHECK(apart(q->program, x) < 1e-2);
    CHECK_OK();
}

TEST(plan_runs_dynamic_products_in_integers) {
    cfx_manual_seed(4);
    cfx_module *net = cfx_nn_sequential(cfx_nn_linear(30, 70), cfx_nn_gelu(), cfx_nn_linear(70, 9));
    cfx_tensor *x = cfx_randn(cfx_list(5, 30));
    cfx_program *p = cfx_export(net, cfx_tuple(x), cfx_none(), cfx_none());
    for (int per = CFX_QUANTIZE_CHANNEL; per <= CFX_QUANTIZE_TENSOR; per++) {
        cfx_quantize_options o = {.scheme = CFX_QUANTIZE_DYNAMIC, .per = (cfx_quantize_per)per};
        cfx_quantized *q = cfx_quantize(p, cfx_none(), o);
        if (!CHECK(q != NULL))
            return;
        const char *plan = cfx_program_plan(q->program, x);
        CHECK(strstr(plan, "int8 product, rounding") && strstr(plan, " in integers then ") &&
              !strstr(plan, "loop of"));
        CHECK(apart(q->program, x) < 1e-2);
        CHECK(apart(q->program, cfx_mul(x, 1000)) < 1e-2);
        CHECK(apart(q->program, cfx_neg(cfx_abs(x))) < 1e-2);
        cfx_tensor *halves = cfx_to(cfx_reshape(cfx_remainder(cfx_arange(150), 3), cfx_list(5, 30)),
                                    cfx_f32); /* 1 is 127.5 steps of 2 / 255 */
        CHECK(apart(q->program, halves) < 1e-2);
        static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f};
        for (int i = 0; i < COUNT(odd); i++) {
            cfx_tensor *y = cfx_clone(x);
            ((float *)y->data)[31] = odd[i];
            ((float *)y->data)[33] = -odd[i];
            CHECK_INT(cfx_integer(cfx_item(cfx_sum(cfx_isnan(planned(q->program, y))))), 45);
        }
    }
    CHECK_OK();
}

/* What a watcher wants to see has a value, and the rest stays in integers. */
TEST(plan_shows_values_inside_islands) {
    cfx_program *p = residual_program(4);
    cfx_tensor *x = cfx_randn(cfx_list(2, 4, 7, 7));
    cfx_quantized *q = cfx_quantize(p, cfx_list(cfx_tuple(x)), (cfx_quantize_options){0});
    cfx_module *gm = q ? cfx_program_module(q->program) : NULL;
    cfx_dict *seen = gm ? cfx_tap(gm, "op:relu", x) : NULL;
    if (!CHECK(seen && seen->len == 2))
        return;
    CHECK_INT(cfx_tensor_dtype(cfx_as_tensor(seen->entries[0].value)), CFX_F32);
    CHECK(cfx_number(cfx_item(cfx_min(seen->entries[0].value))) >= 0);
    CHECK_OK();
}

/* The first node that calls an operator whose name holds a word. */
static cfx_node *call_of(cfx_program *p, const char *word) {
    cfx_each_node(p->module->graph, n) {
        if (n->op == CFX_CALL_FUNCTION && strstr(n->target.name, word))
            return n;
    }
    return NULL;
}

/* Scales, zero points and least scales that integers do not compute with stay in float32, and give
 * what the interpreter gives. */
TEST(plan_leaves_odd_scales_to_floats) {
    cfx_manual_seed(5);
    cfx_module *net = cfx_nn_sequential(cfx_nn_linear(6, 4));
    cfx_tensor *x = cfx_randn(cfx_list(3, 6));
    cfx_program *p = cfx_export(net, cfx_tuple(x), cfx_none(), cfx_none());
    static const struct {
        int arg;
        double value;
    } odd[] = {{1, INFINITY}, {1, NAN}, {1, 1e30}, {1, -0.5}, {1, 1e-30}, {2, 4294967296.0}};
    for (int i = 0; i < COUNT(odd); i++) {
        cfx_quantized *q = cfx_quantize(p, cfx_list(cfx_tuple(x)), (cfx_quantize_options){0});
        cfx_value v = odd[i].arg == 1 ? cfx_float(odd[i].value) : cfx_int((int64_t)odd[i].value);
        if (!CHECK(q != NULL) ||
            !CHECK(cfx_node_set_arg(call_of(q->program, "dequantize_per_tensor"), odd[i].arg, v)))
            return;
        CHECK(!strstr(cfx_program_plan(q->program, x), "int8 product"));
    }
    cfx_quantized *nan = cfx_quantize(p, cfx_list(cfx_tuple(x)), (cfx_quantize_options){0});
    cfx_value bias = cfx_dict_get(nan->program->state, "0.bias");
    if (!CHECK(bias.tag == CFX_TAG_TENSOR))
        return;
    ((float *)cfx_as_tensor(bias)->data)[1] = NAN;
    CHECK(!strstr(cfx_program_plan(nan->program, x), "int8 product"));
    cfx_quantize_options dynamic = {.scheme = CFX_QUANTIZE_DYNAMIC};
    cfx_quantized *q = cfx_quantize(p, cfx_none(), dynamic);
    if (!CHECK(q != NULL) ||
        !CHECK(cfx_node_set_arg(call_of(q->program, "choose_qparams"), 3, cfx_float(0.5))))
        return;
    CHECK(!strstr(cfx_program_plan(q->program, x), "int8 product"));
    CHECK(apart(q->program, x) < 1e-5);
    CHECK_OK();
}

/* ---- packed weights -------------------------------------------------------------------------- */

/* How many forms weights of bytes have, all together; *n: how many weights have some. */
static int forms_in(const cfx_dict *tensors, int *n) {
    int forms = 0;
    for (int64_t i = 0; i < tensors->len; i++) {
        const cfx_value v = tensors->entries[i].value;
        if (v.tag != CFX_TAG_TENSOR || cfx_as_tensor(v)->dtype != CFX_I8)
            continue;
        const cfx__packed *first = cfx_as_tensor(v)->storage->packed;
        *n += first != NULL;
        for (const cfx__packed *f = first; f; f = f->next)
            forms++;
    }
    return forms;
}

/* Plans for other numbers of threads pack nothing anew. */
TEST(plans_share_packed_weights_of_bytes) {
    cfx_program *p = residual_program(16);
    cfx_tensor *x = cfx_randn(cfx_list(2, 16, 7, 7));
    cfx_quantized *q = cfx_quantize(p, cfx_list(cfx_tuple(x)), (cfx_quantize_options){0});
    const int before = cfx_get_num_threads();
    if (!CHECK(q != NULL))
        return;
    for (int threads = 1; threads < 4; threads++) {
        cfx_set_num_threads(threads);
        CHECK(apart(q->program, x) < 1e-2);
    }
    cfx_set_num_threads(before);
    int weights = 0, forms = forms_in(q->program->state, &weights);
    forms += forms_in(q->program->constants, &weights);
    CHECK_INT(weights, 4);
    CHECK_INT(forms, 4);
    CHECK_OK();
}

/* What strides reach of an input is there while it is calibrated. */
TEST(quantize_copies_inputs_as_they_lie) {
    cfx_module *m = cfx_module_parse(
        "def forward(self, x):\n"
        "    w = self.w\n"
        "    y = torch.ops.aten.linear.default(x, w);  w = None\n"
        "    z = torch.ops.aten.as_strided.default(x, [2], [5], 0);  x = None\n"
        "    return (y, z)\n", "m.fx");
    cfx_module_set_attr(m, "w", cfx_tensor_value(cfx_randn(cfx_list(2, 2))));
    cfx_tensor *x = cfx_as_strided(cfx_arange(6.0), cfx_list(2, 2), cfx_list(3, 2), 0);
    cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE);
    CHECK_OK();
    cfx_quantized *q = cfx_quantize(p, cfx_list(cfx_tuple(x)), (cfx_quantize_options){0});
    CHECK_OK();
    CHECK_STR(cfx_str(cfx_at(cfx_program_run(q->program, x), 1)), "tensor([0., 5.])");
    CHECK_OK();
}
