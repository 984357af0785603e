/* Adaptive pooling: the size of the result is given, the windows follow. */
#include <cfx/ops.h>

#include "../ready.h"
#include "pool.h"

#include <math.h>

CFX_FAMILY(POOL);

/* The part of dimension d that result o covers. */
static inline void part(const pool *p, int d, int64_t o, int64_t *range) {
    int64_t in = p->in[d], out = p->out[d];
    range[0] = o / out * in + o % out * in / out;
    range[1] = 1 + ((o + 1) * in - 1) / out;
}

#define T float
#define FN(x) x##_f32
#define LOWEST -INFINITY
#include "pool_adaptive.inc"
#define T double
#define FN(x) x##_f64
#define LOWEST -INFINITY
#include "pool_adaptive.inc"

typedef struct {
    const char *name;
    int dims;
    bool max;
} row;

static const row avg2 = {"adaptive_avg_pool2d", 2, false};
static const row avg3 = {"adaptive_avg_pool3d", 3, false};
static const row max2 = {"adaptive_max_pool2d", 2, true}, max3 = {"adaptive_max_pool3d", 3, true};

static bool read_input(cfx_op_call *c, const row *r, pool *p, const cfx_tensor *self) {
    *p = (pool){.dims = r->dims, .plain = r->dims == 3};
    if (!pool_sizes(p, self, r->dims)) {
        op_fail(c, "%s(): Expected %dD or %dD tensor, but got%s %s", r->name, r->dims + 1,
                r->dims + 2, r->max ? ":" : "", cfx__shape_text(self->ndim, self->shape));
        return false;
    }
    for (int d = r->max ? 1 : self->ndim - r->dims; d < self->ndim; d++)
        if (self->shape[d] == 0) {
            op_fail(
                c,
                "%s(): Expected input to have non-zero size for non-batch dimensions, but input "
                "has sizes %s with dimension %d being empty",
                r->name, cfx__shape_text(self->ndim, self->shape), d);
            return false;
        }
    if (!cfx__dtype_is_float(self->dtype)) {
        op_fail_as(NOT_IMPLEMENTED, c, "\"%s%s\" not implemented for '%s'", r->name,
                   strstr(op_title(c), "_backward") ? "_backward" : r->dims == 3 ? "_cpu" : "",
                   cfx__dtype_title(self->dtype));
        return false;
    }
    return true;
}

static bool read_all(cfx_op_call *c, const row *r, pool *p) {
    const cfx_tensor *self = arg_tensor(c, 0);
    int64_t size[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, size);
    if (op_failed())
        return false;
    if (n != r->dims) {
        op_fail(c,
                r->max ? "%s(): internal error: output_size.size() must be %d"
                       : "%s: output_size must be %d",
                r->name, r->dims);
        return false;
    }
    for (int k = 0; k < n; k++) {
        if (size[k] > INT32_MAX) {
            op_fail_large(c, "integer out of range");
            return false;
        }
        if (size[k] < 0 && !r->max) {
            const char *text = cfx__shape_text(n, size);
            op_fail(c,
                    "%s: elements of output_size must be greater than or equal to 0 but received "
                    "{%.*s}",
                    r->name, (int)strlen(text) - 2, text + 1);
            return false;
        }
    }
    if (!read_input(c, r, p, self))
        return false;
    for (int d = 0; d < 3; d++) {
        p->out[d] = d < 3 - n ? 1 : size[d - (3 - n)];
        if (p->in[d] > INT32_MAX) {
            op_fail_large(c, "integer out of range");
            return false;
        }
    }
    p->out_plane = pool_volume(p->out);
    if (c->op->effects & CFX_COMPOSITE && p->out_plane == 1)
        p->plain = false; /* see decompose_avg */
    return true;
}

static void shape_adaptive(cfx_op_call *c) {
    const row *r = c->op->row;
    const cfx_tensor *self = arg_tensor(c, 0);
    pool p;
    c->out[0] = c->out[1] = &cfx__tensor_bad;
    if (!read_all(c, r, &p))
        return;
    pool_out(c, 0, &p, self->dtype, self, false);
    if (r->max)
        pool_out(c, 1, &p, CFX_I64, self, false);
}

static void kernel_adaptive(cfx_op_call *c) {
    const row *r = c->op->row;
    pool p;
    if (!read_all(c, r, &p) || !pool_begin(c, &p))
        return;
    bool single = c->out[0]->dtype == CFX_F32;
    cfx__parallel(c->out[0]->numel ? p.planes : 0,
                  cfx__grain((double)p.in_plane + (double)p.out_plane),
                  r->max ? (single ? max_planes_f32 : max_planes_f64)
                         : (single ? avg_planes_f32 : avg_planes_f64),
                  &p);
    pool_done(c, &p);
}

#define COLUMNS(r)                                                                                 \
    .shape = shape_adaptive, .kernel = kernel_adaptive, .row = &r, .dtypes = CFX_IN_FLOAT

CFX_OP(_adaptive_avg_pool2d) = {
    "aten::_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor", NULL, COLUMNS(avg2),
    .quantized = CFX_QUANTIZED_MEAN, .effects = CFX_CONTIGUOUS_ARGS,
    GRAD(adaptive_avg_pool, READ(0)), .out = "out"};
CFX_OP(_adaptive_avg_pool3d) = {
    "aten::_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor", NULL, COLUMNS(avg3),
    .quantized = CFX_QUANTIZED_MEAN, .effects = CFX_CONTIGUOUS_ARGS,
    GRAD(adaptive_avg_pool, READ(0)), .out = "out"};
CFX_OP(adaptive_max_pool2d) = {
    "aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)",
    "torch._C._nn.adaptive_max_pool2d", COLUMNS(max2), .effects = CFX_CONTIGUOUS_ARGS,
    GRAD(adaptive_max_pool, READ(0) | RESULT(1)), .out = "out out indices"};
CFX_OP(adaptive_max_pool3d) = {
    "aten::adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)",
    "torch._C._nn.adaptive_max_pool3d", COLUMNS(max3), .effects = CFX_CONTIGUOUS_ARGS,
    GRAD(adaptive_max_pool, READ(0) | RESULT(1)), .out = "out out indices"};

static bool takes_adaptive(const cfx__layer *l) {
    cfx_op_call c = l->call;
    pool p = {0};
    return pool_last_takes(l, false) && read_all(&c, c.op->row, &p);
}

static cfx__ready *make_adaptive(const cfx__layer *l) {
    cfx_op_call c = l->call;
    pool p = {0};
    return read_all(&c, c.op->row, &p) ? pool_last_ready(l, &p, false, true) : NULL;
}

/* ---- the composites ------------------------------------------------------------------------- */

/* A result of one element a plane is a mean; everything else goes to the operator proper. */
static void decompose_avg(cfx_op_call *c) {
    const row *r = c->op->row;
    int64_t size[CFX_MAX_DIMS], dims[3] = {-1, -2, -3};
    int n = arg_ints(c, 1, size);
    bool one = n == r->dims;
    for (int k = 0; k < n; k++)
        one &= size[k] == 1;
    const cfx_tensor *t = arg_tensor(c, 0);
    if (one) {
        c->out[0] = cfx_mean(c->args[0], cfx_ints_value(n, dims), cfx_bool(true));
        cfx_memory_format last = n == 2 ? CFX_CHANNELS_LAST : CFX_CHANNELS_LAST_3D;
        if (t->ndim == n + 2 && cfx__tensor_suggest_format(t) == last) {
            int64_t ch = t->shape[1], shape[] = {t->shape[0], ch, 1, 1, 1};
            int64_t stride[] = {ch, 1, ch, ch, ch};
            c->out[0] = cfx_as_strided(c->out[0], cfx_ints_value(n + 2, shape),
                                       cfx_ints_value(n + 2, stride));
        }
    } else
        c->out[0] = r->dims == 2 ? cfx_aten__adaptive_avg_pool2d(c->args[0], c->args[1])
                                 : cfx_aten__adaptive_avg_pool3d(c->args[0], c->args[1]);
}

CFX_OP(adaptive_avg_pool2d) = {
    "aten::adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor",
    "torch._C._nn.adaptive_avg_pool2d", COLUMNS(avg2),
    .takes = takes_adaptive, .make = make_adaptive, .quantized = CFX_QUANTIZED_MEAN,
    .decompose = decompose_avg,
    .effects = CFX_COMPOSITE | CFX_CONTIGUOUS_ARGS, .out = "out"};
CFX_OP(adaptive_avg_pool3d) = {
    "aten::adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor",
    "torch._C._nn.adaptive_avg_pool3d", COLUMNS(avg3),
    .quantized = CFX_QUANTIZED_MEAN, .decompose = decompose_avg,
    .effects = CFX_COMPOSITE | CFX_CONTIGUOUS_ARGS,
    .autocast = CFX_CAST_F32, .out = "out"};

/* ---- backward ------------------------------------------------------------------------------- */

static bool read_back(cfx_op_call *c, const row *r, pool *p) {
    const cfx_tensor *grad = arg_tensor(c, 0), *self = arg_tensor(c, 1);
    if (!read_input(c, r, p, self))
        return false;
    bool same = grad->ndim == self->ndim;
    for (int d = 0; same && d < self->ndim - r->dims; d++)
        same = grad->shape[d] == self->shape[d];
    for (int d = self->ndim - r->dims; same && d < self->ndim; d++)
        same = grad->shape[d] > 0 && self->shape[d] <= INT32_MAX && grad->shape[d] <= INT32_MAX;
    if (!same || grad->dtype != self->dtype) {
        op_fail(c,
                "%s_backward(): grad_output of shape %s and dtype %s does not fit input of %s, %s",
                r->name, cfx__shape_text(grad->ndim, grad->shape), cfx__dtype_title(grad->dtype),
                cfx__shape_text(self->ndim, self->shape), cfx__dtype_title(self->dtype));
        return false;
    }
    for (int d = 0; d < 3; d++)
        p->out[d] = d < 3 - r->dims ? 1 : grad->shape[grad->ndim - 3 + d];
    p->out_plane = pool_volume(p->out);
    if (r->max) {
        const cfx_tensor *index = arg_tensor(c, 2);
        if (!cfx__tensor_same_shape(grad, index) || index->dtype != CFX_I64) {
            op_fail(c,
                    "%s_backward(): expected indices of dtype int64 and the shape of grad_output",
                    r->name);
            return false;
        }
    }
    return true;
}

static void shape_back(cfx_op_call *c) {
    pool p;
    c->out[0] = &cfx__tensor_bad;
    if (read_back(c, c->op->row, &p))
        pool_out(c, 0, &p, arg_tensor(c, 1)->dtype, arg_tensor(c, 1), true);
}

static void kernel_avg_back(cfx_op_call *c) {
    pool p;
    if (!read_back(c, c->op->row, &p) || !pool_begin(c, &p))
        return;
    cfx__parallel(p.planes, cfx__grain((double)p.in_plane + (double)p.out_plane),
                  c->out[0]->dtype == CFX_F32 ? avg_back_f32 : avg_back_f64, &p);
    pool_done(c, &p);
}

static void kernel_max_back(cfx_op_call *c) {
    pool p;
    if (read_back(c, c->op->row, &p))
        pool_scatter(c, &p, arg_tensor(c, 0), arg_tensor(c, 2));
}

CFX_OP(_adaptive_avg_pool2d_backward) = {
    "aten::_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor",
    NULL,
    POOL(shape_back, kernel_avg_back, &avg2, CFX_IN_FLOAT),
    GRAD(adaptive_avg_pool_backward, 0), .out = "out"};
CFX_OP(_adaptive_avg_pool3d_backward) = {
    "aten::_adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self) -> Tensor",
    NULL,
    POOL(shape_back, kernel_avg_back, &avg3, CFX_IN_FLOAT),
    GRAD(adaptive_avg_pool_backward, 0), .out = "out"};
CFX_OP(adaptive_max_pool2d_backward) = {
    "aten::adaptive_max_pool2d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor",
    NULL,
    POOL(shape_back, kernel_max_back, &max2, CFX_IN_FLOAT),
    GRAD(max_pool_backward, READ(2)), .out = "grad_input"};
CFX_OP(adaptive_max_pool3d_backward) = {
    "aten::adaptive_max_pool3d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor",
    NULL,
    POOL(shape_back, kernel_max_back, &max3, CFX_IN_FLOAT),
    GRAD(max_pool_backward, READ(2)), .out = "grad_input"};
