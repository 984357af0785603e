/* Sessions: one user's state over programs that many share. */
#include "program.h"

typedef struct session {
    PyObject_HEAD
    cfx_session *s; /* counted */
} session;

static PyObject *session_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *o = NULL;
    if (PyTuple_Size(args) || (kwargs && PyDict_Size(kwargs)))
        return PyErr_Format(PyExc_TypeError, "Session() takes no arguments");
    CFX__PY_CALL(o) {
        cfx_session *s = cfx_session_new();
        if (cfx_failed(s))
            continue;
        o = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
        if (o)
            ((session *)o)->s = cfx_keep(s);
    }
    return o;
}

static void session_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    if (((session *)self)->s)
        cfx_drop(((session *)self)->s);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* _run(program, args, kwargs) */
static PyObject *run(PyObject *self, PyObject *args) {
    PyObject *program, *a, *kw, *o = NULL;
    if (!PyArg_ParseTuple(args, "O!O!O!", cfx__py.program, &program, &PyTuple_Type, &a,
                          &PyDict_Type, &kw))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_args given;
        if (!cfx__py_to_args_of(a, kw, &given))
            continue;
        cfx__py_released r = cfx__py_let_go();
        cfx_value result = cfx_session_run_from((cfx_site){0}, ((session *)self)->s,
                                                cfx__py_program_of(program), given);
        cfx__py_regain(r);
        if (!cfx_is_bad(result))
            o = cfx__py_from_value(result);
    }
    return o;
}

static PyObject *tensor(PyObject *self, PyObject *t) {
    PyObject *o = NULL;
    if (!cfx__py_is_tensor(t))
        return PyErr_Format(PyExc_TypeError, "tensor() takes a tensor of a program");
    CFX__PY_CALL(o) {
        cfx_tensor *own = cfx_session_tensor(((session *)self)->s, cfx__py_tensor_of(t));
        if (own && cfx_ok())
            o = cfx__py_from_tensor(own);
    }
    return o;
}

static PyObject *reset(PyObject *self, PyObject *unused) {
    (void)unused;
    cfx_session_reset(((session *)self)->s);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"_run", run, METH_VARARGS, NULL},
    {"tensor", tensor, METH_O, "The session's copy of a tensor of a program's state; the tensor "
                               "itself where it has none."},
    {"reset", reset, METH_NOARGS, "Forgets what programs wrote."},
    {0}};
static PyType_Slot slots[] = {{Py_tp_new, session_new},
                              {Py_tp_dealloc, session_dealloc},
                              {Py_tp_methods, methods},
                              {0, NULL}};
static PyType_Spec spec = {"_cfx.SessionBase", sizeof(session), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

bool cfx__py_add_session(PyObject *m) { return cfx__py_add_type(m, &cfx__py.session, &spec); }
