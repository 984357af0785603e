/* Tests of the libraries that are opened when first needed. */
#include "libraries.h"

#include "test.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static int threads_of_process(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static bool is_mapped(const char *library) {
    char line[512];
    bool found = false;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && !found && fgets(line, sizeof line, f))
        found = strstr(line, library);
    if (f)
        fclose(f);
    return found;
}

static void *ask(void *arg) {
    *(const lapack_library **)arg = library_lapack();
    cfx_finish(stderr);
    return NULL;
}

/* Nothing is loaded before it is asked for, and what is loaded starts no threads. */
TEST(lapack_is_opened_when_needed) {
    cfx_set_num_threads(1);
    cfx_tensor *x = cfx_randn(64, 64);
    cfx_tensor *y = cfx_matmul(x, x);
    CHECK_OK();
    CHECK(!is_mapped("libopenblas"));
    const int before = threads_of_process();
    cfx_tensor *back = cfx_matmul(cfx_linalg_inv(x), y);
    if (library_was_missed()) {
        cfx_error_clear();
        test_fail(CFX_HERE, "no LAPACK");
        return;
    }
    CHECK_OK();
    CHECK(is_mapped("libopenblas"));
    CHECK_INT(threads_of_process(), before);
    cfx_tensor *far = cfx_amax(cfx_abs(cfx_sub(back, x)));
    CHECK(cfx_number(cfx_item(far)) < 1e-3);
}

/* Whoever comes first opens it; all have the same. */
TEST(lapack_is_opened_once) {
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    const lapack_library *seen[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, ask, &seen[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    if (!seen[0]) {
        test_fail(CFX_HERE, "no LAPACK");
        return;
    }
    for (int i = 1; i < THREADS; i++)
        CHECK(seen[i] == seen[0]);
    CHECK(seen[0]->s.getrf && seen[0]->z.gelsd);
}

#ifdef CFX_DNN
static atomic_int step;

static void *stay_inside(void *arg) {
    const bool in = library_onednn_enter();
    step = 1;
    while (step == 1)
        sched_yield();
    if (in)
        library_onednn_leave();
    return arg;
}

/* Large enough for oneDNN, where it is to be had: the gradient of a convolution, and a product. */
static bool computes(void) {
    cfx_tensor *x = cfx_ones(2, 4, 16, 16), *w = cfx_requires_grad(cfx_ones(4, 4, 3, 3), true);
    cfx_backward(cfx_sum(cfx_conv2d(x, w)));
    cfx_tensor *a = cfx_ones(128, 128), *b = cfx_matmul(a, cfx_ones(128, 128));
    return cfx_ok() && cfx_number(cfx_item(cfx_amax(cfx_tensor_grad(w)))) == 2 * 14 * 14 &&
           cfx_number(cfx_item(cfx_amin(b))) == 128;
}

/* The locks that a thread holds in oneDNN are held for ever in a child that lacks the thread. */
TEST(a_child_forked_while_onednn_computes_does_without_it) {
    CHECK(computes()); /* primitives of this thread are kept, and left alone in the child */
    const bool had = library_onednn() != NULL;
    for (int busy = 0; busy < 2; busy++) {
        pthread_t thread;
        step = 0;
        if (busy) {
            pthread_create(&thread, NULL, stay_inside, NULL);
            while (!step)
                sched_yield();
        }
        const pid_t child = fork();
        if (!child) {
            alarm(60);
            const bool has = library_onednn() != NULL, fine = computes();
            _exit(!fine ? 1 : has != (had && !busy) ? 2 : 0);
        }
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK_INT(status, 0);
        step = 2;
        if (busy)
            pthread_join(thread, NULL);
    }
    CHECK((library_onednn() != NULL) == had);
    CHECK(computes());
}
#endif
