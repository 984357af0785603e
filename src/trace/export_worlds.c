/* Export at several sizes: forward is recorded in each world, and the recordings become one program
 * (worlds.h). Start at cfx__export_run. */
#include "export.h"

static bool is_same(const cfx__request *r, int k, const cfx_node **where) {
    return cfx__worlds_same(r->first->recorder.graph, r->other[k - 1].recorder.graph, where);
}

static void forget(cfx__request *r, int k) {
    cfx__export_end(&r->other[k - 1]);
    r->other[k - 1] = (cfx__export){0};
}

static bool trial(void *user) {
    cfx__request *r = user;
    const cfx_node *where;
    size_t mark = cfx_scope_open();
    bool same = cfx__export_record(&r->other[CFX__TRIAL - 1], r, CFX__TRIAL) &&
                is_same(r, CFX__TRIAL, &where);
    cfx__error_forgive();
    forget(r, CFX__TRIAL);
    cfx_scope_close(mark);
    return same;
}

/* Why world k is not as world 0: its error, or the first line that is another. Scope. */
static const char *difference(const cfx__request *r, int k, bool fine) {
    const cfx_node *where = NULL;
    if (!fine)
        return cfx__text_format("%s", cfx_error_last()->message);
    is_same(r, k, &where);
    cfx_value trace = where ? cfx_node_get_meta(where, "stack_trace") : cfx_none();
    return trace.tag == CFX_TAG_STR ? cfx_text(trace) : "what forward calls depends on them";
}

/* Records all worlds but the first; false with *again where sizes gave way. */
static bool record_worlds(cfx__request *r, bool *again) {
    const cfx_node *where;
    for (int k = 1; k < cfx__worlds_count(&r->dims.worlds); k++) {
        cfx__worlds_choose(&r->dims.worlds, k, 0);
        bool fine = cfx__export_record(&r->other[k - 1], r, k);
        bool renamed = r->other[k - 1].renamed;
        if (fine && !r->joints.late && !renamed && is_same(r, k, &where)) {
            r->dims.worlds.n = k + 1;
            continue;
        }
        const char *why = difference(r, k, fine);
        bool forgiven = cfx__error_forgive();
        for (int i = 1; i <= k; i++)
            forget(r, i);
        if (!forgiven)
            return false;
        if (r->joints.late || renamed) /* there are more of them, and others */
            cfx__worlds_forget_unknown(&r->dims.worlds);
        *again = r->joints.late || renamed || cfx__worlds_larger(&r->dims.worlds) ||
                 (!fine && cfx__worlds_nearer(&r->dims.worlds)) ||
                 cfx__guards_settle(&r->dims, trial, r, why);
        r->joints.late = false;
        return false;
    }
    return true;
}

/* Integers among the results may have become nodes, and nodes may be called otherwise. */
static void name_outputs(cfx__export *e) {
    cfx_value items = cfx_at(cfx_graph_output_node(e->recorder.graph)->args, 0);
    for (size_t i = 0; i < e->outputs.len; i++) {
        cfx_value v = cfx_at(items, (int64_t)i);
        if (v.tag != CFX_TAG_NODE)
            continue;
        cfx_value_drop(e->outputs.data[i].value);
        e->outputs.data[i].value = cfx_none();
        e->outputs.data[i].name = cfx_as_node(v)->name;
    }
}

static bool merge(cfx__request *r, bool *guessed) {
    cfx__merge m = {.worlds = &r->dims.worlds, .graph = {r->first->recorder.graph}};
    for (int k = 1; k < r->dims.worlds.n; k++)
        m.graph[k] = r->other[k - 1].recorder.graph;
    bool fine = cfx__worlds_merge(&m);
    *guessed = m.guessed;
    if (!fine)
        return false;
    name_outputs(r->first);
    cfx_drop(r->first->ranges);
    r->first->ranges = cfx_keep(cfx__dims_ranges(&r->dims));
    return cfx_ok();
}

/* World 0; with other data where forward checks that it is not as chosen. */
static bool record_first(cfx__request *r) {
    enum { TRIES = 8 };
    bool fine = false;
    for (int i = 0; i < TRIES; i++) {
        cfx__worlds_choose(&r->dims.worlds, 0, 0);
        fine = cfx__export_record(r->first, r, 0);
        if (!r->first->unlucky || (!fine && !cfx__error_forgive()))
            return fine;
        cfx__export_end(r->first);
    }
    return cfx__export_record(r->first, r, 0);
}

/* Whether C looked at no size that is another with other data: forward is recorded once more for
 * it, at the same sizes. False with an error; *again where checks are others than it seemed. */
static bool is_blind(cfx__request *r, bool *again) {
    bool data = false, blind = true;
    for (int i = 0; i < 3 && blind && r->first->marks.reads.len; i++) {
        for (size_t k = 0; k < r->dims.worlds.symbols.len; k++) {
            cfx__symbol *s = &r->dims.worlds.symbols.data[k];
            int64_t other = i == 0 ? 2 * s->size.at[0] + 7 + (int64_t)k : i - 1;
            bool fits = *s->name == 'u' && other >= s->least && other <= s->most;
            s->size.at[CFX__TRIAL] = fits ? other : s->size.at[0];
            data |= fits;
        }
        if (!data)
            break;
        size_t mark = cfx_scope_open();
        cfx__export_record(&r->other[CFX__TRIAL - 1], r, CFX__TRIAL);
        cfx__error_forgive();
        blind = cfx_ok() && !cfx__marks_differ(r->first, &r->other[CFX__TRIAL - 1]);
        *again |= r->other[CFX__TRIAL - 1].renamed;
        forget(r, CFX__TRIAL);
        cfx_scope_close(mark);
    }
    if (*again)
        cfx__worlds_forget_unknown(&r->dims.worlds);
    return blind;
}

static bool export_worlds(cfx__request *r) {
    for (bool again = true; again;) {
        again = false;
        r->dims.worlds.n = 1;
        bool fixed = !r->dims.worlds.symbols.len;
        if (!record_first(r))
            return false;
        if (!r->dims.worlds.symbols.len)
            return true;
        if (fixed) { /* until data made a size vary: now numbers are noted as well */
            cfx__export_end(r->first);
            if (!record_first(r))
                return false;
        }
        if (!is_blind(r, &again))
            return false;
        if (!again && record_worlds(r, &again)) {
            bool guessed = false, fine = merge(r, &guessed);
            again = cfx__worlds_again(&r->dims.worlds, guessed) ||
                    (!fine && cfx__worlds_larger(&r->dims.worlds));
            if (!again)
                return fine;
            again = cfx__error_forgive();
            for (int i = 1; i < r->dims.worlds.n; i++)
                forget(r, i);
        }
        if (again)
            cfx__export_end(r->first);
    }
    return false;
}

bool cfx__export_run(cfx__export *e, cfx_module *m, cfx_value args, cfx_value kwargs,
                     cfx_value dynamic, cfx_value preserve) {
    cfx__request r = {.module = m, .args = args, .kwargs = kwargs, .preserve = preserve,
                      .first = e};
    r.dims.worlds.bare = true; /* until something does not go so */
    *e = (cfx__export){0};
    cfx__export_note_dims(&r, dynamic);
    bool fine = cfx_ok() && cfx__dims_settle(&r.dims);
    r.other = cfx__alloc0((CFX__WORLDS - 1) * sizeof *r.other);
    fine = fine && export_worlds(&r);
    for (int k = 1; fine && k < r.dims.worlds.n; k++)
        fine = cfx__levels_agree(e, &r.other[k - 1]);
    fine = fine && cfx__regions_make(e);
    if (fine) {
        cfx__branch_names(e->recorder.graph, NULL);
        name_outputs(e);
    }
    for (int k = 1; k < CFX__WORLDS; k++)
        forget(&r, k);
    cfx__free(r.other);
    VEC_FREE(r.joints.apart);
    cfx__dims_free(&r.dims);
    e->dims = NULL;
    return fine;
}
