/* Control flow with functions of Python's as branches: C runs them, or records each as a graph of
 * its own while it traces or exports. */
#include "python.h"

/* A module of no kind that carries the functions, a tuple; scope. */
static cfx_module *carrier(PyObject *functions) {
    cfx_module *m = cfx_module_new_n("functions", NULL, "*args");
    if (!cfx_failed(m))
        cfx_module_keep_object(m, cfx__py_object_value(functions));
    return m;
}

/* Calls function i of those that m carries. */
static cfx_value call_function(cfx_module *m, int i, cfx_args a) {
    cfx__py_lock lock;
    cfx_value v = cfx_bad();
    PyObject *args, *kwargs, *result = NULL;
    if (!cfx__py_enter(&lock))
        return v;
    PyObject *functions = cfx__py_object_of(cfx_module_object(m));
    if (cfx__py_from_args(a, &args, &kwargs)) {
        result = PyObject_Call(PyTuple_GetItem(functions, i), args, kwargs);
        Py_DECREF(args);
        Py_XDECREF(kwargs);
    }
    v = cfx__py_give(result);
    cfx__py_exit(lock);
    return v;
}
static cfx_value first(cfx_module *m, cfx_args a) { return call_function(m, 0, a); }
static cfx_value second(cfx_module *m, cfx_args a) { return call_function(m, 1, a); }

/* The items of a tuple or list as the arguments of a call. */
static bool operands_of(PyObject *o, cfx_args *out) {
    PyObject *tuple = PySequence_Tuple(o);
    bool good = tuple && cfx__py_to_args_of(tuple, NULL, out);
    Py_XDECREF(tuple);
    return good;
}

static PyObject *result_of(cfx_value v) { return cfx_is_bad(v) ? NULL : cfx__py_from_value(v); }

/* cond(pred, functions, operands) */
static PyObject *cond(PyObject *unused, PyObject *args) {
    PyObject *pred, *functions, *operands, *result = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "OO!O", &pred, &PyTuple_Type, &functions, &operands))
        return NULL;
    CFX__PY_CALL(result) {
        cfx_value p;
        cfx_args a;
        cfx_module *m = carrier(functions);
        if (!cfx_failed(m) && cfx__py_to_value(pred, &p) && operands_of(operands, &a))
            result = result_of(cfx_cond_from(cfx__py_here(), m, p, first, second, a));
    }
    return result;
}

/* while_loop(functions, values) */
static PyObject *while_loop(PyObject *unused, PyObject *args) {
    PyObject *functions, *values, *result = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &functions, &values))
        return NULL;
    CFX__PY_CALL(result) {
        cfx_args a;
        cfx_module *m = carrier(functions);
        if (!cfx_failed(m) && operands_of(values, &a))
            result = result_of(cfx_while_loop_from(cfx__py_here(), m, first, second, a));
    }
    return result;
}

/* map(functions, (xs, *rest)) */
static PyObject *map(PyObject *unused, PyObject *args) {
    PyObject *functions, *values, *result = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &functions, &values))
        return NULL;
    CFX__PY_CALL(result) {
        cfx_args a;
        cfx_module *m = carrier(functions);
        if (!cfx_failed(m) && operands_of(values, &a))
            result = result_of(cfx_map_from(cfx__py_here(), m, first, a));
    }
    return result;
}

/* scan(functions, init, xs, dim, reverse); init is None: an associative scan. */
static PyObject *scan(PyObject *unused, PyObject *args) {
    PyObject *functions, *init, *xs, *result = NULL;
    long long dim;
    int reverse;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!OOLp", &PyTuple_Type, &functions, &init, &xs, &dim, &reverse))
        return NULL;
    CFX__PY_CALL(result) {
        cfx_value from, over;
        cfx_scan_options o = {.dim = dim, .reverse = reverse};
        cfx_module *m = carrier(functions);
        if (cfx_failed(m) || !cfx__py_to_value(init, &from) || !cfx__py_to_value(xs, &over))
            continue;
        result = result_of(init == Py_None
                               ? cfx_associative_scan_from(cfx__py_here(), m, first, over, o)
                               : cfx_scan_from(cfx__py_here(), m, first, from, over, o));
    }
    return result;
}

static PyMethodDef functions_[] = {{"cond", cond, METH_VARARGS, NULL},
                                   {"while_loop", while_loop, METH_VARARGS, NULL},
                                   {"map", map, METH_VARARGS, NULL},
                                   {"scan", scan, METH_VARARGS, NULL},
                                   {0}};

bool cfx__py_add_control(PyObject *m) { return PyModule_AddFunctions(m, functions_) == 0; }
