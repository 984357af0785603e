/* Weights of 8 and 4 bits in the planned executor: multiplied as they are, with the numbers that
 * the interpreter gives. */
#include <cfx/ops.h>

#include "quant.h"
#include "test.h"

#include <math.h>

static cfx_tensor *gated_forward(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *y = cfx_relu(cfx_call(self, "wide", x));
    return cfx_silu(cfx_add(cfx_call(self, "narrow", y), x));
}

/* Two layers with an activation, a bias and an addition. */
static cfx_program *gated_program(int64_t width, int64_t inner, int64_t rows) {
    cfx_manual_seed(5);
    cfx_module *m = cfx_module_new("Gated", gated_forward, "x");
    cfx_nn_add(m, "wide", cfx_nn_linear(width, inner));
    cfx_nn_add(m, "narrow", cfx_nn_linear(inner, width, .no_bias = true));
    return cfx_export(m, cfx_tuple(cfx_randn(cfx_list(rows, width))), cfx_none(), cfx_none());
}

/* The largest difference between the executors, as a share of the largest result. */
static double apart(cfx_program *p, cfx_tensor *x) {
    const cfx_executor *was = cfx_set_executor(&cfx_planner);
    cfx_tensor *got = cfx_as_tensor(cfx_program_run(p, x));
    cfx_set_executor(&cfx_interpreter);
    cfx_tensor *want = cfx_as_tensor(cfx_program_run(p, x));
    cfx_set_executor(was);
    return cfx_number(cfx_item(cfx_max(cfx_abs(cfx_sub(got, want))))) /
           cfx_number(cfx_item(cfx_max(cfx_abs(want))));
}

static cfx_program *narrow_program(cfx_program *p, int bits, cfx_quantize_per per, int group) {
    cfx_quantize_options o = {.scheme = CFX_QUANTIZE_WEIGHT, .bits = bits, .per = per,
                              .group = group};
    cfx_quantized *q = cfx_quantize(p, cfx_none(), o);
    return q ? q->program : NULL;
}

TEST(plan_multiplies_weights_of_8_and_4_bits) {
    static const int64_t rows[] = {1, 2, 3, 5, 8, 9, 40};
    for (int i = 0; i < COUNT(rows) && cfx_ok(); i++) {
        cfx_program *p = gated_program(96, 160, rows[i]);
        cfx_tensor *x = cfx_randn(cfx_list(rows[i], 96));
        for (int kind = 0; kind < 6; kind++) {
            const int bits = kind % 2 ? 4 : 8;
            cfx_program *q = narrow_program(p, bits, (cfx_quantize_per)(kind / 2), 32);
            if (!CHECK(q != NULL))
                return;
            const char *plan = cfx_program_plan(q, x);
            CHECK(strstr(plan, bits == 4 ? "product, int4 weights" : "product, int8 weights"));
            CHECK(!strstr(plan, "dequantize") && strstr(plan, " bits + x"));
            CHECK(apart(q, x) < 2e-6);
        }
    }
    CHECK_OK();
}

/* Inputs rounded in blocks too: sums of a block are whole numbers, whichever kernel makes them. */
TEST(plan_multiplies_narrow_weights_by_rounded_inputs) {
    static const int64_t rows[] = {1, 2, 3, 5, 6, 7, 40};
    for (int i = 0; i < COUNT(rows) && cfx_ok(); i++) {
        cfx_program *p = gated_program(96, 160, rows[i]);
        cfx_tensor *x = cfx_randn(cfx_list(rows[i], 96));
        for (int kind = 0; kind < 6; kind++) {
            const int bits = kind % 2 ? 4 : 8;
            cfx_quantize_options o = {.scheme = CFX_QUANTIZE_WEIGHT, .bits = bits,
                                      .per = (cfx_quantize_per)(kind / 2), .activations = 8};
            cfx_quantized *q = cfx_quantize(p, cfx_none(), o);
            if (!CHECK(cfx_ok()))
                return;
            const char *plan = cfx_program_plan(q->program, x);
            CHECK(strstr(plan, bits == 4 ? "int4 weights by int8" : "int8 weights by int8"));
            CHECK(!strstr(plan, "per_token") && !strstr(plan, "flatten"));
            CHECK(strstr(plan, "rounded to int8 in blocks of 32"));
            CHECK(apart(q->program, x) < 1e-3); /* a half may go either way */
            const double db = cfx_quantize_compare(q, cfx_list(cfx_tuple(x)))->db;
            CHECK(db > (bits == 4 ? kind / 2 == CFX_QUANTIZE_TENSOR ? 8 : 15 : 35));
        }
    }
    CHECK_OK();
}

/* What is no number spoils the rows that have it, and no others. */
TEST(plan_rounds_what_is_no_number_as_the_interpreter_does) {
    cfx_program *p = gated_program(64, 96, 3);
    cfx_quantize_options o = {.scheme = CFX_QUANTIZE_WEIGHT, .bits = 4, .activations = 8};
    cfx_quantized *q = cfx_quantize(p, cfx_none(), o);
    cfx_tensor *x = cfx_randn(cfx_list(3, 64));
    ((float *)x->data)[7] = NAN;
    ((float *)x->data)[64 + 40] = INFINITY;
    const cfx_executor *was = cfx_set_executor(&cfx_planner);
    cfx_tensor *got = cfx_as_tensor(cfx_program_run(q->program, x));
    cfx_set_executor(&cfx_interpreter);
    cfx_tensor *want = cfx_as_tensor(cfx_program_run(q->program, x));
    cfx_set_executor(was);
    if (!CHECK_OK())
        return;
    for (int64_t i = 0; i < got->numel; i++) {
        const float a = ((const float *)got->data)[i], b = ((const float *)want->data)[i];
        CHECK(isnan(a) == isnan(b) && isnan(a) == (i < 128));
    }
}

static cfx_tensor *pair_forward(cfx_module *self, cfx_tensor *x) {
    return cfx_add(cfx_call(self, "a", x), cfx_call(self, "b", x));
}

TEST(quantize_rounds_activations_once_for_all_that_take_them) {
    cfx_manual_seed(8);
    cfx_module *m = cfx_module_new("Pair", pair_forward, "x");
    cfx_nn_add(m, "a", cfx_nn_linear(64, 40));
    cfx_nn_add(m, "b", cfx_nn_linear(64, 40));
    cfx_tensor *x = cfx_randn(cfx_list(2, 3, 64));
    cfx_program *p = cfx_export(m, cfx_tuple(x), cfx_none(), cfx_none());
    cfx_quantize_options o = {.scheme = CFX_QUANTIZE_WEIGHT, .activations = 8};
    cfx_program *q = cfx_quantize(p, cfx_none(), o)->program;
    int rounds = 0;
    cfx_each_node(q->module->graph, n) rounds += !!strstr(n->name, "choose_qparams_per_token");
    CHECK_INT(rounds, 1);
    CHECK(apart(q, x) < 2e-6);
    CHECK_OK();
}

TEST(quantize_says_which_activations_it_rounds) {
    cfx_program *p = gated_program(48, 96, 3); /* the first layer's rows are one block and a half */
    cfx_quantize_options o = {.scheme = CFX_QUANTIZE_WEIGHT, .activations = 8};
    const char *plan = cfx_program_plan(cfx_quantize(p, cfx_none(), o)->program,
                                        cfx_randn(cfx_list(3, 48)));
    CHECK(strstr(plan, "int8 weights by int8") && strstr(plan, "int8 weights  "));
    CHECK_OK();
    o.scheme = CFX_QUANTIZE_DYNAMIC;
    CHECK(cfx_failed(cfx_quantize(p, cfx_none(), o)));
    CHECK_ERROR("activations of 8 bits in blocks are for weights quantized alone");
    o = (cfx_quantize_options){.scheme = CFX_QUANTIZE_WEIGHT, .activations = 4};
    CHECK(cfx_failed(cfx_quantize(p, cfx_none(), o)));
    CHECK_ERROR("activations of 4 bits: only 8 are there");
}

/* Sizes that end inside a panel, a word and a group. */
TEST(plan_multiplies_narrow_weights_of_odd_sizes) {
    static const int64_t sizes[][2] = {{7, 33}, {13, 5}, {30, 70}, {1, 9}};
    for (int i = 0; i < COUNT(sizes) && cfx_ok(); i++)
        for (int64_t rows = 1; rows <= 17; rows += 8) {
            cfx_program *p = gated_program(sizes[i][0], sizes[i][1], rows);
            cfx_tensor *x = cfx_randn(cfx_list(rows, sizes[i][0]));
            for (int bits = 4; bits <= 8; bits += 4)
                CHECK(apart(narrow_program(p, bits, CFX_QUANTIZE_CHANNEL, 0), x) < 2e-6);
        }
    CHECK_OK();
}

static cfx_tensor *flat_forward(cfx_module *self, cfx_tensor *x) {
    return cfx_addmm(cfx_attr(self, "bias"), cfx_mm(x, cfx_attr(self, "first")),
                     cfx_attr(self, "second"));
}

TEST(plan_multiplies_narrow_weights_that_lie_inputs_first) {
    cfx_manual_seed(6);
    cfx_module *m = cfx_module_new("Flat", flat_forward, "x");
    cfx_nn_parameter(m, "first", cfx_randn(cfx_list(64, 48)));
    cfx_nn_parameter(m, "second", cfx_randn(cfx_list(48, 40)));
    cfx_nn_parameter(m, "bias", cfx_randn(cfx_list(40)));
    cfx_tensor *x = cfx_randn(cfx_list(3, 64));
    cfx_program *p = cfx_export(m, cfx_tuple(x), cfx_none(), cfx_none());
    for (int per = CFX_QUANTIZE_CHANNEL; per <= CFX_QUANTIZE_GROUP; per++) {
        cfx_program *q = narrow_program(p, 8, (cfx_quantize_per)per, 16);
        CHECK(strstr(cfx_program_plan(q, x), "product, int8 weights") != NULL);
        CHECK(apart(q, x) < 2e-6);
    }
    CHECK_OK();
}

/* What somebody looks at is there, and what else reads a weight finds it. */
TEST(plan_shows_weights_that_are_dequantized) {
    cfx_program *p = gated_program(32, 64, 2);
    cfx_tensor *x = cfx_randn(cfx_list(2, 32));
    cfx_program *q = narrow_program(p, 4, CFX_QUANTIZE_GROUP, 32);
    cfx_module *gm = q ? cfx_program_module(q) : NULL;
    cfx_dict *seen = gm ? cfx_tap(gm, "op:dequantize*", x) : NULL;
    if (!CHECK(seen && seen->len == 2))
        return;
    CHECK_INT(cfx_dim(cfx_as_tensor(seen->entries[0].value), 0), 64);
    CHECK_OK();
}

static cfx_tensor *prior_forward(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *y = cfx_relu(cfx_call(self, "wide", cfx_attr(self, "table")));
    return cfx_add(cfx_call(self, "last", x), cfx_tanh(cfx_call(self, "narrow", y)));
}

/* Layers that take constants are constants: computed once, and there for the layer that adds them,
 * whichever kernel it becomes. */
TEST(plan_folds_layers_of_constants) {
    cfx_manual_seed(7);
    cfx_module *m = cfx_module_new("Prior", prior_forward, "x");
    cfx_nn_add(m, "wide", cfx_nn_linear(16, 24));
    cfx_nn_add(m, "narrow", cfx_nn_linear(24, 8));
    cfx_nn_add(m, "last", cfx_nn_linear(12, 8));
    cfx_nn_buffer(m, "table", cfx_randn(cfx_list(3, 16)), true);
    cfx_tensor *x = cfx_randn(cfx_list(3, 12));
    cfx_program *p = cfx_export(m, cfx_tuple(x), cfx_none(), cfx_none());
    static const cfx_quantize_scheme schemes[] = {CFX_QUANTIZE_STATIC, CFX_QUANTIZE_DYNAMIC,
                                                  CFX_QUANTIZE_WEIGHT};
    for (int i = 0; i < 2 * COUNT(schemes); i++) {
        cfx_quantize_options o = {.scheme = schemes[i / 2], .bits = i % 2 ? 4 : 8};
        cfx_quantized *q = cfx_quantize(p, cfx_list(cfx_tuple(x)), o);
        if (!CHECK(q != NULL))
            return;
        CHECK(!strstr(cfx_program_plan(q->program, x), "relu"));
        CHECK(apart(q->program, x) < 2e-6);
    }
    CHECK_OK();
}
