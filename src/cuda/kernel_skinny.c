/* Skinny products, of a few rows: how many warps share what. */
#include "../compile/compile.h"
#include "kernel.h"

/* Elements of the weight that a lane reads at a time. */
static int64_t piece_of(const cfx__cuda_weight *w) {
    return w->bits ? 8 : 16 / (int64_t)cfx_dtype_size(w->w.dtype);
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
    int64_t m, k, ldx, group, rows; /* rows of all weights */
    int kind, wide;
    bool vector, ahead, made; /* made: x is */
} skinny;

/* What one product of the launch is given for rows of x from `from` on. */
static void pass_part(cfx__cuda_launch *l, const skinny *f, const cfx__cuda_skinny_part *p,
                      int64_t from) {
    cfx__cuda_array add = p->after.add, out = p->out;
    const int64_t ldadd = add.operand >= 0 && f->m > 1 ? add.stride[0] : 0;
    const int64_t ldout = f->m > 1 ? out.stride[0] : 0;
    add.at += from * ldadd * f->wide;
    out.at += from * ldout * f->wide;
    cfx__cuda_pass_array(l, &p->w.w);
    cfx__cuda_pass_optional(l, p->w.bits ? &p->w.scales : NULL);
    cfx__cuda_pass_optional(l, &p->after.bias);
    cfx__cuda_pass_optional(l, &add);
    cfx__cuda_pass_array(l, &out);
    cfx__cuda_pass_integer(l, out.shape[1]);
    cfx__cuda_pass_integer(l, ldadd);
    cfx__cuda_pass_integer(l, ldout);
}

/* What follows each product, by its number. */
static const char *posts_of(int n, const cfx__cuda_skinny_part *parts) {
    cfx__text t = {0};
    for (int i = 0; i < n; i++)
        if (parts[i].after.post)
            cfx__text_printf(&t, "if (part == %d) { %s }", i, parts[i].after.post);
    return t.len ? cfx__text_take(&t) : "";
}

/* "BEFORE": how x is made. */
static const char *before_of(const cfx__cuda_before *b) {
    cfx__text t = {0};
    if (!b)
        return "";
    cfx__text_printf(&t, "#define BEFORE(to, i) %s(", b->function);
    for (int i = 0, p = 0; i < b->n; i++)
        if (i == b->out)
            cfx__text_puts(&t, "to, ");
        else
            cfx__text_printf(&t, "(%s *)p%d, ", cfx__c_type(b->arrays[i].dtype), p++);
    cfx__text_printf(&t,
                     "i)\n#define BEFORE_FIRST %s\n#define BEFORE_COUNT %lld\n"
                     "#define BEFORE_STEP %d\n",
                     b->apart ? "threadIdx.x" : "0", (long long)b->count, b->apart ? 256 : 1);
    cfx__text_puts(&t, "#define BEFORE_AHEAD");
    for (int i = 0, p = 0; i < b->n; i++) {
        if (b->constant[i])
            cfx__text_printf(&t,
                             " if (threadIdx.x < %d) bring_near((char *)p%d + threadIdx.x * 128);",
                             (int)cfx__cuda_up(b->constant[i], 128), p);
        p += i != b->out;
    }
    cfx__text_puts(&t, "\n");
    return cfx__text_take(&t);
}

/* Few blocks, each of which asks for all that it needs at once: then those of the next kernel are
 * there beside them, ask for theirs and wait. BUSY: warps for each multiprocessor; HELD: pieces
 * that registers hold. */
enum { BUSY = 6, HELD = 12 };

/* Rows from `from` on, 8 at most. */
static bool launch(const skinny *f, const cfx__cuda_array *x, const cfx__cuda_before *before, int n,
                   const cfx__cuda_skinny_part *parts, int64_t from,
                   cfx__cuda_precision precision, cfx__cuda_work *work) {
    const int64_t rows = f->m - from < 8 ? f->m - from : 8, piece = piece_of(&parts->w);
    const int64_t nr = f->rows / 2 >= 8 * CFX__CUDA_SMS ? 2 : 1;
    int64_t kw = 1, blocks = 0, begins[CFX__CUDA_SKINNY_PARTS];
    while (kw < 8 && f->rows / nr * kw < BUSY * CFX__CUDA_SMS && f->k / piece >= 64 * kw)
        kw *= 2;
    const int64_t pieces = cfx__cuda_up(f->k / piece, 32 * kw);
    const int64_t unroll = pieces < 1 ? 1 : pieces * nr <= HELD ? pieces : 4;
    cfx__cuda_launch *l = cfx__cuda_launch_add(work, cfx__cuda_text("skinny"), "skinny");
    if (!l)
        return false;
    l->before = before ? before->text : NULL;
    l->shared = before ? (unsigned)before->bytes : 0;
    l->defines = cfx__text_format(
        "%s%s#define PARTS %d\n#define M %d\n#define NR %d\n#define KW %d\n"
        "#define UNROLL %d\n#define WEIGHT %d\n"
        "#define VECTOR %d\n#define AHEAD %d\n#define POST(v) %s\n",
        cfx__cuda_element(x->dtype, precision), before_of(before), n, (int)rows, (int)nr,
        (int)kw, (int)unroll, f->kind, f->vector, f->ahead, posts_of(n, parts));
    for (int i = 0; i < CFX__CUDA_SKINNY_PARTS; i++) {
        begins[i] = blocks;
        blocks += i < n ? cfx__cuda_up(parts[i].out.shape[1], nr * (8 / kw)) : 0;
    }
    l->grid[0] = (unsigned)blocks;
    l->block[0] = 256;
    cfx__cuda_array xs = *x;
    xs.at += from * f->ldx * f->wide;
    cfx__cuda_pass_array(l, &xs);
    const int64_t numbers[] = {f->k, f->ldx, f->group, begins[1], begins[2], begins[3]};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cfx__cuda_pass_integer(l, numbers[i]);
    for (int i = 0; i < CFX__CUDA_SKINNY_PARTS; i++)
        if (i < n)
            pass_part(l, f, &parts[i], from);
        else
            for (int word = 0; word < 8; word++)
                cfx__cuda_pass_integer(l, 0);
    for (int i = 0; before && i < before->n; i++)
        if (i != before->out)
            cfx__cuda_pass_array(l, &before->arrays[i]);
    for (int i = before ? before->n - 1 : 0; i < CFX__CUDA_BEFORE; i++)
        cfx__cuda_pass_integer(l, 0);
    return true;
}

/* Whether a product of x is one that such a launch does, alike in all that its text says. */
static bool takes(skinny *f, const cfx__cuda_array *x, const cfx__cuda_skinny_part *p) {
    const cfx__cuda_weight *w = &p->w;
    const int64_t columns = w->bits == 4 ? f->k / 2 : f->k, n = w->w.shape[0];
    const int64_t piece = piece_of(w);
    if (!row_lies(&p->out) || w->w.ndim != 2 || p->out.dtype != x->dtype ||
        kind_of(x, w) != f->kind || w->group != f->group || p->out.shape[0] != f->m ||
        p->out.shape[1] != n || n < 1 || n > INT32_MAX - 64 || w->w.shape[1] != columns ||
        (columns > 1 && w->w.stride[1] != 1) || (n > 1 && w->w.stride[0] != columns) ||
        (w->bits == 4 && f->k % 2) || (w->group && f->k % w->group))
        return false;
    if (p->after.add.operand >= 0 &&
        (!row_lies(&p->after.add) || p->after.add.dtype != x->dtype))
        return false;
    f->vector &= f->k % piece == 0 && (f->made || x->at % 16 == 0) &&
                 w->w.at % 16 == 0 && f->ldx * f->wide % 16 == 0 && w->group % piece == 0;
    f->ahead &= p->constant;
    f->rows += n;
    return true;
}

bool cfx__cuda_skinny(const cfx__cuda_array *x, const cfx__cuda_before *before, int nparts,
                      const cfx__cuda_skinny_part *parts, cfx__cuda_precision precision,
                      cfx__cuda_work *work) {
    if (nparts < 1 || nparts > CFX__CUDA_SKINNY_PARTS || !row_lies(x) ||
        kind_of(x, &parts->w) < 0 || !cfx__cuda_element(x->dtype, CFX__CUDA_EXACT))
        return false;
    skinny f = {.m = x->shape[0], .k = x->shape[1], .kind = kind_of(x, &parts->w),
                .group = parts->w.group, .wide = (int)cfx_dtype_size(x->dtype),
                .vector = true, .ahead = true, .made = before != NULL};
    f.ldx = f.m > 1 ? x->stride[0] : 0;
    if (f.m < 1 || f.m > (before ? 8 : 16) || f.k < 1 ||
        (before && (before->n > CFX__CUDA_BEFORE + 1 || before->bytes > 48 << 10)))
        return false;
    for (int i = 0; i < nparts; i++)
        if (!takes(&f, x, &parts[i]))
            return false;
    const int n = work->n;
    for (int64_t from = 0; from < f.m; from += 8)
        if (!launch(&f, x, before, nparts, parts, from, precision, work)) {
            work->n = n;
            return false;
        }
    return true;
}
