/* What is found out about programs, and what passes and quantization make of them. */
#include "program.h"

/* _cost(sizes): (sums, a list of (name, flops, bytes, live, unknown)). */
PyObject *cfx__py_program_cost(PyObject *self, PyObject *sizes) {
    PyObject *o = NULL;
    CFX__PY_CALL(o) {
        cfx_value v;
        if (!cfx__py_to_value(sizes, &v))
            continue;
        cfx_cost *c = cfx_program_cost(cfx__py_program_of(self),
                                       v.tag == CFX_TAG_DICT ? cfx_as_dict(v) : NULL);
        PyObject *nodes = cfx_failed(c) ? NULL : PyList_New(0);
        for (int i = 0; nodes && i < c->n; i++) {
            const cfx_node_cost *n = &c->nodes[i];
            PyObject *row = Py_BuildValue("sLLLO", n->node->name, (long long)n->flops,
                                          (long long)n->bytes, (long long)n->live,
                                          n->unknown ? Py_True : Py_False);
            if (!row || PyList_Append(nodes, row) < 0)
                Py_CLEAR(nodes);
            Py_XDECREF(row);
        }
        if (nodes)
            o = Py_BuildValue("{sLsLsLsi}N", "flops", (long long)c->flops, "bytes",
                              (long long)c->bytes, "peak", (long long)c->peak, "unknown",
                              c->unknown, nodes);
    }
    return o;
}

/* _pairs(other): a list of (name here, name there, whether it changed). */
PyObject *cfx__py_program_pairs(PyObject *self, PyObject *other) {
    PyObject *o = NULL;
    if (!PyObject_TypeCheck(other, cfx__py.program)) {
        PyErr_SetString(PyExc_TypeError, "expected a Program");
        return NULL;
    }
    CFX__PY_CALL(o) {
        cfx_pairs *pairs = cfx_program_pair(cfx__py_program_of(self), cfx__py_program_of(other));
        if (cfx_failed(pairs))
            continue;
        o = PyList_New(0);
        for (int i = 0; o && i < pairs->n; i++) {
            PyObject *row =
                Py_BuildValue("ssO", pairs->pairs[i].a->name, pairs->pairs[i].b->name,
                              pairs->pairs[i].changed ? Py_True : Py_False);
            if (!row || PyList_Append(o, row) < 0)
                Py_CLEAR(o);
            Py_XDECREF(row);
        }
    }
    return o;
}

/* ---- passes ---------------------------------------------------------------------------------- */

enum { STEPS = 64 };

static void report(const cfx_pass_report *r, void *user) {
    PyObject *row = Py_BuildValue("siLLd", r->pass->name, r->changes, (long long)r->nodes_before,
                                  (long long)r->nodes_after, r->seconds);
    if (row)
        PyList_Append(user, row);
    Py_XDECREF(row);
    PyErr_Clear();
}

/* The steps of a list of (name, options); -1 with an exception. */
static int read_steps(PyObject *list, cfx_pass_step *steps) {
    Py_ssize_t n = PyList_Size(list);
    if (n > STEPS) {
        PyErr_Format(PyExc_ValueError, "a pipeline has at most %d steps", STEPS);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        const char *name;
        PyObject *options;
        cfx_value v;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "sO!", &name, &PyDict_Type, &options) ||
            !cfx__py_to_value(options, &v))
            return -1;
        steps[i] = (cfx_pass_step){cfx_pass_find(name), cfx_as_dict(v)};
        if (!cfx_as_dict(v)->len)
            steps[i].options = NULL;
        if (!steps[i].pass) {
            PyErr_Format(PyExc_ValueError, "no pass is called '%s'", name);
            return -1;
        }
    }
    return (int)n;
}

/* _passes(steps, rounds): (program, [(pass, changes, nodes before, after, seconds)]). */
PyObject *cfx__py_program_passes(PyObject *self, PyObject *args) {
    PyObject *list, *o = NULL;
    int rounds;
    if (!PyArg_ParseTuple(args, "O!i", &PyList_Type, &list, &rounds))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_pass_step steps[STEPS];
        int n = read_steps(list, steps);
        PyObject *rows = n < 0 ? NULL : PyList_New(0);
        if (!rows)
            continue;
        cfx_pass_manager manager = {
            .steps = steps, .nsteps = n, .rounds = rounds, .report = report, .user = rows};
        cfx_pass_result r = cfx_passes_run(&manager, cfx__py_program_of(self));
        if (cfx_failed(r.program))
            Py_DECREF(rows);
        else
            o = Py_BuildValue("NN", cfx__py_from_program(r.program), rows);
    }
    return o;
}

/* ---- quantization ---------------------------------------------------------------------------- */

static PyObject *layers_of(const cfx_quantized *q) {
    PyObject *all = PyList_New(0);
    for (int i = 0; all && i < q->nlayers; i++) {
        PyObject *row = Py_BuildValue("ssz", q->layers[i].name, q->layers[i].op,
                                      q->layers[i].left);
        if (!row || PyList_Append(all, row) < 0)
            Py_CLEAR(all);
        Py_XDECREF(row);
    }
    return all;
}

/* The noise of the quantized program on the batches: (dB, [(layer, dB)]); None without batches. */
static PyObject *noise_of(const cfx_quantized *q, cfx_value batches) {
    if (batches.tag != CFX_TAG_LIST || !cfx_as_list(batches)->len)
        Py_RETURN_NONE;
    cfx_quantize_report *r = cfx_quantize_compare(q, batches);
    PyObject *all = cfx_failed(r) ? NULL : PyList_New(0);
    for (int i = 0; all && i < r->nlayers; i++) {
        PyObject *row = Py_BuildValue("sd", r->layers[i].name, r->layers[i].db);
        if (!row || PyList_Append(all, row) < 0)
            Py_CLEAR(all);
        Py_XDECREF(row);
    }
    return all ? Py_BuildValue("dN", r->db, all) : NULL;
}

/* _quantize(batches, scheme, bits, per, group, skip, smooth): (program, layers, noise). */
PyObject *cfx__py_program_quantize(PyObject *self, PyObject *args) {
    PyObject *batches, *skip, *o = NULL;
    int scheme, bits, per, group;
    double smooth;
    if (!PyArg_ParseTuple(args, "O!iiiiO!d", &PyList_Type, &batches, &scheme, &bits, &per, &group,
                          &PyList_Type, &skip, &smooth))
        return NULL;
    CFX__PY_CALL(o) {
        cfx_value data, names;
        if (!cfx__py_to_value(batches, &data) || !cfx__py_to_value(skip, &names))
            continue;
        cfx_quantize_options options = {.scheme = (cfx_quantize_scheme)scheme,
                                        .bits = bits,
                                        .per = (cfx_quantize_per)per,
                                        .group = group,
                                        .skip = names,
                                        .smooth = smooth};
        cfx__py_released r = cfx__py_let_go();
        cfx_quantized *q = cfx_quantize(cfx__py_program_of(self), data, options);
        cfx__py_regain(r);
        PyObject *noise = cfx_failed(q) ? NULL : noise_of(q, data);
        if (noise)
            o = Py_BuildValue("NNN", cfx__py_from_program(q->program), layers_of(q), noise);
    }
    return o;
}
