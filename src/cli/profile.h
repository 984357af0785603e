/* When each kernel of a run ran, and what was alive then; see profile.c and memory.c. */
#ifndef CFX__CLI_PROFILE_H
#define CFX__CLI_PROFILE_H

#include "look.h"

typedef struct cli_times {
    const cfx_node *node; /* the first that it computes */
    double start, end;    /* microseconds from the start of the run */
    double time;          /* microseconds: the median of all runs */
    int64_t flops, bytes; /* of all its nodes; bytes that it reads and writes at least */
    int64_t live;         /* bytes alive at them; -1: not known */
    const char *kernel, *nodes, *result; /* "product in tiles", "linear, relu", "f32[3, 4]"; in
                                            `texts` */
} cli_times;

/* What the machine reaches: FLOP and bytes a microsecond. */
typedef struct cli_machine {
    double flops, bytes;
} cli_machine;

typedef struct cli_profile {
    cfx_program *program;
    cfx_cost *cost;   /* at the sizes of this run; NULL: not known */
    cfx__map at;      /* by name: the number of a node's cost, and one */
    VEC(cli_times) rows;
    VEC(double) before; /* times of earlier runs, as many as there are rows each */
    double start;       /* of the last run: microseconds of the clock */
    int runs;           /* those in `before` */
    cfx_dict *sizes;    /* what symbols are in this run */
    cli_machine machine; /* once it was measured */
    cfx__arena texts;
} cli_profile;

/* Gets ready for a run on these inputs, all of the program's. */
void cli_profile_start(cli_profile *p, cfx_program *program, cfx_value inputs);
/* One more run begins: times of the one before are kept for the median. */
void cli_profile_begin(cli_profile *p);
/* Takes down what ended now, `end` microseconds after the start of the run. */
void cli_profile_add(cli_profile *p, const cfx_ran *r, double end);
/* Prints time by kernel, as a tree of modules and the slowest kernels with their nodes, beside
 * FLOPs, bytes and the share of what the machine can do, which is measured. */
void cli_profile_print(cli_profile *p);
/* The bytes that a kernel of these nodes reads and writes at least. */
int64_t cli_traffic(const cli_profile *p, int n, const cfx_node *const *nodes);
/* How long the machine would need: for the arithmetic, and for the memory. */
double cli_limit(const cli_machine *m, const cli_times *t, bool *memory);
/* Prints the tree of modules, blocks that are alike as one. */
void cli_profile_tree(const cli_profile *p, const cli_machine *m, double total);
/* Writes a Chrome trace with the times of kernels as a column; `columns` are more of them. */
bool cli_profile_write(cli_profile *p, const char *path, const cfx_dict *columns);
/* Draws the bytes alive over the program, and what is alive at the peak. */
bool cli_memory_write(const cli_profile *p, const char *path);
void cli_profile_end(cli_profile *p);

#endif
