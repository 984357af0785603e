/* Tensors on a card, in managed memory: one address for host and card, whose pages the driver
 * migrates on access, so operators, printing and saving work on them as on any tensor. The
 * result of a plan stays on the card until the host reads it. Blocks are cached for the next
 * tensor of their size, because the driver allocates and frees managed memory slowly. */
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

void cfx__cuda_tensors_forget(void) {
    spare all[KEPT];
    pthread_mutex_lock(&lock);
    const int n = nspares;
    memcpy(all, spares, (size_t)n * sizeof *all);
    nspares = 0;
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < n; i++)
        cfx__cuda_free(all[i].device, all[i].at, all[i].bytes);
}

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

void *cfx__cuda_memory(cfx_site at, int card, size_t bytes, void **owner) {
    const cfx_site outer = cfx__site_enter(at);
    cfx__cuda_device *d = cfx__cuda_device_open(card);
    const int64_t size = bytes ? ((int64_t)bytes + 511) / 512 * 512 : 512;
    cfx__cuda_address place = 0;
    if (d && cfx__cuda_enter(d)) {
        place = take(d, size);
        cfx__cuda_leave(d);
    }
    cfx__site_leave(outer);
    if (!place)
        return NULL;
    block *b = cfx__obj_make(&block_type, sizeof *b);
    b->device = d;
    b->at = place;
    b->bytes = size;
    *owner = b;
    return (void *)(uintptr_t)place;
}

cfx_tensor *cfx__cuda_tensor(cfx__cuda_device *d, cfx_dtype dtype, int ndim, const int64_t *shape,
                             const int64_t *stride) {
    const int outer = cfx__ctx()->card;
    cfx__ctx()->card = d->number + 1;
    cfx_tensor *t = cfx__tensor_empty((cfx_site){0}, dtype, false, ndim, shape, stride);
    cfx__ctx()->card = outer;
    return t;
}

bool cfx__cuda_copy_tensor(cfx__cuda_device *d, cfx_tensor *to, const cfx_tensor *from) {
    bool same = to->dtype == from->dtype && cfx__tensor_same_shape(to, from) &&
                cfx__tensor_is_dense(to) && !cfx__tensor_meets(to, from);
    for (int i = 0; same && i < to->ndim; i++)
        same = to->shape[i] == 1 || to->stride[i] == from->stride[i];
    if (!same) {
        cfx__tensor_copy(to, from);
        return cfx_ok();
    }
    if (!cfx__cuda_enter(d))
        return false;
    const bool fine = cfx__cuda_copy(d, (uintptr_t)to->data, (uintptr_t)from->data,
                                     to->numel * cfx_dtype_size((cfx_dtype)to->dtype)) &&
                      cfx__cuda_wait(d);
    cfx__cuda_leave(d);
    return fine;
}

cfx_tensor *cfx__cuda_copy_of(cfx_site at, cfx_tensor *t, int n) {
    const cfx_site outer = cfx__site_enter(at);
    cfx__cuda_device *d = cfx__cuda_device_open(n);
    cfx_tensor *to = &cfx__tensor_bad;
    if (d) {
        const bool dense = cfx__tensor_is_dense(t);
        to = cfx__cuda_tensor(d, (cfx_dtype)t->dtype, t->ndim, t->shape, dense ? t->stride : NULL);
        if (!cfx__obj_is_bad(to) && !cfx__cuda_copy_tensor(d, to, t))
            to = &cfx__tensor_bad;
    }
    cfx__site_leave(outer);
    return to;
}
