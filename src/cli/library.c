/* cfx run model.so: a program that cfx compile --library built. Its code is the machine's own and
 * runs in this process: such a file is opened only where its name is given to cfx run
 * (SECURITY.md). Start at cli_library_run. */
#define _GNU_SOURCE /* dladdr */
#include "library.h"

#include "../compile/library.h"
#include "../tensor/tensor.h"

#include <dlfcn.h>

typedef const struct cfx_compiled compiled;

static cfx_value trouble(const char *path, const char *why) {
    cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s': %s", path, why);
    return cfx_bad();
}

bool cli_is_library(const char *path) {
    const size_t n = strlen(path);
    return n > 3 && !strcmp(path + n - 3, ".so");
}

static bool dtype_named(const char *name, cfx_dtype *to) {
    for (int d = 0; d < CFX_DTYPE_END; d++)
        if (!strcmp(cfx_dtype_name((cfx_dtype)d), name)) {
            *to = (cfx_dtype)d;
            return true;
        }
    return false;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Input i of a file: "in0", or by its own name; contiguous. NULL, with an error. */
static cfx_tensor *input_of(compiled *c, const cfx_dict *given, int i) {
    const char *in = cfx__text_format("in%d", i);
    cfx_value v = cfx_dict_get(given, in);
    v = v.tag == CFX_TAG_TENSOR ? v : cfx_dict_get(given, c->names[i]);
    cfx_dtype d;
    if (v.tag != CFX_TAG_TENSOR) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "there is no input %s (%s)", in, c->names[i]);
        return NULL;
    }
    if (!dtype_named(c->dtypes[i], &d) || cfx_as_tensor(v)->dtype != d ||
        cfx_as_tensor(v)->ndim != c->ndims[i]) {
        const cfx_result r = cfx_result_of(v);
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "input %s is %s, and not %s of %d dimensions", in,
                 cfx_result_text(&r), c->dtypes[i], c->ndims[i]);
        return NULL;
    }
    return cfx__tensor_contiguous(cfx_as_tensor(v));
}

/* Whether input i lies at these sizes as it does in the file, in dim d. */
static bool fits(compiled *c, const ptrdiff_t *sizes, int i, int d, int64_t want) {
    ptrdiff_t shape[CFX_MAX_DIMS] = {0};
    c->shape(i, sizes, shape);
    return shape[d] == want;
}

/* The size that a dim says: the only one that it changes with. */
static void follow(compiled *c, const cfx_tensor *t, int i, int d, ptrdiff_t *sizes) {
    int which = -1;
    ptrdiff_t at[CFX_MAX_DIMS], low[CFX_MAX_DIMS] = {0}, high[CFX_MAX_DIMS] = {0};
    memcpy(at, sizes, sizeof at);
    for (int k = 0; k < c->nsizes; k++) {
        at[k] = c->least[k];
        c->shape(i, at, low);
        at[k] = c->most[k];
        c->shape(i, at, high);
        at[k] = sizes[k];
        if (low[d] == high[d])
            continue;
        if (which >= 0)
            return;
        which = k;
    }
    for (ptrdiff_t v = which >= 0 ? c->least[which] : 1; which >= 0 && v <= c->most[which]; v++) {
        at[which] = v;
        if (fits(c, at, i, d, t->shape[d])) {
            sizes[which] = v;
            return;
        }
    }
}

/* ---- running --------------------------------------------------------------------------------- */

/* Memory that is aligned to 64 bytes, as a tensor; scope. */
static void *room(size_t bytes) {
    const int64_t n = (int64_t)bytes + 64;
    cfx_tensor *t = cfx__tensor_empty((cfx_site){0}, CFX_U8, false, 1, &n, NULL);
    return cfx_ok() ? t->data + (64 - ((uintptr_t)t->data & 63)) % 64 : NULL;
}

/* The weights beside the object, "model.bin"; NULL, with an error. */
static void *weights_of(compiled *c, const char *path) {
    const char *bin = cfx__text_format("%.*s.bin", (int)strlen(path) - 3, path);
    void *to = room(c->weights);
    cfx__file_mapping *f = to ? cfx__file_map(bin) : NULL;
    const bool fine = f && f->size == c->weights;
    if (fine && f->size)
        memcpy(to, f->data, f->size);
    if (f && !fine)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0},
                 "'%s' has %zu bytes, the weights of this program %zu", bin, f->size, c->weights);
    cfx_drop(f);
    return fine ? to : NULL;
}

static cfx_value call(compiled *c, const char *path, const cfx_dict *given) {
    enum { MOST = 256 };
    const void *in[MOST];
    void *out[MOST];
    ptrdiff_t sizes[CFX_MAX_DIMS];
    cfx_value results = cfx_list_value(0, NULL);
    if (c->ninputs > MOST || c->noutputs > MOST || c->nsizes > CFX_MAX_DIMS)
        return trouble(path, "has more inputs or results than a program");
    for (int k = 0; k < c->nsizes; k++)
        sizes[k] = c->least[k];
    for (int i = 0; i < c->ninputs; i++) {
        const cfx_tensor *t = input_of(c, given, i);
        for (int d = 0; t && d < t->ndim; d++)
            follow(c, t, i, d, sizes);
        if (!t)
            return cfx_bad();
        in[i] = t->data;
    }
    for (int i = 0; i < c->ninputs; i++) {
        const cfx_tensor *t = input_of(c, given, i);
        for (int d = 0; t && d < t->ndim; d++)
            if (!fits(c, sizes, i, d, t->shape[d])) {
                cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                         "input in%d is of a size that it is not for", i);
                return cfx_bad();
            }
    }
    for (int i = 0; i < c->noutputs; i++) {
        ptrdiff_t at[CFX_MAX_DIMS] = {0};
        int64_t shape[CFX_MAX_DIMS];
        cfx_dtype d;
        c->shape(c->ninputs + i, sizes, at);
        for (int k = 0; k < c->ndims[c->ninputs + i]; k++)
            shape[k] = at[k];
        if (!dtype_named(c->dtypes[c->ninputs + i], &d))
            return trouble(path, "has a dtype that is not known");
        cfx_tensor *t =
            cfx__tensor_empty((cfx_site){0}, d, false, c->ndims[c->ninputs + i], shape, NULL);
        cfx_list_append(cfx_as_list(results), cfx_tensor_value(t));
        out[i] = t->data;
    }
    void *weights = c->weights ? weights_of(c, path) : NULL;
    void *state = room(c->state), *arena = room(c->arena);
    if (!cfx_ok())
        return cfx_bad();
    const int code = c->run(weights, state, arena, sizes, in, out);
    return code ? trouble(path, code == 2   ? "a size is out of its range"
                                : code == 3 ? "an index is out of range, or a divisor 0"
                                            : "its weights are of another program")
                : results;
}

/* OpenMP's library stays where a program has brought it: its threads wait in it for more. */
static void keep_threads(void *file) {
    Dl_info at;
    void *function = dlsym(file, "omp_get_thread_num");
    if (function && dladdr(function, &at) && at.dli_fname)
        dlopen(at.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

cfx_value cli_library_run_one(const char *path, const char *symbol, const cfx_dict *given) {
    /* a name without a slash would be looked for in the system's folders */
    const char *where = strchr(path, '/') ? path : cfx__text_format("./%s", path);
    void *file = dlopen(where, RTLD_NOW | RTLD_LOCAL);
    if (!file)
        return trouble(path, dlerror());
    compiled *c = (compiled *)dlsym(file, symbol);
    cfx_value out;
    if (!c)
        out = trouble(path, "is no program of cfx compile --library");
    else if (c->version != CFX__C_LIBRARY_VERSION)
        out = trouble(path, "is of another version of cfx");
    else
        out = call(c, path, given);
    keep_threads(file);
    dlclose(file);
    return out;
}

cfx_value cli_library_run(const char *path, const cfx_dict *given) {
    return cli_library_run_one(path, "cfx_compiled", given);
}
