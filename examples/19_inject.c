/* "Injecting custom logging, profiling tools, or safety checks directly into the model structure",
 * and operator fusion, as "Mastering PyTorch FX Graph" promises in its section 1: passes over an
 * exported program put them in, and take them out again. */
#include <cfx.h>
#include <string.h>

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *y = cfx_relu(cfx_call(self, "norm", cfx_call(self, "conv", x)));
    return cfx_log(cfx_add(y, x));
}

static void apply(cfx_program *p, const char *name, const char *option, const char *value) {
    cfx_dict *options = cfx_dict_new();
    if (option)
        cfx_dict_set(options, option, cfx_string_value(value));
    int changes = cfx_pass_apply(cfx_pass_find(name), p, options);
    printf("%s: %d changes\n", name, changes);
}

/* Times are others on every run, and last digits on every machine: numbers are left out. */
static void show_line(const char *line, void *user) {
    const char *end = strstr(line, " ms") ? strchr(line, ':') : strstr(line, " min");
    (void)user;
    printf("  logged: %.*s\n", (int)(end - line), line);
}

int main(void) {
    cfx_module *m = cfx_module_new("ConvNormReLU", forward, "x");
    cfx_manual_seed(0);
    cfx_nn_add(m, "conv", cfx_nn_conv2d(2, 2, 1));
    cfx_nn_add(m, "norm", cfx_nn_batch_norm2d(2));
    cfx_module_train(m, false);
    cfx_tensor *x = cfx_ones(1, 2, 2, 2);
    cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE);
    cfx_set_log(show_line, NULL);

    /* fusion: the norm goes into the convolution, which then is one with what follows */
    cfx_tensor *before = cfx_as_tensor(cfx_program_run(p, x));
    apply(p, "fold_batch_norm", NULL, NULL);
    apply(p, "group_layers", NULL, NULL);
    cfx_print_code(p->module, stdout);
    cfx_print_code(cfx_module_find(p->module, "layer_0"), stdout);
    cfx_tensor *after = cfx_as_tensor(cfx_program_run(p, x));
    printf("the numbers are the same: %s\n",
           cfx_is_true(cfx_allclose(before, after)) ? "yes" : "no");

    /* what flows, how long it takes, and what must not be */
    apply(p, "inline", NULL, NULL);
    apply(p, "log", "nodes", "op:relu");
    apply(p, "time", "nodes", "op:conv2d");
    apply(p, "check_nan", "nodes", "op:log");
    cfx_print_code(p->module, stdout);
    cfx_program_run(p, x);
    cfx_program_run(p, cfx_mul(x, -1));
    printf("%s\n", cfx_error_last()->message);
    cfx_error_clear();

    /* and out again */
    apply(p, "remove_logging", NULL, NULL);
    apply(p, "remove_asserts", NULL, NULL);
    cfx_print_code(p->module, stdout);
    return cfx_finish(stderr);
}
