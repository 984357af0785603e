/* Forms of a storage's data: found by what they are, made once. */
#include <cfx/ops.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

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
