/* libraries: what is computed by libraries of others, which are opened when first needed.
 *
 * LAPACK's factorisations come from OpenBLAS; gradients of convolutions, the few convolutions that
 * no kernel of ours takes, and large products of two tensors neither of which stays are faster by
 * oneDNN. Both libraries are large, start threads and map memory when they are loaded, and most
 * programs need neither, so nothing is linked against them: this header lists the functions that
 * are used, and libraries.c fills the table of a library the first time an operator asks for it.
 * What was opened stays open until the process ends. */
#ifndef CFX__LIBRARIES_H
#define CFX__LIBRARIES_H

#include "ops.h"

/* ---- LAPACK ---------------------------------------------------------------------------------- */

/* LAPACK's routines take pointers to everything, and the lengths of characters at the end. In each
 * row: what the routine is called here, its name less the letter of its element type, arguments. */
#define LAPACK_BOTH(X)                                                                             \
    X(getrf, "getrf", (const int *, const int *, void *, const int *, int *, int *))               \
    X(getrs, "getrs",                                                                              \
      (const char *, const int *, const int *, const void *, const int *, const int *, void *,     \
       const int *, int *, size_t))                                                                \
    X(potrf, "potrf", (const char *, const int *, void *, const int *, int *, size_t))             \
    X(potri, "potri", (const char *, const int *, void *, const int *, int *, size_t))             \
    X(potrs, "potrs",                                                                              \
      (const char *, const int *, const int *, const void *, const int *, void *, const int *,     \
       int *, size_t))                                                                             \
    X(geqrf, "geqrf",                                                                              \
      (const int *, const int *, void *, const int *, void *, void *, const int *, int *))         \
    X(sytrf, "sytrf",                                                                              \
      (const char *, const int *, void *, const int *, int *, void *, const int *, int *, size_t)) \
    X(sytrs, "sytrs",                                                                              \
      (const char *, const int *, const int *, const void *, const int *, const int *, void *,     \
       const int *, int *, size_t))                                                                \
    X(gels, "gels",                                                                                \
      (const char *, const int *, const int *, const int *, void *, const int *, void *,           \
       const int *, void *, const int *, int *, size_t))                                           \
    X(gemm, "gemm",                                                                                \
      (const char *, const char *, const int *, const int *, const int *, const void *,            \
       const void *, const int *, const void *, const int *, const void *, void *, const int *,    \
       size_t, size_t))                                                                            \
    X(trsm, "trsm",                                                                                \
      (const char *, const char *, const char *, const char *, const int *, const int *,           \
       const void *, const void *, const int *, void *, const int *, size_t, size_t, size_t,       \
       size_t))
/* Those that are called otherwise for real and for complex elements, or take other arguments. */
#define LAPACK_GQR                                                                                 \
    (const int *, const int *, const int *, void *, const int *, const void *, void *,             \
     const int *, int *)
#define LAPACK_MQR                                                                                 \
    (const char *, const char *, const int *, const int *, const int *, const void *, const int *, \
     const void *, void *, const int *, void *, const int *, int *, size_t, size_t)
#define LAPACK_REAL(X)                                                                             \
    X(gqr, "orgqr", LAPACK_GQR)                                                                    \
    X(mqr, "ormqr", LAPACK_MQR)                                                                    \
    X(gesdd, "gesdd",                                                                              \
      (const char *, const int *, const int *, void *, const int *, void *, void *, const int *,   \
       void *, const int *, void *, const int *, int *, int *, size_t))                            \
    X(gebrd, "gebrd",                                                                              \
      (const int *, const int *, void *, const int *, void *, void *, void *, void *, void *,      \
       const int *, int *))                                                                        \
    X(bdsdc, "bdsdc",                                                                              \
      (const char *, const char *, const int *, void *, void *, void *, const int *, void *,       \
       const int *, void *, int *, void *, int *, int *, size_t, size_t))                          \
    X(ormbr, "ormbr",                                                                              \
      (const char *, const char *, const char *, const int *, const int *, const int *,            \
       const void *, const int *, const void *, void *, const int *, void *, const int *, int *,   \
       size_t, size_t, size_t))                                                                    \
    X(evd, "syevd",                                                                                \
      (const char *, const char *, const int *, void *, const int *, void *, void *, const int *,  \
       int *, const int *, int *, size_t, size_t))                                                 \
    X(geev, "geev",                                                                                \
      (const char *, const char *, const int *, void *, const int *, void *, void *, void *,       \
       const int *, void *, const int *, void *, const int *, int *, size_t, size_t))              \
    X(gelsy, "gelsy",                                                                              \
      (const int *, const int *, const int *, void *, const int *, void *, const int *, int *,     \
       const void *, int *, void *, const int *, int *))                                           \
    X(gelss, "gelss",                                                                              \
      (const int *, const int *, const int *, void *, const int *, void *, const int *, void *,    \
       const void *, int *, void *, const int *, int *))                                           \
    X(gelsd, "gelsd",                                                                              \
      (const int *, const int *, const int *, void *, const int *, void *, const int *, void *,    \
       const void *, int *, void *, const int *, int *, int *))
#define LAPACK_COMPLEX(X)                                                                          \
    X(gqr, "ungqr", LAPACK_GQR)                                                                    \
    X(mqr, "unmqr", LAPACK_MQR)                                                                    \
    X(hetrf, "hetrf",                                                                              \
      (const char *, const int *, void *, const int *, int *, void *, const int *, int *, size_t)) \
    X(hetrs, "hetrs",                                                                              \
      (const char *, const int *, const int *, const void *, const int *, const int *, void *,     \
       const int *, int *, size_t))                                                                \
    X(gesdd, "gesdd",                                                                              \
      (const char *, const int *, const int *, void *, const int *, void *, void *, const int *,   \
       void *, const int *, void *, const int *, void *, int *, int *, size_t))                    \
    X(evd, "heevd",                                                                                \
      (const char *, const char *, const int *, void *, const int *, void *, void *, const int *,  \
       void *, const int *, int *, const int *, int *, size_t, size_t))                            \
    X(geev, "geev",                                                                                \
      (const char *, const char *, const int *, void *, const int *, void *, void *, const int *,  \
       void *, const int *, void *, const int *, void *, int *, size_t, size_t))                   \
    X(gelsy, "gelsy",                                                                              \
      (const int *, const int *, const int *, void *, const int *, void *, const int *, int *,     \
       const void *, int *, void *, const int *, void *, int *))                                   \
    X(gelss, "gelss",                                                                              \
      (const int *, const int *, const int *, void *, const int *, void *, const int *, void *,    \
       const void *, int *, void *, const int *, void *, int *))                                   \
    X(gelsd, "gelsd",                                                                              \
      (const int *, const int *, const int *, void *, const int *, void *, const int *, void *,    \
       const void *, int *, void *, const int *, void *, int *, int *))

#define LAPACK_MEMBER(name, symbol, arguments) void(*name) arguments;
typedef struct {
    LAPACK_BOTH(LAPACK_MEMBER)
    LAPACK_REAL(LAPACK_MEMBER)
} lapack_real;
typedef struct {
    LAPACK_BOTH(LAPACK_MEMBER)
    LAPACK_COMPLEX(LAPACK_MEMBER)
} lapack_complex;
#undef LAPACK_MEMBER

/* Element types by LAPACK's letters. */
typedef struct {
    lapack_real s, d;
    lapack_complex c, z;
} lapack_library;

/* LAPACK's routines; NULL, with an error that says what is missing, when they cannot be had. */
const lapack_library *library_lapack(void);

/* ---- oneDNN ---------------------------------------------------------------------------------- */

#ifdef CFX_DNN
#include <oneapi/dnnl/dnnl.h>

#define ONEDNN_FUNCTIONS(X)                                                                        \
    X(engine_create)                                                                               \
    X(engine_destroy)                                                                              \
    X(stream_create)                                                                               \
    X(stream_destroy)                                                                              \
    X(memory_create)                                                                               \
    X(memory_destroy)                                                                              \
    X(memory_set_data_handle)                                                                      \
    X(memory_desc_init_by_tag)                                                                     \
    X(memory_desc_equal)                                                                           \
    X(memory_desc_get_size)                                                                        \
    X(dilated_convolution_forward_desc_init)                                                       \
    X(dilated_convolution_backward_data_desc_init)                                                 \
    X(dilated_convolution_backward_weights_desc_init)                                              \
    X(reorder_primitive_desc_create)                                                               \
    X(primitive_desc_create)                                                                       \
    X(primitive_desc_destroy)                                                                      \
    X(primitive_desc_query_md)                                                                     \
    X(primitive_create)                                                                            \
    X(primitive_destroy)                                                                           \
    X(primitive_execute)                                                                           \
    X(sgemm)                                                                                       \
    X(version)

#define ONEDNN_MEMBER(name) __typeof__(dnnl_##name) *name;
typedef struct {
    ONEDNN_FUNCTIONS(ONEDNN_MEMBER)
    /* how many threads it uses, where it uses OpenMP's; NULL: it does not */
    int (*threads)(void);
    void (*set_threads)(int);
} onednn_library;
#undef ONEDNN_MEMBER

/* oneDNN's functions; NULL when it cannot be had, which is no error: there are loops of our own. */
const onednn_library *library_onednn(void);
/* Calls of oneDNN stand between these two, so that a child which is forked meanwhile does not wait
 * for locks of a thread that it lacks. False: oneDNN cannot be had, and nothing is to be left. */
bool library_onednn_enter(void);
void library_onednn_leave(void);
#endif

/* Whether an operator asked in this process for a library that cannot be had; for tests. */
bool library_was_missed(void);

#endif
