/* Drawings: a graph becomes a picture, or a page to look around in.
 *
 * SVG needs no other program and no font: boxes coloured by operator family, modules as frames,
 * parameters inside the box that uses them, sub-graphs of cond and loops inside their node. The
 * same graph gives the same bytes. HTML is a viewer in one file: modules open in place, nodes are
 * searched for, selected and coloured by any column of numbers. DOT is what torch.fx's
 * FxGraphDrawer hands to graphviz. */
#ifndef CFX_DRAW_H
#define CFX_DRAW_H

#include <cfx/emit.h>
#include <cfx/pair.h>
#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cfx_draw_form { CFX_SVG, CFX_DOT, CFX_HTML } cfx_draw_form;

/* What the caller paints on a node. The texts are read before the next node is asked for. */
typedef struct cfx_node_style {
    const char *fill;  /* a CSS colour, "#ffd0d0"; NULL: by kind and operator family */
    const char *lines; /* more label lines, each ended by a line feed; NULL: none */
} cfx_node_style;

/* Fills in `style`, which is empty, for a node. Nodes of sub-graphs are asked for too. */
typedef void cfx_style_fn(const cfx_node *n, cfx_node_style *style, void *user);

/* How to draw; zero means the default. */
typedef struct cfx_draw_options {
    cfx_draw_form form;  /* for the functions that return text; a path tells by its suffix */
    const char *name;    /* the title; NULL: the type of the module, or "graph" */
    cfx_style_fn *style; /* NULL: no style of the caller's */
    void *user;          /* for style */
    /* SVG */
    int depth;           /* modules nested deeper than this are one box; 0: as deep as about 200
                            boxes allow */
    bool all;            /* every module open, whatever the number of boxes */
    const char *focus;   /* a selector (see cfx_tap): only the nodes it picks, with two steps of
                            what surrounds them; NULL: all nodes */
    /* HTML: depth and focus are where the viewer starts */
    cfx_dict *columns;   /* facts of nodes: a name, "time (us)", to a dict of node name to a number,
                            a text or a list of numbers (a histogram). Nodes of sub-graphs are
                            called "cond.true_graph_0.add". NULL: none */
    cfx_pairs *pairs;    /* the other program stands beside it, b of these pairs, and what differs
                            is marked; the program drawn is a of them. NULL: none */
    cfx_dict *columns_b; /* facts of that program's nodes */
    /* DOT: the options of FxGraphDrawer */
    bool ignore_getattr;
    bool ignore_parameters_and_buffers;
    bool node_names_in_args; /* skip_node_names_in_args=False */
    bool parse_stack_trace;
    bool normalize_args;
    const char *dot_graph_shape; /* NULL: "record" */
} cfx_draw_options;

/* The drawing as text; scope. NULL, with an error, when there is nothing to draw: no graph, an
 * empty one, one that fails lint, a focus that no node fits, a colour that is none, a column of a
 * node that is not there. Of a program
 * parameters and buffers are known as such; of a bare graph modules are known by metadata alone. */
CFX_API const char *cfx_graph_draw(cfx_graph *g, cfx_draw_options options);
CFX_API const char *cfx_module_draw(cfx_module *gm, cfx_draw_options options);
CFX_API const char *cfx_program_draw(cfx_program *p, cfx_draw_options options);

/* The same into a file, .svg, .html or .dot. False, with an error, when it cannot be drawn or
 * written: the file is then as it was before, and none is left where there was none. */
CFX_API bool cfx_graph_draw_file(cfx_graph *g, const char *path, cfx_draw_options options);
CFX_API bool cfx_module_draw_file(cfx_module *gm, const char *path, cfx_draw_options options);
CFX_API bool cfx_program_draw_file(cfx_program *p, const char *path, cfx_draw_options options);

/* Prints the drawing of a GraphModule. */
CFX_API void cfx_print_drawing(cfx_module *gm, FILE *out, cfx_draw_options options);

#ifdef __cplusplus
}
#endif
#endif
