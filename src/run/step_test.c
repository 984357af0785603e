/* What a step receives: every argument of every operator, given through a graph what it is not. */
#include "run.h"

#include "../../fuzz/fuzz.h"
#include "test.h"

/* Runs op on fitting arguments but one, which another node gives; whether that was refused. */
static bool refused(cfx_op *op, int odd, cfx_value given) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node *y = cfx_graph_placeholder(g, "y", NULL, false, CFX_NONE);
    cfx_value args = cfx_tuple_value(0, NULL);
    for (int i = 0; i < s->nargs; i++)
        cfx_list_append(cfx_as_list(args), i == odd ? cfx_node_value(y)
                                                    : fuzz_fitting(&s->args[i], cfx_node_value(x)));
    cfx_target target = {.op = op, .name = cfx__text_format("torch.ops.%s", cfx_op_name(op))};
    cfx_node *call = cfx_graph_create(g, CFX_CALL_FUNCTION, target, args, CFX_NONE, NULL, NULL);
    cfx_graph_output(g, cfx_node_value(call));
    cfx_interp it = {.module = cfx_graph_module(NULL, g, NULL)};
    cfx_run(&it, cfx_tensor_from_value(cfx_list(cfx_list(1.0, 2.0), cfx_list(3.0, 4.0))), given);
    const cfx_error *e = cfx_error_last();
    bool said = e && e->notes && strstr(e->notes, "While executing %") &&
                (strstr(e->message, cfx__text_format("for argument '%s'", s->args[odd].name)) ||
                 !strcmp(e->message, "Invalid device string: 'text'"));
    cfx_error_clear();
    return said;
}

TEST(no_operator_runs_on_what_its_schema_does_not_take) {
    const cfx_value kinds[] = {
        cfx_none(),
        cfx_int(71748523475264),
        cfx_float(0.5),
        cfx_string_value("text"),
        cfx_list(cfx_int(1), CFX_NONE),
        cfx_list(cfx_tensor_from_value(cfx_list(1.0)), cfx_tensor_from_value(cfx_list(1.0))),
        cfx_tuple(cfx_string_value("text")),
        cfx_tensor_value(cfx_tensor_from_value(cfx_list(1.0))),
    };
    int wrong = 0, missed = 0;
    for (int i = 0; i < cfx_op_count(); i++) {
        const cfx__schema *s = cfx__op_info_of(cfx_op_at(i))->schema;
        if (cfx__op_info_of(cfx_op_at(i))->python) /* called by name, which binds */
            continue;
        for (int j = 0; j < s->nargs; j++)
            for (int k = 0; k < COUNT(kinds); k++)
                CFX_SCOPE if (!cfx__bind_takes(&s->args[j], kinds[k], cfx__op_mode(cfx_op_at(i)))) {
                    wrong++;
                    if (!refused(cfx_op_at(i), j, kinds[k]) && missed++ < 5)
                        printf("%s: %s takes %s\n", s->text, s->args[j].name,
                               cfx_value_repr(kinds[k]));
                }
    }
    CHECK(wrong > 10000);
    CHECK_INT(missed, 0);
}

TEST(what_a_step_receives_is_converted_as_in_a_call) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node *y = cfx_graph_placeholder(g, "y", NULL, false, CFX_NONE);
    cfx_graph_output(g, cfx_node_value(cfx_graph_call_function(g, "torch.ops.aten.sum.dim_IntList",
                                                               cfx_tuple(x, y), CFX_NONE)));
    cfx_interp it = {.module = cfx_graph_module(NULL, g, NULL)};
    cfx_value rows = cfx_tensor_value(
        cfx_tensor_from_value(cfx_list(cfx_list(1.0, 2.0), cfx_list(3.0, 4.0))));
    CHECK_STR(cfx_str(cfx_run(&it, rows, cfx_tuple(cfx_int(0)))), "tensor([4., 6.])");
    CHECK_STR(cfx_str(cfx_run(&it, rows, cfx_int(1))), "tensor([3., 7.])");
    cfx_run(&it, rows, cfx_float(1));
    CHECK_ERROR("Expected a value of type 'Optional[List[int]]' for argument 'dim' but instead "
                "found type 'float'.");
}
