/* Recurrent modules with small weights, as those of torch.ao.nn.quantized.dynamic: products take
 * inputs rounded by the range that they have, gates are computed in floats. The products of a layer
 * with its input are one for the whole sequence, those with its state one for each step. */
#include "fx.h"

/* ---- cells ----------------------------------------------------------------------------------- */

/* What goes from step to step; c is an LSTM's. */
typedef struct state {
    cfx_tensor *h, *c;
} state;

static cfx_tensor *part(cfx_value parts, int i) { return cfx_tensor_at(parts, i); }

static state lstm_step(cfx_tensor *in, cfx_tensor *back, state s) {
    cfx_value gates = cfx_chunk(cfx_add(back, in), 4, 1);
    cfx_tensor *kept = cfx_mul(cfx_sigmoid(part(gates, 1)), s.c);
    cfx_tensor *c = cfx_add(kept, cfx_mul(cfx_sigmoid(part(gates, 0)), cfx_tanh(part(gates, 2))));
    return (state){cfx_mul(cfx_sigmoid(part(gates, 3)), cfx_tanh(c)), c};
}

static state gru_step(cfx_tensor *in, cfx_tensor *back, state s) {
    cfx_value from_in = cfx_chunk(in, 3, 1), from_back = cfx_chunk(back, 3, 1);
    cfx_tensor *reset = cfx_sigmoid(cfx_add(part(from_back, 0), part(from_in, 0)));
    cfx_tensor *keep = cfx_sigmoid(cfx_add(part(from_back, 1), part(from_in, 1)));
    cfx_tensor *now = cfx_tanh(cfx_add(part(from_in, 2), cfx_mul(part(from_back, 2), reset)));
    return (state){cfx_add(cfx_mul(cfx_sub(s.h, now), keep), now), NULL};
}

static state tanh_step(cfx_tensor *in, cfx_tensor *back, state s) {
    (void)s;
    return (state){cfx_tanh(cfx_add(back, in)), NULL};
}

static state relu_step(cfx_tensor *in, cfx_tensor *back, state s) {
    (void)s;
    return (state){cfx_relu(cfx_add(back, in)), NULL};
}

typedef state step_fn(cfx_tensor *in, cfx_tensor *back, state s);

static step_fn *step_of(const cfx_module *m) {
    const char *word = cfx_text(cfx_module_attr(m, "nonlinearity"));
    return strstr(m->type, "LSTM")         ? lstm_step
           : strstr(m->type, "GRU")        ? gru_step
           : word && !strcmp(word, "relu") ? relu_step
                                           : tanh_step;
}

static bool has_two_states(const cfx_module *m) { return step_of(m) == lstm_step; }

/* The product of x with the weight that is called "ih" or "hh", of a layer or of a cell. */
static cfx_tensor *product(cfx_module *self, const char *which, const char *layer, cfx_tensor *x) {
    const char *op = cfx_text(cfx_module_attr(self, "_op"));
    return cfx_as_tensor(cfx__quant_dynamic_call(
        op, x, cfx_module_attr(self, cfx__text_format("_packed_weight_%s%s", which, layer))));
}

/* ---- states ---------------------------------------------------------------------------------- */

static int64_t number(const cfx_module *m, const char *name) {
    return cfx_integer(cfx_module_attr(m, name));
}

/* Whether x has these sizes; an error that calls it `what` otherwise. */
static bool fits(cfx_tensor *x, const char *what, int n, const int64_t *want) {
    bool good = x && cfx_tensor_ndim(x) == n;
    for (int d = 0; good && d < n; d++)
        good = cfx_dim(x, d) == want[d];
    if (x && !good && cfx_ok())
        cfx_fail(CFX_RUNTIME_ERROR, CFX_HERE, "Expected %s size %s, got %s", what,
                 cfx_str(cfx_tuple_value(n, cfx_as_list(cfx_ints_value(n, want))->items)),
                 cfx_str(cfx_ints_value(cfx_tensor_ndim(x), cfx_tensor_shape(x))));
    return good;
}

/* The states that a call begins with: as given, or zeros. False, with an error, where they do not
 * fit. */
static bool begin(cfx_module *self, cfx_value given, int n, const int64_t *shape, state *s) {
    bool two = has_two_states(self);
    if (cfx_is_none(given)) {
        s->h = cfx_zeros(cfx_ints_value(n, shape));
        s->c = two ? s->h : NULL;
        return cfx_ok();
    }
    s->h = two ? cfx_tensor_at(given, 0) : cfx_as_tensor(given);
    s->c = two ? cfx_tensor_at(given, 1) : NULL;
    if (two)
        return fits(s->h, "hidden[0]", n, shape) && fits(s->c, "hidden[1]", n, shape);
    return fits(s->h, "hidden", n, shape);
}

static cfx_value given_state(cfx_args a) { return a.n > 1 ? a.v[1] : cfx_none(); }

static bool input_fits(const cfx_module *self, const cfx_tensor *x, int ndim) {
    if (!x)
        return false;
    if (cfx_tensor_ndim(x) != ndim)
        cfx_fail(CFX_RUNTIME_ERROR, CFX_HERE, "input must have %d dimensions, got %d", ndim,
                 cfx_tensor_ndim(x));
    else if (cfx_dim(x, -1) != number(self, "input_size"))
        cfx_fail(CFX_RUNTIME_ERROR, CFX_HERE,
                 "input.size(-1) must be equal to input_size. Expected %lld, got %lld",
                 (long long)number(self, "input_size"), (long long)cfx_dim(x, -1));
    return cfx_ok();
}

/* ---- forward --------------------------------------------------------------------------------- */

cfx_value cfx__quant_forward_cell(cfx_module *self, cfx_args a) {
    cfx_tensor *x = a.v[0].tag == CFX_TAG_TENSOR ? cfx_as_tensor(a.v[0]) : NULL;
    state s;
    if (!input_fits(self, x, 2) ||
        !begin(self, given_state(a), 2, (int64_t[]){cfx_dim(x, 0), number(self, "hidden_size")},
               &s))
        return cfx_bad();
    s = step_of(self)(product(self, "ih", "", x), product(self, "hh", "", s.h), s);
    return s.c ? cfx_tuple(s.h, s.c) : cfx_tensor_value(s.h);
}

/* One layer in one direction over the whole of x, (length, batch, features): what it gave at each
 * step. s becomes its last state. */
static cfx_tensor *run_layer(cfx_module *self, int layer, bool back, cfx_tensor *x, state *s) {
    const char *name = cfx__text_format("_l%d%s", layer, back ? "_reverse" : "");
    int64_t length = cfx_dim(x, 0);
    cfx_tensor *in = product(self, "ih", name, x);
    cfx_value all = cfx_list();
    for (int64_t t = 0; t < length && cfx_ok(); t++) {
        *s = step_of(self)(cfx_select(in, 0, back ? length - 1 - t : t),
                           product(self, "hh", name, s->h), *s);
        cfx_list_append(cfx_as_list(all), cfx_tensor_value(s->h));
    }
    cfx_tensor *y = cfx_stack(all);
    return back ? cfx_flip(y, cfx_list(0)) : y;
}

/* Layers one after the other; the last states go to `h` and `c`. */
static cfx_tensor *run_layers(cfx_module *self, cfx_tensor *x, state first, cfx_value h,
                              cfx_value c) {
    int directions = number(self, "bidirectional") ? 2 : 1, at = 0;
    for (int l = 0; l < number(self, "num_layers") && cfx_ok(); l++) {
        cfx_value both = cfx_list();
        for (int d = 0; d < directions; d++, at++) {
            state s = {cfx_select(first.h, 0, at), first.c ? cfx_select(first.c, 0, at) : NULL};
            cfx_list_append(cfx_as_list(both), cfx_tensor_value(run_layer(self, l, d, x, &s)));
            cfx_list_append(cfx_as_list(h), cfx_tensor_value(s.h));
            cfx_list_append(cfx_as_list(c), s.c ? cfx_tensor_value(s.c) : cfx_none());
        }
        x = directions > 1 ? cfx_cat(both, 2) : cfx_tensor_at(both, 0);
    }
    return x;
}

cfx_value cfx__quant_forward_recurrent(cfx_module *self, cfx_args a) {
    cfx_tensor *x = a.v[0].tag == CFX_TAG_TENSOR ? cfx_as_tensor(a.v[0]) : NULL;
    bool batch_first = number(self, "batch_first");
    if (!input_fits(self, x, 3))
        return cfx_bad();
    x = batch_first ? cfx_transpose(x, 0, 1) : x;
    int64_t shape[] = {number(self, "num_layers") * (number(self, "bidirectional") ? 2 : 1),
                       cfx_dim(x, 1), number(self, "hidden_size")};
    state s;
    cfx_value h = cfx_list(), c = cfx_list();
    if (!begin(self, given_state(a), 3, shape, &s))
        return cfx_bad();
    cfx_tensor *y = run_layers(self, x, s, h, c);
    y = batch_first ? cfx_transpose(y, 0, 1) : y;
    if (!cfx_ok())
        return cfx_bad();
    cfx_tensor *last = cfx_stack(h);
    return s.c ? cfx_tuple(y, cfx_tuple(last, cfx_stack(c))) : cfx_tuple(y, last);
}

/* ---- from reference modules ------------------------------------------------------------------ */

/* Every "weight_ih_l0" of a reference module becomes a packed weight, with the bias beside it. */
void cfx__quant_pack_recurrent(cfx_module *to, const cfx_module *from) {
    for (int64_t i = 0; i < from->parameters->len; i++) {
        const char *name = cfx_text(from->parameters->entries[i].key);
        cfx_value w = cfx_module_attr(from, cfx__text_format("%s_quantized", name));
        if (strncmp(name, "weight_", 7))
            continue;
        const char *bias = cfx__text_format("bias_%s", name + 7);
        cfx_value b = cfx_module_has(from, bias) ? cfx_module_attr(from, bias) : cfx_none();
        cfx_module_set_attr(to, cfx__text_format("_packed_%s", name), cfx_tuple(w, b));
        cfx_module_remove(to, name);
        cfx_module_remove(to, bias);
        static const char *const gone[] = {"scale", "zero_point", "quantized", "quant_max"};
        for (int k = 0; k < COUNT(gone); k++)
            cfx_module_remove(to, cfx__text_format("%s_%s", name, gone[k]));
    }
}
