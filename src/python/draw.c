/* Drawings of programs and graphs: SVG, HTML and DOT, as texts. */
#include "program.h"

#include "graph.h"

/* The text of a str in the scope; NULL where there is none. */
static const char *scope_text(PyObject *o) {
    const char *text = o ? cfx__py_utf8(o) : NULL;
    return text ? cfx_text(cfx_string_value(text)) : NULL;
}

/* What the caller paints on a node: style(node) gives a dict with "fill" and "lines", or None. */
static void paint(const cfx_node *n, cfx_node_style *style, void *user) {
    cfx__py_lock lock;
    if (!cfx__py_enter(&lock))
        return;
    PyObject *node = cfx__py_from_node((cfx_node *)(uintptr_t)n);
    PyObject *o = node ? PyObject_CallFunctionObjArgs(user, node, NULL) : NULL;
    if (o && PyDict_Check(o)) {
        PyObject *fill = PyDict_GetItemString(o, "fill"), *lines = PyDict_GetItemString(o, "lines");
        style->fill = scope_text(fill);
        style->lines = scope_text(lines);
    }
    if (PyErr_Occurred())
        cfx__py_caught();
    Py_XDECREF(node);
    Py_XDECREF(o);
    cfx__py_exit(lock);
}

static const char *text_in(PyObject *d, const char *key) {
    PyObject *o = PyDict_GetItemString(d, key);
    return o && o != Py_None ? cfx__py_utf8(o) : NULL;
}

static bool flag_in(PyObject *d, const char *key) {
    PyObject *o = PyDict_GetItemString(d, key);
    return o && PyObject_IsTrue(o) == 1;
}

/* The options of a dict; values belong to the scope. False with an exception. */
static bool read_options(PyObject *d, cfx_draw_options *out) {
    const char *form = text_in(d, "form");
    PyObject *depth = PyDict_GetItemString(d, "depth"), *style = PyDict_GetItemString(d, "style");
    PyObject *columns = PyDict_GetItemString(d, "columns");
    cfx_value v = cfx_none();
    if (columns && columns != Py_None && !cfx__py_to_value(columns, &v))
        return false;
    *out = (cfx_draw_options){
        .form = form && !strcmp(form, "dot") ? CFX_DOT : form && !strcmp(form, "html") ? CFX_HTML
                                                                                       : CFX_SVG,
        .name = text_in(d, "name"),
        .style = style && style != Py_None ? paint : NULL,
        .user = style,
        .depth = depth && depth != Py_None ? (int)PyLong_AsLong(depth) : 0,
        .all = flag_in(d, "all"),
        .focus = text_in(d, "focus"),
        .columns = v.tag == CFX_TAG_DICT ? cfx_as_dict(v) : NULL,
        .ignore_getattr = flag_in(d, "ignore_getattr"),
        .ignore_parameters_and_buffers = flag_in(d, "ignore_parameters_and_buffers"),
        .node_names_in_args = flag_in(d, "node_names_in_args"),
        .parse_stack_trace = flag_in(d, "parse_stack_trace"),
        .normalize_args = flag_in(d, "normalize_args"),
        .dot_graph_shape = text_in(d, "dot_graph_shape")};
    return !PyErr_Occurred();
}

/* _draw(options, other): other is a program to stand beside, or None. */
PyObject *cfx__py_program_draw(PyObject *self, PyObject *args) {
    PyObject *options, *other, *o = NULL;
    if (!PyArg_ParseTuple(args, "O!O", &PyDict_Type, &options, &other))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_draw_options d;
        if (!read_options(options, &d))
            continue;
        if (PyObject_TypeCheck(other, cfx__py.program))
            d.pairs = cfx_program_pair(cfx__py_program_of(self), cfx__py_program_of(other));
        const char *text = cfx_program_draw(cfx__py_program_of(self), d);
        if (text)
            o = cfx__py_text(text);
    }
    return o;
}

/* draw_graph(graph, options) */
static PyObject *draw_graph(PyObject *unused, PyObject *args) {
    PyObject *graph, *options, *o = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!O!", cfx__py.graph, &graph, &PyDict_Type, &options))
        return NULL;
    cfx_graph *g = cfx__py_graph_of(graph);
    if (!g)
        return NULL;
    CFX__PY_CALL(o) {
        cfx_draw_options d;
        if (!read_options(options, &d))
            continue;
        const char *text = cfx_graph_draw(g, d);
        if (text)
            o = cfx__py_text(text);
    }
    return o;
}

/* pass_list(): (name, summary, options) of every pass. */
static PyObject *pass_list(PyObject *unused, PyObject *none) {
    PyObject *all = PyList_New(0);
    const cfx_pass *p;
    (void)unused, (void)none;
    for (int i = 0; all && (p = cfx_pass_number(i)); i++) {
        PyObject *row = Py_BuildValue("szz", p->name, p->summary, p->options);
        if (!row || PyList_Append(all, row) < 0)
            Py_CLEAR(all);
        Py_XDECREF(row);
    }
    return all;
}

static PyMethodDef functions[] = {{"draw_graph", draw_graph, METH_VARARGS, NULL},
                                  {"pass_list", pass_list, METH_NOARGS, NULL},
                                  {0}};

bool cfx__py_add_draw(PyObject *m) { return PyModule_AddFunctions(m, functions) == 0; }
