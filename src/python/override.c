/* Overrides: __torch_function__ of arguments and of function modes, __torch_dispatch__ of dispatch
 * modes. A mode that Python pushes is on C's stack as well, so that it sees the calls of programs
 * that C runs; a call that Python makes is shown to it here, with the objects that were given. */
#include "python.h"

/* ---- who overrides --------------------------------------------------------------------------- */

/* Whose types a call is shown with beside a mode: those that override it; plain tensors as well, as
 * functions that PyTorch writes in Python have it; the tensor that a method without arguments, or
 * an attribute, is asked of. */
typedef enum shown { OVERRIDING, TENSORS, SELF } shown;

/* The method of an object's type that overrides calls, or NULL; a new reference. */
static PyObject *override_of(PyObject *o, shown s) {
    PyTypeObject *t = Py_TYPE(o);
    if (((PyObject *)t == cfx__py.tensor_class && s == OVERRIDING) ||
        (PyObject *)t == cfx__py.parameter || o == Py_None || PyLong_Check(o) ||
        PyFloat_Check(o) || PyUnicode_Check(o))
        return NULL;
    PyObject *method = PyObject_GetAttr((PyObject *)t, cfx__py.torch_function);
    if (!method)
        PyErr_Clear();
    if (method && method == cfx__py.disabled)
        Py_CLEAR(method);
    return method;
}

static bool overrides(PyObject *o, int depth) {
    if (PyList_Check(o) || PyTuple_CheckExact(o)) {
        Py_ssize_t n = PyList_Check(o) ? PyList_Size(o) : PyTuple_Size(o);
        for (Py_ssize_t i = 0; depth < 3 && i < n; i++)
            if (overrides(PyList_Check(o) ? PyList_GetItem(o, i) : PyTuple_GetItem(o, i),
                          depth + 1))
                return true;
        return false;
    }
    PyObject *method = override_of(o, OVERRIDING);
    Py_XDECREF(method);
    return method != NULL;
}

bool cfx__py_is_overridden(PyObject *const *args, Py_ssize_t n) {
    const cfx__py_thread *t = &cfx__py_this_thread;
    if (t->overrides_off)
        return false;
    if (t->function_modes)
        return true;
    for (Py_ssize_t i = 0; i < n; i++)
        if ((PyObject *)Py_TYPE(args[i]) != cfx__py.tensor_class && overrides(args[i], 0))
            return true;
    return false;
}

/* Adds who overrides in o to a list, subclasses before their bases, each type once. */
static bool gather(PyObject *o, PyObject *who, int depth, shown s) {
    if (PyList_Check(o) || PyTuple_CheckExact(o)) {
        Py_ssize_t n = PyList_Check(o) ? PyList_Size(o) : PyTuple_Size(o);
        for (Py_ssize_t i = 0; depth < 3 && i < n; i++)
            if (!gather(PyList_Check(o) ? PyList_GetItem(o, i) : PyTuple_GetItem(o, i), who,
                        depth + 1, s))
                return false;
        return true;
    }
    PyObject *method = override_of(o, s);
    if (!method)
        return true;
    Py_DECREF(method);
    Py_ssize_t n = PyList_Size(who), at = n;
    for (Py_ssize_t i = n; i-- > 0;) {
        PyTypeObject *other = Py_TYPE(PyList_GetItem(who, i));
        if (other == Py_TYPE(o))
            return true;
        if (PyType_IsSubtype(Py_TYPE(o), other))
            at = i;
    }
    return PyList_Insert(who, at, o) == 0;
}

/* How a function's calls are shown. Functions of C's read their arguments one by one, methods with
 * nothing but a tensor do not; what is in `torch` itself is C's in PyTorch, whoever has it here. */
static shown shown_by(PyObject *func, Py_ssize_t nargs) {
    if (Py_TYPE(func) == cfx__py.overload)
        return OVERRIDING;
    if (Py_TYPE(func) == cfx__py.function) {
        const char *path = cfx__py_function_path(func);
        return path && !strncmp(path, "torch.functional.", 17) ? TENSORS : OVERRIDING;
    }
    if (Py_TYPE(func) == cfx__py.method)
        return cfx__py_takes_self_alone(func) ? SELF : OVERRIDING;
    if (PyObject_HasAttrString(func, "__self__")) /* an attribute's __get__ or __set__ */
        return SELF;
    if (PyObject_HasAttrString(func, "__objclass__")) { /* of Python's types, and so C's */
        PyObject *name = PyObject_GetAttrString(func, "__name__");
        const char *text = name ? cfx__py_utf8(name) : "";
        shown s = nargs == 1 && strcmp(text, "size") && strcmp(text, "stride") ? SELF : OVERRIDING;
        if (nargs == 2 && (!strncmp(text, "__r", 3) || !strcmp(text, "__floordiv__")) &&
            strcmp(text, "__rshift__"))
            s = TENSORS; /* which PyTorch writes in Python */
        Py_XDECREF(name);
        return s;
    }
    PyObject *module = PyObject_GetAttrString(func, "__module__");
    bool own = module && PyUnicode_Check(module) &&
               PyUnicode_CompareWithASCIIString(module, "torch") == 0;
    Py_XDECREF(module);
    PyErr_Clear();
    return own ? OVERRIDING : TENSORS;
}

/* Those whose types a call is shown with: a new list. */
static PyObject *who_of(PyObject *func, PyObject *args, PyObject *kwargs) {
    Py_ssize_t n = PyTuple_Size(args);
    PyObject *who = PyList_New(0);
    shown s = shown_by(func, n);
    bool good = who != NULL;
    if (good && s == SELF && n) {
        PyObject *self = PyTuple_GetItem(args, 0);
        if (cfx__py_is_tensor(self))
            good = PyList_Append(who, self) == 0;
    }
    for (Py_ssize_t i = s == SELF; good && i < n; i++)
        good = gather(PyTuple_GetItem(args, i), who, 0, s == SELF ? OVERRIDING : s);
    PyObject *values = good && kwargs ? PyDict_Values(kwargs) : NULL;
    for (Py_ssize_t i = 0; values && good && i < PyList_Size(values); i++)
        good = gather(PyList_GetItem(values, i), who, 0, s);
    Py_XDECREF(values);
    if (!good)
        Py_CLEAR(who);
    return who;
}

/* ---- asking them ----------------------------------------------------------------------------- */

static PyObject *types_of(PyObject *who) {
    PyObject *types = PyTuple_New(PyList_Size(who));
    for (Py_ssize_t i = 0; types && i < PyList_Size(who); i++) {
        PyObject *t = (PyObject *)Py_TYPE(PyList_GetItem(who, i));
        Py_INCREF(t);
        PyTuple_SetItem(types, i, t);
    }
    return types;
}

/* method(func, types, args, kwargs) */
static PyObject *ask(PyObject *method, PyObject *func, PyObject *types, PyObject *args,
                     PyObject *kwargs) {
    return PyObject_CallFunctionObjArgs(method, func, types, args, kwargs, NULL);
}

/* The innermost mode, switched off while it is asked. */
static PyObject *ask_mode(PyObject *func, PyObject *types, PyObject *args, PyObject *kwargs) {
    cfx__py_mode *m = cfx__py_this_thread.function_modes;
    Py_INCREF(m->object);
    PyObject *object = m->object;
    cfx__py_this_thread.function_modes = m->below;
    cfx_function_mode_pop();
    PyObject *method = PyObject_GetAttr(object, cfx__py.torch_function);
    PyObject *result = method ? ask(method, func, types, args, kwargs) : NULL;
    Py_XDECREF(method);
    m->below = cfx__py_this_thread.function_modes;
    cfx__py_this_thread.function_modes = m;
    cfx_function_mode_push(&m->c);
    Py_DECREF(object);
    return result;
}

/* Nobody took the call: the sentence is written in Python (torch.overrides). */
static PyObject *refuse(PyObject *func, PyObject *who) {
    PyObject *overrides = PyImport_ImportModule("cfx.torch.overrides");
    PyObject *sentence =
        overrides ? PyObject_CallMethod(overrides, "_refusal", "OO", func, who) : NULL;
    if (sentence)
        PyErr_SetObject(PyExc_TypeError, sentence);
    Py_XDECREF(sentence);
    Py_XDECREF(overrides);
    return NULL;
}

static PyObject *ask_all(PyObject *func, PyObject *who, PyObject *args, PyObject *kwargs) {
    PyObject *types = types_of(who), *result = NULL;
    if (types && cfx__py_this_thread.function_modes)
        result = ask_mode(func, types, args, kwargs);
    bool go_on = types && (cfx__py_this_thread.function_modes ? result == Py_NotImplemented : true);
    for (Py_ssize_t i = 0; go_on && i < PyList_Size(who); i++) {
        PyObject *asked = override_of(PyList_GetItem(who, i), OVERRIDING);
        Py_XDECREF(asked);
        if (!asked)
            continue;
        Py_CLEAR(result);
        /* of the object, not of its type: a method that is no classmethod works as well */
        PyObject *method = PyObject_GetAttr(PyList_GetItem(who, i), cfx__py.torch_function);
        result = method ? ask(method, func, types, args, kwargs) : NULL;
        Py_XDECREF(method);
        go_on = result == Py_NotImplemented;
    }
    Py_XDECREF(types);
    if (result != Py_NotImplemented)
        return result;
    Py_DECREF(result);
    return refuse(func, who);
}

PyObject *cfx__py_override_of(PyObject *func, PyObject *args, PyObject *kwargs) {
    PyObject *keywords = kwargs ? kwargs : PyDict_New(), *result = NULL;
    if (kwargs)
        Py_INCREF(kwargs);
    PyObject *who = keywords ? who_of(func, args, keywords) : NULL;
    if (who)
        result = ask_all(func, who, args, keywords);
    Py_XDECREF(keywords);
    Py_XDECREF(who);
    return result;
}

PyObject *cfx__py_override(PyObject *func, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames) {
    PyObject *tuple = PyTuple_New(nargs), *kwargs = PyDict_New(), *result = NULL;
    bool good = tuple && kwargs;
    for (Py_ssize_t i = 0; good && i < nargs; i++) {
        Py_INCREF(args[i]);
        PyTuple_SetItem(tuple, i, args[i]);
    }
    for (Py_ssize_t i = 0; good && kwnames && i < PyTuple_Size(kwnames); i++)
        good = PyDict_SetItem(kwargs, PyTuple_GetItem(kwnames, i), args[nargs + i]) == 0;
    if (good)
        result = cfx__py_override_of(func, tuple, kwargs);
    Py_XDECREF(tuple);
    Py_XDECREF(kwargs);
    return result;
}

/* ---- modes ----------------------------------------------------------------------------------- */

/* Whether an operator is that of the function that Python calls. */
static bool is_called(const cfx_op *op) {
    const cfx_fn *fn = cfx__py_this_thread.calling;
    for (int i = 0; fn && i < fn->n; i++)
        if (fn->ops[i] == op)
            return true;
    return false;
}

/* PyTorch's functions that make tensors always say where, and that memory is not pinned. */
static PyObject *with_place(const cfx_op *op, PyObject *kwargs) {
    static const char *const names[] = {"dtype", "layout", "device", "pin_memory", "memory_format"};
    PyObject *all = PyDict_New();
    bool first = strncmp(op->schema + strcspn(op->schema, "("), "(Tensor", 7) != 0;
    for (int i = 0; all && i < 5; i++) {
        PyObject *given = PyDict_GetItemString(kwargs, names[i]), *made = NULL;
        if (!given && i == 2 && first)
            given = made = cfx__py_from_device(cfx_get_default_device());
        else if (!given && i == 3)
            given = Py_False;
        if (given && PyDict_SetItemString(all, names[i], given) < 0)
            Py_CLEAR(all);
        Py_XDECREF(made);
    }
    if (all && PyDict_Merge(all, kwargs, 0) < 0)
        Py_CLEAR(all);
    return all;
}

/* A call that C makes while a mode is on: shown to the mode's method as Python objects. */
static cfx_value show_call(cfx_mode *self, cfx_target target, cfx_args a, bool dispatch) {
    cfx__py_lock lock;
    cfx_value v = cfx_bad();
    PyObject *args, *kwargs, *method = NULL, *result = NULL;
    if (!cfx__py_enter(&lock))
        return v;
    if (dispatch)
        a = cfx_op_args_shown(target.op, a);
    PyObject *func = dispatch ? cfx__py_from_op(target.op) : cfx__py_callable(target);
    if (func)
        method = PyObject_GetAttr(self->user, dispatch ? cfx__py.torch_dispatch
                                                       : cfx__py.torch_function);
    if (method && cfx__py_from_args(a, &args, &kwargs)) {
        PyObject *keywords = kwargs ? kwargs : PyDict_New();
        if (keywords && dispatch && strstr(target.op->schema, "pin_memory") &&
            is_called(target.op)) {
            PyObject *all = with_place(target.op, keywords);
            Py_DECREF(keywords);
            keywords = all;
        }
        PyObject *who = keywords && !dispatch ? who_of(func, args, keywords) : NULL;
        PyObject *types = dispatch ? PyTuple_New(0) : who ? types_of(who) : NULL;
        if (types)
            result = ask(method, func, types, args, keywords);
        Py_XDECREF(types);
        Py_XDECREF(who);
        Py_XDECREF(keywords);
        Py_DECREF(args);
    }
    v = cfx__py_give(result);
    Py_XDECREF(func);
    Py_XDECREF(method);
    cfx__py_exit(lock);
    return v;
}

static cfx_value show_function(cfx_mode *self, cfx_target target, cfx_args a) {
    cfx__py_thread *t = &cfx__py_this_thread;
    cfx__py_mode *m = t->function_modes; /* C has taken it off its stack already */
    t->function_modes = m ? m->below : NULL;
    cfx_value v = show_call(self, target, a, false);
    t->function_modes = m;
    return v;
}

static cfx_value show_overload(cfx_mode *self, cfx_target target, cfx_args a) {
    cfx__py_thread *t = &cfx__py_this_thread;
    cfx__py_mode *m = t->dispatch_modes; /* the same */
    t->dispatch_modes = m ? m->below : NULL;
    cfx_value v = show_call(self, target, a, true);
    t->dispatch_modes = m;
    return v;
}

static PyObject *push_mode(PyObject *unused, PyObject *args) {
    PyObject *object;
    int dispatch;
    (void)unused;
    if (!PyArg_ParseTuple(args, "Op", &object, &dispatch))
        return NULL;
    cfx__py_mode *m = PyMem_Calloc(1, sizeof *m);
    if (!m)
        return PyErr_NoMemory();
    cfx__py_mode **stack = dispatch ? &cfx__py_this_thread.dispatch_modes
                                    : &cfx__py_this_thread.function_modes;
    Py_INCREF(object);
    *m = (cfx__py_mode){.object = object, .below = *stack,
                        .c = {.handle = dispatch ? show_overload : show_function, .user = object}};
    *stack = m;
    (dispatch ? cfx_dispatch_mode_push : cfx_function_mode_push)(&m->c);
    Py_RETURN_NONE;
}

static PyObject *pop_mode(PyObject *unused, PyObject *args) {
    int dispatch;
    (void)unused;
    if (!PyArg_ParseTuple(args, "p", &dispatch))
        return NULL;
    cfx__py_mode **stack = dispatch ? &cfx__py_this_thread.dispatch_modes
                                    : &cfx__py_this_thread.function_modes;
    cfx__py_mode *m = *stack;
    if (!m) {
        PyErr_SetString(PyExc_RuntimeError, "no mode is pushed on this thread");
        return NULL;
    }
    (dispatch ? cfx_dispatch_mode_pop : cfx_function_mode_pop)();
    *stack = m->below;
    PyObject *object = m->object;
    PyMem_Free(m);
    return object;
}

/* The modes that are on, outermost first. */
static PyObject *list_modes(PyObject *unused, PyObject *args) {
    int dispatch;
    (void)unused;
    if (!PyArg_ParseTuple(args, "p", &dispatch))
        return NULL;
    PyObject *list = PyList_New(0);
    cfx__py_mode *m = dispatch ? cfx__py_this_thread.dispatch_modes
                               : cfx__py_this_thread.function_modes;
    for (; list && m; m = m->below)
        if (PyList_Insert(list, 0, m->object) < 0)
            Py_CLEAR(list);
    return list;
}

/* Switches overrides off or on for this thread; what was. */
static PyObject *set_overrides(PyObject *unused, PyObject *on) {
    (void)unused;
    bool was = !cfx__py_this_thread.overrides_off;
    int now = PyObject_IsTrue(on);
    if (now < 0)
        return NULL;
    cfx__py_this_thread.overrides_off = !now;
    return PyBool_FromLong(was);
}

/* override(func, args, kwargs): asks those among the arguments that override func. */
static PyObject *override(PyObject *unused, PyObject *args) {
    PyObject *func, *given, *kwargs = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "OO!|O!", &func, &PyTuple_Type, &given, &PyDict_Type, &kwargs))
        return NULL;
    return cfx__py_override_of(func, given, kwargs);
}

static PyObject *is_overridden(PyObject *unused, PyObject *const *args, Py_ssize_t n) {
    (void)unused;
    return PyBool_FromLong(cfx__py_is_overridden(args, n));
}

static PyMethodDef functions[] = {
    {"push_mode", push_mode, METH_VARARGS, "push_mode(mode, dispatch)"},
    {"pop_mode", pop_mode, METH_VARARGS, "pop_mode(dispatch): the mode"},
    {"modes", list_modes, METH_VARARGS, "modes(dispatch): those that are on, outermost first"},
    {"set_overrides", set_overrides, METH_O, "Switches __torch_function__ off or on."},
    {"override", override, METH_VARARGS, "override(func, args, kwargs)"},
    {"is_overridden", (PyCFunction)(void (*)(void))is_overridden, METH_FASTCALL,
     "Whether an argument overrides the functions that take it."},
    {0}};

bool cfx__py_add_override(PyObject *m) { return PyModule_AddFunctions(m, functions) == 0; }
