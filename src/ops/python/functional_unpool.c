/* torch.nn.functional's inverse of pooling: each maximum goes back to the place it came from. */
#include <cfx/ops.h>

#include "functional.h"

CFX_FAMILY(POOL);

/* The size that max_unpool gives: what pooling came from, or what was asked for. */
static bool unpooled_size(cfx_op_call *c, int dims, int64_t *out) {
    const cfx_tensor *x = arg_tensor(c, 0);
    int64_t kernel[CFX_MAX_DIMS], stride[CFX_MAX_DIMS], padding[CFX_MAX_DIMS], want[CFX_MAX_DIMS];
    int nk = arg_ints(c, 2, kernel), ns = arg_ints(c, 3, stride), np = arg_ints(c, 4, padding);
    int n = arg_ints(c, 5, want), skip = n == dims + 2 ? 2 : 0;
    if ((nk > 1 && nk != dims) || (ns > 1 && ns != dims) || (np > 1 && np != dims) || !nk || !np) {
        op_fail(c, "max_unpool%dd: kernel, stride and padding have one or %d numbers", dims, dims);
        return false;
    }
    if (x->ndim < dims || (n && n - skip != dims)) {
        op_fail_as(VALUE, c,
                   "output_size should be a sequence containing %d or %d elements, but it has a "
                   "length of '%d'",
                   dims, dims + 2, n);
        return false;
    }
    for (int i = 0; i < dims; i++) {
        int64_t k = kernel[nk > 1 ? i : 0], s = ns ? stride[ns > 1 ? i : 0] : k;
        int64_t p = padding[np > 1 ? i : 0], most = INT32_MAX;
        if (k < 0 || s < 0 || p < 0 || k > most || s > most || p > most) {
            op_fail(c, "max_unpool: kernel, stride and padding must lie between 0 and %lld",
                    (long long)most);
            return false;
        }
        int64_t size;
        if (__builtin_mul_overflow(x->shape[x->ndim - dims + i] - 1, s, &size) ||
            __builtin_add_overflow(size, k - 2 * p, &size) || size > INT64_MAX - s) {
            op_fail(c, "max_unpool: the size of dim %d does not fit", i);
            return false;
        }
        out[i] = n ? want[skip + i] : size;
        if (out[i] <= size - s || out[i] >= size + s) {
            op_fail_as(VALUE, c,
                       "invalid output_size \"%s\" (dim %d must be between %lld and %lld)",
                       cfx__shape_text(n, want), i, (long long)(size - s), (long long)(size + s));
            return false;
        }
    }
    return true;
}

static void functional_max_unpool1d(cfx_op_call *c) {
    int64_t size[3];
    if (!unpooled_size(c, 1, size))
        return;
    cfx_tensor *out = cfx_max_unpool2d(cfx_unsqueeze(c->args[0], -1), cfx_unsqueeze(c->args[1], -1),
                                       cfx_list(size[0], 1));
    c->out[0] = cfx_squeeze(out, -1);
}

static void functional_max_unpool2d(cfx_op_call *c) {
    int64_t size[3];
    if (unpooled_size(c, 2, size))
        c->out[0] = cfx_max_unpool2d(c->args[0], c->args[1], cfx_ints_value(2, size));
}

static void functional_max_unpool3d(cfx_op_call *c) {
    int64_t size[3];
    cfx_value stride = arg_is_none(c, 3) ? c->args[2] : c->args[3];
    if (unpooled_size(c, 3, size))
        c->out[0] =
            cfx_max_unpool3d(c->args[0], c->args[1], cfx_ints_value(3, size), stride, c->args[4]);
}

CFX_OP(python_max_unpool1d) = {
    "python::max_unpool1d(Tensor input, Tensor indices, int[1] kernel_size, int[1]? stride=None, "
    "int[1] padding=0, int[]? output_size=None) -> Tensor",
    "torch.nn.functional.max_unpool1d", FUNCTIONAL(max_unpool1d)};
CFX_OP(python_max_unpool2d) = {
    "python::max_unpool2d(Tensor input, Tensor indices, int[2] kernel_size, int[2]? stride=None, "
    "int[2] padding=0, int[]? output_size=None) -> Tensor",
    "torch.nn.functional.max_unpool2d", FUNCTIONAL(max_unpool2d)};
CFX_OP(python_max_unpool3d) = {
    "python::max_unpool3d(Tensor input, Tensor indices, int[3] kernel_size, int[3]? stride=None, "
    "int[3] padding=0, int[]? output_size=None) -> Tensor",
    "torch.nn.functional.max_unpool3d", FUNCTIONAL(max_unpool3d)};
