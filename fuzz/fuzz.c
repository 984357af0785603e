/* What the harnesses share: values out of bytes, limits, and the ways to use a program. */
#include "fuzz.h"

#include "tensor/tensor.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
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

/* ---- one input ------------------------------------------------------------------------------- */

void fuzz_begin(void) {
    cfx_set_num_threads(1);
    cfx_set_memory_limit((size_t)256 << 20);
    cfx_set_node_limit(100000);
    cfx_set_time_limit(2);
    cfx_manual_seed(1);
}

int fuzz_end(void) {
    cfx_clear();
    cfx_set_time_limit(0);
    cfx_scope_close(0);
    return 0;
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
    cfx_clear();
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

/* ---- programs -------------------------------------------------------------------------------- */

static void show(cfx_program *p) {
    cfx_program_str(p);
    cfx_graph_str(p->module->graph);
    cfx_module_code(p->module);
    cfx_graph_tabular(p->module->graph);
    cfx_module_readable(p->module, (cfx_readable_options){0});
    fuzz_fine();
    cfx_program_draw(p, (cfx_draw_options){0});
    cfx_program_draw(p, (cfx_draw_options){.form = CFX_DOT});
    fuzz_fine();
    cfx_program_sample_inputs(p);
    fuzz_fine();
}

/* A tensor as the description of an input says, with small sizes for symbols; else an integer. */
static cfx_value input_for(cfx_program *p, const cfx_input_spec *spec) {
    cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, spec->name));
    if (r.kind != CFX_RESULT_TENSOR)
        return cfx_int(2);
    int64_t shape[8];
    int ndim = 0;
    for (int i = 0; i < r.ndim && ndim < 8; i++) {
        cfx_value size = cfx_result_size(&r, i);
        int64_t n = size.tag == CFX_TAG_INT ? cfx_integer(size) : 3;
        shape[ndim++] = n < 0 ? 0 : n > 64 ? 64 : n;
    }
    cfx_tensor *t = cfx_tensor_new(r.dtype, ndim, shape, NULL);
    for (int64_t i = 0; t->data && i < t->numel; i++)
        cfx__tensor_set(t, i, cfx_int(i % 3));
    return cfx_tensor_value(t);
}

static cfx_value inputs_of(cfx_program *p) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; i < p->ninputs; i++)
        if (p->inputs[i].kind == CFX_IN_USER)
            cfx_list_append(cfx_as_list(list), input_for(p, &p->inputs[i]));
    fuzz_fine();
    return list;
}

static bool runs(cfx_program *p, cfx_value inputs) {
    cfx_args args = {(int)cfx_as_list(inputs)->len, cfx_as_list(inputs)->items, NULL};
    cfx_manual_seed(1);
    cfx_program_run_from((cfx_site){0}, p, args);
    bool limited = fuzz_limited();
    return fuzz_fine() || limited;
}

/* What runs is decomposed; and what is decomposed runs as the whole does, or refuses as it. */
static void decompose(cfx_program *p) {
    cfx_value inputs = inputs_of(p);
    bool ran = runs(p, inputs);
    cfx_program *core = cfx_decompose(p, CFX_NONE);
    fuzz_fine();
    if (core && ran != runs(core, inputs) && getenv("CFX_FUZZ_ORACLE"))
        fuzz_wrong(ran ? "the program runs, its decomposition does not"
                       : "the decomposition runs, the program does not");
}

static void save(cfx_program *p) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/cfx-fuzz-%ld.pt2", (long)getpid());
    const char *text = cfx_program_str(p);
    fuzz_fine();
    bool saved = cfx_save(p, path);
    fuzz_fine();
    cfx_program *again = saved ? cfx_open(path) : NULL;
    bool limited = fuzz_limited();
    if (saved && !again && !limited)
        fuzz_wrong("what was saved cannot be opened: %s", cfx_error_last()->message);
    fuzz_fine();
    if (again && strcmp(text, cfx_program_str(again)) != 0 && getenv("CFX_FUZZ_ORACLE"))
        fuzz_wrong("saved and opened again, the program is another");
    fuzz_fine();
    unlink(path);
}

void fuzz_use(cfx_program *p) {
    bool fine = fuzz_fine();
    if (!p && fine)
        fuzz_wrong("neither a program nor an error");
    if (!p)
        return;
    show(p);
    decompose(p);
    save(p);
}
