/* Deformable convolution: the places that a kernel looks at are moved by offsets, and weighted by a
 * mask. The places are gathered as columns, which are then multiplied by the weights. */
#include <cfx/ops.h>

#include "../back.h"
#include "../dense.h"

#include <math.h>

CFX_FAMILY(CONV);

/* input, offset, mask, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h,
 * dilation_w, offset_groups, use_mask */
typedef struct {
    int64_t batch, channels, height, width, groups;
    int64_t kernel[2], stride[2], pad[2], dilation[2], out[2];
} deform;

static deform deform_of(const cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    deform d = {.batch = x->shape[0],
                .channels = x->shape[1],
                .height = x->shape[2],
                .width = x->shape[3],
                .groups = arg_int(c, 11)};
    for (int i = 0; i < 2; i++) {
        d.kernel[i] = arg_int(c, 3 + i);
        d.stride[i] = arg_int(c, 5 + i);
        d.pad[i] = arg_int(c, 7 + i);
        d.dilation[i] = arg_int(c, 9 + i);
    }
    return d;
}

/* The number of places along one direction; -1, with an error, where there is none. */
static int64_t places(cfx_op_call *c, const deform *d, int i, int64_t size) {
    int64_t span, room;
    if (d->kernel[i] <= 0 || d->stride[i] <= 0 || d->pad[i] < 0 || d->dilation[i] <= 0) {
        op_fail(c,
                "deform_conv2d: kernel %lld, stride %lld, padding %lld and dilation %lld must be "
                "positive (padding may be 0)",
                (long long)d->kernel[i], (long long)d->stride[i], (long long)d->pad[i],
                (long long)d->dilation[i]);
        return -1;
    }
    if (__builtin_mul_overflow(d->dilation[i], d->kernel[i] - 1, &span) ||
        __builtin_mul_overflow(d->pad[i], 2, &room) || __builtin_add_overflow(room, size, &room) ||
        __builtin_add_overflow(span, 1, &span) || __builtin_sub_overflow(room, span, &room) ||
        room < 0) {
        op_fail(c, "Calculated output size too small: the kernel does not fit the input");
        return -1;
    }
    return room / d->stride[i] + 1;
}

static bool is_sized(cfx_op_call *c, const char *name, const cfx_tensor *t, const int64_t *shape) {
    for (int i = 0; i < 4; i++)
        if (t->ndim != 4 || t->shape[i] != shape[i]) {
            op_fail(c, "%s has shape %s, expected %s", name, cfx__shape_text(t->ndim, t->shape),
                    cfx__shape_text(4, shape));
            return false;
        }
    return true;
}

static void shape_columns(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *offset = arg_tensor(c, 1), *mask = arg_tensor(c, 2);
    if (x->ndim != 4) {
        op_fail(c, "deform_conv2d: input must be a 4D tensor, got %dD", x->ndim);
        return;
    }
    deform d = deform_of(c);
    int64_t taps, columns;
    if (d.groups <= 0 || d.channels % d.groups) {
        op_fail(c, "deform_conv2d: the input's %lld channels cannot be cut into %lld offset groups",
                (long long)d.channels, (long long)d.groups);
        return;
    }
    if ((d.out[0] = places(c, &d, 0, d.height)) < 0 || (d.out[1] = places(c, &d, 1, d.width)) < 0)
        return;
    if (__builtin_mul_overflow(d.kernel[0], d.kernel[1], &taps) || taps > INT32_MAX ||
        __builtin_mul_overflow(taps, d.channels, &columns) || d.groups > INT32_MAX) {
        op_fail(c, "deform_conv2d: the kernel is too large");
        return;
    }
    int64_t moved[] = {d.batch, 2 * d.groups * taps, d.out[0], d.out[1]};
    int64_t masked[] = {d.batch, d.groups * taps, d.out[0], d.out[1]};
    if (!is_sized(c, "deform_conv2d: offset", offset, moved) ||
        (arg_bool(c, 12) && !is_sized(c, "deform_conv2d: mask", mask, masked)))
        return;
    if (x->dtype != offset->dtype || x->dtype != mask->dtype)
        op_fail(c, "deform_conv2d: input, offset and mask should have the same type");
    else
        out_new(c, 0, x->dtype, 3, (int64_t[]){d.batch, columns, d.out[0] * d.out[1]});
}

typedef struct {
    const char *x, *offset, *mask;
    char *out;
    deform d;
} columns;

/* Channel by channel of the whole batch. */
#define GATHER(name, T)                                                                            \
    static T at_##name(const T *x, int64_t height, int64_t width, int64_t y, int64_t i) {          \
        return y >= 0 && y < height && i >= 0 && i < width ? x[y * width + i] : 0;                 \
    }                                                                                              \
    static T between_##name(const T *x, int64_t height, int64_t width, T y, T i) {                 \
        if (!(y > -1 && y < (T)height && i > -1 && i < (T)width))                                  \
            return 0;                                                                              \
        int64_t top = (int64_t)floor((double)y), left = (int64_t)floor((double)i);                 \
        T dy = y - (T)top, dx = i - (T)left;                                                       \
        return (1 - dy) * (1 - dx) * at_##name(x, height, width, top, left) +                      \
               (1 - dy) * dx * at_##name(x, height, width, top, left + 1) +                        \
               dy * (1 - dx) * at_##name(x, height, width, top + 1, left) +                        \
               dy * dx * at_##name(x, height, width, top + 1, left + 1);                           \
    }                                                                                              \
    static void name(void *arg, int64_t begin, int64_t end) {                                      \
        const columns *k = arg;                                                                    \
        const deform *d = &k->d;                                                                   \
        int64_t taps = d->kernel[0] * d->kernel[1], n = d->out[0] * d->out[1];                     \
        for (int64_t p = begin; p < end; p++) {                                                    \
            int64_t b = p / d->channels, ch = p % d->channels;                                     \
            int64_t g = b * d->groups + ch / (d->channels / d->groups);                            \
            const T *x = (const T *)k->x + p * d->height * d->width;                               \
            for (int64_t t = 0; t < taps; t++) {                                                   \
                const T *dy = (const T *)k->offset + (g * taps + t) * 2 * n, *dx = dy + n;         \
                const T *mask = k->mask ? (const T *)k->mask + (g * taps + t) * n : NULL;          \
                T *out = (T *)k->out + (p * taps + t) * n;                                         \
                for (int64_t i = 0; i < n; i++) {                                                  \
                    int64_t row = i / d->out[1] * d->stride[0] - d->pad[0] +                       \
                                  t / d->kernel[1] * d->dilation[0];                               \
                    int64_t column = i % d->out[1] * d->stride[1] - d->pad[1] +                    \
                                     t % d->kernel[1] * d->dilation[1];                            \
                    out[i] = between_##name(x, d->height, d->width, (T)row + dy[i],                \
                                            (T)column + dx[i]) *                                   \
                             (mask ? mask[i] : 1);                                                 \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
GATHER(gather_f32, float)
GATHER(gather_f64, double)

/* What the gradient of the columns gives to input, offset and mask, offset group by offset group:
 * no two of them share a channel. */
typedef struct {
    columns k;
    const char *grad;
    char *x, *offset, *mask;
} columns_back;

#define SPREAD(name, T)                                                                            \
    static void name(void *arg, int64_t begin, int64_t end) {                                      \
        const columns_back *s = arg;                                                               \
        const deform *d = &s->k.d;                                                                 \
        int64_t taps = d->kernel[0] * d->kernel[1], n = d->out[0] * d->out[1];                     \
        int64_t each = d->channels / d->groups, h = d->height, w = d->width;                       \
        for (int64_t j = begin * taps * n; j < end * taps * n; j++) {                              \
            int64_t i = j % n, t = j / n % taps, g = j / n / taps;                                 \
            int64_t at = (g * taps + t) * 2 * n + i, b = g / d->groups, first = g % d->groups;     \
            const T *move = (const T *)s->k.offset + at;                                           \
            T m = s->k.mask ? ((const T *)s->k.mask)[j] : 1;                                       \
            T y = (T)(i / d->out[1] * d->stride[0] - d->pad[0] +                                   \
                      t / d->kernel[1] * d->dilation[0]) + move[0];                                \
            T z = (T)(i % d->out[1] * d->stride[1] - d->pad[1] +                                   \
                      t % d->kernel[1] * d->dilation[1]) + move[n];                                \
            T gy = 0, gx = 0, gm = 0;                                                              \
            bool inside = y > -1 && y < (T)h && z > -1 && z < (T)w;                                \
            for (int64_t q = 0; inside && q < each; q++) {                                         \
                int64_t plane = b * d->channels + first * each + q;                                \
                T grad = ((const T *)s->grad)[(plane * taps + t) * n + i];                         \
                const T *x = (const T *)s->k.x + plane * h * w;                                    \
                T *to = (T *)s->x + plane * h * w;                                                 \
                int64_t top = (int64_t)floor((double)y), left = (int64_t)floor((double)z);         \
                for (int c = 0; c < 4; c++) {                                                      \
                    int64_t row = top + c / 2, column = left + c % 2;                              \
                    T wy = c / 2 ? y - (T)top : 1 - (y - (T)top);                                  \
                    T wx = c % 2 ? z - (T)left : 1 - (z - (T)left);                                \
                    if (row < 0 || row >= h || column < 0 || column >= w)                          \
                        continue;                                                                  \
                    T v = x[row * w + column];                                                     \
                    to[row * w + column] += grad * m * wy * wx;                                    \
                    gm += grad * wy * wx * v;                                                      \
                    gy += (c / 2 ? 1 : -1) * grad * m * wx * v;                                    \
                    gx += (c % 2 ? 1 : -1) * grad * m * wy * v;                                    \
                }                                                                                  \
            }                                                                                      \
            ((T *)s->offset)[at] = gy;                                                             \
            ((T *)s->offset)[at + n] = gx;                                                         \
            if (s->mask)                                                                           \
                ((T *)s->mask)[j] = gm;                                                            \
        }                                                                                          \
    }
SPREAD(spread_f32, float)
SPREAD(spread_f64, double)

static columns columns_of(const cfx_op_call *c) {
    columns k = {arg_tensor(c, 0)->data, arg_tensor(c, 1)->data,
                 arg_bool(c, 12) ? arg_tensor(c, 2)->data : NULL, c->out[0]->data, deform_of(c)};
    for (int i = 0; i < 2; i++)
        k.d.out[i] = arg_tensor(c, 1)->shape[2 + i];
    return k;
}

/* The arguments of deform_columns, and grad. */
static void shape_columns_back(cfx_op_call *c) {
    const cfx_tensor *grad = arg_tensor(c, 13);
    shape_columns(c);
    if (op_failed())
        return;
    if (!cfx__tensor_same_shape(c->out[0], grad) || grad->dtype != arg_tensor(c, 0)->dtype) {
        op_fail(c, "deform_columns_backward: the gradient has shape %s, expected %s",
                cfx__shape_text(grad->ndim, grad->shape),
                cfx__shape_text(c->out[0]->ndim, c->out[0]->shape));
        return;
    }
    for (int i = 0; i < 3; i++)
        out_new(c, i, grad->dtype, arg_tensor(c, i)->ndim, arg_tensor(c, i)->shape);
}

static void kernel_columns_back(cfx_op_call *c) {
    columns_back s = {columns_of(c), arg_tensor(c, 13)->data, c->out[0]->data, c->out[1]->data,
                      arg_bool(c, 12) ? c->out[2]->data : NULL};
    cfx__tensor_fill(c->out[0], cfx_int(0));
    if (!s.mask)
        cfx__tensor_fill(c->out[2], cfx_int(0));
    cfx__parallel(s.k.d.batch * s.k.d.groups, 1,
                  c->out[0]->dtype == CFX_F64 ? spread_f64 : spread_f32, &s);
}

static void kernel_columns(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    columns k = columns_of(c);
    cfx__parallel(k.d.batch * k.d.channels, 1, x->dtype == CFX_F64 ? gather_f64 : gather_f32, &k);
}

CFX_OP(cfx_deform_columns) = {
    "cfx::deform_columns(Tensor input, Tensor offset, Tensor mask, SymInt kernel_h, SymInt "
    "kernel_w, SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
    "SymInt dilation_w, SymInt offset_groups, bool use_mask) -> Tensor",
    NULL,
    .shape = shape_columns,
    .kernel = kernel_columns,
    .dtypes = CFX_IN_FLOAT,
    .effects = CFX_CONTIGUOUS_ARGS};

CFX_OP(cfx_deform_columns_backward) = {
    "cfx::deform_columns_backward(Tensor input, Tensor offset, Tensor mask, SymInt kernel_h, "
    "SymInt kernel_w, SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt "
    "dilation_h, SymInt dilation_w, SymInt offset_groups, bool use_mask, Tensor grad) -> (Tensor, "
    "Tensor, Tensor)",
    NULL,
    .shape = shape_columns_back,
    .kernel = kernel_columns_back,
    .dtypes = CFX_IN_FLOAT,
    .effects = CFX_CONTIGUOUS_ARGS};

/* ---- the convolution ------------------------------------------------------------------------- */

/* input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
 * groups, offset_groups, use_mask */
static cfx_tensor *gather(const cfx_value *a) {
    const cfx_tensor *w = cfx_as_tensor(a[1]);
    return cfx_cfx_deform_columns(a[0], a[2], a[3], w->shape[2], w->shape[3], a[5], a[6], a[7],
                                  a[8], a[9], a[10], a[12], a[13]);
}

static void decompose_deform(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1), *offset = arg_tensor(c, 2);
    cfx_tensor *bias = arg_tensor(c, 4);
    int64_t groups = arg_int(c, 11);
    if (x->ndim != 4 || w->ndim != 4 || offset->ndim != 4) {
        op_fail(c,
                "deform_conv2d: input, weight and offset must be 4D tensors, got %dD, %dD and "
                "%dD",
                x->ndim, w->ndim, offset->ndim);
        return;
    }
    if (groups <= 0 || x->shape[1] % groups || w->shape[0] % groups ||
        w->shape[1] != x->shape[1] / groups || bias->ndim != 1 || bias->shape[0] != w->shape[0]) {
        op_fail(c, "deform_conv2d: weight %s and bias %s do not fit %lld channels in %lld groups",
                cfx__shape_text(4, w->shape), cfx__shape_text(bias->ndim, bias->shape),
                (long long)x->shape[1], (long long)groups);
        return;
    }
    cfx_tensor *gathered = gather(c->args);
    if (op_failed())
        return;
    int64_t per = w->shape[1] * w->shape[2] * w->shape[3], n = gathered->shape[2];
    gathered = cfx_view(gathered, cfx_list(x->shape[0], groups, per, n));
    w = cfx_reshape(w, cfx_list(1, groups, arg_tensor(c, 1)->shape[0] / groups, per));
    cfx_tensor *y =
        cfx_view(cfx_matmul(w, gathered), cfx_list(x->shape[0], arg_tensor(c, 1)->shape[0],
                                                   offset->shape[2], offset->shape[3]));
    c->out[0] = cfx_add(y, cfx_view(bias, cfx_list(1, -1, 1, 1)));
}

/* grad, and the arguments of deform_conv2d: the products of the forward pass, turned around. */
static void decompose_deform_back(cfx_op_call *c) {
    const cfx_value *a = c->args + 1;
    cfx_tensor *grad = arg_tensor(c, 0), *x = arg_tensor(c, 1), *w = arg_tensor(c, 2);
    int64_t groups = cfx_integer(a[11]), outs = w->ndim ? w->shape[0] : 0;
    if (x->ndim != 4 || w->ndim != 4 || grad->ndim != 4 || groups <= 0 || outs % groups ||
        x->shape[1] % groups || w->shape[1] != x->shape[1] / groups || grad->shape[1] != outs ||
        grad->shape[0] != x->shape[0]) {
        op_fail(c, "_deform_conv2d_backward: the gradient %s does not fit weight %s",
                cfx__shape_text(grad->ndim, grad->shape), cfx__shape_text(w->ndim, w->shape));
        return;
    }
    int64_t per = w->shape[1] * w->shape[2] * w->shape[3], n = grad->shape[2] * grad->shape[3];
    cfx_tensor *g = cfx_reshape(grad, cfx_list(x->shape[0], groups, outs / groups, n));
    cfx_tensor *flat = cfx_reshape(w, cfx_list(1, groups, outs / groups, per));
    cfx_tensor *gathered = cfx_view(gather(a), cfx_list(x->shape[0], groups, per, n));
    cfx_tensor *from = cfx_reshape(cfx_matmul(cfx_transpose(flat, 2, 3), g),
                                   cfx_list(x->shape[0], groups * per, n));
    cfx_value back = cfx_cfx_deform_columns_backward(
        a[0], a[2], a[3], w->shape[2], w->shape[3], a[5], a[6], a[7], a[8], a[9], a[10], a[12],
        a[13], from);
    if (op_failed())
        return;
    c->out[0] = cfx_tensor_at(back, 0);
    c->out[1] = cfx_reshape(cfx_sum(cfx_matmul(g, cfx_transpose(gathered, 2, 3)), cfx_list(0)),
                            cfx_ints_value(4, w->shape));
    c->out[2] = cfx_tensor_at(back, 1);
    c->out[3] = cfx_tensor_at(back, 2);
    c->out[4] = cfx_sum(grad, cfx_list(0, 2, 3));
}

static void grad_deform(cfx_back *b) {
    cfx_value args[15] = {cfx_tensor_value(b->gout[0])};
    memcpy(args + 1, b->args, 14 * sizeof *args);
    cfx_value grads =
        cfx__op_call_bound(b->at, &cfx_op_torchvision__deform_conv2d_backward, args);
    for (int i = 0; i < 5; i++)
        back_give_at(b, i, grads, i);
}

CFX_OP(torchvision__deform_conv2d_backward) = {
    "torchvision::_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, "
    "Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, "
    "SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor)",
    NULL, .decompose = decompose_deform_back};
CFX_OP(torchvision_deform_conv2d) = {
    "torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor "
    "bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt "
    "dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
    NULL, .decompose = decompose_deform,
    GRAD(deform, READ(0) | READ(1) | READ(2) | READ(3))};
