/* Two programs compared; see compare.c. */
#ifndef CFX__CLI_COMPARE_H
#define CFX__CLI_COMPARE_H

#include "look.h"

/* What was found at one node. */
typedef struct cli_error {
    bool known;      /* there were two tensors to compare */
    bool beyond;     /* the tolerance */
    double error;    /* the largest */
    double share;    /* of the largest value */
    double decibels; /* INFINITY: no error */
} cli_error;

typedef struct cli_row {
    cfx_node *a, *b; /* a is NULL where the other side is a file of tensors */
    bool changed;
    cli_error all;  /* as the programs run, each by itself */
    cli_error here; /* made by this node: b's node on a's values */
} cli_row;

typedef struct cli_comparison {
    const char *path_a, *path_b;
    cfx_program *a, *b;
    const cfx_executor *on[2]; /* what runs each; NULL: the interpreter, node by node */
    cfx_pairs *pairs;   /* NULL: b is compared with tensors of a file */
    bool ran;           /* rows have errors */
    int n;
    cli_row *rows;      /* in the order of b's nodes */
    int first;          /* the first row that is beyond the tolerance; -1: none */
    int made;           /* the row where most of the difference is made; -1: none */
    cfx_list *inside;   /* (name, error, decibels, share, beyond) of values that both have in their
                           sub-graphs; NULL: not run. Scope */
    cfx_node *bisected; /* what running prefixes found, of b; NULL: not asked, or nothing */
} cli_comparison;

/* Fills in errors by running both on inputs from a file (NULL: none). False, with an error. */
bool cli_compare_runs(cli_comparison *c, const char *inputs, bool bisect);
/* Fills in errors by running b on inputs, against tensors by node name. */
bool cli_compare_tensors(cli_comparison *c, const char *inputs, const char *tensors);
/* Runs both once more, and compares what is inside their sub-graphs. */
void cli_compare_inside(cli_comparison *c, cfx_value in_a, cfx_value in_b);
/* A run of a program on copies of its inputs; scope. */
cfx_value cli_compare_run(cfx_program *p, cfx_value inputs, cfx_interp it);
/* A copy that later writes do not reach; scope. */
cfx_value cli_copy_of(cfx_value v);
/* Adds what two values differ by to an error. */
void cli_add_error(cli_error *e, cfx_value got, cfx_value want);
/* Nodes of b that feed n, through nodes that are not paired: what was added before it; a list of
 * nodes, scope. */
cfx_value cli_added_before(const cli_comparison *c, const cfx_node *n);


#endif
