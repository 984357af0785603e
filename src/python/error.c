/* Errors both ways, and the interpreter's lock for what C calls back. */
#include "python.h"

/* Under this name the dict of the thread has the exception that a callback raised: (exception,
 * message recorded in C). */
static const char pending[] = "cfx.pending";

static PyObject *take_pending(const char *message) {
    PyObject *dict = PyThreadState_GetDict();
    PyObject *pair = dict ? PyDict_GetItemString(dict, pending) : NULL;
    if (!pair)
        return NULL;
    Py_INCREF(pair);
    PyDict_DelItemString(dict, pending);
    PyErr_Clear();
    PyObject *value = PyTuple_GetItem(pair, 0);
    const char *recorded = cfx__py_utf8(PyTuple_GetItem(pair, 1));
    bool same = recorded && !strcmp(recorded, message);
    PyErr_Clear();
    Py_XINCREF(same ? value : NULL);
    Py_DECREF(pair);
    return same ? value : NULL;
}

static void keep_pending(PyObject *value, const char *message) {
    PyObject *dict = PyThreadState_GetDict(), *text = PyUnicode_FromString(message);
    PyObject *pair = text ? PyTuple_Pack(2, value, text) : NULL;
    if (dict && pair)
        PyDict_SetItemString(dict, pending, pair);
    Py_XDECREF(pair);
    Py_XDECREF(text);
    PyErr_Clear();
}

/* What outer layers added to the error: "While executing %relu ...". */
static void add_notes(PyObject *value, const char *notes) {
    PyObject *text = notes ? cfx__py_text(notes) : NULL;
    PyObject *done = text ? PyObject_CallMethod(value, "add_note", "O", text) : NULL;
    Py_XDECREF(done);
    Py_XDECREF(text);
    PyErr_Clear();
}

/* Advice names functions as C writes them; who reads it here writes Python. */
static const struct {
    const char *c, *python;
} spellings[] = {
    {" cfx_cond", " torch.cond"},
    {" cfx_where", " torch.where"},
    {" cfx_size, or cfx_py(\"builtins.getattr\", x, \"dtype\")",
     " x.shape and x.dtype as they come"},
    {" compute with it by cfx_py(\"operator.add\", n, 1) and its like",
     " compute with it by operators (n + 1), which are recorded"},
    {" compute it by cfx_py(\"operator.mul\", cfx_size(x, 0), 2) and its like",
     " compute it by operators (x.shape[0] * 2), which are recorded"},
    {" compared by cfx_py(\"operator.lt\", i, n)", " compared by operators (i < n)"},
};

static PyObject *spelled(const char *message) {
    PyObject *text = cfx__py_text(message);
    for (size_t i = 0; text && i < sizeof spellings / sizeof *spellings; i++) {
        PyObject *next = strstr(message, spellings[i].c)
                             ? PyObject_CallMethod(text, "replace", "ss", spellings[i].c,
                                                   spellings[i].python)
                             : NULL;
        if (next) {
            Py_DECREF(text);
            text = next;
        }
        PyErr_Clear();
    }
    return text;
}

static PyObject *message_of(const cfx_error *e) {
    PyObject *message = spelled(e->message);
    if (!message || !e->notes)
        return message;
    PyObject *notes = cfx__py_text(e->notes), *all = NULL;
    if (notes)
        all = PyUnicode_FromFormat("%U\n\n%U", message, notes);
    Py_XDECREF(notes);
    Py_DECREF(message);
    return all;
}

bool cfx__py_raise(void) {
    const cfx_error *e = cfx_error_last();
    if (!e)
        return true;
    PyObject *value = take_pending(e->message);
    if (value) {
        add_notes(value, e->notes);
        PyObject *type = (PyObject *)Py_TYPE(value);
        Py_INCREF(type);
        PyErr_Restore(type, value, PyException_GetTraceback(value));
    } else {
        PyObject *type = e->kind <= CFX_LINALG_ERROR ? cfx__py.errors[e->kind] : NULL;
        PyObject *message = message_of(e);
        if (message)
            PyErr_SetObject(type ? type : PyExc_RuntimeError, message);
        Py_XDECREF(message);
    }
    cfx_error_clear();
    return false;
}

PyObject *cfx__py_leave(size_t mark, PyObject *result) {
    cfx_scope_close(mark);
    bool raised = PyErr_Occurred();
    if (cfx_ok() && !raised)
        return result;
    Py_XDECREF(result);
    if (raised)
        cfx_error_clear();
    else
        cfx__py_raise();
    return NULL;
}

static cfx_error_kind kind_of(PyObject *value) {
    for (int kind = CFX_LINALG_ERROR; kind > CFX_RUNTIME_ERROR; kind--)
        if (cfx__py.errors[kind] && PyObject_IsInstance(value, cfx__py.errors[kind]) == 1)
            return (cfx_error_kind)kind;
    PyErr_Clear();
    return CFX_RUNTIME_ERROR;
}

void cfx__py_caught(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (!value) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "a call of Python failed without a word");
        Py_XDECREF(type);
        Py_XDECREF(traceback);
        return;
    }
    if (traceback)
        PyException_SetTraceback(value, traceback);
    if (cfx_ok()) {
        PyObject *text = PyObject_Str(value);
        const char *message = text ? cfx__py_utf8(text) : NULL;
        PyErr_Clear();
        cfx_fail(kind_of(value), (cfx_site){0}, "%s", message ? message : "");
        keep_pending(value, cfx_error_last()->message);
        Py_XDECREF(text);
    }
    Py_DECREF(type);
    Py_DECREF(value);
    Py_XDECREF(traceback);
}

bool cfx__py_enter(cfx__py_lock *lock) {
    if (cfx__py.closed || !Py_IsInitialized())
        return false;
    *lock = PyGILState_Ensure();
    return true;
}

void cfx__py_exit(cfx__py_lock lock) { PyGILState_Release(lock); }

/* ---- lines ----------------------------------------------------------------------------------- */

cfx_site cfx__py_here(void) {
    cfx_site at = {0};
    if (!cfx__py_this_thread.exporting || !cfx__py.here)
        return at;
    PyObject *place = PyObject_CallFunctionObjArgs(cfx__py.here, NULL);
    /* the name is held by a table of all such names */
    if (!place || !PyArg_ParseTuple(place, "yi", &at.file, &at.line))
        PyErr_Clear();
    Py_XDECREF(place);
    return at.file && *at.file ? at : (cfx_site){0};
}
