/* One program at many sizes: transformers' encoders whose length is a symbol, and a network of
 * convolutions whose batch is one. Twelve sizes in turn beside each of them over and over, a first
 * run of a new size beside the next one, and the memory held beside that of the largest alone. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SIZES = 12, ROUNDS = 9 };

typedef struct {
    const char *name;
    cfx_program *p;
    cfx_tensor *(*input)(int n); /* of the size number n */
} model;

/* Of this thread alone: other work on the machine does not count. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double run(const model *m, int n) {
    double took = 0;
    CFX_SCOPE {
        cfx_tensor *x = m->input(n);
        const double start = now();
        cfx_program_run(m->p, x);
        took = now() - start;
    }
    return took;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static void measure(const model *m) {
    double each[ROUNDS], first = 0, warm = 0, turn[ROUNDS] = {0};
    char what[80];
    run(m, SIZES - 1); /* weights are packed, as in the first run of all */
    run(m, SIZES - 1);
    const double one = (double)cfx_memory_held();
    for (int n = 0; n < SIZES; n++) {
        const double begun = run(m, n);
        for (int i = 0; i < ROUNDS; i++)
            each[i] = run(m, n);
        warm += median(each, ROUNDS);
        first += n < SIZES - 1 ? begun : median(each, ROUNDS);
    }
    for (int i = 0; i < ROUNDS; i++)
        for (int n = 0; n < SIZES; n++)
            turn[i] += run(m, n);
    snprintf(what, sizeof what, "%s, %d sizes in turn", m->name, SIZES);
    bench_row(what, median(turn, ROUNDS), "each over and over", warm);
    snprintf(what, sizeof what, "%s, first runs of sizes", m->name);
    bench_row(what, first, "warm runs", warm);
    printf("%s, memory of %d sizes: %.2f of that of one\n", m->name, SIZES,
           (double)cfx_memory_held() / one);
}

static cfx_value varying(const char *input, int dim) {
    cfx_dict *sizes = cfx_dict_new(), *dynamic = cfx_dict_new();
    cfx_dict_put(sizes, cfx_int(dim), cfx_string_value("n"));
    cfx_dict_set(dynamic, input, cfx_dict_value(sizes));
    return cfx_dict_value(dynamic);
}

static cfx_tensor *sentence(int n) { return cfx_randn(1, 16 + 8 * n, 256); }
static cfx_tensor *words(int n) { return cfx_randn(1, 4 + 5 * n, 32); }
static cfx_tensor *images(int n) { return cfx_randn(2 + n, 32, 28, 28); }

static cfx_module *convolutions(void) {
    cfx_module *m = cfx_nn_sequential();
    char name[16];
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "%d", i);
        cfx_nn_add(m, name,
                   i % 3 == 0   ? cfx_nn_conv2d(i ? 64 : 32, 64, 3, .padding = 1)
                   : i % 3 == 1 ? cfx_nn_batch_norm2d(64)
                                : cfx_nn_relu());
    }
    return m;
}

static cfx_module *encoder(int64_t channels, int layers) {
    cfx_module *layer = cfx_nn_transformer_encoder_layer(
        channels, 4, .dim_feedforward = 4 * channels, .batch_first = true);
    return cfx_nn_transformer_encoder(layer, layers);
}

BENCH(sizes) {
    cfx_manual_seed(1);
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_module *large = encoder(256, 4), *small = encoder(32, 2), *conv = convolutions();
    cfx_module_train(large, false);
    cfx_module_train(small, false);
    cfx_module_train(conv, false);
    model m[] = {{"encoder of 4 layers", NULL, sentence},
                 {"encoder of 32 channels", NULL, words},
                 {"4 convolutions", NULL, images}};
    m[0].p = cfx_export(large, cfx_tuple(sentence(1)), CFX_NONE, varying("src", 1));
    m[1].p = cfx_export(small, cfx_tuple(words(1)), CFX_NONE, varying("src", 1));
    m[2].p = cfx_export(conv, cfx_tuple(images(1)), CFX_NONE, varying("input", 0));
    for (int i = 0; i < 3 && cfx_ok(); i++)
        measure(&m[i]);
}
