/* Drawings of one model at three levels: as it was traced, as ATen operators, as Core ATen. Printed
 * here as DOT, for graphviz; "09_draw FOLDER" also writes them as SVG, which needs no other
 * program. (The program of "Inspecting and Visualizing Torch FX Graph".) */
#include <cfx.h>

#include <string.h>

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    x = cfx_call(self, "relu", cfx_call(self, "fc1", x));
    return cfx_call(self, "fc2", x);
}

/* What the caller paints on a node: here, how many multiplications it stands for. */
static void cost(const cfx_node *n, cfx_node_style *style, void *user) {
    (void)user;
    if (!strcmp(n->name, "addmm") || !strcmp(n->name, "addmm_1")) {
        style->fill = "#fecaca";
        style->lines = "512 multiplications";
    }
}

int main(int argc, char **argv) {
    cfx_module *mlp = cfx_module_new("MLP", forward, "x");
    cfx_nn_add(mlp, "fc1", cfx_nn_linear(16, 32));
    cfx_nn_add(mlp, "relu", cfx_nn_relu());
    cfx_nn_add(mlp, "fc2", cfx_nn_linear(32, 16));

    cfx_module *traced = cfx_symbolic_trace(mlp);
    cfx_program *aten = cfx_export(mlp, cfx_tuple(cfx_randn(1, 16)), CFX_NONE, CFX_NONE);
    cfx_program *core = cfx_decompose(aten, CFX_NONE);

    cfx_print_drawing(traced, stdout, (cfx_draw_options){.form = CFX_DOT});
    fputs(cfx_program_draw(aten, (cfx_draw_options){.form = CFX_DOT, .name = "ATen"}), stdout);
    if (argc > 1) {
        char path[512];
        snprintf(path, sizeof path, "%s/mlp_traced.svg", argv[1]);
        cfx_module_draw_file(traced, path, (cfx_draw_options){.name = "MLP, traced"});
        snprintf(path, sizeof path, "%s/mlp_aten.svg", argv[1]);
        cfx_program_draw_file(aten, path, (cfx_draw_options){.name = "MLP, ATen"});
        snprintf(path, sizeof path, "%s/mlp_core.svg", argv[1]);
        cfx_program_draw_file(core, path,
                              (cfx_draw_options){.name = "MLP, Core ATen", .style = cost});
    }
    return cfx_finish(stderr);
}
