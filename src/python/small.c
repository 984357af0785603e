/* The small types of torch: dtype, layout, memory_format and device. The first three are tables of
 * objects made once, compared by identity. */
#include "python.h"

typedef struct small {
    PyObject_HEAD
    cfx_value v;
    int depth;            /* of contexts of a device, and where tensors were made outside them */
    cfx_device before[8];
} small;

/* ---- dtype, layout, memory_format ------------------------------------------------------------ */

static PyObject *small_repr(PyObject *self) {
    PyObject *text = NULL;
    CFX__PY_CALL(text) text = cfx__py_text(cfx_value_repr(((small *)self)->v));
    return text;
}

/* "float32" of torch.float32. */
static PyObject *small_name(PyObject *self) {
    PyObject *text = small_repr(self);
    PyObject *name = text ? PyUnicode_Substring(text, 6, PyUnicode_GetLength(text)) : NULL;
    Py_XDECREF(text);
    return name;
}

/* small(name, ...): what the module has under a name, called where there is more: for pickles, in
 * which torch may be another's. */
static PyObject *small_named(PyObject *module, PyObject *args) {
    Py_ssize_t n = PyTuple_Size(args);
    PyObject *name = n ? PyTuple_GetItem(args, 0) : NULL;
    if (!name || !PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "small takes a name");
        return NULL;
    }
    PyObject *found = PyObject_GetAttr(module, name);
    if (!found || n == 1)
        return found;
    PyObject *rest = PyTuple_GetSlice(args, 1, n);
    PyObject *made = rest ? PyObject_Call(found, rest, NULL) : NULL;
    Py_XDECREF(rest);
    Py_DECREF(found);
    return made;
}

static PyObject *small_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *by = PyObject_GetAttrString(cfx__py.module_object, "small"), *name = small_name(self);
    return Py_BuildValue("N(N)", by, name);
}

static cfx_dtype dtype_of(PyObject *o) { return cfx_as_dtype(((small *)o)->v); }

static bool is_among(PyObject *self, uint32_t dtypes) { return dtypes >> dtype_of(self) & 1; }

static const uint32_t complex_dtypes = CFX_IN(C32) | CFX_IN(C64) | CFX_IN(C128);
static const uint32_t float_dtypes =
    CFX_IN(F16) | CFX_IN(BF16) | CFX_IN_FLOAT | CFX_IN_FLOAT8 | CFX_IN(F8E8M0FNU);
static const uint32_t unsigned_dtypes = CFX_IN(U8) | CFX_IN_UINT | CFX_IN(BOOL);

static PyObject *dtype_is_floating(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(is_among(self, float_dtypes));
}
static PyObject *dtype_is_complex(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(is_among(self, complex_dtypes));
}
static PyObject *dtype_is_signed(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(!is_among(self, unsigned_dtypes));
}
static PyObject *dtype_itemsize(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLong(cfx_dtype_size(dtype_of(self)));
}
static PyObject *dtype_abbr(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(cfx_dtype_brief(dtype_of(self)));
}

static PyObject *dtype_to_real(PyObject *self, PyObject *unused) {
    (void)unused;
    cfx_dtype d = dtype_of(self);
    return cfx__py_from_dtype(d == CFX_C128  ? CFX_F64
                              : d == CFX_C64 ? CFX_F32
                              : d == CFX_C32 ? CFX_F16
                                             : d);
}
static PyObject *dtype_to_complex(PyObject *self, PyObject *unused) {
    (void)unused;
    cfx_dtype d = dtype_of(self);
    return cfx__py_from_dtype(d == CFX_F64                    ? CFX_C128
                              : d == CFX_F16                  ? CFX_C32
                              : d == CFX_F32 || d == CFX_BF16 ? CFX_C64
                                                              : d);
}

static PyGetSetDef dtype_gets[] = {{"is_floating_point", dtype_is_floating, NULL, NULL, NULL},
                                   {"is_complex", dtype_is_complex, NULL, NULL, NULL},
                                   {"is_signed", dtype_is_signed, NULL, NULL, NULL},
                                   {"itemsize", dtype_itemsize, NULL, NULL, NULL},
                                   {"abbr", dtype_abbr, NULL, NULL, NULL},
                                   {0}};
static PyMethodDef dtype_methods[] = {{"__reduce__", small_reduce, METH_NOARGS, NULL},
                                      {"to_real", dtype_to_real, METH_NOARGS, NULL},
                                      {"to_complex", dtype_to_complex, METH_NOARGS, NULL},
                                      {0}};
static PyMethodDef small_methods[] = {{"__reduce__", small_reduce, METH_NOARGS, NULL}, {0}};

static PyType_Slot dtype_slots[] = {{Py_tp_repr, small_repr},
                                    {Py_tp_getset, dtype_gets},
                                    {Py_tp_methods, dtype_methods},
                                    {0, NULL}};
static PyType_Slot small_slots[] = {
    {Py_tp_repr, small_repr}, {Py_tp_methods, small_methods}, {0, NULL}};

enum { TABLE_FLAGS = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION };
static PyType_Spec dtype_spec = {"torch.dtype", sizeof(small), 0, TABLE_FLAGS, dtype_slots};
static PyType_Spec layout_spec = {"torch.layout", sizeof(small), 0, TABLE_FLAGS, small_slots};
static PyType_Spec format_spec = {"torch.memory_format", sizeof(small), 0, TABLE_FLAGS,
                                  small_slots};

/* ---- device ---------------------------------------------------------------------------------- */

static const char *const device_types[] = {
    [CFX_CPU] = "cpu", [CFX_CUDA] = "cuda", [CFX_META] = "meta"};

static PyObject *new_small(PyTypeObject *type, cfx_value v) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    small *s = (small *)alloc(type, 0);
    if (s)
        s->v = v;
    return (PyObject *)s;
}

static cfx_device device_of(PyObject *o) { return cfx_as_device(((small *)o)->v); }

/* "cuda:1"; false, with PyTorch's words, where it is no device. */
static bool parse_device(const char *text, cfx_device *out) {
    size_t n = strcspn(text, ":");
    for (int i = 0; i < COUNT(device_types); i++) {
        if (strlen(device_types[i]) != n || strncmp(text, device_types[i], n))
            continue;
        char *end = NULL;
        long index = text[n] ? strtol(text + n + 1, &end, 10) : -1;
        if (text[n] && (!text[n + 1] || *end || index < 0 || index > 127))
            break;
        *out = (cfx_device){(int16_t)i, (int16_t)index};
        return true;
    }
    PyErr_Format(PyExc_RuntimeError,
                 "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, "
                 "fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, privateuseone device type "
                 "at start of device string: %s", text);
    return false;
}

bool cfx__py_is_device(const char *text) {
    cfx_device unused;
    return parse_device(text, &unused);
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    char *names[] = {"device", "index", NULL}, *other_names[] = {"type", "index", NULL};
    PyObject *what = NULL;
    int index = -1;
    cfx_device d;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|i:device", names, &what, &index)) {
        PyErr_Clear();
        if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|i:device", other_names, &what, &index))
            return NULL;
    }
    if (PyObject_TypeCheck(what, type)) {
        d = device_of(what);
    } else if (PyLong_Check(what)) {
        d = (cfx_device){CFX_CUDA, (int16_t)PyLong_AsLong(what)};
    } else {
        const char *text = cfx__py_utf8(what);
        if (!text || !parse_device(text, &d))
            return NULL;
    }
    if (index >= 0)
        d.index = (int16_t)index;
    return new_small(type, cfx_device_value(d));
}

static PyObject *device_str(PyObject *self) {
    PyObject *text = NULL;
    CFX__PY_CALL(text) text = cfx__py_text(cfx_value_str(((small *)self)->v));
    return text;
}

static PyObject *device_type(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(device_types[device_of(self).type]);
}

static PyObject *device_index(PyObject *self, void *unused) {
    (void)unused;
    int index = device_of(self).index;
    if (index >= 0)
        return PyLong_FromLong(index);
    Py_RETURN_NONE;
}

static PyObject *device_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *by = PyObject_GetAttrString(cfx__py.module_object, "small");
    return Py_BuildValue("N(sN)", by, "device", device_str(self));
}

static PyObject *device_compare(PyObject *a, PyObject *b, int op) {
    if (!PyObject_TypeCheck(b, cfx__py.device) || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    cfx_device x = device_of(a), y = device_of(b);
    return PyBool_FromLong((x.type == y.type && x.index == y.index) == (op == Py_EQ));
}

static Py_hash_t device_hash(PyObject *self) {
    cfx_device d = device_of(self);
    return (Py_hash_t)d.type * 1024 + d.index + 2;
}

/* Makes tensors on a device from now on; false, with an exception, where that cannot be. */
static bool make_on(cfx_device d) {
    size_t mark = cfx_scope_open();
    cfx_set_default_device(cfx_value_str(cfx_device_value(d)));
    cfx_scope_close(mark);
    return cfx__py_raise();
}

/* `with torch.device("cuda"):` makes tensors there; inside "meta" they have no numbers. */
static PyObject *device_enter(PyObject *self, PyObject *unused) {
    (void)unused;
    cfx__py_thread *t = &cfx__py_this_thread;
    small *s = (small *)self;
    const cfx_device d = device_of(self);
    if (d.type == CFX_META && !t->meta_depth++)
        t->fake_before = cfx_set_fake_mode(true);
    if (d.type != CFX_META) {
        if (s->depth >= COUNT(s->before)) {
            PyErr_Format(PyExc_RecursionError, "%R is the device of too many contexts at once",
                         self);
            return NULL;
        }
        s->before[s->depth] = cfx_get_default_device();
        if (!make_on(d))
            return NULL;
        s->depth++;
    }
    Py_INCREF(self);
    return self;
}

static PyObject *device_exit(PyObject *self, PyObject *args) {
    (void)args;
    cfx__py_thread *t = &cfx__py_this_thread;
    small *s = (small *)self;
    const cfx_device d = device_of(self);
    if (d.type == CFX_META && t->meta_depth && !--t->meta_depth)
        cfx_set_fake_mode(t->fake_before);
    if (d.type != CFX_META && s->depth && !make_on(s->before[--s->depth]))
        return NULL;
    Py_RETURN_NONE;
}

static PyGetSetDef device_gets[] = {{"type", device_type, NULL, NULL, NULL},
                                    {"index", device_index, NULL, NULL, NULL},
                                    {0}};
static PyMethodDef device_methods[] = {{"__reduce__", device_reduce, METH_NOARGS, NULL},
                                       {"__enter__", device_enter, METH_NOARGS, NULL},
                                       {"__exit__", device_exit, METH_VARARGS, NULL},
                                       {0}};
static PyType_Slot device_slots[] = {{Py_tp_new, device_new},
                                     {Py_tp_repr, small_repr},
                                     {Py_tp_str, device_str},
                                     {Py_tp_richcompare, device_compare},
                                     {Py_tp_hash, device_hash},
                                     {Py_tp_getset, device_gets},
                                     {Py_tp_methods, device_methods},
                                     {0, NULL}};
static PyType_Spec device_spec = {"torch.device", sizeof(small), 0, Py_TPFLAGS_DEFAULT,
                                  device_slots};

/* ---- both ways ------------------------------------------------------------------------------- */

cfx_value cfx__py_small_value(PyObject *o) { return ((small *)o)->v; }

PyObject *cfx__py_from_small(cfx_value v) {
    PyObject *o = v.tag == CFX_TAG_DTYPE           ? cfx__py.dtypes[cfx_as_dtype(v)]
                  : v.tag == CFX_TAG_LAYOUT        ? cfx__py.layouts[cfx_integer(v)]
                  : v.tag == CFX_TAG_MEMORY_FORMAT ? cfx__py.memory_formats[cfx_integer(v)]
                                                   : new_small(cfx__py.device, v);
    if (v.tag != CFX_TAG_DEVICE)
        Py_XINCREF(o);
    return o;
}

PyObject *cfx__py_from_dtype(cfx_dtype d) { return cfx__py_from_small(cfx_dtype_value(d)); }
PyObject *cfx__py_from_device(cfx_device d) { return cfx__py_from_small(cfx_device_value(d)); }

PyObject *cfx__py_from_ints(int64_t n, const int64_t *ints) {
    PyObject *plain = PyTuple_New((Py_ssize_t)n);
    for (int64_t i = 0; plain && i < n; i++)
        PyTuple_SetItem(plain, (Py_ssize_t)i, PyLong_FromLongLong(ints[i]));
    if (!plain || !cfx__py.size)
        return plain;
    PyObject *size = PyObject_CallFunctionObjArgs(cfx__py.size, plain, NULL);
    Py_DECREF(plain);
    return size;
}

PyObject *cfx__py_text(const char *text) {
    return PyUnicode_DecodeUTF8(text ? text : "", text ? (Py_ssize_t)strlen(text) : 0, "replace");
}

const char *cfx__py_utf8(PyObject *o) {
    Py_ssize_t n;
    if (o && PyUnicode_Check(o))
        return PyUnicode_AsUTF8AndSize(o, &n);
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "expected a str, got %R",
                     o ? (PyObject *)Py_TYPE(o) : Py_None);
    return NULL;
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* Adds a member of a table to the module under its name without "torch.". */
static bool add_member(PyObject *m, PyObject **place, PyTypeObject *type, cfx_value v) {
    bool good = (*place = new_small(type, v)) != NULL;
    PyObject *name = good ? small_name(*place) : NULL;
    good = name && PyObject_SetAttr(m, name, *place) == 0;
    Py_XDECREF(name);
    return good;
}

bool cfx__py_add_type(PyObject *m, PyTypeObject **place, PyType_Spec *spec) {
    PyObject *type = PyType_FromModuleAndSpec(m, spec, NULL);
    *place = (PyTypeObject *)type;
    return type && PyModule_AddType(m, *place) == 0;
}

static PyMethodDef functions[] = {{"small", small_named, METH_VARARGS, NULL}, {0}};

bool cfx__py_add_small(PyObject *m) {
    bool good = PyModule_AddFunctions(m, functions) == 0 &&
                cfx__py_add_type(m, &cfx__py.dtype, &dtype_spec) &&
                cfx__py_add_type(m, &cfx__py.layout, &layout_spec) &&
                cfx__py_add_type(m, &cfx__py.memory_format, &format_spec) &&
                cfx__py_add_type(m, &cfx__py.device, &device_spec);
    for (int d = 0; good && d < CFX_DTYPE_END; d++)
        good = add_member(m, &cfx__py.dtypes[d], cfx__py.dtype, cfx_dtype_value((cfx_dtype)d));
    for (int i = 0; good && i < COUNT(cfx__py.layouts); i++)
        good = add_member(m, &cfx__py.layouts[i], cfx__py.layout, cfx_layout_value((cfx_layout)i));
    for (int i = 0; good && i < COUNT(cfx__py.memory_formats); i++)
        good = add_member(m, &cfx__py.memory_formats[i], cfx__py.memory_format,
                          cfx_memory_format_value((cfx_memory_format)i));
    return good;
}
