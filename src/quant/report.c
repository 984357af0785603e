/* How good a quantized program is: signal-to-noise of its layers and results against the float
 * program, and how much of it may be quantized for a given one. */
#include <cfx/ops.h>

#include "../base/given.h"
#include "quant.h"

#include <math.h>
#include <stdlib.h>

static void report_free(void *obj) {
    cfx_quantize_report *r = obj;
    cfx__free(r->layers);
    cfx__free(r->outputs);
}

static const cfx__obj_type report_type = {.name = "report", .free = report_free};
static const cfx_quantize_report bad_report = {
    .head = {.refs = 1, .flags = CFX__BAD, .type = &report_type}};

/* ---- noise ----------------------------------------------------------------------------------- */

/* Sums of squares: of what a value should be, and of what it is wrong by. */
typedef struct noise {
    double signal, error;
} noise;

double cfx__quant_decibels(double signal, double error) {
    if (error == 0)
        return INFINITY;
    return isfinite(error) && signal > 0 ? 10 * log10(signal / error) : -INFINITY;
}

static double db_of(noise n) { return cfx__quant_decibels(n.signal, n.error); }

static void add_noise(noise *n, cfx_tensor *want, cfx_tensor *got) {
    if (!want || !got || !cfx__tensor_same_shape(want, got) || !cfx__dtype_is_float(want->dtype))
        return;
    cfx_tensor *w = cfx_to(want, cfx_f64), *d = cfx_sub(w, cfx_to(got, cfx_f64));
    cfx_tensor *signal = cfx_sum(cfx_mul(w, w)), *error = cfx_sum(cfx_mul(d, d));
    if (!cfx_ok())
        return;
    n->signal += cfx_number(cfx__tensor_get(signal, 0));
    n->error += cfx_number(cfx__tensor_get(error, 0));
}

/* ---- runs ------------------------------------------------------------------------------------ */

typedef struct comparing {
    const cfx_quantized *q;
    cfx_dict *want;   /* name to value, of the reference on this batch */
    noise *layers, *own;
    bool alone;       /* each layer gets the reference's inputs */
} comparing;

/* The number of the layer of that name, or -1. */
static int layer_of(const cfx_quantized *q, const char *name) {
    for (int i = 0; i < q->nlayers; i++)
        if (!q->layers[i].left && !strcmp(q->layers[i].name, name))
            return i;
    return -1;
}

static bool wants_all(cfx_watcher *self, const cfx_node *n) {
    comparing *c = self->user;
    return n->op != CFX_OUTPUT && cfx_graph_find(c->q->program->module->graph, n->name) &&
           cfx_graph_find(c->q->reference->module->graph, n->name);
}

static cfx_value see_want(cfx_watcher *self, cfx_node *n, cfx_value v) {
    comparing *c = self->user;
    if (v.tag == CFX_TAG_TENSOR)
        cfx_dict_set(c->want, n->name, v);
    return cfx_none();
}

static cfx_value see_got(cfx_watcher *self, cfx_node *n, cfx_value v) {
    comparing *c = self->user;
    cfx_value want = cfx_dict_get(c->want, n->name);
    int i = layer_of(c->q, n->name);
    if (i >= 0 && v.tag == CFX_TAG_TENSOR && want.tag == CFX_TAG_TENSOR)
        add_noise(c->alone ? &c->own[i] : &c->layers[i], cfx_as_tensor(want), cfx_as_tensor(v));
    return c->alone ? want : cfx_none();
}

static cfx_list *leaves_of(cfx_value result) {
    cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
    cfx_tree_flatten(result, leaves);
    return leaves;
}

/* One batch through the reference, the quantized program, and its layers alone. */
static bool compare_batch(comparing *c, cfx_program *reference, cfx_program *program,
                          cfx_value batch, noise *outputs, int noutputs) {
    cfx_watcher first = {.wants = wants_all, .see = see_want, .user = c};
    cfx_watcher then = {.wants = wants_all, .see = see_got, .user = c};
    c->want = cfx_dict_new();
    cfx_value want = cfx_program_run_with((cfx_site){0}, reference, NULL, &first,
                                          cfx__quant_batch(batch));
    c->alone = false;
    cfx_value got = cfx_is_bad(want) ? want
                                     : cfx_program_run_with((cfx_site){0}, program, NULL, &then,
                                                            cfx__quant_batch(batch));
    if (cfx_is_bad(got))
        return false;
    cfx_list *a = leaves_of(want), *b = leaves_of(got);
    for (int i = 0; i < noutputs && i < a->len && i < b->len; i++)
        if (a->items[i].tag == CFX_TAG_TENSOR && b->items[i].tag == CFX_TAG_TENSOR)
            add_noise(&outputs[i], cfx_as_tensor(a->items[i]), cfx_as_tensor(b->items[i]));
    c->alone = true;
    return !cfx_is_bad(cfx_program_run_with((cfx_site){0}, program, NULL, &then,
                                            cfx__quant_batch(batch))) &&
           cfx_ok();
}

/* ---- the report ------------------------------------------------------------------------------ */

static int by_noise(const void *a, const void *b) {
    const cfx_quantize_noise *x = a, *y = b;
    return (x->db > y->db) - (x->db < y->db);
}

static int user_outputs(const cfx_program *p) {
    int n = 0;
    for (int i = 0; i < p->noutputs; i++)
        n += p->outputs[i].kind == CFX_OUT_USER;
    return n;
}

static cfx_quantize_report *fill(const comparing *c, const noise *outputs, int noutputs) {
    const cfx_quantized *q = c->q;
    cfx_quantize_report *r = cfx__obj_new(&report_type, sizeof *r);
    noise all = {0};
    r->layers = cfx__alloc0(((size_t)q->nlayers + 1) * sizeof *r->layers);
    r->outputs = cfx__alloc0(((size_t)noutputs + 1) * sizeof *r->outputs);
    for (int i = 0; i < q->nlayers; i++)
        if (!q->layers[i].left)
            r->layers[r->nlayers++] = (cfx_quantize_noise){
                q->layers[i].name, db_of(c->layers[i]), db_of(c->own[i])};
    for (int i = 0; i < q->program->noutputs; i++) {
        const cfx_output_spec *s = &q->program->outputs[i];
        if (s->kind != CFX_OUT_USER)
            continue;
        noise n = outputs[r->noutputs];
        all.signal += n.signal;
        all.error += n.error;
        r->outputs[r->noutputs++] =
            (cfx_quantize_noise){s->name ? s->name : "None", db_of(n), INFINITY};
    }
    r->db = db_of(all);
    qsort(r->layers, (size_t)r->nlayers, sizeof *r->layers, by_noise);
    return r;
}

cfx_quantize_report *cfx_quantize_compare(const cfx_quantized *q, cfx_value batches) {
    if (!cfx__given((cfx_site){0}, q, "quantized program") || cfx_failed(q))
        return (cfx_quantize_report *)&bad_report;
    size_t mark = cfx_scope_open();
    cfx_program *reference = cfx__quant_runnable(q->reference);
    cfx_program *program = cfx__quant_runnable(q->program);
    const int noutputs = user_outputs(q->program);
    const size_t n = (size_t)q->nlayers;
    noise *sums = cfx__alloc0((2 * n + (size_t)noutputs + 1) * sizeof *sums);
    comparing c = {.q = q, .layers = sums, .own = sums + n};
    bool there = !cfx_failed(reference) && !cfx_failed(program);
    bool fine = there && cfx_as_list(batches)->len;
    if (there && !fine && cfx_ok())
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "there are no batches to compare on");
    for (int64_t i = 0; fine && i < cfx_as_list(batches)->len; i++) {
        size_t inner = cfx_scope_open();
        fine = compare_batch(&c, reference, program, cfx_as_list(batches)->items[i], sums + 2 * n,
                             noutputs);
        cfx_scope_close(inner);
    }
    cfx_quantize_report *r = (cfx_quantize_report *)&bad_report;
    if (fine)
        r = fill(&c, sums + 2 * n, noutputs);
    cfx__free(sums);
    return cfx_scope_return(mark, r);
}

/* ---- to a target ----------------------------------------------------------------------------- */

static int by_own_noise(const void *a, const void *b) {
    const cfx_quantize_noise *x = a, *y = b;
    return (x->own > y->own) - (x->own < y->own);
}

/* The options with the noisiest n layers skipped too. */
static cfx_quantize_options without(cfx_quantize_options o, const cfx_quantize_report *r, int n) {
    cfx_value all = cfx_list_value(0, NULL);
    if (o.skip.tag == CFX_TAG_LIST || o.skip.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < cfx_as_list(o.skip)->len; i++)
            cfx_list_append(cfx_as_list(all), cfx_as_list(o.skip)->items[i]);
    for (int i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(all), cfx_string_value(r->layers[i].name));
    o.skip = all;
    return o;
}

cfx_quantized *cfx_quantize_to(const cfx_program *p, cfx_value batches, cfx_value held_out,
                               double db, cfx_quantize_options options) {
    size_t mark = cfx_scope_open();
    cfx_quantized *best = cfx_quantize(p, batches, options);
    cfx_quantize_report *r = cfx_quantize_compare(best, held_out);
    if (cfx_failed(r) || r->db >= db)
        return cfx_scope_return(mark, cfx_failed(r) ? &cfx__quantized_bad : best);
    qsort(r->layers, (size_t)r->nlayers, sizeof *r->layers, by_own_noise);
    int bad = 0, good = r->nlayers; /* skipped: too few, and enough (all: not quantized at all) */
    best = &cfx__quantized_bad;
    while (good - bad > 1 && cfx_ok()) {
        int middle = bad ? (bad + good) / 2 : 1; /* one layer is often all that it takes */
        cfx_quantized *q = cfx_quantize(p, batches, without(options, r, middle));
        cfx_quantize_report *now = cfx_quantize_compare(q, held_out);
        bool enough = !cfx_failed(now) && now->db >= db;
        best = enough ? q : best;
        *(enough ? &good : &bad) = middle;
    }
    if (cfx_failed(best) && cfx_ok())
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "%g dB cannot be reached: even a single quantized layer gives less", db);
    return cfx_scope_return(mark, cfx_ok() ? best : &cfx__quantized_bad);
}
