/* matmul and linear: what models call. Both are compositions in PyTorch; the kernels here compute
 * them without the views and copies in between. */
#include <cfx/ops.h>

#include "gemm.h"
#include "../sizes.h"
#include "../views.h"

CFX_FAMILY(LINEAR);

/* ---- matmul ---------------------------------------------------------------------------------- */

/* The operands as batches of matrices: vectors are a row on the left and a column on the right. */
typedef struct {
    int64_t m, n, k, batches;
    int ndim; /* of the batch */
    int64_t batch[CFX_MAX_DIMS];
} matmul_sizes;

/* Contiguous, whatever the strides of dimensions of one element. */
static bool is_packed(const cfx_tensor *t) {
    int64_t expected = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] != 1 && t->stride[i] != expected)
            return false;
        expected *= t->shape[i];
    }
    return true;
}

/* Whether the larger operand can be seen as one matrix without a copy. Of fake tensors PyTorch asks
 * for more: its rule is written twice, in C++ and in Python. */
static bool should_fold(const cfx_tensor *a, const cfx_tensor *b, bool fake) {
    const cfx_tensor *big = a->ndim >= b->ndim ? a : b, *small = a->ndim >= b->ndim ? b : a;
    if (big->ndim < 3 || small->ndim > 2)
        return false;
    if (fake && (small->head.flags & CFX__GRAD))
        return true;
    if (a->ndim == 2)
        return false;
    if (!big->numel)
        return true;
    if (fake)
        return is_packed(big);
    const int n = big->ndim, row = big == a ? n - 2 : n - 1; /* b is seen transposed */
    for (int i = 0; i < n - 2; i++) {
        int next = i + 1 < n - 2 ? i + 1 : row;
        if (big->stride[i] != big->stride[next] * big->shape[next])
            return false;
    }
    return true;
}

/* Whether there is such a product of float8: mm alone takes them. */
static bool has_float8(const cfx_tensor *a, const cfx_tensor *b) {
    return b->ndim == 2 && (a->ndim < 3 || should_fold(a, b, true));
}

static bool matmul_fits(cfx_op_call *c, matmul_sizes *s) {
    const cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (!a->ndim || !b->ndim || a->dtype != b->dtype || a->dtype == CFX_BOOL ||
        (cfx__dtype_is_float8(a->dtype) && !has_float8(a, b)))
        return false;
    *s = (matmul_sizes){.m = a->ndim > 1 ? a->shape[a->ndim - 2] : 1,
                        .k = a->shape[a->ndim - 1],
                        .n = b->ndim > 1 ? b->shape[b->ndim - 1] : 1};
    if (s->k != b->shape[b->ndim > 1 ? b->ndim - 2 : 0])
        return false;
    if (a->ndim > 2 && !cfx__shape_broadcast(c->at, &s->ndim, s->batch, a->ndim - 2, a->shape))
        return false;
    if (b->ndim > 2 && !cfx__shape_broadcast(c->at, &s->ndim, s->batch, b->ndim - 2, b->shape))
        return false;
    s->batches = cfx__shape_numel(c->at, s->ndim, s->batch);
    return s->batches >= 0;
}

static void shape_matmul(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    matmul_sizes s;
    if (!matmul_fits(c, &s)) {
        if (!op_failed())
            out_as_composed(c);
        return;
    }
    int n = s.ndim;
    if (n + 2 > CFX_MAX_DIMS) {
        op_fail(c, "tensor has too many (>%d) dims", CFX_MAX_DIMS);
        return;
    }
    if (a->ndim > 1)
        s.batch[n++] = s.m;
    if (b->ndim > 1)
        s.batch[n++] = s.n;
    out_new(c, 0, a->dtype, n, s.batch);
}

/* Where each batch of t starts, in elements. NULL, with at->batch set, where they lie evenly. */
static const int64_t *batch_offsets(cfx_op_call *c, const cfx_tensor *t, const matmul_sizes *s,
                                    matrices *at) {
    int64_t stride[CFX_MAX_DIMS], index[CFX_MAX_DIMS] = {0};
    int own = t->ndim > 2 ? t->ndim - 2 : 0;
    for (int i = 0; i < s->ndim; i++) {
        int from = i - (s->ndim - own);
        stride[i] = from >= 0 && t->shape[from] != 1 ? t->stride[from] : 0;
    }
    bool even = true;
    int64_t unit = -1, span = 0; /* the stride of the innermost, and what the dims so far span */
    for (int i = s->ndim - 1; i >= 0; i--) {
        if (s->batch[i] == 1)
            continue;
        if (unit < 0)
            unit = stride[i];
        else
            even &= stride[i] == span;
        span = stride[i] * s->batch[i];
    }
    at->batch = unit < 0 ? 0 : unit;
    if (even)
        return NULL;
    int64_t *offset = scratch(c, CFX_I64, s->batches), here = 0;
    if (!offset)
        return NULL;
    for (int64_t b = 0; b < s->batches; b++) {
        offset[b] = here;
        for (int i = s->ndim - 1; i >= 0; i--) {
            here += stride[i];
            if (++index[i] < s->batch[i])
                break;
            here -= stride[i] * s->batch[i];
            index[i] = 0;
        }
    }
    return offset;
}

static void kernel_matmul(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    cfx_tensor *out = c->out[0];
    matmul_sizes s;
    if (!matmul_fits(c, &s))
        return;
    gemm g = {.dtype = (cfx_dtype)out->dtype,
              .batch = s.batches,
              .m = s.m,
              .n = s.n,
              .k = s.k,
              .alpha = cfx_int(1),
              .beta = cfx_int(0),
              .a = matrices_of(a),
              .b = matrices_of(b),
              .c = {out->data, s.m * s.n, s.n, 1, NULL}};
    if (b->ndim == 1)
        g.b = transposed(g.b);
    g.a.at = batch_offsets(c, a, &s, &g.a);
    g.b.at = batch_offsets(c, b, &s, &g.b);
    if (op_failed())
        return;
    /* many matrices times one, where their rows follow each other, are one tall matrix */
    if (!g.b.at && !g.b.batch && !g.a.at && g.batch > 1 &&
        (g.m == 1 || g.a.batch == g.m * g.a.row)) {
        if (g.m == 1)
            g.a.row = g.a.batch;
        g.m *= g.batch;
        g.batch = 1;
    }
    if (g.n == 1 && g.batch == 1) { /* as a row, which lies in order */
        matrices left = g.a;
        g.a = transposed(g.b), g.b = transposed(left);
        g.n = g.m, g.m = 1;
        g.c.row = g.n;
    }
    gemm_run(&g);
}

/* A product in its final shape. For fake tensors PyTorch makes it a view proper, which counts when
 * it is written to. */
static cfx_tensor *in_shape(cfx_op_call *c, cfx_tensor *t, int n, const cfx_value *shape) {
    cfx_value size = cfx_list_value(n, shape);
    return c->fake ? cfx_view(t, size) : cfx_aten__unsafe_view(t, size);
}

static cfx_tensor *folded_product(cfx_op_call *c, cfx_tensor *a, cfx_tensor *b) {
    const bool swap = b->ndim > a->ndim;
    cfx_tensor *big = swap ? cfx_mT(b) : a, *small = !swap ? b : a->ndim == 2 ? cfx_t(a) : a;
    cfx_value shape[CFX_MAX_DIMS];
    if (op_failed())
        return &cfx__tensor_bad;
    int n = big->ndim;
    for (int i = 0; i < n; i++)
        shape[i] = size_of(big, i);
    cfx_value rows = size_all(n - 1, shape);
    cfx_tensor *flat = cfx_reshape(big, cfx_list(rows, shape[n - 1]));
    if (small->ndim == 1)
        return in_shape(c, cfx_mv(flat, small), n - 1, shape);
    shape[n - 1] = size_of(small, 1);
    cfx_tensor *product = in_shape(c, cfx_mm(flat, small), n, shape);
    return swap ? cfx_contiguous(cfx_mT(product)) : product;
}

/* The dimensions before the last two, broadcast: how many; -1 with an error. */
static int batch_shape(cfx_op_call *c, const cfx_tensor *a, const cfx_tensor *b,
                       cfx_value *shape) {
    int64_t sizes[CFX_MAX_DIMS];
    int ndim = 0;
    if (a->ndim > 2 && !cfx__shape_broadcast(c->at, &ndim, sizes, a->ndim - 2, a->shape))
        return -1;
    if (b->ndim > 2 && !cfx__shape_broadcast(c->at, &ndim, sizes, b->ndim - 2, b->shape))
        return -1;
    for (int i = 0; i < ndim; i++) {
        int j = i - ndim + a->ndim - 2, k = i - ndim + b->ndim - 2;
        shape[i] = j >= 0 && (a->shape[j] != 1 || k < 0) ? size_of(a, j) : size_of(b, k);
    }
    return ndim;
}

static cfx_tensor *batched_product(cfx_op_call *c, cfx_tensor *a, cfx_tensor *b) {
    const cfx_value one = cfx_int(1);
    const cfx_value n = a->ndim > 1 ? size_of(a, a->ndim - 2) : one, m1 = size_of(a, a->ndim - 1);
    const cfx_value m2 = size_of(b, b->ndim > 1 ? b->ndim - 2 : 0);
    const cfx_value p = b->ndim > 1 ? size_of(b, b->ndim - 1) : one;
    cfx_value shape[CFX_MAX_DIMS + 2];
    int ndim = batch_shape(c, a, b, shape);
    if (ndim < 0)
        return &cfx__tensor_bad;
    cfx_value batches = size_all(ndim, shape);
    shape[ndim] = n, shape[ndim + 1] = m1;
    cfx_tensor *left =
        cfx_reshape(cfx_expand(a, cfx_list_value(ndim + 2, shape)), cfx_list(batches, n, m1));
    cfx_tensor *right, *product;
    shape[ndim] = m2, shape[ndim + 1] = p;
    if (b->ndim == 1) {
        right = cfx_expand(b, cfx_list_value(ndim + 1, shape));
        right = cfx_unsqueeze(cfx_reshape(right, cfx_list(batches, m2)), 2);
    } else {
        right = cfx_expand(b, cfx_list_value(ndim + 2, shape));
        right = cfx_reshape(right, cfx_list(batches, m2, p));
    }
    product = cfx_bmm(left, right);
    if (b->ndim == 1)
        product = cfx_squeeze(product, -1);
    if (a->ndim > 1)
        shape[ndim++] = n;
    if (b->ndim > 1)
        shape[ndim++] = p;
    return in_shape(c, product, ndim, shape);
}

static void decompose_matmul(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (!a->ndim || !b->ndim)
        op_fail(c, "both arguments to matmul need to be at least 1D, but they are %dD and %dD",
                a->ndim, b->ndim);
    else if (a->ndim == 1 && b->ndim == 1)
        c->out[0] = cfx_dot(a, b);
    else if (a->ndim == 2 && b->ndim == 1)
        c->out[0] = cfx_mv(a, b);
    else if (a->ndim == 1 && b->ndim == 2)
        c->out[0] = cfx_squeeze(cfx_mm(cfx_unsqueeze(a, 0), b), 0);
    else if (a->ndim == 2 && b->ndim == 2)
        c->out[0] = cfx_mm(a, b);
    else if (should_fold(a, b, c->fake))
        c->out[0] = folded_product(c, a, b);
    else
        c->out[0] = batched_product(c, a, b);
}

static void decompose_linalg_matmul(cfx_op_call *c) {
    c->out[0] = cfx_matmul(arg_tensor(c, 0), arg_tensor(c, 1));
}

CFX_OP(matmul) = {"aten::matmul(Tensor self, Tensor other) -> Tensor",
                  "torch.matmul Tensor.matmul operator.matmul",
                  PRODUCT_LAYER(0, 1, -1, 1),
                  .shape = shape_matmul,
                  .kernel = kernel_matmul,
                  .decompose = decompose_matmul,
                  .dtypes = GEMM_DTYPES | CFX_IN_FLOAT8,
                  .effects = CFX_COMPOSITE,
                  .autocast = CFX_CAST_LOW, .out = "out"};
CFX_OP(linalg_matmul) = {"aten::linalg_matmul(Tensor self, Tensor other) -> Tensor",
                         "torch.linalg.matmul", .decompose = decompose_linalg_matmul,
                         .effects = CFX_COMPOSITE, .out = "out"};

/* ---- linear ---------------------------------------------------------------------------------- */

static void shape_linear(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    if (!x->ndim || w->ndim != 2 || x->shape[x->ndim - 1] != w->shape[1] || x->dtype != w->dtype ||
        x->dtype == CFX_BOOL ||
        (b && (b->dtype != x->dtype || b->ndim != 1 || b->shape[0] != w->shape[0]))) {
        out_as_composed(c);
        return;
    }
    int64_t shape[CFX_MAX_DIMS];
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    shape[x->ndim - 1] = w->shape[0];
    out_new(c, 0, x->dtype, x->ndim, shape);
}

void linear_run(int64_t m, void *x, int64_t row, const cfx_tensor *w, const cfx_tensor *b,
                cfx_tensor *out, bool again) {
    enum { LEAST = 1 << 14 }; /* smaller weights are in the cache anyway */
    const int64_t n = w->shape[0], k = w->shape[1];
    gemm g = {.dtype = (cfx_dtype)out->dtype,
              .batch = 1,
              .m = m,
              .n = n,
              .k = k,
              .alpha = cfx_int(1),
              .beta = cfx_int(b ? 1 : 0),
              .a = {x, 0, row, 1, NULL},
              .b = transposed(matrices_of(w)),
              .c = {out->data, 0, n, 1, NULL}};
    if (w->dtype == CFX_F32 && (m > 1 || again) && row >= k && w->numel >= LEAST && w->storage &&
        !w->storage->foreign && cfx__tensor_is_contiguous(w) && (!b || b->stride[0] == 1) &&
        gemm_packed(&g, w, b))
        return;
    if (b) {
        int64_t shape[] = {m, n}, stride[] = {n, 1};
        cfx_tensor rows = *out;
        rows.ndim = 2, rows.shape = shape, rows.stride = stride;
        cfx__tensor_copy(&rows, b);
    }
    gemm_run(&g);
}

/* Whether y + b is what y.add_(b) makes of y: the shape and the dtype of y. */
static bool adds_to(const cfx_tensor *b, const cfx_tensor *y) {
    bool fits = !op_failed() && b->ndim <= y->ndim && b->dtype == y->dtype;
    for (int i = 1; fits && i <= b->ndim; i++)
        fits = b->shape[b->ndim - i] == 1 || b->shape[b->ndim - i] == y->shape[y->ndim - i];
    return fits;
}

static void kernel_linear(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    cfx_tensor *out = c->out[0];
    if (w->ndim != 2 || out->ndim != x->ndim || (b && b->ndim != 1)) { /* see shape_linear */
        cfx_value v = cfx__op_decompose(c->at, c->op, c->args);
        if (v.tag == CFX_TAG_TENSOR)
            cfx__tensor_copy(out, cfx_as_tensor(v));
        return;
    }
    int64_t k = w->shape[1], m = 1, stride[CFX_MAX_DIMS], flat[2];
    for (int i = 0; i < x->ndim - 1; i++)
        m *= x->shape[i];
    if (!out->numel)
        return;
    flat[0] = m, flat[1] = k;
    if (!x->numel || !view_strides(x, 2, flat, stride))
        x = cfx__tensor_contiguous(x), stride[0] = k, stride[1] = 1;
    if (op_failed())
        return;
    if (m == 1)
        stride[0] = k;
    if (stride[1] != 1) {
        x = cfx__tensor_contiguous(x), stride[0] = k;
        if (op_failed())
            return;
    }
    linear_run(m, x->data, stride[0], w, b, out, false);
}

static void decompose_linear(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    if (!x->ndim || !w->ndim) {
        op_fail(c, "both arguments to linear need to be at least 1D, but they are %dD and %dD",
                x->ndim, w->ndim);
        return;
    }
    if (x->ndim == 2 && b) {
        c->out[0] = cfx_addmm(b, x, cfx_t(w));
        return;
    }
    if (b && cfx__tensor_is_contiguous(x) && (x->ndim == 3 || b->ndim == 1)) {
        cfx_value shape[CFX_MAX_DIMS];
        for (int i = 0; i < x->ndim; i++)
            shape[i] = size_of(x, i);
        cfx_value rows = size_all(x->ndim - 1, shape);
        cfx_tensor *flat = cfx_reshape(x, cfx_list(rows, shape[x->ndim - 1]));
        cfx_tensor *y = cfx_addmm(b, flat, cfx_t(w));
        if (op_failed())
            return;
        shape[x->ndim - 1] = size_of(y, 1);
        c->out[0] = cfx_view(y, cfx_list_value(x->ndim, shape));
        return;
    }
    cfx_tensor *y = cfx_matmul(x, cfx_t(w));
    const bool value = c->fake && b && adds_to(b, y); /* as PyTorch for subclasses */
    c->out[0] = !b ? y : value ? cfx_add(y, b) : cfx_add_(y, b);
}

static product_layer product_of(const cfx__layer *l) {
    const cfx_op_call *c = &l->call;
    return (product_layer){arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), c->out[0], true};
}

static bool takes_linear(const cfx__layer *l) {
    const product_layer p = product_of(l);
    return gemm_takes(&p, &l->epilogue);
}

static cfx__ready *make_linear(const cfx__layer *l) {
    const product_layer p = product_of(l);
    return gemm_ready(&p, &l->epilogue);
}

CFX_OP(linear) = {"aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
                  "torch._C._nn.linear torch.nn.functional.linear",
                  PRODUCT_LAYER(0, 1, 2, 0),
                  .shape = shape_linear,
                  .kernel = kernel_linear,
                  .takes = takes_linear, .make = make_linear,
                  .decompose = decompose_linear,
                  .dtypes = GEMM_DTYPES | CFX_IN_FLOAT8,
                  .effects = CFX_COMPOSITE,
                  .autocast = CFX_CAST_LOW, .out = "out"};
