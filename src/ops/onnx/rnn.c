/* Recurrent layers. Where ATen has the very layer it is called, with the weights in its order of
 * gates; peepholes, other activations, clipping and sequences of several lengths are written out
 * step by step. Start at run. */
#include "onnx.h"

#include <math.h>

CFX_FAMILY(RECURRENT);

enum { MOST_STEPS = 4096 }; /* that are written out */

typedef enum { RNN, GRU, LSTM } kind;

/* What each row has of arguments, the same for all but the last inputs. */
typedef struct {
    kind kind;
    int gates;
    int alpha, beta, activations, clip, direction, layout, linear, coupled; /* -1: none */
} layout;

static const layout rnn = {RNN, 1, 6, 7, 8, 9, 10, 12, -1, -1};
static const layout gru = {GRU, 3, 6, 7, 8, 9, 10, 12, 13, -1};
static const layout lstm = {LSTM, 4, 8, 9, 10, 11, 12, 15, -1, 14};

typedef struct {
    cfx_op_call *c;
    const layout *l;
    cfx_tensor *x;       /* [steps, batch, features] */
    cfx_tensor *h, *cell; /* [directions, batch, hidden] */
    int64_t steps, batch, hidden, directions;
    bool reverse;        /* the only direction is backwards */
    bool linear;         /* of a GRU: the product comes before the reset */
    bool coupled;        /* of an LSTM: what is not forgotten is not taken in */
} recurrence;

/* ---- arguments ------------------------------------------------------------------------------- */

static cfx_tensor *state(recurrence *r, int i, bool batch_first) {
    cfx_op_call *c = r->c;
    cfx_value d = cfx_dtype_value((cfx_dtype)r->x->dtype);
    if (!T(i))
        return cfx_zeros(cfx_list(r->directions, r->batch, r->hidden), CFX_KW(dtype, d));
    return batch_first ? cfx_transpose(T(i), 0, 1) : T(i);
}

static bool read(recurrence *r) {
    cfx_op_call *c = r->c;
    const char *way = arg_text(c, r->l->direction);
    bool batch_first = arg_bool(c, r->l->layout), both = !strcmp(way, "bidirectional");
    const cfx_tensor *weight = T(2);
    if (T(0)->ndim != 3 || weight->ndim != 3 || T(1)->ndim != 3) {
        op_fail(c, "%s: X, W and R have three dimensions", op_title(c));
        return false;
    }
    r->x = batch_first ? cfx_transpose(T(0), 0, 1) : T(0);
    r->steps = onnx_size(r->x, 0), r->batch = onnx_size(r->x, 1);
    r->directions = both ? 2 : 1, r->hidden = onnx_size(weight, 2);
    r->reverse = !strcmp(way, "reverse");
    r->linear = r->l->linear >= 0 && arg_bool(c, r->l->linear);
    r->coupled = r->l->coupled >= 0 && arg_bool(c, r->l->coupled);
    bool known = both || r->reverse || !strcmp(way, "forward");
    bool fits = onnx_size(weight, 0) == r->directions && onnx_size(T(1), 0) == r->directions &&
                onnx_size(weight, 1) == r->l->gates * r->hidden;
    if (!known || !fits) {
        op_fail(c, "%s: weights of shape %s do not fit the direction '%s'", op_title(c),
                cfx__shape_text(weight->ndim, weight->shape), way);
        return false;
    }
    r->h = state(r, 5, batch_first);
    r->cell = r->l->kind == LSTM ? state(r, 6, batch_first) : NULL;
    return cfx_ok();
}

/* Whether every sequence has all steps. */
static bool are_whole(recurrence *r) {
    cfx_op_call *c = r->c;
    const cfx_tensor *lens = T(4) ? cfx__tensor_known(T(4)) : NULL;
    for (int64_t i = 0; lens && i < lens->numel; i++)
        if (cfx_integer(cfx__tensor_get(lens, i)) != r->steps)
            return false;
    return !T(4) || lens;
}

static const char *activation(const recurrence *r, int64_t i) {
    static const char *const usual[][3] = {
        [RNN] = {"Tanh", "Tanh", "Tanh"},
        [GRU] = {"Sigmoid", "Tanh", "Tanh"},
        [LSTM] = {"Sigmoid", "Tanh", "Tanh"},
    };
    cfx_value given = r->c->args[r->l->activations];
    bool has = given.tag == CFX_TAG_LIST && cfx_as_list(given)->len > i;
    const char *name = has ? cfx_text(cfx_at(given, i)) : NULL;
    int each = r->l->kind == RNN ? 1 : r->l->kind == GRU ? 2 : 3;
    return name ? name : usual[r->l->kind][i % each];
}

/* Whether all activations are those that ATen's layer has. */
static bool is_usual(const recurrence *r) {
    int each = r->l->kind == RNN ? 1 : r->l->kind == GRU ? 2 : 3;
    for (int64_t i = 0; i < each * r->directions; i++) {
        const char *want = r->l->kind != RNN && i % each == 0 ? "sigmoid" : "tanh";
        bool relu = r->l->kind == RNN && !strcasecmp(activation(r, 0), "relu");
        if (strcasecmp(activation(r, i), relu ? "relu" : want))
            return false;
    }
    return arg_is_none(r->c, r->l->clip);
}

/* ---- by ATen --------------------------------------------------------------------------------- */

/* The gates of one direction, [gates * hidden, ...], in ATen's order: of an LSTM i, f, c, o rather
 * than i, o, f, c, of a GRU r, z, h rather than z, r, h. */
static cfx_tensor *reordered(const recurrence *r, cfx_tensor *w) {
    static const int orders[][4] = {[RNN] = {0}, [GRU] = {1, 0, 2}, [LSTM] = {0, 2, 3, 1}};
    cfx_value parts = r->l->gates == 1 ? cfx_none() : cfx_split(w, r->hidden, 0);
    cfx_value out = cfx_list_value(0, NULL);
    if (r->l->gates == 1 || cfx_is_bad(parts))
        return w;
    for (int i = 0; i < r->l->gates; i++)
        cfx_list_append(cfx_as_list(out), cfx_at(parts, orders[r->l->kind][i]));
    return cfx_cat(out);
}

/* W_ih, W_hh, b_ih, b_hh of each direction. */
static cfx_value weights(const recurrence *r) {
    cfx_op_call *c = r->c;
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t d = 0; d < r->directions; d++) {
        cfx_tensor *w[4] = {cfx_select(T(1), 0, d), cfx_select(T(2), 0, d), NULL, NULL};
        cfx_value bias = T(3) ? cfx_split(cfx_select(T(3), 0, d), r->l->gates * r->hidden, 0)
                              : cfx_none();
        for (int i = 0; i < 2 && bias.tag == CFX_TAG_LIST; i++)
            w[2 + i] = cfx_tensor_at(bias, i);
        for (int i = 0; i < 4; i++)
            if (w[i])
                cfx_list_append(cfx_as_list(out), cfx_tensor_value(reordered(r, w[i])));
    }
    return out;
}

/* Y is [steps, directions, batch, hidden]. */
static void by_aten(recurrence *r, cfx_tensor **y, cfx_tensor **h, cfx_tensor **cell) {
    cfx_op_call *c = r->c;
    cfx_tensor *x = r->reverse ? cfx_flip(r->x, cfx_list(0)) : r->x;
    bool biases = T(3) != NULL, both = r->directions == 2;
    bool relu = r->l->kind == RNN && !strcasecmp(activation(r, 0), "relu");
    cfx_value w = weights(r), out;
    if (r->l->kind == LSTM)
        out = cfx_lstm(x, cfx_list(r->h, r->cell), w, biases, 1, 0., false, both, false);
    else if (r->l->kind == GRU)
        out = cfx_gru(x, r->h, w, biases, 1, 0., false, both, false);
    else if (relu)
        out = cfx_rnn_relu(x, r->h, w, biases, 1, 0., false, both, false);
    else
        out = cfx_rnn_tanh(x, r->h, w, biases, 1, 0., false, both, false);
    if (cfx_is_bad(out))
        return;
    *y = cfx_tensor_at(out, 0);
    *y = r->reverse ? cfx_flip(*y, cfx_list(0)) : *y;
    *y = cfx_reshape(*y, cfx_list(r->steps, r->batch, r->directions, r->hidden));
    *y = cfx_transpose(*y, 1, 2);
    *h = cfx_tensor_at(out, 1);
    *cell = r->cell ? cfx_tensor_at(out, 2) : NULL;
}

/* ---- step by step ---------------------------------------------------------------------------- */

typedef struct {
    recurrence *r;
    int64_t direction;
    cfx_tensor *w, *u, *bias_w, *bias_u, *peepholes; /* of the direction */
} stepping;

/* An activation of a layer; alpha and beta are NAN where it takes none. */
typedef struct {
    const char *name;
    double alpha, beta;
} activation_kind;

static const activation_kind *kind_of(const char *name) {
    static const activation_kind kinds[] = {
        {"Sigmoid", NAN, NAN},     {"Tanh", NAN, NAN},     {"Relu", NAN, NAN},
        {"LeakyRelu", 0.01, NAN},  {"Elu", 1, NAN},        {"ThresholdedRelu", 1, NAN},
        {"HardSigmoid", 0.2, 0.5}, {"ScaledTanh", 1, 1},   {"Affine", 1, 0},
        {"Softsign", NAN, NAN},    {"Softplus", NAN, NAN},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcasecmp(kinds[i].name, name))
            return &kinds[i];
    return NULL;
}

/* The value that activation i takes from the list at an argument: those that have such a parameter
 * take one each, in their order. */
static double parameter(const recurrence *r, bool beta, int64_t i) {
    int at = beta ? r->l->beta : r->l->alpha;
    int64_t taken = 0;
    for (int64_t k = 0; k < i; k++) {
        const activation_kind *before = kind_of(activation(r, k));
        taken += before && !isnan(beta ? before->beta : before->alpha);
    }
    cfx_value v = at < 0 ? cfx_none() : r->c->args[at];
    const activation_kind *own = kind_of(activation(r, i));
    double other = beta ? own->beta : own->alpha;
    return v.tag == CFX_TAG_LIST && taken < cfx_as_list(v)->len ? cfx_number(cfx_at(v, taken))
                                                                : other;
}

static cfx_tensor *activated(stepping *s, cfx_tensor *x, int which) {
    const recurrence *r = s->r;
    int each = r->l->kind == RNN ? 1 : r->l->kind == GRU ? 2 : 3;
    int64_t i = s->direction * each + which;
    const activation_kind *own = kind_of(activation(r, i));
    if (!own) {
        op_fail(r->c, "%s: there is no activation '%s'", op_title(r->c), activation(r, i));
        return &cfx__tensor_bad;
    }
    const char *name = own->name;
    double a = parameter(r, false, i), b = parameter(r, true, i);
    if (!arg_is_none(r->c, r->l->clip) && which < 2) { /* of gates: not of an LSTM's cell */
        double most = arg_float(r->c, r->l->clip);
        x = cfx_clamp(x, -most, most);
    }
    if (!strcmp(name, "Sigmoid"))
        return cfx_sigmoid(x);
    if (!strcmp(name, "Tanh"))
        return cfx_tanh(x);
    if (!strcmp(name, "Relu"))
        return cfx_relu(x);
    if (!strcmp(name, "LeakyRelu"))
        return cfx_leaky_relu(x, a);
    if (!strcmp(name, "ThresholdedRelu"))
        return cfx_threshold(x, a, 0);
    if (!strcmp(name, "HardSigmoid"))
        return cfx_clamp(cfx_add(cfx_mul(x, a), b), 0, 1);
    if (!strcmp(name, "ScaledTanh"))
        return cfx_mul(cfx_tanh(cfx_mul(x, b)), a);
    if (!strcmp(name, "Affine"))
        return cfx_add(cfx_mul(x, a), b);
    if (!strcmp(name, "Elu"))
        return cfx_elu(x, a);
    if (!strcmp(name, "Softsign"))
        return cfx_div(x, cfx_add(cfx_abs(x), 1));
    return cfx_softplus(x);
}

/* Gate i of what all gates are made of. */
static cfx_tensor *gate(const stepping *s, cfx_tensor *all, int i) {
    int64_t n = s->r->hidden;
    return cfx_slice(all, -1, i * n, (i + 1) * n);
}

static cfx_tensor *peephole(const stepping *s, cfx_tensor *x, cfx_tensor *cell, int i) {
    return s->peepholes
               ? cfx_add(x, cfx_mul(cell, cfx_slice(s->peepholes, 0, i * s->r->hidden,
                                                    (i + 1) * s->r->hidden)))
               : x;
}

static cfx_tensor *step_lstm(stepping *s, cfx_tensor *x, cfx_tensor *h, cfx_tensor **cell) {
    cfx_tensor *all = cfx_add(cfx_linear(x, s->w, s->bias_w), cfx_linear(h, s->u, s->bias_u));
    cfx_tensor *in = activated(s, peephole(s, gate(s, all, 0), *cell, 0), 0);
    cfx_tensor *forget = s->r->coupled
                             ? cfx_rsub(in, 1)
                             : activated(s, peephole(s, gate(s, all, 2), *cell, 2), 0);
    cfx_tensor *now = activated(s, gate(s, all, 3), 1);
    *cell = cfx_add(cfx_mul(forget, *cell), cfx_mul(in, now));
    cfx_tensor *out = activated(s, peephole(s, gate(s, all, 1), *cell, 1), 0);
    return cfx_mul(out, activated(s, *cell, 2));
}

static cfx_tensor *step_gru(stepping *s, cfx_tensor *x, cfx_tensor *h) {
    cfx_tensor *a = cfx_linear(x, s->w, s->bias_w), *b = cfx_linear(h, s->u, s->bias_u);
    cfx_tensor *update = activated(s, cfx_add(gate(s, a, 0), gate(s, b, 0)), 0);
    cfx_tensor *reset = activated(s, cfx_add(gate(s, a, 1), gate(s, b, 1)), 0);
    int64_t n = s->r->hidden;
    cfx_tensor *back = s->r->linear
                           ? cfx_mul(reset, gate(s, b, 2))
                           : cfx_linear(cfx_mul(reset, h), cfx_slice(s->u, 0, 2 * n, 3 * n),
                                        s->bias_u ? cfx_slice(s->bias_u, 0, 2 * n, 3 * n) : NULL);
    cfx_tensor *now = activated(s, cfx_add(gate(s, a, 2), back), 1);
    return cfx_add(cfx_mul(cfx_rsub(update, 1), now), cfx_mul(update, h));
}

static cfx_tensor *step(stepping *s, cfx_tensor *x, cfx_tensor *h, cfx_tensor **cell) {
    switch (s->r->l->kind) {
    case LSTM:
        return step_lstm(s, x, h, cell);
    case GRU:
        return step_gru(s, x, h);
    default:
        return activated(s, cfx_add(cfx_linear(x, s->w, s->bias_w),
                                    cfx_linear(h, s->u, s->bias_u)), 0);
    }
}

/* One direction; behind its end a sequence gives zeros, and its state stays. */
static cfx_tensor *walk(stepping *s, cfx_tensor **h, cfx_tensor **cell) {
    recurrence *r = s->r;
    cfx_op_call *c = r->c;
    bool back = r->reverse || s->direction == 1;
    cfx_tensor *lens = are_whole(r) ? NULL : cfx_unsqueeze(onnx_to(T(4), CFX_I64), 1);
    cfx_value all = cfx_list_value(0, NULL);
    for (int64_t k = 0; k < r->steps && cfx_ok(); k++) {
        int64_t t = back ? r->steps - 1 - k : k;
        cfx_tensor *old = *cell, *now = step(s, cfx_select(r->x, 0, t), *h, cell), *y = now;
        if (lens) {
            cfx_tensor *on = cfx_gt(lens, t);
            y = cfx_where(on, now, 0);
            now = cfx_where(on, now, *h);
            *cell = *cell ? cfx_where(on, *cell, old) : NULL;
        }
        *h = now;
        cfx_list_append(cfx_as_list(all), cfx_tensor_value(y));
    }
    for (int64_t i = 0, n = r->steps; back && i < n / 2; i++) {
        cfx_value v = cfx_as_list(all)->items[i];
        cfx_as_list(all)->items[i] = cfx_as_list(all)->items[n - 1 - i];
        cfx_as_list(all)->items[n - 1 - i] = v;
    }
    return cfx_stack(all);
}

static void by_steps(recurrence *r, cfx_tensor **y, cfx_tensor **h, cfx_tensor **cell) {
    cfx_op_call *c = r->c;
    cfx_value ys = cfx_list_value(0, NULL), hs = cfx_list_value(0, NULL);
    cfx_value cells = cfx_list_value(0, NULL);
    int64_t n = r->l->gates * r->hidden;
    if (r->steps > MOST_STEPS || r->steps < 1) {
        op_fail(c, "%s: %lld steps cannot be written out one by one", op_title(c),
                (long long)r->steps);
        return;
    }
    for (int64_t d = 0; d < r->directions && cfx_ok(); d++) {
        cfx_tensor *bias = T(3) ? cfx_select(T(3), 0, d) : NULL;
        stepping s = {.r = r,
                      .direction = d,
                      .w = cfx_select(T(1), 0, d),
                      .u = cfx_select(T(2), 0, d),
                      .bias_w = bias ? cfx_slice(bias, 0, 0, n) : NULL,
                      .bias_u = bias ? cfx_slice(bias, 0, n, 2 * n) : NULL,
                      .peepholes = r->cell && T(7) ? cfx_select(T(7), 0, d) : NULL};
        cfx_tensor *state = cfx_select(r->h, 0, d);
        cfx_tensor *held = r->cell ? cfx_select(r->cell, 0, d) : NULL;
        cfx_list_append(cfx_as_list(ys), cfx_tensor_value(walk(&s, &state, &held)));
        cfx_list_append(cfx_as_list(hs), cfx_tensor_value(state));
        cfx_list_append(cfx_as_list(cells), cfx_tensor_value(held));
    }
    *y = cfx_stack(ys, 1);
    *h = cfx_stack(hs);
    *cell = r->cell ? cfx_stack(cells) : NULL;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void run(cfx_op_call *c, const layout *l) {
    recurrence r = {.c = c, .l = l};
    cfx_tensor *y = &cfx__tensor_bad, *h = &cfx__tensor_bad, *cell = NULL;
    if (!read(&r))
        return;
    bool plain = is_usual(&r) && are_whole(&r) && !r.coupled && !(l->kind == LSTM && T(7)) &&
                 (l->kind != GRU || r.linear);
    (plain ? by_aten : by_steps)(&r, &y, &h, &cell);
    if (!cfx_ok())
        return;
    bool batch_first = arg_bool(c, l->layout);
    OUT(0) = batch_first ? cfx_permute(y, cfx_list(2, 0, 1, 3)) : y;
    OUT(1) = batch_first ? cfx_transpose(h, 0, 1) : h;
    if (cell)
        OUT(2) = batch_first ? cfx_transpose(cell, 0, 1) : cell;
}

ONNX_OP(RNN) { run(c, &rnn); }
ONNX_OP(GRU) { run(c, &gru); }
ONNX_OP(LSTM) { run(c, &lstm); }

CFX_OP(onnx_RNN) = {
    "onnx::RNN(Tensor X, Tensor W, Tensor R, Tensor? B=None, Tensor? sequence_lens=None, Tensor? "
    "initial_h=None, *, float[]? activation_alpha=None, float[]? activation_beta=None, str[]? "
    "activations=None, float? clip=None, str direction=\"forward\", int? hidden_size=None, int "
    "layout=0, int? output_sequence=None) -> (Tensor Y, Tensor Y_h)",
    ONNX(RNN, 1)};
CFX_OP(onnx_GRU) = {
    "onnx::GRU(Tensor X, Tensor W, Tensor R, Tensor? B=None, Tensor? sequence_lens=None, Tensor? "
    "initial_h=None, *, float[]? activation_alpha=None, float[]? activation_beta=None, str[]? "
    "activations=None, float? clip=None, str direction=\"forward\", int? hidden_size=None, int "
    "layout=0, int linear_before_reset=0, int? output_sequence=None) -> (Tensor Y, Tensor Y_h)",
    ONNX(GRU, 1)};
CFX_OP(onnx_LSTM) = {
    "onnx::LSTM(Tensor X, Tensor W, Tensor R, Tensor? B=None, Tensor? sequence_lens=None, Tensor? "
    "initial_h=None, Tensor? initial_c=None, Tensor? P=None, *, float[]? activation_alpha=None, "
    "float[]? activation_beta=None, str[]? activations=None, float? clip=None, str "
    "direction=\"forward\", int? hidden_size=None, int input_forget=0, int layout=0, int? "
    "output_sequence=None) -> (Tensor Y, Tensor Y_h, Tensor Y_c)",
    ONNX(LSTM, 1)};
