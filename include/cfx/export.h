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

/* The program of a module, as torch.export.export(m, args, kwargs, dynamic_shapes=dynamic) makes
 * it; scope. forward runs once on fake tensors like the inputs, and the overloads that it calls
 * become nodes: an ATen graph whose parameters, buffers and constants are inputs of their own
 * (p_fc1_weight, b_..., c_...), with a signature, the stack of modules and the source lines. Writes
 * in place stay as they are; cfx_decompose makes them values.
 *
 * args is a tuple and kwargs a dict (or None): what the module would be called with, nested as it
 * likes. dynamic (or None) is a dict that says which sizes may vary: the name of an argument to a
 * dict of dimension to a name ("batch") or (name, least, most). Sizes of one name are equal.
 *
 * NULL, with an error, when forward cannot be run so: most of all where it decides by data. */
CFX_API cfx_program *cfx_export(cfx_module *m, cfx_value args, cfx_value kwargs,
                                cfx_value dynamic);

#ifdef __cplusplus
}
#endif
#endif
