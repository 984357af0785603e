/* The dispatcher: overloads, derived forms, modes, fake tensors, operators of the user's. */
#include "test.h"

#include "dispatch.h"

#include <pthread.h>
#include <string.h>

static cfx_tensor *floats(int n, const float *v) {
    return cfx_tensor_new(CFX_F32, 1, (int64_t[]){n}, v);
}

TEST(a_number_takes_the_tensor_overload_of_add) {
    cfx_tensor *x = floats(2, (float[]){1, 2});
    CHECK_STR(cfx_str(cfx_add(x, 2)), "tensor([3., 4.])");
    CHECK_STR(cfx_str(cfx_add(x, x, CFX_KW(alpha, 10))), "tensor([11., 22.])");
    CHECK_OK();
}

TEST(calls_by_spelling_overload_and_method_agree) {
    cfx_tensor *x = floats(2, (float[]){1, -2});
    const char *want = cfx_str(cfx_relu(x));
    CHECK_STR(cfx_str(cfx_py("torch.relu", x)), want);
    CHECK_STR(cfx_str(cfx_py("Tensor.relu", x)), want);
    CHECK_STR(cfx_str(cfx_op_do(cfx_op_find("aten.relu.default"), x)), want);
    CHECK(cfx_op_find("aten::relu") == cfx_op_find("relu"));
    cfx_py("torch.no_such_thing", x);
    CHECK_ERROR("no operator is called 'torch.no_such_thing'");
    cfx_py("aten.cudnn_convolution.default", x);
    CHECK_ERROR("no operator is called 'aten.cudnn_convolution.default'; PyTorch has it for cuDNN "
                "alone");
    cfx_py("aten.sum.dim_DimnameList", x);
    CHECK_ERROR("no operator is called 'aten.sum.dim_DimnameList'; PyTorch has it for named "
                "tensors alone");
}

/* What is said to be for other machines is not here: no row of nearest.c was outgrown. */
TEST(no_operator_is_said_to_be_elsewhere) {
    for (int i = 0; i < cfx_op_count(); i++)
        CFX_SCOPE {
            const char *name = cfx_op_name(cfx_op_at(i));
            if (strstr(cfx__dispatch_hint(name), "PyTorch has it for"))
                test_fail(CFX_HERE, "%s is here%s", name, cfx__dispatch_hint(name));
        }
}

TEST(an_item_of_a_tensor_is_its_row) {
    cfx_tensor *x = cfx_tensor_new(CFX_F32, 2, (int64_t[]){2, 2}, (float[]){1, 2, 3, 4});
    CHECK_STR(cfx_str(cfx_at(cfx_tensor_value(x), -1)), "tensor([3., 4.])");
    CHECK_OK();
    cfx_at(cfx_tensor_value(x), 2);
    CHECK_ERROR("index 2 is out of bounds for dimension 0 with size 2");
}

TEST(in_place_forms_write_to_their_first_argument) {
    cfx_tensor *x = floats(3, (float[]){1, -2, 3});
    cfx_tensor *same = cfx_relu_(x);
    CHECK(same == x);
    CHECK_STR(cfx_str(x), "tensor([1., 0., 3.])");
    CHECK_STR(cfx_op_find("relu_")->schema, "aten::relu_(Tensor(a!) self) -> Tensor(a!)");
    CHECK_STR(cfx_op_find("add_.Tensor")->schema,
              "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)");
}

TEST(in_place_writes_are_seen_through_views_and_counted) {
    cfx_tensor *x = floats(4, (float[]){1, 2, 3, 4});
    cfx_tensor *half = cfx_tensor_view(x, 1, (int64_t[]){2}, (int64_t[]){2}, 1);
    uint32_t before = x->storage->version;
    cfx_add_(half, 10);
    CHECK_STR(cfx_str(x), "tensor([ 1., 12.,  3., 14.])");
    CHECK_INT(x->storage->version, before + 1);
}

TEST(in_place_refuses_what_it_cannot_write) {
    cfx_tensor *x = floats(2, (float[]){1, 2});
    cfx_tensor *wide = cfx_tensor_new(CFX_F32, 2, (int64_t[]){3, 2}, NULL);
    cfx_add_(x, wide);
    CHECK_ERROR("output with shape [2] doesn't match the broadcast shape [3, 2]");
    cfx_tensor *ints = cfx_tensor_from_value(cfx_list(1, 2));
    cfx_add_(ints, 1.5);
    CHECK_ERROR("result type Float can't be cast to the desired output type Long");
    cfx_tensor *spread = cfx_tensor_view(x, 1, (int64_t[]){4}, (int64_t[]){0}, 0);
    cfx_add_(spread, 1);
    CHECK_ERROR(
        "more than one element of the written-to tensor refers to a single memory location");
    cfx_tensor *line = floats(4, (float[]){1, 2, 3, 4});
    cfx_tensor *front = cfx_tensor_view(line, 1, (int64_t[]){3}, (int64_t[]){1}, 0);
    cfx_tensor *back = cfx_tensor_view(line, 1, (int64_t[]){3}, (int64_t[]){1}, 1);
    cfx_add_(front, back);
    CHECK_ERROR("some elements of the input tensor and the written-to tensor refer to a single");
    CHECK_STR(cfx_str(line), "tensor([1., 2., 3., 4.])");
}

/* Memory that PyTorch does not look at closely enough to refuse it: operands are as they were. */
TEST(in_place_reads_all_before_it_writes) {
    cfx_tensor *x = cfx_arange(12, CFX_KW(dtype, cfx_f32));
    cfx_tensor *to = cfx_as_strided(x, cfx_list(2, 4), cfx_list(6, 1), 1);
    cfx_tensor *from = cfx_as_strided(x, cfx_list(2, 4), cfx_list(6, 1), 0);
    cfx_copy_(to, from);
    CHECK_STR(cfx_tensor_str(x),
              "tensor([ 0.,  0.,  1.,  2.,  3.,  5.,  6.,  6.,  7.,  8.,  9., 11.])");
    cfx_add_(to, from);
    CHECK_STR(cfx_tensor_str(x),
              "tensor([ 0.,  0.,  1.,  3.,  5.,  5.,  6., 12., 13., 15., 17., 11.])");
    cfx_copy_(to, to);
    CHECK_INT(cfx_tensor_get(x, 10), 17);
    CHECK_OK();
}

/* The same of a window whose elements share memory: the last that is stored stays, as it does where
 * the write is decomposed. */
TEST(in_place_through_a_window_reads_all_before_it_writes) {
    cfx_tensor *x = cfx_arange(5, CFX_KW(dtype, cfx_f32));
    cfx_tensor *window = cfx_as_strided(x, cfx_list(3, 2), cfx_list(1, 1), 1);
    cfx_tensor *by = cfx_reshape(cfx_arange(0, 60, 10, CFX_KW(dtype, cfx_f32)), cfx_list(3, 2));
    cfx_add_(window, by);
    CHECK_STR(cfx_str(x), "tensor([ 0.,  1., 22., 43., 54.])");
    cfx_copy_(window, cfx_t(cfx_reshape(by, cfx_list(2, 3)))); /* in rows, however src lies */
    CHECK_STR(cfx_str(x), "tensor([ 0.,  0., 10., 20., 50.])");
}

TEST(out_forms_resize_and_cast) {
    cfx_tensor *x = floats(2, (float[]){1, 2});
    cfx_tensor *out = cfx_tensor_new(CFX_F64, 1, (int64_t[]){0}, NULL);
    cfx_tensor *same = cfx_add(x, x, CFX_KW(out, out));
    CHECK(same == out);
    CHECK_STR(cfx_str(out), "tensor([2., 4.], dtype=torch.float64)");
    CHECK_STR(cfx_op_find("relu.out")->schema,
              "aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)");
    cfx_tensor *ints = cfx_tensor_new(CFX_I64, 1, (int64_t[]){2}, NULL);
    cfx_add(x, x, CFX_KW(out, ints));
    CHECK_ERROR("result type Float can't be cast to the desired output type Long");
}

TEST(out_forms_that_cast_and_others) {
    cfx_tensor *x = floats(2, (float[]){1, 2});
    cfx_tensor *wide = cfx_tensor_new(CFX_F64, 1, (int64_t[]){0}, NULL);
    CHECK_STR(cfx_str(cfx_cat(cfx_list(x, x), CFX_KW(out, wide))),
              "tensor([1., 2., 1., 2.], dtype=torch.float64)");
    CHECK_STR(cfx_str(cfx_std(x, 0, CFX_KW(out, wide))), "tensor(0.7071, dtype=torch.float64)");
    CHECK_STR(cfx_str(cfx_logsumexp(x, 0, CFX_KW(out, wide))),
              "tensor(2.3133, dtype=torch.float64)");
    CHECK_STR(cfx_str(cfx_angle(x, CFX_KW(out, wide))), "tensor([0., 0.], dtype=torch.float64)");
    CHECK_STR(cfx_str(cfx_special_zeta(cfx_add(x, 1), 1, CFX_KW(out, wide))),
              "tensor([1.6449, 1.2021], dtype=torch.float64)");
    CHECK_OK();
    cfx_softmax(x, 0, CFX_KW(out, wide));
    CHECK_ERROR("Expected out tensor to have dtype float, but got double instead");
    cfx_addmv_(cfx_ones(cfx_list()), cfx_ones(5, 2), x);
    CHECK_ERROR("Bad in-place call: input tensor size [] and output tensor size [5] should match");
}

TEST(out_forms_leave_what_gets_no_result) {
    cfx_tensor *x = cfx_ones(2, 3), *mean = cfx_ones(2, 1), *w = cfx_ones(3);
    cfx_tensor *to[] = {cfx_zeros(2, 3), cfx_full(cfx_list(3), 7.0), cfx_full(cfx_list(4), 8.0)};
    cfx_value mask = cfx_list(cfx_bool(true), cfx_bool(false), cfx_bool(false));
    cfx_op_do(cfx_op_find("native_layer_norm_backward.out"), x, x, cfx_list(3), mean, mean, w, w,
              mask, CFX_KW(out0, to[0]), CFX_KW(out1, to[1]), CFX_KW(out2, to[2]));
    CHECK_OK();
    CHECK_STR(cfx_str(to[1]), "tensor([7., 7., 7.])");
    CHECK_STR(cfx_str(to[2]), "tensor([8., 8., 8., 8.])");
}

static void decompose_to_nothing(cfx_op_call *c) { (void)c; }

TEST(a_call_without_a_result_is_an_error) {
    static cfx_op nothing = {.schema = "mine::nothing(Tensor x) -> Tensor",
                             .decompose = decompose_to_nothing};
    cfx_op_do(&nothing, cfx_ones(1));
    CHECK_ERROR("mine.nothing.default: no result fits these arguments");
    cfx_op_do(cfx_op_find("norm_except_dim"), cfx_ones(cfx_list_value(0, NULL)), 2, 0);
    CHECK_ERROR("Dimension specified as 0 but tensor has no dimensions");
}

TEST(bad_objects_pass_through_and_the_first_error_stays) {
    cfx_tensor *x = floats(2, (float[]){1, 2});
    int line = __LINE__ + 1;
    cfx_tensor *bad = cfx_add(x, floats(3, (float[]){1, 2, 3}));
    bad = cfx_relu(cfx_mul(bad, 2));
    const cfx_error *e = cfx_error_last();
    CHECK(e && e->at.line == line);
    CHECK(e && strstr(e->at.file, "dispatch_test.c"));
    CHECK(e && !strcmp(e->op, "aten.add.Tensor"));
    CHECK_ERROR("The size of tensor a (2) must match the size of tensor b (3) at non-singleton "
                "dimension 0");
    CHECK(bad != NULL);
}

TEST(fake_tensors_give_shapes_without_data) {
    cfx_tensor *x = cfx_tensor_fake(CFX_BF16, 2, (int64_t[]){1000000, 1000000}, NULL);
    cfx_tensor *y = cfx_relu(cfx_add(x, 1));
    CHECK(cfx_tensor_is_fake(y));
    CHECK_INT(cfx_dim(y, 0), 1000000);
    CHECK_INT(cfx_tensor_dtype(y), CFX_BF16);
    cfx_relu_(x);
    CHECK_OK();
}

/* ---- modes ----------------------------------------------------------------------------------- */

typedef struct {
    char seen[256];
} record;

static cfx_value note(cfx_mode *self, cfx_target t, cfx_args a) {
    record *r = self->user;
    strncat(r->seen, t.name, sizeof r->seen - strlen(r->seen) - 2);
    strcat(r->seen, " ");
    return cfx_mode_forward(self, t, a);
}

static cfx_value relu_becomes_exp(cfx_mode *self, cfx_target t, cfx_args a) {
    if (t.op == &cfx_op_relu)
        t = (cfx_target){.op = &cfx_op_exp};
    return cfx_mode_forward(self, t, a);
}

TEST(function_modes_see_what_the_user_called_and_dispatch_modes_overloads) {
    cfx_tensor *x = floats(2, (float[]){1, -2});
    record calls = {""}, ops = {""};
    cfx_mode outer = {.handle = note, .user = &calls}, inner = {.handle = note, .user = &ops};
    cfx_function_mode_push(&outer);
    cfx_dispatch_mode_push(&inner);
    cfx_add(cfx_relu(x), 1);
    cfx_dispatch_mode_pop();
    cfx_function_mode_pop();
    cfx_relu(x);
    CHECK_STR(calls.seen, "torch.relu torch.add ");
    CHECK_STR(ops.seen, "aten.relu.default aten.add.Tensor ");
}

TEST(modes_nest_innermost_first_and_may_replace_a_call) {
    cfx_tensor *x = floats(1, (float[]){0});
    record ops = {""};
    cfx_mode below = {.handle = note, .user = &ops}, swap = {.handle = relu_becomes_exp};
    cfx_dispatch_mode_push(&below);
    cfx_dispatch_mode_push(&swap);
    cfx_tensor *y = cfx_relu(x);
    cfx_dispatch_mode_pop();
    cfx_dispatch_mode_pop();
    CHECK_STR(cfx_str(y), "tensor([1.])");
    CHECK_STR(ops.seen, "aten.exp.default ");
}

/* ---- operators of the user's ----------------------------------------------------------------- */

static void twice_shape(cfx_op_call *c) {
    cfx_tensor *x = cfx_as_tensor(c->args[0]);
    c->out[0] = cfx__tensor_empty(c->at, x->dtype, c->fake, x->ndim, x->shape, NULL);
}

static void twice_kernel(cfx_op_call *c) {
    const float *x = cfx_tensor_data(cfx_as_tensor(c->args[0]));
    float *out = cfx_tensor_data(c->out[0]);
    for (int64_t i = 0; i < cfx_tensor_numel(c->out[0]); i++)
        out[i] = 2 * x[i];
}

static void plus_decompose(cfx_op_call *c) {
    c->out[0] = cfx_add(cfx_relu(cfx_as_tensor(c->args[0])), c->args[1]);
}

TEST(an_operator_of_the_users_is_like_any_other) {
    static cfx_op twice = {.schema = "mine::twice(Tensor x) -> Tensor",
                           .torch_ = "mine.twice",
                           .shape = twice_shape,
                           .kernel = twice_kernel,
                           .dtypes = CFX_IN(F32),
                           .effects = CFX_CONTIGUOUS_ARGS};
    static cfx_op plus = {.schema = "mine::relu_plus(Tensor x, Scalar y=1) -> Tensor",
                          .decompose = plus_decompose};
    CHECK(cfx_op_register(&twice));
    CHECK(cfx_op_register(&plus));
    CHECK(cfx_op_find("mine.twice.default") == &twice);
    cfx_tensor *x = cfx_tensor_new(CFX_BF16, 1, (int64_t[]){2}, (uint16_t[]){0x3f80, 0xbf80});
    CHECK_STR(cfx_str(cfx_py("mine.twice", x)), "tensor([ 2., -2.], dtype=torch.bfloat16)");
    CHECK_STR(cfx_str(cfx_op_do(&plus, x)), "tensor([2., 1.], dtype=torch.bfloat16)");
    cfx_op_do(&plus, cfx_tensor_fake(CFX_F32, 1, (int64_t[]){5}, NULL));
    CHECK_OK();
    CHECK(!cfx_op_register(&twice));
    CHECK_ERROR("operator mine::twice.default is registered already");
    static cfx_op broken = {.schema = "mine::broken(Tensor"};
    CHECK(!cfx_op_register(&broken));
    cfx_error_clear();
}

TEST(a_name_is_free_again_once_its_operator_is_unregistered) {
    static cfx_op first = {.schema = "again::f(Tensor x, Scalar y=1) -> Tensor",
                           .torch_ = "again.f",
                           .decompose = plus_decompose};
    static cfx_op other = {.schema = "again::f.str(Tensor x, str y) -> Tensor",
                           .torch_ = "again.f",
                           .decompose = plus_decompose};
    static cfx_op second = {.schema = "again::f(Tensor x) -> Tensor",
                            .torch_ = "again.f",
                            .shape = twice_shape,
                            .kernel = twice_kernel,
                            .dtypes = CFX_IN(F32),
                            .effects = CFX_CONTIGUOUS_ARGS};
    cfx_tensor *x = cfx_ones(2);
    CHECK(cfx_op_register(&first) && cfx_op_register(&other));
    CHECK(cfx_op_unregister(&first));
    CHECK(!cfx_op_find("again.f.default") && cfx_op_find("again.f.str") == &other);
    CHECK_INT(cfx_fn_find("again.f")->n, 1);
    CHECK_STR(cfx_str(cfx_op_do(&first, x)), "tensor([2., 2.])"); /* who has it goes on */
    CHECK(!cfx_op_unregister(&first));
    CHECK_ERROR("operator again::f.default is not registered");
    CHECK(cfx_op_unregister(&other) && !cfx_fn_find("again.f"));
    CHECK(cfx_op_register(&second));
    CHECK_STR(cfx_str(cfx_py("again.f", x)), "tensor([2., 2.])");
    CHECK(cfx_op_unregister(&second) && !cfx_fn_find("again::f"));
    CHECK_OK();
}

TEST(names_are_found_in_their_own_namespace) {
    CHECK(cfx_op_find("aten::relu") && cfx_op_find("aten.relu.default"));
    CHECK(!cfx_op_find("prims::relu") && !cfx_op_find("prims.relu.default"));
    CHECK(cfx_op_find("python::relu") != cfx_op_find("relu"));
    CHECK(cfx_op_find("getitem") == cfx_op_find("python::getitem"));
    CHECK(cfx_fn_find("python.relu") != cfx_fn_find("aten::relu"));
    CHECK(cfx_fn_find("python::relu") == cfx_fn_find("python.relu"));
    for (int i = 0; i < cfx_op_count(); i++) { /* what is printed is found */
        const char *name = cfx_op_name(cfx_op_at(i));
        CHECK_STR(cfx_op_find(name) == cfx_op_at(i) ? name : "another", name);
    }
}

TEST(overloads_of_one_name_that_are_registered_are_one_function) {
    static cfx_op scale = {.schema = "pair::scale(Tensor x, Scalar y) -> Tensor",
                           .torch_ = "pair.scale",
                           .decompose = plus_decompose,
                           .inplace = "default"};
    static cfx_op by = {.schema = "pair::scale.str(Tensor x, str y) -> Tensor",
                        .torch_ = "pair.scale",
                        .decompose = plus_decompose};
    CHECK(cfx_op_register(&scale) && cfx_op_register(&by));
    CHECK_INT(cfx_fn_find("pair::scale")->n, 2);
    CHECK_INT(cfx_fn_find("pair.scale")->n, 2);
    CHECK(cfx_op_find("pair.scale.str") == &by && !cfx_op_find("scale"));
    CHECK_STR(cfx_op_find("pair::scale_")->schema,
              "pair::scale_(Tensor(a!) x, Scalar y) -> Tensor(a!)");
}

/* Whether a form is what its name finds. */
static bool is_found(cfx_op *form) { return !form || cfx_op_find(cfx_op_name(form)) == form; }

/* std.out is std.dim's: std.default would be saved under that name and read as another operator. */
TEST(a_derived_form_is_found_by_its_name) {
    for (int i = 0; i < cfx_op_count(); i++) {
        cfx_op *op = cfx_op_at(i);
        CHECK(is_found(cfx__op_out(op)) && is_found(cfx__op_inplace(op)));
        cfx_error_clear(); /* those without one */
    }
    CHECK(!cfx__op_out(cfx_op_find("std.default")) && !cfx__op_out(cfx_op_find("var.default")));
    CHECK_STR(cfx_op_name(cfx__op_out(cfx_op_find("std.dim"))), "aten.std.out");
    cfx_tensor *x = floats(4, (float[]){1, 2, 3, 4}), *to = floats(1, (float[]){0});
    cfx_py("torch.std", x, CFX_KW(out, to));
    CHECK_STR(cfx_str(to), "tensor(1.2910)");
    cfx_py("torch.std", x, 0, CFX_KW(unbiased, false), CFX_KW(out, to));
    CHECK_STR(cfx_str(to), "tensor(1.1180)");
}

TEST(derived_forms_are_called_as_pytorch_calls_them) {
    static const char *const names[] = {
        "aten.pow_.Scalar",          "aten.pow_.Tensor",   "aten.transpose_.default",
        "aten.floor_divide_.Tensor", "aten.add.out",       "aten.sum.IntList_out",
        "aten.mean.dtype_out",       "aten.max.unary_out", "aten.relu.out",
        "aten.add.Scalar_out",       "aten.sort.values",   "aten.gelu_backward.grad_input",
        "aten.svd.U",                "aten.ldexp_.default", "aten.hardswish_backward.out"};
    for (int i = 0; i < COUNT(names); i++) {
        cfx_op *op = cfx_op_find(names[i]);
        CHECK_STR(op ? cfx_op_name(op) : "none", names[i]);
    }
    CHECK(!cfx_op_find("pow_.Tensor_Scalar") && !cfx_op_find("sum.dim_IntList_out"));
    CHECK(!cfx_op_find("max.dim_out") && !cfx_op_find("gelu_backward.out"));
    CHECK(!cfx_op_find("__xor__.Scalar_out") && !cfx_op_find("isfinite.out"));
    CHECK(!cfx_op_find("contiguous.out") && !cfx_op_find("view.out")); /* may be the argument */
    CHECK_STR(cfx_op_find("max.dim_max")->schema,
              "aten::max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, "
              "Tensor(b!) max_values) -> (Tensor(a!) values, Tensor(b!) indices)");
    CHECK_STR(cfx_op_find("dropout_")->schema,
              "aten::dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)");
    cfx_tensor *most = floats(0, NULL), *places = cfx_to(floats(0, NULL), cfx_i64);
    cfx_op_do(cfx_op_find("max.dim_max"), floats(2, (float[]){2, 3}), 0, CFX_KW(max, most),
              CFX_KW(max_values, places));
    CHECK_STR(cfx_str(cfx_tuple(most, places)), "(tensor(3.), tensor(1))");
    CHECK_STR(cfx_op_find("pow_.Scalar")->schema,
              "aten::pow_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)");
    cfx_tensor *x = floats(2, (float[]){2, 3});
    CHECK_STR(cfx_str(cfx_op_do(cfx_op_find("pow_.Scalar"), x, 2)), "tensor([4., 9.])");
    CHECK_STR(cfx_str(x), "tensor([4., 9.])");
}

/* ---- ownership ------------------------------------------------------------------------------- */

TEST(a_call_leaves_nothing_but_its_result_on_the_scope) {
    cfx_tensor *x = floats(2, (float[]){1, 2});
    size_t before = cfx_scope_open();
    cfx_add(x, 2.5);
    CHECK_INT(cfx_scope_open() - before, 1);
    cfx_value alpha = CFX_KW(alpha, 3);
    before = cfx_scope_open();
    cfx_op_do(cfx_op_find("add.Tensor"), x, x, alpha);
    CHECK_INT(cfx_scope_open() - before, 1);
}

static void *one_thread(void *unused) {
    (void)unused;
    for (int i = 0; i < 500; i++)
        CFX_SCOPE
    cfx_relu(cfx_add(floats(3, (float[]){1, 2, 3}), -2));
    return cfx_ok() ? NULL : (void *)"failed";
}

TEST(threads_have_contexts_of_their_own) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, one_thread, NULL);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(t[i], &failed);
        CHECK(!failed);
    }
}

TEST(overloads_are_called_by_name) {
    CHECK_STR(cfx_str(cfx_py("torch.ops.aten.add.Tensor", cfx_ones(2), 1)), "tensor([2., 2.])");
    CHECK_STR(cfx_str(cfx_py("aten.mul.Tensor", cfx_ones(2), 3)), "tensor([3., 3.])");
    CHECK_OK();
    CHECK(cfx_is_bad(cfx_py("torch.ops.aten.add.Nothing", cfx_ones(2), 1)));
    CHECK_ERROR("no operator is called 'torch.ops.aten.add.Nothing'");
}
