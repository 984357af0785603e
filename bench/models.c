/* Whole models: every folder of $CFX_MODELS with model.pt2 and inputs.safetensors, beside what
 * ONNX Runtime and PyTorch needed for the same files in the same run (tools/bench asks them). */
#include "bench.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    cfx_program *p;
    cfx_args inputs;
} model;

static void run_model(void *arg) {
    model *m = arg;
    CFX_SCOPE
    cfx_program_run_from(CFX_HERE, m->p, m->inputs);
}

/* in0, in1, ... as the arguments; models of this kind take no trees. */
static cfx_args in_order(cfx_dict *file) {
    cfx_value list = cfx_list_value(0, NULL);
    char name[16];
    for (int i = 0; i < file->len; i++) {
        snprintf(name, sizeof name, "in%d", i);
        cfx_list_append(cfx_as_list(list), cfx_dict_get(file, name));
    }
    return (cfx_args){(int)cfx_as_list(list)->len, cfx_as_list(list)->items, NULL};
}

static void bench_folder(const char *folder, const char *name) {
    char path[4096], key[256];
    snprintf(path, sizeof path, "%s/%s/model.pt2", folder, name);
    model m = {.p = cfx_open(path)};
    snprintf(path, sizeof path, "%s/%s/inputs.safetensors", folder, name);
    m.inputs = in_order(cfx_safetensors_read(path));
    double ours = bench_time(run_model, &m);
    if (!cfx_ok()) {
        cfx_report(stdout);
        return;
    }
    snprintf(key, sizeof key, "ort:%s", name);
    bench_row(name, ours, "ONNX Runtime", bench_torch(key));
    snprintf(key, sizeof key, "eager:%s", name);
    if (!isnan(bench_torch(key)))
        bench_row(name, ours, "PyTorch 1.13", bench_torch(key));
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void each_folder(void (*visit)(const char *folder, const char *name)) {
    const char *folder = getenv("CFX_MODELS");
    struct dirent **names;
    int n = folder ? scandir(folder, &names, NULL, by_name) : 0;
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.')
            CFX_SCOPE
        visit(folder, names[i]->d_name);
        free(names[i]);
    }
    if (n > 0)
        free(names);
}

BENCH(models) { each_folder(bench_folder); }

/* ---- passes ---------------------------------------------------------------------------------- */

static void run_pipeline(void *arg) {
    model *m = arg;
    CFX_SCOPE
    cfx_optimize(m->p);
}

static void time_pipeline(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/model.pt2", folder, name);
    model m = {.p = cfx_open(path)};
    double ours = !cfx_failed(m.p) ? bench_time(run_pipeline, &m) : NAN;
    snprintf(path, sizeof path, "default pipeline, %s", name);
    bench_row(path, ours, "the aim", 5e7);
}

/* Weights are in memory after the first of several runs. */
BENCH(pipeline) { each_folder(time_pipeline); }

/* ---- a cold process -------------------------------------------------------------------------- */

static void spawn_show(void *arg) {
    const char *path = arg, *command = getenv("CFX_COMMAND");
    pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout))
            execl(command, command, "show", path, (char *)NULL);
        _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
}

static void bench_show(const char *folder, const char *name) {
    char path[4096], what[300];
    snprintf(path, sizeof path, "%s/%s/model.pt2", folder, name);
    snprintf(what, sizeof what, "cfx show %s", name);
    bench_row(what, bench_time(spawn_show, path), "PyTorch's load", NAN);
}

BENCH(show_cold) {
    if (getenv("CFX_COMMAND"))
        each_folder(bench_show);
}
