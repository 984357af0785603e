/* Recurrent layers and their cells. The work is done by torch.lstm and its kin; here are weights,
 * states and the checks that PyTorch makes before. */
#include <cfx/ops.h>

#include "layer.h"

#include <math.h>

typedef struct family {
    const char *call, *cell;
    int gates;
    bool two_states; /* (h, c) rather than h */
} family;

/* The class of torch.nn that m is of, whatever it is called by who made a module of it. */
static const char *class_of(const cfx_module *m) {
    return m->own_->layer ? strrchr(m->own_->layer->path, '.') + 1 : m->type;
}

static family family_of(const cfx_module *m) {
    if (!strncmp(class_of(m), "LSTM", 4))
        return (family){"torch.lstm", "torch.lstm_cell", 4, true};
    if (!strncmp(class_of(m), "GRU", 3))
        return (family){"torch.gru", "torch.gru_cell", 3, false};
    bool relu = cfx__layer_attr_is((cfx_module *)m, "nonlinearity", "relu");
    return (family){relu ? "torch.rnn_relu" : "torch.rnn_tanh",
                    relu ? "torch.rnn_relu_cell" : "torch.rnn_tanh_cell", 1, false};
}

/* ---- weights --------------------------------------------------------------------------------- */

static bool sizes_fit(const cfx__layer_options *o) {
    const char *word = cfx_text(cfx__layer_option(o, "nonlinearity"));
    if (cfx__layer_option_int(o, "hidden_size") <= 0)
        cfx__layer_fail(o, VALUE, "hidden_size must be greater than zero");
    else if (word && strcmp(word, "tanh") && strcmp(word, "relu"))
        cfx__layer_fail(o, VALUE, "Unknown nonlinearity '%s'. Select from 'tanh' or 'relu'.", word);
    return cfx_ok();
}

static void add_weight(cfx_module *m, const char *name, int layer, const char *side, int ndim,
                       const int64_t *shape, double bound) {
    const char *full = layer < 0 ? name : cfx__text_format("%s_l%d%s", name, layer, side);
    cfx_nn_parameter(m, full, cfx__layer_init_uniform(ndim, shape, bound));
}

/* The four weights of one layer in one direction, or of a cell (layer -1). */
static void add_weights(cfx_module *m, int layer, const char *side, int64_t rows, int64_t in,
                        int64_t back, bool bias, double bound) {
    add_weight(m, "weight_ih", layer, side, 2, (int64_t[]){rows, in}, bound);
    add_weight(m, "weight_hh", layer, side, 2, (int64_t[]){rows, back}, bound);
    if (bias) {
        add_weight(m, "bias_ih", layer, side, 1, &rows, bound);
        add_weight(m, "bias_hh", layer, side, 1, &rows, bound);
    } else if (layer < 0) {
        cfx_nn_parameter(m, "bias_ih", NULL);
        cfx_nn_parameter(m, "bias_hh", NULL);
    }
}

static void make_rnn(cfx_module *m, const cfx__layer_options *o) {
    static const char *const sides[] = {"", "_reverse"};
    int64_t hidden = cfx__layer_option_int(o, "hidden_size"), proj = 0;
    int64_t layers = cfx__layer_option_int(o, "num_layers");
    double dropout = cfx__layer_option_float(o, "dropout");
    if (!strncmp(m->type, "LSTM", 4))
        proj = cfx__layer_option_int(o, "proj_size");
    if (!sizes_fit(o))
        return;
    if (layers <= 0)
        cfx__layer_fail(o, VALUE, "num_layers must be greater than zero");
    else if (!(dropout >= 0 && dropout <= 1))
        cfx__layer_fail(o, VALUE,
                        "dropout should be a number in range [0, 1] representing the probability "
                        "of an element being zeroed");
    else if (proj < 0)
        cfx__layer_fail(o, VALUE,
                        "proj_size should be a positive integer or zero to disable projections");
    else if (proj >= hidden)
        cfx__layer_fail(o, VALUE, "proj_size has to be smaller than hidden_size");
    if (!cfx_ok())
        return;
    double bound = 1 / sqrt((double)hidden);
    int directions = cfx__layer_option_on(o, "bidirectional") ? 2 : 1;
    int64_t out = proj ? proj : hidden;
    for (int l = 0; l < layers; l++)
        for (int d = 0; d < directions; d++) {
            int64_t in = l ? out * directions : cfx__layer_option_int(o, "input_size");
            add_weights(m, l, sides[d], family_of(m).gates * hidden, in, out,
                        cfx__layer_option_on(o, "bias"), bound);
            if (proj)
                add_weight(m, "weight_hr", l, sides[d], 2, (int64_t[]){proj, hidden}, bound);
        }
}

static void make_cell(cfx_module *m, const cfx__layer_options *o) {
    if (!sizes_fit(o))
        return;
    int64_t hidden = cfx__layer_option_int(o, "hidden_size");
    add_weights(m, -1, "", family_of(m).gates * hidden, cfx__layer_option_int(o, "input_size"),
                hidden, cfx__layer_option_on(o, "bias"), 1 / sqrt((double)hidden));
}

/* ---- forward --------------------------------------------------------------------------------- */

/* A tensor argument that can be looked at; NULL while tracing. */
static const cfx_tensor *seen(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR && !(cfx_as_tensor(v)->head.flags & CFX__TRACED)
               ? cfx_as_tensor(v)
               : NULL;
}

static bool input_fits(const cfx_module *self, const cfx_tensor *x, int most) {
    int64_t want = cfx__layer_attr_int((cfx_module *)self, "input_size");
    if (!x)
        return true;
    if (x->ndim != most && x->ndim != most - 1)
        cfx_fail(CFX_VALUE_ERROR, cfx__site(),
                 "%s: Expected input to be %dD or %dD, got %dD instead", self->type, most - 1, most,
                 x->ndim);
    else if (x->shape[x->ndim - 1] != want)
        cfx_fail(CFX_RUNTIME_ERROR, cfx__site(),
                 "input.size(-1) must be equal to input_size. Expected %lld, got %lld",
                 (long long)want, (long long)x->shape[x->ndim - 1]);
    return cfx_ok();
}

static cfx_value lift(cfx_value v, int dim) { return cfx__layer_torch("Tensor.unsqueeze", v, dim); }
static cfx_value lower(cfx_value v, int dim) { return cfx__layer_torch("Tensor.squeeze", v, dim); }

/* A state of zeros that fits the input. */
static cfx_value new_state(cfx_value input, int64_t layers, cfx_value batch, int64_t size) {
    const cfx_tensor *real = seen(input);
    if (!real)
        return cfx__layer_torch("Tensor.new_zeros", input, cfx_list(layers, batch, size));
    return cfx__layer_torch("torch.zeros", cfx_list(layers, batch, size),
                            CFX_KW(dtype, cfx_dtype_value((cfx_dtype)real->dtype)),
                            CFX_KW(device, cfx_device_value(real->device)));
}

static bool state_fits(const cfx_module *self, cfx_value state, const char *what, int64_t layers,
                       int64_t batch, int64_t size) {
    const cfx_tensor *h = seen(state);
    int64_t want[] = {layers, batch, size};
    if (!h || batch < 0 || (h->ndim == 3 && !memcmp(h->shape, want, sizeof want)))
        return true;
    cfx_fail(CFX_RUNTIME_ERROR, cfx__site(), "Expected %s size %s, got %s", what,
             cfx_value_repr(cfx_tuple(layers, batch, size)), cfx__shape_text(h->ndim, h->shape));
    (void)self;
    return false;
}

/* The weights as the functions take them: one list in order. */
static cfx_value weights(cfx_module *self) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < self->parameters->len; i++)
        cfx_list_append(cfx_as_list(list),
                        cfx__layer_attr(self, cfx_text(self->parameters->entries[i].key)));
    return list;
}

/* What one call is about: the module's numbers and its states. */
typedef struct {
    cfx_module *self;
    family f;
    bool first;
    int64_t layers, hidden, out; /* layers: those of both directions */
    cfx_value h, c;
} call;

static bool call_read(call *k, cfx_module *self, cfx_value state) {
    *k = (call){.self = self, .f = family_of(self)};
    k->first = cfx__layer_attr_int(self, "batch_first");
    k->hidden = cfx__layer_attr_int(self, "hidden_size");
    int64_t proj = k->f.two_states ? cfx__layer_attr_int(self, "proj_size") : 0;
    k->out = proj ? proj : k->hidden;
    k->layers = cfx__layer_attr_int(self, "num_layers") *
                (cfx__layer_attr_int(self, "bidirectional") ? 2 : 1);
    k->h = state;
    if (cfx_is_none(state) || !k->f.two_states)
        return true;
    if (state.tag != CFX_TAG_TUPLE || cfx_as_list(state)->len != 2) {
        cfx_fail(CFX_TYPE_ERROR, cfx__site(), "%s: hx must be a tuple of two tensors",
                 self->type);
        return false;
    }
    k->h = cfx_as_list(state)->items[0];
    k->c = cfx_as_list(state)->items[1];
    return true;
}

/* Both states by one function of torch. */
static void call_states(call *k, const char *function, int dim, cfx_value with) {
    bool has = !cfx_is_none(with);
    cfx_value *state[] = {&k->h, k->f.two_states ? &k->c : NULL};
    for (int i = 0; i < 2 && state[i]; i++)
        *state[i] = has ? cfx__layer_torch(function, *state[i], dim, with)
                        : cfx__layer_torch(function, *state[i], dim);
}

static bool call_fits(const call *k, int64_t batch) {
    const char *what = k->f.two_states ? "hidden[0]" : "hidden";
    return state_fits(k->self, k->h, what, k->layers, batch, k->out) &&
           (!k->f.two_states ||
            state_fits(k->self, k->c, "hidden[1]", k->layers, batch, k->hidden));
}

/* The function that the call ends in, over `x` and, where it is packed, its batch sizes. The states
 * become the last ones. */
static cfx_value call_run(call *k, cfx_value x, cfx_value sizes) {
    cfx_module *self = k->self;
    cfx_value state = k->f.two_states ? cfx_tuple(k->h, k->c) : k->h;
    cfx_value bias = cfx_module_attr(self, "bias"), layers = cfx_module_attr(self, "num_layers");
    cfx_value dropout = cfx_module_attr(self, "dropout");
    cfx_value both = cfx_module_attr(self, "bidirectional");
    cfx_value r = cfx_is_none(sizes)
                      ? cfx__layer_torch(k->f.call, x, state, weights(self), bias, layers, dropout,
                                         self->training, both, k->first)
                      : cfx__layer_torch(k->f.call, x, sizes, state, weights(self), bias, layers,
                                         dropout, self->training, both);
    if (cfx_is_bad(r))
        return r;
    k->h = cfx_at(r, 1);
    k->c = k->f.two_states ? cfx_at(r, 2) : k->c;
    return cfx_at(r, 0);
}

static cfx_value call_result(const call *k, cfx_value y) {
    return cfx_tuple(y, k->f.two_states ? cfx_tuple(k->h, k->c) : k->h);
}

/* x is (data, batch_sizes, sorted_indices, unsorted_indices): what pack_padded_sequence gives. */
static cfx_value forward_packed(cfx_module *self, cfx_value x, cfx_value state) {
    cfx_value *part = cfx_as_list(x)->items, data = part[0], sizes = part[1];
    call k;
    if (!call_read(&k, self, state))
        return cfx_bad();
    const cfx_tensor *real = seen(data);
    if (real && real->shape[real->ndim - 1] != cfx__layer_attr_int(self, "input_size")) {
        input_fits(self, real, real->ndim);
        return cfx_bad();
    }
    cfx_value batch = cfx_int(cfx__int64_of(cfx__tensor_number(cfx_as_tensor(sizes), 0)));
    if (cfx_is_none(state)) {
        k.h = new_state(data, k.layers, batch, k.out);
        k.c = k.f.two_states ? new_state(data, k.layers, batch, k.hidden) : k.c;
    } else if (!cfx_is_none(part[2])) {
        call_states(&k, "Tensor.index_select", 1, part[2]);
    }
    if (!cfx_ok() || !call_fits(&k, cfx_integer(batch)))
        return cfx_bad();
    cfx_value y = call_run(&k, data, sizes);
    if (cfx_is_bad(y))
        return y;
    if (!cfx_is_none(part[3]))
        call_states(&k, "Tensor.index_select", 1, part[3]);
    return call_result(&k, cfx_tuple(y, sizes, part[2], part[3]));
}

static cfx_value forward_rnn(cfx_module *self, cfx_args a) {
    cfx_value x = a.v[0], state = a.v[1];
    if (x.tag == CFX_TAG_TUPLE && cfx_as_list(x)->len == 4)
        return forward_packed(self, x, state);
    const cfx_tensor *real = seen(x);
    call k;
    if (!input_fits(self, real, 3) || !call_read(&k, self, state))
        return cfx_bad();
    bool alone = real && real->ndim == 2;
    int dim = k.first ? 0 : 1;
    int64_t batch = !real ? -1 : alone ? 1 : real->shape[dim];
    x = alone ? lift(x, dim) : x;
    if (cfx_is_none(state)) {
        cfx_value rows = cfx__layer_torch("Tensor.size", x, dim);
        k.h = new_state(x, k.layers, rows, k.out);
        k.c = k.f.two_states ? new_state(x, k.layers, rows, k.hidden) : k.c;
    } else if (alone) {
        call_states(&k, "Tensor.unsqueeze", 1, cfx_none());
    }
    if (!call_fits(&k, batch))
        return cfx_bad();
    cfx_value y = call_run(&k, x, cfx_none());
    if (cfx_is_bad(y))
        return y;
    if (alone) {
        y = lower(y, dim);
        call_states(&k, "Tensor.squeeze", 1, cfx_none());
    }
    return call_result(&k, y);
}

static cfx_value forward_cell(cfx_module *self, cfx_args a) {
    family f = family_of(self);
    cfx_value x = a.v[0], state = a.v[1];
    const cfx_tensor *real = seen(x);
    if (!input_fits(self, real, 2))
        return cfx_bad();
    bool alone = real && real->ndim == 1;
    x = alone ? lift(x, 0) : x;
    if (cfx_is_none(state)) {
        cfx_value rows = cfx__layer_torch("Tensor.size", x, 0);
        cfx_value zeros = cfx__layer_torch("Tensor.new_zeros", x,
                                           cfx_list(rows, cfx_module_attr(self, "hidden_size")));
        state = f.two_states ? cfx_tuple(zeros, zeros) : zeros;
    } else if (alone) {
        state = f.two_states ? cfx_tuple(lift(cfx_at(state, 0), 0), lift(cfx_at(state, 1), 0))
                             : lift(state, 0);
    }
    cfx_value r = cfx__layer_torch(
        f.cell, x, state, cfx__layer_attr(self, "weight_ih"), cfx__layer_attr(self, "weight_hh"),
        cfx__layer_attr(self, "bias_ih"), cfx__layer_attr(self, "bias_hh"));
    if (!alone || cfx_is_bad(r))
        return r;
    return f.two_states ? cfx_tuple(lower(cfx_at(r, 0), 0), lower(cfx_at(r, 1), 0)) : lower(r, 0);
}

/* ---- the table ------------------------------------------------------------------------------- */

#define RNN(name, before, after, shows)                                                            \
    {                                                                                              \
        "rnn." name,                                                                               \
            "input_size, hidden_size, num_layers=1, " before                                       \
            "bias=True, batch_first=False, dropout=0.0, bidirectional=False" after,                \
            "{input_size}, {hidden_size}" shows                                                    \
            "[num_layers][bias][batch_first][dropout][bidirectional]",                             \
            .inputs = "input, hx=None", .make = make_rnn, .forward = forward_rnn                   \
    }
#define CELL(name, more, shows)                                                                    \
    {                                                                                              \
        "rnn." name, "input_size, hidden_size, bias=True" more,                                    \
            "{input_size}, {hidden_size}[bias]" shows, .inputs = "input, hx=None",                 \
                                                       .make = make_cell, .forward = forward_cell  \
    }

const cfx__layer cfx__layers_rnn[] = {
    RNN("RNN", "nonlinearity='tanh', ", "", ""),
    RNN("LSTM", "", ", proj_size=0", "[proj_size]"),
    RNN("GRU", "", "", ""),
    CELL("RNNCell", ", nonlinearity='tanh'", "[nonlinearity]"),
    CELL("LSTMCell", "", ""),
    CELL("GRUCell", "", ""),
    {0},
};
