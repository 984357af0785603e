/* Running programs from Python: the lock is let go of, values of nodes are shown to who asks for
 * them, and Ctrl-C ends a long run. */
#include "program.h"

/* ---- the lock and signals -------------------------------------------------------------------- */

enum { LONG = 4096 }; /* elements from which on a call may take longer than letting go */

/* Whether a signal's handler raised something: asked by C now and then. */
static bool interrupted(void *unused) {
    cfx__py_lock lock;
    (void)unused;
    if (!cfx__py_enter(&lock))
        return false;
    bool stop = PyErr_CheckSignals() < 0;
    if (stop)
        cfx__py_caught();
    cfx__py_exit(lock);
    return stop;
}

cfx__py_released cfx__py_let_go(void) {
    cfx_set_interrupt(interrupted, NULL);
    return PyEval_SaveThread();
}

cfx__py_released cfx__py_release(cfx_args a) {
    if (cfx__py_this_thread.exporting) /* nothing is computed, and sizes are not to be looked at */
        return NULL;
    for (int i = 0; i < a.n; i++)
        if (a.v[i].tag == CFX_TAG_TENSOR && cfx_tensor_numel(cfx_as_tensor(a.v[i])) >= LONG)
            return cfx__py_let_go();
    return NULL;
}

void cfx__py_regain(cfx__py_released r) {
    if (!r)
        return;
    PyEval_RestoreThread(r);
    cfx_set_interrupt(NULL, NULL);
}

/* ---- who looks on ---------------------------------------------------------------------------- */

/* A callable of Python's that is shown the values of nodes: see(path and name, node, value). */
typedef struct viewer {
    cfx_watcher c;
    PyObject *selectors; /* a tuple of texts */
    PyObject *see;
} viewer;

static bool wants(cfx_watcher *w, const cfx_node *n) {
    const viewer *v = (viewer *)w;
    cfx__py_lock lock;
    bool wanted = false;
    if (!cfx__py_enter(&lock))
        return false;
    for (Py_ssize_t i = 0; i < PyTuple_Size(v->selectors) && !wanted; i++)
        wanted = cfx_node_selected(n, cfx__py_utf8(PyTuple_GetItem(v->selectors, i)));
    if (PyErr_Occurred())
        cfx__py_caught();
    cfx__py_exit(lock);
    return wanted;
}

static cfx_value see(cfx_watcher *w, cfx_node *n, cfx_value value) {
    const viewer *v = (viewer *)w;
    cfx__py_lock lock;
    cfx_value with = cfx_none();
    if (!cfx__py_enter(&lock))
        return with;
    PyObject *name = PyUnicode_FromFormat("%s%s", cfx_run_path(), n->name);
    PyObject *shown = name ? cfx__py_from_value(value) : NULL;
    PyObject *node = shown ? cfx__py_from_node(n) : NULL;
    PyObject *result =
        node ? PyObject_CallFunctionObjArgs(v->see, name, node, shown, NULL) : NULL;
    with = cfx__py_give(result);
    Py_XDECREF(name);
    Py_XDECREF(shown);
    Py_XDECREF(node);
    cfx__py_exit(lock);
    return with;
}

/* _run(args, kwargs, reference, selectors, see): by the interpreter where `reference`; see is shown
 * what the selectors pick, and may give other values. */
PyObject *cfx__py_program_run(PyObject *self, PyObject *args) {
    PyObject *a, *kw, *selectors, *seer, *o = NULL;
    int reference;
    if (!PyArg_ParseTuple(args, "O!O!pO!O", &PyTuple_Type, &a, &PyDict_Type, &kw, &reference,
                          &PyTuple_Type, &selectors, &seer))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_args given;
        viewer v = {.c = {.wants = wants, .see = see, .inside = true},
                    .selectors = selectors,
                    .see = seer};
        if (!cfx__py_to_args_of(a, kw, &given))
            continue;
        cfx__py_released r = cfx__py_let_go();
        cfx_value result = cfx_program_run_with(
            (cfx_site){0}, cfx__py_program_of(self), reference ? &cfx_interpreter : NULL,
            seer == Py_None ? NULL : &v.c, given);
        cfx__py_regain(r);
        if (!cfx_is_bad(result))
            o = cfx__py_from_value(result);
    }
    return o;
}

/* _plan(args, kwargs): how the program would run on such arguments. */
PyObject *cfx__py_program_plan(PyObject *self, PyObject *args) {
    PyObject *a, *kw, *o = NULL;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &a, &PyDict_Type, &kw))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_args given;
        if (!cfx__py_to_args_of(a, kw, &given))
            continue;
        const char *text =
            cfx_program_plan_from((cfx_site){0}, cfx__py_program_of(self), given);
        if (text)
            o = cfx__py_text(text);
    }
    return o;
}
