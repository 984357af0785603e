/* Elements whose places are told by others. */
#include "kernel.h"

/* The type of so many bytes. */
static const char *unit_of(int64_t bytes) {
    return bytes == 1   ? "unsigned char"
           : bytes == 2 ? "unsigned short"
           : bytes == 4 ? "unsigned"
           : bytes == 8 ? "u64"
                        : "uint4";
}

/* How an element is added to another, as a statement over `to` and `from`; NULL: it is not. */
static const char *addition(cfx_dtype dtype) {
    return dtype == CFX_F32 || dtype == CFX_F64 || dtype == CFX_I64 || dtype == CFX_I32
               ? "*to += from;"
           : dtype == CFX_BF16 || dtype == CFX_F16 ? "store(to, load(to) + load(&from));"
                                                   : NULL;
}

static const char *number_of(cfx_dtype dtype) {
    return dtype == CFX_F32   ? "float"
           : dtype == CFX_F64 ? "double"
           : dtype == CFX_I64 ? "i64"
           : dtype == CFX_I32 ? "int"
                              : "unsigned short";
}

/* What a launch counts through: 5 dimensions, and units of memory in place of elements. */
typedef struct steps {
    int64_t size[CFX__CUDA_DIMS], x[CFX__CUDA_DIMS], y[CFX__CUDA_DIMS];
    int64_t index[CFX__CUDA_INDEXES][CFX__CUDA_DIMS], most[CFX__CUDA_INDEXES];
    int64_t step[CFX__CUDA_INDEXES], unit;
} steps;

/* Elements of the last dimension that lie beside each other on both sides go together. */
static void widen(const cfx__cuda_index_call *c, steps *s) {
    const int last = CFX__CUDA_DIMS - 1;
    bool even = s->x[last] == 1 && s->y[last] == 1 && c->x.at % 16 == 0 && c->y.at % 16 == 0;
    for (int i = 0; i < c->n; i++)
        even &= s->index[i][last] == 0;
    const int64_t by = 16 / s->unit;
    for (int d = 0; d < CFX__CUDA_DIMS && even; d++)
        even = d == last ? s->size[d] % by == 0 : s->x[d] % by == 0 && s->y[d] % by == 0;
    for (int i = 0; i < c->n && even; i++)
        even = s->step[i] % by == 0;
    if (!even || by == 1)
        return;
    s->size[last] /= by, s->unit = 16;
    for (int d = 0; d < last; d++)
        s->x[d] /= by, s->y[d] /= by;
    for (int i = 0; i < c->n; i++)
        s->step[i] /= by;
}

static steps steps_of(const cfx__cuda_index_call *c) {
    steps s = {.unit = (int64_t)cfx_dtype_size(c->x.dtype)};
    const int skip = CFX__CUDA_DIMS - c->ndim;
    for (int d = 0; d < CFX__CUDA_DIMS; d++) {
        s.size[d] = d < skip ? 1 : c->size[d - skip];
        s.x[d] = d < skip ? 1 : c->x_stride[d - skip];
        s.y[d] = d < skip ? 0 : c->y_stride[d - skip];
        for (int i = 0; i < c->n; i++)
            s.index[i][d] = d < skip ? 0 : c->index[i].stride[d - skip];
    }
    for (int i = 0; i < c->n; i++)
        s.most[i] = c->index[i].most, s.step[i] = c->index[i].step;
    return s;
}

bool cfx__cuda_index_elements(const cfx__cuda_index_call *c, cfx__cuda_work *work) {
    const bool put = c->way != CFX__CUDA_TAKE, add = c->way == CFX__CUDA_ADD;
    if (c->n < 1 || c->n > CFX__CUDA_INDEXES || c->ndim > CFX__CUDA_DIMS ||
        c->x.dtype != c->y.dtype || (add && !addition(c->x.dtype)))
        return false;
    int64_t all = 1, free = 1;
    for (int d = 0; d < c->ndim; d++) {
        all *= c->size[d];
        free *= put && c->x_stride[d] == 0 ? 1 : c->size[d];
    }
    const cfx_dtype told = c->index[0].array.dtype;
    for (int i = 0; i < c->n; i++)
        if (c->index[i].array.dtype != told || (told != CFX_I64 && told != CFX_I32) ||
            (all && c->index[i].most < 1))
            return false;
    if (all == 0)
        return true;
    steps s = steps_of(c);
    if (s.unit > 8)
        return false;
    if (!add)
        widen(c, &s);
    cfx__cuda_launch *l = cfx__cuda_launch_add(work, cfx__cuda_text("index"), "index_elements");
    if (!l)
        return false;
    const char *element = c->x.dtype == CFX_BF16 || c->x.dtype == CFX_F16
                              ? cfx__cuda_element(c->x.dtype, CFX__CUDA_EXACT)
                              : "";
    l->defines = cfx__text_format(
        "%s#define E %s\n#define INDEX %s\n#define INDEXES %d\n#define COUNT %s\n#define PUT %d\n"
        "#define ADD %d\n#define ADD_ELEMENT %s\n",
        element, add ? number_of(c->x.dtype) : unit_of(s.unit), told == CFX_I64 ? "i64" : "int",
        c->n, all < INT32_MAX ? "unsigned" : "u64", put, add, add ? addition(c->x.dtype) : "");
    const int64_t threads = put ? free : all * (int64_t)cfx_dtype_size(c->x.dtype) / s.unit;
    const int64_t blocks = cfx__cuda_up(threads, 256), most = 64 * CFX__CUDA_SMS;
    l->grid[0] = (unsigned)(blocks < most ? blocks : most), l->block[0] = 256;
    cfx__cuda_pass_array(l, &c->x), cfx__cuda_pass_array(l, &c->y);
    cfx__cuda_pass_place(l, CFX__CUDA_FLAG);
    for (int i = 0; i < CFX__CUDA_INDEXES; i++)
        cfx__cuda_pass_array(l, &c->index[i < c->n ? i : 0].array);
    cfx__cuda_pass_integer(l, c->wrap);
    const int64_t *rows[] = {s.size, s.x, s.y};
    for (int i = 0; i < 3; i++)
        for (int d = 0; d < CFX__CUDA_DIMS; d++)
            cfx__cuda_pass_integer(l, rows[i][d]);
    for (int i = 0; i < CFX__CUDA_INDEXES; i++) {
        for (int d = 0; d < CFX__CUDA_DIMS; d++)
            cfx__cuda_pass_integer(l, s.index[i][d]);
        cfx__cuda_pass_integer(l, s.most[i]), cfx__cuda_pass_integer(l, s.step[i]);
    }
    return true;
}
