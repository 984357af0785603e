/* Grad modes and autocast in a forward: traced, exported, and run in the same modes. The texts are
 * torch.export's. */
#include "ways_test.h"

static cfx_module *with_layer(cfx_forward_fn *forward) {
    cfx_module *m = cfx_module_new("Modes", forward, "x");
    cfx_nn_add(m, "l", cfx_nn_linear(4, 4));
    cfx_module_requires_grad(m, true);
    return m;
}

static cfx_value rows(int k) {
    cfx_manual_seed(5);
    return cfx_tuple(cfx_mul(cfx_rand(3, 4), k % 2 ? -1 : 1));
}

/* ---- grad modes ------------------------------------------------------------------------------ */

static cfx_value partly(cfx_module *self, cfx_args a) {
    cfx_tensor *y = cfx_mul(a.v[0], 2);
    cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_tensor *z = cfx_call(self, "l", y), *w = cfx_sin(z);
    cfx_set_grad_mode(before);
    return cfx_tuple(cfx_add(w, y), z);
}

static cfx_module *new_partly(void) { return with_layer(partly); }

TEST(grad_modes_are_nodes_of_a_traced_graph) {
    cfx_module *m = new_partly(), *gm = cfx_symbolic_trace(m);
    CHECK_STR(cfx_module_code(gm),
              "\n\n\ndef forward(self, x):\n"
              "    mul = torch.mul(x, 2);  x = None\n"
              "    _set_grad_enabled = torch._C._set_grad_enabled(False);  _set_grad_enabled = "
              "None\n"
              "    l = self.l(mul)\n"
              "    sin = torch.sin(l)\n"
              "    _set_grad_enabled_1 = torch._C._set_grad_enabled(True);  _set_grad_enabled_1 = "
              "None\n"
              "    add = torch.add(sin, mul);  sin = mul = None\n"
              "    return (add, l)\n    ");
    cfx_graph_eliminate_dead_code(gm->graph);
    CHECK(cfx_graph_find(gm->graph, "_set_grad_enabled_1") != NULL);
    CHECK_INT(cfx_get_grad_mode(), CFX_GRAD_ON);
}

TEST(export_makes_graphs_of_grad_modes) {
    cfx_program *p = EXPORT(new_partly(), cfx_at(rows(0), 0));
    CHECK_STR(code_of(p, ""),
              "def forward(self, p_l_weight, p_l_bias, x):\n"
              "    mul = torch.ops.aten.mul.Tensor(x, 2);  x = None\n"
              "    submod_3 = self.submod_1\n"
              "    wrap_with_set_grad_enabled = torch.ops.higher_order.wrap_with_set_grad_enabled("
              "False, submod_3, mul, p_l_weight, p_l_bias);  submod_3 = p_l_weight = p_l_bias = "
              "None\n"
              "    sin = wrap_with_set_grad_enabled[0]\n"
              "    linear = wrap_with_set_grad_enabled[1];  wrap_with_set_grad_enabled = None\n"
              "    add = torch.ops.aten.add.Tensor(sin, mul);  sin = mul = None\n"
              "    return (add, linear)\n    ");
    CHECK_STR(code_of(p, "submod_1"),
              "def forward(self, mul, p_l_weight, p_l_bias):\n"
              "    linear = torch.ops.aten.linear.default(mul, p_l_weight, p_l_bias);  mul = "
              "p_l_weight = p_l_bias = None\n"
              "    sin = torch.ops.aten.sin.default(linear)\n"
              "    return (sin, linear)\n    ");
    CHECK_STR(cfx_program_signature_str(p),
              "\n# inputs\np_l_weight: PARAMETER target='l.weight'\np_l_bias: PARAMETER "
              "target='l.bias'\nx: USER_INPUT\n\n# outputs\nadd: USER_OUTPUT\nlinear: "
              "USER_OUTPUT\n");
    CHECK_STR(code_of(EXPORT(cfx_program_module(p), cfx_at(rows(0), 0)), ""), code_of(p, ""));
    CHECK(strstr(code_of(cfx_decompose(p, CFX_NONE), ""), "addmm = torch.ops.aten.addmm.default"));
}

static cfx_value back_and_forth(cfx_module *self, cfx_args a) {
    cfx_grad_mode outer = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_tensor *y = cfx_mul(a.v[0], 2);
    cfx_grad_mode inner = cfx_set_grad_mode(CFX_GRAD_ON);
    cfx_tensor *z = cfx_call(self, "l", y);
    cfx_set_grad_mode(inner);
    z = cfx_add(z, y);
    cfx_set_grad_mode(outer);
    return cfx_tensor_value(cfx_mul(z, a.v[0]));
}

static cfx_module *new_back_and_forth(void) { return with_layer(back_and_forth); }

TEST(only_modes_that_differ_from_the_one_around_are_graphs) {
    cfx_program *p = EXPORT(new_back_and_forth(), cfx_at(rows(0), 0));
    CHECK_STR(code_of(p, ""),
              "def forward(self, p_l_weight, p_l_bias, x):\n"
              "    submod_5 = self.submod_1\n"
              "    mul = torch.ops.higher_order.wrap_with_set_grad_enabled(False, submod_5, x);  "
              "submod_5 = None\n"
              "    getitem = mul[0];  mul = None\n"
              "    linear = torch.ops.aten.linear.default(getitem, p_l_weight, p_l_bias);  "
              "p_l_weight = p_l_bias = None\n"
              "    submod_6 = self.submod_3\n"
              "    add = torch.ops.higher_order.wrap_with_set_grad_enabled(False, submod_6, "
              "linear, getitem);  submod_6 = linear = getitem = None\n"
              "    getitem_1 = add[0];  add = None\n"
              "    mul_1 = torch.ops.aten.mul.Tensor(getitem_1, x);  getitem_1 = x = None\n"
              "    return (mul_1,)\n    ");
    cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
    p = EXPORT(new_back_and_forth(), cfx_at(rows(0), 0));
    CHECK(strstr(code_of(p, ""), "linear = torch.ops.higher_order.wrap_with_set_grad_enabled("
                                 "True, submod_5, mul, p_l_weight, p_l_bias)"));
    CHECK_INT(cfx_set_grad_mode(before), CFX_NO_GRAD);
}

static cfx_value never_back(cfx_module *self, cfx_args a) {
    cfx_set_grad_mode(CFX_NO_GRAD);
    return cfx_tensor_value(cfx_call(self, "l", a.v[0]));
}

TEST(exports_and_traces_leave_the_mode_as_it_was) {
    cfx_module *m = with_layer(never_back);
    cfx_program *p = EXPORT(m, cfx_at(rows(0), 0));
    CHECK(strstr(code_of(p, ""), "linear = torch.ops.higher_order.wrap_with_set_grad_enabled("
                                 "False, submod_2, x, p_l_weight, p_l_bias)"));
    CHECK_INT(cfx_get_grad_mode(), CFX_GRAD_ON);
    cfx_symbolic_trace(m);
    CHECK_INT(cfx_get_grad_mode(), CFX_GRAD_ON);
}

/* ---- autocast -------------------------------------------------------------------------------- */

static cfx_value lower(cfx_module *self, cfx_args a) {
    cfx_autocast_begin();
    cfx_tensor *y = cfx_exp(cfx_call(self, "l", a.v[0]));
    cfx_autocast_end();
    return cfx_tensor_value(cfx_add(cfx_to(y, cfx_f32), a.v[0]));
}

static cfx_module *new_lower(void) { return with_layer(lower); }

TEST(autocast_runs_products_in_the_lower_precision) {
    cfx_module *m = new_lower();
    cfx_tensor *x = cfx_tensor_at(rows(0), 0), *w = cfx_attr(m, "l.weight");
    cfx_autocast_begin(.dtype = CFX_F16);
    CHECK_STR(cfx_dtype_name(cfx_tensor_dtype(cfx_mm(x, w))), "float16");
    CHECK_STR(cfx_dtype_name(cfx_tensor_dtype(cfx_add(x, x))), "float32");
    cfx_autocast_begin(.off = true);
    CHECK_STR(cfx_dtype_name(cfx_tensor_dtype(cfx_mm(x, w))), "float32");
    cfx_autocast_end();
    cfx_autocast_end();
    CHECK_STR(cfx_dtype_name(cfx_tensor_dtype(cfx_mm(x, w))), "float32");
    cfx_autocast_end();
    CHECK_ERROR("there is no autocast region to end");
    cfx_autocast_begin(.device = "abacus");
    cfx_autocast_end();
    CHECK_ERROR("User specified an unsupported autocast device_type 'abacus'");
}

TEST(autocast_is_nodes_of_a_traced_graph_and_a_graph_of_a_program) {
    cfx_module *m = new_lower();
    CHECK_STR(cfx_module_code(cfx_symbolic_trace(m)),
              "\n\n\ndef forward(self, x):\n"
              "    _enter_autocast = torch.amp.autocast_mode._enter_autocast('cpu', "
              "torch.bfloat16, True, False)\n"
              "    l = self.l(x)\n"
              "    exp = torch.exp(l);  l = None\n"
              "    _exit_autocast = torch.amp.autocast_mode._exit_autocast(_enter_autocast);  "
              "_enter_autocast = _exit_autocast = None\n"
              "    to = exp.to(torch.float32);  exp = None\n"
              "    add = torch.add(to, x);  to = x = None\n"
              "    return add\n    ");
    cfx_program *p = EXPORT(m, cfx_at(rows(0), 0));
    CHECK(strstr(code_of(p, ""),
                 "    submod_3 = self.submod_1\n"
                 "    exp = torch.ops.higher_order.wrap_with_autocast('cpu', torch.bfloat16, True, "
                 "False, submod_3, x, p_l_weight, p_l_bias);  submod_3 = p_l_weight = p_l_bias = "
                 "None\n"
                 "    getitem = exp[0];  exp = None\n"));
    CHECK_STR(code_of(p, "submod_1"),
              "def forward(self, arg2_1, arg0_1, arg1_1):\n"
              "    linear = torch.ops.aten.linear.default(arg2_1, arg0_1, arg1_1);  arg2_1 = "
              "arg0_1 = arg1_1 = None\n"
              "    exp = torch.ops.aten.exp.default(linear);  linear = None\n"
              "    return (exp,)\n    ");
    CHECK(strstr(cfx_program_str(p), "linear: \"bf16[3, 4]\" = torch.ops.aten.linear.default("));
    CHECK(strstr(code_of(cfx_decompose(p, CFX_NONE), ""),
                 "_to_copy = torch.ops.aten._to_copy.default(p_l_bias, dtype = torch.bfloat16)"));
}

static cfx_value disabled(cfx_module *self, cfx_args a) {
    cfx_autocast_begin(.dtype = CFX_F32);
    cfx_value y = cfx_tensor_value(cfx_call(self, "l", a.v[0]));
    cfx_autocast_end();
    return y;
}

/* The texts are PyTorch 2.12's, which warns. */
TEST(autocast_is_off_in_a_dtype_that_it_does_not_know) {
    cfx_module *m = with_layer(disabled);
    cfx_program *p = EXPORT(m, cfx_at(rows(0), 0));
    CHECK(strstr(code_of(p, ""), "wrap_with_autocast('cpu', torch.float32, False, False, submod_2, "
                                 "x, p_l_weight, p_l_bias)"));
    CHECK_STR(cfx_dtype_name(cfx_tensor_dtype(cfx_as_tensor(
                  cfx_program_run(p, cfx_at(rows(0), 0))))), "float32");
    CHECK(!strstr(code_of(cfx_decompose(p, CFX_NONE), ""), "_to_copy"));
    cfx_autocast_begin();
    cfx_value y = disabled(m, CFX_ARGS(cfx_at(rows(0), 0)));
    CHECK_STR(cfx_dtype_name(cfx_tensor_dtype(cfx_as_tensor(y))), "float32");
    cfx_autocast_end();
}

/* That of the caller is for who runs the program. */
TEST(a_program_that_is_exported_under_autocast_runs_under_that_of_its_caller) {
    cfx_module *m = with_layer(never_back);
    cfx_autocast_begin();
    cfx_program *p = EXPORT(m, cfx_at(rows(0), 0));
    cfx_value low = cfx_program_run(p, cfx_at(rows(0), 0));
    cfx_autocast_end();
    CHECK(strstr(cfx_program_str(p), "linear: \"f32[3, 4]\""));
    CHECK_STR(cfx_dtype_name(cfx_tensor_dtype(cfx_as_tensor(low))), "bfloat16");
    CHECK_STR(cfx_dtype_name(cfx_tensor_dtype(cfx_as_tensor(
                  cfx_program_run(p, cfx_at(rows(0), 0))))), "float32");
}

static cfx_value crossing(cfx_module *self, cfx_args a) {
    cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_autocast_begin();
    cfx_tensor *y = cfx_call(self, "l", a.v[0]);
    cfx_set_grad_mode(before);
    cfx_autocast_end();
    return cfx_tensor_value(y);
}

static cfx_value never_left(cfx_module *self, cfx_args a) {
    cfx_autocast_begin();
    return cfx_tensor_value(cfx_call(self, "l", a.v[0]));
}

TEST(export_refuses_autocast_that_crosses_other_regions) {
    CHECK(cfx_failed(EXPORT(with_layer(crossing), cfx_at(rows(0), 0))));
    CHECK_ERROR("autocast is ended that was not begun last: a forward that is exported ends the "
                "autocast regions that it begins, in the same branch and under the same grad mode");
    CHECK(cfx_failed(EXPORT(with_layer(never_left), cfx_at(rows(0), 0))));
    CHECK_ERROR("autocast is begun and never ended");
    cfx_autocast_end();
    CHECK_ERROR("there is no autocast region to end");
}

/* A run that stops between two changes sets back what it changed. */
TEST(modes_are_set_back_where_a_traced_graph_fails) {
    cfx_module *gm = cfx_symbolic_trace(new_partly()), *low = cfx_symbolic_trace(new_lower());
    CHECK(cfx_is_bad(cfx_forward_value(gm, cfx_ones(3, 5))));
    CHECK_ERROR("mat1 and mat2 shapes cannot be multiplied (3x5 and 4x4)");
    CHECK_INT(cfx_get_grad_mode(), CFX_GRAD_ON);
    CHECK(cfx_is_bad(cfx_forward_value(low, cfx_ones(3, 5))));
    CHECK_ERROR("mat1 and mat2 shapes cannot be multiplied (3x5 and 4x4)");
    cfx_autocast_end();
    CHECK_ERROR("there is no autocast region to end");
}

/* ---- whichever way --------------------------------------------------------------------------- */

static cfx_value in_both(cfx_module *self, cfx_args a) {
    cfx_autocast_begin(.dtype = CFX_F16);
    cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_tensor *y = cfx_call(self, "l", a.v[0]);
    cfx_set_grad_mode(before);
    cfx_autocast_begin(.off = true);
    y = cfx_call(self, "l", cfx_to(y, cfx_f32));
    cfx_autocast_end();
    cfx_autocast_end();
    return cfx_tensor_value(cfx_mul(y, a.v[0]));
}

static cfx_module *new_in_both(void) { return with_layer(in_both); }

static cfx_value graded(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_grad_mode before = cfx_set_grad_mode(CFX_GRAD_ON);
    cfx_tensor *y = cfx_sin(a.v[0]);
    cfx_set_grad_mode(before);
    return cfx_tensor_value(cfx_mul(y, a.v[0]));
}

static cfx_value by_layer(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_call(self, "l", a.v[0]));
}

static cfx_value half_graded(cfx_module *self, cfx_args a) {
    cfx_grad_mode before = cfx_set_grad_mode(CFX_INFERENCE);
    cfx_tensor *y = cfx_call(self, "l", a.v[0]);
    cfx_set_grad_mode(before);
    return cfx_tensor_value(cfx_mul(y, cfx_cos(a.v[0])));
}

static cfx_value chosen_without(cfx_module *self, cfx_args a) {
    cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_value y = cfx_cond(self, cfx_gt(cfx_sum(a.v[0]), 0), graded, by_layer, a.v[0]);
    cfx_set_grad_mode(before);
    return cfx_tensor_value(cfx_add(y, a.v[0]));
}

static cfx_module *new_chosen_without(void) { return with_layer(chosen_without); }

static cfx_value chosen_with(cfx_module *self, cfx_args a) {
    cfx_value y = cfx_cond(self, cfx_gt(cfx_sum(a.v[0]), 0), half_graded, by_layer, a.v[0]);
    return cfx_tensor_value(cfx_add(y, a.v[0]));
}

static cfx_module *new_chosen_with(void) { return with_layer(chosen_with); }

static cfx_value written(cfx_module *self, cfx_args a) {
    cfx_tensor *y = cfx_mul(a.v[0], 3);
    cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_tensor *z = cfx_add_(cfx_call(self, "l", y), cfx_ones(4));
    cfx_set_grad_mode(before);
    return cfx_tensor_value(cfx_mul(z, y));
}

static cfx_module *new_written(void) { return with_layer(written); }

TEST(modes_are_the_same_whichever_way_a_module_goes) {
    static const ways_model models[] = {
        {"no_grad", new_partly, rows, 2, false, false, true, false},
        {"enable_grad in no_grad", new_back_and_forth, rows, 2, false, false, true, false},
        {"autocast", new_lower, rows, 2, false, false, false, false},
        {"no_grad in autocast", new_in_both, rows, 2, false, false, true, false},
        {"cond in no_grad", new_chosen_without, rows, 2, false, false, true, false},
        {"no_grad in cond", new_chosen_with, rows, 2, false, false, true, false},
        {"writes in no_grad", new_written, rows, 2, false, false, true, false},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        CFX_SCOPE ways_check(&models[i]);
}

/* A program that ends a region which it did not begin ends the caller's, as it would in PyTorch;
 * nobody keeps what is gone. */
TEST(a_region_that_a_program_ends_is_ended_once) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    const int64_t two = 2;
    cfx_node_set_meta(x, "val", cfx_tensor_value(cfx_tensor_fake(CFX_F32, 1, &two, NULL)));
    cfx_graph_call(g, "torch.amp.autocast_mode._exit_autocast", CFX_NONE);
    cfx_graph_output(g, cfx_tuple(cfx_graph_call(g, "torch.ops.aten.neg.default", x)));
    cfx_program *p = cfx_program_new(cfx_graph_module(cfx_module_new("M", NULL, "x"), g, NULL));
    cfx_program_add_input(p, (cfx_input_spec){.kind = CFX_IN_USER, .name = "x"});
    cfx_program_add_output(p, (cfx_output_spec){.name = "neg_default"});
    cfx_autocast_begin();
    cfx_decompose(p, CFX_NONE);
    cfx_error_clear();
    cfx_autocast_end();
    cfx_autocast_end();
    CHECK_ERROR("there is no autocast region to end");
}

static cfx_tensor *product_in_region(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *w = cfx_attr(self, "w");
    cfx_autocast_begin(.dtype = CFX_BF16);
    cfx_tensor *y = cfx_mm(w, w);
    cfx_autocast_end();
    return cfx_add(x, y);
}

/* The graph of a region is no module of the program: what comes of it is the caller's. */
TEST(regions_stay_where_they_were_when_exported_again) {
    cfx_module *m = cfx_module_new("Product", product_in_region, "x");
    cfx_nn_parameter(m, "w", cfx_ones(cfx_list(3, 3)));
    const cfx_value example = cfx_tuple(cfx_ones(cfx_list(3, 3)));
    cfx_program *p = cfx_export(m, example, CFX_NONE, CFX_NONE);
    const char *code = cfx_module_code(p->module);
    for (int i = 0; i < 2; i++)
        p = cfx_export(cfx_program_unflatten(p), example, CFX_NONE, CFX_NONE);
    CHECK_OK();
    CHECK_STR(cfx_module_code(p->module), code);
}

/* Where a call is removed, what is left of its graph is no part of the program. */
TEST(regions_that_no_call_is_left_of_are_not_checked) {
    cfx_module *m = cfx_module_new("Product", product_in_region, "x");
    cfx_nn_parameter(m, "w", cfx_ones(cfx_list(3, 3)));
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_ones(cfx_list(3, 3))), CFX_NONE, CFX_NONE);
    cfx_graph *g = p->module->graph;
    cfx_node_replace(cfx_graph_find(g, "add"), cfx_graph_find(g, "x"));
    static const char *const gone[] = {"add", "getitem", "mm", "submod_3"};
    for (int i = 0; i < 4; i++) {
        CHECK(cfx_graph_erase(cfx_graph_find(g, gone[i])));
        CHECK(i < 2 || (cfx_program_sync(p) && cfx_program_check(p)));
    }
    CHECK_OK();
}
