/* split: a graph becomes a graph of graphs.
 *
 * Invariant: the module that is split is never changed; modules and tensors are shared with what is
 * made of it. */
#ifndef CFX__SPLIT_H
#define CFX__SPLIT_H

#include <cfx/split.h>

#include "../run/run.h"

/* Splits a GraphModule: part_of[id] is the part of each node, -1 for what stays outside
 * (placeholders, the output, attributes but for those that a part reads itself); names[i] is what
 * part i is called. Scope; NULL, with an error, where parts need each other. */
cfx_module *cfx__split(cfx_module *gm, const int *part_of, int nparts, const char *const *names,
                       cfx_split_options options);

/* Inlines the calls of children whose names start with `prefix`, and removes the children; the
 * module takes over what they name. How many calls. */
int cfx__inline_all(cfx_module *gm, const char *prefix);

/* The chosen nodes of a program (by id) as a program of its own that gives `results`, a list of
 * nodes among them. `outside` is filled with the nodes whose values are its inputs, in order.
 * Scope; NULL, with an error. */
cfx_program *cfx__extract_set(const cfx_program *p, const bool *chosen, cfx_value results,
                              cfx_dict *outside);

#endif
