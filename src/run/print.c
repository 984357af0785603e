/* torch.ops.higher_order.print(format, *args, **kwargs): a line made as str.format makes it. */
#include <cfx/ops.h>

#include "run.h"

/* The value that a field names: the next one, number i, or a keyword. */
static const cfx_value *field(cfx_args a, const char *name, size_t len, int *next) {
    if (len == 0 || (name[0] >= '0' && name[0] <= '9')) {
        long i = len ? strtol(name, NULL, 10) : (*next)++;
        return i >= 0 && i + 1 < a.n ? &a.v[i + 1] : NULL;
    }
    return a.kw ? cfx_dict_find(a.kw, cfx_string_value_n(name, len)) : NULL;
}

/* A tensor of one number is formatted as that. */
static const char *text_of(cfx_value v) {
    bool one = v.tag == CFX_TAG_TENSOR && !cfx_as_tensor(v)->ndim && cfx_as_tensor(v)->data;
    return cfx_value_str(one ? cfx_item(v) : v);
}

/* One field of the format, from behind its brace; the place behind it, NULL where it is none. */
static const char *put_field(cfx__text *out, cfx_site at, cfx_args a, const char *s, int *next) {
    size_t len = strcspn(s, "}");
    const cfx_value *v = s[len] ? field(a, s, len, next) : NULL;
    if (!v) {
        cfx_fail(CFX_VALUE_ERROR, at, "print: '%s' has no value for the field '{%.*s'",
                 cfx_text(a.v[0]), (int)(len + (s[len] != 0)), s);
        return NULL;
    }
    cfx__text_puts(out, text_of(*v));
    return s + len + 1;
}

cfx_value cfx__higher_print(cfx_site at, cfx_args a) {
    const char *s = a.n ? cfx_text(a.v[0]) : NULL;
    if (!s) {
        cfx_fail(CFX_TYPE_ERROR, at, "print: the first argument must be a text");
        return cfx_bad();
    }
    cfx__text out = {0};
    int next = 0;
    while (s && *s) {
        bool twice = (*s == '{' || *s == '}') && s[1] == *s;
        if (*s == '{' && !twice) {
            s = put_field(&out, at, a, s + 1, &next);
        } else {
            cfx__text_putc(&out, *s);
            s += twice ? 2 : 1;
        }
    }
    const char *line = cfx__text_take(&out);
    if (cfx_ok() && !cfx__dispatcher()->fake)
        cfx__log(line);
    return cfx_ok() ? cfx_none() : cfx_bad();
}
