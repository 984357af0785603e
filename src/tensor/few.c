/* Few numbers, as a label or a card has room for them. */
#include "few.h"

enum { FEW = 8 };

bool cfx__tensor_put_few(cfx__text *out, const cfx_tensor *t) {
    if (!t || !t->data || t->ndim > 1 || t->numel > FEW)
        return false;
    cfx__text_puts(out, t->ndim ? "[" : "");
    for (int64_t i = 0; i < t->numel; i++) {
        cfx_value v = cfx__tensor_get(t, i);
        cfx__text_puts(out, i ? ", " : "");
        if (v.tag == CFX_TAG_FLOAT)
            cfx__text_printf(out, "%.6g", cfx_number(v));
        else
            cfx__repr(out, v);
    }
    cfx__text_puts(out, t->ndim ? "]" : "");
    return true;
}
