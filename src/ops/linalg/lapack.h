/* LAPACK behind one table of functions for each element type.
 *
 * Matrices are column-major and dense, so that a matrix is a pointer and its sizes, which are at
 * least 1. What LAPACK needs beside is allocated and freed inside. Functions return LAPACK's info:
 * 0 for success, positive where the numbers were not good enough. */
#ifndef CFX__LAPACK_H
#define CFX__LAPACK_H

#include "../ops.h"

typedef struct lapack {
    int (*lu)(int m, int n, void *a, int *pivots);
    void (*lu_solve)(char trans, int n, int k, const void *lu, const int *pivots, void *b);
    int (*cholesky)(char uplo, int n, void *a);
    int (*cholesky_inverse)(char uplo, int n, void *a);
    void (*cholesky_solve)(char uplo, int n, int k, const void *a, void *b);
    void (*qr)(int m, int n, void *a, void *tau);
    void (*q)(int m, int n, int k, void *a, const void *tau); /* a: reflectors, becomes Q */
    /* c = Q c, Q^H c, c Q or c Q^H; Q is rows x rows from k reflectors. */
    void (*q_apply)(char side, bool adjoint, int m, int n, int k, int rows, const void *a,
                    const void *tau, void *c);
    /* job: 'A' all of u and vt, 'S' their first min(m, n), 'N' neither. Destroys a. */
    int (*svd)(char job, int m, int n, void *a, void *s, void *u, void *vt);
    int (*eigh)(bool vectors, char uplo, int n, void *a, void *w); /* a becomes the vectors */
    /* w and v are complex for real matrices too; v may be NULL. Destroys a. */
    int (*eig)(int n, void *a, void *w, void *v);
    int (*ldl)(bool hermitian, int n, void *a, int *pivots);
    void (*ldl_solve)(bool hermitian, int n, int k, const void *a, const int *pivots, void *b);
    /* b becomes the solution of op(a) x = b, or of x op(a) = b where side is 'R'. */
    void (*triangular)(char side, char uplo, char trans, bool unit, int m, int n, const void *a,
                       void *b);
    void (*multiply)(int n, const void *a, const void *b, void *out); /* n x n each */
    /* b has max(m, n) rows. driver: 's' gels, 'y' gelsy, 'S' gelss, 'd' gelsd. */
    int (*least_squares)(char driver, int m, int n, int k, void *a, void *b, double rcond,
                         int *rank, void *s);
    /* The determinant from an LU factorisation, whole or as sign and log of the absolute value. */
    void (*det)(int n, const void *lu, const int *pivots, void *det);
    void (*log_det)(int n, const void *lu, const int *pivots, void *sign, void *log);
    void (*conjugate)(int64_t n, void *a);
    bool (*finite)(int64_t n, const void *a);
} lapack;

/* The table for a dtype; NULL for those that have none. */
const lapack *lapack_for(cfx_dtype dtype);

#endif
