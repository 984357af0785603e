/* player: a launch's text, compiled by the host's compiler into a library that is opened, and by
 * NVRTC into nothing that is kept. Start at player_run. */
#include "player.h"

#include <cfx/ops.h>

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda/kernels.h"

typedef const char *player_all(void (*kernel)(void), const unsigned *grid, const unsigned *block,
                               size_t shared, const uint64_t *word, const double *real,
                               int cooperative, int cluster);

void *player_memory(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t held = (bytes + 15) / 16 * 16, all = (held + page - 1) / page * page;
    unsigned char *p =
        mmap(NULL, all + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    mprotect(p + all, page, PROT_NONE);
    memset(p + all - held, 0xff, held);
    return p + all - held;
}

/* Elements from the first to the last that a tensor reaches; strides are not negative. */
static int64_t reach(const cfx_tensor *t) {
    int64_t last = 0;
    for (int i = 0; i < cfx_tensor_ndim(t); i++) {
        if (cfx_tensor_shape(t)[i] == 0)
            return 0;
        last += (cfx_tensor_shape(t)[i] - 1) * cfx_tensor_stride(t)[i];
    }
    return last + 1;
}

void *player_copy(const cfx_tensor *t) {
    const size_t bytes = (size_t)reach(t) * (size_t)cfx_dtype_size(cfx_tensor_dtype(t));
    void *to = player_memory(bytes);
    memcpy(to, cfx_tensor_data(t), bytes);
    return to;
}

cfx__cuda_array player_array(int operand, const cfx_tensor *t) {
    return (cfx__cuda_array){.operand = operand, .dtype = cfx_tensor_dtype(t),
                             .ndim = cfx_tensor_ndim(t), .shape = cfx_tensor_shape(t),
                             .stride = cfx_tensor_stride(t)};
}

bool player_near(const void *got, const cfx_tensor *as, const cfx_tensor *want, double tol,
                 cfx_site at) {
    memcpy(cfx_tensor_data(as), got,
           (size_t)reach(as) * (size_t)cfx_dtype_size(cfx_tensor_dtype(as)));
    if (!test_check(cfx_ok() && cfx_tensor_numel(as) == cfx_tensor_numel(want), at, "sizes"))
        return false;
    const cfx_tensor *have = cfx_contiguous((cfx_tensor *)as);
    want = cfx_contiguous((cfx_tensor *)want);
    for (int64_t i = 0; i < cfx_tensor_numel(want); i++) {
        const double w = cfx_tensor_get(want, i), g = cfx_tensor_get(have, i);
        if (w == g || (w != w && g != g) || fabs(g - w) <= tol * (1 + fabs(w)))
            continue;
        test_fail(at, "element %lld is %.9g, not %.9g", (long long)i, g, w);
        return false;
    }
    return true;
}

/* ---- the host's compiler --------------------------------------------------------------------- */

static const char *compiler(void) {
    const char *named = getenv("CXX");
    return named && *named ? named : "c++";
}

/* The thread sanitizer knows no fibers. */
#if defined __SANITIZE_THREAD__
#define NO_FIBERS 1
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define NO_FIBERS 1
#endif
#endif
#ifndef NO_FIBERS
#define NO_FIBERS 0
#endif

bool player_runs(void) {
    static int found = -1;
    if (NO_FIBERS) {
        printf("not run: kernels for CUDA under the thread sanitizer\n");
        return false;
    }
    if (found < 0)
        found = system(cfx__text_format("command -v %s >/dev/null 2>&1", compiler())) == 0;
    if (!found)
        printf("not run: kernels for CUDA: there is no C++ compiler\n");
    return found;
}

static uint64_t hash_of(const char *text) {
    uint64_t hash = 1469598103934665603u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

/* The folder beside the tests where compiled kernels stay: they are called by what is in them. */
static const char *folder(void) {
    char path[512];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    char *slash = strrchr(path, '/');
    if (!slash)
        return "/tmp";
    *slash = 0;
    const char *at = cfx__text_format("%s/played", path);
    mkdir(at, 0777);
    return at;
}

static char *read_whole(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    char *text = calloc(1, 1 << 18);
    const size_t n = text ? fread(text, 1, (1 << 18) - 1, f) : 0;
    fclose(f);
    return n ? text : NULL;
}

/* The source of a launch, as NVRTC would see it. */
static const char *source_of(const cfx__cuda_launch *l) {
    return cfx__text_format("%s%s%s", l->defines, cfx__cuda_text("base"), l->text);
}

/* The library of a text; NULL, and a failed check, where it does not compile. */
static void *library_of(const cfx__cuda_launch *l, cfx_site at) {
    char *header = read_whole("tests/play.h");
    const char *source = source_of(l);
    const char *name = cfx__text_format("%s/%s-%016llx", folder(), l->function,
                                        (unsigned long long)(hash_of(source) ^
                                                             3 * hash_of(header ? header : "")));
    free(header);
    const char *lib = cfx__text_format("%s.so", name);
    if (access(lib, R_OK) != 0) {
        const char *cpp = cfx__text_format("%s-%d.cpp", name, (int)getpid());
        const char *made = cfx__text_format("%s-%d.so", name, (int)getpid());
        FILE *f = fopen(cpp, "w");
        if (!f)
            return NULL;
        fprintf(f, "#include \"play.h\"\n%s", source);
        fclose(f);
        const char *line = cfx__text_format(
            "%s -std=c++17 -O1 -g0 -fPIC -shared -fno-strict-aliasing -ffp-contract=off "
            "-Wno-unknown-pragmas -Itests -o '%s' '%s' >'%s.log' 2>&1",
            compiler(), made, cpp, made);
        if (system(line) != 0) {
            char *log = read_whole(cfx__text_format("%s.log", made));
            test_fail(at, "%s does not compile: %.1500s", cpp, log ? log : "");
            free(log);
            return NULL;
        }
        rename(made, lib);
        unlink(cpp), unlink(cfx__text_format("%s.log", made));
    }
    void *handle = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        test_fail(at, "%s", dlerror());
    return handle;
}

/* ---- NVRTC ----------------------------------------------------------------------------------- */

typedef struct nvrtc {
    int (*create)(void **p, const char *source, const char *name, int n, const char *const *headers,
                  const char *const *names);
    int (*compile)(void *p, int n, const char *const *options);
    int (*log_size)(void *p, size_t *n);
    int (*log)(void *p, char *text);
    int (*destroy)(void **p);
    bool there;
} nvrtc;

static const nvrtc *open_nvrtc(void) {
    static nvrtc n;
    static bool tried;
    if (tried)
        return &n;
    tried = true;
    static const char *const names[] = {"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13",
                                        "/usr/local/cuda/lib/libnvrtc.so.13", "libnvrtc.so.12",
                                        "libnvrtc.so"};
    void *lib = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        printf("not run: NVRTC is not there to compile kernels for CUDA\n");
        return &n;
    }
    *(void **)&n.create = dlsym(lib, "nvrtcCreateProgram");
    *(void **)&n.compile = dlsym(lib, "nvrtcCompileProgram");
    *(void **)&n.log_size = dlsym(lib, "nvrtcGetProgramLogSize");
    *(void **)&n.log = dlsym(lib, "nvrtcGetProgramLog");
    *(void **)&n.destroy = dlsym(lib, "nvrtcDestroyProgram");
    n.there = n.create && n.compile && n.log_size && n.log && n.destroy;
    return &n;
}

/* Whether NVRTC compiles a launch for cards of sm_90, and each text once for sm_80. What it took
 * is noted beside the compiled kernels, and not compiled again. */
static bool compiles(const cfx__cuda_launch *l, cfx_site at) {
    static const char *const archs[] = {"--gpu-architecture=sm_90", "--gpu-architecture=sm_80"};
    static const char *older; /* the text that was compiled for older cards too, once for all */
    const nvrtc *n = open_nvrtc();
    if (!n->there)
        return true;
    const char *source = source_of(l);
    const char *noted = cfx__text_format("%s/%s-%016llx.sm", folder(), l->function,
                                         (unsigned long long)hash_of(source));
    if (access(noted, R_OK) == 0)
        return true;
    const size_t all = older == l->text ? 1 : 2;
    older = l->text;
    for (size_t i = 0; i < all; i++) {
        void *program = NULL;
        const char *options[] = {archs[i], "--std=c++17"};
        if (n->create(&program, source, "kernel.cu", 0, NULL, NULL))
            return true;
        const bool held = n->compile(program, 2, options) == 0;
        if (!held) {
            size_t size = 0;
            n->log_size(program, &size);
            char *log = calloc(1, size + 1);
            n->log(program, log);
            test_fail(at, "%s, %s: %.1500s", l->function, archs[i], log);
            free(log);
        }
        n->destroy(&program);
        if (!held)
            return false;
    }
    FILE *f = fopen(noted, "w");
    if (f)
        fclose(f);
    return true;
}

/* ---- launches -------------------------------------------------------------------------------- */

static bool run_one(const cfx__cuda_launch *l, void *const *operand, void *scratch, int *counters,
                    int *flag, cfx_site at) {
    uint64_t word[PLAYED_WORDS] = {0};
    double real[PLAYED_REALS] = {0};
    int words = 0, reals = 0;
    for (int i = 0; i < l->nargs; i++) {
        const cfx__cuda_arg *a = &l->args[i];
        unsigned char *p = a->kind != CFX__CUDA_POINTER           ? NULL
                           : a->operand == CFX__CUDA_SCRATCH      ? scratch
                           : a->operand == CFX__CUDA_COUNTERS     ? (void *)counters
                           : a->operand == CFX__CUDA_FLAG         ? (void *)flag
                                                                  : operand[a->operand];
        if (words == PLAYED_WORDS || reals == PLAYED_REALS) {
            test_fail(at, "%s has more parameters than the player passes", l->function);
            return false;
        }
        if (a->kind == CFX__CUDA_DOUBLE)
            real[reals++] = a->f;
        else
            word[words++] = a->kind == CFX__CUDA_POINTER ? (uint64_t)(p + a->i) : (uint64_t)a->i;
    }
    void *lib = library_of(l, at);
    if (!lib)
        return false;
    player_all *all;
    void (*kernel)(void);
    *(void **)&all = dlsym(lib, "play_all");
    *(void **)&kernel = dlsym(lib, l->function);
    const char *wrong = !all || !kernel
                            ? "the library does not have it"
                            : all(kernel, l->grid, l->block, l->shared, word, real, l->cooperative,
                                  (int)l->cluster);
    if (wrong)
        test_fail(at, "%s: %s", l->function, wrong);
    dlclose(lib);
    return !wrong && compiles(l, at);
}

bool player_run(const cfx__cuda_work *work, void *const *operand, int *flag, cfx_site at) {
    int *counters = player_memory(CFX__CUDA_COUNTED * sizeof *counters), none = 0;
    void *scratch = player_memory((size_t)work->scratch);
    memset(counters, 0, CFX__CUDA_COUNTED * sizeof *counters);
    bool held = true;
    for (int i = 0; i < work->n && held; i++)
        held = run_one(&work->launch[i], operand, scratch, counters, flag ? flag : &none, at);
    for (int i = 0; i < CFX__CUDA_COUNTED && held; i++)
        if (counters[i]) {
            test_fail(at, "a counter is left at %d", counters[i]);
            held = false;
        }
    if (none) {
        test_fail(at, "an index is said to be out of range");
        held = false;
    }
    return held;
}
