/* Functions of sizes and strides alone, without data. */
#include "../base/given.h"
#include "tensor.h"

int64_t cfx__shape_numel(cfx_site at, int ndim, const int64_t *shape) {
    int64_t n = 1;
    bool empty = false, fits = true;
    if (ndim > 0 && !cfx__given(at, shape, "shape"))
        return -1;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0) {
            cfx_fail(CFX_RUNTIME_ERROR, at,
                     "Trying to create tensor with negative dimension %lld: %s",
                     (long long)shape[i], cfx__shape_text(ndim, shape));
            return -1;
        }
        empty |= shape[i] == 0; /* the others are multiplied as well, for strides and counts */
        fits = fits && !__builtin_mul_overflow(n, shape[i] ? shape[i] : 1, &n) &&
               n <= CFX__MOST_ELEMENTS;
    }
    if (!fits) {
        cfx__fail_large(at, "Storage size calculation overflowed with sizes=%s",
                        cfx__shape_text(ndim, shape));
        return -1;
    }
    return empty ? 0 : n;
}

void cfx__strides_contiguous(int ndim, const int64_t *shape, int64_t *stride) {
    int64_t n = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        stride[i] = n;
        n = (int64_t)((uint64_t)n * (uint64_t)(shape[i] > 1 ? shape[i] : 1));
    }
}

/* The dimensions in this order, innermost first. */
static void ordered(int ndim, const int *order, const int64_t *shape, int64_t *stride) {
    int64_t n = 1; /* wraps where the tensor would be refused */
    for (int k = 0; k < ndim; k++) {
        stride[order[k]] = n;
        n = (int64_t)((uint64_t)n * (uint64_t)(shape[order[k]] > 1 ? shape[order[k]] : 1));
    }
}

void cfx__strides_of_format(cfx_memory_format f, int ndim, const int64_t *shape, int64_t *stride) {
    if (f == CFX_CHANNELS_LAST && ndim == 4)
        ordered(4, (int[]){1, 3, 2, 0}, shape, stride);
    else if (f == CFX_CHANNELS_LAST_3D && ndim == 5)
        ordered(5, (int[]){1, 4, 3, 2, 0}, shape, stride);
    else
        cfx__strides_contiguous(ndim, shape, stride);
}

bool cfx__tensor_is_contiguous(const cfx_tensor *t) {
    if (t->numel == 0)
        return true;
    int64_t want = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] == 1)
            continue;
        if (t->stride[i] != want)
            return false;
        want *= t->shape[i];
    }
    return true;
}

static bool strides_in_order(const cfx_tensor *t, const int *order) {
    int64_t want = 1;
    for (int k = 0; k < t->ndim; k++) {
        int d = order[k];
        if (t->shape[d] == 1)
            continue;
        if (t->stride[d] != want)
            return false;
        want *= t->shape[d];
    }
    return true;
}

bool cfx__tensor_is_channels_last(const cfx_tensor *t) {
    return t->ndim == 4 && strides_in_order(t, (int[]){1, 3, 2, 0});
}

bool cfx__tensor_is_channels_last_3d(const cfx_tensor *t) {
    return t->ndim == 5 && strides_in_order(t, (int[]){1, 4, 3, 2, 0});
}

int64_t cfx__tensor_channels_row(const cfx_tensor *t) {
    if (t->ndim != 4 || cfx__tensor_is_channels_last(t))
        return t->ndim == 4 ? t->shape[1] : 0;
    const int at = t->shape[3] != 1 ? 3 : t->shape[2] != 1 ? 2 : 0; /* where the row can be read */
    const int64_t row = t->stride[at];
    /* a product wraps only where a factor of it does not fit either */
    const uint64_t w = (uint64_t)row * (uint64_t)t->shape[3], h = w * (uint64_t)t->shape[2];
    const uint64_t stride[] = {h, 1, w, (uint64_t)row};
    for (int i = 0; i < 4; i++)
        if (t->shape[i] != 1 && (uint64_t)t->stride[i] != stride[i])
            return 0;
    return row >= t->shape[1] ? row : 0;
}

/* PyTorch's is_channels_last_strides: laid out so, or nearly so, without being dense. */
static bool strides_like(const cfx_tensor *t, const int *order, int n) {
    int64_t min = 0;
    if (t->stride[1] == 0)
        return false;
    for (int k = 0; k < n; k++) {
        int d = order[k];
        if (t->shape[d] == 0 || t->stride[d] < min)
            return false;
        /* an N111 tensor is ambiguous: strides of 1 everywhere say contiguous */
        if (d == 0 && min == t->stride[1])
            return false;
        min = t->stride[d];
        if (t->shape[d] > 1)
            min *= t->shape[d];
    }
    return true;
}

cfx_memory_format cfx__tensor_suggest_format(const cfx_tensor *t) {
    if (t->ndim == 4 && strides_like(t, (int[]){1, 3, 2, 0}, 4))
        return CFX_CHANNELS_LAST;
    if (t->ndim == 5 && strides_like(t, (int[]){1, 4, 3, 2, 0}, 5))
        return CFX_CHANNELS_LAST_3D;
    return CFX_CONTIGUOUS;
}

bool cfx__tensor_is_dense(const cfx_tensor *t) {
    if (t->ndim == 1)
        return t->shape[0] < 2 || t->stride[0] == 1;
    int perm[CFX_MAX_DIMS];
    for (int i = 0; i < t->ndim; i++) {
        int k = i;
        /* sizes below 2 go last, whatever their stride */
        for (; k > 0; k--) {
            int p = perm[k - 1];
            bool after = t->shape[p] < 2 ? t->shape[i] >= 2
                                         : t->shape[i] >= 2 && t->stride[i] < t->stride[p];
            if (!after)
                break;
            perm[k] = p;
        }
        perm[k] = i;
    }
    int64_t want = 1;
    for (int i = 0; i < t->ndim; i++) {
        int d = perm[i];
        if (t->shape[d] < 2)
            return true;
        if (t->stride[d] != want)
            return false;
        want *= t->shape[d];
    }
    return true;
}

bool cfx__tensor_same_shape(const cfx_tensor *a, const cfx_tensor *b) {
    if (a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i])
            return false;
    return true;
}

int cfx__shape_wrap_dim(cfx_site at, int64_t dim, int ndim) {
    int n = ndim > 0 ? ndim : 1;
    if (dim < -n || dim >= n) {
        cfx_fail(CFX_INDEX_ERROR, at,
                 "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -n,
                 n - 1, (long long)dim);
        return -1;
    }
    return (int)(dim < 0 ? dim + n : dim);
}

const char *cfx__shape_text(int ndim, const int64_t *shape) {
    cfx__text t = {0};
    cfx__text_putc(&t, '[');
    for (int i = 0; i < ndim; i++)
        cfx__text_printf(&t, "%s%lld", i ? ", " : "", (long long)shape[i]);
    cfx__text_putc(&t, ']');
    return cfx__text_take(&t);
}

bool cfx__shape_broadcast(cfx_site at, int *ndim, int64_t *shape, int bdim, const int64_t *bshape) {
    int n = *ndim > bdim ? *ndim : bdim;
    int64_t out[CFX_MAX_DIMS];
    for (int i = n; i-- > 0;) { /* the last dimension that does not fit is the one that is told */
        int ai = *ndim - n + i, bi = bdim - n + i;
        int64_t a = ai < 0 ? 1 : shape[ai], b = bi < 0 ? 1 : bshape[bi];
        if (a != b && a != 1 && b != 1) {
            cfx_fail(CFX_RUNTIME_ERROR, at,
                     "The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                     "non-singleton dimension %d",
                     (long long)a, (long long)b, i);
            return false;
        }
        out[i] = a == 1 ? b : a;
    }
    memcpy(shape, out, (size_t)n * sizeof *out);
    *ndim = n;
    return true;
}
