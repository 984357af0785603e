/* The tape and the backward pass: what gets a gradient, in what order, and what is refused. */
#include <cfx.h>

#include <math.h>

#include "test.h"

static cfx_tensor *leaf(double a, double b) {
    double data[] = {a, b};
    return cfx_requires_grad(cfx_tensor_new(CFX_F64, 1, (int64_t[]){2}, data), true);
}

#define CHECK_GRAD(t, a, b)                                                                        \
    do {                                                                                           \
        CHECK(cfx_tensor_grad(t) != NULL);                                                         \
        CHECK_NEAR(cfx_tensor_get(cfx_tensor_grad(t), 0), a, 1e-12);                               \
        CHECK_NEAR(cfx_tensor_get(cfx_tensor_grad(t), 1), b, 1e-12);                               \
    } while (0)

TEST(grad_of_a_product) {
    cfx_tensor *x = leaf(2, 3), *y = leaf(5, 7);
    cfx_tensor *z = cfx_mul(x, y);
    CHECK(cfx_tensor_requires_grad(z) && !cfx_tensor_is_leaf(z) && cfx_tensor_is_leaf(x));
    CHECK_STR(cfx_tensor_grad_fn(z), "MulBackward0");
    CHECK(cfx_backward(cfx_sum(z)));
    CHECK_GRAD(x, 5, 7);
    CHECK_GRAD(y, 2, 3);
}

TEST(grad_where_the_result_is_not_a_number) {
    cfx_tensor *x = leaf(-2, -INFINITY);
    cfx_backward(cfx_sum(cfx_acosh(x)));
    CHECK_GRAD(x, 0.57735026918962576, 0);
}

TEST(grad_of_a_gradient_of_elu_bends_below_zero_alone) {
    cfx_tensor *x = leaf(0, 1e30);
    cfx_tensor *g = cfx_tensor_at(
        cfx_grad(cfx_sum(cfx_elu(x, 1.5)), x, .create_graph = true), 0);
    cfx_backward(cfx_sum(g));
    CHECK_GRAD(x, 0, 0);
}

TEST(grad_adds_up) {
    cfx_tensor *x = leaf(2, 3);
    cfx_backward(cfx_sum(cfx_mul(x, x)));
    CHECK_GRAD(x, 4, 6);
    cfx_backward(cfx_sum(cfx_add(x, cfx_add(x, x))));
    CHECK_GRAD(x, 7, 9);
    cfx_tensor_set_grad(x, NULL);
    CHECK(cfx_tensor_grad(x) == NULL);
}

TEST(grad_sums_what_was_broadcast) {
    cfx_tensor *x = leaf(2, 3);
    cfx_tensor *m = cfx_ones(3, 2, CFX_KW(dtype, cfx_f64));
    cfx_backward(cfx_sum(cfx_mul(m, x)));
    CHECK_GRAD(x, 3, 3);
}

TEST(grad_prints_as_pytorch) {
    cfx_tensor *x = leaf(1, 2);
    CHECK_STR(cfx_tensor_str(x), "tensor([1., 2.], dtype=torch.float64, requires_grad=True)");
    CHECK_STR(cfx_tensor_str(cfx_add(x, 1)),
              "tensor([2., 3.], dtype=torch.float64, grad_fn=<AddBackward0>)");
}

TEST(grad_is_not_recorded_without_need) {
    cfx_tensor *x = leaf(1, 2);
    cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
    CHECK(!cfx_tensor_requires_grad(cfx_mul(x, x)));
    cfx_set_grad_mode(before);
    CHECK(!cfx_tensor_requires_grad(cfx_detach(cfx_mul(x, x))));
    CHECK(!cfx_tensor_requires_grad(cfx_mul(cfx_detach(x), 2)));
}

TEST(grad_of_chosen_inputs) {
    cfx_tensor *x = leaf(2, 3), *y = leaf(5, 7);
    cfx_tensor *z = cfx_mul(x, y), *loss = cfx_sum(cfx_mul(z, z));
    cfx_value both[] = {CFX_V(z), CFX_V(y)};
    cfx_value g = cfx_grad(loss, cfx_list_value(2, both));
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(g, 0), 0), 20, 1e-12);
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(g, 1), 1), 2 * 3 * 21, 1e-12);
    CHECK(!cfx_tensor_grad(x) && !cfx_tensor_grad(y));
}

TEST(grad_of_a_gradient) {
    cfx_tensor *x = leaf(2, 3);
    cfx_tensor *y = cfx_mul(cfx_mul(x, x), x);
    cfx_tensor *g = cfx_tensor_at(cfx_grad(cfx_sum(y), x, .create_graph = true), 0);
    CHECK_NEAR(cfx_tensor_get(g, 0), 12, 1e-12);
    cfx_tensor *gg = cfx_tensor_at(cfx_grad(cfx_sum(g), x), 0);
    CHECK_NEAR(cfx_tensor_get(gg, 0), 12, 1e-12);
    CHECK_NEAR(cfx_tensor_get(gg, 1), 18, 1e-12);
}

TEST(grad_unused_input) {
    cfx_tensor *x = leaf(2, 3), *y = leaf(5, 7);
    cfx_tensor *loss = cfx_sum(cfx_mul(x, x));
    cfx_value g = cfx_grad(loss, y, .allow_unused = true, .retain_graph = true);
    CHECK(cfx_is_none(cfx_at(g, 0)));
    cfx_grad(loss, y);
    CHECK_ERROR("One of the differentiated Tensors appears to not have been used in the graph");
}

TEST(grad_twice_is_refused) {
    cfx_tensor *x = leaf(2, 3);
    cfx_tensor *loss = cfx_sum(cfx_mul(x, x));
    CHECK(cfx_backward(loss, .retain_graph = true));
    CHECK(cfx_backward(loss));
    CHECK_GRAD(x, 8, 12);
    CHECK(!cfx_backward(loss));
    CHECK(cfx_error_last()->at.line == __LINE__ - 1);
    CHECK_ERROR("Trying to backward through the graph a second time");
}

TEST(grad_wants_one_number) {
    cfx_tensor *x = leaf(2, 3);
    CHECK(!cfx_backward(cfx_mul(x, x)));
    CHECK_ERROR("grad can be implicitly created only for scalar outputs");
    cfx_error_clear();
    CHECK(cfx_backward(cfx_mul(x, x), .gradient = cfx_ones(2, CFX_KW(dtype, cfx_f64))));
    CHECK_GRAD(x, 4, 6);
    cfx_backward(cfx_mul(x, x), .gradient = cfx_ones(3));
    CHECK_ERROR("Mismatch in shape: grad_output[0] has a shape of torch.Size([3]) and output[0] "
                "has a shape of torch.Size([2]).");
    cfx_error_clear();
    cfx_backward(cfx_ones(1));
    CHECK_ERROR("element 0 of tensors does not require grad and does not have a grad_fn");
}

TEST(grad_after_a_change) {
    cfx_tensor *x = leaf(2, 3);
    cfx_tensor *y = cfx_mul(x, 1), *loss = cfx_sum(cfx_mul(y, y));
    cfx_add_(y, 1);
    cfx_backward(loss);
    CHECK_ERROR("one of the variables needed for gradient computation has been modified by an "
                "inplace operation: [torch.DoubleTensor [2]], which is output 0 of AddBackward0, "
                "is at version 1; expected version 0 instead.");
}

TEST(gradients_have_the_numbers_of_pytorch) {
    cfx_tensor *x = leaf(2, 3);
    CHECK_STR(cfx_tensor_grad_fn(cfx_pow(x, 2)), "PowBackward0");
    CHECK_STR(cfx_tensor_grad_fn(cfx_pow(x, x)), "PowBackward1");
    CHECK_STR(cfx_tensor_grad_fn(cfx_max(x)), "MaxBackward1");
    CHECK_STR(cfx_tensor_grad_fn(cfx_clamp(x, 0)), "ClampBackward1");
    CHECK_STR(cfx_tensor_grad_fn(cfx_std(x)), "StdBackward0");
    CHECK_STR(cfx_tensor_grad_fn(cfx_std(x, cfx_list(0))), "StdBackward0");
}

TEST(grad_leaf_is_not_written_to) {
    cfx_tensor *x = leaf(2, 3);
    cfx_add_(x, 1);
    CHECK(cfx_error_last()->at.line == __LINE__ - 1);
    CHECK_ERROR("a leaf Variable that requires grad is being used in an in-place operation.");
    cfx_error_clear();
    cfx_add_(cfx_as_strided(x, cfx_list(1), cfx_list(1)), 1);
    CHECK_ERROR("a view of a leaf Variable that requires grad is being used in an in-place "
                "operation.");
    cfx_error_clear();
    cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_add_(x, 1);
    cfx_set_grad_mode(before);
    CHECK_NEAR(cfx_tensor_get(x, 0), 3, 0);
}

TEST(grad_in_place) {
    cfx_tensor *x = leaf(2, 3);
    cfx_tensor *y = cfx_mul(x, 1);
    cfx_mul_(y, y);
    (void)y;
    cfx_error_clear();
    y = cfx_mul(x, 3);
    cfx_mul_(y, x);
    CHECK_STR(cfx_tensor_grad_fn(y), "MulBackward0");
    cfx_backward(cfx_sum(y));
    CHECK_GRAD(x, 12, 18);
}

TEST(grad_through_a_written_view) {
    cfx_tensor *x = leaf(2, 3), *z = leaf(5, 7);
    cfx_tensor *y = cfx_mul(x, 1), *view = cfx_as_strided(y, cfx_list(1), cfx_list(1), 1);
    cfx_tensor *other = cfx_as_strided(y, cfx_list(1), cfx_list(1), 1);
    cfx_mul_(view, cfx_as_strided(z, cfx_list(1), cfx_list(1)));
    CHECK_STR(cfx_tensor_grad_fn(y), "CopySlices");
    CHECK_STR(cfx_tensor_grad_fn(view), "AsStridedBackward0");
    cfx_backward(cfx_add(cfx_sum(y), cfx_sum(other)));
    CHECK_GRAD(x, 1, 10);
    CHECK_GRAD(z, 6, 0);
}

TEST(grad_of_a_view_in_place) {
    cfx_tensor *x = leaf(2, 3), *y = cfx_mul(cfx_unsqueeze(x, 0), 2);
    cfx_tensor *w = cfx_fn_call_inplace_from(CFX_HERE, &cfx_fn_squeeze, CFX_ARGS(y));
    CHECK_INT(cfx_tensor_ndim(w), 1);
    CHECK_STR(cfx_tensor_grad_fn(w), "SqueezeBackward0");
    cfx_backward(cfx_sum(cfx_mul(w, w)));
    CHECK_GRAD(x, 16, 24);
}

TEST(grad_history_may_hold_its_own_past) {
    cfx_tensor *x = leaf(2, 3), *w = leaf(5, 7), *y = cfx_mul(x, 1);
    cfx_tensor *view = cfx_view(y, 2, 1), *s = cfx_view(cfx_mul(view, cfx_view(w, 2, 1)), 2);
    cfx_add_(y, s); /* y is now made from what was saved of it */
    cfx_backward(cfx_sum(y));
    CHECK_ERROR("which is output 0 of AddBackward0, is at version 1; expected version 0 instead.");
}

TEST(grad_reaches_a_base_without_one) {
    cfx_tensor *x = leaf(2, 3);
    cfx_tensor *base = cfx_zeros(4, CFX_KW(dtype, cfx_f64));
    cfx_copy_(cfx_as_strided(base, cfx_list(2), cfx_list(1), 1), x);
    CHECK(cfx_tensor_requires_grad(base));
    cfx_backward(cfx_sum(cfx_mul(base, base)));
    CHECK_GRAD(x, 4, 6);
}

static cfx_tensor *double_it(cfx_tensor *grad, void *user) {
    ++*(int *)user;
    return cfx_mul(grad, 2);
}

static void count_leaf(cfx_tensor *t, void *user) {
    CHECK(cfx_tensor_grad(t) != NULL);
    ++*(int *)user;
}

TEST(grad_hooks) {
    int calls = 0, leaves = 0;
    cfx_tensor *x = leaf(2, 3), *y = cfx_mul(x, x);
    cfx_tensor_hook(y, double_it, &calls);
    int64_t id = cfx_tensor_hook(x, double_it, &calls);
    cfx_leaf_hook(x, count_leaf, &leaves);
    cfx_retain_grad(y);
    cfx_backward(cfx_sum(y), .retain_graph = true);
    CHECK_INT(calls, 2);
    CHECK_INT(leaves, 1);
    CHECK_GRAD(x, 16, 24);
    CHECK_GRAD(y, 2, 2);
    cfx_tensor_unhook(x, id);
    cfx_tensor_set_grad(x, NULL);
    cfx_backward(cfx_sum(y));
    CHECK_GRAD(x, 8, 12);
}

static cfx_tensor *wrong_size(cfx_tensor *grad, void *user) {
    (void)grad, (void)user;
    return cfx_ones(5, CFX_KW(dtype, cfx_f64));
}

TEST(grad_hook_that_returns_nonsense) {
    cfx_tensor *x = leaf(2, 3);
    cfx_tensor_hook(x, wrong_size, NULL);
    cfx_backward(cfx_sum(cfx_mul(x, x)));
    CHECK_ERROR("has changed the size of value");
    cfx_error_clear();
    cfx_tensor_hook(cfx_ones(2), wrong_size, NULL);
    CHECK_ERROR("cannot register a hook on a tensor that doesn't require gradient");
}

TEST(grad_of_a_long_tape) {
    cfx_tensor *x = leaf(2, 3), *y = cfx_keep(x);
    for (int i = 0; i < 200000; i++)
        CFX_SCOPE {
            cfx_tensor *next = cfx_keep(cfx_mul(y, 1));
            cfx_drop(y);
            y = next;
        }
    CHECK(cfx_backward(cfx_sum(y), .retain_graph = true));
    CHECK_GRAD(x, 1, 1);
    cfx_drop(y);
}

TEST(grad_rules_of_leaves) {
    cfx_requires_grad(cfx_ones(2, CFX_KW(dtype, cfx_i64)), true);
    CHECK_ERROR("only Tensors of floating point dtype can require gradients");
    cfx_error_clear();
    cfx_requires_grad(cfx_mul(leaf(1, 2), 2), false);
    CHECK_ERROR("you can only change requires_grad flags of leaf variables.");
    cfx_error_clear();
    cfx_tensor *x = leaf(1, 2);
    cfx_tensor_set_grad(x, cfx_ones(3, CFX_KW(dtype, cfx_f64)));
    CHECK_ERROR("attempting to assign a gradient of size '[3]' to a tensor of size '[2]'.");
    cfx_error_clear();
    cfx_add(x, 1, CFX_KW(out, cfx_ones(2)));
    CHECK_ERROR("add(): functions with out=... arguments don't support automatic differentiation");
}

static void half_shape(cfx_op_call *c) {
    const cfx_tensor *x = cfx_as_tensor(c->args[0]);
    c->out[0] = cfx_tensor_new(cfx_tensor_dtype(x), cfx_tensor_ndim(x), cfx_tensor_shape(x), NULL);
}

static void half_kernel(cfx_op_call *c) {
    const double *x = cfx_tensor_data(cfx_as_tensor(c->args[0]));
    double *out = cfx_tensor_data(c->out[0]);
    for (int64_t i = 0; i < cfx_tensor_numel(c->out[0]); i++)
        out[i] = x[i] / 2;
}

static void grad_too_long(cfx_back *b) {
    b->gin[0] = CFX_V(cfx_cat(cfx_list(b->gout[0], b->gout[0], b->gout[0])));
}

static void grad_unsaved(cfx_back *b) { b->gin[0] = CFX_V(cfx_mul(b->gout[0], b->args[0])); }

static void grad_half(cfx_back *b) { b->gin[0] = CFX_V(cfx_div(b->gout[0], 2)); }

TEST(grad_of_an_operator_of_ones_own) {
    static cfx_op half = {.schema = "mine::half(Tensor x) -> Tensor", .torch_ = "mine.half",
                          .shape = half_shape, .kernel = half_kernel,
                          .effects = CFX_CONTIGUOUS_ARGS, .grad = grad_half};
    CHECK(cfx_op_register(&half));
    cfx_tensor *x = leaf(2, 3), *y = cfx_as_tensor(cfx_py("mine.half", x));
    CHECK_STR(cfx_tensor_grad_fn(y), "HalfBackward0");
    cfx_backward(cfx_sum(y));
    CHECK_GRAD(x, 0.5, 0.5);
    half.grad = grad_too_long;
    cfx_backward(cfx_sum(cfx_py("mine.half", x)));
    CHECK_ERROR("Function HalfBackward0 returned an invalid gradient at index 0 - got [6] but "
                "expected shape compatible with [2]");
    cfx_error_clear();
    half.grad = grad_unsaved;
    cfx_backward(cfx_sum(cfx_py("mine.half", x)));
    CHECK_ERROR("the gradient of mine.half.default reads numbers that it has not saved");
    cfx_error_clear();
    half.grad = NULL;
    cfx_backward(cfx_sum(cfx_py("mine.half", x)));
    CHECK_ERROR("derivative for mine::half is not implemented");
}

static cfx_tensor *walk_again(cfx_tensor *grad, void *user) {
    cfx_grad_mode before = cfx_set_grad_mode(CFX_GRAD_ON);
    cfx_tensor *x = user;
    cfx_backward(cfx_sum(cfx_mul(x, 3)));
    cfx_set_grad_mode(before);
    (void)grad;
    return NULL;
}

TEST(grad_walk_inside_a_walk) {
    cfx_tensor *x = leaf(2, 3), *z = leaf(1, 1), *y = cfx_mul(x, x);
    cfx_tensor_hook(y, walk_again, z);
    cfx_backward(cfx_sum(y));
    CHECK_GRAD(x, 4, 6);
    CHECK_GRAD(z, 3, 3);
}

TEST(statistics_and_work_space_take_no_gradient) {
    cfx_tensor *x = cfx_randn(3, 4);
    cfx_requires_grad(x, true);
    cfx_value r = cfx_native_batch_norm(x, cfx_ones(4), cfx_zeros(4), cfx_zeros(4), cfx_ones(4),
                                        cfx_bool(true), 0.1, 1e-5);
    for (int i = 0; i < 3; i++)
        CHECK(cfx_tensor_requires_grad(cfx_tensor_at(r, i)) == !i);
    r = cfx_aten__native_batch_norm_legit_functional(x, cfx_ones(4), cfx_zeros(4), cfx_zeros(4),
                                                     cfx_ones(4), cfx_bool(true), 0.1, 1e-5);
    for (int i = 0; i < 5; i++)
        CHECK(cfx_tensor_requires_grad(cfx_tensor_at(r, i)) == !i);
    cfx_backward(cfx_sum(cfx_tensor_at(r, 0)));
    CHECK(cfx_tensor_grad(x) != NULL);
    cfx_tensor *a = cfx_eye(3);
    cfx_requires_grad(a, true);
    r = cfx_linalg_lu(a);
    CHECK(!cfx_tensor_requires_grad(cfx_tensor_at(r, 0))); /* a permutation */
    CHECK(cfx_tensor_requires_grad(cfx_tensor_at(r, 1)));
    CHECK_OK();
}
