/* Weights on a card: uploaded once, and shared by the plans of a program until somebody writes
 * to the tensor. */
#include <pthread.h>

#include "plan.h"

static pthread_mutex_t shelf_lock = PTHREAD_MUTEX_INITIALIZER;
static cfx__cuda_held *shelf; /* weights that plans share; not counted here */

static void weight_free(void *obj) {
    cfx__cuda_held *w = obj;
    cfx__cuda_free(w->device, w->at, w->bytes);
    cfx_drop(w->of);
}

static const cfx__obj_type weight_type = {.name = "weight on a card", .free = weight_free};

void cfx__cuda_held_drop(cfx__cuda_held *w) {
    pthread_mutex_lock(&shelf_lock);
    if (w->head.refs == 1)
        for (cfx__cuda_held **at = &shelf; *at; at = &(*at)->next)
            if (*at == w) {
                *at = w->next;
                break;
            }
    cfx_drop(w);
    pthread_mutex_unlock(&shelf_lock);
}

/* The tensor among the weights of a plan that has this memory; NULL: none. */
static cfx_tensor *owner_of(const cfx__plan *p, const char *data, int64_t bytes) {
    for (size_t i = 0; i < p->weights.len; i++) {
        cfx_tensor *t = p->weights.data[i].tensor;
        const char *from = t->storage ? t->storage->data : NULL;
        if (from && data >= from && data + bytes <= from + t->storage->size)
            return t;
    }
    return NULL;
}

cfx__cuda_held *cfx__cuda_held_get(cfx__cuda_plan *p, const cfx__c_weight *of) {
    const int64_t bytes = of->count * cfx_dtype_size(of->dtype);
    cfx_tensor *owner = owner_of(p->plan, of->data, bytes);
    cfx__cuda_held *w = NULL;
    pthread_mutex_lock(&shelf_lock);
    for (w = owner ? shelf : NULL; w; w = w->next)
        if (w->device == p->device && w->data == of->data && w->bytes == bytes &&
            w->of->storage == owner->storage && w->version == owner->storage->version)
            break;
    if (w) {
        cfx_keep(w);
        pthread_mutex_unlock(&shelf_lock);
        return w;
    }
    pthread_mutex_unlock(&shelf_lock);
    const cfx__cuda_address at = cfx__cuda_alloc(p->device, bytes);
    if (!at)
        return NULL;
    w = cfx__obj_make(&weight_type, sizeof *w);
    *w = (cfx__cuda_held){.head = w->head, .device = p->device, .at = at, .bytes = bytes};
    if (!cfx__cuda_copy(p->device, at, (uintptr_t)of->data, bytes)) {
        cfx_drop(w);
        return NULL;
    }
    if (owner) {
        w->of = cfx_keep(owner);
        w->data = of->data;
        w->version = owner->storage->version;
        pthread_mutex_lock(&shelf_lock);
        w->next = shelf;
        shelf = w;
        pthread_mutex_unlock(&shelf_lock);
    }
    return w;
}
