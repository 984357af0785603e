/* What the linear algebra operators share: checks with PyTorch's words, column-major results.
 *
 * A tensor of matrices has its rows in dimension -2 and its columns in dimension -1; what comes
 * before is the batch. "Columns" means: each matrix column-major, the batch contiguous. */
#ifndef CFX__LINALG_H
#define CFX__LINALG_H

#include "lapack.h"

static inline int64_t rows_of(const cfx_tensor *t) { return t->shape[t->ndim - 2]; }
static inline int64_t cols_of(const cfx_tensor *t) { return t->shape[t->ndim - 1]; }
/* How many matrices t holds. */
static inline int64_t batch_of(const cfx_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->ndim - 2; i++)
        n *= t->shape[i];
    return n;
}
/* Matrix, row of pivots or number i of a tensor with a contiguous batch: `each` elements apart. */
static inline void *nth(const cfx_tensor *t, int64_t i, int64_t each) {
    return t->data + i * each * cfx_dtype_size(t->dtype);
}
static inline void *nth_matrix(const cfx_tensor *t, int64_t i) {
    return nth(t, i, rows_of(t) * cols_of(t));
}

/* ---- checks: false, with an error that starts with `fn`, when t is not such ------------------ */

bool check_matrix(cfx_op_call *c, const cfx_tensor *t, const char *fn, const char *arg);
bool check_square(cfx_op_call *c, const cfx_tensor *t, const char *fn);
/* Floating point or complex, without a word on halves; then also no halves. */
bool check_floating(cfx_op_call *c, const cfx_tensor *t, const char *fn);
bool check_full_floating(cfx_op_call *c, const cfx_tensor *t, const char *fn);
/* A and B of A X = B or X A = B. */
bool check_solver(cfx_op_call *c, const cfx_tensor *a, const cfx_tensor *b, bool left,
                  const char *fn);
/* A and b of the older solvers, whose messages begin otherwise. */
bool check_old_solver(cfx_op_call *c, const cfx_tensor *b, const cfx_tensor *a, const char *fn);
/* LAPACK for t's dtype; NULL, with `"kernel" not implemented for 'Half'`, where there is none. */
const lapack *lapack_of(cfx_op_call *c, const cfx_tensor *t, const char *kernel);

/* Says what LAPACK's codes mean, the first that is not 0, in the words of the function `api`. */
void report_info(cfx_op_call *c, const int32_t *info, int64_t n, const char *api, bool is_matrix);
/* The same by the operator for it: for decompositions, whose first argument tells the batch. */
void check_info(cfx_op_call *c, cfx_value info, const char *api);

/* ---- results and copies ---------------------------------------------------------------------- */

/* Strides of column-major matrices in a contiguous batch. */
void column_strides(int ndim, const int64_t *shape, int64_t *stride);
/* Result i of the call in columns. */
cfx_tensor *out_columns(cfx_op_call *c, int i, cfx_dtype dtype, int ndim, const int64_t *shape);
/* Result i of one dimension and no elements. */
cfx_tensor *out_nothing(cfx_op_call *c, int i, cfx_dtype dtype);
/* A copy of t in columns, broadcast to the batch given; scope. */
cfx_tensor *columns_of(cfx_op_call *c, const cfx_tensor *t, int nbatch, const int64_t *batch);
/* The same with t's own batch. */
static inline cfx_tensor *own_columns(cfx_op_call *c, const cfx_tensor *t) {
    return columns_of(c, t, t->ndim - 2, t->shape);
}
/* t with its last two dimensions swapped, or with one dimension of 1 after the last; views. */
cfx_tensor *transposed(const cfx_tensor *t);
cfx_tensor *as_column(const cfx_tensor *t);
/* The identity, as far as the shape goes, into every matrix of t. */
void fill_identity(cfx_tensor *t);
/* Zeroes what lies below (keep 'U') or above (keep 'L') the diagonal of every matrix of t, which is
 * in columns. */
void keep_triangle(cfx_tensor *t, char keep);

/* The batches of a and b broadcast; -1, with an error, when they do not fit. */
int broadcast_batch(cfx_op_call *c, const cfx_tensor *a, const cfx_tensor *b, int64_t *batch);
/* Which of t's matrices is number i of a batch that t's was broadcast to. */
int64_t batch_index(const cfx_tensor *t, int nbatch, const int64_t *batch, int64_t i);

/* ---- LU, used by several families (linalg_lu.c) ---------------------------------------------- */

/* Factorises every matrix of lu (in columns) in place. */
void lu_in_place(const lapack *la, cfx_tensor *lu, cfx_tensor *pivots, int32_t *info);
/* Solves A X = B, or X A = B (right), with A^H for A where adjoint; lu and pivots have A's batch,
 * which is broadcast to that of x. x holds B: in columns, or contiguous where right. */
void lu_solve(const lapack *la, const cfx_tensor *lu, const cfx_tensor *pivots, cfx_tensor *x,
              bool right, bool adjoint);

/* ---- gradients: linalg_back.c, linalg_spectral_back.c ---------------------------------------- */

cfx_grad_fn grad_inv, grad_solve, grad_det, grad_slogdet;
cfx_grad_fn grad_lu, grad_lu_factor, grad_lu_unpack, grad_lu_solve;
cfx_grad_fn grad_solve_triangular, grad_triangular_solve;
cfx_grad_fn grad_cholesky, grad_cholesky_inverse, grad_cholesky_solve;
cfx_grad_fn grad_pinv, grad_lstsq, grad_cross, grad_matrix_exp;
cfx_grad_fn grad_qr, grad_householder, grad_ormqr, grad_svd, grad_eigh, grad_eig, grad_eigvals;

#endif
