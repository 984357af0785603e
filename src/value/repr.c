/* Text of values: Python's repr() and str(), names of types and dtypes.
 *
 * Invariant: what is printed for literals is what Python prints, byte for byte. Tensors, nodes and
 * operators belong to other rooms and print through the printer that is handed down. */
#include <cfx/tree.h>

#include "later.h"

#include <float.h>
#include <math.h>
#include <strings.h>

/* ---- numbers --------------------------------------------------------------------------------- */

enum { MAX_DIGITS = 17 };

/* The shortest digits that read back as f (finite, > 0). Returns their number; *point is the power
 * of ten before which the decimal point stands: f = 0.digits * 10^point.
 *
 * 15 digits always survive a normal double, so when they read back no shorter text is missed: it is
 * the same one with zeros at the end. Below the normal ones all lengths are tried. */
static int shortest_digits(double f, char *digits, int *point) {
    char text[40];
    for (int precision = f < DBL_MIN ? 1 : 15; precision <= MAX_DIGITS; precision++) {
        cfx__number_print(text, sizeof text, "%.*e", precision - 1, f);
        if (cfx__number_read(text, NULL) == f)
            break;
    }
    int n = 0;
    const char *p = text;
    for (; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    *point = *p ? (int)strtol(p + 1, NULL, 10) + 1 : n;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    return n;
}

static void put_zeros(cfx__text *out, int n) {
    while (n-- > 0)
        cfx__text_putc(out, '0');
}

/* As float.__repr__; a whole number gets ".0" when `dot` is asked for (complex parts have none). */
static void put_float(cfx__text *out, double f, bool dot) {
    if (isnan(f)) {
        cfx__text_puts(out, "nan");
        return;
    }
    if (signbit(f))
        cfx__text_putc(out, '-');
    f = fabs(f);
    if (isinf(f)) {
        cfx__text_puts(out, "inf");
        return;
    }
    char digits[40];
    int point = 1, n = 1;
    if (f == 0)
        digits[0] = '0';
    else
        n = shortest_digits(f, digits, &point);
    if (point > 16 || point < -3) {
        cfx__text_putc(out, digits[0]);
        if (n > 1)
            cfx__text_putc(out, '.');
        cfx__text_add(out, digits + 1, (size_t)n - 1);
        cfx__text_printf(out, "e%c%02d", point > 0 ? '+' : '-', abs(point - 1));
    } else if (point <= 0) {
        cfx__text_puts(out, "0.");
        put_zeros(out, -point);
        cfx__text_add(out, digits, (size_t)n);
    } else if (n <= point) {
        cfx__text_add(out, digits, (size_t)n);
        put_zeros(out, point - n);
        if (dot)
            cfx__text_puts(out, ".0");
    } else {
        cfx__text_add(out, digits, (size_t)point);
        cfx__text_putc(out, '.');
        cfx__text_add(out, digits + point, (size_t)(n - point));
    }
}

void cfx__repr_float(cfx__text *out, double f) { put_float(out, f, true); }

static void repr_complex(cfx__text *out, const cfx_complex *c) {
    if (c->re == 0 && !signbit(c->re)) {
        put_float(out, c->im, false);
        cfx__text_putc(out, 'j');
        return;
    }
    cfx__text_putc(out, '(');
    put_float(out, c->re, false);
    if (isnan(c->im) || !signbit(c->im))
        cfx__text_putc(out, '+');
    put_float(out, c->im, false);
    cfx__text_puts(out, "j)");
}

/* ---- strings --------------------------------------------------------------------------------- */

static void put_escape(cfx__text *out, uint32_t c) {
    if (c == '\n' || c == '\r' || c == '\t')
        cfx__text_puts(out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    else if (c < 0x100)
        cfx__text_printf(out, "\\x%02x", c);
    else
        cfx__text_printf(out, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
}

void cfx__repr_quoted(cfx__text *out, const char *text, size_t len, char quote) {
    const unsigned char *p = (const unsigned char *)text;
    cfx__text_putc(out, quote);
    for (size_t i = 0; i < len;) {
        uint32_t c = p[i];
        size_t n = cfx__utf8_get(text + i, len - i, &c);
        if (c == (uint32_t)quote || c == '\\')
            cfx__text_putc(out, '\\');
        if (n && cfx__utf8_printable(c))
            cfx__text_add(out, text + i, n);
        else
            put_escape(out, c);
        i += n ? n : 1;
    }
    cfx__text_putc(out, quote);
}

void cfx__repr_string(cfx__text *out, const char *text, size_t len) {
    bool single = memchr(text, '\'', len), both = single && memchr(text, '"', len);
    cfx__repr_quoted(out, text, len, single && !both ? '"' : '\'');
}

/* ---- devices and dtypes ---------------------------------------------------------------------- */

static const char *const device_names[] = {
    [CFX_CPU] = "cpu", [CFX_CUDA] = "cuda", [CFX_META] = "meta"};

static const char *device_name(cfx_device d) {
    return d.type >= 0 && d.type < COUNT(device_names) ? device_names[d.type] : "?";
}

void cfx__device_str(cfx__text *out, cfx_device d) {
    cfx__text_puts(out, device_name(d));
    if (d.index >= 0)
        cfx__text_printf(out, ":%d", d.index);
}

bool cfx__device_parse(const char *text, cfx_device *out) {
    for (int i = 0; i < COUNT(device_names); i++) {
        size_t n = strlen(device_names[i]);
        if (strncmp(text, device_names[i], n))
            continue;
        *out = (cfx_device){(int16_t)i, -1};
        if (!text[n])
            return true;
        if (text[n] != ':' || text[n + 1] < '0' || text[n + 1] > '9')
            return false;
        char *end;
        long index = strtol(text + n + 1, &end, 10);
        out->index = (int16_t)index;
        return !*end && index <= INT8_MAX;
    }
    return false;
}

static const struct dtype_info {
    const char *name, *brief;
    int size;
} dtypes[CFX_DTYPE_END] = {
#define DTYPE_INFO(tag, text, brief, size) [CFX_##tag] = {text, brief, size},
    CFX_DTYPES(DTYPE_INFO)
    CFX_QUANTIZED_DTYPES(DTYPE_INFO)
#undef DTYPE_INFO
};

static bool dtype_known(cfx_dtype d) { return (unsigned)d < CFX_DTYPE_END; }

const char *cfx_dtype_name(cfx_dtype d) { return dtype_known(d) ? dtypes[d].name : "?"; }

const char *cfx_dtype_brief(cfx_dtype d) { return dtype_known(d) ? dtypes[d].brief : "?"; }

int cfx_dtype_size(cfx_dtype d) { return dtype_known(d) ? dtypes[d].size : 0; }

bool cfx_dtype_parse(const char *text, cfx_dtype *out) {
    static const struct {
        const char *name;
        cfx_dtype dtype;
    } aliases[] = {{"float", CFX_F32},  {"double", CFX_F64}, {"half", CFX_F16},
                   {"long", CFX_I64},   {"int", CFX_I32},    {"short", CFX_I16},
                   {"cfloat", CFX_C64}, {"cdouble", CFX_C128}};
    if (!text)
        return false;
    if (!strncmp(text, "torch.", 6))
        text += 6;
    for (int i = 0; i < CFX_DTYPE_END; i++)
        if (!strcasecmp(text, dtypes[i].name) || !strcasecmp(text, dtypes[i].brief)) {
            *out = (cfx_dtype)i;
            return true;
        }
    for (int i = 0; i < COUNT(aliases); i++)
        if (!strcmp(text, aliases[i].name)) {
            *out = aliases[i].dtype;
            return true;
        }
    return false;
}

static const char *layout_name(int64_t l) { return l == CFX_STRIDED ? "strided" : "sparse_coo"; }

static const char *memory_format_name(int64_t m) {
    static const char *const names[] = {[CFX_CONTIGUOUS] = "contiguous_format",
                                        [CFX_PRESERVE] = "preserve_format",
                                        [CFX_CHANNELS_LAST] = "channels_last",
                                        [CFX_CHANNELS_LAST_3D] = "channels_last_3d"};
    return m >= 0 && m < COUNT(names) ? names[m] : "?";
}

/* ---- values ---------------------------------------------------------------------------------- */

static void repr_items(cfx__text *out, const cfx_list *l, cfx__repr_fn *other) {
    for (int64_t i = 0; i < l->len; i++) {
        if (i)
            cfx__text_puts(out, ", ");
        cfx__repr_with(out, l->items[i], other);
    }
}

/* Point(x=1, y=2) */
static void repr_typed(cfx__text *out, cfx_value v, cfx__repr_fn *other) {
    const cfx_tree_type *type = cfx_tree_type_of(v);
    cfx__text_printf(out, "%s(", type->name);
    for (int64_t i = 0; i < v.list_->len; i++) {
        cfx__text_puts(out, i ? ", " : "");
        if (type->fields)
            cfx__text_printf(out, "%s=", type->fields[i]);
        cfx__repr_with(out, v.list_->items[i], other);
    }
    cfx__text_putc(out, ')');
}

static void repr_dict(cfx__text *out, const cfx_dict *d, cfx__repr_fn *other) {
    cfx__text_putc(out, '{');
    for (int64_t i = 0; i < d->len; i++) {
        if (i)
            cfx__text_puts(out, ", ");
        cfx__repr_with(out, d->entries[i].key, other);
        cfx__text_puts(out, ": ");
        cfx__repr_with(out, d->entries[i].value, other);
    }
    cfx__text_putc(out, '}');
}

static void repr_slice(cfx__text *out, const cfx_slice *s, cfx__repr_fn *other) {
    cfx__text_puts(out, "slice(");
    cfx__repr_with(out, s->start, other);
    cfx__text_puts(out, ", ");
    cfx__repr_with(out, s->stop, other);
    cfx__text_puts(out, ", ");
    cfx__repr_with(out, s->step, other);
    cfx__text_putc(out, ')');
}

static void repr_device(cfx__text *out, cfx_device d) {
    cfx__text_printf(out, "device(type='%s'", device_name(d));
    if (d.index >= 0)
        cfx__text_printf(out, ", index=%d", d.index);
    cfx__text_putc(out, ')');
}

static void repr_other(cfx__text *out, cfx_value v, cfx__repr_fn *other) {
    if (other)
        other(out, v);
    else
        cfx__text_puts(out, v.tag == CFX_TAG_TENSOR ? "<tensor>"
                            : v.tag == CFX_TAG_NODE ? "<node>"
                            : v.tag == CFX_TAG_OP   ? "<op>"
                                                    : "<module>");
}

/* Shapes are most of what is printed: no trip through printf. */
static void put_int(cfx__text *out, int64_t n) {
    char digits[24];
    size_t at = sizeof digits;
    uint64_t u = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    do
        digits[--at] = (char)('0' + u % 10);
    while (u /= 10);
    if (n < 0)
        digits[--at] = '-';
    cfx__text_add(out, digits + at, sizeof digits - at);
}

void cfx__repr_with(cfx__text *out, cfx_value v, cfx__repr_fn *other) {
    const char *name = unlikely(cfx__value_mark(v)) ? cfx__later_rooms.marked_text(v) : NULL;
    if (name) {
        cfx__text_puts(out, name);
        return;
    }
    switch ((cfx_tag)v.tag) {
    case CFX_TAG_NONE: cfx__text_puts(out, "None"); break;
    case CFX_TAG_BOOL: cfx__text_puts(out, v.b_ ? "True" : "False"); break;
    case CFX_TAG_INT: put_int(out, v.i_); break;
    case CFX_TAG_FLOAT: cfx__repr_float(out, v.f_); break;
    case CFX_TAG_DTYPE: cfx__text_printf(out, "torch.%s", cfx_dtype_name((cfx_dtype)v.i_)); break;
    case CFX_TAG_DEVICE: repr_device(out, v.device_); break;
    case CFX_TAG_LAYOUT: cfx__text_printf(out, "torch.%s", layout_name(v.i_)); break;
    case CFX_TAG_MEMORY_FORMAT:
        cfx__text_printf(out, "torch.%s", memory_format_name(v.i_));
        break;
    case CFX_TAG_ELLIPSIS: cfx__text_puts(out, "Ellipsis"); break;
    case CFX_TAG_STR: cfx__repr_string(out, v.str_->text, v.str_->len); break;
    case CFX_TAG_COMPLEX: repr_complex(out, v.cplx_); break;
    case CFX_TAG_SLICE: repr_slice(out, v.slice_, other); break;
    case CFX_TAG_SYM: cfx__sym_print(out, v.sym_); break;
    case CFX_TAG_OBJECT: cfx__object_text(out, v.object_, true); break;
    case CFX_TAG_OP:
    case CFX_TAG_NODE:
    case CFX_TAG_MODULE:
    case CFX_TAG_TENSOR: repr_other(out, v, other); break;
    case CFX_TAG_LIST:
        cfx__text_putc(out, '[');
        repr_items(out, v.list_, other);
        cfx__text_putc(out, ']');
        break;
    case CFX_TAG_TUPLE:
        if (v.spare && cfx_tree_type_of(v)) {
            repr_typed(out, v, other);
            break;
        }
        cfx__text_putc(out, '(');
        repr_items(out, v.list_, other);
        cfx__text_puts(out, v.list_->len == 1 ? ",)" : ")");
        break;
    case CFX_TAG_DICT: repr_dict(out, v.dict_, other); break;
    case CFX_TAG_KEYWORD:
        cfx__text_printf(out, "%s=", v.keyword_->name->text);
        cfx__repr_with(out, v.keyword_->value, other);
        break;
    case CFX_TAG_BAD: cfx__text_puts(out, "<bad>"); break;
    }
}

void cfx__repr(cfx__text *out, cfx_value v) { cfx__repr_with(out, v, cfx__later_rooms.repr); }

const char *cfx_value_repr(cfx_value v) {
    cfx__text out = {0};
    cfx__repr(&out, v);
    return cfx__text_take(&out);
}

void cfx__str(cfx__text *out, cfx_value v) {
    if (v.tag == CFX_TAG_STR)
        cfx__text_add(out, v.str_->text, v.str_->len);
    else if (v.tag == CFX_TAG_DEVICE)
        cfx__device_str(out, v.device_);
    else if (v.tag == CFX_TAG_OBJECT)
        cfx__object_text(out, v.object_, false);
    else
        cfx__repr(out, v);
}

const char *cfx_value_str(cfx_value v) {
    cfx__text out = {0};
    cfx__str(&out, v);
    return cfx__text_take(&out);
}

/* ---- types ----------------------------------------------------------------------------------- */

const char *cfx__value_python_type(cfx_value v) {
    static const char *const names[] = {
        [CFX_TAG_NONE] = "NoneType",       [CFX_TAG_BOOL] = "bool",
        [CFX_TAG_INT] = "int",             [CFX_TAG_FLOAT] = "float",
        [CFX_TAG_DTYPE] = "torch.dtype",   [CFX_TAG_DEVICE] = "torch.device",
        [CFX_TAG_LAYOUT] = "torch.layout", [CFX_TAG_MEMORY_FORMAT] = "torch.memory_format",
        [CFX_TAG_ELLIPSIS] = "ellipsis",   [CFX_TAG_OP] = "OpOverload",
        [CFX_TAG_NODE] = "Node",           [CFX_TAG_STR] = "str",
        [CFX_TAG_COMPLEX] = "complex",     [CFX_TAG_SLICE] = "slice",
        [CFX_TAG_SYM] = "SymInt",          [CFX_TAG_TENSOR] = "Tensor",
        [CFX_TAG_MODULE] = "Module",       [CFX_TAG_LIST] = "list",
        [CFX_TAG_TUPLE] = "tuple",         [CFX_TAG_DICT] = "dict",
        [CFX_TAG_KEYWORD] = "keyword",     [CFX_TAG_BAD] = "bad"};
    if (v.tag == CFX_TAG_OBJECT)
        return cfx__object_type_name(v.object_);
    return v.tag < (uint32_t)COUNT(names) ? names[v.tag] : "?";
}

static void put_type(cfx__text *out, cfx_value v);

/* List[T] where all items are of one type, List[Any] where not; an empty list tells nothing. */
static void put_list_type(cfx__text *out, const cfx_list *l) {
    if (!l->len) {
        cfx__text_puts(out, "list");
        return;
    }
    cfx__text first = {0}, next = {0};
    put_type(&first, l->items[0]);
    bool same = true;
    for (int64_t i = 1; same && i < l->len; i++) {
        next.len = 0;
        put_type(&next, l->items[i]);
        same = !strcmp(first.data, next.data);
    }
    cfx__text_printf(out, "List[%s]", same ? first.data : "Any");
    cfx__text_release(&first);
    cfx__text_release(&next);
}

static void put_type(cfx__text *out, cfx_value v) {
    if (v.tag == CFX_TAG_LIST) {
        put_list_type(out, v.list_);
    } else if (v.tag == CFX_TAG_TUPLE && v.list_->len) {
        cfx__text_puts(out, "Tuple[");
        for (int64_t i = 0; i < v.list_->len; i++) {
            if (i)
                cfx__text_puts(out, ", ");
            put_type(out, v.list_->items[i]);
        }
        cfx__text_putc(out, ']');
    } else if (v.tag == CFX_TAG_DICT && v.dict_->len) {
        cfx__text_puts(out, "Dict[");
        put_type(out, v.dict_->entries[0].key);
        cfx__text_puts(out, ", ");
        put_type(out, v.dict_->entries[0].value);
        cfx__text_putc(out, ']');
    } else if (v.tag == CFX_TAG_DEVICE) {
        cfx__text_puts(out, "Device");
    } else {
        const char *name = cfx__value_python_type(v);
        cfx__text_puts(out, strncmp(name, "torch.", 6) ? name : name + 6);
    }
}

const char *cfx_value_type_name(cfx_value v) {
    cfx__text out = {0};
    put_type(&out, v);
    return cfx__text_take(&out);
}
