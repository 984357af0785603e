/* One token of a language model with the sizes of SmolLM-135M: keys and values of the tokens so far
 * are kept in buffers that the program writes to. What a step cannot do without is reading the
 * weights once, which is measured beside it; then the same step with weights of 8 and of 4 bits, by
 * inputs in float32 and in int8. */
#include "bench.h"

#include <math.h>
#include <string.h>

enum {
    WIDTH = 576, INNER = 1536, HEADS = 9, SHARED = 3, HEAD = 64, LAYERS = 30, WORDS = 32000,
    CONTEXT = 256
};

/* ---- the model ------------------------------------------------------------------------------- */

static cfx_tensor *by_heads(cfx_tensor *x) {
    return cfx_transpose(cfx_view(x, cfx_list(1, cfx_dim(x, 1), -1, HEAD)), 1, 2);
}

static cfx_tensor *turned(cfx_tensor *x, cfx_tensor *cosine, cfx_tensor *sine) {
    cfx_tensor *low = cfx_slice(x, 3, 0, HEAD / 2), *high = cfx_slice(x, 3, HEAD / 2, HEAD);
    cfx_tensor *other = cfx_cat(cfx_list(cfx_neg(high), low), -1);
    return cfx_add(cfx_mul(x, cosine), cfx_mul(other, sine));
}

/* Heads of keys and values are shared by several of the queries. */
static cfx_tensor *repeated(cfx_tensor *x) {
    cfx_tensor *wide = cfx_expand(cfx_unsqueeze(x, 2),
                                  cfx_list(1, SHARED, HEADS / SHARED, CONTEXT, HEAD));
    return cfx_reshape(wide, cfx_list(1, HEADS, CONTEXT, HEAD));
}

static cfx_tensor *norm_forward(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *scale = cfx_rsqrt(cfx_add(cfx_mean(cfx_pow(x, 2), cfx_list(-1), true), 1e-6));
    return cfx_mul(cfx_attr(self, "weight"), cfx_mul(x, scale));
}

/* Where tokens stand: what they may look at, and how far their heads are turned. */
typedef struct {
    cfx_tensor *at, *seen, *cosine, *sine;
} places;

static cfx_tensor *layer_forward(cfx_module *self, cfx_tensor *x, const places *p) {
    cfx_tensor *h = cfx_call(self, "before", x);
    cfx_tensor *q = by_heads(cfx_call(self, "q", h)), *k = by_heads(cfx_call(self, "k", h));
    cfx_tensor *v = by_heads(cfx_call(self, "v", h));
    cfx_tensor *keys = cfx_attr(self, "keys"), *values = cfx_attr(self, "values");
    q = turned(q, p->cosine, p->sine);
    cfx_index_copy_(keys, 2, p->at, turned(k, p->cosine, p->sine));
    cfx_index_copy_(values, 2, p->at, v);
    cfx_tensor *y = cfx_scaled_dot_product_attention(q, repeated(keys), repeated(values), p->seen,
                                                     CFX_KW(scale, 0.125));
    y = cfx_reshape(cfx_transpose(y, 1, 2), cfx_list(1, cfx_dim(x, 1), -1));
    x = cfx_add(x, cfx_call(self, "o", y));
    h = cfx_call(self, "after", x);
    h = cfx_mul(cfx_silu(cfx_call(self, "gate", h)), cfx_call(self, "up", h));
    return cfx_add(x, cfx_call(self, "down", h));
}

/* ids: tokens [1, n]; at: their places [n]. The scores of what follows the last, [WORDS]. */
static cfx_tensor *forward(cfx_module *self, cfx_tensor *ids, cfx_tensor *at) {
    cfx_tensor *x = cfx_call(self, "words", ids);
    cfx_tensor *angle = cfx_mul(cfx_unsqueeze(at, 1), cfx_attr(self, "frequencies"));
    angle = cfx_cat(cfx_list(angle, angle), -1);
    const places p = {at, cfx_le(cfx_arange(CONTEXT), cfx_unsqueeze(at, 1)), cfx_cos(angle),
                      cfx_sin(angle)};
    char name[16];
    for (int i = 0; i < LAYERS; i++) {
        snprintf(name, sizeof name, "%d", i);
        x = layer_forward(cfx_module_find(self, name), x, &p);
    }
    x = cfx_call(self, "norm", x);
    return cfx_call(self, "head", cfx_select(x, 1, -1));
}

static cfx_module *norm(void) {
    cfx_module *m = cfx_module_new("Norm", norm_forward, "x");
    cfx_nn_parameter(m, "weight", cfx_ones(WIDTH));
    return m;
}

static cfx_module *linear(int64_t in, int64_t out) {
    return cfx_nn_linear(in, out, .no_bias = true);
}

static cfx_module *layer(void) {
    cfx_module *m = cfx_nn_module_dict();
    cfx_nn_add(m, "before", norm());
    cfx_nn_add(m, "q", linear(WIDTH, WIDTH));
    cfx_nn_add(m, "k", linear(WIDTH, SHARED * HEAD));
    cfx_nn_add(m, "v", linear(WIDTH, SHARED * HEAD));
    cfx_nn_add(m, "o", linear(WIDTH, WIDTH));
    cfx_nn_add(m, "after", norm());
    cfx_nn_add(m, "gate", linear(WIDTH, INNER));
    cfx_nn_add(m, "up", linear(WIDTH, INNER));
    cfx_nn_add(m, "down", linear(INNER, WIDTH));
    cfx_nn_buffer(m, "keys", cfx_zeros(1, SHARED, CONTEXT, HEAD), true);
    cfx_nn_buffer(m, "values", cfx_zeros(1, SHARED, CONTEXT, HEAD), true);
    return m;
}

static cfx_module *language_model(void) {
    cfx_module *m = cfx_module_new("Model", forward, "ids, at");
    char name[16];
    cfx_nn_add(m, "words", cfx_nn_embedding(WORDS, WIDTH));
    for (int i = 0; i < LAYERS; i++) {
        snprintf(name, sizeof name, "%d", i);
        cfx_nn_add(m, name, layer());
    }
    cfx_nn_add(m, "norm", norm());
    cfx_nn_add(m, "head", linear(WIDTH, WORDS));
    cfx_tensor *powers = cfx_div(cfx_arange(0, HEAD, 2), (double)HEAD);
    cfx_nn_buffer(m, "frequencies", cfx_pow(10000.0, cfx_neg(powers)), true);
    return m;
}

/* ---- what is measured ------------------------------------------------------------------------ */

typedef struct {
    cfx_program *p;
    cfx_tensor *ids, *at;
} step;

static void run_step(void *arg) {
    step *s = arg;
    CFX_SCOPE
    cfx_program_run(s->p, s->ids, s->at);
}

/* Reads every weight that a step needs once: all but the table of words. */
static void read_weights(void *arg) {
    CFX_SCOPE
    cfx_amax((cfx_tensor *)arg, cfx_list_value(0, NULL));
}

static double bytes_of_weights(void) {
    const double layer = 2.0 * WIDTH * WIDTH + 2.0 * WIDTH * SHARED * HEAD + 3.0 * WIDTH * INNER;
    return 4 * (LAYERS * layer + (double)WIDTH * WORDS);
}

static step step_of(cfx_program *p) {
    return (step){p, cfx_tensor_new(CFX_I64, 2, (int64_t[]){1, 1}, (int64_t[]){17}),
                  cfx_tensor_new(CFX_I64, 1, (int64_t[]){1}, (int64_t[]){CONTEXT / 2})};
}

static void bench_weights(const step *wide, int bits, int activations) {
    cfx_quantize_options o = {.scheme = CFX_QUANTIZE_WEIGHT, .bits = bits,
                              .per = bits == 4 ? CFX_QUANTIZE_GROUP : CFX_QUANTIZE_CHANNEL,
                              .activations = activations};
    cfx_quantized *q = cfx_quantize(wide->p, cfx_none(), o);
    step plain = *wide, small = q ? step_of(q->program) : plain;
    double ours = NAN, theirs = NAN;
    char what[64];
    if (q)
        bench_pair(run_step, &small, run_step, &plain, &ours, &theirs);
    snprintf(what, sizeof what, "a token, weights of %d bits%s", bits,
             activations ? " by int8" : "");
    bench_row(what, ours, "a token, float32", theirs);
}

BENCH(token) {
    cfx_manual_seed(1);
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_module *m = language_model();
    step s = step_of(NULL);
    s.p = cfx_export(m, cfx_tuple(s.ids, s.at), CFX_NONE, CFX_NONE);
    cfx_tensor *weights = cfx_ones(cfx_list((int64_t)(bytes_of_weights() / 4)));
    double ours, theirs;
    bench_pair(run_step, &s, read_weights, weights, &ours, &theirs);
    bench_row("a token of SmolLM-135M, float32", ours, "reading the weights", theirs);
    for (int activations = 0; activations <= 8; activations += 8) {
        bench_weights(&s, 8, activations);
        bench_weights(&s, 4, activations);
    }
}
