/* The texts of a GraphModule, and the functions that print them. */
#include "emit.h"

bool cfx__emit_wants_graph(const cfx_module *m, const char *attribute) {
    if (m && m->graph)
        return true;
    if (cfx__module_given(m))
        cfx_fail(CFX_ATTRIBUTE_ERROR, (cfx_site){0}, "'%s' object has no attribute '%s'", m->type,
                 attribute);
    return false;
}

const char *cfx_graph_code(const cfx_graph *g) {
    if (cfx_failed(g))
        return "";
    cfx__text out = {0};
    cfx__emit_code(&out, g, NULL, 4, NULL);
    return cfx__text_take(&out);
}

const char *cfx_module_code(const cfx_module *gm) {
    return cfx__emit_wants_graph(gm, "code") ? cfx_graph_code(gm->graph) : "";
}

const char *cfx_graph_module_str(const cfx_module *gm) {
    if (!cfx__emit_wants_graph(gm, "code"))
        return "";
    cfx__text out = {0};
    cfx__text_puts(&out, cfx_module_str(gm));
    cfx__text_putc(&out, '\n');
    cfx__emit_code(&out, gm->graph, NULL, 4, NULL);
    cfx__text_puts(&out, "\n# To see more debug info, please use `graph_module.print_readable()`");
    return cfx__text_take(&out);
}

void cfx_print_graph(const cfx_module *gm, FILE *out) {
    CFX_SCOPE if (cfx__emit_wants_graph(gm, "graph"))
        fprintf(out, "%s\n", cfx_graph_str(gm->graph));
}

void cfx_print_tabular(const cfx_module *gm, FILE *out) {
    CFX_SCOPE if (cfx__emit_wants_graph(gm, "graph"))
        fprintf(out, "%s\n", cfx_graph_tabular(gm->graph));
}

void cfx_print_code(const cfx_module *gm, FILE *out) {
    CFX_SCOPE if (cfx__emit_wants_graph(gm, "code"))
        fprintf(out, "%s\n", cfx_module_code(gm));
}

void cfx_print_readable(const cfx_module *gm, FILE *out) {
    CFX_SCOPE if (cfx__emit_wants_graph(gm, "print_readable"))
        fprintf(out, "%s\n", cfx_module_readable(gm, (cfx_readable_options){0}));
}
