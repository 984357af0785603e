/* What is made of programs beside other programs: C, stages, the parts of ranks, other weights. */
#include "program.h"

/* The options of a dict of Python's, whose texts it holds; false with an exception. */
static bool compile_options(PyObject *o, cfx_compile_options *out) {
    PyObject *inputs;
    int weights, test, main_, threads;
    if (!PyArg_ParseTuple(o, "zipppzO", &out->name, &weights, &test, &main_, &threads, &out->sizes,
                          &inputs))
        return false;
    out->weights = (cfx_compile_weights)weights;
    out->test = test, out->main = main_, out->threads = threads;
    return cfx__py_to_value(inputs, &out->inputs);
}

/* _compile_c(path or None, (name, weights, test, main, threads, sizes, inputs)): the text where no
 * path is given. */
PyObject *cfx__py_program_compile(PyObject *self, PyObject *args) {
    PyObject *path, *options, *bytes = NULL, *o = NULL;
    if (!PyArg_ParseTuple(args, "OO!", &path, &PyTuple_Type, &options) ||
        (path != Py_None && !PyUnicode_FSConverter(path, &bytes)))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_compile_options c = {0};
        const cfx_program *p = cfx__py_program_of(self);
        if (!compile_options(options, &c))
            continue;
        const char *text = bytes ? NULL : cfx_compile_text(p, &c);
        if (text)
            o = cfx__py_text(text);
        else if (bytes && cfx_compile_c(p, &c, PyBytes_AsString(bytes)))
            o = Py_BuildValue("O", path);
    }
    Py_XDECREF(bytes);
    return o;
}

/* _stages(n, memory): a list of (program, seconds, flops, bytes of weights, bytes handed on). */
PyObject *cfx__py_program_stages(PyObject *self, PyObject *args) {
    PyObject *all = NULL;
    int n;
    long long memory;
    if (!PyArg_ParseTuple(args, "iL", &n, &memory))
        return NULL;
    CFX__PY_CALL(all) {
        cfx_stages *s = cfx_program_stages(cfx__py_program_of(self),
                                           (cfx_stage_options){.n = n, .memory = memory});
        all = cfx_failed(s) ? NULL : PyList_New(0);
        for (int i = 0; all && i < s->n; i++) {
            const cfx_stage *at = &s->stages[i];
            PyObject *row = Py_BuildValue("NdLLL", cfx__py_from_program(at->program), at->seconds,
                                          (long long)at->flops, (long long)at->weights,
                                          (long long)at->bytes);
            if (!row || PyList_Append(all, row) < 0)
                Py_CLEAR(all);
            Py_XDECREF(row);
        }
    }
    return all;
}

/* _rank(rank, ranks): (program, report) */
PyObject *cfx__py_program_rank(PyObject *self, PyObject *args) {
    PyObject *o = NULL;
    int rank, ranks;
    if (!PyArg_ParseTuple(args, "ii", &rank, &ranks))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_dict *report = cfx_dict_new();
        cfx_program *part = cfx_tensor_parallel(cfx__py_program_of(self), rank, ranks, report);
        if (!cfx_failed(part))
            o = Py_BuildValue("NN", cfx__py_from_program(part),
                              cfx__py_from_value(cfx_dict_value(report)));
    }
    return o;
}

/* _load_weights(path, partial) and _merge_lora(path, alpha): what became of the file's tensors. */
PyObject *cfx__py_program_weights(PyObject *self, PyObject *args) {
    PyObject *path, *bytes = NULL, *o = NULL;
    int partial;
    if (!PyArg_ParseTuple(args, "Op", &path, &partial) || !PyUnicode_FSConverter(path, &bytes))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_dict *report = cfx_dict_new();
        if (cfx_program_load_weights(cfx__py_program_of(self), PyBytes_AsString(bytes), partial,
                                     report))
            o = cfx__py_from_value(cfx_dict_value(report));
    }
    Py_XDECREF(bytes);
    return o;
}

PyObject *cfx__py_program_lora(PyObject *self, PyObject *args) {
    PyObject *path, *bytes = NULL, *o = NULL;
    double alpha;
    if (!PyArg_ParseTuple(args, "Od", &path, &alpha) || !PyUnicode_FSConverter(path, &bytes))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_dict *report = cfx_dict_new();
        cfx_program *p = cfx__py_program_of(self);
        if (cfx_program_merge_lora(p, PyBytes_AsString(bytes), alpha, report))
            o = cfx__py_from_value(cfx_dict_value(report));
    }
    Py_XDECREF(bytes);
    return o;
}
