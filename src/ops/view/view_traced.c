/* The strides of views while a program is recorded. PyTorch works them out in Python there, from
 * left to right, and dimensions of size 1 come out with other strides than its kernels give them.
 * Which memory format later operators choose depends on it. */
#include "../views.h"

typedef struct {
    int n;
    int64_t shape[2 * CFX_MAX_DIMS], stride[2 * CFX_MAX_DIMS];
} dims;

/* Dimension d becomes two: outer of them, each as long as fits. */
static void split(dims *a, int d, int64_t outer) {
    int64_t inner = a->shape[d] / outer;
    memmove(a->shape + d + 1, a->shape + d, (size_t)(a->n - d) * sizeof *a->shape);
    memmove(a->stride + d + 1, a->stride + d, (size_t)(a->n - d) * sizeof *a->stride);
    a->n++;
    a->shape[d] = outer;
    a->shape[d + 1] = inner;
    a->stride[d] = a->stride[d + 1] * inner;
}

/* Dimensions from..to become one, where they lie behind each other. */
static bool merge(dims *a, int from, int to) {
    int64_t length = a->shape[to], stride = a->stride[to];
    for (int d = to - 1; d >= from; d--) {
        if (a->shape[d] == 1)
            continue;
        length *= a->shape[d];
        if (a->stride[d] < stride)
            stride = a->stride[d];
        if (a->shape[d + 1] != 1 && a->stride[d] != a->stride[d + 1] * a->shape[d + 1])
            return false;
    }
    int gone = to - from;
    memmove(a->shape + from, a->shape + to, (size_t)(a->n - to) * sizeof *a->shape);
    memmove(a->stride + from, a->stride + to, (size_t)(a->n - to) * sizeof *a->stride);
    a->n -= gone;
    a->shape[from] = length;
    a->stride[from] = stride;
    return true;
}

bool view_traced_strides(const cfx_tensor *t, int n, const int64_t *shape, int64_t *stride) {
    if (!t->numel || !t->ndim || !n)
        return false;
    dims a = {.n = t->ndim};
    memcpy(a.shape, t->shape, (size_t)t->ndim * sizeof *a.shape);
    memcpy(a.stride, t->stride, (size_t)t->ndim * sizeof *a.stride);
    for (int i = 0; i < n; i++) {
        if (i >= a.n) { /* more dimensions of size 1 at the end */
            split(&a, a.n - 1, a.shape[a.n - 1]);
            continue;
        }
        if (shape[i] == a.shape[i])
            continue;
        int64_t have = a.shape[i];
        int end = i;
        while (have % shape[i]) {
            if (++end >= a.n)
                return false;
            have *= a.shape[end];
        }
        if (end != i && !merge(&a, i, end))
            return false;
        if (have != shape[i])
            split(&a, i, shape[i]);
    }
    memcpy(stride, a.stride, (size_t)n * sizeof *stride);
    return true;
}
