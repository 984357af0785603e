/* Products by a library on a card that is played: cuBLASLt's table filled with functions of the
 * host's, whose algorithms differ by the time that they say they take. */
#include <cfx.h>
#include <cfx/cuda.h>
#include <stdlib.h>
#include <string.h>

#include "../src/cuda/driver.h"
#include "card.h"
#include "files.h"

enum { ALGORITHMS = 4, DOES_NOT = 1 }; /* number 1 is one that does not do this */

/* What happened: by algorithm, how often it ran; what it takes. */
static struct {
    long ran[ALGORITHMS];
    float ms[ALGORITHMS];
    uint32_t reduction;
} library;

typedef struct {
    int turned[2], epilogue;
    const float *bias;
} descriptor;

typedef struct {
    uint64_t rows, cols;
    int64_t step;
} layout;

typedef struct { /* as the library lays out what it chose */
    uint64_t algorithm[8];
    size_t scratch;
    int state;
    float waves;
    int reserved[4];
} choice;

static int make_handle(void **made) {
    static int handle;
    *made = &handle;
    return 0;
}
static int leave(void *handle) { return !handle; }
static int release(void *p) {
    free(p);
    return 0;
}

static int desc_create(void **made, int compute, int scale) {
    (void)scale;
    *made = calloc(1, sizeof(descriptor));
    return compute != 68; /* float32 as float32 */
}

static int desc_set(void *d, int which, const void *to, size_t size) {
    descriptor *of = d;
    void *places[] = {[3] = &of->turned[0], [4] = &of->turned[1], [7] = &of->epilogue,
                      [8] = &of->bias};
    if (which < 3 || which > 8 || !places[which])
        return 1;
    memcpy(places[which], to, size);
    return 0;
}

static int layout_create(void **made, int type, uint64_t rows, uint64_t cols, int64_t step) {
    layout *l = calloc(1, sizeof *l);
    *l = (layout){rows, cols, step};
    *made = l;
    return type != 0;
}
static int layout_set(void *l, int which, const void *to, size_t size) {
    (void)l, (void)which, (void)to, (void)size;
    return 1; /* no batches */
}

static int choice_create(void **made) {
    *made = calloc(1, 1);
    return 0;
}
static int choice_set(void *p, int which, const void *to, size_t size) {
    if (p && which == 3 && size == sizeof library.reduction)
        memcpy(&library.reduction, to, size);
    return 0;
}

static int choose(void *handle, void *desc, void *a, void *b, void *c, void *d, void *prefer,
                  int most, void *found, int *n) {
    (void)handle, (void)desc, (void)a, (void)b, (void)c, (void)d, (void)prefer;
    choice *to = found;
    for (*n = 0; *n < ALGORITHMS && *n < most; ++*n)
        to[*n] = (choice){.algorithm = {(uint64_t)*n}, .scratch = 64 * (size_t)*n,
                          .state = *n == DOES_NOT};
    return 0;
}

/* A product as the stream does it. */
typedef struct {
    descriptor how;
    layout of[4];
    const float *a, *b, *c;
    float *d, alpha, beta;
    int algorithm;
} multiplied;

static float element(const float *m, const layout *l, int turned, uint64_t row, uint64_t col) {
    return turned ? m[(int64_t)row * l->step + (int64_t)col]
                  : m[(int64_t)col * l->step + (int64_t)row];
}

static void multiply(const void *what) {
    multiplied p;
    memcpy(&p, what, sizeof p);
    const layout *a = &p.of[0], *b = &p.of[1], *d = &p.of[3];
    const uint64_t inner = p.how.turned[0] ? a->rows : a->cols;
    library.ran[p.algorithm]++;
    for (uint64_t j = 0; j < d->cols; j++)
        for (uint64_t i = 0; i < d->rows; i++) {
            double sum = 0;
            for (uint64_t k = 0; k < inner; k++)
                sum += (double)element(p.a, a, p.how.turned[0], i, k) *
                       (double)element(p.b, b, p.how.turned[1], k, j);
            float *to = &p.d[(int64_t)j * d->step + (int64_t)i];
            float v = p.alpha * (float)sum;
            if (p.beta != 0)
                v += p.beta * element(p.c, &p.of[2], 0, i, j);
            if (p.how.epilogue & 4)
                v += p.how.bias[i];
            *to = p.how.epilogue & 2 && v < 0 ? 0 : v;
        }
}

static int run(void *handle, void *desc, const void *alpha, const void *a, void *la, const void *b,
               void *lb, const void *beta, const void *c, void *lc, void *d, void *ld,
               const void *algorithm, void *scratch, size_t size, void *stream) {
    (void)handle, (void)scratch, (void)stream;
    uint64_t number;
    memcpy(&number, algorithm, sizeof number);
    if (number >= ALGORITHMS || number == DOES_NOT || size != 64 * number)
        return 7;
    multiplied p = {.how = *(descriptor *)desc,
                    .of = {*(layout *)la, *(layout *)lb, *(layout *)lc, *(layout *)ld},
                    .a = a, .b = b, .c = c, .d = d, .alpha = *(const float *)alpha,
                    .beta = *(const float *)beta, .algorithm = (int)number};
    card_job job = {.does = multiply, .ms = library.ms[number]};
    _Static_assert(sizeof p <= sizeof job.what, "a product is a job");
    memcpy(job.what, &p, sizeof p);
    return card_do(&job);
}

static const cfx__cuda_blas blas = {.create = make_handle,
                                    .destroy = leave,
                                    .desc_create = desc_create,
                                    .desc_destroy = release,
                                    .desc_set = desc_set,
                                    .layout_create = layout_create,
                                    .layout_destroy = release,
                                    .layout_set = layout_set,
                                    .choice_create = choice_create,
                                    .choice_destroy = release,
                                    .choice_set = choice_set,
                                    .choose = choose,
                                    .run = run};

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    return cfx_relu(cfx_call(self, "to", x));
}

/* Runs a layer of many rows three times, and gives what the last run began with and how often each
 * algorithm ran in it. */
static void runs_by(const float *ms, long *ran) {
    memset(&library, 0, sizeof library);
    memcpy(library.ms, ms, sizeof library.ms);
    CFX_SCOPE {
        cfx_manual_seed(1);
        cfx_module *m = cfx_module_new("Layer", forward, "x");
        cfx_nn_add(m, "to", cfx_nn_linear(24, 40));
        cfx_tensor *x = cfx_randn(48, 24);
        cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE);
        const cfx_value on_host = cfx_program_run(p, x);
        for (int i = 0; i < 3; i++) {
            memset(library.ran, 0, sizeof library.ran);
            const cfx_value y =
                cfx_program_run_with(CFX_HERE, p, cfx_cuda_executor(0), NULL, CFX_ARGS(x));
            CHECK_OK();
            CHECK(card_apart(y, on_host) < 1e-5);
        }
        memcpy(ran, library.ran, sizeof library.ran);
    }
}

static cfx_tensor *forward_gelu(cfx_module *self, cfx_tensor *x) {
    return cfx_softmax(cfx_gelu(cfx_call(self, "to", x)), -1);
}

/* A layer whose gelu is part of our kernel, but one of its own behind the library's. */
static void runs_once(long *compiled, long *ran) {
    memset(library.ran, 0, sizeof library.ran);
    const long before = card.compiled;
    CFX_SCOPE {
        cfx_manual_seed(1);
        cfx_module *m = cfx_module_new("Layer", forward_gelu, "x");
        cfx_nn_add(m, "to", cfx_nn_linear(24, 40));
        cfx_tensor *x = cfx_randn(48, 24);
        cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE);
        cfx_program_run_with(CFX_HERE, p, cfx_cuda_executor(0), NULL, CFX_ARGS(x));
        CHECK_OK();
    }
    *compiled = card.compiled - before;
    memcpy(ran, library.ran, sizeof library.ran);
}

/* What one process found is all that the next one needs: it compiles and tries nothing. */
TEST(what_was_tried_once_is_known) {
    long compiled, ran[ALGORITHMS];
    if (!card_begin())
        return;
    CFX_SCOPE setenv("CFX_CACHE", test_path("."), 1);
    cfx__cuda_play_blas(&blas);
    runs_once(&compiled, ran);
    CHECK(compiled > 0);
    CHECK(ran[0] > 1 && ran[2] > 1 && ran[3] > 1);
    runs_once(&compiled, ran);
    CHECK_INT(compiled, 0);
    for (int i = 0; i < ALGORITHMS; i++) /* ours is one kernel less */
        CHECK_INT(ran[i], 0);
    cfx__cuda_play_blas(NULL);
    card_end();
    CHECK(test_folder_clear() > 0);
}

TEST(the_fastest_of_a_librarys_algorithms_is_taken) {
    static const struct {
        float ms[ALGORITHMS];
        int taken; /* -1: ours, which takes 1 ms a kernel */
    } cases[] = {{{0.5f, 0, 0.5f, 0.5f}, 0},    {{0.5f, 0, 0.2f, 0.3f}, 2},
                 {{0.9f, 0, 0.8f, 0.1f}, 3},    {{0.5f, 0, 0.49f, 0.49f}, 0}, /* no clear gain */
                 {{2, 0, 2, 2}, -1}};
    if (!card_begin())
        return;
    cfx__cuda_play_blas(&blas);
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        long ran[ALGORITHMS];
        runs_by(cases[i].ms, ran);
        CHECK_INT(library.reduction, 2);
        for (int k = 0; k < ALGORITHMS; k++)
            CHECK_INT(ran[k], k == cases[i].taken);
    }
    cfx__cuda_play_blas(NULL);
    card_end();
}
