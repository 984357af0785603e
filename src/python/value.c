/* Python objects as values, and values as Python objects. */
#include "python.h"

/* ---- to C ------------------------------------------------------------------------------------ */

static bool int_value(PyObject *o, cfx_value *out) {
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (i == -1 && !overflow && PyErr_Occurred())
        return false;
    *out = overflow ? cfx__py_object_value(o) : cfx_int(i);
    return true;
}

static bool text_value(PyObject *o, cfx_value *out) {
    Py_ssize_t n;
    const char *text = PyUnicode_AsUTF8AndSize(o, &n);
    if (!text) { /* half of a pair of surrogates: Python has texts that no encoding has */
        PyErr_Clear();
        *out = cfx__py_object_value(o);
        return true;
    }
    *out = cfx_string_value_n(text, (size_t)n);
    return true;
}

static bool slice_value(PyObject *o, cfx_value *out) {
    static const char *const names[] = {"start", "stop", "step"};
    cfx_value part[3];
    for (int i = 0; i < 3; i++) {
        PyObject *item = PyObject_GetAttrString(o, names[i]);
        bool good = item && cfx__py_to_value(item, &part[i]);
        Py_XDECREF(item);
        if (!good)
            return false;
    }
    *out = cfx_slice_value(part[0], part[1], part[2]);
    return true;
}

/* A list or tuple; `o` may change while its items are looked at, so they are held. */
static bool sequence_value(PyObject *o, bool list, cfx_value *out) {
    Py_ssize_t n = list ? PyList_Size(o) : PyTuple_Size(o);
    cfx_value v = cfx_list_value(0, NULL);
    for (Py_ssize_t i = 0; i < n && i < (list ? PyList_Size(o) : n); i++) {
        PyObject *item = list ? PyList_GetItem(o, i) : PyTuple_GetItem(o, i);
        cfx_value part;
        Py_INCREF(item);
        bool good = cfx__py_to_value(item, &part);
        Py_DECREF(item);
        if (!good)
            return false;
        cfx_list_append(cfx_as_list(v), part);
    }
    if (list)
        *out = v;
    else
        *out = cfx_tuple_value(cfx_as_list(v)->len, cfx_as_list(v)->items);
    return cfx_ok() || cfx__py_raise();
}

static bool dict_value(PyObject *o, cfx_value *out) {
    PyObject *items = PyDict_Items(o);
    cfx_dict *d = cfx_dict_new();
    bool good = items != NULL;
    for (Py_ssize_t i = 0; good && i < PyList_Size(items); i++) {
        PyObject *pair = PyList_GetItem(items, i);
        cfx_value key, value;
        good = cfx__py_to_value(PyTuple_GetItem(pair, 0), &key) &&
               cfx__py_to_value(PyTuple_GetItem(pair, 1), &value);
        if (good)
            cfx_dict_put(d, key, value);
    }
    Py_XDECREF(items);
    *out = cfx_dict_value(d);
    return good && (cfx_ok() || cfx__py_raise());
}

/* A NamedTuple: a tuple of a type that trees know. */
static bool named_value(PyObject *o, cfx_value *out) {
    const cfx_tree_type *type = cfx__py_tree_type((PyObject *)Py_TYPE(o));
    if (!sequence_value(o, false, out))
        return false;
    if (type)
        *out = cfx_tree_value(type, cfx_as_list(*out)->len, cfx_as_list(*out)->items);
    return cfx_ok() || cfx__py_raise();
}

static bool tuple_value(PyObject *o, cfx_value *out) {
    if (!PyTuple_CheckExact(o) && (PyObject *)Py_TYPE(o) != cfx__py.size &&
        PyObject_HasAttr((PyObject *)Py_TYPE(o), cfx__py.fields))
        return named_value(o, out);
    return sequence_value(o, false, out);
}

/* A number of numpy's as Python's, anything else as an object. */
static bool foreign_value(PyObject *o, cfx_value *out) {
    PyObject *number;
    if (!cfx__py_numpy_number(o, &number)) {
        *out = cfx__py_object_value(o);
        return true;
    }
    bool good = number && cfx__py_to_value(number, out);
    Py_XDECREF(number);
    return good;
}

/* Everything that is none of the common types. */
static bool rare_value(PyObject *o, cfx_value *out) {
    if (o == Py_Ellipsis)
        *out = cfx_ellipsis();
    else if (PyObject_TypeCheck(o, cfx__py.dtype) || PyObject_TypeCheck(o, cfx__py.device) ||
             PyObject_TypeCheck(o, cfx__py.layout) || PyObject_TypeCheck(o, cfx__py.memory_format))
        *out = cfx__py_small_value(o);
    else if (PyObject_TypeCheck(o, cfx__py.overload))
        *out = cfx_op_value(cfx__py_overload_of(o));
    else if (PyObject_TypeCheck(o, cfx__py.sym))
        *out = cfx__py_sym_value(o);
    else if (Py_TYPE(o) == &PySlice_Type)
        return slice_value(o, out);
    else if (PyComplex_Check(o))
        *out = cfx_complex_value(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o));
    else
        return foreign_value(o, out);
    return true;
}

bool cfx__py_to_value(PyObject *o, cfx_value *out) {
    if (cfx__py_is_tensor(o))
        *out = cfx_tensor_value(cfx__py_tensor_of(o));
    else if (o == Py_None)
        *out = cfx_none();
    else if (PyBool_Check(o))
        *out = cfx_bool(o == Py_True);
    else if (PyLong_Check(o))
        return int_value(o, out);
    else if (PyFloat_Check(o))
        *out = cfx_float(PyFloat_AsDouble(o));
    else if (PyUnicode_Check(o))
        return text_value(o, out);
    else if (PyObject_TypeCheck(o, cfx__py.node)) {
        if (!cfx__py_node_live(o))
            return false;
        *out = cfx_node_value(cfx__py_node_of(o));
    } else if (PyTuple_Check(o) || PyList_Check(o) || PyDict_Check(o)) {
        if (Py_EnterRecursiveCall(" while an object is handed to cfx"))
            return false;
        bool good = PyTuple_Check(o)  ? tuple_value(o, out)
                    : PyList_Check(o) ? sequence_value(o, true, out)
                                      : dict_value(o, out);
        Py_LeaveRecursiveCall();
        return good;
    } else
        return rare_value(o, out);
    return true;
}

cfx_value cfx__py_give(PyObject *result) {
    cfx_value v = cfx_bad();
    size_t mark = cfx_scope_open();
    if (!result || !cfx__py_to_value(result, &v)) {
        v = cfx_bad();
        cfx__py_caught();
    }
    v = cfx_scope_return_value(mark, v); /* the object may be the last that holds it */
    Py_XDECREF(result);
    return v;
}

/* ---- from C ---------------------------------------------------------------------------------- */

static PyObject *plain(cfx_value v, PyObject *unused) {
    (void)unused;
    return cfx__py_from_value(v);
}
static PyObject *frozen_item(cfx_value v, PyObject *unused) {
    (void)unused;
    return cfx__py_from_frozen(v);
}

static PyObject *from_items(const cfx_list *l, bool list, cfx__py_item_fn *fn, PyObject *user) {
    PyObject *o = list ? PyList_New((Py_ssize_t)l->len) : PyTuple_New((Py_ssize_t)l->len);
    for (int64_t i = 0; o && i < l->len; i++) {
        PyObject *item = fn(l->items[i], user);
        if (!item) {
            Py_DECREF(o);
            return NULL;
        }
        if (list)
            PyList_SetItem(o, (Py_ssize_t)i, item);
        else
            PyTuple_SetItem(o, (Py_ssize_t)i, item);
    }
    return o;
}

static PyObject *from_dict(const cfx_dict *d, cfx__py_item_fn *fn, PyObject *user) {
    PyObject *o = PyDict_New();
    for (int64_t i = 0; o && i < d->len; i++) {
        PyObject *key = cfx__py_from_value(d->entries[i].key);
        PyObject *value = key ? fn(d->entries[i].value, user) : NULL;
        if (!value || PyDict_SetItem(o, key, value) < 0)
            Py_CLEAR(o);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return o;
}

/* What the class makes of a plain one, which is let go. */
static PyObject *made_of(PyObject *class_, PyObject *plain) {
    if (!class_ || !plain)
        return plain;
    PyObject *o = PyObject_CallFunctionObjArgs(class_, plain, NULL);
    Py_DECREF(plain);
    return o;
}

static PyObject *from_tuple(cfx_value v, cfx__py_item_fn *fn, PyObject *user) {
    PyObject *items = from_items(cfx_as_list(v), false, fn, user);
    PyObject *class_ = v.spare && items ? cfx__py_tree_class(cfx_tree_type_of(v)) : NULL;
    if (!class_)
        return items;
    PyObject *o = PyObject_Call(class_, items, NULL);
    Py_DECREF(items);
    return o;
}

static PyObject *from_slice(const cfx_slice *s, cfx__py_item_fn *fn, PyObject *user) {
    PyObject *start = fn(s->start, user), *stop = start ? fn(s->stop, user) : NULL;
    PyObject *step = stop ? fn(s->step, user) : NULL, *o = NULL;
    if (step)
        o = PySlice_New(start, stop, step);
    Py_XDECREF(start);
    Py_XDECREF(stop);
    Py_XDECREF(step);
    return o;
}

PyObject *cfx__py_map_value(cfx_value v, cfx__py_item_fn *fn, PyObject *user) {
    return v.tag == CFX_TAG_TUPLE  ? from_tuple(v, fn, user)
           : v.tag == CFX_TAG_DICT ? from_dict(cfx_as_dict(v), fn, user)
           : v.tag == CFX_TAG_LIST ? from_items(cfx_as_list(v), true, fn, user)
                                   : from_slice(cfx_as_slice(v), fn, user);
}

static PyObject *new_reference(PyObject *o) {
    Py_XINCREF(o);
    return o;
}

static PyObject *from_value(cfx_value v, bool frozen) {
    switch ((cfx_tag)v.tag) {
    case CFX_TAG_TENSOR: return cfx__py_from_tensor(cfx_as_tensor(v));
    case CFX_TAG_NONE: return new_reference(Py_None);
    case CFX_TAG_BOOL:
        return v.spare ? cfx__py_from_sym(v) : PyBool_FromLong(cfx_as_bool(v));
    case CFX_TAG_INT:
        return v.spare ? cfx__py_from_sym(v) : PyLong_FromLongLong(cfx_as_int(v));
    case CFX_TAG_FLOAT:
        return v.spare ? cfx__py_from_sym(v) : PyFloat_FromDouble(cfx_as_float(v));
    case CFX_TAG_STR: {
        const char *text = cfx_text(v);
        return PyUnicode_DecodeUTF8(text, (Py_ssize_t)cfx_text_length(v), "surrogateescape");
    }
    case CFX_TAG_COMPLEX:
        return PyComplex_FromDoubles(cfx_as_complex(v)->re, cfx_as_complex(v)->im);
    case CFX_TAG_DTYPE:
    case CFX_TAG_DEVICE:
    case CFX_TAG_LAYOUT:
    case CFX_TAG_MEMORY_FORMAT: return cfx__py_from_small(v);
    case CFX_TAG_ELLIPSIS: return new_reference(Py_Ellipsis);
    case CFX_TAG_OP: return cfx__py_from_op(cfx_as_op(v));
    case CFX_TAG_NODE: return cfx__py_from_node(cfx_as_node(v));
    case CFX_TAG_SYM: return cfx__py_from_sym(v);
    case CFX_TAG_MODULE: return cfx__py_from_module(cfx_as_module(v));
    case CFX_TAG_OBJECT: {
        PyObject *o = cfx__py_object_of(v);
        return o ? new_reference(o) : cfx__py_text(cfx_value_repr(v));
    }
    case CFX_TAG_SLICE:
    case CFX_TAG_TUPLE: return cfx__py_map_value(v, frozen ? frozen_item : plain, NULL);
    case CFX_TAG_LIST:
        return made_of(frozen ? cfx__py.immutable_list : NULL,
                       cfx__py_map_value(v, frozen ? frozen_item : plain, NULL));
    case CFX_TAG_DICT:
        return made_of(frozen ? cfx__py.immutable_dict : NULL,
                       cfx__py_map_value(v, frozen ? frozen_item : plain, NULL));
    case CFX_TAG_KEYWORD:
    case CFX_TAG_BAD: break;
    }
    if (!PyErr_Occurred() && cfx__py_raise())
        PyErr_SetString(PyExc_RuntimeError, "a call of cfx gave no value");
    return NULL;
}

PyObject *cfx__py_from_value(cfx_value v) { return from_value(v, false); }
PyObject *cfx__py_from_frozen(cfx_value v) { return from_value(v, true); }

/* ---- arguments ------------------------------------------------------------------------------- */

bool cfx__py_to_args(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, cfx_value *room,
                     cfx_args *out) {
    Py_ssize_t n = nargs + (kwnames ? PyTuple_Size(kwnames) : 0);
    if (n > CFX_MAX_ARGS) { /* room for more of them, which dies with the scope */
        cfx_value list = cfx_list_value(0, NULL);
        for (Py_ssize_t i = 0; i < n; i++)
            cfx_list_append(cfx_as_list(list), cfx_none());
        room = cfx_as_list(list)->items;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!cfx__py_to_value(args[i], &room[i]))
            return false;
        if (i >= nargs) {
            const char *name = cfx__py_utf8(PyTuple_GetItem(kwnames, i - nargs));
            if (!name)
                return false;
            room[i] = cfx_keyword_value(name, room[i]);
        }
    }
    *out = (cfx_args){(int)n, room, NULL};
    return true;
}

bool cfx__py_to_args_of(PyObject *args, PyObject *kwargs, cfx_args *out) {
    cfx_value list, kw = cfx_none();
    if (!sequence_value(args, false, &list) || (kwargs && !dict_value(kwargs, &kw)))
        return false;
    *out = (cfx_args){(int)cfx_as_list(list)->len, cfx_as_list(list)->items,
                      kwargs && cfx_as_dict(kw)->len ? cfx_as_dict(kw) : NULL};
    return true;
}

bool cfx__py_from_args(cfx_args a, PyObject **args, PyObject **kwargs) {
    cfx_list positional = {.len = a.n, .items = (cfx_value *)a.v};
    *kwargs = NULL;
    *args = from_items(&positional, false, plain, NULL);
    if (*args && a.kw && !(*kwargs = from_dict(a.kw, plain, NULL)))
        Py_CLEAR(*args);
    return *args != NULL;
}
