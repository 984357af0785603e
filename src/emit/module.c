/* The texts of a GraphModule, and the functions that print them. */
#include "../base/given.h"
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

const char *cfx_graph_readable(const cfx_graph *g, cfx_readable_options options) {
    if (cfx_failed(g))
        return "";
    cfx__text out = {0};
    cfx__emit_code(&out, g, &options, 4, NULL);
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

/* Whether there is a graph, and a file to print it to. */
static bool prints(const cfx_module *gm, const char *attribute, const FILE *out) {
    return cfx__given((cfx_site){0}, out, "file") && cfx__emit_wants_graph(gm, attribute);
}

void cfx_print_graph(const cfx_module *gm, FILE *out) {
    CFX_SCOPE if (prints(gm, "graph", out))
        fprintf(out, "%s\n", cfx_graph_str(gm->graph));
}

void cfx_print_tabular(const cfx_module *gm, FILE *out) {
    CFX_SCOPE if (prints(gm, "graph", out))
        fprintf(out, "%s\n", cfx_graph_tabular(gm->graph));
}

void cfx_print_code(const cfx_module *gm, FILE *out) {
    CFX_SCOPE if (prints(gm, "code", out))
        fprintf(out, "%s\n", cfx_module_code(gm));
}

void cfx_print_readable(const cfx_module *gm, FILE *out) {
    CFX_SCOPE if (prints(gm, "print_readable", out))
        fprintf(out, "%s\n", cfx_module_readable(gm, (cfx_readable_options){0}));
}
