/* cfx_compile_c: a program is made ready, planned and written out. Start there. */

#include <cfx/ops.h>
#include <cfx/pack.h>
#include <cfx/select.h>

#include "compile.h"

/* ---- inputs ---------------------------------------------------------------------------------- */

/* The caller's inputs in flattened order: those given or the program's samples; NULL: none. */
static const cfx_list *given_inputs(const cfx_program *p, const cfx_compile_options *o) {
    int64_t users = 0;
    for (int i = 0; i < p->ninputs; i++)
        users += p->inputs[i].kind == CFX_IN_USER;
    if (o->inputs.tag == CFX_TAG_LIST)
        return cfx_as_list(o->inputs);
    cfx_list *flat = cfx_as_list(cfx_list_value(0, NULL));
    cfx_value sample = cfx_program_sample_inputs(p);
    if (cfx_is_bad(sample))
        cfx__error_forgive();
    if (sample.tag == CFX_TAG_TUPLE)
        cfx_tree_flatten(sample, flat);
    return flat->len == users ? flat : NULL;
}

/* ---- sizes that vary ------------------------------------------------------------------------- */

static const int64_t *kept(cfx__c *c, const int64_t *v, size_t n) {
    int64_t *to = cfx__arena_alloc(&c->memory, (n + 1) * sizeof *to);
    return n ? memcpy(to, v, n * sizeof *to) : to;
}

typedef VEC(int64_t) numbers;

static void add_sizes(numbers *to, cfx_value v) {
    const bool several = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    for (int i = 0; v.tag == CFX_TAG_TENSOR && i < cfx_as_tensor(v)->ndim; i++)
        VEC_PUSH(*to, cfx_as_tensor(v)->shape[i]);
    for (int64_t i = 0; several && i < cfx_as_list(v)->len; i++)
        add_sizes(to, cfx_as_list(v)->items[i]);
}

/* What a job has written at a point, for as long as c is there. */
static cfx__c_take taken(cfx__c *c, const cfx__c_job *job, const int64_t *at) {
    const cfx__c *one = &job->c;
    numbers sizes = {0}, results = {0};
    for (int i = 0; i < one->inputs.n + one->outputs.n; i++) {
        const cfx__c_port *p =
            i < one->inputs.n ? &one->inputs.of[i] : &one->outputs.of[i - one->inputs.n];
        for (int d = 0; d < p->ndim; d++)
            VEC_PUSH(sizes, p->shape[d]);
        VEC_PUSH(sizes, p->count);
    }
    cfx__c_take t = {.text = cfx__text_format("%s", one->out.data ? one->out.data : ""),
                     .helpers = cfx__text_format("%s", one->helpers.data ? one->helpers.data : ""),
                     .ports = kept(c, sizes.data, sizes.len),
                     .nrooms = (int)one->rooms.len,
                     .rooms = kept(c, one->rooms.data, one->rooms.len),
                     .weights = cfx__c_weights_number(one)};
    for (int k = 0; job->plan && k < job->plan->n; k++)
        add_sizes(&results, job->plan->wanted[k]);
    t.nsizes = (int)results.len;
    t.sizes = kept(c, results.data, results.len);
    memcpy(t.at, at, sizeof t.at);
    VEC_FREE(sizes);
    VEC_FREE(results);
    return t;
}

/* The same program at another point; false where that is no point of its own. */
static bool take_at(const cfx__c_job *w, cfx__c *c, const int64_t *at, cfx__c_take *t,
                    const char **why) {
    cfx__c_job one = {.c = {.o = c->o, .program = c->program, .name = c->name, .upper = c->upper}};
    one.c.nsizes = c->nsizes;
    one.c.nvary = c->nvary;
    for (size_t i = 0; i < c->taps.len; i++)
        VEC_PUSH(one.c.taps, c->taps.data[i]);
    memcpy(one.c.sizes, c->sizes, sizeof c->sizes);
    const bool fine = cfx__c_write(&one, cfx__c_inputs_at(c, w->source, at, true));
    if (fine)
        *t = taken(c, &one, at);
    cfx__c_job_end(&one);
    if (!cfx_ok()) {
        const char *said = strchr(cfx_error_last()->message, '\n');
        said = said ? said + 1 + strspn(said + 1, " ") : cfx_error_last()->message;
        *why = cfx__text_format("%.*s, at other sizes", (int)strcspn(said, "\n"), said);
        cfx__error_forgive();
    }
    return fine;
}

/* Whether what is written at a point differs from the first in numbers alone; else why. */
static bool is_alike(const cfx__c_take *first, const cfx__c_take *t, const char **why) {
    const char *node = cfx__c_apart(first->text, t->text);
    if (node)
        *why = cfx__text_format("%s: is computed otherwise at other sizes", node);
    else if (strcmp(first->helpers, t->helpers) != 0 || first->weights != t->weights ||
             first->nrooms != t->nrooms)
        *why = "the program: has other constants at other sizes";
    else
        return true;
    return false;
}

/* Whether each place is large enough for what is there at a point. */
static bool has_room(const cfx__c_take *first, const cfx__c_take *t) {
    for (int i = 0; i < first->nrooms; i++)
        if (t->rooms[i] > first->rooms[i])
            return false;
    return true;
}

/* What was written so far. */
typedef struct {
    const cfx__c_job *job;
    int n;
    cfx__c_take takes[CFX__C_TAKES];
    const char *why; /* the last one is none of them */
} taking;

static bool is_taken(const taking *t, const int64_t *at) {
    for (int k = 0; k < t->n; k++)
        if (!memcmp(t->takes[k].at, at, sizeof t->takes[k].at))
            return true;
    return false;
}

/* Whether one text serves all that were taken; it is c's then. */
static bool merges(cfx__c *c, const taking *t) {
    const cfx__c_take *all[CFX__C_TAKES];
    for (int i = 0; i < t->n; i++)
        all[i] = &t->takes[i];
    return cfx__c_merge(c, t->n, all);
}

/* Whether nodes have sizes, at the point behind those that were taken, as they have at these. */
static bool follows(cfx__c *c, const taking *t) {
    const cfx__c_take *all[CFX__C_TAKES];
    for (int i = 0; i <= t->n; i++)
        all[i] = &t->takes[i];
    return cfx__c_follows(c, t->n + 1, all);
}

/* Whether the text that serves the others serves a point too: there numbers are what its
 * expressions say. Where the same sizes are computed by other means at that point, as few elements
 * may be, those of the text do as well. */
static bool serves(cfx__c *c, taking *t, const int64_t *at) {
    if (is_taken(t, at))
        return true;
    if (t->n == CFX__C_TAKES)
        t->n--; /* the newest, at another small size */
    cfx__c_take *now = &t->takes[t->n];
    if (!take_at(t->job, c, at, now, &t->why))
        return false;
    if (!follows(c, t)) {
        t->why = "the program: has sizes of another form at other sizes";
        return false;
    }
    if (!is_alike(&t->takes[0], now, &t->why))
        return true;
    if (!has_room(&t->takes[0], now))
        return false;
    t->n++;
    const bool fine = merges(c, t);
    t->n -= !fine;
    return fine;
}

/* Small sizes are where numbers are something else than at all others: what is cut off at 5 has 3
 * at a size of 3. The range of size i begins where the text holds; false where it holds for none.
 */
static bool begin_range(cfx__c *c, taking *t, int i) {
    enum { STEPS = 72, ROW = 2 };
    cfx__c_size *s = &c->sizes[i];
    int64_t at[CFX__C_SIZES];
    memcpy(at, t->takes[t->n > 1].at, sizeof at);
    int held = 0;
    for (int step = 0; step < STEPS && held < ROW && s->low + held <= s->high; step++) {
        at[i] = s->low + held;
        const bool fine = serves(c, t, at);
        s->low = fine ? s->low : at[i] + 1;
        held = fine ? held + 1 : 0;
    }
    const bool fine = held && (s->sample >= s->low || !c->o.test);
    if (fine)
        c->problems.len = 0; /* of texts that were not kept */
    s->sample = s->sample < s->low ? s->low : s->sample;
    return fine;
}

/* The same of all sizes, and of the smallest of all at once. */
static bool begin_ranges(cfx__c *c, taking *t) {
    int64_t at[CFX__C_SIZES];
    bool fine = true;
    for (int i = 0; i < c->nvary && fine; i++)
        fine = begin_range(c, t, i);
    memcpy(at, t->takes[0].at, sizeof at);
    for (int i = 0; i < c->nvary; i++)
        at[i] = c->sizes[i].low;
    return fine && serves(c, t, at) && merges(c, t);
}

/* Writes the program at several points, the largest first, and makes one of it. */
static bool write_for_sizes(cfx__c_job *w) {
    enum { FITTED = 48 }; /* room for small sizes is left */
    cfx__c *c = &w->c;
    taking t = {.job = w, .n = 1, .why = "the program: has no form for all of its sizes"};
    int64_t at[CFX__C_SIZES] = {0};
    cfx__c_point(c, 0, at);
    if (!cfx__c_write(w, cfx__c_inputs_at(c, w->source, at, true)))
        return false;
    t.takes[0] = taken(c, w, at);
    for (int i = 1; i < CFX__C_TAKES && t.n && t.n < FITTED; i++) {
        cfx__c_take *now = &t.takes[t.n];
        cfx__c_point(c, i, at);
        if (is_taken(&t, at) || !take_at(w, c, at, now, &t.why) || /* ranges may be short */
            !is_alike(&t.takes[0], now, &t.why))
            continue;
        if (!has_room(&t.takes[0], now))
            t.why = "the program: needs more memory at smaller sizes than at the largest";
        t.n = has_room(&t.takes[0], now) ? t.n + 1 : 0;
    }
    if (t.n < 2)
        VEC_PUSH(c->problems, t.why);
    else if (merges(c, &t) && !begin_ranges(c, &t) && !c->problems.len)
        VEC_PUSH(c->problems, t.why);
    if (c->problems.len)
        cfx__c_fail(c);
    return cfx_ok();
}

/* ---- programs -------------------------------------------------------------------------------- */

static const char *fallback_name(const cfx_compile_options *o) {
    return o->name && *o->name ? o->name : "model";
}

/* A name as the beginning of others, where keywords of C are none. */
static const char *prefix_of(const char *name) {
    const char *own = cfx__c_identifier(name);
    const size_t n = strlen(own);
    return cfx__text_format("%.*s", (int)(n > 1 && own[n - 1] == '_' ? n - 1 : n), own);
}

/* A program whose results are also what selectors pick, the names of which are noted; scope. Bad,
 * with an error. */
static const cfx_program *tapped(cfx__c *c, const cfx_program *p) {
    cfx_program *copy = cfx_program_copy(p);
    cfx_node *end = cfx_failed(copy) ? NULL : cfx_graph_output_node(copy->module->graph);
    if (!end)
        return copy;
    cfx_value results = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_len(cfx_at(end->args, 0)); i++)
        cfx_list_append(cfx_as_list(results), cfx_at(cfx_at(end->args, 0), i));
    for (const char *at = c->o.taps; *at && cfx_ok();) {
        const size_t n = strcspn(at, "\n");
        const cfx_value nodes =
            cfx_select_nodes(copy->module->graph, cfx__text_format("%.*s", (int)n, at));
        for (int64_t i = 0; cfx_ok() && i < cfx_len(nodes); i++) {
            const cfx_node *node = cfx_as_node(cfx_at(nodes, i));
            if (node->op != CFX_CALL_FUNCTION || cfx_node_result(node).kind != CFX_RESULT_TENSOR)
                continue;
            const char *name = cfx__text_format("tap_%s", node->name);
            cfx_list_append(cfx_as_list(results), cfx_at(nodes, i));
            VEC_PUSH(c->taps, name);
        }
        at += n + (at[n] != 0);
    }
    if (cfx_ok() && !c->taps.len)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "--tap: no node that is picked gives one tensor");
    if (cfx_ok() && cfx_node_set_arg(end, 0, results))
        cfx_program_sync(copy);
    return copy;
}

/* What could not be taken apart: said as others say what has no form. */
static void fail_ready(cfx__c *c) {
    const char *problem = cfx__text_format("%s", cfx_error_last()->message);
    cfx__error_forgive();
    VEC_PUSH(c->problems, problem);
    cfx__c_fail(c);
}

/* Fills w->c, and the samples where a test is asked for; false, with an error. */
static bool write_ready(cfx__c_job *w, const cfx_program *p, bool integers) {
    cfx__c *c = &w->c;
    c->name = prefix_of(fallback_name(&c->o));
    c->upper = cfx__c_upper(c->name);
    if (c->o.taps)
        p = tapped(c, p);
    w->source = p;
    c->program = cfx_ok() ? cfx__c_ready(p, integers) : NULL;
    if (!cfx_ok() || cfx_failed(c->program)) {
        if (!cfx_ok() && !c->o.taps)
            fail_ready(c);
        return false;
    }
    const cfx_list *sample = cfx__c_sizes_find(c, p, given_inputs(p, &c->o));
    return sample && cfx_ok() && (c->nvary ? write_for_sizes(w) : cfx__c_write(w, sample)) &&
           (!c->o.test || cfx__c_samples(w, sample));
}

/* What rounds to bytes has a form around layers in integers alone: a program that has it elsewhere
 * is computed in floats. */
static bool write_somehow(cfx__c_job *w, const cfx_program *p) {
    const cfx_compile_options o = w->c.o;
    if (write_ready(w, p, true))
        return true;
    bool rounds = false;
    cfx_each_node(p->module->graph, n) rounds |=
        n->op == CFX_CALL_FUNCTION && n->target.op && cfx__c_rounds(n->target.op);
    if (!rounds)
        return false;
    cfx__error_forgive();
    cfx__c_job_end(w);
    *w = (cfx__c_job){.c = {.o = o}};
    return write_ready(w, p, false);
}

/* Makes header and source; false, with an error. */
static bool make(cfx__c_job *w, const cfx_program *p, cfx__text *header, cfx__text *source,
                 const char *path) {
    cfx__c *c = &w->c;
    if (!write_somehow(w, p))
        return false;
    if (c->o.weights == CFX_WEIGHTS_AUTO)
        c->o.weights = cfx__c_weights_bytes(c) <= 1 << 20 ? CFX_WEIGHTS_INLINE : CFX_WEIGHTS_FILE;
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    const char *stem = cfx__text_format("%.*s", (int)strlen(base) - 2, base);
    for (const char *at = stem; *at; at++)
        if ((unsigned char)*at < 0x20 || strchr("\"\\?*<>", *at)) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "'%s' is no name of a header that C could include", stem);
            return false;
        }
    cfx__c_header(c, header);
    cfx__c_source(c, source, cfx__text_format("%s.h", stem), cfx__text_format("%s.bin", stem));
    return cfx_ok();
}

/* Whether what was written to a file has reached the system. */
static bool is_written(FILE *file) { return fflush(file) == 0 && !ferror(file); }

/* Source, header and weights: none is replaced unless there is room for all of them. */
static bool save(const cfx__c *c, const char *path, const char *stem, const cfx__text *header,
                 const cfx__text *source) {
    cfx__file_save text, head, weights;
    const bool apart = c->o.weights == CFX_WEIGHTS_FILE;
    if (!cfx_ok() || !cfx__file_save_open(&text, path))
        return false;
    if (!cfx__file_save_open_with(&head, cfx__text_format("%s.h", stem), &text)) {
        cfx__file_save_close(&text, false);
        return false;
    }
    if (apart && !cfx__file_save_open_with(&weights, cfx__text_format("%s.bin", stem), &text)) {
        cfx__file_save_close_pair(&text, &head, false);
        return false;
    }
    fwrite(source->data, 1, source->len, text.file);
    fwrite(header->data, 1, header->len, head.file);
    if (apart)
        cfx__c_weights_file(c, weights.file);
    const bool fine =
        is_written(text.file) && is_written(head.file) && (!apart || is_written(weights.file));
    if (!fine)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "cannot write '%s': the disk may be full", path);
    const bool kept = !apart || cfx__file_save_close(&weights, fine);
    return cfx__file_save_close_pair(&text, &head, fine && kept) && kept;
}

bool cfx_compile_c(const cfx_program *p, const cfx_compile_options *options, const char *path) {
    static const cfx_compile_options none;
    const size_t len = path ? strlen(path) : 0;
    if (cfx_failed(p))
        return false;
    if (len < 3 || strcmp(path + len - 2, ".c") != 0) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "C is written to a file whose name ends in .c");
        return false;
    }
    size_t mark = cfx_scope_open();
    cfx_grad_mode before = cfx_set_grad_mode(CFX_INFERENCE);
    cfx__c_job w = {.c = {.o = options ? *options : none}};
    cfx__text header = {0}, source = {0};
    const char *stem = cfx__text_format("%.*s", (int)len - 2, path);
    bool fine = make(&w, p, &header, &source, path);
    fine = fine && save(&w.c, path, stem, &header, &source);
    cfx__text_release(&header);
    cfx__text_release(&source);
    cfx__c_job_end(&w);
    cfx_set_grad_mode(before);
    cfx_scope_close(mark);
    return fine;
}

const char *cfx_compile_text(const cfx_program *p, const cfx_compile_options *options) {
    static const cfx_compile_options none;
    if (cfx_failed(p))
        return NULL;
    size_t mark = cfx_scope_open();
    cfx_grad_mode before = cfx_set_grad_mode(CFX_INFERENCE);
    cfx__c_job w = {.c = {.o = options ? *options : none}};
    w.c.o.weights = CFX_WEIGHTS_FILE;
    cfx__text header = {0}, source = {0};
    const bool fine =
        make(&w, p, &header, &source, cfx__text_format("%s.c", prefix_of(fallback_name(&w.c.o))));
    cfx_value out = fine ? cfx_string_value(source.data) : cfx_none();
    cfx__text_release(&header);
    cfx__text_release(&source);
    cfx__c_job_end(&w);
    cfx_set_grad_mode(before);
    return cfx_text(cfx_scope_return_value(mark, out));
}
