/* Files that torch.save wrote before PyTorch 1.6: pickles in a row, then the bytes of storages.
 *
 *   a number that marks the file; the version of the format, 1001; a dict, with little_endian
 *   the value, whose tensors name storages
 *   the list of their names; for each, in order, how many numbers it has, and these
 *
 * A storage has no dtype of its own: what names it has. So the value is gone through twice: for the
 * dtypes, with which the storages are found, and for the tensors. */
#include "pickle.h"

static const char head[] = "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\2M\xe9\3.";

typedef struct old_file {
    const char *what;
    cfx__pack_bytes bytes;
    cfx_dict *dtypes; /* of storages, by name */
    cfx_dict *bases;  /* the storages, by name: flat tensors */
} old_file;

bool cfx__pickle_is_old(const char *data, size_t size) {
    return size >= sizeof head - 1 && !memcmp(data, head, sizeof head - 1);
}

static cfx_value fail(const old_file *f, const char *why) {
    if (cfx_ok())
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "%s cannot be read: %s", f->what, why);
    return cfx_bad();
}

static cfx_tensor *note(void *user, const char *key, cfx_dtype dtype) {
    old_file *f = user;
    cfx_dict_set(f->dtypes, key, cfx_dtype_value(dtype));
    return NULL;
}

static cfx_tensor *storage(void *user, const char *key, cfx_dtype dtype) {
    old_file *f = user;
    cfx_value base = cfx_dict_get(f->bases, key);
    return base.tag == CFX_TAG_TENSOR && cfx_as_tensor(base)->dtype == dtype ? cfx_as_tensor(base)
                                                                             : NULL;
}

/* A pickle from `at` on, which goes behind it. */
static cfx_value part(old_file *f, size_t *at, cfx__pickle_storage_fn *asked, bool look) {
    size_t used = 0;
    cfx_value v = cfx__pickle_part(f->what, f->bytes.data + *at, f->bytes.size - *at, look, asked,
                                   f, &used);
    *at += used;
    return v;
}

/* The storages from `at` on. */
static bool find_storages(old_file *f, cfx_value names, size_t at) {
    for (int64_t i = 0; i < cfx_as_list(names)->len; i++) {
        const char *key = cfx_text(cfx_as_list(names)->items[i]);
        cfx_value dtype = key ? cfx_dict_get(f->dtypes, key) : cfx_none();
        if (dtype.tag != CFX_TAG_DTYPE || f->bytes.size - at < 8)
            return false;
        uint64_t n = 0;
        for (int k = 0; k < 8; k++)
            n |= (uint64_t)(unsigned char)f->bytes.data[at + (size_t)k] << 8 * k;
        at += 8;
        const size_t each = (size_t)cfx_dtype_size(cfx_as_dtype(dtype));
        if (n > (f->bytes.size - at) / each)
            return false;
        cfx__pack_bytes b = f->bytes;
        b.data += at;
        b.size = (size_t)n * each;
        at += b.size;
        cfx_tensor *t = cfx__pack_bytes_tensor(b, cfx_as_dtype(dtype));
        if (cfx__obj_is_bad(t))
            return false;
        cfx_dict_set(f->bases, key, cfx_tensor_value(t));
    }
    return true;
}

cfx_value cfx__pickle_load_old(const char *what, cfx__pack_bytes b) {
    old_file f = {what, b, cfx_dict_new(), cfx_dict_new()};
    size_t at = sizeof head - 1;
    cfx_value about = part(&f, &at, NULL, false);
    if (cfx_is_bad(about))
        return about;
    cfx_value little = about.tag == CFX_TAG_DICT
                           ? cfx_dict_get(cfx_as_dict(about), "little_endian")
                           : cfx_none();
    if (little.tag != CFX_TAG_BOOL || !cfx_as_bool(little))
        return fail(&f, "its numbers are not in little-endian order");
    size_t value = at;
    if (cfx_is_bad(part(&f, &at, note, true)))
        return cfx_bad();
    cfx_value names = part(&f, &at, NULL, false);
    if (cfx_is_bad(names))
        return names;
    if (names.tag != CFX_TAG_LIST || !find_storages(&f, names, at))
        return fail(&f, "its storages are cut off, or not those that its tensors name");
    return part(&f, &value, storage, false);
}
