/* Calls on small matrices: factorisations and solvers (kernels/linalg.c). Each matrix of a batch
 * is copied to scratch space as doubles, and results are stored from there. */
#include <cfx/ops.h>

#include "calls.h"

typedef struct {
    cfx__c *c;
    cfx__c_walk w;
    int64_t scratch; /* bytes that are given out */
} matrices;

/* Room for n doubles in scratch, as a pointer of this name. */
static void room(matrices *m, const char *name, int64_t n) {
    cfx__c_scratch(m->c, m->scratch + 8 * n);
    cfx__c_line(m->c, "double *%s = (double *)%s;", name, cfx__c_scratch_at(m->c, m->scratch));
    m->scratch += (8 * n + 63) / 64 * 64;
}

/* A tensor without its last dims, one of those that the batch goes over; its number. */
static int add_batch(matrices *m, const cfx__c_ref *r, int last) {
    const int n = r->ndim - last;
    return cfx__c_walk_add(&m->w, cfx__c_ref_like(m->c, r, n, r->shape, r->stride));
}

static matrices begin(cfx__c *c, const cfx__c_ref *of, int last) {
    matrices m = {.c = c, .w = cfx__c_walk_over(of->ndim - last, of->shape)};
    m.w.serial = true;
    return m;
}

/* Where element (row, col) of a matrix is, number k of the batch; a vector has one column. */
static const char *at(const matrices *m, int k, const cfx__c_ref *r, bool vector, bool transposed) {
    const int64_t down = r->stride[r->ndim - (vector ? 1 : 2)];
    const int64_t across = vector ? 0 : r->stride[r->ndim - 1];
    const char *base = cfx__c_at(&m->w, k);
    return cfx__text_format("%s%srow * %lld + col * %lld", strcmp(base, "0") ? base : "",
                            strcmp(base, "0") ? " + " : "", (long long)(transposed ? across : down),
                            (long long)(transposed ? down : across));
}

static void load(const matrices *m, const char *to, const char *from, const cfx__c_ref *r, int k,
                 int64_t rows, int64_t cols, bool vector, bool transposed) {
    cfx__c_open_elements(m->c, rows, cols);
    cfx__c_line(m->c, "%s[row * %lld + col] = (double)%s;", to, (long long)cols,
                cfx__c_load(m->c, from, at(m, k, r, vector, transposed), r->dtype));
    cfx__c_close_elements(m->c);
}

static void store(const matrices *m, const char *to, const cfx__c_ref *r, int k, const char *value,
                  int64_t rows, int64_t cols, bool vector, bool transposed) {
    cfx__c_open_elements(m->c, rows, cols);
    cfx__c_line(m->c, "%s[%s] = %s;", to, at(m, k, r, vector, transposed),
                cfx__c_store(m->c, cfx__c_convert(m->c, value, CFX_F64, r->dtype), r->dtype));
    cfx__c_close_elements(m->c);
}

static const char *element_of(const char *of, int64_t cols) {
    return cfx__text_format("%s[row * %lld + col]", of, (long long)cols);
}

/* ---- LU -------------------------------------------------------------------------------------- */

/* Which results calls have: -1 for those that they do not. */
typedef struct {
    const cfx_op *op;
    int lu, pivots, info, solution, inverse, det, sign, log;
} lu_results;

static const lu_results lu_calls[] = {
    {&cfx_op_linalg_lu_factor_ex, 0, 1, 2, -1, -1, -1, -1, -1},
    {&cfx_op__linalg_solve_ex, 1, 2, 3, 0, -1, -1, -1, -1},
    {&cfx_op_linalg_inv_ex, -1, -1, 1, -1, 0, -1, -1, -1},
    {&cfx_op__linalg_det, 1, 2, -1, -1, -1, 0, -1, -1},
    {&cfx_op__linalg_slogdet, 2, 3, -1, -1, -1, -1, 0, 1},
};

/* Stores a number for each matrix. */
static void store_one(const matrices *m, const char *to, const cfx__c_ref *r, int k,
                      const char *value, cfx_dtype d) {
    cfx__c_line(m->c, "%s[%s] = %s;", to, cfx__c_at(&m->w, k),
                cfx__c_store(m->c, cfx__c_convert(m->c, value, d, r->dtype), r->dtype));
}

/* linalg_lu_factor_ex, _linalg_solve_ex, linalg_inv_ex, _linalg_det, _linalg_slogdet */
void cfx__c_call_lu(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *args = k->step->bound;
    const cfx__c_refs *out = cfx__c_slot(u, u->slot);
    const cfx__c_ref *x = cfx__c_arg(u, args[0]);
    const lu_results *r = lu_calls;
    while (r->op != k->op)
        r++;
    const int64_t rows = x->shape[x->ndim - 2], cols = x->shape[x->ndim - 1];
    const int64_t least = rows < cols ? rows : cols;
    const cfx__c_ref *b = r->solution < 0 ? NULL : cfx__c_arg(u, args[1]);
    const cfx__c_ref *y = b ? &out->refs[r->solution] : NULL;
    bool vector = b && (b->ndim == 1 || b->ndim == x->ndim - 1);
    for (int i = 0; vector && b->ndim > 1 && i < b->ndim; i++)
        vector = b->shape[i] == x->shape[i];
    const bool left = !b || cfx_as_bool(args[2]);
    const int64_t right = !b || vector ? 1 : left ? y->shape[y->ndim - 1] : y->shape[y->ndim - 2];
    int number[4] = {0};
    matrices m = begin(c, y ? y : x, y && vector ? 1 : 2);
    const int of_x = add_batch(&m, x, 2), of_b = b ? add_batch(&m, b, vector ? 1 : 2) : 0;
    for (int i = 0; i < out->n; i++)
        number[i] = add_batch(&m, &out->refs[i],
                              i == r->lu || i == r->inverse || (i == r->solution && !vector) ? 2
                              : i == r->pivots || i == r->solution                           ? 1
                                                                                             : 0);
    room(&m, "a", rows * cols);
    room(&m, "pivot", (least + 1) / 2);
    if (b || r->inverse >= 0)
        room(&m, "b", rows * (b ? right : rows));
    cfx__c_line(c, "int32_t *pivots = (int32_t *)pivot;");
    cfx__c_pointer(c, x, "x", false);
    if (b)
        cfx__c_pointer(c, b, "y", false);
    for (int i = 0; i < out->n; i++)
        cfx__c_pointer(c, &out->refs[i], cfx__text_format("out%d", i), true);
    cfx__c_walk_open(c, &m.w);
    /* determinants: of the transpose, as in PyTorch, where that is how rows lie */
    load(&m, "a", "x", x, of_x, rows, cols, false,
         (r->det >= 0 || r->sign >= 0) && cfx__c_is_contiguous(x));
    cfx__c_line(c, "%sint32_t info = %s(a, %lld, %lld, pivots);", r->info < 0 ? "" : "const ",
                cfx__c_kernel(c, "lu"), (long long)rows, (long long)cols);
    if (r->info < 0)
        cfx__c_line(c, "(void)info;");
    else
        store_one(&m, cfx__text_format("out%d", r->info), &out->refs[r->info], number[r->info],
                  "info", CFX_I32);
    if (r->lu >= 0) {
        const cfx__c_ref *p = &out->refs[r->pivots];
        store(&m, cfx__text_format("out%d", r->lu), &out->refs[r->lu], number[r->lu],
              element_of("a", cols), rows, cols, false, false);
        cfx__c_open(c, "for (int64_t row = 0; row < %lld; row++)", (long long)least);
        cfx__c_line(c, "out%d[%s + row * %lld] = pivots[row];", r->pivots,
                    cfx__c_at(&m.w, number[r->pivots]), (long long)p->stride[p->ndim - 1]);
        cfx__c_close(c);
    }
    if (b)
        load(&m, "b", "y", b, of_b, rows, right, vector, !left);
    if (r->inverse >= 0) {
        cfx__c_open_elements(c, rows, rows);
        cfx__c_line(c, "b[row * %lld + col] = row == col;", (long long)rows);
        cfx__c_close_elements(c);
    }
    if (b || r->inverse >= 0) {
        const int to = b ? r->solution : r->inverse;
        const int64_t n = b ? right : rows;
        cfx__c_line(c, "%s(a, pivots, %lld, %d, b, %lld);", cfx__c_kernel(c, "lu_solve"),
                    (long long)rows, !left, (long long)n);
        store(&m, cfx__text_format("out%d", to), &out->refs[to], number[to], element_of("b", n),
              rows, n, vector, !left);
    }
    if (r->det >= 0 || r->sign >= 0) {
        cfx__c_line(c, "double %s = 1%s;", r->det >= 0 ? "det" : "sign",
                    r->det >= 0 ? "" : ", sum = 0");
        cfx__c_open(c, "for (int64_t row = 0; row < %lld; row++)", (long long)rows);
        cfx__c_line(c, "const double d = pivots[row] == row + 1 ? a[row * %lld] : -a[row * %lld];",
                    (long long)cols + 1, (long long)cols + 1);
        if (r->det >= 0) {
            cfx__c_line(c, "det *= d;");
        } else {
            cfx__c_line(c, "sign *= d > 0 ? 1 : d < 0 ? -1 : d;");
            cfx__c_line(c, "sum += log(fabs(d));");
        }
        cfx__c_close(c);
        if (r->det >= 0)
            store_one(&m, "out0", &out->refs[0], number[0], "det", CFX_F64);
        for (int i = 0; i < 2 && r->det < 0; i++)
            store_one(&m, cfx__text_format("out%d", i), &out->refs[i], number[i],
                      i ? "sum" : "sign", CFX_F64);
    }
    cfx__c_walk_close(c, &m.w);
}

/* The pivots of a matrix in the room `pivot`, each of which is in range. */
static void load_pivots(const matrices *m, const cfx__c_ref *r, int k, int64_t n, int64_t rows) {
    const char *base = cfx__c_at(&m->w, k);
    const char *at =
        cfx__text_format("%s%srow * %lld", strcmp(base, "0") ? base : "",
                         strcmp(base, "0") ? " + " : "", (long long)r->stride[r->ndim - 1]);
    cfx__c_line(m->c, "int32_t *pivots = (int32_t *)pivot;");
    cfx__c_open(m->c, "for (int64_t row = 0; row < %lld; row++)", (long long)n);
    cfx__c_line(m->c, "pivots[row] = (int32_t)%s + 1;", /* they count from 1 */
                cfx__c_checked_number(m->c, cfx__text_format("(int64_t)p[%s] - 1", at), rows));
    cfx__c_close(m->c);
}

/* lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots): P, L, U */
void cfx__c_call_lu_unpack(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *args = k->step->bound;
    const cfx__c_refs *out = cfx__c_slot(u, u->slot);
    const cfx__c_ref *x = cfx__c_arg(u, args[0]), *p = cfx__c_arg(u, args[1]);
    const bool data = cfx_as_bool(args[2]), order = cfx_as_bool(args[3]);
    const int64_t rows = x->shape[x->ndim - 2], cols = x->shape[x->ndim - 1];
    const int64_t least = rows < cols ? rows : cols;
    int number[3] = {0};
    matrices m = begin(c, x, 2);
    const int of_x = add_batch(&m, x, 2), of_p = add_batch(&m, p, 1);
    for (int i = 0; i < 3; i++)
        number[i] = (i ? data : order) ? add_batch(&m, &out->refs[i], 2) : 0;
    if (data)
        cfx__c_pointer(c, x, "x", false);
    for (int i = 0; i < 3; i++)
        if (i ? data : order)
            cfx__c_pointer(c, &out->refs[i], cfx__text_format("out%d", i), true);
    if (order) {
        cfx__c_pointer(c, p, "p", false);
        room(&m, "pivot", (least + 1) / 2);
        room(&m, "order", (rows + 1) / 2);
    }
    cfx__c_walk_open(c, &m.w);
    if (order) {
        load_pivots(&m, p, of_p, least, rows);
        cfx__c_line(c, "%s(pivots, %lld, (int32_t *)order, %lld);", cfx__c_kernel(c, "lu_order"),
                    (long long)least, (long long)rows);
        store(&m, "out0", &out->refs[0], number[0], "(((int32_t *)order)[col] == row)", rows, rows,
              false, false);
    }
    const char *value =
        data ? cfx__text_format("(double)%s",
                                cfx__c_load(c, "x", at(&m, of_x, x, false, false), x->dtype))
             : "";
    if (data) {
        store(&m, "out1", &out->refs[1], number[1],
              cfx__text_format("(col < row ? %s : col == row)", value), rows, least, false, false);
        store(&m, "out2", &out->refs[2], number[2], cfx__text_format("(col < row ? 0 : %s)", value),
              least, cols, false, false);
    }
    cfx__c_walk_close(c, &m.w);
}

/* linalg_lu_solve(LU, pivots, B, left, adjoint) */
void cfx__c_call_lu_solve(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *args = k->step->bound;
    const cfx__c_ref *x = cfx__c_arg(u, args[0]), *p = cfx__c_arg(u, args[1]);
    const cfx__c_ref *b = cfx__c_arg(u, args[2]), *y = cfx__c_slot(u, u->slot)->refs;
    const bool left = cfx_as_bool(args[3]), adjoint = cfx_as_bool(args[4]);
    const int64_t n = x->shape[x->ndim - 1], right = y->shape[y->ndim - (left ? 1 : 2)];
    matrices m = begin(c, y, 2);
    const int of_x = add_batch(&m, x, 2), of_p = add_batch(&m, p, 1);
    const int of_b = add_batch(&m, b, 2), of_y = add_batch(&m, y, 2);
    room(&m, "a", n * n);
    room(&m, "pivot", (n + 1) / 2);
    room(&m, "b", n * right);
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, p, "p", false);
    cfx__c_pointer(c, b, "y", false);
    cfx__c_pointer(c, y, "out", true);
    cfx__c_walk_open(c, &m.w);
    load(&m, "a", "x", x, of_x, n, n, false, false);
    load_pivots(&m, p, of_p, n, n);
    load(&m, "b", "y", b, of_b, n, right, false, !left);
    /* x a = b is a' x' = b' */
    cfx__c_line(c, "%s(a, pivots, %lld, %d, b, %lld);", cfx__c_kernel(c, "lu_solve"), (long long)n,
                left == adjoint, (long long)right);
    store(&m, "out", y, of_y, element_of("b", right), n, right, false, !left);
    cfx__c_walk_close(c, &m.w);
}

/* ---- triangles ------------------------------------------------------------------------------- */

/* linalg_cholesky_ex(self, upper, check_errors), cholesky(self, upper) */
void cfx__c_call_cholesky(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx__c_refs *out = cfx__c_slot(u, u->slot);
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]), *l = &out->refs[0];
    const int64_t n = x->shape[x->ndim - 1];
    const bool upper = cfx_as_bool(k->step->bound[1]);
    matrices m = begin(c, x, 2);
    const int of_x = add_batch(&m, x, 2), of_l = add_batch(&m, l, 2);
    const int of_info = out->n > 1 ? add_batch(&m, &out->refs[1], 0) : 0;
    room(&m, "a", n * n);
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, l, "out", true);
    if (out->n > 1)
        cfx__c_pointer(c, &out->refs[1], "info", true);
    cfx__c_walk_open(c, &m.w);
    load(&m, "a", "x", x, of_x, n, n, false, upper);
    const char *call = cfx__text_format("%s(a, %lld)", cfx__c_kernel(c, "cholesky"), (long long)n);
    if (out->n > 1)
        store_one(&m, "info", &out->refs[1], of_info, call, CFX_I32);
    else /* there is nobody to tell */
        cfx__c_line(c, "if (%s != 0)\n        *c->bad = 1;", call);
    store(&m, "out", l, of_l, element_of("a", n), n, n, false, upper);
    cfx__c_walk_close(c, &m.w);
}

/* linalg_solve_triangular(self, B, upper, left, unitriangular); cholesky_solve(self, input2,
 * upper), whose matrix is the second */
void cfx__c_call_triangular(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *args = k->step->bound;
    const bool twice = k->op == &cfx_op_cholesky_solve;
    const cfx__c_ref *x = cfx__c_arg(u, args[twice]), *b = cfx__c_arg(u, args[!twice]);
    const cfx__c_ref *y = cfx__c_slot(u, u->slot)->refs;
    const bool upper = cfx_as_bool(args[2]), left = twice || cfx_as_bool(args[3]);
    const bool ones = !twice && cfx_as_bool(args[4]);
    const int64_t n = x->shape[x->ndim - 1];
    const int64_t right = y->shape[y->ndim - (left ? 1 : 2)];
    matrices m = begin(c, y, 2);
    const int of_x = add_batch(&m, x, 2), of_b = add_batch(&m, b, 2), of_y = add_batch(&m, y, 2);
    room(&m, "a", n * n);
    room(&m, "b", n * right);
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, b, "y", false);
    cfx__c_pointer(c, y, "out", true);
    cfx__c_walk_open(c, &m.w);
    load(&m, "a", "x", x, of_x, n, n, false, false);
    load(&m, "b", "y", b, of_b, n, right, false, !left);
    /* x a = b is a' x' = b', and a' of an upper triangle is a lower one */
    for (int i = 0; i <= twice; i++) {
        const bool turned = twice ? (i == 0) == upper : !left;
        cfx__c_line(c, "%s(a, %lld, %d, %d, %d, b, %lld);", cfx__c_kernel(c, "triangular"),
                    (long long)n, upper != turned, ones, turned, (long long)right);
    }
    store(&m, "out", y, of_y, element_of("b", right), n, right, false, !left);
    cfx__c_walk_close(c, &m.w);
}

/* linalg_qr(A, mode): "reduced", "complete" or "r" */
void cfx__c_call_qr(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx__c_refs *out = cfx__c_slot(u, u->slot);
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]), *q = &out->refs[0], *r = &out->refs[1];
    const int64_t rows = x->shape[x->ndim - 2], cols = x->shape[x->ndim - 1];
    const int64_t least = rows < cols ? rows : cols;
    const bool r_alone = !strcmp(cfx_text(k->step->bound[1]), "r");
    const int64_t columns = r_alone ? 0 : q->shape[q->ndim - 1];
    matrices m = begin(c, x, 2);
    const int of_x = add_batch(&m, x, 2), of_r = add_batch(&m, r, 2);
    const int of_q = r_alone ? 0 : add_batch(&m, q, 2);
    room(&m, "a", rows * cols);
    room(&m, "v", rows * least);
    room(&m, "b", rows * columns);
    cfx__c_pointer(c, x, "x", false);
    if (!r_alone)
        cfx__c_pointer(c, q, "q", true);
    cfx__c_pointer(c, r, "r", true);
    cfx__c_walk_open(c, &m.w);
    load(&m, "a", "x", x, of_x, rows, cols, false, false);
    cfx__c_line(c, "%s(a, %lld, %lld, b, %lld, v);", cfx__c_kernel(c, "qr"), (long long)rows,
                (long long)cols, (long long)columns);
    if (!r_alone)
        store(&m, "q", q, of_q, element_of("b", columns), rows, columns, false, false);
    store(&m, "r", r, of_r, element_of("a", cols), r->shape[r->ndim - 2], cols, false, false);
    cfx__c_walk_close(c, &m.w);
}

/* ---- eigenvalues ----------------------------------------------------------------------------- */

/* _linalg_eigh(A, UPLO, compute_v) */
void cfx__c_call_eigh(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *args = k->step->bound;
    const cfx__c_refs *out = cfx__c_slot(u, u->slot);
    const cfx__c_ref *x = cfx__c_arg(u, args[0]), *values = &out->refs[0];
    const int64_t n = x->shape[x->ndim - 1];
    const bool upper = *cfx_text(args[1]) == 'U' || *cfx_text(args[1]) == 'u';
    const bool vectors = cfx_as_bool(args[2]);
    matrices m = begin(c, x, 2);
    const int of_x = add_batch(&m, x, 2), of_values = add_batch(&m, values, 1);
    const int of_q = vectors ? add_batch(&m, &out->refs[1], 2) : 0;
    room(&m, "a", n * n);
    room(&m, "d", n);
    room(&m, "work", n * n + 2 * n);
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, values, "values", true);
    if (vectors)
        cfx__c_pointer(c, &out->refs[1], "q", true);
    cfx__c_walk_open(c, &m.w);
    /* the other triangle is not looked at */
    cfx__c_open_elements(c, n, n);
    cfx__c_line(c, "if (col %s row)", upper ? ">=" : "<=");
    cfx__c_line(c, "    a[row * %lld + col] = a[col * %lld + row] = (double)%s;", (long long)n,
                (long long)n, cfx__c_load(c, "x", at(&m, of_x, x, false, false), x->dtype));
    cfx__c_close_elements(c);
    cfx__c_line(c, "if (%s(a, %lld, %d, %d, %s, d, work) != 0)\n        *c->bad = 1;",
                cfx__c_kernel(c, "eigen"), (long long)n, upper, vectors,
                x->dtype == CFX_F64 ? "1.1102230246251565e-16" : "5.9604644775390625e-08");
    store(&m, "values", values, of_values, "d[row]", n, 1, true, false);
    if (vectors)
        store(&m, "q", &out->refs[1], of_q, element_of("a", n), n, n, false, false);
    cfx__c_walk_close(c, &m.w);
}
