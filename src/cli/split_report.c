/* cfx split --report: what is to be expected of stages and of ranks that share layers, on the
 * machine that is described: how much faster, what share of the time ranks talk, and what share
 * they wait. */
#include "split.h"

#include <math.h>

#include "../graph/graph.h"

enum { MOST_RANKS = 1024 };

/* A program on so many ranks. */
typedef struct outlook {
    bool possible;
    double seconds;          /* of all batches */
    double talking, waiting; /* shares of it */
    double memory;           /* bytes of the rank that has most */
} outlook;

/* ---- stages ---------------------------------------------------------------------------------- */

/* Bytes of a tensor as it is described; 0 where its sizes are not known. */
static double tensor_bytes(const cfx_node *n, const cfx_dict *sizes) {
    cfx_result r = cfx_node_result(n);
    double bytes = r.kind == CFX_RESULT_TENSOR ? (double)cfx__result_bytes(&r, sizes) : 0;
    if (!cfx_ok())
        cfx__error_forgive();
    return bytes;
}

/* Bytes that go back to rank 0. */
static double returned(const cfx_program *p, const cfx_dict *sizes) {
    double bytes = 0;
    for (int i = 0; i < p->noutputs; i++) {
        const cfx_output_spec *o = &p->outputs[i];
        const cfx_node *n = o->kind == CFX_OUT_USER && o->name
                                ? cfx_graph_find(p->module->graph, o->name) : NULL;
        bytes += n ? tensor_bytes(n, sizes) : 0;
    }
    return bytes;
}

/* Micro-batches follow each other through the stages: the slowest sets the pace, and the first has
 * to come through all of them. Who sends and who receives are both at it: a rank talks twice. */
static outlook of_stages(const cfx_stages *s, const cfx_machine *m, const cfx_dict *sizes,
                         int batches) {
    outlook out = {.possible = true};
    double slowest = 0, all = 0, moved = 0, through = 0;
    for (int i = 0; i < s->n; i++) {
        const cfx_stage *t = &s->stages[i], *before = i ? &s->stages[i - 1] : NULL;
        double back = returned(s->stages[s->n - 1].program, sizes);
        double bytes = (before ? (double)before->bytes : back) +
                       (i + 1 < s->n ? (double)t->bytes : back);
        double hand = s->n > 1 ? 2 * m->latency + bytes / m->link : 0;
        slowest = fmax(slowest, t->seconds + hand);
        through += t->seconds + hand;
        all += t->seconds;
        moved += hand;
        out.memory = fmax(out.memory, (double)(t->weights + t->alive));
    }
    out.seconds = through + (batches - 1) * slowest;
    out.talking = batches * moved / s->n / out.seconds;
    out.waiting = 1 - batches * (all + moved) / s->n / out.seconds;
    return out;
}

/* ---- ranks that share layers ----------------------------------------------------------------- */

/* Every rank takes the parts of all others: once to gather a result; twice to sum one, of which it
 * sums its own part between. Two ranks sum all of it at once. */
static double talk(const cfx_program *p, const cfx_machine *m, const cfx_dict *sizes, int ranks) {
    double seconds = 0, others = ranks - 1;
    cfx_each_node(p->module->graph, n) {
        bool sum = cfx_node_is(n, "_c10d_functional.all_reduce.default");
        if (!sum && !cfx_node_is(n, "_c10d_functional.all_gather_into_tensor.default"))
            continue;
        double bytes = tensor_bytes(n, sizes), part = bytes / ranks;
        if (ranks == 2 && sum)
            seconds += m->latency + bytes / m->link;
        else
            seconds += (sum ? 2 : 1) * others * (m->latency + part / m->link);
        seconds += sum ? (ranks == 2 ? 3 * bytes : bytes + 2 * part) / m->bandwidth : 0;
    }
    return seconds;
}

/* own: the rank as one stage, by estimates; scale: what a second of these takes when measured. */
static outlook of_ranks(const cfx_program *rank, const cfx_stages *own, const cfx_machine *m,
                        const cfx_dict *sizes, double scale, int ranks, int batches) {
    double spoken = talk(rank, m, sizes, ranks), each = scale * own->stages[0].seconds + spoken;
    return (outlook){.possible = true, .seconds = batches * each, .talking = spoken / each,
                     .memory = (double)(own->stages[0].weights + own->stages[0].alive)};
}

/* ---- the table ------------------------------------------------------------------------------- */

static void print_outlook(const char *kind, int ranks, const outlook *o, double one,
                          const cfx_machine *m) {
    bool fits = !(m->memory > 0) || o->memory <= m->memory;
    cli_print("%6d  %-7s %10.3f ms %7.2fx %8.1f%% %8.1f%% %10s%s\n", ranks, kind, 1e3 * o->seconds,
              one / o->seconds, 100 * o->talking, 100 * o->waiting, cli_bytes((int64_t)o->memory),
              fits ? "" : "  more than a rank has");
    cli_answer_row("report",
                   cfx_dict_of("ranks", ranks, "kind", kind, "ms", cli_fact(1e3 * o->seconds),
                               "speedup", cli_fact(one / o->seconds), "communication",
                               cli_fact(o->talking), "bubble", cli_fact(o->waiting), "memory",
                               cli_fact(o->memory), "fits", cfx_bool(fits)));
}

static void print_row(cli_split_job *j, cfx_stage_options o, int ranks, double one) {
    cfx_machine m = cfx_machine_usual(o.machine);
    size_t mark = cfx_scope_open();
    o.n = ranks;
    cfx_stages *s = cfx_program_stages(j->program, o);
    if (!cfx_failed(s)) {
        outlook out = of_stages(s, &m, o.sizes, j->batches);
        print_outlook("stages", ranks, &out, one, &m);
    }
    cfx_error_clear(); /* a program cannot be cut into that many */
    cfx_dict *report = cfx_dict_new();
    /* the last rank has the largest part where parts are not equal */
    cfx_program *rank = cfx_tensor_parallel(j->program, ranks - 1, ranks, report);
    if (!cfx_failed(rank) && cfx_as_list(cfx_dict_get(report, "cut"))->len) {
        o.n = 1;
        o.seconds = NULL; /* of the whole's nodes: a rank's take the share that is estimated */
        const double whole = cfx_program_stages(j->program, o)->stages[0].seconds;
        outlook out = of_ranks(rank, cfx_program_stages(rank, o), &m, o.sizes,
                               whole > 0 ? one / j->batches / whole : 1, ranks, j->batches);
        print_outlook("tensor", ranks, &out, one, &m);
    }
    cfx_error_clear();
    cfx_scope_close(mark);
}

int cli_split_report(cli_split_job *j, cfx_stage_options o) {
    cfx_machine m = cfx_machine_usual(o.machine);
    j->batches = j->batches ? j->batches : 8;
    o.n = 1;
    cfx_stages *whole = cfx_program_stages(j->program, o);
    if (cfx_failed(whole))
        return cli_trouble();
    double one = whole->stages[0].seconds * j->batches;
    cli_print("\n%d micro-batches; a rank: %.3g FLOP/s, memory %.3g B/s, link %.3g B/s, latency "
              "%.3g s\n", j->batches, m.flops, m.bandwidth, m.link, m.latency);
    cli_print(" ranks  split           time  faster  talking  waiting     memory\n");
    cli_print("%6d  %-7s %10.3f ms %7.2fx %8.1f%% %8.1f%% %10s\n", 1, "whole", 1e3 * one, 1.0, 0.0,
              0.0, cli_bytes(whole->stages[0].weights + whole->stages[0].alive));
    int asked = j->stages ? j->stages : j->tensor;
    if (asked > 1 && (asked < 8 || asked & (asked - 1)))
        print_row(j, o, asked, one);
    for (int n = 8; n <= MOST_RANKS; n *= 2)
        print_row(j, o, n, one);
    return cfx_ok() ? CLI_DONE : cli_trouble();
}
