/* Walks: loop nests over a shape. Dimensions of size 1 are dropped, loops are ordered by the
 * strides of the result, and adjacent dimensions are merged. */
#include "compile.h"

cfx__c_walk cfx__c_walk_over(int ndim, const int64_t *shape) {
    cfx__c_walk w = {.ndim = ndim};
    if (ndim)
        memcpy(w.shape, shape, (size_t)ndim * sizeof *shape);
    return w;
}

int cfx__c_walk_strides(cfx__c_walk *w, int ndim, const int64_t *shape, const int64_t *stride) {
    const int k = w->n++, more = w->ndim - ndim;
    for (int i = 0; i < w->ndim; i++) {
        const int own = i - more;
        w->stride[k][i] = own < 0 || (shape[own] == 1 && w->shape[i] != 1) ? 0 : stride[own];
    }
    return k;
}

int cfx__c_walk_add(cfx__c_walk *w, const cfx__c_ref *r) {
    return cfx__c_walk_strides(w, r->ndim, r->shape, r->stride);
}

static void swap_dims(cfx__c_walk *w, int a, int b) {
    const int64_t size = w->shape[a];
    w->shape[a] = w->shape[b];
    w->shape[b] = size;
    for (int k = 0; k < w->n; k++) {
        const int64_t stride = w->stride[k][a];
        w->stride[k][a] = w->stride[k][b];
        w->stride[k][b] = stride;
    }
}

static void remove_dim(cfx__c_walk *w, int d) {
    for (int i = d; i + 1 < w->ndim; i++) {
        w->shape[i] = w->shape[i + 1];
        for (int k = 0; k < w->n; k++)
            w->stride[k][i] = w->stride[k][i + 1];
    }
    w->ndim--;
}

static bool goes_on(const cfx__c_walk *w, int d) {
    for (int k = 0; k < w->n; k++)
        if (w->stride[k][d] != w->stride[k][d + 1] * w->shape[d + 1])
            return false;
    return true;
}

void cfx__c_walk_settle(cfx__c_walk *w, int by) {
    for (int i = w->ndim - 1; i >= 0; i--)
        if (w->shape[i] == 1)
            remove_dim(w, i);
    for (int i = 1; i < w->ndim && by >= 0; i++) /* few dims: by insertion, ties stay */
        for (int k = i; k > 0 && w->stride[by][k - 1] < w->stride[by][k]; k--)
            swap_dims(w, k - 1, k);
    for (int i = w->ndim - 2; i >= 0; i--)
        if (goes_on(w, i)) {
            w->shape[i + 1] *= w->shape[i];
            remove_dim(w, i);
        }
}

const char *cfx__c_var(int i) {
    return i < 4 ? cfx__text_format("%c", 'i' + i) : cfx__text_format("i%d", i);
}

int64_t cfx__c_walk_count(const cfx__c_walk *w) {
    int64_t n = 1;
    for (int i = 0; i < w->ndim; i++)
        n *= w->shape[i];
    return n;
}

void cfx__c_walk_open(cfx__c *c, const cfx__c_walk *w) {
    if (c->card && !c->card->inside) {
        c->card->open(c, w);
        return;
    }
    for (int i = 0; i < w->ndim; i++) {
        const char *v = cfx__c_var(w->first + i);
        if (!i && c->o.threads && !w->serial && w->ndim > 1 && w->shape[0] > 1)
            cfx__c_line(c, "%s_PARALLEL", c->upper);
        cfx__c_open(c, "for (int64_t %s = 0; %s < %lld; %s++)", v, v, (long long)w->shape[i], v);
    }
    if (!w->ndim)
        cfx__c_block(c);
}

void cfx__c_walk_close(cfx__c *c, const cfx__c_walk *w) {
    if (c->card && c->indent == 1) { /* the kernel's own */
        c->card->close(c);
        return;
    }
    for (int i = 0; i < (w->ndim ? w->ndim : 1); i++)
        cfx__c_close(c);
}

const char *cfx__c_at(const cfx__c_walk *w, int k) {
    cfx__text t = {0};
    for (int i = 0; i < w->ndim; i++) {
        if (!w->stride[k][i])
            continue;
        cfx__text_puts(&t, t.len ? " + " : "");
        cfx__text_puts(&t, cfx__c_var(w->first + i));
        if (w->stride[k][i] != 1)
            cfx__text_printf(&t, " * %lld", (long long)w->stride[k][i]);
    }
    if (!t.len)
        cfx__text_putc(&t, '0');
    return cfx__text_take(&t);
}
