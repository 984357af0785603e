/* What is done to nodes: moving, replacing, mapping their arguments; and the type. The getters are
 * node.c's. */
#include "graph.h"

/* A node given as an argument; NULL, with an exception, where it is none. */
static cfx_node *node_arg(PyObject *o) {
    if (!PyObject_TypeCheck(o, cfx__py.node)) {
        PyErr_Format(PyExc_TypeError, "expected a Node, got %S", (PyObject *)Py_TYPE(o));
        return NULL;
    }
    return cfx__py_node_live(o) ? cfx__py_node_of(o) : NULL;
}

/* n.prepend(x) puts x before n, n.append(x) behind it. */
static PyObject *move(PyObject *self, PyObject *other, bool before) {
    cfx_node *n = cfx__py_node_live(self) ? cfx__py_node_of(self) : NULL, *x = n ? node_arg(other)
                                                                                  : NULL;
    PyObject *result = NULL;
    if (!x)
        return NULL;
    CFX__PY_CALL(result) {
        if (before)
            cfx_node_move_before(x, n);
        else
            cfx_node_move_after(x, n);
        result = Py_BuildValue("");
    }
    return result;
}
static PyObject *prepend(PyObject *self, PyObject *other) { return move(self, other, true); }
static PyObject *append(PyObject *self, PyObject *other) { return move(self, other, false); }

/* _replace_input(old, new): in this node alone. */
static PyObject *replace_input(PyObject *self, PyObject *args) {
    PyObject *old, *with, *result = NULL;
    if (!PyArg_ParseTuple(args, "OO", &old, &with) || !cfx__py_node_live(self))
        return NULL;
    cfx_node *a = node_arg(old), *b = a ? node_arg(with) : NULL;
    if (!b)
        return NULL;
    CFX__PY_CALL(result) {
        cfx_node_replace_input(cfx__py_node_of(self), a, b);
        result = Py_BuildValue("");
    }
    return result;
}

static PyObject *precedes(PyObject *self, PyObject *other) {
    cfx_node *n = cfx__py_node_live(self) ? node_arg(other) : NULL;
    return n ? PyBool_FromLong(cfx_node_precedes(cfx__py_node_of(self), n)) : NULL;
}

static PyObject *format(PyObject *self, PyObject *unused) {
    PyObject *text = NULL;
    (void)unused;
    if (!cfx__py_node_live(self))
        return NULL;
    CFX__PY_CALL(text) text = cfx__py_text(cfx_node_format(cfx__py_node_of(self)));
    return text;
}

/* _is(name): cfx_node_is. */
static PyObject *is(PyObject *self, PyObject *name) {
    const char *text = cfx__py_node_live(self) ? cfx__py_utf8(name) : NULL;
    return text ? PyBool_FromLong(cfx_node_is(cfx__py_node_of(self), text)) : NULL;
}

/* _selected(selector) */
static PyObject *selected(PyObject *self, PyObject *selector) {
    const char *text = cfx__py_node_live(self) ? cfx__py_utf8(selector) : NULL;
    return text ? PyBool_FromLong(cfx_node_selected(cfx__py_node_of(self), text)) : NULL;
}

static PyObject *is_impure(PyObject *self, PyObject *unused) {
    (void)unused;
    return cfx__py_node_live(self) ? PyBool_FromLong(cfx_node_is_impure(cfx__py_node_of(self)))
                                   : NULL;
}

/* _target_text(): how C calls the target. */
static PyObject *target_text(PyObject *self, PyObject *unused) {
    (void)unused;
    return cfx__py_node_live(self) ? cfx__py_text(cfx__py_node_of(self)->target.name) : NULL;
}

/* ---- arguments with values in the place of nodes --------------------------------------------- */

/* What a dict of node to value has for the nodes in v; a new reference. */
static PyObject *loaded(cfx_value v, PyObject *env) {
    if (v.tag == CFX_TAG_NODE) {
        PyObject *node = cfx__py_from_node(cfx_as_node(v));
        PyObject *value = node ? PyDict_GetItemWithError(env, node) : NULL;
        if (!value && node && !PyErr_Occurred())
            PyErr_SetObject(PyExc_KeyError, node);
        Py_XDECREF(node);
        Py_XINCREF(value);
        return value;
    }
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE && v.tag != CFX_TAG_DICT &&
        v.tag != CFX_TAG_SLICE)
        return cfx__py_from_value(v);
    return cfx__py_map_value(v, loaded, env);
}

/* _load(env): (args, kwargs) with what env has for the nodes in them. */
static PyObject *load(PyObject *self, PyObject *env) {
    if (!cfx__py_node_live(self))
        return NULL;
    if (!PyDict_Check(env)) {
        PyErr_SetString(PyExc_TypeError, "the values of nodes are a dict");
        return NULL;
    }
    const cfx_node *n = cfx__py_node_of(self);
    PyObject *args = loaded(n->args, env), *kwargs = args ? loaded(n->kwargs, env) : NULL;
    if (!kwargs)
        Py_CLEAR(args);
    return args ? Py_BuildValue("NN", args, kwargs) : NULL;
}

/* ---- the type -------------------------------------------------------------------------------- */

static PyObject *node_repr(PyObject *self) {
    const cfx_node *n = cfx__py_node_of(self);
    return n ? cfx__py_text(n->name) : PyUnicode_FromString("<a node whose graph is gone>");
}

static PyMethodDef methods[] = {
    {"prepend", prepend, METH_O, "Puts a node before this one."},
    {"append", append, METH_O, "Puts a node behind this one."},
    {"_replace_input", replace_input, METH_VARARGS, NULL},
    {"_precedes", precedes, METH_O, NULL},
    {"_format", format, METH_NOARGS, NULL},
    {"_is", is, METH_O, NULL},
    {"_selected", selected, METH_O, NULL},
    {"_is_impure", is_impure, METH_NOARGS, NULL},
    {"_target_text", target_text, METH_NOARGS, NULL},
    {"_load", load, METH_O, "_load(env): (args, kwargs) with the values of nodes."},
    {"_set_arg", cfx__py_node_set_one, METH_VARARGS, NULL},
    {"_rename", cfx__py_node_rename, METH_O, NULL},
    {"_set_type", cfx__py_node_set_type, METH_VARARGS, NULL},
    {"_put_meta", cfx__py_node_put_meta, METH_VARARGS, NULL},
    {0}};

static PyType_Slot slots[] = {{Py_tp_dealloc, cfx__py_node_dealloc},
                              {Py_tp_traverse, cfx__py_node_traverse},
                              {Py_tp_clear, cfx__py_node_clear},
                              {Py_tp_repr, node_repr},
                              {Py_tp_getset, cfx__py_node_gets},
                              {Py_tp_methods, methods},
                              {0, NULL}};
static PyType_Spec spec = {"_cfx.NodeBase", sizeof(cfx__py_node), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                               Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

bool cfx__py_add_node(PyObject *m) { return cfx__py_add_type(m, &cfx__py.node, &spec); }
