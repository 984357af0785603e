/* Rewriting: a program becomes another one that computes the same. */
#ifndef CFX_REWRITE_H
#define CFX_REWRITE_H

#include <cfx/program.h>
#include <cfx/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The program in Core ATen, as ExportedProgram.run_decompositions() gives it: nothing is written in
 * place (buffers and inputs that were, become results, which come first), and every operator that
 * is not a core one is replaced by what it is made of. `keep` is a list of operators to leave
 * whole, by name ("aten.linear.default" or "linear"), or None. A new program; scope. NULL, with an
 * error that names the node, where it cannot be done. */
CFX_API cfx_program *cfx_decompose(const cfx_program *p, cfx_value keep);

#ifdef __cplusplus
}
#endif
#endif
