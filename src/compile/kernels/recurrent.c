/* recurrent: layers that go through a sequence step by step: LSTM, GRU, and tanh or relu alone.
 *
 * What a layer makes of its input does not wait for the step before, so it is one product for many
 * steps; each step then adds the product of its state. */

typedef struct {
    ptrdiff_t steps, batch, size; /* size: elements of an input */
    ptrdiff_t hidden, given;      /* given: of a state that is given on, projected or not */
    ptrdiff_t gates;              /* LSTM: 4, GRU: 3, else 1 */
    ptrdiff_t layers, directions;
    ptrdiff_t x[2], out[2];       /* strides of steps and batch; elements are without gaps */
} NAME_recurrent_shape;

/* Of one layer and direction: panels of [size][gates * hidden] and [given][gates * hidden], and
 * biases, which may be NULL; of a projection [hidden][given]. */
typedef struct {
    const float *input, *state, *input_bias, *state_bias, *projected;
} NAME_recurrent_weights;

/* One state after another: from what input and state give the gates, in place. */
typedef void NAME_recurrent_step(const float *x, const float *s, float *restrict h,
                                 float *restrict c, ptrdiff_t n);

static void NAME_lstm_step(const float *x, const float *s, float *restrict h,
                           float *restrict c, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) {
        const float in = NAME_sigmoid(x[i] + s[i]), keep = NAME_sigmoid(x[n + i] + s[n + i]);
        const float new = NAME_tanh(x[2 * n + i] + s[2 * n + i]);
        const float out = NAME_sigmoid(x[3 * n + i] + s[3 * n + i]), cell = keep * c[i] + in * new;
        c[i] = cell;
        h[i] = out * NAME_tanh(cell);
    }
}

static void NAME_gru_step(const float *x, const float *s, float *restrict h,
                          float *restrict c, ptrdiff_t n) {
    (void)c;
    for (ptrdiff_t i = 0; i < n; i++) {
        const float reset = NAME_sigmoid(x[i] + s[i]), keep = NAME_sigmoid(x[n + i] + s[n + i]);
        const float new = NAME_tanh(x[2 * n + i] + reset * s[2 * n + i]);
        h[i] = (1.f - keep) * new + keep * h[i];
    }
}

static void NAME_rnn_tanh_step(const float *x, const float *s, float *restrict h,
                               float *restrict c, ptrdiff_t n) {
    (void)c;
    for (ptrdiff_t i = 0; i < n; i++)
        h[i] = NAME_tanh(x[i] + s[i]);
}

static void NAME_rnn_relu_step(const float *x, const float *s, float *restrict h,
                               float *restrict c, ptrdiff_t n) {
    (void)c;
    for (ptrdiff_t i = 0; i < n; i++)
        h[i] = x[i] + s[i] < 0 ? 0 : x[i] + s[i];
}

/* Steps whose inputs are multiplied at once: no more than take half the room of the layer's own
 * input and result. */
static ptrdiff_t NAME_recurrent_steps(const NAME_recurrent_shape *s) {
    enum { MOST = 16 };
    const ptrdiff_t given = s->steps * (s->size + s->directions * s->given);
    const ptrdiff_t fit = given / (2 * s->gates * s->hidden);
    return fit < 1 ? 1 : fit < MOST ? fit : MOST;
}

/* One layer in one direction. `h` and `c` are the state, [batch][given] and [batch][hidden]. The
 * result may lie where the input does: steps are written after they are read. */
static void NAME_recurrent_layer(const NAME_recurrent_shape *s, const NAME_recurrent_weights *w,
                                 NAME_recurrent_step *step, ptrdiff_t size, const float *x,
                                 const ptrdiff_t *x_stride, int backward, float *h, float *c,
                                 float *out, const ptrdiff_t *out_stride, float *scratch) {
    const ptrdiff_t n = s->gates * s->hidden, b = s->batch;
    const NAME_epilogue of_x = {.bias = w->input_bias, .low = -INFINITY, .high = INFINITY};
    const NAME_epilogue of_h = {.bias = w->state_bias, .low = -INFINITY, .high = INFINITY};
    const NAME_epilogue plain = {.low = -INFINITY, .high = INFINITY};
    const ptrdiff_t most = NAME_recurrent_steps(s);
    float *from_x = scratch, *from_h = from_x + most * b * n;
    float *whole = from_h + b * n; /* states before they are projected */
    for (ptrdiff_t done = 0; done < s->steps; done += most) {
        const ptrdiff_t left = s->steps - done;
        const ptrdiff_t count = left < most ? left : most;
        const ptrdiff_t first = backward ? left - count : done;
        const float *from = x + first * x_stride[0];
        if (b == 1 || x_stride[0] == b * x_stride[1])
            NAME_product(count * b, n, size, from, b == 1 ? x_stride[0] : x_stride[1], w->input,
                         from_x, n, &of_x);
        else
            for (ptrdiff_t i = 0; i < count; i++)
                NAME_product(b, n, size, from + i * x_stride[0], x_stride[1], w->input,
                             from_x + i * b * n, n, &of_x);
        for (ptrdiff_t i = 0; i < count; i++) {
            const ptrdiff_t at = backward ? count - 1 - i : i;
            float *to = out + (first + at) * out_stride[0];
            NAME_product(b, n, s->given, h, s->given, w->state, from_h, n, &of_h);
            for (ptrdiff_t q = 0; q < b; q++)
                step(from_x + (at * b + q) * n, from_h + q * n,
                     w->projected ? whole + q * s->hidden : h + q * s->given,
                     c ? c + q * s->hidden : NULL, s->hidden);
            if (w->projected)
                NAME_product(b, s->given, s->hidden, whole, s->hidden, w->projected, h, s->given,
                             &plain);
            for (ptrdiff_t q = 0; q < b; q++)
                memcpy(to + q * out_stride[1], h + q * s->given, (size_t)s->given * sizeof *h);
        }
    }
}

/* All layers; weights by layer, then by direction. `h` and `c` hold the first states and then the
 * last, [layers * directions][batch][given] and [..][hidden]; c is NULL but for LSTM. Layers
 * between are made in `out`, too; of two directions, whose second reads what the first has read,
 * every other one beside it. The scratch holds that, and the gates of some steps. */
static void NAME_recurrent(const NAME_recurrent_shape *s, const NAME_recurrent_weights *w,
                           NAME_recurrent_step *step, const float *x, float *h, float *c,
                           float *out, float *scratch) {
    const ptrdiff_t wide = s->directions * s->given, b = s->batch;
    const ptrdiff_t between[2] = {b * wide, wide};
    const int turns = s->directions > 1 && s->layers > 1;
    float *beside = scratch, *rest = turns ? scratch + s->steps * b * wide : scratch;
    for (ptrdiff_t i = 0; i < s->layers * s->directions; i++) {
        const ptrdiff_t layer = i / s->directions, direction = i % s->directions;
        const int here = !turns || (s->layers - 1 - layer) % 2 == 0; /* in out */
        const int was_here = !turns || !here;
        NAME_recurrent_layer(s, &w[i], step, layer ? wide : s->size,
                             !layer ? x : was_here ? out : beside,
                             !layer ? s->x : was_here ? s->out : between, direction == 1,
                             h + i * b * s->given, c ? c + i * b * s->hidden : NULL,
                             (here ? out : beside) + direction * s->given,
                             here ? s->out : between, rest);
    }
}
