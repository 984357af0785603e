/* cfx run: a program on inputs from a file; results shown, saved or compared; values tapped, calls
 * logged, nodes timed. */
#include "library.h"
#include "profile.h"
#include "run_ranks.h"
#include "samples.h"
#include "watch.h"

#include <string.h>
#include <unistd.h>

#include "../base/pool.h"
#include "../run/run.h"
#include "../value/json.h"

static const char help[] =
    "usage: cfx run MODEL [--inputs F | --random] [OPTION]...\n\n"
    "Runs a program. Inputs are called in0, in1, ... in flattened order, or by their own names\n"
    "('cfx show MODEL --as program' lists them); results are out0, out1, ... Results are printed\n"
    "unless --save or --expect is given. MODEL may be a shared object of 'cfx compile --library';\n"
    "its code is executed without any check, so run only those that you built.\n"
    "  --inputs F       tensors to run on: .safetensors, .npy, .npz, .pt (torch.save), .pb, PNG\n"
    "                   or JPEG; NAME=F for one input, F:f32[3,4] for raw numbers; may be given\n"
    "                   more than once. Each file of a folder is a sample. By default the inputs\n"
    "                   saved in the program, or random ones\n"
    CLI_IMAGE_HELP
    "  --text TEXT      the tokens of a text, for language models; each --text is a sample\n"
    "  --tokenizer F    tokenizer.json of Hugging Face for --text: BPE or WordPiece\n"
    "  --batch N        samples in one run; by default 1, or the batch size of the program\n"
    "  --generate N     continues --text, or the tokens of --inputs, by N tokens, always the most\n"
    "                   likely one; caches are kept between tokens\n"
    "  --random         random inputs: normal floats, ones for the rest; the same each time\n"
    "  --save F         writes the results as .safetensors, or a single one as .npy\n"
    "  --expect F       compares the results with such files: for each result the largest error\n"
    "                   and the smallest tolerance that would accept it\n"
    "  --tap SELECTOR   prints values of nodes: a name, a glob over names ('relu*'), op:NAME\n"
    "                   (op:relu), module:PATH (module:layers.0), source:FILE:LINE, in sub-graphs\n"
    "                   too; may be given more than once\n"
    "  --save-taps F    writes tapped values as .safetensors, by node name, instead\n"
    "  --stats          minimum, maximum, mean, deviation, zeros, NaNs, infinities and histogram\n"
    "                   of the values that would be printed\n"
    "  --find-nan       names the node that produces the first NaN or infinity from finite\n"
    "                   inputs which reaches a result\n"
    "  --check RULE     'op:softmax in [0, 1]': checks the range of values; exit 1 if it fails\n"
    "  --log api|aten   prints each call, under its Python name or as the dispatcher sees it\n"
    "  --profile F      prints medians of warm runs by kernel, module and node, with FLOPs, bytes\n"
    "                   and the share of the machine's limit; writes a timeline of the kernels\n"
    "                   as a Chrome trace (for Perfetto, and 'cfx draw --with')\n"
    "  --runs N         number of runs for --profile; 5 by default\n"
    "  --memory F.svg   draws live memory over the program, and the tensors alive at the peak\n"
    "  --reference      interprets the program node by node instead of using a plan\n"
    "  --threads N      threads for one operator; all cores by default\n"
    "  --precision P    type that products multiply in: f32, tf32, bf16 or f16; sums are f32\n"
    "  --device D       cpu, cuda or cuda:N; nodes without a GPU kernel run on the host, with\n"
    "                   copies around them\n"
    "  --stages N       runs the program as a pipeline of N stages, one on each rank of\n"
    "                   'mpirun -n N cfx run'; without mpirun, ranks are threads. Programs with\n"
    "                   collectives and folders of 'cfx split' use ranks without this option\n"
    "  --micro-batches N  sends the rows of the inputs through the stages in N parts\n\n"
    "Exit: 0 done or equal, 1 a difference or a failed check, 2 error.\n";

typedef struct {
    const char *model, *save, *expect, *log, *profile, *memory;
    cli_given given;
    int threads, runs, stages, micro_batches, generate;
    bool reference, random;
} options;

typedef struct {
    options o;
    cfx_program *p;
    cli_watch watch;
    cli_profile profile;
    cli_samples samples;
    int64_t at;      /* nodes run so far */
    double start;    /* of the run */
    double told;     /* when progress was shown last */
    bool terminal;   /* words go to one */
} job;

static double now_us(void) { return (double)cfx__clock_ns() * 1e-3; }

/* ---- what is seen on the way ----------------------------------------------------------------- */

static void note_value(const job *j, const char *name, cfx_value v) {
    cfx_stats s = {0};
    if (v.tag != CFX_TAG_TENSOR || !cli_answers())
        return;
    cfx_value row = cfx_dict_of("name", name, "dtype", cfx_dtype_name(cfx_as_tensor(v)->dtype),
                                "shape", cli_shape(cfx_as_tensor(v)));
    if (j->watch.stats) {
        cfx_stats_add(&s, cfx_as_tensor(v));
        cli_put_stats(cfx_as_dict(row), &s);
    }
    cli_answer_row("results", row);
}

static void print_value(const job *j, const char *name, cfx_value v, bool whole) {
    cli_print("%s: %s\n", name, cli_brief(v));
    note_value(j, name, v);
    if (v.tag == CFX_TAG_TENSOR && j->watch.stats)
        cli_print("  %s\n", cli_stats_text(cfx_as_tensor(v)));
    if (v.tag == CFX_TAG_TENSOR && whole && !j->watch.stats)
        cli_lines(cfx_tensor_str(cfx_as_tensor(v)));
    if (v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            print_value(j, cfx__text_format("%s[%lld]", name, (long long)i),
                        cfx_as_list(v)->items[i], whole);
}

/* On a terminal, what a long run is at: from the first second on, ten times a second. */
static void put_progress(job *j, const cfx_node *n, int nodes, double now) {
    j->at += nodes;
    if (!j->terminal || now - j->start < 1e6 || now - j->told < 1e5)
        return;
    j->told = now;
    cli_progress(n->name, j->at, cfx_graph_len(j->p->module->graph));
}

static void note_ran(job *j, const cfx_ran *r) {
    CFX_SCOPE cli_profile_add(&j->profile, r, now_us() - j->start);
}

static cfx_value watch(cfx_interp *it, cfx_node *n) {
    job *j = it->user;
    double start = now_us();
    put_progress(j, n, 1, start);
    cfx_value v = cfx_interp_run_node(it, n);
    if (!cfx_ok())
        return v;
    if (j->o.profile && n->op != CFX_PLACEHOLDER && n->op != CFX_OUTPUT)
        note_ran(j, &(cfx_ran){n->target.name, 1, (const cfx_node *[]){n}, v,
                               (now_us() - start) * 1e-6});
    cli_watch_see(&j->watch, it, n, v);
    return v;
}

/* ---- results --------------------------------------------------------------------------------- */

static cfx_value names_of_results(const cfx_program *p) {
    cfx_value names = cfx_list_value(0, NULL);
    for (int i = 0; i < p->noutputs; i++)
        if (p->outputs[i].kind == CFX_OUT_USER || p->outputs[i].kind == CFX_OUT_LOSS)
            cfx_list_append(cfx_as_list(names),
                            cfx_string_value(cli_file_name(p, false, cfx_as_list(names)->len,
                                                           p->outputs[i].name)));
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
    return cli_tensors_save(j->o.save, file);
}

/* Results, in flattened order; of a sample that has a name with it in front. */
static void print_results(const job *j, const char *name, const cfx_list *flat) {
    if (*name)
        cli_print("%s\n", name);
    for (int64_t i = 0; i < flat->len; i++)
        print_value(j, cfx__text_format("%s%sout%lld", cli_answers() ? name : "",
                                        cli_answers() && *name ? ":" : "", (long long)i),
                    flat->items[i], true);
}

static int finish(job *j) {
    const cli_samples *s = &j->samples;
    cfx_value flat = cli_samples_all(s);
    cfx_value names = j->p ? names_of_results(j->p) : cfx_list_value(0, NULL);
    bool same = true;
    bool looked = cli_watches(&j->watch) || j->o.log || j->o.profile || j->o.memory;
    if (!cfx_ok())
        return cli_trouble();
    for (int64_t i = 0; !j->o.save && !j->o.expect && !looked && i < s->names->len; i++)
        print_results(j, cfx_text(s->names->items[i]), cfx_as_list(cli_samples_of(s, i)));
    if (j->o.save && !save(j, cfx_as_list(flat)))
        return cli_trouble();
    if (!cli_watch_end(&j->watch))
        return cli_trouble();
    const bool profiled = j->o.profile && j->profile.program; /* ranks have told their own */
    if (profiled && !cli_profile_write(&j->profile, j->o.profile, j->watch.columns))
        return cli_trouble();
    if (j->o.memory && !cli_memory_write(&j->profile, j->o.memory))
        return cli_trouble();
    if (profiled)
        cli_profile_print(&j->profile);
    if (j->o.expect) {
        cfx_dict *expected = cli_read_tensors(j->o.expect, "out");
        if (expected && !expected->len && cfx_as_list(flat)->len)
            cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' has no tensor to compare with",
                     j->o.expect);
        if (!cfx_ok())
            return cli_trouble();
        static const cfx_dtype kept[] = {CFX_F32, CFX_BF16, CFX_F16, CFX_F16}; /* by precision */
        same = cli_expect(cfx_as_list(flat), cfx_as_list(names), expected,
                          cli_tolerance(kept[cfx_get_precision()]));
    }
    same &= !j->watch.broken;
    return cfx_ok() ? same ? CLI_DONE : CLI_DIFFERS : cli_trouble();
}

/* ---- running --------------------------------------------------------------------------------- */

/* Nodes are looked at one by one as the interpreter runs them, for the inputs of the one that makes
 * NaNs. */
static cfx_value interpret(job *j, cfx_value inputs) {
    cfx_interp it = {.module = j->p->module, .user = j, .run_node = watch};
    return cfx_run_from(
        (cfx_site){0}, &it,
        (cfx_args){(int)cfx_as_list(inputs)->len, cfx_as_list(inputs)->items, NULL});
}

/* Taps and rules have their nodes made one by one, the rest stays as it is planned. */
static bool is_wanted(cfx_watcher *w, const cfx_node *n) {
    return cli_watch_wants(&((job *)w->user)->watch, n);
}

static cfx_value see(cfx_watcher *w, cfx_node *n, cfx_value v) {
    cli_watch_see(&((job *)w->user)->watch, NULL, n, v);
    return cfx_none();
}

/* Progress is told of kernels that ran, so that a run on a terminal is the run that it is in a
 * pipe: who sees values has memory of its own made for each. */
static void ran(cfx_watcher *w, const cfx_ran *r) {
    job *j = w->user;
    put_progress(j, r->nodes[0], r->nnodes, now_us());
    if (j->o.profile)
        note_ran(j, r);
}

static cfx_value execute(job *j, cfx_value inputs) {
    const bool looks = cli_watches(&j->watch), tells = j->terminal || j->o.profile;
    cfx_watcher watcher = {
        .wants = is_wanted, .see = looks ? see : NULL, .ran = tells ? ran : NULL, .user = j};
    FILE *out = cli_answers() ? stderr : stdout;
    cfx_mode api = cfx_function_log(out), aten = cfx_dispatch_log(out);
    if (j->o.log && !strcmp(j->o.log, "api"))
        cfx_function_mode_push(&api);
    else if (j->o.log)
        cfx_dispatch_mode_push(&aten);
    j->start = now_us();
    cfx_value raw = j->watch.find_nan
                        ? interpret(j, inputs)
                        : cfx__program_execute((cfx_site){0}, j->p,
                                               j->o.reference ? &cfx_interpreter : NULL,
                                               looks || tells ? &watcher : NULL, inputs);
    if (j->o.log && !strcmp(j->o.log, "api"))
        cfx_function_mode_pop();
    else if (j->o.log)
        cfx_dispatch_mode_pop();
    if (j->told > 0)
        cli_progress_end();
    return cfx_program_outputs(j->p, inputs, raw);
}

/* The first run plans, packs weights and reads pages, which is not what a profile is of: its result
 * is kept, and the runs after it are timed. */
static cfx_value execute_warm(job *j, cfx_value inputs) {
    const options asked = j->o;
    j->o.profile = NULL;
    cfx_value result = execute(j, inputs);
    if (!asked.profile || !cfx_ok())
        return result;
    const cli_watch seen = j->watch;
    j->o = asked;
    j->o.log = NULL;
    j->watch = (cli_watch){0};
    for (int i = 0; i < (asked.runs ? asked.runs : 5) && cfx_ok(); i++)
        CFX_SCOPE {
            j->at = 0;
            cli_profile_begin(&j->profile);
            cfx__pool_watch(true);
            execute(j, inputs);
            cfx__pool_watch(false);
            j->profile.start = j->start;
        }
    j->o = asked;
    j->watch = seen;
    return result;
}

/* Runs on all inputs of the program; what comes out is noted. */
static bool run_once(job *j, cfx_value inputs) {
    if (j->o.profile || j->o.memory)
        cli_profile_start(&j->profile, j->p, inputs);
    cfx_value result = cfx_ok() ? execute_warm(j, inputs) : cfx_bad();
    cfx_value flat = cfx_list_value(0, NULL);
    if (cfx_ok())
        cfx_tree_flatten(result, cfx_as_list(flat));
    cli_samples_add(&j->samples, flat);
    return cfx_ok();
}

static bool run_given(job *j) {
    if (!cli_samples_read(&j->samples, j->p, &j->o.given))
        return false;
    const int64_t runs = cli_samples_runs(&j->samples);
    if (runs > 1 && (j->o.profile || j->o.memory || j->watch.save)) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "%s is of one run, and these are %lld; --batch puts samples together",
                 j->watch.save ? "--save-taps" : j->o.profile ? "--profile" : "--memory",
                 (long long)runs);
        return false;
    }
    for (int64_t i = 0; i < runs && cfx_ok(); i++)
        run_once(j, cli_call_inputs(j->p, cli_samples_inputs(&j->samples, i)));
    return cfx_ok();
}

/* One sample, which has no name. */
static void begin_sample(job *j) {
    cfx_value lists[] = {cfx_list_value(0, NULL), cfx_list_value(0, NULL), cfx_list_value(0, NULL)};
    j->samples = (cli_samples){.program = j->p, .names = cfx_as_list(lists[0]), .each = 1,
                               .leaves = cfx_as_list(lists[1]), .results = cfx_as_list(lists[2])};
    cfx_list_append(j->samples.names, cfx_string_value(""));
    cfx_list_append(j->samples.leaves, cfx_none());
}

/* On inputs that nobody gave. */
static bool run_own(job *j) {
    begin_sample(j);
    return run_once(j, cli_own_inputs(j->p, j->o.random));
}

/* A text that goes on: its new tokens are the result. */
static bool run_text(job *j) {
    cli_generation g;
    begin_sample(j);
    bool made = cli_generation_begin(&g, j->p, &j->o.given, j->o.generate) &&
                cli_generation_run(&g, cfx_session_new(), j->p);
    if (made) {
        cli_generation_print(&g);
        cli_samples_add(&j->samples,
                        cfx_list_value(1, (cfx_value[]){cli_generation_made(&g)}));
    }
    cli_generation_end(&g);
    return made && cfx_ok();
}

/* A shared object of cfx compile --library, on the inputs that are given. */
static int run_library(job *j) {
    const cfx_dict *given =
        j->o.given.inputs ? cli_read_tensors(j->o.given.inputs, "in") : cfx_dict_new();
    begin_sample(j);
    const cfx_value flat = cfx_ok() ? cli_library_run(j->o.model, given) : cfx_bad();
    if (!cfx_ok())
        return cli_trouble();
    cli_samples_add(&j->samples, flat);
    return finish(j);
}

static int finish_program(job *j) {
    cli_tell_prepared(j->p, j->o.profile != NULL);
    return finish(j);
}

static int run_program(job *j) {
    j->p = cfx_open(j->o.model);
    cfx_set_grad_mode(CFX_INFERENCE);
    if (cfx_ok())
        cli_go_to_device(j->p);
    if (j->o.generate && cfx_ok())
        return run_text(j) ? finish_program(j) : cli_trouble();
    if (!cfx_ok() || (cli_watches(&j->watch) && !cli_watch_start(&j->watch, j->p)))
        return cli_trouble();
    if (j->o.given.inputs || j->o.given.ntexts ? run_given(j) : run_own(j))
        return finish_program(j);
    cfx_error_note("Program: %s", j->o.model);
    return cli_trouble();
}

/* Rank 0 has the results, and does with them what is asked; the others are done. */
static int run_on_ranks(job *j) {
    const options *o = &j->o;
    if (cli_watches(&j->watch) || o->log || o->memory || o->reference || o->given.batch ||
        (o->given.ntexts && !o->generate))
        return cli_usage(&cli_run, "on ranks there are no taps, checks, logs, --memory, texts "
                                   "without --generate, --batch or --reference");
    cli_ranks r = {.model = o->model, .inputs = o->given.inputs, .random = o->random,
                   .stages = o->stages, .micro_batches = o->micro_batches, .threads = o->threads,
                   .generate = o->generate, .given = &o->given, .profile = o->profile != NULL,
                   .runs = o->runs, .result = cfx_none()};
    int rank, code = cli_run_ranks(&r, &rank);
    if (rank)
        cli_answer_leave();
    if (code == CLI_DONE && rank == 0 && o->profile) {
        cli_ranks_print(&r);
        code = cli_ranks_trace(&r, o->profile) ? CLI_DONE : cli_trouble();
    }
    if (code == CLI_DONE && rank == 0 && o->generate)
        cli_generation_print(&r.text);
    if (code == CLI_DONE && rank == 0) {
        cfx_value flat = cfx_list_value(0, NULL);
        cfx_tree_flatten(r.result, cfx_as_list(flat));
        j->p = r.program;
        begin_sample(j);
        cli_samples_add(&j->samples, flat);
        code = finish(j);
    }
    cli_ranks_end(&r);
    return code;
}

static int run(int argc, char **argv) {
    job j = {.terminal = isatty(2)};
    options *o = &j.o;
    cli_words w = {argc, argv, .command = &cli_run};
    while (cli_more(&w)) {
        const char *tap = NULL, *rule = NULL;
        if (cli_value(&w, "--tap", &tap)) {
            if (j.watch.ntaps == CLI_TAPS)
                return cli_usage(&cli_run, "at most %d taps", CLI_TAPS);
            j.watch.taps[j.watch.ntaps++] = tap;
        } else if (cli_value(&w, "--check", &rule)) {
            if (rule && !cli_watch_rule(&j.watch, rule))
                return cli_trouble();
        } else if (!cli_given_option(&w, &o->given) && !cli_value(&w, "--save", &o->save) &&
                   !cli_tensors(&w, "--expect", &o->expect) && !cli_value(&w, "--log", &o->log) &&
                   !cli_value(&w, "--profile", &o->profile) &&
                   !cli_value(&w, "--memory", &o->memory) &&
                   !cli_value(&w, "--save-taps", &j.watch.save) &&
                   !cli_number(&w, "--threads", &o->threads) && !cli_precision(&w) &&
                   !cli_device(&w) &&
                   !cli_number(&w, "--runs", &o->runs) &&
                   !cli_number(&w, "--generate", &o->generate) &&
                   !cli_number(&w, "--stages", &o->stages) &&
                   !cli_number(&w, "--micro-batches", &o->micro_batches) &&
                   !cli_flag(&w, "--stats", &j.watch.stats) &&
                   !cli_flag(&w, "--reference", &o->reference) &&
                   !cli_flag(&w, "--random", &o->random) &&
                   !cli_flag(&w, "--find-nan", &j.watch.find_nan)) {
            cli_rest(&w, &o->model);
        }
    }
    if (w.wrong)
        return CLI_TROUBLE;
    if (!o->model)
        return cli_usage(&cli_run, "which MODEL?");
    static const char *const logs[] = {"api", "aten"};
    if (o->log && cli_one_of(&cli_run, "--log", o->log, logs, COUNT(logs)) < 0)
        return CLI_TROUBLE;
    if (!cli_tensors_savable(o->save) || !cli_tensors_savable(j.watch.save))
        return cli_trouble();
    if (j.watch.save && !j.watch.ntaps)
        return cli_usage(&cli_run, "--save-taps wants to know what: --tap SELECTOR");
    if (!o->given.ntexts != !o->given.tokenizer)
        return cli_usage(&cli_run, o->given.ntexts ? "--text needs --tokenizer tokenizer.json"
                                                   : "--tokenizer is for --text");
    if (o->generate && (o->random || o->given.batch || cli_watches(&j.watch) || o->log ||
                        o->memory || o->reference || (o->profile && !o->stages &&
                                                      cfx_mpi_ranks() <= 1)))
        return cli_usage(&cli_run, "with --generate there are no made-up inputs, --batch, taps, "
                                   "checks, logs, --memory, --reference, and profiles on ranks "
                                   "alone");
    if (o->generate && o->micro_batches)
        return cli_usage(&cli_run, "one text has no --micro-batches");
    if (o->given.batch && !o->given.inputs && !o->given.ntexts)
        return cli_usage(&cli_run, "--batch of which samples? --inputs or --text give some");
    if (o->runs && !o->profile)
        return cli_usage(&cli_run, "--runs is for --profile; 'cfx bench' times a program");
    j.watch.model = o->model;
    if (o->threads)
        cfx_set_num_threads(o->threads);
    if (o->stages && cli_is_folder(o->model))
        return cli_usage(&cli_run, "--stages is for a program; the folder '%s' is cut already",
                         o->model);
    if (o->stages || cfx_mpi_ranks() > 1 || cli_is_folder(o->model))
        return run_on_ranks(&j);
    if (o->micro_batches)
        return cli_usage(&cli_run, "--micro-batches are for --stages");
    const bool library = cli_is_library(o->model);
    if (library && (cli_watches(&j.watch) || o->log || o->profile || o->memory || o->given.ntexts))
        return cli_usage(&cli_run, "of a shared object there are results alone");
    int code = library ? run_library(&j) : run_program(&j);
    cli_profile_end(&j.profile);
    return code;
}

const cli_command cli_run = {"run", run, "run a program on inputs from a file", help};
