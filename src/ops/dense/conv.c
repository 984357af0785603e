/* Convolution: geometry, checks, and which way it is computed. */
#include "../back.h"
#include "../dense.h"
#include "conv.h"
#include "int8.h"
#include "../views.h"

CFX_FAMILY(CONV);

/* ---- geometry -------------------------------------------------------------------------------- */

/* "(8 x 8)" */
static const char *sizes_text(int n, const int64_t *size) {
    cfx__text t = {0};
    for (int i = 0; i < n; i++)
        cfx__text_printf(&t, "%s%lld", i ? " x " : "", (long long)size[i]);
    return cfx__text_take(&t);
}

/* A list of `dims` numbers, one of which may stand for all. */
static bool list_of(cfx_op_call *c, int arg, const char *name, int dims, int64_t *out) {
    int64_t given[CFX_MAX_DIMS];
    int n = arg_ints(c, arg, given);
    if (op_failed())
        return false;
    if (n != dims && n != 1) {
        op_fail(c,
                "expected %s to be a single integer value or a list of %d values to match the "
                "convolution dimensions, but got %s=%s",
                name, dims, name, cfx__shape_text(n, given));
        return false;
    }
    for (int i = 0; i < dims; i++)
        out[i] = given[n == 1 ? 0 : i];
    return true;
}

/* Numbers beyond this are no sizes: arithmetic on them would overflow. */
static const int64_t absurd = (int64_t)1 << 31;

static bool any_below(int n, const int64_t *v, int64_t least) {
    for (int i = 0; i < n; i++)
        if (v[i] < least)
            return true;
    return false;
}

static bool all_sane(cfx_op_call *c, int n, const int64_t *v) {
    for (int i = 0; i < n; i++)
        if (v[i] > absurd) {
            op_fail_large(c, "convolution: %lld is out of range", (long long)v[i]);
            return false;
        }
    return true;
}

static bool channels_fit(cfx_op_call *c, const conv_args *a, bool transposed, int64_t groups) {
    const cfx_tensor *x = a->input, *w = a->weight, *b = a->bias;
    const char *wtext = cfx__shape_text(w->ndim, w->shape);
    int64_t bias_size = transposed ? w->shape[1] * groups : w->shape[0];
    int64_t channels = transposed ? w->shape[0] : w->shape[1] * groups;
    if (w->ndim != x->ndim)
        op_fail(c,
                "Expected %d-dimensional input for %d-dimensional weight %s, but got "
                "%d-dimensional input of size %s instead",
                w->ndim, w->ndim, wtext, x->ndim, cfx__shape_text(x->ndim, x->shape));
    else if (w->shape[0] < groups)
        op_fail(c,
                "Given groups=%lld, expected weight to be at least %lld at dimension 0, but got "
                "weight of size %s instead",
                (long long)groups, (long long)groups, wtext);
    else if (w->shape[0] % groups)
        op_fail(
            c,
            "Given groups=%lld, expected weight to be divisible by %lld at dimension 0, but got "
            "weight of size [%s] instead",
            (long long)groups, (long long)groups, wtext);
    else if (x->shape[1] != channels)
        op_fail(c,
                "Given %s=%lld, weight of size %s, expected input%s to have %lld channels, but got "
                "%lld channels instead",
                transposed ? "transposed" : "groups", transposed ? 1LL : (long long)groups, wtext,
                cfx__shape_text(x->ndim, x->shape), (long long)channels, (long long)x->shape[1]);
    else if (b && (b->ndim != 1 || b->shape[0] != bias_size))
        op_fail(c,
                "Given %sweight of size %s, expected bias to be 1-dimensional with %lld elements, "
                "but got bias of size %s instead",
                transposed ? "transposed=1, " : "", wtext, (long long)bias_size,
                cfx__shape_text(b->ndim, b->shape));
    else
        return true;
    return false;
}

static bool dtypes_fit(cfx_op_call *c, const conv_args *a) {
    const cfx_tensor *x = a->input, *other = NULL;
    if (a->weight->dtype != x->dtype)
        other = a->weight;
    else if (a->bias && a->bias->dtype != x->dtype)
        other = a->bias;
    if (other)
        op_fail(c, "expected scalar type %s but found %s", cfx__dtype_title(x->dtype),
                cfx__dtype_title(other->dtype));
    else if (x->dtype == CFX_BOOL)
        op_fail_as(NOT_IMPLEMENTED, c, "\"slow_conv%dd_cpu\" not implemented for 'Bool'",
                   x->ndim - 2);
    return !op_failed();
}

/* What the arguments say of each dimension of space. */
typedef struct {
    int dims;
    bool transposed;
    int64_t stride[3], pad[3], dilation[3], more[3];
} window;

static bool read_window(cfx_op_call *c, const conv_args *a, window *w) {
    w->dims = a->weight->ndim - 2;
    w->transposed = arg_bool(c, a->transposed);
    if (w->dims <= 0)
        op_fail(c, "weight should have at least three dimensions");
    else if (w->dims > 3)
        op_fail(c, "unsupported ConvNd parameters");
    else if (arg_int(c, a->groups) <= 0)
        op_fail(c, "non-positive groups is not supported");
    if (op_failed() || !list_of(c, a->stride, "stride", w->dims, w->stride) ||
        !list_of(c, a->padding, "padding", w->dims, w->pad) ||
        !list_of(c, a->dilation, "dilation", w->dims, w->dilation) ||
        !list_of(c, a->output_padding, "output_padding", w->dims, w->more))
        return false;
    if (any_below(w->dims, w->pad, 0))
        op_fail(c, "negative padding is not supported");
    else if (any_below(w->dims, w->more, 0))
        op_fail(c, "negative output_padding is not supported");
    else if (any_below(w->dims, w->stride, 1))
        op_fail(c, "non-positive stride is not supported");
    else if (any_below(w->dims, w->dilation, 1))
        op_fail(c, "dilation should be greater than zero");
    return !op_failed();
}

/* No number of it is so large that sizes overflow. */
static bool is_sane(cfx_op_call *c, const window *w) {
    return all_sane(c, w->dims, w->stride) && all_sane(c, w->dims, w->pad) &&
           all_sane(c, w->dims, w->dilation) && all_sane(c, w->dims, w->more);
}

/* The sizes of the result along each dimension of space. */
static bool result_sizes(cfx_op_call *c, const window *w, const int64_t *in, const int64_t *kernel,
                         int64_t *out) {
    int64_t padded[3], spread[3];
    bool fits = true;
    for (int i = 0; i < w->dims; i++) {
        padded[i] = in[i] + 2 * w->pad[i];
        spread[i] = w->dilation[i] * (kernel[i] - 1) + 1;
        if (w->transposed)
            out[i] = (in[i] - 1) * w->stride[i] - 2 * w->pad[i] + spread[i] + w->more[i];
        else
            out[i] = (padded[i] - spread[i]) / w->stride[i] + 1;
        fits &= w->transposed ? out[i] >= 0 : padded[i] >= spread[i];
    }
    if (!w->transposed && !fits)
        op_fail(c,
                "Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size "
                "can't be greater than actual input size",
                sizes_text(w->dims, padded), sizes_text(w->dims, spread));
    else if (!fits)
        op_fail(c,
                "Given input size per channel: (%s). Calculated output size per channel: (%s). "
                "Output size is too small",
                sizes_text(w->dims, in), sizes_text(w->dims, out));
    for (int i = 0; i < w->dims && w->transposed && fits; i++)
        if (w->more[i] >= w->stride[i] && w->more[i] >= w->dilation[i]) {
            op_fail(c,
                    "output padding must be smaller than either stride or dilation, but got "
                    "output_padding: %s stride: %s dilation: %s",
                    cfx__shape_text(w->dims, w->more), cfx__shape_text(w->dims, w->stride),
                    cfx__shape_text(w->dims, w->dilation));
            fits = false;
        }
    return fits;
}

bool conv_geometry(cfx_op_call *c, const conv_args *a, conv *v, int64_t *shape) {
    const int64_t groups = arg_int(c, a->groups), *in = a->input->shape + 2;
    const int64_t *kernel = a->weight->shape + 2;
    int64_t out[3];
    window w;
    if (!read_window(c, a, &w) || groups > absurd || !channels_fit(c, a, w.transposed, groups) ||
        !dtypes_fit(c, a))
        return false;
    if (any_below(w.dims, kernel, 1)) {
        op_fail(c, "kernel size should be greater than zero, but got kernel_size: %s",
                cfx__shape_text(w.dims, kernel));
        return false;
    }
    if (!is_sane(c, &w) || !all_sane(c, w.dims, in) || !all_sane(c, w.dims, kernel) ||
        !result_sizes(c, &w, in, kernel, out))
        return false;
    *v = (conv){.dims = w.dims,
                .batch = a->input->shape[0],
                .groups = groups,
                .ic = a->weight->shape[1] * groups,
                .oc = a->weight->shape[0],
                .in = {1, 1, 1},
                .out = {1, 1, 1},
                .kernel = {1, 1, 1},
                .stride = {1, 1, 1},
                .dilation = {1, 1, 1}};
    for (int i = 0; i < w.dims; i++) {
        int to = 3 - w.dims + i;
        v->in[to] = w.transposed ? out[i] : in[i];
        v->out[to] = w.transposed ? in[i] : out[i];
        v->kernel[to] = kernel[i];
        v->stride[to] = w.stride[i];
        v->pad[to] = w.pad[i];
        v->dilation[to] = w.dilation[i];
        shape[2 + i] = out[i];
    }
    shape[0] = v->batch;
    shape[1] = a->input->shape[1] == 0 ? 0 : w.transposed ? v->ic : v->oc;
    return true;
}

cfx_memory_format conv_format(const cfx_tensor *input, const cfx_tensor *weight) {
    cfx_memory_format last = input->ndim == 4 ? CFX_CHANNELS_LAST : CFX_CHANNELS_LAST_3D;
    if (input->ndim < 4)
        return CFX_CONTIGUOUS;
    if (cfx__tensor_suggest_format(input) == last || cfx__tensor_suggest_format(weight) == last)
        return last;
    return CFX_CONTIGUOUS;
}

/* Whether what is seen from a line of the result is of a size to be copied with its border, and no
 * number is too large for a library: else only conv_gemm computes it. */
static bool is_near(const conv *v) {
    enum { FAR = 1 << 16 };
    double seen = (double)v->ic;
    for (int i = 0; i < 3; i++) {
        const int64_t spread = v->dilation[i] * (v->kernel[i] - 1) + 1;
        const int64_t reach = i < 2 ? spread : (v->out[i] - 1) * v->stride[i] + spread;
        if (v->pad[i] > FAR || v->stride[i] > FAR || v->dilation[i] > FAR)
            return false;
        seen *= (double)(i == 2 && v->pad[i] > reach ? v->pad[i] : reach);
    }
    return seen < 0x1p31;
}

/* ---- the operator ---------------------------------------------------------------------------- */

static const conv_args convolution_args = {
    .stride = 3, .padding = 4, .dilation = 5, .transposed = 6, .output_padding = 7, .groups = 8};

static bool convolution_geometry(cfx_op_call *c, conv *v, int64_t *shape) {
    conv_args a = convolution_args;
    a.input = arg_tensor(c, 0), a.weight = arg_tensor(c, 1), a.bias = arg_tensor(c, 2);
    return conv_geometry(c, &a, v, shape);
}

static void shape_convolution(cfx_op_call *c) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    conv v;
    if (!convolution_geometry(c, &v, shape))
        return;
    const cfx_tensor *x = arg_tensor(c, 0);
    if (cfx__shape_numel(c->at, x->ndim, shape) < 0)
        return;
    cfx__strides_of_format(conv_format(x, arg_tensor(c, 1)), x->ndim, shape, stride);
    out_strided(c, 0, x->dtype, x->ndim, shape, stride);
}

/* t in the strides of a memory format; scope. */
static cfx_tensor *in_format(cfx_op_call *c, const cfx_tensor *t, cfx_memory_format f) {
    int64_t stride[CFX_MAX_DIMS];
    cfx__strides_of_format(f, t->ndim, t->shape, stride);
    bool same = true;
    for (int i = 0; i < t->ndim; i++)
        same &= t->shape[i] == 1 || t->stride[i] == stride[i];
    if (same)
        return (cfx_tensor *)t;
    cfx_tensor *to = cfx__tensor_empty(c->at, t->dtype, false, t->ndim, t->shape, stride);
    if (to->data)
        cfx__tensor_copy(to, t);
    return to;
}

static void kernel_convolution(cfx_op_call *c) {
    int64_t shape[CFX_MAX_DIMS];
    conv v;
    cfx_tensor *out = c->out[0];
    if (!out->numel || !convolution_geometry(c, &v, shape))
        return;
    const cfx_tensor *x = arg_tensor(c, 0);
    const bool transposed = arg_bool(c, 6);
    cfx_memory_format f = conv_format(x, arg_tensor(c, 1));
    cfx_tensor *given = in_format(c, x, f);
    cfx_tensor *bias = arg_tensor(c, 2) ? cfx__tensor_contiguous(arg_tensor(c, 2)) : NULL;
    conv_operands o = {.what = transposed ? CONV_SRC : CONV_DST,
                       .src = transposed ? out : given,
                       .dst = transposed ? given : out,
                       .weights = cfx__tensor_contiguous(arg_tensor(c, 1)),
                       .bias = bias};
    if (!op_failed())
        conv_run(c, &v, &o);
}

void conv_run(cfx_op_call *c, const conv *v, const conv_operands *o) {
    if (o->src->dtype == CFX_F32 && is_near(v)) {
        if (conv_depthwise(c, v, o) || conv_points(c, v, o) || op_failed())
            return;
        if (conv_tiled(c, v, o) || conv_onednn(c, v, o) || op_failed())
            return;
    }
    cfx_tensor *result = o->what == CONV_SRC ? o->src : o->dst;
    conv_operands plain = *o;
    plain.src = cfx__tensor_contiguous(o->src);
    plain.dst = cfx__tensor_contiguous(o->dst);
    if (op_failed())
        return;
    conv_gemm(c, v, &plain);
    cfx_tensor *made = o->what == CONV_SRC ? plain.src : plain.dst;
    if (made != result && o->what != CONV_WEIGHTS && !op_failed())
        cfx__tensor_copy(result, made);
}

/* The geometry is that of numbers, whatever they are rounded to. */
static bool geometry_of_integers(const cfx_op_call *c, conv *v, int64_t *shape) {
    cfx_op_call floats = *c;
    cfx_value args[CFX_MAX_ARGS];
    memcpy(args, c->args, (size_t)c->nargs * sizeof *args);
    for (int i = 0; i < 2; i++) {
        const cfx_tensor *t = arg_tensor(c, i);
        args[i] = cfx_tensor_value(cfx_tensor_fake(CFX_F32, t->ndim, t->shape, NULL));
    }
    floats.args = args;
    return convolution_geometry(&floats, v, shape);
}

/* A layer's geometry and operands; false where no kernel is made for such. */
static bool read_layer(const cfx__layer *l, conv *v, conv_operands *o) {
    int64_t shape[CFX_MAX_DIMS];
    cfx_op_call c = l->call;
    const bool integers = l->epilogue.integers != NULL;
    *o = (conv_operands){.src = arg_tensor(&c, 0),
                         .weights = arg_tensor(&c, 1),
                         .bias = arg_tensor(&c, 2),
                         .dst = c.out[0]};
    return !arg_bool(&c, 6) &&
           (integers || (o->src->dtype == CFX_F32 && o->weights->dtype == CFX_F32)) &&
           o->weights->data && cfx__tensor_is_contiguous(o->weights) && o->dst->numel &&
           (!o->bias || (o->bias->data && cfx__tensor_is_contiguous(o->bias))) &&
           (integers ? geometry_of_integers(&c, v, shape) : convolution_geometry(&c, v, shape)) &&
           is_near(v);
}

static bool takes_convolution(const cfx__layer *l) {
    const cfx__epilogue *e = &l->epilogue;
    conv_operands o;
    conv v;
    return read_layer(l, &v, &o) &&
           (e->integers ? int8_conv_takes(&v, &o, e) : conv_takes(&v, &o, e));
}

static cfx__ready *make_convolution(const cfx__layer *l) {
    const cfx__epilogue *e = &l->epilogue;
    conv_operands o;
    conv v;
    if (!read_layer(l, &v, &o))
        return NULL;
    v.batches = l->batches;
    return e->integers ? int8_conv_ready(&v, &o, e) : conv_ready(&v, &o, e);
}

static void grad_convolution(cfx_back *b) {
    const cfx_tensor *bias = back_arg(b, 2);
    cfx_value masks = cfx_list(cfx_bool(b->needs[0]), cfx_bool(b->needs[1]), cfx_bool(b->needs[2]));
    cfx_value grads = cfx_convolution_backward(
        b->gout[0], conj_of(back_arg(b, 0)), conj_of(back_arg(b, 1)),
        bias ? sizes_of(bias) : CFX_NONE, b->args[3], b->args[4], b->args[5], b->args[6],
        b->args[7], b->args[8], masks);
    for (int i = 0; i < 3; i++)
        back_give_at(b, i, grads, i);
}

int64_t conv_flops(const int64_t *weight, const int64_t *places, int ndim, int64_t batch) {
    int64_t sizes[2 * CFX_MAX_DIMS] = {batch};
    int n = 1;
    for (int i = 0; i < ndim; i++)
        sizes[n++] = weight[i];
    for (int i = 2; i < ndim; i++)
        sizes[n++] = places[i];
    return flops_of(n, sizes);
}

int64_t flops_convolution(const cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1);
    const cfx_tensor *places = arg_bool(c, 6) ? x : c->out[0];
    return conv_flops(w->shape, places->shape, w->ndim, x->shape[0]);
}

CFX_OP(convolution) = {
    "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] "
    "padding, "
    "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
    "torch.convolution", .shape = shape_convolution, .kernel = kernel_convolution, CONV_LAYER(0),
    .takes = takes_convolution, .make = make_convolution, .dtypes = GEMM_DTYPES,
    .flops = flops_convolution,
    GRAD(convolution, READ(0) | READ(1)),
    .autocast = CFX_CAST_LOW, .out = "out"};
