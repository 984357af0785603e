/* python: the face for Python, an extension module over the public interface alone.
 *
 * Invariant: whoever touches a PyObject holds the interpreter's lock; what runs for long lets go of
 * it (cfx__py_run), and what C calls back takes it again (cfx__py_enter). A PyObject for a tensor,
 * graph or node is found from the C object (cfx_tensor_user and the like), so that one thing has
 * one object as long as that lives; it holds a count of the C object, which does not hold it.
 * Objects that stand in C (arguments of nodes, targets, hooks) are held by cfx objects of the type
 * cfx__py_object_type, each with a count of its own.
 *
 * Errors: a function that fails has set a Python exception and returns NULL, -1 or false. An error
 * recorded in C becomes one at the boundary (cfx__py_raise); an exception raised by what C called
 * back is kept and recorded in C (cfx__py_caught), and is the one that comes out again.
 *
 * Every entry from Python opens a scope of its own (CFX__PY_CALL) and closes it. */
#ifndef CFX__PYTHON_H
#define CFX__PYTHON_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <structmember.h>

#include <stdlib.h>
#include <string.h>

#include <cfx.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* The limited interface names these from 3.12 on; 3.11 has had them too. */
#ifndef Py_TPFLAGS_HAVE_VECTORCALL
#define Py_TPFLAGS_HAVE_VECTORCALL (1UL << 11)
typedef PyObject *(*vectorcallfunc)(PyObject *callable, PyObject *const *args, size_t nargsf,
                                    PyObject *kwnames);
#define PY_VECTORCALL_ARGUMENTS_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))
#endif
static inline Py_ssize_t cfx__py_nargs(size_t nargsf) {
    return (Py_ssize_t)(nargsf & ~PY_VECTORCALL_ARGUMENTS_OFFSET);
}

/* ---- Python's operators ---------------------------------------------------------------------- */

/* Python's operators on tensors: the slot of the type, the method, the function of operator. */
#define CFX__PY_OPERATORS(UNARY, BINARY, POWER)                                                    \
    UNARY(nb_negative, "neg")                                                                      \
    UNARY(nb_absolute, "abs")                                                                      \
    UNARY(nb_invert, "bitwise_not")                                                                \
    BINARY(nb_add, "add", "add")                                                                   \
    BINARY(nb_subtract, "sub", "sub")                                                              \
    BINARY(nb_multiply, "mul", "mul")                                                              \
    BINARY(nb_true_divide, "div", "truediv")                                                       \
    BINARY(nb_floor_divide, "floor_divide", "floordiv")                                            \
    BINARY(nb_remainder, "remainder", "mod")                                                       \
    BINARY(nb_matrix_multiply, "matmul", "matmul")                                                 \
    BINARY(nb_and, "__and__", "and_")                                                              \
    BINARY(nb_or, "__or__", "or_")                                                                 \
    BINARY(nb_xor, "__xor__", "xor")                                                               \
    BINARY(nb_lshift, "bitwise_left_shift", "lshift")                                              \
    BINARY(nb_rshift, "bitwise_right_shift", "rshift")                                             \
    BINARY(nb_inplace_add, "add_", "iadd")                                                         \
    BINARY(nb_inplace_subtract, "sub_", "isub")                                                    \
    BINARY(nb_inplace_multiply, "mul_", "imul")                                                    \
    BINARY(nb_inplace_true_divide, "div_", "itruediv")                                             \
    BINARY(nb_inplace_floor_divide, "floor_divide_", "ifloordiv")                                  \
    BINARY(nb_inplace_remainder, "remainder_", "imod")                                             \
    BINARY(nb_inplace_and, "bitwise_and_", "iand")                                                 \
    BINARY(nb_inplace_or, "bitwise_or_", "ior")                                                    \
    BINARY(nb_inplace_xor, "bitwise_xor_", "ixor")                                                 \
    BINARY(nb_inplace_lshift, "bitwise_left_shift_", "ilshift")                                    \
    BINARY(nb_inplace_rshift, "bitwise_right_shift_", "irshift")                                   \
    POWER(nb_power, "pow", "pow")                                                                  \
    POWER(nb_inplace_power, "pow_", "ipow")
/* Places for the functions that they call. */
enum {
#define CFX__PY_UNARY(slot, method) CFX__PY_##slot,
#define CFX__PY_BINARY(slot, method, operator_) CFX__PY_##slot,
    CFX__PY_OPERATORS(CFX__PY_UNARY, CFX__PY_BINARY, CFX__PY_BINARY)
#undef CFX__PY_UNARY
#undef CFX__PY_BINARY
        CFX__PY_getitem,
    CFX__PY_setitem,
    CFX__PY_item,
    CFX__PY_compare, /* and five more */
    CFX__PY_SLOTS = CFX__PY_compare + 6
};

#define CFX__PY_UNARY(slot, method) PyObject *cfx__py_##slot(PyObject *a);
#define CFX__PY_BINARY(slot, method, operator_) PyObject *cfx__py_##slot(PyObject *a, PyObject *b);
#define CFX__PY_POWER(slot, method, operator_)                                                     \
    PyObject *cfx__py_##slot(PyObject *a, PyObject *b, PyObject *modulus);
CFX__PY_OPERATORS(CFX__PY_UNARY, CFX__PY_BINARY, CFX__PY_POWER)
#undef CFX__PY_UNARY
#undef CFX__PY_BINARY
#undef CFX__PY_POWER

/* ---- what the module has --------------------------------------------------------------------- */

/* Types and objects that C code looks for. One interpreter has them (the module refuses a second).
 * Those marked * are defined in Python and handed over by _cfx.adopt(name, object). */
typedef struct cfx__py_globals {
    PyObject *module_object;  /* _cfx itself */
    PyTypeObject *tensor, *function, *method, *overload, *sym;
    PyTypeObject *dtype, *device, *layout, *memory_format;
    PyTypeObject *graph, *node, *node_iterator, *program, *module, *session;
    PyObject *parameter;      /* * torch.nn.Parameter */
    PyObject *size;           /* * torch.Size */
    PyObject *tensor_class;   /* * what a tensor that comes out of C is an instance of */
    PyObject *node_class;     /* * and a node, a graph, a size that is a symbol */
    PyObject *root_class;     /* * the node that stands before the first and behind the last */
    PyObject *graph_class, *program_class;
    PyObject *sym_class, *sym_float_class, *sym_bool_class;
    PyObject *module_from;    /* * called with a module of C: the Python module for it */
    PyObject *mirror_kind;    /* * called with a module: the layer of C's that it is, the module of
                                   C that it stands for, or None */
    PyObject *plain_attrs;    /* * called with a module: its attributes that C can have */
    PyObject *call_bound;     /* * called with a module and a value for each parameter of forward */
    PyObject *immutable_list, *immutable_dict; /* * what the arguments of nodes are made of */
    PyObject *method_words;   /* * a method's TypeError without the tensor that it is called of */
    PyObject *return_type;    /* * called with a function's name and its results' names */
    PyObject *callable;       /* * called with a path: the Python callable that a target names */
    PyObject *target_of;      /* * called with a callable: (its path, whether C knows that) */
    PyObject *meta_from;      /* * called with the metadata of a node: as torch.fx has it */
    PyObject *here;           /* * called without arguments: (file, line) of the model's code */
    PyObject *known;          /* callables of Python's to the paths by which C knows them */
    PyObject *overload_attr;  /* * called with an overload and the name of an attribute */
    PyObject *overloads;      /* address of an operator to its object */
    PyObject *tree_types;     /* class of a NamedTuple to the address of its cfx_tree_type */
    PyObject *code_of;        /* * called with an object: the text for it in generated code, or what
                                   a global is called, that global and the text behind it */
    PyObject *disabled;       /* * the __torch_function__ of those who override nothing */
    PyObject *array_tensor;   /* * called with an array of numpy's: the tensor over it, or a copy */
    PyObject *numpy_number, *numpy_array; /* types of numpy's, where it is loaded */
    PyObject *method_type, *builtin_function, *method_descriptor; /* types of Python's own */
    PyObject *operators[CFX__PY_SLOTS][2]; /* see number.c */
    PyObject *dtypes[CFX_DTYPE_END];
    PyObject *layouts[2], *memory_formats[4];
    PyObject *errors[CFX_LINALG_ERROR + 1]; /* by cfx_error_kind */
    PyObject *torch_function, *torch_dispatch, *fields, *node_name, *tracer_name; /* attributes */
    bool closed;              /* the interpreter is going down: nothing may be called any more */
} cfx__py_globals;

extern cfx__py_globals cfx__py;

/* A mode that Python pushed, on the stack of its thread. */
typedef struct cfx__py_mode {
    cfx_mode c;
    PyObject *object;
    struct cfx__py_mode *below;
} cfx__py_mode;

typedef struct cfx__py_thread {
    cfx__py_mode *function_modes, *dispatch_modes; /* innermost first */
    bool overrides_off;
    const cfx_fn *calling; /* the function that Python calls: torch.zeros */
    int exporting; /* exports that are running, one in another */
    PyObject *decompositions; /* {overload: function} of the decomposition that is running */
    int meta_depth;   /* contexts of the device "meta", one in another */
    bool fake_before; /* the fake mode outside them */
} cfx__py_thread;

extern _Thread_local cfx__py_thread cfx__py_this_thread;

/* ---- calls and errors ------------------------------------------------------------------------ */

/* CFX__PY_CALL(result) { ... } is the body of a function that enters C: what the block makes dies
 * at its end, and an error recorded meanwhile becomes the exception; `result` is then let go. */
#define CFX__PY_CALL(result)                                                                       \
    for (size_t cfx_mark = cfx_scope_open(), cfx_once = 1; cfx_once;                               \
         cfx_once = 0, (result) = cfx__py_leave(cfx_mark, result))
PyObject *cfx__py_leave(size_t mark, PyObject *result);
/* Makes the recorded error, if any, the exception. Whether there was none. */
bool cfx__py_raise(void);
/* Keeps the exception that is set for the one who called C, and records it there. */
void cfx__py_caught(void);
/* The line of the model that calls, while it is exported; elsewhere none, as exceptions have their
 * own. */
cfx_site cfx__py_here(void);
/* Takes the lock on whatever thread, for what C calls back; false where there is no interpreter any
 * more, and then nothing is taken. */
typedef PyGILState_STATE cfx__py_lock;
bool cfx__py_enter(cfx__py_lock *lock);
void cfx__py_exit(cfx__py_lock lock);

/* ---- values ---------------------------------------------------------------------------------- */

/* The value that stands for a Python object; scope. What no value can stand for becomes an object
 * of the caller's. False, with an exception, where it cannot be taken (it holds itself). */
bool cfx__py_to_value(PyObject *o, cfx_value *out);
/* What a callback gives to C: the value of `result`, whose reference is let go of, in the scope;
 * bad, with the exception recorded, where it is NULL. */
cfx_value cfx__py_give(PyObject *result);
/* The object that a value stands for; a new reference. Lists and tuples of `immutable` values are
 * those that nodes have. */
PyObject *cfx__py_from_value(cfx_value v);
PyObject *cfx__py_from_frozen(cfx_value v);
/* The container that v is, of what fn makes of its items. */
typedef PyObject *cfx__py_item_fn(cfx_value item, PyObject *user);
PyObject *cfx__py_map_value(cfx_value v, cfx__py_item_fn *fn, PyObject *user);
/* The arguments of a call, keywords behind the others, in `room` for CFX_MAX_ARGS, or in the scope
 * where there are more. False with an exception. */
bool cfx__py_to_args(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, cfx_value *room,
                     cfx_args *out);
/* The same from a tuple and a dict (or NULL). */
bool cfx__py_to_args_of(PyObject *args, PyObject *kwargs, cfx_args *out);
/* The arguments that C passes as a tuple and a dict (NULL where there are none). */
bool cfx__py_from_args(cfx_args a, PyObject **args, PyObject **kwargs);

/* A Python object as a value: scope, with a reference of its own. And back, borrowed; NULL. */
extern const cfx_object_type cfx__py_object_type;
cfx_value cfx__py_object_value(PyObject *o);
static inline PyObject *cfx__py_object_of(cfx_value v) {
    return cfx_object_data(v, &cfx__py_object_type);
}

/* ---- tensors --------------------------------------------------------------------------------- */

typedef struct cfx__py_tensor {
    PyObject_HEAD
    cfx_tensor *t; /* counted; never NULL */
} cfx__py_tensor;

/* The object for a tensor; a new reference. */
PyObject *cfx__py_from_tensor(cfx_tensor *t);
static inline bool cfx__py_is_tensor(PyObject *o) { return PyObject_TypeCheck(o, cfx__py.tensor); }
static inline cfx_tensor *cfx__py_tensor_of(PyObject *o) { return ((cfx__py_tensor *)o)->t; }

/* A tensor of its own over the memory of t, apart from the tape, as an object of a class. */
PyObject *cfx__py_alias(PyTypeObject *class_, cfx_tensor *t, bool requires_grad);
/* The tensor that torch.tensor(data) makes; scope. Bad, with an exception or an error. */
cfx_tensor *cfx__py_tensor_from(PyObject *data);

PyObject *cfx__py_nb_positive(PyObject *a);
PyObject *cfx__py_compare(PyObject *a, PyObject *b, int op);
PyObject *cfx__py_getitem(PyObject *self, PyObject *key);
int cfx__py_setitem(PyObject *self, PyObject *key, PyObject *value);
Py_ssize_t cfx__py_length(PyObject *self);
int cfx__py_is_true(PyObject *self);
PyObject *cfx__py_int(PyObject *self);
PyObject *cfx__py_float(PyObject *self);
PyObject *cfx__py_index(PyObject *self);
PyObject *cfx__py_tensor_getattr(PyObject *self, PyObject *name);
int cfx__py_get_buffer(PyObject *self, Py_buffer *view, int flags);
void cfx__py_release_buffer(PyObject *self, Py_buffer *view);

/* Whether o is a number of numpy's; Python's own for it then, a new reference, or NULL with an
 * exception. */
bool cfx__py_numpy_number(PyObject *o, PyObject **out);
/* What stands for an object beside a tensor, and in an index: arrays and numbers of numpy's are
 * tensors and numbers. New references; NULL with an exception. */
PyObject *cfx__py_operand(PyObject *o);
PyObject *cfx__py_key(PyObject *key);

/* ---- functions and overrides ----------------------------------------------------------------- */

/* What overrides are told was called where this function is. Borrowed. */
PyObject *cfx__py_function_public(PyObject *f);
/* The path of such a function; NULL where o is none. */
const char *cfx__py_function_path(PyObject *o);
/* Whether a method of tensors has no argument beside its tensor. */
bool cfx__py_takes_self_alone(PyObject *method);
/* A vectorcall with a tuple and a dict. */
PyObject *cfx__py_call_slowly(vectorcallfunc call, PyObject *self, PyObject *args,
                              PyObject *kwargs);
/* Whether an argument, or a mode of this thread, overrides the functions that are given these. */
bool cfx__py_is_overridden(PyObject *const *args, Py_ssize_t n);
/* Asks them. */
PyObject *cfx__py_override(PyObject *func, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames);
PyObject *cfx__py_override_of(PyObject *func, PyObject *args, PyObject *kwargs);
/* An overload; and the object for one. */
cfx_op *cfx__py_overload_of(PyObject *o);
PyObject *cfx__py_from_op(cfx_op *op);
/* The Python callable that a target names; a new reference. */
PyObject *cfx__py_callable(cfx_target t);

/* Which arguments of a function are tensors in all of its overloads, and must not be numbers: a bit
 * for each. And whether none of those given is a number; an exception where one is. */
uint32_t cfx__py_tensor_places(const cfx_fn *fn);
/* How many arguments an operator has by position; one more where it has others by keyword. */
int cfx__py_count_places(const cfx_op *op);
bool cfx__py_takes_numbers(const cfx_fn *fn, uint32_t places, bool method, PyObject *const *args,
                           Py_ssize_t nargs, PyObject *kwnames);

/* Lets go of the lock for a call with these arguments, where it may take long. */
typedef PyThreadState *cfx__py_released;
cfx__py_released cfx__py_release(cfx_args a);
cfx__py_released cfx__py_let_go(void); /* in any case */
void cfx__py_regain(cfx__py_released r);

/* ---- graphs ---------------------------------------------------------------------------------- */

cfx_node *cfx__py_node_of(PyObject *o);
/* Whether the object has a node: false, with an exception, where its graph was collected and for
 * the root of a graph. */
bool cfx__py_node_live(PyObject *o);
PyObject *cfx__py_from_node(cfx_node *n);
PyObject *cfx__py_from_graph(cfx_graph *g);
/* The Python module for one of C; and C's own as an object that Python can look into. */
PyObject *cfx__py_from_module(cfx_module *m);
PyObject *cfx__py_from_cmodule(cfx_module *m);
cfx_module *cfx__py_cmodule_of(PyObject *o);

/* ---- small things ---------------------------------------------------------------------------- */

/* A dtype, device, layout or memory format. */
cfx_value cfx__py_small_value(PyObject *o);
PyObject *cfx__py_from_small(cfx_value v);
cfx_value cfx__py_sym_value(PyObject *o);
PyObject *cfx__py_from_sym(cfx_value v);
/* The type of trees for a NamedTuple's class, and back, borrowed; NULL where there is none. */
const cfx_tree_type *cfx__py_tree_type(PyObject *class_);
PyObject *cfx__py_tree_class(const cfx_tree_type *type);
PyObject *cfx__py_from_dtype(cfx_dtype d);
PyObject *cfx__py_from_device(cfx_device d);
/* Whether a text names a device; a RuntimeError where it does not. */
bool cfx__py_is_device(const char *text);
PyObject *cfx__py_from_ints(int64_t n, const int64_t *ints); /* a torch.Size */
/* A text of the scope's as a str. */
PyObject *cfx__py_text(const char *text);
/* The UTF-8 of a str, borrowed from it; NULL with an exception. */
const char *cfx__py_utf8(PyObject *o);

/* ---- the parts of the module ----------------------------------------------------------------- */

bool cfx__py_add_type(PyObject *m, PyTypeObject **place, PyType_Spec *spec);
bool cfx__py_add_small(PyObject *m);
bool cfx__py_add_tensor(PyObject *m);
bool cfx__py_add_exchange(PyObject *m);
bool cfx__py_add_function(PyObject *m);
bool cfx__py_add_override(PyObject *m);
bool cfx__py_add_overload(PyObject *m);
bool cfx__py_add_library(PyObject *m);
bool cfx__py_add_tree(PyObject *m);
bool cfx__py_add_graph(PyObject *m);
bool cfx__py_add_sym(PyObject *m);
bool cfx__py_add_cmodule(PyObject *m);
bool cfx__py_add_program(PyObject *m);
bool cfx__py_add_session(PyObject *m);
bool cfx__py_add_control(PyObject *m);
bool cfx__py_add_grad(PyObject *m);
bool cfx__py_add_optim(PyObject *m);
bool cfx__py_add_quant(PyObject *m);
bool cfx__py_add_traced(PyObject *m);

#endif
