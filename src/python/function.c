/* Functions of the registry as Python has them: torch.relu, torch.nn.functional.linear, the methods
 * of tensors. One is made when its name is first asked for, and finds its operator when it is first
 * called. */
#include "python.h"

typedef enum kind {
    BUILTIN_METHOD,   /* <built-in method relu of type object at 0x...>: torch's own */
    BUILTIN_FUNCTION, /* <built-in function linear> */
    TENSOR_METHOD     /* <method 'relu' of 'torch._C.TensorBase' objects> */
} kind;

typedef struct function {
    PyObject_HEAD
    vectorcallfunc call;
    cfx_target target;  /* found at the first call */
    const char *path;   /* "torch.relu": what the registry calls it; as long as `spelled` */
    PyObject *spelled;  /* path as a str */
    PyObject *own;      /* the function's own path, the target's name; NULL: not found yet */
    PyObject *name;     /* "relu" */
    PyObject *public;   /* what overrides are told was called; NULL: this object */
    PyObject *results;  /* the class of its results, where these have names; None: they have none */
    PyObject *weak;
    kind kind;
    uint32_t tensors;   /* arguments that must be tensors, and no numbers */
    bool aten;          /* lists that it gives are tuples in Python */
} function;

/* ---- finding --------------------------------------------------------------------------------- */

/* Whether the registry has it; fills in what calls need. */
static bool find(function *f) {
    if (f->target.name)
        return true;
    size_t mark = cfx_scope_open();
    cfx_target t = cfx_target_find(f->path);
    if (t.fn && (f->own = PyUnicode_FromString(t.name))) {
        f->target = t;
        f->target.name = cfx__py_utf8(f->own);
        f->aten = !strncmp(t.op->schema, "aten::", 6);
        f->tensors = strncmp(t.name, "operator.", 9) ? cfx__py_tensor_places(t.fn) : 0;
    }
    cfx_scope_close(mark);
    return f->own != NULL;
}

/* The names of a schema's results where there are several: "values indices"; a tuple, or NULL. */
static PyObject *result_names(const char *schema, int64_t n) {
    const char *p = strstr(schema, "-> (");
    PyObject *names = p ? PyTuple_New((Py_ssize_t)n) : NULL;
    int64_t i = 0;
    for (p = p ? p + 4 : NULL; names && p && *p && *p != ')'; i++) {
        size_t len = strcspn(p, ",)"), start = len;
        while (start && p[start - 1] != ' ')
            start--;
        PyObject *name = start ? PyUnicode_FromStringAndSize(p + start, (Py_ssize_t)(len - start))
                               : NULL;
        if (!name || i >= n) {
            Py_XDECREF(name);
            Py_CLEAR(names);
            break;
        }
        PyTuple_SetItem(names, (Py_ssize_t)i, name);
        p += len + (p[len] == ',');
        p += strspn(p, " ");
    }
    if (i != n)
        Py_CLEAR(names);
    PyErr_Clear();
    return names;
}

/* The class that a function's several results are of: torch.return_types.max. Borrowed; NULL. */
static PyObject *result_class(function *f, int64_t n) {
    if (f->results)
        return f->results == Py_None ? NULL : f->results;
    PyObject *names = NULL;
    for (int i = 0; !names && f->target.fn && i < f->target.fn->n; i++)
        names = result_names(f->target.fn->ops[i]->schema, n);
    if (names && cfx__py.return_type)
        f->results = PyObject_CallFunctionObjArgs(cfx__py.return_type, f->name, names, NULL);
    Py_XDECREF(names);
    if (!f->results) {
        PyErr_Clear();
        Py_INCREF(Py_None);
        f->results = Py_None;
    }
    return f->results == Py_None ? NULL : f->results;
}

const char *cfx__py_function_path(PyObject *o) {
    if (Py_TYPE(o) != cfx__py.function && Py_TYPE(o) != cfx__py.method)
        return NULL;
    function *f = (function *)o;
    return find(f) ? f->target.name : NULL;
}

/* Whether a method has nothing but its tensor. */
bool cfx__py_takes_self_alone(PyObject *o) {
    function *f = (function *)o;
    bool alone = find(f);
    for (int i = 0; alone && i < f->target.fn->n; i++)
        alone = cfx__py_count_places(f->target.fn->ops[i]) == 1;
    return alone;
}

/* ---- calling --------------------------------------------------------------------------------- */

PyObject *cfx__py_function_public(PyObject *f) {
    return ((function *)f)->public ? ((function *)f)->public : f;
}

static PyObject *result_of(function *f, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        return cfx__py_from_tensor(cfx_as_tensor(v));
    if (f->aten && v.tag == CFX_TAG_LIST)
        v = cfx_tuple_value(cfx_as_list(v)->len, cfx_as_list(v)->items);
    PyObject *o = cfx__py_from_value(v);
    PyObject *class_ = o && f->aten && v.tag == CFX_TAG_TUPLE
                           ? result_class(f, cfx_as_list(v)->len)
                           : NULL;
    if (!class_)
        return o;
    PyObject *named = PyObject_CallFunctionObjArgs(class_, o, NULL);
    Py_DECREF(o);
    return named;
}

PyObject *cfx__py_call_slowly(vectorcallfunc fast, PyObject *self, PyObject *args,
                              PyObject *kwargs) {
    Py_ssize_t n = PyTuple_Size(args), nkw = kwargs ? PyDict_Size(kwargs) : 0;
    PyObject **all = PyMem_Calloc((size_t)(n + nkw) + 1, sizeof *all), *result = NULL;
    PyObject *names = nkw ? PyTuple_New(nkw) : NULL, *key, *value;
    if (!all || (nkw && !names)) {
        PyMem_Free(all);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < n; i++)
        all[i] = PyTuple_GetItem(args, i);
    for (Py_ssize_t at = 0, i = 0; nkw && PyDict_Next(kwargs, &at, &key, &value); i++) {
        Py_INCREF(key);
        PyTuple_SetItem(names, i, key);
        all[n + i] = value;
    }
    result = fast(self, all, (size_t)n, names);
    Py_XDECREF(names);
    PyMem_Free(all);
    return result;
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames);

/* The place of requires_grad among the keywords of a function that makes tensors: no schema has it.
 * -1 where it is not there. */
static Py_ssize_t requires_grad_at(const function *f, PyObject *kwnames) {
    Py_ssize_t n = kwnames && f->target.op ? PyTuple_Size(kwnames) : 0;
    for (Py_ssize_t i = 0; i < n; i++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GetItem(kwnames, i), "requires_grad") == 0)
            return strstr(f->target.op->schema, "pin_memory") ? i : -1;
    return -1;
}

/* The call without that keyword, and what it asks for done to the result. */
static PyObject *call_to_learn(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *kwnames, Py_ssize_t at) {
    Py_ssize_t n = PyTuple_Size(kwnames);
    PyObject **rest = PyMem_Calloc((size_t)(nargs + n), sizeof *rest);
    PyObject *before = PyTuple_GetSlice(kwnames, 0, at);
    PyObject *after = PyTuple_GetSlice(kwnames, at + 1, n);
    PyObject *names = before && after ? PySequence_Concat(before, after) : NULL, *result = NULL;
    if (rest && names) {
        for (Py_ssize_t i = 0; i < nargs + n - 1; i++)
            rest[i] = args[i + (i >= nargs + at)];
        result = call(self, rest, (size_t)nargs, names);
    }
    if (result && PyObject_SetAttrString(result, "requires_grad", args[nargs + at]) < 0)
        Py_CLEAR(result);
    Py_XDECREF(before);
    Py_XDECREF(after);
    Py_XDECREF(names);
    PyMem_Free(rest);
    return result;
}

/* The text that is given for a device: device="cpu", x.to("cpu"). NULL where there is none. */
static const char *device_text(const function *f, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *kwnames) {
    PyObject *given = NULL;
    for (Py_ssize_t i = 0; kwnames && i < PyTuple_Size(kwnames); i++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GetItem(kwnames, i), "device") == 0)
            given = args[nargs + i];
    if (!given && nargs > 1 && PyUnicode_CompareWithASCIIString(f->name, "to") == 0)
        given = args[1];
    return given && PyUnicode_Check(given) ? cfx__py_utf8(given) : NULL;
}

/* A TypeError of C's in Python's words: a device that is none is what is wrong, whatever else is; a
 * method does not count its tensor. */
static void say_why(function *f, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    PyObject *type, *value, *trace, *said = NULL;
    const char *device = device_text(f, args, nargs, kwnames);
    PyErr_Fetch(&type, &value, &trace);
    if (device && !cfx__py_is_device(device)) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
        return;
    }
    if (f->kind == TENSOR_METHOD && nargs > 1 && cfx__py_takes_self_alone((PyObject *)f))
        said = PyUnicode_FromFormat("TensorBase.%U() takes no arguments (%zd given)", f->name,
                                    nargs - 1);
    else if (f->kind == TENSOR_METHOD && value && cfx__py.method_words)
        said = PyObject_CallFunctionObjArgs(cfx__py.method_words, value, NULL);
    PyErr_Clear();
    if (said) {
        Py_XDECREF(value);
        value = said;
    }
    PyErr_Restore(type, value, trace);
}

/* A method is one of tensors: a proxy has methods of its own. */
static bool is_method_of(const function *f, PyObject *const *args, Py_ssize_t nargs) {
    if (!nargs || cfx__py_is_tensor(args[0]))
        return true;
    PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(args[0]), "__name__");
    if (type)
        PyErr_Format(PyExc_TypeError, "descriptor '%U' for 'torch._C.TensorBase' objects doesn't "
                     "apply to a '%U' object", f->name, type);
    Py_XDECREF(type);
    return false;
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    function *f = (function *)self;
    Py_ssize_t nargs = cfx__py_nargs(nargsf), n = nargs + (kwnames ? PyTuple_Size(kwnames) : 0);
    PyObject *result = NULL;
    if (cfx__py_is_overridden(args, n)) {
        if (f->kind == TENSOR_METHOD && !is_method_of(f, args, nargs))
            return NULL;
        return cfx__py_override(cfx__py_function_public(self), args, nargs, kwnames);
    }
    if (!find(f)) {
        PyErr_Format(PyExc_AttributeError, "no operator is called '%s'", f->path);
        return NULL;
    }
    if (f->tensors && !cfx__py_takes_numbers(f->target.fn, f->tensors, f->kind == TENSOR_METHOD,
                                             args, nargs, kwnames))
        return NULL;
    Py_ssize_t learns = requires_grad_at(f, kwnames);
    if (learns >= 0)
        return call_to_learn(self, args, nargs, kwnames, learns);
    CFX__PY_CALL(result) {
        cfx_value values[CFX_MAX_ARGS];
        cfx_args a = {(int)n, values, NULL};
        if (!cfx__py_to_args(args, nargs, kwnames, values, &a))
            continue;
        cfx_site at = cfx__py_here();
        cfx__py_released out = cfx__py_release(a);
        const cfx_fn *outer = cfx__py_this_thread.calling;
        cfx__py_this_thread.calling = f->target.fn;
        cfx_value v = cfx_target_call_from(at, f->target, a);
        cfx__py_this_thread.calling = outer;
        cfx__py_regain(out);
        if (!cfx_is_bad(v))
            result = result_of(f, v);
    }
    if (!result && PyErr_ExceptionMatches(PyExc_TypeError))
        say_why(f, args, nargs, kwnames);
    return result;
}

/* ---- what is asked of it --------------------------------------------------------------------- */

static PyObject *function_repr(PyObject *self) {
    const function *f = (function *)self;
    switch (f->kind) {
    case BUILTIN_FUNCTION: return PyUnicode_FromFormat("<built-in function %U>", f->name);
    case TENSOR_METHOD:
        return PyUnicode_FromFormat("<method '%U' of 'torch._C.TensorBase' objects>", f->name);
    default:
        return PyUnicode_FromFormat("<built-in method %U of type object at %p>", f->name, self);
    }
}

static PyObject *get_name(PyObject *self, void *unused) {
    (void)unused;
    Py_INCREF(((function *)self)->name);
    return ((function *)self)->name;
}

/* Where it is found, "torch" of "torch.relu"; None of torch's own, as Python's builtins have it. */
static PyObject *get_module(PyObject *self, void *unused) {
    const function *f = (function *)self;
    (void)unused;
    const char *dot = strrchr(f->path, '.');
    if (f->kind == BUILTIN_METHOD || !dot)
        Py_RETURN_NONE;
    return PyUnicode_FromStringAndSize(f->path, dot - f->path);
}

static PyObject *get_path(PyObject *self, void *unused) {
    (void)unused;
    Py_INCREF(((function *)self)->spelled);
    return ((function *)self)->spelled;
}

static PyObject *get_doc(PyObject *self, void *unused) {
    function *f = (function *)self;
    (void)unused;
    if (!find(f))
        Py_RETURN_NONE;
    PyObject *doc = PyUnicode_FromFormat("%s(...)\n", f->path);
    for (int i = 0; doc && i < f->target.fn->n; i++) {
        PyObject *more = PyUnicode_FromFormat("%U\n%s", doc, f->target.fn->ops[i]->schema);
        Py_DECREF(doc);
        doc = more;
    }
    return doc;
}

/* The overloads, in the order in which they are tried: a tuple of schemas. */
static PyObject *get_schemas(PyObject *self, void *unused) {
    function *f = (function *)self;
    (void)unused;
    int n = find(f) ? f->target.fn->n : 0;
    PyObject *all = PyTuple_New(n);
    for (int i = 0; all && i < n; i++)
        PyTuple_SetItem(all, i, PyUnicode_FromString(f->target.fn->ops[i]->schema));
    return all;
}

static PyObject *get_overloads(PyObject *self, void *unused) {
    function *f = (function *)self;
    (void)unused;
    int n = find(f) ? f->target.fn->n : 0;
    PyObject *all = PyTuple_New(n);
    for (int i = 0; all && i < n; i++)
        PyTuple_SetItem(all, i, cfx__py_from_op(f->target.fn->ops[i]));
    return all;
}

static PyObject *get_class(PyObject *self, void *unused) {
    (void)unused;
    PyObject *class_ = ((function *)self)->kind == TENSOR_METHOD ? cfx__py.method_descriptor
                                                                 : cfx__py.builtin_function;
    if (!class_)
        class_ = (PyObject *)Py_TYPE(self);
    Py_INCREF(class_);
    return class_;
}

static PyObject *function_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    return Py_BuildValue("O(O)", cfx__py.callable, ((function *)self)->spelled);
}

static PyObject *function_copy(PyObject *self, PyObject *unused) {
    (void)unused;
    Py_INCREF(self);
    return self;
}

/* What Python defines in its place: overrides are told of that. */
static PyObject *set_public(PyObject *self, PyObject *public) {
    function *f = (function *)self;
    Py_INCREF(public);
    Py_XDECREF(f->public);
    f->public = public;
    Py_RETURN_NONE;
}

static PyObject *method_bind(PyObject *self, PyObject *object, PyObject *type) {
    (void)type;
    if (object && object != Py_None)
        return PyObject_CallFunctionObjArgs(cfx__py.method_type, self, object, NULL);
    Py_INCREF(self);
    return self;
}

static int function_traverse(PyObject *self, visitproc visit, void *arg) {
    function *f = (function *)self;
    Py_VISIT(f->public);
    Py_VISIT(f->results);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int function_clear(PyObject *self) {
    function *f = (function *)self;
    Py_CLEAR(f->public);
    Py_CLEAR(f->results);
    return 0;
}

static void function_dealloc(PyObject *self) {
    function *f = (function *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (f->weak)
        PyObject_ClearWeakRefs(self);
    function_clear(self);
    Py_XDECREF(f->name);
    Py_XDECREF(f->spelled);
    Py_XDECREF(f->own);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyGetSetDef gets[] = {{"__name__", get_name, NULL, NULL, NULL},
                             {"__qualname__", get_name, NULL, NULL, NULL},
                             {"__module__", get_module, NULL, NULL, NULL},
                             {"__doc__", get_doc, NULL, NULL, NULL},
                             {"__class__", get_class, NULL, NULL, NULL},
                             {"_path", get_path, NULL, NULL, NULL},
                             {"_schemas", get_schemas, NULL, NULL, NULL},
                             {"_overloads", get_overloads, NULL, NULL, NULL},
                             {0}};
static PyMethodDef methods[] = {{"__reduce__", function_reduce, METH_NOARGS, NULL},
                                {"__copy__", function_copy, METH_NOARGS, NULL},
                                {"__deepcopy__", function_copy, METH_O, NULL},
                                {"_set_public", set_public, METH_O, NULL},
                                {0}};
static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(function, call), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(function, weak), READONLY, NULL},
    {0}};

static PyObject *call_slowly(PyObject *self, PyObject *args, PyObject *kwargs);

#define SLOTS                                                                                      \
    {Py_tp_repr, function_repr}, {Py_tp_getset, gets}, {Py_tp_methods, methods},                   \
        {Py_tp_members, members}, {Py_tp_call, call_slowly}, {Py_tp_dealloc, function_dealloc},    \
        {Py_tp_traverse, function_traverse}, {Py_tp_clear, function_clear}
static PyType_Slot function_slots[] = {SLOTS, {0, NULL}};
static PyType_Slot method_slots[] = {SLOTS, {Py_tp_descr_get, method_bind}, {0, NULL}};

enum {
    FLAGS = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
            Py_TPFLAGS_DISALLOW_INSTANTIATION
};
static PyType_Spec function_spec = {"_cfx.Function", sizeof(function), 0, FLAGS, function_slots};
static PyType_Spec method_spec = {"_cfx.Method", sizeof(function), 0,
                                  FLAGS | Py_TPFLAGS_METHOD_DESCRIPTOR, method_slots};

static PyObject *call_slowly(PyObject *self, PyObject *args, PyObject *kwargs) {
    return cfx__py_call_slowly(call, self, args, kwargs);
}

/* ---- making ---------------------------------------------------------------------------------- */

static PyObject *make(PyObject *path, PyObject *name, kind k) {
    function *f = PyObject_GC_New(function,
                                  k == TENSOR_METHOD ? cfx__py.method : cfx__py.function);
    if (!f)
        return NULL;
    Py_INCREF(path);
    Py_INCREF(name);
    f->call = call;
    f->target = (cfx_target){0};
    f->spelled = path, f->name = name;
    f->path = cfx__py_utf8(path);
    f->own = f->public = f->results = f->weak = NULL;
    f->kind = k;
    f->aten = false;
    PyObject_GC_Track(f);
    return (PyObject *)f;
}

/* function(path, name, kind): what the registry has under a path; AttributeError where it has
 * nothing. */
static PyObject *new_function(PyObject *unused, PyObject *args) {
    PyObject *path, *name;
    int k;
    (void)unused;
    if (!PyArg_ParseTuple(args, "UUi", &path, &name, &k))
        return NULL;
    PyObject *o = make(path, name, (kind)k);
    if (o && !find((function *)o)) {
        PyErr_Format(PyExc_AttributeError, "no operator is called '%U'", path);
        Py_CLEAR(o);
    }
    return o;
}

/* The method of tensors that is called so, put into their type; NULL with an AttributeError. */
static PyObject *find_method(PyObject *name) {
    const char *text = cfx__py_utf8(name);
    if (!text || (text[0] == '_' && text[1] == '_'))
        return NULL;
    PyObject *path = PyUnicode_FromFormat("Tensor.%U", name);
    PyObject *o = path ? make(path, name, TENSOR_METHOD) : NULL;
    Py_XDECREF(path);
    if (o && (!find((function *)o) || PyObject_SetAttr((PyObject *)cfx__py.tensor, name, o) < 0))
        Py_CLEAR(o);
    return o;
}

PyObject *cfx__py_tensor_getattr(PyObject *self, PyObject *name) {
    PyObject *o = PyObject_GenericGetAttr(self, name);
    if (o || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return o;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *method = find_method(name);
    if (!method) {
        PyErr_Restore(type, value, traceback);
        return NULL;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    Py_DECREF(method);
    return PyObject_GenericGetAttr(self, name);
}

/* method(name): the same for the class. */
static PyObject *class_method(PyObject *unused, PyObject *name) {
    (void)unused;
    PyObject *o = find_method(name);
    if (!o && !PyErr_Occurred())
        PyErr_Format(PyExc_AttributeError, "type object 'Tensor' has no attribute '%U'", name);
    return o;
}

/* spellings(): every path that the registry has in Python. */
static PyObject *spellings(PyObject *unused, PyObject *none) {
    (void)unused, (void)none;
    PyObject *list = PyList_New(0);
    const char *s;
    for (int i = 0; list && (s = cfx_spelling_at(i)); i++) {
        PyObject *text = PyUnicode_FromString(s);
        if (!text || PyList_Append(list, text) < 0)
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

static PyMethodDef functions[] = {
    {"function", new_function, METH_VARARGS, "function(path, name, kind)"},
    {"method", class_method, METH_O, "method(name): a method of tensors"},
    {"spellings", spellings, METH_NOARGS, "Every path that the registry has."},
    {0}};

bool cfx__py_add_function(PyObject *m) {
    return cfx__py_add_type(m, &cfx__py.function, &function_spec) &&
           cfx__py_add_type(m, &cfx__py.method, &method_spec) &&
           PyModule_AddFunctions(m, functions) == 0;
}
