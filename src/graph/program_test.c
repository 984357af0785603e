/* Programs: what they keep, and what they answer. */
#include <cfx/program.h>
#include <cfx/run.h>

#include "base/base.h"
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

/* Tensors come before the caller's own inputs, wherever those were before, and each placeholder
 * still finds its own; results that are taken away take their places along. */
TEST(program_finds_inputs_and_results_after_changes) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *user[2], *held[40];
    for (int i = 0; i < COUNT(user); i++)
        user[i] = cfx_graph_input(g, i ? "y" : "x");
    cfx_graph_output(g, cfx_tuple(user[1], user[0], user[1]));
    cfx_program *p = cfx_program_new(cfx_graph_module(NULL, g, NULL));
    for (int i = 0; i < COUNT(user); i++)
        cfx_program_add_input(p, (cfx_input_spec){.name = i ? "y" : "x"});
    for (int i = 0; i < 3; i++)
        cfx_program_add_output(p, (cfx_output_spec){.name = i == 1 ? "x" : "y"});
    for (int i = 0; i < COUNT(held); i++) {
        held[i] = cfx_program_add_tensor(p, i % 2 ? CFX_IN_CONSTANT : CFX_IN_PARAMETER, "t",
                                         cfx_tensor_from_value(cfx_list((double)i)));
        if (i == 20) /* in between somebody takes one away */
            cfx_graph_erase(held[3]);
    }
    CHECK(cfx_program_sync(p));
    CHECK_INT(p->ninputs, COUNT(held) - 1 + COUNT(user));
    for (int i = 0, k = 0; i < COUNT(held); i++)
        if (i != 3)
            CHECK(cfx_program_input(p, held[i]) == &p->inputs[k++]);
    CHECK_STR(cfx_program_input(p, held[39])->target, "t_39");
    CHECK(cfx_program_input(p, user[1]) == &p->inputs[p->ninputs - 1]);
    cfx_node_set_args(cfx_graph_output_node(g), cfx_tuple(cfx_tuple(user[0], user[1])));
    CHECK(cfx_program_sync(p));
    CHECK_INT(p->noutputs, 2);
    CHECK_STR(p->outputs[0].name, "x");
    CHECK_STR(p->outputs[1].name, "y");
    cfx_node *made = NULL; /* a result with another name, and an input */
    CFX_INSERT_BEFORE(g, cfx_graph_output_node(g)) made = cfx_graph_call(g, "neg", user[0]);
    cfx_node_set_args(cfx_graph_output_node(g), cfx_tuple(cfx_tuple(made, user[1])));
    CHECK(cfx_program_sync(p));
    CHECK(cfx_node_set_name(made, "less") && cfx_node_set_name(user[1], "more"));
    CHECK(cfx_program_sync(p));
    CHECK_STR(p->outputs[0].name, "less");
    CHECK_STR(p->outputs[1].name, "more");
    CHECK_STR(p->inputs[p->ninputs - 1].name, "more");
    CHECK_OK();
}
