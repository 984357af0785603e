/* What tools/test_ranks runs on ranks: started by mpirun over MPI, with "simulate N" on threads.
 * What
 * is printed has every bit of the results in it, so that both can be compared.
 *
 * ranks collectives|letters|train|ring [simulate N]  prints results
 * ranks write A B C D  writes a program with collectives, and what it computes on two ranks; one
 *                      whose batch varies, and inputs of it
 * ranks parts A B C    writes programs whose batch varies: one whose result has no rows, one that
 *                      counts its calls, and one with another input whose rows vary
 * ranks text A B C     writes a language model that keeps what it saw and takes a token at a time,
 *                      the same that takes the text whole, and a text
 * ranks kill|late|stop|fail|leave|limit|slow|hostile|forge RANK  a rank goes wrong; the others say
 *                      so (late: of a killed rank, the last rank 150 ms after the others) */
#define _GNU_SOURCE
#include <cfx.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../src/group/group.h"

typedef struct {
    const char *what;
    int victim;
} job;

#define OP(name, ...) cfx_op_do(cfx_op_find("_c10d_functional::" name), __VA_ARGS__)

static uint64_t bits_of(cfx_value v) {
    const cfx_tensor *t = cfx__tensor_contiguous(cfx_as_tensor(v));
    const unsigned char *data = (const unsigned char *)t->data;
    uint64_t hash = (uint64_t)t->numel;
    for (int64_t i = 0; i < t->numel * cfx_dtype_size((cfx_dtype)t->dtype); i++)
        hash = (hash ^ data[i]) * 0x100000001b3u;
    return hash;
}

/* ---- results --------------------------------------------------------------------------------- */

static cfx_tensor *part_of(int r, cfx_dtype dtype, int64_t rows, int64_t columns) {
    cfx_tensor *t = cfx_tensor_new(CFX_F64, 2, (int64_t[]){rows, columns}, NULL);
    for (int64_t i = 0; i < rows * columns; i++)
        ((double *)t->data)[i] = (double)((i * 7919 + r * 104729) % 1000 - 500) / 7.0 +
                                 (r == 1 ? 1e6 : r == 2 ? -1e6 : 0);
    return cfx_to(t, cfx_dtype_value(dtype));
}

/* One line of each: what it is, and the bits that each rank has. */
static void tell(cfx_group *g, const char *name, cfx_dtype dtype, int64_t columns, cfx_value v) {
    const int64_t own = cfx_ok() ? (int64_t)bits_of(v) : 0;
    if (cfx_group_rank(g)) {
        cfx_group_send(g, 0, cfx_int(own));
        return;
    }
    printf("%-10s %-9s %6lld ", name, cfx_dtype_name(dtype), (long long)columns);
    printf(" %016llx", (unsigned long long)own);
    for (int r = 1; r < cfx_group_size(g) && cfx_ok(); r++)
        printf(" %016llx", (unsigned long long)cfx_integer(cfx_group_recv(g, r)));
    printf("\n");
}

static bool collectives(cfx_group *g) {
    static const cfx_dtype dtypes[] = {CFX_F32, CFX_BF16, CFX_F64, CFX_I32};
    static const int64_t columns[] = {0, 1, 33, 5003};
    const int r = cfx_group_rank(g), n = cfx_group_size(g);
    for (int i = 0; i < 16 && cfx_ok(); i++) CFX_SCOPE {
        const cfx_dtype d = dtypes[i / 4];
        const int64_t wide = columns[i % 4];
        cfx_tensor *x = part_of(r, d, 12, wide);
        tell(g, "sum", d, wide, OP("all_reduce", x, "sum", "0"));
        tell(g, "avg", d, wide, OP("all_reduce", x, "avg", "0"));
        tell(g, "max", d, wide, OP("all_reduce", x, "max", "0"));
        tell(g, "scatter", d, wide, OP("reduce_scatter_tensor", x, "sum", n, "0"));
        tell(g, "gather", d, wide, OP("all_gather_into_tensor", x, n, "0"));
        tell(g, "broadcast", d, wide, OP("broadcast", x, n - 1, "0"));
        cfx_value splits = cfx_list_value(0, NULL);
        int64_t rows = 0;
        for (int k = 0; k < n; rows += r + k, k++)
            cfx_list_append(cfx_as_list(splits), cfx_int(r + k));
        tell(g, "shuffle", d, wide,
             OP("all_to_all_single", part_of(r, d, rows, wide), splits, splits, "0"));
    }
    /* more than a window has */
    for (int64_t wide = 1 << 17; wide < 1 << 19 && cfx_ok(); wide += 123457) CFX_SCOPE {
        cfx_tensor *x = part_of(r, CFX_F32, 9, wide);
        tell(g, "gather", CFX_F32, wide, OP("all_gather_into_tensor", x, n, "0"));
        tell(g, "sum", CFX_F32, wide, OP("all_reduce", x, "sum", "0"));
    }
    return cfx_ok();
}

static bool train(cfx_group *g) {
    const int rank = cfx_group_rank(g), size = cfx_group_size(g);
    cfx_manual_seed(1);
    cfx_tensor *x = cfx_randn(48, 6), *y = cfx_sin(cfx_sum(x, 1, true));
    cfx_module *m = cfx_nn_sequential(cfx_nn_linear(6, 300), cfx_nn_tanh(), cfx_nn_linear(300, 1));
    cfx_data_parallel *dp = cfx_data_parallel_new(g, m, 4000);
    cfx_optim *o = cfx_sgd(m, .lr = 0.05, .momentum = 0.9);
    cfx_manual_seed(5);
    cfx_loader *loader = cfx_loader_new(cfx_list(x, y), .batch_size = 12 / size, .shuffle = true,
                                        .ranks = size, .rank = rank);
    cfx_value batch;
    for (int i = 0; cfx_ok() && cfx_loader_batch(loader, &batch); i++) {
        cfx_optim_zero_grad(o);
        cfx_tensor *loss = cfx_mse_loss(cfx_forward(m, cfx_tensor_at(batch, 0)),
                                        cfx_tensor_at(batch, 1));
        cfx_backward(loss);
        cfx_data_parallel_finish(dp);
        cfx_optim_step(o);
        cfx_tensor *mean = cfx_as_tensor(OP("all_reduce", cfx_detach(loss), "avg", "0"));
        if (rank == 0)
            printf("step %d loss %a\n", i, cfx_tensor_get(mean, 0));
    }
    tell(g, "weights", CFX_F32, 300, cfx_module_attr(m, "0.weight"));
    return cfx_ok();
}

/* What a rank sent, in the place of x, which is kept. */
static void receive(cfx_group *g, int from, cfx_tensor **x) {
    cfx_tensor *got = cfx_keep(cfx_as_tensor(cfx_group_recv(g, from)));
    cfx_drop(*x);
    *x = got;
}

static bool ring(cfx_group *g, int turns, int victim, const char *what) {
    const int rank = cfx_group_rank(g), size = cfx_group_size(g);
    cfx_tensor *x = cfx_keep(cfx_full(cfx_list(50000), 1.0 * rank));
    for (int i = 0; i < turns && cfx_ok(); i++) CFX_SCOPE {
        if (i == turns / 2 && rank == victim && (!strcmp(what, "kill") || !strcmp(what, "late")))
            raise(SIGKILL);
        if (i == turns / 2 && rank == victim && !strcmp(what, "stop"))
            raise(SIGSTOP);
        if (i == turns / 2 && rank == victim && !strcmp(what, "fail"))
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "this rank has had enough");
        if (i == turns / 2 && rank == victim && !strcmp(what, "leave"))
            _exit(0);
        if (i == turns / 2 && rank == victim && !strcmp(what, "limit"))
            cfx_set_time_limit(0.01), usleep(20000);
        if (i == turns / 2 && rank == victim && !strcmp(what, "forge")) {
            cfx__head head = {.mark = CFX__HEAD_MARK, .dtype = CFX_F32, .ndim = 1,
                              .shape = {50000}, .stride = {1}, .bytes = 200000,
                              .post = (uint64_t)1 << 40, .order = g->sent[(rank + 1) % size]};
            cfx__part parts[CFX__PARTS] = {{&head, sizeof head}};
            size_t n;
            cfx__group_done(g, g->transport->begin(g->transport, true, (rank + 1) % size,
                                                   CFX__TAG_HEAD, parts), &n);
        }
        if (i == turns / 2 && rank == victim && !strcmp(what, "hostile")) {
            cfx__head head = {.mark = CFX__HEAD_MARK, .dtype = CFX_F32, .ndim = 1,
                              .shape = {INT64_MAX / 8}, .bytes = INT64_MAX,
                              .order = g->sent[(rank + 1) % size]};
            cfx__part parts[CFX__PARTS] = {{&head, sizeof head}};
            size_t n;
            cfx__group_done(g, g->transport->begin(g->transport, true, (rank + 1) % size,
                                                   CFX__TAG_HEAD, parts), &n);
        }
        if (i == turns / 2 && !strcmp(what, "slow") && rank == victim)
            for (volatile long k = 0; k < 100000000000; k++) /* it looks at nothing */
                ;
        if (i == turns / 2 && !strcmp(what, "slow") && rank == (victim + 1) % size)
            raise(SIGKILL);
        if (rank)
            receive(g, rank - 1, &x);
        cfx_group_send(g, (rank + 1) % size, cfx_tensor_value(cfx_add(x, 1)));
        if (!rank)
            receive(g, size - 1, &x);
    }
    if (cfx_ok() && !rank)
        printf("%g\n", cfx_tensor_get(x, 0));
    cfx_drop(x);
    return cfx_ok();
}

/* Tensors of all sizes from every rank to the next two, some ahead of others: letters that lie in
 * the sender's window, in many laps, and those for which there is no room. */
static bool letters(cfx_group *g) {
    enum { AHEAD = 5, TURNS = 60 };
    static const int64_t sizes[] = {3, 2000, 70001, 1 << 18, 5, 900000, 1 << 20, 333333, 3 << 20};
    const int rank = cfx_group_rank(g), size = cfx_group_size(g);
    for (int hop = 1; hop <= 2 && hop < size; hop++) {
        cfx__parcel sent[AHEAD] = {0};
        uint64_t all = 0;
        for (int i = 0; i < TURNS + AHEAD && cfx_ok(); i++) CFX_SCOPE {
            cfx__parcel *p = &sent[i % AHEAD];
            if (i >= AHEAD) {
                const cfx_value v = cfx_group_recv(g, (rank + size - hop) % size);
                all = all * 31 + (cfx_ok() ? bits_of(v) : 0);
                cfx__parcel_poll(p, true, NULL);
                cfx__parcel_end(p);
            }
            if (i < TURNS)
                cfx__parcel_send(p, g, (rank + hop) % size, cfx_tensor_value(part_of(
                                     rank + i, CFX_F32, 1, sizes[(i + i / 7) % COUNT(sizes)])));
        }
        tell(g, "letters", CFX_F32, hop,
             cfx_tensor_value(cfx_tensor_new(CFX_I64, 1, (int64_t[]){1}, &all)));
    }
    return cfx_ok();
}

/* A product that two ranks sum, and the same as one rank computes it. */
static cfx_tensor *forward_sum(cfx_module *self, cfx_tensor *x) {
    return cfx_relu(cfx_as_tensor(
        OP("wait_tensor", OP("all_reduce", cfx_matmul(x, cfx_attr(self, "w")), "sum", "0"))));
}

static cfx_tensor *forward_twice(cfx_module *self, cfx_tensor *x) {
    return cfx_relu(cfx_mul(cfx_matmul(x, cfx_attr(self, "w")), 2));
}

/* A network whose batch varies, and a batch for it. */
static void write_network(const char *path, const char *inputs) {
    cfx_module *m = cfx_nn_sequential(cfx_nn_linear(8, 16), cfx_nn_relu(), cfx_nn_linear(16, 16),
                                      cfx_nn_relu(), cfx_nn_linear(16, 4));
    cfx_dict *file = cfx_dict_new();
    cfx_dict_set(file, "in0", cfx_tensor_value(cfx_randn(12, 8)));
    cfx_save(cfx_export(m, cfx_tuple(cfx_randn(6, 8)), CFX_NONE,
                        cfx_dict_of("input", cfx_dict_of(0, "batch"))), path);
    cfx_safetensors_write(inputs, file, NULL);
}

static cfx_tensor *forward_mean(cfx_module *self, cfx_tensor *x) {
    return cfx_mean(cfx_relu(cfx_matmul(x, cfx_attr(self, "w"))));
}

static cfx_tensor *forward_count(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *y = cfx_add(cfx_matmul(x, cfx_attr(self, "w")), cfx_attr(self, "count"));
    cfx_add_(cfx_attr(self, "count"), 1);
    return y;
}

static cfx_tensor *forward_two(cfx_module *self, cfx_tensor *x, cfx_tensor *y) {
    return cfx_matmul(cfx_matmul(cfx_relu(x), cfx_attr(self, "w")), cfx_transpose(y, 0, 1));
}

static void write_parts(const char *mean, const char *counts, const char *two) {
    cfx_module *m[] = {cfx_module_new("Mean", forward_mean, "x"),
                       cfx_module_new("Counts", forward_count, "x"),
                       cfx_module_new("Two", forward_two, "x, y")};
    const char *const paths[] = {mean, counts, two};
    cfx_manual_seed(6);
    cfx_nn_buffer(m[1], "count", cfx_zeros(8), true);
    for (int i = 0; i < COUNT(m); i++) {
        cfx_nn_parameter(m[i], "w", cfx_randn(8, 8));
        cfx_dict *sizes = cfx_dict_new();
        cfx_dict_set(sizes, "x", cfx_dict_of(0, "batch"));
        if (i == 2)
            cfx_dict_set(sizes, "y", cfx_dict_of(0, "other"));
        cfx_save(cfx_export(m[i], i == 2 ? cfx_tuple(cfx_randn(6, 8), cfx_randn(6, 8))
                                         : cfx_tuple(cfx_randn(6, 8)),
                            CFX_NONE, cfx_dict_value(sizes)), paths[i]);
    }
}

static void write_programs(const char *sum, const char *twice) {
    cfx_manual_seed(4);
    cfx_tensor *w = cfx_randn(8, 5), *x = cfx_ones(3, 8);
    cfx_module *a = cfx_module_new("Sum", forward_sum, "x");
    cfx_module *b = cfx_module_new("Twice", forward_twice, "x");
    cfx_nn_parameter(a, "w", w);
    cfx_nn_parameter(b, "w", w);
    cfx_save(cfx_export(a, cfx_tuple(x), CFX_NONE, CFX_NONE), sum);
    cfx_save(cfx_export(b, cfx_tuple(x), CFX_NONE, CFX_NONE), twice);
}

/* ---- a language model ------------------------------------------------------------------------ */

enum { WORDS = 40, WIDTH = 16, HEADS = 4, CONTEXT = 24, BLOCKS = 3 };

static cfx_tensor *by_heads(cfx_tensor *x) {
    return cfx_transpose(cfx_reshape(x, cfx_list(1, -1, HEADS, WIDTH / HEADS)), 1, 2);
}

/* Block i on x; with places `at` keys and values are kept, without them all tokens are in x. */
static cfx_tensor *block(cfx_module *self, int i, cfx_tensor *x, cfx_tensor *at) {
    cfx_value qkv = cfx_chunk(cfx_call(self, cfx__text_format("qkv%d", i), x), 3, -1);
    cfx_tensor *q = by_heads(cfx_tensor_at(qkv, 0)), *k = by_heads(cfx_tensor_at(qkv, 1));
    cfx_tensor *v = by_heads(cfx_tensor_at(qkv, 2)), *y;
    if (at) {
        cfx_tensor *keys = cfx_attr(self, cfx__text_format("keys%d", i));
        cfx_tensor *values = cfx_attr(self, cfx__text_format("values%d", i));
        cfx_index_copy_(keys, 2, at, k);
        cfx_index_copy_(values, 2, at, v);
        y = cfx_scaled_dot_product_attention(
            q, keys, values, cfx_le(cfx_arange(CONTEXT), cfx_unsqueeze(at, 1)));
    } else {
        y = cfx_scaled_dot_product_attention(q, k, v, CFX_KW(is_causal, true));
    }
    y = cfx_reshape(cfx_transpose(y, 1, 2), cfx_list(1, -1, WIDTH));
    x = cfx_sub(cfx_mul(cfx_call(self, cfx__text_format("out%d", i), y), 8), x);
    return cfx_sub(x, cfx_tanh(cfx_call(self, cfx__text_format("mlp%d", i), x)));
}

static cfx_tensor *forward_text(cfx_module *self, cfx_tensor *ids, cfx_tensor *at) {
    cfx_tensor *x = cfx_call(self, "words", ids);
    for (int i = 0; i < BLOCKS; i++)
        x = block(self, i, x, at);
    return cfx_call(self, "head", x);
}

static cfx_tensor *forward_whole(cfx_module *self, cfx_tensor *ids) {
    return forward_text(self, ids, NULL);
}

static cfx_module *with_layers(cfx_module *m, bool keeps) {
    cfx_manual_seed(12);
    cfx_nn_add(m, "words", cfx_nn_embedding(WORDS, WIDTH));
    cfx_nn_add(m, "head", cfx_nn_linear(WIDTH, WORDS));
    for (int i = 0; i < BLOCKS; i++) {
        cfx_nn_add(m, cfx__text_format("qkv%d", i), cfx_nn_linear(WIDTH, 3 * WIDTH));
        cfx_nn_add(m, cfx__text_format("out%d", i), cfx_nn_linear(WIDTH, WIDTH));
        cfx_nn_add(m, cfx__text_format("mlp%d", i), cfx_nn_linear(WIDTH, WIDTH));
        for (int k = 0; keeps && k < 2; k++)
            cfx_nn_buffer(m, cfx__text_format(k ? "values%d" : "keys%d", i),
                          cfx_zeros(1, HEADS, CONTEXT, WIDTH / HEADS), true);
    }
    return m;
}

static void write_text(const char *step, const char *whole, const char *text) {
    cfx_module *a = with_layers(cfx_module_new("Step", forward_text, "ids, at"), true);
    cfx_module *b = with_layers(cfx_module_new("Whole", forward_whole, "ids"), false);
    cfx_tensor *ids = cfx_tensor_new(CFX_I64, 2, (int64_t[]){1, 5}, (int64_t[]){3, 7, 1, 22, 9});
    cfx_tensor *one = cfx_tensor_new(CFX_I64, 2, (int64_t[]){1, 1}, (int64_t[]){3});
    cfx_tensor *at = cfx_tensor_new(CFX_I64, 1, (int64_t[]){1}, (int64_t[]){0});
    cfx_dict *file = cfx_dict_new();
    cfx_dict_set(file, "in0", cfx_tensor_value(ids));
    cfx_save(cfx_export(a, cfx_tuple(one, at), CFX_NONE, CFX_NONE), step);
    cfx_save(cfx_export(b, cfx_tuple(ids), CFX_NONE, cfx_dict_of("ids", cfx_dict_of(1, "n"))),
             whole);
    cfx_safetensors_write(text, file, NULL);
}

static void end_late(const char *sentence, void *user) {
    dprintf(2, "[rank %d, late] %s\n", cfx_group_rank(user), sentence);
    _exit(2);
}

static bool run(cfx_group *g, void *user) {
    const job *j = user;
    if (!strcmp(j->what, "collectives"))
        return collectives(g);
    if (!strcmp(j->what, "train"))
        return train(g);
    if (!strcmp(j->what, "letters"))
        return letters(g);
    return ring(g, 20, j->victim, j->what);
}

int main(int argc, char **argv) {
    job j = {.what = argc > 1 ? argv[1] : "", .victim = argc > 2 ? atoi(argv[2]) : -1};
    if (argc > 3 && !strcmp(argv[2], "simulate")) {
        cfx_group_simulate(atoi(argv[3]), run, &j);
        return cfx_finish(stderr);
    }
    if (argc > 5 && !strcmp(j.what, "write")) {
        write_programs(argv[2], argv[3]);
        write_network(argv[4], argv[5]);
        return cfx_finish(stderr);
    }
    if (argc > 4 && !strcmp(j.what, "parts")) {
        write_parts(argv[2], argv[3], argv[4]);
        return cfx_finish(stderr);
    }
    if (argc > 4 && !strcmp(j.what, "text")) {
        write_text(argv[2], argv[3], argv[4]);
        return cfx_finish(stderr);
    }
    cfx_group *g = cfx_group_open_mpi();
    if (!g)
        return cfx_finish(stderr);
    const int rank = cfx_group_rank(g);
    cfx_set_group(g);
    cfx_group_on_loss(g, end_late, g);
    run(g, &j);
    const bool late = !strcmp(j.what, "late") && rank == cfx_group_size(g) - 1;
    cfx_group_end(g, NULL);
    if (late)
        usleep(150000);
    if (!cfx_ok())
        fprintf(stderr, "[rank %d] ", rank);
    return cfx_finish(stderr);
}
