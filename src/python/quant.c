/* Quantization by torch.ao's steps: observers, qconfigs and mappings as Python writes them, and the
 * steps themselves on modules of C. */
#include "python.h"

#include <cfx/quant.h>

#include "graph.h"

#include <stddef.h>

/* ---- observers ------------------------------------------------------------------------------- */

/* The fields of a cfx_observer, by the names that Python uses for them. */
static const struct field {
    const char *name;
    size_t at;
    enum { WHOLE, TRUTH, NUMBER, DTYPE } kind;
    int most; /* of whole numbers that are places in a list; 0: any */
} fields[] = {
#define FIELD(field, kind, most) {#field, offsetof(cfx_observer, field), kind, most}
    FIELD(kind, WHOLE, CFX_REUSE_INPUT_OBSERVER),
    FIELD(dtype, DTYPE, 0),
    FIELD(qscheme, WHOLE, CFX_PER_CHANNEL_AFFINE_FLOAT_QPARAMS),
    FIELD(reduce_range, TRUTH, 0),
    FIELD(dynamic, TRUTH, 0),
    FIELD(quant_min, WHOLE, 0),
    FIELD(quant_max, WHOLE, 0),
    FIELD(ch_axis, WHOLE, 0),
    FIELD(bins, WHOLE, 0),
    FIELD(averaging_constant, NUMBER, 0),
    FIELD(percentile, NUMBER, 0),
    FIELD(eps, NUMBER, 0),
    FIELD(scale, NUMBER, 0),
    FIELD(zero_point, WHOLE, 0),
    FIELD(fake, WHOLE, CFX_LEARNABLE_FAKE_QUANTIZE),
    FIELD(scale_gradients, TRUTH, 0),
    FIELD(channels, WHOLE, 0),
#undef FIELD
};

static const struct field *field_named(PyObject *key) {
    const char *name = cfx__py_utf8(key);
    for (int i = 0; name && i < COUNT(fields); i++)
        if (!strcmp(fields[i].name, name))
            return &fields[i];
    if (name)
        PyErr_Format(PyExc_TypeError, "an observer has no option '%s'", name);
    return NULL;
}

static bool set_whole(const struct field *f, int *at, PyObject *value) {
    long n = PyLong_AsLong(value);
    if (PyErr_Occurred())
        return false;
    if (n < INT_MIN || n > INT_MAX || (f->most && (n < 0 || n > f->most))) {
        PyErr_Format(PyExc_ValueError, "%s=%ld is out of range for an observer", f->name, n);
        return false;
    }
    *at = (int)n;
    return true;
}

static bool set_field(const struct field *f, char *at, PyObject *value) {
    switch (f->kind) {
    case WHOLE: return set_whole(f, (int *)at, value);
    case TRUTH: *(bool *)at = PyObject_IsTrue(value) == 1; break;
    case NUMBER: *(double *)at = PyFloat_AsDouble(value); break;
    case DTYPE:
        if (!PyObject_TypeCheck(value, cfx__py.dtype)) {
            PyErr_SetString(PyExc_TypeError, "the dtype of an observer must be a torch.dtype");
            return false;
        }
        *(cfx_dtype *)at = cfx_as_dtype(cfx__py_small_value(value));
    }
    return !PyErr_Occurred();
}

/* A dict of options as the struct. */
static bool to_observer(PyObject *options, cfx_observer *out) {
    PyObject *key, *value;
    *out = (cfx_observer){0};
    if (!PyDict_Check(options)) {
        PyErr_SetString(PyExc_TypeError, "the options of an observer are a dict");
        return false;
    }
    for (Py_ssize_t i = 0; PyDict_Next(options, &i, &key, &value);) {
        const struct field *f = field_named(key);
        if (!f || !set_field(f, (char *)out + f->at, value))
            return false;
    }
    return true;
}

static PyObject *from_field(const struct field *f, const char *at) {
    switch (f->kind) {
    case WHOLE: return PyLong_FromLong(*(const int *)at);
    case TRUTH: return PyBool_FromLong(*(const bool *)at);
    case NUMBER: return PyFloat_FromDouble(*(const double *)at);
    case DTYPE: break;
    }
    return cfx__py_from_dtype(*(const cfx_dtype *)at);
}

static PyObject *from_observer(cfx_observer how) {
    PyObject *all = PyDict_New();
    for (int i = 0; all && i < COUNT(fields); i++) {
        PyObject *value = from_field(&fields[i], (const char *)&how + fields[i].at);
        if (!value || PyDict_SetItemString(all, fields[i].name, value) < 0)
            Py_CLEAR(all);
        Py_XDECREF(value);
    }
    return all;
}

/* observer(options): a module of C. */
static PyObject *observer(PyObject *unused, PyObject *options) {
    PyObject *o = NULL;
    cfx_observer how;
    (void)unused;
    if (!to_observer(options, &how))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_module *m = cfx_observer_new_from(cfx__py_here(), how);
        if (!cfx_failed(m))
            o = cfx__py_from_cmodule(m);
    }
    return o;
}

static bool is_observer(PyObject *o) {
    if (PyObject_TypeCheck(o, cfx__py.module) && cfx_module_is_observer(cfx__py_cmodule_of(o)))
        return true;
    PyErr_SetString(PyExc_TypeError, "expected an observer");
    return false;
}

/* observer_how(module): its options, defaults filled in. */
static PyObject *observer_how(PyObject *unused, PyObject *module) {
    (void)unused;
    return is_observer(module) ? from_observer(cfx_observer_how(cfx__py_cmodule_of(module))) : NULL;
}

/* observer_qparams(module): (scale, zero_point). */
static PyObject *observer_qparams(PyObject *unused, PyObject *module) {
    PyObject *o = NULL;
    (void)unused;
    if (!is_observer(module))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_value v = cfx_observer_qparams_from(cfx__py_here(), cfx__py_cmodule_of(module));
        if (!cfx_is_bad(v))
            o = cfx__py_from_value(v);
    }
    return o;
}

/* ---- qconfigs and mappings ------------------------------------------------------------------- */

static PyObject *from_qconfig(const cfx_qconfig *q) {
    if (!q)
        Py_RETURN_NONE;
    return Py_BuildValue("NN", from_observer(q->activation), from_observer(q->weight));
}

/* None, or a pair of options. */
static bool to_qconfig(PyObject *o, cfx_qconfig *out, const cfx_qconfig **at) {
    *at = NULL;
    if (o == Py_None)
        return true;
    if (!PyTuple_Check(o) || PyTuple_Size(o) != 2) {
        PyErr_SetString(PyExc_TypeError, "a qconfig is a pair: of activations and of weights");
        return false;
    }
    *at = out;
    return to_observer(PyTuple_GetItem(o, 0), &out->activation) &&
           to_observer(PyTuple_GetItem(o, 1), &out->weight);
}

/* qconfig(name) */
static PyObject *qconfig(PyObject *unused, PyObject *name) {
    PyObject *o = NULL;
    cfx_qconfig q;
    const char *text = cfx__py_utf8(name);
    (void)unused;
    if (!text)
        return NULL;
    CFX__PY_CALL(o) {
        if (cfx_qconfig_find_from(cfx__py_here(), text, &q))
            o = from_qconfig(&q);
    }
    return o;
}

/* qconfig_mapping(backend): the rules of the default one, each (by, text, type, index, qconfig). */
static PyObject *qconfig_mapping(PyObject *unused, PyObject *backend) {
    PyObject *all = NULL;
    const char *text = cfx__py_utf8(backend);
    (void)unused;
    if (!text)
        return NULL;
    CFX__PY_CALL(all) {
        cfx_qconfig_mapping *m = cfx_qconfig_mapping_default_from(cfx__py_here(), text);
        all = m ? PyList_New(0) : NULL;
        for (int i = 0; all && i < cfx_qconfig_mapping_count(m); i++) {
            cfx_qconfig_rule r = cfx_qconfig_mapping_at(m, i);
            PyObject *row = Py_BuildValue("izziN", (int)r.by, r.text, r.type, r.index,
                                          from_qconfig(r.qconfig));
            if (!row || PyList_Append(all, row) < 0)
                Py_CLEAR(all);
            Py_XDECREF(row);
        }
    }
    return all;
}

static bool add_rule(cfx_qconfig_mapping *m, PyObject *row) {
    int by, index;
    const char *text, *type;
    PyObject *q;
    cfx_qconfig room;
    const cfx_qconfig *said;
    if (!PyTuple_Check(row) || !PyArg_ParseTuple(row, "izziO", &by, &text, &type, &index, &q) ||
        !to_qconfig(q, &room, &said)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a rule is a tuple");
        return false;
    }
    switch ((cfx_qconfig_by)by) {
    case CFX_QCONFIG_GLOBAL: cfx_qconfig_mapping_global(m, said); break;
    case CFX_QCONFIG_TYPE: cfx_qconfig_mapping_type(m, text, said); break;
    case CFX_QCONFIG_NAME: cfx_qconfig_mapping_name(m, text, said); break;
    case CFX_QCONFIG_REGEX: cfx_qconfig_mapping_regex_from(cfx__py_here(), m, text, said); break;
    case CFX_QCONFIG_ORDER: cfx_qconfig_mapping_order(m, text, type, index, said); break;
    }
    return cfx_ok();
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* graph_module(root, graph): a module of C that runs a copy of a graph on the modules of root. */
static PyObject *graph_module(PyObject *unused, PyObject *args) {
    PyObject *root, *graph, *o = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!O!", cfx__py.module, &root, cfx__py.graph, &graph) ||
        !cfx__py_graph_of(graph))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_module *m = cfx_graph_module(cfx__py_cmodule_of(root),
                                         cfx_graph_copy(cfx__py_graph_of(graph)), NULL);
        if (!cfx_failed(m)) {
            m->training = cfx__py_cmodule_of(root)->training;
            o = cfx__py_from_cmodule(m);
        }
    }
    return o;
}

/* fuse_fx(module) */
static PyObject *fuse_fx(PyObject *unused, PyObject *module) {
    PyObject *o = NULL;
    (void)unused;
    if (!PyObject_TypeCheck(module, cfx__py.module))
        return PyErr_Format(PyExc_TypeError, "fuse_fx takes a module of C");
    CFX__PY_CALL(o) {
        cfx_module *m = cfx_fuse_fx_from(cfx__py_here(), cfx__py_cmodule_of(module));
        if (!cfx_failed(m))
            o = cfx__py_from_cmodule(m);
    }
    return o;
}

/* prepare_fx(module, rules) */
static PyObject *prepare_fx(PyObject *unused, PyObject *args) {
    PyObject *module, *rules, *o = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!O!", cfx__py.module, &module, &PyList_Type, &rules))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_qconfig_mapping *how = cfx_qconfig_mapping_new();
        bool good = true;
        for (Py_ssize_t i = 0; good && i < PyList_Size(rules); i++)
            good = add_rule(how, PyList_GetItem(rules, i));
        if (!good)
            continue;
        cfx_module *m = cfx_prepare_fx_from(cfx__py_here(), cfx__py_cmodule_of(module), how);
        if (!cfx_failed(m))
            o = cfx__py_from_cmodule(m);
    }
    return o;
}

/* convert_fx(module, reference): module is prepared, whatever Python made of it since. */
static PyObject *convert_fx(PyObject *unused, PyObject *args) {
    PyObject *module, *o = NULL;
    int reference;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!p", cfx__py.module, &module, &reference))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_module *from = cfx__py_cmodule_of(module);
        cfx_module_set_attr(from, "_observed", cfx_bool(true));
        cfx_module *m = reference ? cfx_convert_to_reference_fx_from(cfx__py_here(), from)
                                  : cfx_convert_fx_from(cfx__py_here(), from);
        if (!cfx_failed(m))
            o = cfx__py_from_cmodule(m);
    }
    return o;
}

/* ---- module by module ------------------------------------------------------------------------ */

/* A module of C, or None where there is none and no error. */
static PyObject *module_or_none(cfx_module *m) {
    if (!m && cfx_ok())
        Py_RETURN_NONE;
    return m ? cfx__py_from_cmodule(m) : NULL;
}

/* fuse_modules(list of modules, training): one, or None where they cannot be fused. */
static PyObject *fuse_modules(PyObject *unused, PyObject *args) {
    PyObject *list, *o = NULL;
    int training;
    cfx_module *modules[8];
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!p", &PyList_Type, &list, &training))
        return NULL;
    Py_ssize_t n = PyList_Size(list);
    if (n > COUNT(modules))
        Py_RETURN_NONE;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!PyObject_TypeCheck(PyList_GetItem(list, i), cfx__py.module))
            return PyErr_Format(PyExc_TypeError, "fuse_modules takes modules of C");
        modules[i] = cfx__py_cmodule_of(PyList_GetItem(list, i));
    }
    CFX__PY_CALL(o) o = module_or_none(
        cfx_fuse_modules_from(cfx__py_here(), (int)n, modules, training));
    return o;
}

/* train_module(module, qconfig): the one that rounds its weight, or None. */
static PyObject *train_module(PyObject *unused, PyObject *args) {
    PyObject *module, *pair, *o = NULL;
    cfx_qconfig room;
    const cfx_qconfig *q;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!O!", cfx__py.module, &module, &PyTuple_Type, &pair) ||
        !to_qconfig(pair, &room, &q))
        return NULL;
    CFX__PY_CALL(o) o =
        module_or_none(cfx_train_module_from(cfx__py_here(), cfx__py_cmodule_of(module), q));
    return o;
}

/* convert_module(module, qconfig, observer or None, scale, zero_point): quantized, or None. */
static PyObject *convert_module(PyObject *unused, PyObject *args) {
    PyObject *module, *pair, *seen, *o = NULL;
    double scale;
    long long zero_point;
    cfx_qconfig room;
    const cfx_qconfig *q;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!O!OdL", cfx__py.module, &module, &PyTuple_Type, &pair, &seen,
                          &scale, &zero_point) ||
        !to_qconfig(pair, &room, &q) || (seen != Py_None && !is_observer(seen)))
        return NULL;
    CFX__PY_CALL(o) o = module_or_none(cfx_convert_module_from(
        cfx__py_here(), cfx__py_cmodule_of(module), q,
        seen == Py_None ? NULL : cfx__py_cmodule_of(seen), scale, zero_point));
    return o;
}

static PyMethodDef functions[] = {{"observer", observer, METH_O, NULL},
                                  {"observer_how", observer_how, METH_O, NULL},
                                  {"observer_qparams", observer_qparams, METH_O, NULL},
                                  {"qconfig", qconfig, METH_O, NULL},
                                  {"qconfig_mapping", qconfig_mapping, METH_O, NULL},
                                  {"graph_module", graph_module, METH_VARARGS, NULL},
                                  {"fuse_fx", fuse_fx, METH_O, NULL},
                                  {"prepare_fx", prepare_fx, METH_VARARGS, NULL},
                                  {"convert_fx", convert_fx, METH_VARARGS, NULL},
                                  {"fuse_modules", fuse_modules, METH_VARARGS, NULL},
                                  {"train_module", train_module, METH_VARARGS, NULL},
                                  {"convert_module", convert_module, METH_VARARGS, NULL},
                                  {0}};

bool cfx__py_add_quant(PyObject *m) { return PyModule_AddFunctions(m, functions) == 0; }
