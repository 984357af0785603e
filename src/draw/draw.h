/* draw: where a graph becomes a picture.
 *
 * A drawing goes through five steps, each over flat arrays of one scene and each linear in its
 * size (times the depth of modules):
 *
 *   tree.c    graph to items: boxes for nodes, frames for modules and sub-graphs; which are open
 *   spine.c   which of them are the model itself, and which masks, constants and leftovers
 *   wires.c   which visible item feeds which, rank by rank; what is cut to a stub
 *   label.c   what stands in each box, and so its size
 *   layout.c  order, x and y in each open frame, from the innermost out (place.c: one frame)
 *
 * and svg.c paints the scene. dot.c goes straight from the graph.
 *
 * Invariant: items are in the order of execution, a frame before what is in it, and everything in
 * a frame is one run of nodes in that order. So wires point from lower to higher items, frames
 * never form a cycle, and equal graphs give equal scenes. Coordinates are whole pixels. */
#ifndef CFX__DRAW_H
#define CFX__DRAW_H

#include <cfx/draw.h>

#include "../emit/emit.h"
#include "../run/run.h"

/* ---- text ---------------------------------------------------------------------------------- */

typedef enum cfx__draw_line_style {
    CFX__LINE_NAME,
    CFX__LINE_OP,
    CFX__LINE_MODULE,
    CFX__LINE_CONSTANT,
    CFX__LINE_PARAMETER,
    CFX__LINE_SHAPE,
    CFX__LINE_EXTRA
} cfx__draw_line_style;

/* One line of a box, in scene->text. */
typedef struct cfx__draw_line {
    uint32_t at, len;
    int16_t width; /* in characters of a fixed width */
    uint8_t style;
} cfx__draw_line;

enum { /* pixels */
    CFX__CHAR_W = 7,   /* an advance of 0.6 em at 11 px, rounded up */
    CFX__LINE_H = 15,
    CFX__PAD = 8,      /* between the text of a box and its border */
    CFX__MAX_CHARS = 38, /* longer lines are cut */
    CFX__STUB_W = 6,   /* a character of a stub's label */
    CFX__STUB_LINE = 14, /* the line of a stub beside its box */
    CFX__MAX_STUBS = 12, /* more are summed up in one line */
    CFX__STUB_CHARS = 22
};

/* ---- families ------------------------------------------------------------------------------ */

#define CFX__FAMILIES(X)                                                                           \
    X(INPUT, "input")                                                                              \
    X(OUTPUT, "output")                                                                            \
    X(PARAMETER, "parameter")                                                                      \
    X(MODULE, "module")                                                                            \
    X(CONTROL, "control flow")                                                                     \
    CFX__OP_FAMILIES(X)

typedef enum cfx__draw_family {
#define CFX__FAMILY_ENUM(name, text) CFX__FAMILY_##name,
    CFX__FAMILIES(CFX__FAMILY_ENUM)
#undef CFX__FAMILY_ENUM
    CFX__FAMILY_COUNT
} cfx__draw_family;

/* The colours of a family, as CSS has them. */
typedef struct cfx__draw_tone {
    const char *fill, *line;
} cfx__draw_tone;

typedef struct cfx__draw_tones_row {
    cfx__draw_tone light, dark;
} cfx__draw_tones_row;

extern const cfx__draw_tones_row cfx__draw_tones[CFX__FAMILY_COUNT];

/* ---- the scene ----------------------------------------------------------------------------- */

typedef enum cfx__draw_item_kind {
    CFX__ITEM_BOX,    /* a node */
    CFX__ITEM_MODULE, /* a call of a module: a frame when open, a box when closed */
    CFX__ITEM_HOLDER, /* a node with sub-graphs inside: the same */
    CFX__ITEM_GRAPH,  /* a graph: the root (item 0) or a sub-graph; a frame */
    CFX__ITEM_REPEAT, /* modules in a row that are alike: the same; the first lends path and type */
    CFX__ITEM_SECTION, /* a part of a frame with very many children: the same */
    CFX__ITEM_ASIDE   /* items in a row that are beside the spine (spine.c): the same */
} cfx__draw_item_kind;

/* Where an item stands: on the spine of its program, or beside it (spine.c). */
typedef enum cfx__draw_side {
    CFX__NO_SIDE,
    CFX__ON_SPINE,
    CFX__UNUSED,
    CFX__CONSTANTS,
    CFX__SIDE
} cfx__draw_side;

typedef struct cfx__draw_item {
    uint8_t kind; /* cfx__draw_item_kind */
    uint8_t family;
    uint8_t side; /* cfx__draw_side */
    bool open;    /* a frame whose inside is drawn */
    bool seen;    /* drawn: every frame around it is open */
    bool context; /* around the focus, not in it */
    bool hidden;  /* in a block like one that is drawn, which stands for it: item `like` */
    bool gone;    /* a frame that was dissolved; dropped by cfx__draw_compact */
    cfx_node *node;                /* BOX, HOLDER */
    const char *path, *type, *key; /* of the module; a box may have those of a frame around it */
    const char *until;             /* REPEAT, SECTION, ASIDE: the path or node name of the last */
    int times;                     /* REPEAT: how many there are */
    int call;                      /* which call of that module, from 1 */
    int graph;                     /* in scene->graphs */
    int parent, first, last, next; /* the tree; -1: none */
    int depth;                     /* of frames around it; the root has 0 */
    int nodes;                     /* how many are in it */
    int end;                       /* items of it are those from its own number to before this */
    int shown;                     /* the item that stands for it: itself or a closed frame */
    int like;                      /* where it is hidden: the same item of the block drawn */
    int title;                     /* of a frame: where its lines start, x in it */
    int rank;                      /* in its frame */
    int ranks, width, columns;     /* of a frame: ranks, boxes side by side, columns */
    int line, nlines;              /* in scene->lines */
    int stub, nstubs;              /* in scene->stubs: its inputs that are cut */
    int uses;                      /* wires from it that are cut, or lead out of the picture */
    const char *fill;              /* the caller's colour, or NULL; in scene->arena */
    int x, y, w, h;                /* the rectangle: in its frame at first, on the page at last */
    int left, right;               /* room beside it for stubs */
} cfx__draw_item;

typedef VEC(cfx__draw_item) cfx__draw_items;

/* A graph being drawn: the root or a sub-graph. */
typedef struct cfx__draw_sheet {
    cfx_graph *graph;
    cfx_module *module;   /* its GraphModule, or NULL */
    cfx_program *program; /* of the root, or NULL */
    const char *prefix;   /* of anchors: "cond.true_graph_0."; in scene->arena */
    int *item;            /* by node id: the item, or one of those below */
    uint8_t *family;      /* by row of the graph's index: cfx__draw_family plus one, 0 unknown */
    int *mark;            /* by node id: the last item that counted it, plus one */
    struct cfx__draw_fold *fold; /* by node id: what a node that is folded stands for */
} cfx__draw_sheet;

enum { CFX__FOLDED = -1, CFX__LEFT_OUT = -2 };

/* A node that is drawn as a line in each box that uses it: a parameter, a buffer, a constant, an
 * attribute. */
typedef struct cfx__draw_fold {
    const char *target;      /* "fc1.weight" */
    const cfx_tensor *tensor; /* or NULL, where only its metadata is known */
    const char *kind;        /* "parameter", ... */
    cfx_module *graph;       /* it is a sub-graph, drawn in the node that uses it */
    int last;                /* scratch of label.c: the item that listed it last */
} cfx__draw_fold;

/* A value that goes from one visible item to another, once for each pair. */
typedef struct cfx__draw_wire {
    int from, to;
    int leg, nlegs; /* in scene->legs */
    bool cut;
} cfx__draw_wire;

/* The part of a wire in one frame: between two of its children, or a child and the border. */
typedef struct cfx__draw_leg {
    int frame, wire;
    int from, to; /* children of frame; -1: the border */
    int port;     /* where it meets the border, x in the frame */
} cfx__draw_leg;

typedef struct cfx__draw_stub {
    int from;            /* the item whose value it is; -1: a node that is not drawn */
    const cfx_node *node; /* that node */
} cfx__draw_stub;

/* A drawn line: down from (x0, y0) to turn0, over to x1 at turn1, down to y1. Where `lane` is not
 * 0 it runs to the next column: over at turn0 to lane, up to turn1, over to x1. */
typedef struct cfx__draw_stroke {
    int frame, from; /* coordinates are in frame; the value of item from */
    int x0, y0, turn0, lane, turn1, x1, y1;
    bool head;       /* ends in an arrow */
} cfx__draw_stroke;

struct cfx__draw_plot;

typedef struct cfx__draw_scene {
    const cfx_draw_options *options;
    const char *name;
    cfx__draw_items items;
    VEC(cfx__draw_sheet) sheets;
    VEC(cfx__draw_line) lines;
    VEC(cfx__draw_wire) wires;
    VEC(cfx__draw_leg) legs;
    VEC(cfx__draw_stub) stubs;
    VEC(cfx__draw_stroke) strokes;
    int *legs_of, *first_leg; /* legs by frame: legs_of[first_leg[f] .. first_leg[f + 1]) */
    cfx__text text;           /* of all lines */
    cfx__arena arena;
    cfx__map calls;           /* module path to int: calls so far */
    int depth;                /* modules at this depth are closed */
    int boxes;                /* drawn */
    bool groups;              /* blocks that repeat and sections get items of their own */
    /* called for each frame when its points are in order */
    void (*ordered)(struct cfx__draw_scene *s, const struct cfx__draw_plot *p);
    cfx__text frames;         /* what html.c makes there */
} cfx__draw_scene;

enum {
    CFX__MANY_USES = 8,   /* a value with more consumers is cut */
    CFX__LONG_WIRE = 12,  /* so is a wire across more ranks */
    CFX__READABLE = 200,  /* boxes in a picture of default depth */
    CFX__CROWD = 300,     /* more children of a frame are put in sections */
    CFX__SECTION = 60,    /* of at least so many */
    CFX__ASIDE = 3        /* so many items beside the spine are put in one */
};

/* Each returns false, with an error, where there is nothing to draw. */
bool cfx__draw_scene_make(cfx__draw_scene *s, cfx_graph *g, cfx_module *gm, cfx_program *p,
                          const cfx_draw_options *o);
void cfx__draw_scene_release(cfx__draw_scene *s);

bool cfx__draw_tree(cfx__draw_scene *s, cfx_graph *g, cfx_module *gm, cfx_program *p);
/* Tells what stands on the spine of the program and what beside it. */
void cfx__draw_find_sides(cfx__draw_scene *s);
/* What an item of kind ASIDE is called. */
const char *cfx__draw_side_name(const cfx__draw_scene *s, int i);
/* Drops items that are gone; puts repeated blocks, what is beside the spine and sections in items
 * of their own where s->groups asks for it. */
void cfx__draw_compact(cfx__draw_scene *s);
void cfx__draw_wires(cfx__draw_scene *s);
bool cfx__draw_labels(cfx__draw_scene *s);
void cfx__draw_layout(cfx__draw_scene *s);
/* Labels an open frame anew, as what it is when it is closed; its old lines stay in s->lines. */
void cfx__draw_label_closed(cfx__draw_scene *s, int i);

/* The GraphModule that a get_attr or call_module node names, or NULL: sub-graphs of cond and loops
 * are arguments of the first kind. */
cfx_module *cfx__draw_subgraph(const cfx_module *owner, const cfx_node *n);
/* Whether a frame is to be laid out: open and seen. */
static inline bool cfx__draw_is_frame(const cfx__draw_item *i) { return i->open && i->seen; }
static inline cfx__draw_item *cfx__draw_item_at(cfx__draw_scene *s, int i) {
    return &s->items.data[i];
}

/* ---- one frame ----------------------------------------------------------------------------- */

/* A point of a frame's layered graph: a child, a port in the border, or a bend of a wire that runs
 * past a rank. All arcs lead from a rank to the next. */
typedef struct cfx__draw_point {
    int item;        /* or -1 */
    int net;         /* of a port or bend; -1 for a child */
    int rank, pos;   /* pos: place in its rank, from the left */
    int left, right; /* room to both sides of x */
    double x;
    int top, bottom; /* y; a bend has none between them */
} cfx__draw_point;

typedef struct cfx__draw_arc {
    int from, to, net;
    int exit, entry; /* where it leaves and enters, as distance from the x of its ends */
    int turn0, turn1; /* between which y it goes over */
} cfx__draw_arc;

/* The wires of one value in a frame: a trunk of bends from its source down, and branches. */
typedef struct cfx__draw_net {
    int item;   /* whose value it is */
    int source; /* point */
    int exit;   /* of the source */
    int deepest;
    int trunk;  /* the first bend: one for each rank between the source's and `deepest` */
    int last;   /* the target seen last */
    int out;    /* the port it leaves by, or -1 */
} cfx__draw_net;

struct cfx__draw_rank {
    int column; /* a tall frame is broken into columns, as a newspaper is */
    int y, h;   /* where its column starts; its tallest child */
};

struct cfx__draw_column {
    int first; /* rank */
    int wires; /* how many lead here from the column before */
    int x, w, bottom;
    double shift; /* from the x of points to x in the frame */
};

struct cfx__draw_block { /* points that stand as close as they may */
    double sum, weight;
    int first;
};

typedef struct cfx__draw_plot {
    cfx__draw_scene *s;
    int frame;
    int header; /* height of what stands above */
    VEC(cfx__draw_point) points;
    VEC(cfx__draw_arc) arcs; /* by `to`'s rank, then in order of making */
    VEC(cfx__draw_net) nets;
    VEC(int) out, in;            /* arcs by their from and by their to */
    VEC(int) first_out, first_in; /* by point */
    VEC(int) order, first;       /* points by rank, left to right: order[first[r] .. first[r+1]) */
    VEC(int) best;               /* the order with the fewest crossings so far */
    VEC(double) key;             /* scratch */
    VEC(int) sums;               /* scratch */
    VEC(struct cfx__draw_rank) ranks;
    VEC(struct cfx__draw_column) columns;
    VEC(struct cfx__draw_block) blocks; /* scratch */
    int nranks;
    int *point_of, *net_of;      /* by item; valid where net_of_frame tells so */
    int *net_of_frame;
} cfx__draw_plot;

/* Orders the points of each rank so that few arcs cross. */
void cfx__draw_plot_order(cfx__draw_plot *p);
/* Gives all points, and with them the children of the frame, their coordinates; adds strokes. */
void cfx__draw_plot_place(cfx__draw_plot *p);
/* Gives all points their y, and arcs their turns. Returns the height of the frame. */
int cfx__draw_plot_drop(cfx__draw_plot *p);
/* Whether a rank is ports alone, and at an end. */
bool cfx__draw_is_border(const cfx__draw_plot *p, int rank);

/* ---- parts --------------------------------------------------------------------------------- */

/* What a box is coloured by; asked once for each target of a sheet. */
cfx__draw_family cfx__draw_family_of(cfx__draw_sheet *sheet, const cfx_node *n);
const char *cfx__draw_family_name(cfx__draw_family f);
/* "f32[3, 4]" from a node's metadata; false, and nothing written, where it tells nothing. */
bool cfx__draw_put_shape(cfx__text *out, const cfx_node *n);
void cfx__draw_put_tensor(cfx__text *out, const cfx_tensor *t);
/* What an operator is called in a box: "aten.linear", "cond", "Linear". */
void cfx__draw_put_op(cfx__text *out, const cfx__draw_sheet *sheet, const cfx_node *n);
/* "mlp.c:4" or the innermost line of a stack trace with its code; false where nothing tells. */
bool cfx__draw_put_source(cfx__text *out, const cfx_node *n);
/* Whether a keyword of a call is what it is where nothing is said: files of ONNX write that out. */
bool cfx__draw_is_default(const cfx__schema *schema, const char *name, cfx_value v);
/* What a stub says: the name of the value that comes in; scope or longer. */
const char *cfx__draw_stub_text(const cfx__draw_scene *s, const cfx__draw_item *item, int k);
/* The last part of a dotted path: "Linear" of "torch.nn.modules.linear.Linear". */
const char *cfx__draw_last_part(const char *path);
/* The width of a text in characters of a fixed width. */
int cfx__draw_text_width(const char *text, size_t len);
/* Whether a colour may be put into a drawing. */
bool cfx__draw_is_colour(const char *text);
/* The first of the lines of a text, and what follows it; NULL at the end. */
const char *cfx__draw_next_line(const char *text, size_t *len);

/* The first 32 bits of the MD5 digest, as its first eight hexadecimal digits say them. */
uint32_t cfx__draw_md5(const char *text, size_t len);

/* The viewer with a scene in it, all open. */
bool cfx__draw_write_html(cfx__text *out, cfx__draw_scene *s);
/* A number as JSON has it, and keys for what the numbers of a tensor are like. */
void cfx__draw_put_number(cfx__text *out, double x);
void cfx__draw_put_stats(cfx__text *out, const cfx_tensor *t);
/* Takes down the layered graph of a frame, for the viewer. */
void cfx__draw_html_frame(cfx__draw_scene *s, const cfx__draw_plot *p);
/* The whole picture; g was linted. */
bool cfx__draw_write_svg(cfx__text *out, cfx__draw_scene *s);
bool cfx__draw_write_dot(cfx__text *out, cfx_graph *g, cfx_module *gm, const char *name,
                         const cfx_draw_options *o);

#endif
