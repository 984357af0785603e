/* What the harnesses share: values out of bytes, limits, and what is wrong. */
#include "fuzz.h"

#include "dispatch/dispatch.h"
#include "tensor/tensor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- bytes ----------------------------------------------------------------------------------- */

static uint32_t byte(fuzz_bytes *b) { return b->at < b->end ? *b->at++ : 0; }

uint32_t fuzz_below(fuzz_bytes *b, uint32_t n) {
    uint32_t v = byte(b);
    if (n > 256)
        v = v << 8 | byte(b);
    return v % n;
}

int64_t fuzz_int(fuzz_bytes *b) {
    static const int64_t evil[] = {INT64_MAX, INT64_MIN, INT64_MIN + 1, (int64_t)1 << 62,
                                   (int64_t)1 << 40, -((int64_t)1 << 40), (int64_t)1 << 31,
                                   -((int64_t)1 << 31), INT32_MAX, 1 << 16, 4096, -1000000, 65, 64};
    uint32_t v = byte(b);
    return v < 200 ? (int64_t)(v % 12) - 3 : evil[v % (sizeof evil / sizeof *evil)];
}

double fuzz_float(fuzz_bytes *b) {
    static const double evil[] = {0.0, -0.0, 1e-300, 1e30, -1e300, 1.0 / 0.0, -1.0 / 0.0, 1e-45};
    uint32_t v = byte(b);
    if (v == 255)
        return (double)__builtin_nan("");
    return v < 180 ? ((double)v - 90) / 16 : evil[v % (sizeof evil / sizeof *evil)];
}

cfx_tensor *fuzz_tensor(fuzz_bytes *b) {
    static const int64_t sizes[] = {0, 1, 1, 2, 2, 3, 3, 4, 5, 8};
    int ndim = (int)fuzz_below(b, 6);
    int64_t shape[6];
    for (int i = 0; i < ndim; i++)
        shape[i] = sizes[fuzz_below(b, 10)];
    uint32_t kind = fuzz_below(b, 8);
    cfx_dtype dtype = kind < 4   ? CFX_F32
                      : kind < 6 ? CFX_I64
                                 : (cfx_dtype)fuzz_below(b, CFX_DTYPE_COUNT);
    cfx_tensor *t = cfx_tensor_new(dtype, ndim, shape, NULL);
    for (int64_t i = 0; i < t->numel; i++)
        cfx__tensor_set(t, i, cfx__dtype_is_float(dtype) ? cfx_float(fuzz_float(b))
                                                         : cfx_int(fuzz_int(b)));
    if (ndim > 1 && fuzz_below(b, 4) == 0)
        t = cfx_transpose(t, 0, ndim - 1);
    return t;
}

cfx_value fuzz_value(fuzz_bytes *b, int depth) {
    static const char *const words[] = {"mean", "sum",  "none",   "constant", "circular", "reflect",
                                        "ij",   "same", "linear", "ij,jk->ik", "", "bilinear"};
    switch (fuzz_below(b, depth ? 12 : 9)) {
    case 0: return cfx_none();
    case 1: return cfx_bool(fuzz_below(b, 2));
    case 2:
    case 3: return cfx_int(fuzz_int(b));
    case 4: return cfx_float(fuzz_float(b));
    case 5: return cfx_string_value(words[fuzz_below(b, 12)]);
    case 6: return cfx_dtype_value((cfx_dtype)fuzz_below(b, CFX_DTYPE_COUNT));
    case 7: return cfx_tensor_value(fuzz_tensor(b));
    case 8: return cfx_complex_value(fuzz_float(b), fuzz_float(b));
    case 9: return cfx_slice_value(cfx_int(fuzz_int(b)), cfx_int(fuzz_int(b)), cfx_none());
    default: {
        cfx_value list = fuzz_below(b, 2) ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
        for (uint32_t n = fuzz_below(b, 5); n > 0; n--)
            cfx_list_append(cfx_as_list(list), fuzz_value(b, depth - 1));
        return list;
    }
    }
}

/* Each operator draws a lot for the number, of its name; the highest wins. */
cfx_op *fuzz_op(uint64_t number) {
    enum { MOST = 4096 };
    static uint64_t names[MOST];
    int n = cfx_op_count() < MOST ? cfx_op_count() : MOST, best = 0;
    uint64_t highest = 0;
    for (int i = 0; i < n; i++) {
        if (!names[i])
            names[i] = cfx__text_hash(cfx_op_name(cfx_op_at(i)), strlen(cfx_op_name(cfx_op_at(i))));
        uint64_t lot = (names[i] ^ number * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
        if (lot > highest) {
            highest = lot;
            best = i;
        }
    }
    return cfx_op_at(best);
}

/* ---- one input ------------------------------------------------------------------------------- */

static void unread(const char *line, void *user) { (void)line, (void)user; }

void fuzz_begin(void) {
    cfx_set_log(unread, NULL);
    cfx_set_num_threads(1);
    cfx_set_memory_limit((size_t)256 << 20);
    cfx_set_node_limit(100000);
    const char *seconds = getenv("CFX_FUZZ_SECONDS");
    cfx_set_time_limit(seconds ? strtod(seconds, NULL) : 2);
    cfx_manual_seed(1);
}

int fuzz_end(void) {
    cfx_error_clear();
    while (cfx_ok()) /* regions that a program began and did not end */
        cfx_autocast_end();
    cfx_error_clear();
    cfx_set_time_limit(0);
    cfx_scope_close(0);
    return 0;
}

void *fuzz_shared(size_t size) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED)
        return at;
    fprintf(stderr, "mmap: %s\n", strerror(errno));
    exit(2);
}

const char *fuzz_file(const char *path) {
    if (access(path, R_OK) == 0)
        return path;
    fprintf(stderr, "%s: %s; start in the folder of the repository\n", path, strerror(errno));
    exit(2);
}

const char *fuzz_path(const char *suffix) {
    static char path[256];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/cfx-fuzz-%ld.%s", folder ? folder : "/tmp", (long)getpid(),
             suffix);
    return path;
}

bool fuzz_limited(void) {
    const cfx_error *e = cfx_error_last();
    return e && (e->kind == CFX_LIMIT_ERROR || e->kind == CFX_MEMORY_ERROR);
}

bool fuzz_fine(void) {
    const cfx_error *e = cfx_error_last();
    if (!e)
        return true;
    if (!e->message || !*e->message)
        fuzz_wrong("an error without a word");
    cfx_error_clear();
    return false;
}

void fuzz_wrong(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "wrong: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    __builtin_trap();
}

cfx_value fuzz_fitting(const struct cfx__schema_arg *a, cfx_value tensor) {
    cfx_value item = cfx_none();
    if (a->has_default || a->optional)
        return a->fallback;
    switch (a->type) {
    case CFX__T_TENSOR: item = tensor; break;
    case CFX__T_SCALAR:
    case CFX__T_INT: item = cfx_int(1); break;
    case CFX__T_FLOAT: item = cfx_float(0.5); break;
    case CFX__T_BOOL: item = cfx_bool(true); break;
    case CFX__T_STR: item = cfx_string_value("mean"); break;
    case CFX__T_DTYPE: item = cfx_dtype_value(CFX_F32); break;
    case CFX__T_DEVICE: item = cfx_string_value("cpu"); break;
    case CFX__T_MEMORY_FORMAT: item = cfx_memory_format_value(CFX_CONTIGUOUS); break;
    default: break;
    }
    return a->list ? cfx_list_value(1, &item) : item;
}
