/* Logs where the numbers of a recording come from; see record_log.h. */
#include "record.h"

void cfx__record_log_begin(cfx__record_log *log) {
    struct cfx__record_frame program = {0};
    VEC_PUSH(log->frames, program);
}

void cfx__record_log_free(cfx__record_log *log) {
    VEC_FREE(log->marks);
    VEC_FREE(log->frames);
    VEC_FREE(log->given);
    VEC_FREE(log->frame_of);
    VEC_FREE(log->wraps);
    *log = (cfx__record_log){0};
}

static bool is_list(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

/* ---- marks ----------------------------------------------------------------------------------- */

const cfx__record_mark *cfx__record_mark_of(const cfx__record_log *log, cfx_value v) {
    bool number = v.tag == CFX_TAG_INT || v.tag == CFX_TAG_FLOAT;
    return log && number && v.spare && v.spare <= log->marks.len ? &log->marks.data[v.spare - 1]
                                                                 : NULL;
}

bool cfx__record_is_marked(const cfx__record_log *log, cfx_value v) {
    bool marked = cfx__record_mark_of(log, v) != NULL;
    for (int64_t i = 0; is_list(v) && i < cfx_as_list(v)->len; i++)
        marked |= cfx__record_is_marked(log, cfx_as_list(v)->items[i]);
    return marked;
}

static cfx_value marked(cfx__recorder *r, cfx_value v, cfx__record_mark mark) {
    if (!r->log || !mark.node || (v.tag != CFX_TAG_INT && v.tag != CFX_TAG_FLOAT))
        return v;
    VEC_PUSH(r->log->marks, mark);
    v.spare = (uint32_t)r->log->marks.len;
    return v;
}

cfx_value cfx__record_number(cfx__recorder *r, cfx_node *n, cfx_value v) {
    return marked(r, v, (cfx__record_mark){n->graph ? n : NULL, CFX__A_NUMBER});
}

/* The node that a tensor stands for, be it behind by now. */
static cfx_node *node_of(const cfx_tensor *t) {
    const cfx__record_shadow *s = cfx__record_shadow_of(t);
    const cfx__record_shadow *inner = s && s->value ? cfx__record_shadow_of(s->value) : s;
    return inner ? inner->node : NULL;
}

cfx_value cfx__record_size(cfx__recorder *r, const cfx_tensor *t, int dim) {
    return marked(r, cfx_int(t->shape[dim]), (cfx__record_mark){node_of(t), dim});
}

/* ---- decompositions -------------------------------------------------------------------------- */

static void note_given(cfx__recorder *r, cfx_value v) {
    for (int64_t i = 0; is_list(v) && i < cfx_as_list(v)->len; i++)
        note_given(r, cfx_as_list(v)->items[i]);
    const cfx__record_mark *m = cfx__record_mark_of(r->log, v);
    struct cfx__record_given g = {.number = v.tag == CFX_TAG_INT ? cfx_integer(v) : 0};
    if (m)
        g.what = *m;
    else if (v.tag == CFX_TAG_TENSOR)
        g.what = (cfx__record_mark){node_of(cfx_as_tensor(v)), CFX__A_NUMBER};
    if (g.what.node || v.tag == CFX_TAG_INT)
        VEC_PUSH(r->log->given, g);
}

uint32_t cfx__record_frame_begin(cfx__recorder *r, int n, const cfx_value *args) {
    cfx__record_log *log = r->log;
    if (!log)
        return 0;
    struct cfx__record_frame f = {.outer = log->now, .first = log->given.len};
    for (int i = 0; i < n; i++)
        note_given(r, args[i]);
    f.len = log->given.len - f.first;
    log->now = (uint32_t)log->frames.len;
    VEC_PUSH(log->frames, f);
    return f.outer;
}

void cfx__record_frame_end(cfx__recorder *r, uint32_t frame) {
    if (r->log)
        r->log->now = frame;
}

uint32_t cfx__record_frame_now(const cfx__recorder *r) { return r->log ? r->log->now : 0; }

void cfx__record_log_node(cfx__recorder *r, const cfx_node *n) {
    cfx__record_log *log = r->log;
    while (log && log->frame_of.len <= cfx__node_of(n)->id)
        VEC_PUSH(log->frame_of, log->now);
}

static void log_wrap(cfx__recorder *r, cfx_value v, bool written) {
    for (int64_t i = 0; is_list(v) && i < cfx_as_list(v)->len; i++)
        log_wrap(r, cfx_as_list(v)->items[i], written);
    struct cfx__record_wrap w = {.after = r->graph->last, .written = written};
    w.tensor = v.tag == CFX_TAG_TENSOR ? node_of(cfx_as_tensor(v)) : NULL;
    if (w.tensor)
        VEC_PUSH(r->log->wraps, w);
}

void cfx__record_log_result(cfx__recorder *r, cfx_value v) {
    if (r->log && cfx_ok())
        log_wrap(r, v, false);
}

void cfx__record_log_write(cfx__recorder *r, cfx_value v) {
    if (r->log && cfx_ok())
        log_wrap(r, v, true);
}
