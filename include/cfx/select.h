/* Selectors: texts that select nodes, with one syntax for taps, hooks, checks, drawings,
 * quantization, rules, parts of programs, and the command.
 *
 *     relu_1, relu*            by node name, or a glob over names
 *     op:relu, op:aten.*       by the function called (as cfx_node_is), or a glob over it
 *     module:layers.0          inside of a module, by path or a glob over paths
 *     source:model.py:12-20    by source lines; without numbers, the whole file
 *
 * A set of nodes may also be "A..B", the nodes computed from A and needed for B, both included
 * (A or B may be missing), and a list of all these, separated by commas. */
#ifndef CFX_SELECT_H
#define CFX_SELECT_H

#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The nodes of a graph that match a selector, a list in graph order; scope. Bad, with an error,
 * where none matches. */
CFX_API cfx_value cfx_select_nodes(const cfx_graph *g, const char *selector);
/* A program of some calls of a program, given as a list of nodes. It contains the parameters,
 * buffers and constants that they read; other values from outside become inputs; values used
 * outside, and results of the program, become results. Scope; bad, with an error, where none of
 * them is used. */
CFX_API cfx_program *cfx_program_extract_nodes(const cfx_program *p, cfx_value nodes);

#ifdef __cplusplus
}
#endif
#endif
