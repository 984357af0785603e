/* Numbers and arrays of numpy's beside tensors, where a program has loaded it. */
#include "python.h"

/* A type of numpy's, found when numpy is there; borrowed, NULL where it is not. */
static PyObject *type_named(PyObject **place, const char *name) {
    if (*place)
        return *place;
    PyObject *key = PyUnicode_FromString("numpy");
    PyObject *numpy = key ? PyImport_GetModule(key) : NULL;
    *place = numpy ? PyObject_GetAttrString(numpy, name) : NULL;
    Py_XDECREF(numpy);
    Py_XDECREF(key);
    PyErr_Clear();
    return *place;
}

static bool is_a(PyObject *o, PyObject **place, const char *name) {
    PyObject *type = type_named(place, name);
    return type && PyObject_TypeCheck(o, (PyTypeObject *)type);
}

bool cfx__py_numpy_number(PyObject *o, PyObject **out) {
    if (!is_a(o, &cfx__py.numpy_number, "generic"))
        return false;
    *out = PyObject_CallMethod(o, "item", NULL);
    return true;
}

/* The operand that an object stands for: a tensor over an array, Python's number for one of
 * numpy's, the object itself. A new reference; NULL with an exception. */
PyObject *cfx__py_operand(PyObject *o) {
    PyObject *number;
    if (cfx__py_is_tensor(o) || PyLong_Check(o) || PyFloat_Check(o)) {
        Py_INCREF(o);
        return o;
    }
    if (cfx__py_numpy_number(o, &number))
        return number;
    if (cfx__py.array_tensor && is_a(o, &cfx__py.numpy_array, "ndarray"))
        return PyObject_CallFunctionObjArgs(cfx__py.array_tensor, o, NULL);
    Py_INCREF(o);
    return o;
}

PyObject *cfx__py_key(PyObject *key) {
    if (!PyTuple_CheckExact(key))
        return PyLong_Check(key) || Py_TYPE(key) == &PySlice_Type ? Py_BuildValue("O", key)
                                                                   : cfx__py_operand(key);
    Py_ssize_t n = PyTuple_Size(key);
    PyObject *parts = PyTuple_New(n);
    for (Py_ssize_t i = 0; parts && i < n; i++) {
        PyObject *part = cfx__py_operand(PyTuple_GetItem(key, i));
        if (!part || PyTuple_SetItem(parts, i, part) < 0)
            Py_CLEAR(parts);
    }
    return parts;
}
