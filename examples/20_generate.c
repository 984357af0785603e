/* Generation with a language model: a prompt at once, then token by token. The model keeps the keys
 * and values of the tokens so far in buffers that it writes to; its program is run as a plan, which
 * writes them in place, so that a step costs one token however long the text is. Each text has a
 * session, with buffers of its own, so that several go on at once over the same programs. */
#include <cfx.h>

#include <stdio.h>
#include <string.h>

enum { WORDS = 50, WIDTH = 32, HEADS = 4, CONTEXT = 24, PROMPT = 5, NEW = 12 };

/* One head's part of each token, [1, HEADS, tokens, WIDTH / HEADS]. */
static cfx_tensor *by_heads(cfx_tensor *x) {
    return cfx_transpose(cfx_reshape(x, cfx_list(1, -1, HEADS, WIDTH / HEADS)), 1, 2);
}

/* ids: tokens [1, n]; at: their places in the text [n]. The next token's scores, [WORDS]. */
static cfx_tensor *forward(cfx_module *self, cfx_tensor *ids, cfx_tensor *at) {
    cfx_tensor *x = cfx_add(cfx_call(self, "words", ids), cfx_call(self, "places", at));
    cfx_value qkv = cfx_chunk(cfx_call(self, "qkv", x), 3, -1);
    cfx_tensor *keys = cfx_attr(self, "keys"), *values = cfx_attr(self, "values");
    cfx_index_copy_(keys, 2, at, by_heads(cfx_tensor_at(qkv, 1)));
    cfx_index_copy_(values, 2, at, by_heads(cfx_tensor_at(qkv, 2)));
    cfx_tensor *seen = cfx_le(cfx_arange(CONTEXT), cfx_unsqueeze(at, 1)); /* not what comes later */
    cfx_tensor *y = cfx_scaled_dot_product_attention(by_heads(cfx_tensor_at(qkv, 0)), keys, values,
                                                     seen);
    y = cfx_reshape(cfx_transpose(y, 1, 2), cfx_list(1, -1, WIDTH));
    x = cfx_add(x, cfx_call(self, "out", y));
    x = cfx_add(x, cfx_call(self, "down", cfx_gelu(cfx_call(self, "up", x))));
    return cfx_select(cfx_select(cfx_call(self, "head", x), 0, 0), 0, -1);
}
static cfx_module *model(void) {
    cfx_module *m = cfx_module_new("Model", forward, "ids, at");
    cfx_nn_add(m, "words", cfx_nn_embedding(WORDS, WIDTH));
    cfx_nn_add(m, "places", cfx_nn_embedding(CONTEXT, WIDTH));
    cfx_nn_add(m, "qkv", cfx_nn_linear(WIDTH, 3 * WIDTH));
    cfx_nn_add(m, "out", cfx_nn_linear(WIDTH, WIDTH));
    cfx_nn_add(m, "up", cfx_nn_linear(WIDTH, 4 * WIDTH));
    cfx_nn_add(m, "down", cfx_nn_linear(4 * WIDTH, WIDTH));
    cfx_nn_add(m, "head", cfx_nn_linear(WIDTH, WORDS));
    cfx_nn_buffer(m, "keys", cfx_zeros(1, HEADS, CONTEXT, WIDTH / HEADS), true);
    cfx_nn_buffer(m, "values", cfx_zeros(1, HEADS, CONTEXT, WIDTH / HEADS), true);
    return m;
}

/* Tokens [from, from + n) of a text, and their places. */
static cfx_tensor *tokens(const int64_t *text, int from, int n) {
    return cfx_tensor_new(CFX_I64, 2, (int64_t[]){1, n}, text + from);
}

static cfx_tensor *places(int from, int n) { return cfx_arange(from, from + n); }

/* One of the `most` likely tokens, by chance; with 1 the likeliest. */
static int64_t sample(cfx_tensor *scores, int64_t most, double temperature) {
    cfx_value top = cfx_topk(cfx_div(scores, temperature), most);
    cfx_tensor *chances = cfx_softmax(cfx_tensor_at(top, 0), -1);
    cfx_tensor *at = cfx_multinomial(chances, 1);
    return (int64_t)cfx_tensor_get(cfx_index_select(cfx_tensor_at(top, 1), 0, at), 0);
}

typedef struct {
    cfx_program *prompt, *step; /* for PROMPT tokens at once, and for one */
} generator;

/* A text that is being written. */
typedef struct {
    cfx_session *session;
    cfx_value scores; /* of the next token */
    int64_t text[PROMPT + NEW];
} writer;

/* Reads the prompt at the head of the text. */
static void begin(writer *w, generator g) {
    w->session = cfx_session_new();
    w->scores = cfx_session_run(w->session, g.prompt, tokens(w->text, 0, PROMPT),
                                places(0, PROMPT));
}

static void go_on(writer *w, generator g, int i, int64_t most, double temperature) {
    w->text[i] = sample(cfx_as_tensor(w->scores), most, temperature);
    w->scores = cfx_session_run(w->session, g.step, tokens(w->text, i, 1), places(i, 1));
}

/* Goes on from the prompt at the head of a text. */
static void generate(writer *w, generator g, int64_t most, double temperature) {
    begin(w, g);
    for (int i = PROMPT; i < PROMPT + NEW && cfx_ok(); i++)
        go_on(w, g, i, most, temperature);
}

static void print_text(const char *how, const int64_t *text) {
    printf("%-10s", how);
    for (int i = 0; i < PROMPT + NEW; i++)
        printf("%s%d", i == PROMPT ? " | " : " ", (int)text[i]);
    printf("\n");
}

int main(int argc, char **argv) {
    cfx_manual_seed(7);
    cfx_module *m = model();
    cfx_set_grad_mode(CFX_INFERENCE);
    writer one = {.text = {3, 14, 15, 9, 26}};
    int64_t *text = one.text;
    generator g = {
        cfx_export(m, cfx_tuple(tokens(text, 0, PROMPT), places(0, PROMPT)), CFX_NONE, CFX_NONE),
        cfx_export(m, cfx_tuple(tokens(text, 0, 1), places(0, 1)), CFX_NONE, CFX_NONE)};

    generate(&one, g, 1, 1.0);
    print_text("likeliest", text);

    /* two texts at once, a token of each in turn */
    writer again = {.text = {3, 14, 15, 9, 26}}, other = {.text = {8, 8, 8, 8, 8}};
    begin(&again, g);
    begin(&other, g);
    for (int i = PROMPT; i < PROMPT + NEW && cfx_ok(); i++) {
        go_on(&again, g, i, 1, 1.0);
        go_on(&other, g, i, 1, 1.0);
    }
    printf("in turn with another: %s\n",
           memcmp(again.text, text, sizeof again.text) ? "something else" : "the same");

    /* the same without what was kept: all tokens so far, again for each new one */
    bool same = true;
    for (int i = PROMPT; i < PROMPT + NEW && cfx_ok(); i++)
        CFX_SCOPE {
            cfx_tensor *scores = cfx_forward(m, tokens(text, 0, i), places(0, i));
            same &= sample(scores, 1, 1.0) == text[i];
        }
    printf("recomputed: %s\n", same ? "the same" : "something else");

    cfx_manual_seed(1);
    generate(&one, g, 5, 0.8);
    print_text("by chance", text);

    const char *plan = cfx_program_plan(g.step, tokens(text, 0, 1), places(0, 1));
    printf("a step writes %s\n", strstr(plan, "index_copy_") ? "where the keys are" : "copies");
    if (argc > 1) /* the program of a step, for cfx run --generate */
        cfx_save(g.step, argv[1]);
    return cfx_finish(stderr);
}
