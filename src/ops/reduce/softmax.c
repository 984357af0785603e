/* softmax, log_softmax, their gradients, and logsumexp. */
#include <cfx/ops.h>

#include "../reduce.h"
#include "../vecmath.h"

CFX_FAMILY(ACTIVATION);

typedef enum { SOFT, SOFT_LOG, SOFT_SAFE } soft_kind;

enum { SOFT_WIDTH = 256 }; /* columns taken at a time */

typedef struct {
    void *out;
    const void *x, *grad; /* grad: NULL where the call is no gradient; x is then the result's */
    int64_t n, inner;
    soft_kind kind;
} soft_job;

/* ---- rows of float32 by AVX-512 -------------------------------------------------------------- */

#if defined(__x86_64__) && defined(__GNUC__)
#include "../vec16.h"
#define WIDE __attribute__((target("avx512f,avx512dq")))

static bool has_rows16(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
}

/* The largest number of a row; NaNs are passed over, as in FN(largest). */
VEC16 float largest16(const float *x, int64_t whole, int64_t n, __mmask16 rest) {
    __m512 a = all(-INFINITY), b = a;
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        a = _mm512_max_ps(_mm512_loadu_ps(x + i), a);
        b = _mm512_max_ps(_mm512_loadu_ps(x + i + 16), b);
    }
    if (i < whole)
        a = _mm512_max_ps(_mm512_loadu_ps(x + i), a);
    b = _mm512_max_ps(_mm512_mask_loadu_ps(b, rest, x + whole), b);
    return _mm512_reduce_max_ps(_mm512_max_ps(a, b));
}

WIDE static void soft_rows16(float *out, const float *x, int64_t rows, int64_t n, soft_kind kind) {
    const int64_t whole = n & -(int64_t)16;
    const __mmask16 rest = (__mmask16)((1u << (n - whole)) - 1);
    for (int64_t r = 0; r < rows; r++, out += n, x += n) {
        const float most = largest16(x, whole, n, rest);
        const __m512 m = all(kind == SOFT_SAFE && most == -INFINITY ? 0 : most);
        __m512 sums = all(0);
        for (int64_t i = 0; i < n; i += 16) {
            const __mmask16 on = i < whole ? (__mmask16)-1 : rest;
            const __m512 given = _mm512_maskz_loadu_ps(on, x + i);
            const __m512 e = _mm512_maskz_mov_ps(on, exp16(_mm512_sub_ps(given, m)));
            sums = _mm512_add_ps(sums, e);
            if (kind != SOFT_LOG)
                _mm512_mask_storeu_ps(out + i, on, e);
        }
        const float sum = _mm512_reduce_add_ps(sums);
        const __m512 by = kind == SOFT_LOG ? log16(all(sum))
                                           : all(kind == SOFT_SAFE && sum == 0 ? 0 : 1 / sum);
        for (int64_t i = 0; i < n; i += 16) {
            const __mmask16 on = i < whole ? (__mmask16)-1 : rest;
            const __m512 v = _mm512_maskz_loadu_ps(on, kind == SOFT_LOG ? x + i : out + i);
            _mm512_mask_storeu_ps(out + i, on,
                                  kind == SOFT_LOG ? _mm512_sub_ps(_mm512_sub_ps(v, m), by)
                                                   : _mm512_mul_ps(v, by));
        }
    }
}
#define SOFT_BY_HAND soft_rows16
#endif

#define T float
#define FN(x) f32_##x
#include "softmax.inc"
#undef SOFT_BY_HAND
#define T double
#define FN(x) f64_##x
#include "softmax.inc"

/* ---- rows ------------------------------------------------------------------------------------ */

/* Where the arguments stand: dtype is the number of a dtype argument, or -1. */
typedef struct {
    soft_kind kind;
    int8_t dtype;
} soft_row;

static bool float_or_fail(cfx_op_call *c, const soft_row *r, cfx_dtype d, bool last) {
    if (cfx__dtype_is_float(d))
        return true;
    bool back = strstr(op_title(c), "_backward") != NULL;
    op_fail_as(NOT_IMPLEMENTED, c, "\"%ssoftmax%s%s_kernel_impl\" not implemented for '%s'",
               r->kind == SOFT_LOG ? "log_" : "", back ? "_backward" : "", last ? "_lastdim" : "",
               cfx__dtype_title(d));
    return false;
}

static void shape_softmax(cfx_op_call *c) {
    const soft_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    int dim = arg_dim(c, 1, x->ndim);
    if (dim < 0)
        return;
    cfx_dtype d = r->dtype < 0 ? x->dtype : arg_dtype(c, r->dtype, x->dtype);
    if (r->dtype < 0 && arg_bool(c, 2)) {
        op_fail(c, "softmax with half to float conversion is not supported on CPU");
        return;
    }
    if (float_or_fail(c, r, d, dim >= x->ndim - 1))
        out_new(c, 0, d, x->ndim, x->shape);
}

static void run_softmax(cfx_dtype d, soft_job *s, const cfx_tensor *x, int dim) {
    s->n = x->ndim ? x->shape[dim] : 1;
    s->inner = 1;
    for (int i = dim + 1; i < x->ndim; i++)
        s->inner *= x->shape[i];
    if (x->numel == 0)
        return;
    int64_t outer = x->numel / (s->n * s->inner), each = s->n, units = outer;
    if (s->inner > 1) {
        each *= s->inner < SOFT_WIDTH ? s->inner : SOFT_WIDTH;
        units *= (s->inner + SOFT_WIDTH - 1) / SOFT_WIDTH;
    }
    cfx__parallel(units, 4096 / each + 1, d == CFX_F64 ? f64_run : f32_run, s);
}

/* Whether the argument becomes a half before anything is computed, which is computed in float32. */
static bool rounds_first(const cfx_op_call *c, const soft_row *r) {
    const cfx_dtype from = (cfx_dtype)arg_tensor(c, 0)->dtype;
    const cfx_dtype to = r->dtype < 0 ? from : arg_dtype(c, r->dtype, from);
    return to != from && cfx__dtype_is_half(to);
}

static void note_softmax(cfx_op_call *c, const soft_row *r) {
    cfx_tensor *x = arg_tensor(c, 0);
    const bool wide = c->out[0]->dtype == CFX_F64;
    if (x->ndim == 0 || arg_dim(c, 1, x->ndim) != x->ndim - 1 || rounds_first(c, r))
        return;
    loop_note(c->note, CFX__LOOP_ROW, wide ? f64_soft_row : f32_soft_row, wide ? CFX_F64 : CFX_F32,
              6, &r->kind, sizeof r->kind);
    loop_operand(c->note, x, wide ? CFX_F64 : CFX_F32);
    c->note->says.row = r->kind == SOFT_LOG    ? CFX__ROW_LOG_SOFTMAX
                        : r->kind == SOFT_SAFE ? CFX__ROW_SAFE_SOFTMAX
                                               : CFX__ROW_SOFTMAX;
    c->note->row = 1;
}

static void kernel_softmax(cfx_op_call *c) {
    const soft_row *r = c->op->row;
    cfx_tensor *out = c->out[0];
    if (c->note) {
        note_softmax(c, r);
        return;
    }
    const cfx_tensor *x = arg_tensor(c, 0);
    if (rounds_first(c, r))
        x = cfx__tensor_contiguous_as(x, arg_dtype(c, r->dtype, x->dtype));
    x = cfx__tensor_contiguous_as(x, out->dtype);
    if (op_failed())
        return;
    soft_job s = {.out = out->data, .x = x->data, .kind = r->kind};
    run_softmax(out->dtype, &s, x, arg_dim(c, 1, x->ndim));
}

static void decompose_softmax(cfx_op_call *c) {
    const soft_row *r = c->op->row;
    cfx_tensor *x = arg_tensor(c, 0);
    if (!arg_is_none(c, 2)) /* with all that a tensor is made by, as C++ writes toType */
        x = cfx_to(x, CFX_KW(dtype, c->args[2]), CFX_KW(layout, cfx_layout_value(CFX_STRIDED)),
                   CFX_KW(device, cfx_device_value(x->device)));
    c->out[0] = r->kind == SOFT_LOG ? cfx_aten__log_softmax(x, c->args[1], cfx_bool(false))
                                    : cfx_aten__softmax(x, c->args[1], cfx_bool(false));
}

#define SOFTMAX(kind_, dtype_)                                                                     \
    .shape = shape_softmax, .kernel = kernel_softmax, .dtypes = CFX_IN_NUMBER,                     \
    .row = &(const soft_row) { kind_, dtype_ }, .effects = CFX_LOOPS
#define SOFTMAX_INT(kind_) SOFTMAX(kind_, 2) | CFX_COMPOSITE, .decompose = decompose_softmax

CFX_OP(_softmax) = {"aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
                    SOFTMAX(SOFT, -1), GRAD(softmax, RESULT(0)), .out = "out"};
CFX_OP(_log_softmax) = {"aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
                        SOFTMAX(SOFT_LOG, -1), GRAD(log_softmax, RESULT(0)), .out = "out"};
CFX_OP(_safe_softmax) = {
    "aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    SOFTMAX(SOFT_SAFE, 2), GRAD(softmax, RESULT(0)), .core = core__safe_softmax};
CFX_OP(softmax_int) = {"aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
                       "torch.softmax Tensor.softmax",
                       SOFTMAX_INT(SOFT), .autocast = CFX_CAST_F32_ON_GPU, .out = "int_out"};
CFX_OP(log_softmax_int) = {
    "aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    "torch.log_softmax Tensor.log_softmax", SOFTMAX_INT(SOFT_LOG), .autocast = CFX_CAST_F32_ON_GPU,
    .out = "int_out"};
CFX_OP(special_softmax) = {
    "aten::special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    "torch.special.softmax", SOFTMAX_INT(SOFT)};
CFX_OP(special_log_softmax) = {
    "aten::special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    "torch.special.log_softmax", SOFTMAX_INT(SOFT_LOG)};

/* ---- gradients ------------------------------------------------------------------------------- */

static void shape_softmax_backward(cfx_op_call *c) {
    const soft_row *r = c->op->row;
    const cfx_tensor *g = arg_tensor(c, 0), *y = arg_tensor(c, 1);
    int dim = arg_dim(c, 2, g->ndim);
    if (dim < 0 || !float_or_fail(c, r, g->dtype, dim >= g->ndim - 1))
        return;
    if (!cfx__tensor_same_shape(g, y)) {
        op_fail(c,
                "Expected tensor for argument #1 'grad' to have same size as tensor for argument "
                "#2 'output'; but %s does not equal %s (while checking arguments for %s)",
                cfx__shape_text(g->ndim, g->shape), cfx__shape_text(y->ndim, y->shape),
                r->kind == SOFT_LOG ? "log_softmax_backward" : "softmax_backward");
        return;
    }
    bool halved = g->dtype == CFX_F32 && arg_dtype(c, 3, CFX_F32) == CFX_F16;
    out_new(c, 0, halved ? CFX_F16 : g->dtype, g->ndim, g->shape);
}

static void kernel_softmax_backward(cfx_op_call *c) {
    const soft_row *r = c->op->row;
    cfx_tensor *out = c->out[0];
    const cfx_tensor *g = cfx__tensor_contiguous_as(arg_tensor(c, 0), out->dtype);
    const cfx_tensor *y = cfx__tensor_contiguous_as(arg_tensor(c, 1), out->dtype);
    if (op_failed())
        return;
    soft_job s = {.out = out->data, .x = y->data, .grad = g->data, .kind = r->kind};
    run_softmax(out->dtype, &s, g, arg_dim(c, 2, g->ndim));
}

#define SOFTMAX_BACKWARD(kind_)                                                                    \
    .shape = shape_softmax_backward, .kernel = kernel_softmax_backward, .dtypes = CFX_IN_FLOAT,    \
    .row = &(const soft_row) { kind_, 3 }

CFX_OP(_softmax_backward_data) = {"aten::_softmax_backward_data(Tensor grad_output, Tensor output, "
                                  "int dim, ScalarType input_dtype) -> Tensor",
                                  SOFTMAX_BACKWARD(SOFT),
                                  GRAD(softmax_backward, READ(0) | READ(1)),
                                  .out = "out grad_input"};
CFX_OP(_log_softmax_backward_data) = {
    "aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType "
    "input_dtype) -> Tensor",
    SOFTMAX_BACKWARD(SOFT_LOG), GRAD(log_softmax_backward, READ(0) | READ(1)), .out = "out"};

/* ---- logsumexp ------------------------------------------------------------------------------- */

static void shape_logsumexp(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    uint64_t mask;
    bool whole = x->dtype == CFX_BOOL || cfx__dtype_is_int(x->dtype);
    if (arg_dims_mask(c, 1, x->ndim, &mask))
        out_reduced(c, 0, whole ? CFX_F32 : x->dtype, x, mask, arg_bool(c, 2));
}

/* Of complex numbers the largest real part is taken out. */
static void complex_logsumexp(cfx_op_call *c, cfx_tensor *x) {
    cfx_tensor *most = cfx_amax(cfx_real(x), c->args[1], true);
    most = cfx_where(cfx_isfinite(most), most, 0.0);
    cfx_tensor *logs = cfx_log(cfx_sum(cfx_exp(cfx_sub(x, most)), c->args[1], c->args[2]));
    if (!arg_bool(c, 2) && !op_failed())
        most = cfx_reshape(most, cfx_ints_value(logs->ndim, logs->shape));
    cfx_tensor *y = cfx_add(logs, most);
    if (!op_failed())
        cfx__tensor_copy(c->out[0], y);
}

static void kernel_logsumexp(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    if (cfx__dtype_is_complex(x->dtype)) {
        complex_logsumexp(c, x);
        return;
    }
    reduction run = {.x = x, .nout = 1, .out = {c->out[0]}};
    run.as = run.out_as[0] = x->dtype == CFX_F64 ? CFX_F64 : CFX_F32;
    run.loops = x->dtype == CFX_F64 ? &f64_lse_loops : &f32_lse_loops;
    if (arg_dims_mask(c, 1, x->ndim, &run.mask))
        reduce_run(&run);
}

#define LOGSUMEXP .shape = shape_logsumexp, .kernel = kernel_logsumexp

CFX_FAMILY(REDUCE);
CFX_OP(logsumexp) = {"aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
                     "torch.logsumexp Tensor.logsumexp", LOGSUMEXP,
                     GRAD(logsumexp, READ(0) | RESULT(0)), .core = core_logsumexp,
                     .autocast = CFX_CAST_F32_ON_GPU, .effects = CFX_OUT_CASTS,
                     .out = "out"};
CFX_OP(special_logsumexp) = {
    "aten::special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    "torch.special.logsumexp", LOGSUMEXP, .effects = CFX_COMPOSITE | CFX_OUT_CASTS,
    GRAD(logsumexp, READ(0) | RESULT(0)), .out = "out"};
