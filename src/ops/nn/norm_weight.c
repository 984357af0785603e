/* Weight normalisation: a weight as its direction v and its length g along one dimension. */
#include "../back.h"
#include "../dense.h"

#include <math.h>

CFX_FAMILY(NORM);

/* v seen as [outer, n, inner] around dim; false, with an error, when g does not fit. */
static bool around(cfx_op_call *c, const cfx_tensor *v, const cfx_tensor *g, int64_t *size) {
    int dim = arg_dim(c, 2, v->ndim);
    if (dim < 0)
        return false;
    if (dim != 0 && dim != v->ndim - 1) {
        op_fail(c, "fused kernels can only be applied for first or last dim");
        return false;
    }
    size[0] = size[2] = 1;
    size[1] = v->ndim ? v->shape[dim] : 1;
    for (int d = 0; d < v->ndim && v->numel; d++)
        if (d != dim)
            size[d < dim ? 0 : 2] *= v->shape[d];
    if (g->numel != size[1] || g->dtype != v->dtype || !cfx__dtype_is_float(v->dtype)) {
        op_fail(
            c,
            "_weight_norm: expected g of %lld elements and dtype %s, a floating point one, but got "
            "shape %s and dtype %s",
            (long long)size[1], cfx__dtype_title(v->dtype), cfx__shape_text(g->ndim, g->shape),
            cfx__dtype_title(g->dtype));
        return false;
    }
    return true;
}

static void shape_interface(cfx_op_call *c) {
    const cfx_tensor *v = arg_tensor(c, 0), *g = arg_tensor(c, 1);
    int64_t size[3];
    c->out[0] = c->out[1] = &cfx__tensor_bad;
    if (!around(c, v, g, size))
        return;
    out_new(c, 0, v->dtype, v->ndim, v->shape);
    out_strided(c, 1, g->dtype == CFX_BF16 ? CFX_F32 : g->dtype, g->ndim, g->shape, g->stride);
}

#define WEIGHTS(name, T)                                                                           \
    CFX__SIMD static void name(const T *v, const T *g, T *w, T *norm, double *sum,                 \
                               const int64_t *size) {                                              \
        int64_t n = size[1], inner = size[2];                                                      \
        memset(sum, 0, (size_t)n * sizeof *sum);                                                   \
        for (int64_t o = 0; o < size[0]; o++)                                                      \
            for (int64_t k = 0; k < n; k++) {                                                      \
                const T *row = v + (o * n + k) * inner;                                            \
                double s = 0;                                                                      \
                _Pragma("omp simd reduction(+ : s)") for (int64_t i = 0; i < inner; i++) s +=      \
                    (double)row[i] * (double)row[i];                                               \
                sum[k] += s;                                                                       \
            }                                                                                      \
        for (int64_t k = 0; k < n; k++) {                                                          \
            norm[k] = (T)sqrt(sum[k]);                                                             \
            sum[k] = (double)(g[k] / norm[k]);                                                     \
        }                                                                                          \
        for (int64_t o = 0; o < size[0]; o++)                                                      \
            for (int64_t k = 0; k < n; k++) {                                                      \
                int64_t at = (o * n + k) * inner;                                                  \
                T s = (T)sum[k];                                                                   \
                _Pragma("omp simd") for (int64_t i = at; i < at + inner; i++) w[i] = v[i] * s;     \
            }                                                                                      \
    }
WEIGHTS(weights_f32, float)
WEIGHTS(weights_f64, double)

static void kernel_interface(cfx_op_call *c) {
    const cfx_tensor *v = arg_tensor(c, 0), *g = arg_tensor(c, 1);
    int64_t size[3];
    cfx_tensor *norm = dense_out(c, 1);
    double *sum = scratch(c, CFX_F64, g->numel);
    if (op_failed() || !around(c, v, g, size))
        return;
    if (v->dtype == CFX_F32)
        weights_f32((const float *)v->data, (const float *)g->data, (float *)c->out[0]->data,
                    (float *)norm->data, sum, size);
    else
        weights_f64((const double *)v->data, (const double *)g->data, (double *)c->out[0]->data,
                    (double *)norm->data, sum, size);
    dense_done(c, 1, norm);
}

/* w = v g / |v|, with the length over all dims but one; the length is a result too. */
static void grad_weight_norm(cfx_back *b) {
    cfx_tensor *grad = b->gout[0], *v = back_arg(b, 0), *g = back_arg(b, 1), *toward = NULL;
    cfx_tensor *length = cast_to(b->out[1], v->dtype), *unit = cfx_div(v, length);
    if (grad) {
        cfx_tensor *along = sum_to(cfx_mul(grad, unit), g->ndim, g->shape);
        if (b->needs[0])
            toward = cfx_mul(cfx_div(g, length), cfx_sub(grad, cfx_mul(unit, along)));
        if (b->needs[1])
            back_give(b, 1, along);
    }
    if (b->gout[1])
        toward = plus(toward, cfx_mul(cast_to(b->gout[1], v->dtype), unit));
    if (b->needs[0])
        back_give(b, 0, toward);
}

CFX_OP(_weight_norm_interface) = {
    "aten::_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)",
    NULL,
    .shape = shape_interface,
    .kernel = kernel_interface,
    .dtypes = CFX_IN_FLOAT,
    .effects = CFX_CONTIGUOUS_ARGS, GRAD(weight_norm, READ(0) | READ(1) | RESULT(1)),
    .core = core__weight_norm_interface, .out = "out"};

static void decompose_interface_backward(cfx_op_call *c) {
    cfx_value args[] = {c->args[1], c->args[2], c->args[4]}, gin[COUNT(args)];
    back_apply(c, &cfx_op__weight_norm_interface, args, 2,
               (cfx_tensor *[]){NULL, arg_tensor(c, 3)}, (cfx_tensor *[]){arg_tensor(c, 0), NULL},
               1 | 2, gin);
    for (int i = 0; i < 2; i++)
        c->out[i] = tensor_of(gin[i]);
}

CFX_OP(_weight_norm_interface_backward) = {
    "aten::_weight_norm_interface_backward(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor "
    "saved_norms, int dim) -> (Tensor, Tensor)",
    NULL, .decompose = decompose_interface_backward, .out = "out"};
CFX_OP(_weight_norm_differentiable_backward) = {
    "aten::_weight_norm_differentiable_backward(Tensor grad_w, Tensor saved_v, Tensor saved_g, "
    "Tensor saved_norms, int dim) -> (Tensor, Tensor)",
    NULL, .decompose = decompose_interface_backward, .effects = CFX_COMPOSITE};

static void decompose_weight_norm(cfx_op_call *c) {
    cfx_tensor *v = cfx_contiguous(c->args[0]), *g = cfx_contiguous(c->args[1]);
    int64_t dim = arg_int(c, 2);
    if (op_failed())
        return;
    if (dim != 0 && dim != v->ndim - 1) {
        c->out[0] = cfx_mul(v, cfx_div(g, cfx_norm_except_dim(v, 2, dim)));
        return;
    }
    cfx_value r = cfx_aten__weight_norm_interface(v, g, dim);
    if (!op_failed())
        c->out[0] = cfx_tensor_at(r, 0);
}

CFX_OP(_weight_norm) = {"aten::_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor",
                        "torch._weight_norm", .decompose = decompose_weight_norm,
                        .effects = CFX_COMPOSITE};

static void decompose_norm_except_dim(cfx_op_call *c) {
    cfx_tensor *v = arg_tensor(c, 0);
    int64_t dim = arg_int(c, 2), shape[CFX_MAX_DIMS];
    if (dim == -1) {
        c->out[0] = cfx_norm(v, c->args[1]);
        return;
    }
    if (!v->ndim) {
        op_fail_as(INDEX, c, "Dimension specified as %lld but tensor has no dimensions",
                   (long long)dim);
        return;
    }
    if (dim < 0 || dim >= v->ndim) {
        cfx__shape_wrap_dim(c->at, dim < 0 ? v->ndim : dim, v->ndim);
        return;
    }
    for (int d = 0; d < v->ndim; d++)
        shape[d] = d == dim ? v->shape[d] : 1;
    cfx_value out = cfx_ints_value(v->ndim, shape);
    if (dim == 0)
        c->out[0] = cfx_view(
            cfx_norm(cfx_reshape(v, cfx_list(v->shape[0], -1)), c->args[1], cfx_list(1)), out);
    else if (dim == v->ndim - 1)
        c->out[0] = cfx_view(
            cfx_norm(cfx_reshape(v, cfx_list(-1, v->shape[dim])), c->args[1], cfx_list(0)), out);
    else
        c->out[0] =
            cfx_transpose(cfx_norm_except_dim(cfx_transpose(v, 0, dim), c->args[1], 0), 0, dim);
}

CFX_OP(norm_except_dim) = {"aten::norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor",
                           "torch.norm_except_dim", .decompose = decompose_norm_except_dim,
                           .effects = CFX_COMPOSITE};
