/* Batches of tensors that lie in memory, in order or shuffled as PyTorch's DataLoader shuffles. */
#include <cfx/ops.h>

#include "../base/given.h"
#include "optim.h"

struct cfx_loader {
    cfx_obj head;
    cfx_list *tensors; /* counted */
    cfx_loader_options o;
    int64_t all, n, next; /* items that there are, of this rank, given so far */
    cfx_tensor *order; /* of this epoch, counted; NULL: none was drawn */
};

static void loader_free(void *p) {
    cfx_loader *l = p;
    cfx_drop(l->tensors);
    cfx_drop(l->order);
}

static const cfx__obj_type loader_type = {.name = "loader", .free = loader_free};

cfx_loader *cfx_loader_new_from(cfx_site at, cfx_value tensors, cfx_loader_options options) {
    bool many = tensors.tag == CFX_TAG_LIST || tensors.tag == CFX_TAG_TUPLE;
    int64_t count = many ? cfx_as_list(tensors)->len : 1, n = -1;
    const cfx_value *items = many ? cfx_as_list(tensors)->items : &tensors;
    for (int64_t i = 0; i < count; i++) {
        const cfx_tensor *t = items[i].tag == CFX_TAG_TENSOR ? cfx_as_tensor(items[i]) : NULL;
        if (!t || !t->ndim) {
            cfx_fail(CFX_TYPE_ERROR, at, "a loader takes tensors of one dimension or more, not %s",
                     t ? "a number" : cfx_value_type_name(items[i]));
            return NULL;
        }
        if (n >= 0 && t->shape[0] != n) {
            cfx_fail(CFX_ASSERTION_ERROR, at, "Size mismatch between tensors");
            return NULL;
        }
        n = t->shape[0];
    }
    if (options.batch_size < 0 || n < 0) {
        cfx_fail(CFX_VALUE_ERROR, at,
                 "batch_size should be a positive integer value, but got batch_size=%lld",
                 (long long)options.batch_size);
        return NULL;
    }
    if (options.ranks < 0 || options.rank < 0 ||
        options.rank >= (options.ranks ? options.ranks : 1)) {
        cfx_fail(CFX_VALUE_ERROR, at, "there is no rank %d among %d", options.rank, options.ranks);
        return NULL;
    }
    cfx_loader *l = cfx__obj_new(&loader_type, sizeof *l);
    l->tensors = cfx_keep(cfx__list_make(count, items));
    l->o = options;
    l->o.batch_size = options.batch_size ? options.batch_size : 1;
    const int64_t ranks = options.ranks ? options.ranks : 1;
    l->all = n;
    l->n = options.drop_last ? n / ranks : (n + ranks - 1) / ranks;
    return l;
}

int64_t cfx_loader_count(const cfx_loader *l) {
    if (!l)
        return 0;
    return (l->n + (l->o.drop_last ? 0 : l->o.batch_size - 1)) / l->o.batch_size;
}

/* A DataLoader draws a seed for its workers, its sampler one for a generator of its own, which
 * gives the order. */
static void draw_order(cfx_loader *l) {
    cfx_tensor *seed = cfx_tensor_new(CFX_I64, 0, NULL, &(int64_t){0});
    cfx_random_(seed);
    cfx_random_(seed);
    cfx_tensor *outer = cfx_get_rng_state();
    cfx_manual_seed((uint64_t) * (int64_t *)seed->data);
    l->order = cfx_keep(cfx_randperm(l->all));
    cfx_set_rng_state(outer);
}

/* Of an order of all items those of this rank. */
static void take_share(cfx_loader *l) {
    cfx_tensor *share = cfx_tensor_new(CFX_I64, 1, &l->n, NULL);
    const int64_t *order = l->order ? (const int64_t *)l->order->data : NULL;
    for (int64_t i = 0; !cfx__obj_is_bad(share) && i < l->n; i++) {
        const int64_t at = (l->o.rank + i * l->o.ranks) % l->all;
        ((int64_t *)share->data)[i] = order ? order[at] : at;
    }
    cfx_drop(l->order);
    l->order = cfx__obj_is_bad(share) ? NULL : cfx_keep(share);
}

/* Batch rows first..first + n of each tensor. */
static cfx_value take(cfx_loader *l, int64_t first, int64_t n) {
    cfx_value batch = cfx_tuple_value(0, NULL);
    cfx_tensor *rows = l->order ? cfx_narrow(l->order, 0, first, n) : NULL;
    for (int64_t i = 0; i < l->tensors->len; i++) {
        cfx_tensor *t = cfx_as_tensor(l->tensors->items[i]);
        t = rows ? cfx_index_select(t, 0, rows) : cfx_narrow(t, 0, first, n);
        cfx_list_append(cfx_as_list(batch), cfx_tensor_value(t));
    }
    return batch;
}

cfx_value cfx_loader_next(cfx_loader *l) {
    if (!l)
        return cfx_none();
    int64_t left = l->n - l->next, n = left < l->o.batch_size ? left : l->o.batch_size;
    if (left <= 0 || (n < l->o.batch_size && l->o.drop_last)) {
        l->next = 0;
        cfx_drop(l->order);
        l->order = NULL;
        return cfx_none();
    }
    size_t mark = cfx_scope_open();
    if (!l->next && l->o.shuffle)
        draw_order(l);
    if (!l->next && l->o.ranks > 1 && cfx_ok())
        take_share(l);
    cfx_value batch = take(l, l->next, n);
    l->next += n;
    return cfx_scope_return_value(mark, batch);
}

bool cfx_loader_batch(cfx_loader *l, cfx_value *batch) {
    if (!cfx__given((cfx_site){0}, batch, "batch"))
        return false;
    *batch = cfx_loader_next(l);
    return batch->tag == CFX_TAG_TUPLE && cfx_ok();
}
