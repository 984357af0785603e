/* The exponential of matrices, and cross products. */
#include <cfx/ops.h>
#include <math.h>

#include "linalg.h"

CFX_FAMILY(LINEAR);

/* ---- the exponential ------------------------------------------------------------------------- */

/* Matrices of n x n doubles, or of pairs of doubles, and room for what the steps need. */
typedef struct {
    int n;
    bool pairs;
    int64_t count;                          /* doubles of a matrix */
    double *a2, *a4, *a6, *u, *v, *product; /* one matrix each */
    int *pivots;
} exp_room;

static void multiply(const exp_room *r, const double *a, const double *b, double *out) {
    lapack_for(r->pairs ? CFX_C128 : CFX_F64)->multiply(r->n, a, b, out);
}

/* The largest sum of absolute values of a column. */
static double norm_of(const exp_room *r, const double *a) {
    double largest = 0;
    int64_t each = r->count / r->n;
    for (int64_t j = 0; j < r->n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < each; i += r->pairs ? 2 : 1)
            sum += r->pairs ? hypot(a[j * each + i], a[j * each + i + 1]) : fabs(a[j * each + i]);
        largest = sum > largest || sum != sum ? sum : largest;
    }
    return largest;
}

/* out = b0 I + b2 a2 + b4 a4 + b6 a6. */
static void combine(const exp_room *r, double b0, double b2, double b4, double b6, double *out) {
    for (int64_t i = 0; i < r->count; i++)
        out[i] = b2 * r->a2[i] + b4 * r->a4[i] + b6 * r->a6[i];
    int64_t step = r->count / r->n + (r->pairs ? 2 : 1);
    for (int64_t i = 0; i < r->n; i++)
        out[i * step] += b0;
}

/* a becomes exp(a): the rational approximation of degree 13 after halving a until its norm is
 * small, then as many squarings. */
static void exponentiate(const exp_room *r, double *a) {
    static const double b[] = {64764752532480000., 32382376266240000., 7771770303897600.,
                               1187353796428800.,  129060195264000.,   10559470521600.,
                               670442572800.,      33522128640.,       1323241920.,
                               40840800.,          960960.,            16380.,
                               182.,               1.};
    int halvings = 0;
    double norm = norm_of(r, a);
    if (!isfinite(norm)) {
        for (int64_t i = 0; i < r->count; i++)
            a[i] = NAN;
        return;
    }
    if (norm > 5.371920351148152)
        halvings = (int)ceil(log2(norm / 5.371920351148152));
    for (int64_t i = 0; i < r->count; i++)
        a[i] = ldexp(a[i], -halvings);
    multiply(r, a, a, r->a2);
    multiply(r, r->a2, r->a2, r->a4);
    multiply(r, r->a4, r->a2, r->a6);
    /* u = a (a6 (b13 a6 + b11 a4 + b9 a2) + b7 a6 + b5 a4 + b3 a2 + b1 I) */
    combine(r, 0, b[9], b[11], b[13], r->v);
    multiply(r, r->a6, r->v, r->product);
    combine(r, b[1], b[3], b[5], b[7], r->v);
    for (int64_t i = 0; i < r->count; i++)
        r->v[i] += r->product[i];
    multiply(r, a, r->v, r->u);
    /* v = a6 (b12 a6 + b10 a4 + b8 a2) + b6 a6 + b4 a4 + b2 a2 + b0 I */
    combine(r, 0, b[8], b[10], b[12], r->v);
    multiply(r, r->a6, r->v, r->product);
    combine(r, b[0], b[2], b[4], b[6], r->v);
    for (int64_t i = 0; i < r->count; i++) {
        r->v[i] += r->product[i];
        a[i] = r->v[i] + r->u[i];
        r->v[i] -= r->u[i];
    }
    const lapack *la = lapack_for(r->pairs ? CFX_C128 : CFX_F64);
    la->lu(r->n, r->n, r->v, r->pivots);
    la->lu_solve('N', r->n, r->n, r->v, r->pivots, a);
    for (; halvings; halvings--) {
        multiply(r, a, a, r->product);
        memcpy(a, r->product, (size_t)r->count * sizeof *a);
    }
}

static void shape_matrix_exp(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    if (check_square(c, a, "linalg.matrix_exp") && check_floating(c, a, "linalg.matrix_exp"))
        out_new(c, 0, a->dtype, a->ndim, a->shape);
}

static void kernel_matrix_exp(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    bool pairs = cfx__dtype_is_complex(a->dtype);
    if (!a->numel)
        return;
    /* Row-major matrices are the columns of their transposes, whose exponentials are transposed. */
    cfx_tensor *wide =
        cfx__tensor_empty(c->at, pairs ? CFX_C128 : CFX_F64, false, a->ndim, a->shape, NULL);
    exp_room r = {.n = (int)rows_of(a), .pairs = pairs,
                  .count = rows_of(a) * rows_of(a) * (pairs ? 2 : 1)};
    double *room = scratch(c, CFX_F64, 6 * r.count);
    r.pivots = scratch(c, CFX_I32, r.n);
    if (op_failed())
        return;
    r.a2 = room, r.a4 = room + r.count, r.a6 = room + 2 * r.count, r.u = room + 3 * r.count;
    r.v = room + 4 * r.count, r.product = room + 5 * r.count;
    cfx__tensor_copy(wide, a);
    for (int64_t b = 0; b < batch_of(a); b++)
        exponentiate(&r, nth_matrix(wide, b));
    cfx__tensor_copy(c->out[0], wide);
}

CFX_OP(linalg_matrix_exp) = {
    "aten::linalg_matrix_exp(Tensor self) -> Tensor",
    "torch._C._linalg.linalg_matrix_exp torch.linalg.matrix_exp", .shape = shape_matrix_exp,
    .kernel = kernel_matrix_exp, GRAD(matrix_exp, READ(0)), .out = "out"};
CFX_OP(matrix_exp) = {"aten::matrix_exp(Tensor self) -> Tensor",
                      "torch.matrix_exp Tensor.matrix_exp", ALIAS(linalg_matrix_exp)};

/* ---- cross products -------------------------------------------------------------------------- */

static void shape_cross(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (a->ndim != b->ndim) {
        op_fail(c, "linalg.cross: inputs must have the same number of dimensions.");
        return;
    }
    int dim = arg_dim(c, 2, a->ndim);
    if (dim < 0)
        return;
    if (!a->ndim || a->shape[dim] != 3 || b->shape[dim] != 3) {
        op_fail(c, "linalg.cross: inputs dimension %lld must have length 3. Got %lld and %lld",
                (long long)arg_int(c, 2), (long long)(a->ndim ? a->shape[dim] : 1),
                (long long)(a->ndim ? b->shape[dim] : 1));
        return;
    }
    if (a->dtype != b->dtype || a->dtype == CFX_BOOL) {
        op_fail(c, "linalg.cross: Expected inputs of one numeric dtype, but got %s and %s",
                cfx__dtype_title(a->dtype), cfx__dtype_title(b->dtype));
        return;
    }
    int64_t shape[CFX_MAX_DIMS];
    int n = 0;
    if (cfx__shape_broadcast(c->at, &n, shape, a->ndim, a->shape) &&
        cfx__shape_broadcast(c->at, &n, shape, b->ndim, b->shape))
        out_new(c, 0, a->dtype, n, shape);
}

/* The products of `outer` blocks of three rows of `inner` numbers. M: integers wrap around.*/
#define CROSS(name, M)                                                                             \
    CFX__SIMD static void name(int64_t outer, int64_t inner, const void *pa, const void *pb,       \
                               void *pout) {                                                       \
        const M *a = pa, *b = pb;                                                                  \
        M *out = pout;                                                                             \
        for (int64_t o = 0; o < outer; o++, a += 3 * inner, b += 3 * inner, out += 3 * inner)      \
            for (int64_t i = 0, j = inner, k = 2 * inner; i < inner; i++, j++, k++) {              \
                out[i] = a[j] * b[k] - a[k] * b[j];                                                \
                out[j] = a[k] * b[i] - a[i] * b[k];                                                \
                out[k] = a[i] * b[j] - a[j] * b[i];                                                \
            }                                                                                      \
    }
CROSS(cross_i64, uint64_t)
CROSS(cross_f32, float)
CROSS(cross_f64, double)
CROSS(cross_c64, float _Complex)
CROSS(cross_c128, double _Complex)

/* t with the shape of the result, contiguous. */
static const cfx_tensor *broadcast_to(cfx_op_call *c, const cfx_tensor *t, const cfx_tensor *out) {
    if (cfx__tensor_same_shape(t, out))
        return cfx__tensor_contiguous(t);
    cfx_tensor *copy = cfx__tensor_empty(c->at, t->dtype, false, out->ndim, out->shape, NULL);
    if (copy->data)
        cfx__tensor_copy(copy, t);
    return copy;
}

static void kernel_cross(cfx_op_call *c) {
    cfx_tensor *out = c->out[0];
    const cfx_tensor *a = broadcast_to(c, arg_tensor(c, 0), out);
    const cfx_tensor *b = broadcast_to(c, arg_tensor(c, 1), out);
    int dim = arg_dim(c, 2, out->ndim);
    int64_t outer = 1, inner = 1;
    if (op_failed() || !out->numel)
        return;
    for (int d = 0; d < out->ndim; d++) {
        outer *= d < dim ? out->shape[d] : 1;
        inner *= d > dim ? out->shape[d] : 1;
    }
    switch (out->dtype) {
    case CFX_I64: cross_i64(outer, inner, a->data, b->data, out->data); break;
    case CFX_F32: cross_f32(outer, inner, a->data, b->data, out->data); break;
    case CFX_F64: cross_f64(outer, inner, a->data, b->data, out->data); break;
    case CFX_C64: cross_c64(outer, inner, a->data, b->data, out->data); break;
    default: cross_c128(outer, inner, a->data, b->data, out->data);
    }
}

CFX_OP(linalg_cross) = {
    "aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
    "torch._C._linalg.linalg_cross torch.linalg.cross", .shape = shape_cross,
    .kernel = kernel_cross, .dtypes = CFX_IN_NUMBER | CFX_IN(C64) | CFX_IN(C128),
    GRAD(cross, READ(0) | READ(1)), .core = core_linalg_cross, .out = "out"};

static void decompose_cross(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    int64_t dim = arg_is_none(c, 2) ? 0 : arg_int(c, 2);
    while (arg_is_none(c, 2) && dim < a->ndim && a->shape[dim] != 3)
        dim++;
    if (arg_is_none(c, 2) && dim == a->ndim)
        op_fail(c, "no dimension of size 3 in input");
    else
        c->out[0] = cfx_linalg_cross(c->args[0], c->args[1], CFX_KW(dim, dim));
}

CFX_OP(cross) = {"aten::cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
                 "torch.cross Tensor.cross", .decompose = decompose_cross,
                 .effects = CFX_COMPOSITE, .out = "out"};
