/* Executors: what they prepare of a graph is kept with it, and a run goes to the one chosen. Start
 * at cfx_executor_run. */
#include "../base/given.h"
#include "../value/later.h"
#include "run.h"

#include <time.h>

/* ---- prepared forms -------------------------------------------------------------------------- */

/* Forms of one executor, for inputs of different shapes: so many, and more as long as they are
 * small together. Weights and memory are shared between them, so it is nodes that take it. */
enum { KEPT = 4, KEPT_MOST = 64, KEPT_BYTES = 16 << 20, NODE_BYTES = 2048 };

static void prepared_free(void *obj) {
    cfx__prepared *p = obj;
    if (p->form)
        p->by->free(p->form);
    cfx_drop(p->next);
}

static const cfx__obj_type prepared_type = {.name = "prepared graph", .free = prepared_free};

static void free_nothing(void *form) { (void)form; }

/* Stands in the list while a thread prepares the graph; its form is that thread's context. */
static const cfx_executor preparing = {.name = "preparing", .free = free_nothing};

/* Puts the form at `at` first. Called locked. */
static void move_first(cfx_graph *g, cfx__prepared **at) {
    cfx__prepared *p = *at;
    *at = p->next;
    p->next = g->prepared;
    g->prepared = p;
}

/* The form that fits, which comes first then: the last is the one that was not used for longest. */
static cfx__prepared *find(const cfx_executor *x, const cfx_execution *e) {
    cfx_graph *g = e->graph;
    cfx__lock(&g->prepared_lock);
    cfx__prepared **at = (cfx__prepared **)&g->prepared, *p;
    while ((p = *at) && (p->by != x || p->version != g->version ||
                         (p->form && x->fits && !x->fits(p->form, e))))
        at = &p->next;
    if (p && p != g->prepared)
        move_first(g, at);
    cfx_keep(p);
    cfx__unlock(&g->prepared_lock);
    return p;
}

/* Puts p first. What was made of other versions goes, and the last of too many. */
static void add(cfx_graph *g, cfx__prepared *p) {
    cfx__prepared *old = NULL;
    const int64_t each = (int64_t)cfx_graph_len(g) * NODE_BYTES;
    int64_t most = KEPT_BYTES / (each ? each : 1), kept = 1;
    most = most < KEPT ? KEPT : most > KEPT_MOST ? KEPT_MOST : most;
    cfx__lock(&g->prepared_lock);
    for (cfx__prepared **at = (cfx__prepared **)&g->prepared, *q; (q = *at);) {
        kept += q->by == p->by;
        if ((q->version == g->version || q->by == &preparing) &&
            (q->by != p->by || kept <= most)) {
            at = &q->next;
            continue;
        }
        *at = q->next;
        q->next = old;
        old = q;
    }
    p->next = g->prepared;
    g->prepared = cfx_keep(p);
    cfx__unlock(&g->prepared_lock);
    cfx_drop(old);
}

/* That only data tells what is asked for is a property of the graph, and kept; other errors are of
 * these inputs, or of memory. The interpreter's errors are all the caller's. */
static cfx__prepared *prepare(const cfx_executor *x, const cfx_execution *e) {
    void *form = x->prepare(e);
    if (!form && x != &cfx_interpreter && cfx__error_unknown())
        cfx_error_clear();
    if (!form && !cfx_ok())
        return NULL;
    cfx__prepared *p = cfx__obj_make(&prepared_type, sizeof *p);
    p->by = x;
    p->version = e->graph->version;
    p->form = form;
    add(e->graph, p);
    return p;
}

/* ---- one thread at a time -------------------------------------------------------------------- */

/* Puts `mark` in the list unless there is such a mark already; whose is in the list then. */
static const void *put_mark(cfx_graph *g, cfx__prepared *mark) {
    cfx__lock(&g->prepared_lock);
    cfx__prepared *q = g->prepared;
    while (q && q->by != &preparing)
        q = q->next;
    if (!q) {
        mark->version = g->version;
        mark->next = g->prepared;
        g->prepared = cfx_keep(mark);
        q = mark;
    }
    const void *whose = q->form;
    cfx__unlock(&g->prepared_lock);
    return whose;
}

static void take_mark(cfx_graph *g, cfx__prepared *mark) {
    cfx__lock(&g->prepared_lock);
    cfx__prepared **at = (cfx__prepared **)&g->prepared;
    while (*at && *at != mark)
        at = &(*at)->next;
    const bool found = *at != NULL; /* another's is there where this thread was at it already */
    if (found) {
        *at = mark->next;
        mark->next = NULL;
    }
    cfx__unlock(&g->prepared_lock);
    if (found)
        cfx_drop(mark);
}

/* Threads that start at once share what one of them prepares: the others wait for it. One that is
 * at it already, since it runs the graph to find constants, does not wait for itself. */
cfx__prepared *cfx__prepared_for(const cfx_executor *x, const cfx_execution *e) {
    cfx__prepared *p = find(x, e);
    if (p)
        return p;
    cfx__prepared *mark = cfx__obj_make(&prepared_type, sizeof *mark);
    mark->by = &preparing;
    mark->form = &cfx__ctx_tls;
    while (!p && put_mark(e->graph, mark) != mark->form) {
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        p = find(x, e);
    }
    p = p ? p : find(x, e);
    p = p ? p : prepare(x, e);
    take_mark(e->graph, mark);
    cfx_drop(mark);
    return p;
}

/* ---- running --------------------------------------------------------------------------------- */

const cfx_executor *cfx_set_executor(const cfx_executor *x) {
    cfx__run_state *s = cfx__run_state_now();
    const cfx_executor *before = s->executor;
    s->executor = x;
    return before;
}

/* Whether somebody looks at single calls: then nodes have to be run one by one. */
static bool is_watched(const cfx_execution *e) {
    const cfx__dispatch *d = cfx__dispatcher();
    bool watched = d->function_modes || d->dispatch_modes || d->trace || d->recorder || d->fake ||
                   d->autocast || d->grad == CFX_GRAD_ON || (e->inputs.kw && e->inputs.kw->len);
    for (int i = 0; i < e->inputs.n && !watched; i++)
        watched = e->inputs.v[i].tag == CFX_TAG_TENSOR &&
                  cfx_as_tensor(e->inputs.v[i])->head.flags & (CFX__FAKE | CFX__TRACED);
    return watched;
}

/* What runs a graph that is given tensors on a card; NULL where none is there. */
static const cfx_executor *executor_of_card(const cfx_execution *e) {
    for (int i = 0; i < e->inputs.n; i++)
        if (e->inputs.v[i].tag == CFX_TAG_TENSOR &&
            cfx_as_tensor(e->inputs.v[i])->head.flags & CFX__ON_CARD &&
            !(cfx_as_tensor(e->inputs.v[i])->head.flags & CFX__FAKE))
            return cfx__later_rooms.card_executor(cfx_as_tensor(e->inputs.v[i])->device.index);
    return NULL;
}

static cfx_value run_by(const cfx_executor *x, const cfx_execution *e, bool *done) {
    cfx__prepared *p = cfx__prepared_for(x, e);
    *done = p && p->form;
    cfx_value v = *done ? x->run(p->form, e) : cfx_bad();
    cfx_drop(p);
    return v;
}

cfx_value cfx_executor_run(const cfx_executor *x, const cfx_execution *e) {
    if (!cfx_ok()) /* an error that is cleared below is one of preparing */
        return cfx_bad();
    if (!cfx__given((cfx_site){0}, e, "execution"))
        return cfx_bad();
    if (!e->module || !(e->graph || e->module->graph)) {
        cfx_fail(CFX_TYPE_ERROR, e->at, "an executor needs a GraphModule to run");
        return cfx_bad();
    }
    cfx_execution own = *e;
    bool done = false;
    own.graph = e->graph ? e->graph : e->module->graph;
    if (!x)
        x = cfx__run_state_now()->executor;
    if (!x)
        x = executor_of_card(&own);
    x = x ? x : cfx__later_rooms.executor;
    cfx_value v = cfx_bad();
    if (x != &cfx_interpreter && !is_watched(&own)) {
        v = run_by(x, &own, &done);
        if (!done)
            cfx_error_clear(); /* the interpreter needs less memory, and will say what is wrong */
    }
    return done ? v : run_by(&cfx_interpreter, &own, &done);
}

/* The placeholders that a caller has to give a value. */
static int required(const cfx_graph *g) {
    int n = 0;
    for (const cfx__target_row *row = g->rows[CFX_PLACEHOLDER]; row; row = row->next)
        for (const cfx__node *p = row->first; p; p = p->row_next)
            n += row->target.name[0] != '*' && !cfx_as_list(p->pub.args)->len;
    return n;
}

/* Whether the arguments fit forward() as the code of the graph has it; Python's words where some
 * are missing. (A trace names what stands for *args itself.) */
static bool binds(cfx_site at, const cfx_graph *g, cfx_args a) {
    if (a.n >= required(g) || g->tree || g->codegen || cfx_is_tracing())
        return true;
    cfx__signature *s = cfx__graph_signature(g);
    cfx_value *values = cfx__alloc((size_t)s->n * sizeof *values);
    bool fine = cfx__signature_bind(s, at, "forward", true, a, values);
    cfx__free(values);
    cfx__signature_free(s);
    return fine;
}

cfx_value cfx__run_module(cfx_site at, cfx_module *gm, cfx_args a, cfx_watcher *w) {
    size_t mark = cfx_scope_open();
    cfx_value v = cfx_bad();
    if (cfx__run_inputs(at, gm->graph, &a, cfx_as_list(cfx_list_value(0, NULL))) &&
        binds(at, gm->graph, a)) {
        cfx_execution e = {.at = at, .module = gm, .inputs = a, .watcher = w};
        v = cfx_executor_run(NULL, &e);
    }
    return cfx_scope_return_value(mark, cfx__run_result(gm->graph, v));
}
