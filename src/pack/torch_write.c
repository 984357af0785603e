/* torch.save: values and tensors as a pickle in a zip archive, the numbers of each tensor beside
 * it. torch.load(weights_only=True) takes all of it. */
#include "pickle.h"

#include <cfx/pack.h>

typedef struct writer {
    cfx__text pickle;
    VEC(const cfx_tensor *) tensors; /* those in data/0, data/1, ...; borrowed */
} writer;

static bool put_value(writer *w, cfx_value v, int depth);

static void put_byte(writer *w, char c) { cfx__text_putc(&w->pickle, c); }

static void put_number(writer *w, uint64_t n, int bytes) {
    for (int i = 0; i < bytes; i++)
        put_byte(w, (char)(n >> (8 * i)));
}

static void put_text(writer *w, const char *text, size_t len) {
    put_byte(w, 'X');
    put_number(w, len, 4);
    cfx__text_add(&w->pickle, text, len);
}

static void put_words(writer *w, const char *text) { put_text(w, text, strlen(text)); }

static void put_global(writer *w, const char *module, const char *name) {
    cfx__text_printf(&w->pickle, "c%s\n%s\n", module, name);
}

static void put_int(writer *w, int64_t i) {
    if (i >= INT32_MIN && i <= INT32_MAX) {
        put_byte(w, 'J');
        put_number(w, (uint64_t)i, 4);
    } else {
        put_byte(w, (char)0x8a); /* LONG1 */
        put_byte(w, 8);
        put_number(w, (uint64_t)i, 8);
    }
}

static void put_float(writer *w, double f) {
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    put_byte(w, 'G');
    for (int i = 7; i >= 0; i--)
        put_byte(w, (char)(bits >> (8 * i)));
}

static void put_ints(writer *w, int n, const int64_t *ints) {
    put_byte(w, '(');
    for (int i = 0; i < n; i++)
        put_int(w, ints[i]);
    put_byte(w, 't');
}

/* NULL: dtypes of storages without a class, whose tensors say their dtype themselves. */
static const char *storage_class(cfx_dtype d) {
    static const char *const names[CFX_DTYPE_END] = {
        [CFX_F32] = "FloatStorage",        [CFX_F64] = "DoubleStorage",
        [CFX_F16] = "HalfStorage",         [CFX_BF16] = "BFloat16Storage",
        [CFX_I64] = "LongStorage",         [CFX_I32] = "IntStorage",
        [CFX_I16] = "ShortStorage",        [CFX_I8] = "CharStorage",
        [CFX_U8] = "ByteStorage",          [CFX_BOOL] = "BoolStorage",
        [CFX_C64] = "ComplexFloatStorage", [CFX_C128] = "ComplexDoubleStorage"};
    return names[d];
}

/* Tensors that look at the same numbers share a file. */
static size_t number_of(writer *w, const cfx_tensor *t) {
    for (size_t i = 0; i < w->tensors.len; i++) {
        const cfx_tensor *o = w->tensors.data[i];
        if (t->data && o->data == t->data && o->dtype == t->dtype && o->numel == t->numel &&
            cfx__tensor_is_contiguous(o) && cfx__tensor_is_contiguous(t))
            return i;
    }
    VEC_PUSH(w->tensors, t);
    return w->tensors.len - 1;
}

static bool put_tensor(writer *w, const cfx_tensor *t) {
    if (t->numel && !t->data) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "a tensor without data cannot be saved");
        return false;
    }
    int64_t stride[CFX_MAX_DIMS];
    cfx__strides_contiguous(t->ndim, t->shape, stride);
    const char *class = storage_class(t->dtype);
    put_global(w, "torch._utils", class ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    put_byte(w, '(');
    put_byte(w, '(');
    put_words(w, "storage");
    put_global(w, class ? "torch" : "torch.storage", class ? class : "UntypedStorage");
    put_words(w, cfx__text_format("%zu", number_of(w, t)));
    put_words(w, "cpu");
    put_int(w, class ? t->numel : t->numel * cfx_dtype_size(t->dtype));
    cfx__text_add(&w->pickle, "tQ", 2); /* a tuple, and what it names */
    put_int(w, 0);
    put_ints(w, t->ndim, t->shape);
    put_ints(w, t->ndim, stride);
    put_byte(w, (char)0x89); /* requires_grad=False, no hooks */
    put_global(w, "collections", "OrderedDict");
    cfx__text_add(&w->pickle, ")R", 2);
    if (!class)
        put_global(w, "torch", cfx_dtype_name(t->dtype));
    cfx__text_add(&w->pickle, "tR", 2);
    return true;
}

static bool put_items(writer *w, const cfx_list *l, int depth) {
    for (int64_t i = 0; i < l->len; i++)
        if (!put_value(w, l->items[i], depth))
            return false;
    return true;
}

static bool put_dict(writer *w, const cfx_dict *d, int depth) {
    cfx__text_add(&w->pickle, "}(", 2);
    for (int64_t i = 0; i < d->len; i++)
        if (!put_value(w, d->entries[i].key, depth) || !put_value(w, d->entries[i].value, depth))
            return false;
    put_byte(w, 'u');
    return true;
}

static bool put_value(writer *w, cfx_value v, int depth) {
    if (depth > CFX__PICKLE_DEPTH) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "values nested deeper than %d cannot be saved",
                 CFX__PICKLE_DEPTH);
        return false;
    }
    switch (v.tag) {
    case CFX_TAG_NONE:
        put_byte(w, 'N');
        return true;
    case CFX_TAG_BOOL:
        put_byte(w, (char)(cfx_integer(v) ? 0x88 : 0x89));
        return true;
    case CFX_TAG_INT:
        put_int(w, cfx_integer(v));
        return true;
    case CFX_TAG_FLOAT:
        put_float(w, cfx_number(v));
        return true;
    case CFX_TAG_STR:
        put_text(w, cfx_as_string(v)->text, cfx_as_string(v)->len);
        return true;
    case CFX_TAG_DTYPE:
        put_global(w, "torch", cfx_dtype_name((cfx_dtype)cfx_integer(v)));
        return true;
    case CFX_TAG_TENSOR:
        return put_tensor(w, cfx_as_tensor(v));
    case CFX_TAG_DICT:
        return put_dict(w, cfx_as_dict(v), depth + 1);
    case CFX_TAG_LIST:
        cfx__text_add(&w->pickle, "](", 2);
        if (!put_items(w, cfx_as_list(v), depth + 1))
            return false;
        put_byte(w, 'e');
        return true;
    case CFX_TAG_TUPLE:
        put_byte(w, '(');
        if (!put_items(w, cfx_as_list(v), depth + 1))
            return false;
        put_byte(w, 't');
        return true;
    default:
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "%s cannot be saved with torch.save",
                 cfx_value_type_name(v));
        return false;
    }
}

static bool put_archive(writer *w, FILE *file) {
    cfx__zip_writer zip = {.file = file};
    cfx__zip_add(&zip, "archive/data.pkl", w->pickle.data, w->pickle.len);
    cfx__zip_add(&zip, "archive/byteorder", "little", 6);
    for (size_t i = 0; i < w->tensors.len; i++) {
        size_t mark = cfx_scope_open();
        const cfx_tensor *t = cfx__tensor_contiguous(w->tensors.data[i]);
        if (cfx__obj_is_bad(t))
            zip.failed = true;
        else
            cfx__zip_add(&zip, cfx__text_format("archive/data/%zu", i), t->data ? t->data : "",
                         (size_t)t->numel * (size_t)cfx_dtype_size(t->dtype));
        cfx_scope_close(mark);
    }
    cfx__zip_add(&zip, "archive/version", "3\n", 2);
    return cfx__zip_finish(&zip);
}

/* How many bytes an archive has at most: what a zip file has around each entry, and the entries. */
static int64_t most_bytes(const writer *w) {
    enum { AROUND = 1024, OTHERS = 4 };
    int64_t n = (int64_t)w->pickle.len + AROUND * (OTHERS + (int64_t)w->tensors.len);
    for (size_t i = 0; i < w->tensors.len; i++)
        n += w->tensors.data[i]->numel * cfx_dtype_size(w->tensors.data[i]->dtype);
    return n;
}

cfx_value cfx__torch_bytes(cfx_value what) {
    writer w = {0};
    cfx__text_add(&w.pickle, "\x80\x02", 2);
    bool ok = put_value(&w, what, 0);
    put_byte(&w, '.');
    int64_t most = most_bytes(&w), len = 0;
    cfx_tensor *t = ok ? cfx__tensor_empty((cfx_site){0}, CFX_U8, false, 1, &most, NULL) : NULL;
    FILE *file = t && !cfx__obj_is_bad(t) ? fmemopen(t->data, (size_t)most, "wb") : NULL;
    if (file) {
        ok = put_archive(&w, file);
        len = ftell(file);
        ok = !fclose(file) && ok && len > 0 && len < most;
    }
    cfx__text_release(&w.pickle);
    VEC_FREE(w.tensors);
    return file && ok ? cfx_tensor_value(cfx__tensor_alias(t, 1, &len, (int64_t[]){1}, 0))
                      : cfx_none();
}

bool cfx_torch_save(const char *path, cfx_value what) {
    if (!path || cfx_is_bad(what)) {
        if (!path)
            cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "there is no path");
        return false;
    }
    size_t mark = cfx_scope_open();
    writer w = {0};
    cfx__file_save s;
    cfx__text_add(&w.pickle, "\x80\x02", 2); /* protocol 2 */
    bool ok = put_value(&w, what, 0);
    put_byte(&w, '.');
    if (!ok)
        cfx_error_note("cannot write '%s'", path);
    ok = ok && cfx__file_save_open(&s, path);
    if (ok) {
        ok = put_archive(&w, s.file);
        ok = cfx__file_save_close(&s, cfx_ok()) && ok; /* which tells what was not written */
    }
    cfx__text_release(&w.pickle);
    VEC_FREE(w.tensors);
    cfx_scope_close(mark);
    return ok;
}

cfx_value cfx_torch_load(const char *path) {
    if (!path) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "there is no path");
        return cfx_bad();
    }
    size_t mark = cfx_scope_open();
    cfx__file_mapping *map = cfx__file_map(path);
    cfx_value v = cfx_bad();
    if (map && !map->size)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' cannot be read: it is an empty file", path);
    else if (map)
        v = cfx__pickle_load(cfx__text_format("'%s'", path),
                             (cfx__pack_bytes){map->data, map->size, map});
    if (map)
        cfx_drop(map); /* tensors that look into it have it kept */
    return cfx_scope_return_value(mark, v);
}
