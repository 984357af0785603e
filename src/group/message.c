/* Sends values from rank to rank. A header comes first and describes the data; the receiver
 * allocates memory by it, within its limits, and then receives the data. Tensors keep their
 * stride order, because the program may take a view that needs it. Start at cfx__parcel_send. */
#include "group.h"

/* cfx__head.number of values: a tensor, or what a number is. */
enum { TENSOR, BOOL, INT, FLOAT, NOTHING, NUMBERS };

/* ---- heads ----------------------------------------------------------------------------------- */

/* t itself where its elements lie close together, in any order, else a copy in the same order. */
static cfx_tensor *packed(cfx_tensor *t) {
    int64_t stride[CFX_MAX_DIMS];
    if (cfx__tensor_is_dense(t))
        return t;
    cfx__strides_pointwise(1, (const cfx_tensor *const[]){t}, t->ndim, t->shape, stride);
    cfx_tensor *copy = cfx__tensor_empty((cfx_site){0}, (cfx_dtype)t->dtype, false, t->ndim,
                                         t->shape, stride);
    cfx__tensor_copy(copy, t);
    return copy;
}

/* Whether strides are those of elements that lie close together, in some order of dimensions. */
static bool is_packed(const cfx__head *h) {
    int64_t next = 1;
    uint32_t left = 0;
    for (int i = 0; i < h->ndim; i++) {
        if (h->shape[i] > 1)
            left |= 1u << i;
        if (h->stride[i] < 0 || h->stride[i] > CFX__MOST_ELEMENTS)
            return false;
    }
    for (int i = 0; i < h->ndim; i++)
        if (left >> i & 1 && h->stride[i] == next) {
            if (__builtin_mul_overflow(next, h->shape[i], &next))
                return false;
            left &= ~(1u << i);
            i = -1; /* from the start */
        }
    return !left || h->bytes == 0;
}

static bool head_of(cfx__parcel *p, cfx_value v) {
    cfx__head *h = &p->head;
    *h = (cfx__head){.mark = CFX__HEAD_MARK, .kind = CFX__MESSAGE_VALUE};
    const bool number = v.tag == CFX_TAG_BOOL || v.tag == CFX_TAG_INT || v.tag == CFX_TAG_FLOAT;
    if (v.tag == CFX_TAG_NONE) {
        h->number = NOTHING;
        v = cfx_tensor_value(cfx__tensor_scalar(cfx_int(0), CFX_I64));
    } else if (number) {
        h->number = v.tag == CFX_TAG_BOOL ? BOOL : v.tag == CFX_TAG_INT ? INT : FLOAT;
        v = cfx_tensor_value(
            cfx__tensor_scalar(v, v.tag == CFX_TAG_FLOAT ? CFX_F64 : CFX_I64));
    }
    cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    if (!t || cfx__obj_is_bad(t) || (t->numel && !t->data) || cfx__dtype_is_quantized(t->dtype)) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                 "ranks send each other tensors with data, numbers and None");
        return false;
    }
    if (t->ndim > CFX__HEAD_DIMS) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "a tensor of %d dimensions cannot be sent: %d are the most", t->ndim,
                 CFX__HEAD_DIMS);
        return false;
    }
    t = packed(t);
    if (!cfx_ok())
        return false;
    p->tensor = cfx_keep(t);
    h->dtype = t->dtype;
    h->ndim = (uint8_t)t->ndim;
    memcpy(h->shape, t->shape, (size_t)t->ndim * sizeof *h->shape);
    memcpy(h->stride, t->stride, (size_t)t->ndim * sizeof *h->stride);
    h->bytes = t->numel * cfx_dtype_size((cfx_dtype)t->dtype);
    return cfx_ok();
}

/* Room for what a head announces; false, with an error, where it cannot be. */
static bool make_room(cfx__parcel *p) {
    const cfx__head *h = &p->head;
    const cfx__head want = {.mark = CFX__HEAD_MARK, .kind = CFX__MESSAGE_VALUE, .dtype = h->dtype,
                            .ndim = h->ndim, .number = h->number, .bytes = h->bytes,
                            .order = p->group->taken[p->peer]};
    bool right = h->mark == want.mark && h->kind == want.kind && h->order == want.order &&
                 h->dtype < CFX_DTYPE_COUNT && h->ndim <= CFX__HEAD_DIMS && h->number < NUMBERS;
    if (right && h->number != TENSOR)
        right = h->ndim == 0 && h->dtype == (h->number == FLOAT ? CFX_F64 : CFX_I64);
    right = right && is_packed(h);
    if (!right) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "rank %d on %s sent %s (number %llu) where this rank, %d, waits for value number "
                 "%llu: the ranks do not run the same",
                 p->peer, cfx_group_node(p->group, p->peer), cfx__head_text(h),
                 (unsigned long long)h->order, cfx_group_rank(p->group),
                 (unsigned long long)want.order);
        return false;
    }
    size_t mark = cfx_scope_open();
    cfx_tensor *t = cfx__tensor_empty((cfx_site){0}, (cfx_dtype)h->dtype, false, h->ndim,
                                      h->shape, h->bytes ? h->stride : NULL);
    if (!cfx__obj_is_bad(t))
        p->tensor = cfx_keep(t);
    cfx_scope_close(mark);
    if (p->tensor && p->tensor->numel * cfx_dtype_size((cfx_dtype)h->dtype) != h->bytes)
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "rank %d on %s announced %s, which is not %lld bytes", p->peer,
                 cfx_group_node(p->group, p->peer), cfx__head_text(h), (long long)h->bytes);
    if (!cfx_ok())
        cfx_error_note("of what rank %d on %s sent: %s", p->peer, cfx_group_node(p->group, p->peer),
                 cfx__head_text(h));
    return cfx_ok();
}

/* ---- parcels --------------------------------------------------------------------------------- */

static bool begin(cfx__parcel *p, int which, void *data, size_t size) {
    const cfx__part parts[CFX__PARTS] = {{data, size}};
    cfx__transport *t = p->group->transport;
    p->requests[which] =
        t->begin(t, p->sends, p->peer, which ? CFX__TAG_DATA : CFX__TAG_HEAD, parts);
    return p->requests[which] ? true : cfx__group_fault(p->group);
}

bool cfx__parcel_send(cfx__parcel *p, cfx_group *g, int to, cfx_value v) {
    *p = (cfx__parcel){.group = g, .sends = true, .peer = to};
    if (!cfx_ok() || !cfx__group_peer(g, to) || !head_of(p, v))
        return false;
    p->head.order = g->sent[to]++;
    p->has_head = true;
    if (p->head.bytes)
        p->head.post = cfx__mail_put(g, to, p->tensor->data, (size_t)p->head.bytes);
    return begin(p, 0, &p->head, sizeof p->head) &&
           (!p->head.bytes || p->head.post ||
            begin(p, 1, p->tensor->data, (size_t)p->head.bytes));
}

bool cfx__parcel_recv(cfx__parcel *p, cfx_group *g, int from) {
    *p = (cfx__parcel){.group = g, .peer = from};
    return cfx_ok() && cfx__group_peer(g, from) && begin(p, 0, &p->head, sizeof p->head);
}

/* 1: the request is done, 0: not yet, -1: failed. */
static int advance(cfx__parcel *p, int which, bool wait, size_t expected) {
    void *request = p->requests[which];
    cfx__transport *t = p->group->transport;
    size_t size = 0;
    if (!request)
        return 1;
    if (wait) {
        if (!cfx__group_done(p->group, request, &size))
            return -1;
    } else {
        int done = t->test(t, request, 0, &size);
        if (done < 0)
            cfx__group_fault(p->group);
        if (done < 1)
            return done;
    }
    p->requests[which] = NULL;
    if (!p->sends && size != expected) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "rank %d on %s sent a message of %zu bytes where %zu were announced", p->peer,
                 cfx_group_node(p->group, p->peer), size, expected);
        return -1;
    }
    return 1;
}

static cfx_value received(const cfx__parcel *p) {
    const cfx_value number = p->head.number == TENSOR ? cfx_none() : cfx__tensor_get(p->tensor, 0);
    if (p->head.number == TENSOR)
        return cfx_tensor_value(cfx__scope_own(cfx_keep(p->tensor)));
    if (p->head.number == NOTHING)
        return cfx_none();
    return p->head.number == BOOL ? cfx_bool(cfx_integer(number) != 0) : number;
}

int cfx__parcel_poll(cfx__parcel *p, bool wait, cfx_value *v) {
    int done = cfx_ok() ? advance(p, 0, wait, sizeof p->head) : -1;
    if (done == 1 && !p->sends && !p->has_head) {
        p->has_head = true;
        const size_t bytes = (size_t)p->head.bytes;
        if (!make_room(p) ||
            (p->head.post ? !cfx__mail_take(p->group, p->peer, p->head.post, p->tensor->data, bytes)
                          : bytes && !begin(p, 1, p->tensor->data, bytes)))
            return -1;
        p->group->taken[p->peer]++;
    }
    if (done == 1)
        done = advance(p, 1, wait, (size_t)p->head.bytes); /* nothing is begun of a letter */
    if (done == 1 && v && !p->sends)
        *v = received(p);
    return done;
}

void cfx__parcel_end(cfx__parcel *p) {
    if (p->group)
        cfx__group_cancel(p->group, 2, p->requests, 1, &p->tensor);
    cfx_drop(p->tensor);
    *p = (cfx__parcel){0};
}

/* ---- the caller's ---------------------------------------------------------------------------- */

bool cfx_group_send(cfx_group *g, int to, cfx_value v) {
    cfx__parcel p;
    bool sent = cfx__parcel_send(&p, g, to, v) && cfx__parcel_poll(&p, true, NULL) == 1;
    cfx__parcel_end(&p);
    return sent;
}

cfx_value cfx_group_recv(cfx_group *g, int from) {
    cfx__parcel p;
    cfx_value v = cfx_bad();
    if (cfx__parcel_recv(&p, g, from))
        cfx__parcel_poll(&p, true, &v);
    cfx__parcel_end(&p);
    return v;
}
