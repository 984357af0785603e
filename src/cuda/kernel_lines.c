/* Lines of elements: scanned, sorted, searched. */
#include "kernel.h"

/* Lines along a dimension: the dimensions before it and behind it are each one. */
typedef struct lines {
    int64_t count, n, inner;
    int64_t outer_step, inner_step, step; /* of an array */
} lines;

/* Where dimensions from..to are evenly apart as one: the stride of that one; false: they are not.
 */
static bool one_stride(const cfx__cuda_array *a, int from, int to, int64_t *stride) {
    int64_t next = 0;
    bool first = true;
    *stride = 0;
    for (int i = to - 1; i >= from; i--) {
        if (a->shape[i] == 1)
            continue;
        if (first)
            *stride = a->stride[i];
        else if (a->stride[i] != next)
            return false;
        next = a->stride[i] * a->shape[i];
        first = false;
    }
    return true;
}

static bool lines_of(const cfx__cuda_array *a, int dim, lines *l) {
    int64_t outer = 1;
    const bool some = a->ndim > 0;
    *l = (lines){.inner = 1, .n = some ? a->shape[dim] : 1, .step = some ? a->stride[dim] : 1};
    for (int i = 0; i < dim; i++)
        outer *= a->shape[i];
    for (int i = dim + 1; i < a->ndim; i++)
        l->inner *= a->shape[i];
    l->count = outer * l->inner;
    return one_stride(a, 0, dim, &l->outer_step) &&
           one_stride(a, dim + 1, a->ndim, &l->inner_step);
}

static void pass_lines(cfx__cuda_launch *l, const lines *s) {
    cfx__cuda_pass_integer(l, s->outer_step), cfx__cuda_pass_integer(l, s->inner_step);
    cfx__cuda_pass_integer(l, s->step);
}

/* Elements as numbers: floats of any width, or integers; NULL: others. */
static const char *number(cfx_dtype dtype) {
    return dtype == CFX_F64   ? "#define T double\n"
           : dtype == CFX_I64 ? "#define T i64\n"
           : dtype == CFX_I32 ? "#define T int\n"
           : dtype == CFX_I16 ? "#define T short\n"
           : dtype == CFX_I8  ? "#define T signed char\n"
           : dtype == CFX_U8 || dtype == CFX_BOOL ? "#define T unsigned char\n"
                                                  : cfx__cuda_element(dtype, CFX__CUDA_EXACT);
}

bool cfx__cuda_scan(const cfx__cuda_array *x, const cfx__cuda_array *out, int dim, bool product,
                    cfx__cuda_work *work) {
    lines from, to;
    const cfx_dtype t = x->dtype;
    const bool whole = t == CFX_I64 || t == CFX_I32;
    if (!number(t) || (!whole && !cfx__cuda_element(t, CFX__CUDA_EXACT) && t != CFX_F64) ||
        out->dtype != t || !lines_of(x, dim, &from) || !lines_of(out, dim, &to) ||
        from.count > INT32_MAX)
        return false;
    if (from.count == 0 || from.n == 0)
        return true;
    cfx__cuda_launch *l = cfx__cuda_launch_add(work, cfx__cuda_text("scan"), "scan");
    if (!l)
        return false;
    const bool block = from.inner == 1 || from.count < 4 * CFX__CUDA_SMS;
    l->defines = cfx__text_format(
        "%s#define A %s\n#define FOLD(a, b) ((a) %s (b))\n#define NONE ((A)%d)\n#define BLOCK %d\n",
        number(t), whole ? "i64" : t == CFX_F64 ? "double" : "float", product ? "*" : "+", product,
        block);
    l->grid[0] = (unsigned)(block ? from.count : cfx__cuda_up(from.count, 256));
    l->block[0] = 256;
    cfx__cuda_pass_array(l, x), cfx__cuda_pass_array(l, out);
    cfx__cuda_pass_integer(l, from.count), cfx__cuda_pass_integer(l, from.n);
    cfx__cuda_pass_integer(l, from.inner);
    pass_lines(l, &from), pass_lines(l, &to);
    return true;
}

/* Where the pairs of a sort lie in the scratch memory: two sets of keys and of places. */
typedef struct pairs {
    int64_t keys[2], places[2];
} pairs;

static void pass_scratch(cfx__cuda_launch *l, int64_t at) {
    cfx__cuda_pass(l, (cfx__cuda_arg){CFX__CUDA_POINTER, CFX__CUDA_SCRATCH, at, 0});
}

enum { TILE = 2048 };

/* Merges runs of `run` until a line is one; the set that has it, or -1. */
static int add_merges(const lines *s, const pairs *p, const char *defines, cfx__cuda_work *work) {
    int set = 0;
    for (int64_t run = TILE; run < s->n; run *= 2, set = !set) {
        cfx__cuda_launch *l = cfx__cuda_launch_add(work, cfx__cuda_text("sort"), "sort_merge");
        if (!l)
            return -1;
        l->defines = defines;
        l->grid[0] = (unsigned)cfx__cuda_up(s->n, 256), l->grid[1] = (unsigned)s->count;
        l->block[0] = 256;
        pass_scratch(l, p->keys[set]), pass_scratch(l, p->places[set]);
        pass_scratch(l, p->keys[!set]), pass_scratch(l, p->places[!set]);
        cfx__cuda_pass_integer(l, s->n), cfx__cuda_pass_integer(l, run);
    }
    return set;
}

bool cfx__cuda_sort(const cfx__cuda_array *x, const cfx__cuda_array *values,
                    const cfx__cuda_array *indices, int dim, bool descending,
                    cfx__cuda_work *work) {
    const cfx__cuda_array *some = values->operand >= 0 ? values : indices;
    lines s, to, other;
    const cfx_dtype t = x->dtype;
    if (!number(t) || !lines_of(x, dim, &s) || !lines_of(some, dim, &to) || s.count > 65535 ||
        s.n > INT32_MAX / 2 || (values->operand >= 0 && values->dtype != t) ||
        (indices->operand >= 0 && indices->dtype != CFX_I64))
        return false;
    if (values->operand >= 0 && indices->operand >= 0 &&
        (!lines_of(indices, dim, &other) || other.outer_step != to.outer_step ||
         other.inner_step != to.inner_step || other.step != to.step))
        return false;
    if (s.count == 0 || to.n == 0)
        return true;
    const int before = work->n;
    const int key = t == CFX_F64 ? 8 : cfx__cuda_element(t, CFX__CUDA_EXACT) ? 4 : 1;
    const char *defines = cfx__text_format("%s#define KEY %d\n#define DOWN %d\n", number(t), key,
                                           descending);
    const int64_t keys = cfx__cuda_up(s.count * s.n * 8, 256) * 256, places = keys / 2;
    const pairs p = {{0, keys}, {2 * keys, 2 * keys + places}};
    cfx__cuda_launch *l = cfx__cuda_launch_add(work, cfx__cuda_text("sort"), "sort_tiles");
    int set = -1;
    if (l) {
        l->defines = defines;
        l->grid[0] = (unsigned)cfx__cuda_up(s.n, TILE), l->grid[1] = (unsigned)s.count;
        l->block[0] = 1024;
        cfx__cuda_pass_array(l, x);
        pass_scratch(l, p.keys[0]), pass_scratch(l, p.places[0]);
        cfx__cuda_pass_integer(l, s.n), cfx__cuda_pass_integer(l, s.inner);
        pass_lines(l, &s);
        set = add_merges(&s, &p, defines, work);
    }
    l = set < 0 ? NULL : cfx__cuda_launch_add(work, cfx__cuda_text("sort"), "sort_finish");
    if (!l) {
        work->n = before;
        return false;
    }
    l->defines = defines;
    l->grid[0] = (unsigned)cfx__cuda_up(to.n, 256), l->grid[1] = (unsigned)s.count;
    l->block[0] = 256;
    cfx__cuda_pass_array(l, x), pass_scratch(l, p.places[set]);
    cfx__cuda_pass_optional(l, values), cfx__cuda_pass_optional(l, indices);
    cfx__cuda_pass_integer(l, s.n), cfx__cuda_pass_integer(l, to.n);
    cfx__cuda_pass_integer(l, s.inner);
    pass_lines(l, &s), pass_lines(l, &to);
    cfx__cuda_need(work, 2 * keys + 2 * places);
    return true;
}

bool cfx__cuda_extreme(const cfx__cuda_array *x, const cfx__cuda_array *values,
                       const cfx__cuda_array *indices, int dim, bool least,
                       cfx__cuda_work *work) {
    const char *type = cfx__cuda_element(x->dtype, CFX__CUDA_EXACT);
    lines s;
    if (!type || !lines_of(x, dim, &s) || s.n < 1 || s.count > INT32_MAX)
        return false;
    if (s.count == 0)
        return true;
    cfx__cuda_launch *l = cfx__cuda_launch_add(work, cfx__cuda_text("extreme"), "extreme");
    if (!l)
        return false;
    l->defines = cfx__text_format("%s#define LESS %d\n", type, least);
    l->grid[0] = (unsigned)s.count, l->block[0] = 256;
    cfx__cuda_pass_array(l, x);
    cfx__cuda_pass_optional(l, values), cfx__cuda_pass_optional(l, indices);
    cfx__cuda_pass_integer(l, s.n), cfx__cuda_pass_integer(l, s.inner);
    pass_lines(l, &s);
    return true;
}
