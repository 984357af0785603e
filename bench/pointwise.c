/* Pointwise operators against the machine's copy bandwidth, and the cost of a call. */
#include "bench.h"

#include <string.h>

typedef struct {
    cfx_tensor *x, *y;
    char *from, *to;
    size_t bytes;
} data;

static void add(void *p) {
    data *d = p;
    CFX_SCOPE cfx_add(d->x, d->y);
}

static void relu(void *p) {
    data *d = p;
    CFX_SCOPE cfx_relu(d->x);
}

/* The limit: as many bytes moved by memcpy, on as many threads as the operator may use. */
static void copy(void *p) {
    data *d = p;
    int threads = cfx_get_num_threads();
#pragma omp parallel for num_threads(threads)
    for (int t = 0; t < threads; t++) {
        size_t from = d->bytes * (size_t)t / (size_t)threads;
        size_t to = d->bytes * (size_t)(t + 1) / (size_t)threads;
        memcpy(d->to + from, d->from + from, to - from);
    }
}

BENCH(call_overhead) {
    data d = {.x = cfx_tensor_from_value(cfx_list(1.0, 2.0, 3.0, 4.0))};
    d.y = d.x;
    bench_row("add of 4 elements", bench_time(add, &d), "PyTorch 1.13", bench_torch("add_4"));
}

/* relu reads and writes as much as a copy does; add reads half as much again. */
BENCH(pointwise_bandwidth) {
    int64_t n = 1 << 24;
    data d = {.x = cfx_tensor_new(CFX_F32, 1, &n, NULL), .y = cfx_tensor_new(CFX_F32, 1, &n, NULL)};
    memset(cfx_tensor_data(d.x), 0, (size_t)n * 4);
    memset(cfx_tensor_data(d.y), 0, (size_t)n * 4);
    d.bytes = (size_t)n * 4;
    d.from = cfx_tensor_data(cfx_tensor_new(CFX_F32, 1, &n, NULL));
    d.to = cfx_tensor_data(cfx_tensor_new(CFX_F32, 1, &n, NULL));
    memset(d.from, 0, d.bytes);
    memset(d.to, 0, d.bytes);
    double ours, limit;
    bench_pair(relu, &d, copy, &d, &ours, &limit);
    bench_row("relu of 16M floats", ours, "memcpy, same bytes", limit);
    bench_pair(add, &d, copy, &d, &ours, &limit);
    bench_row("add of 16M floats", ours, "memcpy, same bytes", limit * 1.5);
}
