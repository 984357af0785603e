/* Calibration: runs a program on batches and records statistics of its values. */
#include <cfx/ops.h>

#include "../ops/views.h"
#include "quant.h"

#include <math.h>

/* ---- what is watched ------------------------------------------------------------------------- */

cfx__quant_seen *cfx__quant_seen_of(const cfx__quant_watch *w, const cfx_node *n, int channel) {
    for (size_t i = 0; i < w->len; i++)
        if (w->data[i].node == n && (!channel || w->data[i].channel == channel))
            return &w->data[i];
    return NULL;
}

void cfx__quant_look_at(cfx__quant_watch *w, cfx_node *n, int channel) {
    if (!cfx__quant_seen_of(w, n, channel))
        VEC_PUSH(*w, ((cfx__quant_seen){n, .channel = channel}));
}

static void forget(cfx__quant_seen *s) {
    cfx_drop(s->observer);
    cfx_drop(s->far);
    cfx_drop(s->mean);
}

void cfx__quant_watch_free(cfx__quant_watch *w) {
    for (size_t i = 0; i < w->len; i++)
        forget(&w->data[i]);
    VEC_FREE(*w);
}

/* ---- a value is seen ------------------------------------------------------------------------- */

typedef struct looking {
    cfx__quant_watch *watch;
    const cfx_quantize_options *options;
    bool ranges;
    int64_t batch;
} looking;

static bool wants(cfx_watcher *self, const cfx_node *n) {
    return cfx__quant_seen_of(((looking *)self->user)->watch, n, 0) != NULL;
}

static bool is_finite(const cfx_tensor *t) {
    const float *x = (const float *)t->data;
    for (int64_t i = 0; i < t->numel; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* Replaces a counted tensor. */
static void keep_in(cfx_tensor **to, cfx_tensor *t) {
    cfx_keep(t);
    cfx_drop(*to);
    *to = t;
}

/* The largest magnitude and the mean of each channel. */
static void note_channels(cfx__quant_seen *s, cfx_tensor *x) {
    const int64_t channel = x->ndim - (s->channel < x->ndim ? s->channel : x->ndim),
                  rows = x->numel / x->shape[channel];
    cfx_tensor *flat = cfx_reshape(cfx_movedim(x, channel, -1), cfx_list(rows, -1));
    cfx_tensor *far = cfx_amax(cfx_abs(flat), cfx_list(0)), *mean = cfx_mean(flat, cfx_list(0));
    const double share = (double)rows / (double)(rows + s->rows);
    if (s->far) {
        far = cfx_maximum(s->far, far);
        mean = cfx_add(cfx_mul(s->mean, 1 - share), cfx_mul(mean, share));
    }
    s->rows += rows;
    if (!cfx_ok())
        return;
    keep_in(&s->far, far);
    keep_in(&s->mean, mean);
}

static void observe(cfx__quant_seen *s, const cfx_quantize_options *o, cfx_tensor *x) {
    if (!s->observer)
        s->observer = cfx_keep(cfx_observer_new(cfx__quant_of_inputs(o)));
    cfx_forward(s->observer, x);
}

/* A value that is NaN or infinite once has neither a range nor a mean. */
static void give_up(cfx__quant_seen *s) {
    forget(s);
    *s = (cfx__quant_seen){s->node, .channel = s->channel, .unbounded = true};
}

static cfx_value see(cfx_watcher *self, cfx_node *n, cfx_value v) {
    looking *l = self->user;
    if (v.tag != CFX_TAG_TENSOR || !cfx__quant_rounds(cfx_as_tensor(v)->dtype))
        return cfx_none();
    cfx_tensor *x = cfx_contiguous(cfx_to(cfx_as_tensor(v), cfx_f32));
    if (!cfx_ok() || !x->data || !x->numel)
        return cfx_none();
    const bool finite = is_finite(x);
    for (size_t i = 0; i < l->watch->len; i++) {
        cfx__quant_seen *s = &l->watch->data[i];
        if (s->node != n || s->unbounded)
            continue;
        if (!finite)
            give_up(s);
        else if (l->ranges)
            observe(s, l->options, x);
        else if (x->ndim)
            note_channels(s, x);
    }
    return cfx_none();
}

/* ---- all batches ----------------------------------------------------------------------------- */

static cfx_value copied(cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        return cfx_tensor_value(cfx__copied_as_it_lies(cfx_as_tensor(v)));
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), copied(cfx_as_list(v)->items[i]));
    return out;
}

cfx_args cfx__quant_batch(cfx_value batch) {
    const cfx_list *l = cfx_as_list(copied(batch));
    return (cfx_args){(int)l->len, l->items, NULL};
}

cfx_program *cfx__quant_runnable(const cfx_program *p) {
    cfx_program *q = cfx_program_copy(p);
    for (int i = 0; i < q->noutputs; i++) {
        const char *target = q->outputs[i].target;
        if (q->outputs[i].kind != CFX_OUT_BUFFER_MUTATION || !target)
            continue;
        cfx_dict *in = cfx_is_none(cfx_dict_get(q->state, target)) ? q->constants : q->state;
        cfx_value old = cfx_dict_get(in, target);
        if (old.tag == CFX_TAG_TENSOR)
            cfx_dict_set(in, target,
                         cfx_tensor_value(cfx__copied_as_it_lies(cfx_as_tensor(old))));
    }
    return q;
}

/* A copy has nodes of its own: those watched there, in the same order. */
static bool watch_copy(const cfx__quant_watch *w, const cfx_program *copy, cfx__quant_watch *to) {
    for (size_t i = 0; i < w->len; i++) {
        cfx__quant_seen s = w->data[i];
        s.node = cfx_graph_find(copy->module->graph, s.node->name);
        if (!s.node)
            return false;
        VEC_PUSH(*to, s);
    }
    return true;
}

bool cfx__quant_calibrate(cfx_program *p, cfx_value batches, const cfx_quantize_options *o,
                          bool ranges, cfx__quant_watch *w) {
    cfx_program *copy = cfx__quant_runnable(p);
    cfx__quant_watch there = {0};
    looking l = {&there, o, ranges, 0};
    cfx_watcher watcher = {.wants = wants, .see = see, .user = &l};
    const int64_t n = cfx_as_list(batches)->len;
    bool fine = !cfx_failed(copy) && watch_copy(w, copy, &there);
    for (; fine && l.batch < n; l.batch++) {
        size_t mark = cfx_scope_open();
        if (o->progress)
            o->progress("calibrating", l.batch, n, o->user);
        cfx_value batch = cfx_as_list(batches)->items[l.batch];
        fine = !cfx_is_bad(cfx_program_run_with((cfx_site){0}, copy, NULL, &watcher,
                                                cfx__quant_batch(batch))) && cfx_ok();
        cfx_scope_close(mark);
    }
    if (!fine && cfx_ok())
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "calibration could not run");
    if (!cfx_ok())
        cfx_error_note("while calibrating with batch %lld of %lld", (long long)l.batch,
                       (long long)n);
    for (size_t i = 0; i < there.len; i++) { /* what was seen goes back, nodes stay */
        cfx_node *node = w->data[i].node;
        w->data[i] = there.data[i];
        w->data[i].node = node;
    }
    VEC_FREE(there);
    return cfx_ok();
}
