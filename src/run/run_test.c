/* Running graphs: GraphModules, interpreters, transformers, taps, and their mistakes. */
#include "test.h"

#include "run.h"

#include <pthread.h>

/* relu(linear(x)) + 1 with weights that are easy to follow: the seed's model, made larger. */
static cfx_value forward(cfx_module *self, cfx_args a) {
    cfx_tensor *relu = cfx_relu(cfx_call(self, "linear", a.v[0]));
    return cfx_py("operator.add", relu, 1);
}

static cfx_module *new_model(void) {
    cfx_module *m = cfx_module_new("SimpleModel", forward, "x");
    cfx_module *linear = cfx_nn_linear(2, 2);
    cfx_tensor *w = cfx_tensor_from_value(cfx_list(cfx_list(1.0, 0.0), cfx_list(0.0, -1.0)));
    cfx_module_set_attr(linear, "weight", cfx_tensor_value(w));
    cfx_module_set_attr(linear, "bias",
                        cfx_tensor_value(cfx_tensor_from_value(cfx_list(0.0, 0.5))));
    cfx_nn_add(m, "linear", linear);
    return m;
}

static cfx_tensor *input(void) { return cfx_tensor_from_value(cfx_list(cfx_list(3.0, 2.0))); }

TEST(a_graph_module_computes_what_its_module_does) {
    cfx_module *m = new_model(), *gm = cfx_symbolic_trace(m);
    CHECK_STR(cfx_str(cfx_forward(gm, input())), cfx_str(cfx_forward(m, input())));
    CHECK_STR(cfx_str(cfx_forward(gm, input())), "tensor([[4., 1.]])");
    CHECK_STR(cfx_str(cfx_forward(gm, CFX_KW(x, input()))), "tensor([[4., 1.]])");
    CHECK_STR(gm->type, "SimpleModel");
    CHECK(cfx_module_find(gm, "linear") == cfx_module_find(m, "linear"));
}

TEST(an_edited_graph_is_never_stale) {
    cfx_module *gm = cfx_symbolic_trace(new_model());
    cfx_forward(gm, input());
    cfx_node *relu = cfx_graph_find(gm->graph, "relu");
    cfx_node_set_target(relu, cfx_graph_target(gm->graph, "torch.neg"));
    CHECK_STR(cfx_str(cfx_forward(gm, input())), "tensor([[-2.0000,  2.5000]])");
    CFX_INSERT_AFTER(gm->graph, relu) {
        cfx_node *twice =
            cfx_graph_call_function(gm->graph, "operator.mul", cfx_tuple(relu, 2), CFX_NONE);
        cfx_node_replace(relu, twice);
        cfx_node_set_arg(twice, 0, cfx_node_value(relu));
    }
    CHECK_STR(cfx_str(cfx_forward(gm, input())), "tensor([[-5.,  4.]])");
}

TEST(a_graph_module_is_copied_whole) {
    cfx_module *gm = cfx_symbolic_trace(new_model()), *copy = cfx_module_copy(gm);
    CHECK(copy && copy->graph != gm->graph && cfx_graph_equal(copy->graph, gm->graph));
    CHECK(cfx_module_find(copy, "linear") != cfx_module_find(gm, "linear"));
    cfx_node *relu = cfx_graph_find(copy->graph, "relu");
    cfx_node_set_target(relu, cfx_graph_target(copy->graph, "torch.neg"));
    CHECK_STR(cfx_str(cfx_forward(copy, input())), "tensor([[-2.0000,  2.5000]])");
    CHECK_STR(cfx_str(cfx_forward(gm, input())), "tensor([[4., 1.]])");
}

TEST(submodules_come_and_go) {
    cfx_module *gm = cfx_symbolic_trace(new_model());
    CHECK(cfx_graph_module_add(gm, "extra.deep.relu", cfx_nn_relu()));
    CHECK(cfx_module_find(gm, "extra.deep.relu") != NULL);
    CHECK(!cfx_graph_module_add(gm, "linear.weight", cfx_nn_relu()));
    CHECK_ERROR("attribute 'weight' already exists");
    CHECK(cfx_graph_module_remove(gm, "extra.deep.relu"));
    CHECK(!cfx_graph_module_remove(gm, "extra.deep.relu"));
    CHECK(!cfx_graph_module_remove(gm, "linear.weight"));
    CHECK_INT(cfx_graph_module_prune(gm), 1); /* extra, and what is left below it */
    CHECK(cfx_module_find(gm, "linear") && !cfx_module_find(gm, "extra"));
    CHECK_STR(cfx_str(cfx_forward(gm, input())), "tensor([[4., 1.]])");
}

/* ---- the interpreter ------------------------------------------------------------------------- */

static cfx_value record(cfx_interp *it, cfx_node *n) {
    cfx_value v = cfx_interp_run_node(it, n);
    cfx_dict_set(it->user, n->name, v);
    return v;
}

static cfx_value neg_for_relu(cfx_interp *it, cfx_target t, cfx_args a) {
    if (t.op == &cfx_op_relu)
        t = cfx_target_named("torch.neg");
    return cfx_interp_call_function(it, t, a);
}

TEST(run_node_sees_every_value) {
    cfx_module *gm = cfx_symbolic_trace(new_model());
    cfx_interp it = {.module = gm, .run_node = record, .user = cfx_dict_new()};
    cfx_run(&it, input());
    cfx_dict *seen = it.user;
    CHECK_INT(seen->len, 5);
    CHECK_STR(cfx_str(cfx_dict_get(seen, "linear")), "tensor([[ 3.0000, -1.5000]])");
    CHECK_STR(cfx_str(cfx_dict_get(seen, "output")), "tensor([[4., 1.]])");
}

TEST(a_handler_may_replace_a_call) {
    cfx_interp it = {.module = cfx_symbolic_trace(new_model()), .call_function = neg_for_relu};
    CHECK_STR(cfx_str(cfx_run(&it, input())), "tensor([[-2.0000,  2.5000]])");
}

TEST(given_values_are_not_computed) {
    cfx_module *gm = cfx_symbolic_trace(new_model());
    cfx_interp it = {.module = gm, .given = cfx_dict_new()};
    cfx_dict_set(it.given, "relu", cfx_tensor_value(cfx_tensor_from_value(cfx_list(10.0))));
    CHECK_STR(cfx_str(cfx_run(&it, input())), "tensor([11.])");
}

/* ---- the transformer ------------------------------------------------------------------------- */

TEST(a_transformer_rebuilds_the_graph_through_the_slots) {
    cfx_module *gm = cfx_symbolic_trace(new_model());
    cfx_node_set_meta(cfx_graph_find(gm->graph, "relu"), "custom", cfx_int(7));
    cfx_interp it = {.module = gm, .call_function = neg_for_relu};
    cfx_module *other = cfx_transform(&it);
    CHECK_STR(
        cfx_graph_str(other->graph),
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %linear : [num_users=1] = call_module[target=linear](args = (%x,), kwargs = {})\n"
        "    %neg : [num_users=1] = call_function[target=torch.neg](args = (%linear,), kwargs = "
        "{})\n"
        "    %add : [num_users=1] = call_function[target=operator.add](args = (%neg, 1), kwargs = "
        "{})\n"
        "    return add");
    CHECK_STR(cfx_str(cfx_forward(other, input())), "tensor([[-2.0000,  2.5000]])");
    CHECK_STR(cfx_str(cfx_forward(gm, input())), "tensor([[4., 1.]])");
    cfx_value custom = cfx_node_get_meta(cfx_graph_find(other->graph, "neg"), "custom");
    CHECK_INT(cfx_integer(custom), 7);
}

TEST(an_identity_transform_gives_an_equal_graph) {
    cfx_module *gm = cfx_symbolic_trace(new_model());
    cfx_interp it = {.module = gm};
    cfx_module *same = cfx_transform(&it);
    CHECK(cfx_graph_equal(gm->graph, same->graph));
}

/* ---- taps ------------------------------------------------------------------------------------ */

TEST(taps_pick_by_name_operator_and_module) {
    cfx_module *gm = cfx_symbolic_trace(new_model());
    CHECK_INT(cfx_tap(gm, "*", input())->len, 5);
    CHECK_STR(cfx_repr(cfx_tap(gm, "relu", input())), "{'relu': tensor([[3., 0.]])}");
    CHECK_STR(cfx_repr(cfx_tap(gm, "op:add", input())), "{'add': tensor([[4., 1.]])}");
    CHECK_STR(cfx_repr(cfx_tap(gm, "module:lin*", input())),
              "{'linear': tensor([[ 3.0000, -1.5000]])}");
    cfx_tap(gm, "nothing", input());
    CHECK_ERROR("no node of SimpleModel matches 'nothing'");
}

/* ---- mistakes -------------------------------------------------------------------------------- */

TEST(an_error_names_the_node) {
    cfx_module *gm = cfx_symbolic_trace(new_model());
    cfx_interp it = {.module = gm};
    cfx_run(&it, cfx_rand(2, 3));
    const cfx_error *e = cfx_error_last();
    CHECK(e && e->notes &&
          strstr(e->notes, "While executing %linear : [num_users=1] = "
                           "call_module[target=linear](args = (%x,), kwargs = {})"));
    CHECK_ERROR("mat1 and mat2 shapes cannot be multiplied (2x3 and 2x2)");
    cfx_run_from(CFX_HERE, &it, (cfx_args){0});
    CHECK_ERROR("Expected positional argument for parameter x, but one was not passed in!");
    cfx_run(&it, input(), input());
    CHECK_ERROR("takes 2 positional arguments but 3 were given");
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_graph_output(g, cfx_node_value(cfx_graph_call_module(g, "nope", cfx_tuple(x), CFX_NONE)));
    CHECK(cfx_failed(cfx_graph_module(new_model(), g, NULL)));
    cfx_error_clear();
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *run_often(void *p) {
    cfx_module *gm = p;
    const char *bad = NULL;
    for (int i = 0; i < 200 && !bad; i++)
        CFX_SCOPE {
            cfx_tensor *y = cfx_forward(gm, input());
            if (cfx_tensor_get(y, 0) != 4)
                bad = "wrong";
        }
    return cfx_ok() ? (void *)bad : "failed";
}

TEST(one_graph_module_runs_from_many_threads) {
    cfx_module *gm = cfx_symbolic_trace(new_model());
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, run_often, gm);
    for (int i = 0; i < 4; i++) {
        void *bad;
        pthread_join(t[i], &bad);
        CHECK(!bad);
    }
}

static void *trace_often(void *unused) {
    (void)unused;
    const char *bad = NULL;
    for (int i = 0; i < 50 && !bad; i++)
        CFX_SCOPE {
            cfx_module *gm = cfx_symbolic_trace(new_model());
            bad = !gm || cfx_graph_len(gm->graph) != 5 ? "wrong" : NULL;
        }
    return (void *)bad;
}

TEST(threads_may_trace_at_once) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, trace_often, NULL);
    for (int i = 0; i < 3; i++) {
        void *bad;
        pthread_join(t[i], &bad);
        CHECK(!bad);
    }
}

TEST(graph_modules_refuse_unknown_and_doubled_keywords) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x"), *y = cfx_graph_input(g, "y");
    cfx_graph_output(g, cfx_node_value(cfx_graph_call(g, "operator.sub", x, y)));
    cfx_module *gm = cfx_graph_module(cfx_module_new("M", NULL, ""), g, "M");
    CHECK_STR(cfx_repr(cfx_forward_value(gm, 5, CFX_KW(y, 2))), "3");
    CHECK_OK();
    cfx_forward_value(gm, 5, 2, CFX_KW(z, 2));
    CHECK_ERROR("forward() got an unexpected keyword argument 'z'");
    cfx_forward_value(gm, CFX_KW(z, 2)); /* Python says this before what is missing */
    CHECK_INT(cfx_error_last()->at.line, __LINE__ - 1);
    CHECK_ERROR("forward() got an unexpected keyword argument 'z'");
    cfx_forward_value(gm);
    CHECK_ERROR("forward() missing 2 required positional arguments: 'x' and 'y'");
    cfx_forward_value(gm, CFX_KW(y, 2));
    CHECK_ERROR("forward() missing 1 required positional argument: 'x'");
    cfx_forward_value(gm, 5, 2, CFX_KW(x, 2));
    CHECK_ERROR("forward() got multiple values for argument 'x'");
    cfx_forward_value(gm, CFX_KW(x, 2), CFX_KW(x, 2));
    CHECK_ERROR("keyword argument repeated: x");
    cfx_interp it = {.module = gm};
    cfx_run(&it, 5, CFX_KW(y, 2), CFX_KW(y, 2));
    CHECK_ERROR("keyword argument repeated: y");
    cfx_run(&it, 5, 2, CFX_KW(z, 2));
    CHECK_INT(cfx_error_last()->at.line, __LINE__ - 1);
    CHECK_ERROR("forward() got an unexpected keyword argument 'z'");
    cfx_add(cfx_ones(2), 1, CFX_KW(alpha, 2), CFX_KW(alpha, 2));
    CHECK_ERROR("keyword argument repeated: alpha");
}

static cfx_value no_wrap(cfx_args a) { return a.v[0]; }

TEST(what_is_null_is_told_by_name) {
    cfx_module *gm = cfx_symbolic_trace(new_model());
    cfx_mode mode = {0};
    cfx_symbolic_trace(NULL);
    CHECK_ERROR("the module to trace is NULL");
    CHECK(!cfx_hook(gm, "", NULL, NULL));
    CHECK_ERROR("a hook is a function, not NULL");
    cfx_tensor_hook(cfx_requires_grad(cfx_ones(2), true), NULL, NULL);
    CHECK_ERROR("a hook is a function, not NULL");
    cfx_graph_add_hooks(gm->graph, NULL);
    CHECK_ERROR("the hooks of a graph are a struct, not NULL");
    cfx_function_mode_push(NULL);
    CHECK_ERROR("a mode needs a function that handles calls, not NULL");
    cfx_dispatch_mode_push(&mode);
    CHECK_ERROR("a mode needs a function that handles calls, and its .handle is NULL");
    cfx_wrap("f", NULL, cfx_ones(2));
    CHECK_ERROR("a wrapped function has a name and is not NULL");
    cfx_wrap(NULL, no_wrap, cfx_ones(2));
    CHECK_ERROR("a wrapped function has a name and is not NULL");
    cfx_module_apply(gm, NULL, NULL);
    CHECK_ERROR("the function to apply is NULL");
    cfx_module_walk(gm, NULL, NULL);
    CHECK_ERROR("what to visit modules with is NULL");
    cfx_cond(NULL, true, NULL, NULL, input());
    CHECK_ERROR("a branch is a function, not NULL");
    cfx_tap(gm, NULL, input());
    CHECK_ERROR("no node of");
    cfx_run((cfx_interp *)NULL, input());
    CHECK_ERROR("an interpreter needs a GraphModule to run");
}

TEST(values_are_kept_until_the_next_run) {
    cfx_module *gm = cfx_symbolic_trace(new_model());
    const cfx_node *first = cfx_node_after(cfx_graph_first(gm->graph));
    cfx_interp it = {.module = gm, .keep_values = true};
    CFX_SCOPE cfx_run(&it, input());
    cfx_dict *tapped = cfx_tap(gm, first->name, input());
    CHECK_STR(cfx_str(cfx_interp_value(&it, first)), cfx_str(cfx_dict_get(tapped, first->name)));
    it.keep_values = false;
    cfx_run(&it, input());
    CHECK(cfx_interp_value(&it, first).tag == CFX_TAG_TENSOR);
    CHECK_OK();
    cfx_interp_run_node(&it, (cfx_node *)first);
    CHECK_ERROR("nodes are run by cfx_run, one by one");
}

/* ---- boxed runs ------------------------------------------------------------------------------ */

static int32_t seen_refs;

static cfx_value count_refs(cfx_interp *it, cfx_node *n) {
    if (n->op == CFX_OUTPUT)
        seen_refs = ((cfx_tensor *)it->user)->head.refs;
    return cfx_interp_run_node(it, n);
}

TEST(boxed_runs_empty_the_list) {
    cfx_module *gm = cfx_symbolic_trace(new_model());
    cfx_tensor *x = input();
    cfx_value box = cfx_list(x);
    cfx_interp it = {.module = gm, .run_node = count_refs, .user = x};
    cfx_value v = cfx_run_boxed(&it, box);
    CHECK_INT(cfx_as_list(box)->len, 0);
    CHECK_INT(seen_refs, 1); /* the scope's alone: the first layer has used it */
    CHECK(cfx_as_bool(cfx_equal(cfx_as_tensor(v), cfx_forward(gm, x))));
    CHECK_OK();
    cfx_run_boxed(&it, cfx_list());
    CHECK_ERROR("Interpreter.boxed_run expected 1 arguments for placeholders but received 0 "
                "(missing arguments)");
    cfx_run_boxed(&it, cfx_list(x, x));
    CHECK_ERROR("but received 2 (extra arguments)");
    cfx_run_boxed(&it, cfx_tuple(x));
    CHECK_ERROR("the inputs of a boxed run are a list, which it empties");
}

/* ---- failed graphs and modules --------------------------------------------------------------- */

static cfx_tensor *branches(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return cfx_is_true(x) ? x : cfx_neg(x);
}

static cfx_value no_hook(cfx_event *e) {
    (void)e;
    return cfx_none();
}

TEST(what_failed_is_bad_and_everything_takes_it) {
    cfx_module *gm = cfx_symbolic_trace(cfx_module_new("Branches", branches, "x"));
    cfx_graph *g = cfx_tracer_trace(NULL, gm);
    CHECK(gm && g && cfx_failed(gm) && cfx_failed(g) && cfx_failed(NULL));
    CHECK_STR(gm->type, "<bad>");
    cfx_each_node(gm->graph, n) CHECK(!n);
    cfx_each_node(g, n) CHECK(!n);
    cfx_node *x = cfx_graph_input(g, "x");
    cfx_graph_output(g, cfx_node_value(cfx_graph_call(g, "torch.relu", x)));
    cfx_module *other = cfx_graph_module(gm, g, NULL), *seq = cfx_nn_sequential(gm, other);
    cfx_module_set_attr(gm, "a", cfx_int(1));
    cfx_nn_add(gm, "child", seq);
    cfx_module_train(gm, false);
    CHECK(cfx_failed(other) && cfx_failed(cfx_module_copy(gm)) && !cfx_module_has(gm, "a"));
    CHECK(cfx_is_bad(cfx_forward_value(gm, input())) && cfx_is_bad(cfx_module_value(gm)));
    CHECK_STR(cfx_module_code(gm), "");
    CHECK_STR(cfx_graph_str(g), "");
    CHECK_INT(cfx_tap(gm, "*", input())->len, 0);
    CHECK(!cfx_hook(gm, "", no_hook, NULL));
    cfx_interp it = {.module = gm};
    CHECK(cfx_is_bad(cfx_run(&it, input())) && cfx_failed(cfx_transform(&it)));
    CHECK_ERROR("symbolically traced variables cannot be used as inputs to control flow");
    cfx_graph_call(g, "torch.relu", 1);
    CHECK_ERROR("the graph is bad");
    cfx_module_set_attr(gm, "a", cfx_int(1));
    CHECK_ERROR("the module is bad");
}

/* ---- taps of what is written to later -------------------------------------------------------- */

static cfx_tensor *writes_later(cfx_module *self, cfx_tensor *x) {
    (void)self;
    cfx_tensor *sum = cfx_add(x, -1.0), *flat = cfx_view(sum, -1);
    cfx_relu_(sum);
    return cfx_add(flat, 1.0);
}

TEST(a_tap_holds_what_the_node_gave) {
    cfx_module *m = cfx_module_new("Writes", writes_later, "x");
    cfx_dict *d = cfx_tap(cfx_symbolic_trace(m), "*", input());
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_zeros(1, 2)), CFX_NONE, CFX_NONE);
    cfx_tensor *x = cfx_tensor_from_value(cfx_list(cfx_list(0.5, 2.0)));
    CHECK_STR(cfx_str(cfx_dict_get(d, "add")), "tensor([[2., 1.]])");
    for (int i = 0; i < 2; i++) {
        cfx_module *gm = i ? cfx_symbolic_trace(m) : cfx_program_module(p);
        d = cfx_tap(gm, "*", x);
        CHECK_STR(cfx_str(cfx_dict_get(d, "add")), "tensor([[-0.5000,  1.0000]])");
        CHECK_STR(cfx_str(cfx_dict_get(d, "view")), "tensor([-0.5000,  1.0000])");
        CHECK_STR(cfx_str(cfx_dict_get(d, "relu_")), "tensor([[0., 1.]])");
        CHECK_STR(cfx_str(cfx_dict_get(d, "add_1")), "tensor([1., 2.])");
    }
    CHECK_OK();
}

static cfx_value change_op(cfx_interp *it, cfx_target t, cfx_args a) {
    t.op = &cfx_op_neg;
    return cfx_interp_call_function(it, t, a);
}

static cfx_value change_name(cfx_interp *it, cfx_target t, cfx_args a) {
    t.name = t.fn ? "torch.neg" : "aten.neg.default";
    return cfx_interp_call_function(it, t, a);
}

TEST(a_target_that_was_changed_in_part_is_refused) {
    cfx_module *gm = cfx_symbolic_trace(new_model());
    cfx_interp it = {.module = gm, .call_function = change_op};
    cfx_run(&it, input());
    CHECK_ERROR("a target was changed in part: it is called torch.relu and calls aten.neg.default; "
                "replace it whole, by cfx_target_named or cfx_target_op");
    it.call_function = change_name;
    cfx_run(&it, input());
    CHECK_ERROR("a target was changed in part: it is called torch.neg and calls");
    cfx_program *p = cfx_export(new_model(), cfx_tuple(input()), CFX_NONE, CFX_NONE);
    cfx_module *program = cfx_program_module(p);
    cfx_interp over = {.module = program, .call_function = change_name};
    cfx_run(&over, input());
    CHECK_ERROR("a target was changed in part: it is called aten.neg.default and calls");
}

TEST(selectors_pick_nodes_outside_runs_too) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x"), *y = cfx_graph_call(g, "torch.relu", x);
    CHECK(cfx_node_selected(y, "op:relu") && cfx_node_selected(y, "re*"));
    CHECK(!cfx_node_selected(y, "op:gelu") && !cfx_node_selected(x, "relu"));
    CHECK(!cfx_node_selected(NULL, "*") && !cfx_node_selected(x, NULL));
}
