/* Tensors: the type, its attributes, and the object that stands for a tensor of C. What has a name
 * in the registry is called by it (function.c); operators of Python are in number.c. */
#include "python.h"

/* ---- making ---------------------------------------------------------------------------------- */

/* An object of a class for a tensor that has none yet. */
static PyObject *wrap(PyTypeObject *class_, cfx_tensor *t) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(class_, Py_tp_alloc);
    cfx__py_tensor *o = (cfx__py_tensor *)alloc(class_, 0);
    if (!o)
        return NULL;
    o->t = cfx_keep(t);
    cfx_tensor_set_user(t, o);
    return (PyObject *)o;
}

PyObject *cfx__py_from_tensor(cfx_tensor *t) {
    if (!t)
        Py_RETURN_NONE;
    PyObject *o = cfx_tensor_user(t);
    if (o) {
        Py_INCREF(o);
        return o;
    }
    if (cfx_failed(t)) {
        cfx__py_raise();
        return NULL;
    }
    return wrap((PyTypeObject *)(cfx__py.tensor_class ? cfx__py.tensor_class
                                                      : (PyObject *)cfx__py.tensor),
                t);
}

static void tensor_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    cfx__py_tensor *o = (cfx__py_tensor *)self;
    if (o->t && cfx_tensor_user(o->t) == o)
        cfx_tensor_set_user(o->t, NULL);
    cfx_drop(o->t);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* A tensor of its own over the same memory, as an object of the class: what Parameter(data) is. */
PyObject *cfx__py_alias(PyTypeObject *class_, cfx_tensor *t, bool requires_grad) {
    PyObject *o = NULL;
    CFX__PY_CALL(o) {
        cfx_grad_mode mode = cfx_set_grad_mode(CFX_NO_GRAD);
        cfx_tensor *alias = cfx_detach(t);
        cfx_set_grad_mode(mode);
        if (requires_grad)
            cfx_requires_grad(alias, true);
        if (!cfx_failed(alias))
            o = wrap(class_, alias);
    }
    return o;
}

/* The class's constructor: of another tensor's data, of numbers, or of sizes. */
static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    Py_ssize_t n = PyTuple_Size(args);
    PyObject *first = n ? PyTuple_GetItem(args, 0) : NULL, *o = NULL;
    (void)kwargs;
    if (n == 1 && cfx__py_is_tensor(first))
        return cfx__py_alias(type, cfx__py_tensor_of(first), false);
    CFX__PY_CALL(o) {
        cfx_args a;
        cfx_tensor *t = NULL;
        bool sizes = !n || PyLong_Check(first) || (PyObject *)Py_TYPE(first) == cfx__py.size;
        if (!cfx__py_to_args_of(args, NULL, &a))
            continue;
        if (sizes)
            t = cfx_as_tensor(cfx_py_from(CFX_HERE, "torch.empty",
                                          n ? a : (cfx_args){1, (cfx_value[]){cfx_int(0)}, NULL}));
        else if (n == 1)
            t = cfx_to(cfx__py_tensor_from(first), cfx_f32);
        else
            cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "new() received an invalid combination of "
                     "arguments: sizes, or a sequence of numbers");
        if (t && !cfx_failed(t))
            o = wrap(type, t);
    }
    return o;
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* What a method gives while sizes vary: numbers that C has marked. */
static PyObject *asked(const char *method, PyObject *self, int n, cfx_value argument) {
    PyObject *o = NULL;
    CFX__PY_CALL(o) {
        cfx_value given[] = {cfx_tensor_value(cfx__py_tensor_of(self)), argument};
        cfx_value v = cfx_py_from(cfx__py_here(), method, (cfx_args){1 + n, given, NULL});
        if (cfx_ok())
            o = cfx__py_from_value(v);
    }
    return o;
}

static PyObject *get_shape(PyObject *self, void *unused) {
    (void)unused;
    const cfx_tensor *t = cfx__py_tensor_of(self);
    if (!cfx_sizes_vary())
        return cfx__py_from_ints(cfx_tensor_ndim(t), cfx_tensor_shape(t));
    PyObject *plain = asked("Tensor.size", self, 0, cfx_none());
    PyObject *size = plain ? PyObject_CallFunctionObjArgs(cfx__py.size, plain, NULL) : NULL;
    Py_XDECREF(plain);
    return size;
}
static PyObject *get_dtype(PyObject *self, void *unused) {
    (void)unused;
    return cfx__py_from_dtype(cfx_tensor_dtype(cfx__py_tensor_of(self)));
}
static PyObject *get_device(PyObject *self, void *unused) {
    (void)unused;
    return cfx__py_from_device(cfx_tensor_device(cfx__py_tensor_of(self)));
}
static PyObject *get_layout(PyObject *self, void *unused) {
    (void)self, (void)unused;
    return cfx__py_from_small(cfx_layout_value(CFX_STRIDED));
}
static PyObject *get_ndim(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLong(cfx_tensor_ndim(cfx__py_tensor_of(self)));
}
static PyObject *get_itemsize(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLong(cfx_dtype_size(cfx_tensor_dtype(cfx__py_tensor_of(self))));
}
static PyObject *get_nbytes(PyObject *self, void *unused) {
    (void)unused;
    const cfx_tensor *t = cfx__py_tensor_of(self);
    return PyLong_FromLongLong(cfx_tensor_numel(t) * cfx_dtype_size(cfx_tensor_dtype(t)));
}
static PyObject *get_requires_grad(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(cfx_tensor_requires_grad(cfx__py_tensor_of(self)));
}
static PyObject *get_is_leaf(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(cfx_tensor_is_leaf(cfx__py_tensor_of(self)));
}
static PyObject *get_grad(PyObject *self, void *unused) {
    (void)unused;
    PyObject *o = NULL;
    CFX__PY_CALL(o) o = cfx__py_from_tensor(cfx_tensor_grad(cfx__py_tensor_of(self)));
    return o;
}
static PyObject *get_grad_fn_name(PyObject *self, void *unused) {
    (void)unused;
    PyObject *o = NULL;
    CFX__PY_CALL(o) {
        const char *name = cfx_tensor_grad_fn(cfx__py_tensor_of(self));
        o = name ? cfx__py_text(name) : cfx__py_from_value(cfx_none());
    }
    return o;
}
static PyObject *get_is_fake(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(cfx_tensor_is_fake(cfx__py_tensor_of(self)));
}
static PyObject *get_data(PyObject *self, void *unused) {
    (void)unused;
    return cfx__py_alias((PyTypeObject *)cfx__py.tensor_class, cfx__py_tensor_of(self), false);
}

/* An attribute cannot be deleted, and is of one kind. */
static bool is_given(PyObject *value, const char *name) {
    if (!value)
        PyErr_Format(PyExc_AttributeError, "%s of a tensor cannot be deleted", name);
    return value != NULL;
}

/* Runs a statement that records what is wrong. */
static int done(PyObject *o) {
    Py_XDECREF(o);
    return o ? 0 : -1;
}
static PyObject *nothing(void) {
    Py_INCREF(Py_None);
    return Py_None;
}

static int set_requires_grad(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    if (!is_given(value, "requires_grad"))
        return -1;
    if (!PyBool_Check(value)) {
        PyErr_SetString(PyExc_RuntimeError, "requires_grad must be a bool");
        return -1;
    }
    PyObject *o = nothing();
    CFX__PY_CALL(o) cfx_requires_grad(cfx__py_tensor_of(self), value == Py_True);
    return done(o);
}

static int set_grad(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    bool none = !value || value == Py_None;
    if (!none && !cfx__py_is_tensor(value)) {
        PyObject *type = PyType_GetName(Py_TYPE(value));
        if (type)
            PyErr_Format(PyExc_TypeError,
                         "assigned grad expected to be a Tensor or None but got grad of type %U",
                         type);
        Py_XDECREF(type);
        return -1;
    }
    PyObject *o = nothing();
    CFX__PY_CALL(o)
        cfx_tensor_set_grad(cfx__py_tensor_of(self), none ? NULL : cfx__py_tensor_of(value));
    return done(o);
}

static int set_data(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    if (!is_given(value, "data"))
        return -1;
    if (!cfx__py_is_tensor(value)) {
        PyObject *type = PyType_GetName(Py_TYPE(value));
        if (type)
            PyErr_Format(PyExc_TypeError, "Variable data has to be a tensor, but got %U", type);
        Py_XDECREF(type);
        return -1;
    }
    PyObject *o = nothing();
    CFX__PY_CALL(o) cfx_tensor_set_data(cfx__py_tensor_of(self), cfx__py_tensor_of(value));
    return done(o);
}

/* ---- who overrides them ---------------------------------------------------------------------- */

/* The method called so asks who overrides it, where somebody does: *out is what they give. */
static bool is_overridden(const char *name, PyObject *self, PyObject *const *args, Py_ssize_t n,
                          PyObject *kwnames, PyObject **out) {
    if (!cfx__py_is_overridden(&self, 1))
        return false;
    PyObject *all[4] = {self}, *f = PyObject_GetAttrString(cfx__py.tensor_class, name);
    Py_ssize_t total = n + (kwnames ? PyTuple_Size(kwnames) : 0);
    for (Py_ssize_t i = 0; i < total && i < 3; i++)
        all[i + 1] = args[i];
    if (total > 3)
        PyErr_Format(PyExc_TypeError, "%s() takes one argument at most", name);
    *out = f && total <= 3 ? cfx__py_override(f, all, n + 1, kwnames) : NULL;
    Py_XDECREF(f);
    return true;
}

/* An attribute that overrides see: as Tensor.shape.__get__, Tensor.grad.__set__. */
typedef struct attribute {
    const char *name;
    getter get;
    setter set;
} attribute;

static const attribute attributes[] = {{"shape", get_shape, NULL},
                                       {"dtype", get_dtype, NULL},
                                       {"device", get_device, NULL},
                                       {"layout", get_layout, NULL},
                                       {"ndim", get_ndim, NULL},
                                       {"itemsize", get_itemsize, NULL},
                                       {"nbytes", get_nbytes, NULL},
                                       {"requires_grad", get_requires_grad, set_requires_grad},
                                       {"is_leaf", get_is_leaf, NULL},
                                       {"grad", get_grad, set_grad},
                                       {"data", get_data, set_data}};

/* Tensor.shape.__get__, or __set__. */
static PyObject *accessor(const attribute *a, const char *how) {
    PyObject *descriptor = PyObject_GetAttrString(cfx__py.tensor_class, a->name);
    PyObject *f = descriptor ? PyObject_GetAttrString(descriptor, how) : NULL;
    Py_XDECREF(descriptor);
    return f;
}

static PyObject *get_attribute(PyObject *self, void *closure) {
    const attribute *a = closure;
    if (!cfx__py_is_overridden(&self, 1))
        return a->get(self, NULL);
    PyObject *f = accessor(a, "__get__"), *o = f ? cfx__py_override(f, &self, 1, NULL) : NULL;
    Py_XDECREF(f);
    return o;
}

static int set_attribute(PyObject *self, PyObject *value, void *closure) {
    const attribute *a = closure;
    if (!value || !cfx__py_is_overridden(&self, 1))
        return a->set(self, value, NULL);
    PyObject *const args[] = {self, value};
    PyObject *f = accessor(a, "__set__"), *o = f ? cfx__py_override(f, args, 2, NULL) : NULL;
    Py_XDECREF(f);
    return done(o);
}

#define READ(name, at, doc) {name, get_attribute, NULL, doc, (void *)&attributes[at]}
#define WRITTEN(name, at, doc) {name, get_attribute, set_attribute, doc, (void *)&attributes[at]}
static PyGetSetDef gets[] = {
    READ("shape", 0, "The sizes, a torch.Size."),
    READ("dtype", 1, NULL),
    READ("device", 2, NULL),
    READ("layout", 3, NULL),
    READ("ndim", 4, NULL),
    READ("itemsize", 5, NULL),
    READ("nbytes", 6, NULL),
    WRITTEN("requires_grad", 7, NULL),
    READ("is_leaf", 8, NULL),
    WRITTEN("grad", 9, NULL),
    WRITTEN("data", 10, "The same memory, apart from the tape."),
    {"_grad_fn_name", get_grad_fn_name, NULL, NULL, NULL},
    {"_is_fake", get_is_fake, NULL, "Whether it has no numbers.", NULL},
    {0}};

/* ---- methods that are no operators ----------------------------------------------------------- */

/* A dimension given by position or as dim=; -1 with an exception, or *given false. */
static bool take_dim(PyObject *const *args, Py_ssize_t n, PyObject *kwnames, bool *given,
                     long *dim) {
    Py_ssize_t total = n + (kwnames ? PyTuple_Size(kwnames) : 0);
    *given = total > 0 && args[0] != Py_None;
    if (total > 1)
        PyErr_SetString(PyExc_TypeError, "takes one dimension at most");
    else if (*given)
        *dim = PyLong_AsLong(args[0]);
    return !PyErr_Occurred();
}

static PyObject *one_of(const cfx_tensor *t, const int64_t *of, long dim) {
    int n = cfx_tensor_ndim(t);
    if (dim < -n || dim >= n || !n) {
        PyErr_Format(PyExc_IndexError, n ? "Dimension out of range (expected to be in range of "
                     "[%d, %d], but got %ld)" : "Dimension specified as %3$ld but tensor has no "
                     "dimensions", -n, n - 1, dim);
        return NULL;
    }
    return PyLong_FromLongLong(of[dim < 0 ? dim + n : dim]);
}

static PyObject *method_size(PyObject *self, PyObject *const *args, Py_ssize_t n,
                             PyObject *kwnames) {
    const cfx_tensor *t = cfx__py_tensor_of(self);
    PyObject *result;
    bool given;
    long dim = 0;
    if (is_overridden("size", self, args, n, kwnames, &result))
        return result;
    if (!take_dim(args, n, kwnames, &given, &dim))
        return NULL;
    if (given && cfx_sizes_vary())
        return asked("Tensor.size", self, 1, cfx_int(dim));
    return given ? one_of(t, cfx_tensor_shape(t), dim) : get_shape(self, NULL);
}

static PyObject *method_stride(PyObject *self, PyObject *const *args, Py_ssize_t n,
                               PyObject *kwnames) {
    const cfx_tensor *t = cfx__py_tensor_of(self);
    PyObject *result;
    bool given;
    long dim = 0;
    if (is_overridden("stride", self, args, n, kwnames, &result))
        return result;
    if (!take_dim(args, n, kwnames, &given, &dim))
        return NULL;
    if (given)
        return one_of(t, cfx_tensor_stride(t), dim);
    PyObject *all = PyTuple_New(cfx_tensor_ndim(t));
    for (int i = 0; all && i < cfx_tensor_ndim(t); i++)
        PyTuple_SetItem(all, i, PyLong_FromLongLong(cfx_tensor_stride(t)[i]));
    return all;
}

static PyObject *method_numel(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *result;
    if (is_overridden("numel", self, NULL, 0, NULL, &result))
        return result;
    if (cfx_sizes_vary())
        return asked("Tensor.numel", self, 0, cfx_none());
    return PyLong_FromLongLong(cfx_tensor_numel(cfx__py_tensor_of(self)));
}
static PyObject *method_dim(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *result;
    if (is_overridden("dim", self, NULL, 0, NULL, &result))
        return result;
    return get_ndim(self, NULL);
}
static PyObject *method_element_size(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *result;
    if (is_overridden("element_size", self, NULL, 0, NULL, &result))
        return result;
    return get_itemsize(self, NULL);
}
static PyObject *method_storage_offset(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *result;
    if (is_overridden("storage_offset", self, NULL, 0, NULL, &result))
        return result;
    return PyLong_FromLongLong(cfx_tensor_offset(cfx__py_tensor_of(self)));
}
static PyObject *method_data_ptr(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *result;
    if (is_overridden("data_ptr", self, NULL, 0, NULL, &result))
        return result;
    return PyLong_FromVoidPtr(cfx_tensor_data(cfx__py_tensor_of(self)));
}
static PyObject *method_shares(PyObject *self, PyObject *other) {
    if (!cfx__py_is_tensor(other))
        return PyBool_FromLong(0);
    return PyBool_FromLong(cfx_tensor_shares(cfx__py_tensor_of(self), cfx__py_tensor_of(other)));
}

static PyObject *method_text(PyObject *self, PyObject *args) {
    cfx_print_options o = {0};
    long long threshold, edge;
    PyObject *text = NULL;
    if (!PyArg_ParseTuple(args, "iiLLi", &o.precision, &o.linewidth, &threshold, &edge,
                          &o.sci_mode))
        return NULL;
    o.threshold = threshold, o.edge_items = edge;
    CFX__PY_CALL(text) text = cfx__py_text(cfx_tensor_str_with(cfx__py_tensor_of(self), o));
    return text;
}

static PyObject *method_backward(PyObject *self, PyObject *args) {
    PyObject *gradient, *o = nothing();
    int retain, create;
    if (!PyArg_ParseTuple(args, "Opp", &gradient, &retain, &create)) {
        Py_DECREF(o);
        return NULL;
    }
    CFX__PY_CALL(o)
        cfx_backward(cfx__py_tensor_of(self), .retain_graph = retain, .create_graph = create,
                     .gradient = cfx__py_is_tensor(gradient) ? cfx__py_tensor_of(gradient) : NULL);
    return o;
}

static PyObject *method_retain_grad(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *o = nothing();
    CFX__PY_CALL(o) cfx_retain_grad(cfx__py_tensor_of(self));
    return o;
}

#define FAST(f) (PyCFunction)(void (*)(void))(f)
static PyMethodDef methods[] = {
    {"size", FAST(method_size), METH_FASTCALL | METH_KEYWORDS, NULL},
    {"stride", FAST(method_stride), METH_FASTCALL | METH_KEYWORDS, NULL},
    {"numel", method_numel, METH_NOARGS, NULL},
    {"nelement", method_numel, METH_NOARGS, NULL},
    {"dim", method_dim, METH_NOARGS, NULL},
    {"ndimension", method_dim, METH_NOARGS, NULL},
    {"element_size", method_element_size, METH_NOARGS, NULL},
    {"storage_offset", method_storage_offset, METH_NOARGS, NULL},
    {"data_ptr", method_data_ptr, METH_NOARGS, NULL},
    {"_shares", method_shares, METH_O, "Whether two tensors share their storage."},
    {"_text", method_text, METH_VARARGS, "The text with print options."},
    {"_backward", method_backward, METH_VARARGS, NULL},
    {"retain_grad", method_retain_grad, METH_NOARGS, NULL},
    {0}};

static PyObject *tensor_repr(PyObject *self) {
    PyObject *text = NULL;
    CFX__PY_CALL(text) text = cfx__py_text(cfx_tensor_str(cfx__py_tensor_of(self)));
    return text;
}

static Py_hash_t tensor_hash(PyObject *self) {
    Py_hash_t h = (Py_hash_t)((uintptr_t)self >> 4);
    return h == -1 ? -2 : h;
}

static PyType_Slot slots[] = {
    {Py_tp_new, tensor_new},          {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_getset, gets},             {Py_tp_methods, methods},
    {Py_tp_repr, tensor_repr},        {Py_tp_hash, tensor_hash},
    {Py_tp_getattro, cfx__py_tensor_getattr},
    {Py_tp_richcompare, cfx__py_compare},
    {Py_bf_getbuffer, cfx__py_get_buffer},
    {Py_bf_releasebuffer, cfx__py_release_buffer},
    {Py_mp_subscript, cfx__py_getitem},
    {Py_mp_ass_subscript, cfx__py_setitem},
    {Py_mp_length, cfx__py_length},
    {Py_nb_bool, cfx__py_is_true},    {Py_nb_int, cfx__py_int},
    {Py_nb_float, cfx__py_float},     {Py_nb_index, cfx__py_index},
    {Py_nb_positive, cfx__py_nb_positive},
#define UNARY(slot, method) {Py_##slot, cfx__py_##slot},
#define BINARY(slot, method, operator_) {Py_##slot, cfx__py_##slot},
    CFX__PY_OPERATORS(UNARY, BINARY, BINARY)
    {0, NULL}};

static PyType_Spec spec = {"torch._C.TensorBase", sizeof(cfx__py_tensor), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

bool cfx__py_add_tensor(PyObject *m) { return cfx__py_add_type(m, &cfx__py.tensor, &spec); }
