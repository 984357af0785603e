/* Programs: a graph with its signature, weights, ranges and guards.
 *
 * A program is what torch.export makes and a .pt2 file contains: an ATen graph whose parameters,
 * buffers and constants are inputs, and a signature that says which input is which. A program
 * that nobody edits is read-only: any number of threads may run, tap, show, copy, decompose,
 * quantize and save it, and make modules of it (cfx_program_module), one for each thread. A
 * program that mutates its buffers may be run by one thread at a time. */
#ifndef CFX_PROGRAM_H
#define CFX_PROGRAM_H

#include <cfx/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cfx_input_kind {
    CFX_IN_USER,     /* an argument of the caller's */
    CFX_IN_PARAMETER,
    CFX_IN_BUFFER,
    CFX_IN_CONSTANT, /* a tensor that the model holds */
    CFX_IN_OBJECT,   /* an object of a class of TorchScript's: shown, refused when run */
    CFX_IN_TOKEN
} cfx_input_kind;

typedef enum cfx_output_kind {
    CFX_OUT_USER,
    CFX_OUT_LOSS,
    CFX_OUT_BUFFER_MUTATION,
    CFX_OUT_PARAMETER_MUTATION,
    CFX_OUT_INPUT_MUTATION,
    CFX_OUT_PARAMETER_GRADIENT,
    CFX_OUT_INPUT_GRADIENT,
    CFX_OUT_TOKEN
} cfx_output_kind;

/* Input i of the graph: the meaning of placeholder i. */
typedef struct cfx_input_spec {
    cfx_input_kind kind;
    const char *name;   /* the placeholder's */
    const char *target; /* the parameter, buffer, constant or object, "fc1.weight"; NULL: users' */
    bool persistent;    /* buffers: in the state dict */
    bool constant;      /* a number, string or None that the caller passed: `value` */
    cfx_value value;
} cfx_input_spec;

/* Output i of the graph: the meaning of item i of its output node. */
typedef struct cfx_output_spec {
    cfx_output_kind kind;
    const char *name;   /* the node's; NULL where it is a plain value */
    const char *target; /* the buffer, parameter or input that is written to; NULL for users' */
    cfx_value value;    /* the plain value, where name is NULL */
} cfx_output_spec;

/* How a module was called: an entry of torch.export's module_call_graph. The first entry is the
 * program itself; then come all modules, then the later calls of modules with a preserved
 * signature, "encoder@1". */
typedef struct cfx_module_call {
    const char *path; /* "layers.0"; "" for the program */
    bool preserved;   /* what it took and gave is known; not looked at for the program */
    cfx_value inputs, outputs;   /* tuples of the leaves: nodes, or plain values */
    cfx_value in_spec, out_spec; /* pytrees of (args, kwargs) and of the result; None for the
                                    program, which has them itself */
    cfx_value names;             /* what forward calls its arguments, a list; None: not known */
    const char *in_text_, *out_text_; /* the trees as a file has them, with classes of Python's */
} cfx_module_call;

/* A program. Fields may be read; edit the graph like any graph, the rest through functions. The
 * program owns its texts. */
typedef struct cfx_program {
    cfx_obj head;
    cfx_module *module; /* a GraphModule; the sub-graphs of cond and the like are its children */
    int ninputs, noutputs;
    cfx_input_spec *inputs;
    cfx_output_spec *outputs;
    cfx_dict *state;     /* name to tensor: parameters and persistent buffers */
    cfx_dict *constants; /* name to tensor: constants and the other buffers */
    cfx_value in_spec;   /* pytree of (args, kwargs), as cfx_tree_flatten gives it; None: flat */
    cfx_value out_spec;  /* pytree of the result */
    int ncalls;
    cfx_module_call *calls; /* of the modules that it was exported from; none: not known */
    cfx_dict *ranges;    /* symbol to (smallest, largest); None: unbounded */
    cfx_dict *extra;     /* what a file said beside this; see cfx_open */
    struct cfx__program *own_;
} cfx_program;

/* A program over a GraphModule, which it keeps, with an empty signature; scope. Bad, with an error,
 * where gm is NULL or bad.
 *
 * Like graphs and modules, the result of a failed call is a bad program (cfx_failed): it has no
 * inputs, results and tensors, and calls on it do nothing. */
CFX_API cfx_program *cfx_program_new(cfx_module *gm);
/* Adds to the signature, in the order of placeholders and results. Texts and values are kept. */
CFX_API void cfx_program_add_input(cfx_program *p, cfx_input_spec spec);
CFX_API void cfx_program_add_output(cfx_program *p, cfx_output_spec spec);
/* Adds a call of a module; texts and values are kept. */
CFX_API void cfx_program_add_call(cfx_program *p, cfx_module_call call);
/* Brings the signature in line with the graph: placeholders and results that were renamed, moved,
 * added (as the caller's own) or removed since, and the trees of arguments and results with them.
 * What runs, saves, prints or copies a program does it first; it is for those who read the
 * signature of a program whose graph they edited. False, with an error, where a result is written
 * to an input that is gone. */
CFX_API bool cfx_program_sync(const cfx_program *p);
/* Gives parameters and persistent buffers new tensors by name, which are kept and must have the
 * shape and dtype of the old ones. With `strict` every name must be there, and none that the
 * program does not have. False, with an error that names all that does not fit; nothing is changed
 * then. */
CFX_API bool cfx_program_load_state_dict(cfx_program *p, const cfx_dict *state, bool strict);
/* A new parameter, buffer (persistent) or constant: the tensor, kept under `target` (made unique
 * with a number), and a placeholder for it before the caller's own. The placeholder; the bad node,
 * with an error, where there is no tensor. */
CFX_API cfx_node *cfx_program_add_tensor(cfx_program *p, cfx_input_kind kind, const char *target,
                                         cfx_tensor *t);
/* The specification of a placeholder; NULL where n is none of the program's. Borrowed. */
CFX_API const cfx_input_spec *cfx_program_input(const cfx_program *p, const cfx_node *n);
/* A text that lives as long as the program. */
CFX_API const char *cfx_program_text(cfx_program *p, const char *text);
/* The tensor that a parameter, buffer or constant input stands for, borrowed; NULL where the
 * program has none. */
CFX_API cfx_tensor *cfx_program_tensor(const cfx_program *p, const cfx_input_spec *spec);

#ifdef __cplusplus
}
#endif
#endif
