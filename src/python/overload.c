/* Overloads, torch.ops.aten.add.Tensor: one object for each operator, made when it is first seen.
 * What else PyTorch's have (the schema as objects, the packet) Python adds; see torch/_ops.py. */
#include "python.h"

typedef struct overload {
    PyObject_HEAD
    vectorcallfunc call;
    cfx_op *op;
    PyObject *dict, *weak;
} overload;

cfx_op *cfx__py_overload_of(PyObject *o) { return ((overload *)o)->op; }

/* ---- calling --------------------------------------------------------------------------------- */

static PyObject *call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    Py_ssize_t nargs = cfx__py_nargs(nargsf), n = nargs + (kwnames ? PyTuple_Size(kwnames) : 0);
    PyObject *result = NULL;
    if (cfx__py_is_overridden(args, n))
        return cfx__py_override(self, args, nargs, kwnames);
    CFX__PY_CALL(result) {
        cfx_value values[CFX_MAX_ARGS];
        cfx_args a;
        if (!cfx__py_to_args(args, nargs, kwnames, values, &a))
            continue;
        cfx_site at = cfx__py_here();
        cfx__py_released out = cfx__py_release(a);
        cfx_value v = cfx_op_do_from(at, ((overload *)self)->op, a);
        cfx__py_regain(out);
        if (!cfx_is_bad(v))
            result = cfx__py_from_value(v);
    }
    return result;
}

static PyObject *call_slowly(PyObject *self, PyObject *args, PyObject *kwargs) {
    return cfx__py_call_slowly(call, self, args, kwargs);
}

/* ---- looking --------------------------------------------------------------------------------- */

/* "aten.add.Tensor" */
static PyObject *overload_str(PyObject *self) {
    return PyUnicode_FromString(cfx_op_name(cfx__py_overload_of(self)));
}

static PyObject *overload_repr(PyObject *self) {
    const char *name = cfx_op_name(cfx__py_overload_of(self)), *dot = strrchr(name, '.');
    PyObject *first = PyUnicode_FromStringAndSize(name, dot - name), *text = NULL;
    if (first)
        text = PyUnicode_FromFormat("<OpOverload(op='%U', overload='%s')>", first, dot + 1);
    Py_XDECREF(first);
    return text;
}

/* "add.Tensor" */
static PyObject *get_name(PyObject *self, void *unused) {
    (void)unused;
    const char *name = cfx_op_name(cfx__py_overload_of(self));
    return PyUnicode_FromString(strchr(name, '.') + 1);
}

static PyObject *get_schema_text(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(cfx__py_overload_of(self)->schema);
}

static PyObject *get_module(PyObject *self, void *unused) {
    (void)unused;
    const char *name = cfx_op_name(cfx__py_overload_of(self));
    char text[128];
    snprintf(text, sizeof text, "torch._ops.%.*s", (int)strcspn(name, "."), name);
    return PyUnicode_FromString(text);
}

static PyObject *get_effects(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLong(cfx__py_overload_of(self)->effects);
}

/* Whether Core ATen takes it apart. */
static PyObject *get_decomposes(PyObject *self, void *unused) {
    const cfx_op *op = cfx__py_overload_of(self);
    (void)unused;
    return PyBool_FromLong(op->core || (op->effects & CFX_COMPOSITE));
}

/* Whether it is made of others, in Core ATen or not. */
static PyObject *get_has_parts(PyObject *self, void *unused) {
    const cfx_op *op = cfx__py_overload_of(self);
    (void)unused;
    return PyBool_FromLong(op->core || op->decompose);
}

/* What is not found is asked of Python, and then kept. */
static PyObject *overload_getattr(PyObject *self, PyObject *name) {
    PyObject *o = PyObject_GenericGetAttr(self, name);
    if (o || !cfx__py.overload_attr || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return o;
    PyErr_Clear();
    return PyObject_CallFunctionObjArgs(cfx__py.overload_attr, self, name, NULL);
}

static PyObject *overload_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *name = PyUnicode_FromFormat("torch.ops.%s", cfx_op_name(cfx__py_overload_of(self)));
    return name ? Py_BuildValue("O(N)", cfx__py.callable, name) : NULL;
}

/* flops(args, kwargs): floating-point operations of such a call. */
static PyObject *overload_flops(PyObject *self, PyObject *args) {
    PyObject *given, *kwargs, *result = NULL;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &given, &PyDict_Type, &kwargs))
        return NULL;
    CFX__PY_CALL(result) {
        cfx_args a;
        if (!cfx__py_to_args_of(given, kwargs, &a))
            continue;
        int64_t n = cfx_op_flops((cfx_site){0}, cfx__py_overload_of(self), a);
        result = n < 0 ? NULL : PyLong_FromLongLong(n);
    }
    return result;
}

static PyObject *overload_copy(PyObject *self, PyObject *unused) {
    (void)unused;
    Py_INCREF(self);
    return self;
}

static int overload_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((overload *)self)->dict);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static PyGetSetDef gets[] = {{"__name__", get_name, NULL, NULL, NULL},
                             {"__module__", get_module, NULL, NULL, NULL},
                             {"__doc__", get_schema_text, NULL, NULL, NULL},
                             {"__dict__", PyObject_GenericGetDict, NULL, NULL, NULL},
                             {"_schema_text", get_schema_text, NULL, NULL, NULL},
                             {"_effects", get_effects, NULL, NULL, NULL},
                             {"_decomposes", get_decomposes, NULL, NULL, NULL},
                             {"_has_parts", get_has_parts, NULL, NULL, NULL},
                             {0}};
static PyMethodDef methods[] = {{"__reduce__", overload_reduce, METH_NOARGS, NULL},
                                {"_flops", overload_flops, METH_VARARGS, NULL},
                                {"__copy__", overload_copy, METH_NOARGS, NULL},
                                {"__deepcopy__", overload_copy, METH_O, NULL},
                                {0}};
static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(overload, call), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(overload, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(overload, weak), READONLY, NULL},
    {0}};
static PyType_Slot slots[] = {{Py_tp_repr, overload_repr},
                              {Py_tp_str, overload_str},
                              {Py_tp_getattro, overload_getattr},
                              {Py_tp_getset, gets},
                              {Py_tp_methods, methods},
                              {Py_tp_members, members},
                              {Py_tp_call, call_slowly},
                              {Py_tp_traverse, overload_traverse},
                              {0, NULL}};
static PyType_Spec spec = {"torch._ops.OpOverload", sizeof(overload), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                               Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

/* ---- finding --------------------------------------------------------------------------------- */

PyObject *cfx__py_from_op(cfx_op *op) {
    if (!op)
        Py_RETURN_NONE;
    PyObject *key = PyLong_FromVoidPtr(op);
    PyObject *o = key ? PyDict_GetItemWithError(cfx__py.overloads, key) : NULL;
    if (o) {
        Py_INCREF(o);
    } else if (key && !PyErr_Occurred()) {
        overload *made = PyObject_GC_New(overload, cfx__py.overload);
        if (made) {
            made->call = call, made->op = op, made->dict = made->weak = NULL;
            PyObject_GC_Track(made);
            o = (PyObject *)made;
            if (PyDict_SetItem(cfx__py.overloads, key, o) < 0)
                Py_CLEAR(o);
        }
    }
    Py_XDECREF(key);
    return o;
}

/* overload("aten.add.Tensor"), or None. */
static PyObject *find(PyObject *unused, PyObject *name) {
    (void)unused;
    const char *text = cfx__py_utf8(name);
    return text ? cfx__py_from_op(cfx_op_find(text)) : NULL;
}

/* The overloads that are written down, all or those of one function: overloads("aten.add"). */
static PyObject *list(PyObject *unused, PyObject *name) {
    (void)unused;
    const char *text = cfx__py_utf8(name);
    if (!text)
        return NULL;
    PyObject *all = PyList_New(0);
    const cfx_fn *fn = *text ? cfx_fn_find(text) : NULL;
    int n = fn ? fn->n : *text ? 0 : cfx_op_count();
    for (int i = 0; all && i < n; i++) {
        PyObject *o = cfx__py_from_op(fn ? fn->ops[i] : cfx_op_at(i));
        if (!o || PyList_Append(all, o) < 0)
            Py_CLEAR(all);
        Py_XDECREF(o);
    }
    return all;
}

static PyMethodDef functions[] = {
    {"overload", find, METH_O, "overload(name): the overload called so, or None"},
    {"overloads", list, METH_O, "overloads(name): those of a function; of all where name is empty"},
    {0}};

bool cfx__py_add_overload(PyObject *m) {
    cfx__py.overloads = PyDict_New();
    return cfx__py.overloads && cfx__py_add_type(m, &cfx__py.overload, &spec) &&
           PyModule_AddFunctions(m, functions) == 0;
}
