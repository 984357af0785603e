/* Pooling over lines: the planes' operators on planes of height one. */
#include <cfx/ops.h>

#include "../ops.h"

CFX_FAMILY(POOL);

/* [1, the number of argument i] (or `other` for one not given); the bad value when it is no single
 * number. */
static cfx_value pair(cfx_op_call *c, int i, const char *func, const char *what, int64_t first,
                      int from) {
    int64_t v[CFX_MAX_DIMS];
    int n = arg_ints(c, i, v);
    if (n == 0 && from >= 0)
        n = arg_ints(c, from, v);
    if (n == 1 && !op_failed())
        return cfx_list(first, v[0]);
    op_fail(c, "%s() argument '%s' should contain one int (got %d)", func, what, n);
    return cfx_bad();
}

static cfx_tensor *raised(cfx_op_call *c, const char *func) {
    cfx_tensor *self = arg_tensor(c, 0);
    if (self->ndim == 2 || self->ndim == 3)
        return cfx_unsqueeze(self, -2);
    if (!strncmp(func, "max_", 4))
        op_fail(
            c,
            "%s: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, "
            "but got:%s",
            func, cfx__shape_text(self->ndim, self->shape));
    else
        op_fail(c,
                "Expected 2 to 3 dimensions, but got %d-dimensional tensor for argument #1 'self' "
                "(while checking arguments for %s)",
                self->ndim, func);
    return &cfx__tensor_bad;
}

static bool one_at_least(cfx_op_call *c, cfx_value pair_, const char *what) {
    if (op_failed())
        return false;
    int64_t v = cfx_integer(cfx_at(pair_, 1));
    if (v < 1)
        op_fail(c, "max_pool1d() %s must be greater than zero, but got %lld", what, (long long)v);
    return v > 0;
}

static cfx_value max_pool(cfx_op_call *c) {
    static const char name[] = "max_pool1d";
    cfx_tensor *x = raised(c, name);
    cfx_value k = pair(c, 1, name, "kernel_size", 1, -1), s = pair(c, 2, name, "stride", 1, 1);
    cfx_value p = pair(c, 3, name, "padding", 0, -1), d = pair(c, 4, name, "dilation", 1, -1);
    if (!one_at_least(c, k, "kernel_size") || !one_at_least(c, s, "stride") ||
        !one_at_least(c, d, "dilation"))
        return cfx_bad();
    return cfx_max_pool2d_with_indices(x, k, s, p, d, c->args[5]);
}

static void decompose_max_with_indices(cfx_op_call *c) {
    cfx_value r = max_pool(c);
    for (int i = 0; i < 2 && !op_failed(); i++)
        c->out[i] = cfx_squeeze(cfx_tensor_at(r, i), -2);
}

static void decompose_max(cfx_op_call *c) {
    cfx_value r = cfx_op_do(&cfx_op_max_pool1d_with_indices, c->args[0], c->args[1], c->args[2],
                            c->args[3], c->args[4], c->args[5]);
    if (!op_failed())
        c->out[0] = cfx_tensor_at(r, 0);
}

static void decompose_avg(cfx_op_call *c) {
    static const char name[] = "avg_pool1d";
    cfx_tensor *x = raised(c, name);
    cfx_value k = pair(c, 1, name, "kernel_size", 1, -1), s = pair(c, 2, name, "stride", 1, 1);
    cfx_value p = pair(c, 3, name, "padding", 0, -1);
    if (!op_failed())
        c->out[0] = cfx_squeeze(cfx_avg_pool2d(x, k, s, p, c->args[4], c->args[5]), -2);
}

static void decompose_adaptive_avg(cfx_op_call *c) {
    static const char name[] = "adaptive_avg_pool1d";
    cfx_tensor *x = raised(c, name);
    cfx_value size = pair(c, 1, name, "output_size", 1, -1);
    if (!op_failed())
        c->out[0] = cfx_squeeze(cfx_adaptive_avg_pool2d(x, size), -2);
}

static void decompose_adaptive_max(cfx_op_call *c) {
    static const char name[] = "adaptive_max_pool1d";
    cfx_tensor *x = raised(c, name);
    cfx_value size = pair(c, 1, name, "output_size", 1, -1);
    if (op_failed())
        return;
    cfx_value r = cfx_adaptive_max_pool2d(x, size);
    for (int i = 1; i >= 0 && !op_failed(); i--)
        c->out[i] = cfx_squeeze(cfx_tensor_at(r, i), -2);
}

CFX_OP(max_pool1d_with_indices) = {
    "aten::max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] "
    "padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)",
    "torch.max_pool1d_with_indices torch.nn.functional.max_pool1d_with_indices",
    .decompose = decompose_max_with_indices, .effects = CFX_COMPOSITE};
CFX_OP(max_pool1d) = {"aten::max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] "
                      "padding=[0], int[1] "
                      "dilation=[1], bool ceil_mode=False) -> Tensor",
                      "torch.max_pool1d", .decompose = decompose_max,
                      .effects = CFX_COMPOSITE | CFX_LARGEST};
CFX_OP(avg_pool1d) = {
    "aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool "
    "ceil_mode=False, bool count_include_pad=True) -> Tensor",
    "torch.avg_pool1d torch.nn.functional.avg_pool1d", .decompose = decompose_avg,
    .quantized = CFX_QUANTIZED_MEAN, .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(adaptive_avg_pool1d) = {
    "aten::adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor",
    "torch.adaptive_avg_pool1d torch.nn.functional.adaptive_avg_pool1d",
    .quantized = CFX_QUANTIZED_MEAN, .decompose = decompose_adaptive_avg,
    .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(adaptive_max_pool1d) = {
    "aten::adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)",
    "torch.adaptive_max_pool1d torch.nn.functional.adaptive_max_pool1d_with_indices",
    .decompose = decompose_adaptive_max, .effects = CFX_COMPOSITE};
