/* Recurrent layers, against cfx's own operators. */
#include "kernels.h"
#include "numbers.h"
#include "player.h"

#include <cfx/ops.h>

static cfx_tensor *drawn(cfx_dtype dtype, int ndim, const int64_t *shape) {
    return cfx_mul(test_noise(dtype, ndim, shape), 0.3);
}
static cfx_value exact(cfx_tensor *t) {
    return cfx_tensor_value(cfx_to(t, cfx_dtype_value(CFX_F64)));
}

static bool agrees(int gates, cfx_dtype dtype, int64_t steps, int64_t batch, int64_t hidden,
                   bool first) {
    const int64_t size = 8, rows = gates * hidden;
    bool held;
    CFX_SCOPE {
        cfx_tensor *wih = drawn(dtype, 2, (int64_t[]){rows, size});
        cfx_tensor *whh = drawn(dtype, 2, (int64_t[]){rows, hidden});
        cfx_tensor *bih = drawn(dtype, 1, &rows), *bhh = drawn(dtype, 1, &rows);
        cfx_tensor *h = drawn(dtype, 2, (int64_t[]){batch, hidden});
        cfx_tensor *c = drawn(dtype, 2, (int64_t[]){batch, hidden});
        cfx_tensor *x = test_noise(dtype, 3, first ? (int64_t[]){batch, steps, size}
                                                   : (int64_t[]){steps, batch, size});
        cfx_value params[] = {exact(wih), exact(whh), exact(bih), exact(bhh)};
        cfx_value list = cfx_list_value(4, params), no = cfx_bool(false), yes = cfx_bool(true);
        cfx_tensor *h1 = cfx_unsqueeze(exact(h), 0), *c1 = cfx_unsqueeze(exact(c), 0);
        cfx_tensor *x1 = cfx_as_tensor(exact(x));
        cfx_value order = cfx_bool(first);
        cfx_value want = gates == 4 ? cfx_lstm(x1, cfx_list(h1, c1), list, yes, 1, 0.0, no, no,
                                               order)
                         : gates == 3 ? cfx_gru(x1, h1, list, yes, 1, 0.0, no, no, order)
                                      : cfx_rnn_tanh(x1, h1, list, yes, 1, 0.0, no, no, order);
        cfx_tensor *out = cfx_zeros_like(first ? cfx_transpose(cfx_tensor_at(want, 0), 0, 1)
                                               : cfx_tensor_at(want, 0));
        out = cfx_to(out, cfx_dtype_value(dtype));
        cfx_tensor *xt = first ? cfx_transpose(x, 0, 1) : x;
        cfx_tensor *hn = cfx_zeros_like(h), *cn = cfx_zeros_like(c);
        cfx__cuda_recurrent_call call = {
            .x = player_array(0, xt), .wih = player_array(1, wih), .whh = player_array(2, whh),
            .bih = player_array(3, bih), .bhh = player_array(4, bhh), .h = player_array(5, h),
            .c = gates == 4 ? player_array(6, c) : PLAYER_NONE, .out = player_array(7, out),
            .hn = player_array(8, hn), .cn = gates == 4 ? player_array(9, cn) : PLAYER_NONE,
            .gates = gates};
        cfx__cuda_work work = {0};
        void *to = player_copy(out), *h_to = player_copy(hn), *c_to = player_copy(cn);
        const double tol = dtype == CFX_F32 ? 3e-6 : 2e-2;
        cfx_tensor *wanted = cfx_tensor_at(want, 0);
        held = CHECK_OK() && CHECK(cfx__cuda_recurrent(&call, &work)) &&
               PLAY(&work, player_copy(xt), player_copy(wih), player_copy(whh), player_copy(bih),
                    player_copy(bhh), player_copy(h), player_copy(c), to, h_to, c_to) &&
               PLAYED(to, out, first ? cfx_transpose(wanted, 0, 1) : wanted, tol) &&
               PLAYED(h_to, hn, cfx_tensor_at(want, 1), tol) &&
               (gates != 4 || PLAYED(c_to, cn, cfx_tensor_at(want, 2), tol));
    }
    return held;
}

TEST(cuda_recurrent) {
    if (!player_runs())
        return;
    CHECK(agrees(4, CFX_F32, 5, 1, 21, true) && agrees(4, CFX_F32, 1, 2, 16, false) &&
          agrees(3, CFX_F32, 4, 3, 8, true) && agrees(1, CFX_F32, 7, 1, 3, false) &&
          agrees(4, CFX_BF16, 3, 2, 16, false) && agrees(4, CFX_F32, 2, 1, 140, false));
}
