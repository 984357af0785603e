/* Numbers that are symbols: an expression of C, or a number that C has marked, while a module is
 * exported, as a size that varies or as data (cfx_size, cfx_item). Arithmetic is Python's business
 * (see cfx/torch/_sym.py): it makes expressions of expressions here, and calls of C's functions
 * with marked numbers, which are recorded. To look at a marked number is to decide by it: C refuses
 * that where it is data. */
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
    PyObject *class_ = v.tag == CFX_TAG_BOOL    ? cfx__py.sym_bool_class
                       : v.tag == CFX_TAG_FLOAT ? cfx__py.sym_float_class
                                                : cfx__py.sym_class;
    return make(class_ ? (PyTypeObject *)class_ : cfx__py.sym, v);
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

/* _marked: whether it is a number that C has marked. */
static PyObject *get_marked(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(((sym *)self)->v.tag != CFX_TAG_SYM);
}

/* _hint(): its value with the example inputs; an error where it is data. */
static PyObject *hint(PyObject *self, PyObject *unused) {
    cfx_value v = ((sym *)self)->v;
    PyObject *o = NULL;
    (void)unused;
    CFX__PY_CALL(o) {
        cfx_value plain = v.tag == CFX_TAG_BOOL ? cfx_bool(cfx_is_true_from(cfx__py_here(), v))
                          : v.tag == CFX_TAG_FLOAT
                              ? cfx_float(cfx_number_from(cfx__py_here(), v))
                              : cfx_int(cfx_integer_from(cfx__py_here(), v));
        if (cfx_ok())
            o = cfx__py_from_value(plain);
    }
    return o;
}

/* _true(): whether it is not 0; an error where it is data. */
static PyObject *is_true(PyObject *self, PyObject *unused) {
    PyObject *o = NULL;
    (void)unused;
    CFX__PY_CALL(o) {
        bool truth = cfx_is_true_from(cfx__py_here(), ((sym *)self)->v);
        if (cfx_ok())
            o = PyBool_FromLong(truth);
    }
    return o;
}

static PyMethodDef methods[] = {
    {"_hint", hint, METH_NOARGS, NULL}, {"_true", is_true, METH_NOARGS, NULL}, {0}};
static PyGetSetDef attributes[] = {{"_marked", get_marked, NULL, NULL, NULL}, {0}};
static PyType_Slot slots[] = {{Py_tp_new, sym_new},
                              {Py_tp_dealloc, sym_dealloc},
                              {Py_tp_repr, sym_repr},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, attributes},
                              {0, NULL}};
static PyType_Spec spec = {"_cfx.Sym", sizeof(sym), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           slots};

bool cfx__py_add_sym(PyObject *m) { return cfx__py_add_type(m, &cfx__py.sym, &spec); }
