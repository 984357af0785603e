/* cfx run --profile on ranks: what each did with its time, the link between two of them, and a
 * trace with a row for each rank. Start at cli_ranks_profile, which every rank calls. */
#include "run_ranks.h"

#include <cfx/ops.h>

#include <string.h>

#include "../group/group.h"
#include "../value/json.h"

enum { USUAL_RUNS = 5, ROUNDS = 200, LARGE_ROUNDS = 20, LARGE = 1 << 20 };

static double now(void) { return 1e-9 * (double)cfx__clock_ns(); }

/* ---- taking down ----------------------------------------------------------------------------- */

typedef struct recorder {
    double memory; /* the most before the link was measured, which takes some itself */
    double start; /* of the run */
    double at;    /* seconds of the runs before it: runs stand behind each other without gaps */
    VEC(cli_stretch) all;
} recorder;

static void note(cfx__stretch what, double from, double to, void *user) {
    recorder *r = user;
    VEC_PUSH(r->all, ((cli_stretch){.what = what, .from = r->at + from - r->start,
                                    .to = r->at + to - r->start}));
}

/* The most memory that this process had, in bytes; 0 where the system does not tell. */
static double peak_memory(void) {
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    double kib = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %lf", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024;
}

/* ---- the link -------------------------------------------------------------------------------- */

/* Seconds that a tensor of so many bytes takes to the next rank: the median of some rounds there
 * and back, each with memory of its own, as stages have. */
static double one_way(cfx_group *g, int64_t bytes, int rounds) {
    const int rank = cfx_group_rank(g), other = rank ^ 1;
    double *took = cfx__alloc0((size_t)rounds * sizeof *took);
    size_t mark = cfx_scope_open();
    cfx_value own = cfx_list_value(0, NULL);
    for (int i = 0; i < rounds; i++)
        cfx_list_append(cfx_as_list(own), cfx_tensor_value(cfx_zeros(bytes / 4)));
    for (int i = 0; i < rounds && cfx_ok(); i++) CFX_SCOPE {
        const double from = now();
        if (rank < other)
            cfx_group_send(g, other, cfx_as_list(own)->items[i]), cfx_group_recv(g, other);
        else
            cfx_group_recv(g, other), cfx_group_send(g, other, cfx_as_list(own)->items[i]);
        took[i] = (now() - from) / 2;
    }
    const double median = cfx_ok() ? cli_median(took, rounds) : 0;
    cfx_scope_close(mark);
    cfx__free(took);
    return median;
}

/* Ranks 0 and 1 send each other tensors, and so do 2 and 3, and on, at once: as in a pipeline they
 * have to share what they move them by. */
static bool measure_link(cli_ranks *r, cfx_group *g) {
    const int rank = cfx_group_rank(g);
    if ((rank | 1) < cfx_group_size(g)) {
        const double small = one_way(g, 8, ROUNDS), large = one_way(g, LARGE, LARGE_ROUNDS);
        if (rank == 0 && cfx_ok()) {
            r->latency = small;
            /* On a busy machine a small message may have taken longer than a large one. */
            r->link = LARGE / (large > small ? large - small : large);
        }
    }
    return cfx_ok() && cfx_group_wait(g);
}

/* ---- bringing together ----------------------------------------------------------------------- */

enum { COLUMNS = 3 };

/* What a rank took down as a tensor: its memory first, then a row for each stretch; scope. */
static cfx_tensor *packed(const recorder *rec) {
    const int64_t shape[] = {(int64_t)rec->all.len + 1, COLUMNS};
    cfx_tensor *t = cfx_tensor_new(CFX_F64, 2, shape, NULL);
    double *to = cfx__obj_is_bad(t) ? NULL : (double *)t->data;
    if (!to)
        return t;
    memcpy(to, (double[COLUMNS]){rec->memory, 0, 0}, COLUMNS * sizeof *to);
    for (size_t i = 0; i < rec->all.len; i++) {
        const cli_stretch *s = &rec->all.data[i];
        memcpy(to + COLUMNS * (i + 1), (double[COLUMNS]){s->what, s->from, s->to},
               COLUMNS * sizeof *to);
    }
    return t;
}

static bool unpack(cli_ranks *r, cfx_group *g, int rank, const cfx_tensor *t) {
    if (t->dtype != CFX_F64 || t->ndim != 2 || t->shape[0] < 1 || t->shape[1] != COLUMNS) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "rank %d on %s sent no times", rank,
                 cfx_group_node(g, rank));
        return false;
    }
    const double *from = (const double *)t->data;
    cli_rank_times *own = &r->times[rank];
    own->memory = from[0];
    snprintf(own->node, sizeof own->node, "%s", cfx_group_node(g, rank));
    for (int64_t i = 1; i < t->shape[0]; i++)
        VEC_PUSH(own->stretches,
                 ((cli_stretch){.what = from[COLUMNS * i] == CFX__STRETCH_WORK   ? CFX__STRETCH_WORK
                                        : from[COLUMNS * i] == CFX__STRETCH_TALK ? CFX__STRETCH_TALK
                                                                                : CFX__STRETCH_WAIT,
                                .from = from[COLUMNS * i + 1], .to = from[COLUMNS * i + 2]}));
    return true;
}

static bool collect(cli_ranks *r, cfx_group *g, const recorder *rec) {
    const int size = cfx_group_size(g);
    if (cfx_group_rank(g))
        return cfx_group_send(g, 0, cfx_tensor_value(packed(rec)));
    r->times = cfx__alloc0((size_t)size * sizeof *r->times);
    r->ntimes = size;
    bool well = unpack(r, g, 0, packed(rec));
    for (int k = 1; k < size && well; k++) {
        cfx_value v = cfx_group_recv(g, k);
        well = cfx_ok() && v.tag == CFX_TAG_TENSOR && unpack(r, g, k, cfx_as_tensor(v));
    }
    return well && cfx_ok();
}

bool cli_ranks_profile(cli_ranks *r, cfx_group *g, bool (*once)(void *), void *user) {
    const int runs = r->runs ? r->runs : USUAL_RUNS;
    recorder rec = {.memory = peak_memory()};
    if (!measure_link(r, g))
        return false;
    double *seconds = cfx__alloc0((size_t)runs * sizeof *seconds);
    bool well = true;
    for (int i = 0; i < runs && well; i++) CFX_SCOPE {
        well = cfx_group_wait(g);
        rec.start = now();
        cfx__group_watch(g, note, &rec);
        well = well && once(user);
        cfx__group_watch(g, NULL, NULL);
        seconds[i] = now() - rec.start;
        rec.at += seconds[i];
    }
    if (cfx_group_rank(g) == 0) {
        r->seconds = rec.at;
        r->median = cli_median(seconds, runs);
    }
    CFX_SCOPE well = well && collect(r, g, &rec);
    VEC_FREE(rec.all);
    cfx__free(seconds);
    return well && cfx_ok();
}

void cli_ranks_forget(cli_ranks *r) {
    for (int i = 0; i < r->ntimes; i++)
        VEC_FREE(r->times[i].stretches);
    cfx__free(r->times);
    r->times = NULL;
}

/* ---- shares ---------------------------------------------------------------------------------- */

static double sum_of(const cli_rank_times *t, cfx__stretch what) {
    double sum = 0;
    for (size_t i = 0; i < t->stretches.len; i++)
        sum += t->stretches.data[i].what == what
                   ? t->stretches.data[i].to - t->stretches.data[i].from
                   : 0;
    return sum;
}

/* Ranks of a pipeline say when they worked; what is neither that nor talk is waiting. */
static bool has_work(const cli_ranks *r) {
    for (int k = 0; k < r->ntimes; k++)
        if (sum_of(&r->times[k], CFX__STRETCH_WORK) > 0)
            return true;
    return false;
}

/* In a collective the rank that comes last does not wait: what it takes is the talk of all. */
static double shared_talk(const cli_ranks *r) {
    double sum = 0;
    const size_t n = r->times[0].stretches.len;
    for (int k = 1; k < r->ntimes; k++)
        if (r->times[k].stretches.len != n)
            return 0;
    for (size_t i = 0; i < n; i++) {
        double least = 1e9;
        for (int k = 0; k < r->ntimes; k++) {
            const cli_stretch *s = &r->times[k].stretches.data[i];
            least = s->to - s->from < least ? s->to - s->from : least;
        }
        sum += least;
    }
    return sum;
}

static void find_shares(cli_ranks *r) {
    const bool line = has_work(r);
    const double talk = line ? 0 : shared_talk(r);
    for (int k = 0; k < r->ntimes; k++) {
        cli_rank_times *t = &r->times[k];
        const double spoken = sum_of(t, CFX__STRETCH_TALK);
        t->working = line ? sum_of(t, CFX__STRETCH_WORK) : r->seconds - spoken;
        t->talking = line ? spoken : talk;
        t->waiting = r->seconds - t->working - t->talking;
    }
}

void cli_ranks_print(cli_ranks *r) {
    const double all = r->seconds > 0 ? r->seconds : 1;
    double working = 0, talking = 0, waiting = 0;
    find_shares(r);
    cli_print("%.3f ms a run, the median of %d\n", 1e3 * r->median, r->runs ? r->runs : USUAL_RUNS);
    cli_answer("ms", cfx_float(1e3 * r->median));
    if (r->link > 0) {
        cli_print("link       %.3gG    # bytes a second from rank 0 to rank 1\n"
                  "latency    %.2g\n", 1e-9 * r->link, r->latency);
        cli_answer("link", cfx_float(r->link));
        cli_answer("latency", cfx_float(r->latency));
    }
    cli_print("  rank  working  talking  waiting     memory  machine\n");
    for (int k = 0; k < r->ntimes; k++) {
        const cli_rank_times *t = &r->times[k];
        cli_print("%6d %7.1f%% %7.1f%% %7.1f%% %10s  %s\n", k, 100 * t->working / all,
                  100 * t->talking / all, 100 * t->waiting / all,
                  cli_bytes(cfx__int64_of(t->memory)), t->node);
        cli_answer_row("ranks", cfx_dict_of("rank", k, "working", cli_fact(t->working / all),
                                            "talking", cli_fact(t->talking / all), "waiting",
                                            cli_fact(t->waiting / all), "memory",
                                            cli_fact(t->memory), "machine", t->node));
        working += t->working / all / r->ntimes;
        talking += t->talking / all / r->ntimes;
        waiting += t->waiting / all / r->ntimes;
    }
    cli_print("   all %7.1f%% %7.2f%% %7.1f%%\n", 100 * working, 100 * talking, 100 * waiting);
}

/* ---- the trace ------------------------------------------------------------------------------- */

bool cli_ranks_trace(const cli_ranks *r, const char *path) {
    static const char *const names[] = {"works", "talks", "waits"};
    cfx__text t = {0};
    cfx__text_puts(&t, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (int k = 0; k < r->ntimes; k++) {
        const cli_rank_times *own = &r->times[k];
        const char *name = cfx__text_format("rank %d on %s", k, own->node);
        for (size_t i = 0; i < own->stretches.len; i++) {
            const cli_stretch *s = &own->stretches.data[i];
            cfx__text_printf(&t, "{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":1,\"ts\":%.3f,"
                                 "\"dur\":%.3f},\n",
                             names[s->what], k + 1, 1e6 * s->from, 1e6 * (s->to - s->from));
        }
        cfx__text_printf(&t, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":"
                             "{\"name\":", k + 1);
        cfx__json_string(&t, name, strlen(name));
        cfx__text_puts(&t, k + 1 < r->ntimes ? "}},\n" : "}}\n");
    }
    cfx__text_puts(&t, "]}\n");
    const bool written = cfx__file_write(path, t.data, t.len);
    cfx__text_release(&t);
    return written;
}
