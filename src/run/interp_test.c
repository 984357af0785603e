/* The interpreter beyond plain calls: arguments that take the rest, what is not there, profiles. */
#include "test.h"

#include "run.h"

static cfx_module *parsed(const char *text) { return cfx_module_parse(text, "test"); }

static cfx_value run(cfx_module *gm, cfx_args a) {
    cfx_interp it = {.module = gm};
    return cfx_run_from(CFX_HERE, &it, a);
}

TEST(placeholders_with_stars_take_the_rest) {
    cfx_module *gm = parsed(
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %y : [num_users=1] = placeholder[target=y](default=10)\n"
        "    %args : [num_users=1] = placeholder[target=*args]\n"
        "    %kwargs : [num_users=1] = placeholder[target=**kwargs]\n"
        "    %first : [num_users=1] = call_function[target=operator.getitem](args = (%args, 0), "
        "kwargs = {})\n"
        "    %scale : [num_users=1] = call_function[target=operator.getitem](args = (%kwargs, "
        "scale), kwargs = {})\n"
        "    %mul : [num_users=1] = call_function[target=operator.mul](args = (%first, %scale), "
        "kwargs = {})\n"
        "    %add : [num_users=1] = call_function[target=operator.add](args = (%mul, %x), "
        "kwargs = {})\n"
        "    %sub : [num_users=1] = call_function[target=operator.sub](args = (%add, %y), "
        "kwargs = {})\n"
        "    return sub\n");
    CHECK_OK();
    CHECK_STR(cfx_str(run(gm, CFX_ARGS(1, 2, 3, CFX_KW(scale, 4)))), "11");
    CHECK_OK();
}

TEST(what_a_graph_names_and_its_module_lacks_is_said) {
    cfx_module *gm = parsed("graph():\n"
                            "    %w : [num_users=1] = get_attr[target=w]\n"
                            "    return w\n");
    run(gm, (cfx_args){0, NULL, NULL});
    CHECK_ERROR("Node referenced nonexistent target w");
    gm = parsed("graph():\n"
                "    %x : [num_users=1] = placeholder[target=x]\n"
                "    %m : [num_users=1] = call_module[target=m](args = (%x,), kwargs = {})\n"
                "    return m\n");
    run(gm, CFX_ARGS(1));
    CHECK_ERROR("Node referenced nonexistent target m");
    CHECK(!cfx_graph_module_recompile(NULL));
    CHECK_ERROR("only a GraphModule can be recompiled");
    CHECK(!cfx_graph_module_add(gm, NULL, NULL));
    CHECK_ERROR("the module is NULL");
    cfx_tap(cfx_nn_relu(), "x", 1);
    CHECK_ERROR("only a GraphModule can be tapped");
    cfx_print_profile(cfx_nn_relu(), 1, stdout, 1);
    CHECK_ERROR("only a GraphModule can be profiled node by node");
}

TEST(slices_of_nodes_are_filled_in) {
    cfx_module *gm = parsed("def forward(self, x, n):\n"
                            "    rows = x[slice(None, n, None)]\n"
                            "    return rows\n");
    CHECK_STR(cfx_str(run(gm, CFX_ARGS(cfx_tensor(cfx_list(1.0, 2.0, 3.0)), 2))),
              "tensor([1., 2.])");
    CHECK_OK();
}

TEST(a_profile_is_a_line_for_each_node) {
    cfx_module *gm = parsed("def forward(self, x):\n"
                            "    relu = torch.relu(x)\n"
                            "    return relu\n");
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    cfx_print_profile(gm, 3, out, cfx_ones(cfx_list(4)));
    fclose(out);
    CHECK_OK();
    CHECK(strstr(text, "relu") != NULL);
    free(text);
}

TEST(shapes_are_noted_with_their_format) {
    cfx_module *gm = parsed("def forward(self, x):\n"
                            "    relu = torch.relu(x)\n"
                            "    return {'y': relu, 'n': 1}\n");
    cfx_value last = cfx_memory_format_value(CFX_CHANNELS_LAST);
    cfx_tensor *x = cfx_contiguous(cfx_ones(cfx_list(2, 3, 4, 4)), CFX_KW(memory_format, last));
    cfx_shape_prop(gm, x);
    CHECK_OK();
    cfx_value meta = cfx_node_get_meta(cfx_graph_find(gm->graph, "relu"), "tensor_meta");
    CHECK(strstr(cfx_tensor_meta_str(meta), "memory_format=torch.channels_last") != NULL);
}

/* ---- items of results ------------------------------------------------------------------------ */

static cfx_value run_plainly(cfx_interp *it, cfx_node *n) { return cfx_interp_run_node(it, n); }

static cfx_value count_items(cfx_interp *it, cfx_target t, cfx_args a) {
    *(int *)it->user += !strcmp(t.name, "operator.getitem");
    return cfx_interp_call_function(it, t, a);
}

static cfx_value count_item_calls(cfx_mode *self, cfx_target t, cfx_args a) {
    *(int *)self->user += !strcmp(t.name, "operator.getitem");
    return cfx_mode_forward(self, t, a);
}

/* They are taken without a call, unless somebody looks at calls. */
TEST(items_are_taken_however_nodes_are_run) {
    cfx_module *gm = parsed("def forward(self, x):\n"
                            "    split = torch.ops.aten.split.Tensor(x, 1)\n"
                            "    first = split[0]\n"
                            "    last = split[1]\n"
                            "    sub = torch.ops.aten.sub.Tensor(last, first)\n"
                            "    return sub\n");
    cfx_tensor *x = cfx_tensor(cfx_list(1.0, 5.0));
    int calls = 0;
    cfx_mode mode = {.handle = count_item_calls, .user = &calls};
    cfx_interp plain = {.module = gm}, nodes = {.module = gm, .run_node = run_plainly};
    cfx_interp slot = {.module = gm, .call_function = count_items, .user = &calls};
    CHECK_STR(cfx_str(cfx_run(&plain, x)), "tensor([4.])");
    CHECK_STR(cfx_str(cfx_run(&nodes, x)), "tensor([4.])");
    CHECK_INT(calls, 0);
    CHECK_STR(cfx_str(cfx_run(&slot, x)), "tensor([4.])");
    CHECK_INT(calls, 2);
    cfx_function_mode_push(&mode);
    CHECK_STR(cfx_str(cfx_run(&nodes, x)), "tensor([4.])");
    cfx_function_mode_pop();
    CHECK_INT(calls, 4);
    cfx_run(&nodes, cfx_ones(1));
    CHECK_ERROR("list index out of range");
}
