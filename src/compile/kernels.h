/* kernels: C texts included in generated files, and weights in the layout that they read.
 *
 * The texts are real sources, src/compile/kernels: tests compile them as they are, and
 * tools/genkernels cuts them into functions, types and macros. A generated file contains each
 * piece that it uses, and what that needs, once. */
#ifndef CFX__COMPILE_KERNELS_H
#define CFX__COMPILE_KERNELS_H

#include "../base/base.h"

/* Pieces that a file uses. Zero is none. */
enum { CFX__KERNEL_MOST = 1024 };
typedef struct cfx__kernels {
    uint64_t used[CFX__KERNEL_MOST / 64];
} cfx__kernels;

/* Adds the piece that defines a name (without the prefix: "product") and all that it needs; false
 * where no piece defines it. */
bool cfx__kernels_use(cfx__kernels *k, const char *name);
/* Whether a piece defines a name. */
bool cfx__kernels_has(const char *name);
/* The same for each name with this prefix in a text of the generator's, "mlp_" before "product";
 * names that no piece defines are the generator's own. */
void cfx__kernels_use_in(cfx__kernels *k, const char *prefix, const char *text);
/* Appends the pieces in order, with `prefix` ("mlp_") before their names. Lines that mark loops
 * whose rounds do not depend on each other become pragmas of OpenMP where `threads` is true. */
void cfx__kernels_write(const cfx__kernels *k, const char *prefix, bool threads, cfx__text *to);

#endif
