/* Sizes that become symbols: what dynamic.c, dynamic_sizes.c and dynamic_nodes.c share. */
#ifndef CFX__DYNAMIC_H
#define CFX__DYNAMIC_H

#include "../run/infer.h"
#include "rewrite.h"

/* A size of an input that varies from now on. */
typedef struct cfx__dynamic_size {
    const char *input; /* the placeholder's name */
    const char *name;  /* what the caller calls it */
    int dim;
    int64_t hint; /* what it is in the program */
    cfx_value symbol;
    bool again; /* an earlier one has the same symbol */
} cfx__dynamic_size;

enum { CFX__DYNAMIC_SIZES = 64 };

/* A node, and what is tried for it. */
typedef struct cfx__dynamic_item {
    cfx_module *module;   /* whose graph it is in */
    cfx_node *node;
    const cfx_node *call; /* of a sub-graph: who calls it */
    int place;            /* among the placeholders; -1: it is none */
    cfx_value args, val;  /* as they were; counted */
    cfx_list *options;    /* arguments that may be what was meant; counted, NULL: not asked */
    int64_t next;         /* the option that is tried next */
    bool blamed;          /* what did not fit depends on it */
} cfx__dynamic_item;

typedef struct cfx__dynamic {
    cfx__dynamic_size sizes[CFX__DYNAMIC_SIZES];
    int nsizes;
    cfx__inference infer;
    VEC(cfx__dynamic_item) items; /* in the order of execution, sub-graphs before their calls */
    cfx_dict *places;             /* node to its number there */
    bool strict;                  /* all results vary that may */
    const cfx_node *pins;         /* the last node that nothing fitted; NULL: none */
    size_t farthest;              /* which of the items that is */
    char why[1024], last[1024];   /* nor what it most probably is; and of the node at hand */
} cfx__dynamic;

/* What was noted of a node at first. */
cfx_value cfx__dynamic_was(const cfx__dynamic *d, const cfx_node *n);
/* What the arguments of a call may be, the most probable first: with its numbers as they are, or as
 * sizes that are so in the example. Scope. */
cfx_list *cfx__dynamic_options(cfx__dynamic *d, const cfx__dynamic_item *it);
/* Whether a call that takes nothing which varies may make something that does. */
bool cfx__dynamic_creates(cfx__dynamic *d, const cfx__dynamic_item *it);
/* Of a module's graph: expressions among arguments become nodes (for cfx_module_walk). */
void cfx__dynamic_reify(const char *path, cfx_module *m, void *none);

#endif
