/* Work done while the driver creates a context, which takes longer than planning: opens the
 * libraries that such a plan used before, and reads the pages of weights, so that their upload
 * causes no page faults. Start at cfx__cuda_ahead_begin. */
#define _GNU_SOURCE /* madvise */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plan.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14; others say that they do not know it */
#endif

struct cfx__cuda_ahead {
    const cfx__plan *plan;
    const char *key; /* of the libraries that such plans used; scope */
    int libraries;   /* as it was kept; CFX__CUDA_USES_BLAS... */
    bool at_work;
    pthread_t thread;
};

/* Operators and sizes, so that other plans of the same program find what this one kept. */
static const char *key_of(const cfx__cuda_device *d, const cfx__plan *p) {
    cfx__text t = {0};
    cfx__text_printf(&t, "%slibraries of %d\n", cfx__cuda_versions(d), (int)cfx_get_precision());
    for (int k = 0; k < p->n; k++) {
        const cfx__plan_kernel *kernel = &p->kernels[k];
        const cfx_tensor *like =
            p->given[k].tag == CFX_TAG_TENSOR ? cfx_as_tensor(p->given[k]) : NULL;
        if (kernel->kind != CFX__PLAN_LAYER && kernel->kind != CFX__PLAN_CALL)
            continue;
        cfx__text_printf(&t, "%d", (int)kernel->kind);
        for (int i = 0; like && i < like->ndim; i++)
            cfx__text_printf(&t, " %lld", (long long)like->shape[i]);
        cfx__text_puts(&t, "\n");
    }
    return cfx__text_take(&t);
}

static void bring_in(const cfx_tensor *t) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (!t->storage || !t->data || t->storage->device.type != CFX_CPU)
        return;
    const uintptr_t first = ((uintptr_t)t->data + page - 1) / page * page;
    const uintptr_t end =
        ((uintptr_t)t->data + (uintptr_t)(t->numel * cfx_dtype_size((cfx_dtype)t->dtype))) /
        page * page;
    if (end > first && cfx__tensor_is_dense(t))
        madvise((void *)first, end - first, MADV_POPULATE_READ);
}

static void *work(void *arg) {
    struct cfx__cuda_ahead *a = arg;
    if (a->libraries & CFX__CUDA_USES_BLAS)
        cfx__cuda_blas_open();
    if (a->libraries & CFX__CUDA_USES_DNN)
        cfx__cuda_dnn_open();
    return NULL;
}

struct cfx__cuda_ahead *cfx__cuda_ahead_begin(cfx__cuda_device *d, const cfx__plan *p) {
    struct cfx__cuda_ahead *a = cfx__alloc0(sizeof *a);
    size_t size = 0;
    a->plan = p;
    a->key = key_of(d, p);
    char *kept = cfx__cuda_recall(a->key, &size);
    a->libraries = kept && size == 1 ? *kept : 0;
    cfx__free(kept);
    a->at_work = a->libraries && !pthread_create(&a->thread, NULL, work, a);
    for (size_t i = 0; i < p->weights.len && d->opening; i++)
        bring_in(p->weights.data[i].tensor);
    return a;
}

void cfx__cuda_ahead_end(struct cfx__cuda_ahead *a, const cfx__cuda_plan *made) {
    char uses = 0;
    for (size_t i = 0; made && i < made->steps.len; i++)
        if (made->steps.data[i].kind == CFX__CUDA_JOB)
            uses |= (char)made->steps.data[i].job->uses;
    if (made && !made->failed && uses != a->libraries)
        cfx__cuda_remember(a->key, &uses, 1);
    if (a->at_work)
        pthread_join(a->thread, NULL);
    cfx__free(a);
}
