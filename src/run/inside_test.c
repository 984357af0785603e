/* Sub-graphs while they run: where they are, and taps and hooks that reach into them. */
#include <cfx/export.h>
#include <cfx/ops.h>
#include <cfx/pack.h>

#include "test.h"

#include "run.h"

static cfx_value below_three(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_lt(a.v[0], 3));
}

static cfx_value doubled(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_mul(a.v[0], 2));
}

static cfx_value negated(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_neg(a.v[0]));
}

/* Turns x around as often as it is below zero, then counts. */
static cfx_value grow(cfx_module *self, cfx_args a) {
    cfx_value y = cfx_cond(self, cfx_lt(cfx_sum(a.v[1]), 0), negated, doubled, a.v[1]);
    return cfx_tuple(cfx_add(a.v[0], 1), y);
}

static cfx_value forward(cfx_module *self, cfx_args a) {
    cfx_value r = cfx_while_loop(self, below_three, grow, a.v[1], a.v[0]);
    return cfx_tensor_value(cfx_mul(cfx_at(r, 1), 10));
}

static cfx_module *traced(void) {
    return cfx_symbolic_trace(cfx_module_new("Grow", forward, "x, n"));
}

static cfx_value x(void) { return CFX_V(cfx_tensor_from_value(cfx_list(-1.0, -2.0))); }
static cfx_value n(void) { return CFX_V(cfx_tensor_from_value(cfx_int(0))); }

static const char *names_in(const cfx_dict *d) {
    cfx__text t = {0};
    for (int64_t i = 0; i < d->len; i++)
        cfx__text_printf(&t, "%s\n", cfx_text(d->entries[i].key));
    return cfx__text_take(&t);
}

TEST(tap_reaches_into_sub_graphs_round_by_round) {
    cfx_module *gm = traced();
    if (!CHECK_OK())
        return;
    const char *body = "while_loop_body_graph_0.cond";
    cfx_dict *all = cfx_tap(gm, "op:mul", x(), n());
    CHECK_STR(names_in(all),
              cfx__text_format("while_loop@1.%s.false_graph_0.mul\n"
                               "while_loop@2.%s.false_graph_0.mul\nmul\n", body, body));
    CHECK_STR(cfx_str(cfx_dict_get(all, "mul")), "tensor([40., 80.])");
    cfx_dict *one = cfx_tap(gm, "while_loop@1.*.mul", x(), n());
    CHECK_INT(one->len, 1);
    CHECK_STR(cfx_str(one->entries[0].value), "tensor([2., 4.])");
    cfx_dict *each = cfx_tap(gm, "while_loop.while_loop_body_graph_0.add", x(), n());
    CHECK_INT(each->len, 3);
    CHECK_STR(cfx_text(each->entries[2].key), "while_loop@2.while_loop_body_graph_0.add");
    CHECK_OK();
    cfx_tap(gm, "while_loop.while_loop_body_graph_0.sin", x(), n());
    CHECK_ERROR("no node of Grow matches 'while_loop.while_loop_body_graph_0.sin'");
}

/* Without gradients programs run as a plan. */
TEST(tap_reaches_into_sub_graphs_of_a_plan) {
    cfx_program *p = cfx_export(cfx_module_new("Grow", forward, "x, n"), cfx_tuple(x(), n()),
                                CFX_NONE, CFX_NONE);
    if (!CHECK_OK())
        return;
    cfx_grad_mode before = cfx_set_grad_mode(CFX_INFERENCE);
    cfx_dict *all = cfx_tap(p->module, "op:mul", x(), n());
    cfx_set_grad_mode(before);
    CHECK_STR(names_in(all), "while_loop@1.while_loop_body_graph_0.cond.false_graph_0.mul\n"
                             "while_loop@2.while_loop_body_graph_0.cond.false_graph_0.mul\nmul\n");
    CHECK_OK();
}

static cfx_value note_path(cfx_event *e) {
    cfx_list_append(e->user, cfx_string_value(cfx_run_path()));
    return cfx_none();
}

TEST(hooks_in_sub_graphs_know_where_they_are) {
    cfx_module *gm = traced();
    cfx_list *seen = cfx_as_list(cfx_list());
    cfx_module *body = cfx_module_find(gm, "while_loop_body_graph_0");
    cfx_node_hook(cfx_module_find(body, "true_graph_0"), "neg", note_path, seen);
    cfx_node_hook(body, "add", note_path, seen);
    cfx_node_hook(gm, "mul", note_path, seen);
    CHECK_STR(cfx_str(cfx_forward(gm, x(), n())), "tensor([40., 80.])");
    CHECK_STR(cfx_value_repr(cfx_list_value(seen->len, seen->items)),
              "['while_loop@0.while_loop_body_graph_0.cond.true_graph_0.', "
              "'while_loop@0.while_loop_body_graph_0.', 'while_loop@1.while_loop_body_graph_0.', "
              "'while_loop@2.while_loop_body_graph_0.', '']");
    CHECK_STR(cfx_run_path(), "");
}
