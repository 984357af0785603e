/* Compiles kernels by NVRTC and caches them on disk, in a folder that only its owner can write
 * to. A cache file starts with everything that its code depends on, which is compared, and ends
 * with a checksum of the code; a file that does not match is compiled again. */
#include "device.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SHARED = 8 }; /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */

/* ---- the folder ------------------------------------------------------------------------------ */

static bool is_private(const char *path) {
    struct stat s;
    return !lstat(path, &s) && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
           !(s.st_mode & (S_IWGRP | S_IWOTH));
}

/* Where code is kept: $CFX_CACHE, else cfx under $XDG_CACHE_HOME or ~/.cache. NULL: nowhere. */
static const char *folder(void) {
    const char *own = getenv("CFX_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *path = own;
    if (own && !*own)
        return NULL;
    if (!own && xdg && *xdg == '/') {
        path = cfx__text_format("%s/cfx", xdg);
    } else if (!own && home && *home == '/') {
        const char *above = cfx__text_format("%s/.cache", home);
        mkdir(above, 0700);
        path = cfx__text_format("%s/cfx", above);
    }
    if (!path)
        return NULL;
    mkdir(path, 0700);
    return is_private(path) ? path : NULL;
}

/* ---- files ----------------------------------------------------------------------------------- */

static uint64_t sum_of(const char *data, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)data[i]) * 0x100000001b3u;
    return h;
}

typedef struct {
    uint64_t magic, key, code, sum; /* sizes of what follows, and a sum of the code */
} header;

static const uint64_t magic = 0x3130616475637863u;

/* What is kept for a key: a pointer into the mapping, which the caller drops; NULL: nothing. */
static const char *read_kept(const char *path, const char *key, cfx__file_mapping **m,
                             size_t *size) {
    header h;
    *m = access(path, R_OK) ? NULL : cfx__file_map(path);
    if (!*m) {
        if (!cfx_ok())
            cfx__error_forgive();
        return NULL;
    }
    const size_t all = (*m)->size, n = strlen(key);
    if (all < sizeof h + n)
        return NULL;
    memcpy(&h, (*m)->data, sizeof h);
    const char *data = (*m)->data + sizeof h + n;
    *size = h.code;
    return h.magic == magic && h.key == n && h.code == all - sizeof h - n &&
                   !memcmp((*m)->data + sizeof h, key, n) && h.sum == sum_of(data, h.code)
               ? data
               : NULL;
}

static const char *path_of(const char *key) {
    const char *dir = folder();
    return dir ? cfx__text_format("%s/%016llx-%zx", dir,
                                  (unsigned long long)sum_of(key, strlen(key)), strlen(key))
               : NULL;
}

char *cfx__cuda_recall(const char *key, size_t *size) {
    cfx__file_mapping *file = NULL;
    const char *path = path_of(key);
    const char *data = path ? read_kept(path, key, &file, size) : NULL;
    char *own = data ? cfx__alloc_try(*size + 1) : NULL;
    if (own)
        memcpy(own, data, *size);
    cfx_drop(file);
    return own;
}

void cfx__cuda_remember(const char *key, const char *data, size_t size) {
    const header h = {magic, strlen(key), size, sum_of(data, size)};
    const char *path = path_of(key);
    cfx__text t = {0};
    if (!path)
        return;
    cfx__text_add(&t, (const char *)&h, sizeof h);
    cfx__text_puts(&t, key);
    cfx__text_add(&t, data, size);
    if (cfx_ok() && !cfx__file_write(path, t.data, t.len))
        cfx__error_forgive();
    cfx__text_release(&t);
}

/* ---- compiling ------------------------------------------------------------------------------- */

/* A text to be compiled, by whichever thread. */
typedef struct cfx__cuda_request {
    const cfx__cuda_compiler *compiler;
    const char *text, *arch, *key;
    char *code, *log;
    size_t size;
    bool fresh, at_work;
    pthread_t thread;
} request;

static void compile(request *r) {
    const cfx__cuda_compiler *c = r->compiler;
    void *program = NULL;
    const char *options[] = {r->arch, "--device-as-default-execution-space", "--std=c++17"};
    if (c->create(&program, r->text, "cfx.cu", 0, NULL, NULL))
        return;
    size_t n = 0;
    if (!c->compile(program, COUNT(options), options)) {
        r->code = c->size(program, &r->size) ? NULL : cfx__alloc_optional(r->size + 1);
        if (r->code && c->code(program, r->code)) {
            cfx__free(r->code);
            r->code = NULL;
        }
    } else if (!c->log_size(program, &n) && n < 1 << 20) {
        r->log = cfx__alloc_optional(n + 1);
        if (r->log)
            c->log(program, r->log);
    }
    r->fresh = r->code != NULL;
    c->destroy(&program);
}

static void *work(void *arg) {
    compile(arg);
    return NULL;
}

enum { HELPERS = 15 };

int cfx__cuda_codes_ask(cfx__cuda_codes *q, cfx__cuda_device *d, const char *text) {
    for (size_t i = 0; i < q->asked.len; i++)
        if (!strcmp(q->asked.data[i]->text, text))
            return (int)i;
    request *r = cfx__alloc0(sizeof *r);
    r->text = text;
    r->arch = cfx__text_format("--gpu-architecture=sm_%d%d", d->major, d->minor);
    r->key = cfx__text_format("%s%s", cfx__cuda_versions(d), text);
    r->code = cfx__cuda_recall(r->key, &r->size);
    VEC_PUSH(q->asked, r);
    if (r->code)
        return (int)q->asked.len - 1;
    r->compiler = cfx__cuda_compiler_open();
    r->at_work = r->compiler && q->threads < HELPERS && !pthread_create(&r->thread, NULL, work, r);
    q->threads += r->at_work;
    return r->compiler ? (int)q->asked.len - 1 : -1;
}

/* Waits for a text, or compiles it now. */
static void settle(cfx__cuda_codes *q, request *r) {
    if (r->at_work)
        pthread_join(r->thread, NULL);
    else if (!r->code && r->compiler && !r->log)
        compile(r);
    q->threads -= r->at_work;
    r->at_work = false;
}

static void code_free(void *obj) {
    cfx__cuda_code *c = obj;
    if (c->module && !c->device->lost) {
        c->device->driver->set_current(c->device->context);
        c->device->driver->module_unload(c->module);
    }
}

static const cfx__obj_type code_type = {.name = "code of a card", .free = code_free};

/* A module of code; NULL, with an error. The caller owns a count. */
static cfx__cuda_code *load(cfx__cuda_device *d, const request *r) {
    void *module = NULL;
    if (!r->code) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "a kernel cannot be compiled: %.600s",
                 r->log ? r->log : "NVRTC does not say why");
        return NULL;
    }
    if (!cfx__cuda_done(d, d->driver->module_load(&module, r->code), "loading a kernel"))
        return NULL;
    cfx__cuda_code *c = cfx__obj_make(&code_type, sizeof *c);
    c->device = d;
    c->module = module;
    return c;
}

const char *cfx__cuda_versions(const cfx__cuda_device *d) {
    int driver = 0;
    d->driver->version(&driver);
    return cfx__text_format("cfx 2, driver %d, %s, sm_%d%d\n", driver, d->name, d->major,
                            d->minor);
}

bool cfx__cuda_codes_take(cfx__cuda_codes *q, cfx__cuda_device *d, cfx__cuda_code **codes) {
    bool fine = cfx_ok();
    for (size_t i = 0; i < q->asked.len; i++) {
        request *r = q->asked.data[i];
        codes[i] = NULL;
        settle(q, r);
        if (!fine)
            continue;
        if (r->fresh)
            cfx__cuda_remember(r->key, r->code, r->size);
        codes[i] = load(d, r);
        fine = codes[i] != NULL;
    }
    return fine;
}

void cfx__cuda_codes_end(cfx__cuda_codes *q) {
    for (size_t i = 0; i < q->asked.len; i++) {
        request *r = q->asked.data[i];
        if (r->at_work)
            pthread_join(r->thread, NULL);
        cfx__free(r->code);
        cfx__free(r->log);
        cfx__free(r);
    }
    VEC_FREE(q->asked);
}

void *cfx__cuda_function(const cfx__cuda_code *c, const char *name, unsigned shared) {
    void *f = NULL;
    cfx__cuda_device *d = c->device;
    if (!cfx__cuda_done(d, d->driver->module_function(&f, c->module, name), "finding a kernel"))
        return NULL;
    if (shared > 48 << 10 && !cfx__cuda_done(d, d->driver->function_set(f, MAX_SHARED, (int)shared),
                                             "asking for shared memory"))
        return NULL;
    return f;
}
