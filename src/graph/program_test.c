/* Programs: what they keep, and what they answer. */
#include <cfx/program.h>
#include <cfx/run.h>

#include "test.h"

TEST(program_keeps_its_signature) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *w = cfx_graph_placeholder(g, "p_w", NULL, false, CFX_NONE);
    cfx_graph_output(g, cfx_tuple(w));
    cfx_program *p = cfx_program_new(cfx_graph_module(NULL, g, NULL));
    size_t mark = cfx_scope_open();
    cfx_tensor *t = cfx_tensor_from_value(cfx_list(1.0, 2.0));
    char name[] = "w";
    cfx_dict_set(p->state, name, cfx_tensor_value(t));
    cfx_program_add_input(
        p, (cfx_input_spec){.kind = CFX_IN_PARAMETER, .name = "p_w", .target = name});
    cfx_program_add_input(p, (cfx_input_spec){.kind = CFX_IN_USER,
                                              .name = "flag",
                                              .constant = true,
                                              .value = cfx_string_value("yes")});
    cfx_program_add_output(p, (cfx_output_spec){.kind = CFX_OUT_USER, .name = "p_w"});
    name[0] = '?';
    cfx_scope_close(mark);
    CHECK_INT(p->ninputs, 2);
    CHECK_STR(p->inputs[0].target, "w");
    CHECK_STR(cfx_text(p->inputs[1].value), "yes");
    CHECK_STR(cfx_tensor_str(cfx_program_tensor(p, &p->inputs[0])), "tensor([1., 2.])");
    CHECK(!cfx_program_tensor(p, &p->inputs[1]));
    CHECK_OK();
}

TEST(program_wants_a_graph_module) {
    CHECK(cfx_failed(cfx_program_new(NULL)));
    CHECK_ERROR("the module is NULL");
}
