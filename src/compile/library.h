/* library: the description of a compiled program built as a shared object, exported under the
 * name "cfx_compiled" beside the program's own names. library.c writes its declaration into the
 * generated file, which needs no header of cfx; `cfx run model.so` reads it. */
#ifndef CFX__COMPILE_LIBRARY_H
#define CFX__COMPILE_LIBRARY_H

#include <stddef.h>

enum { CFX__C_LIBRARY_VERSION = 1 };

/* Ports are inputs, then results. Sizes that vary are given in order, with their ends; weights is
 * the bytes of the file that the object is to be given, 0 where it has them itself. */
#define CFX__C_LIBRARY                                                                             \
    struct cfx_compiled {                                                                          \
        int version;                                                                               \
        int nsizes, ninputs, noutputs;                                                             \
        const char *const *sizes;                                                                  \
        const ptrdiff_t *least, *most;                                                             \
        const char *const *names;                                                                  \
        const char *const *dtypes;                                                                 \
        const int *ndims;                                                                          \
        size_t arena, weights, state;                                                              \
        void (*shape)(int port, const ptrdiff_t *sizes, ptrdiff_t *to);                            \
        int (*run)(const void *weights, void *state, void *arena, const ptrdiff_t *sizes,          \
                   const void *const *in, void *const *out);                                       \
    }
CFX__C_LIBRARY;

#endif
