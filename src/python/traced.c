/* What tracing does for every call: the arguments of a node, nodes in the place of proxies. */
#include "python.h"

#include "graph.h"

typedef struct scan {
    PyObject *proxy;  /* the class */
    PyObject *tracer; /* the one of the first proxy; borrowed from it */
    bool plain;       /* nothing was met that a tracer is asked about */
} scan;

static PyObject *convert(scan *s, PyObject *o);

/* The node of a proxy. */
static PyObject *node_of(scan *s, PyObject *proxy) {
    PyObject *tracer = PyObject_GetAttr(proxy, cfx__py.tracer_name);
    if (!tracer)
        return NULL;
    s->plain &= !s->tracer || s->tracer == tracer;
    s->tracer = tracer;
    Py_DECREF(tracer); /* the proxy has it, which the arguments hold */
    return PyObject_GetAttr(proxy, cfx__py.node_name);
}

static PyObject *convert_tuple(scan *s, PyObject *o) {
    Py_ssize_t n = PyTuple_Size(o);
    PyObject *made = PyTuple_New(n);
    for (Py_ssize_t i = 0; made && i < n; i++) {
        PyObject *item = convert(s, PyTuple_GetItem(o, i));
        if (!item || PyTuple_SetItem(made, i, item) < 0)
            Py_CLEAR(made);
    }
    return made;
}

static PyObject *convert_list(scan *s, PyObject *o) {
    PyObject *made = PyList_New(0);
    for (Py_ssize_t i = 0; made && s->plain && i < PyList_Size(o); i++) {
        PyObject *given = PyList_GetItem(o, i), *item;
        Py_INCREF(given);
        item = convert(s, given);
        if (!item || PyList_Append(made, item) < 0)
            Py_CLEAR(made);
        Py_DECREF(given);
        Py_XDECREF(item);
    }
    return made;
}

static PyObject *convert_dict(scan *s, PyObject *o) {
    PyObject *made = PyDict_New(), *key, *value;
    for (Py_ssize_t i = 0; made && PyDict_Next(o, &i, &key, &value);) {
        s->plain &= PyUnicode_CheckExact(key);
        Py_INCREF(key);
        Py_INCREF(value);
        PyObject *item = s->plain ? convert(s, value) : Py_BuildValue("");
        if (!item || PyDict_SetItem(made, key, item) < 0)
            Py_CLEAR(made);
        Py_DECREF(key);
        Py_DECREF(value);
        Py_XDECREF(item);
    }
    return made;
}

static bool stands_as_it_is(PyObject *o) {
    return o == Py_None || o == Py_Ellipsis || PyBool_Check(o) || PyLong_CheckExact(o) ||
           PyFloat_CheckExact(o) || PyUnicode_CheckExact(o) ||
           Py_IS_TYPE(o, cfx__py.dtype) || Py_IS_TYPE(o, cfx__py.device);
}

static PyObject *convert(scan *s, PyObject *o) {
    if (stands_as_it_is(o)) {
        Py_INCREF(o);
        return o;
    }
    if ((PyObject *)Py_TYPE(o) == s->proxy)
        return node_of(s, o);
    PyObject *made = NULL;
    bool nested = PyTuple_CheckExact(o) || PyList_CheckExact(o) || PyDict_CheckExact(o);
    if (!nested || Py_EnterRecursiveCall(" in the arguments of a node")) {
        s->plain = false;
        return PyErr_Occurred() ? NULL : Py_BuildValue("");
    }
    made = PyTuple_CheckExact(o)  ? convert_tuple(s, o)
           : PyList_CheckExact(o) ? convert_list(s, o)
                                  : convert_dict(s, o);
    Py_LeaveRecursiveCall();
    return made;
}

/* traced(proxy_class, args, kwargs): (tracer or None, args, kwargs) with nodes for proxies; None
 * where a tracer must be asked: there are others than plain values and containers, or proxies of
 * several tracers. */
static PyObject *traced(PyObject *unused, PyObject *const *a, Py_ssize_t n) {
    (void)unused;
    if (n != 3 || !PyTuple_Check(a[1]) || !PyDict_Check(a[2])) {
        PyErr_SetString(PyExc_TypeError, "traced takes a class, a tuple and a dict");
        return NULL;
    }
    scan s = {.proxy = a[0], .plain = true};
    PyObject *args = convert_tuple(&s, a[1]), *kwargs = args ? convert_dict(&s, a[2]) : NULL;
    if (kwargs && s.plain)
        return Py_BuildValue("ONN", s.tracer ? s.tracer : Py_None, args, kwargs);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"traced", (PyCFunction)(void (*)(void))traced, METH_FASTCALL, NULL}, {0}};

bool cfx__py_add_traced(PyObject *m) { return PyModule_AddFunctions(m, functions) == 0; }
