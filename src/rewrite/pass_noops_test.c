/* remove_noops: what goes, and what only looks as if it changed nothing. */
#include "pass_test.h"

TEST(pass_noops_minds_what_is_shifted) {
    static const struct {
        const char *pad;
        bool goes;
    } rows[] = {{"[0, 0]", true}, {"[1, -1]", false}, {"[0, 0, -1, 1]", false}};
    for (int i = 0; i < COUNT(rows); i++) {
        cfx_program *p = program_of(
            cfx__text_format(HEAD "    def forward(self, x: \"f32[2, 3]\"):\n"
                                  "        y: \"f32[2, 3]\" = "
                                  "torch.ops.aten.constant_pad_nd.default(x, %s)\n"
                                  "        z: \"f32[2, 3]\" = torch.ops.aten.relu.default(y)\n"
                                  "        return (z,)\n", rows[i].pad));
        const char *code = code_after("remove_noops", p, rows[i].goes);
        CHECK(!strstr(code, "constant_pad_nd") == rows[i].goes);
    }
}

/* The copy of a turned matrix has the sizes and strides of the matrix. */
TEST(pass_noops_minds_copies_of_what_is_turned) {
    static const char *const calls[] = {"transpose_copy.int(x, 0, 1)", "t_copy.default(x)",
                                        "permute_copy.default(x, [1, 0])"};
    for (int i = 0; i < COUNT(calls); i++) {
        cfx_program *p = program_of(
            cfx__text_format(HEAD "    def forward(self, x: \"f32[3, 3]\"):\n"
                                  "        y: \"f32[3, 3]\" = torch.ops.aten.%s\n"
                                  "        z: \"f32[3, 3]\" = torch.ops.aten.relu.default(y)\n"
                                  "        return (z,)\n", calls[i]));
        cfx_program *was = cfx_program_copy(p);
        code_after("remove_noops", p, 0);
        CHECK_NEAR(difference(was, p, cfx_randn(3, 3)), 0, 0);
    }
}

/* So is every copy that moves elements, in all rows: it is alike only if they stay in order. */
TEST(no_copy_that_moves_elements_is_like_its_argument) {
    for (int i = 0; i < cfx_op_count(); i++) {
        cfx_op *op = cfx_op_at(i);
        const uint32_t moved = CFX_ALIKE | CFX_MOVES;
        if ((op->effects & (moved | CFX_IN_ORDER)) == moved &&
            !cfx__op_info_of(op)->schema->rets[0].alias)
            test_fail(CFX_HERE, "%s is a copy", cfx_op_name(op));
    }
}

TEST(pass_noops_minds_writes) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[2, 4]\"):\n"
             "        dropout: \"f32[2, 4]\" = torch.ops.aten.dropout.default(x, 0.1, False)\n"
             "        view: \"f32[2, 4]\" = torch.ops.aten.view.default(dropout, [2, 4])\n"
             "        clone: \"f32[2, 4]\" = torch.ops.aten.clone.default(view)\n"
             "        clone_1: \"f32[2, 4]\" = torch.ops.aten.clone.default(clone)\n"
             "        relu_: \"f32[2, 4]\" = torch.ops.aten.relu_.default(clone)\n"
             "        to: \"f32[2, 4]\" = torch.ops.aten.to.dtype(clone_1, torch.float32)\n"
             "        add: \"f32[2, 4]\" = torch.ops.aten.add.Tensor(relu_, to)\n"
             "        return (add,)\n");
    cfx_program *was = cfx_program_copy(p);
    const char *code = code_after("remove_noops", p, 3);
    HAS(code, "clone = torch.ops.aten.clone.default(x)");
    HAS(code, "clone_1 = torch.ops.aten.clone.default(clone)");
    HAS_NOT(code, "dropout");
    CHECK_NEAR(difference(was, p, cfx_randn(2, 4)), 0, 0);
}
