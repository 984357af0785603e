/* NamedTuples of Python as types of trees: what they are in arguments and results of graphs. A
 * class is registered when it is first met, and stays. */
#include "python.h"

typedef struct tree_type {
    cfx_tree_type c;
    PyObject *class_; /* kept */
} tree_type;

/* A copy of a str's text that stays. */
static const char *stays(PyObject *text) {
    const char *utf8 = cfx__py_utf8(text);
    size_t n = utf8 ? strlen(utf8) + 1 : 0;
    char *copy = utf8 ? PyMem_Malloc(n) : NULL;
    if (copy)
        memcpy(copy, utf8, n);
    return copy;
}

/* The fields of a class, ended by NULL; NULL where it has none. */
static const char **fields_of(PyObject *class_) {
    PyObject *fields = PyObject_GetAttr(class_, cfx__py.fields);
    Py_ssize_t n = fields && PyTuple_Check(fields) ? PyTuple_Size(fields) : -1;
    const char **names = n >= 0 ? PyMem_Calloc((size_t)n + 1, sizeof *names) : NULL;
    for (Py_ssize_t i = 0; names && i < n; i++)
        names[i] = stays(PyTuple_GetItem(fields, i));
    Py_XDECREF(fields);
    return names;
}

/* "module.Name", with a number where another class has that. */
static PyObject *path_of(PyObject *class_, int number) {
    PyObject *module = PyObject_GetAttrString(class_, "__module__");
    PyObject *name = PyObject_GetAttrString(class_, "__name__"), *path = NULL;
    if (module && name)
        path = number ? PyUnicode_FromFormat("%S.%U_%d", module, name, number)
                      : PyUnicode_FromFormat("%S.%U", module, name);
    Py_XDECREF(module);
    Py_XDECREF(name);
    return path;
}

static tree_type *make(PyObject *class_) {
    tree_type *t = PyMem_Calloc(1, sizeof *t);
    PyObject *name = PyObject_GetAttrString(class_, "__name__");
    bool good = t && name;
    if (good) {
        t->c.name = stays(name);
        t->c.fields = fields_of(class_);
        good = t->c.name && t->c.fields;
    }
    for (int number = 0; good && number < 100; number++) {
        PyObject *path = path_of(class_, number);
        t->c.path = path ? stays(path) : NULL;
        Py_XDECREF(path);
        good = t->c.path != NULL;
        if (good && cfx_tree_register(&t->c))
            break;
        cfx_error_clear();
        good = good && number < 99;
    }
    Py_XDECREF(name);
    if (!good)
        return NULL; /* what it is made of is little, and may be known to C */
    Py_INCREF(class_);
    t->class_ = class_;
    return t;
}

const cfx_tree_type *cfx__py_tree_type(PyObject *class_) {
    PyObject *known = PyDict_GetItemWithError(cfx__py.tree_types, class_);
    if (known)
        return PyLong_AsVoidPtr(known);
    tree_type *t = PyErr_Occurred() ? NULL : make(class_);
    PyErr_Clear();
    PyObject *address = t ? PyLong_FromVoidPtr(&t->c) : NULL;
    if (address)
        PyDict_SetItem(cfx__py.tree_types, class_, address);
    Py_XDECREF(address);
    PyErr_Clear();
    return t ? &t->c : NULL;
}

PyObject *cfx__py_tree_class(const cfx_tree_type *type) {
    PyObject *address = PyLong_FromVoidPtr((void *)(uintptr_t)type), *found = NULL, *key, *value;
    for (Py_ssize_t at = 0; address && PyDict_Next(cfx__py.tree_types, &at, &key, &value);)
        if (PyLong_AsVoidPtr(value) == (void *)(uintptr_t)type)
            found = key;
    Py_XDECREF(address);
    return found;
}

/* tree_class(path): the class that is registered under a path, or None. */
static PyObject *class_at(PyObject *unused, PyObject *path) {
    PyObject *key, *value;
    const char *text = cfx__py_utf8(path);
    (void)unused;
    if (!text)
        return NULL;
    for (Py_ssize_t at = 0; PyDict_Next(cfx__py.tree_types, &at, &key, &value);) {
        const cfx_tree_type *t = PyLong_AsVoidPtr(value);
        if (!strcmp(t->path, text)) {
            Py_INCREF(key);
            return key;
        }
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"tree_class", class_at, METH_O, NULL}, {0}};

bool cfx__py_add_tree(PyObject *m) {
    cfx__py.tree_types = PyDict_New();
    return cfx__py.tree_types && PyModule_AddFunctions(m, functions) == 0;
}
