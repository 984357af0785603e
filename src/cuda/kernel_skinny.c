/* Skinny products, of a few rows: how many warps share what. */
#include "kernel.h"

/* Elements in 16 bytes of the weight. */
static int64_t piece_of(const cfx__cuda_weight *w) {
    return w->bits == 8 ? 16 : w->bits == 4 ? 32 : 16 / (int64_t)cfx_dtype_size(w->w.dtype);
}

/* What the kernel calls the kind of weight; -1: not such a one. */
static int kind_of(const cfx__cuda_array *x, const cfx__cuda_weight *w) {
    if (w->bits)
        return (w->bits == 8 && w->w.dtype == CFX_I8) || (w->bits == 4 && w->w.dtype == CFX_U8)
                   ? w->bits
                   : -1;
    return w->w.dtype == x->dtype                              ? 0
           : x->dtype == CFX_F32 && w->w.dtype == CFX_BF16     ? 1
           : x->dtype == CFX_F32 && w->w.dtype == CFX_F16      ? 2
                                                               : -1;
}

static bool row_lies(const cfx__cuda_array *a) {
    return a->ndim == 2 && (a->shape[1] == 1 || a->stride[1] == 1);
}

typedef struct skinny {
    int64_t m, n, k, ldx, ldadd, ldout;
    int kind, wide;
    bool vector;
} skinny;

/* Rows from `from` on, 8 at most. */
static bool launch(const skinny *f, const cfx__cuda_array *x, const cfx__cuda_weight *w,
                   const cfx__cuda_after *after, const cfx__cuda_array *out, int64_t from,
                   cfx__cuda_precision precision, cfx__cuda_work *work) {
    const int64_t rows = f->m - from < 8 ? f->m - from : 8, piece = piece_of(w);
    const int64_t nr = f->n / 2 >= 8 * CFX__CUDA_SMS ? 2 : 1;
    int64_t kw = 1;
    while (kw < 8 && f->n / nr * kw < 16 * CFX__CUDA_SMS && f->k / piece >= 64 * kw)
        kw *= 2;
    cfx__cuda_launch *l = cfx__cuda_launch_add(work, cfx__cuda_text("skinny"), "skinny");
    if (!l)
        return false;
    l->defines = cfx__text_format(
        "%s#define M %d\n#define NR %d\n#define KW %d\n#define WEIGHT %d\n#define VECTOR %d\n"
        "#define POST(v) %s\n",
        cfx__cuda_element(x->dtype, precision), (int)rows, (int)nr, (int)kw, f->kind,
        f->vector, after && after->post ? after->post : "");
    l->grid[0] = (unsigned)cfx__cuda_up(f->n, nr * (8 / kw));
    l->block[0] = 256;
    cfx__cuda_array xs = *x, adds = after ? after->add : *x, outs = *out;
    xs.at += from * f->ldx * f->wide;
    adds.at += from * f->ldadd * f->wide;
    outs.at += from * f->ldout * f->wide;
    cfx__cuda_pass_array(l, &xs), cfx__cuda_pass_array(l, &w->w);
    cfx__cuda_pass_optional(l, w->bits ? &w->scales : NULL);
    cfx__cuda_pass_optional(l, after ? &after->bias : NULL);
    cfx__cuda_pass_optional(l, after ? &adds : NULL);
    cfx__cuda_pass_array(l, &outs);
    const int64_t numbers[] = {f->n, f->k, f->ldx, f->ldadd, f->ldout, w->group};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cfx__cuda_pass_integer(l, numbers[i]);
    return true;
}

bool cfx__cuda_skinny(const cfx__cuda_array *x, const cfx__cuda_weight *w,
                   const cfx__cuda_after *after, const cfx__cuda_array *out,
                   cfx__cuda_precision precision, cfx__cuda_work *work) {
    if (!row_lies(x) || !row_lies(out) || w->w.ndim != 2 || out->dtype != x->dtype ||
        kind_of(x, w) < 0 || !cfx__cuda_element(x->dtype, CFX__CUDA_EXACT))
        return false;
    skinny f = {.m = x->shape[0], .n = out->shape[1], .k = x->shape[1], .kind = kind_of(x, w),
             .wide = (int)cfx_dtype_size(x->dtype)};
    const int64_t columns = w->bits == 4 ? f.k / 2 : f.k;
    if (f.m < 1 || f.m > 16 || f.n < 1 || f.k < 1 || w->w.shape[0] != f.n ||
        w->w.shape[1] != columns || (columns > 1 && w->w.stride[1] != 1) ||
        (f.n > 1 && w->w.stride[0] != columns) || (w->bits == 4 && f.k % 2) ||
        cfx__cuda_up(f.n, 1) > INT32_MAX || (w->group && f.k % w->group))
        return false;
    f.ldx = f.m > 1 ? x->stride[0] : 0, f.ldout = f.m > 1 ? out->stride[0] : 0;
    if (after && after->add.operand >= 0) {
        if (!row_lies(&after->add) || after->add.dtype != x->dtype)
            return false;
        f.ldadd = f.m > 1 ? after->add.stride[0] : 0;
    }
    const int64_t piece = piece_of(w);
    f.vector = f.k % piece == 0 && x->at % 16 == 0 && w->w.at % 16 == 0 &&
               f.ldx * f.wide % 16 == 0 && w->group % piece == 0;
    const int n = work->n;
    for (int64_t from = 0; from < f.m; from += 8)
        if (!launch(&f, x, w, after, out, from, precision, work)) {
            work->n = n;
            return false;
        }
    return true;
}
