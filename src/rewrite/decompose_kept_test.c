/* Core ATen: what stays whole, and what numbers are computed in. */
#include "decompose_test.h"

/* The rows of combinations are a constant, for which a program has no input. */
TEST(what_is_made_of_a_constant_stays_whole) {
    cfx_program *p = cfx_program_parse(
        "def forward(self, x: \"f32[3]\"):\n"
        "    y = torch.ops.aten.combinations.default(x)\n"
        "    z = torch.ops.aten.silu.default(y)\n"
        "    return (z, y)\n", "m.fx");
    cfx_program *core = cfx_decompose(p, CFX_NONE);
    CHECK_OK();
    HAS(cfx_graph_str(core->module->graph), "aten.combinations.default");
    HAS(cfx_graph_str(core->module->graph), "aten.sigmoid.default");
    cfx_value y = cfx_at(cfx_program_run(core, cfx_arange(3.0)), 1);
    CHECK_STR(cfx_str(y), "tensor([[0., 1.],\n        [0., 2.],\n        [1., 2.]])");
}

/* An integer takes the precision of a float64 of no dimensions. */
TEST(decompositions_compute_in_the_promoted_dtype) {
    cfx_program *p = cfx_program_parse(
        "def forward(self, x: \"i64[1]\", y: \"f64[]\"):\n"
        "    a = torch.ops.aten.xlogy.Tensor(x, y)\n"
        "    b = torch.ops.aten.special_xlog1py.default(x, y)\n"
        "    return (a, b)\n", "m.fx");
    cfx_tensor *x = cfx_full(cfx_list(1), 3, CFX_KW(dtype, cfx_i64));
    cfx_tensor *y = cfx_full(cfx_list(), 0.7, CFX_KW(dtype, cfx_f64));
    cfx_value want = cfx_program_run(p, x, y);
    cfx_value got = cfx_program_run(cfx_decompose(p, CFX_NONE), x, y);
    CHECK_OK();
    for (int i = 0; i < 2; i++)
        CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(got, i), 0),
                   cfx_tensor_get(cfx_tensor_at(want, i), 0), 1e-14);
}

/* Running statistics that a composite updates unmarked are results of a functional program. */
TEST(what_writes_unmarked_is_never_kept_whole) {
    cfx_program *p = program_of(TRAINING);
    HAS(cfx_module_code(cfx_program_functionalize(p)->module),
        "return (getitem_3, getitem_4, add, getitem_5)");
    cfx_program *d = cfx_decompose(p, cfx_list(cfx_string_value("batch_norm"),
                                               cfx_string_value("dropout")));
    HAS(cfx_module_code(d->module), "return (getitem_3, getitem_4, add, getitem_5)");
    CHECK_OK();
}

/* A diagonal begins where its tensor does, which may lie anywhere in a storage. */
TEST(fill_diagonal_of_what_lies_in_a_storage_decomposes) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[4, 2]\"):\n"
             "        y = torch.ops.aten.fill_diagonal_.default(x, 7, True)\n"
             "        return (y,)\n");
    for (int way = 0; way < 2; way++) {
        cfx_tensor *x = cfx_reshape(cfx_narrow(cfx_arange(20.0), 0, 5, 8), cfx_list(4, 2));
        cfx_program_run(way ? cfx_decompose(p, CFX_NONE) : p, x);
        CHECK_STR(cfx_str(x), "tensor([[ 7.,  6.],\n        [ 7.,  7.],\n        [ 9., 10.],\n"
                              "        [ 7., 12.]])");
    }
    CHECK_OK();
}

/* What indexing makes of x lies as x does, and what upsample makes of it is contiguous: its reshape
 * is a view that is written through. */
TEST(what_is_written_through_a_view_lies_as_before_it_was_decomposed) {
    const char *code = HEAD
        "    def forward(self, x: \"f32[1, 2, 2]\"):\n"
        "        up: \"f32[1, 2, 2]\" = torch.ops.aten.upsample_nearest1d.vec(x, [2], None)\n"
        "        row: \"f32[4]\" = torch.ops.aten.reshape.default(up, [4])\n"
        "        neg_: \"f32[4]\" = torch.ops.aten.neg_.default(row)\n"
        "        return (up,)\n";
    cfx_tensor *x = cfx_transpose(cfx_reshape(cfx_arange(4.0), cfx_list(1, 2, 2)), 1, 2);
    cfx_program *p = cfx_export(cfx_module_parse(code, "up"), cfx_tuple(x), CFX_NONE, CFX_NONE);
    CHECK_OK();
    for (int way = 0; way < 2; way++)
        CHECK_STR(cfx_str(cfx_program_run(way ? cfx_decompose(p, CFX_NONE) : p, x)),
                  "(tensor([[[-0., -2.],\n         [-1., -3.]]]),)");
    CHECK_OK();
}
