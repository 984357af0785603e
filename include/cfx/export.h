/* Exporting: a module becomes a program.
 *
 *     cfx_program *p = cfx_export(mlp, cfx_tuple(x), CFX_NONE, CFX_NONE);
 *     cfx_print_program(p, stdout); */
#ifndef CFX_EXPORT_H
#define CFX_EXPORT_H

#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cfx_export_options {
    /* Paths of modules, a list: what they take and give is noted with the program, so that after
     * cfx_program_unflatten they are called as they were, and others may take their place. None:
     * none of them. */
    cfx_value preserve_module_call_signature;
    /* In place of `dynamic`, torch.export.ShapesCollection: a list of pairs of a tensor, one of
     * those in args and kwargs themselves, and what its sizes are. */
    cfx_value shapes;
    /* In place of `dynamic`, torch.export.AdditionalInputs: a list of pairs (args, kwargs or None).
     * Sizes that are not those of the example may vary, and the program has to take these inputs
     * too, else there is an error. */
    cfx_value additional_inputs;
    /* How long sizes are looked for at which forward decides otherwise, in milliseconds of this
     * thread's time: a larger model is tried at fewer sizes in the same time. 0: 500. Negative:
     * only the first few of each size are tried. */
    int64_t probe_ms;
} cfx_export_options;

/* The program of a module, as torch.export.export(m, args, kwargs, dynamic_shapes=dynamic) makes
 * it; scope. forward runs on fake tensors like the inputs, and the overloads that it calls
 * become nodes: an ATen graph whose parameters, buffers and constants are inputs of their own
 * (p_fc1_weight, b_..., c_...), with a signature, the stack of modules and the source lines. Writes
 * in place stay as they are; cfx_decompose makes them values.
 *
 * args is a tuple and kwargs a dict (or None): what the module would be called with, nested as it
 * likes. dynamic (or None) is a dict that says which sizes may vary: the name of an argument to a
 * dict of dimension to what it is, or to a list of all dimensions; where the argument is nested,
 * nested as it is. Or it is a list of the same for all arguments in their order. A size is a name
 * ("batch"), (name, least, most) with None for no bound, an expression of names ("2*batch",
 * "batch + 1"), "Dim.AUTO", "Dim.DYNAMIC", or, if it does not vary, None, "Dim.STATIC" or the
 * number that it is. An argument that is an integer may be "Dim.AUTO" or "Dim.DYNAMIC" itself. What
 * does not fit the arguments, as a name that none has, is an error. Sizes of one name
 * are equal. forward then runs several times, at other sizes each time; in each it sees plain
 * integers and may compute with them as it likes.
 *
 * What forward decides by a size is found out. Where it compares by an operator, cfx_py(
 * "operator.lt", n, 4096), that is known exactly. An `if` of C is looked for: forward is tried at
 * hundreds of sizes (the bounds, around the example, powers of two, multiples of up to 64, primes,
 * random ones, each size alone and all together), as many as .probe_ms is enough for; where it does
 * something else, the border is found. Which sizes these
 * were is noted with the program: extra["probed"], {"s77": "2-71, 127-129"}.
 *
 * Bad, with an error, when forward cannot be run so: where it decides by data, or by a size that
 * was to vary. What it asks of the size is told in PyTorch's words, with a Dim that would do; of
 * Dim.AUTO it is granted: the size is a constant, equal to or a line of another, or within bounds
 * then; Dim.DYNAMIC must not be a constant. What is
 * asked of several sizes at once, and of Dim.AUTO beyond bounds (a remainder), becomes a guard of
 * the program, extra["guards"], which is checked when it runs.
 *
 *     cfx_export(m, cfx_tuple(x), CFX_NONE, cfx_dict_of("x", cfx_dict_of(0, "batch")))
 *
 * Nodes know where they come from: "nn_module_stack", in which a second call of a module has a key
 * of its own ("L__self__norm@1"), "stack_trace", and "torch_fn", the function that was called as
 * Python has it: ("relu_1", "function.relu").
 *     cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE,
 *                .preserve_module_call_signature = cfx_list("head")) */
CFX_API cfx_program *cfx_export_from(cfx_site at, cfx_module *m, cfx_value args, cfx_value kwargs,
                                     cfx_value dynamic, cfx_export_options options);
#define cfx_export(m, args, kwargs, ...) CFX_EXPORT_(m, args, kwargs, __VA_ARGS__, )
#define CFX_EXPORT_(m, args, kwargs, dynamic, ...)                                                 \
    cfx_export_from(CFX_HERE, m, args, kwargs, dynamic,                                            \
                    CFX_OPTIONS(cfx_export_options, __VA_ARGS__))

/* torch.export.draft_export: a program where cfx_export has only an error, and all that it would
 * have told. forward runs on the example first. Where it looks at data then, which an export cannot
 * know, the answer is what the example says; the program asserts it, so that it refuses other data.
 * Sizes that cannot vary as `dynamic` says become "Dim.AUTO", all of them. Scope; bad, with an
 * error, where there is no program all the same: forward fails on the example, or C reads the
 * numbers of a tensor otherwise than by an operator.
 *
 *     cfx_program *p = cfx_draft_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE);
 *     puts(cfx_draft_report(p)); */
CFX_API cfx_program *cfx_draft_export_from(cfx_site at, cfx_module *m, cfx_value args,
                                           cfx_value kwargs, cfx_value dynamic,
                                           cfx_export_options options);
#define cfx_draft_export(m, args, kwargs, ...) CFX_DRAFT_EXPORT_(m, args, kwargs, __VA_ARGS__, )
#define CFX_DRAFT_EXPORT_(m, args, kwargs, dynamic, ...)                                           \
    cfx_draft_export_from(CFX_HERE, m, args, kwargs, dynamic,                                      \
                          CFX_OPTIONS(cfx_export_options, __VA_ARGS__))
/* What cfx_export would have refused of such a program: a list, empty where there is nothing, of
 * dicts with texts: "kind", which is "data" or "sizes"; "expression", what was asked ("u0 > 3") or
 * the words of the error; "value", what it is in the example; "line", where it was asked. And the
 * same in PyTorch's words. Scope. */
CFX_API cfx_value cfx_draft_failures(const cfx_program *p);
CFX_API const char *cfx_draft_report(const cfx_program *p);

#ifdef __cplusplus
}
#endif
#endif
