/* A card that is not there; see card.h. */
#include "card.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../src/cuda/device.h"
#include "../src/cuda/single.h"
#include "player.h"

card_state card;

enum { BAD = 1 };

/* Whether this call is the one that is to go wrong. */
static bool fails(void) { return card.fail_after && --card.fail_after == 0; }

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct {
    size_t size;
    char pad[248];
} head;

static int take_memory(cfx__cuda_address *at, size_t size) {
    if ((card.most && card.held + size > card.most) || fails())
        return CFX__CUDA_OUT_OF_MEMORY;
    head *h = aligned_alloc(256, sizeof *h + (size + 255) / 256 * 256);
    h->size = size;
    memset(h + 1, 0xff, size);
    __atomic_fetch_add(&card.held, size, __ATOMIC_RELAXED); /* any thread gives memory back */
    *at = (uintptr_t)(h + 1);
    return 0;
}

static int take_shared(cfx__cuda_address *at, size_t size, unsigned flags) {
    return flags == 1 ? take_memory(at, size) : BAD;
}

static int give_memory(cfx__cuda_address at) {
    head *h = (head *)(uintptr_t)at - 1;
    __atomic_fetch_sub(&card.held, h->size, __ATOMIC_RELAXED);
    free(h);
    return 0;
}

/* ---- what a stream does, now or when a graph is replayed ------------------------------------- */

typedef const char *play_all_fn(void (*kernel)(void), const unsigned *grid, const unsigned *block,
                                size_t shared, const uint64_t *word, const double *real,
                                int cooperative, int cluster);

typedef struct {
    play_all_fn *all;
    void (*kernel)(void);
    int n, cluster;   /* blocks of a cluster; 0: none */
    bool real[PLAYED_WORDS + PLAYED_REALS]; /* by parameter */
} function;

typedef struct {
    const function *f;
    unsigned grid[3], block[3], shared;
    int cooperative;
    uint64_t word[PLAYED_WORDS];
    double real[PLAYED_REALS];
    card_job job; /* where f is NULL */
} launched;

typedef struct {
    int n;
    launched *of;
} graph;

static graph *capturing;

static float now; /* milliseconds, by the card's clock */

static int play_one(const launched *l) {
    if (!l->f) {
        now += l->job.ms;
        l->job.does(l->job.what);
        return 0;
    }
    card.kernels++;
    now++;
    const char *wrong = l->f->all(l->f->kernel, l->grid, l->block, l->shared, l->word, l->real,
                                  l->cooperative, l->f->cluster);
    if (wrong)
        test_fail(CFX_HERE, "a kernel on the card that is played: %s", wrong);
    return wrong ? 719 : card.fail_kernel;
}

static int start(const launched *l) {
    if (!capturing)
        return play_one(l);
    capturing->of = realloc(capturing->of, (size_t)(capturing->n + 1) * sizeof *l);
    capturing->of[capturing->n++] = *l;
    return 0;
}

int card_do(const card_job *job) { return fails() ? BAD : start(&(launched){.job = *job}); }

static int launch_as(const launched *as, void **parameters) {
    launched l = *as;
    int words = 0, reals = 0;
    for (int i = 0; i < l.f->n; i++)
        if (words == PLAYED_WORDS || reals == PLAYED_REALS)
            return BAD;
        else if (l.f->real[i])
            memcpy(&l.real[reals++], parameters[i], 8);
        else
            memcpy(&l.word[words++], parameters[i], 8);
    if (!l.grid[0] || !l.block[0] || l.block[0] > 1024 || l.shared > (unsigned)card.shared ||
        fails())
        return BAD;
    if (l.cooperative && (uint64_t)l.grid[0] * l.grid[1] * l.grid[2] > (uint64_t)card.processors)
        return 720;
    return start(&l);
}

static int launch(const cfx__cuda_launching *how, void *code, void **parameters, void **extra) {
    (void)extra;
    launched l = {.f = code, .shared = how->shared};
    memcpy(l.grid, how->grid, sizeof l.grid);
    memcpy(l.block, how->block, sizeof l.block);
    for (unsigned i = 0; i < how->nmodes; i++)
        if (how->modes[i].which == CFX__CUDA_COOPERATIVE)
            l.cooperative = how->modes[i].value;
        else
            card.overlapping += how->modes[i].which == CFX__CUDA_OVERLAPPING;
    return launch_as(&l, parameters);
}

static int copy(cfx__cuda_address to, cfx__cuda_address from, size_t size, void *stream) {
    (void)stream;
    if (capturing || fails())
        return BAD;
    card.copies++;
    memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
    return 0;
}

static int fill(cfx__cuda_address at, unsigned char with, size_t size, void *stream) {
    (void)stream;
    memset((void *)(uintptr_t)at, with, size);
    return capturing ? BAD : 0;
}

static int capture_begin(void *stream, int mode) {
    (void)stream, (void)mode;
    if (fails())
        return BAD;
    capturing = calloc(1, sizeof *capturing);
    return 0;
}

static int capture_end(void *stream, void **made) {
    (void)stream;
    *made = capturing;
    capturing = NULL;
    return fails() ? BAD : 0;
}

/* What the library lets go with a card that is lost stays in sight of who looks for leaks. */
static void *kept(void *p) {
    static void *all[1 << 16];
    static int n;
    return all[n++ & 0xffff] = p;
}

static int graph_make(void **ready, void *of, unsigned long long flags) {
    (void)flags;
    const graph *g = of;
    if (fails())
        return BAD;
    graph *own = kept(calloc(1, sizeof *own));
    own->n = g->n;
    own->of = malloc((size_t)g->n * sizeof *g->of);
    memcpy(own->of, g->of, (size_t)g->n * sizeof *g->of);
    *ready = own;
    return 0;
}

static int graph_free(void *g) {
    free(((graph *)g)->of);
    free(g);
    return 0;
}

static int graph_launch(void *ready, void *stream) {
    (void)stream;
    const graph *g = ready;
    int answer = fails() ? BAD : 0;
    card.graphs++;
    for (int i = 0; i < g->n && !answer; i++)
        answer = play_one(&g->of[i]);
    return answer;
}

static int stream_wait(void *stream) {
    (void)stream;
    return capturing || fails() ? BAD : 0;
}

/* ---- code ------------------------------------------------------------------------------------ */

typedef struct {
    char *text;
    char lib[600];
} program;

static char folder_path[512];

/* Where play.h lies, and where what was compiled is kept. */
#ifdef CARD_LIBRARY
static const char *const tests = CARD_TESTS;

static void find_folder(void) { snprintf(folder_path, sizeof folder_path, "%s", CARD_LIBRARY); }
#else
static const char *const tests = "tests";

static void find_folder(void) {
    const ssize_t n = readlink("/proc/self/exe", folder_path, sizeof folder_path - 16);
    folder_path[n > 0 ? n : 0] = 0;
    char *slash = strrchr(folder_path, '/');
    strcpy(slash ? slash : folder_path, "/played");
}
#endif

/* Where compiled kernels are kept; kernels are compiled by several threads. */
static const char *folder(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_folder);
    mkdir(folder_path, 0777);
    return folder_path;
}

static char *read_whole(const char *path) {
    FILE *f = fopen(path, "rb");
    char *text = kept(calloc(1, 1 << 22));
    if (f && fread(text, 1, (1 << 22) - 1, f) == 0)
        text[0] = 0;
    if (f)
        fclose(f);
    return text;
}

static int version_of(int *major, int *minor) {
    *major = 13, *minor = 0;
    return 0;
}

static int create(void **made, const char *text, const char *name, int n,
                  const char *const *headers, const char *const *names) {
    (void)name, (void)n, (void)headers, (void)names;
    program *p = calloc(1, sizeof *p);
    p->text = strdup(text);
    *made = p;
    return 0;
}

static int compile(void *of, int n, const char *const *options) {
    (void)n, (void)options;
    program *p = of;
    __atomic_fetch_add(&card.compiled, 1, __ATOMIC_RELAXED);
    char source[700], line[6000];
    snprintf(line, sizeof line, "%s/play.h", tests);
    char *player = read_whole(line);
    const char *const parts[] = {p->text, player};
    uint64_t h = 14695981039346656037u;
    for (int i = 0; i < 2; i++)
        for (const char *at = parts[i]; *at; at++)
            h = (h ^ (unsigned char)*at) * 1099511628211u;
    free(player);
    snprintf(p->lib, sizeof p->lib, "%s/card-%016llx.so", folder(), (unsigned long long)h);
    snprintf(source, sizeof source, "%s.cpp", p->lib);
    if (!access(p->lib, R_OK) && !access(source, R_OK))
        return 0;
    static _Atomic unsigned compiled; /* threads and processes compile the same text at once */
    char mine[700];
    snprintf(mine, sizeof mine, "%s/card-%d-%u", folder(), (int)getpid(), compiled++);
    snprintf(line, sizeof line, "%s.cpp", mine);
    FILE *f = fopen(line, "w");
    if (!f)
        return BAD;
    fprintf(f, "#include \"play.h\"\n%s", p->text);
    fclose(f);
    snprintf(line, sizeof line,
             "%s -std=c++17 -O1 -g0 -w -fPIC -shared -fno-strict-aliasing -ffp-contract=off "
             "-I'%s' -o '%s.so' '%s.cpp' 2>&1 | head -20 && mv '%s.cpp' '%s' && mv '%s.so' '%s'",
             getenv("CXX") ? getenv("CXX") : "c++", tests, mine, mine, mine, source, mine, p->lib);
    return system(line) ? BAD : 0;
}

static int code_size(void *of, size_t *size) {
    *size = strlen(((program *)of)->lib) + 1;
    return 0;
}

static int code_of(void *of, char *to) {
    strcpy(to, ((program *)of)->lib);
    return 0;
}

static int log_size(void *of, size_t *n) {
    (void)of;
    *n = 0;
    return 0;
}

static int log_of(void *of, char *to) {
    (void)of, (void)to;
    return 0;
}

static int destroy(void **of) {
    program *p = *of;
    free(p->text);
    free(p);
    return 0;
}

typedef struct {
    void *handle;
    char *text;
} module;

static int module_load(void **made, const void *code) {
    if (fails())
        return BAD;
    module *m = kept(calloc(1, sizeof *m));
    char path[700];
    m->handle = dlopen(code, RTLD_NOW | RTLD_LOCAL);
    if (!m->handle)
        fprintf(stderr, "%s\n", dlerror());
    snprintf(path, sizeof path, "%s.cpp", (const char *)code);
    m->text = read_whole(path);
    *made = m;
    return m->handle ? 0 : BAD;
}

static int module_unload(void *of) {
    module *m = of;
    dlclose(m->handle);
    free(m->text);
    free(m);
    return 0;
}

/* What parameters a kernel has, from its text. */
static void read_parameters(function *f, const char *text, const char *name) {
    char start[200];
    snprintf(start, sizeof start, "%s(", name);
    const char *at = NULL, *end = NULL;
    for (const char *k = text; !at && (k = strstr(k, "__global__")); k++) { /* up to its body */
        const char *body = strchr(k, '{'), *found = strstr(k, start);
        at = body && found && found < body && !isalnum((unsigned char)found[-1]) ? found : NULL;
    }
    end = at ? strchr(at, ')') : NULL;
    if (!end || end == at + strlen(start))
        return;
    at += strlen(start);
    while (at < end && f->n < COUNT(f->real)) {
        const char *next = memchr(at, ',', (size_t)(end - at));
        next = next ? next : end;
        char one[200] = "";
        memcpy(one, at, (size_t)(next - at) < sizeof one ? (size_t)(next - at) : sizeof one - 1);
        f->real[f->n++] = strstr(one, "double") && !strchr(one, '*');
        at = next + 1;
    }
}

static int module_function(void **made, void *of, const char *name) {
    module *m = of;
    if (fails())
        return BAD;
    function *f = kept(calloc(1, sizeof *f));
    *(void **)&f->all = dlsym(m->handle, "play_all");
    *(void **)&f->kernel = dlsym(m->handle, name);
    read_parameters(f, m->text, name);
    const char *cluster = strstr(m->text, "#define CLUSTER "); /* a card reads it in the code */
    f->cluster = cluster ? atoi(cluster + 16) : 0;
    f->cluster = f->cluster > 1 ? f->cluster : 0;
    *made = f;
    return f->all && f->kernel ? 0 : BAD;
}

static int function_set(void *f, int which, int to) {
    (void)f, (void)which;
    return to > card.shared || fails() ? BAD : 0;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static int init(unsigned flags) { return flags ? BAD : card.init; }

static int driver_version(int *v) {
    *v = card.version;
    return 0;
}

static int count(int *n) {
    *n = card.count;
    return 0;
}

static int get(int *handle, int n) {
    *handle = n;
    return 0;
}

static int name(char *to, int n, int handle) {
    snprintf(to, (size_t)n, "a card that is played (%d)", handle);
    return 0;
}

static int attribute(int *v, int which, int handle) {
    (void)handle;
    *v = which == 75   ? 9
         : which == 76 ? 0
         : which == 16 ? card.processors
         : which == 39 ? 2048
         : which == 97 ? card.shared
                       : 1;
    return 0;
}

static int retain(void **context, int handle) {
    *context = &card;
    return handle ? BAD : 0;
}

static int set_current(void *context) { return context == &card && !fails() ? 0 : BAD; }

static int stream_create(void **made, unsigned flags) {
    *made = &card;
    return flags == 1 ? 0 : BAD;
}

static int event_create(void **made, unsigned flags) {
    (void)flags;
    *made = kept(calloc(1, sizeof now));
    return 0;
}

static int event_destroy(void *e) {
    free(e);
    return 0;
}

static int event_record(void *e, void *stream) {
    if (!e || !stream)
        return BAD;
    *(float *)e = now;
    return 0;
}

static int event_elapsed(float *ms, void *a, void *b) {
    if (!a || !b)
        return BAD;
    *ms = *(const float *)b - *(const float *)a;
    return 0;
}

static int error_text(int answer, const char **text) {
    *text = answer == CFX__CUDA_OUT_OF_MEMORY ? "out of memory" : "unspecified launch failure";
    return 0;
}

#ifndef CARD_LIBRARY
static const cfx__cuda_driver played = {.init = init,
                                        .version = driver_version,
                                        .count = count,
                                        .get = get,
                                        .name = name,
                                        .attribute = attribute,
                                        .retain = retain,

                                        .set_current = set_current,

                                        .alloc = take_memory,
                                        .free = give_memory,
                                        .alloc_managed = take_shared,
                                        .copy = copy,
                                        .fill = fill,
                                        .stream_create = stream_create,

                                        .stream_wait = stream_wait,
                                        .capture_begin = capture_begin,
                                        .capture_end = capture_end,
                                        .graph_make = graph_make,
                                        .graph_launch = graph_launch,
                                        .graph_free = graph_free,
                                        .graph_exec_free = graph_free,
                                        .module_load = module_load,
                                        .module_unload = module_unload,
                                        .module_function = module_function,
                                        .function_set = function_set,
                                        .launch = launch,
                                        .event_create = event_create,
                                        .event_destroy = event_destroy,
                                        .event_record = event_record,
                                        .event_elapsed = event_elapsed,
                                        .error_text = error_text};

static const cfx__cuda_compiler compiler = {.version = version_of,
                                            .create = create,
                                            .compile = compile,
                                            .size = code_size,
                                            .code = code_of,
                                            .log_size = log_size,
                                            .log = log_of,
                                            .destroy = destroy};

bool card_begin(void) {
    const char *named = getenv("CXX");
    char line[300];
    snprintf(line, sizeof line, "command -v %s >/dev/null 2>&1", named ? named : "c++");
    if (system(line)) {
        printf("not run: kernels of a card: there is no C++ compiler\n");
        return false;
    }
    setenv("CFX_CACHE", "", 1); /* nothing is kept */
    card = (card_state){
        .count = 1, .version = 13000, .processors = 132, .shared = 227 << 10};
    cfx__cuda_play(&played, &compiler);
    return true;
}

void card_end(void) {
    cfx__cuda_singles_forget();
    cfx__cuda_tensors_forget();
    cfx__cuda_play(NULL, NULL);
    unsetenv("CFX_CACHE");
}

double card_apart(cfx_value a, cfx_value b) {
    cfx_tensor *d = cfx_sub(cfx_to(cfx_to(a, "cpu"), cfx_f64), cfx_to(cfx_to(b, "cpu"), cfx_f64));
    return cfx_number(cfx_item(cfx_amax(cfx_abs(d))));
}
#endif
