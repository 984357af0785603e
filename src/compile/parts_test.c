/* What operators are made of computes what their kernels compute. */
#include <math.h>

#include <cfx/ops.h>

#include "../dispatch/dispatch.h"
#include "compile.h"
#include "test.h"

static double apart(cfx_value a, cfx_value b) {
    const cfx_tensor *x = cfx_as_tensor(a), *y = cfx_as_tensor(b);
    if (x->dtype != y->dtype || !cfx__tensor_same_shape(x, y))
        return INFINITY;
    if (cfx__dtype_is_complex(x->dtype))
        return apart(CFX_V(cfx_view_as_real(a)), CFX_V(cfx_view_as_real(b)));
    const cfx_value f64 = cfx_dtype_value(CFX_F64);
    if (!x->numel)
        return 0;
    cfx_tensor *most = cfx_amax(cfx_abs(cfx_sub(cfx_to(a, f64), cfx_to(b, f64))));
    return cfx__tensor_number(most, 0);
}

/* A call by its kernel, and by what its operator is made of. */
static void check_made(cfx_site at, cfx_op *op, double most, cfx_value args) {
    cfx_value all[CFX_MAX_ARGS];
    cfx_op_call c = {.op = op, .at = at, .args = all, .nout = 3};
    for (int64_t i = 0; i < cfx_as_list(args)->len; i++)
        all[c.nargs++] = cfx_as_list(args)->items[i];
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_dict *named = cfx_dict_new();
    for (int i = s->npositional; i < c.nargs; i++)
        cfx_dict_set(named, s->args[i].name, all[i]);
    const int plain = c.nargs < s->npositional ? c.nargs : s->npositional;
    cfx_value want = cfx_op_do_from(at, op, (cfx_args){plain, all, named});
    CHECK_OK();
    if (cfx_is_bad(want))
        return;
    const bool several = want.tag == CFX_TAG_TUPLE;
    c.nout = several ? (int)cfx_as_list(want)->len : 1;
    cfx__c_made_of(op)(&c);
    test_check(cfx_ok(), at, "the parts run");
    CHECK_OK();
    for (int i = 0; i < c.nout; i++) {
        const cfx_value one = several ? cfx_at(want, i) : want;
        if (one.tag != CFX_TAG_TENSOR)
            test_check(!c.out[i], at, "what is not asked for is not made");
        else
            test_check(c.out[i] && apart(cfx_tensor_value(c.out[i]), one) <= most, at,
                       "the parts give the kernel's numbers");
    }
}

TEST(gradients_are_made_of_calls_with_the_same_numbers) {
    cfx_manual_seed(3);
    for (int half = 0; half < 2; half++) {
        const cfx_value d = cfx_dtype_value(half ? CFX_BF16 : CFX_F32);
        const double most = half ? 0.04 : 1e-5;
        const cfx_value g = CFX_V(cfx_to(cfx_randn(4, 3, 6), d));
        const cfx_value x = CFX_V(cfx_to(cfx_randn(4, 3, 6), d));
        const cfx_value w = CFX_V(cfx_to(cfx_randn(3, 6), d));
        check_made(CFX_HERE, &cfx_op_gelu_backward, most, cfx_list(g, x, "none"));
        check_made(CFX_HERE, &cfx_op_gelu_backward, most, cfx_list(g, x, "tanh"));
        check_made(CFX_HERE, &cfx_op__log_softmax_backward_data, most,
                   cfx_list(g, cfx_log_softmax(x, 1), 1, d));
        const cfx_value norm = cfx_native_layer_norm(x, cfx_list(3, 6), w, w, 1e-5);
        check_made(CFX_HERE, &cfx_op_native_layer_norm_backward, half ? 0.1 : most,
                   cfx_list(g, x, cfx_list(3, 6), cfx_at(norm, 1), cfx_at(norm, 2), w, w,
                            cfx_list(true, true, true)));
        check_made(CFX_HERE, &cfx_op_native_layer_norm_backward, half ? 0.1 : most,
                   cfx_list(g, x, cfx_list(3, 6), cfx_at(norm, 1), cfx_at(norm, 2), w, NULL,
                            cfx_list(true, false, false)));
        const cfx_value at = CFX_V(cfx_tensor_from_value(cfx_list(1, 4, 1, 0)));
        for (int often = 0; often < 2; often++)
            check_made(CFX_HERE, &cfx_op_embedding_dense_backward, most,
                       cfx_list(cfx_to(cfx_randn(4, 5), d), at, 6, 4, (bool)often));
    }
    cfx_tensor *rows = cfx_log_softmax(cfx_randn(4, 5), 1), *row = cfx_log_softmax(cfx_randn(5), 0);
    cfx_tensor *target = cfx_tensor_from_value(cfx_list(1, -100, 0, 4));
    cfx_tensor *one = cfx_tensor_from_value(cfx_int(2)), *w = cfx_rand(5);
    for (int reduction = 0; reduction < 3; reduction++) {
        cfx_tensor *g = reduction ? cfx_tensor_from_value(cfx_float(0.7)) : cfx_randn(4);
        const cfx_value total = CFX_V(cfx_tensor_from_value(cfx_float(2.5)));
        check_made(CFX_HERE, &cfx_op_nll_loss_backward, 1e-6,
                   cfx_list(g, rows, target, w, reduction, -100, total));
        check_made(CFX_HERE, &cfx_op_nll_loss_backward, 1e-6,
                   cfx_list(g, rows, target, NULL, reduction, -100, total));
        const cfx_value single = CFX_V(cfx_tensor_from_value(cfx_float(0.7)));
        check_made(CFX_HERE, &cfx_op_nll_loss_backward, 1e-6,
                   cfx_list(single, row, one, w, reduction, -100, total));
    }
}

TEST(complex_calls_are_made_of_their_parts) {
    cfx_manual_seed(4);
    const cfx_value x = CFX_V(cfx_randn(2, 5, 6)), y = CFX_V(cfx_randn(2, 5, 6));
    const cfx_value z = CFX_V(cfx_complex(x, y)), t = CFX_V(cfx_transpose(z, 1, 2));
    const cfx_value f = CFX_V(cfx_select(z, 0, 0)), g = CFX_V(cfx_select(t, 0, 1));
    check_made(CFX_HERE, &cfx_op_bmm, 1e-5, cfx_list(z, t));
    check_made(CFX_HERE, &cfx_op_mm, 1e-5, cfx_list(f, g));
    check_made(CFX_HERE, &cfx_op_addmm, 1e-5, cfx_list(cfx_mm(f, g), f, g, 0.5, 2));
    check_made(CFX_HERE, &cfx_op_linear, 1e-5, cfx_list(z, f, NULL));
    check_made(CFX_HERE, &cfx_op_linear, 1e-5, cfx_list(z, f, cfx_select(f, 1, 0)));
    check_made(CFX_HERE, &cfx_op_polar, 1e-6, cfx_list(x, y));
    check_made(CFX_HERE, &cfx_op_complex, 0, cfx_list(x, cfx_select(y, 0, 0)));
    check_made(CFX_HERE, &cfx_op_angle, 1e-6, cfx_list(z));
    check_made(CFX_HERE, &cfx_op_cumsum, 1e-5, cfx_list(z, 1));
    check_made(CFX_HERE, &cfx_op_triu, 0, cfx_list(z, 1));
    for (int norm = 0; norm < 3; norm++)
        for (int n = 5; n < 7; n++) {
            const cfx_value dims = n == 5 ? cfx_list(1) : cfx_list(0, -1);
            const cfx_value dim = n == 5 ? cfx_int(1) : cfx_int(2);
            const cfx_value half = CFX_V(cfx_narrow(z, dim, 0, n / 2 + 1));
            check_made(CFX_HERE, &cfx_op__fft_r2c, 1e-5, cfx_list(x, dims, norm, true));
            check_made(CFX_HERE, &cfx_op__fft_r2c, 1e-5, cfx_list(x, dims, norm, false));
            check_made(CFX_HERE, &cfx_op__fft_c2r, 1e-5, cfx_list(half, dims, norm, n));
        }
}

TEST(calls_without_a_form_are_made_of_others) {
    cfx_manual_seed(5);
    const cfx_value x = CFX_V(cfx_randn(3, 4, 5)), one = CFX_V(cfx_full(cfx_list(1), 2.5));
    const cfx_value mask = CFX_V(cfx_gt(x, 0)), rows = CFX_V(cfx_select(mask, 2, 0));
    const cfx_value none = cfx_none(), row = CFX_V(cfx_randn(5));
    for (int adds = 0; adds < 2; adds++) {
        const cfx_value how = cfx_bool(adds);
        check_made(CFX_HERE, &cfx_op_index_put, 0, cfx_list(x, cfx_list(mask), one, how));
        check_made(CFX_HERE, &cfx_op_index_put, 0, cfx_list(x, cfx_list(rows), row, how));
        check_made(CFX_HERE, &cfx_op_index_put, 0,
                   cfx_list(x, cfx_list(none, cfx_select(mask, 0, 1)), cfx_randn(3, 1), how));
    }
    const cfx_value from = CFX_V(cfx_full(cfx_list_value(0, NULL), -1.3));
    const cfx_value to = CFX_V(cfx_full(cfx_list_value(0, NULL), 2.9));
    for (int n = 2; n < 9; n++) {
        check_made(CFX_HERE, &cfx_op_linspace_Tensor_Tensor, 1e-6, cfx_list(from, to, n));
        check_made(CFX_HERE, &cfx_op_linspace_Scalar_Tensor, 1e-6, cfx_list(-7, to, n));
    }
    const cfx_value image = CFX_V(cfx_randn(2, 3, 9, 14));
    for (int corners = 0; corners < 2; corners++)
        for (int larger = 0; larger < 2; larger++) {
            const cfx_value size = larger ? cfx_list(20, 14) : cfx_list(4, 5);
            const cfx_value args = cfx_list(image, size, (bool)corners, NULL, NULL);
            check_made(CFX_HERE, &cfx_op__upsample_bilinear2d_aa, 1e-5, args);
            check_made(CFX_HERE, &cfx_op__upsample_bicubic2d_aa, 1e-5, args);
        }
    check_made(CFX_HERE, &cfx_op__upsample_bilinear2d_aa, 1e-5,
               cfx_list(image, cfx_list(4, 5), false, 0.5, 0.4));
    check_made(CFX_HERE, &cfx_op__pdist_forward, 1e-5, cfx_list(cfx_randn(6, 4), 2.0));
    check_made(CFX_HERE, &cfx_op__pdist_forward, 1e-5, cfx_list(cfx_randn(6, 4), 1.0));
    check_made(CFX_HERE, &cfx_op__trilinear, 1e-4,
               cfx_list(cfx_randn(3, 4), cfx_randn(6, 4, 5), cfx_randn(3, 5), cfx_list(1, 3),
                        cfx_list(0), cfx_list(1, 2), cfx_list(2, 3)));
}

TEST(factorisations_are_made_of_others) {
    cfx_tensor *square = cfx_matmul(cfx_randn(2, 4, 4), cfx_randn(2, 4, 4));
    const cfx_value l = CFX_V(cfx_add(cfx_tril(square, -1), cfx_mul(cfx_eye(4), 3)));
    check_made(CFX_HERE, &cfx_op_linalg_lu, 1e-5, cfx_list(cfx_randn(2, 5, 3), true));
    check_made(CFX_HERE, &cfx_op_linalg_lu, 1e-5, cfx_list(cfx_randn(3, 5), true));
    for (int how = 0; how < 8; how++) {
        const cfx_value a = how & 1 ? CFX_V(cfx_mT(l)) : l;
        check_made(CFX_HERE, &cfx_op_triangular_solve, 1e-5,
                   cfx_list(cfx_randn(4, 3), a, (bool)(how & 1), (bool)(how & 2), (bool)(how & 4)));
    }
    for (int upper = 0; upper < 2; upper++)
        check_made(CFX_HERE, &cfx_op_cholesky_inverse, 1e-5,
                   cfx_list(upper ? CFX_V(cfx_mT(l)) : l, (bool)upper));
}

/* Statistics are of the dtype of what they are kept in, and not rounded to that of halves before.
 */
TEST(norms_have_parts_in_any_dtype) {
    const cfx_dtype dtypes[] = {CFX_F32, CFX_F64, CFX_F16, CFX_BF16};
    for (int i = 0; i < COUNT(dtypes); i++)
        for (int same = 0; same < 2; same++) {
            const cfx_value d = cfx_dtype_value(dtypes[i]);
            const cfx_value own = same || i == 1 ? d : cfx_dtype_value(CFX_F32);
            const double most = i < 2 ? 1e-5 : 0.02, kept = same && i > 1 ? 0.02 : 1e-5;
            const cfx_value x = CFX_V(cfx_to(cfx_randn(3, 4, 5), d));
            const cfx_value w = CFX_V(cfx_to(cfx_randn(4), own)),
                            rows = CFX_V(cfx_to(cfx_randn(5), own));
            const cfx_value mean = CFX_V(cfx_to(cfx_randn(4), own));
            const cfx_value var = CFX_V(cfx_to(cfx_rand(4), own));
            check_made(CFX_HERE, &cfx_op__native_batch_norm_legit_no_training, most,
                       cfx_list(x, w, w, mean, var, 0.1, 1e-5));
            check_made(CFX_HERE, &cfx_op_native_layer_norm, most,
                       cfx_list(x, cfx_list(5), rows, rows, 1e-5));
            check_made(CFX_HERE, &cfx_op_native_group_norm, most,
                       cfx_list(x, w, w, 3, 4, 5, 2, 1e-5));
            for (int trains = 0; trains < 2; trains++)
                check_made(CFX_HERE, &cfx_op__native_batch_norm_legit_functional, most,
                           cfx_list(x, w, NULL, mean, var, (bool)trains, 0.1, 1e-5));
            cfx_op_call c = {.op = &cfx_op__native_batch_norm_legit_functional,
                             .args = (cfx_value[]){x, w, cfx_none(), mean, var, cfx_bool(true),
                                                   cfx_float(0.1), cfx_float(1e-5)},
                             .nargs = 8,
                             .nout = 5};
            cfx__c_made_of(c.op)(&c);
            const cfx_value want = cfx_aten__native_batch_norm_legit_functional(
                x, w, NULL, mean, var, true, 0.1, 1e-5);
            for (int k = 1; k < 5; k++)
                CHECK(apart(cfx_tensor_value(c.out[k]), cfx_at(want, k)) <= kept);
            CHECK_OK();
        }
}
