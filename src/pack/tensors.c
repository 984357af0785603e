/* Files of tensors, whatever they are: .safetensors, NumPy's .npy and .npz, what torch.save wrote,
 * and single tensors of ONNX. Which one is said by what is in it, of ONNX's by their name alone.
 * Start at cfx_tensors_read. */
#include <cfx/pack.h>

#include "../onnx/onnx.h"
#include "../tensor/npy.h"
#include "pickle.h"

typedef enum kind { UNKNOWN, SAFETENSORS, NPY, NPZ, TORCH, ONNX } kind;

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

/* What an archive holds: arrays, or a pickle in its folder beside no code. */
static kind kind_of_zip(const cfx__zip *z) {
    kind found = UNKNOWN;
    for (size_t i = 0; i < z->entries.len; i++) {
        const char *name = z->entries.data[i].name, *slash = strchr(name, '/');
        if (ends_with(name, ".npy"))
            return NPZ;
        if (slash && !strcmp(slash, "/constants.pkl")) /* of TorchScript */
            return UNKNOWN;
        if (slash && !strcmp(slash, "/data.pkl"))
            found = TORCH;
    }
    return z->entries.len ? found : NPZ;
}

/* Quietly: what cannot be read is of no kind. */
static kind kind_of(const cfx__file_mapping *m) {
    if (cfx__npy_is(m->data, m->size))
        return NPY;
    if (m->size > 9 && m->data[8] == '{' && !m->data[7])
        return SAFETENSORS;
    if (cfx__pickle_is_old(m->data, m->size))
        return TORCH;
    if (!cfx__zip_is(m->data, m->size))
        return UNKNOWN;
    size_t mark = cfx_scope_open();
    cfx__zip z = {0};
    kind k = cfx__zip_open(&z, "it", (cfx__pack_bytes){m->data, m->size, (void *)m})
                 ? kind_of_zip(&z)
                 : UNKNOWN;
    cfx__error_forgive();
    cfx__zip_close(&z);
    cfx_scope_close(mark);
    return k;
}

/* What a damaged file should be: whose reader says what is wrong with it. */
static kind kind_named(const char *path) {
    return ends_with(path, ".safetensors")                        ? SAFETENSORS
           : ends_with(path, ".npy")                              ? NPY
           : ends_with(path, ".npz")                              ? NPZ
           : ends_with(path, ".pb")                               ? ONNX
           : ends_with(path, ".pt") || ends_with(path, ".pth") ? TORCH
                                                                  : UNKNOWN;
}

/* ---- .npz ------------------------------------------------------------------------------------ */

static void read_arrays(cfx__zip *z, const char *path, cfx_dict *out) {
    for (size_t i = 0; i < z->entries.len && cfx_ok(); i++) {
        cfx__zip_entry *e = &z->entries.data[i];
        cfx__pack_bytes b;
        if (!ends_with(e->name, ".npy") || !cfx__zip_read(z, e, true, &b))
            continue;
        cfx_tensor *t = cfx__npy_load(cfx__text_format("%s/%s", path, e->name), b.data, b.size);
        cfx_dict_put(out, cfx_string_value_n(e->name, strlen(e->name) - strlen(".npy")),
                     cfx_tensor_value(t));
    }
}

static void read_npz(const char *path, const cfx__file_mapping *m, cfx_dict *out) {
    cfx__zip z = {0};
    const char *what = cfx__text_format("'%s'", path);
    if (cfx__zip_open(&z, what, (cfx__pack_bytes){m->data, m->size, (void *)m}))
        read_arrays(&z, path, out);
    cfx__zip_close(&z);
}

/* ---- trees ----------------------------------------------------------------------------------- */

static void put(const char *path, cfx_dict *out, const cfx__text *name, cfx_value t) {
    cfx_value key = cfx_string_value_n(name->data, name->len);
    if (cfx_dict_find(out, key))
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' has two tensors called '%s'", path,
                 cfx_text(key));
    cfx_dict_put(out, key, t);
}

/* The tensors in v, under the name so far. */
static void gather(const char *path, cfx_value v, cfx__text *name, cfx_dict *out) {
    size_t len = name->len;
    bool list = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    if (cfx_is_number(v))
        v = cfx_tensor_value(cfx_tensor_from_value(v));
    if (v.tag == CFX_TAG_TENSOR)
        put(path, out, name, v);
    for (int64_t i = 0; list && i < cfx_as_list(v)->len && cfx_ok(); i++) {
        cfx__text_printf(name, "%s%lld", len ? "." : "", (long long)i);
        gather(path, cfx_as_list(v)->items[i], name, out);
        name->len = len;
    }
    for (int64_t i = 0; v.tag == CFX_TAG_DICT && i < cfx_as_dict(v)->len && cfx_ok(); i++) {
        cfx__text_printf(name, "%s%s", len ? "." : "",
                         cfx_value_str(cfx_as_dict(v)->entries[i].key));
        gather(path, cfx_as_dict(v)->entries[i].value, name, out);
        name->len = len;
    }
}

static void read_torch(const char *path, cfx_dict *out) {
    cfx_value v = cfx_torch_load(path);
    cfx__text name = {0};
    if (v.tag == CFX_TAG_TENSOR || cfx_is_number(v))
        v = cfx_tuple(v);
    if (cfx_ok())
        gather(path, v, &name, out);
    cfx__text_release(&name);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void fail_unknown(const char *path, const cfx__file_mapping *m) {
    const char *other = cfx__pack_kind(m->data, m->size);
    cfx_fail(CFX_FILE_ERROR, (cfx_site){0},
             "'%s' is no file of tensors (.safetensors, .npy, .npz, .pt or .pb)%s%s", path,
             other ? " but " : "", other ? other : "");
}

cfx_dict *cfx_tensors_read(const char *path) {
    size_t mark = cfx_scope_open();
    cfx_dict *out = cfx_dict_new();
    cfx__file_mapping *m = cfx__file_map(path);
    kind k = m ? kind_of(m) : UNKNOWN;
    if (m && k == UNKNOWN)
        k = kind_named(path);
    if (k == SAFETENSORS)
        out = cfx_safetensors_read(path);
    else if (k == NPY)
        cfx_dict_set(out, "0", cfx_tensor_value(cfx__npy_load(path, m->data, m->size)));
    else if (k == NPZ)
        read_npz(path, m, out);
    else if (k == TORCH)
        read_torch(path, out);
    else if (k == ONNX)
        cfx_dict_set(out, "0", cfx__onnx_sample(path, CFX__ONNX_IS_TENSOR));
    else if (m)
        fail_unknown(path, m);
    if (m)
        cfx_drop(m);
    if (!cfx_ok()) {
        cfx_scope_close(mark);
        return NULL;
    }
    return cfx_scope_return(mark, out);
}

bool cfx_tensors_are_in(const char *path) {
    if (!cfx_ok())
        return false;
    cfx__file_mapping *m = cfx__file_map(path);
    kind k = m ? kind_of(m) : UNKNOWN, named = m ? kind_named(path) : UNKNOWN;
    bool known = k != UNKNOWN || (named != UNKNOWN && named != TORCH); /* programs are .pt too */
    cfx__error_forgive();
    if (m)
        cfx_drop(m);
    return known;
}
