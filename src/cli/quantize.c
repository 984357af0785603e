/* cfx quantize: a program in int8 or int4, written to a file, and how good it is. */
#include "look.h"

#include <cfx/quantize.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: cfx quantize MODEL -o OUT.pt2 --calibrate F... [options]\n\n"
    "Quantizes weights and the inputs of layers: inserts quantize and dequantize nodes around\n"
    "convolutions and products, as torch.ao's PT2E does. PyTorch loads the result.\n"
    CLI_OUT_HELP
    "  --calibrate F...   calibration batches: files of inputs, as for cfx run, up to the next\n"
    "                     option\n"
    "  --scheme S         static: ranges from calibration (the default); dynamic: inputs of\n"
    "                     linear layers by their range at run time; weight: only weights\n"
    "  --image HOW        how images among them become tensors, as for cfx run\n"
    "  --weights T        int8 (the default) or int4\n"
    "  --per P            weights that share a scale: channel (the default), tensor, or group N:\n"
    "                     N inputs of each output of a linear layer\n"
    "  --activations T    with --scheme weight: int8 quantizes the inputs of linear layers at run\n"
    "                     time, 32 numbers to a scale, which is faster with 8-bit and 4-bit\n"
    "                     weights; float (the default) does not\n"
    "  --range R          how ranges are estimated: histogram (the default), minmax, average, or\n"
    "                     percentile P\n"
    "  --smooth A         moves outliers of inputs into weights (SmoothQuant), 0 to 1: try 0.5\n"
    "  --keep-bias        does not correct biases; by default the mean error of quantized weights\n"
    "                     on the batches is subtracted from them\n"
    "  --skip SELECTOR    layers to leave in float, selected as for cfx run --tap; may be given\n"
    "                     more than once\n"
    "  --target DB        leaves as few layers in float as reach this quality: \"30dB\"\n"
    "  --report           signal-to-noise ratio of results and layers, the worst first; size;\n"
    "                     speed\n\n"
    "The last of several --calibrate files is used only for --report and --target.\n\n"
    "Exit: 0 done, 2 error.\n";

enum { FILES = 4096, SKIPS = 256 };

typedef struct {
    const char *model, *target;
    cli_out out;
    const char *calibrate[FILES], *skip[SKIPS];
    int ncalibrate, nskip;
    bool report;
    cfx_quantize_options how;
} options;

/* ---- words ----------------------------------------------------------------------------------- */

static bool read_number(const char *option, const char *word, double *to) {
    char *end;
    double d = strtod(word, &end);
    if (end == word || (*end && strcmp(end, "dB")) || !isfinite(d)) {
        cli_usage(&cli_quantize, "%s wants a number, not '%s'", option, word);
        return false;
    }
    *to = d;
    return true;
}

/* The word after an option's own, where it takes a second. */
static const char *second(cli_words *w) {
    return w->at + 1 < w->argc && w->argv[w->at + 1][0] != '-' ? w->argv[++w->at] : NULL;
}

static bool read_per(options *o, cli_words *w, const char *word) {
    static const char *const names[] = {"channel", "tensor", "group"};
    int i = cli_one_of(&cli_quantize, "--per", word, names, 3);
    o->how.per = (cfx_quantize_per)(i < 0 ? 0 : i);
    if (i != CFX_QUANTIZE_GROUP)
        return i >= 0;
    const char *n = second(w);
    double size;
    if (!n)
        return cli_usage(&cli_quantize, "--per group: of how many inputs?"), false;
    if (!read_number("--per group", n, &size))
        return false;
    if (size < 2 || size != floor(size) || size > 1 << 30)
        return cli_usage(&cli_quantize, "--per group: %s is no number of inputs", n), false;
    o->how.group = (int)size;
    return true;
}

static bool read_range(options *o, cli_words *w, const char *word) {
    static const char *const names[] = {"histogram", "minmax", "average", "percentile"};
    int i = cli_one_of(&cli_quantize, "--range", word, names, 4);
    o->how.range = (cfx_quantize_range)(i < 0 ? 0 : i);
    const char *n = i == CFX_QUANTIZE_PERCENTILE ? second(w) : NULL;
    return i >= 0 && (!n || read_number("--range percentile", n, &o->how.percentile));
}

/* An option with a value of a list; the number of it goes to `to`. */
static bool read_choice(cli_words *w, const char *option, const char *const *names, int n,
                        int *to) {
    const char *word = NULL;
    if (!cli_value(w, option, &word))
        return false;
    int i = word ? cli_one_of(&cli_quantize, option, word, names, n) : -1;
    w->wrong |= i < 0;
    *to = i < 0 ? 0 : i;
    return true;
}

static bool read_list(cli_words *w, const char *option, const char **list, int *n, int most,
                      bool more) {
    const char *word = NULL;
    if (!cli_value(w, option, &word))
        return false;
    for (; word; word = more ? second(w) : NULL) {
        if (*n == most) {
            cli_usage(&cli_quantize, "%s: more than %d are too many", option, most);
            w->wrong = true;
            return true;
        }
        list[(*n)++] = word;
    }
    return true;
}

static bool read_options(options *o, int argc, char **argv) {
    static const char *const schemes[] = {"static", "dynamic", "weight"};
    static const char *const weights[] = {"int8", "int4"}, *const given[] = {"float", "int8"};
    const char *word = NULL;
    int scheme = 0, weight = 0, activations = 0;
    cli_words w = {argc, argv, .command = &cli_quantize};
    while (cli_more(&w)) {
        if (read_choice(&w, "--scheme", schemes, 3, &scheme) ||
            read_choice(&w, "--weights", weights, 2, &weight) ||
            read_choice(&w, "--activations", given, 2, &activations) ||
            read_list(&w, "--calibrate", o->calibrate, &o->ncalibrate, FILES, true) ||
            read_list(&w, "--skip", o->skip, &o->nskip, SKIPS, false) ||
            cli_program_out(&w, &o->out) || cli_image(&w) ||
            cli_value(&w, "--target", &o->target) ||
            cli_flag(&w, "--report", &o->report) ||
            cli_flag(&w, "--keep-bias", &o->how.keep_bias))
            continue;
        if (cli_value(&w, "--per", &word))
            w.wrong |= !word || !read_per(o, &w, word);
        else if (cli_value(&w, "--range", &word))
            w.wrong |= !word || !read_range(o, &w, word);
        else if (cli_value(&w, "--smooth", &word))
            w.wrong |= !word || !read_number("--smooth", word, &o->how.smooth);
        else
            cli_rest(&w, &o->model);
    }
    o->how.scheme = (cfx_quantize_scheme)scheme;
    o->how.bits = weight ? 4 : 8;
    o->how.activations = activations ? 8 : 0;
    return !w.wrong;
}

/* ---- batches --------------------------------------------------------------------------------- */

static void read_batch(const cfx_program *p, const char *file, cfx_list *all) {
    cfx_value batch = cfx_list_value(0, NULL);
    if (cli_read_inputs(p, file, cfx_as_list(batch)))
        cfx_list_append(all, batch);
}

/* A file is a batch; of a folder each file is. */
static cfx_value read_batches(const cfx_program *p, const char *const *files, int n) {
    cfx_value all = cfx_list_value(0, NULL);
    for (int i = 0; i < n && cfx_ok(); i++) {
        const char *line = cli_is_folder(files[i]) ? cli_folder_files(files[i]) : files[i];
        for (const char *end; line && cfx_ok(); line = *end ? end + 1 : NULL) {
            end = line + strcspn(line, "\n");
            read_batch(p, cfx__text_format("%.*s", (int)(end - line), line), cfx_as_list(all));
        }
    }
    return all;
}

static void show_progress(const char *what, int64_t done, int64_t all, void *user) {
    (void)user;
    cli_progress(what, done, all);
}

/* ---- the report ------------------------------------------------------------------------------ */

/* The median time of a run, in ms; -1 with an error. */
static double time_of(cfx_program *p, cfx_value batch) {
    enum { RUNS = 7 };
    double ms[RUNS];
    cfx_args args = {(int)cfx_as_list(batch)->len, cfx_as_list(batch)->items, NULL};
    cfx_program *copy = cfx_program_copy(p);
    cli_time_runs(copy, args, 1, ms);
    cli_time_runs(copy, args, RUNS, ms);
    return cfx_ok() ? cli_median(ms, RUNS) : -1;
}

static const char *module_of(const cfx_quantized *q, const char *name) {
    return cli_module_of(cfx_graph_find(q->reference->module->graph, name));
}

/* "layer1.0.conv1 (conv2d_23)": the module that a node is of, where it has one. */
static const char *layer_name(const cfx_quantized *q, const char *name) {
    const char *module = module_of(q, name);
    return *module ? cfx__text_format("%s (%s)", module, name) : name;
}

static bool print_report(const cfx_quantized *q, cfx_value batches) {
    cfx_quantize_report *r = cfx_quantize_compare(q, batches);
    if (cfx_failed(r))
        return false;
    int wide = 38; /* of the first column */
    for (int i = 0; i < r->nlayers; i++) {
        const int w = (int)strlen(layer_name(q, r->layers[i].name));
        wide = w > wide ? w : wide;
    }
    cli_print("%-*s %9s %9s\n", wide + 2, "signal to noise, the worst first", "dB", "own dB");
    for (int i = 0; i < r->nlayers; i++)
        cli_print("  %-*s %9.1f %9.1f\n", wide, layer_name(q, r->layers[i].name), r->layers[i].db,
                  r->layers[i].own);
    for (int i = 0; i < r->noutputs; i++)
        cli_print("  %-*s %9.1f\n", wide, cfx__text_format("result %s", r->outputs[i].name),
                  r->outputs[i].db);
    cli_print("all results %.1f dB\n", r->db);
    for (int i = 0; i < r->nlayers; i++)
        cli_answer_row("signal", cfx_dict_of("node", r->layers[i].name, "module",
                                             module_of(q, r->layers[i].name), "decibels",
                                             cli_fact(r->layers[i].db), "own_decibels",
                                             cli_fact(r->layers[i].own)));
    for (int i = 0; i < r->noutputs; i++)
        cli_answer_row("results", cfx_dict_of("name", r->outputs[i].name, "decibels",
                                              cli_fact(r->outputs[i].db)));
    cli_answer("decibels", cli_fact(r->db));
    double before = time_of(q->reference, cfx_as_list(batches)->items[0]);
    double after = before < 0 ? -1 : time_of(q->program, cfx_as_list(batches)->items[0]);
    if (after >= 0) {
        cli_answer("ms", cli_fact(after));
        cli_answer("float_ms", cli_fact(before));
    }
    if (after >= 0)
        cli_print("a run takes %.3f ms, in float %.3f ms: %.2f times as fast\n", after, before,
                  before / after);
    return after >= 0;
}

static cfx_value word_or_none(const char *text) {
    return text ? cfx_string_value(text) : cfx_none();
}

static void print_summary(const cfx_quantized *q) {
    int done = 0;
    for (int i = 0; i < q->nlayers; i++)
        done += !q->layers[i].left;
    cli_print("%d of %d layers quantized; tensors %s before, %s after\n", done, q->nlayers,
              cli_bytes(q->bytes_before), cli_bytes(q->bytes_after));
    cli_answer("bytes_before", cfx_int(q->bytes_before));
    cli_answer("bytes_after", cfx_int(q->bytes_after));
    for (int i = 0; i < q->nlayers; i++)
        cli_answer_row("layers", cfx_dict_of("node", q->layers[i].name, "module",
                                             module_of(q, q->layers[i].name), "op",
                                             q->layers[i].op, "quantized",
                                             cfx_bool(!q->layers[i].left),
                                             "why", word_or_none(q->layers[i].left)));
    for (int i = 0; i < q->nlayers; i++)
        if (q->layers[i].left)
            cli_print("  %s (%s) stays in float: %s\n", layer_name(q, q->layers[i].name),
                      q->layers[i].op, q->layers[i].left);
        else if (q->layers[i].flat)
            cli_print("  %s: its input is 0 everywhere in all calibration batches\n",
                      layer_name(q, q->layers[i].name));
        else if (q->layers[i].zeros)
            cli_print("  %s: its weight has %d channel%s of zeros only\n",
                      layer_name(q, q->layers[i].name), q->layers[i].zeros,
                      q->layers[i].zeros == 1 ? "" : "s");
}

/* ---- the command ----------------------------------------------------------------------------- */

static int quantize(options *o) {
    const bool judged = o->report || o->target;
    const int kept = judged && o->ncalibrate > 1 ? 1 : 0;
    if (o->how.scheme == CFX_QUANTIZE_STATIC && !o->ncalibrate)
        return cli_usage(&cli_quantize, "--scheme static, which is the default, needs batches: "
                         "--calibrate which files?");
    cfx_program *p = cfx_to_aten(cli_read(o->model, &o->out));
    if (!cfx_ok())
        return cli_trouble();
    cfx_value batches = read_batches(p, o->calibrate, o->ncalibrate - kept);
    cfx_value held = kept ? read_batches(p, o->calibrate + o->ncalibrate - 1, 1) : batches;
    cfx_value skip = cfx_list_value(0, NULL);
    for (int i = 0; i < o->nskip; i++)
        cfx_list_append(cfx_as_list(skip), cfx_string_value(o->skip[i]));
    double db = 0;
    if (!cfx_ok())
        return cli_trouble();
    if (o->target && !read_number("--target", o->target, &db))
        return CLI_TROUBLE;
    if (judged && !cfx_as_list(held)->len)
        return cli_usage(&cli_quantize, "%s needs batches: --calibrate which files?",
                         o->report ? "--report" : "--target");
    o->how.skip = skip;
    o->how.progress = show_progress;
    cfx_quantized *q = o->target ? cfx_quantize_to(p, batches, held, db, o->how)
                                 : cfx_quantize(p, batches, o->how);
    cli_progress_end();
    if (cfx_failed(q))
        return cli_trouble();
    print_summary(q);
    if (o->report && !print_report(q, held))
        return cli_trouble();
    return cli_write(q->program, &o->out);
}

static int run(int argc, char **argv) {
    options *o = calloc(1, sizeof *o);
    if (!o)
        return CLI_TROUBLE;
    int code = CLI_TROUBLE;
    if (read_options(o, argc, argv)) {
        if (!o->model || !o->out.path)
            code = cli_usage(&cli_quantize, o->model ? "-o which file?" : "which MODEL?");
        else
            code = quantize(o);
    }
    free(o);
    return code;
}

const cli_command cli_quantize = {"quantize", run, "round a program to int8 or int4", help};
