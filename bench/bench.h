/* Benchmarks: BENCH(name) { ... } in any file of bench/, and `make bench` runs it.
 *
 * Everything is told as a ratio against a peer or the machine's limit measured in the same run; a
 * time alone means nothing on a shared machine. */
#ifndef CFX_BENCH_H
#define CFX_BENCH_H

#include <cfx.h>

typedef struct bench {
    const char *name;
    void (*run)(void);
    struct bench *next;
} bench;

void bench_register(bench *b);

/* A program of n nodes, a chain with branches of three calls in turn; x is what it is given. */
cfx_program *bench_chain(int n, cfx_tensor *x);

#define BENCH(id)                                                                                  \
    static void bench_##id(void);                                                                  \
    __attribute__((constructor)) static void register_##id(void) {                                 \
        static bench b = {#id, bench_##id, NULL};                                                  \
        bench_register(&b);                                                                        \
    }                                                                                              \
    static void bench_##id(void)

/* Nanoseconds of one call of fn(arg): the best of many short series. */
double bench_time(void (*fn)(void *arg), void *arg);
/* The same in time of the calling thread alone: for work without threads on a busy machine. */
double bench_cpu_time(void (*fn)(void *arg), void *arg);
/* The same for two functions in turns, so that both meet the same weather. */
void bench_pair(void (*a)(void *), void *a_arg, void (*b)(void *), void *b_arg, double *a_ns,
                double *b_ns);
/* A row: what, our time, the peer's name and time, and how many times faster we are. A peer that is
 * not there (nan) leaves a dash. */
void bench_row(const char *what, double ours_ns, const char *peer, double peer_ns);
/* Nanoseconds of a case that PyTorch 1.13 was asked for (bench/torch_peer.py), or nan. */
double bench_torch(const char *key);
/* A row of a training step: forward, loss, backward and SGD with momentum. */
void bench_step(const char *what, const char *key, cfx_module *model, cfx_tensor *x,
                cfx_module *criterion, cfx_tensor *y);

#endif
