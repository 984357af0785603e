/* Data parallel training: gradients of all ranks become their average, a bucket at a time, while
 * the backward pass still computes others. Start at cfx_data_parallel_new.
 *
 * Buckets are filled from the last parameter to the first, which is about the order in which
 * gradients come. A bucket is reduced when all its gradients are there and the one before it has
 * begun, so that all ranks reduce them in one order, whatever order their gradients came in. */
#include <cfx/ops.h>
#include <cfx/ranks.h>

#include "../group/group.h"

enum { BUCKET = 25 << 20 };

typedef struct bucket {
    int first, n;        /* parameters, in the order of `slots` */
    int64_t len;         /* elements */
    cfx_dtype dtype;
    int missing;         /* gradients that have not come */
    cfx_tensor *flat;    /* theirs one after the other; counted */
    cfx__collective *sum;
} bucket;

typedef struct {
    struct cfx_data_parallel *of;
    cfx_tensor *parameter; /* counted */
    int64_t hook, offset;  /* in its bucket */
    int bucket;
    bool came;
} slot;

struct cfx_data_parallel {
    cfx_obj head;
    cfx_group *group;  /* borrowed */
    cfx_module *module;
    int nslots;
    slot *slots;       /* from the last parameter to the first */
    int nbuckets, begun;
    bucket *buckets;
};

static void free_all(void *obj) {
    cfx_data_parallel *d = obj;
    for (int i = 0; i < d->nbuckets; i++) {
        cfx__collective_end(d->buckets[i].sum);
        cfx_drop(d->buckets[i].flat);
    }
    for (int i = 0; i < d->nslots; i++) {
        cfx_tensor_unhook(d->slots[i].parameter, d->slots[i].hook);
        cfx_drop(d->slots[i].parameter);
    }
    cfx__free(d->slots);
    cfx__free(d->buckets);
    cfx_drop(d->module);
}

static const cfx__obj_type type = {.name = "data parallel", .free = free_all};

/* ---- buckets --------------------------------------------------------------------------------- */

/* What the gradients of a bucket are, in a row; zeros where there is none. */
static bool fill(cfx_data_parallel *d, bucket *b) {
    const int64_t width = cfx_dtype_size(b->dtype);
    for (int i = b->first; i < b->first + b->n; i++) {
        const slot *s = &d->slots[i];
        char *to = b->flat->data + s->offset * width;
        const size_t size = (size_t)(s->parameter->numel * width);
        const cfx_tensor *grad = cfx_tensor_grad(s->parameter);
        if (!grad)
            memset(to, 0, size);
        else CFX_SCOPE {
            const cfx_tensor *c = cfx__tensor_contiguous(grad);
            if (c->data && size)
                memcpy(to, c->data, size);
        }
    }
    return cfx_ok();
}

/* Begins to reduce buckets that are full, in order; all of them where `rest` is set. */
static bool begin_full(cfx_data_parallel *d, bool rest) {
    while (cfx_ok() && d->begun < d->nbuckets && (rest || !d->buckets[d->begun].missing)) {
        bucket *b = &d->buckets[d->begun++];
        if (!fill(d, b))
            return false;
        b->sum = cfx__collective_begin(
            d->group, (cfx_site){0},
            (cfx__collective_call){.kind = CFX__MESSAGE_REDUCE, .op = CFX__AVG}, b->flat, b->flat);
    }
    for (int i = 0; cfx_ok() && i < d->begun; i++) /* those on their way go on */
        if (cfx__collective_poll(d->buckets[i].sum, false) < 0)
            return false;
    return cfx_ok();
}

static void gradient_came(cfx_tensor *leaf, void *user) {
    slot *s = user;
    (void)leaf;
    if (s->came || cfx_group_size(s->of->group) == 1)
        return;
    s->came = true;
    if (--s->of->buckets[s->bucket].missing == 0)
        begin_full(s->of, false);
}

static void begin_pass(cfx_data_parallel *d) {
    d->begun = 0;
    for (int i = 0; i < d->nslots; i++)
        d->slots[i].came = false;
    for (int i = 0; i < d->nbuckets; i++)
        d->buckets[i].missing = d->buckets[i].n;
}

/* The averages become the gradients. */
static bool put_back(cfx_data_parallel *d, const bucket *b) {
    for (int i = b->first; i < b->first + b->n && cfx_ok(); i++)
        CFX_SCOPE {
            cfx_tensor *p = d->slots[i].parameter, *grad = cfx_tensor_grad(p);
            int64_t stride[CFX_MAX_DIMS];
            cfx__strides_contiguous(p->ndim, p->shape, stride);
            cfx_tensor *mean = cfx__tensor_alias(b->flat, p->ndim, p->shape, stride,
                                                 d->slots[i].offset);
            if (grad)
                cfx__tensor_copy(grad, mean);
            else
                cfx_tensor_set_grad(p, cfx_clone(mean));
        }
    return cfx_ok();
}

bool cfx_data_parallel_finish(cfx_data_parallel *d) {
    if (!d || !cfx_ok())
        return false;
    if (cfx_group_size(d->group) == 1)
        return true;
    bool well = begin_full(d, true);
    for (int i = 0; i < d->nbuckets && well; i++)
        well = cfx__collective_poll(d->buckets[i].sum, true) == 1 && put_back(d, &d->buckets[i]);
    for (int i = 0; i < d->nbuckets; i++) {
        cfx__collective_end(d->buckets[i].sum);
        d->buckets[i].sum = NULL;
    }
    begin_pass(d);
    return well && cfx_ok();
}

/* ---- beginning ------------------------------------------------------------------------------- */

/* Gives all what rank 0 has. */
static bool spread(cfx_group *g, const cfx_dict *tensors) {
    for (int64_t i = 0; i < tensors->len && cfx_ok(); i++)
        CFX_SCOPE {
            const cfx_value v = tensors->entries[i].value;
            cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
            cfx_tensor *same = t ? cfx__tensor_contiguous(t) : NULL;
            if (!t || !t->data)
                continue;
            cfx_tensor *got = cfx__tensor_empty((cfx_site){0}, (cfx_dtype)t->dtype, false, t->ndim,
                                                t->shape, NULL);
            if (cfx__collective_run(g, (cfx_site){0},
                                    (cfx__collective_call){.kind = CFX__MESSAGE_SPREAD}, same, got))
                cfx__tensor_copy(t, got);
        }
    return cfx_ok();
}

/* Names, shapes and dtypes as a number: all ranks have to have the same. */
static uint64_t facts_of(const cfx_dict *tensors) {
    uint64_t hash = (uint64_t)tensors->len;
    for (int64_t i = 0; i < tensors->len; i++) {
        const cfx_tensor *t = cfx_as_tensor(tensors->entries[i].value);
        for (const char *c = cfx_text(tensors->entries[i].key); *c; c++)
            hash = cfx__hash_mix(hash, (unsigned char)*c);
        hash = cfx__hash_mix(hash, t->dtype);
        for (int k = 0; k < t->ndim; k++)
            hash = cfx__hash_mix(hash, (uint64_t)t->shape[k]);
    }
    return hash;
}

static void add_slot(cfx_data_parallel *d, cfx_tensor *p, int64_t bytes) {
    const int64_t width = cfx_dtype_size((cfx_dtype)p->dtype);
    bucket *b = d->nbuckets ? &d->buckets[d->nbuckets - 1] : NULL;
    if (!b || b->dtype != p->dtype || (b->len + p->numel) * width > bytes) {
        b = &d->buckets[d->nbuckets++];
        *b = (bucket){.first = d->nslots, .dtype = (cfx_dtype)p->dtype};
    }
    slot *s = &d->slots[d->nslots++];
    *s = (slot){.of = d, .parameter = cfx_keep(p), .offset = b->len, .bucket = d->nbuckets - 1};
    b->len += p->numel;
    b->n++;
    s->hook = cfx_leaf_hook(p, gradient_came, s);
}

static bool make_rooms(cfx_data_parallel *d) {
    for (int i = 0; i < d->nbuckets && cfx_ok(); i++) {
        bucket *b = &d->buckets[i];
        cfx_tensor *t = cfx__tensor_empty((cfx_site){0}, b->dtype, false, 1, &b->len, NULL);
        b->flat = cfx__obj_is_bad(t) ? NULL : cfx_keep(t);
    }
    return cfx_ok();
}

cfx_data_parallel *cfx_data_parallel_new(cfx_group *g, cfx_module *m, int64_t bytes) {
    if (!cfx_ok() || !m || cfx_failed(m))
        return NULL;
    size_t mark = cfx_scope_open();
    const cfx_dict *state = cfx_module_state_dict(m), *all = cfx_module_named_parameters(m);
    cfx_data_parallel *d = cfx__obj_new(&type, sizeof *d);
    d->group = g;
    d->module = cfx_keep(m);
    d->slots = cfx__alloc0((size_t)(all->len + 1) * sizeof *d->slots);
    d->buckets = cfx__alloc0((size_t)(all->len + 1) * sizeof *d->buckets);
    if (cfx_group_agree(g, "model", facts_of(state)) && (!g || spread(g, state)))
        for (int64_t i = all->len - 1; i >= 0 && cfx_ok(); i--) {
            cfx_tensor *p = cfx_as_tensor(all->entries[i].value);
            if (p->head.flags & CFX__GRAD)
                add_slot(d, p, bytes > 0 ? bytes : BUCKET);
        }
    if (cfx_ok() && make_rooms(d))
        begin_pass(d);
    return cfx_scope_return(mark, cfx_ok() ? d : NULL);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

bool cfx_ranks_checkpoint_write(cfx_group *g, const char *path, cfx_value what) {
    if (cfx_group_rank(g) == 0 && !cfx_checkpoint_write(path, what))
        return false;
    return cfx_group_wait(g);
}

cfx_value cfx_ranks_checkpoint_read(cfx_group *g, const char *path) {
    uint64_t hash = 0;
    if (!cfx_file_hash(path, &hash) || !cfx_group_agree(g, "checkpoint", hash))
        return cfx_bad();
    return cfx_checkpoint_read(path);
}
