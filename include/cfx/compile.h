/* Compiles a program to one C file without runtime, heap or any library but libm. */
#ifndef CFX_COMPILE_H
#define CFX_COMPILE_H

#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cfx_compile_weights {
    CFX_WEIGHTS_AUTO,   /* in the source where they are few (1 MB), else in a file */
    CFX_WEIGHTS_INLINE, /* arrays of the source */
    CFX_WEIGHTS_FILE    /* one binary file, to be mapped, read or flashed */
} cfx_compile_weights;

typedef struct cfx_compile_options {
    const char *name; /* what every symbol begins with; NULL: "model" */
    cfx_compile_weights weights;
    bool test;        /* adds NAME_test: the sample inputs, and results to compare */
    bool main;        /* adds main: a raw file for each input, raw results to stdout */
    bool threads;     /* loops are split by OpenMP */
    bool bf16;        /* weights of products are kept in bfloat16; sums are of floats */
    bool library;     /* adds what `cfx run model.so` calls: the file is built as a shared object */
    const char *taps; /* selectors of nodes, a line each, whose values are results too, behind the
                         program's (cfx/select.h); NULL: none */
    const char *sizes; /* of sizes that vary, with blanks between them: "s0=8" makes one that
                          number, "s1=2:64" gives a range. NULL: those of the program; one
                          without an upper end gets four times the sample's, 64 at least;
                          one begins where the text that is written holds: NAME_S1_MIN */
    bool every_size;   /* verifies the source at every dynamic size, which may take long; else at
                          some hundred: the header has the count */
    cfx_value inputs;  /* the caller's inputs in flattened order, a list: the sample of
                          `test`. None: the samples of the program, or zeros */
} cfx_compile_options;

/* Writes a program as C to `path` ("model.c"), with a header ("model.h") and, for weights in a
 * file, "model.bin". options may be NULL. False, with an error; for nodes without a form in C
 * the error lists each with the reason, and nothing is written. */
CFX_API bool cfx_compile_c(const cfx_program *p, const cfx_compile_options *options,
                           const char *path);
/* The source as text, without weights; scope. NULL, with an error. */
CFX_API const char *cfx_compile_text(const cfx_program *p, const cfx_compile_options *options);

#ifdef __cplusplus
}
#endif
#endif
