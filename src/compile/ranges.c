/* Ranges of dynamic sizes: the program is written at points of them, and points whose text
 * differs are excluded from the ranges or refused. Start at cfx__c_write_sizes. */
#include "compile.h"

/* ---- what is written at a point -------------------------------------------------------------- */

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
                     .weights = cfx__c_weights_number(one)};
    int64_t *rooms = cfx__arena_alloc(&c->memory, (one->rooms.len + 1) * sizeof *rooms);
    for (size_t i = 0; i < one->rooms.len; i++)
        rooms[i] = one->rooms.data[i].bytes;
    t.nrooms = (int)one->rooms.len;
    t.rooms = rooms;
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
    for (int i = 0; i < c->nvary; i++) /* names that ports have not */
        cfx__c_port_name(&one.c, c->sizes[i].name);
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
    cfx__c_take takes[CFX__C_TAKES]; /* the largest sizes first */
    cfx__c_take like;                /* at the point that ranges are to keep */
    cfx__c_proof *proof;             /* NULL: by texts */
    bool merging;                    /* by texts and the numbers in them */
    const char *why;                 /* the last one is none of them */
} taking;

static bool is_taken(const taking *t, const int64_t *at) {
    for (int k = 0; k < t->n; k++)
        if (!memcmp(t->takes[k].at, at, sizeof t->takes[k].at))
            return true;
    return false;
}

/* ---- ranges in which the text is the same ---------------------------------------------------- */

/* The point that ranges are to keep: the sample where there is one, else the largest. Sizes of 1,
 * whose text differs, are none to go by. */
static void find_kept(const cfx__c *c, int64_t *at) {
    cfx__c_point(c, 0, at);
    for (int i = 0; i < c->nvary; i++) {
        const cfx__c_size *s = &c->sizes[i];
        if (s->sampled || c->o.test)
            at[i] = s->sample < 2 && s->high >= 2 ? 2 : s->sample;
    }
}

/* Whether what is written at a point is the text of the one that is kept but for numbers. */
static bool is_like(cfx__c *c, taking *t, const int64_t *at, cfx__c_take *now) {
    return take_at(t->job, c, at, now, &t->why) && is_alike(&t->like, now, &t->why);
}

/* The text that serves what was taken, and more points behind it; NULL: there is none. */
static const char *text_of(cfx__c *c, taking *t, int more) {
    const cfx__c_take *all[CFX__C_TAKES];
    for (int i = 0; i < t->n + more; i++)
        all[i] = &t->takes[i];
    c->problems.len = 0;
    const char *text = cfx__c_merged(c, t->n + more, all);
    if (!text && c->problems.len)
        t->why = c->problems.data[0];
    c->problems.len = 0;
    return text;
}

/* Whether a point belongs to the ranges: the text is the same, or, once that is known of some, the
 * sizes of nodes are what follows from them, and one text serves them all. */
static bool belongs(cfx__c *c, taking *t, const int64_t *at) {
    cfx__c_take *now = &t->takes[t->n];
    if (t->proof)
        return cfx__c_proof_holds(t->proof, at);
    return is_like(c, t, at, now) &&
           (!t->merging || (has_room(&t->takes[0], now) && text_of(c, t, 1)));
}

/* Leaves a point out that does not belong: its sizes become those of the point that is kept, one
 * by one, until it does; the range of the last of them begins behind it, or ends before it. */
static bool leave_out(cfx__c *c, taking *t, const int64_t *point) {
    int64_t at[CFX__C_SIZES];
    int i = 0;
    memcpy(at, point, sizeof at);
    for (; i < c->nvary; i++) {
        at[i] = t->like.at[i];
        if (belongs(c, t, at))
            break;
    }
    if (i == c->nvary)
        return false;
    cfx__c_size *s = &c->sizes[i];
    int64_t other = point[i], same = at[i];
    while (same - other > 1 || other - same > 1) {
        at[i] = other + (same - other) / 2;
        if (belongs(c, t, at))
            same = at[i];
        else
            other = at[i];
    }
    if (same > other)
        s->low = same, s->raised = true;
    else
        s->high = same, s->lowered = true;
    return true;
}

/* Looks at all other points of the ranges, or very many. Where one does not belong ranges become
 * narrower, and `again` is set; false: there are none for the program. */
static bool prove(cfx__c *c, taking *t, bool *again) {
    cfx__c_proof *p = cfx__alloc(sizeof *p);
    int64_t at[CFX__C_SIZES] = {0};
    bool fine = true;
    *again = cfx__c_proof_begin(p, c, t->job->source, t->n, t->takes) && cfx__c_find_stray(p, at);
    if (*again) {
        t->proof = p;
        t->why = "the program: has sizes of another form at other sizes";
        fine = leave_out(c, t, at);
        t->proof = NULL;
    }
    cfx__free(p);
    return fine;
}

/* What further points say of the text of those that were taken. */
typedef enum { SAME, LEARNT, APART } verdict;

/* Looks at one of them: where another text serves it and all others, it is taken, too. */
static verdict look_at(cfx__c *c, taking *t, const char *text, const int64_t *at) {
    enum { FEW = 6 }; /* small sizes are tried with */
    const char *now = NULL;
    t->merging = true;
    if (belongs(c, t, at))
        now = text_of(c, t, 1);
    t->merging = false;
    if (!now || t->n + FEW >= CFX__C_TAKES)
        return now && !strcmp(now, text) ? SAME : APART;
    if (!strcmp(now, text))
        return SAME;
    t->n++;
    return LEARNT;
}

/* Writes the program at further points of the ranges, some at a time: all of them, or as many as
 * may be. What they need is the text of those that were taken. Where it is another that serves all,
 * that is taken; where there is none ranges become narrower, and `again` is set. False: there are
 * none for the program. */
static bool compare(cfx__c *c, taking *t, bool *again) {
    enum { WORK = 20000, FEWEST = 96 }; /* nodes that are written */
    const char *text = text_of(c, t, 0);
    cfx__c_sweep s = cfx__c_sweep_of(c, c->o.every_size ? INT64_MAX : WORK, FEWEST);
    c->points = s.all;
    c->compared = t->n;
    for (bool more = text != NULL; more;) {
        const size_t mark = cfx_scope_open();
        int64_t points[CFX__C_TAKES][CFX__C_SIZES] = {{0}};
        bool fine = true;
        int n = t->n;
        while (n < CFX__C_TAKES && fine && (more = cfx__c_sweep_next(&s, points[n]))) {
            if (is_taken(t, points[n]))
                continue;
            fine = is_like(c, t, points[n], &t->takes[n]) && has_room(&t->takes[0], &t->takes[n]);
            n++;
        }
        const char *now = fine ? text_of(c, t, n - t->n) : NULL;
        if (now && !strcmp(now, text)) {
            c->compared += n - t->n;
            cfx_scope_close(mark);
            continue;
        }
        for (int i = t->n, before = t->n; i < n && t->n == before; i++) {
            const verdict is = look_at(c, t, text, points[i]);
            if (is == LEARNT)
                return compare(c, t, again);
            if (is == APART) {
                *again = t->merging = true;
                const bool out = leave_out(c, t, points[i]);
                t->merging = false;
                return out;
            }
        }
    }
    return true;
}

/* Writes the program at points of the ranges, the largest first, all of which count: where the text
 * is another, ranges become narrower and it begins anew. False: there are none for the program. */
static bool take_points(cfx__c *c, taking *t) {
    enum { FITTED = 48, CUTS = 24 }; /* room for small sizes is left */
    int64_t at[CFX__C_SIZES] = {0};
    int cuts = 0;
    for (int i = 0;; i++) {
        bool again = false;
        if (i == CFX__C_TAKES || t->n == FITTED) { /* which are enough */
            if (t->n < 2 || !prove(c, t, &again) || (!again && !compare(c, t, &again)))
                return false;
            if (!again)
                break;
        } else {
            cfx__c_point(c, i, at);
            if (is_taken(t, at))
                continue;
            again = !is_like(c, t, at, &t->takes[t->n]);
            t->n += !again;
            if (again && !leave_out(c, t, at))
                return false;
        }
        if (again && cuts++ == CUTS)
            return false;
        t->n = again ? 0 : t->n;
        i = again ? -1 : i;
    }
    for (int i = 1; i < t->n; i++)
        if (!has_room(&t->takes[0], &t->takes[i])) {
            t->why = "the program: needs more memory at smaller sizes than at the largest";
            return false;
        }
    return true;
}

/* ---- small sizes ----------------------------------------------------------------------------- */

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
    return cfx__c_follows(c, t->n + 1, t->n, all);
}

static bool has_one(const cfx__c *c, const int64_t *at) {
    for (int i = 0; i < c->nvary; i++)
        if (at[i] == 1)
            return true;
    return false;
}

/* Whether the text that serves the others serves a point too: there numbers are what its
 * expressions say. Dims of 1 element have strides that no other has, and loops that are left out;
 * where every node has the sizes that follow from those at other points, the text does as well. */
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
        return has_one(c, at);
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
        s->raised |= !fine;
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

bool cfx__c_write_sizes(cfx__c_job *w) {
    cfx__c *c = &w->c;
    taking t = {.job = w, .why = "the program: has no form for all of its sizes"};
    int64_t at[CFX__C_SIZES] = {0};
    find_kept(c, at);
    if (!take_at(w, c, at, &t.like, &t.why)) /* which is told in full */
        return cfx__c_write(w, cfx__c_inputs_at(c, w->source, at, true));
    if (!take_points(c, &t))
        VEC_PUSH(c->problems, t.why);
    else if (!cfx__c_write(w, cfx__c_inputs_at(c, w->source, t.takes[0].at, true)))
        return false;
    else if (merges(c, &t) && !begin_ranges(c, &t) && !c->problems.len)
        VEC_PUSH(c->problems, t.why);
    if (c->problems.len)
        cfx__c_fail(c);
    return cfx_ok();
}
