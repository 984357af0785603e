// cfx.h is C++17 too, without warnings: values, lists, keywords, calls, options and passes are
// written as in C.
#include <cfx.h>

#include <cstring>

static int failures;

static void check(bool held, const char *what) {
    if (!held) {
        std::printf("tests/cpp17.cpp: %s\n", what);
        failures++;
    }
}

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    return cfx_relu(cfx_call(self, "conv", x));
}

int main() {
    check(std::strcmp(cfx_repr(cfx_list(1, 2.5, true, "a", nullptr)),
                      "[1, 2.5, True, 'a', None]") == 0, "a list of all kinds");
    check(std::strcmp(cfx_repr(cfx_tuple(cfx_list(1, 2), cfx_f32)),
                      "([1, 2], torch.float32)") == 0, "a tuple with a list");
    check(cfx_as_list(cfx_list(1L, 2u))->len == 2, "other integers");
    check(cfx_equal_values(CFX_V(3), cfx_int(3)), "CFX_V");
    check(CFX_KW(alpha, 2).tag == CFX_TAG_KEYWORD, "a keyword");

    CFX_SCOPE {
        cfx_tensor *x = cfx_keep(cfx_tensor_from_value(cfx_list(1, 2, 3)));
        check(std::strcmp(cfx_str(x), "tensor([1, 2, 3])") == 0, "a tensor");
        check(std::strcmp(cfx_str(cfx_add(cfx_relu(x), 2, CFX_KW(alpha, 10))),
                          "tensor([21, 22, 23])") == 0, "operators");
        check(std::strcmp(cfx_str(cfx_py("operator.mul", x, x)), "tensor([1, 4, 9])") == 0,
              "a call by name");
        cfx_add_(x, 1);
        check(cfx_tensor_get(x, 0) == 2, "in place");
        cfx_drop(x);
    }
    CFX_SCOPE {
        cfx_module *net = cfx_module_new("Net", forward, "x");
        cfx_nn_add(net, "conv", cfx_nn_conv2d(1, 2, 3, .padding = 1, .stride = 2, .no_bias = true));
        cfx_tensor *x = cfx_ones(cfx_list(1, 1, 4, 4)), *y = cfx_forward(net, x);
        check(cfx_dim(y, 2) == 2 && cfx_dim(y, 3) == 2, "options in any order");
        check(cfx_backward(cfx_sum(y), .retain_graph = true), "options of a call");
        cfx_module *gm = cfx_symbolic_trace(net);
        cfx_node *relu = cfx_graph_find(gm->graph, "relu");
        CFX_INSERT_BEFORE(gm->graph, relu)
        cfx_node_replace(relu, cfx_neg(cfx_proxy(cfx_node_input(relu, 0))));
        check(cfx_node_is(cfx_node_before(relu), "neg"), "a node as an operand");
        cfx_interp it = CFX_OPTIONS(cfx_interp, .module = gm);
        check(cfx_dim(cfx_as_tensor(cfx_run(&it, x)), 2) == 2, "an interpreter");
        check(cfx_as_list(cfx_list())->len == 0 && cfx_ok(), "nothing at all");
    }
    return cfx_finish(stdout) | (failures ? 1 : 0);
}
