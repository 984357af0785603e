/* What guards speak of: the inputs of a program. Start at cfx__guard_source. */
#include "graph.h"

/* Whether a placeholder is called after a path of keys: L['batch']['a.b'][0] is batch_a_b_0, as the
 * exporter spells it. */
static bool is_called(const char *name, const char *path, const char *end) {
    bool word = false; /* a key began */
    for (const char *c = path; c < end; c++) {
        bool part = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                    (*c >= '0' && *c <= '9');
        bool inside = part || (word && *c != '\'' && *c != '"' && *c != ']' && *c != '[');
        if (inside) {
            char want = part ? *c : '_', got = *name;
            if (got != want && (want < 'A' || want > 'Z' || got != want - 'A' + 'a'))
                return false;
            name++;
            word = true;
        } else if (word && *c == '[') {
            if (*name++ != '_')
                return false;
        }
    }
    return word && *name == 0;
}

bool cfx__guard_source(const char *source, size_t len, void *inputs_by_name, int64_t *out) {
    const cfx_dict *inputs = inputs_by_name;
    const char *end = source + len, *property = memchr(source, '(', len);
    while (property && *property != '.')
        property--;
    cfx_value v = cfx_none();
    for (int64_t i = 0; i < inputs->len && cfx_is_none(v); i++)
        if (is_called(cfx_text(inputs->entries[i].key), source + 1, property ? property : end))
            v = inputs->entries[i].value;
    if (!property && v.tag == CFX_TAG_INT)
        *out = cfx_integer(v);
    if (!property || v.tag != CFX_TAG_TENSOR)
        return !property && v.tag == CFX_TAG_INT;
    const cfx_tensor *t = cfx_as_tensor(v);
    const char *index = memchr(property, '[', (size_t)(end - property));
    int64_t i = index ? strtoll(index + 1, NULL, 10) : -1;
    bool size = !strncmp(property, ".size", 5), stride = !strncmp(property, ".stride", 7);
    bool fits = index ? (size || stride) && i >= 0 && i < t->ndim
                      : !strncmp(property, ".storage", 8);
    if (fits)
        *out = !index ? t->offset : size ? t->shape[i] : t->stride[i];
    return fits;
}
