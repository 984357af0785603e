/* The gradients of a convolution. */
#include "../back.h"
#include "conv.h"

CFX_FAMILY(CONV);

static const conv_args backward_args = {
    .stride = 4, .padding = 5, .dilation = 6, .transposed = 7, .output_padding = 8, .groups = 9};

static bool wanted(const cfx_op_call *c, int i) {
    return cfx_integer(cfx_as_list(c->args[10])->items[i]) != 0;
}

/* The geometry of the forward convolution, whose result must have the shape of the gradient. */
static bool backward_geometry(cfx_op_call *c, conv *v) {
    const cfx_tensor *grad = arg_tensor(c, 0);
    conv_args a = backward_args;
    int64_t shape[CFX_MAX_DIMS];
    a.input = arg_tensor(c, 1), a.weight = arg_tensor(c, 2);
    if (!conv_geometry(c, &a, v, shape))
        return false;
    bool same = grad->ndim == a.input->ndim;
    for (int i = 0; i < grad->ndim && same; i++)
        same = grad->shape[i] == shape[i];
    if (!same)
        op_fail(c, "Expected grad_output of size %s, but got %s",
                cfx__shape_text(a.input->ndim, shape), cfx__shape_text(grad->ndim, grad->shape));
    else if (grad->dtype != a.input->dtype)
        op_fail(c, "expected scalar type %s but found %s", cfx__dtype_title(a.input->dtype),
                cfx__dtype_title(grad->dtype));
    return !op_failed();
}

static void shape_convolution_backward(cfx_op_call *c) {
    const cfx_tensor *grad = arg_tensor(c, 0), *x = arg_tensor(c, 1), *w = arg_tensor(c, 2);
    int64_t stride[CFX_MAX_DIMS];
    conv v;
    if (arg_count(c, 10) != 3) {
        op_fail(c, "convolution_backward: output_mask needs three values");
        return;
    }
    if (!backward_geometry(c, &v))
        return;
    cfx_memory_format f = conv_format(x, w);
    if (wanted(c, 0)) {
        cfx__strides_of_format(f, x->ndim, x->shape, stride);
        out_strided(c, 0, x->dtype, x->ndim, x->shape, stride);
    }
    if (wanted(c, 1)) {
        cfx__strides_of_format(f, w->ndim, w->shape, stride);
        out_strided(c, 1, w->dtype, w->ndim, w->shape, stride);
    }
    if (wanted(c, 2))
        out_new(c, 2, grad->dtype, 1, (int64_t[]){grad->shape[1]});
}

static void kernel_convolution_backward(cfx_op_call *c) {
    const cfx_tensor *w = arg_tensor(c, 2);
    const bool transposed = arg_bool(c, 7);
    conv v;
    if (!backward_geometry(c, &v))
        return;
    cfx_tensor *grad = cfx__tensor_contiguous(arg_tensor(c, 0)),
               *x = cfx__tensor_contiguous(arg_tensor(c, 1));
    const bool empty = !grad->numel || !x->numel || !w->numel;
    for (int i = 0; i < 2; i++) {
        cfx_tensor *out = c->out[i], *to = out;
        if (!out || op_failed())
            continue;
        if (empty) {
            cfx__tensor_fill(out, cfx_int(0));
            continue;
        }
        if (!cfx__tensor_is_contiguous(out))
            to = cfx__tensor_empty(c->at, out->dtype, false, out->ndim, out->shape, NULL);
        conv_operands o = {.weights = i ? to : cfx__tensor_contiguous(w)};
        if (i)
            o.what = CONV_WEIGHTS, o.src = transposed ? grad : x, o.dst = transposed ? x : grad;
        else if (transposed)
            o.what = CONV_DST, o.src = grad, o.dst = to;
        else
            o.what = CONV_SRC, o.src = to, o.dst = grad;
        if (op_failed())
            return;
        conv_run(c, &v, &o);
        if (to != out && !op_failed())
            cfx__tensor_copy(out, to);
    }
    if (!c->out[2] || op_failed())
        return;
    int64_t dims[CFX_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < grad->ndim; i++)
        if (i != 1)
            dims[n++] = i;
    cfx_tensor *sum = cfx_sum(grad, cfx_ints_value(n, dims));
    if (!op_failed())
        cfx__tensor_copy(c->out[2], sum);
}

/* The result is linear in the gradient that comes in, and bilinear in it and the input or the
 * weights: its own gradients are convolutions and their gradients once more. */
static void grad_convolution_backward(cfx_back *b) {
    cfx_tensor *grad = conj_of(back_arg(b, 0));
    cfx_tensor *x = conj_of(back_arg(b, 1)), *w = conj_of(back_arg(b, 2));
    cfx_tensor *gx = b->gout[0], *gw = b->gout[1], *gb = b->gout[2];
    const cfx_value *how = b->args + 4;
    if (b->needs[0]) {
        cfx_tensor *sum = NULL;
        if (gx)
            sum = cfx_convolution(gx, w, NULL, how[0], how[1], how[2], how[3], how[4], how[5]);
        if (gw)
            sum = plus(sum, cfx_convolution(x, gw, NULL, how[0], how[1], how[2], how[3], how[4],
                                            how[5]));
        if (gb) {
            int64_t shape[CFX_MAX_DIMS];
            for (int i = 0; i < grad->ndim; i++)
                shape[i] = i == 1 ? gb->numel : 1;
            gb = cfx_view(gb, cfx_ints_value(grad->ndim, shape));
            sum = plus(sum, sum ? gb : cfx_expand(gb, sizes_of(grad)));
        }
        back_give(b, 0, sum);
    }
    if (b->needs[1] && gw)
        back_give(b, 1, cfx_tensor_at(cfx_convolution_backward(grad, x, gw, NULL, how[0], how[1],
                                                               how[2], how[3], how[4], how[5],
                                                               cfx_list(1, 0, 0)), 0));
    if (b->needs[2] && gx)
        back_give(b, 2, cfx_tensor_at(cfx_convolution_backward(grad, gx, w, NULL, how[0], how[1],
                                                               how[2], how[3], how[4], how[5],
                                                               cfx_list(0, 1, 0)), 1));
}

/* The gradient of the input is the convolution the other way round; that of the weights lays the
 * gradient on the input, or the other way round, with batch and channels exchanged. */
static int64_t flops_convolution_backward(const cfx_op_call *c) {
    const cfx_tensor *grad = arg_tensor(c, 0), *x = arg_tensor(c, 1), *w = arg_tensor(c, 2);
    bool transposed = arg_bool(c, 7);
    int n = x->ndim;
    int64_t sum = 0;
    if (wanted(c, 0))
        sum = conv_flops(w->shape, transposed ? x->shape : grad->shape, n, grad->shape[0]);
    if (wanted(c, 1)) {
        const cfx_tensor *laid = transposed ? x : grad, *on = transposed ? grad : x;
        int64_t weight[CFX_MAX_DIMS] = {laid->shape[1], laid->shape[0]};
        for (int i = 2; i < n; i++)
            weight[i] = laid->shape[i];
        if (__builtin_add_overflow(sum, conv_flops(weight, w->shape, n, on->shape[1]), &sum))
            return INT64_MAX;
    }
    return sum;
}

CFX_OP(convolution_backward) = {
    "aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? "
    "bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] "
    "output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    "torch.ops.aten.convolution_backward", .shape = shape_convolution_backward,
    .kernel = kernel_convolution_backward, .dtypes = GEMM_DTYPES,
    .flops = flops_convolution_backward, GRAD(convolution_backward, READ(0) | READ(1) | READ(2)),
    .out = "out"};
