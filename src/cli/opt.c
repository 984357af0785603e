/* cfx opt: a program through passes, and the result written to a file. --verify runs the program
 * before and after on the same inputs first; --bisect looks for the pass after which a command
 * fails. */
#include "look.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char help[] =
    "usage: cfx opt MODEL -o OUT.pt2 [--pass NAME[:OPTION=VALUE,...]]... [--explain] [--verify]\n"
    "               [--inputs F] [--bisect CMD] [--force]\n"
    "       cfx opt MODEL -o OUT.pt2 --extract A..B|SELECTOR\n"
    "       cfx opt MODEL -o OUT.pt2 --reduce [--check CMD] [--inputs F]\n"
    "       cfx opt MODEL -o OUT.pt2 --join OTHER [--wire INPUT=out0]...\n"
    "       cfx opt MODEL -o OUT.pt2 --dynamic IN.DIM=NAME... [--inputs F]\n"
    "       cfx opt MODEL -o OUT.pt2 --weights F | --lora F [--alpha A]\n"
    "       cfx opt --list\n\n"
    "Runs passes over a program and writes the result.\n"
    CLI_OUT_HELP
    "  --pass NAME      a pass, with its options; may be given more than once. By default the\n"
    "                   default pipeline runs\n"
    "  --list           lists the passes; * marks those of the default pipeline\n"
    "  --explain        for each pass: changes, nodes, time; and the origin of new nodes\n"
    "  --verify         runs the program before and after, on --inputs, saved or random inputs,\n"
    "                   and prints the largest error of each result. If one is beyond the\n"
    "                   tolerance of its dtype, nothing is written\n"
    "  --inputs F       tensors to run on, as for cfx run\n"
    "  --image HOW      how images become tensors, as for cfx run\n"
    "  --bisect CMD     finds the first application of a pass after which CMD fails; the shell\n"
    "                   runs CMD with the name of a .pt2 as last argument. Writes no other file\n\n"
    "Replacing weights; only passes given by --pass run:\n"
    "  --weights F      loads a state_dict (.safetensors, .pt or .npz) by name; a prefix common\n"
    "                   to all names may differ. Lists unused names, and converts floats of\n"
    "                   another dtype. If tensors are missing, --force is needed\n"
    "  --lora F         merges a LoRA adapter (PEFT's adapter_model.safetensors, or its folder);\n"
    "                   the scale is in adapter_config.json beside it\n"
    "  --alpha A        alpha of the adapter instead; its scale is alpha divided by rank\n\n"
    "Extracting a part of a program:\n"
    "  --extract A..B   the nodes computed from A and needed for B, both included, with their\n"
    "                   weights; A and B may be lists with commas, or missing. Or selected\n"
    "                   nodes: module:layers.0\n"
    "  --reduce         the fewest nodes, then the smallest sizes, for which CMD still fails; its\n"
    "                   inputs are written beside OUT, to a .safetensors; if OUT is a .fx, which\n"
    "                   has one already, to an .inputs.safetensors\n"
    "  --check CMD      the shell runs CMD with the names of a .pt2 and of its inputs as last\n"
    "                   arguments. Without it, a program fails if it gives an error or if the\n"
    "                   executors differ\n\n"
    "Joining two programs:\n"
    "  --join OTHER     has the results of both, except those wired to inputs of OTHER\n"
    "  --wire IN=OUT    connects an input of OTHER to a result of MODEL, out0, or to an input,\n"
    "                   in0; may be given more than once. Inputs are named, or in0, in1, ...\n\n"
    "Dynamic sizes:\n"
    "  --dynamic IN.DIM=NAME\n"
    "                   in0.0=batch: a size of an input becomes a symbol; equal names are equal\n"
    "                   sizes; may be given more than once. Constants derived from this size are\n"
    "                   computed from it. The program is run at several sizes, and the rows of\n"
    "                   its results are compared with the example's. If a node works at one\n"
    "                   size only, the error names it\n\n"
    "Exit: 0 done, 1 a result differs, 2 error.\n";

enum { STEPS = 64, WIRES = 64, SIZES = 64 };

typedef struct {
    const char *model, *inputs, *bisect, *extract, *check, *join, *weights, *lora, *alpha;
    cli_out out;
    const char *wires[WIRES];
    int nwires;
    const char *sizes[SIZES];
    int nsizes;
    bool list, explain, verify, reduce;
    cfx_pass_step steps[STEPS];
    int nsteps;
} options;

/* ---- passes ---------------------------------------------------------------------------------- */

/* "NAME:key=value,key=value"; false, with words, where it is none. */
static bool read_step(options *o, const char *text) {
    size_t n = strcspn(text, ":");
    const cfx_pass *pass = cfx_pass_find(cfx__string_new(text, n)->text);
    if (!pass || o->nsteps == STEPS) {
        cli_nearest near = {0};
        for (int i = 0; !pass && cfx_pass_number(i); i++)
            cli_near(&near, cfx__string_new(text, n)->text, cfx_pass_number(i)->name);
        cli_usage(&cli_opt, pass ? "too many passes: '%s'%s" : "no pass is called '%s'%s; 'cfx "
                                                               "opt --list' lists them", text,
                  cli_meant(&near));
        return false;
    }
    cfx_dict *given = cfx_dict_new();
    for (const char *at = text + n; *at; at += strcspn(at, ",")) {
        at++;
        size_t key = strcspn(at, "=,"), len = strcspn(at, ",");
        if (key == len) {
            cli_usage(&cli_opt, "options of a pass are NAME:OPTION=VALUE, not '%s'", text);
            return false;
        }
        cfx_dict_put(given, cfx_string_value_n(at, key),
                     cfx_string_value_n(at + key + 1, len - key - 1));
    }
    o->steps[o->nsteps++] = (cfx_pass_step){pass, given};
    return true;
}

static bool is_default(const cfx_pass *pass) {
    int n;
    const cfx_pass_step *steps = cfx_pass_default(&n);
    for (int i = 0; i < n; i++)
        if (steps[i].pass == pass)
            return true;
    return false;
}

static int list_passes(void) {
    const cfx_pass *p;
    for (int i = 0; (p = cfx_pass_number(i)); i++) {
        cli_answer_row("passes", cfx_dict_of("pass", p->name, "default", cfx_bool(is_default(p)),
                                             "summary", p->summary, "options",
                                             p->options ? cfx_string_value(p->options)
                                                        : cfx_none()));
        cli_print("%c %-22s %s%s%s\n", is_default(p) ? '*' : ' ', p->name, p->summary,
                  p->options ? "; options: " : "", p->options ? p->options : "");
    }
    return CLI_DONE;
}

/* ---- explain --------------------------------------------------------------------------------- */

static void answer_pass(const cfx_pass_report *r) {
    cli_answer_row("passes", cfx_dict_of("application", r->application, "pass", r->pass->name,
                                         "changes", r->changes, "nodes_before", r->nodes_before,
                                         "nodes_after", r->nodes_after, "ms", r->seconds * 1e3));
}

static void print_report(const cfx_pass_report *r, void *user) {
    (void)user;
    answer_pass(r);
    cli_print("%-4d %-22s %6d changes %8lld -> %-8lld nodes %10.3f ms\n", r->application,
              r->pass->name, r->changes, (long long)r->nodes_before, (long long)r->nodes_after,
              r->seconds * 1e3);
}

/* "fold_constants, from neg", and in brackets where those came from themselves. */
static void print_origin(cfx_value from) {
    cfx_value nodes = cfx_dict_get(cfx_as_dict(from), "nodes");
    cfx_value earlier = cfx_dict_get(cfx_as_dict(from), "from");
    const bool list = nodes.tag == CFX_TAG_LIST && cfx_as_list(nodes)->len;
    cli_print("%s, from%s", cfx_value_str(cfx_dict_get(cfx_as_dict(from), "pass")),
              list ? "" : " nothing");
    for (int64_t i = 0; list && i < cfx_as_list(nodes)->len; i++) {
        const char *name = cfx_value_str(cfx_as_list(nodes)->items[i]);
        cfx_value one = earlier.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(earlier), name)
                                                    : cfx_none();
        cli_print("%s %s", i ? "," : "", name);
        if (one.tag != CFX_TAG_DICT)
            continue;
        cli_print(" (");
        print_origin(one);
        cli_print(")");
    }
}

static void print_origins(const char *path, cfx_module *m, void *user) {
    (void)user;
    if (!m->graph)
        return;
    cfx_each_node(m->graph, n) {
        cfx_value from = cfx_node_get_meta(n, "from_node");
        if (from.tag != CFX_TAG_DICT)
            continue;
        cli_print("%s%s%s: ", path, *path ? "." : "", n->name);
        print_origin(from);
        cli_print("\n");
    }
}

/* The tolerance that the promises of the pipeline ask for, as a share of the largest value. */
static double tolerance(const options *o) {
    double least = 0;
    for (int i = 0; i < o->nsteps; i++)
        if (o->steps[i].pass->promise == CFX_PASS_LOWERED)
            least = 5e-2;
    return least;
}

/* ---- bisect ---------------------------------------------------------------------------------- */

/* Edits the program itself where all passes run: nobody looks at it again. */
static cfx_pass_result optimize(const options *o, cfx_program *p, int stop) {
    cfx_pass_manager m = {.steps = o->steps,
                          .nsteps = o->nsteps,
                          .stop = stop,
                          .consume = !stop,
                          .check = true,
                          .report = o->explain && !stop ? print_report : NULL};
    return cfx_passes_run(&m, p);
}

/* Whether the command is content with the program after so many applications; -1: trouble. */
static int holds(const options *o, cfx_program *p, int stop, const char *file) {
    size_t mark = cfx_scope_open();
    cfx_program *q = stop ? optimize(o, p, stop).program : p;
    int code = -1;
    if (cfx_save_unchecked(q, file)) {
        code = system(cfx__text_format("%s %s", o->bisect, cli_quoted(file)));
        code = code != -1 && WIFEXITED(code) ? WEXITSTATUS(code) == 0 : 0;
    }
    cfx_scope_close(mark);
    return code;
}

static void note_pass(const cfx_pass_report *r, void *user) {
    cfx_list_append(user, cfx_string_value(r->pass->name));
}

static int search(const options *o, cfx_program *p, const cfx_list *names, const char *file) {
    int good = 0, bad = (int)names->len, held = holds(o, p, 0, file);
    if (held == 1)
        held = bad ? !holds(o, p, bad, file) : 0;
    else if (held == 0)
        cli_print("the command fails on the program as it is\n");
    if (held < 0)
        return cli_trouble();
    if (!held) {
        if (cfx_ok() && bad)
            cli_print("the command is content after all %d applications\n", bad);
        return cfx_ok() ? CLI_DONE : cli_trouble();
    }
    while (bad - good > 1) {
        int middle = (good + bad) / 2;
        held = holds(o, p, middle, file);
        if (held < 0)
            return cli_trouble();
        *(held ? &good : &bad) = middle;
    }
    cli_print("application %d of %d, %s, is the first after which the command fails\n", bad,
              (int)names->len, cfx_value_str(names->items[bad - 1]));
    return CLI_DIFFERS;
}

static int bisect(const options *o, cfx_program *p) {
    cfx_list *names = cfx_as_list(cfx_list_value(0, NULL));
    cfx_pass_manager m = {
        .steps = o->steps, .nsteps = o->nsteps, .report = note_pass, .user = names};
    if (cfx_failed(cfx_passes_run(&m, p).program))
        return cli_trouble();
    const char *folder = cli_folder();
    if (!folder)
        return cli_trouble();
    const char *file = cfx__text_format("%s/program.pt2", folder);
    int code = search(o, p, names, file);
    unlink(file);
    rmdir(folder);
    return code;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int opt(options *o) {
    cfx_program *p = cfx_to_aten(cli_read(o->model, &o->out));
    const bool weights = o->weights || o->lora;
    if (!cfx_ok() || (weights && !cli_put_weights(p, o->weights, o->lora, o->alpha, &o->out)))
        return cli_trouble();
    if (weights && !o->nsteps)
        return cli_write(p, &o->out);
    if (o->bisect)
        return bisect(o, p);
    cfx_program *q = optimize(o, p, 0).program;
    if (cfx_failed(q))
        return cli_trouble();
    if (o->explain)
        cfx_module_walk(q->module, print_origins, NULL);
    int code = o->verify ? cli_verify(o->model, o->inputs, q, tolerance(o)) : CLI_DONE;
    if (code != CLI_DONE)
        return code;
    return cli_write(q, &o->out);
}

static int run(int argc, char **argv) {
    options o = {0};
    const char *pass = NULL, *wire = NULL, *size = NULL;
    cli_words w = {argc, argv, .command = &cli_opt};
    while (cli_more(&w)) {
        if (cli_value(&w, "--pass", &pass)) {
            if (!pass || !read_step(&o, pass))
                return CLI_TROUBLE;
        } else if (cli_value(&w, "--wire", &wire)) {
            if (!wire || o.nwires == WIRES)
                return cli_usage(&cli_opt, "too many wires");
            o.wires[o.nwires++] = wire;
        } else if (cli_value(&w, "--dynamic", &size)) {
            if (!size || o.nsizes == SIZES)
                return cli_usage(&cli_opt, "too many sizes");
            o.sizes[o.nsizes++] = size;
        } else if (!cli_program_out(&w, &o.out) && !cli_tensors(&w, "--inputs", &o.inputs) &&
                   !cli_image(&w) &&
                   !cli_value(&w, "--bisect", &o.bisect) && !cli_flag(&w, "--list", &o.list) &&
                   !cli_flag(&w, "--explain", &o.explain) &&
                   !cli_value(&w, "--extract", &o.extract) && !cli_value(&w, "--join", &o.join) &&
                   !cli_flag(&w, "--reduce", &o.reduce) && !cli_value(&w, "--check", &o.check) &&
                   !cli_value(&w, "--weights", &o.weights) && !cli_value(&w, "--lora", &o.lora) &&
                   !cli_value(&w, "--alpha", &o.alpha) &&
                   !cli_flag(&w, "--verify", &o.verify)) {
            cli_rest(&w, &o.model);
        }
    }
    if (w.wrong)
        return CLI_TROUBLE;
    if (o.list)
        return list_passes();
    if (!o.model || (!o.out.path && !o.bisect))
        return cli_usage(&cli_opt, o.model ? "-o which file?" : "which MODEL?");
    if (o.alpha && !o.lora)
        return cli_usage(&cli_opt, "--alpha is for --lora");
    if ((o.weights || o.lora) && (o.verify || o.extract || o.nsizes || o.join || o.reduce))
        return cli_usage(&cli_opt, "other weights go in by themselves: write them to a file, and "
                                   "go on from there");
    if (o.extract)
        return cli_extract(o.model, o.extract, &o.out);
    if (o.nsizes)
        return cli_dynamic(o.model, o.inputs, o.sizes, o.nsizes, &o.out);
    if (o.join)
        return cli_join(o.model, o.join, o.wires, o.nwires, &o.out);
    return o.reduce ? cli_reduce(o.model, o.inputs, o.check, &o.out) : opt(&o);
}

const cli_command cli_opt = {"opt", run, "run passes over a program", help};
