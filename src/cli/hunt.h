/* The hunt for the node that makes NaNs or infinities; see hunt.c. */
#ifndef CFX__CLI_HUNT_H
#define CFX__CLI_HUNT_H

#include "look.h"

#include "../base/base.h"

/* A value with numbers that are not finite. */
typedef struct cli_odd {
    const char *name;    /* with the path of its sub-graph */
    int64_t nans, infs;
    bool makes_nan;      /* no input has one */
    bool makes_inf;      /* all inputs are finite */
    const char *report;  /* of what makes them; NULL: it does not */
    int first, n;        /* its odd inputs: links[first] .. */
} cli_odd;

typedef struct cli_hunt {
    VEC(cli_odd) odd; /* in the order of the run */
    VEC(int) links;
    cfx_dict *by_name; /* to the number of the odd value */
    VEC(int) results;  /* odd values that are results of the program */
} cli_hunt;

/* The value of a node that another reads. */
typedef cfx_value cli_input_fn(const void *user, const cfx_node *n);

void cli_hunt_start(cli_hunt *h);
/* A node has its value. name: that of the node behind `path`, its sub-graph's. */
void cli_hunt_see(cli_hunt *h, const char *path, const cfx_node *n, cfx_value v,
                  cli_input_fn *input, const void *user);
/* Prints the first node that makes what is not finite in a result. Whether there is one. */
bool cli_hunt_end(cli_hunt *h);

#endif
