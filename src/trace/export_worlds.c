/* Export with dynamic shapes: records forward in each world and merges the recordings into one
 * program (worlds.h). Start at cfx__export_run. */
#include "export.h"

static bool is_same(const cfx__request *r, int k, const cfx_node **where) {
    return cfx__worlds_same(r->first->recorder.graph, r->other[k - 1].recorder.graph, where);
}

static void forget(cfx__request *r, int k) {
    cfx__export_end(&r->other[k - 1]);
    r->other[k - 1] = (cfx__export){0};
}

/* Records the trial, but no more nodes than one like `like` has by far: unbind(x) of a million rows
 * is another program long before it ends. */
static bool record_trial(cfx__request *r, const cfx_graph *like) {
    enum { MORE = 4096 };
    const int64_t most = 2 * (int64_t)like->len + MORE, before = cfx_set_node_limit(most);
    if (before && before < most)
        cfx_set_node_limit(before);
    bool recorded = cfx__export_record(&r->other[CFX__TRIAL - 1], r, CFX__TRIAL);
    cfx_set_node_limit(before);
    if (!cfx_ok() && cfx_error_last()->kind == CFX_LIMIT_ERROR) {
        cfx_error_clear();
        cfx__limit_time(); /* the caller's, which is told */
    }
    return recorded;
}

/* Whether forward does at the sizes of world CFX__TRIAL what its program says; where there is none
 * yet, whether it calls what it calls at those of the example. */
static cfx__trial_end trial(void *user) {
    cfx__request *r = user;
    const cfx_node *where;
    cfx__export *e = &r->other[CFX__TRIAL - 1];
    const cfx_graph *like = r->merged ? r->other[0].recorder.graph : r->first->recorder.graph;
    size_t mark = cfx_scope_open();
    bool recorded = record_trial(r, like);
    r->alike = recorded && cfx__worlds_same(like, e->recorder.graph, &where);
    bool same = r->alike &&
                (!r->merged || cfx__worlds_agree(&r->dims.worlds, CFX__TRIAL,
                                                 r->first->recorder.graph, e->recorder.graph));
    const bool beyond = cfx__error_large(); /* where nothing can be told of forward */
    cfx__error_forgive();
    r->renamed |= e->renamed;
    forget(r, CFX__TRIAL);
    cfx_scope_close(mark);
    if (same || beyond || r->joints.late || r->renamed) /* which is to be recorded again anyway */
        return CFX__TRIAL_SAME;
    return recorded ? CFX__TRIAL_OTHER : CFX__TRIAL_ERROR;
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

/* ---- sizes give way -------------------------------------------------------------------------- */

/* Ways to choose sizes near the example: how far they are apart. With each symbol held in turn they
 * are gone through again: the others vary. */
static const int64_t steps[] = {1, -1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32, 60, 64};
/* The first ways. 0: any sizes. 1: in the step that is asked for, if one is. */
enum { ANY, STEPPED, RISING, FALLING, FIRST_STEPS };

/* Sizes are chosen as usual again, with all that was granted. What two branches give may be the
 * same now. */
static void begin_again(cfx__request *r) {
    r->dims.worlds.step = r->dims.worlds.held = r->way = r->first_way = 0;
    r->stuck = false;
    if (r->dims.broken.len > r->nbroken) /* a name gave way, perhaps for want of an expression */
        r->broken_for = r->unexplained;
    r->nbroken = r->dims.broken.len;
    r->unexplained = NULL;
    r->joints.apart.len = 0;
    cfx__worlds_forget_unknown(&r->dims.worlds);
    cfx__worlds_forget_extra(&r->dims.worlds, true);
}

static int ways(const cfx__request *r) {
    return FIRST_STEPS + COUNT(steps) * (1 + (int)cfx__probe_count(&r->probe));
}

static void set_way(cfx__request *r, int way) {
    cfx__worlds *w = &r->dims.worlds;
    r->way = way;
    bool first = way < FIRST_STEPS;
    w->step = way == ANY ? 0 : first ? r->step : steps[(way - FIRST_STEPS) % COUNT(steps)];
    w->held = way == RISING    ? CFX__RISING
              : way == FALLING ? CFX__FALLING
              : first          ? 0
                               : (way - FIRST_STEPS) / COUNT(steps);
}

/* In these worlds forward is not one program: the next way to choose some in which it is, so that
 * the others can be told from them. False, with an error, where there is none. */
static bool choose_nearer(cfx__request *r, const char *why) {
    cfx__worlds *w = &r->dims.worlds;
    bool again = false, refuted = w->extra.len > 0;
    cfx__worlds_forget_extra(w, true);
    if (refuted && !r->guessed) /* what it is made of holds nearby */
        return r->stuck = true;
    if (!r->way && !refuted && !cfx__guards_settle(&r->probe, &again, &r->step))
        return false;
    if (again) {
        begin_again(r);
        return true;
    }
    if (r->way + 1 < ways(r) && !r->stuck) {
        set_way(r, r->way + 1);
        return true;
    }
    if (r->stuck || !r->first_way)
        return cfx__guards_grant(&r->probe, &(cfx__finding){.kind = CFX__FOUND_NOTHING}, why);
    set_way(r, r->first_way - 1);
    return r->stuck = true;
}

/* Grants what forward asked by comparisons that were noted. False with *again where something gave
 * way, or with an error. */
static bool grant_compared(cfx__request *r, bool *again) {
    bool known = r->dims.worlds.held <= 0; /* sizes that do not vary are numbers in expressions */
    for (size_t i = 0; i < r->compared.len && known; i++) {
        size_t mark = cfx_scope_open();
        cfx__finding f;
        bool asks = cfx__compared_find(&r->probe, &r->compared.data[i], &f);
        if (asks) {
            *again = cfx__guards_grant(&r->probe, &f, "");
            if (*again)
                begin_again(r);
        }
        cfx_scope_close(mark);
        if (asks)
            return false;
    }
    return true;
}

/* Looks for sizes at which the program is not what forward does. True with *again where something
 * was found and granted; false with an error. */
static bool look_around(cfx__request *r, bool *again) {
    cfx__worlds *w = &r->dims.worlds;
    r->first_way = r->first_way ? r->first_way : r->way + 1;
    bool differs = cfx__probe_look(&r->probe);
    if (!differs || r->joints.late || r->renamed) {
        if ((*again = r->joints.late || r->renamed))
            cfx__worlds_forget_unknown(w);
        r->joints.late = r->renamed = false;
        return cfx_ok();
    }
    if (r->alike && !r->stuck && cfx__worlds_add_extra(w, CFX__TRIAL))
        return *again = true; /* another expression may explain these numbers too */
    if (r->alike && !r->stuck && r->guessed)
        return *again = choose_nearer(r, "no expression explains its numbers");
    size_t n = cfx__probe_count(&r->probe), mark = cfx_scope_open();
    int64_t *sizes = cfx__alloc0((n + 1) * sizeof *sizes);
    cfx__text why = {0};
    for (size_t i = 0; i < n; i++) {
        sizes[i] = w->symbols.data[i].size.at[CFX__TRIAL];
        cfx__text_printf(&why, "%s%s = %lld", i ? ", " : "it is another one where ",
                         w->symbols.data[i].name, (long long)sizes[i]);
    }
    cfx__finding found = cfx__probe_explain(&r->probe, sizes);
    *again = cfx_ok() && cfx__guards_grant(&r->probe, &found, cfx__text_take(&why));
    if (*again)
        begin_again(r);
    cfx__free(sizes);
    cfx_scope_close(mark);
    return *again;
}

/* Whether the call that was refused in a recording asks something of sizes that are data: it is
 * assumed from now on. */
static bool is_implied(cfx__request *r, const cfx__export *e) {
    if (cfx_ok() || !cfx__implied_find(r, e))
        return false;
    cfx__worlds_forget_unknown(&r->dims.worlds);
    return cfx__error_forgive();
}

/* ---- all worlds ------------------------------------------------------------------------------ */

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
        const bool other = r->joints.late || renamed; /* symbols: there are more, and others */
        *again =
            other || cfx__worlds_larger(&r->dims.worlds) ||
            (!fine && (cfx__worlds_nearer(&r->dims.worlds) || is_implied(r, &r->other[k - 1])));
        bool forgiven = cfx__error_forgive();
        for (int i = 1; i <= k; i++)
            forget(r, i);
        if (!forgiven)
            return false;
        if (other)
            cfx__worlds_forget_unknown(&r->dims.worlds);
        *again = *again || choose_nearer(r, why);
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
    cfx__merge m = {.worlds = &r->dims.worlds, .graph = {r->first->recorder.graph},
                    .asked = &r->compared};
    cfx__relations_free(&r->compared);
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
    bool data = false, blind = true, fixed = false;
    for (int i = 0; i < 3 && blind && !fixed && r->first->marks.reads.len; i++) {
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
        fixed = cfx_ok() && cfx__marks_differ(r->first, &r->other[CFX__TRIAL - 1]);
        blind = cfx_ok();
        *again |= r->other[CFX__TRIAL - 1].renamed;
        forget(r, CFX__TRIAL);
        cfx_scope_close(mark);
    }
    if (*again && !fixed)
        cfx__worlds_forget_unknown(&r->dims.worlds);
    *again |= fixed;
    return blind;
}

/* All worlds as one program, which is what forward does at other sizes too. False with *again where
 * something gave way, or with an error. */
static bool make_program(cfx__request *r, bool *again) {
    cfx__worlds *w = &r->dims.worlds;
    bool guessed = false, fine = merge(r, &guessed);
    if (cfx__worlds_again(w, guessed) || (!fine && cfx__worlds_larger(w))) {
        *again = true;
        return false;
    }
    if (fine) {
        r->guessed = w->extra.len ? r->guessed : guessed;
        r->merged = true;
        return grant_compared(r, again) && look_around(r, again) && !*again;
    }
    r->unexplained = cfx__text_format("%s", cfx_error_last()->message);
    if (!cfx__error_forgive() || !grant_compared(r, again))
        return false;
    cfx__export_end(r->first); /* which merging has begun to change */
    *again = cfx__export_record(r->first, r, 0) && choose_nearer(r, r->unexplained);
    return false;
}

/* Sizes that data tells are told apart from each other in all worlds, so that few are the smallest
 * that can be. False with *again where a call asks for more. */
static bool may_be_small(cfx__request *r, bool *again) {
    cfx__worlds *w = &r->dims.worlds;
    bool data = false;
    for (size_t i = 0; i < w->symbols.len; i++) {
        cfx__symbol *s = &w->symbols.data[i];
        const bool size = *s->name == 'u' && !s->any && !s->apart && !s->joined;
        s->size.at[CFX__TRIAL] = size ? cfx__symbol_smallest(s) : s->size.at[0];
        data |= size;
    }
    if (!data)
        return true;
    cfx__worlds_mend(w, CFX__TRIAL);
    cfx__export e; /* beside the trials of what is implied */
    const size_t mark = cfx_scope_open();
    const bool fine = cfx__export_record(&e, r, CFX__TRIAL);
    *again = !fine && !e.unlucky && is_implied(r, &e);
    const bool told = cfx__error_forgive();
    cfx__export_end(&e);
    cfx_scope_close(mark);
    return told && !*again;
}

static bool export_worlds(cfx__request *r) {
    for (bool again = true; again;) {
        again = false;
        r->merged = false;
        r->dims.worlds.n = 1;
        bool fixed = !r->dims.worlds.symbols.len;
        if (!record_first(r)) {
            again = is_implied(r, r->first);
            if (!again)
                return false;
            cfx__export_end(r->first);
            continue;
        }
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
            if (may_be_small(r, &again) && make_program(r, &again))
                return true;
            again = again && cfx__error_forgive();
            for (int i = 1; i < r->dims.worlds.n; i++)
                forget(r, i);
        }
        if (again)
            cfx__export_end(r->first);
    }
    return false;
}

/* How long sizes are tried at which forward may decide otherwise. */
static int64_t probe_ns(int64_t ms) {
    enum { USUAL_MS = 500, MOST_MS = 1000000000 };
    ms = !ms ? USUAL_MS : ms < 0 ? 0 : ms < MOST_MS ? ms : MOST_MS;
    return ms * 1000000;
}

/* Numbers that no expression was found for are told with what became of it. */
static bool export_all(cfx__request *r) {
    bool fine = export_worlds(r);
    const cfx_error *e = cfx_error_last();
    bool unsteady = !fine && e && !strncmp(e->message, "the program is not the same", 27);
    if (fine || (unsteady && r->dims.broken.len && cfx__error_forgive()))
        fine = cfx__guards_hold(&r->dims) && fine;
    const char *why = r->unexplained ? r->unexplained : r->broken_for;
    if (!fine && why && !strstr(cfx_error_last()->message, why))
        cfx_error_note("%s", why);
    return fine;
}

bool cfx__export_run(cfx__export *e, cfx_module *m, cfx_value args, cfx_value kwargs,
                     cfx_value dynamic, cfx_value preserve, int64_t probe_ms,
                     struct cfx__draft *draft) {
    cfx__request r = {.module = m, .args = args, .kwargs = kwargs, .preserve = preserve,
                      .first = e};
    r.dims.draft = draft;
    r.dims.worlds.bare = true; /* until something does not go so */
    r.probe = (cfx__probe){&r.dims, trial, &r, .largest = INT64_MAX,
                           .budget = probe_ns(probe_ms)};
    *e = (cfx__export){0};
    cfx__export_note_dims(&r, dynamic);
    bool fine = cfx_ok() && cfx__dims_settle(&r.dims);
    r.other = cfx__alloc0((CFX__WORLDS - 1) * sizeof *r.other);
    fine = fine && export_all(&r);
    for (int k = 1; fine && k < r.dims.worlds.n; k++)
        fine = cfx__levels_agree(e, &r.other[k - 1]);
    fine = fine && cfx__regions_make(e);
    if (fine) {
        e->guards = cfx_value_keep(cfx__dims_guards(&r.dims));
        e->probed = r.probe.noted ? cfx_value_keep(cfx_dict_value(r.probe.noted)) : cfx_none();
        cfx__branch_names(e->recorder.graph, NULL);
        name_outputs(e);
    }
    for (int k = 1; k < CFX__WORLDS; k++)
        forget(&r, k);
    cfx__free(r.other);
    VEC_FREE(r.joints.apart);
    cfx__relations_free(&r.compared);
    cfx_drop(r.probe.noted);
    cfx__dims_free(&r.dims);
    e->dims = NULL;
    return fine;
}
