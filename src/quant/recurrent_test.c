/* Recurrent modules with small weights: PyTorch's numbers, states, and what does not fit. */
#include "fx.h"
#include "numbers.h"

#include <cfx/emit.h>
#include <cfx/layers.h>

static cfx_value forward_sequence(cfx_module *self, cfx_args a) {
    return cfx_call_value(self, "o",
                          cfx_py("operator.getitem", cfx_call_value(self, "l", a.v[0]), 0));
}

static cfx_value forward_one(cfx_module *self, cfx_args a) {
    return cfx_call_value_from(CFX_HERE, self, "l", a);
}

static cfx_module *around(cfx_module *l, cfx_forward_fn *forward, const char *inputs) {
    cfx_module *m = cfx_module_new_n("M", forward, inputs);
    cfx_nn_add(m, "l", l);
    if (forward == forward_sequence)
        cfx_nn_add(m, "o", cfx_nn_linear(3, 2));
    cfx_module_train(m, false);
    return m;
}

/* Prepared and converted, with a qconfig for all. */
static cfx_module *converted(cfx_module *m, const char *name) {
    cfx_qconfig q;
    cfx_qconfig_find(name, &q);
    cfx_qconfig_mapping *how = cfx_qconfig_mapping_new();
    cfx_qconfig_mapping_global(how, &q);
    cfx_module *int8 = cfx_convert_fx(cfx_prepare_fx(m, how));
    CHECK_OK();
    return int8;
}

TEST(quantized_lstm_computes_as_there) {
    cfx_manual_seed(0);
    cfx_module *m = around(cfx_nn_lstm(4, 3), forward_sequence, "x");
    cfx_tensor *x = cfx_randn(5, 2, 4);
    cfx_module *int8 = converted(m, "dynamic");
    CHECK_STR(cfx_module_str(cfx_module_find(int8, "l")), "DynamicQuantizedLSTM(4, 3)");
    CHECK_NUMBERS(cfx_forward(int8, x), 0.403070688, -0.545075059, 0.372694939, -0.374858022,
                  0.433430344, -0.613545358, 0.377867699, -0.370297641, 0.405745685, -0.430871904,
                  0.36384812, -0.315798551, 0.379398555, -0.41040653, 0.390275806, -0.436979264,
                  0.389212251, -0.413194329, 0.412981093, -0.542915702);
    CHECK_OK();
}

TEST(quantized_gru_computes_as_there) {
    cfx_manual_seed(0);
    cfx_module *m = around(cfx_nn_gru(4, 3), forward_sequence, "x");
    cfx_tensor *x = cfx_randn(5, 2, 4);
    CHECK_NUMBERS(cfx_forward(converted(m, "dynamic"), x), -0.131004348, 0.229860902, -0.244262725,
                  0.226945803, 0.0918326974, 0.360323071, -0.108782768, 0.258151591, 0.164423198,
                  0.41532746, -0.450660586, 0.185752258, 0.245376647, 0.377909184, -0.483969063,
                  0.193255022, -0.113370448, 0.321184427, -0.212674633, 0.243623942);
    CHECK_OK();
}

TEST(quantized_cells_compute_as_there) {
    cfx_manual_seed(0);
    cfx_module *m = around(cfx_nn_lstm_cell(4, 3), forward_one, "x");
    cfx_tensor *x = cfx_randn(2, 4);
    cfx_value y = cfx_forward_value(converted(m, "dynamic"), x);
    CHECK_NUMBERS(cfx_tensor_at(y, 0), -0.103557415, 0.0325650088, 0.0608856641, -0.0637224019,
                  -0.038503591, -0.0276401881);
    CHECK_OK();
}

/* Two layers, both ways, in batches first, from a state that is given. */
TEST(quantized_recurrent_modules_have_layers_directions_and_states) {
    cfx_manual_seed(0);
    cfx_tensor *x = cfx_randn(2, 5, 4), *h = cfx_randn(4, 2, 3);
    cfx_module *l = cfx_nn_lstm(4, 3, .num_layers = 2, .bidirectional = true, .batch_first = true);
    cfx_module *m = around(l, forward_one, "x, state=None");
    cfx_module *int8 = converted(m, "per_channel_dynamic");
    cfx_value state = cfx_tuple(h, h), got = cfx_forward_value(int8, x, state);
    cfx_value want = cfx_forward_value(m, x, state);
    if (!CHECK_OK())
        return;
    CHECK_SHAPE(cfx_tensor_at(got, 0), "[2, 5, 6]");
    CHECK_SHAPE(cfx_tensor_at(cfx_at(got, 1), 1), "[4, 2, 3]");
    for (int i = 0; i < 2; i++) {
        cfx_tensor *a = i ? cfx_tensor_at(cfx_at(got, 1), 1) : cfx_tensor_at(got, 0);
        cfx_tensor *b = i ? cfx_tensor_at(cfx_at(want, 1), 1) : cfx_tensor_at(want, 0);
        CHECK(cfx_number(cfx_item(cfx_max(cfx_abs(cfx_sub(a, b))))) < 0.02);
    }
}

TEST(quantized_recurrent_modules_refuse) {
    cfx_manual_seed(0);
    cfx_module *m = converted(around(cfx_nn_lstm(4, 3), forward_one, "x, state=None"), "dynamic");
    cfx_forward_value(m, cfx_randn(2, 4));
    CHECK_ERROR("input must have 3 dimensions, got 2");
    cfx_forward_value(m, cfx_randn(5, 2, 3));
    CHECK_ERROR("input.size(-1) must be equal to input_size. Expected 4, got 3");
    cfx_tensor *h = cfx_randn(1, 3, 3);
    cfx_forward_value(m, cfx_randn(5, 2, 4), cfx_tuple(h, h));
    CHECK_ERROR("Expected hidden[0] size (1, 2, 3), got [1, 3, 3]");
    m = converted(around(cfx_nn_gru(4, 3), forward_one, "x, state=None"), "dynamic");
    cfx_forward_value(m, cfx_randn(5, 2, 4), h);
    CHECK_ERROR("Expected hidden size (1, 2, 3), got [1, 3, 3]");
}
