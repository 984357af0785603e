/* Operators of Python's own (torch.library), and decompositions of Python's. An operator is a
 * cfx_op whose columns call one Python object: call(kind, arguments), where kind says what is
 * wanted of it. Its struct stays for good, since graphs may have it. */
#include "program.h"

typedef struct own_op {
    cfx_op op;
    PyObject *call;
} own_op;

static PyObject *tuple_of(int n, const cfx_value *values) {
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple && i < n; i++) {
        PyObject *o = cfx__py_from_value(values[i]);
        if (!o || PyTuple_SetItem(tuple, i, o) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* The same of tensors, NULL being None: as many as a list that an operator returns has. */
static PyObject *tensors_of(int n, cfx_tensor *const *tensors) {
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple && i < n; i++) {
        PyObject *o = cfx__py_from_value(tensors[i] ? cfx_tensor_value(tensors[i]) : cfx_none());
        if (!o || PyTuple_SetItem(tuple, i, o) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* What a call gives: a tensor for each result that is one, None where there is none. */
static void set_outs(cfx_op_call *c, cfx_value v) {
    bool many = v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST;
    int64_t n = many ? cfx_as_list(v)->len : 1;
    const cfx_value *items = many ? cfx_as_list(v)->items : &v;
    bool fits = n == c->nout && many == (c->nout > 1);
    for (int i = 0; fits && i < c->nout; i++) {
        fits = items[i].tag == CFX_TAG_TENSOR || (many && items[i].tag == CFX_TAG_NONE);
        c->out[i] = items[i].tag == CFX_TAG_TENSOR ? cfx_as_tensor(items[i]) : NULL;
    }
    if (!fits)
        cfx_fail(CFX_RUNTIME_ERROR, c->at, "%s: the schema says that %d tensor%s come%s back: %s",
                 cfx_op_name(c->op), c->nout, c->nout == 1 ? "" : "s", c->nout == 1 ? "s" : "",
                 c->op->schema);
}

/* Sets the results of a call to what function(*before, arguments) gives. */
static void answer(cfx_op_call *c, PyObject *function, const char *kind) {
    PyObject *args = tuple_of(c->nargs, c->args);
    PyObject *result = !args   ? NULL
                       : kind ? PyObject_CallFunction(function, "sO", kind, args)
                              : PyObject_Call(function, args, NULL);
    Py_XDECREF(args);
    cfx_value v = cfx__py_give(result);
    if (cfx_is_bad(v))
        return;
    if (c->nout)
        set_outs(c, v);
    else
        c->result = v;
}

static void ask(cfx_op_call *c, const char *kind) {
    cfx__py_lock lock;
    if (!cfx__py_enter(&lock))
        return;
    answer(c, ((own_op *)c->op)->call, kind);
    cfx__py_exit(lock);
}

static void kernel(cfx_op_call *c) { ask(c, c->fake ? "fake" : "kernel"); }
static void composite(cfx_op_call *c) { ask(c, "composite"); }

/* call("grad", (arguments, results, gradients)): a gradient or None for each argument. */
static void grad(cfx_back *b) {
    cfx__py_lock lock;
    if (!cfx__py_enter(&lock))
        return;
    PyObject *args = tuple_of(b->nargs, b->args), *results = tensors_of(b->nout, b->out);
    PyObject *given = tensors_of(b->nout, b->gout), *made = NULL;
    if (args && results && given)
        made = PyObject_CallFunction(((own_op *)b->op)->call, "s(OOO)", "grad", args, results,
                                     given);
    Py_XDECREF(args);
    Py_XDECREF(results);
    Py_XDECREF(given);
    cfx_value v = cfx__py_give(made);
    if (!cfx_is_bad(v) && v.tag == CFX_TAG_TUPLE && cfx_as_list(v)->len == b->nargs)
        memcpy(b->gin, cfx_as_list(v)->items, (size_t)b->nargs * sizeof *b->gin);
    cfx__py_exit(lock);
}

/* define_op(schema, call, composite): the overload. Where composite, "composite" is asked of call,
 * which computes by other operators; else "kernel", "fake" and "grad". */
static PyObject *define(PyObject *unused, PyObject *args) {
    const char *schema;
    PyObject *call, *o = NULL;
    int is_composite;
    (void)unused;
    if (!PyArg_ParseTuple(args, "sOp", &schema, &call, &is_composite))
        return NULL;
    own_op *made = PyMem_Calloc(1, sizeof *made);
    char *text = made ? PyMem_Malloc(strlen(schema) + 1) : NULL;
    if (!text) {
        PyMem_Free(made);
        return PyErr_NoMemory();
    }
    memcpy(text, schema, strlen(schema) + 1);
    made->op.schema = text;
    if (is_composite) {
        made->op.decompose = composite;
        made->op.effects = CFX_COMPOSITE;
    } else {
        made->op.kernel = kernel;
        made->op.grad = grad;
        made->op.saves = UINT32_MAX;
        made->op.effects = CFX_SHARES;
    }
    CFX__PY_CALL(o) {
        if (!cfx_op_register(&made->op)) {
            PyMem_Free(text);
            PyMem_Free(made);
            continue;
        }
        Py_INCREF(call);
        made->call = call;
        o = cfx__py_from_op(&made->op);
    }
    return o;
}

/* undefine_op(overload): nobody finds it any more. */
static PyObject *undefine(PyObject *unused, PyObject *o) {
    PyObject *none = NULL;
    (void)unused;
    if (!PyObject_TypeCheck(o, cfx__py.overload))
        return PyErr_Format(PyExc_TypeError, "undefine_op takes an overload");
    CFX__PY_CALL(none) {
        if (cfx_op_unregister(cfx__py_overload_of(o))) {
            Py_INCREF(Py_None);
            none = Py_None;
        }
    }
    return none;
}

/* ---- decompositions -------------------------------------------------------------------------- */

static void decompose_by_table(cfx_op_call *c) {
    cfx__py_lock lock;
    if (!cfx__py_enter(&lock))
        return;
    PyObject *op = cfx__py_from_op(c->op);
    PyObject *table = cfx__py_this_thread.decompositions;
    PyObject *function = op ? PyDict_GetItemWithError(table, op) : NULL;
    if (function)
        answer(c, function, NULL);
    else
        cfx__py_caught();
    Py_XDECREF(op);
    cfx__py_exit(lock);
}

PyObject *cfx__py_program_decompose_by(PyObject *self, PyObject *args) {
    PyObject *own, *keep, *op, *o = NULL, *outer = cfx__py_this_thread.decompositions;
    int only_own;
    if (!PyArg_ParseTuple(args, "O!Op", &PyDict_Type, &own, &keep, &only_own))
        return NULL;
    cfx_decomposition *rows = PyMem_Calloc((size_t)PyDict_Size(own) + 1, sizeof *rows);
    if (!rows)
        return PyErr_NoMemory();
    int n = 0;
    for (Py_ssize_t at = 0; PyDict_Next(own, &at, &op, NULL);) {
        if (!PyObject_TypeCheck(op, cfx__py.overload)) {
            PyMem_Free(rows);
            return PyErr_Format(PyExc_TypeError, "a table of decompositions has overloads for "
                                                 "keys, not %R", op);
        }
        rows[n++] = (cfx_decomposition){cfx_op_name(cfx__py_overload_of(op)), decompose_by_table};
    }
    cfx__py_this_thread.decompositions = own;
    CFX__PY_CALL(o) {
        cfx_value kept;
        if (cfx__py_to_value(keep, &kept))
            o = cfx__py_from_program(cfx_decompose_by(
                cfx__py_program_of(self),
                (cfx_decompose_options){.keep = kept, .own = rows, .nown = n,
                                        .only_own = only_own}));
    }
    cfx__py_this_thread.decompositions = outer;
    PyMem_Free(rows);
    return o;
}

static PyMethodDef functions[] = {{"define_op", define, METH_VARARGS, NULL},
                                  {"undefine_op", undefine, METH_O, NULL},
                                  {0}};

bool cfx__py_add_library(PyObject *m) { return PyModule_AddFunctions(m, functions) == 0; }
