/* Selectors: texts that pick nodes, the same wherever one is taken (taps, hooks, checks, drawings,
 * quantization, rules, parts of programs, the command).
 *
 *     relu_1, relu*            by name, or a glob over names
 *     op:relu, op:aten.*       by what is called (what cfx_node_is is asked, or a pattern over it)
 *     module:layers.0          inside of a module, by its path or a glob over paths
 *     source:model.py:12-20    of lines of a file; without numbers of the whole file
 *
 * Where a set is asked for, also "A..B", what is computed from A and needed for B, both included,
 * where A or B may be left out; and several of all these, divided by commas. */
#ifndef CFX_SELECT_H
#define CFX_SELECT_H

#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The nodes of a graph that a selector picks, a list in the order of the graph; scope. Bad, with an
 * error, where it picks none. */
CFX_API cfx_value cfx_select_nodes(const cfx_graph *g, const char *selector);
/* The part of a program that some nodes are, a list of them: those that are calls. Its inputs are
 * the values that come from outside but for parameters, buffers and constants, which it keeps; its
 * results are what is used outside, or a result of the program. Scope; bad, with an error, where
 * nothing of it is used. */
CFX_API cfx_program *cfx_program_extract_nodes(const cfx_program *p, cfx_value nodes);

#ifdef __cplusplus
}
#endif
#endif
