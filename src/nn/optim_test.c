/* Optimisers, schedules and shuffled batches against what PyTorch did: tests/data/optim.txt, and
 * the program that wrote it is beside it. */
#include "test.h"

#include "optim.h"

#include <math.h>

static FILE *reference(void) {
    FILE *f = fopen(CFX_TEST_DATA "/optim.txt", "r");
    CHECK(f != NULL);
    return f;
}

/* "key=0.5" in the text of a call, or `otherwise`. */
static double number_in(const char *text, const char *key, double otherwise) {
    char want[64];
    snprintf(want, sizeof want, " %s=", key);
    const char *p = strstr(text, want);
    if (!p)
        return otherwise;
    p += strlen(want);
    return !strncmp(p, "True", 4) ? 1 : *p == '(' ? atof(p + 1) : atof(p);
}

static cfx_optim *optim_of(const char *text, cfx_tensor *p) {
    char type[32];
    snprintf(type, sizeof type, "%.*s", (int)strcspn(text, "("), text);
    cfx_optim_options o = {
        .lr = number_in(text, "lr", 0),
        .momentum = number_in(text, "momentum", 0),
        .dampening = number_in(text, "dampening", 0),
        .weight_decay = number_in(text, "weight_decay", 0),
        .eps = number_in(text, "eps", 0),
        .alpha = number_in(text, "alpha", 0),
        .lr_decay = number_in(text, "lr_decay", 0),
        .initial_accumulator_value = number_in(text, "initial_accumulator_value", 0),
        .nesterov = number_in(text, "nesterov", 0) != 0,
        .amsgrad = number_in(text, "amsgrad", 0) != 0,
        .centered = number_in(text, "centered", 0) != 0,
        .maximize = number_in(text, "maximize", 0) != 0,
    };
    const char *betas = strstr(text, "betas=(");
    if (betas)
        CHECK_INT(sscanf(betas, "betas=(%lf, %lf", &o.betas[0], &o.betas[1]), 2);
    return cfx_optim_new_from(CFX_HERE, type, cfx_list(p), o);
}

static cfx_tensor *start(void) {
    cfx_tensor *p = cfx_tensor_new(CFX_F32, 1, (int64_t[]){4}, (float[]){0.5f, -1, 2, 0});
    return cfx_requires_grad(p, true);
}

static void give_grad(cfx_tensor *p, int k) {
    cfx_grad_mode mode = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_tensor_set_grad(p, cfx_sin(cfx_add(cfx_mul(p, 3), k)));
    cfx_set_grad_mode(mode);
}

TEST(optimisers_step_as_pytorchs_do) {
    FILE *f = reference();
    char line[256];
    cfx_optim *o = NULL;
    cfx_tensor *p = NULL;
    char what[256] = "";
    int k = 0, cases = 0;
    while (f && fgets(line, sizeof line, f) && *line != '@') {
        if (*line == '=') {
            p = start();
            o = optim_of(line + 2, p);
            snprintf(what, sizeof what, "%s", line);
            k = 0;
            cases++;
        } else if (o && *line != '#') {
            double want[4];
            CHECK_INT(sscanf(line, "%lf %lf %lf %lf", &want[0], &want[1], &want[2], &want[3]), 4);
            give_grad(p, k++);
            cfx_optim_step(o);
            for (int i = 0; i < 4; i++)
                if (fabs(cfx_tensor_get(p, i) - want[i]) > 2e-6 * (1 + fabs(want[i])))
                    test_fail(CFX_HERE, "step %d: %.9g, want %.9g: %s", k, cfx_tensor_get(p, i),
                              want[i], what);
        }
    }
    CHECK(cases >= 20);
    if (f)
        fclose(f);
    CHECK_OK();
}

static double power_of_nine(int64_t epoch, void *user) {
    return pow(*(double *)user, (double)epoch);
}

static double nine_tenths = 0.9;

static cfx_schedule *schedule_of(const char *text, cfx_optim *o) {
    char type[32];
    snprintf(type, sizeof type, "%.*s", (int)strcspn(text, "("), text);
    double a = 0, b = 0;
    const char *comma = strchr(text, ',');
    if (comma)
        sscanf(comma, ", %lf, %lf", &a, &b);
    cfx_schedule_options s = {
        .gamma = number_in(text, "gamma", 0),
        .eta_min = number_in(text, "eta_min", 0),
        .start_factor = number_in(text, "start_factor", 0),
        .end_factor = number_in(text, "end_factor", 0),
        .factor = number_in(text, "factor", 0),
        .power = number_in(text, "power", 0),
        .pct_start = number_in(text, "pct_start", 0),
        .min_lr = number_in(text, "min_lr", 0),
        .total_iters = (int64_t)number_in(text, "total_iters", 0),
        .patience = (int64_t)number_in(text, "patience", 0),
        .cooldown = (int64_t)number_in(text, "cooldown", 0),
        .three_phase = number_in(text, "three_phase", 0) != 0,
        .linear = strstr(text, "'linear'") != NULL,
        .lambda = power_of_nine,
        .user = &nine_tenths,
    };
    if (strstr(text, "patience=0"))
        s.patience = CFX_ZERO;
    if (strstr(text, "[2, 5, 5, 7]"))
        memcpy(s.milestones, (int64_t[]){2, 5, 5, 7}, 4 * sizeof(int64_t));
    return cfx_schedule_new_from(CFX_HERE, type, o, a, b, s);
}

TEST(schedules_are_pytorchs) {
    FILE *f = reference();
    char line[256], what[256] = "";
    cfx_optim *o = NULL;
    cfx_schedule *s = NULL;
    int k = 0, cases = 0;
    bool plateau = false;
    while (f && fgets(line, sizeof line, f)) {
        if (*line == '@') {
            o = cfx_sgd(cfx_list(start()), .lr = 0.1, .momentum = 0.9);
            s = schedule_of(line + 2, o);
            snprintf(what, sizeof what, "%s", line);
            plateau = strstr(line, "Plateau") != NULL;
            k = 0;
            cases++;
        } else if (*line == '~') {
            break;
        } else if (s && *line != '#') {
            double lr, momentum;
            CHECK_INT(sscanf(line, "%lf %lf", &lr, &momentum), 2);
            const cfx_optim_options *now = cfx_optim_group(o, 0);
            if (fabs(now->lr - lr) > 1e-11 || fabs(now->momentum - momentum) > 1e-11)
                test_fail(CFX_HERE, "epoch %d: %.12g %.12g, want %s of %s", k, now->lr,
                          now->momentum, line, what);
            if (plateau)
                cfx_schedule_step_on(s, 1.0 / (1 + (k < 4 ? k : 4)));
            else if (k < 9)
                cfx_schedule_step(s);
            k++;
        }
    }
    CHECK(cases >= 14);
    if (f)
        fclose(f);
    CHECK_OK();
}

TEST(batches_are_shuffled_as_pytorch_shuffles) {
    FILE *f = reference();
    char line[256];
    cfx_loader *l = NULL;
    int epochs = 0;
    while (f && fgets(line, sizeof line, f)) {
        long long n, size;
        if (sscanf(line, "~ %lld %lld", &n, &size) == 2) {
            cfx_manual_seed(5);
            l = cfx_loader_new(cfx_arange(n), .batch_size = size, .shuffle = true);
            CHECK_INT(cfx_loader_count(l), (n + size - 1) / size);
        } else if (*line == '!') {
            break;
        } else if (l) {
            cfx__text got = {0};
            cfx_value batch;
            while (cfx_loader_batch(l, &batch)) {
                const cfx_tensor *t = cfx_tensor_at(batch, 0);
                for (int64_t i = 0; i < t->numel; i++)
                    cfx__text_printf(&got, "%s%d",
                                     i         ? ","
                                     : got.len ? " "
                                               : "",
                                     (int)cfx_tensor_get(t, i));
            }
            cfx__text_putc(&got, '\n');
            CHECK_STR(got.data, line);
            cfx__text_release(&got);
            epochs++;
        }
    }
    CHECK_INT(epochs, 6);
    if (f)
        fclose(f);
    l = cfx_loader_new(cfx_list(cfx_arange(5), cfx_ones(5, 2)), .batch_size = 2, .drop_last = true);
    cfx_value batch;
    int batches = 0;
    while (cfx_loader_batch(l, &batch))
        batches++;
    CHECK_INT(batches, 2);
    CHECK(!cfx_loader_new(cfx_list(cfx_ones(2), cfx_ones(3))));
    CHECK_ERROR("Size mismatch between tensors");
}

TEST(gradients_are_clipped) {
    cfx_tensor *p = cfx_tensor_new(CFX_F32, 1, (int64_t[]){2}, (float[]){3, 4});
    cfx_tensor *q = cfx_tensor_new(CFX_F32, 1, (int64_t[]){1}, (float[]){1});
    cfx_tensor_set_grad(p, cfx_tensor_new(CFX_F32, 1, (int64_t[]){2}, (float[]){3, -4}));
    cfx_tensor_set_grad(q, cfx_tensor_new(CFX_F32, 1, (int64_t[]){1}, (float[]){12}));
    CHECK_NEAR(cfx_clip_grad_norm(cfx_list(p, q), 6.5), 13, 0);
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_grad(p), 0), 1.49999988, 1e-8);
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_grad(q), 0), 5.99999952, 1e-8);
    cfx_clip_grad_value(cfx_list(p, q), 1.75);
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_grad(p), 1), -1.75, 0);
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_grad(q), 0), 1.75, 0);
    CHECK_OK();
}

TEST(an_optimiser_goes_on_where_its_state_was_saved) {
    static const char *const types[] = {"SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta"};
    for (int i = 0; i < COUNT(types); i++) {
        cfx_optim_options how = {.lr = 0.1, .momentum = 0.9};
        cfx_tensor *p = start(), *q;
        cfx_optim *a = cfx_optim_new_from(CFX_HERE, types[i], cfx_list(p), how);
        for (int k = 0; k < 3; k++) {
            give_grad(p, k);
            cfx_optim_step(a);
        }
        q = cfx_requires_grad(cfx_clone(cfx_detach(p)), true);
        cfx_optim *b = cfx_optim_new_from(CFX_HERE, types[i], cfx_list(q), (cfx_optim_options){0});
        CHECK(cfx_optim_load_state_dict(b, cfx_optim_state_dict(a)));
        for (int k = 3; k < 6; k++) {
            give_grad(p, k);
            give_grad(q, k);
            cfx_optim_step(a);
            cfx_optim_step(b);
        }
        for (int64_t j = 0; j < 4; j++)
            CHECK_NEAR(cfx_tensor_get(q, j), cfx_tensor_get(p, j), 0);
    }
    cfx_optim *two = cfx_sgd(cfx_list(start(), start()), .lr = 1),
              *one = cfx_sgd(cfx_list(start()));
    CHECK(!cfx_optim_load_state_dict(one, cfx_optim_state_dict(two)));
    CHECK_ERROR("loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group");
}

TEST(groups_have_options_of_their_own) {
    cfx_dict *slow = cfx_dict_new(), *fast = cfx_dict_new();
    cfx_tensor *p = start(), *q = start();
    cfx_dict_set(slow, "params", cfx_list(p));
    cfx_dict_set(slow, "lr", cfx_float(0.01));
    cfx_dict_set(fast, "params", cfx_list(q));
    cfx_optim *o = cfx_sgd(cfx_list(slow, fast), .lr = 0.5);
    CHECK_INT(cfx_optim_groups(o), 2);
    CHECK_NEAR(cfx_optim_group(o, 0)->lr, 0.01, 0);
    CHECK_NEAR(cfx_optim_group(o, 1)->lr, 0.5, 0);
    cfx_tensor_set_grad(q, cfx_ones(4));
    cfx_optim_step(o);
    CHECK_NEAR(cfx_tensor_get(p, 0), 0.5, 0);
    CHECK_NEAR(cfx_tensor_get(q, 0), 0, 0);
    cfx_optim_zero_grad(o);
    CHECK(!cfx_tensor_grad(q));
    CHECK_OK();
}

TEST(optimisers_refuse_in_pytorchs_words) {
    cfx_tensor *p = start();
    CHECK(!cfx_sgd(cfx_list(p), .lr = -1));
    CHECK_ERROR("Invalid learning rate: -1.0");
    CHECK(!cfx_sgd(cfx_list(p), .nesterov = true));
    CHECK_ERROR("Nesterov momentum requires a momentum and zero dampening");
    CHECK(!cfx_adam(cfx_list(p), .betas = {1, 0.9}));
    CHECK_ERROR("Invalid beta parameter at index 0: 1.0");
    CHECK(!cfx_sgd(cfx_list_value(0, NULL)));
    CHECK_ERROR("optimizer got an empty parameter list");
    CHECK(!cfx_sgd(cfx_list(cfx_mul(p, 2))));
    CHECK_ERROR("can't optimize a non-leaf Tensor");
    CHECK(!cfx_sgd(cfx_list(3)));
    CHECK_ERROR("optimizer can only optimize Tensors, but one of the params is int");
    CHECK(!cfx_optim_new("Nope", cfx_list(p)));
    CHECK_ERROR("module 'torch.optim' has no attribute 'Nope'");
}
