/* Products of vectors and matrices. */
#include "../back.h"
#include "../dense.h"
#include "gemm.h"
#include "../views.h"

CFX_FAMILY(LINEAR);

/* Records that there is no product of this dtype; PyTorch has none of bools. */
static bool has_product(cfx_op_call *c, const cfx_tensor *t, const char *kernel) {
    if (t->dtype == CFX_BOOL)
        op_fail_as(NOT_IMPLEMENTED, c, "\"%s\" not implemented for 'Bool'", kernel);
    return t->dtype != CFX_BOOL && op_takes(c, t, kernel);
}

static bool inner_sizes_agree(cfx_op_call *c, const cfx_tensor *a, const cfx_tensor *b) {
    if (a->shape[1] == b->shape[0])
        return true;
    op_fail(c, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
            (long long)a->shape[0], (long long)a->shape[1], (long long)b->shape[0],
            (long long)b->shape[1]);
    return false;
}

static bool same_cpp_dtype(cfx_op_call *c, const cfx_tensor *a, const cfx_tensor *b) {
    if (a->dtype == b->dtype)
        return true;
    op_fail(c, "expected m1 and m2 to have the same dtype, but got: %s != %s",
            gemm_cpp_name(a->dtype), gemm_cpp_name(b->dtype));
    return false;
}

/* out = beta * self + alpha * a b, with self broadcast; NULL where there is none. */
static void product(cfx_tensor *out, const cfx_tensor *self, const cfx_tensor *a,
                    const cfx_tensor *b, cfx_value beta, cfx_value alpha) {
    gemm g = {.dtype = out->dtype,
              .batch = out->ndim == 3 ? out->shape[0] : 1,
              .m = a->shape[a->ndim - 2],
              .n = b->shape[b->ndim - 1],
              .k = b->shape[b->ndim - 2],
              .alpha = alpha,
              .beta = beta,
              .a = matrices_of(a),
              .b = matrices_of(b),
              .c = matrices_of(out)};
    if (self && (cfx_number(beta) != 0 || beta.tag == CFX_TAG_COMPLEX))
        cfx__tensor_copy(out, self);
    gemm_run(&g);
}

/* Every element of the result is a sum over the inner size, for any number of batches. */
static int64_t flops_product(const cfx_op_call *c, const cfx_tensor *a) {
    const cfx_tensor *out = c->out[0];
    int64_t sizes[] = {out->ndim == 3 ? out->shape[0] : 1, out->shape[out->ndim - 2],
                       out->shape[out->ndim - 1], a->shape[a->ndim - 1]};
    return flops_of(COUNT(sizes), sizes);
}

static int64_t flops_mm(const cfx_op_call *c) { return flops_product(c, arg_tensor(c, 0)); }

static int64_t flops_addmm(const cfx_op_call *c) { return flops_product(c, arg_tensor(c, 1)); }

/* ---- mm, addmm ------------------------------------------------------------------------------- */

static void shape_mm(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (a->ndim != 2)
        op_fail(c, "self must be a matrix");
    else if (b->ndim != 2)
        op_fail(c, "mat2 must be a matrix");
    else if (inner_sizes_agree(c, a, b) && same_cpp_dtype(c, a, b) &&
             has_product(c, a, "addmm_impl_cpu_"))
        out_new(c, 0, a->dtype, 2, (int64_t[]){a->shape[0], b->shape[1]});
}

static void kernel_mm(cfx_op_call *c) {
    product(c->out[0], NULL, arg_tensor(c, 0), arg_tensor(c, 1), cfx_int(0), cfx_int(1));
}

/* Whether beta and alpha, arguments 3 and 4, are numbers of the dtype; halves are summed in
 * float32. */
static bool factors_fit(cfx_op_call *c, cfx_dtype d) {
    d = cfx__dtype_is_half(d) ? CFX_F32 : d;
    return number_fits(c, c->args[3], d) && number_fits(c, c->args[4], d);
}

static void shape_addmm(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *a = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    if (self->dtype != b->dtype)
        op_fail(c, "self and mat2 must have the same dtype, but got %s and %s",
                cfx__dtype_title(self->dtype), cfx__dtype_title(b->dtype));
    else if (a->dtype != b->dtype)
        op_fail(c, "mat1 and mat2 must have the same dtype, but got %s and %s",
                cfx__dtype_title(a->dtype), cfx__dtype_title(b->dtype));
    else if (a->ndim != 2)
        op_fail(c, "mat1 must be a matrix, got %d-D tensor", a->ndim);
    else if (b->ndim != 2)
        op_fail(c, "mat2 must be a matrix, got %d-D tensor", b->ndim);
    else if (inner_sizes_agree(c, a, b) && has_product(c, a, "addmm_impl_cpu_") &&
             factors_fit(c, a->dtype)) {
        int64_t shape[] = {a->shape[0], b->shape[1]};
        if (!cfx__obj_is_bad(expanded(c, self, 2, shape)))
            out_new(c, 0, a->dtype, 2, shape);
    }
}

/* self, a, b, beta, alpha: addmm and baddbmm. */
static void kernel_addmm(cfx_op_call *c) {
    product(c->out[0], arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), c->args[3],
            c->args[4]);
}

/* Whether the elements of a matrix lie column by column: its gradient is then made that way. */
static bool by_columns(const cfx_tensor *t) {
    return t->stride[0] == 1 && t->stride[1] == t->shape[0];
}

/* The gradients of both factors of a product, arguments i and i + 1. */
static void back_product(cfx_back *b, int i, cfx_tensor *g) {
    cfx_tensor *a = back_arg(b, i), *m = back_arg(b, i + 1);
    if (b->needs[i])
        back_give(b, i, by_columns(a) ? cfx_t(cfx_mm(conj_of(m), cfx_t(g)))
                                      : cfx_mm(g, conj_of(cfx_t(m))));
    if (b->needs[i + 1])
        back_give(b, i + 1, by_columns(m) ? cfx_t(cfx_mm(cfx_t(g), conj_of(a)))
                                          : cfx_mm(conj_of(cfx_t(a)), g));
}

static void grad_mm(cfx_back *b) { back_product(b, 0, b->gout[0]); }

/* beta self + alpha times a product: the part of self, and what reaches the product. */
static cfx_tensor *back_sum_and_product(cfx_back *b) {
    back_give_sum(b, 0, scaled(b->gout[0], conj_value(b->args[3])));
    return scaled(b->gout[0], conj_value(b->args[4]));
}

static void grad_addmm(cfx_back *b) { back_product(b, 1, back_sum_and_product(b)); }

/* mm or addmm as a layer. */
static product_layer product_of(const cfx__layer *l) {
    const cfx_op_call *c = &l->call;
    const bool sum = l->input == 1;
    return (product_layer){arg_tensor(c, sum), arg_tensor(c, sum + 1),
                           sum ? arg_tensor(c, 0) : NULL, c->out[0], false};
}

static bool takes_product(const cfx__layer *l) {
    const product_layer p = product_of(l);
    const cfx_value *a = l->call.args;
    return (l->input == 0 || (cfx_number(a[3]) == 1 && cfx_number(a[4]) == 1)) &&
           gemm_takes(&p, &l->epilogue);
}

static cfx__ready *make_product(const cfx__layer *l) {
    const product_layer p = product_of(l);
    return gemm_ready(&p, &l->epilogue);
}

CFX_OP(mm) = {"aten::mm(Tensor self, Tensor mat2) -> Tensor",
              "torch.mm Tensor.mm",
              PRODUCT_LAYER(0, 1, -1, 1),
              .shape = shape_mm,
              .kernel = kernel_mm,
              .takes = takes_product,
              .make = make_product,
              .dtypes = GEMM_DTYPES | CFX_IN_FLOAT8,
              .flops = flops_mm,
              GRAD(mm, READ(0) | READ(1)),
              .autocast = CFX_CAST_LOW, .out = "out"};
CFX_OP(addmm) = {
    "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) "
    "-> Tensor",
    "torch.addmm Tensor.addmm",
    PRODUCT_LAYER(1, 2, 0, 1),
    .shape = shape_addmm,
    .kernel = kernel_addmm,
    .takes = takes_product,
    .make = make_product,
    .dtypes = GEMM_DTYPES | CFX_IN_FLOAT8,
    .flops = flops_addmm,
    GRAD(addmm, READ(1) | READ(2)),
    .autocast = CFX_CAST_LOW, .inplace = "default", .out = "out"};

/* ---- bmm, baddbmm, addbmm -------------------------------------------------------------------- */

static bool batches_fit(cfx_op_call *c, const cfx_tensor *a, const cfx_tensor *b,
                        const char *kernel) {
    if (a->ndim != 3)
        op_fail(c, "batch1 must be a 3D tensor");
    else if (b->ndim != 3)
        op_fail(c, "batch2 must be a 3D tensor");
    else if (b->shape[0] != a->shape[0] || b->shape[1] != a->shape[2])
        op_fail(c,
                "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but "
                "got: [%lld, %lld].",
                (long long)a->shape[0], (long long)a->shape[2], (long long)b->shape[0],
                (long long)b->shape[1]);
    else if (a->dtype != b->dtype)
        op_fail(c, "expected scalar type %s but found %s", cfx__dtype_title(a->dtype),
                cfx__dtype_title(b->dtype));
    else
        return has_product(c, a, kernel);
    return false;
}

static void shape_bmm(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (batches_fit(c, a, b, "bmm"))
        out_new(c, 0, a->dtype, 3, (int64_t[]){a->shape[0], a->shape[1], b->shape[2]});
}

static void shape_baddbmm(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *a = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    if (a->ndim == 3 && b->ndim == 3) {
        int64_t shape[] = {a->shape[0], a->shape[1], b->shape[2]};
        if (cfx__obj_is_bad(expanded(c, self, 3, shape)))
            return;
        if (self->dtype != a->dtype) {
            op_fail(c, "Input dtypes must be the same, got: input %s, batch1: %s, batch2: %s",
                    gemm_cpp_name(self->dtype), gemm_cpp_name(a->dtype), gemm_cpp_name(b->dtype));
            return;
        }
    }
    if (batches_fit(c, a, b, "baddbmm") && factors_fit(c, a->dtype))
        out_new(c, 0, a->dtype, 3, (int64_t[]){a->shape[0], a->shape[1], b->shape[2]});
}

static void shape_addbmm(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *a = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    if (a->ndim != 3 || b->ndim != 3) {
        op_fail(c, "batch%d must be a 3D tensor", a->ndim != 3 ? 1 : 2);
        return;
    }
    int64_t shape[] = {a->shape[1], b->shape[2]};
    if (cfx__obj_is_bad(expanded(c, self, 2, shape)))
        return;
    if (a->shape[0] != b->shape[0])
        op_fail(c, "batch1 and batch2 must have same number of batches, got %lld and %lld",
                (long long)a->shape[0], (long long)b->shape[0]);
    else if (a->shape[2] != b->shape[1])
        op_fail(c, "Incompatible matrix sizes for bmm (%lldx%lld and %lldx%lld)",
                (long long)a->shape[1], (long long)a->shape[2], (long long)b->shape[1],
                (long long)b->shape[2]);
    else if (self->dtype != b->dtype)
        op_fail(c, "self and mat2 must have the same dtype, but got %s and %s",
                cfx__dtype_title(self->dtype), cfx__dtype_title(b->dtype));
    else if (a->dtype != b->dtype)
        op_fail(c, "mat1 and mat2 must have the same dtype, but got %s and %s",
                cfx__dtype_title(a->dtype), cfx__dtype_title(b->dtype));
    else if (has_product(c, a, "addmm_impl_cpu_") && factors_fit(c, a->dtype))
        out_new(c, 0, a->dtype, 2, shape);
}

static void kernel_addbmm(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *a = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    cfx_tensor *out = c->out[0];
    const int64_t size = cfx_dtype_size(out->dtype);
    gemm g = {.dtype = out->dtype,
              .batch = 1,
              .m = out->shape[0],
              .n = out->shape[1],
              .k = a->shape[0] ? a->shape[2] : 0,
              .alpha = c->args[4],
              .beta = c->args[3]};
    if (cfx_number(g.beta) != 0 || g.beta.tag == CFX_TAG_COMPLEX)
        cfx__tensor_copy(out, self);
    for (int64_t i = 0; i < a->shape[0] || i == 0; i++) {
        g.a = matrices_of(a), g.b = matrices_of(b), g.c = matrices_of(out);
        g.a.data += i * a->stride[0] * size;
        g.b.data += i * b->stride[0] * size;
        if (!gemm_run(&g))
            return;
        g.beta = cfx_int(1);
    }
}

/* The same for a batch of products. */
static void back_products(cfx_back *b, int i, cfx_tensor *g) {
    if (b->needs[i])
        back_give(b, i, cfx_bmm(g, adjoint_of(back_arg(b, i + 1))));
    if (b->needs[i + 1])
        back_give(b, i + 1, cfx_bmm(adjoint_of(back_arg(b, i)), g));
}

static void grad_bmm(cfx_back *b) { back_products(b, 0, b->gout[0]); }
static void grad_baddbmm(cfx_back *b) { back_products(b, 1, back_sum_and_product(b)); }

static void grad_addbmm(cfx_back *b) {
    const int64_t batch = back_arg(b, 1)->shape[0];
    cfx_tensor *g = back_sum_and_product(b);
    back_products(b, 1, cfx_expand(g, cfx_list(batch, b->out[0]->shape[0], b->out[0]->shape[1])));
}

CFX_OP(bmm) = {"aten::bmm(Tensor self, Tensor mat2) -> Tensor", "torch.bmm Tensor.bmm",
               .shape = shape_bmm, .kernel = kernel_mm, .dtypes = GEMM_DTYPES, .flops = flops_mm,
               GRAD(bmm, READ(0) | READ(1)), .autocast = CFX_CAST_LOW, .out = "out"};
CFX_OP(baddbmm) = {"aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, "
                   "Scalar alpha=1) -> Tensor",
                   "torch.baddbmm Tensor.baddbmm", .shape = shape_baddbmm, .kernel = kernel_addmm,
                   .dtypes = GEMM_DTYPES, .flops = flops_addmm, GRAD(baddbmm, READ(1) | READ(2)),
                   .core = core_baddbmm, .autocast = CFX_CAST_LOW, .inplace = "default",
                   .out = "out"};
CFX_OP(addbmm) = {"aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, "
                  "Scalar alpha=1) -> Tensor",
                  "torch.addbmm Tensor.addbmm", .shape = shape_addbmm, .kernel = kernel_addbmm,
                  .dtypes = GEMM_DTYPES, GRAD(addbmm, READ(1) | READ(2)), .autocast = CFX_CAST_LOW,
                  .inplace = "default", .out = "out"};

/* Alone among in-place forms it gives self the size of the result. */
static void decompose_addbmm_(cfx_op_call *c) {
    cfx_value *a = c->args;
    cfx_tensor *self = arg_tensor(c, 0);
    cfx_tensor *y = cfx_addbmm(a[0], a[1], a[2], CFX_KW(beta, a[3]), CFX_KW(alpha, a[4]));
    if (op_failed())
        return;
    if (!cfx__tensor_same_shape(self, y))
        cfx_resize_(self, cfx_ints_value(y->ndim, y->shape));
    c->out[0] = cfx_copy_(self, y);
}

CFX_OP(addbmm_) = {"aten::addbmm_(Tensor(a!) self, Tensor batch1, Tensor batch2, *, Scalar beta=1, "
                   "Scalar alpha=1) -> Tensor(a!)",
                   "Tensor.addbmm_", .decompose = decompose_addbmm_};

/* ---- vectors --------------------------------------------------------------------------------- */

/* beta * self + alpha * mat vec; self is NULL for mv. */
static void matrix_vector(cfx_op_call *c, const cfx_tensor *self, const cfx_tensor *mat,
                          const cfx_tensor *vec, cfx_value beta, cfx_value alpha) {
    cfx_tensor *out = c->out[0];
    if (self && (cfx_number(beta) != 0 || beta.tag == CFX_TAG_COMPLEX))
        cfx__tensor_copy(out, self);
    /* as a row times the transposed matrix, so that the result lies in order */
    gemm g = {.dtype = out->dtype,
              .batch = 1,
              .m = 1,
              .n = mat->shape[0],
              .k = mat->shape[1],
              .alpha = alpha,
              .beta = beta,
              .a = matrices_of(vec),
              .b = transposed(matrices_of(mat)),
              .c = matrices_of(out)};
    gemm_run(&g);
}

static void shape_matrix_vector(cfx_op_call *c, const cfx_tensor *self, const cfx_tensor *mat,
                                const cfx_tensor *vec) {
    if (mat->ndim != 2 || vec->ndim != 1 || (self && self->ndim > 1))
        op_fail(c, "vector + matrix @ vector expected, got %d, %d, %d", self ? self->ndim : 1,
                mat->ndim, vec->ndim);
    else if (mat->shape[1] != vec->shape[0] ||
             (self && self->numel != mat->shape[0] && self->numel != 1))
        op_fail(c, "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)",
                (long long)(self ? self->numel : mat->shape[0]), (long long)mat->shape[0],
                (long long)mat->shape[1], (long long)vec->shape[0]);
    else if (mat->dtype != vec->dtype || (self && self->dtype != mat->dtype))
        op_fail(c, "addmv input tensors must have the same dtype, but got %s, %s, and %s",
                cfx__dtype_title(self ? self->dtype : vec->dtype), cfx__dtype_title(mat->dtype),
                cfx__dtype_title(vec->dtype));
    else if (has_product(c, mat, "addmv_impl_cpu") && (!self || factors_fit(c, mat->dtype)))
        out_new(c, 0, vec->dtype, 1, mat->shape);
}

static void shape_addmv(cfx_op_call *c) {
    shape_matrix_vector(c, arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2));
}
static void kernel_addmv(cfx_op_call *c) {
    matrix_vector(c, arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), c->args[3], c->args[4]);
}
static void shape_mv(cfx_op_call *c) {
    shape_matrix_vector(c, NULL, arg_tensor(c, 0), arg_tensor(c, 1));
}
static void kernel_mv(cfx_op_call *c) {
    matrix_vector(c, NULL, arg_tensor(c, 0), arg_tensor(c, 1), cfx_int(0), cfx_int(1));
}

static void shape_dot(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (a->ndim != 1 || b->ndim != 1)
        op_fail(c, "1D tensors expected, but got %dD and %dD tensors", a->ndim, b->ndim);
    else if (a->dtype != b->dtype)
        op_fail(c, "dot : expected both vectors to have same dtype, but found %s and %s",
                cfx__dtype_title(a->dtype), cfx__dtype_title(b->dtype));
    else if (a->numel != b->numel)
        op_fail(c,
                "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the same "
                "number of elements, but got %lld and %lld elements respectively",
                (long long)a->numel, (long long)b->numel, (long long)a->numel, (long long)b->numel);
    else if (has_product(c, a, "dot"))
        out_new(c, 0, a->dtype, 0, NULL);
}

static const bool conjugate = true;

static void kernel_dot(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    gemm_dot(c->out[0]->dtype, a->numel, a->data, a->stride[0], b->data, b->stride[0],
             c->op->row == &conjugate, c->out[0]->data);
}

/* The gradients of a matrix and the vector it is multiplied with. */
static void back_matrix_vector(cfx_back *b, int i, cfx_tensor *g) {
    if (b->needs[i])
        back_give(b, i, cfx_outer(g, conj_of(back_arg(b, i + 1))));
    if (b->needs[i + 1])
        back_give(b, i + 1, cfx_mv(conj_of(cfx_t(back_arg(b, i))), g));
}

static void grad_mv(cfx_back *b) { back_matrix_vector(b, 0, b->gout[0]); }
static void grad_addmv(cfx_back *b) { back_matrix_vector(b, 1, back_sum_and_product(b)); }

static void grad_dot(cfx_back *b) {
    if (b->needs[0])
        back_give(b, 0, cfx_mul(b->gout[0], conj_of(back_arg(b, 1))));
    if (b->needs[1])
        back_give(b, 1, cfx_mul(b->gout[0], conj_of(back_arg(b, 0))));
}

/* The first factor is conjugated in the product. */
static void grad_vdot(cfx_back *b) {
    if (b->needs[0])
        back_give(b, 0, cfx_mul(conj_of(b->gout[0]), back_arg(b, 1)));
    if (b->needs[1])
        back_give(b, 1, cfx_mul(b->gout[0], back_arg(b, 0)));
}

CFX_OP(addmv) = {
    "aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) "
    "-> Tensor",
    "torch.addmv Tensor.addmv", .shape = shape_addmv, .kernel = kernel_addmv,
    .dtypes = GEMM_DTYPES, GRAD(addmv, READ(1) | READ(2)), .inplace = "default", .out = "out"};
CFX_OP(mv) = {"aten::mv(Tensor self, Tensor vec) -> Tensor", "torch.mv Tensor.mv",
              .shape = shape_mv, .kernel = kernel_mv, .dtypes = GEMM_DTYPES,
              GRAD(mv, READ(0) | READ(1)), .core = core_mv, .out = "out"};
CFX_OP(dot) = {"aten::dot(Tensor self, Tensor tensor) -> Tensor", "torch.dot Tensor.dot",
               .shape = shape_dot, .kernel = kernel_dot, .dtypes = GEMM_DTYPES,
               GRAD(dot, READ(0) | READ(1)), .core = core_dot, .out = "out"};
CFX_OP(vdot) = {"aten::vdot(Tensor self, Tensor other) -> Tensor",
                "torch.vdot Tensor.vdot",
                .shape = shape_dot,
                .kernel = kernel_dot,
                .row = &conjugate,
                .dtypes = GEMM_DTYPES, GRAD(vdot, READ(0) | READ(1)), .core = core_vdot,
                .out = "out"};

/* ---- outer products -------------------------------------------------------------------------- */

static bool is_vector(cfx_op_call *c, const cfx_tensor *t, const char *arg, const char *fn) {
    if (t->ndim != 1)
        op_fail(c, "%s: Expected 1-D argument %s, but got %d-D", fn, arg, t->ndim);
    return t->ndim == 1;
}

static void shape_addr(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *a = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    if (!is_vector(c, a, "vec1", "addr") || !is_vector(c, b, "vec2", "addr"))
        return;
    int64_t shape[] = {a->shape[0], b->shape[0]};
    const cfx_tensor *wide = expanded(c, self, 2, shape);
    if (cfx__obj_is_bad(wide))
        return;
    const cfx_tensor *column = cfx__tensor_alias(a, 2, (int64_t[]){a->shape[0], 1},
                                                 (int64_t[]){a->stride[0], 1}, a->offset);
    const cfx_tensor *t[] = {wide, column, b};
    cfx_dtype d = cfx__dtype_promote(cfx__dtype_promote(self->dtype, a->dtype), b->dtype);
    static const char *const name[] = {"beta", "alpha"};
    for (int i = 0; i < 2; i++) {
        cfx_value v = c->args[3 + i];
        if (v.tag == CFX_TAG_BOOL && d != CFX_BOOL) {
            op_fail(c, "Boolean %s only supported for Boolean results.", name[i]);
            return;
        }
        if ((v.tag == CFX_TAG_FLOAT || v.tag == CFX_TAG_COMPLEX) && !cfx__dtype_is_float(d) &&
            !cfx__dtype_is_complex(d)) {
            op_fail(c,
                    "For integral input tensors, argument %s must not be a floating point number.",
                    name[i]);
            return;
        }
    }
    if (factors_fit(c, d))
        out_broadcast(c, 0, d, 3, t);
}

static void kernel_addr(cfx_op_call *c) {
    const cfx_dtype d = (cfx_dtype)c->out[0]->dtype;
    const cfx_tensor *self = arg_tensor(c, 0), *a = cfx__tensor_to_dtype(arg_tensor(c, 1), d);
    const cfx_tensor *b = cfx__tensor_to_dtype(arg_tensor(c, 2), d);
    cfx_tensor *out = c->out[0], *to = out;
    if (out->stride[1] != 1 && out->shape[1] > 1)
        to = cfx__tensor_empty(c->at, d, false, 2, out->shape, NULL);
    if (op_failed())
        return;
    if (cfx_number(c->args[3]) != 0 || c->args[3].tag == CFX_TAG_COMPLEX)
        cfx__tensor_copy(to, self);
    gemm g = {.dtype = d,
              .batch = 1,
              .m = a->numel,
              .n = b->numel,
              .k = 1,
              .alpha = c->args[4],
              .beta = c->args[3],
              .a = transposed(matrices_of(a)),
              .b = matrices_of(b),
              .c = matrices_of(to)};
    if (gemm_run(&g) && to != out)
        cfx__tensor_copy(out, to);
}

static void decompose_outer(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (is_vector(c, a, "self", "outer") && is_vector(c, b, "vec2", "outer"))
        c->out[0] = cfx_mul(cfx_reshape(a, cfx_list(a->shape[0], 1)), b);
}

static void decompose_ger(cfx_op_call *c) {
    c->out[0] = cfx_outer(arg_tensor(c, 0), arg_tensor(c, 1));
}

static void grad_addr(cfx_back *b) {
    cfx_tensor *g = back_sum_and_product(b);
    if (b->needs[1])
        back_give(b, 1, cfx_mv(g, conj_of(back_arg(b, 2))));
    if (b->needs[2])
        back_give(b, 2, cfx_mv(cfx_t(g), conj_of(back_arg(b, 1))));
}

CFX_OP(addr) = {
    "aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) "
    "-> Tensor",
    "torch.addr Tensor.addr", .shape = shape_addr, .kernel = kernel_addr, .dtypes = GEMM_DTYPES,
    GRAD(addr, READ(1) | READ(2)), .core = core_addr,
    .inplace = "default", .effects = CFX_OUT_CASTS, .out = "out"};
CFX_OP(outer) = {"aten::outer(Tensor self, Tensor vec2) -> Tensor", "torch.outer Tensor.outer",
                 .decompose = decompose_outer, .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(ger) = {"aten::ger(Tensor self, Tensor vec2) -> Tensor", "torch.ger Tensor.ger",
               .decompose = decompose_ger, .effects = CFX_COMPOSITE, .out = "out"};
