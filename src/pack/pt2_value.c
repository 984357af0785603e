/* Values of model.json: enumerations, unions, sizes, descriptions of tensors, constants, and the
 * metadata of nodes. */
#include "../value/dict.h"
#include "pt2.h"

#include <math.h>

/* ---- enumerations ---------------------------------------------------------------------------- */

/* By the number in files, one more than the dtype: 0 where there is none. */
#define IS(d) CFX_##d + 1
static const int8_t dtypes[] = {
    [1] = IS(U8),   [2] = IS(I8),   [3] = IS(I16),   [4] = IS(I32),   [5] = IS(I64),
    [6] = IS(F16),  [7] = IS(F32),  [8] = IS(F64),   [9] = IS(C32),   [10] = IS(C64),
    [11] = IS(C128), [12] = IS(BOOL), [13] = IS(BF16), [28] = IS(U16), [29] = IS(F8E4M3FN),
    [30] = IS(F8E5M2), [31] = IS(F8E4M3FNUZ), [32] = IS(F8E5M2FNUZ),
};
#undef IS

/* The dtype with a number in files; -1 for one that cfx does not have. */
static int dtype_of(int64_t number) {
    return number > 0 && number < COUNT(dtypes) ? dtypes[number] - 1 : -1;
}

int cfx__pt2_dtype_number(cfx_dtype d) {
    for (int i = 1; i < COUNT(dtypes); i++)
        if (dtypes[i] == (int)d + 1)
            return i;
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, ".pt2 files have no number for the dtype %s",
             cfx_dtype_name(d));
    return 0;
}

/* The place is the number in files. */
static const int memory_formats[] = {-1, CFX_CONTIGUOUS, CFX_CHANNELS_LAST, CFX_CHANNELS_LAST_3D,
                                     CFX_PRESERVE};
static const int layouts[] = {-1, CFX_SPARSE_COO, -1, -1, -1, -1, -1, CFX_STRIDED};

static int find(const int *table, int n, int what) {
    for (int i = 0; i < n; i++)
        if (table[i] == what)
            return i;
    return 0;
}

int cfx__pt2_memory_format_number(cfx_memory_format f) {
    return find(memory_formats, COUNT(memory_formats), (int)f);
}

int cfx__pt2_layout_number(cfx_layout l) { return find(layouts, COUNT(layouts), (int)l); }

/* ---- errors ---------------------------------------------------------------------------------- */

bool cfx__pt2_bad(const cfx__pt2_reader *r, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *before =
        r->node ? cfx__text_format("'%s' cannot be read: node '%.200s': ", r->path, r->node)
                : cfx__text_format("'%s' cannot be read: ", r->path);
    cfx__fail_list(CFX_FILE_ERROR, (cfx_site){0}, before, fmt, ap);
    va_end(ap);
    return false;
}

static cfx_value bad_value(const cfx__pt2_reader *r, const char *what) {
    cfx__pt2_bad(r, "%s", what);
    return cfx_bad();
}

const cfx__json *cfx__pt2_want(const cfx__pt2_reader *r, const cfx__json *j, const char *key,
                               cfx__json_kind kind) {
    static const char *const kinds[] = {"null",   "bool", "int",   "number",
                                        "string", "list", "object"};
    const cfx__json *v = cfx__json_get(j, key);
    if (cfx__json_is(v, kind))
        return v;
    cfx__pt2_bad(r, "\"%s\" is %s, not a %s", key, v ? kinds[v->kind] : "missing", kinds[kind]);
    return NULL;
}

const char *cfx__pt2_union(const cfx__pt2_reader *r, const cfx__json *j, const cfx__json **v) {
    if (!cfx__json_is(j, CFX__JSON_OBJECT) || j->len != 1) {
        cfx__pt2_bad(r, "an object with one key, which says what the value is, was expected");
        return NULL;
    }
    *v = j + 2;
    return j[1].text;
}

void cfx__pt2_reader_close(cfx__pt2_reader *r) {
    cfx__srepr_hints_release(&r->hints);
    cfx__map_release(&r->exprs);
    cfx__map_release(&r->traces);
    cfx__map_release(&r->stacks);
    for (size_t i = 0; i < r->kept.len; i++)
        cfx_value_drop(r->kept.data[i]);
    VEC_FREE(r->kept);
    cfx__arena_release(&r->arena);
}

/* Remembers what was made of a text. The reader has a copy of that: it reads several files of JSON,
 * and each goes when it has been read. */
static cfx_value remember(cfx__pt2_reader *r, cfx__map *map, const char *text, cfx_value v) {
    cfx_value *kept = cfx__arena_alloc(&r->arena, sizeof *kept);
    *kept = v;
    VEC_PUSH(r->kept, cfx_value_keep(v));
    cfx__map_set(map, cfx__arena_copy(&r->arena, text, strlen(text)), kept);
    return v;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static double special_float(const char *text) {
    if (!strcmp(text, "Infinity"))
        return INFINITY;
    return !strcmp(text, "-Infinity") ? -INFINITY : NAN;
}

/* A number, or a string for one that JSON lacks. */
static bool read_float(const cfx__json *j, cfx_value *out) {
    if (cfx__json_is(j, CFX__JSON_FLOAT))
        *out = cfx_float(j->f);
    else if (cfx__json_is(j, CFX__JSON_INT))
        *out = cfx_float((double)j->i);
    else if (cfx__json_is(j, CFX__JSON_TEXT) &&
             (!strcmp(j->text, "Infinity") || !strcmp(j->text, "-Infinity") ||
              !strcmp(j->text, "NaN")))
        *out = cfx_float(special_float(j->text));
    else
        return false;
    return true;
}

void cfx__pt2_note_hints(cfx__pt2_reader *r, const cfx__json *j) {
    for (const cfx__json *at = j, *end = cfx__json_next(j); at < end; at++) {
        if (at->kind != CFX__JSON_OBJECT || at->len != 2)
            continue;
        const cfx__json *expr = cfx__json_get(at, "expr_str");
        const cfx__json *hint = cfx__json_get(at, "hint");
        if (cfx__json_is(hint, CFX__JSON_OBJECT)) /* a bare number before 2.4 */
            hint = cfx__json_get(hint, "as_int");
        if (cfx__json_is(expr, CFX__JSON_TEXT) && cfx__json_is(hint, CFX__JSON_INT))
            cfx__srepr_hints_note(&r->hints, expr->text, hint->i);
    }
}

cfx_value cfx__pt2_sym(cfx__pt2_reader *r, const cfx__json *j) {
    const cfx__json *v;
    const char *tag = cfx__pt2_union(r, j, &v);
    cfx_value f;
    if (!tag)
        return cfx_bad();
    if (!strcmp(tag, "as_int") && v->kind == CFX__JSON_INT)
        return cfx_int(v->i);
    if (!strcmp(tag, "as_bool") && v->kind == CFX__JSON_BOOL)
        return cfx_bool(v->b);
    if (!strcmp(tag, "as_float") && read_float(v, &f))
        return f;
    const cfx__json *expr = cfx__json_get(v, "expr_str");
    if (strcmp(tag, "as_expr") || !cfx__json_is(expr, CFX__JSON_TEXT))
        return bad_value(r, "a size is neither a number nor an expression");
    cfx_value *known = cfx__map_get(&r->exprs, expr->text);
    if (known)
        return *known;
    return remember(r, &r->exprs, expr->text, cfx__srepr_read(expr->text, &r->hints));
}

/* ---- tensors --------------------------------------------------------------------------------- */

static bool read_sizes(cfx__pt2_reader *r, const cfx__json *list, cfx_value *out, bool *known) {
    int n = 0;
    cfx__json_each(list, item) {
        cfx_value v = cfx__pt2_sym(r, item);
        if (cfx_is_bad(v))
            return false;
        if (v.tag != CFX_TAG_INT && v.tag != CFX_TAG_SYM && v.tag != CFX_TAG_STR)
            return cfx__pt2_bad(r, "a size is no integer");
        *known &= v.tag == CFX_TAG_INT;
        out[n++] = v;
    }
    return true;
}

static bool read_device(cfx__pt2_reader *r, const cfx__json *j, cfx_device *out) {
    const cfx__json *type = cfx__pt2_want(r, j, "type", CFX__JSON_TEXT);
    const cfx__json *index = cfx__json_get(j, "index");
    *out = (cfx_device){CFX_CPU, -1};
    if (!type)
        return false;
    if (!cfx__device_parse(type->text, out))
        return cfx__pt2_bad(r, "the device '%.40s' is not known", type->text);
    if (cfx__json_is(index, CFX__JSON_INT))
        out->index = index->i >= 0 && index->i < INT16_MAX ? (int16_t)index->i : -1;
    return true;
}

bool cfx__pt2_tensor_meta(cfx__pt2_reader *r, const cfx__json *j, cfx__pt2_meta *m) {
    if (cfx__json_get(j, "meta")) /* one level more in 2.1 */
        j = cfx__json_get(j, "meta");
    const cfx__json *dtype = cfx__pt2_want(r, j, "dtype", CFX__JSON_INT);
    const cfx__json *sizes = dtype ? cfx__pt2_want(r, j, "sizes", CFX__JSON_ARRAY) : NULL;
    const cfx__json *strides = sizes ? cfx__pt2_want(r, j, "strides", CFX__JSON_ARRAY) : NULL;
    if (!strides)
        return false;
    if (sizes->len > CFX_MAX_DIMS || strides->len != sizes->len)
        return cfx__pt2_bad(r, "a tensor has %u sizes and %u strides", sizes->len, strides->len);
    int d = dtype_of(dtype->i);
    if (d < 0)
        return cfx__pt2_bad(r, "there is no dtype of number %lld", (long long)dtype->i);
    m->dtype = (cfx_dtype)d;
    m->ndim = (int)sizes->len;
    m->known = true;
    m->offset = cfx_int(0);
    const cfx__json *grad = cfx__json_get(j, "requires_grad");
    m->requires_grad = cfx__json_is(grad, CFX__JSON_BOOL) && grad->b;
    const cfx__json *device = cfx__json_get(j, "device"), *at = cfx__json_get(j, "storage_offset");
    if (!read_device(r, device, &m->device) || !read_sizes(r, sizes, m->sizes, &m->known) ||
        !read_sizes(r, strides, m->strides, &m->known))
        return false;
    if (cfx__json_is(at, CFX__JSON_INT)) /* until 2.2 */
        m->offset = cfx_int(at->i);
    else if (at && at->kind != CFX__JSON_NULL)
        m->offset = cfx__pt2_sym(r, at);
    m->known &= m->offset.tag == CFX_TAG_INT;
    for (int i = 0; m->known && i < m->ndim; i++)
        if (cfx_integer(m->sizes[i]) < 0 || cfx_integer(m->strides[i]) < 0 ||
            cfx_integer(m->offset) < 0)
            return cfx__pt2_bad(r, "a tensor has a size, stride or offset below zero");
    return !cfx_is_bad(m->offset);
}

static cfx_value symbolic_val(const cfx__pt2_meta *m) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "shape", cfx_tuple_value(m->ndim, m->sizes));
    cfx_dict_set(d, "dtype", cfx_dtype_value(m->dtype));
    cfx_dict_set(d, "stride", cfx_tuple_value(m->ndim, m->strides));
    cfx_dict_set(d, "device", cfx_device_value(m->device));
    if (m->requires_grad)
        cfx_dict_set(d, "requires_grad", cfx_bool(true));
    if (m->offset.tag != CFX_TAG_INT || cfx_integer(m->offset))
        cfx_dict_set(d, "offset", m->offset);
    return cfx_dict_value(d);
}

/* A fake tensor that starts inside of its storage, as views of views do. */
static cfx_tensor *fake_at(cfx_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides,
                           int64_t offset) {
    cfx_tensor *t = cfx_tensor_fake(dtype, ndim, sizes, strides);
    int64_t room;
    if (!offset || cfx__obj_is_bad(t) ||
        __builtin_add_overflow(offset, (int64_t)t->storage->size / cfx_dtype_size(dtype), &room))
        return t;
    cfx_tensor *base = cfx_tensor_fake(dtype, 1, &room, NULL);
    return cfx__obj_is_bad(base) ? base : cfx_tensor_view(base, ndim, sizes, strides, offset);
}

cfx_value cfx__pt2_tensor_val(cfx__pt2_reader *r, const cfx__json *j) {
    cfx__pt2_meta m;
    if (!cfx__pt2_tensor_meta(r, j, &m))
        return cfx_bad();
    if (!m.known)
        return symbolic_val(&m);
    int64_t sizes[CFX_MAX_DIMS], strides[CFX_MAX_DIMS];
    for (int i = 0; i < m.ndim; i++) {
        sizes[i] = cfx_integer(m.sizes[i]);
        strides[i] = cfx_integer(m.strides[i]);
    }
    cfx_tensor *t = fake_at(m.dtype, m.ndim, sizes, strides, cfx_integer(m.offset));
    if (cfx__obj_is_bad(t))
        return bad_value(r, "a tensor has impossible sizes");
    cfx__tensor_place(t, m.device);
    if (m.requires_grad)
        t->head.flags |= CFX__GRAD;
    return cfx_tensor_value(t);
}

/* ---- constants ------------------------------------------------------------------------------- */

typedef bool item_fn(cfx__pt2_reader *r, const cfx__json *j, cfx_value *out);

static bool read_int(cfx__pt2_reader *r, const cfx__json *j, cfx_value *out) {
    (void)r;
    *out = cfx_int(j->i);
    return j->kind == CFX__JSON_INT;
}

static bool read_bool(cfx__pt2_reader *r, const cfx__json *j, cfx_value *out) {
    (void)r;
    bool is = j->kind == CFX__JSON_BOOL;
    *out = cfx_bool(is && j->b);
    return is;
}

static bool read_number(cfx__pt2_reader *r, const cfx__json *j, cfx_value *out) {
    (void)r;
    return read_float(j, out);
}

static bool read_text(cfx__pt2_reader *r, const cfx__json *j, cfx_value *out) {
    (void)r;
    if (j->kind != CFX__JSON_TEXT)
        return false;
    *out = cfx_string_value_n(j->text, j->len);
    return true;
}

static bool read_none(cfx__pt2_reader *r, const cfx__json *j, cfx_value *out) {
    (void)r;
    (void)j;
    *out = cfx_none();
    return true;
}

static bool read_dtype(cfx__pt2_reader *r, const cfx__json *j, cfx_value *out) {
    int d = j->kind == CFX__JSON_INT ? dtype_of(j->i) : -1;
    *out = cfx_dtype_value((cfx_dtype)d);
    return d >= 0 || (j->kind == CFX__JSON_INT &&
                      cfx__pt2_bad(r, "there is no dtype of number %lld", (long long)j->i));
}

static bool in_table(const cfx__json *j, const int *table, int n) {
    return j->kind == CFX__JSON_INT && j->i > 0 && j->i < n && table[j->i] >= 0;
}

static bool read_memory_format(cfx__pt2_reader *r, const cfx__json *j, cfx_value *out) {
    (void)r;
    if (!in_table(j, memory_formats, COUNT(memory_formats)))
        return false;
    *out = cfx_memory_format_value((cfx_memory_format)memory_formats[j->i]);
    return true;
}

static bool read_layout(cfx__pt2_reader *r, const cfx__json *j, cfx_value *out) {
    (void)r;
    if (!in_table(j, layouts, COUNT(layouts)))
        return false;
    *out = cfx_layout_value((cfx_layout)layouts[j->i]);
    return true;
}

static bool read_device_value(cfx__pt2_reader *r, const cfx__json *j, cfx_value *out) {
    cfx_device d;
    bool ok = read_device(r, j, &d);
    *out = cfx_device_value(d);
    return ok;
}

static bool read_complex(cfx__pt2_reader *r, const cfx__json *j, cfx_value *out) {
    cfx_value re, im;
    (void)r;
    if (!read_float(cfx__json_get(j, "real"), &re) || !read_float(cfx__json_get(j, "imag"), &im))
        return false;
    *out = cfx_complex_value(cfx_number(re), cfx_number(im));
    return true;
}

/* The tags of constants, with the number of lists around the item. */
static const struct {
    const char *tag;
    item_fn *read;
    int lists;
} constants[] = {
    {"as_int", read_int, 0},           {"as_ints", read_int, 1},
    {"as_float", read_number, 0},      {"as_bool", read_bool, 0},
    {"as_scalar_type", read_dtype, 0}, {"as_none", read_none, 0},
    {"as_device", read_device_value, 0}, {"as_layout", read_layout, 0},
    {"as_string", read_text, 0},       {"as_memory_format", read_memory_format, 0},
    {"as_floats", read_number, 1},     {"as_bools", read_bool, 1},
    {"as_strings", read_text, 1},      {"as_complex", read_complex, 0},
    {"as_int_lists", read_int, 2},     {"as_float_lists", read_number, 2},
};

static bool read_items(cfx__pt2_reader *r, const cfx__json *j, item_fn *read, int lists,
                       cfx_value *out) {
    if (!lists)
        return read(r, j, out);
    if (j->kind != CFX__JSON_ARRAY)
        return false;
    *out = cfx_list_value(0, NULL);
    cfx__json_each(j, item) {
        cfx_value v;
        if (!read_items(r, item, read, lists - 1, &v))
            return false;
        cfx_list_append(cfx_as_list(*out), v);
    }
    return true;
}

bool cfx__pt2_constant(cfx__pt2_reader *r, const char *tag, const cfx__json *v, cfx_value *out) {
    for (int i = 0; i < COUNT(constants); i++) {
        if (strcmp(constants[i].tag, tag))
            continue;
        if (!read_items(r, v, constants[i].read, constants[i].lists, out)) {
            cfx__pt2_bad(r, "what stands under \"%s\" is of the wrong type", tag);
            *out = cfx_bad();
        }
        return true;
    }
    return false;
}

/* ---- metadata of nodes ----------------------------------------------------------------------- */

static cfx_value text_value(const cfx__json *j) { return cfx_string_value_n(j->text, j->len); }

/* "key,path,type", split at commas that are not in brackets. False when there are not three parts.
 */
static bool split_frame(const char *at, const char *end, cfx_value parts[3]) {
    int n = 0, depth = 0;
    for (const char *from = at;; at++) {
        if (at < end && (*at == '[' || *at == '('))
            depth++;
        else if (at < end && (*at == ']' || *at == ')'))
            depth--;
        if (at < end && (*at != ',' || depth))
            continue;
        if (n == 3)
            return false;
        parts[n++] = cfx_string_value_n(from, (size_t)(at - from));
        from = at + 1;
        if (at == end)
            return n == 3;
    }
}

/* "L__self__,,Net;L__self___fc,fc,torch.nn.modules.linear.Linear": a dict of key to (path, type).
 * Text that is no such list stays text. */
static cfx_value module_stack(const cfx__json *j) {
    cfx_dict *d = cfx_dict_new();
    const char *at = j->text, *end = at + j->len;
    while (at <= end) {
        const char *stop = memchr(at, ';', (size_t)(end - at));
        stop = stop ? stop : end;
        cfx_value parts[3];
        if (!split_frame(at, stop, parts))
            return text_value(j);
        cfx_dict_put(d, parts[0], cfx_tuple_value(2, parts + 1));
        at = stop + 1;
    }
    return cfx_dict_value(d);
}

/* "linear_1;builtin_function_or_method.linear": a tuple of texts. */
cfx_value cfx__pt2_split_text(const char *at, const char *end, char sign) {
    int64_t n = 1;
    for (const char *c = at; c < end; c++)
        n += *c == sign;
    cfx_list *parts = cfx__list_alloc(n);
    for (int64_t i = 0; i < n; i++) {
        const char *stop = memchr(at, sign, (size_t)(end - at));
        stop = stop ? stop : end;
        parts->items[i] = cfx_value_keep(cfx_string_value_n(at, (size_t)(stop - at)));
        at = stop + 1;
    }
    return cfx__value_scope_own(cfx__value_of_list((cfx_value){.tag = CFX_TAG_TUPLE}, parts));
}

/* "name,target;name,target": a list of pairs. */
static cfx_value source_stack(const cfx__json *j) {
    const cfx_list *items = cfx_as_list(cfx__pt2_split_text(j->text, j->text + j->len, ';'));
    cfx_list *pairs = cfx__list_alloc(items->len);
    for (int64_t i = 0; i < items->len; i++) {
        const cfx_string *s = cfx_as_string(items->items[i]);
        cfx_value pair = cfx__pt2_split_text(s->text, s->text + s->len, ',');
        if (cfx__value_may_hold(&pairs->head, pair))
            pairs->items[i] = cfx_value_keep(pair);
    }
    return cfx__value_scope_own(cfx__value_of_list((cfx_value){.tag = CFX_TAG_LIST}, pairs));
}

static cfx_value custom_value(const cfx__json *j) {
    cfx_value v = cfx__json_parse(j->text, j->len, NULL);
    return cfx_is_bad(v) ? text_value(j) : v;
}

static cfx_value shared(cfx__pt2_reader *r, cfx__map *map, const cfx__json *j,
                        cfx_value (*make)(const cfx__json *)) {
    cfx_value *known = cfx__map_getn(map, j->text, j->len);
    return known ? *known : remember(r, map, j->text, make(j));
}

/* Arguments that were tuples when cfx wrote the file: "3,4". */
static void make_tuples(cfx_node *n, const char *text) {
    size_t mark = cfx_scope_open();
    for (char *end; *text; text = *end ? end + 1 : end) {
        int64_t i = strtoll(text, &end, 10);
        if (end == text || i < 0 || !cfx_as_list(n->args) || i >= cfx_as_list(n->args)->len)
            break;
        cfx_value v = cfx_as_list(n->args)->items[i];
        if (v.tag == CFX_TAG_LIST)
            cfx_node_set_arg(n, (int)i,
                             cfx_tuple_value(cfx_as_list(v)->len, cfx_as_list(v)->items));
    }
    cfx_scope_close(mark);
}

void cfx__pt2_node_meta(cfx__pt2_reader *r, cfx_node *n, const cfx__json *metadata) {
    if (!cfx__json_is(metadata, CFX__JSON_OBJECT))
        return;
    cfx__json_pairs(metadata, k, v) {
        if (v->kind != CFX__JSON_TEXT || !v->len)
            continue;
        if (!strcmp(k->text, "tuple_args")) {
            make_tuples(n, v->text);
            continue;
        }
        size_t mark = cfx_scope_open();
        cfx_value made;
        if (!strcmp(k->text, "stack_trace"))
            made = shared(r, &r->traces, v, text_value);
        else if (!strcmp(k->text, "nn_module_stack"))
            made = shared(r, &r->stacks, v, module_stack);
        else if (!strcmp(k->text, "torch_fn"))
            made = cfx__pt2_split_text(v->text, v->text + v->len, ';');
        else if (!strcmp(k->text, "source_fn_stack"))
            made = source_stack(v);
        else if (!strcmp(k->text, "custom"))
            made = custom_value(v);
        else
            made = text_value(v);
        cfx_node_set_meta(n, k->text, made);
        cfx_scope_close(mark);
    }
}
