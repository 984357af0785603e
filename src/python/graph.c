/* Graphs: the Python object for a graph of C, which holds those of its nodes. Nodes hold their
 * graph in turn; Python's collector finds such rings, and what stands in the arguments of nodes is
 * shown to it where nobody but this graph can have it. */
#include "python.h"

#include "graph.h"

/* ---- one object for one graph ---------------------------------------------------------------- */

static const char graph_capsule[] = "cfx_graph"; /* which nobody but C can make */

PyObject *cfx__py_from_graph(cfx_graph *g) {
    PyObject *o = g ? cfx_graph_user(g) : NULL;
    if (o) {
        Py_INCREF(o);
        return o;
    }
    if (!g)
        Py_RETURN_NONE;
    PyObject *class_ = cfx__py.graph_class ? cfx__py.graph_class : (PyObject *)cfx__py.graph;
    PyObject *key = PyCapsule_New(g, graph_capsule, NULL);
    o = key ? PyObject_CallMethod(class_, "_of", "O", key) : NULL;
    Py_XDECREF(key);
    return o;
}

/* The graph of an object; NULL, with an exception, where it is gone. */
cfx_graph *cfx__py_graph_of(PyObject *o) {
    cfx_graph *g = ((cfx__py_graph *)o)->g;
    if (!g)
        PyErr_SetString(PyExc_RuntimeError, "the graph was collected: nothing refers to it");
    return g;
}

static PyObject *make(PyTypeObject *type, cfx_graph *g) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    cfx__py_graph *o = (cfx__py_graph *)alloc(type, 0);
    if (!o)
        return NULL;
    o->g = cfx_keep(g);
    o->held = PyList_New(0);
    o->insert = CFX__PY_AT_END;
    cfx_graph_set_user(g, o);
    if (!o->held)
        Py_CLEAR(o);
    return (PyObject *)o;
}

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *o = NULL;
    (void)args, (void)kwargs;
    CFX__PY_CALL(o) o = make(type, cfx_graph_new());
    return o;
}

/* Graph._of(capsule): the object for a graph that C has; for cfx__py_from_graph. */
static PyObject *graph_of(PyObject *type, PyObject *capsule) {
    cfx_graph *g = PyCapsule_GetPointer(capsule, graph_capsule);
    return g ? make((PyTypeObject *)type, g) : NULL;
}

/* ---- what the collector sees ----------------------------------------------------------------- */

static bool only(const void *counted, int holders) {
    return ((const cfx_obj *)counted)->refs == holders;
}

/* Visits the Python objects in a value that `holders` counts are known of: where there are more,
 * somebody else may have what is inside. */
static int visit_value(cfx_value v, int holders, visitproc visit, void *arg) {
    int stop = 0;
    if (v.tag == CFX_TAG_OBJECT) {
        PyObject *o = cfx__py_object_of(v);
        return o && only(cfx_as_object(v), holders) ? visit(o, arg) : 0;
    }
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        const cfx_list *l = cfx_as_list(v);
        for (int64_t i = 0; !stop && only(l, holders) && i < l->len; i++)
            stop = visit_value(l->items[i], 1, visit, arg);
    } else if (v.tag == CFX_TAG_DICT) {
        const cfx_dict *d = cfx_as_dict(v);
        for (int64_t i = 0; !stop && only(d, holders) && i < d->len; i++)
            stop = visit_value(d->entries[i].value, 1, visit, arg);
    }
    return stop;
}

static int visit_node(const cfx_node *n, visitproc visit, void *arg) {
    const cfx__py_node *o = n->user;
    const cfx_object *callee = n->target.object;
    if (callee && callee->type == &cfx__py_object_type && only(callee, 1)) {
        int stop = visit(callee->data, arg);
        if (stop)
            return stop;
    }
    bool seen = o && cfx__py_node_has_cached(o, n->args);
    int stop = visit_value(n->args, seen ? 2 : 1, visit, arg);
    seen = o && cfx__py_node_has_cached(o, n->kwargs);
    return stop ? stop : visit_value(n->kwargs, seen ? 2 : 1, visit, arg);
}

static int graph_traverse(PyObject *self, visitproc visit, void *arg) {
    cfx__py_graph *o = (cfx__py_graph *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(o->held);
    Py_VISIT(o->insert_node);
    Py_VISIT(o->root);
    if (!o->g || !only(o->g, 1))
        return 0;
    cfx_each_node(o->g, n) {
        int stop = visit_node(n, visit, arg);
        if (stop)
            return stop;
    }
    return 0;
}

static int graph_clear(PyObject *self) {
    cfx__py_graph *o = (cfx__py_graph *)self;
    for (Py_ssize_t i = 0; o->held && i < PyList_Size(o->held); i++)
        cfx__py_node_leave(PyList_GetItem(o->held, i));
    cfx_graph *g = o->g;
    if (g) {
        cfx_graph_set_user(g, NULL);
        o->g = NULL;
    }
    Py_CLEAR(o->held);
    Py_CLEAR(o->insert_node);
    Py_CLEAR(o->root);
    cfx_drop(g);
    return 0;
}

static void graph_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    graph_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- making nodes ---------------------------------------------------------------------------- */

static const char *const opcodes[] = {"placeholder",   "get_attr",    "call_function",
                                      "call_method",   "call_module", "output"};

bool cfx__py_opcode(PyObject *o, cfx_opcode *out) {
    const char *text = cfx__py_utf8(o);
    for (int i = 0; text && i < COUNT(opcodes); i++)
        if (!strcmp(text, opcodes[i])) {
            *out = (cfx_opcode)i;
            return true;
        }
    if (text)
        PyErr_Format(PyExc_AssertionError, "op '%s' is not in _legal_ops", text);
    return false;
}

/* Where the next node goes. torch.fx puts each new node right behind the one that it inserts after,
 * so that several come out in the reverse order. */
static void set_insert(cfx__py_graph *o) {
    cfx_node *at = o->insert_node ? ((cfx__py_node *)o->insert_node)->n : NULL;
    switch (o->insert) {
    case CFX__PY_AT_END: cfx_graph_insert_after(o->g, NULL); break;
    case CFX__PY_AT_START: cfx_graph_insert_before(o->g, NULL); break;
    case CFX__PY_BEFORE: cfx_graph_insert_before(o->g, at); break;
    case CFX__PY_AFTER: cfx_graph_insert_after(o->g, at); break;
    }
}

/* create(op, target, args, kwargs, name, type_text) */
static PyObject *graph_create(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    cfx__py_graph *o = (cfx__py_graph *)self;
    PyObject *result = NULL;
    cfx_opcode op;
    if (n != 6) {
        PyErr_SetString(PyExc_TypeError,
                        "create takes an op, a target, args, kwargs, a name and a type");
        return NULL;
    }
    if (!cfx__py_graph_of(self) || !cfx__py_opcode(a[0], &op))
        return NULL;
    const char *name = a[4] == Py_None ? NULL : cfx__py_utf8(a[4]);
    const char *type = a[5] == Py_None ? NULL : cfx__py_utf8(a[5]);
    if (PyErr_Occurred())
        return NULL;
    CFX__PY_CALL(result) {
        cfx_target target;
        cfx_value args, kwargs;
        if (!cfx__py_target(o->g, op, a[1], &target) || !cfx__py_to_value(a[2], &args) ||
            !cfx__py_to_value(a[3], &kwargs))
            continue;
        set_insert(o);
        cfx_node *made = cfx_graph_create(o->g, op, target, args, kwargs, name, type);
        cfx_graph_insert_after(o->g, NULL);
        if (cfx_ok())
            result = cfx__py_from_node(made);
    }
    return result;
}

/* _set_insert(how, node): where new nodes go, a cfx__py_insert. What was before. */
static PyObject *graph_set_insert(PyObject *self, PyObject *args) {
    cfx__py_graph *o = (cfx__py_graph *)self;
    int how;
    PyObject *node;
    if (!PyArg_ParseTuple(args, "iO", &how, &node) || !cfx__py_graph_of(self))
        return NULL;
    PyObject *old = o->insert_node;
    PyObject *was = Py_BuildValue("iO", (int)o->insert, old ? old : Py_None);
    bool is_node = PyObject_TypeCheck(node, cfx__py.node);
    Py_XINCREF(is_node ? node : NULL);
    o->insert = (cfx__py_insert)how;
    o->insert_node = is_node ? node : NULL;
    Py_XDECREF(old);
    return was;
}

/* ---- looking and changing -------------------------------------------------------------------- */

static PyObject *graph_str(PyObject *self, PyObject *unused) {
    PyObject *text = NULL;
    (void)unused;
    if (!cfx__py_graph_of(self))
        return NULL;
    CFX__PY_CALL(text) text = cfx__py_text(cfx_graph_str(((cfx__py_graph *)self)->g));
    return text;
}

/* _python_code(codegen): (source, globals, lines, the line of "def"); codegen (or None) has methods
 * for what is to be written otherwise. */
static PyObject *graph_code(PyObject *self, PyObject *codegen) {
    PyObject *result = NULL;
    cfx_graph *g = cfx__py_graph_of(self);
    if (!g)
        return NULL;
    CFX__PY_CALL(result) {
        cfx_codegen own = cfx__py_codegen(codegen);
        const cfx_codegen *was = codegen == Py_None ? NULL : cfx_graph_set_codegen(g, &own);
        cfx_python_code code = cfx_graph_python_code(g);
        if (codegen != Py_None)
            cfx_graph_set_codegen(g, was);
        if (cfx_ok())
            result = Py_BuildValue("NNNi", cfx__py_text(code.src),
                                   cfx__py_from_value(cfx_dict_value(code.globals)),
                                   cfx__py_from_value(cfx_dict_value(code.lines)), code.start);
    }
    return result;
}

/* _readable(options): the code with shapes and source lines. */
static PyObject *graph_readable(PyObject *self, PyObject *args) {
    int stride, device, colored, expanded;
    PyObject *more, *text = NULL;
    cfx_graph *g = cfx__py_graph_of(self);
    if (!g || !PyArg_ParseTuple(args, "ppppO!", &stride, &device, &colored, &expanded,
                                &PyTuple_Type, &more))
        return NULL;
    const char *keys[16] = {NULL};
    for (Py_ssize_t i = 0; i < PyTuple_Size(more) && i < COUNT(keys) - 1; i++)
        if (!(keys[i] = cfx__py_utf8(PyTuple_GetItem(more, i))))
            return NULL;
    cfx_readable_options o = {.include_stride = stride,
                              .include_device = device,
                              .colored = colored,
                              .expanded_def = expanded,
                              .additional_meta = keys[0] ? keys : NULL};
    CFX__PY_CALL(text) text = cfx__py_text(cfx_graph_readable(g, o));
    return text;
}

/* _push_marks(): what Python noted of nodes and the texts of code depend on. */
static PyObject *graph_push_marks(PyObject *self, PyObject *unused) {
    cfx_graph *g = cfx__py_graph_of(self);
    (void)unused;
    if (!g)
        return NULL;
    cfx_each_node(g, n) {
        const cfx__py_node *o = n->user;
        PyObject *mark = o && o->meta ? PyDict_GetItemString(o->meta, "is_wrapped") : NULL;
        if (mark && PyObject_IsTrue(mark) == 1)
            cfx_node_set_meta(n, "is_wrapped", cfx_bool(true));
    }
    Py_RETURN_NONE;
}

static PyObject *graph_tree(PyObject *self, PyObject *unused) {
    PyObject *o = NULL;
    cfx_graph *g = cfx__py_graph_of(self);
    (void)unused;
    if (!g)
        return NULL;
    CFX__PY_CALL(o) o = cfx__py_from_value(cfx_graph_tree(g));
    return o;
}

static PyObject *graph_lint(PyObject *self, PyObject *unused) {
    PyObject *result = Py_None;
    (void)unused;
    if (!cfx__py_graph_of(self))
        return NULL;
    Py_INCREF(result);
    CFX__PY_CALL(result) cfx_graph_lint(((cfx__py_graph *)self)->g, NULL);
    return result;
}

static PyObject *graph_sort(PyObject *self, PyObject *unused) {
    PyObject *result = Py_None;
    (void)unused;
    if (!cfx__py_graph_of(self))
        return NULL;
    Py_INCREF(result);
    CFX__PY_CALL(result) cfx_graph_sort(((cfx__py_graph *)self)->g);
    return result;
}

static PyObject *graph_find_nodes(PyObject *self, PyObject *args) {
    PyObject *op, *result = NULL;
    const char *target = NULL;
    cfx_opcode code;
    if (!PyArg_ParseTuple(args, "O|z", &op, &target) || !cfx__py_opcode(op, &code) ||
        !cfx__py_graph_of(self))
        return NULL;
    CFX__PY_CALL(result)
        result = cfx__py_from_value(
            cfx_graph_find_nodes(((cfx__py_graph *)self)->g, code, target));
    return result;
}

static PyObject *graph_find(PyObject *self, PyObject *name) {
    const char *text = cfx__py_utf8(name);
    cfx_graph *g = text ? cfx__py_graph_of(self) : NULL;
    cfx_node *n = g ? cfx_graph_find(g, text) : NULL;
    if (!g)
        return NULL;
    return cfx__py_from_value(cfx_node_value(n));
}

static PyObject *graph_erase(PyObject *self, PyObject *node) {
    PyObject *result = Py_None;
    if (!PyObject_TypeCheck(node, cfx__py.node) || !cfx__py_graph_of(self) ||
        !cfx__py_node_live(node)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "erase_node takes a Node");
        return NULL;
    }
    Py_INCREF(result);
    CFX__PY_CALL(result) cfx_graph_erase(cfx__py_node_of(node));
    return result;
}

static Py_ssize_t graph_len(PyObject *self) {
    return (Py_ssize_t)cfx_graph_len(((cfx__py_graph *)self)->g);
}

static PyObject *graph_hash_value(PyObject *self, PyObject *unused) {
    (void)unused;
    cfx_graph *g = cfx__py_graph_of(self);
    return g ? PyLong_FromUnsignedLongLong(cfx_graph_hash(g)) : NULL;
}

static PyObject *graph_equal(PyObject *self, PyObject *other) {
    if (!PyObject_TypeCheck(other, cfx__py.graph))
        Py_RETURN_FALSE;
    return PyBool_FromLong(
        cfx_graph_equal(((cfx__py_graph *)self)->g, ((cfx__py_graph *)other)->g));
}

/* ---- going over nodes ------------------------------------------------------------------------ */

typedef struct iterator {
    PyObject_HEAD
    PyObject *graph;
    cfx_node *next;
    bool back, started;
} iterator;

/* _end(last): the first or last node; the root of a graph without nodes. */
static PyObject *graph_end(PyObject *self, PyObject *last) {
    const cfx_graph *g = cfx__py_graph_of(self);
    if (!g)
        return NULL;
    return cfx__py_node_or_root(self, last == Py_True ? cfx_graph_last(g) : cfx_graph_first(g));
}

/* _make_root(): the node before the first and behind the last. */
static PyObject *graph_root(PyObject *self, PyObject *unused) {
    (void)unused;
    return cfx__py_graph_of(self) ? cfx__py_node_or_root(self, NULL) : NULL;
}

/* _iterate(backwards) */
static PyObject *graph_iterate(PyObject *self, PyObject *back) {
    if (!cfx__py_graph_of(self))
        return NULL;
    iterator *it = PyObject_GC_New(iterator, cfx__py.node_iterator);
    if (!it)
        return NULL;
    Py_INCREF(self);
    it->graph = self;
    it->next = NULL;
    it->back = back == Py_True;
    it->started = false;
    PyObject_GC_Track(it);
    return (PyObject *)it;
}

/* The node after the one given last: whatever was done to that, its neighbours are known. */
static PyObject *iterator_next(PyObject *self) {
    iterator *it = (iterator *)self;
    const cfx_graph *g = ((cfx__py_graph *)it->graph)->g;
    if (!g || (it->started && !it->next))
        return NULL;
    if (!it->started)
        it->next = it->back ? cfx_graph_last(g) : cfx_graph_first(g);
    else
        it->next = it->back ? cfx_node_before(it->next) : cfx_node_after(it->next);
    it->started = true;
    return it->next ? cfx__py_from_node(it->next) : NULL;
}

static PyObject *iterator_self(PyObject *self) {
    Py_INCREF(self);
    return self;
}

static int iterator_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((iterator *)self)->graph);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static void iterator_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(((iterator *)self)->graph);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyType_Slot iterator_slots[] = {{Py_tp_iter, iterator_self},
                                       {Py_tp_iternext, iterator_next},
                                       {Py_tp_traverse, iterator_traverse},
                                       {Py_tp_dealloc, iterator_dealloc},
                                       {0, NULL}};
static PyType_Spec iterator_spec = {"_cfx.NodeIterator", sizeof(iterator), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                        Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                    iterator_slots};

/* ---- the type -------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"_of", graph_of, METH_O | METH_CLASS, NULL},
    {"_create", (PyCFunction)(void (*)(void))graph_create, METH_FASTCALL, NULL},
    {"_set_insert", graph_set_insert, METH_VARARGS, NULL},
    {"_tree", graph_tree, METH_NOARGS, NULL},
    {"_set_tree", cfx__py_set_tree, METH_VARARGS, NULL},
    {"_str", graph_str, METH_NOARGS, NULL},
    {"_python_code", graph_code, METH_O, NULL},
    {"_readable", graph_readable, METH_VARARGS, NULL},
    {"_push_marks", graph_push_marks, METH_NOARGS, NULL},
    {"_lint", graph_lint, METH_NOARGS, NULL},
    {"_sort", graph_sort, METH_NOARGS, NULL},
    {"_find_nodes", graph_find_nodes, METH_VARARGS, NULL},
    {"_find", graph_find, METH_O, "The node called so, or None."},
    {"_erase", graph_erase, METH_O, NULL},
    {"_iterate", graph_iterate, METH_O, NULL},
    {"_end", graph_end, METH_O, NULL},
    {"_make_root", graph_root, METH_NOARGS, NULL},
    {"_hash", graph_hash_value, METH_NOARGS, NULL},
    {"_equal", graph_equal, METH_O, NULL},
    {0}};

static PyType_Slot slots[] = {{Py_tp_new, graph_new},
                              {Py_tp_dealloc, graph_dealloc},
                              {Py_tp_traverse, graph_traverse},
                              {Py_tp_clear, graph_clear},
                              {Py_tp_methods, methods},
                              {Py_sq_length, graph_len},
                              {0, NULL}};
static PyType_Spec spec = {"_cfx.GraphBase", sizeof(cfx__py_graph), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

bool cfx__py_add_graph(PyObject *m) {
    return cfx__py_add_type(m, &cfx__py.graph, &spec) &&
           cfx__py_add_type(m, &cfx__py.node_iterator, &iterator_spec);
}
