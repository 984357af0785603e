/* The values of a graph in model.json by their names. */
#ifndef CFX__PT2_NAMES_H
#define CFX__PT2_NAMES_H

#include "pt2.h"

typedef enum cfx__pt2_kind { CFX__PT2_TENSOR, CFX__PT2_SYM, CFX__PT2_OBJECT } cfx__pt2_kind;

/* A value of the graph: what the file says of it, and the node that makes it. */
typedef struct cfx__pt2_name {
    const cfx__json *meta;
    struct cfx__pt2_described *text; /* instead of meta; or NULL */
    cfx__pt2_kind kind;
    cfx_node *node; /* NULL while it is not made */
} cfx__pt2_name;

typedef struct cfx__pt2_names {
    cfx__pt2_reader *r;
    const cfx__pt2_parts *parts; /* NULL: all is in the tree */
    cfx__map all;                /* to cfx__pt2_name */
    cfx__map texts;              /* to descriptions */
    cfx__arena arena;
} cfx__pt2_names;

/* Takes all names from the tables of a graph, and notes the hints of symbols in them. False, with
 * an error. */
bool cfx__pt2_names_read(cfx__pt2_names *names, const cfx__json *graph);
void cfx__pt2_names_release(cfx__pt2_names *names);
/* The metadata "val" of a value; scope, or shared by all that are described alike. Bad, with an
 * error. */
cfx_value cfx__pt2_name_val(cfx__pt2_names *names, const cfx__pt2_name *x);
/* Whether a text may hold hints of symbols. */
bool cfx__pt2_has_hints(const char *text, size_t len);

#endif
