/* Verifies merged text over whole ranges of sizes. The text is merged from a few points; here
 * the program runs on fake tensors at all other points (or at many, if there are too many), and
 * the shape of each node must follow from those points. Then the expressions of the text, which
 * are products and sums of such sizes, are valid there too. Start at cfx__c_find_stray. */
#include "compile.h"

/* ---- sizes of nodes -------------------------------------------------------------------------- */

typedef VEC(int64_t) numbers;

static void add_numbers(numbers *to, cfx_value v) {
    const cfx_list *several = cfx__c_several(v);
    if (v.tag == CFX_TAG_INT)
        VEC_PUSH(*to, cfx_integer(v));
    for (int i = 0; v.tag == CFX_TAG_TENSOR && i < cfx_as_tensor(v)->ndim; i++)
        VEC_PUSH(*to, cfx_as_tensor(v)->shape[i]);
    for (int64_t i = 0; several && i < several->len; i++)
        add_numbers(to, several->items[i]);
}

static cfx_value see(cfx_watcher *w, cfx_node *n, cfx_value v) {
    (void)n;
    add_numbers(w->user, v);
    return cfx_none();
}

/* What every node gives at the point of t, in order; false where the program does not run there.
 * Weights are fakes too, unless `whole`: some programs look at theirs. */
static bool find_sizes(cfx__c *c, const cfx_program *source, bool whole, cfx__c_take *t) {
    const cfx_program *p = c->program;
    numbers found = {0};
    cfx_watcher watcher = {.see = see, .user = &found};
    size_t mark = cfx_scope_open();
    cfx_value inputs = cfx__c_placeholders(c->program, cfx__c_inputs_at(c, source, t->at, true));
    cfx_value out = cfx_bad();
    if (!cfx_is_bad(inputs)) {
        const cfx_value fakes = whole ? inputs : cfx__tensor_faked_in(inputs);
        const cfx_list *in = cfx_as_list(fakes);
        const cfx_execution e = {.at = CFX_HERE,
                                 .module = p->module,
                                 .graph = p->module->graph,
                                 .inputs = {(int)in->len, in->items, NULL},
                                 .watcher = &watcher};
        out = cfx_executor_run(&cfx_interpreter, &e);
    }
    const bool fine = cfx_ok() && !cfx_is_bad(out);
    if (!cfx_ok())
        cfx__error_forgive();
    cfx_scope_close(mark);
    int64_t *kept = cfx__arena_alloc(&c->memory, (found.len + 1) * sizeof *kept);
    t->nsizes = fine ? (int)found.len : 0;
    t->sizes = found.len ? memcpy(kept, found.data, found.len * sizeof *kept) : kept;
    VEC_FREE(found);
    return fine;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Whether sizes at points `first` to n are what follows from those before. */
static bool hold(cfx__c *c, const cfx__c_take *takes, int first, int n) {
    const cfx__c_take *all[CFX__C_TAKES];
    for (int i = 0; i < n; i++)
        all[i] = &takes[i];
    return n <= first || cfx__c_follows(c, n, first, all);
}

bool cfx__c_proof_begin(cfx__c_proof *p, cfx__c *c, const cfx_program *source, int n,
                        const cfx__c_take *known) {
    enum { BASE = 16 };
    *p = (cfx__c_proof){.c = c, .source = source, .n = n < BASE ? n : BASE};
    for (int whole = 0; whole < 2; whole++) {
        int i = 0;
        p->whole = whole;
        for (; i < p->n; i++) {
            p->takes[i] = known[i * n / p->n];
            if (!find_sizes(c, source, p->whole, &p->takes[i]))
                break;
        }
        if (i == p->n)
            return true;
    }
    return false;
}

bool cfx__c_proof_holds(cfx__c_proof *p, const int64_t *at) {
    cfx__c_take *t = &p->takes[p->n];
    *t = (cfx__c_take){.nsizes = 0};
    memcpy(t->at, at, sizeof t->at);
    return find_sizes(p->c, p->source, p->whole, t) && hold(p->c, p->takes, p->n, p->n + 1);
}

bool cfx__c_find_stray(cfx__c_proof *p, int64_t *at) {
    enum { WORK = 400000, FEWEST = 300 }; /* nodes that are run on fakes */
    cfx__c_sweep s = cfx__c_sweep_of(p->c, p->c->o.every_size ? INT64_MAX : WORK, FEWEST);
    for (bool more = true; more;) {
        int n = p->n; /* some at a time */
        int64_t points[CFX__C_TAKES][CFX__C_SIZES] = {{0}};
        bool fine = true;
        while (n < CFX__C_TAKES && fine && (more = cfx__c_sweep_next(&s, points[n]))) {
            p->takes[n] = (cfx__c_take){.nsizes = 0};
            memcpy(p->takes[n].at, points[n], sizeof points[n]);
            fine = find_sizes(p->c, p->source, p->whole, &p->takes[n]);
            n++;
        }
        if (fine && hold(p->c, p->takes, p->n, n))
            continue;
        for (int i = p->n; i < n; i++)
            if (!cfx__c_proof_holds(p, points[i])) {
                memcpy(at, points[i], sizeof points[i]);
                return true;
            }
    }
    return false;
}
