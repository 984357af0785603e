/* Tensors and storages: making, looking, aliasing. */
#include "../base/given.h"
#include "../value/later.h"
#include "tensor.h"

static void storage_free(void *p) {
    cfx__storage *s = p;
    if (unlikely(s->packed))
        cfx__packed_drop_all(s);
    if (s->release)
        s->release(s->owner);
    else if (!s->fixed && s->data)
        cfx__block_free(s->data, s->size);
    if (unlikely(s->mirror != NULL))
        cfx_drop(s->mirror);
    s->spare ? cfx__spare_free(CFX__SPARE_STORAGE, s) : cfx__free(s);
}

static void tensor_free(void *p) {
    cfx_tensor *t = p;
    if (t->shape != t->dims)
        cfx__free(t->shape);
    cfx_drop(t->storage);
    if (t->proxy)
        cfx_drop(t->proxy);
    if (t->tape)
        cfx_drop(t->tape);
    if (t->base)
        cfx_drop(t->base);
    if (unlikely(t->quantizer != NULL))
        cfx_drop(t->quantizer);
    if (unlikely(t->known != NULL))
        cfx_drop(t->known);
    cfx__spare_free(CFX__SPARE_TENSOR, t);
}

static const cfx__obj_type storage_type = {
    .name = "storage", .free = storage_free, .frees_itself = true};
static const cfx__obj_type tensor_type = {
    .name = "tensor", .free = tensor_free, .frees_itself = true};

/* Of the bad tensor: who looks before asking finds zeros, counted from the end too. */
static const int64_t no_dims[CFX_MAX_DIMS + CFX_MAX_DIMS];
cfx_tensor cfx__tensor_bad = {.head = {.refs = 1, .flags = CFX__BAD, .type = &tensor_type},
                              .dtype = CFX_F32,
                              .shape = (int64_t *)no_dims + CFX_MAX_DIMS,
                              .stride = (int64_t *)no_dims + CFX_MAX_DIMS};

/* ---- make ------------------------------------------------------------------------------------ */

/* Small data lies in the storage object itself: one allocation less for small tensors. */
static cfx__storage *storage_new(cfx_site at, size_t size, bool fake) {
#ifdef CFX_SANITIZE
    enum { SMALL = 0 }; /* what is read behind the last element is seen */
#else
    enum { SMALL = 128 };
#endif
    if (!fake && size <= CFX__INLINE_STORAGE) {
        size_t head = (sizeof(cfx__storage) + 15) & ~(size_t)15;
        bool spare = size <= SMALL;
        cfx__storage *s = spare ? cfx__spare_alloc(CFX__SPARE_STORAGE, head + SMALL)
                                : cfx__alloc(head + size);
        memset(s, 0, sizeof *s);
        s->head = (cfx_obj){.refs = 1, .type = &storage_type};
        s->spare = spare;
        s->data = (char *)s + head;
        s->size = size;
        s->fixed = true;
        return s;
    }
    cfx__storage *s = cfx__obj_make(&storage_type, sizeof *s);
    s->size = size;
    if (fake)
        return s;
    s->data = cfx__block_alloc(size);
    if (!s->data) {
        cfx_fail(
            CFX_MEMORY_ERROR, at,
            "[enforce fail at alloc_cpu.cpp] . DefaultCPUAllocator: can't allocate memory: you "
            "tried to allocate %zu bytes. Error code 12 (Cannot allocate memory)",
            size);
        cfx_drop(s);
        return NULL;
    }
    return s;
}

/* Memory of a card, which the host sees as well. NULL, with an error. */
static cfx__storage *storage_on_card(cfx_site at, int card, size_t size) {
    void *owner = NULL, *data = cfx__later_rooms.card_memory(at, card, size, &owner);
    if (!data)
        return NULL;
    cfx__storage *s = cfx__obj_make(&storage_type, sizeof *s);
    s->data = data;
    s->size = size;
    s->fixed = true;
    s->release = cfx_drop, s->owner = owner;
    s->device = (cfx_device){CFX_CUDA, (int16_t)card};
    return s;
}

/* Strides that lead to no element, those of empty tensors and of sizes below two, may be any number
 * that somebody writes down: here only those whose products with sizes in bytes are numbers too. */
static void bound_strides(cfx_tensor *t) {
    for (int i = 0; i < t->ndim; i++) {
        bool small = (uint64_t)(t->stride[i] | t->shape[i]) >> 28 == 0; /* as nearly all are */
        if (small || (t->numel && t->shape[i] > 1))
            continue;
        const int64_t most = INT64_MAX / 16 / (t->shape[i] > 1 ? t->shape[i] : 1);
        if (t->stride[i] > most || t->stride[i] < -most)
            t->stride[i] = most;
    }
}

/* A tensor without storage; one count, the caller's. */
static cfx_tensor *tensor_make(cfx_dtype dtype, int ndim, const int64_t *shape,
                               const int64_t *stride, int64_t numel) {
    cfx_tensor *t = cfx__spare_alloc(CFX__SPARE_TENSOR, sizeof *t);
    memset(t, 0, offsetof(cfx_tensor, dims));
    t->head = (cfx_obj){.refs = 1, .type = &tensor_type};
    t->dtype = (uint8_t)dtype;
    t->device.index = -1;
    t->ndim = ndim;
    t->numel = numel;
    t->shape = ndim <= CFX__INLINE_DIMS ? t->dims
                                        : cfx__alloc(2 * (size_t)ndim * sizeof *t->shape);
    t->stride = t->shape + ndim;
    if (ndim)
        memcpy(t->shape, shape, (size_t)ndim * sizeof *shape);
    if (stride && ndim)
        memcpy(t->stride, stride, (size_t)ndim * sizeof *stride);
    else
        cfx__strides_contiguous(ndim, shape, t->stride);
    bound_strides(t);
    return t;
}

/* Elements from the first to the last one that shape and strides reach, or -1 if it does not fit.
 */
static int64_t extent(int ndim, const int64_t *shape, const int64_t *stride) {
    int64_t last = 0, span;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 0)
            return 0;
        if (__builtin_mul_overflow(shape[i] - 1, stride[i], &span) ||
            __builtin_add_overflow(last, span, &last))
            return -1;
    }
    return last < CFX__MOST_ELEMENTS ? last + 1 : -1;
}

bool cfx__dtype_is_plain(cfx_site at, cfx_dtype dtype) {
    if (unlikely(cfx__dtype_is_quantized(dtype)))
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "a tensor of torch.%s needs a scale: torch.quantize_per_tensor makes one",
                 cfx_dtype_name(dtype));
    return !cfx__dtype_is_quantized(dtype);
}

cfx_tensor *cfx__tensor_empty(cfx_site at, cfx_dtype dtype, bool fake, int ndim,
                              const int64_t *shape, const int64_t *stride) {
    if (!cfx__dtype_is_plain(at, dtype))
        return &cfx__tensor_bad;
    if (ndim > CFX_MAX_DIMS) {
        cfx_fail(CFX_RUNTIME_ERROR, at, "tensor has too many (>%d) dims", CFX_MAX_DIMS);
        return &cfx__tensor_bad;
    }
    int64_t numel = cfx__shape_numel(at, ndim, shape);
    if (numel < 0)
        return &cfx__tensor_bad;
    int64_t room = stride ? extent(ndim, shape, stride) : numel, bytes;
    if (room < 0 || __builtin_mul_overflow(room, cfx_dtype_size(dtype), &bytes)) {
        cfx__fail_large(at, "Storage size calculation overflowed with sizes=%s",
                        cfx__shape_text(ndim, shape));
        return &cfx__tensor_bad;
    }
    const int card = cfx__ctx()->card;
    cfx__storage *s = unlikely(card) && !fake ? storage_on_card(at, card - 1, (size_t)bytes)
                                              : storage_new(at, (size_t)bytes, fake);
    if (!s)
        return &cfx__tensor_bad;
    cfx_tensor *t = tensor_make(dtype, ndim, shape, stride, numel);
    t->storage = s;
    t->data = s->data;
    t->head.flags |= fake ? CFX__FAKE : 0;
    if (unlikely(card))
        cfx__tensor_place(t, (cfx_device){CFX_CUDA, (int16_t)(card - 1)});
    return cfx__scope_own(t);
}

cfx_tensor *cfx__tensor_alias(const cfx_tensor *t, int ndim, const int64_t *shape,
                              const int64_t *stride, int64_t offset) {
    int64_t numel = cfx__shape_numel((cfx_site){0}, ndim, shape);
    if (numel < 0)
        return &cfx__tensor_bad;
    cfx_tensor *v = tensor_make(t->dtype, ndim, shape, stride, numel);
    v->storage = cfx_keep(t->storage);
    v->offset = offset;
    v->device = t->device;
    v->head.flags |=
        t->head.flags & (CFX__FAKE | CFX__INFERENCE | CFX__QUANTIZED | CFX__ON_CARD | CFX__MIRROR);
    v->quantizer = t->quantizer ? cfx_keep(t->quantizer) : NULL;
    if (t->data) /* the offset of an empty view may be absurd */
        v->data = (char *)t->storage->data + (numel ? offset * cfx_dtype_size(t->dtype) : 0);
    return cfx__scope_own(v);
}

void cfx__tensor_place(cfx_tensor *t, cfx_device device) {
    t->device = device;
    const uint32_t on_card = device.type == CFX_CUDA ? CFX__ON_CARD : 0;
    t->head.flags = (t->head.flags & ~(uint32_t)CFX__ON_CARD) | on_card;
}

void cfx__tensor_know(cfx_tensor *t, cfx_tensor *numbers) {
    if (t->known || !(t->head.flags & CFX__FAKE) || numbers->numel > CFX__KNOWN_MOST ||
        (!numbers->data && numbers->numel) || t->numel != numbers->numel)
        return;
    t->known = cfx_keep(numbers);
}

bool cfx__tensor_in_limit(cfx_site at, const cfx_tensor *t) {
    size_t limit = cfx__ctx()->memory_limit;
    if (likely(!limit) || !t->data ||
        (uint64_t)t->numel <= limit / (size_t)cfx_dtype_size(t->dtype))
        return true;
    cfx_fail(CFX_MEMORY_ERROR, at,
             "the memory limit of %zu bytes is reached: a view of shape %s stands for more", limit,
             cfx__shape_text(t->ndim, t->shape));
    return false;
}

cfx_tensor *cfx_tensor_new(cfx_dtype dtype, int ndim, const int64_t *shape, const void *data) {
    cfx_tensor *t = cfx__tensor_empty((cfx_site){0}, dtype, false, ndim, shape, NULL);
    if (data && t->data && t->numel)
        memcpy(t->data, data, (size_t)(t->numel * cfx_dtype_size(dtype)));
    return t;
}

cfx_tensor *cfx_tensor_borrow(cfx_dtype dtype, int ndim, const int64_t *shape, void *data,
                              void (*release)(void *owner), void *owner) {
    int64_t numel = cfx__shape_numel((cfx_site){0}, ndim, shape);
    if (numel < 0 || ndim > CFX_MAX_DIMS || !cfx__dtype_is_plain((cfx_site){0}, dtype) ||
        (numel && !cfx__given((cfx_site){0}, data, "memory of the tensor")))
        return &cfx__tensor_bad;
    cfx__storage *s = cfx__obj_make(&storage_type, sizeof *s);
    s->data = data;
    s->size = (size_t)(numel * cfx_dtype_size(dtype));
    s->fixed = true;
    s->release = release;
    s->owner = owner;
    s->foreign = release != cfx_drop; /* an object of ours is written to by operators alone */
    cfx_tensor *t = tensor_make(dtype, ndim, shape, NULL, numel);
    t->storage = s;
    t->data = data;
    return cfx__scope_own(t);
}

cfx_tensor *cfx_tensor_fake(cfx_dtype dtype, int ndim, const int64_t *shape,
                            const int64_t *stride) {
    return cfx__tensor_empty((cfx_site){0}, dtype, true, ndim, shape, stride);
}

cfx_tensor *cfx__tensor_faked(const cfx_tensor *t) {
    const cfx_dtype stored = cfx__dtype_stored((cfx_dtype)t->dtype);
    cfx_tensor *fake = cfx_tensor_fake(stored, t->ndim, t->shape, t->stride);
    if (!cfx__obj_is_bad(fake))
        cfx__tensor_place(fake, t->device);
    return t->head.flags & CFX__QUANTIZED
               ? cfx__quantized_of(fake, (cfx_dtype)t->dtype, t->quantizer)
               : fake;
}

cfx_value cfx__tensor_faked_in(cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        return cfx_tensor_value(cfx__tensor_faked(cfx_as_tensor(v)));
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), cfx__tensor_faked_in(cfx_as_list(v)->items[i]));
    return out;
}

cfx_tensor *cfx_tensor_view(const cfx_tensor *t, int ndim, const int64_t *shape,
                            const int64_t *stride, int64_t offset) {
    if (!t || cfx__obj_is_bad(t) ||
        (ndim > 0 && !cfx__given((cfx_site){0}, stride, "list of strides")))
        return &cfx__tensor_bad;
    if (cfx__shape_numel((cfx_site){0}, ndim, shape) < 0)
        return &cfx__tensor_bad;
    for (int i = 0; i < ndim; i++)
        if (stride[i] < 0) {
            cfx_fail(
                CFX_RUNTIME_ERROR, (cfx_site){0},
                "as_strided: Negative strides are not supported at the moment, got strides: %s",
                cfx__shape_text(ndim, stride));
            return &cfx__tensor_bad;
        }
    int64_t reach = extent(ndim, shape, stride), bytes = -1;
    bool fits = offset >= 0 && reach >= 0 && !__builtin_add_overflow(reach, offset, &reach) &&
                !__builtin_mul_overflow(reach, cfx_dtype_size(t->dtype), &bytes);
    if (!fits || (uint64_t)bytes > t->storage->size) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "setStorage: sizes %s, strides %s, storage offset %lld, and itemsize %d requiring "
                 "a storage size of %lld are out of bounds for storage of size %zu",
                 cfx__shape_text(ndim, shape), cfx__shape_text(ndim, stride), (long long)offset,
                 cfx_dtype_size(t->dtype), (long long)bytes, t->storage->size);
        return &cfx__tensor_bad;
    }
    cfx_tensor *v = cfx__tensor_alias(t, ndim, shape, stride, offset);
    return cfx__tensor_in_limit((cfx_site){0}, v) ? v : &cfx__tensor_bad;
}

/* ---- look ------------------------------------------------------------------------------------ */

/* The tensor that the caller looks at; who records or traces hears of it. */
static const cfx_tensor *seen_from(cfx_site at, const cfx_tensor *t) {
    if (unlikely(t && t->proxy))
        cfx__later_rooms.read_sizes(at, t);
    return t;
}

static const cfx_tensor *seen(const cfx_tensor *t) { return seen_from((cfx_site){0}, t); }

/* The same of what is known of all tensors but traced ones. */
static const cfx_tensor *known(const cfx_tensor *t) {
    return t && t->head.flags & CFX__TRACED ? seen(t) : t;
}

cfx_dtype cfx_tensor_dtype(const cfx_tensor *t) { return known(t) ? t->dtype : CFX_F32; }
cfx_device cfx_tensor_device(const cfx_tensor *t) {
    return known(t) ? t->device : (cfx_device){0, -1};
}
int cfx_tensor_ndim(const cfx_tensor *t) { return known(t) ? t->ndim : 0; }
int64_t cfx_tensor_numel_from(cfx_site at, const cfx_tensor *t) {
    return seen_from(at, t) ? t->numel : 0;
}
int64_t cfx_tensor_numel(const cfx_tensor *t) { return cfx_tensor_numel_from((cfx_site){0}, t); }
const int64_t *cfx_tensor_shape_from(cfx_site at, const cfx_tensor *t) {
    return seen_from(at, t) ? t->shape : NULL;
}
const int64_t *cfx_tensor_shape(const cfx_tensor *t) {
    return cfx_tensor_shape_from((cfx_site){0}, t);
}
const int64_t *cfx_tensor_stride(const cfx_tensor *t) { return seen(t) ? t->stride : NULL; }

void cfx_tensor_set_data(cfx_tensor *t, const cfx_tensor *other) {
    cfx_site at = {0};
    if (!cfx__given(at, t, "tensor") || !cfx__given(at, other, "tensor") || cfx__obj_is_bad(t) ||
        cfx__obj_is_bad(other))
        return;
    cfx_dtype d = (cfx_dtype)other->dtype;
    bool learns = cfx__dtype_is_floating(d) || cfx__dtype_is_complex(d);
    bool traced = (t->head.flags | other->head.flags) & CFX__TRACED;
    if (traced || (!learns && t->head.flags & CFX__GRAD)) {
        cfx_fail(CFX_RUNTIME_ERROR, at, "%s",
                 traced ? "the data of a traced tensor cannot be set"
                        : "data set to a tensor that requires gradients must be floating point or "
                          "complex dtype");
        return;
    }
    t->dtype = other->dtype;
    t->head.flags = (t->head.flags & ~(uint32_t)(CFX__FAKE | CFX__QUANTIZED)) |
                    (other->head.flags & (CFX__FAKE | CFX__QUANTIZED));
    cfx__tensor_become(t, other);
    cfx_drop(t->base);
    t->base = NULL;
}

void cfx_tensor_set_user(cfx_tensor *t, void *user) {
    if (cfx__given((cfx_site){0}, t, "tensor") && !cfx__obj_is_bad(t))
        t->user = user;
}

void *cfx_tensor_user(const cfx_tensor *t) { return t ? t->user : NULL; }

int64_t cfx_tensor_offset(const cfx_tensor *t) { return seen(t) ? t->offset : 0; }
void *cfx_tensor_data(const cfx_tensor *t) { return cfx_tensor_data_from((cfx_site){0}, t); }
void *cfx_tensor_data_from(cfx_site at, const cfx_tensor *t) {
    const bool none = t && !t->data && t->numel && t->head.flags & CFX__FAKE;
    if (!t || ((t->data || none) && !cfx__later_rooms.may_read(at, t)))
        return NULL;
    if (none)
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "cannot access the data of a fake tensor: it has a shape and a dtype, but no "
                 "numbers");
    if (t->storage && !t->storage->foreign)
        t->storage->foreign = true; /* who has the address may write there */
    return t->data;
}
bool cfx_tensor_is_contiguous(const cfx_tensor *t) {
    return seen(t) && cfx__tensor_is_contiguous(t);
}
bool cfx_tensor_is_fake(const cfx_tensor *t) { return t && (t->head.flags & CFX__FAKE); }

bool cfx_tensor_shares(const cfx_tensor *a, const cfx_tensor *b) {
    return a && b && a->storage && a->storage == b->storage;
}

int64_t cfx_dim_from(cfx_site at, const cfx_tensor *t, int i) {
    if (!t || cfx__obj_is_bad(t))
        return -1;
    if (t->head.flags & CFX__TRACED) {
        cfx_fail(CFX_TRACE_ERROR, at,
                 "the size of a traced tensor is not a number yet; use cfx_size");
        return -1;
    }
    int d = cfx__shape_wrap_dim(at, i, t->ndim);
    if (d < 0 || d >= t->ndim)
        return -1;
    return unlikely(t->proxy) ? cfx__later_rooms.read_size(at, t, d) : t->shape[d];
}

int64_t cfx_dim(const cfx_tensor *t, int i) { return cfx_dim_from((cfx_site){0}, t, i); }

/* Where element i lies, in elements; i is one of them. */
static int64_t element_offset(const cfx_tensor *t, int64_t i) {
    int64_t at = 0;
    for (int d = t->ndim - 1; d >= 0; d--) {
        at += i % t->shape[d] * t->stride[d];
        i /= t->shape[d];
    }
    return at;
}

/* The number that a quantized element stands for. */
static double quantized_element(const cfx_tensor *t, int64_t i, double q) {
    const cfx__quantizer *by = t->quantizer;
    if (!by->scales)
        return (float)(q - (double)by->zero_point) * (float)by->scale;
    int64_t channel = i;
    for (int d = t->ndim - 1; d > by->axis; d--)
        channel /= t->shape[d];
    channel %= t->shape[by->axis];
    return (float)(q - cfx__tensor_number(by->zero_points, channel)) *
           (float)cfx__tensor_number(by->scales, channel);
}

/* An element of any dtype as a number. */
static double element(const cfx_tensor *t, int64_t i) {
    double v;
    cfx__convert_in(&v, CFX_F64, t->data + element_offset(t, i) * cfx_dtype_size(t->dtype), 0,
                    t->dtype, 1);
    return unlikely(t->quantizer != NULL) ? quantized_element(t, i, v) : v;
}

static void fail_element(const cfx_tensor *t, int64_t i) {
    cfx_fail(CFX_INDEX_ERROR, (cfx_site){0},
             "element %lld of a tensor of %lld elements%s cannot be read", (long long)i,
             (long long)t->numel, t->data ? "" : " without data");
}

cfx_value cfx__tensor_get(const cfx_tensor *t, int64_t i) {
    if (unlikely(!t->data || !t->numel))
        return cfx_float(0);
    if (unlikely(i < 0 || i >= t->numel)) {
        fail_element(t, i);
        return cfx_bad();
    }
    const char *p = t->data + element_offset(t, i) * cfx_dtype_size(t->dtype);
    if (t->dtype == CFX_BOOL)
        return cfx_bool(*p != 0);
    if (cfx__dtype_is_integral(t->dtype)) {
        int64_t v;
        cfx__convert_in(&v, CFX_I64, p, 0, t->dtype, 1);
        return cfx_int(v);
    }
    if (cfx__dtype_is_complex(t->dtype)) {
        double c[2];
        cfx__convert_in(c, CFX_C128, p, 0, t->dtype, 1);
        return cfx_complex_value(c[0], c[1]);
    }
    return cfx_float(element(t, i));
}

void cfx__tensor_set(cfx_tensor *t, int64_t i, cfx_value v) {
    if (unlikely(!t->data || !t->numel))
        return;
    char *p = t->data + element_offset(t, i) * cfx_dtype_size(t->dtype);
    if (v.tag == CFX_TAG_COMPLEX)
        cfx__convert_out(p, 0, t->dtype, &cfx_as_complex(v)->re, CFX_C128, 1);
    else if (v.tag == CFX_TAG_FLOAT) {
        double n = cfx_number(v);
        cfx__convert_out(p, 0, t->dtype, &n, CFX_F64, 1);
    } else {
        int64_t n = cfx_integer(v);
        cfx__convert_out(p, 0, t->dtype, &n, CFX_I64, 1);
    }
}

double cfx_tensor_get_from(cfx_site at, const cfx_tensor *t, int64_t i) {
    if (!t || !cfx__later_rooms.may_read(at, t))
        return 0;
    return cfx__tensor_number(t, i);
}

double cfx_tensor_get(const cfx_tensor *t, int64_t i) {
    return cfx_tensor_get_from((cfx_site){0}, t, i);
}

double cfx__tensor_number(const cfx_tensor *t, int64_t i) {
    if (!t || cfx__obj_is_bad(t))
        return 0;
    if (!t->data || i < 0 || i >= t->numel) {
        fail_element(t, i);
        return 0;
    }
    return element(t, i);
}

cfx_tensor *cfx_tensor_at(cfx_value v, int64_t i) {
    cfx_value item = cfx_at(v, i);
    if (item.tag == CFX_TAG_TENSOR)
        return cfx_as_tensor(item);
    if (item.tag == CFX_TAG_NONE)
        return NULL;
    if (item.tag != CFX_TAG_BAD)
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "item %lld is %s, not a tensor", (long long)i,
                 cfx_value_type_name(item));
    return &cfx__tensor_bad;
}

/* ---- from numbers ---------------------------------------------------------------------------- */

cfx_tensor *cfx__tensor_scalar(cfx_value number, cfx_dtype dtype) {
    cfx_tensor *t = cfx__tensor_empty((cfx_site){0}, dtype, false, 0, NULL, NULL);
    cfx__tensor_set(t, 0, number);
    return t;
}

cfx_tensor *cfx__tensor_wrapped(cfx_value number) {
    cfx_dtype d = cfx__dtype_of_number(number);
    d = d == CFX_F32 ? CFX_F64 : d == CFX_C64 ? CFX_C128 : d;
    cfx_tensor *t = cfx__tensor_scalar(number, d);
    if (!cfx__obj_is_bad(t))
        t->head.flags |= CFX__WRAPPED;
    return t;
}

/* Walks nested lists: fills shape on the way down, numbers at the leaves. */
static bool fill_nested(cfx_tensor *t, cfx_value v, int depth, int ndim, const int64_t *shape,
                        int64_t *next) {
    const bool list = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE, text = v.tag == CFX_TAG_STR;
    if (!list && !cfx_is_number(v))
        cfx_fail(text ? CFX_TYPE_ERROR : CFX_RUNTIME_ERROR, (cfx_site){0}, "%s%s",
                 text ? "new(): invalid data type 'str'" : "Could not infer dtype of ",
                 text ? "" : cfx_value_type_name(v));
    if (!cfx_ok() || list != (depth < ndim))
        return false;
    if (!list) {
        cfx__tensor_set(t, (*next)++, v);
        return true;
    }
    if (cfx_as_list(v)->len != shape[depth]) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "expected sequence of length %lld at dim %d (got %lld)", (long long)shape[depth],
                 depth, (long long)cfx_as_list(v)->len);
        return false;
    }
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        if (!fill_nested(t, cfx_as_list(v)->items[i], depth + 1, ndim, shape, next))
            return false;
    return true;
}

static int infer_dtype(cfx_value v, int so_far) {
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            so_far = infer_dtype(cfx_as_list(v)->items[i], so_far);
        return so_far;
    }
    int d = cfx_is_number(v) ? (int)cfx__dtype_of_number(v) : -1;
    return d < 0        ? so_far
           : so_far < 0 ? d
                        : (int)cfx__dtype_promote((cfx_dtype)so_far, (cfx_dtype)d);
}

cfx_tensor *cfx_tensor_from_value(cfx_value data) {
    int64_t shape[CFX_MAX_DIMS];
    int ndim = 0;
    cfx_value v = data;
    while ((v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) && ndim < CFX_MAX_DIMS) {
        shape[ndim++] = cfx_as_list(v)->len;
        if (!cfx_as_list(v)->len)
            break;
        v = cfx_as_list(v)->items[0];
    }
    int dtype = infer_dtype(data, -1);
    cfx_dtype d = dtype < 0 ? cfx__dtype_of_number(cfx_float(0)) : (cfx_dtype)dtype;
    cfx_tensor *t = cfx__tensor_empty((cfx_site){0}, d, false, ndim, shape, NULL);
    int64_t next = 0;
    if (t->data && !fill_nested(t, data, 0, ndim, shape, &next)) {
        if (cfx_ok())
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "expected nested sequences of numbers with equal lengths to make a tensor of");
        return &cfx__tensor_bad;
    }
    return t;
}
