/* Programs: the type, what can be read of one, and those that are made from it. Running is run.c's,
 * drawing draw.c's, what is found out about programs study.c's. */
#include "program.h"

typedef struct program {
    PyObject_HEAD
    cfx_program *p; /* counted */
} program;

PyObject *cfx__py_from_program(cfx_program *p) {
    if (cfx_failed(p)) {
        cfx__py_raise();
        return NULL;
    }
    PyTypeObject *class_ = (PyTypeObject *)(cfx__py.program_class ? cfx__py.program_class
                                                                  : (PyObject *)cfx__py.program);
    allocfunc alloc = (allocfunc)PyType_GetSlot(class_, Py_tp_alloc);
    program *o = (program *)alloc(class_, 0);
    if (o)
        o->p = cfx_keep(p);
    return (PyObject *)o;
}

cfx_program *cfx__py_program_of(PyObject *o) { return ((program *)o)->p; }

static void program_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    cfx_drop(cfx__py_program_of(self));
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- what it is ------------------------------------------------------------------------------ */

/* A method that gives a value made from the program. */
#define READS(name, expression)                                                                    \
    static PyObject *name(PyObject *self, PyObject *unused) {                                      \
        cfx_program *p = cfx__py_program_of(self);                                                 \
        PyObject *o = NULL;                                                                        \
        (void)unused;                                                                              \
        CFX__PY_CALL(o) o = expression;                                                            \
        return o;                                                                                  \
    }
READS(get_str, cfx__py_text(cfx_program_str(p)))
READS(get_signature_str, cfx__py_text(cfx_program_signature_str(p)))
READS(get_json, cfx__py_text(cfx_program_json(p)))
READS(get_fx, cfx__py_text(cfx_program_fx(p)))
READS(get_graph, cfx__py_from_graph(p->module->graph))
READS(get_module, cfx__py_from_cmodule(p->module))
READS(get_callable, cfx__py_from_cmodule(cfx_program_module(p)))
READS(get_unflattened, cfx__py_from_cmodule(cfx_program_unflatten(p)))
READS(get_state, cfx__py_from_value(cfx_dict_value(p->state)))
READS(get_constants, cfx__py_from_value(cfx_dict_value(p->constants)))
READS(get_ranges, cfx__py_from_value(cfx_dict_value(p->ranges)))
READS(get_extra, cfx__py_from_value(cfx_dict_value(p->extra)))
READS(get_specs, cfx__py_from_value(cfx_tuple(p->in_spec, p->out_spec)))
READS(get_sample_inputs, cfx__py_from_value(cfx_program_sample_inputs(p)))
READS(get_copy, cfx__py_from_program(cfx_program_copy(p)))
READS(get_functional, cfx__py_from_program(cfx_program_functionalize(p)))
READS(get_draft_failures, cfx__py_from_value(cfx_draft_failures(p)))
READS(get_draft_report, cfx__py_text(cfx_draft_report(p)))
READS(do_sync, PyBool_FromLong(cfx_program_sync(p)))
READS(do_check, PyBool_FromLong(cfx_program_check(p)))
READS(do_infer, PyBool_FromLong(cfx_program_infer(p)))

/* _inputs(): (kind, name, target, persistent, constant value) of each input. */
static PyObject *get_inputs(PyObject *self, PyObject *unused) {
    const cfx_program *p = cfx__py_program_of(self);
    PyObject *all = NULL;
    (void)unused;
    CFX__PY_CALL(all) {
        cfx_program_sync(p);
        all = PyList_New(0);
        for (int i = 0; all && i < p->ninputs; i++) {
            const cfx_input_spec *s = &p->inputs[i];
            PyObject *row = Py_BuildValue("iszNNN", (int)s->kind, s->name, s->target,
                                          PyBool_FromLong(s->persistent),
                                          PyBool_FromLong(s->constant),
                                          cfx__py_from_value(s->value));
            if (!row || PyList_Append(all, row) < 0)
                Py_CLEAR(all);
            Py_XDECREF(row);
        }
    }
    return all;
}

/* _outputs(): (kind, name, target, value). */
static PyObject *get_outputs(PyObject *self, PyObject *unused) {
    const cfx_program *p = cfx__py_program_of(self);
    PyObject *all = NULL;
    (void)unused;
    CFX__PY_CALL(all) {
        cfx_program_sync(p);
        all = PyList_New(0);
        for (int i = 0; all && i < p->noutputs; i++) {
            const cfx_output_spec *s = &p->outputs[i];
            PyObject *row = Py_BuildValue("izzN", (int)s->kind, s->name, s->target,
                                          cfx__py_from_value(s->value));
            if (!row || PyList_Append(all, row) < 0)
                Py_CLEAR(all);
            Py_XDECREF(row);
        }
    }
    return all;
}

/* ---- programs from it ------------------------------------------------------------------------ */

static PyObject *decompose(PyObject *self, PyObject *keep) {
    PyObject *o = NULL;
    CFX__PY_CALL(o) {
        cfx_value v;
        if (cfx__py_to_value(keep, &v))
            o = cfx__py_from_program(cfx_decompose(cfx__py_program_of(self), v));
    }
    return o;
}

/* _swap({path: mirror}): program.module() in which others stand at these paths. */
static PyObject *swap_modules(PyObject *self, PyObject *modules) {
    PyObject *path, *mirror, *o = NULL;
    Py_ssize_t at = 0;
    if (!PyDict_Check(modules))
        return PyErr_Format(PyExc_TypeError, "_swap takes a dict of paths and modules");
    CFX__PY_CALL(o) {
        cfx_dict *all = cfx_dict_new();
        const char *name = "";
        while (name && PyDict_Next(modules, &at, &path, &mirror)) {
            name = cfx__py_utf8(path);
            if (name)
                cfx_dict_set(all, name, cfx_module_value(cfx__py_cmodule_of(mirror)));
        }
        if (name)
            o = cfx__py_from_cmodule(cfx_program_swap_modules(cfx__py_program_of(self), all));
    }
    return o;
}

/* _rewrite(rules): (program, how often rules applied). */
static PyObject *rewrite(PyObject *self, PyObject *rules) {
    const char *text = cfx__py_utf8(rules);
    PyObject *o = NULL;
    if (!text)
        return NULL;
    CFX__PY_CALL(o) {
        int changes = 0;
        cfx_rules *r = cfx_rules_parse(text, "rules");
        cfx_program *p = cfx_failed(r) ? NULL
                                       : cfx_rewrite(cfx__py_program_of(self), r, &changes);
        if (p && !cfx_failed(p))
            o = Py_BuildValue("Ni", cfx__py_from_program(p), changes);
    }
    return o;
}

/* _extract(from, to), names separated by commas or None. */
static PyObject *extract(PyObject *self, PyObject *args) {
    const char *from, *to;
    PyObject *o = NULL;
    if (!PyArg_ParseTuple(args, "zz", &from, &to))
        return NULL;
    CFX__PY_CALL(o)
    o = cfx__py_from_program(cfx_program_extract(cfx__py_program_of(self), from, to));
    return o;
}

static PyObject *load_state_dict(PyObject *self, PyObject *args) {
    PyObject *state, *o = NULL;
    int strict;
    if (!PyArg_ParseTuple(args, "O!p", &PyDict_Type, &state, &strict))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_value v;
        if (!cfx__py_to_value(state, &v))
            continue;
        cfx_program_load_state_dict(cfx__py_program_of(self), cfx_as_dict(v), strict);
        o = Py_BuildValue("");
    }
    return o;
}

/* _set_extra_files({name: bytes}): what a .pt2 carries beside the program. */
static PyObject *set_extra_files(PyObject *self, PyObject *files) {
    PyObject *o = NULL, *key, *value;
    if (!PyDict_Check(files)) {
        PyErr_SetString(PyExc_TypeError, "the files are a dict of name to bytes");
        return NULL;
    }
    CFX__PY_CALL(o) {
        cfx_dict *d = cfx_dict_new();
        bool good = true;
        for (Py_ssize_t at = 0; good && PyDict_Next(files, &at, &key, &value);) {
            char *data = NULL;
            Py_ssize_t n = 0;
            const char *name = cfx__py_utf8(key);
            good = name && PyBytes_AsStringAndSize(value, &data, &n) == 0;
            if (good)
                cfx_dict_set(d, name, cfx_tensor_value(
                                          cfx_tensor_new(CFX_U8, 1, &(int64_t){n}, data)));
        }
        if (!good)
            continue;
        cfx_dict_set(cfx__py_program_of(self)->extra, "files", cfx_dict_value(d));
        o = Py_BuildValue("");
    }
    return o;
}

static PyObject *save(PyObject *self, PyObject *path) {
    PyObject *o = NULL, *bytes = NULL;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_save(cfx__py_program_of(self), PyBytes_AsString(bytes));
        o = Py_BuildValue("");
    }
    Py_XDECREF(bytes);
    return o;
}

/* save_archive(path, names, programs) */
static PyObject *save_archive(PyObject *unused, PyObject *args) {
    PyObject *o = NULL, *bytes = NULL, *names, *programs;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O&O!O!", PyUnicode_FSConverter, &bytes, &PyList_Type, &names,
                          &PyList_Type, &programs))
        return NULL;
    const Py_ssize_t n = PyList_Size(names);
    const char **name = PyMem_Calloc((size_t)n + 1, sizeof *name);
    cfx_program **all = PyMem_Calloc((size_t)n + 1, sizeof *all);
    bool good = name && all && n == PyList_Size(programs);
    for (Py_ssize_t i = 0; i < n && good; i++) {
        PyObject *one = PyList_GetItem(programs, i);
        name[i] = cfx__py_utf8(PyList_GetItem(names, i));
        good = name[i] && PyObject_TypeCheck(one, cfx__py.program);
        all[i] = good ? cfx__py_program_of(one) : NULL;
    }
    if (!good && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "save_archive: a program for each name");
    if (good)
        CFX__PY_CALL(o) {
            cfx_save_archive(PyBytes_AsString(bytes), (int)n, name, all);
            o = Py_BuildValue("");
        }
    PyMem_Free(name);
    PyMem_Free(all);
    Py_DECREF(bytes);
    return o;
}

/* ---- programs from elsewhere ----------------------------------------------------------------- */

static PyObject *open_program(PyObject *unused, PyObject *path) {
    PyObject *o = NULL, *bytes = NULL;
    (void)unused;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    CFX__PY_CALL(o) o = cfx__py_from_program(cfx_open(PyBytes_AsString(bytes)));
    Py_XDECREF(bytes);
    return o;
}

static PyObject *parse_program(PyObject *unused, PyObject *args) {
    const char *text, *what;
    PyObject *o = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "ss", &text, &what))
        return NULL;
    CFX__PY_CALL(o) o = cfx__py_from_program(cfx_program_parse(text, what));
    return o;
}

/* export_program(mirror, args, kwargs, dynamic, preserve, draft), where preserve is the paths of
 * modules whose signatures are to be kept, or None; draft: a program where others give an error. */
static PyObject *export_program(PyObject *unused, PyObject *args) {
    PyObject *module, *a, *kw, *dynamic, *preserve, *o = NULL;
    int draft;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!O!O!OOp", cfx__py.module, &module, &PyTuple_Type, &a,
                          &PyDict_Type, &kw, &dynamic, &preserve, &draft))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_value va, vk, vd, vp;
        if (!cfx__py_to_value(a, &va) || !cfx__py_to_value(kw, &vk) ||
            !cfx__py_to_value(dynamic, &vd) || !cfx__py_to_value(preserve, &vp))
            continue;
        if (!cfx_as_dict(vk)->len)
            vk = cfx_none();
        cfx__py_this_thread.exporting++;
        cfx_module *m = cfx__py_cmodule_of(module);
        o = cfx__py_from_program(
            draft ? cfx_draft_export(m, va, vk, vd, .preserve_module_call_signature = vp)
                  : cfx_export(m, va, vk, vd, .preserve_module_call_signature = vp));
        cfx__py_this_thread.exporting--;
    }
    return o;
}

static PyObject *is_exporting(PyObject *unused, PyObject *none) {
    (void)unused, (void)none;
    return PyBool_FromLong(cfx__py_this_thread.exporting > 0);
}

/* ---- the type -------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"_str", get_str, METH_NOARGS, NULL},
    {"_signature_str", get_signature_str, METH_NOARGS, NULL},
    {"_json", get_json, METH_NOARGS, NULL},
    {"_fx", get_fx, METH_NOARGS, NULL},
    {"_graph", get_graph, METH_NOARGS, NULL},
    {"_module", get_module, METH_NOARGS, "The GraphModule of the program, of C."},
    {"_callable", get_callable, METH_NOARGS, "program.module(), of C."},
    {"_unflatten", get_unflattened, METH_NOARGS, "The modules that it came from, of C."},
    {"_swap", swap_modules, METH_O, "program.module() with modules of C, by path, in it; of C."},
    {"_state", get_state, METH_NOARGS, NULL},
    {"_constants", get_constants, METH_NOARGS, NULL},
    {"_ranges", get_ranges, METH_NOARGS, NULL},
    {"_extra", get_extra, METH_NOARGS, NULL},
    {"_specs", get_specs, METH_NOARGS, NULL},
    {"_sample_inputs", get_sample_inputs, METH_NOARGS, NULL},
    {"_inputs", get_inputs, METH_NOARGS, NULL},
    {"_outputs", get_outputs, METH_NOARGS, NULL},
    {"_draft_failures", get_draft_failures, METH_NOARGS, NULL},
    {"_draft_report", get_draft_report, METH_NOARGS, NULL},
    {"_copy", get_copy, METH_NOARGS, NULL},
    {"_functionalize", get_functional, METH_NOARGS, NULL},
    {"_decompose", decompose, METH_O, NULL},
    {"_decompose_by", cfx__py_program_decompose_by, METH_VARARGS, NULL},
    {"_rewrite", rewrite, METH_O, NULL},
    {"_extract", extract, METH_VARARGS, NULL},
    {"_load_state_dict", load_state_dict, METH_VARARGS, NULL},
    {"_sync", do_sync, METH_NOARGS, NULL},
    {"_check", do_check, METH_NOARGS, NULL},
    {"_infer", do_infer, METH_NOARGS, NULL},
    {"_set_extra_files", set_extra_files, METH_O, NULL},
    {"_save", save, METH_O, NULL},
    {"_run", cfx__py_program_run, METH_VARARGS, NULL},
    {"_plan", cfx__py_program_plan, METH_VARARGS, NULL},
    {"_draw", cfx__py_program_draw, METH_VARARGS, NULL},
    {"_cost", cfx__py_program_cost, METH_O, NULL},
    {"_pairs", cfx__py_program_pairs, METH_O, NULL},
    {"_quantize", cfx__py_program_quantize, METH_VARARGS, NULL},
    {"_passes", cfx__py_program_passes, METH_VARARGS, NULL},
    {"_compile_c", cfx__py_program_compile, METH_VARARGS, NULL},
    {"_stages", cfx__py_program_stages, METH_VARARGS, NULL},
    {"_rank", cfx__py_program_rank, METH_VARARGS, NULL},
    {"_load_weights", cfx__py_program_weights, METH_VARARGS, NULL},
    {"_merge_lora", cfx__py_program_lora, METH_VARARGS, NULL},
    {0}};
static PyType_Slot slots[] = {
    {Py_tp_dealloc, program_dealloc}, {Py_tp_methods, methods}, {0, NULL}};
static PyType_Spec spec = {"_cfx.ProgramBase", sizeof(program), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE |
                               Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

static PyMethodDef functions[] = {
    {"open_program", open_program, METH_O, NULL},
    {"save_archive", save_archive, METH_VARARGS, NULL},
    {"parse_program", parse_program, METH_VARARGS, "parse_program(text, what)"},
    {"export_program", export_program, METH_VARARGS, NULL},
    {"is_exporting", is_exporting, METH_NOARGS, "Whether this thread exports a model just now."},
    {0}};

bool cfx__py_add_program(PyObject *m) {
    return cfx__py_add_type(m, &cfx__py.program, &spec) &&
           PyModule_AddFunctions(m, functions) == 0 && cfx__py_add_draw(m);
}
