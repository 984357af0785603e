/* Opens NVIDIA's libraries: once each, by whichever thread asks first. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "driver.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

/* ---- finding --------------------------------------------------------------------------------- */

typedef enum { UNTRIED, THERE, MISSING } state;

typedef struct {
    const char *what;           /* for the sentence */
    const char *const files[4]; /* by preference */
    const char *const symbols[36];
    _Atomic state state;
    char why[256];
} library;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Where the packages of pip and of NVIDIA put libraries, beside what the loader knows. */
static const char *const folders[] = {"/usr/local/cuda/lib64", "/usr/local/cuda/lib",
                                      "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"};
static const char *const wheels[] = {"cu13/lib", "cuda_nvrtc/lib", "cublas/lib", "cudnn/lib",
                                     "cuda_runtime/lib"};

static void *open_in(const char *folder, const char *file) {
    return dlopen(cfx__text_format("%s/%s", folder, file), RTLD_NOW);
}

/* In the packages of one Python: <lib>/python3.12/site-packages/nvidia/cublas/lib. */
static void *open_in_python(const char *lib, const char *file) {
    DIR *d = opendir(lib);
    void *handle = NULL;
    for (struct dirent *e; d && !handle && (e = readdir(d));) {
        if (strncmp(e->d_name, "python3", 7) != 0)
            continue;
        static const char *const sites[] = {"site-packages", "dist-packages"};
        for (int s = 0; s < COUNT(sites) && !handle; s++)
            for (int w = 0; w < COUNT(wheels) && !handle; w++)
                handle = open_in(
                    cfx__text_format("%s/%s/%s/nvidia/%s", lib, e->d_name, sites[s], wheels[w]),
                    file);
    }
    if (d)
        closedir(d);
    return handle;
}

static void *open_anywhere(const char *file) {
    void *handle = dlopen(file, RTLD_NOW);
    const char *own = getenv("CFX_CUDA_PATH"), *venv = getenv("VIRTUAL_ENV");
    if (!handle && own)
        handle = open_in(own, file);
    for (int i = 0; i < COUNT(folders) && !handle; i++)
        handle = open_in(folders[i], file);
    if (!handle && venv)
        handle = open_in_python(cfx__text_format("%s/lib", venv), file);
    if (!handle)
        handle = open_in_python("/usr/local/lib", file);
    return handle ? handle : open_in_python("/usr/lib", file);
}

/* Fills a table, whose members are in the order of the symbols. */
static void open_library(library *l, void *table) {
    size_t mark = cfx_scope_open();
    void *handle = NULL;
    char first[200] = "";
    for (int i = 0; l->files[i] && !handle; i++) {
        handle = open_anywhere(l->files[i]);
        const char *said = handle ? NULL : dlerror();
        if (said && !*first)
            snprintf(first, sizeof first, "%s", said);
    }
    l->state = handle ? THERE : MISSING;
    if (!handle)
        snprintf(l->why, sizeof l->why, "%s cannot be opened (%s)", l->what, l->files[0]);
    for (int i = 0; handle && i < COUNT(l->symbols) && l->symbols[i] && l->state == THERE; i++) {
        void *f = dlsym(handle, l->symbols[i]);
        memcpy((char *)table + (size_t)i * sizeof f, &f, sizeof f);
        if (!f) {
            snprintf(l->why, sizeof l->why, "%s is too old: it has no %s", l->what, l->symbols[i]);
            l->state = MISSING;
        }
    }
    cfx_scope_close(mark);
}

static bool have(library *l, void *table) {
    if (l->state == UNTRIED) {
        pthread_mutex_lock(&lock);
        if (l->state == UNTRIED)
            open_library(l, table);
        pthread_mutex_unlock(&lock);
    }
    return l->state == THERE;
}

/* ---- the libraries --------------------------------------------------------------------------- */

#define SYMBOL(name, symbol, arguments) symbol,

static library cuda = {
    .what = "NVIDIA's driver", .files = {"libcuda.so.1"}, .symbols = {CFX__CUDA_DRIVER(SYMBOL)}};
static library nvrtc = {.what = "NVRTC, which compiles kernels,",
                        .files = {"libnvrtc.so.13", "libnvrtc.so.12"},
                        .symbols = {CFX__CUDA_COMPILER(SYMBOL)}};
static library blas = {.what = "cuBLASLt",
                       .files = {"libcublasLt.so.13", "libcublasLt.so.12"},
                       .symbols = {CFX__CUDA_BLAS(SYMBOL)}};
static library dnn = {
    .what = "cuDNN", .files = {"libcudnn.so.9"}, .symbols = {CFX__CUDA_DNN(SYMBOL)}};

static cfx__cuda_driver driver_table;
static cfx__cuda_compiler compiler_table;
static cfx__cuda_blas blas_table;
static cfx__cuda_dnn dnn_table;

/* What a test put in their place. */
static const cfx__cuda_driver *played_driver;
static const cfx__cuda_compiler *played_compiler;
static const cfx__cuda_blas *played_blas;

void cfx__cuda_play(const cfx__cuda_driver *d, const cfx__cuda_compiler *c) {
    played_driver = d;
    played_compiler = c;
}

void cfx__cuda_play_blas(const cfx__cuda_blas *b) { played_blas = b; }

static void tell_missing(const library *l) {
    cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "CUDA is not available: %s", l->why);
}

const cfx__cuda_driver *cfx__cuda_driver_open(void) {
    if (played_driver)
        return played_driver;
    if (have(&cuda, &driver_table))
        return &driver_table;
    tell_missing(&cuda);
    return NULL;
}

const cfx__cuda_compiler *cfx__cuda_compiler_open(void) {
    if (played_compiler)
        return played_compiler;
    if (have(&nvrtc, &compiler_table))
        return &compiler_table;
    tell_missing(&nvrtc);
    return NULL;
}

const cfx__cuda_blas *cfx__cuda_blas_open(void) {
    if (played_driver)
        return played_blas;
    return have(&blas, &blas_table) ? &blas_table : NULL;
}

const cfx__cuda_dnn *cfx__cuda_dnn_open(void) {
    return !played_driver && have(&dnn, &dnn_table) ? &dnn_table : NULL;
}
