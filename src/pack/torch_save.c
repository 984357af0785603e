/* Files of torch.save: a zip archive with one folder, the pickle data.pkl in it, and the storages
 * that its tensors are views on in data/. */
#include "pickle.h"

typedef struct torch_file {
    const char *what;
    cfx__zip zip;
    const char *root; /* "archive/"; scope */
    cfx_dict *bases;  /* see cfx__pack_base */
} torch_file;

static bool proper_bools(const char *data, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (data[i] & ~1)
            return false;
    return true;
}

cfx_tensor *cfx__pack_bytes_tensor(cfx__pack_bytes b, cfx_dtype dtype) {
    size_t size = (size_t)cfx_dtype_size(dtype);
    int64_t n = (int64_t)(b.size / size);
    uintptr_t align = cfx__dtype_is_complex(dtype) ? size / 2 : size;
    bool whole = dtype != CFX_BOOL || proper_bools(b.data, b.size);
    if (n && whole && (uintptr_t)b.data % align == 0)
        return cfx_tensor_borrow(dtype, 1, &n, b.data, cfx_drop, cfx_keep_obj(b.owner));
    cfx_tensor *t = cfx_tensor_new(dtype, 1, &n, b.data);
    for (int64_t i = 0; !whole && !cfx__obj_is_bad(t) && i < n; i++)
        t->data[i] = t->data[i] != 0; /* bytes other than 0 and 1 are no bools in C */
    return t;
}

cfx_tensor *cfx__pack_base(cfx_dict *bases, cfx__zip *zip, cfx__zip_entry *e, cfx_dtype dtype) {
    cfx_value key = cfx_tuple(e->name, cfx_dtype_value(dtype));
    const cfx_value *known = cfx_dict_find(bases, key);
    cfx_value first = cfx_dict_get(bases, e->name);
    cfx__pack_bytes b;
    if (known)
        return cfx_as_tensor(*known);
    if (!cfx__zip_read(zip, e, false, &b))
        return NULL;
    cfx_tensor *t = cfx__pack_bytes_tensor(b, dtype);
    if (cfx__obj_is_bad(t))
        return NULL;
    if (cfx_is_none(first))
        cfx_dict_set(bases, e->name, cfx_tensor_value(t));
    else /* neither hears of what is written to the other */
        t->storage->foreign = cfx_as_tensor(first)->storage->foreign = true;
    cfx_dict_put(bases, key, cfx_tensor_value(t));
    return t;
}

static cfx_tensor *storage(void *user, const char *key, cfx_dtype dtype) {
    torch_file *f = user;
    cfx__zip_entry *e = cfx__zip_find(&f->zip, cfx__text_format("%sdata/%s", f->root, key));
    return e ? cfx__pack_base(f->bases, &f->zip, e, dtype) : NULL;
}

/* The entry data.pkl in whichever folder it is; sets the root. */
static cfx__zip_entry *find_pickle(torch_file *f) {
    for (size_t i = 0; i < f->zip.entries.len; i++) {
        cfx__zip_entry *e = &f->zip.entries.data[i];
        const char *slash = strchr(e->name, '/');
        if (!slash || strcmp(slash, "/data.pkl"))
            continue;
        f->root = cfx__string_new(e->name, (size_t)(slash + 1 - e->name))->text;
        return e;
    }
    return NULL;
}

static cfx_value fail(const torch_file *f, const char *why) {
    cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "%s cannot be read: %s", f->what, why);
    return cfx_bad();
}

static cfx_value load(torch_file *f) {
    cfx__zip_entry *e = find_pickle(f), *order;
    cfx__pack_bytes b;
    if (!e)
        return fail(f, "it has no data.pkl");
    order = cfx__zip_find(&f->zip, cfx__text_format("%sbyteorder", f->root));
    if (order && (!cfx__zip_read(&f->zip, order, false, &b) || b.size != 6 ||
                  memcmp(b.data, "little", 6)))
        return fail(f, "its numbers are not in little-endian order");
    if (!cfx__zip_read(&f->zip, e, false, &b))
        return cfx_bad();
    return cfx__pickle_read(f->what, b.data, b.size, storage, f);
}

cfx_value cfx__pickle_load(const char *what, cfx__pack_bytes b) {
    if (!b.size)
        return cfx_none();
    size_t mark = cfx_scope_open();
    torch_file f = {.what = what, .bases = cfx_dict_new()};
    cfx_value v;
    if (cfx__pickle_is_old(b.data, b.size))
        v = cfx__pickle_load_old(what, b);
    else if (!cfx__zip_is(b.data, b.size))
        v = fail(&f, cfx__pack_kind(b.data, b.size)
                         ? cfx__text_format("it is not a file of torch.save but %s",
                                            cfx__pack_kind(b.data, b.size))
                         : "it is not a file of torch.save");
    else
        v = cfx__zip_open(&f.zip, what, b) ? load(&f) : cfx_bad();
    cfx__zip_close(&f.zip);
    return cfx_scope_return_value(mark, v);
}
