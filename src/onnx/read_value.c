/* Attributes of nodes as arguments of operators. */
#include "onnx.h"

#include <ctype.h>

#include "../tensor/tensor.h"

static cfx_value text_value(cfx__onnx_reader *r, cfx__slice s) {
    if (memchr(s.at ? s.at : "", 0, s.len)) {
        cfx__onnx_bad(r, "there is a zero byte in a text");
        return cfx_bad();
    }
    return cfx_string_value_n(s.at ? s.at : "", s.len);
}

/* The name of a type of elements, for attributes that have its number; in the first versions of the
 * operator set they have the name, in capitals. */
static cfx_value type_name(cfx__onnx_reader *r, const cfx__onnx_attr *a) {
    const cfx__onnx_type *t = cfx__onnx_type_numbered(a->i);
    if (t)
        return cfx_string_value(t->name);
    if (a->i == 0)
        return cfx_none();
    cfx__onnx_bad(r, "attribute '%s' is %lld, which is no type of elements", a->name,
                  (long long)a->i);
    return cfx_bad();
}

static cfx_value lowered(cfx_value v) {
    cfx__text t = {0};
    for (const char *s = cfx_text(v); s && *s; s++)
        cfx__text_putc(&t, (char)tolower((unsigned char)*s));
    cfx_value out = cfx_string_value(t.data ? t.data : "");
    cfx__text_release(&t);
    return out;
}

static cfx_value list_value(cfx__onnx_reader *r, const cfx__onnx_attr *a) {
    cfx_value out = cfx_list_value(0, NULL);
    for (size_t i = 0; i < a->n && cfx_ok(); i++)
        cfx_list_append(cfx_as_list(out), a->type == CFX__ONNX_INTS     ? cfx_int(a->ints[i])
                                          : a->type == CFX__ONNX_FLOATS
                                              ? cfx_float(cfx__number_shortest(a->floats[i]))
                                              : text_value(r, a->strings[i]));
    return cfx_ok() ? out : cfx_bad();
}

static cfx_value tensor_value(cfx__onnx_scope *s, const cfx__onnx_attr *a) {
    cfx_tensor *t = a->type == CFX__ONNX_TENSOR ? cfx__onnx_tensor(s->r, a->s, a->name)
                                                : cfx__onnx_sparse(s->r, a->s, a->name);
    const char *name = s->r->node && *s->r->node->name ? s->r->node->name : s->r->node->op;
    cfx_node *n = cfx__obj_is_bad(t)
                      ? NULL
                      : cfx__onnx_add_tensor(s, t, cfx__text_format("%s_%s", name, a->name));
    return n ? cfx_node_value(n) : cfx_bad();
}

cfx_value cfx__onnx_attr_value(cfx__onnx_scope *s, const cfx__onnx_attr *a,
                               const cfx__schema_arg *arg) {
    cfx__onnx_reader *r = s->r;
    switch (a->type) {
    case CFX__ONNX_FLOAT:
        return cfx_float(cfx__number_shortest(a->f));
    case CFX__ONNX_INT:
        return arg && arg->type == CFX__T_STR ? type_name(r, a) : cfx_int(a->i);
    case CFX__ONNX_STRING: {
        cfx_value v = text_value(r, a->s);
        return !strcmp(a->name, "to") ? lowered(v) : v;
    }
    case CFX__ONNX_FLOATS:
    case CFX__ONNX_INTS:
    case CFX__ONNX_STRINGS:
        return list_value(r, a);
    case CFX__ONNX_TENSOR:
    case CFX__ONNX_SPARSE_TENSOR:
        return tensor_value(s, a);
    case CFX__ONNX_GRAPH:
    case CFX__ONNX_GRAPHS:
        cfx__onnx_lacks(r, "attribute '%s' is a graph, and no such operator with one is known",
                        a->name);
        return cfx_bad();
    default:
        cfx__onnx_bad(r, "attribute '%s' is of a kind that is not known", a->name);
        return cfx_bad();
    }
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Numbers of an attribute as a tensor: float32 or int64, of one dimension where they are a list. */
static cfx_tensor *number_tensor(const cfx__onnx_attr *a) {
    int64_t n = (int64_t)a->n;
    switch (a->type) {
    case CFX__ONNX_FLOAT: return cfx_tensor_new(CFX_F32, 0, NULL, &a->f);
    case CFX__ONNX_INT: return cfx_tensor_new(CFX_I64, 0, NULL, &a->i);
    case CFX__ONNX_FLOATS: return cfx_tensor_new(CFX_F32, 1, &n, a->floats);
    case CFX__ONNX_INTS: return cfx_tensor_new(CFX_I64, 1, &n, a->ints);
    default: return NULL;
    }
}

cfx_tensor *cfx__onnx_constant(cfx__onnx_scope *s, const cfx__onnx_node *n) {
    const char *name = n->noutputs ? n->outputs[0] : n->name;
    if (n->nattrs != 1 || n->attrs[0].ref) {
        cfx__onnx_bad(s->r, "it has %zu values, not one", n->nattrs);
        return &cfx__tensor_bad;
    }
    const cfx__onnx_attr *a = &n->attrs[0];
    if (a->type == CFX__ONNX_TENSOR)
        return cfx__onnx_tensor(s->r, a->s, name);
    if (a->type == CFX__ONNX_SPARSE_TENSOR)
        return cfx__onnx_sparse(s->r, a->s, name);
    cfx_tensor *t = number_tensor(a);
    if (t)
        return t;
    cfx__onnx_lacks(s->r, "its value is a text, and there are no tensors of texts here");
    return &cfx__tensor_bad;
}
