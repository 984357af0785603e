/* cfx split: a program becomes several, for as many processes. Start at run. */
#include "split.h"

#include <stdlib.h>
#include <string.h>

#include "../value/json.h"

static const char help[] =
    "usage: cfx split MODEL --stages N|--tensor N [-o DIR] [--simulate] [options]\n\n"
    "--stages cuts a program into N pipeline stages, one for each process, and minimises the time\n"
    "of the slowest stage and the data between stages. The first stage has the program's inputs,\n"
    "each other stage takes the results of the one before it, the last has the program's results.\n"
    "Prints the stages and the values between them.\n"
    "--tensor makes a program for each of N tensor parallel ranks: layers are cut by output or\n"
    "input features, attention by heads, embeddings by vocabulary, with collectives of\n"
    "torch.ops._c10d_functional in between. Prints the layers that are cut, and those that are\n"
    "not with the reason.\n"
    "  -o DIR           writes DIR/stage0.pt2, DIR/stage1.pt2, ... or DIR/rank0.pt2, ..., which\n"
    "                   PyTorch loads, and DIR/plan.json with the values between stages, or cuts\n"
    "  --force          overwrites existing files\n"
    "  --simulate       runs the stages in sequence, or all ranks as threads, and compares with\n"
    "                   the whole program\n"
    "  --report         predicts speedup, and the shares of communication and waiting, for N\n"
    "                   ranks and for 8 to 1,024\n"
    "  --machine F      describes the machine: lines of a name and a number, flops, bandwidth,\n"
    "                   link, latency, call, memory, cores\n"
    "  --micro-batches N  micro-batches in the pipeline; 8 by default\n"
    "  --inputs F       inputs for --simulate, as for cfx run; by default saved or random ones\n"
    "  --measure        balances by measured times of nodes instead of estimates\n"
    "  --threads N      threads for --measure, as many as a rank will have; all cores by default\n"
    "  --beside N       measures while N ranks run at once on this machine\n"
    "  --memory SIZE    the most bytes of tensors in a stage: 800M, 2G\n"
    "  --size S=N       the value of a dynamic size; may be given more than once\n\n"
    "Exit: 0 done or equal, 1 results differ, 2 error; no file is written then.\n";

/* ---- words ----------------------------------------------------------------------------------- */

static bool read_words(cli_split_job *j, int argc, char **argv) {
    const char *size = NULL;
    cli_words w = {argc, argv, .command = &cli_split};
    while (cli_more(&w)) {
        if (cli_value(&w, "--size", &size)) {
            if (j->nsizes == CLI_SPLIT_SIZES || !size)
                return cli_usage(&cli_split, "--size: %d are the most", CLI_SPLIT_SIZES), false;
            j->sizes[j->nsizes++] = size;
        } else if (!cli_number(&w, "--stages", &j->stages) &&
                   !cli_number(&w, "--tensor", &j->tensor) && !cli_value(&w, "-o", &j->folder) &&
                   !cli_flag(&w, "--force", &j->force) &&
                   !cli_flag(&w, "--simulate", &j->simulate) &&
                   !cli_flag(&w, "--measure", &j->measure) &&
                   !cli_flag(&w, "--report", &j->report) &&
                   !cli_value(&w, "--machine", &j->machine) &&
                   !cli_number(&w, "--micro-batches", &j->batches) &&
                   !cli_number(&w, "--threads", &j->threads) &&
                   !cli_number(&w, "--beside", &j->beside) &&
                   !cli_tensors(&w, "--inputs", &j->inputs) &&
                   !cli_value(&w, "--memory", &j->memory)) {
            cli_rest(&w, &j->model);
        }
    }
    return !w.wrong;
}

/* "800M", "2G", "4096" in bytes; -1 with words. */
static int64_t read_bytes(const char *option, const char *word) {
    char *end;
    double n = strtod(word, &end);
    const char *units = "KMGT", *unit = *end ? strchr(units, *end) : NULL;
    for (int i = 0; unit && i <= unit - units; i++)
        n *= 1000;
    if (end != word && !*(end + (unit ? 1 : 0)) && n >= 1)
        return cfx__int64_of(n);
    cli_usage(&cli_split, "%s wants a number of bytes, as 800M or 2G, not '%s'", option, word);
    return -1;
}

/* "s0=8", "s1=16" as a dict; NULL with words. */
static cfx_dict *read_sizes(const cli_split_job *j) {
    cfx_dict *sizes = cfx_dict_new();
    for (int i = 0; i < j->nsizes; i++) {
        const char *equal = strchr(j->sizes[i], '=');
        char *end = NULL;
        long long n = equal ? strtoll(equal + 1, &end, 10) : 0;
        if (!equal || equal == j->sizes[i] || end == equal + 1 || *end || n < 0) {
            cli_usage(&cli_split, "--size wants SYMBOL=NUMBER, not '%s'", j->sizes[i]);
            return NULL;
        }
        cfx_dict_put(sizes, cfx_string_value_n(j->sizes[i], (size_t)(equal - j->sizes[i])),
                     cfx_int(n));
    }
    return sizes;
}

bool cli_split_inputs(cli_split_job *j) {
    if (!cfx_is_none(j->flat))
        return true;
    cfx_value flat = cfx_list_value(0, NULL);
    if (!cli_choose_inputs(j->program, j->inputs, cfx_as_list(flat)))
        return false;
    j->flat = flat;
    return true;
}

/* What symbols are in the inputs that are given, where --size does not say so. */
static bool add_sizes(cli_split_job *j, cfx_dict *sizes) {
    if (!cli_split_inputs(j))
        return false;
    const cfx_list *flat = cfx_as_list(j->flat);
    int64_t k = 0;
    for (int i = 0; i < j->program->ninputs && k < flat->len; i++) {
        if (j->program->inputs[i].kind != CFX_IN_USER)
            continue;
        cfx_value v = flat->items[k++];
        const cfx_node *n = cfx_graph_find(j->program->module->graph, j->program->inputs[i].name);
        cfx_result r = n ? cfx_node_result(n) : (cfx_result){0};
        for (int d = 0; v.tag == CFX_TAG_TENSOR && d < r.ndim && d < cfx_as_tensor(v)->ndim; d++) {
            cfx_value size = cfx_result_size(&r, d);
            const cfx_sym *e = size.tag == CFX_TAG_SYM ? cfx_as_sym(size) : NULL;
            if (e && e->op == CFX__SYM_NAME && !cfx_dict_find(sizes, cfx_string_value(e->name)))
                cfx_dict_set(sizes, e->name, cfx_int(cfx_as_tensor(v)->shape[d]));
        }
    }
    return true;
}

cfx_value cli_split_copies(const cli_split_job *j) {
    cfx_value out = cfx_list_value(0, NULL);
    const cfx_list *flat = cfx_as_list(j->flat);
    for (int64_t i = 0; i < flat->len; i++) {
        cfx_value v = flat->items[i];
        cfx_list_append(cfx_as_list(out),
                        v.tag == CFX_TAG_TENSOR ? cfx_tensor_value(cfx_clone(v)) : v);
    }
    return out;
}

/* ---- stages ---------------------------------------------------------------------------------- */

static cfx_value row_of(const cfx_stage *s, int i, double all) {
    return cfx_dict_of("stage", i, "calls", s->nodes, "seconds", cli_fact(s->seconds), "share",
                       cli_fact(all > 0 ? s->seconds / all : 0), "flops", cfx_int(s->flops),
                       "weights", cfx_int(s->weights), "written", cfx_int(s->written), "alive",
                       cfx_int(s->alive), "crossing", cfx_int(s->bytes));
}

static cfx_value shape_of(cfx_value val) {
    cfx_result r = cfx_result_of(val);
    cfx_value shape = cfx_list_value(0, NULL);
    for (int i = 0; r.kind == CFX_RESULT_TENSOR && i < r.ndim; i++) {
        cfx_value size = cfx_result_size(&r, i);
        cfx_list_append(cfx_as_list(shape),
                        size.tag == CFX_TAG_INT ? size : cfx_string_value(cfx_value_repr(size)));
    }
    return shape;
}

static cfx_value crossing_row(const cfx_crossing *c, int from) {
    cfx_result r = cfx_result_of(c->val);
    bool tensor = r.kind == CFX_RESULT_TENSOR;
    return cfx_dict_of("from", from, "to", from + 1, "name", c->name, "type", cfx_result_text(&r),
                       "dtype", tensor ? cfx_dtype_name(r.dtype) : "number", "shape",
                       shape_of(c->val), "bytes", cfx_int(c->bytes));
}

static void print_stages(const cfx_stages *s) {
    double all = 0;
    for (int i = 0; i < s->n; i++)
        all += s->stages[i].seconds;
    cli_print("stage  calls      time  share     FLOPs    tensors      alive    crosses\n");
    for (int i = 0; i < s->n; i++) {
        const cfx_stage *t = &s->stages[i];
        cli_print("%5d %6d %6.3f ms %5.1f%% %9.3g %10s %10s %10s\n", i, t->nodes, 1e3 * t->seconds,
                  all > 0 ? 100 * t->seconds / all : 0, (double)t->flops, cli_bytes(t->weights),
                  cli_bytes(t->alive), i + 1 < s->n ? cli_bytes(t->bytes) : "");
        cli_answer_row("stages", row_of(t, i, all));
    }
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->stages[i].ncrossings; k++) {
            const cfx_crossing *c = &s->stages[i].crossings[k];
            cfx_result r = cfx_result_of(c->val);
            if (!i && !k)
                cli_print("\n");
            cli_print("%d -> %d  %s  %s  %s\n", i, i + 1, c->name, cfx_result_text(&r),
                      cli_bytes(c->bytes));
            cli_answer_row("crossings", crossing_row(c, i));
        }
}

/* plan.json, and its list of stages. */
static cfx_value plan_of(const cli_split_job *j, const cfx_stages *s, cfx_list **rows) {
    cfx_value stages = cfx_list_value(0, NULL);
    *rows = cfx_as_list(stages);
    double all = 0;
    for (int i = 0; i < s->n; i++)
        all += s->stages[i].seconds;
    for (int i = 0; i < s->n; i++) {
        cfx_value row = row_of(&s->stages[i], i, all), gives = cfx_list_value(0, NULL);
        for (int k = 0; k < s->stages[i].ncrossings; k++)
            cfx_list_append(cfx_as_list(gives), crossing_row(&s->stages[i].crossings[k], i));
        cfx_dict_set(cfx_as_dict(row), "gives", gives);
        cfx_list_append(cfx_as_list(stages), row);
    }
    return cfx_dict_of("format", "cfx split 1", "model", j->model, "kind", "stages", "stages",
                       stages);
}

/* What --size, --memory, --machine and --measure say; false with words. */
static bool read_options(cli_split_job *j, cfx_stage_options *o) {
    cfx_dict *sizes = read_sizes(j);
    *o = (cfx_stage_options){.n = j->stages, .sizes = sizes};
    if (!sizes || (j->memory && (o->memory = read_bytes("--memory", j->memory)) < 0))
        return false;
    if ((j->inputs && !add_sizes(j, sizes)) ||
        (j->machine && !cfx_machine_read(j->machine, &o->machine)) ||
        (j->measure && !(o->seconds = cli_split_measure(j))))
        return cli_trouble(), false;
    return true;
}

static int split_stages(cli_split_job *j, cfx_stage_options o) {
    cfx_stages *s = cfx_program_stages(j->program, o);
    if (cfx_failed(s))
        return cli_trouble();
    print_stages(s);
    int code = j->simulate ? cli_split_simulate_stages(j, s) : CLI_DONE;
    if (code == CLI_DONE && j->report)
        code = cli_split_report(j, o);
    if (code != CLI_DONE || !j->folder)
        return code;
    cfx_program **programs = calloc((size_t)s->n, sizeof *programs);
    for (int i = 0; programs && i < s->n; i++)
        programs[i] = s->stages[i].program;
    cfx_list *rows = NULL;
    cfx_value plan = plan_of(j, s, &rows);
    code = programs ? cli_split_write(j, "stage", programs, s->n, plan, rows) : CLI_TROUBLE;
    free(programs);
    return code;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int run(int argc, char **argv) {
    cli_split_job j = {.flat = cfx_none()};
    if (!read_words(&j, argc, argv))
        return CLI_TROUBLE;
    if (!j.model)
        return cli_usage(&cli_split, "which MODEL?");
    if (!j.stages == !j.tensor)
        return cli_usage(&cli_split, j.stages ? "--stages or --tensor, not both"
                                              : "into what? --stages N or --tensor N");
    if (j.beside > CLI_SPLIT_BESIDE)
        return cli_usage(&cli_split, "--beside: %d ranks are the most", CLI_SPLIT_BESIDE);
    if (j.beside && !j.measure)
        return cli_usage(&cli_split, "--beside is for --measure");
    j.program = cfx_to_aten(cfx_open(j.model));
    if (!cfx_ok())
        return cli_trouble();
    cfx_stage_options o;
    if (!read_options(&j, &o))
        return CLI_TROUBLE;
    return j.tensor ? cli_split_tensor(&j, o) : split_stages(&j, o);
}

const cli_command cli_split = {"split", run, "split a program for several processes",
                               help};
