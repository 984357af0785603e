/* Threads that share a program: they run, tap, plan, train, open, quantize, decompose, fail and
 * free side by side, get the results that one thread gets, and leave no memory behind.
 * CFX_SOAK_SECONDS makes it longer, an hour say; `make tsan` looks for races. */
#include "../src/base/base.h"
#include "test.h"

#include <pthread.h>
#include <time.h>

#define ZOO CFX_TEST_DATA "/zoo/"

enum { THREADS = 8, ROUND = 9, PROGRAMS = 5 };

static const struct {
    const char *name;
    int bits; /* that its weights are rounded to; 0: it is as it was saved */
} made_of[PROGRAMS] = {{"seed_mlp", 0}, {"dyn_conv", 0}, {"cond", 0}, {"seed_mlp", 8},
                       {"seed_mlp", 4}};

typedef struct model {
    cfx_program *program; /* shared; counted */
    char *result, *reference, *plan, *taps; /* what one thread got from it */
} model;

typedef struct worker {
    pthread_t thread;
    const model *models;
    double until;
    int number, rounds;
    bool wrong;
} worker;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Dynamic int8, or weights of 4 bits; scope. */
static cfx_program *make(int which) {
    cfx_program *p = cfx_open(cfx__text_format(ZOO "%s/model.pt2", made_of[which].name));
    if (!made_of[which].bits)
        return p;
    const cfx_quantized *q = cfx_quantize(
        p, CFX_NONE,
        (cfx_quantize_options){.bits = made_of[which].bits,
                               .scheme = made_of[which].bits == 8 ? CFX_QUANTIZE_DYNAMIC
                                                                  : CFX_QUANTIZE_WEIGHT});
    return cfx_failed(q) ? NULL : q->program;
}

static cfx_value inputs_of(int which) {
    cfx_dict *d = cfx_safetensors_read(
        cfx__text_format(ZOO "%s/inputs.safetensors", made_of[which].name));
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; d && i < d->len; i++)
        cfx_list_append(cfx_as_list(list), d->entries[i].value);
    return list;
}

static cfx_args args_of(int which) {
    cfx_list *in = cfx_as_list(inputs_of(which));
    return (cfx_args){(int)in->len, in->items, NULL};
}

static const char *run(cfx_program *p, int which, const cfx_executor *x) {
    return cfx_str(cfx_program_run_with(CFX_HERE, p, x, NULL, args_of(which)));
}

static const char *plan(cfx_program *p, int which) {
    return cfx_program_plan_from(CFX_HERE, p, args_of(which));
}

/* All values of a module of the shared program's. */
static const char *taps(cfx_program *p, int which) {
    cfx_dict *seen = cfx_tap_from(CFX_HERE, cfx_program_module(p), "*", args_of(which));
    return cfx_str(cfx_dict_value(seen));
}

/* A step of training on a module of the shared program's, with weights of its own. */
static void train(cfx_program *p, int which) {
    cfx_module *m = cfx_module_copy(cfx_program_module(p));
    cfx_optim *o = cfx_sgd(m, .lr = 0.1);
    cfx_value out = cfx_forward_value_from(CFX_HERE, m, args_of(which));
    cfx_tensor *loss = out.tag == CFX_TAG_TENSOR ? cfx_sum(cfx_as_tensor(out)) : NULL;
    if (loss && cfx_tensor_requires_grad(loss)) {
        cfx_backward(loss);
        cfx_optim_step(o);
    }
}

static bool differ(const char *got, const char *want) { return !got || strcmp(got, want) != 0; }

static void round_of(worker *w) {
    int which = (w->number + w->rounds) % PROGRAMS;
    const model *m = &w->models[which];
    switch (w->rounds % ROUND) {
    case 0: w->wrong |= differ(run(m->program, which, NULL), m->result); break;
    case 1: w->wrong |= differ(run(m->program, which, &cfx_interpreter), m->reference); break;
    case 2: w->wrong |= differ(plan(m->program, which), m->plan); break;
    case 3: w->wrong |= differ(taps(m->program, which), m->taps); break;
    case 4:
        if (!made_of[which].bits)
            train(m->program, which);
        break;
    case 5: {
        cfx_program *own = make(which);
        w->wrong |= !own || differ(run(own, which, NULL), m->result);
        cfx_program_str(m->program);
        break;
    }
    case 6: w->wrong |= !cfx_decompose(m->program, CFX_NONE) || !cfx_optimize(m->program); break;
    case 7: /* with the threads that all callers share */
        cfx_set_num_threads(2);
        w->wrong |= differ(run(m->program, which, NULL), m->result);
        cfx_set_num_threads(1);
        break;
    default:
        cfx_program_run_from(CFX_HERE, m->program, (cfx_args){0, NULL, NULL});
        w->wrong |= cfx_ok(); /* there are no inputs */
        cfx_error_clear();
    }
    w->wrong |= !cfx_ok();
    w->rounds++;
}

static void *work(void *arg) {
    worker *w = arg;
    cfx_set_num_threads(1);
    while (!w->wrong && (w->rounds < ROUND || now() < w->until))
        CFX_SCOPE round_of(w);
    w->wrong |= cfx_finish(stdout) != 0;
    return NULL;
}

static int all_at_once(const model *models, double seconds) {
    worker w[THREADS];
    int rounds = 0;
    for (int i = 0; i < THREADS; i++) {
        w[i] = (worker){.models = models, .until = now() + seconds, .number = i};
        CHECK_INT(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(w[i].thread, NULL);
        if (w[i].wrong)
            test_fail(CFX_HERE, "thread %d got something else in round %d", i, w[i].rounds);
        rounds += w[i].rounds;
    }
    return rounds;
}

static char *kept(const char *text) { return text ? cfx__text_copy(text, strlen(text)) : NULL; }

TEST(threads_share_programs_for_as_long_as_one_likes) {
    const char *asked = getenv("CFX_SOAK_SECONDS");
    double seconds = asked ? strtod(asked, NULL) : 0.2;
    model models[PROGRAMS];
    cfx_set_num_threads(1); /* as each worker's, which plans tell */
    for (int i = 0; i < PROGRAMS; i++)
        CFX_SCOPE {
            models[i].program = cfx_keep(make(i));
            models[i].result = kept(run(models[i].program, i, NULL));
            models[i].reference = kept(run(models[i].program, i, &cfx_interpreter));
            models[i].plan = kept(plan(models[i].program, i));
            models[i].taps = kept(taps(models[i].program, i));
        }
    all_at_once(models, 0); /* what is set up on first use stays */
    size_t before = cfx_memory_held();
    int rounds = all_at_once(models, seconds);
    size_t after = cfx_memory_held();
    if (after > before + (1 << 20))
        test_fail(CFX_HERE, "%d rounds left %zu bytes behind", rounds, after - before);
    if (asked)
        printf("%d rounds; %zu bytes held before, %zu after\n", rounds, before, after);
    for (int i = 0; i < PROGRAMS; i++) {
        cfx_drop(models[i].program);
        cfx__free(models[i].result);
        cfx__free(models[i].reference);
        cfx__free(models[i].plan);
        cfx__free(models[i].taps);
    }
}
