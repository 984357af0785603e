/* Shapes: what each node's result is, without its numbers. The graph is run once and the nodes'
 * metadata is filled; inputs that are fake make everything fake. Start at cfx_shape_prop_from. */
#include "run.h"

/* ---- one tensor ------------------------------------------------------------------------------ */

static cfx_value format_of(const cfx_tensor *t) {
    if (cfx__tensor_is_contiguous(t))
        return cfx_memory_format_value(CFX_CONTIGUOUS);
    if (t->ndim == 4 && cfx__tensor_is_channels_last(t))
        return cfx_memory_format_value(CFX_CHANNELS_LAST);
    if (t->ndim == 5 && cfx__tensor_is_channels_last_3d(t))
        return cfx_memory_format_value(CFX_CHANNELS_LAST_3D);
    return cfx_none();
}

/* PyTorch's TensorMetadata as a dict. */
static cfx_value meta_of(const cfx_tensor *t) {
    cfx_dict *d = cfx_dict_new();
    cfx_value stride = cfx_ints_value(t->ndim, t->stride);
    stride.tag = CFX_TAG_TUPLE;
    cfx_dict_set(d, "shape", cfx_ints_value(t->ndim, t->shape));
    cfx_dict_set(d, "dtype", cfx_dtype_value((cfx_dtype)t->dtype));
    cfx_dict_set(d, "requires_grad", cfx_bool(t->head.flags & CFX__GRAD));
    cfx_dict_set(d, "stride", stride);
    cfx_dict_set(d, "memory_format", format_of(t));
    cfx_dict_set(d, "is_quantized", cfx_bool(false));
    cfx_dict_set(d, "qparams", cfx_dict_value(cfx_dict_new()));
    return cfx_dict_value(d);
}

static cfx_value val_of(const cfx_tensor *t) {
    return cfx_tensor_value(cfx__tensor_faked(t));
}

/* ---- a result -------------------------------------------------------------------------------- */

/* A value with each tensor in it replaced; *any tells whether there was one. */
static cfx_value without_numbers(cfx_value v, cfx_value (*of)(const cfx_tensor *), bool *any) {
    if (v.tag == CFX_TAG_TENSOR) {
        *any = true;
        return of(cfx_as_tensor(v));
    }
    if (v.tag == CFX_TAG_DICT) {
        cfx_dict *d = cfx_dict_new();
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++)
            cfx_dict_put(d, cfx_as_dict(v)->entries[i].key,
                         without_numbers(cfx_as_dict(v)->entries[i].value, of, any));
        return cfx_dict_value(d);
    }
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value out = cfx__value_like(v);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), without_numbers(cfx_as_list(v)->items[i], of, any));
    return out;
}

static cfx_value note_shape(cfx_interp *it, cfx_node *n) {
    cfx_value v = cfx_interp_run_node(it, n);
    if (cfx_is_bad(v))
        return v;
    CFX_SCOPE {
        bool any = false;
        cfx_value meta = without_numbers(v, meta_of, &any);
        cfx_node_set_meta(n, "val", without_numbers(v, val_of, &any));
        if (any)
            cfx_node_set_meta(n, "tensor_meta", meta);
    }
    return v;
}

cfx_value cfx_shape_prop_from(cfx_site at, cfx_module *gm, cfx_args a) {
    cfx_interp it = {.module = gm, .run_node = note_shape};
    return cfx_run_from(at, &it, a);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void put_meta(cfx__text *t, cfx_value v) {
    if (v.tag == CFX_TAG_DICT && !cfx_is_none(cfx_dict_get(cfx_as_dict(v), "dtype"))) {
        cfx__text_puts(t, "TensorMetadata(");
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++) {
            struct cfx_entry e = cfx_as_dict(v)->entries[i];
            bool shape = !strcmp(cfx_text(e.key), "shape");
            cfx__text_printf(t, "%s%s=%s%s%s", i ? ", " : "", cfx_text(e.key),
                             shape ? "torch.Size(" : "", cfx_value_repr(e.value), shape ? ")" : "");
        }
        cfx__text_putc(t, ')');
    } else if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        bool tuple = v.tag == CFX_TAG_TUPLE;
        cfx__text_putc(t, tuple ? '(' : '[');
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++) {
            cfx__text_puts(t, i ? ", " : "");
            put_meta(t, cfx_as_list(v)->items[i]);
        }
        cfx__text_puts(t, tuple && cfx_as_list(v)->len == 1 ? ",)" : tuple ? ")" : "]");
    } else {
        cfx__text_puts(t, cfx_value_repr(v));
    }
}

const char *cfx_tensor_meta_str(cfx_value meta) {
    cfx__text t = {0};
    put_meta(&t, meta);
    return cfx__text_take(&t);
}
