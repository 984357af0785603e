/* Sizes that are symbols: an object over an expression of C. Arithmetic is Python's business (see
 * cfx/_sym.py), which makes expressions of expressions here. */
#include "python.h"

typedef struct sym {
    PyObject_HEAD
    cfx_value v; /* counted */
} sym;

cfx_value cfx__py_sym_value(PyObject *o) { return ((sym *)o)->v; }

static PyObject *make(PyTypeObject *type, cfx_value v) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    sym *o = (sym *)alloc(type, 0);
    if (o)
        o->v = cfx_value_keep(v);
    return (PyObject *)o;
}

PyObject *cfx__py_from_sym(cfx_value v) {
    return make(cfx__py.sym_class ? (PyTypeObject *)cfx__py.sym_class : cfx__py.sym, v);
}

/* Sym(text): the expression that a text is. */
static PyObject *sym_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    const char *text;
    PyObject *o = NULL;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "s", &text))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_value v = cfx_symbol_value(text);
        if (!cfx_is_bad(v))
            o = v.tag == CFX_TAG_SYM ? make(type, v) : cfx__py_from_value(v);
    }
    return o;
}

static void sym_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    cfx_value_drop(((sym *)self)->v);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *sym_repr(PyObject *self) {
    PyObject *text = NULL;
    CFX__PY_CALL(text) text = cfx__py_text(cfx_value_repr(((sym *)self)->v));
    return text;
}

/* _hint(): its value with the example inputs. */
static PyObject *hint(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromLongLong(cfx_integer(((sym *)self)->v));
}

static PyMethodDef methods[] = {{"_hint", hint, METH_NOARGS, NULL}, {0}};
static PyType_Slot slots[] = {{Py_tp_new, sym_new},
                              {Py_tp_dealloc, sym_dealloc},
                              {Py_tp_repr, sym_repr},
                              {Py_tp_methods, methods},
                              {0, NULL}};
static PyType_Spec spec = {"_cfx.Sym", sizeof(sym), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           slots};

bool cfx__py_add_sym(PyObject *m) { return cfx__py_add_type(m, &cfx__py.sym, &spec); }
