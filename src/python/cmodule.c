/* Modules: those of C as Python sees them, and modules of Python as C does. A mirror is a module of
 * C with the tensors, children and attributes of one of Python's, which it keeps: layers of
 * torch.nn are C's own, and what Python defines is called back. */
#include "python.h"

#include "graph.h"

typedef struct cmodule {
    PyObject_HEAD
    cfx_module *m; /* counted */
} cmodule;

PyObject *cfx__py_from_cmodule(cfx_module *m) {
    if (cfx_failed(m)) {
        cfx__py_raise();
        return NULL;
    }
    allocfunc alloc = (allocfunc)PyType_GetSlot(cfx__py.module, Py_tp_alloc);
    cmodule *o = (cmodule *)alloc(cfx__py.module, 0);
    if (o)
        o->m = cfx_keep(m);
    return (PyObject *)o;
}

cfx_module *cfx__py_cmodule_of(PyObject *o) { return ((cmodule *)o)->m; }

static void cmodule_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    cfx_drop(((cmodule *)self)->m);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- looking --------------------------------------------------------------------------------- */

/* The Python module that a module of C carries; borrowed, NULL where there is none. */
static PyObject *carried(const cfx_module *m) { return cfx__py_object_of(cfx_module_object(m)); }

static PyObject *get_type(PyObject *self, void *unused) {
    (void)unused;
    return cfx__py_text(cfx__py_cmodule_of(self)->type);
}
static PyObject *get_path(PyObject *self, void *unused) {
    (void)unused;
    return cfx__py_text(cfx__py_cmodule_of(self)->path);
}
static PyObject *get_training(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(cfx__py_cmodule_of(self)->training);
}
static int set_training(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    int on = value ? PyObject_IsTrue(value) : -1;
    if (on >= 0)
        cfx__py_cmodule_of(self)->training = on;
    else if (!PyErr_Occurred())
        PyErr_SetString(PyExc_AttributeError, "training cannot be deleted");
    return on < 0 ? -1 : 0;
}
static PyObject *get_object(PyObject *self, void *unused) {
    (void)unused;
    PyObject *o = carried(cfx__py_cmodule_of(self));
    return Py_BuildValue("O", o ? o : Py_None);
}
static PyObject *get_graph(PyObject *self, void *unused) {
    (void)unused;
    return cfx__py_from_graph(cfx__py_cmodule_of(self)->graph);
}
static PyObject *get_address(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromVoidPtr(cfx__py_cmodule_of(self));
}

static PyObject *attrs(PyObject *self, PyObject *unused) {
    (void)unused;
    return cfx__py_from_value(cfx_dict_value(cfx__py_cmodule_of(self)->attrs));
}
static PyObject *parameters(PyObject *self, PyObject *unused) {
    (void)unused;
    return cfx__py_from_value(cfx_dict_value(cfx__py_cmodule_of(self)->parameters));
}

/* buffers(): name to (tensor or None, whether it is in the state dict). */
static PyObject *buffers(PyObject *self, PyObject *unused) {
    const cfx_module *m = cfx__py_cmodule_of(self);
    PyObject *all = PyDict_New();
    (void)unused;
    for (int64_t i = 0; all && i < m->buffers->len; i++)
        CFX_SCOPE {
            const char *name = cfx_text(m->buffers->entries[i].key);
            cfx_value b = m->buffers->entries[i].value;
            cfx_dict *state = cfx_module_named(m, CFX_NAMED_STATE, "", false);
            bool stays = cfx_is_none(b) || cfx_dict_find(state, m->buffers->entries[i].key);
            PyObject *pair = Py_BuildValue("NN", cfx__py_from_value(b), PyBool_FromLong(stays));
            if (!pair || PyDict_SetItemString(all, name, pair) < 0)
                Py_CLEAR(all);
            Py_XDECREF(pair);
        }
    return all;
}

/* children(): a list of (name, module). */
static PyObject *children(PyObject *self, PyObject *unused) {
    const cfx_module *m = cfx__py_cmodule_of(self);
    PyObject *all = PyList_New(0);
    (void)unused;
    for (int i = 0; all && i < cfx_module_count(m); i++) {
        PyObject *pair = Py_BuildValue("NN", cfx__py_text(cfx_module_child_name(m, i)),
                                       cfx__py_from_cmodule(cfx_module_child(m, i)));
        if (!pair || PyList_Append(all, pair) < 0)
            Py_CLEAR(all);
        Py_XDECREF(pair);
    }
    return all;
}

/* counted(): the modules that the calls of a dispatcher are, in their order. */
static PyObject *counted(PyObject *self, PyObject *unused) {
    PyObject *all = PyList_New(0);
    (void)unused;
    CFX_SCOPE {
        cfx_value calls = cfx_module_attr(cfx__py_cmodule_of(self), "_call_modules");
        for (int64_t i = 0; all && calls.tag == CFX_TAG_LIST && i < cfx_as_list(calls)->len; i++) {
            PyObject *m = cfx__py_from_cmodule(cfx_as_module(cfx_as_list(calls)->items[i]));
            if (!m || PyList_Append(all, m) < 0)
                Py_CLEAR(all);
            Py_XDECREF(m);
        }
    }
    return all;
}

/* set(name, value): an attribute, a parameter or a buffer that it has. */
static PyObject *set(PyObject *self, PyObject *args) {
    const char *name;
    PyObject *value, *result = NULL;
    if (!PyArg_ParseTuple(args, "sO", &name, &value))
        return NULL;
    CFX__PY_CALL(result) {
        cfx_value v;
        if (!cfx__py_to_value(value, &v))
            continue;
        cfx_module_set_attr(cfx__py_cmodule_of(self), name, v);
        result = Py_BuildValue("");
    }
    return result;
}

static PyObject *copy(PyObject *self, PyObject *unused) {
    PyObject *result = NULL;
    (void)unused;
    CFX__PY_CALL(result) {
        cfx_module *m = cfx_module_copy(cfx__py_cmodule_of(self));
        if (!cfx_failed(m))
            result = cfx__py_from_cmodule(m);
    }
    return result;
}

/* extra_repr(): what it shows of itself beside its name. */
static PyObject *extra_repr(PyObject *self, PyObject *unused) {
    PyObject *text = NULL;
    cfx_module *m = cfx__py_cmodule_of(self);
    (void)unused;
    CFX__PY_CALL(text) text = cfx__py_text(m->extra_repr ? m->extra_repr(m) : "");
    return text;
}

static PyObject *cmodule_repr(PyObject *self) {
    PyObject *text = NULL;
    CFX__PY_CALL(text) text = cfx__py_text(cfx_module_str(cfx__py_cmodule_of(self)));
    return text;
}

/* forward(args, kwargs) */
static PyObject *forward(PyObject *self, PyObject *args) {
    PyObject *a, *kw, *result = NULL;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &a, &PyDict_Type, &kw))
        return NULL;
    CFX__PY_CALL(result) {
        cfx_args given;
        if (!cfx__py_to_args_of(a, kw, &given))
            continue;
        cfx_value v =
            cfx_forward_value_from(cfx__py_here(), cfx__py_cmodule_of(self), given);
        if (!cfx_is_bad(v))
            result = cfx__py_from_value(v);
    }
    return result;
}

static PyGetSetDef gets[] = {{"type", get_type, NULL, NULL, NULL},
                             {"path", get_path, NULL, NULL, NULL},
                             {"training", get_training, set_training, NULL, NULL},
                             {"object", get_object, NULL, "The Python module it mirrors.", NULL},
                             {"graph", get_graph, NULL, NULL, NULL},
                             {"address", get_address, NULL, NULL, NULL},
                             {0}};
static PyMethodDef methods[] = {{"attrs", attrs, METH_NOARGS, NULL},
                                {"parameters", parameters, METH_NOARGS, NULL},
                                {"buffers", buffers, METH_NOARGS, NULL},
                                {"children", children, METH_NOARGS, NULL},
                                {"counted", counted, METH_NOARGS, NULL},
                                {"forward", forward, METH_VARARGS, NULL},
                                {"set", set, METH_VARARGS, NULL},
                                {"copy", copy, METH_NOARGS, NULL},
                                {"extra_repr", extra_repr, METH_NOARGS, NULL},
                                {0}};
static PyType_Slot slots[] = {{Py_tp_dealloc, cmodule_dealloc},
                              {Py_tp_repr, cmodule_repr},
                              {Py_tp_getset, gets},
                              {Py_tp_methods, methods},
                              {0, NULL}};
static PyType_Spec spec = {"_cfx.CModule", sizeof(cmodule), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

/* ---- layers ---------------------------------------------------------------------------------- */

/* layers(): the rows of torch.nn, each a dict. */
static PyObject *layers(PyObject *unused, PyObject *none) {
    PyObject *all = PyList_New(0);
    (void)unused, (void)none;
    for (int i = 0; all && i < cfx_nn_count(); i++) {
        cfx_nn_layer l = cfx_nn_layer_at(i);
        PyObject *row = Py_BuildValue("{sssssssssssO}", "name", l.name, "path", l.path, "options",
                                      l.options, "inputs", l.inputs, "call", l.call, "leaf",
                                      l.leaf ? Py_True : Py_False);
        if (!row || PyList_Append(all, row) < 0)
            Py_CLEAR(all);
        Py_XDECREF(row);
    }
    return all;
}

/* make_layer(type, args, kwargs) */
static PyObject *make_layer(PyObject *unused, PyObject *args) {
    const char *type;
    PyObject *a, *kw, *result = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "sO!O!", &type, &PyTuple_Type, &a, &PyDict_Type, &kw))
        return NULL;
    CFX__PY_CALL(result) {
        cfx_args given;
        if (!cfx__py_to_args_of(a, kw, &given))
            continue;
        cfx_module *m = cfx_nn_make_from((cfx_site){0}, type, given, (cfx_nn_options){0});
        if (!cfx_failed(m))
            result = cfx__py_from_cmodule(m);
    }
    return result;
}

static void set_attrs(cfx_module *m, const cfx_dict *all) {
    for (int64_t i = 0; i < all->len && cfx_ok(); i++) {
        const char *name = cfx_text(all->entries[i].key);
        cfx_value v = all->entries[i].value;
        if (name && v.tag != CFX_TAG_TENSOR && v.tag != CFX_TAG_OBJECT)
            cfx_module_set_attr(m, name, v);
    }
}

/* layer_repr(type, attributes, parameters): what its extra_repr shows. */
static PyObject *layer_repr(PyObject *unused, PyObject *args) {
    const char *type;
    PyObject *given, *parameters, *text = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "sO!O!", &type, &PyDict_Type, &given, &PyDict_Type, &parameters))
        return NULL;
    CFX__PY_CALL(text) {
        cfx_value v, p;
        cfx_module *m = cfx_nn_bare(type);
        if (cfx_failed(m) || !cfx__py_to_value(given, &v) || !cfx__py_to_value(parameters, &p))
            continue;
        set_attrs(m, cfx_as_dict(v));
        for (int64_t i = 0; i < cfx_as_dict(p)->len; i++)
            cfx_dict_put(m->parameters, cfx_as_dict(p)->entries[i].key,
                         cfx_as_dict(p)->entries[i].value);
        text = cfx__py_text(m->extra_repr ? m->extra_repr(m) : "");
    }
    return text;
}

/* ---- mirrors --------------------------------------------------------------------------------- */

static const char any_arguments[] = "*args, **kwargs";

/* A module's hooks and forward, with what is given for *args and **kwargs. */
static PyObject *call_with_any(PyObject *module, cfx_args bound) {
    PyObject *args = cfx__py_from_value(bound.v[0]), *result = NULL;
    PyObject *kwargs = args ? cfx__py_from_value(bound.v[1]) : NULL;
    PyObject *impl = kwargs ? PyObject_GetAttrString(module, "_call_impl") : NULL;
    if (impl)
        result = PyObject_Call(impl, args, kwargs);
    Py_XDECREF(impl);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return result;
}

/* Calls the Python module that m carries. */
static cfx_value call_python(cfx_module *m, cfx_args bound) {
    cfx__py_lock lock;
    cfx_value v = cfx_bad();
    PyObject *result = NULL, *args, *kwargs;
    if (!cfx__py_enter(&lock))
        return v;
    if (!strcmp(m->signature, any_arguments)) {
        result = call_with_any(m->user, bound);
    } else if (cfx__py_from_args(bound, &args, &kwargs)) {
        result = PyObject_CallFunctionObjArgs(cfx__py.call_bound, m->user, args, NULL);
        Py_DECREF(args);
    }
    v = cfx__py_give(result);
    cfx__py_exit(lock);
    return v;
}

/* The tensors of a dict of Python's into one of a module. */
static bool put_tensors(cfx_module *m, PyObject *module, const char *attribute, cfx_dict *into) {
    PyObject *all = PyObject_GetAttrString(module, attribute);
    PyObject *key, *value;
    bool good = all && PyDict_Check(all);
    for (Py_ssize_t at = 0; good && PyDict_Next(all, &at, &key, &value);) {
        cfx_value k, v;
        good = cfx__py_to_value(key, &k) && cfx__py_to_value(value, &v);
        if (good)
            cfx_dict_put(into, k, v);
    }
    (void)m;
    Py_XDECREF(all);
    return good;
}

/* The buffers of a module, and which of them are no part of its state. */
static bool put_buffers(cfx_module *m, PyObject *module) {
    PyObject *transient = PyObject_GetAttrString(module, "_non_persistent_buffers_set");
    bool good = transient && put_tensors(m, module, "_buffers", m->buffers);
    for (int64_t i = 0; good && i < m->buffers->len; i++) {
        const char *name = cfx_text(m->buffers->entries[i].key);
        cfx_value v = m->buffers->entries[i].value;
        PyObject *key = cfx__py_text(name);
        int found = key ? PySequence_Contains(transient, key) : -1;
        if (found == 1 && v.tag == CFX_TAG_TENSOR)
            cfx_nn_buffer(m, name, cfx_as_tensor(v), false);
        good = found >= 0;
        Py_XDECREF(key);
    }
    Py_XDECREF(transient);
    return good;
}

/* Tensors that are plain attributes of a module of Python's: constants that have a name. */
static bool put_constants(cfx_module *m, PyObject *module) {
    PyObject *all = PyObject_GetAttrString(module, "__dict__"), *key, *value;
    bool good = all && PyDict_Check(all);
    for (Py_ssize_t at = 0; good && PyDict_Next(all, &at, &key, &value);) {
        const char *name = cfx__py_is_tensor(value) ? cfx__py_utf8(key) : NULL;
        if (name)
            cfx_module_set_attr(m, name, cfx_tensor_value(cfx__py_tensor_of(value)));
        good = name || !PyErr_Occurred();
    }
    Py_XDECREF(all);
    return good && cfx_ok();
}

static cfx_module *mirror(PyObject *module, PyObject *memo, const char *signature);

static bool put_children(cfx_module *m, PyObject *module, PyObject *memo) {
    PyObject *all = PyObject_GetAttrString(module, "_modules"), *key, *value;
    bool good = all && PyDict_Check(all);
    for (Py_ssize_t at = 0; good && PyDict_Next(all, &at, &key, &value);) {
        const char *name = cfx__py_utf8(key);
        cfx_module *child = !name || value == Py_None ? NULL : mirror(value, memo, NULL);
        good = name && (value == Py_None || child);
        if (child)
            cfx_nn_add(m, name, child);
    }
    Py_XDECREF(all);
    return good;
}

/* The name of the layer of C's that a Python module is, or the module of C it stands for; NULL:
 * it is Python's own. */
static PyObject *layer_name(PyObject *module) {
    PyObject *o = PyObject_CallMethod(cfx__py.mirror_kind, "__call__", "O", module);
    if (o == Py_None)
        Py_CLEAR(o);
    return o;
}

static cfx_module *new_mirror(PyObject *module, PyObject *layer, const char *signature) {
    cfx_module *m = NULL;
    if (layer) {
        PyObject *dict = PyObject_GetAttrString(module, "__dict__");
        PyObject *plain = dict ? PyObject_CallMethod(cfx__py.plain_attrs, "__call__", "O", module)
                               : NULL;
        cfx_value v;
        m = cfx_nn_bare(cfx__py_utf8(layer));
        if (plain && !cfx_failed(m) && cfx__py_to_value(plain, &v))
            set_attrs(m, cfx_as_dict(v));
        else
            m = NULL;
        Py_XDECREF(dict);
        Py_XDECREF(plain);
    } else {
        PyObject *type = (PyObject *)Py_TYPE(module);
        PyObject *in = PyObject_GetAttrString(type, "__module__");
        PyObject *own = in ? PyObject_GetAttrString(type, "__qualname__") : NULL;
        PyObject *name = own ? PyUnicode_FromFormat("%S.%S", in, own) : NULL;
        Py_XDECREF(in);
        Py_XDECREF(own);
        if (name && cfx__py_utf8(name))
            m = cfx_module_new_n(cfx__py_utf8(name), call_python,
                                 signature ? signature : any_arguments);
        Py_XDECREF(name);
    }
    if (m)
        cfx_module_keep_object(m, cfx__py_object_value(module));
    return m;
}

/* memo: the number of a Python module (its address) to the CModule for it. */
static cfx_module *mirror(PyObject *module, PyObject *memo, const char *signature) {
    PyObject *key = PyLong_FromVoidPtr(module);
    PyObject *known = key ? PyDict_GetItemWithError(memo, key) : NULL;
    if (known || PyErr_Occurred()) {
        Py_XDECREF(key);
        return known ? cfx__py_cmodule_of(known) : NULL;
    }
    PyObject *layer = signature || PyErr_Occurred() ? NULL : layer_name(module);
    if (layer && PyObject_TypeCheck(layer, cfx__py.module)) {
        cfx_module *own = PyDict_SetItem(memo, key, layer) == 0 ? cfx__py_cmodule_of(layer) : NULL;
        Py_DECREF(layer); /* memo has it */
        Py_DECREF(key);
        return own;
    }
    cfx_module *m = PyErr_Occurred() ? NULL : new_mirror(module, layer, signature);
    PyObject *made = m ? cfx__py_from_cmodule(m) : NULL, *training = NULL;
    Py_XDECREF(layer);
    bool good = made && PyDict_SetItem(memo, key, made) == 0 &&
                put_tensors(m, module, "_parameters", m->parameters) &&
                put_buffers(m, module) && put_constants(m, module) &&
                put_children(m, module, memo);
    if (good)
        training = PyObject_GetAttrString(module, "training");
    if (training)
        m->training = PyObject_IsTrue(training) == 1;
    Py_XDECREF(training);
    Py_XDECREF(made);
    Py_XDECREF(key);
    return good && !PyErr_Occurred() ? m : NULL;
}

/* mirror_tree(module, signature): (the mirror, {id of a module: its mirror}). With a signature,
 * that of forward, the module itself is Python's, whatever it is. */
static PyObject *mirror_tree(PyObject *unused, PyObject *args) {
    PyObject *module, *result = NULL;
    const char *signature;
    (void)unused;
    if (!PyArg_ParseTuple(args, "Oz", &module, &signature))
        return NULL;
    CFX__PY_CALL(result) {
        PyObject *memo = PyDict_New();
        cfx_module *m = memo ? mirror(module, memo, signature) : NULL;
        if (m)
            result = Py_BuildValue("NO", cfx__py_from_cmodule(m), memo);
        Py_XDECREF(memo);
    }
    return result;
}

/* mirror(module) */
static PyObject *make_mirror(PyObject *unused, PyObject *module) {
    PyObject *args = Py_BuildValue("OO", module, Py_None);
    PyObject *both = args ? mirror_tree(unused, args) : NULL, *first = NULL;
    if (both) {
        first = PyTuple_GetItem(both, 0);
        Py_XINCREF(first);
    }
    Py_XDECREF(args);
    Py_XDECREF(both);
    return first;
}

PyObject *cfx__py_from_module(cfx_module *m) {
    PyObject *o = cfx__py_from_cmodule(m);
    if (!o || !cfx__py.module_from)
        return o;
    PyObject *result = PyObject_CallFunctionObjArgs(cfx__py.module_from, o, NULL);
    Py_DECREF(o);
    return result;
}

static PyMethodDef functions[] = {{"layers", layers, METH_NOARGS, NULL},
                                  {"make_layer", make_layer, METH_VARARGS, NULL},
                                  {"layer_repr", layer_repr, METH_VARARGS, NULL},
                                  {"mirror", make_mirror, METH_O, NULL},
                                  {"mirror_tree", mirror_tree, METH_VARARGS, NULL},
                                  {0}};

bool cfx__py_add_cmodule(PyObject *m) {
    return cfx__py_add_type(m, &cfx__py.module, &spec) && PyModule_AddFunctions(m, functions) == 0;
}
