/* Pooling by places: max_unpool puts values where pooling took them from, fractional pooling draws
 * its windows from random numbers. */
#include "pool.h"

#include <math.h>

CFX_FAMILY(POOL);

/* ---- max_unpool ----------------------------------------------------------------------------- */

static bool three(cfx_op_call *c, int arg, const char *what) {
    if (arg_count(c, arg) == 3)
        return true;
    op_fail(c,
            "There should be exactly three elements (depth, height, width) in %s, but got%s %lld "
            "elements.",
            what, strcmp(what, "output_size") ? ":" : "", (long long)arg_count(c, arg));
    return false;
}

static bool read_unpool(cfx_op_call *c, int dims, pool *p) {
    const cfx_tensor *self = arg_tensor(c, 0), *indices = arg_tensor(c, 1);
    if (dims == 2 && arg_count(c, 2) != 2) {
        op_fail(c,
                "There should be exactly two elements (height, width) in output_size, but got %lld "
                "elements.",
                (long long)arg_count(c, 2));
        return false;
    }
    if (dims == 3) {
        int64_t stride[CFX_MAX_DIMS];
        if (!three(c, 2, "output_size") || !three(c, 3, "stride") || !three(c, 4, "padding"))
            return false;
        arg_ints(c, 3, stride);
        if (stride[0] <= 0 || stride[1] <= 0 || stride[2] <= 0) {
            op_fail(c, "strides should be greater than zero, but got stride: %s",
                    cfx__shape_text(3, stride));
            return false;
        }
    }
    if (indices->dtype != CFX_I64) {
        op_fail(c, "elements in indices should be type int64 but got: %s",
                cfx__dtype_title(indices->dtype));
        return false;
    }
    *p = (pool){.dims = dims};
    if (!pool_sizes(p, self, dims)) {
        op_fail(c,
                "Input to max_unpooling%dd should be a %dd or %dd Tensor, but got a tensor with %d "
                "dimensions.",
                dims, dims + 1, dims + 2, self->ndim);
        return false;
    }
    if (!cfx__tensor_same_shape(self, indices)) {
        op_fail(
            c,
            "Expected shape of indices to be same as that of the input tensor (%s) but got indices "
            "tensor with shape: %s",
            cfx__shape_text(self->ndim, self->shape),
            cfx__shape_text(indices->ndim, indices->shape));
        return false;
    }
    for (int d = 1; d < self->ndim; d++)
        if (self->shape[d] == 0) {
            op_fail(c,
                    "max_unpooling%dd(): Expected input to have non-zero size for non-batch "
                    "dimensions, but got %s with dimension %d being empty.",
                    dims, cfx__shape_text(self->ndim, self->shape), d);
            return false;
        }
    int64_t size[CFX_MAX_DIMS];
    arg_ints(c, 2, size);
    for (int d = 0; d < 3; d++)
        p->out[d] = d < 3 - dims ? 1 : size[d - (3 - dims)];
    p->out_plane = pool_volume(p->out);
    return true;
}

static void shape_unpool(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0);
    int dims = c->nargs == 3 ? 2 : 3;
    pool p;
    c->out[0] = &cfx__tensor_bad;
    if (!read_unpool(c, dims, &p))
        return;
    if (dims == 2) {
        pool_out(c, 0, &p, self->dtype, self, false);
        return;
    }
    int64_t shape[CFX_MAX_DIMS];
    memcpy(shape, self->shape, (size_t)self->ndim * sizeof *shape);
    memcpy(shape + self->ndim - 3, p.out, sizeof p.out);
    out_new(c, 0, self->dtype, self->ndim, shape);
}

static void kernel_unpool(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *indices = arg_tensor(c, 1);
    int dims = c->nargs == 3 ? 2 : 3;
    pool p;
    if (!read_unpool(c, dims, &p))
        return;
    cfx_tensor *y = dense_out(c, 0);
    if (op_failed())
        return;
    size_t size = (size_t)cfx_dtype_size(self->dtype);
    const int64_t *at = (const int64_t *)indices->data;
    memset(y->data, 0, (size_t)y->numel * size);
    for (int64_t i = 0; i < self->numel; i++) {
        if (at[i] < 0 || at[i] >= p.out_plane) {
            if (dims == 2)
                op_fail(c, "Found an invalid max index: %lld (output volumes are of size %lldx%lld",
                        (long long)at[i], (long long)p.out[1], (long long)p.out[2]);
            else
                op_fail(
                    c,
                    "Found an invalid max index: %lld (output volumes are of size %lldx%lldx%lld",
                    (long long)at[i], (long long)p.out[0], (long long)p.out[1],
                    (long long)p.out[2]);
            return;
        }
        memcpy(y->data + (size_t)(i / p.in_plane * p.out_plane + at[i]) * size,
               self->data + (size_t)i * size, size);
    }
    dense_done(c, 0, y);
}

CFX_OP(max_unpool2d) = {
    "aten::max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor",
    "torch._C._nn.max_unpool2d", .shape = shape_unpool, .kernel = kernel_unpool,
    .effects = CFX_CONTIGUOUS_ARGS, GRAD(max_unpool, READ(1)), .core = core_max_unpool2d,
    .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(max_unpool3d) = {
    "aten::max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] "
    "padding) -> Tensor",
    "torch._C._nn.max_unpool3d", .shape = shape_unpool, .kernel = kernel_unpool,
    .effects = CFX_CONTIGUOUS_ARGS, GRAD(max_unpool, READ(1)), .core = core_max_unpool3d,
    .autocast = CFX_CAST_F32, .out = "out"};

/* ---- fractional pooling --------------------------------------------------------------------- */

static bool read_fractional(cfx_op_call *c, int dims, int self_at, pool *p) {
    static const char *const axis[] = {"time", "height", "width"};
    const cfx_tensor *self = arg_tensor(c, self_at);
    const char *name = dims == 2 ? "fractional_max_pool2d" : "fractional_max_pool3d";
    const char *what = dims == 2 ? "" : "three ";
    int64_t v[CFX_MAX_DIMS];
    *p = (pool){.dims = dims, .k = {1, 1, 1}, .out = {1, 1, 1}};
    for (int a = 1; a <= 2; a++) {
        if (arg_ints(c, self_at + a, v) != dims) {
            op_fail(c, "%s: %s must either be a single Int or tuple of %sInts", name,
                    a == 1 ? "kernel_size" : "output_size", what);
            return false;
        }
        memcpy((a == 1 ? p->k : p->out) + 3 - dims, v, (size_t)dims * sizeof *v);
    }
    if (!pool_sizes(p, self, dims)) {
        op_fail(c, "%s(): Expected %dD or %dD tensor, but got: %s",
                dims == 2 ? name : "fractional_max_pool3d_out", dims + 1, dims + 2,
                cfx__shape_text(self->ndim, self->shape));
        return false;
    }
    for (int d = 1; d < self->ndim; d++)
        if (self->shape[d] == 0) {
            op_fail(
                c,
                "%s(): Expected input to have non-zero size for non-batch dimensions, but got %s "
                "with dimension %d being empty.",
                name, cfx__shape_text(self->ndim, self->shape), d);
            return false;
        }
    for (int d = 3 - dims; d < 3; d++) {
        if (p->k[d] < 1 || p->out[d] < 1) {
            op_fail(c, "%s(): kernel_size and output_size must be greater than zero", name);
            return false;
        }
        if (p->in[d] > INT32_MAX || p->k[d] > INT32_MAX || p->out[d] > INT32_MAX ||
            p->out[d] + p->k[d] - 1 > p->in[d]) {
            op_fail(c, "%s(): pool %s %lld too large relative to input %s %lld",
                    dims == 2 ? name : "fractional_max_pool3d_out", axis[d], (long long)p->k[d],
                    axis[d], (long long)p->in[d]);
            return false;
        }
    }
    p->out_plane = pool_volume(p->out);
    return true;
}

static bool samples_fit(cfx_op_call *c, const pool *p, const cfx_tensor *self,
                        const cfx_tensor *samples) {
    int64_t batch = self->ndim == p->dims + 2 ? self->shape[0] : 1;
    int64_t channels = self->shape[self->ndim - p->dims - 1];
    if (samples->ndim != 3)
        op_fail(c, "Expect _random_samples to have 3 dimensions, got %d", samples->ndim);
    else if (samples->shape[0] < batch)
        op_fail(c, "Expect _random_samples.size(0) no less then input batch size.");
    else if (samples->shape[1] != channels)
        op_fail(c, "Expect _random_samples.size(1) equals to input channel size.");
    else if (samples->shape[2] != p->dims)
        op_fail(c, "Expect _random_samples.size(2) equals to %d; got %lld.", p->dims,
                (long long)samples->shape[2]);
    else if (samples->dtype != self->dtype)
        op_fail(c, "Expect _random_samples to have the same dtype as input");
    return !op_failed();
}

static void shape_fractional(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0);
    int dims = (int)(intptr_t)c->op->row;
    pool p;
    c->out[0] = c->out[1] = &cfx__tensor_bad;
    if (!cfx__dtype_is_float(self->dtype)) {
        op_fail_as(NOT_IMPLEMENTED, c,
                   "\"fractional_max_pool%dd_out_frame\" not implemented for '%s'", dims,
                   cfx__dtype_title(self->dtype));
        return;
    }
    if (!read_fractional(c, dims, 0, &p) || !samples_fit(c, &p, self, arg_tensor(c, 3)))
        return;
    int64_t shape[CFX_MAX_DIMS];
    memcpy(shape, self->shape, (size_t)self->ndim * sizeof *shape);
    memcpy(shape + self->ndim - dims, p.out + 3 - dims, (size_t)dims * sizeof *shape);
    out_new(c, 0, self->dtype, self->ndim, shape);
    out_new(c, 1, CFX_I64, self->ndim, shape);
}

typedef struct {
    pool p;
    const char *samples;
} fractional;

#define FRACTIONAL(name, T)                                                                        \
    /* where window i of n starts */                                                               \
    static int64_t start_##name(const pool *p, int d, T sample, int64_t i) {                       \
        int64_t n = p->out[d], room = p->in[d] - p->k[d];                                          \
        if (i == n - 1)                                                                            \
            return room;                                                                           \
        sample = sample >= 0 && sample <= 1 ? sample : 0;                                          \
        T alpha = (T)room / (T)(n - 1);                                                            \
        int64_t at = (int64_t)(((T)i + sample) * alpha) - (int64_t)(sample * alpha);               \
        return at < 0 ? 0 : at > room ? room : at;                                                 \
    }                                                                                              \
    static void name(void *arg, int64_t begin, int64_t end) {                                      \
        const fractional *f = arg;                                                                 \
        const pool *p = &f->p;                                                                     \
        for (int64_t n = begin; n < end; n++) {                                                    \
            const T *x = (const T *)p->x + n * p->in_plane;                                        \
            const T *s = (const T *)f->samples + n * p->dims;                                      \
            /* two samples come as width, height; three as time, height, width */                  \
            T sd = p->dims == 3 ? s[0] : 0, sh = s[1], sw = p->dims == 3 ? s[2] : s[0];            \
            int64_t at = n * p->out_plane;                                                         \
            for (int64_t od = 0; od < p->out[0]; od++)                                             \
                for (int64_t oh = 0; oh < p->out[1]; oh++)                                         \
                    for (int64_t ow = 0; ow < p->out[2]; ow++, at++) {                             \
                        int64_t d0 = start_##name(p, 0, sd, od);                                   \
                        int64_t h0 = start_##name(p, 1, sh, oh);                                   \
                        int64_t w0 = start_##name(p, 2, sw, ow);                                   \
                        int64_t place = (d0 * p->in[1] + h0) * p->in[2] + w0;                      \
                        T best = -INFINITY;                                                        \
                        for (int64_t a = 0; a < p->k[0]; a++)                                      \
                            for (int64_t b = 0; b < p->k[1]; b++)                                  \
                                for (int64_t k = 0; k < p->k[2]; k++) {                            \
                                    int64_t i =                                                    \
                                        ((d0 + a) * p->in[1] + h0 + b) * p->in[2] + w0 + k;        \
                                    if (x[i] > best || x[i] != x[i]) {                             \
                                        best = x[i];                                               \
                                        place = i;                                                 \
                                    }                                                              \
                                }                                                                  \
                        ((T *)p->y)[at] = best;                                                    \
                        p->index[at] = place;                                                      \
                    }                                                                              \
        }                                                                                          \
    }
FRACTIONAL(fractional_f32, float)
FRACTIONAL(fractional_f64, double)

static void kernel_fractional(cfx_op_call *c) {
    fractional f = {.samples = arg_tensor(c, 3)->data};
    if (!read_fractional(c, (int)(intptr_t)c->op->row, 0, &f.p))
        return;
    f.p.x = arg_tensor(c, 0)->data;
    f.p.y = c->out[0]->data;
    f.p.index = (int64_t *)c->out[1]->data;
    double window = (double)f.p.k[0] * (double)f.p.k[1] * (double)f.p.k[2];
    cfx__parallel(f.p.planes, cfx__grain(window * (double)f.p.out_plane),
                  c->out[0]->dtype == CFX_F32 ? fractional_f32 : fractional_f64, &f);
}

CFX_OP(fractional_max_pool2d) = {
    "aten::fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor "
    "random_samples) -> (Tensor, Tensor)",
    "torch._C._nn.fractional_max_pool2d",
    POOL(shape_fractional, kernel_fractional, (const void *)2, CFX_IN_FLOAT),
    GRAD(fractional_max_pool, READ(0) | RESULT(1)), .out = "output output indices"};
CFX_OP(fractional_max_pool3d) = {
    "aten::fractional_max_pool3d(Tensor self, int[3] kernel_size, int[3] output_size, Tensor "
    "random_samples) -> (Tensor, Tensor)",
    "torch._C._nn.fractional_max_pool3d",
    POOL(shape_fractional, kernel_fractional, (const void *)3, CFX_IN_FLOAT),
    GRAD(fractional_max_pool, READ(0) | RESULT(1)), .out = "output output indices"};

/* ---- fractional pooling, backward ----------------------------------------------------------- */

static void shape_fractional_back(cfx_op_call *c) {
    const cfx_tensor *grad = arg_tensor(c, 0), *self = arg_tensor(c, 1), *index = arg_tensor(c, 4);
    int dims = (int)(intptr_t)c->op->row;
    pool p;
    c->out[0] = &cfx__tensor_bad;
    if (!read_fractional(c, dims, 1, &p))
        return;
    bool same =
        grad->ndim == self->ndim && grad->dtype == self->dtype && cfx__dtype_is_float(self->dtype);
    int lead = self->ndim - dims;
    for (int d = 0; same && d < self->ndim; d++)
        same = grad->shape[d] == (d < lead ? self->shape[d] : p.out[3 - dims + d - lead]);
    if (!same || !cfx__tensor_same_shape(grad, index) || index->dtype != CFX_I64)
        op_fail(c, "fractional_max_pool%dd_backward(): gradOutput or indices do not fit the input",
                dims);
    else
        out_new(c, 0, self->dtype, self->ndim, self->shape);
}

static void kernel_fractional_back(cfx_op_call *c) {
    pool p;
    if (read_fractional(c, (int)(intptr_t)c->op->row, 1, &p))
        pool_scatter(c, &p, arg_tensor(c, 0), arg_tensor(c, 4));
}

CFX_OP(fractional_max_pool2d_backward) = {
    "aten::fractional_max_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, "
    "int[2] output_size, Tensor indices) -> Tensor",
    NULL,
    POOL(shape_fractional_back, kernel_fractional_back, (const void *)2, CFX_IN_FLOAT),
    GRAD(max_pool_backward, READ(4)), .out = "grad_input"};
CFX_OP(fractional_max_pool3d_backward) = {
    "aten::fractional_max_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, "
    "int[3] output_size, Tensor indices) -> Tensor",
    NULL,
    POOL(shape_fractional_back, kernel_fractional_back, (const void *)3, CFX_IN_FLOAT),
    GRAD(max_pool_backward, READ(4)), .out = "grad_input"};
