/* Max and average pooling. Start at read_pool; the rows are in pool.inc. */
#include <cfx/ops.h>

#include "../ready.h"
#include "pool.h"

#include <math.h>

CFX_FAMILY(POOL);

static const char *const count_words[] = {"", "", "two ints", "three ints"};

/* ---- geometry ------------------------------------------------------------------------------- */

/* One size of the result; -1, with PyTorch's message, when the numbers make no sense. */
static int64_t out_size(cfx_op_call *c, const pool *p, int d, bool ceil_mode) {
    int64_t in = p->in[d], k = p->k[d], s = p->step[d], pad = p->pad[d], dil = p->dil[d];
    if (s == 0)
        op_fail(c, "stride should not be zero");
    else if (pad < 0)
        op_fail(c, "pad must be non-negative, but got pad: %lld", (long long)pad);
    else if (pad > ((k - 1) * dil + 1) / 2)
        op_fail(c,
                "pad should be at most half of effective kernel size, but got pad=%lld, "
                "kernel_size=%lld and dilation=%lld",
                (long long)pad, (long long)k, (long long)dil);
    if (op_failed() || s < 0)
        return -1;
    int64_t span = in + 2 * pad - dil * (k - 1) - 1 + (ceil_mode ? s - 1 : 0);
    int64_t n = (span >= 0 ? span / s : -((-span + s - 1) / s)) + 1;
    if (ceil_mode && (n - 1) * s >= in + pad)
        n--;
    return n;
}

static bool positive(cfx_op_call *c, const char *what, const char *const *names, const int64_t *v,
                     int dims) {
    bool ok = true;
    cfx__text t = {0};
    for (int d = 3 - dims; d < 3; d++) {
        ok &= v[d] > 0;
        cfx__text_printf(&t, "%s%s: %lld", t.len ? " " : "", names[d], (long long)v[d]);
    }
    if (ok)
        cfx__text_release(&t);
    else
        op_fail(c, "%s should be greater than zero, but got %s", what, cfx__text_take(&t));
    return ok;
}

/* A list of sizes, one for all or one for each dimension. */
static bool read_list(cfx_op_call *c, const pool_row *r, int arg, const char *what, bool optional,
                      int64_t *v) {
    int64_t list[CFX_MAX_DIMS];
    int n = arg_ints(c, arg, list);
    if (op_failed())
        return false;
    for (int k = 0; k < n; k++)
        if (list[k] > INT32_MAX || list[k] < INT32_MIN) {
            op_fail_large(c, "integer out of range");
            return false;
        }
    if (n == 0 && optional)
        return true;
    if (n != 1 && n != r->dims) {
        const char *how = r->dims == 3 && !r->max ? "be a single int" : "either be a single int";
        op_fail(c, "%s: %s must %s%s, or a tuple of %s", r->name, what,
                optional ? "either be omitted, a single int" : how, "", count_words[r->dims]);
        return false;
    }
    for (int k = 0; k < r->dims; k++)
        v[3 - r->dims + k] = n == 1 ? list[0] : list[k];
    return true;
}

int64_t pool_volume(const int64_t *size) {
    int64_t n;
    bool over =
        __builtin_mul_overflow(size[0], size[1], &n) || __builtin_mul_overflow(n, size[2], &n);
    return over ? 0 : n;
}

bool pool_sizes(pool *p, const cfx_tensor *t, int dims) {
    if (t->ndim != dims + 1 && t->ndim != dims + 2)
        return false;
    p->dims = dims;
    p->planes = t->numel ? 1 : 0;
    for (int d = 0; d < t->ndim - dims && t->numel; d++)
        p->planes *= t->shape[d];
    for (int d = 0; d < 3; d++)
        p->in[d] = d < 3 - dims ? 1 : t->shape[t->ndim - 3 + d];
    p->in_plane = pool_volume(p->in);
    return true;
}

static bool fits(cfx_op_call *c, const pool_row *r, const pool *p, const cfx_tensor *t) {
    static const char *const sizes[] = {"kT", "kH", "kW"}, *const steps[] = {"dT", "dH", "dW"};
    static const char *const dils[] = {"dilationT", "dilationH", "dilationW"};
    if (!positive(c, "kernel size", sizes, p->k, r->dims) ||
        !positive(c, "stride", steps, p->step, r->dims) ||
        !positive(c, "dilation", dils, p->dil, r->dims))
        return false;
    for (int d = 1; d < t->ndim || (d == t->ndim && t->ndim == r->dims + 1); d++) {
        int at = t->ndim == r->dims + 1 ? d - 1 : d;
        if (t->shape[at] > 0)
            continue;
        if (r->dims == 3)
            op_fail(
                c,
                "%s: Expected input's non-batch dimensions to have positive length, but input has "
                "a shape of %s and non-batch dimension %d has length zero!",
                r->max ? "max_pool3d_with_indices_out_cpu_template()" : "avg_pool3d()",
                cfx__shape_text(t->ndim, t->shape), d - 1);
        else
            op_fail(
                c,
                "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, "
                "but got:%s",
                cfx__shape_text(t->ndim, t->shape));
        return false;
    }
    for (int d = 3 - r->dims; d < 3; d++)
        if (p->pad[d] > p->k[d] / 2) {
            op_fail(
                c,
                "pad should be smaller than or equal to half of kernel size, but got padW = %lld, "
                "padH = %lld, kW = %lld, kH = %lld",
                (long long)p->pad[2], (long long)p->pad[1], (long long)p->k[2], (long long)p->k[1]);
            return false;
        }
    bool some = true;
    cfx__text in = {0}, out = {0};
    for (int d = 3 - r->dims; d < 3; d++) {
        some &= p->out[d] >= 1;
        cfx__text_printf(&in, "x%lld", (long long)p->in[d]);
        cfx__text_printf(&out, "x%lld", (long long)p->out[d]);
    }
    const char *in_text = cfx__text_take(&in), *out_text = cfx__text_take(&out);
    long long planes = (long long)t->shape[t->ndim - r->dims - 1];
    if (!some)
        op_fail(c,
                "Given input size: (%lld%s). Calculated output size: (%lld%s). Output size is too "
                "small",
                planes, in_text, planes, out_text);
    return some;
}

/* Reads and checks the arguments of c; false, with PyTorch's message, when they are wrong. */
static bool read_pool(cfx_op_call *c, const pool_row *r, pool *p) {
    const cfx_tensor *self = arg_tensor(c, r->backward ? 1 : 0);
    int at = r->backward ? 2 : 1;
    *p = (pool){.dims = r->dims,
                .plain = r->dims == 3 && !r->max,
                .k = {1, 1, 1},
                .step = {1, 1, 1},
                .dil = {1, 1, 1}};
    if (!read_list(c, r, at, "kernel_size", false, p->k))
        return false;
    memcpy(p->step, p->k, sizeof p->k);
    if (!read_list(c, r, at + 1, "stride", true, p->step) ||
        !read_list(c, r, at + 2, "padding", false, p->pad) ||
        (r->max && !read_list(c, r, at + 3, "dilation", false, p->dil)))
        return false;
    bool ceil_mode = arg_bool(c, at + (r->max ? 4 : 3));
    if (!r->max) {
        p->include_pad = arg_bool(c, at + 4);
        if (!arg_is_none(c, at + 5)) {
            p->divisor = arg_int(c, at + 5);
            if (p->divisor == 0) {
                op_fail(c, "divisor must be not zero");
                return false;
            }
        }
    }
    if (!pool_sizes(p, self, r->dims)) {
        op_fail(c, "non-empty %dD or %dD (batch mode) tensor expected for input", r->dims + 1,
                r->dims + 2);
        return false;
    }
    for (int d = 0; d < 3; d++)
        if (p->in[d] > INT32_MAX) {
            op_fail_large(c, "integer out of range");
            return false;
        }
    for (int d = 3 - r->dims; d < 3 && !op_failed(); d++)
        p->out[d] = out_size(c, p, d, ceil_mode);
    for (int d = 0; d < 3 - r->dims; d++)
        p->out[d] = 1;
    p->out_plane = pool_volume(p->out);
    if (op_failed() || !fits(c, r, p, self))
        return false;
    if (p->in_plane > INT32_MAX) {
        op_fail(c, "%s: planes of more than 2147483647 elements are not supported", r->name);
        return false;
    }
    return true;
}

void pool_out(cfx_op_call *c, int i, const pool *p, cfx_dtype dtype, const cfx_tensor *like,
              bool input) {
    int64_t shape[CFX_MAX_DIMS];
    int lead = like->ndim - p->dims;
    memcpy(shape, like->shape, (size_t)lead * sizeof *shape);
    for (int d = 0; d < p->dims; d++)
        shape[lead + d] = (input ? p->in : p->out)[3 - p->dims + d];
    if (p->plain)
        out_new(c, i, dtype, like->ndim, shape);
    else
        out_format(c, i, dtype, like->ndim, shape, like);
}

static double pool_divisor(const pool *p, double area, int64_t ow) {
    int64_t from, to;
    if (p->divisor)
        return (double)p->divisor;
    if (p->include_pad)
        return area * pool_span(p, 2, ow);
    pool_clip(p, 2, ow, &from, &to);
    return area * (double)(to - from);
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Of integers; a divisor that is larger than they are gives 0. */
static int64_t divide(int64_t x, double y) {
    if (!cfx__int64_fits(y))
        return 0;
    return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / (int64_t)y;
}

#define T float
#define FN(x) x##_f32
#define LOWEST -INFINITY
#define ADD(x, y) ((x) + (y))
#define DIV(x, y) ((x) / (T)(y))
#include "pool.inc"
#define T double
#define FN(x) x##_f64
#define LOWEST -INFINITY
#define ADD(x, y) ((x) + (y))
#define DIV(x, y) ((x) / (T)(y))
#include "pool.inc"
#define T int64_t
#define FN(x) x##_i64
#define LOWEST INT64_MIN
#define ADD(x, y) ((int64_t)((uint64_t)(x) + (uint64_t)(y)))
#define DIV(x, y) divide(x, y)
#include "pool.inc"

typedef struct {
    cfx__parallel_fn *f32, *f64, *i64;
} by_type;

static void run_rows(const pool *p, cfx_dtype d, by_type f) {
    double window = (double)p->k[0] * (double)p->k[1] * (double)p->k[2];
    cfx__parallel(p->planes * p->out[0] * p->out[1], cfx__grain(window * (double)p->out[2]),
                  d == CFX_F32   ? f.f32
                  : d == CFX_F64 ? f.f64
                                 : f.i64,
                  (void *)p);
}

static bool takes_pool(const cfx__layer *l) {
    cfx_op_call c = l->call;
    const pool_row *r = c.op->row;
    pool p;
    return pool_last_takes(l, r->max) && read_pool(&c, r, &p);
}

static cfx__ready *make_pool(const cfx__layer *l) {
    cfx_op_call c = l->call;
    const pool_row *r = c.op->row;
    pool p;
    return read_pool(&c, r, &p) ? pool_last_ready(l, &p, r->max, false) : NULL;
}

/* ---- max ------------------------------------------------------------------------------------ */

static const pool_row max2 = {"max_pool2d", 2, true, false};
static const pool_row max3 = {"max_pool3d", 3, true, false};
static const pool_row max2_back = {"max_pool2d", 2, true, true};
static const pool_row max3_back = {"max_pool3d", 3, true, true};

static bool computable(cfx_op_call *c, const char *name, cfx_dtype d, bool integers) {
    bool ok = cfx__dtype_is_float(d) || d == CFX_I64 || (integers && cfx__dtype_is_int(d));
    if (!ok)
        op_fail_as(NOT_IMPLEMENTED, c, "\"%s\" not implemented for '%s'", name,
                   cfx__dtype_title(d));
    return ok;
}

static void shape_max(cfx_op_call *c) {
    const pool_row *r = c->op->row;
    const cfx_tensor *self = arg_tensor(c, 0);
    pool p;
    c->out[0] = c->out[1] = &cfx__tensor_bad;
    if (!computable(c, r->name, self->dtype, true) || !read_pool(c, r, &p))
        return;
    pool_out(c, 0, &p, self->dtype, self, false);
    if (c->nout > 1)
        pool_out(c, 1, &p, CFX_I64, self, false);
}

bool pool_begin(cfx_op_call *c, pool *p) {
    for (int i = 0; i < c->nout; i++)
        p->dense[i] = dense_out(c, i);
    if (op_failed())
        return false;
    p->x = arg_tensor(c, 0)->data;
    p->y = p->dense[0]->data;
    p->index = c->nout > 1 ? (int64_t *)p->dense[1]->data : NULL;
    return true;
}

void pool_done(cfx_op_call *c, const pool *p) {
    for (int i = 0; i < c->nout; i++)
        dense_done(c, i, p->dense[i]);
}

static void kernel_max(cfx_op_call *c) {
    pool p;
    if (!read_pool(c, c->op->row, &p) || !pool_begin(c, &p))
        return;
    run_rows(&p, c->out[0]->dtype, (by_type){max_rows_f32, max_rows_f64, max_rows_i64});
    pool_done(c, &p);
}

#define MAX_COLUMNS(r) .shape = shape_max, .kernel = kernel_max, .row = &r, .dtypes = CFX_IN_NUMBER

static cfx_value with_indices(cfx_op_call *c, cfx_op *op) {
    return cfx_op_do(op, c->args[0], c->args[1], c->args[2], c->args[3], c->args[4], c->args[5]);
}

static void decompose_max2(cfx_op_call *c) {
    c->out[0] = cfx_tensor_at(with_indices(c, &cfx_op_max_pool2d_with_indices), 0);
}

static void decompose_max3(cfx_op_call *c) {
    c->out[0] = cfx_tensor_at(with_indices(c, &cfx_op_max_pool3d_with_indices), 0);
}

CFX_OP(max_pool2d_with_indices) = {
    "aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] "
    "padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
    "torch.nn.functional.max_pool2d_with_indices", MAX_COLUMNS(max2),
    .effects = CFX_CONTIGUOUS_ARGS, GRAD(max_pool, READ(0) | RESULT(1)), .out = "out out indices"};
CFX_OP(max_pool3d_with_indices) = {
    "aten::max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] "
    "padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
    "torch.nn.functional.max_pool3d_with_indices", MAX_COLUMNS(max3),
    .effects = CFX_CONTIGUOUS_ARGS, GRAD(max_pool, READ(0) | RESULT(1)), .out = "out out indices"};
CFX_OP(max_pool2d) = {
    "aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] "
    "dilation=1, bool ceil_mode=False) -> Tensor",
    "torch.max_pool2d", MAX_COLUMNS(max2), .takes = takes_pool, .make = make_pool,
    .decompose = decompose_max2, .effects = CFX_COMPOSITE | CFX_CONTIGUOUS_ARGS | CFX_LARGEST};
CFX_OP(max_pool3d) = {
    "aten::max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] "
    "dilation=1, bool ceil_mode=False) -> Tensor",
    "torch.max_pool3d", MAX_COLUMNS(max3),
    .decompose = decompose_max3, .effects = CFX_COMPOSITE | CFX_CONTIGUOUS_ARGS | CFX_LARGEST,
    .autocast = CFX_CAST_F32};

/* ---- max, backward -------------------------------------------------------------------------- */

typedef struct {
    const pool *p;
    const char *grad;
    const int64_t *index;
    char *out;
    cfx_dtype dtype;
    bool bad; /* an index was out of range */
} scatter_job;

#define SCATTER(T)                                                                                 \
    {                                                                                              \
        T *out = (T *)j->out + n * p->in_plane;                                                    \
        const T *grad = (const T *)j->grad + n * p->out_plane;                                     \
        memset(out, 0, (size_t)p->in_plane * sizeof *out);                                         \
        for (int64_t i = 0; i < p->out_plane; i++) {                                               \
            if ((uint64_t)at[i] >= (uint64_t)p->in_plane)                                          \
                __atomic_store_n(&j->bad, true, __ATOMIC_RELAXED);                                 \
            else                                                                                   \
                out[at[i]] += grad[i];                                                             \
        }                                                                                          \
    }

static void scatter_planes(void *arg, int64_t begin, int64_t end) {
    scatter_job *j = arg;
    const pool *p = j->p;
    for (int64_t n = begin; n < end; n++) {
        const int64_t *at = j->index + n * p->out_plane;
        if (j->dtype == CFX_F32)
            SCATTER(float)
        else
            SCATTER(double)
    }
}

void pool_scatter(cfx_op_call *c, pool *p, const cfx_tensor *grad, const cfx_tensor *index) {
    cfx_tensor *out = dense_out(c, 0);
    if (op_failed())
        return;
    scatter_job j = {p, grad->data, (const int64_t *)index->data, out->data, out->dtype, false};
    cfx__parallel(p->planes, cfx__grain((double)p->in_plane), scatter_planes, &j);
    if (j.bad)
        op_fail(c, "found an index that lies outside its input plane");
    dense_done(c, 0, out);
}

static bool same_sizes(cfx_op_call *c, const pool *p, const cfx_tensor *grad,
                       const cfx_tensor *self) {
    bool same = grad->ndim == self->ndim;
    int lead = self->ndim - p->dims;
    for (int d = 0; same && d < self->ndim; d++)
        same = grad->shape[d] == (d < lead ? self->shape[d] : p->out[3 - p->dims + d - lead]);
    if (!same)
        op_fail(c, "Expected a tensor of the shape that pooling %s gives, but got %s",
                cfx__shape_text(self->ndim, self->shape), cfx__shape_text(grad->ndim, grad->shape));
    return same;
}

static void shape_max_back(cfx_op_call *c) {
    const cfx_tensor *grad = arg_tensor(c, 0), *self = arg_tensor(c, 1), *index = arg_tensor(c, 7);
    pool p;
    c->out[0] = &cfx__tensor_bad;
    if (!read_pool(c, c->op->row, &p) || !same_sizes(c, &p, grad, self))
        return;
    if (!cfx__tensor_same_shape(grad, index) || index->dtype != CFX_I64)
        op_fail(c, "Expected indices of dtype int64 and shape %s, but got %s of %s",
                cfx__shape_text(grad->ndim, grad->shape),
                cfx__shape_text(index->ndim, index->shape), cfx__dtype_title(index->dtype));
    else if (grad->dtype != self->dtype || !cfx__dtype_is_float(self->dtype))
        op_fail(c, "Expected dtype %s for `gradOutput` but got dtype %s",
                cfx__dtype_title(self->dtype), cfx__dtype_title(grad->dtype));
    else
        pool_out(c, 0, &p, self->dtype, self, true);
}

static void kernel_max_back(cfx_op_call *c) {
    pool p;
    if (read_pool(c, c->op->row, &p))
        pool_scatter(c, &p, arg_tensor(c, 0), arg_tensor(c, 7));
}

CFX_OP(max_pool2d_with_indices_backward) = {
    "aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, "
    "int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor",
    NULL,
    POOL(shape_max_back, kernel_max_back, &max2_back, CFX_IN_NUMBER),
    GRAD(max_pool_backward, READ(7)), .out = "grad_input"};
CFX_OP(max_pool3d_with_indices_backward) = {
    "aten::max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, "
    "int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor",
    NULL,
    POOL(shape_max_back, kernel_max_back, &max3_back, CFX_IN_NUMBER),
    GRAD(max_pool_backward, READ(7)), .out = "grad_input"};

/* ---- average -------------------------------------------------------------------------------- */

static const pool_row avg2 = {"avg_pool2d", 2, false, false};
static const pool_row avg3 = {"avg_pool3d", 3, false, false};
static const pool_row avg2_back = {"avg_pool2d", 2, false, true};
static const pool_row avg3_back = {"avg_pool3d", 3, false, true};

static void shape_avg(cfx_op_call *c) {
    const pool_row *r = c->op->row;
    const cfx_tensor *self = arg_tensor(c, 0);
    pool p;
    c->out[0] = &cfx__tensor_bad;
    if (computable(c, r->name, self->dtype, false) && read_pool(c, r, &p))
        pool_out(c, 0, &p, self->dtype, self, false);
}

static void kernel_avg(cfx_op_call *c) {
    pool p;
    if (!read_pool(c, c->op->row, &p) || !pool_begin(c, &p))
        return;
    run_rows(&p, c->out[0]->dtype, (by_type){avg_rows_f32, avg_rows_f64, avg_rows_i64});
    pool_done(c, &p);
}

static void shape_avg_back(cfx_op_call *c) {
    const cfx_tensor *grad = arg_tensor(c, 0), *self = arg_tensor(c, 1);
    pool p;
    c->out[0] = &cfx__tensor_bad;
    if (computable(c, "avg_pool2d_backward_out_frame", self->dtype, false) &&
        read_pool(c, c->op->row, &p) && same_sizes(c, &p, grad, self)) {
        if (grad->dtype != self->dtype)
            op_fail(c, "expected dtype %s for `grad_output` but got dtype %s",
                    cfx__dtype_title(self->dtype), cfx__dtype_title(grad->dtype));
        else
            pool_out(c, 0, &p, self->dtype, self, true);
    }
}

static void kernel_avg_back(cfx_op_call *c) {
    pool p;
    if (!read_pool(c, c->op->row, &p) || !pool_begin(c, &p))
        return;
    double window = (double)p.k[0] * (double)p.k[1] * (double)p.k[2];
    cfx_dtype d = c->out[0]->dtype;
    cfx__parallel(p.planes, cfx__grain(window * (double)p.out_plane),
                  d == CFX_F32   ? avg_back_f32
                  : d == CFX_F64 ? avg_back_f64
                                 : avg_back_i64,
                  &p);
    pool_done(c, &p);
}

CFX_OP(avg_pool2d) = {
    "aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool "
    "ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
    "torch._C._nn.avg_pool2d torch.nn.functional.avg_pool2d",
    POOL(shape_avg, kernel_avg, &avg2, CFX_IN_NUMBER), .takes = takes_pool, .make = make_pool,
    .quantized = CFX_QUANTIZED_MEAN, GRAD(avg_pool, READ(0)), .out = "out"};
CFX_OP(avg_pool3d) = {
    "aten::avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool "
    "ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
    "torch._C._nn.avg_pool3d torch.nn.functional.avg_pool3d",
    POOL(shape_avg, kernel_avg, &avg3, CFX_IN_NUMBER),
    .quantized = CFX_QUANTIZED_MEAN, GRAD(avg_pool, READ(0)), .autocast = CFX_CAST_F32,
    .out = "out"};
CFX_OP(avg_pool2d_backward) = {
    "aten::avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, "
    "int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
    NULL,
    POOL(shape_avg_back, kernel_avg_back, &avg2_back, CFX_IN_NUMBER),
    GRAD(avg_pool_backward, 0), .out = "grad_input"};
CFX_OP(avg_pool3d_backward) = {
    "aten::avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, "
    "int[3] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
    NULL,
    POOL(shape_avg_back, kernel_avg_back, &avg3_back, CFX_IN_NUMBER),
    GRAD(avg_pool_backward, 0), .out = "grad_input"};
