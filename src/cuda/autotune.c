/* Autotuning: where a kernel of cfx and one or more library kernels can compute the same, each
 * is timed once, and the fastest is used. The choice is stored on disk, so that later processes
 * make the same choice and give the same bits. Start at cfx__cuda_autotune. */
#include <math.h>

#include "plan.h"

enum { ROUNDS = 10 };
enum { RELAXED = 2 }; /* other threads may call the driver meanwhile */

static bool start_all(cfx__cuda_plan *p, int from, int to) {
    for (int i = from; i < to; i++)
        if (!cfx__cuda_start(p, &p->steps.data[i], false))
            return false;
    return true;
}

/* Some rounds of steps as a graph, which is how they will run: what the host takes to start them
 * does not count. NULL: none can be made. */
static void *rounds_of(cfx__cuda_plan *p, int from, int to) {
    cfx__cuda_device *d = p->device;
    void *graph = NULL, *ready = NULL;
    bool fine = true;
    if (d->driver->capture_begin(d->stream, RELAXED))
        return NULL;
    for (int i = 0; i < ROUNDS && fine; i++)
        fine = start_all(p, from, to);
    if (!d->driver->capture_end(d->stream, &graph) && fine && graph &&
        d->driver->graph_make(&ready, graph, 0))
        ready = NULL;
    if (graph)
        d->driver->graph_free(graph);
    return ready;
}

/* Milliseconds of some rounds of steps; below 0, with an error, where they fail. */
static float time_of(cfx__cuda_plan *p, int from, int to, void *const *event) {
    cfx__cuda_device *d = p->device;
    float ms = -1;
    if (!start_all(p, from, to) || !cfx__cuda_wait(d))
        return -1;
    void *rounds = rounds_of(p, from, to);
    if (!rounds)
        return -1;
    const bool fine =
        cfx__cuda_done(d, d->driver->graph_launch(rounds, d->stream), "a trial") &&
        cfx__cuda_done(d, d->driver->event_record(event[0], d->stream), "a trial") &&
        cfx__cuda_done(d, d->driver->graph_launch(rounds, d->stream), "a trial") &&
        cfx__cuda_done(d, d->driver->event_record(event[1], d->stream), "a trial") &&
        cfx__cuda_wait(d) &&
        cfx__cuda_done(d, d->driver->event_elapsed(&ms, event[0], event[1]), "a trial");
    d->driver->graph_exec_free(rounds);
    return fine ? ms : -1;
}

/* The same where a way that fails is none: below 0, without an error unless the card is lost. */
static float tried(cfx__cuda_plan *p, int from, int to, void *const *event) {
    const float ms = cfx_ok() ? time_of(p, from, to, event) : -1;
    if (ms < 0 && !cfx_ok() && !p->device->lost)
        cfx__error_forgive();
    return ms;
}

const char *cfx__cuda_way_key(const cfx__cuda_making *m, int from, int to) {
    cfx__text t = {0};
    cfx__text_puts(&t, cfx__cuda_versions(m->p->device));
    for (int i = from; i < to; i++) {
        const cfx__cuda_step *s = &m->p->steps.data[i];
        cfx__text_printf(&t, "%s %u %u %u\n", s->function, s->grid[0], s->grid[1], s->grid[2]);
        const cfx__cuda_called *called = s->nwords < 0 ? m->calls.data[-1 - s->nwords] : NULL;
        for (int k = 0; called && k < called->launch.nargs; k++)
            if (called->launch.args[k].kind == CFX__CUDA_INTEGER)
                cfx__text_printf(&t, "%lld ", (long long)called->launch.args[k].i);
        if (called)
            cfx__text_puts(&t, called->launch.defines);
    }
    return cfx__text_take(&t);
}

char cfx__cuda_way_kept(const char *key) {
    size_t size = 0;
    char *kept = cfx__cuda_recall(key, &size);
    const char way = kept && size == 1 && *kept >= 'a' && *kept <= 'z' ? *kept : 0;
    cfx__free(kept);
    return way;
}

/* What a library has to gain, so that later processes open it: that takes them longer. */
static const float gain = 0.95f;

/* What a library does among the steps of a trial; NULL: nothing. */
static cfx__cuda_job *job_of(const cfx__cuda_plan *p, const cfx__cuda_trial *c) {
    for (int i = c->b; i < c->c; i++)
        if (p->steps.data[i].job)
            return p->steps.data[i].job;
    return NULL;
}

/* The fastest way: 'a', ours, or 'b' and those behind it, the library's. */
static char fastest(cfx__cuda_making *m, const cfx__cuda_trial *c, void *const *event) {
    cfx__cuda_job *job = job_of(m->p, c);
    float least = tried(m->p, c->a, c->b, event);
    const bool ours = least >= 0;
    char way = ours ? 'a' : 0;
    least = ours ? gain * least : INFINITY;
    for (int i = 0; i < (job && job->ways > 1 ? job->ways : 1); i++) {
        if (job)
            job->way = i;
        const float took = tried(m->p, c->b, c->c, event);
        if (took < 0 || took >= least)
            continue;
        /* another than the first that the library names has to be clearly faster */
        least = took * gain, way = (char)('b' + i);
    }
    if (way)
        cfx__cuda_remember(c->key, &way, 1);
    return way ? way : 'a';
}

/* Takes out steps that are left out. */
static void close_up(cfx__cuda_plan *p) {
    size_t n = 0;
    for (size_t i = 0; i < p->steps.len; i++) {
        if (p->steps.data[i].left_out)
            cfx_drop(p->steps.data[i].job);
        else
            p->steps.data[n++] = p->steps.data[i];
    }
    p->steps.len = n;
}

bool cfx__cuda_autotune(cfx__cuda_making *m) {
    cfx__cuda_plan *p = m->p;
    const cfx__cuda_driver *d = p->device->driver;
    void *event[2] = {NULL, NULL};
    cfx__map known = {0};
    bool fine = true;
    for (int i = 0; i < 2 && fine && m->trials.len; i++)
        fine = cfx__cuda_done(p->device, d->event_create(&event[i], 0), "making an event");
    for (size_t i = 0; i < m->trials.len && fine; i++) {
        const cfx__cuda_trial *c = &m->trials.data[i];
        uintptr_t way = (uintptr_t)cfx__map_get(&known, c->key);
        if (!way) {
            way = (uintptr_t)fastest(m, c, event);
            cfx__map_set(&known, c->key, (void *)way);
        }
        fine = cfx_ok();
        const bool first = way == 'a';
        cfx__cuda_job *job = job_of(p, c);
        if (job)
            job->way = first ? 0 : (int)(way - 'b');
        for (int s = first ? c->b : c->a; s < (first ? c->c : c->b); s++)
            p->steps.data[s].left_out = true;
    }
    for (int i = 0; i < 2; i++)
        if (event[i])
            d->event_destroy(event[i]);
    cfx__map_release(&known);
    close_up(p);
    return fine && cfx_ok();
}
