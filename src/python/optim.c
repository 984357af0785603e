/* Optimisers and schedules of the learning rate: C's own, with the options that Python has in its
 * dicts (param_groups) handed over before a step and read back after it. */
#include "python.h"

#include <stddef.h>

typedef struct optimiser {
    PyObject_HEAD
    cfx_optim *o; /* counted; never NULL once made */
} optimiser;

/* ---- options --------------------------------------------------------------------------------- */

/* The numbers and switches of a group, by name; NULL where PyTorch's optimisers have none. */
#define NUMBER(name) {#name, offsetof(cfx_optim_options, name), false}
#define SWITCH(name) {#name, offsetof(cfx_optim_options, name), true}
static const struct option {
    const char *name;
    size_t at;
    bool is_switch;
} options[] = {NUMBER(lr),           NUMBER(momentum),
               NUMBER(dampening),    NUMBER(weight_decay),
               NUMBER(eps),          NUMBER(alpha),
               NUMBER(rho),          NUMBER(lr_decay),
               SWITCH(nesterov),     SWITCH(amsgrad),
               SWITCH(centered),     SWITCH(maximize),
               {"initial_accumulator_value",
                offsetof(cfx_optim_options, initial_accumulator_value), false}};

/* Zero itself, where 0 would be the default. */
static double exact(double x) { return x == 0 ? CFX_ZERO : x; }

static bool take_betas(PyObject *betas, cfx_optim_options *o, bool fresh) {
    double a, b;
    if (!PyTuple_Check(betas) || !PyArg_ParseTuple(betas, "dd", &a, &b))
        return !PyErr_Occurred();
    o->betas[0] = fresh ? exact(a) : a;
    o->betas[1] = fresh ? exact(b) : b;
    return true;
}

/* What a dict of Python's says; `fresh`: for a new optimiser, where 0 means the default. */
static bool take_options(PyObject *dict, cfx_optim_options *o, bool fresh) {
    PyObject *betas = PyDict_GetItemString(dict, "betas");
    for (int i = 0; i < COUNT(options); i++) {
        PyObject *value = PyDict_GetItemString(dict, options[i].name);
        if (!value || value == Py_None)
            continue;
        if (options[i].is_switch) {
            int on = PyObject_IsTrue(value);
            if (on < 0)
                return false;
            *(bool *)((char *)o + options[i].at) = on;
        } else {
            double x = PyFloat_AsDouble(value);
            if (x == -1 && PyErr_Occurred())
                return false;
            *(double *)((char *)o + options[i].at) = fresh ? exact(x) : x;
        }
    }
    return !betas || take_betas(betas, o, fresh);
}

/* ---- the object ------------------------------------------------------------------------------ */

static PyObject *optim_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    const char *name;
    PyObject *params, *dict, *result = NULL;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "sOO!", &name, &params, &PyDict_Type, &dict))
        return NULL;
    CFX__PY_CALL(result) {
        cfx_optim_options o = {0};
        cfx_value of;
        if (!take_options(dict, &o, true) || !cfx__py_to_value(params, &of))
            continue;
        cfx_optim *made = cfx_optim_new_from((cfx_site){0}, name, of, o);
        if (!made)
            continue;
        allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
        optimiser *object = (optimiser *)alloc(type, 0);
        if (object)
            object->o = cfx_keep(made);
        result = (PyObject *)object;
    }
    return result;
}

static void optim_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    cfx_drop(((optimiser *)self)->o);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* set(i, dict): the options of group i. */
static PyObject *optim_set(PyObject *self, PyObject *args) {
    int i;
    PyObject *dict;
    if (!PyArg_ParseTuple(args, "iO!", &i, &PyDict_Type, &dict))
        return NULL;
    cfx_optim_options *group = cfx_optim_group(((optimiser *)self)->o, i);
    if (!group) {
        PyErr_SetString(PyExc_IndexError, "there is no such group");
        return NULL;
    }
    if (!take_options(dict, group, false))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *optim_step(PyObject *self, PyObject *unused) {
    PyObject *result = NULL;
    (void)unused;
    CFX__PY_CALL(result) {
        cfx_optim_step(((optimiser *)self)->o);
        result = Py_BuildValue("");
    }
    return result;
}

static PyObject *optim_state(PyObject *self, PyObject *unused) {
    PyObject *result = NULL;
    (void)unused;
    CFX__PY_CALL(result)
        result = cfx__py_from_value(cfx_dict_value(cfx_optim_state_dict(((optimiser *)self)->o)));
    return result;
}

static PyObject *optim_load(PyObject *self, PyObject *state) {
    PyObject *result = NULL;
    if (!PyDict_Check(state)) {
        PyErr_SetString(PyExc_TypeError, "a state dict is a dict");
        return NULL;
    }
    CFX__PY_CALL(result) {
        cfx_value v;
        if (cfx__py_to_value(state, &v) &&
            cfx_optim_load_state_dict_from((cfx_site){0}, ((optimiser *)self)->o, cfx_as_dict(v)))
            result = Py_BuildValue("");
    }
    return result;
}

static PyMethodDef methods[] = {{"_set", optim_set, METH_VARARGS, NULL},
                                {"_step", optim_step, METH_NOARGS, NULL},
                                {"_state", optim_state, METH_NOARGS, NULL},
                                {"_load", optim_load, METH_O, NULL},
                                {0}};
static PyType_Slot slots[] = {{Py_tp_new, optim_new},
                              {Py_tp_dealloc, optim_dealloc},
                              {Py_tp_methods, methods},
                              {0, NULL}};
static PyType_Spec spec = {"_cfx.OptimBase", sizeof(optimiser), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

/* ---- clipping -------------------------------------------------------------------------------- */

/* clip_norm(parameters, max_norm, norm_type): the norm there was. */
static PyObject *clip_norm(PyObject *unused, PyObject *args) {
    PyObject *params, *result = NULL;
    double most, type;
    (void)unused;
    if (!PyArg_ParseTuple(args, "Odd", &params, &most, &type))
        return NULL;
    CFX__PY_CALL(result) {
        cfx_value of;
        if (cfx__py_to_value(params, &of))
            result = PyFloat_FromDouble(cfx_clip_grad_norm_from((cfx_site){0}, of, most, type));
    }
    return result;
}

/* clip_value(parameters, most) */
static PyObject *clip_value(PyObject *unused, PyObject *args) {
    PyObject *params, *result = NULL;
    double most;
    (void)unused;
    if (!PyArg_ParseTuple(args, "Od", &params, &most))
        return NULL;
    CFX__PY_CALL(result) {
        cfx_value of;
        if (!cfx__py_to_value(params, &of))
            continue;
        cfx_clip_grad_value_from((cfx_site){0}, of, most);
        result = Py_BuildValue("");
    }
    return result;
}

static PyMethodDef functions[] = {{"clip_norm", clip_norm, METH_VARARGS, NULL},
                                  {"clip_value", clip_value, METH_VARARGS, NULL},
                                  {0}};

bool cfx__py_add_optim(PyObject *m) {
    PyTypeObject *type = NULL;
    return cfx__py_add_type(m, &type, &spec) && PyModule_AddFunctions(m, functions) == 0;
}
