/* Programs from text, for tests of Core ATen. */
#ifndef CFX__DECOMPOSE_TEST_H
#define CFX__DECOMPOSE_TEST_H

#include <cfx/emit.h>
#include <cfx/ops.h>
#include <cfx/rewrite.h>

#include "../graph/graph.h"
#include "test.h"

#include <string.h>

/* A program from its code, all inputs the caller's but those called b_... (buffers) and p_...
 * (parameters, which want gradients). */
static inline cfx_program *program_of(const char *code) {
    cfx_module *gm = cfx_module_parse(code, "test");
    cfx_program *p = cfx_program_new(gm);
    cfx_each_node(gm->graph, n) {
        if (n->op == CFX_PLACEHOLDER) {
            bool buffer = !strncmp(n->name, "b_", 2), param = !strncmp(n->name, "p_", 2);
            cfx_input_kind kind = buffer  ? CFX_IN_BUFFER
                                  : param ? CFX_IN_PARAMETER
                                          : CFX_IN_USER;
            cfx_program_add_input(p, (cfx_input_spec){.kind = kind,
                                                      .name = n->name,
                                                      .target = kind ? n->name + 2 : NULL,
                                                      .persistent = true});
            if (param)
                cfx__result_set_grad(n, true);
        }
        if (n->op == CFX_OUTPUT)
            for (int64_t i = 0; i < cfx_as_list(cfx_at(n->args, 0))->len; i++)
                cfx_program_add_output(
                    p, (cfx_output_spec){.name = cfx_as_node(cfx_at(cfx_at(n->args, 0), i))->name});
    }
    return p;
}

static inline const char *core_code(const char *code) {
    cfx_program *d = cfx_decompose(program_of(code), CFX_NONE);
    CHECK_OK();
    return d ? cfx_module_code(d->module) : "";
}

#define HEAD "class GraphModule(torch.nn.Module):\n"

/* Statistics that batch_norm updates, and a dropout. */
#define TRAINING \
    HEAD "    def forward(self, p_w: \"f32[4]\", p_b: \"f32[4]\", b_m: \"f32[4]\", " \
    "b_v: \"f32[4]\", b_n: \"i64[]\", x: \"f32[3, 4, 5]\"):\n" \
    "        add_ = torch.ops.aten.add_.Tensor(b_n, 1)\n" \
    "        bn = torch.ops.aten.batch_norm.default(x, p_w, p_b, b_m, b_v, True, 0.1, " \
    "1e-05, False)\n" \
    "        dropout = torch.ops.aten.dropout.default(bn, 0.5, True)\n" \
    "        return (dropout,)\n"
#define HAS(text, part) CHECK(strstr(text, part) != NULL)

#endif
