/* Operators of the caller's that write, in programs without writes: auto_functionalized_v2. */
#include "test.h"

#include <cfx/ops.h>

#include "files.h"
#include "rewrite.h"

static void bump(cfx_op_call *c) { cfx_add_(c->args[1], cfx_mul(c->args[0], c->args[2])); }

static void twice(cfx_op_call *c) {
    cfx_mul_(c->args[0], 2);
    for (int64_t i = 0; i < cfx_len(c->args[1]); i++)
        cfx_add_(cfx_at(c->args[1], i), c->args[0]);
    if (!cfx_is_none(c->args[2]))
        cfx_zero_(c->args[2]);
    cfx_copy_(c->out[0], cfx_add(c->args[0], 1));
}

static void gives_view(cfx_op_call *c) { c->out[0] = cfx_relu_(c->args[0]); }

static void twice_shape(cfx_op_call *c) { c->out[0] = cfx_empty_like(c->args[0]); }

static cfx_op op_bump = {"autolib::bump(Tensor x, Tensor(a!) y, float k=1.0) -> ()",
                         .kernel = bump};
static cfx_op op_twice = {"autolib::twice(Tensor(a!) x, Tensor(b!)[] ys, Tensor(c!)? z) -> Tensor",
                          .shape = twice_shape, .kernel = twice};
static cfx_op op_gives_view = {"autolib::gives_view(Tensor(a!) x) -> Tensor(a!)",
                               .kernel = gives_view};

static void register_ops(void) {
    cfx_op_register(&op_bump);
    cfx_op_register(&op_twice);
    cfx_op_register(&op_gives_view);
}

static cfx_value at(cfx_tensor *t, cfx_value i) { return cfx_py("operator.getitem", t, i); }

static cfx_value from(int64_t start) {
    return cfx_slice_value(cfx_int(start), CFX_NONE, CFX_NONE);
}

static cfx_value written_by_views(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_tensor *x = cfx_as_tensor(a.v[0]), *t = cfx_zeros(4, 3);
    cfx_op_do(&op_bump, x, at(t, from(1)), 2.0);
    cfx_op_do(&op_bump, x, cfx_select(t, 1, 2));
    cfx_op_do(&op_bump, x, cfx_view(t, 12));
    return cfx_tensor_value(t);
}

TEST(operators_that_write_become_values) {
    register_ops();
    cfx_module *m = cfx_module_new_n("Views", written_by_views, "x");
    cfx_value x = cfx_tuple(cfx_ones(1));
    cfx_program *p = cfx_program_functionalize(cfx_export(m, x, CFX_NONE, CFX_NONE));
    CHECK_STR(cfx_module_code(p->module),
              "\n\n\ndef forward(self, x):\n"
              "    zeros = torch.ops.aten.zeros.default([4, 3], device = device(type='cpu'), "
              "pin_memory = False)\n"
              "    auto_functionalized_v2 = torch.ops.higher_order.auto_functionalized_v2("
              "torch.ops.autolib.bump.default, x = x, k = 2.0, _y_base_index = 0, "
              "_y_slice_dim = 0, _y_slice_start = 1, _y_slice_end = 4, _all_bases = [zeros]);  "
              "zeros = None\n"
              "    getitem_1 = auto_functionalized_v2[1];  auto_functionalized_v2 = None\n"
              "    auto_functionalized_v2_1 = torch.ops.higher_order.auto_functionalized_v2("
              "torch.ops.autolib.bump.default, x = x, k = 1.0, _y_base_index = 0, _y_size = [4], "
              "_y_stride = [3], _y_storage_offset = 2, _all_bases = [getitem_1]);  "
              "getitem_1 = None\n"
              "    getitem_3 = auto_functionalized_v2_1[1];  auto_functionalized_v2_1 = None\n"
              "    auto_functionalized_v2_2 = torch.ops.higher_order.auto_functionalized_v2("
              "torch.ops.autolib.bump.default, x = x, k = 1.0, _y_base_index = 0, _y_size = [12], "
              "_y_stride = [1], _y_storage_offset = 0, _all_bases = [getitem_3]);  "
              "x = getitem_3 = None\n"
              "    getitem_5 = auto_functionalized_v2_2[1];  auto_functionalized_v2_2 = None\n"
              "    return (getitem_5,)\n    ");
    CHECK_STR(cfx_str(cfx_program_run(p, cfx_ones(1))),
              "tensor([[1., 1., 2.],\n        [3., 3., 4.],\n        [3., 3., 4.],\n"
              "        [3., 3., 4.]])");
    CHECK_STR(cfx_str(cfx_program_run(p, cfx_ones(1))), cfx_str(cfx_forward_value(m, cfx_ones(1))));
    CHECK_OK();
}

static cfx_value lists(cfx_module *self, cfx_args a) {
    cfx_tensor *x = cfx_clone(a.v[0]), *t = cfx_zeros(2, 3), *b = cfx_attr(self, "b");
    cfx_value r = cfx_op_do(&op_twice, x, cfx_list(b, at(t, cfx_int(0))), a.v[1]);
    cfx_op_do(&op_bump, x, b);
    return cfx_tuple(r, x, t, cfx_add(a.v[1], b));
}

/* Each way of running it, and what is written afterwards. */
TEST(what_they_write_is_written_whichever_way_they_run) {
    register_ops();
    cfx_module *m = cfx_module_new_n("Lists", lists, "x, y");
    cfx_nn_buffer(m, "b", cfx_zeros(3), true);
    cfx_value args = cfx_tuple(cfx_ones(3), cfx_ones(3));
    cfx_program *p = cfx_export(m, args, CFX_NONE, CFX_NONE), *core = cfx_decompose(p, CFX_NONE);
    CHECK_OK();
    cfx_program *ways[6] = {p, cfx_program_functionalize(p), core};
    const char *names[] = {"auto.pt2", "auto.fx", "auto.safetensors"};
    CHECK(cfx_save(core, test_path(names[0])) && cfx_save(core, test_path(names[1])));
    ways[3] = cfx_open(test_path(names[0]));
    ways[4] = cfx_open(test_path(names[1]));
    ways[5] = cfx_decompose(ways[3], CFX_NONE);
    for (int i = 0; i < 3; i++)
        test_unlink(names[i]);
    test_folder_done();
    cfx_tensor *x = cfx_full(cfx_list(3), 5.0), *y = cfx_full(cfx_list(3), 7.0);
    const char *want = cfx_repr(cfx_forward_value(m, x, y));
    CHECK_STR(cfx_str(y), "tensor([0., 0., 0.])");
    for (int i = 0; i < COUNT(ways) && CHECK_OK(); i++) {
        cfx_program *own = cfx_program_copy(ways[i]);
        cfx_dict_set(own->state, "b", cfx_tensor_value(cfx_zeros(3)));
        y = cfx_full(cfx_list(3), 7.0);
        CHECK_STR(cfx_repr(cfx_program_run(own, x, y)), want);
        CHECK_STR(cfx_str(y), "tensor([0., 0., 0.])");
        CHECK_STR(cfx_str(x), "tensor([5., 5., 5.])");
        CHECK_STR(cfx_str(cfx_dict_get(own->state, "b")), "tensor([20., 20., 20.])");
        const cfx_executor *before = cfx_set_executor(&cfx_interpreter);
        cfx_dict_set(own->state, "b", cfx_tensor_value(cfx_zeros(3)));
        y = cfx_full(cfx_list(3), 7.0);
        CHECK_STR(cfx_repr(cfx_program_run(own, x, y)), want);
        cfx_set_executor(before);
    }
}

static cfx_value sized(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_tensor *y = cfx_clone(a.v[0]);
    cfx_op_do(&op_bump, cfx_ones(1), at(y, from(1)));
    cfx_op_do(&op_bump, cfx_ones(1), cfx_transpose(y, 0, 1), 3.0);
    return cfx_tensor_value(cfx_relu(y));
}

TEST(sizes_of_what_they_write_may_vary) {
    register_ops();
    cfx_module *m = cfx_module_new_n("Sized", sized, "x");
    cfx_dict *dims = cfx_dict_new(), *dynamic = cfx_dict_new();
    cfx_dict_put(dims, cfx_int(0), cfx_string_value("batch"));
    cfx_dict_set(dynamic, "x", cfx_dict_value(dims));
    cfx_program *p =
        cfx_export(m, cfx_tuple(cfx_ones(4, 2)), CFX_NONE, cfx_dict_value(dynamic));
    cfx_program *core = cfx_decompose(p, CFX_NONE);
    CHECK_OK();
    cfx_tensor *x = cfx_randn(7, 2);
    CHECK_STR(cfx_str(cfx_program_run(core, x)), cfx_str(cfx_forward_value(m, x)));
    CHECK_OK();
}

static cfx_value calls_view(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_op_do(&op_gives_view, a.v[0]);
}

TEST(what_no_value_can_stand_for_is_refused) {
    register_ops();
    cfx_module *m = cfx_module_new_n("View", calls_view, "x");
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_ones(2)), CFX_NONE, CFX_NONE);
    if (cfx_ok())
        cfx_decompose(p, CFX_NONE);
    CHECK_ERROR("autolib.gives_view");
    static const char *const bad[][2] = {
        {"torch.ops.autolib.bump.default, x = x, k = 1.0, _y_base_index = 1, _all_bases = [x]",
         "_y_base_index is 1, and there are 1 bases"},
        {"torch.ops.autolib.bump.default, x = x, k = 1.0, _y_base_index = 0",
         "auto_functionalized_v2 has no _all_bases"},
        {"'torch.ops.autolib.nothing.default', _all_bases = [x]",
         "the operator torch.ops.autolib.nothing.default that auto_functionalized runs is not "
         "registered"},
        {"torch.ops.autolib.bump.default, x = x, _y_base_index = 0, _y_size = [9], _y_stride = [1],"
         " _y_storage_offset = 0, _all_bases = [x]",
         "out of bounds for storage"}};
    for (int i = 0; i < COUNT(bad); i++) {
        cfx_module *gm = cfx_module_parse(
            cfx__text_format("def forward(self, x):\n"
                             "    v = torch.ops.higher_order.auto_functionalized_v2(%s)\n"
                             "    return v\n",
                             bad[i][0]),
            "text");
        CHECK_OK();
        cfx_forward_value(gm, cfx_ones(2));
        CHECK_ERROR(bad[i][1]);
    }
}

TEST(the_older_form_runs_too) {
    register_ops();
    cfx_module *gm = cfx_module_parse(
        "def forward(self, x, y):\n"
        "    v = torch.ops.higher_order.auto_functionalized(torch.ops.autolib.bump.default, x = x, "
        "y = y, k = 2.0);  x = y = None\n"
        "    return v\n",
        "text");
    cfx_tensor *y = cfx_ones(2);
    CHECK_STR(cfx_repr(cfx_forward_value(gm, cfx_ones(2), y)), "(None, tensor([3., 3.]))");
    CHECK_STR(cfx_str(y), "tensor([1., 1.])");
    CHECK_OK();
}
