/* Texts in and out of a language model: Hugging Face's tokenizer.json makes tokens of a prompt, a
 * program gives the next one again and again, and the tokenizer makes a text of them. The model
 * here is as small as can be: it knows which token follows two others in a few sentences. */
#include <cfx.h>

#include <stdio.h>

enum { NEW = 41 };

static const char sentences[] =
    "The quick brown fox jumps over the lazy dog. Programs without Python: a graph of nodes, "
    "weights, and numbers. The model wants to read, and it reads again.";

/* ids: the tokens so far [n]. The scores of the next one, [words]. */
static cfx_tensor *forward(cfx_module *self, cfx_tensor *ids) {
    cfx_tensor *last = cfx_narrow(ids, 0, -2, 2);
    cfx_tensor *seen = cfx_eq(cfx_attr(self, "pairs"), last); /* [sentences' tokens, 2] */
    cfx_tensor *fits = cfx_to(cfx_all(seen, 1), CFX_F32);
    return cfx_matmul(fits, cfx_attr(self, "next"));
}

/* Which pairs of tokens there are, and what follows each, a row of [words]. */
static cfx_module *learned(const cfx_tokenizer *t) {
    cfx_module *m = cfx_module_new("Pairs", forward, "ids");
    cfx_tensor *ids = cfx_tokenizer_encode(t, sentences, false);
    int64_t n = cfx_tensor_numel(ids) - 2;
    cfx_value both = cfx_list(cfx_narrow(ids, 0, 0, n), cfx_narrow(ids, 0, 1, n));
    cfx_nn_buffer(m, "pairs", cfx_stack(both, 1), true);
    cfx_nn_buffer(m, "next",
                  cfx_to(cfx_one_hot(cfx_narrow(ids, 0, 2, n), cfx_tokenizer_size(t)), CFX_F32),
                  true);
    return m;
}

int main(void) {
    cfx_tokenizer *t = cfx_tokenizer_open("examples/data/tokenizer.json");
    cfx_tensor *text = cfx_tokenizer_encode(t, "The model", true);
    printf("%s\n", cfx_tensor_str(text));
    for (int64_t i = 0; i < cfx_tensor_numel(text); i++)
        printf("%s|", cfx_tokenizer_token(t, (int64_t)cfx_tensor_get(text, i)));
    printf("\n");

    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_value length = cfx_dict_of("ids", cfx_dict_of(0, "n"));
    cfx_program *p = cfx_export(learned(t), cfx_tuple(text), CFX_NONE, length);
    for (int i = 0; i < NEW && cfx_ok(); i++) {
        cfx_tensor *scores = cfx_as_tensor(cfx_program_run(p, text));
        text = cfx_cat(cfx_list(text, cfx_argmax(scores, 0, true)), 0);
    }
    printf("%s\n", cfx_tokenizer_decode(t, text, true));
    return cfx_finish(stderr);
}
