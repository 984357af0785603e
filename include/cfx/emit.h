/* Text: a graph becomes text, and text a graph. Every form equals PyTorch 2.11's byte for byte. */
#ifndef CFX_EMIT_H
#define CFX_EMIT_H

#include <cfx/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How print_readable writes; zero means PyTorch's default. */
typedef struct cfx_readable_options {
    bool include_stride;
    bool include_device;
    bool colored;
    bool expanded_def;
} cfx_readable_options;

/* The texts of a graph or GraphModule; scope. */
CFX_API const char *cfx_graph_tabular(const cfx_graph *g); /* graph.print_tabular() */
CFX_API const char *cfx_module_code(const cfx_module *gm); /* gm.code */
CFX_API const char *cfx_graph_module_str(const cfx_module *gm); /* print(gm) */
CFX_API const char *cfx_module_readable(const cfx_module *gm, cfx_readable_options options);

/* The same, printed. */
CFX_API void cfx_print_graph(const cfx_module *gm, FILE *out);
CFX_API void cfx_print_tabular(const cfx_module *gm, FILE *out);
CFX_API void cfx_print_code(const cfx_module *gm, FILE *out);
CFX_API void cfx_print_readable(const cfx_module *gm, FILE *out);

/* A graph from its text, in the graph form ("graph():") or the code form ("def forward(...)");
 * scope. what names the text in errors, which give line and column and show the line. */
CFX_API cfx_graph *cfx_graph_parse(const char *text, const char *what);

#ifdef __cplusplus
}
#endif
#endif
