/* The convolutions that users call, by number of dimensions; all come down to `convolution`. */
#include <cfx/ops.h>

#include "conv.h"

CFX_FAMILY(CONV);

/* How a function of `dims` dimensions is called. */
typedef struct {
    int dims;
    const char *name;
} conv_row;

static const conv_row row_1d = {1, "conv1d"}, row_2d = {2, "conv2d"}, row_3d = {3, "conv3d"};
static const conv_row row_t1d = {1, "conv_transpose1d"}, row_t2d = {2, "conv_transpose2d"};
static const conv_row row_t3d = {3, "conv_transpose3d"};

/* The input with a batch of one where it has none. NULL with PyTorch's message. */
static cfx_tensor *batched(cfx_op_call *c, bool *single) {
    const conv_row *r = c->op->row;
    cfx_tensor *x = arg_tensor(c, 0), *b = arg_tensor(c, 2);
    if (b && b->dtype != x->dtype) {
        op_fail(c, "Input type (%s) and bias type (%s) should be the same", gemm_cpp_name(x->dtype),
                gemm_cpp_name(b->dtype));
        return NULL;
    }
    if (x->ndim != r->dims + 1 && x->ndim != r->dims + 2) {
        op_fail(c,
                "Expected %dD (unbatched) or %dD (batched) input to %s, but got input of size: %s",
                r->dims + 1, r->dims + 2, r->name, cfx__shape_text(x->ndim, x->shape));
        return NULL;
    }
    *single = x->ndim == r->dims + 1;
    return *single ? cfx_unsqueeze(x, 0) : x;
}

static void finish(cfx_op_call *c, cfx_tensor *y, bool single) {
    c->out[0] = single ? cfx_squeeze(y, 0) : y;
}

/* input, weight, bias, stride, padding, dilation, groups */
static void decompose_conv(cfx_op_call *c) {
    static const int64_t zeros[3];
    const conv_row *r = c->op->row;
    bool single;
    cfx_tensor *x = batched(c, &single);
    if (!x)
        return;
    finish(c,
           cfx_convolution(x, c->args[1], c->args[2], c->args[3], c->args[4], c->args[5],
                           cfx_bool(false), cfx_ints_value(r->dims, zeros), c->args[6]),
           single);
}

/* The layer as one of convolution; scope. False where x is no batch. */
static bool as_convolution(const cfx__layer *l, cfx__layer *whole) {
    static const int64_t zeros[3];
    const cfx_value *a = l->call.args;
    const conv_row *r = l->call.op->row;
    if (arg_tensor(&l->call, 0)->ndim != r->dims + 2)
        return false;
    *whole = *l;
    whole->call.op = &cfx_op_convolution;
    whole->call.nargs = 9;
    whole->call.args = whole->args;
    memcpy(whole->args, a, 6 * sizeof *a);
    whole->args[6] = cfx_bool(false);
    whole->args[7] = cfx_ints_value(r->dims, zeros);
    whole->args[8] = a[6];
    return true;
}

static bool takes_conv(const cfx__layer *l) {
    cfx__layer whole;
    return as_convolution(l, &whole) && whole.call.op->takes(&whole);
}

static cfx__ready *make_conv(const cfx__layer *l) {
    cfx__layer whole;
    return as_convolution(l, &whole) ? whole.call.op->make(&whole) : NULL;
}

/* The same with padding given by a word. */
static void decompose_conv_padding(cfx_op_call *c) {
    bool single;
    cfx_tensor *x = batched(c, &single);
    if (!x)
        return;
    finish(c,
           cfx_aten__convolution_mode(x, c->args[1], c->args[2], c->args[3], c->args[4], c->args[5],
                                      c->args[6]),
           single);
}

/* input, weight, bias, stride, padding, output_padding, groups, dilation */
static void decompose_conv_transpose(cfx_op_call *c) {
    bool single;
    cfx_tensor *x = batched(c, &single);
    if (!x)
        return;
    finish(c,
           cfx_convolution(x, c->args[1], c->args[2], c->args[3], c->args[4], c->args[7],
                           cfx_bool(true), c->args[5], c->args[6]),
           single);
}

/* ---- padding by a word ----------------------------------------------------------------------- */

static bool broadcasts(cfx_op_call *c, int arg, const char *name, int dims, int64_t *out) {
    int64_t given[CFX_MAX_DIMS];
    int n = arg_ints(c, arg, given);
    if (op_failed())
        return false;
    if (n != dims && n != 1) {
        op_fail(c, "%s cannot broadcast to %d dimensions", name, dims);
        return false;
    }
    for (int i = 0; i < dims; i++)
        out[i] = given[n == 1 ? 0 : i];
    return true;
}

static void convolve_same(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    const cfx_tensor *w = arg_tensor(c, 1);
    const int dims = w->ndim - 2;
    int64_t stride[3], dilation[3], left[3], more[6] = {0};
    static const int64_t zeros[3];
    bool even = true;
    if (dims <= 0 || dims > 3) {
        op_fail(c, "weight should have at least three dimensions");
        return;
    }
    if (x->ndim != w->ndim) {
        op_fail(c,
                "Expected %d-dimensional input for %d-dimensional weight%s, but got %d-dimensional "
                "input of size %s instead",
                w->ndim, w->ndim, cfx__shape_text(w->ndim, w->shape), x->ndim,
                cfx__shape_text(x->ndim, x->shape));
        return;
    }
    if (!broadcasts(c, 3, "stride", dims, stride) || !broadcasts(c, 5, "dilation", dims, dilation))
        return;
    for (int i = 0; i < dims; i++) {
        int64_t total;
        if (stride[i] != 1) {
            op_fail(c, "padding='same' is not supported for strided convolutions");
            return;
        }
        if (__builtin_mul_overflow(dilation[i], w->shape[2 + i] - 1, &total) || total < 0)
            total = 0; /* refused by the convolution itself */
        left[i] = total / 2;
        more[2 * (dims - 1 - i) + 1] = total % 2;
        even &= total % 2 == 0;
    }
    if (!even)
        x = cfx_constant_pad_nd(x, cfx_ints_value(2 * dims, more), 0);
    c->out[0] =
        cfx_convolution(x, c->args[1], c->args[2], c->args[3], cfx_ints_value(dims, left),
                        c->args[5], cfx_bool(false), cfx_ints_value(dims, zeros), c->args[6]);
}

static void decompose_convolution_mode(cfx_op_call *c) {
    const char *padding = arg_text(c, 4);
    static const int64_t zero = 0;
    if (!strcmp(padding, "same"))
        convolve_same(c);
    else if (!strcmp(padding, "valid"))
        c->out[0] = cfx_convolution(c->args[0], c->args[1], c->args[2], c->args[3],
                                    cfx_ints_value(1, &zero), c->args[5], cfx_bool(false),
                                    cfx_ints_value(1, &zero), c->args[6]);
    else
        op_fail(c, "Invalid padding string: '%s'", padding);
}

static void decompose_convolution_old(cfx_op_call *c) {
    c->out[0] = cfx_convolution(c->args[0], c->args[1], c->args[2], c->args[3], c->args[4],
                                c->args[5], c->args[6], c->args[7], c->args[8]);
}

#define CONV(dims)                                                                                 \
    .takes = takes_conv, .make = make_conv, .decompose = decompose_conv, .row = &row_##dims,       \
    CONV_LAYER(0), .effects = CFX_COMPOSITE
#define CONV_PADDING(dims)                                                                         \
    .decompose = decompose_conv_padding, .row = &row_##dims, CONV_LAYER(0),                        \
    .effects = CFX_COMPOSITE
#define CONV_TRANSPOSE(dims)                                                                       \
    .decompose = decompose_conv_transpose, .row = &row_t##dims, CONV_LAYER(1),                     \
    .effects = CFX_COMPOSITE

CFX_OP(conv1d) = {
    "aten::conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] "
    "padding=[0], SymInt[1] dilation=[1], SymInt groups=1) -> Tensor",
    "torch.conv1d torch.nn.functional.conv1d", CONV(1d), .autocast = CFX_CAST_LOW};
CFX_OP(conv2d) = {"aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] "
                  "stride=[1, 1], SymInt[2] "
                  "padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
                  "torch.conv2d torch.nn.functional.conv2d", CONV(2d), .autocast = CFX_CAST_LOW};
CFX_OP(conv3d) = {
    "aten::conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], "
    "SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
    "torch.conv3d torch.nn.functional.conv3d", CONV(3d), .autocast = CFX_CAST_LOW};
CFX_OP(conv1d_padding) = {"aten::conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, "
                          "SymInt[1] stride=[1], str "
                          "padding=\"valid\", SymInt[1] dilation=[1], SymInt groups=1) -> Tensor",
                          NULL, CONV_PADDING(1d), .autocast = CFX_CAST_LOW};
CFX_OP(conv2d_padding) = {
    "aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], "
    "str padding=\"valid\", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
    NULL, CONV_PADDING(2d), .autocast = CFX_CAST_LOW};
CFX_OP(conv3d_padding) = {
    "aten::conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, "
    "1], str padding=\"valid\", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
    NULL, CONV_PADDING(3d), .autocast = CFX_CAST_LOW};
CFX_OP(conv_transpose1d) = {
    "aten::conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], "
    "SymInt[1] padding=[0], SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) "
    "-> Tensor",
    "torch.conv_transpose1d torch.nn.functional.conv_transpose1d", CONV_TRANSPOSE(1d),
    .autocast = CFX_CAST_LOW};
CFX_OP(conv_transpose2d_input) = {
    "aten::conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] "
    "stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, "
    "SymInt[2] dilation=[1, 1]) -> Tensor",
    "torch.conv_transpose2d torch.nn.functional.conv_transpose2d", CONV_TRANSPOSE(2d),
    .autocast = CFX_CAST_LOW};
CFX_OP(conv_transpose3d_input) = {
    "aten::conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] "
    "stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt "
    "groups=1, SymInt[3] dilation=[1, 1, 1]) -> Tensor",
    "torch.conv_transpose3d torch.nn.functional.conv_transpose3d", CONV_TRANSPOSE(3d),
    .autocast = CFX_CAST_LOW};
CFX_OP(_convolution_mode) = {"aten::_convolution_mode(Tensor input, Tensor weight, Tensor? bias, "
                             "SymInt[] stride, str padding, "
                             "SymInt[] dilation, SymInt groups) -> Tensor",
                             "torch._convolution_mode", .decompose = decompose_convolution_mode,
                             .effects = CFX_COMPOSITE};
CFX_OP(_convolution) = {"aten::_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] "
                        "stride, SymInt[] padding, "
                        "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt "
                        "groups, bool benchmark, bool "
                        "deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor",
                        "torch._convolution", .decompose = decompose_convolution_old,
                        .flops = flops_convolution, .autocast = CFX_CAST_LOW, .out = "out"};
CFX_OP(_convolution_deprecated) = {
    "aten::_convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, "
    "SymInt[] padding, SymInt[] dilation, bool transposed, int[] output_padding, SymInt groups, "
    "bool "
    "benchmark, bool deterministic, bool cudnn_enabled) -> Tensor",
    NULL, .decompose = decompose_convolution_old, .flops = flops_convolution,
    .effects = CFX_COMPOSITE, .autocast = CFX_CAST_LOW};
