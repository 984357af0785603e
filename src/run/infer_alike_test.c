/* Calls that are alike have their shape rule run once, and are told apart where they are not. */
#include "infer.h"
#include "test.h"

enum { NODES = 300 };

static cfx_node *call(cfx_graph *g, const char *name, cfx_value args) {
    return cfx_graph_call_function(g, name, args, CFX_NONE);
}

/* x + x, transposed, 300 times. */
static cfx_program *program(void) {
    int64_t shape[] = {2, 3};
    cfx_graph *g = cfx_graph_new();
    cfx_node *last = cfx_graph_input(g, "x");
    cfx_node_set_meta(last, "val", cfx_tensor_value(cfx_tensor_fake(CFX_F32, 2, shape, NULL)));
    for (int i = 0; i < NODES; i++) {
        last = call(g, "torch.ops.aten.add.Tensor", cfx_tuple(last, last));
        last = call(g, "torch.ops.aten.transpose.int", cfx_tuple(last, 0, 1));
    }
    cfx_graph_output(g, cfx_tuple(last));
    cfx_program *p = cfx_program_new(cfx_graph_module(NULL, g, NULL));
    cfx_program_infer(p);
    return p;
}

static cfx_node *number(const cfx_program *p, int i) {
    cfx_each_node(p->module->graph, n) if (i-- == 0) return n;
    return NULL;
}

TEST(calls_that_are_alike_have_the_results_of_their_own_inputs) {
    cfx_program *p = program();
    CHECK_OK();
    for (int i = 1; i <= 2 * NODES; i++) {
        cfx_result r = cfx_node_result(number(p, i));
        int turned = i / 2 % 2;
        CHECK_INT(r.shape[0], turned ? 3 : 2);
        CHECK_INT(r.stride[0], turned ? 1 : 3);
    }
}

TEST(shape_rules_run_once_for_calls_that_are_alike) {
    cfx_program *p = program();
    cfx__inference f = {.program = p};
    int alike = 0;
    cfx__infer_enter(&f, p->module);
    cfx_each_node(p->module->graph, n) if (n->op == CFX_CALL_FUNCTION) {
        if (cfx__infer_alike(&f, n))
            alike++;
        else
            cfx__infer_learned(&f, n);
    }
    cfx__infer_end(&f);
    CHECK(alike >= 2 * NODES - 8);
}

TEST(a_wrong_note_among_calls_that_are_alike_is_found) {
    int64_t wrong[] = {2, 4};
    cfx_program *p = program();
    CHECK(cfx_program_check(p));
    cfx_node *n = number(p, NODES + 1);
    cfx_node_set_meta(n, "val", cfx_tensor_value(cfx_tensor_fake(CFX_F32, 2, wrong, NULL)));
    cfx_problems *found = cfx_program_problems(p);
    CHECK(found->n >= 1 && !strcmp(found->items[0].node, n->name));
    CHECK(cfx_program_settle(p)); /* makes it right again */
    CHECK_INT(cfx_node_result(n).shape[1] * cfx_node_result(n).shape[0], 6);
    CHECK(cfx_program_check(p));
}

TEST(a_changed_argument_is_another_call) {
    cfx_program *p = program();
    cfx_node *n = number(p, NODES);
    CHECK(cfx_node_is(n, "transpose"));
    cfx_node_set_arg(n, 2, cfx_int(0)); /* turns nothing */
    CHECK(cfx_program_infer(p));
    cfx_result before = cfx_node_result(n->prev), now = cfx_node_result(n);
    CHECK(cfx_result_equal(&before, &now));
    CHECK(cfx_program_check(p));
}

TEST(a_wrong_note_of_one_of_several_results_is_found) {
    int64_t shape[] = {4, 3}, wrong[] = {5};
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x");
    cfx_node_set_meta(x, "val", cfx_tensor_value(cfx_tensor_fake(CFX_F32, 2, shape, NULL)));
    cfx_node *rows = call(g, "torch.ops.aten.unbind.int", cfx_tuple(x));
    cfx_value all = cfx_tuple_value(0, NULL);
    for (int i = 0; i < 4; i++)
        cfx_list_append(cfx_as_list(all),
                        cfx_node_value(call(g, "operator.getitem", cfx_tuple(rows, i))));
    cfx_graph_output(g, all);
    cfx_program *p = cfx_program_new(cfx_graph_module(NULL, g, NULL));
    CHECK(cfx_program_infer(p) && cfx_program_check(p));
    cfx_node *third = cfx_as_node(cfx_as_list(all)->items[2]);
    cfx_node_set_meta(third, "val", cfx_tensor_value(cfx_tensor_fake(CFX_F32, 1, wrong, NULL)));
    cfx_problems *found = cfx_program_problems(p);
    CHECK(found->n == 1 && !strcmp(found->items[0].node, third->name));
}
