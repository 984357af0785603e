/* graph: what the files about graphs and nodes share.
 *
 * Invariant: the object of a graph holds those of its nodes that there are (held), and each node
 * the object of its graph; cfx_graph_user and cfx_node.user point to them. When the collector takes
 * a graph's object apart, its nodes' objects lose their nodes (n is NULL): whatever is asked of one
 * then is an error. */
#ifndef CFX__PY_GRAPH_H
#define CFX__PY_GRAPH_H

#include "python.h"

typedef enum cfx__py_insert {
    CFX__PY_AT_END,
    CFX__PY_AT_START,
    CFX__PY_BEFORE,
    CFX__PY_AFTER
} cfx__py_insert;

typedef struct cfx__py_graph {
    PyObject_HEAD
    cfx_graph *g;          /* counted */
    PyObject *held;        /* a list of its nodes' objects */
    cfx__py_insert insert; /* where new nodes go */
    PyObject *insert_node; /* before or after which one */
    PyObject *root;        /* the node before the first and behind the last; NULL: not asked for */
} cfx__py_graph;

typedef struct cfx__py_node {
    PyObject_HEAD
    cfx_node *n;
    PyObject *graph;
    PyObject *type; /* the annotation; NULL: none, or C has its text alone */
    PyObject *meta; /* a dict; NULL: not asked for yet */
    PyObject *args, *kwargs;   /* what was made of the values below; NULL: nothing yet */
    cfx_value args_of, kwargs_of; /* counted */
    PyObject *op, *target; /* what was set and does not fit together yet; NULL: nothing */
} cfx__py_node;

/* The graph of an object: NULL, with an exception, where it was collected. */
cfx_graph *cfx__py_graph_of(PyObject *o);
/* The object of a node; that of the graph's root where n is NULL. NULL with an exception. */
PyObject *cfx__py_node_or_root(PyObject *graph, cfx_node *n);
/* The opcode called so; false with an exception. */
bool cfx__py_opcode(PyObject *o, cfx_opcode *out);
/* What a Python target is in C; scope. False with an exception. */
bool cfx__py_target(cfx_graph *g, cfx_opcode op, PyObject *o, cfx_target *out);
/* Whether the object has what it made of this value, and holds a count of it. */
bool cfx__py_node_has_cached(const cfx__py_node *o, cfx_value v);
/* The graph is gone. */
void cfx__py_node_leave(PyObject *o);
/* What C asks of an object of Python's that writes code. */
cfx_codegen cfx__py_codegen(PyObject *codegen);
PyObject *cfx__py_set_tree(PyObject *graph, PyObject *args);
/* The parts of the type of nodes. */
extern PyGetSetDef cfx__py_node_gets[];
int cfx__py_node_traverse(PyObject *self, visitproc visit, void *arg);
int cfx__py_node_clear(PyObject *self);
void cfx__py_node_dealloc(PyObject *self);
PyObject *cfx__py_node_set_one(PyObject *self, PyObject *args);
PyObject *cfx__py_node_rename(PyObject *self, PyObject *name);
PyObject *cfx__py_node_set_type(PyObject *self, PyObject *args);
PyObject *cfx__py_node_put_meta(PyObject *self, PyObject *args);

bool cfx__py_add_node(PyObject *m);

#endif
