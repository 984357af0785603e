/* Grouped products, as mixtures of experts have them: many products in one call, where `offs` says
 * at which row, column or inner place each group ends. Start at groups_of. */
#include "../back.h"
#include "../dense.h"
#include "gemm.h"

/* One operand is cut along a dimension, the other has a matrix for each group:
 *
 *   self [m, k],    mat2 [g, k, n]:  rows of self are cut,          result [m, n]
 *   self [g, m, k], mat2 [k, n]:     columns of mat2 are cut,       result [m, n]
 *   self [m, k],    mat2 [k, n]:     the inner dimension is cut,    result [g, m, n]
 *   self [g, m, k], mat2 [g, k, n]:  nothing is: products of a batch */
typedef enum { CUT_ROWS, CUT_COLUMNS, CUT_INNER, CUT_NOTHING } cut;

typedef struct {
    const cfx_tensor *a, *b, *offs;
    cut cut;
} groups;

static groups groups_of(const cfx_op_call *c) {
    groups g = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), CUT_NOTHING};
    if (g.a->ndim == 2)
        g.cut = g.b->ndim == 2 ? CUT_INNER : CUT_ROWS;
    else if (g.b->ndim == 2)
        g.cut = CUT_COLUMNS;
    return g;
}

/* Whether the operands go together; an error in PyTorch's words where not. */
static bool groups_fit(cfx_op_call *c, const groups *g) {
    const cfx_tensor *a = g->a, *b = g->b, *offs = g->offs;
    if (a->ndim < 2 || a->ndim > 3 || b->ndim < 2 || b->ndim > 3)
        op_fail(c, "Multiplicands must be 2D or 3D but got mat_a.dim()=%d and mat_b.dim()=%d",
                a->ndim, b->ndim);
    else if (a->dtype != b->dtype)
        op_fail(c, "expected m1 and m2 to have the same dtype, but got: %s != %s",
                gemm_cpp_name(a->dtype), gemm_cpp_name(b->dtype));
    else if (!cfx__dtype_is_float(a->dtype))
        op_fail(c, "Expected inputs of floating-point type but got mat_a.dtype=torch.%s",
                cfx__dtype_title(a->dtype));
    else if (a->shape[a->ndim - 1] != b->shape[b->ndim - 2])
        op_fail(c, "contraction dimension of mat_a and mat_b must match");
    else if ((offs != NULL) != (g->cut != CUT_NOTHING))
        op_fail(c, "Have to provide offsets if there is a 2d matrix, or no offset if both matrices "
                   "are 3d");
    else if (offs && offs->ndim != 1)
        op_fail(c, "offs has to be 1D");
    else if (offs && offs->dtype != CFX_I32)
        op_fail(c, "Offsets have to be int32");
    else if (g->cut == CUT_ROWS && offs->shape[0] != b->shape[0])
        op_fail(c, "matrix batch sizes have to match");
    else if (g->cut == CUT_COLUMNS && offs->shape[0] != a->shape[0])
        op_fail(c, "matrix batch sizes have to match");
    else if (g->cut == CUT_NOTHING && a->shape[0] != b->shape[0])
        op_fail(c, "batched dimension has to match");
    return !op_failed();
}

/* self, mat2, offs, bias, out_dtype. Rows of the result start at multiples of 16 bytes. */
static void shape_grouped(cfx_op_call *c) {
    const groups g = groups_of(c);
    if (!groups_fit(c, &g))
        return;
    if (!arg_is_none(c, 3)) {
        op_fail(c, "Bias not supported yet");
        return;
    }
    const cfx_dtype dtype = (cfx_dtype)g.a->dtype;
    if (arg_dtype(c, 4, dtype) != dtype) {
        op_fail(c, "Grouped gemm output dtype must match `mat_a` dtype");
        return;
    }
    const int64_t m = g.a->shape[g.a->ndim - 2], n = g.b->shape[g.b->ndim - 1];
    const int64_t wide = 16 / cfx_dtype_size(dtype);
    int64_t row;
    if (__builtin_add_overflow(n, wide - 1, &row)) {
        op_fail_large(c, "a result with %lld columns is too large", (long long)n);
        return;
    }
    row -= row % wide;
    if (g.cut == CUT_ROWS || g.cut == CUT_COLUMNS) {
        out_strided(c, 0, dtype, 2, (int64_t[]){m, n}, (int64_t[]){row, 1});
        return;
    }
    int64_t matrix;
    if (__builtin_mul_overflow(m, row, &matrix))
        matrix = INT64_MAX; /* refused for its size */
    const int64_t count = g.offs ? g.offs->shape[0] : g.a->shape[0];
    out_strided(c, 0, dtype, 3, (int64_t[]){count, m, n}, (int64_t[]){matrix, row, 1});
}

/* Elements from `from` on, along a dimension whose stride is given. */
static char *skip(const matrices *m, int64_t from, int64_t stride, int size) {
    return m->data + from * stride * size;
}

/* Group number i of the product whole, from place `from` of what is cut to place `to`. */
static gemm group_at(const gemm *whole, cut how, int64_t i, int64_t from, int64_t to) {
    gemm g = *whole;
    const int size = cfx_dtype_size(g.dtype);
    if (how != CUT_ROWS && how != CUT_INNER)
        g.a.data = skip(&g.a, i, g.a.batch, size);
    if (how != CUT_COLUMNS && how != CUT_INNER)
        g.b.data = skip(&g.b, i, g.b.batch, size);
    if (how == CUT_INNER || how == CUT_NOTHING)
        g.c.data = skip(&g.c, i, g.c.batch, size);
    if (how == CUT_ROWS) {
        g.m = to - from;
        g.a.data = skip(&g.a, from, g.a.row, size);
        g.c.data = skip(&g.c, from, g.c.row, size);
    } else if (how == CUT_COLUMNS) {
        g.n = to - from;
        g.b.data = skip(&g.b, from, g.b.col, size);
        g.c.data = skip(&g.c, from, g.c.col, size);
    } else if (how == CUT_INNER) {
        g.k = to - from;
        g.a.data = skip(&g.a, from, g.a.col, size);
        g.b.data = skip(&g.b, from, g.b.row, size);
    }
    return g;
}

/* What no group reaches is zero. */
static void kernel_grouped(cfx_op_call *c) {
    const groups in = groups_of(c);
    cfx_tensor *out = c->out[0];
    const gemm whole = {.dtype = out->dtype,
                        .batch = 1,
                        .m = in.a->shape[in.a->ndim - 2],
                        .n = in.b->shape[in.b->ndim - 1],
                        .k = in.a->shape[in.a->ndim - 1],
                        .alpha = cfx_int(1),
                        .beta = cfx_int(0),
                        .a = matrices_of(in.a),
                        .b = matrices_of(in.b),
                        .c = matrices_of(out)};
    const int64_t limits[] = {whole.m, whole.n, whole.k, 0};
    const int64_t count = in.offs ? in.offs->shape[0] : in.a->shape[0];
    cfx_zero_(out);
    for (int64_t i = 0, from = 0; i < count && !op_failed(); i++) {
        int64_t to = 0;
        if (in.offs) {
            to = ((const int64_t *)in.offs->data)[i * in.offs->stride[0]];
            if (to < from || to > limits[in.cut]) {
                op_fail(c, "%s: offs[%lld] is %lld, outside of [%lld, %lld]", op_title(c),
                        (long long)i, (long long)to, (long long)from, (long long)limits[in.cut]);
                return;
            }
        }
        gemm g = group_at(&whole, in.cut, i, from, to);
        if (g.m && g.n && g.k)
            gemm_run(&g);
        from = to;
    }
}

/* Each of the four forms goes back to another of them, cut along the same dimension. */
static void grad_grouped(cfx_back *b) {
    const cfx_value offs = b->args[2];
    if (b->needs[0])
        back_give(b, 0, cfx_aten__grouped_mm(b->gout[0], cfx_mT(back_arg(b, 1)), offs));
    if (b->needs[1])
        back_give(b, 1, cfx_aten__grouped_mm(cfx_mT(back_arg(b, 0)), b->gout[0], offs));
}

/* Each row, column or inner place belongs to one group. */
static int64_t flops_grouped(const cfx_op_call *c) {
    const groups g = groups_of(c);
    const int64_t *a = g.a->shape + g.a->ndim - 2, batch = g.cut == CUT_NOTHING ? g.a->shape[0] : 1;
    return flops_of(4, (int64_t[]){batch, a[0], a[1], g.b->shape[g.b->ndim - 1]});
}

CFX_OP(_grouped_mm) = {"aten::_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? "
                       "bias=None, ScalarType? out_dtype=None) -> Tensor",
                       "torch._grouped_mm", .shape = shape_grouped, .kernel = kernel_grouped,
                       .dtypes = GEMM_DTYPES, .flops = flops_grouped,
                       GRAD(grouped, READ(0) | READ(1) | READ(2))};

/* The operator that transformers registers for machines without the one above. */
static void shape_fallback(cfx_op_call *c) {
    const groups g = groups_of(c);
    if (!groups_fit(c, &g))
        return;
    if (g.cut != CUT_ROWS) {
        op_fail(c, "grouped_mm_fallback: expected a 2D input and 3D weights, got %dD and %dD",
                g.a->ndim, g.b->ndim);
        return;
    }
    out_new(c, 0, (cfx_dtype)g.a->dtype, 2, (int64_t[]){g.a->shape[0], g.b->shape[2]});
}

CFX_OP(grouped_mm_fallback) = {
    "transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor", NULL,
    .shape = shape_fallback, .kernel = kernel_grouped, .dtypes = GEMM_DTYPES,
    .flops = flops_grouped, GRAD(grouped, READ(0) | READ(1) | READ(2))};
