/* The pass manager: runs a pipeline, records the origin of new nodes, and restores the program
 * if a pass fails. Start at cfx_passes_run. */
#include "../base/given.h"
#include "../value/dict.h"
#include "pass.h"


/* ---- where nodes come from ------------------------------------------------------------------- */

/* What was noted earlier is frozen, so that nodes share it. A rule that matches what it made before
 * adds a level each time: the oldest levels, of two dicts each, are left out. */
enum { MOST_LEVELS = 16 };

void cfx__source_add(cfx_dict *from, const char *name, cfx_value earlier) {
    cfx_value all = cfx_dict_get(from, "from");
    if (earlier.tag != CFX_TAG_DICT)
        return;
    earlier = cfx__value_scope_own(cfx__graph_freeze(earlier));
    if (cfx__value_levels(earlier) >= 2 * MOST_LEVELS)
        return;
    if (cfx_is_none(all)) {
        all = cfx_dict_value(cfx_dict_new());
        cfx_dict_set(from, "from", all);
    }
    cfx_dict_set(cfx_as_dict(all), name, earlier);
}

/* What cfx__source_add kept; None where nothing was. */
static cfx_value source_of(cfx_value from, const char *name) {
    cfx_value all = from.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(from), "from") : from;
    return all.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(all), name) : cfx_none();
}

/* What is noted while a pass runs on one graph. */
typedef struct origin {
    cfx_graph_hooks hooks;
    cfx_graph *graph;
    size_t first; /* ids from here on are new */
    const char *pass;
} origin;

static bool is_new(const origin *o, const cfx_node *n) {
    return n->graph == o->graph && cfx__node_of(n)->id >= o->first;
}

static cfx_list *sources(const cfx_node *n) {
    cfx_value from = cfx_node_get_meta(n, "from_node");
    cfx_value nodes =
        from.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(from), "nodes") : cfx_none();
    return nodes.tag == CFX_TAG_LIST ? cfx_as_list(nodes) : NULL;
}

/* n is there for the node called so, which came from what `earlier` says; None: it was there. */
static void add_source(cfx_node *n, const char *name, cfx_value earlier) {
    cfx_list *list = sources(n);
    for (int64_t i = 0; list && i < list->len; i++)
        if (!strcmp(cfx_text(list->items[i]), name))
            return;
    if (!list)
        return;
    cfx_list_append(list, cfx_string_value(name));
    cfx__source_add(cfx_as_dict(cfx_node_get_meta(n, "from_node")), name, earlier);
}

static void note_created(cfx_graph_hooks *self, cfx_node *n) {
    origin *o = self->user;
    size_t mark = cfx_scope_open();
    cfx_dict *from = cfx_dict_new();
    cfx_dict_set(from, "pass", cfx_string_value(o->pass));
    cfx_dict_set(from, "nodes", cfx_list_value(0, NULL));
    cfx_node_set_meta(n, "from_node", cfx_dict_value(from));
    cfx_scope_close(mark);
}

static void note_replaced(cfx_graph_hooks *self, cfx_node *old, cfx_node *with, cfx_node *user) {
    origin *o = self->user;
    (void)user;
    if (!is_new(o, with))
        return;
    size_t mark = cfx_scope_open();
    if (!is_new(o, old))
        add_source(with, old->name, cfx_node_get_meta(old, "from_node"));
    cfx__node_add_origin(with, old);
    cfx_scope_close(mark);
}

/* A new node that took no node's place is there for what uses it. */
static void spread(const origin *o) {
    if (o->graph->made.len == o->first)
        return;
    for (cfx_node *n = cfx_graph_last(o->graph); n; n = cfx_node_before(n)) {
        if (!is_new(o, n) || !sources(n) || sources(n)->len)
            continue;
        size_t mark = cfx_scope_open();
        cfx_each_user(n, u) {
            const cfx_list *list = is_new(o, u->user) ? sources(u->user) : NULL;
            cfx_value from = cfx_node_get_meta(u->user, "from_node");
            for (int64_t i = 0; list && i < list->len; i++)
                add_source(n, cfx_text(list->items[i]),
                           source_of(from, cfx_text(list->items[i])));
            if (!is_new(o, u->user) && u->user->op != CFX_OUTPUT)
                add_source(n, u->user->name, from);
        }
        cfx_scope_close(mark);
    }
}

/* ---- one application ------------------------------------------------------------------------- */

typedef struct application {
    cfx_program *program;
    const cfx_pass *pass;
    VEC(origin *) origins;
    int64_t nodes;
    uint64_t stamp; /* of the program before it */
} application;

static void open_graph(const char *path, cfx_module *m, void *user) {
    application *a = user;
    (void)path;
    if (!m->graph)
        return;
    origin *o = cfx__alloc0(sizeof *o);
    *o = (origin){.graph = cfx_keep(m->graph), .first = m->graph->made.len, .pass = a->pass->name};
    o->hooks = (cfx_graph_hooks){.created = note_created, .replaced = note_replaced, .user = o};
    cfx_graph_add_hooks(m->graph, &o->hooks);
    VEC_PUSH(a->origins, o);
    a->nodes += cfx_graph_len(m->graph);
}

static void add_stamp(const char *path, cfx_module *m, void *user) {
    (void)path;
    *(uint64_t *)user += 1 + (m->graph ? m->graph->version + m->graph->noted : 0);
}

/* A number that moves with every change of a graph, of what is noted there and of the tensors. */
static uint64_t stamp_of(const cfx_program *p) {
    uint64_t stamp = p->state->changes_ + p->constants->changes_;
    cfx_module_walk(p->module, add_stamp, &stamp);
    return stamp;
}

static void close_graphs(application *a) {
    for (size_t i = 0; i < a->origins.len; i++) {
        origin *o = a->origins.data[i];
        cfx_graph_remove_hooks(o->graph, &o->hooks);
        spread(o);
        cfx_drop(o->graph);
        cfx__free(o);
    }
    VEC_FREE(a->origins);
}

static void count_nodes(const char *path, cfx_module *m, void *user) {
    (void)path;
    *(int64_t *)user += m->graph ? cfx_graph_len(m->graph) : 0;
}

/* Options as the pass takes them where they are not given; NULL, with an error, where one is given
 * that it does not know. */
static cfx_dict *all_options(const cfx_pass *pass, const cfx_dict *given) {
    cfx_dict *all = cfx_dict_new();
    bool any = pass->options && !strcmp(pass->options, "*");
    const char *at = pass->options && !any ? pass->options : "";
    for (size_t n; *at; at += n + (at[n] == ' ')) {
        n = strcspn(at, " ");
        size_t name = strcspn(at, "=");
        cfx_dict_put(all, cfx_string_value_n(at, name),
                     cfx_string_value_n(at + name + 1, n - name - 1));
    }
    for (int64_t i = 0; given && i < given->len; i++) {
        if (!any && !cfx_dict_find(all, given->entries[i].key)) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "it has no option '%s'%s%s",
                     cfx_value_str(given->entries[i].key),
                     pass->options ? "; its options are " : "",
                     pass->options ? pass->options : "");
            return NULL;
        }
        cfx_dict_put(all, given->entries[i].key, given->entries[i].value);
    }
    return all;
}

/* What is looked at after each application. */
typedef enum checking { UNCHECKED, GRAPHS, GRAPHS_AND_RESULTS } checking;

/* Whether a pass is another than the library's own, which are tested to keep programs whole. */
static bool any_foreign(const cfx_pass_step *steps, int n) {
    for (int i = 0; i < n; i++)
        if (cfx_pass_find(steps[i].pass->name) != steps[i].pass)
            return true;
    return false;
}

/* Results are compared where those that the program came with are right: PyTorch notes a wrong
 * shape for the states of an lstm. */
static checking how_to_check(bool asked, const cfx_program *p) {
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__)
    asked = true;
#endif
    if (!asked || !cfx_ok())
        return UNCHECKED;
    if (cfx__program_check_results(p))
        return GRAPHS_AND_RESULTS;
    cfx__error_forgive();
    return GRAPHS;
}

/* Says in the error which pass it was, and that nothing changed where that is so. */
static void note_failure(const cfx_pass_manager *m, const char *when, const cfx_pass *pass) {
    cfx_error_note("%s pass %s%s", when, pass->name,
                   m->consume ? "" : "; the program is as it was before");
}

/* Runs the pass once; its changes, or -1. */
static int apply(const cfx_pass_manager *m, const cfx_pass_step *step, cfx_program *p,
                 checking check, cfx_pass_report *r) {
    const cfx_pass *pass = step->pass;
    application a = {.program = p, .pass = pass};
    size_t mark = cfx_scope_open();
    cfx_module_walk(p->module, open_graph, &a);
    a.stamp = stamp_of(p);
    cfx__alias_note_outside(p->module);
    const int64_t start = cfx__clock_ns();
    cfx_dict *options = all_options(pass, step->options);
    int changes = options ? pass->run(p, options) : -1;
    bool fine = cfx_ok() && changes >= 0;
    const bool moved = changes || stamp_of(p) != a.stamp;
    if (fine && moved)
        fine = cfx_program_sync(p) && cfx_program_infer(p);
    const int64_t end = cfx__clock_ns();
    close_graphs(&a);
    if (fine && check != UNCHECKED && moved)
        fine = check == GRAPHS ? cfx__program_check_graphs(p) : cfx__program_check_results(p);
    if (!fine) {
        if (cfx_ok())
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "the pass gave up");
        note_failure(m, "in", pass);
    }
    *r = (cfx_pass_report){.pass = pass,
                           .changes = changes,
                           .nodes_before = a.nodes,
                           .seconds = (double)(end - start) * 1e-9};
    cfx_module_walk(p->module, count_nodes, &r->nodes_after);
    cfx_scope_close(mark);
    return fine ? changes : -1;
}

/* ---- the pipeline ---------------------------------------------------------------------------- */

/* Whether a blank-separated list has the word. */
static bool has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = list; at && (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

/* Whether every pass comes after those that it wants before it. */
static bool in_order(const cfx_pass_step *steps, int n) {
    for (int i = 0; i < n; i++) {
        if (!steps[i].pass || !steps[i].pass->run) {
            cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "step %d of the pipeline has no pass", i);
            return false;
        }
        bool before = false;
        for (int k = 0; k < i; k++)
            before |= steps[k].pass == steps[i].pass;
        for (int k = i + 1; k < n && !before; k++)
            if (steps[i].pass->after && has_word(steps[i].pass->after, steps[k].pass->name)) {
                cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                         "pass %s has to come after %s, which the pipeline has later",
                         steps[i].pass->name, steps[k].pass->name);
                return false;
            }
    }
    return true;
}

enum { REPEATS = 100 }; /* of a pass that runs until nothing changes */

static bool is_done(const cfx_pass_manager *m, const cfx_pass_result *r) {
    return m->stop && r->applications >= m->stop;
}

/* Runs one line of the pipeline, again and again where the pass wants it. */
static bool run_step(const cfx_pass_manager *m, const cfx_pass_step *step, checking check,
                     cfx_pass_result *r) {
    for (int k = 0; k < (step->pass->repeat ? REPEATS : 1) && !is_done(m, r); k++) {
        cfx_pass_report report;
        int changes = apply(m, step, r->program, check, &report);
        report.application = ++r->applications;
        if (changes < 0)
            return false;
        r->changes += changes;
        if (m->accept && !m->accept(r->program, &report, m->user)) {
            if (cfx_ok())
                cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "the program was not accepted");
            note_failure(m, "after", step->pass);
            return false;
        }
        if (m->report)
            m->report(&report, m->user);
        if (!changes)
            return true;
    }
    return true;
}

cfx_pass_result cfx_passes_run(const cfx_pass_manager *m, cfx_program *p) {
    cfx_pass_result r = {.program = &cfx__program_bad};
    if (!cfx__given((cfx_site){0}, m, "pass manager"))
        return r;
    int n = m->nsteps;
    const cfx_pass_step *steps = n ? m->steps : cfx_pass_default(&n);
    if (!cfx__program_whole((cfx_site){0}, p) || !cfx__program_binds(p) || !in_order(steps, n))
        return r;
    size_t mark = cfx_scope_open();
    cfx_program *copy = m->consume ? NULL : cfx_program_copy(p);
    r.program = m->in_place || m->consume ? p : copy;
    bool fine = !cfx_failed(r.program) && cfx_ok() && cfx_program_settle(r.program);
    checking check = fine ? how_to_check(m->check || any_foreign(steps, n), r.program) : UNCHECKED;
    for (int k = 0; fine && k < (m->rounds ? m->rounds : 1); k++) {
        int before = r.changes;
        for (int i = 0; fine && i < n; i++)
            fine = run_step(m, &steps[i], check, &r);
        if (r.changes == before)
            break;
    }
    r.modified = r.changes > 0;
    if (!fine) {
        if (m->in_place && copy && !cfx_failed(copy))
            cfx__program_swap(p, copy);
        r = (cfx_pass_result){.program = &cfx__program_bad};
    }
    cfx_program *out = r.program == copy ? cfx_scope_return(mark, copy)
                                         : (cfx_scope_close(mark), r.program);
    r.program = out;
    return r;
}

int cfx_pass_apply(const cfx_pass *pass, cfx_program *p, cfx_dict *options) {
    cfx_pass_step step = {pass, options};
    cfx_pass_manager m = {.steps = &step, .nsteps = 1, .in_place = true};
    cfx_pass_result r = cfx_passes_run(&m, p);
    return cfx_failed(r.program) ? -1 : r.changes;
}

cfx_program *cfx_optimize(cfx_program *p) {
    cfx_pass_manager m = {0};
    return cfx_passes_run(&m, p).program;
}
