/* Code that Python writes: the functions of torch.fx's CodeGen, asked by C's emitter; and the trees
 * of graphs whose arguments are nested. */
#include "graph.h"

/* The method of the codegen with one argument; NULL where it failed, and C has the error. */
static PyObject *ask(const cfx_codegen *self, const char *method, PyObject *argument) {
    PyObject *result =
        argument ? PyObject_CallMethod((PyObject *)self->user, method, "(O)", argument) : NULL;
    Py_XDECREF(argument);
    if (!result)
        cfx__py_caught();
    return result;
}

static const char *scope_text(PyObject *o) {
    const char *text = o ? cfx__py_utf8(o) : NULL;
    if (o && !text)
        cfx__py_caught();
    return text ? cfx_text(cfx_string_value(text)) : NULL;
}

static cfx_value body(const cfx_codegen *self, cfx_value lines) {
    cfx__py_lock lock;
    cfx_value v = lines;
    if (!cfx__py_enter(&lock))
        return v;
    PyObject *o = ask(self, "_body", cfx__py_from_value(lines));
    if (o && !cfx__py_to_value(o, &v))
        cfx__py_caught();
    Py_XDECREF(o);
    cfx__py_exit(lock);
    return v;
}

static const char *head(const cfx_codegen *self, cfx_value parameters, const char *returns) {
    cfx__py_lock lock;
    if (!cfx__py_enter(&lock))
        return NULL;
    PyObject *o = ask(self, "_head", cfx__py_from_value(cfx_tuple(parameters, returns)));
    const char *text = scope_text(o);
    Py_XDECREF(o);
    cfx__py_exit(lock);
    return text;
}

static const char *result(const cfx_codegen *self, const char *value) {
    cfx__py_lock lock;
    if (!cfx__py_enter(&lock))
        return NULL;
    PyObject *o = ask(self, "_result", cfx__py_text(value));
    const char *text = scope_text(o);
    Py_XDECREF(o);
    cfx__py_exit(lock);
    return text;
}

/* Which of the methods _body, _head and _result the object has, C asks; None: the usual code. */
cfx_codegen cfx__py_codegen(PyObject *codegen) {
    return (cfx_codegen){.user = codegen,
                         .body = PyObject_HasAttrString(codegen, "_body") ? body : NULL,
                         .head = PyObject_HasAttrString(codegen, "_head") ? head : NULL,
                         .result = PyObject_HasAttrString(codegen, "_result") ? result : NULL};
}

/* _set_tree(names, in_spec, out_spec): see cfx_graph_set_tree. */
PyObject *cfx__py_set_tree(PyObject *self, PyObject *args) {
    PyObject *names, *in, *out, *o = NULL;
    if (!PyArg_ParseTuple(args, "OOO", &names, &in, &out) || !cfx__py_graph_of(self))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_value n, i, r;
        if (!cfx__py_to_value(names, &n) || !cfx__py_to_value(in, &i) || !cfx__py_to_value(out, &r))
            continue;
        cfx_graph_set_tree(((cfx__py_graph *)self)->g, n, i, r);
        o = Py_BuildValue("");
    }
    return o;
}
