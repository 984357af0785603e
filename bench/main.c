/* Runs the benchmarks: cfx_bench [--torch FILE] [--threads N] [--clock cpu] [PATTERN...]. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bench *first;
static struct {
    char key[96];
    double ns;
} torch_rows[512];
static int torch_len;

void bench_register(bench *b) {
    bench **at = &first;
    while (*at && strcmp((*at)->name, b->name) < 0)
        at = &(*at)->next;
    b->next = *at;
    *at = b;
}

static clockid_t which_clock = CLOCK_MONOTONIC;

static double now(void) {
    struct timespec t;
    clock_gettime(which_clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double series(void (*fn)(void *), void *arg, long n) {
    double start = now();
    for (long i = 0; i < n; i++)
        fn(arg);
    return (now() - start) / (double)n;
}

/* How many calls make a series of about two milliseconds. */
static long calibrate(void (*fn)(void *), void *arg) {
    fn(arg);
    long n = 1;
    for (double ns; (ns = series(fn, arg, n) * (double)n) < 1e6 && n < 1000000;)
        n = ns > 0 ? (long)((double)n * 2e6 / ns) + 1 : n * 10;
    return n;
}

void bench_pair(void (*a)(void *), void *a_arg, void (*b)(void *), void *b_arg, double *a_ns,
                double *b_ns) {
    long na = calibrate(a, a_arg), nb = calibrate(b, b_arg);
    *a_ns = *b_ns = INFINITY;
    double end = now() + 4e8;
    for (int round = 0; round < 5 || now() < end; round++) {
        *a_ns = fmin(*a_ns, series(a, a_arg, na));
        *b_ns = fmin(*b_ns, series(b, b_arg, nb));
    }
}

double bench_time(void (*fn)(void *), void *arg) {
    long n = calibrate(fn, arg);
    double best = INFINITY, end = now() + 2e8;
    for (int round = 0; round < 5 || now() < end; round++)
        best = fmin(best, series(fn, arg, n));
    return best;
}

double bench_cpu_time(void (*fn)(void *), void *arg) {
    clockid_t held = which_clock;
    which_clock = CLOCK_THREAD_CPUTIME_ID;
    double best = bench_time(fn, arg);
    which_clock = held;
    return best;
}

static const char *human(double ns, char *out, size_t size) {
    if (isnan(ns))
        snprintf(out, size, "-");
    else if (ns < 1e4)
        snprintf(out, size, "%.0f ns", ns);
    else if (ns < 1e7)
        snprintf(out, size, "%.1f us", ns / 1e3);
    else
        snprintf(out, size, "%.1f ms", ns / 1e6);
    return out;
}

void bench_row(const char *what, double ours_ns, const char *peer, double peer_ns) {
    char a[32], b[32];
    printf("%-44s %12s %12s  %-24s", what, human(ours_ns, a, sizeof a), human(peer_ns, b, sizeof b),
           peer);
    if (isnan(peer_ns))
        printf("     -\n");
    else
        printf("%6.2fx\n", peer_ns / ours_ns);
    fflush(stdout);
}

double bench_torch(const char *key) {
    for (int i = 0; i < torch_len; i++)
        if (!strcmp(torch_rows[i].key, key))
            return torch_rows[i].ns;
    return NAN;
}

static void read_torch(const char *path) {
    FILE *f = fopen(path, "r");
    if (!f)
        return;
    while (torch_len < 512 &&
           fscanf(f, "%95s %lf", torch_rows[torch_len].key, &torch_rows[torch_len].ns) == 2)
        torch_len++;
    fclose(f);
}

int main(int argc, char **argv) {
    int patterns = 1;
    for (; argc > patterns + 1 && !strncmp(argv[patterns], "--", 2); patterns += 2) {
        if (!strcmp(argv[patterns], "--torch"))
            read_torch(argv[patterns + 1]);
        else if (!strcmp(argv[patterns], "--threads"))
            cfx_set_num_threads(atoi(argv[patterns + 1]));
        else if (!strcmp(argv[patterns], "--clock") && !strcmp(argv[patterns + 1], "cpu"))
            which_clock = CLOCK_PROCESS_CPUTIME_ID; /* one thread on a busy machine */
    }
    printf("%-44s %12s %12s  %-24s %6s\n", "what", "cfx", "peer", "which peer", "faster");
    for (bench *b = first; b; b = b->next) {
        bool wanted = patterns == argc;
        for (int i = patterns; i < argc; i++)
            wanted |= strstr(b->name, argv[i]) != NULL;
        if (wanted)
            CFX_SCOPE b->run();
    }
    return cfx_finish(stderr);
}
