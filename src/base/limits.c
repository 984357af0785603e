/* Limits for untrusted files: bytes, nodes, seconds. memory.c counts the bytes. */
#include "base.h"

#include <time.h>

size_t cfx_set_memory_limit(size_t bytes) {
    cfx__context *c = cfx__ctx();
    size_t before = c->memory_limit;
    c->memory_limit = bytes;
    return before;
}

int64_t cfx_set_node_limit(int64_t nodes) {
    cfx__context *c = cfx__ctx();
    int64_t before = c->node_limit;
    c->node_limit = nodes > 0 ? nodes : 0;
    return before;
}

bool cfx__limit_nodes(size_t nodes) {
    const cfx__context *c = cfx__ctx();
    if (likely(!c->node_limit || nodes <= (size_t)c->node_limit))
        return true;
    cfx_fail(CFX_LIMIT_ERROR, (cfx_site){0},
             "the graph has more than the %lld nodes that the limit allows",
             (long long)c->node_limit);
    return false;
}

int64_t cfx__clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void set_due(cfx__context *c) {
    int64_t ask = c->interrupt ? c->ask_at : 0;
    c->due = c->deadline && ask ? (c->deadline < ask ? c->deadline : ask) : c->deadline | ask;
}

double cfx_set_time_limit(double seconds) {
    cfx__context *c = cfx__ctx();
    int64_t at = cfx__clock_ns();
    double left = c->deadline ? (double)(c->deadline - at) * 1e-9 : 0;
    c->seconds = seconds > 0 && seconds < 1e9 ? seconds : 0;
    c->deadline = c->seconds > 0 ? at + (int64_t)(c->seconds * 1e9) + 1 : 0;
    set_due(c);
    return left > 0 ? left : 0;
}

enum { ASK_EVERY = 50000000 }; /* nanoseconds */

void cfx_set_interrupt(cfx_interrupt_fn *fn, void *user) {
    cfx__context *c = cfx__ctx();
    c->interrupt = fn;
    c->interrupt_user = user;
    c->ask_at = fn ? cfx__clock_ns() + ASK_EVERY : 0;
    set_due(c);
}

bool cfx__limit_late(cfx__context *c) {
    int64_t now = cfx__clock_ns();
    if (now < c->due)
        return false;
    if (c->deadline && now >= c->deadline) {
        cfx_fail(CFX_LIMIT_ERROR, (cfx_site){0}, "the time limit of %g seconds is used up",
                 c->seconds);
        return true;
    }
    c->ask_at = now + ASK_EVERY;
    set_due(c);
    bool stop = c->interrupt(c->interrupt_user);
    if (stop && cfx_ok())
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "interrupted");
    return stop;
}

bool cfx_set_copy_files(bool on) {
    cfx__context *c = cfx__ctx();
    bool before = c->copy_files;
    c->copy_files = on;
    return before;
}
