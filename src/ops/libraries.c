/* Opens the libraries of libraries.h: once, by whichever thread needs one first.
 *
 * The table of a library is filled under the lock and read without one, once its state says that it
 * is there. What cannot be opened is not tried again, unless memory was what it lacked.
 *
 * A forked child has one thread, and whatever lock another one held is never released in it. So a
 * child does without a library that was being opened, or was computing, in another thread. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static atomic_bool missed;

bool library_was_missed(void) { return missed; }

/* ---- opening --------------------------------------------------------------------------------- */

#if defined(CFX_BLAS) || defined(CFX_DNN)
typedef enum { UNTRIED, THERE, MISSING } library_state;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool opening; /* some thread has the lock and is about to load a library */

#ifdef CFX_BLAS
/* Loads a library as if the machine had one core: OpenBLAS starts a thread for each other one. They
 * are not used here, and at exit it waits for ever for one that could not be started. */
static void *load_on_one_core(const char *file) {
    cpu_set_t all, one;
    const bool known = !sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int i = 0; known && i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    const bool alone = known && !sched_setaffinity(0, sizeof one, &one);
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (alone)
        sched_setaffinity(0, sizeof all, &all);
    return handle;
}
#endif

/* One library's state, and why it is missing. */
typedef struct {
    _Atomic library_state state;
    char why[256];
} opened;

/* Notes why a library is not there. Where the loader lacked memory it is asked again next time. */
static void note_missing(opened *l, const char *why) {
    snprintf(l->why, sizeof l->why, "%s", why ? why : "it cannot be loaded");
    l->state = strstr(l->why, "memory") ? UNTRIED : MISSING;
}

static void in_child(void);

/* Calls `open` unless another thread did meanwhile. Whether the child of a fork can be told what it
 * has to do without is settled first. */
static void open_once(opened *l, void (*open)(void)) {
    static bool told;
    pthread_mutex_lock(&lock);
    if (l->state == UNTRIED) {
        told = told || !pthread_atfork(NULL, NULL, in_child);
        opening = true;
        if (told)
            open();
        else
            note_missing(l, "there is no memory");
        opening = false;
    }
    pthread_mutex_unlock(&lock);
}

/* A function of the library. `at`, a pointer to a function, becomes it. */
static bool find(opened *l, void *handle, const char *name, void *at) {
    void *f = dlsym(handle, name);
    if (!f)
        note_missing(l, cfx__text_format("it has no function %s", name));
    memcpy(at, &f, sizeof f);
    return f != NULL;
}
#endif

/* ---- LAPACK ---------------------------------------------------------------------------------- */

#ifdef CFX_BLAS
/* OpenBLAS maps so much when it is loaded and when it first computes, and tries again for ever
 * where it gets no memory. */
enum { BLAS_NEEDS = 192 << 20 };

static opened blas;
static lapack_library lapack_table;
static _Thread_local bool has_room; /* seen by this thread */

#define NAME(name, symbol, arguments) symbol,
static bool bind_lapack(void *handle, char letter, const char *const *names, int n, void *table) {
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "%c%s_", letter, names[i]);
        if (!find(&blas, handle, name, (char *)table + (size_t)i * sizeof(void (*)(void))))
            return false;
    }
    return true;
}

static bool bind_all(void *handle) {
    static const char *const real[] = {LAPACK_BOTH(NAME) LAPACK_REAL(NAME)};
    static const char *const complex_[] = {LAPACK_BOTH(NAME) LAPACK_COMPLEX(NAME)};
    lapack_library *t = &lapack_table;
    return bind_lapack(handle, 's', real, COUNT(real), &t->s) &&
           bind_lapack(handle, 'd', real, COUNT(real), &t->d) &&
           bind_lapack(handle, 'c', complex_, COUNT(complex_), &t->c) &&
           bind_lapack(handle, 'z', complex_, COUNT(complex_), &t->z);
}

/* Integers of LAPACK are ints here, which its builds for large matrices do not take. */
static bool is_known_blas(void *handle) {
    char *(*config)(void);
    if (!find(&blas, handle, "openblas_get_config", &config))
        return false;
    if (!strstr(config(), "USE64BITINT"))
        return true;
    note_missing(&blas, "its integers have 64 bits, not 32");
    return false;
}

static void open_blas(void) {
    void *handle = load_on_one_core("libopenblas.so.0");
    int (*threads)(void);
    void (*set_threads)(int);
    if (!handle)
        note_missing(&blas, dlerror());
    else if (is_known_blas(handle) && bind_all(handle) &&
             find(&blas, handle, "openblas_get_num_threads", &threads) &&
             find(&blas, handle, "openblas_set_num_threads", &set_threads)) {
        if (threads() != 1) /* somebody else has loaded it before */
            set_threads(1);
        blas.state = THERE;
    }
}

const lapack_library *library_lapack(void) {
    if (!has_room && !cfx__memory_wanted(BLAS_NEEDS))
        return NULL;
    has_room = true;
    if (blas.state == UNTRIED)
        open_once(&blas, open_blas);
    if (blas.state == THERE)
        return &lapack_table;
    if (blas.state == MISSING)
        missed = true;
    cfx_fail(blas.state == UNTRIED ? CFX_MEMORY_ERROR : CFX_NOT_IMPLEMENTED_ERROR, (cfx_site){0},
             "this needs LAPACK, which cfx takes from OpenBLAS (libopenblas.so.0; Debian's package "
             "libopenblas0): %s",
             blas.why);
    return NULL;
}
#else
const lapack_library *library_lapack(void) {
    missed = true;
    cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, (cfx_site){0},
             "this needs LAPACK, and this cfx was built without it (CFX_BLAS=OFF)");
    return NULL;
}
#endif

/* ---- oneDNN ---------------------------------------------------------------------------------- */

#ifdef CFX_DNN
#define STRING_(x) #x
#define STRING(x) STRING_(x)
enum { DNN_NEEDS = 64 << 20 };

static opened dnn;
static atomic_int inside; /* threads that are calling it */
static onednn_library dnn_table;

/* Structs and enumerations are those of one major version. */
static bool is_known_onednn(void) {
    const int major = dnn_table.version()->major;
    if (major != DNNL_VERSION_MAJOR)
        note_missing(&dnn, cfx__text_format("it is version %d, not %d", major, DNNL_VERSION_MAJOR));
    return major == DNNL_VERSION_MAJOR;
}

static void open_onednn(void) {
    onednn_library *t = &dnn_table;
    void *handle = dlopen("libdnnl.so." STRING(DNNL_VERSION_MAJOR), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        note_missing(&dnn, dlerror());
        return;
    }
#define FIND(name) &&find(&dnn, handle, "dnnl_" #name, &t->name)
    if (true ONEDNN_FUNCTIONS(FIND) && is_known_onednn()) {
        void *get = dlsym(handle, "omp_get_max_threads");
        void *set = dlsym(handle, "omp_set_num_threads");
        if (get && set) {
            memcpy(&t->threads, &get, sizeof get);
            memcpy(&t->set_threads, &set, sizeof set);
        }
        dnn.state = THERE;
    }
}

const onednn_library *library_onednn(void) {
    if (dnn.state == UNTRIED && cfx__memory_headroom(DNN_NEEDS))
        open_once(&dnn, open_onednn);
    return dnn.state == THERE ? &dnn_table : NULL;
}

bool library_onednn_enter(void) {
    atomic_fetch_add(&inside, 1);
    if (library_onednn())
        return true;
    atomic_fetch_sub(&inside, 1);
    return false;
}

void library_onednn_leave(void) { atomic_fetch_sub(&inside, 1); }
#endif

/* ---- after a fork ---------------------------------------------------------------------------- */

#if defined(CFX_BLAS) || defined(CFX_DNN)
static void do_without(opened *l, bool if_so) {
    if (if_so)
        note_missing(l, "the process was forked while another thread was using it");
}

static void in_child(void) {
    const bool half_open = atomic_exchange(&opening, false);
#ifdef CFX_BLAS
    do_without(&blas, half_open && blas.state == UNTRIED);
#endif
#ifdef CFX_DNN
    const bool busy = atomic_exchange(&inside, 0) > 0;
    do_without(&dnn, busy || (half_open && dnn.state == UNTRIED));
#endif
    pthread_mutex_init(&lock, NULL);
}
#endif
