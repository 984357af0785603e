/* Samples: what a command is given to run on, gathered into batches, and results taken apart
 * again. Start at cli_samples_read. */
#define _GNU_SOURCE /* scandir's filter, alphasort */
#include "samples.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cfx/ops.h>
#include <cfx/tokenizer.h>

bool cli_given_option(cli_words *w, cli_given *g) {
    const char *text = NULL;
    if (cli_value(w, "--text", &text)) {
        if (text && g->ntexts == CLI_TEXTS) {
            cli_usage(w->command, "at most %d texts", CLI_TEXTS);
            w->wrong = true;
        } else if (text) {
            g->texts[g->ntexts++] = text;
        }
        return true;
    }
    return cli_tensors(w, "--inputs", &g->inputs) || cli_image(w) ||
           cli_value(w, "--tokenizer", &g->tokenizer) || cli_number(w, "--batch", &g->batch);
}

/* ---- folders --------------------------------------------------------------------------------- */

bool cli_is_folder(const char *path) {
    struct stat s;
    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

static int is_shown(const struct dirent *e) { return e->d_name[0] != '.'; }

const char *cli_folder_files(const char *path) {
    struct dirent **found = NULL;
    const int n = scandir(path, &found, is_shown, alphasort);
    cfx__text lines = {0};
    for (int i = 0; i < n; i++) {
        const char *file = cfx__text_format("%s/%s", path, found[i]->d_name);
        if (!cli_is_folder(file) && !strchr(file, '\n'))
            cfx__text_printf(&lines, "%s%s", lines.len ? "\n" : "", file);
        free(found[i]);
    }
    free(found);
    if (!lines.len)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "the folder '%s' %s", path,
                 n < 0 ? "cannot be read" : "has no files");
    return cfx_ok() ? cfx__text_take(&lines) : NULL;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* What an input of a language model is, by its name. */
typedef enum part { TOKENS, MASK, SEGMENTS, PLACES, NOTHING } part;

static part part_of(const char *name, bool tokens) {
    if (strstr(name, "mask"))
        return MASK;
    if (strstr(name, "token_type") || strstr(name, "segment"))
        return SEGMENTS;
    if (strstr(name, "position"))
        return PLACES;
    return tokens ? NOTHING : TOKENS;
}

/* The size that the last dimension of an input must have; 0: any. */
static int64_t fixed_last(const cfx_result *r) {
    const cfx_value size = r->ndim ? cfx_result_size(r, r->ndim - 1) : cfx_int(0);
    return size.tag == CFX_TAG_INT ? cfx_integer(size) : 0;
}

/* Tokens, or what goes with them, as an input takes it: n places, the last ones padding. */
static cfx_tensor *fill(const cfx_result *r, const cfx_tensor *ids, part what, int64_t n,
                        int64_t padding) {
    cfx_tensor *t = cfx_tensor_new(CFX_I64, 1, &n, NULL);
    for (int64_t i = 0; !cfx_failed(t) && i < n; i++) {
        const bool inside = i < ids->numel;
        ((int64_t *)t->data)[i] = what == TOKENS   ? inside ? ((int64_t *)ids->data)[i] : padding
                                  : what == MASK   ? inside
                                  : what == PLACES ? i
                                                   : 0;
    }
    if (r->ndim == 2)
        t = cfx_unsqueeze(t, 0);
    return cfx_to(t, cfx_dtype_value(r->dtype));
}

/* How many places a text takes in the program: what that says, or what the text has. */
static int64_t places(const cfx_program *p, int64_t have, int64_t longest) {
    int64_t n = longest > have ? longest : have;
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, p->inputs[i].name));
        if (p->inputs[i].kind != CFX_IN_USER || r.kind != CFX_RESULT_TENSOR ||
            cfx__dtype_is_float(r.dtype) || part_of(p->inputs[i].name, false) != TOKENS)
            continue;
        const int64_t fixed = fixed_last(&r);
        if (fixed && fixed < have)
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "the text has %lld tokens; %s takes %lld", (long long)have,
                     p->inputs[i].name, (long long)fixed);
        return fixed ? fixed : n;
    }
    return n;
}

static cfx_dict *tensors_of_text(const cfx_program *p, const cfx_tokenizer *t,
                                 const cfx_tensor *ids, int64_t longest) {
    cfx_dict *all = cfx_dict_new();
    bool tokens = false;
    const int64_t n = places(p, ids->numel, longest), padding = cfx_tokenizer_padding(t);
    if (cfx_ok() && n > ids->numel && padding < 0)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "the text has %lld tokens of %lld, and the tokenizer has none to fill up with",
                 (long long)ids->numel, (long long)n);
    for (int i = 0; i < p->ninputs && cfx_ok(); i++) {
        const char *name = p->inputs[i].name;
        const cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, name));
        if (p->inputs[i].kind != CFX_IN_USER || r.kind != CFX_RESULT_TENSOR || r.ndim < 1 ||
            r.ndim > 2)
            continue;
        const part what = part_of(name, tokens);
        if (what == NOTHING || (what == TOKENS && cfx__dtype_is_float(r.dtype)))
            continue;
        tokens |= what == TOKENS;
        cfx_dict_set(all, name, cfx_tensor_value(fill(&r, ids, what, n, padding)));
    }
    if (cfx_ok() && !tokens)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "the program has no input of tokens: integers in one or two dimensions");
    return all;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int inputs_of(const cfx_program *p) {
    int n = 0;
    for (int i = 0; i < p->ninputs; i++)
        n += p->inputs[i].kind == CFX_IN_USER && !p->inputs[i].constant;
    return n;
}

/* A sample without the dimension of the batch gets one. */
static cfx_value batched(const cfx_program *p, int64_t k, cfx_value v) {
    for (int i = 0; i < p->ninputs; i++) {
        if (p->inputs[i].kind != CFX_IN_USER || k--)
            continue;
        const cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, p->inputs[i].name));
        if (v.tag == CFX_TAG_TENSOR && r.kind == CFX_RESULT_TENSOR &&
            cfx_as_tensor(v)->ndim + 1 == r.ndim)
            return cfx_tensor_value(cfx_unsqueeze(v, 0));
    }
    return v;
}

static void add_sample(cli_samples *s, const char *name, const char *from,
                       const cfx_dict *tensors) {
    cfx_value leaves = cfx_list_value(0, NULL), fitted = cfx_list_value(0, NULL);
    if (!tensors || !cli_gather_inputs(s->program, from, tensors, cfx_as_list(leaves)))
        return;
    for (int64_t i = 0; i < cfx_as_list(leaves)->len; i++)
        cfx_list_append(cfx_as_list(fitted),
                        batched(s->program, i, cfx_as_list(leaves)->items[i]));
    cfx_list_append(s->names, cfx_string_value(name));
    cfx_list_append(s->leaves, fitted);
}

/* Each line is a sample: of a folder, or several files for a program that takes one tensor. */
static bool are_samples(const cli_samples *s, const char **lines) {
    const char *line = *lines;
    if (!strchr(line, '\n') && cli_is_folder(line)) {
        *lines = cli_folder_files(line);
        return true;
    }
    if (!strchr(line, '\n') || inputs_of(s->program) != 1)
        return false;
    for (; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const size_t n = strcspn(line, "\n");
        if (memchr(line, '=', n) && access(cfx__text_format("%.*s", (int)n, line), F_OK))
            return false; /* NAME=F */
    }
    return true;
}

static void read_files(cli_samples *s, const char *lines) {
    for (const char *end; lines && cfx_ok(); lines = *end ? end + 1 : NULL) {
        end = lines + strcspn(lines, "\n");
        const char *file = cfx__text_format("%.*s", (int)(end - lines), lines);
        add_sample(s, file, file, cli_read_tensors(file, "in"));
    }
}

static void read_texts(cli_samples *s, const cli_given *g) {
    const cfx_tokenizer *t = cfx_tokenizer_open(g->tokenizer);
    cfx_value all = cfx_list_value(0, NULL);
    int64_t longest = 0;
    for (int i = 0; t && i < g->ntexts && cfx_ok(); i++) {
        const cfx_tensor *ids = cfx_tokenizer_encode(t, g->texts[i], true);
        if (!cfx_ok())
            return;
        longest = g->batch > 1 && ids->numel > longest ? ids->numel : longest;
        cfx_list_append(cfx_as_list(all), cfx_tensor_value((cfx_tensor *)ids));
    }
    for (int i = 0; t && i < g->ntexts && cfx_ok(); i++) {
        const cfx_tensor *ids = cfx_as_tensor(cfx_as_list(all)->items[i]);
        cfx_dict *more = cli_read_tensors(g->inputs, "in");
        cfx_dict *tensors = tensors_of_text(s->program, t, ids, longest);
        for (int64_t k = 0; more && k < more->len; k++)
            cfx_dict_put(tensors, more->entries[k].key, more->entries[k].value);
        if (cfx_ok())
            add_sample(s, g->texts[i], "--text", tensors);
    }
}

/* ---- batches --------------------------------------------------------------------------------- */

/* The first size of leaf k of a sample; -1: it has none. */
static int64_t rows_of(const cli_samples *s, int64_t i, int64_t k) {
    const cfx_value v = cfx_as_list(s->leaves->items[i])->items[k];
    return v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->ndim ? cfx_as_tensor(v)->shape[0] : -1;
}

/* How many rows the program takes: 0: any number. */
static int64_t fixed_rows(const cfx_program *p) {
    if (!p) /* a shared object, which runs what it is given */
        return 0;
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, p->inputs[i].name));
        if (p->inputs[i].kind != CFX_IN_USER || r.kind != CFX_RESULT_TENSOR || !r.ndim)
            continue;
        const cfx_value size = cfx_result_size(&r, 0);
        return size.tag == CFX_TAG_INT ? cfx_integer(size) : 0;
    }
    return 0;
}

/* Finds how many samples go into one run. `sampled`: each file or text is a sample, so that one
 * alone is no batch of the wrong size. */
static bool choose_batch(cli_samples *s, bool sampled, int batch) {
    const int64_t fixed = fixed_rows(s->program), n = s->leaves->len;
    s->rows = n && cfx_as_list(s->leaves->items[0])->len ? rows_of(s, 0, 0) : -1;
    for (int64_t i = 1; i < n; i++)
        if (rows_of(s, i, 0) != s->rows)
            s->rows = -1;
    s->each = batch ? batch : 1;
    if (!fixed || s->rows < 1)
        return true;
    const int64_t fit = fixed / s->rows;
    if (batch && batch != fit)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "the program takes %lld sample%s at once, not %d; 'cfx opt --dynamic in0.0=batch' "
                 "makes that size vary", (long long)fit, fit == 1 ? "" : "s", batch);
    if (fit > 1 && (n > 1 || sampled))
        s->each = fit;
    if (cfx_ok() && s->each > 1 && n % s->each)
        cli_say("cfx: the program takes %lld samples at once: %s is repeated to fill the last "
                "batch\n", (long long)fit,
                n == 1 ? "the only one" : cfx__text_format("the last of %lld", (long long)n));
    return cfx_ok();
}

bool cli_samples_read(cli_samples *s, cfx_program *p, const cli_given *g) {
    cfx_value lists[3];
    for (int i = 0; i < 3; i++)
        lists[i] = cfx_list_value(0, NULL);
    *s = (cli_samples){.program = p, .names = cfx_as_list(lists[0]),
                       .leaves = cfx_as_list(lists[1]), .results = cfx_as_list(lists[2])};
    const char *lines = g->inputs;
    bool sampled = g->ntexts || cli_image_was_said();
    if (g->ntexts)
        read_texts(s, g);
    else if (lines && are_samples(s, &lines)) {
        read_files(s, lines);
        sampled = true;
    } else
        add_sample(s, "", lines, cli_read_tensors(lines, "in"));
    return cfx_ok() && choose_batch(s, sampled, g->batch);
}

int64_t cli_samples_runs(const cli_samples *s) { return (s->leaves->len + s->each - 1) / s->each; }

cfx_value cli_samples_inputs(const cli_samples *s, int64_t run) {
    const int64_t n = s->leaves->len, first = run * s->each;
    const bool fixed = fixed_rows(s->program) > 0;
    const int64_t end = first + s->each > n && !fixed ? n : first + s->each;
    cfx_value flat = cfx_list_value(0, NULL);
    for (int64_t k = 0; cfx_ok() && k < cfx_as_list(s->leaves->items[first])->len; k++) {
        cfx_value parts = cfx_list_value(0, NULL), one;
        for (int64_t i = first; i < end; i++)
            cfx_list_append(cfx_as_list(parts),
                            cfx_as_list(s->leaves->items[i < n ? i : n - 1])->items[k]);
        one = cfx_as_list(parts)->items[0];
        /* what is no batch is the first one's: numbers, tables that samples share */
        const bool whole = end - first > 1 && s->rows > 0 && rows_of(s, first, k) == s->rows;
        cfx_list_append(cfx_as_list(flat), whole ? cfx_tensor_value(cfx_cat(parts, 0)) : one);
    }
    return flat;
}

/* ---- results --------------------------------------------------------------------------------- */

void cli_samples_add(cli_samples *s, cfx_value flat) { cfx_list_append(s->results, flat); }

cfx_value cli_samples_of(const cli_samples *s, int64_t i) {
    const int64_t run = i / s->each, at = i % s->each, n = s->leaves->len;
    const int64_t in_run = fixed_rows(s->program) || (run + 1) * s->each <= n ? s->each
                                                                              : n - run * s->each;
    const cfx_list *flat = cfx_as_list(s->results->items[run]);
    cfx_value own = cfx_list_value(0, NULL);
    for (int64_t k = 0; k < flat->len; k++) {
        cfx_value v = flat->items[k];
        cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
        if (t && in_run > 1 && t->ndim && t->shape[0] && t->shape[0] % in_run == 0) {
            const int64_t each = t->shape[0] / in_run;
            v = cfx_tensor_value(cfx_narrow(t, 0, at * each, each));
        }
        cfx_list_append(cfx_as_list(own), v);
    }
    return own;
}

cfx_value cli_samples_all(const cli_samples *s) {
    cfx_value all = cfx_list_value(0, NULL);
    if (s->leaves->len == 1)
        return s->results->items[0];
    for (int64_t k = 0; cfx_ok() && k < cfx_as_list(s->results->items[0])->len; k++) {
        cfx_value parts = cfx_list_value(0, NULL);
        for (int64_t i = 0; i < s->leaves->len && cfx_ok(); i++) {
            cfx_value v = cfx_as_list(cli_samples_of(s, i))->items[k];
            if (cfx_is_number(v))
                v = cfx_tensor_value(cfx_tensor_from_value(v));
            if (v.tag == CFX_TAG_TENSOR && !cfx_as_tensor(v)->ndim)
                v = cfx_tensor_value(cfx_unsqueeze(v, 0));
            cfx_list_append(cfx_as_list(parts), v);
        }
        cfx_value first = cfx_as_list(parts)->items[0];
        cfx_list_append(cfx_as_list(all), first.tag == CFX_TAG_TENSOR
                                              ? cfx_tensor_value(cfx_cat(parts, 0))
                                              : first);
    }
    return all;
}
