/* Complex numbers: their parts as views, their making, conjugates and angles. */
#include "../back.h"
#include "../loops.h"

/* ---- views ----------------------------------------------------------------------------------- */

/* t's memory under another dtype; strides and offset count elements of that one. */
static cfx_tensor *retyped(const cfx_tensor *t, cfx_dtype dtype, int ndim, const int64_t *shape,
                           const int64_t *stride, int64_t offset) {
    cfx_tensor *v = cfx__tensor_alias(t, ndim, shape, stride, 0);
    v->dtype = (uint8_t)dtype;
    v->offset = offset;
    if (t->data)
        v->data = (char *)t->storage->data + offset * cfx_dtype_size(dtype);
    return v;
}

static void as_real(cfx_op_call *c, int64_t part, bool both) {
    cfx_tensor *t = arg_tensor(c, 0);
    int64_t shape[CFX_MAX_DIMS + 1], stride[CFX_MAX_DIMS + 1];
    int n = t->ndim;
    if (both && n == CFX_MAX_DIMS) {
        op_fail(c, "tensor has too many (>%d) dims", CFX_MAX_DIMS);
        return;
    }
    for (int d = 0; d < n; d++) {
        shape[d] = t->shape[d];
        stride[d] = (int64_t)((uint64_t)t->stride[d] * 2); /* absurd where nothing is reached */
    }
    shape[n] = 2;
    stride[n] = 1;
    c->out[0] = retyped(t, cfx__dtype_real(t->dtype), both ? n + 1 : n, shape, stride,
                        t->offset * 2 + part);
}

static void view_as_real(cfx_op_call *c) {
    if (!cfx__dtype_is_complex(arg_tensor(c, 0)->dtype))
        op_fail(c, "view_as_real is only supported for complex tensors");
    else
        as_real(c, 0, true);
}

static void view_same(cfx_op_call *c) { c->out[0] = arg_tensor(c, 0); }

/* A tensor of its own of a conjugate. */
static void view_resolved(cfx_op_call *c) {
    if (cfx__mirror_turned(arg_tensor(c, 0)))
        c->out[0] = cfx_clone(arg_tensor(c, 0));
    else
        view_same(c);
}

static void view_real(cfx_op_call *c) {
    if (cfx__dtype_is_complex(arg_tensor(c, 0)->dtype))
        as_real(c, 0, false);
    else
        view_same(c);
}

static void view_imag(cfx_op_call *c) {
    if (cfx__dtype_is_complex(arg_tensor(c, 0)->dtype))
        as_real(c, 1, false);
    else
        op_fail(c, "imag is not implemented for tensors with non-complex dtypes.");
}

static void view_as_complex(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    int last = t->ndim - 1;
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    if (t->dtype != CFX_F32 && t->dtype != CFX_F64)
        op_fail(c, "view_as_complex is only supported for half, float and double tensors, but got "
                   "a tensor of scalar type: %s",
                cfx__dtype_title(t->dtype));
    else if (t->ndim == 0)
        op_fail(c, "Input tensor must have one or more dimensions");
    else if (t->shape[last] != 2)
        op_fail(c, "Tensor must have a last dimension of size 2");
    else if (t->stride[last] != 1)
        op_fail(c, "Tensor must have a last dimension with stride 1");
    for (int d = 0; d < last && !op_failed(); d++) {
        if (t->stride[d] % 2)
            op_fail(c, "Tensor must have a stride divisible by 2 for all but last dimension");
        shape[d] = t->shape[d];
        stride[d] = t->stride[d] / 2;
    }
    if (!op_failed() && t->offset % 2)
        op_fail(c, "Tensor must have a storage_offset divisible by 2");
    if (!op_failed())
        c->out[0] = retyped(t, t->dtype == CFX_F64 ? CFX_C128 : CFX_C64, last, shape, stride,
                            t->offset / 2);
}

void grad_view_as_real(cfx_back *b) {
    back_give(b, 0, cfx_view_as_complex(cfx_contiguous(b->gout[0])));
}

void grad_view_as_complex(cfx_back *b) {
    back_give(b, 0, cfx_view_as_real(b->gout[0]));
}

static void grad_real(cfx_back *b) {
    cfx_tensor *g = b->gout[0];
    back_give(b, 0, cfx__dtype_is_complex(back_arg(b, 0)->dtype) ? cfx_complex(g, zeros_as(g)) : g);
}

static void grad_imag(cfx_back *b) {
    back_give(b, 0, cfx_complex(zeros_as(b->gout[0]), b->gout[0]));
}

static void grad_resolve(cfx_back *b) { back_give(b, 0, b->gout[0]); }

CFX_OP(view_as_real) = {"aten::view_as_real(Tensor(a) self) -> Tensor(a)", "torch.view_as_real",
                        .view = view_as_real, GRAD(view_as_real, 0)};
CFX_OP(view_as_complex) = {"aten::view_as_complex(Tensor(a) self) -> Tensor(a)",
                           "torch.view_as_complex", .view = view_as_complex,
                           GRAD(view_as_complex, 0), .autocast = CFX_CAST_F32,
                           .effects = CFX_LAYOUT};
CFX_OP(real) = {"aten::real(Tensor(a) self) -> Tensor(a)", "torch.real Tensor.real",
                .view = view_real, GRAD(real, 0), .core = core_real, .core_early = true};
CFX_OP(imag) = {"aten::imag(Tensor(a) self) -> Tensor(a)", "torch.imag Tensor.imag",
                .view = view_imag, GRAD(imag, 0), .core = core_imag, .core_early = true};
CFX_OP(resolve_conj) = {"aten::resolve_conj(Tensor(a) self) -> Tensor(a)",
                        "torch.resolve_conj Tensor.resolve_conj", .view = view_resolved,
                        GRAD(resolve, 0)};
CFX_OP(resolve_neg) = {"aten::resolve_neg(Tensor(a) self) -> Tensor(a)",
                       "torch.resolve_neg Tensor.resolve_neg", .view = view_same,
                       GRAD(resolve, 0)};

/* ---- conjugates ------------------------------------------------------------------------------ */

FLOATS(1, conj, x)
INTS(1, conj, x)
COMPLEXES(1, conj, ~x)
ROW(conj, RULE_SAME, 1, 1, "conj_cpu", HAS_FLOATS(conj), HAS_INTS(conj), HAS_COMPLEXES(conj))

/* A real tensor is given as it is, of a complex one a copy that mirrors it. */
static void decompose_conj(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    if (!cfx__dtype_is_complex(t->dtype)) {
        view_same(c);
        return;
    }
    c->out[0] = cfx_aten__conj_physical(t);
    cfx__mirror_make(c->out[0], t);
}

static void decompose_conj_physical(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    c->out[0] = cfx__dtype_is_complex(t->dtype) ? cfx_aten__conj_physical(t) : t;
}

static void kernel_is_conj(cfx_op_call *c) {
    c->result = cfx_bool(cfx__mirror_turned(arg_tensor(c, 0)));
}

static void kernel_false(cfx_op_call *c) { c->result = cfx_bool(false); }

static void grad_conj(cfx_back *b) { back_give(b, 0, conj_of(b->gout[0])); }

CFX_OP(conj) = {"aten::conj(Tensor(a) self) -> Tensor(a)", "torch.conj Tensor.conj",
                .decompose = decompose_conj, GRAD(conj, 0), .core = core_conj, .core_early = true};
CFX_OP(_conj) = {"aten::_conj(Tensor(a) self) -> Tensor(a)", "torch._conj Tensor._conj",
                 .decompose = decompose_conj, GRAD(conj, 0)};
CFX_OP(conj_physical) = {"aten::conj_physical(Tensor self) -> Tensor",
                         "torch.conj_physical Tensor.conj_physical",
                         .decompose = decompose_conj_physical, GRAD(conj, 0),
                         .effects = CFX_COMPOSITE | CFX_SHARES, .inplace = "default", .out = "out"};
CFX_OP(_conj_physical) = {"aten::_conj_physical(Tensor self) -> Tensor",
                          "torch._conj_physical Tensor._conj_physical",
                          POINTWISE_IN(conj, shape_pointwise_like, CFX_IN(C32)), GRAD(conj, 0),
                          .out = "out"};
CFX_OP(is_conj) = {"aten::is_conj(Tensor self) -> bool", "torch.is_conj Tensor.is_conj",
                   .kernel = kernel_is_conj};
CFX_OP(is_neg) = {"aten::is_neg(Tensor self) -> bool", "torch.is_neg Tensor.is_neg",
                  .kernel = kernel_false};

/* ---- angles ---------------------------------------------------------------------------------- */

FLOAT1(angle, 1, x != x ? x : x < 0 ? (T)M_PI : 0)
SAYS(angle, complex, "carg(x)")
LOOP1(angle_c64, c64_t, float, c, cargf(x))
LOOP1(angle_c128, c128_t, double, c, carg(x))
ROW(angle_complex, RULE_ABS, 10, 1, "angle", HAS_COMPLEXES(angle))

static const pointwise_row *angle_row(const cfx_op_call *c) {
    return cfx__dtype_is_complex(arg_tensor(c, 0)->dtype) ? &row_angle_complex : &row_angle;
}

static void shape_angle(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    if (cfx__dtype_is_complex(t->dtype))
        out_new(c, 0, cfx__dtype_real(t->dtype), t->ndim, t->shape);
    else
        pointwise_shape(c, &row_angle);
}

static void kernel_angle(cfx_op_call *c) { pointwise_kernel(c, angle_row(c), NULL); }

/* i z / |z|^2; a real number's angle does not change with it. */
static void grad_angle(cfx_back *b) {
    cfx_tensor *z = back_arg(b, 0), *g = b->gout[0];
    if (!cfx__dtype_is_complex(z->dtype)) {
        back_give(b, 0, zeros_as(z));
        return;
    }
    cfx_tensor *x = cfx_real(z), *y = cfx_imag(z);
    cfx_tensor *squares = cfx_add(cfx_mul(x, x), cfx_mul(y, y));
    cfx_tensor *by = cfx_masked_fill(cfx_div(g, squares), cfx_eq(squares, 0), 0);
    back_give(b, 0, cfx_complex(cfx_neg(cfx_mul(by, y)), cfx_mul(by, x)));
}

CFX_OP(angle) = {"aten::angle(Tensor self) -> Tensor", "torch.angle Tensor.angle",
                 .shape = shape_angle, .kernel = kernel_angle, GRAD(angle, READ(0)),
                 .effects = CFX_OUT_CASTS, .out = "out"};

/* ---- from two real tensors ------------------------------------------------------------------- */

#define PAIR(fn, R, C, re, im)                                                                     \
    CFX__SIMD static void fn(void *const *p, int64_t n, const void *params) {                      \
        C *o = p[0];                                                                               \
        const R *a = p[1], *b = p[2];                                                              \
        (void)params;                                                                              \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                      \
            const R x = a[i], y = b[i];                                                            \
            o[i] = __builtin_complex((R)(re), (R)(im));                                            \
        }                                                                                          \
    }
PAIR(complex_f32, float, c64_t, x, y)
PAIR(complex_f64, double, c128_t, x, y)
PAIR(polar_f32, float, c64_t, x *cos(y), x *sin(y))
PAIR(polar_f64, double, c128_t, x *cos(y), x *sin(y))

static void shape_pair(cfx_op_call *c) {
    const cfx_tensor *t[] = {arg_tensor(c, 0), arg_tensor(c, 1)};
    cfx_dtype a = t[0]->dtype, b = t[1]->dtype;
    if (!cfx__dtype_is_float(a) || !cfx__dtype_is_float(b) || cfx__dtype_is_half(a) ||
        cfx__dtype_is_half(b))
        op_fail(c, "Expected both inputs to be Half, Float or Double tensors but got %s and %s",
                cfx__dtype_title(a), cfx__dtype_title(b));
    else if (a != b)
        op_fail(c, "Expected object of scalar type %s but got scalar type %s for second argument",
                cfx__dtype_title(a), cfx__dtype_title(b));
    out_broadcast(c, 0, a == CFX_F64 ? CFX_C128 : CFX_C64, 2, t);
}

static void run_pair(cfx_op_call *c, cfx__iter_loop *f32, cfx__iter_loop *f64, int cost) {
    cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    cfx__iter_operand o[] = {{c->out[0], c->out[0]->dtype}, {a, a->dtype}, {b, b->dtype}};
    cfx__iter_pointwise(a->dtype == CFX_F64 ? f64 : f32, 1, 2, o, NULL, cost);
}

static void kernel_complex(cfx_op_call *c) { run_pair(c, complex_f32, complex_f64, 1); }
static void kernel_polar(cfx_op_call *c) { run_pair(c, polar_f32, polar_f64, 8); }

static void grad_complex(cfx_back *b) {
    back_give_sum(b, 0, cfx_real(b->gout[0]));
    back_give_sum(b, 1, cfx_imag(b->gout[0]));
}

static void grad_polar(cfx_back *b) {
    cfx_tensor *x = cfx_real(b->gout[0]), *y = cfx_imag(b->gout[0]), *angle = back_arg(b, 1);
    cfx_tensor *cosine = cfx_cos(angle), *sine = cfx_sin(angle);
    if (b->needs[0])
        back_give_sum(b, 0, cfx_add(cfx_mul(x, cosine), cfx_mul(y, sine)));
    if (b->needs[1])
        back_give_sum(b, 1, cfx_mul(cfx_sub(cfx_mul(y, cosine), cfx_mul(x, sine)),
                                    back_arg(b, 0)));
}

CFX_OP(complex) = {"aten::complex(Tensor real, Tensor imag) -> Tensor", "torch.complex",
                   .shape = shape_pair, .kernel = kernel_complex, GRAD(complex, 0), .out = "out"};
CFX_OP(polar) = {"aten::polar(Tensor abs, Tensor angle) -> Tensor", "torch.polar",
                 .shape = shape_pair, .kernel = kernel_polar, GRAD(polar, READ(0) | READ(1)),
                 .autocast = CFX_CAST_F32, .out = "out"};
