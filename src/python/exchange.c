/* Tensors over other people's memory and theirs over ours: the buffer protocol, DLPack, and what
 * torch.tensor() copies. */
#include "python.h"

/* ---- formats of the buffer protocol ---------------------------------------------------------- */

/* dtype to the letter of struct and numpy; those that have none are not given out. */
static const char *const formats[CFX_DTYPE_END] = {
    [CFX_U8] = "B",  [CFX_I8] = "b",  [CFX_I16] = "h", [CFX_I32] = "i",  [CFX_I64] = "q",
    [CFX_F16] = "e", [CFX_F32] = "f", [CFX_F64] = "d", [CFX_C64] = "Zf", [CFX_C128] = "Zd",
    [CFX_BOOL] = "?", [CFX_U16] = "H", [CFX_U32] = "I", [CFX_U64] = "Q"};

/* The dtype of a format; false, with an exception, where no tensor has it. */
static bool dtype_of_format(const char *format, Py_ssize_t itemsize, cfx_dtype *out) {
    const char *f = format ? format : "B";
    if ((*f == '>' || *f == '!') && itemsize > 1) {
        PyErr_SetString(PyExc_ValueError,
                        "given numpy array has byte order different from the native byte order. "
                        "Conversion between byte orders is currently not supported.");
        return false;
    }
    f += *f != 0 && strchr("<>=@!", *f) != NULL;
    const char *letter = *f == 'l' ? (itemsize == 8 ? "q" : "i")
                         : *f == 'L' ? (itemsize == 8 ? "Q" : "I")
                         : *f == 'c' ? "b"
                                     : f;
    for (int d = 0; d < CFX_DTYPE_END; d++)
        if (formats[d] && !strcmp(formats[d], letter) &&
            cfx_dtype_size((cfx_dtype)d) == (int)itemsize) {
            *out = (cfx_dtype)d;
            return true;
        }
    PyErr_Format(PyExc_TypeError,
                 "can't convert an array with items of the format '%s'. The only supported types "
                 "are: float64, float32, float16, complex64, complex128, int64, int32, int16, "
                 "int8, uint64, uint32, uint16, uint8, and bool.", format ? format : "B");
    return false;
}

int cfx__py_get_buffer(PyObject *self, Py_buffer *view, int flags) {
    const cfx_tensor *t = cfx__py_tensor_of(self);
    cfx_dtype d = cfx_tensor_dtype(t);
    int n = cfx_tensor_ndim(t), size = cfx_dtype_size(d);
    const char *why = !formats[d]                    ? "its dtype has no format"
                      : cfx_tensor_is_fake(t)        ? "it has no numbers"
                      : cfx_tensor_requires_grad(t)  ? "it requires grad; use tensor.detach()"
                      : !(flags & PyBUF_STRIDES) && !cfx_tensor_is_contiguous(t)
                          ? "it is not contiguous"
                          : NULL;
    view->obj = NULL;
    if (cfx_tensor_device(t).type == CFX_CUDA) {
        PyErr_Format(PyExc_TypeError,
                     "can't convert cuda:%d device type tensor to numpy. Use Tensor.cpu() to copy "
                     "the tensor to host memory first.",
                     cfx_tensor_device(t).index);
        return -1;
    }
    if (why) {
        PyErr_Format(PyExc_BufferError, "the memory of the tensor cannot be shared: %s", why);
        return -1;
    }
    Py_ssize_t *sizes = PyMem_Calloc(2 * (size_t)n + 1, sizeof *sizes);
    if (!sizes) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < n; i++) {
        sizes[i] = (Py_ssize_t)cfx_tensor_shape(t)[i];
        sizes[n + i] = (Py_ssize_t)cfx_tensor_stride(t)[i] * size;
    }
    *view = (Py_buffer){.buf = cfx_tensor_data(t), .len = cfx_tensor_numel(t) * size,
                        .itemsize = size, .ndim = n, .internal = sizes,
                        .format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)formats[d] : NULL,
                        .shape = flags & PyBUF_ND ? sizes : NULL,
                        .strides = flags & PyBUF_STRIDES ? sizes + n : NULL};
    Py_INCREF(self);
    view->obj = self;
    return 0;
}

void cfx__py_release_buffer(PyObject *self, Py_buffer *view) {
    (void)self;
    PyMem_Free(view->internal);
}

/* ---- memory of others ------------------------------------------------------------------------ */

/* A tensor over memory with strides in elements; scope. `release` is called in any case. */
static cfx_tensor *over(cfx_dtype dtype, int ndim, const int64_t *shape, const int64_t *stride,
                        void *data, void (*release)(void *), void *owner) {
    int64_t extent = 1;
    for (int i = 0; i < ndim && extent; i++)
        extent = shape[i] ? extent + (shape[i] - 1) * stride[i] : 0;
    cfx_tensor *flat = cfx_tensor_borrow(dtype, 1, &extent, data, release, owner);
    return cfx_failed(flat) ? flat : cfx_tensor_view(flat, ndim, shape, stride, 0);
}

static void release_view(void *owner) {
    cfx__py_lock lock;
    if (!cfx__py_enter(&lock))
        return;
    PyBuffer_Release(owner);
    PyMem_Free(owner);
    cfx__py_exit(lock);
}

/* Sizes and strides of a view in elements; false, with PyTorch's words, where they are none. */
static bool elements(const Py_buffer *view, int64_t *shape, int64_t *stride) {
    int64_t step = 1;
    for (int i = view->ndim - 1; i >= 0; i--) {
        shape[i] = view->shape ? view->shape[i] : view->len / view->itemsize;
        stride[i] = step;
        if (view->strides && shape[i] > 1) {
            if (view->strides[i] < 0) {
                PyErr_SetString(PyExc_ValueError,
                                "At least one stride in the given numpy array is negative, and "
                                "tensors with negative strides are not currently supported. (You "
                                "can probably work around this by making a copy of your array  "
                                "with array.copy().) ");
                return false;
            }
            if (view->strides[i] % view->itemsize) {
                PyErr_SetString(PyExc_ValueError,
                                "given numpy array strides not a multiple of the element byte "
                                "size. Copy the numpy array to reallocate the memory.");
                return false;
            }
            stride[i] = view->strides[i] / view->itemsize;
        }
        step = stride[i] * shape[i];
    }
    return true;
}

/* The tensor over an object's buffer; scope. NULL with an exception. */
static cfx_tensor *over_buffer(PyObject *o, bool *readonly) {
    Py_buffer *view = PyMem_Calloc(1, sizeof *view);
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    cfx_dtype dtype;
    if (!view)
        return (void)PyErr_NoMemory(), NULL;
    if (PyObject_GetBuffer(o, view, PyBUF_RECORDS_RO) < 0) {
        PyMem_Free(view);
        return NULL;
    }
    bool good = view->ndim <= CFX_MAX_DIMS;
    if (!good)
        PyErr_Format(PyExc_ValueError, "tensors have at most %d dimensions", CFX_MAX_DIMS);
    if (!good || !dtype_of_format(view->format, view->itemsize, &dtype) ||
        !elements(view, shape, stride)) {
        PyBuffer_Release(view);
        PyMem_Free(view);
        return NULL;
    }
    if (readonly)
        *readonly = view->readonly;
    return over(dtype, view->ndim, shape, stride, view->buf, release_view, view);
}

static PyObject *from_buffer(PyObject *unused, PyObject *o) {
    PyObject *result = NULL;
    bool readonly = false;
    (void)unused;
    CFX__PY_CALL(result) {
        cfx_tensor *t = over_buffer(o, &readonly);
        if (t && !cfx_failed(t))
            result = Py_BuildValue("NN", cfx__py_from_tensor(t), PyBool_FromLong(readonly));
    }
    return result;
}

/* ---- DLPack ---------------------------------------------------------------------------------- */

/* The structs of the protocol, as all who speak it lay them out. */
typedef struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor t;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

enum { DL_CPU = 1, DL_CUDA = 2 };
enum { DL_INT, DL_UINT, DL_FLOAT, DL_BFLOAT = 4, DL_COMPLEX, DL_BOOL };

static const uint8_t dl_codes[CFX_DTYPE_END] = {
    [CFX_U8] = DL_UINT,   [CFX_I8] = DL_INT,    [CFX_I16] = DL_INT,   [CFX_I32] = DL_INT,
    [CFX_I64] = DL_INT,   [CFX_F16] = DL_FLOAT, [CFX_F32] = DL_FLOAT, [CFX_F64] = DL_FLOAT,
    [CFX_C64] = DL_COMPLEX, [CFX_C128] = DL_COMPLEX, [CFX_BOOL] = DL_BOOL, [CFX_BF16] = DL_BFLOAT,
    [CFX_U16] = DL_UINT,  [CFX_U32] = DL_UINT,  [CFX_U64] = DL_UINT};

static bool has_dl_code(cfx_dtype d) {
    return d <= CFX_BF16 || d == CFX_U16 || d == CFX_U32 || d == CFX_U64;
}

/* Whoever took it calls this, on whatever thread. */
static void dl_delete(dl_managed *self) {
    cfx__py_lock lock;
    cfx_drop(self->context);
    if (!cfx__py_enter(&lock))
        return;
    PyMem_Free(self);
    cfx__py_exit(lock);
}

static void capsule_free(PyObject *capsule) {
    dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor"); /* NULL: somebody has taken it */
    if (m)
        m->deleter(m);
    PyErr_Clear();
}

static PyObject *to_dlpack(PyObject *unused, PyObject *o) {
    (void)unused;
    cfx_tensor *t = cfx__py_is_tensor(o) ? cfx__py_tensor_of(o) : NULL;
    int n = cfx_tensor_ndim(t);
    cfx_dtype d = cfx_tensor_dtype(t);
    if (!t || cfx_tensor_is_fake(t) || cfx_tensor_requires_grad(t) || !has_dl_code(d)) {
        PyErr_SetString(PyExc_BufferError,
                        !t ? "expected a Tensor"
                        : cfx_tensor_is_fake(t)
                            ? "a tensor without numbers has no memory to share"
                        : cfx_tensor_requires_grad(t)
                            ? "Can't export tensors that require gradient, use tensor.detach()"
                            : "DLPack has no code for the tensor's dtype");
        return NULL;
    }
    dl_managed *m = PyMem_Calloc(1, sizeof *m + 2 * (size_t)n * sizeof(int64_t));
    if (!m)
        return PyErr_NoMemory();
    m->t.shape = (int64_t *)(m + 1);
    m->t.strides = m->t.shape + n;
    for (int i = 0; i < n; i++) {
        m->t.shape[i] = cfx_tensor_shape(t)[i];
        m->t.strides[i] = cfx_tensor_stride(t)[i];
    }
    m->t.data = cfx_tensor_data(t);
    m->t.device.type = cfx_tensor_device(t).type == CFX_CUDA ? DL_CUDA : DL_CPU;
    m->t.device.id = m->t.device.type == DL_CUDA ? cfx_tensor_device(t).index : 0;
    m->t.ndim = n;
    m->t.dtype.code = dl_codes[d];
    m->t.dtype.bits = (uint8_t)(8 * cfx_dtype_size(d));
    m->t.dtype.lanes = 1;
    m->context = cfx_keep(t);
    m->deleter = dl_delete;
    PyObject *capsule = PyCapsule_New(m, "dltensor", capsule_free);
    if (!capsule)
        dl_delete(m);
    return capsule;
}

static void dl_release(void *owner) {
    dl_managed *m = owner;
    if (m->deleter)
        m->deleter(m);
}

static bool dl_dtype(const dl_tensor *t, cfx_dtype *out) {
    for (int d = 0; d < CFX_DTYPE_END && t->dtype.lanes == 1; d++)
        if (has_dl_code((cfx_dtype)d) && dl_codes[d] == t->dtype.code &&
            8 * cfx_dtype_size((cfx_dtype)d) == t->dtype.bits) {
            *out = (cfx_dtype)d;
            return true;
        }
    PyErr_Format(PyExc_BufferError, "no dtype has DLPack's code %d with %d bits and %d lanes",
                 t->dtype.code, t->dtype.bits, t->dtype.lanes);
    return false;
}

static PyObject *from_dlpack(PyObject *unused, PyObject *capsule) {
    (void)unused;
    dl_managed *m = PyCapsule_IsValid(capsule, "dltensor")
                        ? PyCapsule_GetPointer(capsule, "dltensor")
                        : NULL;
    int64_t stride[CFX_MAX_DIMS], step = 1;
    cfx_dtype dtype;
    PyObject *result = NULL;
    if (!m)
        return PyErr_Format(PyExc_RuntimeError,
                            "from_dlpack received an invalid capsule. Note that DLTensor capsules "
                            "can be consumed only once, so you might have already constructed a "
                            "tensor from it once.");
    if (!dl_dtype(&m->t, &dtype))
        return NULL;
    if (m->t.device.type != DL_CPU || m->t.ndim > CFX_MAX_DIMS || m->t.ndim < 0) {
        PyErr_SetString(PyExc_BufferError, "only memory of the CPU can be shared, in at most 64 "
                                           "dimensions");
        return NULL;
    }
    for (int i = m->t.ndim - 1; i >= 0; i--) {
        stride[i] = m->t.strides ? m->t.strides[i] : step;
        step *= m->t.shape[i];
        if (stride[i] < 0) {
            PyErr_SetString(PyExc_BufferError, "tensors with negative strides are not supported");
            return NULL;
        }
    }
    PyCapsule_SetName(capsule, "used_dltensor");
    CFX__PY_CALL(result) {
        cfx_tensor *t = over(dtype, m->t.ndim, m->t.shape, stride,
                             (char *)m->t.data + m->t.byte_offset, dl_release, m);
        if (!cfx_failed(t))
            result = cfx__py_from_tensor(t);
    }
    return result;
}

/* ---- torch.tensor(data) ---------------------------------------------------------------------- */

cfx_tensor *cfx__py_tensor_from(PyObject *data) {
    if (cfx__py_is_tensor(data)) {
        cfx_grad_mode mode = cfx_set_grad_mode(CFX_NO_GRAD);
        cfx_tensor *t = cfx_clone(cfx__py_tensor_of(data));
        cfx_set_grad_mode(mode);
        return t;
    }
    bool listed = PyList_Check(data) || PyTuple_Check(data) || PyFloat_Check(data) ||
                  PyLong_Check(data) || PyUnicode_Check(data);
    if (!listed && PyObject_CheckBuffer(data)) {
        cfx_tensor *t = over_buffer(data, NULL);
        return t ? cfx_clone(t) : NULL;
    }
    cfx_value v;
    return cfx__py_to_value(data, &v) ? cfx_tensor_from_value(v) : NULL;
}

static PyObject *make_tensor(PyObject *unused, PyObject *data) {
    PyObject *result = NULL;
    (void)unused;
    CFX__PY_CALL(result) {
        cfx_tensor *t = cfx__py_tensor_from(data);
        if (t && !cfx_failed(t))
            result = cfx__py_from_tensor(t);
    }
    return result;
}

/* alias(class, tensor, requires_grad) */
static PyObject *alias(PyObject *unused, PyObject *args) {
    PyObject *class_, *tensor;
    int grad;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!O!p", &PyType_Type, &class_, cfx__py.tensor, &tensor, &grad))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)class_, cfx__py.tensor)) {
        PyErr_SetString(PyExc_TypeError, "expected a subclass of Tensor");
        return NULL;
    }
    return cfx__py_alias((PyTypeObject *)class_, cfx__py_tensor_of(tensor), grad);
}

static PyMethodDef functions[] = {
    {"tensor", make_tensor, METH_O, "tensor(data): a copy as a tensor"},
    {"from_buffer", from_buffer, METH_O, "from_buffer(o): the tensor over it, whether read-only"},
    {"to_dlpack", to_dlpack, METH_O, NULL},
    {"from_dlpack", from_dlpack, METH_O, NULL},
    {"alias", alias, METH_VARARGS, "alias(class, tensor, requires_grad)"},
    {0}};

bool cfx__py_add_exchange(PyObject *m) { return PyModule_AddFunctions(m, functions) == 0; }
