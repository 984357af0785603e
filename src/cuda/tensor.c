/* Tensors on a card. Their memory has one address on both sides (the driver moves pages to where
 * they are touched), so that operators, printing and saving work on them as on any other; what a
 * plan gives stays on the card until somebody looks. Blocks are kept for the next tensor of their
 * size, since the driver is slow to give and take such memory. */
#include "device.h"

#include <pthread.h>

enum { KEPT = 32 };

typedef struct block {
    cfx_obj head;
    cfx__cuda_device *device;
    cfx__cuda_address at;
    int64_t bytes;
} block;

typedef struct {
    cfx__cuda_device *device;
    cfx__cuda_address at;
    int64_t bytes;
} spare;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static spare spares[KEPT];
static int nspares;

static void block_free(void *obj) {
    block *b = obj;
    spare old = {b->device, b->at, b->bytes};
    pthread_mutex_lock(&lock);
    if (nspares == KEPT) { /* the oldest goes */
        const spare first = spares[0];
        memmove(spares, spares + 1, (KEPT - 1) * sizeof *spares);
        spares[KEPT - 1] = old;
        old = first;
    } else {
        spares[nspares++] = old;
        old.at = 0;
    }
    pthread_mutex_unlock(&lock);
    if (old.at)
        cfx__cuda_free(old.device, old.at, old.bytes);
}

static const cfx__obj_type block_type = {.name = "memory of a card", .free = block_free};

static cfx__cuda_address take(cfx__cuda_device *d, int64_t bytes) {
    cfx__cuda_address at = 0;
    pthread_mutex_lock(&lock);
    for (int i = nspares - 1; i >= 0 && !at; i--)
        if (spares[i].device == d && spares[i].bytes == bytes) {
            at = spares[i].at;
            memmove(&spares[i], &spares[i + 1], (size_t)(--nspares - i) * sizeof *spares);
        }
    pthread_mutex_unlock(&lock);
    return at ? at : cfx__cuda_alloc_shared(d, bytes);
}

void cfx__cuda_tensors_forget(void) {
    pthread_mutex_lock(&lock);
    const int n = nspares;
    nspares = 0;
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < n; i++)
        cfx__cuda_free(spares[i].device, spares[i].at, spares[i].bytes);
}

cfx_tensor *cfx__cuda_tensor(cfx__cuda_device *d, cfx_dtype dtype, int ndim, const int64_t *shape,
                             const int64_t *stride) {
    int64_t own[CFX_MAX_DIMS], reach = 1;
    if (cfx__shape_numel((cfx_site){0}, ndim, shape) < 0)
        return &cfx__tensor_bad;
    if (!stride) {
        cfx__strides_contiguous(ndim, shape, own);
        stride = own;
    }
    for (int i = 0; i < ndim; i++)
        reach += (shape[i] > 0 ? shape[i] - 1 : 0) * stride[i];
    const int64_t size = cfx_dtype_size(dtype), bytes = (reach * size + 511) / 512 * 512;
    const cfx__cuda_address at = take(d, bytes);
    if (!at)
        return &cfx__tensor_bad;
    block *b = cfx__obj_make(&block_type, sizeof *b);
    b->device = d;
    b->at = at;
    b->bytes = bytes;
    cfx_tensor *whole = cfx_tensor_borrow(dtype, 1, &reach, (void *)(uintptr_t)at, cfx_drop, b);
    if (cfx__obj_is_bad(whole)) {
        cfx_drop(b);
        return whole;
    }
    whole->device = whole->storage->device = (cfx_device){CFX_CUDA, (int16_t)d->number};
    return cfx__tensor_alias(whole, ndim, shape, stride, 0);
}

cfx_tensor *cfx__cuda_copy_of(cfx_site at, cfx_tensor *t, int n) {
    const cfx_site outer = cfx__site_enter(at);
    cfx__cuda_device *d = cfx__cuda_device_open(n);
    cfx_tensor *to = &cfx__tensor_bad;
    if (d && cfx__cuda_enter(d)) {
        const bool dense = cfx__tensor_is_dense(t);
        to = cfx__cuda_tensor(d, (cfx_dtype)t->dtype, t->ndim, t->shape, dense ? t->stride : NULL);
        if (!cfx__obj_is_bad(to))
            cfx__tensor_copy(to, t);
        cfx__cuda_leave(d);
    }
    cfx__site_leave(outer);
    return to;
}
