/* What a node computes: the one place that reads the metadata "val". */
#include "../value/dict.h"
#include "graph.h"

#include <ctype.h>

static bool is_sequence(cfx_value v) { return v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST; }

static cfx_result of_tensor(cfx_value v) {
    const cfx_tensor *t = cfx_as_tensor(v);
    return (cfx_result){.kind = CFX_RESULT_TENSOR,
                        .value = v,
                        .dtype = (cfx_dtype)t->dtype,
                        .ndim = t->ndim,
                        .shape = t->shape,
                        .stride = t->stride,
                        .device = t->device,
                        .requires_grad = t->head.flags & CFX__GRAD};
}

/* A tensor of which some sizes are symbols, or an object of which the class is known. */
static cfx_result of_dict(cfx_value v) {
    cfx_value shape = cfx_dict_get(cfx_as_dict(v), "shape"),
              dtype = cfx_dict_get(cfx_as_dict(v), "dtype");
    cfx_value device = cfx_dict_get(cfx_as_dict(v), "device");
    cfx_value grad = cfx_dict_get(cfx_as_dict(v), "requires_grad");
    cfx_result r = {.value = v, .device = {CFX_CPU, -1}};
    if (is_sequence(shape) && dtype.tag == CFX_TAG_DTYPE) {
        r.kind = CFX_RESULT_TENSOR;
        r.dtype = cfx_as_dtype(dtype);
        r.ndim = (int)cfx_as_list(shape)->len;
        r.requires_grad = grad.tag == CFX_TAG_BOOL && cfx_integer(grad);
        if (device.tag == CFX_TAG_DEVICE)
            r.device = cfx_as_device(device);
    } else if (cfx_text(cfx_dict_get(cfx_as_dict(v), "class_fqn"))) {
        r.kind = CFX_RESULT_OBJECT;
    }
    return r;
}

/* An expression that no value holds is kept as text: a relation, or a float. */
static cfx_result_kind kind_of_text(const char *text) {
    bool relation = strpbrk(text, "<>=&|~") || !strncmp(text, "Eq(", 3) ||
                    !strncmp(text, "Ne(", 3) || !strncmp(text, "Not(", 4);
    return relation ? CFX_RESULT_BOOL : CFX_RESULT_FLOAT;
}

cfx_result cfx_result_of(cfx_value v) {
    switch ((cfx_tag)v.tag) {
    case CFX_TAG_TENSOR: return of_tensor(v);
    case CFX_TAG_DICT: return of_dict(v);
    case CFX_TAG_INT:
    case CFX_TAG_SYM: return (cfx_result){.kind = CFX_RESULT_INT, .value = v};
    case CFX_TAG_BOOL: return (cfx_result){.kind = CFX_RESULT_BOOL, .value = v};
    case CFX_TAG_FLOAT: return (cfx_result){.kind = CFX_RESULT_FLOAT, .value = v};
    case CFX_TAG_STR: return (cfx_result){.kind = kind_of_text(cfx_text(v)), .value = v};
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: return (cfx_result){.kind = CFX_RESULT_SEVERAL, .value = v};
    default: return (cfx_result){.value = v};
    }
}

cfx_result cfx_node_result(const cfx_node *n) {
    return cfx_result_of(cfx_node_get_meta(n, "val"));
}

bool cfx__input_learns(cfx_input_kind kind, cfx_dtype dtype) {
    return kind == CFX_IN_PARAMETER &&
           (cfx__dtype_is_floating(dtype) || cfx__dtype_is_complex(dtype));
}

const char *cfx__input_name(cfx_input_kind kind, const char *target) {
    cfx__text t = {0};
    cfx__text_puts(&t, kind == CFX_IN_PARAMETER ? "p_" : kind == CFX_IN_BUFFER ? "b_" : "c_");
    for (const char *p = strncmp(target, "self_", 5) ? target : target + 5; *p; p++)
        cfx__text_putc(&t, isalnum((unsigned char)*p) ? (char)tolower((unsigned char)*p) : '_');
    return cfx__text_take(&t);
}

/* The same result, wanting a gradient or not: another description, since nodes share theirs. */
static cfx_value with_grad(cfx_value v, bool wanted) {
    if (v.tag == CFX_TAG_DICT) {
        cfx_dict *d = cfx__scope_own(cfx__dict_copy(cfx_as_dict(v)));
        cfx_dict_set(d, "requires_grad", cfx_bool(wanted));
        return cfx_dict_value(d);
    }
    const cfx_tensor *t = cfx_as_tensor(v);
    cfx_tensor *other = cfx__tensor_alias(t, t->ndim, t->shape, t->stride, t->offset);
    if (wanted && !cfx__obj_is_bad(other))
        other->head.flags |= CFX__GRAD;
    return cfx_tensor_value(other);
}

void cfx__result_set_grad(cfx_node *n, bool wanted) {
    cfx_result r = cfx_node_result(n);
    if (r.kind != CFX_RESULT_TENSOR || r.requires_grad == wanted)
        return;
    cfx__node *own = cfx__node_of(n);
    const bool stale = own->stale, bare = own->bare;
    size_t mark = cfx_scope_open();
    cfx_node_set_meta(n, "val", with_grad(r.value, wanted));
    cfx_scope_close(mark);
    own->stale = stale;
    own->bare = bare;
}

void cfx__graph_settle(cfx_graph *g) {
    for (cfx_node *n = g->first; n; n = n->next)
        cfx__node_of(n)->stale = false;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Whether dim is one of r, counted from 0 then. */
static bool has_dim(const cfx_result *r, int *dim) {
    if (!r)
        return false;
    *dim += *dim < 0 ? r->ndim : 0;
    return r->kind == CFX_RESULT_TENSOR && *dim >= 0 && *dim < r->ndim;
}

cfx_value cfx_result_size(const cfx_result *r, int dim) {
    if (!has_dim(r, &dim))
        return cfx_none();
    return r->shape ? cfx_int(r->shape[dim])
                    : cfx_as_list(cfx_dict_get(cfx_as_dict(r->value), "shape"))->items[dim];
}

bool cfx__result_size_given(const cfx_node *n, cfx_value size) {
    bool given = false;
    cfx_each_input(n, u) {
        const cfx_result r = cfx_node_result(u->node);
        for (int i = 0; r.kind == CFX_RESULT_TENSOR && i < r.ndim; i++)
            given |= cfx_equal_values(cfx_result_size(&r, i), size);
    }
    return given;
}

static bool is_size(cfx_value v) { return v.tag == CFX_TAG_INT || v.tag == CFX_TAG_SYM; }

/* The product of the sizes behind a dimension; a size that no value holds stands for itself. */
static cfx_value plain_stride(const cfx_result *r, int dim) {
    cfx_value at = cfx_int(1);
    for (int i = r->ndim - 1; i > dim; i--) {
        cfx_value size = cfx_result_size(r, i);
        at = is_size(size) && is_size(at) ? cfx__sym_binary(CFX__SYM_MUL, at, size) : size;
    }
    return at;
}

cfx_value cfx_result_stride(const cfx_result *r, int dim) {
    if (!has_dim(r, &dim))
        return cfx_none();
    if (r->stride)
        return cfx_int(r->stride[dim]);
    cfx_value stride = cfx_dict_get(cfx_as_dict(r->value), "stride");
    return is_sequence(stride) && cfx_as_list(stride)->len == r->ndim
               ? cfx_as_list(stride)->items[dim]
               : plain_stride(r, dim);
}

/* ---- several --------------------------------------------------------------------------------- */

int64_t cfx_result_count(const cfx_result *r) {
    return !r ? 0 : r->kind == CFX_RESULT_SEVERAL ? cfx_as_list(r->value)->len : 1;
}

cfx_result cfx_result_item(const cfx_result *r, int64_t i) {
    if (!r)
        return (cfx_result){0};
    if (r->kind != CFX_RESULT_SEVERAL)
        return i == 0 ? *r : (cfx_result){0};
    return i >= 0 && i < cfx_as_list(r->value)->len ? cfx_result_of(cfx_as_list(r->value)->items[i])
                                            : (cfx_result){0};
}

static bool same_tensors(const cfx_result *a, const cfx_result *b) {
    if (a->dtype != b->dtype || a->ndim != b->ndim || a->device.type != b->device.type)
        return false;
    size_t mark = cfx_scope_open();
    bool same = true;
    for (int i = 0; i < a->ndim && same; i++)
        same = cfx_equal_values(cfx_result_size(a, i), cfx_result_size(b, i)) &&
               cfx_equal_values(cfx_result_stride(a, i), cfx_result_stride(b, i));
    cfx_scope_close(mark);
    return same;
}

bool cfx_result_equal(const cfx_result *a, const cfx_result *b) {
    if (!a || !b || a->kind != b->kind)
        return false;
    if (a->kind == CFX_RESULT_TENSOR)
        return same_tensors(a, b);
    if (a->kind != CFX_RESULT_SEVERAL)
        return cfx_equal_values(a->value, b->value);
    bool same = cfx_result_count(a) == cfx_result_count(b);
    for (int64_t i = 0; same && i < cfx_result_count(a); i++) {
        cfx_result x = cfx_result_item(a, i), y = cfx_result_item(b, i);
        same = cfx_result_equal(&x, &y);
    }
    return same;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void put_text(cfx__text *out, const cfx_result *r) {
    bool list = r->value.tag == CFX_TAG_LIST;
    if (r->kind == CFX_RESULT_TENSOR) {
        cfx__text_printf(out, "%s[", cfx_dtype_brief(r->dtype));
        for (int i = 0; i < r->ndim; i++)
            cfx__text_showf(out, "%s%s", i ? ", " : "", cfx_value_str(cfx_result_size(r, i)));
        cfx__text_putc(out, ']');
    } else if (r->kind == CFX_RESULT_SEVERAL) {
        cfx__text_putc(out, list ? '[' : '(');
        for (int64_t i = 0; i < cfx_result_count(r); i++) {
            cfx_result item = cfx_result_item(r, i);
            cfx__text_puts(out, i ? ", " : "");
            put_text(out, &item);
        }
        cfx__text_putc(out, list ? ']' : ')');
    } else if (r->value.tag == CFX_TAG_DICT) {
        cfx__text_printf(out, "dict of %lld", (long long)cfx_as_dict(r->value)->len);
    } else if (r->value.tag == CFX_TAG_MODULE) {
        cfx__text_showf(out, "graph %s", cfx_as_module(r->value)->type);
    } else {
        cfx__text_showf(out, "%s %s", cfx_value_type_name(r->value), cfx_value_str(r->value));
    }
}

const char *cfx_result_text(const cfx_result *r) {
    size_t mark = cfx_scope_open();
    cfx__text out = {0};
    put_text(&out, r ? r : &(cfx_result){0});
    cfx_scope_close(mark);
    return cfx__text_take(&out);
}
