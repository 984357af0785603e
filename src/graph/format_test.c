#include "test.h"

#include "graph.h"

static const char *line(cfx_value args, cfx_dict *kwargs) {
    cfx_graph *g = cfx_graph_new();
    return cfx_node_format(cfx_graph_call_function(g, "f", args, cfx_dict_value(kwargs)));
}

#define LINE(args, kwargs)                                                                         \
    "%f : [num_users=0] = call_function[target=f](args = " args ", kwargs = " kwargs ")"

TEST(arguments_print_as_str) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_device cuda = {CFX_CUDA, 0};
    cfx_dict *kw = cfx_dict_new();
    cfx_dict_set(kw, "mode", cfx_string_value("nearest"));
    cfx_dict_set(kw, "dtype", cfx_f32);
    cfx_dict_set(kw, "device", cfx_device_value(cuda));
    CHECK_STR(line(cfx_tuple(x, "a b", cfx_list("c", x, cfx_tuple(x)), -5, 1e-5, CFX_NONE), kw),
              LINE("(%x, a b, [c, %x, (%x,)], -5, 1e-05, None)",
                   "{mode: nearest, dtype: torch.float32, device: cuda:0}"));
    cfx_value slice = cfx_slice_value(cfx_node_value(x), cfx_string_value("s"), CFX_NONE);
    cfx_dict *inner = cfx_dict_new();
    cfx_dict_put(inner, cfx_int(3), cfx_node_value(x));
    CHECK_STR(line(cfx_tuple(slice, cfx_ellipsis(), inner, cfx_bool(true)), NULL),
              LINE("(slice(x, 's', None), Ellipsis, {3: %x}, True)", "{}"));
    CHECK_STR(line(CFX_NONE, NULL), LINE("()", "{}"));
}

TEST(a_node_is_one_line_whatever_its_strings_hold) {
    cfx_dict *kw = cfx_dict_new();
    cfx_dict_set(kw, "k", cfx_string_value("\n    %y : [num_users=1]"));
    CHECK_STR(line(cfx_tuple("a\n%x", cfx_list("\033[2J")), kw),
              LINE("(a\\n%x, [\\u001b[2J])", "{k: \\n    %y : [num_users=1]}"));
    cfx_graph *g = cfx_graph_new();
    cfx_graph_get_attr(g, "a\n%b");
    cfx_graph_placeholder(g, "x", "int\n", true, cfx_string_value("\n"));
    CHECK_STR(cfx_graph_str(g), "graph():\n    %a_b : [num_users=0] = get_attr[target=a\\n%b]\n"
                                "    %x : int\\n [num_users=0] = placeholder[target=x]"
                                "(default=\\n)");
    CHECK_OK();
}

TEST(each_opcode_prints_in_its_own_way) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", "torch.Tensor", false, CFX_NONE);
    cfx_graph_placeholder(g, "y", NULL, true, CFX_NONE);
    cfx_graph_placeholder(g, "z", "str", true, cfx_string_value("a"));
    cfx_node *p = cfx_graph_get_attr(g, "lin.weight");
    cfx_node *a = cfx_graph_call_function(g, "aten.add.Tensor", cfx_tuple(x, p), CFX_NONE);
    cfx_node *m = cfx_graph_call_module(g, "layers.0", cfx_tuple(a), CFX_NONE);
    cfx_node *s = cfx_graph_call_method(g, "size", cfx_tuple(m, 0), CFX_NONE);
    cfx_graph_call_function(g, "getattr", cfx_tuple(m, "shape"), CFX_NONE);
    cfx_graph_call_function(g, "torch.ops.my.op.default", CFX_NONE, CFX_NONE);
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "z", cfx_list(m, s));
    cfx_node *out = cfx_graph_output(g, cfx_dict_value(d));
    CHECK_STR(cfx_graph_str(g),
              "graph():\n"
              "    %x : torch.Tensor [num_users=1] = placeholder[target=x]\n"
              "    %y : [num_users=0] = placeholder[target=y](default=None)\n"
              "    %z : str [num_users=0] = placeholder[target=z](default=a)\n"
              "    %lin_weight : [num_users=1] = get_attr[target=lin.weight]\n"
              "    %add_tensor : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor]"
              "(args = (%x, %lin_weight), kwargs = {})\n"
              "    %layers_0 : [num_users=3] = call_module[target=layers.0](args = "
              "(%add_tensor,), kwargs = {})\n"
              "    %size : [num_users=1] = call_method[target=size](args = (%layers_0, 0), kwargs "
              "= {})\n"
              "    %getattr_1 : [num_users=0] = call_function[target=builtins.getattr](args = "
              "(%layers_0, shape), kwargs = {})\n"
              "    %op_default : [num_users=0] = call_function[target=torch.ops.my.op.default]"
              "(args = (), kwargs = {})\n"
              "    return {'z': [layers_0, size]}");
    cfx_node_set_args(out, cfx_tuple("text"));
    CHECK_STR(cfx_node_format(out), "return text");
    CHECK_STR(cfx_node_format(NULL), "None");
    CHECK_STR(cfx_graph_str(cfx_graph_new()), "graph():");
    CHECK_OK();
}
