/* Nodes: the Python object for a node of C. Arguments are made when they are asked for, and kept as
 * long as the node has them. */
#include "graph.h"

/* ---- one object for one node ----------------------------------------------------------------- */

PyObject *cfx__py_from_node(cfx_node *n) {
    if (!n || !n->graph)
        Py_RETURN_NONE;
    if (n->user) {
        Py_INCREF((PyObject *)n->user);
        return n->user;
    }
    PyObject *graph = cfx__py_from_graph(n->graph);
    PyTypeObject *class_ = (PyTypeObject *)(cfx__py.node_class ? cfx__py.node_class
                                                               : (PyObject *)cfx__py.node);
    allocfunc alloc = (allocfunc)PyType_GetSlot(class_, Py_tp_alloc);
    cfx__py_node *o = graph ? (cfx__py_node *)alloc(class_, 0) : NULL;
    if (!o || PyList_Append(((cfx__py_graph *)graph)->held, (PyObject *)o) < 0) {
        Py_XDECREF(graph);
        Py_XDECREF((PyObject *)o);
        return NULL;
    }
    o->n = n;
    o->graph = graph;
    n->user = o;
    return (PyObject *)o;
}

PyObject *cfx__py_node_or_root(PyObject *graph, cfx_node *n) {
    cfx__py_graph *g = (cfx__py_graph *)graph;
    if (n)
        return cfx__py_from_node(n);
    if (!g->root && cfx__py.root_class) {
        PyTypeObject *class_ = (PyTypeObject *)cfx__py.root_class;
        allocfunc alloc = (allocfunc)PyType_GetSlot(class_, Py_tp_alloc);
        cfx__py_node *o = (cfx__py_node *)alloc(class_, 0);
        if (!o)
            return NULL;
        Py_INCREF(graph);
        o->graph = graph;
        g->root = (PyObject *)o;
    }
    return Py_BuildValue("O", g->root ? g->root : Py_None);
}

bool cfx__py_node_live(PyObject *o) {
    if (((cfx__py_node *)o)->n)
        return true;
    if (((cfx__py_node *)o)->graph)
        PyErr_SetString(PyExc_RuntimeError, "the root of a graph is no step of the program");
    else
        PyErr_SetString(PyExc_RuntimeError, "the graph of this node was collected");
    return false;
}

cfx_node *cfx__py_node_of(PyObject *o) { return ((cfx__py_node *)o)->n; }

bool cfx__py_node_has_cached(const cfx__py_node *o, cfx_value v) {
    if (v.tag == CFX_TAG_DICT)
        return o->kwargs && cfx_as_dict(o->kwargs_of) == cfx_as_dict(v);
    return o->args && cfx_as_list(o->args_of) == cfx_as_list(v);
}

static void forget(PyObject **made, cfx_value *of) {
    Py_CLEAR(*made);
    cfx_value_drop(*of);
    *of = cfx_none();
}

void cfx__py_node_leave(PyObject *self) {
    cfx__py_node *o = (cfx__py_node *)self;
    forget(&o->args, &o->args_of);
    forget(&o->kwargs, &o->kwargs_of);
    if (o->n)
        o->n->user = NULL;
    o->n = NULL;
}

int cfx__py_node_traverse(PyObject *self, visitproc visit, void *arg) {
    cfx__py_node *o = (cfx__py_node *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(o->graph);
    Py_VISIT(o->type);
    Py_VISIT(o->meta);
    Py_VISIT(o->args);
    Py_VISIT(o->kwargs);
    Py_VISIT(o->target);
    return 0;
}

int cfx__py_node_clear(PyObject *self) {
    cfx__py_node *o = (cfx__py_node *)self;
    cfx__py_node_leave(self);
    Py_CLEAR(o->graph);
    Py_CLEAR(o->type);
    Py_CLEAR(o->meta);
    Py_CLEAR(o->op);
    Py_CLEAR(o->target);
    return 0;
}

void cfx__py_node_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    cfx__py_node_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- targets --------------------------------------------------------------------------------- */

/* The path by which C knows a callable of Python's ("operator.add"); NULL where it knows none.
 * Borrowed. */
static const char *known_path(PyObject *callable) {
    PyObject *path = PyDict_GetItemWithError(cfx__py.known, callable);
    PyErr_Clear(); /* what cannot be hashed is not known */
    return path && path != Py_None ? cfx__py_utf8(path) : NULL;
}

bool cfx__py_target(cfx_graph *g, cfx_opcode op, PyObject *o, cfx_target *out) {
    if (PyUnicode_Check(o)) {
        *out = (cfx_target){.name = cfx__py_utf8(o)};
        return out->name != NULL;
    }
    if (op != CFX_CALL_FUNCTION || !PyCallable_Check(o)) {
        PyErr_Format(PyExc_ValueError,
                     "Node [graph = ..., name = '...'] target %S has type %S but a %s is expected",
                     o, (PyObject *)Py_TYPE(o), op == CFX_CALL_FUNCTION ? "Callable" : "str");
        return false;
    }
    if (Py_TYPE(o) == cfx__py.overload) {
        *out = cfx_target_op(cfx__py_overload_of(o));
        return true;
    }
    const char *path = cfx__py_function_path(o);
    if (!path)
        path = known_path(o);
    if (path) {
        *out = cfx_graph_target(g, path);
        return true;
    }
    PyObject *found = PyObject_CallFunctionObjArgs(cfx__py.target_of, o, NULL);
    PyObject *name;
    int known;
    bool good = found && PyArg_ParseTuple(found, "Up", &name, &known);
    path = good ? cfx__py_utf8(name) : NULL;
    if (path && known) {
        PyDict_SetItem(cfx__py.known, o, name);
        *out = cfx_graph_target(g, path);
    } else if (path) {
        *out = cfx_target_object(cfx_text(cfx_string_value(path)), cfx__py_object_value(o));
    }
    Py_XDECREF(found);
    return path && !PyErr_Occurred();
}

PyObject *cfx__py_callable(cfx_target t) {
    if (t.object) {
        if (t.object->type == &cfx__py_object_type) {
            Py_INCREF((PyObject *)t.object->data);
            return t.object->data;
        }
    } else if (t.op && !t.fn)
        return cfx__py_from_op(t.op);
    PyObject *path = cfx__py_text(t.name), *o = NULL;
    if (path && cfx__py.callable)
        o = PyObject_CallFunctionObjArgs(cfx__py.callable, path, NULL);
    Py_XDECREF(path);
    return o;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* What was made of a value, made anew where the node has another now. */
static PyObject *made(PyObject **made, cfx_value *of, cfx_value now, bool fresh) {
    if (!*made || fresh) {
        PyObject *o = cfx__py_from_frozen(now);
        if (!o)
            return NULL;
        cfx_value_keep(now);
        forget(made, of);
        *made = o;
        *of = now;
    }
    Py_INCREF(*made);
    return *made;
}

static PyObject *get_args(PyObject *self, void *unused) {
    cfx__py_node *o = (cfx__py_node *)self;
    (void)unused;
    if (!cfx__py_node_live(self))
        return NULL;
    return made(&o->args, &o->args_of, o->n->args, !cfx__py_node_has_cached(o, o->n->args));
}

static PyObject *get_kwargs(PyObject *self, void *unused) {
    cfx__py_node *o = (cfx__py_node *)self;
    (void)unused;
    if (!cfx__py_node_live(self))
        return NULL;
    return made(&o->kwargs, &o->kwargs_of, o->n->kwargs, !cfx__py_node_has_cached(o, o->n->kwargs));
}

/* Runs a change and gives None, or -1 and the exception. */
static PyObject *none(void) {
    Py_INCREF(Py_None);
    return Py_None;
}
static int done(PyObject *o) {
    Py_XDECREF(o);
    return o ? 0 : -1;
}
static bool settable(PyObject *self, PyObject *value) {
    if (!value)
        PyErr_SetString(PyExc_AttributeError, "an attribute of a Node cannot be deleted");
    return value && cfx__py_node_live(self);
}

static int set_values(PyObject *self, PyObject *value, bool kwargs) {
    PyObject *result = NULL;
    if (!settable(self, value))
        return -1;
    PyObject *plain = kwargs || PyTuple_Check(value) ? value : PySequence_Tuple(value);
    if (plain == value)
        Py_INCREF(value);
    CFX__PY_CALL(result) {
        cfx_value v;
        if (!plain || !cfx__py_to_value(plain, &v))
            continue;
        if (kwargs)
            cfx_node_set_kwargs(cfx__py_node_of(self), v);
        else
            cfx_node_set_args(cfx__py_node_of(self), v);
        result = none();
    }
    Py_XDECREF(plain);
    return done(result);
}
static int set_args(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    return set_values(self, value, false);
}
static int set_kwargs(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    return set_values(self, value, true);
}

/* _set_arg(key, value, insert): an argument by its place, or by its name. */
PyObject *cfx__py_node_set_one(PyObject *self, PyObject *args) {
    PyObject *key, *value, *result = NULL;
    int insert;
    if (!PyArg_ParseTuple(args, "OOp", &key, &value, &insert) || !cfx__py_node_live(self))
        return NULL;
    CFX__PY_CALL(result) {
        cfx_value v;
        cfx_node *n = cfx__py_node_of(self);
        if (!cfx__py_to_value(value, &v))
            continue;
        const char *name = PyUnicode_Check(key) ? cfx__py_utf8(key) : NULL;
        int i = name ? 0 : (int)PyLong_AsLong(key);
        if (PyErr_Occurred())
            continue;
        if (name)
            cfx_node_set_kwarg(n, name, v);
        else if (insert)
            cfx_node_insert_arg(n, i, v);
        else
            cfx_node_set_arg(n, i, v);
        result = none();
    }
    return result;
}

/* ---- what a node is -------------------------------------------------------------------------- */

static PyObject *get_name(PyObject *self, void *unused) {
    (void)unused;
    return cfx__py_node_live(self) ? cfx__py_text(cfx__py_node_of(self)->name) : NULL;
}

static int set_name(PyObject *self, PyObject *value, void *unused) {
    PyObject *result = NULL;
    (void)unused;
    const char *text = settable(self, value) ? cfx__py_utf8(value) : NULL;
    if (!text)
        return -1;
    CFX__PY_CALL(result) {
        cfx_node_set_name(cfx__py_node_of(self), text);
        result = none();
    }
    return done(result);
}

/* _rename(candidate): a name made of it that no other node has. */
PyObject *cfx__py_node_rename(PyObject *self, PyObject *name) {
    PyObject *result = NULL;
    const char *text = cfx__py_node_live(self) ? cfx__py_utf8(name) : NULL;
    if (!text)
        return NULL;
    CFX__PY_CALL(result) {
        cfx_node_rename(cfx__py_node_of(self), text);
        result = none();
    }
    return result;
}

static PyObject *get_op(PyObject *self, void *unused) {
    cfx__py_node *o = (cfx__py_node *)self;
    (void)unused;
    if (!cfx__py_node_live(self))
        return NULL;
    return o->op ? Py_BuildValue("O", o->op)
                 : PyUnicode_InternFromString(cfx_opcode_name(o->n->op));
}

static PyObject *get_target(PyObject *self, void *unused) {
    cfx__py_node *o = (cfx__py_node *)self;
    PyObject *result = NULL;
    (void)unused;
    if (!cfx__py_node_live(self))
        return NULL;
    if (o->target)
        return Py_BuildValue("O", o->target);
    if (o->n->op != CFX_CALL_FUNCTION)
        return cfx__py_text(o->n->target.name);
    CFX__PY_CALL(result) result = cfx__py_callable(o->n->target);
    return result;
}

/* Lets the node be what was set of op and target, once they fit together: passes set one after the
 * other. */
static int settle(PyObject *self) {
    cfx__py_node *o = (cfx__py_node *)self;
    PyObject *result = NULL, *target = get_target(self, NULL), *op = get_op(self, NULL);
    cfx_opcode code = CFX_PLACEHOLDER;
    bool good = target && op && cfx__py_opcode(op, &code);
    bool fits = good && (code == CFX_CALL_FUNCTION) == !PyUnicode_Check(target);
    if (fits) {
        CFX__PY_CALL(result) {
            cfx_target t;
            if (!cfx__py_target(o->n->graph, code, target, &t))
                continue;
            cfx_node_set_call(o->n, code, t);
            result = none();
        }
        Py_CLEAR(o->op);
        Py_CLEAR(o->target);
    } else if (good) {
        result = none();
    }
    Py_XDECREF(target);
    Py_XDECREF(op);
    return done(result);
}

static int set_op(PyObject *self, PyObject *value, void *unused) {
    cfx__py_node *o = (cfx__py_node *)self;
    cfx_opcode code;
    (void)unused;
    if (!settable(self, value) || !cfx__py_opcode(value, &code))
        return -1;
    Py_INCREF(value);
    Py_XDECREF(o->op);
    o->op = value;
    return settle(self);
}

static int set_target(PyObject *self, PyObject *value, void *unused) {
    cfx__py_node *o = (cfx__py_node *)self;
    (void)unused;
    if (!settable(self, value))
        return -1;
    Py_INCREF(value);
    Py_XDECREF(o->target);
    o->target = value;
    return settle(self);
}

static PyObject *get_graph(PyObject *self, void *unused) {
    (void)unused;
    PyObject *graph = ((cfx__py_node *)self)->graph;
    return Py_BuildValue("O", graph ? graph : Py_None);
}

static PyObject *get_erased(PyObject *self, void *unused) {
    (void)unused;
    const cfx_node *n = cfx__py_node_of(self);
    return PyBool_FromLong(!n || n->erased);
}

/* A neighbour; at the ends the root of the graph. */
static PyObject *neighbour(PyObject *self, cfx_node *next(const cfx_node *n)) {
    if (!cfx__py_node_live(self))
        return NULL;
    return cfx__py_node_or_root(((cfx__py_node *)self)->graph, next(cfx__py_node_of(self)));
}
static PyObject *get_next(PyObject *self, void *unused) {
    (void)unused;
    return neighbour(self, cfx_node_after);
}
static PyObject *get_prev(PyObject *self, void *unused) {
    (void)unused;
    return neighbour(self, cfx_node_before);
}

static PyObject *get_users(PyObject *self, void *unused) {
    (void)unused;
    PyObject *all = cfx__py_node_live(self) ? PyDict_New() : NULL;
    if (!all)
        return NULL;
    cfx_each_user(cfx__py_node_of(self), u) {
        PyObject *user = cfx__py_from_node(u->user);
        bool good = user && PyDict_SetItem(all, user, Py_None) == 0;
        Py_XDECREF(user);
        if (!good) {
            Py_DECREF(all);
            return NULL;
        }
    }
    return all;
}

static PyObject *get_inputs(PyObject *self, void *unused) {
    (void)unused;
    PyObject *all = cfx__py_node_live(self) ? PyList_New(0) : NULL;
    if (!all)
        return NULL;
    cfx_each_input(cfx__py_node_of(self), u) {
        PyObject *input = cfx__py_from_node(u->node);
        bool good = input && PyList_Append(all, input) == 0;
        Py_XDECREF(input);
        if (!good) {
            Py_DECREF(all);
            return NULL;
        }
    }
    return all;
}

static PyObject *get_num_users(PyObject *self, void *unused) {
    (void)unused;
    return cfx__py_node_live(self) ? PyLong_FromLong(cfx__py_node_of(self)->num_users) : NULL;
}

/* _type: the annotation as it was set, or its text. */
static PyObject *get_type(PyObject *self, void *unused) {
    cfx__py_node *o = (cfx__py_node *)self;
    (void)unused;
    if (o->type)
        return Py_BuildValue("O", o->type);
    const char *text = o->n ? o->n->type : NULL;
    return text ? cfx__py_text(text) : none();
}

/* _set_type(annotation, text) */
PyObject *cfx__py_node_set_type(PyObject *self, PyObject *args) {
    cfx__py_node *o = (cfx__py_node *)self;
    PyObject *type;
    const char *text;
    if (!PyArg_ParseTuple(args, "Oz", &type, &text) || !cfx__py_node_live(self))
        return NULL;
    Py_INCREF(type);
    Py_XDECREF(o->type);
    o->type = type;
    if (type == Py_None)
        Py_CLEAR(o->type);
    cfx_node_set_type(o->n, text);
    Py_RETURN_NONE;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static PyObject *get_meta(PyObject *self, void *unused) {
    cfx__py_node *o = (cfx__py_node *)self;
    (void)unused;
    if (!o->meta) {
        bool some = o->n && o->n->meta && o->n->meta->len;
        PyObject *plain = some ? cfx__py_from_value(cfx_dict_value(o->n->meta)) : PyDict_New();
        if (plain && some && cfx__py.meta_from) {
            PyObject *meta = PyObject_CallFunctionObjArgs(cfx__py.meta_from, plain, NULL);
            Py_DECREF(plain);
            plain = meta;
        }
        o->meta = plain;
    }
    Py_XINCREF(o->meta);
    return o->meta;
}

static int set_meta(PyObject *self, PyObject *value, void *unused) {
    cfx__py_node *o = (cfx__py_node *)self;
    (void)unused;
    if (!settable(self, value))
        return -1;
    if (!PyDict_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "meta is a dict");
        return -1;
    }
    Py_INCREF(value);
    Py_XDECREF(o->meta);
    o->meta = value;
    return 0;
}

/* _put_meta(key, value): for those in C who look at metadata; None removes. */
PyObject *cfx__py_node_put_meta(PyObject *self, PyObject *args) {
    PyObject *value, *result = NULL;
    const char *key;
    if (!PyArg_ParseTuple(args, "sO", &key, &value) || !cfx__py_node_live(self))
        return NULL;
    CFX__PY_CALL(result) {
        cfx_value v;
        if (!cfx__py_to_value(value, &v))
            continue;
        if (value == Py_None)
            cfx_node_remove_meta(cfx__py_node_of(self), key);
        else
            cfx_node_set_meta(cfx__py_node_of(self), key, v);
        result = none();
    }
    return result;
}

PyGetSetDef cfx__py_node_gets[] = {
    {"name", get_name, set_name, NULL, NULL},
    {"op", get_op, set_op, NULL, NULL},
    {"target", get_target, set_target, NULL, NULL},
    {"args", get_args, set_args, NULL, NULL},
    {"kwargs", get_kwargs, set_kwargs, NULL, NULL},
    {"graph", get_graph, NULL, NULL, NULL},
    {"next", get_next, NULL, NULL, NULL},
    {"prev", get_prev, NULL, NULL, NULL},
    {"users", get_users, NULL, "A dict of the nodes that use this one, to None.", NULL},
    {"all_input_nodes", get_inputs, NULL, NULL, NULL},
    {"meta", get_meta, set_meta, NULL, NULL},
    {"_num_users", get_num_users, NULL, NULL, NULL},
    {"_erased", get_erased, NULL, NULL, NULL},
    {"_type", get_type, NULL, NULL, NULL},
    {0}};
