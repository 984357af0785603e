/* Data-parallel training on simulated ranks against one rank with the whole batch. */
#include <cfx/ranks.h>

#include <unistd.h>

#include "../group/group.h"
#include "test.h"

enum { ITEMS = 48, WIDTH = 6, BATCH = 12, STEPS = 8 };

typedef struct {
    int64_t bucket;
    bool shuffle;
    const char *path;        /* of a checkpoint that is written after half the steps, and resumed */
    double loss[STEPS];
    float weight[WIDTH];     /* of the last layer, in the end */
} training;

static cfx_module *network(void) {
    return cfx_nn_sequential(cfx_nn_linear(WIDTH, 16), cfx_nn_tanh(), cfx_nn_linear(16, WIDTH),
                             cfx_nn_tanh(), cfx_nn_linear(WIDTH, 1));
}

static void data(cfx_tensor **x, cfx_tensor **y) {
    *x = cfx_tensor_new(CFX_F32, 2, (int64_t[]){ITEMS, WIDTH}, NULL);
    for (int i = 0; i < ITEMS * WIDTH; i++)
        ((float *)(*x)->data)[i] = (float)((i * 7919) % 101) / 50 - 1;
    *y = cfx_sin(cfx_sum(*x, 1, true));
}

static void save(cfx_group *g, cfx_module *m, cfx_optim *o, const char *path) {
    cfx_ranks_checkpoint_write(g, path,
                               cfx_dict_of("model", cfx_dict_value(cfx_module_state_dict(m)),
                                           "optim", cfx_dict_value(cfx_optim_state_dict(o))));
}

static void resume(cfx_group *g, cfx_module *m, cfx_optim *o, const char *path) {
    cfx_value c = cfx_ranks_checkpoint_read(g, path);
    if (!cfx_ok())
        return;
    cfx_module_load_state_dict(m, cfx_as_dict(cfx_dict_get(cfx_as_dict(c), "model")), true);
    cfx_optim_load_state_dict(o, cfx_as_dict(cfx_dict_get(cfx_as_dict(c), "optim")));
}

static bool train(cfx_group *g, void *user) {
    training *t = user;
    const int rank = cfx_group_rank(g), size = cfx_group_size(g);
    cfx_tensor *x, *y;
    data(&x, &y);
    cfx_manual_seed((uint64_t)rank + 1); /* other numbers on each: rank 0's count */
    cfx_module *m = network();
    cfx_data_parallel *dp = cfx_data_parallel_new(g, m, t->bucket);
    cfx_optim *o = cfx_adam(m, .lr = 0.01);
    cfx_manual_seed(5);
    cfx_loader *loader = cfx_loader_new(cfx_list(x, y), .batch_size = BATCH / size,
                                        .shuffle = t->shuffle, .ranks = size, .rank = rank);
    for (int i = 0; i < STEPS && cfx_ok(); i++) CFX_SCOPE {
        cfx_value batch;
        if (!cfx_loader_batch(loader, &batch))
            cfx_loader_batch(loader, &batch);
        cfx_optim_zero_grad(o);
        cfx_tensor *loss = cfx_mse_loss(cfx_forward(m, cfx_tensor_at(batch, 0)),
                                        cfx_tensor_at(batch, 1));
        cfx_backward(loss);
        cfx_data_parallel_finish(dp);
        cfx_optim_step(o);
        cfx_tensor *mean = size > 1 ? cfx_as_tensor(cfx_op_do(
                                          cfx_op_find("_c10d_functional::all_reduce"),
                                          cfx_detach(loss), "avg", "0"))
                                    : loss;
        if (rank == 0)
            t->loss[i] = cfx_tensor_get(mean, 0);
        if (t->path && i == STEPS / 2) {
            save(g, m, o, t->path);
            for (int k = 0; k < 3; k++) /* what comes after is lost, and made again */
                cfx_optim_step(o);
            resume(g, m, o, t->path);
        }
    }
    const cfx_tensor *w = cfx_as_tensor(cfx_module_attr(m, "4.weight"));
    if (rank == size - 1)
        memcpy(t->weight, cfx_tensor_data(w), sizeof t->weight);
    return cfx_ok();
}

static bool near(const training *a, const training *b, double tol) {
    bool same = true;
    for (int i = 0; i < STEPS; i++)
        same &= a->loss[i] - b->loss[i] <= tol && b->loss[i] - a->loss[i] <= tol;
    for (int i = 0; i < WIDTH; i++)
        same &= a->weight[i] - b->weight[i] <= tol && b->weight[i] - a->weight[i] <= tol;
    return same;
}

TEST(ranks_learn_what_one_learns_with_the_whole_batch) {
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        training one = {.shuffle = shuffle};
        CHECK(cfx_group_simulate(1, train, &one));
        CHECK(one.loss[STEPS - 1] < one.loss[0]);
        for (int n = 2; n <= 4; n++)
            for (int64_t bucket = 0; bucket <= 200; bucket += 100) {
                training many = {.shuffle = shuffle, .bucket = bucket}, again = many;
                CHECK(cfx_group_simulate(n, train, &many));
                CHECK(near(&one, &many, 1e-5));
                CHECK(cfx_group_simulate(n, train, &again));
                CHECK(near(&many, &again, 0));
            }
    }
}

TEST(rank_0_writes_checkpoints_and_all_resume) {
    char path[] = "/tmp/cfx_ranks_XXXXXX";
    close(mkstemp(path));
    training plain = {.shuffle = true}, resumed = {.shuffle = true, .path = path};
    CHECK(cfx_group_simulate(3, train, &plain));
    CHECK(cfx_group_simulate(3, train, &resumed));
    CHECK(near(&plain, &resumed, 0));
    unlink(path);
}

static bool another(cfx_group *g, void *user) {
    (void)user;
    cfx_module *m = cfx_nn_linear(2, cfx_group_rank(g) == 1 ? 3 : 2);
    return cfx_data_parallel_new(g, m, 0) != NULL;
}

TEST(ranks_with_other_models_are_told) {
    CHECK(!cfx_group_simulate(3, another, NULL));
    CHECK_ERROR("rank 1 on this machine has another model than rank 0 on this machine");
}

/* A parameter that takes part on one rank alone. */
static bool unused(cfx_group *g, void *user) {
    (void)user;
    cfx_module *m = cfx_nn_sequential(cfx_nn_linear(1, 1, .no_bias = true),
                                      cfx_nn_linear(1, 1, .no_bias = true));
    cfx_data_parallel *dp = cfx_data_parallel_new(g, m, 0);
    cfx_tensor *a = cfx_as_tensor(cfx_module_attr(m, "0.weight"));
    cfx_tensor *b = cfx_as_tensor(cfx_module_attr(m, "1.weight"));
    cfx_tensor *y = cfx_group_rank(g) ? cfx_mul(a, 4) : cfx_add(cfx_mul(a, 2), cfx_mul(b, 6));
    cfx_backward(cfx_sum(y));
    CHECK(cfx_data_parallel_finish(dp));
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_grad(a), 0), 3, 0);
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_grad(b), 0), 3, 0);
    return cfx_ok();
}

TEST(a_gradient_that_a_rank_lacks_counts_as_zero) { CHECK(cfx_group_simulate(2, unused, NULL)); }

TEST(an_epoch_is_split_as_pytorch_splits_it) {
    /* DistributedSampler(range(7), 3, r, shuffle=False): 0 3 6, 1 4 0, 2 5 1; dropping: 0 3 .. */
    const int64_t want[3][3] = {{0, 3, 6}, {1, 4, 0}, {2, 5, 1}};
    for (int drop = 0; drop < 2; drop++)
        for (int r = 0; r < 3; r++) {
            cfx_loader *l = cfx_loader_new(cfx_arange(7), .batch_size = 1, .drop_last = drop,
                                           .ranks = 3, .rank = r);
            CHECK_INT(cfx_loader_count(l), drop ? 2 : 3);
            cfx_value batch;
            for (int epoch = 0; epoch < 2; epoch++) {
                int i = 0;
                for (; cfx_loader_batch(l, &batch); i++)
                    CHECK_INT(cfx_tensor_get(cfx_tensor_at(batch, 0), 0), want[r][i]);
                CHECK_INT(i, drop ? 2 : 3);
            }
        }
    CHECK(!cfx_loader_new(cfx_arange(7), .ranks = 2, .rank = 2));
    CHECK_ERROR("there is no rank 2 among 2");
}

TEST(a_hash_tells_files_apart) {
    char path[] = "/tmp/cfx_hash_XXXXXX";
    int fd = mkstemp(path);
    uint64_t a = 0, b = 0, c = 0;
    CHECK(write(fd, "twelve bytes", 12) == 12);
    CHECK(cfx_file_hash(path, &a) && cfx_file_hash(path, &b) && a == b);
    CHECK(pwrite(fd, "T", 1, 0) == 1);
    CHECK(cfx_file_hash(path, &c) && c != a);
    close(fd);
    unlink(path);
    CHECK(!cfx_file_hash(path, &a));
    CHECK_ERROR("No such file or directory");
    CHECK(!cfx_file_hash("/", &a));
    CHECK_ERROR("Is a directory");
}
