/* Exporting: makes a program of a module.
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
    /* A list of paths of modules whose calling convention is recorded, so that
     * cfx_program_unflatten restores them as they were called, and others may replace them.
     * None: no modules. */
    cfx_value preserve_module_call_signature;
    /* torch.export.ShapesCollection, in place of `dynamic`: a list of pairs of a tensor (the
     * object in args or kwargs) and its sizes. */
    cfx_value shapes;
    /* torch.export.AdditionalInputs, in place of `dynamic`: a list of pairs (args, kwargs or
     * None). Sizes that differ from the example become dynamic, and the program must accept
     * these inputs, else there is an error. */
    cfx_value additional_inputs;
    /* Time limit of the search for sizes at which forward branches, in milliseconds of this
     * thread's time; a larger model is tried at fewer sizes. 0: 500. Negative: only the first
     * few of each size are tried. */
    int64_t probe_ms;
} cfx_export_options;

/* The program of a module, like torch.export.export(m, args, kwargs, dynamic_shapes=dynamic);
 * scope. Runs forward on fake tensors, and makes a node of each overload that it calls: an ATen
 * graph whose parameters, buffers and constants are inputs (p_fc1_weight, b_..., c_...), with a
 * signature, module stacks and source lines. In-place writes are kept; cfx_decompose functionalises
 * them.
 *
 * args is a tuple and kwargs a dict (or None): the example arguments, arbitrarily nested. dynamic
 * (or None) says which sizes are dynamic: a dict from argument names to a dict of dimension to size
 * or to a list of the sizes of all dimensions, nested like the argument; or a list of the same for
 * all arguments in order. A size is a name ("batch"), (name, least, most) with None for no bound,
 * an expression of names ("2*batch", "batch + 1"), "Dim.AUTO", "Dim.DYNAMIC", or, for a static
 * size, None, "Dim.STATIC" or its number. An integer argument may itself be "Dim.AUTO" or
 * "Dim.DYNAMIC". A description that does not match the arguments, such as an unknown name, is an
 * error. Sizes of one name are equal. With dynamic sizes, forward runs several times at different
 * sizes; each time it sees plain integers and may compute with them.
 *
 * Branches on sizes are found. A comparison by an operator, cfx_py("operator.lt", n, 4096), is
 * recorded exactly. An `if` in C is searched for: forward is tried at hundreds of sizes (all up to
 * 256, bounds, neighbours of the example, powers of two, multiples of up to 64, primes, random
 * ones, each size alone and all together) within .probe_ms; where it behaves differently, the bound
 * is determined.
 * extra["probed"] lists the sizes tried, {"s77": "2-71, 127-129"}.
 *
 * Bad, with an error, when forward branches on data, or on a size that was declared dynamic; the
 * error states the condition in PyTorch's words, with a Dim that satisfies it. For Dim.AUTO the
 * condition is accepted instead: the size becomes a constant, equal to or linear in another, or
 * bounded. Dim.DYNAMIC must not become a constant. A condition on several sizes, and one on
 * Dim.AUTO that is not a bound (a remainder), becomes a guard, extra["guards"], which is checked
 * when the program runs.
 *
 *     cfx_export(m, cfx_tuple(x), CFX_NONE, cfx_dict_of("x", cfx_dict_of(0, "batch")))
 *
 * Nodes record their origin: "nn_module_stack", where a second call of a module has its own key
 * ("L__self__norm@1"), "stack_trace", and "torch_fn", the Python function that was called:
 * ("relu_1", "function.relu").
 *
 *     cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE,
 *                .preserve_module_call_signature = cfx_list("head")) */
CFX_API cfx_program *cfx_export_from(cfx_site at, cfx_module *m, cfx_value args, cfx_value kwargs,
                                     cfx_value dynamic, cfx_export_options options);
#define cfx_export(m, args, kwargs, ...) CFX_EXPORT_(m, args, kwargs, __VA_ARGS__, )
#define CFX_EXPORT_(m, args, kwargs, dynamic, ...)                                                 \
    cfx_export_from(CFX_HERE, m, args, kwargs, dynamic,                                            \
                    CFX_OPTIONS(cfx_export_options, __VA_ARGS__))

/* torch.fx.traceback.annotate: sets meta["custom"] of the nodes that exports record from now on, a
 * dict; None: no entry. Decompositions and passes keep it. Returns the value before; scope. */
CFX_API cfx_value cfx_annotate(cfx_value custom);

/* torch.export.draft_export: a program even where cfx_export has an error, with a report of such
 * errors. Runs forward on the example first. Where forward branches on data, the example decides,
 * and the program asserts that decision, so it refuses other data. If sizes cannot vary as
 * `dynamic` says, all become "Dim.AUTO". Scope; bad, with an error, where forward fails on the
 * example, or C reads numbers of a tensor other than by an operator.
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
/* The errors of cfx_export for a draft: a list, empty if there are none, of dicts with texts:
 * "kind", which is "data" or "sizes"; "expression", the condition ("u0 > 3") or the text of the
 * error; "value", its value in the example; "line", where it was evaluated. cfx_draft_report is
 * the same in PyTorch's words. Scope. */
CFX_API cfx_value cfx_draft_failures(const cfx_program *p);
CFX_API const char *cfx_draft_report(const cfx_program *p);

#ifdef __cplusplus
}
#endif
#endif
