/* Python objects that stand in C: as arguments of nodes, as targets, as whatever else holds values.
 * Each holds a reference, and takes the lock for what is asked of it. */
#include "python.h"

static const char *object_type_name(void *data) {
    cfx__py_lock lock;
    if (!cfx__py_enter(&lock))
        return "object";
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE((PyObject *)data), "__name__");
    const char *text = name ? cfx__py_utf8(name) : NULL; /* the type keeps its name */
    Py_XDECREF(name);
    PyErr_Clear();
    cfx__py_exit(lock);
    return text ? text : "object";
}

static const char *object_text(void *data, bool repr) {
    cfx__py_lock lock;
    if (!cfx__py_enter(&lock))
        return NULL;
    int inside = Py_ReprEnter(data); /* what holds itself is not written again inside */
    PyObject *text = inside > 0  ? PyUnicode_FromString("...")
                     : inside    ? NULL
                     : repr      ? PyObject_Repr(data)
                                 : PyObject_Str(data);
    if (!inside)
        Py_ReprLeave(data);
    const char *utf8 = text ? cfx__py_utf8(text) : NULL;
    if (utf8)
        utf8 = cfx_text(cfx_string_value(utf8));
    else
        cfx__py_caught();
    Py_XDECREF(text);
    cfx__py_exit(lock);
    return utf8;
}

static bool object_equal(void *a, void *b) {
    cfx__py_lock lock;
    if (a == b || !cfx__py_enter(&lock))
        return a == b;
    int equal = PyObject_RichCompareBool(a, b, Py_EQ);
    PyErr_Clear();
    cfx__py_exit(lock);
    return equal == 1;
}

static uint64_t object_hash(void *data) {
    cfx__py_lock lock;
    if (!cfx__py_enter(&lock))
        return 0;
    Py_hash_t hash = PyObject_Hash(data);
    if (hash == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        hash = 0; /* what cannot be hashed is told apart by being compared */
    }
    cfx__py_exit(lock);
    return (uint64_t)hash;
}

static cfx_value object_call(void *data, cfx_args a) {
    cfx__py_lock lock;
    PyObject *args, *kwargs, *result = NULL;
    cfx_value v = cfx_bad();
    if (!cfx__py_enter(&lock))
        return v;
    if (cfx__py_from_args(a, &args, &kwargs)) {
        result = PyObject_Call(data, args, kwargs);
        Py_DECREF(args);
        Py_XDECREF(kwargs);
    }
    v = cfx__py_give(result);
    cfx__py_exit(lock);
    return v;
}

/* How torch.fx writes what is no literal: members of an enum by their class, functions and classes
 * by their path, anything else by its repr. */
static void object_code(void *data, cfx_code *out) {
    cfx__py_lock lock;
    if (!cfx__py_enter(&lock))
        return;
    PyObject *parts = cfx__py.code_of ? PyObject_CallFunctionObjArgs(cfx__py.code_of, data, NULL)
                                      : PyObject_Repr(data);
    PyObject *path, *what, *rest;
    if (parts && PyUnicode_Check(parts))
        cfx_code_text(out, cfx__py_utf8(parts));
    else if (parts && PyArg_ParseTuple(parts, "UOU", &path, &what, &rest)) {
        cfx_code_global(out, cfx__py_utf8(path), cfx__py_object_value(what));
        cfx_code_text(out, cfx__py_utf8(rest));
    }
    if (PyErr_Occurred())
        cfx__py_caught();
    Py_XDECREF(parts);
    cfx__py_exit(lock);
}

static void object_free(void *data) {
    cfx__py_lock lock;
    if (!cfx__py_enter(&lock))
        return;
    Py_DECREF((PyObject *)data);
    cfx__py_exit(lock);
}

const cfx_object_type cfx__py_object_type = {.name = "object",
                                             .type_name = object_type_name,
                                             .text = object_text,
                                             .equal = object_equal,
                                             .hash = object_hash,
                                             .code = object_code,
                                             .call = object_call,
                                             .free = object_free};

cfx_value cfx__py_object_value(PyObject *o) {
    Py_INCREF(o);
    return cfx_object_value(&cfx__py_object_type, o);
}
