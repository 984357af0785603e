/* What programs check and print while they run: put in, seen, and taken out. */
#include "files.h"
#include "pass_test.h"

static const char body[] =
    HEAD "    def forward(self, x: \"f32[4]\"):\n"
         "        relu: \"f32[4]\" = torch.ops.aten.relu.default(x)\n"
         "        gt: \"b8[4]\" = torch.ops.aten.gt.Scalar(relu, 1)\n"
         "        exp: \"f32[4]\" = torch.ops.aten.exp.default(relu)\n"
         "        return (exp, gt)\n";

/* Lines one below the other; what follows ": " is left out where it is a time. */
static void collect(const char *line, void *user) {
    bool timed = strstr(line, " ms") != NULL;
    cfx__text_add(user, line, timed ? strcspn(line, ":") : strlen(line));
    cfx__text_putc(user, '\n');
}

static void ignore(const char *line, void *user) { (void)line, (void)user; }

static const char *lines_of(cfx_program *p) {
    cfx__text lines = {0};
    cfx_set_log(collect, &lines);
    cfx_program_run(p, cfx_arange(-1.0, 3.0));
    cfx_set_log(NULL, NULL);
    CHECK_OK();
    return cfx__text_take(&lines);
}

static cfx_dict *option(const char *name, const char *value) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, name, cfx_string_value(value));
    return d;
}

TEST(pass_logs_what_nodes_give) {
    cfx_program *p = program_of(body), *was = cfx_program_copy(p);
    HAS(code_after("log", p, 3), "torch.ops.higher_order.print('relu f32[4] min {} max {} mean {}'"
                                 ", amin, amax, mean)");
    const char *want = "relu f32[4] min 0.0 max 2.0 mean 0.75\n"
                       "gt b8[4] min False max True\n"
                       "exp f32[4] min 1.0 max 7.389056205749512 mean 3.026834487915039\n";
    CHECK_STR(lines_of(p), want);
    CHECK(cfx_save(p, test_path("logged.pt2")));
    CHECK_STR(lines_of(cfx_open(test_path("logged.pt2"))), want);
    test_unlink("logged.pt2");
    test_folder_done();
    code_after("dead_code", p, 0);
    code_after("remove_logging", p, 11);
    CHECK(cfx_graph_equal(p->module->graph, was->module->graph));
}

/* What may have no elements when it runs has no least. */
TEST(pass_logs_what_data_count) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[4]\"):\n"
             "        nonzero: \"i64[u0, 1]\" = torch.ops.aten.nonzero.default(x)\n"
             "        return (nonzero,)\n");
    code_after("log", p, 1);
    cfx__text lines = {0};
    cfx_set_log(collect, &lines);
    cfx_program_run(p, cfx_zeros(4));
    cfx_set_log(NULL, NULL);
    CHECK_STR(cfx__text_take(&lines),
              "nonzero i64[u0, 1] tensor([], size=(0, 1), dtype=torch.int64)\n");
}

/* A number of rows that is 0 or 1 is both while sizes are inferred. */
TEST(pass_logs_one_row_or_none) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[1]\"):\n"
             "        nonzero: \"i64[u0, 1]\" = torch.ops.aten.nonzero.default(x)\n"
             "        sym_size_int: \"Sym(u0)\" = torch.ops.aten.sym_size.int(nonzero, 0)\n"
             "        le: \"Sym(u0 <= 1)\" = operator.le(sym_size_int, 1)\n"
             "        _assert_scalar_default = torch.ops.aten._assert_scalar.default(le, \"one\")\n"
             "        add = torch.ops.aten.add.Tensor(nonzero, 1)\n"
             "        return (add,)\n");
    code_after("log", p, 2);
    cfx_set_log(ignore, NULL);
    CHECK_STR(cfx_str(cfx_at(cfx_program_run(p, cfx_ones(1)), 0)), "tensor([[1]])");
    CHECK_STR(cfx_str(cfx_at(cfx_program_run(p, cfx_zeros(1)), 0)),
              "tensor([], size=(0, 1), dtype=torch.int64)");
    cfx_set_log(NULL, NULL);
}

TEST(pass_logs_values) {
    cfx_program *p = program_of(body);
    cfx_dict *options = option("nodes", "op:relu");
    cfx_dict_set(options, "values", cfx_string_value("yes"));
    CHECK_INT(cfx_pass_apply(&cfx__pass_log, p, options), 1);
    CHECK_STR(lines_of(p), "relu f32[4] tensor([0., 0., 1., 2.])\n");
    CHECK_INT(cfx_pass_apply(&cfx__pass_log, p, option("nodes", "op:conv2d")), -1);
    CHECK_ERROR("no node that gives a tensor fits 'op:conv2d'");
    code_after("log", program_of(HEAD "    def forward(self, x: \"f32[4]\"):\n"
                                      "        return (x,)\n"), 0);
}

TEST(pass_times_nodes) {
    cfx_program *p = program_of(body), *was = cfx_program_copy(p);
    CHECK_INT(cfx_pass_apply(&cfx__pass_time, p, option("nodes", "*e*")), 2);
    HAS(cfx_module_code(p->module), "torch.ops.profiler._record_function_exit.default("
                                    "_record_function_enter)");
    code_after("common_subexpressions", p, 0);
    CHECK_STR(lines_of(p), "relu\nexp\n");
    code_after("remove_logging", p, 4);
    CHECK(cfx_graph_equal(p->module->graph, was->module->graph));
}

TEST(pass_checks_ranges) {
    cfx_program *p = program_of(body);
    cfx_dict *options = option("nodes", "exp");
    cfx_dict_set(options, "least", cfx_string_value("0"));
    cfx_dict_set(options, "most", cfx_string_value("10"));
    CHECK_INT(cfx_pass_apply(&cfx__pass_check_range, p, options), 1);
    CHECK(!cfx_is_bad(cfx_program_run(p, cfx_ones(4))));
    cfx_program_run(p, cfx_mul(cfx_ones(4), 3));
    CHECK_ERROR("node exp gives what is not between 0 and 10");
    code_after("remove_asserts", p, 5);
    cfx_dict_set(options, "most", cfx_string_value("many"));
    CHECK_INT(cfx_pass_apply(&cfx__pass_check_range, p, options), -1);
    CHECK_ERROR("option most wants a number, not 'many'");
}

TEST(printed_lines_are_formatted) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[]\"):\n"
             "        print_1 = torch.ops.higher_order.print('{{{}}} {1} {n}', x, 2, n = 3)\n"
             "        print_2 = torch.ops.higher_order.print('{m}', x)\n"
             "        return (x,)\n");
    cfx__text lines = {0};
    cfx_set_log(collect, &lines);
    cfx_program_run(p, cfx_tensor_from_value(cfx_float(0.5)));
    cfx_set_log(NULL, NULL);
    CHECK_STR(cfx__text_take(&lines), "{0.5} 2 3\n");
    CHECK_ERROR("print: '{m}' has no value for the field '{m}'");
}
