/* What Python itself does with a value in a traced program: x[...], x.shape, assert. These are rows
 * like any other, in a namespace of their own; dispatch modes see the operators they are made of.
 */
#include <cfx/ops.h>

#include "../ops.h"

#include <string.h>

/* ---- indexing -------------------------------------------------------------------------------- */

typedef struct {
    cfx_op_call *call;
    cfx_tensor *t;     /* indexed so far */
    int dim;           /* the next dimension of t to be indexed */
    cfx_value indices; /* tensors for aten.index, None where there is none */
    bool any;          /* indices has a tensor */
} indexing;

static bool is_mask(const cfx_tensor *t) { return t->dtype == CFX_BOOL || t->dtype == CFX_U8; }

/* A tensor that Python's indexing makes of numbers; where calls are recorded it is now, before what
 * is done with it. */
static cfx_tensor *literal(cfx_tensor *t) {
    if (cfx__obj_is_bad(t) || !cfx__dispatcher()->recorder)
        return t;
    t->head.flags |= CFX__LITERAL;
    return cfx_lift_fresh(t);
}

/* How many dimensions an index takes: a mask takes as many as it has, None and ... take none. */
static int takes(cfx_value v) {
    switch (v.tag) {
    case CFX_TAG_NONE:
    case CFX_TAG_ELLIPSIS:
    case CFX_TAG_BOOL: return 0;
    case CFX_TAG_TENSOR: return is_mask(cfx_as_tensor(v)) ? cfx_as_tensor(v)->ndim : 1;
    default: return 1;
    }
}

static void take_tensor(indexing *x, cfx_tensor *index) {
    while (cfx_as_list(x->indices)->len < x->dim)
        cfx_list_append(cfx_as_list(x->indices), cfx_none());
    cfx_list_append(cfx_as_list(x->indices), cfx_tensor_value(index));
    x->any = true;
    x->dim++;
}

/* An end of a slice; PyTorch says those that are left out too. */
static cfx_value given_or(cfx_value end, int64_t otherwise) {
    return cfx_is_none(end) ? cfx_int(otherwise) : end;
}

static void take_slice(indexing *x, const cfx_slice *s) {
    bool whole = cfx_is_none(s->start) && cfx_is_none(s->stop) && cfx_is_none(s->step);
    if (!whole)
        x->t = cfx_slice(x->t, x->dim, given_or(s->start, 0), given_or(s->stop, INT64_MAX),
                         given_or(s->step, 1));
    x->dim++;
}

/* PyTorch's words for a number that is too large; those of select are others. A number that only
 * running tells is not looked at. */
static void take_int(indexing *x, cfx_value v) {
    const bool has = x->dim < x->t->ndim && !cfx__value_mark(v);
    const int64_t i = has ? cfx_integer(v) : 0, size = has ? x->t->shape[x->dim] : -1;
    if (cfx_ok() && size >= 0 && (i >= size || i < -size))
        op_fail_as(INDEX, x->call, "index %lld is out of bounds for dimension %d with size %lld",
                   (long long)i, x->dim, (long long)size);
    else
        x->t = cfx_select(x->t, x->dim, v);
}

static void take(indexing *x, cfx_value v, int left) {
    switch (v.tag) {
    case CFX_TAG_INT: take_int(x, v); break;
    case CFX_TAG_SLICE: take_slice(x, cfx_as_slice(v)); break;
    case CFX_TAG_NONE: x->t = cfx_unsqueeze(x->t, x->dim++); break;
    case CFX_TAG_ELLIPSIS: x->dim += left; break;
    case CFX_TAG_BOOL:
        x->t = cfx_unsqueeze(x->t, x->dim);
        take_tensor(x, literal(cfx_tensor_from_value(cfx_list_value(1, &v))));
        break;
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: take_tensor(x, literal(cfx_tensor_from_value(v))); break;
    case CFX_TAG_TENSOR:
        if (cfx_as_tensor(v)->ndim == 0 && cfx_as_tensor(v)->data &&
            cfx__dtype_is_int(cfx_as_tensor(v)->dtype))
            x->t = cfx_select(x->t, x->dim, cfx__tensor_get(cfx_as_tensor(v), 0));
        else if (cfx_as_tensor(v)->ndim == 0 && is_mask(cfx_as_tensor(v))) {
            x->t = cfx_unsqueeze(x->t, x->dim);
            take_tensor(x, cfx_as_tensor(v));
        } else {
            take_tensor(x, cfx_as_tensor(v));
        }
        break;
    case CFX_TAG_STR: op_fail_as(TYPE, x->call, "new(): invalid data type 'str'"); break;
    default:
        op_fail_as(INDEX, x->call,
                   "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables "
                   "are valid indices (got %s)",
                   cfx_value_type_name(v));
    }
}

/* The parts of an index that are views, then the tensors that are left for aten.index. */
static indexing walk(cfx_op_call *c, cfx_tensor *t, cfx_value key) {
    indexing x = {.call = c, .t = t, .indices = cfx_list_value(0, NULL)};
    bool many = key.tag == CFX_TAG_TUPLE;
    int64_t n = many ? cfx_as_list(key)->len : 1;
    int left = t->ndim;
    for (int64_t i = 0; i < n; i++)
        left -= takes(many ? cfx_as_list(key)->items[i] : key);
    if (left < 0) {
        op_fail_as(INDEX, c, "too many indices for tensor of dimension %d", t->ndim);
        x.t = &cfx__tensor_bad;
        return x;
    }
    for (int64_t i = 0; i < n && !op_failed(); i++) {
        cfx_value v = many ? cfx_as_list(key)->items[i] : key;
        if (v.tag == CFX_TAG_INT && t->ndim == 0) {
            op_fail_as(INDEX, c,
                       "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                       "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number");
            break;
        }
        take(&x, v, left);
    }
    return x;
}

static cfx_value sequence_item(cfx_op_call *c, cfx_value v, cfx_value key) {
    const char *kind = v.tag == CFX_TAG_TUPLE ? "tuple" : "list";
    if (key.tag == CFX_TAG_INT || key.tag == CFX_TAG_BOOL) {
        int64_t i = cfx_integer(key), n = cfx_as_list(v)->len;
        if (i >= -n && i < n)
            return cfx_as_list(v)->items[i < 0 ? i + n : i];
        op_fail_as(INDEX, c, "%s index out of range", kind);
        return cfx_bad();
    }
    if (key.tag == CFX_TAG_SLICE) {
        int64_t n = cfx_as_list(v)->len;
        int64_t step =
            cfx_is_none(cfx_as_slice(key)->step) ? 1 : cfx_integer(cfx_as_slice(key)->step);
        int64_t from =
            cfx_is_none(cfx_as_slice(key)->start) ? 0 : cfx_integer(cfx_as_slice(key)->start);
        int64_t to =
            cfx_is_none(cfx_as_slice(key)->stop) ? n : cfx_integer(cfx_as_slice(key)->stop);
        if (step < 1) {
            op_fail_as(VALUE, c, "slice step must be positive here, not %lld", (long long)step);
            return cfx_bad();
        }
        from = from < 0 ? (from + n < 0 ? 0 : from + n) : from > n ? n : from;
        to = to < 0 ? (to + n < 0 ? 0 : to + n) : to > n ? n : to;
        cfx_value part =
            v.tag == CFX_TAG_TUPLE ? cfx_tuple_value(0, NULL) : cfx_list_value(0, NULL);
        for (int64_t i = from; i < to; i += step)
            cfx_list_append(cfx_as_list(part), cfx_as_list(v)->items[i]);
        return part;
    }
    op_fail_as(TYPE, c, "%s indices must be integers or slices, not %s", kind,
               cfx_value_type_name(key));
    return cfx_bad();
}

static void getitem(cfx_op_call *c) {
    cfx_value v = c->args[0], key = c->args[1];
    c->result = cfx_bad();
    if (v.tag == CFX_TAG_TENSOR) {
        indexing x = walk(c, cfx_as_tensor(v), key);
        if (x.any)
            x.t = cfx_index(x.t, x.indices);
        else if (x.t == cfx_as_tensor(v))
            x.t = cfx_alias(x.t);
        c->result = cfx_tensor_value(x.t);
    } else if (v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST) {
        c->result = sequence_item(c, v, key);
    } else if (v.tag == CFX_TAG_DICT) {
        const cfx_value *found = cfx_dict_find(cfx_as_dict(v), key);
        if (found)
            c->result = *found;
        else
            op_fail_as(KEY, c, "%s", cfx_value_repr(key));
    } else {
        op_fail_as(TYPE, c, "'%s' object is not subscriptable", cfx_value_type_name(v));
    }
}

/* t without its first dimensions, as far as they are 1. */
static cfx_tensor *without_ones(cfx_tensor *t) {
    int first = 0;
    while (first < t->ndim && t->shape[first] == 1)
        first++;
    return cfx_view(t, cfx_ints_value(t->ndim - first, t->shape + first));
}

/* The calls by which PyTorch assigns to a view. */
static void assign(cfx_tensor *to, cfx_tensor *value) {
    if (cfx__tensor_same_shape(to, value)) {
        cfx_copy_(to, value);
    } else if (value->ndim == 0) {
        cfx_fill_(to, value);
    } else {
        value = without_ones(value);
        cfx_copy_(to, cfx__tensor_same_shape(to, value)
                          ? value
                          : cfx_expand(value, cfx_ints_value(to->ndim, to->shape)));
    }
}

static void setitem(cfx_op_call *c) {
    cfx_value v = c->args[0], value = c->args[2];
    c->result = cfx_none();
    if (v.tag != CFX_TAG_TENSOR) {
        op_fail_as(TYPE, c, "'%s' object does not support item assignment", cfx_value_type_name(v));
        return;
    }
    if (value.tag != CFX_TAG_TENSOR && !cfx_is_number(value)) {
        op_fail_as(TYPE, c, "can't assign a %s to a torch.%sTensor", cfx__value_python_type(value),
                   cfx__dtype_title(cfx_as_tensor(v)->dtype));
        return;
    }
    if (value.tag != CFX_TAG_TENSOR)
        value =
            cfx_tensor_value(literal(cfx__tensor_scalar(value, cfx_as_tensor(v)->dtype)));
    indexing x = walk(c, cfx_as_tensor(v), c->args[1]);
    if (op_failed())
        return;
    cfx_tensor *t = cfx_as_tensor(value);
    if (!x.any)
        assign(x.t, t);
    else
        cfx_index_put_(x.t, x.indices, t->ndim && t->shape[0] == 1 ? without_ones(t) : t);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static cfx_value shape_of(const cfx_tensor *t) {
    cfx_value shape = cfx_ints_value(t->ndim, t->shape);
    shape.tag = CFX_TAG_TUPLE;
    return shape;
}

static void get_attribute(cfx_op_call *c) {
    cfx_value v = c->args[0];
    const char *name = cfx_text(c->args[1]);
    c->result = cfx_bad();
    if (v.tag != CFX_TAG_TENSOR || !name) {
        op_fail_as(ATTRIBUTE, c, "'%s' object has no attribute '%s'", cfx_value_type_name(v),
                   name ? name : "?");
        return;
    }
    cfx_tensor *t = cfx_as_tensor(v);
    if (!strcmp(name, "shape"))
        c->result = shape_of(t);
    else if (!strcmp(name, "dtype"))
        c->result = cfx_dtype_value(t->dtype);
    else if (!strcmp(name, "device"))
        c->result = cfx_device_value(t->device);
    else if (!strcmp(name, "ndim"))
        c->result = cfx_int(t->ndim);
    else if (!strcmp(name, "requires_grad"))
        c->result = cfx_bool(t->head.flags & CFX__GRAD);
    else if (!strcmp(name, "T"))
        c->result = cfx_tensor_value(cfx_numpy_T(t));
    else
        op_fail_as(ATTRIBUTE, c, "'Tensor' object has no attribute '%s'", name);
}

static void length(cfx_op_call *c) {
    cfx_value v = c->args[0];
    c->result = cfx_bad();
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        c->result = cfx_int(cfx_as_list(v)->len);
    else if (v.tag == CFX_TAG_DICT)
        c->result = cfx_int(cfx_as_dict(v)->len);
    else if (v.tag == CFX_TAG_STR)
        c->result = cfx_int((int64_t)cfx_as_string(v)->len);
    else if (v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->ndim)
        c->result = cfx_int(cfx_as_tensor(v)->shape[0]);
    else if (v.tag == CFX_TAG_TENSOR)
        op_fail_as(TYPE, c, "len() of a 0-d tensor");
    else
        op_fail_as(TYPE, c, "object of type '%s' has no len()", cfx_value_type_name(v));
}

static void assertion(cfx_op_call *c) {
    cfx_value v = c->args[0];
    c->result = cfx_none();
    bool holds = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v)->numel == 1 && cfx_as_tensor(v)->data &&
                                               cfx_number(cfx__tensor_get(cfx_as_tensor(v), 0)) != 0
                                         : cfx_number(v) != 0;
    if (!holds)
        op_fail_as(ASSERTION, c, "%s", cfx_text(c->args[1]) ? cfx_text(c->args[1]) : "");
}

static void assert_is_none(cfx_op_call *c) {
    c->result = cfx_none();
    if (!arg_is_none(c, 0))
        op_fail_as(ASSERTION, c, "%s", cfx_text(c->args[1]) ? cfx_text(c->args[1]) : "");
}

/* ---- a += b ---------------------------------------------------------------------------------- */

/* What a tensor does in place, and anything else as a new value. */
static void assign_operator(cfx_op_call *c) {
    const cfx_fn *fn = c->op->row;
    cfx_args a = {2, c->args, NULL};
    if (c->args[0].tag == CFX_TAG_TENSOR && fn != &cfx_fn_matmul)
        c->result = cfx_tensor_value(cfx_fn_call_inplace_from(c->at, fn, a));
    else
        c->result = cfx_fn_call_from(c->at, fn, a);
}

static void concatenate(cfx_op_call *c) {
    cfx_value a = c->args[0], b = c->args[1];
    bool lists = a.tag == b.tag && (a.tag == CFX_TAG_LIST || a.tag == CFX_TAG_TUPLE);
    if (!lists) {
        op_fail_as(TYPE, c, "'%s' object can't be concatenated", cfx_value_type_name(a));
        c->result = cfx_bad();
        return;
    }
    c->result = a.tag == CFX_TAG_LIST ? cfx_list_value(arg_count(c, 0), cfx_as_list(a)->items)
                                      : cfx_tuple_value(arg_count(c, 0), cfx_as_list(a)->items);
    for (int64_t i = 0; i < arg_count(c, 1); i++)
        cfx_list_append(cfx_as_list(c->result), cfx_as_list(b)->items[i]);
}

/* n / x, as a tensor divides a number. */
static void divide_number(cfx_op_call *c) {
    c->result = cfx_tensor_value(cfx_mul(cfx_reciprocal(c->args[0]), c->args[1]));
}

#define ASSIGNS(fn) .decompose = assign_operator, .row = &cfx_fn_##fn, .effects = CFX_COMPOSITE

CFX_FAMILY(MATH);
CFX_OP(python_rtruediv) = {"python::rtruediv(t x, t n) -> t", "Tensor.__rdiv__",
                           .decompose = divide_number, .effects = CFX_COMPOSITE};
CFX_OP(python_iadd) = {"python::iadd(t a, t b) -> t", "operator.iadd", ASSIGNS(add)};
CFX_OP(python_isub) = {"python::isub(t a, t b) -> t", "operator.isub", ASSIGNS(sub)};
CFX_OP(python_imul) = {"python::imul(t a, t b) -> t", "operator.imul", ASSIGNS(mul)};
CFX_OP(python_itruediv) = {"python::itruediv(t a, t b) -> t", "operator.itruediv", ASSIGNS(div)};
CFX_OP(python_ifloordiv) = {"python::ifloordiv(t a, t b) -> t", "operator.ifloordiv",
                            ASSIGNS(floor_divide)};
CFX_OP(python_imod) = {"python::imod(t a, t b) -> t", "operator.imod", ASSIGNS(remainder)};
CFX_OP(python_ipow) = {"python::ipow(t a, t b) -> t", "operator.ipow", ASSIGNS(pow)};
CFX_OP(python_imatmul) = {"python::imatmul(t a, t b) -> t", "operator.imatmul", ASSIGNS(matmul)};
CFX_OP(python_iand) = {"python::iand(t a, t b) -> t", "operator.iand", ASSIGNS(bitwise_and)};
CFX_OP(python_ior) = {"python::ior(t a, t b) -> t", "operator.ior", ASSIGNS(bitwise_or)};
CFX_OP(python_ixor) = {"python::ixor(t a, t b) -> t", "operator.ixor", ASSIGNS(bitwise_xor)};
CFX_OP(python_ilshift) = {"python::ilshift(t a, t b) -> t", "operator.ilshift",
                          ASSIGNS(bitwise_left_shift)};
CFX_OP(python_irshift) = {"python::irshift(t a, t b) -> t", "operator.irshift",
                          ASSIGNS(bitwise_right_shift)};
CFX_OP(python_iconcat) = {"python::iconcat(t a, t b) -> t", "operator.iconcat",
                          .decompose = concatenate, .effects = CFX_COMPOSITE};

CFX_FAMILY(VIEW);
CFX_OP(python_getitem) = {"python::getitem(t obj, t key) -> t", "operator.getitem",
                          .decompose = getitem, .effects = CFX_COMPOSITE};
CFX_OP(python_setitem) = {"python::setitem(t obj, t key, t value) -> t", "operator.setitem",
                          .decompose = setitem, .effects = CFX_COMPOSITE | CFX_SIDE};
CFX_OP(python_getattr) = {"python::getattr(t obj, str name) -> t", "builtins.getattr",
                          .decompose = get_attribute, .effects = CFX_COMPOSITE};
CFX_OP(python_len) = {"python::len(t obj) -> t", "builtins.len", .decompose = length,
                      .effects = CFX_COMPOSITE};
CFX_FAMILY(CHECK);
CFX_OP(python__assert) = {"python::_assert(t condition, str message) -> t", "torch._assert",
                          .decompose = assertion, .effects = CFX_COMPOSITE | CFX_SIDE};
CFX_OP(python__assert_is_none) = {"python::_assert_is_none(t value, str message) -> t",
                                  "torch.fx._symbolic_trace._assert_is_none",
                                  .decompose = assert_is_none,
                                  .effects = CFX_COMPOSITE | CFX_SIDE};
