/* Checkpoints: dicts, lists, numbers, words and tensors in one .safetensors file. Tensors lie there
 * under their paths ("model.fc.weight"); the rest is a Python literal in the file's metadata, in
 * which "{path}" stands for a tensor. Other readers of the format see plain tensors. */
#include <cfx/optim.h>

#include "../tensor/tensor.h"

static const char key[] = "cfx.tree";

/* v with its tensors put into `tensors` by path; scope. */
static cfx_value take_out(cfx_value v, cfx__text *path, cfx_dict *tensors) {
    size_t len = path->len;
    if (v.tag == CFX_TAG_TENSOR) {
        cfx_dict_set(tensors, path->data, v);
        return cfx_string_value(cfx__text_format("{%s}", path->data));
    }
    if (v.tag == CFX_TAG_DICT) {
        cfx_dict *d = cfx_dict_new();
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++) {
            cfx__text_printf(path, "%s%s", len ? "." : "",
                             cfx_value_str(cfx_as_dict(v)->entries[i].key));
            cfx_dict_put(d, cfx_as_dict(v)->entries[i].key,
                         take_out(cfx_as_dict(v)->entries[i].value, path, tensors));
            path->len = len;
        }
        return cfx_dict_value(d);
    }
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++) {
        cfx__text_printf(path, "%s%lld", len ? "." : "", (long long)i);
        cfx_list_append(cfx_as_list(out), take_out(cfx_as_list(v)->items[i], path, tensors));
        path->len = len;
    }
    return out;
}

bool cfx_checkpoint_write(const char *file, cfx_value what) {
    size_t mark = cfx_scope_open();
    cfx_dict *tensors = cfx_dict_new(), *about = cfx_dict_new();
    cfx__text path = {0};
    cfx__text_puts(&path, "");
    cfx_value tree = take_out(what, &path, tensors);
    cfx_dict_set(about, key, cfx_string_value(cfx_value_repr(tree)));
    cfx__text_release(&path);
    bool good = cfx_ok() && cfx_safetensors_write(file, tensors, about);
    cfx_scope_close(mark);
    return good;
}

/* The tree with its tensors in their places again. */
static cfx_value put_back(cfx_value v, const cfx_dict *tensors) {
    const char *text = cfx_text(v);
    size_t n = text ? strlen(text) : 0;
    if (n > 2 && *text == '{' && text[n - 1] == '}') {
        const cfx_value *t = cfx_dict_find(tensors, cfx_string_value_n(text + 1, n - 2));
        return t ? *t : v;
    }
    if (v.tag == CFX_TAG_DICT) {
        cfx_dict *d = cfx_dict_new();
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++)
            cfx_dict_put(d, cfx_as_dict(v)->entries[i].key,
                         put_back(cfx_as_dict(v)->entries[i].value, tensors));
        return cfx_dict_value(d);
    }
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), put_back(cfx_as_list(v)->items[i], tensors));
    return out;
}

cfx_value cfx_checkpoint_read(const char *file) {
    size_t mark = cfx_scope_open();
    cfx_dict *tensors = cfx_safetensors_read(file);
    cfx_dict *about = cfx_ok() ? cfx_safetensors_metadata(file) : NULL;
    const char *text = cfx_text(about ? cfx_dict_get(about, key) : cfx_none());
    cfx_value tree = cfx_none();
    if (!tensors || !cfx_ok())
        return cfx_scope_return_value(mark, cfx_bad());
    if (!text || !cfx__value_literal(&text, &tree) || *text) {
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' is no checkpoint that cfx wrote", file);
        return cfx_scope_return_value(mark, cfx_bad());
    }
    return cfx_scope_return_value(mark, put_back(tree, tensors));
}
