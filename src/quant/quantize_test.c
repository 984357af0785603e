/* Quantized programs: where nodes come in, what they compute, what is refused. */
#include <cfx/emit.h>
#include <cfx/ops.h>

#include "quant.h"
#include "test.h"

#include <math.h>

#define HAS(text, part) CHECK(strstr(text, part) != NULL)
#define HAS_NOT(text, part) CHECK(strstr(text, part) == NULL)

/* conv, batch norm, relu, pool, linear */
static cfx_program *image_program(void) {
    cfx_manual_seed(1);
    cfx_module *net = cfx_nn_sequential(
        cfx_nn_conv2d(3, 8, 3, .padding = 1), cfx_nn_batch_norm2d(8), cfx_nn_relu(),
        cfx_nn_max_pool2d(2), cfx_nn_flatten(), cfx_nn_linear(8 * 4 * 4, 5));
    cfx_module_train(net, false);
    return cfx_export(net, cfx_tuple(cfx_randn(cfx_list(2, 3, 8, 8))), cfx_none(), cfx_none());
}

/* layer norm, linear, gelu, linear, and the input added */
static cfx_program *feed_program(void) {
    cfx_manual_seed(2);
    cfx_module *net =
        cfx_nn_sequential(cfx_nn_layer_norm(16), cfx_nn_linear(16, 32), cfx_nn_gelu(),
                          cfx_nn_linear(32, 16));
    return cfx_export(net, cfx_tuple(cfx_randn(cfx_list(4, 16))), cfx_none(), cfx_none());
}

static cfx_value image_batches(int n) {
    cfx_value all = cfx_list_value(0, NULL);
    for (int i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(all), cfx_tuple(cfx_randn(cfx_list(2, 3, 8, 8))));
    return all;
}

static cfx_value rows(double scale) {
    return cfx_list(cfx_tuple(cfx_mul(cfx_randn(cfx_list(4, 16)), scale)));
}

/* The result of a program on the first batch. */
static cfx_tensor *result(cfx_program *p, cfx_value batches) {
    return cfx_as_tensor(cfx_program_run(p, cfx_at(cfx_at(batches, 0), 0)));
}

static double db(cfx_tensor *want, cfx_tensor *got) {
    cfx_tensor *d = cfx_sub(want, got);
    double signal = cfx_number(cfx_item(cfx_sum(cfx_mul(want, want))));
    return 10 * log10(signal / cfx_number(cfx_item(cfx_sum(cfx_mul(d, d)))));
}

TEST(quantize_static_puts_nodes_around_layers) {
    cfx_program *p = image_program();
    cfx_value batches = image_batches(2);
    cfx_quantized *q = cfx_quantize(p, batches, (cfx_quantize_options){0});
    if (!CHECK(q != NULL))
        return;
    const char *code = cfx_module_code(q->program->module);
    HAS_NOT(code, "batch_norm");
    HAS(code, "quantize_per_tensor = torch.ops.quantized_decomposed.quantize_per_tensor.default("
              "input_1, ");
    HAS(code, "max_pool2d = torch.ops.aten.max_pool2d.default(dequantize_per_tensor_1, [2, 2], [2, "
              "2])");
    HAS(code, "dequantize_per_channel = torch.ops.quantized_decomposed.dequantize_per_channel."
              "default(b__frozen_param0, b__scale_0, b__zero_point_0, 0, -128, 127, torch.int8)");
    HAS_NOT(code, "p_0_weight");
    CHECK(cfx_program_check(q->program));
    CHECK_INT(q->nlayers, 2);
    CHECK_STR(q->layers[0].name, "conv2d");
    CHECK_STR(q->layers[1].op, "aten.linear.default");
    CHECK(q->bytes_after * 3 < q->bytes_before);
    CHECK(db(result(p, batches), result(q->program, batches)) > 30);
    CHECK(db(result(p, batches), result(q->reference, batches)) > 100);
    CHECK_OK();
}

TEST(quantize_pools_share_the_scale_of_what_they_pick_from) {
    cfx_quantized *q = cfx_quantize(image_program(), image_batches(1), (cfx_quantize_options){0});
    cfx_node *pool = q ? cfx_graph_find(q->program->module->graph, "max_pool2d") : NULL;
    if (!CHECK(pool != NULL))
        return;
    cfx_node *before = cfx_node_input(pool, 0), *after = pool->users->user;
    CHECK(cfx_equal_values(cfx_at(before->args, 1), cfx_at(after->args, 1)));
    CHECK(cfx_equal_values(cfx_at(before->args, 2), cfx_at(after->args, 2)));
}

static cfx_tensor *fork_forward(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *y = cfx_max_pool2d(cfx_relu(x), 2);
    return cfx_relu(cfx_call(self, "c", cfx_add_(cfx_call(self, "a", y), cfx_call(self, "b", y))));
}

/* Two layers after one pool, and an addition in place: all of it in integers. */
TEST(quantize_all_layers_that_share_an_input) {
    cfx_manual_seed(5);
    cfx_module *m = cfx_module_new("Fork", fork_forward, "x");
    cfx_nn_add(m, "a", cfx_nn_conv2d(3, 8, 3));
    cfx_nn_add(m, "b", cfx_nn_conv2d(3, 8, 3));
    cfx_nn_add(m, "c", cfx_nn_conv2d(8, 4, 1));
    cfx_value batches = image_batches(1);
    cfx_program *p = cfx_export(m, cfx_at(batches, 0), cfx_none(), cfx_none());
    cfx_quantized *q = cfx_quantize(p, batches, (cfx_quantize_options){0});
    if (!CHECK(q != NULL))
        return;
    for (int i = 0; i < q->nlayers; i++) {
        cfx_node *layer = cfx_graph_find(q->program->module->graph, q->layers[i].name);
        CHECK_STR(cfx_node_input(layer, 0)->target.name,
                  "quantized_decomposed.dequantize_per_tensor.default");
    }
    const char *plan = cfx_program_plan(q->program, cfx_at(cfx_at(batches, 0), 0));
    CHECK(strstr(plan, " in integers + quantize_per_tensor") != NULL);
    CHECK_OK();
}

TEST(quantize_ranges_are_found_in_four_ways) {
    cfx_program *p = feed_program();
    cfx_value batches = rows(1);
    for (int r = CFX_QUANTIZE_HISTOGRAM; r <= CFX_QUANTIZE_PERCENTILE; r++) {
        cfx_quantize_options o = {.range = (cfx_quantize_range)r, .percentile = 99.9};
        cfx_quantized *q = cfx_quantize(p, batches, o);
        CHECK(q && db(result(p, batches), result(q->program, batches)) > 35);
    }
    CHECK_OK();
}

TEST(quantize_dynamic_rounds_as_numbers_come) {
    cfx_program *p = feed_program();
    cfx_quantized *q =
        cfx_quantize(p, cfx_none(), (cfx_quantize_options){.scheme = CFX_QUANTIZE_DYNAMIC});
    if (!CHECK(q != NULL))
        return;
    const char *code = cfx_module_code(q->program->module);
    HAS(code, "torch.ops.quantized_decomposed.choose_qparams.tensor(layer_norm, 0, 255, "
              "1.1920928955078125e-07, torch.uint8)");
    HAS(code, "torch.ops.quantized_decomposed.quantize_per_tensor.tensor(layer_norm, getitem, "
              "getitem_1, 0, 255, torch.uint8)");
    for (double scale = 1e-3; scale < 1e4; scale *= 100) {
        cfx_value batch = rows(scale);
        CHECK(db(result(p, batch), result(q->program, batch)) > 35);
    }
    CHECK_OK();
}

/* A convolution that is added to, of images as many as one likes. */
static cfx_tensor *added_forward(cfx_module *self, cfx_tensor *x) {
    return cfx_add(cfx_call(self, "conv", x), x);
}

TEST(quantize_sizes_that_vary) {
    cfx_manual_seed(3);
    cfx_module *m = cfx_module_new("M", added_forward, "x");
    cfx_nn_add(m, "conv", cfx_nn_conv2d(3, 3, 3, .padding = 1));
    cfx_dict *dims = cfx_dict_new(), *dynamic = cfx_dict_new();
    cfx_dict_put(dims, cfx_int(0), cfx_string_value("batch"));
    cfx_dict_set(dynamic, "x", cfx_dict_value(dims));
    cfx_value batch = cfx_list(cfx_tuple(cfx_randn(cfx_list(2, 3, 8, 8))));
    cfx_program *p = cfx_export(m, cfx_at(batch, 0), cfx_none(), cfx_dict_value(dynamic));
    cfx_quantized *q = cfx_quantize(p, batch, (cfx_quantize_options){0});
    if (CHECK_OK() && CHECK(q != NULL))
        CHECK(db(result(p, batch), result(q->program, batch)) > 30);
}

TEST(quantize_weights_by_tensor_channel_and_group) {
    cfx_program *p = feed_program();
    cfx_value batch = rows(1);
    cfx_tensor *w = cfx_randn(cfx_list(32, 16)); /* rows of their own size, with far numbers */
    for (int i = 0; i < 32; i++)
        for (int k = 0; k < 16; k++)
            ((float *)cfx_tensor_data(w))[16 * i + k] *= (float)(1 + i) * (k == 3 ? 8 : 1);
    cfx_dict *state = cfx_dict_new();
    cfx_dict_set(state, "1.weight", cfx_tensor_value(w));
    CHECK(cfx_program_load_state_dict(p, state, false));
    double was = 0;
    static const cfx_quantize_per finer[] = {CFX_QUANTIZE_TENSOR, CFX_QUANTIZE_CHANNEL,
                                             CFX_QUANTIZE_GROUP};
    for (int i = 0; i < COUNT(finer); i++) {
        cfx_quantize_options o = {
            .scheme = CFX_QUANTIZE_WEIGHT, .bits = 4, .per = finer[i], .group = 4};
        cfx_quantized *q = cfx_quantize(p, cfx_none(), o);
        if (!CHECK(q != NULL))
            return;
        double now = db(result(p, batch), result(q->program, batch));
        CHECK(now > was);
        was = now;
        if (finer[i] == CFX_QUANTIZE_GROUP)
            HAS(cfx_module_code(q->program->module),
                "dequantize_per_channel_group.default(sub, b__scale_0, None, -8, 7, torch.int8, 4, "
                "torch.float32)");
    }
    CHECK_OK();
}

/* Two numbers lie in a byte, and the scale with the least error is taken: the number farthest out
 * is -8 of it, or near that. */
TEST(quantize_stores_two_numbers_of_4_bits_in_a_byte) {
    cfx_module *net = cfx_nn_sequential(cfx_nn_linear(4, 2, .no_bias = true));
    cfx_tensor *w = cfx_tensor_new(CFX_F32, 2, (int64_t[]){2, 4},
                                   (float[]){1, -2, 3, 4, -8, -1, 0, 7});
    cfx_program *p = cfx_export(net, cfx_tuple(cfx_ones(cfx_list(1, 4))), cfx_none(), cfx_none());
    cfx_dict *state = cfx_dict_new();
    cfx_dict_set(state, "0.weight", cfx_tensor_value(w));
    CHECK(cfx_program_load_state_dict(p, state, false));
    cfx_quantize_options o = {.scheme = CFX_QUANTIZE_WEIGHT, .bits = 4};
    cfx_quantized *q = cfx_quantize(p, cfx_none(), o);
    if (!CHECK(q != NULL))
        return;
    HAS(cfx_module_code(q->program->module),
        "    bitwise_and = torch.ops.aten.bitwise_and.Scalar(b__frozen_param0, 15)\n"
        "    bitwise_right_shift = torch.ops.aten.bitwise_right_shift.Tensor_Scalar("
        "b__frozen_param0, 4);  b__frozen_param0 = None\n"
        "    stack = torch.ops.aten.stack.default([bitwise_and, bitwise_right_shift], -1);  "
        "bitwise_and = bitwise_right_shift = None\n"
        "    view = torch.ops.aten.view.default(stack, [2, 4]);  stack = None\n"
        "    to = torch.ops.aten.to.dtype(view, torch.int8);  view = None\n"
        "    sub = torch.ops.aten.sub.Tensor(to, 8);  to = None\n");
    CHECK_STR(cfx_str(cfx_dict_get(q->program->state, "_frozen_param0")),
              "tensor([[198,   2],\n        [112, 248]], dtype=torch.uint8)");
    CHECK_STR(cfx_str(cfx_dict_get(q->program->state, "_scale_0")), "tensor([-0.5000,  1.0000])");
    CHECK_OK();
}

/* Tables have 8 bits, and what shares their numbers with them. */
static cfx_tensor *tied_forward(cfx_module *self, cfx_tensor *ids) {
    cfx_tensor *table = cfx_attr(self, "words");
    return cfx_linear(cfx_embedding(table, ids), table);
}

TEST(quantize_weights_of_tables_and_what_is_tied_to_them) {
    cfx_module *m = cfx_module_new("Tied", tied_forward, "ids");
    cfx_nn_parameter(m, "words", cfx_randn(cfx_list(50, 16)));
    cfx_tensor *ids = cfx_tensor_from_value(cfx_list(3, 49, 0));
    cfx_program *p = cfx_export(m, cfx_tuple(ids), cfx_none(), cfx_none());
    cfx_quantize_options o = {.scheme = CFX_QUANTIZE_WEIGHT, .bits = 4};
    cfx_quantized *q = cfx_quantize(p, cfx_none(), o);
    if (!CHECK(q != NULL))
        return;
    CHECK_INT(q->nlayers, 2);
    CHECK_INT(q->bytes_after, 50 * 16 + 50 * 4 + 50 * 8);
    const char *plan = cfx_program_plan(q->program, ids);
    CHECK(strstr(plan, "rows of int8 weights") && strstr(plan, "product, int8 weights"));
    CHECK(db(cfx_as_tensor(cfx_program_run(p, ids)),
             cfx_as_tensor(cfx_program_run(q->program, ids))) > 40);
    cfx_program_run(q->program, cfx_tensor_from_value(cfx_list(3, 50, 0)));
    CHECK_ERROR("index out of range in self");
}

TEST(quantize_smoothing_keeps_the_float_program) {
    cfx_program *p = feed_program();
    cfx_dict *state = cfx_dict_new(); /* a channel of the norm that is far larger than the others */
    cfx_tensor *w = cfx_ones(cfx_list(16));
    ((float *)cfx_tensor_data(w))[3] = 200;
    cfx_dict_set(state, "0.weight", cfx_tensor_value(w));
    CHECK(cfx_program_load_state_dict(p, state, false));
    cfx_value batches = rows(1);
    cfx_quantized *rough = cfx_quantize(p, batches, (cfx_quantize_options){0});
    cfx_quantized *smooth = cfx_quantize(p, batches, (cfx_quantize_options){.smooth = 0.5});
    if (!CHECK(rough && smooth))
        return;
    cfx_tensor *want = result(p, batches);
    CHECK(db(want, result(smooth->reference, batches)) > 100);
    CHECK(db(want, result(smooth->program, batches)) >
          db(want, result(rough->program, batches)) + 3);
    CHECK_OK();
}

TEST(quantize_biases_take_the_mean_error) {
    cfx_program *p = feed_program();
    cfx_value batches = rows(1);
    cfx_quantize_options o = {.scheme = CFX_QUANTIZE_WEIGHT, .bits = 4, .keep_bias = true};
    cfx_quantized *plain = cfx_quantize(p, batches, o);
    o.keep_bias = false;
    cfx_quantized *corrected = cfx_quantize(p, batches, o);
    if (!CHECK(plain && corrected))
        return;
    cfx_tensor *want = result(p, batches);
    CHECK(db(want, result(corrected->program, batches)) >
          db(want, result(plain->program, batches)));
}

static cfx_tensor *both_forward(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *y = cfx_call(self, "line", x);
    return cfx_add(cfx_call(self, "conv", x), y);
}

/* A window over rows without a batch, whose channels come first; and a product of the same rows,
 * whose channels come last. */
TEST(quantize_biases_by_the_channels_of_each_layer) {
    cfx_manual_seed(4);
    cfx_module *m = cfx_module_new("Both", both_forward, "x");
    cfx_nn_add(m, "line", cfx_nn_linear(6, 6));
    cfx_nn_add(m, "conv", cfx_nn_conv1d(3, 3, 3, .padding = 1));
    cfx_tensor *x = cfx_add(cfx_randn(cfx_list(3, 6)), cfx_reshape(cfx_arange(18), cfx_list(3, 6)));
    cfx_quantize_options o = {.scheme = CFX_QUANTIZE_WEIGHT, .bits = 4};
    cfx_value alone = cfx_list(cfx_tuple(x)), batch = cfx_list(cfx_tuple(cfx_unsqueeze(x, 0)));
    cfx_program *p = cfx_export(m, cfx_at(alone, 0), cfx_none(), cfx_none());
    cfx_program *b = cfx_export(m, cfx_at(batch, 0), cfx_none(), cfx_none());
    cfx_quantized *q = cfx_quantize(p, alone, o), *of_batch = cfx_quantize(b, batch, o);
    if (!CHECK(q && of_batch))
        return;
    cfx_tensor *got = result(q->program, alone), *want = result(of_batch->program, batch);
    CHECK(db(result(p, alone), got) > 20);
    CHECK(cfx_is_true(cfx_allclose(got, cfx_squeeze(want, 0), 1e-5, 1e-5)));
    CHECK_OK();
}

TEST(quantize_report_has_the_worst_first) {
    cfx_value batches = rows(1);
    cfx_quantized *q = cfx_quantize(feed_program(), batches, (cfx_quantize_options){.bits = 4});
    cfx_quantize_report *r = q ? cfx_quantize_compare(q, batches) : NULL;
    if (!CHECK(r != NULL))
        return;
    CHECK_INT(r->nlayers, 2);
    CHECK_INT(r->noutputs, 1);
    CHECK(r->layers[0].db <= r->layers[1].db);
    for (int i = 0; i < 2; i++)
        CHECK(r->layers[i].own >= r->layers[i].db - 1);
    CHECK_NEAR(r->db, db(result(q->reference, batches), result(q->program, batches)), 1e-3);
}

TEST(quantize_to_a_target_leaves_the_noisiest_in_float) {
    cfx_program *p = feed_program();
    cfx_value batches = rows(1);
    cfx_quantize_options o = {.bits = 4};
    cfx_quantized *all = cfx_quantize(p, batches, o);
    double least = cfx_quantize_compare(all, batches)->db;
    cfx_quantized *q = cfx_quantize_to(p, batches, batches, least + 1, o);
    if (CHECK(q != NULL)) {
        CHECK_INT((q->layers[0].left != NULL) + (q->layers[1].left != NULL), 1);
        CHECK(cfx_quantize_compare(q, batches)->db >= least + 1);
    }
    CHECK(cfx_failed(cfx_quantize_to(p, batches, batches, 500, o)));
    CHECK_ERROR("500 dB cannot be reached");
}

TEST(quantize_tied_weights_stay_one) {
    cfx_module *net = cfx_nn_sequential(cfx_nn_linear(8, 8), cfx_nn_relu(), cfx_nn_linear(8, 8));
    cfx_module_set_attr(net, "2.weight", cfx_module_attr(net, "0.weight"));
    cfx_program *p = cfx_export(net, cfx_tuple(cfx_randn(cfx_list(2, 8))), cfx_none(), cfx_none());
    cfx_quantized *q =
        cfx_quantize(p, cfx_none(), (cfx_quantize_options){.scheme = CFX_QUANTIZE_WEIGHT});
    if (!CHECK(q != NULL))
        return;
    int integers = 0;
    for (int64_t i = 0; i < q->program->state->len; i++)
        integers += cfx_tensor_dtype(cfx_as_tensor(q->program->state->entries[i].value)) == CFX_I8;
    CHECK_INT(integers, 1);
    CHECK_OK();
}

TEST(quantize_refuses_what_it_cannot_do) {
    cfx_program *p = feed_program();
    cfx_value none = cfx_list_value(0, NULL);
    CHECK(cfx_failed(cfx_quantize(p, none, (cfx_quantize_options){0})));
    CHECK_ERROR("there are no batches to calibrate with, and static quantization needs them");
    CHECK(cfx_failed(cfx_quantize(p, none,
                        (cfx_quantize_options){.smooth = 0.5, .scheme = CFX_QUANTIZE_WEIGHT})));
    CHECK_ERROR("smoothing needs them");
    CHECK(cfx_failed(cfx_quantize(p, rows(NAN), (cfx_quantize_options){0})));
    CHECK_ERROR("nothing to quantize: of linear_1, its input is NaN or infinite in a calibration "
                "batch");
    CHECK(cfx_failed(cfx_quantize(p, rows(1), (cfx_quantize_options){.bits = 3})));
    CHECK_ERROR("weights of 3 bits: only 8 and 4 are there");
    cfx_quantize_options o = {.skip = cfx_list("nothing")};
    CHECK(cfx_failed(cfx_quantize(p, rows(1), o)));
    CHECK_ERROR("no layer with a weight fits 'nothing'");
    o.skip = cfx_list("linear*");
    CHECK(cfx_failed(cfx_quantize(p, rows(1), o)));
    CHECK_ERROR("there is nothing to quantize: of linear_1, skipped");
    CHECK(cfx_failed(cfx_quantize(p, cfx_list(cfx_tuple(cfx_randn(cfx_list(4, 15)))),
                        (cfx_quantize_options){0})));
    CHECK_ERROR("15");
}

/* As PyTorch's observers have it: the least scale, and it is told. */
TEST(quantize_values_that_are_zero_everywhere) {
    cfx_program *p = image_program();
    cfx_tensor *zeros = cfx_zeros(cfx_list(2, 3, 8, 8));
    for (int range = CFX_QUANTIZE_HISTOGRAM; range <= CFX_QUANTIZE_PERCENTILE; range++) {
        cfx_quantized *q = cfx_quantize(p, cfx_list(cfx_tuple(zeros)),
                                        (cfx_quantize_options){.range = (cfx_quantize_range)range});
        if (!CHECK(q != NULL))
            return;
        CHECK(q->layers[0].flat && !q->layers[q->nlayers - 1].flat);
        CHECK(strstr(cfx_module_code(q->program->module),
                     "(input_1, 1.1920928955078125e-07, 0, 0, 255, torch.uint8)"));
        CHECK(db(cfx_as_tensor(cfx_program_run(p, zeros)),
                 cfx_as_tensor(cfx_program_run(q->program, zeros))) > 30);
    }
    CHECK_OK();
}

static cfx_value parted_forward(cfx_module *self, cfx_args a) {
    cfx_tensor *x = cfx_as_tensor(a.v[0]);
    cfx_tensor *far = cfx_log(cfx_mul(x, 0));
    cfx_tensor *part = cfx_slice(cfx_cat(cfx_list(x, far), 1), 1, 0, 8);
    return cfx_tuple(cfx_call(self, "near", x), cfx_call(self, "far", far),
                     cfx_call(self, "part", part));
}

/* What has no range stays as it is, its bias too, and says so; a part of such a value is one. */
TEST(quantize_leaves_what_is_infinite_in_float) {
    static const char *const names[] = {"near", "far", "part"};
    cfx_module *m = cfx_module_new("Parted", parted_forward, "x");
    for (int i = 0; i < 3; i++)
        cfx_nn_add(m, names[i], cfx_nn_linear(8, 8));
    cfx_tensor *x = cfx_rand(cfx_list(4, 8));
    cfx_program *p = cfx_export(m, cfx_tuple(x), cfx_none(), cfx_none());
    cfx_quantized *q = cfx_quantize(p, cfx_list(cfx_tuple(x)), (cfx_quantize_options){0});
    if (!CHECK(q != NULL && q->nlayers == 3))
        return;
    CHECK(!q->layers[0].left);
    for (int i = 1; i < 3; i++)
        CHECK_STR(q->layers[i].left, "its input is NaN or infinite in a calibration batch");
    cfx_value want = cfx_program_run(p, x), got = cfx_program_run(q->program, x);
    CHECK(db(cfx_tensor_at(want, 0), cfx_tensor_at(got, 0)) > 30);
    CHECK(cfx_as_bool(cfx_equal(cfx_tensor_at(want, 2), cfx_tensor_at(got, 2))));
    CHECK_OK();
}

static cfx_value partly_forward(cfx_module *self, cfx_args a) {
    cfx_tensor *x = cfx_as_tensor(a.v[0]);
    return cfx_tuple(cfx_call(self, "none", x), cfx_call(self, "some", x));
}

TEST(quantize_leaves_weights_without_elements) {
    cfx_module *m = cfx_module_new("Partly", partly_forward, "x");
    cfx_nn_add(m, "none", cfx_nn_linear(8, 0));
    cfx_nn_add(m, "some", cfx_nn_linear(8, 8));
    cfx_tensor *x = cfx_rand(cfx_list(4, 8));
    cfx_program *p = cfx_export(m, cfx_tuple(x), cfx_none(), cfx_none());
    for (int scheme = 0; scheme < 3; scheme++) {
        const cfx_quantize_options how = {.scheme = (cfx_quantize_scheme)scheme};
        cfx_quantized *q = cfx_quantize(p, cfx_list(cfx_tuple(x)), how);
        if (!CHECK(q != NULL && q->nlayers == 2))
            return;
        CHECK_STR(q->layers[0].left, "its weight has no elements");
        CHECK(!q->layers[1].left);
        CHECK_INT(cfx_tensor_at(cfx_program_run(q->program, x), 0)->numel, 0);
    }
    p = cfx_export(m, cfx_tuple(cfx_rand(cfx_list(0, 8))), cfx_none(), cfx_none());
    CHECK(cfx_failed(cfx_quantize(p, CFX_NONE,
                                  (cfx_quantize_options){.scheme = CFX_QUANTIZE_DYNAMIC})));
    CHECK_ERROR("nothing to quantize: of linear_1, its input has no elements");
    CHECK_OK();
}

static cfx_tensor *doubling_forward(cfx_module *self, cfx_tensor *x) {
    cfx_mul_(x, 2);
    return cfx_call(self, "layer", x);
}

/* Every run begins with the caller's batches, and they stay what they are. */
TEST(quantize_runs_programs_that_write_to_their_inputs_on_copies) {
    cfx_manual_seed(3);
    cfx_module *m = cfx_module_new("Doubling", doubling_forward, "x");
    cfx_nn_add(m, "layer", cfx_nn_linear(8, 8));
    cfx_tensor *x = cfx_rand(cfx_list(4, 8)), *was = cfx_clone(x);
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_clone(x)), cfx_none(), cfx_none());
    cfx_value batches = cfx_list(cfx_tuple(x));
    cfx_quantized *q = cfx_quantize(p, batches, (cfx_quantize_options){0});
    CHECK(cfx_as_bool(cfx_equal(x, was)));
    cfx_quantize_report *r = cfx_quantize_compare(q, batches);
    if (!CHECK(r != NULL))
        return;
    CHECK(cfx_as_bool(cfx_equal(x, was)));
    CHECK(r->db > 30);
    CHECK_OK();
}

TEST(quantize_refuses_int8_twice) {
    cfx_program *p = image_program();
    cfx_quantized *q = cfx_quantize(p, image_batches(1), (cfx_quantize_options){0});
    if (!CHECK(q != NULL))
        return;
    CHECK(cfx_failed(cfx_quantize(q->program, image_batches(1), (cfx_quantize_options){0})));
    CHECK_ERROR("there is nothing to quantize: of linear, its weight is quantized already");
}

TEST(quantize_channels_of_zeros_are_told) {
    cfx_program *p = feed_program();
    cfx_dict *state = cfx_dict_new();
    cfx_tensor *w = cfx_randn(cfx_list(32, 16));
    memset(cfx_tensor_data(w), 0, 16 * sizeof(float));
    cfx_dict_set(state, "1.weight", cfx_tensor_value(w));
    CHECK(cfx_program_load_state_dict(p, state, false));
    cfx_quantized *q = cfx_quantize(p, rows(1), (cfx_quantize_options){0});
    if (!CHECK(q != NULL))
        return;
    CHECK_INT(q->layers[0].zeros, 1);
    CHECK(isfinite(cfx_number(cfx_item(cfx_sum(result(q->program, rows(1)))))));
}

/* Programs in half precision keep their dtype: what comes back from integers is halves again. */
TEST(quantize_programs_in_half_precision) {
    static const cfx_dtype halves[] = {CFX_BF16, CFX_F16};
    for (int i = 0; i < COUNT(halves) * 3; i++) {
        cfx_value half = cfx_dtype_value(halves[i / 3]);
        cfx_module *net = cfx_nn_sequential(cfx_nn_conv2d(3, 8, 3), cfx_nn_relu(),
                                            cfx_nn_flatten(), cfx_nn_linear(8 * 36, 10));
        cfx_tensor *x = cfx_to(cfx_randn(cfx_list(2, 3, 8, 8)), half);
        cfx_module_to(net, halves[i / 3]);
        cfx_program *p = cfx_export(net, cfx_tuple(x), cfx_none(), cfx_none());
        cfx_quantize_options o = {.scheme = (cfx_quantize_scheme)(i % 3)};
        cfx_quantized *q = cfx_quantize(p, cfx_list(cfx_tuple(x)), o);
        if (!CHECK(q != NULL))
            return;
        cfx_tensor *y = cfx_as_tensor(cfx_program_run(q->program, x));
        CHECK_INT(cfx_tensor_dtype(y), halves[i / 3]);
        CHECK(db(cfx_as_tensor(cfx_program_run(p, x)), y) > 30);
        CHECK(q->bytes_after < q->bytes_before * 3 / 4);
    }
    CHECK_OK();
}
