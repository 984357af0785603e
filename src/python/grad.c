/* Gradients: torch.autograd.grad, hooks of tensors, autocast. */
#include "python.h"

/* grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused) */
static PyObject *grad(PyObject *unused, PyObject *args) {
    PyObject *outputs, *inputs, *given, *result = NULL;
    int retain, create, allow;
    (void)unused;
    if (!PyArg_ParseTuple(args, "OOOppp", &outputs, &inputs, &given, &retain, &create, &allow))
        return NULL;
    CFX__PY_CALL(result) {
        cfx_value out, in, with;
        if (!cfx__py_to_value(outputs, &out) || !cfx__py_to_value(inputs, &in) ||
            !cfx__py_to_value(given, &with))
            continue;
        cfx_value v = cfx_grad_from((cfx_site){0}, out, in,
                                    (cfx_grad_options){.grad_outputs = with,
                                                       .retain_graph = retain,
                                                       .create_graph = create,
                                                       .allow_unused = allow});
        result = cfx_is_bad(v) ? NULL : cfx__py_from_value(v);
    }
    return result;
}

/* hook(tensor, callable, leaf): the number to take it off with. */
static PyObject *hook(PyObject *unused, PyObject *args) {
    PyObject *tensor, *callable, *result = NULL;
    int leaf;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!Op", cfx__py.tensor, &tensor, &callable, &leaf))
        return NULL;
    CFX__PY_CALL(result) {
        int64_t id = cfx_tensor_hook_object(cfx__py_tensor_of(tensor),
                                            cfx__py_object_value(callable), leaf);
        result = id ? PyLong_FromLongLong(id) : NULL;
    }
    return result;
}

/* unhook(tensor, number) */
static PyObject *unhook(PyObject *unused, PyObject *args) {
    PyObject *tensor;
    long long id;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!L", cfx__py.tensor, &tensor, &id))
        return NULL;
    cfx_tensor_unhook(cfx__py_tensor_of(tensor), id);
    Py_RETURN_NONE;
}

/* function_on_tape(name, callable, inputs, outputs, saved) */
static PyObject *function_on_tape(PyObject *unused, PyObject *args) {
    const char *name;
    PyObject *callable, *lists[3], *result = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "sOOOO", &name, &callable, &lists[0], &lists[1], &lists[2]))
        return NULL;
    CFX__PY_CALL(result) {
        cfx_value v[3];
        if (!cfx__py_to_value(lists[0], &v[0]) || !cfx__py_to_value(lists[1], &v[1]) ||
            !cfx__py_to_value(lists[2], &v[2]))
            continue;
        cfx_grad_function_options o = {.name = name, .object = cfx__py_object_value(callable),
                                       .inputs = v[0], .outputs = v[1], .saved = v[2]};
        result = cfx_grad_function_from((cfx_site){0}, o) ? Py_BuildValue("") : NULL;
    }
    return result;
}

/* check_gradients(on): what it was. */
static PyObject *check_gradients(PyObject *unused, PyObject *on) {
    int is = PyObject_IsTrue(on);
    (void)unused;
    return is < 0 ? NULL : PyBool_FromLong(cfx_set_detect_anomaly(is));
}

/* autocast_begin(device, dtype or None, enabled) */
static PyObject *autocast_begin(PyObject *unused, PyObject *args) {
    const char *device;
    PyObject *dtype, *result = NULL;
    int enabled;
    (void)unused;
    if (!PyArg_ParseTuple(args, "sOp", &device, &dtype, &enabled))
        return NULL;
    CFX__PY_CALL(result) {
        cfx_autocast_options o = {.device = device, .off = !enabled};
        cfx_value d;
        if (!cfx__py_to_value(dtype, &d))
            continue;
        if (!cfx_is_none(d))
            o.dtype = cfx_as_dtype(d);
        cfx_autocast_begin_from((cfx_site){0}, o);
        result = Py_BuildValue("");
    }
    return result;
}

static PyObject *autocast_end(PyObject *unused, PyObject *none) {
    PyObject *result = NULL;
    (void)unused, (void)none;
    CFX__PY_CALL(result) {
        cfx_autocast_end_from((cfx_site){0});
        result = Py_BuildValue("");
    }
    return result;
}

/* ---- the tape as a graph -------------------------------------------------------------------- */

static void node_free(PyObject *capsule) {
    cfx_drop(PyCapsule_GetPointer(capsule, "grad_node"));
}

static PyObject *node_capsule(cfx_grad_node *n) {
    if (!n)
        return cfx__py_from_value(cfx_none());
    PyObject *capsule = PyCapsule_New(cfx_keep(n), "grad_node", node_free);
    if (!capsule)
        cfx_drop(n);
    return capsule;
}

static cfx_grad_node *node_of(PyObject *capsule) {
    return PyCapsule_GetPointer(capsule, "grad_node");
}

/* grad_node(tensor): a capsule of what its gradient goes to; None. */
static PyObject *grad_node(PyObject *unused, PyObject *tensor) {
    PyObject *result = NULL;
    (void)unused;
    if (!PyObject_TypeCheck(tensor, (PyTypeObject *)cfx__py.tensor))
        return PyErr_Format(PyExc_TypeError, "grad_node takes a tensor");
    CFX__PY_CALL(result) {
        result = node_capsule(cfx_tensor_grad_node(cfx__py_tensor_of(tensor)));
    }
    return result;
}

/* grad_node_told(capsule): (address, name, leaf or None, [(capsule or None, output), ...]) */
static PyObject *grad_node_told(PyObject *unused, PyObject *capsule) {
    cfx_grad_node *n = node_of(capsule);
    PyObject *result = NULL;
    (void)unused;
    if (!n)
        return NULL;
    CFX__PY_CALL(result) {
        cfx_tensor *leaf = cfx_grad_node_leaf(n);
        PyObject *next = PyList_New(0);
        for (int i = 0; next && i < cfx_grad_node_inputs(n); i++) {
            int output;
            cfx_grad_node *to = cfx_grad_node_next(n, i, &output);
            PyObject *pair = Py_BuildValue("Ni", node_capsule(to), output);
            if (!pair || PyList_Append(next, pair))
                Py_CLEAR(next);
            Py_XDECREF(pair);
        }
        result = next ? Py_BuildValue("KsNN", (unsigned long long)(uintptr_t)n,
                                      cfx_grad_node_name(n),
                                      leaf ? cfx__py_from_tensor(leaf)
                                           : cfx__py_from_value(cfx_none()),
                                      next)
                      : NULL;
    }
    return result;
}

/* annotate(dict or None): what nodes of exports are annotated with from now on. */
static PyObject *annotate(PyObject *unused, PyObject *custom) {
    PyObject *result = NULL;
    (void)unused;
    CFX__PY_CALL(result) {
        cfx_value v;
        if (!cfx__py_to_value(custom, &v))
            continue;
        cfx_annotate(v);
        result = Py_BuildValue("");
    }
    return result;
}

static PyMethodDef functions[] = {{"grad", grad, METH_VARARGS, NULL},
                                  {"hook", hook, METH_VARARGS, NULL},
                                  {"unhook", unhook, METH_VARARGS, NULL},
                                  {"function_on_tape", function_on_tape, METH_VARARGS, NULL},
                                  {"grad_node", grad_node, METH_O, NULL},
                                  {"grad_node_told", grad_node_told, METH_O, NULL},
                                  {"annotate", annotate, METH_O, NULL},
                                  {"check_gradients", check_gradients, METH_O, NULL},
                                  {"autocast_begin", autocast_begin, METH_VARARGS, NULL},
                                  {"autocast_end", autocast_end, METH_NOARGS, NULL},
                                  {0}};

bool cfx__py_add_grad(PyObject *m) { return PyModule_AddFunctions(m, functions) == 0; }
