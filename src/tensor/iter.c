/* The iterator behind every pointwise operator.
 *
 * Loops are written for contiguous arrays of one dtype. The iterator adapts other operands
 * (another dtype, strides, broadcasting) in blocks that stay in the first-level cache: gather
 * and convert, run the loop, convert and scatter. Suitable operands are used in place. Start at
 * cfx__iter_pointwise. */
#include "stream.h"
#include "tensor.h"

/* An operand as the iteration sees it. */
typedef struct {
    char *data;
    cfx_dtype dtype, as;
    int size;      /* of an element of dtype */
    bool direct;   /* lies in iteration order, in the loop's dtype */
    bool stream;   /* a direct result too large to stay in a cache */
    bool constant; /* one element for all */
} lane;

typedef struct {
    cfx__iter_loop *loop, *stream; /* stream: writes past the caches itself; or NULL */
    const void *params;
    int nout, n;
    cfx__iter_dims dims;
    int64_t stride[CFX__ITER_MAX][CFX_MAX_DIMS];
    lane lanes[CFX__ITER_MAX];
} plan;

/* ---- moving between an operand and a block --------------------------------------------------- */

void cfx__iter_cursor_set(cfx__iter_cursor *c, char *data, int64_t linear) {
    c->at = data;
    for (int d = 0; d < c->ndim; d++) {
        c->index[d] = linear % c->shape[d];
        linear /= c->shape[d];
        c->at += c->index[d] * c->stride[d];
    }
}

/* Walks a run of the innermost dimension at a time. */
void cfx__iter_cursor_move(cfx__iter_cursor *c, cfx_dtype dtype, char *block, cfx_dtype as,
                           int64_t n, bool in) {
    int size = cfx_dtype_size(as);
    while (n > 0) {
        int64_t run = c->shape[0] - c->index[0];
        if (run > n)
            run = n;
        if (in)
            cfx__convert(block, size, as, c->at, c->stride[0], dtype, run);
        else
            cfx__convert(c->at, c->stride[0], dtype, block, size, as, run);
        block += run * size;
        n -= run;
        c->index[0] += run;
        c->at += run * c->stride[0];
        for (int d = 0; c->index[d] == c->shape[d] && d + 1 < c->ndim; d++) {
            c->at += c->stride[d + 1] - c->index[d] * c->stride[d];
            c->index[d] = 0;
            c->index[d + 1]++;
        }
    }
}

/* Every operand lies as the loop reads it. Results that are streamed are computed in blocks, behind
 * a first few elements so that blocks begin at lines of the cache. */
static void run_direct(const plan *p, int64_t begin, int64_t end) {
    _Alignas(64) char block[CFX__ITER_MAX][CFX__STREAM_BLOCK];
    void *ptr[CFX__ITER_MAX];
    const lane *first = p->lanes;
    const int64_t off = (int64_t)((uintptr_t)(first->data + begin * first->size) & 63);
    int64_t step = end - begin, n = off ? (64 - off) / first->size : step;
    bool streams = false;
    for (int i = 0; i < p->nout; i++)
        streams |= p->lanes[i].stream;
    const bool itself = streams && p->stream;
    for (int i = 0; i < p->nout && streams && !itself; i++)
        if (step > CFX__STREAM_BLOCK / p->lanes[i].size)
            step = CFX__STREAM_BLOCK / p->lanes[i].size;
    for (int64_t at = begin; at < end; at += n, n = step) {
        n = !streams ? step : n < step ? n : step;
        n = end - at < n ? end - at : n;
        for (int i = 0; i < p->n; i++) {
            const lane *l = &p->lanes[i];
            ptr[i] = l->stream && !itself ? block[i] : l->data + at * l->size;
        }
        (itself && ((uintptr_t)ptr[0] & 63) == 0 ? p->stream : p->loop)(ptr, n, p->params);
        for (int i = 0; i < p->nout && !itself; i++) {
            const lane *l = &p->lanes[i];
            if (l->stream)
                cfx__stream_out(l->data + at * l->size, block[i], n * l->size);
        }
    }
    if (streams)
        cfx__stream_end();
}

static void run_range(void *arg, int64_t begin, int64_t end) {
    const plan *p = arg;
    bool all_direct = true;
    for (int i = 0; i < p->n; i++)
        all_direct &= p->lanes[i].direct;
    if (all_direct) {
        run_direct(p, begin, end);
        return;
    }
    void *ptr[CFX__ITER_MAX];
    _Alignas(64) char block[CFX__ITER_MAX][CFX__ITER_BLOCK * 16];
    cfx__iter_cursor cursors[CFX__ITER_MAX];
    for (int i = 0; i < p->n; i++) {
        const lane *l = &p->lanes[i];
        if (l->constant) {
            cfx__convert_in(block[i], l->as, l->data, 0, l->dtype, CFX__ITER_BLOCK);
        } else if (!l->direct) {
            cursors[i].shape = p->dims.shape;
            cursors[i].stride = p->stride[i];
            cursors[i].ndim = p->dims.ndim;
            cfx__iter_cursor_set(&cursors[i], l->data, begin);
        }
    }
    for (int64_t at = begin; at < end; at += CFX__ITER_BLOCK) {
        int64_t n = end - at < CFX__ITER_BLOCK ? end - at : CFX__ITER_BLOCK;
        for (int i = 0; i < p->n; i++) {
            const lane *l = &p->lanes[i];
            ptr[i] = l->direct && !l->stream ? l->data + at * l->size : block[i];
            if (i >= p->nout && !l->direct && !l->constant)
                cfx__iter_cursor_move(&cursors[i], l->dtype, block[i], l->as, n, true);
        }
        p->loop(ptr, n, p->params);
        for (int i = 0; i < p->nout; i++) {
            const lane *l = &p->lanes[i];
            if (l->stream)
                cfx__stream_out(l->data + at * l->size, block[i], n * l->size);
            else if (!l->direct)
                cfx__iter_cursor_move(&cursors[i], l->dtype, block[i], l->as, n, false);
        }
    }
    cfx__stream_end();
}

/* ---- planning -------------------------------------------------------------------------------- */

void cfx__iter_dims_of(cfx__iter_dims *d, int ndim, const int64_t *shape) {
    d->ndim = ndim ? ndim : 1;
    d->shape[0] = 1;
    for (int i = 0; i < ndim; i++)
        d->shape[i] = shape[ndim - 1 - i];
}

void cfx__iter_strides(const cfx__iter_dims *d, const cfx_tensor *t, int64_t *stride) {
    const int size = cfx_dtype_size(t->dtype);
    for (int i = 0; i < d->ndim; i++) {
        int from = t->ndim - 1 - i;
        bool broadcast = from < 0 || (t->shape[from] == 1 && d->shape[i] != 1);
        stride[i] = /* an empty operand's may be absurd; it is never walked */
            broadcast ? 0 : (int64_t)((uint64_t)t->stride[from] * (uint64_t)size);
    }
}

/* Whether dimension a should come inside b: the order of the first operand that can tell. */
static bool inside(const cfx__iter_dims *p, int a, int b) {
    for (int i = 0; i < p->n; i++) {
        int64_t sa = p->stride[i][a], sb = p->stride[i][b];
        if (sa && sb && sa != sb)
            return sa < sb;
    }
    return false;
}

static void swap_dims(cfx__iter_dims *p, int a, int b) {
    int64_t t = p->shape[a];
    p->shape[a] = p->shape[b];
    p->shape[b] = t;
    for (int i = 0; i < p->n; i++) {
        t = p->stride[i][a];
        p->stride[i][a] = p->stride[i][b];
        p->stride[i][b] = t;
    }
}

void cfx__iter_order(cfx__iter_dims *p) {
    for (int i = 1; i < p->ndim; i++)
        for (int k = i; k > 0 && inside(p, k, k - 1); k--)
            swap_dims(p, k, k - 1);
}

void cfx__iter_join(cfx__iter_dims *p, int *split) {
    int last = 0, below = *split > 0;
    for (int d = 1; d < p->ndim; d++) {
        bool one = d != *split;
        for (int i = 0; i < p->n; i++)
            one &= p->stride[i][d] == p->stride[i][last] * p->shape[last];
        if (one) {
            p->shape[last] *= p->shape[d];
            continue;
        }
        if (p->shape[d] == 1 && d != *split)
            continue;
        last++;
        below += d < *split;
        p->shape[last] = p->shape[d];
        for (int i = 0; i < p->n; i++)
            p->stride[i][last] = p->stride[i][d];
    }
    p->ndim = last + 1;
    *split = below;
}

/* Everything contiguous, of one shape and in the loop's dtype: no plan is needed. */
static bool plain(int n, const cfx__iter_operand *o) {
    for (int i = 0; i < n; i++)
        if (o[i].t->dtype != o[i].as || !cfx__tensor_same_shape(o[i].t, o[0].t) ||
            !cfx__tensor_is_contiguous(o[i].t))
            return false;
    return true;
}

void cfx__iter_pointwise(cfx__iter_loop *loop, int nout, int nin, const cfx__iter_operand *operands,
                         const void *params, int cost) {
    cfx__iter_streaming(loop, NULL, nout, nin, operands, params, cost);
}

void cfx__iter_streaming(cfx__iter_loop *loop, cfx__iter_loop *stream, int nout, int nin,
                         const cfx__iter_operand *operands, const void *params, int cost) {
    const cfx_tensor *like = operands[0].t;
    int n = nout + nin;
    if (like->numel == 0)
        return;
    int64_t grain = CFX__THREAD_WORTH / (cost > 0 ? cost : 1);
    if (grain < 512)
        grain = 512;
    if (like->numel <= grain && plain(n, operands)) {
        void *ptr[CFX__ITER_MAX];
        for (int i = 0; i < n; i++)
            ptr[i] = operands[i].t->data;
        loop(ptr, like->numel, params);
        return;
    }
    plan p;
    int split = 0;
    p.loop = loop;
    p.stream = stream;
    p.params = params;
    p.nout = nout;
    p.n = p.dims.n = n;
    p.dims.stride = p.stride;
    cfx__iter_dims_of(&p.dims, like->ndim, like->shape);
    for (int i = 0; i < n; i++) {
        const cfx_tensor *t = operands[i].t;
        p.lanes[i] = (lane){.data = t->data,
                            .dtype = t->dtype,
                            .as = operands[i].as,
                            .size = cfx_dtype_size(t->dtype),
                            .constant = t->numel == 1 && like->numel != 1};
        cfx__iter_strides(&p.dims, t, p.stride[i]);
    }
    cfx__iter_order(&p.dims);
    cfx__iter_join(&p.dims, &split);
    for (int i = 0; i < n; i++) {
        lane *l = &p.lanes[i];
        bool linear = p.dims.ndim == 1 && (p.stride[i][0] == l->size || like->numel == 1);
        l->direct = linear && l->dtype == l->as;
        l->stream = i < nout && l->direct && cfx__streams(like->numel * l->size);
    }
    for (int i = nout; i < n; i++)
        for (int k = 0; k < nout; k++)
            p.lanes[k].stream &= p.lanes[i].data != p.lanes[k].data;
    cfx__parallel(like->numel, grain, run_range, &p);
}

/* ---- strides of results ---------------------------------------------------------------------- */

/* >0: dims a and b (a inside b so far) must change places, <0: they must not, 0: nobody can tell.
 */
static int compare(int n, int64_t strides[][CFX_MAX_DIMS], const int64_t *shape, int a, int b) {
    for (int i = 0; i < n; i++) {
        int64_t sa = strides[i][a], sb = strides[i][b];
        if (sa == 0 || sb == 0)
            continue;
        if (sa != sb)
            return sa < sb ? -1 : 1;
        if (shape[a] > shape[b])
            return 1;
    }
    return 0;
}

static bool all_alike(int n, const cfx_tensor *const *t, int ndim, const int64_t *shape) {
    for (int i = 0; i < n; i++) {
        if (t[i]->ndim != ndim || memcmp(t[i]->shape, shape, (size_t)ndim * sizeof *shape))
            return false;
        if (memcmp(t[i]->stride, t[0]->stride, (size_t)ndim * sizeof *shape))
            return false;
    }
    return true;
}

void cfx__strides_sorted(int n, const cfx_tensor *const *t, int ndim, const int64_t *shape,
                         int64_t *stride) {
    int64_t strides[CFX__ITER_MAX][CFX_MAX_DIMS];
    for (int i = 0; i < n; i++)
        for (int d = 0; d < ndim; d++) {
            int from = d - (ndim - t[i]->ndim);
            bool broadcast = from < 0 || (t[i]->shape[from] == 1 && shape[d] != 1);
            int64_t stride_of = broadcast ? 0 : t[i]->stride[from]; /* absurd if t[i] is empty */
            strides[i][d] = (int64_t)((uint64_t)stride_of * (uint64_t)cfx_dtype_size(t[i]->dtype));
        }
    int perm[CFX_MAX_DIMS];
    for (int i = 0; i < ndim; i++)
        perm[i] = ndim - 1 - i;
    for (int i = 1; i < ndim; i++) {
        int inner = i;
        for (int k = i - 1; k >= 0; k--) {
            int order = compare(n, strides, shape, perm[k], perm[inner]);
            if (order > 0) {
                int held = perm[k];
                perm[k] = perm[inner];
                perm[inner] = held;
                inner = k;
            } else if (order < 0) {
                break;
            }
        }
    }
    bool plain = true;
    for (int i = 0; i < ndim; i++)
        plain &= perm[i] == ndim - 1 - i;
    if (plain) {
        cfx__strides_contiguous(ndim, shape, stride);
        return;
    }
    int64_t step = 1; /* an empty dimension makes those around it 0, as in PyTorch */
    for (int i = 0; i < ndim; i++) {
        stride[perm[i]] = step;
        step = (int64_t)((uint64_t)step * (uint64_t)shape[perm[i]]);
    }
}

void cfx__strides_pointwise(int n, const cfx_tensor *const *t, int ndim, const int64_t *shape,
                            int64_t *stride) {
    bool contiguous = true, channels_last = true, same = true;
    for (int i = 0; i < n; i++) {
        bool fits = t[i]->ndim == ndim && !memcmp(t[i]->shape, shape, (size_t)ndim * sizeof *shape);
        same &= fits;
        contiguous &= cfx__tensor_is_contiguous(t[i]);
        channels_last &= cfx__tensor_is_channels_last(t[i]);
    }
    if (n == 0 || ndim < 2 || (same && contiguous)) {
        cfx__strides_contiguous(ndim, shape, stride);
        return;
    }
    if (same && channels_last) {
        cfx__strides_of_format(CFX_CHANNELS_LAST, ndim, shape, stride);
        return;
    }
    if (same && cfx__tensor_is_dense(t[0]) && all_alike(n, t, ndim, shape)) {
        memcpy(stride, t[0]->stride, (size_t)ndim * sizeof *stride);
        return;
    }
    cfx__strides_sorted(n, t, ndim, shape, stride);
}
