/* What is looked at while a program runs; see watch.c. */
#ifndef CFX__CLI_WATCH_H
#define CFX__CLI_WATCH_H

#include "hunt.h"

enum { CLI_TAPS = 64 };

/* "op:softmax in [0,1]": the values of nodes that a selector picks lie in a range. */
typedef struct cli_rule {
    const char *text, *selector;
    double low, high;
} cli_rule;

typedef struct cli_watch {
    const char *model;
    const char *taps[CLI_TAPS];
    cli_rule rules[CLI_TAPS];
    int ntaps, nrules;
    bool stats;          /* numbers of tapped values rather than the values */
    bool find_nan;
    const char *save;    /* a file for tapped values; NULL: none */
    cfx_dict *saved;     /* name to tensor */
    cfx_dict *columns;   /* what --stats found, by column */
    cfx_dict *values;    /* of sub-graphs, by name: for the statistics of inputs */
    cfx_dict *hooked;    /* sub-graphs that are looked at */
    int rows;            /* of the table so far */
    cli_hunt hunt;
    bool broken;         /* a rule does not hold, or a NaN reaches a result */
} cli_watch;

/* Reads a rule; false, with an error, where it is none. */
bool cli_watch_rule(cli_watch *w, const char *text);
/* Whether anything is looked at. */
bool cli_watches(const cli_watch *w);
/* Hooks that see the values of sub-graphs are put on; false, with an error, where a selector picks
 * no node of the program. */
bool cli_watch_start(cli_watch *w, cfx_program *p);
/* Whether a value of the program's own graph is looked at, by a tap or a rule. */
bool cli_watch_wants(const cli_watch *w, const cfx_node *n);
/* A value of the program's own graph; `it` has those of its inputs, which the hunt for NaNs needs.
 */
void cli_watch_see(cli_watch *w, cfx_interp *it, const cfx_node *n, cfx_value v);
/* Says and writes what is left to say, and frees what the watch holds; false, with an error. */
bool cli_watch_end(cli_watch *w);

#endif
