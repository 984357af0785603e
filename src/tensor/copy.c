/* Copies: moving, conversion, contiguity, filling, overlap.
 *
 * A copy is planned once: dimensions in the order of dst, joined where both sides allow. Then it is
 * one line, rows, or, where src lies in order along another dimension than dst, blocks that are
 * turned in registers. Start at cfx__tensor_copy. */
#include "tensor.h"

/* ---- moving elements ------------------------------------------------------------------------- */

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define T uint8_t
#define LANES 16
#define FN(x) x##_1
#define ZIP_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define ZIP_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#include "move.inc"
#define T uint16_t
#define LANES 8
#define FN(x) x##_2
#define ZIP_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define ZIP_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#include "move.inc"
#define T uint32_t
#define LANES 4
#define FN(x) x##_4
#define ZIP_LOW 0, 4, 1, 5
#define ZIP_HIGH 2, 6, 3, 7
#include "move.inc"
#define T uint64_t
#define LANES 2
#define FN(x) x##_8
#define ZIP_LOW 0, 2
#define ZIP_HIGH 1, 3
#include "move.inc"

static void strided_16(char *dst, int64_t ds, const char *src, int64_t ss, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        memcpy(dst + i * ds, src + i * ss, 16);
}

static void transposed_16(char *dst, int64_t ds, const char *src, int64_t ss, int64_t rows,
                          int64_t cols) {
    for (int64_t r = 0; r < rows; r++)
        strided_16(dst + r * ds, 16, src + r * 16, ss, cols);
}

/* ---- the plan of a copy ---------------------------------------------------------------------- */

/* Both sides, dimension 0 innermost in dst; strides in bytes. */
typedef struct {
    char *dst;
    const char *src;
    cfx_dtype to, from;
    int size; /* bytes that move together; the size of an element where dtypes differ */
    int ndim;
    int64_t shape[CFX_MAX_DIMS], ds[CFX_MAX_DIMS], ss[CFX_MAX_DIMS];
    int turned;           /* a dimension that src has innermost, or 0 */
    int64_t rows, blocks; /* blocks of the turned dimension, and of dimension 0 */
} plan;

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

/* Dimensions of more than one element, sorted by the strides of dst; those that both sides walk as
 * one are joined. */
static void plan_dims(plan *p, const cfx_tensor *dst, const cfx_tensor *src) {
    int to = cfx_dtype_size(dst->dtype), from = cfx_dtype_size(src->dtype);
    p->ndim = 0;
    for (int d = dst->ndim - 1; d >= 0; d--) {
        int other = d - (dst->ndim - src->ndim);
        if (dst->shape[d] == 1)
            continue;
        int64_t ss = other < 0 || src->shape[other] == 1 ? 0 : src->stride[other] * from;
        int64_t ds = dst->stride[d] * to;
        int k = p->ndim++;
        for (; k > 0 && magnitude(ds) < magnitude(p->ds[k - 1]); k--) {
            p->shape[k] = p->shape[k - 1];
            p->ds[k] = p->ds[k - 1];
            p->ss[k] = p->ss[k - 1];
        }
        p->shape[k] = dst->shape[d];
        p->ds[k] = ds;
        p->ss[k] = ss;
    }
    int last = 0;
    for (int d = 1; d < p->ndim; d++) {
        if (p->ds[d] == p->ds[last] * p->shape[last] && p->ss[d] == p->ss[last] * p->shape[last]) {
            p->shape[last] *= p->shape[d];
            continue;
        }
        last++;
        p->shape[last] = p->shape[d];
        p->ds[last] = p->ds[d];
        p->ss[last] = p->ss[d];
    }
    p->ndim = p->ndim ? last + 1 : 0;
}

static void drop_inner(plan *p) {
    p->ndim--;
    memmove(p->shape, p->shape + 1, (size_t)p->ndim * sizeof *p->shape);
    memmove(p->ds, p->ds + 1, (size_t)p->ndim * sizeof *p->ds);
    memmove(p->ss, p->ss + 1, (size_t)p->ndim * sizeof *p->ss);
}

/* Short runs that lie together on both sides become wider elements: pairs of floats move as one. */
static void widen(plan *p) {
    if (p->ndim < 2 || p->ds[0] != p->size || p->ss[0] != p->size)
        return;
    int64_t bytes = p->shape[0] * p->size;
    if (bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16) {
        p->size = (int)bytes;
        drop_inner(p);
    }
}

static void swap_dims(plan *p, int a, int b) {
    int64_t *lists[] = {p->shape, p->ds, p->ss};
    for (int i = 0; i < COUNT(lists); i++) {
        int64_t held = lists[i][a];
        lists[i][a] = lists[i][b];
        lists[i][b] = held;
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void copy_row(const plan *p, char *dst, const char *src, int64_t ds, int64_t ss, int64_t n) {
    if (p->to != p->from) {
        cfx__convert(dst, ds, p->to, src, ss, p->from, n);
        return;
    }
    if (ds == p->size && ss == p->size) {
        memcpy(dst, src, (size_t)(n * p->size));
        return;
    }
    switch (p->size) {
    case 1:
        strided_1(dst, ds, src, ss, n);
        return;
    case 2:
        strided_2(dst, ds, src, ss, n);
        return;
    case 4:
        strided_4(dst, ds, src, ss, n);
        return;
    case 8:
        strided_8(dst, ds, src, ss, n);
        return;
    default:
        strided_16(dst, ds, src, ss, n);
    }
}

/* Rows begin..end of all but dimension 0. */
static void copy_rows(void *arg, int64_t begin, int64_t end) {
    const plan *p = arg;
    int64_t index[CFX_MAX_DIMS], rest = begin;
    char *dst = p->dst;
    const char *src = p->src;
    for (int d = 1; d < p->ndim; d++) {
        index[d] = rest % p->shape[d];
        rest /= p->shape[d];
        dst += index[d] * p->ds[d];
        src += index[d] * p->ss[d];
    }
    for (int64_t row = begin; row < end; row++) {
        copy_row(p, dst, src, p->ds[0], p->ss[0], p->shape[0]);
        for (int d = 1; d < p->ndim; d++) {
            dst += p->ds[d];
            src += p->ss[d];
            if (++index[d] < p->shape[d])
                break;
            dst -= p->shape[d] * p->ds[d];
            src -= p->shape[d] * p->ss[d];
            index[d] = 0;
        }
    }
}

/* One dimension: bytes or elements begin..end. */
static void copy_line(void *arg, int64_t begin, int64_t end) {
    const plan *p = arg;
    copy_row(p, p->dst + begin * p->ds[0], p->src + begin * p->ss[0], p->ds[0], p->ss[0],
             end - begin);
}

/* ---- turned copies --------------------------------------------------------------------------- */

enum { TURN_ROWS = 256, TURN_COLS = 256 };

/* A block of the turned dimension and dimension 0: small enough that the pages of src stay known.
 */
static void copy_block(const plan *p, char *dst, const char *src, int64_t rows, int64_t cols) {
    int64_t ds = p->ds[p->turned], ss = p->ss[0];
    if (p->to != p->from) {
        enum { STRIP = 32 }; /* columns of which src holds whole cache lines by rows */
        for (int64_t c = 0; c < cols; c += STRIP) {
            int64_t n = cols - c < STRIP ? cols - c : STRIP;
            for (int64_t r = 0; r < rows; r++)
                cfx__convert(dst + r * ds + c * p->ds[0], p->ds[0], p->to,
                             src + r * p->ss[p->turned] + c * ss, ss, p->from, n);
        }
        return;
    }
    switch (p->size) {
    case 1:
        transposed_1(dst, ds, src, ss, rows, cols);
        return;
    case 2:
        transposed_2(dst, ds, src, ss, rows, cols);
        return;
    case 4:
        transposed_4(dst, ds, src, ss, rows, cols);
        return;
    case 8:
        transposed_8(dst, ds, src, ss, rows, cols);
        return;
    default:
        transposed_16(dst, ds, src, ss, rows, cols);
    }
}

static void copy_blocks(void *arg, int64_t begin, int64_t end) {
    const plan *p = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t rest = i / p->blocks, c = i % p->blocks * TURN_COLS;
        int64_t r = rest % p->rows * TURN_ROWS;
        rest /= p->rows;
        char *dst = p->dst + c * p->ds[0] + r * p->ds[p->turned];
        const char *src = p->src + c * p->ss[0] + r * p->ss[p->turned];
        for (int d = 1; d < p->ndim; d++) {
            if (d == p->turned)
                continue;
            dst += rest % p->shape[d] * p->ds[d];
            src += rest % p->shape[d] * p->ss[d];
            rest /= p->shape[d];
        }
        int64_t cols = p->shape[0] - c, rows = p->shape[p->turned] - r;
        copy_block(p, dst, src, rows < TURN_ROWS ? rows : TURN_ROWS,
                   cols < TURN_COLS ? cols : TURN_COLS);
    }
}

/* The dimension along which src lies in order where dst does along dimension 0; 0 for none. */
static int turned_dim(const plan *p) {
    int from = cfx_dtype_size(p->from), to = p->size;
    if (p->to == p->from)
        from = p->size;
    if (p->ds[0] != to || p->ss[0] == from || p->ss[0] == 0 || p->shape[0] < 4)
        return 0;
    for (int d = 1; d < p->ndim; d++)
        if (p->ss[d] == from && p->shape[d] >= 4)
            return d;
    return 0;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void run(plan *p, int64_t numel) {
    if (p->to == p->from)
        widen(p);
    if (p->ndim == 0) {
        copy_row(p, p->dst, p->src, p->size, p->size, 1);
        return;
    }
    if (p->ndim == 1) {
        cfx__parallel(p->shape[0], CFX__THREAD_WORTH, copy_line, p);
        return;
    }
    p->turned = turned_dim(p);
    if (p->turned) {
        p->rows = (p->shape[p->turned] + TURN_ROWS - 1) / TURN_ROWS;
        p->blocks = (p->shape[0] + TURN_COLS - 1) / TURN_COLS;
        int64_t n = p->rows * p->blocks * (numel / p->shape[0] / p->shape[p->turned]);
        cfx__parallel(n, cfx__grain((double)numel / (double)n), copy_blocks, p);
        return;
    }
    if (p->shape[0] < 8 && p->shape[1] > 2 * p->shape[0])
        swap_dims(p, 0, 1); /* long rows of scattered elements rather than many short ones */
    int64_t rows = 1;
    for (int d = 1; d < p->ndim; d++)
        rows *= p->shape[d];
    cfx__parallel(rows, cfx__grain((double)p->shape[0]), copy_rows, p);
}

static bool same_strides(const cfx_tensor *a, const cfx_tensor *b) {
    return cfx__tensor_same_shape(a, b) &&
           !memcmp(a->stride, b->stride, (size_t)a->ndim * sizeof *a->stride);
}

/* In the order of dst's dimensions: of what goes to one element the last stays there. */
static void copy_in_order(cfx_tensor *dst, const cfx_tensor *src) {
    plan p = {.dst = dst->data, .src = src->data, .to = dst->dtype, .from = src->dtype,
              .size = cfx_dtype_size(dst->dtype), .ndim = dst->ndim};
    for (int i = 0; i < dst->ndim; i++) {
        const int d = dst->ndim - 1 - i, other = src->ndim - 1 - i;
        p.shape[i] = dst->shape[d];
        p.ds[i] = dst->stride[d] * p.size;
        p.ss[i] = other < 0 || src->shape[other] == 1
                      ? 0
                      : src->stride[other] * cfx_dtype_size(src->dtype);
    }
    copy_rows(&p, 0, dst->numel / p.shape[0]);
}

/* The way round for a src that lies in the memory of dst: first somewhere else. */
static void copy_over(cfx_tensor *dst, const cfx_tensor *src) {
    if (dst->data == src->data && dst->dtype == src->dtype && same_strides(dst, src))
        return;
    size_t mark = cfx_scope_open();
    cfx_tensor *apart = cfx__tensor_empty((cfx_site){0}, cfx__dtype_stored(src->dtype), false,
                                          src->ndim, src->shape, NULL);
    if (apart->data) {
        cfx__tensor_copy(apart, src);
        cfx__tensor_copy(dst, apart);
    }
    cfx_scope_close(mark);
}

void cfx__tensor_copy(cfx_tensor *dst, const cfx_tensor *src) {
    if (dst->numel == 0 || unlikely(!dst->data || !src->data))
        return;
    if (unlikely(cfx__tensor_meets(dst, src))) {
        copy_over(dst, src);
        return;
    }
    if (unlikely(cfx__tensor_shares_elements(dst))) {
        copy_in_order(dst, src);
        return;
    }
    plan p;
    p.dst = dst->data;
    p.src = src->data;
    p.to = dst->dtype;
    p.from = src->dtype;
    p.size = cfx_dtype_size(dst->dtype);
    plan_dims(&p, dst, src);
    run(&p, dst->numel);
}

void cfx__tensor_fill(cfx_tensor *dst, cfx_value number) {
    size_t mark = cfx_scope_open();
    cfx_tensor *one = cfx__tensor_scalar(number, dst->dtype);
    if (one->data)
        cfx__tensor_copy(dst, one);
    cfx_scope_close(mark);
}

cfx_tensor *cfx__tensor_contiguous_as(const cfx_tensor *t, cfx_dtype dtype) {
    if ((t->dtype == dtype && cfx__tensor_is_contiguous(t)) || unlikely(cfx__obj_is_bad(t)))
        return (cfx_tensor *)t;
    cfx_tensor *c = cfx__tensor_empty((cfx_site){0}, dtype, !t->data, t->ndim, t->shape, NULL);
    if (c->data && t->data)
        cfx__tensor_copy(c, t);
    return c;
}

cfx_tensor *cfx__tensor_contiguous(const cfx_tensor *t) {
    return cfx__tensor_contiguous_as(t, t->dtype);
}

cfx_tensor *cfx__tensor_to_dtype(const cfx_tensor *t, cfx_dtype dtype) {
    if (t->dtype == dtype || unlikely(cfx__obj_is_bad(t)))
        return (cfx_tensor *)t;
    /* Strides are kept, of dimensions of one element too: they tell the memory format. */
    int64_t stride[CFX_MAX_DIMS];
    if (cfx__tensor_is_dense(t))
        memcpy(stride, t->stride, (size_t)t->ndim * sizeof *stride);
    else
        cfx__strides_pointwise(1, &t, t->ndim, t->shape, stride);
    cfx_tensor *c = cfx__tensor_empty((cfx_site){0}, dtype, !t->data, t->ndim, t->shape, stride);
    if (c->data && t->data)
        cfx__tensor_copy(c, t);
    return c;
}

/* Behind the last byte that t reaches. */
static const char *end_of(const cfx_tensor *t) {
    int64_t last = 0;
    for (int d = 0; d < t->ndim; d++)
        last += (t->shape[d] - 1) * t->stride[d];
    return t->data + (last + 1) * cfx_dtype_size(t->dtype);
}

bool cfx__tensor_meets(const cfx_tensor *a, const cfx_tensor *b) {
    return a->data && b->data && a->numel && b->numel && a->data < end_of(b) &&
           b->data < end_of(a);
}

bool cfx__tensor_overlaps_itself(const cfx_tensor *t) {
    if (!t->numel || cfx__tensor_is_dense(t))
        return false;
    for (int d = 0; d < t->ndim; d++)
        if (t->shape[d] > 1 && t->stride[d] == 0)
            return true;
    return false;
}

bool cfx__tensor_shares_elements(const cfx_tensor *t) {
    int order[CFX_MAX_DIMS];
    int64_t reach = 0;
    bool any = false;
    if (likely(cfx__tensor_is_dense(t)) || !t->numel)
        return false;
    for (int i = 0; i < t->ndim; i++) {
        int k = i;
        for (; k > 0 && t->stride[order[k - 1]] > t->stride[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (int i = 0; i < t->ndim; i++) {
        const int64_t size = t->shape[order[i]], stride = t->stride[order[i]];
        any |= size > 1 && stride <= reach;
        reach += (size - 1) * stride;
    }
    return any;
}

cfx__tensor_overlap cfx__tensor_overlap_of(const cfx_tensor *a, const cfx_tensor *b) {
    if (a == b)
        return CFX__SAME;
    if (a->storage != b->storage || !a->numel || !b->numel || !a->data)
        return CFX__APART;
    if (!cfx__tensor_is_dense(a) || !cfx__tensor_is_dense(b))
        return a->data == b->data && same_strides(a, b) ? CFX__SAME
                                                        : CFX__APART; /* as far as PyTorch looks */
    const char *a1 = a->data + a->numel * cfx_dtype_size(a->dtype);
    const char *b1 = b->data + b->numel * cfx_dtype_size(b->dtype);
    if (a->data == b->data && a1 == b1)
        return same_strides(a, b) ? CFX__SAME : CFX__PARTLY;
    return a->data < b1 && b->data < a1 ? CFX__PARTLY : CFX__APART;
}

void cfx__tensor_become(cfx_tensor *self, const cfx_tensor *other) {
    int64_t *held = self->shape != self->dims ? self->shape : NULL;
    cfx__storage *storage = self->storage;
    int n = other->ndim;
    int64_t *dims = n <= CFX__INLINE_DIMS ? self->dims : cfx__alloc(2 * (size_t)n * sizeof *dims);
    memcpy(dims, other->shape, (size_t)n * sizeof *dims);
    memcpy(dims + n, other->stride, (size_t)n * sizeof *dims);
    self->shape = dims;
    self->stride = dims + n;
    self->ndim = n;
    self->numel = other->numel;
    self->offset = other->offset;
    self->data = other->data;
    cfx__quantizer *quantizer = self->quantizer;
    self->quantizer = other->quantizer ? cfx_keep(other->quantizer) : NULL;
    cfx_drop(quantizer);
    self->storage = cfx_keep(other->storage);
    cfx__tensor_place(self, other->device);
    cfx_drop(storage);
    cfx__free(held);
}
