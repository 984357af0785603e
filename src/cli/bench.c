/* cfx bench: how long a program takes, and which operators take it. Inputs come from a file or are
 * made up: random floats, ones for everything else, symbols at their smallest. */
#include "look.h"

#include <string.h>
#include <time.h>

#include "../run/run.h"

static const char help[] =
    "usage: cfx bench MODEL [--inputs F.safetensors] [--threads N] [--runs N]\n"
    "\n"
    "Runs a program often and prints the first, the best and the median time, and the operators\n"
    "that took it. Without --inputs, inputs are made up: random floats, ones for integers and\n"
    "bools, sizes that are symbols at the smallest they may be (2 at least).\n"
    "  --inputs F       tensors to run on, as for cfx run\n"
    "  --threads N      threads for one operator; all cores otherwise\n"
    "  --precision P    what weights are kept in: f32, bf16 or f16; sums are f32 always\n"
    "  --runs N         how often; 20 otherwise\n"
    "  --reference      times the interpreter, not the plan\n"
    "\n"
    "Exit: 0 done, 2 trouble.\n";

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- where the time goes --------------------------------------------------------------------- */

typedef struct {
    const char *name;
    double ms;
    int calls;
} row;

typedef VEC(row) table;

static cfx_value time_node(cfx_interp *it, cfx_node *n) {
    table *t = it->user;
    double start = now_ms();
    cfx_value v = cfx_interp_run_node(it, n);
    double ms = now_ms() - start;
    if (n->op < CFX_CALL_FUNCTION || n->op == CFX_OUTPUT)
        return v;
    size_t i = 0;
    while (i < t->len && strcmp(t->data[i].name, n->target.name))
        i++;
    if (i == t->len)
        VEC_PUSH(*t, ((row){n->target.name, 0, 0}));
    t->data[i].ms += ms;
    t->data[i].calls++;
    return v;
}

static int by_time(const void *a, const void *b) {
    double x = ((const row *)a)->ms, y = ((const row *)b)->ms;
    return x < y ? 1 : x > y ? -1 : 0;
}

enum { ROWS = 12 };

static void print_operators(cfx_program *p, cfx_args inputs) {
    table t = {0};
    cfx_interp it = {.module = p->module, .run_node = time_node, .user = &t};
    CFX_SCOPE
    cfx_run_from((cfx_site){0}, &it, inputs);
    double all = 0;
    for (size_t i = 0; i < t.len; i++)
        all += t.data[i].ms;
    if (t.len)
        qsort(t.data, t.len, sizeof *t.data, by_time);
    printf("\n%-48s %6s %12s %8s\n", "operator", "calls", "ms", "share");
    for (size_t i = 0; i < t.len && i < ROWS; i++)
        printf("%-48s %6d %12.3f %7.1f%%\n", t.data[i].name, t.data[i].calls, t.data[i].ms,
               100 * t.data[i].ms / (all > 0 ? all : 1));
    VEC_FREE(t);
}

/* ---- running --------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

static int bench(const char *model, const char *file, int runs) {
    cfx_program *p = cfx_open(model);
    cfx_dict *given = p && file ? cfx_safetensors_read(file) : cfx_dict_new();
    cfx_value flat = cfx_list_value(0, NULL);
    cfx_set_grad_mode(CFX_INFERENCE);
    if (!cfx_ok() || !cli_make_inputs(p, given, cfx_as_list(flat)))
        return cli_trouble();
    cfx_args args = {(int)cfx_as_list(flat)->len, cfx_as_list(flat)->items, NULL};
    double *ms = cfx__alloc((size_t)runs * sizeof *ms), first = 0;
    for (int i = -1; i < runs && cfx_ok(); i++)
        CFX_SCOPE
    {
        double start = now_ms();
        cfx_program_run_from((cfx_site){0}, p, args);
        *(i < 0 ? &first : &ms[i]) = now_ms() - start;
    }
    if (cfx_ok()) {
        qsort(ms, (size_t)runs, sizeof *ms, by_value);
        printf("%s: first %.2f ms, then %d runs: best %.2f ms, median %.2f ms; %d thread%s\n",
               model, first, runs, ms[0], ms[runs / 2], cfx_get_num_threads(),
               cfx_get_num_threads() == 1 ? "" : "s");
        cfx_value inputs = cfx_program_inputs_from((cfx_site){0}, p, args);
        if (!cfx_is_bad(inputs))
            print_operators(
                p, (cfx_args){(int)cfx_as_list(inputs)->len, cfx_as_list(inputs)->items, NULL});
    }
    cfx__free(ms);
    return cfx_ok() ? CLI_DONE : cli_trouble();
}

static int run(int argc, char **argv) {
    const char *model = NULL, *inputs = NULL;
    int threads = 0, runs = 20;
    bool reference = false;
    cli_words w = {argc, argv, .command = &cli_bench};
    while (cli_more(&w))
        if (!cli_value(&w, "--inputs", &inputs) && !cli_number(&w, "--threads", &threads) &&
            !cli_number(&w, "--runs", &runs) && !cli_precision(&w) &&
            !cli_flag(&w, "--reference", &reference))
            cli_rest(&w, &model);
    if (w.wrong)
        return CLI_TROUBLE;
    if (!model)
        return cli_usage(&cli_bench, "which MODEL?");
    if (threads)
        cfx_set_num_threads(threads);
    if (reference)
        cfx_set_executor(&cfx_interpreter);
    return bench(model, inputs, runs);
}

const cli_command cli_bench = {"bench", run, "time a program and its operators", help};
