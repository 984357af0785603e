/* Products of matrices in 8 bits with scales beside them. */
#include <cfx/ops.h>

#include "../ops.h"

CFX_FAMILY(LINEAR);

static bool scaled_fits(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (a->ndim != 2 || b->ndim != 2)
        op_fail(c, "%s must be a matrix", a->ndim != 2 ? "mat1" : "mat2");
    else if (a->shape[1] != b->shape[0])
        op_fail(c, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                (long long)a->shape[0], (long long)a->shape[1], (long long)b->shape[0],
                (long long)b->shape[1]);
    else if (!cfx__dtype_is_float8(a->dtype) || !cfx__dtype_is_float8(b->dtype))
        op_fail(c, "Expected mat%d to be Float8 matrix got %s",
                cfx__dtype_is_float8(a->dtype) ? 2 : 1,
                cfx__dtype_title(cfx__dtype_is_float8(a->dtype) ? b->dtype : a->dtype));
    else if (arg_tensor(c, 2)->dtype != CFX_F32 || arg_tensor(c, 3)->dtype != CFX_F32)
        op_fail(c, "Both scale_a and scale_b must be float (fp32) tensors.");
    return !op_failed();
}

static void shape_scaled_mm(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (scaled_fits(c))
        out_new(c, 0, arg_dtype(c, 6, a->dtype), 2, (int64_t[]){a->shape[0], b->shape[1]});
}

static void kernel_scaled_mm(cfx_op_call *c) {
    cfx_tensor *a = cfx_mul(cfx_to(c->args[0], cfx_f32), c->args[2]);
    cfx_tensor *b = cfx_mul(cfx_to(c->args[1], cfx_f32), c->args[3]);
    cfx_tensor *bias = arg_tensor(c, 4);
    cfx_tensor *out = bias ? cfx_addmm(cfx_to(bias, cfx_f32), a, b) : cfx_mm(a, b);
    if (!arg_is_none(c, 5))
        out = cfx_div(out, c->args[5]);
    if (!op_failed())
        cfx__tensor_copy(c->out[0], out);
}

CFX_OP(_scaled_mm) = {
    "aten::_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, "
    "Tensor? scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor",
    "torch._scaled_mm", .shape = shape_scaled_mm, .kernel = kernel_scaled_mm,
    .dtypes = CFX_IN_AS_IS | CFX_IN_FLOAT8, .out = "out"};
