/* Weights of 8 and 4 bits on a card that is played: products of a few rows read the integers, those
 * of more have them as floats. */
#include <cfx.h>
#include <cfx/cuda.h>
#include <cfx/quantize.h>

#include "../src/cuda/plan.h"
#include "../src/plan/plan.h"

#include "card.h"
#include "test.h"

static cfx_program *two_layers(int rows) {
    cfx_manual_seed(5);
    cfx_module *m = cfx_nn_sequential(cfx_nn_linear(64, 96), cfx_nn_relu(),
                                      cfx_nn_linear(96, 64, .no_bias = true));
    return cfx_export(m, cfx_tuple(cfx_randn(rows, 64)), CFX_NONE, CFX_NONE);
}

/* Bytes of weights on the card, of the plans of a program; -1: a plan has steps of the host's. */
static int64_t bytes_there(const cfx_program *p) {
    int64_t bytes = 0;
    for (const cfx__prepared *q = p->module->graph->prepared; q; q = q->next) {
        const cfx__cuda_plan *c = !strncmp(q->by->name, "cuda", 4) ? q->form : NULL;
        for (size_t i = 0; c && i < c->weights.len; i++)
            bytes += c->weights.data[i] ? c->weights.data[i]->bytes : 0;
        for (size_t i = 0; c && i < c->steps.len; i++)
            if (c->steps.data[i].kind == CFX__CUDA_HOST)
                return -1;
    }
    return bytes;
}

TEST(weights_of_few_bits_are_read_as_they_are_on_a_card) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    static const struct {
        int bits, rows;
        bool groups;
        int64_t most; /* bytes; that of floats is 49,536 */
    } of[] = {{8, 1, false, 13400}, {8, 11, false, 13400}, {4, 3, true, 9000},
              {8, 40, false, 50000}};
    for (int i = 0; i < COUNT(of); i++) CFX_SCOPE {
        cfx_quantized *q = cfx_quantize(
            two_layers(of[i].rows), cfx_none(),
            (cfx_quantize_options){.scheme = CFX_QUANTIZE_WEIGHT, .bits = of[i].bits,
                                   .per = of[i].groups ? CFX_QUANTIZE_GROUP
                                                       : CFX_QUANTIZE_CHANNEL,
                                   .group = of[i].groups ? 32 : 0});
        if (!CHECK_OK())
            break;
        cfx_value in[] = {cfx_tensor_value(cfx_randn(of[i].rows, 64))};
        const cfx_args args = {1, in, NULL};
        const cfx_value want = cfx_program_run_with(CFX_HERE, q->program, &cfx_interpreter, NULL,
                                                    args);
        const cfx_value have = cfx_program_run_with(CFX_HERE, q->program, cfx_cuda_executor(0),
                                                    NULL, args);
        CHECK_OK();
        CHECK(card_apart(want, have) < 1e-3);
        CHECK(bytes_there(q->program) > 0 && bytes_there(q->program) <= of[i].most);
    }
    card_end();
}
