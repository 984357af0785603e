/* Memory that runs out, at every place where some is asked for: each path is walked again and again
 * while its first, second, third ... allocation fails, alone or with all that follow. Whatever
 * fails, the process goes on, an error is recorded or the result is right, and the same path works
 * once there is memory again.
 *
 * Each walk is a process of its own, so that what is set up on first use fails too. */
#include "../src/base/base.h"
#include "faults.h"
#include "files.h"
#include "test.h"

#include <limits.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ZOO CFX_TEST_DATA "/zoo/"

typedef const char *path_fn(void); /* what it made, as text; scope */

enum { TEXT = 1 << 20, EVERY = 16, SAMPLES = 20 };

/* What the processes of a test share. */
typedef struct shared {
    bool came;       /* the allocation that was to fail was asked for */
    char text[TEXT]; /* what the path gives when nothing fails */
} shared;

static void put_text(shared *s, const char *text) {
    snprintf(s->text, sizeof s->text, "%s", text ? text : "(none)");
}

/* One walk in which the n-th allocation fails; the exit status tells what is wrong. */
static void walk(shared *s, path_fn *path, long n, bool all) {
    cfx_set_num_threads(1);
    size_t mark = cfx_scope_open();
    faults_begin(n, all);
    const char *text = path();
    s->came = faults_end();
    if (cfx_ok() && strcmp(text ? text : "(none)", s->text) != 0)
        _exit(10);
    cfx_clear();
    cfx_scope_close(mark);
    text = path();
    if (!cfx_ok()) {
        cfx_report(stdout);
        fflush(stdout);
        _exit(11);
    }
    if (strcmp(text ? text : "(none)", s->text) != 0)
        _exit(12);
    cfx_finish(stdout);
    _exit(0);
}

static int in_child(shared *s, path_fn *path, long n, bool all) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        walk(s, path, n, all);
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static void check_walk(shared *s, const char *name, path_fn *path, long n, bool all) {
    static const char *const wrong[] = {"gives another result and no error",
                                        "does not work afterwards",
                                        "gives another result afterwards"};
    int status = in_child(s, path, n, all);
    const char *how = all ? "from allocation %ld on: %s %s" : "without allocation %ld: %s %s";
    cfx_site at = {name, 0};
    if (WIFSIGNALED(status))
        test_fail(at, how, n, "ends with", strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) >= 10 && WEXITSTATUS(status) <= 12)
        test_fail(at, how, n, "it", wrong[WEXITSTATUS(status) - 10]);
    else if (WEXITSTATUS(status))
        test_fail(at, how, n, "ends", "the process");
}

/* Where the file that a path saves is, without its ending: known before memory runs out. */
static char stem[PATH_MAX];

/* The file of that ending; until the next call. */
static const char *saved_as(const char *ending) {
    static char path[sizeof stem + 16];
    snprintf(path, sizeof path, "%s.%s", stem, ending);
    return path;
}

/* All of the first allocations of a path, then samples of the others. */
static void loop(const char *name, path_fn *path) {
    snprintf(stem, sizeof stem, "%s", test_path("saved"));
    shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        cfx_set_num_threads(1);
        put_text(s, path());
        _exit(cfx_ok() ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    if (!CHECK_INT(status, 0))
        return;
    long total = 1; /* how many allocations there are, within a third */
    for (s->came = true; s->came; total += total / 3 + 1) {
        s->came = false;
        in_child(s, path, total, false);
    }
    bool thorough = getenv("CFX_THOROUGH") != NULL;
    long step = thorough ? 1 : total / SAMPLES + 1;
    long walks = 0;
    for (int all = 0; all < 2; all++)
        for (long n = 1; n < total; n += n < EVERY || thorough ? 1 : step, walks++)
            check_walk(s, name, path, n, all);
    if (thorough)
        printf("%s: %ld failures\n", name, walks);
    munmap(s, sizeof *s);
}

/* ---- paths ----------------------------------------------------------------------------------- */

static const char *show(const char *file) {
    cfx_program *p = cfx_open(file);
    if (cfx_failed(p))
        return NULL;
    return cfx__text_format("%s\n%s\n%s\n%s", cfx_program_str(p), cfx_graph_str(p->module->graph),
                            cfx_module_code(p->module),
                            cfx_graph_tabular(p->module->graph));
}

static const char *show_mlp(void) { return show(ZOO "seed_mlp/model.pt2"); }
static const char *show_conv(void) { return show(ZOO "dyn_conv/model.pt2"); }
static const char *show_cond(void) { return show(ZOO "cond/model.pt2"); }

static cfx_value inputs(const char *folder, cfx_program *p) {
    cfx_dict *d = cfx_safetensors_read(cfx__text_format("%s/inputs.safetensors", folder));
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; !cfx_failed(p) && d && i < d->len; i++)
        cfx_list_append(cfx_as_list(list), d->entries[i].value);
    return list;
}

static const char *run(const char *folder, const cfx_executor *x) {
    cfx_program *p = cfx_open(cfx__text_format("%s/model.pt2", folder));
    cfx_value in = inputs(folder, p);
    if (!cfx_ok())
        return NULL;
    cfx_args args = {(int)cfx_as_list(in)->len, cfx_as_list(in)->items, NULL};
    return cfx_str(cfx_program_run_with((cfx_site){0}, p, x, NULL, args));
}

static const char *run_mlp(void) { return run(ZOO "seed_mlp", &cfx_planner); }
static const char *run_conv(void) { return run(ZOO "dyn_conv", &cfx_planner); }
static const char *run_cond(void) { return run(ZOO "cond", &cfx_planner); }
static const char *run_index(void) { return run(ZOO "index_zoo", &cfx_planner); }
static const char *interpret_conv(void) { return run(ZOO "dyn_conv", &cfx_interpreter); }
static const char *interpret_cond(void) { return run(ZOO "cond", &cfx_interpreter); }

TEST(memory_runs_out_while_showing) {
    loop("show seed_mlp", show_mlp);
    loop("show dyn_conv", show_conv);
    loop("show cond", show_cond);
}

TEST(memory_runs_out_while_running) {
    loop("run seed_mlp", run_mlp);
    loop("run dyn_conv", run_conv);
    loop("run cond", run_cond);
    loop("run index_zoo", run_index);
    loop("interpret dyn_conv", interpret_conv);
    loop("interpret cond", interpret_cond);
}

static const char *core_of(const char *file) {
    cfx_program *p = cfx_open(file);
    return cfx_program_str(cfx_decompose(p, CFX_NONE));
}

static const char *core_conv(void) { return core_of(ZOO "dyn_conv/model.pt2"); }
static const char *core_index(void) { return core_of(ZOO "index_zoo/model.pt2"); }

TEST(memory_runs_out_while_decomposing) {
    loop("decompose dyn_conv", core_conv);
    loop("decompose index_zoo", core_index);
}

static const char *draw(cfx_draw_form form) {
    cfx_program *p = cfx_open(ZOO "dyn_conv/model.pt2");
    return cfx_program_draw(p, (cfx_draw_options){.form = form});
}

static const char *draw_svg(void) { return draw(CFX_SVG); }
static const char *draw_dot(void) { return draw(CFX_DOT); }
static const char *draw_html(void) { return draw(CFX_HTML); }

TEST(memory_runs_out_while_drawing) {
    loop("draw .svg", draw_svg);
    loop("draw .dot", draw_dot);
    loop("draw .html", draw_html);
}

/* ---- changes --------------------------------------------------------------------------------- */

static cfx_program *dyn_conv(void) { return cfx_open(ZOO "dyn_conv/model.pt2"); }
static cfx_program *seed_mlp(void) { return cfx_open(ZOO "seed_mlp/model.pt2"); }

static const char *optimize(void) { return cfx_program_str(cfx_optimize(dyn_conv())); }

static const char *rewrite(void) {
    cfx_rules *r = cfx_rules_parse("a: relu(x) -> sigmoid(x)\n", "rules");
    return cfx_program_str(cfx_rewrite(seed_mlp(), r, NULL));
}

static const char *split(void) {
    cfx_module *m = cfx_program_module(seed_mlp());
    return cfx_module_code(cfx_split_stages(m, 2, CFX_STAGE_BYTES, (cfx_split_options){0}));
}

static const char *extract(void) { return cfx_program_str(cfx_extract(seed_mlp(), NULL, "relu")); }

/* What comparing two programs and counting what they take stand on. */
static const char *pair(void) {
    cfx_program *a = dyn_conv(), *b = cfx_optimize(a);
    const cfx_pairs *found = cfx_program_pair(a, b);
    cfx_cost *cost = cfx_program_cost(a, NULL);
    return !cfx_failed(found) && !cfx_failed(cost) ? cfx__text_format("%d pairs", found->n) : NULL;
}

TEST(memory_runs_out_while_changing) {
    loop("optimize", optimize);
    loop("rewrite", rewrite);
    loop("split", split);
    loop("extract", extract);
    loop("pair", pair);
}

static const char *save_as(const char *ending) {
    const char *path = saved_as(ending);
    cfx_program *p = cfx_open(ZOO "seed_mlp/model.pt2");
    bool ok = cfx_save(p, path);
    const char *text = ok ? show(path) : NULL;
    unlink(path);
    if (!strcmp(ending, "fx"))
        unlink(saved_as("safetensors"));
    return text;
}

static const char *save_pt2(void) { return save_as("pt2"); }
static const char *save_fx(void) { return save_as("fx"); }

static const char *save_pt(void) {
    const char *path = saved_as("pt");
    bool ok = cfx_torch_save(path, cfx_list(cfx_ones(3, 4), "word", cfx_tuple(1, 2.5)));
    const char *text = ok ? cfx_str(cfx_torch_load(path)) : NULL;
    unlink(path);
    return text;
}

TEST(memory_runs_out_while_saving) {
    loop("save .pt2", save_pt2);
    loop("save .fx", save_fx);
    loop("save .pt", save_pt);
}

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "fc2", cfx_relu(cfx_call(self, "fc1", x)));
}

static cfx_module *mlp_of(int64_t inputs) {
    cfx_manual_seed(7);
    cfx_module *m = cfx_module_new("MLP", forward, "x");
    cfx_nn_add(m, "fc1", cfx_nn_linear(inputs, 80));
    cfx_nn_add(m, "fc2", cfx_nn_linear(80, 2));
    return m;
}

static cfx_module *mlp(void) { return mlp_of(4); }

static const char *trace(void) {
    cfx_module *gm = cfx_symbolic_trace(mlp());
    return cfx__text_format("%s%s", cfx_module_code(gm), cfx_str(cfx_forward(gm, cfx_ones(3, 4))));
}

static const char *export_it(void) {
    cfx_program *p = cfx_export(mlp(), cfx_tuple(cfx_ones(3, 4)), CFX_NONE, CFX_NONE);
    return cfx_program_str(p);
}

static const char *train(void) {
    cfx_module *m = mlp();
    cfx_optim *o = cfx_sgd(m, .lr = 0.1, .momentum = 0.9);
    cfx_tensor *loss = NULL;
    for (int i = 0; i < 2; i++) {
        cfx_optim_zero_grad(o);
        loss = cfx_mean(cfx_pow(cfx_forward(m, cfx_ones(30, 4)), 2));
        cfx_backward(loss);
        cfx_optim_step(o);
    }
    return cfx_str(loss);
}

TEST(memory_runs_out_while_tracing) {
    loop("trace", trace);
    loop("export", export_it);
}

TEST(memory_runs_out_while_training) { loop("train", train); }

/* ---- quantized ------------------------------------------------------------------------------- */

/* Quantizes, runs by the plan, saves and opens again. */
static const char *quantize(cfx_quantize_options o) {
    cfx_module *m = mlp_of(64); /* which seeds */
    cfx_tensor *x = cfx_randn(cfx_list(3, 64));
    cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE);
    cfx_value batches = o.scheme == CFX_QUANTIZE_STATIC ? cfx_list(cfx_tuple(x)) : CFX_NONE;
    const cfx_quantized *q = cfx_quantize(p, batches, o);
    if (cfx_failed(q))
        return NULL;
    cfx_value out = cfx_program_run_with((cfx_site){0}, q->program, &cfx_planner, NULL,
                                         CFX_ARGS(x));
    const char *path = saved_as("pt2");
    const char *text = cfx_save(q->program, path) ? show(path) : NULL;
    unlink(path);
    return text ? cfx__text_format("%s\n%s", cfx_str(out), text) : NULL;
}

static const char *quantize_static(void) { return quantize((cfx_quantize_options){0}); }
static const char *quantize_dynamic(void) {
    return quantize((cfx_quantize_options){.scheme = CFX_QUANTIZE_DYNAMIC});
}
static const char *quantize_int4(void) {
    return quantize((cfx_quantize_options){
        .scheme = CFX_QUANTIZE_WEIGHT, .bits = 4, .per = CFX_QUANTIZE_GROUP});
}

/* Modules, as torch.ao.quantization does it. */
static const char *quantize_modules(void) {
    cfx_module *m = mlp_of(64);
    cfx_tensor *x = cfx_randn(cfx_list(3, 64));
    cfx_module_train(m, false);
    cfx_module *prepared = cfx_prepare(m, cfx_qconfig_mapping_default("x86"));
    cfx_forward(prepared, x);
    cfx_module *converted = cfx_convert(prepared);
    return cfx__text_format("%s%s", cfx_module_code(converted), cfx_str(cfx_forward(converted, x)));
}

TEST(memory_runs_out_while_quantizing_by_batches) { loop("quantize static", quantize_static); }
TEST(memory_runs_out_while_quantizing_as_it_runs) { loop("quantize dynamic", quantize_dynamic); }
TEST(memory_runs_out_while_quantizing_weights) { loop("quantize int4", quantize_int4); }
TEST(memory_runs_out_while_quantizing_modules) { loop("quantize modules", quantize_modules); }
