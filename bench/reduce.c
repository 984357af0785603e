/* Reductions, softmax, layer_norm and a few activations against PyTorch 1.13, small and large. */
#include "bench.h"

typedef struct {
    cfx_tensor *x, *w, *b;
    int64_t columns;
} data;

#define CASE(id, call)                                                                             \
    static void run_##id(void *p) {                                                                \
        data *d = p;                                                                               \
        CFX_SCOPE (void)(call);                                                                    \
    }
CASE(sum_all, cfx_sum(d->x))
CASE(sum_rows, cfx_sum(d->x, cfx_list(1)))
CASE(sum_columns, cfx_sum(d->x, cfx_list(0)))
CASE(amax_rows, cfx_amax(d->x, cfx_list(1)))
CASE(mean_rows, cfx_mean(d->x, cfx_list(1)))
CASE(var_rows, cfx_var(d->x, cfx_list(1)))
CASE(argmax_rows, cfx_argmax(d->x, 1))
CASE(softmax, cfx_softmax(d->x, 1))
CASE(log_softmax, cfx_log_softmax(d->x, 1))
CASE(layer_norm, cfx_layer_norm(d->x, cfx_list(d->columns), d->w, d->b))
CASE(gelu, cfx_gelu(d->x))
CASE(exp, cfx_exp(d->x))

static const struct {
    const char *name;
    void (*run)(void *);
} cases[] = {
    {"sum_all", run_sum_all},
    {"sum_rows", run_sum_rows},
    {"sum_columns", run_sum_columns},
    {"amax_rows", run_amax_rows},
    {"mean_rows", run_mean_rows},
    {"var_rows", run_var_rows},
    {"argmax_rows", run_argmax_rows},
    {"softmax", run_softmax},
    {"log_softmax", run_log_softmax},
    {"layer_norm", run_layer_norm},
    {"gelu", run_gelu},
    {"exp", run_exp},
};

static void run_cases(const char *size, int64_t rows, int64_t columns) {
    data d = {.x = cfx_randn(rows, columns),
              .w = cfx_randn(columns),
              .b = cfx_randn(columns),
              .columns = columns};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[64], key[64];
        snprintf(what, sizeof what, "%s of %lld x %lld", cases[i].name, (long long)rows,
                 (long long)columns);
        snprintf(key, sizeof key, "%s_%s", cases[i].name, size);
        bench_row(what, bench_time(cases[i].run, &d), "PyTorch 1.13", bench_torch(key));
    }
}

BENCH(reductions_small) { run_cases("small", 32, 64); }
BENCH(reductions_large) { run_cases("large", 4096, 1024); }
