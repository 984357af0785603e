/* Recurrent layers, against cfx's own operators. */
#include "kernel_test.h"
#include "numbers.h"

enum { LAYERS = 3, MOST = 2 * LAYERS };

/* A packed matrix [n, k]; the caller frees it. */
static float *packed(cfx_tensor *w) {
    const int64_t *size = cfx_tensor_shape(w);
    float *to = cfx__alloc((size_t)cfx__pack_panels_floats(size[1], size[0]) * sizeof *to);
    cfx__pack_panels(cfx_tensor_data(w), 1, size[1], size[1], size[0], to);
    return to;
}

static cfx_tensor *drawn(int ndim, const int64_t *shape) {
    return cfx_mul(test_noise(CFX_F32, ndim, shape), 0.15);
}

static bool same(const float *got, cfx_tensor *want) {
    want = cfx_contiguous(want);
    for (int64_t i = 0; i < cfx_tensor_numel(want); i++)
        if (!CHECK_NEAR(got[i], cfx_tensor_get(want, i), 3e-5))
            return false;
    return CHECK_OK();
}

/* One network; 4 gates: LSTM, 3: GRU, 1: tanh. */
static bool agrees(int64_t gates, int64_t layers, int64_t directions, int64_t steps, int64_t batch,
                   int64_t hidden, int64_t projected) {
    const int64_t size = 7, given = projected ? projected : hidden, all = layers * directions;
    NAME_recurrent_weights w[MOST] = {{0}};
    bool held;
    CFX_SCOPE {
        cfx_value params[MOST * 5];
        int n = 0;
        for (int64_t i = 0; i < all; i++) {
            const int64_t wide = i < directions ? size : directions * given;
            cfx_tensor *ih = drawn(2, (int64_t[]){gates * hidden, wide});
            cfx_tensor *hh = drawn(2, (int64_t[]){gates * hidden, given});
            cfx_tensor *bi = drawn(1, (int64_t[]){gates * hidden});
            cfx_tensor *bh = drawn(1, (int64_t[]){gates * hidden});
            cfx_tensor *hr = drawn(2, (int64_t[]){given, hidden});
            params[n++] = cfx_tensor_value(ih), params[n++] = cfx_tensor_value(hh);
            params[n++] = cfx_tensor_value(bi), params[n++] = cfx_tensor_value(bh);
            if (projected)
                params[n++] = cfx_tensor_value(hr);
            w[i] = (NAME_recurrent_weights){packed(ih), packed(hh), cfx_tensor_data(bi),
                                            cfx_tensor_data(bh), projected ? packed(hr) : NULL};
        }
        const bool first = steps % 2; /* batch first */
        cfx_tensor *x = test_noise(CFX_F32, 3, first ? (int64_t[]){batch, steps, size}
                                                     : (int64_t[]){steps, batch, size});
        cfx_tensor *h = drawn(3, (int64_t[]){all, batch, given});
        cfx_tensor *c = drawn(3, (int64_t[]){all, batch, hidden});
        cfx_value list = cfx_list_value(n, params), no = cfx_bool(false);
        cfx_value two = cfx_bool(directions == 2), order = cfx_bool(first), yes = cfx_bool(true);
        cfx_value want =
            gates == 4 ? cfx_lstm(x, cfx_list(h, c), list, yes, layers, 0.0, no, two, order)
            : gates == 3 ? cfx_gru(x, h, list, yes, layers, 0.0, no, two, order)
                         : cfx_rnn_tanh(x, h, list, yes, layers, 0.0, no, two, order);
        const int64_t wide = directions * given;
        NAME_recurrent_shape s = {.steps = steps, .batch = batch, .size = size, .hidden = hidden,
                                  .given = given, .gates = gates, .layers = layers,
                                  .directions = directions};
        s.x[0] = first ? size : batch * size, s.x[1] = first ? steps * size : size;
        s.out[0] = first ? wide : batch * wide, s.out[1] = first ? steps * wide : wide;
        float *out = cfx__alloc((size_t)(steps * batch * wide) * sizeof *out + 1);
        float *scratch = cfx__alloc((size_t)cfx__pack_recurrent_scratch(&(cfx__pack_recurrent){
            steps, batch, size, hidden, given, gates, layers, directions}));
        float *hs = cfx_tensor_data(h), *cs = cfx_tensor_data(c);
        if (gates == 4)
            NAME_recurrent(&s, w, NAME_lstm_step, cfx_tensor_data(x), hs, cs, out, scratch);
        else
            NAME_recurrent(&s, w, gates == 3 ? NAME_gru_step : NAME_rnn_tanh_step,
                           cfx_tensor_data(x), hs, NULL, out, scratch);
        held = same(out, cfx_tensor_at(want, 0)) && same(hs, cfx_tensor_at(want, 1)) &&
               (gates != 4 || same(cs, cfx_tensor_at(want, 2)));
        for (int64_t i = 0; i < all; i++)
            cfx__free((void *)w[i].input), cfx__free((void *)w[i].state),
                cfx__free((void *)w[i].projected);
        cfx__free(out), cfx__free(scratch);
    }
    return held;
}

KERNEL_TEST(recurrent) {
    const int64_t gates[] = {4, 3, 1};
    for (int i = 0; i < COUNT(gates); i++)
        for (int64_t steps = 1; steps <= 70; steps = 3 * steps + 2)
            for (int64_t batch = 1; batch <= 5; batch += 2)
                for (int64_t way = 0; way < 6; way++)
                    if (!CHECK(agrees(gates[i], 1 + way % 3, 1 + way / 3, steps, batch,
                                      9 + 8 * batch, 0)))
                        return;
    CHECK(agrees(4, 2, 2, 5, 3, 11, 6) && agrees(4, 1, 1, 40, 1, 20, 18));
}
