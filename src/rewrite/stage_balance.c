/* Chooses the cuts between stages: minimises the time of the slowest stage and, among cuts that
 * are nearly as good, the bytes that cross. Start at cfx__cuts_choose. */
#include <math.h>

#include "stages.h"

enum { MOST_PLACES = 4096 };  /* more are thinned out: the time that this takes grows no further */
static const double slack = 1.05; /* how much slower a stage may be so that less crosses */

typedef struct balance {
    const cfx__cuts *cuts;
    cfx_machine machine;
    double memory;  /* bytes of a stage; infinite where there is no limit */
    int stages;
    int n;          /* candidates, the start and the end of the row among them */
    int *at;        /* their places */
} balance;

/* ---- candidates ------------------------------------------------------------------------------ */

static double seconds_at(const balance *b, int i) { return b->cuts->seconds[b->at[i]]; }
static double crossing_at(const balance *b, int i) { return b->cuts->crossing[b->at[i]]; }

/* All places where nothing is held together, of very many the best of each short stretch. */
static void find_candidates(balance *b) {
    const cfx__cuts *c = b->cuts;
    double all = c->seconds[c->len];
    int allowed = 0, bucket = -1;
    for (int p = 1; p < c->len; p++)
        allowed += !c->held[p];
    b->at = cfx__alloc((size_t)(allowed + 2) * sizeof *b->at);
    b->at[b->n++] = 0;
    for (int p = 1; p < c->len; p++) {
        if (c->held[p])
            continue;
        double share = all > 0 ? c->seconds[p] / all : (double)p / c->len;
        int own = allowed > MOST_PLACES ? (int)(share * MOST_PLACES) : p;
        if (own != bucket)
            b->at[b->n++] = p;
        else if (c->crossing[p] < c->crossing[b->at[b->n - 1]])
            b->at[b->n - 1] = p;
        bucket = own;
    }
    b->at[b->n++] = c->len;
}

/* Seconds of a stage between two candidates, and whether that and its tensors are within bounds. A
 * stage that begins earlier costs more, but for what it waits for. */
static double waits(const balance *b, int from) {
    return from ? b->machine.latency + crossing_at(b, from) / b->machine.link : 0;
}

static bool is_beyond(const balance *b, int from, int to, double most) {
    double tensors = b->cuts->tensors[b->at[to]] - b->cuts->tensors[b->at[from]];
    return seconds_at(b, to) - seconds_at(b, from) > most || tensors > b->memory;
}

static bool fits(const balance *b, int from, int to, double most) {
    return seconds_at(b, to) - seconds_at(b, from) + waits(b, from) <= most;
}

/* ---- the slowest stage ----------------------------------------------------------------------- */

/* The fewest stages of at most so many seconds; more than there are candidates where none do. */
static int fewest(const balance *b, double most, int *count) {
    count[0] = 0;
    for (int p = 1; p < b->n; p++) {
        count[p] = b->n;
        for (int q = p - 1; q >= 0 && !is_beyond(b, q, p, most); q--)
            if (count[q] < count[p] - 1 && fits(b, q, p, most))
                count[p] = count[q] + 1;
    }
    return count[b->n - 1];
}

/* The seconds of the slowest stage, the least there can be up to a thousandth; infinite where
 * memory allows no way. */
static double least_most(const balance *b) {
    int *count = cfx__alloc((size_t)b->n * sizeof *count);
    double low = 0, high = seconds_at(b, b->n - 1);
    for (int i = 1; i < b->n - 1; i++)
        high = fmax(high, seconds_at(b, b->n - 1) + waits(b, i));
    if (fewest(b, high, count) > b->stages)
        high = low = INFINITY;
    while (high - low > 1e-3 * high) {
        double middle = (low + high) / 2;
        *(fewest(b, middle, count) <= b->stages ? &high : &low) = middle;
    }
    cfx__free(count);
    return high;
}

/* ---- what crosses ---------------------------------------------------------------------------- */

/* The fewest bytes that cross in just so many stages of at most so many seconds; the places go to
 * `first`. Infinite where there is no way. */
static double least_crossing(const balance *b, double most, int *first) {
    size_t n = (size_t)b->n, stages = (size_t)b->stages;
    double *bytes = cfx__alloc(2 * n * sizeof *bytes), *now = bytes, *before = bytes + n;
    int *from = cfx__alloc(n * (stages + 1) * sizeof *from);
    for (size_t i = 0; i < n; i++)
        now[i] = i ? INFINITY : 0;
    for (size_t k = 1; k <= stages; k++) {
        double *swap = before;
        before = now;
        now = swap;
        now[0] = INFINITY;
        for (int p = 1; p < b->n; p++) {
            now[p] = INFINITY;
            double own = p < b->n - 1 ? crossing_at(b, p) : 0;
            for (int q = p - 1; q >= 0 && !is_beyond(b, q, p, most); q--)
                if (before[q] + own < now[p] && fits(b, q, p, most)) {
                    now[p] = before[q] + own;
                    from[k * n + (size_t)p] = q;
                }
        }
    }
    const double least = now[n - 1];
    int at = b->n - 1;
    for (size_t k = stages; least < INFINITY && k > 0; k--) {
        first[k] = b->at[at];
        at = from[k * n + (size_t)at];
    }
    first[0] = 0;
    cfx__free(bytes);
    cfx__free(from);
    return least;
}

/* Of all ways by which so few bytes cross the one whose slowest stage is fastest, up to a
 * thousandth. */
static void even_out(const balance *b, double high, double bytes, int *first) {
    double low = high / (slack * slack);
    while (high - low > 1e-3 * high) {
        double middle = (low + high) / 2;
        *(least_crossing(b, middle, first) <= bytes ? &high : &low) = middle;
    }
    least_crossing(b, high, first);
}

/* ---- the choice ------------------------------------------------------------------------------ */

static const char *input_name(const cfx_program *p, const cfx_node *n) {
    const cfx_input_spec *s = cfx_program_input(p, n);
    return s && s->target ? s->target : n->name;
}

/* " (cache is written in all of it)" where such a thing holds the program together; scope. */
static const char *reason(const cfx__cuts *c) {
    const cfx_program *p = c->program;
    for (int i = 0; i < p->noutputs; i++) {
        const cfx_output_spec *o = &p->outputs[i];
        if (o->target && (o->kind == CFX_OUT_BUFFER_MUTATION || o->kind == CFX_OUT_INPUT_MUTATION))
            return cfx__text_format(": a stage has all of what touches %s, which is written to",
                                    o->target);
    }
    cfx__alias a;
    const char *found = "";
    cfx__alias_open(&a, p->module->graph);
    cfx_each_node(p->module->graph, n)
        if (!*found && n->op == CFX_PLACEHOLDER && cfx__alias_written(&a, n))
            found = cfx__text_format(": a stage has all of what touches %s, which is written to",
                                     input_name(p, n));
    cfx__alias_close(&a);
    return found;
}

static bool refuse(const balance *b) {
    if (b->stages > b->cuts->len)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "%d stages are more than the program has calls: %d", b->stages, b->cuts->len);
    else if (b->stages > b->n - 1)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "the program can be cut into %d stages at most, not %d%s", b->n - 1, b->stages,
                 reason(b->cuts));
    else
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "no %d stages of the program are within %.0f bytes of tensors each; it has %.0f",
                 b->stages, b->memory, b->cuts->tensors[b->cuts->len]);
    return false;
}

bool cfx__cuts_choose(const cfx__cuts *c, const cfx_stage_options *o, int *first) {
    balance b = {.cuts = c, .stages = o->n, .machine = cfx_machine_usual(o->machine),
                 .memory = o->memory > 0 ? (double)o->memory : INFINITY};
    find_candidates(&b);
    double least = b.stages < b.n ? fmax(least_most(&b), 1e-9 / slack) : INFINITY;
    double bytes = INFINITY, end = 2 * (least + seconds_at(&b, b.n - 1) + 1), most = least;
    /* just so many stages, not fewer: where that takes longer, it may */
    while (bytes == INFINITY && (most *= slack) < end)
        bytes = least_crossing(&b, most, first);
    if (bytes < INFINITY)
        even_out(&b, most, bytes, first);
    else
        refuse(&b);
    cfx__free(b.at);
    return bytes < INFINITY;
}
