/* cfx bench: how long a program takes, and which operators take it. Inputs come from a file or are
 * made up: random floats, ones for everything else, symbols at their smallest. */
#include "look.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <cfx/cost.h>
#include <cfx/ops.h>

#include "../run/run.h"

static const char help[] =
    "usage: cfx bench MODEL [--inputs F] [--device D] [--threads N] [--runs N]\n"
    "                 [--each] [--callers N]\n\n"
    "Runs a program repeatedly and prints the first, the best and the median time, and the time\n"
    "of kernels with their share of the peak of a matrix product here. Without --inputs,\n"
    "inputs are random: normal floats, ones for integers and bools, dynamic sizes at their\n"
    "minimum (at least 2).\n"
    "  --inputs F       tensors to run on, as for cfx run\n"
    "  --image HOW      how images become tensors, as for cfx run\n"
    "  --threads N      threads for one operator; all cores by default\n"
    "  --precision P    type that products multiply in: f32, tf32, bf16 or f16; sums are f32\n"
    "  --device D       cpu, cuda or cuda:N\n"
    "  --runs N         number of runs; 20 by default\n"
    "  --each           prints every run, the first included, in order\n"
    "  --callers N      N threads run the program at once, each with --threads\n"
    "  --busy N         runs N busy processes at the same time\n"
    "  --reference      times the interpreter instead of the plan\n\n"
    "Exit: 0 done, 2 error.\n";

static double now_ms(void) { return (double)cfx__clock_ns() * 1e-6; }

/* ---- where the time goes --------------------------------------------------------------------- */

typedef struct {
    char name[49]; /* of a loop of many operators only the beginning is read */
    double ms, flops;
    int calls;
} row;

typedef struct {
    VEC(row) rows;
    cfx_node_cost *costs; /* by their nodes' addresses; NULL: not known */
    int ncosts;
} table;

static int by_node(const void *a, const void *b) {
    const uintptr_t x = (uintptr_t)((const cfx_node_cost *)a)->node;
    const uintptr_t y = (uintptr_t)((const cfx_node_cost *)b)->node;
    return x < y ? -1 : x > y;
}

/* Copies what nodes cost, to be looked up; of NULL nothing is known. */
static void take_costs(table *t, const cfx_cost *c) {
    t->ncosts = c ? c->n : 0;
    t->costs = t->ncosts ? cfx__alloc((size_t)t->ncosts * sizeof *t->costs) : NULL;
    if (t->ncosts) {
        memcpy(t->costs, c->nodes, (size_t)t->ncosts * sizeof *t->costs);
        qsort(t->costs, (size_t)t->ncosts, sizeof *t->costs, by_node);
    }
}

static double flops_of(const table *t, const cfx_node *n) {
    const cfx_node_cost key = {.node = (cfx_node *)n};
    const cfx_node_cost *c = t->ncosts ? bsearch(&key, t->costs, (size_t)t->ncosts,
                                                 sizeof key, by_node)
                                       : NULL;
    return (double)(c ? c->flops : cfx__node_flops(n, NULL));
}

static void add_kernel(cfx_watcher *w, const cfx_ran *r) {
    table *t = w->user;
    row new = {.calls = 0};
    size_t i = 0;
    snprintf(new.name, sizeof new.name, "%s", r->kernel);
    while (i < t->rows.len && strcmp(t->rows.data[i].name, new.name))
        i++;
    if (i == t->rows.len)
        VEC_PUSH(t->rows, new);
    t->rows.data[i].ms += r->seconds * 1e3;
    for (int k = 0; k < r->nnodes; k++)
        t->rows.data[i].flops += flops_of(t, r->nodes[k]);
    t->rows.data[i].calls++;
}

static int by_time(const void *a, const void *b) {
    double x = ((const row *)a)->ms, y = ((const row *)b)->ms;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* GFLOP/s of the best product of two matrices on the threads allowed: what this machine gives. */
static double measure_peak(void) {
    enum { SIZE = 768, TRIES = 12 };
    double best = 0;
    CFX_SCOPE {
        cfx_tensor *x = cfx_randn(SIZE, SIZE), *w = cfx_randn(SIZE, SIZE);
        for (int i = 0; i < TRIES && cfx_ok(); i++)
            CFX_SCOPE {
                double start = now_ms();
                cfx_linear(x, w);
                double rate = 2e-6 * SIZE * SIZE * SIZE / (now_ms() - start);
                best = rate > best ? rate : best;
            }
    }
    return best;
}

enum { ROWS = 12 };

static void print_table(table *t) {
    double all = 0, peak = measure_peak();
    for (size_t i = 0; i < t->rows.len; i++)
        all += t->rows.data[i].ms;
    if (t->rows.len)
        qsort(t->rows.data, t->rows.len, sizeof *t->rows.data, by_time);
    cli_print("\n%-48s %6s %10s %7s %9s %8s\n", "kernel", "calls", "ms", "share", "GFLOP/s",
              "of f32");
    for (size_t i = 0; i < t->rows.len && i < ROWS; i++) {
        const row *r = &t->rows.data[i];
        cli_print("%-48s %6d %10.3f %6.1f%%", r->name, r->calls, r->ms,
                  100 * r->ms / (all > 0 ? all : 1));
        if (r->flops > 0 && r->ms > 0)
            cli_print(" %9.1f %7.0f%%", r->flops / r->ms / 1e6,
                      100 * r->flops / r->ms / 1e6 / peak);
        cli_print("\n");
    }
    for (size_t i = 0; i < t->rows.len; i++) {
        const row *r = &t->rows.data[i];
        double rate = r->flops > 0 && r->ms > 0 ? r->flops / r->ms / 1e6 : NAN;
        cli_answer_row("kernels", cfx_dict_of("kernel", r->name, "calls", r->calls, "ms", r->ms,
                                              "share", cli_fact(r->ms / (all > 0 ? all : 1)),
                                              "gflops", cli_fact(rate), "of_f32",
                                              cli_fact(rate / peak)));
    }
    cli_answer("peak_gflops", cli_fact(peak));
    cli_print("%-48s %6s %10.3f %7s %9.1f\n", "all of them; of f32: of a float32 product's rate",
              "", all, "", peak);
    VEC_FREE(t->rows);
}

/* ---- running --------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

double cli_median(double *ms, int n) {
    qsort(ms, (size_t)n, sizeof *ms, by_value);
    return ms[n / 2];
}

void cli_time_runs(cfx_program *p, cfx_args args, int n, double *ms) {
    cfx_session *s = cfx_session_new(); /* callers do not see what others write */
    for (int i = 0; i < n && cfx_ok(); i++)
        CFX_SCOPE {
            double start = now_ms();
            cfx_session_run_from((cfx_site){0}, s, p, args);
            ms[i] = now_ms() - start;
        }
}

/* One run more, with a clock at each kernel of the plan, or each call of the interpreter. */
static void print_kernels(cfx_program *p, cfx_value inputs) {
    table t = {.costs = NULL};
    take_costs(&t, cfx_program_cost(p, NULL));
    if (!cfx_ok()) /* sizes that are symbols without an example: no FLOPs then */
        cfx_error_clear();
    cfx_watcher w = {.ran = add_kernel, .user = &t};
    CFX_SCOPE
    cfx__program_execute((cfx_site){0}, p, NULL, &w, inputs);
    if (cfx_ok())
        print_table(&t);
    VEC_FREE(t.rows);
    cfx__free(t.costs);
}

/* Processes that never rest, for as long as this one lives. */
static void start_busy(int n) {
    const pid_t parent = getpid();
    for (int i = 0; i < n; i++)
        if (!fork()) {
            while (getppid() == parent)
                for (volatile int k = 0; k < 1 << 20; k++)
                    ;
            _exit(0);
        }
}

/* What each caller does: settings are a thread's own. */
typedef struct {
    pthread_t thread;
    cfx_program *program;
    cfx_args args;
    int runs, threads;
    cfx_precision precision;
    const cfx_executor *executor;
    double *ms;      /* of each run */
    char wrong[256]; /* what went wrong */
} caller;

static void run_often(const caller *c) { cli_time_runs(c->program, c->args, c->runs, c->ms); }

static void *call_often(void *arg) {
    caller *c = arg;
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_set_num_threads(c->threads);
    cfx_set_precision(c->precision);
    cfx_set_executor(c->executor);
    run_often(c);
    if (!cfx_ok())
        snprintf(c->wrong, sizeof c->wrong, "%s", cfx_error_last()->message);
    cfx_error_clear();
    cfx_finish(stderr);
    return NULL;
}

/* All callers at once; the seconds that they took together. */
static double run_callers(caller *c, int n) {
    int started = 0;
    double start = now_ms();
    while (started < n && !pthread_create(&c[started].thread, NULL, call_often, &c[started]))
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(c[i].thread, NULL);
    for (int i = 0; i < started && cfx_ok(); i++)
        if (c[i].wrong[0])
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "caller %d: %s", i + 1, c[i].wrong);
    if (started < n && cfx_ok())
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "%d threads cannot be had for callers", n);
    return (now_ms() - start) / 1e3;
}

static void print_times(const char *model, double first, double *ms, int n) {
    double median = cli_median(ms, n);
    cli_print("%s: first %.2f ms, then %d runs: best %.2f ms, median %.2f ms; %d thread%s\n", model,
              first, n, ms[0], median, cfx_get_num_threads(),
              cfx_get_num_threads() == 1 ? "" : "s");
    cli_answer("model", cfx_string_value(model));
    cli_answer("first_ms", cli_fact(first));
    cli_answer("runs", cfx_int(n));
    cli_answer("best_ms", cli_fact(ms[0]));
    cli_answer("median_ms", cli_fact(median));
    cli_answer("threads", cfx_int(cfx_get_num_threads()));
}

/* Every run in order, before they are sorted. */
static void print_each(double first, const double *ms, int n) {
    cfx_value all = cfx_list_value(0, NULL);
    for (int i = -1; i < n; i++) {
        const double t = i < 0 ? first : ms[i];
        if (i > 0 && i % 10 == 9)
            cli_print("\n         ");
        cli_print(i < 0 ? "each, ms: %.3f" : " %.3f", t);
        cfx_list_append(cfx_as_list(all), cli_fact(t));
    }
    cli_print("\n");
    cli_answer("each_ms", all);
}

static cfx_value on_card(cfx_value list, const char *device) {
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(list)->len; i++) {
        const cfx_value v = cfx_as_list(list)->items[i];
        cfx_list_append(cfx_as_list(out),
                        v.tag == CFX_TAG_TENSOR ? cfx_tensor_value(cfx_to(v, device)) : v);
    }
    return out;
}

static int bench(const char *model, const char *file, int runs, int callers, bool each,
                 const cfx_executor *executor) {
    cfx_program *p = cfx_open(model);
    cfx_dict *given = cli_read_tensors(file, "in");
    cfx_value flat = cfx_list_value(0, NULL);
    cfx_set_grad_mode(CFX_INFERENCE);
    if (!cfx_ok() || !cli_make_inputs(p, given, cfx_as_list(flat)))
        return cli_trouble();
    if (executor && !strncmp(executor->name, "cuda", 4)) /* they lie where the program runs */
        flat = on_card(flat, executor->name);
    if (cfx_ok())
        cli_go_to_device(p);
    if (!cfx_ok())
        return cli_trouble();
    cfx_args args = {(int)cfx_as_list(flat)->len, cfx_as_list(flat)->items, NULL};
    const int n = callers ? callers : 1;
    double *ms = cfx__alloc0((size_t)runs * (size_t)n * sizeof *ms), first = 0, took = 0;
    caller *c = cfx__alloc0((size_t)n * sizeof *c);
    for (int i = 0; i < n; i++)
        c[i] = (caller){.program = p, .args = args, .runs = runs, .ms = ms + i * runs,
                        .threads = cfx_get_num_threads(), .precision = cfx_get_precision(),
                        .executor = executor};
    cli_time_runs(p, args, 1, &first);
    if (callers)
        took = run_callers(c, n);
    else
        run_often(c);
    if (cfx_ok()) {
        if (each)
            print_each(first, ms, runs * n);
        print_times(model, first, ms, runs * n);
        cli_tell_prepared(p, true);
        if (callers)
            cli_answer("runs_per_second", cli_fact(runs * n / took));
        if (callers)
            cli_print("%d caller%s at once: %.1f runs a second\n", n, n == 1 ? "" : "s",
                      runs * n / took);
        cfx_value inputs = cfx_program_inputs_from((cfx_site){0}, p, args);
        if (!cfx_is_bad(inputs) && !callers)
            print_kernels(p, inputs);
    }
    cfx__free(c);
    cfx__free(ms);
    return cfx_ok() ? CLI_DONE : cli_trouble();
}

static int run(int argc, char **argv) {
    const char *model = NULL, *inputs = NULL;
    int threads = 0, runs = 20, busy = 0, callers = 0;
    bool reference = false, each = false;
    cli_words w = {argc, argv, .command = &cli_bench};
    while (cli_more(&w))
        if (!cli_tensors(&w, "--inputs", &inputs) && !cli_image(&w) &&
            !cli_number(&w, "--threads", &threads) &&
            !cli_number(&w, "--runs", &runs) && !cli_precision(&w) && !cli_device(&w) &&
            !cli_number(&w, "--busy", &busy) && !cli_number(&w, "--callers", &callers) &&
            !cli_flag(&w, "--reference", &reference) && !cli_flag(&w, "--each", &each))
            cli_rest(&w, &model);
    if (w.wrong)
        return CLI_TROUBLE;
    if (!model)
        return cli_usage(&cli_bench, "which MODEL?");
    if (threads)
        cfx_set_num_threads(threads);
    const cfx_executor *executor = cfx_set_executor(NULL); /* of --device */
    executor = reference ? &cfx_interpreter : executor;
    cfx_set_executor(executor);
    start_busy(busy);
    return bench(model, inputs, runs, callers, each, executor);
}

const cli_command cli_bench = {"bench", run, "time a program and its operators", help};
