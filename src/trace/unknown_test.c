/* Sizes and numbers that are data, in exported programs. The texts are torch.export's. */
#include "exported_test.h"

/* ---- numbers --------------------------------------------------------------------------------- */

static cfx_value adding(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value k = cfx_item(a.v[1]);
    return cfx_tuple(cfx_add(a.v[0], k), cfx_py("operator.mul", k, 2));
}

TEST(export_an_item_of_a_tensor) {
    cfx_module *m = cfx_module_new("Add", adding, "x, n");
    cfx_program *p = EXPORT(m, cfx_ones(3), cfx_tensor_from_value(cfx_int(3)));
    if (!CHECK_OK())
        return;
    CHECK_STR(code_of(p, ""), "def forward(self, x, n):\n"
                              "    item = torch.ops.aten.item.default(n);  n = None\n"
                              "    add = torch.ops.aten.add.Tensor(x, item);  x = None\n"
                              "    mul = item * 2;  item = None\n"
                              "    return (add, mul)\n    ");
    CHECK(strstr(cfx_program_str(p), "Range constraints: {u0: VR[-int_oo, int_oo]}"));
    CHECK(strstr(code_of(cfx_decompose(p, CFX_NONE), ""),
                 "_local_scalar_dense = torch.ops.aten._local_scalar_dense.default(n)"));
    for (int n = -2; n < 5; n += 3)
        check_runs(m, p, cfx_tuple(cfx_ones(3), cfx_tensor_from_value(cfx_int(n))));
}

static cfx_value making(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value k = cfx_item(a.v[0]);
    return cfx_tuple(cfx_zeros(cfx_list(k, 2)), cfx_arange(k),
                     cfx_mul(cfx_expand(cfx_ones(1, 3, 4), cfx_list(k, 3, 4)), 2));
}

static cfx_value deciding(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_as_int(cfx_item(a.v[0])) > 0 ? cfx_ones(2) : cfx_zeros(2));
}

TEST(an_item_may_be_a_size_but_decides_nothing) {
    cfx_module *m = cfx_module_new("Make", making, "n");
    cfx_program *p = EXPORT(m, cfx_tensor_from_value(cfx_int(3)));
    CHECK(strstr(cfx_program_str(p), "zeros: \"f32[u0, 2]\" = torch.ops.aten.zeros.default([item"));
    for (int n = 0; n < 3; n++)
        check_runs(m, p, cfx_tuple(cfx_tensor_from_value(cfx_int(n))));
    CHECK(cfx_failed(EXPORT(cfx_module_new("Decide", deciding, "n"),
                            cfx_tensor_from_value(cfx_int(3)))));
    CHECK_ERROR("Could not extract specialized integer from data-dependent expression u0 "
                "(unhinted: u0).  (Size-like symbols: none)");
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Parts of the rows that begin with a positive number, and how many there are. */
static cfx_value picking(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_tensor *y = cfx_index(a.v[0], cfx_list(cfx_gt(cfx_select(a.v[0], 1, 0), 0)));
    cfx_tensor *rest = cfx_slice(y, 0, 1), *three = cfx_slice(y, 0, 0, 3);
    cfx_tensor *last = cfx_slice(y, 0, -2), *odd = cfx_slice(y, 0, 0, INT64_MAX, 2);
    return cfx_tuple(rest, three, last, odd, cfx_size(rest, 0), cfx_size(three, 0),
                     cfx_size(last, 0), cfx_size(odd, 0));
}

TEST(parts_of_sizes_that_depend_on_data_may_be_empty) {
    cfx_module *m = cfx_module_new("Pick", picking, "x");
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_ones(6, 2)), CFX_NONE, batch_of("x"));
    if (!CHECK_OK())
        return;
    for (int n = 0; n < 6; n++) { /* rows that are picked */
        cfx_tensor *x = cfx_sub(n + 0.5, cfx_expand(cfx_unsqueeze(cfx_arange(7), 1),
                                                    cfx_list(7, 2)));
        check_runs(m, p, cfx_tuple(x));
    }
}

static cfx_value counting(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_mul(cfx_bincount(a.v[0], CFX_NONE, 3), 2));
}

TEST(export_bincount) {
    cfx_module *m = cfx_module_new("Count", counting, "x");
    cfx_program *p =
        cfx_export(m, cfx_tuple(cfx_randint(5, cfx_list(6))), CFX_NONE, batch_of("x"));
    if (!CHECK_OK())
        return;
    CHECK_STR(code_of(p, ""),
              "def forward(self, x):\n"
              "    bincount = torch.ops.aten.bincount.default(x, None, 3);  x = None\n"
              "    sym_size_int_1 = torch.ops.aten.sym_size.int(bincount, 0)\n"
              "    ge = sym_size_int_1 >= 3;  sym_size_int_1 = None\n"
              "    _assert_scalar_default = torch.ops.aten._assert_scalar.default(ge, \"Runtime "
              "assertion failed for expression u0 >= 3 on node 'ge'\");  ge = "
              "_assert_scalar_default = None\n"
              "    mul = torch.ops.aten.mul.Tensor(bincount, 2);  bincount = None\n"
              "    return (mul,)\n    ");
    CHECK(strstr(cfx_program_str(p), "Range constraints: {u0: VR[3, int_oo], s77: VR[0, int_oo]}"));
    for (int n = 1; n < 9; n += 3)
        check_runs(m, p, cfx_tuple(cfx_randint(n, cfx_list(n))));
}

static cfx_value scaling(cfx_module *self, cfx_args a) {
    (void)self;
    double n = (double)cfx_dim(cfx_as_tensor(a.v[0]), 0);
    cfx_tensor *y = cfx_upsample_bilinear2d(a.v[0], CFX_NONE, false, cfx_list(1.7, 2.0));
    return cfx_tensor_value(cfx_mul(y, 1 / __builtin_sqrt(n)));
}

TEST(export_finds_fractions_and_roots_of_sizes) {
    cfx_module *m = cfx_module_new("Scale", scaling, "x");
    cfx_value dims = batch_of("x");
    cfx_dict_put(cfx_as_dict(cfx_dict_get(cfx_as_dict(dims), "x")), cfx_int(2),
                 cfx_string_value("time"));
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_randn(4, 2, 6, 3)), CFX_NONE, dims);
    if (!CHECK_OK())
        return;
    CHECK(strstr(code_of(p, ""), "truediv = 1 / pow_1"));
    for (int n = 2; n < 30; n += 9)
        check_runs(m, p, cfx_tuple(cfx_randn(n, 2, n + 3, 3)));
}
