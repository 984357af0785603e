/* The extension module _cfx: its types and functions, what Python hands over to it, and the state
 * of the interpreter and of each thread. */
#include "python.h"

#include "graph.h"

cfx__py_globals cfx__py;
_Thread_local cfx__py_thread cfx__py_this_thread;

/* ---- what Python hands over ------------------------------------------------------------------ */

static const struct place {
    const char *name;
    PyObject **at;
} places[] = {
#define PLACE(field) {#field, &cfx__py.field}
    PLACE(parameter),     PLACE(size),           PLACE(tensor_class), PLACE(node_class),
    PLACE(root_class),
    PLACE(graph_class),   PLACE(immutable_list), PLACE(immutable_dict), PLACE(return_type),
    PLACE(method_words),
    PLACE(callable),      PLACE(target_of),      PLACE(meta_from),    PLACE(overload_attr),
    PLACE(code_of),       PLACE(disabled),       PLACE(sym_class),    PLACE(sym_float_class),
    PLACE(sym_bool_class), PLACE(module_from),   PLACE(mirror_kind),  PLACE(plain_attrs),
    PLACE(program_class), PLACE(call_bound),     PLACE(here),         PLACE(array_tensor),
#undef PLACE
};

static const struct {
    const char *name;
    cfx_error_kind kind;
} error_places[] = {{"TraceError", CFX_TRACE_ERROR}, {"LimitError", CFX_LIMIT_ERROR},
                    {"FileError", CFX_FILE_ERROR}, {"_LinAlgError", CFX_LINALG_ERROR}};

/* adopt(name, object) */
static PyObject *adopt(PyObject *unused, PyObject *args) {
    const char *name;
    PyObject *object, **at = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "sO", &name, &object))
        return NULL;
    for (int i = 0; i < COUNT(places); i++)
        if (!strcmp(places[i].name, name))
            at = places[i].at;
    for (int i = 0; i < COUNT(error_places); i++)
        if (!strcmp(error_places[i].name, name))
            at = &cfx__py.errors[error_places[i].kind];
    if (!at) {
        PyErr_Format(PyExc_KeyError, "cfx looks for nothing called %s", name);
        return NULL;
    }
    PyObject *old = *at;
    Py_INCREF(object);
    *at = object;
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

/* The interpreter goes down: C may keep objects, but nothing is called for them any more. */
static PyObject *shut(PyObject *unused, PyObject *none) {
    (void)unused, (void)none;
    cfx_annotate(cfx_none()); /* what was kept may hold objects of Python's */
    cfx__py.closed = true;
    Py_RETURN_NONE;
}

/* ---- small functions ------------------------------------------------------------------------- */

/* canonical(path): the path under which the registry has a function, or None. */
static PyObject *canonical(PyObject *unused, PyObject *path) {
    (void)unused;
    const char *text = cfx__py_utf8(path);
    if (!text)
        return NULL;
    cfx_target t = cfx_target_find(text);
    if (!t.name)
        Py_RETURN_NONE;
    return cfx__py_text(t.name);
}

static PyObject *set_grad_mode(PyObject *unused, PyObject *mode) {
    (void)unused;
    long m = PyLong_AsLong(mode);
    if (PyErr_Occurred() || m < CFX_GRAD_ON || m > CFX_INFERENCE) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "grad mode is 0 (on), 1 (off) or 2 (inference)");
        return NULL;
    }
    return PyLong_FromLong(cfx_set_grad_mode((cfx_grad_mode)m));
}
static PyObject *get_grad_mode(PyObject *unused, PyObject *none) {
    (void)unused, (void)none;
    return PyLong_FromLong(cfx_get_grad_mode());
}

static PyObject *cuda_count(PyObject *unused, PyObject *none) {
    (void)unused, (void)none;
    return PyLong_FromLong(cfx_cuda_count());
}

static PyObject *cuda_name(PyObject *unused, PyObject *card) {
    PyObject *o = NULL;
    const int n = (int)PyLong_AsLong(card);
    (void)unused;
    if (PyErr_Occurred())
        return NULL;
    CFX__PY_CALL(o) {
        const char *name = cfx_cuda_name(n);
        o = name ? cfx__py_text(name) : NULL;
    }
    return o;
}

static PyObject *cuda_held(PyObject *unused, PyObject *card) {
    PyObject *o = NULL;
    const int n = (int)PyLong_AsLong(card);
    (void)unused;
    if (PyErr_Occurred())
        return NULL;
    CFX__PY_CALL(o) o = PyLong_FromLongLong(cfx_cuda_held(n));
    return o;
}

static PyObject *cuda_most_held(PyObject *unused, PyObject *card) {
    PyObject *o = NULL;
    const int n = (int)PyLong_AsLong(card);
    (void)unused;
    if (PyErr_Occurred())
        return NULL;
    CFX__PY_CALL(o) o = PyLong_FromLongLong(cfx_cuda_most_held(n));
    return o;
}

static PyObject *cuda_count_most_anew(PyObject *unused, PyObject *card) {
    PyObject *o = NULL;
    const int n = (int)PyLong_AsLong(card);
    (void)unused;
    if (PyErr_Occurred())
        return NULL;
    CFX__PY_CALL(o) {
        cfx_cuda_count_most_anew(n);
        o = Py_BuildValue("");
    }
    return o;
}

static PyObject *cuda_get_rng_state(PyObject *unused, PyObject *card) {
    PyObject *o = NULL;
    const int n = (int)PyLong_AsLong(card);
    (void)unused;
    if (PyErr_Occurred())
        return NULL;
    CFX__PY_CALL(o) o = cfx__py_from_tensor(cfx_cuda_get_rng_state(n));
    return o;
}

/* cuda_set_rng_state(n, state) */
static PyObject *cuda_set_rng_state(PyObject *unused, PyObject *args) {
    PyObject *o = NULL, *state;
    int n;
    (void)unused;
    if (!PyArg_ParseTuple(args, "iO", &n, &state))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_cuda_set_rng_state(n, cfx__py_is_tensor(state) ? cfx__py_tensor_of(state) : NULL);
        o = Py_BuildValue("");
    }
    return o;
}

/* cuda_manual_seed(n, seed) */
static PyObject *cuda_manual_seed(PyObject *unused, PyObject *args) {
    int n;
    PyObject *o = NULL, *seed;
    (void)unused;
    if (!PyArg_ParseTuple(args, "iO", &n, &seed))
        return NULL;
    const unsigned long long s = PyLong_AsUnsignedLongLongMask(seed);
    if (PyErr_Occurred())
        return NULL;
    CFX__PY_CALL(o) {
        cfx_cuda_manual_seed(n, s);
        o = Py_BuildValue("");
    }
    return o;
}

static PyObject *cuda_empty_cache(PyObject *unused, PyObject *none) {
    (void)unused, (void)none;
    cfx_cuda_empty_cache();
    Py_RETURN_NONE;
}

/* set_default_device("cuda:0"): the one before, as a device. */
static PyObject *set_default_device(PyObject *unused, PyObject *device) {
    PyObject *o = NULL;
    (void)unused;
    const char *text = cfx__py_utf8(device);
    if (!text)
        return NULL;
    CFX__PY_CALL(o) {
        const cfx_device before = cfx_get_default_device();
        o = cfx_set_default_device(text) ? cfx__py_from_device(before) : NULL;
    }
    return o;
}

static PyObject *set_fake_mode(PyObject *unused, PyObject *on) {
    (void)unused;
    int now = PyObject_IsTrue(on);
    return now < 0 ? NULL : PyBool_FromLong(cfx_set_fake_mode(now));
}

static PyObject *manual_seed(PyObject *unused, PyObject *seed) {
    (void)unused;
    unsigned long long n = PyLong_AsUnsignedLongLongMask(seed);
    if (PyErr_Occurred())
        return NULL;
    cfx_manual_seed(n);
    Py_RETURN_NONE;
}

static PyObject *get_rng_state(PyObject *unused, PyObject *none) {
    PyObject *o = NULL;
    (void)unused, (void)none;
    CFX__PY_CALL(o) o = cfx__py_from_tensor(cfx_get_rng_state());
    return o;
}
static PyObject *set_rng_state(PyObject *unused, PyObject *state) {
    PyObject *o = NULL;
    (void)unused;
    CFX__PY_CALL(o) {
        cfx_set_rng_state(cfx__py_is_tensor(state) ? cfx__py_tensor_of(state) : NULL);
        o = Py_BuildValue("");
    }
    return o;
}

/* set_default_dtype(dtype): what it was. */
static PyObject *set_default_dtype(PyObject *unused, PyObject *dtype) {
    PyObject *o = NULL;
    (void)unused;
    CFX__PY_CALL(o) {
        cfx_value v;
        if (!cfx__py_to_value(dtype, &v))
            continue;
        o = cfx__py_from_value(cfx_dtype_value(cfx_set_default_dtype(cfx_as_dtype(v))));
    }
    return o;
}

/* fake_like(tensor): the same without numbers. */
static PyObject *fake_like(PyObject *unused, PyObject *tensor) {
    PyObject *o = NULL;
    (void)unused;
    if (!cfx__py_is_tensor(tensor)) {
        PyErr_SetString(PyExc_TypeError, "expected a Tensor");
        return NULL;
    }
    const cfx_tensor *t = cfx__py_tensor_of(tensor);
    CFX__PY_CALL(o)
        o = cfx__py_from_tensor(cfx_tensor_fake(cfx_tensor_dtype(t), cfx_tensor_ndim(t),
                                                cfx_tensor_shape(t), cfx_tensor_stride(t)));
    return o;
}

/* fake(dtype, sizes): a tensor without numbers. */
static PyObject *fake(PyObject *unused, PyObject *args) {
    PyObject *dtype, *sizes, *o = NULL;
    int64_t shape[CFX_MAX_DIMS];
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!O!", cfx__py.dtype, &dtype, &PyTuple_Type, &sizes))
        return NULL;
    int n = (int)PyTuple_Size(sizes);
    for (int i = 0; i < n && i < CFX_MAX_DIMS; i++)
        shape[i] = PyLong_AsLongLong(PyTuple_GetItem(sizes, i));
    if (n > CFX_MAX_DIMS)
        PyErr_SetString(PyExc_ValueError, "too many dimensions");
    if (PyErr_Occurred())
        return NULL;
    CFX__PY_CALL(o)
        o = cfx__py_from_tensor(
            cfx_tensor_fake(cfx_as_dtype(cfx__py_small_value(dtype)), n, shape, NULL));
    return o;
}

static PyObject *set_num_threads(PyObject *unused, PyObject *n) {
    (void)unused;
    long count = PyLong_AsLong(n);
    if (PyErr_Occurred())
        return NULL;
    cfx_set_num_threads((int)count);
    Py_RETURN_NONE;
}
static PyObject *get_num_threads(PyObject *unused, PyObject *none) {
    (void)unused, (void)none;
    return PyLong_FromLong(cfx_get_num_threads());
}

static PyObject *memory_held(PyObject *unused, PyObject *none) {
    (void)unused, (void)none;
    return PyLong_FromSize_t(cfx_memory_held());
}

/* Numbers of a flat tensor as a list. */
static PyObject *to_list(PyObject *unused, PyObject *o) {
    (void)unused;
    if (!cfx__py_is_tensor(o)) {
        PyErr_SetString(PyExc_TypeError, "expected a Tensor");
        return NULL;
    }
    const cfx_tensor *t = cfx__py_tensor_of(o);
    cfx_dtype d = cfx_tensor_dtype(t);
    int64_t n = cfx_tensor_numel(t);
    bool plain = d == CFX_F32 || d == CFX_F64;
    PyObject *list = plain && !cfx_tensor_is_fake(t) ? PyList_New((Py_ssize_t)n) : NULL;
    if (plain && list) {
        for (int64_t i = 0; i < n; i++)
            PyList_SetItem(list, (Py_ssize_t)i, PyFloat_FromDouble(cfx_tensor_get(t, i)));
        return list;
    }
    PyErr_Clear();
    CFX__PY_CALL(list) {
        cfx_value v = cfx_py("Tensor.tolist", cfx__py_tensor_of(o));
        list = cfx_is_bad(v) ? NULL : cfx__py_from_value(v);
    }
    return list;
}

/* is_contiguous(tensor, memory_format) */
static PyObject *is_contiguous(PyObject *unused, PyObject *args) {
    PyObject *tensor, *format, *result = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!O", cfx__py.tensor, &tensor, &format))
        return NULL;
    const cfx_tensor *t = cfx__py_tensor_of(tensor);
    if (format == Py_None)
        return PyBool_FromLong(cfx_tensor_is_contiguous(t));
    CFX__PY_CALL(result) {
        cfx_value f;
        if (!cfx__py_to_value(format, &f))
            continue;
        cfx_value v = cfx_py("Tensor.is_contiguous", t, cfx_keyword_value("memory_format", f));
        if (!cfx_is_bad(v))
            result = cfx__py_from_value(v);
    }
    return result;
}

static PyMethodDef functions[] = {
    {"adopt", adopt, METH_VARARGS, "adopt(name, object): what C code looks for"},
    {"close", shut, METH_NOARGS, NULL},
    {"canonical", canonical, METH_O, "canonical(path): that of the registry, or None"},
    {"set_grad_mode", set_grad_mode, METH_O, NULL},
    {"get_grad_mode", get_grad_mode, METH_NOARGS, NULL},
    {"cuda_count", cuda_count, METH_NOARGS, "How many cards there are."},
    {"cuda_name", cuda_name, METH_O, "cuda_name(n): what card n is"},
    {"cuda_held", cuda_held, METH_O, "cuda_held(n): bytes that are held on card n"},
    {"cuda_most_held", cuda_most_held, METH_O, "cuda_most_held(n): the most of them at once"},
    {"cuda_count_most_anew", cuda_count_most_anew, METH_O, NULL},
    {"cuda_manual_seed", cuda_manual_seed, METH_VARARGS, "cuda_manual_seed(n, seed)"},
    {"cuda_get_rng_state", cuda_get_rng_state, METH_O, NULL},
    {"cuda_set_rng_state", cuda_set_rng_state, METH_VARARGS, NULL},
    {"cuda_empty_cache", cuda_empty_cache, METH_NOARGS, "Gives back what is kept on cards."},
    {"set_default_device", set_default_device, METH_O, "The device before is returned."},
    {"set_fake_mode", set_fake_mode, METH_O, NULL},
    {"manual_seed", manual_seed, METH_O, NULL},
    {"get_rng_state", get_rng_state, METH_NOARGS, NULL},
    {"set_rng_state", set_rng_state, METH_O, NULL},
    {"set_default_dtype", set_default_dtype, METH_O, NULL},
    {"fake_like", fake_like, METH_O, NULL},
    {"fake", fake, METH_VARARGS, "fake(dtype, sizes)"},
    {"set_num_threads", set_num_threads, METH_O, NULL},
    {"get_num_threads", get_num_threads, METH_NOARGS, NULL},
    {"memory_held", memory_held, METH_NOARGS, "Bytes that the library holds."},
    {"to_list", to_list, METH_O, NULL},
    {"is_contiguous", is_contiguous, METH_VARARGS, NULL},
    {0}};

/* ---- the module ------------------------------------------------------------------------------ */

static bool add_errors(void) {
    PyObject *const types[] = {[CFX_RUNTIME_ERROR] = PyExc_RuntimeError,
                               [CFX_TYPE_ERROR] = PyExc_TypeError,
                               [CFX_VALUE_ERROR] = PyExc_ValueError,
                               [CFX_INDEX_ERROR] = PyExc_IndexError,
                               [CFX_KEY_ERROR] = PyExc_KeyError,
                               [CFX_NAME_ERROR] = PyExc_NameError,
                               [CFX_ATTRIBUTE_ERROR] = PyExc_AttributeError,
                               [CFX_ASSERTION_ERROR] = PyExc_AssertionError,
                               [CFX_NOT_IMPLEMENTED_ERROR] = PyExc_NotImplementedError,
                               [CFX_TRACE_ERROR] = PyExc_ValueError,
                               [CFX_MEMORY_ERROR] = PyExc_MemoryError,
                               [CFX_LIMIT_ERROR] = PyExc_RuntimeError,
                               [CFX_FILE_ERROR] = PyExc_OSError,
                               [CFX_LINALG_ERROR] = PyExc_RuntimeError};
    for (int i = 0; i < COUNT(types); i++) {
        Py_XINCREF(types[i]);
        cfx__py.errors[i] = types[i];
    }
    return true;
}

static PyObject *attribute(const char *module, const char *name) {
    PyObject *m = PyImport_ImportModule(module), *o = m ? PyObject_GetAttrString(m, name) : NULL;
    Py_XDECREF(m);
    return o;
}

static bool add_names(PyObject *m) {
    cfx__py.module_object = m;
    cfx__py.known = PyDict_New();
    cfx__py.torch_function = PyUnicode_InternFromString("__torch_function__");
    cfx__py.torch_dispatch = PyUnicode_InternFromString("__torch_dispatch__");
    cfx__py.fields = PyUnicode_InternFromString("_fields");
    cfx__py.node_name = PyUnicode_InternFromString("node");
    cfx__py.tracer_name = PyUnicode_InternFromString("tracer");
    cfx__py.method_type = attribute("types", "MethodType");
    cfx__py.builtin_function = attribute("types", "BuiltinFunctionType");
    cfx__py.method_descriptor = attribute("types", "MethodDescriptorType");
    return cfx__py.known && cfx__py.torch_function && cfx__py.torch_dispatch && cfx__py.fields &&
           cfx__py.node_name && cfx__py.tracer_name &&
           cfx__py.method_type && cfx__py.builtin_function && cfx__py.method_descriptor &&
           PyObject_SetAttrString(m, "known", cfx__py.known) == 0;
}

static int fill(PyObject *m) {
    if (cfx__py.module_object) {
        PyErr_SetString(PyExc_ImportError, "cfx serves one interpreter of a process");
        return -1;
    }
    bool good = add_names(m) && add_errors() && PyModule_AddFunctions(m, functions) == 0 &&
                cfx__py_add_small(m) && cfx__py_add_tensor(m) && cfx__py_add_exchange(m) &&
                cfx__py_add_function(m) && cfx__py_add_override(m) && cfx__py_add_overload(m) &&
                cfx__py_add_tree(m) && cfx__py_add_graph(m) && cfx__py_add_node(m) &&
                cfx__py_add_sym(m) && cfx__py_add_cmodule(m) && cfx__py_add_program(m) &&
                cfx__py_add_control(m) && cfx__py_add_library(m) && cfx__py_add_session(m) &&
                cfx__py_add_grad(m) && cfx__py_add_optim(m) && cfx__py_add_quant(m) &&
                cfx__py_add_traced(m);
    return good && PyModule_AddStringConstant(m, "version", CFX_VERSION) == 0 ? 0 : -1;
}

PyMODINIT_FUNC PyInit__cfx(void);
PyMODINIT_FUNC PyInit__cfx(void) {
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};
    static PyModuleDef def = {PyModuleDef_HEAD_INIT, "cfx._cfx",
                              "The C library cfx; see the package cfx.", 0, NULL, slots,
                              NULL, NULL, NULL};
    return PyModuleDef_Init(&def);
}
