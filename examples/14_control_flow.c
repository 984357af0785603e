/* Control flow in a graph: what an `if` on a tensor cannot be, cfx_cond is. Each branch becomes a
 * graph of its own, and a traced or exported model still chooses when it runs. Taps see inside. */
#include <cfx.h>

static cfx_value large(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_call(self, "shrink", a.v[0]));
}

static cfx_value small(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_mul(a.v[0], 2));
}

static cfx_value forward(cfx_module *self, cfx_args a) {
    cfx_tensor *total = cfx_sum(a.v[0]);
    return cfx_cond(self, cfx_gt(total, 10), large, small, a.v[0]);
}

static cfx_value below(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_lt(cfx_sum(a.v[0]), 100));
}

static cfx_value grow(cfx_module *self, cfx_args a) { return cfx_call_value(self, "", a.v[0]); }

static cfx_value refuses(cfx_module *self, cfx_args a) {
    return cfx_is_true(cfx_sum(a.v[0])) ? large(self, a) : small(self, a);
}

int main(void) {
    cfx_module *m = cfx_module_new("Choice", forward, "x");
    cfx_nn_add(m, "shrink", cfx_nn_relu());
    cfx_module *traced = cfx_symbolic_trace(m);
    cfx_print_readable(traced, stdout);

    cfx_tensor *x = cfx_tensor_from_value(cfx_list(-1.0, 3.0));
    for (int i = 0; i < 4; i++) {
        printf("%s\n", cfx_str(x));
        x = cfx_forward(traced, x);
    }

    cfx_module *doubling = cfx_module_new("Double", small, "x");
    cfx_value grown = cfx_while_loop(doubling, below, grow, cfx_ones(3));
    printf("grown: %s\n", cfx_str(cfx_at(grown, 0)));

    cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE);
    printf("%s\n", cfx_module_code(p->module));
    cfx_dict *seen = cfx_tap(p->module, "cond.*.relu", x);
    printf("%s: %s\n", cfx_text(seen->entries[0].key), cfx_str(seen->entries[0].value));

    cfx_symbolic_trace(cfx_module_new("Refused", refuses, "x"));
    printf("%s\n", cfx_error_last()->message);
    cfx_error_clear();
    return cfx_finish(stderr);
}
