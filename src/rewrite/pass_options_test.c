/* What passes are told to leave, and the caller's own checks between them. */
#include "pass_test.h"

static cfx_dict *keep(const char *selectors) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "keep", cfx_string_value(selectors));
    return d;
}

static cfx_program *twice(void) {
    return program_of(HEAD "    def forward(self, p_w: \"f32[4]\", x: \"f32[4]\"):\n"
                           "        exp: \"f32[4]\" = torch.ops.aten.exp.default(x)\n"
                           "        exp_1: \"f32[4]\" = torch.ops.aten.exp.default(x)\n"
                           "        sin: \"f32[4]\" = torch.ops.aten.sin.default(x)\n"
                           "        sin_1: \"f32[4]\" = torch.ops.aten.sin.default(x)\n"
                           "        cos: \"f32[4]\" = torch.ops.aten.cos.default(p_w)\n"
                           "        neg: \"f32[4]\" = torch.ops.aten.neg.default(cos)\n"
                           "        return (exp, exp_1, sin, sin_1, neg)\n");
}

TEST(common_subexpressions_leave_what_is_kept) {
    cfx_program *p = twice();
    CHECK_INT(cfx_pass_apply(cfx_pass_find("common_subexpressions"), p, keep("op:exp+op:relu")), 1);
    HAS(cfx_module_code(p->module), "return (exp, exp_1, sin, sin, neg)");
    CHECK_INT(cfx_pass_apply(cfx_pass_find("common_subexpressions"), p, NULL), 1);
    CHECK_OK();
}

TEST(constants_that_are_kept_are_not_folded) {
    cfx_program *p = twice();
    cfx_node *cos = cfx_graph_find(p->module->graph, "cos");
    cfx_node_set_meta(cos, "custom", cfx_string_value("mine"));
    CHECK_INT(cfx_pass_apply(cfx_pass_find("fold_constants"), p, keep("cos")), 0);
    CHECK_INT(cfx_pass_apply(cfx_pass_find("fold_constants"), p, keep("neg")), 1);
    HAS(cfx_module_code(p->module), "neg = torch.ops.aten.neg.default(c_folded_cos)");
    CHECK_STR(cfx_str(cfx_node_get_meta(cfx_graph_find(p->module->graph, "c_folded_cos"),
                                        "custom")),
              "mine");
    CHECK_OK();
}

static bool at_most_six(cfx_program *p, const cfx_pass_report *r, void *user) {
    (void)p;
    ++*(int *)user;
    if (r->nodes_after <= 6)
        return true;
    if (*(int *)user > 1)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%lld nodes are too many",
                 (long long)r->nodes_after);
    return false;
}

TEST(checks_of_ones_own_between_passes) {
    cfx_program *p = twice();
    int asked = 0;
    cfx_pass_step steps[] = {{cfx_pass_find("common_subexpressions"), NULL},
                             {cfx_pass_find("dead_code"), NULL}};
    cfx_pass_manager m = {.steps = steps, .nsteps = 2, .accept = at_most_six, .user = &asked,
                          .in_place = true};
    CHECK(cfx_failed(cfx_passes_run(&m, p).program));
    CHECK_ERROR("the program was not accepted");
    CHECK_INT(asked, 1);
    HAS(cfx_module_code(p->module), "return (exp, exp_1, sin, sin_1, neg)"); /* as it was */
    CHECK(cfx_failed(cfx_passes_run(&m, p).program));
    CHECK_ERROR("7 nodes are too many");
    CHECK_OK();
}
