/* Values as model.json has them: numbers, sizes, descriptions of tensors, constants, and the
 * metadata of nodes. The inverse of pt2_value.c. */
#include "pt2.h"

#include <math.h>

static bool is_sequence(cfx_value v) { return v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST; }

/* ---- numbers and tensors --------------------------------------------------------------------- */

/* A float; those that JSON lacks are strings. */
void cfx__pt2_put_float(cfx__text *t, double f) {
    if (isfinite(f))
        cfx__repr_float(t, f);
    else
        cfx__text_puts(t, isnan(f) ? "\"NaN\"" : f > 0 ? "\"Infinity\"" : "\"-Infinity\"");
}

static void put_device(cfx__text *t, cfx_device d) {
    cfx_device kind = {d.type, -1};
    cfx__text_puts(t, "{\"type\": \"");
    cfx__device_str(t, kind);
    cfx__text_puts(t, "\", \"index\": ");
    if (d.index < 0)
        cfx__text_puts(t, "null}");
    else
        cfx__text_printf(t, "%d}", d.index);
}

/* A SymInt, SymBool or SymFloat. */
void cfx__pt2_put_sym(cfx__text *t, cfx_value v) {
    if (v.tag == CFX_TAG_INT) {
        cfx__text_printf(t, "{\"as_int\": %lld}", (long long)cfx_integer(v));
    } else if (v.tag == CFX_TAG_BOOL) {
        cfx__text_printf(t, "{\"as_bool\": %s}", cfx_integer(v) ? "true" : "false");
    } else if (v.tag == CFX_TAG_FLOAT) {
        cfx__text_puts(t, "{\"as_float\": ");
        cfx__pt2_put_float(t, cfx_number(v));
        cfx__text_putc(t, '}');
    } else {
        cfx__text expr = {0};
        cfx__srepr_write(&expr, v);
        cfx__text_puts(t, "{\"as_expr\": {\"expr_str\": ");
        cfx__json_string(t, expr.data ? expr.data : "", expr.len);
        cfx__text_release(&expr);
        if (v.tag == CFX_TAG_SYM && cfx_as_sym(v)->has_hint)
            cfx__text_printf(t, ", \"hint\": {\"as_int\": %lld}}}", (long long)cfx_as_sym(v)->hint);
        else
            cfx__text_puts(t, ", \"hint\": null}}");
    }
}

void cfx__pt2_put_tensor(cfx__text *t, const cfx_result *r) {
    bool noted = r->value.tag == CFX_TAG_DICT;
    cfx_value offset = noted ? cfx_dict_get(cfx_as_dict(r->value), "offset")
                             : cfx_int(cfx_as_tensor(r->value)->offset);
    cfx_layout layout = noted ? CFX_STRIDED : (cfx_layout)cfx_as_tensor(r->value)->layout;
    cfx__text_printf(t, "{\"dtype\": %d, \"sizes\": [", cfx__pt2_dtype_number(r->dtype));
    for (int i = 0; i < r->ndim; i++) {
        cfx__json_comma(t);
        cfx__pt2_put_sym(t, cfx_result_size(r, i));
    }
    cfx__text_printf(t, "], \"requires_grad\": %s, \"device\": ",
                     r->requires_grad ? "true" : "false");
    put_device(t, r->device);
    cfx__text_puts(t, ", \"strides\": [");
    for (int i = 0; i < r->ndim; i++) {
        cfx__json_comma(t);
        cfx__pt2_put_sym(t, cfx_result_stride(r, i));
    }
    cfx__text_puts(t, "], \"storage_offset\": ");
    cfx__pt2_put_sym(t, cfx_is_none(offset) ? cfx_int(0) : offset);
    cfx__text_printf(t, ", \"layout\": %d}", cfx__pt2_layout_number(layout));
}

/* ---- constants ------------------------------------------------------------------------------- */

/* The plain values; false where it is none. */
bool cfx__pt2_put_constant(cfx__text *t, cfx_value v) {
    switch ((cfx_tag)v.tag) {
    case CFX_TAG_NONE: cfx__text_puts(t, "{\"as_none\": true}"); return true;
    case CFX_TAG_BOOL:
    case CFX_TAG_INT:
    case CFX_TAG_FLOAT: cfx__pt2_put_sym(t, v); return true;
    case CFX_TAG_STR:
        cfx__text_puts(t, "{\"as_string\": ");
        cfx__json_string(t, cfx_as_string(v)->text, cfx_as_string(v)->len);
        break;
    case CFX_TAG_DTYPE:
        cfx__text_printf(t, "{\"as_scalar_type\": %d", cfx__pt2_dtype_number(cfx_as_dtype(v)));
        break;
    case CFX_TAG_DEVICE:
        cfx__text_puts(t, "{\"as_device\": ");
        put_device(t, cfx_as_device(v));
        break;
    case CFX_TAG_LAYOUT:
        cfx__text_printf(t, "{\"as_layout\": %d",
                         cfx__pt2_layout_number((cfx_layout)cfx_integer(v)));
        break;
    case CFX_TAG_MEMORY_FORMAT:
        cfx__text_printf(t, "{\"as_memory_format\": %d",
                         cfx__pt2_memory_format_number(cfx_as_memory_format(v)));
        break;
    case CFX_TAG_COMPLEX:
        cfx__text_puts(t, "{\"as_complex\": {\"real\": ");
        cfx__pt2_put_float(t, cfx_as_complex(v)->re);
        cfx__text_puts(t, ", \"imag\": ");
        cfx__pt2_put_float(t, cfx_as_complex(v)->im);
        cfx__text_putc(t, '}');
        break;
    case CFX_TAG_OP:
        cfx__text_printf(t, "{\"as_operator\": \"torch.ops.%s\"", cfx_op_name(cfx_as_op(v)));
        break;
    default: return false;
    }
    cfx__text_putc(t, '}');
    return true;
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* A module stack as "key,path,type;...", a source stack as "name,target;...", others joined by ';'.
 */
static void put_joined(cfx__text *t, cfx_value v) {
    cfx__text out = {0};
    int64_t n = v.tag == CFX_TAG_DICT ? cfx_as_dict(v)->len : cfx_as_list(v)->len;
    for (int64_t i = 0; i < n; i++) {
        cfx_value part =
            v.tag == CFX_TAG_DICT ? cfx_as_dict(v)->entries[i].value : cfx_as_list(v)->items[i];
        if (i)
            cfx__text_putc(&out, ';');
        if (v.tag == CFX_TAG_DICT)
            cfx__text_printf(&out, "%s,", cfx_value_str(cfx_as_dict(v)->entries[i].key));
        for (int64_t k = 0; is_sequence(part) && k < cfx_as_list(part)->len; k++)
            cfx__text_printf(&out, "%s%s", k ? "," : "",
                             cfx_value_str(cfx_as_list(part)->items[k]));
        if (!is_sequence(part))
            cfx__text_puts(&out, cfx_value_str(part));
    }
    cfx__json_string(t, out.data ? out.data : "", out.len);
    cfx__text_release(&out);
}

/* Arguments that are tuples, by number: the format has lists alone. */
static void put_tuples(cfx__text *t, const cfx_node *n) {
    cfx__text out = {0};
    for (int64_t i = 0; i < cfx_as_list(n->args)->len; i++)
        if (cfx_as_list(n->args)->items[i].tag == CFX_TAG_TUPLE)
            cfx__text_printf(&out, "%s%lld", out.len ? "," : "", (long long)i);
    if (out.len) {
        cfx__json_comma(t);
        cfx__text_printf(t, "\"tuple_args\": \"%s\"", out.data);
    }
    cfx__text_release(&out);
}

void cfx__pt2_put_metadata(cfx__text *t, const cfx_node *n) {
    cfx__text_putc(t, '{');
    if (n->op == CFX_CALL_FUNCTION)
        put_tuples(t, n);
    for (int64_t i = 0; n->meta && i < n->meta->len; i++) {
        const char *key = cfx_text(n->meta->entries[i].key);
        cfx_value v = n->meta->entries[i].value;
        bool custom = key && !strcmp(key, "custom");
        bool joined = key && (!strcmp(key, "nn_module_stack") || !strcmp(key, "torch_fn") ||
                              !strcmp(key, "source_fn_stack"));
        joined = joined && (is_sequence(v) || v.tag == CFX_TAG_DICT);
        if (!key || !strcmp(key, "val") || !(v.tag == CFX_TAG_STR || joined || custom))
            continue;
        size_t mark = cfx_scope_open();
        cfx__json_comma(t);
        cfx__json_string(t, key, strlen(key));
        cfx__text_puts(t, ": ");
        cfx__text json = {0};
        if (joined)
            put_joined(t, v);
        else if (v.tag == CFX_TAG_STR)
            cfx__json_string(t, cfx_as_string(v)->text, cfx_as_string(v)->len);
        else if (cfx__json_value(&json, v))
            cfx__json_string(t, json.data, json.len);
        else
            cfx__text_puts(t, "\"\"");
        cfx__text_release(&json);
        cfx_scope_close(mark);
    }
    cfx__text_putc(t, '}');
}
