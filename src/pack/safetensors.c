/* The .safetensors format: the length of a header (8 bytes), the header (JSON: name to dtype, shape
 * and offsets), the data.
 *
 * Invariant: a tensor that was read reaches only bytes of its own entry. All tensors of a file
 * share one mapping, which goes with the last of them. */
#include "pt2.h"

#include "../tensor/tensor.h"
#include "../value/json.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files hold little-endian numbers");

enum { FRONT = 8, LARGEST_HEADER = 100000000 }; /* the limit every reader of the format has */

static const char *const names[CFX_DTYPE_END] = {
    [CFX_U8] = "U8",   [CFX_I8] = "I8",   [CFX_I16] = "I16",   [CFX_I32] = "I32",
    [CFX_I64] = "I64", [CFX_F16] = "F16", [CFX_F32] = "F32",   [CFX_F64] = "F64",
    [CFX_C64] = "C64", [CFX_BOOL] = "BOOL", [CFX_BF16] = "BF16",
    [CFX_U16] = "U16", [CFX_U32] = "U32", [CFX_U64] = "U64",
    [CFX_F8E4M3FN] = "F8_E4M3", [CFX_F8E5M2] = "F8_E5M2", [CFX_F8E8M0FNU] = "F8_E8M0",
    [CFX_F8E4M3FNUZ] = "F8_E4M3FNUZ", [CFX_F8E5M2FNUZ] = "F8_E5M2FNUZ",
};

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct entry {
    const cfx_string *name;
    cfx_dtype dtype;
    int ndim;
    int64_t shape[CFX_MAX_DIMS];
    int64_t begin, end; /* in the data */
} entry;

typedef struct source {
    const char *path;
    cfx__file_mapping *map;
    char *data;
    int64_t size; /* of the data */
    VEC(entry *) entries; /* of the file, by insertion */
} source;

CFX_PRINTF(2, 3) static bool bad(const source *s, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *before =
        cfx__text_format("'%s' is not a .safetensors file that can be read: ", s->path);
    cfx__fail_list(CFX_FILE_ERROR, (cfx_site){0}, before, fmt, ap);
    va_end(ap);
    return false;
}

static bool read_dtype(const source *s, entry *e, cfx_value v) {
    const char *text = cfx_text(v);
    for (int d = 0; text && d < CFX_DTYPE_COUNT; d++)
        if (names[d] && !strcmp(names[d], text)) {
            e->dtype = (cfx_dtype)d;
            return true;
        }
    return bad(s, "tensor '%s' has the dtype %s, which is not supported", e->name->text,
               text ? text : "of no name");
}

/* Sizes, and their product, which is checked against the bytes that the entry has. */
static bool read_shape(const source *s, entry *e, cfx_value shape) {
    int64_t bytes = cfx_dtype_size(e->dtype);
    bool empty = false, absurd = false;
    if (shape.tag != CFX_TAG_LIST || cfx_as_list(shape)->len > CFX_MAX_DIMS)
        return bad(s, "tensor '%s' has no shape of at most %d sizes", e->name->text, CFX_MAX_DIMS);
    for (int64_t i = 0; i < cfx_as_list(shape)->len; i++) {
        cfx_value size = cfx_as_list(shape)->items[i];
        if (size.tag != CFX_TAG_INT || cfx_integer(size) < 0)
            return bad(s, "tensor '%s' has a size that is no number >= 0", e->name->text);
        e->shape[e->ndim++] = cfx_integer(size);
        empty |= cfx_integer(size) == 0;
        absurd |= __builtin_mul_overflow(bytes, cfx_integer(size) ? cfx_integer(size) : 1, &bytes);
    }
    if (absurd || (empty ? 0 : bytes) != e->end - e->begin)
        return bad(s, "tensor '%s' has %lld bytes, which is not what its shape and dtype need",
                   e->name->text, (long long)(e->end - e->begin));
    return true;
}

static bool read_offsets(const source *s, entry *e, cfx_value v) {
    if (v.tag != CFX_TAG_LIST || cfx_as_list(v)->len != 2 ||
        cfx_as_list(v)->items[0].tag != CFX_TAG_INT || cfx_as_list(v)->items[1].tag != CFX_TAG_INT)
        return bad(s, "tensor '%s' has no pair of data_offsets", e->name->text);
    e->begin = cfx_integer(cfx_as_list(v)->items[0]);
    e->end = cfx_integer(cfx_as_list(v)->items[1]);
    if (e->begin < 0 || e->begin > e->end || e->end > s->size)
        return bad(s, "tensor '%s' lies at [%lld, %lld], outside of the %lld bytes of data",
                   e->name->text, (long long)e->begin, (long long)e->end, (long long)s->size);
    return true;
}

static int by_begin(const void *a, const void *b) {
    const entry *x = *(entry *const *)a, *y = *(entry *const *)b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end); /* empty ones first */
}

/* Tensors that share bytes would change each other. */
static bool no_overlap(const source *s) {
    size_t n = s->entries.len;
    if (n < 2)
        return true;
    entry **sorted = cfx__alloc(n * sizeof *sorted);
    memcpy(sorted, s->entries.data, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_begin);
    bool apart = true;
    for (size_t i = 1; i < n && apart; i++)
        if (sorted[i]->begin < sorted[i - 1]->end)
            apart = bad(s, "tensors '%s' and '%s' overlap", sorted[i - 1]->name->text,
                        sorted[i]->name->text);
    cfx__free(sorted);
    return apart;
}

static bool read_entries(source *s, cfx_value header) {
    if (header.tag != CFX_TAG_DICT)
        return bad(s, "its header is no JSON object");
    for (int64_t i = 0; i < cfx_as_dict(header)->len; i++) {
        cfx_value key = cfx_as_dict(header)->entries[i].key,
                  v = cfx_as_dict(header)->entries[i].value;
        if (!strcmp(cfx_as_string(key)->text, "__metadata__"))
            continue;
        entry *e = cfx__alloc0(sizeof *e);
        e->name = cfx_as_string(key);
        VEC_PUSH(s->entries, e);
        if (strlen(cfx_as_string(key)->text) != cfx_as_string(key)->len)
            return bad(s, "a name of a tensor has a zero byte in it");
        if (v.tag != CFX_TAG_DICT)
            return bad(s, "the entry of tensor '%s' is no JSON object", e->name->text);
        if (!read_dtype(s, e, cfx_dict_get(cfx_as_dict(v), "dtype")) ||
            !read_offsets(s, e, cfx_dict_get(cfx_as_dict(v), "data_offsets")) ||
            !read_shape(s, e, cfx_dict_get(cfx_as_dict(v), "shape")))
            return false;
    }
    return no_overlap(s);
}

/* Bytes other than 0 and 1 are no bools in C. */
static bool proper_bools(const char *data, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (data[i] & ~1)
            return false;
    return true;
}

static cfx_tensor *make_tensor(const source *s, const entry *e) {
    char *data = s->data + e->begin;
    const uintptr_t align = sizeof(int64_t); /* of the widest elements that they may be viewed as */
    bool whole = e->dtype != CFX_BOOL || proper_bools(data, e->end - e->begin);
    if (e->begin < e->end && whole && (uintptr_t)data % align == 0)
        return cfx_tensor_borrow(e->dtype, e->ndim, e->shape, data, cfx_drop, cfx_keep(s->map));
    cfx_tensor *t = cfx_tensor_new(e->dtype, e->ndim, e->shape, data);
    for (int64_t i = 0; !whole && !cfx__obj_is_bad(t) && i < t->numel; i++)
        t->data[i] = t->data[i] != 0;
    return t;
}

/* The header as a value; scope. Bad, with an error. */
static cfx_value read_header(source *s) {
    uint64_t len;
    if (s->map->size < FRONT) {
        bad(s, "it is too short");
        return cfx_bad();
    }
    memcpy(&len, s->map->data, FRONT);
    const char *kind = cfx__pack_kind(s->map->data, s->map->size);
    if (kind && len > LARGEST_HEADER) {
        bad(s, "it is %s, not a .safetensors file", kind);
        return cfx_bad();
    }
    if (len > LARGEST_HEADER) {
        bad(s, "its header of %llu bytes is larger than %d", (unsigned long long)len,
            LARGEST_HEADER);
        return cfx_bad();
    }
    if (len > s->map->size - FRONT) {
        bad(s, "its header is cut off: %llu bytes are needed, %zu are there",
            (unsigned long long)len, s->map->size - FRONT);
        return cfx_bad();
    }
    s->data = s->map->data + FRONT + len;
    s->size = (int64_t)(s->map->size - FRONT - len);
    return cfx__json_parse(s->map->data + FRONT, len,
                           cfx__text_format("the header of '%s'", s->path));
}

static bool read_file(source *s, cfx_dict *into) {
    cfx_value header = read_header(s);
    if (cfx_is_bad(header) || !read_entries(s, header))
        return false;
    for (size_t i = 0; i < s->entries.len; i++) {
        size_t mark = cfx_scope_open();
        cfx_tensor *t = make_tensor(s, s->entries.data[i]);
        cfx_dict_set(into, s->entries.data[i]->name->text, cfx_tensor_value(t));
        cfx_scope_close(mark);
    }
    return cfx_ok();
}

cfx_dict *cfx_safetensors_read(const char *path) {
    source s = {.path = path, .map = cfx__file_map(path)};
    if (!s.map)
        return NULL;
    cfx_dict *tensors = cfx_dict_new();
    size_t mark = cfx_scope_open();
    bool ok = read_file(&s, tensors);
    cfx_scope_close(mark);
    for (size_t i = 0; i < s.entries.len; i++)
        cfx__free(s.entries.data[i]);
    VEC_FREE(s.entries);
    cfx_drop(s.map);
    return ok ? tensors : NULL;
}

cfx_dict *cfx_safetensors_metadata(const char *path) {
    source s = {.path = path, .map = cfx__file_map(path)};
    if (!s.map)
        return NULL;
    size_t mark = cfx_scope_open();
    cfx_value header = read_header(&s), none = cfx_dict_value(cfx_dict_new());
    cfx_value found =
        header.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(header), "__metadata__") : none;
    cfx_drop(s.map);
    found = cfx_scope_return_value(mark, found.tag == CFX_TAG_DICT ? found : none);
    return cfx_is_bad(header) ? NULL : cfx_as_dict(found);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Data is laid out from wide elements to narrow ones, so that each is aligned without gaps (which
 * the format does not allow); the header keeps the order of the dict. `order` gets the tensors as
 * they lie, `begin` the offset of each. */
static void lay_out(const cfx_dict *tensors, int64_t *order, int64_t *begin) {
    int64_t at = 0, n = 0;
    for (int width = 8; width; width /= 2)
        for (int64_t i = 0; i < tensors->len; i++) {
            const cfx_tensor *t = cfx_as_tensor(tensors->entries[i].value);
            if (cfx_dtype_size(t->dtype) != width)
                continue;
            order[n++] = i;
            begin[i] = at;
            at += t->numel * width;
        }
}

static bool check(const char *path, const cfx_dict *tensors) {
    if (!tensors) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "there are no tensors to write to '%s'", path);
        return false;
    }
    for (int64_t i = 0; i < tensors->len; i++) {
        cfx_value key = tensors->entries[i].key, v = tensors->entries[i].value;
        const char *name = cfx_text(key) ? cfx_text(key) : "?";
        const char *why = key.tag != CFX_TAG_STR            ? "its name is no str"
                          : !strcmp(name, "__metadata__")   ? "its name is reserved"
                          : v.tag != CFX_TAG_TENSOR         ? "it is no tensor"
                          : !names[cfx_as_tensor(v)->dtype] ? "the format lacks its dtype"
                          : !cfx_as_tensor(v)->data && cfx_as_tensor(v)->numel > 0
                              ? "it has no data"
                              : NULL;
        if (why) {
            cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "cannot write '%s' to '%s': %s", name, path,
                     why);
            return false;
        }
    }
    return true;
}

static bool put_header(cfx__text *out, const cfx_dict *tensors, const cfx_dict *metadata,
                       const int64_t *begin) {
    cfx__text_putc(out, '{');
    if (metadata && metadata->len) {
        cfx__text_puts(out, "\"__metadata__\":");
        for (int64_t i = 0; i < metadata->len; i++)
            if (metadata->entries[i].value.tag != CFX_TAG_STR) {
                cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                         "metadata of a .safetensors file must be str to str");
                return false;
            }
        if (!cfx__json_value(out, cfx_dict_value((cfx_dict *)metadata)))
            return false;
    }
    for (int64_t i = 0; i < tensors->len; i++) {
        const cfx_string *name = cfx_as_string(tensors->entries[i].key);
        const cfx_tensor *t = cfx_as_tensor(tensors->entries[i].value);
        int64_t bytes = t->numel * cfx_dtype_size(t->dtype);
        if (out->data[out->len - 1] != '{')
            cfx__text_putc(out, ',');
        cfx__json_string(out, name->text, name->len);
        cfx__text_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", names[t->dtype]);
        for (int d = 0; d < t->ndim; d++)
            cfx__text_printf(out, d ? ",%lld" : "%lld", (long long)t->shape[d]);
        cfx__text_printf(out, "],\"data_offsets\":[%lld,%lld]}", (long long)begin[i],
                         (long long)(begin[i] + bytes));
    }
    cfx__text_putc(out, '}');
    for (size_t i = out->len; i % FRONT; i++)
        cfx__text_putc(out, ' ');
    return true;
}

static void put_tensor(FILE *file, const cfx_tensor *t) {
    size_t mark = cfx_scope_open();
    const cfx_tensor *c = cfx__tensor_contiguous(t);
    if (!cfx__obj_is_bad(c) && t->numel)
        fwrite(c->data, (size_t)cfx_dtype_size(t->dtype), (size_t)t->numel, file);
    cfx_scope_close(mark);
}

bool cfx__safetensors_put(cfx__file_save *s, const char *path, const cfx__file_save *first,
                          const cfx_dict *tensors, const cfx_dict *metadata) {
    if (!check(path ? path : "(null)", tensors))
        return false;
    size_t n = (size_t)tensors->len;
    int64_t *order = cfx__alloc0((2 * n + 1) * sizeof *order), *begin = order + n;
    lay_out(tensors, order, begin);
    cfx__text header = {0};
    bool ok = put_header(&header, tensors, metadata, begin) &&
              (first ? cfx__file_save_open_with(s, path, first) : cfx__file_save_open(s, path));
    if (ok) {
        uint64_t len = header.len;
        fwrite(&len, 1, FRONT, s->file);
        fwrite(header.data, 1, header.len, s->file);
        for (size_t i = 0; i < n && !ferror(s->file); i++)
            put_tensor(s->file, cfx_as_tensor(tensors->entries[order[i]].value));
    }
    cfx__text_release(&header);
    cfx__free(order);
    return ok;
}

bool cfx_safetensors_write(const char *path, const cfx_dict *tensors, const cfx_dict *metadata) {
    cfx__file_save s;
    return cfx__safetensors_put(&s, path, NULL, tensors, metadata) &&
           cfx__file_save_close(&s, true);
}
