// cfx.h is C++17 too: values, lists, keywords and calls are written as in C.
#include <cfx.h>

#include <cstring>

static int failures;

static void check(bool held, const char *what) {
    if (!held) {
        std::printf("tests/cpp17.cpp: %s\n", what);
        failures++;
    }
}

int main() {
    check(std::strcmp(cfx_repr(cfx_list(1, 2.5, true, "a", nullptr)),
                      "[1, 2.5, True, 'a', None]") == 0, "a list of all kinds");
    check(std::strcmp(cfx_repr(cfx_tuple(cfx_list(1, 2), cfx_f32)),
                      "([1, 2], torch.float32)") == 0, "a tuple with a list");
    check(cfx_list(1L, 2u).list->len == 2, "other integers");
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
    return cfx_finish(stdout) | (failures ? 1 : 0);
}
