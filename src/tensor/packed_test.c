/* Forms of a storage's data: found by what they are, made once. */
#include <cfx/ops.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "packed.h"
#include "test.h"

/* Keys are hashes: of two forms with one key, each is taken for itself by its size. */
TEST(a_packed_form_is_found_by_its_size_too) {
    cfx__storage *s = cfx_zeros(4)->storage;
    cfx__packed *small = cfx__packed_new(s, 7, 64);
    cfx__packed_keep(s, small);
    CHECK(cfx__packed_find(s, 7, 128) == NULL);
    cfx__packed *found = cfx__packed_find(s, 7, 64);
    CHECK(found == small);
    cfx_drop(found);
    cfx_drop(small);
}

/* ---- made once ------------------------------------------------------------------------------- */

enum { THREADS = 8 };

typedef struct {
    cfx__storage *storage;
    atomic_int made, waiting;
    cfx__packed *got[THREADS];
    atomic_int n;
} race;

static cfx__packed *make_slowly(void *user) {
    race *r = user;
    r->made++;
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    cfx__packed *f = cfx__packed_new(r->storage, 5, 64);
    memset(f->data, 1, 64);
    return f;
}

static void *ask(void *user) {
    race *r = user;
    r->waiting++;
    while (r->waiting < THREADS)
        sched_yield();
    cfx__packed *f = cfx__packed_get(r->storage, 5, 64, make_slowly, r);
    r->got[r->n++] = f;
    return NULL;
}

TEST(threads_that_start_at_once_pack_once) {
    race r = {.storage = cfx_zeros(4)->storage};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, ask, &r);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(r.made, 1);
    for (int i = 0; i < THREADS; i++) {
        CHECK(r.got[i] && r.got[i] == r.got[0] && ((char *)r.got[i]->data)[63] == 1);
        cfx_drop(r.got[i]);
    }
}

/* A form that is in the making while the process forks: the child, which has no such thread, makes
 * one of its own. */
typedef struct {
    cfx__storage *storage;
    atomic_bool begun, go_on;
} held_up;

static cfx__packed *make_when_told(void *user) {
    held_up *h = user;
    h->begun = true;
    while (!h->go_on)
        sched_yield();
    return cfx__packed_new(h->storage, 5, 64);
}

static void *pack_when_told(void *user) {
    held_up *h = user;
    cfx_drop(cfx__packed_get(h->storage, 5, 64, make_when_told, h));
    return NULL;
}

TEST(a_forked_child_does_not_wait_for_a_form_that_nobody_makes) {
    held_up h = {.storage = cfx_zeros(4)->storage};
    pthread_t thread;
    pthread_create(&thread, NULL, pack_when_told, &h);
    while (!h.begun)
        sched_yield();
    pid_t child = fork();
    if (!child) {
        alarm(60);
        race r = {.storage = h.storage};
        cfx__packed *f = cfx__packed_get(h.storage, 5, 64, make_slowly, &r);
        _exit(f && r.made == 1 ? 0 : 1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
    h.go_on = true;
    pthread_join(thread, NULL);
}

/* What could not be made is asked for again; what was made of other numbers is made anew. */
static cfx__packed *make_none(void *user) {
    ++*(int *)user;
    return NULL;
}

TEST(forms_that_could_not_be_made_are_tried_again) {
    cfx_tensor *t = cfx_zeros(4);
    race r = {.storage = t->storage};
    int tried = 0;
    CHECK(cfx__packed_get(t->storage, 5, 64, make_none, &tried) == NULL);
    CHECK(cfx__packed_get(t->storage, 5, 64, make_none, &tried) == NULL);
    CHECK_INT(tried, 2);
    cfx_drop(cfx__packed_get(t->storage, 5, 64, make_slowly, &r));
    cfx_drop(cfx__packed_get(t->storage, 5, 64, make_slowly, &r));
    CHECK_INT(r.made, 1);
    cfx_add_(t, 1);
    cfx_drop(cfx__packed_get(t->storage, 5, 64, make_slowly, &r));
    CHECK_INT(r.made, 2);
}

/* A form is written to files of prepared weights as it is: what lies behind the elements is not
 * what the memory had in it before. */
static void fill_ones(void *user, void *to) {
    memset(to, 1, *(size_t *)user);
}

TEST(nothing_that_was_in_memory_is_left_behind_a_form) {
    size_t bytes = 1000 * sizeof(float);
    cfx_tensor *t = cfx_zeros(1000);
    for (int i = 0; i < 8; i++) {
        char *before = cfx__alloc_aligned(bytes + 64);
        memset(before, 0xa5, bytes + 64);
        cfx__free(before);
        cfx_tensor *made = cfx__packed_tensor(t, (uint64_t)i, CFX_F32, 1, t->shape, fill_ones,
                                              &bytes);
        const char *end = (const char *)made->data + bytes;
        for (int k = 0; k < 64; k++)
            CHECK_INT(end[k], 0);
        CHECK_INT(end[-1], 1);
    }
}

/* Bytes of the pages at `at` that are in memory, by what the system says of this process. */
static long resident(const void *at) {
    char line[512];
    unsigned long from = 0, to = 0;
    long kib = -1;
    FILE *f = fopen("/proc/self/smaps", "r");
    while (f && kib < 0 && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            continue;
        if ((uintptr_t)at >= from && (uintptr_t)at < to)
            sscanf(line, "Rss: %ld", &kib);
    }
    if (f)
        fclose(f);
    return kib * 1024;
}

static cfx__packed *make_sum(void *user) {
    const cfx_tensor *t = user;
    cfx__packed *f = cfx__packed_new(t->storage, 1, sizeof(double));
    *(double *)f->data = cfx_tensor_get(cfx_sum(t), 0);
    return f;
}

/* Pages of a file whose numbers there are in another form are given back; not what was written. */
TEST(mapped_pages_are_given_back) {
    enum { N = 1 << 18 };
    const char *path = test_path("mapped.safetensors");
    cfx_dict *file = cfx_dict_new();
    cfx_dict_set(file, "a", cfx_tensor_value(cfx_ones(N)));
    CHECK(cfx_safetensors_write(path, file, NULL));
    for (int written = 0; written < 2; written++) CFX_SCOPE {
        cfx_tensor *t = cfx_as_tensor(cfx_dict_get(cfx_safetensors_read(path), "a"));
        if (written)
            cfx_add_(t, 1);
        cfx__packed *f = cfx__packed_get(t->storage, 1, sizeof(double), make_sum, t);
        const long bytes = resident((const char *)t->data + N);
        CHECK(written ? bytes >= N * 4 : bytes >= 0 && bytes < N);
        CHECK(*(double *)f->data == (written ? 2 : 1) * N);
        CHECK(cfx_tensor_get(cfx_sum(t), 0) == (written ? 2 : 1) * N);
        cfx_drop(f);
    }
    unlink(path);
    CHECK_OK();
}
