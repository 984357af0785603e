/* program: what the files about programs share. */
#ifndef CFX__PY_PROGRAM_H
#define CFX__PY_PROGRAM_H

#include "python.h"

/* The object for a program, of the class that Python has for them; a new reference. NULL, with the
 * exception, for the program of a failed call. */
PyObject *cfx__py_from_program(cfx_program *p);
cfx_program *cfx__py_program_of(PyObject *o);

/* The methods of the type, by file. */
PyObject *cfx__py_program_run(PyObject *self, PyObject *args);
PyObject *cfx__py_program_plan(PyObject *self, PyObject *args);
PyObject *cfx__py_program_draw(PyObject *self, PyObject *args);
PyObject *cfx__py_program_cost(PyObject *self, PyObject *sizes);
PyObject *cfx__py_program_pairs(PyObject *self, PyObject *other);
PyObject *cfx__py_program_quantize(PyObject *self, PyObject *args);
PyObject *cfx__py_program_passes(PyObject *self, PyObject *args);
/* _decompose_by(own, keep, only_own): own is {overload: function of the same arguments}. */
PyObject *cfx__py_program_decompose_by(PyObject *self, PyObject *args);
PyObject *cfx__py_program_compile(PyObject *self, PyObject *args);
PyObject *cfx__py_program_stages(PyObject *self, PyObject *args);
PyObject *cfx__py_program_rank(PyObject *self, PyObject *args);
PyObject *cfx__py_program_weights(PyObject *self, PyObject *args);
PyObject *cfx__py_program_lora(PyObject *self, PyObject *args);
bool cfx__py_add_draw(PyObject *m);

#endif
