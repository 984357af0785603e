/* Python's operators on tensors. Each is a method of theirs by its name, so that overrides and
 * modes see what they see in PyTorch. */
#include "python.h"

/* The functions that operators call, made at their first use: one for a tensor on the left side,
 * one for a tensor on the right side alone. Borrowed. */
static PyObject *function_at(int slot, int side, const char *path) {
    PyObject **place = &cfx__py.operators[slot][side];
    const char *dot = strrchr(path, '.');
    if (*place)
        return *place;
    if (!strncmp(path, "Tensor.__", 9)) /* 2: a method, which is looked up by its path alone */
        *place = PyObject_CallMethod(cfx__py.module_object, "function", "ssi", path, dot + 1, 2);
    else if (!strncmp(path, "Tensor.", 7))
        *place = PyObject_CallMethod(cfx__py.module_object, "method", "s", dot + 1);
    else
        *place = PyObject_CallMethod(cfx__py.module_object, "function", "ssi", path, dot + 1, 1);
    return *place;
}

/* A TypeError says that this side does not know the other: Python then asks that. */
static PyObject *or_not_implemented(PyObject *result) {
    if (result || !PyErr_ExceptionMatches(PyExc_TypeError))
        return result;
    PyErr_Clear();
    Py_RETURN_NOTIMPLEMENTED;
}

static PyObject *call1(int slot, const char *path, PyObject *a) {
    PyObject *f = function_at(slot, 0, path);
    PyObject *o = f ? PyObject_CallFunctionObjArgs(f, a, NULL) : NULL;
    if (!o && slot == CFX__PY_nb_invert && PyErr_ExceptionMatches(PyExc_NotImplementedError))
        PyErr_SetString(PyExc_TypeError, "~ (operator.invert) is only implemented on integer and "
                                         "Boolean-type tensors");
    return o;
}

static PyObject *call2(int slot, int side, const char *path, PyObject *a, PyObject *b) {
    PyObject *f = function_at(slot, side, path);
    return f ? PyObject_CallFunctionObjArgs(f, a, b, NULL) : NULL;
}

/* Tensor.__getitem__ or the like, as overrides see it. */
static PyObject *overridden(const char *name, PyObject *const *args, Py_ssize_t n) {
    PyObject *method = PyObject_GetAttrString(cfx__py.tensor_class, name);
    PyObject *o = method ? cfx__py_override(method, args, n, NULL) : NULL;
    Py_XDECREF(method);
    return o;
}

/* What overrides are told an operator is, with a tensor on the left side, and on the right side
 * alone; NULL: its method. */
static const char *const told[CFX__PY_SLOTS][2] = {
    [CFX__PY_nb_invert] = {"__invert__", NULL},
    [CFX__PY_nb_add] = {NULL, "add"},
    [CFX__PY_nb_subtract] = {NULL, "__rsub__"},
    [CFX__PY_nb_multiply] = {NULL, "mul"},
    [CFX__PY_nb_true_divide] = {NULL, "__rtruediv__"},
    [CFX__PY_nb_floor_divide] = {"__floordiv__", "__rfloordiv__"},
    [CFX__PY_nb_remainder] = {NULL, "__rmod__"},
    [CFX__PY_nb_matrix_multiply] = {NULL, "__rmatmul__"},
    [CFX__PY_nb_and] = {"__and__", "bitwise_and"},
    [CFX__PY_nb_or] = {"__or__", "bitwise_or"},
    [CFX__PY_nb_xor] = {"__xor__", "bitwise_xor"},
    [CFX__PY_nb_lshift] = {"__lshift__", "__rlshift__"},
    [CFX__PY_nb_rshift] = {"__rshift__", "__rrshift__"},
    [CFX__PY_nb_inplace_and] = {"__iand__", NULL},
    [CFX__PY_nb_inplace_or] = {"__ior__", NULL},
    [CFX__PY_nb_inplace_xor] = {"__ixor__", NULL},
    [CFX__PY_nb_inplace_lshift] = {"__ilshift__", NULL},
    [CFX__PY_nb_inplace_rshift] = {"__irshift__", NULL},
    [CFX__PY_nb_power] = {NULL, "__rpow__"},
};

/* x + y by the method of x; 1 + y as Python's operator, which knows what numbers do. */
static PyObject *binary(int slot, const char *method, const char *operator_, PyObject *a,
                        PyObject *b) {
    PyObject *x = cfx__py_operand(a), *y = x ? cfx__py_operand(b) : NULL, *result = NULL;
    bool right = y && !cfx__py_is_tensor(x);
    PyObject *const args[] = {right ? y : x, right ? x : y};
    if (y && told[slot][right] && cfx__py_is_overridden(args, 2))
        result = overridden(told[slot][right], args, 2);
    else if (y && cfx__py_is_tensor(x))
        result = call2(slot, 0, method, x, y);
    else if (y)
        result = call2(slot, 1, operator_, x, y);
    Py_XDECREF(x);
    Py_XDECREF(y);
    return or_not_implemented(result);
}

#define UNARY(slot, method)                                                                        \
    PyObject *cfx__py_##slot(PyObject *a) {                                                        \
        if (told[CFX__PY_##slot][0] && cfx__py_is_overridden(&a, 1))                               \
            return overridden(told[CFX__PY_##slot][0], &a, 1);                                     \
        return call1(CFX__PY_##slot, "Tensor." method, a);                                         \
    }
#define BINARY(slot, method, operator_)                                                            \
    PyObject *cfx__py_##slot(PyObject *a, PyObject *b) {                                           \
        return binary(CFX__PY_##slot, "Tensor." method, "operator." operator_, a, b);              \
    }
#define POWER(slot, method, operator_)                                                             \
    PyObject *cfx__py_##slot(PyObject *a, PyObject *b, PyObject *modulus) {                        \
        if (modulus != Py_None)                                                                    \
            Py_RETURN_NOTIMPLEMENTED;                                                              \
        return binary(CFX__PY_##slot, "Tensor." method, "operator." operator_, a, b);              \
    }
CFX__PY_OPERATORS(UNARY, BINARY, POWER)

PyObject *cfx__py_nb_positive(PyObject *a) {
    Py_INCREF(a);
    return a;
}

PyObject *cfx__py_compare(PyObject *a, PyObject *b, int op) {
    static const char *const methods[] = {[Py_LT] = "Tensor.lt", [Py_LE] = "Tensor.le",
                                          [Py_EQ] = "Tensor.eq", [Py_NE] = "Tensor.ne",
                                          [Py_GT] = "Tensor.gt", [Py_GE] = "Tensor.ge"};
    PyObject *other = cfx__py_operand(b), *const args[] = {a, other};
    if (other && op == Py_EQ && cfx__py_is_overridden(&a, 1)) {
        PyObject *o = overridden("__eq__", args, 2);
        Py_DECREF(other);
        return or_not_implemented(o);
    }
    PyObject *result = other ? call2(CFX__PY_compare + op, 0, methods[op], a, other) : NULL;
    Py_XDECREF(other);
    return or_not_implemented(result);
}

/* ---- items ----------------------------------------------------------------------------------- */

PyObject *cfx__py_getitem(PyObject *self, PyObject *key) {
    PyObject *const args[] = {self, key};
    if (cfx__py_is_overridden(args, 2))
        return overridden("__getitem__", args, 2);
    PyObject *plain = cfx__py_key(key);
    PyObject *o = plain ? call2(CFX__PY_getitem, 0, "operator.getitem", self, plain) : NULL;
    Py_XDECREF(plain);
    return o;
}

int cfx__py_setitem(PyObject *self, PyObject *key, PyObject *value) {
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items");
        return -1;
    }
    PyObject *const args[] = {self, key, value};
    if (cfx__py_is_overridden(args, 3)) {
        PyObject *none = overridden("__setitem__", args, 3);
        Py_XDECREF(none);
        return none ? 0 : -1;
    }
    PyObject *f = function_at(CFX__PY_setitem, 0, "operator.setitem");
    PyObject *plain = f ? cfx__py_key(key) : NULL;
    PyObject *o = plain ? PyObject_CallFunctionObjArgs(f, self, plain, value, NULL) : NULL;
    Py_XDECREF(plain);
    Py_XDECREF(o);
    return o ? 0 : -1;
}

Py_ssize_t cfx__py_length(PyObject *self) {
    const cfx_tensor *t = cfx__py_tensor_of(self);
    if (cfx__py_is_overridden(&self, 1)) {
        PyObject *n = overridden("__len__", &self, 1);
        Py_ssize_t length = n ? PyNumber_AsSsize_t(n, PyExc_OverflowError) : -1;
        Py_XDECREF(n);
        return length;
    }
    if (cfx_tensor_ndim(t))
        return (Py_ssize_t)cfx_tensor_shape(t)[0];
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static PyObject *item(PyObject *self) { return call1(CFX__PY_item, "Tensor.item", self); }

int cfx__py_is_true(PyObject *self) {
    const cfx_tensor *t = cfx__py_tensor_of(self);
    int truth = -1;
    if (cfx__py_is_overridden(&self, 1)) {
        PyObject *o = overridden("__bool__", &self, 1);
        truth = o ? PyObject_IsTrue(o) : -1;
        Py_XDECREF(o);
        return truth;
    }
    if (cfx_tensor_numel(t) != 1) {
        PyErr_SetString(PyExc_RuntimeError,
                        cfx_tensor_numel(t)
                            ? "Boolean value of Tensor with more than one value is ambiguous"
                            : "Boolean value of Tensor with no values is ambiguous");
        return -1;
    }
    PyObject *number = item(self);
    if (number)
        truth = PyObject_IsTrue(number);
    Py_XDECREF(number);
    return truth;
}

/* The number of a tensor that has but one. */
static PyObject *only(PyObject *self) {
    if (cfx_tensor_numel(cfx__py_tensor_of(self)) == 1)
        return item(self);
    PyErr_SetString(PyExc_ValueError,
                    "only one element tensors can be converted to Python scalars");
    return NULL;
}

PyObject *cfx__py_int(PyObject *self) {
    if (cfx__py_is_overridden(&self, 1))
        return overridden("__int__", &self, 1);
    PyObject *number = only(self), *whole = number ? PyNumber_Long(number) : NULL;
    Py_XDECREF(number);
    return whole;
}

PyObject *cfx__py_float(PyObject *self) {
    if (cfx__py_is_overridden(&self, 1))
        return overridden("__float__", &self, 1);
    PyObject *number = only(self), *real = number ? PyNumber_Float(number) : NULL;
    Py_XDECREF(number);
    return real;
}

PyObject *cfx__py_index(PyObject *self) {
    if (cfx__py_is_overridden(&self, 1))
        return overridden("__index__", &self, 1);
    cfx_dtype d = cfx_tensor_dtype(cfx__py_tensor_of(self));
    bool whole = d <= CFX_I64 || d == CFX_BOOL || (d >= CFX_U16 && d <= CFX_U64);
    if (!whole || cfx_tensor_numel(cfx__py_tensor_of(self)) != 1) {
        PyErr_SetString(PyExc_TypeError,
                        "only integer tensors of a single element can be converted to an index");
        return NULL;
    }
    return cfx__py_int(self);
}
