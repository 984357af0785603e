/* Tensors of ONNX files: numbers in one of several lists, as raw bytes, or in a file beside. Start
 * at cfx__onnx_tensor. */
#define _GNU_SOURCE /* realpath */
#include "onnx.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "../tensor/tensor.h"

/* A TensorProto, before its numbers are looked at. */
typedef struct proto {
    const char *name; /* for errors */
    const cfx__onnx_type *type;
    int ndim;
    int64_t shape[CFX_MAX_DIMS], numel;
    int64_t number;   /* of the type, as the file has it */
    bool raw, external;
    cfx__slice bytes; /* raw data */
    cfx__slice whole; /* the message */
    const char *location;
    int64_t offset, length; /* of data in a file beside; length -1: to its end */
} proto;

/* ---- the message ----------------------------------------------------------------------------- */

static bool read_number(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    *out = v;
    return *text && !*end && !errno && v >= 0;
}

/* One pair of external_data. */
static bool read_place(cfx__onnx_reader *r, cfx__slice message, proto *p) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    const char *key = "", *value = "";
    while (cfx__wire_next(&w, &f) && key && value) {
        if (f.number == 1)
            key = cfx__onnx_text(r, cfx__wire_bytes(&w, &f));
        else if (f.number == 2)
            value = cfx__onnx_text(r, cfx__wire_bytes(&w, &f));
    }
    if (!key || !value || w.broken)
        return cfx_ok() && cfx__onnx_bad(r, "tensor '%s' is garbled", p->name);
    if (!strcmp(key, "location"))
        p->location = value;
    bool fine = (strcmp(key, "offset") || read_number(value, &p->offset)) &&
                (strcmp(key, "length") || read_number(value, &p->length));
    return fine || cfx__onnx_bad(r, "tensor '%s' has '%s' for its %s in another file", p->name,
                                 value, key);
}

static bool add_dim(cfx__onnx_reader *r, proto *p, int64_t size) {
    if (p->ndim == CFX_MAX_DIMS)
        return cfx__onnx_bad(r, "tensor '%s' has more than %d dimensions", p->name, CFX_MAX_DIMS);
    if (size < 0)
        return cfx__onnx_bad(r, "tensor '%s' has a size of %lld", p->name, (long long)size);
    p->shape[p->ndim++] = size;
    return true;
}

static bool read_dims(cfx__onnx_reader *r, cfx__wire *w, const cfx__wire_field *f, proto *p) {
    uint64_t v;
    if (f->type == CFX__WIRE_VARINT)
        return add_dim(r, p, (int64_t)f->value);
    cfx__wire packed = cfx__wire_of(cfx__wire_bytes(w, f));
    while (cfx__wire_varint(&packed, &v))
        if (!add_dim(r, p, (int64_t)v))
            return false;
    w->broken |= packed.broken;
    return true;
}

static bool read_fields(cfx__onnx_reader *r, cfx__slice message, proto *p) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    bool fine = true;
    while (fine && cfx__wire_next(&w, &f))
        switch (f.number) {
        case 1: fine = read_dims(r, &w, &f, p); break;
        case 2: p->number = cfx__wire_int(&w, &f); break;
        case 9: p->bytes = cfx__wire_bytes(&w, &f), p->raw = true; break;
        case 13: fine = read_place(r, cfx__wire_bytes(&w, &f), p); break;
        case 14: p->external = cfx__wire_int(&w, &f) == 1; break;
        default: break;
        }
    if (!fine || w.broken)
        return cfx_ok() ? cfx__onnx_bad(r, "tensor '%s' is cut off or garbled", p->name) : false;
    return true;
}

/* Bytes that so many elements take in a file. */
static int64_t bytes_of(const proto *p) {
    int per = p->type->bits ? 8 / p->type->bits : 1;
    return p->type->bits ? (p->numel + per - 1) / per : p->numel * cfx_dtype_size(p->type->dtype);
}

static bool read_proto(cfx__onnx_reader *r, cfx__slice message, proto *p) {
    p->whole = message;
    p->length = -1;
    if (!read_fields(r, message, p))
        return false;
    p->type = cfx__onnx_type_numbered(p->number);
    if (!p->type)
        return cfx__onnx_bad(r, "tensor '%s' has elements of type %lld, which is not known",
                             p->name, (long long)p->number);
    if (p->type->dtype == CFX_DTYPE_COUNT)
        return cfx__onnx_lacks(r, "tensor '%s' holds elements of type %s, of which there are no "
                               "tensors here", p->name, p->type->name);
    p->numel = 1;
    for (int i = 0; i < p->ndim; i++)
        if (__builtin_mul_overflow(p->numel, p->shape[i], &p->numel) ||
            p->numel > CFX__MOST_ELEMENTS)
            return cfx__onnx_bad(r, "tensor '%s' has an absurd shape", p->name);
    return true;
}

/* ---- raw bytes ------------------------------------------------------------------------------- */

/* Several numbers in a byte, the first in its lowest bits. */
static void unpack(char *to, const char *from, int64_t n, const cfx__onnx_type *type) {
    /* 0, 0.5, 1, 1.5, 2, 3, 4, 6 as floats of eight bits */
    static const uint8_t wide[] = {0, 0x30, 0x38, 0x3c, 0x40, 0x44, 0x48, 0x4c};
    int bits = type->bits, per = 8 / bits, mask = (1 << bits) - 1, sign = 1 << (bits - 1);
    for (int64_t i = 0; i < n; i++) {
        int v = (uint8_t)from[i / per] >> (i % per * bits) & mask;
        to[i] = (char)(type->dtype == CFX_I8         ? (v ^ sign) - sign
                       : type->dtype == CFX_F8E4M3FN ? wide[v & 7] | (v & sign) << 4
                                                     : v);
    }
}

/* Bytes other than 0 and 1 are no bools in C. */
static void settle_bools(cfx_tensor *t) {
    for (int64_t i = 0; t->dtype == CFX_BOOL && i < t->numel; i++)
        t->data[i] = t->data[i] != 0;
}

static cfx_tensor *from_bytes(const proto *p, const char *data, cfx__file_mapping *map) {
    const uintptr_t align = sizeof(int64_t); /* of the widest elements that they may be viewed as */
    bool plain = !p->type->bits && p->type->dtype != CFX_BOOL && p->numel;
    if (map && plain && (uintptr_t)data % align == 0)
        return cfx_tensor_borrow(p->type->dtype, p->ndim, p->shape, (void *)(uintptr_t)data,
                                 cfx_drop, cfx_keep(map));
    cfx_tensor *t = cfx_tensor_new(p->type->dtype, p->ndim, p->shape,
                                   p->type->bits ? NULL : data);
    if (p->type->bits && t->data)
        unpack(t->data, data, p->numel, p->type);
    if (t->data)
        settle_bools(t);
    return t;
}

/* ---- a file beside --------------------------------------------------------------------------- */

/* The folder of a path; "." where it names none. Scope. */
static const char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return !slash         ? "."
           : slash == path ? "/"
                           : cfx__text_format("%.*s", (int)(slash - path), path);
}

/* Whether a file lies in a folder or below, links followed; the model's links are followed too. */
static bool lies_below(const char *file, const char *folder) {
    char real_file[PATH_MAX], real_folder[PATH_MAX];
    if (!realpath(file, real_file) || !realpath(folder, real_folder))
        return false;
    size_t n = strlen(real_folder);
    n -= n == 1; /* the root */
    return !strncmp(real_file, real_folder, n) && real_file[n] == '/';
}

static bool is_inside(const char *file, const char *model) {
    char real[PATH_MAX];
    return lies_below(file, folder_of(model)) ||
           (realpath(model, real) && lies_below(file, folder_of(real)));
}

static cfx__file_mapping *map_beside(cfx__onnx_reader *r, const proto *p) {
    cfx__file_mapping *map = cfx__map_get(&r->external, p->location);
    if (map)
        return map;
    const char *path = cfx__text_format("%s/%s", folder_of(r->path), p->location);
    char real[PATH_MAX];
    bool dots = *p->location == '/' || strstr(p->location, "..") || !*p->location;
    if (dots || (realpath(path, real) && !is_inside(path, r->path))) {
        cfx__onnx_bad(r, "tensor '%s' is to be found in '%s', which is not a file of the model's "
                      "folder", p->name, p->location);
        return NULL;
    }
    map = cfx__file_map(path);
    if (map)
        cfx__map_set(&r->external, p->location, map);
    return map;
}

static cfx_tensor *from_beside(cfx__onnx_reader *r, const proto *p) {
    if (!p->location) {
        cfx__onnx_bad(r, "tensor '%s' lies in another file, and nothing says in which", p->name);
        return &cfx__tensor_bad;
    }
    cfx__file_mapping *map = map_beside(r, p);
    if (!map)
        return &cfx__tensor_bad;
    int64_t need = bytes_of(p), size = (int64_t)map->size;
    if (p->offset > size || need > size - p->offset || (p->length >= 0 && p->length != need)) {
        cfx__onnx_bad(r, "tensor '%s' needs %lld bytes at %lld of '%s', which has %lld%s", p->name,
                      (long long)need, (long long)p->offset, p->location, (long long)size,
                      p->length >= 0 && p->length != need ? ", and says otherwise" : "");
        return &cfx__tensor_bad;
    }
    return from_bytes(p, (const char *)map->data + p->offset, map);
}

/* ---- lists of numbers ------------------------------------------------------------------------ */

/* Where the numbers of a type are, and how wide each is there. */
typedef struct {
    uint32_t field;
    cfx__wire_type type; /* of one number */
    int parts;           /* numbers of an element */
} list_place;

static list_place place_of(const cfx__onnx_type *t) {
    switch (t->dtype) {
    case CFX_F32: return (list_place){4, CFX__WIRE_32, 1};
    case CFX_C64: return (list_place){4, CFX__WIRE_32, 2};
    case CFX_F64: return (list_place){10, CFX__WIRE_64, 1};
    case CFX_C128: return (list_place){10, CFX__WIRE_64, 2};
    case CFX_I64: return (list_place){7, CFX__WIRE_VARINT, 1};
    case CFX_U32:
    case CFX_U64: return (list_place){11, CFX__WIRE_VARINT, 1};
    default: return (list_place){5, CFX__WIRE_VARINT, 1};
    }
}

/* Puts number i of a list into its place; false where there are too many. */
static bool put(cfx_tensor *t, const proto *p, int64_t *i, int64_t limit, uint64_t v) {
    int size = cfx_dtype_size((cfx_dtype)t->dtype) / place_of(p->type).parts;
    if (*i >= limit)
        return false;
    if (!p->type->bits) {
        memcpy(t->data + *i * size, &v, (size_t)size);
        ++*i;
        return true;
    }
    char byte = (char)v; /* several numbers in one of the list's */
    int per = 8 / p->type->bits;
    int64_t n = limit - *i < per ? limit - *i : per;
    unpack(t->data + *i, &byte, n, p->type);
    *i += n;
    return true;
}

static bool put_packed(cfx_tensor *t, const proto *p, cfx__slice s, int64_t *i, int64_t limit) {
    list_place at = place_of(p->type);
    if (at.type == CFX__WIRE_VARINT) {
        cfx__wire packed = cfx__wire_of(s);
        uint64_t v;
        while (cfx__wire_varint(&packed, &v))
            if (!put(t, p, i, limit, v))
                return false;
        return !packed.broken;
    }
    size_t size = at.type == CFX__WIRE_32 ? 4 : 8;
    for (size_t k = 0; k + size <= s.len; k += size) {
        uint64_t v = 0;
        memcpy(&v, s.at + k, size);
        if (!put(t, p, i, limit, v))
            return false;
    }
    return s.len % size == 0;
}

static cfx_tensor *from_lists(cfx__onnx_reader *r, const proto *p) {
    enum { MOST_IN_BYTE = 4 }; /* so that no memory is taken for numbers that cannot be there */
    list_place at = place_of(p->type);
    bool few = (uint64_t)p->numel / MOST_IN_BYTE > p->whole.len;
    cfx_tensor *t = few ? NULL : cfx_tensor_new(p->type->dtype, p->ndim, p->shape, NULL);
    if (!t)
        cfx__onnx_bad(r, "tensor '%s' has fewer numbers than its shape %s needs", p->name,
                      cfx__shape_text(p->ndim, p->shape));
    if (!t || cfx__obj_is_bad(t))
        return &cfx__tensor_bad;
    int64_t i = 0, limit = p->numel * at.parts;
    cfx__wire w = cfx__wire_of(p->whole);
    cfx__wire_field f;
    bool fits = true;
    while (fits && cfx__wire_next(&w, &f))
        if (f.number == at.field)
            fits = f.type == CFX__WIRE_BYTES ? put_packed(t, p, f.bytes, &i, limit)
                                             : f.type == at.type && put(t, p, &i, limit, f.value);
    if (!fits || i != limit) {
        cfx__onnx_bad(r, "tensor '%s' has %s numbers than its shape %s needs", p->name,
                      fits ? "less" : "more or other", cfx__shape_text(p->ndim, p->shape));
        return &cfx__tensor_bad;
    }
    settle_bools(t);
    return t;
}

cfx_tensor *cfx__onnx_tensor(cfx__onnx_reader *r, cfx__slice message, const char *name) {
    proto p = {.name = name};
    if (!read_proto(r, message, &p))
        return &cfx__tensor_bad;
    if (p.external)
        return from_beside(r, &p);
    if (!p.raw)
        return from_lists(r, &p);
    if ((uint64_t)bytes_of(&p) != p.bytes.len) {
        cfx__onnx_bad(r, "tensor '%s' has %zu bytes, its shape %s of %s needs %lld", name,
                      p.bytes.len, cfx__shape_text(p.ndim, p.shape), p.type->name,
                      (long long)bytes_of(&p));
        return &cfx__tensor_bad;
    }
    return from_bytes(&p, p.bytes.at, NULL);
}

/* ---- sparse ones ----------------------------------------------------------------------------- */

/* The place of value k in a dense tensor, by a place each or by one for each dimension; -1 where it
 * is outside. */
static int64_t place_at(const cfx_tensor *to, const cfx_tensor *at, int64_t k) {
    int64_t sum = 0;
    if (at->ndim == 1) {
        sum = cfx_integer(cfx__tensor_get(at, k));
        return sum >= 0 && sum < to->numel ? sum : -1;
    }
    for (int i = 0; i < to->ndim; i++) {
        int64_t v = cfx_integer(cfx__tensor_get(at, k * to->ndim + i));
        if (v < 0 || v >= to->shape[i])
            return -1;
        sum = sum * to->shape[i] + v;
    }
    return sum;
}

cfx_tensor *cfx__onnx_sparse(cfx__onnx_reader *r, cfx__slice message, const char *name) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    cfx_tensor *values = NULL, *at = NULL;
    proto p = {.name = name};
    bool fine = true;
    while (fine && cfx__wire_next(&w, &f)) {
        if (f.number == 1)
            values = cfx__onnx_tensor(r, cfx__wire_bytes(&w, &f), name);
        else if (f.number == 2)
            at = cfx__onnx_tensor(r, cfx__wire_bytes(&w, &f), name);
        else if (f.number == 3)
            fine = read_dims(r, &w, &f, &p);
        fine = fine && cfx_ok();
    }
    if (!fine)
        return &cfx__tensor_bad;
    bool fits = !w.broken && values && at && at->dtype == CFX_I64 && values->ndim == 1 &&
                (at->ndim == 1 || (at->ndim == 2 && at->shape[1] == p.ndim)) &&
                at->shape[0] == values->numel;
    cfx_tensor *t = fits ? cfx__tensor_empty((cfx_site){0}, (cfx_dtype)values->dtype, false, p.ndim,
                                             p.shape, NULL)
                         : &cfx__tensor_bad;
    if (fits && cfx__obj_is_bad(t))
        return t;
    if (fits)
        cfx__tensor_fill(t, cfx_int(0));
    for (int64_t k = 0; fits && k < values->numel; k++) {
        int64_t to = place_at(t, at, k);
        fits = to >= 0;
        if (fits)
            cfx__tensor_set(t, to, cfx__tensor_get(values, k));
    }
    if (fits)
        return t;
    cfx__onnx_bad(r, "the sparse tensor '%s' has places that do not fit its shape", name);
    return &cfx__tensor_bad;
}
