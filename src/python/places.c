/* Numbers where tensors are wanted. C lets a number stand for a tensor wherever that helps;
 * Python's functions do so only where PyTorch's do. */
#include "python.h"

/* An argument of a schema: where its name is, and whether it is one tensor. */
typedef struct place {
    const char *name;
    int length;
    bool tensor;
} place;

/* Reads the argument at *at, and goes to the next; false at the last, and before those that are
 * keywords alone. */
static bool next_place(const char **at, place *out) {
    const char *p = *at + strspn(*at, " ,");
    if (!*p || *p == ')' || *p == '*')
        return false;
    size_t marks = p[0] && !strncmp(p, "Tensor(", 7) ? strcspn(p + 6, ")") + 1 : 0;
    out->tensor = !strncmp(p, "Tensor", 6) && p[6 + marks] != '[';
    out->name = p;
    for (int depth = 0; *p && (depth || (*p != ',' && *p != ')' && *p != '=')); p++) {
        depth += (*p == '(' || *p == '[') - (*p == ')' || *p == ']');
        if (*p == ' ' && !depth)
            out->name = p + 1;
    }
    out->length = (int)(p - out->name);
    for (char quote = 0; *p && (quote || (*p != ',' && *p != ')')); p++) { /* the default */
        if (*p == '"' || *p == '\'')
            quote = quote ? 0 : *p;
        else if (!quote && *p == '[')
            p += strcspn(p, "]") - 1;
    }
    *at = p;
    return true;
}

static const char *arguments_of(const cfx_op *op) {
    const char *p = strchr(op->schema, '(');
    return p ? p + 1 : "";
}

int cfx__py_count_places(const cfx_op *op) {
    int n = 0;
    place here;
    for (const char *at = arguments_of(op); next_place(&at, &here);)
        n++;
    return n + (strstr(op->schema, ", *,") != NULL);
}

uint32_t cfx__py_tensor_places(const cfx_fn *fn) {
    uint32_t tensors = 0, others = 0;
    if (!strcmp(fn->name, "copy") || !strcmp(fn->name, "copy_"))
        return 0; /* PyTorch takes numbers there, though its rule reads tensors */
    for (int i = 0; i < fn->n; i++) {
        const char *at = arguments_of(fn->ops[i]);
        place here;
        if (fn->ops[i]->effects & CFX_NUMBERS)
            return 0;
        for (uint32_t bit = 1; bit && next_place(&at, &here); bit <<= 1) {
            tensors |= here.tensor ? bit : 0;
            others |= here.tensor ? 0 : bit;
        }
    }
    return tensors & ~others;
}

static bool is_number(PyObject *o) {
    return PyLong_Check(o) || PyFloat_Check(o) || PyComplex_Check(o);
}

static void refuse(const char *function, const place *p, int position, PyObject *got) {
    bool self = p->length == 4 && !strncmp(p->name, "self", 4);
    PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(got), "__name__");
    if (!strncmp(function, "python.", 7))
        function += 7; /* a function of torch.nn.functional */
    PyObject *name = PyUnicode_FromStringAndSize(self ? "input" : p->name, self ? 5 : p->length);
    if (type && name)
        PyErr_Format(PyExc_TypeError, "%s(): argument '%U' (position %d) must be Tensor, not %U",
                     function, name, position, type);
    Py_XDECREF(type);
    Py_XDECREF(name);
}

bool cfx__py_takes_numbers(const cfx_fn *fn, uint32_t places, bool method, PyObject *const *args,
                           Py_ssize_t nargs, PyObject *kwnames) {
    const char *at = arguments_of(fn->ops[0]);
    Py_ssize_t nkw = kwnames ? PyTuple_Size(kwnames) : 0;
    place here;
    for (int i = 0; i < 32 && next_place(&at, &here); i++) {
        PyObject *given = i < nargs ? args[i] : NULL;
        for (Py_ssize_t k = 0; !given && k < nkw; k++) {
            const char *name = cfx__py_utf8(PyTuple_GetItem(kwnames, k));
            if (name && (int)strlen(name) == here.length && !strncmp(name, here.name, strlen(name)))
                given = args[nargs + k];
        }
        if (given && (places >> i & 1) && is_number(given)) {
            refuse(fn->name, &here, i + !method, given);
            return false;
        }
    }
    return true;
}
