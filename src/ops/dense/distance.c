/* Distances between the rows of matrices. */
#include "../back.h"

#include <tgmath.h>

CFX_FAMILY(LINEAR);
#undef I

typedef struct {
    const void *x, *y;
    const void *grad, *distance; /* backward: of the distances, and they themselves */
    void *out;
    int64_t x_rows, y_rows, columns;
    double p;
    bool pairs; /* of the rows of one matrix */
    bool f64;
} distances;

#define T float
#define FN(x) x##_f32
#include "distance.inc"
#define T double
#define FN(x) x##_f64
#include "distance.inc"

static void range(void *arg, int64_t begin, int64_t end) {
    const distances *d = arg;
    if (d->f64)
        (d->grad ? back_f64 : rows_f64)(d, begin, end);
    else
        (d->grad ? back_f32 : rows_f32)(d, begin, end);
}

static void run(const distances *d, int64_t rows) {
    double each = (double)d->y_rows * (double)(d->columns + 1);
    cfx__parallel(rows, cfx__grain(each), range, (void *)d);
}

static bool is_norm(cfx_op_call *c, const char *fn, double p) {
    if (!(p >= 0))
        op_fail(c, "%s only supports non-negative p values", fn);
    return p >= 0;
}

/* ---- cdist ----------------------------------------------------------------------------------- */

static bool cdist_fits(cfx_op_call *c, int *ndim, int64_t *shape) {
    const cfx_tensor *x[2] = {arg_tensor(c, 0), arg_tensor(c, 1)};
    for (int i = 0; i < 2; i++)
        if (x[i]->ndim < 2) {
            op_fail(c, "cdist only supports at least 2D tensors, X%d got: %dD", i + 1, x[i]->ndim);
            return false;
        }
    const int64_t columns = x[0]->shape[x[0]->ndim - 1], others = x[1]->shape[x[1]->ndim - 1];
    const int64_t mode = arg_is_none(c, 3) ? 0 : arg_int(c, 3);
    if (columns != others) {
        op_fail(c, "X1 and X2 must have the same number of columns. X1: %lld X2: %lld",
                (long long)columns, (long long)others);
        return false;
    }
    for (int i = 0; i < 2; i++)
        if (!cfx__dtype_is_float(x[i]->dtype)) {
            op_fail(c, "cdist only supports floating-point dtypes, X%d got: %s", i + 1,
                    cfx__dtype_title(x[i]->dtype));
            return false;
        }
    if (!is_norm(c, "cdist", arg_float(c, 2)))
        return false;
    if (mode < 0 || mode > 2)
        op_fail(c, "possible modes: 0, 1, 2, but was: %lld", (long long)mode);
    else if (x[0]->dtype != x[1]->dtype)
        op_fail(c, "expected scalar type %s but found %s", cfx__dtype_title(x[0]->dtype),
                cfx__dtype_title(x[1]->dtype));
    if (op_failed())
        return false;
    *ndim = 0;
    for (int i = 0; i < 2; i++)
        if (x[i]->ndim > 2 &&
            !cfx__shape_broadcast(c->at, ndim, shape, x[i]->ndim - 2, x[i]->shape))
            return false;
    if (*ndim + 2 > CFX_MAX_DIMS) {
        op_fail(c, "tensor has too many (>%d) dims", CFX_MAX_DIMS);
        return false;
    }
    shape[(*ndim)++] = x[0]->shape[x[0]->ndim - 2];
    shape[(*ndim)++] = x[1]->shape[x[1]->ndim - 2];
    return true;
}

/* Whether PyTorch takes the way through a product of matrices. */
static bool by_product(const cfx_op_call *c, int64_t rows, int64_t others) {
    const int64_t mode = arg_is_none(c, 3) ? 0 : arg_int(c, 3);
    return arg_float(c, 2) == 2 && (mode == 1 || (mode == 0 && (rows > 25 || others > 25)));
}

static void shape_cdist_forward(cfx_op_call *c) {
    int64_t shape[CFX_MAX_DIMS];
    int n;
    if (cdist_fits(c, &n, shape))
        out_new(c, 0, arg_tensor(c, 0)->dtype, n, shape);
}

static void kernel_cdist_forward(cfx_op_call *c) {
    cfx_tensor *out = c->out[0], *x[2];
    const int n = out->ndim;
    const int64_t rows = out->shape[n - 2], others = out->shape[n - 1];
    if (!out->numel)
        return;
    for (int i = 0; i < 2; i++) {
        int64_t shape[CFX_MAX_DIMS];
        x[i] = arg_tensor(c, i);
        memcpy(shape, out->shape, (size_t)(n - 2) * sizeof *shape);
        shape[n - 2] = x[i]->shape[x[i]->ndim - 2];
        shape[n - 1] = x[i]->shape[x[i]->ndim - 1];
        x[i] = cfx_expand(x[i], cfx_ints_value(n, shape));
        if (op_failed())
            return;
    }
    const int64_t columns = x[0]->shape[n - 1];
    if (columns && by_product(c, rows, others)) {
        cfx_tensor *y = cfx_aten__euclidean_dist(x[0], x[1]);
        if (!op_failed())
            cfx__tensor_copy(out, y);
        return;
    }
    x[0] = cfx__tensor_contiguous(x[0]), x[1] = cfx__tensor_contiguous(x[1]);
    if (op_failed())
        return;
    distances d = {.x = x[0]->data,
                   .y = x[1]->data,
                   .out = out->data,
                   .x_rows = rows,
                   .y_rows = others,
                   .columns = columns,
                   .p = arg_float(c, 2),
                   .f64 = out->dtype == CFX_F64};
    run(&d, out->numel / others);
}

static void decompose_euclidean_dist(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *y = arg_tensor(c, 1);
    cfx_tensor *x_norm = cfx_sum(cfx_pow(x, 2), cfx_list(-1), cfx_bool(true)),
               *x_pad = cfx_ones_like(x_norm);
    cfx_tensor *y_norm = cfx_sum(cfx_pow(y, 2), cfx_list(-1), cfx_bool(true)),
               *y_pad = cfx_ones_like(y_norm);
    cfx_tensor *left = cfx_cat(cfx_list(cfx_mul(x, -2), x_norm, x_pad), -1);
    cfx_tensor *right = cfx_cat(cfx_list(y, y_pad, y_norm), -1);
    cfx_tensor *squares = cfx_matmul(left, cfx_mT(right));
    c->out[0] = cfx_sqrt(cfx_clamp_min(squares, 0));
}

static void decompose_cdist(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *y = arg_tensor(c, 1);
    int64_t shape[CFX_MAX_DIMS];
    int n;
    if (!cdist_fits(c, &n, shape))
        return;
    if (!by_product(c, shape[n - 2], shape[n - 1]))
        x = cfx_contiguous(x), y = cfx_contiguous(y);
    c->out[0] = cfx_aten__cdist_forward(x, y, c->args[2], c->args[3]);
}

/* Whether the tensors among n arguments are of one floating-point type. */
static bool alike(const cfx_op_call *c, int n) {
    const cfx_dtype d = arg_tensor(c, 0)->dtype;
    for (int i = 0; i < n; i++)
        if (arg_tensor(c, i) && arg_tensor(c, i)->dtype != d)
            return false;
    return cfx__dtype_is_float(d);
}

/* grad, x1, x2, p, cdist: the gradient of x1. */
static void shape_cdist_backward(cfx_op_call *c) {
    const cfx_tensor *g = arg_tensor(c, 0), *x = arg_tensor(c, 1), *y = arg_tensor(c, 2);
    const cfx_tensor *d = arg_tensor(c, 4);
    const int n = g->ndim;
    if (!alike(c, 5) || n < 2 || x->ndim < 2 || y->ndim < 2 || !cfx__tensor_same_shape(g, d) ||
        g->shape[n - 2] != x->shape[x->ndim - 2] || g->shape[n - 1] != y->shape[y->ndim - 2] ||
        x->shape[x->ndim - 1] != y->shape[y->ndim - 1]) {
        op_fail(c, "_cdist_backward: grad, x1, x2 and cdist do not fit");
        return;
    }
    int64_t shape[CFX_MAX_DIMS];
    memcpy(shape, g->shape, (size_t)n * sizeof *shape);
    shape[n - 1] = x->shape[x->ndim - 1];
    out_new(c, 0, x->dtype, n, shape);
}

static void kernel_cdist_backward(cfx_op_call *c) {
    cfx_tensor *out = c->out[0], *g = cfx__tensor_contiguous(arg_tensor(c, 0)), *x[2];
    cfx_tensor *cdist = cfx__tensor_contiguous(arg_tensor(c, 4));
    const int n = out->ndim;
    if (!g->numel) { /* no distance has a gradient */
        cfx__tensor_fill(out, cfx_int(0));
        return;
    }
    if (!out->numel)
        return;
    for (int i = 0; i < 2; i++) {
        int64_t shape[CFX_MAX_DIMS];
        memcpy(shape, out->shape, (size_t)n * sizeof *shape);
        shape[n - 2] = g->shape[n - 2 + i];
        x[i] = cfx__tensor_contiguous(cfx_expand(arg_tensor(c, 1 + i), cfx_ints_value(n, shape)));
    }
    if (op_failed())
        return;
    distances d = {.x = x[0]->data,
                   .y = x[1]->data,
                   .grad = g->data,
                   .distance = cdist->data,
                   .out = out->data,
                   .x_rows = g->shape[n - 2],
                   .y_rows = g->shape[n - 1],
                   .columns = out->shape[n - 1],
                   .p = arg_float(c, 3),
                   .f64 = out->dtype == CFX_F64};
    run(&d, out->numel / d.columns);
}

CFX_OP(_cdist_backward) = {
    "aten::_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor",
    "torch._cdist_backward", .shape = shape_cdist_backward, .kernel = kernel_cdist_backward,
    .dtypes = CFX_IN_FLOAT, .out = "out"};

static void grad_cdist(cfx_back *b) {
    cfx_tensor *g = b->gout[0], *d = b->out[0];
    if (b->needs[0])
        back_give_sum(b, 0, cfx_aten__cdist_backward(g, b->args[0], b->args[1], b->args[2], d));
    if (b->needs[1])
        back_give_sum(
            b, 1,
            cfx_aten__cdist_backward(cfx_mT(g), b->args[1], b->args[0], b->args[2], cfx_mT(d)));
}

CFX_OP(_cdist_forward) = {
    "aten::_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor",
    "torch._cdist_forward", .shape = shape_cdist_forward, .kernel = kernel_cdist_forward,
    .dtypes = CFX_IN_FLOAT, GRAD(cdist, READ(0) | READ(1) | RESULT(0)), .out = "out"};
CFX_OP(_euclidean_dist) = {"aten::_euclidean_dist(Tensor x1, Tensor x2) -> Tensor",
                           "torch._euclidean_dist", .decompose = decompose_euclidean_dist,
                           .out = "out"};
CFX_OP(cdist) = {"aten::cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor",
                 "torch.cdist", .decompose = decompose_cdist,
                 .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32};

/* ---- pdist ----------------------------------------------------------------------------------- */

static bool pdist_fits(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    if (x->ndim != 2)
        op_fail(c, "pdist only supports 2D tensors, got: %dD", x->ndim);
    else if (!cfx__dtype_is_float(x->dtype))
        op_fail(c, "pdist only supports floating-point dtypes");
    else
        is_norm(c, "pdist", arg_float(c, 1));
    return !op_failed();
}

static void shape_pdist_forward(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    if (!pdist_fits(c))
        return;
    int64_t n = x->shape[0], pairs;
    if (__builtin_mul_overflow(n, n - 1, &pairs)) {
        op_fail(c, "pdist: too many rows");
        return;
    }
    out_new(c, 0, x->dtype, 1, (int64_t[]){n > 1 ? pairs / 2 : 0});
}

static void kernel_pdist_forward(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    distances d = {.x = x->data,
                   .y = x->data,
                   .out = c->out[0]->data,
                   .x_rows = x->shape[0],
                   .y_rows = x->shape[0],
                   .columns = x->shape[1],
                   .p = arg_float(c, 1),
                   .pairs = true,
                   .f64 = x->dtype == CFX_F64};
    if (c->out[0]->numel)
        run(&d, x->shape[0]);
}

static void decompose_pdist(cfx_op_call *c) {
    if (pdist_fits(c))
        c->out[0] = cfx_aten__pdist_forward(cfx_contiguous(arg_tensor(c, 0)), c->args[1]);
}

/* grad, self, p, pdist */
static void shape_pdist_backward(cfx_op_call *c) {
    const cfx_tensor *g = arg_tensor(c, 0), *x = arg_tensor(c, 1), *d = arg_tensor(c, 3);
    const int64_t n = x->ndim == 2 ? x->shape[0] : 0;
    if (!alike(c, 4) || x->ndim != 2 || !cfx__tensor_same_shape(g, d) || g->ndim != 1 ||
        g->numel != (n > 1 ? n * (n - 1) / 2 : 0)) {
        op_fail(c, "_pdist_backward: grad, self and pdist do not fit");
        return;
    }
    out_new(c, 0, x->dtype, 2, x->shape);
}

static void kernel_pdist_backward(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 1);
    distances d = {.x = x->data,
                   .y = x->data,
                   .grad = arg_tensor(c, 0)->data,
                   .distance = arg_tensor(c, 3)->data,
                   .out = c->out[0]->data,
                   .x_rows = x->shape[0],
                   .y_rows = x->shape[0],
                   .columns = x->shape[1],
                   .p = arg_float(c, 2),
                   .pairs = true,
                   .f64 = x->dtype == CFX_F64};
    if (c->out[0]->numel && d.grad)
        run(&d, x->shape[0]);
    else
        cfx__tensor_fill(c->out[0], cfx_int(0));
}

CFX_OP(_pdist_backward) = {
    "aten::_pdist_backward(Tensor grad, Tensor self, float p, Tensor pdist) -> Tensor",
    "torch._pdist_backward", .shape = shape_pdist_backward, .kernel = kernel_pdist_backward,
    .dtypes = CFX_IN_FLOAT, .effects = CFX_CONTIGUOUS_ARGS, .out = "out"};

static void grad_pdist(cfx_back *b) {
    back_give(b, 0, cfx_aten__pdist_backward(b->gout[0], b->args[0], b->args[1], b->out[0]));
}

CFX_OP(_pdist_forward) = {"aten::_pdist_forward(Tensor self, float p=2.) -> Tensor",
                          "torch._pdist_forward",
                          .shape = shape_pdist_forward,
                          .kernel = kernel_pdist_forward,
                          .dtypes = CFX_IN_FLOAT,
                          .effects = CFX_CONTIGUOUS_ARGS, GRAD(pdist, READ(0) | RESULT(0)),
                          .out = "out"};
CFX_OP(pdist) = {"aten::pdist(Tensor self, float p=2.) -> Tensor",
                 "torch.pdist torch.nn.functional.pdist", .decompose = decompose_pdist,
                 .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32_ON_GPU};
