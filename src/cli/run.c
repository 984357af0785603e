/* cfx run: a program on inputs from a file; results shown, saved or compared; values tapped, calls
 * logged, nodes timed. */
#include "look.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../value/json.h"
#include "../run/run.h"

static const char help[] =
    "usage: cfx run MODEL --inputs F.safetensors [OPTION]...\n"
    "\n"
    "Runs a program. Inputs are called in0, in1, ... in flattened order, or by their own names\n"
    "('cfx show MODEL --as program' lists them); results are out0, out1, ... Without --save and\n"
    "--expect the results are printed.\n"
    "  --inputs F       tensors to run on (.safetensors); not needed where there are no inputs\n"
    "  --save F         writes the results as .safetensors\n"
    "  --expect F       compares the results with a file: per result the largest error, and the\n"
    "                   tolerance from which it would pass\n"
    "  --tap SELECTOR   prints the value of nodes: a name, a glob over names ('relu*'), op:NAME\n"
    "                   (op:relu), module:PATH (module:layers.0); may be given more than once\n"
    "  --stats          minimum, maximum, mean, deviation, zeros, NaNs of what is printed\n"
    "  --log api|aten   prints each call: as the graph names it, or as the dispatcher sees it\n"
    "  --profile F      writes when each node ran, as a Chrome trace (chrome://tracing, Perfetto)\n"
    "  --threads N      threads for one operator; all cores otherwise\n"
    "\n"
    "Exit: 0 done or same, 1 differs, 2 trouble.\n";

enum { MAX_TAPS = 64 };

typedef struct {
    const char *model, *inputs, *save, *expect, *log, *profile;
    const char *taps[MAX_TAPS];
    int ntaps, threads;
    bool stats;
} options;

typedef struct {
    options o;
    cfx_program *p;
    bool *tapped;    /* by slot; NULL: none */
    cfx__text trace; /* events so far */
    double start;    /* of the run */
    double told;     /* when progress was shown last */
    bool terminal;   /* words go to one */
} job;

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- what is seen on the way ----------------------------------------------------------------- */

static void print_value(const job *j, const char *name, cfx_value v, bool whole) {
    printf("%s: %s\n", name, cli_brief(v));
    if (v.tag == CFX_TAG_TENSOR && j->o.stats)
        printf("  %s\n", cli_stats_text(v.tensor));
    if (v.tag == CFX_TAG_TENSOR && whole && !j->o.stats)
        printf("%s\n", cfx_tensor_str(v.tensor));
    if (v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST)
        for (int64_t i = 0; i < v.list->len; i++)
            print_value(j, cfx__text_format("%s[%lld]", name, (long long)i), v.list->items[i],
                        whole);
}

static const char *module_path(const cfx_node *n) {
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    if (stack.tag != CFX_TAG_DICT || !stack.dict->len)
        return NULL;
    cfx_value last = stack.dict->entries[stack.dict->len - 1].value;
    return last.tag == CFX_TAG_TUPLE && last.list->len ? cfx_text(last.list->items[0]) : NULL;
}

static void put_event(job *j, const cfx_node *n, double start, double end, cfx_value v) {
    cfx__text *t = &j->trace;
    cfx__text target = {0};
    cfx__target_text(&target, n->target);
    const char *path = module_path(n), *kind = cli_brief(v);
    cfx__text_puts(t, t->len ? ",\n{\"name\":" : "{\"name\":");
    cfx__json_string(t, n->name, strlen(n->name));
    cfx__text_printf(t, ",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":%.3f,\"dur\":%.3f",
                     cfx_opcode_name(n->op), start - j->start, end - start);
    cfx__text_puts(t, ",\"args\":{\"target\":");
    cfx__json_string(t, target.data, target.len);
    cfx__text_puts(t, ",\"result\":");
    cfx__json_string(t, kind, strlen(kind));
    if (path) {
        cfx__text_puts(t, ",\"module\":");
        cfx__json_string(t, path, strlen(path));
    }
    cfx__text_puts(t, "}}");
    cfx__text_release(&target);
}

/* On a terminal, what a long run is at: from the first second on, ten times a second. */
static void put_progress(job *j, const cfx_node *n, int at, double now) {
    if (!j->terminal || now - j->start < 1e6 || now - j->told < 1e5)
        return;
    j->told = now;
    fprintf(stderr, "\r\033[K%d of %lld: %s", at + 1,
            (long long)cfx_graph_len(j->p->module->graph), n->name);
}

static cfx_value watch(cfx_interp *it, cfx_node *n) {
    job *j = it->user;
    double start = now_us();
    put_progress(j, n, it->own_->now, start);
    cfx_value v = cfx_interp_run_node(it, n);
    double end = now_us();
    if (j->o.profile && cfx_ok() && n->op != CFX_PLACEHOLDER && n->op != CFX_OUTPUT)
        put_event(j, n, start, end, v);
    if (j->tapped && j->tapped[it->own_->now] && cfx_ok())
        CFX_SCOPE
    print_value(j, n->name, v, true);
    return v;
}

/* Which nodes the selectors pick; false, with an error, where one picks none. */
static bool choose(job *j) {
    cfx_graph *g = j->p->module->graph;
    j->tapped = cfx__alloc0((size_t)cfx_graph_len(g) + 1);
    for (int i = 0; i < j->o.ntaps; i++) {
        int slot = 0, picked = 0;
        cfx_each_node(g, n) {
            bool hit = cfx__run_selects(j->o.taps[i], n);
            j->tapped[slot++] |= hit;
            picked += hit;
        }
        if (!picked) {
            cfx_fail(CFX_FILE_ERROR, (cfx_site){0},
                     "no node of %s fits '%s'; 'cfx show %s --as graph' lists them", j->o.model,
                     j->o.taps[i], j->o.model);
            return false;
        }
    }
    return true;
}

static bool write_trace(job *j) {
    FILE *f = fopen(j->o.profile, "w");
    bool fine = f && fprintf(f, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n%s\n]}\n",
                             j->trace.len ? j->trace.data : "") > 0;
    fine = f && !fclose(f) && fine;
    if (!fine)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "%s cannot be written", j->o.profile);
    return fine;
}

/* ---- results --------------------------------------------------------------------------------- */

static cfx_value names_of_results(const cfx_program *p) {
    cfx_value names = cfx_list_value(0, NULL);
    for (int i = 0; i < p->noutputs; i++)
        if (p->outputs[i].kind == CFX_OUT_USER || p->outputs[i].kind == CFX_OUT_LOSS)
            cfx_list_append(names.list, cfx_string_value(p->outputs[i].name));
    return names;
}

static bool save(const job *j, const cfx_list *results) {
    cfx_dict *file = cfx_dict_new();
    for (int64_t i = 0; i < results->len; i++) {
        cfx_value v = results->items[i];
        if (cfx_is_number(v))
            v = cfx_tensor_value(cfx_tensor_from_value(v));
        if (v.tag == CFX_TAG_TENSOR)
            cfx_dict_set(file, cfx__text_format("out%lld", (long long)i), v);
    }
    return cfx_safetensors_write(j->o.save, file, NULL);
}

static int finish(job *j, cfx_value result) {
    cfx_value flat = cfx_list_value(0, NULL), names = names_of_results(j->p);
    cfx_tree_flatten(result, flat.list);
    bool same = true;
    if (!j->o.save && !j->o.expect && !(j->o.ntaps || j->o.log))
        for (int64_t i = 0; i < flat.list->len; i++)
            print_value(j, cfx__text_format("out%lld", (long long)i), flat.list->items[i], true);
    if (j->o.save && !save(j, flat.list))
        return cli_trouble();
    if (j->o.profile && !write_trace(j))
        return cli_trouble();
    if (j->o.expect) {
        cfx_dict *expected = cfx_safetensors_read(j->o.expect);
        if (!cfx_ok())
            return cli_trouble();
        same = cli_expect(flat.list, names.list, expected);
    }
    return cfx_ok() ? same ? CLI_DONE : CLI_DIFFERS : cli_trouble();
}

/* ---- running --------------------------------------------------------------------------------- */

static cfx_value execute(job *j, cfx_value inputs) {
    cfx_interp it = {.module = j->p->module, .user = j};
    if (j->o.profile || j->tapped || j->terminal)
        it.run_node = watch;
    cfx_mode api = cfx_function_log(stdout), aten = cfx_dispatch_log(stdout);
    if (j->o.log && !strcmp(j->o.log, "api"))
        cfx_function_mode_push(&api);
    else if (j->o.log)
        cfx_dispatch_mode_push(&aten);
    j->start = now_us();
    cfx_value raw = cfx_run_from((cfx_site){0}, &it,
                                 (cfx_args){(int)inputs.list->len, inputs.list->items, NULL});
    if (j->o.log && !strcmp(j->o.log, "api"))
        cfx_function_mode_pop();
    else if (j->o.log)
        cfx_dispatch_mode_pop();
    if (j->told > 0)
        fprintf(stderr, "\r\033[K");
    return cfx_program_outputs(j->p, inputs, raw);
}

static int run_program(job *j) {
    j->p = cfx_open(j->o.model);
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_value inputs = j->p ? cli_inputs(j->p, j->o.inputs) : cfx_bad();
    if (!cfx_ok() || (j->o.ntaps && !choose(j)))
        return cli_trouble();
    cfx_value result = execute(j, inputs);
    if (cfx_ok())
        return finish(j, result);
    cfx_note("Program: %s", j->o.model);
    return cli_trouble();
}

static int run(int argc, char **argv) {
    job j = {.terminal = isatty(2)};
    options *o = &j.o;
    cli_words w = {argc, argv, .command = &cli_run};
    while (cli_more(&w)) {
        const char *tap = NULL;
        if (cli_value(&w, "--tap", &tap)) {
            if (o->ntaps == MAX_TAPS)
                return cli_usage(&cli_run, "at most %d taps", MAX_TAPS);
            o->taps[o->ntaps++] = tap;
        } else if (!cli_value(&w, "--inputs", &o->inputs) && !cli_value(&w, "--save", &o->save) &&
                   !cli_value(&w, "--expect", &o->expect) && !cli_value(&w, "--log", &o->log) &&
                   !cli_value(&w, "--profile", &o->profile) &&
                   !cli_number(&w, "--threads", &o->threads) &&
                   !cli_flag(&w, "--stats", &o->stats)) {
            cli_rest(&w, &o->model);
        }
    }
    if (w.wrong)
        return CLI_TROUBLE;
    if (!o->model)
        return cli_usage(&cli_run, "which MODEL?");
    if (o->log && strcmp(o->log, "api") && strcmp(o->log, "aten"))
        return cli_usage(&cli_run, "--log is api or aten, not '%s'", o->log);
    if (o->threads)
        cfx_set_num_threads(o->threads);
    int code = run_program(&j);
    free(j.tapped);
    cfx__text_release(&j.trace);
    return code;
}

const cli_command cli_run = {"run", run, "run a program on inputs from a file", help};
