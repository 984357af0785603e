/* Training: a small convolutional network learns to tell bars apart, in pictures that the program
 * draws itself. It saves a checkpoint halfway and resumes from it with the same numbers, and its
 * traced form learns the same way. */
#include <cfx.h>

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { PICTURES = 240, SIDE = 8, CLASSES = 3, EPOCHS = 8 };

typedef struct training {
    cfx_module *model;
    cfx_optim *optim;
    cfx_schedule *schedule;
    double loss[EPOCHS];
} training;

/* Horizontal, vertical and diagonal bars in noise. */
static void draw(cfx_tensor **pictures, cfx_tensor **labels) {
    static float x[PICTURES][SIDE][SIDE];
    static int64_t y[PICTURES];
    unsigned noise = 1;
    for (int i = 0; i < PICTURES; i++) {
        y[i] = i % CLASSES;
        for (int r = 0; r < SIDE; r++)
            for (int c = 0; c < SIDE; c++) {
                int at = i / CLASSES % SIDE;
                bool bar = y[i] == 0 ? r == at : y[i] == 1 ? c == at : (r + c) % SIDE == at;
                noise = noise * 1664525u + 1013904223u;
                x[i][r][c] = (bar ? 1 : 0) + (float)(noise >> 8) / (1 << 24) - 0.5f;
            }
    }
    *pictures = cfx_tensor_new(CFX_F32, 4, (int64_t[]){PICTURES, 1, SIDE, SIDE}, x);
    *labels = cfx_tensor_new(CFX_I64, 1, (int64_t[]){PICTURES}, y);
}

static cfx_module *network(void) {
    return cfx_nn_sequential(cfx_nn_conv2d(1, 8, 3, .padding = 1), cfx_nn_relu(),
                             cfx_nn_max_pool2d(2), cfx_nn_conv2d(8, 8, 3, .padding = 1),
                             cfx_nn_relu(), cfx_nn_adaptive_avg_pool2d(2), cfx_nn_flatten(),
                             cfx_nn_linear(32, CLASSES));
}

static training start(cfx_module *model) {
    training t = {.model = model};
    t.optim = cfx_sgd(model, .lr = 0.2, .momentum = 0.9, .weight_decay = 1e-4);
    t.schedule = cfx_cosine_annealing_lr(t.optim, EPOCHS);
    return t;
}

/* A bar on a terminal; nothing elsewhere. */
static void progress(int epoch, int64_t batch, int64_t batches, double loss) {
    if (!isatty(fileno(stderr)))
        return;
    int full = (int)(20 * batch / batches);
    fprintf(stderr, "\repoch %d [%.*s%*s] loss %.3f ", epoch + 1, full, "####################",
            20 - full, "", loss);
    if (batch == batches && epoch == EPOCHS - 1)
        fprintf(stderr, "\r%*s\r", 60, "");
}

static double train_batch(training *t, cfx_module *criterion, cfx_value batch) {
    cfx_optim_zero_grad(t->optim);
    cfx_tensor *out = cfx_forward(t->model, cfx_tensor_at(batch, 0));
    cfx_tensor *loss = cfx_forward(criterion, out, cfx_tensor_at(batch, 1));
    cfx_backward(loss);
    cfx_clip_grad_norm(t->model, 5.0);
    cfx_optim_step(t->optim);
    return cfx_tensor_get(loss, 0);
}

static void run_epochs(training *t, cfx_loader *loader, int from, int to) {
    cfx_module *criterion = cfx_nn_cross_entropy_loss();
    for (int epoch = from; epoch < to; epoch++) {
        double sum = 0;
        int64_t batches = 0;
        for (bool more = true; more;) CFX_SCOPE {
            cfx_value batch;
            more = cfx_loader_batch(loader, &batch);
            if (more) {
                sum += train_batch(t, criterion, batch);
                batches++;
                progress(epoch, batches, cfx_loader_count(loader), sum / (double)batches);
            }
        }
        cfx_schedule_step(t->schedule);
        t->loss[epoch] = sum / (double)batches;
    }
}

static void save(const training *t, const char *path) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "model", cfx_dict_value(cfx_module_state_dict(t->model)));
    cfx_dict_set(d, "optim", cfx_dict_value(cfx_optim_state_dict(t->optim)));
    cfx_dict_set(d, "schedule", cfx_dict_value(cfx_schedule_state_dict(t->schedule)));
    cfx_dict_set(d, "random", cfx_tensor_value(cfx_get_rng_state()));
    cfx_checkpoint_write(path, cfx_dict_value(d));
}

static training resume(const char *path) {
    training t = start(network());
    cfx_dict *d = cfx_as_dict(cfx_checkpoint_read(path));
    cfx_module_load_state_dict(t.model, cfx_as_dict(cfx_dict_get(d, "model")), true);
    cfx_optim_load_state_dict(t.optim, cfx_as_dict(cfx_dict_get(d, "optim")));
    cfx_schedule_load_state_dict(t.schedule, cfx_as_dict(cfx_dict_get(d, "schedule")));
    cfx_set_rng_state(cfx_as_tensor(cfx_dict_get(d, "random")));
    return t;
}

static bool same_numbers(const cfx_module *a, const cfx_module *b) {
    cfx_dict *x = cfx_module_state_dict(a), *y = cfx_module_state_dict(b);
    bool same = x->len == y->len;
    for (int64_t i = 0; same && i < x->len; i++)
        same = cfx_tensor_get(cfx_max(cfx_abs(cfx_sub(x->entries[i].value, y->entries[i].value))),
                              0) == 0;
    return same;
}

static cfx_value count_gradients(cfx_event *e) {
    cfx_tensor *g = cfx_tensor_at(e->grad_out, 0);
    *(int *)e->user += isfinite(cfx_tensor_get(cfx_sum(cfx_abs(g)), 0)) ? 1 : 1000;
    return CFX_NONE;
}

int main(void) {
    cfx_tensor *pictures, *labels;
    draw(&pictures, &labels);
    cfx_manual_seed(0);
    cfx_module *model = network();
    cfx_module *traced = cfx_symbolic_trace(cfx_module_copy(model));
    printf("%lld parameters\n", (long long)cfx_module_numel(model));

    int seen = 0;
    cfx_backward_hook(model, "3", count_gradients, &seen);
    char path[] = "/tmp/cfx_train_XXXXXX";
    int fd = mkstemp(path);
    training t = start(model);
    cfx_loader *loader =
        cfx_loader_new(cfx_list(pictures, labels), .batch_size = 32, .shuffle = true);
    cfx_manual_seed(1);
    run_epochs(&t, loader, 0, EPOCHS / 2);
    save(&t, path);
    run_epochs(&t, loader, EPOCHS / 2, EPOCHS);
    for (int i = 0; i < EPOCHS; i++)
        printf("epoch %d  loss %.1f  %.*s\n", i + 1, t.loss[i], (int)(t.loss[i] * 20 + 0.5),
               "################################################");
    printf("gradients seen by the hook: %d of %d\n", seen, EPOCHS * (int)cfx_loader_count(loader));

    cfx_module_train(model, false);
    cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_tensor *right = cfx_eq(cfx_argmax(cfx_forward(model, pictures), 1), labels);
    printf("right: %.0f of %d\n", cfx_tensor_get(cfx_sum(right), 0), PICTURES);
    cfx_set_grad_mode(CFX_GRAD_ON);

    training again = resume(path);
    run_epochs(&again, loader, EPOCHS / 2, EPOCHS);
    printf("resumed from the checkpoint, the same numbers: %s\n",
           same_numbers(model, again.model) ? "yes" : "no");

    training graph = start(traced);
    cfx_manual_seed(1);
    run_epochs(&graph, loader, 0, EPOCHS);
    printf("the traced module learns the same: %s\n",
           fabs(graph.loss[EPOCHS - 1] - t.loss[EPOCHS - 1]) < 1e-6 ? "yes" : "no");
    close(fd);
    unlink(path);
    return cfx_finish(stderr);
}
