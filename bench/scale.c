/* Graphs at scale: what is done with a whole program, at 10,000, 100,000 and 1,000,000 nodes, in
 * nanoseconds of processor time and bytes that are held for each node, files included. */
#include "bench.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Of the process: all threads work for it, and writing is the system's time. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

typedef struct {
    int n;
    double begun;
    size_t held;
} lap;

static lap start(int n) { return (lap){n, now(), cfx_memory_held()}; }

static void end(const lap *l, const char *what) {
    const double took = now() - l->begun, more = (double)cfx_memory_held() - (double)l->held;
    printf("%-28s %9d nodes %8.0f ns a node %8.0f bytes a node\n", what, l->n, took / l->n,
           more / l->n);
}

BENCH(scale) {
    static const int sizes[] = {10000, 100000, 1000000};
    char path[64];
    snprintf(path, sizeof path, "/tmp/cfx_bench_scale_%d.pt2", (int)getpid());
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && cfx_ok(); i++)
        CFX_SCOPE {
            const int n = sizes[i];
            lap l = start(n);
            cfx_program *p = bench_chain(n, cfx_ones(cfx_list(2, 3)));
            end(&l, "make and infer");
            l = start(n);
            CFX_SCOPE cfx_graph_str(p->module->graph);
            end(&l, "print");
            l = start(n);
            CFX_SCOPE cfx_program_check(p);
            end(&l, "check");
            l = start(n);
            cfx_optimize(p);
            end(&l, "default pipeline, a copy");
            l = start(n);
            cfx_save(p, path);
            end(&l, "save");
            l = start(n);
            cfx_open(path);
            end(&l, "open");
        }
    unlink(path);
}
