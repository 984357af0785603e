/* Three ranks train a network together and then serve it: each on its share of the data, with
 * gradients averaged over the ranks; then as a pipeline in which each rank has one part of it.
 *
 *     mpirun -n 3 25_ranks        the ranks are processes, on one machine or several
 *     25_ranks                    they are threads of this process: the numbers are the same */
#include <cfx.h>

enum { RANKS = 3, POINTS = 360, BATCH = 36, EPOCHS = 12, REQUESTS = 5 };

/* Points in a plane, inside of a ring or not. */
static void draw(cfx_tensor **points, cfx_tensor **labels) {
    float x[POINTS][2];
    int64_t y[POINTS];
    unsigned noise = 1;
    for (int i = 0; i < POINTS; i++) {
        for (int k = 0; k < 2; k++) {
            noise = noise * 1664525u + 1013904223u;
            x[i][k] = (float)(noise >> 8) / (1 << 23) - 1;
        }
        float r = x[i][0] * x[i][0] + x[i][1] * x[i][1];
        y[i] = r > 0.15f && r < 0.7f;
    }
    *points = cfx_tensor_new(CFX_F32, 2, (int64_t[]){POINTS, 2}, x);
    *labels = cfx_tensor_new(CFX_I64, 1, (int64_t[]){POINTS}, y);
}

static cfx_module *network(void) {
    return cfx_nn_sequential(
        cfx_nn_sequential(cfx_nn_linear(2, 32), cfx_nn_relu()),
        cfx_nn_sequential(cfx_nn_linear(32, 32), cfx_nn_relu()),
        cfx_nn_sequential(cfx_nn_linear(32, 2), cfx_nn_softmax(-1)));
}

/* ---- training -------------------------------------------------------------------------------- */

static void train(cfx_group *g, cfx_module *m, cfx_tensor *x, cfx_tensor *y) {
    const int rank = cfx_group_rank(g), size = cfx_group_size(g);
    cfx_data_parallel *all = cfx_data_parallel_new(g, m, 0);
    cfx_optim *optim = cfx_adam(m, .lr = 0.02);
    cfx_manual_seed(1); /* the same order on all ranks, of which each takes its part */
    cfx_loader *loader = cfx_loader_new(cfx_list(x, y), .batch_size = BATCH / size, .shuffle = true,
                                        .ranks = size, .rank = rank);
    cfx_op *reduce = cfx_op_find("_c10d_functional::all_reduce");
    double first = 0, last = 0;
    for (int epoch = 0; epoch < EPOCHS && cfx_ok(); epoch++) {
        cfx_tensor *sum = cfx_zeros(1);
        cfx_value batch;
        while (cfx_loader_batch(loader, &batch)) {
            cfx_optim_zero_grad(optim);
            cfx_tensor *p = cfx_forward(m, cfx_tensor_at(batch, 0));
            cfx_tensor *loss = cfx_nll_loss(cfx_log(p), cfx_tensor_at(batch, 1));
            cfx_backward(loss);
            cfx_data_parallel_finish(all); /* most of it was done while backward ran */
            cfx_optim_step(optim);
            cfx_add_(sum, cfx_detach(loss));
        }
        cfx_tensor *mean = cfx_as_tensor(cfx_op_do(reduce, sum, "avg", "0"));
        if (epoch == 0)
            first = cfx_tensor_get(mean, 0);
        last = cfx_tensor_get(mean, 0);
    }
    if (rank == 0)
        printf("trained on %d ranks for %d epochs: the loss fell by %s\n", size, EPOCHS,
               last < first * 2 / 3 ? "more than a third" : "too little");
}

/* ---- serving --------------------------------------------------------------------------------- */

typedef struct {
    cfx_tensor *points, *labels;
    int given, taken, right;
} requests;

static cfx_value next_request(void *user) {
    requests *r = user;
    const int n = POINTS / REQUESTS;
    return r->given == REQUESTS ? CFX_NONE : cfx_tuple(cfx_narrow(r->points, 0, n * r->given++, n));
}

static bool take_answer(cfx_value answer, void *user) {
    requests *r = user;
    const int n = POINTS / REQUESTS;
    cfx_tensor *want = cfx_narrow(r->labels, 0, n * r->taken++, n);
    r->right += (int)cfx_tensor_get(cfx_sum(cfx_eq(cfx_argmax(cfx_as_tensor(answer), 1), want)), 0);
    return cfx_ok();
}

static bool serve(cfx_group *g, cfx_module *m, cfx_tensor *x, cfx_tensor *y) {
    static const char *const parts[RANKS] = {"0", "1", "2"};
    static const int widths[RANKS] = {2, 32, 32};
    const int rank = cfx_group_rank(g);
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_module *part = cfx_as_module(cfx_module_attr(m, parts[rank]));
    cfx_tensor *sample = cfx_zeros(POINTS / REQUESTS, widths[rank]);
    cfx_program *stage = cfx_export(part, cfx_tuple(sample), CFX_NONE, CFX_NONE);
    cfx_pipeline *line = cfx_pipeline_new(g, stage, stage->out_spec);
    requests r = {.points = x, .labels = y};
    if (!cfx_pipeline_run(line, next_request, take_answer, &r))
        return false;
    if (rank == 0)
        printf("served %d requests over %d stages: %s of the answers are right\n", r.given,
               cfx_group_size(g), r.right > POINTS * 3 / 4 ? "most" : "too few");
    return true;
}

static bool work(cfx_group *g, void *user) {
    cfx_tensor *x, *y;
    (void)user;
    if (cfx_group_size(g) != RANKS) {
        cfx_fail(CFX_VALUE_ERROR, CFX_HERE, "this example is for %d ranks", RANKS);
        return false;
    }
    draw(&x, &y);
    cfx_manual_seed(2);
    cfx_module *m = network();
    train(g, m, x, y);
    return serve(g, m, x, y) && cfx_ok();
}

int main(void) {
    if (cfx_mpi_ranks() < 2) {
        cfx_group_simulate(RANKS, work, NULL);
        return cfx_finish(stderr);
    }
    cfx_group *g = cfx_group_open_mpi();
    if (!g)
        return cfx_finish(stderr);
    cfx_set_group(g);
    work(g, NULL);
    cfx_group_end(g, NULL);
    return cfx_finish(stderr);
}
